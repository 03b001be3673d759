/*
 * Spans by size class and kind, as shared by all threads: the partly free ones, and the ones not swept since
 * the last cycle. Owns those lists. Full spans and owned spans are in no list; the walk after marking finds
 * them by their page records. A list's lock ranks above the page-run lock.
 */
#ifndef GC_CENTRAL_H
#define GC_CENTRAL_H

#include "gc/mutator.h"
#include "gc/page.h"
#include "gc/pagerun.h"

/*
 * Gives the thread a new open mask for the class and kind. true: the mask has bits (typed and traced slots
 * are zeroed). false: no memory, or, when `growth` is NULL, none but in pages that belong to nobody yet. Inside
 * S1 of `self`. `*slots` is how many slots the mask shows.
 */
bool central_refill(struct mutator *self, enum kind kind, unsigned size_class,
                    const struct pagerun_growth *growth, unsigned *slots);
/* How many bytes the next refill may take at most; for the test against the goal. */
size_t central_refill_bytes(unsigned size_class);
/*
 * The thread gives back its mask and span. Inside S1 of `self`, or `self` is stopped or gone. How many of the
 * bytes given back account's heap still counts.
 */
uint64_t central_give_back(struct mutator *self, enum kind kind, unsigned size_class);

/* Sweeps one unswept span of any class. false: none is left. Any thread that is not stopped. */
bool central_sweep_one(void);
/* Returns when no span is unswept and nobody is sweeping. Depth 0, blocked, cycle lock held. */
void central_sweep_finish(void);

/*
 * With the world stopped, after marking, the epoch advanced: empties all lists. From here to central_decided
 * nothing is swept, since the tables of weak references and cleanups still look at marks: a thread that has
 * used up its span leaves it, and takes another.
 */
void central_reset(void);
/* The tables are done: spans may be swept. Before the walk begins; cycle lock held. */
void central_decided(void);
/* Lists unswept spans of one kind and class that have something live, a chain by `next`. */
void central_list_unswept(page_index first, page_index last);
/* Sweeps what the stopped mutator's spans have not been swept since the last cycle. */
void central_sweep_owned(struct mutator *stopped);

#endif
