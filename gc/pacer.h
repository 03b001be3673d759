/* The pacer: how large the heap may grow before the next collection is over, and where that one starts.
 *
 * Does: turns live bytes, roots, the growth ratio and the limit's goal into a goal; keeps what the last
 *   cycles showed of how fast the program allocates beside marking, and sets the trigger so far before the
 *   goal that marking at 25 % of the CPU ends there; says how many background workers that share is.
 * Owns: struct pacer; the caller says which lock guards it (no atomics here). The rest is pure.
 * Never: touches the heap, a clock, the environment or memory of its own; may run in a stopped world.
 * Calls: nobody. gc/limit.h makes the limit's goal that goes in here; gc/assist.h paces within a cycle.
 *
 * A cycle, from the caller's side: pacer_workers and assist_ratio when it starts, assist_ratio again whenever
 * heap bytes, scan work or the goal have moved, pacer_end_cycle in the stop that ends marking, pacer_decide
 * then and whenever a setting changes.
 *
 * Rules and constants are Go's (runtime/mgcpacer.go of Go 1.20 and later, and "A Guide to the Go Garbage
 * Collector"). Scan work is counted in bytes, as there: of heap objects that may hold pointers, stacks, and
 * registered ranges. Objects allocated while marking are black and no scan work, neither done nor expected.
 */
#ifndef TERN_GC_PACER_H
#define TERN_GC_PACER_H

#include <stdbool.h>
#include <stdint.h>

/* The least goal at a ratio of 100 %: below it a collection's fixed costs (stopping, scanning roots) are all
 * of its cost. It scales with the ratio, so that GOGC means the same to small heaps. Go's default minimum. */
#define PACER_MIN_HEAP_BYTES (UINT64_C(4) << 20)

/* A concurrent cycle starts no earlier than this share of the way from live to goal: earlier, and a fast
 * allocator would live in a cycle that never ends, with everything it allocates black. */
#define PACER_TRIGGER_MIN_PERCENT 70
/* And no later than this one: some room must be left when marking starts, else every allocation assists. (Go
 * lets it come later in a large heap, up to 4 MiB before the goal; that saves at most 5 % of the cycles.) */
#define PACER_TRIGGER_MAX_PERCENT 95

/* A cycle of one stop starts at its goal; where the way to it is long, this share of it earlier: what threads take
 * without asking again (the rest of their masks) then lies within the goal, and costs one cycle in forty. */
#define PACER_ONE_STOP_WAY_BYTES   (UINT64_C(32) << 20)
#define PACER_ONE_STOP_EARLY_SHARE 40

/* The share of the processors that marking is to take, of background workers and assists together. Go's
 * gcGoalUtilization: more shortens cycles but takes it from the program while they last. */
#define PACER_UTILISATION 0.25

/* Cycles before the last one whose cons/mark ratio counts: the largest is taken, because a cycle that starts
 * a little early costs some CPU, one that starts late makes allocations assist. Go's length. */
#define PACER_WINDOW 4

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
    uint64_t runway_bytes;      /* pacer_runway(); 0 before anything is known. Not read for one_stop */
    bool one_stop; /* the next cycle marks with the world stopped: nothing is allocated meanwhile */
};

struct pacer_out {
    uint64_t goal;    /* heap bytes at which the cycle should be over; UINT64_MAX: never */
    uint64_t trigger; /* heap bytes at which it starts; never above the goal */
    enum pacer_by by;
};

/* A number of bytes that was worked out as a double: 0 for what is not above 0, UINT64_MAX for what does not
 * fit (a plain conversion of either is undefined). */
static inline uint64_t pacer_to_bytes(double bytes) {
    if (!(bytes > 0)) {
        return 0;
    }
    return bytes >= 0x1p64 ? UINT64_MAX : (uint64_t)bytes;
}

/* The goal that the growth ratio alone sets, in heap bytes: live + (live + stacks + globals) * percent / 100,
 * and at least PACER_MIN_HEAP_BYTES * percent / 100. UINT64_MAX when the ratio is off. At 0 % it is live: a
 * cycle at every chance. Saturates. This is the goal that holds while the limiter holds the limit's cycles
 * back. */
uint64_t pacer_goal_ratio(const struct pacer_in *in);

/* The goal in force, which is the smaller of the ratio's and the limit's and never under live, and the
 * trigger: pacer_trigger's; or for a cycle of one stop the goal itself, or a little before it. */
struct pacer_out pacer_decide(const struct pacer_in *in);

/* Where a concurrent cycle starts: runway bytes before the goal (what mutators are expected to allocate while
 * it marks), held between PACER_TRIGGER_MIN_PERCENT and PACER_TRIGGER_MAX_PERCENT of the way from live to
 * goal. UINT64_MAX for a goal of UINT64_MAX; the goal itself when live is at or above it. */
uint64_t pacer_trigger(uint64_t live_bytes, uint64_t goal_bytes, uint64_t runway_bytes);

/* What past cycles showed. All zero is the start: no runway, so the first concurrent cycle starts as late as
 * one may and learns. */
struct pacer {
    /* Bytes allocated per CPU-ns of the program over bytes scanned per CPU-ns of marking; the largest of the
     * last measured one and the PACER_WINDOW before it. Finite, never negative. */
    double cons_mark;
    double measured[PACER_WINDOW]; /* as measured, oldest first, the last cycle's last */
    /* Scan work of the last cycle. */
    uint64_t heap_scan_bytes, stack_scan_bytes, global_scan_bytes;
};

/* What a cycle did. Concurrent marking is the time in which assists were on: from the end of the start stop
 * to the beginning of the end stop. */
struct pacer_cycle {
    uint64_t trigger_bytes; /* heap bytes when it started (which may be past the trigger) */
    uint64_t end_bytes;     /* heap bytes when marking ended, what it found dead included */
    /* Scan work done, by whomever, of the kinds that make up the next cycle's expectation. */
    uint64_t heap_scan_bytes, stack_scan_bytes, global_scan_bytes;
    int64_t mark_ns; /* wall-clock time of concurrent marking; below 1: assist_ns and idle_ns are not read */
    int procs;       /* processors; below 1 is taken as 1 */
    /* Share of procs that background workers had, without idle ones. 0 or less: PACER_UTILISATION, which Go
     * takes for granted. An error in that cancels out, as the next cycle's workers will have the same share:
     * where they get less (5 processors have one for 0.20; the kernel shares processors among more busy
     * threads than there are), cycles start earlier and take longer, and few assist. Told the measured share
     * instead, cycles start later and assists make up the rest of PACER_UTILISATION; and told a larger one
     * than PACER_UTILISATION they start too early, so such an excess belongs in idle_ns. */
    double background_utilisation;
    int64_t assist_ns; /* CPU time of assists; below 0 is taken as 0 */
    int64_t idle_ns;   /* CPU time of idle workers: marking had it, yet the program could have taken it */
};

/* A cycle is over: remembers its scan work and, where it can tell, its cons/mark ratio. It cannot tell when
 * nothing was allocated while marking (a cycle of one stop, or a program that waits for the collection it
 * asked for) or nothing was scanned: the ratio then stays what it was, as in Go, and a runway is short
 * because the scan work is little. */
void pacer_end_cycle(struct pacer *p, const struct pacer_cycle *c);

/* Scan work to expect of the next cycle, in bytes: the last one's. Saturates. 0 before the first. */
uint64_t pacer_scan_expected(const struct pacer *p);

/* Bytes that the program will allocate while scan_bytes are scanned at PACER_UTILISATION: scan_bytes *
 * cons_mark * (1 - u) / u. Saturates. */
uint64_t pacer_runway(const struct pacer *p, uint64_t scan_bytes);

/* How background workers come to PACER_UTILISATION: this many take a processor each for the whole of marking,
 * and every processor gives this share of its time besides. So dedicated + fractional * processors is their
 * CPU. */
struct worker_plan {
    int dedicated;
    double fractional; /* 0: nobody marks by the clock */
};

/* The plan for so many processors; below 1 is taken as 1. Whole workers alone where that comes within 30 % of
 * the share, else (1, 2, 3 and 6 processors) one fewer and fractions, which switch more often. */
struct worker_plan pacer_workers(int procs);

#endif
