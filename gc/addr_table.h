/*
 * A hash table from an address (or any nonzero word) to a 64-bit value, off the managed heap. Open
 * addressing, linear probing, removal by shifting back, so that it never fills with tombstones. The caller
 * brings the lock.
 *
 * Only addr_table_put and addr_table_trim ask for memory; finding, removing and walking never do, so that
 * they may run where nothing may fail. A zeroed struct is an empty table.
 *
 * Invariants (addr_table_check): at most 3/4 of the entries are in use; between an entry's home and the entry
 * itself none is empty; `count` is the number of entries in use.
 */
#ifndef GC_ADDR_TABLE_H
#define GC_ADDR_TABLE_H

#include "gc/base.h"

struct addr_entry {
    uintptr_t key; /* 0: empty */
    uint64_t value;
};

struct addr_table {
    struct addr_entry *entries; /* NULL until the first put */
    size_t capacity;            /* a power of two, or 0 */
    size_t count;
};

/* Sets key's value, adding it if it is new. 0, or -1 with errno ENOMEM: then nothing has changed. `key` is
 * not 0. */
int addr_table_put(struct addr_table *table, uintptr_t key, uint64_t value);
/* Where key's value lies until the table is next changed, or NULL. */
uint64_t *addr_table_find(const struct addr_table *table, uintptr_t key);
/* Whether it was there. */
bool addr_table_remove(struct addr_table *table, uintptr_t key);
/* Gives memory back when the table has become sparse; O(1) when it has not. Does nothing when memory is
 * short. */
void addr_table_trim(struct addr_table *table);
/* Empties the table and gives back all its memory. */
void addr_table_destroy(struct addr_table *table);

/* Visits each entry once, in no order; the current one may be removed, anything else ends the walk's promise.
 */
struct addr_walk {
    size_t at;   /* index of the current entry */
    size_t left; /* entries not yet looked at, the current one excluded */
};
void addr_walk_begin(const struct addr_table *table, struct addr_walk *walk);
/* The next entry, or NULL at the end. Its value may be written. */
struct addr_entry *addr_walk_next(const struct addr_table *table, struct addr_walk *walk);
/* Removes the current entry, whose pointer is no longer to be used. */
void addr_walk_remove(struct addr_table *table, struct addr_walk *walk);

/* Stops the program if an invariant is broken. Walks the whole table. */
void addr_table_check(const struct addr_table *table);

#endif
