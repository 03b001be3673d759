/*
 * A program that keeps the barrier's contract loses nothing while marking runs beside it. Threads that come and go
 * build a shared graph, change it by every store of the API, hold parts of it by weak references, handles, roots
 * that come and go and cleanups' arguments, and look at whatever they meet.
 *
 * Every node says who it is (magic, id, check), and where a pointer may be tells something about what it leads to:
 * field i of anything leads to a node of colour i % 8 and of a lower level than the node's own (so what was dropped
 * stays dropped: there is no chain to all of the past). A node that was freed while in use shows as one that is
 * overwritten, or of the wrong colour or level. Nodes with an owner are changed by that thread alone, by
 * tern_store and the range forms; those without by anybody, by exchange and compare-and-swap.
 *
 * Runs in a child for each set of settings, with the seed that it prints. TERN_TEST_SECONDS=N goes on for so long,
 * with other seeds; TERN_TEST_SEED=S begins with another one.
 *
 * Seen to fail:
 *   - tern_store, tern_exchange, or the range forms, that do not record what they overwrite: gcverify
 *   - span_take_group that leaves slots white while marking: gcverify
 *
 * ctest: timeout=300
 */
#define _GNU_SOURCE 1
#include "child.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* ---- nodes ---- */

#define NODE_MAGIC UINT64_C(0xc0ffee00dec0de01)
#define COLOURS    8
#define LEVELS     6
#define ROW        8 /* fields; rows are moved and sorted as wholes, so that colours stay */

enum node_kind { NODE_WORDS, NODE_TYPED, NODE_TYPED_ARRAY, NODE_TRACED, NODE_LEAF, NODE_KINDS };

struct node {
    uint64_t magic, id, check;
    uint64_t weak_id;        /* of what `weak` was made for */
    _Atomic uint32_t fields; /* a multiple of ROW; by the owner */
    uint32_t kind;
    uint64_t owner; /* number of the thread that alone changes it; 0: anybody, in one step */
    uint64_t *tiny; /* shares a block with others; holds the id of its node */
    tern_weak *weak;
    void *field[];
};

#define HEADER_WORDS (sizeof(struct node) / sizeof(void *))

static _Atomic uint64_t last_id;

static unsigned colour_of(uint64_t id) {
    return (unsigned)(id & 7);
}
static unsigned level_of(uint64_t id) {
    return (unsigned)(id >> 3 & 31);
}
static uint64_t new_id(unsigned colour, unsigned level) {
    return atomic_fetch_add(&last_id, 256) + 256 + level * 8 + colour;
}
/* No address: the highest bit is set. */
static uint64_t check_of(uint64_t id, unsigned kind) {
    return ((id ^ kind) * UINT64_C(0x9e3779b97f4a7c15)) | UINT64_C(1) << 63;
}

static size_t node_bytes(size_t fields) {
    return (HEADER_WORDS + fields) * sizeof(void *);
}

static _Noreturn void lost(const struct node *n, const char *what) {
    fprintf(stderr, "%p %s: magic %#llx, id %#llx, check %#llx, kind %u, %u fields\n", (const void *)n, what,
            (unsigned long long)n->magic, (unsigned long long)n->id, (unsigned long long)n->check, n->kind,
            n->fields);
    abort();
}

static void look_at(const struct node *n) {
    if (n->magic != NODE_MAGIC || n->kind >= NODE_KINDS || n->check != check_of(n->id, n->kind))
        lost(n, "is no node");
    if (n->tiny != NULL && *n->tiny != n->id)
        lost(n, "has lost its tiny object");
}

/* ---- settings ---- */

struct plan {
    const char *debug;
    unsigned threads, lives; /* at once; one after the other in the place of each */
    unsigned turns;          /* of each thread */
    size_t table;            /* slots */
    uint64_t live_most;      /* bytes; above this the table is thinned out */
};

static const struct plan *plan;
static uint64_t seed;

/* ---- what all threads share ---- */

/* A root. Slot i leads to colour i % 8, of any level. */
static void **table;

static const tern_type *types[3], *traced_type; /* of 1 to 3 rows */

static _Atomic uint64_t threads_so_far, cleaned, weak_gone, weak_there, made;

/* By capacity. */
static void trace_node(const void *object, size_t size, tern_tracer *tracer) {
    const struct node *n = object;
    tern_trace_range(tracer, &n->tiny, (size - offsetof(struct node, tiny)) / sizeof(void *));
}

static void make_types(void) {
    for (unsigned rows = 1; rows <= 3; rows++) {
        uint64_t bitmap[1] = {UINT64_C(1) << offsetof(struct node, tiny) / 8 |
                              UINT64_C(1) << offsetof(struct node, weak) / 8};
        for (unsigned i = 0; i < rows * ROW; i++)
            bitmap[0] |= UINT64_C(1) << (HEADER_WORDS + i);
        types[rows - 1] = tern_type_new("node", node_bytes(rows * ROW), bitmap);
        must(types[rows - 1] != NULL);
    }
    traced_type = tern_traced_type_new("traced node", trace_node);
    must(traced_type != NULL);
}

/* ---- one thread ---- */

#define MINE 6

struct thread {
    uint64_t random, number;
    struct node *hand[COLOURS]; /* some node of each colour */
    struct node *mine[MINE];    /* nodes that this thread owns */
    tern_handle handles[4];     /* not 0: holds a node of the colour of its index */
    void **extra;               /* malloc'd; a root while not NULL: slot i leads to colour i % 8 */
};

#define EXTRA 16

static uint64_t draw(struct thread *t, uint64_t below) {
    return next_random(&t->random) % below;
}

static struct node *load(void *const *field) {
    return (struct node *)__atomic_load_n(field, __ATOMIC_ACQUIRE);
}

/* What is in field `i` of `holder` (NULL: a root). */
static struct node *look_in(const struct node *holder, void *const *field, size_t i) {
    struct node *n = load(field);
    if (n == NULL)
        return NULL;
    look_at(n);
    if (colour_of(n->id) != i % COLOURS)
        lost(n, "has a wrong colour");
    if (holder != NULL && n != holder && level_of(n->id) >= level_of(holder->id))
        lost(n, "has a wrong level");
    return n;
}

static void take(struct thread *t, struct node *n) {
    t->hand[colour_of(n->id)] = n;
}

/* Some node that is there, by a way of a few steps. May be NULL. */
static struct node *find(struct thread *t) {
    size_t i = draw(t, plan->table);
    struct node *n = look_in(NULL, &table[i], i);
    for (unsigned steps = (unsigned)draw(t, 5); n != NULL && steps > 0; steps--) {
        uint32_t fields = atomic_load_explicit(&n->fields, memory_order_relaxed);
        if (fields == 0)
            break;
        i = draw(t, fields);
        struct node *next = look_in(n, &n->field[i], i);
        if (next == NULL)
            break;
        n = next;
    }
    if (n != NULL)
        take(t, n);
    return n;
}

/* What the thread holds of the colour of field `i`, if it may stand in a node of this level. */
static struct node *fitting(struct thread *t, size_t i, unsigned level) {
    struct node *n = t->hand[i % COLOURS];
    return n != NULL && level_of(n->id) < level ? n : NULL;
}

/* ---- building ---- */

static void *allocate(enum node_kind kind, size_t rows) {
    size_t bytes = node_bytes(rows * ROW);
    switch (kind) {
    case NODE_TYPED:
        return tern_alloc_typed(types[rows - 1], 1);
    case NODE_TYPED_ARRAY:
        return tern_alloc_typed(types[rows - 1], 3);
    case NODE_TRACED:
        return tern_alloc_traced(traced_type, bytes);
    case NODE_LEAF:
        return tern_alloc_leaf_single(bytes);
    default:
        return tern_alloc(bytes);
    }
}

static size_t draw_rows(struct thread *t, enum node_kind kind) {
    uint64_t dice = draw(t, 1000);
    if (kind == NODE_TYPED || kind == NODE_TYPED_ARRAY || dice < 900)
        return 1 + draw(t, 3);
    return dice < 985 ? 4 + draw(t, 40) : plan->live_most < 4000000 ? 600 : 600 + draw(t, 2000);
}

/* First stores: plain, or not. Nobody knows the node yet. */
static void init_node(struct thread *t, struct node *n, enum node_kind kind, size_t rows, unsigned level,
                      uint64_t owner) {
    uint64_t id = new_id((unsigned)draw(t, COLOURS), level);
    n->magic = NODE_MAGIC;
    n->id = id;
    n->check = check_of(id, kind);
    n->kind = kind;
    n->owner = owner;
    if (kind == NODE_LEAF)
        return;
    atomic_store_explicit(&n->fields, (uint32_t)(rows * ROW), memory_order_relaxed);
    if (draw(t, 3) == 0) {
        uint64_t *tiny = tern_alloc_leaf(sizeof *tiny);
        *tiny = id;
        n->tiny = tiny;
    }
    for (size_t i = 0; i < rows * ROW && i < 64; i++) {
        struct node *value = fitting(t, i, level);
        if (value == NULL || draw(t, 4) != 0)
            continue;
        if (draw(t, 2) == 0)
            n->field[i] = value;
        else
            tern_init_store(&n->field[i], value);
    }
    if (owner == 0 && draw(t, 8) == 0) /* itself: no harm */
        n->field[colour_of(id)] = n;
    struct node *watched = t->hand[draw(t, COLOURS)];
    if (watched != NULL && draw(t, 6) == 0) {
        n->weak_id = watched->id;
        n->weak = tern_weak_new(watched);
        if (n->weak == NULL)
            lost(watched, "cannot be watched");
    }
}

static struct node *build(struct thread *t, bool own) {
    enum node_kind kind = (enum node_kind)draw(t, NODE_KINDS);
    size_t rows = draw_rows(t, kind);
    unsigned level = 1 + (unsigned)draw(t, LEVELS);
    struct node *n = allocate(kind, rows);
    must(n != NULL);
    init_node(t, n, kind, rows, level, own ? t->number : 0);
    if (kind == NODE_TYPED_ARRAY) {
        size_t step = node_bytes(rows * ROW) / sizeof(void *);
        for (size_t i = 1; i < 3; i++)
            init_node(t, (struct node *)((void **)n + i * step), kind, rows, level, own ? t->number : 0);
        n = (struct node *)((void **)n + draw(t, 3) * step);
    }
    if (kind == NODE_TRACED)
        tern_publish(n);
    atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
    take(t, n);
    return n;
}

/* ---- turns ---- */

static void put_into_table(struct thread *t, struct node *n) {
    size_t i = draw(t, plan->table) / COLOURS * COLOURS + colour_of(n->id);
    if (i < plan->table)
        tern_exchange(&table[i], n);
}

static void build_one(struct thread *t) {
    put_into_table(t, build(t, false));
}

static void own_one(struct thread *t) {
    struct node *n = build(t, true);
    t->mine[draw(t, MINE)] = n;
    if (draw(t, 2) == 0)
        put_into_table(t, n);
}

static void look_around(struct thread *t) {
    for (int i = 0; i < 20; i++)
        find(t);
    for (unsigned i = 0; i < COLOURS; i++)
        if (t->hand[i] != NULL)
            look_in(NULL, (void *const *)&t->hand[i], i);
}

static void exchange_in_table(struct thread *t) {
    size_t i = draw(t, plan->table);
    struct node *n = tern_exchange(&table[i], draw(t, 4) == 0 ? NULL : t->hand[i % COLOURS]);
    if (n != NULL) {
        look_at(n);
        take(t, n);
    }
}

/* In a node that anybody may change. */
static void exchange_in_node(struct thread *t) {
    struct node *n = find(t);
    if (n == NULL || n->owner != 0 || n->fields == 0)
        return;
    size_t i = draw(t, n->fields);
    struct node *was = tern_exchange(&n->field[i], fitting(t, i, level_of(n->id)));
    if (was != NULL) {
        look_at(was);
        take(t, was);
    }
}

static void swap_if_same(struct thread *t) {
    struct node *n = find(t);
    if (n == NULL || n->owner != 0 || n->fields == 0)
        return;
    size_t i = draw(t, n->fields);
    void *expected = load(&n->field[i]);
    struct node *value = fitting(t, i, level_of(n->id));
    if (!tern_cas(&n->field[i], &expected, value) && expected != NULL)
        take(t, expected);
}

static struct node *one_of_mine(struct thread *t, uint32_t fields_least) {
    struct node *n = t->mine[draw(t, MINE)];
    if (n == NULL)
        return NULL;
    look_at(n);
    return n->owner == t->number && n->fields >= fields_least ? n : NULL;
}

static void store_some(struct thread *t) {
    struct node *n = one_of_mine(t, ROW);
    for (int turns = 0; n != NULL && turns < 20; turns++) {
        size_t i = draw(t, n->fields);
        struct node *was = look_in(n, &n->field[i], i);
        tern_store(&n->field[i], draw(t, 3) == 0 ? NULL : fitting(t, i, level_of(n->id)));
        if (was != NULL && was != n)
            take(t, was);
    }
}

/* A row of what the thread holds, or of another node. */
static void store_range(struct thread *t) {
    struct node *n = one_of_mine(t, ROW), *from = find(t);
    if (n == NULL)
        return;
    size_t to = draw(t, n->fields / ROW) * ROW;
    uint32_t there = from != NULL ? atomic_load_explicit(&from->fields, memory_order_relaxed) : 0;
    if (there >= ROW && level_of(from->id) < level_of(n->id)) {
        size_t rows = (there < n->fields - to ? there : n->fields - to) / ROW;
        tern_store_range(&n->field[to], from->field, (rows < 100 ? rows : 100) * ROW);
        return;
    }
    void *row[ROW];
    for (size_t i = 0; i < ROW; i++)
        row[i] = fitting(t, i, level_of(n->id));
    tern_store_range(&n->field[to], row, ROW);
}

static void move_range(struct thread *t) {
    struct node *n = one_of_mine(t, 2 * ROW);
    if (n == NULL)
        return;
    size_t rows = n->fields / ROW, count = 1 + draw(t, rows - 1);
    size_t from = draw(t, rows - count + 1), to = draw(t, rows - count + 1);
    tern_move_range(&n->field[to * ROW], &n->field[from * ROW], count * ROW);
}

static void clear_range(struct thread *t) {
    struct node *n = one_of_mine(t, ROW);
    if (n == NULL)
        return;
    size_t from = draw(t, n->fields), count = 1 + draw(t, n->fields - from);
    tern_clear_range(&n->field[from], count);
}

static uint64_t row_key(const void *row) {
    void *const *field = row;
    for (unsigned i = 0; i < ROW; i++)
        if (field[i] != NULL) {
            look_at(field[i]);
            return ((const struct node *)field[i])->id * UINT64_C(0x9e3779b97f4a7c15);
        }
    return 0;
}

static int compare_rows(const void *a, const void *b, void *context) {
    struct thread *t = context;
    uint64_t x = row_key(a), y = row_key(b);
    if (draw(t, 50) == 0)
        tern_keep(tern_alloc(40));
    return (x > y) - (x < y);
}

static void sort(struct thread *t) {
    struct node *n = one_of_mine(t, 2 * ROW);
    if (n != NULL)
        must(tern_sort(n->field, n->fields / ROW < 300 ? n->fields / ROW : 300, ROW * sizeof(void *),
                       compare_rows, t) == 0);
}

/* Its old place is somebody else's to read, and nobody's to change. */
static void resize(struct thread *t) {
    size_t which = draw(t, MINE);
    struct node *n = t->mine[which];
    if (n == NULL || n->owner != t->number || n->kind == NODE_TYPED || n->kind == NODE_TYPED_ARRAY)
        return;
    uint32_t before = n->fields;
    size_t rows = 1 + draw(t, draw(t, 40) == 0 ? 900 : before / ROW * 2 + 1);
    uint32_t fields = n->kind == NODE_LEAF ? 0 : (uint32_t)(rows * ROW);
    /* Shorter first: in place, others see the fields go. */
    if (fields < before)
        atomic_store_explicit(&n->fields, fields, memory_order_relaxed);
    struct node *moved = tern_realloc(n, node_bytes(rows * ROW));
    must(moved != NULL);
    look_at(moved);
    atomic_store_explicit(&moved->fields, fields, memory_order_relaxed);
    for (size_t i = before; i < fields; i++)
        if (moved->field[i] != NULL)
            lost(moved, "is not zero where it grew");
    t->mine[which] = moved;
    take(t, moved);
    if (draw(t, 2) == 0)
        put_into_table(t, moved);
}

static void read_weak(struct thread *t) {
    struct node *n = find(t);
    for (unsigned i = 0; i < 4 && (n == NULL || n->weak == NULL); i++)
        n = find(t);
    if (n == NULL || n->weak == NULL)
        return;
    struct node *watched = tern_weak_get(n->weak);
    atomic_fetch_add_explicit(watched != NULL ? &weak_there : &weak_gone, 1, memory_order_relaxed);
    if (watched == NULL)
        return;
    look_at(watched);
    if (watched->id != n->weak_id)
        lost(watched, "is not what the weak reference was made for");
    if (tern_weak_new(watched) != n->weak)
        lost(watched, "has two weak references");
    take(t, watched);
    if (draw(t, 2) == 0)
        put_into_table(t, watched);
}

static void change_handle(struct thread *t) {
    size_t i = draw(t, 4);
    tern_handle *handle = &t->handles[i];
    if (*handle == 0) {
        *handle = tern_handle_new(t->hand[i]);
        must(*handle != 0);
        return;
    }
    void *object = tern_handle_get(*handle);
    if (object != NULL)
        take(t, look_in(NULL, &object, i));
    if (draw(t, 3) != 0) {
        tern_handle_set(*handle, t->hand[i]);
    } else {
        tern_handle_free(*handle);
        *handle = 0;
    }
}

/* Plain stores: it is no managed object. */
static void change_roots(struct thread *t) {
    if (t->extra == NULL) {
        t->extra = calloc(EXTRA, sizeof(void *));
        must(t->extra != NULL);
        for (size_t i = 0; i < EXTRA; i++)
            t->extra[i] = t->hand[i % COLOURS];
        must(tern_root_add(t->extra, EXTRA * sizeof(void *)) == 0);
        return;
    }
    size_t i = draw(t, EXTRA);
    struct node *n = look_in(NULL, &t->extra[i], i);
    t->extra[i] = t->hand[i % COLOURS];
    if (n != NULL)
        take(t, n);
    if (draw(t, 10) == 0) {
        for (i = 0; i < EXTRA; i++)
            if (t->extra[i] != NULL)
                take(t, look_in(NULL, &t->extra[i], i));
        must(tern_root_remove(t->extra) == 0);
        free(t->extra);
        t->extra = NULL;
    }
}

static void clean(void *argument) {
    const struct node *n = argument;
    look_at(n);
    atomic_fetch_add_explicit(&cleaned, 1, memory_order_relaxed);
}

static void add_cleanup(struct thread *t) {
    struct node *watched = build(t, false);
    struct node *argument = allocate(NODE_LEAF, 1);
    must(argument != NULL);
    init_node(t, argument, NODE_LEAF, 1, 1, 0);
    uint64_t id = tern_cleanup_add(watched, clean, argument);
    must(id != 0);
    if (draw(t, 4) == 0)
        must(tern_cleanup_remove(id)); /* it is held here */
    tern_keep(watched);
}

static NOINLINE void sleep_in_section(struct thread *t) {
    tern_blocking_begin();
    struct timespec pause = {0, (long)(t->random % 200000)};
    nanosleep(&pause, NULL);
    tern_blocking_end();
}

static void block(struct thread *t) {
    void *held = find(t);
    sleep_in_section(t);
    if (held != NULL)
        look_at(held);
    look_around(t);
}

static void churn(struct thread *t) {
    for (int i = 0; i < 30; i++) {
        size_t size = 1 + draw(t, i % 10 == 0 ? 3000 : 120);
        memset(draw(t, 2) == 0 ? tern_alloc_leaf(size) : tern_alloc(size), 0xee, size);
    }
}

static void ask(struct thread *t) {
    struct node *n = find(t);
    tern_object found;
    if (n != NULL && (!tern_object_find(n, &found) || (char *)found.base > (char *)n))
        lost(n, "is not found");
    if (draw(t, 10) == 0)
        tern_set_gc_percent(draw(t, 2) == 0 ? 50 : 150);
    if (draw(t, 20) == 0)
        tern_collect();
}

/* Keeps the graph at its size. */
static void thin_out(struct thread *t) {
    if (stats().live_bytes <= plan->live_most)
        return;
    for (size_t n = plan->table / 16; n > 0; n--)
        tern_exchange(&table[draw(t, plan->table)], NULL);
    for (size_t i = 0; i < MINE; i++)
        t->mine[i] = NULL;
    memset(t->hand, 0, sizeof t->hand);
}

static void (*const turns[])(struct thread *t) = {
    build_one,
    build_one,
    build_one,
    own_one,
    own_one,
    look_around,
    exchange_in_table,
    exchange_in_table,
    exchange_in_node,
    exchange_in_node,
    swap_if_same,
    store_some,
    store_some,
    store_range,
    store_range,
    move_range,
    clear_range,
    sort,
    resize,
    resize,
    read_weak,
    read_weak,
    change_handle,
    change_roots,
    add_cleanup,
    block,
    churn,
    ask,
};

#define TURNS (sizeof turns / sizeof turns[0])

static void leave(struct thread *t) {
    for (size_t i = 0; i < 4; i++)
        if (t->handles[i] != 0)
            tern_handle_free(t->handles[i]);
    if (t->extra != NULL) {
        must(tern_root_remove(t->extra) == 0);
        free(t->extra);
    }
}

/* ---- threads ---- */

#define PLACES_MOST 8
#define LIVES_MOST  64

/* What a new thread is given: an object that nothing else leads to. */
struct start {
    uint64_t place, life;
    struct node *node;
};

static pthread_t ids[PLACES_MOST][LIVES_MOST];
static _Atomic uint64_t handles[PLACES_MOST]; /* for threads that pthread_create made */

static void *run(void *argument);

static void *run_unattached(void *place) {
    tern_handle handle = atomic_load(&handles[(size_t)place]);
    struct start *start = tern_handle_get(handle); /* attaches */
    tern_handle_free(handle);
    return run(start);
}

static NOINLINE void start_thread(uint64_t place, uint64_t life, struct node *node) {
    struct start *start = tern_alloc(sizeof *start);
    start->place = place;
    start->life = life;
    tern_init_store(&start->node, node);
    int error;
    if (life % 2 == 0) {
        error = tern_pthread_create(&ids[place][life], NULL, run, start);
    } else {
        atomic_store(&handles[place], tern_handle_new(start));
        error = pthread_create(&ids[place][life], NULL, run_unattached, (void *)place);
    }
    must(error == 0);
}

static void *run(void *argument) {
    struct start *start = argument;
    uint64_t place = start->place, life = start->life;
    struct thread t = {.number = atomic_fetch_add(&threads_so_far, 1) + 1};
    t.random = seed * 1000003 + place * 1009 + life * 7 + 1;
    for (int i = 0; i < 10; i++)
        next_random(&t.random);
    if (start->node != NULL) {
        look_at(start->node);
        take(&t, start->node);
    }
    for (unsigned n = 0; n < part_of(plan->turns); n++) {
        turns[draw(&t, TURNS)](&t);
        if (n % 64 == 0)
            thin_out(&t);
        tern_poll();
    }
    leave(&t);
    if (life + 1 < plan->lives)
        start_thread(place, life + 1, t.hand[draw(&t, COLOURS)]);
    if (life % 4 == 3)
        tern_thread_detach();
    return NULL;
}

/* ---- a run ---- */

static int run_plan(void *argument) {
    plan = argument;
    setenv("TERN_GODEBUG", plan->debug, 1);
    tern_options options;
    tern_options_init(&options);
    options.stores = TERN_STORES_BARRIER;
    must(tern_init(&options) == 0);
    must(tern_root_add(&table, sizeof table) == 0);
    table = tern_alloc_array(plan->table, sizeof *table);
    make_types();
    for (uint64_t place = 0; place < plan->threads; place++)
        start_thread(place, 0, NULL);
    tern_blocking_begin();
    for (size_t life = 0; life < plan->lives; life++)
        for (size_t place = 0; place < plan->threads; place++)
            pthread_join(ids[place][life], NULL);
    tern_blocking_end();
    for (size_t i = 0; i < plan->table; i++)
        look_in(NULL, &table[i], i);
    collect();
    tern_stats s = stats();
    char line[200];
    int length = snprintf(
        line, sizeof line,
        "  %llu nodes, %llu collections, %llu KiB live, weak reads %llu/%llu, %llu cleanups\n",
        (unsigned long long)made, (unsigned long long)s.collections, (unsigned long long)s.live_bytes >> 10,
        (unsigned long long)weak_there, (unsigned long long)weak_gone, (unsigned long long)cleaned);
    (void)!write(1, line, (size_t)length);
    must(s.collections > 1);
    tern_shutdown();
    return 0;
}

static void run_with(const struct plan *which, uint64_t with_seed) {
    char debug[160];
    snprintf(debug, sizeof debug, "%s,seed=%llu%s", which->debug, (unsigned long long)with_seed % 1000000,
             cooperative() && strstr(which->debug, "cooperative") == NULL ? ",cooperative=1" : "");
    struct plan here = *which;
    here.debug = debug;
    seed = with_seed;
    print_message("  seed %llu, %s\n", (unsigned long long)with_seed, debug);
    child_passes(run_plan, &here);
    if (child_text[0] != 0)
        print_error("%s\n", child_text);
    assert_string_equal(child_text, "");
}

static const struct plan plans[] = {
    {"gcverify=1", 4, 4, 5000, 4800, 3000000},
    {"gcverify=1,gcstress=1", 3, 6, 300, 64, 60000},
    {"gcverify=1,gcstress=3,marker=ring,markers=4", 3, 6, 700, 200, 120000},
    {"gcstress=3", 4, 8, 1200, 1000, 500000},
    {"gcstress=10,marker=stack,markers=4", 6, 6, 3000, 4800, 2000000},
    {"gctrace=0", 4, 8, 10000, 4800, 8000000},
    {"markers=4,marker=ring", 4, 4, 10000, 16000, 16000000},
    {"cooperative=1,gcverify=1", 3, 3, 5000, 1000, 1000000},
    {"cooperative=1,gcstress=3", 3, 4, 1500, 1000, 1000000},
};

#define PLANS (sizeof plans / sizeof plans[0])

static uint64_t number_from(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void nothing_is_lost_while_marking_runs_beside(void **state) {
    (void)state;
    uint64_t first = number_from("TERN_TEST_SEED", 1), seconds = number_from("TERN_TEST_SECONDS", 0);
    time_t start = time(NULL);
    for (uint64_t round = 0; round == 0 || time(NULL) - start < (time_t)seconds; round++)
        for (size_t i = 0; i < PLANS; i++)
            run_with(&plans[i], first + round);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_while_marking_runs_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
