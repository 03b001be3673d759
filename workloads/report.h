/* A run's record as text for a person: one row a figure.
 *
 * Does: prints rows, and the groups of rows that every workload has. Owns: nothing. Never: measures; a figure
 * that the backend cannot tell prints as "-". Calls: run.h, size_text.h.
 */
#ifndef WORKLOADS_REPORT_H
#define WORKLOADS_REPORT_H

#include <stdint.h>

#include "workloads/run.h"

/* "name  value   note"; an empty note prints nothing. */
void report_text(const char *name, const char *value, const char *note);
void report_count(const char *name, uint64_t value, const char *note);
void report_bytes(const char *name, uint64_t bytes, const char *note);
void report_ms(const char *name, uint64_t ns, const char *note);
void report_us(const char *name, uint64_t ns, const char *note);

/* The line that says which backend ran under which settings, and an empty line. */
void report_settings(const struct run *run);
/* Collections, with a note on their number, and memory. */
void report_memory(const struct run *run, const char *note);
/* Pauses, CPU and wall time, what failed and whether the limit was passed. */
void report_time(const struct run *run);

#endif
