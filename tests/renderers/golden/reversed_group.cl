#pragma OPENCL FP_CONTRACT OFF
__kernel void k_reversed_group(__global uchar *base0, ulong start0) {
  __local int local1[8];
  int item_0 = get_local_id(0);
  __global int *data0 = (__global int *)(base0 + start0);
  int group_0 = get_group_id(0);
  int v2 = (int)((uint)group_0 * (uint)8);
  int v3 = (int)((uint)v2 + (uint)item_0);
  int v4 = data0[v3];
  local1[item_0] = v4;
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  int v5 = (int)((uint)7 - (uint)item_0);
  int v6 = local1[v5];
  data0[v3] = v6;
}
