/* See sweep.h. Calls central, span, large, pagerun, scavenge (policy), gc/os. */
#include "gc/sweep.h"

#include "gc/account.h"
#include "gc/central.h"
#include "gc/fault.h"
#include "gc/heap.h"
#include "gc/large.h"
#include "gc/mutator.h"
#include "gc/os/os_futex.h"
#include "gc/os/os_thread.h"
#include "gc/os/os_time.h"
#include "gc/pagerun.h"
#include "gc/quarantine.h"
#include "gc/scavenge.h"
#include "gc/settings.h"
#include "gc/span.h"

/* Sweeping and madvise call nothing deep. */
#define SWEEPER_STACK_BYTES (64 * KIB)

static struct {
    pthread_t thread;
    bool started;
    _Atomic uint32_t turn;    /* futex: work, or the end; release */
    _Atomic uint32_t allowed; /* 1: may sweep; seq_cst with active */
    _Atomic uint32_t active;  /* 1: between looking at allowed and being done with a piece; seq_cst */
    _Atomic uint32_t stopping;
    _Atomic int64_t cpu_ns;
    uint64_t start_heap,
        start_pages; /* heap and page bytes when the last cycle started; under active/allowed */
} sweeper;

static void sweep_large(page_index i, struct sweep_walk *walk) {
    struct page *page = heap_page(i);
    size_t pages = page->large.pages;
    if (page->large.quarantined) {
        quarantine_large_check(i);
    } else if (atomic_load_explicit(&page->large.marked, memory_order_relaxed) != 0) {
        atomic_store_explicit(&page->large.marked, 0, memory_order_relaxed);
        atomic_store_explicit(&page->flags, 0, memory_order_relaxed);
        if (fault_is(FAULT_LARGE_TAIL_FREED) && pages > 1)
            pagerun_give(i + (page_index)pages - 1, 1);
        return;
    } else if (heap.quarantine != NULL) {
        quarantine_large(i);
        return;
    }
    walk->freed_bytes += (uint64_t)pages << PAGE_SHIFT;
    large_free(i);
}

static void sweep_small(page_index i, struct sweep_walk *walk) {
    struct page *page = heap_page(i);
    if (claim_state_of(atomic_load_explicit(&page->claim, memory_order_acquire)) == CLAIM_OWNED)
        return;
    bool live = (atomic_load_explicit(&page->flags, memory_order_relaxed) & PAGE_LIVE) != 0;
    /* Under gcverify even dead spans are swept slot by slot: what they held is poisoned and quarantined. */
    if (live || heap.quarantine != NULL) {
        central_list_unswept(i);
        walk->unswept++;
        return;
    }
    uint64_t pages = sizeclass_table[page->size_class].pages;
    walk->freed_bytes += pages << PAGE_SHIFT;
    span_publish(i, heap_epoch(), CLAIM_FREEING);
    span_unmake(i);
    pagerun_give(i, pages);
}

static void sweep_owned(void) {
    for (struct mutator *m = mutator_list; m != NULL; m = m->next)
        for (unsigned k = 0; k < KIND_COUNT; k++)
            for (unsigned c = 1; c < SIZECLASS_COUNT; c++) {
                const struct open_span *span = &m->spans[k][c];
                if (span->index != 0)
                    central_sweep_owned(span->index, span->group,
                                        atomic_load_explicit(&m->masks[k][c].bits, memory_order_relaxed));
            }
}

static size_t length(page_index i) {
    const struct page *page = heap_page(i);
    switch (atomic_load_explicit(&page->use, memory_order_relaxed)) {
    case PAGE_FREE:
        return page->run.pages;
    case PAGE_SMALL:
        return sizeclass_table[page->size_class].pages;
    case PAGE_LARGE:
        return page->large.pages;
    default:
        return 1;
    }
}

struct sweep_walk sweep_walk(void) {
    struct sweep_walk walk = {0, 0};
    page_index end = (page_index)(atomic_load_explicit(&heap.grown, memory_order_relaxed) >> PAGE_SHIFT);
    central_reset();
    for (page_index i = 1, next; i < end; i = next) {
        struct page *page = heap_page(i);
        next = i + (page_index)length(i);
        /* Freeing merges runs: the free run that follows is passed over while its first record still says its
         * length. */
        if (next < end && atomic_load_explicit(&heap_page(next)->use, memory_order_relaxed) == PAGE_FREE)
            next += heap_page(next)->run.pages;
        switch (atomic_load_explicit(&page->use, memory_order_relaxed)) {
        case PAGE_SMALL:
            sweep_small(i, &walk);
            break;
        case PAGE_LARGE:
            sweep_large(i, &walk);
            break;
        default:
            break;
        }
    }
    sweep_owned();
    return walk;
}

/* One piece of background work; false when there is none. */
static bool work(void) {
    bool more = false;
    atomic_store_explicit(&sweeper.active, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&sweeper.allowed, memory_order_seq_cst) != 0)
        more = central_sweep_one();
    atomic_store_explicit(&sweeper.active, 0, memory_order_seq_cst);
    return more;
}

/* What the policy looks at. */
static struct scavenge_in scavenge_now(void) {
    return (struct scavenge_in){
        .heap_goal = atomic_load_explicit(&account.goal, memory_order_relaxed),
        .start_heap_bytes = sweeper.start_heap,
        .start_page_bytes = sweeper.start_pages,
        .heap_in_use = pagerun_used_bytes(),
        .heap_free_resident = pagerun_free_bytes(),
        .total_counted = account_total(),
        .limit = atomic_load_explicit(&settings.memory_limit, memory_order_relaxed),
    };
}

bool sweep_has_excess(void) {
    struct scavenge_in in = scavenge_now();
    return scavenge_excess(&in) != 0;
}

static void scavenge(void) {
    atomic_store_explicit(&sweeper.active, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&sweeper.allowed, memory_order_seq_cst) != 0) {
        struct scavenge_in in = scavenge_now();
        uint64_t excess = scavenge_excess(&in);
        if (excess != 0)
            pagerun_release(excess, scavenge_may_split(&in, 0));
    }
    atomic_store_explicit(&sweeper.active, 0, memory_order_seq_cst);
}

static void *run(void *argument) {
    (void)argument;
    uint32_t turn = 0;
    for (;;) {
        os_futex_wait(&sweeper.turn, turn, -1);
        turn = atomic_load_explicit(&sweeper.turn, memory_order_acquire);
        if (atomic_load_explicit(&sweeper.stopping, memory_order_acquire) != 0)
            return NULL;
        while (work()) {
        }
        scavenge();
        atomic_store_explicit(&sweeper.cpu_ns, os_time_thread_cpu_ns(), memory_order_relaxed);
    }
}

void sweep_prepare(void) {
    if (sweeper.started)
        return;
    atomic_store_explicit(&sweeper.stopping, 0, memory_order_relaxed);
    sweeper.started = os_thread_start(&sweeper.thread, "tern-sweep", SWEEPER_STACK_BYTES, run, NULL) == 0;
}

void sweep_begin(void) {
    if (!sweeper.started)
        return;
    atomic_store_explicit(&sweeper.allowed, 1, memory_order_seq_cst);
    atomic_fetch_add_explicit(&sweeper.turn, 1, memory_order_release);
    os_futex_wake(&sweeper.turn, 1);
}

void sweep_finish(void) {
    atomic_store_explicit(&sweeper.allowed, 0, memory_order_seq_cst);
    /* The piece that it is at is one span or one return of memory. */
    while (atomic_load_explicit(&sweeper.active, memory_order_seq_cst) != 0)
        os_cpu_relax();
    central_sweep_finish();
    uint64_t heap_now = account_heap();
    sweeper.start_heap = heap_now > 0 ? heap_now : 1; /* 0 would say that there has been no cycle */
    sweeper.start_pages = pagerun_used_bytes();
}

void sweep_shutdown(void) {
    if (!sweeper.started)
        return;
    sweep_finish();
    atomic_store_explicit(&sweeper.stopping, 1, memory_order_release);
    atomic_fetch_add_explicit(&sweeper.turn, 1, memory_order_release);
    os_futex_wake(&sweeper.turn, 1);
    pthread_join(sweeper.thread, NULL);
    sweeper.started = false;
}

int64_t sweep_background_cpu_ns(void) {
    return atomic_load_explicit(&sweeper.cpu_ns, memory_order_relaxed);
}
