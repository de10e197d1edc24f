#ifndef TINYREF_EMULATED
__device__ __forceinline__ float4 tinyref_wmma_nvidia_m16n8k8_tf32_float32(float4 a, float2 b, float4 c) {
  unsigned int ra[4];
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(ra[0]) : "f"(((const float *)&a)[0]));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(ra[1]) : "f"(((const float *)&a)[1]));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(ra[2]) : "f"(((const float *)&a)[2]));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(ra[3]) : "f"(((const float *)&a)[3]));
  unsigned int rb[2];
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rb[0]) : "f"(((const float *)&b)[0]));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rb[1]) : "f"(((const float *)&b)[1]));
  float *rc = (float *)&c;
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(rc[0]), "+f"(rc[1]), "+f"(rc[2]), "+f"(rc[3])
    : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  return c;
}
#endif
extern "C" __global__ void __launch_bounds__(1) k_k(float *data0, float *data1, float *data2, float *data3) {
  float4 v1;
  v1 = *(const float4 *)&data1[0];
  float2 v2;
  v2 = *(const float2 *)&data2[0];
  float4 v3;
  v3 = *(const float4 *)&data3[0];
  float4 v4 = tinyref_wmma_nvidia_m16n8k8_tf32_float32(v1, v2, v3);
  *(float4 *)&data0[0] = v4;
}
