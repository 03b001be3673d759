/* See verify_look.h. Calls heap's arrays and os_log. Simple on purpose: a division where the marker has magic. */
#include "gc/verify_look.h"

#include "gc/heap.h"
#include "gc/sizeclass.h"
#include "gc/type.h"

static const char *const kind_names[KIND_COUNT] = {"leaf", "words", "typed", "traced", "tiny block"};

struct verify_object verify_look_up(uintptr_t word) {
    struct verify_object none = {0}, object;
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

bool verify_is_marked(const struct verify_object *o) {
    if (atomic_load_explicit(&o->head->use, memory_order_relaxed) == PAGE_LARGE)
        return atomic_load_explicit(&o->head->large.marked, memory_order_relaxed) != 0;
    unsigned slots = atomic_load_explicit(&o->head->slot_count, memory_order_relaxed);
    const _Atomic uint32_t *marks = o->head->marks;
    if (slots > PAGE_MARKS_INLINE)
        marks = heap.marks_ext + (size_t)(o->head - heap.pages) * PAGE_MARK_EXT_WORDS;
    return atomic_load_explicit(&marks[o->slot / 32], memory_order_relaxed) >> o->slot % 32 & 1;
}

struct trace_context {
    verify_pointer_function *tell;
    const struct verify_object *holder;
};

GC_NO_SANITIZE static void traced_words(void *context, const void *from, size_t words) {
    const struct trace_context *trace = context;
    const uintptr_t *word = from;
    for (size_t i = 0; i < words; i++) {
        size_t offset = (uintptr_t)&word[i] - trace->holder->base;
        trace->tell(word[i], offset < trace->holder->bytes ? offset : VERIFY_OFFSET_UNKNOWN, trace->holder);
    }
}

GC_NO_SANITIZE void verify_each_pointer(const struct verify_object *o, verify_pointer_function *tell) {
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

void verify_describe(struct os_line *line, const struct verify_object *o) {
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

void verify_describe_field(struct os_line *line, const struct verify_object *holder, size_t offset) {
    if (offset == VERIFY_OFFSET_UNKNOWN) {
        os_line_str(line, "a word told by the trace function of ");
    } else {
        os_line_str(line, "the field at offset ");
        os_line_u64(line, offset);
        os_line_str(line, " of ");
    }
    verify_describe(line, holder);
}

void verify_each_object(void (*visit)(const struct verify_object *o)) {
    size_t pages = atomic_load_explicit(&heap.grown, memory_order_relaxed) / PAGE_BYTES;
    for (size_t i = 1; i < pages; i++) {
        unsigned use = atomic_load_explicit(&heap.pages[i].use, memory_order_relaxed);
        if (use != PAGE_SMALL && use != PAGE_LARGE)
            continue;
        unsigned slots =
            use == PAGE_LARGE ? 1 : atomic_load_explicit(&heap.pages[i].slot_count, memory_order_relaxed);
        for (unsigned slot = 0; slot < slots; slot++) {
            struct verify_object o =
                verify_look_up(heap.base + i * PAGE_BYTES + (size_t)slot * heap.pages[i].slot_bytes);
            if (o.base != 0)
                visit(&o);
        }
    }
}
