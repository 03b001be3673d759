/*
 * Structures survive, and so does an object to which one single place leads, while every slow path of
 * allocation collects and the heap is verified each time. ctest: timeout=300
 *
 * Each case runs in a child with settings of its own. A place is tried twice: holding the object (it survives
 * each round) and, by the same calls, not holding it (it dies in nearly every round), so that each case can
 * fail.
 */
#include "child.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define ROUNDS (SANITIZED ? 12 : 30)

#define STRESS "gcstress=1,gcverify=1"

/* Adds `settings` to what the lane has set. Only in a child. */
static void set_debug(const char *settings) {
    char all[256];
    const char *lane = getenv("TERN_GODEBUG");
    bool has = lane != NULL && lane[0] != 0;
    must(snprintf(all, sizeof all, "%s%s%s", has ? lane : "", has ? "," : "", settings) < (int)sizeof all);
    setenv("TERN_GODEBUG", all, 1);
}

static void start(const char *settings) {
    set_debug(settings);
    must(tern_init(NULL) == 0);
}

static void join(pthread_t thread) {
    tern_blocking_begin();
    pthread_join(thread, NULL);
    tern_blocking_end();
}

static void wait_for(atomic_int *flag) {
    while (atomic_load(flag) == 0) {
        tern_poll();
        usleep(100);
    }
}

/* -------------------------------------------------------------------------------------------------------
 * structures */

struct tree {
    struct tree *left, *right;
    uint64_t number; /* the root is 1, the children of n are 2n and 2n + 1 */
};

static struct tree *tree_new(unsigned depth, uint64_t number) {
    struct tree *t = tern_alloc(sizeof *t);
    must(t != NULL && t->left == NULL && t->right == NULL && t->number == 0);
    t->number = number;
    if (depth > 0) {
        tern_store(&t->left, tree_new(depth - 1, 2 * number));
        tern_store(&t->right, tree_new(depth - 1, 2 * number + 1));
    }
    return t;
}

/* Checks every node; how many there are. */
static size_t tree_check(const struct tree *t, unsigned depth, uint64_t number) {
    must(t != NULL && t->number == number);
    if (depth == 0) {
        must(t->left == NULL && t->right == NULL);
        return 1;
    }
    return 1 + tree_check(t->left, depth - 1, 2 * number) + tree_check(t->right, depth - 1, 2 * number + 1);
}

static void trees_survive(unsigned depth, unsigned times) {
    struct tree *kept = tree_new(depth, 1);
    for (unsigned i = 0; i < times; i++) {
        struct tree *other = tree_new(depth, 1);
        must(tree_check(other, depth, 1) == (UINT64_C(2) << depth) - 1);
    }
    tern_collect();
    must(tree_check(kept, depth, 1) == (UINT64_C(2) << depth) - 1);
}

struct list {
    struct list *next;
    uint64_t value;
};

static struct list *list_new(size_t count, uint64_t seed) {
    struct list *head = NULL;
    for (size_t i = 0; i < count; i++) {
        struct list *one = tern_alloc(sizeof *one);
        must(one != NULL && one->next == NULL && one->value == 0);
        one->value = next_random(&seed) ^ i;
        tern_store(&one->next, head);
        head = one;
    }
    return head;
}

/* The values come back last first, so the order is checked by a sum that depends on it. */
static void list_check(const struct list *head, size_t count, uint64_t seed) {
    uint64_t want = 0, got = 0;
    size_t i = count;
    for (; head != NULL; head = head->next) {
        must(i > 0);
        got += head->value * (2 * --i + 1);
    }
    must(i == 0);
    for (i = 0; i < count; i++)
        want += (next_random(&seed) ^ i) * (2 * i + 1);
    must(got == want);
}

static int small_trees(void *unused) {
    (void)unused;
    start(STRESS);
    trees_survive(12, 2);
    return 0;
}

static void trees_of_depth_12_survive_a_collection_at_each_slow_path(void **state) {
    (void)state;
    child_passes(small_trees, NULL);
}

/* 10,000 nodes of changing sizes, each with a payload up to its last byte and a leaf of its own. */
struct loaded {
    struct loaded *next;
    unsigned char *leaf;
    size_t size;
    uint64_t seed;
    unsigned char payload[];
};
#define LOADED_NODES 10000

static void payload_fill(unsigned char *at, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(0x80 | (seed >> i % 56));
}

static bool is_payload(const unsigned char *at, size_t bytes, uint64_t seed) {
    size_t i = 0;
    while (i < bytes && at[i] == (unsigned char)(0x80 | (seed >> i % 56)))
        i++;
    return i == bytes;
}

static struct loaded *loaded_new(size_t count, uint64_t seed) {
    struct loaded *head = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t size = next_random(&seed) % 8 == 0 ? next_random(&seed) % 1000 : next_random(&seed) % 40;
        struct loaded *one = tern_alloc(sizeof *one + size);
        must(one != NULL && one->next == NULL && one->leaf == NULL && one->size == 0);
        one->size = size;
        one->seed = next_random(&seed);
        payload_fill(one->payload, size, one->seed);
        unsigned char *leaf = tern_alloc_leaf(1 + i % 24);
        payload_fill(leaf, 1 + i % 24, one->seed >> 8);
        tern_store(&one->leaf, leaf);
        tern_store(&one->next, head);
        head = one;
    }
    return head;
}

static void loaded_check(const struct loaded *head, size_t count) {
    size_t i = count;
    for (; head != NULL; head = head->next) {
        must(i-- > 0);
        must(is_payload(head->payload, head->size, head->seed));
        must(is_payload(head->leaf, 1 + i % 24, head->seed >> 8));
    }
    must(i == 0);
}

static int loaded_list(void *unused) {
    (void)unused;
    start(STRESS);
    struct loaded *head = loaded_new(LOADED_NODES, 7);
    tern_collect();
    loaded_check(head, LOADED_NODES);
    return 0;
}

static void a_list_of_10000_nodes_and_its_payload_survive_a_collection_at_each_slow_path(void **state) {
    (void)state;
    child_passes(loaded_list, NULL);
}

#define MANY          64
#define THREAD_ROUNDS 2
static atomic_int go;

static void *own_structures(void *argument) {
    uint64_t seed = 1 + (uint64_t)(uintptr_t)argument;
    if (tern_thread_is_attached()) /* one that is not may sleep: nobody waits for it */
        wait_for(&go);
    for (unsigned round = 0; round < THREAD_ROUNDS; round++) {
        struct tree *tree = tree_new(3, 1);
        struct loaded *loaded = loaded_new(10, next_random(&seed));
        uint64_t list_seed = next_random(&seed);
        struct list *list = list_new(10, list_seed);
        must(tree_check(tree, 3, 1) == 15);
        loaded_check(loaded, 10);
        list_check(list, 10, list_seed);
    }
    return NULL;
}

static int many_threads(void *argument) {
    start(argument);
    pthread_t threads[MANY];
    for (size_t i = 0; i < MANY; i++)
        must((i % 2 == 0 ? tern_pthread_create : pthread_create)(&threads[i], NULL, own_structures,
                                                                 (void *)i) == 0);
    atomic_store(&go, 1);
    for (size_t i = 0; i < MANY; i++)
        join(threads[i]);
    must(stats().threads == 1);
    must(stats().collections >= 100);
    return 0;
}

static void what_64_threads_build_at_once_survives_a_collection_at_each_slow_path(void **state) {
    (void)state;
    child_passes(many_threads, STRESS);
}

static void what_64_threads_build_at_once_survives_four_markers(void **state) {
    (void)state;
    child_passes(many_threads, STRESS ",markers=4,marker=stack");
    child_passes(many_threads, STRESS ",markers=4,marker=ring");
}

struct tree_case {
    const char *settings;
    unsigned depth;
};

static int big_tree(void *argument) {
    const struct tree_case *c = argument;
    start(c->settings);
    trees_survive(c->depth, 1);
    return 0;
}

static void big_trees_survive(const char *settings) {
    bool longer = getenv("TERN_LONG_TESTS") != NULL && strcmp(getenv("TERN_LONG_TESTS"), "1") == 0;
    for (unsigned depth = 16; depth <= (longer ? 20U : SANITIZED ? 16U : 18U); depth += 2)
        child_passes(big_tree, &(struct tree_case){settings, depth});
}

static void big_trees_survive_normal_triggers(void **state) {
    (void)state;
    big_trees_survive("gcverify=1");
}

static void big_trees_survive_a_collection_at_every_10000th_slow_path(void **state) {
    (void)state;
    big_trees_survive("gcverify=1,gcstress=10000");
}

static void big_trees_survive_any_number_of_markers_in_either_order(void **state) {
    (void)state;
    for (unsigned markers = 1; markers <= 4; markers *= 2)
        for (unsigned ring = 0; ring < 2; ring++) {
            char settings[100];
            const char *marker = ring ? "ring" : "stack";
            snprintf(settings, sizeof settings, "gcverify=1,markers=%u,marker=%s", markers, marker);
            big_trees_survive(settings);
            snprintf(settings, sizeof settings, "gcverify=1,gcstress=10000,markers=%u,marker=%s", markers,
                     marker);
            big_trees_survive(settings);
        }
}

/* Ten million; a tenth where gcverify, which looks at each node, is a debug or sanitizer build's. */
static size_t long_list_nodes(void) {
    const char *build = getenv("TERN_BUILD_DIR");
    return SANITIZED || (build != NULL && strstr(build, "debug") != NULL) ? 1000000 : 10000000;
}

static void *long_list(void *unused) {
    (void)unused;
    struct list *head = list_new(long_list_nodes(), 99);
    tern_collect();
    list_check(head, long_list_nodes(), 99);
    return NULL;
}

static int long_list_on_a_small_stack(void *argument) {
    start(argument);
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    must(pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
    must(tern_pthread_create(&thread, &attributes, long_list, NULL) == 0);
    join(thread);
    must(stats().collections >= 3); /* the asked for one, and at 4 and 8 MiB */
    return 0;
}

static void a_long_list_built_on_a_64_kib_stack_survives(void **state) {
    (void)state;
    if (long_list_nodes() < 10000000)
        print_message("a debug or sanitizer build: %zu nodes instead of 10000000\n", long_list_nodes());
    child_passes(long_list_on_a_small_stack, "gcverify=1");
    child_passes(long_list_on_a_small_stack, "gcverify=1,gcstress=10000");
}

/* -----------------------------------------------------------------------------------------------------
 * single places */

/*
 * One object in one place. `hidden` is the complement of its address, and the only other way to it. The
 * holder makes it, holds it and waits; meanwhile the examiner, another thread, collects, takes the memory of
 * what died, and looks.
 */
struct job {
    const struct place *place;
    bool keep;
    unsigned round;
    size_t size; /* usable bytes */
    uint64_t seed;
    uintptr_t hidden;
    tern_handle owner; /* of what `prepare` made */
    pthread_t holder;
    bool found;
};

struct place {
    const char *name;
    void (*prepare)(
        struct job *job); /* allocates what the place needs, while there is no object yet; may be NULL */
    void (*hold)(struct job *job);
    void (*spin)(uintptr_t hidden); /* for hold_in_register */
    const char *feature;            /* the processor must have it; NULL: every one has */
    bool signals_only;              /* makes no sense where threads stop at polls */
    bool interrupt;                 /* the holder is interrupted by a signal first */
    bool data_segments;
};

/* There is one job at a time. The holder of an object: it is in its place; to the holder: leave. Read in
 * assembly. */
atomic_int stress_ready, stress_told;
static atomic_int interrupted;
static struct job *current_job;

/* A pointer to byte `offset` of the object. Its address itself is not computed on the way. */
static NOINLINE void *at(const struct job *job, size_t offset) {
    return (void *)(offset - 1 - job->hidden);
}

static size_t size_of(unsigned round) {
    static const size_t sizes[] = {16, 24, 64, 200, 1000, 5000, 33000, 100000};
    return sizes[round % (sizeof sizes / sizeof *sizes)];
}

static uint64_t seed_of(unsigned round) {
    return 0x9e3779b97f4a7c15 * (round + 1);
}

static NOINLINE void make(struct job *job) {
    size_t size = size_of(job->round);
    job->seed = seed_of(job->round);
    unsigned char *object = job->round % 2 == 0 ? tern_alloc(size) : tern_alloc_leaf_single(size);
    tern_object found;
    must(object != NULL && tern_object_find(object, &found));
    must(found.base == object && found.size >= size);
    job->size = found.size;
    payload_fill(object, job->size, job->seed);
    job->hidden = ~(uintptr_t)object;
}

/* Overwrites what the library's calls left on the stack below, and more. */
static NOINLINE void clear_more_stack(void) {
    char bytes[16384];
    memset(bytes, 0, sizeof bytes);
    __asm__ volatile("" : : "r"(bytes) : "memory");
}

/* The holder is here while the object is in its place. */
static NOINLINE void held(void) {
    clear_more_stack();
    atomic_store(&stress_ready, 1);
    wait_for(&stress_told);
}

static void *hold(void *argument) {
    struct job *job = argument;
    job->holder = pthread_self();
    if (job->place->prepare != NULL)
        job->place->prepare(job);
    make(job);
    clear_more_stack();
    job->place->hold(job);
    return NULL;
}

/* Takes the memory of what died, if anything did, and writes over it. */
static NOINLINE void recycle(size_t size, bool leaf) {
    size_t count = size > 4096 ? 3 : 3 + 8192 / size;
    for (size_t i = 0; i < count; i++) {
        void *other = leaf ? tern_alloc_leaf_single(size) : tern_alloc(size);
        memset(other, 0xff, size);
        tern_keep(other);
    }
}

static NOINLINE bool is_whole(const struct job *job, bool demanded) {
    tern_object found;
    unsigned char *object = at(job, 0);
    bool whole =
        tern_object_find(object + job->size - 1, &found) && found.base == object && found.size == job->size;
    whole = whole && is_payload(object, job->size, job->seed);
    if (demanded && !whole)
        fprintf(stderr, "%s: round %u, %zu bytes: lost\n", job->place->name, job->round, job->size);
    return whole;
}

static void *examine(void *argument) {
    struct job *job = argument;
    wait_for(&stress_ready);
    if (job->place->interrupt) {
        pthread_kill(job->holder, SIGUSR1);
        wait_for(&interrupted);
    }
    for (unsigned i = 0; i < 4; i++) {
        collect_and_sweep();
        recycle(job->size, job->round % 2 != 0);
    }
    collect_and_sweep();
    job->found = is_whole(job, job->keep);
    atomic_store(&stress_told, 1);
    return NULL;
}

/* Threads of all three sorts hold it in turn. */
static bool survives(const struct place *place, unsigned round, bool keep) {
    struct job job = {.place = place, .keep = keep, .round = round};
    current_job = &job;
    atomic_store(&stress_ready, 0);
    atomic_store(&stress_told, 0);
    atomic_store(&interrupted, 0);
    pthread_t thread;
    if (round % 3 == 0)
        must(tern_pthread_create(&thread, NULL, hold, &job) == 0);
    else if (round % 3 == 1)
        must(pthread_create(&thread, NULL, hold, &job) == 0);
    else
        must(tern_pthread_create(&thread, NULL, examine, &job) == 0);
    (void)(round % 3 == 2 ? hold : examine)(&job);
    join(thread);
    return job.found;
}

static void start_for(const struct place *place, bool keep) {
    set_debug(STRESS);
    tern_options options;
    tern_options_init(&options);
    if (place->data_segments)
        options.data_segments = keep;
    must(tern_init(&options) == 0);
}

static int all_survive(void *place) {
    start_for(place, true);
    for (unsigned round = 0; round < ROUNDS; round++)
        must(survives(place, round, true));
    return 0;
}

static int nearly_all_die(void *place) {
    start_for(place, false);
    unsigned dead = 0;
    for (unsigned round = 0; round < ROUNDS; round++)
        dead += !survives(place, round, false);
    if (dead < NEARLY(ROUNDS))
        fprintf(stderr, "%u of %u died\n", dead, (unsigned)ROUNDS);
    must(dead >= NEARLY(ROUNDS));
    return 0;
}

static bool processor_has(const char *feature) {
#if defined(__x86_64__)
    return feature == NULL || (strcmp(feature, "avx2") == 0 ? __builtin_cpu_supports("avx2") != 0
                                                            : __builtin_cpu_supports("avx512f") != 0);
#else
    return feature == NULL;
#endif
}

static void an_object_held_only_there_survives_and_dies_without(void **state) {
    struct place *place = *state;
    if (!processor_has(place->feature) || (place->signals_only && cooperative()))
        skip();
    child_passes(all_survive, place);
    child_passes(nearly_all_die, place);
}

/* Registers, by functions of their own: C has no way to say that a register is the only place. */
#if defined(__x86_64__)
int stress_polls;

/*
 * spin_NAME(hidden): LOAD takes the address out of %rdi, which holds its complement, into the register; CLEAR
 * empties it in the end. Between these nothing else has it. With stress_polls it polls: for callee-saved
 * registers only.
 */
#define SPIN(NAME, LOAD, CLEAR)                                                                     \
    void spin_##NAME(uintptr_t hidden);                                                             \
    __asm__(".text\n.type spin_" #NAME ", @function\nspin_" #NAME ":\n"                             \
            "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\nsub $8, %rsp\n" LOAD \
            "\nmovl $1, stress_ready(%rip)\n"                                                       \
            "1: pause\ncmpl $0, stress_polls(%rip)\nje 2f\ncall tern_poll@PLT\n"                    \
            "2: cmpl $0, stress_told(%rip)\nje 1b\n" CLEAR "\n"                                     \
            "add $8, %rsp\npop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n"       \
            ".size spin_" #NAME ", . - spin_" #NAME "\n")
#define SPIN_GENERAL(R) SPIN(R, "mov %rdi, %" #R "\nnot %" #R, "xor %" #R ", %" #R)
#define SPIN_XMM(R)     SPIN(R, "not %rdi\nmovq %rdi, %" #R "\nxor %edi, %edi", "pxor %" #R ", %" #R)
/* The eighth word of the register only. */
#define SPIN_ZMM(R)                                            \
    SPIN(R,                                                    \
         "not %rdi\nmov $0x80, %eax\nkmovw %eax, %k1\n"        \
         "vpbroadcastq %rdi, %" #R "{%k1}{z}\nxor %edi, %edi", \
         "vpxorq %" #R ", %" #R ", %" #R "\nvzeroupper")

SPIN_GENERAL(rbx);
SPIN_GENERAL(rbp);
SPIN_GENERAL(r12);
SPIN_GENERAL(r15);
SPIN_GENERAL(rax);
SPIN_GENERAL(rdi);
SPIN_GENERAL(r8);
SPIN_GENERAL(r11);
SPIN_XMM(xmm0);
SPIN_XMM(xmm7);
SPIN_XMM(xmm15);
/* The third word of the register only. */
SPIN(ymm13,
     "not %rdi\nmovq %rdi, %xmm14\nxor %edi, %edi\nvpxor %xmm13, %xmm13, %xmm13\n"
     "vinsertf128 $1, %xmm14, %ymm13, %ymm13\nvpxor %xmm14, %xmm14, %xmm14",
     "vpxor %xmm13, %xmm13, %xmm13\nvzeroupper");
SPIN_ZMM(zmm5);
SPIN_ZMM(zmm31);

static void hold_in_register(struct job *job) {
    stress_polls = cooperative();
    job->place->spin(job->keep ? job->hidden : UINTPTR_MAX);
}
#endif

/* Stacks. The pointers that hold nothing are eight bytes outside of what the interface promises. */
static void hold_interior(struct job *job) {
    void *volatile kept = at(job, job->keep ? 1 + job->seed % (job->size - 1) : (size_t)-8);
    held();
    kept = NULL;
    (void)kept;
}

static void hold_one_past_the_end(struct job *job) {
    void *volatile kept = at(job, job->keep ? job->size : job->size + 8);
    held();
    kept = NULL;
    (void)kept;
}

/* Calls `handler` on a stack of its own while `during` runs. */
static void on_alternate_stack(void (*handler)(int), void (*during)(struct job *job), struct job *job) {
    stack_t stack = {.ss_size = 256 << 10}, before;
    stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(stack.ss_sp != MAP_FAILED && sigaltstack(&stack, &before) == 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    must(sigaction(SIGUSR1, &action, NULL) == 0);
    during(job);
    must(sigaltstack(&before, NULL) == 0);
    munmap(stack.ss_sp, stack.ss_size);
}

/* Nothing that a thread may do in a handler stops it at a poll. */
static NOINLINE void held_in_handler(void) {
    clear_more_stack();
    atomic_store(&stress_ready, 1);
    while (atomic_load(&stress_told) == 0)
        usleep(100);
}

static void hold_in_handler(int signal) {
    (void)signal;
    char here;
    stack_t stack;
    must(sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_ONSTACK) != 0 && &here != NULL);
    void *volatile kept = current_job->keep ? at(current_job, 0) : NULL;
    held_in_handler();
    kept = NULL;
    (void)kept;
}

static void wait_in_handler(int signal) {
    (void)signal;
#if defined(__x86_64__)
    /* What the interrupted code had in these is in the kernel's frame, and here no more. */
    __asm__ volatile("xor %%ebx, %%ebx\npxor %%xmm15, %%xmm15" : : : "rbx", "xmm15");
#endif
    atomic_store(&interrupted, 1);
    held_in_handler();
}

static void raise_signal(struct job *job) {
    (void)job;
    raise(SIGUSR1);
}

static void hold_and_raise_signal(struct job *job) {
    void *volatile kept = job->keep ? at(job, 0) : NULL;
    raise(SIGUSR1);
    kept = NULL;
    (void)kept;
}

static void hold_on_alternate_stack(struct job *job) {
    on_alternate_stack(hold_in_handler, raise_signal, job);
}

static void hold_under_alternate_stack(struct job *job) {
    on_alternate_stack(wait_in_handler, hold_and_raise_signal, job);
}

#if defined(__x86_64__)
static void hold_in_interrupted_register(struct job *job) {
    on_alternate_stack(wait_in_handler, hold_in_register, job);
}
#endif

/* Roots. A thread's own variables may lie at the end of its stack, which is scanned: only the first one's
 * tell. */
static __thread void *thread_variable;

static NOINLINE void thread_variable_set(struct job *job) {
    thread_variable = job->keep || job->round % 3 == 2 ? at(job, 0) : NULL;
}

static void hold_in_thread_variable(struct job *job) {
    must(tern_root_add(&thread_variable, sizeof thread_variable) == 0);
    thread_variable_set(job);
    if (!job->keep)
        must(tern_root_remove(&thread_variable) == 0);
    held();
    thread_variable = NULL;
    if (job->keep)
        must(tern_root_remove(&thread_variable) == 0);
}

static NOINLINE tern_handle handle_of(struct job *job) {
    tern_handle handle = tern_handle_new(at(job, 0));
    must(handle != 0);
    return handle;
}

static void hold_in_handle(struct job *job) {
    tern_handle handle = handle_of(job);
    if (!job->keep)
        tern_handle_set(handle, NULL);
    held();
    tern_handle_free(handle);
}

static void *global_zero;
static void *global_set = &global_zero;

static NOINLINE void globals_set(struct job *job) {
    *(job->round % 2 == 0 ? &global_zero : &global_set) = at(job, 0);
}

static void hold_in_data_segment(struct job *job) {
    globals_set(job);
    held();
    global_zero = global_set = NULL;
}

/* Fields of managed objects, which a handle keeps. A word that is no pointer by the object's type holds
 * nothing. */
#define FIELDS  70
#define POINTER 67

static void own(struct job *job, void *object) {
    must(object != NULL);
    job->owner = tern_handle_new(object);
    must(job->owner != 0);
}

static void own_typed(struct job *job) {
    static const uint64_t bitmap[2] = {0, UINT64_C(1) << (POINTER - 64)};
    const tern_type *type = tern_type_new("holder", FIELDS * sizeof(void *), bitmap);
    must(type != NULL);
    own(job, tern_alloc_typed(type, 1));
}

static void trace_pointer(const void *object, size_t size, tern_tracer *tracer) {
    if (size >= FIELDS * sizeof(void *))
        tern_trace_word(tracer, ((void *const *)object)[POINTER]);
}

static void own_traced(struct job *job) {
    const tern_type *type = tern_traced_type_new("holder", trace_pointer);
    must(type != NULL);
    void *object = tern_alloc_traced(type, FIELDS * sizeof(void *));
    own(job, object);
    tern_publish(object);
}

static NOINLINE void field_set(const struct job *job) {
    void **fields = tern_handle_get(job->owner);
    tern_store(&fields[job->keep ? POINTER : POINTER - 1], at(job, 0));
}

static void hold_in_field(struct job *job) {
    field_set(job);
    held();
    tern_handle_free(job->owner);
}

/* Cleanups. The owner stays alive until the object was examined; then the cleanup gets it, whole. */
static atomic_int cleanups_run, cleanups_right;

static void look_in_cleanup(void *argument) {
    bool right = false;
    for (unsigned round = 0; round < ROUNDS && !right; round++)
        right = is_payload(argument, size_of(round), seed_of(round));
    cleanups_right += right;
    cleanups_run++;
}

static void own_plain(struct job *job) {
    own(job, tern_alloc(200));
}

static NOINLINE uint64_t cleanup_add(const struct job *job) {
    uint64_t id = tern_cleanup_add(tern_handle_get(job->owner), look_in_cleanup, at(job, 0));
    must(id != 0);
    return id;
}

static void hold_in_cleanup(struct job *job) {
    uint64_t id = cleanup_add(job);
    if (!job->keep)
        must(tern_cleanup_remove(id));
    held();
    tern_handle_free(job->owner);
}

static int cleanups_get_whole_arguments(void *place) {
    must(all_survive(place) == 0);
    for (unsigned i = 0; i < 10; i++)
        collect_and_sweep();
    for (unsigned i = 0; i < 10000 && cleanups_run < (int)NEARLY(ROUNDS); i++) { /* ten seconds */
        tern_poll();
        usleep(1000);
    }
    must(cleanups_run >= (int)NEARLY(ROUNDS));
    must(cleanups_right == cleanups_run);
    return 0;
}

static void a_cleanup_gets_its_argument_whole(void **state) {
    (void)state;
    struct place place = {.name = "a cleanup's argument", .prepare = own_plain, .hold = hold_in_cleanup};
    child_passes(cleanups_get_whole_arguments, &place);
}

/* What nothing holds dies: a thousand objects whose addresses the heap and the threads know only hidden. */
#define HIDDEN 1000
static uintptr_t hidden[HIDDEN];

static NOINLINE void hide(size_t from, size_t count) {
    for (size_t i = from; i < from + count; i++) {
        uint64_t *object = tern_alloc(48);
        object[0] = object[5] = ~i;
        hidden[i] = ~(uintptr_t)object;
    }
}

static int hidden_objects_die(void *unused) {
    (void)unused;
    start(STRESS);
    for (size_t i = 0; i < HIDDEN; i += 100) {
        hide(i, 100);
        clear_more_stack();
    }
    for (unsigned i = 0; i < 3; i++)
        collect_and_sweep();
    size_t dead = 0;
    for (size_t i = 0; i < HIDDEN; i++)
        dead += !tern_object_find((void *)~hidden[i], NULL);
    must(dead >= NEARLY(HIDDEN));
    return 0;
}

static void an_object_whose_address_is_hidden_dies(void **state) {
    (void)state;
    child_passes(hidden_objects_die, NULL);
}

static struct place places[] = {
#if defined(__x86_64__)
#define IN_REGISTER(R, ...) \
    { .name = "only in " #R, .hold = hold_in_register, .spin = spin_##R, __VA_ARGS__ }
    IN_REGISTER(rbx),
    IN_REGISTER(rbp),
    IN_REGISTER(r12),
    IN_REGISTER(r15),
    IN_REGISTER(rax, .signals_only = true),
    IN_REGISTER(rdi, .signals_only = true),
    IN_REGISTER(r8, .signals_only = true),
    IN_REGISTER(r11, .signals_only = true),
    IN_REGISTER(xmm0, .signals_only = true),
    IN_REGISTER(xmm7, .signals_only = true),
    IN_REGISTER(xmm15, .signals_only = true),
    IN_REGISTER(ymm13, .signals_only = true, .feature = "avx2"),
    IN_REGISTER(zmm5, .signals_only = true, .feature = "avx512f"),
    IN_REGISTER(zmm31, .signals_only = true, .feature = "avx512f"),
    {.name = "only in rbx, which a handler on an alternate stack interrupted",
     .hold = hold_in_interrupted_register,
     .spin = spin_rbx,
     .signals_only = true,
     .interrupt = true},
    {.name = "only in xmm15, which a handler on an alternate stack interrupted",
     .hold = hold_in_interrupted_register,
     .spin = spin_xmm15,
     .signals_only = true,
     .interrupt = true},
#endif
    {.name = "only an interior pointer", .hold = hold_interior},
    {.name = "only a pointer one past the end", .hold = hold_one_past_the_end},
    {.name = "only on an alternate signal stack", .hold = hold_on_alternate_stack, .signals_only = true},
    {.name = "only in the frame under an alternate signal stack",
     .hold = hold_under_alternate_stack,
     .signals_only = true},
    {.name = "only in a registered __thread variable", .hold = hold_in_thread_variable},
    {.name = "only in a typed field", .prepare = own_typed, .hold = hold_in_field},
    {.name = "only in a traced object's field", .prepare = own_traced, .hold = hold_in_field},
    {.name = "only in a handle", .hold = hold_in_handle},
    {.name = "only as a cleanup's argument", .prepare = own_plain, .hold = hold_in_cleanup},
    {.name = "only in a data segment", .hold = hold_in_data_segment, .data_segments = true},
};
#define PLACES (sizeof places / sizeof *places)

int main(void) {
    const struct CMUnitTest structures[] = {
        cmocka_unit_test(an_object_whose_address_is_hidden_dies),
        cmocka_unit_test(trees_of_depth_12_survive_a_collection_at_each_slow_path),
        cmocka_unit_test(a_list_of_10000_nodes_and_its_payload_survive_a_collection_at_each_slow_path),
        cmocka_unit_test(what_64_threads_build_at_once_survives_a_collection_at_each_slow_path),
        cmocka_unit_test(what_64_threads_build_at_once_survives_four_markers),
        cmocka_unit_test(a_cleanup_gets_its_argument_whole),
        cmocka_unit_test(big_trees_survive_normal_triggers),
        cmocka_unit_test(big_trees_survive_a_collection_at_every_10000th_slow_path),
        cmocka_unit_test(big_trees_survive_any_number_of_markers_in_either_order),
        cmocka_unit_test(a_long_list_built_on_a_64_kib_stack_survives),
    };
    struct CMUnitTest held_objects[PLACES] = {{0}};
    for (size_t i = 0; i < PLACES; i++)
        held_objects[i] =
            (struct CMUnitTest){.name = places[i].name,
                                .test_func = an_object_held_only_there_survives_and_dies_without,
                                .initial_state = &places[i]};
    int failed = cmocka_run_group_tests_name("an object survives that is held", held_objects, NULL, NULL);
    return failed + cmocka_run_group_tests(structures, NULL, NULL) == 0 ? 0 : 1;
}
