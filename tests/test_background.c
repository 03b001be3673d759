/*
 * The background thread: what gc/background promises.
 * Seen to fail: background_shutdown that does not wait for the thread, in four tests.
 */
#include "gc/background.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gc/os/os_time.h"

static _Atomic uint64_t begun, turns; /* turns that began, and that are over */
static _Atomic int64_t turn_ns;
static _Atomic int64_t deadline;
static _Atomic bool hold;

/* Spins for turn_ns, and as long as it is held. A deadline is over once its turn has come. */
static void turn(void) {
    int64_t until = os_time_mono_ns() + turn_ns;
    deadline = INT64_MAX;
    begun++;
    while (hold || os_time_mono_ns() < until)
        sched_yield();
    turns++;
}
static int64_t deadline_ns(void) {
    return deadline;
}
static const struct background_work work = {turn, deadline_ns};

static void wait_for(const _Atomic uint64_t *count, uint64_t value) {
    while (*count < value)
        sched_yield();
}

static int start(void **state) {
    (void)state;
    begun = turns = 0;
    turn_ns = 0;
    deadline = INT64_MAX;
    hold = false;
    return background_prepare(&work) ? 0 : -1;
}
static int end(void **state) {
    (void)state;
    hold = false;
    background_shutdown();
    return 0;
}

static void there_is_one_thread(void **state) {
    (void)state;
    assert_true(background_is_there());
    assert_true(background_prepare(&work));
    background_shutdown();
    assert_false(background_is_there());
    background_shutdown(); /* of none */
    assert_true(background_prepare(&work));
    background_ring();
    wait_for(&turns, 1);
}

static void a_ring_brings_a_turn_and_silence_none(void **state) {
    (void)state;
    for (uint64_t n = 1; n <= 1000; n++) {
        background_ring();
        wait_for(&turns, n);
    }
    os_time_sleep_ns(20000000);
    assert_int_equal(turns, 1000);
}

static void rings_in_a_turn_bring_one_more(void **state) {
    (void)state;
    hold = true;
    background_ring();
    wait_for(&begun, 1);
    background_ring();
    background_ring();
    hold = false;
    wait_for(&turns, 2);
    os_time_sleep_ns(20000000);
    assert_int_equal(turns, 2);
}

/* It is looked at when a turn is over. */
static void a_deadline_brings_a_turn_when_it_is_due(void **state) {
    (void)state;
    hold = true;
    background_ring();
    wait_for(&begun, 1);
    int64_t due = os_time_mono_ns() + 30000000;
    deadline = due;
    hold = false;
    wait_for(&turns, 2);
    assert_true(os_time_mono_ns() >= due);
}

static void a_deadline_that_has_passed_needs_no_sleep(void **state) {
    (void)state;
    hold = true;
    background_ring();
    wait_for(&begun, 1);
    deadline = 1;
    hold = false;
    wait_for(&turns, 2);
}

static void the_end_comes_after_the_turn(void **state) {
    (void)state;
    turn_ns = 50000000;
    background_ring();
    wait_for(&begun, 1);
    background_shutdown();
    assert_int_equal(turns, 1);
}

static void its_cpu_is_counted_turn_by_turn(void **state) {
    (void)state;
    int64_t before = 0;
    turn_ns = 20000000;
    background_ring();
    wait_for(&turns, 1);
    for (uint64_t n = 1; n <= 3; n++) {
        background_ring();
        wait_for(&begun, n + 1);           /* what the turn before took is written by then */
        int64_t now = background_cpu_ns(); /* once: the next turn may be over when it is asked again */
        assert_true(now > before);
        before = now;
        wait_for(&turns, n + 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(there_is_one_thread, start, end),
        cmocka_unit_test_setup_teardown(a_ring_brings_a_turn_and_silence_none, start, end),
        cmocka_unit_test_setup_teardown(rings_in_a_turn_bring_one_more, start, end),
        cmocka_unit_test_setup_teardown(a_deadline_brings_a_turn_when_it_is_due, start, end),
        cmocka_unit_test_setup_teardown(a_deadline_that_has_passed_needs_no_sleep, start, end),
        cmocka_unit_test_setup_teardown(the_end_comes_after_the_turn, start, end),
        cmocka_unit_test_setup_teardown(its_cpu_is_counted_turn_by_turn, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
