/* Tables that a person likes to read: columns as wide as they must be, numbers to the right, headings over
 * groups.
 *
 * Does: gathers cells and prints them. Owns: the cells, in the struct. Never: allocates; a cell that does not
 * fit is cut, a row or column too many is left out. Calls: stdio.
 */
#ifndef WORKLOADS_TABLE_H
#define WORKLOADS_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define TABLE_COLUMNS_MAX    16
#define TABLE_ROWS_MAX       16
#define TABLE_CELL_MAX_BYTES 32

struct table_column {
    const char *group; /* columns side by side with the same group share one heading; NULL: none */
    const char *heading;
};

struct table {
    const struct table_column *columns;
    size_t column_count, row_count, cell;
    char cells[TABLE_ROWS_MAX][TABLE_COLUMNS_MAX][TABLE_CELL_MAX_BYTES];
};

void table_start(struct table *t, const struct table_column *columns, size_t count);
void table_row(struct table *t);
/* The next cell of the row: text, a count, bytes as MiB with one decimal, nanoseconds as ms, a number with
 * one decimal. UINT64_MAX and negative numbers stand for "cannot say" and print as "-". */
void table_text(struct table *t, const char *text);
void table_count(struct table *t, uint64_t value);
void table_mib(struct table *t, uint64_t bytes);
void table_ms(struct table *t, uint64_t ns);
void table_decimal(struct table *t, double value);
/* To standard output, indented by two. */
void table_print(const struct table *t);

#endif
