/*
 * A stop comes at any instruction (rules S1 to S4, S8) where marking runs beside the program. Each way to store a
 * pointer, and each way to come by one, is stepped under gcverify with, after an instruction,
 *   a whole cycle (at many instructions of a call);
 *   a cycle's start alone: the rest of the call runs while the cycle marks, and it ends after the call;
 *   the same, and all that can be marked then is marked at once: the rest of the call meets a black heap;
 *   a cycle's end alone: it began before the call, with or without that marking.
 * The last four take a call for each instruction that they come at. What a call overwrites, and what it writes, stands
 * nowhere else; the objects' contents tell whether they were lost, and gcverify looks at the start and at the end.
 *
 * Seen to fail:
 *   - tern_store that looks at the flag, then loads the old value (rule S3), at a start: gcverify, "... led to it when
 *     the cycle began and holds something else now", store, instruction 18
 *   - tern_store that has no register hold the old value up to the write (S3): the same, store, instruction 25
 *   - store_piece that does not record what it overwrites: the same, store_range, instruction 2
 *   - alloc_take_slot that writes the mask, then forms the address (S2): the first allocation, at a whole cycle
 *   - weak_get that does not record what it returns: "weak_get into a new object: the object is not there any more"
 * Not to be seen, as registers are roots at both stops: a count that is published before its word (S4).
 *
 * ctest: serial timeout=300 lanes=none
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#if !defined(__x86_64__)
int main(void) {
    puts("skipped: the trap flag is x86_64's");
    return 77;
}
#else

#include "gc/barrier.h"
#include "single_step_objects.h"

/* ---- pieces of a cycle at one instruction ---- */

enum piece { START, START_AND_MARK, END, END_AFTER_MARK, PIECES };

static const char *const piece_names[PIECES] = {"start", "start and marking", "end", "end after marking"};

/* Instructions of a call at which a piece may be placed. */
#define PLACES_NOTED       20000
/*
 * Of those, so many are: each takes a call that is stepped up to there, at 10 to 20 us an instruction. So fewer in long
 * calls, of which each instruction meets a whole cycle anyhow.
 */
#define PLACES_MOST        36
#define PLACES_LEAST       4
#define STEPS_MOST         3000
/* Where nobody can say how long to wait, fewer: each costs milliseconds. */
#define PLACES_UNSEEN_MOST 8

static struct {
    uint8_t place[PLACES_NOTED]; /* enum place, of the call's first run */
    uint64_t count;
    uint64_t at;             /* the instruction for this call */
    enum request request;    /* what is done there */
    uint32_t turn;           /* 0: not done yet */
    uint64_t placed, passed; /* of the operation so far: waited for, and not */
} piece;

static bool note_place(void) {
    if (piece.count < PLACES_NOTED)
        piece.place[piece.count++] = (uint8_t)place_now();
    return true;
}

static bool place_piece(void) {
    enum place place = place_now();
    if (step.instructions < piece.at)
        return true;
    piece.turn = ask_for(piece.request);
    if (place == PLACE_STOPPABLE) {
        piece.placed++;
        if (!wait_for(piece.turn, GIVE_UP_NS)) {
            say_where("no cycle within 20 s");
            abort();
        }
    } else {
        piece.passed++;
        if (place == PLACE_UNSEEN)
            wait_for(piece.turn, BOUNDED_WAIT_NS);
    }
    return false;
}

static NOINLINE void request_and_wait(enum request what) {
    clear_stack();
    if (!wait_for(ask_for(what), GIVE_UP_NS))
        fail_msg("%s: no cycle within 20 s", step.name);
}

static bool is_start(enum piece which) {
    return which == START || which == START_AND_MARK;
}

static enum request request_of(enum piece which) {
    return which == START || which == END                       ? REQUEST_START
           : which == START_AND_MARK || which == END_AFTER_MARK ? REQUEST_START_AND_MARK
                                                                : REQUEST_WHOLE;
}

/* Before the call, and after it: when both are over, so is the cycle. */
static void piece_begin(enum piece which, uint64_t at) {
    piece.at = at;
    piece.turn = 0;
    piece.request = is_start(which) ? request_of(which) : REQUEST_END;
    step.visit = place_piece;
    if (!is_start(which))
        request_and_wait(request_of(which));
}

static void piece_end(enum piece which) {
    if (piece.turn != 0 && !wait_for(piece.turn, GIVE_UP_NS))
        fail_msg("%s: no cycle within 20 s", step.name);
    if (is_start(which) == (piece.turn != 0))
        request_and_wait(REQUEST_END);
}

/* ---- operations ---- */

struct store_operation {
    const char *name;
    void (*prepare)(void); /* outside of the stepping */
    void *(*call)(const struct operation *op);
    void (*check)(void *result);
    const struct operation *op; /* for `call` */
};

/* Roots. */
static void **holder, **source, *result_root;
static tern_weak *weak;
static void *root_words[4]; /* while registered */
static tern_handle handle;
static void *cleanup_object;

#define FIELDS     32
#define ITEM_BYTES 40

/* What is known of an object without keeping it. */
struct item {
    uintptr_t hidden; /* complement of its address; 0: no object */
    uint64_t seed;
};

static struct item in_holder[FIELDS], in_source[FIELDS], in_taken;

static const char *now_checked;
static bool nothing_died;       /* no cycle ended before the call did */
static uint64_t given, refused; /* reads of weak references */

static void *new_item(struct item *item) {
    item->seed = new_seed();
    void *object = tern_alloc(ITEM_BYTES);
    fill(object, ITEM_BYTES, item->seed);
    item->hidden = ~(uintptr_t)object;
    return object;
}

/* All new: the holder with its objects, the source with others, and one in `taken`. */
static NOINLINE void new_objects(void) {
    holder = tern_alloc(FIELDS * sizeof *holder);
    source = tern_alloc(FIELDS * sizeof *source);
    for (size_t i = 0; i < FIELDS; i++) {
        tern_store(&holder[i], new_item(&in_holder[i]));
        tern_store(&source[i], new_item(&in_source[i]));
    }
    taken = new_item(&in_taken);
}

static NOINLINE void is_whole(const void *object, const struct item *item) {
    must((uintptr_t)object == ~item->hidden, now_checked, "another object is there");
    must(tern_object_find(object, NULL), now_checked, "the object is not there any more");
    must(holds(object, ITEM_BYTES, item->seed), now_checked, "the object was overwritten");
}

/* The holder has the objects [from, to) of before in the fields from `at` on. */
static void has(size_t at, const struct item *items, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        is_whole(holder[at + i - from], &items[i]);
}

static void *store(const struct operation *op) {
    (void)op;
    tern_store(&holder[3], take());
    return NULL;
}
static void check_store(void *result) {
    (void)result;
    has(0, in_holder, 0, 3);
    is_whole(holder[3], &in_taken);
    has(4, in_holder, 4, FIELDS);
}

static void *store_null(const struct operation *op) {
    (void)op;
    void *object = holder[3];
    tern_store(&holder[3], NULL);
    return object;
}
static void check_store_null(void *result) {
    must(holder[3] == NULL, now_checked, "the field is not NULL");
    is_whole(result, &in_holder[3]);
}

static void *init_store(const struct operation *op) {
    (void)op;
    void **fresh = tern_alloc(48);
    tern_init_store(&fresh[1], take());
    return fresh;
}
static void *plain_init(const struct operation *op) {
    (void)op;
    void **fresh = tern_alloc(48);
    fresh[1] = take();
    return fresh;
}
static void check_init(void *result) {
    is_whole(((void **)result)[1], &in_taken);
}

static void **take_source(void) {
    void **from = source;
    source = NULL;
    return from;
}
static void *store_range(const struct operation *op) {
    (void)op;
    tern_store_range(&holder[2], take_source(), 8);
    return NULL;
}
static void check_store_range(void *result) {
    (void)result;
    has(0, in_holder, 0, 2);
    has(2, in_source, 0, 8);
    has(10, in_holder, 10, FIELDS);
}

static void *move_up(const struct operation *op) {
    (void)op;
    tern_move_range(&holder[3], &holder[0], 8);
    return NULL;
}
static void check_move_up(void *result) {
    (void)result;
    has(0, in_holder, 0, 3);
    has(3, in_holder, 0, 8);
    has(11, in_holder, 11, FIELDS);
}

static void *move_down(const struct operation *op) {
    (void)op;
    tern_move_range(&holder[0], &holder[3], 8);
    return NULL;
}
static void check_move_down(void *result) {
    (void)result;
    has(0, in_holder, 3, 11);
    has(8, in_holder, 8, FIELDS);
}

static void *clear_range(const struct operation *op) {
    (void)op;
    tern_clear_range(&holder[4], 6);
    return NULL;
}
static void check_clear_range(void *result) {
    (void)result;
    has(0, in_holder, 0, 4);
    for (size_t i = 4; i < 10; i++)
        must(holder[i] == NULL, now_checked, "a field is not NULL");
    has(10, in_holder, 10, FIELDS);
}

static void *exchange(const struct operation *op) {
    (void)op;
    return tern_exchange(&holder[3], take());
}
static void check_exchange(void *result) {
    is_whole(result, &in_holder[3]);
    is_whole(holder[3], &in_taken);
}

static void *cas(const struct operation *op) {
    (void)op;
    void *expected = holder[3];
    if (!tern_cas(&holder[3], &expected, take()))
        abort();
    return NULL;
}
static void check_cas(void *result) {
    (void)result;
    is_whole(holder[3], &in_taken);
}

static void *cas_in_vain(const struct operation *op) {
    (void)op;
    void *expected = NULL;
    if (tern_cas(&holder[3], &expected, take()))
        abort();
    return expected;
}
static void check_cas_in_vain(void *result) {
    is_whole(result, &in_holder[3]);
    is_whole(holder[3], &in_holder[3]);
}

static int by_first_word(const void *a, const void *b, void *unused) {
    (void)unused;
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x < y) - (x > y);
}
static void *sort(const struct operation *op) {
    (void)op;
    if (tern_sort(holder, 4, 2 * sizeof *holder, by_first_word, NULL) != 0)
        abort();
    return NULL;
}
static void check_sort(void *result) {
    (void)result;
    for (size_t row = 0; row < 4; row++) {
        must(row == 0 || holder[2 * row] < holder[2 * row - 2], now_checked, "the rows are not sorted");
        size_t was = 0;
        while (was < 8 && ~in_holder[was].hidden != (uintptr_t)holder[2 * row])
            was += 2;
        must(was < 8, now_checked, "a row is lost");
        has(2 * row, in_holder, was, was + 2);
    }
    has(8, in_holder, 8, FIELDS);
}

/* The object that the weak reference is of has no other. */
static NOINLINE void new_weak(void) {
    new_objects();
    weak = tern_weak_new(taken);
    taken = NULL;
}
static void *weak_get(const struct operation *op) {
    (void)op;
    return tern_weak_get(weak);
}
/* While no cycle has ended, the object is there. */
static void check_weak_get(void *result) {
    must(result != NULL || !nothing_died, now_checked, "it gave nothing for an object that was not dead");
    given += result != NULL;
    refused += result == NULL;
    if (result != NULL)
        is_whole(result, &in_taken);
}
/* The new object is black: what is stored into it, past the barrier as is allowed, the read itself must have told. */
static void *weak_get_into_new(const struct operation *op) {
    (void)op;
    void **fresh = tern_alloc(48);
    fresh[1] = tern_weak_get(weak);
    return fresh;
}
static void check_weak_get_into_new(void *result) {
    check_weak_get(((void **)result)[1]);
}
static void *weak_make(const struct operation *op) {
    (void)op;
    void *object = take();
    weak = tern_weak_new(object);
    return object;
}
static void check_weak_make(void *result) {
    is_whole(result, &in_taken);
    must(tern_weak_get(weak) == result, now_checked, "the weak reference is of something else");
}

static NOINLINE void new_handle(void) {
    new_objects();
    if (handle != 0)
        tern_handle_free(handle);
    handle = tern_handle_new(holder[5]);
    tern_store(&holder[5], NULL);
}
static void *handle_set(const struct operation *op) {
    (void)op;
    tern_handle_set(handle, take());
    return NULL;
}
static void check_handle(void *result) {
    (void)result;
    is_whole(tern_handle_get(handle), &in_taken);
}
static void *handle_make(const struct operation *op) {
    (void)op;
    handle = tern_handle_new(take());
    return NULL;
}
static void *handle_get_and_free(const struct operation *op) {
    (void)op;
    void *object = tern_handle_get(handle);
    tern_handle_free(handle);
    handle = 0;
    return object;
}
static void check_handle_get(void *result) {
    is_whole(result, &in_holder[5]);
}

static void *root_add(const struct operation *op) {
    (void)op;
    void *object = root_words[2] = take();
    if (tern_root_add(root_words, sizeof root_words) != 0)
        abort();
    tern_keep(object);
    return NULL;
}
static void check_root_add(void *result) {
    (void)result;
    is_whole(root_words[2], &in_taken);
    tern_root_remove(root_words);
    root_words[2] = NULL;
}
static NOINLINE void new_root(void) {
    new_objects();
    root_words[2] = take();
    if (tern_root_add(root_words, sizeof root_words) != 0)
        abort();
}
static void *root_remove(const struct operation *op) {
    (void)op;
    void *object = root_words[2];
    if (tern_root_remove(root_words) != 0)
        abort();
    root_words[2] = NULL;
    return object;
}
static void check_taken(void *result) {
    is_whole(result, &in_taken);
}

static void never(void *argument) {
    (void)argument;
    abort();
}
static uint64_t cleanup;
static NOINLINE void new_cleanup_object(void) {
    new_objects();
    cleanup_object = tern_alloc(80);
}
static void *cleanup_add(const struct operation *op) {
    (void)op;
    cleanup = tern_cleanup_add(cleanup_object, never, take());
    return NULL;
}
static void check_cleanup(void *result) {
    (void)result;
    must(tern_object_find((void *)~in_taken.hidden, NULL) &&
             holds((unsigned char *)~in_taken.hidden, ITEM_BYTES, in_taken.seed),
         now_checked, "the argument was lost");
    must(tern_cleanup_remove(cleanup), now_checked, "the cleanup was not known");
}

/* The objects of a holder that is resized, in place or not. */
static NOINLINE void new_resized(void) {
    new_objects();
    taken = holder;
    holder = NULL;
}
static void *shrink(const struct operation *op) {
    (void)op;
    return tern_realloc(take(), (FIELDS - 3) * sizeof(void *) - 4);
}
static void check_shrink(void *result) {
    holder = result;
    has(0, in_holder, 0, FIELDS - 4);
}
static void *grow(const struct operation *op) {
    (void)op;
    return tern_realloc(take(), 2 * FIELDS * sizeof(void *));
}
static void check_grow(void *result) {
    holder = result;
    has(0, in_holder, 0, FIELDS);
    must(zeroed((unsigned char *)&holder[FIELDS], FIELDS * sizeof(void *)), now_checked,
         "what is new is not zero");
}
static void *grow_large(const struct operation *op) {
    (void)op;
    return tern_realloc(take(), 40000);
}
static void check_grow_large(void *result) {
    holder = result;
    has(0, in_holder, 0, FIELDS);
}

static NOINLINE void in_section(void) {
    tern_blocking_begin();
    clear_stack();
    tern_blocking_end();
}
static void *blocking(const struct operation *op) {
    (void)op;
    void *object = take();
    in_section();
    return object;
}

static const struct store_operation operations[] = {
    {"store", new_objects, store, check_store, NULL},
    {"store of NULL", new_objects, store_null, check_store_null, NULL},
    {"init_store", new_objects, init_store, check_init, NULL},
    {"a plain first store", new_objects, plain_init, check_init, NULL},
    {"store_range", new_objects, store_range, check_store_range, NULL},
    {"move_range up", new_objects, move_up, check_move_up, NULL},
    {"move_range down", new_objects, move_down, check_move_down, NULL},
    {"clear_range", new_objects, clear_range, check_clear_range, NULL},
    {"exchange", new_objects, exchange, check_exchange, NULL},
    {"cas", new_objects, cas, check_cas, NULL},
    {"cas in vain", new_objects, cas_in_vain, check_cas_in_vain, NULL},
    {"sort", new_objects, sort, check_sort, NULL},
    {"weak_get", new_weak, weak_get, check_weak_get, NULL},
    {"weak_get into a new object", new_weak, weak_get_into_new, check_weak_get_into_new, NULL},
    {"weak_new", new_objects, weak_make, check_weak_make, NULL},
    {"handle_set", new_handle, handle_set, check_handle, NULL},
    {"handle_new", new_objects, handle_make, check_handle, NULL},
    {"handle_get and free", new_handle, handle_get_and_free, check_handle_get, NULL},
    {"root_add", new_objects, root_add, check_root_add, NULL},
    {"root_remove", new_root, root_remove, check_taken, NULL},
    {"cleanup_add", new_cleanup_object, cleanup_add, check_cleanup, NULL},
    {"realloc, in place, shorter", new_resized, shrink, check_shrink, NULL},
    {"realloc, moving", new_resized, grow, check_grow, NULL},
    {"realloc to a large object", new_resized, grow_large, check_grow_large, NULL},
    {"blocking section", new_objects, blocking, check_taken, NULL},
};

/* ---- stepping them ---- */

/* One call, in which the stepping may be at work. Its result is in a root when it is over. */
static NOINLINE void call_stepped(const struct store_operation *o) {
    result_root = stepped(o->call, o->op);
}

static bool stop_walk(const tern_object *object, void *unused) {
    (void)object, (void)unused;
    return false;
}

static NOINLINE void call_once(const struct store_operation *o, enum piece which, uint64_t at) {
    o->prepare();
    clear_stack();
    piece_begin(which, at);
    call_stepped(o);
    piece_end(which);
    /* Sweeps: what was found dead is gone, also where gcverify could not look. */
    tern_heap_walk(stop_walk, NULL);
    now_checked = o->name;
    nothing_died = is_start(which);
    o->check(result_root);
    result_root = NULL;
}

/* The first run notes where the call can be stopped. */
static NOINLINE void look_for_places(const struct store_operation *o, enum piece which) {
    o->prepare();
    if (!is_start(which))
        request_and_wait(REQUEST_START);
    piece.count = 0;
    step.visit = note_place;
    call_stepped(o);
    if (!is_start(which))
        request_and_wait(REQUEST_END);
    now_checked = o->name;
    nothing_died = true;
    o->check(result_root);
    result_root = NULL;
}

/* Whether a piece is to be placed after instruction n: of a stretch inside S1 the first and the last. */
static bool is_wanted(uint64_t n, enum place *place) {
    *place = (enum place)piece.place[n];
    return *place != PLACE_INSIDE || n == 0 || n + 1 == piece.count || piece.place[n - 1] != PLACE_INSIDE ||
           piece.place[n + 1] != PLACE_INSIDE;
}

/* All of them, or so many of each sort, with even steps in between. */
static void step_through(const struct store_operation *o, enum piece which,
                         void (*once)(const struct store_operation *o, enum piece which, uint64_t at)) {
    uint64_t wanted[3] = {0, 0, 0}, seen[3] = {0, 0, 0};
    enum place place;
    uint64_t count = piece.count, places = 2 * part_of(STEPS_MOST) / (count + 1),
             most_places = part_of(PLACES_MOST);
    if (places < PLACES_LEAST || places > most_places)
        places = places < PLACES_LEAST ? PLACES_LEAST : most_places;
    for (uint64_t n = 0; n < count; n++)
        if (is_wanted(n, &place))
            wanted[place]++;
    for (uint64_t n = 0; n < count; n++) {
        if (!is_wanted(n, &place))
            continue;
        uint64_t most = place == PLACE_STOPPABLE || places < PLACES_UNSEEN_MOST ? places : PLACES_UNSEEN_MOST;
        uint64_t i = seen[place]++;
        if (wanted[place] <= most || i * most / wanted[place] != (i + 1) * most / wanted[place])
            once(o, which, n + 1);
    }
}

static void step_pieces(const struct store_operation *o) {
    for (enum piece which = START; which < PIECES; which++) {
        begin(o->name);
        piece.placed = piece.passed = 0;
        look_for_places(o, which);
        step_through(o, which, call_once);
        print_message("  %-38s %-18s %5lu instructions, at %3lu of them, %3lu in passing\n", o->name,
                      piece_names[which], (unsigned long)piece.count, (unsigned long)piece.placed,
                      (unsigned long)piece.passed);
        assert_true(piece.placed + piece.passed > 0);
        all_collections += piece.placed + piece.passed;
        collect();
        check_kept();
    }
}

static void step_whole(const struct store_operation *o) {
    begin(o->name);
    o->prepare();
    clear_stack();
    call_stepped(o);
    clear_stack();
    now_checked = o->name;
    nothing_died = false;
    o->check(result_root);
    result_root = NULL;
    end();
}

static void a_store_loses_nothing_wherever_it_is_stopped(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        step_whole(&operations[i]);
        step_pieces(&operations[i]);
    }
    print_message("  weak reads: %lu whole, %lu gone\n", (unsigned long)given, (unsigned long)refused);
    assert_true(given > 0);
    assert_true(refused > 0);
}

/* ---- allocations, while a cycle marks ---- */

static const struct operation *allocation;

static void prepare_allocation(void) {
    prepare(allocation);
}
static void check_allocation(void *result) {
    struct kept *k = keep(allocation->name, result, allocation->bytes);
    must(k->at != NULL, k->name, "there is no object");
    must(zeroed(k->at, k->bytes), k->name, "the object is not zeroed");
    k->seed = new_seed();
    fill(k->at, k->bytes, k->seed);
}

static void an_object_is_whole_wherever_its_allocation_meets_a_cycle(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof allocations / sizeof allocations[0]; i++) {
        allocation = &allocations[i];
        struct store_operation o = {allocation->name, prepare_allocation, allocation->call, check_allocation,
                                    allocation};
        step_whole(&o);
        step_pieces(&o);
        churn(allocation);
        collect();
        check_kept();
    }
}

/* ---- threads that come and go; they assert nothing themselves ---- */

/* In a thread that is not attached: the store attaches it. */
static void *store_unattached(const struct operation *op) {
    (void)op;
    tern_store(&holder[3], NULL);
    return NULL;
}
static void *attach(const struct operation *op) {
    (void)op;
    if (tern_thread_attach() != 0)
        abort();
    return NULL;
}
static void *detach(const struct operation *op) {
    (void)op;
    tern_thread_detach();
    return NULL;
}

/* Its buffer has records in it. */
static NOINLINE void store_much(void) {
    for (size_t i = 0; i < FIELDS; i++) {
        void *object = holder[i];
        tern_store(&holder[i], source[i]);
        tern_store(&source[i], object);
    }
}

static bool stores_first;

static void *thread_main(void *argument) {
    const struct store_operation *o = argument;
    if (stores_first)
        store_much();
    stepped(o->call, NULL);
    return NULL;
}

static NOINLINE void run_thread(const struct store_operation *o) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_main, (void *)(uintptr_t)o) != 0)
        abort();
    tern_blocking_begin();
    pthread_join(thread, NULL);
    tern_blocking_end();
}

static void check_first(void *result) {
    (void)result;
    has(0, in_holder, 0, 3);
    must(holder[3] == NULL, now_checked, "the field is not NULL");
    has(4, in_holder, 4, FIELDS);
}
static void check_same(void *result) {
    (void)result;
    has(0, in_holder, 0, FIELDS);
}
static void check_swapped(void *result) {
    (void)result;
    has(0, in_source, 0, FIELDS);
}

static void thread_once(const struct store_operation *o, enum piece which, uint64_t at) {
    o->prepare();
    clear_stack();
    piece_begin(which, at);
    run_thread(o);
    piece_end(which);
    now_checked = o->name;
    o->check(NULL);
}

static void step_thread(const struct store_operation *o, bool first) {
    stores_first = first;
    for (enum piece which = START; which < PIECES; which++) {
        begin(o->name);
        piece.placed = piece.passed = piece.count = 0;
        o->prepare();
        step.visit = note_place;
        if (!is_start(which))
            request_and_wait(REQUEST_START);
        run_thread(o);
        if (!is_start(which))
            request_and_wait(REQUEST_END);
        step_through(o, which, thread_once);
        print_message("  %-38s %-18s %5lu instructions, at %3lu of them, %3lu in passing\n", o->name,
                      piece_names[which], (unsigned long)piece.count, (unsigned long)piece.placed,
                      (unsigned long)piece.passed);
        assert_true(piece.placed + piece.passed > 0);
        all_collections += piece.placed + piece.passed;
    }
}

static void threads_attach_and_detach_while_a_cycle_marks(void **state) {
    (void)state;
    static const struct store_operation in_threads[] = {
        {"attach", new_objects, attach, check_same, NULL},
        {"store in a thread that is not attached", new_objects, store_unattached, check_first, NULL},
    };
    static const struct store_operation detaching = {"detach", new_objects, detach, check_swapped, NULL};
    for (size_t i = 0; i < 2; i++)
        step_thread(&in_threads[i], false);
    step_thread(&detaching, true);
    assert_int_equal(stats().threads, 2); /* this one and the collector */
}

/* An argument is a filter of test names. */
int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_loses_nothing_wherever_it_is_stopped),
        cmocka_unit_test(an_object_is_whole_wherever_its_allocation_meets_a_cycle),
        cmocka_unit_test(threads_attach_and_detach_while_a_cycle_marks),
    };
    pthread_t thread = single_step_start(TERN_STORES_BARRIER);
    if (tern_root_add(&holder, sizeof holder) != 0 || tern_root_add(&source, sizeof source) != 0 ||
        tern_root_add(&result_root, sizeof result_root) != 0 || tern_root_add(&weak, sizeof weak) != 0 ||
        tern_root_add(&cleanup_object, sizeof cleanup_object) != 0)
        return 1;
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    single_step_end(thread);
    return failures;
}

#endif
