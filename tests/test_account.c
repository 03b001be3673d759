/* The books: bytes in objects and bytes held, and the goal that follows from them. */
#include "child.h"

#include <pthread.h>
#include <sched.h>

#include "gc/account.h"
#include "gc/offheap.h"
#include "gc/pagerun.h"
#include "gc/settings.h"

static void taking_and_giving_moves_the_heap_and_its_peak(void **state) {
    (void)state;
    uint64_t heap = account_heap();
    account_take(1000);
    account_take(500);
    assert_int_equal(account_heap(), heap + 1500);
    account_give(1500);
    assert_int_equal(account_heap(), heap);
    assert_true(account.peak_heap >= heap + 1500);
}

static void the_total_is_the_sum_of_what_is_held(void **state) {
    (void)state;
    uint64_t before = account_total();
    account.external += 12345678;
    assert_int_equal(account_total(), before + 12345678);
    account_note_peaks();
    assert_true(account.peak_total >= before + 12345678);
    account.external -= 12345678;
    assert_int_equal(account_total(), before);
}

static void room_is_what_the_limit_leaves(void **state) {
    (void)state;
    settings.memory_limit = UINT64_MAX;
    assert_int_equal(account_growth().room, UINT64_MAX);
    settings.memory_limit = account_total() + 1000;
    assert_int_equal(account_growth().room, 1000);
    settings.memory_limit = account_total();
    assert_int_equal(account_growth().room, 0);
    settings.memory_limit = 1;
    assert_int_equal(account_growth().room, 0);
    settings.memory_limit = UINT64_MAX;
}

static uint64_t held(void) {
    return pagerun_used_bytes() + pagerun_free_bytes();
}

static void near_a_small_goal_the_heap_grows_to_it_and_no_further(void **state) {
    (void)state;
    uint64_t goal = account.goal;
    account.goal = held() + 4 * MIB;
    assert_int_equal(account_growth().step, 2 * MIB);
    account.goal = held() + 1 * MIB + 70 * KIB;
    assert_int_equal(account_growth().step, 1 * MIB + 64 * KIB);
    account.goal = held() + 10 * KIB;
    assert_int_equal(account_growth().step, 64 * KIB);
    account.goal = held();
    assert_true(account_growth().step >= 64 * KIB);
    assert_true(account_growth().step <= held() / 64 + 64 * KIB);
    account.goal = 65 * MIB; /* not small */
    assert_int_equal(account_growth().step, 2 * MIB);
    account.goal = goal;
}

static void the_goal_follows_the_settings(void **state) {
    (void)state;
    account_cycle(&(struct account_marked){
        .live = 100 * MIB, .marked = 100 * MIB, .stack_bytes = 3000, .global_bytes = 5000});
    assert_int_equal(account.live, 100 * MIB);
    assert_int_equal(account_heap(), 100 * MIB);
    assert_int_equal(account.goal, 200 * MIB + 8000);
    assert_int_equal(account.ratio_goal, 200 * MIB + 8000);
    assert_int_equal(account.by, PACER_BY_RATIO);
    settings.gc_percent = 50;
    account_decide();
    assert_int_equal(account.goal, 150 * MIB + 4000);
    settings.gc_percent = -1;
    account_decide();
    assert_int_equal(account.goal, UINT64_MAX);
    assert_int_equal(account.by, PACER_BY_NONE);
    settings.memory_limit = 300 * MIB;
    account_decide();
    assert_int_equal(account.by, PACER_BY_LIMIT);
    assert_true(account.goal >= 100 * MIB && account.goal < 300 * MIB);
    settings.memory_limit = 50 * MIB; /* under live */
    account_decide();
    assert_int_equal(account.goal, 100 * MIB);
    settings.memory_limit = UINT64_MAX;
    settings.gc_percent = 100;
    account_cycle(&(struct account_marked){0});
    assert_int_equal(account.goal, 4 * MIB);
}

/* What masks show counts when it is taken, not at a cycle: giving it back afterwards must not count it twice.
 */
struct leaver {
    pthread_t thread;
    atomic_int phase;
};

static void *open_masks_and_leave(void *argument) {
    struct leaver *l = argument;
    for (unsigned class = 1; class < TERN_SIZE_CLASSES; class ++)
        tern_keep(tern_alloc(tern_size_class_bytes(class)));
    tern_blocking_begin();
    atomic_store(&l->phase, 1);
    while (atomic_load(&l->phase) == 1)
        sched_yield();
    tern_blocking_end();
    return NULL;
}

static void a_thread_that_leaves_takes_nothing_from_the_heap(void **state) {
    (void)state;
    static struct leaver leavers[8];
    void *live_ones = tern_alloc(16 * MIB);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(tern_pthread_create(&leavers[i].thread, NULL, open_masks_and_leave, &leavers[i]), 0);
        while (atomic_load(&leavers[i].phase) != 1) {
            tern_poll();
            sched_yield();
        }
    }
    collect();
    uint64_t live = account.live;
    for (unsigned i = 0; i < 8; i++) {
        atomic_store(&leavers[i].phase, 2);
        tern_blocking_begin();
        pthread_join(leavers[i].thread, NULL);
        tern_blocking_end();
        assert_true(account_heap() >= live);
        assert_true(account_heap() <= live + MIB);
    }
    tern_keep(live_ones);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taking_and_giving_moves_the_heap_and_its_peak),
        cmocka_unit_test(the_total_is_the_sum_of_what_is_held),
        cmocka_unit_test(room_is_what_the_limit_leaves),
        cmocka_unit_test(near_a_small_goal_the_heap_grows_to_it_and_no_further),
        cmocka_unit_test(a_thread_that_leaves_takes_nothing_from_the_heap),
        cmocka_unit_test(the_goal_follows_the_settings),
    };
    if (tern_init(NULL) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
