/* Page runs: who has which pages, which of them are resident, what goes back to the kernel. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "gc/heap.h"
#include "gc/offheap.h"
#include "gc/os/os_mem.h"
#include "gc/pagerun.h"
#include "gc/sizeclass.h"
#include "tests/garbage.h"

#define CHUNK (OS_HUGE_PAGE / PAGE_BYTES)

/* How the heap may grow: freely, or with so much room under the limit. */
static const struct pagerun_growth freely = {UINT64_MAX, OS_HUGE_PAGE, false};
static struct pagerun_growth with_room(uint64_t bytes) {
    return (struct pagerun_growth){bytes, OS_HUGE_PAGE, false};
}

static int begin_small(void **state) {
    (void)state;
    return heap_init(false) == 0 ? pagerun_init(false) : -1;
}

static int begin_huge(void **state) {
    (void)state;
    return heap_init(false) == 0 ? pagerun_init(true) : -1;
}

static int end(void **state) {
    (void)state;
    pagerun_destroy();
    heap_destroy();
    return 0;
}

/* As a caller does: long runs are populated outside, and become large objects. */
static void populate(struct pagerun run, size_t pages) {
    if (run.populated)
        return;
    assert_int_equal(os_mem_populate(heap_address(run.first), pages << PAGE_SHIFT), 0);
    heap_page(run.first)->large.pages = (uint32_t)pages;
    atomic_store(&heap_page(run.first)->use, PAGE_LARGE);
}

static page_index take(size_t pages) {
    struct pagerun run = pagerun_take(pages, freely);
    assert_int_not_equal(run.first, 0);
    populate(run, pages);
    return run.first;
}

static uint64_t held(void) {
    return pagerun_used_bytes() + pagerun_free_bytes();
}

/* Bytes of the heap that the kernel says are resident. */
static uint64_t resident(void) {
    static unsigned char vector[1 << 18];
    size_t bytes = atomic_load(&heap.grown) - PAGE_BYTES;
    if (atomic_load(&heap.grown) == 0)
        return 0;
    uint64_t pages = 0;
    assert_true(bytes / os_mem_page_size() <= sizeof vector);
    assert_int_equal(mincore(heap_address(1), bytes, vector), 0);
    for (size_t i = 0; i < bytes / os_mem_page_size(); i++)
        pages += vector[i] & 1;
    return pages * os_mem_page_size();
}

static void the_heap_grows_by_two_mebibytes(void **state) {
    (void)state;
    page_index first = take(1);
    assert_int_equal((uintptr_t)heap_address(first) % OS_HUGE_PAGE, 0);
    assert_int_equal(pagerun_used_bytes(), PAGE_BYTES);
    assert_int_equal(held(), OS_HUGE_PAGE);
    for (size_t i = 1; i < CHUNK; i++)
        take(1);
    assert_int_equal(held(), OS_HUGE_PAGE);
    take(1);
    assert_int_equal(held(), 2 * OS_HUGE_PAGE);
    pagerun_check();
}

static void near_the_limit_it_grows_by_what_is_needed(void **state) {
    (void)state;
    assert_int_not_equal(pagerun_take(1, with_room(100 * KIB)).first, 0);
    assert_int_equal(held(), 64 * KIB);
    assert_int_not_equal(pagerun_take(9, with_room(100 * KIB)).first, 0);
    assert_true(held() <= 64 * KIB + 128 * KIB);
    /* The limit is a soft one. */
    assert_int_not_equal(pagerun_take(9, with_room(0)).first, 0);
    assert_int_not_equal(pagerun_take(1000, with_room(0)).first, 0);
    pagerun_check();
}

static void it_grows_by_the_step_that_is_asked_for(void **state) {
    (void)state;
    struct pagerun_growth small = {UINT64_MAX, 128 * KIB, false};
    assert_int_not_equal(pagerun_take(1, small).first, 0);
    assert_int_equal(held(), 128 * KIB);
    assert_int_not_equal(pagerun_take(15, small).first, 0);
    assert_int_equal(held(), 128 * KIB);
    assert_int_not_equal(pagerun_take(1, small).first, 0);
    assert_int_equal(held(), 256 * KIB);
    pagerun_check();
}

static void free_memory_goes_back_before_the_heap_grows_past_the_limit(void **state) {
    (void)state;
    page_index kept[8], given[8];
    for (size_t i = 0; i < 8; i++) {
        given[i] = take(CHUNK);
        kept[i] = take(CHUNK);
    }
    for (size_t i = 0; i < 8; i++)
        pagerun_give(given[i], CHUNK);
    uint64_t before = held();
    assert_int_equal(pagerun_free_bytes(), 8 * OS_HUGE_PAGE);
    /* No free run is long enough. */
    struct pagerun run = pagerun_take(CHUNK * 2, with_room(0));
    assert_int_not_equal(run.first, 0);
    assert_int_equal(pagerun_returned_bytes(), 2 * OS_HUGE_PAGE);
    assert_int_equal(held(), before);
    pagerun_check();
    (void)kept;
}

static void the_run_freed_last_is_given_out_first(void **state) {
    (void)state;
    page_index runs[6];
    for (size_t i = 0; i < 6; i++) {
        runs[i] = take(4);
        take(1); /* keeps neighbours from merging */
    }
    for (size_t i = 0; i < 6; i++)
        pagerun_give(runs[i], 4);
    for (size_t i = 6; i-- > 0;)
        assert_int_equal(take(4), runs[i]);
}

/* Also where the free run began to the left of where the last one was cut, and was cut into since. */
static void long_runs_of_one_length_are_cut_in_a_row(void **state) {
    (void)state;
    page_index first = take(44), wall = take(1), second = take(44), hole = (take(1), take(9));
    take(1);
    pagerun_give(first, 44);
    pagerun_give(second, 44);
    page_index at = take(8);
    pagerun_give(hole, 9); /* would fit better */
    for (page_index i = 1; i < 5; i++) {
        if (i % 2 == 0)
            pagerun_give(take(3), 3);
        assert_int_equal(take(8), at + 8 * i);
    }
    pagerun_check();
    assert_int_equal(take(8), hole); /* 4 pages were left */
    pagerun_give(wall, 1);
    pagerun_check();
}

static void neighbours_merge_in_any_order(void **state) {
    (void)state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const size_t lengths[3] = {3, 70, 5};
    for (size_t o = 0; o < 6; o++) {
        page_index runs[3] = {take(3), take(70), take(5)};
        assert_int_equal(runs[1], runs[0] + 3);
        assert_int_equal(runs[2], runs[1] + 70);
        page_index wall = take(1);
        for (size_t i = 0; i < 3; i++) {
            pagerun_give(runs[orders[o][i]], lengths[orders[o][i]]);
            pagerun_check();
        }
        uint64_t before = held();
        page_index whole = take(78);
        assert_int_equal(whole, runs[0]);
        assert_int_equal(held(), before);
        pagerun_give(whole, 78);
        pagerun_give(wall, 1);
        assert_int_equal(pagerun_used_bytes(), 0);
    }
}

static void what_was_released_reads_zero_and_is_said_to(void **state) {
    (void)state;
    page_index first = take(CHUNK);
    memset(heap_address(first), 0xaa, CHUNK << PAGE_SHIFT);
    pagerun_give(first, CHUNK);
    assert_int_equal(pagerun_release(1, false), OS_HUGE_PAGE);
    assert_int_equal(pagerun_free_bytes(), 0);
    assert_int_equal(pagerun_returned_bytes(), OS_HUGE_PAGE);
    pagerun_check();
    struct pagerun run = pagerun_take(CHUNK, freely);
    assert_int_equal(run.first, first);
    assert_true(run.populated);
    assert_true(run.zeroed);
    for (size_t i = 0; i < CHUNK << PAGE_SHIFT; i += 64)
        assert_int_equal(heap_address(first)[i], 0);
}

static void a_run_that_is_partly_old_is_not_said_to_be_zero(void **state) {
    (void)state;
    page_index first = take(2 * CHUNK);
    memset(heap_address(first), 0xaa, 2 * CHUNK << PAGE_SHIFT);
    pagerun_give(first, 2 * CHUNK);
    assert_int_equal(pagerun_release(OS_HUGE_PAGE, false), OS_HUGE_PAGE);
    assert_int_equal(pagerun_free_bytes(), OS_HUGE_PAGE);
    struct pagerun run = pagerun_take(2 * CHUNK, freely);
    assert_int_equal(run.first, first);
    assert_false(run.zeroed);
}

static void whole_pieces_go_first_and_smaller_ones_on_demand(void **state) {
    (void)state;
    page_index large = take(3 * CHUNK), small = take(10);
    pagerun_give(large, 3 * CHUNK);
    uint64_t free_before = pagerun_free_bytes();
    assert_int_equal(pagerun_release(3 * OS_HUGE_PAGE - 1, true), 3 * OS_HUGE_PAGE);
    assert_int_equal(pagerun_free_bytes(), free_before - 3 * OS_HUGE_PAGE);
    assert_int_equal(pagerun_release(64 * KIB, false), 0);
    assert_int_equal(pagerun_release(64 * KIB, true), 64 * KIB);
    pagerun_give(small, 10);
    uint64_t rest = pagerun_free_bytes();
    assert_int_equal(pagerun_release(UINT64_MAX, true), rest);
    assert_int_equal(pagerun_free_bytes(), 0);
    pagerun_check();
}

/* What was returned of a run is taken again last. */
static void what_stayed_warm_in_a_partly_returned_run_is_used_first(void **state) {
    (void)state;
    page_index first = take(64);
    memset(heap_address(first), 0xaa, 64 << PAGE_SHIFT);
    take(CHUNK - 64); /* a wall: nothing else is free */
    pagerun_give(first, 64);
    assert_int_equal(pagerun_release(24 << PAGE_SHIFT, true), 24 << PAGE_SHIFT);
    uint64_t before = held(), returned = pagerun_returned_bytes();
    assert_true(pagerun_has_resident(8));
    for (size_t i = 0; i < 5; i++) {
        struct pagerun run = pagerun_take(8, with_room(0));
        assert_true(run.populated);
        assert_false(run.zeroed); /* not fresh from the kernel */
        assert_int_equal(held(), before);
    }
    assert_int_equal(pagerun_free_bytes(), 0);
    assert_false(pagerun_has_resident(1));
    assert_int_equal(pagerun_returned_bytes(), returned);
    assert_true(pagerun_take(8, with_room(0)).zeroed);
    pagerun_check();
}

/* Also where a part of the run is gone already. */
static void no_more_of_a_run_goes_than_is_asked_for(void **state) {
    (void)state;
    page_index first = take(CHUNK - 1);
    pagerun_give(first, CHUNK - 1);
    take(CHUNK - 1);
    take(1);
    pagerun_give(first, CHUNK - 1);
    for (uint64_t gone = 64 * KIB; gone <= 512 * KIB; gone += 64 * KIB) {
        assert_int_equal(pagerun_release(50 * KIB, true), 64 * KIB);
        assert_int_equal(pagerun_returned_bytes(), gone);
    }
    assert_int_equal(resident(), held());
    pagerun_check();
}

/* Free memory that is cold where it is wanted: only what has no room is returned elsewhere. */
static void only_what_must_come_from_the_kernel_needs_room(void **state) {
    (void)state;
    page_index cold = take(16), wall = take(1), warm = take(30);
    take(CHUNK - 47);
    pagerun_give(cold, 16);
    assert_int_equal(pagerun_release(UINT64_MAX, true), 16 << PAGE_SHIFT);
    pagerun_give(warm, 30);
    uint64_t before = held(), returned = pagerun_returned_bytes();
    assert_int_equal(pagerun_take(16, with_room(UINT64_MAX)).first, warm);
    assert_int_equal(pagerun_take(16, with_room(64 * KIB)).first, cold);
    assert_int_equal(held(), before + 64 * KIB); /* 8 of the 16 were returned */
    assert_int_equal(pagerun_returned_bytes(), returned + 64 * KIB);
    pagerun_check();
    (void)wall;
}

static void under_a_hard_limit_resident_memory_is_given_and_no_other(void **state) {
    (void)state;
    struct pagerun_growth none = {.room = 0, .step = OS_HUGE_PAGE, .hard = true};
    page_index first = take(64), wall = take(CHUNK - 64);
    pagerun_give(first, 64);
    assert_int_equal(pagerun_release(48 << PAGE_SHIFT, true), 48 << PAGE_SHIFT);
    uint64_t before = held();
    assert_int_not_equal(pagerun_take(16, none).first, 0);
    assert_int_equal(pagerun_take(1, none).first, 0);
    assert_int_equal(held(), before);
    none.room = 64 * KIB;
    assert_int_equal(pagerun_take(9, none).first, 0);
    assert_int_not_equal(pagerun_take(8, none).first, 0);
    assert_int_equal(held(), before + 64 * KIB);
    pagerun_check();
    (void)wall;
}

/* An alignment's rest was never populated, and a run whose population failed only in part. */
static void what_nobody_populated_does_not_count_as_resident(void **state) {
    (void)state;
    struct pagerun run = pagerun_take(3 * CHUNK, freely);
    assert_false(run.populated);
    pagerun_give(run.first, 100);
    pagerun_give(run.first + 2 * CHUNK, CHUNK);
    run.first += 100;
    assert_int_equal(held(), (2 * CHUNK - 100) << PAGE_SHIFT);
    pagerun_check();
    populate(run, 2 * CHUNK - 100);
    assert_int_equal(resident(), held());
    pagerun_give(run.first, 2 * CHUNK - 100);
    assert_int_equal(resident(), held());
    assert_int_equal(held(), (2 * CHUNK - 100) << PAGE_SHIFT);
    assert_true(pagerun_release(UINT64_MAX, true) > 0);

    run = pagerun_take(3 * CHUNK, freely);
    assert_false(run.populated);
    assert_int_equal(os_mem_populate(heap_address(run.first), CHUNK << PAGE_SHIFT), 0);
    pagerun_give_unpopulated(run.first, 3 * CHUNK);
    assert_int_equal(held(), 0);
    assert_int_equal(resident(), 0);
    pagerun_check();
}

/* A page for which there is no memory: it cannot be accessed. */
static void a_run_that_cannot_be_populated_is_not_given(void **state) {
    (void)state;
    page_index first = take(32);
    memset(heap_address(first), 0xaa, 32 << PAGE_SHIFT);
    take(CHUNK - 32);
    pagerun_give(first, 32);
    assert_int_equal(pagerun_release(24 << PAGE_SHIFT, true), 24 << PAGE_SHIFT);
    assert_int_equal(os_mem_protect_none(heap_address(first + 16), PAGE_BYTES), 0);
    errno = 0;
    assert_int_equal(pagerun_take(32, freely).first, 0);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(os_mem_commit(heap_address(first + 16), PAGE_BYTES), 0);
    assert_int_equal(resident(), held());
    pagerun_check();
    struct pagerun run = pagerun_take(32, freely);
    assert_int_equal(run.first, first);
    for (size_t i = 0; run.zeroed && i < 32 << PAGE_SHIFT; i += 64)
        assert_int_equal(heap_address(first)[i], 0);
    assert_int_equal(resident(), held());
}

static int init_without_address_space(void *unused) {
    (void)unused;
    struct rlimit limit = {1 << 20, 1 << 20}; /* less than there is already */
    if (heap_init(false) != 0 || setrlimit(RLIMIT_AS, &limit) != 0)
        return 2;
    errno = 0;
    return pagerun_init(false) == -1 && errno == ENOMEM ? 0 : 1;
}

static void without_address_space_for_its_map_it_says_so(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    char text[256];
    assert_int_equal(in_child(init_without_address_space, NULL, text, sizeof text), 0);
    assert_string_equal(text, "");
}

struct shadow {
    page_index first;
    size_t pages;
    unsigned char fill;
};

/* Random work against a list of what was taken: no page is given twice, contents stay, the books balance. */
static void random_work(uint64_t seed, unsigned steps, bool exact) {
    print_message("seed %llu\n", (unsigned long long)seed);
    static struct shadow have[400];
    size_t count = 0, used = 0;
    for (unsigned step = 0; step < steps; step++) {
        uint64_t r = next_random(&seed);
        if (r % 16 == 0) {
            pagerun_release((r >> 8) % (8 * MIB), (r & 0x1000) != 0);
        } else if (count < 400 && used < 4000 && (r % 2 == 0 || count == 0)) {
            size_t pages = (r >> 8) % 8 != 0 ? 1 + (r >> 16) % 20 : 1 + (r >> 16) % 700;
            struct pagerun run =
                pagerun_take(pages, (r >> 12) % 4 == 0 ? with_room((r >> 32) % MIB) : freely);
            assert_int_not_equal(run.first, 0);
            for (size_t i = 0; i < count; i++)
                assert_true(have[i].first + have[i].pages <= run.first || run.first + pages <= have[i].first);
            if (!run.populated && r % 3 == 0) { /* as for an alignment: only a part is used */
                size_t front = (r >> 40) % (pages / 2), back = (r >> 48) % (pages / 2);
                pagerun_give(run.first, front);
                pagerun_give(run.first + (page_index)(pages - back), back);
                run.first += (page_index)front;
                pages -= front + back;
            }
            populate(run, pages);
            char *at = heap_address(run.first);
            size_t bytes = pages << PAGE_SHIFT;
            for (size_t i = 0; run.zeroed && i < bytes; i += PAGE_BYTES / 2)
                assert_int_equal(at[i], 0);
            have[count] = (struct shadow){run.first, pages, (unsigned char)(1 + r % 250)};
            for (size_t i = 0; i < bytes; i += PAGE_BYTES / 2)
                at[i] = (char)have[count].fill;
            count++;
            used += pages;
        } else if (count > 0) {
            size_t i = (size_t)(r >> 8) % count;
            const unsigned char *at = (const unsigned char *)heap_address(have[i].first);
            for (size_t b = 0; b < have[i].pages << PAGE_SHIFT; b += PAGE_BYTES / 2)
                assert_int_equal(at[b], have[i].fill);
            pagerun_give(have[i].first, have[i].pages);
            used -= have[i].pages;
            have[i] = have[--count];
        }
        assert_int_equal(pagerun_used_bytes(), used << PAGE_SHIFT);
        pagerun_check();
        if (exact && step % 16 == 0)
            assert_int_equal(resident(), held());
    }
    while (count > 0) {
        count--;
        pagerun_give(have[count].first, have[count].pages);
    }
    assert_int_equal(pagerun_used_bytes(), 0);
    pagerun_check();
}

static void random_work_keeps_the_books(void **state) {
    (void)state;
    random_work(20260101, 3000, false);
}

/* Of all that the heap ever grew to, resident is what the books say. */
static void the_books_say_what_is_resident(void **state) {
    (void)state;
    random_work(7, 1000, true);
    assert_int_equal(resident(), held());
    page_index first = take(2 * CHUNK);
    assert_int_equal(resident(), held());
    pagerun_give(first, 2 * CHUNK);
    pagerun_release(UINT64_MAX, true);
    assert_int_equal(resident(), 0);
    take(1);
    assert_int_equal(resident(), held());
    take(3 * CHUNK / 2);
    assert_int_equal(resident(), held());
}

/* With huge pages the first touch brings 2 MiB: then 2 MiB must be in the books. */
static void the_books_know_of_huge_pages(void **state) {
    (void)state;
    page_index runs[40];
    for (size_t i = 0; i < 40; i++)
        runs[i] = take(CHUNK);
    for (size_t i = 0; i < 40; i += 2)
        pagerun_give(runs[i], CHUNK);
    assert_int_equal(pagerun_release(UINT64_MAX, true), 20 * OS_HUGE_PAGE);
    assert_int_equal(resident(), held());
    for (size_t i = 0; i < 40; i += 2)
        take(CHUNK * 3 / 4);
    assert_true(resident() <= held() + OS_HUGE_PAGE);
    for (size_t i = 0; i < 20; i++)
        take(CHUNK * 5 / 4); /* populated by the caller */
    assert_true(resident() <= held() + OS_HUGE_PAGE);
    pagerun_check();
}

int main(void) {
#define SMALL(test) cmocka_unit_test_setup_teardown(test, begin_small, end)
#define HUGE(test)  cmocka_unit_test_setup_teardown(test, begin_huge, end)
    const struct CMUnitTest tests[] = {
        SMALL(the_heap_grows_by_two_mebibytes),
        HUGE(the_heap_grows_by_two_mebibytes),
        SMALL(near_the_limit_it_grows_by_what_is_needed),
        HUGE(near_the_limit_it_grows_by_what_is_needed),
        SMALL(it_grows_by_the_step_that_is_asked_for),
        SMALL(free_memory_goes_back_before_the_heap_grows_past_the_limit),
        SMALL(the_run_freed_last_is_given_out_first),
        SMALL(long_runs_of_one_length_are_cut_in_a_row),
        SMALL(neighbours_merge_in_any_order),
        SMALL(what_was_released_reads_zero_and_is_said_to),
        HUGE(what_was_released_reads_zero_and_is_said_to),
        SMALL(a_run_that_is_partly_old_is_not_said_to_be_zero),
        SMALL(whole_pieces_go_first_and_smaller_ones_on_demand),
        SMALL(what_stayed_warm_in_a_partly_returned_run_is_used_first),
        SMALL(no_more_of_a_run_goes_than_is_asked_for),
        SMALL(only_what_must_come_from_the_kernel_needs_room),
        SMALL(under_a_hard_limit_resident_memory_is_given_and_no_other),
        SMALL(what_nobody_populated_does_not_count_as_resident),
        SMALL(a_run_that_cannot_be_populated_is_not_given),
        cmocka_unit_test(without_address_space_for_its_map_it_says_so),
        SMALL(random_work_keeps_the_books),
        HUGE(random_work_keeps_the_books),
        SMALL(the_books_say_what_is_resident),
        HUGE(the_books_know_of_huge_pages),
    };
    sizeclass_init();
    if (offheap_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
