/* A histogram of durations, for pauses.
 *
 * Does: counts nanoseconds in log-linear buckets.
 * Owns: struct histogram, of fixed size; the caller says which lock guards it (no atomics here).
 * Never: allocates, or reads a clock; adding is safe in a stopped world.
 * Calls: nobody.
 *
 * The layout is that of HdrHistogram and of Go's timeHistogram (runtime/histogram.go). Values below 16 ns
 * have a bucket each; above, each power of two is cut into 16 equal buckets, so a bucket's upper bound is
 * never more than 1/16 above a value in it. One bucket more takes all beyond (over an hour).
 */
#ifndef TERN_GC_HISTOGRAM_H
#define TERN_GC_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 4  /* 2^4 buckets for each power of two: the 1/16 */
#define HISTOGRAM_MAX_BITS 42 /* 2^42 ns are 73 minutes: a pause beyond an hour needs no finer figure */
/* And one more at the end for what is longer still. */
#define HISTOGRAM_BUCKETS (((HISTOGRAM_MAX_BITS - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS) + 1)

struct histogram {
    uint64_t count;    /* values added */
    uint64_t total_ns; /* their sum; saturates */
    uint64_t max_ns;   /* the largest, exactly; 0 when there is none */
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_init(struct histogram *h);
void histogram_add(struct histogram *h, uint64_t ns);

/* The least bound that is at or above the share q (0 .. 1) of all values: the upper bound of the bucket in
 * which the value of rank ceil(q * count) lies, but never above the maximum. 0 when nothing was added; q is
 * clamped to 0 .. 1. */
uint64_t histogram_quantile(const struct histogram *h, double q);

#endif
