/* Size classes: the table is Go's, and what is computed from it is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gc/page.h"
#include "gc/sizeclass.h"

/* Sizes of runtime/sizeclasses.go. */
static const uint32_t go[] = {
    8,     16,    24,    32,    48,    64,    80,    96,    112,   128,   144,   160,   176,   192,
    208,   224,   240,   256,   288,   320,   352,   384,   416,   448,   480,   512,   576,   640,
    704,   768,   896,   1024,  1152,  1280,  1408,  1536,  1792,  2048,  2304,  2688,  3072,  3200,
    3456,  4096,  4864,  5376,  6144,  6528,  6784,  6912,  8192,  9472,  9728,  10240, 10880, 12288,
    13568, 14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264, 28672, 32768,
};

static void the_sizes_are_gos(void **state) {
    (void)state;
    assert_int_equal(SIZECLASS_COUNT, 1 + sizeof go / sizeof *go);
    for (unsigned class = 1; class < SIZECLASS_COUNT; class ++)
        assert_int_equal(sizeclass_table[class].bytes, go[class - 1]);
}

static void a_size_gets_the_smallest_class_that_holds_it(void **state) {
    (void)state;
    for (size_t size = 0; size <= SIZECLASS_MAX_BYTES; size++) {
        unsigned class = sizeclass_of(size);
        assert_true(class > 0 && class < SIZECLASS_COUNT);
        assert_true(sizeclass_table[class].bytes >= size);
        assert_true(class == 1 || sizeclass_table[class - 1].bytes < size);
    }
}

static void the_magic_quotient_is_exact_at_every_offset_of_a_span(void **state) {
    (void)state;
    for (unsigned class = 1; class < SIZECLASS_COUNT; class ++) {
        const struct sizeclass *c = &sizeclass_table[class];
        for (uint64_t offset = 0; offset < c->pages * PAGE_BYTES; offset++)
            if (offset * c->magic >> 32 != offset / c->bytes)
                fail_msg("class %u, offset %u", class, (unsigned)offset);
    }
}

static void spans_are_as_long_as_gos_and_waste_a_sixteenth_at_most(void **state) {
    (void)state;
    static const struct {
        uint32_t bytes, span, slots;
    } some[] = {{8, 8192, 1024},   {24, 8192, 341},   {1408, 16384, 11}, {1792, 16384, 9},  {3072, 24576, 8},
                {6912, 49152, 7},  {9472, 57344, 6},  {14336, 57344, 4}, {18432, 73728, 4}, {21760, 65536, 3},
                {27264, 81920, 3}, {28672, 57344, 2}, {32768, 32768, 1}};
    size_t checked = 0;
    for (unsigned class = 1; class < SIZECLASS_COUNT; class ++) {
        const struct sizeclass *c = &sizeclass_table[class];
        size_t span = c->pages * PAGE_BYTES;
        assert_true(span - (size_t)c->slots * c->bytes <= span / 16);
        assert_true(c->slots * c->bytes + c->bytes > span);
        for (size_t i = 0; i < sizeof some / sizeof *some; i++)
            if (some[i].bytes == c->bytes) {
                assert_int_equal(span, some[i].span);
                assert_int_equal(c->slots, some[i].slots);
                checked++;
            }
    }
    assert_int_equal(checked, sizeof some / sizeof *some);
}

static void only_the_two_smallest_classes_outgrow_the_marks_in_the_record(void **state) {
    (void)state;
    for (unsigned class = 1; class < SIZECLASS_COUNT; class ++)
        assert_int_equal(sizeclass_table[class].slots > PAGE_MARKS_INLINE, class <= SIZECLASS_16_BYTES);
    assert_int_equal(sizeclass_table[SIZECLASS_16_BYTES].bytes, 16);
}

static void rounding_gives_the_class_or_whole_pages(void **state) {
    (void)state;
    assert_int_equal(sizeclass_round(0), 8);
    assert_int_equal(sizeclass_round(1), 8);
    assert_int_equal(sizeclass_round(17), 24);
    assert_int_equal(sizeclass_round(1024), 1024);
    assert_int_equal(sizeclass_round(1025), 1152);
    assert_int_equal(sizeclass_round(32768), 32768);
    assert_int_equal(sizeclass_round(32769), 5 * PAGE_BYTES);
    assert_int_equal(sizeclass_round(65536), 65536);
    assert_int_equal(sizeclass_round(65537), 9 * PAGE_BYTES);
    assert_int_equal(sizeclass_round(SIZE_MAX / 2), (SIZE_MAX / 2 / PAGE_BYTES + 1) * PAGE_BYTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sizes_are_gos),
        cmocka_unit_test(a_size_gets_the_smallest_class_that_holds_it),
        cmocka_unit_test(the_magic_quotient_is_exact_at_every_offset_of_a_span),
        cmocka_unit_test(spans_are_as_long_as_gos_and_waste_a_sixteenth_at_most),
        cmocka_unit_test(only_the_two_smallest_classes_outgrow_the_marks_in_the_record),
        cmocka_unit_test(rounding_gives_the_class_or_whole_pages),
    };
    sizeclass_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
