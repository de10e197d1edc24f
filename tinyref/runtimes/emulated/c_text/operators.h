/* float16 and bfloat16 with operators, for texts that are C++: each rounds once, to nearest even. */

#ifdef __cplusplus
inline double tinyref_exact(double value) { return value; }
inline double tinyref_exact(float value) { return value; }
inline double tinyref_exact(unsigned long value) { return tinyref_double_of_unsigned_long(value); }
inline double tinyref_exact(unsigned long long value) {
  return tinyref_double_of_unsigned_long(value);
}
template <class Integer> inline double tinyref_exact(Integer value) {
  return tinyref_double_of_long(value);
}

template <int FRACTION> struct tinyref_small {
  unsigned short bits;
  tinyref_small() = default;
  template <class Number> tinyref_small(Number x) : bits(tinyref_narrow(tinyref_exact(x), FRACTION)) {}
  template <int OTHER> explicit tinyref_small(tinyref_small<OTHER> x) : tinyref_small((float)x) {}
  operator float() const { return (float)tinyref_widen(bits, FRACTION); }
  friend tinyref_small operator+(tinyref_small x, tinyref_small y) { return x.wide() + y.wide(); }
  friend tinyref_small operator-(tinyref_small x, tinyref_small y) { return x.wide() - y.wide(); }
  friend tinyref_small operator*(tinyref_small x, tinyref_small y) { return x.wide() * y.wide(); }
  friend tinyref_small operator/(tinyref_small x, tinyref_small y) { return x.wide() / y.wide(); }
  friend tinyref_small operator-(tinyref_small x) {
    x.bits ^= 0x8000;
    return x;
  }

 private:
  double wide() const { return tinyref_widen(bits, FRACTION); }
};
typedef tinyref_small<TINYREF_F16> tinyref_float16;
typedef tinyref_small<TINYREF_BF16> tinyref_bfloat16;
#endif
