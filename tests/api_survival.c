/*
 * What is reachable survives, however it is reached: with a collection at every slow path, or at the usual
 * triggers, each checked by gcverify. Every scenario runs in a child of its own and must end well without a
 * word on standard error. What a collection frees is overwritten under gcverify, so an object that was lost
 * shows by its contents too.
 *
 * Objects that one thing alone leads to are otherwise known by the complement of their address, which leads
 * nowhere. tests/survival_places.h has the places that need assembly.
 *
 * ctest: timeout=300 lanes=none,address
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "garbage.h"
#include "survival_places.h"

/* ---- trees and lists ---- */

struct node {
    struct node *left, *right;
    uint64_t depth;
    uint64_t rest[];
};

/* Sizes differ by depth, so that several classes are in use. */
static struct node *tree(uint64_t depth) {
    struct node *n = tern_alloc(sizeof *n + depth % 4 * 16);
    n->depth = depth;
    if (depth > 0) {
        tern_store(&n->left, tree(depth - 1));
        tern_store(&n->right, tree(depth - 1));
    }
    return n;
}

static bool tree_is_whole(const struct node *n, uint64_t depth) {
    if (n->depth != depth)
        return false;
    return depth == 0 || (tree_is_whole(n->left, depth - 1) && tree_is_whole(n->right, depth - 1));
}

/* Two at a time: one is kept while the other is built, and some garbage in between. */
static int trees(uint64_t depth) {
    struct node *kept = tree(depth);
    for (int i = 0; i < 3; i++) {
        struct node *next = tree(depth - (depth > 4 ? 2 : 0));
        if (!tree_is_whole(kept, depth) || !tree_is_whole(next, next->depth))
            return 1;
    }
    tern_collect();
    return !tree_is_whole(kept, depth);
}

static int trees_of_12(void) {
    return trees(12);
}
static int trees_of_16(void) {
    return trees(16);
}
static int trees_of_18(void) {
    return trees(18);
}
static int trees_of_20(void) {
    return trees(20);
}

struct link {
    struct link *next;
    uint64_t number;
};

static int list(uint64_t count) {
    struct link *first = NULL;
    for (uint64_t i = 0; i < count; i++) {
        struct link *l = tern_alloc(sizeof *l);
        tern_store(&l->next, first);
        l->number = i;
        first = l;
    }
    tern_collect();
    for (uint64_t i = count; i-- > 0; first = first->next)
        if (first->number != i)
            return 1;
    return first != NULL;
}

static int list_of_10000(void) {
    return list(10000);
}

static void *build_long_list(void *result) {
    *(int *)result = list(under_thread_sanitizer() ? 300000 : 10000000);
    return NULL;
}

/* Neither building nor marking it needs a deep stack. */
static int list_of_10_million_on_a_small_stack(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    int result = 1;
    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstacksize(&attributes, small_stack_bytes()) != 0 ||
        tern_pthread_create(&thread, &attributes, build_long_list, &result) != 0)
        return 2;
    join(thread);
    return result;
}

/* ---- many threads ---- */

#define THREADS 64

static pthread_barrier_t all_are_there;

static void *grow_a_tree(void *result) {
    tern_blocking_begin();
    pthread_barrier_wait(&all_are_there);
    tern_blocking_end();
    *(int *)result = trees(5) != 0 || list(200) != 0;
    return NULL;
}

static int threads_at_once(void) {
    pthread_t threads[THREADS];
    int results[THREADS];
    if (pthread_barrier_init(&all_are_there, NULL, THREADS) != 0)
        return 2;
    for (size_t i = 0; i < THREADS; i++)
        if (tern_pthread_create(&threads[i], NULL, grow_a_tree, &results[i]) != 0)
            return 3;
    int failed = 0;
    for (size_t i = 0; i < THREADS; i++) {
        join(threads[i]);
        failed += results[i];
    }
    return failed;
}

/* ---- one root alone leads to an object ---- */

static void *only;

/* Stores a pointer `offset` bytes into a new pair of objects of `size` bytes. */
static NOINLINE uintptr_t new_pair_at(void **place, size_t size, size_t offset) {
    char *object = new_pair(size);
    *place = object + offset;
    return ~(uintptr_t)object;
}

static int survives_by_root(size_t size, size_t offset) {
    if (tern_root_add(&only, sizeof only) != 0)
        return 2;
    uintptr_t hidden = new_pair_at(&only, size, offset);
    collect_and_churn();
    int result = pair_is_whole(hidden, size) ? 0 : 1;
    only = NULL;
    tern_root_remove(&only);
    return result;
}

static int interior_pointers(void) {
    return survives_by_root(64, 33) != 0 || survives_by_root(1000, 999) != 0 ||
           survives_by_root(100000, 5) != 0 || survives_by_root(100000, 99999) != 0;
}

/* All three fill their slots or pages to the last byte. */
static int one_past_the_end(void) {
    return survives_by_root(64, 64) != 0 || survives_by_root(1024, 1024) != 0 ||
           survives_by_root(40960, 40960) != 0;
}

static __thread void *thread_variable[3];

static void *use_thread_variable(void *result) {
    *(int *)result = 2;
    if (tern_root_add(thread_variable, sizeof thread_variable) != 0)
        return NULL;
    uintptr_t hidden = new_pair_at(&thread_variable[1], 64, 0);
    collect_and_churn();
    *(int *)result = !pair_is_whole(hidden, 64);
    tern_root_remove(thread_variable);
    return NULL;
}

static int thread_variables(void) {
    pthread_t threads[4];
    int results[4], failed = 0;
    for (size_t i = 0; i < 4; i++)
        if (tern_pthread_create(&threads[i], NULL, use_thread_variable, &results[i]) != 0)
            return 3;
    for (size_t i = 0; i < 4; i++) {
        join(threads[i]);
        failed += results[i];
    }
    return failed;
}

/* The last field of the last element, of a small and of a large array. */
static int typed_fields(void) {
    static const uint64_t bitmap[1] = {1u << 1 | 1u << 4};
    const tern_type *type = tern_type_new("five words", 40, bitmap);
    static void **holder;
    if (type == NULL || tern_root_add(&holder, sizeof holder) != 0)
        return 2;
    static const size_t counts[] = {1, 3, 2000};
    for (size_t i = 0; i < 3; i++) {
        holder = tern_alloc_typed(type, counts[i]);
        uintptr_t hidden = new_pair_at(&holder[counts[i] * 5 - 1], 64, 0);
        uintptr_t inside = new_pair_at(&holder[1], 64, 20);
        collect_and_churn();
        if (!pair_is_whole(hidden, 64) || !pair_is_whole(inside, 64))
            return 1;
    }
    tern_root_remove(&holder);
    return 0;
}

static void trace_from_second_word(const void *object, size_t size, tern_tracer *tracer) {
    tern_trace_range(tracer, (void *const *)object + 1, size / sizeof(void *) - 1);
}

static int traced_fields(void) {
    const tern_type *type = tern_traced_type_new("from the second word", trace_from_second_word);
    static void **holder;
    if (type == NULL || tern_root_add(&holder, sizeof holder) != 0)
        return 2;
    holder = tern_alloc_traced(type, 120);
    uintptr_t before = new_pair_at(&holder[14], 64, 0);
    collect_and_churn();
    if (!pair_is_whole(before, 64))
        return 1;
    tern_publish(holder);
    uintptr_t after = new_pair_at(&holder[1], 64, 0);
    collect_and_churn();
    tern_root_remove(&holder);
    return !pair_is_whole(before, 64) || !pair_is_whole(after, 64);
}

static int handles(void) {
    tern_handle handle = tern_handle_new(NULL);
    void *object = NULL;
    uintptr_t hidden = new_pair_at(&object, 64, 0);
    tern_handle_set(handle, object);
    object = NULL;
    collect_and_churn();
    return !pair_is_whole(hidden, 64) || tern_handle_get(handle) != (void *)~hidden;
}

static void cleanup_argument_is_whole(void *argument) {
    if (!pair_is_whole(~(uintptr_t)argument, 64))
        abort();
}

static NOINLINE uintptr_t add_cleanup(void *object) {
    void *argument = new_pair(64);
    if (tern_cleanup_add(object, cleanup_argument_is_whole, argument) == 0)
        abort();
    return ~(uintptr_t)argument;
}

static int cleanup_arguments(void) {
    void *object = tern_alloc(64);
    uintptr_t hidden = add_cleanup(object);
    collect_and_churn();
    bool whole = pair_is_whole(hidden, 64);
    tern_keep(object);
    return !whole;
}

/* ---- running them ---- */

struct scenario {
    const char *name;
    int (*function)(void);
    bool signals; /* threads must be stopped where they are: not at polls */
};

/* Those that a test runs once more with other settings come last. */
static const struct scenario often[] = {
    {"trees of depth 12", trees_of_12, false},
    {"a list of 10,000", list_of_10000, false},
    {"64 threads at once", threads_at_once, false},
    {"general registers", general_registers, true},
    {"vector registers", vector_registers, true},
    {"callee-saved registers in a blocking section", registers_while_blocked, false},
    {"interior pointers", interior_pointers, false},
    {"pointers one past the end", one_past_the_end, false},
    {"an alternate signal stack", alternate_stack, true},
    {"the stack below a signal on an alternate stack", stack_below_alternate_stack, true},
    {"a registered __thread variable", thread_variables, false},
    {"typed fields", typed_fields, false},
    {"traced fields", traced_fields, false},
    {"a handle", handles, false},
    {"a cleanup's argument", cleanup_arguments, false},
};

static const struct scenario seldom[] = {
    {"trees of depth 16", trees_of_16, false},
    {"trees of depth 18", trees_of_18, false},
    {"trees of depth 20", trees_of_20, false},
    {"a list of 10 million on a small stack", list_of_10_million_on_a_small_stack, false},
};

static bool cooperative; /* the lane's environment says so */

struct run {
    const struct scenario *scenario;
    const char *debug;
};

static int run_scenario(void *argument) {
    const struct run *run = argument;
    char debug[128];
    snprintf(debug, sizeof debug, "%s%s", run->debug, cooperative ? ",cooperative=1" : "");
    setenv("TERN_GODEBUG", debug, 1);
    if (tern_init(NULL) != 0)
        return 100;
    int result = run->scenario->function();
    tern_shutdown();
    return result;
}

static void run_all(const struct scenario *scenarios, size_t count, const char *debug) {
    for (size_t i = 0; i < count; i++) {
        struct run run = {&scenarios[i], debug};
        char text[4096];
        if (scenarios[i].signals && cooperative) {
            print_message("  %s: left out: threads stop at polls here\n", scenarios[i].name);
            continue;
        }
        int status = in_child(run_scenario, &run, text, sizeof text);
        print_message("  %s, %s: %s%s\n", debug, scenarios[i].name, status == 0 ? "ok" : "FAILED ", text);
        assert_string_equal(text, "");
        assert_int_equal(status, 0);
    }
}

#define RUN_ALL(scenarios, debug) run_all(scenarios, sizeof(scenarios) / sizeof(scenarios)[0], debug)

static void everything_survives_a_collection_at_every_slow_path(void **state) {
    (void)state;
    RUN_ALL(often, "gcverify=1,gcstress=1");
}

static void large_graphs_survive_the_usual_triggers(void **state) {
    (void)state;
    RUN_ALL(seldom, "gcverify=1");
}

static void large_graphs_survive_random_collections(void **state) {
    (void)state;
    run_all(seldom, part_of(sizeof seldom / sizeof seldom[0]), "gcverify=1,gcstress=10000");
}

int main(void) {
    const char *debug = getenv("TERN_GODEBUG");
    cooperative = debug != NULL && strstr(debug, "cooperative=1") != NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_survives_a_collection_at_every_slow_path),
        cmocka_unit_test(large_graphs_survive_the_usual_triggers),
        cmocka_unit_test(large_graphs_survive_random_collections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
