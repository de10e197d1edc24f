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
    _Float16 v2 = (_Float16)v1;
CAST bool to float32 x1:
    float v2 = (float)v1;
LOAD uint8 x1:
    unsigned char v1 = data1[0];
    data0[0] = v1;
ADD uint8 x1:
    unsigned char v3 = (unsigned char)((unsigned int)v1 + (unsigned int)v2);
AND uint8 x1:
    unsigned char v3 = (unsigned char)(v1 & v2);
CMPLT uint8 x1:
    bool v3 = v1 < v2;
CMPNE uint8 x1:
    bool v3 = v1 != v2;
IDIV uint8 x1:
    unsigned char v3 = (unsigned char)(v1 / v2);
MAX uint8 x1:
    unsigned char v3 = v1 < v2 ? v2 : v1;
MOD uint8 x1:
    unsigned char v3 = (unsigned char)(v1 % v2);
MUL uint8 x1:
    unsigned char v3 = (unsigned char)((unsigned int)v1 * (unsigned int)v2);
NEG uint8 x1:
    unsigned char v2 = (unsigned char)((unsigned int)((unsigned char)0) - (unsigned int)v1);
OR uint8 x1:
    unsigned char v3 = (unsigned char)(v1 | v2);
SHL uint8 x1:
    unsigned char v3 = (unsigned char)((unsigned int)v1 << (v2 & 7));
SHR uint8 x1:
    unsigned char v3 = (unsigned char)(v1 >> (v2 & 7));
SUB uint8 x1:
    unsigned char v3 = (unsigned char)((unsigned int)v1 - (unsigned int)v2);
XOR uint8 x1:
    unsigned char v3 = (unsigned char)(v1 ^ v2);
WHERE uint8 x1:
    unsigned char v4 = v1 ? v2 : v3;
CAST uint8 to bool x1:
    bool v2 = v1 != ((unsigned char)0);
CAST uint8 to int16 x1:
    short v2 = (short)v1;
CAST uint8 to int64 x1:
    long long v2 = (long long)v1;
CAST uint8 to float16 x1:
    _Float16 v2 = (_Float16)v1;
CAST uint8 to float32 x1:
    float v2 = (float)v1;
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
    _Float16 v2 = (_Float16)v1;
BITCAST int16 to float16 x1:
    _Float16 v2 = __builtin_bit_cast(_Float16, v1);
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
    _Float16 v2 = (_Float16)v1;
CAST int64 to float32 x1:
    float v2 = (float)v1;
LOAD float16 x1:
    _Float16 v1 = data1[0];
    data0[0] = v1;
ADD float16 x1:
    _Float16 v3 = v1 + v2;
CMPLT float16 x1:
    bool v3 = v1 < v2;
CMPNE float16 x1:
    bool v3 = v1 != v2;
EXP2 float16 x1: refused, EXP2: is not declared
FDIV float16 x1:
    static __device__ inline _Float16 divide_halves(_Float16 x, _Float16 y) {
    float quotient = (float)x / (float)y;
    TINYREF_OPAQUE(quotient);
    _Float16 v3 = divide_halves(v1, v2);
LOG2 float16 x1: refused, LOG2: is not declared
MAX float16 x1:
    _Float16 v3 = v1 < v2 ? v2 : v1;
MUL float16 x1:
    _Float16 v3 = v1 * v2;
NEG float16 x1:
    _Float16 v2 = -v1;
POW float16 x1: refused, POW: is not declared
RECIP float16 x1:
    static __device__ inline _Float16 divide_halves(_Float16 x, _Float16 y) {
    float quotient = (float)x / (float)y;
    TINYREF_OPAQUE(quotient);
    _Float16 v2 = divide_halves(((_Float16)1.0f), v1);
SIN float16 x1: refused, SIN: is not declared
SQRT float16 x1:
    _Float16 v2 = (_Float16)__builtin_sqrtf((float)v1);
SUB float16 x1:
    _Float16 v3 = v1 - v2;
TRUNC float16 x1:
    _Float16 v2 = (_Float16)__builtin_truncf((float)v1);
WHERE float16 x1:
    _Float16 v4 = v1 ? v2 : v3;
CAST float16 to bool x1:
    bool v2 = v1 != ((_Float16)0.0f);
CAST float16 to uint8 x1:
    unsigned char v2 = ((float)v1) >= 256.0f ? ((unsigned char)255) : (0.0f < ((float)v1) ? (unsigned char)((float)v1) : (((float)v1) < 0.0f ? ((unsigned char)0) : ((unsigned char)0)));
CAST float16 to int16 x1:
    short v2 = ((float)v1) >= 32768.0f ? ((short)32767) : ((-32768.0f) < ((float)v1) ? (short)((float)v1) : (((float)v1) < 0.0f ? ((short)-32768) : ((short)0)));
BITCAST float16 to int16 x1:
    short v2 = __builtin_bit_cast(short, v1);
CAST float16 to int64 x1:
    long long v2 = ((float)v1) >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < ((float)v1) ? (long long)((float)v1) : (((float)v1) < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll));
CAST float16 to float32 x1:
    float v2 = (float)v1;
LOAD float32 x1:
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
    float v2 = __builtin_sqrtf(v1);
SUB float32 x1:
    float v3 = v1 - v2;
TRUNC float32 x1:
    float v2 = __builtin_truncf(v1);
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
    _Float16 v2 = (_Float16)v1;
LOAD bool x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    v1 = (uchar_v4){data1[0] != 0, data1[0 + 1] != 0, data1[0 + 2] != 0, data1[0 + 3] != 0};
    data0[0] = v1.s0; data0[0 + 1] = v1.s1; data0[0 + 2] = v1.s2; data0[0 + 3] = v1.s3;
AND bool x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){v1.s0 & v2.s0, v1.s1 & v2.s1, v1.s2 & v2.s2, v1.s3 & v2.s3};
CMPLT bool x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){v1.s0 < v2.s0, v1.s1 < v2.s1, v1.s2 < v2.s2, v1.s3 < v2.s3};
CMPNE bool x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){v1.s0 != v2.s0, v1.s1 != v2.s1, v1.s2 != v2.s2, v1.s3 != v2.s3};
MAX bool x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){v1.s0 < v2.s0 ? v2.s0 : v1.s0, v1.s1 < v2.s1 ? v2.s1 : v1.s1, v1.s2 < v2.s2 ? v2.s2 : v1.s2, v1.s3 < v2.s3 ? v2.s3 : v1.s3};
OR bool x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){v1.s0 | v2.s0, v1.s1 | v2.s1, v1.s2 | v2.s2, v1.s3 | v2.s3};
XOR bool x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){v1.s0 ^ v2.s0, v1.s1 ^ v2.s1, v1.s2 ^ v2.s2, v1.s3 ^ v2.s3};
WHERE bool x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3;
    uchar_v4 v4 = (uchar_v4){v1.s0 ? v2.s0 : v3.s0, v1.s1 ? v2.s1 : v3.s1, v1.s2 ? v2.s2 : v3.s2, v1.s3 ? v2.s3 : v3.s3};
CAST bool to uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2 = (uchar_v4){(unsigned char)v1.s0, (unsigned char)v1.s1, (unsigned char)v1.s2, (unsigned char)v1.s3};
BITCAST bool to uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2 = (uchar_v4){(unsigned char)v1.s0, (unsigned char)v1.s1, (unsigned char)v1.s2, (unsigned char)v1.s3};
CAST bool to int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    longlong_v4 v2 = (longlong_v4){(long long)v1.s0, (long long)v1.s1, (long long)v1.s2, (long long)v1.s3};
CAST bool to float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    float_v4 v2 = (float_v4){(float)v1.s0, (float)v1.s1, (float)v1.s2, (float)v1.s3};
LOAD uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    v1 = (uchar_v4){data1[0], data1[0 + 1], data1[0 + 2], data1[0 + 3]};
    data0[0] = v1.s0; data0[0 + 1] = v1.s1; data0[0 + 2] = v1.s2; data0[0 + 3] = v1.s3;
ADD uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){(unsigned char)((unsigned int)v1.s0 + (unsigned int)v2.s0), (unsigned char)((unsigned int)v1.s1 + (unsigned int)v2.s1), (unsigned char)((unsigned int)v1.s2 + (unsigned int)v2.s2), (unsigned char)((unsigned int)v1.s3 + (unsigned int)v2.s3)};
AND uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){(unsigned char)(v1.s0 & v2.s0), (unsigned char)(v1.s1 & v2.s1), (unsigned char)(v1.s2 & v2.s2), (unsigned char)(v1.s3 & v2.s3)};
CMPLT uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){v1.s0 < v2.s0, v1.s1 < v2.s1, v1.s2 < v2.s2, v1.s3 < v2.s3};
CMPNE uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){v1.s0 != v2.s0, v1.s1 != v2.s1, v1.s2 != v2.s2, v1.s3 != v2.s3};
IDIV uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){(unsigned char)(v1.s0 / v2.s0), (unsigned char)(v1.s1 / v2.s1), (unsigned char)(v1.s2 / v2.s2), (unsigned char)(v1.s3 / v2.s3)};
MAX uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){v1.s0 < v2.s0 ? v2.s0 : v1.s0, v1.s1 < v2.s1 ? v2.s1 : v1.s1, v1.s2 < v2.s2 ? v2.s2 : v1.s2, v1.s3 < v2.s3 ? v2.s3 : v1.s3};
MOD uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){(unsigned char)(v1.s0 % v2.s0), (unsigned char)(v1.s1 % v2.s1), (unsigned char)(v1.s2 % v2.s2), (unsigned char)(v1.s3 % v2.s3)};
MUL uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){(unsigned char)((unsigned int)v1.s0 * (unsigned int)v2.s0), (unsigned char)((unsigned int)v1.s1 * (unsigned int)v2.s1), (unsigned char)((unsigned int)v1.s2 * (unsigned int)v2.s2), (unsigned char)((unsigned int)v1.s3 * (unsigned int)v2.s3)};
NEG uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2 = (uchar_v4){(unsigned char)((unsigned int)((unsigned char)0) - (unsigned int)v1.s0), (unsigned char)((unsigned int)((unsigned char)0) - (unsigned int)v1.s1), (unsigned char)((unsigned int)((unsigned char)0) - (unsigned int)v1.s2), (unsigned char)((unsigned int)((unsigned char)0) - (unsigned int)v1.s3)};
OR uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){(unsigned char)(v1.s0 | v2.s0), (unsigned char)(v1.s1 | v2.s1), (unsigned char)(v1.s2 | v2.s2), (unsigned char)(v1.s3 | v2.s3)};
SHL uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){(unsigned char)((unsigned int)v1.s0 << (v2.s0 & 7)), (unsigned char)((unsigned int)v1.s1 << (v2.s1 & 7)), (unsigned char)((unsigned int)v1.s2 << (v2.s2 & 7)), (unsigned char)((unsigned int)v1.s3 << (v2.s3 & 7))};
SHR uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){(unsigned char)(v1.s0 >> (v2.s0 & 7)), (unsigned char)(v1.s1 >> (v2.s1 & 7)), (unsigned char)(v1.s2 >> (v2.s2 & 7)), (unsigned char)(v1.s3 >> (v2.s3 & 7))};
SUB uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){(unsigned char)((unsigned int)v1.s0 - (unsigned int)v2.s0), (unsigned char)((unsigned int)v1.s1 - (unsigned int)v2.s1), (unsigned char)((unsigned int)v1.s2 - (unsigned int)v2.s2), (unsigned char)((unsigned int)v1.s3 - (unsigned int)v2.s3)};
XOR uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3 = (uchar_v4){(unsigned char)(v1.s0 ^ v2.s0), (unsigned char)(v1.s1 ^ v2.s1), (unsigned char)(v1.s2 ^ v2.s2), (unsigned char)(v1.s3 ^ v2.s3)};
WHERE uint8 x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2;
    uchar_v4 v3;
    uchar_v4 v4 = (uchar_v4){v1.s0 ? v2.s0 : v3.s0, v1.s1 ? v2.s1 : v3.s1, v1.s2 ? v2.s2 : v3.s2, v1.s3 ? v2.s3 : v3.s3};
CAST uint8 to bool x4:
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    uchar_v4 v2 = (uchar_v4){v1.s0 != ((unsigned char)0), v1.s1 != ((unsigned char)0), v1.s2 != ((unsigned char)0), v1.s3 != ((unsigned char)0)};
CAST uint8 to int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    longlong_v4 v2 = (longlong_v4){(long long)v1.s0, (long long)v1.s1, (long long)v1.s2, (long long)v1.s3};
CAST uint8 to float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    float_v4 v2 = (float_v4){(float)v1.s0, (float)v1.s1, (float)v1.s2, (float)v1.s3};
LOAD int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    v1 = (longlong_v4){data1[0], data1[0 + 1], data1[0 + 2], data1[0 + 3]};
    data0[0] = v1.s0; data0[0 + 1] = v1.s1; data0[0 + 2] = v1.s2; data0[0 + 3] = v1.s3;
ADD int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2;
    longlong_v4 v3 = (longlong_v4){(long long)((unsigned long long)v1.s0 + (unsigned long long)v2.s0), (long long)((unsigned long long)v1.s1 + (unsigned long long)v2.s1), (long long)((unsigned long long)v1.s2 + (unsigned long long)v2.s2), (long long)((unsigned long long)v1.s3 + (unsigned long long)v2.s3)};
AND int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2;
    longlong_v4 v3 = (longlong_v4){v1.s0 & v2.s0, v1.s1 & v2.s1, v1.s2 & v2.s2, v1.s3 & v2.s3};
CMPLT int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2;
    uchar_v4 v3 = (uchar_v4){v1.s0 < v2.s0, v1.s1 < v2.s1, v1.s2 < v2.s2, v1.s3 < v2.s3};
CMPNE int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2;
    uchar_v4 v3 = (uchar_v4){v1.s0 != v2.s0, v1.s1 != v2.s1, v1.s2 != v2.s2, v1.s3 != v2.s3};
IDIV int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2;
    longlong_v4 v3 = (longlong_v4){v1.s0 / v2.s0, v1.s1 / v2.s1, v1.s2 / v2.s2, v1.s3 / v2.s3};
MAX int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2;
    longlong_v4 v3 = (longlong_v4){v1.s0 < v2.s0 ? v2.s0 : v1.s0, v1.s1 < v2.s1 ? v2.s1 : v1.s1, v1.s2 < v2.s2 ? v2.s2 : v1.s2, v1.s3 < v2.s3 ? v2.s3 : v1.s3};
MOD int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2;
    longlong_v4 v3 = (longlong_v4){v1.s0 % v2.s0, v1.s1 % v2.s1, v1.s2 % v2.s2, v1.s3 % v2.s3};
MUL int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2;
    longlong_v4 v3 = (longlong_v4){(long long)((unsigned long long)v1.s0 * (unsigned long long)v2.s0), (long long)((unsigned long long)v1.s1 * (unsigned long long)v2.s1), (long long)((unsigned long long)v1.s2 * (unsigned long long)v2.s2), (long long)((unsigned long long)v1.s3 * (unsigned long long)v2.s3)};
NEG int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2 = (longlong_v4){(long long)((unsigned long long)0ll - (unsigned long long)v1.s0), (long long)((unsigned long long)0ll - (unsigned long long)v1.s1), (long long)((unsigned long long)0ll - (unsigned long long)v1.s2), (long long)((unsigned long long)0ll - (unsigned long long)v1.s3)};
OR int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2;
    longlong_v4 v3 = (longlong_v4){v1.s0 | v2.s0, v1.s1 | v2.s1, v1.s2 | v2.s2, v1.s3 | v2.s3};
SHL int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2;
    longlong_v4 v3 = (longlong_v4){(long long)((unsigned long long)v1.s0 << (v2.s0 & 63)), (long long)((unsigned long long)v1.s1 << (v2.s1 & 63)), (long long)((unsigned long long)v1.s2 << (v2.s2 & 63)), (long long)((unsigned long long)v1.s3 << (v2.s3 & 63))};
SHR int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2;
    longlong_v4 v3 = (longlong_v4){v1.s0 >> (v2.s0 & 63), v1.s1 >> (v2.s1 & 63), v1.s2 >> (v2.s2 & 63), v1.s3 >> (v2.s3 & 63)};
SUB int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2;
    longlong_v4 v3 = (longlong_v4){(long long)((unsigned long long)v1.s0 - (unsigned long long)v2.s0), (long long)((unsigned long long)v1.s1 - (unsigned long long)v2.s1), (long long)((unsigned long long)v1.s2 - (unsigned long long)v2.s2), (long long)((unsigned long long)v1.s3 - (unsigned long long)v2.s3)};
XOR int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    longlong_v4 v2;
    longlong_v4 v3 = (longlong_v4){v1.s0 ^ v2.s0, v1.s1 ^ v2.s1, v1.s2 ^ v2.s2, v1.s3 ^ v2.s3};
WHERE int64 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    longlong_v4 v2;
    longlong_v4 v3;
    longlong_v4 v4 = (longlong_v4){v1.s0 ? v2.s0 : v3.s0, v1.s1 ? v2.s1 : v3.s1, v1.s2 ? v2.s2 : v3.s2, v1.s3 ? v2.s3 : v3.s3};
CAST int64 to bool x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    uchar_v4 v2 = (uchar_v4){v1.s0 != 0ll, v1.s1 != 0ll, v1.s2 != 0ll, v1.s3 != 0ll};
CAST int64 to uint8 x4:
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    uchar_v4 v2 = (uchar_v4){(unsigned char)v1.s0, (unsigned char)v1.s1, (unsigned char)v1.s2, (unsigned char)v1.s3};
CAST int64 to float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    longlong_v4 v1;
    float_v4 v2 = (float_v4){(float)v1.s0, (float)v1.s1, (float)v1.s2, (float)v1.s3};
LOAD float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    v1 = (float_v4){data1[0], data1[0 + 1], data1[0 + 2], data1[0 + 3]};
    data0[0] = v1.s0; data0[0 + 1] = v1.s1; data0[0 + 2] = v1.s2; data0[0 + 3] = v1.s3;
ADD float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    float_v4 v2;
    float_v4 v3 = (float_v4){v1.s0 + v2.s0, v1.s1 + v2.s1, v1.s2 + v2.s2, v1.s3 + v2.s3};
CMPLT float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    float_v4 v2;
    uchar_v4 v3 = (uchar_v4){v1.s0 < v2.s0, v1.s1 < v2.s1, v1.s2 < v2.s2, v1.s3 < v2.s3};
CMPNE float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    float_v4 v2;
    uchar_v4 v3 = (uchar_v4){v1.s0 != v2.s0, v1.s1 != v2.s1, v1.s2 != v2.s2, v1.s3 != v2.s3};
EXP2 float32 x4: refused, EXP2: is not declared
FDIV float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    float_v4 v2;
    float_v4 v3 = (float_v4){v1.s0 / v2.s0, v1.s1 / v2.s1, v1.s2 / v2.s2, v1.s3 / v2.s3};
LOG2 float32 x4: refused, LOG2: is not declared
MAX float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    float_v4 v2;
    float_v4 v3 = (float_v4){v1.s0 < v2.s0 ? v2.s0 : v1.s0, v1.s1 < v2.s1 ? v2.s1 : v1.s1, v1.s2 < v2.s2 ? v2.s2 : v1.s2, v1.s3 < v2.s3 ? v2.s3 : v1.s3};
MUL float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    float_v4 v2;
    float_v4 v3 = (float_v4){v1.s0 * v2.s0, v1.s1 * v2.s1, v1.s2 * v2.s2, v1.s3 * v2.s3};
NEG float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    float_v4 v2 = (float_v4){-v1.s0, -v1.s1, -v1.s2, -v1.s3};
POW float32 x4: refused, POW: is not declared
RECIP float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    float_v4 v2 = (float_v4){1.0f / v1.s0, 1.0f / v1.s1, 1.0f / v1.s2, 1.0f / v1.s3};
SIN float32 x4: refused, SIN: is not declared
SQRT float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    float_v4 v2 = (float_v4){__builtin_sqrtf(v1.s0), __builtin_sqrtf(v1.s1), __builtin_sqrtf(v1.s2), __builtin_sqrtf(v1.s3)};
SUB float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    float_v4 v2;
    float_v4 v3 = (float_v4){v1.s0 - v2.s0, v1.s1 - v2.s1, v1.s2 - v2.s2, v1.s3 - v2.s3};
TRUNC float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    float_v4 v2 = (float_v4){__builtin_truncf(v1.s0), __builtin_truncf(v1.s1), __builtin_truncf(v1.s2), __builtin_truncf(v1.s3)};
WHERE float32 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    uchar_v4 v1;
    float_v4 v2;
    float_v4 v3;
    float_v4 v4 = (float_v4){v1.s0 ? v2.s0 : v3.s0, v1.s1 ? v2.s1 : v3.s1, v1.s2 ? v2.s2 : v3.s2, v1.s3 ? v2.s3 : v3.s3};
CAST float32 to bool x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    uchar_v4 v2 = (uchar_v4){v1.s0 != 0.0f, v1.s1 != 0.0f, v1.s2 != 0.0f, v1.s3 != 0.0f};
CAST float32 to uint8 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    typedef unsigned char uchar_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    uchar_v4 v2 = (uchar_v4){v1.s0 >= 256.0f ? ((unsigned char)255) : (0.0f < v1.s0 ? (unsigned char)v1.s0 : (v1.s0 < 0.0f ? ((unsigned char)0) : ((unsigned char)0))), v1.s1 >= 256.0f ? ((unsigned char)255) : (0.0f < v1.s1 ? (unsigned char)v1.s1 : (v1.s1 < 0.0f ? ((unsigned char)0) : ((unsigned char)0))), v1.s2 >= 256.0f ? ((unsigned char)255) : (0.0f < v1.s2 ? (unsigned char)v1.s2 : (v1.s2 < 0.0f ? ((unsigned char)0) : ((unsigned char)0))), v1.s3 >= 256.0f ? ((unsigned char)255) : (0.0f < v1.s3 ? (unsigned char)v1.s3 : (v1.s3 < 0.0f ? ((unsigned char)0) : ((unsigned char)0)))};
CAST float32 to int64 x4:
    typedef float float_v4 __attribute__((ext_vector_type(4)));
    typedef long long longlong_v4 __attribute__((ext_vector_type(4)));
    float_v4 v1;
    longlong_v4 v2 = (longlong_v4){v1.s0 >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1.s0 ? (long long)v1.s0 : (v1.s0 < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll)), v1.s1 >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1.s1 ? (long long)v1.s1 : (v1.s1 < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll)), v1.s2 >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1.s2 ? (long long)v1.s2 : (v1.s2 < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll)), v1.s3 >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1.s3 ? (long long)v1.s3 : (v1.s3 < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll))};
