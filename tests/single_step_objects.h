/*
 * For the tests that step through calls of the library (single_step.h): objects whose contents tell whether they were
 * lost, allocations of each kind and in each state of the thread's cache, and the program around it all.
 */
#ifndef TESTS_SINGLE_STEP_OBJECTS_H
#define TESTS_SINGLE_STEP_OBJECTS_H

#include "single_step.h"

/* ---- what must stay whole ---- */

#define KEPT_MOST 256

/* A ring, and a registered root. */
static struct kept {
    unsigned char *at;
    size_t bytes;
    uint64_t seed;
    const char *name;
} kept[KEPT_MOST];
static size_t kept_next;
static uint64_t last_seed;

static void must(bool condition, const char *name, const char *what) {
    if (!condition)
        fail_msg("%s: %s", name, what);
}

/* Byte `i` of the pattern of `seed`. No aligned word of it is an address: the high byte is not 0. */
static unsigned char pattern(uint64_t seed, size_t i) {
    uint64_t word = (seed + i / 8) * UINT64_C(0x9e3779b97f4a7c15) | UINT64_C(0xa5) << 56;
    return (unsigned char)(word >> i % 8 * 8);
}

static void fill(unsigned char *at, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; i++)
        at[i] = pattern(seed, i);
}

static bool holds(const unsigned char *at, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != pattern(seed, i))
            return false;
    return true;
}

static inline bool zeroed(const unsigned char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != 0)
            return false;
    return true;
}

static uint64_t new_seed(void) {
    return last_seed += UINT64_C(1) << 32;
}

/* From here on the object is kept. Nothing collects between the end of the stepping and this. */
static struct kept *keep(const char *name, void *object, size_t bytes) {
    struct kept *k = &kept[kept_next++ % KEPT_MOST];
    *k = (struct kept){object, bytes, 0, name};
    return k;
}

static int by_address(const void *a, const void *b) {
    const struct kept *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static void check_kept(void) {
    static struct kept sorted[KEPT_MOST];
    size_t count = kept_next < KEPT_MOST ? kept_next : KEPT_MOST;
    for (size_t i = 0; i < count; i++) {
        const struct kept *k = &kept[i];
        tern_object found;
        must(tern_object_find(k->at, &found), k->name, "the object is not there any more");
        must((unsigned char *)found.base <= k->at &&
                 k->at + k->bytes <= (unsigned char *)found.base + found.size,
             k->name, "the object is smaller than was asked for");
        must(holds(k->at, k->bytes, k->seed), k->name, "the object was overwritten");
    }
    memcpy(sorted, kept, sizeof sorted);
    qsort(sorted, count, sizeof sorted[0], by_address);
    for (size_t i = 1; i < count; i++)
        must(sorted[i - 1].at + sorted[i - 1].bytes <= sorted[i].at, sorted[i].name, "two objects overlap");
    memset(sorted, 0, sizeof sorted);
}

/* ---- operations ---- */

enum mask { ANY, OPEN, EMPTY };

struct operation {
    const char *name;
    call_function *call;
    size_t bytes; /* of the result */
    enum kind kind;
    enum mask mask;  /* how the call finds its open mask */
    bool full_block; /* tiny: the open block has no room */
    size_t from;     /* of a realloc: bytes before */
    bool moves;      /* of a realloc */
};

static const tern_type *typed_type, *traced_type;

static void trace_all(const void *object, size_t size, tern_tracer *tracer) {
    tern_trace_range(tracer, object, size / sizeof(void *));
}

static void *words(const struct operation *op) {
    return tern_alloc(op->bytes);
}
static void *leaf(const struct operation *op) {
    return tern_alloc_leaf(op->bytes);
}
static void *leaf_single(const struct operation *op) {
    return tern_alloc_leaf_single(op->bytes);
}
static void *array(const struct operation *op) {
    return tern_alloc_array(op->bytes / 8, 8);
}
static void *typed(const struct operation *op) {
    return tern_alloc_typed(typed_type, op->bytes / 24);
}
static void *traced(const struct operation *op) {
    void *object = tern_alloc_traced(traced_type, op->bytes);
    tern_publish(object);
    return object;
}
static void *aligned(const struct operation *op) {
    return tern_alloc_aligned(256, op->bytes, op->kind == KIND_LEAF);
}
static void *aligned_to_pages(const struct operation *op) {
    return tern_alloc_aligned(65536, op->bytes, op->kind == KIND_LEAF);
}

static const struct operation allocations[] = {
    {"words 16, open mask", words, 16, KIND_WORDS, OPEN, false, 0, false},
    {"words 16, empty mask", words, 16, KIND_WORDS, EMPTY, false, 0, false},
    {"words 48, open mask", words, 48, KIND_WORDS, OPEN, false, 0, false},
    {"words 48, empty mask", words, 48, KIND_WORDS, EMPTY, false, 0, false},
    {"words 512, open mask", words, 512, KIND_WORDS, OPEN, false, 0, false},
    {"words 512, empty mask", words, 512, KIND_WORDS, EMPTY, false, 0, false},
    {"words 2048, open mask", words, 2048, KIND_WORDS, OPEN, false, 0, false},
    {"words 8192, empty mask", words, 8192, KIND_WORDS, EMPTY, false, 0, false}, /* one slot a span */
    {"array 64, open mask", array, 64, KIND_WORDS, OPEN, false, 0, false},
    {"tiny 5, in the open block", leaf, 5, KIND_TINY, ANY, false, 0, false},
    {"tiny 5, opening a block", leaf, 5, KIND_TINY, OPEN, true, 0, false},
    {"tiny 5, opening a block, empty mask", leaf, 5, KIND_TINY, EMPTY, true, 0, false},
    {"tiny 8, in the open block", leaf, 8, KIND_TINY, ANY, false, 0, false},
    {"leaf 64, open mask", leaf, 64, KIND_LEAF, OPEN, false, 0, false},
    {"leaf 64, empty mask", leaf, 64, KIND_LEAF, EMPTY, false, 0, false},
    {"leaf 8 of its own, open mask", leaf_single, 8, KIND_LEAF, OPEN, false, 0, false},
    {"typed 72, open mask", typed, 72, KIND_TYPED, OPEN, false, 0, false},
    {"typed 72, empty mask", typed, 72, KIND_TYPED, EMPTY, false, 0, false},
    {"traced 40 and published, open mask", traced, 40, KIND_TRACED, OPEN, false, 0, false},
    {"traced 40 and published, empty mask", traced, 40, KIND_TRACED, EMPTY, false, 0, false},
    {"words 256, aligned to 256", aligned, 256, KIND_WORDS, OPEN, false, 0, false},
    {"leaf 1000, aligned to 65536", aligned_to_pages, 1000, KIND_LEAF, ANY, false, 0, false},
    {"words 40000", words, 40000, KIND_WORDS, ANY, false, 0, false},
    {"words 200000", words, 200000, KIND_WORDS, ANY, false, 0, false},
    {"leaf 200000", leaf, 200000, KIND_LEAF, ANY, false, 0, false},
    {"typed 48000", typed, 48000, KIND_TYPED, ANY, false, 0, false},
};

/* Brings the open mask and the tiny block into the state that the call is to meet. */
__attribute__((unused)) static NOINLINE void prepare(const struct operation *op) {
    size_t slot = op->kind == KIND_TINY ? 16 : op->bytes + (op->kind >= KIND_TYPED ? 8 : 0);
    if (op->mask != ANY) {
        const _Atomic uint64_t *bits = &mutator_self->masks[op->kind][sizeclass_of(slot)].bits;
        for (int i = 0; (*bits == 0) != (op->mask == EMPTY); i++) {
            must(i < 200, op->name, "its open mask does not come into the state that the test wants");
            tern_keep(op->call(op));
        }
    }
    if (op->kind == KIND_TINY)
        for (int i = 0; mutator_self->tiny_base == NULL ||
                        (mutator_self->tiny_offset + op->bytes > 16) != op->full_block;
             i++) {
            must(i < 200, op->name, "its open block does not come into the state that the test wants");
            tern_keep(tern_alloc_leaf(op->full_block ? op->bytes : 7));
        }
}

/* More of the same, overwritten: what was freed too early is among it. */
__attribute__((unused)) static NOINLINE void churn(const struct operation *op) {
    for (int i = 0; i < (op->bytes > 8192 ? 8 : 130); i++)
        memset(op->call(op), 0xee, op->bytes);
}

/* The object leaves its root here, inside the stepped code. */
static inline void *take(void) {
    void *object = taken;
    taken = NULL;
    return object;
}

/* ---- the program ---- */

static void set_handler(int signal, void (*handler)(int, siginfo_t *, void *), void (*plain)(int)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    if (handler != NULL) {
        action.sa_sigaction = handler;
        action.sa_flags = SA_SIGINFO;
    } else {
        action.sa_handler = plain;
        action.sa_flags = (int)SA_RESETHAND;
    }
    sigemptyset(&action.sa_mask);
    if (sigaction(signal, &action, NULL) != 0)
        abort();
}

/* Starts the library, without collections but those asked for here, all of them checked; and the second thread. */
static pthread_t single_step_start(int stores) {
    setenv("TERN_GODEBUG", "gcverify=1", 1);
    tern_options options;
    tern_options_init(&options);
    options.gc_percent = TERN_GC_OFF;
    options.manual_cleanups = 1;
    options.stores = stores;
    if (tern_init(&options) != 0 || tern_root_add(kept, sizeof kept) != 0 ||
        tern_root_add(&taken, sizeof taken) != 0 || tern_root_add(&dropped, sizeof dropped) != 0)
        abort();
    static const uint64_t bitmap[1] = {2};
    typed_type = tern_type_new("triple", 24, bitmap);
    traced_type = tern_traced_type_new("traced", trace_all);
    set_handler(SIGTRAP, on_trap, NULL);
    set_handler(SIGABRT, NULL, on_abort);
    pthread_t thread;
    if (typed_type == NULL || traced_type == NULL || tern_pthread_create(&thread, NULL, collector, NULL) != 0)
        abort();
    return thread;
}

static void single_step_end(pthread_t thread) {
    print_message("  in all %lu instructions, %lu collections\n", (unsigned long)all_instructions,
                  (unsigned long)all_collections);
    atomic_store_explicit(&quitting, true, memory_order_relaxed);
    ask();
    tern_blocking_begin();
    pthread_join(thread, NULL);
    tern_blocking_end();
    tern_shutdown();
}

#endif
