/* After marking: dead large objects and dead spans are freed by the cycle, the rest is swept lazily or in the
 * background. */
#include "child.h"

#include <sched.h>

#include "gc/central.h"
#include "gc/cycle.h"
#include "gc/mutator.h"
#include "gc/pagerun.h"
#include "gc/sweep.h"

static void *held[40000]; /* a registered root */

static NOINLINE void fill(size_t count, size_t bytes) {
    for (size_t i = 0; i < count; i++)
        held[i] = tern_alloc(bytes);
}

static void wholly_dead_spans_are_freed_at_once(void **state) {
    (void)state;
    collect_and_sweep();
    uint64_t used = pagerun_used_bytes();
    fill(40000, 100);
    assert_true(pagerun_used_bytes() - used >= 40000 * 112);
    memset(held, 0, sizeof held);
    collect();
    assert_true(pagerun_used_bytes() - used <= 40000 * 112 / 10);
    pagerun_check();
}

/* One object of each span lives: nobody allocates, and yet the background thread sweeps all. */
static void check_unswept(void *context) {
    *(bool *)context = central_sweep_one();
}

static void the_background_thread_sweeps_what_nobody_needs(void **state) {
    (void)state;
    fill(40000, 100);
    for (size_t i = 0; i < 40000; i++)
        if (i % 60 != 0)
            held[i] = NULL;
    int64_t cpu = sweep_background_cpu_ns();
    collect();
    while (sweep_background_cpu_ns() == cpu) /* it counts its time when it is through */
        sched_yield();
    assert_false(central_sweep_one());
    bool more = true;
    cycle_stopped(mutator_self, check_unswept, &more);
    assert_false(more);
    memset(held, 0, sizeof held);
}

static NOINLINE void spike(void) {
    memset(tern_alloc_leaf(100 << 20), 1, 100 << 20);
    clear_stack();
}

/* After a spike of one large object no span is left to sweep: what is free goes back all the same. */
static void free_memory_goes_back_in_the_background(void **state) {
    (void)state;
    tern_set_gc_percent(100);
    spike();
    collect();
    collect(); /* this one starts from the small heap */
    while (stats().heap_free_bytes > 20 << 20)
        sched_yield();
    assert_true(stats().returned_bytes >= 80 << 20);
    tern_set_gc_percent(TERN_GC_OFF);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wholly_dead_spans_are_freed_at_once),
        cmocka_unit_test(the_background_thread_sweeps_what_nobody_needs),
        cmocka_unit_test(free_memory_goes_back_in_the_background),
    };
    setenv("TERN_GOGC", "off", 1);
    if (tern_root_add(held, sizeof held) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
