/* The knobs: runtime/knobs.h says what it does, owns and never does. Calls runtime/size_text.h, snprintf. */
#include "runtime/knobs.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "runtime/size_text.h"

/* The longest value of a key that is read; no good value comes near, so a longer one is a bad value. */
#define VALUE_MAX_BYTES 64
/* How much of a bad value a message shows, before escaping. */
#define SHOWN_MAX_BYTES 64
/* The longest key that can be near a known one (they have at most 12 letters); longer ones are cut for the
 * comparison. */
#define KEY_MAX_BYTES 32
/* More markers than any machine has use for: it only stops typing errors from making thousands of threads. */
#define MARKERS_MAX 1024

/* Enums are stored through an int. */
static_assert(sizeof(enum knobs_marker) == sizeof(int), "an enum is an int here");
static_assert(sizeof(enum knobs_cleanups) == sizeof(int), "an enum is an int here");

static const char tern_prefix[] = "TERN_";

/* In the order of enum knobs_marker and enum knobs_cleanups. */
static const char *const marker_names[] = {"stack", "ring", "auto", NULL};
static const char *const cleanups_names[] = {"thread", "manual", NULL};

static const struct knob table[] = {
    {.name = "GOGC",
     .place = KNOB_VARIABLE,
     .kind = KNOB_PERCENT,
     .offset = offsetof(struct knobs, gc_percent),
     .default_text = "100",
     .wrong = "not a whole percentage",
     .forms = "a number like 100, or off",
     .meaning = "heap growth between collections, in percent of what is live; 0 collects all the time"},
    {.name = "GOMEMLIMIT",
     .place = KNOB_VARIABLE,
     .kind = KNOB_LIMIT,
     .default_text = "off",
     .wrong = "not a size",
     .forms = "bytes or a size like 450MiB (B, KiB, MiB, GiB, TiB), or off; auto only as TERN_GOMEMLIMIT",
     .meaning = "soft limit on all memory the runtime holds; auto takes the container's, less 10 %"},
    {.name = "GOMAXPROCS",
     .place = KNOB_VARIABLE,
     .kind = KNOB_INT,
     .offset = offsetof(struct knobs, max_procs),
     .max = INT_MAX,
     .default_text = "0",
     .wrong = "not a number of processors",
     .forms = "a whole number like 4, or 0 for all",
     .meaning = "processors that the collector counts on"},
    {.name = "GODEBUG",
     .place = KNOB_VARIABLE,
     .kind = KNOB_KEYS,
     .default_text = "",
     .forms = "key=value,key=value with the keys below",
     .meaning = "what is shown and checked, and how the collector works"},
    {.name = "gctrace",
     .place = KNOB_KEY,
     .kind = KNOB_INT,
     .offset = offsetof(struct knobs, gctrace),
     .max = INT_MAX,
     .default_text = "0",
     .wrong = "not a whole number",
     .forms = "0, or 1 and above for the trace",
     .meaning = "one line per collection on standard error, in Go's format"},
    {.name = "gcverify",
     .place = KNOB_KEY,
     .kind = KNOB_BOOL,
     .offset = offsetof(struct knobs, gcverify),
     .default_text = "0",
     .wrong = "neither 0 nor 1",
     .forms = "0 or 1",
     .meaning = "check the heap at each collection, and poison what is freed; slow"},
    {.name = "gcstress",
     .place = KNOB_KEY,
     .kind = KNOB_U64,
     .offset = offsetof(struct knobs, gcstress),
     .max = UINT64_MAX,
     .default_text = "0",
     .wrong = "not a whole number",
     .forms = "a whole number N, or 0 for never",
     .meaning = "collect at every N-th slow path of allocation"},
    {.name = "gcstoptheworld",
     .place = KNOB_KEY,
     .kind = KNOB_BOOL,
     .offset = offsetof(struct knobs, gcstoptheworld),
     .default_text = "0",
     .wrong = "neither 0 nor 1",
     .forms = "0 or 1",
     .meaning = "mark with the world stopped, also where the program would let marking run beside it"},
    {.name = "seed",
     .place = KNOB_KEY_TERN_ONLY,
     .kind = KNOB_U64,
     .offset = offsetof(struct knobs, seed),
     .max = UINT64_MAX,
     .default_text = "0",
     .wrong = "not a whole number",
     .forms = "a whole number",
     .meaning = "where gcstress starts to count, so that a run can be repeated"},
    {.name = "marker",
     .place = KNOB_KEY_TERN_ONLY,
     .kind = KNOB_CHOICE,
     .offset = offsetof(struct knobs, marker),
     .choices = marker_names,
     .default_text = "auto",
     .wrong = "not a marker",
     .forms = "stack, ring or auto",
     .meaning = "order of marking; auto watches the heap and switches"},
    {.name = "markers",
     .place = KNOB_KEY_TERN_ONLY,
     .kind = KNOB_INT,
     .offset = offsetof(struct knobs, markers),
     .max = MARKERS_MAX,
     .default_text = "0",
     .wrong = "not a number of markers",
     .forms = "a whole number up to 1024, or 0 for as many as pay",
     .meaning = "threads that mark at once"},
    {.name = "cooperative",
     .place = KNOB_KEY_TERN_ONLY,
     .kind = KNOB_BOOL,
     .offset = offsetof(struct knobs, cooperative),
     .default_text = "0",
     .wrong = "neither 0 nor 1",
     .forms = "0 or 1",
     .meaning = "stop threads at their next allocation or tern_poll, not by a signal"},
    {.name = "signal",
     .place = KNOB_KEY_TERN_ONLY,
     .kind = KNOB_SIGNAL,
     .offset = offsetof(struct knobs, signal),
     .max = 64,
     .default_text = "0",
     .wrong = "not a signal that can stop threads",
     .forms =
         "a signal's number up to 64 (no fault, SIGKILL, SIGSTOP, nor 32 and 33), or 0 for a real-time one",
     .meaning = "signal that stops threads"},
    {.name = "hugepages",
     .place = KNOB_KEY_TERN_ONLY,
     .kind = KNOB_BOOL,
     .offset = offsetof(struct knobs, hugepages),
     .default_text = "1",
     .wrong = "neither 0 nor 1",
     .forms = "0 or 1",
     .meaning = "ask the kernel for huge pages"},
    {.name = "datasegments",
     .place = KNOB_KEY_TERN_ONLY,
     .kind = KNOB_BOOL,
     .offset = offsetof(struct knobs, datasegments),
     .default_text = "0",
     .wrong = "neither 0 nor 1",
     .forms = "0 or 1",
     .meaning = "take the writable data of the program and its libraries as roots"},
    {.name = "cleanups",
     .place = KNOB_KEY_TERN_ONLY,
     .kind = KNOB_CHOICE,
     .offset = offsetof(struct knobs, cleanups),
     .choices = cleanups_names,
     .default_text = "thread",
     .wrong = "not a way to run cleanups",
     .forms = "thread or manual",
     .meaning = "run cleanups on a thread of the library, or when the program asks"},
    {.name = "warn",
     .place = KNOB_KEY_TERN_ONLY,
     .kind = KNOB_BOOL,
     .offset = offsetof(struct knobs, warn),
     .default_text = "1",
     .wrong = "neither 0 nor 1",
     .forms = "0 or 1",
     .meaning = "say on standard error when the limit was passed, and the like"},
    {.name = "scavtrace",
     .place = KNOB_KEY_TERN_ONLY,
     .kind = KNOB_BOOL,
     .offset = offsetof(struct knobs, scavtrace),
     .default_text = "0",
     .wrong = "neither 0 nor 1",
     .forms = "0 or 1",
     .meaning = "a line whenever memory goes back to the kernel"},
};

enum {
    table_rows = sizeof table / sizeof table[0],
};

const struct knob *knobs_table(size_t *count) {
    *count = table_rows;
    return table;
}

/* ---- Values ---- */

static int fail(int error) {
    errno = error;
    return -1;
}

static void store(struct knobs *k, const struct knob *row, const void *value, size_t size) {
    memcpy((char *)k + row->offset, value, size);
}

int knobs_parse_gc_percent(const char *text, int *percent) {
    if (text == NULL) {
        return fail(EINVAL);
    }
    if (strcmp(text, "off") == 0) {
        *percent = KNOBS_GC_PERCENT_OFF;
        return 0;
    }
    bool negative;
    uint64_t magnitude;
    if (size_text_whole(text, strlen(text), &negative, &magnitude) != 0) {
        if (errno != ERANGE || !negative) {
            return -1;
        }
        magnitude = UINT64_MAX; /* negative, however far: off */
    }
    if (negative && magnitude != 0) {
        *percent = KNOBS_GC_PERCENT_OFF;
        return 0;
    }
    if (magnitude > INT32_MAX) {
        return fail(ERANGE);
    }
    *percent = (int)magnitude;
    return 0;
}

int knobs_parse_limit(const char *text, uint64_t *bytes, bool *is_auto, bool tern_name) {
    bool wants_auto = tern_name && text != NULL && strcmp(text, "auto") == 0;
    if (wants_auto) {
        *bytes = KNOBS_MEMORY_LIMIT_NONE;
    } else if (size_text_parse_limit(text, bytes) != 0) {
        return -1;
    }
    if (is_auto != NULL) {
        *is_auto = wants_auto;
    }
    return 0;
}

static int parse_up_to(const char *text, uint64_t max, uint64_t *value) {
    bool negative;
    uint64_t magnitude;
    if (size_text_whole(text, strlen(text), &negative, &magnitude) != 0) {
        return -1;
    }
    if ((negative && magnitude != 0) || magnitude > max) {
        return fail(ERANGE);
    }
    *value = magnitude;
    return 0;
}

/* Whether a handler for it can be installed and it is free for us: not the two that cannot be caught, not the
 * faults (the stop's handler leaves those unblocked), not the two that the C library keeps for its threads.
 */
bool knobs_signal_is_usable(uint64_t number) {
    switch (number) {
    case SIGKILL:
    case SIGSTOP:
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case 32:
    case 33:
        return false;
    default:
        return number <= 64; /* the kernel's last */
    }
}

static int parse_choice(const struct knob *row, const char *text, int *index) {
    for (int i = 0; row->choices[i] != NULL; i++) {
        if (strcmp(text, row->choices[i]) == 0) {
            *index = i;
            return 0;
        }
    }
    return fail(EINVAL);
}

static int parse_value(struct knobs *k, const struct knob *row, const char *text, bool tern_name) {
    uint64_t number = 0;
    int integer = 0;
    bool flag;
    switch (row->kind) {
    case KNOB_PERCENT:
        if (knobs_parse_gc_percent(text, &integer) != 0) {
            return -1;
        }
        break;
    case KNOB_LIMIT:
        return knobs_parse_limit(text, &k->memory_limit, &k->limit_auto, tern_name);
    case KNOB_BOOL:
        if (parse_up_to(text, 1, &number) != 0) {
            return -1;
        }
        flag = number != 0;
        store(k, row, &flag, sizeof flag);
        return 0;
    case KNOB_U64:
        if (parse_up_to(text, row->max, &number) != 0) {
            return -1;
        }
        store(k, row, &number, sizeof number);
        return 0;
    case KNOB_INT:
    case KNOB_SIGNAL:
        if (parse_up_to(text, row->max, &number) != 0) {
            return -1;
        }
        if (row->kind == KNOB_SIGNAL && !knobs_signal_is_usable(number)) {
            return fail(EINVAL);
        }
        integer = (int)number;
        break;
    case KNOB_CHOICE:
        if (parse_choice(row, text, &integer) != 0) {
            return -1;
        }
        break;
    case KNOB_KEYS:
        return 0; /* has no value of its own */
    }
    store(k, row, &integer, sizeof integer);
    return 0;
}

void knobs_default(struct knobs *k) {
    memset(k, 0, sizeof *k);
    for (size_t i = 0; i < table_rows; i++) {
        int status = parse_value(k, &table[i], table[i].default_text, true);
        assert(status == 0);
        (void)status;
    }
}

/* ---- Messages ---- */

struct message {
    char *buf; /* NULL: nobody wants it */
    size_t cap;
    size_t len;
};

static void put_char(struct message *m, char c) {
    if (m->len + 1 < m->cap) {
        m->buf[m->len++] = c;
        m->buf[m->len] = '\0';
    }
}

static void put_text(struct message *m, const char *text) {
    for (; *text != '\0'; text++) {
        put_char(m, *text);
    }
}

/* A value as it was given, on one line: what is not printable ASCII is escaped, so that a line feed does not
 * break the message in two and a no-break space does not look like a good value. */
static void put_value(struct message *m, const char *text, size_t len) {
    size_t shown = len < SHOWN_MAX_BYTES ? len : SHOWN_MAX_BYTES;
    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
            put_char(m, (char)c);
        } else {
            char escaped[8];
            snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned)c);
            put_text(m, escaped);
        }
    }
    if (shown < len) {
        put_text(m, "...");
    }
}

/* Starts a message: tern: GOGC="50%":  */
static void put_head(struct message *m, bool tern_name, const char *variable, const char *value, size_t len) {
    put_text(m, "tern: ");
    put_text(m, tern_name ? tern_prefix : "");
    put_text(m, variable);
    put_text(m, "=\"");
    put_value(m, value, len);
    put_text(m, "\": ");
}

static int report_value(struct message *m, const struct knob *row, bool tern_name, const char *variable,
                        const char *value, size_t len) {
    put_head(m, tern_name, variable, value, len);
    put_text(m, row->wrong);
    put_text(m, "; use ");
    put_text(m, row->forms);
    return fail(EINVAL);
}

/* ---- Lists of keys ---- */

/* A piece of a list: "gctrace=1". */
struct entry {
    const char *text;
    size_t len;
    size_t key_len; /* up to the "=", or all of it */
};

/* Takes the next piece off the list; false at its end. */
static bool next_entry(const char **list, struct entry *e) {
    if (**list == '\0') {
        return false;
    }
    e->text = *list;
    e->len = strcspn(*list, ",");
    const char *equals = memchr(e->text, '=', e->len);
    e->key_len = equals != NULL ? (size_t)(equals - e->text) : e->len;
    *list += e->len;
    if (**list == ',') {
        (*list)++;
    }
    return true;
}

static const struct knob *find_key(const struct entry *e, bool tern_name) {
    for (size_t i = 0; i < table_rows; i++) {
        bool is_read = table[i].place == KNOB_KEY || (table[i].place == KNOB_KEY_TERN_ONLY && tern_name);
        if (is_read && strlen(table[i].name) == e->key_len &&
            memcmp(table[i].name, e->text, e->key_len) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

/* Levenshtein's distance: how many letters must be put in, left out or changed. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len) {
    size_t row[KEY_MAX_BYTES + 1];
    a_len = a_len < KEY_MAX_BYTES ? a_len : KEY_MAX_BYTES;
    b_len = b_len < KEY_MAX_BYTES ? b_len : KEY_MAX_BYTES;
    for (size_t j = 0; j <= b_len; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t best = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            if (row[j] + 1 < best) {
                best = row[j] + 1;
            }
            if (row[j - 1] + 1 < best) {
                best = row[j - 1] + 1;
            }
            row[j] = best;
        }
    }
    return row[b_len];
}

static int report_unknown_key(struct message *m, const struct entry *e) {
    const struct knob *nearest = NULL;
    size_t nearest_distance = SIZE_MAX;
    for (size_t i = 0; i < table_rows; i++) {
        if (table[i].place == KNOB_VARIABLE) {
            continue;
        }
        size_t d = distance(e->text, e->key_len, table[i].name, strlen(table[i].name));
        if (d < nearest_distance) {
            nearest = &table[i];
            nearest_distance = d;
        }
    }
    put_head(m, true, "GODEBUG", e->text, e->len);
    put_text(m, "unknown key; the nearest is ");
    put_text(m, nearest->name);
    put_text(m, "; there are");
    for (size_t i = 0; i < table_rows; i++) {
        if (table[i].place != KNOB_VARIABLE) {
            put_text(m, " ");
            put_text(m, table[i].name);
        }
    }
    return fail(EINVAL);
}

static int read_entry(struct knobs *k, const struct knob *row, const struct entry *e, bool tern_name,
                      struct message *m) {
    char value[VALUE_MAX_BYTES + 1];
    size_t value_at = e->key_len + 1; /* past the "="; without one the value is empty, which no key takes */
    size_t value_len = e->len >= value_at ? e->len - value_at : 0;
    if (value_len <= VALUE_MAX_BYTES) {
        memcpy(value, e->text + value_at, value_len);
        value[value_len] = '\0';
        if (parse_value(k, row, value, tern_name) == 0) {
            return 0;
        }
    }
    return report_value(m, row, tern_name, "GODEBUG", e->text, e->len);
}

/* Reads one list. given tells, for each row of the table, whether TERN_GODEBUG has set it; that list is read
 * first. */
static int read_list(struct knobs *k, const char *list, bool tern_name, bool given[table_rows],
                     struct message *m) {
    struct entry e;
    while (next_entry(&list, &e)) {
        if (e.len == 0) {
            continue;
        }
        const struct knob *row = find_key(&e, tern_name);
        if (row == NULL) {
            if (tern_name) {
                return report_unknown_key(m, &e);
            }
            continue;
        }
        size_t index = (size_t)(row - table);
        if (!tern_name && given[index]) {
            continue;
        }
        if (read_entry(k, row, &e, tern_name, m) != 0) {
            return -1;
        }
        given[index] = given[index] || tern_name;
    }
    return 0;
}

/* ---- Reading ---- */

struct environment {
    const char *(*getenv_fn)(const char *name, void *ctx);
    void *ctx;
};

/* The variable's value; NULL when it is not set or empty. */
static const char *look_up(const struct environment *env, const char *name, bool tern_name) {
    char full[sizeof tern_prefix + KEY_MAX_BYTES];
    snprintf(full, sizeof full, "%s%s", tern_name ? tern_prefix : "", name);
    const char *value = env->getenv_fn(full, env->ctx);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static int read_variable(struct knobs *k, const struct knob *row, const struct environment *env,
                         struct message *m) {
    bool tern_name = true;
    const char *value = look_up(env, row->name, true);
    if (value == NULL) {
        tern_name = false;
        value = look_up(env, row->name, false);
    }
    if (value == NULL || parse_value(k, row, value, tern_name) == 0) {
        return 0;
    }
    return report_value(m, row, tern_name, row->name, value, strlen(value));
}

static int read_lists(struct knobs *k, const struct knob *row, const struct environment *env,
                      struct message *m) {
    bool given[table_rows] = {false};
    const char *tern_list = look_up(env, row->name, true);
    if (tern_list != NULL && read_list(k, tern_list, true, given, m) != 0) {
        return -1;
    }
    const char *list = look_up(env, row->name, false);
    return list == NULL ? 0 : read_list(k, list, false, given, m);
}

int knobs_read(struct knobs *k, const char *(*getenv_fn)(const char *name, void *ctx), void *ctx, char *err,
               size_t err_cap) {
    struct environment env = {.getenv_fn = getenv_fn, .ctx = ctx};
    struct message m = {.buf = err, .cap = err != NULL ? err_cap : 0};
    struct knobs read = *k; /* so that an error leaves *k as it was */
    if (m.cap > 0) {
        m.buf[0] = '\0';
    }
    for (size_t i = 0; i < table_rows; i++) {
        int status = 0;
        if (table[i].kind == KNOB_KEYS) {
            status = read_lists(&read, &table[i], &env, &m);
        } else if (table[i].place == KNOB_VARIABLE) {
            status = read_variable(&read, &table[i], &env, &m);
        }
        if (status != 0) {
            return -1;
        }
    }
    *k = read;
    return 0;
}
