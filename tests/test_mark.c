/*
 * Marking: exactly what is reachable is marked, whatever the order, the number of markers and the memory for
 * queues. Each heap is built from a seed in a child of its own, so that all of them are the same heap to the
 * byte.
 */
#include "child.h"

#include <pthread.h>

#include "gc/grey.h"
#include "gc/mark.h"

/* ThreadSanitizer makes each access ten times dearer: its heaps are an eighth in size. */
#if defined(__SANITIZE_THREAD__)
#define SMALLER    8
#define TREE_DEPTH 6
#else
#define SMALLER    1
#define TREE_DEPTH 8
#endif
#define TREE_NODES (((1u << 2 * (TREE_DEPTH + 1)) - 1) / 3)
#define LIST_NODES (200000 / SMALLER)

/* All a heap hangs from this one word. */
static void *root;

struct node {
    struct node *next[4];
};

static NOINLINE struct node *tree(unsigned depth) {
    struct node *n = tern_alloc(sizeof *n);
    for (unsigned i = 0; depth > 0 && i < 4; i++)
        tern_store(&n->next[i], tree(depth - 1));
    return n;
}

/* Garbage between what lives, so that a marker that marks too much shows. */
static void litter(uint64_t *seed) {
    void *volatile dead = tern_alloc(16 + next_random(seed) % 200);
    tern_keep(dead);
}

static NOINLINE void build_tree(uint64_t *seed) {
    litter(seed);
    root = tree(TREE_DEPTH);
}

static NOINLINE void build_list(uint64_t *seed) {
    for (unsigned i = 0; i < LIST_NODES; i++) {
        struct node *n = tern_alloc(sizeof *n);
        tern_store(&n->next[i % 4], root);
        root = n;
        if (i % 8 == 0)
            litter(seed);
    }
}

/* Objects of all sizes, three pointers each to any others: inner ones, and to the first byte. */
static NOINLINE void build_graph(uint64_t *seed) {
    enum { COUNT = 30000 / SMALLER };
    char **objects = tern_alloc_array(COUNT, sizeof *objects);
    size_t *sizes = malloc(COUNT * sizeof *sizes);
    root = objects;
    for (size_t i = 0; i < COUNT; i++) {
        sizes[i] = 24 + next_random(seed) % (i % 100 == 0 ? 40000 : 300);
        objects[i] = tern_alloc(sizes[i]);
        litter(seed);
    }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t f = 0; f < 3; f++) {
            size_t to = (size_t)(next_random(seed) % COUNT);
            tern_store(objects[i] + 8 * f, objects[to] + next_random(seed) % sizes[to]);
        }
    /* Some are reachable from others only, some not at all. */
    for (size_t i = 0; i < COUNT; i++)
        if (i % 7 != 0)
            objects[i] = NULL;
    free(sizes);
}

/* Arrays of pointers that are scanned in pieces, one of them wide and with small objects, one of arrays. */
static NOINLINE void build_arrays(uint64_t *seed) {
    enum { WIDE = 300000 / SMALLER, LARGE = 40 / SMALLER };
    void **arrays = tern_alloc_array(LARGE + 1, sizeof *arrays);
    root = arrays;
    void **wide = tern_alloc_array(WIDE, sizeof *wide);
    arrays[LARGE] = wide;
    for (size_t i = 0; i < WIDE; i++)
        wide[i] = i % 3 == 0 ? tern_alloc(8) : i % 3 == 1 ? tern_alloc_leaf(5) : NULL;
    for (size_t i = 0; i < LARGE; i++) {
        void **a = tern_alloc_array(5000 + i * 1000, sizeof *a);
        arrays[i] = a;
        for (size_t j = 0; j < 5000 + i * 1000; j += 1 + next_random(seed) % 100)
            a[j] = tern_alloc_leaf_single(24);
        a[4999 + i * 1000] = tern_alloc(64); /* the last word */
    }
}

typedef void build_function(uint64_t *seed);
static build_function *const builds[] = {build_tree, build_list, build_graph, build_arrays};

struct setting {
    const char *debug;
    uint32_t segments; /* grey_segments_most */
    build_function *build;
    uint64_t live; /* result, in shared memory */
    uint64_t objects;
};

static bool count_object(const tern_object *object, void *context) {
    ((uint64_t *)context)[0] += 1;
    ((uint64_t *)context)[1] += object->size;
    return true;
}

/* On a thread of its own, so that no stale word of its work is left on a stack. */
static void *run_build(void *argument) {
    const struct setting *s = argument;
    uint64_t seed = 20260103;
    s->build(&seed);
    return NULL;
}

static int live_bytes(void *argument) {
    struct setting *s = argument;
    pthread_t thread;
    setenv("TERN_GODEBUG", s->debug, 1);
    setenv("TERN_GOGC", "off", 1);
    tern_options options;
    tern_options_init(&options);
    must(tern_init(&options) == 0 && tern_root_add(&root, sizeof root) == 0);
    must(tern_pthread_create(&thread, NULL, run_build, s) == 0);
    tern_blocking_begin();
    pthread_join(thread, NULL);
    tern_blocking_end();
    for (unsigned i = 0; i < 3; i++) {
        grey_segments_most = s->segments;
        collect_and_sweep();
        grey_segments_most = 0;
        must(i == 0 || s->live == stats().live_bytes);
        s->live = stats().live_bytes;
    }
    /* What was freed is really what was not marked. */
    uint64_t walked[2] = {0, 0};
    tern_heap_walk(count_object, walked);
    s->objects = walked[0];
    must(walked[1] >= s->live && walked[1] - s->live <= 16); /* the open shared block */
    return 0;
}

static uint64_t live_with(const char *debug, uint32_t segments, build_function *build, uint64_t *objects) {
    struct setting *shared = shared_memory(sizeof *shared);
    *shared = (struct setting){debug, segments, build, 0, 0};
    child_passes(live_bytes, shared);
    uint64_t live = shared->live;
    *objects = shared->objects;
    shared_memory_free(shared, sizeof *shared);
    assert_true(live > 0);
    return live;
}

static const char *const debugs[] = {
    "marker=stack,markers=1",           "marker=ring,markers=1", "marker=auto,markers=1",
    "marker=stack,markers=2",           "marker=ring,markers=4", "marker=auto,markers=4",
    "marker=auto,gcverify=1,markers=2",
};

static void every_order_and_number_of_markers_marks_the_same(void **state) {
    (void)state;
    for (size_t b = 0; b < sizeof builds / sizeof *builds; b++) {
        uint64_t objects, first_objects, first = live_with(debugs[0], 0, builds[b], &first_objects);
        for (size_t d = 1; d < sizeof debugs / sizeof *debugs; d++) {
            uint64_t live = live_with(debugs[d], 0, builds[b], &objects);
            if (live != first || objects != first_objects)
                print_error("build %zu with %s: %zu bytes in %zu, not %zu in %zu\n", b, debugs[d],
                            (size_t)live, (size_t)objects, (size_t)first, (size_t)first_objects);
            assert_int_equal(live, first);
            assert_int_equal(objects, first_objects);
        }
    }
}

static void marking_ends_and_is_complete_when_queues_cannot_grow(void **state) {
    (void)state;
    static const char *const few[] = {"marker=stack,markers=1", "marker=ring,markers=1",
                                      "marker=auto,markers=4"};
    for (size_t b = 0; b < sizeof builds / sizeof *builds; b++) {
        uint64_t objects, first_objects, first = live_with(debugs[0], 0, builds[b], &first_objects);
        for (size_t d = 0; d < 3; d++) {
            assert_int_equal(live_with(few[d], 1, builds[b], &objects), first);
            assert_int_equal(objects, first_objects);
        }
    }
}

/* The sum of what was built, for heaps whose size is known. */
static void live_bytes_are_the_bytes_of_what_was_built(void **state) {
    (void)state;
    uint64_t objects;
    assert_int_equal(live_with(debugs[0], 0, build_tree, &objects), TREE_NODES * 32);
    assert_int_equal(objects, TREE_NODES);
    assert_int_equal(live_with(debugs[0], 0, build_list, &objects), LIST_NODES * 32);
    assert_int_equal(objects, LIST_NODES);
}

/* Kinds. */

#define COUNT 100
static uintptr_t hidden[4 * COUNT];
static void *holders[COUNT]; /* a registered root */

static NOINLINE void *referent(size_t i) {
    void *object = tern_alloc_leaf_single(48);
    hidden[i] = ~(uintptr_t)object;
    return object;
}

static size_t living(size_t from, size_t to) {
    size_t n = 0;
    for (size_t i = from; i < to; i++)
        n += tern_object_find((void *)~hidden[i], NULL);
    return n;
}

/* Words 0 and 2 of 4 are pointers. */
static NOINLINE void fill_typed(size_t elements) {
    static const uint64_t bitmap[1] = {5};
    const tern_type *type = tern_type_new("two of four", 32, bitmap);
    for (size_t i = 0; i < COUNT; i++) {
        void **fields = tern_alloc_typed(type, elements);
        holders[i] = fields;
        for (size_t w = 0; w < 4; w++)
            fields[4 * (elements - 1) + w] = referent(w * COUNT + i);
    }
    clear_stack();
}

static void start(void) {
    static bool started;
    /* No collection but those that are asked for: a dead object's slot must not be used again before it is
     * looked at. */
    tern_set_gc_percent(TERN_GC_OFF);
    if (!started)
        assert_int_equal(tern_root_add(holders, sizeof holders), 0);
    started = true;
}

static void only_the_pointer_words_of_a_type_are_looked_at(void **state) {
    (void)state;
    start();
    /* The last element of one, of a small array, of one that fills its slot, of a large one. */
    static const size_t lengths[] = {1, 3, 10, 1023, 3000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        fill_typed(lengths[i]);
        collect_and_sweep();
        assert_int_equal(living(0, COUNT), COUNT);
        assert_int_equal(living(2 * COUNT, 3 * COUNT), COUNT);
        assert_true(living(COUNT, 2 * COUNT) <= COUNT - NEARLY(COUNT));
        assert_true(living(3 * COUNT, 4 * COUNT) <= COUNT - NEARLY(COUNT));
    }
}

static size_t traced_size;
static void trace_second(const void *object, size_t size, tern_tracer *tracer) {
    void *const *fields = object;
    traced_size = size;
    tern_trace_word(tracer, fields[1]);
    tern_trace_range(tracer, fields + 2, 1);
}

static NOINLINE void fill_traced(size_t size, bool publish) {
    const tern_type *type = tern_traced_type_new("second and third", trace_second);
    for (size_t i = 0; i < COUNT; i++) {
        void **fields = tern_alloc_traced(type, size);
        holders[i] = fields;
        for (size_t w = 0; w < 4; w++)
            fields[w] = referent(w * COUNT + i);
        if (publish)
            tern_publish(fields);
    }
    clear_stack();
}

static void a_traced_object_is_traced_once_it_is_published(void **state) {
    (void)state;
    static const size_t sizes[] = {32, 40, 1000, 32760, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fill_traced(sizes[i], true);
        collect_and_sweep();
        assert_true(traced_size >= sizes[i]);
        assert_int_equal(living(COUNT, 3 * COUNT), 2 * COUNT);
        assert_true(living(0, COUNT) <= COUNT - NEARLY(COUNT));
        assert_true(living(3 * COUNT, 4 * COUNT) <= COUNT - NEARLY(COUNT));
        fill_traced(sizes[i], false); /* conservative words */
        collect_and_sweep();
        assert_int_equal(living(0, 4 * COUNT), 4 * COUNT);
        memset(holders, 0, sizeof holders);
        collect_and_sweep();
    }
}

static NOINLINE void fill_leaf(void) {
    for (size_t i = 0; i < COUNT; i++) {
        void **fields = i % 2 == 0 ? tern_alloc_leaf(64) : tern_alloc_leaf(50000);
        holders[i] = fields;
        fields[0] = referent(i);
    }
    clear_stack();
}

static void a_leaf_keeps_nothing(void **state) {
    (void)state;
    fill_leaf();
    collect_and_sweep();
    assert_true(living(0, COUNT) <= COUNT - NEARLY(COUNT));
}

/* Inside managed objects a pointer past the end belongs to the neighbour, if anybody. */
static NOINLINE void fill_interior(size_t offset) {
    for (size_t i = 0; i < COUNT; i++) {
        char **field = tern_alloc(8);
        holders[i] = field;
        *field = (char *)referent(i) + offset;
    }
    clear_stack();
}

static void any_byte_of_an_object_keeps_it(void **state) {
    (void)state;
    for (size_t offset = 0; offset < 48; offset += 47) {
        fill_interior(offset);
        collect_and_sweep();
        assert_int_equal(living(0, COUNT), COUNT);
    }
}

static void what_is_marked_can_be_asked(void **state) {
    (void)state;
    fill_interior(0);
    collect_and_sweep();
    /* Marks are cleared as pages are swept; before that they are those of the cycle. Here: free slots only.
     */
    assert_true(strcmp(mark_order_name(), "stack") == 0 || strcmp(mark_order_name(), "ring") == 0);
    assert_false(mark_is_marked(&root));
}

/* Free slots hold what dead objects held, and words lead to them: neither keeps anything. */
static NOINLINE void make_stale(void) {
    for (size_t i = 0; i < COUNT; i++) {
        void **object = tern_alloc(4000);
        for (size_t w = 0; w < 4; w++)
            object[w] = referent(w * COUNT + i);
        holders[i] = (void *)~(uintptr_t)object;
    }
    clear_stack();
}

static void a_pointer_to_a_free_slot_keeps_nothing(void **state) {
    (void)state;
    make_stale();
    collect_and_sweep(); /* frees all; what is written is still there */
    assert_true(living(0, 4 * COUNT) <= 4 * COUNT - NEARLY(4 * COUNT));
    void **stale = malloc(COUNT * sizeof *stale);
    for (size_t i = 0; i < COUNT; i++)
        stale[i] = (void *)~(uintptr_t)holders[i];
    uint64_t before = stats().live_bytes;
    assert_int_equal(tern_root_add(stale, COUNT * sizeof *stale), 0);
    collect_and_sweep();
    /* At most a tenth of them, should some have been found on the stack before. */
    assert_true(stats().live_bytes <= before + COUNT / 10 * 4096);
    tern_root_remove(stale);
    free(stale);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_bytes_are_the_bytes_of_what_was_built),
        cmocka_unit_test(every_order_and_number_of_markers_marks_the_same),
        cmocka_unit_test(marking_ends_and_is_complete_when_queues_cannot_grow),
        cmocka_unit_test(only_the_pointer_words_of_a_type_are_looked_at),
        cmocka_unit_test(a_traced_object_is_traced_once_it_is_published),
        cmocka_unit_test(a_leaf_keeps_nothing),
        cmocka_unit_test(any_byte_of_an_object_keeps_it),
        cmocka_unit_test(what_is_marked_can_be_asked),
        cmocka_unit_test(a_pointer_to_a_free_slot_keeps_nothing),
    };
    /* The first three start the library in children; the rest starts it here. */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
