/* clang-1, clang 19.1.7 for GPUs of AMD: it crashes on a sum of eight products of bytes.
   Compile it: clang-19 --target=amdgcn-amd-amdhsa -mcpu=gfx90a -nogpulib -O2 -c clang-1.c
   Look for: a crash in SelectionDAG::FoldConstantArithmetic. It compiles with -mcpu=gfx900. */
typedef unsigned char bytes __attribute__((ext_vector_type(8)));
__attribute__((amdgpu_kernel)) void k(__attribute__((address_space(1))) unsigned char *o,
                                      __attribute__((address_space(1))) bytes *a) {
  o[0] = __builtin_reduce_add(a[0] * a[0]);
}
