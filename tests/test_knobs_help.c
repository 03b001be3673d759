/* The knobs' help text and documentation: all of the table, and nothing but it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/knobs.h"

struct text {
    char buf[16384];
    size_t len;
};

static void collect(void *ctx, const char *piece) {
    struct text *t = ctx;
    size_t len = strlen(piece);
    assert_true(t->len + len < sizeof t->buf);
    memcpy(t->buf + t->len, piece, len + 1);
    t->len += len;
}

static void help_has_every_knob_in_aligned_columns(void **state) {
    (void)state;
    static struct text t;
    t.len = 0;
    knobs_help(collect, &t);
    size_t rows;
    const struct knob *table = knobs_table(&rows);
    size_t default_column = 0;
    size_t text_column = 0;
    char *line = strchr(t.buf, '\n') + 1;
    for (size_t i = 0; i < rows; i++) {
        char *end = strchr(line, '\n');
        *end = '\0';
        size_t indent = strspn(line, " ");
        assert_int_equal(indent, table[i].place == KNOB_VARIABLE ? 2 : 4);
        assert_int_equal(strncmp(line + indent, table[i].name, strlen(table[i].name)), 0);
        size_t after_name = indent + strlen(table[i].name);
        size_t default_at = after_name + strspn(line + after_name, " ");
        const char *meaning = strstr(line, table[i].meaning);
        assert_non_null(meaning);
        if (table[i].default_text[0] != '\0') {
            assert_int_equal(strncmp(line + default_at, table[i].default_text, strlen(table[i].default_text)),
                             0);
        }
        assert_int_equal(strstr(line, "(TERN_GODEBUG only)") != NULL, table[i].place == KNOB_KEY_TERN_ONLY);
        char *forms = end + 1;
        end = strchr(forms, '\n');
        *end = '\0';
        assert_string_equal(forms + strspn(forms, " "), table[i].forms);
        if (i == 0) {
            default_column = default_at;
            text_column = (size_t)(meaning - line);
        }
        assert_int_equal(default_at, default_column);
        assert_int_equal(meaning - line, text_column);
        assert_int_equal(strspn(forms, " "), text_column);
        line = end + 1;
    }
    assert_int_equal(*line, '\0');
}

static void the_documentation_has_a_row_of_five_cells_for_every_knob(void **state) {
    (void)state;
    static struct text t;
    t.len = 0;
    knobs_markdown(collect, &t);
    size_t rows;
    const struct knob *table = knobs_table(&rows);
    char *line = t.buf;
    for (size_t i = 0; i < rows + 2; i++) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        unsigned bars = 0;
        for (const char *p = line; *p != '\0'; p++) {
            bars += *p == '|' && (p == line || p[-1] != '\\');
        }
        assert_int_equal(bars, 6);
        if (i >= 2) {
            char name[64];
            snprintf(name, sizeof name, "| `%s` |", table[i - 2].name);
            assert_int_equal(strncmp(line, name, strlen(name)), 0);
            assert_non_null(strstr(line, table[i - 2].meaning));
            assert_non_null(strstr(line, table[i - 2].forms));
        }
        line = end + 1;
    }
    assert_int_equal(*line, '\0');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_has_every_knob_in_aligned_columns),
        cmocka_unit_test(the_documentation_has_a_row_of_five_cells_for_every_knob),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
