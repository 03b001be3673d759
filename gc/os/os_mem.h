/* os_mem: address space and pages from the kernel.
 *
 * Does: reserves, commits, populates, returns and protects ranges of anonymous memory; reads the process's
 * resident size. Owns nothing: whoever reserved a range unreserves it. Must never: use malloc or stdio, or
 * keep a table of what was handed out. Calls: the kernel, os_file.
 *
 * Every function may be called by any thread, in a stopped world too. All but os_mem_reserve expect addresses
 * and sizes that are multiples of the page size (os_mem_page_size). Sizes are bytes. */
#ifndef GC_OS_MEM_H
#define GC_OS_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Size of a transparent huge page on x86_64 and on aarch64 with 4 KiB pages, in bytes. Where the kernel's
 * differs, advice given in this unit is merely less useful. */
#define OS_HUGE_PAGE ((size_t)2 << 20)

/* The kernel's page size in bytes. */
size_t os_mem_page_size(void);

/* Reserves `bytes` (rounded up to pages) of address space at a multiple of `align` (a power of two; 0 or less
 * than a page: a page). Nothing in it may be touched before os_mem_commit. NULL and errno: EINVAL for a size
 * of 0 or a bad alignment, ENOMEM when the range does not fit (RLIMIT_AS, overflow). */
void *os_mem_reserve(size_t bytes, size_t align);

/* Gives a reserved range, or whole pages of one, back to the kernel, with whatever is in it. */
void os_mem_unreserve(void *addr, size_t bytes);

/* Makes a range readable and writable. It reads as zeros and holds no memory until touched. 0, or -1 and
 * errno (ENOMEM: the kernel's commit limit or its limit on mappings). */
int os_mem_commit(void *addr, size_t bytes);

/* Gives every page of a committed range its memory now, in batches (0.65 us a 4 KiB page instead of 15 us
 * when they are touched one by one on the virtual machine it was measured on). Contents are kept. It works in
 * pieces of OS_HUGE_PAGE, so that a signal waits for one piece at most. 0, or -1 and errno ENOMEM when the
 * kernel has no memory or the range is not committed; some of the pages may be there then. */
int os_mem_populate(void *addr, size_t bytes);

/* Asks for huge pages (on) or for small ones only (off). Advice: a kernel without them is no error. */
void os_mem_advise_huge(void *addr, size_t bytes, bool on);

/* Returns the memory of a range to the kernel; the range stays committed and reads as zeros when it is next
 * touched. 0, or -1 and errno (EINVAL: the pages are locked, by mlockall for instance; the contents are then
 * kept, and the caller must not count on zeros). */
int os_mem_release(void *addr, size_t bytes);

/* Makes a range inaccessible (guard pages, poison). Contents are kept. 0, or -1 and errno. */
int os_mem_protect_none(void *addr, size_t bytes);

/* Resident bytes of the process, to within the kernel's per-processor counters; 0 when /proc cannot be read.
 */
uint64_t os_mem_rss(void);

/* Highest resident bytes since this program image started, or since os_mem_reset_peak_rss; 0 when /proc
 * cannot be read. Not getrusage's ru_maxrss: that one outlives exec, and so tells the parent's peak. */
uint64_t os_mem_peak_rss(void);

/* Makes the present resident size the peak. 0, or -1 and errno (no /proc, or it may not be written). */
int os_mem_reset_peak_rss(void);

#endif
