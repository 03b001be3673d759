/* What every workload that is one run on one backend has in common: its options, its start, its record.
 *
 * Does: reads --backend and its kin, starts the backend, fills in what all records have. Owns: nothing.
 * Never: sets a knob itself; returns when something fails. Calls: cli.h, run.h, the backends.
 */
#ifndef WORKLOADS_SETUP_H
#define WORKLOADS_SETUP_H

#include <argp.h>
#include <stdbool.h>

#include "workloads/backend.h"
#include "workloads/run.h"

struct setup {
    const struct backend *backend;
    struct backend_options backend_options;
    bool json;
};

/* The options, --help and --json among them, as the only child of a workload's own parser. Its input is a
 * struct setup, which the parser passes on in ARGP_KEY_INIT: state->child_inputs[0] = &options->setup. */
extern const struct argp_child setup_options[];

/* The defaults of a struct setup. */
struct setup setup_default(void);

/* Starts the backend and fills in what `run` can tell at once. Warns where memory will grow without bound,
 * before it does. */
void setup_start(const struct setup *setup, const char *workload, struct run *run);
/* Reads the backend's counters; `allocs` is what the workload counted, for a backend that does not. */
void setup_read(const struct setup *setup, uint64_t allocs, struct run *run);
/* The document of `count` runs in a row, on standard output. */
void setup_print_json(const struct run *runs, size_t count);

#endif
