/*
 * gcverify's quarantine: what a cycle frees is filled with a pattern and held back for one cycle, then looked
 * at. A write after free, or an object freed while in use, shows as a broken pattern. Owns the pattern and
 * the bits in heap.quarantine; only in use when heap.quarantine is there.
 */
#ifndef GC_QUARANTINE_H
#define GC_QUARANTINE_H

#include <stddef.h>
#include <stdint.h>

#include "gc/page.h"

#define QUARANTINE_BYTE 0xdb

/*
 * The sweep of a group: slots held since the last cycle are checked and let go, `freed` ones are filled and
 * held. The caller has the span's claim.
 */
void quarantine_group(page_index head, unsigned group, uint64_t freed);
/* The same for a large object. */
void quarantine_large(page_index head);       /* fills and holds */
void quarantine_large_check(page_index head); /* checks before it is let go */

/* Broken patterns found so far. Each was reported on standard error; gcverify aborts at the first. */
void quarantine_fill(char *at, size_t bytes);
void quarantine_verify(const char *at, size_t bytes, const char *what);

#endif
