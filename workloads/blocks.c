/* blocks: one setting, one run. Allocates a stream of large blocks under the settings of the environment and
 * says what the collector did.
 *
 * Does: reads the command line, runs blocks_work on one backend, prints the figures as text or JSON. Owns:
 * nothing. Never: sets a knob itself. Calls: blocks_work.h, setup.h, report.h, cli.h, and tern.h through its
 * backend only.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/size_text.h"
#include "workloads/blocks_work.h"
#include "workloads/cli.h"
#include "workloads/measure.h"
#include "workloads/report.h"
#include "workloads/setup.h"

/* The work of the articles: 250 MiB in blocks of 64 KiB. */
#define DEFAULT_SIZE_BYTES ((size_t)64 << 10)
#define DEFAULT_COUNT      4000

/* Go's smallest goal at a ratio of 100 % (its heapMinimum): what "ideal" is reckoned from. */
#define LEAST_GOAL_BYTES ((uint64_t)4 << 20)

struct options {
    struct setup setup;
    struct blocks_work work;
    uint64_t collect; /* forced collections at the end */
    bool release;
};

enum {
    KEY_SIZE = CLI_KEY_FIRST_FREE,
    KEY_COUNT,
    KEY_KEEP,
    KEY_THREADS,
    KEY_SCAN,
    KEY_CHECK,
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
    {"collect", KEY_COLLECT, "N", 0, "Force N collections at the end; default 0", 1},
    {"release", KEY_RELEASE, 0, 0, "Give free memory back to the system at the end", 1},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state) {
    struct options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->setup;
        break;
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
    case KEY_COLLECT:
        o->collect = cli_number(state, "--collect", arg, 0, 1000000);
        break;
    case KEY_RELEASE:
        o->release = true;
        break;
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
    setup_options,
    NULL,
    NULL,
};

/* ------------------------------------------------------------------------------------------------------
 * printing */

static void print_run(const struct run *run, bool released) {
    char kept[48] = "none kept", note[128] = "";
    char size[SIZE_TEXT_FORMAT_MAX_BYTES], whole[SIZE_TEXT_FORMAT_MAX_BYTES];
    size_text_format(size, sizeof size, run->size_bytes);
    size_text_format(whole, sizeof whole, run->size_bytes * run->count);
    if (run->keep)
        snprintf(kept, sizeof kept, "the last %" PRIu64 " kept", run->keep);
    printf("blocks: %" PRIu64 " of %s, %s in all, %s, %s, %" PRIu64 " thread%s\n", run->count, size, whole,
           run->scan ? "each pointing to the one before" : "pointer-free", kept, run->threads,
           run->threads == 1 ? "" : "s");
    report_settings(run);

    if (run->stats.gogc > 0 && run->stats.memlimit_bytes == LIMIT_ABSENT && run->keep == 0)
        snprintf(note, sizeof note, "ideal %.1f: all bytes / (4 MiB x %d %%)",
                 (double)(run->size_bytes * run->count) /
                     ((double)LEAST_GOAL_BYTES * run->stats.gogc / 100.0),
                 run->stats.gogc);
    report_memory(run, note);
    if (released)
        report_bytes("RSS at the end", run->rss_after_bytes, "after free memory was given back");
    report_time(run);
}

/* -----------------------------------------------------------------------------------------------------------
 * run */

static void fill_run(struct run *run, const struct options *o, const struct blocks_result *result) {
    setup_read(&o->setup, result->allocs, run);
    run->rss_before_bytes = result->rss_before_bytes;
    run->wall_ns = result->wall_ns;
    run->cpu_ns = result->cpu_ns;
    run->failed_allocations = result->failed;
    run->size_bytes = o->work.size;
    run->count = o->work.count;
    run->keep = o->work.keep;
    run->threads = o->work.threads;
    run->scan = o->work.scan;
}

int main(int argc, char **argv) {
    struct options o = {
        .setup = setup_default(),
        .work = {.size = DEFAULT_SIZE_BYTES, .count = DEFAULT_COUNT, .threads = 1},
    };
    cli_parse(&parser, argc, argv, &o);
    if (o.work.scan && o.work.size < 2 * sizeof(void *))
        cli_die(CLI_EXIT_USAGE,
                "--size %zu is too small for --scan: a block holds a pointer and a mark; use 16 or more",
                o.work.size);

    const struct backend *backend = o.setup.backend;
    struct run run;
    setup_start(&o.setup, "blocks", &run);
    struct blocks_result result;
    char error[256];
    if (blocks_work(backend, &o.work, &result, error, sizeof error) != 0)
        cli_die(CLI_EXIT_FAILED, "%s: %s", backend->name, error);
    run.peak_rss_bytes = measure_peak_rss_bytes();
    for (uint64_t i = 0; i < o.collect; i++)
        backend->collect();
    if (o.release)
        backend->release_memory();
    run.rss_after_bytes = measure_rss_bytes();
    fill_run(&run, &o, &result);

    if (o.setup.json)
        setup_print_json(&run, 1);
    else
        print_run(&run, o.release);
    cli_flush();
    backend->finish();
    return EXIT_SUCCESS;
}
