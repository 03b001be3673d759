/*
 * Large objects: over 32 KiB, whole pages of their own. Owns how they are made and unmade; the walk after
 * marking frees them.
 */
#ifndef GC_LARGE_H
#define GC_LARGE_H

#include "gc/mutator.h"
#include "gc/page.h"

/*
 * A zeroed object of at least `size` bytes. NULL when the kernel has no memory; the caller collects and tries
 * again. Depth 0. Population and zeroing happen outside S1, so that a stop need not wait for them.
 * `alignment` is a power of two up to 1 MiB; beyond a page it costs up to that much more.
 */
void *large_alloc(struct mutator *self, size_t size, size_t alignment, enum kind kind);
/* Bytes that an object of `size` bytes takes. SIZE_MAX when that cannot be. */
size_t large_bytes(size_t size);
/* Gives the pages back. The caller is the only one who knows the object. */
void large_free(page_index head);

#endif
