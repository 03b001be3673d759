/*
 * Stopping the world: every attached thread is stopped, wherever it is, and goes on as if nothing had been.
 * The stop itself is looked at through cycle_stopped, which runs a function with the world stopped.
 */
#include "child.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gc/cycle.h"
#include "gc/mutator.h"
#include "gc/settings.h"
#include "gc/stop.h"

#define MOST 64

struct thread {
    pthread_t id;
    void (*work)(struct thread *self);
    atomic_ulong turns; /* how often the loop went around */
    atomic_int ready;
    atomic_int wrong;
    int fd;
    char pad[64];
};

static struct thread threads[MOST];
static atomic_bool over;

static void *run(void *argument) {
    struct thread *t = argument;
    t->work(t);
    return NULL;
}

/* Lets others run; a place to stop at, too. */
static void pass(void) {
    tern_poll();
    sched_yield();
}

static void start(unsigned count, void (*work)(struct thread *)) {
    tern_keep(tern_alloc(8)); /* the library is started */
    atomic_store(&over, false);
    memset(threads, 0, sizeof threads);
    for (unsigned i = 0; i < count; i++) {
        threads[i].work = work;
        assert_int_equal(tern_pthread_create(&threads[i].id, NULL, run, &threads[i]), 0);
    }
    for (unsigned i = 0; i < count; i++)
        while (atomic_load(&threads[i].ready) == 0)
            pass();
}

static void finish(unsigned count) {
    atomic_store(&over, true);
    tern_blocking_begin();
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i].id, NULL);
    tern_blocking_end();
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(atomic_load(&threads[i].wrong), 0);
}

/* With the world stopped no counter moves. */
static unsigned looked_at;
static bool moved;

static NOINLINE void spin(void) {
    for (volatile int i = 0; i < 20000; i++) {
    }
}

static void look(void *context) {
    (void)context;
    unsigned long before[MOST];
    for (unsigned i = 0; i < looked_at; i++)
        before[i] = atomic_load(&threads[i].turns);
    spin();
    for (unsigned i = 0; i < looked_at; i++)
        moved |= atomic_load(&threads[i].turns) != before[i];
    for (const struct mutator *m = mutator_list; m != NULL; m = m->next)
        if (m->context == NULL) /* else that tells where it was */
            moved |= m->sp < m->stack_lo || m->sp > m->stack_hi;
}

static void stop_often(unsigned count, unsigned times) {
    looked_at = count;
    moved = false;
    for (unsigned i = 0; i < times; i++) {
        unsigned long before = atomic_load(&threads[0].turns);
        cycle_stopped(mutator_self, look, NULL);
        assert_false(moved);
        while (count > 0 && atomic_load(&threads[0].turns) == before) /* and afterwards it does */
            pass();
    }
}

static void compute(struct thread *t) {
    atomic_store(&t->ready, 1);
    while (!atomic_load(&over)) {
        t->turns++;
        tern_poll();
    }
}

static void running_threads_stop_and_go_on(void **state) {
    (void)state;
    start(3, compute);
    stop_often(3, 50);
    finish(3);
}

static void allocate(struct thread *t) {
    atomic_store(&t->ready, 1);
    while (!atomic_load(&over)) {
        for (unsigned i = 0; i < 50; i++)
            tern_keep(tern_alloc(16 + i * 8));
        tern_keep(tern_alloc_leaf(5));
        t->turns++;
    }
}

static void threads_inside_the_library_stop_when_they_leave_it(void **state) {
    (void)state;
    start(3, allocate);
    stop_often(3, 50);
    finish(3);
}

static void thirty_two_threads_stop(void **state) {
    (void)state;
    start(32, compute);
    stop_often(32, 10);
    finish(32);
    start(32, allocate);
    stop_often(32, 10);
    finish(32);
}

/* Blocked threads run on: they are not in the heap. */
static void block(struct thread *t) {
    tern_blocking_begin();
    atomic_store(&t->ready, 1);
    while (!atomic_load(&over))
        t->turns++;
    tern_blocking_end();
}

static atomic_int turned;
static void see_blocked_run(void *context) {
    (void)context;
    unsigned long before = atomic_load(&threads[0].turns);
    while (atomic_load(&threads[0].turns) == before) {
    }
    turned++;
}

static void a_blocked_thread_runs_on_during_a_stop(void **state) {
    (void)state;
    start(1, block);
    for (int i = 0; i < 20; i++) {
        cycle_stopped(mutator_self, see_blocked_run, NULL);
        assert_int_equal(turned, i + 1);
    }
    finish(1);
}

/* One that comes back from a blocking section during a stop waits for its end. */
static atomic_bool stopped_now;
static void block_and_unblock(struct thread *t) {
    atomic_store(&t->ready, 1);
    while (!atomic_load(&over)) {
        tern_blocking_begin();
        tern_blocking_end();
        if (atomic_load(&stopped_now))
            t->wrong = 1;
        t->turns++;
        tern_poll();
    }
}

static void look_stopped(void *context) {
    atomic_store(&stopped_now, true);
    look(context);
    atomic_store(&stopped_now, false);
}

static void nobody_leaves_a_blocking_section_during_a_stop(void **state) {
    (void)state;
    start(4, block_and_unblock);
    looked_at = 4;
    moved = false;
    for (unsigned i = 0; i < 50; i++)
        cycle_stopped(mutator_self, look_stopped, NULL);
    assert_false(moved);
    finish(4);
}

/* errno is the interrupted code's. */
static void watch_errno(struct thread *t) {
    atomic_store(&t->ready, 1);
    while (!atomic_load(&over)) {
        errno = 4711;
        for (volatile int i = 0; i < 1000; i++) {
        }
        tern_poll();
        if (errno != 4711)
            t->wrong = 1;
        t->turns++;
    }
}

static void errno_survives_a_stop(void **state) {
    (void)state;
    start(2, watch_errno);
    stop_often(2, 50);
    finish(2);
}

static void allocation_and_collection_leave_errno_alone(void **state) {
    (void)state;
    errno = 4711;
    for (unsigned i = 0; i < 100000; i++)
        tern_keep(tern_alloc(i % 3000));
    tern_keep(tern_alloc(5 << 20));
    tern_collect();
    tern_release_memory();
    assert_int_equal(errno, 4711);
}

/* A read that waits is stopped and goes on waiting. */
static void read_pipe(struct thread *t) {
    char byte;
    atomic_store(&t->ready, 1);
    ssize_t n = read(t->fd, &byte, 1);
    if (n != 1 || byte != 'x')
        t->wrong = 1;
}

static void a_waiting_read_is_not_cut_short(void **state) {
    (void)state;
    int ends[2];
    if (cooperative())
        skip();
    assert_int_equal(pipe(ends), 0);
    atomic_store(&over, false);
    memset(threads, 0, sizeof threads);
    threads[0].work = read_pipe;
    threads[0].fd = ends[0];
    assert_int_equal(tern_pthread_create(&threads[0].id, NULL, run, &threads[0]), 0);
    while (atomic_load(&threads[0].ready) == 0)
        pass();
    for (unsigned i = 0; i < 100; i++) {
        cycle_stopped(mutator_self, look, NULL);
        pass();
    }
    assert_int_equal(write(ends[1], "x", 1), 1);
    finish(1);
    close(ends[0]);
    close(ends[1]);
}

/* In a blocking section even poll is not interrupted. */
static void poll_blocked(struct thread *t) {
    struct pollfd p = {.fd = t->fd, .events = POLLIN};
    tern_blocking_begin();
    atomic_store(&t->ready, 1);
    if (poll(&p, 1, -1) != 1)
        t->wrong = 1;
    tern_blocking_end();
}

static void a_blocking_section_is_not_interrupted(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    atomic_store(&over, false);
    memset(threads, 0, sizeof threads);
    threads[0].work = poll_blocked;
    threads[0].fd = ends[0];
    assert_int_equal(tern_pthread_create(&threads[0].id, NULL, run, &threads[0]), 0);
    while (atomic_load(&threads[0].ready) == 0)
        pass();
    for (unsigned i = 0; i < 100; i++)
        cycle_stopped(mutator_self, look, NULL);
    assert_int_equal(write(ends[1], "x", 1), 1);
    finish(1);
    close(ends[0]);
    close(ends[1]);
}

/* Threads come and go while the world is stopped over and over. */
static void *short_life(void *argument) {
    void **object = tern_alloc(64);
    *object = argument;
    return *object;
}

static void come_and_go(struct thread *t) {
    atomic_store(&t->ready, 1);
    while (!atomic_load(&over)) {
        pthread_t id;
        void *result = NULL;
        if (tern_pthread_create(&id, NULL, short_life, t) != 0)
            t->wrong = 1;
        else {
            tern_blocking_begin();
            pthread_join(id, &result);
            tern_blocking_end();
            if (result != t)
                t->wrong = 1;
        }
        t->turns++;
    }
}

static void threads_may_come_and_go_meanwhile(void **state) {
    (void)state;
    start(4, come_and_go);
    looked_at = 0;
    for (unsigned i = 0; i < 50; i++)
        cycle_stopped(mutator_self, look, NULL);
    finish(4);
    assert_int_equal(stats().threads, 1);
}

/* Ends without its destructors: nothing of it is left to stop. */
static void *vanish(void *argument) {
    tern_keep(tern_alloc(64));
    atomic_store((atomic_int *)argument, 1);
    syscall(SYS_exit, 0);
    return NULL;
}

static int thread_vanishes(void *unused) {
    (void)unused;
    static atomic_int here;
    pthread_t id;
    pthread_attr_t attributes;
    /* Its stack is unmapped, so that a look at it would not go unnoticed. */
    char *stack = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, 1 << 20);
    must(tern_pthread_create(&id, &attributes, vanish, &here) == 0);
    pthread_join(id, NULL);
    must(here == 1);
    munmap(stack, 1 << 20);
    for (unsigned i = 0; i < 3; i++)
        tern_collect();
    return 0;
}

static void a_thread_that_vanished_holds_nobody_up(void **state) {
    (void)state;
    if (cooperative())
        skip();
    child_passes(thread_vanishes, NULL);
}

/* A thread that keeps the signal blocked is waited for, and named. */
static atomic_bool let_go;
static void *keep_blocked(void *argument) {
    sigset_t all;
    tern_keep(tern_alloc(64));
    pthread_setname_np(pthread_self(), "stubborn");
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    atomic_store((atomic_int *)argument, 1);
    while (!atomic_load(&let_go)) {
    }
    unsigned long turns = 0;
    /* Collections wait all this time: the one that the main thread has asked for is not over. */
    for (struct timespec ten_ms = {0, 10000000}; turns < 130; turns++)
        nanosleep(&ten_ms, NULL);
    atomic_store((atomic_int *)argument, 2);
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
    return NULL;
}

static int thread_keeps_it_blocked(void *unused) {
    (void)unused;
    static atomic_int phase;
    pthread_t id;
    must(tern_pthread_create(&id, NULL, keep_blocked, &phase) == 0);
    while (atomic_load(&phase) != 1) {
    }
    atomic_store(&let_go, true);
    tern_collect();
    must(atomic_load(&phase) == 2); /* it was not skipped */
    tern_blocking_begin();
    pthread_join(id, NULL);
    return 0;
}

static void a_thread_that_blocks_the_signal_is_waited_for_and_named(void **state) {
    (void)state;
    if (cooperative())
        skip();
    child_passes(thread_keeps_it_blocked, NULL);
    assert_non_null(strstr(child_text, "(stubborn) has not stopped for a second: it keeps signal "));
    assert_int_equal(child_lines(), 1);
}

/* A stray signal, or one after the stop, changes nothing. */
static void stray_signals_do_nothing(void **state) {
    (void)state;
    if (cooperative())
        skip();
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(raise(settings.signal), 0);
    start(2, compute);
    for (unsigned i = 0; i < 1000; i++)
        pthread_kill(threads[i % 2].id, settings.signal);
    stop_often(2, 20);
    finish(2);
}

static void each_stop_has_a_number_of_its_own(void **state) {
    (void)state;
    collect();
    uint32_t before = atomic_load(&stop_word);
    assert_int_equal(before % 2, 0);
    cycle_stopped(mutator_self, look, NULL);
    assert_int_equal(atomic_load(&stop_word), before + 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_thread_that_vanished_holds_nobody_up), /* first: their children start the library */
        cmocka_unit_test(a_thread_that_blocks_the_signal_is_waited_for_and_named),
        cmocka_unit_test(running_threads_stop_and_go_on),
        cmocka_unit_test(threads_inside_the_library_stop_when_they_leave_it),
        cmocka_unit_test(thirty_two_threads_stop),
        cmocka_unit_test(a_blocked_thread_runs_on_during_a_stop),
        cmocka_unit_test(nobody_leaves_a_blocking_section_during_a_stop),
        cmocka_unit_test(errno_survives_a_stop),
        cmocka_unit_test(allocation_and_collection_leave_errno_alone),
        cmocka_unit_test(a_waiting_read_is_not_cut_short),
        cmocka_unit_test(a_blocking_section_is_not_interrupted),
        cmocka_unit_test(threads_may_come_and_go_meanwhile),
        cmocka_unit_test(stray_signals_do_nothing),
        cmocka_unit_test(each_stop_has_a_number_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
