/*
 * gcverify: checks each collection with simple code of its own. It shares no line with the marker: its own
 * look-up of objects, its own scan of roots and registers, its own queue. Reports object, field and kind,
 * then aborts.
 */
#ifndef GC_VERIFY_H
#define GC_VERIFY_H

/* World stopped, before marking: notes all that is reachable. */
void verify_snapshot(void);
/*
 * World stopped, after marking, before the epoch advances: everything in the snapshot is marked, no marked
 * object points to a white one, what open masks and tiny blocks show is black, large objects are whole.
 */
void verify_marked(void);
/*
 * After the walk and the sweep of owned spans, world still stopped: page records and free runs are
 * consistent, nothing that was reachable is gone. What is swept lazily is looked at by the next snapshot.
 */
void verify_swept(void);
/* Forgets everything. At shutdown. */
void verify_forget(void);

#endif
