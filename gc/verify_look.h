/*
 * What the verifier sees: which object a word leads to, whether it is marked, where its pointers are, and how it is
 * named in a message. Owns nothing, changes nothing; shares no line with the marker (see verify.h).
 */
#ifndef GC_VERIFY_LOOK_H
#define GC_VERIFY_LOOK_H

#include "gc/os/os_log.h"
#include "gc/page.h"

struct verify_object {
    uintptr_t base; /* 0: the word leads to no object */
    size_t bytes;
    unsigned kind;
    struct page *head;
    unsigned slot;
};

/* What the word leads to or into. World stopped, as for all of these. */
struct verify_object verify_look_up(uintptr_t word);
bool verify_is_marked(const struct verify_object *o);
/* Calls visit for every allocated object. */
void verify_each_object(void (*visit)(const struct verify_object *o));

#define VERIFY_OFFSET_UNKNOWN SIZE_MAX /* a trace function told of a word that does not lie in the object */

typedef void verify_pointer_function(uintptr_t word, size_t offset, const struct verify_object *holder);
/* The pointers of an object, told one by one with their offset. */
void verify_each_pointer(const struct verify_object *o, verify_pointer_function *tell);

/* "object A (kind K, N bytes)" */
void verify_describe(struct os_line *line, const struct verify_object *o);
/* "the field at offset N of object A (kind K, N bytes)" */
void verify_describe_field(struct os_line *line, const struct verify_object *holder, size_t offset);

#endif
