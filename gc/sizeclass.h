/*
 * Size classes of small objects: Go's table (runtime/sizeclasses.go). Owns the tables; pure once
 * sizeclass_init has run. Class 0 stands for "larger than the largest class".
 */
#ifndef GC_SIZECLASS_H
#define GC_SIZECLASS_H

#include <stddef.h>
#include <stdint.h>

#define SIZECLASS_COUNT     68
#define SIZECLASS_MAX_BYTES 32768
#define SIZECLASS_16_BYTES  2 /* the class of tiny blocks */

struct sizeclass {
    uint32_t bytes; /* of one slot */
    uint32_t pages; /* of a span */
    uint32_t slots; /* of a span */
    uint32_t magic; /* offset * magic >> 32 == offset / bytes for every offset in a span */
};

/* Read-only after sizeclass_init. */
extern struct sizeclass sizeclass_table[SIZECLASS_COUNT];
extern uint8_t sizeclass_small[129]; /* by (size + 7) / 8, to 1024 bytes */
extern uint8_t sizeclass_large[249]; /* by (size - 1024 + 127) / 128, to 32768 bytes */

void sizeclass_init(void);

/* The class of `size` bytes; size <= SIZECLASS_MAX_BYTES. */
static inline unsigned sizeclass_of(size_t size) {
    if (size <= 1024)
        return sizeclass_small[(size + 7) / 8];
    return sizeclass_large[(size - 1024 + 127) / 128];
}

/* What an allocation of `size` bytes takes: its class's bytes, or whole 8 KiB pages. size <= SIZE_MAX / 2. */
size_t sizeclass_round(size_t size);

#endif
