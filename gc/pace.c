/* See pace.h. */
#include "gc/pace.h"

#include "gc/account.h"
#include "gc/assist.h"
#include "gc/os/os_futex.h"
#include "gc/os/os_time.h"
#include "gc/pacer.h"
#include "gc/settings.h"

/*
 * A cycle that is expected to scan no more than this is done in its start stop: about 50 us, less than waking a
 * background thread, starting and stopping once more would cost.
 */
#define ONE_STOP_BYTES (48 * KIB)
/* An assist that finds nothing to scan while the heap is past its goal waits so long, so often, for workers. */
#define WAIT_NS    INT64_C(100000)
#define WAITS_MOST 10

/* Early cycles: only heaps that hold so much, after so long, when so much was allocated (or 1/64 of what is live). */
#define EARLY_HELD_BYTES  (64 * MIB)
#define EARLY_WAIT_NS     INT64_C(3000000000)
#define EARLY_ALLOC_BYTES (16 * MIB)
#define EARLY_ALLOC_SHARE 64
/* So many times the CPU of the last marking passes in between: a tenth of one processor. */
#define EARLY_COST_FACTOR 10
/* How much later when processors were busy, and how often: its quarter of them is little to ask in the end. */
#define EARLY_PUT_OFF_NS   INT64_C(1000000000)
#define EARLY_PUT_OFF_MOST 3

static struct {
    _Atomic uint64_t at;     /* heap bytes from which one is wanted; UINT64_MAX: not. relaxed */
    _Atomic int64_t due_ns;  /* INT64_MAX: not. relaxed */
    _Atomic int64_t last_ns; /* when the last cycle ended, and its marking's CPU; relaxed */
    _Atomic int64_t cost_ns;
    _Atomic int put_off; /* times, of the one that is due; relaxed would do */
} early = {.at = UINT64_MAX, .due_ns = INT64_MAX};

void pace_arm_early(int64_t mark_cpu_ns) {
    bool on = settings.concurrent && account_total() > EARLY_HELD_BYTES &&
              atomic_load_explicit(&settings.gc_percent, memory_order_relaxed) >= 0;
    uint64_t live = atomic_load_explicit(&account.live, memory_order_relaxed),
             share = live / EARLY_ALLOC_SHARE;
    early.put_off = 0;
    atomic_store_explicit(&early.due_ns, INT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&early.last_ns, os_time_mono_ns(), memory_order_relaxed);
    atomic_store_explicit(&early.cost_ns, mark_cpu_ns, memory_order_relaxed);
    atomic_store_explicit(&early.at,
                          on ? live + (share > EARLY_ALLOC_BYTES ? share : EARLY_ALLOC_BYTES) : UINT64_MAX,
                          memory_order_relaxed);
}

bool pace_is_early_wanted(uint64_t heap_bytes) {
    if (likely(heap_bytes <= atomic_load_explicit(&early.at, memory_order_relaxed)) ||
        atomic_exchange_explicit(&early.at, UINT64_MAX, memory_order_relaxed) == UINT64_MAX)
        return false;
    int64_t wait = EARLY_COST_FACTOR * atomic_load_explicit(&early.cost_ns, memory_order_relaxed);
    atomic_store_explicit(&early.due_ns,
                          atomic_load_explicit(&early.last_ns, memory_order_relaxed) +
                              (wait > EARLY_WAIT_NS ? wait : EARLY_WAIT_NS),
                          memory_order_relaxed);
    return true;
}

int64_t pace_early_due_ns(void) {
    return atomic_load_explicit(&early.due_ns, memory_order_relaxed);
}

bool pace_put_off_early(void) {
    if (early.put_off++ == EARLY_PUT_OFF_MOST)
        return false;
    atomic_store_explicit(&early.due_ns, os_time_mono_ns() + EARLY_PUT_OFF_NS, memory_order_relaxed);
    return true;
}

static struct {
    struct pacer pacer;           /* by who holds the cycle lock */
    uint64_t scannable_at_start;  /* as pacer */
    struct assist_in in;          /* what does not change in a cycle; as pacer */
    _Atomic double work_per_byte; /* both relaxed: a pair that is torn once misprices one assist */
    _Atomic double bytes_per_work;
    _Atomic bool hold_back; /* relaxed */
} pace;

void pace_init(void) {
    pace.pacer = (struct pacer){0};
    atomic_store_explicit(&pace.hold_back, false, memory_order_relaxed);
    atomic_store_explicit(&early.at, UINT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&early.due_ns, INT64_MAX, memory_order_relaxed);
}

void pace_hold_back(bool hold) {
    atomic_store_explicit(&pace.hold_back, hold, memory_order_relaxed);
}

void pace_look(void) {
    struct assist_in in = pace.in;
    in.heap_bytes = account_heap();
    in.goal = atomic_load_explicit(&account.goal, memory_order_relaxed);
    in.limit_goal = atomic_load_explicit(&account.limit_goal, memory_order_relaxed);
    in.gc_percent = atomic_load_explicit(&settings.gc_percent, memory_order_relaxed);
    in.scan_done = mark_work_done();
    struct assist_ratio ratio = assist_ratio(&in);
    atomic_store_explicit(&pace.work_per_byte, ratio.work_per_byte, memory_order_relaxed);
    atomic_store_explicit(&pace.bytes_per_work, ratio.bytes_per_work, memory_order_relaxed);
}

void pace_begin(uint64_t heap_bytes) {
    pace.scannable_at_start = account_scannable();
    pace.in = (struct assist_in){
        .trigger_bytes = heap_bytes,
        .scan_expected = pace.pacer.heap_scan_bytes,
        .scan_max = account_scannable(),
    };
    pace_look();
}

static struct assist_ratio ratio_now(void) {
    return (struct assist_ratio){
        .work_per_byte = atomic_load_explicit(&pace.work_per_byte, memory_order_relaxed),
        .bytes_per_work = atomic_load_explicit(&pace.bytes_per_work, memory_order_relaxed),
    };
}

static bool is_past_goal(void) {
    return account_heap() > atomic_load_explicit(&account.goal, memory_order_relaxed);
}

void pace_charge_marking(struct mutator *self, uint64_t bytes) {
    if (self->assist_epoch != heap_epoch()) {
        self->assist_epoch = heap_epoch();
        self->assist_debt = 0;
    }
    self->assist_debt += (int64_t)bytes;
    for (int waits = 0; self->assist_debt > 0 && barrier_is_on(); waits++) {
        if (atomic_load_explicit(&pace.hold_back, memory_order_relaxed))
            return;
        struct assist_ratio ratio = ratio_now();
        struct assist_charge charge = assist_charge(&ratio, (uint64_t)self->assist_debt);
        int64_t left = mark_assist(self, (int64_t)(charge.work < INT64_MAX ? charge.work : INT64_MAX));
        if (left <= 0) {
            self->assist_debt -= (int64_t)charge.bytes;
            return;
        }
        self->assist_debt -= (int64_t)assist_paid(&ratio, charge.work - (uint64_t)left);
        /* Others have all there is to scan. Within the goal that is as good as done; and with more live than the
         * limit holds there is no goal to keep. */
        if (!is_past_goal() || waits == WAITS_MOST || account_would_pass_limit(bytes))
            return;
        mutator_block(self);
        os_time_sleep_ns(WAIT_NS);
        mutator_unblock(self);
    }
}

void pace_end(uint64_t heap_bytes, const struct mark_result *result, struct roots_size roots) {
    int64_t beside_ns = result->beside_ns;
    struct pacer_cycle c = {
        .trigger_bytes = pace.in.trigger_bytes,
        .end_bytes = heap_bytes,
        .heap_scan_bytes = result->scanned_bytes,
        .stack_scan_bytes = roots.stack_bytes,
        .global_scan_bytes = roots.global_bytes,
        .mark_ns = beside_ns,
        .procs = settings.processors,
        .assist_ns = result->assist_ns,
        .idle_ns = result->idle_ns,
    };
    /* background_utilisation stays 0, which presumes the planned share: measured, workers that were starved would make
     * the next cycle start later. */
    pacer_end_cycle(&pace.pacer, &c);
    account_scanned(result->scanned_bytes, pace.scannable_at_start);
    bool one_stop = !settings.concurrent || result->scanned_bytes <= ONE_STOP_BYTES;
    atomic_store_explicit(&account.one_stop, one_stop, memory_order_relaxed);
    atomic_store_explicit(&account.runway, pacer_runway(&pace.pacer, pacer_scan_expected(&pace.pacer)),
                          memory_order_relaxed);
}
