/* Marks: what the workloads write into memory, to see later that nobody else wrote there.
 *
 * Does: gives each object a byte of its own; looks whether memory holds one byte all over. Owns: nothing; all
 * is inline. Never: allocates. Calls: nobody.
 */
#ifndef WORKLOADS_MARKS_H
#define WORKLOADS_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The mark of object number i: never 0, so that an object that was zeroed again is seen. */
static inline unsigned char mark_of(uint64_t i) {
    return (unsigned char)(i % 255 + 1);
}

/* Each of the `size` bytes is `byte`; size is at least 1. */
static inline bool marks_all(const void *memory, size_t size, unsigned char byte) {
    const unsigned char *bytes = memory;
    return bytes[0] == byte && memcmp(bytes, bytes + 1, size - 1) == 0;
}

#endif
