/*
 * Weak references. A reference is a managed leaf object of its own (a cell) that holds the address of its
 * object; the marker never looks inside. Owns the table from an object's base to its cell, which keeps
 * neither alive.
 *
 * The stop that ends marking decides all of them at once (weak_marking_is_over): from then on a read looks at the
 * object's mark, until weak_after_mark has cleared and forgotten the cells of unmarked objects, before anything
 * is swept. So an address in the table is never one that was freed
 * or given out again, and a cell is NULL before its object's cleanups are even queued (gc/cleanup.h decides
 * in the same stop).
 *
 * A weak read happens inside S1, so no stop comes between reading the address and holding it in a register,
 * which the next marking sees. This is also where concurrent marking will shade what is read, and answer NULL
 * for an object that a finished marking left unmarked while its cell is not cleared yet.
 *
 * The table changes inside S1 under the room's own lock, a leaf but for offheap's, or with the world stopped.
 */
#ifndef GC_WEAK_H
#define GC_WEAK_H

#include "gc/base.h"

struct mutator;
struct tern_weak;

/*
 * The cell of the object that contains `object`, which the caller holds: the same one while both live. NULL
 * with errno EINVAL (no object, or one that shares a block) or ENOMEM. Depth 0; may collect.
 */
struct tern_weak *weak_new(struct mutator *self, const void *object);
/* What weak_new was first given, or NULL once it is unreachable. Depth 0. */
void *weak_get(struct mutator *self, const struct tern_weak *weak);

/* The decision, O(1). World stopped, marking over, the epoch advanced. */
void weak_marking_is_over(void);
/* Clears and forgets what was found dead, in pieces. World running or stopped, cycle lock held, nothing swept
 * yet. */
void weak_after_mark(void);
/* References in the table: those whose object and cell both lived at the last collection, and newer ones. */
uint64_t weak_count(void);
/* Forgets all references. At shutdown; only one thread is left. */
void weak_forget(void);

#endif
