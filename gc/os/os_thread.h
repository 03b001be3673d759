/* os_thread: kernel threads, their stacks and names.
 *
 * Does: starts the library's own threads and tells what the system knows of any. Owns nothing: no list of
 * threads. Must never: know what an attached thread is. Calls: pthreads, the kernel, os_file, os_futex,
 * os_log, os_signal. */
#ifndef GC_OS_THREAD_H
#define GC_OS_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The kernel's number of the calling thread. A system call each time, so that it is right after fork. */
pid_t os_thread_id(void);

/* The bounds of the calling thread's own stack (not of an alternate or a fiber's stack it may be on), in
 * bytes from *lo to before *hi. For the main thread *hi lies above argv and the environment, and *lo is as
 * far as the stack may grow: not all of it is mapped (os_thread_stack_floor). 0, or -1 and errno. Uses
 * malloc: not in a stopped world. */
int os_thread_stack(uintptr_t *lo, uintptr_t *hi);

/* The lowest address from which all is mapped up to hi, not under lo, to whole pages: where a scan of a whole
 * stack begins. hi when nothing is mapped just below it. About 16 system calls for 8 MiB. Allocates nothing;
 * usable in a stopped world and in a signal handler. */
uintptr_t os_thread_stack_floor(uintptr_t lo, uintptr_t hi);

/* Starts a joinable thread that runs fn(arg) with all signals blocked but the synchronous faults, named
 * `name` (cut to 15 bytes), with a stack of stack_bytes (0: the system's default; too few: the least it
 * allows). Returns when the thread runs under its name. 0, or -1 and errno (EAGAIN: no more threads). Uses
 * malloc. */
int os_thread_start(pthread_t *out, const char *name, size_t stack_bytes, void *(*fn)(void *), void *arg);

/* Has every other thread of the process execute a full memory barrier before this returns. False where the
 * kernel cannot (Linux before 4.14, a sandbox). About 5 us; the first call of a process up to 10 ms. */
bool os_thread_fence_all(void);

/* The name of thread tid of this process, "?" when it cannot be read. Allocates nothing. */
void os_thread_name(pid_t tid, char buf[16]);

#endif
