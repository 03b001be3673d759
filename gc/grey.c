/* See grey.h. Calls offheap and os_futex. */
#include "gc/grey.h"

#include <string.h>

#include "gc/fault.h"
#include "gc/offheap.h"
#include "gc/os/os_futex.h"

uint32_t grey_segments_most;
static _Atomic uint32_t segments_now; /* relaxed, for the bound above */

static struct {
    struct os_lock lock;
    struct grey_segment *segments; /* under lock */
    unsigned markers;              /* under lock */
    unsigned dry;                  /* under lock */
    bool over;                     /* under lock */
    _Atomic uint32_t hungry;       /* relaxed hint: dry markers that no segment waits for */
    _Atomic uint32_t turn; /* futex: changes when segments arrive or marking is over; release under lock */
} pool;

static struct grey_segment *new_segment(void) {
    if (grey_segments_most != 0 &&
        atomic_load_explicit(&segments_now, memory_order_relaxed) >= grey_segments_most)
        return NULL;
    struct grey_segment *s = offheap_alloc(sizeof *s);
    if (s == NULL)
        return NULL;
    atomic_fetch_add_explicit(&segments_now, 1, memory_order_relaxed);
    s->below = NULL;
    s->count = 0;
    return s;
}

static void free_segment(struct grey_segment *s) {
    if (s == NULL)
        return;
    atomic_fetch_sub_explicit(&segments_now, 1, memory_order_relaxed);
    offheap_free(s);
}

int grey_stack_init(struct grey_stack *stack) {
    memset(stack, 0, sizeof *stack);
    stack->top = new_segment();
    stack->segments = 1;
    return stack->top == NULL ? -1 : 0;
}

void grey_stack_destroy(struct grey_stack *stack) {
    while (stack->top != NULL) {
        struct grey_segment *s = stack->top;
        stack->top = s->below;
        free_segment(s);
    }
    free_segment(stack->spare);
    stack->spare = NULL;
    stack->count = 0;
}

bool grey_push_slow(struct grey_stack *stack, grey_entry e) {
    struct grey_segment *s = stack->spare != NULL ? stack->spare : new_segment();
    if (s == NULL)
        return false;
    stack->spare = NULL;
    stack->top->count = stack->count;
    s->below = stack->top;
    stack->top = s;
    stack->segments++;
    s->entries[0] = e;
    stack->count = 1;
    return true;
}

bool grey_pop_slow(struct grey_stack *stack, grey_entry *e) {
    struct grey_segment *empty = stack->top;
    if (empty->below == NULL)
        return false;
    stack->top = empty->below;
    stack->count = (uint32_t)stack->top->count;
    stack->segments--;
    if (stack->spare == NULL)
        stack->spare = empty;
    else
        free_segment(empty);
    gc_assert(stack->count != 0);
    *e = stack->top->entries[--stack->count];
    return true;
}

void grey_pool_open(unsigned markers) {
    gc_assert(pool.segments == NULL);
    pool.markers = markers;
    pool.dry = 0;
    pool.over = false;
    atomic_store_explicit(&pool.hungry, 0, memory_order_relaxed);
}

bool grey_pool_hungry(void) {
    return atomic_load_explicit(&pool.hungry, memory_order_relaxed) != 0;
}

/* The bottom half of the stack as a chain of segments, or NULL. */
static struct grey_segment *split(struct grey_stack *stack) {
    if (stack->segments >= 2) {
        struct grey_segment *keep = stack->top;
        for (uint32_t i = 1; i < (stack->segments + 1) / 2; i++)
            keep = keep->below;
        struct grey_segment *given = keep->below;
        keep->below = NULL;
        stack->segments = (stack->segments + 1) / 2;
        return given;
    }
    if (stack->count < 2)
        return NULL;
    struct grey_segment *given = stack->spare != NULL ? stack->spare : new_segment();
    if (given == NULL)
        return NULL;
    stack->spare = NULL;
    uint32_t half = stack->count / 2;
    memcpy(given->entries, stack->top->entries, half * sizeof(grey_entry));
    memmove(stack->top->entries, stack->top->entries + half, (stack->count - half) * sizeof(grey_entry));
    stack->count -= half;
    given->count = half;
    given->below = NULL;
    return given;
}

void grey_pool_donate(struct grey_stack *stack) {
    struct grey_segment *given = split(stack);
    if (given == NULL)
        return;
    os_lock_acquire(&pool.lock);
    while (given != NULL) {
        struct grey_segment *below = given->below;
        given->below = pool.segments;
        pool.segments = given;
        given = below;
    }
    atomic_store_explicit(&pool.hungry, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&pool.turn, 1, memory_order_release);
    os_lock_release(&pool.lock);
    os_futex_wake(&pool.turn, INT32_MAX);
}

bool grey_pool_take(struct grey_stack *stack) {
    gc_assert(stack->count == 0 && stack->top->below == NULL);
    bool counted = false;
    os_lock_acquire(&pool.lock);
    for (;;) {
        struct grey_segment *s = pool.segments;
        if (s != NULL) {
            pool.segments = s->below;
            if (counted)
                pool.dry--;
            os_lock_release(&pool.lock);
            if (stack->spare == NULL)
                stack->spare = stack->top;
            else
                free_segment(stack->top);
            s->below = NULL;
            stack->top = s;
            stack->count = (uint32_t)s->count;
            if (fault_is(FAULT_DROP_HALF_STOLEN))
                stack->count /= 2;
            return true;
        }
        if (!counted) {
            counted = true;
            pool.dry++;
            atomic_store_explicit(&pool.hungry, 1, memory_order_relaxed);
        }
        if (pool.dry == pool.markers)
            pool.over = true;
        uint32_t turn = atomic_load_explicit(&pool.turn, memory_order_relaxed);
        if (pool.over) {
            atomic_store_explicit(&pool.turn, turn + 1, memory_order_release);
            os_lock_release(&pool.lock);
            os_futex_wake(&pool.turn, INT32_MAX);
            return false;
        }
        os_lock_release(&pool.lock);
        os_futex_wait(&pool.turn, turn, -1);
        os_lock_acquire(&pool.lock);
        /* Others may have been fed in between: this one is still hungry. */
        if (pool.segments == NULL && !pool.over)
            atomic_store_explicit(&pool.hungry, 1, memory_order_relaxed);
    }
}
