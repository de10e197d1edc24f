#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
kernel void k_rotate(device float *data0 [[buffer(0)]], device float *data1 [[buffer(1)]], uint3 group_id [[threadgroup_position_in_grid]], uint3 item_id [[thread_position_in_threadgroup]]) {
  threadgroup float local1[4];
  int item_0 = item_id.x;
  int group_1 = group_id.y;
  int v2 = (int)((uint)group_1 * (uint)4);
  int v3 = (int)((uint)v2 + (uint)item_0);
  float v4 = data1[v3];
  local1[item_0] = v4;
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  int v5 = (int)((uint)3 - (uint)item_0);
  float v6 = local1[v5];
  bool v7 = v6 < as_type<float>(0x7f800000u);
  float v8 = v7 ? v6 : as_type<float>(0x7fc00000u);
  float v9 = v8 * 0.1f;
  bool v10 = 0 < group_1;
  if (v10) { data0[v3] = v9; }
}
