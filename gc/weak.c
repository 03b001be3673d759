/* See weak.h. Calls alloc for cells, inspect and mark to look at objects, addr_table, mutator (S1),
 * gc/os/os_futex. */
#include "gc/weak.h"

#include <errno.h>

#include "gc/addr_table.h"
#include "gc/alloc.h"
#include "gc/inspect.h"
#include "gc/mark.h"
#include "gc/mutator.h"

struct tern_weak {
    /* Relaxed: written once before the cell is published, and once more with the world stopped. */
    _Atomic uintptr_t target;
    uintptr_t base; /* of the object: the table's key */
};

static struct {
    struct os_lock lock;
    struct addr_table cells; /* object's base -> cell. Under the lock, or with the world stopped */
    _Atomic uint64_t count;  /* of the table, relaxed: for statistics */
} weak;

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
static struct tern_weak *find_or_add(uintptr_t base, const void *object, struct tern_weak *fresh) {
    os_lock_acquire(&weak.lock);
    uint64_t *there = addr_table_find(&weak.cells, base);
    struct tern_weak *cell = there != NULL ? cell_of(*there) : fresh;
    if (there == NULL && fresh != NULL) {
        atomic_store_explicit(&fresh->target, (uintptr_t)object, memory_order_relaxed);
        fresh->base = base;
        if (addr_table_put(&weak.cells, base, (uintptr_t)fresh) != 0)
            cell = NULL;
        publish_count();
    }
    os_lock_release(&weak.lock);
    return cell;
}

struct tern_weak *weak_new(struct mutator *self, const void *object) {
    mutator_enter(self);
    struct inspect_object what;
    bool usable = inspect_find(object, &what) && what.kind != KIND_TINY;
    uintptr_t base = usable ? (uintptr_t)what.base : 0;
    struct tern_weak *cell = usable ? find_or_add(base, object, NULL) : NULL;
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
    cell = find_or_add(base, object, fresh);
    mutator_leave(self);
    return cell;
}

void *weak_get(struct mutator *self, const struct tern_weak *cell) {
    mutator_enter(self);
    void *object = (void *)atomic_load_explicit(&cell->target, memory_order_relaxed);
    mutator_leave(self);
    return object;
}

void weak_after_mark(void) {
    struct addr_walk walk;
    addr_walk_begin(&weak.cells, &walk);
    struct addr_entry *entry;
    while ((entry = addr_walk_next(&weak.cells, &walk)) != NULL) {
        struct tern_weak *cell = cell_of(entry->value);
        bool cell_lives = mark_is_marked(cell);
        if (cell_lives && mark_is_marked((const void *)entry->key))
            continue;
        if (cell_lives) {
            gc_check(cell->base == entry->key, "a weak reference was overwritten");
            atomic_store_explicit(&cell->target, 0, memory_order_relaxed);
        }
        addr_walk_remove(&weak.cells, &walk);
    }
    addr_table_trim(&weak.cells);
    publish_count();
    if (TERN_ASSERT_LEVEL >= 2)
        addr_table_check(&weak.cells);
}

uint64_t weak_count(void) {
    return atomic_load_explicit(&weak.count, memory_order_relaxed);
}

void weak_forget(void) {
    addr_table_destroy(&weak.cells);
    publish_count();
}
