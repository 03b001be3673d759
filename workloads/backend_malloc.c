/* The malloc backend: calloc and free of jemalloc, with nothing collected.
 *
 * jemalloc must be this process's malloc, and must not be the other backends': so a process that chooses this
 * backend starts itself again with jemalloc preloaded, which is also how programs in the field are put on it.
 * (Opening it with dlopen fails: its thread-local storage does not fit in what the loader keeps for late
 * libraries.) Owns: the count of bytes that finished threads had allocated. Never: falls back to another
 * malloc in silence.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workloads/backend.h"

#define JEMALLOC "libjemalloc.so.2"
/* Set by the first process for the second, which so knows that starting once more would not help. */
#define STARTED_AGAIN "WORKLOADS_PRELOADED"
/* "All arenas" in jemalloc's control names (MALLCTL_ARENAS_ALL). */
#define ALL_ARENAS "4096"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

struct backend_type {
    size_t size;
};

static int (*control)(const char *name, void *old, size_t *old_size, void *new, size_t new_size);

/* Relaxed: a sum of finished threads' counts, read after they were joined. */
static _Atomic uint64_t finished_threads_bytes;
static uint64_t start_bytes;

/* A number of jemalloc's own, or STAT_UNKNOWN. */
static uint64_t number(const char *name) {
    uint64_t value = 0;
    size_t size = sizeof value;
    return control(name, &value, &size, NULL, 0) == 0 ? value : STAT_UNKNOWN;
}

#ifndef SANITIZED
/* Replaces this process by the same one with jemalloc preloaded. Comes back only on failure. */
static void start_again(void) {
    char arguments[65536], *argv[256], preload[4096];
    FILE *file = fopen("/proc/self/cmdline", "re");
    if (!file)
        return;
    size_t len = fread(arguments, 1, sizeof arguments - 1, file), argc = 0;
    fclose(file);
    if (len == sizeof arguments - 1) {
        errno = E2BIG;
        return;
    }
    arguments[len] = '\0';
    for (char *at = arguments; at < arguments + len; at += strlen(at) + 1) {
        if (argc == sizeof argv / sizeof *argv - 1) {
            errno = E2BIG;
            return;
        }
        argv[argc++] = at;
    }
    argv[argc] = NULL;
    const char *others = getenv("LD_PRELOAD");
    snprintf(preload, sizeof preload, "%s%s%s", JEMALLOC, others && *others ? ":" : "", others ? others : "");
    setenv("LD_PRELOAD", preload, 1);
    setenv(STARTED_AGAIN, "1", 1);
    execv("/proc/self/exe", argv);
}
#endif

static int start(const struct backend_options *options, char *error, size_t error_cap) {
    (void)options;
#ifdef SANITIZED
    snprintf(error, error_cap,
             "backend malloc: a build with sanitizers has their malloc; use the release build");
    return -1;
#else
    void *symbol = dlsym(RTLD_DEFAULT, "mallctl");
    if (!symbol && !getenv(STARTED_AGAIN)) {
        start_again();
        snprintf(error, error_cap, "backend malloc: cannot start again with %s: %s", JEMALLOC,
                 strerror(errno));
        return -1;
    }
    if (!symbol) {
        snprintf(error, error_cap, "backend malloc: %s cannot be preloaded; install libjemalloc2", JEMALLOC);
        return -1;
    }
    memcpy(&control, &symbol, sizeof control);
    start_bytes = number("thread.allocated");
    return 0;
#endif
}

static void finish(void) {
}

static void *alloc(size_t size, enum scan scan) {
    (void)scan;
    return calloc(1, size);
}

static const struct backend_type *type_new(const char *name, size_t size, uint64_t bitmap) {
    (void)name, (void)bitmap;
    struct backend_type *type = malloc(sizeof *type);
    if (type)
        type->size = size;
    return type;
}

static void *alloc_typed(const struct backend_type *type) {
    return calloc(1, type->size);
}

static void store(void *field, void *value) {
    *(void **)field = value;
}

static void *blocking(void *(*call)(void *), void *argument) {
    return call(argument);
}

static int root_add(void *from, size_t bytes) {
    (void)from, (void)bytes;
    return 0;
}

static void root_remove(void *from, size_t bytes) {
    (void)from, (void)bytes;
}

struct thread_start {
    void *(*run)(void *);
    void *argument;
};

static void *run_thread(void *argument) {
    struct thread_start todo = *(struct thread_start *)argument;
    free(argument);
    void *result = todo.run(todo.argument);
    atomic_fetch_add_explicit(&finished_threads_bytes, number("thread.allocated"), memory_order_relaxed);
    return result;
}

static int thread_create(pthread_t *thread, void *(*run)(void *), void *argument) {
    struct thread_start *todo = malloc(sizeof *todo);
    if (!todo)
        return ENOMEM;
    *todo = (struct thread_start){run, argument};
    int rc = pthread_create(thread, NULL, run_thread, todo);
    if (rc != 0)
        free(todo);
    return rc;
}

static void collect(void) {
}

static void release_memory(void) {
    (void)control("arena." ALL_ARENAS ".purge", NULL, NULL, NULL, 0);
}

static void stats(struct backend_stats *out) {
    uint64_t epoch = 1;
    backend_stats_clear(out);
    (void)control("epoch", NULL, NULL, &epoch, sizeof epoch);
    uint64_t own = number("thread.allocated");
    if (own != STAT_UNKNOWN)
        out->alloc_bytes =
            own - start_bytes + atomic_load_explicit(&finished_threads_bytes, memory_order_relaxed);
    out->total_bytes = number("stats.resident");
}

const struct backend backend_malloc = {
    .name = "malloc",
    .help = "calloc and free of jemalloc",
    .start = start,
    .finish = finish,
    .alloc = alloc,
    .alloc_unzeroed = malloc,
    .type_new = type_new,
    .alloc_typed = alloc_typed,
    .release = free,
    .store = store,
    .init_store = store,
    .root_add = root_add,
    .root_remove = root_remove,
    .thread_create = thread_create,
    .thread_join = pthread_join,
    .blocking = blocking,
    .collect = collect,
    .release_memory = release_memory,
    .stats = stats,
};
