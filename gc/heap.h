/*
 * The heap's address range and the arrays beside it. Owns the reservation, the page records and the bitmaps;
 * knows what an address is. It gives no page to anybody: that is pagerun's business.
 */
#ifndef GC_HEAP_H
#define GC_HEAP_H

#include "gc/base.h"
#include "gc/page.h"

struct heap {
    uintptr_t base;  /* read-only after heap_init */
    size_t reserved; /* bytes; read-only after heap_init */
    _Atomic size_t
        grown; /* bytes from base that have records; grows only, release after the records are there */
    struct page *pages;          /* one record a page */
    _Atomic uint64_t *allocated; /* PAGE_ALLOCATED_WORDS a page; by the span's claimant, relaxed */
    _Atomic uint32_t
        *marks_ext;          /* PAGE_MARK_EXT_WORDS a page, for spans of more than PAGE_MARKS_INLINE slots */
    uint64_t *quarantine;    /* gcverify only: freed last cycle, not to be given out; as `allocated` */
    _Atomic uint32_t epoch;  /* number of the last finished marking; changes with the world stopped */
    _Atomic size_t metadata; /* bytes of the arrays that are resident */
};

extern struct heap heap;

/* Reserves the range, halved until it fits under the address-space limit. 0, or -1 with errno. */
int heap_init(bool with_quarantine);
void heap_destroy(void);

/* Makes the records of the pages up to `grown` bytes usable. Under the page-run lock. 0, or -1 with errno
 * ENOMEM. */
int heap_grow_records(size_t grown);
/*
 * Makes the allocated bits, and with `marks_ext` the parallel mark words, of the 2 MiB that page `index` is
 * in resident. Large objects need neither. 0 or -1. Inside S1.
 */
int heap_populate_bits(page_index index, bool marks_ext);

static inline bool heap_contains(uintptr_t word) {
    return word - heap.base < atomic_load_explicit(&heap.grown, memory_order_relaxed);
}
static inline page_index heap_index(uintptr_t address) {
    return (page_index)((address - heap.base) >> PAGE_SHIFT);
}
static inline struct page *heap_page(page_index index) {
    return &heap.pages[index];
}
static inline page_index heap_index_of(const struct page *page) {
    return (page_index)(page - heap.pages);
}
static inline char *heap_address(page_index index) {
    return (char *)heap.base + ((size_t)index << PAGE_SHIFT);
}
static inline _Atomic uint64_t *heap_allocated(page_index index) {
    return heap.allocated + (size_t)index * PAGE_ALLOCATED_WORDS;
}
static inline uint64_t *heap_quarantine(page_index index) {
    return heap.quarantine + (size_t)index * PAGE_ALLOCATED_WORDS;
}
/* Mark words of a span of `slots` slots. */
static inline _Atomic uint32_t *heap_marks(struct page *page, unsigned slots) {
    if (likely(slots <= PAGE_MARKS_INLINE))
        return page->marks;
    return heap.marks_ext + (size_t)heap_index_of(page) * PAGE_MARK_EXT_WORDS;
}
static inline uint32_t heap_epoch(void) {
    return atomic_load_explicit(&heap.epoch, memory_order_acquire);
}

/* What an address lies in. */
struct heap_place {
    struct page *head; /* NULL: no object's place */
    page_index index;  /* of the head */
    uint32_t slot;     /* 0 for a large object */
    char *base;        /* first byte of the slot */
    size_t bytes;      /* of the slot */
};
/* Looks up any word; says nothing about whether the slot is allocated. */
struct heap_place heap_find(uintptr_t word);
/* Whether the slot at `place` is allocated (handed out or in an open mask). Racy unless the world is stopped.
 */
bool heap_place_allocated(const struct heap_place *place);
bool heap_place_marked(const struct heap_place *place);

/* 64 mark bits of a group, from two 32-bit words. Not while marking in parallel. */
uint64_t heap_marks_group(const _Atomic uint32_t *marks, unsigned slots, unsigned group);
void heap_marks_group_set(_Atomic uint32_t *marks, unsigned slots, unsigned group, uint64_t bits);
/* Sets bits beside others that do so too. */
void heap_marks_group_or(_Atomic uint32_t *marks, unsigned slots, unsigned group, uint64_t bits);

#endif
