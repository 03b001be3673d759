/*
 * One marking: roots, the markers and their end, what could not be queued, mutators that help. Calls marker,
 * grey, roots, mutator (S1), gc/os.
 */
#include "gc/mark.h"

#include <string.h>

#include "gc/barrier.h"
#include "gc/heap.h"
#include "gc/marker.h"
#include "gc/mutator.h"
#include "gc/os/os_cpu.h"
#include "gc/os/os_futex.h"
#include "gc/os/os_thread.h"
#include "gc/os/os_time.h"
#include "gc/pacer.h"
#include "gc/settings.h"

#define MARKERS_MOST 64
/* Mutators that may scan at once; others find none free and wait for these. */
#define GUESTS_MOST 16
/* Live bytes for each helper beside the first marker: under this the wake-up (50 us) costs more than it
 * brings. */
#define BYTES_A_HELPER (4 * MIB)
/* Helpers never recurse and call nothing deep, but a trace function is the program's. */
#define HELPER_STACK_BYTES (256 * KIB)
/* What is scanned between looks at others' hunger: about 5 to 100 us, as words hit the caches or miss them. */
#define STEP_OBJECTS 512
#define STEP_BYTES   (32 * KIB)
/* The same where a stop waits for the end of a piece, or for the budget: about 1 to 20 us. */
#define SHORT_STEP_OBJECTS 128
#define SHORT_STEP_BYTES   (8 * KIB)
/* How often a background marker looks whether the processors are wanted by others. */
#define LOOK_NS INT64_C(1000000)
/* A background marker that shares its processor works so long at a time, then sleeps for its share's sake. */
#define SLICE_NS INT64_C(200000)

static struct {
    struct marker markers[MARKERS_MOST]; /* [0] is the cycle's own thread */
    struct marker guests[GUESTS_MOST];   /* for mutators; by who cleared its bit in guests_free */
    _Atomic uint32_t guests_free;        /* one bit a guest; acq_rel */
    pthread_t threads[MARKERS_MOST];
    unsigned started; /* helper threads that exist; by the cycle's thread */
    unsigned wanted;  /* markers of this cycle when the world is stopped for all of it */
    unsigned active;  /* markers of this round; by the cycle's thread */
    /*
     * A futex: the number of the round, whether it runs beside the program, and how many markers it has, in one
     * word: a helper that wakes late must not take the last round for one that it belongs to. None: the end.
     * release.
     */
    _Atomic uint32_t round;
    _Atomic uint32_t running;  /* futex: helpers that are not done yet; acq_rel */
    bool ring_last;            /* the order that the last cycle used for most */
    _Atomic bool overflowed;   /* some page is flagged PAGE_REGREY; relaxed, read when all are dry */
    _Atomic uint64_t work;     /* scanned bytes of this cycle; relaxed */
    _Atomic int64_t credit;    /* scanned by background markers, not yet used up by debts; relaxed */
    _Atomic int64_t assist_ns; /* of this cycle; relaxed */
    int64_t beside_ns;         /* wall time of concurrent marking in this cycle */
    int64_t beside_cpu_ns;     /* its CPU, of all markers but assists */
    int64_t stopped_ns;        /* wall time of marking in stops */
} marking;

#define ROUND_MARKERS 0x7fu /* in the word `round` */
#define ROUND_BESIDE  0x80u
#define ROUND_NEXT    0x100u
static_assert(MARKERS_MOST <= ROUND_MARKERS, "a round's markers have their place in its word");

static void open_word(unsigned active, bool beside) {
    uint32_t now = atomic_load_explicit(&marking.round, memory_order_relaxed) & ~(ROUND_NEXT - 1);
    atomic_store_explicit(&marking.round, (now + ROUND_NEXT) | (beside ? ROUND_BESIDE : 0) | active,
                          memory_order_release);
    os_futex_wake(&marking.round, INT32_MAX);
}

static bool ready(struct marker *m) {
    return m->grey.top != NULL || grey_stack_init(&m->grey) == 0;
}

/* Publishes what the marker did since the last time. Background work is credit for who allocates. */
static void publish(struct marker *m) {
    uint64_t fresh = m->scanned_bytes - m->published_bytes;
    m->published_bytes = m->scanned_bytes;
    atomic_fetch_add_explicit(&marking.work, fresh, memory_order_relaxed);
    if (!m->guest)
        atomic_fetch_add_explicit(&marking.credit, (int64_t)fresh, memory_order_relaxed);
    if (m->overflowed) {
        m->overflowed = false;
        atomic_store_explicit(&marking.overflowed, true, memory_order_relaxed);
    }
}

/* Waits for work. false: all are dry. The marker is busy before, and after true. */
static bool more_work(struct marker *m) {
    return grey_pool_take(&m->grey);
}

static void donate(struct marker *m) {
    if (grey_pool_hungry())
        grey_pool_donate(&m->grey);
}

static void run_stopped(struct marker *m) {
    do
        while (marker_step(m, STEP_OBJECTS, STEP_BYTES))
            donate(m);
    while (more_work(m));
    publish(m);
}

/* Whether the processors are wanted by more threads than there are. */
static bool crowded(void) {
    int runnable = os_cpu_runnable();
    return runnable < 0 || runnable > settings.processors;
}

/* The first marker's pace where it shares a processor: its share of each slice, then sleep. */
static void sleep_for_share(void) {
    double share = PACER_UTILISATION * settings.processors;
    if (share >= 1)
        return;
    os_time_sleep_ns((int64_t)((double)SLICE_NS * (1 - share) / share));
}

/*
 * Beside the program. The first marker stays to the end, at its share of the time where processors are scarce;
 * of the others the planned ones stay, and the rest leave as soon as somebody else wants the processor.
 */
static void run_beside(struct marker *m, unsigned index, void (*look)(void), bool share_only) {
    unsigned stay = (unsigned)pacer_workers(settings.processors).dedicated;
    int64_t looked = os_time_mono_ns(), slice = looked;
    bool shares = index == 0 && stay == 0 && (share_only || crowded());
    do {
        while (marker_step(m, STEP_OBJECTS, STEP_BYTES)) {
            donate(m);
            publish(m);
            int64_t now = os_time_mono_ns();
            if (now - looked >= LOOK_NS) {
                looked = now;
                bool many = crowded();
                if (index != 0 && index >= stay && many) {
                    marker_settle(m);
                    publish(m); /* settling may not have found room for all */
                    grey_pool_leave(&m->grey, NULL);
                    return;
                }
                shares = index == 0 && stay == 0 && (share_only || many);
                if (look != NULL)
                    look();
            }
            if (shares && now - slice >= SLICE_NS) {
                sleep_for_share();
                slice = os_time_mono_ns();
            }
        }
        publish(m);
    } while (more_work(m));
}

static void *helper(void *argument) {
    unsigned index = (unsigned)((uintptr_t)argument & ROUND_MARKERS);
    struct marker *m = &marking.markers[index];
    uint32_t round = (uint32_t)((uintptr_t)argument >> 8);
    for (;;) {
        os_futex_wait(&marking.round, round, -1);
        uint32_t now = atomic_load_explicit(&marking.round, memory_order_acquire);
        if (now == round)
            continue;
        round = now;
        if ((round & ROUND_MARKERS) == 0)
            return NULL;
        if (index >= (round & ROUND_MARKERS))
            continue;
        int64_t start = os_time_thread_cpu_ns();
        if (round & ROUND_BESIDE)
            run_beside(m, index, NULL, false);
        else
            run_stopped(m);
        m->cpu_ns += os_time_thread_cpu_ns() - start;
        if (atomic_fetch_sub_explicit(&marking.running, 1, memory_order_acq_rel) == 1)
            os_futex_wake(&marking.running, 1);
    }
}

int mark_init(void) {
    memset(&marking, 0, sizeof marking);
    atomic_store_explicit(&marking.guests_free, (1u << GUESTS_MOST) - 1, memory_order_relaxed);
    return ready(&marking.markers[0]) ? 0 : -1;
}

void mark_prepare(uint64_t expected_live_bytes) {
    uint64_t wanted = 1 + expected_live_bytes / BYTES_A_HELPER;
    if (wanted > (uint64_t)settings.markers)
        wanted = (uint64_t)settings.markers;
    if (wanted > MARKERS_MOST)
        wanted = MARKERS_MOST;
    unsigned n = 1;
    while (n < wanted) {
        if (!ready(&marking.markers[n]))
            break;
        if (n > marking.started) {
            char name[16] = "tern-mark-";
            name[10] = (char)('0' + n / 10);
            name[11] = (char)('0' + n % 10);
            if (os_thread_start(
                    &marking.threads[n], name, HELPER_STACK_BYTES, helper,
                    (void *)((uintptr_t)atomic_load_explicit(&marking.round, memory_order_relaxed) << 8 |
                             n)) != 0)
                break;
            marking.started = n;
        }
        n++;
    }
    marking.wanted = n;
}

void mark_shutdown(void) {
    open_word(0, false);
    for (unsigned i = 1; i <= marking.started; i++)
        pthread_join(marking.threads[i], NULL);
    for (unsigned i = 0; i < MARKERS_MOST; i++)
        grey_stack_destroy(&marking.markers[i].grey);
    for (unsigned i = 0; i < GUESTS_MOST; i++) {
        grey_stack_destroy(&marking.guests[i].grey);
        grey_stack_destroy(&marking.guests[i].own);
    }
    memset(&marking, 0, sizeof marking);
}

void mark_after_fork(void) {
    marking.started = 0;
    marking.wanted = marking.active = 1;
    atomic_store_explicit(&marking.running, 0, memory_order_relaxed);
}

static void drain(struct marker *m) {
    while (marker_step(m, STEP_OBJECTS, STEP_BYTES)) {
    }
}

/* Objects whose page was flagged because a queue could not grow: all marked ones of the page are scanned
 * (again). */
static void scan_flagged(struct marker *m) {
    page_index end = (page_index)(m->grown >> PAGE_SHIFT);
    for (page_index i = 1; i < end; i++) {
        struct page *page = heap_page(i);
        if ((atomic_load_explicit(&page->flags, memory_order_relaxed) & PAGE_REGREY) == 0)
            continue;
        atomic_fetch_and_explicit(&page->flags, (uint8_t)~PAGE_REGREY, memory_order_relaxed);
        if (atomic_load_explicit(&page->use, memory_order_relaxed) == PAGE_LARGE) {
            marker_requeue(m, i, 0);
            drain(m);
            continue;
        }
        unsigned slots = atomic_load_explicit(&page->slot_count, memory_order_relaxed);
        for (unsigned g = 0; g < page_groups(slots); g++) {
            uint64_t bits = atomic_load_explicit(&heap_allocated(i)[g], memory_order_relaxed) &
                            heap_marks_group(heap_marks(page, slots), slots, g);
            for (; bits != 0; bits &= bits - 1) {
                marker_requeue(m, i, g * 64 + (unsigned)__builtin_ctzll(bits));
                drain(m);
            }
        }
    }
}

void mark_begin(void) {
    grey_pool_open();
    for (unsigned i = 0; i <= marking.started || i == 0; i++) {
        marking.markers[i].ring_order = marking.ring_last;
        marking.markers[i].cpu_ns = 0;
        marker_begin(&marking.markers[i], false);
    }
    for (unsigned i = 0; i < GUESTS_MOST; i++) {
        marking.guests[i].ring_order = false;
        marking.guests[i].guest = true;
        marker_begin(&marking.guests[i], true);
    }
    atomic_store_explicit(&marking.overflowed, false, memory_order_relaxed);
    atomic_store_explicit(&marking.work, 0, memory_order_relaxed);
    atomic_store_explicit(&marking.credit, 0, memory_order_relaxed);
    atomic_store_explicit(&marking.assist_ns, 0, memory_order_relaxed);
    marking.beside_ns = marking.beside_cpu_ns = marking.stopped_ns = 0;
}

/* Both clocks: on a busy machine the one goes on while others have the processor. */
static void add_stopped(struct marker *own, int64_t clock, int64_t cpu) {
    own->cpu_ns += os_time_thread_cpu_ns() - cpu;
    marking.stopped_ns += os_time_mono_ns() - clock;
}

struct roots_size mark_roots(void) {
    struct marker *own = &marking.markers[0];
    int64_t start = os_time_mono_ns(), cpu = os_time_thread_cpu_ns();
    own->parallel = false;
    struct roots_size size = roots_each(marker_visit_root, own);
    barrier_each_recorded(own);
    add_stopped(own, start, cpu);
    return size;
}

/* Starts `active` markers; the first is the caller. */
static void open_round(unsigned active, bool beside) {
    for (unsigned i = 1; i < active; i++)
        if (!ready(&marking.markers[i]))
            active = i; /* without memory for its stack a marker is no help */
    for (unsigned i = 0; i < active; i++) {
        marking.markers[i].parallel = beside || active > 1;
        grey_pool_enter();
    }
    marking.active = active;
    if (active > 1) {
        atomic_store_explicit(&marking.running, active - 1, memory_order_relaxed);
        open_word(active, beside);
    }
}

static void close_round(void) {
    uint32_t running;
    while (marking.active > 1 &&
           (running = atomic_load_explicit(&marking.running, memory_order_acquire)) != 0)
        os_futex_wait(&marking.running, running, -1);
}

/* What could not be queued, until all is. */
static void work_off_overflow(struct marker *own) {
    while (atomic_exchange_explicit(&marking.overflowed, false, memory_order_relaxed)) {
        scan_flagged(own);
        publish(own);
    }
}

void mark_to_end(void) {
    struct marker *own = &marking.markers[0];
    int64_t start = os_time_thread_cpu_ns(), clock = os_time_mono_ns();
    open_round(marking.wanted, false);
    run_stopped(own);
    close_round();
    own->parallel = false;
    work_off_overflow(own);
    own->cpu_ns += os_time_thread_cpu_ns() - start;
    marking.stopped_ns += os_time_mono_ns() - clock;
}

bool mark_for(int64_t ns) {
    struct marker *own = &marking.markers[0];
    int64_t start = os_time_mono_ns(), cpu = os_time_thread_cpu_ns();
    bool dry = false, late = false;
    own->parallel = false;
    grey_pool_enter();
    while (!dry && !late) {
        while (!late && marker_step(own, SHORT_STEP_OBJECTS, SHORT_STEP_BYTES))
            late = os_time_mono_ns() - start > ns;
        if (!late)
            dry = !more_work(own);
    }
    if (late)
        grey_pool_pause();
    publish(own);
    add_stopped(own, start, cpu);
    return dry && !atomic_load_explicit(&marking.overflowed, memory_order_relaxed);
}

/* How many markers start: one for each processor that nobody uses, and the planned ones. */
static unsigned beside_markers(bool share_only) {
    int runnable = os_cpu_runnable(); /* with this thread */
    int idle = runnable < 0 ? 0 : settings.processors - runnable + 1;
    int planned = pacer_workers(settings.processors).dedicated;
    if (share_only)
        idle = 0;
    int most = (int)marking.started + 1;
    int wanted = idle > planned ? idle : planned;
    return (unsigned)(wanted < 1 ? 1 : wanted > most ? most : wanted);
}

/* Of the library's markers; no round is open. */
static int64_t markers_cpu_ns(void) {
    int64_t sum = 0;
    for (unsigned i = 0; i <= marking.started; i++)
        sum += marking.markers[i].cpu_ns;
    return sum;
}

void mark_beside(void (*look)(void), bool share_only) {
    struct marker *own = &marking.markers[0];
    int64_t start = os_time_thread_cpu_ns(), clock = os_time_mono_ns(), before = markers_cpu_ns();
    do {
        open_round(beside_markers(share_only), true);
        run_beside(own, 0, look, share_only);
        close_round();
        work_off_overflow(own);
    } while (!grey_pool_is_dry());
    own->cpu_ns += os_time_thread_cpu_ns() - start;
    marking.beside_ns += os_time_mono_ns() - clock;
    marking.beside_cpu_ns += markers_cpu_ns() - before;
}

static struct marker *take_guest(void) {
    uint32_t free = atomic_load_explicit(&marking.guests_free, memory_order_relaxed);
    while (free != 0)
        if (atomic_compare_exchange_weak_explicit(&marking.guests_free, &free, free & (free - 1),
                                                  memory_order_acq_rel, memory_order_relaxed)) {
            struct marker *m = &marking.guests[__builtin_ctz(free)];
            if (ready(m))
                return m;
            atomic_fetch_or_explicit(&marking.guests_free, free & -free, memory_order_acq_rel);
            return NULL;
        }
    return NULL;
}

static void give_guest(struct marker *m) {
    atomic_fetch_or_explicit(&marking.guests_free, 1u << (m - marking.guests), memory_order_acq_rel);
}

/* One piece of work for the debt; 0 when there is none. Inside S1. */
static int64_t assist_piece(void) {
    struct marker *m = take_guest();
    if (m == NULL)
        return 0;
    uint64_t before = m->scanned_bytes;
    int64_t done = 0;
    if (grey_pool_try(&m->grey, true)) {
        marker_step(m, SHORT_STEP_OBJECTS, SHORT_STEP_BYTES);
        marker_settle(m);
        publish(m);
        grey_pool_leave(&m->grey, &m->own);
        done = (int64_t)(m->scanned_bytes - before) + 1;
    }
    give_guest(m);
    return done;
}

int64_t mark_assist(struct mutator *self, int64_t debt) {
    int64_t credit = atomic_load_explicit(&marking.credit, memory_order_relaxed);
    while (credit > 0 && debt > 0) {
        int64_t taken = credit < debt ? credit : debt;
        if (atomic_compare_exchange_weak_explicit(&marking.credit, &credit, credit - taken,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            debt -= taken;
            break;
        }
    }
    if (debt <= 0)
        return debt;
    /* CPU, not the clock: where many threads assist, most of them wait for a processor. */
    int64_t start = os_time_thread_cpu_ns();
    while (debt > 0) {
        mutator_enter(self);
        int64_t done = barrier_is_on() ? assist_piece() : debt;
        mutator_leave(self);
        if (done == 0)
            break;
        debt -= done;
    }
    atomic_fetch_add_explicit(&marking.assist_ns, os_time_thread_cpu_ns() - start, memory_order_relaxed);
    return debt;
}

void mark_note_overflow(void) {
    atomic_store_explicit(&marking.overflowed, true, memory_order_relaxed);
}

uint64_t mark_work_done(void) {
    return atomic_load_explicit(&marking.work, memory_order_relaxed);
}

static void add_up(const struct marker *m, struct mark_result *result, uint64_t *ring, uint64_t *stack) {
    result->live_bytes += m->live_bytes;
    result->doubted_bytes += m->doubted_bytes;
    result->scanned_bytes += m->scanned_bytes;
    *ring += m->ring_objects;
    *stack += m->stack_objects;
}

struct mark_result mark_result(void) {
    struct mark_result result = {.live_bytes = barrier_shaded_bytes()};
    uint64_t ring = 0, stack = 0;
    for (unsigned i = 0; i <= marking.started; i++)
        add_up(&marking.markers[i], &result, &ring, &stack);
    result.cpu_ns = markers_cpu_ns();
    for (unsigned i = 0; i < GUESTS_MOST; i++)
        add_up(&marking.guests[i], &result, &ring, &stack);
    if (ring + stack != 0)
        marking.ring_last = ring > stack;
    int64_t planned = (int64_t)(PACER_UTILISATION * settings.processors * (double)marking.beside_ns);
    result.idle_ns = marking.beside_cpu_ns > planned ? marking.beside_cpu_ns - planned : 0;
    result.own_cpu_ns = marking.markers[0].cpu_ns;
    result.beside_ns = marking.beside_ns;
    result.beside_cpu_ns = marking.beside_cpu_ns;
    result.wall_ns = marking.beside_ns + marking.stopped_ns;
    result.assist_ns = atomic_load_explicit(&marking.assist_ns, memory_order_relaxed);
    result.markers = (int)(marking.beside_ns != 0 ? marking.active : marking.wanted);
    result.order = mark_order_name();
    return result;
}

bool mark_found_dead(const void *object) {
    struct heap_place place = heap_find((uintptr_t)object);
    if (!heap_place_allocated(&place))
        return true;
    return !claim_is_of(atomic_load_explicit(&place.head->claim, memory_order_acquire), heap_epoch()) &&
           !heap_place_marked(&place);
}

bool mark_is_marked(const void *object) {
    struct heap_place place = heap_find((uintptr_t)object);
    return heap_place_allocated(&place) && heap_place_marked(&place);
}

const char *mark_order_name(void) {
    if (settings.marker != MARKER_AUTO)
        return settings.marker == MARKER_RING ? "ring" : "stack";
    return marking.ring_last ? "ring" : "stack";
}
