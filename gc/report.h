/*
 * What is told of a finished cycle: to the statistics, the trace, the CPU limiter, the warning about the limit, and
 * the program's own function. Owns the limiter, the state of the warning and the news that wait for a thread of the
 * program. Knows nothing of how a cycle is run.
 */
#ifndef GC_REPORT_H
#define GC_REPORT_H

#include "gc/base.h"

struct cycle_report {
    uint64_t number, stops;
    bool forced, by_limit;
    int64_t start_ns;                            /* since the library's start */
    int64_t pause_ns, pause_max_ns, stopping_ns; /* all stops; the longest; until all were stopped */
    /* Wall time of the parts; a cycle of one stop has the first. */
    int64_t start_stop_ns, beside_ns, end_stop_ns;
    int64_t mark_ns; /* of marking, in stops and beside */
    int64_t gc_cpu_ns, stop_cpu_ns, mark_cpu_ns, sweep_cpu_ns, other_cpu_ns;
    int64_t stops_cpu_ns;       /* of the thread that stopped the others, within the stops */
    int64_t beside_cpu_ns;      /* of mark_cpu_ns, outside the stops */
    int64_t assist_ns, idle_ns; /* CPU of assists; of beside_cpu_ns, what idle processors gave */
    uint64_t heap_before, heap_end, live, goal, next_goal, total;
    uint64_t stack_bytes, global_bytes;
};
/* Called for each cycle by a thread of the program, at depth 0 without locks. May be NULL. */
typedef void cycle_function(const struct cycle_report *report);

void report_init(int64_t start_ns);
/* Says what was still waiting to be said. At shutdown, no other thread running. */
void report_end(void);
void report_on_cycle(cycle_function *function);

/* Records the cycle and gives it its number. World running, cycle lock held. */
void report_cycle(struct cycle_report *report);
/* Calls the program's function for cycles that were not told yet. Depth 0, no locks; does nothing inside itself. */
void report_deliver(void);
bool report_has_news(void);

/* Whether limit-driven cycles are held back now. Any thread. */
bool report_limiter_holds_back(void);
/* settings.processors is another number now. */
void report_processors_changed(void);
/* In the child of a fork. */
void report_after_fork(void);
/* When the last cycle ended; the start, before the first. */
int64_t report_last_end_ns(void);

#endif
