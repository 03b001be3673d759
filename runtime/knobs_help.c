/* The knobs' help text and documentation.
 *
 * Does: prints the table of runtime/knobs.c as aligned text and as Markdown.
 * Owns: nothing.
 * Never: names a knob, a form or a default itself: all of that is in the table.
 * Calls: runtime/knobs.h.
 */
#include <string.h>

#include "runtime/knobs.h"

typedef void emit_fn(void *ctx, const char *text);

static const char *shown_default(const struct knob *row) {
    return row->default_text[0] != '\0' ? row->default_text : "-";
}

static const char *help_indent(const struct knob *row) {
    return row->place == KNOB_VARIABLE ? "  " : "    ";
}

static size_t help_name_width(const struct knob *row) {
    return strlen(help_indent(row)) + strlen(row->name);
}

static void emit_spaces(emit_fn *emit, void *ctx, size_t count) {
    while (count-- > 0) {
        emit(ctx, " ");
    }
}

void knobs_help(emit_fn *emit, void *ctx) {
    size_t rows;
    const struct knob *table = knobs_table(&rows);
    size_t name_width = 0;
    size_t default_width = 0;
    for (size_t i = 0; i < rows; i++) {
        size_t name = help_name_width(&table[i]);
        size_t value = strlen(shown_default(&table[i]));
        name_width = name > name_width ? name : name_width;
        default_width = value > default_width ? value : default_width;
    }
    /* Two lines a knob: what it is for, and, under it, what it takes. */
    emit(ctx, "Environment (name, default, meaning). The same names with TERN_ in front win over these.\n");
    for (size_t i = 0; i < rows; i++) {
        const struct knob *row = &table[i];
        emit(ctx, help_indent(row));
        emit(ctx, row->name);
        emit_spaces(emit, ctx, name_width - help_name_width(row) + 2);
        emit(ctx, shown_default(row));
        emit_spaces(emit, ctx, default_width - strlen(shown_default(row)) + 2);
        emit(ctx, row->meaning);
        emit(ctx, row->place == KNOB_KEY_TERN_ONLY ? " (TERN_GODEBUG only)\n" : "\n");
        emit_spaces(emit, ctx, name_width + 2 + default_width + 2);
        emit(ctx, row->forms);
        emit(ctx, "\n");
    }
}

static const char *markdown_where(const struct knob *row) {
    switch (row->place) {
    case KNOB_VARIABLE:
        return "variable";
    case KNOB_KEY:
        return "key of `GODEBUG`, `TERN_GODEBUG`";
    case KNOB_KEY_TERN_ONLY:
        return "key of `TERN_GODEBUG`";
    }
    return "";
}

/* Text of a cell: a bar would end the cell. */
static void emit_cell(emit_fn *emit, void *ctx, const char *text) {
    char piece[2] = {0};
    for (; *text != '\0'; text++) {
        if (*text == '|') {
            emit(ctx, "\\");
        }
        piece[0] = *text;
        emit(ctx, piece);
    }
}

void knobs_markdown(emit_fn *emit, void *ctx) {
    size_t rows;
    const struct knob *table = knobs_table(&rows);
    emit(ctx, "| knob | where | default | takes | meaning |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < rows; i++) {
        const struct knob *row = &table[i];
        emit(ctx, "| `");
        emit_cell(emit, ctx, row->name);
        emit(ctx, "` | ");
        emit(ctx, markdown_where(row));
        emit(ctx, " | ");
        emit_cell(emit, ctx, shown_default(row));
        emit(ctx, " | ");
        emit_cell(emit, ctx, row->forms);
        emit(ctx, " | ");
        emit_cell(emit, ctx, row->meaning);
        emit(ctx, " |\n");
    }
}
