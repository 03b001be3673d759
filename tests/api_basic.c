/* Each call of the public interface: what it gives, and the errors that its comment promises. */
#include "child.h"

static const uint64_t first_word[1] = {1};

static void trace_nothing(const void *object, size_t size, tern_tracer *tracer) {
    (void)object;
    (void)size;
    (void)tracer;
}

#define REFUSED(call, error)            \
    do {                                \
        errno = 0;                      \
        assert_null(call);              \
        assert_int_equal(errno, error); \
    } while (0)

static void the_version_is_the_headers(void **state) {
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", TERN_VERSION_MAJOR, TERN_VERSION_MINOR, TERN_VERSION_PATCH);
    assert_string_equal(tern_version(), text);
}

static void types_are_checked(void **state) {
    (void)state;
    static uint64_t large[(1 << 20) / 8 / 64 + 1];
    REFUSED((void *)(uintptr_t)tern_type_new("x", 0, first_word), EINVAL);
    REFUSED((void *)(uintptr_t)tern_type_new("x", 12, first_word), EINVAL);
    REFUSED((void *)(uintptr_t)tern_type_new("x", 8, NULL), EINVAL);
    REFUSED((void *)(uintptr_t)tern_type_new("x", (1 << 20) + 8, large), EINVAL);
    assert_non_null(tern_type_new("x", 1 << 20, large));
    assert_non_null(tern_type_new(NULL, 8, first_word));
    REFUSED((void *)(uintptr_t)tern_traced_type_new("x", NULL), EINVAL);
    const tern_type *typed = tern_type_new("typed", 8, first_word);
    const tern_type *traced = tern_traced_type_new(NULL, trace_nothing);
    REFUSED(tern_alloc_typed(NULL, 1), EINVAL);
    REFUSED(tern_alloc_typed(traced, 1), EINVAL);
    REFUSED(tern_alloc_traced(NULL, 8), EINVAL);
    REFUSED(tern_alloc_traced(typed, 8), EINVAL);
}

static void an_object_can_be_looked_up(void **state) {
    (void)state;
    tern_object found;
    char name[] = "named";
    const tern_type *typed = tern_type_new(name, 24, first_word);
    name[0] = 'X'; /* it was copied */
    const struct {
        char *object;
        size_t size;
        tern_kind kind;
        const char *type;
    } cases[] = {
        {tern_alloc(40), 48, TERN_KIND_WORDS, NULL},
        {tern_alloc_leaf(40), 48, TERN_KIND_LEAF, NULL},
        {tern_alloc_leaf_single(3), 8, TERN_KIND_LEAF, NULL},
        {tern_alloc_typed(typed, 3), 72, TERN_KIND_TYPED, "named"},
        {tern_alloc_traced(tern_traced_type_new(NULL, trace_nothing), 20), 24, TERN_KIND_TRACED, NULL},
        {tern_alloc(32768), 32768, TERN_KIND_WORDS, NULL},
        {tern_alloc(32769), 40960, TERN_KIND_WORDS, NULL},
        {tern_alloc_typed(typed, 10000), 245760 - 8, TERN_KIND_TYPED, "named"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t offsets[] = {0, 1, cases[i].size - 1};
        for (size_t o = 0; o < 3; o++) {
            assert_true(tern_object_find(cases[i].object + offsets[o], &found));
            assert_ptr_equal(found.base, cases[i].object);
            assert_int_equal(found.size, cases[i].size);
            assert_int_equal(found.kind, cases[i].kind);
            if (cases[i].type == NULL)
                assert_null(found.type_name);
            else
                assert_string_equal(found.type_name, cases[i].type);
        }
    }
    char *tiny = tern_alloc_leaf(5);
    assert_true(tern_object_find(tiny, &found));
    assert_int_equal(found.kind, TERN_KIND_TINY);
    assert_int_equal(found.size, 16);
    assert_true((char *)found.base <= tiny && tiny + 5 <= (char *)found.base + 16);
}

static void what_is_no_object_is_not_found(void **state) {
    (void)state;
    int local;
    void *outside = malloc(10);
    /* The next object of the class is not handed out yet. */
    char *last = tern_alloc(3000), *next;
    while ((next = tern_alloc(3000)) < last)
        last = next;
    const void *none[] = {
        NULL, &local, outside, (void *)8, (void *)UINTPTR_MAX, (void *)(uintptr_t)trace_nothing};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(tern_object_find(none[i], NULL));
    free(outside);
}

struct walked {
    const void *wanted[3];
    unsigned found[3], all, stop_after;
};

static bool visit(const tern_object *object, void *context) {
    struct walked *w = context;
    for (unsigned i = 0; i < 3; i++)
        w->found[i] += object->base == w->wanted[i];
    return ++w->all != w->stop_after;
}

static void a_walk_meets_each_object_once(void **state) {
    (void)state;
    struct walked w = {
        {tern_alloc(24), tern_alloc_leaf(100000), tern_alloc_typed(tern_type_new("t", 8, first_word), 1)},
        {0, 0, 0},
        0,
        0};
    tern_heap_walk(visit, &w);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(w.found[i], 1);
    unsigned all = w.all;
    w.all = 0;
    w.stop_after = 2;
    tern_heap_walk(visit, &w);
    assert_int_equal(w.all, 2);
    /* A walk is no allocation: it meets the same ones again. */
    w.all = w.stop_after = 0;
    tern_heap_walk(visit, &w);
    assert_int_equal(w.all, all);
    for (unsigned i = 0; i < 3; i++)
        tern_keep(w.wanted[i]);
}

static NOINLINE void drop_large(void) {
    memset(tern_alloc_leaf(10 << 20), 1, 10 << 20);
}

static void release_gives_all_free_memory_back(void **state) {
    (void)state;
    drop_large();
    clear_stack();
    uint64_t returned = stats().returned_bytes;
    tern_release_memory();
    assert_true(stats().returned_bytes - returned >= 10 << 20);
    assert_int_equal(stats().heap_free_bytes, 0);
    char *again = tern_alloc_leaf(10 << 20);
    for (size_t i = 0; i < 10 << 20; i += 512)
        assert_int_equal(again[i], 0);
}

static void external_bytes_count_in_the_total(void **state) {
    (void)state;
    tern_stats before = stats();
    tern_external_add(100 << 20);
    tern_stats after = stats();
    assert_int_equal(after.external_bytes - before.external_bytes, 100 << 20);
    assert_true(after.total_bytes >= 100 << 20);
    assert_true(after.peak_total_bytes >= after.total_bytes);
    tern_external_add(-(100 << 20));
    assert_int_equal(stats().external_bytes, before.external_bytes);
}

static int take_too_much(void *unused) {
    (void)unused;
    tern_external_add(10);
    tern_external_add(-11);
    return 0;
}
static int take_the_most(void *unused) {
    (void)unused;
    tern_external_add(INT64_MIN);
    return 0;
}
static int publish_nothing(void *unused) {
    (void)unused;
    tern_publish(tern_alloc(8));
    return 0;
}
static int shut_down_twice(void *unused) {
    (void)unused;
    tern_keep(tern_alloc(8));
    tern_shutdown();
    tern_shutdown();
    return 0;
}
static int use_after_shutdown(void *unused) {
    (void)unused;
    tern_keep(tern_alloc(8));
    tern_shutdown();
    tern_keep(tern_alloc(8));
    return 0;
}
static int shut_down_first(void *unused) {
    (void)unused;
    tern_shutdown();
    return 0;
}

static void misuse_stops_the_program_with_a_line(void **state) {
    (void)state;
    child_aborts(take_too_much, NULL, "tern_external_add took away more bytes than were declared");
    child_aborts(take_the_most, NULL, "tern_external_add took away more bytes than were declared");
    child_aborts(publish_nothing, NULL, "tern_publish of something that is no traced object");
    child_aborts(shut_down_twice, NULL, "tern_shutdown without a running library");
    child_aborts(use_after_shutdown, NULL, "the library was used after tern_shutdown");
    child_aborts(shut_down_first, NULL, "tern_shutdown without a running library");
}

/* The callback after each collection. */
static tern_cycle last;
static unsigned cycles;
static void note_cycle(const tern_cycle *cycle, void *context) {
    last = *cycle;
    ++*(unsigned *)context;
    tern_keep(tern_alloc(100)); /* it may allocate */
}

static void the_callback_tells_what_the_statistics_tell(void **state) {
    (void)state;
    assert_null((void *)(uintptr_t)tern_on_cycle(note_cycle, &cycles));
    tern_collect();
    tern_stats s = stats();
    assert_int_equal(cycles, 1);
    assert_int_equal(last.number, s.collections);
    assert_true(last.forced);
    assert_int_equal(last.live_bytes, s.live_bytes);
    assert_int_equal(last.next_goal_bytes, s.goal_bytes);
    assert_true(last.pause_ns <= s.pause_max_ns && last.stopping_ns <= last.pause_ns &&
                last.mark_ns <= last.pause_ns);
    for (unsigned i = 0; i < 1000 && cycles == 1; i++)
        tern_keep(tern_alloc(100000));
    assert_true(cycles > 1);
    assert_false(last.forced);
    assert_true(tern_on_cycle(NULL, NULL) == note_cycle);
    unsigned before = cycles;
    tern_collect();
    assert_int_equal(cycles, before);
}

static void stats_have_a_size(void **state) {
    (void)state;
    tern_stats s;
    s.size = 0;
    errno = 0;
    assert_int_equal(tern_stats_read(&s), -1);
    assert_int_equal(errno, EINVAL);
    s.size = sizeof s + 1;
    assert_int_equal(tern_stats_read(&s), -1);
    /* An older program's, shorter: nothing behind it is written. */
    memset(&s, 0xee, sizeof s);
    s.size = offsetof(tern_stats, goal_bytes);
    assert_int_equal(tern_stats_read(&s), 0);
    assert_int_equal(s.size, offsetof(tern_stats, goal_bytes));
    assert_int_equal(s.goal_bytes, UINT64_C(0xeeeeeeeeeeeeeeee));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misuse_stops_the_program_with_a_line), /* first: its children start the library */
        cmocka_unit_test(the_version_is_the_headers),
        cmocka_unit_test(types_are_checked),
        cmocka_unit_test(an_object_can_be_looked_up),
        cmocka_unit_test(what_is_no_object_is_not_found),
        cmocka_unit_test(a_walk_meets_each_object_once),
        cmocka_unit_test(release_gives_all_free_memory_back),
        cmocka_unit_test(external_bytes_count_in_the_total),
        cmocka_unit_test(the_callback_tells_what_the_statistics_tell),
        cmocka_unit_test(stats_have_a_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
