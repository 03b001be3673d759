/*
 * Fibers, from inside: a stop comes at any instruction of a switch (rule S5), and what a cycle has seen of a fiber it
 * does not look at again, unless the fiber may have run since.
 *
 * A switch is stepped there and back (single_step.h), with a whole collection under gcverify after each instruction.
 * swapcontext loads the stack pointer before the registers: in between, what these held stands in the ucontext_t
 * alone, which lies below the stack pointer, at the lower end of the registered range.
 *
 * Seen to fail:
 *   - roots_each that scans the fiber under an interrupted thread from the stack pointer only (as it was at first): SEEN1
 *
 * ctest: lanes=none
 * (AddressSanitizer steps into its own swapcontext, ThreadSanitizer delays signals; neither knows the stacks.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#if !defined(__x86_64__)
int main(void) {
    puts("skipped: the trap flag is x86_64's");
    return 77;
}
#else

#include <ucontext.h>

#include "gc/fiber.h"
#include "gc/heap.h"
#include "single_step_objects.h"

#define STACK_BYTES (256 * 1024)

/* At the lower end of its own stack, which is registered. */
struct side {
    ucontext_t inside, outside;
    tern_fiber *fiber;
};

static void *given; /* a root: what the fiber takes when it starts */
/* Its address, hidden; read anew each time, lest the compiler keep it in a frame the other way round. */
static volatile uintptr_t hidden;

/* Switches while the object is in r12 and nowhere else; it is given back from there after the return. */
static NOINLINE void *switch_holding(ucontext_t *from, const ucontext_t *to, void *object) {
    register void *held __asm__("r12") = object;
    register int (*swap)(ucontext_t *, const ucontext_t *) __asm__("rax") = swapcontext;
    register ucontext_t *save __asm__("rdi") = from;
    register const ucontext_t *load __asm__("rsi") = to;
    __asm__ volatile("movq %%rsp, %%r13\n\t"
                     "leaq -128(%%rsp), %%rsp\n\t"
                     "andq $-16, %%rsp\n\t"
                     "xorl %%edx, %%edx\n\t"
                     "call *%%rax\n\t"
                     "movq %%r13, %%rsp"
                     : "+r"(held), "+r"(swap), "+r"(save), "+r"(load)
                     :
                     : "rcx", "rdx", "r8", "r9", "r10", "r11", "r13", "memory", "cc");
    return held;
}

static struct side *side;

/* Parked, it holds its object in r12 only. */
static void run(void) {
    void *object = given;
    given = NULL;
    for (;;)
        object = switch_holding(&side->inside, &side->outside, object);
}

static struct side *side_new(void) {
    char *stack = aligned_alloc(64, STACK_BYTES);
    struct side *s = (struct side *)stack;
    if (stack == NULL || getcontext(&s->inside) != 0)
        abort();
    s->fiber = tern_fiber_new(stack, STACK_BYTES);
    must(s->fiber != NULL, "side_new", "no fiber");
    s->inside.uc_stack.ss_sp = stack + sizeof *s;
    s->inside.uc_stack.ss_size = STACK_BYTES - sizeof *s;
    makecontext(&s->inside, run, 0);
    return s;
}

static void side_free(struct side *s) {
    tern_fiber_free(s->fiber);
    free(s);
}

static void *there_and_back(const struct operation *op) {
    (void)op;
    return switch_holding(&side->outside, &side->inside, take());
}

static const struct operation switching = {"switch to a fiber and back", there_and_back, 48, KIND_WORDS, ANY,
                                           false, 0, false};

/* What calls and signals left below the two stacks' pointers holds the objects, too. */
static NOINLINE void clear_below(void) {
    char *low = (char *)(side + 1), *high = (char *)side->inside.uc_mcontext.gregs[REG_RSP];
    memset(low, 0, (size_t)(high - low));
    char bytes[32 * 1024];
    memset(bytes, 0, sizeof bytes);
    __asm__ volatile("" : : "r"(bytes) : "memory");
}

static NOINLINE void give(size_t bytes, uint64_t seed) {
    given = tern_alloc(bytes);
    fill(given, bytes, seed);
    hidden = ~(uintptr_t)given;
}

static NOINLINE void take_from(size_t bytes, uint64_t seed) {
    taken = tern_alloc(bytes);
    fill(taken, bytes, seed);
}

static void registers_are_roots_at_each_instruction_of_a_switch(void **state) {
    (void)state;
    side = side_new();
    uint64_t of_fiber = new_seed();
    give(64, of_fiber);
    there_and_back(NULL); /* the fiber has taken its object, and is parked */
    begin(switching.name);
    for (unsigned round = 0; round < rounds_wanted(); round++) {
        uint64_t seed = new_seed();
        take_from(48, seed);
        clear_below();
        struct kept *k = keep(switching.name, stepped(switching.call, &switching), 48);
        k->seed = seed;
        check_kept();
        must(tern_object_find((void *)~hidden, NULL), switching.name, "the parked fiber's object is not there");
        must(holds((unsigned char *)~hidden, 64, of_fiber), switching.name, "the fiber's object was overwritten");
    }
    end();
    side_free(side);
}

/* An argument is a filter of test names. */
int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registers_are_roots_at_each_instruction_of_a_switch),
    };
    pthread_t thread = single_step_start(TERN_STORES_BARRIER);
    if (tern_root_add(&given, sizeof given) != 0)
        return 1;
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    single_step_end(thread);
    return failures;
}

#endif
