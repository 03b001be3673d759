/* os_cpu: how many processors the program may use (see os_cpu.h). */
#define _GNU_SOURCE 1
#include "gc/os/os_cpu.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gc/os/os_cgroup.h"

/* Room for the affinity mask of 32768 processors. The kernel refuses a mask shorter than its own, whose
 * largest configuration is 8192; glibc's cpu_set_t stops at 1024. */
#define MASK_WORDS 512

static int affinity_count(void) {
    unsigned long mask[MASK_WORDS];
    /* The main thread's: threads of the library's own would only see what it was when they were made. */
    long bytes = syscall(SYS_sched_getaffinity, getpid(), sizeof mask, mask);
    int count = 0;
    for (long i = 0; i < bytes / (long)sizeof mask[0]; i++) {
        count += __builtin_popcountl(mask[i]);
    }
    return count;
}

int os_cpu_combine(int affinity, double quota) {
    int count = affinity < 1 ? 1 : affinity;
    if (!(quota > 0) || quota >= (double)count) {
        return count;
    }
    int whole = (int)quota;
    return (double)whole < quota ? whole + 1 : whole;
}

int os_cpu_count(void) {
    double quota = 0;
    if (!os_cgroup_cpu_quota("", &quota)) {
        quota = 0;
    }
    int affinity = affinity_count();
    return os_cpu_combine(affinity > 0 ? affinity : (int)sysconf(_SC_NPROCESSORS_ONLN), quota);
}

int os_cpu_runnable(void) {
    char text[64];
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    long length = read(fd, text, sizeof text - 1);
    close(fd);
    /* Three averages, then runnable/all. */
    int blanks = 0, count = -1;
    for (long i = 0; i < length; i++) {
        if (text[i] == ' ') {
            blanks++;
        } else if (blanks == 3) {
            if (text[i] < '0' || text[i] > '9') {
                break;
            }
            count = (count < 0 ? 0 : count * 10) + (text[i] - '0');
        }
    }
    return count;
}
