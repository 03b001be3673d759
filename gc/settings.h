/*
 * What the collector was told: set once by the runtime before the heap starts, except the ratio and the
 * limit, which may change at any time. The collector knows nothing of environment variables; this is all it
 * hears of them.
 */
#ifndef GC_SETTINGS_H
#define GC_SETTINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum marker_order { MARKER_AUTO, MARKER_STACK, MARKER_RING };

struct settings {
    _Atomic int gc_percent;        /* < 0: off; relaxed, read at each decision */
    _Atomic uint64_t memory_limit; /* bytes, UINT64_MAX: none; relaxed */
    _Atomic bool limit_is_hard;    /* memory_limit makes allocations fail rather than be passed; relaxed */
    _Atomic int processors;        /* >= 1; relaxed would do: a number that changes seldom */
    bool follow_processors;        /* nobody said a number: affinity and quota are looked at again */
    int markers;                   /* parallel markers, >= 1 */
    _Atomic(enum marker_order) marker; /* this, trace and warnings may change too; read at each cycle */
    _Atomic int trace;                 /* gctrace level */
    _Atomic bool scavenge_trace;       /* a line when the background has returned memory */
    int64_t period_ns;                 /* of the periodic collection; tests change it */
    bool verify;                       /* gcverify */
    uint32_t stress;                   /* collect at every N-th allocation slow path; 0: never */
    uint64_t seed;                     /* of stress */
    bool concurrent;                   /* marking runs beside the program, which stores through the barrier */
    bool cooperative;                  /* stop at polls, no signal */
    int signal;                        /* that stops threads */
    bool huge_pages;
    bool data_segments;    /* writable data segments are roots */
    _Atomic bool warnings; /* "limit passed" and other lines */
    bool manual_cleanups;  /* no cleanup thread */
};

extern struct settings settings;

#endif
