/* Running itself; see repeat.h. */
#include "workloads/repeat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workloads/child.h"
#include "workloads/cli.h"

static void run_one(char **argv, struct run *run) {
    struct child_output output;
    char error[256];
    if (child_run("/proc/self/exe", argv, environ, &output) != 0)
        cli_die(CLI_EXIT_FAILED, "cannot run itself: %s", strerror(errno));
    fwrite(output.err, 1, output.err_len, stderr);
    if (output.status != 0)
        exit(output.status);
    if (run_from_document(output.out, output.out_len, run, error, sizeof error) != 0)
        cli_die(CLI_EXIT_FAILED, "a run of itself failed: %s", error);
    child_free(&output);
}

static int compare_figures(const void *a, const void *b, void *offset) {
    uint64_t x = *(const uint64_t *)((const char *)a + *(const size_t *)offset);
    uint64_t y = *(const uint64_t *)((const char *)b + *(const size_t *)offset);
    return (x > y) - (x < y);
}

struct run *repeat_runs(int argc, char **argv, size_t times, size_t offset) {
    struct run *runs = calloc(times, sizeof *runs);
    char **again = calloc((size_t)argc + 3, sizeof *again);
    if (!runs || !again)
        cli_die(CLI_EXIT_FAILED, "no memory for %zu runs", times);
    memcpy(again, argv, (size_t)argc * sizeof *again);
    again[argc] = REPEAT_OPTION "=1"; /* of two, the last one counts */
    again[argc + 1] = "--json";
    for (size_t i = 0; i < times; i++)
        run_one(again, &runs[i]);
    free(again);
    qsort_r(runs, times, sizeof *runs, compare_figures, &offset);
    return runs;
}
