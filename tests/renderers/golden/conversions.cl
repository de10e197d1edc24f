#pragma OPENCL FP_CONTRACT OFF
__kernel void k_conversions(__global uchar *base0, ulong start0, __global uchar *base1, ulong start1, __global uchar *base2, ulong start2, __global uchar *base3, ulong start3) {
  __global uint *data0 = (__global uint *)(base0 + start0);
  __global double *data1 = (__global double *)(base1 + start1);
  __global double *data2 = (__global double *)(base2 + start2);
  __global uchar *data3 = (__global uchar *)(base3 + start3);
  for (int i1 = 0; i1 < 16; i1++) {
    double v2 = data1[i1];
    bool v3 = v2 != v2;
    char v4 = v2 >= 128.0 ? ((char)127) : ((-128.0) < v2 ? (char)v2 : (v2 < 0.0 ? ((char)-128) : ((char)0)));
    char v5 = (char)((uint)v4 << (v4 & 7));
    char v6 = (char)(v5 >> (((char)3) & 7));
    float v7 = (float)v6;
    uint v8 = as_uint(v7);
    uint v9 = v3 ? 4294967295u : v8;
    data0[i1] = v9;
    double v10 = pow(v2, as_double(0x7ff8000000000000ul));
    double v11 = sqrt(v10);
    data2[i1] = v11;
    bool v12 = v2 != 0.0;
    bool v13 = (-2147483647 - 1) < i1;
    bool v14 = v12 & v13;
    data3[i1] = v14;
  }
}
