/* gcc-3, gcc 12.2: x / -y is taken for the negative of x / y, also where both are the least integer.
   Compile and run it: gcc -O1 -fwrapv gcc-3.c && ./a.out
   Exit code: 1 while it is wrong, 0 when it is right. */
#include <limits.h>
#include <stdio.h>

__attribute__((noinline)) void quotients(int *out, const int *x, const int *y) {
  int a = *x, b = *y;
  out[0] = a / b;
  out[1] = a / (int)(0u - (unsigned)b);
}

int main(void) {
  int least = INT_MIN, out[2];
  quotients(out, &least, &least);
  printf("expected 1 and 1, got %d and %d\n", out[0], out[1]);
  return out[1] != 1;
}
