/*
 * For tests whose statement needs a process of its own: other settings, other limits, or an end by a signal.
 * In such a process cmocka's assertions cannot be used (they would go on with the next test there): use
 * `must`.
 */
#ifndef TESTS_CHILD_H
#define TESTS_CHILD_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "garbage.h"

/* Ends the child with status 1, and says where, unless the condition holds. */
#define must(condition)                                                                \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                                  \
        }                                                                              \
    } while (0)

/* What the last child wrote to standard error. */
static char child_text[8192];

/* Runs function(argument) in a child, which must end with status 0. */
static inline void child_passes(int (*function)(void *), void *argument) {
    int status = in_child(function, argument, child_text, sizeof child_text);
    if (status != 0)
        print_error("child's status %#x: %s\n", (unsigned)status, child_text);
    assert_int_equal(status, 0);
}

/* Runs function(argument) in a child, which must abort after a message that contains `text`. */
static inline void child_aborts(int (*function)(void *), void *argument, const char *text) {
    int status = in_child(function, argument, child_text, sizeof child_text);
    bool said = strstr(child_text, text) != NULL;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !said)
        print_error("child's status %#x: %s\n", (unsigned)status, child_text);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_true(said);
}

/* Whether threads stop at polls only (the lane for ThreadSanitizer). */
static inline bool cooperative(void) {
    const char *debug = getenv("TERN_GODEBUG");
    return debug != NULL && strstr(debug, "cooperative=1") != NULL;
}

static inline bool stop_walk(const tern_object *object, void *context) {
    (void)object;
    (void)context;
    return false;
}

/* Collects and sweeps all: a dead object is found until its page is swept, which a heap walk does first. */
static inline void collect_and_sweep(void) {
    collect();
    tern_heap_walk(stop_walk, NULL);
}

/* Memory that a child's results come back in. */
static inline void *shared_memory(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        abort();
    return at;
}
static inline void shared_memory_free(void *at, size_t bytes) {
    munmap(at, bytes);
}

static inline size_t child_lines(void) {
    size_t lines = 0;
    for (const char *c = child_text; *c != 0; c++)
        lines += *c == '\n';
    return lines;
}

#endif
