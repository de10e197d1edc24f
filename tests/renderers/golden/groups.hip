#ifndef TINYREF_EMULATED
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(items) __attribute__((amdgpu_flat_work_group_size(1, items)))
#define TINYREF_OPAQUE(value) __asm__("" : "+v"(value))
#endif
extern "C" __global__ void __launch_bounds__(4) k_rotate(float *data0, float *data1) {
  __shared__ float local1[4];
  int item_0 = __builtin_amdgcn_workitem_id_x();
  int group_1 = __builtin_amdgcn_workgroup_id_y();
  int v2 = (int)((unsigned int)group_1 * (unsigned int)4);
  int v3 = (int)((unsigned int)v2 + (unsigned int)item_0);
  float v4 = data1[v3];
  local1[item_0] = v4;
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  int v5 = (int)((unsigned int)3 - (unsigned int)item_0);
  float v6 = local1[v5];
  bool v7 = v6 < __builtin_bit_cast(float, 0x7f800000u);
  float v8 = v7 ? v6 : __builtin_bit_cast(float, 0x7fc00000u);
  float v9 = v8 * 0.1f;
  bool v10 = 0 < group_1;
  if (v10) { data0[v3] = v9; }
}
