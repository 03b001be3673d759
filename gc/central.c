/* See central.h. Calls span, pagerun, heap. */
#include "gc/central.h"

#include <sched.h>
#include <string.h>

#include "gc/barrier.h"
#include "gc/fault.h"
#include "gc/pagerun.h"
#include "gc/span.h"

/*
 * How many full spans in a row a refill sweeps before it takes a fresh span instead: bounds the time spent
 * inside S1 after a cycle that freed little (about 50 ns a span). Go's bound is 100 spans
 * (runtime/mcentral.go).
 */
#define SWEEP_FULL_MOST 32

struct central {
    struct os_lock lock;
    page_index partial; /* swept, something free, last in first out; under lock */
    page_index unswept; /* not swept since the last cycle; under lock */
    page_index left;    /* owned, unswept, left by their owners while nothing may be swept; under lock */
    bool deciding;      /* nothing may be swept; under lock */
};

static struct central centrals[KIND_COUNT][SIZECLASS_COUNT];
/* Spans taken off an unswept list and not yet published. acq_rel: a finisher that reads 0 sees their sweeps.
 */
static _Atomic uint32_t sweeping;
/* Where central_sweep_one looks first; relaxed, a hint. */
static _Atomic uint32_t sweep_cursor;

static page_index pop(page_index *list) {
    page_index head = *list;
    if (head != 0)
        *list = heap_page(head)->next;
    return head;
}

static void push(page_index *list, page_index head) {
    heap_page(head)->next = *list;
    *list = head;
}

static page_index pop_partial(struct central *central) {
    os_lock_acquire(&central->lock);
    page_index head = pop(&central->partial);
    os_lock_release(&central->lock);
    return head;
}

static page_index pop_unswept(struct central *central) {
    os_lock_acquire(&central->lock);
    page_index head = pop(&central->unswept);
    if (head != 0)
        atomic_fetch_add_explicit(&sweeping, 1, memory_order_acq_rel);
    os_lock_release(&central->lock);
    return head;
}

static void free_span(page_index head) {
    unsigned pages = sizeclass_table[heap_page(head)->size_class].pages;
    span_unmake(head);
    pagerun_give(head, pages);
}

/* Sweeps a span that was taken off its unswept list and lists it where it belongs; wanted: the caller owns it
 * if it has room. */
static bool sweep_taken(struct central *central, page_index head, bool wanted) {
    uint32_t epoch = heap_epoch();
    gc_check(span_claim_unswept(head, epoch), "an unswept span was claimed by two");
    struct span_count count = span_sweep(head);
    bool owned = wanted && count.free != 0;
    if (!owned && count.free == span_slots(head) && count.quarantined == 0) {
        span_publish(head, epoch, CLAIM_FREEING);
        free_span(head);
    } else {
        os_lock_acquire(&central->lock);
        span_publish(head, epoch, owned ? CLAIM_OWNED : CLAIM_SWEPT);
        if (!owned && count.free != 0)
            push(&central->partial, head);
        os_lock_release(&central->lock);
    }
    atomic_fetch_sub_explicit(&sweeping, 1, memory_order_acq_rel);
    return owned;
}

/* An owned span with something free, or 0 with errno. */
static page_index acquire_span(struct central *central, enum kind kind, unsigned size_class,
                               const struct pagerun_growth *growth) {
    page_index head = pop_partial(central);
    if (head != 0) {
        gc_check(span_claim(head, heap_epoch(), CLAIM_SWEPT, CLAIM_OWNED),
                 "a listed span was claimed by two");
        return head;
    }
    for (int i = 0; i < SWEEP_FULL_MOST && (head = pop_unswept(central)) != 0; i++)
        if (sweep_taken(central, head, true))
            return head;
    if (growth == NULL)
        return 0;
    unsigned pages = sizeclass_table[size_class].pages;
    struct pagerun run = pagerun_take(pages, *growth);
    if (run.first != 0 && span_make(run.first, size_class, kind) != 0) {
        pagerun_give(run.first, pages);
        return 0;
    }
    return run.first;
}

size_t central_refill_bytes(unsigned size_class) {
    const struct sizeclass *class = &sizeclass_table[size_class];
    return (size_t) class->bytes * (class->slots < 64 ? class->slots : 64);
}

/* Gives up a span that has nothing free, or, for a thread that leaves, lists or frees it. */
static void release_span(struct central *central, page_index head, bool has_free) {
    uint32_t epoch = heap_epoch();
    os_lock_acquire(&central->lock);
    gc_check(span_claim(head, epoch, CLAIM_OWNED, CLAIM_SWEPT), "an owned span was claimed by another");
    if (has_free)
        push(&central->partial, head);
    os_lock_release(&central->lock);
}

static void open_span(struct mutator *self, enum kind kind, unsigned size_class, page_index head) {
    struct open_span *span = &self->spans[kind][size_class];
    uint64_t bit = UINT64_C(1) << size_class % 64;
    uint64_t *word = &self->open_classes[kind][size_class / 64];
    span->index = head;
    span->group = head != 0 ? UINT32_MAX : 0; /* so that group 0 comes next */
    *word = head != 0 ? *word | bit : *word & ~bit;
}

/* (epoch - 1, OWNED) -> OWNED, swept. By the owner, or while it is stopped. */
static void sweep_own(page_index head, uint32_t epoch) {
    uint32_t expected = claim_word(epoch - 1, CLAIM_OWNED);
    gc_check(atomic_compare_exchange_strong_explicit(&heap_page(head)->claim, &expected,
                                                     claim_word(epoch, CLAIM_SWEEPING), memory_order_acq_rel,
                                                     memory_order_relaxed),
             "an owned span was claimed by another");
    span_sweep(head);
    span_publish(head, epoch, CLAIM_OWNED);
}

/*
 * Whether the owner may use its span: it is swept, by the owner if need be. false: nothing may be swept now, and
 * the span was left for the collector to list.
 */
static bool is_swept(struct central *central, page_index head) {
    uint32_t epoch = heap_epoch();
    if (claim_is_of(atomic_load_explicit(&heap_page(head)->claim, memory_order_relaxed), epoch))
        return true;
    os_lock_acquire(&central->lock);
    bool deciding = central->deciding;
    if (deciding)
        push(&central->left, head);
    os_lock_release(&central->lock);
    if (!deciding)
        sweep_own(head, epoch);
    return !deciding;
}

bool central_refill(struct mutator *self, enum kind kind, unsigned size_class,
                    const struct pagerun_growth *growth, unsigned *slots) {
    struct central *central = &centrals[kind][size_class];
    struct open_mask *mask = &self->masks[kind][size_class];
    struct open_span *span = &self->spans[kind][size_class];
    gc_assert(atomic_load_explicit(&mask->bits, memory_order_relaxed) == 0);
    if (span->index != 0 && !is_swept(central, span->index))
        open_span(self, kind, size_class, 0);
    for (;;) {
        if (span->index == 0) {
            page_index head = acquire_span(central, kind, size_class, growth);
            if (head == 0)
                return false;
            open_span(self, kind, size_class, head);
        }
        page_index head = span->index;
        unsigned groups = page_groups(span_slots(head));
        /* Once around: a cycle may have freed slots in the groups before. */
        for (unsigned n = 1; n <= groups; n++) {
            unsigned group = (span->group + n) % groups;
            unsigned bytes = sizeclass_table[size_class].bytes;
            char *base = heap_address(head) + (size_t)group * 64 * bytes;
            /* Before they are allocated: a marker that goes over whole pages would take what is there for a type.
             */
            if (kind == KIND_TYPED || kind == KIND_TRACED)
                for (uint64_t rest = span_free_slots(head, group); rest != 0; rest &= rest - 1)
                    memset(base + (size_t)__builtin_ctzll(rest) * bytes, 0, bytes);
            uint64_t bits = span_take_group(head, group, barrier_is_on());
            if (bits == 0)
                continue;
            span->group = group;
            span->epoch = heap_epoch();
            span->shown = bits;
            mask->base = base;
            *slots = (unsigned)__builtin_popcountll(bits);
            atomic_fetch_add_explicit(&self->slots_taken[size_class], *slots, memory_order_relaxed);
            atomic_store_explicit(&mask->bits, bits, memory_order_release);
            return true;
        }
        release_span(central, head, false);
        open_span(self, kind, size_class, 0);
    }
}

uint64_t central_give_back(struct mutator *self, enum kind kind, unsigned size_class) {
    struct open_mask *mask = &self->masks[kind][size_class];
    struct open_span *span = &self->spans[kind][size_class];
    if (span->index == 0)
        return 0;
    uint64_t bits = atomic_load_explicit(&mask->bits, memory_order_relaxed);
    atomic_store_explicit(&mask->bits, 0, memory_order_relaxed);
    if (bits != 0)
        span_give_back(span->index, span->group, bits);
    unsigned count = (unsigned)__builtin_popcountll(bits);
    atomic_fetch_sub_explicit(&self->slots_taken[size_class], count, memory_order_release);
    struct central *central = &centrals[kind][size_class];
    if (is_swept(central, span->index)) {
        bool has_free = false;
        unsigned groups = page_groups(span_slots(span->index));
        for (unsigned g = 0; g < groups && !has_free; g++)
            has_free = span_free_slots(span->index, g) != 0;
        release_span(central, span->index, has_free);
    }
    open_span(self, kind, size_class, 0);
    return span->epoch == heap_epoch() ? (uint64_t)count * sizeclass_table[size_class].bytes : 0;
}

bool central_sweep_one(void) {
    unsigned all = KIND_COUNT * SIZECLASS_COUNT;
    unsigned from = atomic_load_explicit(&sweep_cursor, memory_order_relaxed) % all;
    for (unsigned n = 0; n < all; n++) {
        unsigned i = (from + n) % all;
        struct central *central = &centrals[i / SIZECLASS_COUNT][i % SIZECLASS_COUNT];
        page_index head = pop_unswept(central);
        if (head == 0)
            continue;
        atomic_store_explicit(&sweep_cursor, i, memory_order_relaxed);
        sweep_taken(central, head, false);
        return true;
    }
    return false;
}

void central_sweep_finish(void) {
    while (central_sweep_one()) {
    }
    while (atomic_load_explicit(&sweeping, memory_order_acquire) != 0)
        sched_yield();
}

void central_reset(void) {
    gc_check(atomic_load_explicit(&sweeping, memory_order_acquire) == 0,
             "the world stopped while a span was being swept");
    for (unsigned k = 0; k < KIND_COUNT; k++)
        for (unsigned c = 0; c < SIZECLASS_COUNT; c++) {
            struct central *central = &centrals[k][c];
            gc_check(central->unswept == 0 && central->left == 0, "the world stopped with unswept spans");
            central->partial = 0;
            central->deciding = true;
        }
}

void central_decided(void) {
    uint32_t epoch = heap_epoch();
    for (unsigned k = 0; k < KIND_COUNT; k++)
        for (unsigned c = 0; c < SIZECLASS_COUNT; c++) {
            struct central *central = &centrals[k][c];
            os_lock_acquire(&central->lock);
            central->deciding = false;
            page_index head;
            /* Nobody's now: the walk, which is about to begin, finds them. */
            while ((head = pop(&central->left)) != 0)
                span_publish(head, epoch - 1, CLAIM_SWEPT);
            os_lock_release(&central->lock);
        }
}

void central_list_unswept(page_index first, page_index last) {
    const struct page *page = heap_page(first);
    unsigned kind = atomic_load_explicit(&page->kind, memory_order_relaxed);
    struct central *central = &centrals[kind][page->size_class];
    os_lock_acquire(&central->lock);
    heap_page(last)->next = central->unswept;
    central->unswept = first;
    os_lock_release(&central->lock);
}

static void sweep_if_owed(struct mutator *m, unsigned kind, unsigned size_class, void *epoch_at) {
    uint32_t epoch = *(const uint32_t *)epoch_at;
    const struct open_span *span = &m->spans[kind][size_class];
    struct page *page = heap_page(span->index);
    if (claim_is_of(atomic_load_explicit(&page->claim, memory_order_relaxed), epoch))
        return;
    if (fault_is(FAULT_SWEEP_HELD_PAGE)) {
        uint64_t open = atomic_load_explicit(&m->masks[kind][size_class].bits, memory_order_relaxed);
        unsigned slots = span_slots(span->index);
        _Atomic uint32_t *marks = heap_marks(page, slots);
        heap_marks_group_set(marks, slots, span->group, heap_marks_group(marks, slots, span->group) & ~open);
    }
    sweep_own(span->index, epoch);
}

void central_sweep_owned(struct mutator *stopped) {
    uint32_t epoch = heap_epoch();
    mutator_each_span(stopped, sweep_if_owed, &epoch);
}
