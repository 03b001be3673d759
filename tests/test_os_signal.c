/* Stopping threads and reading where they were: what gc/os/os_signal promises.
 *
 * A value "held only in a register" is made out of its complement in the assembly that also sends the signal,
 * so that no other word of the thread, its stack included, ever holds it. */
#define _GNU_SOURCE 1
#include "gc/os/os_signal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "gc/os/os_file.h"
#include "gc/os/os_spill.h"
#include "gc/os/os_thread.h"

#define NO_SANITIZERS   __attribute__((no_sanitize("address", "thread", "undefined"), noinline))
#define ALT_STACK_BYTES (256 * 1024)
#define COMPLEMENT      UINT64_C(0x0123456789abcdef)
#define FXSAVE_BYTES    512

/* What the handler saw. Written by the thread that the signal interrupts, read by it afterwards. */
static struct os_context seen;
static _Atomic int calls;
static bool value_in_regs;
static bool value_in_xstate;
static bool value_on_stack;
static size_t value_at;    /* offset in the extended state */
static uintptr_t stack_lo; /* of the test's thread */
static uintptr_t stack_hi;
static uintptr_t handler_sp;
static sigset_t mask_in_handler;

static pid_t own_id(void) {
    return (pid_t)syscall(SYS_gettid);
}

/* Where the value is in a range of words, -1 if nowhere. */
NO_SANITIZERS static long find(const void *lo, size_t bytes) {
    const char *p = lo;
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        __builtin_memcpy(&word, p + at, sizeof word);
        if (~word == COMPLEMENT) {
            return (long)at;
        }
    }
    return -1;
}

static void on_signal(int sig, siginfo_t *info, void *ucontext) {
    (void)sig;
    (void)info;
    int saved = errno;
    os_signal_context(ucontext, &seen);
    handler_sp = (uintptr_t)os_frame_sp();
    value_in_regs = find(seen.regs, seen.regs_bytes) >= 0;
    long at = find(seen.xstate, seen.xstate_bytes);
    value_in_xstate = at >= 0;
    value_at = at >= 0 ? (size_t)at : 0;
    value_on_stack = false;
    if (stack_lo < seen.sp && seen.sp < stack_hi) {
        uintptr_t lo = (seen.sp - OS_RED_ZONE) & ~(uintptr_t)7;
        value_on_stack = find((const void *)lo, stack_hi - lo) >= 0;
    }
    pthread_sigmask(SIG_SETMASK, NULL, &mask_in_handler);
    atomic_fetch_add(&calls, 1);
    errno = saved;
}

static int install(void **state) {
    (void)state;
    memset(&seen, 0, sizeof seen);
    atomic_store(&calls, 0);
    return os_thread_stack(&stack_lo, &stack_hi) | os_signal_install(os_signal_default(), on_signal);
}

#if defined(__x86_64__)

/* Sends sig to the calling thread with ~complement in a vector register, and nowhere else. Where the program
 * went on. */
#define SIGNAL_WITH(put_value, clear_value, ...)                          \
    long rc = SYS_tgkill;                                                 \
    uintptr_t next;                                                       \
    __asm__ volatile("movq %[complement], %%r10\n\t"                      \
                     "notq %%r10\n\t" put_value "\n\t"                    \
                     "leaq 1f(%%rip), %%r8\n\t"                           \
                     "syscall\n\t"                                        \
                     "1:\n\t"                                             \
                     "movq %%r8, %[next]\n\t" clear_value                 \
                     : "+a"(rc), [next] "=&r"(next)                       \
                     : "D"((long)getpid()), "S"((long)own_id()),          \
                       "d"((long)sig), [complement] "r"(complement)       \
                     : "rcx", "r8", "r10", "r11", "memory", __VA_ARGS__); \
    return rc == 0 ? next : 0

NO_SANITIZERS static uintptr_t signal_with_general(int sig, uint64_t complement) {
    SIGNAL_WITH("", "xorl %%r10d, %%r10d", "xmm9");
}

NO_SANITIZERS static uintptr_t signal_with_vector(int sig, uint64_t complement) {
    SIGNAL_WITH("movq %%r10, %%xmm9\n\txorl %%r10d, %%r10d", "pxor %%xmm9, %%xmm9", "xmm9");
}

/* The same in the upper half of a 256-bit register. */
__attribute__((target("avx"))) NO_SANITIZERS static uintptr_t signal_with_wide_vector(int sig,
                                                                                      uint64_t complement) {
    SIGNAL_WITH("vmovq %%r10, %%xmm9\n\t"
                "vpxor %%xmm8, %%xmm8, %%xmm8\n\t"
                "vinsertf128 $1, %%xmm9, %%ymm8, %%ymm9\n\txorl %%r10d, %%r10d",
                "vzeroall", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

#elif defined(__aarch64__)

#define SIGNAL_WITH(put_value, clear_value)                                    \
    register long x0 __asm__("x0") = getpid();                                 \
    register long x1 __asm__("x1") = own_id();                                 \
    register long x2 __asm__("x2") = sig;                                      \
    register long x8 __asm__("x8") = SYS_tgkill;                               \
    uintptr_t next;                                                            \
    __asm__ volatile("mvn x9, %[complement]\n\t" put_value "\n\t"              \
                     "adr %[next], 1f\n\t"                                     \
                     "svc #0\n\t"                                              \
                     "1:\n\t" clear_value                                      \
                     : "+r"(x0), [next] "=&r"(next)                            \
                     : "r"(x1), "r"(x2), "r"(x8), [complement] "r"(complement) \
                     : "x9", "memory", "v9");                                  \
    return x0 == 0 ? next : 0

NO_SANITIZERS static uintptr_t signal_with_general(int sig, uint64_t complement) {
    SIGNAL_WITH("", "mov x9, xzr");
}

NO_SANITIZERS static uintptr_t signal_with_vector(int sig, uint64_t complement) {
    SIGNAL_WITH("fmov d9, x9\n\tmov x9, xzr", "movi v9.2d, #0");
}

#endif

static void a_value_in_a_general_register_is_seen(void **state) {
    (void)state;
    assert_int_not_equal(signal_with_general(os_signal_default(), COMPLEMENT), 0);
    assert_int_equal(atomic_load(&calls), 1);
    assert_true(value_in_regs);
}

static void a_value_held_only_in_a_vector_register_is_seen(void **state) {
    (void)state;
    assert_int_not_equal(signal_with_vector(os_signal_default(), COMPLEMENT), 0);
    assert_int_equal(atomic_load(&calls), 1);
    assert_true(value_in_xstate);
    assert_false(value_in_regs);
    assert_false(value_on_stack);
}

static void a_value_in_the_upper_half_of_a_wide_vector_register_is_seen(void **state) {
    (void)state;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx")) {
        assert_int_not_equal(signal_with_wide_vector(os_signal_default(), COMPLEMENT), 0);
        assert_true(value_in_xstate);
        assert_true(value_at >= FXSAVE_BYTES);
        assert_false(value_in_regs);
        assert_false(value_on_stack);
        return;
    }
#endif
    skip();
}

static void the_frame_says_where_the_program_was(void **state) {
    (void)state;
    uintptr_t next = signal_with_vector(os_signal_default(), COMPLEMENT);
    assert_int_equal(seen.ip, next);
    assert_in_range(stack_hi - seen.sp, 1, 1 << 20);
    assert_true(seen.regs_bytes % sizeof(void *) == 0 && seen.regs_bytes > 0);
    assert_true(seen.xstate_bytes % sizeof(void *) == 0 && seen.xstate_bytes >= FXSAVE_BYTES);
}

static void a_thread_without_an_alternate_stack_shows_none(void **state) {
    (void)state;
    stack_t old;
    stack_t off;
    memset(&off, 0, sizeof off);
    off.ss_flags = SS_DISABLE;
    assert_int_equal(sigaltstack(&off, &old), 0);
    assert_int_equal(os_signal_send(own_id(), os_signal_default()), 0);
    assert_int_equal(atomic_load(&calls), 1);
    assert_int_equal(seen.alt_lo, 0);
    assert_int_equal(seen.alt_hi, 0);
    assert_false(seen.on_alt);
    assert_int_equal(sigaltstack(&old, NULL), 0);
}

static struct os_context seen_before;

static void on_host_signal(int sig) {
    (void)sig;
    seen_before = seen;
    /* Now the program is on its alternate stack, when it is stopped. */
    os_signal_send(own_id(), os_signal_default());
}

static void code_on_the_alternate_stack_is_told_from_code_on_the_main_one(void **state) {
    (void)state;
    char *memory = malloc(ALT_STACK_BYTES);
    assert_non_null(memory);
    stack_t old;
    stack_t alt;
    memset(&alt, 0, sizeof alt);
    alt.ss_sp = memory;
    alt.ss_size = ALT_STACK_BYTES;
    assert_int_equal(sigaltstack(&alt, &old), 0);

    assert_int_equal(os_signal_send(own_id(), os_signal_default()), 0);
    assert_int_equal(atomic_load(&calls), 1);
    assert_int_equal(seen.alt_lo, (uintptr_t)memory);
    assert_int_equal(seen.alt_hi, (uintptr_t)memory + ALT_STACK_BYTES);
    assert_false(seen.on_alt);
    assert_in_range(handler_sp, seen.alt_lo, seen.alt_hi);
    assert_in_range(stack_hi - seen.sp, 1, 1 << 20); /* the interrupted code's, not the handler's */

    struct sigaction action;
    struct sigaction old_action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_host_signal;
    action.sa_flags = SA_ONSTACK;
    assert_int_equal(sigaction(SIGUSR1, &action, &old_action), 0);
    raise(SIGUSR1);
    assert_int_equal(atomic_load(&calls), 2);
    assert_false(seen_before.on_alt);
    assert_true(seen.on_alt);
    assert_in_range(seen.sp, seen.alt_lo, seen.alt_hi);
    assert_int_equal(seen.alt_lo, (uintptr_t)memory);

    assert_int_equal(sigaction(SIGUSR1, &old_action, NULL), 0);
    assert_int_equal(sigaltstack(&old, NULL), 0);
    free(memory);
}

static void the_handler_blocks_all_but_the_synchronous_faults(void **state) {
    (void)state;
    assert_int_equal(os_signal_send(own_id(), os_signal_default()), 0);
    static const int blocked[] = {SIGUSR1, SIGTERM, SIGPROF, SIGALRM, SIGCHLD};
    static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    for (size_t i = 0; i < sizeof blocked / sizeof blocked[0]; i++) {
        assert_true(sigismember(&mask_in_handler, blocked[i]));
    }
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        assert_false(sigismember(&mask_in_handler, open[i]));
    }
    assert_true(sigismember(&mask_in_handler, SIGRTMAX));
    assert_true(sigismember(&mask_in_handler, os_signal_default()));
}

static void the_default_signal_is_a_real_time_one_that_nobody_has_taken(void **state) {
    (void)state;
    assert_in_range(os_signal_default(), SIGRTMIN, SIGRTMAX);
    signal(os_signal_default(), SIG_DFL);
    assert_false(os_signal_is_taken(os_signal_default()));
    assert_int_equal(os_signal_install(os_signal_default(), on_signal), 0);
    assert_true(os_signal_is_taken(os_signal_default()));
    assert_false(os_signal_is_taken(-1));
}

static void a_signal_that_does_not_exist_is_refused(void **state) {
    (void)state;
    errno = 0;
    assert_int_equal(os_signal_install(SIGRTMAX + 1, on_signal), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(os_signal_install(SIGKILL, on_signal), -1);
    assert_int_equal(errno, EINVAL);
}

static void a_blocked_signal_is_detected(void **state) {
    (void)state;
    int sig = os_signal_default();
    pid_t tid = own_id();
    assert_false(os_signal_is_blocked(tid, sig));
    sigset_t set;
    sigset_t old;
    sigemptyset(&set);
    sigaddset(&set, sig);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
    assert_true(os_signal_is_blocked(tid, sig));
    assert_false(os_signal_is_blocked(tid, sig - 1));
    assert_false(os_signal_is_blocked(tid, sig + 1));
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
    assert_false(os_signal_is_blocked(tid, sig));
    assert_false(os_signal_is_blocked(-1, sig));
    assert_false(os_signal_is_blocked(tid, 0));
    assert_false(os_signal_is_blocked(tid, 1000));
}

static void *tell_id(void *id) {
    *(pid_t *)id = own_id();
    return NULL;
}

static void a_thread_that_is_gone_is_reported(void **state) {
    (void)state;
    pthread_t thread;
    pid_t tid = 0;
    assert_int_equal(pthread_create(&thread, NULL, tell_id, &tid), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    errno = 77;
    int error = 0;
    /* The kernel lets the joiner go a moment before it removes the thread. */
    while ((error = os_signal_send(tid, os_signal_default())) == 0) {
        sched_yield();
    }
    assert_int_equal(error, ESRCH);
    assert_int_equal(errno, 77);
}

static void a_full_queue_of_signals_is_reported(void **state) {
    (void)state;
    pid_t pid = fork();
    assert_int_not_equal(pid, -1);
    if (pid == 0) {
        const struct rlimit none = {0, 0};
        sigset_t set;
        sigfillset(&set);
        if (setrlimit(RLIMIT_SIGPENDING, &none) != 0 || sigprocmask(SIG_BLOCK, &set, NULL) != 0) {
            _exit(100);
        }
        _exit(os_signal_send(own_id(), os_signal_default()));
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EAGAIN);
}

struct reader {
    int fd;
    _Atomic pid_t tid;
    ssize_t got;
};

static void *read_one(void *arg) {
    struct reader *reader = arg;
    char byte;
    atomic_store(&reader->tid, own_id());
    reader->got = read(reader->fd, &byte, 1);
    return NULL;
}

/* The kernel's letter for what a thread does: 'S' when it sleeps. */
static char thread_state(pid_t tid) {
    char path[64];
    char line[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    const char *paren = os_file_first_line(path, line, sizeof line) == 0 ? strrchr(line, ')') : NULL;
    return paren != NULL && paren[1] == ' ' ? paren[2] : '?';
}

static void a_system_call_goes_on_after_the_stop(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct reader reader = {.fd = ends[0], .tid = 0, .got = 0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_one, &reader), 0);
    while (atomic_load(&reader.tid) == 0 || thread_state(atomic_load(&reader.tid)) != 'S') {
        sched_yield();
    }
    assert_int_equal(os_signal_send(atomic_load(&reader.tid), os_signal_default()), 0);
    while (atomic_load(&calls) == 0) {
        sched_yield();
    }
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(reader.got, 1);
    close(ends[0]);
    close(ends[1]);
}

#define WITH_HANDLER(test) cmocka_unit_test_setup(test, install)

/* ThreadSanitizer runs handlers later and elsewhere than the kernel would, with a frame of its own making. */
#if defined(__SANITIZE_THREAD__)
#define HANDLERS_ARE_DELAYED true
#elif defined(__has_feature)
#define HANDLERS_ARE_DELAYED __has_feature(thread_sanitizer)
#else
#define HANDLERS_ARE_DELAYED false
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_signal_is_a_real_time_one_that_nobody_has_taken),
        cmocka_unit_test(a_signal_that_does_not_exist_is_refused),
        cmocka_unit_test(a_blocked_signal_is_detected),
        WITH_HANDLER(a_thread_that_is_gone_is_reported),
        WITH_HANDLER(a_full_queue_of_signals_is_reported),
    };
    const struct CMUnitTest tests_of_handlers[] = {
        WITH_HANDLER(a_value_in_a_general_register_is_seen),
        WITH_HANDLER(a_value_held_only_in_a_vector_register_is_seen),
        WITH_HANDLER(a_value_in_the_upper_half_of_a_wide_vector_register_is_seen),
        WITH_HANDLER(the_frame_says_where_the_program_was),
        WITH_HANDLER(a_thread_without_an_alternate_stack_shows_none),
        WITH_HANDLER(code_on_the_alternate_stack_is_told_from_code_on_the_main_one),
        WITH_HANDLER(the_handler_blocks_all_but_the_synchronous_faults),
        WITH_HANDLER(a_system_call_goes_on_after_the_stop),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return HANDLERS_ARE_DELAYED ? failed : failed + cmocka_run_group_tests(tests_of_handlers, NULL, NULL);
}
