/* The words of CUDA C++ that kernels of scalars use. */

#define __global__
#define __device__
#define __shared__
#define __forceinline__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __restrict__ restrict
#define __launch_bounds__(...)

struct tinyref_position { unsigned x, y, z; };
#define threadIdx (*(struct tinyref_position *)TINYREF_ITEM->local_id)
#define blockIdx (*(struct tinyref_position *)TINYREF_ITEM->group_id)
#define blockDim (*(struct tinyref_position *)TINYREF_ITEM->local_size)
#define gridDim (*(struct tinyref_position *)TINYREF_ITEM->groups)
#define __syncthreads() TINYREF_BARRIER()

#define bool _Bool
#define false 0
#define true 1
#define __float_as_uint(value) TINYREF_BITS(unsigned, value)
#define __float_as_int(value) TINYREF_BITS(int, value)
#define __uint_as_float(value) TINYREF_BITS(float, value)
#define __int_as_float(value) TINYREF_BITS(float, value)
#define __double_as_longlong(value) TINYREF_BITS(long long, value)
#define __longlong_as_double(value) TINYREF_BITS(double, value)

#define __fadd_rn(x, y) ((x) + (y))
#define __fsub_rn(x, y) ((x) - (y))
#define __fmul_rn(x, y) ((x) * (y))
#define __fdiv_rn(x, y) ((x) / (y))
#define __fsqrt_rn(x) sqrtf(x)
#define __dadd_rn(x, y) ((x) + (y))
#define __dsub_rn(x, y) ((x) - (y))
#define __dmul_rn(x, y) ((x) * (y))
#define __ddiv_rn(x, y) ((x) / (y))
#define __dsqrt_rn(x) sqrt(x)

/* float16 and bfloat16 (CUDA Math API): arithmetic of every name rounds once, to nearest even. */
typedef struct { unsigned short bits; } __half;
typedef struct { unsigned short bits; } __nv_bfloat16;
#define TINYREF_FRACTION(x) _Generic((x), __half: TINYREF_F16, __nv_bfloat16: TINYREF_BF16)
#define TINYREF_WIDE(x) tinyref_widen((x).bits, TINYREF_FRACTION(x))
#define TINYREF_AS_HALF(type, value) TINYREF_BITS(type, (unsigned short)(value))
#define TINYREF_ROUND(type, value, fraction) \
  TINYREF_AS_HALF(type, tinyref_narrow(value, fraction))
#define TINYREF_ARITHMETIC(x, symbol, y)                                                   \
  TINYREF_ROUND(__typeof__(x), TINYREF_WIDE(x) symbol TINYREF_WIDE(y), TINYREF_FRACTION(x))
#define __hadd(x, y) TINYREF_ARITHMETIC(x, +, y)
#define __hsub(x, y) TINYREF_ARITHMETIC(x, -, y)
#define __hmul(x, y) TINYREF_ARITHMETIC(x, *, y)
#define __hdiv(x, y) TINYREF_ARITHMETIC(x, /, y)
#define __hadd_rn __hadd
#define __hsub_rn __hsub
#define __hmul_rn __hmul
#define __hlt(x, y) (TINYREF_WIDE(x) < TINYREF_WIDE(y))
#define __hgt(x, y) (TINYREF_WIDE(x) > TINYREF_WIDE(y))
#define __heq(x, y) (TINYREF_WIDE(x) == TINYREF_WIDE(y))
#define __hneu(x, y) (TINYREF_WIDE(x) != TINYREF_WIDE(y))
#define __hneg(x) TINYREF_AS_HALF(__typeof__(x), (x).bits ^ 0x8000)
#define hsqrt(x) TINYREF_ROUND(__typeof__(x), sqrt(TINYREF_WIDE(x)), TINYREF_FRACTION(x))
#define htrunc(x) TINYREF_ROUND(__typeof__(x), trunc(TINYREF_WIDE(x)), TINYREF_FRACTION(x))

#define __half2float(x) ((float)tinyref_widen((x).bits, TINYREF_F16))
#define __bfloat162float(x) ((float)tinyref_widen((x).bits, TINYREF_BF16))
#define __double2half(x) TINYREF_ROUND(__half, x, TINYREF_F16)
#define __float2half(x) __double2half(x)
#define __float2half_rn(x) __double2half(x)
#define __double2bfloat16(x) TINYREF_ROUND(__nv_bfloat16, x, TINYREF_BF16)
#define __float2bfloat16(x) __double2bfloat16(x)
#define __float2bfloat16_rn(x) __double2bfloat16(x)
#define __int2bfloat16_rn(x) __double2bfloat16(x)
#define __uint2bfloat16_rn(x) __double2bfloat16(x)
#define __ll2bfloat16_rn(x) __double2bfloat16(tinyref_double_of_long(x))
#define __ull2bfloat16_rn(x) __double2bfloat16(tinyref_double_of_unsigned_long(x))
#define __half_as_ushort(x) ((x).bits)
#define __ushort_as_half(x) TINYREF_AS_HALF(__half, x)
#define __bfloat16_as_ushort(x) ((x).bits)
#define __ushort_as_bfloat16(x) TINYREF_AS_HALF(__nv_bfloat16, x)
