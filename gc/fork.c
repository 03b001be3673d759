/* See fork.h. Calls the rooms that have a part in it. */
#include "gc/fork.h"

#include "gc/background.h"
#include "gc/cleanup.h"
#include "gc/cycle.h"
#include "gc/mark.h"
#include "gc/mutator.h"
#include "gc/report.h"
#include "gc/stop.h"
#include "gc/sweep.h"

void fork_before(void) {
    struct mutator *self = mutator_self;
    bool runs = self != NULL && atomic_load_explicit(&self->state, memory_order_relaxed) == MUTATOR_RUNNING;
    /* Locks in the order of their ranks. A thread that is in a blocking section stays there. */
    if (runs)
        mutator_block(self);
    cycle_hold();
    os_lock_acquire(&mutator_list_lock);
    if (runs)
        mutator_unblock(self); /* at once: who stops the world holds both */
    mutator_close_gate();
    sweep_before_fork();
}

/* Opens what fork_before closed, in the opposite order. */
static void open_all(bool in_child) {
    sweep_after_fork(in_child);
    mutator_open_gate();
    os_lock_release(&mutator_list_lock);
    cycle_release();
}

void fork_in_parent(void) {
    open_all(false);
    background_ring(); /* what it was kept from */
}

void fork_in_child(void) {
    stop_after_fork();
    report_after_fork();
    background_after_fork();
    mark_after_fork();
    cycle_after_fork();
    /* What threads had running is forgotten before their records are. */
    cleanup_after_fork();
    mutator_after_fork();
    open_all(true);
}
