define void @"gated_copy"(ptr %buffers, ptr %variables) nounwind {
entry:
  %constant6 = alloca float
  %data0.at = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %data0.at
  %var1.at = getelementptr i32, ptr %variables, i64 0
  %var1.i32 = load i32, ptr %var1.at
  %var1 = bitcast i32 %var1.i32 to i32
  %data1.at = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %data1.at
  store float 0x8000000000000000, ptr %constant6
  %data2.at = getelementptr ptr, ptr %buffers, i64 2
  %data2 = load ptr, ptr %data2.at
  br label %start
start:
  br label %i2.body
i2.body:
  %i2 = phi i32 [ 0, %start ], [ %i2.next, %i2.latch ]
  %at3 = getelementptr inbounds float, ptr %data0, i32 %i2
  %at4 = getelementptr inbounds float, ptr %data1, i32 %i2
  %v5 = icmp slt i32 %i2, 40
  %at7 = select i1 %v5, ptr %at4, ptr %constant6
  %v8 = load float, ptr %at7, align 4
  %at9 = getelementptr inbounds i8, ptr %data2, i32 %i2
  %v10 = load i8, ptr %at9, align 1
  %v11 = icmp ne i8 %v10, zeroinitializer
  br i1 %v11, label %store12.do, label %store12.end
store12.do:
  store float %v8, ptr %at3, align 4
  br label %store12.end
store12.end:
  br label %i2.latch
i2.latch:
  %i2.next = add nuw nsw i32 %i2, 1
  %i2.more = icmp slt i32 %i2.next, %var1
  br i1 %i2.more, label %i2.body, label %i2.exit
i2.exit:
  ret void
}
