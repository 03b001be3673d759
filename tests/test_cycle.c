/* A cycle: who asks for one, and how many that makes. */
#include "child.h"

#include <pthread.h>

#include "gc/account.h"
#include "gc/cycle.h"
#include "gc/heap.h"
#include "gc/mutator.h"
#include "gc/settings.h"

static int stress(void *argument) {
    unsigned every = *(unsigned *)argument;
    char text[64];
    snprintf(text, sizeof text, "gcstress=%u,seed=20260108", every);
    setenv("TERN_GODEBUG", text, 1);
    setenv("TERN_GOGC", "off", 1);
    /* Each of these is one slow path. */
    for (unsigned i = 0; i < 1000; i++)
        tern_keep(tern_alloc_leaf(40000));
    uint64_t cycles = stats().collections;
    must(every == 1 ? cycles == 1000 : cycles >= 1000 / every * 3 / 4 && cycles <= 1000 / every * 5 / 4);
    must(stats().forced == 0);
    return 0;
}

static void stress_collects_at_every_nth_slow_path(void **state) {
    (void)state;
    static const unsigned every[] = {1, 2, 5, 20};
    for (size_t i = 0; i < 4; i++)
        child_passes(stress, (void *)(uintptr_t)&every[i]);
}

/* gcstress is drawn from the seed: the same one gives the same cycles. */
static int stress_count(void *argument) {
    uint64_t *out = argument;
    setenv("TERN_GODEBUG", "gcstress=7,seed=5", 1);
    setenv("TERN_GOGC", "off", 1);
    for (unsigned i = 0; i < 500; i++)
        tern_keep(tern_alloc_leaf(40000));
    *out = stats().collections;
    return 0;
}

static void stress_is_repeatable(void **state) {
    (void)state;
    uint64_t *counts = shared_memory(2 * sizeof *counts);
    child_passes(stress_count, &counts[0]);
    child_passes(stress_count, &counts[1]);
    assert_int_equal(counts[0], counts[1]);
    assert_true(counts[0] > 0);
    shared_memory_free(counts, 2 * sizeof *counts);
}

static void a_forced_one_is_a_whole_one_each_time(void **state) {
    (void)state;
    tern_collect();
    uint32_t epoch = heap_epoch();
    uint64_t before = stats().collections;
    for (uint32_t i = 1; i <= 10; i++) {
        tern_collect();
        assert_int_equal(heap_epoch(), epoch + i);
        assert_int_equal(stats().collections, before + i);
    }
}

/* Objects allocated since are live, and those dropped before are not, in the very next one. */
static NOINLINE void fill(uintptr_t *hidden, size_t count) {
    for (size_t i = 0; i < count; i++)
        hidden[i] = ~(uintptr_t)tern_alloc_leaf_single(5000);
}

static void one_collection_is_enough_for_what_is_dead(void **state) {
    (void)state;
    uint64_t before;
    uintptr_t hidden[100];
    collect();
    before = stats().live_bytes;
    fill(hidden, 100);
    assert_true(stats().heap_bytes >= before + 100 * 5000);
    collect();
    assert_true(stats().live_bytes <= before + 100 / 10 * 5376);
}

static atomic_bool go;
static void *request(void *unused) {
    (void)unused;
    tern_blocking_begin();
    while (!atomic_load(&go))
        usleep(100); /* who spins keeps ThreadSanitizer's lock of the variable from the one who writes */
    tern_blocking_end();
    cycle_collect(mutator_get(), CYCLE_HEAP);
    return NULL;
}

/* However many ask at once, none of them brings more than one cycle about. */
static void a_request_waits_for_at_most_one_cycle(void **state) {
    (void)state;
    pthread_t threads[16];
    atomic_store(&go, false);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(tern_pthread_create(&threads[i], NULL, request, NULL), 0);
    uint64_t before = stats().collections;
    atomic_store(&go, true);
    tern_blocking_begin();
    for (size_t i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    tern_blocking_end();
    uint64_t cycles = stats().collections - before;
    assert_in_range(cycles, 1, 16);
    /* It asks only what the test before allocating asks. */
    enum cycle_reason reason;
    tern_set_gc_percent(TERN_GC_OFF);
    mutator_enter(mutator_self);
    assert_false(cycle_wanted(mutator_self, UINT64_C(1) << 40, &reason));
    mutator_leave(mutator_self);
    tern_set_gc_percent(100);
    mutator_enter(mutator_self);
    uint64_t room = atomic_load(&account.goal) - account_heap();
    assert_false(cycle_wanted(mutator_self, room, &reason));
    assert_true(cycle_wanted(mutator_self, room + 1, &reason));
    assert_int_equal(reason, CYCLE_HEAP);
    mutator_leave(mutator_self);
}

static void note_stop(void *context) {
    *(bool *)context = atomic_load(&stop_word) % 2 == 1 && mutator_list != NULL;
}

static void a_function_runs_with_the_world_stopped(void **state) {
    (void)state;
    bool stopped = false;
    uint64_t before = stats().collections;
    cycle_stopped(mutator_self, note_stop, &stopped);
    assert_true(stopped);
    assert_int_equal(atomic_load(&stop_word) % 2, 0);
    assert_int_equal(stats().collections, before);
}

/* Live at the goal: each request collects once and then goes on. */
static int live_at_the_limit(void *unused) {
    (void)unused;
    setenv("TERN_GOGC", "off", 1);
    setenv("TERN_GOMEMLIMIT", "16MiB", 1);
    setenv("TERN_GODEBUG", "warn=0", 1);
    void **held = tern_alloc_array(64, sizeof *held);
    for (unsigned i = 0; i < 64; i++)
        held[i] = tern_alloc_leaf(1 << 20);
    must(stats().live_bytes + (1 << 20) >= 60 << 20);
    must(stats().limit_passed > 0 && stats().collections <= 128);
    for (unsigned i = 0; i < 64; i++)
        must(tern_object_find(held[i], NULL));
    return 0;
}

static void live_bytes_past_the_limit_do_not_stall_the_program(void **state) {
    (void)state;
    child_passes(live_at_the_limit, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stress_collects_at_every_nth_slow_path), /* first: children start the library */
        cmocka_unit_test(stress_is_repeatable),
        cmocka_unit_test(live_bytes_past_the_limit_do_not_stall_the_program),
        cmocka_unit_test(a_forced_one_is_a_whole_one_each_time),
        cmocka_unit_test(one_collection_is_enough_for_what_is_dead),
        cmocka_unit_test(a_request_waits_for_at_most_one_cycle),
        cmocka_unit_test(a_function_runs_with_the_world_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
