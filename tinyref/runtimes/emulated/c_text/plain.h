/* The launch words of plain C: what a C of your own calls otherwise, as CUDA or OpenCL C do. */

#include <stdint.h>
#define bool _Bool

#define KERNEL
#define LOCAL_ID(dimension) TINYREF_ITEM->local_id[dimension]
#define GROUP_ID(dimension) TINYREF_ITEM->group_id[dimension]
#define BARRIER() TINYREF_BARRIER()
#define BITS_AS(type, value) TINYREF_BITS(type, value)
/* The emulator has made memory of the group of the arrays; what is left are pointers to it. */
#define SHARED
