/*
 * Handles: strong references that live outside the heap, in slots that the collector visits as roots. Owns
 * the slots.
 *
 * A handle is generation << 32 | slot + 1, so 0 is never one. A slot's generation is odd while it is in use
 * and goes up by one when it is taken and when it is freed; a handle whose generation is not its slot's is
 * stale, and using it stops the program. (A slot taken two thousand million times starts over: so old a
 * handle is not recognised.)
 *
 * A free slot holds NULL. Slots change inside S1 under the room's own lock, a leaf but for offheap's; a slot
 * is read inside S1 without it, so memory goes back only with the world stopped (handle_trim).
 */
#ifndef GC_HANDLE_H
#define GC_HANDLE_H

#include "gc/base.h"
#include "gc/roots.h"

struct mutator;

/* All four: depth 0, any number of threads at once; none collects. */
uint64_t handle_new(struct mutator *self, void *object); /* 0 with errno ENOMEM */
void *handle_get(struct mutator *self, uint64_t handle); /* takes no lock */
void handle_set(struct mutator *self, uint64_t handle, void *object);
void handle_free(struct mutator *self, uint64_t handle);

/* Visits all handles as ranges of words; bytes visited. World stopped. */
uint64_t handle_each_root(roots_visit *visit, void *context);
/* Gives back the memory of handles long freed. World stopped: then nobody is reading a slot. */
void handle_trim(void);
/* Frees all handles. At shutdown; only one thread is left. */
void handle_forget(void);
/* Stops the program if an invariant is broken. World stopped, or under no other thread's hands. */
void handle_check(void);

#endif
