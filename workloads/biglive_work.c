/* Forest and garbage of the workload "biglive"; see biglive_work.h. */
#include "workloads/biglive_work.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workloads/canary.h"
#include "workloads/measure.h"
#include "workloads/parked.h"
#include "workloads/workers.h"

/* A tree of the forest, and one of the garbage: perfect ones of depth 16 and 10. Depth bounds the recursion
 * below. */
#define LIVE_TREE_NODES    65535
#define GARBAGE_TREE_NODES 1023

/* Knuth's multiplier: the second half of a payload follows from the first. */
#define PAYLOAD_FACTOR UINT64_C(0x9e3779b97f4a7c15)
/* JSON's numbers are exact up to here. */
#define CHECKSUM_MASK ((UINT64_C(1) << 53) - 1)

struct node {
    struct node *left, *right;
    uint64_t number, check;
};

static_assert(sizeof(struct node) == BIGLIVE_NODE_BYTES, "the class of 32 bytes");

/* One thread's share. */
struct worker {
    const struct backend *backend;
    const struct backend_type *type; /* NULL: nodes are words */
    uint64_t nodes;                  /* of garbage to make */
    uint64_t made;                   /* nodes so far; the next one's number */
    bool failed;                     /* memory ran out */
};

static void **forest; /* a root: an object of the backend that holds all trees */

static struct node *new_node(struct worker *w) {
    struct node *node =
        w->type ? w->backend->alloc_typed(w->type) : w->backend->alloc(sizeof *node, SCAN_WORDS);
    if (!node) {
        w->failed = true;
        return NULL;
    }
    node->number = w->made++;
    node->check = node->number * PAYLOAD_FACTOR;
    return node;
}

/* A balanced tree of that many nodes; NULL for none, and when memory ran out. */
static struct node *build(struct worker *w, uint64_t nodes) {
    if (nodes == 0 || w->failed)
        return NULL;
    struct node *left = build(w, (nodes - 1) / 2), *right = build(w, nodes - 1 - (nodes - 1) / 2);
    struct node *node = new_node(w);
    if (!node)
        return NULL;
    w->backend->init_store(&node->left, left);
    w->backend->init_store(&node->right, right);
    return node;
}

/* A collector finds by itself what is dropped; only malloc's nodes are walked to free them. */
static void drop(const struct backend *b, struct node *tree) {
    if (b->collects || !tree)
        return;
    drop(b, tree->left);
    drop(b, tree->right);
    b->release(tree);
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void *make_garbage(void *argument) {
    struct worker *w = argument;
    for (uint64_t left = w->nodes; left > 0 && !w->failed;) {
        uint64_t nodes = least(left, GARBAGE_TREE_NODES);
        drop(w->backend, build(w, nodes));
        left -= nodes;
    }
    return NULL;
}

static uint64_t tree_count(const struct biglive_work *work) {
    return (work->live_nodes + LIVE_TREE_NODES - 1) / LIVE_TREE_NODES;
}

static void plant(struct worker *w, const struct biglive_work *work) {
    for (uint64_t i = 0; i < tree_count(work) && !w->failed; i++) {
        uint64_t nodes = least(work->live_nodes - i * LIVE_TREE_NODES, LIVE_TREE_NODES);
        w->backend->store(&forest[i], build(w, nodes));
    }
}

/* What is found in the forest. */
struct census {
    uint64_t nodes, bad, sum;
};

static void count_tree(const struct node *tree, struct census *c) {
    if (!tree)
        return;
    c->nodes++;
    c->bad += tree->check != tree->number * PAYLOAD_FACTOR;
    c->sum += tree->number + tree->check;
    count_tree(tree->left, c);
    count_tree(tree->right, c);
}

static struct census take_census(const struct biglive_work *work) {
    struct census c = {0};
    for (uint64_t i = 0; i < tree_count(work); i++)
        count_tree(forest[i], &c);
    return c;
}

/* What must be found: nodes have the numbers 0 to n - 1. */
static uint64_t wanted_sum(uint64_t n) {
    uint64_t numbers = n % 2 ? (n - 1) / 2 * n : n / 2 * (n - 1);
    return numbers + numbers * PAYLOAD_FACTOR;
}

static int no_memory(const char *what, char *error, size_t error_cap) {
    snprintf(error, error_cap, "no memory for %s", what);
    return -1;
}

/* All that allocates. */
static int build_all(const struct biglive_work *work, struct worker *planter, struct worker *workers,
                     char *error, size_t error_cap) {
    plant(planter, work);
    if (planter->failed)
        return no_memory("the forest", error, error_cap);
    int rc = workers_run(planter->backend, work->threads, workers, sizeof *workers, make_garbage);
    if (rc != 0) {
        snprintf(error, error_cap, "cannot make %u threads: %s", work->threads, strerror(rc));
        return -1;
    }
    for (unsigned t = 0; t < work->threads; t++)
        if (workers[t].failed)
            return no_memory("the garbage", error, error_cap);
    return 0;
}

static int check_forest(const struct biglive_work *work, struct biglive_result *result, char *error,
                        size_t error_cap) {
    struct census c = take_census(work);
    result->checksum = c.sum & CHECKSUM_MASK;
    if (c.nodes == work->live_nodes && c.bad == 0 && c.sum == wanted_sum(work->live_nodes))
        return 0;
    snprintf(error, error_cap, "the forest has changed: %llu nodes of %llu, %llu of them overwritten",
             (unsigned long long)c.nodes, (unsigned long long)work->live_nodes, (unsigned long long)c.bad);
    return -1;
}

static int measure(const struct biglive_work *work, struct worker *planter, struct worker *workers,
                   biglive_built_function *built, void *context, struct biglive_result *result, char *error,
                   size_t error_cap) {
    struct canary canary;
    int rc = canary_start(&canary, work->canary);
    if (rc != 0) {
        snprintf(error, error_cap, "cannot make the canary's thread: %s", strerror(rc));
        return -1;
    }
    uint64_t cpu_ns = canary_others_cpu_ns(&canary), wall_ns = measure_wall_ns();
    rc = build_all(work, planter, workers, error, error_cap);
    result->wall_ns = measure_wall_ns() - wall_ns;
    result->cpu_ns = canary_others_cpu_ns(&canary) - cpu_ns;
    result->canary_worst_ns = canary_stop(&canary);
    result->peak_rss_bytes = measure_peak_rss_bytes();
    result->allocs = 1 + planter->made; /* and the array */
    for (unsigned t = 0; t < work->threads; t++)
        result->allocs += workers[t].made;
    if (rc == 0 && built)
        built(context);
    return rc == 0 ? check_forest(work, result, error, error_cap) : rc;
}

static int with_parked(const struct biglive_work *work, struct worker *planter, struct worker *workers,
                       biglive_built_function *built, void *context, struct biglive_result *result,
                       char *error, size_t error_cap) {
    struct parked *parked = NULL;
    if (work->parked && !(parked = parked_start(planter->backend, work->parked, work->parked_raw))) {
        snprintf(error, error_cap, "cannot make %u threads to be parked: %s", work->parked, strerror(errno));
        return -1;
    }
    int rc = measure(work, planter, workers, built, context, result, error, error_cap);
    parked_stop(parked);
    return rc;
}

int biglive_work(const struct backend *backend, const struct biglive_work *work,
                 biglive_built_function *built, void *context, struct biglive_result *result, char *error,
                 size_t error_cap) {
    *result = (struct biglive_result){.rss_before_bytes = measure_rss_bytes()};
    struct worker planter = {.backend = backend};
    struct worker *workers = calloc(work->threads, sizeof *workers);
    if (!workers)
        return no_memory("the threads", error, error_cap);
    if (work->typed && !(planter.type = backend->type_new("node", sizeof(struct node), 3)))
        return no_memory("the type of the nodes", error, error_cap);
    for (unsigned t = 0; t < work->threads; t++) {
        workers[t] = planter;
        workers[t].nodes = workers_share(work->garbage_nodes, work->threads, t);
    }
    if (backend->root_add(&forest, sizeof forest) != 0 ||
        !(forest = backend->alloc(tree_count(work) * sizeof *forest, SCAN_WORDS)))
        return no_memory("the forest's array", error, error_cap);
    int rc = with_parked(work, &planter, workers, built, context, result, error, error_cap);

    for (uint64_t i = 0; i < tree_count(work); i++)
        drop(backend, forest[i]);
    backend->release(forest);
    forest = NULL;
    backend->root_remove(&forest, sizeof forest);
    free(workers);
    return rc;
}
