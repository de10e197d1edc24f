/* Floats of 16 bits by their bits, which no compiler must know: IEEE 754 binary16 and bfloat16.

   A float has one bit of sign, `exponent` bits and `fraction` bits (IEEE 754-2019, 3.4). Arithmetic
   is that of double and rounded once: double has more than twice the digits of each and two more, so
   that its own rounding of sums, products, quotients and roots changes nothing. */

enum { TINYREF_F16 = 10, TINYREF_BF16 = 7 }; /* bits of the fraction */

static double tinyref_widen(unsigned bits, int fraction) {
  union { double value; unsigned long long bits; } wide;
  unsigned long long digits = bits & ((1u << fraction) - 1), sign = bits >> 15;
  int exponent = (bits & 0x7fff) >> fraction, bias = (1 << (14 - fraction)) - 1;
  if (exponent == 2 * bias + 1) exponent = 0x7ff;
  else if (exponent) exponent += 1023 - bias;
  else {
    if (!digits) exponent = 0;
    else {
      exponent = 1024 - bias;
      while (!(digits >> fraction)) {
        digits <<= 1;
        exponent--;
      }
      digits &= (1u << fraction) - 1;
    }
  }
  wide.bits = sign << 63 | (unsigned long long)exponent << 52 | digits << (52 - fraction);
  return wide.value;
}

/* To nearest, ties to even; NaN becomes the quiet one with its sign. */
static unsigned short tinyref_narrow(double value, int fraction) {
  union { double value; unsigned long long bits; } wide;
  wide.value = value;
  unsigned sign = (unsigned)(wide.bits >> 63) << 15, infinity = 0x7fff >> fraction << fraction;
  unsigned long long digits = wide.bits & 0xfffffffffffffull;
  int exponent = (int)(wide.bits >> 52 & 0x7ff), least = 1023 - ((1 << (14 - fraction)) - 2);
  if (exponent == 0x7ff && digits) return sign | infinity | 1u << (fraction - 1);
  if (exponent == 0x7ff) return sign | infinity;
  if (exponent) digits |= 1ull << 52;
  int lost = 52 - fraction + (exponent < least ? least - exponent : 0);
  if (lost > 54) lost = 54;
  unsigned long long rest = digits & ((1ull << lost) - 1), half = 1ull << (lost - 1);
  unsigned long long result = digits >> lost;
  result += rest > half || (rest == half && (result & 1));
  if (exponent > least) result += (unsigned long long)(exponent - least) << fraction;
  return sign | (unsigned)(result < infinity ? result : infinity);
}

/* A double that rounds as the integer does: what it has no digits for is the last bit of an odd
   number. */
static double tinyref_double_of_long(long long value) {
  long long high = value >> 11;
  if (value >= -(1ll << 53) && value <= 1ll << 53) return (double)value;
  return (double)(high | ((value & 0x7ff) != 0)) * 2048.0;
}
static double tinyref_double_of_unsigned_long(unsigned long long value) {
  if (!(value >> 63)) return tinyref_double_of_long((long long)value);
  return (double)(value >> 11 | ((value & 0x7ff) != 0)) * 2048.0;
}
