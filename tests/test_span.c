/* One span: its slots go out in groups, come back, and are swept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gc/heap.h"
#include "gc/offheap.h"
#include "gc/os/os_mem.h"
#include "gc/pagerun.h"
#include "gc/span.h"
#include "tests/garbage.h"

static page_index make(unsigned class, enum kind kind) {
    struct pagerun run =
        pagerun_take(sizeclass_table[class].pages, (struct pagerun_growth){UINT64_MAX, OS_HUGE_PAGE, false});
    assert_int_not_equal(run.first, 0);
    assert_int_equal(span_make(run.first, class, kind), 0);
    span_check(run.first, false);
    pagerun_check();
    return run.first;
}

static void unmake(page_index head, unsigned class) {
    span_unmake(head);
    assert_null(heap_find((uintptr_t)heap_address(head)).head);
    pagerun_give(head, sizeclass_table[class].pages);
    pagerun_check();
}

static unsigned take_all(page_index head) {
    unsigned taken = 0;
    for (unsigned g = 0; g < page_groups(span_slots(head)); g++) {
        taken += (unsigned)__builtin_popcountll(span_take_group(head, g, false));
        assert_int_equal(span_take_group(head, g, false), 0);
        span_check(head, false);
    }
    return taken;
}

static void mark(page_index head, unsigned slot) {
    _Atomic uint32_t *marks = heap_marks(heap_page(head), span_slots(head));
    marks[slot / 32] |= 1u << slot % 32;
}

static void each_slot_goes_out_once(void **state) {
    (void)state;
    for (unsigned class = 1; class < SIZECLASS_COUNT; class ++) {
        page_index head = make(class, KIND_WORDS);
        assert_int_equal(take_all(head), sizeclass_table[class].slots);
        unmake(head, class);
    }
    page_index head = make(SIZECLASS_16_BYTES, KIND_TINY);
    assert_int_equal(take_all(head), SPAN_TINY_SLOTS); /* the map of starts takes the rest */
    assert_true((char *)span_tiny_starts(head, span_slot(head, SPAN_TINY_SLOTS - 1)) + 2 <=
                heap_address(head) + PAGE_BYTES);
    assert_true((char *)span_tiny_starts(head, heap_address(head)) >= span_slot(head, SPAN_TINY_SLOTS));
    unmake(head, SIZECLASS_16_BYTES);
}

static void what_is_given_back_goes_out_again(void **state) {
    (void)state;
    page_index head = make(1, KIND_LEAF);
    uint64_t bits = span_take_group(head, 3, false);
    assert_int_equal(bits, UINT64_MAX);
    span_give_back(head, 3, UINT64_C(0xff00));
    span_check(head, false);
    assert_int_equal(span_take_group(head, 3, false), 0xff00);
    span_give_back(head, 3, bits);
    unmake(head, 1);
}

/* Against a shadow: allocated, then some marked, swept: what was not marked is free, whatever the class. */
static void sweeping_frees_what_is_not_marked(void **state) {
    (void)state;
    uint64_t seed = 20260106;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (unsigned class = 1; class < SIZECLASS_COUNT; class ++) {
        page_index head = make(class, KIND_WORDS);
        unsigned slots = span_slots(head), all = 0;
        static bool lives[1024];
        memset(lives, 0, sizeof lives);
        for (unsigned round = 0; round < 5; round++) {
            for (unsigned g = 0; g < page_groups(slots); g++)
                if (next_random(&seed) % 4 != 0)
                    for (uint64_t bits = span_take_group(head, g, false); bits != 0; bits &= bits - 1)
                        lives[g * 64 + (unsigned)__builtin_ctzll(bits)] = true;
            all = 0;
            for (unsigned i = 0; i < slots; i++) {
                lives[i] = lives[i] && next_random(&seed) % 2 == 0;
                if (lives[i])
                    mark(head, i);
                all += lives[i];
            }
            atomic_store(&heap_page(head)->flags, PAGE_LIVE);
            span_check(head, true);
            struct span_count count = span_sweep(head);
            span_check(head, false);
            assert_int_equal(count.free, slots - all);
            assert_int_equal(count.quarantined, 0);
            assert_int_equal(atomic_load(&heap_page(head)->flags), 0);
            for (unsigned i = 0; i < slots; i++) {
                struct heap_place place = heap_find((uintptr_t)span_slot(head, i));
                assert_int_equal(place.slot, i);
                assert_int_equal(heap_place_allocated(&place), lives[i]);
                assert_int_equal(heap_place_marked(&place), !lives[i]); /* free slots are sealed */
            }
        }
        unmake(head, class);
    }
}

static void a_claim_is_won_once(void **state) {
    (void)state;
    page_index head = make(5, KIND_WORDS);
    uint32_t epoch = heap_epoch();
    assert_false(span_claim(head, epoch, CLAIM_SWEPT, CLAIM_OWNED)); /* it was made owned */
    span_publish(head, epoch, CLAIM_SWEPT);
    assert_true(span_claim(head, epoch, CLAIM_SWEPT, CLAIM_OWNED));
    assert_false(span_claim(head, epoch, CLAIM_SWEPT, CLAIM_OWNED));
    span_publish(head, epoch, CLAIM_SWEPT);
    assert_false(span_claim_unswept(head, epoch)); /* swept in this epoch */
    assert_true(span_claim_unswept(head, epoch + 1));
    assert_false(span_claim_unswept(head, epoch + 1));
    span_publish(head, epoch + 1, CLAIM_SWEPT);
    assert_false(span_claim(head, epoch, CLAIM_SWEPT, CLAIM_OWNED));
    unmake(head, 5);
}

static void tail_pages_lead_to_the_head(void **state) {
    (void)state;
    unsigned class = sizeclass_of(27264);
    page_index head = make(class, KIND_WORDS);
    for (unsigned i = 0; i < sizeclass_table[class].pages; i++) {
        struct heap_place place = heap_find((uintptr_t)heap_address(head + i));
        assert_int_equal(place.index, head);
        assert_int_equal(place.slot, i * PAGE_BYTES / 27264);
    }
    unmake(head, class);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_slot_goes_out_once),
        cmocka_unit_test(what_is_given_back_goes_out_again),
        cmocka_unit_test(sweeping_frees_what_is_not_marked),
        cmocka_unit_test(a_claim_is_won_once),
        cmocka_unit_test(tail_pages_lead_to_the_head),
    };
    sizeclass_init();
    if (offheap_init() != 0 || heap_init(false) != 0)
        return 1;
    pagerun_init(false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
