/* The words of OpenCL C (3.0, section 6) that kernels of scalars use. */

#define __kernel
#define __global
#define __constant const
#define __private
/* The emulator has made memory of the group of the arrays; what is left are pointers to it. */
#define __local

#define get_local_id(dimension) TINYREF_ITEM->local_id[dimension]
#define get_group_id(dimension) TINYREF_ITEM->group_id[dimension]
#define get_local_size(dimension) TINYREF_ITEM->local_size[dimension]
#define get_num_groups(dimension) TINYREF_ITEM->groups[dimension]
#define get_global_id(dimension) \
  (get_group_id(dimension) * get_local_size(dimension) + get_local_id(dimension))
#define get_global_size(dimension) (get_num_groups(dimension) * get_local_size(dimension))
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define barrier(flags) TINYREF_BARRIER()
#define work_group_barrier(...) TINYREF_BARRIER()

#define uchar unsigned char
#define ushort unsigned short
#define uint unsigned int
#define ulong unsigned long
#define half _Float16
#define bool _Bool
#define false 0
#define true 1

#define as_char(value) TINYREF_BITS(char, value)
#define as_uchar(value) TINYREF_BITS(uchar, value)
#define as_short(value) TINYREF_BITS(short, value)
#define as_ushort(value) TINYREF_BITS(ushort, value)
#define as_int(value) TINYREF_BITS(int, value)
#define as_uint(value) TINYREF_BITS(uint, value)
#define as_long(value) TINYREF_BITS(long, value)
#define as_ulong(value) TINYREF_BITS(ulong, value)
#define as_half(value) TINYREF_BITS(half, value)
#define as_float(value) TINYREF_BITS(float, value)
#define as_double(value) TINYREF_BITS(double, value)
