#pragma OPENCL FP_CONTRACT OFF
__kernel void k_row_maximum(__global uchar *base0, ulong start0, __global uchar *base1, ulong start1) {
  __global float *data1 = (__global float *)(base1 + start1);
  __global float *data0 = (__global float *)(base0 + start0);
  for (int i1 = 0; i1 < 4; i1++) {
    float acc2 = as_float(0xff800000u);
    int v3 = (int)((uint)i1 * (uint)8);
    for (int i4 = 0; i4 < 8; i4++) {
      int v5 = (int)((uint)v3 + (uint)i4);
      float v6 = data1[v5];
      float v7 = acc2 < v6 ? v6 : acc2;
      acc2 = v7;
    }
    data0[i1] = acc2;
  }
}
