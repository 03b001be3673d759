/*
 * A model of the collector's cycle beside running threads, for spin: two mutators, one collector, a few objects.
 * docs/model.md says what is modelled and what is not, what comes out, and how to run one variant and read its
 * trail. tests/scripts/model.py has the list of variants and runs them.
 *
 * Every statement is one step, and the other processes may take theirs between any two. What stands in one atomic
 * or d_step is one step: because it touches one shared word only (a compare-and-swap, or a word and what nobody
 * else looks at), or because it happens in a stop. A stop is a single step of the collector that waits until no
 * mutator is inside S1; a thread that was stopped earlier than another is one that has not run meanwhile.
 *
 * Chosen with -D. A program (PROGRAM_...: programs.pml). Protections: both are on unless NO_OLD (the barrier does
 * not record what is overwritten), NO_NEW (nor what is written) or NO_RESCAN (the end stop does not look at the
 * roots again) is given. Faults of the collector (FAULT_...) and slips of the program (SLIP_...): at their places.
 */
#include "programs.pml"
#include "heap.pml"
#include "mutator.pml"
#include "collector.pml"

init {
    atomic {
        d_step {
            INITIAL;
            mark = ALL & ~alloc;
            live = alloc
        };
        run mutator(0);
        run mutator(1);
        run collector()
    }
}
