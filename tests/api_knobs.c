/* Knobs that a program turns itself, and that take effect at once. */
#include "child.h"

#include <sched.h>

static void the_ratio_is_set_and_told(void **state) {
    (void)state;
    int before = tern_gc_percent();
    assert_int_equal(tern_set_gc_percent(250), before);
    assert_int_equal(tern_gc_percent(), 250);
    assert_int_equal(tern_set_gc_percent(-77), 250);
    assert_int_equal(tern_gc_percent(), TERN_GC_OFF);
    assert_int_equal(stats().goal_bytes, UINT64_MAX);
    assert_int_equal(tern_set_gc_percent(0), TERN_GC_OFF);
    assert_int_equal(tern_set_gc_percent(100), 0);
}

static NOINLINE void **hold(size_t bytes) {
    void **held = tern_alloc_array(100, sizeof *held);
    for (size_t i = 0; i < 100; i++)
        held[i] = tern_alloc_leaf(bytes / 100);
    return held;
}

static void a_lower_ratio_collects_at_the_next_slow_path(void **state) {
    (void)state;
    tern_set_gc_percent(TERN_GC_OFF);
    void **held = hold(20 << 20);
    uint64_t before = stats().collections;
    tern_keep(tern_alloc_leaf(100000));
    assert_int_equal(stats().collections, before);
    tern_set_gc_percent(100);
    assert_int_equal(stats().collections, before); /* not by the call itself */
    tern_keep(tern_alloc_leaf(100000));
    assert_int_equal(stats().collections, before + 1);
    tern_keep(tern_alloc_leaf(100000));
    assert_int_equal(stats().collections, before + 1);
    tern_keep(held);
}

static void a_lower_limit_collects_at_the_next_slow_path(void **state) {
    (void)state;
    tern_set_gc_percent(TERN_GC_OFF);
    for (unsigned i = 0; i < 100; i++)
        tern_keep(tern_alloc_leaf(1 << 20));
    uint64_t before = stats().collections;
    assert_int_equal(tern_set_memory_limit(50 << 20), TERN_NO_LIMIT);
    assert_int_equal(tern_memory_limit(), 50 << 20);
    assert_int_equal(stats().memory_limit, 50 << 20);
    tern_keep(tern_alloc_leaf(1 << 20));
    assert_int_equal(stats().collections, before + 1);
    while (stats().total_bytes > 50 << 20) /* the free memory goes back in the background */
        sched_yield();
    for (unsigned i = 0; i < 200; i++) {
        tern_keep(tern_alloc_leaf(1 << 20));
        assert_true(stats().total_bytes <= (50 << 20) + (1 << 20)); /* one block above at most */
    }
    assert_int_equal(tern_set_memory_limit(TERN_NO_LIMIT), 50 << 20);
    assert_int_equal(stats().goal_bytes, UINT64_MAX);
    before = stats().collections;
    for (unsigned i = 0; i < 100; i++)
        tern_keep(tern_alloc_leaf(1 << 20));
    assert_int_equal(stats().collections, before);
    tern_set_gc_percent(100);
}

/* At 0 every slow path collects. */
static void a_ratio_of_zero_collects_all_the_time(void **state) {
    (void)state;
    tern_set_gc_percent(0);
    uint64_t before = stats().collections;
    for (unsigned i = 0; i < 20; i++)
        tern_keep(tern_alloc_leaf(50000));
    assert_int_equal(stats().collections, before + 20);
    tern_set_gc_percent(100);
}

static void knobs_are_set_from_text(void **state) {
    (void)state;
    assert_int_equal(tern_set_knob("GOGC", "400"), 0);
    assert_int_equal(tern_gc_percent(), 400);
    assert_int_equal(tern_set_knob("TERN_GOGC", "off"), 0);
    assert_int_equal(tern_gc_percent(), TERN_GC_OFF);
    assert_int_equal(tern_set_knob("GOMEMLIMIT", "1GiB"), 0);
    assert_int_equal(tern_memory_limit(), 1 << 30);
    assert_int_equal(tern_gc_percent(), TERN_GC_OFF); /* the other is left alone */
    assert_int_equal(tern_set_knob("GOMEMLIMIT", "off"), 0);
    assert_int_equal(tern_memory_limit(), TERN_NO_LIMIT);
    assert_int_equal(tern_set_knob("GOGC", "100"), 0);
    assert_int_equal(tern_set_knob("GODEBUG", "gctrace=0"), 0);
    assert_int_equal(tern_set_knob("TERN_GODEBUG", "marker=ring"), 0);
    collect();
    assert_int_equal(tern_set_knob("TERN_GODEBUG", "marker=auto"), 0);
}

/* A knob set by text leaves alone what was set by a call. */
static void the_two_ways_to_set_do_not_undo_each_other(void **state) {
    (void)state;
    tern_set_gc_percent(77);
    tern_set_memory_limit(UINT64_C(3) << 30);
    assert_int_equal(tern_set_knob("GODEBUG", "gctrace=0"), 0);
    assert_int_equal(tern_gc_percent(), 77);
    assert_int_equal(tern_memory_limit(), UINT64_C(3) << 30);
    assert_int_equal(tern_set_knob("GOMEMLIMIT", "off"), 0);
    assert_int_equal(tern_gc_percent(), 77);
    tern_set_gc_percent(100);
}

static void a_bad_knob_changes_nothing_and_says_why(void **state) {
    (void)state;
    static const char *const bad[][3] = {
        {"GOGC", "50%", "50%"},
        {"GOGC", "2147483648", "2147483648"},
        {"GOMEMLIMIT", "1K", "1K"},
        {"TERN_GOMEMLIMIT", "-1", "-1"},
        {"TERN_GODEBUG", "nonsense=1", "nonsense"},
        {"GOMAXPROCS", "2", "GOMAXPROCS"},
        {"PATH", "x", "PATH"},
        {"TERN_GODEBUG", "gcverify=1", "GODEBUG"},
    };
    int percent = tern_gc_percent();
    uint64_t limit = tern_memory_limit();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        assert_int_equal(tern_set_knob(bad[i][0], bad[i][1]), -1);
        assert_int_equal(errno, EINVAL);
        assert_non_null(strstr(tern_error(), bad[i][2]));
        assert_null(strchr(tern_error(), '\n'));
        assert_int_equal(tern_gc_percent(), percent);
        assert_int_equal(tern_memory_limit(), limit);
    }
    assert_int_equal(tern_set_knob(NULL, "x"), -1);
    assert_int_equal(tern_set_knob("GOGC", NULL), -1);
}

static void note_line(void *context, const char *line) {
    char *seen = context;
    strncat(seen, line, 16000 - strlen(seen));
}

static void help_names_every_knob(void **state) {
    (void)state;
    static char text[16384];
    tern_knobs_help(note_line, text);
    static const char *const names[] = {"GOGC",     "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG", "gctrace",
                                        "gcverify", "gcstress",   "marker",     "signal"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_non_null(strstr(text, names[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ratio_is_set_and_told),
        cmocka_unit_test(a_lower_ratio_collects_at_the_next_slow_path),
        cmocka_unit_test(a_lower_limit_collects_at_the_next_slow_path),
        cmocka_unit_test(a_ratio_of_zero_collects_all_the_time),
        cmocka_unit_test(knobs_are_set_from_text),
        cmocka_unit_test(the_two_ways_to_set_do_not_undo_each_other),
        cmocka_unit_test(a_bad_knob_changes_nothing_and_says_why),
        cmocka_unit_test(help_names_every_knob),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
