/* Allocation: what is handed out is zeroed, aligned, counted exactly, and changes its size as promised. */
#include "child.h"

#include <pthread.h>

#include "gc/heap.h"
#include "gc/sizeclass.h"

static void *kept[4096]; /* a registered root */

static const tern_type *pairs;
static const tern_type *traced;

static void trace_all(const void *object, size_t size, tern_tracer *tracer) {
    tern_trace_range(tracer, object, size / sizeof(void *));
}

static bool all_zero(const void *object, size_t bytes) {
    const char *p = object;
    return bytes == 0 || (p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0);
}

static NOINLINE void drop(void) {
    memset(kept, 0, sizeof kept);
    collect();
}

typedef void *allocate_function(size_t size);
static void *allocate_pairs(size_t size) {
    return tern_alloc_typed(pairs, size / 16);
}
static void *allocate_traced(size_t size) {
    return tern_alloc_traced(traced, size);
}
static allocate_function *const kinds[] = {tern_alloc, tern_alloc_leaf, tern_alloc_leaf_single,
                                           allocate_pairs, allocate_traced};

/* Fills what it gets, so that the next round would show it. */
static NOINLINE void fill_class(allocate_function *allocate, size_t size, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char *object = allocate(size);
        assert_non_null(object);
        tern_object found;
        assert_true(tern_object_find(object, &found));
        assert_true(found.size >= size || found.kind == TERN_KIND_TINY);
        size_t usable = found.kind == TERN_KIND_TINY ? size : found.size;
        if (!all_zero(object, usable))
            fail_msg("an object of %zu bytes is not zeroed", size);
        /* Not a pointer, should anybody look. */
        memset(object, 0x5a, usable);
        kept[i] = object;
    }
}

static void memory_used_again_is_zeroed(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (unsigned class = 1; class < SIZECLASS_COUNT; class ++)
            for (unsigned round = 0; round < 2; round++) {
                size_t size = sizeclass_table[class].bytes - (k >= 3 ? 8 : 0);
                if (size > 16 && round == 1)
                    size--;
                if (k == 3)
                    size = size / 16 * 16;
                unsigned slots = 2 * sizeclass_table[class].slots;
                fill_class(kinds[k], size, slots > 1500 ? 1500 : slots);
                if (round == 0 || class % 16 == 0)
                    drop();
            }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t size = 40000; size < 4 * MIB; size *= 3)
            for (unsigned round = 0; round < 2; round++) {
                fill_class(kinds[k], size / 16 * 16, 4);
                drop();
            }
}

static void objects_are_aligned(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t size = 1; size < 70000; size += size / 7 + 1) {
            uintptr_t at = (uintptr_t)kinds[k](size);
            size_t alignment = size % 16 == 0 ? 16 : 8;
            if (kinds[k] == tern_alloc_leaf && size < 16)
                alignment = size % 8 == 0 ? 8 : size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1;
            assert_int_equal(at % alignment, 0);
        }
}

static void aligned_ones_are_aligned_as_asked(void **state) {
    (void)state;
    for (int leaf = 0; leaf < 2; leaf++)
        for (size_t alignment = 1; alignment <= MIB; alignment *= 2)
            for (size_t size = 0; size < 100000; size = size * 3 + 1) {
                char *object = tern_alloc_aligned(alignment, size, leaf != 0);
                assert_non_null(object);
                assert_int_equal((uintptr_t)object % alignment, 0);
                assert_true(all_zero(object, size));
                tern_object found;
                assert_true(tern_object_find(object, &found));
                assert_ptr_equal(found.base, object);
                assert_true(found.size >= size);
                assert_int_equal(found.kind, leaf ? TERN_KIND_LEAF : TERN_KIND_WORDS);
                memset(object, 0x5a, size);
            }
    static const size_t bad[] = {0, 3, 24, 2 * MIB, SIZE_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        assert_null(tern_alloc_aligned(bad[i], 8, false));
        assert_int_equal(errno, EINVAL);
    }
    drop();
}

static void a_size_of_nothing_gives_a_valid_pointer(void **state) {
    (void)state;
    void *objects[] = {tern_alloc(0),          tern_alloc_leaf(0),         tern_alloc_leaf_single(0),
                       tern_alloc_array(0, 8), tern_alloc_array(8, 0),     tern_alloc_leaf_array(0, 0),
                       tern_realloc(NULL, 0),  tern_alloc_typed(pairs, 0), tern_alloc_traced(traced, 0)};
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        assert_non_null(objects[i]);
        assert_true(tern_object_find(objects[i], NULL));
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(objects[i], objects[j]);
    }
}

static size_t failed_size;
static bool note_failure(size_t size, void *context) {
    failed_size = size;
    ++*(int *)context;
    return false;
}

static void impossible_sizes_are_out_of_memory(void **state) {
    (void)state;
    int calls = 0;
    tern_on_out_of_memory(note_failure, &calls);
    int expected = 0;
#define FAILS(call)                          \
    do {                                     \
        errno = 0;                           \
        assert_null(call);                   \
        assert_int_equal(errno, ENOMEM);     \
        assert_int_equal(calls, ++expected); \
    } while (0)
    static const size_t sizes[] = {SIZE_MAX,         SIZE_MAX - 1, SIZE_MAX - 7,   SIZE_MAX - 8191,
                                   SIZE_MAX / 2 + 1, SIZE_MAX / 2, (size_t)1 << 48};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        FAILS(tern_alloc(sizes[i]));
        FAILS(tern_alloc_leaf(sizes[i]));
        FAILS(tern_alloc_leaf_single(sizes[i]));
        FAILS(tern_alloc_aligned(64, sizes[i], true));
        FAILS(tern_alloc_aligned(MIB, sizes[i], false));
        FAILS(tern_alloc_traced(traced, sizes[i]));
        FAILS(tern_alloc_typed(pairs, sizes[i] / 16 + 1));
        void *object = tern_alloc(100);
        memset(object, 7, 100);
        FAILS(tern_realloc(object, sizes[i]));
        assert_int_equal(((char *)object)[99], 7);
    }
    FAILS(tern_alloc_array(SIZE_MAX / 2, 3));
    FAILS(tern_alloc_array((size_t)1 << 32, (size_t)1 << 32));
    FAILS(tern_alloc_leaf_array((size_t)1 << 32, ((size_t)1 << 32) + 1));
    FAILS(tern_alloc_typed(pairs, SIZE_MAX / 16 + 2)); /* the product is 16 */
    FAILS(tern_alloc_typed(pairs, SIZE_MAX / 16 + 1)); /* the product is 0 */
    tern_on_out_of_memory(NULL, NULL);
}

/* Size and contents: byte i of an object of `size` bytes. */
static unsigned char content(size_t size, size_t i) {
    return (unsigned char)(1 + (size * 7 + i) % 255);
}

static void check_realloc(allocate_function *allocate, size_t from, size_t to) {
    unsigned char *object = allocate(from);
    for (size_t i = 0; i < from; i++)
        object[i] = content(from, i);
    unsigned char *changed = tern_realloc(object, to);
    assert_non_null(changed);
    size_t least = from < to ? from : to;
    for (size_t i = 0; i < least; i++)
        if (changed[i] != content(from, i))
            fail_msg("%zu -> %zu bytes: byte %zu is lost", from, to, i);
    if (to > from && !all_zero(changed + from, to - from))
        fail_msg("%zu -> %zu bytes: what is new is not zero", from, to);
}

static const size_t resizes[] = {0,    1,    2,    3,     5,     7,     8,     9,     12,    15,
                                 16,   17,   24,   25,    48,    63,    100,   128,   512,   1000,
                                 1024, 4096, 8192, 32760, 32768, 32769, 40960, 65536, 65537, 300000};
#define RESIZES (sizeof resizes / sizeof *resizes)

static void realloc_keeps_contents_and_zeroes_the_rest(void **state) {
    (void)state;
    static allocate_function *const plain[] = {tern_alloc, tern_alloc_leaf, tern_alloc_leaf_single,
                                               allocate_traced};
    for (size_t k = 0; k < sizeof plain / sizeof *plain; k++)
        for (size_t i = 0; i < RESIZES; i++)
            for (size_t j = 0; j < RESIZES; j++)
                check_realloc(plain[k], resizes[i], resizes[j]);
}

static void realloc_keeps_the_kind(void **state) {
    (void)state;
    static const tern_kind expected[] = {TERN_KIND_WORDS, TERN_KIND_LEAF, TERN_KIND_LEAF, TERN_KIND_TYPED,
                                         TERN_KIND_TRACED};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t to = 16; to < 200000; to = to * 2) {
            tern_object found;
            void *object = tern_realloc(kinds[k](64), to);
            assert_true(tern_object_find(object, &found));
            assert_int_equal(found.kind, expected[k]);
            assert_true(found.size >= to);
            if (k >= 3)
                assert_string_equal(found.type_name, k == 3 ? "pair" : "all");
        }
}

static void realloc_stays_in_place_where_the_slot_has_room(void **state) {
    (void)state;
    char *object = tern_alloc(33);
    assert_ptr_equal(tern_realloc(object, 48), object);
    assert_ptr_equal(tern_realloc(object, 1), object);
    assert_ptr_not_equal(tern_realloc(object, 49), object);
    char *large = tern_alloc(100000);
    assert_ptr_equal(tern_realloc(large, 106496), large);
    assert_ptr_equal(tern_realloc(large, 30000), large);
    assert_ptr_not_equal(tern_realloc(large, 26000), large); /* three quarters would lie idle */
}

/* What shrank in place and grows again is zero, not what it was. */
static void what_was_cut_off_is_gone(void **state) {
    (void)state;
    unsigned char *object = memset(tern_alloc(64), 0xff, 64);
    assert_ptr_equal(tern_realloc(object, 10), object);
    assert_ptr_equal(tern_realloc(object, 64), object);
    assert_int_equal(object[9], 0xff);
    assert_true(all_zero(object + 10, 54));
}

/* A pointer to an object that shares its block, with neighbours before and after it. */
static void a_small_leaf_moves_and_leaves_its_neighbours_alone(void **state) {
    (void)state;
    for (size_t from = 1; from < 16; from++)
        for (size_t to = 1; to < 40; to++) {
            unsigned char *before = memset(tern_alloc_leaf(3), 0x11, 3);
            unsigned char *object = memset(tern_alloc_leaf(from), 0x22, from);
            unsigned char *after = memset(tern_alloc_leaf(2), 0x33, 2);
            unsigned char *moved = tern_realloc(object, to);
            assert_ptr_not_equal(moved, object);
            for (size_t i = 0; i < to; i++)
                assert_int_equal(moved[i], i < from ? 0x22 : 0);
            memset(moved, 0x44, to);
            assert_int_equal(before[2], 0x11);
            assert_int_equal(after[0], 0x33);
            assert_int_equal(after[1], 0x33);
            for (size_t i = 0; i < from; i++)
                assert_int_equal(object[i], 0x22);
        }
}

/* Nothing was allocated after it: where it ends is known to nobody but its size. */
static void the_last_small_leaf_of_a_block_moves_too(void **state) {
    (void)state;
    for (size_t from = 1; from < 16; from++)
        for (size_t to = 1; to < 16; to++) {
            while ((uintptr_t)tern_alloc_leaf(1) % 16 != 15) {
            }
            unsigned char *object = memset(tern_alloc_leaf(from), 0x22, from);
            unsigned char *moved = tern_realloc(object, to);
            for (size_t i = 0; i < to; i++)
                assert_int_equal(moved[i], i < from ? 0x22 : 0);
            for (size_t i = 0; i < from; i++)
                assert_int_equal(object[i], 0x22);
        }
}

/* One thread resizes a small leaf while the thread whose block it lies in hands out the bytes behind it. */
static _Atomic(unsigned char *) offered;
static atomic_bool resizer_done;

static void *resize_offered(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < 20000; i++) {
        unsigned char *object;
        while ((object = atomic_exchange(&offered, NULL)) == NULL)
            tern_poll();
        unsigned char *moved = tern_realloc(object, 14);
        for (unsigned b = 0; b < 14; b++)
            if (moved[b] != (b < 2 ? 0x22 : 0)) {
                atomic_store(&resizer_done, true);
                return (void *)1;
            }
    }
    atomic_store(&resizer_done, true);
    return NULL;
}

static void a_neighbour_made_meanwhile_is_not_copied(void **state) {
    (void)state;
    pthread_t thread;
    void *wrong;
    atomic_store(&resizer_done, false);
    assert_int_equal(tern_pthread_create(&thread, NULL, resize_offered, NULL), 0);
    while (!atomic_load(&resizer_done)) {
        unsigned char *object = memset(tern_alloc_leaf(2), 0x22, 2);
        atomic_store(&offered, object);
        for (unsigned i = 0; i < 6; i++)
            memset(tern_alloc_leaf(2), 0x33, 2);
        while (atomic_load(&offered) != NULL && !atomic_load(&resizer_done))
            tern_poll();
    }
    tern_blocking_begin();
    pthread_join(thread, &wrong);
    tern_blocking_end();
    assert_null(wrong);
}

/* Of a fresh process: what `count` allocations of `size` bytes count as. */
struct count {
    allocate_function *allocate;
    size_t size, count;
    size_t bytes; /* expected */
};

static int count_allocations(void *argument) {
    const struct count *c = argument;
    tern_set_gc_percent(TERN_GC_OFF);
    tern_stats before = stats();
    for (size_t i = 0; i < c->count; i++)
        must(c->allocate(c->size) != NULL);
    tern_stats after = stats();
    if (after.alloc_bytes - before.alloc_bytes != c->bytes ||
        after.alloc_count - before.alloc_count != c->count)
        fprintf(stderr, "%zu x %zu: %zu bytes in %zu\n", c->count, c->size,
                (size_t)(after.alloc_bytes - before.alloc_bytes),
                (size_t)(after.alloc_count - before.alloc_count));
    must(after.alloc_bytes - before.alloc_bytes == c->bytes);
    must(after.alloc_count - before.alloc_count == c->count);
    uint64_t bytes = 0, count = 0;
    for (unsigned class = 0; class < TERN_SIZE_CLASSES; class ++) {
        bytes += after.alloc_bytes_by_class[class];
        count += after.alloc_count_by_class[class];
    }
    must(bytes == after.alloc_bytes && count == after.alloc_count);
    unsigned class = c->size > 32768 ? 0 : sizeclass_of(c->bytes / c->count);
    if (c->allocate == tern_alloc_leaf && c->size < 16)
        class = SIZECLASS_16_BYTES;
    must(after.alloc_count_by_class[class] - before.alloc_count_by_class[class] == c->count);
    must(after.alloc_bytes_by_class[class] - before.alloc_bytes_by_class[class] == c->bytes);
    return 0;
}

static void every_allocation_counts_its_class(void **state) {
    (void)state;
    for (unsigned class = 1; class < SIZECLASS_COUNT; class += 3) {
        size_t bytes = sizeclass_table[class].bytes;
        child_passes(count_allocations, &(struct count){tern_alloc, bytes, 1000, 1000 * bytes});
    }
    child_passes(count_allocations, &(struct count){tern_alloc, 0, 77, 77 * 8});
    child_passes(count_allocations, &(struct count){tern_alloc, 33, 77, 77 * 48});
    child_passes(count_allocations, &(struct count){tern_alloc_leaf_single, 1, 77, 77 * 8});
    child_passes(count_allocations, &(struct count){tern_alloc_leaf, 16, 77, 77 * 16});
    child_passes(count_allocations,
                 &(struct count){allocate_pairs, 32, 77, 77 * 48}); /* and the type's word */
    child_passes(count_allocations, &(struct count){allocate_traced, 24, 77, 77 * 32});
    child_passes(count_allocations, &(struct count){tern_alloc, 32769, 77, 77 * 40960});
    child_passes(count_allocations, &(struct count){tern_alloc_leaf, 3 << 20, 7, 7 * 3 << 20});
}

/* How many fit into a 16-byte block, by size: offsets are multiples of 8, 4, 2 or 1 as the size is. */
static void small_leaves_share_blocks_of_sixteen_bytes(void **state) {
    (void)state;
    static const size_t fit[16] = {16, 16, 8, 5, 4, 3, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1};
    for (size_t size = 0; size < 16; size++)
        child_passes(count_allocations, &(struct count){tern_alloc_leaf, size, 100 * fit[size], 100 * 16});
}

static NOINLINE void use_it(void *object) {
    __asm__ volatile("" : : "r"(object) : "memory");
}

struct misuse {
    int which;
};

static int misuse_realloc(void *argument) {
    static char mine[64];
    switch (*(int *)argument) {
    case 0:
        use_it(tern_realloc((char *)tern_alloc(64) + 8, 10));
        break;
    case 1:
        use_it(tern_realloc(mine, 10));
        break;
    case 2:
        use_it(tern_realloc((char *)tern_alloc(100000) + 8192, 10));
        break;
    default:
        use_it(tern_realloc((char *)tern_alloc_leaf(8) + 1, 10));
    }
    return 0;
}

static void realloc_of_what_is_no_object_stops_the_program(void **state) {
    (void)state;
    for (int which = 0; which < 4; which++)
        child_aborts(misuse_realloc, &which, "tern_realloc of a pointer that no allocation returned");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_counts_its_class),
        cmocka_unit_test(small_leaves_share_blocks_of_sixteen_bytes),
        cmocka_unit_test(memory_used_again_is_zeroed),
        cmocka_unit_test(objects_are_aligned),
        cmocka_unit_test(aligned_ones_are_aligned_as_asked),
        cmocka_unit_test(a_size_of_nothing_gives_a_valid_pointer),
        cmocka_unit_test(impossible_sizes_are_out_of_memory),
        cmocka_unit_test(realloc_keeps_contents_and_zeroes_the_rest),
        cmocka_unit_test(realloc_keeps_the_kind),
        cmocka_unit_test(realloc_stays_in_place_where_the_slot_has_room),
        cmocka_unit_test(what_was_cut_off_is_gone),
        cmocka_unit_test(a_small_leaf_moves_and_leaves_its_neighbours_alone),
        cmocka_unit_test(the_last_small_leaf_of_a_block_moves_too),
        cmocka_unit_test(a_neighbour_made_meanwhile_is_not_copied),
        cmocka_unit_test(realloc_of_what_is_no_object_stops_the_program),
    };
    static const uint64_t both[1] = {3};
    pairs = tern_type_new("pair", 16, both);
    traced = tern_traced_type_new("all", trace_all);
    if (pairs == NULL || traced == NULL || tern_root_add(kept, sizeof kept) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
