/* See stats.h. Calls histogram and os_futex. */
#include "gc/stats.h"

#include <string.h>

#include "gc/os/os_futex.h"
#include "gc/settings.h"

static struct stats_cycles now;
static struct os_lock lock = OS_LOCK_INIT;

void stats_init(int64_t start_ns) {
    memset(&now, 0, sizeof now);
    histogram_init(&now.pauses);
    histogram_init(&now.stopping);
    now.start_ns = start_ns;
}

void stats_stop(int64_t pause_ns, int64_t stopping_ns) {
    os_lock_acquire(&lock);
    histogram_add(&now.pauses, (uint64_t)pause_ns);
    histogram_add(&now.stopping, (uint64_t)stopping_ns);
    os_lock_release(&lock);
}

uint64_t stats_add(const struct cycle_report *report) {
    os_lock_acquire(&lock);
    uint64_t number = ++now.collections;
    now.forced += report->forced;
    now.stop_cpu_ns += report->stop_cpu_ns;
    now.mark_cpu_ns += report->mark_cpu_ns + report->assist_ns;
    now.sweep_cpu_ns += report->sweep_cpu_ns;
    now.other_cpu_ns += report->other_cpu_ns;
    os_lock_release(&lock);
    return number;
}

uint64_t stats_limit_passed(uint64_t bytes) {
    os_lock_acquire(&lock);
    uint64_t times = ++now.limit_passed;
    if (bytes > now.limit_passed_by)
        now.limit_passed_by = bytes;
    os_lock_release(&lock);
    return times;
}

void stats_limiter_skipped(void) {
    os_lock_acquire(&lock);
    now.limiter_skipped++;
    os_lock_release(&lock);
}

void stats_copy(struct stats_cycles *out) {
    os_lock_acquire(&lock);
    *out = now;
    os_lock_release(&lock);
}

double stats_gc_cpu_percent(int64_t gc_cpu_ns, int64_t now_ns) {
    double all = (double)(now_ns - now.start_ns) * settings.processors;
    return all > 0 ? 100.0 * (double)gc_cpu_ns / all : 0;
}
