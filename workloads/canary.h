/* A canary: a thread that only sleeps, and notes how late it wakes.
 *
 * Does: tells the machine's own stalls (a busy host, a neighbour's work) from a collector's: what holds up
 * the workload and the canary alike is not the collector's stop, because the canary is attached to no
 * collector, takes no lock and touches no heap. Owns: its thread. Never: spins: it asks for naps of 100 us,
 * so on a processor that is busy with the workload's own threads it also waits its turn, and its lateness has
 * that in it. Calls: the C library.
 */
#ifndef WORKLOADS_CANARY_H
#define WORKLOADS_CANARY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct canary {
    bool runs; /* false: there is none, and both figures are unknown */
    pthread_t thread;
    clockid_t cpu_clock; /* the thread's */
    atomic_bool end;     /* relaxed: read at each waking; the join publishes the rest */
    uint64_t worst_ns;   /* the thread's, until it is joined */
};

/* Starts one if it is wanted. 0, or an errno value. */
int canary_start(struct canary *canary, bool wanted);
/* CPU of this process so far, less the canary's. */
uint64_t canary_others_cpu_ns(const struct canary *canary);
/* Ends it. How late it woke at worst, beyond what it had asked for; STAT_UNKNOWN when there was none. */
uint64_t canary_stop(struct canary *canary);

#endif
