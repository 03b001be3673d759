/* The page record's words: the claim, and the bits of a group. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gc/page.h"

static void a_claim_word_holds_epoch_and_state(void **state) {
    (void)state;
    static const enum claim_state states[] = {CLAIM_SWEPT, CLAIM_OWNED, CLAIM_SWEEPING, CLAIM_FREEING};
    static const uint32_t epochs[] = {0, 1, 2, 1000, (1u << 30) - 1};
    for (size_t e = 0; e < sizeof epochs / sizeof *epochs; e++)
        for (size_t s = 0; s < sizeof states / sizeof *states; s++) {
            uint32_t word = claim_word(epochs[e], states[s]);
            assert_int_equal(claim_state_of(word), states[s]);
            assert_true(claim_is_of(word, epochs[e]));
            assert_false(claim_is_of(word, epochs[e] + 1));
            assert_false(claim_is_of(word, epochs[e] - 1));
        }
}

static void epochs_wrap_at_two_to_the_thirty(void **state) {
    (void)state;
    for (uint32_t epoch = (1u << 30) - 3; epoch != (1u << 30) + 3; epoch++) {
        assert_true(claim_is_of(claim_word(epoch, CLAIM_OWNED), epoch));
        assert_false(claim_is_of(claim_word(epoch - 1, CLAIM_OWNED), epoch));
        /* The word of the former epoch, made from either side of the wrap, is the same. */
        assert_int_equal(claim_word(epoch, CLAIM_SWEPT), claim_word(epoch & ((1u << 30) - 1), CLAIM_SWEPT));
    }
    assert_true(claim_is_of(claim_word(UINT32_MAX, CLAIM_SWEPT), UINT32_MAX));
    assert_false(claim_is_of(claim_word(UINT32_MAX, CLAIM_SWEPT), 0));
}

static void a_group_has_the_bits_of_its_slots(void **state) {
    (void)state;
    for (unsigned slots = 1; slots <= 1024; slots++) {
        unsigned groups = page_groups(slots), bits = 0;
        assert_int_equal(groups, (slots + 63) / 64);
        for (unsigned g = 0; g < groups; g++) {
            uint64_t valid = page_group_valid(slots, g);
            assert_true(valid != 0);
            assert_int_equal(valid & (valid + 1), 0); /* ones from bit 0 up */
            bits += (unsigned)__builtin_popcountll(valid);
        }
        assert_int_equal(bits, slots);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_word_holds_epoch_and_state),
        cmocka_unit_test(epochs_wrap_at_two_to_the_thirty),
        cmocka_unit_test(a_group_has_the_bits_of_its_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
