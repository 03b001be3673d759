/* The memory limit's arithmetic: gc/limit.h says what it does, owns and never does. Calls nobody. */
#include "gc/limit.h"

static uint64_t subtract_floored(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

uint64_t limit_goal(const struct limit_in *in) {
    if (in->limit == LIMIT_NONE) {
        return LIMIT_NONE;
    }
    /* The three counters may have been read at slightly different moments: their difference must not wrap. */
    uint64_t non_heap =
        subtract_floored(subtract_floored(in->total_counted, in->heap_free_resident), in->heap_in_use);
    uint64_t left = subtract_floored(in->limit, non_heap);
    uint64_t headroom = in->limit / 100 * LIMIT_HEADROOM_PERCENT;
    if (headroom < LIMIT_HEADROOM_MIN_BYTES) {
        headroom = LIMIT_HEADROOM_MIN_BYTES;
    }
    uint64_t above_live = subtract_floored(left, in->live);
    if (above_live == 0) {
        return in->live;
    }
    if (headroom > above_live / 2) {
        headroom = above_live / 2;
    }
    return left - headroom;
}

uint64_t limit_over(uint64_t total_counted, uint64_t limit) {
    return subtract_floored(total_counted, limit);
}

uint64_t limit_release_needed(uint64_t total_counted, uint64_t request, uint64_t limit) {
    uint64_t wanted; /* saturated, it is still not above LIMIT_NONE */
    if (__builtin_add_overflow(total_counted, request, &wanted)) {
        wanted = UINT64_MAX;
    }
    return subtract_floored(wanted, limit);
}
