/* See sweep.h. Calls central, span, large, pagerun, scavenge (policy), gc/os. */
#include "gc/sweep.h"

#include "gc/account.h"
#include "gc/central.h"
#include "gc/fault.h"
#include "gc/heap.h"
#include "gc/large.h"
#include "gc/mutator.h"
#include "gc/os/os_futex.h"
#include "gc/os/os_log.h"
#include "gc/os/os_time.h"
#include "gc/pagerun.h"
#include "gc/quarantine.h"
#include "gc/report.h"
#include "gc/scavenge.h"
#include "gc/settings.h"
#include "gc/sizeclass.h"
#include "gc/span.h"

/* Page records walked at a time: 8 KiB of them, about 10 us. */
#define PIECE_PAGES 128
/* Unswept spans that are worth a turn of the background thread (5 us): fewer are swept when they are needed. */
#define BACKGROUND_SPANS 64
/* A heap of so many pages (64 MiB) is walked by who ran the cycle: in about 100 us. */
#define WALK_NOW_PAGES 8192
/* The most that was in use at the end of a cycle is forgotten by a 32nd with each further one. */
#define RECENT_SHARE 32
/* Before sweep_open there is no piece to take. */
#define NOT_OPEN (UINT32_MAX / 2)

static struct {
    _Atomic uint32_t next;    /* page record where the next piece begins; release by sweep_open */
    page_index end;           /* of the walk; in the stop */
    _Atomic uint32_t walkers; /* inside a piece; acq_rel: who reads 0 sees what they did */
    _Atomic uint64_t listed;  /* spans; relaxed */
    _Atomic bool finished;    /* everything is swept; relaxed */
} walk = {.finished = true};

static struct {
    _Atomic uint32_t allowed;        /* 1: the background may sweep; seq_cst with active */
    _Atomic uint32_t active;         /* 1: between looking at allowed and being done with a piece; seq_cst */
    _Atomic int64_t cpu_ns;          /* of the background; relaxed */
    _Atomic uint32_t held;           /* 1: no memory is to be returned; seq_cst with returning */
    _Atomic uint32_t returning;      /* 1: between looking at held and having returned a piece; seq_cst */
    uint64_t burst, returned_before; /* bytes returned since the last line; by the background */
    /* When the next piece may be returned; INT64_MAX: none is to be. relaxed. */
    _Atomic int64_t rest_until_ns;
    _Atomic uint64_t start_heap,
        start_pages; /* heap and page bytes when everything was last swept; these four by who holds the cycle lock */
    /* Page bytes at the end of cycles, the most of late; taken while the last one marked. */
    _Atomic uint64_t recent_pages, runway;
} sweeper = {.rest_until_ns = INT64_MAX};

/* Nobody else has the object: it is of the former epoch, and the piece is this thread's. */
static void sweep_large(page_index i, uint32_t epoch) {
    struct page *page = heap_page(i);
    if (page->large.quarantined) {
        quarantine_large_check(i);
    } else if (atomic_load_explicit(&page->large.marked, memory_order_relaxed) != 0) {
        size_t pages = page->large.pages;
        atomic_store_explicit(&page->large.marked, 0, memory_order_relaxed);
        atomic_store_explicit(&page->flags, 0, memory_order_relaxed);
        atomic_store_explicit(&page->claim, claim_word(epoch, CLAIM_SWEPT), memory_order_release);
        if (fault_is(FAULT_LARGE_TAIL_FREED) && pages > 1)
            pagerun_give(i + (page_index)pages - 1, 1);
        return;
    } else if (heap.quarantine != NULL) {
        quarantine_large(i);
        return;
    }
    large_free(i);
}

/* Spans of one class and kind, linked, that wait to be listed together: a lock for each would cost more. */
struct chain {
    page_index first, last;
};

static void flush(struct chain *chain) {
    if (chain->first != 0)
        central_list_unswept(chain->first, chain->last);
    chain->first = chain->last = 0;
}

static void add(struct chain *chain, page_index i) {
    struct page *page = heap_page(i), *first = heap_page(chain->first);
    if (chain->first != 0 && (first->size_class != page->size_class ||
                              atomic_load_explicit(&first->kind, memory_order_relaxed) !=
                                  atomic_load_explicit(&page->kind, memory_order_relaxed)))
        flush(chain);
    page->next = chain->first;
    chain->first = i;
    if (chain->last == 0)
        chain->last = i;
    atomic_fetch_add_explicit(&walk.listed, 1, memory_order_relaxed);
}

/* A span of the former epoch that nobody owns. */
static void sweep_small(page_index i, uint32_t epoch, struct chain *chain) {
    struct page *page = heap_page(i);
    bool live = (atomic_load_explicit(&page->flags, memory_order_relaxed) & PAGE_LIVE) != 0;
    /* Under gcverify even dead spans are swept slot by slot: what they held is poisoned and quarantined. */
    if (live || heap.quarantine != NULL) {
        add(chain, i);
        return;
    }
    size_t pages = sizeclass_table[page->size_class].pages;
    span_publish(i, epoch, CLAIM_FREEING);
    span_unmake(i);
    pagerun_give(i, pages);
}

/*
 * Threads take and make pages meanwhile: a record is looked at only when it is a head, and only of the former
 * epoch, and such a head changes by this walk alone (or its owner, which then claims it for this epoch).
 */
static void walk_pages(page_index from, page_index to) {
    uint32_t epoch = heap_epoch();
    struct chain chain = {0, 0};
    for (page_index i = from; i < to; i++) {
        struct page *page = heap_page(i);
        unsigned use = atomic_load_explicit(&page->use, memory_order_acquire);
        if (use != PAGE_SMALL && use != PAGE_LARGE)
            continue;
        uint32_t claim = atomic_load_explicit(&page->claim, memory_order_acquire);
        if (claim_is_of(claim, epoch) || claim_state_of(claim) == CLAIM_OWNED)
            continue;
        if (use == PAGE_LARGE)
            sweep_large(i, epoch);
        else
            sweep_small(i, epoch, &chain);
    }
    flush(&chain);
}

void sweep_reset(void) {
    gc_check(walk.end == 0 || atomic_load_explicit(&walk.walkers, memory_order_acquire) == 0,
             "the world stopped in the middle of a sweep");
    central_reset();
    uint64_t used = pagerun_used_bytes();
    sweeper.recent_pages -= sweeper.recent_pages / RECENT_SHARE;
    if (sweeper.recent_pages < used)
        sweeper.recent_pages = used;
    sweeper.runway = used > sweeper.start_pages ? used - sweeper.start_pages : 0;
    walk.end = (page_index)(atomic_load_explicit(&heap.grown, memory_order_relaxed) >> PAGE_SHIFT);
    atomic_store_explicit(&walk.next, NOT_OPEN, memory_order_relaxed);
    atomic_store_explicit(&walk.listed, 0, memory_order_relaxed);
    atomic_store_explicit(&walk.finished, false, memory_order_relaxed);
}

void sweep_open(void) {
    central_decided();
    atomic_store_explicit(&walk.next, 1, memory_order_release);
}

bool sweep_is_open(void) {
    return atomic_load_explicit(&walk.next, memory_order_acquire) != NOT_OPEN;
}

bool sweep_walk_piece(void) {
    uint32_t seen = atomic_load_explicit(&walk.next, memory_order_relaxed);
    if (seen >= walk.end)
        return false;
    atomic_fetch_add_explicit(&walk.walkers, 1, memory_order_acq_rel);
    uint32_t from = atomic_fetch_add_explicit(&walk.next, PIECE_PAGES, memory_order_acq_rel);
    bool mine = from < walk.end;
    if (mine)
        walk_pages(from, walk.end - from < PIECE_PAGES ? walk.end : from + PIECE_PAGES);
    atomic_fetch_sub_explicit(&walk.walkers, 1, memory_order_acq_rel);
    return mine;
}

static void walk_rest(void) {
    while (sweep_walk_piece()) {
    }
    while (atomic_load_explicit(&walk.walkers, memory_order_acquire) != 0)
        os_cpu_relax();
}

void sweep_owned(void) {
    for (struct mutator *m = mutator_list; m != NULL; m = m->next)
        central_sweep_owned(m);
}

bool sweep_is_finished(void) {
    return atomic_load_explicit(&walk.finished, memory_order_relaxed);
}

/* One piece of background work; false when there is none. */
static bool work(void) {
    bool more = false;
    atomic_store_explicit(&sweeper.active, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&sweeper.allowed, memory_order_seq_cst) != 0)
        more = sweep_walk_piece() || central_sweep_one();
    atomic_store_explicit(&sweeper.active, 0, memory_order_seq_cst);
    return more;
}

/* What the policy looks at. */
static struct scavenge_in scavenge_now(void) {
    return (struct scavenge_in){
        .heap_goal = atomic_load_explicit(&account.goal, memory_order_relaxed),
        .start_heap_bytes = sweeper.start_heap,
        .start_page_bytes = sweeper.start_pages,
        .recent_page_bytes = sweeper.recent_pages,
        .runway_bytes = sweeper.runway,
        .held_back = report_limiter_holds_back(),
        .heap_in_use = pagerun_used_bytes(),
        .heap_free_resident = pagerun_free_bytes(),
        .total_counted = account_total(),
        .limit = atomic_load_explicit(&settings.memory_limit, memory_order_relaxed),
    };
}

bool sweep_walk_now_or_later(bool background) {
    if (background && walk.end > WALK_NOW_PAGES)
        return true;
    walk_rest();
    struct scavenge_in in = scavenge_now();
    return atomic_load_explicit(&walk.listed, memory_order_relaxed) >= BACKGROUND_SPANS ||
           scavenge_excess(&in) != 0;
}

/* Go's scavtrace line, once for each burst of work: what the background returned in it, and in all. */
static void tell_returned(uint64_t bytes) {
    struct os_line line;
    os_line_init(&line);
    os_line_str(&line, "scav ");
    os_line_u64(&line, bytes / KIB);
    os_line_str(&line, " KiB work (bg), ");
    os_line_u64(&line, (pagerun_returned_bytes() - sweeper.returned_before - bytes) / KIB);
    os_line_str(&line, " KiB work (eager), ");
    os_line_u64(&line, pagerun_returned_bytes() / KIB);
    os_line_str(&line, " KiB total, ");
    uint64_t resident = pagerun_used_bytes() + pagerun_free_bytes();
    os_line_u64(&line, resident == 0 ? 100 : 100 * pagerun_used_bytes() / resident);
    os_line_str(&line, "% util");
    os_line_emit(&line, 2);
    sweeper.returned_before = pagerun_returned_bytes();
}

/*
 * Returns excess memory one piece at a time, each under the page-run lock for about 100 us, and rests in between:
 * about 1 % of the processors. Needs no leave: what it looks at are counters.
 */
static void scavenge_piece(void) {
    int64_t now = os_time_mono_ns();
    if (now < atomic_load_explicit(&sweeper.rest_until_ns, memory_order_relaxed))
        return;
    struct scavenge_in in = scavenge_now();
    uint64_t excess = scavenge_excess(&in), done = 0;
    if (excess != 0)
        done = pagerun_release(excess < SCAVENGE_PIECE_BYTES ? excess : SCAVENGE_PIECE_BYTES,
                               scavenge_may_split(&in, 0));
    sweeper.burst += done;
    if (done == 0 && sweeper.burst != 0) {
        if (settings.scavenge_trace)
            tell_returned(sweeper.burst);
        sweeper.burst = 0;
    }
    int64_t end = os_time_mono_ns();
    uint64_t rest = scavenge_rest_ns((uint64_t)(end - now)) / (unsigned)settings.processors;
    atomic_store_explicit(&sweeper.rest_until_ns, done != 0 ? end + (int64_t)rest : INT64_MAX,
                          memory_order_relaxed);
}

static void scavenge(void) {
    atomic_store_explicit(&sweeper.returning, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&sweeper.held, memory_order_seq_cst) == 0)
        scavenge_piece();
    atomic_store_explicit(&sweeper.returning, 0, memory_order_seq_cst);
}

int64_t sweep_deadline_ns(void) {
    return atomic_load_explicit(&sweeper.rest_until_ns, memory_order_relaxed);
}

void sweep_background(void) {
    int64_t start = os_time_thread_cpu_ns();
    while (work()) {
    }
    scavenge();
    atomic_fetch_add_explicit(&sweeper.cpu_ns, os_time_thread_cpu_ns() - start, memory_order_relaxed);
}

int64_t sweep_background_cpu_ns(void) {
    return atomic_load_explicit(&sweeper.cpu_ns, memory_order_relaxed);
}

void sweep_allow(void) {
    atomic_store_explicit(&sweeper.rest_until_ns, 0, memory_order_relaxed); /* look again */
    atomic_store_explicit(&sweeper.allowed, 1, memory_order_seq_cst);
}

void sweep_finish(void) {
    atomic_store_explicit(&sweeper.allowed, 0, memory_order_seq_cst);
    /* The piece that it is at is one span or one return of memory. */
    while (atomic_load_explicit(&sweeper.active, memory_order_seq_cst) != 0)
        os_cpu_relax();
    walk_rest();
    central_sweep_finish();
    atomic_store_explicit(&walk.finished, true, memory_order_relaxed);
    uint64_t heap_now = account_heap();
    sweeper.start_heap = heap_now > 0 ? heap_now : 1; /* 0 would say that there has been no cycle */
    sweeper.start_pages = pagerun_used_bytes();
}

void sweep_before_fork(void) {
    atomic_store_explicit(&sweeper.held, 1, memory_order_seq_cst);
    while (atomic_load_explicit(&sweeper.returning, memory_order_seq_cst) != 0)
        os_cpu_relax();
}

void sweep_after_fork(bool in_child) {
    if (in_child) {
        /* The background may have been about to see that it is not allowed. */
        atomic_store_explicit(&sweeper.active, 0, memory_order_relaxed);
        atomic_store_explicit(&sweeper.returning, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&sweeper.held, 0, memory_order_seq_cst);
    sweep_allow();
}
