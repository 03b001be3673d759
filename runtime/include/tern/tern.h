/*
 * Tern: a garbage-collected heap for C on Linux, with Go's operating knobs.
 *
 * This is the whole public interface. A program includes it, links with `pkg-config --libs tern`, and
 * allocates:
 *
 *     struct node *n = tern_alloc(sizeof *n);     // zeroed, never freed by hand
 *
 * Words used below.
 *   leaf      an object that holds no pointers; it is never scanned.
 *   words     an object in which every aligned word may be a pointer.
 *   typed     an object whose pointers are told by a bitmap.
 *   traced    an object whose pointers are told by a function of yours.
 *   attached  a thread the collector knows: its stack and registers are roots.
 *   slow path a call that takes memory from the shared heap; only there may a collection start.
 *
 * Unless a comment says otherwise a function may be called by any thread (one that is not attached is
 * attached by its first call), does not block, and does not collect. "May collect" means that it may stop all
 * attached threads and may wait for a collection. Sizes are bytes, times are nanoseconds, ratios are percent.
 *
 * Names and meanings of GOGC, GOMEMLIMIT and gctrace are those of Go's runtime (https://pkg.go.dev/runtime
 * and https://go.dev/doc/gc-guide).
 */
#ifndef TERN_TERN_H
#define TERN_TERN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_VERSION_MAJOR 0
#define TERN_VERSION_MINOR 1
#define TERN_VERSION_PATCH 0

#if defined(__GNUC__)
#define TERN_API    __attribute__((visibility("default")))
#define TERN_MALLOC __attribute__((malloc, warn_unused_result))
#else
#define TERN_API
#define TERN_MALLOC
#endif

/* ---------------------------------------------------------------------------------------------- start and
 * settings */

/* A setting that is left to the environment. */
#define TERN_UNSET       (-2147483647 - 1)
#define TERN_LIMIT_UNSET (UINT64_MAX - 1)
/* No growth ratio: collections come from the memory limit or from tern_collect only (GOGC=off). */
#define TERN_GC_OFF (-1)
/* No memory limit (GOMEMLIMIT=off). */
#define TERN_NO_LIMIT UINT64_MAX

/*
 * How the program stores pointers into managed objects. PLAIN promises nothing: the world is stopped while
 * marking. BARRIER promises the contract under "stores" below: marking runs beside the program, with short
 * stops. GODEBUG=gcstoptheworld=1 marks with the world stopped in either case.
 */
#define TERN_STORES_PLAIN   0
#define TERN_STORES_BARRIER 1

/* What tern_init is told. Fill it with tern_options_init, then set what matters. */
typedef struct tern_options {
    size_t size;           /* sizeof(tern_options); tern_options_init sets it */
    int gc_percent;        /* growth ratio in percent, TERN_GC_OFF, or TERN_UNSET: GOGC decides */
    uint64_t memory_limit; /* bytes, TERN_NO_LIMIT, or TERN_LIMIT_UNSET: GOMEMLIMIT decides */
    int processors;        /* how many the collector may count on, or TERN_UNSET: GOMAXPROCS decides */
    int trace;         /* 1: one line per collection on standard error; TERN_UNSET: GODEBUG gctrace decides */
    int data_segments; /* 1: every writable data segment is a root; TERN_UNSET: default 0 */
    int cooperative;   /* 1: stop threads at polls instead of by a signal; TERN_UNSET: default 0 */
    int stop_signal;   /* signal number that stops threads, 0: the default; TERN_UNSET: default */
    int manual_cleanups; /* 1: cleanups run only in tern_run_cleanups; TERN_UNSET: default 0, a library thread
                          */
    int stores;          /* TERN_STORES_PLAIN or TERN_STORES_BARRIER; TERN_UNSET: plain */
} tern_options;

/* Sets every field to "left to the environment". `options` is not NULL. */
TERN_API void tern_options_init(tern_options *options);

/*
 * Starts the library. NULL reads everything from the environment; an explicit option wins over the
 * environment. The calling thread is attached. Returns 0, or -1 with errno EINVAL (a bad setting), ENOMEM (no
 * address space), EALREADY (already started), ENOTSUP (a second copy of the library in this process);
 * tern_error() then says what, in one line. A program that never calls it is started by its first allocation;
 * a bad setting then prints that line and exits 2.
 */
TERN_API int tern_init(const tern_options *options);

/*
 * Ends the library: runs queued cleanups when a library thread runs them, stops library threads, returns all
 * memory. Every other thread must be detached or finished, and no managed object may be touched afterwards. A
 * second call, or one while other threads are attached, is a misuse that stops the program with a message.
 * May block.
 */
TERN_API void tern_shutdown(void);

/* The last start-up or settings error of this process in one line, or "". Valid until the next such error. */
TERN_API const char *tern_error(void);

/* Library version, "MAJOR.MINOR.PATCH". */
TERN_API const char *tern_version(void);

/*
 * Sets the growth ratio (percent >= 0, or TERN_GC_OFF) and returns the previous one; takes effect at once:
 * when the heap is already past the new goal the next slow path collects. A value under TERN_GC_OFF counts as
 * TERN_GC_OFF.
 */
TERN_API int tern_set_gc_percent(int percent);
TERN_API int tern_gc_percent(void);

/*
 * Sets the soft memory limit in bytes over everything the library holds (TERN_NO_LIMIT: none) and returns the
 * previous one. Takes effect at once, as above.
 */
TERN_API uint64_t tern_set_memory_limit(uint64_t bytes);
TERN_API uint64_t tern_memory_limit(void);

/*
 * A hard limit: with `hard` an allocation that would take the library past the memory limit fails (a collection, the
 * out-of-memory handler, NULL with errno ENOMEM) instead of passing it. Counts what tern_stats.total_bytes counts;
 * tables of the library itself may still grow. Returns what it was; false at the start.
 */
TERN_API bool tern_set_limit_hard(bool hard);

/*
 * `function` is called when what is live leaves so little of the memory limit that no collection will keep the
 * program under it: before the limit is passed, at most once for each collection, by a thread that allocates, with
 * no lock held; it may call the library. It may drop references (caches) and return true: a collection follows.
 * NULL removes it. Returns the previous function.
 */
typedef bool tern_pressure_function(uint64_t limit, uint64_t total, void *context);
TERN_API tern_pressure_function *tern_on_pressure(tern_pressure_function *function, void *context);

/*
 * Sets one knob from text, with the names and forms of the environment ("GOGC", "400"), for programs that
 * have options of their own. Returns 0, or -1 with errno EINVAL; tern_error() then names the value and the
 * accepted forms.
 */
TERN_API int tern_set_knob(const char *name, const char *value);

/* Calls `emit` with each line of the table of knobs, for a program's --help. */
TERN_API void tern_knobs_help(void (*emit)(void *context, const char *line), void *context);

/* ------------------------------------------------------------------------------------------------------
 * allocation
 *
 * All return zeroed memory aligned to 16 bytes (to 8 for sizes that are not a multiple of 16), or, when
 * memory cannot be had, NULL with errno ENOMEM after the out-of-memory handler has had its say. A size of 0
 * gives a valid pointer. A pointer to any byte of an object keeps it alive; so does, from a stack, a register
 * or a root, one past its end. All may collect. Pointer-free objects under 16 bytes share 16-byte blocks and
 * have only the alignment their size allows (8, 4, 2 or 1).
 */

/* Every aligned word of the object may be a pointer. */
TERN_API TERN_MALLOC void *tern_alloc(size_t size);
/* The object holds no pointers. */
TERN_API TERN_MALLOC void *tern_alloc_leaf(size_t size);
/* As tern_alloc_leaf, and the object never shares a block, so that weak references, cleanups and queries work
 * on it. */
TERN_API TERN_MALLOC void *tern_alloc_leaf_single(size_t size);
/* `count` elements of `size` bytes; a product that overflows is an out-of-memory error, never a small block.
 */
TERN_API TERN_MALLOC void *tern_alloc_array(size_t count, size_t size);
TERN_API TERN_MALLOC void *tern_alloc_leaf_array(size_t count, size_t size);
/* `alignment` is a power of two up to 1 MiB (else NULL with EINVAL). `leaf` says that it holds no pointers.
 */
TERN_API TERN_MALLOC void *tern_alloc_aligned(size_t alignment, size_t size, bool leaf);

/*
 * Resizes. NULL allocates as tern_alloc; size 0 gives a valid empty object (it does not free). The kind is
 * kept. The contents up to the smaller size are kept and what is beyond the old size is zero. Stays in place
 * where the slot has room, else moves: the old object is left to the collector. A pointer into the middle of
 * an object, or to none of ours, is a misuse that stops the program. Returns NULL with errno ENOMEM and
 * leaves the old object alone when memory cannot be had. May collect.
 */
TERN_API void *tern_realloc(void *object, size_t size);

/* A type: which words of an object are pointers. Never freed. */
typedef struct tern_type tern_type;

/*
 * Makes a type of `size` bytes (a multiple of 8, at most 1 MiB) whose word i is a pointer where bit i % 64 of
 * bitmap[i / 64] is set. `name` is copied and shown by the checkers; may be NULL. NULL with errno EINVAL or
 * ENOMEM.
 */
TERN_API const tern_type *tern_type_new(const char *name, size_t size, const uint64_t *bitmap);
/* `count` objects of one type in a row, zeroed. One word more than the objects is taken for the type. May
 * collect. */
TERN_API TERN_MALLOC void *tern_alloc_typed(const tern_type *type, size_t count);

/* What a trace function reports to. */
typedef struct tern_tracer tern_tracer;
/*
 * Reports the pointers of an object of `size` bytes through tern_trace_word and tern_trace_range. It runs
 * while other threads may be stopped at any instruction: it takes no lock, calls no malloc, allocates
 * nothing, and must cope with any intermediate state of the object: report by capacity, not by a length that
 * was just lowered.
 */
typedef void tern_trace_function(const void *object, size_t size, tern_tracer *tracer);
/* The word `value` may be a pointer. For trace functions only. */
TERN_API void tern_trace_word(tern_tracer *tracer, const void *value);
/* Each of `words` words from `from` may be a pointer. For trace functions only. */
TERN_API void tern_trace_range(tern_tracer *tracer, const void *from, size_t words);
/* Makes a kind of object that `function` traces. `name` is copied; may be NULL. NULL with errno ENOMEM. */
TERN_API const tern_type *tern_traced_type_new(const char *name, tern_trace_function *function);
/*
 * An object traced by its type's function, once tern_publish was called on it; until then it counts as words,
 * so that the function never sees it half built. One word more than `size` is taken for the type. May
 * collect.
 */
TERN_API TERN_MALLOC void *tern_alloc_traced(const tern_type *type, size_t size);
TERN_API void tern_publish(void *object);

/* ----------------------------------------------------------------------------------------------------------
 * stores
 *
 * With tern_options.stores at TERN_STORES_BARRIER marking runs beside the program, and the program keeps this
 * contract: pointers into the heap are changed only by tern_store (fields that two threads may store to at
 * once: tern_exchange or tern_cas), tern_store_range, tern_move_range, tern_clear_range, tern_exchange,
 * tern_cas and tern_sort; not by memcpy, memset, qsort or struct assignment once the object is shared.
 * Pointers hidden in malloc'd memory or pthread_setspecific, or encoded (xor, compressed) are not seen in
 * either mode: register a root or use a handle. docs/design.md has the reasons, docs/debugging.md says how
 * gcverify names a store that was missed.
 *
 * A `field` is a word aligned to 8 bytes in a managed object. None of these collects; the range forms are cut
 * into pieces between which the thread may be stopped. With TERN_STORES_PLAIN all of them are plain stores.
 */

/* *field = value, with release order. */
TERN_API void tern_store(void *field, const void *value);
/*
 * The first store into a field of an object that this thread allocated and no other thread or object knows
 * yet: what it overwrites is not looked at. Never cheaper than a plain store, which is allowed there too; it
 * forgives a pointer that came from somewhere the collector does not see.
 */
TERN_API void tern_init_store(void *field, const void *value);
/* Copies `count` words to `fields` from `values`, which do not overlap and may lie anywhere. */
TERN_API void tern_store_range(void *fields, const void *values, size_t count);
/* The same where the two may overlap, as memmove. */
TERN_API void tern_move_range(void *to, const void *from, size_t count);
/* Sets `count` fields to NULL. */
TERN_API void tern_clear_range(void *fields, size_t count);
/* Stores and returns what was there, in one step; sequentially consistent. */
TERN_API void *tern_exchange(void *field, const void *value);
/*
 * Stores `desired` if the field holds *expected: true. false: *expected is now what the field holds.
 * Sequentially consistent.
 */
TERN_API bool tern_cas(void *field, void **expected, const void *desired);
/*
 * Sorts `count` elements of `size` bytes (a multiple of 8) of a managed object as qsort_r does. `compare`
 * must not change them and may call the library. Returns 0, or -1 with errno EINVAL, or ENOMEM: it takes a
 * copy. May collect.
 */
TERN_API int tern_sort(void *base, size_t count, size_t size,
                       int (*compare)(const void *a, const void *b, void *context), void *context);

/* Keeps `object` reachable up to this point, whatever the compiler did with the variable. */
static inline void tern_keep(const void *object) {
#if defined(__GNUC__)
    __asm__ volatile("" : : "r"(object) : "memory");
#else
    (void)object;
#endif
}

/* -----------------------------------------------------------------------------------------------------
 * collections */

/* Runs one whole collection (two when one was under way) and returns when it is over. Counted as forced.
 * Blocks. */
TERN_API void tern_collect(void);
/* Returns all free memory that can be returned to the system, after a collection. Blocks. */
TERN_API void tern_release_memory(void);
/* A place where a thread may be stopped; needed in long loops without allocation in cooperative mode only. */
TERN_API void tern_poll(void);

#define TERN_SIZE_CLASSES 68 /* class 0 is "larger than 32 KiB" */

/* A reading of the counters. Every byte count is exact; a count that other threads are changing is a recent
 * value. */
typedef struct tern_stats {
    size_t size; /* set by the caller to sizeof(tern_stats) */

    /* The heap as the pacer sees it. */
    uint64_t heap_bytes;      /* bytes in objects: live at the last collection and allocated since */
    uint64_t live_bytes;      /* bytes marked by the last collection */
    uint64_t goal_bytes;      /* the next collection starts here; UINT64_MAX: never */
    uint64_t peak_heap_bytes; /* highest heap_bytes so far */
    int gc_percent;           /* TERN_GC_OFF when off */
    uint64_t memory_limit;    /* TERN_NO_LIMIT when none */
    int processors;

    /* What the library holds from the kernel: total is the sum of the five below; the limit is about total.
     */
    uint64_t total_bytes;
    uint64_t heap_used_bytes;  /* pages that hold objects */
    uint64_t heap_free_bytes;  /* pages free but resident */
    uint64_t metadata_bytes;   /* page records and bitmaps */
    uint64_t off_heap_bytes;   /* mark stacks, tables, thread records */
    uint64_t external_bytes;   /* declared with tern_external_add */
    uint64_t peak_total_bytes; /* highest total_bytes so far */
    uint64_t returned_bytes;   /* bytes given back to the kernel so far, in all */

    /* Collections. */
    uint64_t collections;           /* all; one trace line each */
    uint64_t forced;                /* those asked for by tern_collect and its kin */
    uint64_t limit_passed;          /* times that total went over the limit */
    uint64_t limit_passed_by_bytes; /* the most by which it did */
    uint64_t limiter_skipped;       /* limit-driven collections that the CPU limiter held back */
    uint64_t stack_bytes;           /* scanned in the last collection: stacks and registers */
    uint64_t root_bytes;            /* scanned in the last collection: all other roots */

    /* Time. A pause is one stop, from the first signal until the last thread runs again, or the first where threads
     * outnumber processors; a collection has one, or, where marking runs beside the program, two and seldom more. */
    uint64_t pause_count, pause_total_ns, pause_max_ns, pause_p50_ns, pause_p99_ns;
    uint64_t stopping_max_ns; /* longest time until all threads were stopped */
    uint64_t gc_cpu_ns;       /* CPU in all of the collector: the four below */
    uint64_t gc_cpu_stop_ns;  /* stopping and starting threads */
    uint64_t gc_cpu_mark_ns;  /* marking, all markers */
    uint64_t gc_cpu_sweep_ns; /* sweeping and freeing */
    uint64_t gc_cpu_other_ns; /* weak references, cleanups, policy */
    double gc_cpu_percent;    /* of wall time since start x processors, as in the trace */

    /* Allocation since the start, by all threads. */
    uint64_t alloc_bytes; /* size classes and pages handed out; a shared block counts once */
    uint64_t alloc_count; /* calls that reached the heap */
    uint64_t alloc_count_by_class[TERN_SIZE_CLASSES];
    uint64_t alloc_bytes_by_class[TERN_SIZE_CLASSES];

    /* Weak references and cleanups. */
    uint64_t weak_count;       /* weak references in the table */
    uint64_t cleanups_waiting; /* registered, object alive */
    uint64_t cleanups_queued;  /* object dead, not yet run */
    uint64_t cleanups_run;
    uint64_t threads; /* attached now */

    uint64_t stopping_p50_ns, stopping_p99_ns; /* of each pause, until all threads were stopped */
} tern_stats;

/* Fills `out` up to out->size. Returns 0, or -1 with errno EINVAL when out->size is 0 or larger than this
 * library's. */
TERN_API int tern_stats_read(tern_stats *out);
/* Size in bytes of objects of class `index` (1..67); 0 otherwise. */
TERN_API size_t tern_size_class_bytes(unsigned index);

/* One finished collection, with the numbers of its trace line. */
typedef struct tern_cycle {
    uint64_t number;
    bool forced;
    bool by_limit;     /* the memory limit, not the ratio, asked for it */
    uint64_t start_ns; /* since the library's start */
    /* All its pauses; the longest time until all were stopped; all of marking. */
    uint64_t pause_ns, stopping_ns, mark_ns;
    uint64_t gc_cpu_ns;
    uint64_t heap_before_bytes, live_bytes, goal_bytes, next_goal_bytes, total_bytes;
    /* The heap when marking was over: heap_before_bytes and what was allocated meanwhile. */
    uint64_t heap_end_bytes;
    /* Stops; wall time of marking beside the program; CPU of assists. */
    uint64_t stops, mark_beside_ns, assist_ns;
} tern_cycle;
/*
 * `function` is called once for each collection, in order, by a thread of the program: the one that waited for it,
 * or the next that comes to a slow path. All threads run, no lock is held; it may allocate (cycles meanwhile are
 * told when it has returned). When 64 wait to be told, older ones are left out. NULL removes it. Returns the
 * previous function.
 */
typedef void tern_cycle_function(const tern_cycle *cycle, void *context);
TERN_API tern_cycle_function *tern_on_cycle(tern_cycle_function *function, void *context);

/*
 * `function` is called when an allocation of `size` bytes fails, before NULL is returned; no lock is held. It
 * may free memory (drop references) and return true: the allocation is tried once more. NULL removes it;
 * without one a message that names size, heap and limit is written to standard error the first time. Returns
 * the previous function.
 */
typedef bool tern_oom_function(size_t size, void *context);
TERN_API tern_oom_function *tern_on_out_of_memory(tern_oom_function *function, void *context);

/* Declares `delta` bytes (may be negative) held elsewhere on behalf of managed objects: they count under the
 * limit. */
TERN_API void tern_external_add(int64_t delta);

/* ----------------------------------------------------------------------------------------------------------
 * threads */

/*
 * Attaches the calling thread, or returns 0 at once if it is. -1 with errno ENOMEM. A thread created by
 * tern_pthread_create, or one that allocates, is attached by itself. May block while the world is stopped.
 */
TERN_API int tern_thread_attach(void);
/* Detaches the calling thread: its stack is no root any more. A thread that exits is detached by itself. May
 * block. */
TERN_API void tern_thread_detach(void);
TERN_API bool tern_thread_is_attached(void);
/* pthread_create for a thread that is attached from its first instruction on; `argument` is a root until
 * then. */
TERN_API int tern_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                                 void *argument);
/*
 * Between these two the thread is not stopped by a signal, so its system calls are not cut short. It must not
 * touch the heap: no allocation, no store, no read of a managed object that others change. Do not nest. A
 * thread that comes back while the world is stopped waits in tern_blocking_end.
 */
TERN_API void tern_blocking_begin(void);
TERN_API void tern_blocking_end(void);

/* ------------------------------------------------------------------------------------------------------------
 * fibers
 *
 * A fiber is a stack that the program switches to by itself: with ucontext, or an assembly of its own. The library
 * switches nothing. It finds the stack that a thread runs on by its stack pointer. All registered stacks, and the
 * thread's own while it runs a fiber, are scanned whole, below the stack pointer too. What a switch saves
 * elsewhere (a ucontext_t in malloc'd memory) must be in a registered range or in a root. A fiber may go from
 * thread to thread, but not in a callback of the library's, nor between tern_blocking_begin and tern_blocking_end.
 * docs/fibers.md has an example.
 */
typedef struct tern_fiber tern_fiber;
/*
 * Registers the stack of `bytes` bytes from `stack_lo`, before it runs for the first time. All of it must be
 * readable until it is unregistered: leave out a guard page. NULL with errno EINVAL (nothing, a range that wraps, or
 * one that overlaps another fiber's) or ENOMEM. May block.
 */
TERN_API tern_fiber *tern_fiber_new(void *stack_lo, size_t bytes);
/*
 * The calling thread is about to switch to the stack of `to`, or to its own: NULL. Call it before every switch: a
 * fiber that has not run since a collection began is not looked at again when it ends. Two stores.
 */
TERN_API void tern_fiber_switch(tern_fiber *to);
/*
 * Unregisters a stack, which holds nothing alive from then on. NULL is ignored. Not from code that runs on it: a
 * misuse that stops the program with a message. May block.
 */
TERN_API void tern_fiber_free(tern_fiber *fiber);

/* ------------------------------------------------------------------------------------------------------------
 * roots */

/*
 * Each aligned word in [from, from + bytes) may be a pointer, from now on. Returns 0, or -1 with errno ENOMEM
 * or EINVAL (overlap with a range already there, or a wrapping range). May block.
 */
TERN_API int tern_root_add(const void *from, size_t bytes);
/* Takes back the range that starts at `from`. -1 with errno ENOENT when there is none. May block. */
TERN_API int tern_root_remove(const void *from);

/* A handle: a strong reference that lives outside the heap, for pointers kept in malloc'd memory. 0 is never
 * one. */
typedef uint64_t tern_handle;
/* 0 with errno ENOMEM. `object` may be NULL. */
TERN_API tern_handle tern_handle_new(void *object);
TERN_API void *tern_handle_get(tern_handle handle);
TERN_API void tern_handle_set(tern_handle handle, void *object);
/* Frees the handle. A stale handle is a misuse that stops the program with a message, here and above. */
TERN_API void tern_handle_free(tern_handle handle);

/* ------------------------------------------------------------------------------------- weak references and
 * cleanups */

/* A weak reference: does not keep its object alive. It is itself managed: keep the pointer, never free it. */
typedef struct tern_weak tern_weak;
/*
 * The weak reference of the object that contains `object`; the same one each time while it lives. NULL with
 * errno EINVAL (not an object, or one that shares a block: use tern_alloc_leaf_single) or ENOMEM. May
 * collect.
 */
TERN_API tern_weak *tern_weak_new(const void *object);
/* The pointer that tern_weak_new was first given, or NULL once the object is unreachable; NULL before its
 * cleanups run. */
TERN_API void *tern_weak_get(const tern_weak *weak);

/* Runs after an object became unreachable. It cannot reach the object. It may allocate and register cleanups.
 */
typedef void tern_cleanup_function(void *argument);
/*
 * Runs function(argument) once, some time after the object that contains `object` became unreachable, on a
 * library thread or in tern_run_cleanups. `argument` is kept alive until then: it must not lead to the
 * object, which would then never die (an argument inside the object itself is refused with EINVAL). Several
 * cleanups of an object run in the order in which they were added. Returns an id > 0, or 0 with errno EINVAL
 * or ENOMEM.
 */
TERN_API uint64_t tern_cleanup_add(const void *object, tern_cleanup_function *function, void *argument);
/* Takes back a cleanup that was not queued yet: true. false: unknown, queued or run. */
TERN_API bool tern_cleanup_remove(uint64_t id);
/* Runs queued cleanups on this thread, at most `most` of them (0: all that are queued now). Returns how many.
 */
TERN_API size_t tern_run_cleanups(size_t most);

/* ---------------------------------------------------------------------------------------------------------
 * looking */

typedef enum tern_kind {
    TERN_KIND_LEAF = 0,
    TERN_KIND_WORDS = 1,
    TERN_KIND_TYPED = 2,
    TERN_KIND_TRACED = 3,
    TERN_KIND_TINY = 4 /* a 16-byte block shared by pointer-free objects under 16 bytes */
} tern_kind;

typedef struct tern_object {
    void *base;            /* first byte */
    size_t size;           /* usable bytes */
    tern_kind kind;        /* of a shared block: base and size are the block's */
    const char *type_name; /* of typed and traced objects; may be NULL */
} tern_object;

/* The allocated object that contains `pointer`, or false. `out` may be NULL. */
TERN_API bool tern_object_find(const void *pointer, tern_object *out);
/*
 * Calls `function` for each object that the heap holds (dead ones that were not swept yet are left out) with
 * all other threads stopped; it must not call the library, malloc or stdio. Stops when it returns false. For
 * debugging. Blocks.
 */
typedef bool tern_walk_function(const tern_object *object, void *context);
TERN_API void tern_heap_walk(tern_walk_function *function, void *context);

#ifdef __cplusplus
}
#endif

#endif
