/* The loop of the workload "latency"; see latency_work.h. */
#include "workloads/latency_work.h"

#include <stdio.h>
#include <string.h>

#include "gc/histogram.h"
#include "workloads/canary.h"
#include "workloads/marks.h"
#include "workloads/measure.h"

static void **ring; /* a root */
static struct histogram pushes;

/* Pushes all messages. How many it could; fewer than wanted when memory ran out. The end of a push is the
 * beginning of the next, so no stall falls between two. */
static uint64_t push_all(const struct backend *b, const struct latency_work *work) {
    uint64_t slot = 0, before_ns = measure_wall_ns();
    for (uint64_t i = 0; i < work->count; i++) {
        void *message = b->alloc_unzeroed(work->size);
        if (!message)
            return i;
        memset(message, mark_of(i), work->size);
        void *old = ring[slot];
        b->store(&ring[slot], message);
        b->release(old);
        if (++slot == work->ring)
            slot = 0;
        uint64_t now_ns = measure_wall_ns();
        histogram_add(&pushes, now_ns - before_ns);
        before_ns = now_ns;
    }
    return work->count;
}

/* The number of the first push whose message in the ring is not as it was; `count` when all are. */
static uint64_t find_bad(const struct latency_work *work) {
    uint64_t first = work->count > work->ring ? work->count - work->ring : 0;
    for (uint64_t i = first; i < work->count; i++) {
        const void *message = ring[i % work->ring];
        if (!message || !marks_all(message, work->size, mark_of(i)))
            return i;
    }
    return work->count;
}

static int measure(const struct backend *b, const struct latency_work *work, struct latency_result *result,
                   char *error, size_t error_cap) {
    struct canary canary;
    int rc = canary_start(&canary, work->canary);
    if (rc != 0) {
        snprintf(error, error_cap, "cannot make the canary's thread: %s", strerror(rc));
        return -1;
    }
    uint64_t cpu_ns = canary_others_cpu_ns(&canary), wall_ns = measure_wall_ns();
    uint64_t pushed = push_all(b, work);
    result->wall_ns = measure_wall_ns() - wall_ns;
    result->cpu_ns = canary_others_cpu_ns(&canary) - cpu_ns;
    result->canary_worst_ns = canary_stop(&canary);
    result->peak_rss_bytes = measure_peak_rss_bytes();
    if (pushed < work->count) {
        snprintf(error, error_cap, "no memory for message %llu", (unsigned long long)pushed);
        return -1;
    }
    uint64_t bad = find_bad(work);
    if (bad < work->count) {
        snprintf(error, error_cap, "message %llu is in the ring and has changed", (unsigned long long)bad);
        return -1;
    }
    return 0;
}

int latency_work(const struct backend *backend, const struct latency_work *work,
                 struct latency_result *result, char *error, size_t error_cap) {
    *result = (struct latency_result){.rss_before_bytes = measure_rss_bytes()};
    histogram_init(&pushes);
    if (backend->root_add(&ring, sizeof ring) != 0 ||
        !(ring = backend->alloc(work->ring * sizeof *ring, SCAN_WORDS))) {
        snprintf(error, error_cap, "no memory for a ring of %llu slots", (unsigned long long)work->ring);
        return -1;
    }
    int rc = measure(backend, work, result, error, error_cap);
    result->worst_ns = pushes.max_ns;
    result->p999_ns = histogram_quantile(&pushes, 0.999);
    result->p99_ns = histogram_quantile(&pushes, 0.99);
    result->p50_ns = histogram_quantile(&pushes, 0.50);

    for (uint64_t slot = 0; slot < work->ring; slot++)
        backend->release(ring[slot]);
    backend->release(ring);
    ring = NULL;
    backend->root_remove(&ring, sizeof ring);
    return rc;
}
