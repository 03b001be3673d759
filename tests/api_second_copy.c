/*
 * A second copy of the library in one process is refused. The first copy is the one that this program is
 * linked with, the second a shared library that it loads into a namespace of its own. ctest: lanes=none
 */
#include "child.h"

#include <dlfcn.h>

typedef int init_function(const tern_options *options);
typedef const char *error_function(void);

static int load_second(void) {
    char path[4096];
    const char *build = getenv("TERN_BUILD_DIR");
    if (build == NULL)
        return 77;
    snprintf(path, sizeof path, "%s/libtern.so", build);
    void *second = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
    if (second == NULL) {
        fprintf(stderr, "%s\n", dlerror()); /* static thread-local storage may be used up */
        return 77;
    }
    init_function *init;
    error_function *error;
    *(void **)&init = dlsym(second, "tern_init");
    *(void **)&error = dlsym(second, "tern_error");
    must(init != NULL && init != tern_init && error != NULL);
    must(tern_init(NULL) == 0);
    must(init(NULL) == -1); /* with an errno of its namespace's own */
    must(strstr(error(), "another copy of the library") != NULL);
    must(tern_alloc(8) != NULL);
    tern_shutdown();
    return 0;
}

/* In a program of its own: room for a second copy's thread-local storage must be asked for when a program
 * starts. */
static int run_second(void *unused) {
    (void)unused;
    setenv("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=16384", 1);
    execl("/proc/self/exe", "api_second_copy", "second", (char *)NULL);
    return 1;
}

static void it_is_refused(void **state) {
    (void)state;
    int status = in_child(run_second, NULL, child_text, sizeof child_text);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("%s", child_text);
        skip();
    }
    if (status != 0)
        print_error("%s\n", child_text);
    assert_int_equal(status, 0);
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "second") == 0)
        return load_second();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
