/* Sizes as people write them.
 *
 * Does: reads byte counts in Go's GOMEMLIMIT grammar, whole numbers with a sign, and writes sizes for people.
 * Owns: nothing.
 * Never: allocates, or looks at the locale or the environment.
 * Calls: snprintf.
 */
#ifndef TERN_RUNTIME_SIZE_TEXT_H
#define TERN_RUNTIME_SIZE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest size that can be written, Go's int64 maximum; so 2^63 is an error. */
#define SIZE_TEXT_MAX_BYTES (UINT64_MAX >> 1)
/* Holds any result of size_text_format, with its NUL. */
#define SIZE_TEXT_FORMAT_MAX_BYTES 16

/* Reads a whole decimal number of len bytes: an optional sign, then digits only. Gives sign and magnitude
 * apart. Returns 0, or -1 with errno EINVAL (not a number) or ERANGE (it does not fit; *negative is set). */
int size_text_whole(const char *text, size_t len, bool *negative, uint64_t *magnitude);

/* Reads a size: a whole number, then nothing, B, KiB, MiB, GiB or TiB; case-sensitive, no spaces (the grammar
 * of Go's parseByteCount, runtime/string.go). Returns 0, or -1 with errno EINVAL (not a size, or negative, or
 * text is NULL) or ERANGE (above SIZE_TEXT_MAX_BYTES); *bytes is then unchanged. */
int size_text_parse(const char *text, uint64_t *bytes);

/* Reads a limit: a size, or the empty string or "off", which give UINT64_MAX (none). So does
 * SIZE_TEXT_MAX_BYTES itself, Go's own number for "none". Returns as size_text_parse. */
int size_text_parse_limit(const char *text, uint64_t *bytes);

/* Writes a size for people, with one decimal from KiB on: "512 B", "4.0 MiB". Rounds to nearest. Returns the
 * length that the whole text has, as snprintf does. */
size_t size_text_format(char *buf, size_t cap, uint64_t bytes);

#endif
