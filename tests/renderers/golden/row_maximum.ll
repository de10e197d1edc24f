define void @"row_maximum"(ptr %buffers, ptr %variables) nounwind {
entry:
  %acc2 = alloca float
  %data1.at = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %data1.at
  %data0.at = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %data0.at
  br label %start
start:
  br label %i1.body
i1.body:
  %i1 = phi i32 [ 0, %start ], [ %i1.next, %i1.latch ]
  store float 0xFFF0000000000000, ptr %acc2
  %v3 = mul nsw i32 %i1, 8
  br label %i4.body
i4.body:
  %i4 = phi i32 [ 0, %i1.body ], [ %i4.next, %i4.latch ]
  %v5 = add nsw i32 %v3, %i4
  %at6 = getelementptr inbounds float, ptr %data1, i32 %v5
  %v7 = load float, ptr %at6, align 4
  %v8 = load float, ptr %acc2
  %v9 = fcmp olt float %v8, %v7
  %v10 = select i1 %v9, float %v7, float %v8
  store float %v10, ptr %acc2
  br label %i4.latch
i4.latch:
  %i4.next = add nuw nsw i32 %i4, 1
  %i4.more = icmp slt i32 %i4.next, 8
  br i1 %i4.more, label %i4.body, label %i4.exit
i4.exit:
  %at11 = getelementptr inbounds float, ptr %data0, i32 %i1
  %v12 = load float, ptr %acc2
  store float %v12, ptr %at11, align 4
  br label %i1.latch
i1.latch:
  %i1.next = add nuw nsw i32 %i1, 1
  %i1.more = icmp slt i32 %i1.next, 4
  br i1 %i1.more, label %i1.body, label %i1.exit
i1.exit:
  ret void
}
