/* The figures of cycles: sums, maxima, and a percentage of all processors' time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gc/settings.h"
#include "gc/stats.h"

static void cycles_are_numbered_and_summed(void **state) {
    (void)state;
    struct stats_cycles s;
    stats_init(5000);
    for (int i = 1; i <= 10; i++) {
        struct cycle_report one = {.forced = i % 3 == 0,
                                   .stop_cpu_ns = 1,
                                   .mark_cpu_ns = 7,
                                   .assist_ns = 3,
                                   .sweep_cpu_ns = 100,
                                   .other_cpu_ns = 1000};
        stats_stop(1000 * i, 100 * (11 - i));
        assert_int_equal(stats_add(&one), i);
    }
    stats_copy(&s);
    assert_int_equal(s.collections, 10);
    assert_int_equal(s.forced, 3);
    assert_int_equal(s.pauses.count, 10);
    assert_int_equal(s.pauses.total_ns, 55000);
    assert_int_equal(s.pauses.max_ns, 10000);
    assert_int_equal(s.stopping.max_ns, 1000);
    assert_int_equal(s.stop_cpu_ns, 10);
    assert_int_equal(s.mark_cpu_ns, 100);
    assert_int_equal(s.sweep_cpu_ns, 1000);
    assert_int_equal(s.other_cpu_ns, 10000);
    assert_int_equal(s.start_ns, 5000);
}

static void passings_of_the_limit_are_counted_with_the_largest(void **state) {
    (void)state;
    struct stats_cycles s;
    stats_init(0);
    assert_int_equal(stats_limit_passed(10), 1);
    assert_int_equal(stats_limit_passed(30), 2);
    assert_int_equal(stats_limit_passed(20), 3);
    stats_limiter_skipped();
    stats_copy(&s);
    assert_int_equal(s.limit_passed, 3);
    assert_int_equal(s.limit_passed_by, 30);
    assert_int_equal(s.limiter_skipped, 1);
    stats_init(0);
    stats_copy(&s);
    assert_int_equal(s.limit_passed, 0);
}

static void cpu_is_a_share_of_all_processors_time(void **state) {
    (void)state;
    settings.processors = 4;
    stats_init(1000);
    assert_true(stats_gc_cpu_percent(500, 2000) == 12.5);
    assert_true(stats_gc_cpu_percent(4000, 2000) == 100);
    assert_true(stats_gc_cpu_percent(0, 2000) == 0);
    assert_true(stats_gc_cpu_percent(500, 1000) == 0); /* no time has gone by */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cycles_are_numbered_and_summed),
        cmocka_unit_test(passings_of_the_limit_are_counted_with_the_largest),
        cmocka_unit_test(cpu_is_a_share_of_all_processors_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
