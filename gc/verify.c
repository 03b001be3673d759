/*
 * gcverify. See verify.h. Simple on purpose: one bit for each 8 bytes of heap says "seen", one says "still in
 * an open mask"; a plain stack of addresses; a division where the marker has magic. Owns those three, which
 * stay from cycle to cycle: mapping them anew would cost more than all the checks of a small heap. Calls
 * heap's arrays, roots' lists of ranges, offheap, os_log; shares no code with marker.c, mark.c or the stack
 * scan of roots.c.
 *
 * Why open masks are left out: their slots are allocated and black, but hold whatever was there before. A
 * stale word that leads to one retains nothing and is not followed, by neither side.
 */
#include "gc/verify.h"

#include <stdlib.h>
#include <string.h>

#include "gc/cleanup.h"
#include "gc/handle.h"
#include "gc/heap.h"
#include "gc/mutator.h"
#include "gc/offheap.h"
#include "gc/os/os_log.h"
#include "gc/os/os_signal.h"
#include "gc/pagerun.h"
#include "gc/roots.h"
#include "gc/settings.h"
#include "gc/span.h"
#include "gc/type.h"

/* Entries of the stack that are kept from cycle to cycle: 1 MiB. */
#define TODO_KEPT ((size_t)128 * 1024)

struct object {
    uintptr_t base; /* 0: the word leads to no object */
    size_t bytes;
    unsigned kind;
    struct page *head;
    unsigned slot;
};

/* One bit for each 8 bytes of heap. */
struct bitmap {
    uint64_t *bits;
    size_t words;      /* as of the last clearing */
    size_t words_most; /* that there is room for */
};

static struct {
    uint32_t cycle;  /* its number: the epoch at its start */
    struct bitmap seen; /* objects reachable in the last snapshot, by their first byte */
    struct bitmap open; /* slots that open masks show */
    struct bitmap fresh; /* objects that may not be zeroed yet */
    uintptr_t *todo; /* objects seen and not looked into yet */
    size_t count, capacity;
    const char *root;  /* the kind of root that is being visited */
    pid_t thread;      /* whose root it is, or 0 */
    bool blame;        /* roots are visited again to find the one that the marker missed */
} verify;

static const char *const kind_names[KIND_COUNT] = {"leaf", "words", "typed", "traced", "tiny block"};

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

static struct object look_up(uintptr_t word) {
    struct object none = {0}, object;
    size_t offset = word - heap.base;
    if (offset >= atomic_load_explicit(&heap.grown, memory_order_relaxed))
        return none;
    size_t index = offset / PAGE_BYTES;
    if (atomic_load_explicit(&heap.pages[index].use, memory_order_relaxed) == PAGE_TAIL)
        index -= heap.pages[index].tail.back;
    object.head = &heap.pages[index];
    uintptr_t start = heap.base + index * PAGE_BYTES;
    object.kind = atomic_load_explicit(&object.head->kind, memory_order_relaxed);
    object.slot = 0;
    switch (atomic_load_explicit(&object.head->use, memory_order_relaxed)) {
    case PAGE_LARGE:
        object.base = start;
        object.bytes = object.head->large.pages * PAGE_BYTES;
        return object.head->large.quarantined ? none : object;
    case PAGE_SMALL:
        object.bytes = object.head->slot_bytes;
        object.slot = (unsigned)((word - start) / object.bytes);
        if (object.slot >= atomic_load_explicit(&object.head->slot_count, memory_order_relaxed))
            return none;
        object.base = start + object.slot * object.bytes;
        uint64_t allocated = atomic_load_explicit(
            &heap.allocated[index * PAGE_ALLOCATED_WORDS + object.slot / 64], memory_order_relaxed);
        return allocated >> object.slot % 64 & 1 ? object : none;
    default:
        return none;
    }
}

static bool is_marked(const struct object *o) {
    if (atomic_load_explicit(&o->head->use, memory_order_relaxed) == PAGE_LARGE)
        return atomic_load_explicit(&o->head->large.marked, memory_order_relaxed) != 0;
    unsigned slots = atomic_load_explicit(&o->head->slot_count, memory_order_relaxed);
    const _Atomic uint32_t *marks = o->head->marks;
    if (slots > PAGE_MARKS_INLINE)
        marks = heap.marks_ext + (size_t)(o->head - heap.pages) * PAGE_MARK_EXT_WORDS;
    return atomic_load_explicit(&marks[o->slot / 32], memory_order_relaxed) >> o->slot % 32 & 1;
}

/* The pointers of an object, told one by one with their offset. */

#define OFFSET_UNKNOWN SIZE_MAX /* a trace function told of a word that does not lie in the object */

typedef void pointer_function(uintptr_t word, size_t offset, const struct object *holder);

struct trace_context {
    pointer_function *tell;
    const struct object *holder;
};

GC_NO_SANITIZE static void traced_words(void *context, const void *from, size_t words) {
    const struct trace_context *trace = context;
    const uintptr_t *word = from;
    for (size_t i = 0; i < words; i++) {
        size_t offset = (uintptr_t)&word[i] - trace->holder->base;
        trace->tell(word[i], offset < trace->holder->bytes ? offset : OFFSET_UNKNOWN, trace->holder);
    }
}

GC_NO_SANITIZE static void each_pointer(const struct object *o, pointer_function *tell) {
    const uintptr_t *words = (const uintptr_t *)o->base;
    size_t count = o->bytes / sizeof(uintptr_t);
    const struct tern_type *type = NULL;
    if (o->kind == KIND_LEAF || o->kind == KIND_TINY)
        return;
    if (o->kind == KIND_TYPED || o->kind == KIND_TRACED) {
        uintptr_t word = words[--count];
        type = (const struct tern_type *)(word & ~TYPE_PUBLISHED);
        if (type != NULL && type->trace != NULL) {
            if (word & TYPE_PUBLISHED) {
                struct trace_context context = {tell, o};
                struct tern_tracer tracer = {traced_words, &context};
                type->trace((const void *)o->base, count * sizeof(uintptr_t), &tracer);
                return;
            }
            type = NULL;
        }
    }
    for (size_t i = 0; i < count; i++) {
        size_t field = type != NULL ? i % type->words : 0;
        if (type == NULL || (type->bitmap[field / 64] >> field % 64 & 1))
            tell(words[i], i * sizeof(uintptr_t), o);
    }
}

/* Reports. */

static void describe(struct os_line *line, const struct object *o) {
    os_line_str(line, "object ");
    os_line_hex(line, o->base);
    os_line_str(line, " (kind ");
    os_line_str(line, kind_names[o->kind]);
    if (o->kind == KIND_TYPED || o->kind == KIND_TRACED) {
        uintptr_t word = *(const uintptr_t *)(o->base + o->bytes - sizeof(uintptr_t));
        const struct tern_type *type = (const struct tern_type *)(word & ~TYPE_PUBLISHED);
        if (type != NULL && type->name != NULL) {
            os_line_str(line, " ");
            os_line_str(line, type->name);
        }
    }
    os_line_str(line, ", ");
    os_line_u64(line, o->bytes);
    os_line_str(line, " bytes)");
}

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

static void field_of(struct os_line *line, const struct object *holder, size_t offset) {
    if (offset == OFFSET_UNKNOWN) {
        os_line_str(line, "a word told by the trace function of ");
    } else {
        os_line_str(line, "the field at offset ");
        os_line_u64(line, offset);
        os_line_str(line, " of ");
    }
    describe(line, holder);
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
static _Noreturn void blame_root(const struct object *o, uintptr_t at) {
    struct os_line line;
    begin(&line);
    describe(&line, o);
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

static void reach(uintptr_t word, size_t offset, const struct object *holder) {
    (void)offset, (void)holder;
    struct object o = look_up(word);
    if (o.base == 0 || bit(&verify.open, o.base) || bit(&verify.seen, o.base))
        return;
    set_bit(&verify.seen, o.base);
    push(o.base);
}

static void reach_root(uintptr_t word, uintptr_t at) {
    if (!verify.blame) {
        reach(word, at, NULL);
        return;
    }
    struct object o = look_up(word);
    if (o.base != 0 && bit(&verify.seen, o.base) && !is_marked(&o))
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
    root_range(below(lowest, m->stack_lo), m->stack_hi, "a stack");
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
    if (sp >= m->stack_lo && sp <= m->stack_hi)
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
    struct object o = look_up(slot);
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
            if (look_up(base).base == base)
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
    set_bit(&verify.fresh, (uintptr_t)m->masks[kind][size_class].base + last * sizeclass_table[size_class].bytes);
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
    verify.count = 0;
    verify.blame = false;
    each_open_slot(note_open_slot);
    note_fresh();
    all_roots();
    while (verify.count != 0) {
        struct object o = look_up(verify.todo[--verify.count]);
        if (!bit(&verify.fresh, o.base))
            each_pointer(&o, reach);
    }
}

void verify_forget(void) {
    offheap_free(verify.seen.bits);
    offheap_free(verify.open.bits);
    offheap_free(verify.fresh.bits);
    offheap_free(verify.todo);
    memset(&verify, 0, sizeof verify);
}

/* Objects that marked ones lead to were looked at before this: what is missing is missing from a root on. */
static void check_snapshot(void) {
    for (size_t i = 0; i < verify.seen.words; i++)
        for (uint64_t bits = verify.seen.bits[i]; bits != 0; bits &= bits - 1) {
            struct object o = look_up(heap.base + (i * 64 + (size_t)__builtin_ctzll(bits)) * 8);
            if (is_marked(&o))
                continue;
            verify.blame = true;
            all_roots();
            struct os_line line;
            begin(&line);
            describe(&line, &o);
            os_line_str(&line, " is reachable but was not marked");
            end(&line);
        }
}

static void check_pointer(uintptr_t word, size_t offset, const struct object *holder) {
    struct object o = look_up(word);
    if (o.base == 0 || is_marked(&o))
        return;
    struct os_line line;
    begin(&line);
    field_of(&line, holder, offset);
    os_line_str(&line, ", which is marked, leads to ");
    describe(&line, &o);
    os_line_str(&line, ", which is not");
    end(&line);
}

static void check_large(const struct object *o) {
    size_t first = (size_t)(o->head - heap.pages);
    for (size_t i = 1; i < o->head->large.pages; i++) {
        const struct page *tail = &heap.pages[first + i];
        if (atomic_load_explicit(&tail->use, memory_order_relaxed) == PAGE_TAIL && tail->tail.back == i)
            continue;
        struct os_line line;
        begin(&line);
        describe(&line, o);
        os_line_str(&line, " has lost its page ");
        os_line_u64(&line, i);
        os_line_str(&line, ": a tail page was freed while the object lives");
        end(&line);
    }
}

/* Calls visit for every allocated object. */
static void each_object(void (*visit)(const struct object *o)) {
    size_t pages = atomic_load_explicit(&heap.grown, memory_order_relaxed) / PAGE_BYTES;
    for (size_t i = 1; i < pages; i++) {
        unsigned use = atomic_load_explicit(&heap.pages[i].use, memory_order_relaxed);
        if (use != PAGE_SMALL && use != PAGE_LARGE)
            continue;
        unsigned slots =
            use == PAGE_LARGE ? 1 : atomic_load_explicit(&heap.pages[i].slot_count, memory_order_relaxed);
        for (unsigned slot = 0; slot < slots; slot++) {
            struct object o = look_up(heap.base + i * PAGE_BYTES + (size_t)slot * heap.pages[i].slot_bytes);
            if (o.base != 0)
                visit(&o);
        }
    }
}

static void check_object(const struct object *o) {
    if (!is_marked(o))
        return;
    if (atomic_load_explicit(&o->head->use, memory_order_relaxed) == PAGE_LARGE)
        check_large(o);
    if (!bit(&verify.open, o->base) && !bit(&verify.fresh, o->base))
        each_pointer(o, check_pointer);
}

static void must_be_black(uintptr_t slot, const struct mutator *m, const char *what) {
    struct object o = look_up(slot);
    if (o.base != slot)
        bad_slot(slot, m, what, " is not allocated: it would be handed out twice");
    if (!is_marked(&o))
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
    each_object(check_object);
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
    if (look_up(slot).base != slot)
        bad_slot(slot, m, open_slot, " was freed by the sweep: its page was swept as if nobody held it");
}

/*
 * A large object's sweep is over, so the next snapshot need not look for it; and an allocation whose memory
 * the kernel refuses in the end takes it back.
 */
static void check_whole(const struct object *o) {
    if (atomic_load_explicit(&o->head->use, memory_order_relaxed) != PAGE_LARGE)
        return;
    check_large(o);
    clear_bit(&verify.seen, o->base);
}

void verify_swept(void) {
    each_open_slot(open_slot_is_there);
    check_survivors();
    each_object(check_whole);
    size_t pages = atomic_load_explicit(&heap.grown, memory_order_relaxed) / PAGE_BYTES;
    for (size_t i = 1; i < pages; i++)
        if (atomic_load_explicit(&heap.pages[i].use, memory_order_relaxed) == PAGE_SMALL)
            span_check((page_index)i, false);
    pagerun_check();
}
