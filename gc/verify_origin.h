/*
 * For the verifier: where each object of the last snapshot was first found, a field or a kind of root. What an
 * overwritten pointer led to cannot be asked of the heap any more; this remembers it. Owns an array of four bytes for
 * each word of the heap, of which only touched pages cost memory; none of it counts under the limit, as it is no
 * part of what runs without gcverify. Knows nothing of objects: the verifier's "seen" says which entries mean
 * something. World stopped.
 */
#ifndef GC_VERIFY_ORIGIN_H
#define GC_VERIFY_ORIGIN_H

#include "gc/base.h"

/* Room for the heap as it is now. Without address space for it nothing is noted. */
void verify_origin_begin(void);
void verify_origin_forget(void);

/* `object` is the address of its first byte, `field` of the word in the heap that led to it. */
void verify_origin_note_field(uintptr_t object, uintptr_t field);
/* `root` is a string that lives on; at most VERIFY_ORIGIN_ROOTS different ones are told apart. */
void verify_origin_note_root(uintptr_t object, const char *root);

#define VERIFY_ORIGIN_ROOTS 32

struct verify_origin {
    uintptr_t field;  /* 0: none */
    const char *root; /* NULL: none; both none: not known */
};

struct verify_origin verify_origin_of(uintptr_t object);

#endif
