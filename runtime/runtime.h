/*
 * The runtime's inside: is the library started, and who is the calling thread. Owns the start and the last
 * error text.
 */
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H

#include "gc/mutator.h"

/* The calling thread's record; starts the library and attaches the thread when need be. NULL with errno
 * ENOMEM. */
struct mutator *runtime_attach(void);
static inline struct mutator *runtime_self(void) {
    struct mutator *self = mutator_self;
    return likely(self != NULL) ? self : runtime_attach();
}
/* Whether tern_init has run and tern_shutdown has not. */
bool runtime_started(void);
/* Sets the message that is written when an allocation fails. At the start. */
void runtime_oom_init(void);

#endif
