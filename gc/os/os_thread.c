/* os_thread: kernel threads, their stacks and names (see os_thread.h). */
#define _GNU_SOURCE 1
#include "gc/os/os_thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gc/os/os_file.h"
#include "gc/os/os_futex.h"
#include "gc/os/os_log.h"
#include "gc/os/os_mem.h"
#include "gc/os/os_signal.h"

/* Bytes of a thread's name in the kernel, with its terminator (TASK_COMM_LEN). */
#define NAME_BYTES 16

/* Pages asked about at once when looking for the end of a mapped stack: one byte of answer each, on the
 * stack. */
#define FLOOR_PAGES 256

pid_t os_thread_id(void) {
    return (pid_t)syscall(SYS_gettid);
}

/* The end of the mapping named [stack] if `inside` lies in it, else 0. */
static uintptr_t main_stack_end(uintptr_t inside) {
    struct os_file file;
    if (os_file_open(&file, "/proc/self/maps") != 0) {
        return 0;
    }
    uintptr_t end = 0;
    for (const char *line = os_file_line(&file); line != NULL; line = os_file_line(&file)) {
        const char *s = line;
        uint64_t lo;
        uint64_t hi;
        if (!os_file_number(&s, 16, &lo) || *s++ != '-' || !os_file_number(&s, 16, &hi)) {
            continue;
        }
        if (lo <= inside && inside < hi) {
            end = strstr(s, "[stack]") != NULL ? (uintptr_t)hi : 0;
            break;
        }
    }
    os_file_close(&file);
    return end;
}

int os_thread_stack(uintptr_t *lo, uintptr_t *hi) {
    pthread_attr_t attr;
    int error = pthread_getattr_np(pthread_self(), &attr);
    if (error != 0) {
        errno = error;
        return -1;
    }
    void *addr = NULL;
    size_t bytes = 0;
    error = pthread_attr_getstack(&attr, &addr, &bytes);
    pthread_attr_destroy(&attr);
    if (error != 0) {
        errno = error;
        return -1;
    }
    *lo = (uintptr_t)addr;
    *hi = (uintptr_t)addr + bytes;
    /* For the main thread glibc ends the stack with the page of the first frame. argv and the environment lie
     * above, and a program may keep pointers there. */
    uintptr_t end = os_thread_id() == getpid() ? main_stack_end(*hi - 1) : 0;
    if (end > *hi) {
        *hi = end;
    }
    return 0;
}

/* Whether all pages of [lo, lo + bytes) are mapped; at most FLOOR_PAGES of them. */
static bool is_mapped(uintptr_t lo, size_t bytes) {
    unsigned char resident[FLOOR_PAGES];
    int rc;
    do {
        rc = mincore((void *)lo, bytes, resident);
    } while (rc != 0 && errno == EAGAIN);
    return rc == 0;
}

uintptr_t os_thread_stack_floor(uintptr_t lo, uintptr_t hi) {
    int saved = errno;
    const uintptr_t page = os_mem_page_size();
    uintptr_t bottom = (lo + page - 1) & ~(page - 1);
    uintptr_t floor =
        hi & ~(page - 1); /* all is mapped from here to hi: true at first if hi is a page's start */
    if (floor < hi && !is_mapped(floor, page)) {
        floor = bottom = hi;
    }
    uintptr_t step = FLOOR_PAGES * page;
    while (floor > bottom && step >= page) {
        if (step > floor - bottom) {
            step = floor - bottom;
        }
        if (is_mapped(floor - step, step)) {
            floor -= step;
        } else {
            /* Some page of the step is not mapped: halve it, to whole pages. */
            step = (step / 2) & ~(page - 1);
        }
    }
    errno = saved;
    return floor > lo ? floor : lo;
}

/* What a starting thread needs. It lies on the starter's stack, so the starter waits until it has been read.
 */
struct start {
    void *(*fn)(void *);
    void *arg;
    char name[NAME_BYTES];
    /* 1 once the new thread has copied all of this. Release by the new thread, acquire by the starter, which
     * then takes the memory back. */
    _Atomic uint32_t taken;
};

static void *run(void *arg) {
    struct start *start = arg;
    void *(*fn)(void *) = start->fn;
    void *fn_arg = start->arg;
    prctl(PR_SET_NAME, start->name);
    atomic_store_explicit(&start->taken, 1, memory_order_release);
    os_futex_wake(&start->taken, 1); /* the word may be gone by now: only its address counts */
    return fn(fn_arg);
}

static int create(pthread_t *out, size_t stack_bytes, struct start *start) {
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (error != 0) {
        return error;
    }
    if (stack_bytes != 0) {
        size_t page = os_mem_page_size();
        size_t least = (size_t)PTHREAD_STACK_MIN;
        if (stack_bytes < least) {
            stack_bytes = least;
        }
        error = stack_bytes > SIZE_MAX - page
                    ? EAGAIN
                    : pthread_attr_setstacksize(&attr, (stack_bytes + page - 1) & ~(page - 1));
    }
    if (error == 0) {
        error = pthread_create(out, &attr, run, start);
    }
    pthread_attr_destroy(&attr);
    return error;
}

int os_thread_start(pthread_t *out, const char *name, size_t stack_bytes, void *(*fn)(void *), void *arg) {
    struct start start = {.fn = fn, .arg = arg};
    atomic_init(&start.taken, 0);
    memcpy(start.name, name, strnlen(name, NAME_BYTES - 1)); /* the rest is zero already */

    /* A thread inherits the mask of the one that creates it. */
    sigset_t blocked;
    sigset_t saved;
    os_signal_all_but_faults(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &saved);
    int error = create(out, stack_bytes, &start);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    if (error != 0) {
        errno = error;
        return -1;
    }
    /* acquire: see struct start. */
    while (atomic_load_explicit(&start.taken, memory_order_acquire) == 0) {
        os_futex_wait(&start.taken, 0, -1);
    }
    return 0;
}

bool os_thread_fence_all(void) {
    int saved = errno;
    long rc = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    /* A process says once that it will use it; a child may have to say so again. */
    if (rc != 0 && errno == EPERM &&
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0) {
        rc = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    }
    errno = saved;
    return rc == 0;
}

void os_thread_name(pid_t tid, char buf[NAME_BYTES]) {
    struct os_line path;
    os_line_init(&path);
    os_line_str(&path, "/proc/self/task/");
    os_line_i64(&path, tid);
    os_line_str(&path, "/comm");
    if (os_file_first_line(path.buf, buf, NAME_BYTES) != 0) {
        memcpy(buf, "?", 2);
    }
}
