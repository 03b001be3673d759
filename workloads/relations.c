/* Judging the demonstration's figures; see relations.h. */
#include "workloads/relations.h"

#include <ctype.h>
#include <string.h>

/* How far a count may be from the ideal: a tenth, or one collection where the ideal is small. */
#define IDEAL_TOLERANCE 0.10

/* Without a ratio and a limit the process must hold nearly all that it ever allocated... */
#define GROWS_SHARE 0.90
/* ... and with twice the work nearly twice as much. */
#define GROWS_FACTOR 1.8

/* From the second limit to the last, a quarter of it, collections must rise by more than the four times that
 * a plain division would give. */
#define STEEP_FROM   1
#define STEEP_FACTOR 4

const char *const relation_names[RELATION_COUNT] = {
    [RELATION_GOGC_FALLING] = "gogc_falling",
    [RELATION_GOGC_NEAR_IDEAL] = "gogc_near_ideal",
    [RELATION_OFF_IS_ZERO] = "off_is_zero",
    [RELATION_OFF_GROWS] = "off_grows",
    [RELATION_LIMIT_BRINGS_BACK] = "limit_brings_back",
    [RELATION_LIMIT_KEPT] = "limit_kept",
    [RELATION_LIMIT_STEEP] = "limit_steep",
    [RELATION_SPIRAL_FINISHES] = "spiral_finishes",
    [RELATION_SPIRAL_CPU_BOUNDED] = "spiral_cpu_bounded",
    [RELATION_SPIRAL_SAYS_SO] = "spiral_says_so",
};

const char *const relation_claims[RELATION_COUNT] = {
    [RELATION_GOGC_FALLING] = "the higher the ratio, the fewer collections",
    [RELATION_GOGC_NEAR_IDEAL] = "each count is within 10 %, or one, of the ideal",
    [RELATION_OFF_IS_ZERO] = "no ratio and no limit: no collection",
    [RELATION_OFF_GROWS] = "and memory grows with the work",
    [RELATION_LIMIT_BRINGS_BACK] = "a limit brings collections back",
    [RELATION_LIMIT_KEPT] = "no limit is passed by more than one block",
    [RELATION_LIMIT_STEEP] = "a quarter of the limit: more than four times the collections",
    [RELATION_SPIRAL_FINISHES] = "with twice the limit live the program still finishes",
    [RELATION_SPIRAL_CPU_BOUNDED] = "and the collector is held near half of the CPU, its first second aside",
    [RELATION_SPIRAL_SAYS_SO] = "and one line says by how much the limit was passed",
};

static bool known(uint64_t value) {
    return value != UINT64_MAX;
}

static bool falling(const uint64_t *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!known(values[i]) || (i > 0 && values[i] >= values[i - 1]))
            return false;
    return true;
}

static bool near_ideal(const uint64_t *values, const double *ideal, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double off = (double)values[i] - ideal[i], slack = ideal[i] * IDEAL_TOLERANCE;
        slack = slack < 1 ? 1 : slack;
        if (!known(values[i]) || off > slack || off < -slack)
            return false;
    }
    return true;
}

static bool grows(const struct relations_in *in) {
    double whole = (double)in->off_own_rss_bytes, half = (double)in->off_half_own_rss_bytes;
    return known(in->off_own_rss_bytes) && known(in->off_half_own_rss_bytes) &&
           whole >= (double)in->total_bytes * GROWS_SHARE && whole >= half * GROWS_FACTOR;
}

static bool limits_bring_back(const uint64_t *collections) {
    for (size_t i = 0; i < RELATIONS_LIMITS; i++)
        if (!known(collections[i]) || collections[i] == 0)
            return false;
    return true;
}

static bool limits_kept(const struct relations_in *in) {
    for (size_t i = 0; i < RELATIONS_LIMITS; i++)
        if (!known(in->limit_peak_counted_bytes[i]) ||
            in->limit_peak_counted_bytes[i] > in->limit_bytes[i] + in->block_bytes)
            return false;
    return true;
}

static bool steep(const uint64_t *collections) {
    uint64_t from = collections[STEEP_FROM], to = collections[RELATIONS_LIMITS - 1];
    return known(from) && known(to) && from > 0 && to > STEEP_FACTOR * from;
}

/* A number of MiB follows the word, as in "passed by 9.4 MiB". */
static bool says_by_how_much(const char *line, size_t len) {
    static const char word[] = "passed by ";
    const char *by = memmem(line, len, word, sizeof word - 1);
    if (!by)
        return false;
    const char *at = by + sizeof word - 1, *end = line + len;
    bool digits = false;
    for (; at < end && (isdigit((unsigned char)*at) || *at == '.'); at++)
        digits = digits || *at != '.';
    return digits && end - at >= 4 && memcmp(at, " MiB", 4) == 0;
}

const char *relations_limit_line(const char *log, size_t *len, size_t *lines) {
    const char *found = NULL;
    *lines = *len = 0;
    for (const char *line = log; line && *line;) {
        size_t length = strcspn(line, "\n");
        if (memmem(line, length, "limit", 5) && says_by_how_much(line, length)) {
            if (!found) {
                found = line;
                *len = length;
            }
            ++*lines;
        }
        line += length + (line[length] == '\n');
    }
    return found;
}

/* With cheap marking only one thread is ever at work, so that on two processors the half needs no leeway. */
static bool cpu_bounded(const struct relations_in *in) {
    for (size_t i = 0; i < RELATIONS_SPIRALS; i++) {
        double percent = in->spiral_gc_cpu_percent[i], bound = RELATIONS_SPIRAL_CPU_PERCENT;
        if (percent < 0 || !known(in->spiral_wall_ns[i]))
            return false;
        if (i > 0 || in->processors < 2)
            bound += 100.0 * RELATIONS_SPIRAL_LEEWAY_NS / ((double)in->spiral_wall_ns[i] + 1);
        if (percent > bound)
            return false;
    }
    return true;
}

static bool says_so(const struct relations_in *in) {
    size_t len, lines;
    return relations_limit_line(in->spiral_log, &len, &lines) && lines == 1 &&
           known(in->spiral_passed_by_bytes) && in->spiral_passed_by_bytes > 0;
}

bool relations_judge(const struct relations_in *in, bool holds[RELATION_COUNT]) {
    holds[RELATION_GOGC_FALLING] = falling(in->ratio_collections, RELATIONS_RATIOS);
    holds[RELATION_GOGC_NEAR_IDEAL] = near_ideal(in->ratio_collections, in->ratio_ideal, RELATIONS_RATIOS);
    holds[RELATION_OFF_IS_ZERO] = in->off_collections == 0;
    holds[RELATION_OFF_GROWS] = grows(in);
    holds[RELATION_LIMIT_BRINGS_BACK] = limits_bring_back(in->limit_collections);
    holds[RELATION_LIMIT_KEPT] = limits_kept(in);
    holds[RELATION_LIMIT_STEEP] = steep(in->limit_collections);
    holds[RELATION_SPIRAL_FINISHES] = in->spiral_finished;
    holds[RELATION_SPIRAL_CPU_BOUNDED] = cpu_bounded(in);
    holds[RELATION_SPIRAL_SAYS_SO] = says_so(in);
    bool all = true;
    for (size_t i = 0; i < RELATION_COUNT; i++)
        all = all && holds[i];
    return all;
}
