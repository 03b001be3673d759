/* The assists' arithmetic: gc/assist.h says what it does, owns and never does. */
#include "gc/assist.h"

#include "gc/pacer.h"

static uint64_t add_saturating(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}
static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* The furthest that growth may move the goal of this cycle. */
static uint64_t hard_goal(const struct assist_in *in, uint64_t goal) {
    int percent = in->gc_percent < 0 ? ASSIST_PERCENT_OFF : in->gc_percent;
    uint64_t hard = pacer_to_bytes((double)goal * (1 + percent / 100.0));
    /* Beyond the limit's goal there is no room that was counted on: assists get dearer instead. */
    return larger(goal, smaller(hard, in->limit_goal));
}

/* The goal that leaves the same way for each byte of scan_max as goal left for each expected one. */
static uint64_t grown_goal(const struct assist_in *in, uint64_t goal) {
    uint64_t hard = hard_goal(in, goal);
    if (in->scan_expected == 0) {
        return hard;
    }
    uint64_t way = goal > in->trigger_bytes ? goal - in->trigger_bytes : 0;
    double growth = (double)in->scan_max / (double)in->scan_expected - 1;
    return smaller(hard, add_saturating(goal, pacer_to_bytes((double)way * growth)));
}

struct assist_ratio assist_ratio(const struct assist_in *in) {
    uint64_t goal = in->goal;
    if (goal < in->limit_goal) {
        goal = larger(goal, add_saturating(in->trigger_bytes, ASSIST_RUNWAY_LEAST_BYTES));
    }
    uint64_t work = in->scan_expected;
    if (in->scan_done > work) {
        work = in->scan_max;
        goal = grown_goal(in, goal);
    }
    if (in->heap_bytes > goal) {
        work = in->scan_max;
        goal = add_saturating(goal, pacer_to_bytes((double)goal * (ASSIST_OVERSHOOT_PERCENT / 100.0)));
    }
    uint64_t work_left = work > in->scan_done ? work - in->scan_done : 0;
    work_left = larger(work_left, ASSIST_WORK_LEAST_BYTES);
    uint64_t bytes_left = goal > in->heap_bytes ? goal - in->heap_bytes : 1;
    return (struct assist_ratio){
        .work_per_byte = (double)work_left / (double)bytes_left,
        .bytes_per_work = (double)bytes_left / (double)work_left,
        .goal = goal,
    };
}

static uint64_t bounded(double bytes) {
    return smaller(pacer_to_bytes(bytes), ASSIST_MOST_BYTES);
}

struct assist_charge assist_charge(const struct assist_ratio *ratio, uint64_t debt_bytes) {
    struct assist_charge charge = {0, 0};
    if (debt_bytes == 0) {
        return charge;
    }
    charge.work = bounded(ratio->work_per_byte * (double)debt_bytes);
    charge.bytes = smaller(debt_bytes, ASSIST_MOST_BYTES);
    if (charge.work < ASSIST_WORK_MIN_BYTES) {
        charge.work = ASSIST_WORK_MIN_BYTES;
        charge.bytes = larger(charge.bytes, bounded(ratio->bytes_per_work * (double)charge.work));
    }
    return charge;
}

uint64_t assist_paid(const struct assist_ratio *ratio, uint64_t scanned_bytes) {
    return bounded(ratio->bytes_per_work * (double)scanned_bytes + 1);
}
