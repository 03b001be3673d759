/* Small text files, line by line: what gc/os/os_file promises. */
#define _GNU_SOURCE 1
#include "gc/os/os_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/tern_file_XXXXXX";

static void put(const char *text, size_t n) {
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), n);
    close(fd);
}

static void lines_come_one_by_one_without_their_newlines(void **state) {
    (void)state;
    static const char text[] = "one\n\nthree\nlast";
    put(text, sizeof text - 1);
    struct os_file file;
    assert_int_equal(os_file_open(&file, path), 0);
    assert_string_equal(os_file_line(&file), "one");
    assert_string_equal(os_file_line(&file), "");
    assert_string_equal(os_file_line(&file), "three");
    assert_string_equal(os_file_line(&file), "last");
    assert_null(os_file_line(&file));
    assert_null(os_file_line(&file));
    os_file_close(&file);
    unlink(path);
}

static void a_file_of_many_buffers_is_read_whole(void **state) {
    (void)state;
    enum { LINES = 5000, LINE_BYTES = 11 };
    char *text = malloc(LINES * LINE_BYTES);
    assert_non_null(text);
    for (size_t i = 0; i < LINES; i++) {
        memset(text + i * LINE_BYTES, 'a' + (int)(i % 26), LINE_BYTES - 1);
        text[i * LINE_BYTES + LINE_BYTES - 1] = '\n';
    }
    put(text, LINES * LINE_BYTES);
    struct os_file file;
    assert_int_equal(os_file_open(&file, path), 0);
    for (size_t i = 0; i < LINES; i++) {
        const char *line = os_file_line(&file);
        assert_non_null(line);
        assert_int_equal(strlen(line), LINE_BYTES - 1);
        assert_memory_equal(line, text + i * LINE_BYTES, LINE_BYTES - 1);
    }
    assert_null(os_file_line(&file));
    os_file_close(&file);
    free(text);
    unlink(path);
}

static void a_line_that_is_too_long_is_cut_and_the_next_one_is_whole(void **state) {
    (void)state;
    static const char tail[] = "not a line of its own\nnext\n";
    for (size_t beyond = 0; beyond < 3 * OS_FILE_LINE_BYTES; beyond += OS_FILE_LINE_BYTES / 2) {
        size_t n = OS_FILE_LINE_BYTES - 1 + beyond;
        char *text = malloc(n + sizeof tail);
        assert_non_null(text);
        memset(text, 'x', n);
        memcpy(text + n, tail, sizeof tail);
        put(text, n + sizeof tail - 1);
        struct os_file file;
        assert_int_equal(os_file_open(&file, path), 0);
        assert_int_equal(strlen(os_file_line(&file)), OS_FILE_LINE_BYTES - 1);
        assert_string_equal(os_file_line(&file), "next");
        assert_null(os_file_line(&file));
        os_file_close(&file);
        free(text);
        unlink(path);
    }
}

static void a_file_that_is_not_there_or_empty_is_an_error(void **state) {
    (void)state;
    char buf[8];
    struct os_file file;
    errno = 0;
    assert_int_equal(os_file_open(&file, "/nowhere/at all"), -1);
    assert_int_equal(errno, ENOENT);
    errno = 0;
    assert_int_equal(os_file_first_line("/nowhere/at all", buf, sizeof buf), -1);
    assert_int_equal(errno, ENOENT);
    put("", 0);
    errno = 0;
    assert_int_equal(os_file_first_line(path, buf, sizeof buf), -1);
    assert_int_equal(errno, ENODATA);
    unlink(path);
}

static void the_first_line_is_cut_to_its_buffer(void **state) {
    (void)state;
    char buf[5] = "????";
    put("123456\n7\n", 9);
    assert_int_equal(os_file_first_line(path, buf, sizeof buf), 0);
    assert_string_equal(buf, "1234");
    unlink(path);
}

static void numbers_are_read_in_their_base_and_refused_when_too_large(void **state) {
    (void)state;
    static const struct {
        const char *text;
        unsigned base;
        bool ok;
        uint64_t value;
        size_t used;
    } cases[] = {
        {"12 kB", 10, true, 12, 2},
        {" \t007", 10, true, 7, 5},
        {"18446744073709551615", 10, true, UINT64_MAX, 20},
        {"18446744073709551616", 10, false, 77, 0},
        {"ffffffffffffffff", 16, true, UINT64_MAX, 16},
        {"10000000000000000", 16, false, 77, 0},
        {"7fAb-8", 16, true, 0x7fab, 4},
        {"12a", 10, true, 12, 2},
        {"max", 10, false, 77, 0},
        {"-1", 10, false, 77, 0},
        {"", 10, false, 77, 0},
        {"  ", 10, false, 77, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *s = cases[i].text;
        uint64_t value = 77;
        assert_int_equal(os_file_number(&s, cases[i].base, &value), cases[i].ok);
        assert_int_equal(value, cases[i].value);
        assert_int_equal(s - cases[i].text, cases[i].used);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_one_by_one_without_their_newlines),
        cmocka_unit_test(a_file_of_many_buffers_is_read_whole),
        cmocka_unit_test(a_line_that_is_too_long_is_cut_and_the_next_one_is_whole),
        cmocka_unit_test(a_file_that_is_not_there_or_empty_is_an_error),
        cmocka_unit_test(the_first_line_is_cut_to_its_buffer),
        cmocka_unit_test(numbers_are_read_in_their_base_and_refused_when_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
