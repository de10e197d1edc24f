@"panel.info" = constant [334 x i8] c"{\22memories\22: [{\22name\22: \22data0\22, \22elements\22: 12, \22itemsize\22: 4, \22is_written\22: true, \22offset\22: null}, {\22name\22: \22data1\22, \22elements\22: 12, \22itemsize\22: 4, \22is_written\22: false, \22offset\22: null}, {\22name\22: \22panel\22, \22elements\22: 4, \22itemsize\22: 4, \22is_written\22: true, \22offset\22: 0}], \22accesses\22: [], \22barriers\22: 0, \22tiles\22: 0, \22exchange_bytes\22: 0}\00"
define void @"panel"(ptr %launch) nounwind {
entry:
  %buffers.at = getelementptr i64, ptr %launch, i64 0
  %buffers = load ptr, ptr %buffers.at
  %variables.at = getelementptr i64, ptr %launch, i64 1
  %variables = load ptr, ptr %variables.at
  %shared.at = getelementptr i64, ptr %launch, i64 2
  %shared = load ptr, ptr %shared.at
  %group0.i64.at = getelementptr i64, ptr %launch, i64 9
  %group0.i64 = load i64, ptr %group0.i64.at
  %group0 = trunc i64 %group0.i64 to i32
  %reverse.i64.at = getelementptr i64, ptr %launch, i64 12
  %reverse.i64 = load i64, ptr %reverse.i64.at
  %item.at = getelementptr i64, ptr %launch, i64 13
  %reverse = trunc i64 %reverse.i64 to i32
  %twice = mul i32 %reverse, 2
  %step = sub i32 1, %twice
  %items0.i64.at = getelementptr i64, ptr %launch, i64 6
  %items0.i64 = load i64, ptr %items0.i64.at
  %items0 = trunc i64 %items0.i64 to i32
  %last0 = sub i32 %items0, 1
  %first0 = mul i32 %reverse, %last0
  %items1.i64.at = getelementptr i64, ptr %launch, i64 7
  %items1.i64 = load i64, ptr %items1.i64.at
  %items1 = trunc i64 %items1.i64 to i32
  %last1 = sub i32 %items1, 1
  %first1 = mul i32 %reverse, %last1
  %items2.i64.at = getelementptr i64, ptr %launch, i64 8
  %items2.i64 = load i64, ptr %items2.i64.at
  %items2 = trunc i64 %items2.i64 to i32
  %last2 = sub i32 %items2, 1
  %first2 = mul i32 %reverse, %last2
  %data0.at = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %data0.at
  %data1.at = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %data1.at
  %local1 = getelementptr i8, ptr %shared, i64 0
  br label %loop2
loop2:
  %count2 = phi i32 [ 0, %entry ], [ %count2.next, %next2 ]
  %walked2 = mul i32 %count2, %step
  %item2 = add i32 %first2, %walked2
  br label %loop1
loop1:
  %count1 = phi i32 [ 0, %loop2 ], [ %count1.next, %next1 ]
  %walked1 = mul i32 %count1, %step
  %item1 = add i32 %first1, %walked1
  br label %loop0
loop0:
  %count0 = phi i32 [ 0, %loop1 ], [ %count0.next, %next0 ]
  %walked0 = mul i32 %count0, %step
  %item0 = add i32 %first0, %walked0
  br label %start
start:
  %v2 = mul nsw i32 %group0, 4
  br label %i3.body
i3.body:
  %i3 = phi i32 [ 0, %start ], [ %i3.next, %i3.latch ]
  %at4 = getelementptr inbounds float, ptr %local1, i32 %i3
  %v5 = add nsw i32 %v2, %i3
  %at6 = getelementptr inbounds float, ptr %data1, i32 %v5
  %v7 = load float, ptr %at6, align 4
  store float %v7, ptr %at4, align 4
  br label %i3.latch
i3.latch:
  %i3.next = add nuw nsw i32 %i3, 1
  %i3.more = icmp slt i32 %i3.next, 4
  br i1 %i3.more, label %i3.body, label %i3.exit
i3.exit:
  br label %i8.body
i8.body:
  %i8 = phi i32 [ 0, %i3.exit ], [ %i8.next, %i8.latch ]
  %v9 = add nsw i32 %v2, %i8
  %at10 = getelementptr inbounds float, ptr %data0, i32 %v9
  %v11 = sub nsw i32 3, %i8
  %at12 = getelementptr inbounds float, ptr %local1, i32 %v11
  %v13 = load float, ptr %at12, align 4
  store float %v13, ptr %at10, align 4
  br label %i8.latch
i8.latch:
  %i8.next = add nuw nsw i32 %i8, 1
  %i8.more = icmp slt i32 %i8.next, 4
  br i1 %i8.more, label %i8.body, label %i8.exit
i8.exit:
  br label %next0
next0:
  %count0.next = add nuw nsw i32 %count0, 1
  %more0 = icmp slt i32 %count0.next, %items0
  br i1 %more0, label %loop0, label %next1
next1:
  %count1.next = add nuw nsw i32 %count1, 1
  %more1 = icmp slt i32 %count1.next, %items1
  br i1 %more1, label %loop1, label %next2
next2:
  %count2.next = add nuw nsw i32 %count2, 1
  %more2 = icmp slt i32 %count2.next, %items2
  br i1 %more2, label %loop2, label %done
done:
  ret void
}
