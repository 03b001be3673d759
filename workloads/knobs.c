/* knobs: the demonstration. What GOGC and GOMEMLIMIT do, beside Boehm GC and malloc.
 *
 * Does: runs the plan, prints its sections or one JSON object, judges its relations; exits 1 when one is
 * false. Owns: nothing. Never: allocates in its own managed heap: it only asks the library what its settings
 * are. Calls: knobs_plan.h, knobs_print.h, relations.h, cli.h.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/knobs.h"
#include "workloads/cli.h"
#include "workloads/knobs_plan.h"
#include "workloads/knobs_print.h"

struct options {
    bool json;
};

static const struct argp_option option_table[] = {CLI_COMMON_OPTIONS, {0}};

static error_t parse_option(int key, char *arg, struct argp_state *state) {
    struct options *o = state->input;
    switch (key) {
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
    "Show what the growth ratio (GOGC) and the memory limit (GOMEMLIMIT) do: the same work under different "
    "settings, "
    "beside Boehm GC and calloc/free on jemalloc, each run in a process of its own. Checks the relations "
    "that must "
    "hold, and exits 1 when one does not.\v"
    "Takes some seconds. The settings of the environment show in the first section; each run has its own.",
    NULL,
    NULL,
    NULL,
};

/* The program `blocks` beside this one. */
static void find_blocks(char *path, size_t cap) {
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len < 0)
        cli_die(CLI_EXIT_FAILED, "cannot read /proc/self/exe: %s", strerror(errno));
    self[len] = '\0';
    if ((size_t)snprintf(path, cap, "%s/blocks", dirname(self)) >= cap || access(path, X_OK) != 0)
        cli_die(CLI_EXIT_FAILED, "the program %s is missing: build it first", path);
}

static const char *read_variable(const char *name, void *context) {
    (void)context;
    return getenv(name);
}

/* The marker that the environment chose, by the table of knobs. */
static const char *marker_in_use(void) {
    struct knobs knobs;
    size_t count;
    const struct knob *table = knobs_table(&count);
    knobs_default(&knobs);
    if (knobs_read(&knobs, read_variable, NULL, NULL, 0) == 0)
        for (size_t i = 0; i < count; i++)
            if (strcmp(table[i].name, "marker") == 0)
                return table[i].choices[knobs.marker];
    return "unknown";
}

static void read_settings(struct knobs_settings *settings) {
    char error[KNOBS_ERROR_MAX_BYTES] = "";
    const struct backend_options none = {0};
    errno = 0;
    if (backend_tern.start(&none, error, sizeof error) != 0)
        cli_die(errno == EINVAL ? CLI_EXIT_USAGE : CLI_EXIT_FAILED, "%s", error);
    backend_tern.stats(&settings->stats);
    backend_tern.finish();
    settings->store_mode = "barrier: every store into a managed object is announced";
    settings->marker = marker_in_use();
}

static void print_json(const struct plan_outcome *outcomes, const bool holds[RELATION_COUNT]) {
    json_t *runs = json_array(), *relations = json_object();
    int rc = runs && relations ? 0 : -1;
    for (int i = 0; i < PLAN_RUNS && rc == 0; i++)
        rc = json_array_append_new(runs, run_to_json(&outcomes[i].run));
    for (int i = 0; i < RELATION_COUNT && rc == 0; i++)
        rc = json_object_set_new(relations, relation_names[i], json_boolean(holds[i]));
    if (rc != 0)
        cli_die(CLI_EXIT_FAILED, "no memory for the result");
    if (run_print_document(runs, relations) != 0)
        cli_die(CLI_EXIT_FAILED, "cannot write the result: %s", strerror(errno));
}

static bool is_set(const char *name) {
    const char *value = getenv(name);
    return value && *value;
}

int main(int argc, char **argv) {
    static struct plan_outcome outcomes[PLAN_RUNS];
    struct options o = {0};
    struct knobs_settings settings;
    struct relations_in in;
    bool holds[RELATION_COUNT];
    char blocks[PATH_MAX];
    cli_parse(&parser, argc, argv, &o);
    read_settings(&settings);
    find_blocks(blocks, sizeof blocks);
    if (!o.json) {
        knobs_print_settings(&settings);
        fflush(stdout);
    }
    plan_run(blocks, isatty(STDERR_FILENO), is_set("GODEBUG") || is_set("TERN_GODEBUG"), outcomes);
    plan_relations(outcomes, &in);
    bool all = relations_judge(&in, holds);
    if (o.json) {
        print_json(outcomes, holds);
    } else {
        knobs_print_ratios(outcomes, &in);
        knobs_print_limits(outcomes);
        knobs_print_spiral(outcomes);
        knobs_print_off(outcomes);
        knobs_print_relations(holds);
        cli_flush();
    }
    for (int i = 0; i < PLAN_RUNS; i++)
        free(outcomes[i].log);
    return all ? EXIT_SUCCESS : CLI_EXIT_FAILED;
}
