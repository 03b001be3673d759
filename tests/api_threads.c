/* Threads of a program: many allocate at once, come and go, block, and change settings. */
#include "child.h"

#include <pthread.h>
#include <stdatomic.h>

static void join(pthread_t *threads, size_t count) {
    tern_blocking_begin();
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    tern_blocking_end();
}

static atomic_size_t wrong;

struct list {
    struct list *next;
    uint64_t value;
};

/* Builds and checks lists of its own while others do the same. */
static void *build_lists(void *argument) {
    uint64_t seed = 1 + (uint64_t)(uintptr_t)argument;
    for (unsigned round = 0; round < 5; round++) {
        struct list *head = NULL;
        uint64_t sum = 0;
        for (unsigned i = 0; i < scaled(2000); i++) {
            struct list *one = tern_alloc(sizeof *one + next_random(&seed) % 100);
            if (one->next != NULL || one->value != 0)
                wrong++;
            one->value = next_random(&seed);
            sum += one->value;
            tern_store(&one->next, head);
            head = one;
            char *leaf = tern_alloc_leaf(1 + i % 20);
            memset(leaf, 0xff, 1 + i % 20);
            if (i % 500 == 0)
                memset(tern_alloc_leaf(40000), 0xff, 40000);
        }
        for (; head != NULL; head = head->next)
            sum -= head->value;
        if (sum != 0)
            wrong++;
    }
    return NULL;
}

#define MANY 64
static void sixty_four_threads_allocate_at_once(void **state) {
    (void)state;
    pthread_t threads[MANY];
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(tern_pthread_create(&threads[i], NULL, build_lists, (void *)i), 0);
    join(threads, MANY);
    assert_int_equal(wrong, 0);
    assert_int_equal(stats().threads, 1);
}

static void *detach_and_allocate(void *argument) {
    size_t i = (size_t)(uintptr_t)argument;
    if (tern_thread_is_attached())
        wrong++;
    if (i % 3 == 0) {
        tern_thread_detach(); /* of one that is not */
        if (tern_thread_attach() != 0 || tern_thread_attach() != 0 || !tern_thread_is_attached())
            wrong++;
    }
    for (unsigned n = 0; n < 100; n++)
        tern_keep(tern_alloc(8 + n * 8));
    if (!tern_thread_is_attached())
        wrong++;
    if (i % 2 == 0) {
        tern_thread_detach();
        if (tern_thread_is_attached())
            wrong++;
        if (i % 4 == 0)
            tern_keep(tern_alloc(100)); /* and by itself again */
    }
    return NULL;
}

static atomic_bool over;
static void *collect_meanwhile(void *unused) {
    (void)unused;
    while (!atomic_load(&over))
        tern_collect();
    return NULL;
}

static void five_hundred_threads_attach_and_detach(void **state) {
    (void)state;
    pthread_t collector, threads[20];
    atomic_store(&over, false);
    assert_int_equal(tern_pthread_create(&collector, NULL, collect_meanwhile, NULL), 0);
    uint64_t off_heap = 0;
    for (size_t i = 0; i < 500; i += 20) {
        for (size_t j = 0; j < 20; j++)
            assert_int_equal(pthread_create(&threads[j], NULL, detach_and_allocate, (void *)(i + j)), 0);
        join(threads, 20);
        if (i == 100)
            off_heap = stats().off_heap_bytes;
    }
    atomic_store(&over, true);
    join(&collector, 1);
    assert_int_equal(wrong, 0);
    assert_int_equal(stats().threads, 1);
    assert_true(stats().off_heap_bytes <= off_heap + (512 << 10));
}

static void counts_survive_their_threads(void **state) {
    (void)state;
    tern_stats before = stats();
    pthread_t threads[10];
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, detach_and_allocate, (void *)1), 0);
    join(threads, 10);
    tern_stats after = stats();
    assert_int_equal(after.alloc_count - before.alloc_count, 10 * 100);
}

/* Nothing but the new thread's argument leads to the object. */
static void *look_at_argument(void *argument) {
    for (unsigned i = 0; i < 3; i++)
        tern_collect();
    uint64_t *object = argument;
    if (object[0] != 0x1234567812345678 || object[7] != 0x8765432187654321)
        wrong++;
    return object;
}

static NOINLINE int create_with_argument(pthread_t *thread) {
    uint64_t *object = tern_alloc(64);
    object[0] = 0x1234567812345678;
    object[7] = 0x8765432187654321;
    return tern_pthread_create(thread, NULL, look_at_argument, object);
}

static void a_new_threads_argument_survives_until_it_runs(void **state) {
    (void)state;
    pthread_t threads[20];
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(create_with_argument(&threads[i]), 0);
        collect();
    }
    join(threads, 20);
    assert_int_equal(wrong, 0);
}

static void *end_at_once(void *argument) {
    return argument;
}

static void what_pthread_create_refuses_is_its_error(void **state) {
    (void)state;
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    static char small[1 << 20];
    assert_int_equal(pthread_attr_setstack(&attributes, small, sizeof small), 0);
    assert_int_equal(tern_pthread_create(&thread, &attributes, end_at_once, NULL), 0);
    join(&thread, 1);
    pthread_attr_destroy(&attributes);
    struct sched_param priority = {.sched_priority = 12345};
    pthread_attr_init(&attributes);
    if (pthread_attr_setschedpolicy(&attributes, SCHED_FIFO) == 0 &&
        pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED) == 0) {
        priority.sched_priority = 1;
        pthread_attr_setschedparam(&attributes, &priority);
        int error = tern_pthread_create(&thread, &attributes, end_at_once, NULL);
        if (error == 0)
            join(&thread, 1);
        else
            assert_true(error == EPERM || error == EINVAL || error == EAGAIN);
    }
    pthread_attr_destroy(&attributes);
    assert_int_equal(stats().threads, 1);
}

static void *block_and_work(void *unused) {
    (void)unused;
    while (!atomic_load(&over)) {
        void **object = tern_alloc(64);
        object[7] = object;
        tern_blocking_begin();
        sched_yield();
        tern_blocking_end();
        if (object[7] != object)
            wrong++;
    }
    return NULL;
}

static void blocking_sections_and_collections_go_together(void **state) {
    (void)state;
    pthread_t threads[6];
    atomic_store(&over, false);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(tern_pthread_create(&threads[i], NULL, block_and_work, NULL), 0);
    for (unsigned i = 0; i < 100; i++)
        tern_collect();
    atomic_store(&over, true);
    join(threads, 6);
    assert_int_equal(wrong, 0);
}

/* One object of each class, then the thread detaches, over and over: each class's count is small, and
 * changes. */
static void *allocate_each_class_once(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < 30; i++) {
        for (unsigned c = 1; c < TERN_SIZE_CLASSES; c++) {
            tern_keep(tern_alloc(tern_size_class_bytes(c)));
            for (volatile unsigned spin = 0; spin < (i * 67 + c) % 200; spin++) {
            }
        }
        tern_thread_detach();
    }
    atomic_store(&over, true);
    return NULL;
}

/* Counts that others are changing are recent values: none that never was. */
static int read_counts_meanwhile(void *unused) {
    (void)unused;
    pthread_t thread;
    atomic_store(&over, false);
    tern_set_gc_percent(TERN_GC_OFF);
    must(tern_pthread_create(&thread, NULL, allocate_each_class_once, NULL) == 0);
    while (!atomic_load(&over)) {
        tern_stats now = stats();
        for (unsigned c = 0; c < TERN_SIZE_CLASSES; c++)
            must(now.alloc_count_by_class[c] <= 30 + 64); /* what is being taken or given back may count */
        must(now.threads >= 1 && now.threads <= 2);
    }
    join(&thread, 1);
    tern_stats end = stats();
    for (unsigned c = 1; c < TERN_SIZE_CLASSES; c++)
        must(end.alloc_count_by_class[c] == 30);
    return 0;
}

static void counts_make_sense_at_any_moment(void **state) {
    (void)state;
    for (unsigned i = 0; i < 5; i++)
        child_passes(read_counts_meanwhile, NULL);
}

/* Settings change from all sides while collections come. */
static void *set_knobs(void *argument) {
    for (unsigned i = 0; i < 20000; i++) {
        if (tern_set_knob("GOGC", (i + (uintptr_t)argument) % 2 == 0 ? "100" : "200") != 0)
            wrong++;
        tern_keep(tern_alloc(100));
    }
    return NULL;
}

static int set_knobs_while_collecting(void *unused) {
    (void)unused;
    pthread_t threads[4], collector;
    atomic_store(&over, false);
    must(tern_pthread_create(&collector, NULL, collect_meanwhile, NULL) == 0);
    for (size_t i = 0; i < 4; i++)
        must(tern_pthread_create(&threads[i], NULL, set_knobs, (void *)i) == 0);
    join(threads, 4);
    atomic_store(&over, true);
    join(&collector, 1);
    must(wrong == 0);
    return 0;
}

static int set_knobs_cooperatively(void *argument) {
    setenv("TERN_GODEBUG", "cooperative=1", 1);
    return set_knobs_while_collecting(argument);
}

static void knobs_may_be_set_while_others_collect(void **state) {
    (void)state;
    child_passes(set_knobs_while_collecting, NULL);
    child_passes(set_knobs_cooperatively, NULL);
}

static int enter_twice(void *unused) {
    (void)unused;
    tern_blocking_begin();
    tern_blocking_begin();
    return 0;
}

static void a_nested_blocking_section_stops_the_program(void **state) {
    (void)state;
    child_aborts(enter_twice, NULL, "a blocking section was begun inside another one");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knobs_may_be_set_while_others_collect), /* first: children start the library */
        cmocka_unit_test(counts_make_sense_at_any_moment),
        cmocka_unit_test(a_nested_blocking_section_stops_the_program),
        cmocka_unit_test(sixty_four_threads_allocate_at_once),
        cmocka_unit_test(five_hundred_threads_attach_and_detach),
        cmocka_unit_test(counts_survive_their_threads),
        cmocka_unit_test(a_new_threads_argument_survives_until_it_runs),
        cmocka_unit_test(what_pthread_create_refuses_is_its_error),
        cmocka_unit_test(blocking_sections_and_collections_go_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
