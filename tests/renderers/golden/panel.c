typedef int int32;
typedef unsigned int uint32;
typedef float float32;
void panel(void **buffers, const int *variables) {
  float32 *data0 = buffers[0];
  float32 *data1 = buffers[1];
  float32 local1[4] __attribute__((aligned(64)));
  int32 group2 = variables[0];
  int32 v3 = (int32)((uint32)group2 * (uint32)4);
  for (int32 i4 = 0; i4 < 4; i4++) {
    int32 v5 = (int32)((uint32)v3 + (uint32)i4);
    float32 v6 = data1[v5];
    local1[i4] = v6;
  }
  for (int32 i7 = 0; i7 < 4; i7++) {
    int32 v8 = (int32)((uint32)v3 + (uint32)i7);
    int32 v9 = (int32)((uint32)3 - (uint32)i7);
    float32 v10 = local1[v9];
    data0[v8] = v10;
  }
}
