/* The launch words of plain C: what a C of your own calls otherwise, as CUDA or OpenCL C do. */

#define KERNEL
#define SHARED
#define LOCAL_ID(dimension) TINYREF_ITEM->local_id[dimension]
#define GROUP_ID(dimension) TINYREF_ITEM->group_id[dimension]
#define BARRIER() TINYREF_BARRIER()
