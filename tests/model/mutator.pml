/*
 * A mutator: an endless choice among its program's operations, until the fuel that both share is used up; its
 * registers stay roots. Operands lie in the two registers of the program; what the library adds lies in own_reg,
 * which a stop looks at too (rule S3).
 *
 * It keeps the contract: pointers change through the barrier only, and two threads store to one object at once
 * only by exchange and compare-and-swap (`busy` is the program's own lock). SLIP_RACE leaves the lock out;
 * SLIP_DELETE, SLIP_INSERT and SLIP_ANY allow plain stores: of NULL over a pointer, of a pointer over NULL, any.
 */
#define R(i)  reg[2 * me + (i)]
#define OWN   own_reg[me]
#define ENTER depth[me]++
#define LEAVE depth[me]--

byte fuel = FUEL;
byte slips = SLIPS;
byte busy;                   /* objects that a thread stores to */

#ifdef SLIP_RACE
#define MAY_STORE_TO(o) true
#else
#define MAY_STORE_TO(o) ((busy & BIT(o)) == 0)
#endif

/* -------------------------------------------------------------------------------------------- the barrier */

#define FULL   (published[me] == recycled[me] + ENTRIES)
#define PUT(v) entry[me * ENTRIES + published[me] % ENTRIES] = v

#ifdef SMALL_BUFFER
/* Rule S4: unread entries go to the pool, then their space is free; inside S1. */
inline flush() {
#ifndef FAULT_FLUSH_OUTSIDE_S1
    ENTER;
#endif
    if
    :: atomic { on -> printf("%d: hands its full buffer to the marker\n", me); n_ = FIRST_UNREAD(me) };
        do
        :: atomic { n_ < published[me] ->
                    shade(entry[me * ENTRIES + n_ % ENTRIES]);
                    FORGET(entry[me * ENTRIES + n_ % ENTRIES]);
                    n_++ }
        :: atomic { n_ == published[me] -> n_ = 0; break }
        od
    :: atomic { !on -> printf("%d: forgets its full buffer, nobody marks\n", me) }
    fi;
#ifdef FAULT_RELATIVE_COUNT
    atomic { published[me] = 0; recycled[me] = 0 };
#else
    recycled[me] = published[me];
#endif
#ifndef FAULT_FLUSH_OUTSIDE_S1
    LEAVE
#endif
}
#endif

/* First the entry, then the count. A thread looks at its own counts in the step that follows from them. */
inline record(v) {
    if
    :: (v) == 0
#ifdef FAULT_PUBLISHED_FIRST
    :: atomic { (v) != 0 && !FULL -> published[me]++ };
        entry[me * ENTRIES + (published[me] - 1) % ENTRIES] = v
#else
    :: atomic { (v) != 0 && !FULL -> PUT(v) };
        published[me]++
#endif
#ifdef SMALL_BUFFER
    :: (v) != 0 && FULL ->
        flush();
        PUT(v);
        published[me]++
#endif
    fi
}

#ifdef NO_OLD
#define record_old(v) skip
#else
#define record_old(v) record(v)
#endif
#ifdef NO_NEW
#define record_new(v) skip
#else
#define record_new(v) record(v)
#endif

/* ------------------------------------------------------------------------------------------------ operands */

#define HAS_FIELDS(v) ((v) != 0 && FIELDS_OF(v) != 0)
#define AN_OBJECT     (HAS_FIELDS(R(0)) || HAS_FIELDS(R(1)))

inline pick_object(o) {
    if
    :: HAS_FIELDS(R(0)) -> o = R(0)
    :: HAS_FIELDS(R(1)) -> o = R(1)
    fi
}

#if FIELDS == 1
#define pick_field(o, k) k = 0
#else
inline pick_field(o, k) {
    k = 0;
    do
    :: k + 1 < FIELDS_OF(o) -> k++
    :: break
    od
}
#endif

inline pick_value(o, n) {
    if
    :: R(0) != 0 && R(0) != o -> n = R(0)
    :: R(1) != 0 && R(1) != o -> n = R(1)
    :: n = 0
    fi
}

inline pick_register(d) {
    if
    :: d = 0
    :: d = 1
    fi
}

#if defined(SLIP_DELETE)
#define PLAIN_STORES
#define pick_plain(o, k, n) n = 0
#elif defined(SLIP_INSERT)
#define PLAIN_STORES
#define pick_plain(o, k, n) pick_value(o, n); n = (FIELD(o, k) == 0 -> n : FIELD(o, k))
#elif defined(SLIP_ANY)
#define PLAIN_STORES
#define pick_plain(o, k, n) pick_value(o, n)
#endif

/* -------------------------------------------------------------------------------------------------- stores */

/* tern_store. Rule S3: the old value is loaded, into a register that a stop sees, before the flag is tested. */
inline store() {
#if defined(FAULT_FLAG_FIRST)
    flag = on;
    OWN = FIELD(o, k);
    if
    :: flag -> flag = false;
#elif defined(FAULT_OLD_NOT_HELD)
    lost = FIELD(o, k);
    if
    :: on -> OWN = lost;
#else
    OWN = FIELD(o, k);
    if
    :: on ->
#endif
        record_old(OWN);
        record_new(n)
    :: else
    fi;
    d_step {
        printf("%d: object %d field %d was %d, is %d\n", me, o, k, FIELD(o, k), n);
        FIELD(o, k) = n;
        OWN = 0;
        busy = busy & ~BIT(o);
        o = 0;
        k = 0;
        n = 0
    }
}

/* tern_exchange; and tern_cas, which does not try again. Both record before they try. */
inline exchange() {
#ifdef FAULT_SWAPPED_FIRST
    d_step { OWN = FIELD(o, k); FIELD(o, k) = n };
    if
    :: on -> record_old(OWN); record_new(n)
    :: else
    fi;
#else
    OWN = FIELD(o, k);
    do
    :: true ->
        if
        :: on -> record_old(OWN); record_new(n)
        :: else
        fi;
        if
#ifdef FAULT_SWAPPED_BLINDLY
        :: atomic { true -> OWN = FIELD(o, k); FIELD(o, k) = n; break }
#else
        :: atomic { FIELD(o, k) == OWN ->
                    printf("%d: object %d field %d was %d, is %d\n", me, o, k, OWN, n); FIELD(o, k) = n; break }
        :: atomic { FIELD(o, k) != OWN -> OWN = FIELD(o, k) };
            if
            :: printf("%d: exchange tries again\n", me)
            :: atomic { printf("%d: compare-and-swap gives up\n", me); break }
            fi
#endif
        fi
    od;
#endif
    atomic { R(d) = OWN; OWN = 0; assert_object(R(d)); o = 0; k = 0; n = 0; d = 0 }
}

#ifdef CAN_MOVE
/*
 * tern_move_range within the object o: MOVED fields go up or down by one, in chunks. Each chunk is inside S1: it
 * tests the flag, records what is there and what comes, then writes, reading the values again.
 */
#define PLACE(j) (up -> MOVED - 1 - (j) : (j))
#define FROM(j)  (up -> PLACE(j) : PLACE(j) + 1)
#define TO(j)    (up -> PLACE(j) + 1 : PLACE(j))

inline move_range() {
#ifdef FAULT_FLAG_ONCE
    flag = on;
#endif
    do
    :: atomic { j < MOVED ->
#ifndef FAULT_MOVE_OUTSIDE_S1
                ENTER;
#endif
                c = (j + CHUNK < MOVED -> j + CHUNK : MOVED);
                i = j };
        if
#ifdef FAULT_FLAG_ONCE
        :: flag ->
#else
        :: on ->
#endif
            do
            :: atomic { i < c -> OWN = FIELD(o, TO(i)) };
                record_old(OWN);
                OWN = FIELD(o, FROM(i));
                record_new(OWN);
                atomic { OWN = 0; i++ }
            :: i == c -> break
            od
        :: else
        fi;
        do
        :: atomic { j < c ->
                    printf("%d: object %d field %d was %d, is %d\n", me, o, TO(j), FIELD(o, TO(j)),
                           FIELD(o, FROM(j)));
                    FIELD(o, TO(j)) = FIELD(o, FROM(j));
                    j++ }
        :: j == c -> break
        od;
#ifndef FAULT_MOVE_OUTSIDE_S1
        LEAVE
#endif
    :: atomic { j == MOVED -> busy = busy & ~BIT(o); j = 0; i = 0; c = 0; flag = false; o = 0; up = false; break }
    od
}
#endif

/* ---------------------------------------------------------------------------------------------- allocation */

#ifdef PAGES
/* The thread has the page's claim. The marks of free slots are set: while marking they stay so, and are black. */
inline take_mask(p) {
    taken = PAGE(p) & ~alloc;
    atomic {
        if
#ifndef FAULT_WHITE_ALLOCATION
        :: on && taken != 0 -> printf("%d: takes the mask %d, black\n", me, taken)
#endif
        :: else -> printf("%d: takes the mask %d, white\n", me, taken); mark = mark & ~taken
        fi
    };
    atomic { alloc = alloc | taken; mask[me] = taken; taken = 0 } /* inside S1: no stop sees one without the other */
}

#define WANTS(p) (mask[me] == 0 && p < PAGES)

/* A new mask, inside S1; none if nothing is free. */
inline refill() {
    atomic { ENTER; p = owned[me] };
    if
    :: p != NO_PAGE ->
        do
        :: claim[p] == CLAIM(epoch, OWNED) -> break
        :: atomic { claim[p] == CLAIM(epoch - 1, OWNED) -> claim[p] = CLAIM(epoch, SWEEPING) };
            sweep_page(p, kept);
            atomic { printf("%d: has swept the page it owns\n", me); claim[p] = CLAIM(epoch, OWNED) }
        od;
        take_mask(p);
        if
        :: atomic { mask[me] == 0 -> claim[p] = CLAIM(epoch, SWEPT); owned[me] = NO_PAGE }
        :: else
        fi
    :: else
    fi;
    p = 0;
    do
    :: atomic { WANTS(p) && claim[p] == CLAIM(epoch, SWEPT) && (PAGE(p) & ~alloc) != 0 -> seen = claim[p] };
        if
        :: atomic { claim[p] == seen -> claim[p] = CLAIM(epoch, OWNED); owned[me] = p };
            take_mask(p)
        :: atomic { claim[p] != seen -> printf("%d: another has taken the page\n", me) }
        fi;
        p++
    :: atomic { WANTS(p) && claim[p] == CLAIM(epoch - 1, SWEPT) -> seen = claim[p] };
        if
        :: atomic { claim[p] == seen -> claim[p] = CLAIM(epoch, SWEEPING) };
            sweep_page(p, kept);
            atomic { claim[p] = CLAIM(epoch, OWNED); owned[me] = p };
            take_mask(p);
            if
            :: atomic { mask[me] == 0 -> claim[p] = CLAIM(epoch, SWEPT); owned[me] = NO_PAGE }
            :: atomic { mask[me] != 0 -> printf("%d: has swept a page and found room\n", me) }
            fi
        :: atomic { claim[p] != seen -> printf("%d: another sweeps the page\n", me) }
        fi;
        p++
    :: atomic { WANTS(p) && claim[p] != CLAIM(epoch - 1, SWEPT) &&
                !(claim[p] == CLAIM(epoch, SWEPT) && (PAGE(p) & ~alloc) != 0) -> p++ }
    :: atomic { !WANTS(p) -> p = 0; seen = 0; LEAVE; break }
    od
}

/* Rule S2: the address is in a register before the mask's bit goes. Outside S1, but for the refill. */
inline allocate() {
    if
    :: mask[me] == 0 -> refill()
    :: else
    fi;
    if
    :: atomic { mask[me] != 0 ->
            n = 1;
            do
            :: (mask[me] & BIT(n)) == 0 -> n++
            :: else -> break
            od;
#ifdef FAULT_BIT_FIRST
            mask[me] = mask[me] & ~BIT(n) };
        R(d) = n;
#else
            R(d) = n };
        mask[me] = mask[me] & ~BIT(n);
#endif
        atomic { /* zeroed before it is returned */
            printf("%d: allocates %d\n", me, n);
            hand_out(n);
            reach_slot_again(n == 2); /* it held garbage at first */
            k = 0;
            do
            :: k < FIELDS -> FIELD(n, k) = 0; k++
            :: else -> k = 0; n = 0; d = 0; break
            od
        }
    :: atomic { mask[me] == 0 -> printf("%d: no memory\n", me); d = 0 }
    fi
}
#endif

/* ---------------------------------------------------------------------------------------------- weak reads */

#ifdef WEAK
/* Whether the object is dead: it was freed, or its page is unswept and it is not marked. */
inline find_dead(v) {
    dead = (BIT(v) & ~alloc) != 0;
    unswept = (swept != epoch);
    atomic { dead = dead || (unswept && (BIT(v) & ~mark) != 0); unswept = false }
}

/*
 * Inside S1. While marking, the target is recorded. Between the end stop and the clearing of cells the marks say
 * whether it is dead; since the clearing, and then the sweep, may come at any step, the flag is looked at again
 * after the marks, and the cell after the flag.
 */
inline weak_read() {
#ifndef FAULT_WEAK_OUTSIDE_S1
    ENTER;
#endif
    OWN = cell;
    if
#ifdef FAULT_WEAK_NOT_RECORDED
    :: on
#else
    :: on -> record(OWN)
#endif
    :: else ->
        if
        :: deciding ->
            find_dead(OWN);
            if
#ifndef FAULT_WEAK_ONE_LOOK
            :: atomic { !deciding -> printf("%d: looks at the cell again\n", me) }; OWN = cell
            :: atomic { deciding && dead -> printf("%d: finds the target dead, the cell not cleared\n", me); OWN = 0 }
            :: deciding && !dead
#else
            :: dead -> OWN = 0
            :: !dead
#endif
            fi;
            dead = false
#ifndef FAULT_WEAK_ONE_LOOK
        :: else -> OWN = cell
#else
        :: else
#endif
        fi
    fi;
    atomic {
        printf("%d: reads %d from the weak reference\n", me, OWN);
#ifndef NULL_UNCHECKED
        assert(OWN != 0 || cell == 0 || deciding); /* NULL only when the target is dead */
#endif
        R(d) = OWN;
        OWN = 0;
        assert_object(R(d));
        d = 0
    }
#ifndef FAULT_WEAK_OUTSIDE_S1
    ; LEAVE
#endif
}
#endif

/* ---------------------------------------------------------------------------------------------- the thread */

proctype mutator(bit me) {
    byte o, k, n, d; /* operands: object, field, value, the register that gets the result */
#ifdef SMALL_BUFFER
    byte n_;
#endif
#if defined(FAULT_FLAG_FIRST) || defined(CAN_MOVE)
    bool flag;
#endif
#ifdef FAULT_OLD_NOT_HELD
    byte lost;
#endif
#ifdef CAN_MOVE
    bool up;
    byte j, i, c;
#endif
#ifdef PAGES
    byte p, seen, taken, kept;
#endif
#ifdef WEAK
    bool dead, unswept;
#endif

end: /* it may stay here */
    do
    :: atomic { fuel > 0 && R(0) != 0 -> fuel--; printf("%d: drops %d\n", me, R(0)); R(0) = 0 }
    :: atomic { fuel > 0 && R(1) != 0 -> fuel--; printf("%d: drops %d\n", me, R(1)); R(1) = 0 }
#ifdef CAN_LOAD
    :: atomic { fuel > 0 && CAN_LOAD && AN_OBJECT -> fuel--; pick_object(o); pick_field(o, k); pick_register(d);
                printf("%d: loads %d from object %d field %d\n", me, FIELD(o, k), o, k);
                R(d) = FIELD(o, k); assert_object(R(d)); o = 0; k = 0; d = 0 }
#endif
#ifdef CAN_STORE
    :: atomic { fuel > 0 && CAN_STORE && AN_OBJECT -> fuel--; pick_object(o); pick_field(o, k); pick_value(o, n);
                MAY_STORE_TO(o); busy = busy | BIT(o);
                printf("%d: begins to store %d to object %d field %d\n", me, n, o, k) };
        store()
#endif
#ifdef PLAIN_STORES
    :: atomic { fuel > 0 && slips > 0 && AN_OBJECT -> fuel--; slips--; pick_object(o); pick_field(o, k);
                MAY_STORE_TO(o); pick_plain(o, k, n);
                printf("%d: SLIP: object %d field %d was %d, is %d\n", me, o, k, FIELD(o, k), n);
                FIELD(o, k) = n; o = 0; k = 0; n = 0 }
#endif
#ifdef CAN_EXCHANGE
    :: atomic { fuel > 0 && CAN_EXCHANGE && AN_OBJECT -> fuel--; pick_object(o); pick_field(o, k); pick_value(o, n);
                d = (R(0) == o -> 1 : 0);
                printf("%d: begins to exchange %d in object %d field %d\n", me, n, o, k) };
        exchange()
#endif
#ifdef CAN_MOVE
    :: atomic { fuel > 0 && CAN_MOVE && AN_OBJECT -> fuel--; pick_object(o); MAY_STORE_TO(o);
                busy = busy | BIT(o);
                if
                :: up = false
                :: up = true
                fi;
                printf("%d: begins to move\n", me) };
        move_range()
#endif
#ifdef CAN_ALLOCATE
    :: atomic { fuel > 0 && CAN_ALLOCATE -> fuel--; d = 1 };
        allocate()
#endif
#ifdef CAN_READ_WEAK
    :: atomic { fuel > 0 && CAN_READ_WEAK -> fuel--; pick_register(d); printf("%d: begins a weak read\n", me) };
        weak_read()
#endif
#ifdef CAN_HIDE
    :: atomic { fuel > 0 && CAN_HIDE && cache == 0 -> fuel--; pick_register(d);
                printf("%d: puts %d into hidden memory\n", me, R(d)); cache = R(d); R(d) = 0; d = 0 }
#endif
#ifdef CAN_TAKE
    :: atomic { fuel > 0 && CAN_TAKE && cache != 0 -> fuel--; pick_register(d);
                printf("%d: takes %d from hidden memory\n", me, cache);
                R(d) = cache; assert_object(R(d)); cache = 0; d = 0 }
#endif
    od
}
