/* Large objects: whole pages, aligned, zeroed, and gone when they are dead. */
#include "child.h"

#include "gc/heap.h"
#include "gc/large.h"
#include "gc/mutator.h"
#include "gc/os/os_mem.h"
#include "gc/pagerun.h"

static void *held[200]; /* a registered root */

static void a_size_takes_whole_pages(void **state) {
    (void)state;
    assert_int_equal(large_bytes(32769), 40960);
    assert_int_equal(large_bytes(40960), 40960);
    assert_int_equal(large_bytes(40961), 49152);
    assert_int_equal(large_bytes(SIZE_MAX), SIZE_MAX);
    assert_int_equal(large_bytes(heap.reserved + 1), SIZE_MAX);
}

static void each_page_leads_to_the_object(void **state) {
    (void)state;
    for (size_t size = 40000; size < 10000000; size = size * 3 / 2) {
        char *object = large_alloc(mutator_self, size, PAGE_BYTES, KIND_WORDS);
        size_t bytes = large_bytes(size);
        for (size_t at = 0; at < bytes; at += PAGE_BYTES) {
            struct heap_place place = heap_find((uintptr_t)object + at + at % 7000);
            assert_ptr_equal(place.base, object);
            assert_int_equal(place.bytes, bytes);
        }
        assert_int_equal(atomic_load(&heap_page(heap_index((uintptr_t)object))->kind), KIND_WORDS);
        pagerun_check();
    }
}

static void alignment_costs_no_pages_for_good(void **state) {
    (void)state;
    for (size_t alignment = PAGE_BYTES; alignment <= MIB; alignment *= 2)
        for (size_t size = 40000; size < 3 * MIB; size *= 3) {
            uint64_t used = pagerun_used_bytes();
            char *object = large_alloc(mutator_self, size, alignment, KIND_LEAF);
            assert_int_equal((uintptr_t)object % alignment, 0);
            assert_int_equal(pagerun_used_bytes() - used, large_bytes(size));
            pagerun_check();
        }
}

static NOINLINE void fill(size_t bytes) {
    for (size_t i = 0; i < 100; i++)
        held[i] = memset(tern_alloc_leaf(bytes), 0x77, bytes);
}

static void a_dead_one_is_freed_by_the_cycle_itself(void **state) {
    (void)state;
    memset(held, 0, sizeof held);
    collect();
    uint64_t used = pagerun_used_bytes();
    fill(200000);
    assert_int_equal(pagerun_used_bytes() - used, 100 * 204800);
    for (size_t i = 0; i < 100; i++)
        if (i % 4 != 0)
            held[i] = NULL;
    collect();
    /* The one before each that lives may be kept, as its end is held. */
    assert_in_range(pagerun_used_bytes() - used, 25 * 204800, (50 + 5) * 204800);
    for (size_t i = 0; i < 100; i += 4)
        assert_int_equal(((char *)held[i])[199999], 0x77);
    pagerun_check();
    memset(held, 0, sizeof held);
    collect();
    assert_true(pagerun_used_bytes() - used <= 10 * 204800);
}

static void what_is_used_again_is_zeroed(void **state) {
    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        for (size_t i = 0; i < 20; i++) {
            char *object = tern_alloc_leaf(100000 + i * 50000);
            for (size_t at = 0; at < 100000 + i * 50000; at += 8)
                if (*(uint64_t *)(void *)(object + at) != 0)
                    fail_msg("byte %zu", at);
            memset(object, 0x66, 100000 + i * 50000);
        }
        collect();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_size_takes_whole_pages),
        cmocka_unit_test(each_page_leads_to_the_object),
        cmocka_unit_test(alignment_costs_no_pages_for_good),
        cmocka_unit_test(a_dead_one_is_freed_by_the_cycle_itself),
        cmocka_unit_test(what_is_used_again_is_zeroed),
    };
    setenv("TERN_GOGC", "off", 1);
    if (tern_root_add(held, sizeof held) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
