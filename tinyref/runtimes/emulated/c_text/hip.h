/* The words of HIP C++ that kernels use: its renderer defines them by built-in functions of clang. */

#define __global__
#define __device__
#define __shared__
#define __launch_bounds__(items)
#define TINYREF_OPAQUE(value)

#define __builtin_amdgcn_workgroup_id_x() TINYREF_ITEM->group_id[0]
#define __builtin_amdgcn_workgroup_id_y() TINYREF_ITEM->group_id[1]
#define __builtin_amdgcn_workgroup_id_z() TINYREF_ITEM->group_id[2]
#define __builtin_amdgcn_workitem_id_x() TINYREF_ITEM->local_id[0]
#define __builtin_amdgcn_workitem_id_y() TINYREF_ITEM->local_id[1]
#define __builtin_amdgcn_workitem_id_z() TINYREF_ITEM->local_id[2]
#define __builtin_amdgcn_fence(order, scope)
#define __builtin_amdgcn_s_barrier() TINYREF_BARRIER()

/* A text with float16 is C++: its operators are those of a type. */
#ifdef __cplusplus
#define _Float16 tinyref_float16
#else
#define _Float16 unsigned short
#define bool _Bool
#define false 0
#define true 1
// Of a compiler it is no macro: commas between braces are part of the value.
#define __builtin_bit_cast(type, ...) TINYREF_BITS(type, (__VA_ARGS__))
#define __builtin_sqrtf sqrtf
#define __builtin_truncf truncf
#define __builtin_sqrt sqrt
#define __builtin_trunc trunc
#endif
typedef unsigned short bfloat16;
