typedef _Bool boolean;
typedef unsigned char uint8;
typedef int int32;
typedef unsigned int uint32;
typedef float float32;
static inline float32 float32_of_uint32_bits(uint32 from) {
  union { uint32 from; float32 to; } bits;
  bits.from = from;
  return bits.to;
}
void gated_copy(void **buffers, const int *variables) {
  float32 *data1 = buffers[1];
  uint8 *data2 = buffers[2];
  float32 *data0 = buffers[0];
  int32 var_count = variables[0];
  for (int32 i1 = 0; i1 < var_count; i1++) {
    boolean v2 = i1 < 40;
    float32 v3 = v2 ? data1[i1] : float32_of_uint32_bits(0x80000000u);
    boolean v4 = data2[i1] != 0;
    if (v4) data0[i1] = v3;
  }
}
