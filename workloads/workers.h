/* The threads that share a workload's work.
 *
 * Does: divides a count, runs one function on each worker's struct, on a thread of its own. Owns: the threads
 * while they run. Never: looks into a worker. Calls: one backend.
 */
#ifndef WORKLOADS_WORKERS_H
#define WORKLOADS_WORKERS_H

#include <stddef.h>
#include <stdint.h>

#include "workloads/backend.h"

/* The share of worker `index` of `threads` in `whole`: as even as it gets. */
uint64_t workers_share(uint64_t whole, unsigned threads, unsigned index);

/* Calls `run` on each of `threads` structs of `bytes` that lie in a row, and returns when all are done. One
 * alone is run by the calling thread. 0, or an errno value when a thread could not be made; those that were
 * are finished. */
int workers_run(const struct backend *backend, unsigned threads, void *workers, size_t bytes,
                void *(*run)(void *worker));

#endif
