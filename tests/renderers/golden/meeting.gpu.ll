@"meeting.info" = constant [333 x i8] c"{\22memories\22: [{\22name\22: \22data0\22, \22elements\22: 4, \22itemsize\22: 4, \22is_written\22: true, \22offset\22: null}, {\22name\22: \22data1\22, \22elements\22: 4, \22itemsize\22: 4, \22is_written\22: false, \22offset\22: null}, {\22name\22: \22shared\22, \22elements\22: 4, \22itemsize\22: 4, \22is_written\22: true, \22offset\22: 0}], \22accesses\22: [], \22barriers\22: 1, \22tiles\22: 0, \22exchange_bytes\22: 0}\00"
define ptr @"meeting.item"(ptr %launch, ptr %frame, i32 %item0, i32 %item1, i32 %item2) presplitcoroutine nounwind {
entry:
  %frame.at = getelementptr i64, ptr %launch, i64 18
  %coroutine = call token @llvm.coro.id(i32 0, ptr null, ptr null, ptr null)
  %is.question = icmp eq ptr %frame, null
  br i1 %is.question, label %question, label %begin
question:
  %frame.bytes = call i64 @llvm.coro.size.i64()
  store i64 %frame.bytes, ptr %frame.at
  ret ptr null
begin:
  %handle = call ptr @llvm.coro.begin(token %coroutine, ptr %frame)
  %buffers.at = getelementptr i64, ptr %launch, i64 0
  %buffers = load ptr, ptr %buffers.at
  %variables.at = getelementptr i64, ptr %launch, i64 1
  %variables = load ptr, ptr %variables.at
  %shared.at = getelementptr i64, ptr %launch, i64 2
  %shared = load ptr, ptr %shared.at
  %barrier.at = getelementptr i64, ptr %launch, i64 14
  %local1 = getelementptr i8, ptr %shared, i64 0
  %data1.at = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %data1.at
  %data0.at = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %data0.at
  br label %start
start:
  %at2 = getelementptr inbounds i32, ptr %local1, i32 %item0
  %at3 = getelementptr inbounds i32, ptr %data1, i32 %item0
  %v4 = load i32, ptr %at3, align 4
  store i32 %v4, ptr %at2, align 4
  store i64 1, ptr %barrier.at
  %resumed5 = call i8 @llvm.coro.suspend(token none, i1 false)
  switch i8 %resumed5, label %suspend [i8 0, label %resumed5.go i8 1, label %cleanup]
resumed5.go:
  %at6 = getelementptr inbounds i32, ptr %data0, i32 %item0
  %v7 = sub nsw i32 3, %item0
  %at8 = getelementptr inbounds i32, ptr %local1, i32 %v7
  %v9 = load i32, ptr %at8, align 4
  store i32 %v9, ptr %at6, align 4
  store i64 0, ptr %barrier.at
  %last = call i8 @llvm.coro.suspend(token none, i1 true)
  switch i8 %last, label %suspend [i8 0, label %over i8 1, label %cleanup]
over:
  unreachable
cleanup:
  br label %suspend
suspend:
  call void @llvm.coro.end(ptr %handle, i1 false, token none)
  ret ptr %handle
}
define void @"meeting"(ptr %launch) nounwind {
  call void @tinyref_run_items(ptr %launch, ptr @"meeting.item")
  ret void
}
declare i64 @llvm.coro.size.i64()
declare i8 @llvm.coro.suspend(token, i1)
declare ptr @llvm.coro.begin(token, ptr)
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare void @llvm.coro.end(ptr, i1, token)
declare void @tinyref_run_items(ptr, ptr)
