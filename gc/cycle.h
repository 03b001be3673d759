/*
 * One collection from request to end, and who may ask for one. Owns the cycle lock (rank: outermost; taken
 * only blocked, so a thread that waits for it counts as stopped) and the epoch. See docs/design.md for the
 * phases.
 */
#ifndef GC_CYCLE_H
#define GC_CYCLE_H

#include "gc/mutator.h"

enum cycle_reason {
    CYCLE_HEAP,     /* the heap reached its goal */
    CYCLE_FORCED,   /* the program asked */
    CYCLE_STRESS,   /* gcstress */
    CYCLE_EMERGENCY /* an allocation is about to fail */
};

struct cycle_report {
    uint64_t number;
    bool forced, by_limit;
    int64_t start_ns; /* since the library's start */
    int64_t pause_ns, stopping_ns, mark_ns, gc_cpu_ns;
    uint64_t heap_before, live, goal, next_goal, total;
};
typedef void cycle_function(const struct cycle_report *report);

void cycle_init(int64_t start_ns);
/* Says what was still waiting to be said. At shutdown, no other thread running. */
void cycle_end(void);
/* Called after each cycle by the thread that ran it, at depth 0 without locks. May be NULL. */
void cycle_on_end(cycle_function *function);

/*
 * Whether an allocation that takes `request` bytes should collect first: the goal would be passed, or stress
 * says so. Inside S1. Limit-driven cycles are held back while the CPU limiter's bucket is full, and asked
 * about again here.
 */
bool cycle_wanted(struct mutator *self, uint64_t request, enum cycle_reason *reason);
/*
 * Collects, or waits for another's collection and returns: a request waits for at most one cycle. Forced and
 * emergency ones always run one. Depth 0.
 */
void cycle_collect(struct mutator *self, enum cycle_reason reason);
/* Runs function(context) with the world stopped, everything swept, no cycle under way. Depth 0. */
void cycle_stopped(struct mutator *self, void (*function)(void *context), void *context);
/* After a change of ratio or limit. Depth 0. */
void cycle_settings_changed(struct mutator *self);

#endif
