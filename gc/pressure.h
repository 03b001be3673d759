/*
 * Memory pressure: tells the program, before the memory limit is passed, that no collection will keep it under it.
 * Owns the program's function. Calls account and cycle.
 */
#ifndef GC_PRESSURE_H
#define GC_PRESSURE_H

#include "gc/base.h"
#include "gc/mutator.h"

/* `limit` and `total` in bytes; true: something was dropped that a collection will find. Called at depth 0 without
 * locks, at most once for each collection, by a thread that allocates. */
typedef bool pressure_function(uint64_t limit, uint64_t total, void *context);
/* NULL: none. Returns the one before. Inside S1. */
pressure_function *pressure_on(pressure_function *function, void *context);

extern _Atomic bool pressure_is_watched; /* relaxed */

/* The rest of pressure_check. */
void pressure_look(struct mutator *self, uint64_t request);

/* An allocation takes `request` bytes from the shared heap. Depth 0; may call the program, and collect. */
static inline void pressure_check(struct mutator *self, uint64_t request) {
    if (unlikely(atomic_load_explicit(&pressure_is_watched, memory_order_relaxed)))
        pressure_look(self, request);
}

#endif
