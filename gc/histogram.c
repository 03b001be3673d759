/* The pause histogram: gc/histogram.h says what it does, owns and never does. Calls nobody. */
#include "gc/histogram.h"

#include <assert.h>
#include <string.h>

enum {
    sub_buckets = 1 << HISTOGRAM_SUB_BITS, /* for each power of two */
};

static_assert(HISTOGRAM_BUCKETS == 39 * 16 + 1,
              "values below 16, a group for each of bits 5 to 42, and the rest");

/* Values below sub_buckets are group 0, one each. Otherwise the highest bit picks the group, the next
 * HISTOGRAM_SUB_BITS bits the bucket in it. */
static unsigned bucket_of(uint64_t ns) {
    if (ns < sub_buckets) {
        return (unsigned)ns;
    }
    unsigned bits = 64 - (unsigned)__builtin_clzll(ns);
    if (bits > HISTOGRAM_MAX_BITS) {
        return HISTOGRAM_BUCKETS - 1;
    }
    unsigned group = bits - HISTOGRAM_SUB_BITS;
    unsigned sub = (unsigned)(ns >> (group - 1)) & (sub_buckets - 1);
    return group * sub_buckets + sub;
}

/* The largest value that falls in the bucket. The last one of all has no end. */
static uint64_t upper_bound(unsigned bucket) {
    if (bucket == HISTOGRAM_BUCKETS - 1) {
        return UINT64_MAX;
    }
    unsigned group = bucket / sub_buckets;
    uint64_t sub = bucket % sub_buckets;
    if (group == 0) {
        return sub;
    }
    return ((sub_buckets + sub + 1) << (group - 1)) - 1;
}

void histogram_init(struct histogram *h) {
    memset(h, 0, sizeof *h);
}

void histogram_add(struct histogram *h, uint64_t ns) {
    h->buckets[bucket_of(ns)]++;
    h->count++;
    if (__builtin_add_overflow(h->total_ns, ns, &h->total_ns)) {
        h->total_ns = UINT64_MAX;
    }
    if (ns > h->max_ns) {
        h->max_ns = ns;
    }
}

/* ceil(q * count), in 1 .. count. */
static uint64_t rank_of(double q, uint64_t count) {
    /* Written so that a NaN is taken as 0. */
    if (!(q > 0)) {
        return 1;
    }
    if (q >= 1) {
        return count;
    }
    double exact = q * (double)count;
    uint64_t rank = (uint64_t)exact;
    /* 0.07 * 100 is a little more than 7 in binary; that is not an eighth value. */
    if (exact - (double)rank > exact * 1e-12) {
        rank++;
    }
    if (rank < 1) {
        return 1;
    }
    return rank > count ? count : rank;
}

uint64_t histogram_quantile(const struct histogram *h, double q) {
    if (h->count == 0) {
        return 0;
    }
    uint64_t rank = rank_of(q, h->count);
    uint64_t seen = 0;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += h->buckets[bucket];
        if (seen >= rank) {
            uint64_t bound = upper_bound(bucket);
            return bound < h->max_ns ? bound : h->max_ns;
        }
    }
    return h->max_ns;
}
