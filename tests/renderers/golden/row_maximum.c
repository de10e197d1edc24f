static inline float float32_of_uint32_bits(unsigned int from) {
  union { unsigned int from; float to; } bits;
  bits.from = from;
  return bits.to;
}
void k_row_maximum(void **buffers, const int *variables) {
  float *data1 = buffers[1];
  float *data0 = buffers[0];
  for (int i1 = 0; i1 < 4; i1++) {
    float acc2 = float32_of_uint32_bits(0xff800000u);
    int v3 = (int)((unsigned int)i1 * (unsigned int)8);
    for (int i4 = 0; i4 < 8; i4++) {
      int v5 = (int)((unsigned int)v3 + (unsigned int)i4);
      float v6 = data1[v5];
      float v7 = acc2 < v6 ? v6 : acc2;
      acc2 = v7;
    }
    data0[i1] = acc2;
  }
}
