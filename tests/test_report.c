/* What is told of a cycle: what gc/report promises. The library is not started; its counters are set by hand. */
#include "child.h"

#include "gc/account.h"
#include "gc/os/os_time.h"
#include "gc/report.h"
#include "gc/settings.h"
#include "gc/stats.h"

static int64_t start_ns;

static int in_order(void **state) {
    (void)state;
    settings.processors = 2;
    settings.memory_limit = UINT64_MAX;
    settings.warnings = false;
    settings.trace = 0;
    account.external = 0;
    start_ns = os_time_mono_ns();
    stats_init(start_ns);
    report_init(start_ns);
    report_on_cycle(NULL);
    return 0;
}

static void a_cycle_is_numbered_and_its_sums_are_made(void **state) {
    (void)state;
    assert_int_equal(report_last_end_ns(), start_ns);
    account.goal = 4711;
    account.external = 5 * MIB;
    for (uint64_t number = 1; number <= 3; number++) {
        struct cycle_report r = {.start_ns = start_ns + 1000,
                                 .stop_cpu_ns = 1,
                                 .mark_cpu_ns = 20,
                                 .assist_ns = 300,
                                 .sweep_cpu_ns = 4000,
                                 .other_cpu_ns = 50000};
        int64_t before = os_time_mono_ns();
        report_cycle(&r);
        assert_int_equal(r.number, number);
        assert_int_equal(r.start_ns, 1000);
        assert_int_equal(r.gc_cpu_ns, 54321);
        assert_int_equal(r.next_goal, 4711);
        assert_true(r.total >= 5 * MIB);
        assert_true(report_last_end_ns() >= before);
    }
    struct stats_cycles s;
    stats_copy(&s);
    assert_int_equal(s.collections, 3);
    account.external = 0;
}

/* ---- news ---- */

static uint64_t told[200];
static size_t told_count;
static int depth;

static void note(const struct cycle_report *report) {
    assert_int_equal(++depth, 1);
    told[told_count++ % 200] = report->number;
    report_deliver(); /* from inside itself: nothing */
    depth--;
}

static void finish_cycles(int count) {
    for (int i = 0; i < count; i++) {
        struct cycle_report r = {.start_ns = start_ns};
        report_cycle(&r);
    }
}

static void each_cycle_is_told_once_in_order(void **state) {
    (void)state;
    told_count = 0;
    finish_cycles(2); /* nobody wants to know */
    assert_false(report_has_news());
    report_on_cycle(note);
    report_deliver();
    assert_int_equal(told_count, 0);
    finish_cycles(3);
    assert_true(report_has_news());
    report_deliver();
    assert_false(report_has_news());
    assert_int_equal(told_count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(told[i], 3 + i);
    report_deliver();
    assert_int_equal(told_count, 3);
}

static void too_many_that_wait_lose_the_oldest(void **state) {
    (void)state;
    told_count = 0;
    report_on_cycle(note);
    finish_cycles(150);
    report_deliver();
    assert_int_equal(told_count, 64);
    assert_int_equal(told[0], 87);
    assert_int_equal(told[63], 150);
}

static void nobody_is_told_who_does_not_want_it_any_more(void **state) {
    (void)state;
    told_count = 0;
    report_on_cycle(note);
    finish_cycles(2);
    report_on_cycle(NULL);
    report_deliver();
    assert_int_equal(told_count, 0);
    assert_false(report_has_news());
}

/* ---- the limiter ---- */

static void collections_that_take_all_processors_are_held_back(void **state) {
    (void)state;
    assert_false(report_limiter_holds_back());
    struct cycle_report r = {.start_ns = start_ns, .stops_cpu_ns = INT64_C(10000000000)};
    report_cycle(&r);
    assert_true(report_limiter_holds_back());
    report_init(start_ns);
    assert_false(report_limiter_holds_back());
}

/* ---- lines; each in a child, whose standard error is read ---- */

static int pass_limit(void *unused) {
    (void)unused;
    settings.warnings = true;
    settings.memory_limit = MIB;
    account.external = 3 * MIB;
    finish_cycles(1); /* by how much is not clear yet */
    must(report_last_end_ns() > start_ns);
    fputs("then ", stderr);
    finish_cycles(5);
    return 0;
}

static void a_passed_limit_is_told_once_it_is_clear_by_how_much(void **state) {
    (void)state;
    child_passes(pass_limit, NULL);
    const char *line = strstr(child_text, "tern: memory limit of 1.0 MiB passed by 2.");
    assert_non_null(line);
    assert_ptr_equal(child_text, strstr(child_text, "then "));
    assert_int_equal(child_lines(), 1);
}

static int pass_limit_at_the_end(void *unused) {
    (void)unused;
    settings.warnings = true;
    settings.memory_limit = MIB;
    account.external = 3 * MIB;
    finish_cycles(1);
    report_end();
    return 0;
}

static void what_waits_to_be_told_is_told_at_the_end(void **state) {
    (void)state;
    child_passes(pass_limit_at_the_end, NULL);
    assert_non_null(strstr(child_text, "tern: memory limit of 1.0 MiB passed by 2."));
}

static int pass_limit_unwarned(void *unused) {
    (void)unused;
    settings.memory_limit = MIB;
    account.external = 3 * MIB;
    finish_cycles(5);
    report_end();
    return 0;
}

static void without_warnings_nothing_is_told(void **state) {
    (void)state;
    child_passes(pass_limit_unwarned, NULL);
    assert_string_equal(child_text, "");
}

static int traced_cycles(void *unused) {
    (void)unused;
    settings.trace = 1;
    struct cycle_report r = {.start_ns = start_ns,
                             .forced = true,
                             .start_stop_ns = 1000000,
                             .beside_ns = 20000000,
                             .end_stop_ns = 3000000,
                             .mark_cpu_ns = 12500000,
                             .beside_cpu_ns = 12000000,
                             .idle_ns = 2000000,
                             .assist_ns = 5000000,
                             .heap_before = 10 * MIB,
                             .heap_end = 12 * MIB,
                             .live = 7 * MIB,
                             .goal = 14 * MIB};
    report_cycle(&r);
    struct cycle_report stopped = {.start_ns = start_ns, .start_stop_ns = 4000000, .mark_cpu_ns = 4000000};
    report_cycle(&stopped);
    return 0;
}

static void the_trace_has_the_parts_of_a_cycle(void **state) {
    (void)state;
    child_passes(traced_cycles, NULL);
    assert_int_equal(child_lines(), 2);
    assert_ptr_equal(strstr(child_text, "gc 1 @0.000s "), child_text);
    assert_non_null(
        strstr(child_text, ": 1.0+20+3.0 ms clock, 2.0+5.0/10/2.0+6.0 ms cpu, 10->12->7 MB, 14 MB goal, "));
    assert_non_null(strstr(child_text, " 2 P (forced)\n"));
    assert_non_null(strstr(child_text, "\ngc 2 @0.000s "));
    assert_non_null(strstr(child_text, ": 4.0+0+0 ms clock, 8.0+0/0/0+0 ms cpu, "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_cycle_is_numbered_and_its_sums_are_made, in_order),
        cmocka_unit_test_setup(each_cycle_is_told_once_in_order, in_order),
        cmocka_unit_test_setup(too_many_that_wait_lose_the_oldest, in_order),
        cmocka_unit_test_setup(nobody_is_told_who_does_not_want_it_any_more, in_order),
        cmocka_unit_test_setup(collections_that_take_all_processors_are_held_back, in_order),
        cmocka_unit_test_setup(a_passed_limit_is_told_once_it_is_clear_by_how_much, in_order),
        cmocka_unit_test_setup(what_waits_to_be_told_is_told_at_the_end, in_order),
        cmocka_unit_test_setup(without_warnings_nothing_is_told, in_order),
        cmocka_unit_test_setup(the_trace_has_the_parts_of_a_cycle, in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
