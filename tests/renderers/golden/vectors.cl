#pragma OPENCL FP_CONTRACT OFF
__kernel void k_vectors(__global uchar *base0, ulong start0, __global uchar *base1, ulong start1) {
  __global float *data0 = (__global float *)(base0 + start0);
  __global float *data1 = (__global float *)(base1 + start1);
  for (int i1 = 0; i1 < 4; i1++) {
    int v2 = (int)((uint)i1 * (uint)4);
    float4 v3;
    v3 = vload4(0, data1 + v2);
    float4 v4 = (float4)(v3.s3, v3.s2, v3.s1, v3.s0);
    float4 v5 = v4 + (float4)(2.0f, 2.0f, 2.0f, 2.0f);
    float4 v6 = (float4)(v3.s0 < v5.s0 ? v5.s0 : v3.s0, v3.s1 < v5.s1 ? v5.s1 : v3.s1, v3.s2 < v5.s2 ? v5.s2 : v3.s2, v3.s3 < v5.s3 ? v5.s3 : v3.s3);
    float4 v7 = (float4)(sin(v6.s0), sin(v6.s1), sin(v6.s2), sin(v6.s3));
    float v8 = v7.s1;
    float v9 = v7.s0;
    float v10 = v7.s2;
    float4 v11 = (float4)(v8, v8, v9, v10);
    vstore4(v11, 0, data0 + v2);
  }
}
