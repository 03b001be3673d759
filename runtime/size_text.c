/* Sizes as text: runtime/size_text.h says what it does, owns and never does. Calls snprintf. */
#include "runtime/size_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int size_text_whole(const char *text, size_t len, bool *negative, uint64_t *magnitude) {
    *negative = len > 0 && text[0] == '-';
    size_t first = len > 0 && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    if (first == len) {
        errno = EINVAL;
        return -1;
    }
    uint64_t value = 0;
    bool overflow = false;
    for (size_t i = first; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            errno = EINVAL;
            return -1;
        }
        overflow |= __builtin_mul_overflow(value, UINT64_C(10), &value);
        overflow |= __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value);
    }
    if (overflow) {
        errno = ERANGE;
        return -1;
    }
    *magnitude = value;
    return 0;
}

static bool ends_with(const char *text, size_t len, const char *suffix) {
    size_t suffix_len = strlen(suffix);
    return len >= suffix_len && memcmp(text + len - suffix_len, suffix, suffix_len) == 0;
}

int size_text_parse(const char *text, uint64_t *bytes) {
    /* "B" last, as the others end with it too. */
    static const struct {
        const char *suffix;
        unsigned shift;
    } units[] = {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"B", 0}};

    if (text == NULL) {
        errno = EINVAL;
        return -1;
    }
    size_t len = strlen(text);
    unsigned shift = 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (ends_with(text, len, units[i].suffix)) {
            len -= strlen(units[i].suffix);
            shift = units[i].shift;
            break;
        }
    }
    bool negative;
    uint64_t count;
    if (size_text_whole(text, len, &negative, &count) != 0) {
        return -1;
    }
    if (negative && count != 0) {
        errno = EINVAL;
        return -1;
    }
    if (count > SIZE_TEXT_MAX_BYTES >> shift) {
        errno = ERANGE;
        return -1;
    }
    *bytes = count << shift;
    return 0;
}

int size_text_parse_limit(const char *text, uint64_t *bytes) {
    if (text != NULL && (text[0] == '\0' || strcmp(text, "off") == 0)) {
        *bytes = UINT64_MAX;
        return 0;
    }
    uint64_t parsed;
    if (size_text_parse(text, &parsed) != 0) {
        return -1;
    }
    *bytes = parsed == SIZE_TEXT_MAX_BYTES ? UINT64_MAX : parsed;
    return 0;
}

size_t size_text_format(char *buf, size_t cap, uint64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

    if (bytes < 1024) {
        return (size_t)snprintf(buf, cap, "%u B", (unsigned)bytes);
    }
    unsigned unit = 0;
    while (unit < 5 && bytes >> 10 * (unit + 2) != 0) {
        unit++;
    }
    for (;;) {
        /* Tenths, rounded: the whole units and the rest apart, so that nothing overflows (the rest is below
         * 2^60). */
        unsigned shift = 10 * (unit + 1);
        uint64_t rest = bytes & ((UINT64_C(1) << shift) - 1);
        uint64_t tenths = (bytes >> shift) * 10 + ((rest * 10 + (UINT64_C(1) << (shift - 1))) >> shift);
        if (tenths >= 1024 * 10 && unit < 5) {
            unit++; /* 1023.96 KiB is 1.0 MiB, not 1024.0 KiB */
            continue;
        }
        return (size_t)snprintf(buf, cap, "%u.%u %s", (unsigned)(tenths / 10), (unsigned)(tenths % 10),
                                units[unit]);
    }
}
