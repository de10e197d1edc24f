LOAD bool x1:
    %data0.at = getelementptr ptr, ptr %buffers, i64 0
    %data0 = load ptr, ptr %data0.at
    %data1.at = getelementptr ptr, ptr %buffers, i64 1
    %data1 = load ptr, ptr %data1.at
    %at1 = getelementptr inbounds i8, ptr %data0, i32 0
    %at2 = getelementptr inbounds i8, ptr %data1, i32 0
    %v3 = load i8, ptr %at2, align 1
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v5 = zext i1 %v4 to i8
    store i8 %v5, ptr %at1, align 1
AND bool x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v7 = icmp ne i8 %v6, zeroinitializer
    %v8 = and i1 %v4, %v7
    %v9 = zext i1 %v8 to i8
CMPLT bool x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v7 = icmp ne i8 %v6, zeroinitializer
    %v8 = icmp ult i1 %v4, %v7
    %v9 = zext i1 %v8 to i8
CMPNE bool x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v7 = icmp ne i8 %v6, zeroinitializer
    %v8 = icmp ne i1 %v4, %v7
    %v9 = zext i1 %v8 to i8
MAX bool x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v7 = icmp ne i8 %v6, zeroinitializer
    %v8 = or i1 %v4, %v7
    %v9 = zext i1 %v8 to i8
OR bool x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v7 = icmp ne i8 %v6, zeroinitializer
    %v8 = or i1 %v4, %v7
    %v9 = zext i1 %v8 to i8
XOR bool x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v7 = icmp ne i8 %v6, zeroinitializer
    %v8 = xor i1 %v4, %v7
    %v9 = zext i1 %v8 to i8
WHERE bool x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v7 = icmp ne i8 %v6, zeroinitializer
    %v10 = icmp ne i8 %v9, zeroinitializer
    %v11 = select i1 %v4, i1 %v7, i1 %v10
    %v12 = zext i1 %v11 to i8
CAST bool to uint8 x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v5 = zext i1 %v4 to i8
BITCAST bool to uint8 x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v5 = zext i1 %v4 to i8
CAST bool to int16 x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v5 = zext i1 %v4 to i16
CAST bool to int64 x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v5 = zext i1 %v4 to i64
CAST bool to float16 x1: refused, dtype: float16 has no LLVM type here
CAST bool to float32 x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v5 = uitofp i1 %v4 to float
LOAD uint8 x1:
    %data0.at = getelementptr ptr, ptr %buffers, i64 0
    %data0 = load ptr, ptr %data0.at
    %data1.at = getelementptr ptr, ptr %buffers, i64 1
    %data1 = load ptr, ptr %data1.at
    %at1 = getelementptr inbounds i8, ptr %data0, i32 0
    %at2 = getelementptr inbounds i8, ptr %data1, i32 0
    %v3 = load i8, ptr %at2, align 1
    store i8 %v3, ptr %at1, align 1
ADD uint8 x1:
    %v6 = add i8 %v3, %v5
AND uint8 x1:
    %v6 = and i8 %v3, %v5
CMPLT uint8 x1:
    %v6 = icmp ult i8 %v3, %v5
    %v7 = zext i1 %v6 to i8
CMPNE uint8 x1:
    %v6 = icmp ne i8 %v3, %v5
    %v7 = zext i1 %v6 to i8
IDIV uint8 x1:
    %v6 = udiv i8 %v3, %v5
MAX uint8 x1:
    %v6 = icmp ult i8 %v3, %v5
    %v7 = select i1 %v6, i8 %v5, i8 %v3
MOD uint8 x1:
    %v6 = urem i8 %v3, %v5
MUL uint8 x1:
    %v6 = mul i8 %v3, %v5
NEG uint8 x1:
    %v4 = sub i8 0, %v3
OR uint8 x1:
    %v6 = or i8 %v3, %v5
SHL uint8 x1:
    %v6 = and i8 %v5, 7
    %v7 = shl i8 %v3, %v6
SHR uint8 x1:
    %v6 = and i8 %v5, 7
    %v7 = lshr i8 %v3, %v6
SUB uint8 x1:
    %v6 = sub i8 %v3, %v5
XOR uint8 x1:
    %v6 = xor i8 %v3, %v5
WHERE uint8 x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v9 = select i1 %v4, i8 %v6, i8 %v8
CAST uint8 to bool x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v5 = zext i1 %v4 to i8
CAST uint8 to int16 x1:
    %v4 = zext i8 %v3 to i16
CAST uint8 to int64 x1:
    %v4 = zext i8 %v3 to i64
CAST uint8 to float16 x1: refused, dtype: float16 has no LLVM type here
CAST uint8 to float32 x1:
    %v4 = uitofp i8 %v3 to float
LOAD int16 x1:
    %data0.at = getelementptr ptr, ptr %buffers, i64 0
    %data0 = load ptr, ptr %data0.at
    %data1.at = getelementptr ptr, ptr %buffers, i64 1
    %data1 = load ptr, ptr %data1.at
    %at1 = getelementptr inbounds i16, ptr %data0, i32 0
    %at2 = getelementptr inbounds i16, ptr %data1, i32 0
    %v3 = load i16, ptr %at2, align 2
    store i16 %v3, ptr %at1, align 2
ADD int16 x1:
    %v6 = add i16 %v3, %v5
AND int16 x1:
    %v6 = and i16 %v3, %v5
CMPLT int16 x1:
    %v6 = icmp slt i16 %v3, %v5
    %v7 = zext i1 %v6 to i8
CMPNE int16 x1:
    %v6 = icmp ne i16 %v3, %v5
    %v7 = zext i1 %v6 to i8
IDIV int16 x1:
    %v6 = sdiv i16 %v3, %v5
MAX int16 x1:
    %v6 = icmp slt i16 %v3, %v5
    %v7 = select i1 %v6, i16 %v5, i16 %v3
MOD int16 x1:
    %v6 = srem i16 %v3, %v5
MUL int16 x1:
    %v6 = mul i16 %v3, %v5
NEG int16 x1:
    %v4 = sub i16 0, %v3
OR int16 x1:
    %v6 = or i16 %v3, %v5
SHL int16 x1:
    %v6 = and i16 %v5, 15
    %v7 = shl i16 %v3, %v6
SHR int16 x1:
    %v6 = and i16 %v5, 15
    %v7 = ashr i16 %v3, %v6
SUB int16 x1:
    %v6 = sub i16 %v3, %v5
XOR int16 x1:
    %v6 = xor i16 %v3, %v5
WHERE int16 x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v9 = select i1 %v4, i16 %v6, i16 %v8
CAST int16 to bool x1:
    %v4 = icmp ne i16 %v3, zeroinitializer
    %v5 = zext i1 %v4 to i8
CAST int16 to uint8 x1:
    %v4 = trunc i16 %v3 to i8
CAST int16 to int64 x1:
    %v4 = sext i16 %v3 to i64
CAST int16 to float16 x1: refused, dtype: float16 has no LLVM type here
BITCAST int16 to float16 x1: refused, dtype: float16 has no LLVM type here
CAST int16 to float32 x1:
    %v4 = sitofp i16 %v3 to float
LOAD int64 x1:
    %data0.at = getelementptr ptr, ptr %buffers, i64 0
    %data0 = load ptr, ptr %data0.at
    %data1.at = getelementptr ptr, ptr %buffers, i64 1
    %data1 = load ptr, ptr %data1.at
    %at1 = getelementptr inbounds i64, ptr %data0, i32 0
    %at2 = getelementptr inbounds i64, ptr %data1, i32 0
    %v3 = load i64, ptr %at2, align 8
    store i64 %v3, ptr %at1, align 8
ADD int64 x1:
    %v6 = add i64 %v3, %v5
AND int64 x1:
    %v6 = and i64 %v3, %v5
CMPLT int64 x1:
    %v6 = icmp slt i64 %v3, %v5
    %v7 = zext i1 %v6 to i8
CMPNE int64 x1:
    %v6 = icmp ne i64 %v3, %v5
    %v7 = zext i1 %v6 to i8
IDIV int64 x1:
    %v6 = sdiv i64 %v3, %v5
MAX int64 x1:
    %v6 = icmp slt i64 %v3, %v5
    %v7 = select i1 %v6, i64 %v5, i64 %v3
MOD int64 x1:
    %v6 = srem i64 %v3, %v5
MUL int64 x1:
    %v6 = mul i64 %v3, %v5
NEG int64 x1:
    %v4 = sub i64 0, %v3
OR int64 x1:
    %v6 = or i64 %v3, %v5
SHL int64 x1:
    %v6 = and i64 %v5, 63
    %v7 = shl i64 %v3, %v6
SHR int64 x1:
    %v6 = and i64 %v5, 63
    %v7 = ashr i64 %v3, %v6
SUB int64 x1:
    %v6 = sub i64 %v3, %v5
XOR int64 x1:
    %v6 = xor i64 %v3, %v5
WHERE int64 x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v9 = select i1 %v4, i64 %v6, i64 %v8
CAST int64 to bool x1:
    %v4 = icmp ne i64 %v3, zeroinitializer
    %v5 = zext i1 %v4 to i8
CAST int64 to uint8 x1:
    %v4 = trunc i64 %v3 to i8
CAST int64 to int16 x1:
    %v4 = trunc i64 %v3 to i16
CAST int64 to float16 x1: refused, dtype: float16 has no LLVM type here
CAST int64 to float32 x1:
    %v4 = sitofp i64 %v3 to float
LOAD float16 x1: refused, dtype: float16 has no LLVM type here
ADD float16 x1: refused, dtype: float16 has no LLVM type here
CMPLT float16 x1: refused, dtype: float16 has no LLVM type here
CMPNE float16 x1: refused, dtype: float16 has no LLVM type here
EXP2 float16 x1: refused, dtype: float16 has no LLVM type here
FDIV float16 x1: refused, dtype: float16 has no LLVM type here
LOG2 float16 x1: refused, dtype: float16 has no LLVM type here
MAX float16 x1: refused, dtype: float16 has no LLVM type here
MUL float16 x1: refused, dtype: float16 has no LLVM type here
NEG float16 x1: refused, dtype: float16 has no LLVM type here
POW float16 x1: refused, dtype: float16 has no LLVM type here
RECIP float16 x1: refused, dtype: float16 has no LLVM type here
SIN float16 x1: refused, dtype: float16 has no LLVM type here
SQRT float16 x1: refused, dtype: float16 has no LLVM type here
SUB float16 x1: refused, dtype: float16 has no LLVM type here
TRUNC float16 x1: refused, dtype: float16 has no LLVM type here
WHERE float16 x1: refused, dtype: float16 has no LLVM type here
CAST float16 to bool x1: refused, dtype: float16 has no LLVM type here
CAST float16 to uint8 x1: refused, dtype: float16 has no LLVM type here
CAST float16 to int16 x1: refused, dtype: float16 has no LLVM type here
BITCAST float16 to int16 x1: refused, dtype: float16 has no LLVM type here
CAST float16 to int64 x1: refused, dtype: float16 has no LLVM type here
CAST float16 to float32 x1: refused, dtype: float16 has no LLVM type here
LOAD float32 x1:
    %data0.at = getelementptr ptr, ptr %buffers, i64 0
    %data0 = load ptr, ptr %data0.at
    %data1.at = getelementptr ptr, ptr %buffers, i64 1
    %data1 = load ptr, ptr %data1.at
    %at1 = getelementptr inbounds float, ptr %data0, i32 0
    %at2 = getelementptr inbounds float, ptr %data1, i32 0
    %v3 = load float, ptr %at2, align 4
    store float %v3, ptr %at1, align 4
ADD float32 x1:
    %v6 = fadd float %v3, %v5
CMPLT float32 x1:
    %v6 = fcmp olt float %v3, %v5
    %v7 = zext i1 %v6 to i8
CMPNE float32 x1:
    %v6 = fcmp une float %v3, %v5
    %v7 = zext i1 %v6 to i8
EXP2 float32 x1:
    %v4 = call float @exp2f(float %v3) nobuiltin
FDIV float32 x1:
    %v6 = fdiv float %v3, %v5
LOG2 float32 x1:
    %v4 = call float @log2f(float %v3) nobuiltin
MAX float32 x1:
    %v6 = fcmp olt float %v3, %v5
    %v7 = select i1 %v6, float %v5, float %v3
MUL float32 x1:
    %v6 = fmul float %v3, %v5
NEG float32 x1:
    %v4 = fneg float %v3
POW float32 x1:
    %v6 = call float @powf(float %v3, float %v5) nobuiltin
RECIP float32 x1:
    %v4 = fdiv float 0x3FF0000000000000, %v3
SIN float32 x1:
    %v4 = call float @sinf(float %v3) nobuiltin
SQRT float32 x1:
    %v4 = call float @llvm.sqrt.f32(float %v3)
SUB float32 x1:
    %v6 = fsub float %v3, %v5
TRUNC float32 x1:
    %v4 = call float @llvm.trunc.f32(float %v3)
WHERE float32 x1:
    %v4 = icmp ne i8 %v3, zeroinitializer
    %v9 = select i1 %v4, float %v6, float %v8
CAST float32 to bool x1:
    %v4 = fcmp une float %v3, zeroinitializer
    %v5 = zext i1 %v4 to i8
CAST float32 to uint8 x1:
    %v4 = call i8 @llvm.fptoui.sat.i8.f32(float %v3)
CAST float32 to int16 x1:
    %v4 = call i16 @llvm.fptosi.sat.i16.f32(float %v3)
CAST float32 to int64 x1:
    %v4 = call i64 @llvm.fptosi.sat.i64.f32(float %v3)
CAST float32 to float16 x1: refused, dtype: float16 has no LLVM type here
LOAD bool x4:
    %data0.at = getelementptr ptr, ptr %buffers, i64 0
    %data0 = load ptr, ptr %data0.at
    %data1.at = getelementptr ptr, ptr %buffers, i64 1
    %data1 = load ptr, ptr %data1.at
    %at1 = getelementptr inbounds i8, ptr %data0, i32 0
    %at2 = getelementptr inbounds i8, ptr %data1, i32 0
    %v3 = load <4 x i8>, ptr %at2, align 1
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v5 = zext <4 x i1> %v4 to <4 x i8>
    store <4 x i8> %v5, ptr %at1, align 1
AND bool x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v7 = icmp ne <4 x i8> %v6, zeroinitializer
    %v8 = and <4 x i1> %v4, %v7
    %v9 = zext <4 x i1> %v8 to <4 x i8>
CMPLT bool x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v7 = icmp ne <4 x i8> %v6, zeroinitializer
    %v8 = icmp ult <4 x i1> %v4, %v7
    %v9 = zext <4 x i1> %v8 to <4 x i8>
CMPNE bool x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v7 = icmp ne <4 x i8> %v6, zeroinitializer
    %v8 = icmp ne <4 x i1> %v4, %v7
    %v9 = zext <4 x i1> %v8 to <4 x i8>
MAX bool x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v7 = icmp ne <4 x i8> %v6, zeroinitializer
    %v8 = or <4 x i1> %v4, %v7
    %v9 = zext <4 x i1> %v8 to <4 x i8>
OR bool x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v7 = icmp ne <4 x i8> %v6, zeroinitializer
    %v8 = or <4 x i1> %v4, %v7
    %v9 = zext <4 x i1> %v8 to <4 x i8>
XOR bool x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v7 = icmp ne <4 x i8> %v6, zeroinitializer
    %v8 = xor <4 x i1> %v4, %v7
    %v9 = zext <4 x i1> %v8 to <4 x i8>
WHERE bool x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v7 = icmp ne <4 x i8> %v6, zeroinitializer
    %v10 = icmp ne <4 x i8> %v9, zeroinitializer
    %v11 = select <4 x i1> %v4, <4 x i1> %v7, <4 x i1> %v10
    %v12 = zext <4 x i1> %v11 to <4 x i8>
CAST bool to uint8 x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v5 = zext <4 x i1> %v4 to <4 x i8>
BITCAST bool to uint8 x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v5 = zext <4 x i1> %v4 to <4 x i8>
CAST bool to int64 x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v5 = zext <4 x i1> %v4 to <4 x i64>
CAST bool to float32 x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v5 = uitofp <4 x i1> %v4 to <4 x float>
LOAD uint8 x4:
    %data0.at = getelementptr ptr, ptr %buffers, i64 0
    %data0 = load ptr, ptr %data0.at
    %data1.at = getelementptr ptr, ptr %buffers, i64 1
    %data1 = load ptr, ptr %data1.at
    %at1 = getelementptr inbounds i8, ptr %data0, i32 0
    %at2 = getelementptr inbounds i8, ptr %data1, i32 0
    %v3 = load <4 x i8>, ptr %at2, align 1
    store <4 x i8> %v3, ptr %at1, align 1
ADD uint8 x4:
    %v6 = add <4 x i8> %v3, %v5
AND uint8 x4:
    %v6 = and <4 x i8> %v3, %v5
CMPLT uint8 x4:
    %v6 = icmp ult <4 x i8> %v3, %v5
    %v7 = zext <4 x i1> %v6 to <4 x i8>
CMPNE uint8 x4:
    %v6 = icmp ne <4 x i8> %v3, %v5
    %v7 = zext <4 x i1> %v6 to <4 x i8>
IDIV uint8 x4:
    %v6 = udiv <4 x i8> %v3, %v5
MAX uint8 x4:
    %v6 = icmp ult <4 x i8> %v3, %v5
    %v7 = select <4 x i1> %v6, <4 x i8> %v5, <4 x i8> %v3
MOD uint8 x4:
    %v6 = urem <4 x i8> %v3, %v5
MUL uint8 x4:
    %v6 = mul <4 x i8> %v3, %v5
NEG uint8 x4:
    %v4 = sub <4 x i8> <i8 0, i8 0, i8 0, i8 0>, %v3
OR uint8 x4:
    %v6 = or <4 x i8> %v3, %v5
SHL uint8 x4:
    %v6 = and <4 x i8> %v5, <i8 7, i8 7, i8 7, i8 7>
    %v7 = shl <4 x i8> %v3, %v6
SHR uint8 x4:
    %v6 = and <4 x i8> %v5, <i8 7, i8 7, i8 7, i8 7>
    %v7 = lshr <4 x i8> %v3, %v6
SUB uint8 x4:
    %v6 = sub <4 x i8> %v3, %v5
XOR uint8 x4:
    %v6 = xor <4 x i8> %v3, %v5
WHERE uint8 x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v9 = select <4 x i1> %v4, <4 x i8> %v6, <4 x i8> %v8
CAST uint8 to bool x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v5 = zext <4 x i1> %v4 to <4 x i8>
CAST uint8 to int64 x4:
    %v4 = zext <4 x i8> %v3 to <4 x i64>
CAST uint8 to float32 x4:
    %v4 = uitofp <4 x i8> %v3 to <4 x float>
LOAD int64 x4:
    %data0.at = getelementptr ptr, ptr %buffers, i64 0
    %data0 = load ptr, ptr %data0.at
    %data1.at = getelementptr ptr, ptr %buffers, i64 1
    %data1 = load ptr, ptr %data1.at
    %at1 = getelementptr inbounds i64, ptr %data0, i32 0
    %at2 = getelementptr inbounds i64, ptr %data1, i32 0
    %v3 = load <4 x i64>, ptr %at2, align 8
    store <4 x i64> %v3, ptr %at1, align 8
ADD int64 x4:
    %v6 = add <4 x i64> %v3, %v5
AND int64 x4:
    %v6 = and <4 x i64> %v3, %v5
CMPLT int64 x4:
    %v6 = icmp slt <4 x i64> %v3, %v5
    %v7 = zext <4 x i1> %v6 to <4 x i8>
CMPNE int64 x4:
    %v6 = icmp ne <4 x i64> %v3, %v5
    %v7 = zext <4 x i1> %v6 to <4 x i8>
IDIV int64 x4:
    %v6 = sdiv <4 x i64> %v3, %v5
MAX int64 x4:
    %v6 = icmp slt <4 x i64> %v3, %v5
    %v7 = select <4 x i1> %v6, <4 x i64> %v5, <4 x i64> %v3
MOD int64 x4:
    %v6 = srem <4 x i64> %v3, %v5
MUL int64 x4:
    %v6 = mul <4 x i64> %v3, %v5
NEG int64 x4:
    %v4 = sub <4 x i64> <i64 0, i64 0, i64 0, i64 0>, %v3
OR int64 x4:
    %v6 = or <4 x i64> %v3, %v5
SHL int64 x4:
    %v6 = and <4 x i64> %v5, <i64 63, i64 63, i64 63, i64 63>
    %v7 = shl <4 x i64> %v3, %v6
SHR int64 x4:
    %v6 = and <4 x i64> %v5, <i64 63, i64 63, i64 63, i64 63>
    %v7 = ashr <4 x i64> %v3, %v6
SUB int64 x4:
    %v6 = sub <4 x i64> %v3, %v5
XOR int64 x4:
    %v6 = xor <4 x i64> %v3, %v5
WHERE int64 x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v9 = select <4 x i1> %v4, <4 x i64> %v6, <4 x i64> %v8
CAST int64 to bool x4:
    %v4 = icmp ne <4 x i64> %v3, zeroinitializer
    %v5 = zext <4 x i1> %v4 to <4 x i8>
CAST int64 to uint8 x4:
    %v4 = trunc <4 x i64> %v3 to <4 x i8>
CAST int64 to float32 x4:
    %v4 = sitofp <4 x i64> %v3 to <4 x float>
LOAD float32 x4:
    %data0.at = getelementptr ptr, ptr %buffers, i64 0
    %data0 = load ptr, ptr %data0.at
    %data1.at = getelementptr ptr, ptr %buffers, i64 1
    %data1 = load ptr, ptr %data1.at
    %at1 = getelementptr inbounds float, ptr %data0, i32 0
    %at2 = getelementptr inbounds float, ptr %data1, i32 0
    %v3 = load <4 x float>, ptr %at2, align 4
    store <4 x float> %v3, ptr %at1, align 4
ADD float32 x4:
    %v6 = fadd <4 x float> %v3, %v5
CMPLT float32 x4:
    %v6 = fcmp olt <4 x float> %v3, %v5
    %v7 = zext <4 x i1> %v6 to <4 x i8>
CMPNE float32 x4:
    %v6 = fcmp une <4 x float> %v3, %v5
    %v7 = zext <4 x i1> %v6 to <4 x i8>
EXP2 float32 x4:
    %v4 = extractelement <4 x float> %v3, i32 0
    %v5 = call float @exp2f(float %v4) nobuiltin
    %v6 = insertelement <4 x float> poison, float %v5, i32 0
    %v7 = extractelement <4 x float> %v3, i32 1
    %v8 = call float @exp2f(float %v7) nobuiltin
    %v9 = insertelement <4 x float> %v6, float %v8, i32 1
    %v10 = extractelement <4 x float> %v3, i32 2
    %v11 = call float @exp2f(float %v10) nobuiltin
    %v12 = insertelement <4 x float> %v9, float %v11, i32 2
    %v13 = extractelement <4 x float> %v3, i32 3
    %v14 = call float @exp2f(float %v13) nobuiltin
    %v15 = insertelement <4 x float> %v12, float %v14, i32 3
FDIV float32 x4:
    %v6 = fdiv <4 x float> %v3, %v5
LOG2 float32 x4:
    %v4 = extractelement <4 x float> %v3, i32 0
    %v5 = call float @log2f(float %v4) nobuiltin
    %v6 = insertelement <4 x float> poison, float %v5, i32 0
    %v7 = extractelement <4 x float> %v3, i32 1
    %v8 = call float @log2f(float %v7) nobuiltin
    %v9 = insertelement <4 x float> %v6, float %v8, i32 1
    %v10 = extractelement <4 x float> %v3, i32 2
    %v11 = call float @log2f(float %v10) nobuiltin
    %v12 = insertelement <4 x float> %v9, float %v11, i32 2
    %v13 = extractelement <4 x float> %v3, i32 3
    %v14 = call float @log2f(float %v13) nobuiltin
    %v15 = insertelement <4 x float> %v12, float %v14, i32 3
MAX float32 x4:
    %v6 = fcmp olt <4 x float> %v3, %v5
    %v7 = select <4 x i1> %v6, <4 x float> %v5, <4 x float> %v3
MUL float32 x4:
    %v6 = fmul <4 x float> %v3, %v5
NEG float32 x4:
    %v4 = fneg <4 x float> %v3
POW float32 x4:
    %v6 = extractelement <4 x float> %v3, i32 0
    %v7 = extractelement <4 x float> %v5, i32 0
    %v8 = call float @powf(float %v6, float %v7) nobuiltin
    %v9 = insertelement <4 x float> poison, float %v8, i32 0
    %v10 = extractelement <4 x float> %v3, i32 1
    %v11 = extractelement <4 x float> %v5, i32 1
    %v12 = call float @powf(float %v10, float %v11) nobuiltin
    %v13 = insertelement <4 x float> %v9, float %v12, i32 1
    %v14 = extractelement <4 x float> %v3, i32 2
    %v15 = extractelement <4 x float> %v5, i32 2
    %v16 = call float @powf(float %v14, float %v15) nobuiltin
    %v17 = insertelement <4 x float> %v13, float %v16, i32 2
    %v18 = extractelement <4 x float> %v3, i32 3
    %v19 = extractelement <4 x float> %v5, i32 3
    %v20 = call float @powf(float %v18, float %v19) nobuiltin
    %v21 = insertelement <4 x float> %v17, float %v20, i32 3
RECIP float32 x4:
    %v4 = fdiv <4 x float> <float 0x3FF0000000000000, float 0x3FF0000000000000, float 0x3FF0000000000000, float 0x3FF0000000000000>, %v3
SIN float32 x4:
    %v4 = extractelement <4 x float> %v3, i32 0
    %v5 = call float @sinf(float %v4) nobuiltin
    %v6 = insertelement <4 x float> poison, float %v5, i32 0
    %v7 = extractelement <4 x float> %v3, i32 1
    %v8 = call float @sinf(float %v7) nobuiltin
    %v9 = insertelement <4 x float> %v6, float %v8, i32 1
    %v10 = extractelement <4 x float> %v3, i32 2
    %v11 = call float @sinf(float %v10) nobuiltin
    %v12 = insertelement <4 x float> %v9, float %v11, i32 2
    %v13 = extractelement <4 x float> %v3, i32 3
    %v14 = call float @sinf(float %v13) nobuiltin
    %v15 = insertelement <4 x float> %v12, float %v14, i32 3
SQRT float32 x4:
    %v4 = call <4 x float> @llvm.sqrt.v4f32(<4 x float> %v3)
SUB float32 x4:
    %v6 = fsub <4 x float> %v3, %v5
TRUNC float32 x4:
    %v4 = call <4 x float> @llvm.trunc.v4f32(<4 x float> %v3)
WHERE float32 x4:
    %v4 = icmp ne <4 x i8> %v3, zeroinitializer
    %v9 = select <4 x i1> %v4, <4 x float> %v6, <4 x float> %v8
CAST float32 to bool x4:
    %v4 = fcmp une <4 x float> %v3, zeroinitializer
    %v5 = zext <4 x i1> %v4 to <4 x i8>
CAST float32 to uint8 x4:
    %v4 = fptoui <4 x float> %v3 to <4 x i8>
    %v5 = freeze <4 x i8> %v4
    %v6 = fcmp olt <4 x float> %v3, <float 0x4070000000000000, float 0x4070000000000000, float 0x4070000000000000, float 0x4070000000000000>
    %v7 = select <4 x i1> %v6, <4 x i8> %v5, <4 x i8> <i8 255, i8 255, i8 255, i8 255>
    %v8 = fcmp oge <4 x float> %v3, <float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000, float 0x0000000000000000>
    %v9 = select <4 x i1> %v8, <4 x i8> %v7, <4 x i8> <i8 0, i8 0, i8 0, i8 0>
    %v10 = fcmp ord <4 x float> %v3, zeroinitializer
    %v11 = select <4 x i1> %v10, <4 x i8> %v9, <4 x i8> <i8 0, i8 0, i8 0, i8 0>
CAST float32 to int64 x4:
    %v4 = fptosi <4 x float> %v3 to <4 x i64>
    %v5 = freeze <4 x i64> %v4
    %v6 = fcmp olt <4 x float> %v3, <float 0x43E0000000000000, float 0x43E0000000000000, float 0x43E0000000000000, float 0x43E0000000000000>
    %v7 = select <4 x i1> %v6, <4 x i64> %v5, <4 x i64> <i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807>
    %v8 = fcmp oge <4 x float> %v3, <float 0xC3E0000000000000, float 0xC3E0000000000000, float 0xC3E0000000000000, float 0xC3E0000000000000>
    %v9 = select <4 x i1> %v8, <4 x i64> %v7, <4 x i64> <i64 -9223372036854775808, i64 -9223372036854775808, i64 -9223372036854775808, i64 -9223372036854775808>
    %v10 = fcmp ord <4 x float> %v3, zeroinitializer
    %v11 = select <4 x i1> %v10, <4 x i64> %v9, <4 x i64> <i64 0, i64 0, i64 0, i64 0>
