/* The pacer: goal and trigger as functions of numbers. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gc/pacer.h"

#define MIB (UINT64_C(1) << 20)

static const struct pacer_in plain = {
    .live_bytes = 10 * MIB,
    .gc_percent = 100,
    .memory_limit_goal = UINT64_MAX,
};

static void the_ratio_counts_live_bytes_and_roots_once_and_live_twice(void **state) {
    (void)state;
    struct pacer_in in = plain;
    in.stack_bytes = 3 * MIB;
    in.global_bytes = 2 * MIB;
    assert_int_equal(pacer_goal_ratio(&in), (10 + 15) * MIB);
    in.gc_percent = 50;
    assert_int_equal(pacer_goal_ratio(&in), 10 * MIB + 15 * MIB / 2);
    in.gc_percent = 400;
    assert_int_equal(pacer_goal_ratio(&in), (10 + 60) * MIB);
    in.gc_percent = 1;
    assert_int_equal(pacer_goal_ratio(&in), 10 * MIB + 15 * MIB / 100);
}

static void a_small_heap_has_four_mib_times_the_ratio(void **state) {
    (void)state;
    static const struct {
        int percent;
        uint64_t goal;
    } cases[] = {
        {1, 4 * MIB / 100}, {50, 2 * MIB}, {100, 4 * MIB}, {400, 16 * MIB}, {1600, 64 * MIB},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pacer_in in = plain;
        in.live_bytes = 0;
        in.gc_percent = cases[i].percent;
        assert_int_equal(pacer_goal_ratio(&in), cases[i].goal);
        /* The least goal is of the whole, not of the growth: something live does not add to it. */
        in.live_bytes = 1000;
        assert_int_equal(pacer_goal_ratio(&in), cases[i].goal);
    }
}

static void the_least_goal_ends_exactly_where_live_and_growth_reach_it(void **state) {
    (void)state;
    struct pacer_in in = plain;
    in.live_bytes = 2 * MIB;
    assert_int_equal(pacer_goal_ratio(&in), 4 * MIB);
    in.live_bytes = 2 * MIB + 1;
    assert_int_equal(pacer_goal_ratio(&in), 4 * MIB + 2);
    in.live_bytes = 2 * MIB - 1;
    assert_int_equal(pacer_goal_ratio(&in), 4 * MIB);
}

static void no_ratio_means_no_goal(void **state) {
    (void)state;
    struct pacer_in in = plain;
    in.gc_percent = -1;
    assert_int_equal(pacer_goal_ratio(&in), UINT64_MAX);
    in.gc_percent = INT_MIN;
    assert_int_equal(pacer_goal_ratio(&in), UINT64_MAX);
    struct pacer_out out = pacer_decide(&in);
    assert_int_equal(out.goal, UINT64_MAX);
    assert_int_equal(out.trigger, UINT64_MAX);
    assert_int_equal(out.by, PACER_BY_NONE);
}

static void a_ratio_of_zero_collects_all_the_time(void **state) {
    (void)state;
    struct pacer_in in = plain;
    in.gc_percent = 0;
    struct pacer_out out = pacer_decide(&in);
    assert_int_equal(out.goal, 10 * MIB);
    assert_int_equal(out.trigger, 10 * MIB);
    assert_int_equal(out.by, PACER_BY_RATIO);
    in.live_bytes = 0;
    assert_int_equal(pacer_decide(&in).goal, 0);
}

static void goals_saturate_and_are_exact_until_then(void **state) {
    (void)state;
    struct pacer_in in = plain;
    in.live_bytes = UINT64_MAX / 2;
    in.stack_bytes = UINT64_MAX;
    in.global_bytes = UINT64_MAX;
    assert_int_equal(pacer_goal_ratio(&in), UINT64_MAX);
    in.stack_bytes = 0;
    in.global_bytes = 0;
    in.gc_percent = INT_MAX;
    assert_int_equal(pacer_goal_ratio(&in), UINT64_MAX);
    /* 2^60 * 150 does not fit in 64 bits, but the goal does. */
    in.live_bytes = UINT64_C(1) << 60;
    in.gc_percent = 150;
    assert_int_equal(pacer_goal_ratio(&in), (UINT64_C(1) << 60) + (UINT64_C(3) << 59));
    in.live_bytes = 99999999;
    in.gc_percent = 33;
    assert_int_equal(pacer_goal_ratio(&in), 99999999 + UINT64_C(99999999) * 33 / 100);
}

static void the_smaller_of_ratio_and_limit_wins(void **state) {
    (void)state;
    struct pacer_in in = plain;
    in.memory_limit_goal = 15 * MIB;
    struct pacer_out out = pacer_decide(&in);
    assert_int_equal(out.goal, 15 * MIB);
    assert_int_equal(out.by, PACER_BY_LIMIT);
    in.memory_limit_goal = 25 * MIB;
    out = pacer_decide(&in);
    assert_int_equal(out.goal, 20 * MIB);
    assert_int_equal(out.by, PACER_BY_RATIO);
}

static void a_tie_is_the_ratios_so_that_the_limiter_does_not_hold_it_back(void **state) {
    (void)state;
    struct pacer_in in = plain;
    in.memory_limit_goal = 20 * MIB;
    assert_int_equal(pacer_decide(&in).by, PACER_BY_RATIO);
    in.memory_limit_goal = 20 * MIB - 1;
    assert_int_equal(pacer_decide(&in).by, PACER_BY_LIMIT);
}

static void a_limit_brings_collections_back_when_the_ratio_is_off(void **state) {
    (void)state;
    struct pacer_in in = plain;
    in.gc_percent = -1;
    in.memory_limit_goal = 30 * MIB;
    struct pacer_out out = pacer_decide(&in);
    assert_int_equal(out.goal, 30 * MIB);
    assert_int_equal(out.by, PACER_BY_LIMIT);
}

static void no_goal_is_under_live(void **state) {
    (void)state;
    struct pacer_in in = plain;
    in.memory_limit_goal = 1 * MIB;
    struct pacer_out out = pacer_decide(&in);
    assert_int_equal(out.goal, 10 * MIB);
    assert_int_equal(out.trigger, 10 * MIB);
    assert_int_equal(out.by, PACER_BY_LIMIT);
    in.memory_limit_goal = 0;
    assert_int_equal(pacer_decide(&in).goal, 10 * MIB);
}

static void in_a_stopped_world_the_trigger_is_the_goal(void **state) {
    (void)state;
    for (int percent = -1; percent < 300; percent += 7) {
        for (uint64_t live = 0; live < 64 * MIB; live += 5 * MIB + 1) {
            struct pacer_in in = plain;
            in.live_bytes = live;
            in.gc_percent = percent;
            in.memory_limit_goal = 40 * MIB;
            struct pacer_out out = pacer_decide(&in);
            assert_int_equal(out.trigger, out.goal);
            assert_true(out.goal >= live);
        }
    }
}

/* What the demonstration shows: 4000 blocks of 64 KiB, all dropped at once. */
static void fewer_collections_are_due_the_higher_the_ratio(void **state) {
    (void)state;
    static const struct {
        int percent;
        unsigned cycles;
    } cases[] = {{50, 125}, {100, 62}, {400, 15}, {1600, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pacer_in in = plain;
        in.live_bytes = 0;
        in.gc_percent = cases[i].percent;
        uint64_t heap = 0;
        unsigned cycles = 0;
        for (int block = 0; block < 4000; block++) {
            if (heap + 65536 > pacer_decide(&in).trigger) {
                heap = 0;
                cycles++;
            }
            heap += 65536;
        }
        assert_in_range(cycles, cases[i].cycles - 1, cases[i].cycles);
    }
}

static void a_concurrent_cycle_starts_its_runway_before_the_goal(void **state) {
    (void)state;
    assert_int_equal(pacer_trigger(100, 200, 20), 180);
    assert_int_equal(pacer_trigger(100, 200, 6), 194);
}

static void a_concurrent_trigger_stays_between_70_and_95_percent_of_the_way(void **state) {
    (void)state;
    assert_int_equal(pacer_trigger(100, 200, 0), 195);
    assert_int_equal(pacer_trigger(100, 200, 5), 195);
    assert_int_equal(pacer_trigger(100, 200, 30), 170);
    assert_int_equal(pacer_trigger(100, 200, 31), 170);
    assert_int_equal(pacer_trigger(100, 200, 100), 170);
    assert_int_equal(pacer_trigger(100, 200, 101), 170);
    assert_int_equal(pacer_trigger(100, 200, UINT64_MAX), 170);
    for (uint64_t runway = 0; runway < 40 * MIB; runway += MIB / 3) {
        uint64_t trigger = pacer_trigger(10 * MIB, 30 * MIB, runway);
        assert_in_range(trigger, 24 * MIB, 29 * MIB);
    }
}

static void a_concurrent_trigger_is_the_goal_where_there_is_no_way(void **state) {
    (void)state;
    assert_int_equal(pacer_trigger(200, 200, 50), 200);
    assert_int_equal(pacer_trigger(300, 200, 50), 200);
    assert_int_equal(pacer_trigger(0, 0, 0), 0);
    assert_int_equal(pacer_trigger(100, UINT64_MAX, 50), UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ratio_counts_live_bytes_and_roots_once_and_live_twice),
        cmocka_unit_test(a_small_heap_has_four_mib_times_the_ratio),
        cmocka_unit_test(the_least_goal_ends_exactly_where_live_and_growth_reach_it),
        cmocka_unit_test(no_ratio_means_no_goal),
        cmocka_unit_test(a_ratio_of_zero_collects_all_the_time),
        cmocka_unit_test(goals_saturate_and_are_exact_until_then),
        cmocka_unit_test(the_smaller_of_ratio_and_limit_wins),
        cmocka_unit_test(a_tie_is_the_ratios_so_that_the_limiter_does_not_hold_it_back),
        cmocka_unit_test(a_limit_brings_collections_back_when_the_ratio_is_off),
        cmocka_unit_test(no_goal_is_under_live),
        cmocka_unit_test(in_a_stopped_world_the_trigger_is_the_goal),
        cmocka_unit_test(fewer_collections_are_due_the_higher_the_ratio),
        cmocka_unit_test(a_concurrent_cycle_starts_its_runway_before_the_goal),
        cmocka_unit_test(a_concurrent_trigger_stays_between_70_and_95_percent_of_the_way),
        cmocka_unit_test(a_concurrent_trigger_is_the_goal_where_there_is_no_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
