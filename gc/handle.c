/* See handle.h. Calls mutator (S1), offheap, gc/os/os_futex. */
#include "gc/handle.h"

#include <errno.h>

#include "gc/barrier.h"
#include "gc/mutator.h"
#include "gc/offheap.h"

/*
 * Slots lie in segments of which each is twice as large as the one before, so that a slot never moves and one
 * instruction finds its segment. New handles come from the lowest segment with room: the large ones drain.
 */
#define FIRST_SLOTS   ((uint64_t)256) /* 4 KiB */
#define SEGMENTS_MOST 24              /* 2^32 - 256 slots: as many as a handle's lower half can name */

#define SLOT_NONE UINT32_MAX

/* One segment. Three arrays, so that the objects are a range that can be visited as it is. */
struct segment {
    uint32_t slots;           /* read-only */
    uint32_t touched;         /* slots ever used; those behind are untouched memory. Under the lock */
    uint32_t live;            /* handles in use. Under the lock */
    uint32_t first_free;      /* SLOT_NONE: none. Under the lock */
    uint32_t newest;          /* highest generation of a slot that was freed. Under the lock */
    _Atomic(void *) *objects; /* NULL in free slots; release by handle_set: publishes the object's contents */
    _Atomic uint32_t
        *generations;    /* written under the lock, relaxed: a rightful reader's own handle orders it */
    uint32_t *next_free; /* of free slots. Under the lock */
};

static struct {
    struct os_lock lock;
    uint32_t room; /* bit k: segment k is there and has a free slot. Under the lock */
    /* NULL: not there. Release when one is made, under the lock; acquire by readers inside S1. */
    struct segment *_Atomic segments[SEGMENTS_MOST];
    /* Where generations start when a segment is made again, so that handles to the former one stay stale. */
    uint32_t floors[SEGMENTS_MOST];
} handles;

struct slot {
    struct segment *segment; /* NULL: there is no such slot */
    unsigned k;              /* which segment */
    uint32_t index;          /* in the segment */
};

static uint64_t first_of(unsigned k) {
    return FIRST_SLOTS * ((UINT64_C(1) << k) - 1);
}

static struct slot slot_at(uint32_t number) {
    unsigned k = 63u - (unsigned)__builtin_clzll(number / FIRST_SLOTS + 1);
    struct slot slot = {NULL, k, (uint32_t)(number - first_of(k))};
    if (k < SEGMENTS_MOST)
        slot.segment = atomic_load_explicit(&handles.segments[k], memory_order_acquire);
    return slot;
}

static _Noreturn void stale(uint64_t handle) {
    fatal_misuse(
        "a handle that is not in use", handle,
        "It was freed before, or never came from tern_handle_new: free a handle once, when nothing uses it "
        "any more.");
}

/* The slot of a handle that is in use. Inside S1. */
static inline struct slot slot_of(uint64_t handle) {
    uint32_t number = (uint32_t)handle - 1;
    uint32_t generation = (uint32_t)(handle >> 32);
    if (unlikely((uint32_t)handle == 0 || (generation & 1) == 0))
        stale(handle);
    struct slot slot = slot_at(number);
    if (unlikely(slot.segment == NULL || atomic_load_explicit(&slot.segment->generations[slot.index],
                                                              memory_order_relaxed) != generation))
        stale(handle);
    return slot;
}

/* Adds the lowest segment that is not there. 0, or -1 with errno ENOMEM. */
static int add_segment(void) {
    unsigned k = 0;
    while (k < SEGMENTS_MOST && atomic_load_explicit(&handles.segments[k], memory_order_relaxed) != NULL)
        k++;
    if (k == SEGMENTS_MOST) {
        errno = ENOMEM;
        return -1;
    }
    size_t slots = FIRST_SLOTS << k;
    struct segment *segment = offheap_alloc(sizeof *segment);
    /* The objects first: they want the alignment. Zeroed, so that no handle fits a slot that was never taken.
     */
    char *arrays = offheap_zalloc(
        slots * (sizeof *segment->objects + sizeof *segment->generations + sizeof *segment->next_free));
    if (segment == NULL || arrays == NULL) {
        offheap_free(segment);
        offheap_free(arrays);
        errno = ENOMEM;
        return -1;
    }
    *segment =
        (struct segment){.slots = (uint32_t)slots, .first_free = SLOT_NONE, .newest = handles.floors[k]};
    segment->objects = (void *)arrays;
    segment->generations = (void *)(arrays + slots * sizeof *segment->objects);
    segment->next_free = (void *)(arrays + slots * (sizeof *segment->objects + sizeof *segment->generations));
    atomic_store_explicit(&handles.segments[k], segment, memory_order_release);
    handles.room |= 1u << k;
    return 0;
}

/* Takes a free slot of a segment that has one. */
static uint32_t take_slot(struct segment *segment, unsigned k) {
    uint32_t index = segment->first_free;
    if (index != SLOT_NONE) {
        segment->first_free = segment->next_free[index];
    } else {
        index = segment->touched++;
        atomic_init(&segment->objects[index], NULL);
        atomic_init(&segment->generations[index], handles.floors[k]);
    }
    segment->live++;
    if (segment->live == segment->slots)
        handles.room &= ~(1u << k);
    return index;
}

/* What a handle holds is a root that the start stop has looked at; what it comes to hold is told to the markers.
 */
static void shade(struct mutator *self, const void *object) {
    if (barrier_is_on())
        barrier_record_inside(self, (uintptr_t)object);
}

uint64_t handle_new(struct mutator *self, void *object) {
    uint64_t handle = 0;
    mutator_enter(self);
    shade(self, object);
    os_lock_acquire(&handles.lock);
    if (handles.room != 0 || add_segment() == 0) {
        unsigned k = (unsigned)__builtin_ctz(handles.room);
        struct segment *segment = atomic_load_explicit(&handles.segments[k], memory_order_relaxed);
        uint32_t index = take_slot(segment, k);
        uint32_t generation = atomic_load_explicit(&segment->generations[index], memory_order_relaxed) + 1;
        atomic_store_explicit(&segment->objects[index], object, memory_order_release);
        atomic_store_explicit(&segment->generations[index], generation, memory_order_relaxed);
        handle = (uint64_t)generation << 32 | (first_of(k) + index + 1);
    }
    os_lock_release(&handles.lock);
    mutator_leave(self);
    return handle;
}

void *handle_get(struct mutator *self, uint64_t handle) {
    mutator_enter(self);
    struct slot slot = slot_of(handle);
    void *object = atomic_load_explicit(&slot.segment->objects[slot.index], memory_order_acquire);
    mutator_leave(self);
    return object;
}

void handle_set(struct mutator *self, uint64_t handle, void *object) {
    mutator_enter(self);
    shade(self, object);
    os_lock_acquire(&handles.lock);
    struct slot slot = slot_of(handle);
    atomic_store_explicit(&slot.segment->objects[slot.index], object, memory_order_release);
    os_lock_release(&handles.lock);
    mutator_leave(self);
}

void handle_free(struct mutator *self, uint64_t handle) {
    mutator_enter(self);
    os_lock_acquire(&handles.lock);
    struct slot slot = slot_of(handle);
    struct segment *segment = slot.segment;
    uint32_t generation = (uint32_t)(handle >> 32) + 1;
    atomic_store_explicit(&segment->objects[slot.index], NULL, memory_order_relaxed);
    atomic_store_explicit(&segment->generations[slot.index], generation, memory_order_relaxed);
    segment->next_free[slot.index] = segment->first_free;
    segment->first_free = slot.index;
    segment->live--;
    if (generation > segment->newest)
        segment->newest = generation;
    handles.room |= 1u << slot.k;
    os_lock_release(&handles.lock);
    mutator_leave(self);
}

uint64_t handle_each_root(roots_visit *visit, void *context) {
    uint64_t bytes = 0;
    if (TERN_ASSERT_LEVEL >= 2)
        handle_check();
    for (unsigned k = 0; k < SEGMENTS_MOST; k++) {
        const struct segment *segment = atomic_load_explicit(&handles.segments[k], memory_order_relaxed);
        if (segment == NULL || segment->live == 0)
            continue;
        visit(context, (const void *)segment->objects, segment->touched);
        bytes += segment->touched * sizeof *segment->objects;
    }
    return bytes;
}

static void drop_segment(unsigned k) {
    struct segment *segment = atomic_load_explicit(&handles.segments[k], memory_order_relaxed);
    handles.floors[k] = segment->newest;
    handles.room &= ~(1u << k);
    atomic_store_explicit(&handles.segments[k], NULL, memory_order_relaxed);
    offheap_free((void *)segment->objects);
    offheap_free(segment);
}

void handle_trim(void) {
    /* The first stays: it is small, and most programs will want it again. */
    for (unsigned k = 1; k < SEGMENTS_MOST; k++) {
        const struct segment *segment = atomic_load_explicit(&handles.segments[k], memory_order_relaxed);
        if (segment != NULL && segment->live == 0)
            drop_segment(k);
    }
}

void handle_forget(void) {
    for (unsigned k = 0; k < SEGMENTS_MOST; k++)
        if (atomic_load_explicit(&handles.segments[k], memory_order_relaxed) != NULL)
            drop_segment(k);
}

void handle_check(void) {
    for (unsigned k = 0; k < SEGMENTS_MOST; k++) {
        const struct segment *segment = atomic_load_explicit(&handles.segments[k], memory_order_relaxed);
        gc_check(segment != NULL || (handles.room >> k & 1) == 0,
                 "a handle segment that is not there has room");
        if (segment == NULL)
            continue;
        gc_check((handles.room >> k & 1) == (segment->live < segment->slots),
                 "a handle segment's room is wrong");
        uint32_t live = 0, free = 0;
        for (uint32_t i = 0; i < segment->touched; i++)
            live += atomic_load_explicit(&segment->generations[i], memory_order_relaxed) & 1;
        gc_check(live == segment->live, "handles in use were miscounted");
        for (uint32_t i = segment->first_free; i != SLOT_NONE; i = segment->next_free[i]) {
            gc_check(i < segment->touched && ++free <= segment->touched, "a list of free handles is broken");
            gc_check((atomic_load_explicit(&segment->generations[i], memory_order_relaxed) & 1) == 0 &&
                         atomic_load_explicit(&segment->objects[i], memory_order_relaxed) == NULL,
                     "a free handle is in use");
        }
        gc_check(live + free == segment->touched, "a handle is neither in use nor free");
    }
}
