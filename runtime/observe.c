/*
 * Looking at the library from the program: statistics, the per-cycle callback, object queries, the heap walk.
 */
#include <errno.h>
#include <string.h>
#include <tern/tern.h>

#include "gc/account.h"
#include "gc/cleanup.h"
#include "gc/cycle.h"
#include "gc/heap.h"
#include "gc/inspect.h"
#include "gc/offheap.h"
#include "gc/os/os_time.h"
#include "gc/pagerun.h"
#include "gc/settings.h"
#include "gc/sizeclass.h"
#include "gc/stats.h"
#include "gc/sweep.h"
#include "gc/weak.h"
#include "runtime/runtime.h"

_Static_assert(TERN_SIZE_CLASSES == SIZECLASS_COUNT, "the public number of size classes");
_Static_assert((int)TERN_KIND_TINY == (int)KIND_TINY && (int)TERN_KIND_TRACED == (int)KIND_TRACED,
               "the public kinds");

static uint64_t get(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void read_memory(tern_stats *s) {
    s->heap_bytes = account_heap();
    s->live_bytes = get(&account.live);
    s->goal_bytes = get(&account.goal);
    s->gc_percent = tern_gc_percent();
    s->memory_limit = get(&settings.memory_limit);
    s->processors = settings.processors;
    s->heap_used_bytes = pagerun_used_bytes();
    s->heap_free_bytes = pagerun_free_bytes();
    s->metadata_bytes = atomic_load_explicit(&heap.metadata, memory_order_relaxed);
    s->off_heap_bytes = offheap_bytes();
    s->external_bytes = get(&account.external);
    s->total_bytes =
        s->heap_used_bytes + s->heap_free_bytes + s->metadata_bytes + s->off_heap_bytes + s->external_bytes;
    account_note_peaks();
    s->peak_heap_bytes = get(&account.peak_heap);
    s->peak_total_bytes = get(&account.peak_total);
    s->returned_bytes = pagerun_returned_bytes();
    s->stack_bytes = get(&account.stack_bytes);
    s->root_bytes = get(&account.global_bytes);
}

static void read_cycles(const struct stats_cycles *c, tern_stats *s) {
    s->collections = c->collections;
    s->forced = c->forced;
    s->limit_passed = c->limit_passed;
    s->limit_passed_by_bytes = c->limit_passed_by;
    s->limiter_skipped = c->limiter_skipped;
    s->pause_count = c->pauses.count;
    s->pause_total_ns = c->pauses.total_ns;
    s->pause_max_ns = c->pauses.max_ns;
    s->pause_p50_ns = histogram_quantile(&c->pauses, 0.50);
    s->pause_p99_ns = histogram_quantile(&c->pauses, 0.99);
    s->stopping_max_ns = c->stopping.max_ns;
    s->stopping_p50_ns = histogram_quantile(&c->stopping, 0.50);
    s->stopping_p99_ns = histogram_quantile(&c->stopping, 0.99);
    s->gc_cpu_stop_ns = (uint64_t)c->stop_cpu_ns;
    s->gc_cpu_mark_ns = (uint64_t)c->mark_cpu_ns;
    s->gc_cpu_sweep_ns = (uint64_t)(c->sweep_cpu_ns + sweep_background_cpu_ns());
    s->gc_cpu_other_ns = (uint64_t)c->other_cpu_ns;
    s->gc_cpu_ns = s->gc_cpu_stop_ns + s->gc_cpu_mark_ns + s->gc_cpu_sweep_ns + s->gc_cpu_other_ns;
    s->gc_cpu_percent = stats_gc_cpu_percent((int64_t)s->gc_cpu_ns, os_time_mono_ns());
}

static void read_allocation(const struct mutator_totals *t, tern_stats *s) {
    for (unsigned c = 1; c < SIZECLASS_COUNT; c++) {
        s->alloc_count_by_class[c] = t->slots[c];
        s->alloc_bytes_by_class[c] = t->slots[c] * sizeclass_table[c].bytes;
    }
    /* A shared block counts in bytes when it is taken; each object in it counts as an allocation. */
    s->alloc_count_by_class[SIZECLASS_16_BYTES] += t->tiny_objects - t->tiny_blocks;
    s->alloc_count_by_class[0] = t->large_objects;
    s->alloc_bytes_by_class[0] = t->large_bytes;
    for (unsigned c = 0; c < SIZECLASS_COUNT; c++) {
        s->alloc_count += s->alloc_count_by_class[c];
        s->alloc_bytes += s->alloc_bytes_by_class[c];
    }
}

int tern_stats_read(tern_stats *out) {
    if (out->size == 0 || out->size > sizeof *out) {
        errno = EINVAL;
        return -1;
    }
    struct mutator *self = runtime_self();
    if (self == NULL)
        return -1;
    tern_stats s;
    struct stats_cycles cycles;
    struct mutator_totals totals;
    memset(&s, 0, sizeof s);
    mutator_totals_read(self, &totals);
    mutator_enter(self);
    stats_copy(&cycles);
    s.threads = mutator_count();
    read_memory(&s);
    mutator_leave(self);
    read_cycles(&cycles, &s);
    read_allocation(&totals, &s);
    s.weak_count = weak_count();
    struct cleanup_stats cleanups = cleanup_stats_read();
    s.cleanups_waiting = cleanups.waiting;
    s.cleanups_queued = cleanups.queued;
    s.cleanups_run = cleanups.run;
    s.size = out->size;
    memcpy(out, &s, out->size);
    return 0;
}

size_t tern_size_class_bytes(unsigned index) {
    runtime_self();
    return index > 0 && index < SIZECLASS_COUNT ? sizeclass_table[index].bytes : 0;
}

/* The per-cycle callback. */

static tern_cycle_function *cycle_callback;
static void *cycle_context;

static void tell_program(const struct cycle_report *r) {
    tern_cycle cycle = {
        .number = r->number,
        .forced = r->forced,
        .by_limit = r->by_limit,
        .start_ns = (uint64_t)r->start_ns,
        .pause_ns = (uint64_t)r->pause_ns,
        .stopping_ns = (uint64_t)r->stopping_ns,
        .mark_ns = (uint64_t)r->mark_ns,
        .gc_cpu_ns = (uint64_t)r->gc_cpu_ns,
        .heap_before_bytes = r->heap_before,
        .heap_end_bytes = r->heap_end,
        .stops = r->stops,
        .mark_beside_ns = (uint64_t)r->beside_ns,
        .assist_ns = (uint64_t)r->assist_ns,
        .live_bytes = r->live,
        .goal_bytes = r->goal,
        .next_goal_bytes = r->next_goal,
        .total_bytes = r->total,
    };
    tern_cycle_function *function = cycle_callback;
    if (function != NULL)
        function(&cycle, cycle_context);
}

tern_cycle_function *tern_on_cycle(tern_cycle_function *function, void *context) {
    runtime_self();
    tern_cycle_function *before = cycle_callback;
    cycle_context = context;
    cycle_callback = function;
    report_on_cycle(function != NULL ? tell_program : NULL);
    return before;
}

/* Objects. */

static tern_object public_object(const struct inspect_object *o) {
    return (tern_object){o->base, o->size, (tern_kind)o->kind, o->type_name};
}

bool tern_object_find(const void *pointer, tern_object *out) {
    struct mutator *self = runtime_self();
    struct inspect_object object;
    if (self == NULL)
        return false;
    mutator_enter(self);
    bool found = inspect_find(pointer, &object);
    mutator_leave(self);
    if (found && out != NULL)
        *out = public_object(&object);
    return found;
}

struct walk {
    tern_walk_function *function;
    void *context;
};

static bool visit_object(const struct inspect_object *object, void *context) {
    const struct walk *walk = context;
    tern_object public = public_object(object);
    return walk->function(&public, walk->context);
}

static void walk_stopped(void *context) {
    inspect_walk(visit_object, context);
}

void tern_heap_walk(tern_walk_function *function, void *context) {
    struct mutator *self = runtime_self();
    struct walk walk = {function, context};
    if (self != NULL)
        cycle_stopped(self, walk_stopped, &walk);
}
