/* os_mem: address space and pages from the kernel (see os_mem.h). */
#define _GNU_SOURCE 1
#include "gc/os/os_mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gc/os/os_file.h"

/* Linux 5.14; the headers of older systems lack it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

size_t os_mem_page_size(void) {
    /* From the auxiliary vector, which glibc keeps: no system call. */
    return (size_t)getauxval(AT_PAGESZ);
}

void *os_mem_reserve(size_t bytes, size_t align) {
    size_t page = os_mem_page_size();
    if (align < page) {
        align = page;
    }
    if (bytes == 0 || (align & (align - 1)) != 0) {
        errno = EINVAL;
        return NULL;
    }
    if (bytes > SIZE_MAX - (page - 1)) {
        errno = ENOMEM;
        return NULL;
    }
    bytes = (bytes + page - 1) & ~(page - 1);
    size_t slack = align - page; /* the kernel's own alignment is a page */
    if (bytes > SIZE_MAX - slack) {
        errno = ENOMEM;
        return NULL;
    }
    void *got = mmap(NULL, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) {
        return NULL;
    }
    char *mapped = got;
    size_t before = (align - ((uintptr_t)mapped & (align - 1))) & (align - 1);
    os_mem_unreserve(mapped, before);
    os_mem_unreserve(mapped + before + bytes, slack - before);
    return mapped + before;
}

void os_mem_unreserve(void *addr, size_t bytes) {
    if (bytes > 0) {
        /* Fails for a bad range only, and for a hole made in the middle of a mapping when the process has no
         * mapping left to split off; the address space is then lost, nothing else. */
        munmap(addr, bytes);
    }
}

int os_mem_commit(void *addr, size_t bytes) {
    return mprotect(addr, bytes, PROT_READ | PROT_WRITE);
}

int os_mem_protect_none(void *addr, size_t bytes) {
    return mprotect(addr, bytes, PROT_NONE);
}

/* For kernels without MADV_POPULATE_WRITE. A write that keeps the contents, whoever else may write there: a
 * compare and exchange of 0 for 0 is one on a fresh page, and a page that holds something else is populated
 * already. (An atomic "or 0" will not do: compilers may turn it into a load, which maps the shared page of
 * zeros.) */
static void touch(char *addr, size_t bytes) {
    size_t page = os_mem_page_size();
    for (size_t at = 0; at < bytes; at += page) {
        unsigned char expected = 0;
        /* relaxed: the page is wanted, nothing is published. */
        atomic_compare_exchange_strong_explicit((_Atomic unsigned char *)(addr + at), &expected, 0,
                                                memory_order_relaxed, memory_order_relaxed);
    }
}

/* Advice about nothing succeeds where the advice is known (madvise(2)). */
static bool knows_populate(void) {
    return madvise(NULL, 0, MADV_POPULATE_WRITE) == 0;
}

int os_mem_populate(void *addr, size_t bytes) {
    char *at = addr;
    char *end = at + bytes;
    while (at < end) {
        size_t piece = OS_HUGE_PAGE - ((uintptr_t)at & (OS_HUGE_PAGE - 1));
        if (piece > (size_t)(end - at)) {
            piece = (size_t)(end - at);
        }
        if (madvise(at, piece, MADV_POPULATE_WRITE) != 0) {
            if (errno == EAGAIN || errno == EINTR) {
                sched_yield(); /* neither lasts: EINTR comes with a signal that ends the process */
                continue;
            }
            /* EINVAL is a kernel that knows nothing of it, or a range that cannot be written. */
            if (errno != EINVAL || knows_populate()) {
                errno = ENOMEM; /* EFAULT and EHWPOISON too: what the caller can do is the same */
                return -1;
            }
            touch(at, piece);
        }
        at += piece;
    }
    return 0;
}

void os_mem_advise_huge(void *addr, size_t bytes, bool on) {
    int saved = errno;
    madvise(addr, bytes, on ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    errno = saved;
}

int os_mem_release(void *addr, size_t bytes) {
    return madvise(addr, bytes, MADV_DONTNEED);
}

uint64_t os_mem_rss(void) {
    char text[128];
    if (os_file_first_line("/proc/self/statm", text, sizeof text) != 0) {
        return 0;
    }
    /* Fields: total, resident, ... in pages. */
    const char *s = text;
    uint64_t total = 0;
    uint64_t resident = 0;
    if (!os_file_number(&s, 10, &total) || !os_file_number(&s, 10, &resident)) {
        return 0;
    }
    return resident * os_mem_page_size();
}

uint64_t os_mem_peak_rss(void) {
    static const char field[] = "VmHWM:";
    struct os_file file;
    if (os_file_open(&file, "/proc/self/status") != 0) {
        return 0;
    }
    uint64_t kib = 0;
    for (const char *line = os_file_line(&file); line != NULL; line = os_file_line(&file)) {
        if (strncmp(line, field, sizeof field - 1) == 0) {
            const char *s = line + sizeof field - 1;
            if (!os_file_number(&s, 10, &kib)) {
                kib = 0;
            }
            break;
        }
    }
    os_file_close(&file);
    return kib * 1024;
}

int os_mem_reset_peak_rss(void) {
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = write(fd, "5", 1); /* proc(5): resets the peak resident set size */
    int why = errno;
    close(fd);
    errno = why;
    return n == 1 ? 0 : -1;
}
