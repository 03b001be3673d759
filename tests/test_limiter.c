/* The 50 % CPU limiter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gc/limiter.h"

#define MS  INT64_C(1000000)
#define SEC INT64_C(1000000000)

static struct limiter fresh(int procs) {
    struct limiter l;
    limiter_init(&l, procs);
    return l;
}

static void the_bucket_holds_one_cpu_second_per_processor(void **state) {
    (void)state;
    assert_int_equal(fresh(1).capacity_ns, SEC);
    assert_int_equal(fresh(16).capacity_ns, 16 * SEC);
    assert_int_equal(fresh(0).capacity_ns, SEC);
    assert_int_equal(fresh(-3).capacity_ns, SEC);
}

static void collection_is_free_until_the_bucket_is_full(void **state) {
    (void)state;
    struct limiter l = fresh(2);
    assert_false(limiter_limiting(&l));
    limiter_update(&l, 0, 2 * SEC - 1);
    assert_false(limiter_limiting(&l));
    limiter_update(&l, 0, 1);
    assert_true(limiter_limiting(&l));
    assert_int_equal(l.overflow_ns, 0);
}

static void program_time_drains_what_collection_filled(void **state) {
    (void)state;
    struct limiter l = fresh(1);
    limiter_update(&l, 0, 600 * MS);
    limiter_update(&l, 200 * MS, 0);
    assert_int_equal(l.fill_ns, 400 * MS);
    limiter_update(&l, 0, 599 * MS);
    assert_false(limiter_limiting(&l));
    limiter_update(&l, 0, 1 * MS);
    assert_true(limiter_limiting(&l));
}

static void one_stretch_weighs_both_against_each_other(void **state) {
    (void)state;
    struct limiter l = fresh(1);
    limiter_update(&l, 5 * SEC, 5 * SEC);
    assert_int_equal(l.fill_ns, 0);
    limiter_update(&l, 5 * SEC, 5 * SEC + 300 * MS);
    assert_int_equal(l.fill_ns, 300 * MS);
    assert_false(limiter_limiting(&l));
}

static void an_idle_day_earns_no_credit(void **state) {
    (void)state;
    struct limiter l = fresh(1);
    limiter_update(&l, 86400 * SEC, 0);
    assert_int_equal(l.fill_ns, 0);
    limiter_update(&l, 0, SEC);
    assert_true(limiter_limiting(&l));
}

static void a_nanosecond_below_the_brim_ends_limiting(void **state) {
    (void)state;
    struct limiter l = fresh(1);
    limiter_update(&l, 0, SEC);
    limiter_update(&l, 0, 0);
    assert_true(limiter_limiting(&l));
    limiter_update(&l, 1, 0);
    assert_false(limiter_limiting(&l));
    assert_int_equal(l.fill_ns, SEC - 1);
}

static void what_a_cycle_takes_beyond_the_brim_is_paid_back_first(void **state) {
    (void)state;
    struct limiter l = fresh(1);
    limiter_update(&l, 0, SEC + 300 * MS);
    assert_int_equal(l.overflow_ns, 300 * MS);
    limiter_update(&l, 299 * MS, 0);
    assert_true(limiter_limiting(&l));
    limiter_update(&l, 1 * MS, 0);
    assert_true(limiter_limiting(&l));
    limiter_update(&l, 1, 0);
    assert_false(limiter_limiting(&l));
    limiter_update(&l, 0, 1 + 200 * MS);
    limiter_update(&l, 500 * MS, 0); /* 200 for the debt, 300 out of the bucket */
    assert_int_equal(l.fill_ns, 700 * MS);
}

static void cycles_asked_for_while_limiting_do_not_pile_up_debt(void **state) {
    (void)state;
    struct limiter l = fresh(1);
    limiter_update(&l, 0, SEC);
    for (int i = 0; i < 3600; i++) {
        limiter_update(&l, 0, SEC); /* an hour of them, by the program's wish */
    }
    assert_int_equal(l.overflow_ns, 3600 * SEC);
    limiter_update(&l, SEC, 0);
    assert_true(limiter_limiting(&l));
    limiter_update(&l, 1, 0);
    assert_false(limiter_limiting(&l));
}

/* A death spiral: the live heap is above the limit, so a cycle is due at every chance, and each takes
 * cycle_ns. */
static double share_in_a_spiral(int64_t cycle_ns, int64_t step_ns, int64_t length_ns) {
    struct limiter l = fresh(1);
    int64_t gc_ns = 0;
    int64_t mutator_ns = 0;
    while (gc_ns + mutator_ns < length_ns) {
        mutator_ns += step_ns;
        limiter_update(&l, step_ns, 0);
        if (!limiter_limiting(&l)) {
            gc_ns += cycle_ns;
            limiter_update(&l, 0, cycle_ns);
        }
    }
    return (double)gc_ns / (double)(gc_ns + mutator_ns);
}

static void a_death_spiral_takes_half_of_the_cpu_and_one_bucket_more(void **state) {
    (void)state;
    static const int64_t cycles[] = {MS / 10, MS, 9 * MS, 100 * MS, 3 * SEC};
    for (size_t i = 0; i < sizeof cycles / sizeof cycles[0]; i++) {
        double share = share_in_a_spiral(cycles[i], MS / 100, 100 * SEC);
        /* Half, and up to a bucket and a cycle of leeway within the 100 seconds. */
        assert_true(share > 0.45);
        assert_true(share < 0.53);
    }
}

static void a_program_under_half_is_never_held_back(void **state) {
    (void)state;
    struct limiter l = fresh(1);
    for (int i = 0; i < 100000; i++) {
        limiter_update(&l, 10 * MS, 9 * MS);
        assert_false(limiter_limiting(&l));
    }
    assert_int_equal(l.overflow_ns, 0);
}

static void fewer_processors_shrink_the_bucket_and_may_fill_it(void **state) {
    (void)state;
    struct limiter l = fresh(4);
    limiter_update(&l, 0, 3 * SEC);
    assert_false(limiter_limiting(&l));
    limiter_resize(&l, 2);
    assert_int_equal(l.capacity_ns, 2 * SEC);
    assert_int_equal(l.fill_ns, 2 * SEC);
    assert_true(limiter_limiting(&l));
    limiter_update(&l, 1, 0);
    assert_false(limiter_limiting(&l));
}

static void more_processors_make_room(void **state) {
    (void)state;
    struct limiter l = fresh(1);
    limiter_update(&l, 0, 5 * SEC);
    assert_true(limiter_limiting(&l));
    limiter_resize(&l, 2);
    assert_false(limiter_limiting(&l));
    assert_int_equal(l.fill_ns, SEC);
    limiter_update(&l, 0, SEC);
    assert_true(limiter_limiting(&l));
    limiter_update(&l, 1, 0);
    assert_false(limiter_limiting(&l)); /* the old debt is gone */
}

static void the_same_number_of_processors_changes_nothing(void **state) {
    (void)state;
    struct limiter l = fresh(1);
    limiter_update(&l, 0, SEC);
    limiter_resize(&l, 1);
    assert_true(limiter_limiting(&l));
    assert_int_equal(l.fill_ns, SEC);
}

static void times_that_make_no_sense_do_no_harm(void **state) {
    (void)state;
    struct limiter l = fresh(1);
    limiter_update(&l, -SEC, -SEC);
    assert_int_equal(l.fill_ns, 0);
    limiter_update(&l, -SEC, 5);
    assert_int_equal(l.fill_ns, 5);
    limiter_update(&l, INT64_MIN, INT64_MAX);
    limiter_update(&l, 0, INT64_MAX);
    limiter_update(&l, 0, INT64_MAX);
    assert_true(limiter_limiting(&l));
    assert_int_equal(l.overflow_ns, UINT64_MAX);
    limiter_update(&l, INT64_MAX, INT64_MIN);
    assert_true(limiter_limiting(&l));
    limiter_update(&l, INT64_MAX, 0);
    assert_false(limiter_limiting(&l));
    assert_int_equal(l.fill_ns, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bucket_holds_one_cpu_second_per_processor),
        cmocka_unit_test(collection_is_free_until_the_bucket_is_full),
        cmocka_unit_test(program_time_drains_what_collection_filled),
        cmocka_unit_test(one_stretch_weighs_both_against_each_other),
        cmocka_unit_test(an_idle_day_earns_no_credit),
        cmocka_unit_test(a_nanosecond_below_the_brim_ends_limiting),
        cmocka_unit_test(what_a_cycle_takes_beyond_the_brim_is_paid_back_first),
        cmocka_unit_test(cycles_asked_for_while_limiting_do_not_pile_up_debt),
        cmocka_unit_test(a_death_spiral_takes_half_of_the_cpu_and_one_bucket_more),
        cmocka_unit_test(a_program_under_half_is_never_held_back),
        cmocka_unit_test(fewer_processors_shrink_the_bucket_and_may_fill_it),
        cmocka_unit_test(more_processors_make_room),
        cmocka_unit_test(the_same_number_of_processors_changes_nothing),
        cmocka_unit_test(times_that_make_no_sense_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
