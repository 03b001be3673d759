/*
 * Cleanups: functions that run once their object is unreachable. Owns the registrations, the queue of those
 * that are due, and the thread that runs them.
 *
 * A cleanup waits (object alive), is queued (object found unreachable: from then on nothing can take it
 * back), runs, and is gone. It never sees the object, only its argument, which is a root all the while. An
 * argument counts as the object that contains it and nothing else: were it also taken as one-past-the-end of
 * the object before, as words of stacks are, an argument that happens to lie right behind the watched object
 * would keep it alive for ever.
 *
 * After the stop that ended marking, before anything is swept, cleanup_after_mark queues what is due, without asking for memory: objects in
 * the order in which they got their first cleanup, cleanups of one object in the order in which they were
 * added. Weak references to those objects are cleared in the same stop (gc/weak.h), so before any of their
 * cleanups runs.
 *
 * Registrations change inside S1 under the room's own lock, a leaf but for offheap's, or with the world
 * stopped. Cleanups run at depth 0 with no lock held: they may allocate, register cleanups and collect. One
 * that leaves by longjmp or ends its thread keeps its argument alive for ever.
 */
#ifndef GC_CLEANUP_H
#define GC_CLEANUP_H

#include "gc/base.h"
#include "gc/roots.h"

struct mutator;

typedef void cleanup_function(void *argument);

/*
 * An id > 0, or 0 with errno EINVAL (no function; no object, or one that shares a block; an argument inside
 * the object) or ENOMEM. The caller holds the object. Depth 0; starts the library's thread unless
 * settings.manual_cleanups.
 */
uint64_t cleanup_add(struct mutator *self, const void *object, cleanup_function *function, void *argument);
/* Whether it was waiting. Depth 0. */
bool cleanup_remove(struct mutator *self, uint64_t id);
/* Runs queued cleanups on this thread, at most `most` (0: as many as are queued now); how many it ran. Depth
 * 0. */
size_t cleanup_run(struct mutator *self, size_t most);

/* Visits the arguments of cleanups that wait, are queued or run; bytes visited. World stopped. */
uint64_t cleanup_each_root(roots_visit *visit, void *context);
/* Queues the cleanups of objects that were found dead, in pieces. World running or stopped, cycle lock held, the
 * epoch advanced, nothing swept yet. */
void cleanup_after_mark(void);
/*
 * After a cycle, world running, depth 0, no lock held: has the library's thread run what is queued, unless
 * settings.manual_cleanups. Starts the thread if it is not there, which uses the host's malloc.
 */
void cleanup_wake(void);
/*
 * In the child of a fork: cleanups that other threads were running are theirs, in the parent, and are forgotten;
 * what is queued runs in both. The library's thread is started anew when it is wanted.
 */
void cleanup_after_fork(void);
/*
 * Ends the library's thread, having it run what is queued first if `run_queued`. At shutdown; the caller and the
 * library's thread are the only mutators. Depth 0; blocks. Not from a cleanup.
 */
void cleanup_shutdown(bool run_queued);
/* Forgets all cleanups. No other thread is left, the background is over: it would look at them after a cycle. */
void cleanup_forget(void);

struct cleanup_stats {
    uint64_t waiting; /* registered, object alive as far as is known */
    uint64_t queued;  /* due, not begun */
    uint64_t run;     /* begun, since the start */
};
struct cleanup_stats cleanup_stats_read(void);

/* Stops the program if an invariant is broken. World stopped, or under no other thread's hands. */
void cleanup_check(void);

#endif
