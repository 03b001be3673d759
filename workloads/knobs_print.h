/* The demonstration as text: its sections and tables.
 *
 * Does: prints outcomes that are there. Owns: nothing. Never: runs or judges anything; lines stay within 100
 * columns. Calls: table.h, run.h, knobs_plan.h.
 */
#ifndef WORKLOADS_KNOBS_PRINT_H
#define WORKLOADS_KNOBS_PRINT_H

#include "workloads/knobs_plan.h"
#include "workloads/relations.h"

/* What this process runs under, as a person would set it. */
struct knobs_settings {
    struct backend_stats stats;
    const char *store_mode;
    const char *marker;
};

void knobs_print_settings(const struct knobs_settings *settings);
void knobs_print_ratios(const struct plan_outcome *outcomes, const struct relations_in *in);
void knobs_print_limits(const struct plan_outcome *outcomes);
void knobs_print_spiral(const struct plan_outcome *outcomes);
void knobs_print_off(const struct plan_outcome *outcomes);
void knobs_print_relations(const bool holds[RELATION_COUNT]);

#endif
