/* os_time: clocks.
 *
 * Does: reads the monotonic clock and the processor-time clocks. Owns nothing. Must never: read the wall
 * clock (it jumps). Calls: the kernel. Any thread, signal handlers and a stopped world included. */
#ifndef GC_OS_TIME_H
#define GC_OS_TIME_H

#include <stdint.h>

#define OS_NS_PER_SECOND INT64_C(1000000000)

/* Nanoseconds since an arbitrary start; never goes back. */
int64_t os_time_mono_ns(void);

/* Nanoseconds of processor time used by all threads of the process, user and system. */
int64_t os_time_process_cpu_ns(void);

/* Nanoseconds of processor time used by the calling thread, user and system. */
int64_t os_time_thread_cpu_ns(void);

/* Sleeps for about so long (the kernel adds some 50 us); a signal may cut it short. */
void os_time_sleep_ns(int64_t ns);

#endif
