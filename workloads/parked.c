/* Parked threads; see parked.h. */
#include "workloads/parked.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* A raw sleeper looks up this often whether it may go: seldom enough to cost nothing, often enough not to be
 * waited for. */
#define RAW_NAP_NS 200000000

struct parked {
    const struct backend *backend;
    bool raw;
    unsigned count; /* made */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* arrived or let_go */
    unsigned arrived;       /* under lock */
    bool let_go;            /* under lock */
    pthread_t threads[];
};

static bool may_go(struct parked *p) {
    pthread_mutex_lock(&p->lock);
    bool go = p->let_go;
    pthread_mutex_unlock(&p->lock);
    return go;
}

static void nap(void) {
    struct timespec left = {0, RAW_NAP_NS};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        continue;
}

static void *wait_to_go(void *argument) {
    struct parked *p = argument;
    pthread_mutex_lock(&p->lock);
    while (!p->let_go)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void *wait_for_all(void *argument) {
    struct parked *p = argument;
    pthread_mutex_lock(&p->lock);
    while (p->arrived < p->count)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void *run(void *argument) {
    struct parked *p = argument;
    pthread_mutex_lock(&p->lock);
    p->arrived++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (p->raw)
        while (!may_go(p))
            nap();
    else
        p->backend->blocking(wait_to_go, p);
    return NULL;
}

struct parked *parked_start(const struct backend *backend, unsigned count, bool raw) {
    struct parked *p = calloc(1, sizeof *p + count * sizeof *p->threads);
    if (!p)
        return NULL;
    p->backend = backend;
    p->raw = raw;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    int rc = 0;
    while (rc == 0 && p->count < count) {
        rc = backend->thread_create(&p->threads[p->count], run, p);
        p->count += rc == 0;
    }
    backend->blocking(wait_for_all, p);
    if (rc == 0)
        return p;
    parked_stop(p);
    errno = rc;
    return NULL;
}

void parked_stop(struct parked *parked) {
    if (!parked)
        return;
    pthread_mutex_lock(&parked->lock);
    parked->let_go = true;
    pthread_cond_broadcast(&parked->changed);
    pthread_mutex_unlock(&parked->lock);
    for (unsigned t = 0; t < parked->count; t++)
        (void)parked->backend->thread_join(parked->threads[t], NULL);
    pthread_cond_destroy(&parked->changed);
    pthread_mutex_destroy(&parked->lock);
    free(parked);
}
