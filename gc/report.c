/* See report.h. Calls account, limiter, limit, pace, stats, trace_format, gc/os. */
#include "gc/report.h"

#include <string.h>

#include "gc/account.h"
#include "gc/barrier.h"
#include "gc/limit.h"
#include "gc/limiter.h"
#include "gc/os/os_futex.h"
#include "gc/os/os_log.h"
#include "gc/os/os_time.h"
#include "gc/pace.h"
#include "gc/settings.h"
#include "gc/stats.h"
#include "gc/sweep.h"
#include "gc/trace_format.h"

static int64_t library_start_ns;
static _Atomic int64_t last_end_ns; /* relaxed */

/* ---- the CPU limiter ---- */

/* Fed at each cycle and while it holds cycles back. Under its lock, a leaf. */
static struct {
    struct os_lock lock;
    struct limiter limiter;
    int64_t fed_cpu_ns;    /* process CPU when it was fed last */
    int64_t swept_ns;      /* CPU of sweeping in the background at the last report; under the cycle lock */
    _Atomic bool limiting; /* relaxed copy for the slow paths */
} cpu;

/*
 * Since the last call `gc_ns` of all processors' time went to collections, and of the process's CPU `gc_cpu_ns`. What
 * the program used of the rest is measured: a processor that idles, or a thread that waits for the collector, is no
 * reason to collect more.
 */
static void feed_limiter(int64_t gc_ns, int64_t gc_cpu_ns) {
    os_lock_acquire(&cpu.lock);
    int64_t now = os_time_process_cpu_ns(), mutator = now - cpu.fed_cpu_ns - gc_cpu_ns;
    /* Asked between the end of marking and the report, it took the cycle's CPU for the program's. */
    if (mutator < 0)
        gc_ns -= mutator;
    limiter_update(&cpu.limiter, mutator > 0 ? mutator : 0, gc_ns);
    cpu.fed_cpu_ns = now;
    bool limiting = limiter_limiting(&cpu.limiter);
    atomic_store_explicit(&cpu.limiting, limiting, memory_order_relaxed);
    pace_hold_back(limiting);
    os_lock_release(&cpu.lock);
}

static void begin_to_feed(void) {
    cpu.fed_cpu_ns = os_time_process_cpu_ns();
    cpu.swept_ns = sweep_background_cpu_ns();
}

bool report_limiter_holds_back(void) {
    if (!atomic_load_explicit(&cpu.limiting, memory_order_relaxed))
        return false;
    /* While a cycle marks, who knows whose the CPU was is its report. */
    if (!barrier_is_on())
        feed_limiter(0, 0);
    return atomic_load_explicit(&cpu.limiting, memory_order_relaxed);
}

void report_processors_changed(void) {
    os_lock_acquire(&cpu.lock);
    limiter_resize(&cpu.limiter, settings.processors);
    os_lock_release(&cpu.lock);
}

/* ---- the warning ---- */

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
} warning;            /* under the cycle lock */

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

/* ---- the trace ---- */

static int64_t gc_cpu_so_far(void) {
    struct stats_cycles s;
    stats_copy(&s);
    return s.stop_cpu_ns + s.mark_cpu_ns + s.sweep_cpu_ns + s.other_cpu_ns + sweep_background_cpu_ns();
}

static void trace(const struct cycle_report *report) {
    char text[TRACE_GC_LINE_MAX_BYTES];
    struct trace_cycle line = {
        .number = report->number,
        .start_ns = report->start_ns,
        .gc_percent_cpu = (int)stats_gc_cpu_percent(gc_cpu_so_far(), os_time_mono_ns()),
        .sweep_term_clock_ns = report->start_stop_ns,
        .mark_clock_ns = report->beside_ns,
        .mark_term_clock_ns = report->end_stop_ns,
        .sweep_term_cpu_ns = report->start_stop_ns * settings.processors,
        .assist_cpu_ns = report->assist_ns,
        .dedicated_cpu_ns = report->beside_cpu_ns - report->idle_ns,
        .idle_cpu_ns = report->idle_ns,
        .mark_term_cpu_ns = report->end_stop_ns * settings.processors,
        .heap_start_bytes = report->heap_before,
        .heap_end_bytes = report->heap_end,
        .heap_live_bytes = report->live,
        .goal_bytes = report->goal,
        .stack_bytes = report->stack_bytes,
        .global_bytes = report->global_bytes,
        .procs = settings.processors,
        .forced = report->forced,
    };
    size_t length = trace_format_gc(text, sizeof text, &line);
    os_log_write(2, text, length);
}

/* ---- news for the program ---- */

/* Cycles that may wait to be told; older ones are lost, their numbers show it. */
#define NEWS_MOST 64

static struct {
    struct os_lock lock;
    cycle_function *_Atomic function;       /* relaxed */
    struct cycle_report waiting[NEWS_MOST]; /* under lock */
    uint64_t first;                         /* under lock */
    _Atomic uint64_t end;                   /* under lock, read relaxed by report_has_news with told */
    _Atomic uint64_t told;                  /* as end: all below were */
} news;

void report_on_cycle(cycle_function *function) {
    atomic_store_explicit(&news.function, function, memory_order_relaxed);
}

static void add_news(const struct cycle_report *report) {
    if (atomic_load_explicit(&news.function, memory_order_relaxed) == NULL)
        return;
    os_lock_acquire(&news.lock);
    uint64_t end = atomic_load_explicit(&news.end, memory_order_relaxed);
    news.waiting[end % NEWS_MOST] = *report;
    atomic_store_explicit(&news.end, end + 1, memory_order_relaxed);
    os_lock_release(&news.lock);
}

bool report_has_news(void) {
    return atomic_load_explicit(&news.told, memory_order_relaxed) !=
           atomic_load_explicit(&news.end, memory_order_relaxed);
}

static bool take_news(struct cycle_report *report) {
    os_lock_acquire(&news.lock);
    uint64_t end = atomic_load_explicit(&news.end, memory_order_relaxed);
    uint64_t at = atomic_load_explicit(&news.told, memory_order_relaxed);
    if (end - at > NEWS_MOST)
        at = end - NEWS_MOST;
    bool any = at != end;
    if (any)
        *report = news.waiting[at++ % NEWS_MOST];
    atomic_store_explicit(&news.told, at, memory_order_relaxed);
    os_lock_release(&news.lock);
    return any;
}

void report_after_fork(void) {
    /* The locks that are held outside S1: by a thread that is gone, perhaps. Under the one a report was copied, under the
     * other sums were brought up to date. */
    atomic_store_explicit(&news.lock.word, OS_LOCK_FREE, memory_order_relaxed);
    atomic_store_explicit(&cpu.lock.word, OS_LOCK_FREE, memory_order_relaxed);
    begin_to_feed(); /* the child's CPU is counted from the fork */
}

/* A function that allocates comes here again: its cycles are told when it has returned. */
static _Thread_local bool delivering __attribute__((tls_model("initial-exec")));

void report_deliver(void) {
    struct cycle_report report;
    if (delivering)
        return;
    delivering = true;
    while (report_has_news() && take_news(&report)) {
        cycle_function *function = atomic_load_explicit(&news.function, memory_order_relaxed);
        if (function != NULL)
            function(&report);
    }
    delivering = false;
}

/* ---- all of it ---- */

void report_init(int64_t start_ns) {
    library_start_ns = start_ns;
    atomic_store_explicit(&last_end_ns, start_ns, memory_order_relaxed);
    limiter_init(&cpu.limiter, settings.processors);
    begin_to_feed();
    atomic_store_explicit(&cpu.limiting, false, memory_order_relaxed);
    memset(&warning, 0, sizeof warning);
    memset(&news, 0, sizeof news);
}

void report_end(void) {
    warn_limit(os_time_mono_ns(), true);
}

int64_t report_last_end_ns(void) {
    return atomic_load_explicit(&last_end_ns, memory_order_relaxed);
}

void report_cycle(struct cycle_report *report) {
    int64_t now = os_time_mono_ns();
    report->start_ns -= library_start_ns;
    report->total = account_total();
    report->next_goal = atomic_load_explicit(&account.goal, memory_order_relaxed);
    report->gc_cpu_ns = report->stop_cpu_ns + report->mark_cpu_ns + report->assist_ns + report->sweep_cpu_ns +
                        report->other_cpu_ns;
    /* A stopped world costs all processors' time: none of them can run the program. In CPU, as the program's share: on
     * a busy machine the clock goes on while others have the processor. */
    int64_t beside_ns = report->beside_cpu_ns;
    /* What an idle processor gave took nothing from the program; under a limit half is half all the same. */
    if (!report->by_limit)
        beside_ns -= report->idle_ns;
    int64_t swept_ns = sweep_background_cpu_ns(), swept_since_ns = swept_ns - cpu.swept_ns;
    cpu.swept_ns = swept_ns;
    feed_limiter(report->stops_cpu_ns * settings.processors + beside_ns + report->assist_ns +
                     report->sweep_cpu_ns + report->other_cpu_ns + swept_since_ns,
                 report->gc_cpu_ns + swept_since_ns);
    report->number = stats_add(report);
    atomic_store_explicit(&last_end_ns, now, memory_order_relaxed);
    if (settings.trace > 0)
        trace(report);
    warn_limit(now, false);
    add_news(report);
}
