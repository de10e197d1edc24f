/* The words of CUDA C++ that kernels of scalars use. */

#define __global__
#define __device__ static
#define __shared__
#define __forceinline__ inline
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
#define __half _Float16
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
