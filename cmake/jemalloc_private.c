/* What the private jemalloc shows and what it asks for; linked with it into jemalloc_private.o and nowhere
 * else.
 *
 * HIDE pulls a function out of the archive and makes it hidden: visible inside the library, never exported
 * from it. The two functions stand where jemalloc calls secure_getenv and readlink, which it does only for
 * MALLOC_CONF and /etc/malloc.conf. Those configure the host program's own jemalloc, where it has one. Obeyed
 * here too, they would change the library's accounting behind its back (and print statistics twice).
 */
#include <stddef.h>

#define HIDE(symbol) __asm__(".globl " #symbol "\n\t.hidden " #symbol)

HIDE(mallocx);
HIDE(rallocx);
HIDE(xallocx);
HIDE(sallocx);
HIDE(dallocx);
HIDE(sdallocx);
HIDE(nallocx);
HIDE(mallctl);
HIDE(mallctlnametomib);
HIDE(mallctlbymib);
HIDE(malloc_conf);

char *tern_je_no_environment(const char *name);
char *tern_je_no_environment(const char *name) {
    (void)name;
    return NULL;
}

ptrdiff_t tern_je_no_link(const char *path, char *buffer, size_t size);
ptrdiff_t tern_je_no_link(const char *path, char *buffer, size_t size) {
    (void)path;
    (void)buffer;
    (void)size;
    return -1;
}
