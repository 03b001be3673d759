/* Pages from the kernel: what gc/os/os_mem promises about reserved, committed, populated and returned ranges.
 */
#define _GNU_SOURCE 1
#include "gc/os/os_mem.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "gc/os/os_file.h"

#define MIB ((size_t)1 << 20)

/* Large against the kernel's uncertainty about resident sizes, and against what a test program holds by
 * itself. */
#define BIG_BYTES (96 * MIB)

static char *reserve(size_t bytes) {
    char *p = os_mem_reserve(bytes, 0);
    assert_non_null(p);
    return p;
}

static char *commit(size_t bytes) {
    char *p = reserve(bytes);
    assert_int_equal(os_mem_commit(p, bytes), 0);
    return p;
}

/* Whether the kernel can read a byte there; it says EFAULT where the program would get a SIGSEGV. */
static bool can_read(const char *p) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    long n = syscall(SYS_write, ends[1], p, 1);
    close(ends[0]);
    close(ends[1]);
    return n == 1;
}

static size_t resident_pages(char *p, size_t bytes) {
    size_t pages = bytes / os_mem_page_size();
    unsigned char *in = malloc(pages);
    size_t count = 0;
    if (in != NULL && mincore(p, bytes, in) == 0) {
        for (size_t i = 0; i < pages; i++) {
            count += in[i] & 1;
        }
    }
    free(in);
    return count;
}

static void a_reserved_range_is_aligned(void **state) {
    (void)state;
    for (size_t align = 1; align <= 64 * MIB; align *= 2) {
        char *p = os_mem_reserve(3 * MIB + 1, align);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
        assert_int_equal((uintptr_t)p % os_mem_page_size(), 0);
        os_mem_unreserve(p, 3 * MIB + os_mem_page_size());
    }
}

/* Bytes of address space the process has mapped. */
static uint64_t mapped_bytes(void) {
    char text[128];
    const char *s = text;
    uint64_t pages = 0;
    assert_int_equal(os_file_first_line("/proc/self/statm", text, sizeof text), 0);
    assert_true(os_file_number(&s, 10, &pages));
    return pages * os_mem_page_size();
}

static void an_alignment_costs_no_address_space(void **state) {
    (void)state;
    uint64_t before = mapped_bytes();
    char *p = os_mem_reserve(MIB, 64 * MIB);
    char *q = os_mem_reserve(MIB, 64 * MIB);
    assert_non_null(p);
    assert_non_null(q);
    assert_int_equal(mapped_bytes() - before, 2 * MIB);
    os_mem_unreserve(p, MIB);
    os_mem_unreserve(q, MIB);
    assert_int_equal(mapped_bytes(), before);
}

static void a_reservation_that_cannot_be_is_refused(void **state) {
    (void)state;
    errno = 0;
    assert_null(os_mem_reserve(0, 0));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(os_mem_reserve(MIB, 3 * MIB));
    assert_int_equal(errno, EINVAL);
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        errno = 0;
        assert_null(os_mem_reserve(sizes[i], OS_HUGE_PAGE));
        assert_int_equal(errno, ENOMEM);
    }
}

static void a_reserved_range_is_out_of_reach_until_committed(void **state) {
    (void)state;
    char *p = reserve(2 * MIB);
    assert_false(can_read(p));
    assert_int_equal(os_mem_commit(p + MIB, MIB), 0);
    assert_false(can_read(p));
    assert_true(can_read(p + MIB));
    p[MIB] = 1;
    assert_int_equal(p[2 * MIB - 1], 0);
    os_mem_unreserve(p, 2 * MIB);
    assert_false(can_read(p + MIB));
}

static void populated_pages_are_resident_and_keep_their_contents(void **state) {
    (void)state;
    const size_t bytes = 5 * MIB;
    char *p = commit(bytes);
    os_mem_advise_huge(p, bytes, false);
    assert_int_equal(resident_pages(p, bytes), 0);
    p[3 * MIB] = 42;
    assert_int_equal(os_mem_populate(p, bytes), 0);
    assert_int_equal(resident_pages(p, bytes), bytes / os_mem_page_size());
    assert_int_equal(p[3 * MIB], 42);
    assert_int_equal(p[3 * MIB + 1], 0);
    os_mem_unreserve(p, bytes);
}

static void populating_what_is_not_committed_fails_with_enomem(void **state) {
    (void)state;
    char *p = reserve(2 * MIB);
    errno = 0;
    assert_int_equal(os_mem_populate(p, MIB), -1);
    assert_int_equal(errno, ENOMEM);
    os_mem_unreserve(p, 2 * MIB);
    errno = 0;
    assert_int_equal(os_mem_populate(p, MIB), -1);
    assert_int_equal(errno, ENOMEM);
}

/* Makes the kernel of this process one that knows no madvise(MADV_POPULATE_WRITE). */
static bool forget_populate(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 23, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void populating_works_on_a_kernel_that_cannot_do_it_in_batches(void **state) {
    (void)state;
    enum { OK = 0, NOT_RESIDENT = 1, CONTENTS_LOST = 2, NO_FILTER = 3 };
    const size_t bytes = 3 * MIB;
    char *p = commit(bytes);
    os_mem_advise_huge(p, bytes, false);
    p[MIB] = 42;
    pid_t pid = fork();
    assert_int_not_equal(pid, -1);
    if (pid == 0) {
        if (!forget_populate()) {
            _exit(NO_FILTER);
        }
        if (os_mem_populate(p, bytes) != 0 || resident_pages(p, bytes) != bytes / os_mem_page_size()) {
            _exit(NOT_RESIDENT);
        }
        _exit(p[MIB] == 42 && p[0] == 0 ? OK : CONTENTS_LOST);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    os_mem_unreserve(p, bytes);
    if (WEXITSTATUS(status) == NO_FILTER) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), OK);
}

static void a_released_range_reads_as_zeros_and_stays_committed(void **state) {
    (void)state;
    const size_t bytes = 4 * MIB;
    char *p = commit(bytes);
    memset(p, 7, bytes);
    assert_int_equal(os_mem_release(p + MIB, MIB), 0);
    assert_int_equal(resident_pages(p + MIB, MIB), 0);
    for (size_t i = 0; i < bytes; i += 512) {
        assert_int_equal(p[i], i >= MIB && i < 2 * MIB ? 0 : 7);
    }
    p[MIB] = 1;
    os_mem_unreserve(p, bytes);
}

static void releasing_locked_pages_fails_and_keeps_them(void **state) {
    (void)state;
    size_t page = os_mem_page_size();
    char *p = commit(page);
    *p = 7;
    if (syscall(SYS_mlock, p, page) != 0) { /* the sanitizers make mlock do nothing */
        skip();                             /* RLIMIT_MEMLOCK is 0 */
    }
    errno = 0;
    assert_int_equal(os_mem_release(p, page), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(*p, 7);
    os_mem_unreserve(p, page);
}

static void a_guard_page_is_out_of_reach_and_keeps_its_contents(void **state) {
    (void)state;
    size_t page = os_mem_page_size();
    char *p = commit(3 * page);
    memset(p, 7, 3 * page);
    assert_int_equal(os_mem_protect_none(p + page, page), 0);
    assert_true(can_read(p + page - 1));
    assert_false(can_read(p + page));
    assert_true(can_read(p + 2 * page));
    assert_int_equal(os_mem_commit(p + page, page), 0);
    assert_int_equal(p[page], 7);
    os_mem_unreserve(p, 3 * page);
}

static void advice_about_huge_pages_never_fails(void **state) {
    (void)state;
    char *p = commit(OS_HUGE_PAGE);
    errno = 77;
    os_mem_advise_huge(p, OS_HUGE_PAGE, true);
    os_mem_advise_huge(p, OS_HUGE_PAGE, false);
    os_mem_advise_huge(p + 1, OS_HUGE_PAGE, true);
    assert_int_equal(errno, 77);
    os_mem_unreserve(p, OS_HUGE_PAGE);
}

static void resident_size_follows_what_is_populated_and_released(void **state) {
    (void)state;
    char *p = commit(BIG_BYTES);
    uint64_t before = os_mem_rss();
    assert_true(before > 0);
    assert_int_equal(os_mem_populate(p, BIG_BYTES), 0);
    assert_true(os_mem_rss() >= before + BIG_BYTES / 4 * 3);
    assert_int_equal(os_mem_release(p, BIG_BYTES), 0);
    assert_true(os_mem_rss() <= before + BIG_BYTES / 4);
    os_mem_unreserve(p, BIG_BYTES);
}

static void the_peak_outlives_a_release_until_it_is_reset(void **state) {
    (void)state;
    char *p = commit(BIG_BYTES);
    assert_int_equal(os_mem_populate(p, BIG_BYTES), 0);
    os_mem_unreserve(p, BIG_BYTES);
    assert_true(os_mem_peak_rss() >= os_mem_rss() + BIG_BYTES / 4 * 3);
    if (os_mem_reset_peak_rss() != 0) {
        skip(); /* /proc is read-only here */
    }
    assert_true(os_mem_peak_rss() <= os_mem_rss() + BIG_BYTES / 4);
}

static void the_peak_of_a_program_is_not_that_of_its_parent(void **state) {
    (void)state;
    char *p = commit(BIG_BYTES);
    assert_int_equal(os_mem_populate(p, BIG_BYTES), 0);
    pid_t pid = fork();
    assert_int_not_equal(pid, -1);
    if (pid == 0) {
        execl("/proc/self/exe", "test_os_mem", "peak", (char *)NULL);
        _exit(2);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    os_mem_unreserve(p, BIG_BYTES);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "peak") == 0) {
        return os_mem_peak_rss() < BIG_BYTES ? 0 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reserved_range_is_aligned),
        cmocka_unit_test(an_alignment_costs_no_address_space),
        cmocka_unit_test(a_reservation_that_cannot_be_is_refused),
        cmocka_unit_test(a_reserved_range_is_out_of_reach_until_committed),
        cmocka_unit_test(populated_pages_are_resident_and_keep_their_contents),
        cmocka_unit_test(populating_what_is_not_committed_fails_with_enomem),
        cmocka_unit_test(populating_works_on_a_kernel_that_cannot_do_it_in_batches),
        cmocka_unit_test(a_released_range_reads_as_zeros_and_stays_committed),
        cmocka_unit_test(releasing_locked_pages_fails_and_keeps_them),
        cmocka_unit_test(a_guard_page_is_out_of_reach_and_keeps_its_contents),
        cmocka_unit_test(advice_about_huge_pages_never_fails),
        cmocka_unit_test(resident_size_follows_what_is_populated_and_released),
        cmocka_unit_test(the_peak_outlives_a_release_until_it_is_reset),
        cmocka_unit_test(the_peak_of_a_program_is_not_that_of_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
