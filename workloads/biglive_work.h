/* The work of the workload "biglive": much that lives, and garbage beside it.
 *
 * Does: builds a forest of small nodes that stays, then trees of the same nodes that are dropped at once, by
 * one thread or several; looks at every node of the forest afterwards. Owns: the forest while it runs, and
 * the parked threads. Never: prints. Calls: one backend, measure.h, canary.h, parked.h, workers.h.
 *
 * A node is 32 bytes: two pointers and 16 bytes of payload, which follow from its number, so that a node that
 * was freed and used again, or lost, is seen, and every backend comes to the same sum. Trees are built from
 * the leaves up, so each pointer is a first store into a new node.
 */
#ifndef WORKLOADS_BIGLIVE_WORK_H
#define WORKLOADS_BIGLIVE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "workloads/backend.h"

#define BIGLIVE_NODE_BYTES 32

struct biglive_work {
    uint64_t live_nodes, garbage_nodes; /* live: at least 1 */
    unsigned threads;                   /* that make the garbage; 1: the calling thread does it */
    bool typed;                         /* nodes are typed objects */
    unsigned parked;                    /* threads more that do nothing */
    bool parked_raw;                    /* and not in a blocking section */
    bool canary;
};

struct biglive_result {
    uint64_t allocs;
    uint64_t rss_before_bytes, peak_rss_bytes;
    uint64_t wall_ns, cpu_ns; /* of the forest and the garbage; CPU without the canary's */
    uint64_t canary_worst_ns; /* STAT_UNKNOWN: there was none */
    uint64_t checksum;        /* of the forest's payloads, below 2^53 */
};

/* Called when all is built and the forest still lives: for what is measured with it there. */
typedef void biglive_built_function(void *context);

/* 0; or -1 with one line in `error`: no memory, a thread that cannot be made, or a forest that has changed.
 */
int biglive_work(const struct backend *backend, const struct biglive_work *work,
                 biglive_built_function *built, void *context, struct biglive_result *result, char *error,
                 size_t error_cap);

#endif
