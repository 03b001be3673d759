/* One interface over the allocators that the workloads compare.
 *
 * Does: lets a workload be written once and run on tern, on Boehm GC (libgc) and on malloc/free of jemalloc.
 * Owns: nothing. Never: is used by two backends in one process: the peak of the resident set and the clocks
 * would be shared. Calls: the backend's own library.
 *
 * A workload written for it follows the strictest of the three rules: it stores pointers into managed objects
 * by store(), releases by release() what it is done with, and keeps what must live in a root, a stack or an
 * object.
 */
#ifndef WORKLOADS_BACKEND_H
#define WORKLOADS_BACKEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A count that the backend cannot tell; null in JSON. */
#define STAT_UNKNOWN UINT64_MAX
/* A limit or a goal that is not there, and a growth ratio that is not there. */
#define LIMIT_ABSENT UINT64_MAX
#define RATIO_OFF    (-1)
#define RATIO_ABSENT (-2)

/* What the backend's objects hold. */
enum scan {
    SCAN_LEAF,  /* no pointers */
    SCAN_WORDS, /* any aligned word may be one */
};

/* What a command line says about backends; 0 means the backend's default. */
struct backend_options {
    unsigned long boehm_divisor; /* GC_set_free_space_divisor */
    uint64_t boehm_max_heap;     /* GC_set_max_heap_size, bytes */
    uint64_t boehm_initial_heap; /* GC_expand_hp, bytes */
};

/* A reading of the backend's own counters. Bytes and nanoseconds; STAT_UNKNOWN where it cannot say. */
struct backend_stats {
    int gogc;                /* percent, RATIO_OFF or RATIO_ABSENT */
    uint64_t memlimit_bytes; /* LIMIT_ABSENT when none */
    int processors;          /* that the collector counts on; 0 when it has no such number */
    uint64_t collections, forced;
    uint64_t alloc_bytes, allocs;
    uint64_t peak_heap_bytes;    /* highest size of the heap: objects for tern, pages for Boehm */
    uint64_t peak_counted_bytes; /* most that it held from the kernel, by its own count */
    uint64_t live_bytes;         /* marked by the last collection */
    uint64_t total_bytes;        /* held from the kernel now */
    uint64_t goal_bytes;         /* where the next collection starts; LIMIT_ABSENT: never */
    uint64_t pause_count, pause_max_ns, pause_p99_ns, pause_p50_ns, pause_total_ns;
    uint64_t stopping_max_ns; /* longest time until all threads stood still */
    uint64_t stopping_p50_ns, stopping_p99_ns;
    uint64_t gc_cpu_ns;
    double gc_cpu_percent; /* of all processors' time since the start; negative when unknown */
    uint64_t limit_passed, limit_passed_by_bytes, limiter_skipped;
};

struct backend_type; /* a typed object's description; each backend has its own */

struct backend {
    const char *name;
    const char *help; /* half a line for --help */
    bool collects;    /* false: what is not released stays */

    /* Called once, before anything else, by the main thread. Returns 0, or -1 with one line in `error`. */
    int (*start)(const struct backend_options *options, char *error, size_t error_cap);
    /* Ends it; no object may be touched afterwards. */
    void (*finish)(void);

    /* Zeroed memory, or NULL when there is none to be had. */
    void *(*alloc)(size_t size, enum scan scan);
    /* Memory for a leaf that the caller fills at once: not zeroed where the backend can leave that out. */
    void *(*alloc_unzeroed)(size_t size);
    /* An object of `size` bytes whose word i is a pointer where bit i of bitmap is set (up to 64 words). The
     * type is never freed. */
    const struct backend_type *(*type_new)(const char *name, size_t size, uint64_t bitmap);
    void *(*alloc_typed)(const struct backend_type *type);
    /* The object is not used any more: free() for malloc, nothing for a collector. NULL is fine. */
    void (*release)(void *object);
    /* *field = value, where field lies in an object of this backend. */
    void (*store)(void *field, void *value);
    /* The same for the first store into a field of an object that this thread has just allocated and that
     * nobody else knows. */
    void (*init_store)(void *field, void *value);

    /* The words from `from` on are roots; plain stores reach them. 0 or -1. */
    int (*root_add)(void *from, size_t bytes);
    void (*root_remove)(void *from, size_t bytes);

    /* pthread_create and pthread_join of a thread that may allocate. 0 or an errno value. */
    int (*thread_create)(pthread_t *thread, void *(*start)(void *), void *argument);
    int (*thread_join)(pthread_t thread, void **result);
    /* Returns call(argument), which may block for long and does not touch the heap. */
    void *(*blocking)(void *(*call)(void *), void *argument);

    void (*collect)(void);        /* one whole collection, if it is a collector */
    void (*release_memory)(void); /* gives free memory back to the kernel */
    void (*stats)(struct backend_stats *out);
};

extern const struct backend backend_tern, backend_boehm, backend_malloc;

/* The backends, tern first; ends with NULL. */
extern const struct backend *const backend_all[];

/* The backend of that name, or NULL. */
const struct backend *backend_find(const char *name);

/* Every counter unknown. */
void backend_stats_clear(struct backend_stats *stats);

#endif
