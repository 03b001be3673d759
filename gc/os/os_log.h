/* os_log: lines of text, built without allocating and written whole.
 *
 * Does: formats into a bounded buffer on the caller's stack; writes with write(2). Owns nothing. Must never:
 * allocate, use stdio or the locale, or change errno. Calls: the kernel. Usable in signal handlers, in a
 * stopped world and when memory is gone; also to build short paths under /proc. */
#ifndef GC_OS_LOG_H
#define GC_OS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes n bytes, in as many calls as it takes. Gives up silently when the descriptor fails or, set not to
 * block, is full: there is nobody left to tell, and a stopped world must not wait for a reader. */
void os_log_write(int fd, const char *buf, size_t n);

/* One line in the making. buf is a C string at all times, without its newline. */
struct os_line {
    char buf[512];
    size_t len;
    bool cut; /* something did not fit; the line will end in "..." */
};

void os_line_init(struct os_line *line);
void os_line_str(struct os_line *line, const char *s); /* NULL: "(null)" */
void os_line_char(struct os_line *line, char c);
void os_line_u64(struct os_line *line, uint64_t value);
void os_line_i64(struct os_line *line, int64_t value);
void os_line_hex(struct os_line *line, uint64_t value); /* with 0x in front */

/* value / 10^decimals, exactly: (1234, 3) is 1.234. decimals: 0 to 18. */
void os_line_scaled(struct os_line *line, uint64_t value, unsigned decimals);

/* value rounded to `decimals` places (0 to 9), half away from zero: (-0.5, 0) is -1. Written as inf or -inf
 * when it does not fit 64 bits once scaled, as nan when it is no number. */
void os_line_fixed(struct os_line *line, double value, unsigned decimals);

/* Writes the line in one write(2), with a newline at its end if it has none. The line may be written again.
 */
void os_line_emit(struct os_line *line, int fd);

#endif
