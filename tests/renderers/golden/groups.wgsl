fn opaque_f32(x: f32) -> f32 { return bitcast<f32>((bitcast<u32>(x) | launch_words[0])); }
@group(0) @binding(0) var<storage, read> launch_words: array<u32, 3>;
@group(0) @binding(1) var<storage, read_write> data0: array<f32>;
@group(0) @binding(2) var<storage, read_write> data1: array<f32>;
var<workgroup> local1: array<f32, 4>;
@compute @workgroup_size(4, 1, 1)
fn k_rotate(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(local_invocation_id) item_id: vec3<u32>) {
  let item_0: i32 = i32(item_id.x);
  let data1_at: i32 = i32(launch_words[2] / 4u);
  let group_1: i32 = i32(group_id.y);
  let data0_at: i32 = i32(launch_words[1] / 4u);
  let v2: i32 = group_1 * 4i;
  let v3: i32 = v2 + item_0;
  let v4: f32 = data1[data1_at + v3];
  local1[item_0] = v4;
  storageBarrier(); workgroupBarrier();
  let v5: i32 = 3i - item_0;
  let v6: f32 = local1[v5];
  let v7: bool = v6 < bitcast<f32>((0x7f800000u | launch_words[0]));
  let v8: f32 = select(bitcast<f32>((0x7fc00000u | launch_words[0])), v6, v7);
  let v9: f32 = opaque_f32(v8 * opaque_f32(0.1f));
  let v10: bool = 0i < group_1;
  if (v10) { data0[data0_at + v3] = v9; }
}
