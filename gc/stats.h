/*
 * What has happened so far: cycles, pauses, CPU by part. Owns those figures and their lock (a leaf). The
 * trace line and the statistics call read the same ones.
 */
#ifndef GC_STATS_H
#define GC_STATS_H

#include "gc/histogram.h"
#include "gc/report.h"

struct stats_cycles {
    uint64_t collections, forced;
    uint64_t limit_passed, limit_passed_by, limiter_skipped;
    struct histogram pauses;
    struct histogram stopping; /* of each pause, until all threads stood still */
    int64_t stop_cpu_ns, mark_cpu_ns, sweep_cpu_ns,
        other_cpu_ns; /* sweep: of cycles; threads and background apart */
    int64_t start_ns; /* of the library */
};

void stats_init(int64_t start_ns);

/* Adds one stop: how long, and how long until all were stopped. Any thread that is not inside S1. */
void stats_stop(int64_t pause_ns, int64_t stopping_ns);
/* Adds a cycle. Returns its number. */
uint64_t stats_add(const struct cycle_report *report);
/* The total went over the limit by `bytes`; returns how many times it has, this one included. */
uint64_t stats_limit_passed(uint64_t bytes);
void stats_limiter_skipped(void);
/* A consistent copy. Not inside S1 of a stopped world. */
void stats_copy(struct stats_cycles *out);

/* CPU that the collector took since its start, in percent of wall time since then times processors. */
double stats_gc_cpu_percent(int64_t gc_cpu_ns, int64_t now_ns);

#endif
