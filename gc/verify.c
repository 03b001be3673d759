/*
 * gcverify. See verify.h. Simple on purpose: one bit for each 8 bytes of heap says "seen", one says "still in
 * an open mask"; a plain stack of addresses. Owns those three, which
 * stay from cycle to cycle: mapping them anew would cost more than all the checks of a small heap. Calls
 * verify_look, verify_origin, heap's arrays, roots' lists of ranges, offheap, os_log; shares no code with marker.c,
 * mark.c or the stack scan of roots.c.
 *
 * Why open masks are left out: their slots are allocated and black, but hold whatever was there before. A
 * stale word that leads to one retains nothing and is not followed, by neither side.
 */
#include "gc/verify.h"

#include <stdlib.h>
#include <string.h>

#include "gc/cleanup.h"
#include "gc/fiber.h"
#include "gc/handle.h"
#include "gc/heap.h"
#include "gc/mutator.h"
#include "gc/offheap.h"
#include "gc/os/os_log.h"
#include "gc/os/os_signal.h"
#include "gc/os/os_thread.h"
#include "gc/pagerun.h"
#include "gc/roots.h"
#include "gc/settings.h"
#include "gc/span.h"
#include "gc/verify_look.h"
#include "gc/verify_origin.h"

/* Entries of the stack that are kept from cycle to cycle: 1 MiB. */
#define TODO_KEPT ((size_t)128 * 1024)

/* One bit for each 8 bytes of heap. */
struct bitmap {
    uint64_t *bits;
    size_t words;      /* as of the last clearing */
    size_t words_most; /* that there is room for */
};

static struct {
    uint32_t cycle;      /* its number: the epoch at its start */
    struct bitmap seen;  /* objects reachable in the last snapshot, by their first byte */
    struct bitmap open;  /* slots that open masks show */
    struct bitmap fresh; /* objects that may not be zeroed yet */
    uintptr_t *todo;     /* objects seen and not looked into yet */
    size_t count, capacity;
    const char *root; /* the kind of root that is being visited */
    pid_t thread;     /* whose root it is, or 0 */
    bool blame;       /* roots are visited again to find the one that the marker missed */
} verify;

/* Where the heap has grown since the map was cleared, nothing is set. */
static bool bit(const struct bitmap *map, uintptr_t base) {
    size_t i = (base - heap.base) / 8;
    return i / 64 < map->words && (map->bits[i / 64] >> i % 64 & 1);
}

static void set_bit(struct bitmap *map, uintptr_t base) {
    size_t i = (base - heap.base) / 8;
    map->bits[i / 64] |= UINT64_C(1) << i % 64;
}

static void clear_bit(struct bitmap *map, uintptr_t base) {
    size_t i = (base - heap.base) / 8;
    if (i / 64 < map->words)
        map->bits[i / 64] &= ~(UINT64_C(1) << i % 64);
}

/* Empties the map, with room for the heap as it is now. */
static void clear_map(struct bitmap *map) {
    size_t words = atomic_load_explicit(&heap.grown, memory_order_relaxed) / (8 * 64) + 1;
    if (words > map->words_most) {
        offheap_free(map->bits);
        map->bits = offheap_alloc(words * sizeof(uint64_t));
        gc_check(map->bits != NULL, "gcverify ran out of memory");
        map->words_most = words;
    }
    memset(map->bits, 0, words * sizeof(uint64_t));
    map->words = words;
}

/* Reports. */

static void begin(struct os_line *line) {
    os_line_init(line);
    os_line_str(line, "tern: gcverify: cycle ");
    os_line_u64(line, verify.cycle);
    os_line_str(line, ": ");
}

static _Noreturn void end(struct os_line *line) {
    os_line_emit(line, 2);
    abort();
}

/* Following. */

static void push(uintptr_t base) {
    if (verify.count == verify.capacity) {
        verify.capacity = verify.capacity == 0 ? 4096 : verify.capacity * 2;
        verify.todo = offheap_realloc(verify.todo, verify.capacity * sizeof *verify.todo);
        gc_check(verify.todo != NULL, "gcverify ran out of memory");
    }
    verify.todo[verify.count++] = base;
}

/* A root that leads to an object that was not marked ends the program when blame is on. */
static _Noreturn void blame_root(const struct verify_object *o, uintptr_t at) {
    struct os_line line;
    begin(&line);
    verify_describe(&line, o);
    os_line_str(&line, " is reachable but was not marked; ");
    os_line_str(&line, verify.root);
    if (verify.thread != 0) {
        os_line_str(&line, " of thread ");
        os_line_i64(&line, verify.thread);
    }
    os_line_str(&line, ", saved at ");
    os_line_hex(&line, at);
    os_line_str(&line, ", leads to it");
    end(&line);
}

/* The last word of an object, which is its type's, stands for what its trace function told from elsewhere. */
static void note_origin(uintptr_t object, size_t offset, const struct verify_object *holder) {
    if (holder == NULL)
        verify_origin_note_root(object, verify.root);
    else if (offset == VERIFY_OFFSET_UNKNOWN)
        verify_origin_note_field(object, holder->base + holder->bytes - sizeof(uintptr_t));
    else
        verify_origin_note_field(object, holder->base + offset);
}

static void reach(uintptr_t word, size_t offset, const struct verify_object *holder) {
    struct verify_object o = verify_look_up(word);
    if (o.base == 0 || bit(&verify.open, o.base) || bit(&verify.seen, o.base))
        return;
    set_bit(&verify.seen, o.base);
    push(o.base);
    if (settings.concurrent)
        note_origin(o.base, offset, holder);
}

static void reach_root(uintptr_t word, uintptr_t at) {
    if (!verify.blame) {
        reach(word, at, NULL);
        return;
    }
    struct verify_object o = verify_look_up(word);
    if (o.base != 0 && bit(&verify.seen, o.base) && !verify_is_marked(&o))
        blame_root(&o, at);
}

/* Roots: a word leads to what contains it and to what ends just before it. */
GC_NO_SANITIZE static void root_words(void *context, const void *from, size_t words) {
    (void)context;
    const uintptr_t *word = from;
    for (size_t i = 0; i < words; i++) {
        reach_root(word[i], (uintptr_t)&word[i]);
        reach_root(word[i] - 1, (uintptr_t)&word[i]);
    }
}

static void root_range(uintptr_t from, uintptr_t to, const char *name) {
    from &= ~(uintptr_t)7;
    verify.root = name;
    if (from < to)
        root_words(NULL, (const void *)from, (to - from) / sizeof(uintptr_t));
}

static uintptr_t below(uintptr_t sp, uintptr_t lo) {
    return sp - lo > OS_RED_ZONE ? sp - OS_RED_ZONE : lo;
}

/* Of a thread that runs on another. */
static void main_stack_whole(const struct mutator *m) {
    root_range(os_thread_stack_floor(m->stack_lo, m->stack_hi), m->stack_hi, "a stack, not the current one,");
}

/* On the alternate stack: it, and the main stack from the lowest address that the alternate one holds. */
GC_NO_SANITIZE static void two_stacks(const struct mutator *m, const struct os_context *at) {
    gc_check(at->on_alt, "gcverify: a thread's stack pointer is on no stack of its own");
    uintptr_t from = below(at->sp, at->alt_lo) & ~(uintptr_t)7, lowest = m->stack_hi;
    for (uintptr_t p = from; p + sizeof(uintptr_t) <= at->alt_hi; p += sizeof(uintptr_t)) {
        uintptr_t word = *(const uintptr_t *)p;
        if (word >= m->stack_lo && word < lowest)
            lowest = word;
    }
    root_range(from, at->alt_hi, "an alternate stack");
    size_t fibers;
    fiber_list(&fibers);
    if (fibers != 0)
        main_stack_whole(m); /* what was interrupted may have been a fiber */
    else
        root_range(below(lowest, m->stack_lo), m->stack_hi, "a stack");
}

/* Whether `sp` is on the stack of fiber i of a list that is sorted. At its very end, too, if no other begins there. */
static bool is_on(uintptr_t sp, struct fiber *const *list, size_t count, size_t i) {
    bool shared = i + 1 < count && list[i + 1]->lo == list[i]->hi;
    return sp >= list[i]->lo && (sp < list[i]->hi || (sp == list[i]->hi && !shared));
}

static const struct fiber *fiber_under(uintptr_t sp) {
    size_t count;
    struct fiber *const *list = fiber_list(&count);
    for (size_t i = 0; i < count; i++)
        if (is_on(sp, list, count, i))
            return list[i];
    return NULL;
}

static uintptr_t stopped_sp(const struct mutator *m) {
    struct os_context at;
    if (m->context == NULL)
        return m->sp;
    os_signal_context(m->context, &at);
    return at.sp;
}

static void parked_fibers(void) {
    size_t count;
    struct fiber *const *list = fiber_list(&count);
    for (size_t i = 0; i < count; i++) {
        bool runs = false;
        for (const struct mutator *m = mutator_list; m != NULL && !runs; m = m->next)
            runs = m->sp != m->stack_hi && is_on(stopped_sp(m), list, count, i);
        if (!runs)
            root_range(list[i]->lo, list[i]->hi, "a parked fiber's stack");
    }
}

static void thread_roots(const struct mutator *m) {
    uintptr_t sp = m->sp, lowest = sp;
    struct os_context at = {0};
    if (sp == m->stack_hi)
        return; /* It ended without a word, and its stack may be gone. */
    if (m->context == NULL) {
        verify.root = "a saved register";
        root_words(NULL, m->spill, OS_SPILL_WORDS);
        verify.root = "a frame of a blocking section";
        root_words(NULL, m->frames, m->frame_words);
    } else {
        os_signal_context(m->context, &at);
        verify.root = "a general register";
        root_words(NULL, at.regs, at.regs_bytes / sizeof(uintptr_t));
        verify.root = "a vector register";
        root_words(NULL, at.xstate, at.xstate_bytes / sizeof(uintptr_t));
        sp = at.sp;
        lowest = below(sp, m->stack_lo);
    }
    const struct fiber *fiber = fiber_under(sp);
    if (fiber != NULL) {
        /* Below one that stopped by itself the collector's own frames may lie, which change. */
        root_range(m->context == NULL ? sp : fiber->lo, fiber->hi, "a fiber's stack");
        main_stack_whole(m);
    } else if (sp >= m->stack_lo && sp <= m->stack_hi)
        root_range(lowest, m->stack_hi, "a stack");
    else
        two_stacks(m, &at);
}

static void all_roots(void) {
    for (const struct mutator *m = mutator_list; m != NULL; m = m->next) {
        verify.thread = m->tid;
        thread_roots(m);
    }
    verify.thread = 0;
    parked_fibers();
    size_t count;
    const struct os_range *ranges = roots_registered(&count);
    for (size_t i = 0; i < count; i++)
        root_range(align_up(ranges[i].lo, sizeof(void *)), align_down(ranges[i].hi, sizeof(void *)),
                   "a registered root");
    ranges = roots_segments(&count);
    for (size_t i = 0; i < count; i++)
        root_range(ranges[i].lo, ranges[i].hi, "a data segment");
    verify.root = "a handle";
    handle_each_root(root_words, NULL);
    verify.root = "a cleanup's argument";
    cleanup_each_root(root_words, NULL);
}

/* Calls visit for every slot that an open mask shows. */
static void each_open_slot(void (*visit)(uintptr_t slot, const struct mutator *m, unsigned kind)) {
    for (const struct mutator *m = mutator_list; m != NULL; m = m->next)
        for (unsigned k = 0; k < KIND_COUNT; k++)
            for (unsigned c = 1; c < SIZECLASS_COUNT; c++) {
                const struct open_mask *mask = &m->masks[k][c];
                uint64_t bits = atomic_load_explicit(&mask->bits, memory_order_relaxed);
                for (; bits != 0; bits &= bits - 1)
                    visit((uintptr_t)mask->base + (size_t)__builtin_ctzll(bits) * sizeclass_table[c].bytes, m,
                          k);
            }
}

static _Noreturn void bad_slot(uintptr_t slot, const struct mutator *m, const char *what, const char *wrong) {
    struct os_line line;
    begin(&line);
    os_line_str(&line, what);
    os_line_str(&line, " of thread ");
    os_line_i64(&line, m->tid);
    os_line_str(&line, " at ");
    os_line_hex(&line, slot);
    os_line_str(&line, wrong);
    end(&line);
}

static const char open_slot[] = "a slot in an open mask";

static void note_open_slot(uintptr_t slot, const struct mutator *m, unsigned kind) {
    struct verify_object o = verify_look_up(slot);
    if (o.base != slot || o.kind != kind)
        bad_slot(slot, m, open_slot, " is no allocated slot of the mask's kind: two objects would overlap");
    if (bit(&verify.open, slot))
        bad_slot(slot, m, open_slot, " is in another open mask too: it would be handed out twice");
    set_bit(&verify.open, slot);
}

/* What was seen in the last snapshot is still allocated. */
static void check_survivors(void) {
    for (size_t i = 0; i < verify.seen.words; i++)
        for (uint64_t bits = verify.seen.bits[i]; bits != 0; bits &= bits - 1) {
            uintptr_t base = heap.base + (i * 64 + (size_t)__builtin_ctzll(bits)) * 8;
            if (verify_look_up(base).base == base)
                continue;
            struct os_line line;
            begin(&line);
            os_line_str(&line, "the object at ");
            os_line_hex(&line, base);
            os_line_str(&line, " was reachable when it was last looked for, and was freed by the sweep");
            end(&line);
        }
}

/*
 * The slot that a mask gave last, when the signal found its owner running: it may not be zeroed yet, and what was in
 * it before leads anywhere. A thread that stopped in a call of its own has zeroed what it has.
 */
static void note_last_slot(struct mutator *m, unsigned kind, unsigned size_class, void *unused) {
    (void)unused;
    const struct open_span *span = &m->spans[kind][size_class];
    uint64_t given =
        span->shown & ~atomic_load_explicit(&m->masks[kind][size_class].bits, memory_order_relaxed);
    if (given == 0 || m->context == NULL)
        return;
    unsigned last = 63u - (unsigned)__builtin_clzll(given);
    set_bit(&verify.fresh,
            (uintptr_t)m->masks[kind][size_class].base + last * sizeclass_table[size_class].bytes);
}

/* Where marking stops the world for all of it the marker sees the same old words, and follows them too. */
static void note_fresh(void) {
    clear_map(&verify.fresh);
    if (settings.concurrent)
        for (struct mutator *m = mutator_list; m != NULL; m = m->next)
            mutator_each_span(m, note_last_slot, NULL);
}

void verify_snapshot(void) {
    verify.cycle = heap_epoch();
    check_survivors();
    clear_map(&verify.seen);
    clear_map(&verify.open);
    if (settings.concurrent)
        verify_origin_begin();
    verify.count = 0;
    verify.blame = false;
    each_open_slot(note_open_slot);
    note_fresh();
    all_roots();
    while (verify.count != 0) {
        struct verify_object o = verify_look_up(verify.todo[--verify.count]);
        if (!bit(&verify.fresh, o.base))
            verify_each_pointer(&o, reach);
    }
}

void verify_forget(void) {
    offheap_free(verify.seen.bits);
    offheap_free(verify.open.bits);
    offheap_free(verify.fresh.bits);
    offheap_free(verify.todo);
    verify_origin_forget();
    memset(&verify, 0, sizeof verify);
}

/* What the origin's field lies in; base 0 when that is not known. */
static struct verify_object holder_of(const struct verify_origin *origin) {
    return origin->field != 0 ? verify_look_up(origin->field) : (struct verify_object){0};
}

/* A marked object, or none, led to this one when the cycle began; and by way of it the marker would have found `o`. */
static struct verify_object first_missing(struct verify_object o) {
    for (;;) {
        struct verify_origin origin = verify_origin_of(o.base);
        struct verify_object holder = holder_of(&origin);
        if (holder.base == 0 || verify_is_marked(&holder))
            return o;
        o = holder;
    }
}

/* Where marking runs beside the program: how the object was found when the cycle began. */
static void tell_origin(struct os_line *line, const struct verify_object *o) {
    struct verify_origin origin = verify_origin_of(o->base);
    struct verify_object holder = holder_of(&origin);
    if (holder.base == 0 && origin.root == NULL)
        return;
    os_line_str(line, "; ");
    if (holder.base == 0) {
        os_line_str(line, origin.root);
        os_line_str(line, " led to it when the cycle began");
        return;
    }
    size_t offset = origin.field - holder.base;
    bool told = offset == holder.bytes - sizeof(uintptr_t) &&
                (holder.kind == KIND_TYPED || holder.kind == KIND_TRACED);
    bool still = !told && verify_look_up(*(const uintptr_t *)origin.field).base == o->base;
    verify_describe_field(line, &holder, told ? VERIFY_OFFSET_UNKNOWN : offset);
    os_line_str(line, " led to it when the cycle began");
    if (still)
        os_line_str(line, " and still does");
    else if (!told)
        os_line_str(line, " and holds something else now: a store that missed the barrier");
}

static _Noreturn void missed(const struct verify_object *o) {
    struct os_line line;
    begin(&line);
    verify_describe(&line, o);
    os_line_str(&line, " is reachable but was not marked");
    if (settings.concurrent)
        tell_origin(&line, o);
    end(&line);
}

/* Objects that marked ones lead to were looked at before this: what is missing is missing from a root on, or was. */
static void check_snapshot(void) {
    for (size_t i = 0; i < verify.seen.words; i++)
        for (uint64_t bits = verify.seen.bits[i]; bits != 0; bits &= bits - 1) {
            struct verify_object o = verify_look_up(heap.base + (i * 64 + (size_t)__builtin_ctzll(bits)) * 8);
            if (verify_is_marked(&o))
                continue;
            verify.blame = true;
            all_roots();
            if (settings.concurrent)
                o = first_missing(o);
            missed(&o);
        }
}

static void check_pointer(uintptr_t word, size_t offset, const struct verify_object *holder) {
    struct verify_object o = verify_look_up(word);
    if (o.base == 0 || verify_is_marked(&o))
        return;
    bool was_there = bit(&verify.seen, o.base);
    if (settings.concurrent && was_there) {
        struct verify_object first = first_missing(o);
        if (first.base != o.base)
            missed(&first);
    }
    struct os_line line;
    begin(&line);
    verify_describe_field(&line, holder, offset);
    os_line_str(&line, ", which is marked, leads to ");
    verify_describe(&line, &o);
    os_line_str(&line, ", which is not");
    if (settings.concurrent && was_there)
        tell_origin(&line, &o);
    else if (settings.concurrent)
        os_line_str(&line, "; nothing led to it when the cycle began");
    end(&line);
}

static void check_large(const struct verify_object *o) {
    size_t first = (size_t)(o->head - heap.pages);
    for (size_t i = 1; i < o->head->large.pages; i++) {
        const struct page *tail = &heap.pages[first + i];
        if (atomic_load_explicit(&tail->use, memory_order_relaxed) == PAGE_TAIL && tail->tail.back == i)
            continue;
        struct os_line line;
        begin(&line);
        verify_describe(&line, o);
        os_line_str(&line, " has lost its page ");
        os_line_u64(&line, i);
        os_line_str(&line, ": a tail page was freed while the object lives");
        end(&line);
    }
}

static void check_object(const struct verify_object *o) {
    if (!verify_is_marked(o))
        return;
    if (atomic_load_explicit(&o->head->use, memory_order_relaxed) == PAGE_LARGE)
        check_large(o);
    if (!bit(&verify.open, o->base) && !bit(&verify.fresh, o->base))
        verify_each_pointer(o, check_pointer);
}

static void must_be_black(uintptr_t slot, const struct mutator *m, const char *what) {
    struct verify_object o = verify_look_up(slot);
    if (o.base != slot)
        bad_slot(slot, m, what, " is not allocated: it would be handed out twice");
    if (!verify_is_marked(&o))
        bad_slot(slot, m, what, " was left white: it would be freed and then handed out");
}

static void open_slot_is_black(uintptr_t slot, const struct mutator *m, unsigned kind) {
    (void)kind;
    must_be_black(slot, m, open_slot);
}

static void check_owned(const struct mutator *m) {
    for (unsigned k = 0; k < KIND_COUNT; k++)
        for (unsigned c = 1; c < SIZECLASS_COUNT; c++) {
            page_index index = m->spans[k][c].index;
            if (index == 0)
                continue;
            uint32_t claim = atomic_load_explicit(&heap.pages[index].claim, memory_order_relaxed);
            if (claim_state_of(claim) != CLAIM_OWNED)
                bad_slot(heap.base + index * PAGE_BYTES, m, "the span", " is not claimed by anybody");
        }
}

void verify_taken_back(uintptr_t base) {
    if (settings.verify)
        clear_bit(&verify.seen, base);
}

void verify_marked(void) {
    /* Threads have used masks up and taken others since the snapshot. */
    clear_map(&verify.open);
    each_open_slot(note_open_slot);
    note_fresh();
    for (const struct mutator *m = mutator_list; m != NULL; m = m->next) {
        check_owned(m);
        if (m->tiny_base != NULL)
            must_be_black((uintptr_t)m->tiny_base, m, "the open tiny block");
    }
    each_open_slot(open_slot_is_black);
    verify_each_object(check_object);
    check_snapshot();
    /* A heap with wide objects makes the stack large; what most cycles need stays. */
    if (verify.capacity > TODO_KEPT) {
        offheap_free(verify.todo);
        verify.todo = NULL;
        verify.capacity = 0;
    }
}

static void open_slot_is_there(uintptr_t slot, const struct mutator *m, unsigned kind) {
    (void)kind;
    if (verify_look_up(slot).base != slot)
        bad_slot(slot, m, open_slot, " was freed by the sweep: its page was swept as if nobody held it");
}

/*
 * A large object's sweep is over, so the next snapshot need not look for it; and an allocation whose memory
 * the kernel refuses in the end takes it back.
 */
static void check_whole(const struct verify_object *o) {
    if (atomic_load_explicit(&o->head->use, memory_order_relaxed) != PAGE_LARGE)
        return;
    check_large(o);
    clear_bit(&verify.seen, o->base);
}

void verify_swept(void) {
    each_open_slot(open_slot_is_there);
    check_survivors();
    verify_each_object(check_whole);
    size_t pages = atomic_load_explicit(&heap.grown, memory_order_relaxed) / PAGE_BYTES;
    for (size_t i = 1; i < pages; i++)
        if (atomic_load_explicit(&heap.pages[i].use, memory_order_relaxed) == PAGE_SMALL)
            span_check((page_index)i, false);
    pagerun_check();
}
