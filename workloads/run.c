/* One table of a run's fields, from which both directions of its JSON are made; see run.h. */
#include "workloads/run.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum field_kind {
    FIELD_TEXT,
    FIELD_COUNT,
    FIELD_SOME, /* a count that is left out where it is unknown */
    FIELD_RATIO,
    FIELD_PERCENT,
    FIELD_INT,
};

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;
};

#define OF(member) offsetof(struct run, member)

static const struct field fields[] = {
    {"workload", FIELD_TEXT, OF(workload)},
    {"backend", FIELD_TEXT, OF(backend)},
    {"gogc", FIELD_RATIO, OF(stats.gogc)},
    {"memlimit_bytes", FIELD_COUNT, OF(stats.memlimit_bytes)},
    {"collections", FIELD_COUNT, OF(stats.collections)},
    {"forced", FIELD_COUNT, OF(stats.forced)},
    {"alloc_bytes", FIELD_COUNT, OF(stats.alloc_bytes)},
    {"allocs", FIELD_COUNT, OF(stats.allocs)},
    {"peak_heap_bytes", FIELD_COUNT, OF(stats.peak_heap_bytes)},
    {"peak_counted_bytes", FIELD_COUNT, OF(stats.peak_counted_bytes)},
    {"peak_rss_bytes", FIELD_COUNT, OF(peak_rss_bytes)},
    {"wall_ns", FIELD_COUNT, OF(wall_ns)},
    {"cpu_ns", FIELD_COUNT, OF(cpu_ns)},
    {"gc_cpu_percent", FIELD_PERCENT, OF(stats.gc_cpu_percent)},
    {"pause_max_ns", FIELD_COUNT, OF(stats.pause_max_ns)},
    {"pause_p99_ns", FIELD_COUNT, OF(stats.pause_p99_ns)},
    {"pause_p50_ns", FIELD_COUNT, OF(stats.pause_p50_ns)},
    {"stopping_max_ns", FIELD_COUNT, OF(stats.stopping_max_ns)},
    {"stopping_p50_ns", FIELD_COUNT, OF(stats.stopping_p50_ns)},
    {"stopping_p99_ns", FIELD_COUNT, OF(stats.stopping_p99_ns)},
    {"pause_total_ns", FIELD_COUNT, OF(stats.pause_total_ns)},
    {"pause_count", FIELD_COUNT, OF(stats.pause_count)},
    {"gc_cpu_ns", FIELD_COUNT, OF(stats.gc_cpu_ns)},
    {"rss_before_bytes", FIELD_COUNT, OF(rss_before_bytes)},
    {"rss_after_bytes", FIELD_COUNT, OF(rss_after_bytes)},
    {"live_bytes", FIELD_COUNT, OF(stats.live_bytes)},
    {"total_bytes", FIELD_COUNT, OF(stats.total_bytes)},
    {"goal_bytes", FIELD_COUNT, OF(stats.goal_bytes)},
    {"limit_passed", FIELD_COUNT, OF(stats.limit_passed)},
    {"limit_passed_by_bytes", FIELD_COUNT, OF(stats.limit_passed_by_bytes)},
    {"limiter_skipped", FIELD_COUNT, OF(stats.limiter_skipped)},
    {"failed_allocations", FIELD_COUNT, OF(failed_allocations)},
    {"processors", FIELD_INT, OF(stats.processors)},
    {"size_bytes", FIELD_COUNT, OF(size_bytes)},
    {"count", FIELD_COUNT, OF(count)},
    {"keep", FIELD_COUNT, OF(keep)},
    {"threads", FIELD_COUNT, OF(threads)},
    {"scan", FIELD_COUNT, OF(scan)},
    {"boehm_divisor", FIELD_COUNT, OF(boehm_divisor)},
    {"boehm_max_heap_bytes", FIELD_COUNT, OF(boehm_max_heap_bytes)},
    {"boehm_initial_heap_bytes", FIELD_COUNT, OF(boehm_initial_heap_bytes)},
    {"canary_worst_ns", FIELD_SOME, OF(canary_worst_ns)},
    {"push_worst_ns", FIELD_SOME, OF(push_worst_ns)},
    {"push_p999_ns", FIELD_SOME, OF(push_p999_ns)},
    {"push_p99_ns", FIELD_SOME, OF(push_p99_ns)},
    {"push_p50_ns", FIELD_SOME, OF(push_p50_ns)},
    {"typed", FIELD_SOME, OF(typed)},
    {"parked", FIELD_SOME, OF(parked)},
    {"parked_raw", FIELD_SOME, OF(parked_raw)},
    {"checksum", FIELD_SOME, OF(checksum)},
    {"collect_wall_ns", FIELD_SOME, OF(collect_wall_ns)},
    {"collect_cpu_ns", FIELD_SOME, OF(collect_cpu_ns)},
};

#define FIELD_COUNT_OF (sizeof fields / sizeof *fields)
#define TEXT_BYTES     sizeof(((struct run *)NULL)->backend)

void run_clear(struct run *run, const char *workload, const char *backend) {
    memset(run, 0, sizeof *run);
    for (size_t i = 0; i < FIELD_COUNT_OF; i++)
        if (fields[i].kind == FIELD_COUNT || fields[i].kind == FIELD_SOME)
            *(uint64_t *)((char *)run + fields[i].offset) = STAT_UNKNOWN;
    backend_stats_clear(&run->stats);
    snprintf(run->workload, sizeof run->workload, "%s", workload);
    snprintf(run->backend, sizeof run->backend, "%s", backend);
}

static json_t *field_to_json(const struct field *f, const void *at) {
    switch (f->kind) {
    case FIELD_TEXT:
        return json_string(at);
    case FIELD_COUNT:
    case FIELD_SOME: {
        uint64_t value = *(const uint64_t *)at;
        return value > INT64_MAX ? json_null() : json_integer((json_int_t)value);
    }
    case FIELD_RATIO: {
        int ratio = *(const int *)at;
        return ratio == RATIO_ABSENT ? json_null()
               : ratio == RATIO_OFF  ? json_string("off")
                                     : json_integer(ratio);
    }
    case FIELD_PERCENT: {
        double percent = *(const double *)at;
        return percent < 0 ? json_null() : json_real(percent);
    }
    case FIELD_INT:
        return json_integer(*(const int *)at);
    }
    return NULL;
}

json_t *run_to_json(const struct run *run) {
    json_t *object = json_object();
    for (size_t i = 0; object && i < FIELD_COUNT_OF; i++) {
        const void *at = (const char *)run + fields[i].offset;
        if (fields[i].kind == FIELD_SOME && *(const uint64_t *)at == STAT_UNKNOWN)
            continue;
        if (json_object_set_new(object, fields[i].name, field_to_json(&fields[i], at)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static bool field_from_json(const struct field *f, const json_t *value, void *at) {
    switch (f->kind) {
    case FIELD_TEXT:
        return json_is_string(value) && strlen(json_string_value(value)) < TEXT_BYTES &&
               strcpy(at, json_string_value(value));
    case FIELD_SOME:
        *(uint64_t *)at = value ? (uint64_t)json_integer_value(value) : STAT_UNKNOWN;
        return !value || (json_is_integer(value) && json_integer_value(value) >= 0);
    case FIELD_COUNT:
        *(uint64_t *)at = json_is_null(value) ? STAT_UNKNOWN : (uint64_t)json_integer_value(value);
        return json_is_null(value) || (json_is_integer(value) && json_integer_value(value) >= 0);
    case FIELD_RATIO:
        *(int *)at = json_is_null(value)     ? RATIO_ABSENT
                     : json_is_string(value) ? RATIO_OFF
                                             : (int)json_integer_value(value);
        return json_is_null(value) || json_is_integer(value) ||
               (json_is_string(value) && strcmp(json_string_value(value), "off") == 0);
    case FIELD_PERCENT:
        *(double *)at = json_is_null(value) ? -1 : json_number_value(value);
        return json_is_null(value) || json_is_number(value);
    case FIELD_INT:
        *(int *)at = (int)json_integer_value(value);
        return json_is_integer(value);
    }
    return false;
}

int run_from_json(const json_t *object, struct run *run, const char **field) {
    run_clear(run, "", "");
    for (size_t i = 0; i < FIELD_COUNT_OF; i++)
        if (!field_from_json(&fields[i], json_object_get(object, fields[i].name),
                             (char *)run + fields[i].offset)) {
            *field = fields[i].name;
            return -1;
        }
    return 0;
}

int run_from_document(const char *text, size_t len, struct run *run, char *error, size_t error_cap) {
    json_error_t where;
    json_t *document = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    if (!document) {
        snprintf(error, error_cap, "its output is not JSON: %s", where.text);
        return -1;
    }
    const char *field = "runs[0]";
    json_t *first = json_array_get(json_object_get(document, "runs"), 0);
    int rc = first ? run_from_json(first, run, &field) : -1;
    if (rc != 0)
        snprintf(error, error_cap, "its JSON has no good field \"%s\"", field);
    json_decref(document);
    return rc;
}

int run_print_document(json_t *runs, json_t *relations) {
    json_t *document = json_pack("{s:o, s:o}", "runs", runs, "relations", relations);
    if (!document) {
        errno = ENOMEM;
        return -1;
    }
    int rc = json_dumpf(document, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(document);
    return rc == 0 && putchar('\n') != EOF && fflush(stdout) == 0 ? 0 : -1;
}

uint64_t run_own_peak_rss_bytes(const struct run *run) {
    return run->peak_rss_bytes > run->rss_before_bytes ? run->peak_rss_bytes - run->rss_before_bytes : 0;
}
