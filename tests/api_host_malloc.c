/* Linking the library, shared or static, leaves the host program on its own malloc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <tern/tern.h>

/* The file that an address of code lies in. */
static const char *file_of(void *(*function)(size_t)) {
    void *address;
    memcpy(&address, &function, sizeof address);
    Dl_info found;
    return dladdr(address, &found) != 0 ? found.dli_fname : NULL;
}

static void malloc_is_still_the_c_librarys(void **state) {
    (void)state;
    assert_non_null(tern_alloc(64)); /* the library is in use, not merely linked */
    const char *file = file_of(malloc);
    assert_non_null(file);
    /* glibc's, or a sanitizer's */
    assert_true(strstr(file, "/libc.so") != NULL || strstr(file, "san.so") != NULL);
}

static void what_the_host_mallocs_it_frees_with_its_own_free(void **state) {
    (void)state;
    for (size_t size = 1; size < (1 << 20); size = size * 3 + 1) {
        char *block = malloc(size);
        assert_non_null(block);
        assert_true(malloc_usable_size(block) >= size);
        memset(block, 1, size);
        block = realloc(block, size * 2);
        assert_non_null(block);
        free(block);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malloc_is_still_the_c_librarys),
        cmocka_unit_test(what_the_host_mallocs_it_frees_with_its_own_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
