/* See barrier.h. Calls grey (the pool), marker, mark. */
#include "gc/barrier.h"

#include "gc/fault.h"
#include "gc/grey.h"
#include "gc/mark.h"
#include "gc/marker.h"

/* Words of a range that are recorded and written in one piece: about 2 us. */
#define PIECE_WORDS 256

_Atomic uint32_t barrier_on;
static _Atomic uint64_t shaded_bytes; /* relaxed */

void barrier_set(bool on) {
    atomic_store_explicit(&barrier_on, on, memory_order_relaxed);
}

/* Calls visit for the records [from, to), which the ring may break in two. */
static void each_part(const struct barrier_buffer *b, uint64_t from, uint64_t to,
                      void (*visit)(const uintptr_t *words, size_t count, void *context), void *context) {
    while (from < to) {
        size_t at = from % BARRIER_RECORDS;
        size_t count = BARRIER_RECORDS - at < to - from ? BARRIER_RECORDS - at : (size_t)(to - from);
        visit(&b->words[at], count, context);
        from += count;
    }
}

static uint64_t first_unread(const struct barrier_buffer *b) {
    return b->read > b->recycled ? b->read : b->recycled;
}

/*
 * Marks here and now, and queues what is to be scanned: each object once, so that a thread which stores faster than
 * marking goes fills no queue. What most records lead to is marked already.
 */
static void hand_over(const uintptr_t *words, size_t count, void *context) {
    (void)context;
    grey_entry entries[BARRIER_RECORDS];
    size_t queued = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += marker_shade(words[i], &entries[queued]);
        queued += entries[queued] != 0;
    }
    if (bytes != 0)
        atomic_fetch_add_explicit(&shaded_bytes, bytes, memory_order_relaxed);
    if (queued == 0 || grey_pool_put(entries, queued))
        return;
    /* No memory for a queue. Some may be in the pool too. */
    for (size_t i = 0; i < queued; i++)
        marker_flag(entries[i]);
    mark_note_overflow();
}

void barrier_flush(struct mutator *self) {
    struct barrier_buffer *b = &self->barrier;
    uint64_t to = atomic_load_explicit(&b->published, memory_order_relaxed);
    if (barrier_is_on() && !fault_is(FAULT_RECORDS_UNREAD))
        each_part(b, first_unread(b), to, hand_over, NULL);
    b->recycled = to;
}

__attribute__((noinline)) void barrier_flush_outside(struct mutator *self) {
    mutator_enter(self);
    barrier_flush(self);
    mutator_leave(self);
}

static uintptr_t relaxed(const uintptr_t *at) {
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

/*
 * One piece of a range: records what is there and what comes, then writes. Inside S1. What is copied from is read with
 * acquire: others may have published there, and whoever finds it through the copy must see what they wrote before.
 */
static void store_piece(struct mutator *self, uintptr_t *fields, const uintptr_t *values, size_t count,
                        bool backwards) {
    if (barrier_is_on() && !fault_is(FAULT_PLAIN_STORE))
        for (size_t i = 0; i < count; i++) {
            barrier_record_inside(self, relaxed(&fields[i]));
            if (values != NULL)
                barrier_record_inside(self, relaxed(&values[i]));
        }
    for (size_t n = 0; n < count; n++) {
        size_t i = backwards ? count - 1 - n : n;
        uintptr_t value = values != NULL ? __atomic_load_n(&values[i], __ATOMIC_ACQUIRE) : 0;
        __atomic_store_n(&fields[i], value, __ATOMIC_RELEASE);
    }
}

void barrier_store_range(struct mutator *self, uintptr_t *fields, const uintptr_t *values, size_t count,
                         bool backwards) {
    for (size_t done = 0; done < count;) {
        size_t n = count - done < PIECE_WORDS ? count - done : PIECE_WORDS;
        size_t at = backwards ? count - done - n : done;
        mutator_enter(self);
        store_piece(self, fields + at, values != NULL ? values + at : NULL, n, backwards);
        mutator_leave(self);
        done += n;
    }
    __asm__ volatile("" : : "r"(fields), "r"(values) : "memory");
}

void barrier_begin(void) {
    for (struct mutator *m = mutator_list; m != NULL; m = m->next)
        m->barrier.read = atomic_load_explicit(&m->barrier.published, memory_order_acquire);
    atomic_store_explicit(&shaded_bytes, 0, memory_order_relaxed);
}

static void visit_recorded(const uintptr_t *words, size_t count, void *context) {
    marker_visit_recorded(context, words, count);
}

void barrier_each_recorded(struct marker *marker) {
    for (struct mutator *m = mutator_list; m != NULL; m = m->next) {
        struct barrier_buffer *b = &m->barrier;
        uint64_t to = atomic_load_explicit(&b->published, memory_order_acquire);
        if (!fault_is(FAULT_RECORDS_UNREAD))
            each_part(b, first_unread(b), to, visit_recorded, marker);
        b->read = to;
    }
}

uint64_t barrier_shaded_bytes(void) {
    return atomic_load_explicit(&shaded_bytes, memory_order_relaxed);
}
