/*
 * The collector as a whole: its start and end. What the runtime calls first and last.
 */
#ifndef GC_COLLECTOR_H
#define GC_COLLECTOR_H

/* Starts with what `settings` says. 0, or -1 with errno (ENOMEM, EINVAL for a bad signal). */
int collector_start(void);
/*
 * Stops library threads and returns all memory. Only the calling mutator, or none, is left, and
 * cleanup_shutdown was called before.
 */
void collector_end(void);

#endif
