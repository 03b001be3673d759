/* The loop of the workload "blocks", on one thread or several; see blocks_work.h. */
#include "workloads/blocks_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "workloads/marks.h"
#include "workloads/measure.h"
#include "workloads/workers.h"

/* What the kernel hands out at once: a block is only real when each of its pages was written. */
#define PAGE_BYTES 4096

/* One thread's share. */
struct worker {
    const struct backend *backend;
    const struct blocks_work *work;
    uint64_t count;
    uint64_t keep;
    void **ring;         /* keep places, a root; NULL when nothing is kept */
    uint64_t *ring_made; /* the number of the block in each place */
    uint64_t allocs, failed;
    uint64_t bad_block; /* number of the first block that was not as it must be; UINT64_MAX: none */
    const char *bad;    /* and what was wrong with it */
};

/* Where the marks lie in each page: behind the pointer, when there is one. */
static size_t mark_offset(const struct blocks_work *work) {
    return work->scan ? sizeof(void *) : 0;
}

/* Writes block i's mark into each page. False when a page was not zero. */
static bool touch(const struct blocks_work *work, unsigned char *block, uint64_t i) {
    bool zeroed = !work->check || marks_all(block, work->size, 0);
    for (size_t at = mark_offset(work); at < work->size; at += PAGE_BYTES) {
        zeroed = zeroed && block[at] == 0;
        block[at] = mark_of(i);
    }
    return zeroed;
}

static bool has_marks(const struct blocks_work *work, const unsigned char *block, uint64_t i) {
    for (size_t at = mark_offset(work); at < work->size; at += PAGE_BYTES)
        if (block[at] != mark_of(i))
            return false;
    return true;
}

static void note_bad(struct worker *w, uint64_t i, const char *what) {
    if (w->bad_block == UINT64_MAX) {
        w->bad_block = i;
        w->bad = what;
    }
}

/* Puts block i into its place, links it to the one before and cuts the chain behind the oldest. */
static void keep_block(struct worker *w, void *block, uint64_t i) {
    const struct backend *b = w->backend;
    uint64_t place = i % w->keep;
    void *dropped = w->ring[place];
    w->ring[place] = block;
    w->ring_made[place] = i;
    if (w->work->scan) {
        void *before = w->ring[(i + w->keep - 1) % w->keep], *oldest = w->ring[(i + 1) % w->keep];
        if (block)
            b->store(block, before);
        if (oldest)
            b->store(oldest, NULL);
    }
    b->release(dropped);
}

static void check_kept(struct worker *w) {
    for (uint64_t place = 0; place < w->keep; place++) {
        if (!w->ring[place])
            continue;
        uint64_t i = w->ring_made[place];
        if (!has_marks(w->work, w->ring[place], i))
            note_bad(w, i, "was kept and has changed");
        bool oldest = place == w->count % w->keep; /* its pointer was cut */
        if (w->work->scan && !oldest && *(void **)w->ring[place] != w->ring[(place + w->keep - 1) % w->keep])
            note_bad(w, i, "was kept and its pointer has changed");
    }
}

static void *run_worker(void *argument) {
    struct worker *w = argument;
    const struct blocks_work *work = w->work;
    for (uint64_t i = 0; i < w->count; i++) {
        void *block = w->backend->alloc(work->size, work->scan ? SCAN_WORDS : SCAN_LEAF);
        if (block) {
            w->allocs++;
            if (!touch(work, block, i))
                note_bad(w, i, "was not zeroed");
        } else {
            w->failed++;
        }
        if (w->keep)
            keep_block(w, block, i);
        else
            w->backend->release(block);
    }
    return NULL;
}

/* Zeroed memory that is resident at once, so that it counts as there before the first allocation. */
static void *new_pages(size_t bytes) {
    void *pages =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static int prepare(struct worker *w) {
    if (!w->keep)
        return 0;
    w->ring = new_pages(w->keep * sizeof *w->ring);
    w->ring_made = new_pages(w->keep * sizeof *w->ring_made);
    return w->ring && w->ring_made ? w->backend->root_add(w->ring, w->keep * sizeof *w->ring) : -1;
}

static void clean_up(struct worker *w) {
    if (!w->ring || !w->ring_made)
        return;
    for (uint64_t place = 0; place < w->keep; place++)
        w->backend->release(w->ring[place]);
    w->backend->root_remove(w->ring, w->keep * sizeof *w->ring);
    munmap(w->ring, w->keep * sizeof *w->ring);
    munmap(w->ring_made, w->keep * sizeof *w->ring_made);
}

int blocks_work(const struct backend *backend, const struct blocks_work *work, struct blocks_result *result,
                char *error, size_t error_cap) {
    struct worker *workers = calloc(work->threads, sizeof *workers);
    int rc = workers ? 0 : -1;
    *result = (struct blocks_result){0};
    for (unsigned t = 0; rc == 0 && t < work->threads; t++) {
        uint64_t keep = workers_share(work->keep, work->threads, t);
        workers[t] = (struct worker){
            .backend = backend,
            .work = work,
            .count = workers_share(work->count, work->threads, t),
            .keep = work->scan && keep < 2 ? 2 : keep,
            .bad_block = UINT64_MAX,
        };
        rc = prepare(&workers[t]);
    }
    if (rc != 0) {
        snprintf(error, error_cap, "no memory for the rings of %u threads", work->threads);
        return -1;
    }

    result->rss_before_bytes = measure_rss_bytes();
    uint64_t cpu_ns = measure_process_cpu_ns(), wall_ns = measure_wall_ns();
    rc = workers_run(backend, work->threads, workers, sizeof *workers, run_worker);
    result->wall_ns = measure_wall_ns() - wall_ns;
    result->cpu_ns = measure_process_cpu_ns() - cpu_ns;
    if (rc != 0) {
        snprintf(error, error_cap, "cannot make %u threads: %s", work->threads, strerror(rc));
        rc = -1;
    }
    for (unsigned t = 0; t < work->threads; t++) {
        struct worker *w = &workers[t];
        check_kept(w);
        result->allocs += w->allocs;
        result->failed += w->failed;
        if (w->bad_block != UINT64_MAX && rc == 0) {
            snprintf(error, error_cap, "block %llu of thread %u %s", (unsigned long long)w->bad_block, t,
                     w->bad);
            rc = -1;
        }
    }
    for (unsigned t = 0; t < work->threads; t++)
        clean_up(&workers[t]);
    free(workers);
    return rc;
}
