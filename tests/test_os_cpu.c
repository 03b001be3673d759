/* How many processors the program may use: what gc/os/os_cpu promises. */
#define _GNU_SOURCE 1
#include "gc/os/os_cpu.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void the_smaller_of_affinity_and_quota_counts(void **state) {
    (void)state;
    static const struct {
        int affinity;
        double quota;
        int want;
    } cases[] = {
        {8, 0, 8},   {8, -1, 8},    {8, 100, 8},  {8, 8, 8},    {8, 4, 4},   {8, 7.5, 8},
        {8, 1.5, 2}, {8, 0.1, 1},   {8, 1.0, 1},  {8, 1.01, 2}, {1, 0.5, 1}, {0, 0, 1},
        {-3, 2, 1},  {2, 1e300, 2}, {8, 1e-9, 1}, {8, NAN, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(os_cpu_combine(cases[i].affinity, cases[i].quota), cases[i].want);
    }
}

static void the_count_is_at_least_one_and_at_most_the_affinity(void **state) {
    (void)state;
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_in_range(os_cpu_count(), 1, CPU_COUNT(&all));
}

static void a_program_bound_to_one_processor_has_one(void **state) {
    (void)state;
    cpu_set_t all;
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(os_cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void *spin(void *over) {
    while (!atomic_load((atomic_bool *)over)) {
    }
    return NULL;
}

/* Others come and go meanwhile, so it is the most of many looks. */
static int most_runnable(void) {
    int most = -1;
    for (int i = 0; i < 200; i++) {
        int now = os_cpu_runnable();
        if (now > most)
            most = now;
        sched_yield();
    }
    return most;
}

#define SPINNING 6

static void threads_that_want_a_processor_are_counted(void **state) {
    (void)state;
    int alone = os_cpu_runnable();
    if (alone < 0)
        skip(); /* the kernel does not say */
    assert_true(alone >= 1);
    pthread_t threads[SPINNING];
    atomic_bool over = false;
    for (size_t i = 0; i < SPINNING; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, spin, &over), 0);
    int most = most_runnable();
    atomic_store(&over, true);
    for (size_t i = 0; i < SPINNING; i++)
        pthread_join(threads[i], NULL);
    assert_true(most >= SPINNING + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smaller_of_affinity_and_quota_counts),
        cmocka_unit_test(the_count_is_at_least_one_and_at_most_the_affinity),
        cmocka_unit_test(a_program_bound_to_one_processor_has_one),
        cmocka_unit_test(threads_that_want_a_processor_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
