/* The same run several times, and the best of them.
 *
 * Does: starts this very program again with the options it was given, each time as a process of its own, so
 * that no run finds memory or a heap that another has left. Owns: nothing afterwards. Never: runs two at
 * once. Calls: child.h, run.h, cli.h.
 */
#ifndef WORKLOADS_REPEAT_H
#define WORKLOADS_REPEAT_H

#include <stddef.h>

#include "workloads/run.h"

/* The option that says how often. */
#define REPEAT_OPTION "--runs"

/* Runs `times` times and returns the records, the one with the least figure first; the figure is the uint64_t
 * at `offset` in struct run. What the runs write to standard error is passed on. The caller frees the
 * records. When a run fails, this program ends as it did. */
struct run *repeat_runs(int argc, char **argv, size_t times, size_t offset);

#endif
