#pragma OPENCL FP_CONTRACT OFF
__kernel void k_gated_copy(__global uchar *base0, ulong start0, __global uchar *base1, ulong start1, __global uchar *base2, ulong start2, int var_count) {
  __global float *data0 = (__global float *)(base0 + start0);
  __global float *data1 = (__global float *)(base1 + start1);
  __global uchar *data2 = (__global uchar *)(base2 + start2);
  for (int i1 = 0; i1 < var_count; i1++) {
    bool v2 = i1 < 40;
    float v3 = v2 ? data1[i1] : as_float(0x80000000u);
    bool v4 = data2[i1] != 0;
    if (v4) { data0[i1] = v3; }
  }
}
