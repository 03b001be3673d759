/* See stop.h. Calls mutator and gc/os. With the world stopped it takes no lock of the host's. */
#include "gc/stop.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "gc/os/os_log.h"
#include "gc/os/os_signal.h"
#include "gc/os/os_thread.h"
#include "gc/os/os_time.h"
#include "gc/settings.h"

/* A thread usually stops within this; until then looking again is cheaper than sleeping (a futex wait costs 5
 * us). */
#define SPIN_NS INT64_C(20000)
/*
 * A stopped thread looks for so long before it sleeps: a short stop is over by then, and waking a sleeper on a virtual
 * machine's idle processor takes longer than the stop. Not where threads outnumber processors: others need them.
 */
#define HELD_SPIN_NS INT64_C(100000)
/* How long a thread may take to stop before it is named. */
#define COMPLAIN_NS INT64_C(1000000000)
/* A queue of real-time signals that is full empties as threads run. */
#define RETRY_NS 100000

_Atomic uint32_t stop_word;

/* Counts acknowledgements and blockings during a stop; a futex that the stopper waits on. release / acquire.
 */
static _Atomic uint32_t progress;
/* Threads that acknowledged a stop and do not run again yet. acq_rel. */
static _Atomic uint32_t held;
/*
 * So many may be left when the stop is over: none, or all but one where threads outnumber processors, which the
 * collector shares; the others run when it is their turn, as without a stop. acq_rel.
 */
static _Atomic uint32_t held_in_turn;
static _Atomic int64_t resumed_ns;
/* 1 while the stopper sleeps on progress: only then is a wake worth its system call. seq_cst with progress.
 */
static _Atomic uint32_t stopper_sleeps;

void stop_notify(void) {
    atomic_fetch_add_explicit(&progress, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&stopper_sleeps, memory_order_seq_cst) != 0)
        os_futex_wake(&progress, 1);
}

static void leave_wait(bool counted) {
    if (!counted)
        return;
    int64_t now = os_time_mono_ns();
    uint32_t left = atomic_fetch_sub_explicit(&held, 1, memory_order_acq_rel) - 1;
    if (left == atomic_load_explicit(&held_in_turn, memory_order_acquire))
        atomic_store_explicit(&resumed_ns, now, memory_order_release);
}

int64_t stop_resumed_ns(void) {
    if (atomic_load_explicit(&held, memory_order_acquire) >
        atomic_load_explicit(&held_in_turn, memory_order_acquire))
        return -1;
    return atomic_load_explicit(&resumed_ns, memory_order_acquire);
}

void stop_after_fork(void) {
    atomic_store_explicit(&held, 0, memory_order_relaxed);
}

/* true: the stop was over before it was worth sleeping. */
static bool spin_while_stopped(uint32_t word) {
    if ((int)mutator_count() > settings.processors)
        return false;
    int64_t start = os_time_mono_ns();
    do {
        for (int i = 0; i < 16; i++) {
            if (atomic_load_explicit(&stop_word, memory_order_acquire) != word)
                return true;
            os_cpu_relax();
        }
    } while (os_time_mono_ns() - start < HELD_SPIN_NS);
    return false;
}

void stop_wait(struct mutator *self) {
    bool counted = false;
    for (;;) {
        uint32_t word = atomic_load_explicit(&stop_word, memory_order_acquire);
        if ((word & 1) == 0) {
            leave_wait(counted);
            return;
        }
        /* A new stop may have begun before this thread woke from the last one; it is still where it was. */
        if (atomic_load_explicit(&self->ack, memory_order_relaxed) != word) {
            if (!counted)
                atomic_fetch_add_explicit(&held, 1, memory_order_acq_rel);
            counted = true;
            atomic_store_explicit(&self->ack, word, memory_order_release);
            stop_notify();
        }
        if (!spin_while_stopped(word))
            os_futex_wait(&stop_word, word, -1);
    }
}

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    struct mutator *self = mutator_self;
    /* Not attached (any more), in S1 (leaving it looks at stop_word), or blocked: nothing to do here. */
    if (self == NULL || atomic_load_explicit(&self->depth, memory_order_relaxed) != 0 ||
        atomic_load_explicit(&self->state, memory_order_relaxed) != MUTATOR_RUNNING || !stop_requested())
        return;
    int saved = errno;
    self->context = context;
    self->sp = (uintptr_t)__builtin_frame_address(0);
    stop_wait(self);
    self->context = NULL;
    errno = saved;
}

int stop_init(void) {
    atomic_store_explicit(&stop_word, 0, memory_order_relaxed);
    return settings.cooperative ? 0 : os_signal_install(settings.signal, on_signal);
}

static bool is_stopped(struct mutator *m, uint32_t word) {
    return atomic_load_explicit(&m->ack, memory_order_acquire) == word ||
           atomic_load_explicit(&m->state, memory_order_seq_cst) == MUTATOR_BLOCKED;
}

static void send(struct mutator *m) {
    for (;;) {
        int error = os_signal_send(m->tid, settings.signal);
        if (error == 0)
            return;
        if (error == ESRCH) {
            /* The thread ended without its destructors (a raw exit system call): nothing of it is left to
             * scan. */
            m->sp = m->stack_hi;
            m->context = NULL;
            m->frame_words = 0;
            atomic_store_explicit(&m->state, MUTATOR_BLOCKED, memory_order_seq_cst);
            return;
        }
        gc_check(error == EAGAIN, "the stop signal could not be sent");
        struct timespec pause = {0, RETRY_NS};
        nanosleep(&pause, NULL);
    }
}

static void complain(const struct mutator *m) {
    struct os_line line;
    char name[16];
    os_thread_name(m->tid, name);
    os_line_init(&line);
    os_line_str(&line, "tern: thread ");
    os_line_i64(&line, m->tid);
    os_line_str(&line, " (");
    os_line_str(&line, name);
    os_line_str(&line, ") has not stopped for a second");
    if (settings.cooperative)
        os_line_str(&line,
                    ": in cooperative mode it must allocate, call tern_poll or be in a blocking section");
    else if (os_signal_is_blocked(m->tid, settings.signal)) {
        os_line_str(&line, ": it keeps signal ");
        os_line_i64(&line, settings.signal);
        os_line_str(&line, " blocked; unblock it or use a blocking section. The collection waits");
    } else
        os_line_str(&line, "; the collection waits");
    os_line_emit(&line, 2);
}

int64_t stop_world(void) {
    int64_t start = os_time_mono_ns();
    os_lock_acquire(&mutator_list_lock);
    uint32_t word = atomic_load_explicit(&stop_word, memory_order_relaxed) + 1;
    atomic_store_explicit(&stop_word, word, memory_order_seq_cst);
    if (!settings.cooperative)
        for (struct mutator *m = mutator_list; m != NULL; m = m->next)
            if (!is_stopped(m, word))
                send(m);
    int64_t complain_at = start + COMPLAIN_NS;
    for (struct mutator *m = mutator_list; m != NULL;) {
        uint32_t seen = atomic_load_explicit(&progress, memory_order_acquire);
        if (is_stopped(m, word)) {
            m = m->next;
            continue;
        }
        int64_t now = os_time_mono_ns();
        if (now - start < SPIN_NS) {
            os_cpu_relax();
            continue;
        }
        if (now >= complain_at) {
            complain(m);
            complain_at = now + 10 * COMPLAIN_NS;
        }
        atomic_store_explicit(&stopper_sleeps, 1, memory_order_seq_cst);
        if (atomic_load_explicit(&progress, memory_order_seq_cst) == seen)
            os_futex_wait(&progress, seen, COMPLAIN_NS / 4);
        atomic_store_explicit(&stopper_sleeps, 0, memory_order_seq_cst);
    }
    return os_time_mono_ns() - start;
}

void start_world(void) {
    uint32_t stopped = atomic_load_explicit(&held, memory_order_acquire);
    bool in_turn = stopped > (uint32_t)settings.processors;
    atomic_store_explicit(&held_in_turn, in_turn ? stopped - 1 : 0, memory_order_release);
    uint32_t word = atomic_load_explicit(&stop_word, memory_order_relaxed) + 1;
    atomic_store_explicit(&stop_word, word, memory_order_seq_cst);
    os_lock_release(&mutator_list_lock);
    os_futex_wake(&stop_word, INT32_MAX);
}
