/*
 * The allocation calls of the public API: checks sizes, picks the kind, writes the type word. Calls alloc.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <tern/tern.h>

#include "gc/account.h"
#include "gc/alloc.h"
#include "gc/heap.h"
#include "gc/offheap.h"
#include "gc/os/os_log.h"
#include "gc/settings.h"
#include "gc/type.h"
#include "runtime/runtime.h"

/* Alignments beyond this would waste more than they serve. */
#define ALIGNMENT_MOST MIB
/* A type's elements: small enough that a bitmap is cheap. */
#define TYPE_BYTES_MOST MIB

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *tern_alloc(size_t size) {
    struct mutator *self = runtime_self();
    return likely(self != NULL) ? alloc_object(self, size, KIND_WORDS) : no_memory();
}

void *tern_alloc_leaf(size_t size) {
    struct mutator *self = runtime_self();
    return likely(self != NULL) ? alloc_leaf(self, size) : no_memory();
}

void *tern_alloc_leaf_single(size_t size) {
    struct mutator *self = runtime_self();
    return likely(self != NULL) ? alloc_object(self, size, KIND_LEAF) : no_memory();
}

/* An impossible size takes the same way as one that memory does not hold: handler, message, errno. */
static size_t product(size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

void *tern_alloc_array(size_t count, size_t size) {
    return tern_alloc(product(count, size));
}

void *tern_alloc_leaf_array(size_t count, size_t size) {
    return tern_alloc_leaf(product(count, size));
}

void *tern_alloc_aligned(size_t alignment, size_t size, bool leaf) {
    struct mutator *self = runtime_self();
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > ALIGNMENT_MOST) {
        errno = EINVAL;
        return NULL;
    }
    return self != NULL ? alloc_aligned(self, alignment, size, leaf ? KIND_LEAF : KIND_WORDS) : no_memory();
}

void *tern_realloc(void *object, size_t size) {
    if (object == NULL)
        return tern_alloc(size);
    struct mutator *self = runtime_self();
    return self != NULL ? alloc_resize(self, object, size) : no_memory();
}

static struct tern_type *new_type(const char *name, size_t words) {
    struct mutator *self = runtime_self();
    if (self == NULL)
        return no_memory();
    size_t bitmap_words = type_bitmap_words(words);
    mutator_enter(self);
    struct tern_type *type = offheap_zalloc(sizeof *type + bitmap_words * sizeof type->bitmap[0]);
    if (type != NULL) {
        type->words = words;
        type->name = offheap_strdup(name);
    }
    mutator_leave(self);
    return type;
}

const tern_type *tern_type_new(const char *name, size_t size, const uint64_t *bitmap) {
    if (size == 0 || size % sizeof(void *) != 0 || size > TYPE_BYTES_MOST || bitmap == NULL) {
        errno = EINVAL;
        return NULL;
    }
    size_t words = size / sizeof(void *);
    struct tern_type *type = new_type(name, words);
    if (type != NULL)
        memcpy(type->bitmap, bitmap, type_bitmap_words(words) * sizeof type->bitmap[0]);
    return type;
}

const tern_type *tern_traced_type_new(const char *name, tern_trace_function *function) {
    if (function == NULL) {
        errno = EINVAL;
        return NULL;
    }
    struct tern_type *type = new_type(name, 0);
    if (type != NULL)
        type->trace = function;
    return type;
}

static void *with_type(size_t size, enum kind kind, const tern_type *type) {
    struct mutator *self = runtime_self();
    if (self == NULL)
        return no_memory();
    size_t with_word =
        size > SIZE_MAX - TYPE_WORD_BYTES ? SIZE_MAX : align_up(size, TYPE_WORD_BYTES) + TYPE_WORD_BYTES;
    if (with_word < size)
        with_word = SIZE_MAX;
    void *object = alloc_object(self, with_word, kind);
    if (object != NULL) {
        struct heap_place place = heap_find((uintptr_t)object);
        *type_word(place.base, place.bytes) = (uintptr_t)type;
    }
    return object;
}

void *tern_alloc_typed(const tern_type *type, size_t count) {
    if (type == NULL || type->trace != NULL) {
        errno = EINVAL;
        return NULL;
    }
    return with_type(product(count, type->words * sizeof(void *)), KIND_TYPED, type);
}

void *tern_alloc_traced(const tern_type *type, size_t size) {
    if (type == NULL || type->trace == NULL) {
        errno = EINVAL;
        return NULL;
    }
    return with_type(size, KIND_TRACED, type);
}

void tern_publish(void *object) {
    struct heap_place place = heap_find((uintptr_t)object);
    if (place.head == NULL || place.base != object ||
        atomic_load_explicit(&place.head->kind, memory_order_relaxed) != KIND_TRACED)
        fatal_misuse("tern_publish of something that is no traced object", (uintptr_t)object,
                     "Pass what tern_alloc_traced returned.");
    _Atomic uintptr_t *word = (_Atomic uintptr_t *)type_word(place.base, place.bytes);
    /* release: whoever sees the bit sees the object as it was built. */
    atomic_fetch_or_explicit(word, TYPE_PUBLISHED, memory_order_release);
}

void tern_trace_word(tern_tracer *tracer, const void *value) {
    tracer->visit(tracer->context, &value, 1);
}

void tern_trace_range(tern_tracer *tracer, const void *from, size_t words) {
    tracer->visit(tracer->context, from, words);
}

/* Out of memory. */

static tern_oom_function *oom_function;
static void *oom_context;
static atomic_bool oom_told;

/* Without a handler of the program's: says it once. Not with malloc or stdio, which may be out of memory too.
 */
static bool tell(size_t size, void *context) {
    (void)context;
    if (oom_function != NULL)
        return oom_function(size, oom_context);
    if (atomic_exchange_explicit(&oom_told, true, memory_order_relaxed))
        return false;
    struct os_line line;
    uint64_t limit = atomic_load_explicit(&settings.memory_limit, memory_order_relaxed);
    os_line_init(&line);
    os_line_str(&line, "tern: out of memory: ");
    os_line_u64(&line, size);
    os_line_str(&line, " bytes asked for; heap ");
    os_line_u64(&line, account_heap());
    os_line_str(&line, " bytes, held in all ");
    os_line_u64(&line, account_total());
    os_line_str(&line, " bytes, limit ");
    if (limit == UINT64_MAX)
        os_line_str(&line, "off");
    else
        os_line_u64(&line, limit);
    os_line_str(&line, "; the call returns NULL (tern_on_out_of_memory sets a handler)");
    os_line_emit(&line, 2);
    return false;
}

tern_oom_function *tern_on_out_of_memory(tern_oom_function *function, void *context) {
    runtime_self();
    tern_oom_function *before = oom_function;
    oom_context = context;
    oom_function = function;
    alloc_on_oom(tell, NULL);
    return before;
}

void runtime_oom_init(void) {
    alloc_on_oom(tell, NULL);
}
