/* The CPU limiter's bucket: gc/limiter.h says what it does, owns and never does. Calls nobody. */
#include "gc/limiter.h"

static int64_t capacity_for(int procs) {
    return (procs < 1 ? 1 : procs) * LIMITER_CAPACITY_PER_PROC_NS;
}

void limiter_init(struct limiter *l, int procs) {
    *l = (struct limiter){.capacity_ns = capacity_for(procs)};
}

void limiter_resize(struct limiter *l, int procs) {
    l->capacity_ns = capacity_for(procs);
    if (l->fill_ns > l->capacity_ns) {
        l->fill_ns = l->capacity_ns;
        l->limiting = true;
    } else if (l->fill_ns < l->capacity_ns) {
        l->debt_ns = 0;
        l->limiting = false;
    }
}

static void fill(struct limiter *l, int64_t gc_ns) {
    int64_t room = l->capacity_ns - l->fill_ns;
    if (gc_ns < room) {
        l->fill_ns += gc_ns;
        return;
    }
    int64_t beyond = gc_ns - room;
    if (__builtin_add_overflow(l->overflow_ns, (uint64_t)beyond, &l->overflow_ns)) {
        l->overflow_ns = UINT64_MAX;
    }
    /* The largest cycle's worth, not their sum: a cycle that was asked for while limiting was not the limit's
     * doing. */
    if (l->debt_ns < beyond) {
        l->debt_ns = beyond;
    }
    l->fill_ns = l->capacity_ns;
    l->limiting = true;
}

static void drain(struct limiter *l, int64_t mutator_ns) {
    if (mutator_ns <= l->debt_ns) {
        l->debt_ns -= mutator_ns;
        return;
    }
    mutator_ns -= l->debt_ns;
    l->debt_ns = 0;
    l->fill_ns = mutator_ns < l->fill_ns ? l->fill_ns - mutator_ns : 0;
    l->limiting = false;
}

void limiter_update(struct limiter *l, int64_t mutator_ns, int64_t gc_ns) {
    /* Two numbers that are not negative: their difference cannot overflow. */
    int64_t change = (gc_ns < 0 ? 0 : gc_ns) - (mutator_ns < 0 ? 0 : mutator_ns);
    if (change > 0) {
        fill(l, change);
    } else if (change < 0) {
        drain(l, -change);
    }
}

bool limiter_limiting(const struct limiter *l) {
    return l->limiting;
}
