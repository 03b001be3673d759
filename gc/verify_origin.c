/* See verify_origin.h. Calls heap's base and gc/os/os_mem. */
#include "gc/verify_origin.h"

#include "gc/heap.h"
#include "gc/os/os_mem.h"

/*
 * An entry is 1 + the number of the field's word from the heap's base, or one of the last values: a kind of root.
 * Fields beyond 32 GiB are not noted.
 */
#define UNKNOWN    0u
#define FIRST_ROOT (UINT32_MAX - VERIFY_ORIGIN_ROOTS)

static struct {
    uint32_t *entries;
    size_t words; /* of the heap that there is room for */
    size_t bytes; /* reserved */
    const char *roots[VERIFY_ORIGIN_ROOTS];
} origin;

void verify_origin_begin(void) {
    size_t words = atomic_load_explicit(&heap.grown, memory_order_relaxed) / sizeof(uintptr_t);
    if (words <= origin.words)
        return;
    verify_origin_forget();
    /* Twice: a heap that grows does not move it each time. */
    size_t bytes = align_up(2 * words * sizeof(uint32_t), os_mem_page_size());
    void *at = os_mem_reserve(bytes, 0);
    if (at == NULL)
        return;
    if (os_mem_commit(at, bytes) != 0) {
        os_mem_unreserve(at, bytes);
        return;
    }
    origin.entries = at;
    origin.bytes = bytes;
    origin.words = 2 * words;
}

void verify_origin_forget(void) {
    if (origin.entries != NULL)
        os_mem_unreserve(origin.entries, origin.bytes);
    origin.entries = NULL;
    origin.words = origin.bytes = 0;
}

static uint32_t *entry_of(uintptr_t object) {
    size_t word = (object - heap.base) / sizeof(uintptr_t);
    return word < origin.words ? &origin.entries[word] : NULL;
}

void verify_origin_note_field(uintptr_t object, uintptr_t field) {
    uint32_t *entry = entry_of(object);
    size_t word = (field - heap.base) / sizeof(uintptr_t);
    if (entry != NULL)
        *entry = word + 1 < FIRST_ROOT ? (uint32_t)word + 1 : UNKNOWN;
}

void verify_origin_note_root(uintptr_t object, const char *root) {
    uint32_t *entry = entry_of(object);
    if (entry == NULL)
        return;
    *entry = UNKNOWN;
    for (uint32_t i = 0; i < VERIFY_ORIGIN_ROOTS; i++) {
        if (origin.roots[i] == NULL)
            origin.roots[i] = root;
        if (origin.roots[i] == root) {
            *entry = FIRST_ROOT + i;
            return;
        }
    }
}

struct verify_origin verify_origin_of(uintptr_t object) {
    struct verify_origin none = {0, NULL};
    const uint32_t *entry = entry_of(object);
    if (entry == NULL || *entry == UNKNOWN)
        return none;
    if (*entry >= FIRST_ROOT)
        return (struct verify_origin){0, origin.roots[*entry - FIRST_ROOT]};
    return (struct verify_origin){heap.base + (size_t)(*entry - 1) * sizeof(uintptr_t), NULL};
}
