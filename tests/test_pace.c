/*
 * When the next cycle starts: what gc/pace promises. The library is not started, its counters are set by hand.
 * Seen to fail: EARLY_PUT_OFF_MOST at 5, "an_early_cycle_is_put_off_three_times".
 */
#include "gc/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gc/account.h"
#include "gc/mark.h"
#include "gc/os/os_time.h"
#include "gc/settings.h"

/* ---- early cycles ---- */

static int in_order(void **state) {
    (void)state;
    settings.concurrent = true;
    settings.gc_percent = 100;
    account.external = 100 * MIB;
    account.live = 0;
    pace_init();
    return 0;
}

static void no_early_cycle_is_due_at_first(void **state) {
    (void)state;
    assert_int_equal(pace_early_due_ns(), INT64_MAX);
    assert_false(pace_is_early_wanted(UINT64_MAX - 1));
}

static void an_early_cycle_is_wanted_once_something_was_allocated(void **state) {
    (void)state;
    int64_t before = os_time_mono_ns();
    pace_arm_early(0);
    int64_t after = os_time_mono_ns();
    assert_false(pace_is_early_wanted(16 * MIB));
    assert_int_equal(pace_early_due_ns(), INT64_MAX);
    assert_true(pace_is_early_wanted(16 * MIB + 1));
    assert_false(pace_is_early_wanted(17 * MIB)); /* said once */
    assert_true(pace_early_due_ns() >= before + INT64_C(3000000000));
    assert_true(pace_early_due_ns() <= after + INT64_C(3000000000));
    pace_arm_early(0); /* a cycle came */
    assert_int_equal(pace_early_due_ns(), INT64_MAX);
}

static void of_a_large_heap_a_share_must_be_new(void **state) {
    (void)state;
    account.live = 6400 * MIB;
    pace_arm_early(0);
    assert_false(pace_is_early_wanted(6500 * MIB));
    assert_true(pace_is_early_wanted(6500 * MIB + 1));
}

static void marking_takes_a_tenth_of_a_processor_at_most(void **state) {
    (void)state;
    int64_t before = os_time_mono_ns();
    pace_arm_early(INT64_C(2000000000));
    assert_true(pace_is_early_wanted(20 * MIB));
    assert_true(pace_early_due_ns() >= before + INT64_C(20000000000));
}

static void an_early_cycle_is_put_off_three_times(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        pace_arm_early(0);
        assert_true(pace_is_early_wanted(20 * MIB));
        for (int i = 0; i < 3; i++) {
            int64_t before = os_time_mono_ns();
            assert_true(pace_put_off_early());
            assert_true(pace_early_due_ns() >= before + INT64_C(1000000000));
        }
        assert_false(pace_put_off_early());
    }
}

static void some_programs_have_no_early_cycles(void **state) {
    (void)state;
    account.external = 10 * MIB; /* what could be given back is little */
    pace_arm_early(0);
    assert_false(pace_is_early_wanted(UINT64_MAX - 1));
    account.external = 100 * MIB;
    settings.gc_percent = -1;
    pace_arm_early(0);
    assert_false(pace_is_early_wanted(UINT64_MAX - 1));
    settings.gc_percent = 100;
    settings.concurrent = false;
    pace_arm_early(0);
    assert_false(pace_is_early_wanted(UINT64_MAX - 1));
}

/* ---- what a cycle teaches ---- */

/* Marking scans 1 GiB a second, and the program allocates as fast. */
static void after(uint64_t scanned_bytes) {
    struct mark_result result = {.scanned_bytes = scanned_bytes, .beside_ns = (int64_t)(scanned_bytes + 1)};
    pace_begin(MIB);
    pace_end(MIB + scanned_bytes, &result, (struct roots_size){0});
}

static void little_to_scan_is_scanned_in_one_stop(void **state) {
    (void)state;
    after(48 * KIB);
    assert_true(account.one_stop);
    after(48 * KIB + 1);
    assert_false(account.one_stop);
    settings.concurrent = false;
    after(GIB);
    assert_true(account.one_stop);
}

static void the_runway_grows_with_the_scan_work(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++)
        after(MIB);
    uint64_t small = account.runway;
    for (int i = 0; i < 5; i++)
        after(100 * MIB);
    assert_true(account.runway > small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(no_early_cycle_is_due_at_first, in_order),
        cmocka_unit_test_setup(an_early_cycle_is_wanted_once_something_was_allocated, in_order),
        cmocka_unit_test_setup(of_a_large_heap_a_share_must_be_new, in_order),
        cmocka_unit_test_setup(marking_takes_a_tenth_of_a_processor_at_most, in_order),
        cmocka_unit_test_setup(an_early_cycle_is_put_off_three_times, in_order),
        cmocka_unit_test_setup(some_programs_have_no_early_cycles, in_order),
        cmocka_unit_test_setup(little_to_scan_is_scanned_in_one_stop, in_order),
        cmocka_unit_test_setup(the_runway_grows_with_the_scan_work, in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
