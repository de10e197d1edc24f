static inline float float32_of_uint32_bits(unsigned int from) {
  union { unsigned int from; float to; } bits;
  bits.from = from;
  return bits.to;
}
void k_gated_copy(void **buffers, const int *variables) {
  float *data0 = buffers[0];
  int var_count = variables[0];
  float *data1 = buffers[1];
  unsigned char *data2 = buffers[2];
  for (int i1 = 0; i1 < var_count; i1++) {
    _Bool v2 = i1 < 40;
    float v3 = v2 ? data1[i1] : float32_of_uint32_bits(0x80000000u);
    _Bool v4 = data2[i1] != 0;
    if (v4) { data0[i1] = v3; }
  }
}
