/*
 * gcverify catches a collector that is wrong on purpose. Each fault of gc/fault.h is planted in a child of
 * its own that runs a program in which the fault matters; the child must be stopped by the verifier, with its
 * line. The same programs pass without a fault, so what stops them is the fault.
 *
 * ctest: timeout=120 lanes=none
 * (Sanitizers and cooperative stops change which registers hold what at a stop; the faults are the same
 * there.)
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <tern/tern.h>

#include "gc/fault.h"

#define HIDE(p) ((uintptr_t)(p) ^ UINT64_C(0x5555555555555555))

struct node {
    struct node *left, *right;
};

static struct node *tree(int depth) {
    struct node *n = tern_alloc(sizeof *n);
    if (depth > 0) {
        tern_store(&n->left, tree(depth - 1));
        tern_store(&n->right, tree(depth - 1));
    }
    return n;
}

/* Objects that lead on by their last word alone: too many for stale words of the stack to hold them all. */
static __attribute__((noinline)) void **chain(const tern_type *type, size_t last) {
    void **newest = NULL;
    for (int i = 0; i < 200; i++) {
        void **object = type != NULL ? tern_alloc_typed(type, 1) : tern_alloc((last + 1) * sizeof *object);
        tern_store(&object[last], newest);
        newest = object;
    }
    return newest;
}

static void last_word(void) {
    void **newest = chain(NULL, 7);
    for (int i = 0; i < 3; i++)
        tern_collect();
    tern_keep(newest);
}

static void last_typed_word(void) {
    static const uint64_t bitmap[1] = {1u << 6};
    const tern_type *type = tern_type_new("last", 56, bitmap);
    void **newest = chain(type, 6);
    for (int i = 0; i < 3; i++)
        tern_collect();
    tern_keep(newest);
}

/* Masks are open in several classes at every collection. */
static void open_masks(void) {
    for (int i = 0; i < 20; i++) {
        for (size_t size = 16; size < 512; size += 48)
            tern_keep(tern_alloc(size));
        tern_collect();
    }
}

static void tiny_block(void) {
    for (int i = 0; i < 20; i++) {
        tern_keep(tern_alloc_leaf(3));
        tern_collect();
    }
}

/* One thread holds an object in a vector register and nowhere else while another collects. */
static _Atomic int stage;

static __attribute__((noinline)) uintptr_t hidden_object(void) {
    return HIDE(tern_alloc(64));
}

/* What calls left below the stack pointer, where the red zone is looked at. */
static __attribute__((noinline)) void wipe_stack(void) {
    volatile char below[2048];
    for (size_t i = 0; i < sizeof below; i++)
        below[i] = 0;
}

static void *hold_in_vector_register(void *unused) {
    (void)unused;
    uintptr_t hidden = hidden_object();
    uintptr_t mask = HIDE(0);
    wipe_stack();
    /* The pointer is made in the vector register; the general registers only ever hold its hidden form. */
    __asm__ volatile("movq %0, %%xmm15\n\t"
                     "movq %1, %%xmm14\n\t"
                     "pxor %%xmm14, %%xmm15\n\t"
                     "xorl %%eax, %%eax\n\txorl %%ecx, %%ecx\n\txorl %%edx, %%edx\n\t"
                     "xorl %%esi, %%esi\n\txorl %%edi, %%edi\n\txorl %%r8d, %%r8d\n\t"
                     "xorl %%r9d, %%r9d\n\txorl %%r10d, %%r10d\n\txorl %%r11d, %%r11d\n\t"
                     "movl $1, %2\n"
                     "1:\n\t"
                     "pause\n\t"
                     "cmpl $2, %2\n\t"
                     "jne 1b\n\t"
                     "pxor %%xmm15, %%xmm15"
                     :
                     : "b"(hidden), "r"(mask), "m"(stage)
                     : "xmm14", "xmm15", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
                       "memory", "cc");
    return NULL;
}

static void vector_register(void) {
    pthread_t thread;
    stage = 0;
    tern_pthread_create(&thread, NULL, hold_in_vector_register, NULL);
    while (stage != 1)
        tern_poll();
    for (int i = 0; i < 5; i++)
        tern_collect();
    stage = 2;
    tern_blocking_begin();
    pthread_join(thread, NULL);
    tern_blocking_end();
}

/* 16 MiB live, so that helpers mark too and take from each other. */
static void stolen_work(void) {
    struct node *keep = tree(19);
    for (int i = 0; i < 10; i++)
        tern_collect();
    tern_keep(keep);
}

static void large_tail(void) {
    char *large = tern_alloc_leaf(100000);
    for (int i = 0; i < 3; i++)
        tern_collect();
    tern_keep(large);
}

/* ---- with marking beside the program ---- */

#define CARDS 100000

static void **new_deck(void) {
    void **deck = tern_alloc_array(CARDS, sizeof *deck);
    for (size_t i = 0; i < CARDS; i++)
        tern_store(&deck[i], tern_alloc(16));
    return deck;
}

static uint64_t cycles(void) {
    tern_stats s;
    s.size = sizeof s;
    tern_stats_read(&s);
    return s.collections;
}

/* Cards move between what the marker has looked at and what it has not. */
static void shuffle(void) {
    void **deck = new_deck();
    uint64_t random = 1;
    for (uint64_t until = cycles() + 12; cycles() < until;) {
        for (int i = 0; i < 1000; i++) {
            random = random * UINT64_C(6364136223846793005) + 1;
            size_t a = (random >> 33) % CARDS, b = (random >> 13) % CARDS;
            void *card = deck[a];
            tern_store(&deck[a], deck[b]);
            tern_store(&deck[b], card);
        }
        for (int i = 0; i < 100; i++)
            tern_keep(tern_alloc(100));
    }
    tern_keep(deck);
}

/* What the other half of the barrier would catch is stored past it: first stores into new objects may be plain. */
static void fill_new_objects(size_t size) {
    void **deck = new_deck();
    uint64_t until = cycles() + 12;
    for (size_t i = 0; cycles() < until; i++) {
        void **holder = tern_alloc(32);
        holder[1] = tern_alloc(size);
        tern_store(&deck[i % 50], holder);
    }
    tern_keep(deck);
}

static void small_objects(void) {
    fill_new_objects(48);
}
static void large_objects(void) {
    fill_new_objects(40000);
}

struct plan {
    const char *name;
    enum fault fault;
    void (*program)(void);
    int stores;
};

static const struct plan plans[] = {
    {"the last word of an object is not scanned", FAULT_LAST_WORD_NOT_SCANNED, last_word, TERN_STORES_PLAIN},
    {"the last word of a typed object is not scanned", FAULT_LAST_WORD_NOT_SCANNED, last_typed_word,
     TERN_STORES_PLAIN},
    {"an open mask's rest is not blackened", FAULT_OPEN_MASK_NOT_BLACKENED, open_masks, TERN_STORES_PLAIN},
    {"an open tiny block is left white", FAULT_TINY_BLOCK_LEFT_WHITE, tiny_block, TERN_STORES_PLAIN},
    {"a saved vector register is not scanned", FAULT_VECTOR_REGISTER_UNSCANNED, vector_register,
     TERN_STORES_PLAIN},
    {"a page is swept while its mask is held", FAULT_SWEEP_HELD_PAGE, open_masks, TERN_STORES_PLAIN},
    {"half of a stolen mark stack is dropped", FAULT_DROP_HALF_STOLEN, stolen_work, TERN_STORES_PLAIN},
    {"a tail page of a large object is freed early", FAULT_LARGE_TAIL_FREED, large_tail, TERN_STORES_PLAIN},
    {"tern_store records nothing", FAULT_PLAIN_STORE, shuffle, TERN_STORES_BARRIER},
    {"what the barrier recorded is thrown away", FAULT_RECORDS_UNREAD, shuffle, TERN_STORES_BARRIER},
    {"slots that are taken while marking are white", FAULT_WHITE_ALLOCATION, small_objects,
     TERN_STORES_BARRIER},
    {"large objects allocated while marking are white", FAULT_WHITE_LARGE, large_objects,
     TERN_STORES_BARRIER},
    {"the last word of an object is not scanned, beside the program", FAULT_LAST_WORD_NOT_SCANNED, last_word,
     TERN_STORES_BARRIER},
    {"half of a stolen mark stack is dropped, beside the program", FAULT_DROP_HALF_STOLEN, stolen_work,
     TERN_STORES_BARRIER},
};

/* Runs the program in a child with the fault planted; its standard error goes to `text`. Returns its wait
 * status. */
static int run(const struct plan *plan, enum fault fault, char *text, size_t size) {
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(pipes[1], 2);
        close(pipes[0]);
        close(pipes[1]);
        setenv("TERN_GODEBUG", "gcverify=1,markers=2", 1);
        fault_planted = fault;
        tern_options options;
        tern_options_init(&options);
        options.stores = plan->stores;
        if (tern_init(&options) != 0)
            _exit(10);
        plan->program();
        _exit(0);
    }
    close(pipes[1]);
    size_t length = 0;
    ssize_t n;
    while ((n = read(pipes[0], text + length, size - 1 - length)) > 0)
        length += (size_t)n;
    text[length] = '\0';
    close(pipes[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void the_verifier_stops_a_collector_that_is_wrong(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        char text[4096] = "";
        int status = 0;
        /* On a busy machine the second marker may come when there is nothing left to steal. */
        int most = plans[i].fault == FAULT_DROP_HALF_STOLEN ? 10 : 1;
        for (int times = 0; times < most && text[0] == '\0'; times++)
            status = run(&plans[i], plans[i].fault, text, sizeof text);
        print_message("%s:\n  %s", plans[i].name, text[0] != '\0' ? text : "(nothing)\n");
        assert_non_null(strstr(text, "tern: gcverify: "));
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGABRT);
    }
}

static void the_same_programs_pass_when_nothing_is_wrong(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        char text[4096];
        int status = run(&plans[i], FAULT_NONE, text, sizeof text);
        assert_string_equal(text, "");
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verifier_stops_a_collector_that_is_wrong),
        cmocka_unit_test(the_same_programs_pass_when_nothing_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
