/*
 * The stores of the public API: every way to change a pointer in a managed object. Calls barrier.
 */
#define _GNU_SOURCE 1 /* qsort_r */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tern/tern.h>

#include "gc/base.h"

typedef _Atomic(const void *) field_word;

void tern_store(void *field, const void *value) {
    /* release: the object that `value` points to is built before others can find it through the field. */
    atomic_store_explicit((field_word *)field, value, memory_order_release);
}

void tern_init_store(void *field, const void *value) {
    atomic_store_explicit((field_word *)field, value, memory_order_release);
}

void tern_store_range(void *fields, const void *values, size_t count) {
    memcpy(fields, values, count * sizeof(void *));
}

void tern_move_range(void *to, const void *from, size_t count) {
    memmove(to, from, count * sizeof(void *));
}

void tern_clear_range(void *fields, size_t count) {
    memset(fields, 0, count * sizeof(void *));
}

void *tern_exchange(void *field, const void *value) {
    return (void *)atomic_exchange((field_word *)field, value);
}

bool tern_cas(void *field, void **expected, const void *desired) {
    const void *was = *expected;
    bool done = atomic_compare_exchange_strong((field_word *)field, &was, desired);
    *expected = (void *)was;
    return done;
}

int tern_sort(void *base, size_t count, size_t size,
              int (*compare)(const void *a, const void *b, void *context), void *context) {
    if (size == 0 || size % sizeof(void *) != 0 || compare == NULL) {
        errno = EINVAL;
        return -1;
    }
    /* Complete and unchanged at any time is one of the two: the array while the copy is sorted, the copy,
     * which this frame keeps, while the array is written. */
    void *copy = tern_alloc_array(count, size);
    if (copy == NULL)
        return -1;
    memcpy(copy, base, count * size);
    qsort_r(copy, count, size, compare, context);
    tern_store_range(base, copy, count * (size / sizeof(void *)));
    tern_keep(copy);
    return 0;
}
