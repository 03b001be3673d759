/*
 * One collection from request to end, and who may ask for one. Owns the cycle lock (rank: outermost; taken
 * only blocked, so a thread that waits for it counts as stopped) and the epoch. See docs/design.md for the
 * phases.
 */
#ifndef GC_CYCLE_H
#define GC_CYCLE_H

#include "gc/mutator.h"
#include "gc/report.h"

enum cycle_reason {
    CYCLE_HEAP,   /* the heap reached its goal */
    CYCLE_AWAIT,  /* it did, and a cycle that was asked for has not begun, or the memory limit would be passed
                        before it is over: wait */
    CYCLE_FORCED, /* the program asked */
    CYCLE_PERIODIC, /* nothing happened for two minutes */
    CYCLE_STRESS,   /* gcstress */
    CYCLE_EMERGENCY /* an allocation is about to fail */
};

void cycle_init(void);

/*
 * Whether an allocation that takes `request` bytes should collect (or wait) first: the goal would be passed, or
 * stress says so. Asks the background for a cycle where marking runs beside the program. Inside S1. Limit-driven
 * cycles are held back while the CPU limiter's bucket is full, and asked about again here.
 */
bool cycle_wanted(struct mutator *self, uint64_t request, enum cycle_reason *reason);
/*
 * Collects, or waits for another's collection and returns: a request waits for at most one cycle. Forced and
 * emergency ones always run one, to its end. Depth 0.
 */
void cycle_collect(struct mutator *self, enum cycle_reason reason);
/* Runs function(context) with the world stopped, everything swept, no cycle under way. Depth 0. */
void cycle_stopped(struct mutator *self, void (*function)(void *context), void *context);
/* After a change of ratio or limit. Depth 0. */
void cycle_settings_changed(struct mutator *self);

/* Tells the program's function of cycles. Depth 0, no locks. */
static inline void cycle_deliver(void) {
    if (unlikely(report_has_news()))
        report_deliver();
}

/*
 * Lets no cycle begin, and returns when none is under way and all is swept: for fork. The caller is blocked or no
 * mutator. cycle_release ends it, in the parent and in the child.
 */
void cycle_hold(void);
void cycle_release(void);
/* In the child of a fork, held: what threads that are gone had asked for is forgotten. */
void cycle_after_fork(void);

/*
 * For tests, where marking may run beside the program: a cycle in pieces. Between the first and the last it marks: the
 * barrier is on, and nobody but cycle_mark_for_test (and assists) scans. The lock is held throughout, so whoever
 * collects waits. Any thread; depth 0.
 */
void cycle_begin_for_test(struct mutator *self);
void cycle_mark_for_test(struct mutator *self);
void cycle_end_for_test(struct mutator *self);

#endif
