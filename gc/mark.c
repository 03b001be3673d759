/*
 * One marking: roots, the markers and their end, what could not be queued. Calls marker, grey, roots, gc/os.
 */
#include "gc/mark.h"

#include <string.h>

#include "gc/heap.h"
#include "gc/marker.h"
#include "gc/os/os_futex.h"
#include "gc/os/os_thread.h"
#include "gc/os/os_time.h"
#include "gc/roots.h"
#include "gc/settings.h"

#define MARKERS_MOST 64
/* Live bytes for each helper beside the first marker: under this the wake-up (50 us) costs more than it
 * brings. */
#define BYTES_A_HELPER (4 * MIB)
/* Helpers never recurse and call nothing deep. */
#define HELPER_STACK_BYTES (64 * KIB)

static struct {
    struct marker markers[MARKERS_MOST]; /* [0] is the cycle's own thread */
    pthread_t threads[MARKERS_MOST];
    unsigned started;         /* helper threads that exist; by the cycle's thread */
    unsigned active;          /* markers of this cycle; written before round, read after it */
    bool stopping;            /* as active */
    _Atomic uint32_t round;   /* futex: a new marking, or the end; release */
    _Atomic uint32_t running; /* futex: helpers that are not done yet; acq_rel */
    bool ring_last;           /* the order that the last cycle used for most */
} marking;

static void run(struct marker *m) {
    do
        marker_drain(m);
    while (m->parallel && grey_pool_take(&m->grey));
}

static void *helper(void *argument) {
    unsigned index = (unsigned)(uintptr_t)argument;
    struct marker *m = &marking.markers[index];
    uint32_t round = 0;
    for (;;) {
        os_futex_wait(&marking.round, round, -1);
        uint32_t now = atomic_load_explicit(&marking.round, memory_order_acquire);
        if (now == round)
            continue;
        round = now;
        if (marking.stopping)
            return NULL;
        if (index >= marking.active)
            continue;
        int64_t start = os_time_thread_cpu_ns();
        run(m);
        m->cpu_ns = os_time_thread_cpu_ns() - start;
        if (atomic_fetch_sub_explicit(&marking.running, 1, memory_order_acq_rel) == 1)
            os_futex_wake(&marking.running, 1);
    }
}

static bool ready(struct marker *m) {
    return m->grey.top != NULL || grey_stack_init(&m->grey) == 0;
}

int mark_init(void) {
    memset(&marking, 0, sizeof marking);
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
            if (os_thread_start(&marking.threads[n], name, HELPER_STACK_BYTES, helper,
                                (void *)(uintptr_t)n) != 0)
                break;
            marking.started = n;
        }
        n++;
    }
    marking.active = n;
}

void mark_shutdown(void) {
    marking.stopping = true;
    atomic_fetch_add_explicit(&marking.round, 1, memory_order_release);
    os_futex_wake(&marking.round, INT32_MAX);
    for (unsigned i = 1; i <= marking.started; i++)
        pthread_join(marking.threads[i], NULL);
    for (unsigned i = 0; i < MARKERS_MOST; i++)
        if (marking.markers[i].grey.top != NULL)
            grey_stack_destroy(&marking.markers[i].grey);
    memset(&marking, 0, sizeof marking);
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
            marker_drain(m);
            continue;
        }
        unsigned slots = atomic_load_explicit(&page->slot_count, memory_order_relaxed);
        for (unsigned g = 0; g < page_groups(slots); g++) {
            uint64_t bits = atomic_load_explicit(&heap_allocated(i)[g], memory_order_relaxed) &
                            heap_marks_group(heap_marks(page, slots), slots, g);
            for (; bits != 0; bits &= bits - 1) {
                marker_requeue(m, i, g * 64 + (unsigned)__builtin_ctzll(bits));
                marker_drain(m);
            }
        }
    }
}

struct mark_result mark_world(void) {
    struct mark_result result = {0};
    struct marker *own = &marking.markers[0];
    int64_t start = os_time_thread_cpu_ns();
    unsigned active = marking.active;
    bool parallel = active > 1;
    for (unsigned i = 0; i < active; i++) {
        marking.markers[i].ring_order = marking.ring_last;
        marker_begin(&marking.markers[i], parallel);
    }
    if (parallel) {
        grey_pool_open(active);
        atomic_store_explicit(&marking.running, active - 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&marking.round, 1, memory_order_release);
        os_futex_wake(&marking.round, INT32_MAX);
    }
    struct roots_size roots = roots_each(marker_visit_root, own);
    run(own);
    uint32_t running;
    while (parallel && (running = atomic_load_explicit(&marking.running, memory_order_acquire)) != 0)
        os_futex_wait(&marking.running, running, -1);
    bool overflowed = false;
    for (unsigned i = 0; i < active; i++)
        overflowed |= marking.markers[i].overflowed;
    own->parallel = false;
    while (overflowed) {
        own->overflowed = false;
        scan_flagged(own);
        overflowed = own->overflowed;
    }
    own->cpu_ns = os_time_thread_cpu_ns() - start;
    uint64_t ring = 0, stack = 0;
    for (unsigned i = 0; i < active; i++) {
        result.live_bytes += marking.markers[i].live_bytes;
        result.cpu_ns += marking.markers[i].cpu_ns;
        ring += marking.markers[i].ring_objects;
        stack += marking.markers[i].stack_objects;
    }
    if (ring + stack != 0)
        marking.ring_last = ring > stack;
    result.stack_bytes = roots.stack_bytes;
    result.global_bytes = roots.global_bytes;
    result.markers = (int)active;
    result.order = mark_order_name();
    return result;
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
