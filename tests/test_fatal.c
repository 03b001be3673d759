/* The last line of a program: what it says, and that it is the last. */
#include "child.h"

#include "gc/base.h"

static int die(void *unused) {
    (void)unused;
    fatal_at("gc/some.c", 42, "the sky fell");
}
static int misuse(void *unused) {
    (void)unused;
    fatal_misuse("a bad thing", 0xabc, "Do a good one.");
}
static int check(void *unused) {
    (void)unused;
    gc_check(2 + 2 == 4, "arithmetic");
    gc_check(errno == 12345, "it is not");
    return 0;
}

static void it_is_one_line_and_the_end(void **state) {
    (void)state;
    child_aborts(die, NULL, "tern: fatal: the sky fell (gc/some.c:42)\n");
    assert_int_equal(child_lines(), 1);
    child_aborts(misuse, NULL, "tern: misuse: a bad thing: 0xabc. Do a good one.\n");
    assert_int_equal(child_lines(), 1);
    child_aborts(check, NULL, "tern: fatal: it is not (");
    assert_int_equal(child_lines(), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_one_line_and_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
