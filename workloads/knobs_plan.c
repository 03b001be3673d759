/* Running the demonstration's plan; see knobs_plan.h. */
#include "workloads/knobs_plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/size_text.h"
#include "workloads/child.h"
#include "workloads/cli.h"

/* Go's smallest goal at a ratio of 100 % (its heapMinimum). */
#define LEAST_GOAL_BYTES ((double)((uint64_t)4 << 20))

const struct plan_setting plan[PLAN_RUNS] = {
    [PLAN_RATIO] = {.backend = "tern", .gogc = "50", .count = PLAN_BLOCKS},
    {.backend = "tern", .gogc = "100", .count = PLAN_BLOCKS},
    {.backend = "tern", .gogc = "400", .count = PLAN_BLOCKS},
    {.backend = "tern", .gogc = "1600", .count = PLAN_BLOCKS},
    [PLAN_OFF_HALF] = {.backend = "tern", .gogc = "off", .count = PLAN_BLOCKS / 2},
    [PLAN_OFF] = {.backend = "tern", .gogc = "off", .count = PLAN_BLOCKS},
    [PLAN_LIMIT] = {.backend = "tern", .gogc = "off", .memlimit = "64MiB", .count = PLAN_BLOCKS},
    {.backend = "tern", .gogc = "off", .memlimit = "32MiB", .count = PLAN_BLOCKS},
    {.backend = "tern", .gogc = "off", .memlimit = "16MiB", .count = PLAN_BLOCKS},
    {.backend = "tern", .gogc = "off", .memlimit = "8MiB", .count = PLAN_BLOCKS},
    [PLAN_SPIRAL] = {.backend = "tern",
                     .gogc = "off",
                     .memlimit = "8MiB",
                     .count = PLAN_BLOCKS,
                     .keep = PLAN_SPIRAL_KEEP},
    [PLAN_SPIRAL_SCAN] = {.backend = "tern",
                          .gogc = "off",
                          .memlimit = "8MiB",
                          .count = PLAN_BLOCKS,
                          .keep = PLAN_SPIRAL_KEEP,
                          .scan = true},
    [PLAN_BOEHM] = {.backend = "boehm", .count = PLAN_BLOCKS},
    [PLAN_BOEHM_DIVISOR] = {.backend = "boehm", .boehm_divisor = "1", .count = PLAN_BLOCKS},
    {.backend = "boehm", .boehm_divisor = "2", .count = PLAN_BLOCKS},
    {.backend = "boehm", .boehm_divisor = "4", .count = PLAN_BLOCKS},
    {.backend = "boehm", .boehm_divisor = "8", .count = PLAN_BLOCKS},
    {.backend = "boehm", .boehm_divisor = "16", .count = PLAN_BLOCKS},
    [PLAN_BOEHM_LIMIT] = {.backend = "boehm", .boehm_max_heap = "64MiB", .count = PLAN_BLOCKS},
    {.backend = "boehm", .boehm_max_heap = "32MiB", .count = PLAN_BLOCKS},
    {.backend = "boehm", .boehm_max_heap = "16MiB", .count = PLAN_BLOCKS},
    {.backend = "boehm", .boehm_max_heap = "8MiB", .count = PLAN_BLOCKS},
    [PLAN_BOEHM_SPIRAL] = {.backend = "boehm",
                           .boehm_max_heap = "8MiB",
                           .count = PLAN_BLOCKS,
                           .keep = PLAN_SPIRAL_KEEP},
    [PLAN_MALLOC] = {.backend = "malloc", .count = PLAN_BLOCKS},
    [PLAN_MALLOC_KEEP] = {.backend = "malloc", .count = PLAN_BLOCKS, .keep = PLAN_SPIRAL_KEEP},
};

uint64_t plan_go_collections(int index) {
    switch (index) {
    case PLAN_RATIO:
        return 156;
    case PLAN_RATIO + 1:
        return 73;
    case PLAN_RATIO + 2:
        return 17;
    case PLAN_RATIO + 3:
        return 1;
    case PLAN_OFF:
        return 0;
    case PLAN_LIMIT + 1:
        return 13;
    default:
        return STAT_UNKNOWN;
    }
}

/* ------------------------------------------------------------------------------------------------- one run's
 * process */

/* The settings that a run has for itself; the rest of the environment it shares with this program. */
static const char *const own_variables[] = {
    "GOGC=", "GOMEMLIMIT=", "TERN_GOGC=", "TERN_GOMEMLIMIT=", "TERN_GODEBUG="};

#define OWN_VARIABLES (sizeof own_variables / sizeof *own_variables)

struct environment {
    char **entries;
    char gogc[32], memlimit[32], *debug;
};

static bool is_own(const char *entry) {
    for (size_t i = 0; i < OWN_VARIABLES; i++)
        if (strncmp(entry, own_variables[i], strlen(own_variables[i])) == 0)
            return true;
    return false;
}

/* GODEBUG stays; of TERN_GODEBUG all but the switch for the line about a passed limit, which one relation
 * looks for. */
static void environment_make(struct environment *e, const struct plan_setting *setting) {
    size_t count = 0, out = 0;
    const char *debug = getenv("TERN_GODEBUG");
    while (environ[count])
        count++;
    e->entries = calloc(count + 4, sizeof *e->entries);
    if (!e->entries ||
        asprintf(&e->debug, "TERN_GODEBUG=%s%swarn=1", debug ? debug : "", debug && *debug ? "," : "") < 0)
        cli_die(CLI_EXIT_FAILED, "no memory for a run's environment");
    for (size_t i = 0; i < count; i++)
        if (!is_own(environ[i]))
            e->entries[out++] = environ[i];
    e->entries[out++] = e->debug;
    if (setting->gogc) {
        snprintf(e->gogc, sizeof e->gogc, "GOGC=%s", setting->gogc);
        e->entries[out++] = e->gogc;
    }
    if (setting->memlimit) {
        snprintf(e->memlimit, sizeof e->memlimit, "GOMEMLIMIT=%s", setting->memlimit);
        e->entries[out++] = e->memlimit;
    }
}

static void environment_free(struct environment *e) {
    free(e->entries);
    free(e->debug);
}

/* One line of what is run, for progress and for messages. */
static void describe(const struct plan_setting *s, char *text, size_t cap) {
    snprintf(text, cap, "%s%s%s%s%s%s%s%s%s, %" PRIu64 " kept%s", s->backend, s->gogc ? ", GOGC=" : "",
             s->gogc ? s->gogc : "", s->memlimit ? ", GOMEMLIMIT=" : "", s->memlimit ? s->memlimit : "",
             s->boehm_divisor ? ", divisor " : "", s->boehm_divisor ? s->boehm_divisor : "",
             s->boehm_max_heap ? ", maximum heap " : "", s->boehm_max_heap ? s->boehm_max_heap : "", s->keep,
             s->scan ? ", scanned" : "");
}

static void run_one(const char *blocks, const struct plan_setting *s, struct plan_outcome *outcome,
                    char *error, size_t error_cap) {
    char backend[32], count[48], keep[48], divisor[48], max_heap[48], size[48];
    snprintf(size, sizeof size, "--size=%" PRIu64, PLAN_BLOCK_BYTES);
    snprintf(backend, sizeof backend, "--backend=%s", s->backend);
    snprintf(count, sizeof count, "--count=%" PRIu64, s->count);
    snprintf(keep, sizeof keep, "--keep=%" PRIu64, s->keep);
    char *argv[10] = {(char *)blocks, "--json", size, backend, count, keep};
    size_t argc = 6;
    if (s->scan)
        argv[argc++] = "--scan";
    if (s->boehm_divisor) {
        snprintf(divisor, sizeof divisor, "--boehm-divisor=%s", s->boehm_divisor);
        argv[argc++] = divisor;
    }
    if (s->boehm_max_heap) {
        snprintf(max_heap, sizeof max_heap, "--boehm-max-heap=%s", s->boehm_max_heap);
        argv[argc++] = max_heap;
    }

    struct environment environment = {0};
    struct child_output output;
    environment_make(&environment, s);
    run_clear(&outcome->run, "blocks", s->backend);
    int rc = child_run(blocks, argv, environment.entries, &output);
    environment_free(&environment);
    if (rc != 0)
        cli_die(CLI_EXIT_FAILED, "cannot run %s: %s", blocks, strerror(errno));
    outcome->status = output.status;
    outcome->log = output.err;
    output.err = NULL;
    if (output.status != 0)
        snprintf(error, error_cap, "it ended with status %d: %.*s", output.status,
                 (int)strcspn(outcome->log, "\n"), outcome->log);
    else if (run_from_document(output.out, output.out_len, &outcome->run, error, error_cap) == 0)
        outcome->finished = true;
    else
        run_clear(&outcome->run, "blocks", s->backend);
    child_free(&output);
}

void plan_run(const char *blocks, bool progress, bool pass_on, struct plan_outcome outcomes[PLAN_RUNS]) {
    for (int i = 0; i < PLAN_RUNS; i++) {
        char what[128], error[512] = "";
        describe(&plan[i], what, sizeof what);
        if (progress)
            fprintf(stderr, "\r\033[K[%d/%d] %s ", i + 1, PLAN_RUNS, what);
        run_one(blocks, &plan[i], &outcomes[i], error, sizeof error);
        bool failed = !outcomes[i].finished && i != PLAN_SPIRAL && i != PLAN_SPIRAL_SCAN;
        if (progress && (i == PLAN_RUNS - 1 || failed || pass_on))
            fputs("\r\033[K", stderr);
        if (pass_on)
            fputs(outcomes[i].log, stderr);
        if (failed)
            cli_die(CLI_EXIT_FAILED, "the run \"%s\" failed: %s", what, error);
    }
}

/* ---------------------------------------------------------------------------------------------- what the
 * runs showed */

void plan_relations(const struct plan_outcome *outcomes, struct relations_in *in) {
    const struct plan_outcome *spiral = &outcomes[PLAN_SPIRAL], *scanned = &outcomes[PLAN_SPIRAL_SCAN];
    *in = (struct relations_in){
        .block_bytes = PLAN_BLOCK_BYTES,
        .total_bytes = PLAN_BLOCK_BYTES * PLAN_BLOCKS,
        .off_collections = outcomes[PLAN_OFF].run.stats.collections,
        .off_own_rss_bytes = run_own_peak_rss_bytes(&outcomes[PLAN_OFF].run),
        .off_half_own_rss_bytes = run_own_peak_rss_bytes(&outcomes[PLAN_OFF_HALF].run),
        .spiral_finished = spiral->finished && scanned->finished,
        .spiral_gc_cpu_percent = {spiral->run.stats.gc_cpu_percent, scanned->run.stats.gc_cpu_percent},
        .spiral_wall_ns = {spiral->run.wall_ns, scanned->run.wall_ns},
        .processors = spiral->run.stats.processors,
        .spiral_log = spiral->log,
        .spiral_passed_by_bytes = spiral->run.stats.limit_passed_by_bytes,
    };
    for (int i = 0; i < RELATIONS_RATIOS; i++) {
        const struct run *run = &outcomes[PLAN_RATIO + i].run;
        in->ratio_collections[i] = run->stats.collections;
        in->ratio_ideal[i] = (double)in->total_bytes / (LEAST_GOAL_BYTES * run->stats.gogc / 100.0);
    }
    for (int i = 0; i < RELATIONS_LIMITS; i++) {
        const struct run *run = &outcomes[PLAN_LIMIT + i].run;
        in->limit_bytes[i] = run->stats.memlimit_bytes;
        in->limit_collections[i] = run->stats.collections;
        in->limit_peak_counted_bytes[i] = run->stats.peak_counted_bytes;
    }
}

const struct run *plan_nearest_boehm(const struct plan_outcome *outcomes, const struct run *run) {
    const struct run *nearest = NULL;
    uint64_t least = UINT64_MAX, wanted = run_own_peak_rss_bytes(run);
    for (int i = PLAN_BOEHM_DIVISOR; i < PLAN_BOEHM_DIVISOR + PLAN_DIVISORS; i++) {
        uint64_t have = run_own_peak_rss_bytes(&outcomes[i].run);
        uint64_t distance = have > wanted ? have - wanted : wanted - have;
        if (!nearest || distance < least) {
            nearest = &outcomes[i].run;
            least = distance;
        }
    }
    return nearest;
}
