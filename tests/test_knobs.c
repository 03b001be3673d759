/* The knobs: what each variable and key accepts, who wins, and what is said when a value is bad. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/knobs.h"

#define MIB (UINT64_C(1) << 20)

/* ---- An environment of our own ---- */

/* Pairs "NAME=value", ended by NULL. */
static const char *get(const char *name, void *ctx) {
    size_t len = strlen(name);
    for (const char *const *pair = ctx; *pair != NULL; pair++) {
        if (strncmp(*pair, name, len) == 0 && (*pair)[len] == '=') {
            return *pair + len + 1;
        }
    }
    return NULL;
}

static char message[KNOBS_ERROR_MAX_BYTES];

/* Compares row by row, as the bytes between the fields may differ. */
static void assert_same(const struct knobs *a, const struct knobs *b) {
    static const size_t sizes[] = {
        [KNOB_PERCENT] = sizeof(int),  [KNOB_BOOL] = sizeof(bool),  [KNOB_INT] = sizeof(int),
        [KNOB_U64] = sizeof(uint64_t), [KNOB_SIGNAL] = sizeof(int), [KNOB_CHOICE] = sizeof(int),
    };
    size_t rows;
    const struct knob *table = knobs_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        if (table[i].kind != KNOB_LIMIT && table[i].kind != KNOB_KEYS) {
            size_t at = table[i].offset;
            assert_memory_equal((const char *)a + at, (const char *)b + at, sizes[table[i].kind]);
        }
    }
    assert_int_equal(a->memory_limit, b->memory_limit);
    assert_int_equal(a->limit_auto, b->limit_auto);
}

/* Reads up to two variables over the defaults. */
static int read_pair(struct knobs *k, const char *first, const char *second) {
    const char *env[] = {first, second, NULL};
    knobs_default(k);
    errno = 0;
    return knobs_read(k, get, env, message, sizeof message);
}

static struct knobs good_pair(const char *first, const char *second) {
    struct knobs k;
    if (read_pair(&k, first, second) != 0) {
        fail_msg("refused: %s", message);
    }
    assert_string_equal(message, "");
    return k;
}

static struct knobs good(const char *pair) {
    return good_pair(pair, NULL);
}

static void assert_bad_pair(const char *first, const char *second, const char *expected) {
    struct knobs k;
    struct knobs untouched;
    knobs_default(&untouched);
    if (read_pair(&k, first, second) != -1) {
        fail_msg("accepted: %s %s", first, second != NULL ? second : "");
    }
    assert_int_equal(errno, EINVAL);
    assert_string_equal(message, expected);
    assert_same(&k, &untouched);
}

/* A bad value, whatever is said of it: one line that names tern, the variable and its value. */
static void assert_bad(const char *pair) {
    struct knobs k;
    if (read_pair(&k, pair, NULL) != -1) {
        fail_msg("accepted: %s", pair);
    }
    assert_int_equal(errno, EINVAL);
    size_t name_len = strcspn(pair, "=");
    assert_int_equal(strncmp(message, "tern: ", 6), 0);
    assert_int_equal(strncmp(message + 6, pair, name_len), 0);
    assert_int_equal(strncmp(message + 6 + name_len, "=\"", 2), 0);
    assert_non_null(strstr(message, "; use "));
    assert_null(strchr(message, '\n'));
}

/* Values, parted by bars: each is bad behind "before" ("GOGC=", or "GODEBUG=" and the values with their
 * keys). */
static void assert_all_bad(const char *before, const char *values) {
    while (*values != '\0') {
        size_t len = strcspn(values, "|");
        char pair[256];
        snprintf(pair, sizeof pair, "%s%.*s", before, (int)len, values);
        assert_bad(pair);
        values += len;
        values += *values == '|';
    }
}

/* ---- Defaults and the table ---- */

static void an_empty_environment_gives_the_documented_defaults(void **state) {
    (void)state;
    struct knobs k = good(NULL);
    assert_int_equal(k.gc_percent, 100);
    assert_int_equal(k.memory_limit, KNOBS_MEMORY_LIMIT_NONE);
    assert_false(k.limit_auto);
    assert_int_equal(k.max_procs, 0);
    assert_int_equal(k.gctrace, 0);
    assert_false(k.gcverify);
    assert_int_equal(k.gcstress, 0);
    assert_int_equal(k.seed, 0);
    assert_int_equal(k.marker, KNOBS_MARKER_AUTO);
    assert_int_equal(k.markers, 0);
    assert_false(k.cooperative);
    assert_true(k.hugepages);
    assert_false(k.datasegments);
    assert_true(k.warn);
    assert_false(k.scavtrace);
    assert_int_equal(k.signal, 0);
    assert_int_equal(k.cleanups, KNOBS_CLEANUPS_THREAD);
}

static void what_is_not_set_is_left_as_it_was(void **state) {
    (void)state;
    struct knobs k;
    knobs_default(&k);
    k.gc_percent = 7;
    k.gcstress = 8;
    k.hugepages = false;
    const char *env[] = {"GOMEMLIMIT=1MiB", "GODEBUG=gctrace=1", NULL};
    assert_int_equal(knobs_read(&k, get, env, NULL, 0), 0);
    assert_int_equal(k.gc_percent, 7);
    assert_int_equal(k.gcstress, 8);
    assert_false(k.hugepages);
    assert_int_equal(k.memory_limit, MIB);
    assert_int_equal(k.gctrace, 1);
}

static void every_row_of_the_table_accepts_its_own_default(void **state) {
    (void)state;
    size_t rows;
    const struct knob *table = knobs_table(&rows);
    struct knobs defaults;
    knobs_default(&defaults);
    for (size_t i = 0; i < rows; i++) {
        char pair[128];
        const char *before = table[i].place == KNOB_VARIABLE ? "TERN_" : "TERN_GODEBUG=";
        snprintf(pair, sizeof pair, "%s%s=%s", before, table[i].name, table[i].default_text);
        struct knobs k = good(pair);
        assert_same(&k, &defaults);
    }
}

static void every_row_refuses_junk_with_its_own_words(void **state) {
    (void)state;
    size_t rows;
    const struct knob *table = knobs_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        if (table[i].kind == KNOB_KEYS) {
            continue;
        }
        bool variable = table[i].place == KNOB_VARIABLE;
        char pair[128];
        char expected[KNOBS_ERROR_MAX_BYTES];
        snprintf(pair, sizeof pair, "%s%s=junk", variable ? "TERN_" : "TERN_GODEBUG=", table[i].name);
        snprintf(expected, sizeof expected, "tern: TERN_%s%s%sjunk\": %s; use %s",
                 variable ? "" : "GODEBUG=\"", table[i].name, variable ? "=\"" : "=", table[i].wrong,
                 table[i].forms);
        assert_bad_pair(pair, NULL, expected);
    }
}

static void names_are_unique_and_texts_are_single_lines(void **state) {
    (void)state;
    size_t rows;
    const struct knob *table = knobs_table(&rows);
    assert_int_equal(rows, 18);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(table[i].name, table[j].name);
        }
        assert_null(strpbrk(table[i].forms, "\n"));
        assert_null(strpbrk(table[i].meaning, "\n"));
        assert_true(strlen(table[i].forms) > 0);
        assert_true(strlen(table[i].meaning) > 0);
    }
}

static void gogc_takes_percentages_and_off(void **state) {
    (void)state;
    assert_int_equal(good("GOGC=100").gc_percent, 100);
    assert_int_equal(good("GOGC=50").gc_percent, 50);
    assert_int_equal(good("GOGC=+50").gc_percent, 50);
    assert_int_equal(good("GOGC=050").gc_percent, 50);
    assert_int_equal(good("GOGC=1600").gc_percent, 1600);
    assert_int_equal(good("GOGC=2147483647").gc_percent, INT_MAX);
}

static void gogc_off_or_negative_is_off(void **state) {
    (void)state;
    assert_int_equal(good("GOGC=off").gc_percent, KNOBS_GC_PERCENT_OFF);
    assert_int_equal(good("GOGC=-1").gc_percent, KNOBS_GC_PERCENT_OFF);
    assert_int_equal(good("GOGC=-2147483649").gc_percent, KNOBS_GC_PERCENT_OFF);
    assert_int_equal(good("GOGC=-99999999999999999999").gc_percent, KNOBS_GC_PERCENT_OFF);
}

static void gogc_zero_collects_all_the_time_and_empty_is_not_set(void **state) {
    (void)state;
    assert_int_equal(good("GOGC=0").gc_percent, 0);
    assert_int_equal(good("GOGC=-0").gc_percent, 0);
    assert_int_equal(good("GOGC=").gc_percent, 100);
}

static void gogc_junk_is_an_error(void **state) {
    (void)state;
    assert_all_bad("GOGC=", "junk|50%|2147483648|18446744073709551666|OFF|Off| 50|50 |1e2|0x64|1.5|--1|+|-|"
                            "off |\n");
    assert_bad_pair("GOGC=50%", NULL,
                    "tern: GOGC=\"50%\": not a whole percentage; use a number like 100, or off");
    assert_bad_pair("TERN_GOGC=x", NULL,
                    "tern: TERN_GOGC=\"x\": not a whole percentage; use a number like 100, or off");
}

static void a_single_percentage_is_parsed_the_same(void **state) {
    (void)state;
    int percent = 5;
    assert_int_equal(knobs_parse_gc_percent("+50", &percent), 0);
    assert_int_equal(percent, 50);
    assert_int_equal(knobs_parse_gc_percent("off", &percent), 0);
    assert_int_equal(percent, KNOBS_GC_PERCENT_OFF);
    percent = 5;
    errno = 0;
    assert_int_equal(knobs_parse_gc_percent("50%", &percent), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(knobs_parse_gc_percent("2147483648", &percent), -1);
    assert_int_equal(errno, ERANGE);
    assert_int_equal(knobs_parse_gc_percent("", &percent), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(knobs_parse_gc_percent(NULL, &percent), -1);
    assert_int_equal(percent, 5);
}

static void gomemlimit_takes_sizes(void **state) {
    (void)state;
    assert_int_equal(good("GOMEMLIMIT=450MiB").memory_limit, 450 * MIB);
    assert_int_equal(good("GOMEMLIMIT=0").memory_limit, 0);
    assert_int_equal(good("GOMEMLIMIT=+1MiB").memory_limit, MIB);
    assert_int_equal(good("GOMEMLIMIT=01KiB").memory_limit, 1024);
    assert_int_equal(good("GOMEMLIMIT=123").memory_limit, 123);
    assert_int_equal(good("GOMEMLIMIT=123B").memory_limit, 123);
    assert_int_equal(good("GOMEMLIMIT=9223372036854775806").memory_limit, INT64_MAX - 1);
}

static void gomemlimit_off_or_empty_is_none(void **state) {
    (void)state;
    assert_int_equal(good("GOMEMLIMIT=off").memory_limit, KNOBS_MEMORY_LIMIT_NONE);
    assert_int_equal(good("GOMEMLIMIT=").memory_limit, KNOBS_MEMORY_LIMIT_NONE);
    assert_int_equal(good("GOMEMLIMIT=9223372036854775807").memory_limit, KNOBS_MEMORY_LIMIT_NONE);
}

static void gomemlimit_junk_is_an_error(void **state) {
    (void)state;
    assert_all_bad("GOMEMLIMIT=", "1K|1KB|1kib|1.5GiB|OFF| 1MiB|1 MiB|1MiB |-1|-1MiB|9223372036854775808|"
                                  "8388608TiB|junk| |MiB|50%");
    assert_bad_pair(
        "GOMEMLIMIT=1K", NULL,
        "tern: GOMEMLIMIT=\"1K\": not a size; use bytes or a size like 450MiB (B, KiB, MiB, GiB, TiB), "
        "or off; auto only as TERN_GOMEMLIMIT");
}

static void auto_is_terns_own(void **state) {
    (void)state;
    struct knobs k = good("TERN_GOMEMLIMIT=auto");
    assert_true(k.limit_auto);
    assert_int_equal(k.memory_limit, KNOBS_MEMORY_LIMIT_NONE);
    assert_bad("GOMEMLIMIT=auto");
    assert_bad("TERN_GOMEMLIMIT=AUTO");
    assert_bad("TERN_GOMEMLIMIT=auto ");
}

static void an_explicit_limit_ends_auto(void **state) {
    (void)state;
    struct knobs k;
    knobs_default(&k);
    k.limit_auto = true;
    const char *env[] = {"GOMEMLIMIT=1MiB", NULL};
    assert_int_equal(knobs_read(&k, get, env, NULL, 0), 0);
    assert_false(k.limit_auto);
    assert_int_equal(k.memory_limit, MIB);
}

static void a_single_limit_is_parsed_the_same(void **state) {
    (void)state;
    uint64_t bytes = 5;
    bool is_auto = true;
    assert_int_equal(knobs_parse_limit("2MiB", &bytes, &is_auto, false), 0);
    assert_int_equal(bytes, 2 * MIB);
    assert_false(is_auto);
    assert_int_equal(knobs_parse_limit("auto", &bytes, &is_auto, false), -1);
    assert_int_equal(bytes, 2 * MIB);
    assert_false(is_auto);
    assert_int_equal(knobs_parse_limit("auto", &bytes, &is_auto, true), 0);
    assert_int_equal(bytes, KNOBS_MEMORY_LIMIT_NONE);
    assert_true(is_auto);
    assert_int_equal(knobs_parse_limit("1K", &bytes, &is_auto, true), -1);
    assert_true(is_auto);
    assert_int_equal(knobs_parse_limit("off", &bytes, NULL, false), 0);
    assert_int_equal(knobs_parse_limit(NULL, &bytes, &is_auto, true), -1);
}

static void gomaxprocs_is_a_number_and_zero_or_empty_is_all(void **state) {
    (void)state;
    assert_int_equal(good("GOMAXPROCS=1").max_procs, 1);
    assert_int_equal(good("GOMAXPROCS=+8").max_procs, 8);
    assert_int_equal(good("GOMAXPROCS=0").max_procs, 0);
    assert_int_equal(good("GOMAXPROCS=").max_procs, 0);
    assert_int_equal(good("GOMAXPROCS=2147483647").max_procs, INT_MAX);
    assert_all_bad("GOMAXPROCS=", "-1|2147483648|two|1.5| 1|all");
}

static void terns_variable_wins_over_gos(void **state) {
    (void)state;
    assert_int_equal(good_pair("GOGC=50", "TERN_GOGC=400").gc_percent, 400);
    assert_int_equal(good_pair("TERN_GOGC=off", "GOGC=50").gc_percent, KNOBS_GC_PERCENT_OFF);
    assert_int_equal(good_pair("GOMEMLIMIT=1MiB", "TERN_GOMEMLIMIT=2MiB").memory_limit, 2 * MIB);
    assert_int_equal(good_pair("GOMEMLIMIT=1MiB", "TERN_GOMEMLIMIT=off").memory_limit,
                     KNOBS_MEMORY_LIMIT_NONE);
    assert_int_equal(good_pair("GOMAXPROCS=2", "TERN_GOMAXPROCS=3").max_procs, 3);
    assert_int_equal(good_pair("GOMAXPROCS=2", "TERN_GOMAXPROCS=0").max_procs, 0);
}

static void terns_empty_variable_leaves_gos_in_force(void **state) {
    (void)state;
    assert_int_equal(good_pair("GOGC=50", "TERN_GOGC=").gc_percent, 50);
    assert_int_equal(good_pair("GOMEMLIMIT=1MiB", "TERN_GOMEMLIMIT=").memory_limit, MIB);
    assert_int_equal(good_pair("GODEBUG=gctrace=1", "TERN_GODEBUG=").gctrace, 1);
}

static void what_is_overridden_is_not_checked(void **state) {
    (void)state;
    assert_int_equal(good_pair("GOGC=junk", "TERN_GOGC=400").gc_percent, 400);
    assert_int_equal(good_pair("GODEBUG=gctrace=junk", "TERN_GODEBUG=gctrace=1").gctrace, 1);
    assert_bad_pair("GOGC=50", "TERN_GOGC=50%",
                    "tern: TERN_GOGC=\"50%\": not a whole percentage; use a number like 100, or off");
}

/* ---- GODEBUG ---- */

static void gos_list_sets_the_keys_that_go_and_tern_share(void **state) {
    (void)state;
    struct knobs k = good("GODEBUG=gctrace=2,gcverify=1,gcstress=1000");
    assert_int_equal(k.gctrace, 2);
    assert_true(k.gcverify);
    assert_int_equal(k.gcstress, 1000);
}

static void what_gos_list_says_beside_them_is_gos_business(void **state) {
    (void)state;
    assert_int_equal(good("GODEBUG=madvdontneed=1,gctrace=1,http2debug=2").gctrace, 1);
    assert_int_equal(good("GODEBUG=junk,gctrace=1,,").gctrace, 1);
    assert_int_equal(good("GODEBUG==,gctrace=1,==").gctrace, 1);
    assert_int_equal(good("GODEBUG=Gctrace=x, gctrace=x,gctrace=1").gctrace, 1);
    assert_int_equal(good("GODEBUG=gctraces=x,gctrac=x,gctrace=1").gctrace, 1);
}

static void terns_own_keys_are_not_read_from_gos_list(void **state) {
    (void)state;
    struct knobs defaults;
    knobs_default(&defaults);
    struct knobs k =
        good("GODEBUG=marker=ring,markers=x,cooperative=1,hugepages=0,datasegments=1,warn=0,scavtrace=1,"
             "signal=40,seed=5,cleanups=manual");
    assert_same(&k, &defaults);
}

static void a_shared_key_with_a_bad_value_is_an_error_in_gos_list(void **state) {
    (void)state;
    assert_all_bad("GODEBUG=", "gctrace=x|gctrace=|gctrace|gctrace=-1|gctrace=1 |gctrace=2147483648|"
                               "gcverify=2|gcverify=on|gcstress=-1|gcstress=18446744073709551616|"
                               "http2debug=1,gctrace=on|gctrace=1=1");
    assert_bad_pair("GODEBUG=x=1,gctrace=on,y=2", NULL,
                    "tern: GODEBUG=\"gctrace=on\": not a whole number; use 0, or 1 and above for the trace");
}

static void terns_list_sets_every_key(void **state) {
    (void)state;
    struct knobs k =
        good("TERN_GODEBUG=gctrace=1,gcverify=1,gcstress=18446744073709551615,seed=42,marker=stack,"
             "markers=8,cooperative=1,hugepages=0,datasegments=1,warn=0,scavtrace=1,signal=40,"
             "cleanups=manual");
    assert_int_equal(k.gctrace, 1);
    assert_true(k.gcverify);
    assert_int_equal(k.gcstress, UINT64_MAX);
    assert_int_equal(k.seed, 42);
    assert_int_equal(k.marker, KNOBS_MARKER_STACK);
    assert_int_equal(k.markers, 8);
    assert_true(k.cooperative);
    assert_false(k.hugepages);
    assert_true(k.datasegments);
    assert_false(k.warn);
    assert_true(k.scavtrace);
    assert_int_equal(k.signal, 40);
    assert_int_equal(k.cleanups, KNOBS_CLEANUPS_MANUAL);
    assert_int_equal(good("TERN_GODEBUG=marker=ring").marker, KNOBS_MARKER_RING);
    assert_int_equal(good("TERN_GODEBUG=marker=ring,marker=auto").marker, KNOBS_MARKER_AUTO);
}

static void lists_are_merged_and_terns_keys_win_key_by_key(void **state) {
    (void)state;
    struct knobs k = good_pair("GODEBUG=gctrace=1,gcstress=7", "TERN_GODEBUG=gctrace=0,gcverify=1");
    assert_int_equal(k.gctrace, 0);
    assert_int_equal(k.gcstress, 7);
    assert_true(k.gcverify);
    k = good_pair("TERN_GODEBUG=gcstress=1", "GODEBUG=gcstress=2,gcstress=3");
    assert_int_equal(k.gcstress, 1);
}

static void the_last_of_equal_keys_wins(void **state) {
    (void)state;
    assert_int_equal(good("GODEBUG=gctrace=1,gctrace=2").gctrace, 2);
    assert_int_equal(good("TERN_GODEBUG=gctrace=2,gctrace=1").gctrace, 1);
    assert_bad("TERN_GODEBUG=gctrace=x,gctrace=1");
}

static void bad_values_in_terns_list_are_errors(void **state) {
    (void)state;
    assert_all_bad("TERN_GODEBUG=",
                   "marker=fast|marker=|marker|marker=Stack|marker=stac|marker=stacks|markers=-1|"
                   "markers=1025|cooperative=yes|hugepages=2|cleanups=auto|seed=0x10|"
                   "scavtrace=true|warn=|signal=SIGUSR1|datasegments= 1");
    assert_bad_pair("TERN_GODEBUG=gctrace=1,marker=fast", NULL,
                    "tern: TERN_GODEBUG=\"marker=fast\": not a marker; use stack, ring or auto");
    assert_int_equal(good("TERN_GODEBUG=markers=1024").markers, 1024);
}

static void a_signal_must_be_one_that_can_stop_threads(void **state) {
    (void)state;
    for (int number = 0; number <= 70; number++) {
        char pair[64];
        snprintf(pair, sizeof pair, "TERN_GODEBUG=signal=%d", number);
        /* SIGILL SIGTRAP SIGBUS SIGFPE SIGKILL SIGSEGV SIGSTOP, and the C library's two */
        bool usable = number <= 64 && strchr("\4\5\7\10\11\13\23\40\41", number) == NULL;
        if (usable || number == 0) {
            assert_int_equal(good(pair).signal, number);
        } else {
            assert_bad(pair);
        }
    }
}

static void an_unknown_key_in_terns_list_names_the_nearest(void **state) {
    (void)state;
    static const struct {
        const char *list;
        const char *nearest;
    } cases[] = {
        {"gctrce=1", "gctrace"},         {"GCTRACE=1", "gctrace"},    {" gctrace=1", "gctrace"},
        {"gc_verify=1", "gcverify"},     {"stress=1", "gcstress"},    {"markerz=1", "marker"},
        {"marers=1", "markers"},         {"hugepage=1", "hugepages"}, {"datasegment=1", "datasegments"},
        {"cooperativ=1", "cooperative"}, {"signals=1", "signal"},     {"scavtrac=1", "scavtrace"},
        {"cleanup=manual", "cleanups"},  {"sead=1", "seed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char pair[128];
        char expected[KNOBS_ERROR_MAX_BYTES];
        snprintf(pair, sizeof pair, "TERN_GODEBUG=gctrace=1,%s", cases[i].list);
        snprintf(expected, sizeof expected,
                 "tern: TERN_GODEBUG=\"%s\": unknown key; the nearest is %s; there are gctrace gcverify "
                 "gcstress gcstoptheworld seed "
                 "marker markers cooperative signal hugepages datasegments cleanups warn scavtrace",
                 cases[i].list, cases[i].nearest);
        assert_bad_pair(pair, NULL, expected);
    }
}

static void entries_without_a_known_key_are_errors_in_terns_list(void **state) {
    (void)state;
    struct knobs k;
    static const char *const bad[] = {"junk", "=1", "=", " ", "gctrace:1", "GOGC=50"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char pair[64];
        snprintf(pair, sizeof pair, "TERN_GODEBUG=%s", bad[i]);
        assert_int_equal(read_pair(&k, pair, NULL), -1);
        assert_non_null(strstr(message, "unknown key; the nearest is "));
    }
    assert_int_equal(good("TERN_GODEBUG=,gctrace=1,").gctrace, 1);
    assert_int_equal(good("TERN_GODEBUG=,").gctrace, 0);
}

/* ---- Messages ---- */

static void a_message_is_one_printable_line(void **state) {
    (void)state;
    assert_bad_pair("GOGC=5\n0", NULL,
                    "tern: GOGC=\"5\\x0a0\": not a whole percentage; use a number like 100, or off");
    assert_bad_pair("GOGC=50\xc2\xa0", NULL,
                    "tern: GOGC=\"50\\xc2\\xa0\": not a whole percentage; use a number like 100, or off");
    assert_bad_pair(
        "GOGC=\"\\\x1b[0m\x7f", NULL,
        "tern: GOGC=\"\\x22\\x5c\\x1b[0m\\x7f\": not a whole percentage; use a number like 100, or off");
}

static void a_long_value_is_shown_in_part(void **state) {
    (void)state;
    char pair[5000];
    memset(pair, '\n', sizeof pair);
    static const char *const starts[] = {
        "GOGC=", "GOMEMLIMIT=", "TERN_GODEBUG=", "TERN_GODEBUG=marker=", "GODEBUG=gctrace="};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        memcpy(pair, starts[i], strlen(starts[i]));
        pair[sizeof pair - 1] = '\0';
        struct knobs k;
        assert_int_equal(read_pair(&k, pair, NULL), -1);
        assert_non_null(strstr(message, "\\x0a...\": "));
        assert_null(strchr(message, '\n'));
        /* Not cut off: its last words are there. */
        assert_true(strlen(message) < sizeof message - 1);
        memset(pair, '\n', strlen(starts[i]));
    }
}

static void a_value_of_a_key_may_be_long_only_if_it_is_good(void **state) {
    (void)state;
    assert_int_equal(
        good("TERN_GODEBUG=gctrace=0000000000000000000000000000000000000000000000000000000000000001").gctrace,
        1); /* 64 digits */
    assert_bad("TERN_GODEBUG=gctrace=00000000000000000000000000000000000000000000000000000000000000001");
}

static void a_short_buffer_is_not_overrun(void **state) {
    (void)state;
    const char *env[] = {"GOGC=50%", NULL};
    struct knobs k;
    knobs_default(&k);
    for (size_t cap = 0; cap < 80; cap++) {
        char buf[128];
        memset(buf, 'z', sizeof buf);
        assert_int_equal(knobs_read(&k, get, env, buf, cap), -1);
        assert_int_equal(buf[cap], 'z');
        if (cap > 0) {
            assert_true(strlen(buf) < cap);
            assert_int_equal(strncmp(buf, "tern: GOGC=\"50%\": not", strlen(buf) < 21 ? strlen(buf) : 21), 0);
        }
    }
    assert_int_equal(knobs_read(&k, get, env, NULL, 100), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_environment_gives_the_documented_defaults),
        cmocka_unit_test(what_is_not_set_is_left_as_it_was),
        cmocka_unit_test(every_row_of_the_table_accepts_its_own_default),
        cmocka_unit_test(every_row_refuses_junk_with_its_own_words),
        cmocka_unit_test(names_are_unique_and_texts_are_single_lines),
        cmocka_unit_test(gogc_takes_percentages_and_off),
        cmocka_unit_test(gogc_off_or_negative_is_off),
        cmocka_unit_test(gogc_zero_collects_all_the_time_and_empty_is_not_set),
        cmocka_unit_test(gogc_junk_is_an_error),
        cmocka_unit_test(a_single_percentage_is_parsed_the_same),
        cmocka_unit_test(gomemlimit_takes_sizes),
        cmocka_unit_test(gomemlimit_off_or_empty_is_none),
        cmocka_unit_test(gomemlimit_junk_is_an_error),
        cmocka_unit_test(auto_is_terns_own),
        cmocka_unit_test(an_explicit_limit_ends_auto),
        cmocka_unit_test(a_single_limit_is_parsed_the_same),
        cmocka_unit_test(gomaxprocs_is_a_number_and_zero_or_empty_is_all),
        cmocka_unit_test(terns_variable_wins_over_gos),
        cmocka_unit_test(terns_empty_variable_leaves_gos_in_force),
        cmocka_unit_test(what_is_overridden_is_not_checked),
        cmocka_unit_test(gos_list_sets_the_keys_that_go_and_tern_share),
        cmocka_unit_test(what_gos_list_says_beside_them_is_gos_business),
        cmocka_unit_test(terns_own_keys_are_not_read_from_gos_list),
        cmocka_unit_test(a_shared_key_with_a_bad_value_is_an_error_in_gos_list),
        cmocka_unit_test(terns_list_sets_every_key),
        cmocka_unit_test(lists_are_merged_and_terns_keys_win_key_by_key),
        cmocka_unit_test(the_last_of_equal_keys_wins),
        cmocka_unit_test(bad_values_in_terns_list_are_errors),
        cmocka_unit_test(a_signal_must_be_one_that_can_stop_threads),
        cmocka_unit_test(an_unknown_key_in_terns_list_names_the_nearest),
        cmocka_unit_test(entries_without_a_known_key_are_errors_in_terns_list),
        cmocka_unit_test(a_message_is_one_printable_line),
        cmocka_unit_test(a_long_value_is_shown_in_part),
        cmocka_unit_test(a_value_of_a_key_may_be_long_only_if_it_is_good),
        cmocka_unit_test(a_short_buffer_is_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
