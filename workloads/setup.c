/* Options, start and record of a workload; see setup.h. */
#include "workloads/setup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "workloads/cli.h"

enum { KEY_BACKEND = 0x2000, KEY_DIVISOR, KEY_MAX_HEAP, KEY_INITIAL_HEAP };

static const struct argp_option option_table[] = {
    {"backend", KEY_BACKEND, "NAME", 0, "tern, boehm or malloc (jemalloc's malloc and free); default tern",
     1},
    {"boehm-divisor", KEY_DIVISOR, "N", 0, "Boehm's free space divisor", 1},
    {"boehm-max-heap", KEY_MAX_HEAP, "SIZE", 0, "Boehm's maximum heap size", 1},
    {"boehm-initial-heap", KEY_INITIAL_HEAP, "SIZE", 0, "Boehm's heap size at the start", 1},
    CLI_COMMON_OPTIONS,
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state) {
    struct setup *s = state->input;
    switch (key) {
    case KEY_BACKEND:
        s->backend = backend_find(arg);
        if (!s->backend)
            cli_die(CLI_EXIT_USAGE, "--backend \"%s\" is not known; use tern, boehm or malloc", arg);
        break;
    case KEY_DIVISOR:
        s->backend_options.boehm_divisor = cli_number(state, "--boehm-divisor", arg, 1, 1000000);
        break;
    case KEY_MAX_HEAP:
        s->backend_options.boehm_max_heap = cli_size(state, "--boehm-max-heap", arg, 1);
        break;
    case KEY_INITIAL_HEAP:
        s->backend_options.boehm_initial_heap = cli_size(state, "--boehm-initial-heap", arg, 1);
        break;
    case CLI_KEY_JSON:
        s->json = true;
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

static const struct argp parser = {.options = option_table, .parser = parse_option};

const struct argp_child setup_options[] = {{&parser, 0, NULL, 0}, {0}};

struct setup setup_default(void) {
    return (struct setup){.backend = &backend_tern};
}

/* Named for what it is, before it happens. */
static void warn_if_unbounded(const struct run *run) {
    if (run->stats.gogc == RATIO_OFF && run->stats.memlimit_bytes == LIMIT_ABSENT)
        fprintf(stderr,
                "%s: warning: GOGC=off and no memory limit: nothing is collected and memory grows without "
                "bound; set GOMEMLIMIT\n",
                program_invocation_short_name);
}

void setup_start(const struct setup *setup, const char *workload, struct run *run) {
    char error[1024] = "";
    errno = 0;
    if (setup->backend->start(&setup->backend_options, error, sizeof error) != 0)
        cli_die(errno == EINVAL ? CLI_EXIT_USAGE : CLI_EXIT_FAILED, "%s", error);
    run_clear(run, workload, setup->backend->name);
    if (setup->backend == &backend_boehm) {
        const struct backend_options *o = &setup->backend_options;
        if (o->boehm_divisor)
            run->boehm_divisor = o->boehm_divisor;
        if (o->boehm_max_heap)
            run->boehm_max_heap_bytes = o->boehm_max_heap;
        if (o->boehm_initial_heap)
            run->boehm_initial_heap_bytes = o->boehm_initial_heap;
    }
    setup->backend->stats(&run->stats);
    warn_if_unbounded(run);
}

void setup_read(const struct setup *setup, uint64_t allocs, struct run *run) {
    setup->backend->stats(&run->stats);
    if (run->stats.allocs == STAT_UNKNOWN)
        run->stats.allocs = allocs;
}

void setup_print_json(const struct run *runs, size_t count) {
    json_t *array = json_array();
    int rc = array ? 0 : -1;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = json_array_append_new(array, run_to_json(&runs[i]));
    if (rc != 0)
        cli_die(CLI_EXIT_FAILED, "no memory for the result");
    if (run_print_document(array, json_object()) != 0)
        cli_die(CLI_EXIT_FAILED, "cannot write the result: %s", strerror(errno));
}
