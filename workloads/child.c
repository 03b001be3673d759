/* Running a program; see child.h. Its output goes to memory files, so that no pipe can fill up. */
#include "workloads/child.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* All that is in `fd`, or NULL with errno. */
static char *slurp(int fd, size_t *len) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return NULL;
    size_t size = (size_t)st.st_size, have = 0;
    char *text = malloc(size + 1);
    while (text && have < size) {
        ssize_t got = pread(fd, text + have, size - have, (off_t)have);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    if (text)
        text[have] = '\0';
    *len = have;
    return text;
}

static int spawn(const char *path, char *const argv[], char *const envp[], int out, int err, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0)
        return rc;
    rc = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    if (rc == 0)
        rc = posix_spawn(pid, path, &actions, NULL, argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static int wait_for(pid_t pid, int *status) {
    int raw;
    while (waitpid(pid, &raw, 0) < 0)
        if (errno != EINTR)
            return -1;
    *status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
    return 0;
}

int child_run(const char *path, char *const argv[], char *const envp[], struct child_output *output) {
    int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC), rc = -1;
    memset(output, 0, sizeof *output);
    if (out >= 0 && err >= 0) {
        pid_t pid;
        errno = spawn(path, argv, envp, out, err, &pid);
        if (errno == 0 && wait_for(pid, &output->status) == 0) {
            output->out = slurp(out, &output->out_len);
            output->err = slurp(err, &output->err_len);
            rc = output->out && output->err ? 0 : -1;
        }
    }
    int saved = errno;
    if (out >= 0)
        close(out);
    if (err >= 0)
        close(err);
    if (rc != 0)
        child_free(output);
    errno = saved;
    return rc;
}

void child_free(struct child_output *output) {
    free(output->out);
    free(output->err);
    output->out = output->err = NULL;
}
