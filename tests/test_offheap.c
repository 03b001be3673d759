/* Memory off the heap: it is aligned, zeroed where it says so, and counted. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gc/offheap.h"
#include "tests/garbage.h"

static uint64_t exact(void) {
    offheap_refresh();
    return offheap_bytes();
}

static void it_is_aligned_and_zeroed(void **state) {
    (void)state;
    for (size_t bytes = 1; bytes < 1000000; bytes = bytes * 3 / 2 + 1) {
        char *first = offheap_alloc(bytes);
        memset(first, 0xff, bytes);
        offheap_free(first);
        char *p = offheap_zalloc(bytes);
        assert_int_equal((uintptr_t)p % (bytes >= 64 ? 64 : bytes >= 16 ? 16 : 8), 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(p[i], 0);
        offheap_free(p);
    }
    offheap_free(NULL);
}

static void realloc_keeps_contents(void **state) {
    (void)state;
    char *p = offheap_realloc(NULL, 10);
    memcpy(p, "123456789", 10);
    for (size_t bytes = 10; bytes < 1000000; bytes *= 2) {
        p = offheap_realloc(p, bytes);
        assert_string_equal(p, "123456789");
    }
    p = offheap_realloc(p, 10);
    assert_string_equal(p, "123456789");
    errno = 0;
    assert_null(offheap_realloc(p, SIZE_MAX / 2));
    assert_int_equal(errno, ENOMEM);
    assert_string_equal(p, "123456789");
    offheap_free(p);
    errno = 0;
    assert_null(offheap_alloc(SIZE_MAX / 2));
    assert_int_equal(errno, ENOMEM);
}

static void strings_are_copied(void **state) {
    (void)state;
    char text[] = "text";
    char *copy = offheap_strdup(text);
    text[0] = 'n';
    assert_string_equal(copy, "text");
    offheap_free(copy);
    assert_null(offheap_strdup(NULL));
}

static void what_is_taken_counts_at_once_and_what_is_freed_no_more(void **state) {
    (void)state;
    static char *p[1000];
    uint64_t before = exact();
    for (size_t i = 0; i < 1000; i++)
        p[i] = memset(offheap_alloc(10000), 1, 10000);
    uint64_t estimate = offheap_bytes();
    assert_in_range(estimate - before, 10000000, 10000000 * 11 / 10);
    uint64_t now = exact();
    assert_in_range(now - before, 10000000, 10000000 * 11 / 10);
    for (size_t i = 0; i < 1000; i++)
        offheap_free(p[i]);
    assert_true(offheap_bytes() <= before + 500000);
    assert_true(exact() <= before + 100000);
}

static void churn_leaves_it_flat(void **state) {
    (void)state;
    static void *p[500];
    uint64_t seed = 20260107;
    print_message("seed %llu\n", (unsigned long long)seed);
    uint64_t before = 0;
    for (unsigned round = 0; round < 6; round++) {
        for (unsigned i = 0; i < 20000; i++) {
            uint64_t r = next_random(&seed);
            offheap_free(p[r % 500]);
            p[r % 500] = offheap_alloc(1 + (r >> 32) % 3000);
        }
        for (unsigned i = 0; i < 500; i++) {
            offheap_free(p[i]);
            p[i] = NULL;
        }
        uint64_t now = exact();
        if (round == 0)
            before = now;
        assert_true(now <= before + 300000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_aligned_and_zeroed),
        cmocka_unit_test(realloc_keeps_contents),
        cmocka_unit_test(strings_are_copied),
        cmocka_unit_test(what_is_taken_counts_at_once_and_what_is_freed_no_more),
        cmocka_unit_test(churn_leaves_it_flat),
    };
    if (offheap_init() != 0 || offheap_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
