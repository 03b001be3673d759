/* The writable data of the program and its libraries: what gc/os/os_segment promises. */
#define _GNU_SOURCE 1
#include "gc/os/os_segment.h"

#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_RANGES    256
#define NO_SANITIZERS __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

struct found {
    int firsts;
    int ranges_before_first;
    size_t n;
    struct os_range ranges[MAX_RANGES];
    const char *names[MAX_RANGES];
};

static int in_data = 42;
static int in_bss;
static _Thread_local int in_tls = 42;
static int *const read_only_after_relocation = &in_data;

static void count_first(void *ctx) {
    struct found *found = ctx;
    found->firsts++;
    found->ranges_before_first = (int)found->n;
}

static void note(void *ctx, struct os_range r, const char *name) {
    struct found *found = ctx;
    if (found->n < MAX_RANGES) {
        found->ranges[found->n] = r;
        found->names[found->n] = name;
    }
    found->n++;
}

static struct found walk(void) {
    struct found found = {.n = 0};
    assert_int_equal(os_segment_each(count_first, note, &found), 0);
    assert_in_range(found.n, 1, MAX_RANGES);
    return found;
}

/* The name of the object whose range holds p; NULL when none does. */
static const char *owner(const struct found *found, const void *p) {
    for (size_t i = 0; i < found->n; i++) {
        if (found->ranges[i].lo <= (uintptr_t)p && (uintptr_t)p < found->ranges[i].hi) {
            return found->names[i];
        }
    }
    return NULL;
}

static void variables_of_the_program_are_found_whether_initialised_or_not(void **state) {
    (void)state;
    static int local = 1;
    struct found found = walk();
    in_bss = 1;
    assert_string_equal(owner(&found, &in_data), "");
    assert_string_equal(owner(&found, &in_bss), "");
    assert_string_equal(owner(&found, &local), "");
}

static void variables_of_a_shared_library_are_found_under_its_name(void **state) {
    (void)state;
    struct found found = walk();
    bool libc = false;
    for (size_t i = 0; i < found.n; i++) {
        libc = libc || strstr(found.names[i], "libc.so") != NULL;
    }
    if (!libc) {
        skip(); /* a static program */
    }
    /* A variable inside the C library: where getenv looks. */
    assert_non_null(owner(&found, &environ));
}

static void what_cannot_change_or_belongs_to_a_thread_is_left_out(void **state) {
    (void)state;
    static const int constant = 42;
    int on_stack = 42;
    void *on_heap = malloc(16);
    struct found found = walk();
    assert_null(owner(&found, &constant));
    assert_null(owner(&found, &read_only_after_relocation));
    assert_null(owner(&found, &in_tls));
    assert_null(owner(&found, &on_stack));
    assert_null(owner(&found, on_heap));
    free(on_heap);
}

static void first_is_called_once_and_before_any_segment(void **state) {
    (void)state;
    struct found found = walk();
    assert_int_equal(found.firsts, 1);
    assert_int_equal(found.ranges_before_first, 0);
    size_t n = found.n;
    found.n = 0;
    assert_int_equal(os_segment_each(NULL, note, &found), 0);
    assert_int_equal(found.n, n);
}

static void ranges_are_whole_words_that_do_not_overlap(void **state) {
    (void)state;
    struct found found = walk();
    for (size_t i = 0; i < found.n; i++) {
        assert_int_equal(found.ranges[i].lo % sizeof(void *), 0);
        assert_int_equal(found.ranges[i].hi % sizeof(void *), 0);
        assert_true(found.ranges[i].lo < found.ranges[i].hi);
        for (size_t j = 0; j < i; j++) {
            assert_true(found.ranges[i].hi <= found.ranges[j].lo || found.ranges[j].hi <= found.ranges[i].lo);
        }
    }
}

NO_SANITIZERS static uintptr_t sum(struct os_range r) {
    uintptr_t total = 0;
    for (const uintptr_t *p = (const uintptr_t *)r.lo; p < (const uintptr_t *)r.hi; p++) {
        total += *p;
    }
    return total;
}

static void every_word_of_every_range_can_be_read(void **state) {
    (void)state;
    struct found found = walk();
    uintptr_t total = 0;
    for (size_t i = 0; i < found.n; i++) {
        total += sum(found.ranges[i]);
    }
    assert_true(total != 1); /* so that the reads are not optimised away */
}

/* Steps of the thread that wants the loader's lock. */
enum { WAITING = 0, GO = 1, ABOUT_TO_LOCK = 2, HAS_LOCKED = 3 };
static _Atomic int step;
static _Atomic int step_seen_in_each = WAITING;

static int look_at_one(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)info;
    (void)size;
    (void)arg;
    return 1;
}

static void *want_the_loader(void *arg) {
    while (atomic_load(&step) != GO) {
        sched_yield();
    }
    atomic_store(&step, ABOUT_TO_LOCK);
    dl_iterate_phdr(look_at_one, NULL);
    atomic_store(&step, HAS_LOCKED);
    return arg;
}

static void let_it_try(void *ctx) {
    (void)ctx;
    atomic_store(&step, GO);
    while (atomic_load(&step) == GO) {
        sched_yield();
    }
    usleep(20000); /* time to go wrong in; without it the test could pass by chance, never fail by chance */
}

static void look_at_step(void *ctx, struct os_range r, const char *name) {
    (void)ctx;
    (void)r;
    (void)name;
    atomic_store(&step_seen_in_each, atomic_load(&step));
}

static void the_loader_is_locked_from_first_to_the_last_segment(void **state) {
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, want_the_loader, NULL), 0);
    assert_int_equal(os_segment_each(let_it_try, look_at_step, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&step_seen_in_each), ABOUT_TO_LOCK);
    assert_int_equal(atomic_load(&step), HAS_LOCKED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_of_the_program_are_found_whether_initialised_or_not),
        cmocka_unit_test(variables_of_a_shared_library_are_found_under_its_name),
        cmocka_unit_test(what_cannot_change_or_belongs_to_a_thread_is_left_out),
        cmocka_unit_test(first_is_called_once_and_before_any_segment),
        cmocka_unit_test(ranges_are_whole_words_that_do_not_overlap),
        cmocka_unit_test(every_word_of_every_range_can_be_read),
        cmocka_unit_test(the_loader_is_locked_from_first_to_the_last_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
