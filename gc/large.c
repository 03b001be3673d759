/* See large.h. Calls pagerun, account, gc/os/os_mem. */
#include "gc/large.h"

#include <errno.h>
#include <string.h>

#include "gc/account.h"
#include "gc/barrier.h"
#include "gc/fault.h"
#include "gc/heap.h"
#include "gc/os/os_mem.h"
#include "gc/pagerun.h"
#include "gc/sweep.h"
#include "gc/verify.h"

/*
 * From this size on an object does not begin where another one ends: a pointer to its first byte would keep that one,
 * too, as a pointer one past its end. The free page between them is for small objects. Smaller ones would lose more
 * by it than they gain.
 */
#define APART_BYTES MIB

/* Zeroed at a time, so that in cooperative mode a stop waits for no more than this. */
#define ZERO_PIECE (4 * MIB)

size_t large_bytes(size_t size) {
    if (size > heap.reserved)
        return SIZE_MAX;
    return align_up(size, PAGE_BYTES);
}

/* Makes the run one object that is scanned as nothing yet. */
static void make(page_index first, size_t pages) {
    for (size_t i = 1; i < pages; i++) {
        struct page *tail = heap_page(first + (page_index)i);
        tail->tail.back = (uint32_t)i;
        atomic_store_explicit(&tail->use, PAGE_TAIL, memory_order_release);
    }
    struct page *head = heap_page(first);
    head->large.pages = (uint32_t)pages;
    head->large.quarantined = 0;
    head->size_class = 0;
    /* Black while marking; and the epoch tells the walk after it what was allocated since. */
    atomic_store_explicit(&head->large.marked, barrier_is_on() && !fault_is(FAULT_WHITE_LARGE),
                          memory_order_relaxed);
    atomic_store_explicit(&head->claim, claim_word(heap_epoch(), CLAIM_SWEPT), memory_order_relaxed);
    atomic_store_explicit(&head->kind, KIND_LEAF, memory_order_relaxed);
    atomic_store_explicit(&head->flags, 0, memory_order_relaxed);
    atomic_store_explicit(&head->use, PAGE_LARGE, memory_order_release);
}

void large_free(page_index head) {
    size_t pages = heap_page(head)->large.pages;
    pagerun_give(head, pages);
}

static void zero(char *at, size_t bytes, struct mutator *self) {
    while (bytes > 0) {
        size_t piece = bytes < ZERO_PIECE ? bytes : ZERO_PIECE;
        memset(at, 0, piece);
        at += piece;
        bytes -= piece;
        if (stop_requested())
            mutator_park(self);
    }
}

void *large_alloc(struct mutator *self, size_t size, size_t alignment, enum kind kind) {
    size_t bytes = large_bytes(size);
    if (bytes == SIZE_MAX)
        return NULL;
    size_t pages = bytes >> PAGE_SHIFT;
    size_t extra = alignment > PAGE_BYTES ? (alignment >> PAGE_SHIFT) - 1 : bytes >= APART_BYTES;
    mutator_enter(self);
    /* The heap grows only when all that is dead was freed; a stop may come between two pieces. */
    while (!pagerun_has_resident(pages + extra) && sweep_walk_piece()) {
        mutator_leave(self);
        mutator_enter(self);
    }
    struct pagerun run = pagerun_take(pages + extra, account_growth());
    if (run.first == 0) {
        mutator_leave(self);
        return NULL;
    }
    page_index first = alignment > PAGE_BYTES
                           ? heap_index(align_up((uintptr_t)heap_address(run.first), alignment))
                           : run.first + (page_index)extra;
    if (first > run.first)
        pagerun_give(run.first, first - run.first);
    if (run.first + extra > first)
        pagerun_give(first + (page_index)pages, run.first + extra - first);
    make(first, pages);
    account_take(bytes);
    if (kind != KIND_LEAF)
        account_take_scannable(bytes);
    atomic_fetch_add_explicit(&self->large_objects, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&self->large_bytes, bytes, memory_order_relaxed);
    char *object = pin_register(heap_address(first));
    mutator_leave(self);

    if (!run.populated && os_mem_populate(object, bytes) != 0) {
        mutator_enter(self);
        account_give(bytes);
        atomic_fetch_sub_explicit(&self->large_objects, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&self->large_bytes, bytes, memory_order_relaxed);
        /* A marker may be looking at the record: then it stays, a leaf that the next sweep frees. So it does
         * when the walk may be about to look. */
        if (!barrier_is_on() &&
            claim_is_of(atomic_load_explicit(&heap_page(first)->claim, memory_order_relaxed), heap_epoch())) {
            verify_taken_back((uintptr_t)object);
            large_free(first);
        }
        mutator_leave(self);
        errno = ENOMEM;
        return NULL;
    }
    if (!run.zeroed)
        zero(object, bytes, self);
    atomic_store_explicit(&heap_page(first)->kind, (uint8_t)kind, memory_order_release);
    return pin_register(object);
}
