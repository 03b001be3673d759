/* Thread records: attach, detach, blocked sections, the depth of S1, and counters that outlive their thread.
 */
#include "child.h"

#include <pthread.h>

#include "gc/alloc.h"
#include "gc/mutator.h"

static struct mutator_totals totals(void) {
    struct mutator_totals t;
    mutator_totals_read(mutator_self, &t);
    return t;
}

static void *live_shortly(void *argument) {
    size_t count = (size_t)(uintptr_t)argument;
    struct mutator *self = mutator_attach();
    assert_ptr_equal(self, mutator_self);
    assert_ptr_equal(mutator_attach(), self);
    assert_ptr_equal(mutator_get(), self);
    char here;
    assert_true((uintptr_t)&here > self->stack_lo && (uintptr_t)&here < self->stack_hi);
    for (size_t i = 0; i < count; i++) {
        tern_keep(alloc_object(self, 100, KIND_WORDS));
        tern_keep(alloc_leaf(self, 4));
    }
    tern_keep(alloc_object(self, 100000, KIND_LEAF));
    return NULL;
}

static void join(pthread_t thread) {
    mutator_block(mutator_self);
    pthread_join(thread, NULL);
    mutator_unblock(mutator_self);
}

static void counters_survive_the_thread(void **state) {
    (void)state;
    struct mutator_totals before = totals();
    for (size_t i = 1; i <= 5; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, live_shortly, (void *)(uintptr_t)(i * 8));
        join(thread);
    }
    struct mutator_totals after = totals();
    unsigned class = sizeclass_of(100);
    assert_int_equal(after.slots[class] - before.slots[class], (1 + 2 + 3 + 4 + 5) * 8);
    assert_int_equal(after.tiny_objects - before.tiny_objects, (1 + 2 + 3 + 4 + 5) * 8);
    assert_int_equal(after.tiny_blocks - before.tiny_blocks, (1 + 2 + 3 + 4 + 5) * 2);
    assert_int_equal(after.large_objects - before.large_objects, 5);
    assert_int_equal(after.large_bytes - before.large_bytes, 5 * 106496);
    assert_int_equal(mutator_count(), 1);
}

static void *stay(void *argument) {
    mutator_attach();
    mutator_block(mutator_self);
    atomic_store((atomic_int *)argument, 1);
    while (atomic_load((atomic_int *)argument) != 2)
        sched_yield();
    mutator_unblock(mutator_self);
    if (atomic_load(&mutator_self->state) != MUTATOR_RUNNING)
        atomic_store((atomic_int *)argument, 3);
    mutator_detach(mutator_self);
    return mutator_self;
}

static void attached_threads_are_listed(void **state) {
    (void)state;
    enum { COUNT = 10 };
    pthread_t threads[COUNT];
    atomic_int phases[COUNT] = {0};
    for (uint32_t i = 0; i < COUNT; i++) {
        pthread_create(&threads[i], NULL, stay, &phases[i]);
        while (atomic_load(&phases[i]) != 1)
            sched_yield();
        assert_int_equal(mutator_count(), 2 + i);
    }
    uint32_t blocked = 0;
    for (const struct mutator *m = mutator_list; m != NULL; m = m->next)
        blocked += atomic_load(&m->state) == MUTATOR_BLOCKED;
    assert_int_equal(blocked, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        void *self;
        atomic_store(&phases[i], 2);
        pthread_join(threads[i], &self);
        assert_null(self);
        assert_int_equal(phases[i], 2);
        assert_int_equal(mutator_count(), COUNT - i);
    }
}

static void a_section_has_depth_one(void **state) {
    (void)state;
    struct mutator *self = mutator_self;
    assert_int_equal(self->depth, 0);
    mutator_enter(self);
    assert_int_equal(self->depth, 1);
    mutator_leave(self);
    assert_int_equal(self->depth, 0);
    mutator_block(self);
    assert_int_equal(self->depth, 0);
    assert_int_equal(self->state, MUTATOR_BLOCKED);
    mutator_unblock(self);
    assert_int_equal(self->depth, 0);
    assert_int_equal(self->state, MUTATOR_RUNNING);
}

static int enter_twice(void *unused) {
    (void)unused;
    tern_keep(tern_alloc(8));
    mutator_enter(mutator_self);
    mutator_enter(mutator_self);
    return 0;
}
static int block_inside(void *unused) {
    (void)unused;
    tern_keep(tern_alloc(8));
    mutator_enter(mutator_self);
    mutator_block(mutator_self);
    return 0;
}
static int allocate_inside(void *unused) {
    (void)unused;
    tern_keep(tern_alloc(8));
    mutator_enter(mutator_self);
    tern_keep(tern_alloc(30000)); /* a slow path */
    return 0;
}

static void sections_do_not_nest(void **state) {
    (void)state;
    child_aborts(enter_twice, NULL, "the library was entered from a signal handler");
    child_aborts(block_inside, NULL, "a blocking section was begun inside another one or inside the library");
    child_aborts(allocate_inside, NULL, "signal handlers must not allocate");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_do_not_nest),
        cmocka_unit_test(counters_survive_the_thread),
        cmocka_unit_test(attached_threads_are_listed),
        cmocka_unit_test(a_section_has_depth_one),
    };
    setenv("TERN_GOGC", "off", 1);
    if (tern_init(NULL) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
