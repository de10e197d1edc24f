#pragma OPENCL FP_CONTRACT OFF
__kernel void k_branch(__global uchar *base0, ulong start0, int var_n) {
  __global int *data0 = (__global int *)(base0 + start0);
  bool v1 = var_n < 5;
  if (v1) {
    data0[0] = var_n;
  }
}
