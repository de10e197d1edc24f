typedef _Bool boolean;
typedef signed char int8;
typedef unsigned char uint8;
typedef int int32;
typedef unsigned int uint32;
typedef unsigned long long uint64;
typedef float float32;
typedef double float64;
static inline float64 float64_of_uint64_bits(uint64 from) {
  union { uint64 from; float64 to; } bits;
  bits.from = from;
  return bits.to;
}
static inline int8 int8_of_float64(float64 from) {
  if (from >= 128.0) return ((int8)127);
  if (from > (-128.0)) return (int8)from;
  return from < 0.0 ? ((int8)-128) : 0;
}
double pow(double, double);
double sqrt(double);
static inline uint32 uint32_of_float32_bits(float32 from) {
  union { float32 from; uint32 to; } bits;
  bits.from = from;
  return bits.to;
}
void conversions(void **buffers, const int *variables) {
  float64 *data1 = buffers[1];
  float64 *data2 = buffers[2];
  uint8 *data3 = buffers[3];
  uint32 *data0 = buffers[0];
  for (int32 i1 = 0; i1 < 16; i1++) {
    float64 v2 = data1[i1];
    boolean v3 = v2 != v2;
    int8 v4 = int8_of_float64(v2);
    int8 v5 = (int8)((uint32)v4 << (v4 & 7));
    int8 v6 = (int8)(v5 >> (((int8)3) & 7));
    float32 v7 = (float32)v6;
    uint32 v8 = uint32_of_float32_bits(v7);
    uint32 v9 = v3 ? 4294967295u : v8;
    data0[i1] = v9;
    float64 v10 = pow(v2, float64_of_uint64_bits(0x7ff8000000000000ull));
    float64 v11 = sqrt(v10);
    data2[i1] = v11;
    boolean v12 = v2 != 0;
    boolean v13 = (-2147483647 - 1) < i1;
    boolean v14 = v12 & v13;
    data3[i1] = v14;
  }
}
