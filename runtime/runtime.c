/*
 * Start and end of the library, and its settings. Reads the environment (through knobs) and hands the
 * collector plain numbers. Calls knobs, collector, gc/os.
 */
#define _GNU_SOURCE 1
#include "runtime/runtime.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tern/tern.h>
#include <unistd.h>

#include "gc/cleanup.h"
#include "gc/collector.h"
#include "gc/cycle.h"
#include "gc/fork.h"
#include "gc/limit.h"
#include "gc/offheap.h"
#include "gc/os/os_cgroup.h"
#include "gc/os/os_cpu.h"
#include "gc/os/os_signal.h"
#include "gc/os/os_unique.h"
#include "gc/pressure.h"
#include "gc/settings.h"
#include "runtime/knobs.h"

/* What `auto` leaves of a container's limit for what the library does not count: stacks, malloc, page tables,
 * code. */
#define AUTO_MARGIN_PERCENT 10
/* Go's forcegcperiod: two minutes. */
#define PERIOD_NS INT64_C(120000000000)
/* More markers than this bring nothing: they wait for the same memory. */
#define MARKERS_MOST_AUTO 16

enum start { NOT_STARTED, STARTED, ENDING, ENDED };

static _Atomic int start_state; /* enum start; release when the rest is ready */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool barrier_promised;                  /* tern_options.stores; under start_lock */
static struct knobs knobs;                     /* as at the start and as changed since; under start_lock */
static char error_text[KNOBS_ERROR_MAX_BYTES]; /* under start_lock */

const char *tern_error(void) {
    return error_text;
}

const char *tern_version(void) {
#define TEXT(x)  TEXT_(x)
#define TEXT_(x) #x
    return TEXT(TERN_VERSION_MAJOR) "." TEXT(TERN_VERSION_MINOR) "." TEXT(TERN_VERSION_PATCH);
}

bool runtime_started(void) {
    int state = atomic_load_explicit(&start_state, memory_order_acquire);
    return state == STARTED || state == ENDING;
}

void tern_options_init(tern_options *options) {
    *options = (tern_options){
        .size = sizeof *options,
        .gc_percent = TERN_UNSET,
        .memory_limit = TERN_LIMIT_UNSET,
        .processors = TERN_UNSET,
        .trace = TERN_UNSET,
        .data_segments = TERN_UNSET,
        .cooperative = TERN_UNSET,
        .stop_signal = TERN_UNSET,
        .manual_cleanups = TERN_UNSET,
        .stores = TERN_UNSET,
    };
}

static int refuse(int error, const char *text) {
    snprintf(error_text, sizeof error_text, "tern: %s", text);
    errno = error;
    return -1;
}

/* A setuid program's environment belongs to somebody else. */
static const char *read_variable(const char *name, void *context) {
    (void)context;
    return secure_getenv(name);
}

static int apply_options(const tern_options *o) {
    if (o == NULL)
        return 0;
    if (o->size == 0 || o->size > sizeof *o)
        return refuse(EINVAL, "tern_options.size is wrong; fill the options with tern_options_init first");
    if (o->gc_percent != TERN_UNSET)
        knobs.gc_percent = o->gc_percent < 0 ? KNOBS_GC_PERCENT_OFF : o->gc_percent;
    if (o->memory_limit != TERN_LIMIT_UNSET) {
        knobs.memory_limit = o->memory_limit;
        knobs.limit_auto = false;
    }
    if (o->processors != TERN_UNSET) {
        if (o->processors < 1)
            return refuse(EINVAL, "tern_options.processors is below 1; use a positive number or TERN_UNSET");
        knobs.max_procs = o->processors;
    }
    if (o->trace != TERN_UNSET)
        knobs.gctrace = o->trace;
    if (o->data_segments != TERN_UNSET)
        knobs.datasegments = o->data_segments != 0;
    if (o->cooperative != TERN_UNSET)
        knobs.cooperative = o->cooperative != 0;
    if (o->stop_signal != TERN_UNSET) {
        if (o->stop_signal < 0 || !knobs_signal_is_usable((uint64_t)o->stop_signal))
            return refuse(
                EINVAL,
                "tern_options.stop_signal cannot stop threads; use a signal's number up to 64 (no fault, "
                "SIGKILL, SIGSTOP, nor 32 and 33), 0 or TERN_UNSET");
        knobs.signal = o->stop_signal;
    }
    if (o->stores != TERN_UNSET && o->stores != TERN_STORES_PLAIN && o->stores != TERN_STORES_BARRIER)
        return refuse(EINVAL, "tern_options.stores is neither TERN_STORES_PLAIN nor TERN_STORES_BARRIER");
    barrier_promised = o->stores == TERN_STORES_BARRIER;
    if (o->manual_cleanups != TERN_UNSET)
        knobs.cleanups = o->manual_cleanups != 0 ? KNOBS_CLEANUPS_MANUAL : KNOBS_CLEANUPS_THREAD;
    return 0;
}

static uint64_t limit_in_force(void) {
    uint64_t bytes;
    if (!knobs.limit_auto)
        return knobs.memory_limit;
    return os_cgroup_memory_limit("", &bytes) ? bytes - bytes / 100 * AUTO_MARGIN_PERCENT : LIMIT_NONE;
}

static int settle(void) {
    atomic_store_explicit(&settings.gc_percent, knobs.gc_percent, memory_order_relaxed);
    atomic_store_explicit(&settings.memory_limit, limit_in_force(), memory_order_relaxed);
    settings.processors = knobs.max_procs > 0 ? knobs.max_procs : os_cpu_count();
    settings.follow_processors = knobs.max_procs <= 0;
    settings.markers = knobs.markers > 0                         ? knobs.markers
                       : settings.processors < MARKERS_MOST_AUTO ? settings.processors
                                                                 : MARKERS_MOST_AUTO;
    settings.marker = knobs.marker == KNOBS_MARKER_STACK  ? MARKER_STACK
                      : knobs.marker == KNOBS_MARKER_RING ? MARKER_RING
                                                          : MARKER_AUTO;
    settings.trace = knobs.gctrace;
    settings.scavenge_trace = knobs.scavtrace;
    settings.period_ns = PERIOD_NS;
    settings.verify = knobs.gcverify;
    settings.concurrent = barrier_promised && !knobs.gcstoptheworld;
    settings.stress = knobs.gcstress > UINT32_MAX ? UINT32_MAX : (uint32_t)knobs.gcstress;
    settings.seed = knobs.seed;
    settings.cooperative = knobs.cooperative;
    settings.signal = knobs.signal > 0 ? knobs.signal : os_signal_default();
    settings.huge_pages = knobs.hugepages;
    settings.data_segments = knobs.datasegments;
    settings.warnings = knobs.warn;
    settings.manual_cleanups = knobs.cleanups == KNOBS_CLEANUPS_MANUAL;
    if (!settings.cooperative && os_signal_is_taken(settings.signal)) {
        char text[160];
        snprintf(text, sizeof text,
                 "signal %d, which is to stop threads, has a handler already; choose another with "
                 "TERN_GODEBUG=signal=N",
                 settings.signal);
        return refuse(EINVAL, text);
    }
    return 0;
}

/* Blocked while it waits, as the holder may be parked for a stop, which must not wait for this thread then. */
static void take_start_lock(void) {
    struct mutator *self = mutator_self;
    bool runs = self != NULL && atomic_load_explicit(&self->state, memory_order_relaxed) == MUTATOR_RUNNING;
    if (runs)
        mutator_block(self);
    pthread_mutex_lock(&start_lock);
    if (runs)
        mutator_unblock(self);
}

/*
 * Fork. A signal handler that interrupted the library may fork, too: nothing can be made ready then, and the
 * child must exec.
 */
static bool is_inside(void) {
    return mutator_self != NULL && atomic_load_explicit(&mutator_self->depth, memory_order_relaxed) != 0;
}

static void before_fork(void) {
    if (is_inside())
        return;
    take_start_lock();
    if (runtime_started())
        fork_before();
}

static void after_fork_in_parent(void) {
    if (is_inside())
        return;
    if (runtime_started())
        fork_in_parent();
    pthread_mutex_unlock(&start_lock);
}

static void after_fork_in_child(void) {
    if (is_inside())
        return;
    if (runtime_started())
        fork_in_child();
    start_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static int fork_error;

/* Before the lock is first taken, so that a child never finds it taken; after jemalloc's handlers (gc/fork.h). */
static void watch_forks(void) {
    fork_error =
        offheap_init() != 0 ? errno : pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void lock_to_start(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    take_start_lock();
}

static int start(const tern_options *options) {
    if (fork_error != 0)
        return refuse(fork_error, "memory is gone");
    if (start_state == STARTED || start_state == ENDING)
        return refuse(EALREADY,
                      "the library is started already; call tern_init once, before the first allocation");
    if (start_state == ENDED)
        return refuse(EALREADY, "the library was shut down; a process can start it once");
    knobs_default(&knobs);
    if (knobs_read(&knobs, read_variable, NULL, error_text, sizeof error_text) != 0) {
        errno = EINVAL;
        return -1;
    }
    if (apply_options(options) != 0)
        return -1;
    /* Before the signal is looked at, which the other copy has taken. */
    if (!os_unique_take("tern-runtime"))
        return refuse(ENOTSUP,
                      "another copy of the library runs in this process; link all parts with the shared one");
    if (settle() != 0) {
        os_unique_give();
        return -1;
    }
    if (collector_start() != 0) {
        int error = errno;
        os_unique_give();
        return refuse(error, "the heap cannot be reserved; raise the address-space limit (ulimit -v)");
    }
    runtime_oom_init();
    atomic_store_explicit(&start_state, STARTED, memory_order_release);
    if (mutator_attach() == NULL)
        return refuse(ENOMEM, "the first thread cannot be attached");
    return 0;
}

int tern_init(const tern_options *options) {
    lock_to_start();
    int result = start(options);
    pthread_mutex_unlock(&start_lock);
    return result;
}

/* The first call of a program that never called tern_init. */
static void start_by_itself(void) {
    lock_to_start();
    gc_check(start_state != ENDED, "the library was used after tern_shutdown");
    bool failed = start_state == NOT_STARTED && start(NULL) != 0;
    static bool told; /* under start_lock */
    bool again = told;
    if (failed && !told) {
        fprintf(stderr, "%s\n", error_text);
        told = true;
    }
    pthread_mutex_unlock(&start_lock);
    /* An exit handler of the program that calls the library comes here again. */
    if (failed && again)
        _exit(2);
    if (failed)
        exit(2);
}

struct mutator *runtime_attach(void) {
    if (!runtime_started())
        start_by_itself();
    return mutator_attach();
}

void tern_shutdown(void) {
    /* Cleanups run in here and may use the library: it is running until they are done. */
    int expected = STARTED;
    gc_check(atomic_compare_exchange_strong(&start_state, &expected, ENDING),
             "tern_shutdown without a running library; call it once, after tern_init");
    struct mutator *self = mutator_get();
    cleanup_shutdown(!settings.manual_cleanups);
    gc_check(mutator_count() == (self != NULL),
             "tern_shutdown while other threads are attached; join or detach them first");
    take_start_lock();
    atomic_store_explicit(&start_state, ENDED, memory_order_release);
    collector_end();
    os_unique_give();
    pthread_mutex_unlock(&start_lock);
}

int tern_set_gc_percent(int percent) {
    struct mutator *self = runtime_self();
    int before = atomic_exchange_explicit(&settings.gc_percent, percent < 0 ? TERN_GC_OFF : percent,
                                          memory_order_relaxed);
    cycle_settings_changed(self);
    return before < 0 ? TERN_GC_OFF : before;
}

int tern_gc_percent(void) {
    runtime_self();
    int percent = atomic_load_explicit(&settings.gc_percent, memory_order_relaxed);
    return percent < 0 ? TERN_GC_OFF : percent;
}

uint64_t tern_set_memory_limit(uint64_t bytes) {
    struct mutator *self = runtime_self();
    uint64_t before = atomic_exchange_explicit(&settings.memory_limit, bytes, memory_order_relaxed);
    cycle_settings_changed(self);
    return before;
}

uint64_t tern_memory_limit(void) {
    runtime_self();
    return atomic_load_explicit(&settings.memory_limit, memory_order_relaxed);
}

bool tern_set_limit_hard(bool hard) {
    runtime_self();
    return atomic_exchange_explicit(&settings.limit_is_hard, hard, memory_order_relaxed);
}

tern_pressure_function *tern_on_pressure(tern_pressure_function *function, void *context) {
    struct mutator *self = runtime_self();
    if (self == NULL)
        return NULL;
    mutator_enter(self);
    tern_pressure_function *before = pressure_on(function, context);
    mutator_leave(self);
    return before;
}

struct one_variable {
    const char *name, *value;
};

static const char *only_variable(const char *name, void *context) {
    const struct one_variable *one = context;
    return strcmp(name, one->name) == 0 ? one->value : NULL;
}

/* What cannot change once threads run and memory is laid out. */
static bool same_start_settings(const struct knobs *a, const struct knobs *b) {
    return a->max_procs == b->max_procs && a->gcverify == b->gcverify &&
           a->gcstoptheworld == b->gcstoptheworld && a->gcstress == b->gcstress && a->seed == b->seed &&
           a->markers == b->markers && a->cooperative == b->cooperative && a->hugepages == b->hugepages &&
           a->datasegments == b->datasegments && a->signal == b->signal && a->cleanups == b->cleanups;
}

static int set_knob(const char *name, const char *value) {
    if (name == NULL || value == NULL)
        return refuse(EINVAL, "tern_set_knob needs a name and a value");
    const char *plain = strncmp(name, "TERN_", 5) == 0 ? name + 5 : name;
    if (strcmp(plain, "GOGC") != 0 && strcmp(plain, "GOMEMLIMIT") != 0 && strcmp(plain, "GODEBUG") != 0) {
        char text[200];
        snprintf(text, sizeof text, "%.64s: not a knob that can be set here; use GOGC, GOMEMLIMIT or GODEBUG",
                 name);
        return refuse(EINVAL, text);
    }
    struct knobs changed = knobs;
    struct one_variable one = {name, value};
    if (knobs_read(&changed, only_variable, &one, error_text, sizeof error_text) != 0)
        return -1;
    if (!same_start_settings(&knobs, &changed))
        return refuse(EINVAL,
                      "GODEBUG: only gctrace, scavtrace, marker and warn can change while the program runs");
    knobs = changed;
    settings.trace = knobs.gctrace;
    settings.scavenge_trace = knobs.scavtrace;
    settings.warnings = knobs.warn;
    settings.marker = knobs.marker == KNOBS_MARKER_STACK  ? MARKER_STACK
                      : knobs.marker == KNOBS_MARKER_RING ? MARKER_RING
                                                          : MARKER_AUTO;
    if (strcmp(plain, "GOGC") == 0)
        tern_set_gc_percent(knobs.gc_percent);
    if (strcmp(plain, "GOMEMLIMIT") == 0)
        tern_set_memory_limit(limit_in_force());
    return 0;
}

int tern_set_knob(const char *name, const char *value) {
    runtime_self();
    take_start_lock();
    int result = set_knob(name, value);
    pthread_mutex_unlock(&start_lock);
    return result;
}

void tern_knobs_help(void (*emit)(void *context, const char *line), void *context) {
    knobs_help(emit, context);
}
