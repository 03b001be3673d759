/*
 * Grey queues: a stack of objects to scan for each marker, in segments of 8 KiB, and the pool through which
 * markers share. Owns segments and the pool; knows nothing of objects.
 *
 * A marker that runs dry takes a segment from the pool; one that has work gives away the bottom half of its
 * stack when somebody is hungry (the bottom holds the oldest, so the largest, subgraphs). A push that cannot
 * get memory fails: the marker then flags the object's page and finds it again later, so marking always ends.
 */
#ifndef GC_GREY_H
#define GC_GREY_H

#include "gc/base.h"

/* Where to scan (an address in the heap), with the class and kind packed above it: one word an object. */
typedef uint64_t grey_entry;

#define GREY_ADDRESS_BITS 48
static inline grey_entry grey_pack(uintptr_t address, unsigned size_class, unsigned kind) {
    return (uint64_t)address | (uint64_t)(kind << 8 | size_class) << GREY_ADDRESS_BITS;
}
static inline uintptr_t grey_address(grey_entry e) {
    return (uintptr_t)(e & ((UINT64_C(1) << GREY_ADDRESS_BITS) - 1));
}
static inline unsigned grey_class(grey_entry e) {
    return (unsigned)(e >> GREY_ADDRESS_BITS) & 0xff;
}
static inline unsigned grey_kind(grey_entry e) {
    return (unsigned)(e >> (GREY_ADDRESS_BITS + 8));
}

/* 8 KiB with its header: small heaps keep one for each marker, large ones do not notice. */
#define GREY_SEGMENT_ENTRIES 1022

struct grey_segment {
    struct grey_segment *below;
    uint64_t count; /* entries; kept for segments that are not on top */
    grey_entry entries[GREY_SEGMENT_ENTRIES];
};

struct grey_stack {
    struct grey_segment *top; /* never NULL once grey_stack_init succeeded */
    uint32_t count;           /* entries in the top segment */
    uint32_t segments;
    struct grey_segment *spare; /* one empty segment kept back, or NULL */
};

/* 0, or -1 with errno ENOMEM. */
int grey_stack_init(struct grey_stack *stack);
void grey_stack_destroy(struct grey_stack *stack);

bool grey_push_slow(struct grey_stack *stack, grey_entry e);
bool grey_pop_slow(struct grey_stack *stack, grey_entry *e);

static inline bool grey_push(struct grey_stack *stack, grey_entry e) {
    if (likely(stack->count < GREY_SEGMENT_ENTRIES)) {
        stack->top->entries[stack->count++] = e;
        return true;
    }
    return grey_push_slow(stack, e);
}
static inline bool grey_pop(struct grey_stack *stack, grey_entry *e) {
    if (likely(stack->count != 0)) {
        *e = stack->top->entries[--stack->count];
        return true;
    }
    return grey_pop_slow(stack, e);
}

/*
 * Sharing. The pool holds two kinds of work: objects for anybody, and objects that only the library's own threads
 * may scan (their trace functions are the program's). A marker is busy from grey_pool_enter, or a take that brought
 * work, until a take that brings none. Marking is dry when no marker is busy and the pool is empty. It may become
 * wet again: the barrier adds objects at any time.
 */

/* The pool must be dry. Before the first marker of a cycle. */
void grey_pool_open(void);
/* The caller is busy: it has work, or may find some. */
void grey_pool_enter(void);
/* Whether a marker waits for work; relaxed, a hint. */
bool grey_pool_hungry(void);
/* Gives the bottom half of the stack to the pool, if it has at least two entries. */
void grey_pool_donate(struct grey_stack *stack);
/* The stack is empty and its marker busy: waits for work, which is on the stack then, or for all to be dry: false, and
 * it is not busy any more. */
bool grey_pool_take(struct grey_stack *stack);
/* The same without waiting, for a marker that was not busy and is now, unless the answer is false: nothing to be
 * had. With `guest`, objects for the library's own threads are left alone. */
bool grey_pool_try(struct grey_stack *stack, bool guest);
/* Gives all of the stack to the pool; its marker is not busy any more. `own` holds objects for the library's
 * threads only; may be NULL. */
void grey_pool_leave(struct grey_stack *stack, struct grey_stack *own);
/* The marker is not busy any more, yet keeps what is on its stack: nobody else will look, so it must enter again.
 */
void grey_pool_pause(void);
/* Objects for others to scan, from who is no marker. false: no memory for all of them. */
bool grey_pool_put(const grey_entry *entries, size_t count);
/* Whether there is no work and nobody busy. Racy unless the world is stopped and no marker runs. */
bool grey_pool_is_dry(void);

/* For tests: how many segments may exist in all; pushes beyond fail as if memory were gone. 0: no bound. */
extern uint32_t grey_segments_most;

#endif
