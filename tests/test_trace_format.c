/* The trace line, against Go's format. */
#include <limits.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gc/trace_format.h"

#define MIB (UINT64_C(1) << 20)

/* A time in milliseconds as fmtNSAsMS can write it: 0, whole ones from 10 on, or two significant digits. */
#define MS_RE "(0|0\\.00[1-9]|0\\.0[1-9][0-9]|0\\.[1-9][0-9]|[1-9]\\.[0-9]|[1-9][0-9]+)"
#define N_RE  "(0|[1-9][0-9]*)"

static const char line_re[] = "^gc " N_RE " @" N_RE "\\.[0-9]{3}s " N_RE "%: " /* */
    MS_RE "\\+" MS_RE "\\+" MS_RE " ms clock, "                                /* */
    MS_RE "\\+" MS_RE "/" MS_RE "/" MS_RE "\\+" MS_RE " ms cpu, "              /* */
    N_RE "->" N_RE "->" N_RE " MB, " N_RE " MB goal, " N_RE " MB stacks, " N_RE " MB globals, " N_RE
                              " P( \\(forced\\))?$";

static regex_t line;

static int compile(void **state) {
    (void)state;
    return regcomp(&line, line_re, REG_EXTENDED | REG_NOSUB);
}

static int release(void **state) {
    (void)state;
    regfree(&line);
    return 0;
}

/* The line, checked for its one newline at the end and against the expression, without the newline. */
static const char *format(const struct trace_cycle *c) {
    static char buf[TRACE_GC_LINE_MAX_BYTES];
    memset(buf, 'x', sizeof buf);
    size_t len = trace_format_gc(buf, sizeof buf, c);
    assert_true(len > 0);
    assert_int_equal(len, strlen(buf));
    assert_ptr_equal(strchr(buf, '\n'), buf + len - 1);
    buf[len - 1] = '\0';
    if (regexec(&line, buf, 0, NULL, 0) != 0) {
        fail_msg("not a gctrace line: %s", buf);
    }
    return buf;
}

/* What Go printed for a program of its own (its documentation's example of the format). */
static void a_line_of_go_comes_out_byte_for_byte(void **state) {
    (void)state;
    const struct trace_cycle c = {
        .number = 18,
        .start_ns = 1824999999,
        .gc_percent_cpu = 13,
        .sweep_term_clock_ns = 30000,
        .mark_clock_ns = 44999999,
        .mark_term_clock_ns = 15999,
        .sweep_term_cpu_ns = 120000,
        .assist_cpu_ns = 29000000,
        .dedicated_cpu_ns = 43000000,
        .idle_cpu_ns = 0,
        .mark_term_cpu_ns = 60000,
        .heap_start_bytes = 173 * MIB,
        .heap_end_bytes = 203 * MIB + 5,
        .heap_live_bytes = 102 * MIB - 1,
        .goal_bytes = 203 * MIB,
        .procs = 4,
    };
    assert_string_equal(format(&c), "gc 18 @1.824s 13%: 0.030+44+0.015 ms clock, 0.12+29/43/0+0.060 ms cpu, "
                                    "173->203->101 MB, 203 MB goal, 0 MB stacks, 0 MB globals, 4 P");
}

static void every_field_is_in_its_place(void **state) {
    (void)state;
    const struct trace_cycle c = {
        .number = 1,
        .start_ns = 2003000000,
        .gc_percent_cpu = 3,
        .sweep_term_clock_ns = 11000000,
        .mark_clock_ns = 12000000,
        .mark_term_clock_ns = 13000000,
        .sweep_term_cpu_ns = 14000000,
        .assist_cpu_ns = 15000000,
        .dedicated_cpu_ns = 16000000,
        .idle_cpu_ns = 17000000,
        .mark_term_cpu_ns = 18000000,
        .heap_start_bytes = 21 * MIB,
        .heap_end_bytes = 22 * MIB,
        .heap_live_bytes = 23 * MIB,
        .goal_bytes = 24 * MIB,
        .stack_bytes = 25 * MIB,
        .global_bytes = 26 * MIB,
        .procs = 27,
        .forced = true,
    };
    assert_string_equal(format(&c), "gc 1 @2.003s 3%: 11+12+13 ms clock, 14+15/16/17+18 ms cpu, "
                                    "21->22->23 MB, 24 MB goal, 25 MB stacks, 26 MB globals, 27 P (forced)");
}

static void a_cycle_of_nothing_is_all_zeros(void **state) {
    (void)state;
    const struct trace_cycle c = {0};
    assert_string_equal(format(&c), "gc 0 @0.000s 0%: 0+0+0 ms clock, 0+0/0/0+0 ms cpu, "
                                    "0->0->0 MB, 0 MB goal, 0 MB stacks, 0 MB globals, 0 P");
}

static void only_forced_cycles_say_so(void **state) {
    (void)state;
    struct trace_cycle c = {.number = 1, .procs = 1};
    assert_null(strstr(format(&c), "forced"));
    c.forced = true;
    const char *text = format(&c);
    assert_string_equal(text + strlen(text) - strlen(" 1 P (forced)"), " 1 P (forced)");
}

static void milliseconds_keep_two_digits_and_at_most_three_decimals(void **state) {
    (void)state;
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "0"},         {1, "0"},         {999, "0"},         {1000, "0.001"},
        {1999, "0.001"},  {9999, "0.009"},  {10000, "0.010"},   {99999, "0.099"},
        {100000, "0.10"}, {101000, "0.10"}, {999999, "0.99"},   {1000000, "1.0"},
        {1099999, "1.0"}, {1100000, "1.1"}, {9999999, "9.9"},   {10000000, "10"},
        {10999999, "10"}, {99999999, "99"}, {123456789, "123"}, {3600000000000, "3600000"},
        {-1, "0"},        {-5000000, "0"},  {INT64_MIN, "0"},   {INT64_MAX, "9223372036854"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct trace_cycle c = {.mark_clock_ns = cases[i].ns};
        char expected[64];
        snprintf(expected, sizeof expected, "0+%s+0 ms clock", cases[i].text);
        const char *text = format(&c);
        if (strstr(text, expected) == NULL) {
            fail_msg("%lld ns: no \"%s\" in: %s", (long long)cases[i].ns, expected, text);
        }
    }
}

static void the_start_is_in_seconds_with_three_decimals(void **state) {
    (void)state;
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "@0.000s"},
        {999999, "@0.000s"},
        {1000000, "@0.001s"},
        {12000000, "@0.012s"},
        {999000000, "@0.999s"},
        {1000000000, "@1.000s"},
        {61050000000, "@61.050s"},
        {86400000000000, "@86400.000s"},
        {-1, "@0.000s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct trace_cycle c = {.start_ns = cases[i].ns};
        assert_non_null(strstr(format(&c), cases[i].text));
    }
}

static void megabytes_are_cut_off_not_rounded(void **state) {
    (void)state;
    const struct trace_cycle c = {
        .heap_start_bytes = MIB - 1, .heap_end_bytes = MIB, .heap_live_bytes = 2 * MIB - 1};
    assert_non_null(strstr(format(&c), " 0->1->1 MB, "));
}

static void a_goal_of_never_prints_as_go_prints_it(void **state) {
    (void)state;
    const struct trace_cycle c = {.goal_bytes = UINT64_MAX};
    assert_non_null(strstr(format(&c), " 17592186044415 MB goal, "));
}

static const struct trace_cycle largest = {
    .number = UINT64_MAX,
    .start_ns = INT64_MAX,
    .gc_percent_cpu = INT_MAX,
    .sweep_term_clock_ns = INT64_MAX,
    .mark_clock_ns = INT64_MAX,
    .mark_term_clock_ns = INT64_MAX,
    .sweep_term_cpu_ns = INT64_MAX,
    .assist_cpu_ns = INT64_MAX,
    .dedicated_cpu_ns = INT64_MAX,
    .idle_cpu_ns = INT64_MAX,
    .mark_term_cpu_ns = INT64_MAX,
    .heap_start_bytes = UINT64_MAX,
    .heap_end_bytes = UINT64_MAX,
    .heap_live_bytes = UINT64_MAX,
    .goal_bytes = UINT64_MAX,
    .stack_bytes = UINT64_MAX,
    .global_bytes = UINT64_MAX,
    .procs = INT_MAX,
    .forced = true,
};

static void the_longest_line_fits(void **state) {
    (void)state;
    const char *text = format(&largest);
    assert_non_null(strstr(text, "gc 18446744073709551615 @9223372036.854s 2147483647%: 9223372036854+"));
    assert_non_null(strstr(text, " 2147483647 P (forced)"));
}

static void a_buffer_that_is_too_small_gets_no_half_line(void **state) {
    (void)state;
    char whole[TRACE_GC_LINE_MAX_BYTES];
    size_t len = trace_format_gc(whole, sizeof whole, &largest);
    char buf[TRACE_GC_LINE_MAX_BYTES + 1];
    for (size_t cap = 0; cap <= len + 1; cap++) {
        memset(buf, 'x', sizeof buf);
        size_t got = trace_format_gc(buf, cap, &largest);
        assert_int_equal(buf[cap], 'x'); /* nothing past the buffer */
        if (cap <= len) {
            assert_int_equal(got, 0);
            assert_int_equal(buf[0], cap == 0 ? 'x' : '\0');
        } else {
            assert_int_equal(got, len);
            assert_string_equal(buf, whole);
        }
    }
}

static void numbers_that_make_no_sense_still_give_a_line(void **state) {
    (void)state;
    const struct trace_cycle c = {
        .start_ns = -1, .gc_percent_cpu = -1, .assist_cpu_ns = -1, .procs = INT_MIN};
    assert_string_equal(format(&c), "gc 0 @0.000s 0%: 0+0+0 ms clock, 0+0/0/0+0 ms cpu, "
                                    "0->0->0 MB, 0 MB goal, 0 MB stacks, 0 MB globals, 0 P");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_of_go_comes_out_byte_for_byte),
        cmocka_unit_test(every_field_is_in_its_place),
        cmocka_unit_test(a_cycle_of_nothing_is_all_zeros),
        cmocka_unit_test(only_forced_cycles_say_so),
        cmocka_unit_test(milliseconds_keep_two_digits_and_at_most_three_decimals),
        cmocka_unit_test(the_start_is_in_seconds_with_three_decimals),
        cmocka_unit_test(megabytes_are_cut_off_not_rounded),
        cmocka_unit_test(a_goal_of_never_prints_as_go_prints_it),
        cmocka_unit_test(the_longest_line_fits),
        cmocka_unit_test(a_buffer_that_is_too_small_gets_no_half_line),
        cmocka_unit_test(numbers_that_make_no_sense_still_give_a_line),
    };
    return cmocka_run_group_tests(tests, compile, release);
}
