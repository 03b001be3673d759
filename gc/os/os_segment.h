/* os_segment: the writable data of the program and of its shared libraries.
 *
 * Does: walks the loaded objects under the loader's lock. Owns nothing. Must never: take a lock of its own,
 * or allocate. Calls: the loader (dl_iterate_phdr). Thread-local storage and the heap of malloc are not
 * included. */
#ifndef GC_OS_SEGMENT_H
#define GC_OS_SEGMENT_H

#include <stdint.h>

/* The bytes from lo to before hi. */
struct os_range {
    uintptr_t lo;
    uintptr_t hi;
};

/* Calls first(ctx) once, before any segment and with the loader's lock already held, so no library can come
 * or go until this returns: that is where the collector stops the world (rule S7). Then calls each(ctx,
 * range, name) for every writable segment of every loaded object, without the part that is read-only after
 * relocation. Ranges are aligned to words and not empty. `name` is the object's path, "" for the program
 * itself, and lives until this returns. `first` may be NULL.
 *
 * 0, or -1 and errno ENOSYS when the loader reports no object; first was not called then. Any thread at depth
 * 0 that the callers' stop does not include; the callbacks must not use the loader, malloc or stdio. */
int os_segment_each(void (*first)(void *ctx),
                    void (*each)(void *ctx, struct os_range r, const char *object_name), void *ctx);

#endif
