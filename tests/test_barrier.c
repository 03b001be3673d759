/* The write barrier: what gc/barrier promises, with cycles in pieces. */
#include "child.h"

#include <pthread.h>

#include "gc/barrier.h"
#include "gc/cycle.h"
#include "gc/mark.h"
#include "gc/offheap.h"

#define FIELDS 100

static void **holder; /* a root */
static uintptr_t hidden[FIELDS];

/* New objects in the holder, and nowhere else. */
static NOINLINE void fill(void) {
    for (size_t i = 0; i < FIELDS; i++) {
        void *object = tern_alloc(64);
        hidden[i] = ~(uintptr_t)object;
        tern_store(&holder[i], object);
    }
}

static NOINLINE size_t marked(void) {
    size_t count = 0;
    for (size_t i = 0; i < FIELDS; i++)
        count += mark_is_marked((const void *)~hidden[i]);
    return count;
}

static NOINLINE size_t left(void) {
    size_t count = 0;
    for (size_t i = 0; i < FIELDS; i++)
        count += tern_object_find((const void *)~hidden[i], NULL);
    return count;
}

static uint64_t records(void) {
    return atomic_load(&mutator_self->barrier.published);
}

static void sweep_all(void) {
    tern_heap_walk(stop_walk, NULL);
}

static void begin(void) {
    clear_stack();
    cycle_begin_for_test(mutator_self);
}
static void end(void) {
    clear_stack();
    cycle_end_for_test(mutator_self);
}

/* Ends the cycle, which lets all live, and runs another, in which nearly all die. */
static void live_for_this_cycle_only(void) {
    end();
    sweep_all();
    assert_int_equal(left(), FIELDS);
    collect();
    sweep_all();
    assert_true(FIELDS - left() >= NEARLY(FIELDS));
}

static void nothing_is_recorded_while_no_cycle_marks(void **state) {
    (void)state;
    uint64_t before = records();
    assert_false(barrier_is_on());
    fill();
    tern_exchange(&holder[0], NULL);
    tern_clear_range(holder, FIELDS);
    assert_int_equal(records(), before);
}

static void both_words_of_a_store_are_recorded_if_they_may_be_pointers(void **state) {
    (void)state;
    fill();
    void *other = tern_alloc(64);
    begin();
    assert_true(barrier_is_on());
    uint64_t before = records();
    tern_store(&holder[0], other);
    assert_int_equal(records() - before, 2);
    tern_store(&holder[0], NULL);
    assert_int_equal(records() - before, 3);
    tern_store(&holder[0], (void *)(uintptr_t)4711);
    tern_store(&holder[0], &before); /* no address in the heap */
    assert_int_equal(records() - before, 3);
    tern_init_store(&holder[0], other);
    assert_int_equal(records() - before, 4);
    tern_exchange(&holder[1], other);
    assert_int_equal(records() - before, 6);
    void *expected = other;
    assert_true(tern_cas(&holder[1], &expected, NULL));
    assert_int_equal(records() - before, 7);
    tern_move_range(&holder[10], &holder[20], 4);
    assert_int_equal(records() - before, 15);
    tern_clear_range(&holder[30], 5);
    assert_int_equal(records() - before, 20);
    end();
    assert_false(barrier_is_on());
}

static NOINLINE void drop_one_by_one(void) {
    for (size_t i = 0; i < FIELDS; i++)
        tern_store(&holder[i], NULL);
}

static void what_was_overwritten_lives_to_the_next_cycle(void **state) {
    (void)state;
    fill();
    begin();
    drop_one_by_one();
    live_for_this_cycle_only();
    fill();
    begin();
    tern_clear_range(holder, FIELDS);
    live_for_this_cycle_only();
}

/* Out of new objects, into nothing: only the record of the value keeps it. */
static NOINLINE void pass_through(void) {
    void **fresh = tern_alloc(FIELDS * sizeof *fresh);
    for (size_t i = 0; i < FIELDS; i++) {
        void *object = (void *)~hidden[i];
        tern_store(&fresh[i], object);
        fresh[i] = NULL;
    }
}

static void what_was_written_lives_to_the_next_cycle(void **state) {
    (void)state;
    fill();
    tern_clear_range(holder, FIELDS);
    begin(); /* they are dead; the pointers come from where the collector does not look */
    pass_through();
    live_for_this_cycle_only();
}

static void a_full_ring_is_marked_by_its_owner(void **state) {
    (void)state;
    fill();
    begin();
    size_t before = marked();
    for (int n = 0; n < 3; n++) {
        drop_one_by_one();
        for (size_t i = 0; i < FIELDS; i++)
            tern_store(&holder[i], (void *)~hidden[i]);
    }
    assert_true(before < FIELDS / 10); /* nobody marks */
    assert_int_equal(marked(), FIELDS);
    end();
}

/* It would fill a queue, or keep the markers from their lock, if each record were handed over as it is. */
static void a_thread_that_only_stores_fills_no_memory(void **state) {
    (void)state;
    fill();
    begin();
    offheap_refresh();
    uint64_t before = offheap_bytes();
    for (uint64_t n = 0; n < 3000000; n++) {
        size_t i = n % FIELDS, j = n / 7 % FIELDS;
        void *object = holder[i];
        tern_store(&holder[i], holder[j]);
        tern_store(&holder[j], object);
    }
    offheap_refresh();
    assert_true(offheap_bytes() <= before + (256 << 10));
    end();
}

/* Those that the end stop found, and late ones of a thread that was stopped between the look at the flag and the record,
 * are the last cycle's. */
static void old_records_keep_nothing(void **state) {
    (void)state;
    fill();
    begin();
    drop_one_by_one();
    end();
    mutator_enter(mutator_self);
    for (size_t i = 0; i < 20; i++)
        barrier_record_inside(mutator_self, ~hidden[i]);
    mutator_leave(mutator_self);
    collect();
    sweep_all();
    assert_true(FIELDS - left() >= NEARLY(FIELDS));
}

static void *drop_and_end(void *how) {
    if (how != NULL && tern_thread_attach() != 0)
        abort();
    drop_one_by_one(); /* attaches it, if it is not */
    return NULL;
}

static void a_thread_that_ends_leaves_its_records(void **state) {
    (void)state;
    for (uintptr_t attached = 0; attached < 2; attached++) {
        pthread_t thread;
        fill();
        begin();
        assert_int_equal(pthread_create(&thread, NULL, drop_and_end, (void *)attached), 0);
        tern_blocking_begin();
        pthread_join(thread, NULL);
        tern_blocking_end();
        assert_int_equal(mutator_count(), 1);
        live_for_this_cycle_only();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_recorded_while_no_cycle_marks),
        cmocka_unit_test(both_words_of_a_store_are_recorded_if_they_may_be_pointers),
        cmocka_unit_test(what_was_overwritten_lives_to_the_next_cycle),
        cmocka_unit_test(what_was_written_lives_to_the_next_cycle),
        cmocka_unit_test(a_full_ring_is_marked_by_its_owner),
        cmocka_unit_test(a_thread_that_only_stores_fills_no_memory),
        cmocka_unit_test(old_records_keep_nothing),
        cmocka_unit_test(a_thread_that_ends_leaves_its_records),
    };
    tern_options options;
    tern_options_init(&options);
    options.stores = TERN_STORES_BARRIER;
    options.gc_percent = TERN_GC_OFF;
    if (tern_init(&options) != 0 || tern_root_add(&holder, sizeof holder) != 0)
        return 1;
    holder = tern_alloc(FIELDS * sizeof *holder);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    tern_shutdown();
    return failures;
}
