/* ctest: lanes=none,thread (AddressSanitizer's frames do not fit the smallest stack there is) */
/* Kernel threads, their stacks and names: what gc/os/os_thread promises. */
#define _GNU_SOURCE 1
#include "gc/os/os_thread.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "gc/os/os_mem.h"
#include "gc/os/os_spill.h"

#define STACK_BYTES ((size_t)256 * 1024)

static char **main_argv;

/* What a thread finds out about itself. */
struct self {
    pid_t tid;
    int rc;
    uintptr_t lo;
    uintptr_t hi;
    uintptr_t floor;
    uintptr_t sp;
    sigset_t mask;
    char name[16];
};

static void look(struct self *self) {
    self->tid = os_thread_id();
    self->rc = os_thread_stack(&self->lo, &self->hi);
    self->floor = self->rc == 0 ? os_thread_stack_floor(self->lo, self->hi) : 0;
    self->sp = (uintptr_t)os_frame_sp();
    pthread_sigmask(SIG_SETMASK, NULL, &self->mask);
    os_thread_name(self->tid, self->name);
}

static void *look_in_a_thread(void *self) {
    look(self);
    return self;
}

static struct self start_and_look(const char *name, size_t stack_bytes) {
    struct self self;
    memset(&self, 0, sizeof self);
    pthread_t thread;
    assert_int_equal(os_thread_start(&thread, name, stack_bytes, look_in_a_thread, &self), 0);
    void *returned = NULL;
    assert_int_equal(pthread_join(thread, &returned), 0);
    assert_ptr_equal(returned, &self);
    assert_int_equal(self.rc, 0);
    return self;
}

static bool is_mapped(uintptr_t page) {
    unsigned char in;
    return mincore((void *)page, 1, &in) == 0;
}

static void the_main_thread_has_the_processes_number(void **state) {
    (void)state;
    assert_int_equal(os_thread_id(), getpid());
    assert_int_not_equal(start_and_look("other", 0).tid, getpid());
}

static void the_number_is_right_after_fork(void **state) {
    (void)state;
    assert_int_equal(os_thread_id(), getpid());
    pid_t pid = fork();
    assert_int_not_equal(pid, -1);
    if (pid == 0) {
        _exit(os_thread_id() == getpid() ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void the_main_stack_reaches_from_here_to_the_arguments(void **state) {
    (void)state;
    struct self self;
    look(&self);
    assert_int_equal(self.rc, 0);
    assert_in_range(self.sp, self.lo, self.hi - 1);
    assert_in_range((uintptr_t)main_argv, self.lo, self.hi - 1);
    assert_in_range((uintptr_t)main_argv[0], self.lo, self.hi - 1);
    /* The last string the kernel put there. */
    char **last = environ;
    while (*last != NULL && last[1] != NULL) {
        last++;
    }
    if (*last != NULL) {
        assert_in_range((uintptr_t)*last, self.lo, self.hi - 1);
    }
    assert_false(is_mapped(self.hi));
}

static void the_floor_of_the_main_stack_is_where_its_mapping_begins(void **state) {
    (void)state;
    struct self self;
    look(&self);
    size_t page = os_mem_page_size();
    assert_in_range(self.floor, self.lo, self.sp);
    assert_int_equal(self.floor % page, 0);
    assert_true(self.floor == self.lo || !is_mapped(self.floor - page));
    for (uintptr_t at = self.floor; at < self.hi; at += page) {
        assert_true(is_mapped(at));
    }
}

static void the_floor_is_found_wherever_a_hole_is(void **state) {
    (void)state;
    const size_t page = os_mem_page_size();
    const size_t pages = 1000;
    char *p = os_mem_reserve(pages * page, 0);
    assert_non_null(p);
    uintptr_t lo = (uintptr_t)p;
    uintptr_t hi = lo + pages * page;
    errno = 77;
    assert_int_equal(os_thread_stack_floor(lo, hi), lo);
    assert_int_equal(os_thread_stack_floor(lo + 1, hi), lo + page);
    assert_int_equal(os_thread_stack_floor(hi, hi), hi);
    static const size_t holes[] = {0, 1, 255, 256, 257, 500, 743, 744, 745, 998, 999};
    for (size_t i = 0; i < sizeof holes / sizeof holes[0]; i++) {
        os_mem_unreserve(p + holes[i] * page, page);
        assert_int_equal(os_thread_stack_floor(lo, hi), lo + (holes[i] + 1) * page);
    }
    assert_int_equal(os_thread_stack_floor(lo, hi - 8), hi - 8);
    assert_int_equal(errno, 77);
    os_mem_unreserve(p, pages * page);
}

static void a_thread_has_the_stack_it_was_given(void **state) {
    (void)state;
    struct self self = start_and_look("stack", STACK_BYTES);
    assert_in_range(self.sp, self.lo, self.hi - 1);
    assert_true(self.hi - self.lo >= STACK_BYTES / 2); /* thread-local storage takes its share */
    struct self usual = start_and_look("default", 0);
    assert_true(self.hi - self.lo < usual.hi - usual.lo);
    assert_int_equal(self.floor, self.lo);
    /* Too small a stack becomes the smallest there is; an odd size is rounded. */
    start_and_look("tiny", 1);
    start_and_look("odd", STACK_BYTES + 1);
}

static void a_thread_runs_with_all_signals_blocked_but_faults(void **state) {
    (void)state;
    sigset_t before;
    sigset_t after;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    struct self self = start_and_look("signals", 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    static const int blocked[] = {SIGUSR1, SIGTERM, SIGINT, SIGPROF, SIGCHLD};
    static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    for (size_t i = 0; i < sizeof blocked / sizeof blocked[0]; i++) {
        assert_true(sigismember(&self.mask, blocked[i]));
    }
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        assert_false(sigismember(&self.mask, open[i]));
    }
    for (int sig = 1; sig <= SIGRTMAX; sig++) {
        assert_int_equal(sigismember(&before, sig), sigismember(&after, sig));
    }
}

static void a_thread_runs_under_its_name(void **state) {
    (void)state;
    assert_string_equal(start_and_look("tern-mark", 0).name, "tern-mark");
    assert_string_equal(start_and_look("tern-a-name-that-is-too-long", 0).name, "tern-a-name-tha");
    char name[16];
    os_thread_name(-1, name);
    assert_string_equal(name, "?");
}

static void a_thread_that_cannot_be_started_is_an_error(void **state) {
    (void)state;
    pthread_t thread;
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 4};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        errno = 0;
        assert_int_equal(os_thread_start(&thread, "huge", sizes[i], look_in_a_thread, NULL), -1);
        assert_true(errno == EAGAIN || errno == ENOMEM);
    }
}

/* Runs the program again with so large an environment that the main stack's last page is far above its first
 * frame. */
static void grow_environment(char **argv) {
    static const char variable[] = "TERN_TEST_FILLER";
    static char filler[32 * 1024];
    if (getenv(variable) == NULL) {
        memset(filler, 'x', sizeof filler - 1);
        setenv(variable, filler, 1);
        execv("/proc/self/exe", argv);
    }
}

int main(int argc, char **argv) {
    (void)argc;
    grow_environment(argv);
    main_argv = argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_main_thread_has_the_processes_number),
        cmocka_unit_test(the_number_is_right_after_fork),
        cmocka_unit_test(the_main_stack_reaches_from_here_to_the_arguments),
        cmocka_unit_test(the_floor_of_the_main_stack_is_where_its_mapping_begins),
        cmocka_unit_test(the_floor_is_found_wherever_a_hole_is),
        cmocka_unit_test(a_thread_has_the_stack_it_was_given),
        cmocka_unit_test(a_thread_runs_with_all_signals_blocked_but_faults),
        cmocka_unit_test(a_thread_runs_under_its_name),
        cmocka_unit_test(a_thread_that_cannot_be_started_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
