/* Waiting for a word, and the lock built on it: what gc/os/os_futex promises. */
#define _GNU_SOURCE 1
#include "gc/os/os_futex.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define THREADS    4
#define ROUNDS     100000
#define TIMEOUT_NS 1000000

/* A word others sleep on, and how their wait ended; accessed with the default ordering, this is no fast path.
 */
struct sleeper {
    _Atomic uint32_t word;
    _Atomic int result;
    _Atomic int ended;
};

static void *sleep_on(void *arg) {
    struct sleeper *s = arg;
    int rc = 0;
    while (rc == 0 && atomic_load(&s->word) == 0) {
        rc = os_futex_wait(&s->word, 0, -1);
    }
    atomic_store(&s->result, rc);
    atomic_store(&s->ended, 1);
    return NULL;
}

static void a_word_that_differs_is_not_waited_for(void **state) {
    (void)state;
    _Atomic uint32_t word = 1;
    assert_int_equal(os_futex_wait(&word, 0, -1), -EAGAIN);
}

static void a_wait_without_a_wake_times_out(void **state) {
    (void)state;
    _Atomic uint32_t word = 0;
    int rc;
    do {
        rc = os_futex_wait(&word, 0, TIMEOUT_NS);
    } while (rc == 0 || rc == -EINTR);
    assert_int_equal(rc, -ETIMEDOUT);
}

static void a_changed_word_and_a_wake_end_all_waits(void **state) {
    (void)state;
    struct sleeper s = {0, 0, 0};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, sleep_on, &s), 0);
    }
    sched_yield();
    atomic_store(&s.word, 1);
    os_futex_wake(&s.word, THREADS);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

static void a_wake_tells_how_many_it_woke(void **state) {
    (void)state;
    struct sleeper s = {0, 0, 0};
    assert_int_equal(os_futex_wake(&s.word, 1), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, sleep_on, &s), 0);
    /* The word does not change, so the sleeper goes back to sleep until it does. */
    while (os_futex_wake(&s.word, 1) == 0) {
        sched_yield();
    }
    assert_int_equal(atomic_load(&s.ended), 0);
    atomic_store(&s.word, 1);
    os_futex_wake(&s.word, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void ignore_it(int sig) {
    (void)sig;
}

static void a_signal_ends_a_wait_and_says_so(void **state) {
    (void)state;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = ignore_it; /* no SA_RESTART: it would sleep on */
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    struct sleeper s = {0, 0, 0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, sleep_on, &s), 0);
    while (atomic_load(&s.ended) == 0) {
        pthread_kill(thread, SIGUSR1);
        sched_yield();
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&s.result), -EINTR);
}

static void waiting_and_waking_leave_errno_alone(void **state) {
    (void)state;
    _Atomic uint32_t word = 1;
    errno = 77;
    os_futex_wait(&word, 0, -1);
    os_futex_wait(&word, 1, 1);
    os_futex_wake(&word, 1);
    assert_int_equal(errno, 77);
}

static void a_held_lock_is_not_taken_by_a_try(void **state) {
    (void)state;
    struct os_lock lock = OS_LOCK_INIT;
    assert_true(os_lock_try(&lock));
    assert_false(os_lock_try(&lock));
    os_lock_release(&lock);
    os_lock_acquire(&lock);
    assert_false(os_lock_try(&lock));
    os_lock_release(&lock);
    assert_true(os_lock_try(&lock));
}

static struct os_lock shared_lock = OS_LOCK_INIT;
static long counter; /* guarded by shared_lock */

static void *count_up(void *arg) {
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        os_lock_acquire(&shared_lock);
        counter++;
        os_lock_release(&shared_lock);
    }
    return NULL;
}

static void a_lock_lets_one_thread_in_at_a_time(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    counter = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(counter, (long)THREADS * ROUNDS);
    assert_int_equal(atomic_load(&shared_lock.word), OS_LOCK_FREE);
}

static void whoever_sleeps_on_a_lock_is_woken_by_its_release(void **state) {
    (void)state;
    os_lock_acquire(&shared_lock);
    counter = 0;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    }
    /* Held until somebody is asleep, or about to be. */
    while (atomic_load(&shared_lock.word) != OS_LOCK_WAITED) {
        sched_yield();
    }
    assert_int_equal(counter, 0);
    os_lock_release(&shared_lock);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(counter, (long)THREADS * ROUNDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_that_differs_is_not_waited_for),
        cmocka_unit_test(a_wait_without_a_wake_times_out),
        cmocka_unit_test(a_changed_word_and_a_wake_end_all_waits),
        cmocka_unit_test(a_wake_tells_how_many_it_woke),
        cmocka_unit_test(a_signal_ends_a_wait_and_says_so),
        cmocka_unit_test(waiting_and_waking_leave_errno_alone),
        cmocka_unit_test(a_held_lock_is_not_taken_by_a_try),
        cmocka_unit_test(a_lock_lets_one_thread_in_at_a_time),
        cmocka_unit_test(whoever_sleeps_on_a_lock_is_woken_by_its_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
