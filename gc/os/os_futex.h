/* os_futex: waiting for a word to change, and the one lock built on it.
 *
 * Does: futex wait and wake within a process; a lock of four bytes. Owns nothing: words and locks belong to
 * the callers. Must never: allocate, use pthread locks, or change errno. Calls: the kernel.
 *
 * The lock is neither recursive nor fair, and knows no owner. It may be taken in a stopped world only where
 * no stopped thread can hold it (rule S1 sees to that for the library's own locks). */
#ifndef GC_OS_FUTEX_H
#define GC_OS_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Sleeps while *w holds `expected`, for at most timeout_ns (negative: for ever). 0 after a wake, else -EAGAIN
 * (the word differed already), -EINTR, or -ETIMEDOUT. A 0 may be spurious: look at the word again in any
 * case. */
int os_futex_wait(_Atomic uint32_t *w, uint32_t expected, int64_t timeout_ns);

/* Wakes up to n sleepers of w; how many were woken. The word need not be mapped any more. */
int os_futex_wake(_Atomic uint32_t *w, int n);

/* Tells the processor that this is a spin loop. */
static inline void os_cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#endif
}

enum {
    OS_LOCK_FREE = 0,
    OS_LOCK_HELD = 1,
    OS_LOCK_WAITED = 2, /* held, and somebody may be asleep */
};

struct os_lock {
    /* One of OS_LOCK_*. Taken with acquire and freed with release: what the holder wrote is seen by the next.
     */
    _Atomic uint32_t word;
};

#define OS_LOCK_INIT \
    { OS_LOCK_FREE }

void os_lock_acquire_slow(struct os_lock *lock);

/* Takes the lock if it is free; whether it was. Never blocks. */
static inline bool os_lock_try(struct os_lock *lock) {
    uint32_t expected = OS_LOCK_FREE;
    /* acquire: pairs with the release of the holder before; a failure publishes and learns nothing. */
    return atomic_compare_exchange_strong_explicit(&lock->word, &expected, OS_LOCK_HELD, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Takes the lock; spins a little, then sleeps. */
static inline void os_lock_acquire(struct os_lock *lock) {
    if (!os_lock_try(lock)) {
        os_lock_acquire_slow(lock);
    }
}

/* Frees the lock, which the caller holds, and wakes one sleeper if there may be one. */
static inline void os_lock_release(struct os_lock *lock) {
    /* release: everything done under the lock is published to whoever takes it next. */
    if (atomic_exchange_explicit(&lock->word, OS_LOCK_FREE, memory_order_release) == OS_LOCK_WAITED) {
        os_futex_wake(&lock->word, 1);
    }
}

#endif
