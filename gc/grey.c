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
    struct grey_segment *segments; /* objects for any marker; under lock */
    struct grey_segment *own;      /* objects for the library's threads; under lock */
    unsigned busy;                 /* markers that have, or may find, work; under lock */
    unsigned waiting;              /* markers in grey_pool_take; under lock */
    _Atomic uint32_t hungry;       /* relaxed hint: a marker waits and there is nothing for it */
    _Atomic uint32_t turn;         /* futex: changes when work arrives or all are dry; release under lock */
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

static bool is_empty(void) {
    return pool.segments == NULL && pool.own == NULL;
}

void grey_pool_open(void) {
    os_lock_acquire(&pool.lock);
    gc_check(pool.busy == 0 && is_empty(), "marking began before the last one was over");
    atomic_store_explicit(&pool.hungry, 0, memory_order_relaxed);
    os_lock_release(&pool.lock);
}

void grey_pool_enter(void) {
    os_lock_acquire(&pool.lock);
    pool.busy++;
    os_lock_release(&pool.lock);
}

void grey_pool_pause(void) {
    os_lock_acquire(&pool.lock);
    pool.busy--;
    os_lock_release(&pool.lock);
}

bool grey_pool_is_dry(void) {
    os_lock_acquire(&pool.lock);
    bool dry = pool.busy == 0 && is_empty();
    os_lock_release(&pool.lock);
    return dry;
}

/* Tells those who wait that there is something to see. The lock is held. */
static bool announce(void) {
    atomic_store_explicit(&pool.hungry, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&pool.turn, 1, memory_order_release);
    return pool.waiting != 0;
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

/* Puts a chain on one of the pool's lists. The lock is held. */
static void put_chain(struct grey_segment **list, struct grey_segment *chain) {
    while (chain != NULL) {
        struct grey_segment *below = chain->below;
        chain->below = *list;
        *list = chain;
        chain = below;
    }
}

void grey_pool_donate(struct grey_stack *stack) {
    struct grey_segment *given = split(stack);
    if (given == NULL)
        return;
    os_lock_acquire(&pool.lock);
    put_chain(&pool.segments, given);
    bool wake = announce();
    os_lock_release(&pool.lock);
    if (wake)
        os_futex_wake(&pool.turn, INT32_MAX);
}

/* The stack's segments as a chain of which each has its count, leaving an empty stack with one segment. */
static struct grey_segment *take_all(struct grey_stack *stack) {
    struct grey_segment *fresh = stack->spare != NULL ? stack->spare : new_segment();
    if (fresh == NULL)
        return NULL;
    struct grey_segment *all = stack->top;
    all->count = stack->count;
    stack->spare = NULL;
    fresh->below = NULL;
    stack->top = fresh;
    stack->count = 0;
    stack->segments = 1;
    return all;
}

static bool has_entries(const struct grey_stack *stack) {
    return stack->top != NULL && (stack->count != 0 || stack->top->below != NULL);
}

void grey_pool_leave(struct grey_stack *stack, struct grey_stack *own) {
    struct grey_segment *mine = has_entries(stack) ? take_all(stack) : NULL;
    struct grey_segment *theirs = own != NULL && has_entries(own) ? take_all(own) : NULL;
    /* Without memory for an empty segment the stack itself goes, and is made anew when it is needed. */
    if (mine == NULL && has_entries(stack)) {
        mine = stack->top;
        mine->count = stack->count;
        *stack = (struct grey_stack){0};
    }
    if (theirs == NULL && own != NULL && has_entries(own)) {
        theirs = own->top;
        theirs->count = own->count;
        *own = (struct grey_stack){0};
    }
    os_lock_acquire(&pool.lock);
    put_chain(&pool.segments, mine);
    put_chain(&pool.own, theirs);
    pool.busy--;
    bool wake = (mine != NULL || theirs != NULL || pool.busy == 0) && announce();
    os_lock_release(&pool.lock);
    if (wake)
        os_futex_wake(&pool.turn, INT32_MAX);
}

bool grey_pool_put(const grey_entry *entries, size_t count) {
    bool wake = false;
    os_lock_acquire(&pool.lock);
    while (count != 0) {
        struct grey_segment *s = pool.segments;
        if (s == NULL || s->count == GREY_SEGMENT_ENTRIES) {
            s = new_segment();
            if (s == NULL)
                break;
            put_chain(&pool.segments, s);
        }
        size_t n = GREY_SEGMENT_ENTRIES - s->count;
        if (n > count)
            n = count;
        memcpy(s->entries + s->count, entries, n * sizeof *entries);
        s->count += n;
        entries += n;
        count -= n;
        wake = true;
    }
    wake = wake && announce();
    os_lock_release(&pool.lock);
    if (wake)
        os_futex_wake(&pool.turn, INT32_MAX);
    return count == 0;
}

/* Moves one segment of work from the pool into the stack. The lock is held. */
static bool take_one(struct grey_stack *stack, bool guest) {
    gc_assert(stack->count == 0 && stack->top->below == NULL);
    struct grey_segment **list = pool.segments != NULL        ? &pool.segments
                                 : pool.own != NULL && !guest ? &pool.own
                                                              : NULL;
    if (list == NULL)
        return false;
    struct grey_segment *s = *list;
    *list = s->below;
    s->below = NULL;
    if (stack->spare == NULL)
        stack->spare = stack->top;
    else
        free_segment(stack->top);
    stack->top = s;
    stack->count = (uint32_t)s->count;
    if (fault_is(FAULT_DROP_HALF_STOLEN))
        stack->count /= 2;
    return true;
}

bool grey_pool_try(struct grey_stack *stack, bool guest) {
    os_lock_acquire(&pool.lock);
    bool work = take_one(stack, guest);
    if (work)
        pool.busy++;
    else if (pool.busy != 0)
        atomic_store_explicit(&pool.hungry, 1, memory_order_relaxed); /* whoever has work gives some away */
    os_lock_release(&pool.lock);
    return work;
}

bool grey_pool_take(struct grey_stack *stack) {
    os_lock_acquire(&pool.lock);
    pool.busy--;
    for (;;) {
        if (take_one(stack, false)) {
            pool.busy++;
            os_lock_release(&pool.lock);
            return true;
        }
        if (pool.busy == 0) {
            bool wake = announce();
            os_lock_release(&pool.lock);
            if (wake)
                os_futex_wake(&pool.turn, INT32_MAX);
            return false;
        }
        uint32_t turn = atomic_load_explicit(&pool.turn, memory_order_relaxed);
        pool.waiting++;
        atomic_store_explicit(&pool.hungry, 1, memory_order_relaxed);
        os_lock_release(&pool.lock);
        os_futex_wait(&pool.turn, turn, -1);
        os_lock_acquire(&pool.lock);
        pool.waiting--;
    }
}
