/*
 * The page record: what the collector knows about 8 KiB of heap, one cache line per page, in one array
 * indexed by page number. One load of it tells what an address is. Owns the layout and the bit arithmetic,
 * nothing else.
 *
 * Glossary: slot, one object's place in a span; group, 64 neighbouring slots, the unit in which threads take
 * them; head, the first record of a span of several pages; tail, its other records.
 *
 * Mark bits of free slots are set ("sealed") while no marking runs: a stale word that leads to a free slot
 * then looks like one to something already marked, and the marker need not read the allocated bits, which lie
 * on another line (docs/design.md, "Sealed marks", has the measurement). So white is: allocated and not
 * marked.
 */
#ifndef GC_PAGE_H
#define GC_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PAGE_SHIFT 13
#define PAGE_BYTES ((size_t)1 << PAGE_SHIFT)

/* Index into the array of records. 0 is a real page that is never given out, so 0 also stands for "none". */
typedef uint32_t page_index;

enum kind { KIND_LEAF, KIND_WORDS, KIND_TYPED, KIND_TRACED, KIND_TINY, KIND_COUNT };

enum page_use {
    PAGE_NONE,  /* never grown, or in the inside of a free run */
    PAGE_FREE,  /* first or last page of a free run */
    PAGE_SMALL, /* head of a span of slots */
    PAGE_LARGE, /* head of one large object */
    PAGE_TAIL   /* inside a span or a large object */
};

/*
 * The claim word is (epoch << CLAIM_STATE_BITS | state). Whoever sweeps a span, takes or gives back a mask of
 * it, or frees it first wins this word by compare-and-swap. A span whose epoch is not the heap's has not been
 * swept since the last cycle: "unswept" (SWEPT of the former epoch) and "owned-unswept" (OWNED of the former
 * epoch) are not stored.
 */
enum claim_state { CLAIM_SWEPT, CLAIM_OWNED, CLAIM_SWEEPING, CLAIM_FREEING };
#define CLAIM_STATE_BITS 2

static inline uint32_t claim_word(uint32_t epoch, enum claim_state state) {
    return epoch << CLAIM_STATE_BITS | (uint32_t)state;
}
static inline enum claim_state claim_state_of(uint32_t word) {
    return (enum claim_state)(word & ((1u << CLAIM_STATE_BITS) - 1));
}
/* Epochs are compared for equality only, modulo 2^30; no span stays unswept for longer than one cycle. */
static inline bool claim_is_of(uint32_t word, uint32_t epoch) {
    return word >> CLAIM_STATE_BITS == (epoch & (UINT32_MAX >> CLAIM_STATE_BITS));
}

/* page.flags */
#define PAGE_LIVE   1u /* an object of the span was marked since its last sweep */
#define PAGE_REGREY 2u /* a marked object of it could not be queued: its marked objects are scanned again */

#define PAGE_MARK_WORDS      11  /* 32-bit mark words inside the record */
#define PAGE_MARKS_INLINE    352 /* slots that those cover: every class of 24 bytes and up */
#define PAGE_MARK_EXT_WORDS  32  /* for 1024 slots of 8 bytes, in the parallel array */
#define PAGE_ALLOCATED_WORDS 16  /* 64-bit words a page in the array of allocated bits */

struct page {
    _Atomic uint32_t claim;      /* acq_rel by claimants; release publishes a sweep */
    uint32_t magic;              /* of the class; written before slot_count */
    uint16_t slot_bytes;         /* written before slot_count */
    _Atomic uint16_t slot_count; /* 0: not a head of slots; stored last, with release, when a span is made */
    uint8_t size_class;
    _Atomic uint8_t kind; /* relaxed; a large object is a leaf until it is zeroed */
    _Atomic uint8_t
        use; /* enum page_use; relaxed, changes under the page-run lock or by the span's claimant */
    _Atomic uint8_t flags; /* relaxed or; cleared by sweep */
    page_index next;       /* link of the list the span is in; under that list's lock */
    union {
        _Atomic uint32_t
            marks[PAGE_MARK_WORDS]; /* PAGE_SMALL: relaxed; by markers while marking, else by the claimant */
        struct {
            _Atomic uint32_t marked; /* PAGE_LARGE: 1 when marked; relaxed */
            uint32_t pages;
            uint32_t quarantined; /* gcverify: dead, poisoned, freed by the next cycle */
        } large;
        struct {
            uint32_t back; /* PAGE_TAIL: pages back to the head */
        } tail;
        struct {
            uint32_t pages;       /* PAGE_FREE: length of the run, in its first and last record */
            page_index list_prev; /* under the page-run lock; first record only */
            uint32_t cold;        /* pages of the run that are not resident; first record only */
        } run;
    };
};

static_assert(sizeof(struct page) == 64, "a page record is one cache line");
static_assert(offsetof(struct page, marks) == 20, "44 bytes of marks follow a 20-byte header");
static_assert(PAGE_MARK_WORDS * 32 == PAGE_MARKS_INLINE, "marks inline");
static_assert(PAGE_MARK_EXT_WORDS * 32 * 8 == PAGE_BYTES, "one bit for each 8 bytes");
static_assert(PAGE_ALLOCATED_WORDS * 64 * 8 == PAGE_BYTES, "one bit for each 8 bytes");

static inline unsigned page_groups(unsigned slots) {
    return (slots + 63) / 64;
}

/* Bits of the slots that group `group` of a span with `slots` slots really has. */
static inline uint64_t page_group_valid(unsigned slots, unsigned group) {
    unsigned rest = slots - group * 64;
    return rest >= 64 ? UINT64_MAX : (UINT64_C(1) << rest) - 1;
}

#endif
