/* Roots: what keeps objects alive, and what does not any more. */
#include "child.h"

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "gc/mark.h"
#include "gc/mutator.h"
#include "gc/roots.h"

#define COUNT 200

/* Where objects are, hidden from the collector. */
static uintptr_t hidden[COUNT];

static NOINLINE void *hide(void *object, size_t i) {
    hidden[i] = ~(uintptr_t)object;
    return object;
}

/* Whether object i survived. Its slot is not handed out again in between: nothing is allocated. */
static bool lives(size_t i) {
    return tern_object_find((void *)~hidden[i], NULL);
}

static size_t living(void) {
    size_t n = 0;
    for (size_t i = 0; i < COUNT; i++)
        n += lives(i);
    return n;
}

static NOINLINE void fill(void **array, size_t bias) {
    for (size_t i = 0; i < COUNT; i++)
        array[i] = (char *)hide(tern_alloc_leaf_single(64), i) + bias;
    clear_stack();
}

static void a_registered_range_keeps_what_it_holds(void **state) {
    (void)state;
    void **array = calloc(COUNT, sizeof *array);
    assert_int_equal(tern_root_add(array, COUNT * sizeof *array), 0);
    static const size_t biases[] = {0, 1, 63,
                                    64}; /* the first byte, an inner one, the last, one past the end */
    for (size_t b = 0; b < 4; b++) {
        fill(array, biases[b]);
        collect_and_sweep();
        assert_int_equal(living(), COUNT);
        memset(array, 0, COUNT * sizeof *array);
        collect_and_sweep();
        assert_true(living() <= COUNT - NEARLY(COUNT));
    }
    fill(array, 0);
    assert_int_equal(tern_root_remove(array), 0);
    collect_and_sweep();
    assert_true(living() <= COUNT - NEARLY(COUNT));
    free(array);
}

static void only_whole_aligned_words_are_looked_at(void **state) {
    (void)state;
    char *bytes = calloc(1, 8 * COUNT + 16);
    assert_int_equal(tern_root_add(bytes + 1, 8 * COUNT), 0);
    for (size_t i = 0; i < COUNT; i++)
        hide(memcpy(bytes + 8 + 8 * i, &(void *){tern_alloc_leaf_single(64)}, 8), i);
    for (size_t i = 0; i < COUNT; i++)
        hidden[i] = ~*(uintptr_t *)(void *)(bytes + 8 + 8 * i);
    collect_and_sweep();
    for (size_t i = 0; i + 1 < COUNT; i++)
        assert_true(lives(i));
    assert_int_equal(tern_root_remove(bytes + 1), 0);
    free(bytes);
}

static void a_range_is_added_once_and_removed_once(void **state) {
    (void)state;
    static uintptr_t area[64];
    assert_int_equal(tern_root_add(area + 8, 16 * 8), 0);
    const struct {
        void *from;
        size_t bytes;
    } overlapping[] = {
        {area + 8, 16 * 8}, {area, 9 * 8}, {area + 23, 8}, {area + 10, 8}, {area, sizeof area}};
    for (size_t i = 0; i < sizeof overlapping / sizeof *overlapping; i++) {
        errno = 0;
        assert_int_equal(tern_root_add(overlapping[i].from, overlapping[i].bytes), -1);
        assert_int_equal(errno, EINVAL);
    }
    assert_int_equal(tern_root_add(area, 8 * 8), 0); /* neighbours on both sides */
    assert_int_equal(tern_root_add(area + 24, 8 * 8), 0);
    errno = 0;
    assert_int_equal(tern_root_remove(area + 9), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(tern_root_remove(area + 8), 0);
    assert_int_equal(tern_root_remove(area + 8), -1);
    assert_int_equal(tern_root_add(area + 8, 16 * 8), 0);
    assert_int_equal(tern_root_remove(area), 0);
    assert_int_equal(tern_root_remove(area + 24), 0);
    assert_int_equal(tern_root_remove(area + 8), 0);
}

static void bad_ranges_are_refused(void **state) {
    (void)state;
    static uintptr_t word;
    const struct {
        void *from;
        size_t bytes;
    } bad[] = {{&word, 0},
               {NULL, 8},
               {&word, SIZE_MAX},
               {(void *)(UINTPTR_MAX - 7), 16},
               {(void *)(UINTPTR_MAX - 3), 2}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        assert_int_equal(tern_root_add(bad[i].from, bad[i].bytes), -1);
        assert_int_equal(errno, EINVAL);
    }
    collect_and_sweep();
}

/* A range without a whole word in it holds no pointer; adding and removing it still are a pair. */
static void a_range_shorter_than_a_word_can_be_removed(void **state) {
    (void)state;
    static char bytes[32] __attribute__((aligned(8)));
    for (size_t offset = 0; offset < 8; offset++)
        for (size_t length = 1; length < 12; length++) {
            assert_int_equal(tern_root_add(bytes + offset, length), 0);
            collect_and_sweep();
            assert_int_equal(tern_root_remove(bytes + offset), 0);
            assert_int_equal(tern_root_remove(bytes + offset), -1);
        }
}

#define RANGES 10000
static void ten_thousand_ranges_work(void **state) {
    (void)state;
    uint64_t seed = 20260102;
    print_message("seed %llu\n", (unsigned long long)seed);
    void **words = calloc(2 * RANGES, sizeof *words);
    size_t *order = malloc(RANGES * sizeof *order);
    for (size_t i = 0; i < RANGES; i++)
        order[i] = i;
    for (size_t i = RANGES - 1; i > 0; i--) {
        size_t j = (size_t)(next_random(&seed) % (i + 1)), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    collect_and_sweep();
    uint64_t before = stats().root_bytes;
    for (size_t i = 0; i < RANGES; i++)
        assert_int_equal(tern_root_add(&words[2 * order[i]], 8), 0);
    for (size_t i = 0; i < COUNT; i++)
        words[2 * (i * 49)] = hide(tern_alloc_leaf_single(64), i);
    collect_and_sweep();
    assert_int_equal(living(), COUNT);
    assert_int_equal(stats().root_bytes, before + RANGES * 8);
    for (size_t i = 0; i < RANGES; i += 2)
        assert_int_equal(tern_root_remove(&words[2 * order[i]]), 0);
    for (size_t i = 0; i < RANGES; i++)
        assert_int_equal(tern_root_remove(&words[2 * order[i]]), i % 2 == 0 ? -1 : 0);
    collect_and_sweep();
    assert_true(living() <= COUNT - NEARLY(COUNT));
    assert_int_equal(stats().root_bytes, before);
    free(words);
    free(order);
}

/* Stacks. */

static NOINLINE void deep(unsigned depth, void *object) {
    void *volatile local[16] = {object};
    if (depth > 0)
        deep(depth - 1, NULL);
    else
        tern_collect();
    tern_keep(local[0]);
}

static void the_whole_stack_is_a_root(void **state) {
    (void)state;
    for (unsigned depth = 0; depth < 2000; depth += 500) {
        deep(depth, hide(tern_alloc_leaf_single(64), 0));
        assert_true(lives(0));
    }
}

struct waiter {
    void *held; /* not scanned: calloc'd */
    atomic_int phase;
};

/* Holds an object on its stack, and waits in a loop that never calls the library. */
static NOINLINE void *hold_and_spin(void *argument) {
    struct waiter *w = argument;
    void *volatile local = tern_alloc_leaf_single(64);
    w->held = (void *)~(uintptr_t)local;
    atomic_store(&w->phase, 1);
    while (atomic_load(&w->phase) != 2) {
    }
    tern_keep(local);
    return NULL;
}

/* The same in a blocking section. */
static NOINLINE void *hold_and_block(void *argument) {
    struct waiter *w = argument;
    void *volatile local = tern_alloc_leaf_single(64);
    w->held = (void *)~(uintptr_t)local;
    tern_blocking_begin();
    atomic_store(&w->phase, 1);
    while (atomic_load(&w->phase) != 2) {
    }
    tern_blocking_end();
    tern_keep(local);
    return NULL;
}

/* The same while it runs on its alternate stack, the object on the main one. */
static _Thread_local struct waiter *in_handler;
static void spin_in_handler(int signal) {
    (void)signal;
    atomic_store(&in_handler->phase, 1);
    while (atomic_load(&in_handler->phase) != 2) {
    }
}

static NOINLINE void *hold_in_a_handler(void *argument) {
    struct waiter *w = argument;
    stack_t alt = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
    sigaltstack(&alt, NULL);
    void *volatile local = tern_alloc_leaf_single(64);
    w->held = (void *)~(uintptr_t)local;
    in_handler = w;
    raise(SIGUSR1);
    tern_keep(local);
    alt.ss_flags = SS_DISABLE;
    sigaltstack(&alt, NULL);
    free(alt.ss_sp);
    return NULL;
}

/* The object only in a local of the handler, so on the alternate stack. */
static void hold_on_alternate(int signal) {
    (void)signal;
    struct waiter *w = in_handler;
    void *volatile local = (void *)~(uintptr_t)w->held;
    atomic_store(&w->phase, 1);
    while (atomic_load(&w->phase) != 2) {
    }
    tern_keep(local);
}

static NOINLINE void make_hidden(struct waiter *w) {
    w->held = (void *)~(uintptr_t)tern_alloc_leaf_single(64);
}

static NOINLINE void *hold_on_the_alternate_stack(void *argument) {
    struct waiter *w = argument;
    stack_t alt = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
    sigaltstack(&alt, NULL);
    make_hidden(w);
    clear_stack();
    in_handler = w;
    raise(SIGUSR2);
    alt.ss_flags = SS_DISABLE;
    sigaltstack(&alt, NULL);
    free(alt.ss_sp);
    return NULL;
}

static void check_waiter(void *(*function)(void *)) {
    for (unsigned i = 0; i < 20; i++) {
        pthread_t thread;
        struct waiter *w = calloc(1, sizeof *w);
        assert_int_equal(tern_pthread_create(&thread, NULL, function, w), 0);
        while (atomic_load(&w->phase) != 1) {
        }
        collect_and_sweep();
        assert_true(tern_object_find((void *)~(uintptr_t)w->held, NULL));
        atomic_store(&w->phase, 2);
        tern_blocking_begin();
        pthread_join(thread, NULL);
        tern_blocking_end();
        free(w);
    }
}

static void other_threads_stacks_are_roots(void **state) {
    (void)state;
    if (!cooperative())
        check_waiter(hold_and_spin);
    check_waiter(hold_and_block);
}

static void alternate_stacks_are_roots(void **state) {
    (void)state;
    if (cooperative())
        skip();
    struct sigaction action = {.sa_handler = spin_in_handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = hold_on_alternate;
    sigaction(SIGUSR2, &action, NULL);
    check_waiter(hold_in_a_handler);
    check_waiter(hold_on_the_alternate_stack);
}

/* A thread that ended is no root any more. */
static void *hold_and_end(void *argument) {
    void *volatile local = tern_alloc_leaf_single(64);
    hide(local, (size_t)(uintptr_t)argument);
    return NULL;
}

static void a_dead_threads_stack_is_no_root(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        pthread_t thread;
        assert_int_equal(tern_pthread_create(&thread, NULL, hold_and_end, (void *)i), 0);
        tern_blocking_begin();
        pthread_join(thread, NULL);
        tern_blocking_end();
    }
    collect_and_sweep();
    assert_true(living() <= COUNT - NEARLY(COUNT));
}

/* The data segments, as an option. */

static void *global[COUNT];
static void *initialised[COUNT] = {global};

static int data_segments_are(void *argument) {
    bool on = *(bool *)argument;
    tern_options options;
    tern_options_init(&options);
    options.data_segments = on;
    must(tern_init(&options) == 0);
    fill(global, 0);
    collect_and_sweep();
    must(on ? living() == COUNT : living() <= COUNT - NEARLY(COUNT));
    memset(global, 0, sizeof global);
    fill(initialised, 64);
    collect_and_sweep();
    must(on ? living() == COUNT : living() <= COUNT - NEARLY(COUNT));
    must(!on || stats().root_bytes >= sizeof global + sizeof initialised);
    return 0;
}

static void data_segments_are_roots_when_asked(void **state) {
    (void)state;
    child_passes(data_segments_are, &(bool){true});
    child_passes(data_segments_are, &(bool){false});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_segments_are_roots_when_asked), /* first: its children start the library */
        cmocka_unit_test(a_registered_range_keeps_what_it_holds),
        cmocka_unit_test(only_whole_aligned_words_are_looked_at),
        cmocka_unit_test(a_range_is_added_once_and_removed_once),
        cmocka_unit_test(bad_ranges_are_refused),
        cmocka_unit_test(a_range_shorter_than_a_word_can_be_removed),
        cmocka_unit_test(ten_thousand_ranges_work),
        cmocka_unit_test(the_whole_stack_is_a_root),
        cmocka_unit_test(other_threads_stacks_are_roots),
        cmocka_unit_test(alternate_stacks_are_roots),
        cmocka_unit_test(a_dead_threads_stack_is_no_root),
    };
    setenv("TERN_GOGC", "off", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
