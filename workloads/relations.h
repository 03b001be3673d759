/* The relations that the demonstration must show: true or false, from numbers alone.
 *
 * Does: judges the figures of a demonstration. Owns: nothing; every function is pure. Never: looks at a clock
 * or an absolute time: a relation is an order, a ratio or a bound that holds on any machine. Calls: nobody.
 * A count that is unknown (UINT64_MAX) makes the relation false that needs it.
 */
#ifndef WORKLOADS_RELATIONS_H
#define WORKLOADS_RELATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELATIONS_RATIOS  4 /* growth ratios in the sweep */
#define RELATIONS_LIMITS  4 /* limits, falling */
#define RELATIONS_SPIRALS 2 /* with cheap marking and with dear marking */

/* GC CPU that still counts as "near or under one half". */
#define RELATIONS_SPIRAL_CPU_PERCENT 55.0
/* What the collector may take before it is held to the half, for each processor: the size of the CPU
 * limiter's bucket, which is Go's. A run that is over before the bucket is full may be all collection. */
#define RELATIONS_SPIRAL_LEEWAY_NS 1000000000

/* What the demonstration measured. */
struct relations_in {
    uint64_t block_bytes, total_bytes; /* of one block, and of all of a run's */

    uint64_t ratio_collections[RELATIONS_RATIOS]; /* the ratio rises */
    double ratio_ideal[RELATIONS_RATIOS];

    uint64_t off_collections;                           /* no ratio, no limit */
    uint64_t off_own_rss_bytes, off_half_own_rss_bytes; /* all of the work, and half of it */

    uint64_t limit_bytes[RELATIONS_LIMITS];
    uint64_t limit_collections[RELATIONS_LIMITS], limit_peak_counted_bytes[RELATIONS_LIMITS];

    bool spiral_finished;
    double spiral_gc_cpu_percent[RELATIONS_SPIRALS]; /* negative: unknown */
    uint64_t spiral_wall_ns[RELATIONS_SPIRALS];
    int processors;
    const char *spiral_log; /* what the run wrote to standard error */
    uint64_t spiral_passed_by_bytes;
};

enum {
    RELATION_GOGC_FALLING,
    RELATION_GOGC_NEAR_IDEAL,
    RELATION_OFF_IS_ZERO,
    RELATION_OFF_GROWS,
    RELATION_LIMIT_BRINGS_BACK,
    RELATION_LIMIT_KEPT,
    RELATION_LIMIT_STEEP,
    RELATION_SPIRAL_FINISHES,
    RELATION_SPIRAL_CPU_BOUNDED,
    RELATION_SPIRAL_SAYS_SO,
    RELATION_COUNT,
};

/* Name in JSON and what is claimed, by the enum. */
extern const char *const relation_names[RELATION_COUNT];
extern const char *const relation_claims[RELATION_COUNT];

/* Fills `holds` by the enum; true when all hold. */
bool relations_judge(const struct relations_in *in, bool holds[RELATION_COUNT]);

/* The line of a log that says that the limit was passed and by how much; *len is its length without the
 * newline. NULL when there is none. *lines is how many there are. */
const char *relations_limit_line(const char *log, size_t *len, size_t *lines);

#endif
