/* The pacer's arithmetic: gc/pacer.h says what it does, owns and never does. Calls nobody. */
#include "gc/pacer.h"

static uint64_t add_saturating(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* base * percent / 100, rounded down and exact while it fits: the hundreds and the rest are taken apart, so
 * only a result that does not fit can overflow. The rest's product is below 100 * 2^31. */
static uint64_t percent_saturating(uint64_t base, uint64_t percent) {
    uint64_t hundreds;
    if (__builtin_mul_overflow(base / 100, percent, &hundreds)) {
        return UINT64_MAX;
    }
    return add_saturating(hundreds, base % 100 * percent / 100);
}

uint64_t pacer_goal_ratio(const struct pacer_in *in) {
    if (in->gc_percent < 0) {
        return UINT64_MAX;
    }
    uint64_t percent = (uint64_t)in->gc_percent;
    uint64_t scanned = add_saturating(in->live_bytes, add_saturating(in->stack_bytes, in->global_bytes));
    uint64_t goal = add_saturating(in->live_bytes, percent_saturating(scanned, percent));
    uint64_t least = percent_saturating(PACER_MIN_HEAP_BYTES, percent);
    return goal < least ? least : goal;
}

struct pacer_out pacer_decide(const struct pacer_in *in) {
    struct pacer_out out = {.goal = pacer_goal_ratio(in), .by = PACER_BY_RATIO};
    if (in->memory_limit_goal < out.goal) {
        out.goal = in->memory_limit_goal;
        out.by = PACER_BY_LIMIT;
    }
    if (out.goal == UINT64_MAX) {
        out.by = PACER_BY_NONE;
    }
    if (out.goal < in->live_bytes) {
        out.goal = in->live_bytes;
    }
    out.trigger = out.goal;
    return out;
}

uint64_t pacer_trigger(uint64_t live_bytes, uint64_t goal_bytes, uint64_t runway_bytes) {
    if (goal_bytes == UINT64_MAX || live_bytes >= goal_bytes) {
        return goal_bytes;
    }
    uint64_t way = goal_bytes - live_bytes;
    uint64_t earliest = live_bytes + percent_saturating(way, PACER_TRIGGER_MIN_PERCENT);
    uint64_t latest = live_bytes + percent_saturating(way, PACER_TRIGGER_MAX_PERCENT);
    uint64_t trigger = runway_bytes < way ? goal_bytes - runway_bytes : live_bytes;
    if (trigger < earliest) {
        return earliest;
    }
    return trigger > latest ? latest : trigger;
}
