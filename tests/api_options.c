/* Starting the library: what options and environment say, and who wins. Each start is a process of its own.
 */
#include "child.h"

#include <signal.h>

static int options_win(void *unused) {
    (void)unused;
    setenv("TERN_GOGC", "300", 1);
    setenv("TERN_GOMEMLIMIT", "100MiB", 1);
    setenv("TERN_GODEBUG", "gctrace=1", 1);
    setenv("GOMAXPROCS", "7", 1);
    tern_options options;
    tern_options_init(&options);
    options.gc_percent = 50;
    options.memory_limit = 1 << 30;
    options.processors = 3;
    options.trace = 0;
    must(tern_init(&options) == 0);
    must(tern_gc_percent() == 50 && stats().gc_percent == 50);
    must(tern_memory_limit() == 1 << 30 && stats().memory_limit == 1 << 30);
    must(stats().processors == 3);
    tern_collect();
    return 0;
}

static void an_explicit_option_wins_over_the_environment(void **state) {
    (void)state;
    child_passes(options_win, NULL);
    assert_string_equal(child_text, ""); /* no trace */
}

static int environment_decides(void *unused) {
    (void)unused;
    setenv("GOGC", "400", 1);
    setenv("TERN_GOGC", "300", 1);
    setenv("GOMEMLIMIT", "100MiB", 1);
    setenv("TERN_GODEBUG", "gctrace=1", 1);
    setenv("GOMAXPROCS", "7", 1);
    tern_options options;
    tern_options_init(&options);
    must(tern_init(&options) == 0);
    must(tern_gc_percent() == 300 && tern_memory_limit() == 100 << 20 && stats().processors == 7);
    must(tern_thread_is_attached());
    must(strcmp(tern_error(), "") == 0);
    tern_collect();
    return 0;
}

static void what_is_not_set_is_the_environments(void **state) {
    (void)state;
    child_passes(environment_decides, NULL);
    assert_memory_equal(child_text, "gc 1 @", 6);
    assert_int_equal(child_lines(), 1);
    assert_non_null(strstr(child_text, " 7 P (forced)\n"));
}

static int off_options(void *unused) {
    (void)unused;
    setenv("GOGC", "400", 1);
    setenv("GOMEMLIMIT", "100MiB", 1);
    tern_options options;
    tern_options_init(&options);
    options.gc_percent = TERN_GC_OFF;
    options.memory_limit = TERN_NO_LIMIT;
    must(tern_init(&options) == 0);
    must(tern_gc_percent() == TERN_GC_OFF && tern_memory_limit() == TERN_NO_LIMIT);
    must(stats().goal_bytes == UINT64_MAX);
    for (unsigned i = 0; i < 1000; i++)
        tern_keep(tern_alloc_leaf(100000));
    must(stats().collections == 0);
    return 0;
}

static void off_is_an_option_too(void **state) {
    (void)state;
    child_passes(off_options, NULL);
}

static const char *const bad[][2] = {
    {"TERN_GOGC", "50%"},
    {"GOGC", "junk"},
    {"GOMEMLIMIT", "1.5GiB"},
    {"TERN_GOMEMLIMIT", "OFF"},
    {"GOMAXPROCS", "-1"},
    {"TERN_GODEBUG", "foo=1"},
    {"TERN_GODEBUG", "marker=fast"},
    {"GODEBUG", "gctrace=x"},
};

static int refuse_environment(void *argument) {
    const char *const *pair = argument;
    setenv(pair[0], pair[1], 1);
    errno = 0;
    must(tern_init(NULL) == -1 && errno == EINVAL);
    must(strstr(tern_error(), pair[0]) != NULL && strchr(tern_error(), '\n') == NULL);
    const char *value = strchr(pair[1], '=') != NULL ? strchr(pair[1], '=') + 1 : pair[1];
    must(strcmp(pair[1], "foo=1") == 0 || strstr(tern_error(), value) != NULL);
    must(!tern_thread_is_attached());
    /* It may be put right. */
    unsetenv(pair[0]);
    must(tern_init(NULL) == 0);
    must(tern_alloc(8) != NULL);
    return 0;
}

static int start_by_itself(void *argument) {
    const char *const *pair = argument;
    setenv(pair[0], pair[1], 1);
    tern_keep(tern_alloc(8));
    return 0;
}

static void a_bad_environment_is_an_error_in_one_line(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        child_passes(refuse_environment, (void *)(uintptr_t)bad[i]);
        int status = in_child(start_by_itself, (void *)(uintptr_t)bad[i], child_text, sizeof child_text);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 2);
        assert_int_equal(child_lines(), 1);
        assert_non_null(strstr(child_text, bad[i][0]));
    }
}

/* At its exit the program calls the library once more. */
static void allocate_at_exit(void) {
    tern_keep(tern_alloc(8));
}

static int start_by_itself_with_exit_handler(void *argument) {
    atexit(allocate_at_exit);
    alarm(10);
    return start_by_itself(argument);
}

static void the_programs_exit_handlers_may_call_the_library(void **state) {
    (void)state;
    int status =
        in_child(start_by_itself_with_exit_handler, (void *)(uintptr_t)bad[0], child_text, sizeof child_text);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 2);
}

static int refuse_options(void *unused) {
    (void)unused;
    tern_options options;
    tern_options_init(&options);
    options.size = 0;
    errno = 0;
    must(tern_init(&options) == -1 && errno == EINVAL && strstr(tern_error(), "size") != NULL);
    tern_options_init(&options);
    options.size++;
    must(tern_init(&options) == -1 && errno == EINVAL);
    tern_options_init(&options);
    options.processors = 0;
    must(tern_init(&options) == -1 && errno == EINVAL && strstr(tern_error(), "processors") != NULL);
    static const int signals[] = {SIGKILL, SIGSTOP, SIGSEGV, 12345, -5};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        tern_options_init(&options);
        options.stop_signal = signals[i];
        errno = 0;
        if (tern_init(&options) != -1 || errno != EINVAL)
            fprintf(stderr, "signal %d\n", signals[i]);
        must(errno == EINVAL && !tern_thread_is_attached());
    }
    unsetenv("TERN_GODEBUG"); /* cooperative stops have no use for it */
    signal(SIGUSR2, SIG_IGN);
    tern_options_init(&options);
    options.stop_signal = SIGUSR2; /* it is taken */
    errno = 0;
    must(tern_init(&options) == -1 && errno == EINVAL && strstr(tern_error(), "signal") != NULL);
    must(tern_init(NULL) == 0);
    return 0;
}

static void bad_options_are_refused(void **state) {
    (void)state;
    child_passes(refuse_options, NULL);
}

static int other_signal(void *unused) {
    (void)unused;
    tern_options options;
    tern_options_init(&options);
    options.stop_signal = SIGUSR1;
    must(tern_init(&options) == 0);
    struct sigaction now;
    must(sigaction(SIGUSR1, NULL, &now) == 0 && now.sa_handler != SIG_DFL);
    for (unsigned i = 0; i < 10; i++)
        tern_collect();
    return 0;
}

static void the_signal_can_be_chosen(void **state) {
    (void)state;
    if (cooperative())
        skip();
    child_passes(other_signal, NULL);
}

static int start_twice(void *unused) {
    (void)unused;
    must(tern_init(NULL) == 0);
    errno = 0;
    must(tern_init(NULL) == -1 && errno == EALREADY && strlen(tern_error()) > 0);
    must(tern_alloc(8) != NULL);
    tern_shutdown();
    errno = 0;
    must(tern_init(NULL) == -1 && errno == EALREADY);
    return 0;
}

static int start_after_allocation(void *unused) {
    (void)unused;
    must(tern_alloc(8) != NULL);
    errno = 0;
    must(tern_init(NULL) == -1 && errno == EALREADY);
    return 0;
}

static void it_starts_once(void **state) {
    (void)state;
    child_passes(start_twice, NULL);
    child_passes(start_after_allocation, NULL);
}

static int no_address_space(void *unused) {
    (void)unused;
    struct rlimit little = {48 << 20, 48 << 20};
    must(setrlimit(RLIMIT_AS, &little) == 0);
    errno = 0;
    must(tern_init(NULL) == -1 && errno == ENOMEM && strstr(tern_error(), "ulimit -v") != NULL);
    return 0;
}

static int little_address_space(void *argument) {
    struct rlimit little = {*(rlim_t *)argument, *(rlim_t *)argument};
    must(setrlimit(RLIMIT_AS, &little) == 0);
    must(tern_init(NULL) == 0);
    for (unsigned i = 0; i < 100000; i++)
        must(tern_alloc(1 + i % 1000) != NULL);
    return 0;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static void a_limit_on_address_space_makes_the_heap_smaller(void **state) {
    (void)state;
    if (SANITIZED)
        skip();
    child_passes(no_address_space, NULL);
    for (rlim_t limit = 200 << 20; limit < (rlim_t)16 << 30; limit = limit * 3 / 2)
        child_passes(little_address_space, &limit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_explicit_option_wins_over_the_environment),
        cmocka_unit_test(what_is_not_set_is_the_environments),
        cmocka_unit_test(off_is_an_option_too),
        cmocka_unit_test(a_bad_environment_is_an_error_in_one_line),
        cmocka_unit_test(the_programs_exit_handlers_may_call_the_library),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(the_signal_can_be_chosen),
        cmocka_unit_test(it_starts_once),
        cmocka_unit_test(a_limit_on_address_space_makes_the_heap_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
