/* blocks: one setting, one run. Allocates a stream of large blocks under the settings of the environment and
 * says what the collector did.
 *
 * Does: reads the command line, runs blocks_work on one backend, prints the figures as text or JSON. Owns:
 * nothing. Never: sets a knob itself. Calls: blocks_work.h, run.h, cli.h, backend.h, and tern.h through its
 * backend only.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/size_text.h"
#include "workloads/backend.h"
#include "workloads/blocks_work.h"
#include "workloads/cli.h"
#include "workloads/measure.h"
#include "workloads/run.h"

/* The work of the articles: 250 MiB in blocks of 64 KiB. */
#define DEFAULT_SIZE_BYTES ((size_t)64 << 10)
#define DEFAULT_COUNT      4000

/* Go's smallest goal at a ratio of 100 % (its heapMinimum): what "ideal" is reckoned from. */
#define LEAST_GOAL_BYTES ((uint64_t)4 << 20)

struct options {
    struct blocks_work work;
    const struct backend *backend;
    struct backend_options backend_options;
    uint64_t collect; /* forced collections at the end */
    bool release, json;
};

enum {
    KEY_SIZE = CLI_KEY_FIRST_FREE,
    KEY_COUNT,
    KEY_KEEP,
    KEY_THREADS,
    KEY_SCAN,
    KEY_CHECK,
    KEY_BACKEND,
    KEY_DIVISOR,
    KEY_MAX_HEAP,
    KEY_INITIAL_HEAP,
    KEY_COLLECT,
    KEY_RELEASE,
};

static const struct argp_option option_table[] = {
    {"size", KEY_SIZE, "SIZE", 0, "Bytes of a block; default 64KiB", 0},
    {"count", KEY_COUNT, "N", 0, "Number of blocks, over all threads; default 4000", 0},
    {"keep", KEY_KEEP, "K", 0, "Keep the last K blocks, over all threads; default 0", 0},
    {"threads", KEY_THREADS, "T", 0, "Share the work between T threads; default 1", 0},
    {"scan", KEY_SCAN, 0, 0, "Blocks may hold pointers, and each points to the one before", 0},
    {"check", KEY_CHECK, 0, 0, "Look at every byte of each block, to see that it is zero", 0},
    {"backend", KEY_BACKEND, "NAME", 0, "tern, boehm or malloc (jemalloc's calloc and free); default tern",
     1},
    {"boehm-divisor", KEY_DIVISOR, "N", 0, "Boehm's free space divisor", 1},
    {"boehm-max-heap", KEY_MAX_HEAP, "SIZE", 0, "Boehm's maximum heap size", 1},
    {"boehm-initial-heap", KEY_INITIAL_HEAP, "SIZE", 0, "Boehm's heap size at the start", 1},
    {"collect", KEY_COLLECT, "N", 0, "Force N collections at the end; default 0", 1},
    {"release", KEY_RELEASE, 0, 0, "Give free memory back to the system at the end", 1},
    CLI_COMMON_OPTIONS,
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state) {
    struct options *o = state->input;
    switch (key) {
    case KEY_SIZE:
        o->work.size = cli_size(state, "--size", arg, 1);
        break;
    case KEY_COUNT:
        o->work.count = cli_number(state, "--count", arg, 0, 1000000000000u);
        break;
    case KEY_KEEP:
        o->work.keep = cli_number(state, "--keep", arg, 0, 1000000000u);
        break;
    case KEY_THREADS:
        o->work.threads = (unsigned)cli_number(state, "--threads", arg, 1, 1024);
        break;
    case KEY_SCAN:
        o->work.scan = true;
        break;
    case KEY_CHECK:
        o->work.check = true;
        break;
    case KEY_BACKEND:
        o->backend = backend_find(arg);
        if (!o->backend)
            cli_die(CLI_EXIT_USAGE, "--backend \"%s\" is not known; use tern, boehm or malloc", arg);
        break;
    case KEY_DIVISOR:
        o->backend_options.boehm_divisor = cli_number(state, "--boehm-divisor", arg, 1, 1000000);
        break;
    case KEY_MAX_HEAP:
        o->backend_options.boehm_max_heap = cli_size(state, "--boehm-max-heap", arg, 1);
        break;
    case KEY_INITIAL_HEAP:
        o->backend_options.boehm_initial_heap = cli_size(state, "--boehm-initial-heap", arg, 1);
        break;
    case KEY_COLLECT:
        o->collect = cli_number(state, "--collect", arg, 0, 1000000);
        break;
    case KEY_RELEASE:
        o->release = true;
        break;
    case CLI_KEY_JSON:
        o->json = true;
        break;
    case CLI_KEY_HELP:
        cli_help(state);
    case CLI_KEY_VERSION:
        cli_version(state);
    case ARGP_KEY_ARG:
        cli_unexpected(state, arg);
    case ARGP_KEY_ERROR:
        cli_bad_option(state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp parser = {
    option_table,
    parse_option,
    NULL,
    "Allocate a stream of zeroed blocks, touch each of their pages, keep the last few and drop the rest; "
    "then say how "
    "often the collector ran, what it cost and how much memory the process held.\v"
    "Sizes are bytes, or a number with B, KiB, MiB, GiB or TiB. Example:\n"
    "  GOGC=off GOMEMLIMIT=32MiB GODEBUG=gctrace=1 blocks --keep 64",
    NULL,
    NULL,
    NULL,
};

/* ------------------------------------------------------------------------------------------------------
 * printing */

static void print_row(const char *name, const char *value, const char *note) {
    printf("  %-18s %12s%s%s\n", name, value, *note ? "   " : "", note);
}

static void print_count(const char *name, uint64_t value, const char *note) {
    char text[32] = "-";
    if (value != STAT_UNKNOWN)
        snprintf(text, sizeof text, "%" PRIu64, value);
    print_row(name, text, note);
}

static void print_bytes(const char *name, uint64_t bytes, const char *note) {
    char text[SIZE_TEXT_FORMAT_MAX_BYTES] = "-";
    if (bytes != STAT_UNKNOWN)
        size_text_format(text, sizeof text, bytes);
    print_row(name, text, note);
}

static void print_ms(const char *name, uint64_t ns, const char *note) {
    char text[32] = "-";
    if (ns != STAT_UNKNOWN)
        snprintf(text, sizeof text, "%.3f ms", (double)ns / 1e6);
    print_row(name, text, note);
}

static void print_settings(const struct run *run, const struct options *o) {
    char kept[48] = "none kept";
    char size[SIZE_TEXT_FORMAT_MAX_BYTES], whole[SIZE_TEXT_FORMAT_MAX_BYTES],
        limit[SIZE_TEXT_FORMAT_MAX_BYTES];
    size_text_format(size, sizeof size, o->work.size);
    size_text_format(whole, sizeof whole, o->work.size * o->work.count);
    if (o->work.keep)
        snprintf(kept, sizeof kept, "the last %" PRIu64 " kept", o->work.keep);
    printf("blocks: %" PRIu64 " of %s, %s in all, %s, %s, %u thread%s\n", o->work.count, size, whole,
           o->work.scan ? "each pointing to the one before" : "pointer-free", kept, o->work.threads,
           o->work.threads == 1 ? "" : "s");
    printf("%s: %s", run->backend, o->backend->help);
    if (run->stats.gogc == RATIO_OFF)
        printf("; GOGC off");
    else if (run->stats.gogc != RATIO_ABSENT)
        printf("; GOGC %d %%", run->stats.gogc);
    if (run->stats.memlimit_bytes != LIMIT_ABSENT) {
        size_text_format(limit, sizeof limit, run->stats.memlimit_bytes);
        printf("; memory limit %s", limit);
    } else if (run->stats.gogc != RATIO_ABSENT) {
        printf("; no memory limit");
    }
    if (run->boehm_divisor != STAT_UNKNOWN)
        printf("; free space divisor %" PRIu64, run->boehm_divisor);
    if (run->boehm_max_heap_bytes != STAT_UNKNOWN) {
        size_text_format(limit, sizeof limit, run->boehm_max_heap_bytes);
        printf("; maximum heap %s", limit);
    }
    if (run->boehm_initial_heap_bytes != STAT_UNKNOWN) {
        size_text_format(limit, sizeof limit, run->boehm_initial_heap_bytes);
        printf("; %s at the start", limit);
    }
    printf("\n\n");
}

static void print_run(const struct run *run, const struct options *o) {
    const struct backend_stats *s = &run->stats;
    char note[128] = "";
    print_settings(run, o);

    bool ratio_alone = s->gogc > 0 && s->memlimit_bytes == LIMIT_ABSENT && o->work.keep == 0;
    if (ratio_alone)
        snprintf(note, sizeof note, "ideal %.1f: all bytes / (4 MiB x %d %%)",
                 (double)(o->work.size * o->work.count) / ((double)LEAST_GOAL_BYTES * s->gogc / 100.0),
                 s->gogc);
    print_count("collections", s->collections, note);
    print_count("forced", s->forced, "");
    print_bytes("peak heap", s->peak_heap_bytes, "");
    print_bytes("peak counted", s->peak_counted_bytes,
                "held from the kernel; the memory limit is about this");
    char before[SIZE_TEXT_FORMAT_MAX_BYTES];
    size_text_format(before, sizeof before, run->rss_before_bytes);
    snprintf(note, sizeof note, "of which %s before the first allocation", before);
    print_bytes("peak RSS", run->peak_rss_bytes, note);
    if (o->release)
        print_bytes("RSS at the end", run->rss_after_bytes, "after free memory was given back");
    print_ms("pause max", s->pause_max_ns, "");
    print_ms("pause p99", s->pause_p99_ns, "");
    char share[32] = "-";
    if (s->gc_cpu_percent >= 0)
        snprintf(share, sizeof share, "%.1f %%", s->gc_cpu_percent);
    snprintf(note, sizeof note, "of %d processor%s since the start", s->processors,
             s->processors == 1 ? "" : "s");
    print_row("GC CPU", share, s->gc_cpu_percent >= 0 ? note : "");
    print_ms("wall time", run->wall_ns, "");
    print_ms("CPU time", run->cpu_ns, "");
    if (run->failed_allocations)
        print_count("failed", run->failed_allocations, "allocations for which there was no memory");
    if (s->limit_passed != STAT_UNKNOWN && s->limit_passed) {
        char by[SIZE_TEXT_FORMAT_MAX_BYTES];
        size_text_format(by, sizeof by, s->limit_passed_by_bytes);
        snprintf(note, sizeof note, "times, by %s at most", by);
        print_count("limit passed", s->limit_passed, note);
    }
}

/* -----------------------------------------------------------------------------------------------------------
 * run */

/* Named for what it is, before it happens. */
static void warn_if_unbounded(const struct run *run) {
    if (run->stats.gogc == RATIO_OFF && run->stats.memlimit_bytes == LIMIT_ABSENT)
        fprintf(stderr,
                "%s: warning: GOGC=off and no memory limit: nothing is collected and memory grows without "
                "bound; set GOMEMLIMIT\n",
                program_invocation_short_name);
}

static void start_backend(const struct options *o) {
    char error[1024] = "";
    errno = 0;
    if (o->backend->start(&o->backend_options, error, sizeof error) != 0)
        cli_die(errno == EINVAL ? CLI_EXIT_USAGE : CLI_EXIT_FAILED, "%s", error);
}

static void fill_run(struct run *run, const struct options *o, const struct blocks_result *result) {
    o->backend->stats(&run->stats);
    if (run->stats.allocs == STAT_UNKNOWN)
        run->stats.allocs = result->allocs;
    run->rss_before_bytes = result->rss_before_bytes;
    run->wall_ns = result->wall_ns;
    run->cpu_ns = result->cpu_ns;
    run->failed_allocations = result->failed;
    run->size_bytes = o->work.size;
    run->count = o->work.count;
    run->keep = o->work.keep;
    run->threads = o->work.threads;
    run->scan = o->work.scan;
    if (o->backend == &backend_boehm && o->backend_options.boehm_divisor)
        run->boehm_divisor = o->backend_options.boehm_divisor;
    if (o->backend == &backend_boehm && o->backend_options.boehm_max_heap)
        run->boehm_max_heap_bytes = o->backend_options.boehm_max_heap;
    if (o->backend == &backend_boehm && o->backend_options.boehm_initial_heap)
        run->boehm_initial_heap_bytes = o->backend_options.boehm_initial_heap;
}

int main(int argc, char **argv) {
    struct options o = {
        .work = {.size = DEFAULT_SIZE_BYTES, .count = DEFAULT_COUNT, .threads = 1},
        .backend = &backend_tern,
    };
    cli_parse(&parser, argc, argv, &o);
    if (o.work.scan && o.work.size < 2 * sizeof(void *))
        cli_die(CLI_EXIT_USAGE,
                "--size %zu is too small for --scan: a block holds a pointer and a mark; use 16 or more",
                o.work.size);

    start_backend(&o);
    struct run run;
    run_clear(&run, "blocks", o.backend->name);
    o.backend->stats(&run.stats);
    warn_if_unbounded(&run);

    struct blocks_result result;
    char error[256];
    if (blocks_work(o.backend, &o.work, &result, error, sizeof error) != 0)
        cli_die(CLI_EXIT_FAILED, "%s: %s", o.backend->name, error);
    run.peak_rss_bytes = measure_peak_rss_bytes();
    for (uint64_t i = 0; i < o.collect; i++)
        o.backend->collect();
    if (o.release)
        o.backend->release_memory();
    run.rss_after_bytes = measure_rss_bytes();
    fill_run(&run, &o, &result);

    if (o.json) {
        json_t *one = run_to_json(&run);
        if (run_print_document(json_pack("[o]", one), json_object()) != 0)
            cli_die(CLI_EXIT_FAILED, "cannot write the result: %s", strerror(errno));
    } else {
        print_run(&run, &o);
        if (fflush(stdout) != 0)
            cli_die(CLI_EXIT_FAILED, "cannot write the result: %s", strerror(errno));
    }
    o.backend->finish();
    return EXIT_SUCCESS;
}
