/* latency: how long the longest of many small steps takes. Pushes messages through a ring and says how long
 * the pushes took, beside a thread that only sleeps.
 *
 * Does: reads the command line, runs latency_work on one backend, or itself several times, prints the figures
 * as text or JSON. Owns: nothing. Never: sets a knob itself. Calls: latency_work.h, repeat.h, setup.h,
 * report.h, cli.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/size_text.h"
#include "workloads/cli.h"
#include "workloads/latency_work.h"
#include "workloads/measure.h"
#include "workloads/repeat.h"
#include "workloads/report.h"
#include "workloads/setup.h"

/* The classic program's: 195 MiB live, and five times that in all. */
#define DEFAULT_RING       200000
#define DEFAULT_SIZE_BYTES 1024
#define DEFAULT_PUSHES     1000000

struct options {
    struct setup setup;
    struct latency_work work;
    size_t runs;
};

enum { KEY_RING = CLI_KEY_FIRST_FREE, KEY_SIZE, KEY_PUSHES, KEY_CANARY, KEY_RUNS };

static const struct argp_option option_table[] = {
    {"ring", KEY_RING, "N", 0, "Slots of the ring: messages that are live; default 200000", 0},
    {"size", KEY_SIZE, "SIZE", 0, "Bytes of a message, pointer-free; default 1KiB", 0},
    {"pushes", KEY_PUSHES, "N", 0, "Messages pushed in all; default 1000000", 0},
    {"canary", KEY_CANARY, "on|off", 0, "A thread that only sleeps and notes how late it wakes; default on",
     0},
    {"runs", KEY_RUNS, "N", 0, "Run N times, each in a process of its own, and show the best; default 1", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state) {
    struct options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->setup;
        break;
    case KEY_RING:
        o->work.ring = cli_number(state, "--ring", arg, 1, 1000000000u);
        break;
    case KEY_SIZE:
        o->work.size = cli_size(state, "--size", arg, 1);
        break;
    case KEY_PUSHES:
        o->work.count = cli_number(state, "--pushes", arg, 1, 1000000000000u);
        break;
    case KEY_CANARY:
        o->work.canary = cli_switch(state, "--canary", arg);
        break;
    case KEY_RUNS:
        o->runs = cli_number(state, REPEAT_OPTION, arg, 1, 1000);
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
    "Push messages through a ring, each into the place of the oldest, and measure every push by the wall "
    "clock: how long did the worst of them wait for the collector? A canary beside it tells the stalls of "
    "the "
    "machine. Of several runs the best is the one with the shortest worst push.\v"
    "Sizes are bytes, or a number with B, KiB, MiB, GiB or TiB. Example:\n"
    "  GOGC=200 latency --pushes 5000000 --runs 5",
    setup_options,
    NULL,
    NULL,
};

static void print_runs(const struct run *best, size_t runs) {
    char size[SIZE_TEXT_FORMAT_MAX_BYTES], live[SIZE_TEXT_FORMAT_MAX_BYTES], note[128] = "";
    size_text_format(size, sizeof size, best->size_bytes);
    size_text_format(live, sizeof live, best->size_bytes * best->keep);
    printf("latency: %" PRIu64 " pushes of %s through a ring of %" PRIu64 ", %s live\n", best->count, size,
           best->keep, live);
    report_settings(best);
    if (runs > 1)
        snprintf(note, sizeof note, "the best of %zu runs; the others' %.3f to %.3f us", runs,
                 (double)best[1].push_worst_ns / 1e3, (double)best[runs - 1].push_worst_ns / 1e3);
    report_us("push worst", best->push_worst_ns, note);
    report_us("push p99.9", best->push_p999_ns, "");
    report_us("push p99", best->push_p99_ns, "");
    report_us("push p50", best->push_p50_ns, "");
    report_us("canary worst", best->canary_worst_ns, "how late a thread woke that only sleeps");
    report_memory(best, "");
    report_time(best);
}

static void run_here(const struct options *o, struct run *run) {
    const struct backend *backend = o->setup.backend;
    struct latency_result result;
    char error[256];
    setup_start(&o->setup, "latency", run);
    if (latency_work(backend, &o->work, &result, error, sizeof error) != 0)
        cli_die(CLI_EXIT_FAILED, "%s: %s", backend->name, error);
    setup_read(&o->setup, o->work.count + 1, run); /* and the ring */
    run->rss_before_bytes = result.rss_before_bytes;
    run->peak_rss_bytes = result.peak_rss_bytes;
    run->wall_ns = result.wall_ns;
    run->cpu_ns = result.cpu_ns;
    run->size_bytes = o->work.size;
    run->count = o->work.count;
    run->keep = o->work.ring;
    run->threads = 1;
    run->scan = 0;
    run->failed_allocations = 0;
    run->push_worst_ns = result.worst_ns;
    run->push_p999_ns = result.p999_ns;
    run->push_p99_ns = result.p99_ns;
    run->push_p50_ns = result.p50_ns;
    run->canary_worst_ns = result.canary_worst_ns;
    run->rss_after_bytes = measure_rss_bytes();
    backend->finish();
}

int main(int argc, char **argv) {
    struct options o = {
        .setup = setup_default(),
        .work = {.size = DEFAULT_SIZE_BYTES, .ring = DEFAULT_RING, .count = DEFAULT_PUSHES, .canary = true},
        .runs = 1,
    };
    struct run one, *runs = &one;
    cli_parse(&parser, argc, argv, &o);
    if (o.runs > 1)
        runs = repeat_runs(argc, argv, o.runs, offsetof(struct run, push_worst_ns));
    else
        run_here(&o, runs);

    if (o.setup.json)
        setup_print_json(runs, o.runs);
    else
        print_runs(runs, o.runs);
    cli_flush();
    if (runs != &one)
        free(runs);
    return EXIT_SUCCESS;
}
