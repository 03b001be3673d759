/* See offheap.h. Calls the private jemalloc (its names are prefixed tern_je_ at build time) and nothing else.
 */
#include "gc/offheap.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "gc/base.h"

/* Declared here: jemalloc's own header would declare the host's malloc family too. */
void *tern_je_mallocx(size_t size, int flags);
void *tern_je_rallocx(void *ptr, size_t size, int flags);
void tern_je_dallocx(void *ptr, int flags);
size_t tern_je_sallocx(const void *ptr, int flags);
int tern_je_mallctl(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes);
int tern_je_mallctlnametomib(const char *name, size_t *mib, size_t *mib_length);
int tern_je_mallctlbymib(const size_t *mib, size_t mib_length, void *old, size_t *old_bytes, void *new_value,
                         size_t new_bytes);

/* Flags as jemalloc 5 defines them: the arena in bits 20 and up, no thread cache, zeroed. */
#define JE_ARENA(index) ((int)(((index) + 1) << 20))
#define JE_TCACHE_NONE  ((int)1 << 8)
#define JE_ZERO         ((int)0x40)

/*
 * jemalloc's settings at its start. One arena beside ours; nothing kept back when it is freed (decay 0),
 * because what is kept would count under the limit; no huge steps in address space.
 */
extern const char *tern_je_malloc_conf;
const char *tern_je_malloc_conf = "narenas:1,retain:false,dirty_decay_ms:0,muzzy_decay_ms:0,tcache:false";

static struct {
    int flags;                  /* of every call; read-only after start */
    size_t resident_mib[5];     /* "stats.arenas.<i>.resident" */
    size_t resident_mib_length; /* read-only after start */
    _Atomic uint64_t exact;     /* resident bytes at the last refresh; relaxed */
    _Atomic int64_t since;      /* allocated less freed since; relaxed */
    _Atomic uint64_t changes;   /* calls that allocated or freed; relaxed */
    _Atomic uint64_t refreshed; /* changes when the last refresh began; relaxed */
    bool ready;
} offheap;

static void add(int64_t bytes) {
    atomic_fetch_add_explicit(&offheap.since, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&offheap.changes, 1, memory_order_relaxed);
}

int offheap_init(void) {
    if (offheap.ready)
        return 0;
    unsigned arena;
    size_t bytes = sizeof arena;
    if (tern_je_mallctl("arenas.create", &arena, &bytes, NULL, 0) != 0) {
        errno = ENOMEM;
        return -1;
    }
    offheap.flags = JE_ARENA(arena) | JE_TCACHE_NONE;
    offheap.resident_mib_length = 4;
    if (tern_je_mallctlnametomib("stats.arenas.0.resident", offheap.resident_mib,
                                 &offheap.resident_mib_length) == 0)
        offheap.resident_mib[2] = arena;
    else
        offheap.resident_mib_length = 0;
    offheap.ready = true;
    add(0); /* the arena itself */
    offheap_refresh();
    return 0;
}

static void count(const void *p, int sign) {
    add(sign * (int64_t)tern_je_sallocx(p, offheap.flags));
}

static void *allocate(size_t bytes, int flags) {
    void *p = tern_je_mallocx(bytes, flags);
    if (p != NULL)
        count(p, 1);
    else
        errno = ENOMEM;
    return p;
}

void *offheap_alloc(size_t bytes) {
    return allocate(bytes, offheap.flags);
}

void *offheap_zalloc(size_t bytes) {
    return allocate(bytes, offheap.flags | JE_ZERO);
}

void *offheap_realloc(void *p, size_t bytes) {
    if (p == NULL)
        return offheap_alloc(bytes);
    int64_t before = (int64_t)tern_je_sallocx(p, offheap.flags);
    void *moved = tern_je_rallocx(p, bytes, offheap.flags);
    if (moved == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    add((int64_t)tern_je_sallocx(moved, offheap.flags) - before);
    return moved;
}

void offheap_free(void *p) {
    if (p == NULL)
        return;
    count(p, -1);
    tern_je_dallocx(p, offheap.flags);
}

char *offheap_strdup(const char *text) {
    if (text == NULL)
        return NULL;
    size_t bytes = strlen(text) + 1;
    char *copy = offheap_alloc(bytes);
    if (copy != NULL)
        memcpy(copy, text, bytes);
    return copy;
}

uint64_t offheap_bytes(void) {
    int64_t since = atomic_load_explicit(&offheap.since, memory_order_relaxed);
    int64_t exact = (int64_t)atomic_load_explicit(&offheap.exact, memory_order_relaxed);
    return exact + since > 0 ? (uint64_t)(exact + since) : 0;
}

void offheap_refresh(void) {
    uint64_t epoch = 1;
    size_t resident = 0;
    /* The arena keeps nothing back, so its figures change with a call only. Most cycles make none. */
    uint64_t changes = atomic_load_explicit(&offheap.changes, memory_order_relaxed);
    if (changes == atomic_load_explicit(&offheap.refreshed, memory_order_relaxed))
        return;
    size_t bytes = sizeof epoch;
    int64_t since = atomic_load_explicit(&offheap.since, memory_order_relaxed);
    if (offheap.resident_mib_length == 0 ||
        tern_je_mallctl("epoch", &epoch, &bytes, &epoch, sizeof epoch) != 0)
        return;
    bytes = sizeof resident;
    if (tern_je_mallctlbymib(offheap.resident_mib, offheap.resident_mib_length, &resident, &bytes, NULL, 0) !=
        0)
        return;
    /* In this order: whoever reads in between sees too little, which no peak remembers. */
    atomic_fetch_sub_explicit(&offheap.since, since, memory_order_relaxed);
    atomic_store_explicit(&offheap.exact, resident, memory_order_relaxed);
    atomic_store_explicit(&offheap.refreshed, changes, memory_order_relaxed);
}
