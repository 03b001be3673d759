/* See fiber.h. Calls offheap, mutator and heap (the epoch). */
#include "gc/fiber.h"

#include <errno.h>
#include <string.h>

#include "gc/heap.h"
#include "gc/mutator.h"
#include "gc/offheap.h"

/* Sorted by address, not overlapping. Changed under the lock inside S1; read with the world stopped. */
static struct {
    struct os_lock lock;
    struct fiber **list;
    size_t count, capacity;
} fibers;

/* Index of the first fiber that ends after `at`. */
static size_t lower_bound(uintptr_t at) {
    size_t lo = 0, hi = fibers.count;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (fibers.list[mid]->hi <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* An epoch that no cycle until the next has. */
static uint32_t unseen(void) {
    return heap_epoch() - 1;
}

/* Puts it where it belongs; 0 or an error. The lock is held. */
static int add(struct fiber *fiber) {
    size_t at = lower_bound(fiber->lo);
    if (at < fibers.count && fibers.list[at]->lo < fiber->hi)
        return EINVAL;
    if (fibers.count == fibers.capacity) {
        size_t capacity = fibers.capacity == 0 ? 64 : fibers.capacity * 2;
        struct fiber **more = offheap_realloc(fibers.list, capacity * sizeof *more);
        if (more == NULL)
            return ENOMEM;
        fibers.list = more;
        fibers.capacity = capacity;
    }
    memmove(&fibers.list[at + 1], &fibers.list[at], (fibers.count - at) * sizeof *fibers.list);
    fibers.list[at] = fiber;
    fibers.count++;
    return 0;
}

struct fiber *fiber_new(void *stack_lo, size_t bytes) {
    uintptr_t from = (uintptr_t)stack_lo;
    uintptr_t lo = align_up(from, sizeof(void *)), hi = align_down(from + bytes, sizeof(void *));
    struct fiber *fiber = NULL;
    int error = EINVAL;
    if (stack_lo != NULL && from + bytes >= from && lo < hi && lo >= from) {
        error = ENOMEM;
        fiber = offheap_alloc(sizeof *fiber);
    }
    if (fiber != NULL) {
        *fiber = (struct fiber){.lo = lo, .hi = hi, .seen_in = unseen()};
        os_lock_acquire(&fibers.lock);
        error = add(fiber);
        os_lock_release(&fibers.lock);
    }
    if (error == 0)
        return fiber;
    offheap_free(fiber);
    errno = error;
    return NULL;
}

/* Its index, or how many there are. By its address alone, since one that was freed may not be read. */
static size_t index_of(const struct fiber *fiber) {
    size_t at = 0;
    while (at < fibers.count && fibers.list[at] != fiber)
        at++;
    return at;
}

void fiber_free(struct fiber *fiber) {
    uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
    os_lock_acquire(&fibers.lock);
    size_t at = index_of(fiber);
    if (at == fibers.count)
        fatal_misuse("a fiber was unregistered that is not registered", (uintptr_t)fiber,
                     "Pass what tern_fiber_new returned, once.");
    if (sp >= fiber->lo && sp < fiber->hi)
        fatal_misuse("a fiber was unregistered by code that runs on it", fiber->lo,
                     "Switch to another stack first, and unregister it from there.");
    fibers.count--;
    memmove(&fibers.list[at], &fibers.list[at + 1], (fibers.count - at) * sizeof *fibers.list);
    os_lock_release(&fibers.lock);
    offheap_free(fiber);
}

void fiber_switch(struct mutator *self, struct fiber *to) {
    /*
     * In this order: a stop in between finds a fiber that this thread may be about to run, and one after it a fiber
     * that was not seen. The other way round, one in between would see it, and it would count as seen when it runs.
     */
    atomic_store_explicit(&self->fiber_lo, to != NULL ? to->lo : 0, memory_order_relaxed);
    compiler_barrier();
    if (to != NULL)
        atomic_store_explicit(&to->seen_in, unseen(), memory_order_relaxed);
}

static struct fiber *find(uintptr_t sp) {
    size_t at = lower_bound(sp);
    if (at < fibers.count && fibers.list[at]->lo <= sp)
        return fibers.list[at];
    /* The very top: nothing was pushed yet. Where another fiber begins there it was taken for that one's. */
    return at > 0 && fibers.list[at - 1]->hi == sp ? fibers.list[at - 1] : NULL;
}

bool fiber_note_current(uintptr_t sp) {
    struct fiber *fiber = find(sp);
    if (fiber != NULL)
        fiber->current_in = atomic_load_explicit(&stop_word, memory_order_relaxed);
    return fiber != NULL;
}

bool fiber_any(void) {
    return fibers.count != 0;
}

uint64_t fiber_each(roots_visit *visit, void *context) {
    uint32_t stop = atomic_load_explicit(&stop_word, memory_order_relaxed), epoch = heap_epoch();
    uint64_t bytes = 0;
    for (size_t i = 0; i < fibers.count; i++) {
        struct fiber *fiber = fibers.list[i];
        bool parked = fiber->current_in != stop;
        bytes += fiber->hi - fiber->lo;
        if (parked && atomic_load_explicit(&fiber->seen_in, memory_order_relaxed) == epoch)
            continue;
        visit(context, (const void *)fiber->lo, (fiber->hi - fiber->lo) / sizeof(uintptr_t));
        if (parked)
            atomic_store_explicit(&fiber->seen_in, epoch, memory_order_relaxed);
    }
    /* What a thread said it would switch to may run as soon as it does. */
    for (const struct mutator *m = mutator_list; m != NULL && fibers.count != 0; m = m->next) {
        uintptr_t lo = atomic_load_explicit(&m->fiber_lo, memory_order_relaxed);
        size_t at = lower_bound(lo);
        if (lo != 0 && at < fibers.count && fibers.list[at]->lo == lo)
            atomic_store_explicit(&fibers.list[at]->seen_in, unseen(), memory_order_relaxed);
    }
    return bytes;
}

struct fiber *const *fiber_list(size_t *count) {
    *count = fibers.count;
    return fibers.list;
}

void fiber_forget(void) {
    for (size_t i = 0; i < fibers.count; i++)
        offheap_free(fibers.list[i]);
    offheap_free(fibers.list);
    fibers.list = NULL;
    fibers.count = fibers.capacity = 0;
}
