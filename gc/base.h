/*
 * What every room of the collector uses: assertion levels, hints, small arithmetic. Owns nothing, calls only
 * the fatal-error line of gc/fatal.h.
 *
 * Three levels of assertion, chosen at build time by TERN_ASSERT_LEVEL:
 *   gc_check      always, for misuse and for states that would corrupt
 *   gc_assert     level 1 and up, cheap
 *   gc_expensive  level 2, may walk whole structures
 */
#ifndef GC_BASE_H
#define GC_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gc/fatal.h"

#ifndef TERN_ASSERT_LEVEL
#define TERN_ASSERT_LEVEL 0
#endif

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Memory that belongs to other threads is read here on purpose (stacks of stopped threads, words of objects).
 */
#define GC_NO_SANITIZE __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

#define gc_check(condition, message)               \
    do {                                           \
        if (unlikely(!(condition)))                \
            fatal_at(__FILE__, __LINE__, message); \
    } while (0)

#if TERN_ASSERT_LEVEL >= 1
#define gc_assert(condition) gc_check(condition, "assertion failed: " #condition)
#else
#define gc_assert(condition) ((void)sizeof(!(condition)))
#endif

#if TERN_ASSERT_LEVEL >= 2
#define gc_expensive(condition) gc_check(condition, "assertion failed: " #condition)
#else
#define gc_expensive(condition) ((void)sizeof(!(condition)))
#endif

/* Keeps the compiler, not the processor, from moving memory accesses across. */
static inline void compiler_barrier(void) {
    atomic_signal_fence(memory_order_seq_cst);
}

/*
 * Rule S2: `p` is in a register (or a stack slot) here, before any later memory access is made. C alone does
 * not order the forming of an address before a store that gives the slot away; this does.
 */
static inline void *pin_register(void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

static inline size_t align_up(size_t value, size_t alignment) {
    return (value + alignment - 1) & ~(alignment - 1);
}

static inline size_t align_down(size_t value, size_t alignment) {
    return value & ~(alignment - 1);
}

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

#endif
