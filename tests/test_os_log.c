/* Lines of text without allocation: what gc/os/os_log promises. */
#define _GNU_SOURCE 1
#include "gc/os/os_log.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#define BIG_BYTES (1 << 20) /* more than a pipe holds */

/* What emit writes for a line, in buf, as a string; how many bytes. The line fits into a pipe. */
static size_t emitted(struct os_line *line, char *buf, size_t cap) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    os_line_emit(line, ends[1]);
    close(ends[1]);
    ssize_t n = read(ends[0], buf, cap - 1);
    assert_true(n >= 0);
    buf[n] = '\0';
    close(ends[0]);
    return (size_t)n;
}

static void numbers_are_written_to_their_extremes(void **state) {
    (void)state;
    struct os_line line;
    os_line_init(&line);
    os_line_u64(&line, 0);
    os_line_char(&line, ' ');
    os_line_u64(&line, UINT64_MAX);
    os_line_char(&line, ' ');
    os_line_i64(&line, INT64_MIN);
    os_line_char(&line, ' ');
    os_line_i64(&line, INT64_MAX);
    os_line_char(&line, ' ');
    os_line_i64(&line, -1);
    os_line_char(&line, ' ');
    os_line_hex(&line, 0);
    os_line_char(&line, ' ');
    os_line_hex(&line, 0xdeadbeef);
    os_line_char(&line, ' ');
    os_line_hex(&line, UINT64_MAX);
    os_line_str(&line, NULL);
    assert_string_equal(line.buf,
                        "0 18446744073709551615 -9223372036854775808 9223372036854775807 -1 0x0 0xdeadbeef "
                        "0xffffffffffffffff(null)");
    assert_int_equal(line.len, strlen(line.buf));
}

static void scaled_integers_are_exact(void **state) {
    (void)state;
    static const struct {
        uint64_t value;
        unsigned decimals;
        const char *want;
    } cases[] = {
        {1234, 3, "1.234"},
        {0, 3, "0.000"},
        {7, 3, "0.007"},
        {1000, 3, "1.000"},
        {12, 0, "12"},
        {UINT64_MAX, 18, "18.446744073709551615"},
        {UINT64_MAX, 99, "18.446744073709551615"},
        {UINT64_MAX, 1, "1844674407370955161.5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct os_line line;
        os_line_init(&line);
        os_line_scaled(&line, cases[i].value, cases[i].decimals);
        assert_string_equal(line.buf, cases[i].want);
    }
}

static void fixed_numbers_are_rounded_half_away_from_zero(void **state) {
    (void)state;
    static const struct {
        double value;
        unsigned decimals;
        const char *want;
    } cases[] = {
        {0.013, 3, "0.013"},
        {1.0, 0, "1"},
        {-0.5, 0, "-1"},
        {0.5, 0, "1"},
        {2.25, 1, "2.3"},
        {0.999, 2, "1.00"},
        {-0.0001, 3, "0.000"},
        {-1.5, 2, "-1.50"},
        {9007199254740993.0, 0, "9007199254740992"},
        {0x1p63, 0, "9223372036854775808"},
        {1e18, 3, "inf"},
        {-1e30, 0, "-inf"},
        {HUGE_VAL, 0, "inf"},
        {0.49999999999999994, 0, "0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct os_line line;
        os_line_init(&line);
        os_line_fixed(&line, cases[i].value, cases[i].decimals);
        assert_string_equal(line.buf, cases[i].want);
    }
    struct os_line line;
    os_line_init(&line);
    os_line_fixed(&line, NAN, 2);
    assert_string_equal(line.buf, "nan");
}

static void a_line_ends_in_exactly_one_newline(void **state) {
    (void)state;
    char got[1024];
    struct os_line line;
    os_line_init(&line);
    emitted(&line, got, sizeof got);
    assert_string_equal(got, "\n");
    os_line_str(&line, "gc 1");
    emitted(&line, got, sizeof got);
    assert_string_equal(got, "gc 1\n");
    emitted(&line, got, sizeof got);
    assert_string_equal(got, "gc 1\n");
    os_line_char(&line, '\n');
    emitted(&line, got, sizeof got);
    assert_string_equal(got, "gc 1\n");
}

static void a_line_that_is_too_long_keeps_its_beginning_and_its_newline(void **state) {
    (void)state;
    char got[1024];
    struct os_line line;
    os_line_init(&line);
    for (int i = 0; i < 100; i++) {
        os_line_str(&line, "0123456789");
        os_line_u64(&line, UINT64_MAX);
    }
    os_line_char(&line, '\n');
    assert_true(line.cut);
    size_t n = emitted(&line, got, sizeof got);
    assert_int_equal(n, sizeof line.buf - 1);
    assert_memory_equal(got, "012345678918446744073709551615", 30);
    assert_string_equal(got + n - 4, "...\n");
}

static void a_line_that_just_fits_is_not_cut(void **state) {
    (void)state;
    char got[1024];
    struct os_line line;
    os_line_init(&line);
    for (size_t i = 0; i < sizeof line.buf - 2; i++) {
        os_line_char(&line, 'x');
    }
    assert_false(line.cut);
    assert_int_equal(emitted(&line, got, sizeof got), sizeof line.buf - 1);
    assert_string_equal(got + sizeof line.buf - 4, "xx\n");
    os_line_char(&line, 'x');
    assert_true(line.cut);
}

static void interrupt(int sig) {
    (void)sig;
}

struct writer {
    int fd;
    const char *text;
};

static void *write_all(void *arg) {
    const struct writer *writer = arg;
    os_log_write(writer->fd, writer->text, BIG_BYTES);
    close(writer->fd);
    return NULL;
}

static void a_write_that_a_signal_cuts_short_is_finished(void **state) {
    (void)state;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = interrupt; /* no SA_RESTART */
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char *text = malloc(BIG_BYTES);
    char *got = malloc(BIG_BYTES);
    assert_non_null(text);
    assert_non_null(got);
    for (size_t i = 0; i < BIG_BYTES; i++) {
        text[i] = (char)('a' + i % 23);
    }
    struct writer writer = {ends[1], text};
    pthread_t thread;
    int room = fcntl(ends[1], F_GETPIPE_SZ);
    assert_in_range(room, 1, BIG_BYTES - 1);
    assert_int_equal(pthread_create(&thread, NULL, write_all, &writer), 0);
    size_t n = 0;
    ssize_t part = 1;
    while (part > 0 && n < BIG_BYTES) {
        /* Once the pipe has something in it the writer is in the middle of its write. */
        int held = 0;
        while (ioctl(ends[0], FIONREAD, &held) == 0 && held < room / 2 && (size_t)held < BIG_BYTES - n) {
            sched_yield();
        }
        for (int i = 0; i < 4; i++) {
            assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
            sched_yield();
        }
        part = read(ends[0], got + n, BIG_BYTES - n);
        n += part > 0 ? (size_t)part : 0;
    }
    assert_int_equal(n, BIG_BYTES);
    assert_memory_equal(got, text, BIG_BYTES);
    assert_int_equal(pthread_join(thread, NULL), 0);
    free(got);
    free(text);
    close(ends[0]);
}

static void a_closed_descriptor_is_survived_and_errno_kept(void **state) {
    (void)state;
    struct os_line line;
    os_line_init(&line);
    os_line_str(&line, "lost");
    errno = 77;
    os_line_emit(&line, -1);
    os_log_write(-1, "lost", 4);
    assert_int_equal(errno, 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_written_to_their_extremes),
        cmocka_unit_test(scaled_integers_are_exact),
        cmocka_unit_test(fixed_numbers_are_rounded_half_away_from_zero),
        cmocka_unit_test(a_line_ends_in_exactly_one_newline),
        cmocka_unit_test(a_line_that_is_too_long_keeps_its_beginning_and_its_newline),
        cmocka_unit_test(a_line_that_just_fits_is_not_cut),
        cmocka_unit_test(a_write_that_a_signal_cuts_short_is_finished),
        cmocka_unit_test(a_closed_descriptor_is_survived_and_errno_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
