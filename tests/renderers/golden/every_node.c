LOAD bool x1:
    unsigned char *data0 = buffers[0];
    unsigned char *data1 = buffers[1];
    _Bool v1 = data1[0] != 0;
    data0[0] = v1;
AND bool x1:
    _Bool v3 = v1 & v2;
CMPLT bool x1:
    _Bool v3 = v1 < v2;
CMPNE bool x1:
    _Bool v3 = v1 != v2;
MAX bool x1:
    _Bool v3 = v1 < v2 ? v2 : v1;
OR bool x1:
    _Bool v3 = v1 | v2;
XOR bool x1:
    _Bool v3 = v1 ^ v2;
WHERE bool x1:
    _Bool v4 = v1 ? v2 : v3;
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
    unsigned char *data0 = buffers[0];
    unsigned char *data1 = buffers[1];
    unsigned char v1 = data1[0];
    data0[0] = v1;
ADD uint8 x1:
    unsigned char v3 = (unsigned char)((unsigned int)v1 + (unsigned int)v2);
AND uint8 x1:
    unsigned char v3 = (unsigned char)(v1 & v2);
CMPLT uint8 x1:
    _Bool v3 = v1 < v2;
CMPNE uint8 x1:
    _Bool v3 = v1 != v2;
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
    _Bool v2 = v1 != ((unsigned char)0);
CAST uint8 to int16 x1:
    short v2 = (short)v1;
CAST uint8 to int64 x1:
    long long v2 = (long long)v1;
CAST uint8 to float16 x1:
    _Float16 v2 = (_Float16)v1;
CAST uint8 to float32 x1:
    float v2 = (float)v1;
LOAD int16 x1:
    short *data0 = buffers[0];
    short *data1 = buffers[1];
    short v1 = data1[0];
    data0[0] = v1;
ADD int16 x1:
    short v3 = (short)((unsigned int)v1 + (unsigned int)v2);
AND int16 x1:
    short v3 = (short)(v1 & v2);
CMPLT int16 x1:
    _Bool v3 = v1 < v2;
CMPNE int16 x1:
    _Bool v3 = v1 != v2;
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
    _Bool v2 = v1 != ((short)0);
CAST int16 to uint8 x1:
    unsigned char v2 = (unsigned char)v1;
CAST int16 to int64 x1:
    long long v2 = (long long)v1;
CAST int16 to float16 x1:
    _Float16 v2 = (_Float16)v1;
BITCAST int16 to float16 x1:
    static inline _Float16 float16_of_int16_bits(short from) {
    union { short from; _Float16 to; } bits;
    bits.from = from;
    _Float16 v2 = float16_of_int16_bits(v1);
CAST int16 to float32 x1:
    float v2 = (float)v1;
LOAD int64 x1:
    long long *data0 = buffers[0];
    long long *data1 = buffers[1];
    long long v1 = data1[0];
    data0[0] = v1;
ADD int64 x1:
    long long v3 = (long long)((unsigned long long)v1 + (unsigned long long)v2);
AND int64 x1:
    long long v3 = v1 & v2;
CMPLT int64 x1:
    _Bool v3 = v1 < v2;
CMPNE int64 x1:
    _Bool v3 = v1 != v2;
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
    _Bool v2 = v1 != 0ll;
CAST int64 to uint8 x1:
    unsigned char v2 = (unsigned char)v1;
CAST int64 to int16 x1:
    short v2 = (short)v1;
CAST int64 to float16 x1:
    _Float16 v2 = (_Float16)v1;
CAST int64 to float32 x1:
    float v2 = (float)v1;
LOAD float16 x1:
    _Float16 *data0 = buffers[0];
    _Float16 *data1 = buffers[1];
    _Float16 v1 = data1[0];
    data0[0] = v1;
ADD float16 x1:
    _Float16 v3 = v1 + v2;
CMPLT float16 x1:
    _Bool v3 = v1 < v2;
CMPNE float16 x1:
    _Bool v3 = v1 != v2;
EXP2 float16 x1:
    float exp2f(float);
    _Float16 v2 = (_Float16)exp2f((float)v1);
FDIV float16 x1:
    _Float16 v3 = v1 / v2;
LOG2 float16 x1:
    float log2f(float);
    _Float16 v2 = (_Float16)log2f((float)v1);
MAX float16 x1:
    _Float16 v3 = v1 < v2 ? v2 : v1;
MUL float16 x1:
    _Float16 v3 = v1 * v2;
NEG float16 x1:
    _Float16 v2 = -v1;
POW float16 x1:
    float powf(float, float);
    _Float16 v3 = (_Float16)powf((float)v1, (float)v2);
RECIP float16 x1:
    _Float16 v2 = ((_Float16)1.0f) / v1;
SIN float16 x1:
    float sinf(float);
    _Float16 v2 = (_Float16)sinf((float)v1);
SQRT float16 x1:
    float sqrtf(float);
    _Float16 v2 = (_Float16)sqrtf((float)v1);
SUB float16 x1:
    _Float16 v3 = v1 - v2;
TRUNC float16 x1:
    float truncf(float);
    _Float16 v2 = (_Float16)truncf((float)v1);
WHERE float16 x1:
    _Float16 v4 = v1 ? v2 : v3;
CAST float16 to bool x1:
    _Bool v2 = v1 != ((_Float16)0.0f);
CAST float16 to uint8 x1:
    unsigned char v2 = ((float)v1) >= 256.0f ? ((unsigned char)255) : (0.0f < ((float)v1) ? (unsigned char)((float)v1) : (((float)v1) < 0.0f ? ((unsigned char)0) : ((unsigned char)0)));
CAST float16 to int16 x1:
    short v2 = ((float)v1) >= 32768.0f ? ((short)32767) : ((-32768.0f) < ((float)v1) ? (short)((float)v1) : (((float)v1) < 0.0f ? ((short)-32768) : ((short)0)));
BITCAST float16 to int16 x1:
    static inline short int16_of_float16_bits(_Float16 from) {
    union { _Float16 from; short to; } bits;
    bits.from = from;
    short v2 = int16_of_float16_bits(v1);
CAST float16 to int64 x1:
    long long v2 = ((float)v1) >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < ((float)v1) ? (long long)((float)v1) : (((float)v1) < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll));
CAST float16 to float32 x1:
    float v2 = (float)v1;
LOAD float32 x1:
    float *data0 = buffers[0];
    float *data1 = buffers[1];
    float v1 = data1[0];
    data0[0] = v1;
ADD float32 x1:
    float v3 = v1 + v2;
CMPLT float32 x1:
    _Bool v3 = v1 < v2;
CMPNE float32 x1:
    _Bool v3 = v1 != v2;
EXP2 float32 x1:
    float exp2f(float);
    float v2 = exp2f(v1);
FDIV float32 x1:
    float v3 = v1 / v2;
LOG2 float32 x1:
    float log2f(float);
    float v2 = log2f(v1);
MAX float32 x1:
    float v3 = v1 < v2 ? v2 : v1;
MUL float32 x1:
    float v3 = v1 * v2;
NEG float32 x1:
    float v2 = -v1;
POW float32 x1:
    float powf(float, float);
    float v3 = powf(v1, v2);
RECIP float32 x1:
    float v2 = 1.0f / v1;
SIN float32 x1:
    float sinf(float);
    float v2 = sinf(v1);
SQRT float32 x1:
    float sqrtf(float);
    float v2 = sqrtf(v1);
SUB float32 x1:
    float v3 = v1 - v2;
TRUNC float32 x1:
    float truncf(float);
    float v2 = truncf(v1);
WHERE float32 x1:
    float v4 = v1 ? v2 : v3;
CAST float32 to bool x1:
    _Bool v2 = v1 != 0.0f;
CAST float32 to uint8 x1:
    unsigned char v2 = v1 >= 256.0f ? ((unsigned char)255) : (0.0f < v1 ? (unsigned char)v1 : (v1 < 0.0f ? ((unsigned char)0) : ((unsigned char)0)));
CAST float32 to int16 x1:
    short v2 = v1 >= 32768.0f ? ((short)32767) : ((-32768.0f) < v1 ? (short)v1 : (v1 < 0.0f ? ((short)-32768) : ((short)0)));
CAST float32 to int64 x1:
    long long v2 = v1 >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1 ? (long long)v1 : (v1 < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll));
CAST float32 to float16 x1:
    _Float16 v2 = (_Float16)v1;
LOAD bool x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    unsigned char *data0 = buffers[0];
    unsigned char *data1 = buffers[1];
    boolx4 v1;
    __builtin_memcpy(&v1, &data1[0], sizeof v1); v1 = __builtin_convertvector(v1 != ((boolx4){0, 0, 0, 0}), boolx4) & 1;
    __builtin_memcpy(&data0[0], &v1, sizeof v1);
AND bool x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    boolx4 v1;
    boolx4 v2;
    boolx4 v3 = v1 & v2;
CMPLT bool x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    boolx4 v1;
    boolx4 v2;
    boolx4 v3 = __builtin_convertvector(v1 < v2, boolx4) & 1;
CMPNE bool x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    boolx4 v1;
    boolx4 v2;
    boolx4 v3 = __builtin_convertvector(v1 != v2, boolx4) & 1;
MAX bool x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef signed char int8x4 __attribute__((vector_size(4)));
    boolx4 v1;
    boolx4 v2;
    boolx4 v3 = (boolx4)(((v1 < v2) & (int8x4)v2) | (~(v1 < v2) & (int8x4)v1));
OR bool x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    boolx4 v1;
    boolx4 v2;
    boolx4 v3 = v1 | v2;
XOR bool x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    boolx4 v1;
    boolx4 v2;
    boolx4 v3 = v1 ^ v2;
WHERE bool x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef signed char int8x4 __attribute__((vector_size(4)));
    boolx4 v1;
    boolx4 v2;
    boolx4 v3;
    boolx4 v4 = (boolx4)(((-__builtin_convertvector(v1, int8x4)) & (int8x4)v2) | (~(-__builtin_convertvector(v1, int8x4)) & (int8x4)v3));
CAST bool to uint8 x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    boolx4 v1;
    uint8x4 v2 = __builtin_convertvector(v1, uint8x4);
BITCAST bool to uint8 x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    boolx4 v1;
    uint8x4 v2 = (uint8x4)v1;
CAST bool to int64 x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef long long int64x4 __attribute__((vector_size(32)));
    boolx4 v1;
    int64x4 v2 = __builtin_convertvector(v1, int64x4);
CAST bool to float32 x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef float float32x4 __attribute__((vector_size(16)));
    boolx4 v1;
    float32x4 v2 = __builtin_convertvector(v1, float32x4);
LOAD uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    unsigned char *data0 = buffers[0];
    unsigned char *data1 = buffers[1];
    uint8x4 v1;
    __builtin_memcpy(&v1, &data1[0], sizeof v1);
    __builtin_memcpy(&data0[0], &v1, sizeof v1);
ADD uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2;
    uint8x4 v3 = (uint8x4)((uint8x4)v1 + (uint8x4)v2);
AND uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2;
    uint8x4 v3 = v1 & v2;
CMPLT uint8 x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2;
    boolx4 v3 = __builtin_convertvector(v1 < v2, boolx4) & 1;
CMPNE uint8 x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2;
    boolx4 v3 = __builtin_convertvector(v1 != v2, boolx4) & 1;
IDIV uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2;
    uint8x4 v3 = v1 / v2;
MAX uint8 x4:
    typedef signed char int8x4 __attribute__((vector_size(4)));
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2;
    uint8x4 v3 = (uint8x4)(((v1 < v2) & (int8x4)v2) | (~(v1 < v2) & (int8x4)v1));
MOD uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2;
    uint8x4 v3 = v1 % v2;
MUL uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2;
    uint8x4 v3 = (uint8x4)((uint8x4)v1 * (uint8x4)v2);
NEG uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2 = (uint8x4)(-(uint8x4)v1);
OR uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2;
    uint8x4 v3 = v1 | v2;
SHL uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2;
    uint8x4 v3 = (uint8x4)((uint8x4)v1 << __builtin_convertvector(v2 & ((uint8x4){((unsigned char)7), ((unsigned char)7), ((unsigned char)7), ((unsigned char)7)}), uint8x4));
SHR uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2;
    uint8x4 v3 = (uint8x4)((uint8x4)v1 >> __builtin_convertvector(v2 & ((uint8x4){((unsigned char)7), ((unsigned char)7), ((unsigned char)7), ((unsigned char)7)}), uint8x4));
SUB uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2;
    uint8x4 v3 = (uint8x4)((uint8x4)v1 - (uint8x4)v2);
XOR uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    uint8x4 v2;
    uint8x4 v3 = v1 ^ v2;
WHERE uint8 x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef signed char int8x4 __attribute__((vector_size(4)));
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    boolx4 v1;
    uint8x4 v2;
    uint8x4 v3;
    uint8x4 v4 = (uint8x4)(((-__builtin_convertvector(v1, int8x4)) & (int8x4)v2) | (~(-__builtin_convertvector(v1, int8x4)) & (int8x4)v3));
CAST uint8 to bool x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    uint8x4 v1;
    boolx4 v2 = __builtin_convertvector(v1 != ((uint8x4){((unsigned char)0), ((unsigned char)0), ((unsigned char)0), ((unsigned char)0)}), boolx4) & 1;
CAST uint8 to int64 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    typedef long long int64x4 __attribute__((vector_size(32)));
    uint8x4 v1;
    int64x4 v2 = __builtin_convertvector(v1, int64x4);
CAST uint8 to float32 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    typedef float float32x4 __attribute__((vector_size(16)));
    uint8x4 v1;
    float32x4 v2 = __builtin_convertvector(v1, float32x4);
LOAD int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    long long *data0 = buffers[0];
    long long *data1 = buffers[1];
    int64x4 v1;
    __builtin_memcpy(&v1, &data1[0], sizeof v1);
    __builtin_memcpy(&data0[0], &v1, sizeof v1);
ADD int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    typedef unsigned long long uint64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2;
    int64x4 v3 = (int64x4)((uint64x4)v1 + (uint64x4)v2);
AND int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2;
    int64x4 v3 = v1 & v2;
CMPLT int64 x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef long long int64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2;
    boolx4 v3 = __builtin_convertvector(v1 < v2, boolx4) & 1;
CMPNE int64 x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef long long int64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2;
    boolx4 v3 = __builtin_convertvector(v1 != v2, boolx4) & 1;
IDIV int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2;
    int64x4 v3 = v1 / v2;
MAX int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2;
    int64x4 v3 = (int64x4)(((v1 < v2) & (int64x4)v2) | (~(v1 < v2) & (int64x4)v1));
MOD int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2;
    int64x4 v3 = v1 % v2;
MUL int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    typedef unsigned long long uint64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2;
    int64x4 v3 = (int64x4)((uint64x4)v1 * (uint64x4)v2);
NEG int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    typedef unsigned long long uint64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2 = (int64x4)(-(uint64x4)v1);
OR int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2;
    int64x4 v3 = v1 | v2;
SHL int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    typedef unsigned long long uint64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2;
    int64x4 v3 = (int64x4)((uint64x4)v1 << __builtin_convertvector(v2 & ((int64x4){63ll, 63ll, 63ll, 63ll}), uint64x4));
SHR int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2;
    int64x4 v3 = (int64x4)((int64x4)v1 >> __builtin_convertvector(v2 & ((int64x4){63ll, 63ll, 63ll, 63ll}), int64x4));
SUB int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    typedef unsigned long long uint64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2;
    int64x4 v3 = (int64x4)((uint64x4)v1 - (uint64x4)v2);
XOR int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    int64x4 v2;
    int64x4 v3 = v1 ^ v2;
WHERE int64 x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef long long int64x4 __attribute__((vector_size(32)));
    boolx4 v1;
    int64x4 v2;
    int64x4 v3;
    int64x4 v4 = (int64x4)(((-__builtin_convertvector(v1, int64x4)) & (int64x4)v2) | (~(-__builtin_convertvector(v1, int64x4)) & (int64x4)v3));
CAST int64 to bool x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef long long int64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    boolx4 v2 = __builtin_convertvector(v1 != ((int64x4){0ll, 0ll, 0ll, 0ll}), boolx4) & 1;
CAST int64 to uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    typedef long long int64x4 __attribute__((vector_size(32)));
    int64x4 v1;
    uint8x4 v2 = __builtin_convertvector(v1, uint8x4);
CAST int64 to float32 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    typedef float float32x4 __attribute__((vector_size(16)));
    int64x4 v1;
    float32x4 v2 = __builtin_convertvector(v1, float32x4);
LOAD float32 x4:
    typedef float float32x4 __attribute__((vector_size(16)));
    float *data0 = buffers[0];
    float *data1 = buffers[1];
    float32x4 v1;
    __builtin_memcpy(&v1, &data1[0], sizeof v1);
    __builtin_memcpy(&data0[0], &v1, sizeof v1);
ADD float32 x4:
    typedef float float32x4 __attribute__((vector_size(16)));
    float32x4 v1;
    float32x4 v2;
    float32x4 v3 = v1 + v2;
CMPLT float32 x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef float float32x4 __attribute__((vector_size(16)));
    float32x4 v1;
    float32x4 v2;
    boolx4 v3 = __builtin_convertvector(v1 < v2, boolx4) & 1;
CMPNE float32 x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef float float32x4 __attribute__((vector_size(16)));
    float32x4 v1;
    float32x4 v2;
    boolx4 v3 = __builtin_convertvector(v1 != v2, boolx4) & 1;
EXP2 float32 x4:
    typedef float float32x4 __attribute__((vector_size(16)));
    float exp2f(float);
    float32x4 v1;
    float32x4 v2 = ((float32x4){exp2f(v1[0]), exp2f(v1[1]), exp2f(v1[2]), exp2f(v1[3])});
FDIV float32 x4:
    typedef float float32x4 __attribute__((vector_size(16)));
    float32x4 v1;
    float32x4 v2;
    float32x4 v3 = v1 / v2;
LOG2 float32 x4:
    typedef float float32x4 __attribute__((vector_size(16)));
    float log2f(float);
    float32x4 v1;
    float32x4 v2 = ((float32x4){log2f(v1[0]), log2f(v1[1]), log2f(v1[2]), log2f(v1[3])});
MAX float32 x4:
    typedef int int32x4 __attribute__((vector_size(16)));
    typedef float float32x4 __attribute__((vector_size(16)));
    float32x4 v1;
    float32x4 v2;
    float32x4 v3 = (float32x4)(((v1 < v2) & (int32x4)v2) | (~(v1 < v2) & (int32x4)v1));
MUL float32 x4:
    typedef float float32x4 __attribute__((vector_size(16)));
    float32x4 v1;
    float32x4 v2;
    float32x4 v3 = v1 * v2;
NEG float32 x4:
    typedef float float32x4 __attribute__((vector_size(16)));
    float32x4 v1;
    float32x4 v2 = -v1;
POW float32 x4:
    typedef float float32x4 __attribute__((vector_size(16)));
    float powf(float, float);
    float32x4 v1;
    float32x4 v2;
    float32x4 v3 = ((float32x4){powf(v1[0], v2[0]), powf(v1[1], v2[1]), powf(v1[2], v2[2]), powf(v1[3], v2[3])});
RECIP float32 x4:
    typedef float float32x4 __attribute__((vector_size(16)));
    float32x4 v1;
    float32x4 v2 = ((float32x4){1.0f, 1.0f, 1.0f, 1.0f}) / v1;
SIN float32 x4:
    typedef float float32x4 __attribute__((vector_size(16)));
    float sinf(float);
    float32x4 v1;
    float32x4 v2 = ((float32x4){sinf(v1[0]), sinf(v1[1]), sinf(v1[2]), sinf(v1[3])});
SQRT float32 x4:
    typedef float float32x4 __attribute__((vector_size(16)));
    float sqrtf(float);
    float32x4 v1;
    float32x4 v2 = ((float32x4){sqrtf(v1[0]), sqrtf(v1[1]), sqrtf(v1[2]), sqrtf(v1[3])});
SUB float32 x4:
    typedef float float32x4 __attribute__((vector_size(16)));
    float32x4 v1;
    float32x4 v2;
    float32x4 v3 = v1 - v2;
TRUNC float32 x4:
    typedef float float32x4 __attribute__((vector_size(16)));
    float truncf(float);
    float32x4 v1;
    float32x4 v2 = ((float32x4){truncf(v1[0]), truncf(v1[1]), truncf(v1[2]), truncf(v1[3])});
WHERE float32 x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef int int32x4 __attribute__((vector_size(16)));
    typedef float float32x4 __attribute__((vector_size(16)));
    boolx4 v1;
    float32x4 v2;
    float32x4 v3;
    float32x4 v4 = (float32x4)(((-__builtin_convertvector(v1, int32x4)) & (int32x4)v2) | (~(-__builtin_convertvector(v1, int32x4)) & (int32x4)v3));
CAST float32 to bool x4:
    typedef unsigned char boolx4 __attribute__((vector_size(4)));
    typedef float float32x4 __attribute__((vector_size(16)));
    float32x4 v1;
    boolx4 v2 = __builtin_convertvector(v1 != ((float32x4){0.0f, 0.0f, 0.0f, 0.0f}), boolx4) & 1;
CAST float32 to uint8 x4:
    typedef unsigned char uint8x4 __attribute__((vector_size(4)));
    typedef float float32x4 __attribute__((vector_size(16)));
    float32x4 v1;
    uint8x4 v2 = ((uint8x4){v1[0] >= 256.0f ? ((unsigned char)255) : (0.0f < v1[0] ? (unsigned char)v1[0] : (v1[0] < 0.0f ? ((unsigned char)0) : ((unsigned char)0))), v1[1] >= 256.0f ? ((unsigned char)255) : (0.0f < v1[1] ? (unsigned char)v1[1] : (v1[1] < 0.0f ? ((unsigned char)0) : ((unsigned char)0))), v1[2] >= 256.0f ? ((unsigned char)255) : (0.0f < v1[2] ? (unsigned char)v1[2] : (v1[2] < 0.0f ? ((unsigned char)0) : ((unsigned char)0))), v1[3] >= 256.0f ? ((unsigned char)255) : (0.0f < v1[3] ? (unsigned char)v1[3] : (v1[3] < 0.0f ? ((unsigned char)0) : ((unsigned char)0)))});
CAST float32 to int64 x4:
    typedef long long int64x4 __attribute__((vector_size(32)));
    typedef float float32x4 __attribute__((vector_size(16)));
    float32x4 v1;
    int64x4 v2 = ((int64x4){v1[0] >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1[0] ? (long long)v1[0] : (v1[0] < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll)), v1[1] >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1[1] ? (long long)v1[1] : (v1[1] < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll)), v1[2] >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1[2] ? (long long)v1[2] : (v1[2] < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll)), v1[3] >= 9.223372e+18f ? 9223372036854775807ll : ((-9.223372e+18f) < v1[3] ? (long long)v1[3] : (v1[3] < 0.0f ? (-9223372036854775807ll - 1ll) : 0ll))});
