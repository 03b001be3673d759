/* The demonstration's relations: true for figures as they should be, and each false for figures that break it
 * alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Programs of workloads/ are no library: the room itself is compiled in. */
#include "workloads/relations.c"

#define MIB (UINT64_C(1) << 20)

static const char spiral_line[] =
    "tern: memory limit of 8.0 MiB passed by 0.1 MiB: 7.6 MiB are live; raise the limit\n";

static const struct relations_in good = {
    .block_bytes = 64 << 10,
    .total_bytes = 250 * MIB,
    .ratio_collections = {124, 62, 15, 3},
    .ratio_ideal = {125, 62.5, 15.625, 3.90625},
    .off_collections = 0,
    .off_own_rss_bytes = 255 * MIB,
    .off_half_own_rss_bytes = 129 * MIB,
    .limit_bytes = {64 * MIB, 32 * MIB, 16 * MIB, 8 * MIB},
    .limit_collections = {4, 8, 17, 37},
    .limit_peak_counted_bytes = {63 * MIB, 31 * MIB, 15 * MIB, 7 * MIB},
    .spiral_finished = true,
    .spiral_gc_cpu_percent = {33, 47},
    .spiral_wall_ns = {250000000, 1200000000},
    .processors = 2,
    .spiral_log = spiral_line,
    .spiral_passed_by_bytes = 9 * MIB,
};

/* Asserts that exactly `broken` is false. */
static void assert_only_false(const struct relations_in *in, int broken) {
    bool holds[RELATION_COUNT];
    assert_false(relations_judge(in, holds));
    for (int i = 0; i < RELATION_COUNT; i++)
        if (holds[i] == (i == broken))
            fail_msg("%s is %s", relation_names[i], holds[i] ? "true" : "false");
}

static void assert_all_true(const struct relations_in *in) {
    bool holds[RELATION_COUNT];
    assert_true(relations_judge(in, holds));
    for (int i = 0; i < RELATION_COUNT; i++)
        assert_true(holds[i]);
}

static void figures_as_they_should_be_hold(void **state) {
    (void)state;
    assert_all_true(&good);
}

static void each_relation_has_a_name_and_a_claim(void **state) {
    (void)state;
    for (int i = 0; i < RELATION_COUNT; i++) {
        assert_non_null(relation_names[i]);
        assert_non_null(relation_claims[i]);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(relation_names[i], relation_names[j]);
    }
}

static void equal_counts_are_not_falling(void **state) {
    (void)state;
    struct relations_in in = good;
    in.ratio_collections[3] = 15;
    in.ratio_ideal[3] = 15;
    assert_only_false(&in, RELATION_GOGC_FALLING);
}

static void a_count_a_tenth_off_is_not_near_its_ideal(void **state) {
    (void)state;
    struct relations_in in = good;
    in.ratio_collections[0] = 137; /* 125 and a tenth is 137.5 */
    assert_all_true(&in);
    in.ratio_collections[0] = 138;
    assert_only_false(&in, RELATION_GOGC_NEAR_IDEAL);
    in = good;
    in.ratio_collections[1] = 56;
    assert_only_false(&in, RELATION_GOGC_NEAR_IDEAL);
    in = good;
    in.ratio_collections[3] = 4;
    assert_all_true(&in);
    in.ratio_collections[3] = 2;
    assert_only_false(&in, RELATION_GOGC_NEAR_IDEAL);
}

static void off_must_not_collect_at_all(void **state) {
    (void)state;
    struct relations_in in = good;
    in.off_collections = 1;
    assert_only_false(&in, RELATION_OFF_IS_ZERO);
}

static void off_must_hold_what_was_allocated(void **state) {
    (void)state;
    struct relations_in in = good;
    in.off_own_rss_bytes = 200 * MIB;
    in.off_half_own_rss_bytes = 100 * MIB;
    assert_only_false(&in, RELATION_OFF_GROWS);
    in = good;
    in.off_half_own_rss_bytes = 200 * MIB;
    assert_only_false(&in, RELATION_OFF_GROWS);
}

static void every_limit_must_bring_collections_back(void **state) {
    (void)state;
    struct relations_in in = good;
    in.limit_collections[0] = 0;
    assert_only_false(&in, RELATION_LIMIT_BRINGS_BACK);
}

static void a_limit_may_be_passed_by_one_block_only(void **state) {
    (void)state;
    struct relations_in in = good;
    in.limit_peak_counted_bytes[2] = in.limit_bytes[2] + in.block_bytes;
    assert_all_true(&in);
    in.limit_peak_counted_bytes[2]++;
    assert_only_false(&in, RELATION_LIMIT_KEPT);
}

static void a_quarter_of_the_limit_must_more_than_quadruple_the_collections(void **state) {
    (void)state;
    struct relations_in in = good;
    in.limit_collections[3] = 33;
    assert_all_true(&in);
    in.limit_collections[3] = 32;
    assert_only_false(&in, RELATION_LIMIT_STEEP);
}

static void a_spiral_must_finish(void **state) {
    (void)state;
    struct relations_in in = good;
    in.spiral_finished = false;
    assert_only_false(&in, RELATION_SPIRAL_FINISHES);
}

static void on_two_processors_cheap_marking_stays_at_half(void **state) {
    (void)state;
    struct relations_in in = good;
    in.spiral_gc_cpu_percent[0] = 55;
    assert_all_true(&in);
    in.spiral_gc_cpu_percent[0] = 55.1;
    assert_only_false(&in, RELATION_SPIRAL_CPU_BOUNDED);
    in.processors = 1;
    in.spiral_gc_cpu_percent[0] = 90;
    assert_all_true(&in);
}

static void dear_marking_has_one_second_of_leeway(void **state) {
    (void)state;
    struct relations_in in = good;
    in.spiral_wall_ns[1] = 10000000000;
    in.spiral_gc_cpu_percent[1] = 64.9;
    assert_all_true(&in);
    in.spiral_gc_cpu_percent[1] = 65.1;
    assert_only_false(&in, RELATION_SPIRAL_CPU_BOUNDED);
    in.spiral_gc_cpu_percent[1] = -1;
    assert_only_false(&in, RELATION_SPIRAL_CPU_BOUNDED);
}

static void a_spiral_must_say_once_by_how_much(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "tern: something else\n",
        "tern: memory limit passed\n",
        "tern: memory limit passed by much\n",
        "tern: memory limit passed by 3.0\n",
        "gc 1 @0.001s 1%: 0.1+0+0 ms clock, 0.2+0/0/0+0 ms cpu, 7->7->7 MB, 7 MB goal, 0 MB stacks, 0 MB "
        "globals, 2 P\n",
        "tern: memory limit of 8.0 MiB passed by 0.1 MiB\ntern: memory limit of 8.0 MiB passed by 9.1 MiB\n",
        NULL,
    };
    struct relations_in in = good;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        in.spiral_log = bad[i];
        assert_only_false(&in, RELATION_SPIRAL_SAYS_SO);
    }
    in.spiral_log = "something before\ntern: memory limit of 8.0 MiB passed by 12 MiB";
    assert_all_true(&in);
    in.spiral_passed_by_bytes = 0;
    assert_only_false(&in, RELATION_SPIRAL_SAYS_SO);
}

static void the_line_is_found_whole(void **state) {
    (void)state;
    size_t len, lines;
    const char *log = "a\nthe limit was passed by 1.5 MiB: b\nc\n";
    assert_ptr_equal(relations_limit_line(log, &len, &lines), log + 2);
    assert_int_equal(len, 34);
    assert_int_equal(lines, 1);
}

static void an_unknown_count_makes_false_what_needs_it(void **state) {
    (void)state;
    struct relations_in in = good;
    bool holds[RELATION_COUNT];
    for (int i = 0; i < RELATIONS_RATIOS; i++)
        in.ratio_collections[i] = UINT64_MAX;
    for (int i = 0; i < RELATIONS_LIMITS; i++)
        in.limit_collections[i] = in.limit_peak_counted_bytes[i] = UINT64_MAX;
    in.off_collections = in.off_own_rss_bytes = in.off_half_own_rss_bytes = UINT64_MAX;
    in.spiral_finished = false;
    in.spiral_wall_ns[0] = in.spiral_wall_ns[1] = in.spiral_passed_by_bytes = UINT64_MAX;
    assert_false(relations_judge(&in, holds));
    for (int i = 0; i < RELATION_COUNT; i++)
        if (holds[i])
            fail_msg("%s is true of nothing", relation_names[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_as_they_should_be_hold),
        cmocka_unit_test(each_relation_has_a_name_and_a_claim),
        cmocka_unit_test(equal_counts_are_not_falling),
        cmocka_unit_test(a_count_a_tenth_off_is_not_near_its_ideal),
        cmocka_unit_test(off_must_not_collect_at_all),
        cmocka_unit_test(off_must_hold_what_was_allocated),
        cmocka_unit_test(every_limit_must_bring_collections_back),
        cmocka_unit_test(a_limit_may_be_passed_by_one_block_only),
        cmocka_unit_test(a_quarter_of_the_limit_must_more_than_quadruple_the_collections),
        cmocka_unit_test(a_spiral_must_finish),
        cmocka_unit_test(on_two_processors_cheap_marking_stays_at_half),
        cmocka_unit_test(dear_marking_has_one_second_of_leeway),
        cmocka_unit_test(a_spiral_must_say_once_by_how_much),
        cmocka_unit_test(the_line_is_found_whole),
        cmocka_unit_test(an_unknown_count_makes_false_what_needs_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
