/*
 * A stop comes at any instruction: here it comes at every one. A call of the library runs under the
 * processor's trap flag; after each of its instructions the SIGTRAP handler has a second thread run a whole
 * collection, checked by gcverify, and waits for it where the thread can be stopped (depth 0, running).
 * Elsewhere (inside S1, while it becomes blocked, before it is attached) it now and then asks for a
 * collection and goes on, so that the thread meets the stop on its way out. Afterwards what the call returned
 * must still be allocated, whole, and nobody else's.
 *
 * Seen to fail, on copies of the library broken on purpose:
 * - alloc_take_slot writes the mask before it forms the address: "words, 64 bytes: the object is not there
 * any more"
 * - tiny_open hides the block's address for an instruction: gcverify, "the open tiny block ... is not
 * allocated"
 * - large_alloc keeps a page number in place of the address: "leaf, 100000 bytes: the object is not zeroed"
 * - the signal's handler does not look at the depth: gcverify, "two objects would overlap"
 * - mutator_leave does not look at stop_word: "no collection within 20 s: attach, alloc"
 *
 * ctest: timeout=300 lanes=none,address
 * (ThreadSanitizer's lane stops threads at polls: there is no signal that could come at any instruction.)
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__x86_64__)
int main(void) {
    puts("skipped: single-stepping a thread from within needs the trap flag of x86_64");
    return 77;
}
#else

#include <setjmp.h>
#include <unistd.h>

#include <cmocka.h>

#include "gc/alloc.h"
#include "gc/settings.h"
#include "stepper.h"

typedef void *call_function(void *argument);

static NOINLINE void *stepped(const char *name, call_function *call, void *argument) {
    begin(name, false);
    trap_on();
    void *result = call(argument);
    trap_off();
    end();
    return result;
}

/* ---- what must stay whole: a registered root leads to it ---- */

#define KEPT_MOST 400

static struct kept {
    unsigned char *at;
    size_t bytes;
    unsigned char fill;
} kept[KEPT_MOST], sorted[KEPT_MOST];
static size_t kept_count;

static int by_address(const void *a, const void *b) {
    const struct kept *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void must(bool condition, const char *name, const char *what) {
    if (!condition)
        fail_msg("%s: %s", name, what);
}

static void check_kept(const char *name) {
    for (size_t i = 0; i < kept_count; i++) {
        tern_object found;
        must(tern_object_find(kept[i].at, &found), name, "the object is not there any more");
        must((unsigned char *)found.base + found.size >= kept[i].at + kept[i].bytes, name,
             "the object shrank");
        for (size_t b = 0; b < kept[i].bytes; b++)
            must(kept[i].at[b] == kept[i].fill, name, "the object was overwritten");
    }
    memcpy(sorted, kept, sizeof sorted);
    qsort(sorted, kept_count, sizeof sorted[0], by_address);
    for (size_t i = 1; i < kept_count; i++)
        must(sorted[i - 1].at + sorted[i - 1].bytes <= sorted[i].at, name, "two objects overlap");
}

static void keep(const char *name, void *object, size_t bytes) {
    must(object != NULL, name, "there is no object");
    must(kept_count < KEPT_MOST, name, "too many objects for this test");
    struct kept *k = &kept[kept_count];
    *k = (struct kept){object, bytes, (unsigned char)(kept_count * 2 + 1)};
    memset(object, k->fill, bytes);
    kept_count++;
}

/* As keep, of a fresh object: it is zeroed. */
static void keep_new(const char *name, void *object, size_t bytes) {
    must(object != NULL, name, "there is no object");
    for (size_t b = 0; b < bytes; b++)
        must(((unsigned char *)object)[b] == 0, name, "the object is not zeroed");
    keep(name, object, bytes);
}

/* Allocates more of the same and overwrites it; then everything kept must be as it was. */
static void check_by_churning(const char *name, call_function *call, void *argument, size_t bytes) {
    collect();
    check_kept(name);
    for (int i = 0; i < 150; i++)
        memset(call(argument), 0xee, bytes);
    collect();
    check_kept(name);
}

/* ---- allocation ---- */

static const tern_type *pair_type, *traced_type;

static void trace_all(const void *object, size_t size, tern_tracer *tracer) {
    tern_trace_range(tracer, object, size / sizeof(void *));
}

enum state { ANY, OPEN, EMPTY };

struct allocation {
    const char *name;
    size_t bytes;
    enum kind kind;
    enum state mask;  /* of the open mask before the call */
    bool fresh_block; /* of tiny objects: the open block is full */
};

static void *allocate(void *argument) {
    const struct allocation *a = argument;
    switch (a->kind) {
    case KIND_LEAF:
        return tern_alloc_leaf_single(a->bytes);
    case KIND_WORDS:
        return tern_alloc(a->bytes);
    case KIND_TYPED:
        return tern_alloc_typed(pair_type, a->bytes / 16);
    case KIND_TRACED:
        return tern_alloc_traced(traced_type, a->bytes);
    default:
        return tern_alloc_leaf(a->bytes);
    }
}

static void *allocate_and_publish(void *argument) {
    void *object = allocate(argument);
    tern_publish(object);
    return object;
}

/* Brings the open mask, and the open tiny block, into the state that the call is to meet. */
static void prepare(const struct allocation *a) {
    size_t slot = a->kind == KIND_TINY ? 16 : a->bytes + (a->kind >= KIND_TYPED ? 8 : 0);
    const _Atomic uint64_t *bits = &mutator_self->masks[a->kind][sizeclass_of(slot)].bits;
    if (a->mask == OPEN || a->mask == EMPTY)
        while ((atomic_load(bits) == 0) != (a->mask == EMPTY))
            tern_keep(allocate((void *)a));
    if (a->kind != KIND_TINY)
        return;
    while (mutator_self->tiny_base == NULL || (mutator_self->tiny_offset + a->bytes > 16) != a->fresh_block)
        tern_keep(tern_alloc_leaf(a->fresh_block ? a->bytes : 9));
}

static const struct allocation small[] = {
    {"words, 64 bytes", 64, KIND_WORDS, OPEN, false},
    {"words, 64 bytes, mask empty", 64, KIND_WORDS, EMPTY, false},
    {"words, 8 bytes", 8, KIND_WORDS, OPEN, false},
    {"words, 8 bytes, mask empty", 8, KIND_WORDS, EMPTY, false},
    {"words, 288 bytes", 288, KIND_WORDS, OPEN, false},
    {"words, 3072 bytes, mask empty", 3072, KIND_WORDS, EMPTY, false},
    {"words, 32 KiB", 32768, KIND_WORDS, EMPTY, false},
    {"leaf, 48 bytes", 48, KIND_LEAF, OPEN, false},
    {"leaf, 48 bytes, mask empty", 48, KIND_LEAF, EMPTY, false},
    {"typed, 64 bytes", 64, KIND_TYPED, OPEN, false},
    {"typed, 64 bytes, mask empty", 64, KIND_TYPED, EMPTY, false},
    {"tiny, 5 bytes, in the open block", 5, KIND_TINY, ANY, false},
    {"tiny, 5 bytes, opening a block", 5, KIND_TINY, OPEN, true},
    {"tiny, 5 bytes, opening a block, mask empty", 5, KIND_TINY, EMPTY, true},
};

static NOINLINE void step_allocation(const struct allocation *a, call_function *call) {
    collect();
    prepare(a);
    keep_new(a->name, stepped(a->name, call, (void *)a), a->bytes);
    check_by_churning(a->name, call, (void *)a, a->bytes);
}

static void small_objects(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        step_allocation(&small[i], allocate);
}

static void large_objects(void **state) {
    (void)state;
    static const struct allocation large[] = {
        {"words, 40000 bytes", 40000, KIND_WORDS, ANY, false},
        {"leaf, 100000 bytes", 100000, KIND_LEAF, ANY, false},
        {"typed, 48000 bytes", 48000, KIND_TYPED, ANY, false},
    };
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        step_allocation(&large[i], allocate);
}

static void traced_objects(void **state) {
    (void)state;
    static const struct allocation traced[] = {
        {"traced and published, 56 bytes", 56, KIND_TRACED, OPEN, false},
        {"traced and published, 56 bytes, mask empty", 56, KIND_TRACED, EMPTY, false},
    };
    for (size_t i = 0; i < sizeof traced / sizeof traced[0]; i++)
        step_allocation(&traced[i], allocate_and_publish);
}

static void *allocate_aligned(void *unused) {
    (void)unused;
    return tern_alloc_aligned(256, 100, false);
}

static void aligned_objects(void **state) {
    (void)state;
    void *object = stepped("aligned to 256, 100 bytes", allocate_aligned, NULL);
    assert_int_equal((uintptr_t)object % 256, 0);
    keep_new("aligned", object, 100);
    check_by_churning("aligned", allocate_aligned, NULL, 100);
}

/* A slow path that collects by itself, on a thread that others stop meanwhile. */
static void a_slow_path_that_collects(void **state) {
    (void)state;
    static const struct allocation a = {"words, 96 bytes, collecting first", 96, KIND_WORDS, EMPTY, false};
    prepare(&a);
    settings.stress = 1u << 30;
    mutator_self->stress_left = 1;
    tern_stats before = stats();
    keep_new(a.name, stepped(a.name, allocate, (void *)&a), a.bytes);
    settings.stress = 0;
    mutator_self->stress_left = 0;
    tern_stats after = stats();
    assert_true(after.collections - after.forced > before.collections - before.forced);
    check_by_churning(a.name, allocate, (void *)&a, a.bytes);
}

/* ---- realloc ---- */

struct resize {
    const char *name;
    size_t from, to;
    bool leaf, moves;
    void *object; /* set when it is called; a registered root */
};

static struct resize resizes[] = {
    {"realloc, 64 to 60 bytes, in place", 64, 60, false, false, NULL},
    {"realloc, 64 to 200 bytes", 64, 200, false, true, NULL},
    {"realloc, 5 to 40 bytes, out of a tiny block", 5, 40, true, true, NULL},
    {"realloc, 100000 to 90000 bytes, in place", 100000, 90000, true, false, NULL},
    {"realloc, 1000 to 40000 bytes", 1000, 40000, true, true, NULL},
};

static void *resize(void *argument) {
    struct resize *r = argument;
    void *object = r->object;
    r->object = NULL;
    return tern_realloc(object, r->to);
}

static NOINLINE void step_resize(struct resize *r) {
    r->object = r->leaf ? tern_alloc_leaf(r->from) : tern_alloc(r->from);
    unsigned char *before = r->object;
    memset(before, 0x77, r->from);
    unsigned char *after = stepped(r->name, resize, r);
    must((after != before) == r->moves, r->name, r->moves ? "it did not move" : "it moved");
    for (size_t b = 0; b < r->to; b++)
        must(after[b] == (b < r->from ? 0x77 : 0), r->name,
             "contents were not kept, or the rest is not zero");
    keep(r->name, after, r->to);
    collect();
    check_kept(r->name);
}

static void resized_objects(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof resizes / sizeof resizes[0]; i++)
        step_resize(&resizes[i]);
}

/* ---- stores, weak references, handles, cleanups, roots ---- */

struct pointers {
    void **field, *value;
};

static void *store(void *argument) {
    struct pointers *p = argument;
    tern_store(p->field, p->value);
    return NULL;
}

static void stores(void **state) {
    (void)state;
    static void **holder;
    assert_int_equal(tern_root_add(&holder, sizeof holder), 0);
    holder = tern_alloc(32);
    struct pointers p = {&holder[3], tern_alloc(48)};
    memset(p.value, 0x33, 48);
    stepped("store", store, &p);
    p.value = NULL;
    collect();
    unsigned char *object = holder[3];
    for (int b = 0; b < 48; b++)
        assert_int_equal(object[b], 0x33);
    tern_root_remove(&holder);
}

static void *make_weak(void *argument) {
    return tern_weak_new(argument);
}
static void *get_weak(void *argument) {
    return tern_weak_get(argument);
}

static void weak_references(void **state) {
    (void)state;
    char *object = tern_alloc(80);
    tern_weak *weak = stepped("weak_new", make_weak, object + 8);
    assert_non_null(weak);
    assert_ptr_equal(stepped("weak_new, of one that has one", make_weak, object), weak);
    assert_ptr_equal(stepped("weak_get", get_weak, weak), object + 8);
    collect();
    assert_ptr_equal(tern_weak_get(weak), object + 8);
    keep("weak_get", tern_weak_get(weak), 72);
    tern_keep(object);
}

static tern_handle handle;

static void *make_handle(void *unused) {
    (void)unused;
    void *object = tern_alloc(72);
    memset(object, 0x44, 72);
    handle = tern_handle_new(object);
    return NULL;
}
static void *set_handle(void *unused) {
    (void)unused;
    void *object = tern_alloc(72);
    memset(object, 0x45, 72);
    tern_handle_set(handle, object);
    return NULL;
}
static void *get_handle(void *unused) {
    (void)unused;
    return tern_handle_get(handle);
}
static void *free_handle(void *unused) {
    (void)unused;
    tern_handle_free(handle);
    return NULL;
}

static NOINLINE void check_handle(int byte) {
    collect();
    unsigned char *object = stepped("handle_get", get_handle, NULL);
    for (int b = 0; b < 72; b++)
        assert_int_equal(object[b], byte);
}

static void handles(void **state) {
    (void)state;
    stepped("alloc and handle_new", make_handle, NULL);
    check_handle(0x44);
    stepped("alloc and handle_set", set_handle, NULL);
    check_handle(0x45);
    stepped("handle_free", free_handle, NULL);
}

static uint64_t cleanup_id;
static void *cleanup_argument_hidden;
static int cleanups_run;

static void clean_up(void *argument) {
    cleanups_run++;
    for (int b = 0; b < 56; b++)
        if (((unsigned char *)argument)[b] != 0x46)
            cleanups_run = -1000;
}

/* The argument is reachable through the cleanup only. */
static void *add_cleanup(void *object) {
    void *argument = tern_alloc(56);
    memset(argument, 0x46, 56);
    cleanup_argument_hidden = (void *)~(uintptr_t)argument;
    cleanup_id = tern_cleanup_add(object, clean_up, argument);
    return object;
}
static void *remove_cleanup(void *object) {
    assert_true(tern_cleanup_remove(cleanup_id));
    return object;
}

static void cleanups(void **state) {
    (void)state;
    void *object = tern_alloc(80);
    stepped("alloc and cleanup_add", add_cleanup, object);
    assert_int_not_equal(cleanup_id, 0);
    collect();
    assert_true(tern_object_find((void *)~(uintptr_t)cleanup_argument_hidden, NULL));
    assert_int_equal(tern_run_cleanups(0), 0);
    stepped("cleanup_remove", remove_cleanup, object);
    stepped("alloc and cleanup_add", add_cleanup, object);
    keep("cleanup_add", object, 80);
    check_kept("cleanup_add");
    assert_int_equal(cleanups_run, 0);
}

static void *root_words[4];

static void *add_root(void *unused) {
    (void)unused;
    assert_int_equal(tern_root_add(root_words, sizeof root_words), 0);
    return NULL;
}
static void *remove_root(void *unused) {
    (void)unused;
    assert_int_equal(tern_root_remove(root_words), 0);
    return NULL;
}

static void registered_roots(void **state) {
    (void)state;
    stepped("root_add", add_root, NULL);
    root_words[2] = tern_alloc(40);
    memset(root_words[2], 0x47, 40);
    collect();
    for (int b = 0; b < 40; b++)
        assert_int_equal(((unsigned char *)root_words[2])[b], 0x47);
    stepped("root_remove", remove_root, NULL);
}

/* ---- threads ---- */

static NOINLINE void block_for_a_while(void) {
    tern_blocking_begin();
    clear_stack();
    tern_blocking_end();
}

static void blocking_sections(void **state) {
    (void)state;
    begin("blocking section", true);
    trap_on();
    block_for_a_while();
    trap_off();
    end();
}

static void *collect_once(void *unused) {
    (void)unused;
    tern_collect();
    return NULL;
}

static void a_collection_of_its_own(void **state) {
    (void)state;
    stepped("collect", collect_once, NULL);
    check_kept("collect");
}

static NOINLINE void *attach_and_allocate(void) {
    return tern_thread_attach() == 0 ? tern_alloc(64) : NULL;
}

static void *attached_thread(void *result) {
    begin("attach, alloc", false);
    trap_on();
    void *object = attach_and_allocate();
    trap_off();
    end();
    *(int *)result = object == NULL;
    if (object == NULL)
        return NULL;
    memset(object, 0x48, 64);
    wait_for(ask());
    for (int b = 0; b < 64; b++)
        if (((unsigned char *)object)[b] != 0x48)
            *(int *)result = 1;
    begin("detach", false);
    trap_on();
    tern_thread_detach();
    trap_off();
    end();
    return NULL;
}

/* The key's destructor ends the stepping: it was made after the library's own, so it runs after it. */
static pthread_key_t last_key;

static void stop_stepping(void *unused) {
    (void)unused;
    trap_off();
}

static void *thread_that_just_ends(void *result) {
    if (pthread_setspecific(last_key, result) != 0)
        abort();
    begin("alloc that attaches, detach at exit", false);
    trap_on();
    *(int *)result = tern_alloc(64) == NULL;
    return NULL;
}

static void join_fresh_thread(call_function *function) {
    pthread_t thread;
    int result = 0;
    assert_int_equal(pthread_create(&thread, NULL, function, &result), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(result, 0);
}

static void threads_that_come_and_go(void **state) {
    (void)state;
    join_fresh_thread(attached_thread);
    join_fresh_thread(thread_that_just_ends);
    end();
    collect();
    assert_int_equal(stats().threads, 2);
    check_kept("threads");
}

/* ---- */

static pthread_t collector_thread;

static int start(void **state) {
    (void)state;
    struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction abort_ = {.sa_handler = on_abort, .sa_flags = (int)SA_RESETHAND};
    tern_options options;
    setenv("TERN_GODEBUG", "gcverify=1,markers=1", 1);
    tern_options_init(&options);
    options.gc_percent = TERN_GC_OFF;
    options.manual_cleanups =
        1; /* their thread would be made within a stepped call, where signals are blocked */
    if (sigaction(SIGTRAP, &trap, NULL) != 0 || sigaction(SIGABRT, &abort_, NULL) != 0 ||
        tern_init(&options) != 0)
        return -1;
    static const uint64_t bitmap[1] = {2};
    pair_type = tern_type_new("pair", 16, bitmap);
    traced_type = tern_traced_type_new("traced", trace_all);
    if (tern_root_add(kept, sizeof kept) != 0 || tern_root_add(resizes, sizeof resizes) != 0 ||
        pthread_key_create(&last_key, stop_stepping) != 0)
        return -1;
    tern_on_cycle(on_cycle, NULL);
    /* The collector's own threads are there before anything is stepped. */
    tern_collect();
    return tern_pthread_create(&collector_thread, NULL, collector, NULL);
}

static int finish(void **state) {
    (void)state;
    quitting = true;
    ask();
    tern_blocking_begin();
    pthread_join(collector_thread, NULL);
    tern_blocking_end();
    print_message(
        "stepped %lu instructions; %lu collections at an instruction, %lu met in passing, %lu in all\n",
        (unsigned long)all_instructions, (unsigned long)all_waited, (unsigned long)all_passed,
        (unsigned long)stats().collections);
    tern_shutdown();
    return calls_without == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_objects),
        cmocka_unit_test(large_objects),
        cmocka_unit_test(traced_objects),
        cmocka_unit_test(aligned_objects),
        cmocka_unit_test(a_slow_path_that_collects),
        cmocka_unit_test(resized_objects),
        cmocka_unit_test(stores),
        cmocka_unit_test(weak_references),
        cmocka_unit_test(handles),
        cmocka_unit_test(cleanups),
        cmocka_unit_test(registered_roots),
        cmocka_unit_test(blocking_sections),
        cmocka_unit_test(a_collection_of_its_own),
        cmocka_unit_test(threads_that_come_and_go),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
#endif
