/*
 * Fork (rule S7 of docs/design.md): what has to be done before one, so that the child can allocate and collect,
 * and after it, in the parent and in the child. Owns nothing but the order of these steps; each room has its own
 * part, a function named ..._after_fork. Never stops a thread in the program's code: it may hold malloc's locks,
 * which the C library takes before the fork too.
 *
 * Before: no cycle begins, everything is swept, no thread comes or goes, and nobody is inside S1: who would enter
 * waits at the gate (gc/mutator.h). So the library's own locks are free, but for those that are taken here, and
 * its structures are whole. A thread outside S1 is at no place that matters: the slot it was about to hand out is
 * given back with its mask in the child, where the thread does not exist.
 *
 * The runtime registers these with pthread_atfork, after the private jemalloc has registered its own: so the
 * first runs before jemalloc's locks are taken, the other two when they are free. Handlers of the program that
 * were registered before that run in between: they may allocate, yet no collection begins for them.
 *
 * Not reached by vfork, posix_spawn, _Fork and clone: a child made so may exec and nothing else.
 */
#ifndef GC_FORK_H
#define GC_FORK_H

/* Any thread at depth 0, in a blocking section too. Waits for a cycle that is under way. */
void fork_before(void);
void fork_in_parent(void);
void fork_in_child(void);

#endif
