/*
 * The pacing of cycles as they go: when the next one starts, and how much who allocates has to help. Owns the
 * pacer's state and the assist ratio in force; the rules are pacer's and assist's. Calls those, account and mark.
 */
#ifndef GC_PACE_H
#define GC_PACE_H

#include "gc/mark.h"
#include "gc/mutator.h"
#include "gc/roots.h"

void pace_init(void);

/* A cycle starts at `heap_bytes` bytes. World stopped. */
void pace_begin(uint64_t heap_bytes);
/* Now and then while marking runs beside the program: works out the ratio from how far it has come. */
void pace_look(void);
/*
 * The thread took `bytes` while marking runs beside the program: it scans, or waits a little, for what background
 * workers did not scan for it. Depth 0. Does nothing when the barrier is off or the CPU limiter says so.
 */
void pace_charge_marking(struct mutator *self, uint64_t bytes);
static inline void pace_charge(struct mutator *self, uint64_t bytes);

/* Marking is over: the heap had `heap_bytes` bytes. World stopped. */
void pace_end(uint64_t heap_bytes, const struct mark_result *result, struct roots_size roots);

/*
 * Early cycles. A heap that was large once and whose program now allocates slowly would keep what is dead until it
 * has grown to its old goal. Where processors are idle a cycle comes before that: not sooner than 3 s after the last
 * one, so seldom that its marking takes no more than a tenth of a processor, and not for a program that allocates
 * nothing.
 */
/* A cycle is over that marked for `mark_cpu_ns`. Cycle lock held. */
void pace_arm_early(int64_t mark_cpu_ns);
/* Called with the heap's size at slow paths; true: the background has a deadline now that it must see. */
bool pace_is_early_wanted(uint64_t heap_bytes);
/* In monotonic ns; INT64_MAX: none. */
int64_t pace_early_due_ns(void);
/* The processors are busy: later. false: it was put off often enough. By the background. */
bool pace_put_off_early(void);

/* Whether assists and limit-driven cycles are held back; set by the limiter's keeper. */
void pace_hold_back(bool hold);

#include "gc/barrier.h"

static inline void pace_charge(struct mutator *self, uint64_t bytes) {
    if (barrier_is_on())
        pace_charge_marking(self, bytes);
}

#endif
