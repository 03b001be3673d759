/* See account.h. Calls pacer, limit, pagerun's and offheap's counters. */
#include "gc/account.h"

#include "gc/heap.h"
#include "gc/limit.h"
#include "gc/offheap.h"
#include "gc/pagerun.h"
#include "gc/settings.h"

struct account account;

static uint64_t get(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}
static void set(_Atomic uint64_t *counter, uint64_t value) {
    atomic_store_explicit(counter, value, memory_order_relaxed);
}
static void raise_to(_Atomic uint64_t *peak, uint64_t value) {
    uint64_t now = get(peak);
    while (now < value && !atomic_compare_exchange_weak_explicit(peak, &now, value, memory_order_relaxed,
                                                                 memory_order_relaxed)) {
    }
}

void account_init(void) {
    set(&account.heap, 0);
    set(&account.live, 0);
    set(&account.marked, 0);
    set(&account.doubted, 0);
    set(&account.external, 0);
    set(&account.scannable, 0);
    set(&account.peak_heap, 0);
    set(&account.peak_total, 0);
    set(&account.stack_bytes, 0);
    set(&account.global_bytes, 0);
    set(&account.runway, 0);
    atomic_store_explicit(&account.one_stop, true, memory_order_relaxed);
    account_decide();
}

void account_take(uint64_t bytes) {
    uint64_t heap_now = atomic_fetch_add_explicit(&account.heap, bytes, memory_order_relaxed) + bytes;
    raise_to(&account.peak_heap, heap_now);
    account_note_peaks();
}

void account_take_scannable(uint64_t bytes) {
    atomic_fetch_add_explicit(&account.scannable, bytes, memory_order_relaxed);
}

uint64_t account_scannable(void) {
    return get(&account.scannable);
}

void account_scanned(uint64_t scanned, uint64_t at_start) {
    atomic_fetch_add_explicit(&account.scannable, scanned - at_start, memory_order_relaxed);
}

void account_give(uint64_t bytes) {
    uint64_t now = get(&account.heap);
    /* Slots of a mask that was open at the last cycle are not in the heap's bytes: never below zero. */
    while (!atomic_compare_exchange_weak_explicit(&account.heap, &now, now > bytes ? now - bytes : 0,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

uint64_t account_total(void) {
    return pagerun_used_bytes() + pagerun_free_bytes() +
           atomic_load_explicit(&heap.metadata, memory_order_relaxed) + offheap_bytes() +
           get(&account.external);
}

/*
 * Up to this goal the heap grows to the goal exactly and in small steps beyond: a whole 2 MiB piece for the
 * last block would be a large part of what is held (8 MiB goal: 2 MiB are 25 %). Above, huge pages matter
 * more than 2 MiB.
 */
#define SMALL_GOAL_BYTES (64 * MIB)
/* The steps beyond, as a share of the goal, and the least one. */
#define SMALL_STEP_SHARE 64
#define SMALL_STEP_LEAST (64 * KIB)

/* Records and bits are 192 bytes for a page of 8 KiB, 1/42; the rest is for what else may grow: queues, tables. */
#define HARD_LIMIT_BESIDE_SHARE 20
#define HARD_LIMIT_BESIDE_BYTES (256 * KIB)

struct pagerun_growth account_growth(void) {
    struct pagerun_growth growth = {.room = UINT64_MAX, .step = PAGERUN_POPULATE_PAGES * PAGE_BYTES};
    uint64_t limit = get(&settings.memory_limit), goal = get(&account.goal);
    if (limit != UINT64_MAX) {
        uint64_t total = account_total();
        growth.room = total < limit ? limit - total : 0;
        growth.hard = atomic_load_explicit(&settings.limit_is_hard, memory_order_relaxed);
        /* What a growth takes beside itself: records, bits, a table that doubles. */
        uint64_t beside = growth.room / HARD_LIMIT_BESIDE_SHARE + HARD_LIMIT_BESIDE_BYTES;
        if (growth.hard)
            growth.room = growth.room > beside ? growth.room - beside : 0;
    }
    uint64_t held = pagerun_used_bytes() + pagerun_free_bytes();
    if (goal <= SMALL_GOAL_BYTES && held + growth.step > goal) {
        uint64_t step = held < goal ? goal - held : goal / SMALL_STEP_SHARE;
        growth.step = step > SMALL_STEP_LEAST ? align_down(step, SMALL_STEP_LEAST) : SMALL_STEP_LEAST;
    }
    return growth;
}

bool account_would_grow_past_limit(uint64_t request) {
    uint64_t limit = get(&settings.memory_limit);
    if (limit == UINT64_MAX)
        return false;
    uint64_t free = pagerun_free_bytes(), total = account_total();
    return total - (free < total ? free : total) + request > limit;
}

bool account_would_pass_limit(uint64_t request) {
    uint64_t limit = get(&settings.memory_limit);
    if (limit == UINT64_MAX)
        return false;
    uint64_t heap_pages = pagerun_used_bytes() + pagerun_free_bytes(), total = account_total();
    uint64_t beside = total > heap_pages ? total - heap_pages : 0;
    uint64_t least = get(&account.marked) + beside, headroom = limit / 100 * LIMIT_HEADROOM_PERCENT;
    return least > limit - headroom || request > limit - headroom - least;
}

void account_note_peaks(void) {
    raise_to(&account.peak_total, account_total());
}

/*
 * What is kept by chance gives no right to grow. But it is there: without a bound a heap of few large objects would
 * have little room between two collections.
 */
#define DOUBTED_SHARE 20

void account_decide(void) {
    struct limit_in limit = {
        .limit = get(&settings.memory_limit),
        .total_counted = account_total(),
        .heap_free_resident = pagerun_free_bytes(),
        .heap_in_use = account_heap(),
        .live = get(&account.live),
    };
    uint64_t live = get(&account.live), doubted = get(&account.doubted), most = live / DOUBTED_SHARE;
    struct pacer_in in = {
        .live_bytes = live - (doubted < most ? doubted : most),
        .stack_bytes = get(&account.stack_bytes),
        .global_bytes = get(&account.global_bytes),
        .gc_percent = atomic_load_explicit(&settings.gc_percent, memory_order_relaxed),
        .memory_limit_goal = limit.limit == UINT64_MAX ? UINT64_MAX : limit_goal(&limit),
        .runway_bytes = get(&account.runway),
        .one_stop = atomic_load_explicit(&account.one_stop, memory_order_relaxed),
    };
    struct pacer_out out = pacer_decide(&in);
    set(&account.ratio_goal, pacer_goal_ratio(&in));
    set(&account.limit_goal, in.memory_limit_goal);
    set(&account.trigger, out.trigger);
    set(&account.goal, out.goal);
    atomic_store_explicit(&account.by, (int)out.by, memory_order_relaxed);
}

void account_cycle(const struct account_marked *m) {
    set(&account.live, m->live);
    set(&account.marked, m->marked);
    set(&account.doubted, m->doubted);
    set(&account.heap, m->live);
    set(&account.stack_bytes, m->stack_bytes);
    set(&account.global_bytes, m->global_bytes);
    account_decide();
}
