/*
 * Thread records: attach, detach, blocked sections, parking, counters. Calls offheap, alloc (to give masks
 * back) and gc/os. Never stops anybody: that is stop's business.
 */
#include "gc/mutator.h"

#include <errno.h>
#include <string.h>

#include "gc/alloc.h"
#include "gc/barrier.h"
#include "gc/offheap.h"
#include "gc/os/os_thread.h"
#include "gc/os/os_time.h"
#include "gc/settings.h"
#include "gc/stop.h"

/* How often the closer of the gate looks before it sleeps between looks: most sections are over by then. */
#define GATE_SPINS 1000
#define GATE_NS    INT64_C(50000)
/* A store of another processor is seen everywhere long before this; see fence_all. */
#define SEEN_NS INT64_C(1000000)

_Thread_local struct mutator *mutator_self __attribute__((tls_model("initial-exec")));
_Thread_local bool mutator_forks __attribute__((tls_model("initial-exec")));
_Atomic uint32_t mutator_gate;
struct os_lock mutator_list_lock = OS_LOCK_INIT;
struct mutator *mutator_list;
static _Atomic uint32_t count;            /* changed under mutator_list_lock, read by anybody; relaxed */
static struct mutator_totals gone_totals; /* of detached threads; under mutator_list_lock */
static pthread_key_t exit_key;

static void detach_at_exit(void *value) {
    if (mutator_self == value)
        mutator_detach(value);
}

int mutator_init(void) {
    static bool have_key;
    memset(&gone_totals, 0, sizeof gone_totals);
    atomic_store_explicit(&mutator_gate, os_thread_fence_all() ? 0 : MUTATOR_GATE_CAREFUL,
                          memory_order_seq_cst);
    if (have_key)
        return 0;
    int error = pthread_key_create(&exit_key, detach_at_exit);
    if (error != 0) {
        errno = error;
        return -1;
    }
    have_key = true;
    return 0;
}

struct mutator *mutator_attach(void) {
    if (mutator_self != NULL)
        return mutator_self;
    struct mutator *self = offheap_zalloc(sizeof *self);
    if (self == NULL)
        return NULL;
    self->tid = os_thread_id();
    self->stress_left = settings.stress;
    self->stress_random = settings.seed * 2 + 1;
    int error = pthread_setspecific(exit_key, self);
    if (error != 0 || os_thread_stack(&self->stack_lo, &self->stack_hi) != 0) {
        pthread_setspecific(exit_key, NULL);
        offheap_free(self);
        errno = ENOMEM;
        return NULL;
    }
    /* The signal handler must find the record from the moment that it is listed. */
    mutator_self = self;
    /* In a fork handler of the program's that runs between ours, this thread has the lock already. */
    if (!mutator_forks)
        os_lock_acquire(&mutator_list_lock);
    self->next = mutator_list;
    mutator_list = self;
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    if (!mutator_forks)
        os_lock_release(&mutator_list_lock);
    return self;
}

/* Slots of a class that were handed out: those in masks so far, less those that the masks still show. */
static uint64_t handed_out(const struct mutator *m, unsigned c) {
    uint64_t taken = atomic_load_explicit(&m->slots_taken[c], memory_order_acquire);
    for (;;) {
        uint64_t shown = 0;
        for (unsigned k = 0; k < KIND_COUNT; k++)
            shown += (uint64_t)__builtin_popcountll(
                atomic_load_explicit(&m->masks[k][c].bits, memory_order_acquire));
        /* Slots are counted before a mask shows them, and after it does no more: with the count unchanged, it
         * covers them. */
        uint64_t now = atomic_load_explicit(&m->slots_taken[c], memory_order_acquire);
        if (now == taken)
            return taken - shown;
        taken = now;
    }
}

static void add_totals(const struct mutator *m, struct mutator_totals *out) {
    for (unsigned c = 0; c < SIZECLASS_COUNT; c++)
        out->slots[c] += handed_out(m, c);
    out->tiny_objects += atomic_load_explicit(&m->tiny_objects, memory_order_relaxed);
    out->tiny_blocks += atomic_load_explicit(&m->tiny_blocks, memory_order_relaxed);
    out->large_objects += atomic_load_explicit(&m->large_objects, memory_order_relaxed);
    out->large_bytes += atomic_load_explicit(&m->large_bytes, memory_order_relaxed);
}

void mutator_detach(struct mutator *self) {
    gc_check(self == mutator_self, "a thread can detach only itself");
    mutator_enter(self);
    barrier_flush(self);
    alloc_give_back(self);
    mutator_leave(self);
    mutator_block(self);
    os_lock_acquire(&mutator_list_lock);
    for (struct mutator **link = &mutator_list; *link != NULL; link = &(*link)->next)
        if (*link == self) {
            *link = self->next;
            break;
        }
    atomic_fetch_sub_explicit(&count, 1, memory_order_relaxed);
    add_totals(self, &gone_totals);
    os_lock_release(&mutator_list_lock);
    mutator_self = NULL;
    pthread_setspecific(exit_key, NULL);
    offheap_free(self);
}

uint32_t mutator_count(void) {
    return atomic_load_explicit(&count, memory_order_relaxed);
}

void mutator_totals_read(struct mutator *self, struct mutator_totals *out) {
    mutator_block(self);
    os_lock_acquire(&mutator_list_lock);
    *out = gone_totals;
    for (const struct mutator *m = mutator_list; m != NULL; m = m->next)
        add_totals(m, out);
    os_lock_release(&mutator_list_lock);
    mutator_unblock(self);
}

/*
 * In the three below, depth 1 keeps the stop signal's handler from writing context and sp while they are half
 * set: it returns, and the stopper waits for the acknowledgement or the state that follows.
 */
static void shield(struct mutator *self) {
    atomic_store_explicit(&self->depth, 1, memory_order_relaxed);
    compiler_barrier();
}

static void unshield(struct mutator *self) {
    compiler_barrier();
    atomic_store_explicit(&self->depth, 0, memory_order_relaxed);
    compiler_barrier();
}

void mutator_park(struct mutator *self) {
    do {
        shield(self);
        self->sp = os_spill(self->spill);
        self->context = NULL;
        self->frame_words = 0;
        stop_wait(self);
        unshield(self);
    } while (stop_requested());
}

/*
 * Registers alone do not say what callers hold: the frames from here up to `sp` have saved some of the
 * callee-saved ones for their own use, and those frames are overwritten once they return. So they are copied.
 */
GC_NO_SANITIZE static void keep_frames(struct mutator *self, uintptr_t from, uintptr_t sp) {
    size_t words = (sp - from) / sizeof(uintptr_t);
    gc_check(words <= MUTATOR_FRAME_WORDS, "the frames of a blocking section are larger than was foreseen");
    for (size_t i = 0; i < words; i++)
        self->frames[i] = ((const uintptr_t *)from)[i];
    self->frame_words = (uint32_t)words;
}

__attribute__((noinline)) void mutator_block_for(struct mutator *self, uintptr_t sp) {
    gc_check(atomic_load_explicit(&self->depth, memory_order_relaxed) == 0 &&
                 atomic_load_explicit(&self->state, memory_order_relaxed) == MUTATOR_RUNNING,
             "a blocking section was begun inside another one or inside the library");
    shield(self);
    keep_frames(self, os_spill(self->spill), sp);
    self->sp = sp;
    self->context = NULL;
    atomic_store_explicit(&self->state, MUTATOR_BLOCKED, memory_order_seq_cst);
    if (stop_requested())
        stop_notify();
    unshield(self);
}

__attribute__((noinline)) void mutator_block(struct mutator *self) {
    mutator_block_for(self, MUTATOR_CALLER_SP());
    /* Not a tail call: this frame is the one that is copied. */
    compiler_barrier();
}

void mutator_unblock(struct mutator *self) {
    shield(self);
    for (;;) {
        /* Dekker with stop_world: it writes stop_word, then reads state; both seq_cst, so one of us sees the
         * other. */
        atomic_store_explicit(&self->state, MUTATOR_RUNNING, memory_order_seq_cst);
        uint32_t word = atomic_load_explicit(&stop_word, memory_order_seq_cst);
        if ((word & 1) == 0)
            break;
        atomic_store_explicit(&self->state, MUTATOR_BLOCKED, memory_order_seq_cst);
        stop_notify();
        os_futex_wait(&stop_word, word, -1);
    }
    unshield(self);
    if (stop_requested())
        mutator_park(self);
}

/* ---- the gate ---- */

void mutator_pass_gate(struct mutator *self) {
    for (;;) {
        /* Dekker with mutator_close_gate, which closes and then reads depth. */
        atomic_store_explicit(&self->depth, 1, memory_order_seq_cst);
        uint32_t gate = atomic_load_explicit(&mutator_gate, memory_order_seq_cst);
        if ((gate & MUTATOR_GATE_CLOSED) == 0 || mutator_forks)
            return;
        unshield(self);
        mutator_block(self);
        os_futex_wait(&mutator_gate, gate, -1);
        mutator_unblock(self);
    }
}

static void fence_all(void) {
    if ((atomic_load_explicit(&mutator_gate, memory_order_relaxed) & MUTATOR_GATE_CAREFUL) != 0 ||
        os_thread_fence_all())
        return;
    /* It could be had at the start and is refused now, by a sandbox say. */
    atomic_fetch_or_explicit(&mutator_gate, MUTATOR_GATE_CAREFUL, memory_order_seq_cst);
    os_time_sleep_ns(SEEN_NS);
}

static void wait_until_outside(const struct mutator *m) {
    for (unsigned n = 0; atomic_load_explicit(&m->depth, memory_order_seq_cst) != 0; n++) {
        if (n < GATE_SPINS)
            os_cpu_relax();
        else
            os_time_sleep_ns(GATE_NS);
    }
}

void mutator_close_gate(void) {
    mutator_forks = true;
    atomic_fetch_or_explicit(&mutator_gate, MUTATOR_GATE_CLOSED, memory_order_seq_cst);
    fence_all();
    for (const struct mutator *m = mutator_list; m != NULL; m = m->next)
        if (m != mutator_self)
            wait_until_outside(m);
    /* Leaving S1 publishes nothing by itself; what was written inside is seen after this. */
    fence_all();
}

void mutator_open_gate(void) {
    atomic_fetch_and_explicit(&mutator_gate, ~MUTATOR_GATE_CLOSED, memory_order_seq_cst);
    mutator_forks = false;
    os_futex_wake(&mutator_gate, INT32_MAX);
}

void mutator_after_fork(void) {
    struct mutator *self = mutator_self, *next;
    for (struct mutator *m = mutator_list; m != NULL; m = next) {
        next = m->next;
        if (m == self)
            continue;
        alloc_give_back(m);
        add_totals(m, &gone_totals);
        offheap_free(m);
    }
    mutator_list = self;
    atomic_store_explicit(&count, self != NULL, memory_order_relaxed);
    if (self != NULL) {
        self->next = NULL;
        self->tid = os_thread_id();
    }
}
