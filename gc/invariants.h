/*
 * What is true of the heap, and when it may not be. Prose only: nothing is declared here and no file
 * includes it. docs/design.md explains why it is built so; this says what must hold, who may break it
 * for how long, and which code notices.
 *
 * Phases. A cycle (gc/cycle.c, run) goes through them in this order.
 *   run       threads run; unswept spans are swept by whoever needs them
 *   finish    the last unswept span is swept; threads still run
 *   stop      from the request to stop until the last mutator is stopped or blocked
 *   blacken   from here to the walk the world is stopped: what open masks and tiny blocks show gets its mark
 *   mark      from the first root to the last grey object
 *   decide    weak references and cleanups; then the epoch goes up by one
 *   walk      dead spans and large objects are freed, the others listed as unswept, owned spans swept
 *   start     back to run
 *
 * Colours. White: allocated and not marked. Grey: marked, in a queue of a marker or on a page flagged
 * PAGE_REGREY. Black: marked and in no queue. A leaf is black once marked. Colours mean something in mark
 * and decide only.
 *
 * "gcverify" below is verify_snapshot (at the end of blacken), verify_marked (decide) and verify_swept (end
 * of walk); it runs under GODEBUG=gcverify=1 in any build. gc_check is in every build; what says "level 1"
 * or "level 2" is in builds with TERN_ASSERT at least that.
 *
 *
 * The collector's promises
 *
 * I1  At the end of mark no black object holds a pointer to a white one.
 *     Broken in mark, by objects whose fields are still to be looked at: these are the grey ones.
 *     Tested by gcverify: check_object and check_pointer, over every allocated object.
 *
 * I2  What could be reached when the world stopped, or was allocated after that, is not freed by this
 *     cycle.
 *     Never broken. What is "reachable" is what roots.c enumerates: conservative stacks and registers, a
 *     word that leads to an object or one past its end; then fields by the object's kind.
 *     Tested by gcverify: check_snapshot (all that was seen is marked), check_survivors (and still
 *     allocated after the walk, and again before the next cycle, which covers lazy sweeping).
 *
 * I3  No mutator runs between the first root that is looked at and the last grey object, so no pointer can
 *     slip from an object still to be scanned into one already scanned. This is why tern_store is a plain
 *     store today. With marking beside running threads it becomes: the write barrier is on in every mutator
 *     before the first root is looked at, and off only after the last queue is empty.
 *     Tested by test_stop.c (the stop is complete) and test_single_step.c (it may come at any instruction).
 *
 * I4  A weak reference is read inside S1, so no stop comes between reading the address and having it in a
 *     register, where mark finds it.
 *     Tested by test_weak.c and the single-stepping test; no check function.
 *
 * I5  From stop to start nothing is allocated on the managed heap, and the host's malloc, stdio and loader
 *     locks are left alone, since a stopped thread may hold them. The loader's lock is the one exception,
 *     and it is taken before the stop: roots_stop_with_segments. The private jemalloc may be used: no
 *     stopped thread is inside it (S1).
 *     No check function: a breach shows as a hang.
 *
 *
 * Pages (gc/page.h, gc/pagerun.c)
 *
 * H1  Every page from 1 to the end of what was grown is part of exactly one thing: a free run, a span of
 *     slots, a large object, or a run just taken that is being made into one of them. Page 0 is nobody's.
 *     The last kind lasts from pagerun_take to the end of span_make or large_alloc's make, inside S1, so
 *     not across a stop. Under the page-run lock runs are cut and merged.
 *     Tested by pagerun_check (gcverify, and the module's tests).
 *
 * H2  A free run has its length in its first and last record, both PAGE_FREE; the records between are
 *     PAGE_NONE. No two free runs touch. Its first record counts its pages that are not resident; it is in
 *     the list of its length and of warm (none cold) or cold, once.
 *     Broken under the page-run lock only. Tested by pagerun_check, but for the lists.
 *
 * H3  Tail records of a span or a large object say how far back their head is.
 *     Broken inside S1 while it is made or freed. Tested by gcverify (check_large) for large objects.
 *
 * H4  slot_count is 0 in all records but the heads of spans. It is stored last when a span is made and
 *     zeroed first when one is freed, with release, so whoever reads a count that is not 0 may use magic,
 *     slot_bytes and kind.
 *     Never broken. span_check tests that a head has slots; nothing tests the others.
 *
 * H5  A large object is a leaf until its memory is zero; `large.marked` is 0 but from mark to walk, and in
 *     quarantine.
 *     The kind is stored with release once zeroing is over.
 *
 *
 * Spans (gc/span.c, gc/central.c)
 *
 * H6  Whoever changes a span's bitmaps, hands out its slots or frees it has its claim. States and their
 *     ways:
 *         SWEPT -> OWNED           acquire_span: a thread takes it from the partial list
 *         OWNED -> SWEPT           release_span: full, or its thread leaves
 *         SWEPT (epoch - 1) -> SWEEPING -> SWEPT, OWNED or FREEING       sweep_taken
 *         OWNED (epoch - 1) -> SWEEPING -> OWNED                         central_sweep_owned, in walk
 *         SWEPT (epoch - 1) -> FREEING                                   sweep_small, in walk: nothing live
 *     "epoch - 1" is what advancing the epoch makes of every claim at once. The first step is a
 *     compare-and-swap (but for SWEPT -> FREEING in walk, where nobody else runs), the last a store with
 *     release. In blacken, mark and walk the collector writes mark bits without a claim: nobody else runs.
 *     Tested by gc_check at each transition ("... was claimed by two", "... by another"), gcverify
 *     (check_owned).
 *
 * H7  No claim is older than the epoch before this one: from finish to the next walk all spans are SWEPT or
 *     OWNED of this epoch.
 *     Tested by gc_check in central_reset.
 *
 * H8  Lists. SWEPT with a slot to give: in the partial list of its class and kind, once. SWEPT and full: in
 *     none. Unswept: in the unswept list. OWNED, SWEEPING, FREEING: in none.
 *     Broken under the list's lock, and from central_reset to the end of walk.
 *     Tested through H6: a span listed twice, or wrongly, fails its claim. A span forgotten by the lists
 *     costs its memory until the walk finds it dead, and nothing else.
 *
 * H9  Allocated bits. Set: the slot holds an object, live or dead and not yet swept, or an open mask shows
 *     it. Clear: nobody has it. Bits beyond the last slot are clear.
 *     Changed under the claim. Tested by span_check (beyond the last), gcverify (note_open_slot).
 *
 * H10 Sealed marks. In a swept span mark = not allocated, over the slots that exist: free slots have their
 *     mark set, objects do not. So a stale word that leads to a free slot looks like one to something
 *     already marked, and the marker needs no other bitmap.
 *     In blacken and mark allocated slots get theirs as well; from then until the span is swept, allocated
 *     and not marked is dead. span_take_group and span_give_back change both bits under the claim; a stop
 *     never sees one without the other (S1).
 *     Tested by span_check (gcverify after every walk; level 1 in span_take_group).
 *
 * H11 PAGE_LIVE is set when a slot of the span was marked in this cycle, other than by an open mask, whose
 *     span is owned and therefore not freed by the walk. PAGE_REGREY is set in mark only. A sweep clears
 *     both.
 *
 * H12 Quarantine (gcverify only). Slots freed by the last sweep are neither allocated nor given out, and
 *     hold the byte 0xdb throughout, until the next sweep of their span has looked. Large objects likewise,
 *     with `quarantined` set.
 *     Tested by quarantine_verify.
 *
 *
 * Threads (gc/mutator.c, gc/stop.c)
 *
 * H13 The slots that an open mask shows are allocated, are of the mask's class and kind, are in no other
 *     mask, and lie in one group of a span that the thread owns. From blacken until the thread takes them
 *     they survive every sweep.
 *     Broken inside S1 of the owner. The owner takes a slot outside S1 in the order of rule S2: address in
 *     a register, then the bit goes.
 *     Tested by gcverify: note_open_slot, must_be_black, check_owned, open_slot_is_there.
 *
 * H14 A thread's open tiny block is allocated and is marked in blacken. Bit i of a block's map is set when
 *     an object starts at its byte i, before that object's bytes are given away.
 *     Tested by gcverify (must_be_black).
 *
 * H15 depth is 0 or 1. At 1 the thread may hold locks of the library, and is not stopped. Blocked, or
 *     stopped at its own wish: spill, frames and sp tell its registers and stack. Stopped by the signal:
 *     context does.
 *     Tested by gc_check in mutator_enter and mutator_block_for.
 *
 * H16 stop_word is odd from stop_world to start_world, and in that time mutator_list_lock is held: no
 *     thread comes or goes.
 *
 *
 * Tables
 *
 * H17 Every key in the tables of weak references and cleanups is the first byte of an allocated object.
 *     Entries of objects found white go in decide, before anything can be freed; so a weak reference is
 *     NULL before its object's cleanups are even queued.
 *     Tested by addr_table_check and cleanup_check (level 2, each cycle), handle_check (level 2, each
 *     cycle).
 *
 *
 * Counters. Each is exact for its writer and a recent value for others.
 *
 * H18 pagerun's used and free pages are the sums over H1's runs; tested by pagerun_check. account.heap is
 *     what the last cycle marked plus what masks and large objects took since, less what was given back;
 *     slots shown in masks at the cycle are left out. account_total is used + free resident + metadata +
 *     off-heap + external, and that is what the memory limit is about.
 */
#ifndef GC_INVARIANTS_H
#define GC_INVARIANTS_H

#endif
