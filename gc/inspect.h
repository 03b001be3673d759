/*
 * Looking at the heap from outside the collector: what object is here, and which objects are there. Owns
 * nothing, changes nothing.
 */
#ifndef GC_INSPECT_H
#define GC_INSPECT_H

#include "gc/mutator.h"
#include "gc/page.h"

struct inspect_object {
    void *base;
    size_t size; /* usable bytes: without the type word */
    enum kind kind;
    const char *type_name;
};

/* The allocated object that contains `pointer`. Inside S1, or world stopped. */
bool inspect_find(const void *pointer, struct inspect_object *out);
/* Visits every allocated object but slots in open masks, until visit returns false. World stopped, all swept.
 */
void inspect_walk(bool (*visit)(const struct inspect_object *object, void *context), void *context);

#endif
