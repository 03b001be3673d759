/* A program that embeds the library, in the common subset of C and C++. Its argument says where malloc should
 * come from: "shared" and "static": the C library; "own": this program; "alone": cannot be asked (no dynamic
 * linker). Prints the version.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tern/tern.h>

struct node {
    struct node *next;
    long value;
};

static int malloc_is_where(const char *expected) {
    Dl_info found;
    if (strcmp(expected, "alone") == 0)
        return 1;
    void *(*host)(size_t) = malloc;
    void *address;
    memcpy(&address, &host, sizeof address);
    if (dladdr(address, &found) == 0 || found.dli_fname == NULL)
        return 0;
    int in_libc = strstr(found.dli_fname, "/libc.so") != NULL;
    if (strcmp(expected, "own") == 0)
        return !in_libc && strstr(found.dli_fname, "libtern") == NULL;
    return in_libc;
}

int main(int argc, char **argv) {
    if (tern_init(NULL) != 0) {
        fprintf(stderr, "%s\n", tern_error());
        return 1;
    }
    struct node *head = NULL;
    for (long i = 0; i < 100000; i++) {
        struct node *n = (struct node *)tern_alloc(sizeof *n);
        if (n == NULL)
            return 2;
        n->value = i;
        tern_store(&n->next, i % 1000 == 0 ? NULL : head);
        head = n;
    }
    tern_collect();
    long sum = 0, count = 0;
    for (struct node *n = head; n != NULL; n = n->next) {
        sum += n->value;
        count++;
    }
    if (count != 1000 || sum != 99499500)
        return 3;
    if (argc > 1 && !malloc_is_where(argv[1]))
        return 4;
    printf("%s\n", tern_version());
    tern_keep(head);
    tern_shutdown();
    return 0;
}
