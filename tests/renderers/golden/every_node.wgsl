LOAD bool x1:
    let data0_at: i32 = i32(launch_words[1] / 1u);
    let data1_at: i32 = i32(launch_words[2] / 1u);
    let v1: bool = data1[data1_at + 0i];
    data0[data0_at + 0i] = v1;
AND bool x1:
    let v3: bool = v1 & v2;
CMPLT bool x1:
    let v3: bool = (!v1 && v2);
CMPNE bool x1:
    let v3: bool = v1 != v2;
MAX bool x1:
    let v3: bool = select(v1, v2, (!v1 && v2));
OR bool x1:
    let v3: bool = v1 | v2;
XOR bool x1:
    let v3: bool = v1 != v2;
WHERE bool x1:
    let v4: bool = select(v3, v2, v1);
CAST bool to uint8 x1: refused, dtype: uint8 has no WGSL type here
BITCAST bool to uint8 x1: refused, dtype: uint8 has no WGSL type here
CAST bool to int16 x1: refused, dtype: int16 has no WGSL type here
CAST bool to int64 x1:
    let v2: i64 = i64(v1);
CAST bool to float16 x1:
    let v2: f16 = opaque_f16(f16(v1));
CAST bool to float32 x1:
    let v2: f32 = opaque_f32(f32(v1));
LOAD uint8 x1: refused, dtype: uint8 has no WGSL type here
ADD uint8 x1: refused, dtype: uint8 has no WGSL type here
AND uint8 x1: refused, dtype: uint8 has no WGSL type here
CMPLT uint8 x1: refused, dtype: uint8 has no WGSL type here
CMPNE uint8 x1: refused, dtype: uint8 has no WGSL type here
IDIV uint8 x1: refused, dtype: uint8 has no WGSL type here
MAX uint8 x1: refused, dtype: uint8 has no WGSL type here
MOD uint8 x1: refused, dtype: uint8 has no WGSL type here
MUL uint8 x1: refused, dtype: uint8 has no WGSL type here
NEG uint8 x1: refused, dtype: uint8 has no WGSL type here
OR uint8 x1: refused, dtype: uint8 has no WGSL type here
SHL uint8 x1: refused, dtype: uint8 has no WGSL type here
SHR uint8 x1: refused, dtype: uint8 has no WGSL type here
SUB uint8 x1: refused, dtype: uint8 has no WGSL type here
XOR uint8 x1: refused, dtype: uint8 has no WGSL type here
WHERE uint8 x1: refused, dtype: uint8 has no WGSL type here
CAST uint8 to bool x1: refused, dtype: uint8 has no WGSL type here
CAST uint8 to int16 x1: refused, dtype: uint8 has no WGSL type here
CAST uint8 to int64 x1: refused, dtype: uint8 has no WGSL type here
CAST uint8 to float16 x1: refused, dtype: uint8 has no WGSL type here
CAST uint8 to float32 x1: refused, dtype: uint8 has no WGSL type here
LOAD int16 x1: refused, dtype: int16 has no WGSL type here
ADD int16 x1: refused, dtype: int16 has no WGSL type here
AND int16 x1: refused, dtype: int16 has no WGSL type here
CMPLT int16 x1: refused, dtype: int16 has no WGSL type here
CMPNE int16 x1: refused, dtype: int16 has no WGSL type here
IDIV int16 x1: refused, dtype: int16 has no WGSL type here
MAX int16 x1: refused, dtype: int16 has no WGSL type here
MOD int16 x1: refused, dtype: int16 has no WGSL type here
MUL int16 x1: refused, dtype: int16 has no WGSL type here
NEG int16 x1: refused, dtype: int16 has no WGSL type here
OR int16 x1: refused, dtype: int16 has no WGSL type here
SHL int16 x1: refused, dtype: int16 has no WGSL type here
SHR int16 x1: refused, dtype: int16 has no WGSL type here
SUB int16 x1: refused, dtype: int16 has no WGSL type here
XOR int16 x1: refused, dtype: int16 has no WGSL type here
WHERE int16 x1: refused, dtype: int16 has no WGSL type here
CAST int16 to bool x1: refused, dtype: int16 has no WGSL type here
CAST int16 to uint8 x1: refused, dtype: int16 has no WGSL type here
CAST int16 to int64 x1: refused, dtype: int16 has no WGSL type here
CAST int16 to float16 x1: refused, dtype: int16 has no WGSL type here
BITCAST int16 to float16 x1: refused, dtype: int16 has no WGSL type here
CAST int16 to float32 x1: refused, dtype: int16 has no WGSL type here
LOAD int64 x1:
    let data0_at: i32 = i32(launch_words[1] / 8u);
    let data1_at: i32 = i32(launch_words[2] / 8u);
    let v1: i64 = data1[data1_at + 0i];
    data0[data0_at + 0i] = v1;
ADD int64 x1:
    let v3: i64 = v1 + v2;
AND int64 x1:
    let v3: i64 = v1 & v2;
CMPLT int64 x1:
    let v3: bool = v1 < v2;
CMPNE int64 x1:
    let v3: bool = v1 != v2;
IDIV int64 x1:
    let v3: i64 = v1 / v2;
MAX int64 x1:
    let v3: i64 = select(v1, v2, v1 < v2);
MOD int64 x1:
    let v3: i64 = v1 % v2;
MUL int64 x1:
    let v3: i64 = v1 * v2;
NEG int64 x1:
    let v2: i64 = (-v1);
OR int64 x1:
    let v3: i64 = v1 | v2;
SHL int64 x1:
    let v3: i64 = v1 << (u32(v2) & 63u);
SHR int64 x1:
    let v3: i64 = v1 >> (u32(v2) & 63u);
SUB int64 x1:
    let v3: i64 = v1 - v2;
XOR int64 x1:
    let v3: i64 = v1 ^ v2;
WHERE int64 x1:
    let v4: i64 = select(v3, v2, v1);
CAST int64 to bool x1:
    let v2: bool = v1 != 0li;
CAST int64 to uint8 x1: refused, dtype: uint8 has no WGSL type here
CAST int64 to int16 x1: refused, dtype: int16 has no WGSL type here
CAST int64 to float16 x1:
    let v2: f16 = opaque_f16(f16(v1));
CAST int64 to float32 x1:
    let v2: f32 = opaque_f32(f32(v1));
LOAD float16 x1:
    let data0_at: i32 = i32(launch_words[1] / 2u);
    let data1_at: i32 = i32(launch_words[2] / 2u);
    let v1: f16 = data1[data1_at + 0i];
    data0[data0_at + 0i] = v1;
ADD float16 x1:
    let v3: f16 = opaque_f16(v1 + v2);
CMPLT float16 x1:
    let v3: bool = v1 < v2;
CMPNE float16 x1:
    let v3: bool = !(v1 == v2);
EXP2 float16 x1: refused, EXP2: is not declared
FDIV float16 x1: refused, FDIV: is not declared
LOG2 float16 x1: refused, LOG2: is not declared
MAX float16 x1:
    let v3: f16 = select(v1, v2, v1 < v2);
MUL float16 x1:
    let v3: f16 = opaque_f16(v1 * v2);
NEG float16 x1:
    let v2: f16 = opaque_f16((-v1));
POW float16 x1: refused, POW: is not declared
RECIP float16 x1: refused, RECIP: is not declared
SIN float16 x1: refused, SIN: is not declared
SQRT float16 x1: refused, SQRT: is not declared
SUB float16 x1:
    let v3: f16 = opaque_f16(v1 + opaque_f16((-v2)));
TRUNC float16 x1:
    let v2: f16 = opaque_f16(trunc(v1));
WHERE float16 x1:
    let v4: f16 = select(v3, v2, v1);
CAST float16 to bool x1:
    let v2: bool = !(v1 == opaque_f16(0.0h));
CAST float16 to uint8 x1: refused, dtype: uint8 has no WGSL type here
CAST float16 to int16 x1: refused, dtype: int16 has no WGSL type here
BITCAST float16 to int16 x1: refused, dtype: int16 has no WGSL type here
CAST float16 to int64 x1:
    let v2: i64 = select((select((select(0li, (-9223372036854775807li - 1li), (opaque_f32(f32(v1))) < 0.0f)), i64((opaque_f32(f32(v1)))), (-9.223372e+18f) < (opaque_f32(f32(v1))))), 9223372036854775807li, (opaque_f32(f32(v1))) >= 9.223372e+18f);
CAST float16 to float32 x1:
    let v2: f32 = opaque_f32(f32(v1));
LOAD float32 x1:
    let data0_at: i32 = i32(launch_words[1] / 4u);
    let data1_at: i32 = i32(launch_words[2] / 4u);
    let v1: f32 = data1[data1_at + 0i];
    data0[data0_at + 0i] = v1;
ADD float32 x1:
    let v3: f32 = opaque_f32(v1 + v2);
CMPLT float32 x1:
    let v3: bool = v1 < v2;
CMPNE float32 x1:
    let v3: bool = !(v1 == v2);
EXP2 float32 x1: refused, EXP2: is not declared
FDIV float32 x1: refused, FDIV: is not declared
LOG2 float32 x1: refused, LOG2: is not declared
MAX float32 x1:
    let v3: f32 = select(v1, v2, v1 < v2);
MUL float32 x1:
    let v3: f32 = opaque_f32(v1 * v2);
NEG float32 x1:
    let v2: f32 = opaque_f32((-v1));
POW float32 x1: refused, POW: is not declared
RECIP float32 x1: refused, RECIP: is not declared
SIN float32 x1: refused, SIN: is not declared
SQRT float32 x1: refused, SQRT: is not declared
SUB float32 x1:
    let v3: f32 = opaque_f32(v1 + opaque_f32((-v2)));
TRUNC float32 x1:
    let v2: f32 = opaque_f32(trunc(v1));
WHERE float32 x1:
    let v4: f32 = select(v3, v2, v1);
CAST float32 to bool x1:
    let v2: bool = !(v1 == opaque_f32(0.0f));
CAST float32 to uint8 x1: refused, dtype: uint8 has no WGSL type here
CAST float32 to int16 x1: refused, dtype: int16 has no WGSL type here
CAST float32 to int64 x1:
    let v2: i64 = select((select((select(0li, (-9223372036854775807li - 1li), v1 < 0.0f)), i64(v1), (-9.223372e+18f) < v1)), 9223372036854775807li, v1 >= 9.223372e+18f);
CAST float32 to float16 x1:
    let v2: f16 = opaque_f16(f16(v1));
LOAD bool x4:
    let data0_at: i32 = i32(launch_words[1] / 1u);
    let data1_at: i32 = i32(launch_words[2] / 1u);
    var v1: vec4<bool>;
    v1 = vec4<bool>(data1[data1_at + 0i], data1[data1_at + 0i + 1], data1[data1_at + 0i + 2], data1[data1_at + 0i + 3]);
    data0[data0_at + 0i] = v1[0]; data0[data0_at + 0i + 1] = v1[1]; data0[data0_at + 0i + 2] = v1[2]; data0[data0_at + 0i + 3] = v1[3];
AND bool x4:
    var v1: vec4<bool>;
    var v2: vec4<bool>;
    let v3: vec4<bool> = vec4<bool>(v1[0] & v2[0], v1[1] & v2[1], v1[2] & v2[2], v1[3] & v2[3]);
CMPLT bool x4:
    var v1: vec4<bool>;
    var v2: vec4<bool>;
    let v3: vec4<bool> = vec4<bool>((!v1[0] && v2[0]), (!v1[1] && v2[1]), (!v1[2] && v2[2]), (!v1[3] && v2[3]));
CMPNE bool x4:
    var v1: vec4<bool>;
    var v2: vec4<bool>;
    let v3: vec4<bool> = vec4<bool>(v1[0] != v2[0], v1[1] != v2[1], v1[2] != v2[2], v1[3] != v2[3]);
MAX bool x4:
    var v1: vec4<bool>;
    var v2: vec4<bool>;
    let v3: vec4<bool> = vec4<bool>(select(v1[0], v2[0], (!v1[0] && v2[0])), select(v1[1], v2[1], (!v1[1] && v2[1])), select(v1[2], v2[2], (!v1[2] && v2[2])), select(v1[3], v2[3], (!v1[3] && v2[3])));
OR bool x4:
    var v1: vec4<bool>;
    var v2: vec4<bool>;
    let v3: vec4<bool> = vec4<bool>(v1[0] | v2[0], v1[1] | v2[1], v1[2] | v2[2], v1[3] | v2[3]);
XOR bool x4:
    var v1: vec4<bool>;
    var v2: vec4<bool>;
    let v3: vec4<bool> = vec4<bool>(v1[0] != v2[0], v1[1] != v2[1], v1[2] != v2[2], v1[3] != v2[3]);
WHERE bool x4:
    var v1: vec4<bool>;
    var v2: vec4<bool>;
    var v3: vec4<bool>;
    let v4: vec4<bool> = vec4<bool>(select(v3[0], v2[0], v1[0]), select(v3[1], v2[1], v1[1]), select(v3[2], v2[2], v1[2]), select(v3[3], v2[3], v1[3]));
CAST bool to uint8 x4: refused, dtype: uint8 has no WGSL type here
BITCAST bool to uint8 x4: refused, dtype: uint8 has no WGSL type here
CAST bool to int64 x4:
    var v1: vec4<bool>;
    let v2: vec4<i64> = vec4<i64>(i64(v1[0]), i64(v1[1]), i64(v1[2]), i64(v1[3]));
CAST bool to float32 x4:
    var v1: vec4<bool>;
    let v2: vec4<f32> = vec4<f32>(opaque_f32(f32(v1[0])), opaque_f32(f32(v1[1])), opaque_f32(f32(v1[2])), opaque_f32(f32(v1[3])));
LOAD uint8 x4: refused, dtype: uint8x4 has no WGSL type here
ADD uint8 x4: refused, dtype: uint8x4 has no WGSL type here
AND uint8 x4: refused, dtype: uint8x4 has no WGSL type here
CMPLT uint8 x4: refused, dtype: uint8x4 has no WGSL type here
CMPNE uint8 x4: refused, dtype: uint8x4 has no WGSL type here
IDIV uint8 x4: refused, dtype: uint8x4 has no WGSL type here
MAX uint8 x4: refused, dtype: uint8x4 has no WGSL type here
MOD uint8 x4: refused, dtype: uint8x4 has no WGSL type here
MUL uint8 x4: refused, dtype: uint8x4 has no WGSL type here
NEG uint8 x4: refused, dtype: uint8x4 has no WGSL type here
OR uint8 x4: refused, dtype: uint8x4 has no WGSL type here
SHL uint8 x4: refused, dtype: uint8x4 has no WGSL type here
SHR uint8 x4: refused, dtype: uint8x4 has no WGSL type here
SUB uint8 x4: refused, dtype: uint8x4 has no WGSL type here
XOR uint8 x4: refused, dtype: uint8x4 has no WGSL type here
WHERE uint8 x4: refused, dtype: uint8x4 has no WGSL type here
CAST uint8 to bool x4: refused, dtype: uint8x4 has no WGSL type here
CAST uint8 to int64 x4: refused, dtype: uint8x4 has no WGSL type here
CAST uint8 to float32 x4: refused, dtype: uint8x4 has no WGSL type here
LOAD int64 x4:
    let data0_at: i32 = i32(launch_words[1] / 8u);
    let data1_at: i32 = i32(launch_words[2] / 8u);
    var v1: vec4<i64>;
    v1 = vec4<i64>(data1[data1_at + 0i], data1[data1_at + 0i + 1], data1[data1_at + 0i + 2], data1[data1_at + 0i + 3]);
    data0[data0_at + 0i] = v1[0]; data0[data0_at + 0i + 1] = v1[1]; data0[data0_at + 0i + 2] = v1[2]; data0[data0_at + 0i + 3] = v1[3];
ADD int64 x4:
    var v1: vec4<i64>;
    var v2: vec4<i64>;
    let v3: vec4<i64> = vec4<i64>(v1[0] + v2[0], v1[1] + v2[1], v1[2] + v2[2], v1[3] + v2[3]);
AND int64 x4:
    var v1: vec4<i64>;
    var v2: vec4<i64>;
    let v3: vec4<i64> = vec4<i64>(v1[0] & v2[0], v1[1] & v2[1], v1[2] & v2[2], v1[3] & v2[3]);
CMPLT int64 x4:
    var v1: vec4<i64>;
    var v2: vec4<i64>;
    let v3: vec4<bool> = vec4<bool>(v1[0] < v2[0], v1[1] < v2[1], v1[2] < v2[2], v1[3] < v2[3]);
CMPNE int64 x4:
    var v1: vec4<i64>;
    var v2: vec4<i64>;
    let v3: vec4<bool> = vec4<bool>(v1[0] != v2[0], v1[1] != v2[1], v1[2] != v2[2], v1[3] != v2[3]);
IDIV int64 x4:
    var v1: vec4<i64>;
    var v2: vec4<i64>;
    let v3: vec4<i64> = vec4<i64>(v1[0] / v2[0], v1[1] / v2[1], v1[2] / v2[2], v1[3] / v2[3]);
MAX int64 x4:
    var v1: vec4<i64>;
    var v2: vec4<i64>;
    let v3: vec4<i64> = vec4<i64>(select(v1[0], v2[0], v1[0] < v2[0]), select(v1[1], v2[1], v1[1] < v2[1]), select(v1[2], v2[2], v1[2] < v2[2]), select(v1[3], v2[3], v1[3] < v2[3]));
MOD int64 x4:
    var v1: vec4<i64>;
    var v2: vec4<i64>;
    let v3: vec4<i64> = vec4<i64>(v1[0] % v2[0], v1[1] % v2[1], v1[2] % v2[2], v1[3] % v2[3]);
MUL int64 x4:
    var v1: vec4<i64>;
    var v2: vec4<i64>;
    let v3: vec4<i64> = vec4<i64>(v1[0] * v2[0], v1[1] * v2[1], v1[2] * v2[2], v1[3] * v2[3]);
NEG int64 x4:
    var v1: vec4<i64>;
    let v2: vec4<i64> = vec4<i64>((-v1[0]), (-v1[1]), (-v1[2]), (-v1[3]));
OR int64 x4:
    var v1: vec4<i64>;
    var v2: vec4<i64>;
    let v3: vec4<i64> = vec4<i64>(v1[0] | v2[0], v1[1] | v2[1], v1[2] | v2[2], v1[3] | v2[3]);
SHL int64 x4:
    var v1: vec4<i64>;
    var v2: vec4<i64>;
    let v3: vec4<i64> = vec4<i64>(v1[0] << (u32(v2[0]) & 63u), v1[1] << (u32(v2[1]) & 63u), v1[2] << (u32(v2[2]) & 63u), v1[3] << (u32(v2[3]) & 63u));
SHR int64 x4:
    var v1: vec4<i64>;
    var v2: vec4<i64>;
    let v3: vec4<i64> = vec4<i64>(v1[0] >> (u32(v2[0]) & 63u), v1[1] >> (u32(v2[1]) & 63u), v1[2] >> (u32(v2[2]) & 63u), v1[3] >> (u32(v2[3]) & 63u));
SUB int64 x4:
    var v1: vec4<i64>;
    var v2: vec4<i64>;
    let v3: vec4<i64> = vec4<i64>(v1[0] - v2[0], v1[1] - v2[1], v1[2] - v2[2], v1[3] - v2[3]);
XOR int64 x4:
    var v1: vec4<i64>;
    var v2: vec4<i64>;
    let v3: vec4<i64> = vec4<i64>(v1[0] ^ v2[0], v1[1] ^ v2[1], v1[2] ^ v2[2], v1[3] ^ v2[3]);
WHERE int64 x4:
    var v1: vec4<bool>;
    var v2: vec4<i64>;
    var v3: vec4<i64>;
    let v4: vec4<i64> = vec4<i64>(select(v3[0], v2[0], v1[0]), select(v3[1], v2[1], v1[1]), select(v3[2], v2[2], v1[2]), select(v3[3], v2[3], v1[3]));
CAST int64 to bool x4:
    var v1: vec4<i64>;
    let v2: vec4<bool> = vec4<bool>(v1[0] != 0li, v1[1] != 0li, v1[2] != 0li, v1[3] != 0li);
CAST int64 to uint8 x4: refused, dtype: uint8 has no WGSL type here
CAST int64 to float32 x4:
    var v1: vec4<i64>;
    let v2: vec4<f32> = vec4<f32>(opaque_f32(f32(v1[0])), opaque_f32(f32(v1[1])), opaque_f32(f32(v1[2])), opaque_f32(f32(v1[3])));
LOAD float32 x4:
    let data0_at: i32 = i32(launch_words[1] / 4u);
    let data1_at: i32 = i32(launch_words[2] / 4u);
    var v1: vec4<f32>;
    v1 = vec4<f32>(data1[data1_at + 0i], data1[data1_at + 0i + 1], data1[data1_at + 0i + 2], data1[data1_at + 0i + 3]);
    data0[data0_at + 0i] = v1[0]; data0[data0_at + 0i + 1] = v1[1]; data0[data0_at + 0i + 2] = v1[2]; data0[data0_at + 0i + 3] = v1[3];
ADD float32 x4:
    var v1: vec4<f32>;
    var v2: vec4<f32>;
    let v3: vec4<f32> = vec4<f32>(opaque_f32(v1[0] + v2[0]), opaque_f32(v1[1] + v2[1]), opaque_f32(v1[2] + v2[2]), opaque_f32(v1[3] + v2[3]));
CMPLT float32 x4:
    var v1: vec4<f32>;
    var v2: vec4<f32>;
    let v3: vec4<bool> = vec4<bool>(v1[0] < v2[0], v1[1] < v2[1], v1[2] < v2[2], v1[3] < v2[3]);
CMPNE float32 x4:
    var v1: vec4<f32>;
    var v2: vec4<f32>;
    let v3: vec4<bool> = vec4<bool>(!(v1[0] == v2[0]), !(v1[1] == v2[1]), !(v1[2] == v2[2]), !(v1[3] == v2[3]));
EXP2 float32 x4: refused, EXP2: is not declared
FDIV float32 x4: refused, FDIV: is not declared
LOG2 float32 x4: refused, LOG2: is not declared
MAX float32 x4:
    var v1: vec4<f32>;
    var v2: vec4<f32>;
    let v3: vec4<f32> = vec4<f32>(select(v1[0], v2[0], v1[0] < v2[0]), select(v1[1], v2[1], v1[1] < v2[1]), select(v1[2], v2[2], v1[2] < v2[2]), select(v1[3], v2[3], v1[3] < v2[3]));
MUL float32 x4:
    var v1: vec4<f32>;
    var v2: vec4<f32>;
    let v3: vec4<f32> = vec4<f32>(opaque_f32(v1[0] * v2[0]), opaque_f32(v1[1] * v2[1]), opaque_f32(v1[2] * v2[2]), opaque_f32(v1[3] * v2[3]));
NEG float32 x4:
    var v1: vec4<f32>;
    let v2: vec4<f32> = vec4<f32>(opaque_f32((-v1[0])), opaque_f32((-v1[1])), opaque_f32((-v1[2])), opaque_f32((-v1[3])));
POW float32 x4: refused, POW: is not declared
RECIP float32 x4: refused, RECIP: is not declared
SIN float32 x4: refused, SIN: is not declared
SQRT float32 x4: refused, SQRT: is not declared
SUB float32 x4:
    var v1: vec4<f32>;
    var v2: vec4<f32>;
    let v3: vec4<f32> = vec4<f32>(opaque_f32(v1[0] + opaque_f32((-v2[0]))), opaque_f32(v1[1] + opaque_f32((-v2[1]))), opaque_f32(v1[2] + opaque_f32((-v2[2]))), opaque_f32(v1[3] + opaque_f32((-v2[3]))));
TRUNC float32 x4:
    var v1: vec4<f32>;
    let v2: vec4<f32> = vec4<f32>(opaque_f32(trunc(v1[0])), opaque_f32(trunc(v1[1])), opaque_f32(trunc(v1[2])), opaque_f32(trunc(v1[3])));
WHERE float32 x4:
    var v1: vec4<bool>;
    var v2: vec4<f32>;
    var v3: vec4<f32>;
    let v4: vec4<f32> = vec4<f32>(select(v3[0], v2[0], v1[0]), select(v3[1], v2[1], v1[1]), select(v3[2], v2[2], v1[2]), select(v3[3], v2[3], v1[3]));
CAST float32 to bool x4:
    var v1: vec4<f32>;
    let v2: vec4<bool> = vec4<bool>(!(v1[0] == opaque_f32(0.0f)), !(v1[1] == opaque_f32(0.0f)), !(v1[2] == opaque_f32(0.0f)), !(v1[3] == opaque_f32(0.0f)));
CAST float32 to uint8 x4: refused, dtype: uint8 has no WGSL type here
CAST float32 to int64 x4:
    var v1: vec4<f32>;
    let v2: vec4<i64> = vec4<i64>(select((select((select(0li, (-9223372036854775807li - 1li), v1[0] < 0.0f)), i64(v1[0]), (-9.223372e+18f) < v1[0])), 9223372036854775807li, v1[0] >= 9.223372e+18f), select((select((select(0li, (-9223372036854775807li - 1li), v1[1] < 0.0f)), i64(v1[1]), (-9.223372e+18f) < v1[1])), 9223372036854775807li, v1[1] >= 9.223372e+18f), select((select((select(0li, (-9223372036854775807li - 1li), v1[2] < 0.0f)), i64(v1[2]), (-9.223372e+18f) < v1[2])), 9223372036854775807li, v1[2] >= 9.223372e+18f), select((select((select(0li, (-9223372036854775807li - 1li), v1[3] < 0.0f)), i64(v1[3]), (-9.223372e+18f) < v1[3])), 9223372036854775807li, v1[3] >= 9.223372e+18f));
