/* Grey queues: a stack of entries in segments, and the pool through which markers share them. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gc/grey.h"
#include "gc/offheap.h"
#include "tests/garbage.h"

static void an_entry_holds_address_class_and_kind(void **state) {
    (void)state;
    uintptr_t address = (uintptr_t)0x7fffffffeff8;
    for (unsigned class = 0; class < 68; class ++)
        for (unsigned kind = 0; kind < 5; kind++) {
            grey_entry e = grey_pack(address, class, kind);
            assert_int_equal(grey_address(e), address);
            assert_int_equal(grey_class(e), class);
            assert_int_equal(grey_kind(e), kind);
        }
}

static void last_in_first_out_over_segments(void **state) {
    (void)state;
    struct grey_stack stack;
    grey_entry e;
    const uint64_t many = 3 * GREY_SEGMENT_ENTRIES + 5;
    assert_int_equal(grey_stack_init(&stack), 0);
    assert_false(grey_pop(&stack, &e));
    for (unsigned round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < many; i++)
            assert_true(grey_push(&stack, i));
        assert_int_equal(stack.segments, 4);
        for (uint64_t i = many; i-- > 0;) {
            assert_true(grey_pop(&stack, &e));
            assert_int_equal(e, i);
        }
        assert_false(grey_pop(&stack, &e));
        assert_int_equal(stack.segments, 1);
    }
    /* To and fro over the edge of a segment. */
    for (uint64_t i = 0; i < GREY_SEGMENT_ENTRIES; i++)
        grey_push(&stack, i);
    for (unsigned round = 0; round < 10; round++) {
        assert_true(grey_push(&stack, 77));
        assert_true(grey_pop(&stack, &e));
        assert_int_equal(e, 77);
    }
    grey_stack_destroy(&stack);
}

static void a_push_fails_when_segments_are_used_up(void **state) {
    (void)state;
    struct grey_stack stack;
    grey_entry e;
    assert_int_equal(grey_stack_init(&stack), 0);
    grey_segments_most = 2;
    for (uint64_t i = 0; i < 2 * GREY_SEGMENT_ENTRIES; i++)
        assert_true(grey_push(&stack, i));
    assert_false(grey_push(&stack, 1));
    assert_false(grey_push(&stack, 2));
    assert_true(grey_pop(&stack, &e));
    assert_int_equal(e, 2 * GREY_SEGMENT_ENTRIES - 1); /* what failed left nothing behind */
    assert_true(grey_push(&stack, 3));
    assert_false(grey_push(&stack, 4));
    grey_stack_destroy(&stack);
    struct grey_stack second, third;
    assert_int_equal(grey_stack_init(&stack), 0);
    assert_int_equal(grey_stack_init(&second), 0);
    assert_int_equal(grey_stack_init(&third), -1);
    grey_segments_most = 0;
    grey_stack_destroy(&stack);
    grey_stack_destroy(&second);
}

static void half_of_the_oldest_is_given_away(void **state) {
    (void)state;
    static const uint64_t counts[] = {
        2, 3, 1000, GREY_SEGMENT_ENTRIES, GREY_SEGMENT_ENTRIES + 1, 5 * GREY_SEGMENT_ENTRIES + 9};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct grey_stack giver, taker;
        uint64_t count = counts[c], taken = 0, kept = 0, sum = 0;
        grey_entry e;
        assert_int_equal(grey_stack_init(&giver), 0);
        assert_int_equal(grey_stack_init(&taker), 0);
        for (uint64_t i = 0; i < count; i++)
            grey_push(&giver, i);
        grey_pool_open();
        grey_pool_enter();
        grey_pool_donate(&giver);
        while (grey_pool_take(&taker))
            while (grey_pop(&taker, &e)) {
                taken++;
                sum += e;
            }
        uint64_t next = count;
        while (grey_pop(&giver, &e)) {
            assert_int_equal(e, --next); /* the youngest stay */
            kept++;
            sum += e;
        }
        assert_int_equal(kept + taken, count);
        assert_int_equal(sum, count * (count - 1) / 2);
        assert_true(taken > 0 && kept > 0);
        if (count <= GREY_SEGMENT_ENTRIES)
            assert_int_equal(taken, count / 2);
        grey_stack_destroy(&giver);
        grey_stack_destroy(&taker);
    }
}

static void a_single_entry_is_not_given_away(void **state) {
    (void)state;
    struct grey_stack giver;
    grey_entry e;
    assert_int_equal(grey_stack_init(&giver), 0);
    grey_push(&giver, 5);
    grey_pool_open();
    grey_pool_enter();
    grey_pool_donate(&giver);
    assert_true(grey_pop(&giver, &e));
    assert_int_equal(e, 5);
    assert_false(grey_pool_take(&giver));
    grey_stack_destroy(&giver);
}

/*
 * Markers that share: an entry n stands for n more work: taking it pushes 0 .. n - 1 of it. So a first entry
 * of n makes 2^n entries in all, and each must be seen once.
 */
#define MARKERS 8
static struct grey_stack stacks[MARKERS];
static _Atomic uint64_t seen;

static void *mark(void *argument) {
    struct grey_stack *stack = argument;
    uint64_t mine = 0, looks = 0;
    do {
        grey_entry e;
        while (grey_pop(stack, &e)) {
            mine++;
            while (e-- > 0)
                assert_true(grey_push(stack, e));
            if (++looks % 64 == 0 && grey_pool_hungry())
                grey_pool_donate(stack);
        }
    } while (grey_pool_take(stack));
    atomic_fetch_add(&seen, mine);
    return NULL;
}

static void what_is_shared_is_seen_once_and_marking_ends(void **state) {
    (void)state;
    for (unsigned round = 0; round < 40; round++) {
        unsigned markers = 1 + round % MARKERS;
        uint64_t n = round < 30 ? round % 12 : 17;
        pthread_t threads[MARKERS];
        atomic_store(&seen, 0);
        for (unsigned i = 0; i < markers; i++)
            assert_int_equal(grey_stack_init(&stacks[i]), 0);
        grey_push(&stacks[round % markers], n);
        grey_pool_open();
        for (unsigned i = 0; i < markers; i++)
            grey_pool_enter();
        for (unsigned i = 0; i < markers; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, mark, &stacks[i]), 0);
        for (unsigned i = 0; i < markers; i++) {
            pthread_join(threads[i], NULL);
            grey_stack_destroy(&stacks[i]);
        }
        assert_int_equal(seen, UINT64_C(1) << n);
    }
}

/* What the barrier hands over is work like any other, and comes out once. */
static void what_the_barrier_puts_comes_out_once(void **state) {
    (void)state;
    struct grey_stack stack;
    grey_entry entries[100], e;
    uint64_t sum = 0, count = 0;
    assert_int_equal(grey_stack_init(&stack), 0);
    grey_pool_open();
    for (uint64_t n = 1; n <= 3000; n += 100) {
        for (uint64_t i = 0; i < 100; i++)
            entries[i] = n + i;
        assert_true(grey_pool_put(entries, 100));
    }
    assert_false(grey_pool_is_dry());
    grey_pool_enter();
    while (grey_pool_take(&stack))
        while (grey_pop(&stack, &e)) {
            sum += e;
            count++;
        }
    assert_int_equal(count, 3000);
    assert_int_equal(sum, 3000 * 3001 / 2);
    assert_true(grey_pool_is_dry());
    grey_stack_destroy(&stack);
}

/* A guest takes no object whose trace function is the program's; what it leaves is there for others. */
static void a_guest_leaves_what_it_must_not_scan(void **state) {
    (void)state;
    struct grey_stack guest, own, marker;
    grey_entry e;
    assert_int_equal(grey_stack_init(&guest), 0);
    assert_int_equal(grey_stack_init(&own), 0);
    assert_int_equal(grey_stack_init(&marker), 0);
    grey_pool_open();
    assert_false(grey_pool_try(&guest, true));
    grey_pool_enter();
    grey_push(&guest, 7);
    grey_push(&own, 8);
    assert_false(grey_pool_is_dry());
    grey_pool_leave(&guest, &own);
    assert_true(grey_pool_try(&guest, true));
    assert_true(grey_pop(&guest, &e));
    assert_int_equal(e, 7);
    grey_pool_leave(&guest, NULL);
    assert_false(grey_pool_try(&guest, true));
    grey_pool_enter();
    assert_true(grey_pool_take(&marker));
    assert_true(grey_pop(&marker, &e));
    assert_int_equal(e, 8);
    assert_false(grey_pool_take(&marker));
    grey_stack_destroy(&guest);
    grey_stack_destroy(&own);
    grey_stack_destroy(&marker);
}

static void all_segments_are_given_back(void **state) {
    (void)state;
    offheap_refresh();
    uint64_t before = offheap_bytes();
    for (unsigned round = 0; round < 5; round++)
        what_is_shared_is_seen_once_and_marking_ends(NULL);
    offheap_refresh();
    assert_true(offheap_bytes() <= before + 65536);
    /* None is counted any more: a bound of one lets one be made. */
    struct grey_stack stack;
    grey_segments_most = 1;
    assert_int_equal(grey_stack_init(&stack), 0);
    grey_segments_most = 0;
    grey_stack_destroy(&stack);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_holds_address_class_and_kind),
        cmocka_unit_test(last_in_first_out_over_segments),
        cmocka_unit_test(a_push_fails_when_segments_are_used_up),
        cmocka_unit_test(half_of_the_oldest_is_given_away),
        cmocka_unit_test(a_single_entry_is_not_given_away),
        cmocka_unit_test(what_is_shared_is_seen_once_and_marking_ends),
        cmocka_unit_test(what_the_barrier_puts_comes_out_once),
        cmocka_unit_test(a_guest_leaves_what_it_must_not_scan),
        cmocka_unit_test(all_segments_are_given_back),
    };
    if (offheap_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
