/* See weak.h. Calls alloc for cells, inspect and mark to look at objects, addr_table, mutator (S1),
 * gc/os/os_futex. */
#include "gc/weak.h"

#include <errno.h>

#include "gc/addr_table.h"
#include "gc/alloc.h"
#include "gc/barrier.h"
#include "gc/inspect.h"
#include "gc/mark.h"
#include "gc/mutator.h"

struct tern_weak {
    /* Relaxed: written once before the cell is published, and once more when the object was found dead. */
    _Atomic uintptr_t target;
    uintptr_t base; /* of the object: the table's key */
};

static struct {
    struct os_lock lock;
    struct addr_table cells; /* object's base -> cell. Under the lock, or with the world stopped */
    _Atomic uint64_t count;  /* of the table, relaxed: for statistics */
    uint64_t changes;        /* of the table by threads, under the lock */
    /*
     * From the end of marking until the table is cleared: whoever reads asks the marks. Nothing is swept in that
     * time. Set with the world stopped, cleared under the lock with release, before the first sweep.
     */
    _Atomic bool deciding;
} weak;

/* Entries looked at with the lock held: about 10 us, which a thread that wants the lock waits inside S1. */
#define PIECE_ENTRIES 256
/* A table that changes all the time is held to the end after so many beginnings. */
#define BEGINNINGS_MOST 8

static struct tern_weak *cell_of(uint64_t value) {
    return (struct tern_weak *)(uintptr_t)value;
}

static void publish_count(void) {
    atomic_store_explicit(&weak.count, weak.cells.count, memory_order_relaxed);
}

/*
 * The object's cell; or `fresh`, which becomes it; or NULL, when there is none and no `fresh` (errno is left
 * alone), or none can be added (ENOMEM).
 */
static struct tern_weak *find_or_add(struct mutator *self, uintptr_t base, const void *object,
                                     struct tern_weak *fresh) {
    os_lock_acquire(&weak.lock);
    uint64_t *there = addr_table_find(&weak.cells, base);
    struct tern_weak *cell = there != NULL ? cell_of(*there) : NULL;
    /* The table does not keep cells alive: one that nobody else held is found dead with the others. */
    if (cell != NULL && atomic_load_explicit(&weak.deciding, memory_order_relaxed) && mark_found_dead(cell))
        cell = NULL;
    if (cell == NULL && fresh != NULL) {
        cell = fresh;
        atomic_store_explicit(&fresh->target, (uintptr_t)object, memory_order_relaxed);
        fresh->base = base;
        if (addr_table_put(&weak.cells, base, (uintptr_t)fresh) != 0)
            cell = NULL;
        weak.changes++;
        publish_count();
    }
    if (barrier_is_on())
        barrier_record_inside(self, (uintptr_t)cell);
    os_lock_release(&weak.lock);
    return cell;
}

struct tern_weak *weak_new(struct mutator *self, const void *object) {
    mutator_enter(self);
    struct inspect_object what;
    bool usable = inspect_find(object, &what) && what.kind != KIND_TINY;
    uintptr_t base = usable ? (uintptr_t)what.base : 0;
    struct tern_weak *cell = usable ? find_or_add(self, base, object, NULL) : NULL;
    mutator_leave(self);
    if (!usable)
        errno = EINVAL;
    if (!usable || cell != NULL)
        return cell;
    /* Nothing is allocated inside S1. Meanwhile another thread may have added the object's cell: then ours is
     * garbage. */
    struct tern_weak *fresh = alloc_object(self, sizeof *fresh, KIND_LEAF);
    if (fresh == NULL)
        return NULL;
    mutator_enter(self);
    cell = find_or_add(self, base, object, fresh);
    mutator_leave(self);
    return cell;
}

static uintptr_t target_of(const struct tern_weak *cell) {
    return atomic_load_explicit(&cell->target, memory_order_relaxed);
}

/* Inside S1, so that no stop comes between the reading and what follows from it (I4). */
void *weak_get(struct mutator *self, const struct tern_weak *cell) {
    mutator_enter(self);
    uintptr_t object = target_of(cell);
    if (barrier_is_on()) {
        barrier_record_inside(self, object);
    } else if (atomic_load_explicit(&weak.deciding, memory_order_acquire) && object != 0) {
        bool dead = mark_found_dead((const void *)object);
        /* Marks tell the truth while the table is being decided on; after that the cell does. The fence keeps the
         * look at the marks before the second look at the flag. */
        atomic_thread_fence(memory_order_acquire);
        if (!atomic_load_explicit(&weak.deciding, memory_order_acquire))
            object = target_of(cell);
        else if (dead)
            object = 0;
    } else {
        object = target_of(cell);
    }
    mutator_leave(self);
    return (void *)object;
}

void weak_marking_is_over(void) {
    atomic_store_explicit(&weak.deciding, weak.cells.count != 0, memory_order_relaxed);
}

/* One piece; true: the table was walked to its end without a change in between. The lock is held. */
static bool decide_piece(struct addr_walk *walk, size_t most) {
    struct addr_entry *entry;
    for (size_t n = 0; n < most; n++) {
        if ((entry = addr_walk_next(&weak.cells, walk)) == NULL)
            return true;
        struct tern_weak *cell = cell_of(entry->value);
        bool cell_lives = !mark_found_dead(cell);
        if (cell_lives && !mark_found_dead((const void *)entry->key))
            continue;
        if (cell_lives) {
            gc_check(cell->base == entry->key, "a weak reference was overwritten");
            atomic_store_explicit(&cell->target, 0, memory_order_relaxed);
        }
        addr_walk_remove(&weak.cells, walk);
    }
    return false;
}

void weak_after_mark(void) {
    if (!atomic_load_explicit(&weak.deciding, memory_order_relaxed))
        return;
    os_lock_acquire(&weak.lock);
    struct addr_walk walk;
    uint64_t changes = weak.changes;
    addr_walk_begin(&weak.cells, &walk);
    for (int beginnings = 1; !decide_piece(&walk, beginnings < BEGINNINGS_MOST ? PIECE_ENTRIES : SIZE_MAX);) {
        os_lock_release(&weak.lock);
        os_lock_acquire(&weak.lock);
        if (weak.changes != changes) {
            changes = weak.changes;
            addr_walk_begin(&weak.cells, &walk);
            beginnings++;
        }
    }
    addr_table_trim(&weak.cells);
    publish_count();
    if (TERN_ASSERT_LEVEL >= 2)
        addr_table_check(&weak.cells);
    atomic_store_explicit(&weak.deciding, false, memory_order_release);
    os_lock_release(&weak.lock);
}

uint64_t weak_count(void) {
    return atomic_load_explicit(&weak.count, memory_order_relaxed);
}

void weak_forget(void) {
    atomic_store_explicit(&weak.deciding, false, memory_order_relaxed);
    addr_table_destroy(&weak.cells);
    publish_count();
}
