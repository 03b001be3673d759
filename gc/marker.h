/*
 * One marker and its inner loop, shared by mark.c (the cycle's side) and marker.c (the loop itself). See
 * mark.h.
 */
#ifndef GC_MARKER_H
#define GC_MARKER_H

#include "gc/grey.h"
#include "gc/page.h"

/* Length of the rings: 16 objects in flight hide a memory access at about 5 ns of work each. */
#define MARKER_RING_LENGTH 16

struct marker {
    struct grey_stack grey;
    /* Copies, so that the loop need not load globals. */
    uintptr_t base;
    size_t grown;
    struct page *pages;
    uint64_t live_bytes;      /* of what this marker marked, in this cycle */
    uint64_t doubted_bytes;   /* of live_bytes, found by a root that is as likely to mean the object behind */
    uint64_t scanned_bytes;   /* of objects that it scanned, in this cycle */
    uint64_t published_bytes; /* of those, told to the pacing (mark.c) */
    bool guest;               /* a mutator that helps: trace functions are not run here */
    struct grey_stack own;    /* what a guest leaves to the library's threads; made when it is needed */
    bool parallel;            /* others mark too: bits are set atomically */
    bool overflowed;          /* a push failed: some page is flagged PAGE_REGREY */
    bool ring_order;          /* what is in use now */
    bool fixed_order;         /* the order is forced */
    /* What the choice of an order looks at: objects marked, and those far from the one marked before. */
    uint32_t marked, jumps;
    uint32_t ring_looks; /* in ring order since the stack's was last tried */
    page_index last_page;
    uint64_t ring_objects, stack_objects;   /* scanned in each order */
    uintptr_t words[MARKER_RING_LENGTH];    /* words whose page record is on its way */
    grey_entry objects[MARKER_RING_LENGTH]; /* objects whose first line is on its way */
    unsigned word_at, object_at;
    unsigned objects_held; /* entries of `objects` that are not 0 */
    int64_t cpu_ns;
};

void marker_begin(struct marker *m, bool parallel);
/* Words that may be pointers, from an object or a trace function. Any order. */
void marker_visit(void *marker, const void *from, size_t words);
/* Words of a root: what contains the word, and what ends just before it. */
void marker_visit_root(void *marker, const void *from, size_t words);
/* Words that the barrier recorded. */
void marker_visit_recorded(struct marker *m, const uint64_t *words, uint64_t count);
/* Scans up to `objects` objects of the marker's own stack, or until `bytes` bytes are scanned. false: the stack is
 * empty. */
bool marker_step(struct marker *m, unsigned objects, uint64_t bytes);
/* Everything held back in the rings goes to the stack. */
void marker_settle(struct marker *m);
/*
 * For who is no marker: marks what the word leads to. `*entry` is what to queue, 0 when that is nothing: marked
 * already, or pointer-free. Returns the bytes that became live. Inside S1.
 */
uint64_t marker_shade(uintptr_t word, grey_entry *entry);
/* An entry that could not be queued: its object is found again through its page's flag. */
void marker_flag(grey_entry e);
/* Queues an object that is marked already, so that its fields are looked at (again). */
void marker_requeue(struct marker *m, page_index head, unsigned slot);

#endif
