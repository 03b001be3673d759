/* Callee-saved registers and stack pointers: what gc/os/os_spill promises. */
#define _GNU_SOURCE 1
#include "gc/os/os_spill.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NO_SANITIZERS __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

/* More than any frame of the functions here, with what the sanitizers and no optimisation add. */
#define FRAME_BYTES 4096

/* Register number i is given 0x1000 + i. Returns what os_spill returned; *sp is the stack pointer at the
 * call. */
NO_SANITIZERS static uintptr_t spill_known_registers(uintptr_t out[OS_SPILL_WORDS], uintptr_t *sp) {
    uintptr_t returned;
    uintptr_t at_call;
#if defined(__x86_64__)
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\t" /* past the red zone */
                     "pushq %%rbp\n\t"
                     "movq $0x1000, %%rbx\n\t"
                     "movq $0x1001, %%rbp\n\t"
                     "movq $0x1002, %%r12\n\t"
                     "movq $0x1003, %%r13\n\t"
                     "movq $0x1004, %%r14\n\t"
                     "movq $0x1005, %%r15\n\t"
                     "movq %%rsp, %%r8\n\t"
                     "call os_spill\n\t"
                     "popq %%rbp\n\t"
                     "leaq 128(%%rsp), %%rsp\n\t"
                     "movq %%r8, %%rdx"
                     : "=a"(returned), "=&d"(at_call), "+D"(out)
                     :
                     : "rbx", "r12", "r13", "r14", "r15", "rcx", "rsi", "r8", "r9", "r10", "r11", "memory",
                       "cc");
#elif defined(__aarch64__)
    register uintptr_t x0 __asm__("x0") = (uintptr_t)out;
    __asm__ volatile("str x29, [sp, #-16]!\n\t"
                     "mov x19, #0x1000\n\tmov x20, #0x1001\n\tmov x21, #0x1002\n\tmov x22, #0x1003\n\t"
                     "mov x23, #0x1004\n\tmov x24, #0x1005\n\tmov x25, #0x1006\n\tmov x26, #0x1007\n\t"
                     "mov x27, #0x1008\n\tmov x28, #0x1009\n\tmov x29, #0x100a\n\t"
                     "mov x9, #0x100c\n\tfmov d8, x9\n\tmov x9, #0x100d\n\tfmov d9, x9\n\t"
                     "mov x9, #0x100e\n\tfmov d10, x9\n\tmov x9, #0x100f\n\tfmov d11, x9\n\t"
                     "mov x9, #0x1010\n\tfmov d12, x9\n\tmov x9, #0x1011\n\tfmov d13, x9\n\t"
                     "mov x9, #0x1012\n\tfmov d14, x9\n\tmov x9, #0x1013\n\tfmov d15, x9\n\t"
                     "mov x1, sp\n\t"
                     "bl os_spill\n\t"
                     "ldr x29, [sp], #16\n\t"
                     "mov %[at_call], x1"
                     : "+r"(x0), [at_call] "=r"(at_call)
                     :
                     : "x1", "x9", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28",
                       "x30", "d8", "d9", "d10", "d11", "d12", "d13", "d14", "d15", "memory");
    returned = x0;
#endif
    *sp = at_call;
    return returned;
}

static void every_callee_saved_register_is_written(void **state) {
    (void)state;
    uintptr_t out[OS_SPILL_WORDS + 1] = {0};
    uintptr_t sp = 0;
    spill_known_registers(out, &sp);
    for (size_t i = 0; i < OS_SPILL_WORDS; i++) {
#if defined(__aarch64__)
        if (i == 11) {
            continue; /* x30: the return address */
        }
#endif
        assert_int_equal(out[i], 0x1000 + i);
    }
    assert_int_equal(out[OS_SPILL_WORDS], 0);
}

static void the_stack_pointer_is_the_callers_at_the_call(void **state) {
    (void)state;
    uintptr_t out[OS_SPILL_WORDS] = {0};
    uintptr_t sp = 0;
    uintptr_t returned = spill_known_registers(out, &sp);
    assert_int_equal(returned, sp);
    assert_int_not_equal(sp, 0);
}

NO_SANITIZERS static void measure(uintptr_t *from_spill, uintptr_t *from_frame, uintptr_t *lowest,
                                  uintptr_t *highest) {
    uintptr_t out[OS_SPILL_WORDS];
    uintptr_t locals[16];
    *from_spill = os_spill(out);
    *from_frame = (uintptr_t)os_frame_sp();
    __asm__ volatile("" : : "r"(locals), "r"(out) : "memory");
    *lowest = (uintptr_t)out < (uintptr_t)locals ? (uintptr_t)out : (uintptr_t)locals;
    *highest = (uintptr_t)out < (uintptr_t)locals ? (uintptr_t)locals : (uintptr_t)out;
}

static void the_callers_frame_lies_at_or_above_the_stack_pointer(void **state) {
    (void)state;
    uintptr_t from_spill;
    uintptr_t from_frame;
    uintptr_t lowest;
    uintptr_t highest;
    measure(&from_spill, &from_frame, &lowest, &highest);
    assert_int_equal(from_spill, from_frame);
    assert_true(from_spill <= lowest);
    assert_true(highest - from_spill < FRAME_BYTES);
    assert_int_equal(from_spill % 16, 0); /* the ABI's alignment at a call */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_callee_saved_register_is_written),
        cmocka_unit_test(the_stack_pointer_is_the_callers_at_the_call),
        cmocka_unit_test(the_callers_frame_lies_at_or_above_the_stack_pointer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
