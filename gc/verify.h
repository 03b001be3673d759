/*
 * gcverify: checks each collection with simple code of its own. It shares no line with the marker: its own
 * look-up of objects, its own scan of roots and registers, its own queue. Reports object, field and kind,
 * then aborts.
 */
#ifndef GC_VERIFY_H
#define GC_VERIFY_H

#include <stdint.h>

/* World stopped, roots looked at, nothing else marked, what masks show blackened: notes all that is reachable. */
void verify_snapshot(void);
/*
 * World stopped, after marking, before the epoch advances: everything in the snapshot is marked, no marked
 * object points to a white one, what open masks and tiny blocks show is black, large objects are whole.
 */
void verify_marked(void);
/*
 * World stopped, before the next marking, everything swept: page records and free runs are consistent, nothing that
 * was reachable when it was last looked at is gone.
 */
void verify_swept(void);
/* A large object whose memory the kernel refused was freed at once: nothing is to be said about it. Inside S1. */
void verify_taken_back(uintptr_t base);
/* Forgets everything. At shutdown. */
void verify_forget(void);

#endif
