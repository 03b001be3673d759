/* os_segment: the writable data of the program and of its shared libraries (see os_segment.h). */
#define _GNU_SOURCE 1
#include "gc/os/os_segment.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/auxv.h>

struct walk {
    void (*first)(void *ctx);
    void (*each)(void *ctx, struct os_range r, const char *object_name);
    void *ctx;
    bool begun;
};

/* Hands out [lo, hi) to whole words; nothing if no word is left. */
static void hand_out(const struct walk *walk, uintptr_t lo, uintptr_t hi, const char *name) {
    const uintptr_t word = sizeof(void *);
    lo = (lo + word - 1) & ~(word - 1);
    hi &= ~(word - 1);
    if (lo < hi) {
        walk->each(walk->ctx, (struct os_range){lo, hi}, name);
    }
}

/* What the loader makes read-only once it has relocated the object: whole pages, so it ends at a page's
 * start. */
static struct os_range relro_of(const struct dl_phdr_info *info) {
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_GNU_RELRO) {
            uintptr_t page = (uintptr_t)getauxval(AT_PAGESZ);
            uintptr_t lo = (uintptr_t)info->dlpi_addr + p->p_vaddr;
            return (struct os_range){lo & ~(page - 1), (lo + p->p_memsz) & ~(page - 1)};
        }
    }
    return (struct os_range){0, 0};
}

static int visit(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    struct walk *walk = arg;
    if (!walk->begun) {
        walk->begun = true;
        if (walk->first != NULL) {
            walk->first(walk->ctx);
        }
    }
    const char *name = info->dlpi_name != NULL ? info->dlpi_name : "";
    struct os_range relro = relro_of(info);
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || (p->p_flags & PF_W) == 0) {
            continue;
        }
        uintptr_t lo = (uintptr_t)info->dlpi_addr + p->p_vaddr;
        uintptr_t hi = lo + p->p_memsz;
        if (relro.lo < relro.hi && relro.lo < hi && lo < relro.hi) {
            hand_out(walk, lo, relro.lo, name);
            hand_out(walk, relro.hi, hi, name);
        } else {
            hand_out(walk, lo, hi, name);
        }
    }
    return 0;
}

int os_segment_each(void (*first)(void *ctx),
                    void (*each)(void *ctx, struct os_range r, const char *object_name), void *ctx) {
    struct walk walk = {.first = first, .each = each, .ctx = ctx, .begun = false};
    dl_iterate_phdr(visit, &walk);
    if (!walk.begun) {
        errno = ENOSYS;
        return -1;
    }
    return 0;
}
