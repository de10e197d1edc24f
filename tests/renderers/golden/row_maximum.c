typedef int int32;
typedef unsigned int uint32;
typedef float float32;
static inline float32 float32_of_uint32_bits(uint32 from) {
  union { uint32 from; float32 to; } bits;
  bits.from = from;
  return bits.to;
}
void row_maximum(void **buffers, const int *variables) {
  float32 *data1 = buffers[1];
  float32 *data0 = buffers[0];
  for (int32 i1 = 0; i1 < 4; i1++) {
    float32 acc2 = float32_of_uint32_bits(0xff800000u);
    int32 v3 = (int32)((uint32)i1 * (uint32)8);
    for (int32 i4 = 0; i4 < 8; i4++) {
      int32 v5 = (int32)((uint32)v3 + (uint32)i4);
      float32 v6 = data1[v5];
      float32 v7 = acc2 < v6 ? v6 : acc2;
      acc2 = v7;
    }
    data0[i1] = acc2;
  }
}
