/*
 * What is true of the heap, and when it may not be. Prose only: nothing is declared here and no file
 * includes it. docs/design.md explains why it is built so; this says what must hold, who may break it
 * for how long, and which code notices.
 *
 * Phases. A cycle (gc/cycle.c) goes through them in this order. In brackets: with the world stopped.
 *   run        threads run; what is unswept is swept by whoever needs it
 *   finish     the walk is ended, the last unswept span is swept; threads still run
 *   stop       from the request to stop until the last mutator is stopped or blocked
 *   [owed]     spans whose owners have not swept them since the last cycle are swept
 *   [blacken]  what open masks and tiny blocks show gets its mark
 *   [roots]    every root is looked at
 *   mark       to the last grey object. Three ways:
 *                - in the stop, all of it: a program that does not promise the barrier, or the little that a
 *                  small heap has. Then decide follows, in the same stop
 *                - beside: the barrier is turned on, the last thing in the start stop, and threads run
 *                - the end stop: [roots] again and what threads recorded, then what is grey, for a while.
 *                  Back to beside if something is left
 *   [decide]   nothing is grey: the epoch goes up by one, the barrier goes off, the lists of spans empty
 *   tables     threads run: weak references and cleanups of what was found dead. Nothing is swept
 *   walk       threads run: dead spans and large objects are freed, other spans are listed as unswept. It is
 *              a part of run
 * "Marking" below is from blacken to decide.
 *
 * Colours. White: allocated and not marked. Grey: marked, and in the stack of a marker or guest, in the pool,
 * on a page flagged PAGE_REGREY, or on its way to one of these inside S1. Black: marked and none of that. A
 * leaf is black once marked; so is what is allocated while marking. Colours mean something from blacken to
 * the end of tables.
 *
 * "gcverify" below is verify_snapshot (at the end of roots, in the start stop), verify_marked (decide) and
 * verify_swept (after owed, when all of the cycle before is swept); it runs under GODEBUG=gcverify=1 in any
 * build. gc_check is in every build; what says "level 1" or "level 2" is in builds with TERN_ASSERT at least
 * that.
 *
 *
 * The collector's promises
 *
 * I1  At the end of mark no black object holds a pointer to a white one.
 *     Broken in mark: by grey objects; and beside, by black ones into which a pointer is stored whose record
 *     is not read yet, or one that the snapshot will reach (barrier.h).
 *     Tested by gcverify: check_object and check_pointer, over every allocated object.
 *
 * I2  What could be reached in the start stop, or was allocated after it, is not freed by this cycle.
 *     Never broken. What is "reachable" is what roots.c enumerates: conservative stacks and registers, a
 *     word that leads to an object or one past its end; then fields by the object's kind.
 *     Tested by gcverify: check_snapshot (all that was seen is marked), check_survivors (and still
 *     allocated before the next cycle, which covers lazy sweeping); by test_single_step_stores.c, and the
 *     model of docs/model.md.
 *
 * I3  The barrier is on in every mutator before any runs after the first root was looked at, and off only
 *     when nothing is grey. It is turned on at the end of the start stop, after the roots and in the same
 *     stop, and off in decide; it does not change otherwise, so code inside S1 may look at it once. In a
 *     cycle of one stop it is never on.
 *     Tested by test_stop.c (the stop is complete) and the two single-stepping tests (it may come at any
 *     instruction, a start or an end alone too).
 *
 * I4  A weak reference is read inside S1, so no stop comes between reading the address and having it in a
 *     register. Beside, the read records what it returns; in tables it returns NULL for what is white.
 *     Tested by test_weak.c and the single-stepping tests; no check function.
 *
 * I5  With the world stopped nothing is allocated on the managed heap, and the host's malloc, stdio and
 *     loader locks are left alone, since a stopped thread may hold them. The loader's lock is the one
 *     exception, and it is taken before the stop, each time: roots_stop_with_segments. The private jemalloc
 *     may be used: no stopped thread is inside it (S1).
 *     No check function: a breach shows as a hang.
 *
 * I6  From the start stop to decide a pointer field of a managed object that another thread or a marker may
 *     see changes by the barrier only (where the program promises it): the word that goes and the word that
 *     comes are in the thread's registers from before the flag is looked at until the write is made (S3),
 *     and, if the flag is on, are recorded before the write.
 *     Broken by programs that break the contract; the two protections forgive most single slips.
 *     Tested by gcverify, which names the field; faulty_checkers.c plants a barrier that records nothing.
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
 *     Broken inside S1 while it is made, and while it is freed. Nothing is freed while marking, and what is
 *     made then says TAIL last, with release. Tested by gcverify (check_large) for large objects.
 *
 * H4  slot_count is 0 in all records but the heads of spans. It is stored last when a span is made and zeroed
 *     first when one is freed, with release, so whoever reads a count that is not 0 may use magic, slot_bytes
 *     and kind. Never broken: markers rely on it beside threads that make spans. span_check tests that a head
 *     has slots; nothing tests the others.
 *
 * H5  A large object is a leaf until its memory is zero; the kind is stored with release then. Its claim word
 *     has the epoch in which it was made or last found live, with the state SWEPT, and is never claimed.
 *     `large.marked` is 1 from when it is marked, or made while marking, until the walk; and in quarantine;
 *     else 0. Of the former epoch and not marked: dead, and freed by the walk alone. Of this epoch: the walk
 *     passes it over. An allocation for which the kernel refuses the memory frees it at once, if nobody is
 *     marking and the epoch is still its own; else it stays, a leaf that the next walk frees.
 *
 *
 * Spans (gc/span.c, gc/central.c)
 *
 * H6  Whoever changes a span's allocated bits, hands out its slots or frees it has its claim. States and
 *     their ways ("e" is the heap's epoch):
 *         none        -> OWNED e                            span_make, by who took the pages
 *         SWEPT e     -> OWNED e                            acquire_span: from the partial list
 *         OWNED e     -> SWEPT e                            release_span: full, or its thread leaves
 *         SWEPT e - 1 -> SWEEPING e -> SWEPT, OWNED or FREEING e      sweep_taken: unswept
 *         OWNED e - 1 -> SWEEPING e -> OWNED e              sweep_own: by its owner, or in owed
 *         OWNED e - 1 -> SWEPT e - 1                        left by its owner in tables; central_decided
 *         SWEPT e - 1 -> FREEING e                          sweep_small, in the walk: nothing live
 *     "e - 1" is what advancing the epoch makes of every claim at once. The first step is a compare-and-swap,
 *     but for two: a span that was left is on a list under its lock, and one that the walk frees is in a
 *     piece that one thread walks and in no list. The last is a store with release. Mark bits are written
 *     without a claim: in blacken and mark by the collector, assisting threads and barriers that are flushed,
 *     always by fetch-or or with the world stopped; nobody sweeps meanwhile.
 *     Tested by gc_check at each transition ("... was claimed by two", "... by another"), gcverify
 *     (check_owned).
 *
 * H7  No claim is older than the epoch before this one. From finish on, all spans are SWEPT or OWNED of this
 *     epoch, or OWNED of the one before; from owed to decide, of this epoch. No new claim of the former epoch
 *     arises but in decide.
 *     Tested by gc_check in central_reset and sweep_reset (nothing unswept, left, or in the middle of it).
 *
 * H8  Lists. SWEPT e with a slot to give: in the partial list of its class and kind, once. SWEPT e and full:
 *     in none. SWEPT e - 1: in the unswept list once the walk has passed. OWNED e - 1 that its owner has
 *     left: in the left list, until the end of tables. Other OWNED ones, SWEEPING, FREEING: in none.
 *     Broken under the list's lock, and from decide (central_reset empties the partial lists) until the walk
 *     has passed the span. Tested through H6: a span listed twice, or wrongly, fails its claim. A span
 *     forgotten by the lists costs its memory until a walk finds it dead, and nothing else.
 *
 * H9  Allocated bits. Set: the slot holds an object, live or dead and not yet swept, or an open mask shows
 *     it. Clear: nobody has it. Bits beyond the last slot are clear.
 *     Changed under the claim. Tested by span_check (beyond the last), gcverify (note_open_slot).
 *
 * H10 Sealed marks. In a swept span, but while marking, mark = not allocated, over the slots that exist: free
 *     slots have their mark set, objects do not. So a stale word that leads to a free slot looks like one to
 *     something already marked, and the marker needs no other bitmap. While marking, allocated slots get
 *     theirs as well: when they are marked; in blacken what masks show; and a mask that is taken leaves the
 *     marks of its slots set, so what is allocated from it is black. From decide until the span is swept,
 *     allocated and not marked is dead. span_take_group and span_give_back change both bits under the claim;
 *     a stop never sees one without the other (S1). A marker may: allocated is set last, with release, and
 *     given-back slots are sealed first.
 *     Typed and traced slots are zero before they are allocated, as a marker that looks through flagged pages
 *     (H11) meets slots that nobody has yet.
 *     Tested by span_check (gcverify, before every marking), level 1 in span_take_group; faulty_checkers.c
 *     plants white allocation.
 *
 * H11 PAGE_LIVE is set when a slot of the span was marked in this cycle, by whomever; when a mask of it was
 *     shown in blacken; and when one was taken while marking: their owners may have left the span before the
 *     walk comes. PAGE_REGREY is set in mark only, by who could not queue an object, who also says so to
 *     mark.c; decide finds none. A sweep, and the walk for large objects, clears both.
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
 *     mask, and lie in one group of a span that the thread owns. The span may be owned-unswept: the mask was
 *     there in the last cycle and its slots are black. It is not swept before the mask is empty, but in owed,
 *     where its slots stay allocated as they are marked. From blacken, or from when it is taken while
 *     marking, until the thread takes them, they survive every sweep.
 *     Broken inside S1 of the owner. The owner takes a slot outside S1 in the order of rule S2: address in
 *     a register, then the bit goes.
 *     Tested by gcverify: note_open_slot, must_be_black, check_owned, open_slot_is_there.
 *
 * H14 A thread's open tiny block is allocated and, while marking, black: marked in blacken, or from a black
 *     mask. Bit i of a block's map is set when an object starts at its byte i, before that object's bytes are
 *     given away.
 *     Tested by gcverify (must_be_black).
 *
 * H15 depth is 0 or 1. At 1 the thread may hold locks of the library, and is not stopped. Blocked, or
 *     stopped at its own wish: spill, frames and sp tell its registers and stack. Stopped by the signal:
 *     context does. Assisting threads scan at depth 1, a piece at a time, and have no grey object at depth 0.
 *     Tested by gc_check in mutator_enter and mutator_block_for.
 *
 * H16 stop_word is odd from stop_world to start_world, and in that time mutator_list_lock is held: no
 *     thread comes or goes.
 *
 * B1  A barrier's ring: published - recycled is at most its length; what lies between the larger of read and
 *     recycled, and published, is not seen by a marker yet. `published` and `recycled` are the owner's
 *     (recycled inside S1), `read` the collector's, in a stop; none goes back. A record is made by writing
 *     the word, then the count, with release. In the start stop read becomes published: what is older belongs
 *     to no cycle. In decide, and where the barrier is on and the owner recycles, all up to published was
 *     marked.
 *     Broken between a word and its count: the words are in the thread's registers then.
 *     Tested by test_single_step_stores.c; faulty_checkers.c plants a collector that does not read.
 *
 *
 * Marking (gc/mark.c, gc/grey.c)
 *
 * M1  The pool's `busy` counts the markers and guests that have, or may find, work. Busy 0 and both lists
 *     empty: no object is grey but those in a stack that was paused (mark_for that ran out of time: the same
 *     marker enters again), those that threads flush from their rings now, and those on flagged pages. decide
 *     is reached with the pool dry, no stack paused and no page flagged.
 *     Tested by gc_check in grey_pool_open (the next cycle finds it dry); FAULT_DROP_HALF_STOLEN shows that
 *     gcverify notices a lost grey object.
 *
 * M2  Mark bits are set without a read-modify-write only when nobody else may mark: one marker, world
 *     stopped.
 *
 * M3  Traced objects are scanned by threads of the library, or by a thread that collects; never by a guest.
 *     No check function.
 *
 *
 * The walk (gc/sweep.c)
 *
 * W1  `walk.next` is beyond any heap from decide to the end of tables, then goes up by pieces; who adds one
 *     has that piece, and nobody else looks at its heads of the former epoch. It covers what was grown when
 *     the epoch went up: records beyond are younger. `walkers` counts those inside a piece.
 *     Tested by gc_check in sweep_reset.
 *
 * W2  Nothing is swept, walked or freed from the end of owed to the end of tables.
 *     Tested by gc_check in central_reset at the one end; at the other the walk's place and `deciding` of
 *     each list say so, and mark_found_dead relies on it.
 *
 *
 * Tables
 *
 * H17 Every key in the tables of weak references and cleanups is the first byte of an allocated object, and
 *     every cell of the former is one. Entries of objects, or cells, that were found white go in tables,
 *     before anything is swept; weak references first, so one is NULL before its object's cleanups are even
 *     queued. From decide until that is done a key may be white; reads ask the mark while `deciding` is set
 *     (I4).
 *     Tested by addr_table_check and cleanup_check (level 2, each cycle), handle_check (level 2, each
 *     look at the roots).
 *
 *
 * Counters. Each is exact for its writer and a recent value for others.
 *
 * H18 pagerun's used and free pages are the sums over H1's runs; tested by pagerun_check. account.heap is
 *     what the last cycle left live plus what masks and large objects took since, less what was given back;
 *     slots shown in masks at the end of a cycle are left out. account.live is what was marked and what was
 *     allocated while marking; account.marked of that what was reached from roots, which is what no
 *     collection will free. account.scannable is what the last cycle scanned and what was taken since of
 *     kinds with pointers. trigger <= goal. account_total is used + free resident + metadata + off-heap +
 *     external, and that is what the memory limit is about.
 */
#ifndef GC_INVARIANTS_H
#define GC_INVARIANTS_H

#endif
