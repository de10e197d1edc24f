/* The words of MSL (Metal Shading Language Specification) that kernels use, as C++ of this host. */

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

typedef tinyref_float16 half;
typedef tinyref_bfloat16 bfloat;

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
