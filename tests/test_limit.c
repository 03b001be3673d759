/* The memory limit's arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gc/limit.h"

#define MIB (UINT64_C(1) << 20)

/* 6 MiB beside the heap, 40 MiB of heap pages, 30 of them in use. */
static const struct limit_in plain = {
    .limit = 450 * MIB,
    .total_counted = 46 * MIB,
    .heap_free_resident = 10 * MIB,
    .heap_in_use = 30 * MIB,
    .live = 5 * MIB,
};

static void the_goal_is_the_limit_less_what_is_not_heap_and_three_percent(void **state) {
    (void)state;
    uint64_t headroom = 450 * MIB / 100 * 3;
    assert_int_equal(limit_goal(&plain), 450 * MIB - 6 * MIB - headroom);
}

static void the_headroom_is_at_least_one_mib(void **state) {
    (void)state;
    struct limit_in in = plain;
    in.limit = 32 * MIB;
    assert_int_equal(limit_goal(&in), (32 - 6 - 1) * MIB);
    /* 3 % reach 1 MiB a little above 33 MiB. */
    in.limit = 33 * MIB;
    assert_int_equal(limit_goal(&in), (33 - 6 - 1) * MIB);
    in.limit = 34 * MIB;
    assert_int_equal(limit_goal(&in), (34 - 6) * MIB - 34 * MIB / 100 * 3);
}

static void free_memory_of_the_heap_does_not_lower_the_goal(void **state) {
    (void)state;
    struct limit_in in = plain;
    uint64_t before = limit_goal(&in);
    in.heap_free_resident += 100 * MIB;
    in.total_counted += 100 * MIB;
    assert_int_equal(limit_goal(&in), before);
    in.heap_in_use += 7 * MIB;
    in.heap_free_resident -= 7 * MIB;
    assert_int_equal(limit_goal(&in), before);
}

static void each_byte_outside_the_heap_lowers_the_goal_by_one(void **state) {
    (void)state;
    struct limit_in in = plain;
    uint64_t before = limit_goal(&in);
    in.total_counted += 12345; /* external or off-heap: only the total grows */
    assert_int_equal(limit_goal(&in), before - 12345);
}

static void the_goal_is_never_under_live(void **state) {
    (void)state;
    struct limit_in in = plain;
    in.limit = 8 * MIB;
    assert_int_equal(limit_goal(&in), 5 * MIB);
    in.live = 400 * MIB;
    in.limit = 450 * MIB;
    assert_true(limit_goal(&in) > in.live);
    in.live = 449 * MIB;
    assert_int_equal(limit_goal(&in), 449 * MIB);
}

/* The whole headroom would ask for a cycle at each allocation there, with memory left. */
static void little_above_live_half_of_it_is_left_to_allocate(void **state) {
    (void)state;
    struct limit_in in = plain;
    uint64_t left = 450 * MIB - 6 * MIB, headroom = 450 * MIB / 100 * 3;
    in.live = left - 2 * headroom;
    assert_int_equal(limit_goal(&in), left - headroom);
    in.live = left - headroom;
    assert_int_equal(limit_goal(&in), left - headroom / 2);
    in.live = left - 128 * 1024;
    assert_int_equal(limit_goal(&in), left - 64 * 1024);
    in.live = left;
    assert_int_equal(limit_goal(&in), left);
}

static void a_limit_that_is_used_up_outside_the_heap_leaves_live(void **state) {
    (void)state;
    struct limit_in in = plain;
    in.limit = 6 * MIB;
    assert_int_equal(limit_goal(&in), 5 * MIB);
    in.limit = 6 * MIB - 1;
    assert_int_equal(limit_goal(&in), 5 * MIB);
    in.limit = 0;
    assert_int_equal(limit_goal(&in), 5 * MIB);
    in.live = 0;
    assert_int_equal(limit_goal(&in), 0);
}

static void a_small_limit_still_leaves_room_to_allocate(void **state) {
    (void)state;
    struct limit_in in = {.limit = 1 * MIB};
    assert_int_equal(limit_goal(&in), MIB / 2);
    in.limit = 2 * MIB;
    assert_int_equal(limit_goal(&in), 1 * MIB);
    in.limit = 3 * MIB;
    assert_int_equal(limit_goal(&in), 2 * MIB);
    in.limit = 1;
    assert_int_equal(limit_goal(&in), 1);
}

static void counters_read_at_different_moments_do_not_wrap(void **state) {
    (void)state;
    struct limit_in in = plain;
    in.total_counted = 1 * MIB; /* less than its parts */
    assert_int_equal(limit_goal(&in), 450 * MIB - 450 * MIB / 100 * 3);
    in.heap_free_resident = UINT64_MAX;
    in.heap_in_use = UINT64_MAX;
    assert_int_equal(limit_goal(&in), 450 * MIB - 450 * MIB / 100 * 3);
}

static void without_a_limit_there_is_no_goal_and_nothing_to_release(void **state) {
    (void)state;
    struct limit_in in = plain;
    in.limit = LIMIT_NONE;
    assert_int_equal(limit_goal(&in), LIMIT_NONE);
    assert_int_equal(limit_over(UINT64_MAX, LIMIT_NONE), 0);
    assert_int_equal(limit_release_needed(UINT64_MAX, UINT64_MAX, LIMIT_NONE), 0);
}

static void over_is_the_distance_past_the_limit(void **state) {
    (void)state;
    assert_int_equal(limit_over(9, 10), 0);
    assert_int_equal(limit_over(10, 10), 0);
    assert_int_equal(limit_over(11, 10), 1);
    assert_int_equal(limit_over(11, 0), 11);
}

static void release_makes_room_for_exactly_the_request(void **state) {
    (void)state;
    assert_int_equal(limit_release_needed(90, 10, 100), 0);
    assert_int_equal(limit_release_needed(90, 11, 100), 1);
    assert_int_equal(limit_release_needed(100, 5, 100), 5);
    assert_int_equal(limit_release_needed(120, 5, 100), 25);
    assert_int_equal(limit_release_needed(120, 0, 100), 20);
    assert_int_equal(limit_release_needed(0, 0, 0), 0);
}

static void a_request_of_any_size_is_counted(void **state) {
    (void)state;
    assert_int_equal(limit_release_needed(100, UINT64_MAX, 50), UINT64_MAX - 50);
    assert_int_equal(limit_release_needed(UINT64_MAX, 1, 50), UINT64_MAX - 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_goal_is_the_limit_less_what_is_not_heap_and_three_percent),
        cmocka_unit_test(the_headroom_is_at_least_one_mib),
        cmocka_unit_test(free_memory_of_the_heap_does_not_lower_the_goal),
        cmocka_unit_test(each_byte_outside_the_heap_lowers_the_goal_by_one),
        cmocka_unit_test(the_goal_is_never_under_live),
        cmocka_unit_test(little_above_live_half_of_it_is_left_to_allocate),
        cmocka_unit_test(a_limit_that_is_used_up_outside_the_heap_leaves_live),
        cmocka_unit_test(a_small_limit_still_leaves_room_to_allocate),
        cmocka_unit_test(counters_read_at_different_moments_do_not_wrap),
        cmocka_unit_test(without_a_limit_there_is_no_goal_and_nothing_to_release),
        cmocka_unit_test(over_is_the_distance_past_the_limit),
        cmocka_unit_test(release_makes_room_for_exactly_the_request),
        cmocka_unit_test(a_request_of_any_size_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
