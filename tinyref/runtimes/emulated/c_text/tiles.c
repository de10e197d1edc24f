/* Matrix tiles: which element of A, B and C a register of a lane holds, as the vendors write it.

   NVIDIA: PTX ISA 8.5, section 9.7.14.5, "Matrix Fragments for mma": groupID is lane >> 2,
   threadID_in_group is lane % 4. AMD: RDNA3 ISA guide, section 7.9; RDNA4 ISA guide, section 7.12; MI300 ISA guide, section 7.1,
   with the matrix instruction calculator. Apple publishes no layout: this one is that of the MLX
   kernels, and only products are promised. Nothing here is made of what the compiler knows of
   tiles: each of the two checks the other. */

#define _GNU_SOURCE
#include <string.h>

enum { IN_F16, IN_BF16, IN_F32, IN_TF32, IN_F64, IN_I8, IN_I32 };
enum { MAX_LANES = 64, MAX_ELEMENTS = 32 * 32 };

struct place {
  int row, column;
};
typedef struct place (*layout)(int lane, int i);

#define GROUP (lane >> 2)
#define THREAD (lane % 4)
#define PLACE(name, row, column) \
  static struct place name(int lane, int i) { return (struct place){row, column}; }

/* .f16 and .bf16: m16n8k8 and m16n8k16 */
PLACE(half_a8, i < 2 ? GROUP : GROUP + 8, THREAD * 2 + (i & 1))
PLACE(half_b8, THREAD * 2 + i, GROUP)
PLACE(half_a16, i < 2 || (i >= 4 && i < 6) ? GROUP : GROUP + 8,
      i < 4 ? THREAD * 2 + (i & 1) : THREAD * 2 + (i & 1) + 8)
PLACE(half_b16, i < 2 ? THREAD * 2 + (i & 1) : THREAD * 2 + (i & 1) + 8, GROUP)
/* .tf32: m16n8k4 and m16n8k8 */
PLACE(tf32_a4, i == 0 ? GROUP : GROUP + 8, THREAD)
PLACE(tf32_b4, THREAD, GROUP)
PLACE(tf32_a8, i == 0 || i == 2 ? GROUP : GROUP + 8, i < 2 ? THREAD : THREAD + 4)
PLACE(tf32_b8, i == 0 ? THREAD : THREAD + 4, GROUP)
/* .f64: m8n8k4 */
PLACE(double_a4, GROUP, THREAD)
PLACE(double_b4, THREAD, GROUP)
/* .s8: m8n8k16, m16n8k16 and m16n8k32 */
PLACE(byte_a16_8, GROUP, THREAD * 4 + i)
PLACE(byte_a16, i < 4 ? GROUP : GROUP + 8, THREAD * 4 + (i & 3))
PLACE(byte_b16, THREAD * 4 + i, GROUP)
PLACE(byte_a32, i < 4 || (i >= 8 && i < 12) ? GROUP : GROUP + 8,
      i < 8 ? THREAD * 4 + (i & 3) : THREAD * 4 + (i & 3) + 16)
PLACE(byte_b32, i < 4 ? THREAD * 4 + (i & 3) : THREAD * 4 + (i & 3) + 16, GROUP)
/* The accumulators of m16n8 and of m8n8 */
PLACE(wide_c, i < 2 ? GROUP : GROUP + 8, THREAD * 2 + (i & 1))
PLACE(short_c, GROUP, THREAD * 2 + i)

/* RDNA3 in wave32: lanes 16 to 31 give A and B once more, C has rows by turns. */
PLACE(rdna3_a, lane % 16, i)
PLACE(rdna3_b, i, lane % 16)
PLACE(rdna3_c, 2 * i + lane / 16, lane % 16)
/* RDNA4 in wave32: lanes 16 to 31 have the second eight along k, and of C the second eight rows. */
PLACE(rdna4_a, lane % 16, 8 * (lane / 16) + i)
PLACE(rdna4_b, 8 * (lane / 16) + i, lane % 16)
PLACE(rdna4_c, 8 * (lane / 16) + i, lane % 16)
/* CDNA3: 64 lanes, four in a row along k; C has four rows below each other. */
PLACE(cdna3_a, lane % 16, 4 * (lane / 16) + i)
PLACE(cdna3_b, 4 * (lane / 16) + i, lane % 16)
PLACE(cdna3_c, 4 * (lane / 16) + i, lane % 16)
/* Apple: one layout of 8 x 8 for all three, by quads of lanes. */
#define QUAD (lane / 4)
PLACE(apple, (QUAD & 4) + lane / 2 % 4, (QUAD & 2) * 2 + lane % 2 * 2 + i)

struct tile {
  const char *name;
  int lanes, m, n, k, in, out;
  layout a, b, c;
};

/* Each TILE is a function tinyref_wmma_NAME of kernels: its number is its place here. */
#define TILE(name, ...) {#name, __VA_ARGS__},
static const struct tile tiles[] = {
TILE(nvidia_m16n8k8_float16_float32, 32, 16, 8, 8, IN_F16, IN_F32, half_a8, half_b8, wide_c)
TILE(nvidia_m16n8k8_float16_float16, 32, 16, 8, 8, IN_F16, IN_F16, half_a8, half_b8, wide_c)
TILE(nvidia_m16n8k8_bfloat16_float32, 32, 16, 8, 8, IN_BF16, IN_F32, half_a8, half_b8, wide_c)
TILE(nvidia_m16n8k16_float16_float32, 32, 16, 8, 16, IN_F16, IN_F32, half_a16, half_b16, wide_c)
TILE(nvidia_m16n8k16_float16_float16, 32, 16, 8, 16, IN_F16, IN_F16, half_a16, half_b16, wide_c)
TILE(nvidia_m16n8k16_bfloat16_float32, 32, 16, 8, 16, IN_BF16, IN_F32, half_a16, half_b16, wide_c)
TILE(nvidia_m16n8k4_tf32_float32, 32, 16, 8, 4, IN_TF32, IN_F32, tf32_a4, tf32_b4, wide_c)
TILE(nvidia_m16n8k8_tf32_float32, 32, 16, 8, 8, IN_TF32, IN_F32, tf32_a8, tf32_b8, wide_c)
TILE(nvidia_m8n8k4_float64_float64, 32, 8, 8, 4, IN_F64, IN_F64, double_a4, double_b4, short_c)
TILE(nvidia_m8n8k16_int8_int32, 32, 8, 8, 16, IN_I8, IN_I32, byte_a16_8, byte_b16, short_c)
TILE(nvidia_m16n8k16_int8_int32, 32, 16, 8, 16, IN_I8, IN_I32, byte_a16, byte_b16, wide_c)
TILE(nvidia_m16n8k32_int8_int32, 32, 16, 8, 32, IN_I8, IN_I32, byte_a32, byte_b32, wide_c)
TILE(rdna3_m16n16k16_float16_float32, 32, 16, 16, 16, IN_F16, IN_F32, rdna3_a, rdna3_b, rdna3_c)
TILE(rdna3_m16n16k16_float16_float16, 32, 16, 16, 16, IN_F16, IN_F16, rdna3_a, rdna3_b, rdna3_c)
TILE(rdna3_m16n16k16_bfloat16_float32, 32, 16, 16, 16, IN_BF16, IN_F32, rdna3_a, rdna3_b, rdna3_c)
TILE(rdna3_m16n16k16_int8_int32, 32, 16, 16, 16, IN_I8, IN_I32, rdna3_a, rdna3_b, rdna3_c)
TILE(rdna4_m16n16k16_float16_float32, 32, 16, 16, 16, IN_F16, IN_F32, rdna4_a, rdna4_b, rdna4_c)
TILE(rdna4_m16n16k16_float16_float16, 32, 16, 16, 16, IN_F16, IN_F16, rdna4_a, rdna4_b, rdna4_c)
TILE(rdna4_m16n16k16_bfloat16_float32, 32, 16, 16, 16, IN_BF16, IN_F32, rdna4_a, rdna4_b, rdna4_c)
TILE(rdna4_m16n16k16_int8_int32, 32, 16, 16, 16, IN_I8, IN_I32, rdna4_a, rdna4_b, rdna4_c)
TILE(cdna3_m16n16k16_float16_float32, 64, 16, 16, 16, IN_F16, IN_F32, cdna3_a, cdna3_b, cdna3_c)
TILE(cdna3_m16n16k16_bfloat16_float32, 64, 16, 16, 16, IN_BF16, IN_F32, cdna3_a, cdna3_b, cdna3_c)
TILE(apple_m8n8k8_float32_float32, 32, 8, 8, 8, IN_F32, IN_F32, apple, apple, apple)
TILE(apple_m8n8k8_float16_float16, 32, 8, 8, 8, IN_F16, IN_F16, apple, apple, apple)
TILE(apple_m8n8k8_bfloat16_bfloat16, 32, 8, 8, 8, IN_BF16, IN_BF16, apple, apple, apple)
};

/* Elements. All are numbers of double, whose products and sums are exact or round once more without
   a change: as for small floats. */

static int bytes_of(int type) {
  return type == IN_F64 ? 8 : type == IN_I8 ? 1 : type == IN_F16 || type == IN_BF16 ? 2 : 4;
}

static double element(const void *registers, int i, int type) {
  switch (type) {
    case IN_F16: return tinyref_widen(((const unsigned short *)registers)[i], TINYREF_F16);
    case IN_BF16: return tinyref_widen(((const unsigned short *)registers)[i], TINYREF_BF16);
    case IN_F64: return ((const double *)registers)[i];
    case IN_I8: return ((const signed char *)registers)[i];
    case IN_I32: return ((const int *)registers)[i];
    default: return ((const float *)registers)[i];
  }
}

static double rounded(double value, int type) {
  switch (type) {
    case IN_F16: return tinyref_widen(tinyref_narrow(value, TINYREF_F16), TINYREF_F16);
    case IN_BF16: return tinyref_widen(tinyref_narrow(value, TINYREF_BF16), TINYREF_BF16);
    case IN_F32: return (float)value;
    case IN_I32: return (int)(unsigned)(long long)value;
    default: return value;
  }
}

static void put_element(void *registers, int i, int type, double value) {
  switch (type) {
    case IN_F16: ((unsigned short *)registers)[i] = tinyref_narrow(value, TINYREF_F16); break;
    case IN_BF16: ((unsigned short *)registers)[i] = tinyref_narrow(value, TINYREF_BF16); break;
    case IN_F64: ((double *)registers)[i] = value; break;
    case IN_I32: ((int *)registers)[i] = (int)value; break;
    default: ((float *)registers)[i] = (float)value;
  }
}

/* cvt.rna.tf32.f32 of the PTX ISA: to 10 bits of fraction, to nearest, ties away from zero. */
static double tf32(double value) {
  union { float value; unsigned bits; } single;
  single.value = (float)value;
  if ((single.bits & 0x7fffffff) < 0x7f800000) single.bits = (single.bits + 0x1000) & 0xffffe000;
  return single.value;
}

/* A matrix from the fragments of all lanes: 1 where it is whole and lanes agree on it. */
static int gather(const struct tile *tile, int operand, struct tinyref_fragments **lanes,
                  double *matrix) {
  int rows = operand == 1 ? tile->k : tile->m, columns = operand == 0 ? tile->k : tile->n;
  int type = operand == 2 ? tile->out : tile->in;
  layout place_of = operand == 0 ? tile->a : operand == 1 ? tile->b : tile->c;
  int registers = lanes[0]->bytes[operand] / bytes_of(type);
  char is_held[MAX_ELEMENTS] = {0};
  for (int lane = 0; lane < tile->lanes; lane++)
    for (int i = 0; i < registers; i++) {
      struct place place = place_of(lane, i);
      if (place.row >= rows || place.column >= columns) return 0;
      int number = place.row * columns + place.column;
      double value = element(lanes[lane]->registers[operand], i, type);
      if (type == IN_TF32) value = tf32(value);
      if (is_held[number] && memcmp(&matrix[number], &value, sizeof value)) return 0;
      is_held[number] = 1;
      matrix[number] = value;
    }
  for (int number = 0; number < rows * columns; number++)
    if (!is_held[number]) return 0;
  return 1;
}

/* A * B + C in the type of C, each product and sum rounded, k from 0 up: 1 where all went well. */
static int multiply_tile(int number, struct tinyref_fragments **lanes) {
  const struct tile *tile = &tiles[number];
  double a[MAX_ELEMENTS], b[MAX_ELEMENTS], c[MAX_ELEMENTS];
  if (!gather(tile, 0, lanes, a) || !gather(tile, 1, lanes, b) || !gather(tile, 2, lanes, c))
    return 0;
  for (int row = 0; row < tile->m; row++)
    for (int column = 0; column < tile->n; column++)
      for (int k = 0; k < tile->k; k++) {
        double product = a[row * tile->k + k] * b[k * tile->n + column];
        double *sum = &c[row * tile->n + column];
        *sum = rounded(*sum + rounded(product, tile->out), tile->out);
      }
  int registers = tile->m * tile->n / tile->lanes;
  for (int lane = 0; lane < tile->lanes; lane++)
    for (int i = 0; i < registers; i++) {
      struct place place = tile->c(lane, i);
      put_element(lanes[lane]->registers[2], i, tile->out, c[place.row * tile->n + place.column]);
    }
  return 1;
}
