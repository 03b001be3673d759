/*
 * What the statistics say the library held is what the process had resident. Each load runs in a process of
 * its own: its peak of resident bytes, less what was resident before the first allocation, is within 10 % or
 * 4 MiB of peak_total_bytes. ctest: serial lanes=none
 */
#include "child.h"

#include <pthread.h>

static uint64_t status_field(const char *field) {
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    must(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            kib = strtoull(line + strlen(field), NULL, 10);
    fclose(file);
    return kib << 10;
}

struct load {
    const char *name, *gogc, *limit;
    void (*run)(void);
};

static int measure(void *argument) {
    const struct load *load = argument;
    setenv("TERN_GOGC", load->gogc, 1);
    setenv("TERN_GOMEMLIMIT", load->limit, 1);
    must(tern_init(NULL) == 0);
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file == NULL || fputs("5", file) < 0 || fclose(file) != 0)
        _exit(77);
    uint64_t before = status_field("VmRSS:");
    load->run();
    uint64_t rss = status_field("VmHWM:") - before;
    uint64_t held = stats().peak_total_bytes;
    uint64_t difference = rss > held ? rss - held : held - rss;
    fprintf(stderr, "%s: GOGC=%s limit %s: peak RSS %.1f MiB, held %.1f MiB, %d collections\n", load->name,
            load->gogc, load->limit, (double)rss / (1 << 20), (double)held / (1 << 20),
            (int)stats().collections);
    return difference <= 4 << 20 || difference <= held / 10 ? 0 : 1;
}

static void touch(void *object, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 4096)
        ((volatile char *)object)[i] = 1;
}

static NOINLINE void blocks_of(size_t bytes, unsigned count, unsigned keep) {
    void **ring = tern_alloc_array(keep, sizeof *ring);
    for (unsigned i = 0; i < count; i++) {
        ring[i % keep] = tern_alloc_leaf(bytes);
        touch(ring[i % keep], bytes);
    }
    tern_keep(ring);
}

static void blocks(void) {
    blocks_of(64 << 10, 4000, 1);
}
static void kept_blocks(void) {
    blocks_of(64 << 10, 4000, 200);
}
static void three_mebibytes(void) {
    blocks_of(3 << 20, 200, 30);
}
static void odd_large_blocks(void) {
    blocks_of((2 << 20) + 8192, 100, 20);
    blocks_of((5 << 20) - 4000, 50, 20);
}
static void small_objects(void) {
    for (size_t bytes = 8; bytes <= 4096; bytes *= 2)
        blocks_of(bytes, (unsigned)((16 << 20) / bytes), (unsigned)((4 << 20) / bytes));
}
static void tiny_leaves(void) {
    blocks_of(5, 2000000, 400000);
}

/* Pieces of 2 MiB that went back to the kernel are used again by blocks that fill three quarters of each. */
static void returned_and_used_again(void) {
    enum { COUNT = 60 };
    void **kept = tern_alloc_array(2 * COUNT, sizeof *kept);
    for (size_t i = 0; i < COUNT; i++) {
        kept[i] = tern_alloc_leaf(2 << 20);
        touch(kept[i], 2 << 20);
    }
    for (size_t i = 0; i < COUNT; i += 2)
        kept[i] = NULL;
    tern_release_memory();
    for (size_t i = 0; i < COUNT; i++) {
        kept[COUNT + i] = tern_alloc_leaf(3 << 19);
        touch(kept[COUNT + i], 3 << 19);
    }
    tern_keep(kept);
}

static NOINLINE void *aligned_ones(void) {
    void **kept = tern_alloc_array(100, sizeof *kept);
    for (size_t i = 0; i < 100; i++) {
        size_t bytes = 600000 + i * 10000;
        kept[i] = tern_alloc_aligned(1 << 20, bytes, true);
        touch(kept[i], bytes);
    }
    return kept;
}
static void large_aligned(void) {
    tern_keep(aligned_ones());
}

struct node {
    struct node *left, *right;
};
static struct node *tree(unsigned depth) {
    struct node *n = tern_alloc(sizeof *n);
    if (depth > 0) {
        tern_store(&n->left, tree(depth - 1));
        tern_store(&n->right, tree(depth - 1));
    }
    return n;
}
static void trees(void) {
    struct node *long_lived = tree(19);
    for (unsigned i = 0; i < 20; i++)
        tern_keep(tree(15));
    tern_keep(long_lived);
}

static void *grow_list(void *unused) {
    (void)unused;
    struct node *head = NULL;
    for (unsigned i = 0; i < 100000; i++) {
        struct node *n = tern_alloc(sizeof *n);
        tern_store(&n->left, head);
        head = n;
    }
    for (unsigned i = 0; i < 100; i++)
        touch(tern_alloc_leaf(100000), 100000);
    tern_keep(head);
    return NULL;
}
static void threads(void) {
    pthread_t t[8];
    for (size_t i = 0; i < 8; i++)
        must(tern_pthread_create(&t[i], NULL, grow_list, NULL) == 0);
    tern_blocking_begin();
    for (size_t i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    tern_blocking_end();
}

static void handles_and_weak_references(void) {
    enum { COUNT = 200000 };
    tern_weak **weak = tern_alloc_array(COUNT, sizeof *weak);
    for (size_t i = 0; i < COUNT; i++) {
        void *object = tern_alloc(16);
        weak[i] = tern_weak_new(object);
        must(tern_handle_new(object) != 0);
    }
    tern_keep(weak);
}

static void check(const struct load *load) {
    int status = in_child(measure, (void *)(uintptr_t)load, child_text, sizeof child_text);
    print_message("%s", child_text);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

#define LOAD(run, gogc, limit)                                 \
    static void run##_##gogc##_##limit(void **state) {         \
        (void)state;                                           \
        check(&(const struct load){#run, #gogc, #limit, run}); \
    }
LOAD(blocks, 50, off)
LOAD(blocks, 100, off)
LOAD(blocks, 400, off)
LOAD(blocks, 1600, off)
LOAD(blocks, off, 32MiB)
LOAD(kept_blocks, 100, off)
LOAD(kept_blocks, off, 64MiB)
LOAD(three_mebibytes, 100, off)
LOAD(three_mebibytes, off, 256MiB)
LOAD(odd_large_blocks, 100, off)
LOAD(small_objects, 100, off)
LOAD(small_objects, off, 64MiB)
LOAD(tiny_leaves, 100, off)
LOAD(returned_and_used_again, off, off)
LOAD(returned_and_used_again, 100, off)
LOAD(large_aligned, 100, off)
LOAD(trees, 100, off)
LOAD(trees, off, 64MiB)
LOAD(threads, 100, off)
LOAD(handles_and_weak_references, 100, off)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_50_off),
        cmocka_unit_test(blocks_100_off),
        cmocka_unit_test(blocks_400_off),
        cmocka_unit_test(blocks_1600_off),
        cmocka_unit_test(blocks_off_32MiB),
        cmocka_unit_test(kept_blocks_100_off),
        cmocka_unit_test(kept_blocks_off_64MiB),
        cmocka_unit_test(three_mebibytes_100_off),
        cmocka_unit_test(three_mebibytes_off_256MiB),
        cmocka_unit_test(odd_large_blocks_100_off),
        cmocka_unit_test(small_objects_100_off),
        cmocka_unit_test(small_objects_off_64MiB),
        cmocka_unit_test(tiny_leaves_100_off),
        cmocka_unit_test(returned_and_used_again_off_off),
        cmocka_unit_test(returned_and_used_again_100_off),
        cmocka_unit_test(large_aligned_100_off),
        cmocka_unit_test(trees_100_off),
        cmocka_unit_test(trees_off_64MiB),
        cmocka_unit_test(threads_100_off),
        cmocka_unit_test(handles_and_weak_references_100_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
