/* See pressure.h. */
#include "gc/pressure.h"

#include "gc/account.h"
#include "gc/cycle.h"
#include "gc/heap.h"
#include "gc/os/os_futex.h"
#include "gc/settings.h"

_Atomic bool pressure_is_watched;

static struct {
    struct os_lock lock;         /* a leaf, taken inside S1 */
    pressure_function *function; /* under lock, as is context */
    void *context;
    uint32_t told; /* epoch of the last call; under lock */
} pressure;

pressure_function *pressure_on(pressure_function *function, void *context) {
    os_lock_acquire(&pressure.lock);
    pressure_function *before = pressure.function;
    pressure.function = function;
    pressure.context = context;
    pressure.told = 0;
    os_lock_release(&pressure.lock);
    atomic_store_explicit(&pressure_is_watched, function != NULL, memory_order_relaxed);
    return before;
}

void pressure_look(struct mutator *self, uint64_t request) {
    if (!account_would_pass_limit(request))
        return;
    mutator_enter(self);
    os_lock_acquire(&pressure.lock);
    pressure_function *function = pressure.told != heap_epoch() ? pressure.function : NULL;
    void *context = pressure.context;
    pressure.told = heap_epoch();
    os_lock_release(&pressure.lock);
    mutator_leave(self);
    /* A function that allocates comes here again, and finds that this epoch was told. */
    if (function != NULL && function(atomic_load_explicit(&settings.memory_limit, memory_order_relaxed),
                                     account_total(), context))
        cycle_collect(self, CYCLE_EMERGENCY);
}
