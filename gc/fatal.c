/* See fatal.h. Calls gc/os/os_log only. */
#include "gc/fatal.h"

#include <stdlib.h>

#include "gc/os/os_log.h"

_Noreturn void fatal_at(const char *file, int line, const char *message) {
    struct os_line text;
    os_line_init(&text);
    os_line_str(&text, "tern: fatal: ");
    os_line_str(&text, message);
    os_line_str(&text, " (");
    os_line_str(&text, file);
    os_line_char(&text, ':');
    os_line_u64(&text, (uint64_t)line);
    os_line_str(&text, ")");
    os_line_emit(&text, 2);
    abort();
}

_Noreturn void fatal_misuse(const char *what, uintptr_t value, const char *hint) {
    struct os_line text;
    os_line_init(&text);
    os_line_str(&text, "tern: misuse: ");
    os_line_str(&text, what);
    os_line_str(&text, ": ");
    os_line_hex(&text, value);
    os_line_str(&text, ". ");
    os_line_str(&text, hint);
    os_line_emit(&text, 2);
    abort();
}
