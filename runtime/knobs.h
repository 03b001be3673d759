/* The knobs: what a person can set from the environment.
 *
 * Does: reads GOGC, GOMEMLIMIT, GOMAXPROCS, GODEBUG and the same with TERN_ in front into one struct.
 * Owns: the one table of knobs; parsing, defaults, help, documentation and tests are made from it.
 * Never: calls getenv, exits, prints or allocates: the caller says how to read a variable, where text goes.
 * Calls: runtime/size_text.h, snprintf. The printing is in runtime/knobs_help.c.
 *
 * TERN_X wins over X, whose value is then not even checked, so that a Tern program and Go programs can share
 * an environment. An empty variable counts as not set, with either name.
 *
 * GODEBUG and TERN_GODEBUG are lists "key=value,key=value". Both are read; TERN_GODEBUG's keys win key by
 * key, the last of equal keys in one list wins, empty entries are skipped. GODEBUG is shared with Go: keys
 * that Tern does not read there, and entries of such keys without "=", are Go's business and ignored; but a
 * key that it does read must have a good value. In TERN_GODEBUG everything must be right.
 */
#ifndef TERN_RUNTIME_KNOBS_H
#define TERN_RUNTIME_KNOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KNOBS_GC_PERCENT_OFF    (-1)
#define KNOBS_MEMORY_LIMIT_NONE UINT64_MAX
/* Holds any message of knobs_read: a value is shown up to 64 bytes (times 4 when it must be escaped), the
 * longest text around it lists all keys. A shorter buffer gets a shorter message. */
#define KNOBS_ERROR_MAX_BYTES 768

enum knobs_marker {
    KNOBS_MARKER_STACK,
    KNOBS_MARKER_RING,
    KNOBS_MARKER_AUTO,
};

enum knobs_cleanups {
    KNOBS_CLEANUPS_THREAD, /* on a thread of the library */
    KNOBS_CLEANUPS_MANUAL, /* when the program asks */
};

struct knobs {
    int gc_percent;        /* KNOBS_GC_PERCENT_OFF: off; 0: collect all the time */
    uint64_t memory_limit; /* bytes; KNOBS_MEMORY_LIMIT_NONE: none */
    bool limit_auto;       /* take the container's limit; memory_limit is then KNOBS_MEMORY_LIMIT_NONE */
    int max_procs;         /* 0: all */

    int gctrace; /* above 0: one line per cycle */
    bool gcverify;
    bool gcstoptheworld; /* 1: no concurrent marking, whatever the program promises */
    uint64_t gcstress;   /* collect at every N-th allocation slow path; 0: off */
    uint64_t seed;       /* of gcstress */
    enum knobs_marker marker;
    int markers;      /* parallel markers; 0: automatic */
    bool cooperative; /* stop threads by polls, not by a signal */
    bool hugepages;
    bool datasegments; /* all writable data segments are roots */
    bool warn;         /* log lines, such as "limit passed" */
    bool scavtrace;
    int signal; /* that stops threads; 0: a real-time signal of the library's choice */
    enum knobs_cleanups cleanups;
};

enum knob_place {
    KNOB_VARIABLE,      /* an environment variable, with TERN_ in front or without */
    KNOB_KEY,           /* a key of GODEBUG and TERN_GODEBUG */
    KNOB_KEY_TERN_ONLY, /* a key of TERN_GODEBUG */
};

enum knob_kind {
    KNOB_PERCENT, /* int: gc_percent's grammar */
    KNOB_LIMIT,   /* memory_limit and limit_auto */
    KNOB_KEYS,    /* the list of keys itself; has no field */
    KNOB_BOOL,    /* bool: 0 or 1 */
    KNOB_INT,     /* int in 0 .. max */
    KNOB_U64,     /* uint64_t in 0 .. max */
    KNOB_SIGNAL,  /* int: 0 or a signal that may be caught and is nobody else's */
    KNOB_CHOICE,  /* an enum: one of choices, in the order of the enum */
};

/* A row of the table. */
struct knob {
    const char *name; /* the variable without TERN_, or the key */
    enum knob_place place;
    enum knob_kind kind;
    size_t offset;              /* of the field in struct knobs; unused for KNOB_LIMIT and KNOB_KEYS */
    uint64_t max;               /* for the number kinds */
    const char *const *choices; /* ends with NULL; NULL for the other kinds */
    const char *default_text;   /* what the knob is when nothing is set, in the form that is parsed */
    const char *wrong;          /* what a bad value is: "not a whole percentage" */
    const char *forms;          /* what is accepted; reads well after "use" */
    const char *meaning;        /* one line for help and documentation */
};

/* The table, in the order of the help text. It lives as long as the program. */
const struct knob *knobs_table(size_t *count);

/* Sets every field to its default. */
void knobs_default(struct knobs *k);

/* Reads the environment over what k holds: a variable or key that is not set leaves its field as it is.
 * getenv_fn gives a variable's value or NULL; ctx is handed through to it. Returns 0; or -1 with errno EINVAL
 * when a value is bad: k is then unchanged, and err (may be NULL) holds one line without a newline: variable,
 * value, what is wrong, accepted forms. */
int knobs_read(struct knobs *k, const char *(*getenv_fn)(const char *name, void *ctx), void *ctx, char *err,
               size_t err_cap);

/* A single growth ratio, for calls and command lines: "off" or any negative number: KNOBS_GC_PERCENT_OFF;
 * else a whole number below 2^31. The empty string is an error here, as only the caller knows what "not set"
 * means. Returns 0, or -1 with errno EINVAL (not a number, NULL) or ERANGE; *percent is then unchanged. */
int knobs_parse_gc_percent(const char *text, int *percent);

/* A single limit, as size_text_parse_limit; with tern_name also "auto", which sets *is_auto and gives
 * KNOBS_MEMORY_LIMIT_NONE. is_auto may be NULL. Returns as size_text_parse_limit. */
int knobs_parse_limit(const char *text, uint64_t *bytes, bool *is_auto, bool tern_name);

/* Whether a signal's number may be set to stop threads; 0, which leaves the choice to the library, may. */
bool knobs_signal_is_usable(uint64_t number);

/* Prints, through emit, the table as aligned text for --help, and as Markdown for the documentation. Each
 * call of emit gets a piece of text; lines end with a newline. */
void knobs_help(void (*emit)(void *ctx, const char *text), void *ctx);
void knobs_markdown(void (*emit)(void *ctx, const char *text), void *ctx);

#endif
