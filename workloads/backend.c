/* The list of backends. Owns nothing but the list; calls nobody. */
#include "workloads/backend.h"

#include <string.h>

const struct backend *const backend_all[] = {&backend_tern, &backend_boehm, &backend_malloc, NULL};

const struct backend *backend_find(const char *name) {
    for (const struct backend *const *b = backend_all; *b; b++)
        if (strcmp((*b)->name, name) == 0)
            return *b;
    return NULL;
}

void backend_stats_clear(struct backend_stats *stats) {
    *stats = (struct backend_stats){
        .gogc = RATIO_ABSENT,
        .memlimit_bytes = LIMIT_ABSENT,
        .collections = STAT_UNKNOWN,
        .forced = STAT_UNKNOWN,
        .alloc_bytes = STAT_UNKNOWN,
        .allocs = STAT_UNKNOWN,
        .peak_heap_bytes = STAT_UNKNOWN,
        .peak_counted_bytes = STAT_UNKNOWN,
        .live_bytes = STAT_UNKNOWN,
        .total_bytes = STAT_UNKNOWN,
        .goal_bytes = LIMIT_ABSENT,
        .pause_count = STAT_UNKNOWN,
        .pause_max_ns = STAT_UNKNOWN,
        .pause_p99_ns = STAT_UNKNOWN,
        .pause_p50_ns = STAT_UNKNOWN,
        .pause_total_ns = STAT_UNKNOWN,
        .stopping_max_ns = STAT_UNKNOWN,
        .stopping_p50_ns = STAT_UNKNOWN,
        .stopping_p99_ns = STAT_UNKNOWN,
        .gc_cpu_ns = STAT_UNKNOWN,
        .gc_cpu_percent = -1,
        .limit_passed = STAT_UNKNOWN,
        .limit_passed_by_bytes = STAT_UNKNOWN,
        .limiter_skipped = STAT_UNKNOWN,
    };
}
