/* os_file: reading the kernel's small text files line by line (see os_file.h). */
#define _GNU_SOURCE 1
#include "gc/os/os_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int os_file_open(struct os_file *file, const char *path) {
    file->lo = 0;
    file->hi = 0;
    file->cutting = false;
    do {
        file->fd = open(path, O_RDONLY | O_CLOEXEC);
    } while (file->fd < 0 && errno == EINTR);
    return file->fd < 0 ? -1 : 0;
}

void os_file_close(struct os_file *file) {
    close(file->fd);
    file->fd = -1;
}

/* Reads more behind what is there; false at the end of the file. One byte is left for a line's terminator. */
static bool fill(struct os_file *file) {
    if (file->lo > 0) {
        memmove(file->buf, file->buf + file->lo, file->hi - file->lo);
        file->hi -= file->lo;
        file->lo = 0;
    }
    ssize_t n;
    do {
        n = read(file->fd, file->buf + file->hi, sizeof file->buf - 1 - file->hi);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        return false;
    }
    file->hi += (size_t)n;
    return true;
}

char *os_file_line(struct os_file *file) {
    for (;;) {
        char *line = file->buf + file->lo;
        size_t held = file->hi - file->lo;
        char *end = memchr(line, '\n', held);
        if (end != NULL) {
            *end = '\0';
            file->lo = (size_t)(end - file->buf) + 1;
        } else if (held == sizeof file->buf - 1) {
            line[held] = '\0'; /* the buffer is full of one line, which so begins at its start */
            file->lo = file->hi;
        } else if (fill(file)) {
            continue;
        } else if (held > 0) {
            line = file->buf + file->lo;
            line[held] = '\0';
            file->lo = file->hi;
            end = line + held;
        } else {
            return NULL;
        }
        bool rest_of_cut_line = file->cutting;
        file->cutting = end == NULL;
        if (!rest_of_cut_line) {
            return line;
        }
    }
}

int os_file_first_line(const char *path, char *buf, size_t cap) {
    struct os_file file;
    if (os_file_open(&file, path) != 0) {
        return -1;
    }
    errno = ENODATA;
    const char *line = os_file_line(&file);
    int why = errno;
    if (line != NULL) {
        size_t n = strnlen(line, cap - 1);
        memcpy(buf, line, n);
        buf[n] = '\0';
    }
    os_file_close(&file);
    errno = why;
    return line != NULL ? 0 : -1;
}

static unsigned digit_of(char c) {
    if (c >= '0' && c <= '9') {
        return (unsigned)(c - '0');
    }
    if (c >= 'a' && c <= 'f') {
        return (unsigned)(c - 'a') + 10;
    }
    return c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10 : 16;
}

bool os_file_number(const char **s, unsigned base, uint64_t *value) {
    const char *p = *s;
    while (*p == ' ' || *p == '\t') {
        p++;
    }
    const char *start = p;
    uint64_t n = 0;
    for (unsigned digit = digit_of(*p); digit < base; digit = digit_of(*++p)) {
        if (__builtin_mul_overflow(n, (uint64_t)base, &n) || __builtin_add_overflow(n, (uint64_t)digit, &n)) {
            return false;
        }
    }
    if (p == start) {
        return false;
    }
    *s = p;
    *value = n;
    return true;
}
