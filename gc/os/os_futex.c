/* os_futex: waiting for a word to change, and the one lock built on it (see os_futex.h).
 *
 * The lock is the three-state one of U. Drepper, "Futexes Are Tricky" (2011), section 6. */
#define _GNU_SOURCE 1
#include "gc/os/os_futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(_Atomic uint32_t) == 4, "the kernel's futex word has four bytes");

/* Looks at a held lock before sleeping. A pause takes 10 to 40 ns, so this is 1 to 4 us: about what the sleep
 * and the wake would cost, so that spinning loses at most a factor of two. */
#define SPIN_LOOKS 100

#define NS_PER_SECOND 1000000000

int os_futex_wait(_Atomic uint32_t *w, uint32_t expected, int64_t timeout_ns) {
    int saved = errno;
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / NS_PER_SECOND),
                               .tv_nsec = (long)(timeout_ns % NS_PER_SECOND)};
    long rc = syscall(SYS_futex, w, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? NULL : &timeout, NULL, 0);
    int result = rc < 0 ? -errno : 0;
    errno = saved;
    return result;
}

int os_futex_wake(_Atomic uint32_t *w, int n) {
    int saved = errno;
    long woken = syscall(SYS_futex, w, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
    errno = saved;
    return woken < 0 ? 0 : (int)woken;
}

void os_lock_acquire_slow(struct os_lock *lock) {
    for (int i = 0; i < SPIN_LOOKS; i++) {
        /* relaxed: only a hint; os_lock_try acquires. */
        if (atomic_load_explicit(&lock->word, memory_order_relaxed) == OS_LOCK_FREE && os_lock_try(lock)) {
            return;
        }
        os_cpu_relax();
    }
    /* Whoever sleeps must leave the word at "waited", for the holder to see; one that gets the lock here
     * leaves it so too, because it cannot know that nobody else is asleep. acquire: as in os_lock_try. */
    while (atomic_exchange_explicit(&lock->word, OS_LOCK_WAITED, memory_order_acquire) != OS_LOCK_FREE) {
        os_futex_wait(&lock->word, OS_LOCK_WAITED, -1);
    }
}
