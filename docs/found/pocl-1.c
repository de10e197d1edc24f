/* pocl-1, LLVM 15 for x86-64, as in PoCL 3.1: a choice between x and -0.0 gives -0.0 for 0.0.
   Compile and run it: clang-15 -O1 pocl-1.c && ./a.out
   Exit code: 1 while it is wrong, 0 when it is right. */
#include <stdio.h>

__attribute__((noinline)) void choose(float *out, const float *x) {
  for (int i = 0; i < 8; i++) out[i] = x[i] < -0.0f ? -0.0f : x[i];
}

int main(void) {
  float zeros[8] = {0}, out[8];
  choose(out, zeros);
  printf("expected 0, got %g\n", out[0]);
  return __builtin_signbit(out[0]) != 0;
}
