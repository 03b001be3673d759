/* What the kernel says about this process: clocks and memory.
 *
 * Does: reads CLOCK_*, /proc/self/status and the affinity mask. Owns: nothing. Never: allocates on a heap, so
 * that it may be called from a collector's callbacks. Calls: the C library.
 */
#ifndef WORKLOADS_MEASURE_H
#define WORKLOADS_MEASURE_H

#include <stdint.h>
#include <time.h>

uint64_t measure_clock_ns(clockid_t clock);
uint64_t measure_wall_ns(void);
uint64_t measure_process_cpu_ns(void);
uint64_t measure_thread_cpu_ns(void);

/* The resident set now (VmRSS) and its peak (VmHWM), bytes; 0 when /proc is not there. VmHWM and not
 * ru_maxrss: the latter is inherited through exec, and a small program started by a big one would show the
 * big one's. */
uint64_t measure_rss_bytes(void);
uint64_t measure_peak_rss_bytes(void);

/* Processors this process may run on, at least 1. */
int measure_processors(void);

#endif
