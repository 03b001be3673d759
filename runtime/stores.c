/*
 * The stores of the public API: every way to change a pointer in a managed object. Calls barrier.
 *
 * Rule S3. A store loads the old value before it looks at the flag, idle too, and both values stay in registers
 * past the write. So a start stop that comes between the look and the write finds them there, and what is
 * overwritten unrecorded was marked from this thread's registers.
 */
#define _GNU_SOURCE 1 /* qsort_r */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tern/tern.h>

#include "gc/barrier.h"
#include "gc/fault.h"
#include "runtime/runtime.h"

typedef _Atomic(uintptr_t) field_word;

/* The values are in registers, or on the stack, up to here. */
static inline void hold(uintptr_t a, uintptr_t b) {
    __asm__ volatile("" : : "r"(a), "r"(b) : "memory");
}

static inline uintptr_t load_field(const void *field) {
    uintptr_t old = atomic_load_explicit((const field_word *)field, memory_order_relaxed);
    __asm__ volatile("" : "+r"(old) : : "memory");
    return old;
}

/* A thread that is not attached takes the slow path, which attaches it: a stop must find its registers. */
static inline bool needs_record(void) {
    return unlikely(barrier_is_on() || mutator_self == NULL) && !fault_is(FAULT_PLAIN_STORE);
}

static __attribute__((noinline)) void record(uintptr_t old, uintptr_t value) {
    struct mutator *self = runtime_self();
    gc_check(self != NULL, "out of memory: a thread that stores pointers cannot be attached");
    if (!barrier_is_on())
        return;
    barrier_record(self, old);
    barrier_record(self, value);
    hold(old, value);
}

void tern_store(void *field, const void *value) {
    uintptr_t old = load_field(field);
    if (needs_record())
        record(old, (uintptr_t)value);
    /* release: the object that `value` points to is built before others can find it through the field. */
    atomic_store_explicit((field_word *)field, (uintptr_t)value, memory_order_release);
    hold(old, (uintptr_t)value);
}

void tern_init_store(void *field, const void *value) {
    if (needs_record())
        record(0, (uintptr_t)value);
    atomic_store_explicit((field_word *)field, (uintptr_t)value, memory_order_release);
    hold(0, (uintptr_t)value);
}

void *tern_exchange(void *field, const void *value) {
    uintptr_t old = load_field(field);
    do {
        if (needs_record())
            record(old, (uintptr_t)value);
    } while (!atomic_compare_exchange_strong((field_word *)field, &old, (uintptr_t)value));
    hold(old, (uintptr_t)value);
    return (void *)old;
}

bool tern_cas(void *field, void **expected, const void *desired) {
    uintptr_t was = (uintptr_t)*expected, now = was;
    if (needs_record())
        record(was, (uintptr_t)desired);
    bool done = atomic_compare_exchange_strong((field_word *)field, &now, (uintptr_t)desired);
    hold(was, (uintptr_t)desired);
    *expected = (void *)now;
    return done;
}

static void store_range(void *fields, const void *values, size_t count, bool backwards) {
    struct mutator *self = runtime_self();
    gc_check(self != NULL, "out of memory: a thread that stores pointers cannot be attached");
    barrier_store_range(self, fields, values, count, backwards);
}

void tern_store_range(void *fields, const void *values, size_t count) {
    store_range(fields, values, count, false);
}

void tern_move_range(void *to, const void *from, size_t count) {
    store_range(to, from, count, (uintptr_t)to > (uintptr_t)from);
}

void tern_clear_range(void *fields, size_t count) {
    store_range(fields, NULL, count, false);
}

int tern_sort(void *base, size_t count, size_t size,
              int (*compare)(const void *a, const void *b, void *context), void *context) {
    if (size == 0 || size % sizeof(void *) != 0 || compare == NULL) {
        errno = EINVAL;
        return -1;
    }
    /* Complete and unchanged at any time is one of the two: the array while the copy is sorted, the copy, which
     * this frame keeps, while the array is written. */
    void *copy = tern_alloc_array(count, size);
    if (copy == NULL)
        return -1;
    memcpy(copy, base, count * size);
    qsort_r(copy, count, size, compare, context);
    tern_store_range(base, copy, count * (size / sizeof(void *)));
    tern_keep(copy);
    return 0;
}
