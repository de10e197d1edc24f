define void @"panel"(ptr %buffers, ptr %variables) nounwind {
entry:
  %local1 = alloca [4 x float], align 64
  %data0.at = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %data0.at
  %data1.at = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %data1.at
  %group2.at = getelementptr i32, ptr %variables, i64 0
  %group2 = load i32, ptr %group2.at
  br label %start
start:
  %v3 = mul nsw i32 %group2, 4
  br label %i4.body
i4.body:
  %i4 = phi i32 [ 0, %start ], [ %i4.next, %i4.latch ]
  %at5 = getelementptr inbounds float, ptr %local1, i32 %i4
  %v6 = add nsw i32 %v3, %i4
  %at7 = getelementptr inbounds float, ptr %data1, i32 %v6
  %v8 = load float, ptr %at7, align 4
  store float %v8, ptr %at5, align 4
  br label %i4.latch
i4.latch:
  %i4.next = add nuw nsw i32 %i4, 1
  %i4.more = icmp slt i32 %i4.next, 4
  br i1 %i4.more, label %i4.body, label %i4.exit
i4.exit:
  br label %i9.body
i9.body:
  %i9 = phi i32 [ 0, %i4.exit ], [ %i9.next, %i9.latch ]
  %v10 = add nsw i32 %v3, %i9
  %at11 = getelementptr inbounds float, ptr %data0, i32 %v10
  %v12 = sub nsw i32 3, %i9
  %at13 = getelementptr inbounds float, ptr %local1, i32 %v12
  %v14 = load float, ptr %at13, align 4
  store float %v14, ptr %at11, align 4
  br label %i9.latch
i9.latch:
  %i9.next = add nuw nsw i32 %i9, 1
  %i9.more = icmp slt i32 %i9.next, 4
  br i1 %i9.more, label %i9.body, label %i9.exit
i9.exit:
  ret void
}
