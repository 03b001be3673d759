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
#include "gc/settings.h"
#include "gc/stop.h"

_Thread_local struct mutator *mutator_self __attribute__((tls_model("initial-exec")));
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
    os_lock_acquire(&mutator_list_lock);
    self->next = mutator_list;
    mutator_list = self;
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
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
