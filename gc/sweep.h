/*
 * After marking: the walk over all page records that frees what is wholly dead and lists the rest for lazy
 * sweeping, and the thread that sweeps in the background. Owns that thread.
 */
#ifndef GC_SWEEP_H
#define GC_SWEEP_H

#include "gc/base.h"

struct sweep_walk {
    uint64_t unswept;     /* spans left to be swept lazily */
    uint64_t freed_bytes; /* pages given back to the free runs */
};
/*
 * Frees dead large objects and spans without a marked object, large ones being whole runs; lists other spans
 * as unswept; sweeps spans that threads own. World stopped, epoch advanced.
 */
struct sweep_walk sweep_walk(void);

/* Starts the background thread if there is none yet; depth 0, world running. */
void sweep_prepare(void);
/* Whether the policy wants memory returned. Cycle lock held, the background thread not let go yet. */
bool sweep_has_excess(void);
/* Lets the background thread sweep, then return excess memory. World running. */
void sweep_begin(void);
/* Keeps it from sweeping, and returns when it is not: then finishes what is left. Blocked, cycle lock held.
 */
void sweep_finish(void);
void sweep_shutdown(void);
/* CPU ns of the background thread so far. */
int64_t sweep_background_cpu_ns(void);

#endif
