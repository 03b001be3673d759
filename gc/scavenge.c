/* The scavenger's goals: gc/scavenge.h says what it does, owns and never does. Calls gc/limit.h. */
#include "gc/scavenge.h"

#include "gc/limit.h"

static uint64_t multiply_saturating(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t subtract_floored(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static uint64_t add_saturating(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t round_down(uint64_t bytes, uint64_t piece) {
    return bytes / piece * piece;
}

static uint64_t round_up_saturating(uint64_t bytes, uint64_t piece) {
    uint64_t padded;
    return __builtin_add_overflow(bytes, piece - 1, &padded) ? UINT64_MAX : round_down(padded, piece);
}

/* needed in whole pieces where so much is free, else in pages; never more than is free. */
static uint64_t cover(uint64_t needed, uint64_t free_bytes) {
    uint64_t pieces = round_up_saturating(needed, SCAVENGE_PIECE_BYTES);
    if (pieces <= free_bytes) {
        return pieces;
    }
    uint64_t pages = round_up_saturating(needed, SCAVENGE_PAGE_BYTES);
    return pages < free_bytes ? pages : free_bytes;
}

/* How many bytes of heap pages the heap goal asks to keep resident; UINT64_MAX when that is not known. */
static uint64_t retained_for_goal(const struct scavenge_in *in) {
    if (in->start_heap_bytes == 0) {
        return UINT64_MAX;
    }
    /* In double, as Go does: this is an estimate, and the factor is bounded. */
    double factor = (double)in->start_page_bytes / (double)in->start_heap_bytes;
    if (factor < 1.0) {
        factor = 1.0;
    } else if (factor > (double)SCAVENGE_MAX_PAGE_FACTOR) {
        factor = (double)SCAVENGE_MAX_PAGE_FACTOR;
    }
    double pages = (double)in->heap_goal * factor * (100 + SCAVENGE_RETAIN_EXTRA_PERCENT) / 100;
    /* 2^63: converting more is undefined. A goal of UINT64_MAX comes here too: keep everything. */
    return pages >= 9223372036854775808.0 ? UINT64_MAX : (uint64_t)pages;
}

static uint64_t excess_of_goal(const struct scavenge_in *in) {
    uint64_t retained = retained_for_goal(in);
    uint64_t resident;
    if (__builtin_add_overflow(in->heap_in_use, in->heap_free_resident, &resident) || resident <= retained) {
        return 0;
    }
    uint64_t excess = resident - retained;
    if (excess > in->heap_free_resident) {
        excess = in->heap_free_resident;
    }
    return round_down(excess, SCAVENGE_PIECE_BYTES);
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Whether returning all that is above the limit would help: it would not be back before the next cycle is
 * over. */
static bool limit_can_be_kept(const struct scavenge_in *in) {
    uint64_t least = subtract_floored(in->total_counted, in->heap_free_resident);
    return !in->held_back && add_saturating(least, in->runway_bytes) < in->limit;
}

/* Of what is free, how much the heap will not grow into again before the next cycle is over. */
static uint64_t spare(const struct scavenge_in *in) {
    uint64_t needed = 0;
    /* What pages hold beyond objects is added to the goal, not taken in proportion: so does limit_goal. */
    if (in->start_heap_bytes != 0 && in->heap_goal != UINT64_MAX) {
        needed = add_saturating(in->heap_goal, subtract_floored(in->start_page_bytes, in->start_heap_bytes));
    }
    if (!limit_can_be_kept(in)) {
        needed = larger(needed, larger(in->start_page_bytes, in->recent_page_bytes));
    }
    uint64_t resident = add_saturating(in->heap_in_use, in->heap_free_resident);
    return smaller(subtract_floored(resident, needed), in->heap_free_resident);
}

static uint64_t excess_of_limit(const struct scavenge_in *in) {
    /* Nothing is past 95 % of LIMIT_NONE, so that needs no case of its own. Split, so that it is exact and
     * cannot overflow. */
    uint64_t goal = in->limit / 100 * SCAVENGE_LIMIT_PERCENT + in->limit % 100 * SCAVENGE_LIMIT_PERCENT / 100;
    uint64_t unhurried = smaller(limit_over(in->total_counted, goal), spare(in));
    uint64_t forced = smaller(limit_over(in->total_counted, in->limit),
                              limit_can_be_kept(in) ? in->heap_free_resident : spare(in));
    return larger(round_down(unhurried, SCAVENGE_PIECE_BYTES), cover(forced, in->heap_free_resident));
}

uint64_t scavenge_excess(const struct scavenge_in *in) {
    uint64_t by_goal = excess_of_goal(in);
    if (!limit_can_be_kept(in)) {
        by_goal = smaller(by_goal, round_down(spare(in), SCAVENGE_PIECE_BYTES));
    }
    uint64_t by_limit = excess_of_limit(in);
    return by_goal > by_limit ? by_goal : by_limit;
}

uint64_t scavenge_for_request(const struct scavenge_in *in, uint64_t request) {
    return cover(limit_release_needed(in->total_counted, request, in->limit), in->heap_free_resident);
}

bool scavenge_may_split(const struct scavenge_in *in, uint64_t request) {
    return limit_release_needed(in->total_counted, request, in->limit) != 0;
}

uint64_t scavenge_rest_ns(uint64_t work_ns) {
    return multiply_saturating(work_ns, (100 - SCAVENGE_CPU_PERCENT) / SCAVENGE_CPU_PERCENT);
}
