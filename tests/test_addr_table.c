/* ctest: lanes=none,address (one thread only) */
/* The table from addresses to values, against a model that cannot be wrong. */
#include "gc/addr_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "garbage.h"
#include "gc/offheap.h"

#define SEED UINT64_C(20240601)

/* Keys as addresses are: aligned, far from 0, some at strides that a weak hash would line up. */
static uintptr_t key_of(size_t i) {
    static const size_t strides[4] = {16, 8192, 48, 1 << 21};
    return UINT64_C(0x7a0000000000) + ((i % 4) << 40) + (i / 4) * strides[i % 4];
}

static void an_empty_table_holds_nothing(void **state) {
    (void)state;
    struct addr_table table = {0};
    struct addr_walk walk;
    assert_null(addr_table_find(&table, 16));
    assert_false(addr_table_remove(&table, 16));
    addr_walk_begin(&table, &walk);
    assert_null(addr_walk_next(&table, &walk));
    addr_table_trim(&table);
    addr_table_check(&table);
    addr_table_destroy(&table);
}

static void putting_a_key_again_replaces_its_value(void **state) {
    (void)state;
    struct addr_table table = {0};
    assert_int_equal(addr_table_put(&table, 16, 1), 0);
    assert_int_equal(addr_table_put(&table, 16, 2), 0);
    assert_int_equal(table.count, 1);
    assert_int_equal(*addr_table_find(&table, 16), 2);
    addr_table_destroy(&table);
}

#define KEYS 3000

struct model {
    struct addr_table table;
    uint64_t values[KEYS]; /* 0: not there */
    size_t count;
};

static void compare(const struct model *m) {
    addr_table_check(&m->table);
    assert_int_equal(m->table.count, m->count);
    for (size_t i = 0; i < KEYS; i++) {
        const uint64_t *value = addr_table_find(&m->table, key_of(i));
        assert_int_equal(value == NULL ? 0 : *value, m->values[i]);
    }
}

static void step(struct model *m, uint64_t *random, unsigned put_percent) {
    size_t i = (size_t)(next_random(random) >> 20) % KEYS;
    if ((next_random(random) >> 20) % 100 < put_percent) {
        uint64_t value = next_random(random) | 1;
        assert_int_equal(addr_table_put(&m->table, key_of(i), value), 0);
        m->count += m->values[i] == 0;
        m->values[i] = value;
    } else {
        assert_int_equal(addr_table_remove(&m->table, key_of(i)), m->values[i] != 0);
        m->count -= m->values[i] != 0;
        m->values[i] = 0;
        addr_table_trim(&m->table);
    }
}

/* It fills and empties by turns, so that it grows and shrinks many times. */
static void any_sequence_of_changes_agrees_with_the_model(void **state) {
    (void)state;
    print_message("seed %llu\n", (unsigned long long)SEED);
    uint64_t random = SEED;
    struct model *m = calloc(1, sizeof *m);
    size_t most = 0, least_after = KEYS;
    for (unsigned phase = 0; phase < 20; phase++) {
        for (unsigned n = 0; n < 8000; n++)
            step(m, &random, phase % 2 == 0 ? 85 : 10);
        most = m->table.capacity > most ? m->table.capacity : most;
        if (phase % 2 == 1 && m->table.capacity < least_after)
            least_after = m->table.capacity;
        compare(m);
    }
    assert_int_equal(most, 4096);
    assert_true(least_after < most);
    addr_table_destroy(&m->table);
    free(m);
}

/* Small tables, so that runs without gaps often cross the table's end. */
static void a_walk_visits_each_entry_once_and_may_remove_it(void **state) {
    (void)state;
    print_message("seed %llu\n", (unsigned long long)SEED);
    uint64_t random = SEED;
    for (unsigned round = 0; round < 20000; round++) {
        enum { MOST = 48 };
        struct addr_table table = {0};
        size_t count = 1 + (size_t)(next_random(&random) >> 20) % MOST;
        size_t offset = (size_t)(next_random(&random) >> 20) % 100000;
        unsigned seen[MOST] = {0};
        bool removed[MOST] = {false};
        for (size_t i = 0; i < count; i++)
            assert_int_equal(addr_table_put(&table, key_of(offset + i), i), 0);
        struct addr_walk walk;
        struct addr_entry *entry;
        addr_walk_begin(&table, &walk);
        while ((entry = addr_walk_next(&table, &walk)) != NULL) {
            assert_true(entry->value < count);
            assert_int_equal(entry->key, key_of(offset + (size_t)entry->value));
            seen[entry->value]++;
            removed[entry->value] = (next_random(&random) >> 20) % 4 != 0;
            if (removed[entry->value])
                addr_walk_remove(&table, &walk);
        }
        addr_table_check(&table);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(seen[i], 1);
            assert_int_equal(addr_table_find(&table, key_of(offset + i)) == NULL, removed[i]);
        }
        addr_table_destroy(&table);
    }
}

static void at_most_three_quarters_are_in_use(void **state) {
    (void)state;
    struct addr_table table = {0};
    for (size_t i = 0; i < 100000; i++) {
        assert_int_equal(addr_table_put(&table, key_of(i), i), 0);
        assert_true(table.count * 4 <= table.capacity * 3);
    }
    addr_table_check(&table);
    addr_table_destroy(&table);
}

static void a_million_added_and_removed_leave_the_memory_flat(void **state) {
    (void)state;
    const size_t count = 1000000;
    struct addr_table table = {0};
    uint64_t before = offheap_bytes();
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < count; i++)
            assert_int_equal(addr_table_put(&table, key_of(i), i), 0);
        assert_true(offheap_bytes() - before >= count * sizeof(struct addr_entry));
        for (size_t i = 0; i < count; i++) {
            assert_true(addr_table_remove(&table, key_of(i)));
            addr_table_trim(&table);
        }
        assert_int_equal(table.count, 0);
        assert_true(offheap_bytes() - before <= 4096);
    }
    addr_table_destroy(&table);
    assert_int_equal(offheap_bytes(), before);
}

static uint64_t address_space(void) {
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%llu", &pages) != 1)
        abort();
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int grow_until_memory_is_gone(void *argument) {
    (void)argument;
    struct addr_table table = {0};
    struct rlimit limit = {address_space() + (64 << 20), address_space() + (64 << 20)};
    size_t i = 0;
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 10;
    errno = 0;
    while (i < 64000000 && addr_table_put(&table, key_of(i), i) == 0)
        i++;
    if (i == 64000000 || errno != ENOMEM || table.count != i)
        return 11;
    addr_table_check(&table);
    /* Every entry is there, and what needs no growth still works. */
    for (size_t j = 0; j < i; j++)
        if (addr_table_find(&table, key_of(j)) == NULL)
            return 12;
    if (addr_table_put(&table, key_of(0), 7) != 0 || *addr_table_find(&table, key_of(0)) != 7)
        return 13;
    return addr_table_remove(&table, key_of(1)) && addr_table_put(&table, key_of(i), i) == 0 ? 0 : 14;
}

static void a_table_that_cannot_grow_is_unchanged(void **state) {
    (void)state;
    const char *sanitizer = getenv("TERN_SANITIZE");
    if (sanitizer != NULL && strcmp(sanitizer, "none") != 0)
        skip(); /* sanitizers reserve address space as they go */
    char text[1000];
    int status = in_child(grow_until_memory_is_gone, NULL, text, sizeof text);
    assert_string_equal(text, "");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_holds_nothing),
        cmocka_unit_test(putting_a_key_again_replaces_its_value),
        cmocka_unit_test(any_sequence_of_changes_agrees_with_the_model),
        cmocka_unit_test(a_walk_visits_each_entry_once_and_may_remove_it),
        cmocka_unit_test(at_most_three_quarters_are_in_use),
        cmocka_unit_test(a_million_added_and_removed_leave_the_memory_flat),
        cmocka_unit_test(a_table_that_cannot_grow_is_unchanged),
    };
    if (offheap_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
