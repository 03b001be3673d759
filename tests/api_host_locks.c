/*
 * A thread may be stopped while it holds a lock of the C library's. Whoever waits for that lock must be a thread that
 * can be stopped too, or counts as stopped. The library starts threads of its own with all signals blocked, and
 * pthread_create takes such locks; here the allocator's, which this program provides.
 *
 * Seen to fail: with cleanup_add that starts the library's thread without counting as blocked it hangs.
 *
 * ctest: timeout=120 lanes=none
 */
#define _GNU_SOURCE 1
#include "child.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of calloc below */
static atomic_bool guarded, ready, waits, collecting, over;

extern void *__libc_calloc(size_t count, size_t size);

/* Takes a lock, as any allocator does at times. */
void *calloc(size_t count, size_t size) {
    if (!atomic_load(&guarded))
        return __libc_calloc(count, size);
    atomic_store(&waits, true);
    pthread_mutex_lock(&lock);
    void *memory = __libc_calloc(count, size);
    pthread_mutex_unlock(&lock);
    return memory;
}

static void spin_ms(long ms) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
}

/* Holds the lock until another waits for it, and on, so that it is stopped with it. */
static void *hold_lock(void *held) {
    pthread_mutex_lock(&lock);
    atomic_store((atomic_bool *)held, true);
    while (!atomic_load(&collecting))
        sched_yield();
    spin_ms(50);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *collect_once_somebody_waits(void *unused) {
    (void)unused;
    tern_collect(); /* its own threads are started */
    atomic_store(&ready, true);
    while (!atomic_load(&waits))
        sched_yield();
    spin_ms(5);
    atomic_store(&collecting, true);
    while (!atomic_load(&over))
        tern_collect();
    return NULL;
}

static void nothing(void *argument) {
    (void)argument;
}

static int start_the_librarys_thread(void *stores) {
    pthread_t holder, collector;
    atomic_bool held = false;
    tern_options options;
    tern_options_init(&options);
    options.stores = *(const int *)stores;
    must(tern_init(&options) == 0);
    void *object = tern_alloc(64);
    must(tern_pthread_create(&holder, NULL, hold_lock, &held) == 0);
    must(tern_pthread_create(&collector, NULL, collect_once_somebody_waits, NULL) == 0);
    /* Starting them takes the allocator's lock, too. */
    while (!atomic_load(&held) || !atomic_load(&ready))
        sched_yield();
    atomic_store(&guarded, true);
    must(tern_cleanup_add(object, nothing, NULL) != 0);
    must(atomic_load(&waits)); /* else this tests nothing */
    atomic_store(&over, true);
    tern_blocking_begin();
    pthread_join(holder, NULL);
    pthread_join(collector, NULL);
    tern_blocking_end();
    return 0;
}

static void a_stopped_threads_lock_keeps_nobody_from_stopping(void **state) {
    (void)state;
    static const int plain = TERN_STORES_PLAIN, barrier = TERN_STORES_BARRIER;
    child_passes(start_the_librarys_thread, (void *)(uintptr_t)&plain);
    assert_string_equal(child_text, "");
    child_passes(start_the_librarys_thread, (void *)(uintptr_t)&barrier);
    assert_string_equal(child_text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_threads_lock_keeps_nobody_from_stopping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
