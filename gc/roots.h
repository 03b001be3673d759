/*
 * Everything that marking starts from. Owns the registered ranges; enumerates stacks, registers, ranges,
 * handles, cleanup arguments and, as an option, data segments, with the world stopped.
 */
#ifndef GC_ROOTS_H
#define GC_ROOTS_H

#include "gc/base.h"
#include "gc/os/os_segment.h"

struct mutator;

/* Receives `words` aligned words that may be pointers. */
typedef void roots_visit(void *context, const void *from, size_t words);

int roots_add(const void *from,
              size_t bytes);        /* 0, or -1 with errno EINVAL or ENOMEM; inside S1 or world running */
int roots_remove(const void *from); /* 0, or -1 with errno ENOENT */

struct roots_size {
    uint64_t stack_bytes, global_bytes;
};
/* Visits every root. World stopped. */
struct roots_size roots_each(roots_visit *visit, void *context);
/* Stops the world by `stop` while the loader's lock is held (rule S7), and notes all writable data segments.
 */
void roots_stop_with_segments(void (*stop)(void));
/* What the two kinds of ranges are at this stop; for the verifier, which visits them with code of its own. */
const struct os_range *roots_registered(size_t *count);
const struct os_range *roots_segments(size_t *count);
/* Forgets all registered ranges. At shutdown. */
void roots_forget(void);
/* Visits one stopped mutator's registers and stacks; bytes visited. For roots_each and tests. */
uint64_t roots_each_mutator(const struct mutator *mutator, roots_visit *visit, void *context);

#endif
