/* Where the verifier first found each object: what gc/verify_origin promises. */
#include "gc/verify_origin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gc/heap.h"

/* A heap that has nothing but its place. */
static int place_heap(void **state) {
    (void)state;
    heap.base = UINT64_C(0x200000000000);
    atomic_store(&heap.grown, (size_t)8 * MIB);
    verify_origin_begin();
    return 0;
}

static int forget(void **state) {
    (void)state;
    verify_origin_forget();
    return 0;
}

static uintptr_t at(size_t offset) {
    return heap.base + offset;
}

static void what_was_noted_is_told(void **state) {
    (void)state;
    static const char stack[] = "a stack", handle[] = "a handle";
    verify_origin_note_field(at(64), at(0));
    verify_origin_note_field(at(128), at(8 * MIB - 8));
    verify_origin_note_root(at(8 * MIB - 8), stack);
    verify_origin_note_root(at(0), handle);
    assert_int_equal(verify_origin_of(at(64)).field, at(0));
    assert_null(verify_origin_of(at(64)).root);
    assert_int_equal(verify_origin_of(at(128)).field, at(8 * MIB - 8));
    assert_ptr_equal(verify_origin_of(at(8 * MIB - 8)).root, stack);
    assert_int_equal(verify_origin_of(at(0)).field, 0);
    assert_ptr_equal(verify_origin_of(at(0)).root, handle);
}

static void the_last_note_counts(void **state) {
    (void)state;
    static const char stack[] = "a stack";
    verify_origin_note_field(at(64), at(800));
    verify_origin_note_root(at(64), stack);
    assert_int_equal(verify_origin_of(at(64)).field, 0);
    verify_origin_note_field(at(64), at(808));
    assert_int_equal(verify_origin_of(at(64)).field, at(808));
    assert_null(verify_origin_of(at(64)).root);
}

static void what_cannot_be_noted_is_not_known(void **state) {
    (void)state;
    static const char names[VERIFY_ORIGIN_ROOTS + 1][2];
    verify_origin_note_field(at(64), at(16));
    verify_origin_note_field(at(64), at((size_t)64 << 30)); /* too far */
    assert_int_equal(verify_origin_of(at(64)).field, 0);
    assert_null(verify_origin_of(at(64)).root);
    for (size_t i = 0; i <= VERIFY_ORIGIN_ROOTS; i++)
        verify_origin_note_root(at(72), names[i]); /* too many kinds */
    assert_null(verify_origin_of(at(72)).root);
    assert_int_equal(verify_origin_of(at(72)).field, 0);
    verify_origin_note_root(at((size_t)1 << 40), names[0]); /* there is no such place */
    assert_null(verify_origin_of(at((size_t)1 << 40)).root);
}

static void the_heap_may_grow(void **state) {
    (void)state;
    atomic_store(&heap.grown, (size_t)200 * MIB);
    verify_origin_begin();
    verify_origin_note_field(at(200 * MIB - 8), at(200 * MIB - 16));
    assert_int_equal(verify_origin_of(at(200 * MIB - 8)).field, at(200 * MIB - 16));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_noted_is_told),
        cmocka_unit_test(the_last_note_counts),
        cmocka_unit_test(what_cannot_be_noted_is_not_known),
        cmocka_unit_test(the_heap_may_grow),
    };
    return cmocka_run_group_tests(tests, place_heap, forget);
}
