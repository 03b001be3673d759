/*
 * Stopping and starting all mutators: by a real-time signal, or at polls in cooperative mode. Owns stop_word
 * and the signal's handler. The rules are S1, S5 and S6 of docs/design.md.
 */
#ifndef GC_STOP_H
#define GC_STOP_H

#include "gc/mutator.h"

/* Installs the handler unless settings.cooperative. 0, or -1 with errno. */
int stop_init(void);

/*
 * Returns when every mutator is stopped or blocked; the list lock is then held. The caller is blocked, or not
 * a mutator, and holds the cycle lock. Returns the ns that it took.
 */
int64_t stop_world(void);
void start_world(void);
/* When the last thread that a stop held ran again, or the first one where there are more than processors, in monotonic
 * ns: below 0 as long as that is not so; before the stop, when this one held none. For the stopper, after start_world. */
int64_t stop_resumed_ns(void);

/* In the child of a fork: threads that were about to run again after the last stop are gone. */
void stop_after_fork(void);

/* For mutator: acknowledges the stop that is on and waits until it is over. Depth 1, sp and context written.
 */
void stop_wait(struct mutator *self);
/* For mutator: a thread became blocked while a stop was asked for. */
void stop_notify(void);

#endif
