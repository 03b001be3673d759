/* Assists: scan work per allocated byte as a function of where a cycle stands. What it comes to over many
 * cycles is in test_pacer_sim.c. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gc/assist.h"

#define MIB (UINT64_C(1) << 20)

/* Live 100 MiB, goal 200, started at 180; 80 MiB of scan work expected, 160 possible. */
static const struct assist_in plain = {
    .heap_bytes = 180 * MIB,
    .trigger_bytes = 180 * MIB,
    .goal = 200 * MIB,
    .limit_goal = UINT64_MAX,
    .gc_percent = 100,
    .scan_expected = 80 * MIB,
    .scan_max = 160 * MIB,
};

static void assert_near(double value, double expected) {
    double error = value - expected;
    if (error < -1e-9 * expected || error > 1e-9 * expected) {
        print_error("%.12g is not %.12g\n", value, expected);
        fail();
    }
}

static void the_work_expected_is_spread_over_the_way_to_the_goal(void **state) {
    (void)state;
    struct assist_ratio ratio = assist_ratio(&plain);
    assert_near(ratio.work_per_byte, 4);
    assert_near(ratio.bytes_per_work, 0.25);
    assert_int_equal(ratio.goal, 200 * MIB);
    struct assist_in in = plain;
    in.heap_bytes = 190 * MIB;
    in.scan_done = 60 * MIB;
    assert_near(assist_ratio(&in).work_per_byte, 2);
}

static void allocation_on_schedule_leaves_the_ratio_as_it_is(void **state) {
    (void)state;
    for (uint64_t mib = 0; mib < 20; mib++) {
        struct assist_in in = plain;
        in.heap_bytes += mib * MIB;
        in.scan_done = 4 * mib * MIB;
        assert_near(assist_ratio(&in).work_per_byte, 4);
    }
}

/* Twice the work is possible: the way from the trigger is twice as long, and the pace stays. */
static void finding_more_than_expected_moves_the_goal_and_not_the_pace(void **state) {
    (void)state;
    struct assist_in in = plain;
    in.heap_bytes = 200 * MIB;
    in.scan_done = 80 * MIB + 1;
    struct assist_ratio ratio = assist_ratio(&in);
    assert_int_equal(ratio.goal, 220 * MIB);
    assert_true(ratio.work_per_byte > 3.99 && ratio.work_per_byte < 4.01);
    in.scan_done = 80 * MIB;
    assert_int_equal(assist_ratio(&in).goal, 200 * MIB);
}

static void growth_moves_the_goal_no_further_than_to_the_next_one(void **state) {
    (void)state;
    struct assist_in in = plain;
    in.scan_expected = MIB;
    in.scan_done = 2 * MIB;
    assert_int_equal(assist_ratio(&in).goal, 400 * MIB);
    in.gc_percent = 50;
    assert_int_equal(assist_ratio(&in).goal, 300 * MIB);
    in.gc_percent = 0;
    assert_int_equal(assist_ratio(&in).goal, 200 * MIB);
    /* Off: next to no bound; here 159 times the way of 20 MiB. */
    in.gc_percent = -1;
    assert_int_equal(assist_ratio(&in).goal, (200 + 159 * 20) * MIB);
    in.gc_percent = INT_MIN;
    assert_int_equal(assist_ratio(&in).goal, (200 + 159 * 20) * MIB);
    /* Nothing was expected at all: a first cycle. */
    in.gc_percent = 100;
    in.scan_expected = 0;
    assert_int_equal(assist_ratio(&in).goal, 400 * MIB);
}

static void growth_does_not_move_the_goal_past_the_limits(void **state) {
    (void)state;
    struct assist_in in = plain;
    in.scan_expected = MIB;
    in.scan_done = 2 * MIB;
    in.limit_goal = 250 * MIB;
    assert_int_equal(assist_ratio(&in).goal, 250 * MIB);
    /* The limit set the goal, or cannot have it because that much is live: no move. */
    in.limit_goal = 200 * MIB;
    assert_int_equal(assist_ratio(&in).goal, 200 * MIB);
    in.limit_goal = 50 * MIB;
    assert_int_equal(assist_ratio(&in).goal, 200 * MIB);
    in.gc_percent = -1;
    assert_int_equal(assist_ratio(&in).goal, 200 * MIB);
}

static void past_the_goal_all_possible_work_is_due_within_a_tenth_more(void **state) {
    (void)state;
    struct assist_in in = plain;
    in.heap_bytes = 200 * MIB;
    assert_int_equal(assist_ratio(&in).goal, 200 * MIB);
    in.heap_bytes++;
    in.scan_done = 60 * MIB;
    struct assist_ratio ratio = assist_ratio(&in);
    assert_int_equal(ratio.goal, 220 * MIB);
    assert_near(ratio.work_per_byte, 100.0 * (double)MIB / (double)(20 * MIB - 1));
    /* And a tenth beyond a goal that growth has moved. */
    in.heap_bytes = 221 * MIB;
    in.scan_done = 80 * MIB + 1;
    assert_int_equal(assist_ratio(&in).goal, 242 * MIB);
}

static void past_everything_the_next_byte_costs_all_that_is_left(void **state) {
    (void)state;
    struct assist_in in = plain;
    in.heap_bytes = 300 * MIB;
    in.scan_done = 60 * MIB;
    assert_near(assist_ratio(&in).work_per_byte, 100.0 * (double)MIB);
    in.heap_bytes = UINT64_MAX;
    assert_near(assist_ratio(&in).work_per_byte, 100.0 * (double)MIB);
}

static void some_work_is_always_left(void **state) {
    (void)state;
    struct assist_in in = plain;
    in.heap_bytes = 190 * MIB;
    in.scan_done = 80 * MIB;
    assert_near(assist_ratio(&in).work_per_byte, 1000.0 / (double)(10 * MIB));
    /* Scanned twice, by a race: more than there is. */
    in.scan_done = 200 * MIB;
    assert_near(assist_ratio(&in).bytes_per_work, (double)(30 * MIB) / 1000.0);
}

static void a_cycle_that_starts_late_has_64_kib_unless_a_limit_set_the_goal(void **state) {
    (void)state;
    struct assist_in in = plain;
    in.trigger_bytes = in.heap_bytes = 200 * MIB;
    struct assist_ratio ratio = assist_ratio(&in);
    assert_int_equal(ratio.goal, 200 * MIB + 65536);
    assert_near(ratio.work_per_byte, 80.0 * (double)MIB / 65536);
    in.trigger_bytes = in.heap_bytes = 200 * MIB - 65535;
    assert_int_equal(assist_ratio(&in).goal, 200 * MIB + 1);
    in.limit_goal = 200 * MIB;
    assert_int_equal(assist_ratio(&in).goal, 200 * MIB);
}

static void without_a_goal_allocation_is_as_good_as_free(void **state) {
    (void)state;
    struct assist_in in = plain;
    in.goal = UINT64_MAX;
    in.gc_percent = -1;
    struct assist_ratio ratio = assist_ratio(&in);
    assert_int_equal(ratio.goal, UINT64_MAX);
    assert_true(ratio.work_per_byte < 1e-9);
    /* However much is allocated, the least charge pays for it. */
    assert_int_equal(assist_charge(&ratio, 1000 * MIB).work, ASSIST_WORK_MIN_BYTES);
    assert_true(assist_charge(&ratio, 1).bytes > 1000 * MIB);
}

static void a_debt_is_paid_in_full_and_small_ones_ahead(void **state) {
    (void)state;
    struct assist_ratio ratio = {.work_per_byte = 4, .bytes_per_work = 0.25};
    struct assist_charge charge = assist_charge(&ratio, MIB);
    assert_int_equal(charge.work, 4 * MIB);
    assert_int_equal(charge.bytes, MIB);
    charge = assist_charge(&ratio, 100);
    assert_int_equal(charge.work, 65536);
    assert_int_equal(charge.bytes, 16384);
    charge = assist_charge(&ratio, 16384);
    assert_int_equal(charge.work, 65536);
    assert_int_equal(charge.bytes, 16384);
    charge = assist_charge(&ratio, 0);
    assert_int_equal(charge.work, 0);
    assert_int_equal(charge.bytes, 0);
    /* The two numbers may be of different moments: a debt is paid nevertheless. */
    ratio.bytes_per_work = 0.001;
    charge = assist_charge(&ratio, 10000);
    assert_int_equal(charge.work, 65536);
    assert_int_equal(charge.bytes, 10000);
}

static void work_always_pays_for_something(void **state) {
    (void)state;
    struct assist_ratio ratio = {.work_per_byte = 1e9, .bytes_per_work = 1e-9};
    assert_int_equal(assist_paid(&ratio, 1000), 1);
    assert_int_equal(assist_paid(&ratio, UINT64_C(5000000000)), 6);
}

static void no_figures_make_a_ratio_that_is_no_number(void **state) {
    (void)state;
    static const uint64_t bytes[] = {0, 1, MIB, UINT64_MAX - 1, UINT64_MAX};
    static const int percents[] = {-1, 0, 100, INT_MAX};
    for (int i = 0; i < 5 * 5 * 5 * 5 * 5 * 5 * 5 * 4; i++) {
        int k = i;
        struct assist_in in = {.heap_bytes = bytes[k % 5]};
        in.trigger_bytes = bytes[(k /= 5) % 5];
        in.goal = bytes[(k /= 5) % 5];
        in.limit_goal = bytes[(k /= 5) % 5];
        in.scan_expected = bytes[(k /= 5) % 5];
        in.scan_done = bytes[(k /= 5) % 5];
        in.scan_max = bytes[(k /= 5) % 5];
        in.gc_percent = percents[k / 5];
        struct assist_ratio ratio = assist_ratio(&in);
        assert_true(ratio.work_per_byte > 0 && ratio.work_per_byte < 1e20);
        assert_true(ratio.bytes_per_work > 0 && ratio.bytes_per_work < 1e20);
        assert_true(ratio.goal >= in.goal);
        for (int b = 0; b < 5; b++) {
            struct assist_charge charge = assist_charge(&ratio, bytes[b]);
            assert_true(charge.bytes >= bytes[b] || charge.bytes == ASSIST_MOST_BYTES);
            assert_true(charge.bytes <= ASSIST_MOST_BYTES && charge.work <= ASSIST_MOST_BYTES);
            assert_true(charge.work >= (bytes[b] ? ASSIST_WORK_MIN_BYTES : 0));
            assert_true(assist_paid(&ratio, bytes[b]) >= 1);
            assert_true(assist_paid(&ratio, bytes[b]) <= ASSIST_MOST_BYTES);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_work_expected_is_spread_over_the_way_to_the_goal),
        cmocka_unit_test(allocation_on_schedule_leaves_the_ratio_as_it_is),
        cmocka_unit_test(finding_more_than_expected_moves_the_goal_and_not_the_pace),
        cmocka_unit_test(growth_moves_the_goal_no_further_than_to_the_next_one),
        cmocka_unit_test(growth_does_not_move_the_goal_past_the_limits),
        cmocka_unit_test(past_the_goal_all_possible_work_is_due_within_a_tenth_more),
        cmocka_unit_test(past_everything_the_next_byte_costs_all_that_is_left),
        cmocka_unit_test(some_work_is_always_left),
        cmocka_unit_test(a_cycle_that_starts_late_has_64_kib_unless_a_limit_set_the_goal),
        cmocka_unit_test(without_a_goal_allocation_is_as_good_as_free),
        cmocka_unit_test(a_debt_is_paid_in_full_and_small_ones_ahead),
        cmocka_unit_test(work_always_pays_for_something),
        cmocka_unit_test(no_figures_make_a_ratio_that_is_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
