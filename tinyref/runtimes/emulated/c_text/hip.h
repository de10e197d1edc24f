/* The words of HIP C++ that kernels use: its renderer defines them by built-in functions of clang. */

#define TINYREF_EMULATED
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

#define bool _Bool
#define false 0
#define true 1
#define __builtin_bit_cast(type, value) TINYREF_BITS(type, value)
typedef unsigned short bfloat16;
