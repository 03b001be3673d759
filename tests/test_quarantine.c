/* gcverify's quarantine: what was freed is held for a cycle, and a write to it is found. */
#include "child.h"

#include "gc/quarantine.h"

static void a_pattern_is_whole_or_not(void **state) {
    (void)state;
    char bytes[100];
    quarantine_fill(bytes, sizeof bytes);
    quarantine_verify(bytes, sizeof bytes, "a test");
    assert_int_equal((unsigned char)bytes[99], QUARANTINE_BYTE);
}

static int verify_broken(void *argument) {
    size_t at = *(size_t *)argument;
    char bytes[100];
    quarantine_fill(bytes, sizeof bytes);
    bytes[at] ^= 1;
    quarantine_verify(bytes, sizeof bytes, "a test");
    return 0;
}

static void each_byte_of_it_is_looked_at(void **state) {
    (void)state;
    static const size_t ats[] = {0, 1, 63, 99};
    for (size_t i = 0; i < 4; i++) {
        char text[64];
        size_t at = ats[i];
        snprintf(text, sizeof text, "was written after it was freed, at offset %zu:", at);
        child_aborts(verify_broken, &at, text);
    }
}

static NOINLINE uintptr_t make_and_forget(size_t size) {
    uintptr_t hidden = ~(uintptr_t)tern_alloc_leaf_single(size);
    clear_stack();
    return hidden;
}

/* The program keeps a pointer where the collector does not look, and writes through it. */
static int write_after_free(void *argument) {
    size_t size = *(size_t *)argument;
    setenv("TERN_GODEBUG", "gcverify=1", 1);
    uintptr_t hidden[20];
    for (size_t i = 0; i < 20; i++) /* a stale word on the stack may keep one of them */
        hidden[i] = make_and_forget(size);
    collect_and_sweep();
    for (size_t i = 0; i < 20; i++)
        ((volatile char *)~hidden[i])[size - 1] = 1;
    for (unsigned i = 0; i < 3; i++)
        collect_and_sweep();
    return 0;
}

static void a_write_after_free_is_found(void **state) {
    (void)state;
    static const size_t sizes[] = {8, 100, 4000, 32768, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i];
        child_aborts(write_after_free, &size, "was written after it was freed");
    }
}

/* Held back for one cycle: not handed out in the next, but in the one after. */
static int held_back(void *unused) {
    (void)unused;
    setenv("TERN_GODEBUG", "gcverify=1", 1);
    setenv("TERN_GOGC", "off", 1);
    void **objects = tern_alloc_array(1000, sizeof *objects);
    uintptr_t hidden[1000];
    for (size_t i = 0; i < 1000; i++)
        hidden[i] = make_and_forget(1024);
    collect_and_sweep();
    for (size_t i = 0; i < 1000; i++) {
        objects[i] = tern_alloc_leaf(1024);
        for (size_t j = 0; j < 1000; j++)
            must((uintptr_t)objects[i] != ~hidden[j]);
    }
    collect_and_sweep();
    size_t again = 0;
    for (size_t i = 0; i < 1000; i++) {
        void *object = tern_alloc_leaf(1024);
        for (size_t j = 0; j < 1000; j++)
            again += (uintptr_t)object == ~hidden[j];
    }
    must(again >= NEARLY(900));
    tern_keep(objects);
    return 0;
}

static void what_was_freed_is_held_back_for_a_cycle(void **state) {
    (void)state;
    child_passes(held_back, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_is_whole_or_not),
        cmocka_unit_test(each_byte_of_it_is_looked_at),
        cmocka_unit_test(a_write_after_free_is_found),
        cmocka_unit_test(what_was_freed_is_held_back_for_a_cycle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
