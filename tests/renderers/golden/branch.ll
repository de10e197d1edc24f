define void @"branch"(ptr %buffers, ptr %variables) nounwind {
entry:
  %var1.at = getelementptr i32, ptr %variables, i64 0
  %var1.i32 = load i32, ptr %var1.at
  %var1 = bitcast i32 %var1.i32 to i32
  %data0.at = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %data0.at
  br label %start
start:
  %v2 = icmp slt i32 %var1, 5
  br i1 %v2, label %if3.then, label %if3.end
if3.then:
  %at4 = getelementptr inbounds i32, ptr %data0, i32 0
  store i32 %var1, ptr %at4, align 4
  br label %if3.end
if3.end:
  ret void
}
