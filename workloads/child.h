/* Running a program and keeping all that it prints.
 *
 * Does: starts a program with its own environment, waits for it, gives back its output. Owns: nothing after
 * child_free. Never: forks (the library's threads are in this process). Calls: posix_spawn.
 */
#ifndef WORKLOADS_CHILD_H
#define WORKLOADS_CHILD_H

#include <stddef.h>

struct child_output {
    int status;     /* exit status; 128 + signal number when a signal ended it */
    char *out;      /* standard output, NUL-terminated */
    char *err;      /* standard error, NUL-terminated */
    size_t out_len; /* without the NUL */
    size_t err_len;
};

/* Runs `path`. 0, or -1 with errno when it could not be started or its output not be kept. */
int child_run(const char *path, char *const argv[], char *const envp[], struct child_output *output);
void child_free(struct child_output *output);

#endif
