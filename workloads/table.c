/* Printing tables; see table.h. */
#include "workloads/table.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define GAP 2 /* spaces between columns */

void table_start(struct table *t, const struct table_column *columns, size_t count) {
    memset(t, 0, sizeof *t);
    t->columns = columns;
    t->column_count = count < TABLE_COLUMNS_MAX ? count : TABLE_COLUMNS_MAX;
}

void table_row(struct table *t) {
    t->row_count++;
    t->cell = 0;
}

void table_text(struct table *t, const char *text) {
    if (t->row_count == 0 || t->row_count > TABLE_ROWS_MAX || t->cell >= t->column_count)
        return;
    snprintf(t->cells[t->row_count - 1][t->cell++], TABLE_CELL_MAX_BYTES, "%s", text);
}

void table_count(struct table *t, uint64_t value) {
    char text[TABLE_CELL_MAX_BYTES] = "-";
    if (value != UINT64_MAX)
        snprintf(text, sizeof text, "%" PRIu64, value);
    table_text(t, text);
}

void table_decimal(struct table *t, double value) {
    char text[TABLE_CELL_MAX_BYTES] = "-";
    if (value >= 0)
        snprintf(text, sizeof text, "%.1f", value);
    table_text(t, text);
}

void table_mib(struct table *t, uint64_t bytes) {
    table_decimal(t, bytes == UINT64_MAX ? -1 : (double)bytes / (1 << 20));
}

void table_ms(struct table *t, uint64_t ns) {
    char text[TABLE_CELL_MAX_BYTES] = "-";
    if (ns != UINT64_MAX)
        snprintf(text, sizeof text, ns < 10000000 ? "%.2f" : "%.0f", (double)ns / 1e6);
    table_text(t, text);
}

static size_t rows(const struct table *t) {
    return t->row_count < TABLE_ROWS_MAX ? t->row_count : TABLE_ROWS_MAX;
}

static bool same_group(const struct table *t, size_t a, size_t b) {
    const char *x = t->columns[a].group, *y = t->columns[b].group;
    return x && y && strcmp(x, y) == 0;
}

/* The column after the last one of the group that begins at `first`; first + 1 when it has none. */
static size_t group_end(const struct table *t, size_t first) {
    size_t end = first + 1;
    while (end < t->column_count && same_group(t, first, end))
        end++;
    return end;
}

static size_t span_width(const size_t *width, size_t first, size_t end) {
    size_t sum = (end - first - 1) * GAP;
    for (size_t c = first; c < end; c++)
        sum += width[c];
    return sum;
}

static void measure_columns(const struct table *t, size_t *width) {
    for (size_t c = 0; c < t->column_count; c++) {
        width[c] = strlen(t->columns[c].heading);
        for (size_t r = 0; r < rows(t); r++) {
            size_t len = strlen(t->cells[r][c]);
            width[c] = len > width[c] ? len : width[c];
        }
    }
    /* A group's name with a dash and a space on each side must fit over its columns. */
    for (size_t c = 0; c < t->column_count; c = group_end(t, c)) {
        if (!t->columns[c].group)
            continue;
        size_t have = span_width(width, c, group_end(t, c)), want = strlen(t->columns[c].group) + 4;
        width[c] += want > have ? want - have : 0;
    }
}

static void put(char what, size_t times) {
    while (times--)
        putchar(what);
}

static void print_groups(const struct table *t, const size_t *width) {
    size_t owed = 0; /* spaces that are printed only when something follows */
    for (size_t c = 0; c < t->column_count; c = group_end(t, c)) {
        size_t wide = span_width(width, c, group_end(t, c));
        owed += GAP;
        if (t->columns[c].group) {
            size_t dashes = wide - strlen(t->columns[c].group) - 2;
            put(' ', owed);
            put('-', dashes / 2);
            printf(" %s ", t->columns[c].group);
            put('-', dashes - dashes / 2);
            owed = 0;
        } else {
            owed += wide;
        }
    }
    putchar('\n');
}

void table_print(const struct table *t) {
    size_t width[TABLE_COLUMNS_MAX] = {0};
    bool grouped = false;
    measure_columns(t, width);
    for (size_t c = 0; c < t->column_count; c++)
        grouped = grouped || t->columns[c].group;
    if (grouped)
        print_groups(t, width);
    for (size_t c = 0; c < t->column_count; c++)
        printf("%*s%*s", GAP, "", (int)width[c], t->columns[c].heading);
    putchar('\n');
    for (size_t r = 0; r < rows(t); r++) {
        for (size_t c = 0; c < t->column_count; c++)
            printf("%*s%*s", GAP, "", (int)width[c], t->cells[r][c]);
        putchar('\n');
    }
}
