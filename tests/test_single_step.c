/*
 * A stop comes at any instruction (rules S1 to S3, S5, S8), part two: with nothing to fall back on.
 *
 * One call of the library at a time runs under the processor's trap flag. After each instruction the SIGTRAP
 * handler has a second thread run a whole collection, under gcverify, and waits for it: the stop signal finds
 * the thread there. The kernel's frame of SIGTRAP on the thread's stack holds the interrupted registers,
 * vector ones too, and lies below the red zone: the collector finds the roots of the interrupted code by
 * scanning the stack. What a call works on is taken out of its root inside the stepped code, and what it
 * returns enters a root only when the stepping is over: in between, registers and the stack are all there is.
 * Where a thread can not be stopped (inside S1) a collection is asked for and not waited for, so that the
 * thread meets it on its way out. Where it is not known to the collector, or counts as stopped (blocked), it
 * waits a little: it may hold a lock that the collection needs.
 *
 * Seen to fail:
 *   - alloc_take_slot that writes the mask, then forms the address from mask->base and the bit's index (rule
 * S2): "words 16, open mask: the object is not there any more"
 *   - mutator_leave that does not look at stop_word (S1):
 *     "a stop was asked for and the thread does not look: words 16, empty mask, instruction ..."
 *
 * ctest: serial timeout=300 lanes=none
 * (AddressSanitizer's own instructions would be stepped too, and take minutes; ThreadSanitizer delays
 * signals.)
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

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "garbage.h"
#include "gc/mutator.h"
#include "gc/os/os_futex.h"
#include "gc/os/os_log.h"
#include "gc/os/os_time.h"
#include "gc/sizeclass.h"

#define TRAP_FLAG   0x100

/* Each operation is stepped so many times: the heap and its masks differ. */
#define ROUNDS      3
/*
 * A collection each time that an operation comes to an instruction, up to the fifth, and later at every 97th
 * step: loops over the bytes of an object are not worth more.
 */
#define VISITS_EACH 5
#define EVERY_LATER UINT64_C(97)
#define PLACES \
    8192 /* a power of two: of the table of instructions; two that share an entry share their visits */
/* In S1 a collection is asked for so often in a call, and not sooner than so many instructions after the
 * last. */
#define PASSING_MOST    8
#define PASSING_GAP     UINT64_C(5)
/*
 * Iterations of a repeated string instruction trap one by one; one in so many counts as an instruction, and
 * after twice as many the handler itself does the rest, but the last.
 */
#define EVERY_REPEAT    UINT64_C(256)
/* A thread that may hold a lock waits so long; any other so long before the test gives up. */
#define BOUNDED_WAIT_NS INT64_C(5000000)
#define IN_VAIN_MOST    40
/* Instructions from the release of the list of threads to the wake-up of who waits for it, and more. */
#define LIST_GAP        UINT64_C(200)
/* Instructions from the end of S1 to the look at stop_word, and more. */
#define OVERDUE_AFTER   64
#define GIVE_UP_NS      INT64_C(20000000000)

/* ---- the collecting thread ---- */

/* Collections asked for and done, modulo 2^32; `asked` is a futex too. release / acquire. */
static _Atomic uint32_t asked, done;
static _Atomic bool quitting; /* relaxed, before a change of `asked` */

/* Takes slots and pages that a collection freed, and overwrites them. */
static void scribble(void) {
    static const size_t sizes[] = {16, 48, 64, 512, 8192, 40000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(tern_alloc(sizes[i]), 0xee, sizes[i]);
        memset(tern_alloc_leaf(sizes[i]), 0xee, sizes[i]);
    }
}

static void *collector(void *unused) {
    (void)unused;
    while (!atomic_load_explicit(&quitting, memory_order_relaxed)) {
        uint32_t now = atomic_load_explicit(&asked, memory_order_acquire);
        if (now == atomic_load_explicit(&done, memory_order_relaxed)) {
            tern_blocking_begin();
            for (int i = 0; i < 2000 && atomic_load_explicit(&asked, memory_order_relaxed) == now; i++)
                __builtin_ia32_pause();
            if (atomic_load_explicit(&asked, memory_order_relaxed) == now)
                os_futex_wait(&asked, now, -1);
            tern_blocking_end();
            continue;
        }
        tern_collect();
        if (now % 16 == 0)
            scribble();
        atomic_store_explicit(&done, now, memory_order_release);
        os_futex_wake(&done, 1);
    }
    return NULL;
}

static uint32_t ask(void) {
    uint32_t turn = atomic_fetch_add_explicit(&asked, 1, memory_order_acq_rel) + 1;
    os_futex_wake(&asked, 1);
    return turn;
}

static bool is_done(uint32_t turn) {
    return (int32_t)(atomic_load_explicit(&done, memory_order_acquire) - turn) >= 0;
}

/* ---- stepping, one thread at a time: all of it belongs to that thread and its handler ---- */

static struct {
    const char *name;
    _Atomic bool ending;   /* relaxed: the next trap is the last */
    uint64_t instructions; /* of this call */
    uint64_t due;          /* instructions of it at which a collection could be waited for */
    uint64_t passing,
        passing_next;    /* collections of it in passing; the next one not before this instruction */
    uint64_t in_vain;    /* waits of it that were not long enough */
    uint64_t list_until; /* until this instruction the thread may hold the list of threads */
    uint64_t overdue;    /* instructions in a row outside S1 while a stop is on */
    uint64_t repeats;
    uintptr_t ip;
    uint64_t drop_at; /* the instruction after which the root `dropped` is cleared; 0: none */
    uint64_t instructions_before, waited, bounded, passed; /* of the operation so far */
} step;

static uint64_t all_instructions, all_collections;
static uint8_t visits[PLACES]; /* of the operation so far */

/* Roots. What the next call takes, and what the handler drops. */
static void *taken, *dropped;

static void say_where(const char *what) {
    struct os_line line;
    os_line_init(&line);
    os_line_str(&line, what);
    os_line_str(&line, ": ");
    os_line_str(&line, step.name != NULL ? step.name : "nothing stepped");
    os_line_str(&line, ", instruction ");
    os_line_u64(&line, step.instructions);
    os_line_str(&line, " at ");
    os_line_hex(&line, step.ip);
    os_line_emit(&line, 2);
}

static void on_abort(int signal) {
    (void)signal;
    say_where("aborted while stepping");
}

/* false: it was not over in time. Spins, then sleeps; the signal that stops this thread comes meanwhile. */
static bool wait_for(uint32_t turn, int64_t most_ns) {
    for (int n = 0; n < 500; n++) {
        if (is_done(turn))
            return true;
        __builtin_ia32_pause();
    }
    int64_t until = os_time_mono_ns() + most_ns;
    while (!is_done(turn)) {
        int64_t left = until - os_time_mono_ns();
        if (left <= 0)
            return false;
        uint32_t now = atomic_load_explicit(&done, memory_order_acquire);
        if ((int32_t)(now - turn) < 0)
            os_futex_wait(&done, now, left);
    }
    return true;
}

/* Whether to collect at the step's instruction. */
static bool is_due(void) {
    uint8_t *seen = &visits[(step.ip * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (PLACES - 1)];
    if (*seen < VISITS_EACH) {
        ++*seen;
        return true;
    }
    return ++step.due % EVERY_LATER == 0;
}

/* Asks for a collection that this thread meets on its way. */
static void collect_in_passing(void) {
    if (step.passing == PASSING_MOST || step.instructions < step.passing_next || asked != done)
        return;
    ask();
    step.passed++;
    step.passing++;
    step.passing_next = step.instructions + PASSING_GAP + step.passing;
}

/* A stop is on, and the thread runs on: its signal is about to come, or else went by and was forgotten. */
static void expect_the_stop(void) {
    uint32_t word = atomic_load(&stop_word);
    int64_t until = os_time_mono_ns() + GIVE_UP_NS;
    while ((word & 1) != 0 && atomic_load(&stop_word) == word)
        if (os_time_mono_ns() > until) {
            say_where("a stop was asked for and the thread does not look");
            abort();
        }
}

/*
 * Inside S1, or on the way out of it with a stop on, a thread cannot be waited with. One that is blocked,
 * that the collector does not know, or that held the list of threads just now (and has waked nobody yet) may
 * hold a lock.
 */
static void collect_here(void) {
    const struct mutator *self = mutator_self;
    bool inside = self != NULL && atomic_load(&self->depth) != 0;
    bool stopping =
        self != NULL && !inside && atomic_load(&self->state) == MUTATOR_RUNNING && stop_requested();
    if (!stopping)
        step.overdue = 0;
    else if (++step.overdue == OVERDUE_AFTER)
        expect_the_stop();
    if (inside || stopping) {
        collect_in_passing();
        return;
    }
    /* Without a stop it is hardly the collector that holds it. */
    if (atomic_load(&mutator_list_lock.word) != OS_LOCK_FREE)
        step.list_until = step.instructions + LIST_GAP;
    if (self == NULL || atomic_load(&self->state) == MUTATOR_BLOCKED || step.instructions < step.list_until) {
        if (step.in_vain == IN_VAIN_MOST) {
            collect_in_passing();
        } else if (is_due()) {
            bool over = wait_for(ask(), BOUNDED_WAIT_NS);
            step.bounded += over;
            step.passed += !over;
            step.in_vain += !over;
        }
        return;
    }
    if (!is_due())
        return;
    if (!wait_for(ask(), GIVE_UP_NS)) {
        say_where("no collection within 20 s");
        abort();
    }
    step.waited++;
}

/* `rep stosb` and `rep movsb`, forwards: memset and memcpy of large objects. */
static void run_string(greg_t *regs) {
    const unsigned char *code = (const unsigned char *)regs[REG_RIP];
    size_t bytes = (size_t)regs[REG_RCX] - 1;
    if (regs[REG_RCX] < 2 || code[0] != 0xf3 || (code[1] != 0xaa && code[1] != 0xa4) ||
        (regs[REG_EFL] & 0x400) != 0)
        return;
    if (code[1] == 0xaa) {
        memset((void *)regs[REG_RDI], (int)(regs[REG_RAX] & 0xff), bytes);
    } else {
        memmove((void *)regs[REG_RDI], (const void *)regs[REG_RSI], bytes);
        regs[REG_RSI] += (greg_t)bytes;
    }
    regs[REG_RDI] += (greg_t)bytes;
    regs[REG_RCX] = 1;
}

static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    int saved = errno;
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (atomic_load_explicit(&step.ending, memory_order_relaxed)) {
        regs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
        return;
    }
    uintptr_t ip = (uintptr_t)regs[REG_RIP];
    step.repeats = ip == step.ip ? step.repeats + 1 : 0;
    step.ip = ip;
    if (step.repeats % EVERY_REPEAT == 0) {
        step.instructions++;
        if (step.instructions == step.drop_at)
            dropped = NULL;
        collect_here();
        if (step.repeats == 2 * EVERY_REPEAT)
            run_string(regs);
    }
    errno = saved;
}

/* Below the red zone: the compiler does not know of the pushes. */
static inline void trap_on(void) {
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq %0, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp"
                     :
                     : "i"(TRAP_FLAG)
                     : "memory", "cc");
}

struct operation;
typedef void *call_function(const struct operation *op);

static void begin(const char *name) {
    memset(&step, 0, sizeof step);
    step.name = name;
    memset(visits, 0, sizeof visits);
}

/* The call, and nothing that holds its result but what the compiler makes of these lines. */
static NOINLINE void *stepped(call_function *call, const struct operation *op) {
    step.instructions = step.due = step.repeats = step.ip = step.passing = step.passing_next = step.in_vain =
        0;
    step.list_until = step.overdue = 0;
    atomic_store_explicit(&step.ending, false, memory_order_relaxed);
    trap_on();
    void *result = call(op);
    atomic_store(&step.ending, true);
    step.instructions_before += step.instructions;
    return result;
}

/* Adds what was stepped since begin. */
struct sum {
    const char *name;
    uint64_t instructions, waited, bounded, passed;
};

static void add_to(struct sum *sum) {
    sum->name = step.name;
    sum->instructions += step.instructions_before;
    sum->waited += step.waited;
    sum->bounded += step.bounded;
    sum->passed += step.passed;
    step.name = NULL;
}

/* Nothing was stepped, or nothing collected: then the test tested nothing. */
static void tell(const struct sum *sum) {
    print_message(
        "  %-38s %6lu instructions, %5lu collections waited for, %4lu where unseen, %3lu in passing\n",
        sum->name, (unsigned long)sum->instructions, (unsigned long)sum->waited, (unsigned long)sum->bounded,
        (unsigned long)sum->passed);
    assert_true(sum->instructions > 0);
    assert_true(sum->waited + sum->bounded > 0);
    all_instructions += sum->instructions;
    all_collections += sum->waited + sum->bounded + sum->passed;
}

static void end(void) {
    struct sum sum = {0};
    add_to(&sum);
    tell(&sum);
}

/* ---- what must stay whole ---- */

#define KEPT_MOST 256

/* A ring, and a registered root. */
static struct kept {
    unsigned char *at;
    size_t bytes;
    uint64_t seed;
    const char *name;
} kept[KEPT_MOST];
static size_t kept_next;
static uint64_t last_seed;

static void must(bool condition, const char *name, const char *what) {
    if (!condition)
        fail_msg("%s: %s", name, what);
}

/* Byte `i` of the pattern of `seed`. No aligned word of it is an address: the high byte is not 0. */
static unsigned char pattern(uint64_t seed, size_t i) {
    uint64_t word = (seed + i / 8) * UINT64_C(0x9e3779b97f4a7c15) | UINT64_C(0xa5) << 56;
    return (unsigned char)(word >> i % 8 * 8);
}

static void fill(unsigned char *at, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; i++)
        at[i] = pattern(seed, i);
}

static bool holds(const unsigned char *at, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != pattern(seed, i))
            return false;
    return true;
}

static bool zeroed(const unsigned char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != 0)
            return false;
    return true;
}

static uint64_t new_seed(void) {
    return last_seed += UINT64_C(1) << 32;
}

/* From here on the object is kept. Nothing collects between the end of the stepping and this. */
static struct kept *keep(const char *name, void *object, size_t bytes) {
    struct kept *k = &kept[kept_next++ % KEPT_MOST];
    *k = (struct kept){object, bytes, 0, name};
    return k;
}

static int by_address(const void *a, const void *b) {
    const struct kept *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static void check_kept(void) {
    static struct kept sorted[KEPT_MOST];
    size_t count = kept_next < KEPT_MOST ? kept_next : KEPT_MOST;
    for (size_t i = 0; i < count; i++) {
        const struct kept *k = &kept[i];
        tern_object found;
        must(tern_object_find(k->at, &found), k->name, "the object is not there any more");
        must((unsigned char *)found.base <= k->at &&
                 k->at + k->bytes <= (unsigned char *)found.base + found.size,
             k->name, "the object is smaller than was asked for");
        must(holds(k->at, k->bytes, k->seed), k->name, "the object was overwritten");
    }
    memcpy(sorted, kept, sizeof sorted);
    qsort(sorted, count, sizeof sorted[0], by_address);
    for (size_t i = 1; i < count; i++)
        must(sorted[i - 1].at + sorted[i - 1].bytes <= sorted[i].at, sorted[i].name, "two objects overlap");
    memset(sorted, 0, sizeof sorted);
}

/* ---- operations ---- */

enum mask { ANY, OPEN, EMPTY };

struct operation {
    const char *name;
    call_function *call;
    size_t bytes; /* of the result */
    enum kind kind;
    enum mask mask;  /* how the call finds its open mask */
    bool full_block; /* tiny: the open block has no room */
    size_t from;     /* of a realloc: bytes before */
    bool moves;      /* of a realloc */
};

static const tern_type *typed_type, *traced_type;

static void trace_all(const void *object, size_t size, tern_tracer *tracer) {
    tern_trace_range(tracer, object, size / sizeof(void *));
}

static void *words(const struct operation *op) {
    return tern_alloc(op->bytes);
}
static void *leaf(const struct operation *op) {
    return tern_alloc_leaf(op->bytes);
}
static void *leaf_single(const struct operation *op) {
    return tern_alloc_leaf_single(op->bytes);
}
static void *array(const struct operation *op) {
    return tern_alloc_array(op->bytes / 8, 8);
}
static void *typed(const struct operation *op) {
    return tern_alloc_typed(typed_type, op->bytes / 24);
}
static void *traced(const struct operation *op) {
    void *object = tern_alloc_traced(traced_type, op->bytes);
    tern_publish(object);
    return object;
}
static void *aligned(const struct operation *op) {
    return tern_alloc_aligned(256, op->bytes, op->kind == KIND_LEAF);
}
static void *aligned_to_pages(const struct operation *op) {
    return tern_alloc_aligned(65536, op->bytes, op->kind == KIND_LEAF);
}

static const struct operation allocations[] = {
    {"words 16, open mask", words, 16, KIND_WORDS, OPEN, false, 0, false},
    {"words 16, empty mask", words, 16, KIND_WORDS, EMPTY, false, 0, false},
    {"words 48, open mask", words, 48, KIND_WORDS, OPEN, false, 0, false},
    {"words 48, empty mask", words, 48, KIND_WORDS, EMPTY, false, 0, false},
    {"words 512, open mask", words, 512, KIND_WORDS, OPEN, false, 0, false},
    {"words 512, empty mask", words, 512, KIND_WORDS, EMPTY, false, 0, false},
    {"words 2048, open mask", words, 2048, KIND_WORDS, OPEN, false, 0, false},
    {"words 8192, empty mask", words, 8192, KIND_WORDS, EMPTY, false, 0, false}, /* one slot a span */
    {"array 64, open mask", array, 64, KIND_WORDS, OPEN, false, 0, false},
    {"tiny 5, in the open block", leaf, 5, KIND_TINY, ANY, false, 0, false},
    {"tiny 5, opening a block", leaf, 5, KIND_TINY, OPEN, true, 0, false},
    {"tiny 5, opening a block, empty mask", leaf, 5, KIND_TINY, EMPTY, true, 0, false},
    {"tiny 8, in the open block", leaf, 8, KIND_TINY, ANY, false, 0, false},
    {"leaf 64, open mask", leaf, 64, KIND_LEAF, OPEN, false, 0, false},
    {"leaf 64, empty mask", leaf, 64, KIND_LEAF, EMPTY, false, 0, false},
    {"leaf 8 of its own, open mask", leaf_single, 8, KIND_LEAF, OPEN, false, 0, false},
    {"typed 72, open mask", typed, 72, KIND_TYPED, OPEN, false, 0, false},
    {"typed 72, empty mask", typed, 72, KIND_TYPED, EMPTY, false, 0, false},
    {"traced 40 and published, open mask", traced, 40, KIND_TRACED, OPEN, false, 0, false},
    {"traced 40 and published, empty mask", traced, 40, KIND_TRACED, EMPTY, false, 0, false},
    {"words 256, aligned to 256", aligned, 256, KIND_WORDS, OPEN, false, 0, false},
    {"leaf 1000, aligned to 65536", aligned_to_pages, 1000, KIND_LEAF, ANY, false, 0, false},
    {"words 40000", words, 40000, KIND_WORDS, ANY, false, 0, false},
    {"words 200000", words, 200000, KIND_WORDS, ANY, false, 0, false},
    {"leaf 200000", leaf, 200000, KIND_LEAF, ANY, false, 0, false},
    {"typed 48000", typed, 48000, KIND_TYPED, ANY, false, 0, false},
};

/* Brings the open mask and the tiny block into the state that the call is to meet. */
static NOINLINE void prepare(const struct operation *op) {
    size_t slot = op->kind == KIND_TINY ? 16 : op->bytes + (op->kind >= KIND_TYPED ? 8 : 0);
    if (op->mask != ANY) {
        const _Atomic uint64_t *bits = &mutator_self->masks[op->kind][sizeclass_of(slot)].bits;
        for (int i = 0; (*bits == 0) != (op->mask == EMPTY); i++) {
            must(i < 200, op->name, "its open mask does not come into the state that the test wants");
            tern_keep(op->call(op));
        }
    }
    if (op->kind == KIND_TINY)
        for (int i = 0; mutator_self->tiny_base == NULL ||
                        (mutator_self->tiny_offset + op->bytes > 16) != op->full_block;
             i++) {
            must(i < 200, op->name, "its open block does not come into the state that the test wants");
            tern_keep(tern_alloc_leaf(op->full_block ? op->bytes : 7));
        }
}

/* More of the same, overwritten: what was freed too early is among it. */
static NOINLINE void churn(const struct operation *op) {
    for (int i = 0; i < (op->bytes > 8192 ? 8 : 130); i++)
        memset(op->call(op), 0xee, op->bytes);
}

static NOINLINE void step_allocation(const struct operation *op) {
    begin(op->name);
    for (unsigned round = 0; round < ROUNDS; round++) {
        prepare(op);
        struct kept *k = keep(op->name, stepped(op->call, op), op->bytes);
        must(k->at != NULL, op->name, "there is no object");
        must(zeroed(k->at, k->bytes), op->name, "the object is not zeroed");
        k->seed = new_seed();
        fill(k->at, k->bytes, k->seed);
        collect();
        check_kept();
        churn(op);
        collect();
        check_kept();
    }
    end();
}

static void an_object_is_whole_wherever_its_allocation_is_stopped(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof allocations / sizeof allocations[0]; i++)
        step_allocation(&allocations[i]);
}

/* The object leaves its root here, inside the stepped code. */
static inline void *take(void) {
    void *object = taken;
    taken = NULL;
    return object;
}

static void *resize(const struct operation *op) {
    return tern_realloc(take(), op->bytes);
}

static const struct operation resizes[] = {
    {"realloc 64 to 60, in place", resize, 60, KIND_WORDS, ANY, false, 64, false},
    {"realloc 48 to 512", resize, 512, KIND_WORDS, ANY, false, 48, true},
    {"realloc 512 to 600, leaf", resize, 600, KIND_LEAF, ANY, false, 512, true},
    {"realloc 5 to 14, tiny", resize, 14, KIND_TINY, ANY, false, 5, true},
    {"realloc 5 to 40, out of a tiny block", resize, 40, KIND_TINY, ANY, false, 5, true},
    {"realloc 1000 to 40000", resize, 40000, KIND_WORDS, ANY, false, 1000, true},
    {"realloc 100000 to 90000, in place", resize, 90000, KIND_WORDS, ANY, false, 100000, false},
    {"realloc 100000 to 1000", resize, 1000, KIND_LEAF, ANY, false, 100000, true},
};

/* A filled object, in the root `taken` only. Returns its address, hidden. */
static NOINLINE uintptr_t make_taken(size_t bytes, bool is_leaf, uint64_t seed) {
    taken = is_leaf ? tern_alloc_leaf(bytes) : tern_alloc(bytes);
    fill(taken, bytes, seed);
    return ~(uintptr_t)taken;
}

static NOINLINE void step_resize(const struct operation *op) {
    begin(op->name);
    size_t common = op->from < op->bytes ? op->from : op->bytes;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t seed = new_seed();
        uintptr_t before = make_taken(op->from, op->kind != KIND_WORDS, seed);
        clear_stack();
        struct kept *k = keep(op->name, stepped(op->call, op), op->bytes);
        k->seed = seed;
        must(k->at != NULL, op->name, "there is no object");
        must(((uintptr_t)k->at != ~before) == op->moves, op->name,
             op->moves ? "it did not move" : "it moved");
        must(holds(k->at, common, seed), op->name, "the contents were not kept");
        must(zeroed(k->at + common, op->bytes - common), op->name, "what is beyond the old size is not zero");
        fill(k->at, k->bytes, seed);
        collect();
        check_kept();
        churn(&allocations[3]);
        collect();
        check_kept();
    }
    end();
}

static void a_resized_object_is_whole_wherever_it_is_stopped(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof resizes / sizeof resizes[0]; i++)
        step_resize(&resizes[i]);
}

/* ---- calls that are given an object, taken from its root, and keep it reachable ---- */

static void **holder;       /* a root */
static tern_weak *weak;     /* a root */
static tern_handle handle;  /* of the object */
static void *root_words[4]; /* a root while registered */
static uint64_t cleanup;
static void *cleanup_object; /* a root */

static void *store(const struct operation *op) {
    (void)op;
    tern_store(&holder[3], take());
    return NULL;
}
static void *after_store(const struct operation *op) {
    (void)op;
    void *object = holder[3];
    tern_store(&holder[3], NULL);
    return object;
}
static void *handle_new(const struct operation *op) {
    (void)op;
    handle = tern_handle_new(take());
    return NULL;
}
static void *handle_get(const struct operation *op) {
    (void)op;
    return tern_handle_get(handle);
}
static void *handle_set(const struct operation *op) {
    (void)op;
    tern_handle_set(handle, take());
    return NULL;
}
static void *handle_get_and_free(const struct operation *op) {
    (void)op;
    void *object = tern_handle_get(handle);
    tern_handle_free(handle);
    return object;
}
static void never(void *argument) {
    (void)argument;
    abort();
}
static void *cleanup_add(const struct operation *op) {
    (void)op;
    cleanup = tern_cleanup_add(cleanup_object, never, take());
    return NULL;
}
static void *cleanup_remove(const struct operation *op) {
    (void)op;
    return tern_cleanup_remove(cleanup) ? cleanup_object : NULL;
}
static void *root_add(const struct operation *op) {
    (void)op;
    void *object = root_words[2] = take();
    if (tern_root_add(root_words, sizeof root_words) != 0)
        abort();
    tern_keep(object);
    return NULL;
}
static void *root_remove(const struct operation *op) {
    (void)op;
    void *object = root_words[2];
    if (tern_root_remove(root_words) != 0)
        abort();
    root_words[2] = NULL;
    return object;
}
static NOINLINE void block(void) {
    tern_blocking_begin();
    clear_stack();
    tern_blocking_end();
}
static void *blocking(const struct operation *op) {
    (void)op;
    void *object = take();
    block();
    return object;
}
/* Nothing but a vector register, then nothing but the red zone, holds the object for a few instructions. */
static void *vector_and_red_zone(const struct operation *op) {
    (void)op;
    void *object = take();
    __asm__ volatile("movq %0, %%xmm13\n\txorl %k0, %k0\n\tnop\n\tnop\n\tmovq %%xmm13, %0\n\t"
                     "pxor %%xmm13, %%xmm13\n\t"
                     "movq %0, -120(%%rsp)\n\txorl %k0, %k0\n\tnop\n\tnop\n\tmovq -120(%%rsp), %0"
                     : "+r"(object)
                     :
                     : "xmm13", "cc", "memory");
    return object;
}
static void *weak_new(const struct operation *op) {
    (void)op;
    void *object = take();
    weak = tern_weak_new((char *)object + 8);
    return object;
}
static void *weak_get(const struct operation *op) {
    (void)op;
    return tern_weak_get(weak);
}

#define GIVEN_BYTES 72

/*
 * Steps `call`, which takes a fresh object and puts it somewhere, and `back`, which returns it from there.
 * Without `back`, `call` returns it.
 */
static NOINLINE void step_given(const char *name, call_function *call, const char *back_name,
                                call_function *back) {
    struct sum there = {0}, again = {0};
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t seed = new_seed();
        uintptr_t hidden = make_taken(GIVEN_BYTES, false, seed);
        clear_stack();
        begin(name);
        struct kept *k = NULL;
        if (back == NULL) {
            k = keep(name, stepped(call, NULL), GIVEN_BYTES);
            k->seed = seed;
            add_to(&there);
        } else {
            stepped(call, NULL);
            add_to(&there);
            collect();
            must(tern_object_find((void *)~hidden, NULL), name, "the object is not reachable");
            begin(back_name);
            k = keep(back_name, stepped(back, NULL), GIVEN_BYTES);
            k->seed = seed;
            add_to(&again);
        }
        must((uintptr_t)k->at == ~hidden, k->name, "another object came back");
        collect();
        check_kept();
    }
    tell(&there);
    if (back != NULL)
        tell(&again);
}

static void what_is_stored_stays_reachable(void **state) {
    (void)state;
    holder = tern_alloc(48);
    step_given("store", store, "store of NULL over it", after_store);
    step_given("handle_new", handle_new, "handle_get and free", handle_get_and_free);
    handle = tern_handle_new(NULL);
    step_given("handle_set", handle_set, "handle_get", handle_get);
    tern_handle_free(handle);
    step_given("root_add", root_add, "root_remove", root_remove);
}

static void a_blocked_thread_keeps_its_objects(void **state) {
    (void)state;
    step_given("blocking section", blocking, NULL, NULL);
}

static void vector_registers_and_the_red_zone_are_roots(void **state) {
    (void)state;
    step_given("vector register, red zone", vector_and_red_zone, NULL, NULL);
}

static void a_cleanup_keeps_its_argument_and_can_be_taken_back(void **state) {
    (void)state;
    struct sum adding = {0}, removing = {0};
    for (unsigned round = 0; round < ROUNDS; round++) {
        cleanup_object = tern_alloc(80);
        uint64_t seed = new_seed();
        uintptr_t hidden = make_taken(GIVEN_BYTES, false, seed);
        clear_stack();
        begin("cleanup_add");
        stepped(cleanup_add, NULL);
        add_to(&adding);
        assert_true(cleanup != 0);
        collect();
        must(tern_object_find((void *)~hidden, NULL), "cleanup_add", "the argument is not reachable");
        must(holds((unsigned char *)~hidden, GIVEN_BYTES, seed), "cleanup_add",
             "the argument was overwritten");
        begin("cleanup_remove");
        void *object = stepped(cleanup_remove, NULL);
        add_to(&removing);
        must(object == cleanup_object, "cleanup_remove", "the cleanup was not known");
        cleanup_object = NULL;
        object = NULL;
        collect();
        assert_int_equal(tern_run_cleanups(0), 0);
        check_kept();
    }
    tell(&adding);
    tell(&removing);
}

static void a_weak_reference_can_be_made_anywhere(void **state) {
    (void)state;
    step_given("weak_new", weak_new, NULL, NULL);
    assert_ptr_equal(tern_weak_get(weak), kept[(kept_next - 1) % KEPT_MOST].at + 8);
}

static NOINLINE void make_dropped(uint64_t seed) {
    make_taken(GIVEN_BYTES, false, seed);
    weak = tern_weak_new(taken);
    dropped = taken;
    taken = NULL;
}

/* The object loses its last other reference before the n-th instruction of the read, for each n. */
static void a_weak_read_gives_a_whole_object_or_none(void **state) {
    (void)state;
    size_t whole = 0, none = 0;
    begin("weak_get of an object that is dropped");
    for (uint64_t n = 1; n <= 200; n++) {
        uint64_t seed = new_seed();
        make_dropped(seed);
        clear_stack();
        step.drop_at = n;
        void *object = stepped(weak_get, NULL);
        bool finished = step.instructions < n;
        if (object == NULL) {
            must(!finished, step.name, "it gave nothing for an object that was held");
            none++;
            continue;
        }
        keep(step.name, object, GIVEN_BYTES)->seed = seed;
        object = NULL;
        dropped = NULL;
        whole++;
        if (n % 10 == 0 || finished) {
            collect();
            check_kept();
        }
        if (finished)
            break;
    }
    collect();
    check_kept();
    end();
    print_message("  %zu whole, %zu gone\n", whole, none);
    assert_true(whole > 0);
    assert_true(none > 0);
}

/* ---- threads that come and go; they assert nothing themselves ---- */

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

static const struct operation in_fresh_thread = {
    "words 48 in a fresh thread", words, 48, KIND_WORDS, ANY, false, 0, false};

static struct sum attaching, attaching_by_allocating, allocating, detaching;

static void keep_in_thread(void *object) {
    struct kept *k = keep(in_fresh_thread.name, object, in_fresh_thread.bytes);
    if (object == NULL || !zeroed(object, k->bytes))
        abort();
    k->seed = new_seed();
    fill(k->at, k->bytes, k->seed);
}

static void detach_stepped(void) {
    begin("detach");
    stepped(detach, NULL);
    add_to(&detaching);
}

static void *attached_and_detached(void *unused) {
    (void)unused;
    begin("attach");
    stepped(attach, NULL);
    add_to(&attaching);
    begin(in_fresh_thread.name);
    keep_in_thread(stepped(words, &in_fresh_thread));
    add_to(&allocating);
    detach_stepped();
    return NULL;
}

static void *attached_by_allocating(void *unused) {
    (void)unused;
    begin("attach by allocating");
    keep_in_thread(stepped(words, &in_fresh_thread));
    add_to(&attaching_by_allocating);
    detach_stepped();
    return NULL;
}

static void run_thread(void *(*function)(void *)) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, function, NULL), 0);
    tern_blocking_begin();
    pthread_join(thread, NULL);
    tern_blocking_end();
    collect();
    check_kept();
}

static void threads_attach_and_detach_anywhere(void **state) {
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        run_thread(attached_and_detached);
        run_thread(attached_by_allocating);
    }
    tell(&attaching);
    tell(&attaching_by_allocating);
    tell(&allocating);
    tell(&detaching);
    assert_int_equal(stats().threads, 2); /* this one and the collector */
}

static void set_handler(int signal, void (*handler)(int, siginfo_t *, void *), void (*plain)(int)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    if (handler != NULL) {
        action.sa_sigaction = handler;
        action.sa_flags = SA_SIGINFO;
    } else {
        action.sa_handler = plain;
        action.sa_flags = (int)SA_RESETHAND;
    }
    sigemptyset(&action.sa_mask);
    if (sigaction(signal, &action, NULL) != 0)
        abort();
}

/* An argument is a filter of test names. */
int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_is_whole_wherever_its_allocation_is_stopped),
        cmocka_unit_test(a_resized_object_is_whole_wherever_it_is_stopped),
        cmocka_unit_test(what_is_stored_stays_reachable),
        cmocka_unit_test(a_blocked_thread_keeps_its_objects),
        cmocka_unit_test(vector_registers_and_the_red_zone_are_roots),
        cmocka_unit_test(a_cleanup_keeps_its_argument_and_can_be_taken_back),
        cmocka_unit_test(a_weak_reference_can_be_made_anywhere),
        cmocka_unit_test(a_weak_read_gives_a_whole_object_or_none),
        cmocka_unit_test(threads_attach_and_detach_anywhere),
    };
    /* No collections but those asked for here; all of them checked. */
    setenv("TERN_GODEBUG", "gcverify=1", 1);
    tern_options options;
    tern_options_init(&options);
    options.gc_percent = TERN_GC_OFF;
    options.manual_cleanups = 1;
    if (tern_init(&options) != 0 || tern_root_add(kept, sizeof kept) != 0 ||
        tern_root_add(&taken, sizeof taken) != 0 || tern_root_add(&dropped, sizeof dropped) != 0 ||
        tern_root_add(&holder, sizeof holder) != 0 || tern_root_add(&weak, sizeof weak) != 0 ||
        tern_root_add(&cleanup_object, sizeof cleanup_object) != 0)
        return 1;
    static const uint64_t bitmap[1] = {2};
    typed_type = tern_type_new("triple", 24, bitmap);
    traced_type = tern_traced_type_new("traced", trace_all);
    set_handler(SIGTRAP, on_trap, NULL);
    set_handler(SIGABRT, NULL, on_abort);
    pthread_t thread;
    if (typed_type == NULL || traced_type == NULL || tern_pthread_create(&thread, NULL, collector, NULL) != 0)
        return 1;
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    print_message("  in all %lu instructions, %lu collections\n", (unsigned long)all_instructions,
                  (unsigned long)all_collections);
    atomic_store_explicit(&quitting, true, memory_order_relaxed);
    ask();
    tern_blocking_begin();
    pthread_join(thread, NULL);
    tern_blocking_end();
    tern_shutdown();
    return failures;
}

#endif
