LOAD bool x1:
    __global uchar *data0 = (__global uchar *)(base0 + start0);
    __global uchar *data1 = (__global uchar *)(base1 + start1);
    bool v1 = data1[0] != 0;
    data0[0] = v1;
AND bool x1:
    bool v3 = v1 & v2;
CMPLT bool x1:
    bool v3 = v1 < v2;
CMPNE bool x1:
    bool v3 = v1 != v2;
MAX bool x1:
    bool v3 = v1 < v2 ? v2 : v1;
OR bool x1:
    bool v3 = v1 | v2;
XOR bool x1:
    bool v3 = v1 ^ v2;
WHERE bool x1:
    bool v4 = v1 ? v2 : v3;
CAST bool to uint8 x1:
    uchar v2 = (uchar)v1;
BITCAST bool to uint8 x1:
    uchar v2 = (uchar)v1;
CAST bool to int16 x1:
    short v2 = (short)v1;
CAST bool to int64 x1:
    long v2 = (long)v1;
CAST bool to float16 x1:
    half v2 = (half)v1;
CAST bool to float32 x1:
    float v2 = (float)v1;
LOAD uint8 x1:
    __global uchar *data0 = (__global uchar *)(base0 + start0);
    __global uchar *data1 = (__global uchar *)(base1 + start1);
    uchar v1 = data1[0];
    data0[0] = v1;
ADD uint8 x1:
    uchar v3 = (uchar)((uint)v1 + (uint)v2);
AND uint8 x1:
    uchar v3 = (uchar)(v1 & v2);
CMPLT uint8 x1:
    bool v3 = v1 < v2;
CMPNE uint8 x1:
    bool v3 = v1 != v2;
IDIV uint8 x1:
    uchar v3 = (uchar)(v1 / v2);
MAX uint8 x1:
    uchar v3 = v1 < v2 ? v2 : v1;
MOD uint8 x1:
    uchar v3 = (uchar)(v1 % v2);
MUL uint8 x1:
    uchar v3 = (uchar)((uint)v1 * (uint)v2);
NEG uint8 x1:
    uchar v2 = (uchar)((uint)((uchar)0) - (uint)v1);
OR uint8 x1:
    uchar v3 = (uchar)(v1 | v2);
SHL uint8 x1:
    uchar v3 = (uchar)((uint)v1 << (v2 & 7));
SHR uint8 x1:
    uchar v3 = (uchar)(v1 >> (v2 & 7));
SUB uint8 x1:
    uchar v3 = (uchar)((uint)v1 - (uint)v2);
XOR uint8 x1:
    uchar v3 = (uchar)(v1 ^ v2);
WHERE uint8 x1:
    uchar v4 = v1 ? v2 : v3;
CAST uint8 to bool x1:
    bool v2 = v1 != ((uchar)0);
CAST uint8 to int16 x1:
    short v2 = (short)v1;
CAST uint8 to int64 x1:
    long v2 = (long)v1;
CAST uint8 to float16 x1:
    half v2 = (half)v1;
CAST uint8 to float32 x1:
    float v2 = (float)v1;
LOAD int16 x1:
    __global short *data0 = (__global short *)(base0 + start0);
    __global short *data1 = (__global short *)(base1 + start1);
    short v1 = data1[0];
    data0[0] = v1;
ADD int16 x1:
    short v3 = (short)((uint)v1 + (uint)v2);
AND int16 x1:
    short v3 = (short)(v1 & v2);
CMPLT int16 x1:
    bool v3 = v1 < v2;
CMPNE int16 x1:
    bool v3 = v1 != v2;
IDIV int16 x1:
    short v3 = (short)(v1 / v2);
MAX int16 x1:
    short v3 = v1 < v2 ? v2 : v1;
MOD int16 x1:
    short v3 = (short)(v1 % v2);
MUL int16 x1:
    short v3 = (short)((uint)v1 * (uint)v2);
NEG int16 x1:
    short v2 = (short)((uint)((short)0) - (uint)v1);
OR int16 x1:
    short v3 = (short)(v1 | v2);
SHL int16 x1:
    short v3 = (short)((uint)v1 << (v2 & 15));
SHR int16 x1:
    short v3 = (short)(v1 >> (v2 & 15));
SUB int16 x1:
    short v3 = (short)((uint)v1 - (uint)v2);
XOR int16 x1:
    short v3 = (short)(v1 ^ v2);
WHERE int16 x1:
    short v4 = v1 ? v2 : v3;
CAST int16 to bool x1:
    bool v2 = v1 != ((short)0);
CAST int16 to uint8 x1:
    uchar v2 = (uchar)v1;
CAST int16 to int64 x1:
    long v2 = (long)v1;
CAST int16 to float16 x1:
    half v2 = (half)v1;
BITCAST int16 to float16 x1:
    half v2 = as_half(v1);
CAST int16 to float32 x1:
    float v2 = (float)v1;
LOAD int64 x1:
    __global long *data0 = (__global long *)(base0 + start0);
    __global long *data1 = (__global long *)(base1 + start1);
    long v1 = data1[0];
    data0[0] = v1;
ADD int64 x1:
    long v3 = (long)((ulong)v1 + (ulong)v2);
AND int64 x1:
    long v3 = v1 & v2;
CMPLT int64 x1:
    bool v3 = v1 < v2;
CMPNE int64 x1:
    bool v3 = v1 != v2;
IDIV int64 x1:
    long v3 = v1 / v2;
MAX int64 x1:
    long v3 = v1 < v2 ? v2 : v1;
MOD int64 x1:
    long v3 = v1 % v2;
MUL int64 x1:
    long v3 = (long)((ulong)v1 * (ulong)v2);
NEG int64 x1:
    long v2 = (long)((ulong)0l - (ulong)v1);
OR int64 x1:
    long v3 = v1 | v2;
SHL int64 x1:
    long v3 = (long)((ulong)v1 << (v2 & 63));
SHR int64 x1:
    long v3 = v1 >> (v2 & 63);
SUB int64 x1:
    long v3 = (long)((ulong)v1 - (ulong)v2);
XOR int64 x1:
    long v3 = v1 ^ v2;
WHERE int64 x1:
    long v4 = v1 ? v2 : v3;
CAST int64 to bool x1:
    bool v2 = v1 != 0l;
CAST int64 to uint8 x1:
    uchar v2 = (uchar)v1;
CAST int64 to int16 x1:
    short v2 = (short)v1;
CAST int64 to float16 x1:
    half v2 = (half)v1;
CAST int64 to float32 x1:
    float v2 = (float)v1;
LOAD float16 x1:
    __global half *data0 = (__global half *)(base0 + start0);
    __global half *data1 = (__global half *)(base1 + start1);
    half v1 = data1[0];
    data0[0] = v1;
ADD float16 x1:
    half v3 = v1 + v2;
CMPLT float16 x1:
    bool v3 = v1 < v2;
CMPNE float16 x1:
    bool v3 = v1 != v2;
EXP2 float16 x1: refused, EXP2: is not declared
FDIV float16 x1:
    half v3 = v1 / v2;
LOG2 float16 x1: refused, LOG2: is not declared
MAX float16 x1:
    half v3 = v1 < v2 ? v2 : v1;
MUL float16 x1:
    half v3 = v1 * v2;
NEG float16 x1:
    half v2 = -v1;
POW float16 x1: refused, POW: is not declared
RECIP float16 x1:
    half v2 = ((half)1.0f) / v1;
SIN float16 x1: refused, SIN: is not declared
SQRT float16 x1:
    half v2 = (half)sqrt((float)v1);
SUB float16 x1:
    half v3 = v1 - v2;
TRUNC float16 x1:
    half v2 = (half)trunc((float)v1);
WHERE float16 x1:
    half v4 = v1 ? v2 : v3;
CAST float16 to bool x1:
    bool v2 = v1 != ((half)0.0f);
CAST float16 to uint8 x1:
    uchar v2 = ((float)v1) >= 256.0f ? ((uchar)255) : (0.0f < ((float)v1) ? (uchar)((float)v1) : (((float)v1) < 0.0f ? ((uchar)0) : ((uchar)0)));
CAST float16 to int16 x1:
    short v2 = ((float)v1) >= 32768.0f ? ((short)32767) : ((-32768.0f) < ((float)v1) ? (short)((float)v1) : (((float)v1) < 0.0f ? ((short)-32768) : ((short)0)));
BITCAST float16 to int16 x1:
    short v2 = as_short(v1);
CAST float16 to int64 x1:
    long v2 = ((float)v1) >= 9.223372e+18f ? 9223372036854775807l : ((-9.223372e+18f) < ((float)v1) ? (long)((float)v1) : (((float)v1) < 0.0f ? (-9223372036854775807l - 1l) : 0l));
CAST float16 to float32 x1:
    float v2 = (float)v1;
LOAD float32 x1:
    __global float *data0 = (__global float *)(base0 + start0);
    __global float *data1 = (__global float *)(base1 + start1);
    float v1 = data1[0];
    data0[0] = v1;
ADD float32 x1:
    float v3 = v1 + v2;
CMPLT float32 x1:
    bool v3 = v1 < v2;
CMPNE float32 x1:
    bool v3 = v1 != v2;
EXP2 float32 x1: refused, EXP2: is not declared
FDIV float32 x1:
    float v3 = v1 / v2;
LOG2 float32 x1: refused, LOG2: is not declared
MAX float32 x1:
    float v3 = v1 < v2 ? v2 : v1;
MUL float32 x1:
    float v3 = v1 * v2;
NEG float32 x1:
    float v2 = -v1;
POW float32 x1: refused, POW: is not declared
RECIP float32 x1:
    float v2 = 1.0f / v1;
SIN float32 x1: refused, SIN: is not declared
SQRT float32 x1:
    float v2 = sqrt(v1);
SUB float32 x1:
    float v3 = v1 - v2;
TRUNC float32 x1:
    float v2 = trunc(v1);
WHERE float32 x1:
    float v4 = v1 ? v2 : v3;
CAST float32 to bool x1:
    bool v2 = v1 != 0.0f;
CAST float32 to uint8 x1:
    uchar v2 = v1 >= 256.0f ? ((uchar)255) : (0.0f < v1 ? (uchar)v1 : (v1 < 0.0f ? ((uchar)0) : ((uchar)0)));
CAST float32 to int16 x1:
    short v2 = v1 >= 32768.0f ? ((short)32767) : ((-32768.0f) < v1 ? (short)v1 : (v1 < 0.0f ? ((short)-32768) : ((short)0)));
CAST float32 to int64 x1:
    long v2 = v1 >= 9.223372e+18f ? 9223372036854775807l : ((-9.223372e+18f) < v1 ? (long)v1 : (v1 < 0.0f ? (-9223372036854775807l - 1l) : 0l));
CAST float32 to float16 x1:
    half v2 = (half)v1;
LOAD bool x4:
    __global uchar *data0 = (__global uchar *)(base0 + start0);
    __global uchar *data1 = (__global uchar *)(base1 + start1);
    uchar4 v1;
    v1 = vload4(0, data1 + 0); v1 = as_uchar4(v1 != (uchar4)0) & (uchar4)1;
    vstore4(v1, 0, data0 + 0);
AND bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)(v1.s0 & v2.s0, v1.s1 & v2.s1, v1.s2 & v2.s2, v1.s3 & v2.s3);
CMPLT bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)(v1.s0 < v2.s0, v1.s1 < v2.s1, v1.s2 < v2.s2, v1.s3 < v2.s3);
CMPNE bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)(v1.s0 != v2.s0, v1.s1 != v2.s1, v1.s2 != v2.s2, v1.s3 != v2.s3);
MAX bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)(v1.s0 < v2.s0 ? v2.s0 : v1.s0, v1.s1 < v2.s1 ? v2.s1 : v1.s1, v1.s2 < v2.s2 ? v2.s2 : v1.s2, v1.s3 < v2.s3 ? v2.s3 : v1.s3);
OR bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)(v1.s0 | v2.s0, v1.s1 | v2.s1, v1.s2 | v2.s2, v1.s3 | v2.s3);
XOR bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)(v1.s0 ^ v2.s0, v1.s1 ^ v2.s1, v1.s2 ^ v2.s2, v1.s3 ^ v2.s3);
WHERE bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3;
    uchar4 v4 = (uchar4)(v1.s0 ? v2.s0 : v3.s0, v1.s1 ? v2.s1 : v3.s1, v1.s2 ? v2.s2 : v3.s2, v1.s3 ? v2.s3 : v3.s3);
CAST bool to uint8 x4:
    uchar4 v1;
    uchar4 v2 = (uchar4)((uchar)v1.s0, (uchar)v1.s1, (uchar)v1.s2, (uchar)v1.s3);
BITCAST bool to uint8 x4:
    uchar4 v1;
    uchar4 v2 = (uchar4)((uchar)v1.s0, (uchar)v1.s1, (uchar)v1.s2, (uchar)v1.s3);
CAST bool to int64 x4:
    uchar4 v1;
    long4 v2 = (long4)((long)v1.s0, (long)v1.s1, (long)v1.s2, (long)v1.s3);
CAST bool to float32 x4:
    uchar4 v1;
    float4 v2 = (float4)((float)v1.s0, (float)v1.s1, (float)v1.s2, (float)v1.s3);
LOAD uint8 x4:
    __global uchar *data0 = (__global uchar *)(base0 + start0);
    __global uchar *data1 = (__global uchar *)(base1 + start1);
    uchar4 v1;
    v1 = vload4(0, data1 + 0);
    vstore4(v1, 0, data0 + 0);
ADD uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)((uchar)((uint)v1.s0 + (uint)v2.s0), (uchar)((uint)v1.s1 + (uint)v2.s1), (uchar)((uint)v1.s2 + (uint)v2.s2), (uchar)((uint)v1.s3 + (uint)v2.s3));
AND uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)((uchar)(v1.s0 & v2.s0), (uchar)(v1.s1 & v2.s1), (uchar)(v1.s2 & v2.s2), (uchar)(v1.s3 & v2.s3));
CMPLT uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)(v1.s0 < v2.s0, v1.s1 < v2.s1, v1.s2 < v2.s2, v1.s3 < v2.s3);
CMPNE uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)(v1.s0 != v2.s0, v1.s1 != v2.s1, v1.s2 != v2.s2, v1.s3 != v2.s3);
IDIV uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)((uchar)(v1.s0 / v2.s0), (uchar)(v1.s1 / v2.s1), (uchar)(v1.s2 / v2.s2), (uchar)(v1.s3 / v2.s3));
MAX uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)(v1.s0 < v2.s0 ? v2.s0 : v1.s0, v1.s1 < v2.s1 ? v2.s1 : v1.s1, v1.s2 < v2.s2 ? v2.s2 : v1.s2, v1.s3 < v2.s3 ? v2.s3 : v1.s3);
MOD uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)((uchar)(v1.s0 % v2.s0), (uchar)(v1.s1 % v2.s1), (uchar)(v1.s2 % v2.s2), (uchar)(v1.s3 % v2.s3));
MUL uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)((uchar)((uint)v1.s0 * (uint)v2.s0), (uchar)((uint)v1.s1 * (uint)v2.s1), (uchar)((uint)v1.s2 * (uint)v2.s2), (uchar)((uint)v1.s3 * (uint)v2.s3));
NEG uint8 x4:
    uchar4 v1;
    uchar4 v2 = (uchar4)((uchar)((uint)((uchar)0) - (uint)v1.s0), (uchar)((uint)((uchar)0) - (uint)v1.s1), (uchar)((uint)((uchar)0) - (uint)v1.s2), (uchar)((uint)((uchar)0) - (uint)v1.s3));
OR uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)((uchar)(v1.s0 | v2.s0), (uchar)(v1.s1 | v2.s1), (uchar)(v1.s2 | v2.s2), (uchar)(v1.s3 | v2.s3));
SHL uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)((uchar)((uint)v1.s0 << (v2.s0 & 7)), (uchar)((uint)v1.s1 << (v2.s1 & 7)), (uchar)((uint)v1.s2 << (v2.s2 & 7)), (uchar)((uint)v1.s3 << (v2.s3 & 7)));
SHR uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)((uchar)(v1.s0 >> (v2.s0 & 7)), (uchar)(v1.s1 >> (v2.s1 & 7)), (uchar)(v1.s2 >> (v2.s2 & 7)), (uchar)(v1.s3 >> (v2.s3 & 7)));
SUB uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)((uchar)((uint)v1.s0 - (uint)v2.s0), (uchar)((uint)v1.s1 - (uint)v2.s1), (uchar)((uint)v1.s2 - (uint)v2.s2), (uchar)((uint)v1.s3 - (uint)v2.s3));
XOR uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = (uchar4)((uchar)(v1.s0 ^ v2.s0), (uchar)(v1.s1 ^ v2.s1), (uchar)(v1.s2 ^ v2.s2), (uchar)(v1.s3 ^ v2.s3));
WHERE uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3;
    uchar4 v4 = (uchar4)(v1.s0 ? v2.s0 : v3.s0, v1.s1 ? v2.s1 : v3.s1, v1.s2 ? v2.s2 : v3.s2, v1.s3 ? v2.s3 : v3.s3);
CAST uint8 to bool x4:
    uchar4 v1;
    uchar4 v2 = (uchar4)(v1.s0 != ((uchar)0), v1.s1 != ((uchar)0), v1.s2 != ((uchar)0), v1.s3 != ((uchar)0));
CAST uint8 to int64 x4:
    uchar4 v1;
    long4 v2 = (long4)((long)v1.s0, (long)v1.s1, (long)v1.s2, (long)v1.s3);
CAST uint8 to float32 x4:
    uchar4 v1;
    float4 v2 = (float4)((float)v1.s0, (float)v1.s1, (float)v1.s2, (float)v1.s3);
LOAD int64 x4:
    __global long *data0 = (__global long *)(base0 + start0);
    __global long *data1 = (__global long *)(base1 + start1);
    long4 v1;
    v1 = vload4(0, data1 + 0);
    vstore4(v1, 0, data0 + 0);
ADD int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = (long4)((long)((ulong)v1.s0 + (ulong)v2.s0), (long)((ulong)v1.s1 + (ulong)v2.s1), (long)((ulong)v1.s2 + (ulong)v2.s2), (long)((ulong)v1.s3 + (ulong)v2.s3));
AND int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = (long4)(v1.s0 & v2.s0, v1.s1 & v2.s1, v1.s2 & v2.s2, v1.s3 & v2.s3);
CMPLT int64 x4:
    long4 v1;
    long4 v2;
    uchar4 v3 = (uchar4)(v1.s0 < v2.s0, v1.s1 < v2.s1, v1.s2 < v2.s2, v1.s3 < v2.s3);
CMPNE int64 x4:
    long4 v1;
    long4 v2;
    uchar4 v3 = (uchar4)(v1.s0 != v2.s0, v1.s1 != v2.s1, v1.s2 != v2.s2, v1.s3 != v2.s3);
IDIV int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = (long4)(v1.s0 / v2.s0, v1.s1 / v2.s1, v1.s2 / v2.s2, v1.s3 / v2.s3);
MAX int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = (long4)(v1.s0 < v2.s0 ? v2.s0 : v1.s0, v1.s1 < v2.s1 ? v2.s1 : v1.s1, v1.s2 < v2.s2 ? v2.s2 : v1.s2, v1.s3 < v2.s3 ? v2.s3 : v1.s3);
MOD int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = (long4)(v1.s0 % v2.s0, v1.s1 % v2.s1, v1.s2 % v2.s2, v1.s3 % v2.s3);
MUL int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = (long4)((long)((ulong)v1.s0 * (ulong)v2.s0), (long)((ulong)v1.s1 * (ulong)v2.s1), (long)((ulong)v1.s2 * (ulong)v2.s2), (long)((ulong)v1.s3 * (ulong)v2.s3));
NEG int64 x4:
    long4 v1;
    long4 v2 = (long4)((long)((ulong)0l - (ulong)v1.s0), (long)((ulong)0l - (ulong)v1.s1), (long)((ulong)0l - (ulong)v1.s2), (long)((ulong)0l - (ulong)v1.s3));
OR int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = (long4)(v1.s0 | v2.s0, v1.s1 | v2.s1, v1.s2 | v2.s2, v1.s3 | v2.s3);
SHL int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = (long4)((long)((ulong)v1.s0 << (v2.s0 & 63)), (long)((ulong)v1.s1 << (v2.s1 & 63)), (long)((ulong)v1.s2 << (v2.s2 & 63)), (long)((ulong)v1.s3 << (v2.s3 & 63)));
SHR int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = (long4)(v1.s0 >> (v2.s0 & 63), v1.s1 >> (v2.s1 & 63), v1.s2 >> (v2.s2 & 63), v1.s3 >> (v2.s3 & 63));
SUB int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = (long4)((long)((ulong)v1.s0 - (ulong)v2.s0), (long)((ulong)v1.s1 - (ulong)v2.s1), (long)((ulong)v1.s2 - (ulong)v2.s2), (long)((ulong)v1.s3 - (ulong)v2.s3));
XOR int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = (long4)(v1.s0 ^ v2.s0, v1.s1 ^ v2.s1, v1.s2 ^ v2.s2, v1.s3 ^ v2.s3);
WHERE int64 x4:
    uchar4 v1;
    long4 v2;
    long4 v3;
    long4 v4 = (long4)(v1.s0 ? v2.s0 : v3.s0, v1.s1 ? v2.s1 : v3.s1, v1.s2 ? v2.s2 : v3.s2, v1.s3 ? v2.s3 : v3.s3);
CAST int64 to bool x4:
    long4 v1;
    uchar4 v2 = (uchar4)(v1.s0 != 0l, v1.s1 != 0l, v1.s2 != 0l, v1.s3 != 0l);
CAST int64 to uint8 x4:
    long4 v1;
    uchar4 v2 = (uchar4)((uchar)v1.s0, (uchar)v1.s1, (uchar)v1.s2, (uchar)v1.s3);
CAST int64 to float32 x4:
    long4 v1;
    float4 v2 = (float4)((float)v1.s0, (float)v1.s1, (float)v1.s2, (float)v1.s3);
LOAD float32 x4:
    __global float *data0 = (__global float *)(base0 + start0);
    __global float *data1 = (__global float *)(base1 + start1);
    float4 v1;
    v1 = vload4(0, data1 + 0);
    vstore4(v1, 0, data0 + 0);
ADD float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = v1 + v2;
CMPLT float32 x4:
    float4 v1;
    float4 v2;
    uchar4 v3 = (uchar4)(v1.s0 < v2.s0, v1.s1 < v2.s1, v1.s2 < v2.s2, v1.s3 < v2.s3);
CMPNE float32 x4:
    float4 v1;
    float4 v2;
    uchar4 v3 = (uchar4)(v1.s0 != v2.s0, v1.s1 != v2.s1, v1.s2 != v2.s2, v1.s3 != v2.s3);
EXP2 float32 x4: refused, EXP2: is not declared
FDIV float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = v1 / v2;
LOG2 float32 x4: refused, LOG2: is not declared
MAX float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = (float4)(v1.s0 < v2.s0 ? v2.s0 : v1.s0, v1.s1 < v2.s1 ? v2.s1 : v1.s1, v1.s2 < v2.s2 ? v2.s2 : v1.s2, v1.s3 < v2.s3 ? v2.s3 : v1.s3);
MUL float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = v1 * v2;
NEG float32 x4:
    float4 v1;
    float4 v2 = (float4)(-v1.s0, -v1.s1, -v1.s2, -v1.s3);
POW float32 x4: refused, POW: is not declared
RECIP float32 x4:
    float4 v1;
    float4 v2 = (float4)(1.0f / v1.s0, 1.0f / v1.s1, 1.0f / v1.s2, 1.0f / v1.s3);
SIN float32 x4: refused, SIN: is not declared
SQRT float32 x4:
    float4 v1;
    float4 v2 = (float4)(sqrt(v1.s0), sqrt(v1.s1), sqrt(v1.s2), sqrt(v1.s3));
SUB float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = v1 - v2;
TRUNC float32 x4:
    float4 v1;
    float4 v2 = (float4)(trunc(v1.s0), trunc(v1.s1), trunc(v1.s2), trunc(v1.s3));
WHERE float32 x4:
    uchar4 v1;
    float4 v2;
    float4 v3;
    float4 v4 = (float4)(v1.s0 ? v2.s0 : v3.s0, v1.s1 ? v2.s1 : v3.s1, v1.s2 ? v2.s2 : v3.s2, v1.s3 ? v2.s3 : v3.s3);
CAST float32 to bool x4:
    float4 v1;
    uchar4 v2 = (uchar4)(v1.s0 != 0.0f, v1.s1 != 0.0f, v1.s2 != 0.0f, v1.s3 != 0.0f);
CAST float32 to uint8 x4:
    float4 v1;
    uchar4 v2 = (uchar4)(v1.s0 >= 256.0f ? ((uchar)255) : (0.0f < v1.s0 ? (uchar)v1.s0 : (v1.s0 < 0.0f ? ((uchar)0) : ((uchar)0))), v1.s1 >= 256.0f ? ((uchar)255) : (0.0f < v1.s1 ? (uchar)v1.s1 : (v1.s1 < 0.0f ? ((uchar)0) : ((uchar)0))), v1.s2 >= 256.0f ? ((uchar)255) : (0.0f < v1.s2 ? (uchar)v1.s2 : (v1.s2 < 0.0f ? ((uchar)0) : ((uchar)0))), v1.s3 >= 256.0f ? ((uchar)255) : (0.0f < v1.s3 ? (uchar)v1.s3 : (v1.s3 < 0.0f ? ((uchar)0) : ((uchar)0))));
CAST float32 to int64 x4:
    float4 v1;
    long4 v2 = (long4)(v1.s0 >= 9.223372e+18f ? 9223372036854775807l : ((-9.223372e+18f) < v1.s0 ? (long)v1.s0 : (v1.s0 < 0.0f ? (-9223372036854775807l - 1l) : 0l)), v1.s1 >= 9.223372e+18f ? 9223372036854775807l : ((-9.223372e+18f) < v1.s1 ? (long)v1.s1 : (v1.s1 < 0.0f ? (-9223372036854775807l - 1l) : 0l)), v1.s2 >= 9.223372e+18f ? 9223372036854775807l : ((-9.223372e+18f) < v1.s2 ? (long)v1.s2 : (v1.s2 < 0.0f ? (-9223372036854775807l - 1l) : 0l)), v1.s3 >= 9.223372e+18f ? 9223372036854775807l : ((-9.223372e+18f) < v1.s3 ? (long)v1.s3 : (v1.s3 < 0.0f ? (-9223372036854775807l - 1l) : 0l)));
