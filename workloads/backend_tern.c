/* The tern backend: the public header and nothing else. Settings come from the environment, but for one: the
 * workloads keep the barrier contract (<tern/tern.h>, "stores"), so it promises that. */
#include <tern/tern.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "workloads/backend.h"

static int start(const struct backend_options *options, char *error, size_t error_cap) {
    (void)options;
    tern_options promised;
    tern_options_init(&promised);
    promised.stores = TERN_STORES_BARRIER;
    if (tern_init(&promised) == 0)
        return 0;
    const char *line = tern_error();
    snprintf(error, error_cap, "%s", *line ? line : strerror(errno));
    return -1;
}

static void *alloc(size_t size, enum scan scan) {
    return scan == SCAN_LEAF ? tern_alloc_leaf(size) : tern_alloc(size);
}

static const struct backend_type *type_new(const char *name, size_t size, uint64_t bitmap) {
    return (const struct backend_type *)tern_type_new(name, size, &bitmap);
}

static void *alloc_typed(const struct backend_type *type) {
    return tern_alloc_typed((const tern_type *)type, 1);
}

static void release(void *object) {
    (void)object;
}

static void store(void *field, void *value) {
    tern_store(field, value);
}

static void init_store(void *field, void *value) {
    tern_init_store(field, value);
}

static int root_add(void *from, size_t bytes) {
    return tern_root_add(from, bytes);
}

static void root_remove(void *from, size_t bytes) {
    (void)bytes;
    (void)tern_root_remove(from);
}

static int thread_create(pthread_t *thread, void *(*run)(void *), void *argument) {
    return tern_pthread_create(thread, NULL, run, argument);
}

/* Waiting for a thread is a blocking call: this thread is not to be signalled in it. */
static int thread_join(pthread_t thread, void **result) {
    tern_blocking_begin();
    int rc = pthread_join(thread, result);
    tern_blocking_end();
    return rc;
}

static void *blocking(void *(*call)(void *), void *argument) {
    tern_blocking_begin();
    void *result = call(argument);
    tern_blocking_end();
    return result;
}

static void stats(struct backend_stats *out) {
    tern_stats s = {.size = sizeof s};
    backend_stats_clear(out);
    if (tern_stats_read(&s) != 0)
        return;
    *out = (struct backend_stats){
        .gogc = s.gc_percent < 0 ? RATIO_OFF : s.gc_percent,
        .memlimit_bytes = s.memory_limit == TERN_NO_LIMIT ? LIMIT_ABSENT : s.memory_limit,
        .processors = s.processors,
        .collections = s.collections,
        .forced = s.forced,
        .alloc_bytes = s.alloc_bytes,
        .allocs = s.alloc_count,
        .peak_heap_bytes = s.peak_heap_bytes,
        .peak_counted_bytes = s.peak_total_bytes,
        .live_bytes = s.live_bytes,
        .total_bytes = s.total_bytes,
        .goal_bytes = s.goal_bytes,
        .pause_count = s.pause_count,
        .pause_max_ns = s.pause_max_ns,
        .pause_p99_ns = s.pause_p99_ns,
        .pause_p50_ns = s.pause_p50_ns,
        .pause_total_ns = s.pause_total_ns,
        .stopping_max_ns = s.stopping_max_ns,
        .stopping_p50_ns = s.stopping_p50_ns,
        .stopping_p99_ns = s.stopping_p99_ns,
        .gc_cpu_ns = s.gc_cpu_ns,
        .gc_cpu_percent = s.gc_cpu_percent,
        .limit_passed = s.limit_passed,
        .limit_passed_by_bytes = s.limit_passed_by_bytes,
        .limiter_skipped = s.limiter_skipped,
    };
}

const struct backend backend_tern = {
    .name = "tern",
    .help = "this library, set by the environment",
    .collects = true,
    .start = start,
    .finish = tern_shutdown,
    .alloc = alloc,
    .alloc_unzeroed = tern_alloc_leaf,
    .type_new = type_new,
    .alloc_typed = alloc_typed,
    .release = release,
    .store = store,
    .init_store = init_store,
    .root_add = root_add,
    .root_remove = root_remove,
    .thread_create = thread_create,
    .thread_join = thread_join,
    .blocking = blocking,
    .collect = tern_collect,
    .release_memory = tern_release_memory,
    .stats = stats,
};
