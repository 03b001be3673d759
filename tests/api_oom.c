/*
 * Out of memory: NULL and ENOMEM, after a collection, the handler's word, and one message. The heap's address
 * range is made small by RLIMIT_AS, each time in a process of its own. ctest: lanes=none
 */
#include "child.h"

/* Where all that is allocated hangs: a registered root. No list, of which one stale word could keep all. */
#define MOST 400000
static void *held[MOST];

static void limit_address_space(void) {
    struct rlimit little = {(rlim_t)400 << 20, (rlim_t)400 << 20};
    must(setrlimit(RLIMIT_AS, &little) == 0);
    setenv("TERN_GOGC", "off", 1);
    must(tern_init(NULL) == 0 && tern_root_add(held, sizeof held) == 0);
}

#define BYTES 1024

/* Takes all there is; how many objects that was. */
static NOINLINE size_t exhaust(void) {
    size_t count = 0;
    while (count < MOST && (held[count] = tern_alloc(BYTES)) != NULL) {
        *(size_t *)held[count] = count;
        count++;
    }
    must(count < MOST);
    return count;
}

static int give_up(void *unused) {
    (void)unused;
    limit_address_space();
    errno = 0;
    size_t count = exhaust();
    must(errno == ENOMEM && count > 50000);
    must(stats().collections >= 1); /* never without one */
    uint64_t before = stats().collections;
    errno = 0;
    must(tern_alloc(BYTES) == NULL && errno == ENOMEM);
    must(tern_alloc_leaf(100000) == NULL &&
         tern_alloc_typed(tern_type_new("t", 8, (uint64_t[]){1}), 4000) == NULL);
    must(stats().collections > before);
    for (size_t i = 0; i < count; i++) /* what was there is whole */
        must(*(size_t *)held[i] == i);
    return 0;
}

static void an_exhausted_heap_gives_null_and_says_so_once(void **state) {
    (void)state;
    child_passes(give_up, NULL);
    assert_int_equal(child_lines(), 1);
    assert_non_null(strstr(child_text, "tern: out of memory: 1024 bytes asked for; heap "));
    assert_non_null(strstr(child_text, "limit off"));
}

static int go_on(void *unused) {
    (void)unused;
    limit_address_space();
    size_t count = exhaust();
    for (unsigned round = 0; round < 3; round++) {
        memset(held, 0, sizeof held);
        clear_stack();
        must(exhaust() >= NEARLY(count));
    }
    return 0;
}

static void dropped_memory_can_be_had_again(void **state) {
    (void)state;
    child_passes(go_on, NULL);
}

/* The handler drops what it can spare: the allocation succeeds after all. */
#define SPARE 50000
static unsigned asked;
static size_t asked_size;

static bool drop_spare(size_t size, void *context) {
    must(context == &asked);
    asked_size = size;
    tern_collect(); /* it may use the library */
    for (size_t i = 0; i < SPARE; i++)
        held[i] = NULL;
    return asked++ == 0;
}

static int be_asked(void *unused) {
    (void)unused;
    limit_address_space();
    must(tern_on_out_of_memory(drop_spare, &asked) == NULL);
    size_t count = exhaust();
    must(asked == 2 && asked_size == BYTES); /* the first time it helped */
    must(count > 2 * SPARE);
    must(tern_alloc(SIZE_MAX) == NULL && asked == 3 && asked_size == SIZE_MAX);
    must(tern_on_out_of_memory(NULL, NULL) == drop_spare);
    must(tern_alloc(SIZE_MAX / 3) == NULL && asked == 3);
    return 0;
}

static void the_handler_is_asked_once_for_each_failure(void **state) {
    (void)state;
    child_passes(be_asked, NULL);
    assert_int_equal(child_lines(), 1); /* the one without a handler */
}

static bool insist(size_t size, void *context) {
    (void)size;
    ++*(unsigned *)context;
    return true;
}

static int insist_in_vain(void *unused) {
    (void)unused;
    unsigned calls = 0;
    tern_on_out_of_memory(insist, &calls);
    must(tern_alloc((size_t)1 << 60) == NULL && calls == 1);
    return 0;
}

static void a_handler_that_insists_is_not_asked_for_ever(void **state) {
    (void)state;
    child_passes(insist_in_vain, NULL);
}

/* After a large one that failed small ones still work, and the books hold nothing of it. */
static int fail_large(void *unused) {
    (void)unused;
    limit_address_space();
    uint64_t total = stats().total_bytes;
    for (unsigned i = 0; i < 10; i++)
        must(tern_alloc((size_t)1 << 30) == NULL && errno == ENOMEM);
    must(stats().total_bytes <= total + (2 << 20));
    must(tern_alloc(1 << 20) != NULL);
    return 0;
}

static void a_failed_large_allocation_leaves_nothing_behind(void **state) {
    (void)state;
    child_passes(fail_large, NULL);
}

/* No stacks for more threads, no records: errors, not crashes. */
static int fail_tables(void *unused) {
    (void)unused;
    size_t count = 0;
    limit_address_space();
    while (tern_handle_new(&count) != 0)
        must(++count < (size_t)1 << 30);
    must(errno == ENOMEM && count > 100000);
    must(tern_alloc(64) != NULL); /* the heap's range is reserved already */
    tern_collect();
    return 0;
}

static void tables_that_cannot_grow_give_an_error(void **state) {
    (void)state;
    child_passes(fail_tables, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exhausted_heap_gives_null_and_says_so_once),
        cmocka_unit_test(dropped_memory_can_be_had_again),
        cmocka_unit_test(the_handler_is_asked_once_for_each_failure),
        cmocka_unit_test(a_handler_that_insists_is_not_asked_for_ever),
        cmocka_unit_test(a_failed_large_allocation_leaves_nothing_behind),
        cmocka_unit_test(tables_that_cannot_grow_give_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
