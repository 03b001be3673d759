/* os_signal: stopping threads by a signal, and reading where they were.
 *
 * Does: installs the handler, sends to one thread, reads a signal frame, tells whether a thread blocks a
 * signal. Owns nothing: which signal, and what the handler does, is the caller's. Must never: do anything in
 * os_signal_context and os_signal_send that a signal handler may not. Calls: the kernel, os_file, os_log. */
#ifndef GC_OS_SIGNAL_H
#define GC_OS_SIGNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a stopped thread had in its registers, read out of the signal frame. Pointers lead into that frame,
 * which lives until the handler returns. */
struct os_context {
    uintptr_t sp;        /* stack pointer of the interrupted code; its red zone lies below (OS_RED_ZONE) */
    uintptr_t ip;        /* address of the interrupted instruction */
    const void *regs;    /* general registers */
    size_t regs_bytes;   /* a multiple of a word */
    const void *xstate;  /* vector and floating-point registers, word-aligned; NULL when the frame has none */
    size_t xstate_bytes; /* a multiple of a word */
    uintptr_t alt_lo;    /* the thread's alternate signal stack, 0 and 0 when it has none. One that was set */
    uintptr_t alt_hi;    /* with SS_AUTODISARM is not shown while its handler runs. */
    bool on_alt;         /* the interrupted code was running on the alternate stack */
};

/* The signal to stop threads with unless the host chooses another. */
int os_signal_default(void);

/* Whether somebody has set an action for sig already (a handler, or to ignore it). False for a bad number. */
bool os_signal_is_taken(int sig);

/* Fills a set with all signals but the synchronous faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT,
 * SIGSYS): what a handler of ours, and a thread of ours, blocks. */
void os_signal_all_but_faults(sigset_t *set);

/* Makes `handler` the process's handler of sig: on the thread's alternate stack if it has one, restarting
 * system calls, with all but the synchronous faults blocked. 0, or -1 and errno (EINVAL: no such signal). */
int os_signal_install(int sig, void (*handler)(int, siginfo_t *, void *));

/* Sends sig to one thread of this process. 0, or the error (not negative): ESRCH when the thread is gone,
 * EAGAIN when the queue of real-time signals is full (try again). Leaves errno alone. */
int os_signal_send(pid_t tid, int sig);

/* Reads the third argument of a signal handler. Async-signal-safe. */
void os_signal_context(void *ucontext, struct os_context *out);

/* Whether thread tid of this process blocks sig. False too when /proc cannot tell. Allocates nothing. */
bool os_signal_is_blocked(pid_t tid, int sig);

#endif
