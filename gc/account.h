/*
 * The books: bytes in objects, bytes held from the kernel, and the goal that both lead to. Owns the counters;
 * decides with the pure policies (pacer, limit). Any thread; all relaxed atomics, each a counter of its own.
 */
#ifndef GC_ACCOUNT_H
#define GC_ACCOUNT_H

#include "gc/base.h"
#include "gc/pacer.h"
#include "gc/pagerun.h"

struct account {
    _Atomic uint64_t heap;    /* live at the last cycle plus taken since; masks count when they are taken */
    _Atomic uint64_t live;    /* marked by the last cycle, or allocated while it marked */
    _Atomic uint64_t marked;  /* of that, what was reached: the rest may be dead already */
    _Atomic uint64_t doubted; /* of that, what may be there by chance: mark_result says why */
    _Atomic uint64_t goal;    /* UINT64_MAX: never */
    _Atomic uint64_t trigger; /* where the cycle starts that is to be over at the goal; at or under it */
    _Atomic uint64_t limit_goal; /* what the memory limit alone asks for; UINT64_MAX: no limit */
    _Atomic uint64_t runway;     /* bytes expected to be allocated while the next cycle marks */
    _Atomic bool one_stop;       /* the next cycle is expected to mark in one stop: then trigger is goal */
    _Atomic uint64_t ratio_goal; /* what the growth ratio alone asks for */
    _Atomic int by;              /* enum pacer_by of the goal */
    _Atomic uint64_t scannable; /* bytes of kinds with pointers: scanned by the last cycle, and taken since */
    _Atomic uint64_t external;  /* declared by the program */
    _Atomic uint64_t peak_heap, peak_total;
    _Atomic uint64_t stack_bytes, global_bytes; /* roots of the last cycle */
};

extern struct account account;

void account_init(void);

/* Objects of `bytes` are about to be, or no longer, the program's. */
void account_take(uint64_t bytes);
void account_give(uint64_t bytes);

/* They may hold pointers. */
void account_take_scannable(uint64_t bytes);
uint64_t account_scannable(void);
/* A cycle is over that scanned `scanned` bytes, and began with `at_start` scannable ones. */
void account_scanned(uint64_t scanned, uint64_t at_start);

static inline uint64_t account_heap(void) {
    return atomic_load_explicit(&account.heap, memory_order_relaxed);
}
/* All bytes that count under the limit. */
uint64_t account_total(void);
/*
 * Whether the limit, less its headroom, does not hold what the last cycle reached and `request` bytes more: then
 * no collection will keep the program under it.
 */
bool account_would_pass_limit(uint64_t request);
/* Whether the limit is passed when `request` bytes are taken now, by what free pages do not hold. */
bool account_would_grow_past_limit(uint64_t request);
/* How the heap may grow now: what the limit leaves, and steps that fit the goal. */
struct pagerun_growth account_growth(void);
/* Raises the peaks to what is held now. After anything that took memory from the kernel. */
void account_note_peaks(void);

/*
 * After a marking: the new live heap. Slots still shown in masks are left out, though they were counted when
 * taken: many threads with many open masks would otherwise fill a small goal with them and collect without
 * end.
 */
struct account_marked {
    uint64_t live, marked, doubted; /* as in struct account */
    uint64_t stack_bytes, global_bytes;
};
void account_cycle(const struct account_marked *m);
/* Works out the goal from the settings as they are now. */
void account_decide(void);

#endif
