/*
 * Fibers, from inside: a stop comes at any instruction of a switch (rule S5), and what a cycle has seen of a
 * fiber it does not look at again, unless the fiber may have run since.
 *
 * A switch is stepped there and back (single_step.h), with a whole collection under gcverify after each
 * instruction. swapcontext loads the stack pointer before the registers: in between, what these held stands
 * in the ucontext_t alone, which lies below the stack pointer, at the lower end of the registered range.
 *
 * Seen to fail:
 *
 * - a fiber that runs scanned from its stack pointer only, by the collector and by gcverify (as it
 *   was at first): "switch to a fiber and back: the parked fiber's object is not there"
 *
 * - the same by the collector alone: gcverify, "... is reachable but was not marked; a fiber's
 *   stack of thread ...", instruction 52 of the switch; and in the second test "a switch: the
 *   object is not there any more"
 *
 * - fiber_switch that writes seen_in before fiber_lo; fiber_each that does not look at fiber_lo: "a
 *   fiber: it counts as seen, and is about to run"
 *
 * - fiber_each that visits what it has seen: "0x3 != 0" in the last test
 *
 * - fiber_free that leaves the fiber in the list: a segmentation fault in the second test
 *
 * ctest: lanes=none
 * (AddressSanitizer steps into its own swapcontext, ThreadSanitizer delays signals; neither knows the
 * stacks.)
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

static struct side *side_new(void (*body)(void)) {
    char *stack = aligned_alloc(64, STACK_BYTES);
    struct side *s = (struct side *)stack;
    if (stack == NULL || getcontext(&s->inside) != 0)
        abort();
    s->fiber = tern_fiber_new(stack, STACK_BYTES);
    must(s->fiber != NULL, "side_new", "no fiber");
    s->inside.uc_stack.ss_sp = stack + sizeof *s;
    s->inside.uc_stack.ss_size = STACK_BYTES - sizeof *s;
    makecontext(&s->inside, body, 0);
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

static const struct operation switching = {
    "switch to a fiber and back", there_and_back, 48, KIND_WORDS, ANY, false, 0, false};

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
    side = side_new(run);
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
        must(tern_object_find((void *)~hidden, NULL), switching.name,
             "the parked fiber's object is not there");
        must(holds((unsigned char *)~hidden, 64, of_fiber), switching.name,
             "the fiber's object was overwritten");
    }
    end();
    side_free(side);
}

static void collect_inside(void) {
    for (;;) {
        tern_collect();
        tern_collect();
        swapcontext(&side->inside, &side->outside);
    }
}

/* They lie in the ucontext_t at the lower end, below the stack pointer of the fiber, which itself collects.
 */
static void registers_of_who_switched_to_a_fiber_are_roots_while_it_runs(void **state) {
    (void)state;
    side = side_new(collect_inside);
    there_and_back(NULL);
    for (unsigned round = 0; round < 10; round++) {
        uint64_t seed = new_seed();
        take_from(48, seed);
        clear_below();
        struct kept *k = keep("a switch", there_and_back(NULL), 48);
        k->seed = seed;
        check_kept();
    }
    side_free(side);
}

/* ---- what a cycle has seen ---- */

static tern_fiber *about_to_run;
static struct {
    uint64_t at;
    bool there;
} start;

static bool start_a_cycle(void) {
    if (step.instructions < start.at)
        return true;
    start.there = true;
    if (!wait_for(ask_for(REQUEST_START), GIVE_UP_NS)) {
        say_where("no stop within 20 s");
        abort();
    }
    step.waited++;
    return false;
}

static void *announce(const struct operation *op) {
    (void)op;
    tern_fiber_switch(about_to_run);
    return NULL;
}

/* The cycle's first stop comes at each instruction of the announcement; its second one finds that the fiber
 * may have run. */
static void what_is_about_to_run_was_not_seen_wherever_the_announcement_is_stopped(void **state) {
    (void)state;
    static char stack[4096];
    about_to_run = tern_fiber_new(stack, sizeof stack);
    const struct fiber *fiber = (const struct fiber *)about_to_run;
    assert_non_null(fiber);
    begin("tern_fiber_switch");
    for (start.at = 0, start.there = true; start.there; start.at++) {
        tern_fiber_switch(NULL);
        step.visit = start_a_cycle;
        start.there = false;
        stepped(announce, NULL);
        if (!start.there)
            break;
        must(fiber->seen_in != heap_epoch(), "a fiber", "it counts as seen, and is about to run");
        if (!wait_for(ask_for(REQUEST_END), GIVE_UP_NS))
            fail_msg("no end of the cycle within 20 s");
    }
    end();
    tern_fiber_switch(NULL);
    tern_fiber_free(about_to_run);
}

static size_t looks;

static void count(void *context, const void *from, size_t words) {
    (void)context;
    (void)from;
    (void)words;
    looks++;
}

static void look(void *unused) {
    (void)unused;
    looks = 0;
    assert_int_equal(fiber_each(count, NULL), 3 * 4096);
}

/* As a stop of a cycle would. */
static size_t looked_at(void) {
    cycle_stopped(mutator_self, look, NULL);
    return looks;
}

static void a_parked_fiber_is_looked_at_once_a_cycle_and_again_when_it_may_have_run(void **state) {
    (void)state;
    static char stacks[3][4096];
    tern_fiber *three[3];
    for (size_t i = 0; i < 3; i++)
        three[i] = tern_fiber_new(stacks[i], sizeof stacks[i]);
    tern_collect();
    assert_int_equal(looked_at(), 3);
    assert_int_equal(looked_at(), 0);
    tern_fiber_switch(three[1]);
    assert_int_equal(looked_at(), 1); /* it may run from now on */
    assert_int_equal(looked_at(), 1);
    tern_fiber_switch(NULL);
    assert_int_equal(looked_at(), 1); /* it ran until now, for all that is known */
    assert_int_equal(looked_at(), 0);
    tern_collect();
    assert_int_equal(looked_at(), 3);
    for (size_t i = 0; i < 3; i++)
        tern_fiber_free(three[i]);
}

/* An argument is a filter of test names. */
int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registers_are_roots_at_each_instruction_of_a_switch),
        cmocka_unit_test(registers_of_who_switched_to_a_fiber_are_roots_while_it_runs),
        cmocka_unit_test(what_is_about_to_run_was_not_seen_wherever_the_announcement_is_stopped),
        cmocka_unit_test(a_parked_fiber_is_looked_at_once_a_cycle_and_again_when_it_may_have_run),
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
