// image 0 write float16 2 3
// image 1 read float32 2 3
#pragma OPENCL FP_CONTRACT OFF
__kernel void k_texels(__write_only image2d_t data0, __read_only image2d_t data1) {
  int group_0 = get_group_id(0);
  float4 v1;
  v1 = read_imagef(data1, (int2)(1, group_0));
  float4 v2 = v1 + v1;
  write_imagef(data0, (int2)(1, group_0), v2);
}
