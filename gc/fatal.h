/*
 * The last line of a program that cannot go on. Writes one line with write(2) and aborts; allocates nothing,
 * takes no lock, may be called with the world stopped and from a signal handler.
 */
#ifndef GC_FATAL_H
#define GC_FATAL_H

#include <stdint.h>

/* "tern: fatal: MESSAGE (FILE:LINE)", then abort. */
_Noreturn void fatal_at(const char *file, int line, const char *message);
/* A misuse by the program: "tern: misuse: WHAT: value VALUE. HINT", then abort. */
_Noreturn void fatal_misuse(const char *what, uintptr_t value, const char *hint);

#endif
