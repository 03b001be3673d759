/* See addr_table.h. Calls offheap, and gc/os/os_mem to have large tables populated in a batch. */
#include "gc/addr_table.h"

#include <errno.h>
#include <string.h>

#include "gc/offheap.h"
#include "gc/os/os_mem.h"

/* 256 bytes: the least that is worth a block of its own. */
#define CAPACITY_LEAST ((size_t)16)
/* In use at most 3/4: linear probing then looks at 8.5 entries for a miss; at 7/8 it would be 32 (Knuth 6.4).
 */
#define FULL_NUMERATOR   3
#define FULL_DENOMINATOR 4
/*
 * Sparse: less than 1/8 in use. A table that was just grown is 3/8 full and one that was just trimmed at
 * least 1/4, so that a count that swings about either bound does not resize each time.
 */
#define SPARSE_DENOMINATOR 8

/*
 * From this size on the kernel gives a table its pages in one go. Every one of them will be touched, and one
 * by one they cost 15 us to 30 us each on the virtual machine it was measured on: 200 ms for a million
 * entries instead of 10.
 */
#define POPULATE_BYTES ((size_t)64 << 10)

/*
 * Multiply, fold, multiply (constants of MurmurHash3's finalizer). One multiplication alone lines up objects
 * that lie at an unlucky stride.
 */
static size_t home_of(const struct addr_table *table, uintptr_t key) {
    uint64_t h = (uint64_t)key * UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 32;
    h *= UINT64_C(0xc4ceb9fe1a85ec53);
    h ^= h >> 32;
    return (size_t)h & (table->capacity - 1);
}

static size_t after(const struct addr_table *table, size_t index) {
    return (index + 1) & (table->capacity - 1);
}

/* How far `index` lies behind key's home. */
static size_t distance(const struct addr_table *table, uintptr_t key, size_t index) {
    return (index - home_of(table, key)) & (table->capacity - 1);
}

/* Where the key is, or the empty entry where it would go. The table has an empty entry. */
static size_t locate(const struct addr_table *table, uintptr_t key) {
    size_t i = home_of(table, key);
    while (table->entries[i].key != key && table->entries[i].key != 0)
        i = after(table, i);
    return i;
}

/* Zeroed entries, or NULL with errno ENOMEM. */
static struct addr_entry *allocate(size_t capacity) {
    size_t bytes = capacity * sizeof(struct addr_entry);
    if (capacity > SIZE_MAX / sizeof(struct addr_entry)) {
        errno = ENOMEM;
        return NULL;
    }
    struct addr_entry *entries = offheap_zalloc(bytes);
    if (entries == NULL || bytes < POPULATE_BYTES)
        return entries;
    /* The whole kernel pages in it. */
    uintptr_t from = align_up((uintptr_t)entries, os_mem_page_size());
    uintptr_t to = align_down((uintptr_t)entries + bytes, os_mem_page_size());
    if (os_mem_populate((void *)from, to - from) == 0)
        return entries;
    offheap_free(entries);
    errno = ENOMEM;
    return NULL;
}

/* Moves everything into `capacity` new entries, which are enough. */
static int resize(struct addr_table *table, size_t capacity) {
    struct addr_table to = {.entries = allocate(capacity), .capacity = capacity, .count = table->count};
    if (to.entries == NULL)
        return -1;
    for (size_t i = 0; i < table->capacity; i++)
        if (table->entries[i].key != 0)
            to.entries[locate(&to, table->entries[i].key)] = table->entries[i];
    offheap_free(table->entries);
    *table = to;
    if (TERN_ASSERT_LEVEL >= 2)
        addr_table_check(table);
    return 0;
}

int addr_table_put(struct addr_table *table, uintptr_t key, uint64_t value) {
    gc_assert(key != 0);
    uint64_t *there = addr_table_find(table, key);
    if (there != NULL) {
        *there = value;
        return 0;
    }
    if (table->count >= table->capacity / FULL_DENOMINATOR * FULL_NUMERATOR &&
        resize(table, table->capacity == 0 ? CAPACITY_LEAST : table->capacity * 2) != 0)
        return -1;
    table->entries[locate(table, key)] = (struct addr_entry){key, value};
    table->count++;
    return 0;
}

uint64_t *addr_table_find(const struct addr_table *table, uintptr_t key) {
    if (table->count == 0)
        return NULL;
    struct addr_entry *entry = &table->entries[locate(table, key)];
    return entry->key == key && key != 0 ? &entry->value : NULL;
}

/* Empties entry `hole`, and fills it from behind with what may lie there, until nothing behind wants to move.
 */
static void remove_at(struct addr_table *table, size_t hole) {
    for (size_t i = after(table, hole); table->entries[i].key != 0; i = after(table, i)) {
        /* An entry may move back as far as its home. */
        if (distance(table, table->entries[i].key, i) >= ((i - hole) & (table->capacity - 1))) {
            table->entries[hole] = table->entries[i];
            hole = i;
        }
    }
    table->entries[hole] = (struct addr_entry){0, 0};
    table->count--;
}

bool addr_table_remove(struct addr_table *table, uintptr_t key) {
    if (key == 0 || table->count == 0)
        return false;
    size_t i = locate(table, key);
    if (table->entries[i].key == 0)
        return false;
    remove_at(table, i);
    return true;
}

void addr_table_trim(struct addr_table *table) {
    if (table->capacity <= CAPACITY_LEAST || table->count >= table->capacity / SPARSE_DENOMINATOR)
        return;
    size_t capacity = CAPACITY_LEAST;
    while (capacity / 2 < table->count)
        capacity *= 2;
    /* Without memory for the smaller table the larger one goes on serving. */
    int saved = errno;
    if (resize(table, capacity) != 0)
        errno = saved;
}

void addr_table_destroy(struct addr_table *table) {
    offheap_free(table->entries);
    *table = (struct addr_table){0};
}

/*
 * A walk starts behind an empty entry and goes once around. A removal shifts entries only within a run
 * without gaps, from places not yet looked at into the current one; no such run crosses the start.
 */
void addr_walk_begin(const struct addr_table *table, struct addr_walk *walk) {
    walk->at = 0;
    walk->left = table->count == 0 ? 0 : table->capacity;
    if (walk->left != 0)
        while (table->entries[walk->at].key != 0)
            walk->at++;
}

struct addr_entry *addr_walk_next(const struct addr_table *table, struct addr_walk *walk) {
    while (walk->left != 0) {
        walk->left--;
        walk->at = after(table, walk->at);
        if (table->entries[walk->at].key != 0)
            return &table->entries[walk->at];
    }
    return NULL;
}

void addr_walk_remove(struct addr_table *table, struct addr_walk *walk) {
    remove_at(table, walk->at);
    /* What was shifted here is looked at next. */
    walk->at = (walk->at - 1) & (table->capacity - 1);
    walk->left++;
}

void addr_table_check(const struct addr_table *table) {
    gc_check((table->capacity == 0) == (table->entries == NULL),
             "an address table has a size but no entries");
    gc_check((table->capacity & (table->capacity - 1)) == 0, "an address table's size is no power of two");
    gc_check(table->count <= table->capacity / FULL_DENOMINATOR * FULL_NUMERATOR,
             "an address table is too full");
    size_t count = 0;
    for (size_t i = 0; i < table->capacity; i++) {
        uintptr_t key = table->entries[i].key;
        if (key == 0)
            continue;
        count++;
        gc_check(locate(table, key) == i, "an address table's entry cannot be found");
    }
    gc_check(count == table->count, "an address table has miscounted");
}
