/*
 * The library's background thread, "tern-gc": sleeps until it is rung for or a deadline comes, then does what the
 * collector wants done beside the program. Owns the thread; knows nothing of what it does.
 */
#ifndef GC_BACKGROUND_H
#define GC_BACKGROUND_H

#include "gc/base.h"

struct background_work {
    void (*turn)(void);           /* after each ring, and at the deadline */
    int64_t (*deadline_ns)(void); /* monotonic time at which a turn is due anyhow; INT64_MAX: never */
};

/* Starts the thread if there is none. false: it cannot be had. World running; uses the host's malloc. */
bool background_prepare(const struct background_work *work);
/* Whether there is one. */
bool background_is_there(void);
/* A turn is due. Any thread, inside S1 too. */
void background_ring(void);
/* Ends the thread, after the turn that it is at. */
void background_shutdown(void);
/* In the child of a fork: it is gone, and started anew when it is next prepared. */
void background_after_fork(void);
/* CPU ns of the thread so far. */
int64_t background_cpu_ns(void);

#endif
