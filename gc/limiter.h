/* The CPU limiter: holds the collector to half of the CPU when the memory limit would make it take more.
 *
 * Does: keeps a leaky bucket that the collector's CPU time fills and the program's drains.
 * Owns: struct limiter; the caller says which lock guards it (no atomics here).
 * Never: reads a clock, or decides about cycles that the ratio or the program asked for.
 * Calls: nobody.
 *
 * While the bucket is full, cycles that only the limit asks for (and, later, assists) are held back, and the
 * limit is passed instead. The bucket is Go's gcCPULimiter (runtime/mgclimit.go), with one addition, because
 * a cycle in a stopped world cannot yield half-way: what a cycle took beyond the brim is a debt, and the
 * program runs for as long before the bucket counts as not full. Without it a nanosecond of program time
 * would let the next long cycle in, and long cycles would take far more than half. Only one cycle's worth is
 * kept: a program that collects by itself for an hour does not lose its limit for the next one.
 */
#ifndef TERN_GC_LIMITER_H
#define TERN_GC_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

/* The bucket's size for each processor: the collector's only leeway, and so the window (two seconds) over
 * which the half is taken. Go's value. */
#define LIMITER_CAPACITY_PER_PROC_NS INT64_C(1000000000)

struct limiter {
    int64_t fill_ns;      /* 0 .. capacity_ns; never below, so an idle day earns no credit */
    int64_t capacity_ns;  /* LIMITER_CAPACITY_PER_PROC_NS for each processor */
    int64_t debt_ns;      /* of the last cycle, beyond the brim; 0 unless limiting */
    bool limiting;        /* the bucket is full, or a debt is left */
    uint64_t overflow_ns; /* collector time that found the bucket full, since limiter_init; only grows */
};

/* An empty bucket. procs below 1 is taken as 1. */
void limiter_init(struct limiter *l, int procs);

/* The number of processors changed: the bucket's content stays, as far as it fits. */
void limiter_resize(struct limiter *l, int procs);

/* Accounts for a stretch of time, in CPU nanoseconds: processors times wall-clock time, because a stopped
 * world keeps all of them from the program. Both parts of one stretch are weighed against each other, so call
 * it often: after each cycle, and at a slow path while limiting. Negative times count as 0. */
void limiter_update(struct limiter *l, int64_t mutator_ns, int64_t gc_ns);

/* Whether limit-driven cycles are to be skipped now. */
bool limiter_limiting(const struct limiter *l);

#endif
