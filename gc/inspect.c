/* See inspect.h. Calls heap, span and reads type words. */
#include "gc/inspect.h"

#include "gc/heap.h"
#include "gc/span.h"
#include "gc/type.h"

static void describe(char *base, size_t bytes, enum kind kind, struct inspect_object *out) {
    *out = (struct inspect_object){base, bytes, kind, NULL};
    if (kind == KIND_TYPED || kind == KIND_TRACED) {
        const struct tern_type *type = type_of_word(*type_word(base, bytes));
        out->size = bytes - TYPE_WORD_BYTES;
        out->type_name = type != NULL ? type->name : NULL;
    }
}

/* Whether an open mask still shows the slot: then it is not an object yet. The owner may be taking it: racy.
 */
static uint64_t shown_in_masks(page_index head, unsigned group) {
    const struct page *page = heap_page(head);
    unsigned kind = atomic_load_explicit(&page->kind, memory_order_relaxed);
    for (const struct mutator *m = mutator_list; m != NULL; m = m->next) {
        const struct open_span *span = &m->spans[kind][page->size_class];
        if (span->index == head && span->group == group)
            return atomic_load_explicit(&m->masks[kind][page->size_class].bits, memory_order_relaxed);
    }
    return 0;
}

bool inspect_find(const void *pointer, struct inspect_object *out) {
    struct heap_place place = heap_find((uintptr_t)pointer);
    if (!heap_place_allocated(&place))
        return false;
    const struct mutator *self = mutator_self;
    enum kind kind = atomic_load_explicit(&place.head->kind, memory_order_relaxed);
    if (self != NULL && atomic_load_explicit(&place.head->use, memory_order_relaxed) == PAGE_SMALL) {
        const struct open_span *span = &self->spans[kind][place.head->size_class];
        if (span->index == place.index && span->group == place.slot / 64 &&
            (atomic_load_explicit(&self->masks[kind][place.head->size_class].bits, memory_order_relaxed) >>
                 place.slot % 64 &
             1))
            return false;
    }
    describe(place.base, place.bytes, kind, out);
    return true;
}

void inspect_walk(bool (*visit)(const struct inspect_object *object, void *context), void *context) {
    struct inspect_object object;
    page_index end = (page_index)(atomic_load_explicit(&heap.grown, memory_order_relaxed) >> PAGE_SHIFT);
    for (page_index i = 1; i < end; i++) {
        struct page *page = heap_page(i);
        enum kind kind = atomic_load_explicit(&page->kind, memory_order_relaxed);
        switch (atomic_load_explicit(&page->use, memory_order_relaxed)) {
        case PAGE_LARGE:
            if (page->large.quarantined)
                break;
            describe(heap_address(i), (size_t)page->large.pages << PAGE_SHIFT, kind, &object);
            if (!visit(&object, context))
                return;
            break;
        case PAGE_SMALL: {
            unsigned slots = span_slots(i);
            for (unsigned g = 0; g < page_groups(slots); g++) {
                uint64_t bits = atomic_load_explicit(&heap_allocated(i)[g], memory_order_relaxed);
                for (bits &= ~shown_in_masks(i, g); bits != 0; bits &= bits - 1) {
                    describe(span_slot(i, g * 64 + (unsigned)__builtin_ctzll(bits)), page->slot_bytes, kind,
                             &object);
                    if (!visit(&object, context))
                        return;
                }
            }
            break;
        }
        default:
            break;
        }
    }
}
