/* See background.h. Calls gc/os. */
#include "gc/background.h"

#include "gc/os/os_futex.h"
#include "gc/os/os_thread.h"
#include "gc/os/os_time.h"

/* It runs trace functions, which are the program's. */
#define STACK_BYTES (256 * KIB)

static struct {
    const struct background_work *work; /* written before the thread starts */
    pthread_t thread;
    _Atomic bool started;   /* relaxed; by who holds the cycle lock */
    _Atomic bool stopping;  /* relaxed, published by turn */
    _Atomic uint32_t turn;  /* futex: rung; release */
    _Atomic int64_t cpu_ns; /* relaxed */
} background;

static void sleep_until_due(uint32_t turn) {
    int64_t deadline = background.work->deadline_ns(), left = -1;
    if (deadline != INT64_MAX) {
        left = deadline - os_time_mono_ns();
        if (left <= 0)
            return;
    }
    os_futex_wait(&background.turn, turn, left);
}

static void *run(void *argument) {
    uint32_t turn = (uint32_t)(uintptr_t)argument;
    for (;;) {
        sleep_until_due(turn);
        turn = atomic_load_explicit(&background.turn, memory_order_acquire);
        if (atomic_load_explicit(&background.stopping, memory_order_relaxed))
            return NULL;
        background.work->turn();
        atomic_store_explicit(&background.cpu_ns, os_time_thread_cpu_ns(), memory_order_relaxed);
    }
}

bool background_is_there(void) {
    return atomic_load_explicit(&background.started, memory_order_relaxed);
}

bool background_prepare(const struct background_work *work) {
    if (background_is_there())
        return true;
    background.work = work;
    atomic_store_explicit(&background.stopping, false, memory_order_relaxed);
    uint32_t turn = atomic_load_explicit(&background.turn, memory_order_relaxed);
    bool started =
        os_thread_start(&background.thread, "tern-gc", STACK_BYTES, run, (void *)(uintptr_t)turn) == 0;
    atomic_store_explicit(&background.started, started, memory_order_relaxed);
    return started;
}

void background_ring(void) {
    atomic_fetch_add_explicit(&background.turn, 1, memory_order_release);
    os_futex_wake(&background.turn, 1);
}

void background_shutdown(void) {
    if (!background_is_there())
        return;
    atomic_store_explicit(&background.stopping, true, memory_order_relaxed);
    background_ring();
    pthread_join(background.thread, NULL);
    atomic_store_explicit(&background.started, false, memory_order_relaxed);
}

void background_after_fork(void) {
    atomic_store_explicit(&background.started, false, memory_order_relaxed);
    atomic_store_explicit(&background.cpu_ns, 0, memory_order_relaxed);
}

int64_t background_cpu_ns(void) {
    return atomic_load_explicit(&background.cpu_ns, memory_order_relaxed);
}
