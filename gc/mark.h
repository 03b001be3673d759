/*
 * Marking: from roots to the last grey object. Owns the markers and their grey queues; sets mark bits; never
 * frees. Parallel markers are threads of the library's own that run only while a cycle marks.
 */
#ifndef GC_MARK_H
#define GC_MARK_H

#include "gc/base.h"
#include "gc/page.h"

/* 0, or -1 with errno ENOMEM. */
int mark_init(void);
/* Starts helper markers if settings.markers > 1; lazily, before a stop, since pthread_create uses the host's
 * malloc. */
void mark_prepare(uint64_t expected_live_bytes);
void mark_shutdown(void);

struct mark_result {
    uint64_t live_bytes;                /* bytes of slots marked in this cycle */
    uint64_t stack_bytes, global_bytes; /* roots scanned */
    int64_t cpu_ns;                     /* of all markers */
    int markers;
    const char *order; /* "stack" or "ring": what was used for most */
};
/* Marks everything reachable from the roots. World stopped, all spans swept, open masks blackened. */
struct mark_result mark_world(void);

/* Whether the object whose slot contains `object` is marked. World stopped, or no marking under way. */
bool mark_is_marked(const void *object);
/* The order forced by settings, or the one that the last cycle used for most objects. */
const char *mark_order_name(void);

#endif
