typedef int int32x4 __attribute__((vector_size(16)));
typedef float float32x4 __attribute__((vector_size(16)));
float sinf(float);
void k_vectors(void **buffers, const int *variables) {
  float *data0 = buffers[0];
  float *data1 = buffers[1];
  for (int i1 = 0; i1 < 4; i1++) {
    int v2 = (int)((unsigned int)i1 * (unsigned int)4);
    float32x4 v3;
    __builtin_memcpy(&v3, &data1[v2], sizeof v3);
    float32x4 v4 = ((float32x4){v3[3], v3[2], v3[1], v3[0]});
    float32x4 v5 = v4 + ((float32x4){2.0f, 2.0f, 2.0f, 2.0f});
    float32x4 v6 = (float32x4)(((v3 < v5) & (int32x4)v5) | (~(v3 < v5) & (int32x4)v3));
    float32x4 v7 = ((float32x4){sinf(v6[0]), sinf(v6[1]), sinf(v6[2]), sinf(v6[3])});
    float v8 = v7[1];
    float v9 = v7[0];
    float v10 = v7[2];
    float32x4 v11 = ((float32x4){v8, v8, v9, v10});
    __builtin_memcpy(&data0[v2], &v11, sizeof v11);
  }
}
