/*
 * Fibers: stacks that the program switches to by itself (ucontext, an assembly of its own). Owns the registered
 * stacks. Never switches anything, and never follows a saved context: where a stack pointer is tells which stack
 * runs (rule S5), whatever was said about a switch.
 *
 * All are scanned whole. How far below its frames a switch has saved registers is known to the program alone; and
 * so it is of the fiber that runs: at its lower end may lie the ucontext_t with the registers of whoever switched to
 * it, and in the middle of a switch its own, while the stack pointer is loaded already and they are not.
 *
 * A fiber that no stopped thread is on is parked. In the stops of one cycle it is scanned once, unless it ran in
 * between: its words, then, are those that were seen before. For this the library is told before a switch; a
 * program that does not tell is covered by the barrier's snapshot all the same.
 */
#ifndef GC_FIBER_H
#define GC_FIBER_H

#include "gc/base.h"
#include "gc/roots.h"

struct mutator;

struct fiber {
    uintptr_t lo, hi; /* whole words; read-only */
    /* Epoch of the cycle that saw it and since when it has not run. By the collector in a stop, and by who is
     * about to switch to it; relaxed. */
    _Atomic uint32_t seen_in;
    uint32_t current_in; /* stop_word of the last stop that found a thread on it; in a stop */
};

/* NULL with errno EINVAL (no whole word, a range that wraps or overlaps another fiber's) or ENOMEM. Inside S1. */
struct fiber *fiber_new(void *stack_lo, size_t bytes);
/* Not one that the calling thread is on. Inside S1. */
void fiber_free(struct fiber *fiber);
/* `self` is about to switch to it, or to the thread's own stack: NULL. Depth 0, and no lock: a stop may come
 * between any two instructions. */
void fiber_switch(struct mutator *self, struct fiber *to);

/* The rest with the world stopped. */

/* Whether the pointer of a stopped thread is on a fiber's stack. That one is not parked in this stop. */
bool fiber_note_current(uintptr_t sp);
bool fiber_any(void);
/* Visits all but the parked ones that were seen in this cycle; bytes of all. After fiber_note_current was called for
 * every thread. */
uint64_t fiber_each(roots_visit *visit, void *context);
/* All of them, for the verifier. */
struct fiber *const *fiber_list(size_t *count);
/* Forgets all. At shutdown. */
void fiber_forget(void);

#endif
