/* See collector.h. Calls each room's init in the order of the arrow of includes. */
#include "gc/collector.h"

#include "gc/account.h"
#include "gc/background.h"
#include "gc/cleanup.h"
#include "gc/cycle.h"
#include "gc/fiber.h"
#include "gc/handle.h"
#include "gc/heap.h"
#include "gc/mark.h"
#include "gc/mutator.h"
#include "gc/offheap.h"
#include "gc/os/os_time.h"
#include "gc/pace.h"
#include "gc/pagerun.h"
#include "gc/roots.h"
#include "gc/settings.h"
#include "gc/sizeclass.h"
#include "gc/stats.h"
#include "gc/stop.h"
#include "gc/verify.h"
#include "gc/weak.h"

struct settings settings;

int collector_start(void) {
    int64_t now = os_time_mono_ns();
    sizeclass_init();
    if (offheap_init() != 0 || heap_init(settings.verify) != 0)
        return -1;
    if (pagerun_init(settings.huge_pages) != 0) {
        heap_destroy();
        return -1;
    }
    if (mark_init() != 0 || mutator_init() != 0 || stop_init() != 0) {
        pagerun_destroy();
        heap_destroy();
        return -1;
    }
    stats_init(now);
    report_init(now);
    pace_init();
    account_init();
    cycle_init();
    return 0;
}

void collector_end(void) {
    /* The background may be in the middle of a cycle, and stop this thread. */
    if (mutator_self != NULL)
        mutator_block(mutator_self);
    /* A cycle that was handed over is finished before the thread is told to end. */
    cycle_hold();
    cycle_release();
    background_shutdown();
    if (mutator_self != NULL)
        mutator_unblock(mutator_self);
    report_end();
    mark_shutdown();
    if (mutator_self != NULL)
        mutator_detach(mutator_self);
    roots_forget();
    fiber_forget();
    handle_forget();
    weak_forget();
    cleanup_forget();
    verify_forget();
    pagerun_destroy();
    heap_destroy();
}
