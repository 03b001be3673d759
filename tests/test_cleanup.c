/* Cleanups. This process runs them by hand; those of the library's thread are looked at in children. */
#include "gc/cleanup.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>

#include <cmocka.h>

#include "garbage.h"

#define COUNT 1000

static void **objects; /* managed, COUNT pointers; a registered root */

/* What ran, in order. Arguments are managed, so that a lost one would be overwritten. */
struct note {
    uint64_t number, complement;
};
static uint64_t order[4 * COUNT];
static _Atomic size_t ran;
static _Atomic bool broken;

static NOINLINE struct note *note_of(uint64_t number) {
    struct note *note = tern_alloc_leaf(sizeof *note);
    note->number = number;
    note->complement = ~number;
    return note;
}

static void take_down(void *argument) {
    const struct note *note = argument;
    if (note->complement != ~note->number)
        broken = true;
    order[ran++] = note->number;
}

static NOINLINE void make_objects(void) {
    for (size_t i = 0; i < COUNT; i++)
        objects[i] = tern_alloc(48);
}

static NOINLINE uint64_t add(size_t object, uint64_t number) {
    uint64_t id = tern_cleanup_add(objects[object], take_down, note_of(number));
    assert_true(id != 0);
    return id;
}

static NOINLINE void drop_objects(void) {
    memset(objects, 0, COUNT * sizeof *objects);
}

/* Other memory is used meanwhile, so that what is freed is overwritten. */
static NOINLINE void churn(void) {
    for (size_t i = 0; i < 20 * COUNT; i++)
        memset(tern_alloc_leaf(16 + 16 * (i % 4)), 0xee, 16);
}

static size_t run_all(void) {
    size_t n = 0, now;
    while ((now = tern_run_cleanups(0)) != 0)
        n += now;
    return n;
}

/* Nothing of one test is left for the next, but for what a stale word keeps alive. */
static int begin(void **state) {
    (void)state;
    drop_objects();
    collect();
    run_all();
    ran = 0;
    broken = false;
    return 0;
}

static void it_runs_once_after_its_object_died(void **state) {
    (void)state;
    tern_stats before = stats();
    make_objects();
    for (size_t i = 0; i < COUNT; i++)
        add(i, i);
    assert_int_equal(stats().cleanups_waiting, before.cleanups_waiting + COUNT);
    collect();
    churn();
    collect();
    assert_int_equal(run_all(), 0); /* the objects live */
    drop_objects();
    collect();
    churn();
    collect(); /* while they are queued */
    size_t queued = stats().cleanups_queued;
    assert_true(queued >= NEARLY(COUNT));
    assert_int_equal(ran, 0);
    assert_int_equal(run_all(), queued);
    assert_int_equal(ran, queued);
    assert_false(broken);
    collect();
    run_all();
    static unsigned times[COUNT];
    for (size_t i = 0; i < ran; i++)
        assert_int_equal(++times[order[i]], 1);
    assert_int_equal(stats().cleanups_run, before.cleanups_run + ran);
    assert_int_equal(stats().cleanups_queued, 0);
    cleanup_check();
}

/* Three cleanups an object, added in rounds. */
static void they_run_in_the_order_of_adding(void **state) {
    (void)state;
    make_objects();
    for (size_t round = 0; round < 3; round++)
        for (size_t i = 0; i < COUNT; i++)
            add(i, i * 3 + round);
    drop_objects();
    collect();
    assert_true(tern_run_cleanups(0) >= 3 * NEARLY(COUNT));
    assert_int_equal(ran % 3, 0);
    for (size_t i = 0; i < ran; i++) {
        assert_int_equal(order[i] % 3, i % 3);
        assert_true(i == 0 || order[i] > order[i - 1]);
    }
}

static void no_more_run_than_were_asked_for(void **state) {
    (void)state;
    make_objects();
    for (size_t i = 0; i < COUNT; i++)
        add(i, i);
    drop_objects();
    collect();
    assert_int_equal(tern_run_cleanups(7), 7);
    assert_int_equal(tern_run_cleanups(1), 1);
    assert_int_equal(ran, 8);
    assert_true(tern_run_cleanups(2 * COUNT) >= NEARLY(COUNT) - 8);
    assert_int_equal(tern_run_cleanups(5), 0);
}

static void one_that_was_removed_does_not_run(void **state) {
    (void)state;
    static uint64_t ids[COUNT][3];
    make_objects();
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < 3; k++)
            ids[i][k] = add(i, i * 3 + k);
    /* The first, the middle or the last of an object, or all three. */
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < 3; k++)
            if (i % 4 == k || i % 4 == 3)
                assert_true(tern_cleanup_remove(ids[i][k]));
    cleanup_check();
    assert_false(tern_cleanup_remove(ids[0][0]));
    assert_false(tern_cleanup_remove(0));
    assert_false(tern_cleanup_remove(UINT64_MAX));
    drop_objects();
    collect();
    assert_true(run_all() >= 2 * NEARLY(COUNT * 3 / 4));
    for (size_t i = 0; i < ran; i++) {
        size_t object = order[i] / 3, k = order[i] % 3;
        assert_true(object % 4 != k && object % 4 != 3);
        assert_true(i == 0 || order[i] > order[i - 1]);
    }
}

static void one_that_is_queued_cannot_be_taken_back(void **state) {
    (void)state;
    static uint64_t ids[COUNT];
    make_objects();
    for (size_t i = 0; i < COUNT; i++)
        ids[i] = add(i, i);
    drop_objects();
    collect();
    size_t queued = stats().cleanups_queued, removed = 0;
    for (size_t i = 0; i < COUNT; i++)
        removed += tern_cleanup_remove(ids[i]);
    assert_int_equal(removed + queued, COUNT); /* those that a stale word kept alive could be */
    assert_int_equal(run_all(), queued);
    for (size_t i = 0; i < COUNT; i++)
        assert_false(tern_cleanup_remove(ids[i]));
}

static void nonsense_is_refused(void **state) {
    (void)state;
    int local;
    char *object = tern_alloc(100);
    const struct {
        const void *object;
        tern_cleanup_function *function;
        void *argument;
    } bad[] = {{NULL, take_down, NULL},
               {&local, take_down, NULL},
               {tern_alloc_leaf(8), take_down, NULL},
               {object, NULL, NULL},
               {object, take_down, object},
               {object, take_down, object + 99},
               {object + 50, take_down, object + 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        assert_int_equal(tern_cleanup_add(bad[i].object, bad[i].function, bad[i].argument), 0);
        assert_int_equal(errno, EINVAL);
    }
    tern_keep(object);
}

/* Each object's argument lies right behind it, and so is one past its end. */
static void an_argument_does_not_keep_its_neighbour_alive(void **state) {
    (void)state;
    size_t adjacent = 0;
    for (size_t i = 0; i < COUNT; i++) {
        objects[i] = tern_alloc_leaf_single(16);
        struct note *note = note_of(i);
        adjacent += (char *)note == (char *)objects[i] + 16;
        assert_true(tern_cleanup_add(objects[i], take_down, note) != 0);
    }
    drop_objects();
    clear_stack();
    collect();
    assert_true(run_all() >= NEARLY(COUNT));
    assert_false(broken);
    print_message("%zu of %d arguments right behind their objects\n", adjacent, COUNT);
    if (scaled(COUNT) == COUNT)
        assert_true(adjacent >= COUNT / 2);
}

/* ---- cleanups that use the library ---- */

static _Atomic uint64_t generations;

static void register_another(void *argument);

static NOINLINE void watch_new(uint64_t left) {
    struct note *note = note_of(left);
    assert_true(tern_cleanup_add(tern_alloc(64), register_another, note) != 0);
}

static void register_another(void *argument) {
    const struct note *note = argument;
    if (note->complement != ~note->number)
        broken = true;
    generations++;
    churn();
    if (note->number > 0)
        watch_new(note->number - 1);
    clear_stack();
    tern_collect();
    if (note->complement != ~note->number)
        broken = true;
}

static void they_may_allocate_and_register_and_collect(void **state) {
    (void)state;
    generations = 0;
    for (size_t i = 0; i < 20; i++)
        watch_new(5);
    for (size_t n = 0; n < 50; n++) {
        collect();
        tern_run_cleanups(0);
    }
    assert_true(generations >= NEARLY(20 * 6));
    assert_true(generations <= 20 * 6);
    assert_false(broken);
    cleanup_check();
}

static _Atomic size_t nested;

static void run_others(void *argument) {
    (void)argument;
    nested += tern_run_cleanups(3);
}

static void they_may_run_others(void **state) {
    (void)state;
    nested = 0;
    make_objects();
    assert_true(tern_cleanup_add(objects[0], run_others, NULL) != 0);
    for (size_t i = 1; i < COUNT; i++)
        add(i, i);
    for (size_t i = 1; i < COUNT; i++)
        assert_true(tern_cleanup_add(objects[i], run_others, NULL) != 0);
    drop_objects();
    collect();
    run_all();
    assert_true(nested >= COUNT / 4);
    for (size_t i = 1; i < ran; i++)
        assert_true(order[i] != order[i - 1]);
    cleanup_check();
}

/* ---- several threads ---- */

#define THREADS 6
static _Atomic unsigned times_run[COUNT];
static _Atomic size_t run_by_threads;
static _Atomic bool all_are_queued;

static void count_one(void *argument) {
    const struct note *note = argument;
    if (note->complement != ~note->number)
        broken = true;
    times_run[note->number]++;
    tern_keep(tern_alloc(100));
}

static void *run_some(void *argument) {
    (void)argument;
    while (!all_are_queued || stats().cleanups_queued != 0) {
        run_by_threads += tern_run_cleanups(3);
        tern_keep(tern_alloc_leaf(64));
        sched_yield();
    }
    return NULL;
}

static void each_runs_once_whoever_asks(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    size_t added = 0;
    tern_stats before = stats();
    all_are_queued = false;
    run_by_threads = 0;
    memset((void *)times_run, 0, sizeof times_run);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(tern_pthread_create(&threads[i], NULL, run_some, NULL), 0);
    for (size_t round = 0; round < 10; round++) {
        for (size_t i = 0; i < COUNT / 10; i++, added++)
            assert_true(tern_cleanup_add(tern_alloc(32), count_one, note_of(added)) != 0);
        collect();
    }
    all_are_queued = true;
    tern_blocking_begin();
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tern_blocking_end();
    size_t once = 0;
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(times_run[i] <= 1);
        once += times_run[i];
    }
    assert_true(once >= NEARLY(COUNT));
    assert_true(run_by_threads >= once); /* a leftover of another test may be among them */
    assert_int_equal(stats().cleanups_run, before.cleanups_run + run_by_threads);
    assert_false(broken);
}

static void ignore(void *argument) {
    (void)argument;
}

static NOINLINE void many_run(size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_true(tern_cleanup_add(tern_alloc(16), ignore, NULL) != 0);
    collect();
    run_all();
}

static NOINLINE void many_removed(size_t count) {
    uint64_t *ids = malloc(count * sizeof *ids);
    void *object = tern_alloc(16);
    for (size_t i = 0; i < count; i++)
        ids[i] = tern_cleanup_add(object, ignore, NULL);
    for (size_t i = 0; i < count; i++)
        assert_true(tern_cleanup_remove(ids[count - 1 - i]));
    tern_keep(object);
    free(ids);
}

static void many_that_are_gone_leave_the_memory_flat(void **state) {
    (void)state;
    size_t count = scaled(500000);
    many_run(count);
    collect();
    uint64_t before = stats().off_heap_bytes;
    many_run(count);
    many_removed(count);
    collect();
    assert_true(stats().off_heap_bytes <= before + (128 << 10));
}

/* ---- the library's thread, in processes of their own ---- */

static pthread_t main_thread;

static void count_elsewhere(void *argument) {
    if (pthread_equal(pthread_self(), main_thread) || !tern_thread_is_attached())
        broken = true;
    tern_keep(tern_alloc(100));
    take_down(argument);
}

static int start(int manual) {
    tern_options options;
    tern_options_init(&options);
    options.manual_cleanups = manual;
    main_thread = pthread_self();
    return tern_init(&options);
}

static NOINLINE void watch_garbage(size_t count, tern_cleanup_function *function) {
    for (size_t i = 0; i < count; i++)
        if (tern_cleanup_add(tern_alloc(32), function, note_of(i)) == 0)
            broken = true;
}

static int wait_for_the_thread(void *argument) {
    (void)argument;
    if (start(0) != 0)
        return 10;
    for (size_t round = 1; round <= 3; round++) {
        watch_garbage(COUNT, count_elsewhere);
        collect();
        /* The thread runs them without being asked; it is asleep in between. */
        while (ran < round * NEARLY(COUNT)) {
            tern_poll();
            sched_yield();
        }
    }
    while (stats().cleanups_queued != 0)
        tern_poll();
    tern_shutdown();
    return broken ? 12 : 0;
}

static void the_librarys_thread_runs_them_by_itself(void **state) {
    (void)state;
    char text[1000];
    int status = in_child(wait_for_the_thread, NULL, text, sizeof text);
    assert_string_equal(text, "");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int shut_down_at_once(void *manual) {
    if (start(*(int *)manual) != 0)
        return 10;
    watch_garbage(COUNT, count_elsewhere); /* on the library's thread at the end too */
    collect();
    tern_shutdown();
    if (*(int *)manual)
        return ran == 0 && !broken ? 0 : 11;
    return ran >= NEARLY(COUNT) && !broken ? 0 : 12;
}

static void shutdown_runs_what_is_queued_unless_that_is_the_programs_business(void **state) {
    (void)state;
    for (int manual = 0; manual < 2; manual++) {
        char text[1000];
        int status = in_child(shut_down_at_once, &manual, text, sizeof text);
        assert_string_equal(text, "");
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static _Atomic bool shutting_down;

/* Each makes others due, while the main thread is in tern_shutdown. */
static void chain(void *argument) {
    while (!shutting_down)
        tern_poll();
    if (!pthread_equal(pthread_self(), main_thread))
        generations++;
    const struct note *note = argument;
    for (size_t i = 0; i < 10 && note->number > 0; i++)
        if (tern_cleanup_add(tern_alloc(32), chain, note_of(note->number - 1)) == 0)
            broken = true;
    clear_stack();
    tern_collect();
}

static NOINLINE void start_chains(size_t count) {
    for (size_t i = 0; i < count; i++)
        if (tern_cleanup_add(tern_alloc(32), chain, note_of(2)) == 0)
            broken = true;
}

static int shut_down_during_a_chain(void *argument) {
    (void)argument;
    if (start(0) != 0)
        return 10;
    start_chains(10);
    collect();
    shutting_down = true;
    tern_shutdown();
    return broken ? 11 : generations >= 5 * (1 + 10 + 100) ? 0 : 12;
}

static void what_falls_due_during_shutdown_runs_on_the_librarys_thread(void **state) {
    (void)state;
    char text[1000];
    int status = in_child(shut_down_during_a_chain, NULL, text, sizeof text);
    assert_string_equal(text, "");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void shut_down(void *argument) {
    (void)argument;
    tern_shutdown();
}

static int shut_down_in_a_cleanup(void *argument) {
    (void)argument;
    if (start(0) != 0)
        return 10;
    watch_garbage(COUNT, shut_down);
    collect();
    for (;;)
        tern_poll();
}

static void a_shutdown_in_a_cleanup_is_a_misuse(void **state) {
    (void)state;
    char text[1000];
    int status = in_child(shut_down_in_a_cleanup, NULL, text, sizeof text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "tern_shutdown was called from a cleanup"));
}

int main(void) {
    const struct CMUnitTest children[] = {
        cmocka_unit_test(the_librarys_thread_runs_them_by_itself),
        cmocka_unit_test(shutdown_runs_what_is_queued_unless_that_is_the_programs_business),
        cmocka_unit_test(what_falls_due_during_shutdown_runs_on_the_librarys_thread),
        cmocka_unit_test(a_shutdown_in_a_cleanup_is_a_misuse),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(it_runs_once_after_its_object_died, begin),
        cmocka_unit_test_setup(they_run_in_the_order_of_adding, begin),
        cmocka_unit_test_setup(no_more_run_than_were_asked_for, begin),
        cmocka_unit_test_setup(one_that_was_removed_does_not_run, begin),
        cmocka_unit_test_setup(one_that_is_queued_cannot_be_taken_back, begin),
        cmocka_unit_test_setup(nonsense_is_refused, begin),
        cmocka_unit_test_setup(an_argument_does_not_keep_its_neighbour_alive, begin),
        cmocka_unit_test_setup(they_may_allocate_and_register_and_collect, begin),
        cmocka_unit_test_setup(they_may_run_others, begin),
        cmocka_unit_test_setup(each_runs_once_whoever_asks, begin),
        cmocka_unit_test_setup(many_that_are_gone_leave_the_memory_flat, begin),
    };
    /* Before the library is started here: a child of fork starts its own. */
    int failures = cmocka_run_group_tests(children, NULL, NULL);
    if (start(1) != 0 || tern_root_add(&objects, sizeof objects) != 0)
        return 1;
    objects = tern_alloc_array(COUNT, sizeof *objects);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    tern_shutdown();
    return failures;
}
