/* The pause histogram. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gc/histogram.h"

#define HOUR_NS UINT64_C(3600000000000)

static uint64_t bound_of(uint64_t ns) {
    struct histogram h;
    histogram_init(&h);
    histogram_add(&h, ns);
    histogram_add(&h, UINT64_MAX); /* so that the maximum does not cap the bound */
    return histogram_quantile(&h, 0.5);
}

static void an_empty_histogram_says_zero(void **state) {
    (void)state;
    struct histogram h;
    histogram_init(&h);
    assert_int_equal(histogram_quantile(&h, 0.5), 0);
    assert_int_equal(histogram_quantile(&h, 1), 0);
    assert_int_equal(h.count, 0);
    assert_int_equal(h.total_ns, 0);
    assert_int_equal(h.max_ns, 0);
}

static void count_total_and_maximum_are_exact(void **state) {
    (void)state;
    struct histogram h;
    histogram_init(&h);
    histogram_add(&h, 1000003);
    histogram_add(&h, 17);
    histogram_add(&h, 0);
    assert_int_equal(h.count, 3);
    assert_int_equal(h.total_ns, 1000020);
    assert_int_equal(h.max_ns, 1000003);
    histogram_add(&h, UINT64_MAX);
    assert_int_equal(h.total_ns, UINT64_MAX);
}

static void values_below_32_ns_are_exact(void **state) {
    (void)state;
    for (uint64_t ns = 0; ns < 32; ns++) {
        assert_int_equal(bound_of(ns), ns);
    }
    assert_int_equal(bound_of(32), 33);
    assert_int_equal(bound_of(33), 33);
    assert_int_equal(bound_of(34), 35);
}

static void a_bound_is_at_most_a_sixteenth_above_its_value(void **state) {
    (void)state;
    for (uint64_t power = 1; power <= HOUR_NS; power *= 2) {
        for (uint64_t step = 0; step < 64; step++) {
            uint64_t ns = power + power / 64 * step;
            uint64_t bound = bound_of(ns);
            assert_true(bound >= ns);
            assert_true((bound - ns) * 16 <= ns);
        }
        assert_true(bound_of(power - 1) < power);
    }
    uint64_t bound = bound_of(HOUR_NS);
    assert_in_range(bound, HOUR_NS, HOUR_NS + HOUR_NS / 16);
}

static void bounds_never_fall_as_values_rise(void **state) {
    (void)state;
    uint64_t last = 0;
    for (uint64_t ns = 0; ns < 100000; ns++) {
        uint64_t bound = bound_of(ns);
        assert_true(bound >= last);
        assert_true(bound >= ns);
        last = bound;
    }
}

static void no_quantile_is_above_the_maximum(void **state) {
    (void)state;
    struct histogram h;
    histogram_init(&h);
    histogram_add(&h, 1000000); /* its bucket ends at 1015807 */
    assert_int_equal(histogram_quantile(&h, 0.5), 1000000);
    assert_int_equal(histogram_quantile(&h, 1), 1000000);
    histogram_add(&h, 1000001);
    assert_int_equal(histogram_quantile(&h, 0.5), 1000001);
}

static void values_past_the_last_bucket_are_counted_and_the_maximum_is_kept(void **state) {
    (void)state;
    struct histogram h;
    histogram_init(&h);
    histogram_add(&h, 5);
    histogram_add(&h, 100 * HOUR_NS);
    assert_int_equal(h.count, 2);
    assert_int_equal(histogram_quantile(&h, 0.5), 5);
    assert_int_equal(histogram_quantile(&h, 0.99), 100 * HOUR_NS);
    histogram_add(&h, UINT64_MAX);
    assert_int_equal(histogram_quantile(&h, 1), UINT64_MAX);
    histogram_init(&h);
    histogram_add(&h, (UINT64_C(1) << HISTOGRAM_MAX_BITS) - 1);
    histogram_add(&h, UINT64_C(1) << HISTOGRAM_MAX_BITS);
    assert_int_equal(h.buckets[HISTOGRAM_BUCKETS - 2], 1);
    assert_int_equal(h.buckets[HISTOGRAM_BUCKETS - 1], 1);
}

static void a_quantile_is_the_value_of_rank_q_times_count_rounded_up(void **state) {
    (void)state;
    struct histogram h;
    histogram_init(&h);
    for (uint64_t ns = 1; ns <= 10; ns++) {
        histogram_add(&h, ns);
    }
    assert_int_equal(histogram_quantile(&h, 0), 1);
    assert_int_equal(histogram_quantile(&h, 0.01), 1);
    assert_int_equal(histogram_quantile(&h, 0.1), 1);
    assert_int_equal(histogram_quantile(&h, 0.11), 2);
    assert_int_equal(histogram_quantile(&h, 0.5), 5);
    assert_int_equal(histogram_quantile(&h, 0.7), 7);
    assert_int_equal(histogram_quantile(&h, 0.99), 10);
    assert_int_equal(histogram_quantile(&h, 1), 10);
}

static void a_share_that_binary_cannot_write_is_no_rank_more(void **state) {
    (void)state;
    struct histogram h;
    histogram_init(&h);
    for (uint64_t i = 0; i < 100; i++) {
        histogram_add(&h, i < 7 ? 1 : 9);
    }
    assert_true(0.07 * 100 > 7);
    assert_int_equal(histogram_quantile(&h, 0.07), 1);
    assert_int_equal(histogram_quantile(&h, 0.08), 9);
}

static void a_q_out_of_range_is_clamped(void **state) {
    (void)state;
    struct histogram h;
    histogram_init(&h);
    histogram_add(&h, 3);
    histogram_add(&h, 9);
    assert_int_equal(histogram_quantile(&h, -1), 3);
    assert_int_equal(histogram_quantile(&h, (double)NAN), 3);
    assert_int_equal(histogram_quantile(&h, 2), 9);
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void quantiles_of_many_values_are_within_a_sixteenth_of_the_sorted_list(void **state) {
    (void)state;
    enum {
        count = 20000,
    };
    static uint64_t values[count];
    const uint64_t seed = 42;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct histogram h;
    histogram_init(&h);
    uint64_t x = seed;
    for (size_t i = 0; i < count; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        values[i] = (x >> 32) >> (x >> 20 & 31); /* spread over many powers of two */
        histogram_add(&h, values[i]);
    }
    qsort(values, count, sizeof values[0], compare);
    for (int percent = 1; percent <= 100; percent++) {
        uint64_t exact = values[(size_t)percent * count / 100 - 1];
        uint64_t bound = histogram_quantile(&h, percent / 100.0);
        assert_true(bound >= exact);
        assert_true((bound - exact) * 16 <= exact);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_histogram_says_zero),
        cmocka_unit_test(count_total_and_maximum_are_exact),
        cmocka_unit_test(values_below_32_ns_are_exact),
        cmocka_unit_test(a_bound_is_at_most_a_sixteenth_above_its_value),
        cmocka_unit_test(bounds_never_fall_as_values_rise),
        cmocka_unit_test(no_quantile_is_above_the_maximum),
        cmocka_unit_test(values_past_the_last_bucket_are_counted_and_the_maximum_is_kept),
        cmocka_unit_test(a_quantile_is_the_value_of_rank_q_times_count_rounded_up),
        cmocka_unit_test(a_share_that_binary_cannot_write_is_no_rank_more),
        cmocka_unit_test(a_q_out_of_range_is_clamped),
        cmocka_unit_test(quantiles_of_many_values_are_within_a_sixteenth_of_the_sorted_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
