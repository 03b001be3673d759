/*
 * What happens by itself: a collection every period while the ratio is on, none while it is off, no CPU in between;
 * and after a spike a program that allocates slowly is collected early and its memory goes back, without any call.
 *
 * Seen to fail: periodic_due_ns that looks at no ratio ("...none while the ratio is off"); a deadline that is always
 * in the past ("an idle program uses no CPU"); pace_arm_early that arms nothing ("memory goes back...").
 *
 * ctest: serial lanes=none,address
 */
#include "child.h"

#include "gc/os/os_time.h"
#include "gc/settings.h"

static void *root; /* registered */

static void start(void) {
    tern_options options;
    tern_options_init(&options);
    options.stores = TERN_STORES_BARRIER;
    options.gc_percent = 100;
    must(tern_init(&options) == 0 && tern_root_add(&root, sizeof root) == 0);
}

static void sleep_ms(int64_t ms) {
    int64_t until = os_time_mono_ns() + ms * 1000000;
    for (int64_t left; (left = until - os_time_mono_ns()) > 0;)
        os_time_sleep_ns(left); /* a stop signal cuts it short */
}

static int be_periodic(void *unused) {
    (void)unused;
    start();
    settings.period_ns = INT64_C(100000000);
    tern_collect(); /* from here on there is a background thread */
    uint64_t before = stats().collections;
    for (int i = 0; i < 100 && stats().collections < before + 3; i++)
        sleep_ms(50);
    must(stats().collections >= before + 3 && stats().forced == 1);
    tern_set_gc_percent(TERN_GC_OFF);
    sleep_ms(300);
    before = stats().collections;
    sleep_ms(500);
    must(stats().collections == before);
    return 0;
}

static void a_collection_comes_by_itself_each_period_and_none_while_the_ratio_is_off(void **state) {
    (void)state;
    child_passes(be_periodic, NULL);
}

static int be_idle(void *unused) {
    (void)unused;
    start();
    for (int i = 0; i < 200000; i++)
        tern_keep(tern_alloc(100));
    tern_collect();
    sleep_ms(300); /* sweeping and returning memory are over */
    int64_t cpu = os_time_process_cpu_ns();
    sleep_ms(1000);
    must(os_time_process_cpu_ns() - cpu < 3000000);
    return 0;
}

static void an_idle_program_uses_no_cpu(void **state) {
    (void)state;
    child_passes(be_idle, NULL);
}

struct node {
    struct node *next;
    uint64_t value[3];
};

/* A list of which the oldest part stays: what lives lies together. */
static NOINLINE void spike(size_t nodes, size_t stay) {
    struct node *head = NULL, *kept = NULL;
    for (size_t i = 0; i < nodes; i++) {
        struct node *node = tern_alloc(sizeof *node);
        tern_store(&node->next, head);
        root = head = node;
        if (i == stay)
            kept = node;
    }
    root = kept;
}

static int fall_back(void *unused) {
    (void)unused;
    start();
    spike((256 << 20) / sizeof(struct node), (8 << 20) / sizeof(struct node));
    clear_stack();
    must(stats().heap_used_bytes > 200 << 20);
    bool fell = false;
    for (int i = 0; i < 120 && !fell; i++) { /* 10 MB a second, 12 s at the most */
        for (int n = 0; n < 10000; n++)
            tern_keep(tern_alloc(100));
        sleep_ms(100);
        fell = stats().heap_used_bytes + stats().heap_free_bytes < 64 << 20;
    }
    must(fell && stats().forced == 0 && stats().returned_bytes >= 128 << 20);
    return 0;
}

static void memory_goes_back_after_a_spike_without_any_call(void **state) {
    (void)state;
    child_passes(fall_back, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collection_comes_by_itself_each_period_and_none_while_the_ratio_is_off),
        cmocka_unit_test(an_idle_program_uses_no_cpu),
        cmocka_unit_test(memory_goes_back_after_a_spike_without_any_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
