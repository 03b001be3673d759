/*
 * The reserved range and the arrays that describe it. Calls gc/os/os_mem.
 *
 * Everything is reserved once and never moves: the range, one record a page, the allocated bits, the mark
 * words of the two smallest classes. Untouched parts cost address space only.
 */
#include "gc/heap.h"

#include <errno.h>

#include "gc/os/os_futex.h"
#include "gc/os/os_mem.h"

/* The first size tried. 512 GiB of addresses is far beyond any machine's memory and costs one mapping. */
#define HEAP_RESERVE_BYTES ((size_t)512 << 30)
/* Under this nothing useful runs. */
#define HEAP_RESERVE_LEAST_BYTES ((size_t)64 << 20)

struct heap heap;

/* Which 2 MiB pieces of the heap have their part of an array already, as far as the heap has grown. Written
 * under bits_lock; release, so that who reads a bit sees the part there. */
#define CHUNK_PAGES (OS_HUGE_PAGE / PAGE_BYTES)
#define CHUNKS_MOST (HEAP_RESERVE_BYTES / OS_HUGE_PAGE)
typedef _Atomic uint64_t chunk_set[CHUNKS_MOST / 64];
static chunk_set allocated_ready, marks_ext_ready;
/* Rank: below the page-run lock. Held while a part of an array is populated, so that it is counted once. */
static struct os_lock bits_lock = OS_LOCK_INIT;

struct array {
    void **base;
    size_t bytes_a_page;
};

static void arrays(struct array out[4], bool with_quarantine, unsigned *count) {
    *count = 0;
    out[(*count)++] = (struct array){(void **)&heap.pages, sizeof(struct page)};
    out[(*count)++] = (struct array){(void **)&heap.allocated, PAGE_ALLOCATED_WORDS * sizeof(uint64_t)};
    out[(*count)++] = (struct array){(void **)&heap.marks_ext, PAGE_MARK_EXT_WORDS * sizeof(uint32_t)};
    if (with_quarantine)
        out[(*count)++] = (struct array){(void **)&heap.quarantine, PAGE_ALLOCATED_WORDS * sizeof(uint64_t)};
}

/* Guard pages on both sides keep an overrun of an object from reaching metadata. */
static size_t array_bytes(size_t pages, size_t bytes_a_page) {
    return align_up(pages * bytes_a_page, OS_HUGE_PAGE);
}

static int reserve(size_t bytes, bool with_quarantine) {
    struct array list[4];
    unsigned count;
    arrays(list, with_quarantine, &count);
    size_t pages = bytes >> PAGE_SHIFT;
    void *range = os_mem_reserve(bytes + 2 * OS_HUGE_PAGE, OS_HUGE_PAGE);
    if (range == NULL)
        return -1;
    for (unsigned i = 0; i < count; i++) {
        size_t size = array_bytes(pages, list[i].bytes_a_page);
        char *at = os_mem_reserve(size + 2 * os_mem_page_size(), OS_HUGE_PAGE);
        if (at == NULL) {
            while (i-- > 0)
                os_mem_unreserve(*list[i].base,
                                 array_bytes(pages, list[i].bytes_a_page) + 2 * os_mem_page_size());
            os_mem_unreserve(range, bytes + 2 * OS_HUGE_PAGE);
            return -1;
        }
        *list[i].base = at;
    }
    /* Page 1 begins a huge page; page 0 lies before it, is never given out, and lets index 0 mean "none". */
    heap.base = (uintptr_t)range + OS_HUGE_PAGE - PAGE_BYTES;
    heap.reserved = bytes;
    return 0;
}

int heap_init(bool with_quarantine) {
    for (size_t bytes = HEAP_RESERVE_BYTES; bytes >= HEAP_RESERVE_LEAST_BYTES; bytes /= 2) {
        if (reserve(bytes, with_quarantine) == 0) {
            atomic_store_explicit(&heap.grown, 0, memory_order_relaxed);
            atomic_store_explicit(&heap.metadata, 0, memory_order_relaxed);
            atomic_store_explicit(&heap.epoch, 1, memory_order_relaxed);
            return 0;
        }
    }
    errno = ENOMEM;
    return -1;
}

void heap_destroy(void) {
    struct array list[4];
    unsigned count;
    arrays(list, heap.quarantine != NULL, &count);
    size_t pages = heap.reserved >> PAGE_SHIFT;
    for (unsigned i = 0; i < count; i++)
        os_mem_unreserve(*list[i].base, array_bytes(pages, list[i].bytes_a_page) + 2 * os_mem_page_size());
    os_mem_unreserve((void *)(heap.base + PAGE_BYTES - OS_HUGE_PAGE), heap.reserved + 2 * OS_HUGE_PAGE);
    for (size_t i = 0; i < CHUNKS_MOST / 64; i++) {
        atomic_store_explicit(&allocated_ready[i], 0, memory_order_relaxed);
        atomic_store_explicit(&marks_ext_ready[i], 0, memory_order_relaxed);
    }
    heap.pages = NULL;
    heap.allocated = NULL;
    heap.marks_ext = NULL;
    heap.quarantine = NULL;
    heap.base = 0;
    heap.reserved = 0;
    atomic_store_explicit(&heap.grown, 0, memory_order_relaxed);
}

/* The kernel pages of an array for [from, to) heap pages; one that two parts share belongs to the earlier. */
struct part {
    char *at;
    size_t bytes;
};

static struct part part_of(void *base, size_t bytes_a_page, size_t from_page, size_t to_page) {
    size_t page = os_mem_page_size();
    size_t from = align_up(from_page * bytes_a_page, page);
    size_t to = align_up(to_page * bytes_a_page, page);
    return (struct part){(char *)base + from, to - from};
}

/* All of a part or nothing is resident afterwards, and in the books. The part was never used before. */
static int populate(struct part part) {
    if (part.bytes == 0)
        return 0;
    if (os_mem_populate(part.at, part.bytes) != 0) {
        os_mem_release(part.at, part.bytes);
        errno = ENOMEM;
        return -1;
    }
    atomic_fetch_add_explicit(&heap.metadata, part.bytes, memory_order_relaxed);
    return 0;
}

static void unpopulate(struct part part) {
    if (part.bytes == 0 || os_mem_release(part.at, part.bytes) != 0)
        return;
    atomic_fetch_sub_explicit(&heap.metadata, part.bytes, memory_order_relaxed);
}

/* The arrays of bits that are populated by pieces of 2 MiB. */
static const struct bits {
    void **base;
    size_t bytes_a_page;
    _Atomic uint64_t *ready;
} bit_arrays[2] = {
    {(void **)&heap.allocated, PAGE_ALLOCATED_WORDS * sizeof(uint64_t), allocated_ready},
    {(void **)&heap.marks_ext, PAGE_MARK_EXT_WORDS * sizeof(uint32_t), marks_ext_ready},
};

static bool is_ready(const struct bits *b, size_t chunk) {
    return atomic_load_explicit(&b->ready[chunk / 64], memory_order_acquire) >> chunk % 64 & 1;
}

/* Page 0 belongs to the first piece, as its record does. */
static size_t chunk_begin(size_t chunk) {
    return chunk == 0 ? 0 : chunk * CHUNK_PAGES + 1;
}

int heap_grow_records(size_t grown) {
    size_t from = atomic_load_explicit(&heap.grown, memory_order_relaxed) >> PAGE_SHIFT;
    size_t to = grown >> PAGE_SHIFT;
    struct array list[4];
    unsigned count;
    arrays(list, heap.quarantine != NULL, &count);
    for (unsigned i = 0; i < count; i++) {
        struct part part = part_of(*list[i].base, list[i].bytes_a_page, from, to);
        if (part.bytes != 0 && os_mem_commit(part.at, part.bytes) != 0)
            return -1;
    }
    struct part records = part_of(heap.pages, sizeof(struct page), from, to);
    if (populate(records) != 0)
        return -1;
    /* A piece that was begun and has its bits gets those of its new pages too. */
    size_t chunk = from == 0 ? 0 : (from - 1) / CHUNK_PAGES, end = chunk_begin(chunk + 1);
    struct part grew[2] = {{NULL, 0}, {NULL, 0}};
    os_lock_acquire(&bits_lock);
    for (unsigned i = 0; i < 2; i++) {
        if (!is_ready(&bit_arrays[i], chunk))
            continue;
        struct part part =
            part_of(*bit_arrays[i].base, bit_arrays[i].bytes_a_page, from, to < end ? to : end);
        if (populate(part) != 0) {
            unpopulate(grew[0]);
            unpopulate(records);
            os_lock_release(&bits_lock);
            errno = ENOMEM;
            return -1;
        }
        grew[i] = part;
    }
    atomic_store_explicit(&heap.grown, grown, memory_order_release);
    os_lock_release(&bits_lock);
    return 0;
}

static int populate_chunk(const struct bits *b, page_index index) {
    size_t chunk = (index - 1) / CHUNK_PAGES;
    if (likely(is_ready(b, chunk)))
        return 0;
    os_lock_acquire(&bits_lock);
    int result = 0;
    if (!is_ready(b, chunk)) {
        size_t to = chunk_begin(chunk + 1);
        size_t grown = atomic_load_explicit(&heap.grown, memory_order_relaxed) >> PAGE_SHIFT;
        result = populate(part_of(*b->base, b->bytes_a_page, chunk_begin(chunk), to < grown ? to : grown));
        if (result == 0)
            atomic_fetch_or_explicit(&b->ready[chunk / 64], UINT64_C(1) << chunk % 64, memory_order_release);
    }
    os_lock_release(&bits_lock);
    return result;
}

int heap_populate_bits(page_index index, bool marks_ext) {
    if (populate_chunk(&bit_arrays[0], index) != 0)
        return -1;
    return marks_ext ? populate_chunk(&bit_arrays[1], index) : 0;
}

struct heap_place heap_find(uintptr_t word) {
    struct heap_place place = {0};
    if (!heap_contains(word))
        return place;
    page_index index = heap_index(word);
    struct page *page = heap_page(index);
    if (atomic_load_explicit(&page->use, memory_order_acquire) == PAGE_TAIL) {
        index -= page->tail.back;
        page = heap_page(index);
    }
    size_t offset = word - (uintptr_t)heap_address(index);
    switch (atomic_load_explicit(&page->use, memory_order_acquire)) {
    case PAGE_SMALL: {
        unsigned slots = atomic_load_explicit(&page->slot_count, memory_order_acquire);
        uint32_t slot = (uint32_t)((uint64_t)offset * page->magic >> 32);
        if (slot >= slots)
            return place;
        place.slot = slot;
        place.bytes = page->slot_bytes;
        break;
    }
    case PAGE_LARGE:
        place.bytes = (size_t)page->large.pages << PAGE_SHIFT;
        break;
    default:
        return place;
    }
    place.head = page;
    place.index = index;
    place.base = heap_address(index) + (size_t)place.slot * place.bytes;
    return place;
}

bool heap_place_allocated(const struct heap_place *place) {
    if (place->head == NULL)
        return false;
    if (atomic_load_explicit(&place->head->use, memory_order_relaxed) == PAGE_LARGE)
        return place->head->large.quarantined == 0;
    uint64_t bits =
        atomic_load_explicit(&heap_allocated(place->index)[place->slot / 64], memory_order_relaxed);
    return bits >> place->slot % 64 & 1;
}

bool heap_place_marked(const struct heap_place *place) {
    if (atomic_load_explicit(&place->head->use, memory_order_relaxed) == PAGE_LARGE)
        return atomic_load_explicit(&place->head->large.marked, memory_order_relaxed) != 0;
    unsigned slots = atomic_load_explicit(&place->head->slot_count, memory_order_relaxed);
    const _Atomic uint32_t *marks = heap_marks(place->head, slots);
    return atomic_load_explicit(&marks[place->slot / 32], memory_order_relaxed) >> place->slot % 32 & 1;
}

uint64_t heap_marks_group(const _Atomic uint32_t *marks, unsigned slots, unsigned group) {
    uint64_t bits = atomic_load_explicit(&marks[group * 2], memory_order_relaxed);
    if (group * 64 + 32 < slots)
        bits |= (uint64_t)atomic_load_explicit(&marks[group * 2 + 1], memory_order_relaxed) << 32;
    return bits;
}

void heap_marks_group_set(_Atomic uint32_t *marks, unsigned slots, unsigned group, uint64_t bits) {
    atomic_store_explicit(&marks[group * 2], (uint32_t)bits, memory_order_relaxed);
    if (group * 64 + 32 < slots)
        atomic_store_explicit(&marks[group * 2 + 1], (uint32_t)(bits >> 32), memory_order_relaxed);
}

void heap_marks_group_or(_Atomic uint32_t *marks, unsigned slots, unsigned group, uint64_t bits) {
    atomic_fetch_or_explicit(&marks[group * 2], (uint32_t)bits, memory_order_relaxed);
    if (group * 64 + 32 < slots)
        atomic_fetch_or_explicit(&marks[group * 2 + 1], (uint32_t)(bits >> 32), memory_order_relaxed);
}
