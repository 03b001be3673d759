/*
 * Type descriptors of typed and traced objects. Owns their layout; made by the runtime's API, read by marker
 * and verifier, never freed. The last word of a typed or traced slot, or of a large object's last page, holds
 * the descriptor's address; for traced objects bit 0 of it says "published".
 */
#ifndef GC_TYPE_H
#define GC_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gc/roots.h"

/* What a trace function reports to: whoever scans the object. */
struct tern_tracer {
    roots_visit *visit;
    void *context;
};

struct tern_type {
    const char *name;                                                           /* may be NULL */
    void (*trace)(const void *object, size_t size, struct tern_tracer *tracer); /* NULL: by bitmap */
    size_t words;      /* of one element; 0 for traced */
    uint64_t bitmap[]; /* one bit a word */
};

#define TYPE_PUBLISHED  ((uintptr_t)1)
#define TYPE_WORD_BYTES sizeof(uintptr_t)

/* The descriptor word of a slot of `bytes` bytes at `base`. */
static inline uintptr_t *type_word(void *base, size_t bytes) {
    return (uintptr_t *)((char *)base + bytes - TYPE_WORD_BYTES);
}
static inline const struct tern_type *type_of_word(uintptr_t word) {
    return (const struct tern_type *)(word & ~TYPE_PUBLISHED);
}
static inline bool type_is_pointer(const struct tern_type *type, size_t word) {
    return type->bitmap[word / 64] >> word % 64 & 1;
}

/* bitmap words for `words` words */
static inline size_t type_bitmap_words(size_t words) {
    return (words + 63) / 64;
}

#endif
