/* gcc-1, gcc 12.2 for x86-64: four products of a loop, multiplied in pairs, lose two factors.
   Compile and run it: gcc -O2 -mavx2 gcc-1.c && ./a.out
   Exit code: 1 while it is wrong, 0 when it is right, as with -fno-tree-loop-vectorize. */
#include <stdio.h>

#define TIMES(x, y) (int)((unsigned)x * (unsigned)y)
struct four { int x, y, z, w; };
struct two { int x, y; };
__attribute__((noinline)) void multiply(int *out, const int *rows) {
  struct four all = {1, 1, 1, 1};
  for (int i = 0; i < 250; i++) {
    const int *row = rows + 4 * i;
    struct four next = {row[0], row[1], row[2], row[3]};
    struct four both = {TIMES(all.x, next.x), TIMES(all.y, next.y),
                        TIMES(all.z, next.z), TIMES(all.w, next.w)};
    all = both;
  }
  struct two left = {all.x, all.y}, right = {all.z, all.w};
  struct two half = {TIMES(left.x, right.x), TIMES(left.y, right.y)};
  out[0] = TIMES(half.x, half.y);
}
int probe(void) {
  static int rows[1000], out;
  for (int i = 0; i < 1000; i++) rows[i] = 1;
  rows[1] = 3, rows[6] = 5, rows[11] = 7, rows[400] = 11;
  multiply(&out, rows);
  return out;
}

int main(void) {
  int found = probe();
  printf("expected 1155, got %d\n", found);
  return found != 1155;
}
