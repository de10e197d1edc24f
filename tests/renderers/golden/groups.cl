#pragma OPENCL FP_CONTRACT OFF
__kernel void k_rotate(__global uchar *base0, ulong start0, __global uchar *base1, ulong start1) {
  __local float local1[4];
  int item_0 = get_local_id(0);
  __global float *data1 = (__global float *)(base1 + start1);
  int group_1 = get_group_id(1);
  __global float *data0 = (__global float *)(base0 + start0);
  int v2 = (int)((uint)group_1 * (uint)4);
  int v3 = (int)((uint)v2 + (uint)item_0);
  float v4 = data1[v3];
  local1[item_0] = v4;
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  int v5 = (int)((uint)3 - (uint)item_0);
  float v6 = local1[v5];
  bool v7 = v6 < as_float(0x7f800000u);
  float v8 = v7 ? v6 : as_float(0x7fc00000u);
  float v9 = v8 * 0.1f;
  bool v10 = 0 < group_1;
  if (v10) { data0[v3] = v9; }
}
