/* biglive: a large live heap of small objects, and garbage beside it. Says how often the collector ran, how
 * long it stopped the program, and what it cost.
 *
 * Does: reads the command line, runs biglive_work on one backend, prints the figures as text or JSON. Owns:
 * nothing. Never: sets a knob itself. Calls: biglive_work.h, setup.h, report.h, cli.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/size_text.h"
#include "workloads/biglive_work.h"
#include "workloads/cli.h"
#include "workloads/measure.h"
#include "workloads/report.h"
#include "workloads/setup.h"

#define DEFAULT_LIVE_BYTES    ((uint64_t)1 << 30)
#define DEFAULT_GARBAGE_BYTES ((uint64_t)2 << 30)

struct options {
    struct setup setup;
    struct biglive_work work;
    bool collect;
};

enum {
    KEY_LIVE = CLI_KEY_FIRST_FREE,
    KEY_GARBAGE,
    KEY_THREADS,
    KEY_TYPED,
    KEY_PARKED,
    KEY_PARKED_RAW,
    KEY_CANARY,
    KEY_COLLECT,
};

static const struct argp_option option_table[] = {
    {"live", KEY_LIVE, "SIZE", 0, "Bytes of nodes that stay; default 1GiB", 0},
    {"garbage", KEY_GARBAGE, "SIZE", 0, "Bytes of nodes that are dropped, over all threads; default 2GiB", 0},
    {"threads", KEY_THREADS, "N", 0, "Share the garbage between N threads; default 1", 0},
    {"typed", KEY_TYPED, 0, 0, "Nodes are typed objects, not words", 0},
    {"parked", KEY_PARKED, "T", 0, "T attached threads more, which wait in a blocking section; default 0", 0},
    {"parked-raw", KEY_PARKED_RAW, 0, 0,
     "Parked threads sleep outside any blocking section, so that each stop must reach them", 0},
    {"canary", KEY_CANARY, "on|off", 0, "A thread that only sleeps and notes how late it wakes; default on",
     0},
    {"collect", KEY_COLLECT, 0, 0, "Force one collection at the end and say what it cost", 1},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state) {
    struct options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->setup;
        break;
    case KEY_LIVE:
        o->work.live_nodes = cli_size(state, "--live", arg, BIGLIVE_NODE_BYTES) / BIGLIVE_NODE_BYTES;
        break;
    case KEY_GARBAGE:
        o->work.garbage_nodes = cli_size(state, "--garbage", arg, 0) / BIGLIVE_NODE_BYTES;
        break;
    case KEY_THREADS:
        o->work.threads = (unsigned)cli_number(state, "--threads", arg, 1, 1024);
        break;
    case KEY_TYPED:
        o->work.typed = true;
        break;
    case KEY_PARKED:
        o->work.parked = (unsigned)cli_number(state, "--parked", arg, 0, 10000);
        break;
    case KEY_PARKED_RAW:
        o->work.parked_raw = true;
        break;
    case KEY_CANARY:
        o->work.canary = cli_switch(state, "--canary", arg);
        break;
    case KEY_COLLECT:
        o->collect = true;
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
    "Build a forest of 32-byte nodes that stays, then drop trees of the same nodes beside it; then say how "
    "often the collector ran, how long it stopped the program and what it cost. Every node of the forest is "
    "looked at in the end, and the sum is the same on every backend.\v"
    "Sizes are bytes, or a number with B, KiB, MiB, GiB or TiB. Example:\n"
    "  GODEBUG=gctrace=1 biglive --live 256MiB --garbage 1GiB --threads 2",
    setup_options,
    NULL,
    NULL,
};

static void print_run(const struct run *run) {
    char live[SIZE_TEXT_FORMAT_MAX_BYTES], garbage[SIZE_TEXT_FORMAT_MAX_BYTES];
    size_text_format(live, sizeof live, run->keep * run->size_bytes);
    size_text_format(garbage, sizeof garbage, (run->count - run->keep) * run->size_bytes);
    printf("biglive: %s of live nodes, %s of garbage by %" PRIu64 " thread%s, %s", live, garbage,
           run->threads, run->threads == 1 ? "" : "s", run->typed ? "typed" : "words");
    if (run->parked)
        printf(", %" PRIu64 " thread%s parked%s", run->parked, run->parked == 1 ? "" : "s",
               run->parked_raw ? " raw" : "");
    printf("\n");
    report_settings(run);
    report_memory(run, "");
    report_time(run);
    if (run->collect_wall_ns != STAT_UNKNOWN) {
        report_ms("one collection", run->collect_wall_ns, "forced, with nothing else to do");
        report_ms("its CPU time", run->collect_cpu_ns, "");
    }
    report_ms("canary worst", run->canary_worst_ns, "how late a thread woke that only sleeps");
    report_count("checksum", run->checksum, "of the live nodes");
}

struct built {
    const struct options *options;
    struct run *run;
};

/* The counters are read before the forced collection, which is none of the program's. */
static void measure_built(void *context) {
    const struct built *b = context;
    setup_read(&b->options->setup, STAT_UNKNOWN, b->run);
    if (!b->options->collect || !b->options->setup.backend->collects)
        return;
    uint64_t cpu_ns = measure_process_cpu_ns(), wall_ns = measure_wall_ns();
    b->options->setup.backend->collect();
    b->run->collect_wall_ns = measure_wall_ns() - wall_ns;
    b->run->collect_cpu_ns = measure_process_cpu_ns() - cpu_ns;
}

static void run_here(const struct options *o, struct run *run) {
    const struct backend *backend = o->setup.backend;
    struct biglive_result result;
    struct built built = {o, run};
    char error[256];
    setup_start(&o->setup, "biglive", run);
    if (biglive_work(backend, &o->work, measure_built, &built, &result, error, sizeof error) != 0)
        cli_die(CLI_EXIT_FAILED, "%s: %s", backend->name, error);
    if (run->stats.allocs == STAT_UNKNOWN)
        run->stats.allocs = result.allocs;
    run->rss_before_bytes = result.rss_before_bytes;
    run->peak_rss_bytes = result.peak_rss_bytes;
    run->rss_after_bytes = measure_rss_bytes();
    run->wall_ns = result.wall_ns;
    run->cpu_ns = result.cpu_ns;
    run->size_bytes = BIGLIVE_NODE_BYTES;
    run->count = o->work.live_nodes + o->work.garbage_nodes;
    run->keep = o->work.live_nodes;
    run->threads = o->work.threads;
    run->scan = 1;
    run->failed_allocations = 0;
    run->typed = o->work.typed;
    run->parked = o->work.parked;
    run->parked_raw = o->work.parked_raw;
    run->canary_worst_ns = result.canary_worst_ns;
    run->checksum = result.checksum;
    backend->finish();
}

int main(int argc, char **argv) {
    struct options o = {
        .setup = setup_default(),
        .work = {.live_nodes = DEFAULT_LIVE_BYTES / BIGLIVE_NODE_BYTES,
                 .garbage_nodes = DEFAULT_GARBAGE_BYTES / BIGLIVE_NODE_BYTES,
                 .threads = 1,
                 .canary = true},
    };
    struct run run;
    cli_parse(&parser, argc, argv, &o);
    run_here(&o, &run);
    if (o.setup.json)
        setup_print_json(&run, 1);
    else
        print_run(&run);
    cli_flush();
    return EXIT_SUCCESS;
}
