/*
 * Twice the memory limit is live: each collection is wanted again at once. The CPU limiter leaves the program its half,
 * in any window beyond the bucket of one CPU-second for each processor, and most of its progress; one line says that the
 * limit is passed. For a program that promises the barrier, whose marking takes idle processors and threads that help.
 *
 * Seen to fail: limiter_limiting that is always false, "beyond_half(results) < ...", where no other work takes the
 * processors.
 *
 * ctest: serial lanes=none
 */
#include "child.h"
#include "store_tree.h"

#include <time.h>

#define LIMIT     (UINT64_C(8) << 20)
#define DEPTH     18 /* 2^19 nodes of 32 bytes: 16 MiB */
#define SAMPLES   60
#define SAMPLE_NS INT64_C(100000000)
#define BUCKET_NS 1e9 /* for each processor */
#define TRIES     5   /* the machine is shared: progress is compared with that of a run at another time */
#define PROGRESS  0.45

static struct node *root; /* a registered root */

static struct spiral {
    uint64_t work;
    double gc_ns[SAMPLES + 1], at_ns[SAMPLES + 1];
    int processors;
} * results;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int allocate_beside_a_tree(void *limited) {
    tern_options options;
    tern_options_init(&options);
    options.stores = TERN_STORES_BARRIER;
    options.memory_limit = limited != NULL ? LIMIT : TERN_NO_LIMIT;
    must(tern_init(&options) == 0);
    must(tern_root_add(&root, sizeof root) == 0);
    root = tree(DEPTH);
    int64_t start = now_ns();
    for (unsigned n = 0; n <= SAMPLES; n++) {
        while (now_ns() - start < (int64_t)n * SAMPLE_NS)
            for (unsigned i = 0; i < 1000; i++, results->work++)
                tern_keep(tern_alloc(32 + i % 64));
        tern_stats s = stats();
        results->gc_ns[n] = (double)s.gc_cpu_ns;
        results->at_ns[n] = (double)(now_ns() - start);
        results->processors = (int)s.processors;
    }
    return 0;
}

/* By how much the collector took more than half of any window and its bucket, in ns; below 0: never. */
static double beyond_half(const struct spiral *s) {
    double most = -1e18;
    for (unsigned from = 0; from < SAMPLES; from++)
        for (unsigned to = from + 1; to <= SAMPLES; to++) {
            double took = s->gc_ns[to] - s->gc_ns[from], window = s->at_ns[to] - s->at_ns[from];
            double beyond = took - s->processors * (window / 2 + BUCKET_NS);
            most = beyond > most ? beyond : most;
        }
    return most;
}

static void half_of_the_cpu_is_the_programs(void **state) {
    (void)state;
    results = shared_memory(sizeof *results);
    double progress = 0;
    for (unsigned i = 0; i < TRIES && progress < PROGRESS; i++) {
        results->work = 0;
        child_passes(allocate_beside_a_tree, NULL);
        double unlimited = (double)results->work;
        results->work = 0;
        child_passes(allocate_beside_a_tree, results);
        progress = (double)results->work / unlimited;
        double took = results->gc_ns[SAMPLES] - results->gc_ns[0];
        print_message(
            "  %.0f %% of the progress without a limit; collections took %.1f CPU-seconds of %.1f s\n",
            progress * 100, took / 1e9, results->at_ns[SAMPLES] / 1e9);
        assert_true(beyond_half(results) < 0.1 * BUCKET_NS);
        assert_int_equal(child_lines(), 1);
        assert_non_null(strstr(child_text, "tern: memory limit of 8.0 MiB passed by "));
    }
    assert_true(progress >= PROGRESS);
    shared_memory_free(results, sizeof *results);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_of_the_cpu_is_the_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
