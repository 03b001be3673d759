/* See os_unique.h. Asks the kernel by memfd_create, mmap and /proc/self/maps; no malloc, no stdio. */
#define _GNU_SOURCE 1
#include "gc/os/os_unique.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAP_BYTES ((size_t)4096)

static void *mapping;

/* Whether /proc/self/maps has the text; reads in pieces that overlap by the text's length. */
static bool in_maps(const char *text) {
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    char buffer[4096];
    size_t kept = 0, length = strlen(text);
    bool found = false;
    ssize_t n;
    while (!found && (n = read(fd, buffer + kept, sizeof buffer - kept)) > 0) {
        size_t have = kept + (size_t)n;
        found = memmem(buffer, have, text, length) != NULL;
        kept = have < length ? have : length;
        memmove(buffer, buffer + have - kept, kept);
    }
    close(fd);
    return found;
}

bool os_unique_take(const char *name) {
    char text[64] = "/memfd:";
    strncat(text, name, sizeof text - strlen(text) - 2);
    strcat(text, " ");
    if (in_maps(text))
        return false;
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return true;
    mapping = ftruncate(fd, (off_t)MAP_BYTES) == 0 ? mmap(NULL, MAP_BYTES, PROT_READ, MAP_SHARED, fd, 0)
                                                   : MAP_FAILED;
    close(fd);
    if (mapping == MAP_FAILED)
        mapping = NULL;
    return true;
}

void os_unique_give(void) {
    if (mapping != NULL)
        munmap(mapping, MAP_BYTES);
    mapping = NULL;
}
