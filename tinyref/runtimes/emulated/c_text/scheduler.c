/* The work-items of a group as fibers of one thread, which switch at barriers.

   A fiber runs work-items one after the other until one waits at a barrier; then the next fiber
   goes on with those that are left. So a kernel without barriers needs one fiber and one switch. */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if !(defined(__x86_64__) || (defined(__aarch64__) && !defined(__TINYC__)))
#define TINYREF_UCONTEXT
#endif
#ifdef TINYREF_UCONTEXT
#include <ucontext.h>
#endif

/* as in c_emulator.py */
enum { FINE, NO_MEMORY, DIVERGENT, SHARED_FULL, SHARED_OVERRUN, TILE_DIVERGENT, TILE_WRONG };
enum { IDLE, WAITING, MEETING, MULTIPLIED }; /* at a barrier; at a matrix tile, before and after */
enum { MAX_ARRAYS = 64, LINE = 64, PAGE = 0x1000 };
/* Floats of these bytes are NaN. Bytes behind an array have a value that no poison has. */
enum { POISON = 0xFF, UNTOUCHED = 0x5C, GUARD = 64 };

struct fiber {
  void *place; /* where it goes on */
  struct worker *worker;
  int state, line;
  unsigned item; /* the place of its work-item in the group */
  struct tinyref_fragments *fragments;
#ifdef TINYREF_UCONTEXT
  ucontext_t first;
#endif
};

struct array {
  unsigned long start, bytes; /* bytes are 0 until an item of the launch asks for the array */
};

struct worker {
  void *place;
  void (*kernel)(void **buffers, const int *variables);
  void **buffers;
  const int *variables;
  unsigned group_size[3], groups[3], group_id[3];
  unsigned items, started, finished, is_reverse;
  char *memory, *stacks; /* the stacks begin at a multiple of their size */
  struct fiber *fibers;
  struct tinyref_fragments **fragments; /* of each work-item that waits at a tile */
  unsigned max_items, prepared;
  char *shared;
  unsigned long shared_limit, shared_used;
  struct array arrays[MAX_ARRAYS];
  int status;
  unsigned *where; /* the group and what is wrong in it: a line or the number of an array */
};

#ifdef TINYREF_UCONTEXT
static void tinyref_switch(void **from, void *to) {
  ucontext_t here;
  *from = &here;
  swapcontext(&here, to);
}
static void *first_place(struct fiber *fiber, char *stack, char *top, void (*start)(void)) {
  getcontext(&fiber->first);
  fiber->first.uc_stack.ss_sp = stack;
  fiber->first.uc_stack.ss_size = top - stack;
  fiber->first.uc_link = NULL;
  makecontext(&fiber->first, start, 0);
  return &fiber->first;
}
#else
/* Pushes what a function must preserve, and goes on where `to` was left. */
void tinyref_switch(void **from, void *to);
#ifdef __x86_64__ /* System V ABI */
enum { FRAME = 64, RETURN = 6 };
__asm__(
  ".text\n.globl tinyref_switch\ntinyref_switch:\n"
  "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
  "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
  "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
#else /* Procedure Call Standard of Arm: x19 to x30, d8 to d15 */
enum { FRAME = 160, RETURN = 11 };
__asm__(
  ".text\n.globl tinyref_switch\ntinyref_switch:\n"
  "sub sp, sp, #160\n"
  "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\n"
  "stp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
  "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\n"
  "stp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
  "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
  "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\n"
  "ldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
  "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\n"
  "ldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
  "add sp, sp, #160\nret\n");
#endif
static void *first_place(struct fiber *fiber, char *stack, char *top, void (*start)(void)) {
  void **frame = (void **)(top - FRAME);
  memset(frame, 0, FRAME);
  frame[RETURN] = (void *)start;
  return frame;
}
#endif

static void fail(struct worker *worker, int status, unsigned what) {
  if (worker->status) return;
  worker->status = status;
  memcpy(worker->where, worker->group_id, sizeof worker->group_id);
  worker->where[3] = what;
}

static void split(unsigned index, const unsigned *sizes, unsigned *position) {
  position[0] = index % sizes[0];
  position[1] = index / sizes[0] % sizes[1];
  position[2] = index / sizes[0] / sizes[1];
}

/* Called by kernels */

static void barrier(struct tinyref_item *item, int line) {
  struct fiber *fiber = item->fiber;
  fiber->state = WAITING;
  fiber->line = line;
  tinyref_switch(&fiber->place, fiber->worker->place);
}

static void multiply(struct tinyref_item *item, struct tinyref_fragments *fragments) {
  struct fiber *fiber = item->fiber;
  fiber->state = MEETING;
  fiber->line = fragments->line;
  fiber->fragments = fragments;
  tinyref_switch(&fiber->place, fiber->worker->place);
}

static void *shared(struct tinyref_item *item, unsigned number, unsigned long bytes) {
  struct fiber *fiber = item->fiber;
  struct worker *worker = fiber->worker;
  struct array *array = &worker->arrays[number % MAX_ARRAYS];
  if (array->bytes) return worker->shared + array->start;
  unsigned long end = worker->shared_used + bytes + GUARD;
  if (number >= MAX_ARRAYS || end > worker->shared_limit) {
    fail(worker, SHARED_FULL, number);
    tinyref_switch(&fiber->place, worker->place); /* and never comes back */
  }
  array->start = worker->shared_used;
  array->bytes = bytes;
  worker->shared_used = (end + LINE - 1) / LINE * LINE;
  memset(worker->shared + array->start, POISON, bytes);
  memset(worker->shared + array->start + bytes, UNTOUCHED, GUARD);
  return worker->shared + array->start;
}

/* Fibers */

static void run_items(void) {
  struct tinyref_item *item = TINYREF_ITEM;
  struct fiber *fiber = item->fiber;
  struct worker *worker = fiber->worker;
  for (;;) {
    while (worker->started < worker->items && !worker->status) {
      unsigned index = worker->started++;
      fiber->item = worker->is_reverse ? worker->items - 1 - index : index;
      split(fiber->item, worker->group_size, item->local_id);
      memcpy(item->group_id, worker->group_id, sizeof item->group_id);
      memcpy(item->local_size, worker->group_size, sizeof item->local_size);
      memcpy(item->groups, worker->groups, sizeof item->groups);
      worker->kernel(worker->buffers, worker->variables);
      worker->finished++;
    }
    fiber->state = IDLE;
    tinyref_switch(&fiber->place, worker->place);
  }
}

static struct fiber *prepared_fiber(struct worker *worker, unsigned number) {
  struct fiber *fiber = &worker->fibers[number];
  if (number < worker->prepared) return fiber;
  char *stack = worker->stacks + number * TINYREF_STACK;
  struct tinyref_item *item = (struct tinyref_item *)(stack + TINYREF_STACK) - 1;
  item->barrier = barrier;
  item->shared = shared;
  item->multiply = multiply;
  item->fiber = fiber;
  fiber->worker = worker;
  /* Stacks are aligned alike: frames at one depth of all would share a few lines of the cache. */
  unsigned long top = (unsigned long)item - number % 32 * LINE;
  mprotect(stack, PAGE, PROT_NONE);
  fiber->place = first_place(fiber, stack + PAGE, (char *)(top / LINE * LINE), run_items);
  worker->prepared = number + 1;
  return fiber;
}

/* All work-items of a group wait at one barrier. */
static void check_barrier(struct worker *worker, unsigned fibers) {
  int line = 0;
  for (unsigned i = 0; i < fibers; i++) {
    struct fiber *fiber = &worker->fibers[i];
    if (fiber->state == WAITING && (worker->finished || (line && fiber->line != line)))
      fail(worker, DIVERGENT, fiber->line);
    if (fiber->state == WAITING) line = fiber->line;
  }
}

/* All lanes of the warp of `fiber` come to one tile, and all get their part of the product. */
static void multiply_warp(struct worker *worker, struct fiber *fiber) {
  struct tinyref_fragments *own = fiber->fragments;
  unsigned lanes = tiles[own->tile].lanes, first = fiber->item / lanes * lanes;
  struct tinyref_fragments **warp = worker->fragments + first;
  for (unsigned lane = 0; lane < lanes; lane++)
    if (first + lane >= worker->items || !warp[lane] || warp[lane]->line != own->line) {
      fail(worker, TILE_DIVERGENT, own->line);
      return;
    }
  if (!multiply_tile(own->tile, warp)) fail(worker, TILE_WRONG, own->line);
  memset(warp, 0, lanes * sizeof *warp);
}

/* 1 where work-items wait at a tile, and have multiplied now. */
static int multiply_warps(struct worker *worker, unsigned fibers) {
  int has_arrived = 0;
  for (unsigned i = 0; i < fibers; i++)
    if (worker->fibers[i].state == MEETING) {
      worker->fragments[worker->fibers[i].item] = worker->fibers[i].fragments;
      has_arrived = 1;
    }
  for (unsigned i = 0; i < fibers && has_arrived && !worker->status; i++) {
    struct fiber *fiber = &worker->fibers[i];
    if (fiber->state != MEETING) continue;
    /* Another lane of the warp may have done it for all. */
    if (worker->fragments[fiber->item]) multiply_warp(worker, fiber);
    fiber->state = MULTIPLIED;
  }
  return has_arrived;
}

/* Goes on with the fibers that are in `state`. */
static void resume(struct worker *worker, unsigned fibers, int state) {
  for (unsigned i = 0; i < fibers && !worker->status; i++)
    if (worker->fibers[i].state == state) tinyref_switch(&worker->place, worker->fibers[i].place);
}

static void run_group(struct worker *worker) {
  unsigned fibers = 0;
  worker->started = worker->finished = 0;
  while (worker->started < worker->items && !worker->status) {
    struct fiber *fiber = prepared_fiber(worker, fibers);
    tinyref_switch(&worker->place, fiber->place);
    fibers += fiber->state != IDLE;
  }
  while (worker->finished < worker->items && !worker->status) {
    int is_tile = multiply_warps(worker, fibers);
    if (!is_tile) check_barrier(worker, fibers);
    resume(worker, fibers, is_tile ? MULTIPLIED : WAITING);
  }
}

static void check_shared(struct worker *worker) {
  for (unsigned number = 0; number < MAX_ARRAYS; number++) {
    struct array *array = &worker->arrays[number];
    char *end = worker->shared + array->start + array->bytes;
    for (unsigned i = 0; array->bytes && i < GUARD; i++)
      if (end[i] != UNTOUCHED) {
        fail(worker, SHARED_OVERRUN, number);
        return;
      }
  }
}

/* Called by the runtime */

static unsigned long stack_bytes(unsigned items) { return (items + 1ul) * TINYREF_STACK; }

void tinyref_free(struct worker *worker) {
  if (worker->memory != MAP_FAILED) munmap(worker->memory, stack_bytes(worker->max_items));
  free(worker->shared);
  free(worker->fibers);
  free(worker->fragments);
  free(worker);
}

struct worker *tinyref_worker(unsigned max_items, unsigned long shared_bytes) {
  struct worker *worker = calloc(1, sizeof *worker);
  if (!worker) return NULL;
  worker->max_items = max_items;
  worker->memory = mmap(NULL, stack_bytes(max_items), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  worker->stacks = (char *)(((unsigned long)worker->memory | (TINYREF_STACK - 1)) + 1);
  worker->shared_limit = shared_bytes + MAX_ARRAYS * (GUARD + LINE);
  worker->shared = aligned_alloc(LINE, worker->shared_limit / LINE * LINE + LINE);
  worker->fibers = calloc(max_items, sizeof *worker->fibers);
  worker->fragments = calloc(max_items, sizeof *worker->fragments);
  int has_stacks = worker->memory != MAP_FAILED;
  if (has_stacks && worker->shared && worker->fibers && worker->fragments) return worker;
  tinyref_free(worker);
  return NULL;
}

/* `count` groups from number `first` on. `extents` are those of the group and of the grid. */
int tinyref_run(struct worker *worker, void (*kernel)(void **, const int *), void **buffers,
                const int *variables, const unsigned *extents, unsigned first, unsigned count,
                unsigned is_reverse, unsigned *where) {
  memcpy(worker->group_size, extents, sizeof worker->group_size);
  memcpy(worker->groups, extents + 3, sizeof worker->groups);
  worker->kernel = kernel;
  worker->buffers = buffers;
  worker->variables = variables;
  worker->items = extents[0] * extents[1] * extents[2];
  worker->is_reverse = is_reverse;
  worker->where = where;
  worker->status = FINE;
  for (unsigned i = 0; i < count && !worker->status; i++) {
    split(is_reverse ? first + count - 1 - i : first + i, worker->groups, worker->group_id);
    /* No group finds what an earlier one left: each asks for its arrays anew. */
    memset(worker->arrays, 0, sizeof worker->arrays);
    worker->shared_used = 0;
    run_group(worker);
    check_shared(worker);
  }
  /* Fibers that still wait are given up. */
  if (worker->status) {
    worker->prepared = 0;
    memset(worker->fragments, 0, worker->max_items * sizeof *worker->fragments);
  }
  return worker->status;
}
