/*
 * One of a kind in a process, however many copies of the code are linked or loaded into it: a small named
 * mapping that every copy can see in the process's memory map. It goes with exec and stays over fork, as the
 * code itself does.
 */
#ifndef OS_UNIQUE_H
#define OS_UNIQUE_H

#include <stdbool.h>

/* Makes the mapping `name` (letters and dashes). false: another copy has it already. true also when /proc is
 * not there to ask. */
bool os_unique_take(const char *name);
/* Takes it away again. */
void os_unique_give(void);

#endif
