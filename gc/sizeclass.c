/*
 * The table of size classes and what follows from it. Calls nothing.
 */
#include "gc/sizeclass.h"

#include "gc/base.h"
#include "gc/page.h"

/* Go's classes (runtime/sizeclasses.go, Go 1.26); class 0 is "larger". */
static const uint16_t class_bytes[SIZECLASS_COUNT] = {
    0,     8,     16,    24,    32,    48,    64,    80,    96,    112,   128,   144,  160,   176,
    192,   208,   224,   240,   256,   288,   320,   352,   384,   416,   448,   480,  512,   576,
    640,   704,   768,   896,   1024,  1152,  1280,  1408,  1536,  1792,  2048,  2304, 2688,  3072,
    3200,  3456,  4096,  4864,  5376,  6144,  6528,  6784,  6912,  8192,  9472,  9728, 10240, 10880,
    12288, 13568, 14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264, 28672, 32768};

struct sizeclass sizeclass_table[SIZECLASS_COUNT];
uint8_t sizeclass_small[129];
uint8_t sizeclass_large[249];

/*
 * Pages of a span, Go's too. Its generator takes the fewest pages of which a size wastes at most an eighth,
 * then raises the size as far as still as many slots fit. For the sizes that come of it a sixteenth is wasted
 * at most; the fewest pages that waste an eighth of them would be fewer, and mostly waste more.
 */
static const uint8_t class_pages[SIZECLASS_COUNT] = {
    0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1, 1,
    1, 2, 1, 2, 1, 2, 1, 3, 2, 3, 1, 3, 2, 3, 4, 5, 6, 1, 7, 6, 5, 4, 3, 5, 7, 2, 9, 7, 5, 8, 3, 10, 7, 4,
};

void sizeclass_init(void) {
    unsigned next = 1;
    for (unsigned i = 1; i < SIZECLASS_COUNT; i++) {
        uint32_t bytes = class_bytes[i];
        struct sizeclass *c = &sizeclass_table[i];
        c->bytes = bytes;
        c->pages = class_pages[i];
        c->slots = c->pages * (uint32_t)PAGE_BYTES / bytes;
        /* Rounded up, so that the quotient is exact while offset * bytes < 2^32, which holds: spans are under
         * 128 KiB. */
        c->magic = (uint32_t)(((UINT64_C(1) << 32) + bytes - 1) / bytes);
    }
    for (unsigned i = 0; i < 129; i++) {
        while (class_bytes[next] < i * 8)
            next++;
        sizeclass_small[i] = (uint8_t)next;
    }
    for (unsigned i = 0; i < 249; i++) {
        while (class_bytes[next] < 1024 + i * 128)
            next++;
        sizeclass_large[i] = (uint8_t)next;
    }
    sizeclass_small[0] = 1;
}

size_t sizeclass_round(size_t size) {
    if (size <= SIZECLASS_MAX_BYTES)
        return sizeclass_table[sizeclass_of(size)].bytes;
    return align_up(size, PAGE_BYTES);
}
