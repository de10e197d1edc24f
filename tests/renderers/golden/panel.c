void k_panel(void **buffers, const int *variables) {
  float *data0 = buffers[0];
  float *data1 = buffers[1];
  float local1[4] __attribute__((aligned(64)));
  int group_0 = variables[0];
  int v2 = (int)((unsigned int)group_0 * (unsigned int)4);
  for (int i3 = 0; i3 < 4; i3++) {
    int v4 = (int)((unsigned int)v2 + (unsigned int)i3);
    float v5 = data1[v4];
    local1[i3] = v5;
  }
  for (int i6 = 0; i6 < 4; i6++) {
    int v7 = (int)((unsigned int)v2 + (unsigned int)i6);
    int v8 = (int)((unsigned int)3 - (unsigned int)i6);
    float v9 = local1[v8];
    data0[v7] = v9;
  }
}
