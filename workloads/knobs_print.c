/* Printing the demonstration; see knobs_print.h. */
#include "workloads/knobs_print.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/size_text.h"
#include "workloads/table.h"

#define LINE_COLUMNS        98
#define COLUMNS_OF(columns) (sizeof(columns) / sizeof *(columns))

static void title(const char *text) {
    printf("\n%s\n", text);
    for (size_t i = strlen(text); i > 0; i--)
        putchar('=');
    putchar('\n');
}

/* Prints text in lines of at most LINE_COLUMNS, broken at spaces. */
__attribute__((format(printf, 1, 2))) static void paragraph(const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (const char *at = text; *at;) {
        size_t cut = strlen(at);
        if (cut > LINE_COLUMNS)
            for (cut = LINE_COLUMNS; cut > 1 && at[cut] != ' '; cut--)
                continue;
        printf("%.*s\n", (int)cut, at);
        at += cut + (at[cut] == ' ');
    }
}

void knobs_print_settings(const struct knobs_settings *settings) {
    const struct backend_stats *s = &settings->stats;
    char limit[SIZE_TEXT_FORMAT_MAX_BYTES] = "none", ratio[16] = "off";
    if (s->memlimit_bytes != LIMIT_ABSENT)
        size_text_format(limit, sizeof limit, s->memlimit_bytes);
    printf("Settings now\n============\n");
    if (s->gogc != RATIO_OFF)
        snprintf(ratio, sizeof ratio, "%d %%", s->gogc);
    printf("  growth ratio   %-10s  GOGC\n", ratio);
    printf("  memory limit   %-10s  GOMEMLIMIT\n", limit);
    printf("  processors     %-10d  GOMAXPROCS\n", s->processors);
    printf("  store mode     %s\n", settings->store_mode);
    printf("  marker         %s\n", settings->marker);
    paragraph(
        "Each run below has its own process and its own GOGC and GOMEMLIMIT: %d zeroed blocks of 64 KiB, 250 "
        "MiB "
        "in all, each page touched. RSS is the peak of the resident set less what it was before the first "
        "allocation, in MiB; CPU is in ms.",
        PLAN_BLOCKS);
}

static void run_cells(struct table *t, const struct run *run) {
    table_mib(t, run_own_peak_rss_bytes(run));
    table_ms(t, run->cpu_ns);
}

void knobs_print_ratios(const struct plan_outcome *outcomes, const struct relations_in *in) {
    static const char malloc_group[] = "malloc", boehm_group[] = "Boehm, nearest in RSS",
                      tern_group[] = "tern";
    static const struct table_column columns[] = {
        {NULL, "GOGC"},       {NULL, "ideal"},      {NULL, "Go 1.26"},        {tern_group, "collections"},
        {tern_group, "RSS"},  {tern_group, "CPU"},  {boehm_group, "divisor"}, {boehm_group, "collections"},
        {boehm_group, "RSS"}, {boehm_group, "CPU"}, {malloc_group, "RSS"},    {malloc_group, "CPU"},
    };
    struct table t;
    title("GOGC: how much garbage may grow before it is collected");
    paragraph("The blocks are dropped at once. The higher the ratio, the fewer collections and the more "
              "memory. Ideal is "
              "250 MiB / (4 MiB x ratio / 100); Go 1.26 is what the articles counted on another machine.");
    putchar('\n');
    table_start(&t, columns, COLUMNS_OF(columns));
    for (int i = 0; i < RELATIONS_RATIOS; i++) {
        const struct run *run = &outcomes[PLAN_RATIO + i].run, *boehm = plan_nearest_boehm(outcomes, run);
        table_row(&t);
        table_text(&t, plan[PLAN_RATIO + i].gogc);
        table_decimal(&t, in->ratio_ideal[i]);
        table_count(&t, plan_go_collections(PLAN_RATIO + i));
        table_count(&t, run->stats.collections);
        run_cells(&t, run);
        table_count(&t, boehm->boehm_divisor);
        table_count(&t, boehm->stats.collections);
        run_cells(&t, boehm);
        run_cells(&t, &outcomes[PLAN_MALLOC].run);
    }
    table_print(&t);
    const struct run *boehm = &outcomes[PLAN_BOEHM].run;
    putchar('\n');
    paragraph("Boehm has no ratio, only a divisor of free space; at its default, 3, it makes %" PRIu64
              " collections with %.1f MiB in %.0f ms of CPU. malloc is calloc and free of jemalloc, which "
              "for blocks of "
              "this size gets zeroed pages from the kernel each time.",
              boehm->stats.collections, (double)run_own_peak_rss_bytes(boehm) / (1 << 20),
              (double)boehm->cpu_ns / 1e6);
}

static void limit_row(struct table *t, const struct plan_outcome *outcomes, int index,
                      const struct run *boehm) {
    const struct run *run = &outcomes[index].run;
    table_row(t);
    table_text(t, plan[index].memlimit ? plan[index].memlimit : "none");
    table_count(t, plan_go_collections(index));
    table_count(t, run->stats.collections);
    table_decimal(t, (double)run->stats.collections * 100 * (1 << 20) /
                         (double)(PLAN_BLOCK_BYTES * PLAN_BLOCKS));
    table_mib(t, run->stats.peak_counted_bytes);
    run_cells(t, run);
    table_count(t, boehm->stats.collections);
    table_count(t, boehm->failed_allocations);
    run_cells(t, boehm);
    run_cells(t, &outcomes[PLAN_MALLOC].run);
}

void knobs_print_limits(const struct plan_outcome *outcomes) {
    static const char tern_group[] = "tern", boehm_group[] = "Boehm, maximum heap", malloc_group[] = "malloc";
    static const struct table_column columns[] = {
        {NULL, "limit"},         {NULL, "Go 1.26"},    {tern_group, "collections"}, {tern_group, "/100 MiB"},
        {tern_group, "counted"}, {tern_group, "RSS"},  {tern_group, "CPU"},         {boehm_group, "coll."},
        {boehm_group, "failed"}, {boehm_group, "RSS"}, {boehm_group, "CPU"},        {malloc_group, "RSS"},
        {malloc_group, "CPU"},
    };
    struct table t;
    title("GOMEMLIMIT with GOGC=off: collect only when memory would run out");
    paragraph("Without a limit nothing is collected; with one, collections come back, and the nearer the "
              "limit is to what "
              "is held anyway, the steeper they rise. Counted is the most that was held from the kernel, in "
              "MiB: the limit "
              "is about that. Boehm's maximum heap is a wall: failed is the allocations that it refused.");
    putchar('\n');
    table_start(&t, columns, COLUMNS_OF(columns));
    limit_row(&t, outcomes, PLAN_OFF, &outcomes[PLAN_BOEHM].run);
    for (int i = 0; i < RELATIONS_LIMITS; i++)
        limit_row(&t, outcomes, PLAN_LIMIT + i, &outcomes[PLAN_BOEHM_LIMIT + i].run);
    table_print(&t);
}

static void spiral_row(struct table *t, const char *name, const struct plan_outcome *outcome) {
    const struct run *run = &outcome->run;
    table_row(t);
    table_text(t, name);
    table_text(t, outcome->finished ? "yes" : "no");
    table_count(t, run->stats.collections);
    table_decimal(t, run->stats.gc_cpu_percent);
    table_count(t, run->stats.limiter_skipped);
    table_count(t, run->failed_allocations);
    table_mib(t, run->stats.peak_counted_bytes);
    table_mib(t, outcome->finished ? run_own_peak_rss_bytes(run) : STAT_UNKNOWN);
    table_ms(t, run->cpu_ns);
    table_ms(t, run->wall_ns);
}

void knobs_print_spiral(const struct plan_outcome *outcomes) {
    static const struct table_column columns[] = {
        {NULL, ""},       {NULL, "finished"}, {NULL, "collections"}, {NULL, "GC CPU %"}, {NULL, "held back"},
        {NULL, "failed"}, {NULL, "counted"},  {NULL, "RSS"},         {NULL, "CPU"},      {NULL, "wall"},
    };
    const struct plan_outcome *spiral = &outcomes[PLAN_SPIRAL];
    struct table t;
    title("The death spiral: a limit of 8 MiB, and 16 MiB that stay alive");
    paragraph("The last %d blocks are kept. No collection can get under the limit, so each allocation asks "
              "for one. The "
              "limit is soft: past half of the CPU, collections are held back and the limit is passed "
              "instead. Blocks that "
              "must be scanned for pointers make a collection dear. Boehm's maximum heap is 8 MiB.",
              PLAN_SPIRAL_KEEP);
    putchar('\n');
    table_start(&t, columns, COLUMNS_OF(columns));
    spiral_row(&t, "tern", spiral);
    spiral_row(&t, "tern, scanned", &outcomes[PLAN_SPIRAL_SCAN]);
    spiral_row(&t, "Boehm", &outcomes[PLAN_BOEHM_SPIRAL]);
    spiral_row(&t, "malloc", &outcomes[PLAN_MALLOC_KEEP]);
    table_print(&t);
    size_t len, lines;
    const char *line = relations_limit_line(spiral->log, &len, &lines);
    putchar('\n');
    if (!line) {
        paragraph("The log of the first run says nothing of a limit.");
        return;
    }
    paragraph("The log of the first run says, in %zu line%s (the most by which it was passed is %.1f MiB):",
              lines, lines == 1 ? "" : "s", (double)spiral->run.stats.limit_passed_by_bytes / (1 << 20));
    printf("  %.*s\n", (int)len, line);
}

void knobs_print_off(const struct plan_outcome *outcomes) {
    static const struct table_column columns[] = {
        {NULL, "blocks"}, {NULL, "allocated"}, {NULL, "collections"}, {NULL, "RSS"}, {NULL, "CPU"},
    };
    struct table t;
    title("GOGC=off and no limit: memory grows without bound");
    paragraph("WARNING: with neither a ratio nor a limit nothing is ever collected. A program that runs on "
              "and on grows "
              "until the system kills it. Turn the ratio off only together with GOMEMLIMIT.");
    putchar('\n');
    table_start(&t, columns, COLUMNS_OF(columns));
    for (int i = PLAN_OFF_HALF; i <= PLAN_OFF; i++) {
        const struct run *run = &outcomes[i].run;
        table_row(&t);
        table_count(&t, run->count);
        table_mib(&t, run->stats.alloc_bytes);
        table_count(&t, run->stats.collections);
        run_cells(&t, run);
    }
    table_print(&t);
}

void knobs_print_relations(const bool holds[RELATION_COUNT]) {
    title("What must hold");
    for (int i = 0; i < RELATION_COUNT; i++)
        printf("  %-20s %-5s  %s\n", relation_names[i], holds[i] ? "true" : "false", relation_claims[i]);
}
