/* tern-knobs-doc: prints docs/knobs.md, whose table is the one the library reads.
 *
 * Does: writes the page to standard output; `./dev docs` puts it in its place, `./dev docs --check` compares.
 * Owns: nothing. Never: names a knob itself. Calls: runtime/knobs.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/knobs.h"

static void emit(void *context, const char *text) {
    (void)context;
    fputs(text, stdout);
}

int main(void) {
    puts("# Knobs\n\n"
         "Printed from the table in `runtime/knobs.c` by `./dev docs`: change it there.\n\n"
         "Each variable is read when the library starts, under its own name and with `TERN_` in\n"
         "front; the name with `TERN_` wins, and the other's value is then not looked at. An empty\n"
         "variable counts as not set. A bad value stops the program with one line that names\n"
         "variable, value and accepted forms, and exit status 2 (it is an error of `tern_init` where\n"
         "the program calls that).\n\n"
         "`GODEBUG` and `TERN_GODEBUG` are lists, `key=value,key=value`. Both are read, and the\n"
         "second wins key by key. Keys that Tern does not know are an error in `TERN_GODEBUG` and\n"
         "are passed over in `GODEBUG`, which a program may share with Go programs.\n\n"
         "`GOGC` and `GOMEMLIMIT`, and of the keys `gctrace`, `marker` and `warn`, can change while\n"
         "the program runs: `tern_set_gc_percent`, `tern_set_memory_limit`, `tern_set_knob`. What\n"
         "they do to a program: [tuning.md](tuning.md).\n");
    knobs_markdown(emit, NULL);
    return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
}
