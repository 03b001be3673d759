/* The record of one run of a workload, and its JSON.
 *
 * Does: holds what a run measured; writes it as a JSON object and reads it back, from one table of fields.
 * Owns: the table. Never: measures anything. Calls: jansson.
 *
 * The document is {"runs":[{...}],"relations":{"name":true}}. A field that a backend cannot tell is null; so
 * is a limit that is not set. gogc is a number, "off", or null where there is no growth ratio. A figure that
 * only some workloads have is left out of the others' records.
 */
#ifndef WORKLOADS_RUN_H
#define WORKLOADS_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "workloads/backend.h"

struct run {
    char workload[16], backend[16];
    struct backend_stats stats;
    /* Of the process; before: just before the first allocation; after: when all was done (and released). */
    uint64_t rss_before_bytes, peak_rss_bytes, rss_after_bytes;
    uint64_t wall_ns, cpu_ns; /* from the first allocation to the last */
    uint64_t size_bytes, count, keep, threads, scan;
    uint64_t failed_allocations;
    uint64_t boehm_divisor, boehm_max_heap_bytes, boehm_initial_heap_bytes; /* unknown when not set */
    /* Of some workloads only; unknown in others, whose JSON has not got them. */
    uint64_t canary_worst_ns;                                       /* unknown when there was none */
    uint64_t push_worst_ns, push_p999_ns, push_p99_ns, push_p50_ns; /* latency */
    uint64_t typed, parked, parked_raw, checksum;                   /* biglive */
    uint64_t collect_wall_ns, collect_cpu_ns;                       /* biglive: one forced collection */
};

/* All fields unknown, names as given. */
void run_clear(struct run *run, const char *workload, const char *backend);

/* A new reference; NULL when memory is gone. */
json_t *run_to_json(const struct run *run);
/* 0; or -1 when a field is missing or has a wrong type: `field` then names it. */
int run_from_json(const json_t *object, struct run *run, const char **field);

/* The first run of a whole document in `text`. 0; or -1 with what is wrong in `error`. */
int run_from_document(const char *text, size_t len, struct run *run, char *error, size_t error_cap);
/* Writes the document and a newline to standard output; takes over both references. 0, or -1 with errno. */
int run_print_document(json_t *runs, json_t *relations);

/* Peak of the resident set less what it was before the first allocation. */
uint64_t run_own_peak_rss_bytes(const struct run *run);

#endif
