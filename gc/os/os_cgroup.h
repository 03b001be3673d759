/* os_cgroup: the limits of the container the process runs in.
 *
 * Does: finds the memory limit and the processor quota of the process's own control group and its visible
 * ancestors, in both versions of the hierarchy, mixed ones too. Owns nothing, remembers nothing. Must never:
 * write to the hierarchy, or use stdio or malloc. Calls: the kernel, os_file.
 *
 * `root` is "" for the real system; a test gives a directory under which proc/self/cgroup,
 * proc/self/mountinfo and the mounted hierarchies lie. Any thread; takes about 25 KiB of stack. */
#ifndef GC_OS_CGROUP_H
#define GC_OS_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* The tightest memory limit, in bytes, of the process's group and the groups around it. False, with *bytes
 * untouched, when none is set or none can be seen. */
bool os_cgroup_memory_limit(const char *root, uint64_t *bytes);

/* The tightest processor quota, in processors (1.5: three processors half of the time), likewise. */
bool os_cgroup_cpu_quota(const char *root, double *cpus);

#endif
