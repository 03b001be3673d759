/* The pacer: how large the heap may grow before the next collection is over, and where that one starts.
 *
 * Does: turns live bytes, roots, the growth ratio and the limit's goal into a goal and a trigger.
 * Owns: nothing; every function here is pure.
 * Never: touches the heap, a clock, the environment or memory of its own; it may run in a stopped world.
 * Calls: nobody. gc/limit.h makes the limit's goal that goes in here.
 *
 * Rules and constants are Go's (runtime/mgcpacer.go, and "A Guide to the Go Garbage Collector").
 */
#ifndef TERN_GC_PACER_H
#define TERN_GC_PACER_H

#include <stdint.h>

/* The least goal at a ratio of 100 %: below it a collection's fixed costs (stopping, scanning roots) are all
 * of its cost. It scales with the ratio, so that GOGC means the same to small heaps. Go's default minimum. */
#define PACER_MIN_HEAP_BYTES (UINT64_C(4) << 20)

/* A concurrent cycle starts no earlier than this share of the way from live to goal: earlier, and a fast
 * allocator would live in a cycle that never ends, with everything it allocates black. */
#define PACER_TRIGGER_MIN_PERCENT 70
/* And no later than this one: some room must be left when marking starts, else every allocation assists. */
#define PACER_TRIGGER_MAX_PERCENT 95

/* Who set the goal. The 50 % CPU limiter may hold back only cycles that the limit asked for. */
enum pacer_by {
    PACER_BY_RATIO, /* the growth ratio; also when both ask for the same */
    PACER_BY_LIMIT, /* the memory limit, which asks for an earlier cycle than the ratio */
    PACER_BY_NONE,  /* neither: no cycle until one is asked for */
};

struct pacer_in {
    uint64_t live_bytes;        /* marked by the last cycle; 0 before the first */
    uint64_t stack_bytes;       /* scanned as stacks in the last cycle */
    uint64_t global_bytes;      /* scanned as registered ranges and data segments in the last cycle */
    int gc_percent;             /* the growth ratio; below 0: off */
    uint64_t memory_limit_goal; /* limit_goal() of gc/limit.h; UINT64_MAX: no limit */
};

struct pacer_out {
    uint64_t goal;    /* heap bytes at which the cycle should be over; UINT64_MAX: never */
    uint64_t trigger; /* heap bytes at which it starts; never above the goal */
    enum pacer_by by;
};

/* The goal that the growth ratio alone sets, in heap bytes: live + (live + stacks + globals) * percent / 100,
 * and at least PACER_MIN_HEAP_BYTES * percent / 100. UINT64_MAX when the ratio is off. At 0 % it is live: a
 * cycle at every chance. Saturates. This is the goal that holds while the limiter holds the limit's cycles
 * back. */
uint64_t pacer_goal_ratio(const struct pacer_in *in);

/* The goal in force: the smaller of the ratio's and the limit's, never under live. Marking runs in a stopped
 * world, so nothing is allocated between trigger and goal and the two are equal. */
struct pacer_out pacer_decide(const struct pacer_in *in);

/* Where a concurrent cycle starts: runway bytes before the goal (what mutators are expected to allocate while
 * it marks), held between PACER_TRIGGER_MIN_PERCENT and PACER_TRIGGER_MAX_PERCENT of the way from live to
 * goal. UINT64_MAX for a goal of UINT64_MAX; the goal itself when live is at or above it. */
uint64_t pacer_trigger(uint64_t live_bytes, uint64_t goal_bytes, uint64_t runway_bytes);

#endif
