/* See span.h. Calls heap and quarantine. */
#include "gc/span.h"

#include "gc/fault.h"
#include "gc/quarantine.h"

int span_make(page_index first, unsigned size_class, enum kind kind) {
    const struct sizeclass *class = &sizeclass_table[size_class];
    struct page *page = heap_page(first);
    unsigned slots = kind == KIND_TINY ? SPAN_TINY_SLOTS : class->slots;
    if (heap_populate_bits(first, slots > PAGE_MARKS_INLINE) != 0)
        return -1;
    page->magic = class->magic;
    page->slot_bytes = (uint16_t) class->bytes;
    page->size_class = (uint8_t)size_class;
    page->next = 0;
    atomic_store_explicit(&page->kind, (uint8_t)kind, memory_order_relaxed);
    atomic_store_explicit(&page->flags, 0, memory_order_relaxed);
    _Atomic uint32_t *marks = heap_marks(page, slots);
    _Atomic uint64_t *allocated = heap_allocated(first);
    for (unsigned g = 0; g < page_groups(slots); g++) {
        atomic_store_explicit(&allocated[g], 0, memory_order_relaxed);
        heap_marks_group_set(marks, slots, g, page_group_valid(slots, g));
        if (heap.quarantine != NULL)
            heap_quarantine(first)[g] = 0;
    }
    for (unsigned i = 1; i < class->pages; i++) {
        struct page *tail = heap_page(first + i);
        tail->tail.back = i;
        atomic_store_explicit(&tail->use, PAGE_TAIL, memory_order_release);
    }
    atomic_store_explicit(&page->claim, claim_word(heap_epoch(), CLAIM_OWNED), memory_order_relaxed);
    atomic_store_explicit(&page->use, PAGE_SMALL, memory_order_release);
    atomic_store_explicit(&page->slot_count, (uint16_t)slots, memory_order_release);
    return 0;
}

void span_unmake(page_index first) {
    struct page *page = heap_page(first);
    unsigned pages = sizeclass_table[page->size_class].pages;
    atomic_store_explicit(&page->slot_count, 0, memory_order_release);
    for (unsigned i = 0; i < pages; i++)
        atomic_store_explicit(&heap_page(first + i)->use, PAGE_NONE, memory_order_release);
}

bool span_claim(page_index head, uint32_t epoch, enum claim_state from, enum claim_state to) {
    uint32_t expected = claim_word(epoch, from);
    return atomic_compare_exchange_strong_explicit(&heap_page(head)->claim, &expected, claim_word(epoch, to),
                                                   memory_order_acq_rel, memory_order_relaxed);
}

bool span_claim_unswept(page_index head, uint32_t epoch) {
    uint32_t expected = claim_word(epoch - 1, CLAIM_SWEPT);
    return atomic_compare_exchange_strong_explicit(&heap_page(head)->claim, &expected,
                                                   claim_word(epoch, CLAIM_SWEEPING), memory_order_acq_rel,
                                                   memory_order_relaxed);
}

void span_publish(page_index head, uint32_t epoch, enum claim_state state) {
    atomic_store_explicit(&heap_page(head)->claim, claim_word(epoch, state), memory_order_release);
}

uint64_t span_free_slots(page_index head, unsigned group) {
    uint64_t taken = atomic_load_explicit(&heap_allocated(head)[group], memory_order_relaxed);
    if (heap.quarantine != NULL)
        taken |= heap_quarantine(head)[group];
    return ~taken & page_group_valid(span_slots(head), group);
}

uint64_t span_take_group(page_index head, unsigned group, bool marking) {
    unsigned slots = span_slots(head);
    uint64_t bits = span_free_slots(head, group);
    if (bits == 0)
        return 0;
    _Atomic uint64_t *allocated = &heap_allocated(head)[group];
    _Atomic uint32_t *marks = heap_marks(heap_page(head), slots);
    uint64_t marked = heap_marks_group(marks, slots, group);
    gc_assert((marked & bits) == bits);
    if (marking && !fault_is(FAULT_WHITE_ALLOCATION))
        atomic_fetch_or_explicit(&heap_page(head)->flags, PAGE_LIVE, memory_order_relaxed);
    else
        heap_marks_group_set(marks, slots, group, marked & ~bits);
    atomic_store_explicit(allocated, atomic_load_explicit(allocated, memory_order_relaxed) | bits,
                          memory_order_release);
    return bits;
}

void span_give_back(page_index head, unsigned group, uint64_t bits) {
    unsigned slots = span_slots(head);
    _Atomic uint64_t *allocated = &heap_allocated(head)[group];
    uint64_t taken = atomic_load_explicit(allocated, memory_order_relaxed);
    gc_assert((taken & bits) == bits);
    /* Markers may set bits of the same words meanwhile. */
    heap_marks_group_or(heap_marks(heap_page(head), slots), slots, group, bits);
    atomic_store_explicit(allocated, taken & ~bits, memory_order_relaxed);
}

struct span_count span_sweep(page_index head) {
    struct page *page = heap_page(head);
    unsigned slots = span_slots(head);
    _Atomic uint64_t *allocated = heap_allocated(head);
    _Atomic uint32_t *marks = heap_marks(page, slots);
    struct span_count count = {0, 0};
    for (unsigned g = 0; g < page_groups(slots); g++) {
        uint64_t taken = atomic_load_explicit(&allocated[g], memory_order_relaxed);
        uint64_t kept = taken & heap_marks_group(marks, slots, g);
        uint64_t valid = page_group_valid(slots, g);
        uint64_t free = ~kept & valid;
        atomic_store_explicit(&allocated[g], kept, memory_order_relaxed);
        heap_marks_group_set(marks, slots, g, free);
        if (heap.quarantine != NULL) {
            quarantine_group(head, g, taken & ~kept);
            uint64_t held = heap_quarantine(head)[g];
            count.quarantined += (uint32_t)__builtin_popcountll(held);
            free &= ~held;
        }
        count.free += (uint32_t)__builtin_popcountll(free);
    }
    atomic_store_explicit(&page->flags, 0, memory_order_relaxed);
    return count;
}

void span_check(page_index head, bool marking) {
    unsigned slots = span_slots(head);
    struct page *page = heap_page(head);
    gc_check(slots != 0 && page->size_class != 0, "a span without slots");
    for (unsigned g = 0; g < page_groups(slots); g++) {
        uint64_t taken = atomic_load_explicit(&heap_allocated(head)[g], memory_order_relaxed);
        uint64_t marked = heap_marks_group(heap_marks(page, slots), slots, g);
        uint64_t valid = page_group_valid(slots, g);
        gc_check((taken & ~valid) == 0, "allocated bits beyond the last slot");
        gc_check((~taken & valid & ~marked) == 0, "a free slot's mark is not sealed");
        gc_check(marking || (taken & marked) == 0 ||
                     !claim_is_of(atomic_load_explicit(&page->claim, memory_order_relaxed), heap_epoch()),
                 "a swept span has marks");
    }
}
