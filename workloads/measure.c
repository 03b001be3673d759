/* Clocks and memory, as measure.h says. */
#include "workloads/measure.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t measure_clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t measure_wall_ns(void) {
    return measure_clock_ns(CLOCK_MONOTONIC);
}

uint64_t measure_process_cpu_ns(void) {
    return measure_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t measure_thread_cpu_ns(void) {
    return measure_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* The value of a "Name:   123 kB" line of /proc/self/status, in bytes. */
static uint64_t status_bytes(const char *name) {
    char text[8192];
    size_t len = 0;
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    for (;;) {
        ssize_t got = read(fd, text + len, sizeof text - 1 - len);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    close(fd);
    text[len] = '\0';
    const char *line = strstr(text, name);
    return line ? strtoull(line + strlen(name), NULL, 10) * 1024 : 0;
}

uint64_t measure_rss_bytes(void) {
    return status_bytes("\nVmRSS:");
}

uint64_t measure_peak_rss_bytes(void) {
    return status_bytes("\nVmHWM:");
}

int measure_processors(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count > 0 ? count : 1;
}
