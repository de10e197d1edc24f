define void @"conversions"(ptr %buffers, ptr %variables) nounwind {
entry:
  %data0.at = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %data0.at
  %data1.at = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %data1.at
  %data2.at = getelementptr ptr, ptr %buffers, i64 2
  %data2 = load ptr, ptr %data2.at
  %data3.at = getelementptr ptr, ptr %buffers, i64 3
  %data3 = load ptr, ptr %data3.at
  br label %start
start:
  br label %i1.body
i1.body:
  %i1 = phi i32 [ 0, %start ], [ %i1.next, %i1.latch ]
  %at2 = getelementptr inbounds i32, ptr %data0, i32 %i1
  %at3 = getelementptr inbounds double, ptr %data1, i32 %i1
  %v4 = load double, ptr %at3, align 8
  %v5 = fcmp une double %v4, %v4
  %v6 = call i8 @llvm.fptosi.sat.i8.f64(double %v4)
  %v7 = and i8 %v6, 7
  %v8 = shl i8 %v6, %v7
  %v9 = and i8 3, 7
  %v10 = ashr i8 %v8, %v9
  %v11 = sitofp i8 %v10 to float
  %v12 = bitcast float %v11 to i32
  %v13 = select i1 %v5, i32 4294967295, i32 %v12
  store i32 %v13, ptr %at2, align 4
  %at14 = getelementptr inbounds double, ptr %data2, i32 %i1
  %v15 = call double @pow(double %v4, double 0x7FF8000000000000) nobuiltin
  %v16 = call double @llvm.sqrt.f64(double %v15)
  store double %v16, ptr %at14, align 8
  %at17 = getelementptr inbounds i8, ptr %data3, i32 %i1
  %v18 = fcmp une double %v4, zeroinitializer
  %v19 = icmp slt i32 -2147483648, %i1
  %v20 = and i1 %v18, %v19
  %v21 = zext i1 %v20 to i8
  store i8 %v21, ptr %at17, align 1
  br label %i1.latch
i1.latch:
  %i1.next = add nuw nsw i32 %i1, 1
  %i1.more = icmp slt i32 %i1.next, 16
  br i1 %i1.more, label %i1.body, label %i1.exit
i1.exit:
  ret void
}
declare double @llvm.sqrt.f64(double) nounwind
declare double @pow(double, double) nounwind
declare i8 @llvm.fptosi.sat.i8.f64(double) nounwind
