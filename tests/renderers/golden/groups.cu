extern "C" __global__ void __launch_bounds__(4) k_rotate(float *data0, float *data1) {
  __shared__ float local1[4];
  int item_0 = threadIdx.x;
  int group_1 = blockIdx.y;
  int v2 = (int)((unsigned int)group_1 * (unsigned int)4);
  int v3 = (int)((unsigned int)v2 + (unsigned int)item_0);
  float v4 = data1[v3];
  local1[item_0] = v4;
  __syncthreads();
  int v5 = (int)((unsigned int)3 - (unsigned int)item_0);
  float v6 = local1[v5];
  bool v7 = v6 < __int_as_float((int)0x7f800000u);
  float v8 = v7 ? v6 : __int_as_float((int)0x7fc00000u);
  float v9 = __fmul_rn(v8, 0.1f);
  bool v10 = 0 < group_1;
  if (v10) { data0[v3] = v9; }
}
