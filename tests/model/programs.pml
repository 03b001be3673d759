/*
 * The programs: a small heap and what the mutators do to it, one feature each, so that all that can happen can be
 * visited. FUEL, CYCLES and SLIPS may be given with -D.
 *
 *   SLOTS, POINTERS, FIELDS   slots of the heap; the first POINTERS of them have FIELDS fields, the others none
 *   SMALL_BUFFER              barrier buffers have one entry, so that they get full
 *   PAGES                     masks and pages with claims; without: nothing is allocated, sweeping is one step
 *   CAN_...                   which operations there are, to whom (me), and when
 *   INITIAL                   what is there before the first step
 *   FUEL                      operations, of both mutators together
 *   CYCLES                    that are run
 *   SLIPS                     plain stores, where there are any
 */
#define A 1
#define B 2
#define X 3
#define FIELDS_OF(v) ((v) <= POINTERS -> FIELDS : 0)

#if defined(PROGRAM_STORE) /* Two objects that are stored to; a third is held by one of them. */
#define SLOTS    3
#define POINTERS 3
#define FIELDS   1
#define INITIAL  alloc = ALL; FIELD(A, 0) = X; reg[0] = A; reg[1] = B; reg[2] = A
#define CAN_LOAD  true
#define CAN_STORE true

#elif defined(PROGRAM_CHAIN) /* Marking has to go on from what is found late. */
#define SLOTS    3
#define POINTERS 3
#define FIELDS   1
#define INITIAL  alloc = ALL; FIELD(A, 0) = B; FIELD(B, 0) = X; reg[0] = A; reg[2] = A
#define CAN_LOAD  true
#define CAN_STORE true

#elif defined(PROGRAM_FLUSH) /* The same, and buffers get full. */
#define SLOTS    3
#define POINTERS 3
#define FIELDS   1
#define SMALL_BUFFER
#define INITIAL  alloc = ALL; FIELD(A, 0) = B; FIELD(B, 0) = X; reg[0] = A; reg[2] = A
#define CAN_LOAD  true
#define CAN_STORE true

#elif defined(PROGRAM_EXCHANGE) /* Both exchange in the same fields. */
#define SLOTS    3
#define POINTERS 2
#define FIELDS   1
#define INITIAL  alloc = ALL; FIELD(A, 0) = X; reg[0] = A; reg[1] = B; reg[2] = A
#define CAN_EXCHANGE true

#elif defined(PROGRAM_MOVE) || defined(PROGRAM_MOVE_TWO) /* An array, moved up and down by one, in chunks of 1 or 2. */
#define SLOTS    3
#define POINTERS 1
#define FIELDS   3
#define MOVED    2
#ifdef PROGRAM_MOVE
#define CHUNK    1
#else
#define CHUNK    2
#endif
#define INITIAL  alloc = ALL; FIELD(A, 0) = B; FIELD(A, 1) = X; reg[0] = A; reg[2] = A
#define CAN_LOAD  true
#define CAN_STORE (me == 1)
#define CAN_MOVE  (me == 0)

#elif defined(PROGRAM_ALLOCATE) /* New objects, stored and loaded. */
#define SLOTS    4
#define POINTERS 4
#define FIELDS   1
#define PAGES    1
#define INITIAL  alloc = BIT(A) | BIT(B); FIELD(A, 0) = B; reg[0] = A; reg[2] = A; claim[0] = CLAIM(1, SWEPT)
#define CAN_LOAD     true
#define CAN_STORE    true
#define CAN_ALLOCATE true

#elif defined(PROGRAM_SWEEP) /* Masks are taken from pages that hold garbage, against the sweeper and each other. */
#define SLOTS    4
#define POINTERS 0
#define FIELDS   1
#define PAGES    2
#define INITIAL                                                                                                    \
    alloc = BIT(1) | BIT(2) | BIT(3); reg[0] = 1; claim[0] = CLAIM(1, SWEPT); claim[1] = CLAIM(1, SWEPT)
#define CAN_ALLOCATE true

#elif defined(PROGRAM_WEAK) /* A weak reference to what a field holds. */
#define SLOTS    2
#define POINTERS 2
#define FIELDS   1
#define WEAK
#define INITIAL  alloc = ALL; FIELD(A, 0) = B; cell = B; reg[0] = A; reg[2] = A
#define CAN_LOAD      true
#define CAN_STORE     true
#define CAN_READ_WEAK true

#elif defined(PROGRAM_TAKEN) /* A pointer lies in hidden memory only, and is taken from there while marking. */
#define SLOTS    3
#define POINTERS 2
#define FIELDS   1
#define HIDING
#define INITIAL  alloc = ALL; cache = X; reg[0] = A; reg[1] = B; reg[2] = A
#define CAN_LOAD  true
#define CAN_STORE true
#define CAN_TAKE  (on && cycles == 1)

#elif defined(PROGRAM_PUT_AWAY) /* A pointer goes into hidden memory while marking, and comes back before the next cycle. */
#define SLOTS    3
#define POINTERS 2
#define FIELDS   1
#define HIDING
#define INITIAL  alloc = ALL; FIELD(A, 0) = X; reg[0] = A; reg[1] = B; reg[2] = A
#define CAN_LOAD  true
#define CAN_STORE true
#define CAN_HIDE  (on && cycles == 1)
#define CAN_TAKE  (cycles == 1)

#elif defined(PROGRAM_HIDDEN) /* A pointer lies in hidden memory only, for as long as it likes. */
#define SLOTS    3
#define POINTERS 2
#define FIELDS   1
#define HIDING
#define INITIAL  alloc = ALL; cache = X; reg[0] = A; reg[1] = B; reg[2] = A
#define CAN_LOAD  true
#define CAN_STORE true
#define CAN_TAKE  true

#else
#error "name a program: -DPROGRAM_STORE and so on, see programs.pml"
#endif

#ifndef FUEL
#define FUEL 3
#endif
#ifndef CYCLES
#define CYCLES 2
#endif
#ifndef SLIPS
#define SLIPS 1
#endif
#ifdef SMALL_BUFFER
#define ENTRIES 1
#else
#define ENTRIES (4 * FUEL) /* never full: a move makes four, the others two */
#endif
