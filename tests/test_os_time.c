/* Clocks: what gc/os/os_time promises. Relations only; a loaded machine must not fail this. */
#define _GNU_SOURCE 1
#include "gc/os/os_time.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#define WORK_NS  (20 * 1000 * 1000)
#define SLEEP_NS (20 * 1000 * 1000)

/* Uses WORK_NS of the calling thread's processor time, whatever that takes. */
static void work(void) {
    int64_t until = os_time_thread_cpu_ns() + WORK_NS;
    while (os_time_thread_cpu_ns() < until) {
    }
}

static void *work_in_a_thread(void *used) {
    int64_t before = os_time_thread_cpu_ns();
    work();
    *(int64_t *)used = os_time_thread_cpu_ns() - before;
    return NULL;
}

static void the_monotonic_clock_never_goes_back(void **state) {
    (void)state;
    int64_t last = os_time_mono_ns();
    assert_true(last > 0);
    for (int i = 0; i < 100000; i++) {
        int64_t now = os_time_mono_ns();
        assert_true(now >= last);
        last = now;
    }
}

static void a_sleep_takes_time_but_no_processor(void **state) {
    (void)state;
    int64_t mono = os_time_mono_ns();
    int64_t cpu = os_time_thread_cpu_ns();
    struct timespec t = {0, SLEEP_NS};
    while (nanosleep(&t, &t) != 0) {
    }
    int64_t mono_used = os_time_mono_ns() - mono;
    int64_t cpu_used = os_time_thread_cpu_ns() - cpu;
    assert_true(mono_used >= SLEEP_NS);
    assert_true(cpu_used < mono_used - SLEEP_NS / 2);
}

static void processor_time_of_a_thread_is_not_more_than_the_time_that_passed(void **state) {
    (void)state;
    int64_t mono = os_time_mono_ns();
    int64_t cpu = os_time_thread_cpu_ns();
    work();
    int64_t cpu_used = os_time_thread_cpu_ns() - cpu;
    int64_t mono_used = os_time_mono_ns() - mono;
    assert_true(cpu_used >= WORK_NS);
    assert_true(cpu_used <= mono_used);
}

static void the_process_clock_counts_the_work_of_all_threads(void **state) {
    (void)state;
    int64_t process = os_time_process_cpu_ns();
    int64_t own = os_time_thread_cpu_ns();
    int64_t used = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, work_in_a_thread, &used), 0);
    work();
    assert_int_equal(pthread_join(thread, NULL), 0);
    int64_t own_used = os_time_thread_cpu_ns() - own;
    assert_true(used >= WORK_NS);
    assert_true(os_time_process_cpu_ns() - process >= own_used + used);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_monotonic_clock_never_goes_back),
        cmocka_unit_test(a_sleep_takes_time_but_no_processor),
        cmocka_unit_test(processor_time_of_a_thread_is_not_more_than_the_time_that_passed),
        cmocka_unit_test(the_process_clock_counts_the_work_of_all_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
