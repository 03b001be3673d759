/*
 * Memory off the managed heap: mark stacks, tables, thread records, type descriptors. Served by a private
 * jemalloc in an arena of the library's own, so that the host's malloc is untouched and its bytes are known
 * exactly for the limit.
 *
 * May be used while the world is stopped: every thread that could hold one of its locks is inside S1 and so
 * not stopped there. Outside a stop, an attached thread calls it inside S1 only.
 */
#ifndef GC_OFFHEAP_H
#define GC_OFFHEAP_H

#include <stddef.h>
#include <stdint.h>

/* 0, or -1 with errno ENOMEM. Once a process; a second call is a no-op. */
int offheap_init(void);

/* Uninitialised memory aligned to 16 (64 from 64 bytes up), or NULL. `bytes` > 0. */
void *offheap_alloc(size_t bytes);
/* The same, zeroed. */
void *offheap_zalloc(size_t bytes);
/* As realloc; NULL leaves the old one alone. `bytes` > 0. */
void *offheap_realloc(void *p, size_t bytes);
/* NULL is ignored. */
void offheap_free(void *p);
/* A copy of a string, or NULL when memory is gone. `text` may be NULL: then NULL. */
char *offheap_strdup(const char *text);

/* Bytes that the arena holds from the kernel, resident: as of the last offheap_refresh, plus what was
 * allocated since. */
uint64_t offheap_bytes(void);
/* Asks jemalloc for exact figures, if anything was allocated or freed since; then it takes tens of
 * microseconds. */
void offheap_refresh(void);

#endif
