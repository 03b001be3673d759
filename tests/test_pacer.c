/* The pacer: goal, trigger, runway and workers as functions of numbers. What they come to over many cycles is
 * in test_pacer_sim.c. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gc/pacer.h"

#define KIB (UINT64_C(1) << 10)
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

/* Where the way is long, a fortieth of it before. */
static void a_cycle_of_one_stop_starts_at_the_goal_or_a_little_before(void **state) {
    (void)state;
    for (int percent = -1; percent < 300; percent += 7) {
        for (uint64_t live = 0; live < 64 * MIB; live += 5 * MIB + 1) {
            struct pacer_in in = plain;
            in.live_bytes = live;
            in.gc_percent = percent;
            in.memory_limit_goal = 40 * MIB;
            in.runway_bytes = 3 * MIB;
            in.one_stop = true;
            struct pacer_out out = pacer_decide(&in);
            uint64_t way = out.goal - live;
            assert_int_equal(out.trigger, way < 32 * MIB ? out.goal : out.goal - way / 40);
            assert_true(out.goal >= live);
        }
    }
    /* 4000 blocks of 64 KiB at a ratio of 1600: ideal are 3.9 cycles, and 4 start. */
    struct pacer_in in = plain;
    in.live_bytes = 0;
    in.gc_percent = 1600;
    in.one_stop = true;
    assert_true(pacer_decide(&in).trigger * 4 <= 4000 * 64 * KIB);
}

static void a_concurrent_decision_has_the_triggers_runway_and_bounds(void **state) {
    (void)state;
    struct pacer_in in = plain;
    in.runway_bytes = 2 * MIB;
    assert_int_equal(pacer_decide(&in).trigger, 18 * MIB);
    in.runway_bytes = 0;
    assert_int_equal(pacer_decide(&in).trigger, 10 * MIB + 10 * MIB * 95 / 100);
    in.runway_bytes = UINT64_MAX;
    assert_int_equal(pacer_decide(&in).trigger, 17 * MIB);
    /* The way is the one to the limit's goal when that is the goal. */
    in.memory_limit_goal = 15 * MIB;
    assert_int_equal(pacer_decide(&in).trigger, 10 * MIB + 5 * MIB * 70 / 100);
    in.runway_bytes = MIB;
    assert_int_equal(pacer_decide(&in).trigger, 14 * MIB);
}

/* What the demonstration shows: 4000 blocks of 64 KiB, all dropped at once. */
static void fewer_collections_are_due_the_higher_the_ratio(void **state) {
    (void)state;
    static const struct {
        int percent;
        unsigned cycles;
    } cases[] = {{50, 125}, {100, 62}, {400, 15}, {1600, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pacer_in in = plain;
        in.live_bytes = 0;
        in.gc_percent = cases[i].percent;
        in.one_stop = true;
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

/* 100 bytes allocated while 1000 are scanned, in 1000 ns of 4 processors. */
static const struct pacer_cycle plain_cycle = {
    .trigger_bytes = 1000,
    .end_bytes = 1100,
    .heap_scan_bytes = 700,
    .stack_scan_bytes = 200,
    .global_scan_bytes = 100,
    .mark_ns = 1000,
    .procs = 4,
};

static struct pacer after(const struct pacer_cycle *c) {
    struct pacer p = {0};
    pacer_end_cycle(&p, c);
    return p;
}

static void assert_near(double value, double expected) {
    double error = value - expected;
    if (error < -1e-9 * expected || error > 1e-9 * expected) {
        print_error("%.12g is not %.12g\n", value, expected);
        fail();
    }
}

static void nothing_is_known_at_first(void **state) {
    (void)state;
    struct pacer p = {0};
    assert_int_equal(pacer_scan_expected(&p), 0);
    assert_int_equal(pacer_runway(&p, 0), 0);
    assert_int_equal(pacer_runway(&p, UINT64_MAX), 0);
}

static void the_next_cycle_is_expected_to_scan_what_the_last_one_did(void **state) {
    (void)state;
    struct pacer p = after(&plain_cycle);
    assert_int_equal(p.heap_scan_bytes, 700);
    assert_int_equal(p.stack_scan_bytes, 200);
    assert_int_equal(p.global_scan_bytes, 100);
    assert_int_equal(pacer_scan_expected(&p), 1000);
    p.heap_scan_bytes = UINT64_MAX - 150;
    assert_int_equal(pacer_scan_expected(&p), UINT64_MAX);
}

static void the_ratio_is_bytes_allocated_over_bytes_scanned_each_by_its_share_of_the_cpu(void **state) {
    (void)state;
    /* A quarter of the CPU scanned, three allocated. */
    assert_near(after(&plain_cycle).cons_mark, 0.1 * 0.25 / 0.75);
    struct pacer_cycle c = plain_cycle;
    c.assist_ns = 1000; /* a quarter more */
    assert_near(after(&c).cons_mark, 0.1 * 0.5 / 0.5);
    c.idle_ns = 2000; /* half of the CPU scanned, too, but the program could have had it */
    assert_near(after(&c).cons_mark, 0.1 * 1.0 / 0.5);
    c.background_utilisation = 0.1;
    assert_near(after(&c).cons_mark, 0.1 * 0.85 / 0.65);
}

static void the_runway_is_what_the_same_program_would_allocate_without_assists(void **state) {
    (void)state;
    struct pacer p = after(&plain_cycle);
    assert_in_range(pacer_runway(&p, 1000), 99, 100);
    assert_in_range(pacer_runway(&p, 3000), 299, 300);
    /* Half of the CPU marked: at a quarter, marking takes twice as long, and the program gets 3/2 of the CPU.
     */
    struct pacer_cycle c = plain_cycle;
    c.assist_ns = 1000;
    p = after(&c);
    assert_in_range(pacer_runway(&p, 1000), 299, 300);
}

static void the_largest_ratio_of_the_last_five_cycles_counts(void **state) {
    (void)state;
    struct pacer p = after(&plain_cycle);
    double first = p.cons_mark;
    struct pacer_cycle less = plain_cycle;
    less.end_bytes = 1010;
    for (int i = 0; i < PACER_WINDOW; i++) {
        pacer_end_cycle(&p, &less);
        assert_near(p.cons_mark, first);
    }
    pacer_end_cycle(&p, &less);
    assert_near(p.cons_mark, first / 10);
    pacer_end_cycle(&p, &plain_cycle);
    assert_near(p.cons_mark, first);
}

static void a_cycle_in_which_nothing_was_allocated_shows_nothing_but_its_work(void **state) {
    (void)state;
    struct pacer p = after(&plain_cycle);
    double first = p.cons_mark;
    struct pacer_cycle c = plain_cycle;
    c.heap_scan_bytes = 70;
    for (int i = 0; i < 10; i++) {
        c.end_bytes = c.trigger_bytes - (uint64_t)i;
        pacer_end_cycle(&p, &c);
        assert_near(p.cons_mark, first);
    }
    assert_int_equal(pacer_scan_expected(&p), 370);
    /* A program that is always marked in one stop has no runway. */
    c.end_bytes = c.trigger_bytes;
    p = after(&c);
    assert_int_equal(pacer_runway(&p, UINT64_MAX), 0);
}

static void a_cycle_that_scanned_nothing_shows_no_ratio(void **state) {
    (void)state;
    struct pacer p = after(&plain_cycle);
    double first = p.cons_mark;
    struct pacer_cycle c = plain_cycle;
    c.heap_scan_bytes = c.stack_scan_bytes = c.global_scan_bytes = 0;
    pacer_end_cycle(&p, &c);
    assert_near(p.cons_mark, first);
    assert_int_equal(pacer_scan_expected(&p), 0);
}

static void a_cycle_of_no_time_counts_without_assists(void **state) {
    (void)state;
    struct pacer_cycle c = plain_cycle;
    c.assist_ns = c.idle_ns = 1000;
    c.mark_ns = 0;
    assert_near(after(&c).cons_mark, 0.1 * 0.25 / 0.75);
    c.mark_ns = INT64_MIN;
    assert_near(after(&c).cons_mark, 0.1 * 0.25 / 0.75);
}

static void no_figures_make_a_ratio_that_is_no_number(void **state) {
    (void)state;
    static const int64_t times[] = {INT64_MIN, -1, 0, 1, 1000, INT64_MAX};
    static const uint64_t bytes[] = {0, 1, 1000, UINT64_MAX};
    static const int procs[] = {INT_MIN, 0, 1, INT_MAX};
    const double zero = 0;
    const double shares[] = {-1, 0, 0.25, 1, 1e300, 1 / zero, zero / zero};
    for (int i = 0; i < 6 * 6 * 6 * 4 * 4 * 4 * 7; i++) {
        int k = i;
        struct pacer_cycle c = {.mark_ns = times[k % 6]};
        c.assist_ns = times[(k /= 6) % 6];
        c.idle_ns = times[(k /= 6) % 6];
        c.trigger_bytes = bytes[(k /= 6) % 4];
        c.end_bytes = bytes[(k /= 4) % 4];
        c.heap_scan_bytes = c.stack_scan_bytes = bytes[(k /= 4) % 4];
        k /= 4;
        c.procs = procs[k % 4];
        c.background_utilisation = shares[i % 7];
        struct pacer p = after(&c);
        assert_true(p.cons_mark >= 0 && p.cons_mark < 1e50);
        assert_int_equal(pacer_runway(&p, 0), 0);
        assert_true(pacer_runway(&p, UINT64_MAX) >= pacer_runway(&p, 1));
    }
}

static void a_quarter_of_the_processors_marks(void **state) {
    (void)state;
    static const struct {
        int procs, dedicated;
        double fractional;
    } cases[] = {
        {1, 0, 0.25},    {2, 0, 0.25}, {3, 0, 0.25}, {4, 1, 0},    {5, 1, 0},
        {6, 1, 0.5 / 6}, {7, 2, 0},    {8, 2, 0},    {9, 2, 0},    {10, 3, 0},
        {12, 3, 0},      {16, 4, 0},   {64, 16, 0},  {0, 0, 0.25}, {INT_MIN, 0, 0.25},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct worker_plan plan = pacer_workers(cases[i].procs);
        assert_int_equal(plan.dedicated, cases[i].dedicated);
        assert_near(plan.fractional + 1, cases[i].fractional + 1);
    }
    for (int procs = 1; procs < 2000; procs++) {
        struct worker_plan plan = pacer_workers(procs);
        double share = (plan.dedicated + plan.fractional * procs) / procs;
        assert_true(share > 0.25 / 1.3 && share < 0.25 * 1.3);
    }
    assert_int_equal(pacer_workers(INT_MAX).dedicated, (INT_MAX - 3) / 4 + 1);
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
        cmocka_unit_test(a_cycle_of_one_stop_starts_at_the_goal_or_a_little_before),
        cmocka_unit_test(a_concurrent_decision_has_the_triggers_runway_and_bounds),
        cmocka_unit_test(fewer_collections_are_due_the_higher_the_ratio),
        cmocka_unit_test(a_concurrent_cycle_starts_its_runway_before_the_goal),
        cmocka_unit_test(a_concurrent_trigger_stays_between_70_and_95_percent_of_the_way),
        cmocka_unit_test(a_concurrent_trigger_is_the_goal_where_there_is_no_way),
        cmocka_unit_test(nothing_is_known_at_first),
        cmocka_unit_test(the_next_cycle_is_expected_to_scan_what_the_last_one_did),
        cmocka_unit_test(the_ratio_is_bytes_allocated_over_bytes_scanned_each_by_its_share_of_the_cpu),
        cmocka_unit_test(the_runway_is_what_the_same_program_would_allocate_without_assists),
        cmocka_unit_test(the_largest_ratio_of_the_last_five_cycles_counts),
        cmocka_unit_test(a_cycle_in_which_nothing_was_allocated_shows_nothing_but_its_work),
        cmocka_unit_test(a_cycle_that_scanned_nothing_shows_no_ratio),
        cmocka_unit_test(a_cycle_of_no_time_counts_without_assists),
        cmocka_unit_test(no_figures_make_a_ratio_that_is_no_number),
        cmocka_unit_test(a_quarter_of_the_processors_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
