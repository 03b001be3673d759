/*
 * Runs of 8 KiB pages: who may have them, which are resident, what goes back to the kernel. Owns the free
 * runs, the residency bitmap and the page-run lock (rank: innermost but for off-heap). Free runs merge at
 * once with their neighbours; the run freed last is given out first, since its memory is the warmest.
 *
 * Callers are inside S1, or hold the cycle lock with the world stopped or running.
 */
#ifndef GC_PAGERUN_H
#define GC_PAGERUN_H

#include "gc/base.h"
#include "gc/page.h"

/* 0, or -1 with errno ENOMEM. */
int pagerun_init(bool huge_pages);
void pagerun_destroy(void);

/* How a run comes back from pagerun_take. */
struct pagerun {
    page_index first; /* 0: no memory to be had */
    bool populated;   /* false: the caller populates it (outside S1) before it counts on it being there */
    bool zeroed;      /* fresh from the kernel: all zero once populated */
};

/* Runs up to this long are populated here, in one bounded piece; longer ones by the caller. */
#define PAGERUN_POPULATE_PAGES ((2 * MIB) / PAGE_BYTES)

/* How the heap may grow; account_growth says. */
struct pagerun_growth {
    uint64_t room; /* bytes that may still be taken from the kernel under the limit; UINT64_MAX: no limit */
    uint64_t step; /* bytes to grow by; OS_HUGE_PAGE unless the heap is small and near its goal */
    bool hard;     /* room is not passed: the call fails */
};

/*
 * Takes `pages` pages, resident ones first. The pages' records are PAGE_NONE; the caller makes a span or a
 * large object of them. When what must come from the kernel would pass growth.room, free memory elsewhere is
 * returned first and the heap grows by no more than it must; that never makes the call fail unless
 * growth.hard.
 */
struct pagerun pagerun_take(size_t pages, struct pagerun_growth growth);

/* Whether so many free pages in a row are resident now. */
bool pagerun_has_resident(size_t pages);

/*
 * Gives back the run, or a part of it; its records become those of a free run. What pagerun_take left for the
 * caller to populate counts as populated when a large object was made of it, and as cold otherwise.
 */
void pagerun_give(page_index first, size_t pages);
/* The same for a run that the caller could not populate, or not all of: whatever is resident of it goes back
 * to the kernel. */
void pagerun_give_unpopulated(page_index first, size_t pages);

/*
 * Returns free resident memory to the kernel: at least `bytes` if there is so much, whole 2 MiB pieces first,
 * and with `small_too` smaller ones. Returns the bytes returned.
 */
uint64_t pagerun_release(uint64_t bytes, bool small_too);

/* Bytes; relaxed readings. */
uint64_t pagerun_used_bytes(void);     /* pages of spans and large objects */
uint64_t pagerun_free_bytes(void);     /* free and resident */
uint64_t pagerun_returned_bytes(void); /* given back so far, in all */

/* Walks free runs and residency; aborts when anything is inconsistent. Level-2 assertion and tests. */
void pagerun_check(void);

#endif
