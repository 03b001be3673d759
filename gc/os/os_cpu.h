/* os_cpu: how many processors the program may use.
 *
 * Does: combines the scheduling affinity with the container's processor quota. Owns nothing, remembers
 * nothing. Must never: answer less than 1. Calls: the kernel, os_cgroup. */
#ifndef GC_OS_CPU_H
#define GC_OS_CPU_H

/* Processors in the main thread's affinity mask, or the processor quota of the tightest cgroup around the
 * process, rounded up, when that is less; at least 1. Reads files: call it at start-up, not in a stopped
 * world. */
int os_cpu_count(void);

/* The rule alone: `affinity` processors (less than 1: unknown) and a quota in processors (0 or less: none).
 */
int os_cpu_combine(int affinity, double quota);

/* Threads of the whole system that run or wait for a processor right now, the caller included; -1 where the
 * kernel does not say. A system call or three, about 2 us. Any thread; allocates nothing. */
int os_cpu_runnable(void);

#endif
