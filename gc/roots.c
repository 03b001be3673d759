/* See roots.h. Calls fiber, handle, cleanup, offheap, gc/os. */
#include "gc/roots.h"

#include <errno.h>
#include <string.h>

#include "gc/cleanup.h"
#include "gc/fault.h"
#include "gc/fiber.h"
#include "gc/handle.h"
#include "gc/mutator.h"
#include "gc/offheap.h"
#include "gc/os/os_segment.h"
#include "gc/os/os_signal.h"
#include "gc/os/os_thread.h"
#include "gc/settings.h"

/* Registered ranges as they were given, to the byte, sorted by address, not overlapping. Changed under lock
 * inside S1; read with the world stopped. */
static struct {
    struct os_lock lock;
    struct os_range *ranges;
    size_t count, capacity;
} registered;

/* Writable data segments as of this stop. */
#define SEGMENTS_MOST 4096
static struct {
    struct os_range ranges[SEGMENTS_MOST];
    size_t count;
} segments;

/* Index of the first range that ends after `at`. */
static size_t lower_bound(uintptr_t at) {
    size_t lo = 0, hi = registered.count;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (registered.ranges[mid].hi <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int roots_add(const void *from, size_t bytes) {
    uintptr_t lo = (uintptr_t)from, hi = lo + bytes;
    int error = EINVAL;
    /* The last word of all addresses is left out: past it lies 0. */
    if (from == NULL || bytes == 0 || hi < lo || hi > align_down(UINTPTR_MAX, sizeof(void *))) {
        errno = error;
        return -1;
    }
    os_lock_acquire(&registered.lock);
    size_t at = lower_bound(lo);
    if (at < registered.count && registered.ranges[at].lo < hi)
        goto out;
    if (registered.count == registered.capacity) {
        size_t capacity = registered.capacity == 0 ? 64 : registered.capacity * 2;
        struct os_range *more = offheap_realloc(registered.ranges, capacity * sizeof *more);
        error = ENOMEM;
        if (more == NULL)
            goto out;
        registered.ranges = more;
        registered.capacity = capacity;
    }
    memmove(&registered.ranges[at + 1], &registered.ranges[at],
            (registered.count - at) * sizeof *registered.ranges);
    registered.ranges[at] = (struct os_range){lo, hi};
    registered.count++;
    error = 0;
out:
    os_lock_release(&registered.lock);
    if (error != 0)
        errno = error;
    return error == 0 ? 0 : -1;
}

int roots_remove(const void *from) {
    int error = ENOENT;
    os_lock_acquire(&registered.lock);
    size_t at = lower_bound((uintptr_t)from);
    if (at < registered.count && registered.ranges[at].lo == (uintptr_t)from) {
        registered.count--;
        memmove(&registered.ranges[at], &registered.ranges[at + 1],
                (registered.count - at) * sizeof *registered.ranges);
        error = 0;
    }
    os_lock_release(&registered.lock);
    if (error != 0)
        errno = error;
    return error == 0 ? 0 : -1;
}

const struct os_range *roots_registered(size_t *count) {
    *count = registered.count;
    return registered.ranges;
}

const struct os_range *roots_segments(size_t *count) {
    *count = settings.data_segments ? segments.count : 0;
    return segments.ranges;
}

void roots_forget(void) {
    offheap_free(registered.ranges);
    registered.ranges = NULL;
    registered.count = registered.capacity = 0;
}

static void note_segment(void *context, struct os_range range, const char *object_name) {
    (void)context;
    (void)object_name;
    gc_check(segments.count < SEGMENTS_MOST, "more than 4096 writable data segments");
    segments.ranges[segments.count++] = range;
}

static void segments_stop(void *context) {
    void (*stop)(void) = *(void (**)(void))context;
    stop();
}

void roots_stop_with_segments(void (*stop)(void)) {
    segments.count = 0;
    os_segment_each(segments_stop, note_segment, &stop);
}

/* Lowest word of [from, to) that is an address in [lo, hi), or hi. */
GC_NO_SANITIZE static uintptr_t lowest_address(uintptr_t from, uintptr_t to, uintptr_t lo, uintptr_t hi) {
    uintptr_t lowest = hi;
    for (uintptr_t at = from; at < to; at += sizeof(uintptr_t)) {
        uintptr_t word = *(const uintptr_t *)at;
        if (word >= lo && word < lowest)
            lowest = word;
    }
    return lowest;
}

static uint64_t visit_range(uintptr_t from, uintptr_t to, roots_visit *visit, void *context) {
    from = align_down(from, sizeof(uintptr_t));
    if (from >= to)
        return 0;
    visit(context, (const void *)from, (to - from) / sizeof(uintptr_t));
    return to - from;
}

/* All of the thread's own stack that is there: it is parked, at a place that nobody has told. */
static uint64_t visit_whole(const struct mutator *m, roots_visit *visit, void *context) {
    return visit_range(os_thread_stack_floor(m->stack_lo, m->stack_hi), m->stack_hi, visit, context);
}

/*
 * The stack of a thread whose pointer is `sp`. Of one that was interrupted the bytes below it that leaf
 * functions may use are included; one that stopped by itself did so in a call, and below it may lie the
 * collector's own frames.
 */
static uint64_t visit_stacks(const struct mutator *m, uintptr_t sp, const struct os_context *at,
                             roots_visit *visit, void *context) {
    uintptr_t from = at != NULL ? sp - OS_RED_ZONE : sp;
    /* Before the thread's own stack: a fiber's may lie in it. The fiber's is visited whole, with all others. */
    if (fiber_note_current(sp))
        return visit_whole(m, visit, context);
    if (sp >= m->stack_lo && sp <= m->stack_hi)
        return visit_range(from < m->stack_lo ? m->stack_lo : from, m->stack_hi, visit, context);
    if (at == NULL || !at->on_alt)
        fatal_misuse("a thread was stopped on a stack that the library does not know", sp,
                     "Register the stack with tern_fiber_new before it runs; else run managed code on the "
                     "thread's own stack or its sigaltstack, and allocate nothing in signal handlers.");
    /*
     * The alternate stack holds the kernel's frame of the signal that switched to it, and in it the registers
     * and the stack pointer of the main stack. No word below that pointer is a root, so the lowest address
     * into the main stack that the alternate stack holds is low enough to start from. With fibers the frame may
     * be of one: it is scanned whole with the parked ones, and so is the main stack.
     */
    if (from < at->alt_lo)
        from = at->alt_lo;
    uint64_t bytes = visit_range(from, at->alt_hi, visit, context);
    if (fiber_any())
        return bytes + visit_whole(m, visit, context);
    uintptr_t main_from = lowest_address(align_down(from, sizeof(uintptr_t)),
                                         align_down(at->alt_hi, sizeof(uintptr_t)), m->stack_lo, m->stack_hi);
    main_from = main_from - m->stack_lo > OS_RED_ZONE ? main_from - OS_RED_ZONE : m->stack_lo;
    return bytes + visit_range(main_from, m->stack_hi, visit, context);
}

uint64_t roots_each_mutator(const struct mutator *m, roots_visit *visit, void *context) {
    /* It ended without its destructors (see stop): its stack may be unmapped, to the red zone's last byte. */
    if (m->sp == m->stack_hi)
        return 0;
    if (m->context == NULL) {
        visit(context, m->spill, OS_SPILL_WORDS);
        visit(context, m->frames, m->frame_words);
        return sizeof m->spill + m->frame_words * sizeof(uintptr_t) +
               visit_stacks(m, m->sp, NULL, visit, context);
    }
    struct os_context at;
    os_signal_context(m->context, &at);
    visit(context, at.regs, at.regs_bytes / sizeof(uintptr_t));
    if (!fault_is(FAULT_VECTOR_REGISTER_UNSCANNED))
        visit(context, at.xstate, at.xstate_bytes / sizeof(uintptr_t));
    return at.regs_bytes + at.xstate_bytes + visit_stacks(m, at.sp, &at, visit, context);
}

struct roots_size roots_each(roots_visit *visit, void *context) {
    struct roots_size size = {0, 0};
    for (const struct mutator *m = mutator_list; m != NULL; m = m->next)
        size.stack_bytes += roots_each_mutator(m, visit, context);
    size.stack_bytes += fiber_each(visit, context);
    for (size_t i = 0; i < registered.count; i++)
        size.global_bytes += visit_range(align_up(registered.ranges[i].lo, sizeof(void *)),
                                         align_down(registered.ranges[i].hi, sizeof(void *)), visit, context);
    if (settings.data_segments)
        for (size_t i = 0; i < segments.count; i++)
            size.global_bytes += visit_range(segments.ranges[i].lo, segments.ranges[i].hi, visit, context);
    handle_each_root(visit, context);
    cleanup_each_root(visit, context);
    return size;
}
