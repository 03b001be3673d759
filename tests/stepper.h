/*
 * Single-stepping for test_stepper.c: the collecting thread, the SIGTRAP handler, and the trap flag around a
 * call. One thread steps at a time. x86_64 only. Must be included once; needs the library started and SIGTRAP
 * handled by on_trap.
 *
 * The handler runs on the thread's own stack. Its frame holds the interrupted registers, and it is scanned as
 * any part of the stack: what rule S2 keeps in a register until a call returns is found there and nowhere
 * else.
 */
#ifndef TESTS_STEPPER_H
#define TESTS_STEPPER_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "garbage.h"
#include "gc/mutator.h"
#include "gc/os/os_futex.h"
#include "gc/os/os_log.h"

#define TRAP_FLAG 0x100

/* A collection at each of so many instructions of a call at which it can be waited for, then at every
 * EVERY_LATER-th. */
#define EACH_OF_FIRST UINT64_C(2000)
#define EVERY_LATER   UINT64_C(37)
/* Inside S1 a collection is asked for at every so many instructions: it then waits for the thread. */
#define EVERY_INSIDE UINT64_C(11)
/* Iterations of a repeated string instruction trap one by one: one in so many counts. */
#define EVERY_REPEAT UINT64_C(256)
/* A call goes on unstepped after so many, and in a collection of its own until that is over. */
#define STEPPED_MOST UINT64_C(100000)
#define BLOCKED_MOST UINT64_C(20000)
#define PATIENCE_S   20

/* ---- the collecting thread ---- */

/* Collections asked for and done, modulo 2^32; futexes. release / acquire. */
static _Atomic uint32_t asked, done;
static _Atomic bool quitting;

static void *collector(void *unused) {
    (void)unused;
    while (!quitting) {
        uint32_t now = atomic_load_explicit(&asked, memory_order_acquire);
        if (now == atomic_load_explicit(&done, memory_order_relaxed)) {
            os_futex_wait(&asked, now, -1);
            continue;
        }
        tern_collect();
        /* Takes what was freed by mistake and overwrites it. */
        if (now % 8 == 0) {
            memset(tern_alloc_leaf(40000), 0xee, 40000);
            memset(tern_alloc(64), 0xee, 64);
        }
        atomic_store_explicit(&done, now, memory_order_release);
        os_futex_wake(&done, INT32_MAX);
    }
    return NULL;
}

static uint32_t ask(void) {
    uint32_t turn = atomic_fetch_add_explicit(&asked, 1, memory_order_acq_rel) + 1;
    os_futex_wake(&asked, 1);
    return turn;
}

/* ---- stepping; one thread at a time ---- */

static struct {
    const char *name;
    bool blocked_too; /* the call holds no lock while it is blocked: collections are waited for there too */
    uint64_t instructions, repeats;
    uint64_t stoppable;      /* instructions at which a collection can be waited for */
    uint64_t waited, passed; /* collections waited for, and asked for in passing */
    uint64_t blocked;        /* instructions in a row while blocked */
    bool paused;             /* until the collection is over that the call itself runs */
    pthread_t thread;        /* that is paused */
    uintptr_t ip;
} step;

static uint64_t all_instructions, all_waited, all_passed;
static int calls_without; /* calls during which no collection could be waited for: they prove nothing */

static void say_where(const char *what) {
    struct os_line line;
    os_line_init(&line);
    os_line_str(&line, what);
    os_line_str(&line, ": ");
    os_line_str(&line, step.name != NULL ? step.name : "nothing stepped");
    os_line_str(&line, ", instruction ");
    os_line_u64(&line, step.instructions);
    os_line_str(&line, " at ");
    os_line_hex(&line, step.ip);
    os_line_emit(&line, 2);
}

static void on_abort(int signal) {
    (void)signal;
    say_where("stopped while stepping");
}

static void wait_for(uint32_t turn) {
    for (int seconds = 0;;) {
        uint32_t now = atomic_load_explicit(&done, memory_order_acquire);
        if ((int32_t)(now - turn) >= 0)
            return;
        if (os_futex_wait(&done, now, INT64_C(1000000000)) == -ETIMEDOUT && ++seconds == PATIENCE_S) {
            say_where("no collection within 20 s");
            abort();
        }
    }
}

/*
 * Whether the collecting thread has nothing to do, or has soon. If not, it may be asleep in a lock that this
 * thread has just freed and not yet woken it from.
 */
static bool collector_is_idle(void) {
    for (int i = 0; i < 10; i++) {
        uint32_t now = atomic_load_explicit(&done, memory_order_acquire);
        if (now == asked)
            return true;
        os_futex_wait(&done, now, 200000);
    }
    return false;
}

/*
 * Whether the thread can be stopped where it is, by the signal, while it waits. Not while a stop is on
 * already: its signal came inside S1 and went by, and the thread is on its way to look. Not while it holds
 * the list of threads.
 */
static bool can_wait(const struct mutator *self) {
    if (self == NULL || stop_requested() ||
        atomic_load_explicit(&mutator_list_lock.word, memory_order_relaxed) != OS_LOCK_FREE)
        return false;
    if (atomic_load_explicit(&self->state, memory_order_relaxed) == MUTATOR_BLOCKED)
        return step.blocked_too;
    return atomic_load_explicit(&self->depth, memory_order_relaxed) == 0;
}

static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    int saved = errno;
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t ip = (uintptr_t)regs[REG_RIP];
    step.repeats = ip == step.ip ? step.repeats + 1 : 0;
    step.ip = ip;
    bool blocked = mutator_self != NULL && atomic_load(&mutator_self->state) == MUTATOR_BLOCKED;
    step.blocked = blocked ? step.blocked + 1 : 0;
    if (step.blocked == BLOCKED_MOST) {
        step.thread = pthread_self();
        step.paused = true;
        regs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
    }
    if (step.repeats % EVERY_REPEAT == 0) {
        uint64_t n = step.instructions++;
        if (n >= STEPPED_MOST) {
            regs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
        } else if (can_wait(mutator_self) && collector_is_idle()) {
            uint64_t place = step.stoppable++;
            if (place < EACH_OF_FIRST || place % EVERY_LATER == 0) {
                wait_for(ask());
                step.waited++;
            }
        } else if (n % EVERY_INSIDE == 0 && asked == done) {
            ask();
            step.passed++;
        }
    }
    errno = saved;
}

static inline void trap_on(void) {
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq %0, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp"
                     :
                     : "i"(TRAP_FLAG)
                     : "memory", "cc");
}

static inline void trap_off(void) {
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq %0, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp"
                     :
                     : "i"(~TRAP_FLAG)
                     : "memory", "cc");
}

static void on_cycle(const tern_cycle *cycle, void *context) {
    (void)cycle;
    (void)context;
    if (step.paused && pthread_equal(step.thread, pthread_self())) {
        step.paused = false;
        step.ip = 0;
        trap_on();
    }
}

static void begin(const char *name, bool blocked_too) {
    memset(&step, 0, sizeof step);
    step.name = name;
    step.blocked_too = blocked_too;
}

static void end(void) {
    all_instructions += step.instructions;
    all_waited += step.waited;
    all_passed += step.passed;
    print_message("  %-44s %7lu instructions, %6lu collections waited for, %5lu met in passing\n", step.name,
                  (unsigned long)step.instructions, (unsigned long)step.waited, (unsigned long)step.passed);
    calls_without += step.waited == 0;
    step.name = NULL;
}

#endif
