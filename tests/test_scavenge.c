/* What goes back to the kernel, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gc/scavenge.h"

#define KIB   (UINT64_C(1) << 10)
#define MIB   (UINT64_C(1) << 20)
#define PIECE SCAVENGE_PIECE_BYTES

/* After a spike: the goal needs 100 MiB of pages, 60 are in use and 300 are free. */
static const struct scavenge_in spike = {
    .heap_goal = 100 * MIB,
    .start_heap_bytes = 80 * MIB,
    .start_page_bytes = 80 * MIB,
    .heap_in_use = 60 * MIB,
    .heap_free_resident = 300 * MIB,
    .total_counted = 370 * MIB,
    .limit = UINT64_MAX,
};

static void ten_percent_above_the_goal_stays(void **state) {
    (void)state;
    assert_int_equal(scavenge_excess(&spike), (360 - 110) * MIB);
    struct scavenge_in in = spike;
    in.heap_free_resident = 50 * MIB; /* exactly 110 MiB resident */
    assert_int_equal(scavenge_excess(&in), 0);
    in.heap_free_resident = 52 * MIB;
    assert_int_equal(scavenge_excess(&in), PIECE);
}

static void what_pages_hold_beyond_objects_is_needed_too(void **state) {
    (void)state;
    struct scavenge_in in = spike;
    in.start_page_bytes = 120 * MIB; /* 1.5 pages' bytes for each of the heap's */
    assert_int_equal(scavenge_excess(&in), (360 - 165) * MIB / PIECE * PIECE);
    in.start_page_bytes = 40 * MIB; /* nonsense: fewer than the objects take */
    assert_int_equal(scavenge_excess(&in), (360 - 110) * MIB);
}

static void a_tiny_heap_of_many_pages_does_not_keep_everything(void **state) {
    (void)state;
    struct scavenge_in in = spike;
    in.heap_goal = 4 * MIB;
    in.start_heap_bytes = 1 * KIB;
    in.start_page_bytes = 8 * MIB;
    in.heap_in_use = 8 * MIB;
    uint64_t kept = UINT64_C(4) * 4 * MIB * 110 / 100;
    assert_int_equal(scavenge_excess(&in), (308 * MIB - kept) / PIECE * PIECE);
}

static void no_more_goes_than_is_free(void **state) {
    (void)state;
    struct scavenge_in in = spike;
    in.heap_goal = 4 * MIB;
    in.heap_in_use = 100 * MIB;
    in.heap_free_resident = 10 * MIB;
    assert_int_equal(scavenge_excess(&in), 10 * MIB);
    in.heap_free_resident = 0;
    assert_int_equal(scavenge_excess(&in), 0);
}

static void only_whole_pieces_go_without_need(void **state) {
    (void)state;
    struct scavenge_in in = spike;
    in.heap_free_resident = 50 * MIB + PIECE - 1;
    assert_int_equal(scavenge_excess(&in), 0);
    in.heap_free_resident = 50 * MIB + 3 * PIECE - 1;
    assert_int_equal(scavenge_excess(&in), 2 * PIECE);
}

static void nothing_goes_before_the_first_cycle_or_without_a_goal(void **state) {
    (void)state;
    struct scavenge_in in = spike;
    in.heap_goal = 4 * MIB;
    in.start_heap_bytes = 0;
    assert_int_equal(scavenge_excess(&in), 0);
    in.start_page_bytes = 0;
    assert_int_equal(scavenge_excess(&in), 0);
    in = spike;
    in.heap_goal = UINT64_MAX;
    assert_int_equal(scavenge_excess(&in), 0);
    in.heap_goal = UINT64_MAX - 1;
    assert_int_equal(scavenge_excess(&in), 0);
}

static void a_limit_brings_the_total_to_95_percent(void **state) {
    (void)state;
    struct scavenge_in in = spike;
    in.heap_goal = UINT64_MAX;
    in.limit = 400 * MIB; /* 380 */
    in.total_counted = 380 * MIB;
    assert_int_equal(scavenge_excess(&in), 0);
    in.total_counted = 390 * MIB;
    assert_int_equal(scavenge_excess(&in), 10 * MIB);
    in.total_counted = 391 * MIB; /* 11 above: five pieces, as the limit itself is not passed */
    assert_int_equal(scavenge_excess(&in), 10 * MIB);
    in.total_counted = 380 * MIB + PIECE - 1;
    assert_int_equal(scavenge_excess(&in), 0);
}

static void the_limit_counts_before_the_first_cycle_too(void **state) {
    (void)state;
    struct scavenge_in in = spike;
    in.start_heap_bytes = 0;
    in.limit = 300 * MIB;
    assert_int_equal(scavenge_excess(&in), (370 - 285) * MIB / PIECE * PIECE);
}

static void the_larger_of_both_goals_wins(void **state) {
    (void)state;
    struct scavenge_in in = spike;
    in.limit = 360 * MIB; /* 342: 28 must go, the ratio says 250 */
    assert_int_equal(scavenge_excess(&in), 250 * MIB);
    in.limit = 100 * MIB; /* 95: 275 should go, but 100 are in the goal */
    assert_int_equal(scavenge_excess(&in), 270 * MIB);
    in.heap_goal = 90 * MIB;
    assert_int_equal(scavenge_excess(&in), 270 * MIB);
    in.heap_goal = 80 * MIB;
    assert_int_equal(scavenge_excess(&in), 274 * MIB);
}

/* 5 MiB beside the heap. The goal leaves 3 %, so between two cycles the heap comes nearer than 95 % each
 * time. */
static void what_the_goal_needs_stays_under_a_limit(void **state) {
    (void)state;
    struct scavenge_in in = {
        .heap_goal = 243 * MIB,
        .start_heap_bytes = 240 * MIB,
        .start_page_bytes = 240 * MIB,
        .heap_in_use = 100 * MIB,
        .heap_free_resident = 143 * MIB,
        .total_counted = 248 * MIB,
        .limit = 256 * MIB,
    };
    assert_int_equal(scavenge_excess(&in), 0);
    in.heap_free_resident += 4 * MIB;
    in.total_counted += 4 * MIB;
    assert_int_equal(scavenge_excess(&in), 4 * MIB);
    in.start_page_bytes += 2 * MIB; /* in what pages hold beyond objects, too */
    assert_int_equal(scavenge_excess(&in), 2 * MIB);
}

/* 64 MiB in use and a little beside: nothing brings the total under a limit of 64 MiB. */
static void past_a_limit_that_cannot_be_kept_what_was_in_use_of_late_stays(void **state) {
    (void)state;
    struct scavenge_in in = {
        .heap_goal = 64 * MIB,
        .start_heap_bytes = 64 * MIB + 64 * KIB,
        .start_page_bytes = 64 * MIB + 64 * KIB,
        .heap_in_use = 64 * MIB,
        .heap_free_resident = 64 * KIB, /* the block that died, and that the next one will take */
        .total_counted = 65 * MIB,
        .limit = 64 * MIB,
    };
    assert_int_equal(scavenge_excess(&in), 0);
    in.heap_free_resident += 20 * MIB;
    in.total_counted += 20 * MIB;
    assert_int_equal(scavenge_excess(&in), 20 * MIB);
    in.recent_page_bytes = 74 * MIB;
    assert_int_equal(scavenge_excess(&in), 12 * MIB); /* whole pieces for 10 MiB and 64 KiB */
    in.recent_page_bytes = 100 * MIB;
    assert_int_equal(scavenge_excess(&in), 0);
    in.limit = 200 * MIB; /* raised: it can be kept */
    in.heap_goal = 190 * MIB;
    assert_int_equal(scavenge_excess(&in), 0);
    in.heap_in_use = 40 * MIB; /* less is live: so can the old one, and all above it goes */
    in.heap_free_resident += 24 * MIB;
    in.limit = 64 * MIB;
    in.heap_goal = 61 * MIB;
    assert_int_equal(scavenge_excess(&in), 22 * MIB);
}

static void what_is_taken_before_a_cycle_can_be_over_counts_as_in_use(void **state) {
    (void)state;
    struct scavenge_in in = {
        .heap_goal = 64 * MIB,
        .start_heap_bytes = 65 * MIB,
        .start_page_bytes = 65 * MIB,
        .recent_page_bytes = 85 * MIB,
        .heap_in_use = 64 * MIB,
        .heap_free_resident = 21 * MIB,
        .total_counted = 86 * MIB,
        .limit = 66 * MIB,
    };
    assert_int_equal(scavenge_excess(&in), 20 * MIB);
    in.runway_bytes = 20 * MIB;
    assert_int_equal(scavenge_excess(&in), 0);
    in.runway_bytes = 0;
    in.held_back = true;
    assert_int_equal(scavenge_excess(&in), 0);
    in.recent_page_bytes = 81 * MIB;
    assert_int_equal(scavenge_excess(&in), 4 * MIB);
}

static void past_the_limit_a_whole_piece_goes_for_a_single_byte(void **state) {
    (void)state;
    struct scavenge_in in = {
        .heap_goal = UINT64_MAX,
        .heap_free_resident = 3 * MIB,
        .total_counted = 10 * MIB + 1,
        .limit = 10 * MIB,
    };
    assert_int_equal(scavenge_excess(&in), PIECE);
    in.heap_free_resident = PIECE;
    assert_int_equal(scavenge_excess(&in), PIECE);
    in.total_counted = 10 * MIB;
    assert_int_equal(scavenge_excess(&in), 0);
}

static void past_the_limit_pages_go_when_no_piece_is_free(void **state) {
    (void)state;
    struct scavenge_in in = {
        .heap_goal = UINT64_MAX,
        .heap_free_resident = 1 * MIB,
        .total_counted = 10 * MIB + 1,
        .limit = 10 * MIB,
    };
    assert_int_equal(scavenge_excess(&in), SCAVENGE_PAGE_BYTES);
    in.total_counted = 10 * MIB + 8 * KIB + 1;
    assert_int_equal(scavenge_excess(&in), 2 * SCAVENGE_PAGE_BYTES);
    in.total_counted = 20 * MIB;
    assert_int_equal(scavenge_excess(&in), 1 * MIB);
}

static void a_request_that_fits_returns_nothing(void **state) {
    (void)state;
    struct scavenge_in in = spike;
    assert_int_equal(scavenge_for_request(&in, UINT64_MAX), 0);
    assert_false(scavenge_may_split(&in, UINT64_MAX));
    in.limit = 400 * MIB;
    assert_int_equal(scavenge_for_request(&in, 30 * MIB), 0);
    assert_false(scavenge_may_split(&in, 30 * MIB));
}

static void a_request_that_does_not_fit_returns_what_it_needs(void **state) {
    (void)state;
    struct scavenge_in in = spike;
    in.limit = 400 * MIB;
    assert_int_equal(scavenge_for_request(&in, 30 * MIB + 1), PIECE);
    assert_true(scavenge_may_split(&in, 30 * MIB + 1));
    assert_int_equal(scavenge_for_request(&in, 40 * MIB), 10 * MIB);
    in.heap_free_resident = 1 * MIB;
    assert_int_equal(scavenge_for_request(&in, 30 * MIB + 1), SCAVENGE_PAGE_BYTES);
    assert_int_equal(scavenge_for_request(&in, 40 * MIB), 1 * MIB);
    in.heap_free_resident = 0;
    assert_int_equal(scavenge_for_request(&in, 40 * MIB), 0);
}

static void a_request_of_any_size_gets_what_is_free(void **state) {
    (void)state;
    struct scavenge_in in = spike;
    in.limit = 400 * MIB;
    assert_int_equal(scavenge_for_request(&in, UINT64_MAX), 300 * MIB);
    in.heap_free_resident = 300 * MIB + 5;
    assert_int_equal(scavenge_for_request(&in, UINT64_MAX), 300 * MIB + 5);
}

/* Whatever was returned, asking again asks for nothing. */
static void returning_what_was_asked_settles_it(void **state) {
    (void)state;
    for (uint64_t free_pages = 0; free_pages < 4096; free_pages += 37) {
        for (uint64_t limit = 1 * MIB; limit < 80 * MIB; limit += 3 * MIB + 4096) {
            struct scavenge_in in = {
                .heap_goal = 8 * MIB,
                .start_heap_bytes = 8 * MIB,
                .start_page_bytes = 9 * MIB,
                .heap_in_use = 5 * MIB,
                .heap_free_resident = free_pages * SCAVENGE_PAGE_BYTES,
                .total_counted = 6 * MIB + free_pages * SCAVENGE_PAGE_BYTES,
                .limit = limit,
            };
            uint64_t gone = scavenge_excess(&in);
            assert_true(gone <= in.heap_free_resident);
            in.heap_free_resident -= gone;
            in.total_counted -= gone;
            assert_int_equal(scavenge_excess(&in), 0);
            /* Above the limit stays only what was in use when the last cycle started. */
            assert_true(in.total_counted <= limit || in.heap_free_resident == 0 ||
                        in.heap_in_use + in.heap_free_resident <= in.start_page_bytes);
        }
    }
}

static void the_scavenger_works_one_hundredth_of_the_time(void **state) {
    (void)state;
    assert_int_equal(scavenge_rest_ns(1000), 99000);
    assert_int_equal(scavenge_rest_ns(0), 0);
    assert_int_equal(scavenge_rest_ns(UINT64_MAX / 2), UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_percent_above_the_goal_stays),
        cmocka_unit_test(what_pages_hold_beyond_objects_is_needed_too),
        cmocka_unit_test(a_tiny_heap_of_many_pages_does_not_keep_everything),
        cmocka_unit_test(no_more_goes_than_is_free),
        cmocka_unit_test(only_whole_pieces_go_without_need),
        cmocka_unit_test(nothing_goes_before_the_first_cycle_or_without_a_goal),
        cmocka_unit_test(a_limit_brings_the_total_to_95_percent),
        cmocka_unit_test(the_limit_counts_before_the_first_cycle_too),
        cmocka_unit_test(the_larger_of_both_goals_wins),
        cmocka_unit_test(what_the_goal_needs_stays_under_a_limit),
        cmocka_unit_test(past_a_limit_that_cannot_be_kept_what_was_in_use_of_late_stays),
        cmocka_unit_test(what_is_taken_before_a_cycle_can_be_over_counts_as_in_use),
        cmocka_unit_test(past_the_limit_a_whole_piece_goes_for_a_single_byte),
        cmocka_unit_test(past_the_limit_pages_go_when_no_piece_is_free),
        cmocka_unit_test(a_request_that_fits_returns_nothing),
        cmocka_unit_test(a_request_that_does_not_fit_returns_what_it_needs),
        cmocka_unit_test(a_request_of_any_size_gets_what_is_free),
        cmocka_unit_test(returning_what_was_asked_settles_it),
        cmocka_unit_test(the_scavenger_works_one_hundredth_of_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
