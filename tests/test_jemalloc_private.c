/* The private jemalloc is the library's own: configured by it alone, and nobody else's malloc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char *tern_je_malloc_conf;
void *tern_je_mallocx(size_t size, int flags);
void tern_je_dallocx(void *block, int flags);
int tern_je_mallctl(const char *name, void *old, size_t *old_size, void *new_value, size_t new_size);

/* Reads opt.<key> as jemalloc holds it, whatever its type, as the text that malloc_conf would have. */
static void read_option(const char *key, bool numeric, char *text, size_t size) {
    char name[128];
    snprintf(name, sizeof name, "opt.%s", key);
    const char *string = NULL;
    ssize_t wide = 0;
    unsigned narrow = 0;
    bool flag = false;
    size_t length = sizeof flag;
    if (tern_je_mallctl(name, &flag, &length, NULL, 0) == 0) {
        snprintf(text, size, "%s", flag ? "true" : "false");
        return;
    }
    length = sizeof narrow;
    if (tern_je_mallctl(name, &narrow, &length, NULL, 0) == 0) {
        snprintf(text, size, "%u", narrow);
        return;
    }
    length = sizeof wide;
    if (numeric && tern_je_mallctl(name, &wide, &length, NULL, 0) == 0) {
        snprintf(text, size, "%zd", wide);
        return;
    }
    length = sizeof string;
    if (!numeric && tern_je_mallctl(name, &string, &length, NULL, 0) == 0) {
        snprintf(text, size, "%s", string);
        return;
    }
    fail_msg("jemalloc has no readable option '%s'", key);
}

static void every_option_that_the_library_sets_is_in_effect(void **state) {
    (void)state;
    assert_non_null(tern_je_malloc_conf);
    char *options = strdup(tern_je_malloc_conf);
    assert_non_null(options);
    int count = 0;
    char *rest = NULL;
    for (char *pair = strtok_r(options, ",", &rest); pair != NULL; pair = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(pair, ':');
        assert_non_null(value);
        *value++ = '\0';
        char text[64];
        read_option(pair, strspn(value, "-0123456789") == strlen(value), text, sizeof text);
        print_message("%s is %s\n", pair, text);
        assert_string_equal(text, value);
        count++;
    }
    assert_true(count > 0);
    free(options);
}

/* main ran this program again with MALLOC_CONF asking for statistics at exit: nothing of the kind may be set.
 */
static void the_hosts_malloc_conf_is_not_obeyed(void **state) {
    (void)state;
    assert_string_equal(getenv("MALLOC_CONF"), "stats_print:true,junk:true");
    char text[64];
    read_option("stats_print", false, text, sizeof text);
    assert_string_equal(text, "false");
}

static void malloc_in_this_program_is_not_the_private_one(void **state) {
    (void)state;
    void *(*host)(size_t) = malloc;
    void *address;
    memcpy(&address, &host, sizeof address);
    Dl_info found;
    assert_int_not_equal(dladdr(address, &found), 0);
    assert_non_null(found.dli_fname);
    /* glibc's, or a sanitizer's */
    assert_true(strstr(found.dli_fname, "/libc.so") != NULL || strstr(found.dli_fname, "san.so") != NULL);
}

static void it_allocates(void **state) {
    (void)state;
    void *block = tern_je_mallocx(1000, 0);
    assert_non_null(block);
    memset(block, 1, 1000);
    tern_je_dallocx(block, 0);
}

int main(int argc, char **argv) {
    (void)argc;
    if (getenv("MALLOC_CONF") == NULL) {
        setenv("MALLOC_CONF", "stats_print:true,junk:true", 1);
        execv("/proc/self/exe", argv);
        perror("execv");
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_that_the_library_sets_is_in_effect),
        cmocka_unit_test(the_hosts_malloc_conf_is_not_obeyed),
        cmocka_unit_test(malloc_in_this_program_is_not_the_private_one),
        cmocka_unit_test(it_allocates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
