/* The memory limit's arithmetic, over everything the runtime holds from the kernel.
 *
 * Does: says what heap goal a limit leaves, how far past it we are, and what must go back before growing.
 * Owns: nothing; every function here is pure.
 * Never: reads a counter, a cgroup or a clock itself; a caller hands all numbers in.
 * Calls: nobody.
 *
 * The counted total is: heap pages in use, free heap pages that are still resident, off-heap bytes
 * (jemalloc's arena, tables), and declared external bytes, less what was returned to the kernel.
 */
#ifndef TERN_GC_LIMIT_H
#define TERN_GC_LIMIT_H

#include <stdint.h>

#define LIMIT_NONE UINT64_MAX

/* Room kept between the heap goal and the limit, for what the goal does not foresee: span tails, queues that
 * grow while marking, allocation that outruns a concurrent cycle. Go's memoryLimitHeapGoal
 * (runtime/mgcpacer.go) keeps 3 % and at least 1 MiB, because small heaps overshoot by more of themselves. Go
 * takes the share of what is left beside the non-heap bytes; here it is of the whole limit, so that the goal
 * moves with those bytes one to one. */
#define LIMIT_HEADROOM_PERCENT   3
#define LIMIT_HEADROOM_MIN_BYTES (UINT64_C(1) << 20)

/* Heap bytes in use are in the measure that the goal is compared with. What pages hold beyond that (tails,
 * empty slots) counts as non-heap, as it is not there for more objects. */
struct limit_in {
    uint64_t limit;              /* LIMIT_NONE: no limit */
    uint64_t total_counted;      /* all bytes held from the kernel, external ones included */
    uint64_t heap_free_resident; /* bytes of heap pages that are free but still resident */
    uint64_t heap_in_use;        /* heap bytes in use now */
    uint64_t live;               /* heap bytes marked by the last cycle */
};

/* The heap goal the limit leaves: limit - (total - free - in use) - headroom, never under live, and live when
 * live and the non-heap bytes reach the limit. Where less than twice the headroom is left above live, half of
 * that is kept instead: a small limit, or one little above live, still lets something be allocated between
 * two cycles, where the whole headroom would ask for a cycle at every allocation while memory is there.
 * LIMIT_NONE without a limit. */
uint64_t limit_goal(const struct limit_in *in);

/* By how many bytes the total is past the limit; 0 when it is not. */
uint64_t limit_over(uint64_t total_counted, uint64_t limit);

/* How many bytes must go back to the kernel before request more can be taken from it without passing the
 * limit. May be more than there is to give; the caller then passes the limit, which is a soft one. */
uint64_t limit_release_needed(uint64_t total_counted, uint64_t request, uint64_t limit);

#endif
