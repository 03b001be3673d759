/* The scavenger's goals: how much free resident memory to give back to the kernel, and how fast.
 *
 * Does: compares what is resident with what the heap goal needs, and with the limit.
 * Owns: nothing; every function here is pure.
 * Never: returns memory itself, picks pages, or reads counters.
 * Calls: gc/limit.h.
 *
 * Two goals, both Go's (runtime/mgcscavenge.go): without a limit, keep 10 % more than the heap goal needs in
 * pages; with one, be at 95 % of it. Returned memory is dear to touch again, and a broken huge page dearest,
 * so it goes in whole huge pages and late, unless the limit would be passed otherwise.
 *
 * What the heap is about to grow into again is not returned: under a limit, up to the heap goal, which was
 * set so that it fits; and where the limit cannot be met, up to what was in use when the last cycle started.
 * Returned there, it would be back after as many allocations, at the price of a page fault for each page.
 */
#ifndef TERN_GC_SCAVENGE_H
#define TERN_GC_SCAVENGE_H

#include <stdbool.h>
#include <stdint.h>

/* Kept beyond the heap goal's need, so that the allocator seldom waits for the kernel. Go's
 * retainExtraPercent. */
#define SCAVENGE_RETAIN_EXTRA_PERCENT 10
/* Where the total is brought under a limit: under it, so that the work is done before it presses. Go's
 * reduceExtraPercent. */
#define SCAVENGE_LIMIT_PERCENT 95
/* The share of one processor that background returning may take. Go's scavengePercent. */
#define SCAVENGE_CPU_PERCENT 1
/* A huge page: returning less of one splits it, which costs more than the page fault saved. */
#define SCAVENGE_PIECE_BYTES (UINT64_C(2) << 20)
/* The heap's page, the smallest piece returned when the limit forces it. */
#define SCAVENGE_PAGE_BYTES (UINT64_C(8) << 10)
/* Pages in use per heap byte, at most, that is believed when the goal is turned into pages: a tiny heap at
 * the last cycle's start (a page for each class in use, hardly filled) says nothing about a large one. */
#define SCAVENGE_MAX_PAGE_FACTOR 4

struct scavenge_in {
    uint64_t heap_goal;          /* the pacer's goal in force; UINT64_MAX: none, then only the limit counts */
    uint64_t start_heap_bytes;   /* heap in the goal's measure when the last cycle started; 0: none yet */
    uint64_t start_page_bytes;   /* bytes of heap pages in use at that moment */
    uint64_t heap_in_use;        /* bytes of heap pages in use now */
    uint64_t heap_free_resident; /* bytes of heap pages free but resident now: all that can go */
    uint64_t total_counted;      /* as in gc/limit.h */
    uint64_t limit;              /* UINT64_MAX: none */
    uint64_t recent_page_bytes;  /* the most heap pages in use at the end of a recent cycle; 0: unknown */
    uint64_t runway_bytes;       /* heap pages taken while the last cycle marked; 0: the world was stopped */
    bool held_back;              /* the CPU limiter holds back cycles that the limit wants */
};

/* Bytes of free resident memory to return now, in the background; 0: none. A multiple of
 * SCAVENGE_PIECE_BYTES, except when the total is past the limit and what is free does not hold enough whole
 * pieces to come back under it. Before the first cycle only the limit counts, as nothing is known about the
 * heap yet.
 *
 * Past the limit everything above it goes at once, as long as that brings the total under it and keeps it
 * there. It does not when pages in use, other bytes, and what is taken while a cycle marks reach the limit by
 * themselves, or when the CPU limiter holds cycles back: then as much stays as was in use of late. */
uint64_t scavenge_excess(const struct scavenge_in *in);

/* Bytes to return at once so that request more can be taken from the kernel under the limit: whole pieces
 * where that much is free, else pages, and never more than is free. 0 without a limit. */
uint64_t scavenge_for_request(const struct scavenge_in *in, uint64_t request);

/* Whether pieces smaller than SCAVENGE_PIECE_BYTES may be returned, should the free memory not hold enough
 * whole ones: only when the limit is passed, or would be by request more. */
bool scavenge_may_split(const struct scavenge_in *in, uint64_t request);

/* How long the background scavenger rests after work_ns of work, for SCAVENGE_CPU_PERCENT. Saturates. */
uint64_t scavenge_rest_ns(uint64_t work_ns);

#endif
