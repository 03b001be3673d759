/* Assists: how much marking an allocation has to do while a cycle runs, so that marking ends at the goal.
 *
 * Does: turns the state of a cycle into scan work per allocated byte, and a debt of bytes into work.
 * Owns: nothing; every function here is pure.
 * Never: touches the heap, a counter or a clock; keeps no credit (the caller's, per thread and shared).
 * Calls: nobody. gc/pacer.h makes the goal, the trigger and the expected scan work.
 *
 * What background workers have scanned is credit that pays for allocations first; a thread marks itself only
 * when there is none. So the ratio is no tax: while workers keep up, nobody assists.
 *
 * Rules and constants are Go's (revise in runtime/mgcpacer.go, gcAssistAlloc in runtime/mgcmark.go). Units
 * are bytes; scan work is what gc/pacer.h says.
 */
#ifndef TERN_GC_ASSIST_H
#define TERN_GC_ASSIST_H

#include <stdint.h>

/* The least distance from the heap's size at the start of a cycle to its goal, unless the limit set the goal:
 * a cycle that starts late would make the first allocations do all of it. Go's minRunway. */
#define ASSIST_RUNWAY_LEAST_BYTES (UINT64_C(64) << 10)

/* Work is never taken to be all but done: aiming high by so little misses by little, and the rest is a guess
 * that may come out negative. Go's value. */
#define ASSIST_WORK_LEAST_BYTES 1000

/* Past the goal, marking is to end within this much more of it, in the worst case. Go's maxOvershoot. */
#define ASSIST_OVERSHOOT_PERCENT 10

/* What a growth ratio that is off counts as for the hard goal of a cycle that runs nevertheless. Go's value.
 */
#define ASSIST_PERCENT_OFF 100000

/* An assist does at least so much work and is paid ahead for the surplus: starting one costs more than a few
 * objects. Go's gcOverAssistWork. */
#define ASSIST_WORK_MIN_BYTES (UINT64_C(64) << 10)

/* No charge and no payment is more than this: callers keep debts as signed numbers. */
#define ASSIST_MOST_BYTES (UINT64_C(1) << 62)

struct assist_in {
    uint64_t heap_bytes;    /* now: live at the last cycle and everything allocated since */
    uint64_t trigger_bytes; /* heap bytes when this cycle started */
    uint64_t goal;          /* of pacer_decide; may have changed since the start; UINT64_MAX: none */
    uint64_t limit_goal;    /* the limit's, UINT64_MAX: no limit. At or under goal: the limit set the goal */
    int gc_percent;         /* the growth ratio; below 0: off */
    uint64_t scan_expected; /* pacer_scan_expected() */
    uint64_t scan_done;     /* in this cycle, by whomever */
    uint64_t scan_max; /* all that could be scanned: heap bytes of kinds with pointers as they were when the
                          cycle started, whole stacks, registered ranges */
};

/* Two numbers that need not be each other's exact inverse, because a caller may keep them apart. Both are
 * above 0 and finite. */
struct assist_ratio {
    double work_per_byte; /* bytes to scan for each byte allocated */
    double bytes_per_work;
    uint64_t goal; /* heap bytes at which marking now has to end; at or above in.goal */
};

/* Pace for what is left: (scan work left) / (bytes left to the goal).
 *
 * As long as no more was found than expected, work is the expected one, the goal in.goal.
 *
 * More was found, so the heap grows: work is then scan_max, and the goal moves out in the same proportion, so
 * that assists do not get dearer in the middle of a cycle. By no more than the next goal will be, if all of
 * it is live: goal * (1 + gc_percent / 100), the hard goal. And, other than in Go, not past limit_goal.
 *
 * Past that goal: ASSIST_OVERSHOOT_PERCENT more, and the work is scan_max. Past that, too: everything that is
 * left for the next byte. */
struct assist_ratio assist_ratio(const struct assist_in *in);

struct assist_charge {
    uint64_t work;  /* bytes to scan; at least ASSIST_WORK_MIN_BYTES, unless nothing is owed */
    uint64_t bytes; /* allocation that this pays for; at least the debt */
};

/* What a thread does that has allocated debt_bytes more than it has paid for. 0 and 0 for no debt. Neither is
 * more than ASSIST_MOST_BYTES. */
struct assist_charge assist_charge(const struct assist_ratio *ratio, uint64_t debt_bytes);

/* Bytes of allocation that scanned_bytes pay for; one more than the ratio says, so that work is never for
 * nothing. For work that came out different from the charge. At most ASSIST_MOST_BYTES. */
uint64_t assist_paid(const struct assist_ratio *ratio, uint64_t scanned_bytes);

#endif
