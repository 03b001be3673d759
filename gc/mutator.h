/*
 * A mutator is an attached thread. This room owns the thread record, the list of records and its lock, and
 * S1: the sections in which a thread is not stopped.
 *
 * Rule S1. Between mutator_enter and mutator_leave a thread may hold the library's locks and half-changed
 * structures: the stop signal's handler sees the depth and returns, and mutator_leave parks the thread if a
 * stop was asked for meanwhile. No callback, no wait for another thread's progress and no stop may happen
 * inside; sections do not nest.
 *
 * Blocked. Between mutator_block and mutator_unblock a thread counts as stopped: its registers are spilled,
 * its stack above the recorded pointer is a root, and it promises not to touch the heap. Locks that are held
 * across a stop are taken only so (gc/cycle.h).
 *
 * The gate. While a thread forks it is closed: nobody is inside S1 and whoever would enter waits, blocked; what
 * runs outside goes on (gc/fork.h).
 */
#ifndef GC_MUTATOR_H
#define GC_MUTATOR_H

#include <pthread.h>
#include <sys/types.h>

#include "gc/base.h"
#include "gc/os/os_futex.h"
#include "gc/os/os_signal.h"
#include "gc/os/os_spill.h"
#include "gc/page.h"
#include "gc/sizeclass.h"

/* The open mask of one class and kind: the next free bit is the next object. Two words, so that four share a
 * line. */
struct open_mask {
    /* Free slots of the group. Written by the owner (release, after the address is formed), read by a
     * stopper. */
    _Atomic uint64_t bits;
    char *base; /* address of the group's first slot; by the owner, inside S1 */
};

/* Where an open mask comes from. By the owner inside S1; by the collector while the owner is stopped: read
 * only. */
struct open_span {
    page_index index; /* head of the owned span; 0: none */
    uint32_t group;   /* the group shown in the mask */
    uint32_t
        epoch; /* when the mask was taken: a cycle since then has left its slots out of the heap's bytes */
    uint64_t shown; /* the mask as it was taken: with what it shows now it tells which slot was taken last */
};

/* The ring of a thread's barrier; gc/barrier.h has the rules. */
#define BARRIER_RECORDS 128 /* 1 KiB: one in so many records costs a lock */
struct barrier_buffer {
    uintptr_t words[BARRIER_RECORDS]; /* by the owner; read by the collector when it is stopped */
    _Atomic uint64_t published;       /* records made so far; by the owner, release after the word */
    uint64_t read;                    /* of those, seen by the collector; by it, when the owner is stopped */
    uint64_t recycled;                /* of those, whose place may be used again; by the owner inside S1 */
};

/* Words of the frames of mutator_block and tern_blocking_begin; sanitizers' frames are the largest. */
#define MUTATOR_FRAME_WORDS 128

#define MUTATOR_CLASS_WORDS ((SIZECLASS_COUNT + 63) / 64)

enum mutator_state { MUTATOR_RUNNING, MUTATOR_BLOCKED };

struct mutator {
    struct open_mask masks[KIND_COUNT][SIZECLASS_COUNT];
    struct open_span spans[KIND_COUNT][SIZECLASS_COUNT];
    /* Which of those have a span: one bit a class. By the owner inside S1; read when it is stopped. */
    uint64_t open_classes[KIND_COUNT][MUTATOR_CLASS_WORDS];

    /* The open block of pointer-free objects under 16 bytes. By the owner; read when it is stopped. */
    char *tiny_base;              /* NULL: none */
    _Atomic uint32_t tiny_offset; /* 0..16; relaxed, after the address is formed (S2) */

    /* Stopping. */
    _Atomic uint32_t
        depth; /* > 0: inside S1; by the owner, relaxed: its readers are its own signal handler, stop, and who closes the gate */
    _Atomic uint32_t state; /* enum mutator_state; seq_cst against stop_word (Dekker) */
    _Atomic uint32_t ack;   /* the stop_word it stopped for; release after context and sp are written */
    uintptr_t sp;           /* lowest stack word that is a root; valid when stopped or blocked */
    void *context;          /* ucontext of the interrupted code, or NULL when it stopped by itself */
    uintptr_t spill[OS_SPILL_WORDS]; /* callee-saved registers when context is NULL */
    /* Blocked: the frames between the spill and sp, as they were: they are gone once mutator_block has
     * returned. */
    uintptr_t frames[MUTATOR_FRAME_WORDS];
    uint32_t frame_words;         /* 0 unless blocked */
    uintptr_t stack_lo, stack_hi; /* of the thread's own stack; read-only once attached */
    /* Where the stack begins of the fiber that tern_fiber_switch named last; 0: none. By the owner; relaxed. */
    _Atomic uintptr_t fiber_lo;

    pid_t tid;
    struct mutator *next; /* under mutator_list_lock */
    struct barrier_buffer barrier;
    uint64_t request;       /* bytes that it asked cycle_wanted about; by the owner */
    int64_t assist_debt;    /* bytes allocated while marking, less those paid for; by the owner */
    uint32_t assist_epoch;  /* of which cycle; by the owner */
    uint32_t stress_left;   /* slow paths until the next stress collection; 0: never */
    uint64_t stress_random; /* state of the generator that draws it */

    /* Counters, by the owner inside S1 (tiny: outside); relaxed; read by anybody. */
    _Atomic uint64_t slots_taken[SIZECLASS_COUNT]; /* slots in masks taken so far, less those given back */
    _Atomic uint64_t tiny_objects, tiny_blocks;
    _Atomic uint64_t large_objects, large_bytes;
};

/* Calls visit for each class and kind in which the mutator has a span. It is stopped, or the caller. */
static inline void mutator_each_span(struct mutator *m,
                                     void (*visit)(struct mutator *m, unsigned kind, unsigned size_class,
                                                   void *context),
                                     void *context) {
    for (unsigned k = 0; k < KIND_COUNT; k++)
        for (unsigned w = 0; w < MUTATOR_CLASS_WORDS; w++)
            for (uint64_t bits = m->open_classes[k][w]; bits != 0; bits &= bits - 1)
                visit(m, k, w * 64 + (unsigned)__builtin_ctzll(bits), context);
}

extern _Thread_local struct mutator *mutator_self __attribute__((tls_model("initial-exec")));

/* Odd while a stop is asked for or on; each stop has a value of its own. seq_cst against mutator.state. */
extern _Atomic uint32_t stop_word;

static inline bool stop_requested(void) {
    return unlikely(atomic_load_explicit(&stop_word, memory_order_relaxed) & 1);
}

/* Waits, counted as stopped, until no stop is asked for. Depth 0. */
void mutator_park(struct mutator *self);

/*
 * Not 0: whoever enters S1 calls mutator_pass_gate. A futex. seq_cst against mutator.depth; the plain load in
 * mutator_enter is made as good as that by a fence that the closing thread has all others execute.
 */
extern _Atomic uint32_t mutator_gate;
#define MUTATOR_GATE_CLOSED  1u
#define MUTATOR_GATE_CAREFUL 2u /* the kernel has no such fence: each who enters executes one */
/* The calling thread closed the gate. */
extern _Thread_local bool mutator_forks __attribute__((tls_model("initial-exec")));
/* Depth is 1, before and after; waits in between, at depth 0, while another thread has the gate closed. */
void mutator_pass_gate(struct mutator *self);

static inline void mutator_enter(struct mutator *self) {
    gc_check(atomic_load_explicit(&self->depth, memory_order_relaxed) == 0,
             "the library was entered from a signal handler or a callback that interrupted it; "
             "signal handlers must not allocate");
    atomic_store_explicit(&self->depth, 1, memory_order_relaxed);
    compiler_barrier();
    if (unlikely(atomic_load_explicit(&mutator_gate, memory_order_relaxed) != 0))
        mutator_pass_gate(self);
}

static inline void mutator_leave(struct mutator *self) {
    compiler_barrier();
    atomic_store_explicit(&self->depth, 0, memory_order_relaxed);
    compiler_barrier();
    if (stop_requested())
        mutator_park(self);
}

/*
 * Blocked from here on. What the caller and its callers hold in registers and on the stack stays a root; of
 * the caller's own frame what it holds at this moment. The caller may go on, and call, but not return. Depth
 * 0.
 */
void mutator_block(struct mutator *self);
/*
 * The same for a caller that returns while blocked: `sp` is the stack pointer of its own caller, to whom the
 * callee-saved registers belong that the frames in between may have saved.
 */
void mutator_block_for(struct mutator *self, uintptr_t sp);
/* The stack pointer of this function's caller once this function has returned. */
#define MUTATOR_CALLER_SP() ((uintptr_t)__builtin_frame_address(0) + 2 * sizeof(void *))
/* Waits while a stop is on, then runs. */
void mutator_unblock(struct mutator *self);

/* The calling thread's record, attaching it when it has none. NULL with errno ENOMEM. Depth 0. May block. */
struct mutator *mutator_attach(void);
static inline struct mutator *mutator_get(void) {
    struct mutator *self = mutator_self;
    return likely(self != NULL) ? self : mutator_attach();
}
/* Gives back masks, publishes counters, leaves the list. Depth 0. May block. */
void mutator_detach(struct mutator *self);

int mutator_init(void); /* makes the key whose destructor detaches; 0 or -1 with errno */

/* Returns when no other mutator is inside S1; none enters until the gate is opened. List lock held; for fork. */
void mutator_close_gate(void);
void mutator_open_gate(void);
/* In the child of a fork, gate closed: the other threads are gone, and what they had is given back. */
void mutator_after_fork(void);

/* The list, for whoever holds its lock: attach and detach wait meanwhile. Taken blocked or by a non-mutator.
 */
extern struct os_lock mutator_list_lock;
extern struct mutator *mutator_list;
uint32_t mutator_count(void);

/* Calls visit for each mutator with the list lock held inside S1 of `self`; for counters. */
void mutator_each(struct mutator *self, void (*visit)(struct mutator *each, void *context), void *context);

/* Counters of threads that are gone; under the list lock. */
struct mutator_totals {
    uint64_t slots[SIZECLASS_COUNT]; /* handed out */
    uint64_t tiny_objects, tiny_blocks, large_objects, large_bytes;
};
/* Sums the counters of living and gone threads: slots handed out, not slots in masks. */
void mutator_totals_read(struct mutator *self, struct mutator_totals *out);

#endif
