/*
 * Fibers of a program, switched by ucontext: what a parked one holds survives, wherever it is resumed; so
 * does what the thread holds that runs one; and what a freed one held dies. Each scenario runs in a child of
 * its own, under gcverify, for a program that promises the barrier and for one that does not.
 *
 * Seen to fail:
 *
 * - fiber_each that leaves parked fibers out: ten tests, gcverify, "... is reachable but was not
 *   marked; a parked fiber's stack ... leads to it"
 *
 * - a fiber that runs scanned from its stack pointer only, by the collector:
 *   a_thread_switches_while... and fibers_go_from_thread_to_thread, "... a fiber's stack of thread
 *   ..., saved at ... leads to it"; where that is so of interrupted threads only, the latter
 *
 * - visit_stacks that leaves out the thread's own stack while it runs a fiber:
 *   what_the_thread_holds..., and two others, "... a stack, not the current one, of thread ..."
 *
 * - fiber_free that leaves the fiber in the list: a_thousand_fibers_come_and_go, "must hold:
 *   f->registered != NULL", and a segmentation fault in what_a_freed_fiber_held_dies...
 *
 * - fiber_free that reads the fiber before it is found in the list: a segmentation fault where it
 *   is freed twice
 *
 * Not to be seen: a program that does not announce its switches, which the barrier's snapshot
 * covers.
 *
 * ctest: lanes=none,address
 * (ThreadSanitizer must be told of each switch, by calls of its own.)
 */
#include "child.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <ucontext.h>

#define STACK_BYTES ((size_t)64 * 1024)

/* ---- a fiber; lies at the lower end of its own stack, which is registered from there on ---- */

struct fiber {
    ucontext_t inside, outside;
    tern_fiber *registered, *home; /* what it goes back to: NULL for a thread's own stack */
    void (*body)(struct fiber *self);
    uint64_t seed;
    size_t count;
    bool over, wrong;
};

static void resume_from(struct fiber *f, tern_fiber *home) {
    f->home = home;
    tern_fiber_switch(f->registered);
    swapcontext(&f->outside, &f->inside);
}

static void resume(struct fiber *f) {
    resume_from(f, NULL);
}

static NOINLINE void leave(struct fiber *self) {
    tern_fiber_switch(self->home);
    swapcontext(&self->inside, &self->outside);
}

static void run(unsigned high, unsigned low) { /* makecontext passes ints only */
    struct fiber *self = (struct fiber *)((uintptr_t)high << 32 | low);
    self->body(self);
    self->over = true;
    for (;;)
        leave(self);
}

static void prepare(struct fiber *f, size_t bytes, void (*body)(struct fiber *self), uint64_t seed) {
    memset(f, 0, sizeof *f);
    f->body = body;
    f->seed = seed;
    must(getcontext(&f->inside) == 0);
    f->inside.uc_stack.ss_sp = f + 1;
    f->inside.uc_stack.ss_size = bytes - sizeof *f;
    makecontext(&f->inside, (void (*)(void))run, 2, (unsigned)((uintptr_t)f >> 32), (unsigned)(uintptr_t)f);
}

static struct fiber *fiber_new(void (*body)(struct fiber *self), uint64_t seed) {
    struct fiber *f = aligned_alloc(4096, STACK_BYTES);
    must(f != NULL);
    prepare(f, STACK_BYTES, body, seed);
    f->registered = tern_fiber_new(f, STACK_BYTES);
    must(f->registered != NULL);
    return f;
}

static void fiber_free(struct fiber *f) {
    must(!f->wrong);
    tern_fiber_free(f->registered);
    free(f);
}

/* ---- lists ---- */

struct item {
    struct item *next;
    uint64_t value;
    uint64_t rest[2];
};

static NOINLINE struct item *list(uint64_t seed, size_t length) {
    struct item *head = NULL;
    for (size_t i = 0; i < length; i++) {
        struct item *one = tern_alloc(sizeof *one);
        one->value = seed + i;
        tern_store(&one->next, head);
        head = one;
    }
    return head;
}

static NOINLINE bool is_list(const struct item *at, uint64_t seed, size_t length) {
    for (size_t i = length; i-- > 0; at = at->next)
        if (at == NULL || at->value != seed + i)
            return false;
    return at == NULL;
}

/* Takes slots that a collection freed, and overwrites them. */
static NOINLINE void scribble(size_t count) {
    for (size_t i = 0; i < count; i++)
        memset(tern_alloc_leaf_single(sizeof(struct item)), 0xee, sizeof(struct item));
}

/* ---- the library in a child ---- */

struct plan {
    int (*scenario)(void);
    const char *debug;
    int stores;
};

static int run_plan(void *argument) {
    const struct plan *plan = argument;
    setenv("TERN_GODEBUG", plan->debug, 1);
    tern_options options;
    tern_options_init(&options);
    options.stores = plan->stores;
    must(tern_init(&options) == 0);
    return plan->scenario();
}

/* AddressSanitizer warns of its own weaknesses with such switches; it does not stop for that. */
static bool is_of_sanitizer(const char *text) {
    return strstr(text, "WARNING: ASan ") != NULL && strstr(text, "tern:") == NULL;
}

static void both(int (*scenario)(void), const char *debug) {
    static const int stores[] = {TERN_STORES_PLAIN, TERN_STORES_BARRIER};
    for (size_t i = 0; i < 2; i++) {
        struct plan plan = {scenario, debug, stores[i]};
        child_passes(run_plan, &plan);
        if (child_text[0] != 0 && !is_of_sanitizer(child_text))
            fail_msg("it said: %s", child_text);
    }
}

static void all_abort(int (*scenario)(void), const char *text) {
    struct plan plan = {scenario, "gcverify=1", TERN_STORES_BARRIER};
    child_aborts(run_plan, &plan, text);
}

/* ---- what is reachable survives ---- */

#define LENGTH 30

/* Each step of its own holds a list, which only a frame of the parked fiber leads to. */
static NOINLINE void hold_lists(struct fiber *self, size_t depth) {
    struct item *mine = list(self->seed + depth * 1000, LENGTH);
    leave(self);
    if (depth > 0)
        hold_lists(self, depth - 1);
    leave(self);
    self->wrong |= !is_list(mine, self->seed + depth * 1000, LENGTH);
}

#define DEPTH 3

static void lists_in_frames(struct fiber *self) {
    hold_lists(self, DEPTH);
}

static int park_and_resume(void) {
    struct fiber *fibers[10];
    for (size_t i = 0; i < 10; i++)
        fibers[i] = fiber_new(lists_in_frames, i << 32);
    for (size_t turn = 0; turn < 2 * (DEPTH + 1) + 1; turn++)
        for (size_t i = 0; i < 10; i++) {
            resume(fibers[i]);
            scribble(10);
        }
    for (size_t i = 0; i < 10; i++) {
        must(fibers[i]->over);
        fiber_free(fibers[i]);
    }
    tern_shutdown();
    return 0;
}

static void what_parked_fibers_hold_survives_a_collection_at_every_slow_path(void **state) {
    (void)state;
    both(park_and_resume, "gcstress=1,gcverify=1");
}

/* Its caller's registers lie in `outside`, below the stack pointer of this fiber. */
static void collect_and_scribble(struct fiber *self) {
    for (;;) {
        tern_collect();
        tern_collect();
        scribble(200);
        leave(self);
    }
}

/* So few that they fit into registers that a callee keeps. */
static NOINLINE bool hold_in_registers(struct fiber *f, uint64_t seed) {
    struct item *a = list(seed, 1), *b = list(seed + 1, 1), *c = list(seed + 2, 1);
    clear_stack();
    resume(f);
    return is_list(a, seed, 1) && is_list(b, seed + 1, 1) && is_list(c, seed + 2, 1);
}

static int hold_while_a_fiber_runs(void) {
    struct fiber *f = fiber_new(collect_and_scribble, 0);
    for (uint64_t i = 0; i < 20; i++)
        must(hold_in_registers(f, i * 10));
    fiber_free(f);
    tern_shutdown();
    return 0;
}

static void what_the_thread_holds_survives_while_it_runs_a_fiber(void **state) {
    (void)state;
    both(hold_while_a_fiber_runs, "gcverify=1");
}

static void one_list(struct fiber *self) {
    struct item *mine = list(self->seed, LENGTH);
    for (;;) {
        leave(self);
        self->wrong |= !is_list(mine, self->seed, LENGTH);
        self->count++;
    }
}

#define MANY 1000

static int a_thousand(void) {
    struct fiber **fibers = malloc(MANY * sizeof *fibers);
    must(fibers != NULL);
    for (size_t i = 0; i < MANY; i++)
        fibers[i] = fiber_new(one_list, i << 32);
    for (size_t turn = 0; turn < 3; turn++) {
        for (size_t i = 0; i < MANY; i++)
            resume(fibers[(i * 7 + turn) % MANY]);
        tern_collect();
        scribble(1000);
        /* The half of them go, and others come in their place. */
        for (size_t i = turn % 2; i < MANY; i += 2) {
            must(fibers[i]->count > 0 || turn == 0);
            fiber_free(fibers[i]);
            fibers[i] = fiber_new(one_list, i << 32);
            resume(fibers[i]);
        }
    }
    for (size_t i = 0; i < MANY; i++) {
        resume(fibers[i]);
        must(fibers[i]->count > 0);
        fiber_free(fibers[i]);
    }
    free(fibers);
    tern_shutdown();
    return 0;
}

static void a_thousand_fibers_come_and_go(void **state) {
    (void)state;
    both(a_thousand, "gcverify=1");
}

/* A fiber that runs another fiber. */
static void run_another(struct fiber *self) {
    struct item *mine = list(self->seed, LENGTH);
    struct fiber *inner = fiber_new(one_list, self->seed + 5000);
    for (size_t i = 0; i < 20; i++) {
        resume_from(inner, self->registered);
        self->wrong |= !is_list(mine, self->seed, LENGTH);
        leave(self);
    }
    fiber_free(inner);
}

static int nested(void) {
    struct item *mine = list(77, LENGTH);
    struct fiber *f = fiber_new(run_another, 1);
    while (!f->over) {
        resume(f);
        must(is_list(mine, 77, LENGTH));
    }
    fiber_free(f);
    tern_shutdown();
    return 0;
}

static void a_fiber_may_run_another_one(void **state) {
    (void)state;
    both(nested, "gcstress=1,gcverify=1");
}

static int inside_a_frame(void) {
    struct item *mine = list(77, LENGTH);
    _Alignas(64) char stack[32 * 1024];
    struct fiber *f = (struct fiber *)stack;
    prepare(f, sizeof stack, lists_in_frames, 3);
    f->registered = tern_fiber_new(stack, sizeof stack);
    must(f->registered != NULL);
    while (!f->over) {
        resume(f);
        must(is_list(mine, 77, LENGTH));
    }
    must(!f->wrong);
    tern_fiber_free(f->registered);
    tern_shutdown();
    return 0;
}

static void a_fibers_stack_may_lie_in_a_threads_own(void **state) {
    (void)state;
    both(inside_a_frame, "gcstress=1,gcverify=1");
}

/* ---- other threads ---- */

static atomic_bool over;
static atomic_ulong collections;

static void *collect_all_the_time(void *unused) {
    (void)unused;
    while (!atomic_load(&over)) {
        tern_collect();
        collections++;
        scribble(20);
    }
    return NULL;
}

/* With a small stack: while it runs a fiber, all of it is scanned in each stop, and looked at by gcverify. */
static pthread_t start(void *(*function)(void *), void *argument) {
    pthread_t thread;
    pthread_attr_t attributes;
    must(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 256 * 1024) == 0);
    must(tern_pthread_create(&thread, &attributes, function, argument) == 0);
    pthread_attr_destroy(&attributes);
    return thread;
}

static void join(pthread_t thread) {
    tern_blocking_begin();
    pthread_join(thread, NULL);
    tern_blocking_end();
}

/* Changes its list at each turn: the first item becomes the last. The list is in registers and in this frame
 * only. */
static void turn_list(struct fiber *self) {
    struct item *first = list(self->seed, LENGTH), *last = first;
    while (last->next != NULL)
        last = last->next;
    for (;;) {
        uint64_t sum = 0;
        for (const struct item *at = first; at != NULL; at = at->next)
            sum += at->value - self->seed;
        self->wrong |= sum != LENGTH * (LENGTH - 1) / 2;
        struct item *next = first->next;
        tern_store(&first->next, NULL);
        tern_store(&last->next, first);
        last = first;
        first = next;
        if (self->count++ % 16 == 0) {
            /* A copy instead of the last one: what is new is only here, too. */
            struct item *copy = tern_alloc(sizeof *copy), *before = first;
            copy->value = last->value;
            while (before->next != last)
                before = before->next;
            tern_store(&before->next, copy);
            last = copy;
        }
        leave(self);
    }
}

static int switch_meanwhile(void) {
    pthread_t thread = start(collect_all_the_time, NULL);
    struct fiber *fibers[8];
    for (size_t i = 0; i < 8; i++)
        fibers[i] = fiber_new(turn_list, i << 32);
    unsigned long least = part_of(120);
    for (size_t n = 0; atomic_load(&collections) < least; n++)
        resume(fibers[n % 8]);
    atomic_store(&over, true);
    join(thread);
    for (size_t i = 0; i < 8; i++)
        fiber_free(fibers[i]);
    tern_shutdown();
    return 0;
}

static void a_thread_switches_while_another_one_collects_all_the_time(void **state) {
    (void)state;
    both(switch_meanwhile, "gcverify=1");
}

#define ROVERS  24
#define CARRIES 4
static pthread_mutex_t shelf_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fiber *shelf[ROVERS]; /* those that nobody runs; under shelf_lock */
static size_t shelf_count;

static struct fiber *take_from_shelf(uint64_t *random) {
    struct fiber *f = NULL;
    pthread_mutex_lock(&shelf_lock);
    if (shelf_count > 0) {
        size_t i = next_random(random) % shelf_count;
        f = shelf[i];
        shelf[i] = shelf[--shelf_count];
    }
    pthread_mutex_unlock(&shelf_lock);
    return f;
}

static void put_on_shelf(struct fiber *f) {
    pthread_mutex_lock(&shelf_lock);
    shelf[shelf_count++] = f;
    pthread_mutex_unlock(&shelf_lock);
}

static void *carry(void *argument) {
    uint64_t random = 1 + (uint64_t)(uintptr_t)argument;
    while (!atomic_load(&over)) {
        struct fiber *f = take_from_shelf(&random);
        if (f == NULL)
            continue;
        for (uint64_t n = next_random(&random) % 20; n > 0; n--)
            resume(f);
        put_on_shelf(f);
        /* Some go, and others come; what they put down is taken up by those. */
        if (next_random(&random) % 64 == 0)
            tern_thread_detach();
    }
    return NULL;
}

static int rove(void) {
    pthread_t threads[CARRIES];
    for (size_t i = 0; i < ROVERS; i++)
        put_on_shelf(fiber_new(i % 2 == 0 ? turn_list : one_list, i << 32));
    for (size_t i = 0; i < CARRIES; i++)
        threads[i] = start(carry, (void *)i);
    pthread_t collector = start(collect_all_the_time, NULL);
    tern_blocking_begin();
    while (atomic_load(&collections) < part_of(40))
        sched_yield();
    tern_blocking_end();
    atomic_store(&over, true);
    for (size_t i = 0; i < CARRIES; i++)
        join(threads[i]);
    join(collector);
    must(shelf_count == ROVERS);
    for (size_t i = 0; i < ROVERS; i++) {
        must(shelf[i]->count > 0);
        fiber_free(shelf[i]);
    }
    tern_shutdown();
    return 0;
}

static void fibers_go_from_thread_to_thread(void **state) {
    (void)state;
    both(rove, "gcverify=1");
}

/* Detaches its thread, and attaches it again by allocating. */
static void detach_inside(struct fiber *self) {
    struct item *mine = list(self->seed, LENGTH);
    for (;;) {
        tern_thread_detach();
        leave(self); /* announces, and attaches by that */
        self->wrong |= !is_list(mine, self->seed, LENGTH);
        self->count++;
    }
}

static struct fiber *handed;

static void *resume_and_end(void *unused) {
    (void)unused;
    for (size_t i = 0; i < 3; i++)
        resume(handed);
    return NULL;
}

static int threads_end(void) {
    handed = fiber_new(detach_inside, 1);
    for (size_t i = 0; i < 20; i++) {
        join(start(resume_and_end, NULL));
        tern_collect();
        scribble(100);
    }
    must(handed->count == 59);
    fiber_free(handed);
    tern_shutdown();
    return 0;
}

static void a_fiber_outlives_the_threads_that_ran_it(void **state) {
    (void)state;
    both(threads_end, "gcstress=1,gcverify=1");
}

/* The thread ends here, on the fiber. */
static void end_thread(struct fiber *self) {
    struct item *mine = list(self->seed, LENGTH);
    tern_collect();
    self->wrong |= !is_list(mine, self->seed, LENGTH);
    self->count++;
    pthread_exit(NULL);
}

static int end_on_a_fiber(void) {
    for (size_t i = 0; i < 20; i++) {
        handed = fiber_new(end_thread, i);
        join(start(resume_and_end, NULL));
        tern_collect();
        must(handed->count == 1);
        fiber_free(handed);
    }
    tern_stats s = stats();
    must(s.threads == 1);
    tern_shutdown();
    return 0;
}

static void a_thread_may_end_on_a_fiber(void **state) {
    (void)state;
    both(end_on_a_fiber, "gcverify=1");
}

/* ---- alternate signal stacks ---- */

static void wait_for_collections(int signal) {
    (void)signal;
    unsigned long until = atomic_load(&collections) + 2;
    while (atomic_load(&collections) < until)
        sched_yield();
}

static void be_interrupted(struct fiber *self) {
    for (;;) {
        struct item *a = list(self->seed, 1), *b = list(self->seed + 1, 1);
        pthread_kill(pthread_self(), SIGUSR1);
        self->wrong |= !is_list(a, self->seed, 1) || !is_list(b, self->seed + 1, 1);
        leave(self);
    }
}

static int interrupt(void) {
    static char memory[64 * 1024];
    stack_t alternate = {.ss_sp = memory, .ss_size = sizeof memory};
    struct sigaction action = {.sa_handler = wait_for_collections, .sa_flags = SA_ONSTACK};
    must(sigaltstack(&alternate, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    pthread_t thread = start(collect_all_the_time, NULL);
    struct fiber *f = fiber_new(be_interrupted, 1);
    struct item *mine = list(77, LENGTH);
    for (size_t i = 0; i < 10; i++) {
        resume(f);
        must(is_list(mine, 77, LENGTH));
    }
    atomic_store(&over, true);
    join(thread);
    fiber_free(f);
    tern_shutdown();
    return 0;
}

static void a_fiber_may_be_interrupted_by_a_handler_on_an_alternate_stack(void **state) {
    (void)state;
    both(interrupt, "gcverify=1");
}

/* ---- the end ---- */

#define WEAKS 200
static tern_weak **weaks;

static NOINLINE void weak_lists(struct item **into, uint64_t seed) {
    for (size_t i = 0; i < WEAKS; i++) {
        into[i] = list(seed + i, 1);
        weaks[i] = tern_weak_new(into[i]);
        must(weaks[i] != NULL);
    }
}

static void hold_many(struct fiber *self) {
    struct item *held[WEAKS];
    weak_lists(held, self->seed);
    leave(self);
    tern_keep(held);
    self->over = held[0]->value == self->seed;
}

static size_t weaks_there(void) {
    size_t n = 0;
    for (size_t i = 0; i < WEAKS; i++)
        n += tern_weak_get(weaks[i]) != NULL;
    return n;
}

static int free_and_unmap(void) {
    must(tern_root_add(&weaks, sizeof weaks) == 0);
    weaks = tern_alloc(WEAKS * sizeof *weaks);
    struct fiber *f = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(f != MAP_FAILED);
    prepare(f, STACK_BYTES, hold_many, 1);
    f->registered = tern_fiber_new(f, STACK_BYTES);
    resume(f);
    collect();
    collect();
    must(weaks_there() == WEAKS);
    tern_fiber_free(f->registered);
    must(munmap(f, STACK_BYTES) == 0);
    for (size_t i = 0; i < 3; i++)
        collect();
    must(weaks_there() <= WEAKS - NEARLY(WEAKS));
    tern_shutdown();
    return 0;
}

static void what_a_freed_fiber_held_dies_and_its_stack_is_not_read_again(void **state) {
    (void)state;
    both(free_and_unmap, "gcverify=1");
}

static int from_a_fork(void) {
    struct item *mine = list(77, LENGTH);
    struct fiber *fibers[4];
    for (size_t i = 0; i < 4; i++) {
        fibers[i] = fiber_new(one_list, i << 32);
        resume(fibers[i]);
    }
    pid_t child = fork();
    for (size_t i = 0; i < 20; i++) {
        resume(fibers[i % 4]);
        tern_collect();
        scribble(100);
        must(is_list(mine, 77, LENGTH));
    }
    for (size_t i = 0; i < 4; i++)
        fiber_free(fibers[i]);
    tern_shutdown();
    if (child == 0)
        _exit(0);
    int status = 1;
    must(waitpid(child, &status, 0) == child);
    return status;
}

/* The whole program goes on inside, twice. */
static void fork_inside(struct fiber *self) {
    (void)self;
    _exit(from_a_fork());
}

static int fork_on_a_fiber(void) {
    resume(fiber_new(fork_inside, 1));
    return 1;
}

static void fibers_run_on_in_both_processes_after_a_fork(void **state) {
    (void)state;
    const char *sanitizer = getenv("TERN_SANITIZE");
    if (sanitizer != NULL && strcmp(sanitizer, "address") == 0)
        skip(); /* AddressSanitizer's malloc does not survive one among threads */
    both(from_a_fork, "gcverify=1");
    both(fork_on_a_fiber, "gcverify=1");
}

static void shut_down_inside(struct fiber *self) {
    struct item *mine = list(self->seed, LENGTH);
    tern_collect();
    self->wrong |= !is_list(mine, self->seed, LENGTH);
    tern_shutdown();
    self->count = 1;
    swapcontext(&self->inside, &self->outside);
}

static int shut_down(void) {
    struct fiber *parked = fiber_new(one_list, 1), *f = fiber_new(shut_down_inside, 2);
    resume(parked);
    resume(f);
    must(f->count == 1 && !f->wrong && !parked->wrong);
    return 0;
}

static void the_library_may_be_shut_down_while_fibers_are_parked_and_by_one(void **state) {
    (void)state;
    both(shut_down, "gcverify=1");
}

/* ---- errors ---- */

static int bad_ranges(void) {
    static char stack[8192];
    errno = 0;
    must(tern_fiber_new(NULL, 4096) == NULL && errno == EINVAL);
    errno = 0;
    must(tern_fiber_new(stack, 0) == NULL && errno == EINVAL);
    errno = 0;
    must(tern_fiber_new(stack + 1, 8) == NULL && errno == EINVAL); /* no whole word */
    errno = 0;
    must(tern_fiber_new(stack, SIZE_MAX) == NULL && errno == EINVAL);
    tern_fiber *one = tern_fiber_new(stack + 1024, 4096);
    must(one != NULL);
    static const size_t from[] = {0, 1024, 2048, 4096, 1024, 0}, bytes[] = {1032, 4096, 8, 4096, 8, 8192};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        errno = 0;
        must(tern_fiber_new(stack + from[i], bytes[i]) == NULL && errno == EINVAL);
    }
    tern_fiber *before = tern_fiber_new(stack, 1024), *after = tern_fiber_new(stack + 5120, 1024);
    must(before != NULL && after != NULL);
    tern_collect();
    tern_fiber_free(one);
    tern_fiber_free(NULL);
    must((one = tern_fiber_new(stack + 1024, 4096)) != NULL);
    tern_fiber_free(before);
    tern_fiber_free(one);
    tern_fiber_free(after);
    tern_collect();
    tern_shutdown();
    return 0;
}

static void ranges_that_are_none_or_overlap_are_refused(void **state) {
    (void)state;
    both(bad_ranges, "gcverify=1");
}

static void collect_once(struct fiber *self) {
    tern_collect();
    leave(self);
}

static int not_registered(void) {
    struct fiber *f = aligned_alloc(4096, STACK_BYTES);
    must(f != NULL);
    prepare(f, STACK_BYTES, collect_once, 0);
    swapcontext(&f->outside, &f->inside);
    return 0;
}

static atomic_bool is_there;

static void stay(struct fiber *self) {
    (void)self;
    for (;;)
        atomic_store(&is_there, true);
}

static int freed_while_it_runs(void) {
    handed = fiber_new(stay, 0);
    start(resume_and_end, NULL);
    while (!atomic_load(&is_there))
        sched_yield();
    tern_fiber_free(handed->registered);
    tern_collect();
    return 0;
}

static void a_stop_on_a_stack_that_is_not_registered_says_so(void **state) {
    (void)state;
    all_abort(not_registered, "tern: misuse: a thread was stopped on a stack that the library does not know");
    all_abort(freed_while_it_runs, "Register the stack with tern_fiber_new before it runs");
}

static void free_itself(struct fiber *self) {
    tern_fiber_free(self->registered);
}

static int freed_by_itself(void) {
    resume(fiber_new(free_itself, 0));
    return 0;
}

static int freed_twice(void) {
    tern_fiber *one = fiber_new(one_list, 0)->registered;
    tern_fiber_free(one);
    tern_fiber_free(one);
    return 0;
}

static void a_fiber_that_is_freed_wrongly_stops_the_program(void **state) {
    (void)state;
    all_abort(freed_by_itself, "tern: misuse: a fiber was unregistered by code that runs on it");
    all_abort(freed_twice, "tern: misuse: a fiber was unregistered that is not registered");
}

/* An argument is a filter of test names. */
int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_parked_fibers_hold_survives_a_collection_at_every_slow_path),
        cmocka_unit_test(what_the_thread_holds_survives_while_it_runs_a_fiber),
        cmocka_unit_test(a_thousand_fibers_come_and_go),
        cmocka_unit_test(a_fiber_may_run_another_one),
        cmocka_unit_test(a_fibers_stack_may_lie_in_a_threads_own),
        cmocka_unit_test(a_thread_switches_while_another_one_collects_all_the_time),
        cmocka_unit_test(fibers_go_from_thread_to_thread),
        cmocka_unit_test(a_fiber_outlives_the_threads_that_ran_it),
        cmocka_unit_test(a_thread_may_end_on_a_fiber),
        cmocka_unit_test(a_fiber_may_be_interrupted_by_a_handler_on_an_alternate_stack),
        cmocka_unit_test(what_a_freed_fiber_held_dies_and_its_stack_is_not_read_again),
        cmocka_unit_test(fibers_run_on_in_both_processes_after_a_fork),
        cmocka_unit_test(the_library_may_be_shut_down_while_fibers_are_parked_and_by_one),
        cmocka_unit_test(ranges_that_are_none_or_overlap_are_refused),
        cmocka_unit_test(a_stop_on_a_stack_that_is_not_registered_says_so),
        cmocka_unit_test(a_fiber_that_is_freed_wrongly_stops_the_program),
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
