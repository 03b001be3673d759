/* Sizes as text, against Go's grammar. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/size_text.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

static uint64_t parsed(const char *text) {
    uint64_t bytes = 12345;
    if (size_text_parse(text, &bytes) != 0) {
        fail_msg("\"%s\" was refused", text);
    }
    return bytes;
}

static void assert_refused(const char *text, int error) {
    uint64_t bytes = 12345;
    errno = 0;
    if (size_text_parse(text, &bytes) != -1) {
        fail_msg("\"%s\" was accepted", text != NULL ? text : "NULL");
    }
    assert_int_equal(errno, error);
    assert_int_equal(bytes, 12345);
}

static void a_size_is_a_whole_number_with_or_without_a_unit(void **state) {
    (void)state;
    assert_int_equal(parsed("0"), 0);
    assert_int_equal(parsed("1"), 1);
    assert_int_equal(parsed("65536"), 65536);
    assert_int_equal(parsed("1B"), 1);
    assert_int_equal(parsed("1KiB"), KIB);
    assert_int_equal(parsed("450MiB"), 450 * MIB);
    assert_int_equal(parsed("3GiB"), 3 * GIB);
    assert_int_equal(parsed("2TiB"), 2 * TIB);
    assert_int_equal(parsed("0KiB"), 0);
}

static void signs_and_leading_zeros_are_as_in_go(void **state) {
    (void)state;
    assert_int_equal(parsed("+1MiB"), MIB);
    assert_int_equal(parsed("01KiB"), KIB);
    assert_int_equal(parsed("+0"), 0);
    assert_int_equal(parsed("-0"), 0);
    assert_int_equal(parsed("0000000000000000000000000000007B"), 7);
    assert_refused("-1", EINVAL);
    assert_refused("-1MiB", EINVAL);
    assert_refused("+", EINVAL);
    assert_refused("-", EINVAL);
    assert_refused("+-1", EINVAL);
    assert_refused("++1", EINVAL);
    assert_refused("+B", EINVAL);
}

static void units_are_case_sensitive_and_whole(void **state) {
    (void)state;
    static const char *const bad[] = {
        "1K",  "1KB", "1kib", "1kiB", "1Kib", "1KIB", "1b",    "1M",    "1MB",     "1mb", "1G",  "1GB", "1T",
        "1Ki", "1iB", "1i",   "1PiB", "1EiB", "1BB",  "1BKiB", "1KiBB", "1KiBMiB", "B",   "KiB", "iB",  "MiB",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_refused(bad[i], EINVAL);
    }
}

static void anything_but_digits_is_an_error(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",      "1.5GiB", "1,5GiB", "1e3", "0x10", "1_000", " 1",           "1 ",  "1 MiB",
        "1MiB ", "1MiB\n", "\t1",    "OFF", "off",  "junk",  "1\xc2\xa0MiB", "50%", "\xd9\xa1",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_refused(bad[i], EINVAL);
    }
    assert_refused(NULL, EINVAL);
}

static void the_largest_size_is_one_below_2_to_the_63(void **state) {
    (void)state;
    assert_int_equal(parsed("9223372036854775807"), INT64_MAX);
    assert_int_equal(parsed("9223372036854775807B"), INT64_MAX);
    assert_refused("9223372036854775808", ERANGE);
    assert_refused("9223372036854775808B", ERANGE);
    assert_int_equal(parsed("9007199254740991KiB"), INT64_MAX - 1023);
    assert_refused("9007199254740992KiB", ERANGE);
    assert_int_equal(parsed("8796093022207MiB"), INT64_MAX - (MIB - 1));
    assert_refused("8796093022208MiB", ERANGE);
    assert_int_equal(parsed("8589934591GiB"), INT64_MAX - (GIB - 1));
    assert_refused("8589934592GiB", ERANGE);
    assert_int_equal(parsed("8388607TiB"), INT64_MAX - (TIB - 1));
    assert_refused("8388608TiB", ERANGE);
    assert_refused("18446744073709551615", ERANGE);
    assert_refused("18446744073709551616", ERANGE);  /* 0 in 64 bits */
    assert_refused("18446744073709551617", ERANGE);  /* 1 in 64 bits */
    assert_refused("184467440737095516165", ERANGE); /* 5, if only the last step were looked at */
    assert_refused("16777216TiB", ERANGE);           /* 2^64 */
    assert_refused("99999999999999999999999999999999GiB", ERANGE);
}

static void a_limit_may_also_be_off_or_empty(void **state) {
    (void)state;
    uint64_t bytes = 1;
    assert_int_equal(size_text_parse_limit("off", &bytes), 0);
    assert_int_equal(bytes, UINT64_MAX);
    bytes = 1;
    assert_int_equal(size_text_parse_limit("", &bytes), 0);
    assert_int_equal(bytes, UINT64_MAX);
    assert_int_equal(size_text_parse_limit("0", &bytes), 0);
    assert_int_equal(bytes, 0);
    assert_int_equal(size_text_parse_limit("32MiB", &bytes), 0);
    assert_int_equal(bytes, 32 * MIB);
    static const char *const bad[] = {"OFF", "Off", "off ", " off", "none", "auto", "1K", "-1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        errno = 0;
        assert_int_equal(size_text_parse_limit(bad[i], &bytes), -1);
        assert_int_equal(errno, EINVAL);
    }
    assert_int_equal(size_text_parse_limit(NULL, &bytes), -1);
    assert_int_equal(bytes, 32 * MIB);
}

static void gos_largest_limit_is_none(void **state) {
    (void)state;
    uint64_t bytes = 1;
    assert_int_equal(size_text_parse_limit("9223372036854775807", &bytes), 0);
    assert_int_equal(bytes, UINT64_MAX);
    assert_int_equal(size_text_parse_limit("9223372036854775806", &bytes), 0);
    assert_int_equal(bytes, INT64_MAX - 1);
}

static void a_whole_number_is_read_up_to_its_given_length(void **state) {
    (void)state;
    bool negative = true;
    uint64_t magnitude = 0;
    assert_int_equal(size_text_whole("123456", 3, &negative, &magnitude), 0);
    assert_int_equal(magnitude, 123);
    assert_false(negative);
    assert_int_equal(size_text_whole("-18446744073709551615", 21, &negative, &magnitude), 0);
    assert_int_equal(magnitude, UINT64_MAX);
    assert_true(negative);
    assert_int_equal(size_text_whole("-99999999999999999999", 21, &negative, &magnitude), -1);
    assert_int_equal(errno, ERANGE);
    assert_true(negative);
    assert_int_equal(size_text_whole("", 0, &negative, &magnitude), -1);
    assert_int_equal(errno, EINVAL);
}

static void a_number_too_large_with_junk_behind_it_is_junk(void **state) {
    (void)state;
    assert_refused("99999999999999999999x", EINVAL);
}

static void assert_formats(uint64_t bytes, const char *expected) {
    char buf[SIZE_TEXT_FORMAT_MAX_BYTES];
    assert_int_equal(size_text_format(buf, sizeof buf, bytes), strlen(expected));
    assert_string_equal(buf, expected);
}

static void sizes_are_written_with_one_decimal_in_the_largest_unit(void **state) {
    (void)state;
    assert_formats(0, "0 B");
    assert_formats(1023, "1023 B");
    assert_formats(1024, "1.0 KiB");
    assert_formats(1536, "1.5 KiB");
    assert_formats(4 * MIB, "4.0 MiB");
    assert_formats(250 * MIB, "250.0 MiB");
    assert_formats(GIB, "1.0 GiB");
    assert_formats(TIB + TIB / 2, "1.5 TiB");
    assert_formats(UINT64_C(1) << 50, "1.0 PiB");
    assert_formats(UINT64_C(1) << 60, "1.0 EiB");
    assert_formats(INT64_MAX, "8.0 EiB");
    assert_formats(UINT64_MAX, "16.0 EiB");
}

static void sizes_are_rounded_to_the_nearest_tenth(void **state) {
    (void)state;
    assert_formats(MIB + 52428, "1.0 MiB"); /* 1.04999 */
    assert_formats(MIB + 52429, "1.1 MiB"); /* 1.05000 */
    assert_formats(MIB - 1, "1.0 MiB");
    assert_formats(MIB - 52, "1023.9 KiB"); /* 1023.949 */
    assert_formats(MIB - 51, "1.0 MiB");    /* 1023.950 */
    assert_formats(GIB - 1, "1.0 GiB");
}

static void a_short_buffer_is_not_overrun(void **state) {
    (void)state;
    char buf[8] = "zzzzzzz";
    assert_int_equal(size_text_format(buf, 4, 4 * MIB), 7);
    assert_string_equal(buf, "4.0");
    assert_int_equal(buf[4], 'z');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_size_is_a_whole_number_with_or_without_a_unit),
        cmocka_unit_test(signs_and_leading_zeros_are_as_in_go),
        cmocka_unit_test(units_are_case_sensitive_and_whole),
        cmocka_unit_test(anything_but_digits_is_an_error),
        cmocka_unit_test(the_largest_size_is_one_below_2_to_the_63),
        cmocka_unit_test(a_limit_may_also_be_off_or_empty),
        cmocka_unit_test(gos_largest_limit_is_none),
        cmocka_unit_test(a_whole_number_is_read_up_to_its_given_length),
        cmocka_unit_test(a_number_too_large_with_junk_behind_it_is_junk),
        cmocka_unit_test(sizes_are_written_with_one_decimal_in_the_largest_unit),
        cmocka_unit_test(sizes_are_rounded_to_the_nearest_tenth),
        cmocka_unit_test(a_short_buffer_is_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
