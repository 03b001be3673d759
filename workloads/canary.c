/* The sleeping thread; see canary.h. */
#include "workloads/canary.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>

#include "workloads/backend.h"
#include "workloads/measure.h"

/* Short against any stop that matters, and long enough that the canary takes a few percent of one processor
 * only. */
#define NAP_NS 100000

static void *run(void *argument) {
    struct canary *c = argument;
    /* The kernel may else wake it 50 us late on purpose, to save power. */
    (void)prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    while (!atomic_load_explicit(&c->end, memory_order_relaxed)) {
        uint64_t due_ns = measure_wall_ns() + NAP_NS;
        struct timespec due = {(time_t)(due_ns / 1000000000), (long)(due_ns % 1000000000)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
            continue;
        uint64_t late_ns = measure_wall_ns() - due_ns;
        if (late_ns > c->worst_ns)
            c->worst_ns = late_ns;
    }
    return NULL;
}

int canary_start(struct canary *canary, bool wanted) {
    *canary = (struct canary){0};
    if (!wanted)
        return 0;
    /* Signals are the other threads' business, a collector's above all. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&canary->thread, NULL, run, canary);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    canary->runs = rc == 0;
    return rc ? rc : pthread_getcpuclockid(canary->thread, &canary->cpu_clock);
}

uint64_t canary_others_cpu_ns(const struct canary *canary) {
    uint64_t all_ns = measure_process_cpu_ns();
    return canary->runs ? all_ns - measure_clock_ns(canary->cpu_clock) : all_ns;
}

uint64_t canary_stop(struct canary *canary) {
    if (!canary->runs)
        return STAT_UNKNOWN;
    atomic_store_explicit(&canary->end, true, memory_order_relaxed);
    pthread_join(canary->thread, NULL);
    canary->runs = false;
    return canary->worst_ns;
}
