/* The statistics: figures that must agree with each other, at any moment of any load. */
#include "child.h"

static void check(const tern_stats *s, const tern_stats *before) {
    assert_int_equal(s->total_bytes, s->heap_used_bytes + s->heap_free_bytes + s->metadata_bytes +
                                         s->off_heap_bytes + s->external_bytes);
    assert_true(s->peak_total_bytes >= s->total_bytes);
    assert_true(s->peak_heap_bytes >= s->heap_bytes);
    assert_true(s->heap_bytes >= s->live_bytes);
    assert_true(s->heap_used_bytes >= s->heap_bytes);
    assert_true(s->goal_bytes >= s->live_bytes);
    assert_true(s->forced <= s->collections);
    assert_int_equal(s->pause_count, s->collections);
    assert_true(s->pause_p50_ns <= s->pause_p99_ns && s->pause_p99_ns <= s->pause_max_ns);
    assert_true(s->pause_max_ns <= s->pause_total_ns &&
                s->pause_total_ns <= s->pause_max_ns * s->pause_count);
    assert_true(s->stopping_max_ns <= s->pause_max_ns);
    assert_int_equal(s->gc_cpu_ns,
                     s->gc_cpu_stop_ns + s->gc_cpu_mark_ns + s->gc_cpu_sweep_ns + s->gc_cpu_other_ns);
    assert_true(s->gc_cpu_percent >= 0 && s->gc_cpu_percent <= 100);
    uint64_t bytes = 0, count = 0;
    for (unsigned c = 0; c < TERN_SIZE_CLASSES; c++) {
        bytes += s->alloc_bytes_by_class[c];
        count += s->alloc_count_by_class[c];
        assert_true(s->alloc_count_by_class[c] >= before->alloc_count_by_class[c]);
        if (c > 0 && tern_size_class_bytes(c) != 16) /* shared blocks */
            assert_int_equal(s->alloc_bytes_by_class[c],
                             s->alloc_count_by_class[c] * tern_size_class_bytes(c));
    }
    assert_int_equal(bytes, s->alloc_bytes);
    assert_int_equal(count, s->alloc_count);
    assert_true(s->collections >= before->collections && s->alloc_bytes >= before->alloc_bytes);
    assert_true(s->peak_total_bytes >= before->peak_total_bytes &&
                s->peak_heap_bytes >= before->peak_heap_bytes);
    assert_true(s->gc_cpu_ns >= before->gc_cpu_ns && s->returned_bytes >= before->returned_bytes);
}

static void figures_agree_under_load(void **state) {
    (void)state;
    uint64_t seed = 20260104;
    print_message("seed %llu\n", (unsigned long long)seed);
    tern_stats before = stats();
    void **held = tern_alloc_array(1000, sizeof *held);
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t r = next_random(&seed);
        size_t size = r % 64 == 0 ? (r >> 8) % 500000 : r % 8 == 0 ? (r >> 8) % 5000 : (r >> 8) % 100;
        held[(r >> 40) % 1000] = r % 2 == 0 ? tern_alloc(size) : tern_alloc_leaf(size);
        if (i % 50 == 0) {
            tern_stats now = stats();
            check(&now, &before);
            before = now;
        }
        if (i % 5000 == 4999)
            tern_release_memory();
    }
    assert_true(before.collections > 5);
    tern_keep(held);
}

static void classes_are_named_by_their_bytes(void **state) {
    (void)state;
    assert_int_equal(tern_size_class_bytes(0), 0);
    assert_int_equal(tern_size_class_bytes(1), 8);
    assert_int_equal(tern_size_class_bytes(TERN_SIZE_CLASSES - 1), 32768);
    assert_int_equal(tern_size_class_bytes(TERN_SIZE_CLASSES), 0);
    assert_int_equal(tern_size_class_bytes(UINT32_MAX), 0);
}

static void forced_collections_are_counted_as_forced(void **state) {
    (void)state;
    tern_stats before = stats();
    for (unsigned i = 0; i < 5; i++)
        tern_collect();
    tern_stats after = stats();
    assert_int_equal(after.collections - before.collections, 5);
    assert_int_equal(after.forced - before.forced, 5);
    tern_set_gc_percent(0);
    tern_keep(tern_alloc_leaf(100000));
    tern_set_gc_percent(100);
    assert_int_equal(stats().forced, after.forced);
    assert_true(stats().collections > after.collections);
}

/* Only the collection's own bytes and what the program holds are live. */
static void live_bytes_are_what_the_program_holds(void **state) {
    (void)state;
    collect();
    uint64_t before = stats().live_bytes;
    void **held = tern_alloc_array(1000, sizeof *held);
    for (size_t i = 0; i < 1000; i++)
        held[i] = tern_alloc_leaf(4096);
    collect();
    uint64_t live = stats().live_bytes;
    assert_in_range(live, before + 1000 * 4096, before + 1000 * 4096 + 8192 + 4096);
    assert_true(stats().heap_bytes >= live);
    tern_keep(held);
}

static void roots_are_counted(void **state) {
    (void)state;
    static void *range[1000];
    collect();
    uint64_t before = stats().root_bytes;
    assert_true(stats().stack_bytes > 0);
    assert_int_equal(tern_root_add(range, sizeof range), 0);
    collect();
    assert_int_equal(stats().root_bytes - before, sizeof range);
    assert_int_equal(tern_root_remove(range), 0);
}

/* The goal is Go's. */
static void the_goal_follows_from_live_bytes_and_roots(void **state) {
    (void)state;
    void **held = tern_alloc_array(100, sizeof *held);
    for (size_t i = 0; i < 100; i++)
        held[i] = tern_alloc_leaf(1 << 20);
    collect();
    for (int percent = 50; percent <= 400; percent *= 2) {
        tern_set_gc_percent(percent);
        tern_stats s = stats();
        uint64_t goal =
            s.live_bytes + (s.live_bytes + s.stack_bytes + s.root_bytes) * (unsigned)percent / 100;
        assert_int_equal(s.goal_bytes, goal);
    }
    tern_set_gc_percent(100);
    tern_keep(held);
}

static int peak_of_a_spike(void *unused) {
    (void)unused;
    tern_set_gc_percent(TERN_GC_OFF);
    void *volatile spike = tern_alloc_leaf(64 << 20);
    memset(spike, 1, 64 << 20);
    spike = NULL;
    clear_stack();
    tern_release_memory();
    tern_stats s = stats();
    must(s.total_bytes < 8 << 20 && s.peak_total_bytes >= 64 << 20 && s.peak_heap_bytes >= 64 << 20);
    must(s.peak_total_bytes <= 72 << 20 && s.returned_bytes >= 64 << 20);
    return 0;
}

static void a_peak_is_remembered(void **state) {
    (void)state;
    child_passes(peak_of_a_spike, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peak_is_remembered), /* first: its child starts the library */
        cmocka_unit_test(figures_agree_under_load),
        cmocka_unit_test(classes_are_named_by_their_bytes),
        cmocka_unit_test(forced_collections_are_counted_as_forced),
        cmocka_unit_test(live_bytes_are_what_the_program_holds),
        cmocka_unit_test(roots_are_counted),
        cmocka_unit_test(the_goal_follows_from_live_bytes_and_roots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
