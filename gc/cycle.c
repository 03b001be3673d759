/*
 * A collection: stop, blacken what is being handed out, mark, decide what is dead, free, start. Calls every
 * phase's room; nothing calls it but allocation and the runtime. With the world stopped nothing here
 * allocates managed memory or touches the host's malloc, stdio or loader locks (invariant I5).
 *
 * A program that promises the barrier is stopped twice for a moment, and marking runs beside it in between: by
 * this thread where it waits for the collection anyway, else by the background thread, to which the cycle is
 * handed over together with the cycle lock. What little heaps hold is marked in the first stop, and so is
 * everything for a program that promises nothing.
 */
#include "gc/cycle.h"

#include <errno.h>
#include <string.h>

#include "gc/account.h"
#include "gc/background.h"
#include "gc/barrier.h"
#include "gc/central.h"
#include "gc/cleanup.h"
#include "gc/fault.h"
#include "gc/handle.h"
#include "gc/heap.h"
#include "gc/mark.h"
#include "gc/offheap.h"
#include "gc/os/os_cpu.h"
#include "gc/os/os_futex.h"
#include "gc/os/os_time.h"
#include "gc/pace.h"
#include "gc/roots.h"
#include "gc/settings.h"
#include "gc/span.h"
#include "gc/stats.h"
#include "gc/stop.h"
#include "gc/sweep.h"
#include "gc/verify.h"
#include "gc/weak.h"

/* Marking in a stop that is to be short: the end stop's rest, or all of a small heap (docs/design.md). */
#define STOP_BUDGET_NS INT64_C(50000)
/* How often the background looks again for the cycle lock. */
#define LOOK_AGAIN_NS INT64_C(1000000)
/* How long the end of a cycle waits for the last thread to run again. */
#define RESUME_WAIT_NS INT64_C(200000)

static struct os_lock cycle_lock = OS_LOCK_INIT;
/* Threads that wait in cycle_hold. A futex; relaxed: it only says who goes first. */
static _Atomic uint32_t holders;
/* A futex: changes when marking begins beside the program and when a cycle is over. release. */
static _Atomic uint32_t progress;
/*
 * The background is asked for a cycle, by the threads that reach the trigger: 1 and the epoch of then. The next one is
 * asked for nothing by it, and takes nothing back that is asked after it. relaxed.
 */
static _Atomic uint64_t asked;
/* The background is given the cycle under way, and the lock. release / acquire. */
static _Atomic bool handed;

/* The cycle under way; under cycle_lock. */
static struct {
    struct cycle_report report;
    int64_t stop_start_ns, stopping_ns, let_go_ns; /* of the last stop */
    int64_t stop_cpu_at;                           /* thread CPU when it began */
    int64_t *open_clock;                           /* where its length goes; NULL: it is in the books */
    int64_t cpu_at, cpu_ns, swept_at; /* thread CPU: when this thread took over; of all threads that had it */
    uint64_t heap_at_start, open_at_start;
    bool share_only; /* marking takes its quarter of the processors and no idle ones */
    struct roots_size roots;
} now;

void cycle_init(void) {
    memset(&now, 0, sizeof now);
    atomic_store_explicit(&asked, 0, memory_order_relaxed);
    atomic_store_explicit(&handed, false, memory_order_relaxed);
    barrier_set(false);
}

/* ---- who asks ---- */

/* Every N-th slow path on average: 1 to 2N - 1, drawn from the seed, so that different places are hit. */
static uint32_t next_stress(struct mutator *self) {
    self->stress_random = self->stress_random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return 1 + (uint32_t)((self->stress_random >> 33) % (2 * (uint64_t)settings.stress - 1));
}

static uint64_t this_epochs_request(void) {
    return 1 + (uint64_t)heap_epoch();
}
static bool is_asked(void) {
    return atomic_load_explicit(&asked, memory_order_relaxed) == this_epochs_request();
}

/* The cycle starts before the goal, beside the program, on the background thread. */
static bool starts_early(void) {
    return settings.concurrent && background_is_there() &&
           !atomic_load_explicit(&account.one_stop, memory_order_relaxed);
}

/* With more live than the limit holds there is always a cycle to wait for, and nothing to wait for. */
static bool is_limit_lost(void) {
    return account_would_pass_limit(0);
}

/*
 * Whether the limit would be passed now, and less so when the cycle has freed what is dead: also where the request
 * does not fit beside what lives, lest several such are had while one cycle marks.
 */
static bool must_finish(uint64_t request) {
    return account_would_grow_past_limit(request) && !is_limit_lost() && !report_limiter_holds_back();
}

bool cycle_wanted(struct mutator *self, uint64_t request, enum cycle_reason *reason) {
    self->request = request;
    if (self->stress_left != 0 && --self->stress_left == 0) {
        self->stress_left = next_stress(self);
        *reason = CYCLE_STRESS;
        return true;
    }
    if (barrier_is_on()) {
        /* It is under way: whoever is too fast for it pays (pace). */
        *reason = CYCLE_AWAIT;
        return must_finish(request);
    }
    if (unlikely(!sweep_is_open()) && account_would_grow_past_limit(request)) {
        *reason = CYCLE_AWAIT; /* what was found dead is about to be freed */
        return true;
    }
    *reason = CYCLE_HEAP;
    bool early = starts_early();
    uint64_t heap_then = account_heap() + request;
    uint64_t goal = atomic_load_explicit(&account.goal, memory_order_relaxed);
    uint64_t trigger = atomic_load_explicit(&account.trigger, memory_order_relaxed);
    /* One large request would pass a trigger that is only a little before the goal, long before it is due. */
    if (heap_then <= (early || request < goal - trigger ? trigger : goal)) {
        if (unlikely(pace_is_early_wanted(heap_then)))
            background_ring();
        return false;
    }
    if (atomic_load_explicit(&account.by, memory_order_relaxed) == PACER_BY_LIMIT &&
        heap_then <= atomic_load_explicit(&account.ratio_goal, memory_order_relaxed) &&
        report_limiter_holds_back()) {
        stats_limiter_skipped();
        return false;
    }
    if (!early)
        return true;
    uint64_t request_now = this_epochs_request();
    if (atomic_exchange_explicit(&asked, request_now, memory_order_relaxed) != request_now)
        background_ring();
    *reason = CYCLE_AWAIT;
    return heap_then > goal && !is_limit_lost();
}

/* ---- the parts of a cycle; blocked or no mutator, cycle lock held ---- */

static void this_thread_begins(void) {
    now.cpu_at = os_time_thread_cpu_ns();
}

static void this_thread_ends(void) {
    now.cpu_ns += os_time_thread_cpu_ns() - now.cpu_at;
}

static void stop(void) {
    now.stopping_ns = stop_world();
}

/*
 * A stop is over when the last thread runs again, which is up to 60 us after it was let go. The books of a stop stay
 * open until then, or until the next stop or the cycle's end, whichever comes first.
 */
static void close_stop(int64_t wait_ns) {
    if (now.open_clock == NULL)
        return;
    int64_t give_up = os_time_mono_ns() + wait_ns, resumed;
    while ((resumed = stop_resumed_ns()) < 0 && os_time_mono_ns() < give_up)
        os_cpu_relax();
    int64_t end_ns = resumed > now.let_go_ns ? resumed : now.let_go_ns;
    if (resumed < 0)
        end_ns = os_time_mono_ns();
    int64_t pause = end_ns - now.stop_start_ns;
    *now.open_clock += pause;
    now.open_clock = NULL;
    now.report.stops++;
    now.report.pause_ns += pause;
    if (pause > now.report.pause_max_ns)
        now.report.pause_max_ns = pause;
    if (now.stopping_ns > now.report.stopping_ns)
        now.report.stopping_ns = now.stopping_ns;
    stats_stop(pause, now.stopping_ns);
}

/* Stops, with the time and the CPU that it takes in the books. */
static void stop_all(void) {
    close_stop(0);
    int64_t cpu = now.stop_cpu_at = os_time_thread_cpu_ns();
    now.stop_start_ns = os_time_mono_ns();
    if (settings.data_segments)
        roots_stop_with_segments(stop);
    else
        stop();
    now.report.stop_cpu_ns += os_time_thread_cpu_ns() - cpu;
}

static void start_all(int64_t *clock) {
    int64_t cpu = os_time_thread_cpu_ns();
    start_world();
    now.let_go_ns = os_time_mono_ns();
    now.open_clock = clock;
    int64_t cpu_now = os_time_thread_cpu_ns();
    now.report.stop_cpu_ns += cpu_now - cpu;
    now.report.stops_cpu_ns += cpu_now - now.stop_cpu_at;
}

/* What masks and tiny blocks still show is black in this cycle: it may become an object at any time. */
static void blacken_mask(struct mutator *m, unsigned kind, unsigned size_class, void *bytes_at) {
    const struct open_span *span = &m->spans[kind][size_class];
    uint64_t bits = atomic_load_explicit(&m->masks[kind][size_class].bits, memory_order_acquire);
    *(uint64_t *)bytes_at += (uint64_t)__builtin_popcountll(bits) * sizeclass_table[size_class].bytes;
    if (bits == 0 || fault_is(FAULT_OPEN_MASK_NOT_BLACKENED))
        return;
    struct page *page = heap_page(span->index);
    unsigned slots = span_slots(span->index);
    heap_marks_group_or(heap_marks(page, slots), slots, span->group, bits);
    /* The owner may have used the span up and given it away when marking ends. */
    atomic_fetch_or_explicit(&page->flags, PAGE_LIVE, memory_order_relaxed);
}

static uint64_t blacken_open(void) {
    uint64_t bytes = 0;
    for (struct mutator *m = mutator_list; m != NULL; m = m->next) {
        mutator_each_span(m, blacken_mask, &bytes);
        if (m->tiny_base != NULL && !fault_is(FAULT_TINY_BLOCK_LEFT_WHITE)) {
            struct heap_place place = heap_find((uintptr_t)m->tiny_base);
            unsigned slots = span_slots(place.index);
            _Atomic uint32_t *marks = heap_marks(place.head, slots);
            atomic_fetch_or_explicit(&marks[place.slot / 32], 1u << place.slot % 32, memory_order_relaxed);
            atomic_fetch_or_explicit(&place.head->flags, PAGE_LIVE, memory_order_relaxed);
        }
    }
    return bytes;
}

static void add_shown(struct mutator *m, unsigned kind, unsigned size_class, void *bytes_at) {
    uint64_t bits = atomic_load_explicit(&m->masks[kind][size_class].bits, memory_order_acquire);
    *(uint64_t *)bytes_at += (uint64_t)__builtin_popcountll(bits) * sizeclass_table[size_class].bytes;
}

static uint64_t open_bytes(void) {
    uint64_t bytes = 0;
    for (struct mutator *m = mutator_list; m != NULL; m = m->next)
        mutator_each_span(m, add_shown, &bytes);
    return bytes;
}

/* Up to the end of the look at the roots; the world is stopped then. */
static void begin(enum cycle_reason reason) {
    memset(&now, 0, sizeof now);
    this_thread_begins();
    now.report.forced = reason == CYCLE_FORCED;
    now.share_only = reason == CYCLE_PERIODIC;
    sweep_finish();
    mark_prepare(atomic_load_explicit(&account.live, memory_order_relaxed));
    now.report.sweep_cpu_ns = os_time_thread_cpu_ns() - now.cpu_at;

    now.report.by_limit = atomic_load_explicit(&account.by, memory_order_relaxed) == PACER_BY_LIMIT;
    now.report.goal = atomic_load_explicit(&account.goal, memory_order_relaxed);
    now.report.start_ns = os_time_mono_ns();
    stop_all();
    sweep_owned();
    if (settings.verify)
        verify_swept();
    now.heap_at_start = now.report.heap_before = account_heap();
    now.open_at_start = blacken_open();
    barrier_begin();
    mark_begin();
    now.roots = mark_roots();
    /* After it: a thread in a blocking section may overwrite stale words of its frames in between. The other way
     * round these would be missed. */
    if (settings.verify)
        verify_snapshot();
    pace_begin(now.heap_at_start);
}

static uint64_t least_of(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Nothing is grey: what is dead is decided, in this stop. */
static void decide(void) {
    if (settings.verify)
        verify_marked();
    struct mark_result marked = mark_result();
    struct cycle_report *r = &now.report;
    r->heap_end = account_heap();
    /* What was allocated while marking is live, but for what masks show and nobody has. */
    int64_t live = (int64_t)marked.live_bytes + (int64_t)(r->heap_end - now.heap_at_start) +
                   (int64_t)(now.open_at_start - open_bytes());
    r->live = live > 0 ? (uint64_t)live : 0;
    r->stack_bytes = now.roots.stack_bytes;
    r->global_bytes = now.roots.global_bytes;
    r->mark_cpu_ns = marked.cpu_ns;
    r->assist_ns = marked.assist_ns;
    r->idle_ns = marked.idle_ns;
    r->beside_ns = marked.beside_ns;
    r->beside_cpu_ns = marked.beside_cpu_ns;
    r->mark_ns = marked.wall_ns;
    r->other_cpu_ns = -marked.own_cpu_ns;
    weak_marking_is_over();
    handle_trim();
    atomic_fetch_add_explicit(&heap.epoch, 1, memory_order_release);
    barrier_set(false);
    sweep_reset();
    pace_end(r->heap_end, &marked, now.roots);
    account_cycle(&(struct account_marked){.live = r->live,
                                           .marked = least_of(marked.live_bytes, r->live),
                                           .doubted = least_of(marked.doubted_bytes, r->live),
                                           .stack_bytes = r->stack_bytes,
                                           .global_bytes = r->global_bytes});
}

static void tell_progress(void) {
    atomic_fetch_add_explicit(&progress, 1, memory_order_release);
    os_futex_wake(&progress, INT32_MAX);
}

/* After the last stop: the tables, the walk, the books. */
static void end(void) {
    weak_after_mark();
    cleanup_after_mark();
    int64_t cpu = os_time_thread_cpu_ns();
    sweep_open();
    /* Under a limit the goal wants to know what is free, and the next allocation needs it. */
    bool more = sweep_walk_now_or_later(background_is_there() &&
                                        atomic_load_explicit(&settings.memory_limit, memory_order_relaxed) ==
                                            UINT64_MAX);
    now.report.sweep_cpu_ns += os_time_thread_cpu_ns() - cpu;
    close_stop(RESUME_WAIT_NS);
    offheap_refresh();
    account_note_peaks();
    account_decide();
    sweep_allow();
    this_thread_ends();
    now.report.other_cpu_ns += now.cpu_ns - now.report.stop_cpu_ns - now.report.sweep_cpu_ns;
    report_cycle(&now.report);
    pace_arm_early(now.report.mark_cpu_ns);
    tell_progress();
    if (more)
        background_ring();
    cleanup_wake();
}

/*
 * Start stop. true: the cycle is over but for end(). false: the barrier is on, the world runs, and the rest is to
 * be marked beside it.
 */
static bool first_stop(enum cycle_reason reason, bool in_one_stop) {
    begin(reason);
    bool done = true;
    if (!settings.concurrent)
        mark_to_end();
    else
        done = in_one_stop && mark_for(STOP_BUDGET_NS);
    if (done)
        decide();
    else
        barrier_set(true);
    start_all(&now.report.start_stop_ns);
    return done;
}

/* Marks beside the program, and stops for the end as often as it takes. */
static void mark_rest(void) {
    for (bool over = false; !over;) {
        mark_beside(pace_look, now.share_only);
        stop_all();
        now.roots = mark_roots();
        over = mark_for(STOP_BUDGET_NS);
        if (over)
            decide();
        start_all(&now.report.end_stop_ns);
    }
}

/* A whole cycle by this thread. */
static void run(enum cycle_reason reason) {
    if (!first_stop(reason, atomic_load_explicit(&account.one_stop, memory_order_relaxed))) {
        tell_progress();
        mark_rest();
    }
    end();
}

/* ---- the background ---- */

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t periodic_due_ns(void) {
    if (atomic_load_explicit(&settings.gc_percent, memory_order_relaxed) < 0)
        return INT64_MAX;
    return report_last_end_ns() + settings.period_ns;
}

static int64_t deadline_ns(void) {
    return least(sweep_deadline_ns(), least(periodic_due_ns(), pace_early_due_ns()));
}

/* Whether a cycle is due that nobody asked for. */
static bool is_due(void) {
    int64_t now_ns = os_time_mono_ns();
    if (now_ns >= periodic_due_ns())
        return true;
    if (now_ns < pace_early_due_ns())
        return false;
    return os_cpu_runnable() <= settings.processors || !pace_put_off_early();
}

/* The lock is not fair: a thread that collects all the time would keep one that forks from it for seconds. */
static void acquire_after_holders(void) {
    uint32_t n;
    while ((n = atomic_load_explicit(&holders, memory_order_relaxed)) != 0)
        os_futex_wait(&holders, n, -1);
    os_lock_acquire(&cycle_lock);
}

static void take_over(void) {
    this_thread_begins();
    mark_rest();
    end();
    os_lock_release(&cycle_lock);
}

/* How often the processors that the program may use are counted again. */
#define COUNT_AGAIN_NS INT64_C(1000000000)

/* Follows the affinity mask and the container's quota, unless the program or GOMAXPROCS says a number. */
static void follow_processors(void) {
    static int64_t counted_ns; /* by the background thread */
    int64_t now_ns = os_time_mono_ns();
    if (!settings.follow_processors || now_ns - counted_ns < COUNT_AGAIN_NS)
        return;
    counted_ns = now_ns;
    int count = os_cpu_count();
    if (count != settings.processors) {
        settings.processors = count;
        report_processors_changed();
    }
}

/*
 * The lock for the background. Who has it may be about to hand it over, together with its cycle, to this very
 * thread; so this does not sleep on the lock. A release without that is seen after a while.
 */
static void acquire_or_be_handed(void) {
    for (;;) {
        uint32_t before = atomic_load_explicit(&progress, memory_order_acquire);
        if (atomic_exchange_explicit(&handed, false, memory_order_acquire))
            take_over();
        if (atomic_load_explicit(&holders, memory_order_relaxed) == 0 && os_lock_try(&cycle_lock))
            return;
        os_futex_wait(&progress, before, LOOK_AGAIN_NS);
    }
}

static void background_turn(void) {
    if (atomic_exchange_explicit(&handed, false, memory_order_acquire))
        take_over();
    bool wanted = is_asked();
    bool due = !wanted && is_due();
    if (wanted || due) {
        uint32_t seen = heap_epoch();
        acquire_or_be_handed();
        follow_processors(); /* under the lock: it takes another, which a fork must find free */
        if (heap_epoch() == seen)
            run(wanted ? CYCLE_HEAP : CYCLE_PERIODIC);
        os_lock_release(&cycle_lock);
    }
    sweep_background();
}

static const struct background_work background_work = {background_turn, deadline_ns};

/* ---- the program's threads ---- */

/* Until a cycle that was asked for marks, or, where the limit would be passed before, is over. */
static __attribute__((noinline)) void await(uint32_t seen, uint64_t request) {
    for (;;) {
        uint32_t before = atomic_load_explicit(&progress, memory_order_acquire);
        bool open = sweep_is_open();
        if (open && heap_epoch() != seen)
            return;
        if (open && (barrier_is_on() ? !must_finish(request) : !is_asked()))
            return;
        os_futex_wait(&progress, before, -1);
    }
}

/*
 * true: the background has the cycle now, and the lock. In frames of their own: what lies in the caller's is a root,
 * and the collector's own words there would change between two looks at it.
 */
static __attribute__((noinline)) bool begin_or_run(struct mutator *self, enum cycle_reason reason) {
    bool waits = reason == CYCLE_FORCED || reason == CYCLE_EMERGENCY || !background_is_there();
    if (!settings.concurrent || waits) {
        run(reason);
        /* Who asked wants the memory, too: as Go's runtime.GC. */
        if (reason != CYCLE_HEAP && reason != CYCLE_STRESS) {
            sweep_finish();
            sweep_allow();
        }
        return false;
    }
    /* Stress would have all of a small heap in one stop; half of the time it is marked beside. */
    bool one = reason == CYCLE_STRESS ? (self->stress_random >> 40 & 1) != 0
                                      : atomic_load_explicit(&account.one_stop, memory_order_relaxed);
    if (first_stop(reason, one)) {
        end();
        return false;
    }
    this_thread_ends();
    atomic_store_explicit(&handed, true, memory_order_release);
    tell_progress();
    background_ring();
    return true;
}

/*
 * The lock for a thread that wants memory. false: meanwhile another one brought the cycle about, or has it mark beside
 * the program, which need not be waited for.
 */
static bool acquire_for_heap(uint32_t seen) {
    for (;;) {
        uint32_t before = atomic_load_explicit(&progress, memory_order_acquire);
        if (heap_epoch() != seen || barrier_is_on())
            return false;
        if (atomic_load_explicit(&holders, memory_order_relaxed) == 0 && os_lock_try(&cycle_lock))
            break;
        os_futex_wait(&progress, before, LOOK_AGAIN_NS);
    }
    if (heap_epoch() == seen)
        return true;
    os_lock_release(&cycle_lock);
    return false;
}

void cycle_collect(struct mutator *self, enum cycle_reason reason) {
    uint32_t seen = heap_epoch();
    int saved = errno;
    /* A fork handler of the program's that runs between ours: this thread holds the cycle. */
    if (unlikely(mutator_forks))
        return;
    mutator_block(self);
    if (reason == CYCLE_AWAIT) {
        await(seen, self->request);
    } else if (reason != CYCLE_HEAP || acquire_for_heap(seen)) {
        if (reason != CYCLE_HEAP)
            acquire_after_holders();
        background_prepare(&background_work);
        if (!begin_or_run(self, reason))
            os_lock_release(&cycle_lock);
    }
    /* It marks beside the program, which may go on but where the limit would be passed. */
    if (reason == CYCLE_HEAP && barrier_is_on() && must_finish(self->request))
        await(seen, self->request);
    mutator_unblock(self);
    cycle_deliver();
    errno = saved;
}

void cycle_begin_for_test(struct mutator *self) {
    mutator_block(self);
    os_lock_acquire(&cycle_lock);
    gc_check(settings.concurrent && !first_stop(CYCLE_FORCED, false), "this cycle cannot be cut in pieces");
    this_thread_ends();
    mutator_unblock(self);
}

void cycle_mark_for_test(struct mutator *self) {
    mutator_block(self);
    mark_beside(pace_look, false);
    mutator_unblock(self);
}

void cycle_end_for_test(struct mutator *self) {
    mutator_block(self);
    take_over();
    mutator_unblock(self);
}

void cycle_hold(void) {
    atomic_fetch_add_explicit(&holders, 1, memory_order_relaxed);
    os_lock_acquire(&cycle_lock);
    if (atomic_fetch_sub_explicit(&holders, 1, memory_order_relaxed) == 1)
        os_futex_wake(&holders, INT32_MAX);
    sweep_finish();
}

void cycle_release(void) {
    os_lock_release(&cycle_lock);
}

void cycle_after_fork(void) {
    /* By threads that are gone. The collector's state is whole: no cycle was under way. */
    atomic_store_explicit(&asked, 0, memory_order_relaxed);
    atomic_store_explicit(&holders, 0, memory_order_relaxed);
}

void cycle_stopped(struct mutator *self, void (*function)(void *context), void *context) {
    mutator_block(self);
    cycle_hold();
    stop();
    sweep_owned();
    function(context);
    start_world();
    cycle_release();
    mutator_unblock(self);
}

void cycle_settings_changed(struct mutator *self) {
    mutator_enter(self);
    account_decide();
    mutator_leave(self);
    background_ring(); /* a deadline may have moved */
}
