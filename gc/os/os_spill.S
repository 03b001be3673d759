/* os_spill: the callee-saved registers and the stack pointer of the code that calls (see os_spill.h).
 *
 * Assembly because C can neither name these registers nor promise where its own frame ends. The symbols are hidden:
 * they belong to the library alone. */
#include "gc/os/os_spill.h"

/* The landing pads of indirect branch protection; nothing unless the compiler was asked for it. */
#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

    .text

    .globl os_spill
    .hidden os_spill
    .type os_spill, %function
    .p2align 4
os_spill:
    .cfi_startproc
#if defined(__x86_64__)
    _CET_ENDBR
    movq %rbx, (%rdi)
    movq %rbp, 8(%rdi)
    movq %r12, 16(%rdi)
    movq %r13, 24(%rdi)
    movq %r14, 32(%rdi)
    movq %r15, 40(%rdi)
    leaq 8(%rsp), %rax /* without the return address that the call pushed */
    ret
#elif defined(__aarch64__)
    hint #34 /* bti c */
    stp x19, x20, [x0]
    stp x21, x22, [x0, #16]
    stp x23, x24, [x0, #32]
    stp x25, x26, [x0, #48]
    stp x27, x28, [x0, #64]
    stp x29, x30, [x0, #80]
    stp d8, d9, [x0, #96]
    stp d10, d11, [x0, #112]
    stp d12, d13, [x0, #128]
    stp d14, d15, [x0, #144]
    mov x0, sp
    ret
#endif
    .cfi_endproc
    .size os_spill, . - os_spill

    .globl os_frame_sp
    .hidden os_frame_sp
    .type os_frame_sp, %function
    .p2align 4
os_frame_sp:
    .cfi_startproc
#if defined(__x86_64__)
    _CET_ENDBR
    leaq 8(%rsp), %rax
    ret
#elif defined(__aarch64__)
    hint #34
    mov x0, sp
    ret
#endif
    .cfi_endproc
    .size os_frame_sp, . - os_frame_sp

    .section .note.GNU-stack, "", %progbits
