/*
 * A stop comes at any instruction (rules S1 to S3, S5, S8), part two: with nothing to fall back on.
 *
 * A whole collection, under gcverify, after each instruction of each call: single_step.h has the machinery.
 *
 * Seen to fail:
 *   - alloc_take_slot that writes the mask, then forms the address from mask->base and the bit's index (rule
 * S2): "words 16, open mask: the object is not there any more"
 *   - mutator_leave that does not look at stop_word (S1):
 *     "a stop was asked for and the thread does not look: words 16, empty mask, instruction ..."
 *
 * ctest: serial timeout=300 lanes=none
 * (AddressSanitizer's own instructions would be stepped too, and take minutes; ThreadSanitizer delays
 * signals.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#if !defined(__x86_64__)
int main(void) {
    puts("skipped: the trap flag is x86_64's");
    return 77;
}
#else

#include "single_step_objects.h"

static NOINLINE void step_allocation(const struct operation *op) {
    begin(op->name);
    for (unsigned round = 0; round < rounds_wanted(); round++) {
        prepare(op);
        struct kept *k = keep(op->name, stepped(op->call, op), op->bytes);
        must(k->at != NULL, op->name, "there is no object");
        must(zeroed(k->at, k->bytes), op->name, "the object is not zeroed");
        k->seed = new_seed();
        fill(k->at, k->bytes, k->seed);
        collect();
        check_kept();
        churn(op);
        collect();
        check_kept();
    }
    end();
}

static void an_object_is_whole_wherever_its_allocation_is_stopped(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof allocations / sizeof allocations[0]; i++)
        step_allocation(&allocations[i]);
}

static void *resize(const struct operation *op) {
    return tern_realloc(take(), op->bytes);
}

static const struct operation resizes[] = {
    {"realloc 64 to 60, in place", resize, 60, KIND_WORDS, ANY, false, 64, false},
    {"realloc 48 to 512", resize, 512, KIND_WORDS, ANY, false, 48, true},
    {"realloc 512 to 600, leaf", resize, 600, KIND_LEAF, ANY, false, 512, true},
    {"realloc 5 to 14, tiny", resize, 14, KIND_TINY, ANY, false, 5, true},
    {"realloc 5 to 40, out of a tiny block", resize, 40, KIND_TINY, ANY, false, 5, true},
    {"realloc 1000 to 40000", resize, 40000, KIND_WORDS, ANY, false, 1000, true},
    {"realloc 100000 to 90000, in place", resize, 90000, KIND_WORDS, ANY, false, 100000, false},
    {"realloc 100000 to 1000", resize, 1000, KIND_LEAF, ANY, false, 100000, true},
};

/* A filled object, in the root `taken` only. Returns its address, hidden. */
static NOINLINE uintptr_t make_taken(size_t bytes, bool is_leaf, uint64_t seed) {
    taken = is_leaf ? tern_alloc_leaf(bytes) : tern_alloc(bytes);
    fill(taken, bytes, seed);
    return ~(uintptr_t)taken;
}

static NOINLINE void step_resize(const struct operation *op) {
    begin(op->name);
    size_t common = op->from < op->bytes ? op->from : op->bytes;
    for (unsigned round = 0; round < rounds_wanted(); round++) {
        uint64_t seed = new_seed();
        uintptr_t before = make_taken(op->from, op->kind != KIND_WORDS, seed);
        clear_stack();
        struct kept *k = keep(op->name, stepped(op->call, op), op->bytes);
        k->seed = seed;
        must(k->at != NULL, op->name, "there is no object");
        must(((uintptr_t)k->at != ~before) == op->moves, op->name,
             op->moves ? "it did not move" : "it moved");
        must(holds(k->at, common, seed), op->name, "the contents were not kept");
        must(zeroed(k->at + common, op->bytes - common), op->name, "what is beyond the old size is not zero");
        fill(k->at, k->bytes, seed);
        collect();
        check_kept();
        churn(&allocations[3]);
        collect();
        check_kept();
    }
    end();
}

static void a_resized_object_is_whole_wherever_it_is_stopped(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof resizes / sizeof resizes[0]; i++)
        step_resize(&resizes[i]);
}

/* ---- calls that are given an object, taken from its root, and keep it reachable ---- */

static void **holder;       /* a root */
static tern_weak *weak;     /* a root */
static tern_handle handle;  /* of the object */
static void *root_words[4]; /* a root while registered */
static uint64_t cleanup;
static void *cleanup_object; /* a root */

static void *store(const struct operation *op) {
    (void)op;
    tern_store(&holder[3], take());
    return NULL;
}
static void *after_store(const struct operation *op) {
    (void)op;
    void *object = holder[3];
    tern_store(&holder[3], NULL);
    return object;
}
static void *handle_new(const struct operation *op) {
    (void)op;
    handle = tern_handle_new(take());
    return NULL;
}
static void *handle_get(const struct operation *op) {
    (void)op;
    return tern_handle_get(handle);
}
static void *handle_set(const struct operation *op) {
    (void)op;
    tern_handle_set(handle, take());
    return NULL;
}
static void *handle_get_and_free(const struct operation *op) {
    (void)op;
    void *object = tern_handle_get(handle);
    tern_handle_free(handle);
    return object;
}
static void never(void *argument) {
    (void)argument;
    abort();
}
static void *cleanup_add(const struct operation *op) {
    (void)op;
    cleanup = tern_cleanup_add(cleanup_object, never, take());
    return NULL;
}
static void *cleanup_remove(const struct operation *op) {
    (void)op;
    return tern_cleanup_remove(cleanup) ? cleanup_object : NULL;
}
static void *root_add(const struct operation *op) {
    (void)op;
    void *object = root_words[2] = take();
    if (tern_root_add(root_words, sizeof root_words) != 0)
        abort();
    tern_keep(object);
    return NULL;
}
static void *root_remove(const struct operation *op) {
    (void)op;
    void *object = root_words[2];
    if (tern_root_remove(root_words) != 0)
        abort();
    root_words[2] = NULL;
    return object;
}
static NOINLINE void block(void) {
    tern_blocking_begin();
    clear_stack();
    tern_blocking_end();
}
static void *blocking(const struct operation *op) {
    (void)op;
    void *object = take();
    block();
    return object;
}
/* Nothing but a vector register, then nothing but the red zone, holds the object for a few instructions. */
static void *vector_and_red_zone(const struct operation *op) {
    (void)op;
    void *object = take();
    __asm__ volatile("movq %0, %%xmm13\n\txorl %k0, %k0\n\tnop\n\tnop\n\tmovq %%xmm13, %0\n\t"
                     "pxor %%xmm13, %%xmm13\n\t"
                     "movq %0, -120(%%rsp)\n\txorl %k0, %k0\n\tnop\n\tnop\n\tmovq -120(%%rsp), %0"
                     : "+r"(object)
                     :
                     : "xmm13", "cc", "memory");
    return object;
}
static void *weak_new(const struct operation *op) {
    (void)op;
    void *object = take();
    weak = tern_weak_new((char *)object + 8);
    return object;
}
static void *weak_get(const struct operation *op) {
    (void)op;
    return tern_weak_get(weak);
}

#define GIVEN_BYTES 72

/*
 * Steps `call`, which takes a fresh object and puts it somewhere, and `back`, which returns it from there.
 * Without `back`, `call` returns it.
 */
static NOINLINE void step_given(const char *name, call_function *call, const char *back_name,
                                call_function *back) {
    struct sum there = {0}, again = {0};
    for (unsigned round = 0; round < rounds_wanted(); round++) {
        uint64_t seed = new_seed();
        uintptr_t hidden = make_taken(GIVEN_BYTES, false, seed);
        clear_stack();
        begin(name);
        struct kept *k = NULL;
        if (back == NULL) {
            k = keep(name, stepped(call, NULL), GIVEN_BYTES);
            k->seed = seed;
            add_to(&there);
        } else {
            stepped(call, NULL);
            add_to(&there);
            collect();
            must(tern_object_find((void *)~hidden, NULL), name, "the object is not reachable");
            begin(back_name);
            k = keep(back_name, stepped(back, NULL), GIVEN_BYTES);
            k->seed = seed;
            add_to(&again);
        }
        must((uintptr_t)k->at == ~hidden, k->name, "another object came back");
        collect();
        check_kept();
    }
    tell(&there);
    if (back != NULL)
        tell(&again);
}

static void what_is_stored_stays_reachable(void **state) {
    (void)state;
    holder = tern_alloc(48);
    step_given("store", store, "store of NULL over it", after_store);
    step_given("handle_new", handle_new, "handle_get and free", handle_get_and_free);
    handle = tern_handle_new(NULL);
    step_given("handle_set", handle_set, "handle_get", handle_get);
    tern_handle_free(handle);
    step_given("root_add", root_add, "root_remove", root_remove);
}

static void a_blocked_thread_keeps_its_objects(void **state) {
    (void)state;
    step_given("blocking section", blocking, NULL, NULL);
}

static void vector_registers_and_the_red_zone_are_roots(void **state) {
    (void)state;
    step_given("vector register, red zone", vector_and_red_zone, NULL, NULL);
}

static void a_cleanup_keeps_its_argument_and_can_be_taken_back(void **state) {
    (void)state;
    struct sum adding = {0}, removing = {0};
    for (unsigned round = 0; round < rounds_wanted(); round++) {
        cleanup_object = tern_alloc(80);
        uint64_t seed = new_seed();
        uintptr_t hidden = make_taken(GIVEN_BYTES, false, seed);
        clear_stack();
        begin("cleanup_add");
        stepped(cleanup_add, NULL);
        add_to(&adding);
        assert_true(cleanup != 0);
        collect();
        must(tern_object_find((void *)~hidden, NULL), "cleanup_add", "the argument is not reachable");
        must(holds((unsigned char *)~hidden, GIVEN_BYTES, seed), "cleanup_add",
             "the argument was overwritten");
        begin("cleanup_remove");
        void *object = stepped(cleanup_remove, NULL);
        add_to(&removing);
        must(object == cleanup_object, "cleanup_remove", "the cleanup was not known");
        cleanup_object = NULL;
        object = NULL;
        collect();
        assert_int_equal(tern_run_cleanups(0), 0);
        check_kept();
    }
    tell(&adding);
    tell(&removing);
}

static void a_weak_reference_can_be_made_anywhere(void **state) {
    (void)state;
    step_given("weak_new", weak_new, NULL, NULL);
    assert_ptr_equal(tern_weak_get(weak), kept[(kept_next - 1) % KEPT_MOST].at + 8);
}

static NOINLINE void make_dropped(uint64_t seed) {
    make_taken(GIVEN_BYTES, false, seed);
    weak = tern_weak_new(taken);
    dropped = taken;
    taken = NULL;
}

/* The object loses its last other reference before the n-th instruction of the read, for each n. */
static void a_weak_read_gives_a_whole_object_or_none(void **state) {
    (void)state;
    size_t whole = 0, none = 0;
    begin("weak_get of an object that is dropped");
    for (uint64_t n = 1; n <= 200; n++) {
        uint64_t seed = new_seed();
        make_dropped(seed);
        clear_stack();
        step.drop_at = n;
        void *object = stepped(weak_get, NULL);
        bool finished = step.instructions < n;
        if (object == NULL) {
            must(!finished, step.name, "it gave nothing for an object that was held");
            none++;
            continue;
        }
        keep(step.name, object, GIVEN_BYTES)->seed = seed;
        object = NULL;
        dropped = NULL;
        whole++;
        if (n % 10 == 0 || finished) {
            collect();
            check_kept();
        }
        if (finished)
            break;
    }
    collect();
    check_kept();
    end();
    print_message("  %zu whole, %zu gone\n", whole, none);
    assert_true(whole > 0);
    assert_true(none > 0);
}

/* ---- threads that come and go; they assert nothing themselves ---- */

static void *attach(const struct operation *op) {
    (void)op;
    if (tern_thread_attach() != 0)
        abort();
    return NULL;
}
static void *detach(const struct operation *op) {
    (void)op;
    tern_thread_detach();
    return NULL;
}

static const struct operation in_fresh_thread = {
    "words 48 in a fresh thread", words, 48, KIND_WORDS, ANY, false, 0, false};

static struct sum attaching, attaching_by_allocating, allocating, detaching;

static void keep_in_thread(void *object) {
    struct kept *k = keep(in_fresh_thread.name, object, in_fresh_thread.bytes);
    if (object == NULL || !zeroed(object, k->bytes))
        abort();
    k->seed = new_seed();
    fill(k->at, k->bytes, k->seed);
}

static void detach_stepped(void) {
    begin("detach");
    stepped(detach, NULL);
    add_to(&detaching);
}

static void *attached_and_detached(void *unused) {
    (void)unused;
    begin("attach");
    stepped(attach, NULL);
    add_to(&attaching);
    begin(in_fresh_thread.name);
    keep_in_thread(stepped(words, &in_fresh_thread));
    add_to(&allocating);
    detach_stepped();
    return NULL;
}

static void *attached_by_allocating(void *unused) {
    (void)unused;
    begin("attach by allocating");
    keep_in_thread(stepped(words, &in_fresh_thread));
    add_to(&attaching_by_allocating);
    detach_stepped();
    return NULL;
}

static void run_thread(void *(*function)(void *)) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, function, NULL), 0);
    tern_blocking_begin();
    pthread_join(thread, NULL);
    tern_blocking_end();
    collect();
    check_kept();
}

static void threads_attach_and_detach_anywhere(void **state) {
    (void)state;
    for (unsigned round = 0; round < rounds_wanted(); round++) {
        run_thread(attached_and_detached);
        run_thread(attached_by_allocating);
    }
    tell(&attaching);
    tell(&attaching_by_allocating);
    tell(&allocating);
    tell(&detaching);
    assert_int_equal(stats().threads, 2); /* this one and the collector */
}

/* An argument is a filter of test names. */
int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_is_whole_wherever_its_allocation_is_stopped),
        cmocka_unit_test(a_resized_object_is_whole_wherever_it_is_stopped),
        cmocka_unit_test(what_is_stored_stays_reachable),
        cmocka_unit_test(a_blocked_thread_keeps_its_objects),
        cmocka_unit_test(vector_registers_and_the_red_zone_are_roots),
        cmocka_unit_test(a_cleanup_keeps_its_argument_and_can_be_taken_back),
        cmocka_unit_test(a_weak_reference_can_be_made_anywhere),
        cmocka_unit_test(a_weak_read_gives_a_whole_object_or_none),
        cmocka_unit_test(threads_attach_and_detach_anywhere),
    };
    pthread_t thread = single_step_start(TERN_STORES_PLAIN);
    if (tern_root_add(&holder, sizeof holder) != 0 || tern_root_add(&weak, sizeof weak) != 0 ||
        tern_root_add(&cleanup_object, sizeof cleanup_object) != 0)
        return 1;
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    single_step_end(thread);
    return failures;
}

#endif
