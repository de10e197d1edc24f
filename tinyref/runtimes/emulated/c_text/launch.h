/* What a kernel sees of its launch: the words of each language are made of these.

   A work-item runs in a fiber. Its state stands at the top of the fiber's stack, and stacks begin at
   multiples of their size: a kernel finds its state by the address of its own frame, without
   thread-local variables, which not every compiler has. */

#define TINYREF_STACK 0x40000ul

/* What a work-item brings to a matrix tile: of A, B and C the registers and their bytes. */
struct tinyref_fragments {
  int tile, line;
  void *registers[3];
  unsigned long bytes[3];
};

struct tinyref_item {
  unsigned local_id[3], group_id[3], local_size[3], groups[3];
  void (*barrier)(struct tinyref_item *item, int line);
  void *(*shared)(struct tinyref_item *item, unsigned number, unsigned long bytes);
  void (*multiply)(struct tinyref_item *item, struct tinyref_fragments *fragments);
  void *fiber;
};

#define TINYREF_ITEM                                                                       \
  ((struct tinyref_item *)(((unsigned long)__builtin_frame_address(0) | (TINYREF_STACK - 1)) \
                           + 1 - sizeof(struct tinyref_item)))

/* A barrier is named by its line: so one that only some work-items reach is told from others. */
#define TINYREF_BARRIER() TINYREF_ITEM->barrier(TINYREF_ITEM, __LINE__)
/* The array of that number: the same memory for all work-items of a group. */
#define TINYREF_SHARED(number, bytes) TINYREF_ITEM->shared(TINYREF_ITEM, number, bytes)
/* The fragments of a work-item, of the sizes that they have; it gets the product in that of C. */
#define TINYREF_TILE(number, x, y, z)                                                      \
  ({                                                                                       \
    __typeof__(x) tinyref_a = (x);                                                         \
    __typeof__(y) tinyref_b = (y);                                                         \
    __typeof__(z) tinyref_c = (z);                                                         \
    struct tinyref_fragments tinyref_all = {                                               \
        number, __LINE__, {&tinyref_a, &tinyref_b, &tinyref_c},                            \
        {sizeof tinyref_a, sizeof tinyref_b, sizeof tinyref_c}};                           \
    TINYREF_ITEM->multiply(TINYREF_ITEM, &tinyref_all);                                    \
    tinyref_c;                                                                             \
  })
/* The bits of a value as another type of the same size. */
#define TINYREF_BITS(type, value)                                                              \
  ({                                                                                       \
    union { __typeof__(value) from; type to; } tinyref_bits;                                 \
    tinyref_bits.from = (value);                                                             \
    tinyref_bits.to;                                                                         \
  })

#ifdef __cplusplus
#define TINYREF_LINKAGE extern "C"
#else
#define TINYREF_LINKAGE
/* Of the C library: other languages have one name for all types. */
float sqrtf(float), truncf(float), exp2f(float), log2f(float), sinf(float), powf(float, float);
double sqrt(double), trunc(double), exp2(double), log2(double), sin(double), pow(double, double);
#define TINYREF_BY_TYPE(name, value) _Generic((value), float: name##f, default: name)
#endif
