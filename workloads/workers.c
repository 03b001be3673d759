/* Threads of a workload; see workers.h. */
#include "workloads/workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

uint64_t workers_share(uint64_t whole, unsigned threads, unsigned index) {
    return whole / threads + (index < whole % threads);
}

int workers_run(const struct backend *backend, unsigned threads, void *workers, size_t bytes,
                void *(*run)(void *worker)) {
    if (threads == 1) {
        run(workers);
        return 0;
    }
    pthread_t *made = calloc(threads, sizeof *made);
    unsigned count = 0;
    int rc = made ? 0 : ENOMEM;
    while (rc == 0 && count < threads) {
        rc = backend->thread_create(&made[count], run, (char *)workers + count * bytes);
        count += rc == 0;
    }
    for (unsigned t = 0; t < count; t++)
        (void)backend->thread_join(made[t], NULL);
    free(made);
    return rc;
}
