/* Looking from outside: what is an object and what is not one yet, or no more. */
#include "child.h"

#include "gc/cycle.h"
#include "gc/heap.h"
#include "gc/inspect.h"
#include "gc/mutator.h"
#include "gc/type.h"

static bool find(const void *pointer, struct inspect_object *out) {
    mutator_enter(mutator_self);
    bool found = inspect_find(pointer, out);
    mutator_leave(mutator_self);
    return found;
}

static void a_slot_in_an_open_mask_is_no_object(void **state) {
    (void)state;
    struct inspect_object o;
    char *first = tern_alloc(2000);
    struct heap_place place = heap_find((uintptr_t)first);
    assert_true(find(first, &o));
    /* The rest of its mask was not handed out. */
    uint64_t bits = atomic_load(&mutator_self->masks[KIND_WORDS][place.head->size_class].bits);
    assert_true(bits != 0);
    char *base = mutator_self->masks[KIND_WORDS][place.head->size_class].base;
    char *next = base + (unsigned)__builtin_ctzll(bits) * place.bytes;
    assert_false(find(next, &o));
    assert_ptr_equal(tern_alloc(2000), next);
    assert_true(find(next, &o));
    assert_ptr_equal(o.base, next);
    assert_int_equal(o.size, 2048);
}

struct seen {
    size_t objects, bytes;
    size_t kinds[KIND_COUNT];
};

static bool note(const struct inspect_object *o, void *context) {
    struct seen *s = context;
    s->objects++;
    s->bytes += o->size;
    s->kinds[o->kind]++;
    return true;
}

static void walk(void *context) {
    inspect_walk(note, context);
}

static NOINLINE void allocate_some(const tern_type *type, void **held) {
    for (size_t i = 0; i < 100; i++) {
        held[5 * i] = tern_alloc(16 + i * 20);
        held[5 * i + 1] = tern_alloc_leaf(100 + i * 600);
        held[5 * i + 2] = tern_alloc_typed(type, i);
        held[5 * i + 3] = tern_alloc_leaf(8);
        held[5 * i + 4] = tern_alloc_leaf(8); /* the other half of a block */
    }
}

static void a_walk_sees_exactly_what_was_allocated(void **state) {
    (void)state;
    struct seen before = {0}, after = {0};
    static const uint64_t bitmap[1] = {1};
    const tern_type *type = tern_type_new("one", 8, bitmap);
    void **held = tern_alloc_array(500, sizeof *held);
    collect();
    cycle_stopped(mutator_self, walk, &before);
    allocate_some(type, held);
    cycle_stopped(mutator_self, walk, &after);
    assert_int_equal(after.kinds[KIND_WORDS] - before.kinds[KIND_WORDS], 100);
    assert_int_equal(after.kinds[KIND_LEAF] - before.kinds[KIND_LEAF], 100);
    assert_int_equal(after.kinds[KIND_TYPED] - before.kinds[KIND_TYPED], 100);
    assert_in_range(after.kinds[KIND_TINY] - before.kinds[KIND_TINY], 100, 101);
    /* A collection changes nothing about what is held. */
    struct seen later = {0};
    collect();
    cycle_stopped(mutator_self, walk, &later);
    assert_true(later.objects <= after.objects && later.objects + 20 >= after.objects);
    assert_true(stats().live_bytes >= 100 * 16);
    tern_keep(held);
}

static void a_types_word_is_not_the_programs(void **state) {
    (void)state;
    struct inspect_object o;
    static const uint64_t bitmap[1] = {1};
    const tern_type *type = tern_type_new("forty", 40, bitmap);
    char *object = tern_alloc_typed(type, 1);
    assert_true(find(object + 39, &o));
    assert_int_equal(o.size, 40);
    assert_int_equal(o.kind, KIND_TYPED);
    assert_string_equal(o.type_name, "forty");
    assert_ptr_equal(type_of_word(*type_word(object, 48)), type);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_in_an_open_mask_is_no_object),
        cmocka_unit_test(a_walk_sees_exactly_what_was_allocated),
        cmocka_unit_test(a_types_word_is_not_the_programs),
    };
    setenv("TERN_GOGC", "off", 1);
    if (tern_init(NULL) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
