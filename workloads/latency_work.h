/* The work of the workload "latency": messages pushed through a ring, each push timed.
 *
 * Does: allocates a message, fills it, puts it into the next slot of the ring, over and over; measures each
 * push by the wall clock. Owns: the ring while it runs. Never: prints. Calls: one backend, measure.h,
 * canary.h.
 *
 * It is the work with which Go's stops were first compared with GHC's (Will Sewell, "Golang's Real-time GC in
 * Theory and Practice", Pusher, 2016, after James Fisher's program of that year). The ring is one large
 * object full of pointers, so a collector that scans an object in one go shows that too.
 */
#ifndef WORKLOADS_LATENCY_WORK_H
#define WORKLOADS_LATENCY_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "workloads/backend.h"

struct latency_work {
    size_t size;    /* bytes of a message, at least 1 */
    uint64_t ring;  /* slots, at least 1 */
    uint64_t count; /* of pushes */
    bool canary;
};

struct latency_result {
    uint64_t rss_before_bytes, peak_rss_bytes;
    uint64_t wall_ns, cpu_ns; /* CPU without the canary's */
    uint64_t worst_ns, p999_ns, p99_ns, p50_ns;
    uint64_t canary_worst_ns; /* STAT_UNKNOWN: there was none */
};

/* 0; or -1 with one line in `error`: no memory, or a message in the ring that is not what was pushed. */
int latency_work(const struct backend *backend, const struct latency_work *work,
                 struct latency_result *result, char *error, size_t error_cap);

#endif
