/* The words of MSL (Metal Shading Language Specification) that kernels use, as C++ of this host. */

#ifndef TINYREF_EMULATED
#define TINYREF_EMULATED
#endif

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

namespace metal {

template <class To, class From> inline To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of one size (2.19)");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

/* An integer with no more digits than a float has; the last one says whether others were lost, so
   that rounding to fewer digits rounds once (Boldo and Melquiond, 2008). */
template <class T> inline float to_odd(T value) {
  ulong magnitude = value < 0 ? -(ulong)value : (ulong)value;
  int bits = magnitude ? 64 - __builtin_clzl(magnitude) : 0, lost = bits > 24 ? bits - 24 : 0;
  ulong kept = magnitude >> lost;
  kept |= (kept << lost) != magnitude;
  float number = (float)(kept << lost);
  return value < 0 ? -number : number;
}

struct binary16 {
  static ushort narrow(float value) {
    uint bits = as_type<uint>(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return sign | 0x7e00 | (magnitude >> 13 & 0x1ff);
    if (magnitude < 0x38800000) { /* below the least normal one: 0.5 has the same last place */
      return sign | (as_type<uint>(as_type<float>(magnitude) + 0.5f) - 0x3f000000);
    }
    if (magnitude >= 0x47800000) return sign | 0x7c00;
    uint moved = magnitude - (112 << 23);
    return sign | (moved + 0xfff + (moved >> 13 & 1)) >> 13;
  }
  static float wide(ushort bits) {
    uint sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fff;
    if (magnitude >= 0x7c00) return as_type<float>(sign | 0x7f800000 | magnitude << 13);
    float number = magnitude < 0x400 ? magnitude * 0x1p-24f
                                     : as_type<float>((magnitude << 13) + (112 << 23));
    return as_type<float>(sign | as_type<uint>(number));
  }
};

struct brain16 {
  static ushort narrow(float value) {
    uint bits = as_type<uint>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  }
  static float wide(ushort bits) { return as_type<float>((uint)bits << 16); }
};

/* A small float: each operation is one of float, which is exact enough, rounded once more. */
template <class Format> struct small {
  ushort bits;
  small() = default;
  small(float value) : bits(Format::narrow(value)) {}
  template <class Integer> small(Integer value) : bits(Format::narrow(to_odd(value))) {}
  operator float() const { return Format::wide(bits); }
  friend small operator+(small x, small y) { return (float)x + (float)y; }
  friend small operator-(small x, small y) { return (float)x - (float)y; }
  friend small operator*(small x, small y) { return (float)x * (float)y; }
  friend small operator/(small x, small y) { return (float)x / (float)y; }
  friend small operator-(small x) { return as_type<small>((ushort)(x.bits ^ 0x8000)); }
};
typedef small<binary16> half;
typedef small<brain16> bfloat;

/* Vectors are aligned as their elements are, packed ones or not. */
template <class T> struct vector2 {
  T x, y;
  vector2() = default;
  vector2(T x, T y) : x(x), y(y) {}
  T &operator[](int lane) { return lane ? y : x; }
};
template <class T> struct vector3 {
  T x, y, z;
};
template <class T> struct vector4 {
  T x, y, z, w;
  vector4() = default;
  vector4(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
};
#define TINYREF_LANEWISE(op)                                                                \
  template <class T> vector2<T> operator op(vector2<T> a, vector2<T> b) {                   \
    return vector2<T>(a.x op b.x, a.y op b.y);                                              \
  }                                                                                         \
  template <class T> vector4<T> operator op(vector4<T> a, vector4<T> b) {                   \
    return vector4<T>(a.x op b.x, a.y op b.y, a.z op b.z, a.w op b.w);                      \
  }
TINYREF_LANEWISE(+)
TINYREF_LANEWISE(-)
TINYREF_LANEWISE(*)
TINYREF_LANEWISE(/)
#define TINYREF_VECTORS(name, type)                                                         \
  typedef vector2<type> name##2, packed_##name##2;                                          \
  typedef vector3<type> name##3;                                                            \
  typedef vector4<type> name##4, packed_##name##4;
TINYREF_VECTORS(char, signed char)
TINYREF_VECTORS(uchar, uchar)
TINYREF_VECTORS(short, short)
TINYREF_VECTORS(ushort, ushort)
TINYREF_VECTORS(int, int)
TINYREF_VECTORS(uint, uint)
TINYREF_VECTORS(long, long)
TINYREF_VECTORS(ulong, ulong)
TINYREF_VECTORS(half, half)
TINYREF_VECTORS(bfloat, bfloat)
TINYREF_VECTORS(float, float)

namespace precise {
inline float sqrt(float x) { return __builtin_sqrtf(x); }
}
inline float trunc(float x) { return __builtin_truncf(x); }

enum class mem_flags : uint { mem_none, mem_device, mem_threadgroup };
constexpr mem_flags operator|(mem_flags x, mem_flags y) { return (mem_flags)((uint)x | (uint)y); }

inline uint3 position(const unsigned *at) { return {at[0], at[1], at[2]}; }

}  // namespace metal

#define kernel
#define device
#define constant const
#define thread
/* The emulator has made memory of the group of the arrays; what is left are pointers to it. */
#define threadgroup
#define char signed char

#define threadgroup_barrier(flags) ((void)(metal::mem_flags)(flags), TINYREF_BARRIER())
