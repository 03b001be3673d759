/* The heap's range: what an address lies in, and how much is reserved. */
#include "child.h"

#include "gc/heap.h"
#include "gc/mutator.h"
#include "gc/os/os_mem.h"
#include "gc/pagerun.h"
#include "gc/sizeclass.h"

static void check_place(const char *object, size_t bytes, const char *at) {
    struct heap_place place = heap_find((uintptr_t)at);
    assert_non_null(place.head);
    assert_ptr_equal(place.base, object);
    assert_int_equal(place.bytes, bytes);
    assert_true(heap_place_allocated(&place));
}

static void every_byte_of_an_object_is_found(void **state) {
    (void)state;
    for (unsigned class = 1; class < SIZECLASS_COUNT; class ++) {
        size_t bytes = sizeclass_table[class].bytes;
        for (unsigned i = 0; i < 2 * sizeclass_table[class].slots && i < 20; i++) {
            char *object = tern_alloc(bytes);
            for (size_t offset = 0; offset<bytes; offset += bytes> 100 ? bytes / 50 : 1)
                check_place(object, bytes, object + offset);
            check_place(object, bytes, object + bytes - 1);
        }
    }
    char *large = tern_alloc(300000);
    for (size_t offset = 0; offset < 303104; offset += 1000)
        check_place(large, 303104, large + offset);
    check_place(large, 303104, large + 303103);
}

static void what_lies_behind_the_last_slot_of_a_span_is_nothing(void **state) {
    (void)state;
    unsigned with_waste = 0;
    for (unsigned class = 1; class < SIZECLASS_COUNT; class ++) {
        const struct sizeclass *c = &sizeclass_table[class];
        struct heap_place place = heap_find((uintptr_t)tern_alloc(c->bytes));
        char *end = heap_address(place.index) + c->pages * PAGE_BYTES;
        char *waste = heap_address(place.index) + (size_t)c->slots * c->bytes;
        if (waste == end)
            continue;
        with_waste++;
        assert_non_null(heap_find((uintptr_t)waste - 1).head);
        assert_null(heap_find((uintptr_t)waste).head);
        assert_null(heap_find((uintptr_t)end - 1).head);
    }
    assert_true(with_waste > 20);
}

static void free_pages_and_other_addresses_are_nothing(void **state) {
    (void)state;
    int local;
    struct pagerun run = pagerun_take(3, (struct pagerun_growth){UINT64_MAX, OS_HUGE_PAGE, false});
    assert_null(heap_find((uintptr_t)heap_address(run.first)).head); /* taken, and nothing made of it */
    pagerun_give(run.first, 3);
    for (page_index i = run.first; i < run.first + 3; i++)
        assert_null(heap_find((uintptr_t)heap_address(i) + 100).head);
    uintptr_t grown = atomic_load(&heap.grown);
    const uintptr_t none[] = {0,
                              1,
                              UINTPTR_MAX,
                              (uintptr_t)&local,
                              heap.base,
                              heap.base - 1,
                              heap.base + grown,
                              heap.base + heap.reserved,
                              heap.base + PAGE_BYTES - 1};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_null(heap_find(none[i]).head);
    assert_false(heap_contains(heap.base - 1));
    assert_false(heap_contains(heap.base + grown));
    assert_true(heap_contains(heap.base + grown - 1));
}

static void index_and_address_belong_together(void **state) {
    (void)state;
    for (page_index i = 1; i < 1000; i++) {
        assert_int_equal(heap_index((uintptr_t)heap_address(i)), i);
        assert_int_equal(heap_index((uintptr_t)heap_address(i) + PAGE_BYTES - 1), i);
        assert_int_equal(heap_index_of(heap_page(i)), i);
    }
    assert_int_equal((uintptr_t)heap_address(1) % OS_HUGE_PAGE, 0);
}

static void mark_bits_of_a_group_are_set_and_read(void **state) {
    (void)state;
    static _Atomic uint32_t marks[PAGE_MARK_EXT_WORDS];
    uint64_t seed = 20260105;
    for (unsigned slots = 1; slots <= 1024; slots += 13) {
        memset(marks, 0, sizeof marks);
        for (unsigned g = 0; g < page_groups(slots); g++) {
            uint64_t bits = next_random(&seed) & page_group_valid(slots, g);
            heap_marks_group_set(marks, slots, g, bits);
            assert_int_equal(heap_marks_group(marks, slots, g), bits);
        }
        for (unsigned word = (slots + 31) / 32; word < PAGE_MARK_EXT_WORDS; word++)
            assert_int_equal(marks[word], 0); /* nothing beyond the words that the slots need */
    }
}

static int reserve_under(void *argument) {
    rlim_t bytes = *(rlim_t *)argument;
    struct rlimit limit = {bytes, bytes};
    must(setrlimit(RLIMIT_AS, &limit) == 0);
    must(heap_init(false) == 0);
    must((heap.reserved & (heap.reserved - 1)) == 0);
    must(heap.reserved < bytes && heap.reserved >= bytes / 4);
    heap_destroy();
    must(heap_init(true) == 0 && heap.quarantine != NULL); /* all was given back */
    heap_destroy();
    return 0;
}

/* Bytes of an array that are resident. */
static size_t resident(const void *array, size_t bytes) {
    static unsigned char vector[1 << 16];
    size_t page = os_mem_page_size(), count = 0;
    must(bytes / page <= sizeof vector);
    must(mincore((void *)(uintptr_t)array, bytes, vector) == 0);
    for (size_t i = 0; i < bytes / page; i++)
        count += vector[i] & 1;
    return count * page;
}

/* Of all arrays, as far as 64 MiB of heap have them. */
static size_t resident_metadata(void) {
    size_t pages = (64 * MIB) >> PAGE_SHIFT;
    return resident(heap.pages, pages * sizeof(struct page)) +
           resident((void *)heap.allocated, pages * PAGE_ALLOCATED_WORDS * sizeof(uint64_t)) +
           resident((void *)heap.marks_ext, pages * PAGE_MARK_EXT_WORDS * sizeof(uint32_t));
}

static void touch(volatile char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 4096)
        from[i] = 0;
}

/* As spans do whose bits lie in what was grown. */
static void use_bits(size_t grown) {
    size_t pages = grown >> PAGE_SHIFT;
    touch((volatile char *)heap.allocated, pages * PAGE_ALLOCATED_WORDS * sizeof(uint64_t));
    touch((volatile char *)heap.marks_ext, pages * PAGE_MARK_EXT_WORDS * sizeof(uint32_t));
}

static int grow_by_small_steps(void *unused) {
    (void)unused;
    must(heap_init(false) == 0);
    for (size_t grown = 64 * KIB; grown <= 5 * MIB; grown += 64 * KIB) {
        must(heap_grow_records(grown + PAGE_BYTES) == 0);
        must(heap_populate_bits((page_index)(grown >> PAGE_SHIFT), true) == 0);
        use_bits(grown + PAGE_BYTES);
        must(heap.metadata == resident_metadata());
    }
    return 0;
}

/* A kernel page of `array` for which there is no memory: beyond the end of an empty file. */
static void *spoil(void *array, size_t at) {
    int file = memfd_create("nothing", 0);
    void *page = (char *)array + align_down(at, os_mem_page_size());
    must(file >= 0);
    must(mmap(page, os_mem_page_size(), PROT_NONE, MAP_PRIVATE | MAP_FIXED, file, 0) == page);
    close(file);
    return page;
}

static void mend(void *page) {
    must(mmap(page, os_mem_page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
              -1, 0) == page);
}

static int fail_to_grow(void *unused) {
    (void)unused;
    must(heap_init(false) == 0);
    must(heap_grow_records(MIB + PAGE_BYTES) == 0);
    must(heap_populate_bits(1, true) == 0);
    size_t before = heap.metadata, grown = heap.grown, more = 4 * MIB + PAGE_BYTES;
    must(before == resident_metadata());
    void *const arrays[] = {heap.pages, (void *)heap.allocated, (void *)heap.marks_ext};
    const size_t at[] = {400 * sizeof(struct page), 200 * PAGE_ALLOCATED_WORDS * sizeof(uint64_t),
                         200 * PAGE_MARK_EXT_WORDS * sizeof(uint32_t)};
    for (size_t i = 0; i < 3; i++) {
        void *page = spoil(arrays[i], at[i]);
        errno = 0;
        must(heap_grow_records(more) == -1 && errno == ENOMEM);
        must(heap.metadata == before && heap.grown == grown);
        must(resident_metadata() == before); /* nothing that nobody knows of */
        mend(page);
    }
    must(heap_grow_records(more) == 0);
    must(heap_populate_bits(300, true) == 0);
    use_bits(more);
    must(heap.metadata == resident_metadata());
    return 0;
}

static void metadata_is_what_is_resident_of_the_arrays(void **state) {
    (void)state;
    child_passes(grow_by_small_steps, NULL);
}

static void what_could_not_be_populated_is_in_no_book(void **state) {
    (void)state;
    child_passes(fail_to_grow, NULL);
}

static int reserve_nothing(void *unused) {
    (void)unused;
    struct rlimit limit = {64 << 20, 64 << 20};
    must(setrlimit(RLIMIT_AS, &limit) == 0);
    errno = 0;
    must(heap_init(false) == -1 && errno == ENOMEM);
    return 0;
}

static void the_reservation_is_halved_until_it_fits(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    for (rlim_t bytes = 200 << 20; bytes <= (rlim_t)200 << 30; bytes *= 4)
        child_passes(reserve_under, &bytes);
    child_passes(reserve_nothing, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reservation_is_halved_until_it_fits), /* first: before the library is started */
        cmocka_unit_test(metadata_is_what_is_resident_of_the_arrays), /* so these */
        cmocka_unit_test(what_could_not_be_populated_is_in_no_book),
        cmocka_unit_test(every_byte_of_an_object_is_found),
        cmocka_unit_test(what_lies_behind_the_last_slot_of_a_span_is_nothing),
        cmocka_unit_test(free_pages_and_other_addresses_are_nothing),
        cmocka_unit_test(index_and_address_belong_together),
        cmocka_unit_test(mark_bits_of_a_group_are_set_and_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
