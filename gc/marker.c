/*
 * The marker's inner loop: is this word a pointer, mark what it points to, queue it, scan what is queued.
 * Calls grey and heap only. Reads objects and stacks of stopped threads; writes mark bits and page flags.
 *
 * Two orders. "stack": depth first, the first word of an object first, the object fetched ahead when it is
 * pushed; wins on heaps laid out in the order of traversal. "ring": two first-in-first-out rings, one that
 * waits for the page record and one for the object; wins on scattered heaps. "auto" watches how often a
 * marked object lies on another page than the one marked before, and switches; both use the same mark bits
 * and stack, so switching is safe at any time.
 */
#include "gc/marker.h"

#include <string.h>

#include "gc/fault.h"
#include "gc/heap.h"
#include "gc/settings.h"
#include "gc/sizeclass.h"
#include "gc/type.h"

/* A large object is scanned in pieces of this many words, so that its pieces can be shared and the stack
 * stays small. */
#define PIECE_WORDS ((size_t)1024)
/* Objects marked before the order is looked at. */
#define LOOK_EVERY 512
/* Looks in ring order before the stack's order is sampled again. */
#define RING_LOOKS 32
/* Pages apart from which an object counts as a jump: beyond what the hardware prefetchers follow. */
#define NEAR_PAGES 2

#define INLINE static inline __attribute__((always_inline))

void marker_begin(struct marker *m, bool parallel) {
    m->base = heap.base;
    m->grown = atomic_load_explicit(&heap.grown, memory_order_acquire);
    m->pages = heap.pages;
    m->live_bytes = m->doubted_bytes = m->scanned_bytes = m->published_bytes = 0;
    m->parallel = parallel;
    m->overflowed = false;
    m->fixed_order = settings.marker != MARKER_AUTO;
    m->ring_order = settings.marker == MARKER_RING || (settings.marker == MARKER_AUTO && m->ring_order);
    m->marked = m->jumps = 0;
    m->ring_looks = 0;
    m->ring_objects = m->stack_objects = 0;
    memset(m->words, 0, sizeof m->words);
    memset(m->objects, 0, sizeof m->objects);
    m->word_at = m->object_at = 0;
    m->objects_held = 0;
}

/* Sets the bit; true when this call did. */
INLINE bool set_bit(_Atomic uint32_t *word, uint32_t bit, bool parallel) {
    uint32_t now = atomic_load_explicit(word, memory_order_relaxed);
    if (now & bit)
        return false;
    if (parallel)
        return (atomic_fetch_or_explicit(word, bit, memory_order_relaxed) & bit) == 0;
    atomic_store_explicit(word, now | bit, memory_order_relaxed);
    return true;
}

static void flag(struct page *page, uint8_t bits) {
    atomic_fetch_or_explicit(&page->flags, bits, memory_order_relaxed);
}

INLINE void push(struct marker *m, struct page *page, grey_entry e) {
    if (unlikely(!grey_push(&m->grey, e))) {
        flag(page, PAGE_REGREY);
        m->overflowed = true;
    }
}

INLINE void mark_slot(struct marker *m, struct page *page, page_index index, unsigned slots, uint32_t slot,
                      bool parallel) {
    _Atomic uint32_t *marks = likely(slots <= PAGE_MARKS_INLINE)
                                  ? page->marks
                                  : heap.marks_ext + (size_t)index * PAGE_MARK_EXT_WORDS;
    if (!set_bit(&marks[slot / 32], 1u << slot % 32, parallel))
        return;
    if (unlikely((atomic_load_explicit(&page->flags, memory_order_relaxed) & PAGE_LIVE) == 0))
        flag(page, PAGE_LIVE);
    size_t bytes = page->slot_bytes;
    m->live_bytes += bytes;
    m->marked++;
    m->jumps += index - m->last_page + NEAR_PAGES > 2 * NEAR_PAGES;
    m->last_page = index;
    unsigned kind = atomic_load_explicit(&page->kind, memory_order_relaxed);
    if (kind == KIND_LEAF || kind == KIND_TINY)
        return;
    uintptr_t object = m->base + ((size_t)index << PAGE_SHIFT) + slot * bytes;
    __builtin_prefetch((const void *)object);
    push(m, page, grey_pack(object, page->size_class, kind));
}

/* Pages without slots of their own: large objects, tails, free pages. */
static void mark_slow(struct marker *m, uintptr_t word) {
    page_index index = (page_index)((word - m->base) >> PAGE_SHIFT);
    struct page *page = &m->pages[index];
    if (atomic_load_explicit(&page->use, memory_order_acquire) == PAGE_TAIL) {
        index -= page->tail.back;
        page = &m->pages[index];
    }
    enum page_use use = atomic_load_explicit(&page->use, memory_order_acquire);
    if (use == PAGE_SMALL) {
        size_t offset = word - (m->base + ((size_t)index << PAGE_SHIFT));
        unsigned slots = atomic_load_explicit(&page->slot_count, memory_order_acquire);
        uint32_t slot = (uint32_t)((uint64_t)offset * page->magic >> 32);
        if (slot < slots)
            mark_slot(m, page, index, slots, slot, m->parallel);
    } else if (use == PAGE_LARGE && set_bit(&page->large.marked, 1, m->parallel)) {
        m->live_bytes += (uint64_t)page->large.pages << PAGE_SHIFT;
        unsigned kind = atomic_load_explicit(&page->kind, memory_order_relaxed);
        if (kind != KIND_LEAF)
            push(m, page, grey_pack(m->base + ((size_t)index << PAGE_SHIFT), 0, kind));
    }
}

INLINE void mark_word(struct marker *m, uintptr_t word, bool parallel) {
    size_t offset = word - m->base;
    if (offset >= m->grown)
        return;
    page_index index = (page_index)(offset >> PAGE_SHIFT);
    struct page *page = &m->pages[index];
    unsigned slots = atomic_load_explicit(&page->slot_count, memory_order_acquire);
    if (unlikely(slots == 0)) {
        mark_slow(m, word);
        return;
    }
    uint32_t slot = (uint32_t)((uint64_t)(offset & (PAGE_BYTES - 1)) * page->magic >> 32);
    if (likely(slot < slots))
        mark_slot(m, page, index, slots, slot, parallel);
}

/* First stage of the ring: the page record is fetched; the word that came 16 words before is marked. */
INLINE void ring_word(struct marker *m, uintptr_t word, bool parallel) {
    size_t offset = word - m->base;
    if (offset >= m->grown)
        return;
    __builtin_prefetch(&m->pages[offset >> PAGE_SHIFT], 1);
    unsigned at = m->word_at;
    uintptr_t due = m->words[at];
    m->words[at] = word;
    m->word_at = (at + 1) % MARKER_RING_LENGTH;
    mark_word(m, due, parallel);
}

INLINE void found(struct marker *m, uintptr_t word, bool ring, bool parallel) {
    if (ring)
        ring_word(m, word, parallel);
    else
        mark_word(m, word, parallel);
}

/*
 * A word of an object that running threads may change: read once, whatever the compiler would rather do. Plain,
 * since an aligned word is read whole and ThreadSanitizer is kept out (GC_NO_SANITIZE).
 */
INLINE uintptr_t read_word(const uintptr_t *at) {
    uintptr_t word = *at;
    __asm__("" : "+r"(word));
    return word;
}

/* The last word first, so that the first is on top of the stack. */
GC_NO_SANITIZE static void scan_words_stack(struct marker *m, const uintptr_t *from, size_t words) {
    for (size_t i = words; i-- > 0;)
        mark_word(m, read_word(&from[i]), false);
}
GC_NO_SANITIZE static void scan_words_stack_parallel(struct marker *m, const uintptr_t *from, size_t words) {
    for (size_t i = words; i-- > 0;)
        mark_word(m, read_word(&from[i]), true);
}
GC_NO_SANITIZE static void scan_words_ring(struct marker *m, const uintptr_t *from, size_t words) {
    for (size_t i = 0; i < words; i++)
        ring_word(m, read_word(&from[i]), false);
}
GC_NO_SANITIZE static void scan_words_ring_parallel(struct marker *m, const uintptr_t *from, size_t words) {
    for (size_t i = 0; i < words; i++)
        ring_word(m, read_word(&from[i]), true);
}

static void scan_words(struct marker *m, const uintptr_t *from, size_t words) {
    if (m->ring_order)
        (m->parallel ? scan_words_ring_parallel : scan_words_ring)(m, from, words);
    else
        (m->parallel ? scan_words_stack_parallel : scan_words_stack)(m, from, words);
}

void marker_visit(void *marker, const void *from, size_t words) {
    scan_words(marker, from, words);
}

static bool begins_object(uintptr_t word) {
    struct heap_place place = heap_find(word);
    return place.head != NULL && (uintptr_t)place.base == word;
}

GC_NO_SANITIZE void marker_visit_root(void *marker, const void *from, size_t words) {
    struct marker *m = marker;
    const uintptr_t *word = from;
    for (size_t i = 0; i < words; i++) {
        uintptr_t w = read_word(&word[i]);
        if (w - m->base > m->grown)
            continue;
        mark_word(m, w, m->parallel);
        /* C may hold only one past the end. Within a slot both are the same; the second look is cheap then.
         */
        uint64_t before = m->live_bytes;
        mark_word(m, w - 1, m->parallel);
        if (unlikely(m->live_bytes != before) && begins_object(w))
            m->doubted_bytes += m->live_bytes - before;
    }
}

/* The pointer words of `words` words at `from`, which lie at word `phase` of an element of the type. */
GC_NO_SANITIZE static void scan_typed(struct marker *m, const struct tern_type *type, const uintptr_t *from,
                                      size_t words, size_t phase) {
    for (size_t i = 0; i < words; i++) {
        if (type_is_pointer(type, phase))
            found(m, read_word(&from[i]), m->ring_order, m->parallel);
        if (++phase == type->words)
            phase = 0;
    }
}

/* The head record of what an entry is about. */
static struct page *page_of(const struct marker *m, grey_entry e) {
    struct page *page = &m->pages[(grey_address(e) - m->base) >> PAGE_SHIFT];
    if (atomic_load_explicit(&page->use, memory_order_relaxed) == PAGE_TAIL)
        page -= page->tail.back;
    return page;
}

/* A trace function may take its time, and it is the program's: no mutator that only wanted memory runs it. */
static void leave_to_own(struct marker *m, grey_entry e) {
    if ((m->own.top != NULL || grey_stack_init(&m->own) == 0) && grey_push(&m->own, e))
        return;
    flag(page_of(m, e), PAGE_REGREY);
    m->overflowed = true;
}

/* Scans words [first, first + words) of an object of `bytes` bytes at `base`. */
GC_NO_SANITIZE static void scan_part(struct marker *m, grey_entry e, char *base, size_t bytes, size_t first,
                                     size_t words) {
    unsigned kind = grey_kind(e);
    const uintptr_t *from = (const uintptr_t *)(void *)base + first;
    if (kind == KIND_WORDS) {
        scan_words(m, from, words - (fault_is(FAULT_LAST_WORD_NOT_SCANNED) && words > 0));
        return;
    }
    uintptr_t word = read_word(type_word(base, bytes));
    atomic_thread_fence(memory_order_acquire); /* as is_published */
    const struct tern_type *type = type_of_word(word);
    /* The descriptor word itself points off the heap. Whole elements only: what follows them is zero. */
    if (first + words == bytes / sizeof(uintptr_t))
        words--;
    if (fault_is(FAULT_LAST_WORD_NOT_SCANNED) && words > 0)
        words--;
    if (type == NULL || (type->trace != NULL && (word & TYPE_PUBLISHED) == 0)) {
        scan_words(m, from, words);
    } else if (type->trace != NULL) {
        /* Traced as a whole, with the first piece. */
        struct tern_tracer tracer = {marker_visit, m};
        if (first == 0 && m->guest)
            leave_to_own(m, e);
        else if (first == 0)
            type->trace(base, bytes - TYPE_WORD_BYTES, &tracer);
    } else {
        scan_typed(m, type, from, words, first % type->words);
    }
}

GC_NO_SANITIZE static bool is_published(char *base, size_t bytes) {
    uintptr_t word = read_word(type_word(base, bytes));
    /* acquire: what was written before tern_publish is seen by the trace function. */
    atomic_thread_fence(memory_order_acquire);
    return (word & TYPE_PUBLISHED) != 0;
}

/* A piece of a large object; the rest goes back on the stack first. */
static void scan_large(struct marker *m, grey_entry e) {
    uintptr_t at = grey_address(e);
    struct page *page = page_of(m, e);
    char *base = heap_address(heap_index_of(page));
    size_t bytes = (size_t)page->large.pages << PAGE_SHIFT;
    size_t first = (at - (uintptr_t)base) / sizeof(uintptr_t);
    size_t words = bytes / sizeof(uintptr_t) - first;
    /*
     * A traced object that is not published is scanned as words to its end, published meanwhile or not: the first piece
     * decides. A published one is traced whole.
     */
    if (grey_kind(e) == KIND_TRACED) {
        if (is_published(base, bytes)) {
            m->scanned_bytes += bytes;
            scan_part(m, e, base, bytes, 0, words);
            return;
        }
        e = grey_pack(at, 0, KIND_WORDS);
    }
    if (words > PIECE_WORDS) {
        words = PIECE_WORDS;
        push(m, page, grey_pack(at + PIECE_WORDS * sizeof(uintptr_t), 0, grey_kind(e)));
    }
    m->scanned_bytes += words * sizeof(uintptr_t);
    scan_part(m, e, base, bytes, first, words);
}

INLINE void scan(struct marker *m, grey_entry e) {
    unsigned class = grey_class(e);
    if (unlikely(class == 0)) {
        scan_large(m, e);
        return;
    }
    size_t bytes = sizeclass_table[class].bytes;
    char *base = (char *)grey_address(e);
    m->scanned_bytes += bytes;
    if (likely(grey_kind(e) == KIND_WORDS) && !fault_is(FAULT_LAST_WORD_NOT_SCANNED))
        scan_words(m, (const uintptr_t *)(void *)base, bytes / sizeof(uintptr_t));
    else
        scan_part(m, e, base, bytes, 0, bytes / sizeof(uintptr_t));
}

/* Scans up to `objects` objects, or to `until` bytes in all. false: nothing is left. */
static bool step_stack(struct marker *m, unsigned objects, uint64_t until) {
    grey_entry e;
    for (unsigned n = 0; n < objects && m->scanned_bytes < until; n++) {
        if (!grey_pop(&m->grey, &e))
            return false;
        scan(m, e);
        m->stack_objects++;
    }
    return true;
}

/* Everything in the rings goes back to the stack or is marked. */
static void ring_flush(struct marker *m) {
    for (unsigned i = 0; i < MARKER_RING_LENGTH; i++) {
        uintptr_t word = m->words[i];
        m->words[i] = 0;
        mark_word(m, word, m->parallel);
        grey_entry e = m->objects[i];
        m->objects[i] = 0;
        if (e != 0)
            push(m, page_of(m, e), e);
    }
    m->objects_held = 0;
}

static bool step_ring(struct marker *m, unsigned objects, uint64_t until) {
    for (unsigned n = 0; n < objects && m->scanned_bytes < until; n++) {
        grey_entry e = 0;
        if (grey_pop(&m->grey, &e))
            __builtin_prefetch((const void *)grey_address(e));
        else if (m->objects_held == 0) {
            /* The last words may lead on. */
            ring_flush(m);
            return m->grey.count != 0 || m->grey.top->below != NULL;
        }
        /* With an empty stack the ring is worked off, oldest first: what that finds fills the stack again. */
        unsigned at = m->object_at;
        grey_entry due = m->objects[at];
        m->objects[at] = e;
        m->objects_held += (e != 0) - (unsigned)(due != 0);
        m->object_at = (at + 1) % MARKER_RING_LENGTH;
        if (due != 0)
            scan(m, due);
        m->ring_objects += due != 0;
    }
    return true;
}

/*
 * More than half of what was marked in stack order lies far from what was marked before: the heap is
 * scattered. The ring's own order jumps by nature, so it says nothing; from time to time the stack's is tried
 * again.
 */
static void choose_order(struct marker *m) {
    if (m->fixed_order || (m->marked < LOOK_EVERY && !m->ring_order))
        return;
    if (!m->ring_order) {
        m->ring_order = m->jumps * 2 > m->marked;
        m->ring_looks = 0;
    } else if (++m->ring_looks == RING_LOOKS) {
        ring_flush(m);
        m->ring_order = false;
    }
    m->marked = m->jumps = 0;
}

void marker_settle(struct marker *m) {
    ring_flush(m);
}

bool marker_step(struct marker *m, unsigned objects, uint64_t bytes) {
    uint64_t until = m->scanned_bytes + bytes;
    bool more = m->ring_order ? step_ring(m, objects, until) : step_stack(m, objects, until);
    if (more)
        choose_order(m);
    return more;
}

void marker_visit_recorded(struct marker *m, const uint64_t *words, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        mark_word(m, words[i], m->parallel);
}

void marker_requeue(struct marker *m, page_index head, unsigned slot) {
    struct page *page = heap_page(head);
    unsigned kind = atomic_load_explicit(&page->kind, memory_order_relaxed);
    if (kind == KIND_LEAF || kind == KIND_TINY)
        return;
    if (atomic_load_explicit(&page->use, memory_order_relaxed) == PAGE_LARGE)
        push(m, page, grey_pack((uintptr_t)heap_address(head), 0, kind));
    else
        push(m, page,
             grey_pack((uintptr_t)heap_address(head) + (size_t)slot * page->slot_bytes, page->size_class,
                       kind));
}

uint64_t marker_shade(uintptr_t word, grey_entry *entry) {
    *entry = 0;
    struct heap_place place = heap_find(word);
    if (place.head == NULL)
        return 0;
    bool large = atomic_load_explicit(&place.head->use, memory_order_relaxed) == PAGE_LARGE;
    _Atomic uint32_t *marks =
        large ? &place.head->large.marked
              : &heap_marks(place.head, atomic_load_explicit(&place.head->slot_count,
                                                             memory_order_acquire))[place.slot / 32];
    if (!set_bit(marks, large ? 1u : 1u << place.slot % 32, true))
        return 0;
    if ((atomic_load_explicit(&place.head->flags, memory_order_relaxed) & PAGE_LIVE) == 0)
        flag(place.head, PAGE_LIVE);
    unsigned kind = atomic_load_explicit(&place.head->kind, memory_order_relaxed);
    if (kind != KIND_LEAF && kind != KIND_TINY)
        *entry = grey_pack((uintptr_t)place.base, large ? 0 : place.head->size_class, kind);
    return place.bytes;
}

void marker_flag(grey_entry e) {
    flag(heap_find(grey_address(e)).head, PAGE_REGREY);
}
