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
    half v2 = as_type<half>(v1);
CAST int16 to float32 x1:
    float v2 = (float)v1;
LOAD int64 x1:
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
    half v2 = (half)precise::sqrt((float)v1);
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
    short v2 = as_type<short>(v1);
CAST float16 to int64 x1:
    long v2 = ((float)v1) >= 9.223372e+18f ? 9223372036854775807l : ((-9.223372e+18f) < ((float)v1) ? (long)((float)v1) : (((float)v1) < 0.0f ? (-9223372036854775807l - 1l) : 0l));
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
    float v2 = precise::sqrt(v1);
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
    uchar4 v1;
    v1 = uchar4(data1[0] != 0, data1[0 + 1] != 0, data1[0 + 2] != 0, data1[0 + 3] != 0);
    *(device packed_uchar4 *)(data0 + 0) = v1;
AND bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4(v1.x & v2.x, v1.y & v2.y, v1.z & v2.z, v1.w & v2.w);
CMPLT bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4(v1.x < v2.x, v1.y < v2.y, v1.z < v2.z, v1.w < v2.w);
CMPNE bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4(v1.x != v2.x, v1.y != v2.y, v1.z != v2.z, v1.w != v2.w);
MAX bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4(v1.x < v2.x ? v2.x : v1.x, v1.y < v2.y ? v2.y : v1.y, v1.z < v2.z ? v2.z : v1.z, v1.w < v2.w ? v2.w : v1.w);
OR bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4(v1.x | v2.x, v1.y | v2.y, v1.z | v2.z, v1.w | v2.w);
XOR bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4(v1.x ^ v2.x, v1.y ^ v2.y, v1.z ^ v2.z, v1.w ^ v2.w);
WHERE bool x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3;
    uchar4 v4 = uchar4(v1.x ? v2.x : v3.x, v1.y ? v2.y : v3.y, v1.z ? v2.z : v3.z, v1.w ? v2.w : v3.w);
CAST bool to uint8 x4:
    uchar4 v1;
    uchar4 v2 = uchar4((uchar)v1.x, (uchar)v1.y, (uchar)v1.z, (uchar)v1.w);
BITCAST bool to uint8 x4:
    uchar4 v1;
    uchar4 v2 = uchar4((uchar)v1.x, (uchar)v1.y, (uchar)v1.z, (uchar)v1.w);
CAST bool to int64 x4:
    uchar4 v1;
    long4 v2 = long4((long)v1.x, (long)v1.y, (long)v1.z, (long)v1.w);
CAST bool to float32 x4:
    uchar4 v1;
    float4 v2 = float4((float)v1.x, (float)v1.y, (float)v1.z, (float)v1.w);
LOAD uint8 x4:
    uchar4 v1;
    v1 = *(device packed_uchar4 *)(data1 + 0);
    *(device packed_uchar4 *)(data0 + 0) = v1;
ADD uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4((uchar)((uint)v1.x + (uint)v2.x), (uchar)((uint)v1.y + (uint)v2.y), (uchar)((uint)v1.z + (uint)v2.z), (uchar)((uint)v1.w + (uint)v2.w));
AND uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4((uchar)(v1.x & v2.x), (uchar)(v1.y & v2.y), (uchar)(v1.z & v2.z), (uchar)(v1.w & v2.w));
CMPLT uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4(v1.x < v2.x, v1.y < v2.y, v1.z < v2.z, v1.w < v2.w);
CMPNE uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4(v1.x != v2.x, v1.y != v2.y, v1.z != v2.z, v1.w != v2.w);
IDIV uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4((uchar)(v1.x / v2.x), (uchar)(v1.y / v2.y), (uchar)(v1.z / v2.z), (uchar)(v1.w / v2.w));
MAX uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4(v1.x < v2.x ? v2.x : v1.x, v1.y < v2.y ? v2.y : v1.y, v1.z < v2.z ? v2.z : v1.z, v1.w < v2.w ? v2.w : v1.w);
MOD uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4((uchar)(v1.x % v2.x), (uchar)(v1.y % v2.y), (uchar)(v1.z % v2.z), (uchar)(v1.w % v2.w));
MUL uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4((uchar)((uint)v1.x * (uint)v2.x), (uchar)((uint)v1.y * (uint)v2.y), (uchar)((uint)v1.z * (uint)v2.z), (uchar)((uint)v1.w * (uint)v2.w));
NEG uint8 x4:
    uchar4 v1;
    uchar4 v2 = uchar4((uchar)((uint)((uchar)0) - (uint)v1.x), (uchar)((uint)((uchar)0) - (uint)v1.y), (uchar)((uint)((uchar)0) - (uint)v1.z), (uchar)((uint)((uchar)0) - (uint)v1.w));
OR uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4((uchar)(v1.x | v2.x), (uchar)(v1.y | v2.y), (uchar)(v1.z | v2.z), (uchar)(v1.w | v2.w));
SHL uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4((uchar)((uint)v1.x << (v2.x & 7)), (uchar)((uint)v1.y << (v2.y & 7)), (uchar)((uint)v1.z << (v2.z & 7)), (uchar)((uint)v1.w << (v2.w & 7)));
SHR uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4((uchar)(v1.x >> (v2.x & 7)), (uchar)(v1.y >> (v2.y & 7)), (uchar)(v1.z >> (v2.z & 7)), (uchar)(v1.w >> (v2.w & 7)));
SUB uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4((uchar)((uint)v1.x - (uint)v2.x), (uchar)((uint)v1.y - (uint)v2.y), (uchar)((uint)v1.z - (uint)v2.z), (uchar)((uint)v1.w - (uint)v2.w));
XOR uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3 = uchar4((uchar)(v1.x ^ v2.x), (uchar)(v1.y ^ v2.y), (uchar)(v1.z ^ v2.z), (uchar)(v1.w ^ v2.w));
WHERE uint8 x4:
    uchar4 v1;
    uchar4 v2;
    uchar4 v3;
    uchar4 v4 = uchar4(v1.x ? v2.x : v3.x, v1.y ? v2.y : v3.y, v1.z ? v2.z : v3.z, v1.w ? v2.w : v3.w);
CAST uint8 to bool x4:
    uchar4 v1;
    uchar4 v2 = uchar4(v1.x != ((uchar)0), v1.y != ((uchar)0), v1.z != ((uchar)0), v1.w != ((uchar)0));
CAST uint8 to int64 x4:
    uchar4 v1;
    long4 v2 = long4((long)v1.x, (long)v1.y, (long)v1.z, (long)v1.w);
CAST uint8 to float32 x4:
    uchar4 v1;
    float4 v2 = float4((float)v1.x, (float)v1.y, (float)v1.z, (float)v1.w);
LOAD int64 x4:
    long4 v1;
    v1 = *(device packed_long4 *)(data1 + 0);
    *(device packed_long4 *)(data0 + 0) = v1;
ADD int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = long4((long)((ulong)v1.x + (ulong)v2.x), (long)((ulong)v1.y + (ulong)v2.y), (long)((ulong)v1.z + (ulong)v2.z), (long)((ulong)v1.w + (ulong)v2.w));
AND int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = long4(v1.x & v2.x, v1.y & v2.y, v1.z & v2.z, v1.w & v2.w);
CMPLT int64 x4:
    long4 v1;
    long4 v2;
    uchar4 v3 = uchar4(v1.x < v2.x, v1.y < v2.y, v1.z < v2.z, v1.w < v2.w);
CMPNE int64 x4:
    long4 v1;
    long4 v2;
    uchar4 v3 = uchar4(v1.x != v2.x, v1.y != v2.y, v1.z != v2.z, v1.w != v2.w);
IDIV int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = long4(v1.x / v2.x, v1.y / v2.y, v1.z / v2.z, v1.w / v2.w);
MAX int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = long4(v1.x < v2.x ? v2.x : v1.x, v1.y < v2.y ? v2.y : v1.y, v1.z < v2.z ? v2.z : v1.z, v1.w < v2.w ? v2.w : v1.w);
MOD int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = long4(v1.x % v2.x, v1.y % v2.y, v1.z % v2.z, v1.w % v2.w);
MUL int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = long4((long)((ulong)v1.x * (ulong)v2.x), (long)((ulong)v1.y * (ulong)v2.y), (long)((ulong)v1.z * (ulong)v2.z), (long)((ulong)v1.w * (ulong)v2.w));
NEG int64 x4:
    long4 v1;
    long4 v2 = long4((long)((ulong)0l - (ulong)v1.x), (long)((ulong)0l - (ulong)v1.y), (long)((ulong)0l - (ulong)v1.z), (long)((ulong)0l - (ulong)v1.w));
OR int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = long4(v1.x | v2.x, v1.y | v2.y, v1.z | v2.z, v1.w | v2.w);
SHL int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = long4((long)((ulong)v1.x << (v2.x & 63)), (long)((ulong)v1.y << (v2.y & 63)), (long)((ulong)v1.z << (v2.z & 63)), (long)((ulong)v1.w << (v2.w & 63)));
SHR int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = long4(v1.x >> (v2.x & 63), v1.y >> (v2.y & 63), v1.z >> (v2.z & 63), v1.w >> (v2.w & 63));
SUB int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = long4((long)((ulong)v1.x - (ulong)v2.x), (long)((ulong)v1.y - (ulong)v2.y), (long)((ulong)v1.z - (ulong)v2.z), (long)((ulong)v1.w - (ulong)v2.w));
XOR int64 x4:
    long4 v1;
    long4 v2;
    long4 v3 = long4(v1.x ^ v2.x, v1.y ^ v2.y, v1.z ^ v2.z, v1.w ^ v2.w);
WHERE int64 x4:
    uchar4 v1;
    long4 v2;
    long4 v3;
    long4 v4 = long4(v1.x ? v2.x : v3.x, v1.y ? v2.y : v3.y, v1.z ? v2.z : v3.z, v1.w ? v2.w : v3.w);
CAST int64 to bool x4:
    long4 v1;
    uchar4 v2 = uchar4(v1.x != 0l, v1.y != 0l, v1.z != 0l, v1.w != 0l);
CAST int64 to uint8 x4:
    long4 v1;
    uchar4 v2 = uchar4((uchar)v1.x, (uchar)v1.y, (uchar)v1.z, (uchar)v1.w);
CAST int64 to float32 x4:
    long4 v1;
    float4 v2 = float4((float)v1.x, (float)v1.y, (float)v1.z, (float)v1.w);
LOAD float32 x4:
    float4 v1;
    v1 = *(device packed_float4 *)(data1 + 0);
    *(device packed_float4 *)(data0 + 0) = v1;
ADD float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = v1 + v2;
CMPLT float32 x4:
    float4 v1;
    float4 v2;
    uchar4 v3 = uchar4(v1.x < v2.x, v1.y < v2.y, v1.z < v2.z, v1.w < v2.w);
CMPNE float32 x4:
    float4 v1;
    float4 v2;
    uchar4 v3 = uchar4(v1.x != v2.x, v1.y != v2.y, v1.z != v2.z, v1.w != v2.w);
EXP2 float32 x4: refused, EXP2: is not declared
FDIV float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = v1 / v2;
LOG2 float32 x4: refused, LOG2: is not declared
MAX float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = float4(v1.x < v2.x ? v2.x : v1.x, v1.y < v2.y ? v2.y : v1.y, v1.z < v2.z ? v2.z : v1.z, v1.w < v2.w ? v2.w : v1.w);
MUL float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = v1 * v2;
NEG float32 x4:
    float4 v1;
    float4 v2 = float4(-v1.x, -v1.y, -v1.z, -v1.w);
POW float32 x4: refused, POW: is not declared
RECIP float32 x4:
    float4 v1;
    float4 v2 = float4(1.0f / v1.x, 1.0f / v1.y, 1.0f / v1.z, 1.0f / v1.w);
SIN float32 x4: refused, SIN: is not declared
SQRT float32 x4:
    float4 v1;
    float4 v2 = float4(precise::sqrt(v1.x), precise::sqrt(v1.y), precise::sqrt(v1.z), precise::sqrt(v1.w));
SUB float32 x4:
    float4 v1;
    float4 v2;
    float4 v3 = v1 - v2;
TRUNC float32 x4:
    float4 v1;
    float4 v2 = float4(trunc(v1.x), trunc(v1.y), trunc(v1.z), trunc(v1.w));
WHERE float32 x4:
    uchar4 v1;
    float4 v2;
    float4 v3;
    float4 v4 = float4(v1.x ? v2.x : v3.x, v1.y ? v2.y : v3.y, v1.z ? v2.z : v3.z, v1.w ? v2.w : v3.w);
CAST float32 to bool x4:
    float4 v1;
    uchar4 v2 = uchar4(v1.x != 0.0f, v1.y != 0.0f, v1.z != 0.0f, v1.w != 0.0f);
CAST float32 to uint8 x4:
    float4 v1;
    uchar4 v2 = uchar4(v1.x >= 256.0f ? ((uchar)255) : (0.0f < v1.x ? (uchar)v1.x : (v1.x < 0.0f ? ((uchar)0) : ((uchar)0))), v1.y >= 256.0f ? ((uchar)255) : (0.0f < v1.y ? (uchar)v1.y : (v1.y < 0.0f ? ((uchar)0) : ((uchar)0))), v1.z >= 256.0f ? ((uchar)255) : (0.0f < v1.z ? (uchar)v1.z : (v1.z < 0.0f ? ((uchar)0) : ((uchar)0))), v1.w >= 256.0f ? ((uchar)255) : (0.0f < v1.w ? (uchar)v1.w : (v1.w < 0.0f ? ((uchar)0) : ((uchar)0))));
CAST float32 to int64 x4:
    float4 v1;
    long4 v2 = long4(v1.x >= 9.223372e+18f ? 9223372036854775807l : ((-9.223372e+18f) < v1.x ? (long)v1.x : (v1.x < 0.0f ? (-9223372036854775807l - 1l) : 0l)), v1.y >= 9.223372e+18f ? 9223372036854775807l : ((-9.223372e+18f) < v1.y ? (long)v1.y : (v1.y < 0.0f ? (-9223372036854775807l - 1l) : 0l)), v1.z >= 9.223372e+18f ? 9223372036854775807l : ((-9.223372e+18f) < v1.z ? (long)v1.z : (v1.z < 0.0f ? (-9223372036854775807l - 1l) : 0l)), v1.w >= 9.223372e+18f ? 9223372036854775807l : ((-9.223372e+18f) < v1.w ? (long)v1.w : (v1.w < 0.0f ? (-9223372036854775807l - 1l) : 0l)));
