/* Spans shared by all threads: refills walk all groups, what goes back comes out again, sweeping finds
 * everything. */
#include "child.h"

#include "gc/alloc.h"
#include "gc/central.h"
#include "gc/cycle.h"
#include "gc/mutator.h"
#include "gc/pagerun.h"
#include "gc/span.h"

static void *held[70000]; /* a registered root */

/* Each slot of a span is handed out before another span is taken. */
static void a_span_is_used_up_before_the_next(void **state) {
    (void)state;
    for (unsigned class = 1; class < SIZECLASS_COUNT; class ++) {
        const struct sizeclass *c = &sizeclass_table[class];
        page_index heads[4] = {0};
        uint64_t used = pagerun_used_bytes();
        for (unsigned i = 0; i < 3 * c->slots; i++) {
            char *object = alloc_object(mutator_self, c->bytes, KIND_TRACED);
            page_index head = heap_find((uintptr_t)object).index;
            if (i % c->slots == 0)
                heads[i / c->slots] = head;
            assert_int_equal(head, heads[i / c->slots]);
        }
        assert_int_equal(pagerun_used_bytes() - used, 3 * c->pages * PAGE_BYTES);
        for (unsigned i = 0; i < 3; i++)
            span_check(heads[i], false);
    }
}

static void a_mask_given_back_is_taken_again(void **state) {
    (void)state;
    char *first = alloc_object(mutator_self, 48, KIND_WORDS);
    uint64_t bytes = stats().heap_bytes, used = pagerun_used_bytes();
    for (unsigned i = 0; i < 5; i++) {
        mutator_enter(mutator_self);
        alloc_give_back(mutator_self);
        mutator_leave(mutator_self);
        assert_true(stats().heap_bytes < bytes + 64 * 48);
        char *next = alloc_object(mutator_self, 48, KIND_WORDS);
        assert_int_equal(next - first, (ptrdiff_t)(i + 1) * 48);
    }
    assert_int_equal(pagerun_used_bytes(), used);
    pagerun_check();
}

/*
 * Three of four objects die, and the one before each that lives may be kept as its end is held; new ones go
 * where the dead ones were, and the heap's pages do not grow.
 */
static void what_is_swept_is_used_again(void **state) {
    (void)state;
    for (size_t i = 0; i < 20000; i++)
        held[i] = tern_alloc(64);
    for (size_t i = 0; i < 20000; i++)
        if (i % 4 != 0)
            held[i] = NULL;
    collect();
    uint64_t used = pagerun_used_bytes();
    for (size_t i = 0; i < NEARLY(10000); i++)
        held[20000 + i] = tern_alloc(64);
    assert_int_equal(pagerun_used_bytes(), used);
    memset(held, 0, sizeof held);
}

static bool count(const tern_object *object, void *context) {
    (void)object;
    ++*(size_t *)context;
    return true;
}

/* After a cycle unswept spans are left; one by one they are swept, and then there is none. */
static void sweep_spans(void *context) {
    *(bool *)context = central_sweep_one();
}

static void finishing_leaves_no_span_unswept(void **state) {
    (void)state;
    for (size_t i = 0; i < 60000; i++) {
        void *object = tern_alloc(16 + i % 3000);
        if (i % 5 == 0)
            held[i] = object;
    }
    collect();
    while (central_sweep_one()) {
    }
    bool more = true;
    cycle_stopped(mutator_self, sweep_spans, &more);
    assert_false(more);
    size_t objects = 0;
    tern_heap_walk(count, &objects);
    assert_true(objects >= 12000);
    memset(held, 0, sizeof held);
    collect();
    cycle_stopped(mutator_self, sweep_spans, &more);
    pagerun_check();
}

static void a_refill_takes_no_more_than_a_group(void **state) {
    (void)state;
    for (unsigned class = 1; class < SIZECLASS_COUNT; class ++) {
        unsigned slots = sizeclass_table[class].slots;
        assert_int_equal(central_refill_bytes(class),
                         (slots < 64 ? slots : 64) * sizeclass_table[class].bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_is_used_up_before_the_next),
        cmocka_unit_test(a_mask_given_back_is_taken_again),
        cmocka_unit_test(what_is_swept_is_used_again),
        cmocka_unit_test(finishing_leaves_no_span_unswept),
        cmocka_unit_test(a_refill_takes_no_more_than_a_group),
    };
    setenv("TERN_GOGC", "off", 1);
    if (tern_root_add(held, sizeof held) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
