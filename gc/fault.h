/*
 * Deliberate faults for the checkers' own tests: each makes the collector wrong in one way that gcverify must
 * catch. In a normal build fault_is() is the constant false and every trace of this vanishes. Only the test
 * library tern_faulty is built with TERN_FAULTS; it picks one fault by assigning fault_planted before
 * tern_init.
 */
#ifndef GC_FAULT_H
#define GC_FAULT_H

#include <stdbool.h>

enum fault {
    FAULT_NONE,
    FAULT_LAST_WORD_NOT_SCANNED,     /* the marker leaves out the last word of an object */
    FAULT_OPEN_MASK_NOT_BLACKENED,   /* the start leaves the rest of an open mask white */
    FAULT_TINY_BLOCK_LEFT_WHITE,     /* the start leaves a thread's open tiny block white */
    FAULT_VECTOR_REGISTER_UNSCANNED, /* the extended state of a stopped thread's frame is not a root */
    FAULT_SWEEP_HELD_PAGE,           /* a page is swept as if nobody held a mask of it */
    FAULT_DROP_HALF_STOLEN,          /* half of what a marker takes from another is forgotten */
    FAULT_LARGE_TAIL_FREED,          /* the last page of a large object is freed while it lives */
    FAULT_PLAIN_STORE,               /* tern_store records nothing */
    FAULT_RECORDS_UNREAD,            /* what the barrier recorded is thrown away */
    FAULT_WHITE_ALLOCATION,          /* slots that are taken while marking are white */
    FAULT_WHITE_LARGE                /* large objects allocated while marking are white */
};

#ifdef TERN_FAULTS
extern enum fault fault_planted;
static inline bool fault_is(enum fault which) {
    return fault_planted == which;
}
#else
static inline bool fault_is(enum fault which) {
    (void)which;
    return false;
}
#endif

#endif
