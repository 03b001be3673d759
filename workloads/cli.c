/* Reading command lines; see cli.h. */
#include "workloads/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tern/tern.h>

#include "runtime/size_text.h"

#define SIZE_FORMS "use bytes, or a number with B, KiB, MiB, GiB or TiB, such as 64KiB"

void cli_die(int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(status);
}

void cli_parse(const struct argp *argp, int argc, char **argv, void *input) {
    error_t rc = argp_parse(argp, argc, argv, ARGP_NO_HELP | ARGP_NO_ERRS, NULL, input);
    if (rc != 0)
        cli_die(CLI_EXIT_USAGE, "cannot read the options: %s", strerror(rc));
}

static void emit_text(void *context, const char *text) {
    (void)context;
    fputs(text, stdout);
}

void cli_help(const struct argp_state *state) {
    argp_help(state->root_argp, stdout, ARGP_HELP_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC,
              (char *)state->name);
    printf("\nThe environment sets the collector:\n\n");
    tern_knobs_help(emit_text, NULL);
    exit(EXIT_SUCCESS);
}

void cli_version(const struct argp_state *state) {
    printf("%s (tern) %s\n", state->name, tern_version());
    exit(EXIT_SUCCESS);
}

void cli_unexpected(const struct argp_state *state, const char *argument) {
    (void)state;
    cli_die(CLI_EXIT_USAGE, "unexpected argument \"%s\": it takes options only; see --help", argument);
}

void cli_bad_option(const struct argp_state *state) {
    cli_die(CLI_EXIT_USAGE, "bad option \"%s\": not known, or its value is missing or not wanted; see --help",
            state->argv[state->next > 1 ? state->next - 1 : 1]);
}

void cli_flush(void) {
    if (fflush(stdout) != 0)
        cli_die(CLI_EXIT_FAILED, "cannot write the result: %s", strerror(errno));
}

bool cli_switch(const struct argp_state *state, const char *option, const char *text) {
    (void)state;
    bool on = strcmp(text, "on") == 0;
    if (!on && strcmp(text, "off") != 0)
        cli_die(CLI_EXIT_USAGE, "%s \"%s\" is neither on nor off", option, text);
    return on;
}

uint64_t cli_size(const struct argp_state *state, const char *option, const char *text, uint64_t least) {
    uint64_t bytes;
    (void)state;
    if (size_text_parse(text, &bytes) != 0)
        cli_die(CLI_EXIT_USAGE, "%s \"%s\" is %s; " SIZE_FORMS, option, text,
                errno == ERANGE ? "too large" : "not a size");
    if (bytes < least)
        cli_die(CLI_EXIT_USAGE, "%s \"%s\" is too small: at least %llu bytes; " SIZE_FORMS, option, text,
                (unsigned long long)least);
    return bytes;
}

uint64_t cli_number(const struct argp_state *state, const char *option, const char *text, uint64_t least,
                    uint64_t most) {
    bool negative;
    uint64_t value;
    (void)state;
    if (size_text_whole(text, strlen(text), &negative, &value) != 0 || (negative && value != 0) ||
        value < least || value > most)
        cli_die(CLI_EXIT_USAGE, "%s \"%s\" is not a whole number from %llu to %llu", option, text,
                (unsigned long long)least, (unsigned long long)most);
    return value;
}
