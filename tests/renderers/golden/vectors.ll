define void @"vectors"(ptr %buffers, ptr %variables) nounwind {
entry:
  %data0.at = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %data0.at
  %data1.at = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %data1.at
  br label %start
start:
  br label %i1.body
i1.body:
  %i1 = phi i32 [ 0, %start ], [ %i1.next, %i1.latch ]
  %v2 = mul nsw i32 %i1, 4
  %at3 = getelementptr inbounds float, ptr %data0, i32 %v2
  %at4 = getelementptr inbounds float, ptr %data1, i32 %v2
  %v5 = load <4 x float>, ptr %at4, align 4
  %v6 = shufflevector <4 x float> %v5, <4 x float> poison, <4 x i32> <i32 3, i32 2, i32 1, i32 0>
  %v7 = fadd <4 x float> %v6, <float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000, float 0x4000000000000000>
  %v8 = fcmp olt <4 x float> %v5, %v7
  %v9 = select <4 x i1> %v8, <4 x float> %v7, <4 x float> %v5
  %v10 = extractelement <4 x float> %v9, i32 0
  %v11 = call float @sinf(float %v10) nobuiltin
  %v12 = insertelement <4 x float> poison, float %v11, i32 0
  %v13 = extractelement <4 x float> %v9, i32 1
  %v14 = call float @sinf(float %v13) nobuiltin
  %v15 = insertelement <4 x float> %v12, float %v14, i32 1
  %v16 = extractelement <4 x float> %v9, i32 2
  %v17 = call float @sinf(float %v16) nobuiltin
  %v18 = insertelement <4 x float> %v15, float %v17, i32 2
  %v19 = extractelement <4 x float> %v9, i32 3
  %v20 = call float @sinf(float %v19) nobuiltin
  %v21 = insertelement <4 x float> %v18, float %v20, i32 3
  %v22 = extractelement <4 x float> %v21, i32 1
  %v23 = extractelement <4 x float> %v21, i32 0
  %v24 = extractelement <4 x float> %v21, i32 2
  %v25 = insertelement <4 x float> poison, float %v22, i32 0
  %v26 = insertelement <4 x float> %v25, float %v22, i32 1
  %v27 = insertelement <4 x float> %v26, float %v23, i32 2
  %v28 = insertelement <4 x float> %v27, float %v24, i32 3
  store <4 x float> %v28, ptr %at3, align 4
  br label %i1.latch
i1.latch:
  %i1.next = add nuw nsw i32 %i1, 1
  %i1.more = icmp slt i32 %i1.next, 4
  br i1 %i1.more, label %i1.body, label %i1.exit
i1.exit:
  ret void
}
declare float @sinf(float) nounwind
