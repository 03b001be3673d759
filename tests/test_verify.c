/*
 * The verifier against a heap that is wrong by hand: a cycle is run step by step in a stopped world,
 * something is broken after marking or after sweeping, and the verifier must stop the program with a line
 * that names it. Nothing broken: not a word. Each in a child of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "garbage.h"
#include "gc/alloc.h"
#include "gc/cycle.h"
#include "gc/heap.h"
#include "gc/mark.h"
#include "gc/mutator.h"
#include "gc/span.h"
#include "gc/sweep.h"
#include "gc/verify.h"

/* What a plan builds and breaks. */
static void **held;         /* a registered root leads here, unless the plan clears it */
static uintptr_t hidden;    /* complement of the address of the object that is to be broken */
static void *off_heap[1];   /* a trace function tells of it */
static bool barrier;        /* the program promises it */
static bool masks_are_open; /* when it begins: their slots are blackened as the cycle would */

static void *target(void) {
    return (void *)~hidden;
}

/* ---- breaking ---- */

static void set_mark(const void *object, bool marked) {
    struct heap_place place = heap_find((uintptr_t)object);
    if (place.head->use == PAGE_LARGE) {
        place.head->large.marked = marked;
        return;
    }
    _Atomic uint32_t *word = &heap_marks(place.head, place.head->slot_count)[place.slot / 32];
    uint32_t bit = 1u << place.slot % 32;
    *word = marked ? *word | bit : *word & ~bit;
}

static void set_allocated(const void *object, bool allocated) {
    struct heap_place place = heap_find((uintptr_t)object);
    _Atomic uint64_t *word = &heap_allocated(place.index)[place.slot / 64];
    uint64_t bit = UINT64_C(1) << place.slot % 64;
    *word = allocated ? *word | bit : *word & ~bit;
}

static void break_nothing(void) {
}
static void unmark(void) {
    set_mark(target(), false);
}
static void forget(void) {
    set_allocated(target(), false);
}
/* A store that the marker never heard of. */
static void store_white(void) {
    held[3] = target();
}
static void lose_child(void) {
    held[1] = NULL;
    unmark();
}
static void move_child(void) {
    held[2] = held[1];
    lose_child();
}
static void lose_chain(void) {
    set_mark(((void **)target())[2], false);
    lose_child();
}
static void lose_chain_but_the_end(void) {
    held[3] = ((void **)target())[2];
    lose_chain();
}
static void lose_root(void) {
    held = NULL;
    unmark();
}
static void forget_off_heap(void) {
    off_heap[0] = NULL;
    unmark();
}
static void lose_tail(void) {
    heap_page(heap_index((uintptr_t)target()) + 3)->use = PAGE_NONE;
}
static void misplace_tail(void) {
    heap_page(heap_index((uintptr_t)target()) + 3)->tail.back = 2;
}
static void break_seal(void) {
    struct heap_place place = heap_find((uintptr_t)target());
    unsigned slots = place.head->slot_count;
    for (unsigned slot = 0; slot < slots; slot++)
        if ((heap_allocated(place.index)[slot / 64] >> slot % 64 & 1) == 0) {
            heap_marks(place.head, slots)[slot / 32] &= ~(1u << slot % 32);
            return;
        }
}
static void break_free_run(void) {
    for (page_index i = 1;; i++)
        if (heap_page(i)->use == PAGE_FREE) {
            heap_page(i)->run.pages--;
            return;
        }
}

/* ---- building ---- */

static void nothing(void) {
}

static void root_and_child(void) {
    held = tern_alloc(64);
    held[1] = tern_alloc_leaf(64);
}
static void break_root(void) {
    root_and_child();
    hidden = ~(uintptr_t)held;
}
static void break_child(void) {
    root_and_child();
    hidden = ~(uintptr_t)held[1];
}
static void white_object(void) {
    root_and_child();
    hidden = ~(uintptr_t)tern_alloc(48);
}
static void interior_child(void) {
    root_and_child();
    held[1] = (char *)tern_alloc(112) + 111;
    hidden = ~((uintptr_t)held[1] - 111);
}
static void past_the_end(void) {
    char *object = tern_alloc(64);
    hidden = ~(uintptr_t)object;
    held = (void **)(void *)(object + 64);
}

static void typed(unsigned word) {
    static const uint64_t bitmap[1] = {1u << 2};
    const tern_type *type = tern_type_new("three words", 24, bitmap);
    held = tern_alloc_typed(type, 5);
    held[word] = tern_alloc_leaf(32);
    hidden = ~(uintptr_t)held[word];
}
static void typed_pointer(void) {
    typed(5);
}
static void typed_number(void) {
    typed(4);
}
static void leaf_number(void) {
    held = tern_alloc_leaf(64);
    held[0] = tern_alloc_leaf(32);
    hidden = ~(uintptr_t)held[0];
}

static void trace_first_two(const void *object, size_t size, tern_tracer *tracer) {
    (void)size;
    void *const *words = object;
    tern_trace_word(tracer, words[0]);
    tern_trace_range(tracer, &words[1], 1);
}
static void traced(unsigned word, bool published) {
    held = tern_alloc_traced(tern_traced_type_new("first two", trace_first_two), 40);
    if (published)
        tern_publish(held);
    held[word] = tern_alloc_leaf(32);
    hidden = ~(uintptr_t)held[word];
}
static void traced_word(void) {
    traced(0, true);
}
static void traced_range(void) {
    traced(1, true);
}
static void untraced_word(void) {
    traced(2, true);
}
static void unpublished_word(void) {
    traced(2, false);
}

static void large_root(void) {
    held = tern_alloc(100000);
    hidden = ~(uintptr_t)held;
}
static void large_child(void) {
    held = tern_alloc(64);
    held[7] = (char *)tern_alloc(100000) + 99999;
    hidden = ~((uintptr_t)held[7] - 99999);
}

static void handle_only(void) {
    void *object = tern_alloc(64);
    tern_handle_new(object);
    hidden = ~(uintptr_t)object;
}
static void cleanup_never_run(void *argument) {
    (void)argument;
}
static void cleanup_only(void) {
    void *argument = tern_alloc(112);
    held = tern_alloc(64);
    tern_cleanup_add(held, cleanup_never_run, argument);
    hidden = ~(uintptr_t)argument;
}

/* held, then one of 48 bytes, then one of 112. */
static void chain(void) {
    held = tern_alloc(64);
    void **middle = tern_alloc(48);
    held[1] = middle;
    middle[2] = tern_alloc(112);
    hidden = ~(uintptr_t)middle;
}

static void trace_off_heap(const void *object, size_t size, tern_tracer *tracer) {
    (void)object, (void)size;
    tern_trace_word(tracer, off_heap[0]);
}
static void traced_off_heap(void) {
    held = tern_alloc_traced(tern_traced_type_new("off the heap", trace_off_heap), 40);
    tern_publish(held);
    off_heap[0] = tern_alloc(112);
    hidden = ~(uintptr_t)off_heap[0];
}

static void open_mask(void) {
    masks_are_open = true;
    root_and_child();
    const struct open_mask *mask = &mutator_self->masks[KIND_WORDS][sizeclass_of(64)];
    hidden = ~((uintptr_t)mask->base + (size_t)__builtin_ctzll(mask->bits) * 64);
}
static void open_tiny_block(void) {
    masks_are_open = true;
    tern_keep(tern_alloc_leaf(3));
    hidden = ~(uintptr_t)mutator_self->tiny_base;
}

/* ---- one cycle by hand ---- */

struct plan {
    const char *name;
    void (*build)(void);
    void (*before)(void); /* breaks before the snapshot */
    void (*marked)(void); /* breaks after marking */
    void (*swept)(void);  /* breaks after sweeping */
    const char *says[2];  /* NULL: nothing is to be said */
};

static void blacken(void) {
    for (unsigned c = 1; c < SIZECLASS_COUNT; c++)
        for (unsigned k = 0; k < KIND_COUNT; k++) {
            uint64_t bits = mutator_self->masks[k][c].bits;
            for (; bits != 0; bits &= bits - 1)
                set_mark(mutator_self->masks[k][c].base +
                             (size_t)__builtin_ctzll(bits) * sizeclass_table[c].bytes,
                         true);
        }
    if (mutator_self->tiny_base != NULL)
        set_mark(mutator_self->tiny_base, true);
}

static void cycle_by_hand(void *context) {
    const struct plan *plan = context;
    blacken();
    plan->before();
    verify_snapshot();
    mark_begin();
    mark_roots();
    mark_to_end();
    plan->marked();
    verify_marked();
    atomic_fetch_add(&heap.epoch, 1);
    sweep_reset();
    sweep_open();
    sweep_finish();
    sweep_owned();
    plan->swept();
    verify_swept();
}

static NOINLINE void build(const struct plan *plan) {
    plan->build();
    if (masks_are_open)
        return;
    mutator_enter(mutator_self);
    alloc_give_back(mutator_self);
    mutator_leave(mutator_self);
}

static int run_plan(void *argument) {
    struct plan *plan = argument;
    setenv("TERN_GODEBUG", "gcverify=1,markers=1,cleanups=manual", 1);
    tern_options options;
    tern_options_init(&options);
    options.stores = barrier ? TERN_STORES_BARRIER : TERN_STORES_PLAIN;
    if (tern_init(&options) != 0 || tern_root_add(&held, sizeof held) != 0)
        return 10;
    tern_collect();
    build(plan);
    clear_stack();
    cycle_stopped(mutator_self, cycle_by_hand, plan);
    tern_collect();
    return 0;
}

static void check(const struct plan *plan) {
    char text[4096];
    int status = in_child(run_plan, (void *)plan, text, sizeof text);
    print_message("%s:\n  %s", plan->name, text[0] != 0 ? text : "(nothing)\n");
    if (plan->says[0] == NULL) {
        assert_string_equal(text, "");
        assert_int_equal(status, 0);
        return;
    }
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, plan->says[0]));
    if (plan->says[1] != NULL)
        assert_non_null(strstr(text, plan->says[1]));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
}

#define CHECK(plans)                                             \
    for (size_t i = 0; i < sizeof(plans) / sizeof *(plans); i++) \
    check(&(plans)[i])

#define NO break_nothing

static void a_heap_in_order_is_passed_over_in_silence(void **state) {
    (void)state;
    static const struct plan plans[] = {
        {"an empty heap", nothing, NO, NO, NO, {NULL}},
        {"a root and a child", root_and_child, NO, NO, NO, {NULL}},
        {"one past the end", past_the_end, NO, NO, NO, {NULL}},
        {"a typed object", typed_pointer, NO, NO, NO, {NULL}},
        {"a traced object", traced_range, NO, NO, NO, {NULL}},
        {"a large object", large_child, NO, NO, NO, {NULL}},
        {"open masks", open_mask, NO, NO, NO, {NULL}},
        {"an open tiny block", open_tiny_block, NO, NO, NO, {NULL}},
        {"a white object that nothing leads to", white_object, NO, unmark, NO, {NULL}},
        {"a white object, its address in a typed object's number", typed_number, NO, unmark, NO, {NULL}},
        {"a white object, its address in a leaf", leaf_number, NO, unmark, NO, {NULL}},
        {"a white object, its address where no trace function looks", untraced_word, NO, unmark, NO, {NULL}},
    };
    CHECK(plans);
}

static void what_the_marker_missed_is_named(void **state) {
    (void)state;
    static const struct plan plans[] = {
        {"what a root leads to",
         break_root,
         NO,
         unmark,
         NO,
         {"tern: gcverify: cycle 2: object 0x",
          "(kind words, 64 bytes) is reachable but was not marked; a registered "
          "root, saved at 0x"}},
        {"what a handle leads to",
         handle_only,
         NO,
         unmark,
         NO,
         {"(kind words, 64 bytes) is reachable but was not marked", "a handle, saved at 0x"}},
        {"what a cleanup's argument leads to",
         cleanup_only,
         NO,
         unmark,
         NO,
         {"(kind words, 112 bytes) is reachable but was not marked", "a cleanup's argument, saved at 0x"}},
        {"what only one past its end leads to",
         past_the_end,
         NO,
         unmark,
         NO,
         {"(kind words, 64 bytes) is reachable but was not marked; a registered root", NULL}},
        {"what a field leads to",
         break_child,
         NO,
         unmark,
         NO,
         {"the field at offset 8 of object 0x",
          "(kind words, 64 bytes), which is marked, leads to object 0x"}},
        {"what a field leads into",
         interior_child,
         NO,
         unmark,
         NO,
         {"the field at offset 8 of object 0x", "(kind words, 112 bytes), which is not"}},
        {"what a field of a typed object leads to",
         typed_pointer,
         NO,
         unmark,
         NO,
         {"the field at offset 40 of object 0x",
          "(kind typed three words, 128 bytes), which is marked, leads to"}},
        {"what a trace function tells as a word",
         traced_word,
         NO,
         unmark,
         NO,
         {"a word told by the trace function of object 0x",
          "(kind traced first two, 48 bytes), which is marked"}},
        {"what a trace function tells as a range",
         traced_range,
         NO,
         unmark,
         NO,
         {"the field at offset 8 of object 0x", "(kind traced first two, 48 bytes), which is marked"}},
        {"what a traced object holds that was not published",
         unpublished_word,
         NO,
         unmark,
         NO,
         {"the field at offset 16 of object 0x", "(kind traced first two, 48 bytes), which is marked"}},
        {"a store that was not seen",
         white_object,
         NO,
         store_white,
         NO,
         {"the field at offset 24 of object 0x", "leads to object 0x"}},
        {"a large object",
         large_root,
         NO,
         unmark,
         NO,
         {"(kind words, 106496 bytes) is reachable but was not marked", "a registered root"}},
        {"a large object, from its last byte",
         large_child,
         NO,
         unmark,
         NO,
         {"the field at offset 56 of object 0x", "(kind words, 106496 bytes), which is not"}},
    };
    CHECK(plans);
}

static void with_the_barrier_the_field_that_hid_a_pointer_is_named(void **state) {
    (void)state;
    static const struct plan plans[] = {
        {"a child", root_and_child, NO, NO, NO, {NULL}},
        {"a chain", chain, NO, NO, NO, {NULL}},
        {"an overwritten field",
         break_child,
         NO,
         lose_child,
         NO,
         {"(kind leaf, 64 bytes) is reachable but was not marked; the field at offset 8 of object 0x",
          " led to it when the cycle began and holds something else now: a store that missed the barrier\n"}},
        {"a pointer that was moved",
         break_child,
         NO,
         move_child,
         NO,
         {"the field at offset 16 of object 0x", "which is not; the field at offset 8 of object 0x"}},
        {"what led to a chain",
         chain,
         NO,
         lose_chain,
         NO,
         {"(kind words, 48 bytes) is reachable but was not marked; the field at offset 8 of object 0x",
          "(kind words, 64 bytes) led to it when the cycle began and holds something else now"}},
        {"the same, and the chain's end has a new place",
         chain,
         NO,
         lose_chain_but_the_end,
         NO,
         {"(kind words, 48 bytes) is reachable but was not marked; the field at offset 8 of object 0x",
          "(kind words, 64 bytes) led to it when the cycle began and holds something else now"}},
        {"a root",
         break_root,
         NO,
         lose_root,
         NO,
         {"is reachable but was not marked; a registered root led to it when the cycle began\n", NULL}},
        {"what a trace function told of",
         traced_off_heap,
         NO,
         forget_off_heap,
         NO,
         {"(kind words, 112 bytes) is reachable but was not marked; a word told by the trace function of "
          "object 0x",
          "(kind traced off the heap, 48 bytes) led to it when the cycle began\n"}},
        {"a field that still leads there",
         break_child,
         NO,
         unmark,
         NO,
         {"(kind words, 64 bytes), which is marked, leads to object 0x",
          " led to it when the cycle began and still does\n"}},
        {"a pointer from nowhere",
         white_object,
         NO,
         store_white,
         NO,
         {"the field at offset 24 of object 0x", "which is not; nothing led to it when the cycle began\n"}},
    };
    barrier = true;
    CHECK(plans);
    barrier = false;
}

static void what_is_about_to_be_handed_out_twice_is_named(void **state) {
    (void)state;
    static const struct plan plans[] = {
        {"an open slot is white",
         open_mask,
         NO,
         unmark,
         NO,
         {"a slot in an open mask of thread ", " was left white"}},
        {"an open tiny block is white",
         open_tiny_block,
         NO,
         unmark,
         NO,
         {"the open tiny block of thread ", " was left white"}},
        {"an open slot is free before the cycle",
         open_mask,
         forget,
         NO,
         NO,
         {"a slot in an open mask of thread ", "two objects would overlap"}},
        {"an open slot is free after marking",
         open_mask,
         NO,
         forget,
         NO,
         {"a slot in an open mask of thread ", "is no allocated slot"}},
        {"an open slot is free after the sweep",
         open_mask,
         NO,
         NO,
         forget,
         {"a slot in an open mask of thread ", "was freed by the sweep"}},
        {"an open tiny block is free",
         open_tiny_block,
         NO,
         forget,
         NO,
         {"the open tiny block of thread ", "is not allocated"}},
    };
    CHECK(plans);
}

static struct mutator twin;

/* A second thread's record shows the same mask. */
static void show_twice(void) {
    twin.masks[KIND_WORDS][sizeclass_of(64)] = mutator_self->masks[KIND_WORDS][sizeclass_of(64)];
    twin.next = mutator_list;
    mutator_list = &twin;
}
/* The thread's mask is shown as one of another kind too. */
static void show_as_leaf(void) {
    mutator_self->masks[KIND_LEAF][sizeclass_of(64)] = mutator_self->masks[KIND_WORDS][sizeclass_of(64)];
}
static void disown(void) {
    heap_page(heap_index((uintptr_t)target()))->claim = claim_word(heap_epoch(), CLAIM_SWEPT);
}

static void what_two_would_own_is_named(void **state) {
    (void)state;
    static const struct plan plans[] = {
        {"two masks show one slot",
         open_mask,
         show_twice,
         NO,
         NO,
         {"a slot in an open mask of thread ", "is in another open mask too"}},
        {"a mask is of another kind than its page",
         open_mask,
         show_as_leaf,
         NO,
         NO,
         {"a slot in an open mask of thread ", "two objects would overlap"}},
        {"the page of an open mask is not claimed",
         open_mask,
         NO,
         disown,
         NO,
         {"the span of thread ", "claimed"}},
    };
    CHECK(plans);
}

static void what_was_freed_too_early_is_named(void **state) {
    (void)state;
    static const struct plan plans[] = {
        {"a large object without its fourth page",
         large_root,
         NO,
         lose_tail,
         NO,
         {"(kind words, 106496 bytes) has lost its page 3", NULL}},
        {"a large object whose fourth page is another's",
         large_root,
         NO,
         misplace_tail,
         NO,
         {"(kind words, 106496 bytes) has lost its page 3", NULL}},
        {"the same, once swept",
         large_root,
         NO,
         NO,
         lose_tail,
         {"(kind words, 106496 bytes) has lost its page 3", NULL}},
        {"an object that the sweep freed",
         break_child,
         NO,
         NO,
         forget,
         {"the object at 0x", "was freed by the sweep"}},
    };
    CHECK(plans);
}

/* What is swept lazily goes wrong after the verifier's last look: the next cycle's first look finds it. */
static int free_after_the_cycle(void *unused) {
    (void)unused;
    struct plan plan = {"", break_child, NO, NO, NO, {NULL}};
    int result = run_plan(&plan);
    forget();
    tern_collect();
    return result;
}

static void what_was_swept_wrongly_is_named_by_the_next_cycle(void **state) {
    (void)state;
    char text[4096];
    int status = in_child(free_after_the_cycle, NULL, text, sizeof text);
    print_message("  %s", text);
    assert_true(WIFSIGNALED(status));
    assert_non_null(strstr(text, "was reachable when it was last looked for, and was freed by the sweep"));
}

static void records_that_disagree_are_named(void **state) {
    (void)state;
    static const struct plan plans[] = {
        {"a free slot without its seal",
         open_mask,
         NO,
         NO,
         break_seal,
         {"a free slot's mark is not sealed", NULL}},
        {"a free run of two lengths", root_and_child, NO, NO, break_free_run, {"tern: fatal: ", NULL}},
    };
    CHECK(plans);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_heap_in_order_is_passed_over_in_silence),
        cmocka_unit_test(what_the_marker_missed_is_named),
        cmocka_unit_test(with_the_barrier_the_field_that_hid_a_pointer_is_named),
        cmocka_unit_test(what_is_about_to_be_handed_out_twice_is_named),
        cmocka_unit_test(what_two_would_own_is_named),
        cmocka_unit_test(what_was_freed_too_early_is_named),
        cmocka_unit_test(what_was_swept_wrongly_is_named_by_the_next_cycle),
        cmocka_unit_test(records_that_disagree_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
