/*
 * Marking: from roots to the last grey object. Owns the markers and their grey queues; sets mark bits; never
 * frees. Helper markers are threads of the library's own that run only while a cycle marks; mutators that
 * allocate faster than marking goes help too (assists).
 *
 * In a stop: mark_begin, mark_roots, then mark_to_end or mark_for. Beside the program: mark_beside. The caller
 * holds the cycle lock; only mark_assist, mark_recorded and the questions at the end are for others.
 */
#ifndef GC_MARK_H
#define GC_MARK_H

#include "gc/base.h"
#include "gc/page.h"
#include "gc/roots.h"

struct mutator;

/* 0, or -1 with errno ENOMEM. */
int mark_init(void);
/* Starts helper markers if settings.markers > 1; lazily, before a stop, since pthread_create uses the host's
 * malloc. */
void mark_prepare(uint64_t expected_live_bytes);
void mark_shutdown(void);
/* In the child of a fork, no cycle under way: the helpers are gone, and started anew when they are wanted. */
void mark_after_fork(void);

/* A new cycle. World stopped, all spans swept, open masks blackened. */
void mark_begin(void);
/* Marks what every root leads to. World stopped. */
struct roots_size mark_roots(void);
/* Marks to the end with all helpers. World stopped. */
void mark_to_end(void);
/* Marks alone for about so long. World stopped. true: nothing is grey any more. */
bool mark_for(int64_t ns);
/*
 * Marks beside the running program until nothing is grey that can be seen: with one processor's worth of
 * background workers for every four, and more where processors are idle (not with `share_only`). `look` is called now and then with the
 * work done in this cycle so far.
 */
void mark_beside(void (*look)(void), bool share_only);

/*
 * The calling mutator scans for its debt of scan work (bytes), in pieces inside S1. What background workers did
 * beyond their own need pays first. Returns what is left of the debt: more than 0 when there was nothing to
 * scan. Depth 0, barrier on.
 */
int64_t mark_assist(struct mutator *self, int64_t debt);

/* Some page was flagged PAGE_REGREY by somebody who is no marker. */
void mark_note_overflow(void);

/* Scan work of this cycle so far, in bytes, by whomever. */
uint64_t mark_work_done(void);

struct mark_result {
    uint64_t live_bytes; /* bytes of slots marked in this cycle */
    /* Of them, kept for what is as likely a pointer to the next object's first byte. */
    uint64_t doubted_bytes;
    uint64_t scanned_bytes;
    int64_t cpu_ns;        /* of all markers but assists */
    int64_t own_cpu_ns;    /* of that, on the cycle's thread */
    int64_t beside_ns;     /* wall time of marking beside the program */
    int64_t beside_cpu_ns; /* of cpu_ns, in it */
    int64_t wall_ns;       /* that and of marking in stops */
    int64_t assist_ns;     /* CPU of assists */
    int64_t idle_ns;       /* of cpu_ns, what idle processors gave */
    int markers;
    const char *order; /* "stack" or "ring": what was used for most */
};
/* What it came to. Nothing is grey. */
struct mark_result mark_result(void);

/* Whether the object whose slot contains `object` is marked. World stopped, or no marking under way. */
bool mark_is_marked(const void *object);
/*
 * Whether the last marking found the object at `object` dead, while its span is not swept yet: what was allocated
 * since is not. For the tables, between the end of marking and the first sweep.
 */
bool mark_found_dead(const void *object);
/* The order forced by settings, or the one that the last cycle used for most objects. */
const char *mark_order_name(void);

#endif
