/* The work of the workload "blocks": a stream of large blocks of which a few are kept.
 *
 * Does: allocates `count` blocks of `size` bytes, looks that each is zeroed, touches each of its 4 KiB pages,
 * keeps the last `keep` of them and drops the rest at once; measures the time from the first to the last.
 * Owns: the rings of kept blocks while it runs. Never: prints. Calls: one backend, measure.h.
 *
 * With `scan` the blocks may hold pointers and each points to the block before it; the chain is as long as
 * what is kept, and at least two blocks are. A request that fails leaves its place in the ring empty, so that
 * a program with too little memory goes on with what it has.
 */
#ifndef WORKLOADS_BLOCKS_WORK_H
#define WORKLOADS_BLOCKS_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "workloads/backend.h"

struct blocks_work {
    size_t size;      /* bytes of a block; at least 1, with scan at least 16 */
    uint64_t count;   /* of blocks, by all threads */
    uint64_t keep;    /* of blocks, by all threads */
    unsigned threads; /* 1: the calling thread does it */
    bool scan;
    bool check; /* look at every byte of each block, not at one in each page */
};

struct blocks_result {
    uint64_t allocs, failed;
    uint64_t rss_before_bytes;
    uint64_t wall_ns, cpu_ns;
};

/* 0; or -1 with one line in `error`: a thread that cannot be made, a block that was not zeroed, or a kept one
 * that was changed behind the program's back. */
int blocks_work(const struct backend *backend, const struct blocks_work *work, struct blocks_result *result,
                char *error, size_t error_cap);

#endif
