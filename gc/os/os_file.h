/* os_file: reading the kernel's small text files line by line.
 *
 * Does: open, read and split into lines, with a buffer in the caller's hands. Owns the descriptor between
 * open and close. Must never: allocate or use stdio. Calls: the kernel. Any thread, in a stopped world too.
 */
#ifndef GC_OS_FILE_H
#define GC_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for a line with one path of 4096 bytes (PATH_MAX) and some fields. Longer lines are cut to this. */
#define OS_FILE_LINE_BYTES 6144

struct os_file {
    int fd;
    size_t lo; /* what is read and not yet handed out: buf[lo..hi) */
    size_t hi;
    bool cutting; /* the rest of a line that was too long is being skipped */
    char buf[OS_FILE_LINE_BYTES];
};

/* Opens path for reading. 0, or -1 and errno. */
int os_file_open(struct os_file *file, const char *path);

/* The next line without its newline, valid until the next call; NULL at the end of the file or on an error.
 */
char *os_file_line(struct os_file *file);

void os_file_close(struct os_file *file);

/* The first line of a file, cut to cap - 1 bytes, as a string. 0, or -1 and errno (ENODATA: the file is
 * empty). */
int os_file_first_line(const char *path, char *buf, size_t cap);

/* Reads an unsigned number in `base` (2 to 16) at *s, after blanks, and moves *s behind it. False, with *s
 * unchanged, when there is no digit or the number does not fit. */
bool os_file_number(const char **s, unsigned base, uint64_t *value);

#endif
