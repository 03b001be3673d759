/*
 * The heap, the words that threads and collector share, and the property that is checked. A pointer is the number
 * of a slot, 1 to SLOTS; 0 is NULL. Sets of slots are bit masks.
 */
#define BIT(v)      ((1 << (v)) >> 1) /* the set of one slot; of NULL: the empty set */
#define ALL         ((1 << SLOTS) - 1)
#define FIELD(v, k) field[((v) - 1) * FIELDS + (k)]

byte alloc;                  /* slots that are objects, or shown by an open mask */
byte mark;                   /* changed by atomic read-modify-write; the marks of free slots are set (sealed) */
byte grey;                   /* the markers' pool */
byte field[SLOTS * FIELDS];
bool on;                     /* the barrier's flag. Written in stops */
byte epoch = 1;              /* the number of markings that have ended, plus one. Written in stops */
byte cycles;                 /* that have begun */

/* What a stop looks at as roots: two registers of the program for each thread, and one of the library's. */
byte reg[4];
byte own_reg[2];
byte depth[2];               /* not 0: inside S1 */

/* Barrier buffers. Positions are absolute: the entry n is at n modulo ENTRIES. */
byte entry[2 * ENTRIES];
byte published[2];           /* how many were written. By the owner */
byte recycled[2];            /* entries before this one may be written over. By the owner, inside S1 */
byte looked_at[2];           /* entries before this one were looked at. By the collector, in stops */

#ifdef PAGES
/* Pages of SLOTS / PAGES slots each. The claim word says who may change their bits of alloc. */
#define PAGE_SLOTS (SLOTS / PAGES)
#define PAGE(p)    (((1 << PAGE_SLOTS) - 1) << ((p) * PAGE_SLOTS))
#define CLAIM(at, state) ((at) * 4 + (state))
#define SWEPT      0
#define OWNED      1
#define SWEEPING   2
#define NO_PAGE    255
byte claim[PAGES];           /* SWEPT of the epoch before: unswept; OWNED of the epoch before: owned, unswept */
byte mask[2];                /* slots that the thread's open mask still shows */
byte owned[2] = NO_PAGE;     /* the page it is of */
#endif

#ifdef WEAK
byte cell;                   /* a weak reference's target */
bool deciding;               /* from the end stop until the cell of a dead target was cleared */
byte swept = 1;              /* the epoch that the claim of the only page says */
#endif

#ifdef HIDING
byte cache;                  /* a pointer in memory that the collector does not look at */
#endif

/* Of the property only: no step depends on it. */
byte live;                   /* handed out as objects, and not freed since */
byte held, before, i_, v_;   /* scratch, 0 between steps */

#define NOBODY_INSIDE (depth[0] == 0 && depth[1] == 0)

/* An entry that was read is not looked at again, but by some of the faults: forgetting it saves states. */
#if defined(FAULT_FLUSH_OUTSIDE_S1) || defined(FAULT_RELATIVE_COUNT) || defined(FAULT_READ_NOT_MOVED) ||            \
    defined(FAULT_PUBLISHED_FIRST)
#define FORGET(e) skip
#else
#define FORGET(e) e = 0
#endif
#define FIRST_UNREAD(m) (looked_at[m] > recycled[m] -> looked_at[m] : recycled[m])

/* To the pool, unless it was marked. Between reading a word and marking what it says no step of another matters. */
inline shade(v) {
    grey = grey | (BIT(v) & ~mark);
    mark = mark | BIT(v)
}

/* held: what the program can reach, from its registers and through the fields of objects. */
inline find_held() {
    held = BIT(reg[0]) | BIT(reg[1]) | BIT(reg[2]) | BIT(reg[3]);
    before = 0;
    do
    :: held != before ->
        before = held;
        v_ = 1;
        do
        :: v_ <= SLOTS && (held & live & BIT(v_)) != 0 ->
            i_ = 0;
            do
            :: i_ < FIELDS -> held = held | BIT(FIELD(v_, i_)); i_++
            :: else -> break
            od;
            v_++
        :: v_ <= SLOTS && (held & live & BIT(v_)) == 0 -> v_++
        :: v_ > SLOTS -> break
        od
    :: else -> break
    od
}

#ifdef WEAK
#define CELLS_ARE_CLEARED(set) assert((BIT(cell) & (set)) == 0)
#else
#define CELLS_ARE_CLEARED(set) skip
#endif

/* The property: what is freed can not be reached, */
inline free_slots(set) {
    if
    :: (set) != 0 ->
        printf("slots %d are freed (a set)\n", set);
        find_held();
        assert((held & (set)) == 0);
        CELLS_ARE_CLEARED(set);
        live = live & ~(set);
        held = 0;
        before = 0;
        i_ = 0;
        v_ = 0
    :: else
    fi
}

/* what is handed out is free, */
inline hand_out(v) {
    assert((live & BIT(v)) == 0);
    live = live | BIT(v)
}

/* and what the program reads is an object. */
#define assert_object(v) assert((v) == 0 || (live & BIT(v)) != 0)

/* With -DREACH_... an error says that the state is visited. */
#ifdef REACH_LATE_ENTRY
#define reach_late_entry(state) assert(!(state))
#else
#define reach_late_entry(state) skip
#endif
#ifdef REACH_SECOND_RETURN
#define reach_second_return(state) assert(!(state))
#else
#define reach_second_return(state) skip
#endif
#ifdef REACH_SCAN_WITHIN_CHUNK
#define reach_scan_within_chunk(state) assert(!(state))
#else
#define reach_scan_within_chunk(state) skip
#endif
#ifdef REACH_SLOT_AGAIN
#define reach_slot_again(state) assert(!(state))
#else
#define reach_slot_again(state) skip
#endif
#ifdef REACH_OWNED_PAGE_SWEPT
#define reach_owned_page_swept(state) assert(!(state))
#else
#define reach_owned_page_swept(state) skip
#endif

#ifdef PAGES
/* By who has the page's claim; another who changed the bitmaps between these steps would be overruled. */
inline sweep_page(p, kept) {
    kept = alloc & mark & PAGE(p);
    d_step {
        free_slots(alloc & PAGE(p) & ~kept);
        alloc = (alloc & ~PAGE(p)) | kept
    }
    atomic { mark = (mark & ~PAGE(p)) | (PAGE(p) & ~kept); kept = 0 }
}
#endif
