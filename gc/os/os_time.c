/* os_time: clocks (see os_time.h). */
#define _GNU_SOURCE 1
#include "gc/os/os_time.h"

#include <time.h>

/* These clocks exist on every Linux this runs on, so the call cannot fail; it goes through the vDSO where it
 * can. */
static int64_t read_ns(clockid_t clock) {
    struct timespec t = {0, 0};
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * OS_NS_PER_SECOND + t.tv_nsec;
}

int64_t os_time_mono_ns(void) {
    return read_ns(CLOCK_MONOTONIC);
}

int64_t os_time_process_cpu_ns(void) {
    return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t os_time_thread_cpu_ns(void) {
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

void os_time_sleep_ns(int64_t ns) {
    struct timespec pause = {(time_t)(ns / OS_NS_PER_SECOND), (long)(ns % OS_NS_PER_SECOND)};
    nanosleep(&pause, NULL);
}
