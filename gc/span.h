/*
 * One span: a run of pages that holds slots of one size class and kind. Owns the transitions of its bitmaps;
 * the caller holds its claim (page.h) for every call below but span_make.
 */
#ifndef GC_SPAN_H
#define GC_SPAN_H

#include "gc/heap.h"
#include "gc/sizeclass.h"

/*
 * A page of tiny blocks gives its last group of slots to a map of two bytes a block: bit i says that an
 * object starts at byte i. So realloc knows where a tiny object ends. 448 blocks of 512 remain.
 */
#define SPAN_TINY_SLOTS 448

/* Makes a span of the run at `first`, all slots free, owned by the caller. -1 when bitmaps cannot be had. */
int span_make(page_index first, unsigned size_class, enum kind kind);
/* Undoes it: the pages are nobody's again. All slots free. */
void span_unmake(page_index first);

/* Claims: each returns false when another has it. */
bool span_claim_unswept(page_index head, uint32_t epoch); /* SWEPT of the former epoch -> SWEEPING */
bool span_claim(page_index head, uint32_t epoch, enum claim_state from, enum claim_state to);
/* Ends a claim, publishing with release what was done under it. */
void span_publish(page_index head, uint32_t epoch, enum claim_state state);

/* The slots of a group that may be handed out. */
uint64_t span_free_slots(page_index head, unsigned group);
/*
 * The free slots of a group become allocated and belong to the caller's mask. 0: none is free. While marking they
 * become black: they keep their sealed mark, and the span counts as live.
 */
uint64_t span_take_group(page_index head, unsigned group, bool marking);
/* The slots `bits` of a group, unused, become free again. */
void span_give_back(page_index head, unsigned group, uint64_t bits);

struct span_count {
    uint32_t free;        /* slots that may be handed out */
    uint32_t quarantined; /* freed by this sweep and held back for a cycle (gcverify) */
};
/* allocated &= marked; free slots are sealed again. */
struct span_count span_sweep(page_index head);

static inline unsigned span_slots(page_index head) {
    return atomic_load_explicit(&heap_page(head)->slot_count, memory_order_acquire);
}
static inline char *span_slot(page_index head, unsigned slot) {
    return heap_address(head) + (size_t)slot * heap_page(head)->slot_bytes;
}
/* The map entry of the tiny block that starts at `block`. */
static inline _Atomic uint16_t *span_tiny_starts(page_index head, const char *block) {
    _Atomic uint16_t *map = (_Atomic uint16_t *)(void *)(heap_address(head) + SPAN_TINY_SLOTS * 16);
    return &map[(block - heap_address(head)) / 16];
}

/* Bits beyond the last slot are clear, free slots are sealed (outside marking). Level-2 assertion and tests.
 */
void span_check(page_index head, bool marking);

#endif
