/* Rows of text; see report.h. */
#include "workloads/report.h"

#include <inttypes.h>
#include <stdio.h>

#include "runtime/size_text.h"

void report_text(const char *name, const char *value, const char *note) {
    printf("  %-18s %12s%s%s\n", name, value, *note ? "   " : "", note);
}

void report_count(const char *name, uint64_t value, const char *note) {
    char text[32] = "-";
    if (value != STAT_UNKNOWN)
        snprintf(text, sizeof text, "%" PRIu64, value);
    report_text(name, text, note);
}

void report_bytes(const char *name, uint64_t bytes, const char *note) {
    char text[SIZE_TEXT_FORMAT_MAX_BYTES] = "-";
    if (bytes != STAT_UNKNOWN)
        size_text_format(text, sizeof text, bytes);
    report_text(name, text, note);
}

static void report_scaled(const char *name, uint64_t ns, double unit_ns, const char *unit, const char *note) {
    char text[32] = "-";
    if (ns != STAT_UNKNOWN)
        snprintf(text, sizeof text, "%.3f %s", (double)ns / unit_ns, unit);
    report_text(name, text, note);
}

void report_ms(const char *name, uint64_t ns, const char *note) {
    report_scaled(name, ns, 1e6, "ms", note);
}

void report_us(const char *name, uint64_t ns, const char *note) {
    report_scaled(name, ns, 1e3, "us", note);
}

void report_settings(const struct run *run) {
    const struct backend *backend = backend_find(run->backend);
    char text[SIZE_TEXT_FORMAT_MAX_BYTES];
    printf("%s: %s", run->backend, backend ? backend->help : "");
    if (run->stats.gogc == RATIO_OFF)
        printf("; GOGC off");
    else if (run->stats.gogc != RATIO_ABSENT)
        printf("; GOGC %d %%", run->stats.gogc);
    if (run->stats.memlimit_bytes != LIMIT_ABSENT) {
        size_text_format(text, sizeof text, run->stats.memlimit_bytes);
        printf("; memory limit %s", text);
    } else if (run->stats.gogc != RATIO_ABSENT) {
        printf("; no memory limit");
    }
    if (run->boehm_divisor != STAT_UNKNOWN)
        printf("; free space divisor %" PRIu64, run->boehm_divisor);
    if (run->boehm_max_heap_bytes != STAT_UNKNOWN) {
        size_text_format(text, sizeof text, run->boehm_max_heap_bytes);
        printf("; maximum heap %s", text);
    }
    if (run->boehm_initial_heap_bytes != STAT_UNKNOWN) {
        size_text_format(text, sizeof text, run->boehm_initial_heap_bytes);
        printf("; %s at the start", text);
    }
    printf("\n\n");
}

void report_memory(const struct run *run, const char *note) {
    char before[SIZE_TEXT_FORMAT_MAX_BYTES], rss_note[64];
    report_count("collections", run->stats.collections, note);
    report_count("forced", run->stats.forced, "");
    report_bytes("peak heap", run->stats.peak_heap_bytes, "");
    report_bytes("peak counted", run->stats.peak_counted_bytes,
                 "held from the kernel; the memory limit is about this");
    size_text_format(before, sizeof before, run->rss_before_bytes);
    snprintf(rss_note, sizeof rss_note, "of which %s before the first allocation", before);
    report_bytes("peak RSS", run->peak_rss_bytes, rss_note);
}

void report_time(const struct run *run) {
    const struct backend_stats *s = &run->stats;
    char share[32] = "-", note[64] = "";
    report_ms("pause max", s->pause_max_ns, "");
    report_ms("pause p99", s->pause_p99_ns, "");
    report_ms("pause p50", s->pause_p50_ns, "");
    report_ms("stopping p50", s->stopping_p50_ns, "");
    report_ms("stopping p99", s->stopping_p99_ns, "");
    report_ms("stopping max", s->stopping_max_ns, "the part of a pause until all threads stand still");
    if (s->gc_cpu_percent >= 0) {
        snprintf(share, sizeof share, "%.1f %%", s->gc_cpu_percent);
        snprintf(note, sizeof note, "of %d processor%s since the start", s->processors,
                 s->processors == 1 ? "" : "s");
    }
    report_text("GC CPU", share, note);
    report_ms("wall time", run->wall_ns, "");
    report_ms("CPU time", run->cpu_ns, "");
    if (run->failed_allocations != STAT_UNKNOWN && run->failed_allocations)
        report_count("failed", run->failed_allocations, "allocations for which there was no memory");
    if (s->limit_passed != STAT_UNKNOWN && s->limit_passed) {
        char by[SIZE_TEXT_FORMAT_MAX_BYTES];
        size_text_format(by, sizeof by, s->limit_passed_by_bytes);
        snprintf(note, sizeof note, "times, by %s at most", by);
        report_count("limit passed", s->limit_passed, note);
    }
}
