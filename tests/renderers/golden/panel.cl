#pragma OPENCL FP_CONTRACT OFF
__kernel void k_panel(__global uchar *base0, ulong start0, __global uchar *base1, ulong start1) {
  __global float *data0 = (__global float *)(base0 + start0);
  __global float *data1 = (__global float *)(base1 + start1);
  __local float local1[4];
  int group_0 = get_group_id(0);
  int v2 = (int)((uint)group_0 * (uint)4);
  for (int i3 = 0; i3 < 4; i3++) {
    int v4 = (int)((uint)v2 + (uint)i3);
    float v5 = data1[v4];
    local1[i3] = v5;
  }
  for (int i6 = 0; i6 < 4; i6++) {
    int v7 = (int)((uint)v2 + (uint)i6);
    int v8 = (int)((uint)3 - (uint)i6);
    float v9 = local1[v8];
    data0[v7] = v9;
  }
}
