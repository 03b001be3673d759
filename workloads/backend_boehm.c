/* The Boehm backend: Debian's libgc, started only when it is chosen.
 *
 * Owns: the record of Boehm's pauses, taken from its own events, because libgc keeps no percentiles. The
 * events come with its allocation lock held, so the record needs no lock. Never: touches another backend's
 * memory. A pause is the time from "about to stop the world" to "world started"; with marking in the stop, as
 * here, that is all of marking. Its CPU is the process's in the pause (the parallel markers are in it) and
 * the thread's own in reclaiming.
 */
#define GC_THREADS
#define GC_NO_THREAD_REDIRECTS
#include <gc/gc.h>
#include <gc/gc_typed.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/backend.h"
#include "workloads/measure.h"

struct backend_type {
    size_t size;
    GC_descr descriptor;
};

static uint64_t *pauses; /* ns, in the order in which they came */
static size_t pause_count, pause_cap;
static uint64_t pause_total_ns, gc_cpu_ns, peak_heap_bytes, forced;
static uint64_t stop_wall_ns, stop_cpu_ns, reclaim_cpu_ns, stopping_max_ns;
static uint64_t start_ns;

static void note_pause(uint64_t ns) {
    if (pause_count == pause_cap) {
        size_t cap = pause_cap ? pause_cap * 2 : 1024;
        uint64_t *grown = realloc(pauses, cap * sizeof *grown);
        if (!grown)
            abort();
        pauses = grown;
        pause_cap = cap;
    }
    pauses[pause_count++] = ns;
    pause_total_ns += ns;
}

static void GC_CALLBACK on_event(GC_EventType event) {
    switch (event) {
    case GC_EVENT_PRE_STOP_WORLD:
        stop_cpu_ns = measure_process_cpu_ns();
        stop_wall_ns = measure_wall_ns();
        break;
    case GC_EVENT_POST_STOP_WORLD: {
        uint64_t stopping_ns = measure_wall_ns() - stop_wall_ns;
        if (stopping_ns > stopping_max_ns)
            stopping_max_ns = stopping_ns;
        break;
    }
    case GC_EVENT_POST_START_WORLD:
        note_pause(measure_wall_ns() - stop_wall_ns);
        gc_cpu_ns += measure_process_cpu_ns() - stop_cpu_ns;
        break;
    case GC_EVENT_RECLAIM_START:
        reclaim_cpu_ns = measure_thread_cpu_ns();
        break;
    case GC_EVENT_RECLAIM_END:
        gc_cpu_ns += measure_thread_cpu_ns() - reclaim_cpu_ns;
        break;
    default:
        break;
    }
}

static void GC_CALLBACK on_resize(GC_word bytes) {
    if (bytes > peak_heap_bytes)
        peak_heap_bytes = bytes;
}

/* Which writable segments are roots. A program made for Boehm would not have tern's data in it, which is in
 * this one: the program's own segments are left out, and workloads register the roots that they have
 * (backend.h). */
static int GC_CALLBACK has_roots(const char *library, void *from, size_t bytes) {
    (void)from, (void)bytes;
    return library && *library;
}

static int start(const struct backend_options *options, char *error, size_t error_cap) {
    start_ns = measure_wall_ns();
    GC_set_on_heap_resize(on_resize);
    GC_register_has_static_roots_callback(has_roots);
    GC_INIT();
    GC_allow_register_threads();
    /* Its warnings say what we count: allocations that failed. */
    GC_set_warn_proc(GC_ignore_warn_proc);
    GC_set_on_collection_event(on_event);
    if (options->boehm_divisor)
        GC_set_free_space_divisor(options->boehm_divisor);
    if (options->boehm_max_heap)
        GC_set_max_heap_size(options->boehm_max_heap);
    if (options->boehm_initial_heap > GC_get_heap_size() &&
        !GC_expand_hp(options->boehm_initial_heap - GC_get_heap_size())) {
        snprintf(error, error_cap, "backend boehm: no memory for its initial heap");
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

static void finish(void) {
    GC_set_on_collection_event(NULL);
}

/* GC_malloc_atomic gives what was there before; the workloads are about zeroed memory. */
static void *alloc(size_t size, enum scan scan) {
    if (scan == SCAN_WORDS)
        return GC_MALLOC(size);
    void *object = GC_MALLOC_ATOMIC(size);
    return object ? memset(object, 0, size) : NULL;
}

static void *alloc_unzeroed(size_t size) {
    return GC_MALLOC_ATOMIC(size);
}

static const struct backend_type *type_new(const char *name, size_t size, uint64_t bitmap) {
    (void)name;
    struct backend_type *type = malloc(sizeof *type);
    if (!type)
        return NULL;
    GC_word bits = bitmap;
    type->size = size;
    type->descriptor = GC_make_descriptor(&bits, size / sizeof(GC_word) < 64 ? size / sizeof(GC_word) : 64);
    return type;
}

static void *alloc_typed(const struct backend_type *type) {
    return GC_MALLOC_EXPLICITLY_TYPED(type->size, type->descriptor);
}

static void release(void *object) {
    (void)object;
}

static void store(void *field, void *value) {
    *(void **)field = value;
}

static int root_add(void *from, size_t bytes) {
    GC_add_roots(from, (char *)from + bytes);
    return 0;
}

static void root_remove(void *from, size_t bytes) {
    GC_remove_roots(from, (char *)from + bytes);
}

static int thread_create(pthread_t *thread, void *(*run)(void *), void *argument) {
    return GC_pthread_create(thread, NULL, run, argument);
}

static int thread_join(pthread_t thread, void **result) {
    return GC_pthread_join(thread, result);
}

static void *blocking(void *(*call)(void *), void *argument) {
    return GC_do_blocking(call, argument);
}

static void collect(void) {
    forced++;
    GC_gcollect();
}

static void release_memory(void) {
    GC_gcollect_and_unmap();
}

static int compare_ns(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void stats(struct backend_stats *out) {
    struct GC_prof_stats_s s;
    backend_stats_clear(out);
    GC_get_prof_stats(&s, sizeof s);
    out->processors = measure_processors();
    out->collections = s.gc_no;
    out->forced = forced;
    out->alloc_bytes = s.allocd_bytes_before_gc + s.bytes_allocd_since_gc;
    out->peak_heap_bytes = s.heapsize_full > peak_heap_bytes ? s.heapsize_full : peak_heap_bytes;
    out->peak_counted_bytes = s.obtained_from_os_bytes;
    out->total_bytes = s.obtained_from_os_bytes - s.unmapped_bytes;
    out->pause_count = pause_count;
    out->pause_total_ns = pause_total_ns;
    out->stopping_max_ns = stopping_max_ns;
    out->pause_max_ns = out->pause_p99_ns = out->pause_p50_ns = 0;
    if (pause_count) {
        qsort(pauses, pause_count, sizeof *pauses, compare_ns);
        out->pause_max_ns = pauses[pause_count - 1];
        out->pause_p99_ns = pauses[(pause_count - 1) * 99 / 100];
        out->pause_p50_ns = pauses[(pause_count - 1) / 2];
    }
    out->gc_cpu_ns = gc_cpu_ns;
    uint64_t elapsed_ns = measure_wall_ns() - start_ns;
    out->gc_cpu_percent = 100.0 * (double)gc_cpu_ns / ((double)elapsed_ns * out->processors);
}

const struct backend backend_boehm = {
    .name = "boehm",
    .help = "Boehm GC (libgc)",
    .collects = true,
    .start = start,
    .finish = finish,
    .alloc = alloc,
    .alloc_unzeroed = alloc_unzeroed,
    .type_new = type_new,
    .alloc_typed = alloc_typed,
    .release = release,
    .store = store,
    .init_store = store,
    .root_add = root_add,
    .root_remove = root_remove,
    .thread_create = thread_create,
    .thread_join = thread_join,
    .blocking = blocking,
    .collect = collect,
    .release_memory = release_memory,
    .stats = stats,
};
