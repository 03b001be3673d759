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

static uint64_t one_stop_trigger(uint64_t live_bytes, uint64_t goal_bytes) {
    uint64_t way = goal_bytes - live_bytes;
    if (goal_bytes == UINT64_MAX || way < PACER_ONE_STOP_WAY_BYTES) {
        return goal_bytes;
    }
    return goal_bytes - way / PACER_ONE_STOP_EARLY_SHARE;
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
    out.trigger = in->one_stop ? one_stop_trigger(in->live_bytes, out.goal)
                               : pacer_trigger(in->live_bytes, out.goal, in->runway_bytes);
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

/* Marking is never taken to have had more of the processors than this: then the program had none of them, yet
 * it allocated, so the clocks disagree. A hundredth left to it gives a ratio that is far beyond any trigger's
 * bound and still a number. */
#define UTILISATION_MOST 0.99

/* The cons/mark ratio that c shows: below 0 when it shows none. Processors and time stand in both rates and
 * cancel out; what is left is bytes against bytes, each over its side's share of the CPU. */
static double measure(const struct pacer_cycle *c, uint64_t scan_bytes) {
    if (c->end_bytes <= c->trigger_bytes || scan_bytes == 0) {
        return -1;
    }
    double utilisation = c->background_utilisation > 0 ? c->background_utilisation : PACER_UTILISATION;
    double idle = 0;
    if (c->mark_ns > 0) {
        double cpu_ns = (double)c->mark_ns * (c->procs > 1 ? c->procs : 1);
        utilisation += c->assist_ns > 0 ? (double)c->assist_ns / cpu_ns : 0;
        idle = c->idle_ns > 0 ? (double)c->idle_ns / cpu_ns : 0;
    }
    if (utilisation > UTILISATION_MOST) {
        utilisation = UTILISATION_MOST;
    }
    /* Idle workers' time counts for marking, which had it, but is not taken off the program, which could have
     * had it at any moment. */
    return (double)(c->end_bytes - c->trigger_bytes) * (utilisation + idle) /
           ((double)scan_bytes * (1 - utilisation));
}

void pacer_end_cycle(struct pacer *p, const struct pacer_cycle *c) {
    p->heap_scan_bytes = c->heap_scan_bytes;
    p->stack_scan_bytes = c->stack_scan_bytes;
    p->global_scan_bytes = c->global_scan_bytes;
    double now = measure(c, pacer_scan_expected(p));
    if (now < 0) {
        return;
    }
    p->cons_mark = now;
    for (int i = 0; i < PACER_WINDOW; i++) {
        if (p->measured[i] > p->cons_mark) {
            p->cons_mark = p->measured[i];
        }
        p->measured[i] = i + 1 < PACER_WINDOW ? p->measured[i + 1] : now;
    }
}

uint64_t pacer_scan_expected(const struct pacer *p) {
    return add_saturating(p->heap_scan_bytes, add_saturating(p->stack_scan_bytes, p->global_scan_bytes));
}

uint64_t pacer_runway(const struct pacer *p, uint64_t scan_bytes) {
    return pacer_to_bytes((double)scan_bytes * p->cons_mark * (1 - PACER_UTILISATION) / PACER_UTILISATION);
}

/* How far whole workers may be off PACER_UTILISATION, as a share of it. Go's maxUtilError. */
#define PLAN_ERROR_MOST 0.3

struct worker_plan pacer_workers(int procs) {
    procs = procs > 1 ? procs : 1;
    double wanted = procs * PACER_UTILISATION;
    struct worker_plan plan = {.dedicated = (int)(wanted + 0.5)};
    double error = plan.dedicated / wanted - 1;
    if (error < -PLAN_ERROR_MOST || error > PLAN_ERROR_MOST) {
        if (plan.dedicated > wanted) {
            plan.dedicated--;
        }
        plan.fractional = (wanted - plan.dedicated) / procs;
    }
    return plan;
}
