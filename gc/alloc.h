/*
 * Allocation: the fast path from a thread's open masks, the tiny blocks, and the slow path that refills a
 * mask, collects, or gives up. Owns no memory; takes masks from central, large objects from large.
 */
#ifndef GC_ALLOC_H
#define GC_ALLOC_H

#include <string.h>

#include "gc/mutator.h"
#include "gc/page.h"
#include "gc/sizeclass.h"

/* Up to here 16-byte stores in a row beat the call of memset (measured: docs/performance.md). */
#define ALLOC_ZERO_INLINE_BYTES 128

typedef long long alloc_zero_block __attribute__((vector_size(16), aligned(8), may_alias));

/* `bytes` is a multiple of 8. */
static inline void alloc_zero_slot(char *p, size_t bytes) {
    if (bytes > ALLOC_ZERO_INLINE_BYTES) {
        memset(p, 0, bytes);
        return;
    }
    char *end = p + (bytes & ~(size_t)15);
    while (p != end) {
        *(alloc_zero_block *)(void *)p = (alloc_zero_block){0, 0};
        p += 16;
        /* Keeps the compiler from turning the loop into the call that it is here to avoid. */
        __asm__("" : "+r"(p));
    }
    if (bytes & 8)
        *(uint64_t *)(void *)p = 0;
}

/* The next slot of the open mask, or NULL. Not zeroed. Rule S2 ties the two statements in the middle. */
static inline char *alloc_take_slot(struct mutator *self, enum kind kind, unsigned class, size_t bytes) {
    struct open_mask *mask = &self->masks[kind][class];
    uint64_t bits = atomic_load_explicit(&mask->bits, memory_order_relaxed);
    if (unlikely(bits == 0))
        return NULL;
    char *slot = mask->base + (unsigned)__builtin_ctzll(bits) * bytes;
    slot = pin_register(slot);
    atomic_store_explicit(&mask->bits, bits & (bits - 1), memory_order_relaxed);
    return slot;
}

static inline bool alloc_zeroed_on_refill(enum kind kind) {
    return kind == KIND_TYPED || kind == KIND_TRACED;
}

/* The rest of alloc_object: no slot was open, or the object is large. */
void *alloc_object_slow(struct mutator *self, size_t size, enum kind kind);

/*
 * Each of these returns zeroed memory, or NULL with errno ENOMEM after a collection and the out-of-memory
 * handler. Depth 0; may collect. `size` of 0 counts as 1. Typed and traced sizes include their trailing type
 * word, which the caller sets.
 */
static inline void *alloc_object(struct mutator *self, size_t size, enum kind kind) {
    if (unlikely(size > SIZECLASS_MAX_BYTES))
        return alloc_object_slow(self, size, kind);
    unsigned class = sizeclass_of(size);
    size_t bytes = sizeclass_table[class].bytes;
    char *slot = alloc_take_slot(self, kind, class, bytes);
    if (unlikely(slot == NULL))
        return alloc_object_slow(self, size, kind);
    if (!alloc_zeroed_on_refill(kind))
        alloc_zero_slot(slot, bytes);
    return pin_register(slot);
}
/* Leaf objects under 16 bytes share blocks. */
void *alloc_leaf(struct mutator *self, size_t size);
/* `alignment` a power of two, at most 1 MiB. */
void *alloc_aligned(struct mutator *self, size_t alignment, size_t size, enum kind kind);
/* See tern_realloc. */
void *alloc_resize(struct mutator *self, void *object, size_t size);

/* Called when an allocation fails, at depth 0 without locks; true: try once more. Set before threads run, or
 * at depth 0. */
typedef bool alloc_oom_function(size_t size, void *context);
alloc_oom_function *alloc_on_oom(alloc_oom_function *function, void *context);

/* Makes the thread's masks and tiny block go back: unused slots become free. Inside S1 of `self`, or it is
 * gone. */
void alloc_give_back(struct mutator *mutator);

#endif
