/*
 * The write barrier: what a store records while marking runs beside the program. Owns the flag that says so, and
 * the rules of the threads' buffers (S3, S4 of docs/design.md).
 *
 * Two protections. The word that a store overwrites is recorded (snapshot at the beginning: what was reachable
 * when the cycle began is marked), and so is the word that it writes (incremental update, together with a second
 * look at all roots in the end stop). Each alone would do for a program that keeps the contract; both together
 * forgive most single slips.
 *
 * A record is a word in the thread's ring, then a published count, an absolute number. The collector reads a
 * stopped thread's records up to the count and remembers how far; the owner alone makes room, inside S1, by
 * marking what they lead to and handing that to the markers' pool. A stop between a record's two steps loses nothing: the words are in the
 * thread's registers, which every stop that matters scans.
 */
#ifndef GC_BARRIER_H
#define GC_BARRIER_H

#include "gc/heap.h"
#include "gc/mutator.h"

struct marker;

/* 1 from the end of a cycle's start stop to its end stop. Changes with the world stopped; relaxed. */
extern _Atomic uint32_t barrier_on;

static inline bool barrier_is_on(void) {
    return unlikely(atomic_load_explicit(&barrier_on, memory_order_relaxed) != 0);
}

/* Hands all records to the markers. Inside S1. */
void barrier_flush(struct mutator *self);

/* The rest of barrier_record: the ring is full. */
void barrier_flush_outside(struct mutator *self);

static inline void barrier_append(struct mutator *self, uintptr_t word, void (*make_room)(struct mutator *)) {
    if (!heap_contains(word))
        return;
    struct barrier_buffer *b = &self->barrier;
    if (unlikely(atomic_load_explicit(&b->published, memory_order_relaxed) - b->recycled >= BARRIER_RECORDS))
        make_room(self);
    uint64_t n = atomic_load_explicit(&b->published, memory_order_relaxed);
    b->words[n % BARRIER_RECORDS] = word;
    /* S4: the record is there before the count says so. */
    atomic_store_explicit(&b->published, n + 1, memory_order_release);
}
/* What `word` leads to is to be marked. Depth 0; the caller keeps the word in a register or on its stack. */
static inline void barrier_record(struct mutator *self, uintptr_t word) {
    barrier_append(self, word, barrier_flush_outside);
}
/* The same inside S1. */
static inline void barrier_record_inside(struct mutator *self, uintptr_t word) {
    barrier_append(self, word, barrier_flush);
}

/*
 * Writes `count` words at `fields` from `values` (NULL: zeros), from the last to the first if `backwards`, in
 * pieces inside S1 each of which looks at the flag, records, then writes. Depth 0; a stop may come in between.
 */
void barrier_store_range(struct mutator *self, uintptr_t *fields, const uintptr_t *values, size_t count,
                         bool backwards);

/* Turns it on or off. World stopped. */
void barrier_set(bool on);
/* Forgets what was recorded too late for the last cycle. World stopped, before the barrier is turned on. */
void barrier_begin(void);
/* Marks every word recorded and not handed over. World stopped. */
void barrier_each_recorded(struct marker *marker);
/* Bytes that became live by records that their threads handed over, in this cycle. */
uint64_t barrier_shaded_bytes(void);

#endif
