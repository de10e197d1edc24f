static inline double float64_of_uint64_bits(unsigned long long from) {
  union { unsigned long long from; double to; } bits;
  bits.from = from;
  return bits.to;
}
double pow(double, double);
double sqrt(double);
static inline unsigned int uint32_of_float32_bits(float from) {
  union { float from; unsigned int to; } bits;
  bits.from = from;
  return bits.to;
}
void k_conversions(void **buffers, const int *variables) {
  unsigned int *data0 = buffers[0];
  double *data1 = buffers[1];
  double *data2 = buffers[2];
  unsigned char *data3 = buffers[3];
  for (int i1 = 0; i1 < 16; i1++) {
    double v2 = data1[i1];
    _Bool v3 = v2 != v2;
    signed char v4 = v2 >= 128.0 ? ((signed char)127) : ((-128.0) < v2 ? (signed char)v2 : (v2 < 0.0 ? ((signed char)-128) : ((signed char)0)));
    signed char v5 = (signed char)((unsigned int)v4 << (v4 & 7));
    signed char v6 = (signed char)(v5 >> (((signed char)3) & 7));
    float v7 = (float)v6;
    unsigned int v8 = uint32_of_float32_bits(v7);
    unsigned int v9 = v3 ? 4294967295u : v8;
    data0[i1] = v9;
    double v10 = pow(v2, float64_of_uint64_bits(0x7ff8000000000000ull));
    double v11 = sqrt(v10);
    data2[i1] = v11;
    _Bool v12 = v2 != 0.0;
    _Bool v13 = (-2147483647 - 1) < i1;
    _Bool v14 = v12 & v13;
    data3[i1] = v14;
  }
}
