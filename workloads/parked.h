/* Threads that are attached to the collector and do nothing.
 *
 * Does: parks threads until they are let go. Owns: the threads. Never: allocates on the backend's heap.
 * Calls: one backend.
 *
 * In a blocking section a collector needs not signal them; raw, they sleep 200 ms at a time in plain sight,
 * and each stop finds them in a system call.
 */
#ifndef WORKLOADS_PARKED_H
#define WORKLOADS_PARKED_H

#include <stdbool.h>

#include "workloads/backend.h"

struct parked;

/* Parks `count` threads and returns when all of them are. NULL with errno when one could not be made. */
struct parked *parked_start(const struct backend *backend, unsigned count, bool raw);
/* Lets them go, waits for them and frees `parked`. NULL is fine. */
void parked_stop(struct parked *parked);

#endif
