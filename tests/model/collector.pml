/*
 * The collector: start stop, marking, end stop, sweep, CYCLES times. Stops are single steps; marking takes one
 * field at a time, sweeping one bitmap of one page at a time.
 */

/* What a mutator published and nobody has looked at. */
inline drain(m) {
    n_ = FIRST_UNREAD(m);
    do
    :: n_ < published[m] ->
        shade(entry[(m) * ENTRIES + n_ % ENTRIES]);
        FORGET(entry[(m) * ENTRIES + n_ % ENTRIES]);
        n_++
    :: else -> break
    od;
    looked_at[m] = published[m];
    n_ = 0
}

inline shade_roots() {
    shade(reg[0]);
    shade(reg[1]);
    shade(reg[2]);
    shade(reg[3]);
    shade(own_reg[0]);
    shade(own_reg[1])
}

/* The next field of the object at hand; with its last one it is black. */
inline scan_next() {
    if
    :: k < FIELDS_OF(cur) ->
        reach_scan_within_chunk(cur == A && k > 0 && depth[0] != 0);
        v_ = FIELD(cur, k);
        shade(v_);
        k++
    :: else
    fi;
    if
    :: k == FIELDS_OF(cur) -> printf("collector: has scanned %d\n", cur); cur = 0; k = 0
    :: else
    fi;
    v_ = 0
}

inline start_stop() {
    printf("collector: start stop\n");
    assert(grey == 0);
    reach_late_entry(FIRST_UNREAD(0) < published[0]);
#ifdef PAGES
    i_ = 0;
    do
    :: i_ < PAGES ->
        assert(claim[i_] == CLAIM(epoch, SWEPT) || claim[i_] == CLAIM(epoch, OWNED));
        i_++
    :: else -> break
    od;
    i_ = 0;
#ifndef FAULT_OPEN_MASK_WHITE
    mark = mark | mask[0] | mask[1];
#endif
#endif
#ifndef FAULT_READ_NOT_MOVED
    looked_at[0] = published[0];
    looked_at[1] = published[1];
#endif
    on = true;
    shade_roots();
    cycles++
}

/* The part of the end stop that may find something to mark. */
inline look_again() {
    printf("collector: end stop\n");
#ifndef FAULT_BUFFERS_UNREAD
    drain(0);
    drain(1);
#endif
#ifndef NO_RESCAN
    shade_roots();
#endif
    v_ = 0
}

/* What is left of marking, in the stop. */
inline finish_marking() {
    do
    :: grey != 0 ->
        cur = 1;
        do
        :: (grey & BIT(cur)) == 0 -> cur++
        :: else -> break
        od;
        grey = grey & ~BIT(cur);
        do
        :: cur != 0 -> scan_next()
        :: else -> break
        od
    :: else -> break
    od;
    cur = 0
}

/* With it begins what comes after marking. */
inline decide() {
    printf("collector: marking is over\n");
    epoch++;
#ifdef WEAK
    deciding = true;
#endif
    on = false
}

#ifdef PAGES
inline sweep() {
    p = 0;
    do
    :: atomic { p < PAGES && (claim[p] == CLAIM(epoch - 1, SWEPT) || claim[p] == CLAIM(epoch - 1, OWNED)) ->
                seen = claim[p];
                reach_owned_page_swept(seen % 4 == OWNED) };
#ifdef FAULT_SWEEP_UNCLAIMED
        sweep_page(p, kept);
        claim[p] = CLAIM(epoch, seen % 4);
#else
        if
        :: atomic { claim[p] == seen -> claim[p] = CLAIM(epoch, SWEEPING) };
            sweep_page(p, kept);
            claim[p] = CLAIM(epoch, seen % 4)
        :: atomic { claim[p] != seen -> printf("collector: another sweeps the page\n") }
        fi;
#endif
        p++
    :: atomic { p < PAGES && claim[p] != CLAIM(epoch - 1, SWEPT) && claim[p] != CLAIM(epoch - 1, OWNED) -> p++ }
    :: atomic { p == PAGES -> p = 0; seen = 0; break }
    od
}
#elif defined(WEAK)
inline sweep() {
    d_step {
        free_slots(alloc & ~mark);
        alloc = alloc & mark
    };
    mark = ALL & ~alloc;
    swept = epoch
}
#else
inline sweep() {
    d_step {
        free_slots(alloc & ~mark);
        alloc = alloc & mark;
        mark = ALL & ~alloc
    }
}
#endif

#ifdef WEAK
/* Before the target's page is swept. */
inline clear_cells() {
    if
    :: atomic { (BIT(cell) & ~mark) != 0 -> printf("collector: clears the cell\n"); cell = 0 }
    :: else
    fi;
    deciding = false
}
#else
#define clear_cells() skip
#endif

proctype collector() {
    byte cur, k; /* the object that is being scanned, and its next field */
    byte n_, backs;
#ifdef PAGES
    byte p, seen, kept;
#endif

    do
    :: cycles < CYCLES ->
        atomic { NOBODY_INSIDE -> d_step { start_stop() } };
        do
        :: atomic { cur == 0 && grey != 0 ->
               if
               :: (grey & BIT(1)) != 0 -> cur = 1
#if SLOTS >= 2
               :: (grey & BIT(2)) != 0 -> cur = 2
#endif
#if SLOTS >= 3
               :: (grey & BIT(3)) != 0 -> cur = 3
#endif
#if SLOTS >= 4
               :: (grey & BIT(4)) != 0 -> cur = 4
#endif
               fi;
               d_step { grey = grey & ~BIT(cur); scan_next() } }
#if FIELDS > 1
        :: atomic { cur != 0 -> d_step { scan_next() } }
#endif
        :: atomic { cur == 0 && grey == 0 && NOBODY_INSIDE -> d_step { look_again() };
               if
               :: grey == 0
               :: grey != 0 ->
#ifdef FAULT_DECIDED_EARLY
                   grey = 0
#else
                   if
                   :: d_step {
                          printf("collector: goes back to marking\n");
                          backs++;
                          reach_second_return(backs == 2);
                          assert(backs <= SLOTS); /* each time it has found something: marking ends */
#ifdef FAULT_BARRIER_OFF_EARLY
                          on = false
#endif
                      };
                      goto again
                   :: d_step { printf("collector: finishes in the stop\n"); finish_marking() }
                   fi
#endif
               fi;
               d_step { decide(); backs = 0 };
               break }
again:      skip
        od;
#ifdef FAULT_SWEPT_BEFORE_CLEARED
        sweep();
        clear_cells()
#else
        clear_cells();
        sweep()
#endif
    :: else -> break
    od
}
