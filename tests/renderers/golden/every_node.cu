LOAD bool x1:
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
    unsigned char v2 = (unsigned char)v1;
BITCAST bool to uint8 x1:
    unsigned char v2 = (unsigned char)v1;
CAST bool to int16 x1:
    short v2 = (short)v1;
CAST bool to int64 x1:
    long long v2 = (long long)v1;
CAST bool to float16 x1:
    __half v2 = __float2half_rn((float)v1);
CAST bool to float32 x1:
    float v2 = (float)v1;
LOAD uint8 x1:
    unsigned char v1 = data1[0];
    data0[0] = v1;
ADD uint8 x1:
    asm("" : "+r"(byte));
    unsigned char v3 = (unsigned char)((unsigned int)tinyref_widened(v1) + (unsigned int)tinyref_widened(v2));
AND uint8 x1:
    asm("" : "+r"(byte));
    unsigned char v3 = (unsigned char)(tinyref_widened(v1) & v2);
CMPLT uint8 x1:
    bool v3 = v1 < v2;
CMPNE uint8 x1:
    bool v3 = v1 != v2;
IDIV uint8 x1:
    asm("" : "+r"(byte));
    unsigned char v3 = (unsigned char)(tinyref_widened(v1) / v2);
MAX uint8 x1:
    unsigned char v3 = v1 < v2 ? v2 : v1;
MOD uint8 x1:
    asm("" : "+r"(byte));
    unsigned char v3 = (unsigned char)(tinyref_widened(v1) % v2);
MUL uint8 x1:
    asm("" : "+r"(byte));
    unsigned char v3 = (unsigned char)((unsigned int)tinyref_widened(v1) * (unsigned int)tinyref_widened(v2));
NEG uint8 x1:
    asm("" : "+r"(byte));
    unsigned char v2 = (unsigned char)((unsigned int)tinyref_widened(((unsigned char)0)) - (unsigned int)tinyref_widened(v1));
OR uint8 x1:
    asm("" : "+r"(byte));
    unsigned char v3 = (unsigned char)(tinyref_widened(v1) | v2);
SHL uint8 x1:
    asm("" : "+r"(byte));
    unsigned char v3 = (unsigned char)((unsigned int)tinyref_widened(v1) << (v2 & 7));
SHR uint8 x1:
    unsigned char v3 = (unsigned char)(v1 >> (v2 & 7));
SUB uint8 x1:
    asm("" : "+r"(byte));
    unsigned char v3 = (unsigned char)((unsigned int)tinyref_widened(v1) - (unsigned int)tinyref_widened(v2));
XOR uint8 x1:
    asm("" : "+r"(byte));
    unsigned char v3 = (unsigned char)(tinyref_widened(v1) ^ v2);
WHERE uint8 x1:
    unsigned char v4 = v1 ? v2 : v3;
CAST uint8 to bool x1:
    bool v2 = v1 != ((unsigned char)0);
CAST uint8 to int16 x1:
    asm("" : "+r"(byte));
    short v2 = (short)tinyref_widened(v1);
CAST uint8 to int64 x1:
    asm("" : "+r"(byte));
    long long v2 = (long long)tinyref_widened(v1);
CAST uint8 to float16 x1:
    asm("" : "+r"(byte));
    __half v2 = __float2half_rn((float)tinyref_widened(v1));
CAST uint8 to float32 x1:
    asm("" : "+r"(byte));
    float v2 = (float)tinyref_widened(v1);
LOAD int16 x1:
    short v1 = data1[0];
    data0[0] = v1;
ADD int16 x1:
    short v3 = (short)((unsigned int)v1 + (unsigned int)v2);
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
    short v3 = (short)((unsigned int)v1 * (unsigned int)v2);
NEG int16 x1:
    short v2 = (short)((unsigned int)((short)0) - (unsigned int)v1);
OR int16 x1:
    short v3 = (short)(v1 | v2);
SHL int16 x1:
    short v3 = (short)((unsigned int)v1 << (v2 & 15));
SHR int16 x1:
    short v3 = (short)(v1 >> (v2 & 15));
SUB int16 x1:
    short v3 = (short)((unsigned int)v1 - (unsigned int)v2);
XOR int16 x1:
    short v3 = (short)(v1 ^ v2);
WHERE int16 x1:
    short v4 = v1 ? v2 : v3;
CAST int16 to bool x1:
    bool v2 = v1 != ((short)0);
CAST int16 to uint8 x1:
    unsigned char v2 = (unsigned char)v1;
CAST int16 to int64 x1:
    long long v2 = (long long)v1;
CAST int16 to float16 x1:
    __half v2 = __float2half_rn((float)v1);
BITCAST int16 to float16 x1:
    __half v2 = __ushort_as_half((unsigned short)v1);
CAST int16 to float32 x1:
    float v2 = (float)v1;
LOAD int64 x1:
    long long v1 = data1[0];
    data0[0] = v1;
ADD int64 x1:
    long long v3 = (long long)((unsigned long long)v1 + (unsigned long long)v2);
AND int64 x1:
    long long v3 = v1 & v2;
CMPLT int64 x1:
    bool v3 = v1 < v2;
CMPNE int64 x1:
    bool v3 = v1 != v2;
IDIV int64 x1:
    long long v3 = v1 / v2;
MAX int64 x1:
    long long v3 = v1 < v2 ? v2 : v1;
MOD int64 x1:
    long long v3 = v1 % v2;
MUL int64 x1:
    long long v3 = (long long)((unsigned long long)v1 * (unsigned long long)v2);
NEG int64 x1:
    long long v2 = (long long)((unsigned long long)0ll - (unsigned long long)v1);
OR int64 x1:
    long long v3 = v1 | v2;
SHL int64 x1:
    long long v3 = (long long)((unsigned long long)v1 << (v2 & 63));
SHR int64 x1:
    long long v3 = v1 >> (v2 & 63);
SUB int64 x1:
    long long v3 = (long long)((unsigned long long)v1 - (unsigned long long)v2);
XOR int64 x1:
    long long v3 = v1 ^ v2;
WHERE int64 x1:
    long long v4 = v1 ? v2 : v3;
CAST int64 to bool x1:
    bool v2 = v1 != 0ll;
CAST int64 to uint8 x1:
    unsigned char v2 = (unsigned char)v1;
CAST int64 to int16 x1:
    short v2 = (short)v1;
CAST int64 to float16 x1:
    __half v2 = __float2half_rn((float)v1);
CAST int64 to float32 x1:
    float v2 = (float)v1;
LOAD float16 x1:
    __half v1 = data1[0];
    data0[0] = v1;
ADD float16 x1:
    __half v3 = __hadd_rn(v1, v2);
CMPLT float16 x1:
    bool v3 = __hlt(v1, v2);
CMPNE float16 x1:
    bool v3 = __hneu(v1, v2);
EXP2 float16 x1: refused, EXP2: is not declared
FDIV float16 x1:
    __half v3 = __float2half_rn(__fdiv_rn(__half2float(v1), __half2float(v2)));
LOG2 float16 x1: refused, LOG2: is not declared
MAX float16 x1:
    __half v3 = __hlt(v1, v2) ? v2 : v1;
MUL float16 x1:
    __half v3 = __hmul_rn(v1, v2);
NEG float16 x1:
    __half v2 = __ushort_as_half((unsigned short)(__half_as_ushort(v1) ^ 0x8000));
POW float16 x1: refused, POW: is not declared
RECIP float16 x1:
    __half v2 = __float2half_rn(__fdiv_rn(__half2float(__float2half_rn(1.0f)), __half2float(v1)));
SIN float16 x1: refused, SIN: is not declared
SQRT float16 x1:
    __half v2 = __float2half_rn(__fsqrt_rn(__half2float(v1)));
SUB float16 x1:
    __half v3 = __hsub_rn(v1, v2);
TRUNC float16 x1:
    __half v2 = __float2half_rn(trunc(__half2float(v1)));
WHERE float16 x1:
    __half v4 = v1 ? v2 : v3;
CAST float16 to bool x1:
    bool v2 = __hneu(v1, __float2half_rn(0.0f));
CAST float16 to uint8 x1:
    unsigned char v2 = (__half2float(v1)) >= 256.0f ? ((unsigned char)255) : (0.0f < (__half2float(v1)) ? (unsigned char)(__half2float(v1)) : ((__half2float(v1)) < 0.0f ? ((unsigned char)0) : ((unsigned char)0)));
CAST float16 to int16 x1:
    short v2 = (__half2float(v1)) >= 32768.0f ? ((short)32767) : ((-32768.0f) < (__half2float(v1)) ? (short)(__half2float(v1)) : ((__half2float(v1)) < 0.0f ? ((short)-32768) : ((short)0)));
BITCAST float16 to int16 x1:
    short v2 = (short)__half_as_ushort(v1);
CAST float16 to int64 x1:
    long long v2 = (__half2float(v1)) >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < (__half2float(v1)) ? (long long)(__half2float(v1)) : ((__half2float(v1)) < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll));
CAST float16 to float32 x1:
    float v2 = __half2float(v1);
LOAD float32 x1:
    float v1 = data1[0];
    data0[0] = v1;
ADD float32 x1:
    float v3 = __fadd_rn(v1, v2);
CMPLT float32 x1:
    bool v3 = v1 < v2;
CMPNE float32 x1:
    bool v3 = v1 != v2;
EXP2 float32 x1: refused, EXP2: is not declared
FDIV float32 x1:
    float v3 = __fdiv_rn(v1, v2);
LOG2 float32 x1: refused, LOG2: is not declared
MAX float32 x1:
    float v3 = v1 < v2 ? v2 : v1;
MUL float32 x1:
    float v3 = __fmul_rn(v1, v2);
NEG float32 x1:
    float v2 = -v1;
POW float32 x1: refused, POW: is not declared
RECIP float32 x1:
    float v2 = __fdiv_rn(1.0f, v1);
SIN float32 x1: refused, SIN: is not declared
SQRT float32 x1:
    float v2 = __fsqrt_rn(v1);
SUB float32 x1:
    float v3 = __fsub_rn(v1, v2);
TRUNC float32 x1:
    float v2 = trunc(v1);
WHERE float32 x1:
    float v4 = v1 ? v2 : v3;
CAST float32 to bool x1:
    bool v2 = v1 != 0.0f;
CAST float32 to uint8 x1:
    unsigned char v2 = v1 >= 256.0f ? ((unsigned char)255) : (0.0f < v1 ? (unsigned char)v1 : (v1 < 0.0f ? ((unsigned char)0) : ((unsigned char)0)));
CAST float32 to int16 x1:
    short v2 = v1 >= 32768.0f ? ((short)32767) : ((-32768.0f) < v1 ? (short)v1 : (v1 < 0.0f ? ((short)-32768) : ((short)0)));
CAST float32 to int64 x1:
    long long v2 = v1 >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1 ? (long long)v1 : (v1 < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll));
CAST float32 to float16 x1:
    __half v2 = __float2half_rn(v1);
LOAD bool x4:
    uchar4 v1;
    v1 = make_uchar4(data1[0] != 0, data1[0 + 1] != 0, data1[0 + 2] != 0, data1[0 + 3] != 0);
    data0[0] = v1.x; data0[0 + 1] = v1.y; data0[0 + 2] = v1.z; data0[0 + 3] = v1.w;
AND bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4(v1.x & v2.x, v1.y & v2.y, v1.z & v2.z, v1.w & v2.w);
CMPLT bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4(v1.x < v2.x, v1.y < v2.y, v1.z < v2.z, v1.w < v2.w);
CMPNE bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4(v1.x != v2.x, v1.y != v2.y, v1.z != v2.z, v1.w != v2.w);
MAX bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4(v1.x < v2.x ? v2.x : v1.x, v1.y < v2.y ? v2.y : v1.y, v1.z < v2.z ? v2.z : v1.z, v1.w < v2.w ? v2.w : v1.w);
OR bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4(v1.x | v2.x, v1.y | v2.y, v1.z | v2.z, v1.w | v2.w);
XOR bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4(v1.x ^ v2.x, v1.y ^ v2.y, v1.z ^ v2.z, v1.w ^ v2.w);
WHERE bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3;
    uchar4 v4 = make_uchar4(v1.x ? v2.x : v3.x, v1.y ? v2.y : v3.y, v1.z ? v2.z : v3.z, v1.w ? v2.w : v3.w);
CAST bool to uint8 x4:
    uchar4 v1;
    uchar4 v2 = make_uchar4((unsigned char)v1.x, (unsigned char)v1.y, (unsigned char)v1.z, (unsigned char)v1.w);
BITCAST bool to uint8 x4:
    uchar4 v1;
    uchar4 v2 = make_uchar4((unsigned char)v1.x, (unsigned char)v1.y, (unsigned char)v1.z, (unsigned char)v1.w);
CAST bool to int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    uchar4 v1;
    tinyref_int64x4 v2 = make_tinyref_int64x4((long long)v1.x, (long long)v1.y, (long long)v1.z, (long long)v1.w);
CAST bool to float32 x4:
    uchar4 v1;
    float4 v2 = make_float4((float)v1.x, (float)v1.y, (float)v1.z, (float)v1.w);
LOAD uint8 x4:
    uchar4 v1;
    v1 = make_uchar4(data1[0], data1[0 + 1], data1[0 + 2], data1[0 + 3]);
    data0[0] = v1.x; data0[0 + 1] = v1.y; data0[0 + 2] = v1.z; data0[0 + 3] = v1.w;
ADD uint8 x4:
    asm("" : "+r"(byte));
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4((unsigned char)((unsigned int)tinyref_widened(v1.x) + (unsigned int)tinyref_widened(v2.x)), (unsigned char)((unsigned int)tinyref_widened(v1.y) + (unsigned int)tinyref_widened(v2.y)), (unsigned char)((unsigned int)tinyref_widened(v1.z) + (unsigned int)tinyref_widened(v2.z)), (unsigned char)((unsigned int)tinyref_widened(v1.w) + (unsigned int)tinyref_widened(v2.w)));
AND uint8 x4:
    asm("" : "+r"(byte));
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4((unsigned char)(tinyref_widened(v1.x) & v2.x), (unsigned char)(tinyref_widened(v1.y) & v2.y), (unsigned char)(tinyref_widened(v1.z) & v2.z), (unsigned char)(tinyref_widened(v1.w) & v2.w));
CMPLT uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4(v1.x < v2.x, v1.y < v2.y, v1.z < v2.z, v1.w < v2.w);
CMPNE uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4(v1.x != v2.x, v1.y != v2.y, v1.z != v2.z, v1.w != v2.w);
IDIV uint8 x4:
    asm("" : "+r"(byte));
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4((unsigned char)(tinyref_widened(v1.x) / v2.x), (unsigned char)(tinyref_widened(v1.y) / v2.y), (unsigned char)(tinyref_widened(v1.z) / v2.z), (unsigned char)(tinyref_widened(v1.w) / v2.w));
MAX uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4(v1.x < v2.x ? v2.x : v1.x, v1.y < v2.y ? v2.y : v1.y, v1.z < v2.z ? v2.z : v1.z, v1.w < v2.w ? v2.w : v1.w);
MOD uint8 x4:
    asm("" : "+r"(byte));
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4((unsigned char)(tinyref_widened(v1.x) % v2.x), (unsigned char)(tinyref_widened(v1.y) % v2.y), (unsigned char)(tinyref_widened(v1.z) % v2.z), (unsigned char)(tinyref_widened(v1.w) % v2.w));
MUL uint8 x4:
    asm("" : "+r"(byte));
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4((unsigned char)((unsigned int)tinyref_widened(v1.x) * (unsigned int)tinyref_widened(v2.x)), (unsigned char)((unsigned int)tinyref_widened(v1.y) * (unsigned int)tinyref_widened(v2.y)), (unsigned char)((unsigned int)tinyref_widened(v1.z) * (unsigned int)tinyref_widened(v2.z)), (unsigned char)((unsigned int)tinyref_widened(v1.w) * (unsigned int)tinyref_widened(v2.w)));
NEG uint8 x4:
    asm("" : "+r"(byte));
    uchar4 v1;
    uchar4 v2 = make_uchar4((unsigned char)((unsigned int)tinyref_widened(((unsigned char)0)) - (unsigned int)tinyref_widened(v1.x)), (unsigned char)((unsigned int)tinyref_widened(((unsigned char)0)) - (unsigned int)tinyref_widened(v1.y)), (unsigned char)((unsigned int)tinyref_widened(((unsigned char)0)) - (unsigned int)tinyref_widened(v1.z)), (unsigned char)((unsigned int)tinyref_widened(((unsigned char)0)) - (unsigned int)tinyref_widened(v1.w)));
OR uint8 x4:
    asm("" : "+r"(byte));
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4((unsigned char)(tinyref_widened(v1.x) | v2.x), (unsigned char)(tinyref_widened(v1.y) | v2.y), (unsigned char)(tinyref_widened(v1.z) | v2.z), (unsigned char)(tinyref_widened(v1.w) | v2.w));
SHL uint8 x4:
    asm("" : "+r"(byte));
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4((unsigned char)((unsigned int)tinyref_widened(v1.x) << (v2.x & 7)), (unsigned char)((unsigned int)tinyref_widened(v1.y) << (v2.y & 7)), (unsigned char)((unsigned int)tinyref_widened(v1.z) << (v2.z & 7)), (unsigned char)((unsigned int)tinyref_widened(v1.w) << (v2.w & 7)));
SHR uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4((unsigned char)(v1.x >> (v2.x & 7)), (unsigned char)(v1.y >> (v2.y & 7)), (unsigned char)(v1.z >> (v2.z & 7)), (unsigned char)(v1.w >> (v2.w & 7)));
SUB uint8 x4:
    asm("" : "+r"(byte));
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4((unsigned char)((unsigned int)tinyref_widened(v1.x) - (unsigned int)tinyref_widened(v2.x)), (unsigned char)((unsigned int)tinyref_widened(v1.y) - (unsigned int)tinyref_widened(v2.y)), (unsigned char)((unsigned int)tinyref_widened(v1.z) - (unsigned int)tinyref_widened(v2.z)), (unsigned char)((unsigned int)tinyref_widened(v1.w) - (unsigned int)tinyref_widened(v2.w)));
XOR uint8 x4:
    asm("" : "+r"(byte));
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = make_uchar4((unsigned char)(tinyref_widened(v1.x) ^ v2.x), (unsigned char)(tinyref_widened(v1.y) ^ v2.y), (unsigned char)(tinyref_widened(v1.z) ^ v2.z), (unsigned char)(tinyref_widened(v1.w) ^ v2.w));
WHERE uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3;
    uchar4 v4 = make_uchar4(v1.x ? v2.x : v3.x, v1.y ? v2.y : v3.y, v1.z ? v2.z : v3.z, v1.w ? v2.w : v3.w);
CAST uint8 to bool x4:
    uchar4 v1;
    uchar4 v2 = make_uchar4(v1.x != ((unsigned char)0), v1.y != ((unsigned char)0), v1.z != ((unsigned char)0), v1.w != ((unsigned char)0));
CAST uint8 to int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    asm("" : "+r"(byte));
    uchar4 v1;
    tinyref_int64x4 v2 = make_tinyref_int64x4((long long)tinyref_widened(v1.x), (long long)tinyref_widened(v1.y), (long long)tinyref_widened(v1.z), (long long)tinyref_widened(v1.w));
CAST uint8 to float32 x4:
    asm("" : "+r"(byte));
    uchar4 v1;
    float4 v2 = make_float4((float)tinyref_widened(v1.x), (float)tinyref_widened(v1.y), (float)tinyref_widened(v1.z), (float)tinyref_widened(v1.w));
LOAD int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    v1 = make_tinyref_int64x4(data1[0], data1[0 + 1], data1[0 + 2], data1[0 + 3]);
    data0[0] = v1.x; data0[0 + 1] = v1.y; data0[0 + 2] = v1.z; data0[0 + 3] = v1.w;
ADD int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2;
    tinyref_int64x4 v3 = make_tinyref_int64x4((long long)((unsigned long long)v1.x + (unsigned long long)v2.x), (long long)((unsigned long long)v1.y + (unsigned long long)v2.y), (long long)((unsigned long long)v1.z + (unsigned long long)v2.z), (long long)((unsigned long long)v1.w + (unsigned long long)v2.w));
AND int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2;
    tinyref_int64x4 v3 = make_tinyref_int64x4(v1.x & v2.x, v1.y & v2.y, v1.z & v2.z, v1.w & v2.w);
CMPLT int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2;
    uchar4 v3 = make_uchar4(v1.x < v2.x, v1.y < v2.y, v1.z < v2.z, v1.w < v2.w);
CMPNE int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2;
    uchar4 v3 = make_uchar4(v1.x != v2.x, v1.y != v2.y, v1.z != v2.z, v1.w != v2.w);
IDIV int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2;
    tinyref_int64x4 v3 = make_tinyref_int64x4(v1.x / v2.x, v1.y / v2.y, v1.z / v2.z, v1.w / v2.w);
MAX int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2;
    tinyref_int64x4 v3 = make_tinyref_int64x4(v1.x < v2.x ? v2.x : v1.x, v1.y < v2.y ? v2.y : v1.y, v1.z < v2.z ? v2.z : v1.z, v1.w < v2.w ? v2.w : v1.w);
MOD int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2;
    tinyref_int64x4 v3 = make_tinyref_int64x4(v1.x % v2.x, v1.y % v2.y, v1.z % v2.z, v1.w % v2.w);
MUL int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2;
    tinyref_int64x4 v3 = make_tinyref_int64x4((long long)((unsigned long long)v1.x * (unsigned long long)v2.x), (long long)((unsigned long long)v1.y * (unsigned long long)v2.y), (long long)((unsigned long long)v1.z * (unsigned long long)v2.z), (long long)((unsigned long long)v1.w * (unsigned long long)v2.w));
NEG int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2 = make_tinyref_int64x4((long long)((unsigned long long)0ll - (unsigned long long)v1.x), (long long)((unsigned long long)0ll - (unsigned long long)v1.y), (long long)((unsigned long long)0ll - (unsigned long long)v1.z), (long long)((unsigned long long)0ll - (unsigned long long)v1.w));
OR int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2;
    tinyref_int64x4 v3 = make_tinyref_int64x4(v1.x | v2.x, v1.y | v2.y, v1.z | v2.z, v1.w | v2.w);
SHL int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2;
    tinyref_int64x4 v3 = make_tinyref_int64x4((long long)((unsigned long long)v1.x << (v2.x & 63)), (long long)((unsigned long long)v1.y << (v2.y & 63)), (long long)((unsigned long long)v1.z << (v2.z & 63)), (long long)((unsigned long long)v1.w << (v2.w & 63)));
SHR int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2;
    tinyref_int64x4 v3 = make_tinyref_int64x4(v1.x >> (v2.x & 63), v1.y >> (v2.y & 63), v1.z >> (v2.z & 63), v1.w >> (v2.w & 63));
SUB int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2;
    tinyref_int64x4 v3 = make_tinyref_int64x4((long long)((unsigned long long)v1.x - (unsigned long long)v2.x), (long long)((unsigned long long)v1.y - (unsigned long long)v2.y), (long long)((unsigned long long)v1.z - (unsigned long long)v2.z), (long long)((unsigned long long)v1.w - (unsigned long long)v2.w));
XOR int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    tinyref_int64x4 v2;
    tinyref_int64x4 v3 = make_tinyref_int64x4(v1.x ^ v2.x, v1.y ^ v2.y, v1.z ^ v2.z, v1.w ^ v2.w);
WHERE int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    uchar4 v1;
    tinyref_int64x4 v2;
    tinyref_int64x4 v3;
    tinyref_int64x4 v4 = make_tinyref_int64x4(v1.x ? v2.x : v3.x, v1.y ? v2.y : v3.y, v1.z ? v2.z : v3.z, v1.w ? v2.w : v3.w);
CAST int64 to bool x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    uchar4 v2 = make_uchar4(v1.x != 0ll, v1.y != 0ll, v1.z != 0ll, v1.w != 0ll);
CAST int64 to uint8 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    uchar4 v2 = make_uchar4((unsigned char)v1.x, (unsigned char)v1.y, (unsigned char)v1.z, (unsigned char)v1.w);
CAST int64 to float32 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    tinyref_int64x4 v1;
    float4 v2 = make_float4((float)v1.x, (float)v1.y, (float)v1.z, (float)v1.w);
LOAD float32 x4:
    float4 v1;
    v1 = make_float4(data1[0], data1[0 + 1], data1[0 + 2], data1[0 + 3]);
    data0[0] = v1.x; data0[0 + 1] = v1.y; data0[0 + 2] = v1.z; data0[0 + 3] = v1.w;
ADD float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = make_float4(__fadd_rn(v1.x, v2.x), __fadd_rn(v1.y, v2.y), __fadd_rn(v1.z, v2.z), __fadd_rn(v1.w, v2.w));
CMPLT float32 x4:
    float4 v1;
    float4 v2;
    uchar4 v3 = make_uchar4(v1.x < v2.x, v1.y < v2.y, v1.z < v2.z, v1.w < v2.w);
CMPNE float32 x4:
    float4 v1;
    float4 v2;
    uchar4 v3 = make_uchar4(v1.x != v2.x, v1.y != v2.y, v1.z != v2.z, v1.w != v2.w);
EXP2 float32 x4: refused, EXP2: is not declared
FDIV float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = make_float4(__fdiv_rn(v1.x, v2.x), __fdiv_rn(v1.y, v2.y), __fdiv_rn(v1.z, v2.z), __fdiv_rn(v1.w, v2.w));
LOG2 float32 x4: refused, LOG2: is not declared
MAX float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = make_float4(v1.x < v2.x ? v2.x : v1.x, v1.y < v2.y ? v2.y : v1.y, v1.z < v2.z ? v2.z : v1.z, v1.w < v2.w ? v2.w : v1.w);
MUL float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = make_float4(__fmul_rn(v1.x, v2.x), __fmul_rn(v1.y, v2.y), __fmul_rn(v1.z, v2.z), __fmul_rn(v1.w, v2.w));
NEG float32 x4:
    float4 v1;
    float4 v2 = make_float4(-v1.x, -v1.y, -v1.z, -v1.w);
POW float32 x4: refused, POW: is not declared
RECIP float32 x4:
    float4 v1;
    float4 v2 = make_float4(__fdiv_rn(1.0f, v1.x), __fdiv_rn(1.0f, v1.y), __fdiv_rn(1.0f, v1.z), __fdiv_rn(1.0f, v1.w));
SIN float32 x4: refused, SIN: is not declared
SQRT float32 x4:
    float4 v1;
    float4 v2 = make_float4(__fsqrt_rn(v1.x), __fsqrt_rn(v1.y), __fsqrt_rn(v1.z), __fsqrt_rn(v1.w));
SUB float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = make_float4(__fsub_rn(v1.x, v2.x), __fsub_rn(v1.y, v2.y), __fsub_rn(v1.z, v2.z), __fsub_rn(v1.w, v2.w));
TRUNC float32 x4:
    float4 v1;
    float4 v2 = make_float4(trunc(v1.x), trunc(v1.y), trunc(v1.z), trunc(v1.w));
WHERE float32 x4:
    uchar4 v1;
    float4 v2;
    float4 v3;
    float4 v4 = make_float4(v1.x ? v2.x : v3.x, v1.y ? v2.y : v3.y, v1.z ? v2.z : v3.z, v1.w ? v2.w : v3.w);
CAST float32 to bool x4:
    float4 v1;
    uchar4 v2 = make_uchar4(v1.x != 0.0f, v1.y != 0.0f, v1.z != 0.0f, v1.w != 0.0f);
CAST float32 to uint8 x4:
    float4 v1;
    uchar4 v2 = make_uchar4(v1.x >= 256.0f ? ((unsigned char)255) : (0.0f < v1.x ? (unsigned char)v1.x : (v1.x < 0.0f ? ((unsigned char)0) : ((unsigned char)0))), v1.y >= 256.0f ? ((unsigned char)255) : (0.0f < v1.y ? (unsigned char)v1.y : (v1.y < 0.0f ? ((unsigned char)0) : ((unsigned char)0))), v1.z >= 256.0f ? ((unsigned char)255) : (0.0f < v1.z ? (unsigned char)v1.z : (v1.z < 0.0f ? ((unsigned char)0) : ((unsigned char)0))), v1.w >= 256.0f ? ((unsigned char)255) : (0.0f < v1.w ? (unsigned char)v1.w : (v1.w < 0.0f ? ((unsigned char)0) : ((unsigned char)0))));
CAST float32 to int64 x4:
    typedef struct __align__(16) { long long x, y, z, w; } tinyref_int64x4;
    float4 v1;
    tinyref_int64x4 v2 = make_tinyref_int64x4(v1.x >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1.x ? (long long)v1.x : (v1.x < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll)), v1.y >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1.y ? (long long)v1.y : (v1.y < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll)), v1.z >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1.z ? (long long)v1.z : (v1.z < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll)), v1.w >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1.w ? (long long)v1.w : (v1.w < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll)));
