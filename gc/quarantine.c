/* See quarantine.h. Calls heap and os_log; aborts through fatal when a pattern is broken. */
#include "gc/quarantine.h"

#include <stdlib.h>
#include <string.h>

#include "gc/heap.h"
#include "gc/os/os_log.h"

GC_NO_SANITIZE void quarantine_fill(char *at, size_t bytes) {
    memset(at, QUARANTINE_BYTE, bytes);
}

GC_NO_SANITIZE void quarantine_verify(const char *at, size_t bytes, const char *what) {
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)at[i] == QUARANTINE_BYTE)
            continue;
        struct os_line line;
        os_line_init(&line);
        os_line_str(&line, "tern: gcverify: ");
        os_line_str(&line, what);
        os_line_str(&line, " of ");
        os_line_u64(&line, bytes);
        os_line_str(&line, " bytes at ");
        os_line_hex(&line, (uintptr_t)at);
        os_line_str(&line, " was written after it was freed, at offset ");
        os_line_u64(&line, i);
        os_line_str(&line,
                    ": it was freed while in use, or the program kept a pointer the collector cannot see");
        os_line_emit(&line, 2);
        abort();
    }
}

void quarantine_group(page_index head, unsigned group, uint64_t freed) {
    struct page *page = heap_page(head);
    uint64_t *held = &heap_quarantine(head)[group];
    char *base = heap_address(head) + (size_t)group * 64 * page->slot_bytes;
    for (uint64_t bits = *held; bits != 0; bits &= bits - 1)
        quarantine_verify(base + (size_t)__builtin_ctzll(bits) * page->slot_bytes, page->slot_bytes,
                          "an object");
    for (uint64_t bits = freed; bits != 0; bits &= bits - 1)
        quarantine_fill(base + (size_t)__builtin_ctzll(bits) * page->slot_bytes, page->slot_bytes);
    *held = freed;
}

void quarantine_large(page_index head) {
    struct page *page = heap_page(head);
    quarantine_fill(heap_address(head), (size_t)page->large.pages << PAGE_SHIFT);
    page->large.quarantined = 1;
    atomic_store_explicit(&page->large.marked, 1, memory_order_relaxed);
}

void quarantine_large_check(page_index head) {
    quarantine_verify(heap_address(head), (size_t)heap_page(head)->large.pages << PAGE_SHIFT,
                      "a large object");
}
