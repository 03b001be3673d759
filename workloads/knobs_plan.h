/* The runs of the demonstration: what is run, under which settings, and what came of it.
 *
 * Does: starts `blocks` once for each row of the plan, each in a process of its own, and keeps its figures.
 * Owns: the plan and the outcomes. Never: prints, but for a line of progress. Calls: child.h, run.h.
 */
#ifndef WORKLOADS_KNOBS_PLAN_H
#define WORKLOADS_KNOBS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "workloads/relations.h"
#include "workloads/run.h"

#define PLAN_BLOCK_BYTES ((uint64_t)64 << 10)
#define PLAN_BLOCKS      4000
/* Kept in the "death spiral": twice its limit. */
#define PLAN_SPIRAL_KEEP 256
#define PLAN_DIVISORS    5

enum {
    PLAN_RATIO,
    PLAN_OFF_HALF = PLAN_RATIO + RELATIONS_RATIOS,
    PLAN_OFF,
    PLAN_LIMIT,
    PLAN_SPIRAL = PLAN_LIMIT + RELATIONS_LIMITS,
    PLAN_SPIRAL_SCAN,
    PLAN_BOEHM,
    PLAN_BOEHM_DIVISOR,
    PLAN_BOEHM_LIMIT = PLAN_BOEHM_DIVISOR + PLAN_DIVISORS,
    PLAN_BOEHM_SPIRAL = PLAN_BOEHM_LIMIT + RELATIONS_LIMITS,
    PLAN_MALLOC,
    PLAN_MALLOC_KEEP,
    PLAN_RUNS,
};

/* One run's settings. Texts are what the environment or the command line gets; NULL: not set. */
struct plan_setting {
    const char *backend;
    const char *gogc, *memlimit;
    const char *boehm_divisor, *boehm_max_heap;
    uint64_t count, keep;
    bool scan;
};

struct plan_outcome {
    bool finished;  /* with exit status 0 and figures that could be read */
    int status;     /* exit status */
    struct run run; /* unknown when not finished */
    char *log;      /* what it wrote to standard error */
};

extern const struct plan_setting plan[PLAN_RUNS];

/* Runs the whole plan with the program `blocks`. Outcomes of runs that must succeed and did not end this
 * program with a message. With `pass_on` what the runs wrote to standard error is written to ours. */
void plan_run(const char *blocks, bool progress, bool pass_on, struct plan_outcome outcomes[PLAN_RUNS]);

/* The relations' numbers, from the outcomes; the log stays theirs. */
void plan_relations(const struct plan_outcome *outcomes, struct relations_in *in);

/* The run with a divisor, or Boehm's default one, whose own peak RSS comes nearest to `run`'s. */
const struct run *plan_nearest_boehm(const struct plan_outcome *outcomes, const struct run *run);

/* What the articles' machine counted under the same settings (Go 1.26, 4000 blocks of 64 KiB, none kept);
 * STAT_UNKNOWN where they give no figure. */
uint64_t plan_go_collections(int index);

#endif
