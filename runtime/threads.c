/*
 * Threads, roots, handles, weak references and cleanups of the public API: thin calls into the collector's
 * rooms.
 */
#include <errno.h>
#include <stdlib.h>
#include <tern/tern.h>

#include "gc/account.h"
#include "gc/barrier.h"
#include "gc/cleanup.h"
#include "gc/cycle.h"
#include "gc/fiber.h"
#include "gc/handle.h"
#include "gc/offheap.h"
#include "gc/pagerun.h"
#include "gc/roots.h"
#include "gc/weak.h"
#include "runtime/runtime.h"

int tern_thread_attach(void) {
    return runtime_self() != NULL ? 0 : -1;
}

void tern_thread_detach(void) {
    if (mutator_self != NULL)
        mutator_detach(mutator_self);
}

bool tern_thread_is_attached(void) {
    return mutator_self != NULL;
}

/* What a new thread is to do. Its argument is a root through the handle until the thread is attached. */
struct thread_start {
    void *(*function)(void *);
    tern_handle argument;
};

static void *run_thread(void *start_memory) {
    struct thread_start start = *(struct thread_start *)start_memory;
    free(start_memory);
    gc_check(mutator_attach() != NULL, "out of memory: a new thread cannot be attached");
    void *argument = tern_handle_get(start.argument);
    tern_handle_free(start.argument);
    return start.function(argument);
}

int tern_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                        void *argument) {
    if (runtime_self() == NULL)
        return EAGAIN;
    struct thread_start *memory = malloc(sizeof *memory);
    if (memory == NULL)
        return EAGAIN;
    memory->function = start;
    memory->argument = tern_handle_new(argument);
    if (memory->argument == 0) {
        free(memory);
        return EAGAIN;
    }
    int error = pthread_create(thread, attributes, run_thread, memory);
    if (error != 0) {
        tern_handle_free(memory->argument);
        free(memory);
    }
    return error;
}

void tern_blocking_begin(void) {
    struct mutator *self = runtime_self();
    if (self != NULL)
        mutator_block_for(self, MUTATOR_CALLER_SP());
    compiler_barrier();
}

void tern_blocking_end(void) {
    if (mutator_self != NULL)
        mutator_unblock(mutator_self);
}

void tern_poll(void) {
    if (mutator_self != NULL && stop_requested())
        mutator_park(mutator_self);
}

tern_fiber *tern_fiber_new(void *stack_lo, size_t bytes) {
    struct mutator *self = runtime_self();
    if (self == NULL)
        return NULL;
    mutator_enter(self);
    struct fiber *fiber = fiber_new(stack_lo, bytes);
    mutator_leave(self);
    return (tern_fiber *)fiber;
}

void tern_fiber_switch(tern_fiber *to) {
    struct mutator *self = runtime_self();
    if (self != NULL)
        fiber_switch(self, (struct fiber *)to);
}

void tern_fiber_free(tern_fiber *fiber) {
    struct mutator *self = runtime_self();
    if (self == NULL || fiber == NULL)
        return;
    mutator_enter(self);
    fiber_free((struct fiber *)fiber);
    mutator_leave(self);
}

void tern_collect(void) {
    struct mutator *self = runtime_self();
    if (self != NULL)
        cycle_collect(self, CYCLE_FORCED);
}

void tern_release_memory(void) {
    struct mutator *self = runtime_self();
    if (self == NULL)
        return;
    cycle_collect(self, CYCLE_FORCED);
    mutator_enter(self);
    pagerun_release(UINT64_MAX, true);
    mutator_leave(self);
}

/* Words recorded at a time. */
#define RECORD_WORDS 256

/* While marking, what a new root holds is told to the markers at once, not only when the end stop looks at it. */
GC_NO_SANITIZE static void record_range(struct mutator *self, const void *from, size_t bytes) {
    const uintptr_t *at = (const uintptr_t *)align_up((uintptr_t)from, sizeof *at);
    const uintptr_t *end = (const uintptr_t *)align_down((uintptr_t)from + bytes, sizeof *at);
    while (at < end) {
        mutator_enter(self);
        for (size_t i = 0; i < RECORD_WORDS && at < end && barrier_is_on(); i++)
            barrier_record_inside(self, *at++);
        bool on = barrier_is_on();
        mutator_leave(self);
        if (!on)
            return;
    }
}

int tern_root_add(const void *from, size_t bytes) {
    struct mutator *self = runtime_self();
    if (self == NULL)
        return -1;
    mutator_enter(self);
    int result = roots_add(from, bytes);
    mutator_leave(self);
    if (result == 0 && barrier_is_on())
        record_range(self, from, bytes);
    return result;
}

int tern_root_remove(const void *from) {
    struct mutator *self = runtime_self();
    if (self == NULL)
        return -1;
    mutator_enter(self);
    int result = roots_remove(from);
    mutator_leave(self);
    return result;
}

tern_handle tern_handle_new(void *object) {
    struct mutator *self = runtime_self();
    return self != NULL ? handle_new(self, object) : 0;
}

void *tern_handle_get(tern_handle handle) {
    struct mutator *self = runtime_self();
    return self != NULL ? handle_get(self, handle) : NULL;
}

void tern_handle_set(tern_handle handle, void *object) {
    struct mutator *self = runtime_self();
    if (self != NULL)
        handle_set(self, handle, object);
}

void tern_handle_free(tern_handle handle) {
    struct mutator *self = runtime_self();
    if (self != NULL)
        handle_free(self, handle);
}

tern_weak *tern_weak_new(const void *object) {
    struct mutator *self = runtime_self();
    return self != NULL ? weak_new(self, object) : NULL;
}

void *tern_weak_get(const tern_weak *weak) {
    struct mutator *self = runtime_self();
    return self != NULL ? weak_get(self, weak) : NULL;
}

uint64_t tern_cleanup_add(const void *object, tern_cleanup_function *function, void *argument) {
    struct mutator *self = runtime_self();
    return self != NULL ? cleanup_add(self, object, function, argument) : 0;
}

bool tern_cleanup_remove(uint64_t id) {
    struct mutator *self = runtime_self();
    return self != NULL && cleanup_remove(self, id);
}

size_t tern_run_cleanups(size_t most) {
    struct mutator *self = runtime_self();
    return self != NULL ? cleanup_run(self, most) : 0;
}

void tern_external_add(int64_t delta) {
    struct mutator *self = runtime_self();
    if (self == NULL)
        return;
    mutator_enter(self);
    uint64_t before = atomic_fetch_add_explicit(&account.external, (uint64_t)delta, memory_order_relaxed);
    if (delta < 0 && before < 0 - (uint64_t)delta)
        fatal_misuse("tern_external_add took away more bytes than were declared", before,
                     "Each negative delta must match a positive one before it.");
    account_note_peaks();
    account_decide();
    mutator_leave(self);
}
