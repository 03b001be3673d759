/*
 * gcverify. See verify.h. Simple on purpose: one bit for each 8 bytes of heap says "seen", one says "still in an open
 * mask"; a plain stack of addresses; a division where the marker has magic. Calls heap's arrays, roots' lists of
 * ranges, offheap, os_log; shares no code with marker.c, mark.c or the stack scan of roots.c.
 *
 * Why open masks are left out: their slots are allocated and black, but hold whatever was there before. A stale word
 * that leads to one retains nothing and is not followed, by neither side.
 */
#include "gc/verify.h"

#include <stdlib.h>

#include "gc/cleanup.h"
#include "gc/handle.h"
#include "gc/heap.h"
#include "gc/mutator.h"
#include "gc/offheap.h"
#include "gc/os/os_log.h"
#include "gc/os/os_signal.h"
#include "gc/pagerun.h"
#include "gc/roots.h"
#include "gc/span.h"
#include "gc/type.h"

struct object {
    uintptr_t base; /* 0: the word leads to no object */
    size_t bytes;
    unsigned kind;
    struct page *head;
    unsigned slot;
};

static struct {
    uint64_t *seen;      /* objects reachable in the snapshot, by their first byte */
    uint64_t *open;      /* slots that open masks show */
    uintptr_t *todo;     /* objects seen and not looked into yet */
    size_t count, capacity;
    size_t words;        /* of the two bitmaps */
    const char *root;    /* the kind of root that is being visited */
    uintptr_t wanted;    /* when not 0: look for who leads to this object, instead */
    const char *by_root; /* the answer: a root of this kind */
    uintptr_t by_holder; /* or this object */
    size_t by_offset;
} verify;

static const char *const kind_names[KIND_COUNT] = {"leaf", "words", "typed", "traced", "tiny block"};

static bool bit(const uint64_t *bits, uintptr_t base) {
    size_t i = (base - heap.base) / 8;
    return bits[i / 64] >> i % 64 & 1;
}

static void set_bit(uint64_t *bits, uintptr_t base) {
    size_t i = (base - heap.base) / 8;
    bits[i / 64] |= UINT64_C(1) << i % 64;
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
        uint64_t allocated = atomic_load_explicit(&heap.allocated[index * PAGE_ALLOCATED_WORDS + object.slot / 64],
                                                  memory_order_relaxed);
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

typedef void pointer_function(uintptr_t word, size_t offset, const struct object *holder);

struct trace_context {
    pointer_function *tell;
    const struct object *holder;
};

GC_NO_SANITIZE static void traced_words(void *context, const void *from, size_t words) {
    const struct trace_context *trace = context;
    for (size_t i = 0; i < words; i++)
        trace->tell(((const uintptr_t *)from)[i], (uintptr_t)from + i * sizeof(uintptr_t) - trace->holder->base,
                    trace->holder);
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
    os_line_u64(line, heap_epoch());
    os_line_str(line, ": ");
}

static _Noreturn void end(struct os_line *line) {
    os_line_emit(line, 2);
    abort();
}

static void field_of(struct os_line *line, const struct object *holder, size_t offset) {
    os_line_str(line, "field at offset ");
    os_line_u64(line, offset);
    os_line_str(line, " of ");
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

static void reach(uintptr_t word, size_t offset, const struct object *holder) {
    struct object o = look_up(word);
    if (o.base == 0 || bit(verify.open, o.base))
        return;
    if (verify.wanted != 0) {
        if (o.base == verify.wanted && verify.by_root == NULL && verify.by_holder == 0) {
            verify.by_root = holder == NULL ? verify.root : NULL;
            verify.by_holder = holder == NULL ? 0 : holder->base;
            verify.by_offset = offset;
        }
        return;
    }
    if (bit(verify.seen, o.base))
        return;
    set_bit(verify.seen, o.base);
    push(o.base);
}

/* Roots: a word leads to what contains it and to what ends just before it. */
GC_NO_SANITIZE static void root_words(void *context, const void *from, size_t words) {
    (void)context;
    for (size_t i = 0; i < words; i++) {
        reach(((const uintptr_t *)from)[i], 0, NULL);
        reach(((const uintptr_t *)from)[i] - 1, 0, NULL);
    }
}

static void root_range(uintptr_t from, uintptr_t to, const char *name) {
    from &= ~(uintptr_t)7;
    verify.root = name;
    if (from < to)
        root_words(NULL, (const void *)from, (to - from) / sizeof(uintptr_t));
}

GC_NO_SANITIZE static void thread_roots(const struct mutator *m) {
    uintptr_t sp = m->sp;
    struct os_context at;
    if (m->context == NULL) {
        verify.root = "a saved register";
        root_words(NULL, m->spill, OS_SPILL_WORDS);
    } else {
        os_signal_context(m->context, &at);
        verify.root = "a general register";
        root_words(NULL, at.regs, at.regs_bytes / sizeof(uintptr_t));
        verify.root = "a vector register";
        root_words(NULL, at.xstate, at.xstate_bytes / sizeof(uintptr_t));
        sp = at.sp;
    }
    if (sp >= m->stack_lo && sp <= m->stack_hi) {
        root_range(sp - OS_RED_ZONE, m->stack_hi, "a stack");
        return;
    }
    /* On the alternate stack: it, and the main stack from the lowest address that the alternate one holds. */
    uintptr_t lowest = m->stack_hi;
    for (uintptr_t p = (sp - OS_RED_ZONE) & ~(uintptr_t)7; p + 8 <= at.alt_hi; p += 8) {
        uintptr_t word = p >= at.alt_lo ? *(const uintptr_t *)p : 0;
        if (word >= m->stack_lo && word < lowest)
            lowest = word;
    }
    root_range(sp - OS_RED_ZONE < at.alt_lo ? at.alt_lo : sp - OS_RED_ZONE, at.alt_hi, "an alternate stack");
    root_range(lowest - OS_RED_ZONE < m->stack_lo ? m->stack_lo : lowest - OS_RED_ZONE, m->stack_hi, "a stack");
}

static void all_roots(void) {
    for (const struct mutator *m = mutator_list; m != NULL; m = m->next)
        thread_roots(m);
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

static void note_open_masks(void) {
    for (const struct mutator *m = mutator_list; m != NULL; m = m->next)
        for (unsigned k = 0; k < KIND_COUNT; k++)
            for (unsigned c = 1; c < SIZECLASS_COUNT; c++) {
                uint64_t bits = atomic_load_explicit(&m->masks[k][c].bits, memory_order_relaxed);
                for (; bits != 0; bits &= bits - 1)
                    set_bit(verify.open, (uintptr_t)m->masks[k][c].base +
                                             (size_t)__builtin_ctzll(bits) * sizeclass_table[c].bytes);
            }
}

void verify_snapshot(void) {
    verify.words = atomic_load_explicit(&heap.grown, memory_order_relaxed) / (8 * 64) + 1;
    verify.seen = offheap_zalloc(verify.words * sizeof(uint64_t));
    verify.open = offheap_zalloc(verify.words * sizeof(uint64_t));
    gc_check(verify.seen != NULL && verify.open != NULL, "gcverify ran out of memory");
    verify.count = 0;
    verify.wanted = 0;
    note_open_masks();
    all_roots();
    while (verify.count != 0) {
        struct object o = look_up(verify.todo[--verify.count]);
        each_pointer(&o, reach);
    }
}

/* Who leads to an object of the snapshot; for its report. */
static void find_holder(uintptr_t base) {
    verify.wanted = base;
    verify.by_root = NULL;
    verify.by_holder = 0;
    all_roots();
    for (size_t i = 0; i < verify.words && verify.by_root == NULL && verify.by_holder == 0; i++)
        for (uint64_t bits = verify.seen[i]; bits != 0; bits &= bits - 1) {
            struct object o = look_up(heap.base + (i * 64 + (size_t)__builtin_ctzll(bits)) * 8);
            each_pointer(&o, reach);
        }
}

static void check_snapshot(void) {
    for (size_t i = 0; i < verify.words; i++)
        for (uint64_t bits = verify.seen[i]; bits != 0; bits &= bits - 1) {
            struct object o = look_up(heap.base + (i * 64 + (size_t)__builtin_ctzll(bits)) * 8);
            if (is_marked(&o))
                continue;
            find_holder(o.base);
            struct os_line line;
            begin(&line);
            describe(&line, &o);
            os_line_str(&line, " is reachable but was not marked; ");
            if (verify.by_root != NULL) {
                os_line_str(&line, verify.by_root);
                os_line_str(&line, " leads to it");
            } else {
                struct object holder = look_up(verify.by_holder);
                field_of(&line, &holder, verify.by_offset);
                os_line_str(&line, is_marked(&holder) ? ", which is marked, leads to it"
                                                      : ", which is not marked either, leads to it");
            }
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
    if (!bit(verify.open, o->base))
        each_pointer(o, check_pointer);
}

static void must_be_black(uintptr_t base, const struct mutator *m, const char *what) {
    struct object o = look_up(base);
    if (o.base != 0 && is_marked(&o))
        return;
    struct os_line line;
    begin(&line);
    os_line_str(&line, what);
    os_line_str(&line, " of thread ");
    os_line_i64(&line, m->tid);
    os_line_str(&line, " at ");
    os_line_hex(&line, base);
    os_line_str(&line, o.base == 0 ? " is not allocated" : " was left white");
    os_line_str(&line, ": it would be freed and then handed out");
    end(&line);
}

static void check_threads(void) {
    for (const struct mutator *m = mutator_list; m != NULL; m = m->next) {
        if (m->tiny_base != NULL)
            must_be_black((uintptr_t)m->tiny_base, m, "the open tiny block");
        for (unsigned k = 0; k < KIND_COUNT; k++)
            for (unsigned c = 1; c < SIZECLASS_COUNT; c++) {
                uint64_t bits = atomic_load_explicit(&m->masks[k][c].bits, memory_order_relaxed);
                for (; bits != 0; bits &= bits - 1)
                    must_be_black((uintptr_t)m->masks[k][c].base +
                                      (size_t)__builtin_ctzll(bits) * sizeclass_table[c].bytes,
                                  m, "a slot in an open mask");
            }
    }
}

void verify_marked(void) {
    check_threads();
    check_snapshot();
    each_object(check_object);
    offheap_free(verify.open);
    offheap_free(verify.seen);
    offheap_free(verify.todo);
    verify.open = verify.seen = NULL;
    verify.todo = NULL;
    verify.capacity = 0;
}

static void check_open_allocated(void) {
    for (const struct mutator *m = mutator_list; m != NULL; m = m->next) {
        for (unsigned k = 0; k < KIND_COUNT; k++)
            for (unsigned c = 1; c < SIZECLASS_COUNT; c++) {
                uint64_t bits = atomic_load_explicit(&m->masks[k][c].bits, memory_order_relaxed);
                for (; bits != 0; bits &= bits - 1) {
                    uintptr_t base = (uintptr_t)m->masks[k][c].base +
                                     (size_t)__builtin_ctzll(bits) * sizeclass_table[c].bytes;
                    if (look_up(base).base == base)
                        continue;
                    struct os_line line;
                    begin(&line);
                    os_line_str(&line, "a slot in an open mask of thread ");
                    os_line_i64(&line, m->tid);
                    os_line_str(&line, " at ");
                    os_line_hex(&line, base);
                    os_line_str(&line, " was freed by the sweep: its page was swept as if nobody held it");
                    end(&line);
                }
            }
    }
}

static void check_whole(const struct object *o) {
    if (atomic_load_explicit(&o->head->use, memory_order_relaxed) == PAGE_LARGE)
        check_large(o);
}

void verify_swept(void) {
    check_open_allocated();
    each_object(check_whole);
    size_t pages = atomic_load_explicit(&heap.grown, memory_order_relaxed) / PAGE_BYTES;
    for (size_t i = 1; i < pages; i++)
        if (atomic_load_explicit(&heap.pages[i].use, memory_order_relaxed) == PAGE_SMALL)
            span_check((page_index)i, false);
    pagerun_check();
}
