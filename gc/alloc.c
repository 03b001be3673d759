/* See alloc.h. Calls central, large, cycle, account. */
#include "gc/alloc.h"

#include <errno.h>
#include <string.h>

#include "gc/account.h"
#include "gc/barrier.h"
#include "gc/central.h"
#include "gc/cycle.h"
#include "gc/heap.h"
#include "gc/large.h"
#include "gc/pace.h"
#include "gc/pagerun.h"
#include "gc/pressure.h"
#include "gc/span.h"
#include "gc/sweep.h"
#include "gc/type.h"

#define TINY_BYTES 16

static alloc_oom_function *oom_function;
static void *oom_context;

alloc_oom_function *alloc_on_oom(alloc_oom_function *function, void *context) {
    alloc_oom_function *before = oom_function;
    oom_function = function;
    oom_context = context;
    return before;
}

/*
 * What is left to do when an attempt found no memory: an emergency collection first, then the program's
 * handler, each once. false: give up.
 */
struct despair {
    bool collected, asked;
};

static bool try_again(struct mutator *self, struct despair *despair, size_t size) {
    if (!despair->collected) {
        despair->collected = true;
        cycle_collect(self, CYCLE_EMERGENCY);
        return true;
    }
    if (!despair->asked && oom_function != NULL) {
        despair->asked = true;
        if (oom_function(size, oom_context)) {
            cycle_collect(self, CYCLE_EMERGENCY);
            return true;
        }
    }
    errno = ENOMEM;
    return false;
}

static void account_take_kind(uint64_t bytes, enum kind kind) {
    account_take(bytes);
    if (kind != KIND_LEAF && kind != KIND_TINY)
        account_take_scannable(bytes);
}

/* Pieces of the walk that a refill does before it takes pages that belong to nobody. */
#define HELP_PIECES_MOST 2

/* Whether fresh pages may be taken: the heap grows only when all that is dead was freed. Inside S1. */
static bool may_take_pages(size_t pages, unsigned helped) {
    return (helped >= HELP_PIECES_MOST && pagerun_has_resident(pages)) || !sweep_walk_piece();
}

/* Refills the mask until a slot can be taken from it. */
static __attribute__((noinline)) char *slot_slow(struct mutator *self, enum kind kind, unsigned class) {
    size_t bytes = sizeclass_table[class].bytes, pages = sizeclass_table[class].pages;
    bool waited = false, fresh = false;
    unsigned helped = 0;
    struct despair despair = {false, false};
    for (;;) {
        enum cycle_reason reason;
        unsigned slots = 0;
        cycle_deliver();
        pressure_check(self, central_refill_bytes(class));
        /* Callbacks of a cycle ran on this thread: they may have opened a mask. */
        char *opened = alloc_take_slot(self, kind, class, bytes);
        if (opened != NULL)
            return opened;
        mutator_enter(self);
        if (!waited && cycle_wanted(self, central_refill_bytes(class), &reason)) {
            mutator_leave(self);
            waited = true;
            cycle_collect(self, reason);
            continue;
        }
        struct pagerun_growth growth = account_growth();
        bool all = fresh, filled = central_refill(self, kind, class, all ? &growth : NULL, &slots);
        if (filled)
            account_take_kind((uint64_t)slots * bytes, kind);
        else
            fresh = !all && may_take_pages(pages, helped++);
        mutator_leave(self);
        if (filled)
            pace_charge(self, (uint64_t)slots * bytes);
        else if (all && !try_again(self, &despair, bytes))
            return NULL;
    }
}

static void *alloc_large(struct mutator *self, size_t size, size_t alignment, enum kind kind) {
    struct despair despair = {false, false};
    size_t bytes = large_bytes(size);
    bool waited = false, charged = false;
    for (;;) {
        enum cycle_reason reason = CYCLE_HEAP;
        cycle_deliver();
        if (bytes != SIZE_MAX)
            pressure_check(self, bytes);
        if (!waited && bytes != SIZE_MAX) {
            mutator_enter(self);
            bool wanted = cycle_wanted(self, bytes, &reason);
            mutator_leave(self);
            waited = true;
            if (wanted)
                cycle_collect(self, reason);
        }
        if (bytes != SIZE_MAX && !charged)
            pace_charge(self, bytes);
        charged = true;
        void *object = large_alloc(self, size, alignment, kind);
        if (object != NULL)
            return object;
        /* No collection makes room for what exceeds the address range. */
        if (bytes == SIZE_MAX)
            despair.collected = true;
        if (!try_again(self, &despair, size))
            return NULL;
    }
}

void *alloc_object_slow(struct mutator *self, size_t size, enum kind kind) {
    if (size > SIZECLASS_MAX_BYTES)
        return alloc_large(self, size, PAGE_BYTES, kind);
    unsigned class = sizeclass_of(size);
    char *slot = slot_slow(self, kind, class);
    if (slot == NULL)
        return NULL;
    if (!alloc_zeroed_on_refill(kind))
        alloc_zero_slot(slot, sizeclass_table[class].bytes);
    return pin_register(slot);
}

/* Opens a new tiny block. S2: its address is formed, and it is the open block, before its first byte is given
 * away. */
static __attribute__((noinline)) char *tiny_open(struct mutator *self) {
    char *block = alloc_take_slot(self, KIND_TINY, SIZECLASS_16_BYTES, TINY_BYTES);
    if (block == NULL) {
        block = slot_slow(self, KIND_TINY, SIZECLASS_16_BYTES);
        if (block == NULL)
            return NULL;
    }
    memset(block, 0, TINY_BYTES);
    page_index head = heap_index((uintptr_t)block);
    atomic_store_explicit(span_tiny_starts(head, block), 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&self->tiny_blocks, 1, memory_order_relaxed);
    /* The old block's bytes are all given away: until the next line it is kept by pointers only, as any
     * object is. */
    atomic_store_explicit(&self->tiny_offset, 0, memory_order_relaxed);
    self->tiny_base = pin_register(block);
    return block;
}

void *alloc_leaf(struct mutator *self, size_t size) {
    if (size >= TINY_BYTES)
        return alloc_object(self, size, KIND_LEAF);
    if (size == 0)
        size = 1;
    uint32_t align = size % 8 == 0 ? 8 : size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1;
    uint32_t offset =
        (uint32_t)align_up(atomic_load_explicit(&self->tiny_offset, memory_order_relaxed), align);
    char *block = self->tiny_base;
    if (block == NULL || offset + size > TINY_BYTES) {
        block = tiny_open(self);
        if (block == NULL)
            return NULL;
        offset = 0;
    }
    char *object = pin_register(block + offset);
    _Atomic uint16_t *starts = span_tiny_starts(heap_index((uintptr_t)block), block);
    /* Only this thread writes it; release: before the program writes the bytes (move_tiny). */
    atomic_store_explicit(starts,
                          (uint16_t)(atomic_load_explicit(starts, memory_order_relaxed) | 1u << offset),
                          memory_order_release);
    atomic_store_explicit(&self->tiny_offset, offset + (uint32_t)size, memory_order_relaxed);
    atomic_store_explicit(&self->tiny_objects,
                          atomic_load_explicit(&self->tiny_objects, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    return pin_register(object);
}

void *alloc_aligned(struct mutator *self, size_t alignment, size_t size, enum kind kind) {
    if (size == 0)
        size = 1;
    if (alignment <= 8)
        return alloc_object(self, size < 16 ? 16 : size, kind);
    if (alignment <= PAGE_BYTES && size <= SIZECLASS_MAX_BYTES) {
        /* Spans begin at a page; slots are aligned to the largest power of two that divides their size. */
        for (unsigned class = sizeclass_of(size); class < SIZECLASS_COUNT; class ++)
            if (sizeclass_table[class].bytes % alignment == 0)
                return alloc_object(self, sizeclass_table[class].bytes, kind);
    }
    return alloc_large(self, size, alignment < PAGE_BYTES ? PAGE_BYTES : alignment, kind);
}

void alloc_give_back(struct mutator *mutator) {
    uint64_t bytes = 0;
    for (unsigned k = 0; k < KIND_COUNT; k++)
        for (unsigned c = 1; c < SIZECLASS_COUNT; c++)
            bytes += central_give_back(mutator, (enum kind)k, c);
    account_give(bytes);
    mutator->tiny_base = NULL;
    atomic_store_explicit(&mutator->tiny_offset, 0, memory_order_relaxed);
}

/* Bytes of the tiny object at `object`, up to the next object of its block or the block's end. */
static size_t tiny_size(const struct heap_place *place, const char *object) {
    /* A read-modify-write, so that no read of the object's bytes moves past it. */
    unsigned starts =
        atomic_fetch_or_explicit(span_tiny_starts(place->index, place->base), 0, memory_order_acq_rel);
    unsigned offset = (unsigned)(object - place->base);
    unsigned after = starts >> offset >> 1;
    if ((starts >> offset & 1) == 0)
        fatal_misuse("tern_realloc of a pointer that no allocation returned", (uintptr_t)object,
                     "Pass the pointer that the allocation returned.");
    return after == 0 ? TINY_BYTES - offset : (unsigned)__builtin_ctz(after) + 1;
}

/*
 * The block's owner may hand out the bytes behind the object meanwhile, to `moved` too: then they were copied
 * as if they were the object's. It says so in the map before it gives them away, so a second look tells which
 * to take back.
 */
GC_NO_SANITIZE static void move_tiny(const struct heap_place *place, const char *object, char *moved,
                                     size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        ((volatile char *)moved)[i] = ((const volatile char *)object)[i];
    size_t own = tiny_size(place, object);
    if (own < bytes)
        memset(moved + own, 0, bytes - own);
    __asm__ volatile("" : : "r"(object) : "memory");
}

/* Pointers that the program no longer counts as the object's are overwritten, so they are recorded. */
static void clear_tail(struct mutator *self, char *object, size_t from, size_t to, enum kind kind) {
    size_t word = sizeof(uintptr_t);
    if (kind == KIND_LEAF) {
        memset(object + from, 0, to - from);
        return;
    }
    if (from % word != 0) {
        size_t at = align_down(from, word);
        uintptr_t part = *(uintptr_t *)(void *)(object + at);
        if (barrier_is_on())
            barrier_record(self, part);
        memset(object + from, 0, at + word - from);
        __asm__ volatile("" : : "r"(part) : "memory");
    }
    size_t first = align_up(from, word);
    barrier_store_range(self, (uintptr_t *)(void *)(object + first), NULL, (to - first) / word, false);
}

void *alloc_resize(struct mutator *self, void *object, size_t size) {
    mutator_enter(self);
    struct heap_place place = heap_find((uintptr_t)object);
    bool known = heap_place_allocated(&place);
    enum kind kind = known ? atomic_load_explicit(&place.head->kind, memory_order_relaxed) : KIND_LEAF;
    mutator_leave(self);
    if (!known || (kind != KIND_TINY && place.base != object))
        fatal_misuse("tern_realloc of a pointer that no allocation returned", (uintptr_t)object,
                     "Pass the pointer that the allocation returned; memory of malloc is for realloc.");
    if (size == 0)
        size = 1;
    size_t type_bytes = kind == KIND_TYPED || kind == KIND_TRACED ? TYPE_WORD_BYTES : 0;
    size_t usable = kind == KIND_TINY ? tiny_size(&place, object) : place.bytes - type_bytes;
    /* In place where the slot has room, unless a large object would keep more than three quarters of itself
     * idle. */
    if (kind != KIND_TINY && size <= usable && (usable <= SIZECLASS_MAX_BYTES || size > usable / 4)) {
        clear_tail(self, object, size, usable, kind);
        return object;
    }
    size_t wanted = size > SIZE_MAX - type_bytes ? SIZE_MAX : size + type_bytes;
    void *moved = kind == KIND_TINY ? alloc_leaf(self, wanted) : alloc_object(self, wanted, kind);
    if (moved == NULL)
        return NULL;
    if (kind == KIND_TINY) {
        move_tiny(&place, object, moved, size < usable ? size : usable);
        return moved;
    }
    memcpy(moved, object, size < usable ? size : usable);
    if (type_bytes != 0) {
        struct heap_place to = heap_find((uintptr_t)moved);
        *type_word(to.base, to.bytes) = *type_word(place.base, place.bytes);
    }
    __asm__ volatile("" : : "r"(object) : "memory");
    return moved;
}
