/* Weak references. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>

#include <cmocka.h>

#include "garbage.h"

#define COUNT 1000

/* Where tests keep objects and references alive: a registered root. */
static void **objects;
static tern_weak **weak;

static size_t alive(void) {
    size_t n = 0;
    for (size_t i = 0; i < COUNT; i++)
        n += tern_weak_get(weak[i]) != NULL;
    return n;
}

static void *alloc_words(void) {
    return tern_alloc(40);
}
static void *alloc_leaf(void) {
    return tern_alloc_leaf_single(8);
}
static void *alloc_large(void) {
    return tern_alloc(40000);
}
static void *alloc_typed(void) {
    static const tern_type *type;
    static const uint64_t bitmap[1] = {2};
    if (type == NULL)
        type = tern_type_new("pair", 16, bitmap);
    return tern_alloc_typed(type, 3);
}

static NOINLINE void fill(void *(*allocate)(void)) {
    for (size_t i = 0; i < COUNT; i++) {
        objects[i] = allocate();
        assert_non_null(objects[i]);
        weak[i] = tern_weak_new(objects[i]);
        assert_non_null(weak[i]);
    }
}

static NOINLINE void drop(void **array) {
    memset(array, 0, COUNT * sizeof *array);
}

static void it_gives_the_pointer_that_it_was_first_given(void **state) {
    (void)state;
    char *object = tern_alloc(100);
    tern_weak *first = tern_weak_new(object + 7);
    assert_ptr_equal(tern_weak_get(first), object + 7);
    collect();
    assert_ptr_equal(tern_weak_get(first), object + 7);
    tern_keep(object);
    tern_keep(first);
}

static void an_object_has_one_reference_while_that_lives(void **state) {
    (void)state;
    char *object = tern_alloc(100);
    char *large = tern_alloc(50000);
    tern_weak *first = tern_weak_new(object), *first_large = tern_weak_new(large + 40000);
    collect();
    assert_ptr_equal(tern_weak_new(object), first);
    assert_ptr_equal(tern_weak_new(object + 99), first);
    assert_ptr_equal(tern_weak_new(large + 1), first_large);
    assert_ptr_equal(tern_weak_get(first_large), large + 40000);
    assert_true(tern_weak_new(tern_alloc(100)) != first);
    tern_keep(object);
    tern_keep(large);
}

static void what_has_no_death_of_its_own_is_refused(void **state) {
    (void)state;
    int local;
    void *outside = malloc(16);
    void *tiny = tern_alloc_leaf(8);
    const void *bad[] = {NULL, &local, outside, tiny, (void *)16, (void *)UINTPTR_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        assert_null(tern_weak_new(bad[i]));
        assert_int_equal(errno, EINVAL);
    }
    free(outside);
}

static void check_death(void *(*allocate)(void)) {
    fill(allocate);
    collect();
    assert_int_equal(alive(), COUNT); /* the objects are held */
    assert_true(stats().weak_count >= COUNT);
    drop(objects);
    collect();
    assert_true(alive() <= COUNT - NEARLY(COUNT));
    assert_true(stats().weak_count <= COUNT - NEARLY(COUNT));
    drop((void **)weak);
}

static void it_does_not_keep_its_object_alive(void **state) {
    (void)state;
    check_death(alloc_words);
    check_death(alloc_leaf);
    check_death(alloc_large);
    check_death(alloc_typed);
}

static void a_dropped_reference_is_forgotten_and_made_anew(void **state) {
    (void)state;
    fill(alloc_words);
    drop((void **)weak);
    collect();
    assert_true(stats().weak_count <= COUNT - NEARLY(COUNT));
    for (size_t i = 0; i < COUNT; i++) {
        weak[i] = tern_weak_new(objects[i]);
        assert_ptr_equal(tern_weak_get(weak[i]), objects[i]);
    }
    collect();
    assert_int_equal(alive(), COUNT);
    drop(objects);
    drop((void **)weak);
}

/* Slots are used again all the time: a reference must never lead to a later object in the slot of its own. */
static void a_slot_used_again_has_a_reference_of_its_own(void **state) {
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        drop(objects);
        collect();
        for (size_t i = 0; i < COUNT; i++) {
            tern_weak *old = weak[i];
            uint64_t *object = tern_alloc(40);
            *object = round * COUNT + i;
            objects[i] = object;
            weak[i] = tern_weak_new(object);
            assert_ptr_equal(tern_weak_get(weak[i]), object);
            uint64_t *before = old == NULL ? NULL : tern_weak_get(old);
            assert_true(before == NULL || *before == (round - 1) * COUNT + i);
        }
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(*(uint64_t *)tern_weak_get(weak[i]), round * COUNT + i);
    }
    drop(objects);
    drop((void **)weak);
}

static _Atomic size_t ran, seen;

static void look(void *argument) {
    ran++;
    seen += tern_weak_get(argument) != NULL;
}

static void it_is_null_before_the_cleanup_runs(void **state) {
    (void)state;
    ran = seen = 0;
    fill(alloc_words);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(tern_cleanup_add(objects[i], look, weak[i]) != 0);
    drop(objects);
    drop((void **)weak);
    collect();
    tern_run_cleanups(0);
    assert_true(ran >= NEARLY(COUNT));
    assert_int_equal(seen, 0);
}

static NOINLINE void many_held_then_dropped(size_t count) {
    void **held = tern_alloc_array(2 * count, sizeof *held);
    for (size_t i = 0; i < count; i++) {
        held[2 * i] = tern_alloc_leaf_single(16);
        held[2 * i + 1] = tern_weak_new(held[2 * i]);
    }
    collect();
    assert_true(stats().weak_count >= count);
    tern_keep(held);
    memset(held, 0, 2 * count * sizeof *held);
}

static void a_million_dropped_references_leave_the_memory_flat(void **state) {
    (void)state;
    collect();
    uint64_t before = stats().off_heap_bytes;
    for (unsigned round = 0; round < 2; round++) {
        many_held_then_dropped(scaled(1000000));
        collect();
        assert_true(stats().off_heap_bytes <= before + (128 << 10));
    }
}

static void *watched;             /* on the test's stack too */
static tern_weak *made_meanwhile; /* a registered root */

static void make_meanwhile(const tern_cycle *cycle, void *context) {
    (void)cycle;
    (void)context;
    void *object = watched;
    watched = NULL; /* the call below may collect, too */
    if (object != NULL)
        made_meanwhile = tern_weak_new(object);
}

/* The collection comes while tern_weak_new allocates, and its callback asks for the same object's reference.
 */
static void one_that_was_made_meanwhile_is_the_one(void **state) {
    (void)state;
    size_t meanwhile = 0;
    int percent = tern_set_gc_percent(1);
    tern_on_cycle(make_meanwhile, NULL);
    for (size_t i = 0; i < 100000 && meanwhile < 100; i++) {
        /* Two sizes, so that it is not always the same call that finds its mask empty at the goal. */
        void *object = tern_alloc(i % 3 != 0 ? 16 : 48);
        made_meanwhile = NULL;
        watched = object;
        tern_weak *reference = tern_weak_new(object);
        watched = NULL;
        meanwhile += made_meanwhile != NULL;
        assert_true(made_meanwhile == NULL || made_meanwhile == reference);
        assert_ptr_equal(tern_weak_new(object), reference);
    }
    tern_on_cycle(NULL, NULL);
    tern_set_gc_percent(percent);
    assert_true(meanwhile >= 10);
}

#define THREADS 8
static void **common;            /* COUNT objects that all threads ask about; managed */
static tern_weak **got[THREADS]; /* COUNT references a thread; managed */

static void *ask(void *argument) {
    size_t me = (size_t)(uintptr_t)argument;
    for (size_t i = 0; i < COUNT; i++) {
        got[me][i] = tern_weak_new(common[i]);
        for (size_t n = 0; n < 10; n++)
            tern_weak_new(tern_alloc(24));
        if (i % 250 == me * 30)
            tern_collect();
    }
    return NULL;
}

static void threads_that_ask_at_once_get_the_same_reference(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    common = tern_alloc_array(COUNT, sizeof *common);
    for (size_t i = 0; i < COUNT; i++)
        common[i] = tern_alloc(32);
    for (size_t i = 0; i < THREADS; i++)
        got[i] = tern_alloc_array(COUNT, sizeof *got[i]);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(tern_pthread_create(&threads[i], NULL, ask, (void *)(uintptr_t)i), 0);
    tern_blocking_begin();
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tern_blocking_end();
    for (size_t i = 0; i < COUNT; i++)
        for (size_t t = 0; t < THREADS; t++) {
            assert_ptr_equal(got[t][i], got[0][i]);
            assert_ptr_equal(tern_weak_get(got[t][i]), common[i]);
        }
    common = NULL;
    memset(got, 0, sizeof got);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gives_the_pointer_that_it_was_first_given),
        cmocka_unit_test(an_object_has_one_reference_while_that_lives),
        cmocka_unit_test(what_has_no_death_of_its_own_is_refused),
        cmocka_unit_test(it_does_not_keep_its_object_alive),
        cmocka_unit_test(a_dropped_reference_is_forgotten_and_made_anew),
        cmocka_unit_test(a_slot_used_again_has_a_reference_of_its_own),
        cmocka_unit_test(it_is_null_before_the_cleanup_runs),
        cmocka_unit_test(a_million_dropped_references_leave_the_memory_flat),
        cmocka_unit_test(one_that_was_made_meanwhile_is_the_one),
        cmocka_unit_test(threads_that_ask_at_once_get_the_same_reference),
    };
    tern_options options;
    tern_options_init(&options);
    options.manual_cleanups = 1;
    if (tern_init(&options) != 0 || tern_root_add(&objects, sizeof objects) != 0 ||
        tern_root_add(&weak, sizeof weak) != 0 || tern_root_add(&common, sizeof common) != 0 ||
        tern_root_add(got, sizeof got) != 0 || tern_root_add(&made_meanwhile, sizeof made_meanwhile) != 0)
        return 1;
    objects = tern_alloc_array(COUNT, sizeof *objects);
    weak = tern_alloc_array(COUNT, sizeof *weak);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    tern_shutdown();
    return failures;
}
