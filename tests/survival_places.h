/*
 * For api_survival.c: objects whose contents tell whether they were lost, and threads that hold one in a
 * single place (a register, an alternate signal stack) while another thread collects. Public API only;
 * assembly for x86_64, and elsewhere the scenarios that need it have nothing to say.
 */
#ifndef TESTS_SURVIVAL_PLACES_H
#define TESTS_SURVIVAL_PLACES_H

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "garbage.h"

static inline bool under_thread_sanitizer(void) {
#if defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

/* 64 KiB, or what the system asks for at least (wide vector registers, sanitizers). */
static inline size_t small_stack_bytes(void) {
    size_t least = (size_t)PTHREAD_STACK_MIN;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    least += 256 * 1024;
#endif
    return least > 65536 ? least : 65536;
}

static inline void join(pthread_t thread) {
    tern_blocking_begin();
    pthread_join(thread, NULL);
    tern_blocking_end();
}

/* ---- objects ---- */

#define PAIR_MAGIC UINT64_C(0x1122334455667788)

/* An object of `size` bytes, filled, whose first word alone leads to a second one. */
static NOINLINE void *new_pair(size_t size) {
    uint64_t *first = tern_alloc(size);
    uint64_t *second = tern_alloc(64);
    for (size_t i = 0; i < 8; i++)
        second[i] = PAIR_MAGIC + i;
    for (size_t i = 1; i < size / 8; i++)
        first[i] = PAIR_MAGIC - i;
    tern_store(first, second);
    return first;
}

static NOINLINE uintptr_t new_hidden_pair(void) {
    return ~(uintptr_t)new_pair(64);
}

static NOINLINE bool pair_is_whole(uintptr_t hidden, size_t size) {
    const uint64_t *first = (const uint64_t *)~hidden;
    if (!tern_object_find(first, NULL))
        return false;
    for (size_t i = 1; i < size / 8; i++)
        if (first[i] != PAIR_MAGIC - i)
            return false;
    const uint64_t *second = *(const uint64_t *const *)first;
    for (size_t i = 0; i < 8; i++)
        if (second[i] != PAIR_MAGIC + i)
            return false;
    return true;
}

/* Several collections; what they free is taken again and overwritten. */
static NOINLINE void collect_and_churn(void) {
    for (int round = 0; round < 3; round++) {
        collect();
        for (int i = 0; i < 200; i++)
            memset(tern_alloc(i % 3 == 0 ? 64 : 100), 0xee, 64);
    }
}

/* ---- threads that hold ---- */

struct baton {
    _Atomic int held, let_go; /* seq_cst; 1 once the thread holds the object, and once it may stop */
};

/* Makes the pointers out of their hidden forms in one place alone, holds them until let go, hides them again.
 */
typedef void hold_function(uintptr_t *hidden, struct baton *baton);

#define HIDDEN_MOST 6

struct holder {
    hold_function *hold;
    size_t count; /* of objects */
    struct baton baton;
    int result;
};

static void *hold_in_thread(void *argument) {
    struct holder *h = argument;
    uintptr_t hidden[HIDDEN_MOST];
    for (size_t i = 0; i < HIDDEN_MOST; i++)
        hidden[i] = i < h->count ? new_hidden_pair() : ~(uintptr_t)0;
    clear_stack();
    h->hold(hidden, &h->baton);
    for (size_t i = 0; i < h->count; i++)
        h->result += !pair_is_whole(hidden[i], 64);
    return NULL;
}

/* Starts a thread that holds, collects while it does; how many objects were lost. */
static int held_object_survives(hold_function *hold, size_t count) {
    struct holder h = {.hold = hold, .count = count};
    pthread_t thread;
    if (tern_pthread_create(&thread, NULL, hold_in_thread, &h) != 0)
        return 10;
    while (!h.baton.held)
        tern_poll();
    collect_and_churn();
    h.baton.let_go = 1;
    join(thread);
    return h.result;
}

#if defined(__x86_64__)

#define WAIT_IN_ASSEMBLY       \
    "movl $1, (%[held])\n"     \
    "1:\n\t"                   \
    "pause\n\t"                \
    "cmpl $0, (%[let_go])\n\t" \
    "je 1b\n\t"

/* The pointer is made in the register and nowhere else. */
#define HOLD_IN_GENERAL_REGISTER(name)                                                                  \
    static NOINLINE void hold_in_##name(uintptr_t *hidden, struct baton *baton) {                       \
        __asm__ volatile("movq (%[hidden]), %%" #name "\n\t"                                            \
                         "notq %%" #name "\n\t" WAIT_IN_ASSEMBLY "notq %%" #name "\n\t"                 \
                         "movq %%" #name ", (%[hidden])"                                                \
                         :                                                                              \
                         : [hidden] "r"(hidden), [held] "r"(&baton->held), [let_go] "r"(&baton->let_go) \
                         : #name, "memory", "cc");                                                      \
    }

HOLD_IN_GENERAL_REGISTER(rax)
HOLD_IN_GENERAL_REGISTER(rbx)
HOLD_IN_GENERAL_REGISTER(rcx)
HOLD_IN_GENERAL_REGISTER(rdi)
HOLD_IN_GENERAL_REGISTER(r8)
HOLD_IN_GENERAL_REGISTER(r12)
HOLD_IN_GENERAL_REGISTER(r15)

static int general_registers(void) {
    return held_object_survives(hold_in_rax, 1) + held_object_survives(hold_in_rbx, 1) +
           held_object_survives(hold_in_rcx, 1) + held_object_survives(hold_in_rdi, 1) +
           held_object_survives(hold_in_r8, 1) + held_object_survives(hold_in_r12, 1) +
           held_object_survives(hold_in_r15, 1);
}

/* Low half of an SSE register. */
static NOINLINE void hold_in_xmm(uintptr_t *hidden, struct baton *baton) {
    __asm__ volatile("movq (%[hidden]), %%xmm9\n\t"
                     "pcmpeqd %%xmm10, %%xmm10\n\t"
                     "pxor %%xmm10, %%xmm9\n\t" WAIT_IN_ASSEMBLY "pxor %%xmm10, %%xmm9\n\t"
                     "movq %%xmm9, (%[hidden])"
                     :
                     : [hidden] "r"(hidden), [held] "r"(&baton->held), [let_go] "r"(&baton->let_go)
                     : "xmm9", "xmm10", "memory", "cc");
}

/* Upper lane of an AVX register. */
static NOINLINE void hold_in_ymm(uintptr_t *hidden, struct baton *baton) {
    __asm__ volatile("vmovq (%[hidden]), %%xmm9\n\t"
                     "vpcmpeqd %%xmm10, %%xmm10, %%xmm10\n\t"
                     "vpxor %%xmm10, %%xmm9, %%xmm9\n\t"
                     "vpxor %%xmm11, %%xmm11, %%xmm11\n\t"
                     "vinserti128 $1, %%xmm9, %%ymm11, %%ymm11\n\t"
                     "vpxor %%xmm9, %%xmm9, %%xmm9\n\t" WAIT_IN_ASSEMBLY
                     "vextracti128 $1, %%ymm11, %%xmm9\n\t"
                     "vpxor %%xmm10, %%xmm9, %%xmm9\n\t"
                     "vmovq %%xmm9, (%[hidden])\n\t"
                     "vzeroupper"
                     :
                     : [hidden] "r"(hidden), [held] "r"(&baton->held), [let_go] "r"(&baton->let_go)
                     : "xmm9", "xmm10", "xmm11", "memory", "cc");
}

/* Uppermost lane of one of the registers that AVX-512 added; the compiler does not use it here. */
static NOINLINE void hold_in_zmm(uintptr_t *hidden, struct baton *baton) {
    __asm__ volatile("vmovq (%[hidden]), %%xmm9\n\t"
                     "vpcmpeqd %%xmm10, %%xmm10, %%xmm10\n\t"
                     "vpxor %%xmm10, %%xmm9, %%xmm9\n\t"
                     "vpxorq %%zmm20, %%zmm20, %%zmm20\n\t"
                     "vinserti32x4 $3, %%xmm9, %%zmm20, %%zmm20\n\t"
                     "vpxor %%xmm9, %%xmm9, %%xmm9\n\t" WAIT_IN_ASSEMBLY
                     "vextracti32x4 $3, %%zmm20, %%xmm9\n\t"
                     "vpxorq %%zmm20, %%zmm20, %%zmm20\n\t"
                     "vpxor %%xmm10, %%xmm9, %%xmm9\n\t"
                     "vmovq %%xmm9, (%[hidden])\n\t"
                     "vzeroupper"
                     :
                     : [hidden] "r"(hidden), [held] "r"(&baton->held), [let_go] "r"(&baton->let_go)
                     : "xmm9", "xmm10", "memory", "cc");
}

static int vector_registers(void) {
    int lost = held_object_survives(hold_in_xmm, 1);
    if (__builtin_cpu_supports("avx2"))
        lost += held_object_survives(hold_in_ymm, 1);
    if (__builtin_cpu_supports("avx512f"))
        lost += held_object_survives(hold_in_zmm, 1);
    return lost;
}

/*
 * Six objects, each in one of the registers that a call preserves. Once the section has begun, what calls
 * left below the stack pointer is overwritten: the registers themselves are all that is left.
 */
void hold_while_blocked(uintptr_t *hidden, struct baton *baton);
__asm__(".text\n"
        ".type hold_while_blocked, @function\n"
        "hold_while_blocked:\n\t"
        "pushq %rbx\n\tpushq %rbp\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
        "subq $24, %rsp\n\t"
        "movq %rdi, (%rsp)\n\tmovq %rsi, 8(%rsp)\n\t"
        "movq (%rdi), %rbx\n\tmovq 8(%rdi), %rbp\n\tmovq 16(%rdi), %r12\n\t"
        "movq 24(%rdi), %r13\n\tmovq 32(%rdi), %r14\n\tmovq 40(%rdi), %r15\n\t"
        "notq %rbx\n\tnotq %rbp\n\tnotq %r12\n\tnotq %r13\n\tnotq %r14\n\tnotq %r15\n\t"
        "call tern_blocking_begin@PLT\n\t"
        "movl $512, %ecx\n"
        "1:\n\t"
        "movq %rcx, %rax\n\tnegq %rax\n\t"
        "movq $0, (%rsp,%rax,8)\n\t"
        "decl %ecx\n\t"
        "jne 1b\n\t"
        "movq 8(%rsp), %rsi\n\t"
        "movl $1, (%rsi)\n"
        "2:\n\t"
        "pause\n\t"
        "cmpl $0, 4(%rsi)\n\t"
        "je 2b\n\t"
        "call tern_blocking_end@PLT\n\t"
        "movq (%rsp), %rdi\n\t"
        "notq %rbx\n\tnotq %rbp\n\tnotq %r12\n\tnotq %r13\n\tnotq %r14\n\tnotq %r15\n\t"
        "movq %rbx, (%rdi)\n\tmovq %rbp, 8(%rdi)\n\tmovq %r12, 16(%rdi)\n\t"
        "movq %r13, 24(%rdi)\n\tmovq %r14, 32(%rdi)\n\tmovq %r15, 40(%rdi)\n\t"
        "addq $24, %rsp\n\t"
        "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbp\n\tpopq %rbx\n\t"
        "ret\n"
        ".size hold_while_blocked, . - hold_while_blocked\n");
_Static_assert(offsetof(struct baton, let_go) == 4, "as the assembly has it");

static int registers_while_blocked(void) {
    return held_object_survives(hold_while_blocked, 6);
}

#else

static int general_registers(void) {
    return 0;
}
static int vector_registers(void) {
    return 0;
}
static int registers_while_blocked(void) {
    return 0;
}

#endif

/* ---- alternate signal stacks ---- */

static struct {
    uintptr_t hidden; /* 0: the handler holds nothing of its own */
    struct baton *baton;
} in_handler;

static NOINLINE void wait_in_handler(void *const *object) {
    in_handler.baton->held = 1;
    while (!in_handler.baton->let_go)
        tern_keep(*object);
}

/* The pointer is made on the stack that the handler runs on. */
static void on_user_signal(int number) {
    (void)number;
    void *volatile object = in_handler.hidden != 0 ? (void *)~in_handler.hidden : NULL;
    wait_in_handler((void *const *)&object);
    object = NULL;
}

static void raise_on_alternate_stack(struct baton *baton, uintptr_t hidden) {
    stack_t stack = {.ss_size = 65536, .ss_sp = malloc(65536)}, before;
    struct sigaction action = {.sa_handler = on_user_signal, .sa_flags = (int)SA_ONSTACK}, former;
    if (stack.ss_sp == NULL || sigaltstack(&stack, &before) != 0 || sigaction(SIGUSR1, &action, &former) != 0)
        abort();
    in_handler.hidden = hidden;
    in_handler.baton = baton;
    raise(SIGUSR1);
    sigaction(SIGUSR1, &former, NULL);
    sigaltstack(&before, NULL);
    free(stack.ss_sp);
}

static void hold_on_alternate_stack(uintptr_t *hidden, struct baton *baton) {
    raise_on_alternate_stack(baton, hidden[0]);
}

/* The pointer is on the thread's own stack while the thread is on the other. */
static void hold_below_alternate_stack(uintptr_t *hidden, struct baton *baton) {
    void *volatile object = (void *)~hidden[0];
    raise_on_alternate_stack(baton, 0);
    hidden[0] = ~(uintptr_t)object;
    object = NULL;
}

static int alternate_stack(void) {
    return held_object_survives(hold_on_alternate_stack, 1);
}
static int stack_below_alternate_stack(void) {
    return held_object_survives(hold_below_alternate_stack, 1);
}

#endif
