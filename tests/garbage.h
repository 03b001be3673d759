/*
 * For tests about objects that die, and about programs that are stopped. Stacks are scanned conservatively: a
 * stale word may keep an object for a while, so such a test drops many and asks that nearly all of them died.
 */
#ifndef TESTS_GARBAGE_H
#define TESTS_GARBAGE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tern/tern.h>

#define NOINLINE __attribute__((noinline))

/* Of `count` dropped objects at least so many must die. */
#define NEARLY(count) ((count) - (count) / 10)

/* Overwrites what returned calls left on the stack below. */
static NOINLINE void clear_stack(void) {
    char bytes[4096];
    memset(bytes, 0, sizeof bytes);
    __asm__ volatile("" : : "r"(bytes) : "memory");
}

static inline void collect(void) {
    clear_stack();
    tern_collect();
}

/* Many; fewer when every slow path collects. */
static inline size_t scaled(size_t count) {
    const char *debug = getenv("TERN_GODEBUG");
    return debug != NULL && strstr(debug, "gcstress=") != NULL ? count / 200 : count;
}

/*
 * All of a long test's rounds in the lane that is there for them, a part of them where they were already run: in other
 * builds (tests/CMakeLists.txt says which).
 */
static inline unsigned part_of(unsigned rounds) {
    const char *part = getenv("TERN_TEST_PART");
    unsigned divisor = part != NULL ? (unsigned)atoi(part) : 1;
    return divisor > 1 ? (rounds + divisor - 1) / divisor : rounds;
}

static inline tern_stats stats(void) {
    tern_stats s;
    s.size = sizeof s;
    if (tern_stats_read(&s) != 0)
        abort();
    return s;
}

/* xorshift64*; the state is not 0. */
static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/*
 * The private jemalloc takes all of its locks before a fork and makes them anew in the child.
 * ThreadSanitizer's checks of pthread mutexes give up at 64 held, and believe that the child still holds
 * them. The library's own locks are not among what they look at.
 */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
    return "detect_deadlocks=0:report_mutex_bugs=0";
}

/* Runs function(argument) in a child whose standard error goes into `text`; its wait status. */
static inline int in_child(int (*function)(void *), void *argument, char *text, size_t bytes) {
    int ends[2];
    if (pipe(ends) != 0)
        abort();
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        _exit(function(argument));
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t n;
    while (length + 1 < bytes && (n = read(ends[0], text + length, bytes - 1 - length)) > 0)
        length += (size_t)n;
    text[length] = 0;
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

#endif
