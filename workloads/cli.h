/* Command lines of the workloads: one way to read values, to complain and to help.
 *
 * Does: reads sizes and numbers, prints --help with the table of knobs, reports a mistake in one line and
 * exits 2. Owns: nothing. Never: returns from a complaint. Calls: argp, runtime/size_text.h, the table of
 * knobs.
 */
#ifndef WORKLOADS_CLI_H
#define WORKLOADS_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

/* Exit statuses: something the workload promises is false or it could not run; the command line or the
 * environment is wrong. */
#define CLI_EXIT_FAILED 1
#define CLI_EXIT_USAGE  2

/* Keys of the options that every workload has; put CLI_COMMON_OPTIONS last among its options. */
enum { CLI_KEY_JSON = 0x1000, CLI_KEY_HELP, CLI_KEY_VERSION, CLI_KEY_FIRST_FREE };

#define CLI_COMMON_OPTIONS                                                       \
    {"json", CLI_KEY_JSON, 0, 0, "Print one JSON object instead of text", -2},   \
        {"help", CLI_KEY_HELP, 0, 0, "Print this and the table of knobs", -1}, { \
        "version", CLI_KEY_VERSION, 0, 0, "Print the version", -1                \
    }

/* argp_parse, with mistakes reported in one line. `input` reaches the parser as state->input. */
void cli_parse(const struct argp *argp, int argc, char **argv, void *input);
/* For the parser's cases CLI_KEY_HELP and CLI_KEY_VERSION: prints and exits 0. */
_Noreturn void cli_help(const struct argp_state *state);
_Noreturn void cli_version(const struct argp_state *state);
/* For the parser's cases ARGP_KEY_ARG (no workload takes arguments) and ARGP_KEY_ERROR (an option that argp
 * does not know). */
_Noreturn void cli_unexpected(const struct argp_state *state, const char *argument);
_Noreturn void cli_bad_option(const struct argp_state *state);

/* The value of an option: a size in the forms of GOMEMLIMIT, or a whole number; from least to most. Anything
 * else is reported and ends the program. */
uint64_t cli_size(const struct argp_state *state, const char *option, const char *text, uint64_t least);
uint64_t cli_number(const struct argp_state *state, const char *option, const char *text, uint64_t least,
                    uint64_t most);

/* "on" or "off". */
bool cli_switch(const struct argp_state *state, const char *option, const char *text);

/* Ends the program with a message when standard output could not be written. */
void cli_flush(void);

/* "NAME: message" on standard error, then exit with `status`. */
_Noreturn void cli_die(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
