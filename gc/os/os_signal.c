/* os_signal: stopping threads by a signal, and reading where they were (see os_signal.h). */
#define _GNU_SOURCE 1
#include "gc/os/os_signal.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "gc/os/os_file.h"
#include "gc/os/os_log.h"

/* Distance of our signal from the first real-time one. The standard signals all have users: profilers (PROF),
 * other collectors (PWR, XCPU, USR2), Go (URG), shells. Of the real-time ones glibc keeps the lowest two to
 * itself, and programs that want one tend to take the next few from SIGRTMIN up or from SIGRTMAX down. */
#define DEFAULT_ABOVE_RTMIN 7

int os_signal_default(void) {
    return SIGRTMIN + DEFAULT_ABOVE_RTMIN;
}

bool os_signal_is_taken(int sig) {
    struct sigaction old;
    /* sa_handler and sa_sigaction share their place, so this covers both kinds of handler. */
    return sigaction(sig, NULL, &old) == 0 && old.sa_handler != SIG_DFL;
}

void os_signal_all_but_faults(sigset_t *set) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigfillset(set);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        sigdelset(set, faults[i]);
    }
}

int os_signal_install(int sig, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    os_signal_all_but_faults(&action.sa_mask);
    return sigaction(sig, &action, NULL);
}

int os_signal_send(pid_t tid, int sig) {
    int saved = errno;
    int error = syscall(SYS_tgkill, getpid(), tid, sig) == 0 ? 0 : errno;
    errno = saved;
    return error;
}

#if defined(__x86_64__)

/* The layout of the extended state in a signal frame, from the kernel's asm/sigcontext.h, which cannot be
 * included beside glibc's. The 512 bytes of FXSAVE come first; in their part for software the kernel says how
 * much follows. */
#define FXSAVE_BYTES       512
#define SW_BYTES_AT        464
#define FP_XSTATE_MAGIC1   0x46505853U
#define FP_XSTATE_MAGIC2   0x46505845U
#define XSAVE_HEADER_BYTES 64

struct fpx_sw_bytes {
    uint32_t magic1;
    uint32_t extended_size; /* the whole, with magic2 behind it */
    uint64_t xfeatures;
    uint32_t xstate_size; /* the XSAVE area */
    uint32_t padding[7];
};
_Static_assert(SW_BYTES_AT + sizeof(struct fpx_sw_bytes) == FXSAVE_BYTES,
               "software bytes end the FXSAVE area");

/* Bytes of the register state at fp: the XSAVE area (AVX, AVX-512, AMX tiles), or FXSAVE's (SSE) where the
 * kernel did not write more. Both magic words must be there: the second one is the kernel's proof that the
 * size is true. */
static size_t xstate_bytes(const char *fp) {
    struct fpx_sw_bytes sw;
    memcpy(&sw, fp + SW_BYTES_AT, sizeof sw);
    if (sw.magic1 != FP_XSTATE_MAGIC1 || sw.xstate_size < FXSAVE_BYTES + XSAVE_HEADER_BYTES ||
        sw.extended_size < sw.xstate_size + sizeof(uint32_t)) {
        return FXSAVE_BYTES;
    }
    uint32_t magic2;
    memcpy(&magic2, fp + sw.xstate_size, sizeof magic2);
    return magic2 == FP_XSTATE_MAGIC2 ? sw.xstate_size & ~(sizeof(void *) - 1) : FXSAVE_BYTES;
}

static void read_registers(const ucontext_t *uc, struct os_context *out) {
    const mcontext_t *mc = &uc->uc_mcontext;
    out->sp = (uintptr_t)mc->gregs[REG_RSP];
    out->ip = (uintptr_t)mc->gregs[REG_RIP];
    out->regs = mc->gregs;
    out->regs_bytes = sizeof mc->gregs;
    out->xstate = mc->fpregs;
    out->xstate_bytes = mc->fpregs != NULL ? xstate_bytes((const char *)mc->fpregs) : 0;
}

#elif defined(__aarch64__)

/* Records in the frame's reserved bytes, from the kernel's asm/sigcontext.h. */
#define RECORD_EXTRA_MAGIC 0x45585401U

struct record_head {
    uint32_t magic;
    uint32_t size;
};

struct record_extra {
    struct record_head head;
    uint64_t datap; /* more records (wide SVE registers), further up in the same frame */
    uint32_t size;
    uint32_t reserved[3];
};

/* The reserved bytes hold the FPSIMD record (v0 to v31) and others. All of it is scanned, and the extra space
 * too, with whatever lies between: it is all one frame. */
static void read_registers(const ucontext_t *uc, struct os_context *out) {
    const mcontext_t *mc = &uc->uc_mcontext;
    out->sp = (uintptr_t)mc->sp;
    out->ip = (uintptr_t)mc->pc;
    out->regs = mc->regs;
    out->regs_bytes = sizeof mc->regs;
    const char *start = (const char *)mc->__reserved;
    size_t bytes = sizeof mc->__reserved;
    out->xstate = start;
    out->xstate_bytes = bytes;
    struct record_head head;
    for (size_t at = 0; at + sizeof head <= bytes; at += head.size) {
        memcpy(&head, start + at, sizeof head);
        if (head.magic == 0 || head.size < sizeof head) {
            break;
        }
        if (head.magic == RECORD_EXTRA_MAGIC && at + sizeof(struct record_extra) <= bytes) {
            struct record_extra extra;
            memcpy(&extra, start + at, sizeof extra);
            uintptr_t end = (uintptr_t)extra.datap + extra.size;
            if (end > (uintptr_t)start + bytes) {
                out->xstate_bytes = (end - (uintptr_t)start) & ~(sizeof(void *) - 1);
            }
        }
    }
}

#endif

void os_signal_context(void *ucontext, struct os_context *out) {
    const ucontext_t *uc = ucontext;
    read_registers(uc, out);
    bool has_alt = (uc->uc_stack.ss_flags & SS_DISABLE) == 0 && uc->uc_stack.ss_size > 0;
    out->alt_lo = has_alt ? (uintptr_t)uc->uc_stack.ss_sp : 0;
    out->alt_hi = has_alt ? out->alt_lo + uc->uc_stack.ss_size : 0;
    /* The kernel's rule: a stack pointer at the very top is on it, one at the very bottom has left it. */
    out->on_alt = has_alt && out->sp > out->alt_lo && out->sp <= out->alt_hi;
}

bool os_signal_is_blocked(pid_t tid, int sig) {
    static const char field[] = "SigBlk:";
    struct os_line path;
    os_line_init(&path);
    os_line_str(&path, "/proc/self/task/");
    os_line_i64(&path, tid);
    os_line_str(&path, "/status");
    struct os_file file;
    if (sig < 1 || sig > 64 || os_file_open(&file, path.buf) != 0) {
        return false;
    }
    uint64_t mask = 0;
    for (const char *line = os_file_line(&file); line != NULL; line = os_file_line(&file)) {
        if (strncmp(line, field, sizeof field - 1) == 0) {
            const char *s = line + sizeof field - 1;
            if (!os_file_number(&s, 16, &mask)) {
                mask = 0;
            }
            break;
        }
    }
    os_file_close(&file);
    return (mask >> (sig - 1) & 1) != 0;
}
