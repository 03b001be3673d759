/* os_spill: the callee-saved registers and the stack pointer of the code that calls.
 *
 * Does: in assembly, what setjmp cannot (it mangles some of the registers it saves). Owns nothing. Must
 * never: touch the stack. Calls nothing; any thread, anywhere. */
#ifndef GC_OS_SPILL_H
#define GC_OS_SPILL_H

/* Bytes below the stack pointer that the ABI lets a leaf function use: part of an interrupted thread's stack.
 */
#if defined(__x86_64__)
#define OS_RED_ZONE    128
#define OS_SPILL_WORDS 6 /* rbx rbp r12 r13 r14 r15 */
#elif defined(__aarch64__)
#define OS_RED_ZONE    0
#define OS_SPILL_WORDS 20 /* x19 to x30, d8 to d15 */
#else
#error "Tern knows the registers of x86_64 and aarch64 only"
#endif

#ifndef __ASSEMBLER__
#include <stdint.h>

/* Writes the callee-saved registers to out and returns the stack pointer of the caller as it is at the call:
 * all of the caller's frame lies at or above it. Registers that are not callee-saved need no saving: at a
 * call the compiler has put what it still needs of them into the frame. The caller must not return before its
 * stack has been scanned, and must have `out` scanned by name: under AddressSanitizer it may lie elsewhere.
 */
uintptr_t os_spill(uintptr_t out[OS_SPILL_WORDS]);

/* The stack pointer of the caller as it is at the call. */
void *os_frame_sp(void);
#endif

#endif
