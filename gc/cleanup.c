/*
 * See cleanup.h. Calls inspect and mark to look at objects, heap, addr_table, offheap, mutator (S1,
 * blocking), gc/os. The registrations and the queue come first, then running, then the library's thread.
 */
#include "gc/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "gc/addr_table.h"
#include "gc/barrier.h"
#include "gc/heap.h"
#include "gc/inspect.h"
#include "gc/mark.h"
#include "gc/mutator.h"
#include "gc/offheap.h"
#include "gc/os/os_log.h"
#include "gc/os/os_thread.h"
#include "gc/settings.h"

/* One cleanup. Everything under the lock. */
struct cleanup {
    uint64_t id;
    cleanup_function *function;
    void *argument;
    /* First byte of the watched object; 0 once queued; while it runs, whose thread's record. */
    uintptr_t base;
    struct cleanup *next;   /* of the same object while waiting; then in the queue, then in `running` */
    struct cleanup *before; /* of the same object while waiting; the first one's is the last */
    /* Of an object's first cleanup only: those of the objects watched before and after. */
    struct cleanup *older_object, *newer_object;
};

static_assert(sizeof(struct cleanup) == 64, "a cleanup is one cache line");

static struct {
    struct os_lock lock;
    struct addr_table by_object;     /* object's base -> its first cleanup */
    struct addr_table by_id;         /* id -> cleanup that waits or is queued */
    struct cleanup *oldest, *newest; /* watched objects' first cleanups, in the order of adding */
    struct cleanup *queue_first, *queue_last;
    struct cleanup *running;     /* last in first out, since cleanups may run cleanups */
    struct cleanup *next_object; /* the first cleanup that cleanup_after_mark looks at next */
    uint64_t last_id;
    /* Written under the lock or with the world stopped, read by anybody; relaxed. */
    _Atomic uint64_t waiting, queued, run;
} cleanups;

static void add(_Atomic uint64_t *counter, uint64_t change) {
    atomic_fetch_add_explicit(counter, change, memory_order_relaxed);
}

static uint64_t value_of(_Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static struct cleanup *found(const uint64_t *value) {
    return value == NULL ? NULL : (struct cleanup *)(uintptr_t)*value;
}

/* ---- registrations ---- */

/* Adds an entry to its object's. The lock is held. 0, or -1 with errno ENOMEM and nothing changed. */
static int link_entry(struct cleanup *entry) {
    if (addr_table_put(&cleanups.by_id, entry->id, (uintptr_t)entry) != 0)
        return -1;
    struct cleanup *first = found(addr_table_find(&cleanups.by_object, entry->base));
    if (first != NULL) {
        entry->before = first->before;
        first->before->next = entry;
        first->before = entry;
    } else if (addr_table_put(&cleanups.by_object, entry->base, (uintptr_t)entry) == 0) {
        entry->before = entry;
        entry->older_object = cleanups.newest;
        *(cleanups.newest != NULL ? &cleanups.newest->newer_object : &cleanups.oldest) = entry;
        cleanups.newest = entry;
    } else {
        addr_table_remove(&cleanups.by_id, entry->id);
        return -1;
    }
    add(&cleanups.waiting, 1);
    return 0;
}

/* Puts `second` (NULL: nothing) where the object's first cleanup `first` is, in the list of objects. */
static void replace_object(struct cleanup *first, struct cleanup *second) {
    struct cleanup *older = first->older_object, *newer = first->newer_object;
    if (cleanups.next_object == first)
        cleanups.next_object = second != NULL ? second : newer;
    *(older != NULL ? &older->newer_object : &cleanups.oldest) = second != NULL ? second : newer;
    *(newer != NULL ? &newer->older_object : &cleanups.newest) = second != NULL ? second : older;
    if (second != NULL) {
        second->before = first->before;
        second->older_object = older;
        second->newer_object = newer;
    }
}

/* Takes out an entry that waits. The lock is held. */
static void unlink_entry(struct cleanup *entry) {
    uint64_t *value = addr_table_find(&cleanups.by_object, entry->base);
    struct cleanup *first = found(value);
    if (first != entry) {
        entry->before->next = entry->next;
        (entry->next != NULL ? entry->next : first)->before = entry->before;
    } else {
        replace_object(entry, entry->next);
        if (entry->next != NULL)
            *value = (uintptr_t)entry->next;
        else
            addr_table_remove(&cleanups.by_object, entry->base);
    }
    addr_table_remove(&cleanups.by_id, entry->id);
    add(&cleanups.waiting, (uint64_t)-1);
}

static void trim(void) {
    addr_table_trim(&cleanups.by_object);
    addr_table_trim(&cleanups.by_id);
}

/* Whether a pointer leads into the object: it would keep it alive. One past the end does not (see
 * visit_argument). */
static bool leads_into(const void *pointer, const void *base) {
    struct heap_place place = heap_find((uintptr_t)pointer);
    return place.head != NULL && place.base == base;
}

static bool has_thread(void);
static void start_thread(void);

uint64_t cleanup_add(struct mutator *self, const void *object, cleanup_function *function, void *argument) {
    int error = EINVAL;
    uint64_t id = 0;
    mutator_enter(self);
    struct inspect_object what;
    if (function != NULL && inspect_find(object, &what) && what.kind != KIND_TINY &&
        !leads_into(argument, what.base)) {
        error = ENOMEM;
        struct cleanup *entry = offheap_alloc(sizeof *entry);
        if (entry != NULL) {
            *entry =
                (struct cleanup){.function = function, .argument = argument, .base = (uintptr_t)what.base};
            os_lock_acquire(&cleanups.lock);
            entry->id = ++cleanups.last_id;
            if (barrier_is_on())
                barrier_record_inside(self, (uintptr_t)argument);
            if (link_entry(entry) == 0)
                id = entry->id;
            os_lock_release(&cleanups.lock);
            if (id == 0)
                offheap_free(entry);
        }
    }
    mutator_leave(self);
    if (id == 0) {
        errno = error;
    } else if (!settings.manual_cleanups && !has_thread()) {
        /* Counted as stopped: the signal is blocked meanwhile, and pthread_create waits for locks of the host's, which
         * a stopped thread may hold. */
        mutator_block(self);
        start_thread();
        mutator_unblock(self);
    }
    return id;
}

bool cleanup_remove(struct mutator *self, uint64_t id) {
    mutator_enter(self);
    os_lock_acquire(&cleanups.lock);
    struct cleanup *entry = found(addr_table_find(&cleanups.by_id, id));
    bool waiting = entry != NULL && entry->base != 0;
    if (waiting) {
        unlink_entry(entry);
        trim();
    }
    os_lock_release(&cleanups.lock);
    if (waiting)
        offheap_free(entry);
    mutator_leave(self);
    return waiting;
}

/* ---- with the world stopped, and after ---- */

/* Arguments handed over at a time. */
#define BATCH 64

struct batch {
    roots_visit *visit;
    void *context;
    uint64_t bytes;
    size_t count;
    uintptr_t words[BATCH];
};

static void flush(struct batch *batch) {
    if (batch->count != 0)
        batch->visit(batch->context, batch->words, batch->count);
    batch->bytes += batch->count * sizeof *batch->words;
    batch->count = 0;
}

/*
 * A root word w keeps what contains w and what contains w - 1. For w = argument | 1 both are the object that
 * contains the argument, since slots begin and end at multiples of 8.
 */
static void visit_argument(struct batch *batch, const struct cleanup *entry) {
    if (!heap_contains((uintptr_t)entry->argument))
        return;
    batch->words[batch->count++] = (uintptr_t)entry->argument | 1;
    if (batch->count == BATCH)
        flush(batch);
}

static void visit_chain(struct batch *batch, const struct cleanup *entry) {
    for (; entry != NULL; entry = entry->next)
        visit_argument(batch, entry);
}

uint64_t cleanup_each_root(roots_visit *visit, void *context) {
    if (TERN_ASSERT_LEVEL >= 2)
        cleanup_check();
    struct batch batch = {.visit = visit, .context = context};
    for (const struct cleanup *first = cleanups.oldest; first != NULL; first = first->newer_object)
        visit_chain(&batch, first);
    visit_chain(&batch, cleanups.queue_first);
    visit_chain(&batch, cleanups.running);
    flush(&batch);
    return batch.bytes;
}

/* Moves all cleanups of an object to the end of the queue. */
static void queue_object(struct cleanup *first) {
    replace_object(first, NULL);
    addr_table_remove(&cleanups.by_object, first->base);
    uint64_t count = 0;
    for (struct cleanup *entry = first; entry != NULL; entry = entry->next) {
        entry->base = 0;
        count++;
    }
    *(cleanups.queue_last != NULL ? &cleanups.queue_last->next : &cleanups.queue_first) = first;
    cleanups.queue_last = first->before;
    add(&cleanups.waiting, -count);
    add(&cleanups.queued, count);
}

/* Objects looked at with the lock held: about 10 us. */
#define PIECE_OBJECTS 256

void cleanup_after_mark(void) {
    os_lock_acquire(&cleanups.lock);
    cleanups.next_object = cleanups.oldest;
    for (unsigned n = 1; cleanups.next_object != NULL; n++) {
        struct cleanup *first = cleanups.next_object;
        if (mark_found_dead((const void *)first->base))
            queue_object(first); /* which moves next_object on */
        else
            cleanups.next_object = first->newer_object;
        if (n % PIECE_OBJECTS == 0) {
            os_lock_release(&cleanups.lock);
            os_lock_acquire(&cleanups.lock);
        }
    }
    if (TERN_ASSERT_LEVEL >= 2)
        cleanup_check();
    os_lock_release(&cleanups.lock);
}

/* ---- running ---- */

/* Takes the first of the queue to run it; NULL when there is none. Inside S1. */
static struct cleanup *take(struct mutator *self) {
    os_lock_acquire(&cleanups.lock);
    struct cleanup *entry = cleanups.queue_first;
    if (entry != NULL) {
        cleanups.queue_first = entry->next;
        if (entry->next == NULL)
            cleanups.queue_last = NULL;
        addr_table_remove(&cleanups.by_id, entry->id);
        entry->base = (uintptr_t)self;
        entry->next = cleanups.running;
        cleanups.running = entry;
        add(&cleanups.queued, (uint64_t)-1);
        add(&cleanups.run, 1);
    }
    os_lock_release(&cleanups.lock);
    return entry;
}

/* Inside S1. */
static void forget_running(struct cleanup *entry) {
    os_lock_acquire(&cleanups.lock);
    struct cleanup **link = &cleanups.running;
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    trim();
    os_lock_release(&cleanups.lock);
    offheap_free(entry);
}

static bool run_one(struct mutator *self) {
    mutator_enter(self);
    struct cleanup *entry = take(self);
    mutator_leave(self);
    if (entry == NULL)
        return false;
    entry->function(entry->argument);
    mutator_enter(self);
    forget_running(entry);
    mutator_leave(self);
    return true;
}

size_t cleanup_run(struct mutator *self, size_t most) {
    size_t limit = most != 0 ? most : (size_t)value_of(&cleanups.queued);
    size_t n = 0;
    while (n < limit && run_one(self))
        n++;
    return n;
}

/* ---- the library's thread ---- */

enum thread_state { THREAD_NONE, THREAD_STARTING, THREAD_THERE };
enum thread_order { THREAD_RUN, THREAD_END_WHEN_EMPTY, THREAD_END };

static struct {
    _Atomic uint32_t state; /* enum thread_state; acq_rel: whoever moves it off NONE starts the thread */
    _Atomic uint32_t order; /* enum thread_order; relaxed, published by the bell */
    _Atomic uint32_t bell;  /* futex the thread sleeps on; rung with release after there is something to do */
    pthread_t id;           /* written before THERE; by shutdown */
    struct mutator *record; /* NULL before its first cleanup; by itself, read after fork */
    bool complained;        /* by whoever moved state to STARTING */
} thread;

static void ring(void) {
    atomic_fetch_add_explicit(&thread.bell, 1, memory_order_release);
    os_futex_wake(&thread.bell, 1);
}

/* Sleeps unless it was rung since. A sleeping mutator is not signalled. `self` may be NULL. */
static void wait_for_ring(struct mutator *self, uint32_t rung) {
    if (self != NULL)
        mutator_block(self);
    os_futex_wait(&thread.bell, rung, -1);
    if (self != NULL)
        mutator_unblock(self);
}

static void *thread_main(void *argument) {
    (void)argument;
    /* Threads of the library start with all signals blocked; an attached one must be stoppable. */
    sigset_t stop;
    sigemptyset(&stop);
    if (!settings.cooperative)
        sigaddset(&stop, settings.signal);
    pthread_sigmask(SIG_UNBLOCK, &stop, NULL);
    struct mutator *self = NULL;
    for (;;) {
        uint32_t rung = atomic_load_explicit(&thread.bell, memory_order_acquire);
        uint32_t order = atomic_load_explicit(&thread.order, memory_order_relaxed);
        if (order == THREAD_END)
            break;
        /* Attached from its first cleanup on; without memory for that the next ring tries again. */
        if (self == NULL && value_of(&cleanups.queued) != 0)
            thread.record = self = mutator_attach();
        if (self != NULL && cleanup_run(self, 0) != 0)
            continue;
        if (order == THREAD_END_WHEN_EMPTY)
            break;
        wait_for_ring(self, rung);
    }
    thread.record = NULL;
    if (self != NULL)
        mutator_detach(self);
    return NULL;
}

static bool has_thread(void) {
    return likely(atomic_load_explicit(&thread.state, memory_order_relaxed) != THREAD_NONE);
}

/* Blocked or no mutator, world running. When it cannot be started, cleanups wait until the next try. */
static void start_thread(void) {
    uint32_t expected = THREAD_NONE;
    if (has_thread() || !atomic_compare_exchange_strong_explicit(&thread.state, &expected, THREAD_STARTING,
                                                                 memory_order_acq_rel, memory_order_relaxed))
        return;
    int saved = errno;
    if (os_thread_start(&thread.id, "tern-cleanup", 0, thread_main, NULL) == 0) {
        atomic_store_explicit(&thread.state, THREAD_THERE, memory_order_release);
        return;
    }
    int error = errno;
    if (!thread.complained) {
        thread.complained = true;
        struct os_line line;
        os_line_init(&line);
        os_line_str(&line, "tern: the thread that runs cleanups could not be started (error ");
        os_line_i64(&line, error);
        os_line_str(&line, "): cleanups wait. Raise the limit on threads, or call tern_run_cleanups");
        os_line_emit(&line, 2);
    }
    atomic_store_explicit(&thread.state, THREAD_NONE, memory_order_release);
    errno = saved;
}

void cleanup_wake(void) {
    if (settings.manual_cleanups || value_of(&cleanups.queued) == 0)
        return;
    start_thread();
    ring();
}

void cleanup_after_fork(void) {
    struct mutator *self = mutator_self;
    bool is_thread = self != NULL && thread.record == self;
    atomic_store_explicit(&thread.state, is_thread ? THREAD_THERE : THREAD_NONE, memory_order_relaxed);
    if (is_thread) {
        thread.id = pthread_self(); /* its starter may not have come to write it */
    } else {
        thread.record = NULL;
        atomic_store_explicit(&thread.order, THREAD_RUN, memory_order_relaxed);
    }
    for (struct cleanup **link = &cleanups.running; *link != NULL;) {
        struct cleanup *entry = *link;
        if (entry->base == (uintptr_t)self) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        offheap_free(entry);
    }
}

static void forget_chain(struct cleanup *entry) {
    while (entry != NULL) {
        struct cleanup *next = entry->next;
        offheap_free(entry);
        entry = next;
    }
}

void cleanup_shutdown(bool run_queued) {
    struct mutator *self = mutator_self;
    if (atomic_load_explicit(&thread.state, memory_order_acquire) == THREAD_THERE) {
        if (pthread_equal(thread.id, pthread_self()))
            fatal_misuse("tern_shutdown was called from a cleanup", 0,
                         "Call it from the thread that started the library.");
        atomic_store_explicit(&thread.order, run_queued ? THREAD_END_WHEN_EMPTY : THREAD_END,
                              memory_order_relaxed);
        ring();
        if (self != NULL)
            mutator_block(self);
        pthread_join(thread.id, NULL);
        if (self != NULL)
            mutator_unblock(self);
        atomic_store_explicit(&thread.order, THREAD_RUN, memory_order_relaxed);
        atomic_store_explicit(&thread.state, THREAD_NONE, memory_order_relaxed);
    }
    /* Where there was no thread, and what the thread's own last cleanups queued. */
    while (run_queued && self != NULL && cleanup_run(self, 0) != 0) {
    }
}

void cleanup_forget(void) {
    struct cleanup *newer;
    for (struct cleanup *first = cleanups.oldest; first != NULL; first = newer) {
        newer = first->newer_object;
        forget_chain(first);
    }
    forget_chain(cleanups.queue_first);
    forget_chain(cleanups.running);
    addr_table_destroy(&cleanups.by_object);
    addr_table_destroy(&cleanups.by_id);
    cleanups.oldest = cleanups.newest = cleanups.queue_first = cleanups.queue_last = cleanups.running = NULL;
    atomic_store_explicit(&cleanups.waiting, 0, memory_order_relaxed);
    atomic_store_explicit(&cleanups.queued, 0, memory_order_relaxed);
    atomic_store_explicit(&cleanups.run, 0, memory_order_relaxed);
}

struct cleanup_stats cleanup_stats_read(void) {
    return (struct cleanup_stats){.waiting = value_of(&cleanups.waiting),
                                  .queued = value_of(&cleanups.queued),
                                  .run = value_of(&cleanups.run)};
}

/* ---- checking ---- */

/* How many cleanups an object has. */
static uint64_t check_object(const struct cleanup *first) {
    uint64_t count = 0;
    const struct cleanup *before = first->before;
    gc_check(found(addr_table_find(&cleanups.by_object, first->base)) == first,
             "an object's cleanups cannot be found");
    for (const struct cleanup *entry = first; entry != NULL; before = entry, entry = entry->next) {
        count++;
        gc_check(entry->base == first->base, "a cleanup is listed with another object's");
        gc_check(entry->before == before, "an object's list of cleanups is broken");
        gc_check(found(addr_table_find(&cleanups.by_id, entry->id)) == entry, "a cleanup cannot be found");
    }
    gc_check(first->before == before, "an object's list of cleanups does not end with its last");
    return count;
}

void cleanup_check(void) {
    uint64_t objects = 0, waiting = 0, queued = 0;
    const struct cleanup *older = NULL, *last = NULL;
    for (const struct cleanup *first = cleanups.oldest; first != NULL;
         older = first, first = first->newer_object) {
        gc_check(first->older_object == older, "the list of objects with cleanups is broken");
        objects++;
        waiting += check_object(first);
    }
    gc_check(cleanups.newest == older, "the list of objects with cleanups does not end with the newest");
    for (const struct cleanup *entry = cleanups.queue_first; entry != NULL;
         last = entry, entry = entry->next) {
        gc_check(entry->base == 0, "a queued cleanup still waits");
        queued++;
    }
    gc_check(cleanups.queue_last == last, "the queue of cleanups does not end with its last");
    gc_check(objects == cleanups.by_object.count, "objects with cleanups were miscounted");
    gc_check(waiting == value_of(&cleanups.waiting) && queued == value_of(&cleanups.queued) &&
                 waiting + queued == cleanups.by_id.count,
             "cleanups were miscounted");
}
