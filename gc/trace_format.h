/* The trace line: Go's gctrace format, byte for byte, so that the field's parsers read it.
 *
 * Does: writes one cycle's line into a buffer.
 * Owns: nothing; the buffer is the caller's.
 * Never: allocates, locks, uses stdio or the locale, or writes to a file.
 * Calls: nobody; so it works in a signal handler, in a stopped world and when memory is gone.
 *
 * gc # @#s #%: #+#+# ms clock, #+#/#/#+# ms cpu, #->#-># MB, # MB goal, # MB stacks, # MB globals, # P
 *
 * and " (forced)" behind it where the program asked. Layout and rounding are those of gcMarkTermination and
 * fmtNSAsMS in Go's runtime.
 */
#ifndef TERN_GC_TRACE_FORMAT_H
#define TERN_GC_TRACE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Holds the longest line there can be (every field at its largest) and the NUL behind it; a test says so. */
#define TRACE_GC_LINE_MAX_BYTES 512

struct trace_cycle {
    uint64_t number;    /* 1 for the first cycle */
    int64_t start_ns;   /* since program start */
    int gc_percent_cpu; /* CPU spent in collection since program start, in percent of all there was */
    int64_t sweep_term_clock_ns; /* wall clock of the start stop; a whole stopped-world cycle counts here */
    int64_t mark_clock_ns;       /* of concurrent marking */
    int64_t mark_term_clock_ns;  /* of the end stop */
    int64_t sweep_term_cpu_ns;   /* processors times the start stop */
    int64_t assist_cpu_ns;       /* marking done by allocating mutators */
    int64_t dedicated_cpu_ns;    /* by background workers, dedicated and fractional */
    int64_t idle_cpu_ns;         /* by processors that had nothing else to do */
    int64_t mark_term_cpu_ns;    /* processors times the end stop */
    uint64_t heap_start_bytes;   /* heap when the cycle started */
    uint64_t heap_end_bytes;     /* heap when marking ended */
    uint64_t heap_live_bytes;    /* of that, marked */
    uint64_t goal_bytes;         /* the goal this cycle ran under */
    uint64_t stack_bytes;        /* scanned stacks */
    uint64_t global_bytes;       /* scanned ranges and data segments */
    int procs;                   /* processors in use */
    bool forced;                 /* the program asked for it; not for periodic or limit-driven ones */
};

/* Writes the line, its newline and a NUL; gives back its length without the NUL. When cap is too small
 * nothing but an empty string is written and 0 comes back: half a line would mislead a parser. Negative times
 * and counts print as 0. */
size_t trace_format_gc(char *buf, size_t cap, const struct trace_cycle *c);

#endif
