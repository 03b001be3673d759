/*
 * After marking: the walk over all page records that frees what is wholly dead and lists the rest, the spans that
 * are swept when they are needed, and returning memory. Owns the walk's place.
 *
 * In the end stop sweep_reset; when the tables are done, sweep_open; then the cycle's thread, and every allocation
 * that finds nothing, walk a piece at a time. sweep_finish ends it all before the next start.
 */
#ifndef GC_SWEEP_H
#define GC_SWEEP_H

#include "gc/base.h"

/* Marking is over and the epoch advanced: nothing may be swept until sweep_open. World stopped. */
void sweep_reset(void);
/* The tables are done. Cycle lock held. */
void sweep_open(void);
/* Whether what the last cycle found dead may be freed already. Any thread; a hint. */
bool sweep_is_open(void);
/* Walks one piece: about 10 us. false: nothing is left that others are not at. Inside S1, or no mutator. */
bool sweep_walk_piece(void);
/*
 * Walks what is left, or leaves it to the background where it is much. No mutator, or a blocked one; cycle lock
 * held. Returns whether the background has something to do.
 */
bool sweep_walk_now_or_later(bool background);
/* Sweeps spans that their stopped owners have not used since. World stopped, all else swept. */
void sweep_owned(void);

/* Lets the background sweep, then return excess memory. World running. */
void sweep_allow(void);
/* The background's part: sweeps while it is allowed to, and returns a piece of memory. */
void sweep_background(void);
/* When the next piece may be returned, in monotonic ns; INT64_MAX: nothing is to be. */
int64_t sweep_deadline_ns(void);
/* Keeps the background from sweeping, and returns when it is not: then finishes what is left. Blocked or no
 * mutator, cycle lock held. */
void sweep_finish(void);
/* After sweep_finish: keeps the background from returning memory, too, and returns when it is not at it. */
void sweep_before_fork(void);
/* Lets it sweep and return memory again; in the child its thread is gone. */
void sweep_after_fork(bool in_child);
/* CPU ns that the background spent on it so far. */
int64_t sweep_background_cpu_ns(void);
/* Whether everything is swept; racy unless the cycle lock is held. */
bool sweep_is_finished(void);

#endif
