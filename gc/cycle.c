/*
 * A collection: stop, blacken what is being handed out, mark, decide what is dead, free, start. Calls every
 * phase's room; nothing calls it but allocation and the runtime. With the world stopped nothing here
 * allocates managed memory or touches the host's malloc, stdio or loader locks (invariant I5).
 */
#include "gc/cycle.h"

#include <errno.h>

#include "gc/account.h"
#include "gc/central.h"
#include "gc/cleanup.h"
#include "gc/fault.h"
#include "gc/handle.h"
#include "gc/heap.h"
#include "gc/limit.h"
#include "gc/limiter.h"
#include "gc/mark.h"
#include "gc/offheap.h"
#include "gc/os/os_log.h"
#include "gc/os/os_time.h"
#include "gc/roots.h"
#include "gc/settings.h"
#include "gc/span.h"
#include "gc/stats.h"
#include "gc/stop.h"
#include "gc/sweep.h"
#include "gc/trace_format.h"
#include "gc/verify.h"
#include "gc/weak.h"

/* Unswept spans that are worth a wake-up of the background thread (5 us): fewer are swept when they are
 * needed. */
#define BACKGROUND_SPANS 64

static struct os_lock cycle_lock = OS_LOCK_INIT;
static cycle_function *on_end;
static int64_t library_start_ns;
static int64_t stopping_ns; /* of the stop under way; under cycle_lock */

/* The CPU limiter, fed at each cycle and while it holds cycles back. Under its lock, a leaf. */
static struct {
    struct os_lock lock;
    struct limiter limiter;
    int64_t fed_ns;
    _Atomic bool limiting; /* relaxed copy for the slow paths */
} cpu;

/*
 * The warning about a passed limit is one line that says by how much. While the excess still grows it waits,
 * for a second at most, since its first figure would say little; it comes again only when the limit is passed
 * by twice as much and a minute has gone by.
 */
#define WARN_WAIT_NS  INT64_C(1000000000)
#define WARN_AGAIN_NS INT64_C(60000000000)
static struct {
    uint64_t told;    /* bytes by which the last line said it was passed; 0: no line yet */
    int64_t told_ns;  /* when */
    uint64_t over;    /* after the cycle before this one */
    int64_t since_ns; /* since when it is passed; 0: it is not */
} warning;            /* under cycle_lock */

void cycle_init(int64_t start_ns) {
    library_start_ns = start_ns;
    limiter_init(&cpu.limiter, settings.processors);
    cpu.fed_ns = start_ns;
    atomic_store_explicit(&cpu.limiting, false, memory_order_relaxed);
    warning.told = warning.over = 0;
    warning.told_ns = warning.since_ns = 0;
    on_end = NULL;
}

void cycle_on_end(cycle_function *function) {
    on_end = function;
}

/* The stopped world's cost is all processors' time: none of them can run the program. */
static void feed_limiter(int64_t now_ns, int64_t gc_wall_ns) {
    os_lock_acquire(&cpu.lock);
    int64_t mutator = now_ns - cpu.fed_ns - gc_wall_ns;
    limiter_update(&cpu.limiter, (mutator > 0 ? mutator : 0) * settings.processors,
                   gc_wall_ns * settings.processors);
    cpu.fed_ns = now_ns;
    atomic_store_explicit(&cpu.limiting, limiter_limiting(&cpu.limiter), memory_order_relaxed);
    os_lock_release(&cpu.lock);
}

static bool limiter_holds_back(void) {
    if (!atomic_load_explicit(&cpu.limiting, memory_order_relaxed))
        return false;
    feed_limiter(os_time_mono_ns(), 0);
    return atomic_load_explicit(&cpu.limiting, memory_order_relaxed);
}

/* Every N-th slow path on average: 1 to 2N - 1, drawn from the seed, so that different places are hit. */
static uint32_t next_stress(struct mutator *self) {
    self->stress_random = self->stress_random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return 1 + (uint32_t)((self->stress_random >> 33) % (2 * (uint64_t)settings.stress - 1));
}

bool cycle_wanted(struct mutator *self, uint64_t request, enum cycle_reason *reason) {
    if (self->stress_left != 0 && --self->stress_left == 0) {
        self->stress_left = next_stress(self);
        *reason = CYCLE_STRESS;
        return true;
    }
    *reason = CYCLE_HEAP;
    uint64_t heap_then = account_heap() + request;
    if (heap_then <= atomic_load_explicit(&account.goal, memory_order_relaxed))
        return false;
    if (atomic_load_explicit(&account.by, memory_order_relaxed) != PACER_BY_LIMIT ||
        heap_then > atomic_load_explicit(&account.ratio_goal, memory_order_relaxed) || !limiter_holds_back())
        return true;
    stats_limiter_skipped();
    return false;
}

/* What masks and tiny blocks still show is black in this cycle: it may become an object at any time. */
static void blacken_open(void) {
    for (struct mutator *m = mutator_list; m != NULL; m = m->next) {
        for (unsigned k = 0; k < KIND_COUNT; k++)
            for (unsigned c = 1; c < SIZECLASS_COUNT; c++) {
                const struct open_span *span = &m->spans[k][c];
                uint64_t bits = atomic_load_explicit(&m->masks[k][c].bits, memory_order_acquire);
                if (span->index == 0 || bits == 0)
                    continue;
                if (fault_is(FAULT_OPEN_MASK_NOT_BLACKENED))
                    continue;
                unsigned slots = span_slots(span->index);
                _Atomic uint32_t *marks = heap_marks(heap_page(span->index), slots);
                heap_marks_group_set(marks, slots, span->group,
                                     heap_marks_group(marks, slots, span->group) | bits);
            }
        if (m->tiny_base != NULL && !fault_is(FAULT_TINY_BLOCK_LEFT_WHITE)) {
            struct heap_place place = heap_find((uintptr_t)m->tiny_base);
            unsigned slots = span_slots(place.index);
            _Atomic uint32_t *marks = heap_marks(place.head, slots);
            atomic_fetch_or_explicit(&marks[place.slot / 32], 1u << place.slot % 32, memory_order_relaxed);
            atomic_fetch_or_explicit(&place.head->flags, PAGE_LIVE, memory_order_relaxed);
        }
    }
}

static void stop(void) {
    stopping_ns = stop_world();
}

static void stop_all(void) {
    if (settings.data_segments)
        roots_stop_with_segments(stop);
    else
        stop();
}

static void tell_limit(uint64_t over, uint64_t limit) {
    struct os_line line;
    os_line_init(&line);
    os_line_str(&line, "tern: memory limit of ");
    os_line_fixed(&line, (double)limit / (double)MIB, 1);
    os_line_str(&line, " MiB passed by ");
    os_line_fixed(&line, (double)over / (double)MIB, 1);
    os_line_str(&line, " MiB: ");
    os_line_fixed(&line, (double)atomic_load_explicit(&account.live, memory_order_relaxed) / (double)MIB, 1);
    os_line_str(&line, " MiB are live; raise the limit or keep less");
    os_line_emit(&line, 2);
}

/* After each cycle, and with `last` at the end of the program. */
static void warn_limit(int64_t now_ns, bool last) {
    uint64_t limit = atomic_load_explicit(&settings.memory_limit, memory_order_relaxed);
    uint64_t over = limit_over(account_total(), limit);
    uint64_t before = warning.over;
    warning.over = over;
    if (over == 0) {
        warning.since_ns = 0;
        return;
    }
    if (!last)
        stats_limit_passed(over);
    if (warning.since_ns == 0)
        warning.since_ns = now_ns;
    bool again = over >= 2 * warning.told && now_ns - warning.told_ns >= WARN_AGAIN_NS;
    bool settled = last || over <= before || now_ns - warning.since_ns >= WARN_WAIT_NS;
    if (!settings.warnings || !settled || (warning.told != 0 && !again))
        return;
    warning.told = over;
    warning.told_ns = now_ns;
    tell_limit(over, limit);
}

void cycle_end(void) {
    warn_limit(os_time_mono_ns(), true);
}

static int64_t gc_cpu_so_far(void) {
    struct stats_cycles s;
    stats_copy(&s);
    return s.stop_cpu_ns + s.mark_cpu_ns + s.sweep_cpu_ns + s.other_cpu_ns + sweep_background_cpu_ns();
}

static void trace(const struct cycle_report *report, uint64_t stack_bytes, uint64_t global_bytes) {
    char text[TRACE_GC_LINE_MAX_BYTES];
    struct trace_cycle line = {
        .number = report->number,
        .start_ns = report->start_ns,
        .gc_percent_cpu = (int)stats_gc_cpu_percent(gc_cpu_so_far(), os_time_mono_ns()),
        .sweep_term_clock_ns = report->pause_ns,
        .sweep_term_cpu_ns = report->pause_ns * settings.processors,
        .heap_start_bytes = report->heap_before,
        .heap_end_bytes = report->heap_before,
        .heap_live_bytes = report->live,
        .goal_bytes = report->goal,
        .stack_bytes = stack_bytes,
        .global_bytes = global_bytes,
        .procs = settings.processors,
        .forced = report->forced,
    };
    size_t length = trace_format_gc(text, sizeof text, &line);
    os_log_write(2, text, length);
}

/* The cycle itself. Blocked, cycle lock held. */
static struct cycle_report run(enum cycle_reason reason) {
    struct cycle_report report = {.forced = reason == CYCLE_FORCED};
    int64_t cpu_start = os_time_thread_cpu_ns();
    sweep_finish();
    sweep_prepare();
    mark_prepare(atomic_load_explicit(&account.live, memory_order_relaxed));
    int64_t cpu_swept = os_time_thread_cpu_ns();

    report.by_limit = atomic_load_explicit(&account.by, memory_order_relaxed) == PACER_BY_LIMIT;
    report.goal = atomic_load_explicit(&account.goal, memory_order_relaxed);
    int64_t start = os_time_mono_ns();
    report.start_ns = start - library_start_ns;
    stop_all();
    int64_t cpu_stopped = os_time_thread_cpu_ns();
    report.heap_before = account_heap();
    blacken_open();
    if (settings.verify)
        verify_snapshot();
    int64_t mark_start = os_time_mono_ns();
    int64_t cpu_mark = os_time_thread_cpu_ns();
    struct mark_result marked = mark_world();
    int64_t cpu_marked = os_time_thread_cpu_ns();
    report.mark_ns = os_time_mono_ns() - mark_start;
    weak_after_mark();
    cleanup_after_mark();
    handle_trim();
    if (settings.verify)
        verify_marked();
    atomic_fetch_add_explicit(&heap.epoch, 1, memory_order_release);
    int64_t cpu_decided = os_time_thread_cpu_ns();
    struct sweep_walk walk = sweep_walk();
    if (settings.verify)
        verify_swept();
    account_cycle(marked.live_bytes, marked.stack_bytes, marked.global_bytes);
    int64_t cpu_walked = os_time_thread_cpu_ns();
    start_world();
    int64_t end = os_time_mono_ns();
    int64_t cpu_started = os_time_thread_cpu_ns();

    offheap_refresh();
    account_note_peaks();
    account_decide();
    report.pause_ns = end - start;
    report.stopping_ns = stopping_ns;
    report.live = marked.live_bytes;
    report.next_goal = atomic_load_explicit(&account.goal, memory_order_relaxed);
    report.total = account_total();
    feed_limiter(end, report.pause_ns);
    if (walk.unswept >= BACKGROUND_SPANS || sweep_has_excess())
        sweep_begin();
    struct stats_one one = {
        .forced = report.forced,
        .pause_ns = report.pause_ns,
        .stopping_ns = stopping_ns,
        .stop_cpu_ns = (cpu_stopped - cpu_swept) + (cpu_started - cpu_walked),
        .mark_cpu_ns = marked.cpu_ns + (cpu_mark - cpu_stopped),
        .sweep_cpu_ns = (cpu_swept - cpu_start) + (cpu_walked - cpu_decided),
        .other_cpu_ns = (cpu_decided - cpu_marked) + (os_time_thread_cpu_ns() - cpu_started),
    };
    report.gc_cpu_ns = one.stop_cpu_ns + one.mark_cpu_ns + one.sweep_cpu_ns + one.other_cpu_ns;
    report.number = stats_add(&one);
    if (settings.trace > 0)
        trace(&report, marked.stack_bytes, marked.global_bytes);
    warn_limit(end, false);
    return report;
}

void cycle_collect(struct mutator *self, enum cycle_reason reason) {
    uint32_t seen = heap_epoch();
    int saved = errno;
    struct cycle_report report;
    bool ran = false;
    mutator_block(self);
    os_lock_acquire(&cycle_lock);
    if (reason != CYCLE_HEAP || heap_epoch() == seen) {
        report = run(reason);
        ran = true;
    }
    os_lock_release(&cycle_lock);
    mutator_unblock(self);
    if (ran) {
        cleanup_wake();
        if (on_end != NULL)
            on_end(&report);
    }
    errno = saved;
}

void cycle_stopped(struct mutator *self, void (*function)(void *context), void *context) {
    mutator_block(self);
    os_lock_acquire(&cycle_lock);
    sweep_finish();
    stop();
    function(context);
    start_world();
    os_lock_release(&cycle_lock);
    mutator_unblock(self);
}

void cycle_settings_changed(struct mutator *self) {
    mutator_enter(self);
    account_decide();
    mutator_leave(self);
}
