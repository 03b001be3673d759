/*
 * For the tests that a stop may come at any instruction (test_single_step.c, test_single_step_stores.c).
 *
 * One call of the library at a time runs under the processor's trap flag. After each instruction the SIGTRAP
 * handler has a second thread do something, a whole collection or a piece of one, and waits for it: the stop signal
 * finds the thread there. The kernel's frame of SIGTRAP on the thread's stack holds the interrupted registers,
 * vector ones too, and lies below the red zone: the collector finds the roots of the interrupted code by
 * scanning the stack. What a call works on is taken out of its root inside the stepped code, and what it
 * returns enters a root only when the stepping is over: in between, registers and the stack are all there is.
 * Where a thread can not be stopped (inside S1) it is asked for and not waited for, so that the
 * thread meets it on its way out. Where it is not known to the collector, or counts as stopped (blocked), it
 * waits a little: it may hold a lock that the collection needs.
 *
 * x86_64 only.
 */
#ifndef TESTS_SINGLE_STEP_H
#define TESTS_SINGLE_STEP_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "garbage.h"
#include "gc/cycle.h"
#include "gc/mutator.h"
#include "gc/os/os_futex.h"
#include "gc/os/os_log.h"
#include "gc/os/os_time.h"
#include "gc/sizeclass.h"

#define TRAP_FLAG 0x100

/* Each operation is stepped so many times: the heap and its masks differ. */
#define ROUNDS 2
static inline unsigned rounds_wanted(void) {
    return part_of(ROUNDS);
}

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
#define PASSING_MOST 8
#define PASSING_GAP  UINT64_C(5)
/*
 * Iterations of a repeated string instruction trap one by one; one in so many counts as an instruction, and
 * after twice as many the handler itself does the rest, but the last.
 */
#define EVERY_REPEAT UINT64_C(256)
/* A thread that may hold a lock waits so long; any other so long before the test gives up. */
#define BOUNDED_WAIT_NS INT64_C(5000000)
#define IN_VAIN_MOST    40
/* Instructions from the release of the list of threads to the wake-up of who waits for it, and more. */
#define LIST_GAP UINT64_C(200)
/* Instructions from the end of S1 to the look at stop_word, and more. */
#define OVERDUE_AFTER 64
#define GIVE_UP_NS    INT64_C(20000000000)

/* ---- the collecting thread ---- */

/* What the thread can be asked for. The pieces make up a cycle that marks from its start to its end. */
enum request { REQUEST_WHOLE, REQUEST_START, REQUEST_START_AND_MARK, REQUEST_END };

/* Requests made and done, modulo 2^32; `asked` is a futex too. release / acquire. */
static _Atomic uint32_t asked, done;
static enum request request;  /* written before `asked` */
static _Atomic bool quitting; /* relaxed, before a change of `asked` */

/* Takes slots and pages that a collection freed, and overwrites them. */
static void scribble(void) {
    static const size_t sizes[] = {16, 48, 64, 512, 8192, 40000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(tern_alloc(sizes[i]), 0xee, sizes[i]);
        memset(tern_alloc_leaf(sizes[i]), 0xee, sizes[i]);
    }
}

static void serve(void) {
    switch (request) {
    case REQUEST_START:
        cycle_begin_for_test(mutator_self);
        break;
    case REQUEST_START_AND_MARK:
        cycle_begin_for_test(mutator_self);
        cycle_mark_for_test(mutator_self);
        break;
    case REQUEST_END:
        cycle_end_for_test(mutator_self);
        break;
    default:
        tern_collect();
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
        serve();
        if (now % 16 == 0)
            scribble();
        atomic_store_explicit(&done, now, memory_order_release);
        os_futex_wake(&done, 1);
    }
    return NULL;
}

/* The last one is done. */
static uint32_t ask_for(enum request what) {
    request = what;
    uint32_t turn = atomic_fetch_add_explicit(&asked, 1, memory_order_acq_rel) + 1;
    os_futex_wake(&asked, 1);
    return turn;
}

static uint32_t ask(void) {
    return ask_for(REQUEST_WHOLE);
}

static bool is_done(uint32_t turn) {
    return (int32_t)(atomic_load_explicit(&done, memory_order_acquire) - turn) >= 0;
}

/* ---- stepping, one thread at a time: all of it belongs to that thread and its handler ---- */

static struct {
    const char *name;
    bool (*visit)(void);   /* what is done after an instruction; false: no more stepping in this call */
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

/* What can be done where the stepped thread is. */
enum place {
    PLACE_STOPPABLE,
    PLACE_INSIDE, /* S1, or on the way out of it with a stop on: it cannot be waited with */
    PLACE_UNSEEN /* blocked, not known to the collector, or so lately that it may hold a lock: not for long */
};

static enum place place_now(void) {
    const struct mutator *self = mutator_self;
    bool running = self != NULL && atomic_load(&self->state) == MUTATOR_RUNNING;
    if (self != NULL && (atomic_load(&self->depth) != 0 || (running && stop_requested())))
        return PLACE_INSIDE;
    /* Without a stop it is hardly the collector that holds it. */
    if (atomic_load(&mutator_list_lock.word) != OS_LOCK_FREE)
        step.list_until = step.instructions + LIST_GAP;
    return running && step.instructions >= step.list_until ? PLACE_STOPPABLE : PLACE_UNSEEN;
}

static void collect_here(void) {
    const struct mutator *self = mutator_self;
    enum place place = place_now();
    if (place != PLACE_INSIDE || atomic_load(&self->depth) != 0)
        step.overdue = 0;
    else if (++step.overdue == OVERDUE_AFTER)
        expect_the_stop();
    if (place == PLACE_INSIDE) {
        collect_in_passing();
        return;
    }
    if (place == PLACE_UNSEEN) {
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

static bool visit_whole(void) {
    collect_here();
    return true;
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
        if (!step.visit())
            regs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
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
    step.visit = visit_whole;
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

#endif
