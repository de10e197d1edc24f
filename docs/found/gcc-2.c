/* gcc-2, gcc 12.2 with the GNU assembler 2.40: it refuses what gcc makes of lanes of float16.
   Compile it: gcc -O2 -march=sapphirerapids -c gcc-2.c
   Look for: Error: unsupported masking for `vmovsh'. It compiles with -mno-avx512fp16. */
typedef unsigned char bytes __attribute__((vector_size(4)));
typedef _Float16 halves __attribute__((vector_size(8)));
void chosen(_Float16 *out, _Float16 *data, _Float16 *given) {
  for (int i = 0; i < 9; i++) {
    halves x, y;
    __builtin_memcpy(&x, &data[i * 4], sizeof x);
    __builtin_memcpy(&y, &given[i * 4], sizeof y);
    bytes gates = {0 < x[0], 0 < x[1], 0 < x[2], 0 < x[3]};
    bytes more = {6 < x[0], 6 < x[1], 6 < x[2], 6 < x[3]};
    halves some = {more[0] ? (_Float16)0 : y[0], more[1] ? (_Float16)0 : y[1],
                   more[2] ? (_Float16)0 : y[2], more[3] ? (_Float16)0 : y[3]};
    halves all = {gates[0] ? some[0] : (_Float16)0, gates[1] ? some[1] : (_Float16)0,
                  gates[2] ? some[2] : (_Float16)0, gates[3] ? some[3] : (_Float16)0};
    __builtin_memcpy(&out[i * 4], &all, sizeof all);
  }
}
