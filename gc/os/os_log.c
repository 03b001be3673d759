/* os_log: lines of text, built without allocating and written whole (see os_log.h). */
#define _GNU_SOURCE 1
#include "gc/os/os_log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Bytes of text a line can hold: the buffer without newline and terminator. */
#define LINE_TEXT_BYTES (sizeof((struct os_line *)0)->buf - 2)

/* Digits of 2^64 - 1 in base ten. */
#define MAX_DIGITS 20

void os_log_write(int fd, const char *buf, size_t n) {
    int saved = errno;
    while (n > 0) {
        ssize_t written = write(fd, buf, n);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            break;
        }
        buf += written;
        n -= (size_t)written;
    }
    errno = saved;
}

static void append(struct os_line *line, const char *s, size_t n) {
    size_t room = LINE_TEXT_BYTES - line->len;
    if (n > room) {
        n = room;
        line->cut = true;
    }
    memcpy(line->buf + line->len, s, n);
    line->len += n;
    line->buf[line->len] = '\0';
}

void os_line_init(struct os_line *line) {
    line->len = 0;
    line->cut = false;
    line->buf[0] = '\0';
}

void os_line_str(struct os_line *line, const char *s) {
    if (s == NULL) {
        s = "(null)";
    }
    append(line, s, strlen(s));
}

void os_line_char(struct os_line *line, char c) {
    append(line, &c, 1);
}

void os_line_u64(struct os_line *line, uint64_t value) {
    os_line_scaled(line, value, 0);
}

void os_line_i64(struct os_line *line, int64_t value) {
    if (value < 0) {
        os_line_char(line, '-');
    }
    os_line_u64(line, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void os_line_hex(struct os_line *line, uint64_t value) {
    char text[2 + 16];
    size_t at = sizeof text;
    do {
        text[--at] = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value != 0);
    text[--at] = 'x';
    text[--at] = '0';
    append(line, text + at, sizeof text - at);
}

void os_line_scaled(struct os_line *line, uint64_t value, unsigned decimals) {
    if (decimals >= MAX_DIGITS - 1) {
        decimals = MAX_DIGITS - 2;
    }
    char text[MAX_DIGITS + 1]; /* and the point */
    size_t at = sizeof text;
    unsigned digits = 0;
    do {
        if (decimals > 0 && digits == decimals) {
            text[--at] = '.';
        }
        text[--at] = (char)('0' + value % 10);
        value /= 10;
        digits++;
    } while (value != 0 || digits <= decimals);
    append(line, text + at, sizeof text - at);
}

void os_line_fixed(struct os_line *line, double value, unsigned decimals) {
    if (value != value) {
        os_line_str(line, "nan");
        return;
    }
    if (decimals > 9) {
        decimals = 9;
    }
    double scaled = value < 0 ? -value : value;
    for (unsigned i = 0; i < decimals; i++) {
        scaled *= 10;
    }
    bool fits = scaled < 0x1p64;
    uint64_t rounded = 0;
    if (fits) {
        rounded = (uint64_t)scaled;
        /* From 2^53 on a double has no fraction, so the sum cannot overflow. */
        rounded += scaled - (double)rounded >= 0.5;
    }
    if (value < 0 && (rounded != 0 || !fits)) {
        os_line_char(line, '-');
    }
    if (fits) {
        os_line_scaled(line, rounded, decimals);
    } else {
        os_line_str(line, "inf");
    }
}

void os_line_emit(struct os_line *line, int fd) {
    size_t n = line->len;
    if (line->cut) {
        memcpy(line->buf + n - 3, "...", 3);
    }
    if (n == 0 || line->buf[n - 1] != '\n') {
        line->buf[n++] = '\n';
    }
    os_log_write(fd, line->buf, n);
    line->buf[line->len] = '\0';
}
