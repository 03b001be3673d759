/* Handles: strong references outside the heap. */
#include "gc/handle.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include <cmocka.h>

#include "garbage.h"

#define SEED UINT64_C(77001)

/* An object that knows what it is. */
struct object {
    uint64_t number, complement;
    uint64_t rest[6];
};

static NOINLINE struct object *make(uint64_t number) {
    struct object *object = tern_alloc(sizeof *object);
    object->number = number;
    object->complement = ~number;
    return object;
}

static bool is_whole(const struct object *object, uint64_t number) {
    return object != NULL && object->number == number && object->complement == ~number;
}

static void a_handle_gives_back_what_it_holds(void **state) {
    (void)state;
    int local;
    struct object *object = make(1);
    tern_handle handle = tern_handle_new(object);
    tern_handle empty = tern_handle_new(NULL);
    assert_true(handle != 0 && empty != 0 && handle != empty);
    assert_ptr_equal(tern_handle_get(handle), object);
    assert_null(tern_handle_get(empty));
    /* What lies outside the heap may be held too; it is just not kept alive. */
    tern_handle_set(empty, &local);
    assert_ptr_equal(tern_handle_get(empty), &local);
    tern_handle_set(handle, NULL);
    assert_null(tern_handle_get(handle));
    tern_handle_free(handle);
    tern_handle_free(empty);
}

static NOINLINE void make_handles(tern_handle *handles, tern_weak **weak, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct object *object = make(i);
        handles[i] = tern_handle_new(object);
        weak[i] = tern_weak_new(object);
    }
}

static NOINLINE size_t dead(tern_weak **weak, size_t count) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += tern_weak_get(weak[i]) == NULL;
    return n;
}

static void a_handle_keeps_its_object_alive_until_it_is_freed(void **state) {
    (void)state;
    enum { COUNT = 1000 };
    tern_handle *handles = malloc(COUNT * sizeof *handles);
    tern_weak **weak = tern_alloc_array(COUNT, sizeof *weak);
    make_handles(handles, weak, COUNT);
    for (unsigned n = 0; n < 3; n++)
        collect();
    assert_int_equal(dead(weak, COUNT), 0);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(is_whole(tern_handle_get(handles[i]), i));
    for (size_t i = 0; i < COUNT; i++)
        tern_handle_free(handles[i]);
    collect();
    assert_true(dead(weak, COUNT) >= NEARLY(COUNT));
    tern_keep(weak);
    free(handles);
}

static void a_handle_that_is_set_anew_lets_the_old_object_die(void **state) {
    (void)state;
    enum { COUNT = 1000 };
    tern_handle *handles = malloc(COUNT * sizeof *handles);
    tern_weak **weak = tern_alloc_array(COUNT, sizeof *weak);
    make_handles(handles, weak, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        tern_handle_set(handles[i], make(i + COUNT));
    collect();
    assert_true(dead(weak, COUNT) >= NEARLY(COUNT));
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(is_whole(tern_handle_get(handles[i]), i + COUNT));
        tern_handle_free(handles[i]);
    }
    tern_keep(weak);
    free(handles);
}

static void a_slot_used_again_has_another_handle(void **state) {
    (void)state;
    tern_handle before = 0;
    for (unsigned i = 0; i < 1000; i++) {
        tern_handle handle = tern_handle_new(NULL);
        assert_true(handle != before);
        assert_true((uint32_t)before == 0 || (uint32_t)handle == (uint32_t)before);
        tern_handle_free(handle);
        before = handle;
    }
}

static int get_stale(void *handle) {
    tern_handle_get(*(tern_handle *)handle);
    return 0;
}
static int set_stale(void *handle) {
    tern_handle_set(*(tern_handle *)handle, NULL);
    return 0;
}
static int free_stale(void *handle) {
    tern_handle_free(*(tern_handle *)handle);
    return 0;
}

static void expect_misuse(tern_handle handle) {
    int (*uses[])(void *) = {get_stale, set_stale, free_stale};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        char text[1000], value[40];
        int status = in_child(uses[i], &handle, text, sizeof text);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        snprintf(value, sizeof value, "0x%llx", (unsigned long long)handle);
        assert_non_null(strstr(text, "tern: misuse: a handle that is not in use"));
        assert_non_null(strstr(text, value));
        assert_non_null(strstr(text, "tern_handle_new"));
    }
}

static void a_stale_handle_stops_the_program_with_a_message(void **state) {
    (void)state;
    tern_handle handle = tern_handle_new(NULL);
    tern_handle_free(handle);
    expect_misuse(handle);                       /* freed */
    expect_misuse(handle + (UINT64_C(1) << 32)); /* what its free slot says, but nobody was given */
    tern_handle again = tern_handle_new(NULL);
    assert_int_equal((uint32_t)again, (uint32_t)handle);
    expect_misuse(handle);            /* freed, its slot in use again */
    expect_misuse(0);                 /* none */
    expect_misuse(again + 1);         /* a slot never used */
    expect_misuse(again + (1 << 30)); /* a slot that is not there */
    expect_misuse(UINT64_MAX);
    expect_misuse(again >> 32 << 32); /* no slot */
    tern_handle_free(again);
}

/* Enough handles for several segments; the last of them is returned, and is stale. */
static tern_handle many_dropped(size_t count) {
    tern_handle *handles = malloc(count * sizeof *handles);
    for (size_t i = 0; i < count; i++)
        handles[i] = tern_handle_new(NULL);
    handle_check();
    for (size_t i = 0; i < count; i++)
        tern_handle_free(handles[i]);
    handle_check();
    tern_handle last = handles[count - 1];
    free(handles);
    return last;
}

static void a_million_dropped_handles_leave_the_memory_flat(void **state) {
    (void)state;
    collect();
    collect();
    uint64_t before = stats().off_heap_bytes;
    for (unsigned round = 0; round < 3; round++) {
        many_dropped(scaled(1000000));
        collect();
        assert_true(stats().off_heap_bytes <= before + (128 << 10));
    }
}

static void a_handle_stays_stale_when_its_memory_came_and_went(void **state) {
    (void)state;
    tern_handle stale = many_dropped(5000);
    collect();
    expect_misuse(stale);
    tern_handle later = many_dropped(5000);
    assert_int_equal((uint32_t)later, (uint32_t)stale);
    assert_true(later != stale);
    tern_handle *handles = malloc(5000 * sizeof *handles);
    for (size_t i = 0; i < 5000; i++)
        handles[i] = tern_handle_new(NULL);
    expect_misuse(stale);
    expect_misuse(later);
    for (size_t i = 0; i < 5000; i++)
        tern_handle_free(handles[i]);
    free(handles);
}

/* ---- threads ---- */

#define THREADS 8
#define OWN     64
/* Written by one thread, read by all: what they hold is always whole. */
static _Atomic tern_handle shared[THREADS];
static _Atomic bool failed;

struct own {
    tern_handle handle;
    uint64_t number;
};

static void change_one(struct own *own, uint64_t number) {
    if (own->handle == 0) {
        own->handle = tern_handle_new(make(number));
        own->number = number;
    } else if (number % 3 == 0) {
        tern_handle_set(own->handle, make(number));
        own->number = number;
    } else {
        if (!is_whole(tern_handle_get(own->handle), own->number))
            failed = true;
        tern_handle_free(own->handle);
        own->handle = 0;
    }
}

static void *hammer(void *argument) {
    size_t me = (size_t)(uintptr_t)argument;
    uint64_t random = SEED + me;
    struct own own[OWN] = {{0, 0}};
    size_t steps = scaled(200000);
    for (size_t n = 0; n < steps; n++) {
        uint64_t number = next_random(&random) >> 1;
        change_one(&own[(number >> 8) % OWN], number);
        if (n % 8 == 0)
            tern_handle_set(shared[me], make(me));
        size_t other = (size_t)(number >> 20) % THREADS;
        if (!is_whole(tern_handle_get(shared[other]), other))
            failed = true;
        if (n % 20000 == me * 1000)
            tern_collect();
    }
    for (size_t i = 0; i < OWN; i++)
        if (own[i].handle != 0)
            tern_handle_free(own[i].handle);
    return NULL;
}

static void many_threads_may_use_handles_at_once(void **state) {
    (void)state;
    print_message("seed %llu\n", (unsigned long long)SEED);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        shared[i] = tern_handle_new(make(i));
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(tern_pthread_create(&threads[i], NULL, hammer, (void *)(uintptr_t)i), 0);
    tern_blocking_begin();
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tern_blocking_end();
    assert_false(failed);
    for (size_t i = 0; i < THREADS; i++)
        tern_handle_free(shared[i]);
    handle_check();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_gives_back_what_it_holds),
        cmocka_unit_test(a_handle_keeps_its_object_alive_until_it_is_freed),
        cmocka_unit_test(a_handle_that_is_set_anew_lets_the_old_object_die),
        cmocka_unit_test(a_slot_used_again_has_another_handle),
        cmocka_unit_test(a_stale_handle_stops_the_program_with_a_message),
        cmocka_unit_test(a_million_dropped_handles_leave_the_memory_flat),
        cmocka_unit_test(a_handle_stays_stale_when_its_memory_came_and_went),
        cmocka_unit_test(many_threads_may_use_handles_at_once),
    };
    if (tern_init(NULL) != 0)
        return 1;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    tern_shutdown();
    return failures;
}
