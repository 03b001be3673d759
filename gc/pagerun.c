/*
 * Free runs in bins by length, merged at once, last freed first out; growth by 2 MiB; return to the kernel.
 * Calls heap (records) and gc/os/os_mem.
 *
 * The kernel's page faults are the dearest thing in most runs, so memory comes in populated 2 MiB pieces with
 * huge pages. A run is warm when all its pages are resident; cold runs (some pages returned or never
 * populated) are used when no warm one fits, and of those first what is warm in them.
 *
 * A page's bit in the map of cold pages means something while the page is free. A run that was handed out for
 * its caller to populate keeps its bits, so that what is cut off it and given back at once is still known to
 * be cold.
 */
#include "gc/pagerun.h"

#include <errno.h>

#include "gc/heap.h"
#include "gc/os/os_futex.h"
#include "gc/os/os_mem.h"
#include "gc/sizeclass.h"

#define CHUNK_PAGES (OS_HUGE_PAGE / PAGE_BYTES)
/* The smallest step, near the limit: the pages of one block of 64 KiB. */
#define SMALL_STEP_PAGES ((size_t)8)
/* Lengths 1..63 have a bin each, longer ones a bin for each power of two. */
#define EXACT_BINS 63
#define BINS       (EXACT_BINS + 26)
/* Words of the residency map that are looked at, at most, for warm pages in partly cold runs: about 10 us. */
#define LOOK_WORDS 4096
/*
 * From so many pages on, runs of the same length are cut in a row: what is allocated one after the other mostly dies so,
 * and leaves long runs and few dead objects next to a live one, which a root that points to its first byte keeps
 * (marker_visit_root).
 */
#define ROW_PAGES 5

static struct {
    struct os_lock lock;
    page_index bins[2][BINS]; /* [cold]; heads of doubly linked lists; under lock */
    uint64_t *cold;           /* one bit a page: not resident; under lock */
    uint64_t *small;          /* one bit for each 2 MiB: the kernel was told to use small pages; under lock */
    page_index end;           /* first page never grown; under lock */
    page_index next;          /* the listed run behind what was cut last for a row; 0: none; under lock */
    size_t next_pages;        /* how many were cut; under lock */
    bool huge_pages;
    _Atomic size_t used, free_warm; /* pages; changed under lock, read relaxed */
    _Atomic uint64_t returned;      /* bytes */
} runs;

/* Both maps lie in one reservation. */
static size_t cold_bytes(void) {
    return align_up((heap.reserved >> PAGE_SHIFT) / 8 + 8, os_mem_page_size());
}
static size_t map_bytes(void) {
    return cold_bytes() + align_up(heap.reserved / OS_HUGE_PAGE / 8 + 8, os_mem_page_size());
}

int pagerun_init(bool huge_pages) {
    runs.huge_pages = huge_pages;
    runs.end = 1;
    runs.next = 0;
    runs.cold = os_mem_reserve(map_bytes(), os_mem_page_size());
    if (runs.cold == NULL || os_mem_commit(runs.cold, map_bytes()) != 0) {
        if (runs.cold != NULL)
            os_mem_unreserve(runs.cold, map_bytes());
        runs.cold = NULL;
        errno = ENOMEM;
        return -1;
    }
    runs.small = runs.cold + cold_bytes() / sizeof *runs.cold;
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < BINS; i++)
            runs.bins[c][i] = 0;
    atomic_store_explicit(&runs.used, 0, memory_order_relaxed);
    atomic_store_explicit(&runs.free_warm, 0, memory_order_relaxed);
    atomic_store_explicit(&runs.returned, 0, memory_order_relaxed);
    return 0;
}

void pagerun_destroy(void) {
    os_mem_unreserve(runs.cold, map_bytes());
    runs.cold = runs.small = NULL;
}

static unsigned bin_of(size_t pages) {
    if (pages <= EXACT_BINS)
        return (unsigned)pages - 1;
    return EXACT_BINS + (63 - (unsigned)__builtin_clzll(pages)) - 6;
}

/* Residency of single pages. */

static bool is_cold(page_index i) {
    return runs.cold[i / 64] >> i % 64 & 1;
}

static size_t count_cold(page_index first, size_t pages) {
    size_t count = 0;
    page_index i = first, end = first + (page_index)pages;
    while (i < end) {
        if (i % 64 == 0 && end - i >= 64) {
            count += (size_t)__builtin_popcountll(runs.cold[i / 64]);
            i += 64;
        } else {
            count += is_cold(i++);
        }
    }
    return count;
}

static void set_cold(page_index first, size_t pages, bool cold) {
    page_index i = first, end = first + (page_index)pages;
    while (i < end) {
        if (i % 64 == 0 && end - i >= 64) {
            runs.cold[i / 64] = cold ? UINT64_MAX : 0;
            i += 64;
        } else {
            uint64_t bit = UINT64_C(1) << i % 64;
            runs.cold[i / 64] = cold ? runs.cold[i / 64] | bit : runs.cold[i / 64] & ~bit;
            i++;
        }
    }
}

/* Lists of free runs. */

static void set_use(page_index i, enum page_use use) {
    atomic_store_explicit(&heap_page(i)->use, (uint8_t)use, memory_order_release);
}

static void insert(page_index first, size_t pages, size_t cold) {
    struct page *head = heap_page(first);
    struct page *last = heap_page(first + (page_index)pages - 1);
    page_index *bin = &runs.bins[cold != 0][bin_of(pages)];
    set_use(first, PAGE_FREE);
    set_use(first + (page_index)pages - 1, PAGE_FREE);
    head->run.pages = last->run.pages = (uint32_t)pages;
    head->run.cold = (uint32_t)cold;
    head->run.list_prev = 0;
    head->next = *bin;
    if (*bin != 0)
        heap_page(*bin)->run.list_prev = first;
    *bin = first;
}

static void unlink_run(page_index first) {
    struct page *head = heap_page(first);
    size_t pages = head->run.pages;
    if (head->run.list_prev != 0)
        heap_page(head->run.list_prev)->next = head->next;
    else
        runs.bins[head->run.cold != 0][bin_of(pages)] = head->next;
    if (head->next != 0)
        heap_page(head->next)->run.list_prev = head->run.list_prev;
    set_use(first, PAGE_NONE);
    set_use(first + (page_index)pages - 1, PAGE_NONE);
}

/* Merges the pages with free neighbours and lists the result. They are not counted in free_warm here. */
static void insert_merged(page_index first, size_t pages, size_t cold) {
    if (first > 1 && atomic_load_explicit(&heap_page(first - 1)->use, memory_order_relaxed) == PAGE_FREE) {
        page_index left = first - heap_page(first - 1)->run.pages;
        pages += heap_page(left)->run.pages;
        cold += heap_page(left)->run.cold;
        unlink_run(left);
        first = left;
    }
    page_index after = first + (page_index)pages;
    if (after < runs.end && atomic_load_explicit(&heap_page(after)->use, memory_order_relaxed) == PAGE_FREE) {
        pages += heap_page(after)->run.pages;
        cold += heap_page(after)->run.cold;
        unlink_run(after);
    }
    insert(first, pages, cold);
    if (runs.next > first && runs.next < first + pages)
        runs.next = first;
}

static page_index find(bool cold, size_t pages) {
    unsigned bin = bin_of(pages);
    for (page_index i = runs.bins[cold][bin]; i != 0; i = heap_page(i)->next)
        if (heap_page(i)->run.pages >= pages)
            return i;
    for (bin++; bin < BINS; bin++)
        if (runs.bins[cold][bin] != 0)
            return runs.bins[cold][bin];
    return 0;
}

/* A place in a listed run. */
struct place {
    page_index run, at; /* run 0: none */
};

/* The first `pages` warm pages in a row of the run, or 0; counts down the words that may be looked at. */
static page_index warm_stretch(page_index first, size_t pages, size_t *words) {
    size_t length = 0;
    page_index i = first, end = first + heap_page(first)->run.pages;
    while (i < end && length<pages && * words> 0) {
        uint64_t word = runs.cold[i / 64];
        unsigned rest = 64 - i % 64;
        *words -= i == first || i % 64 == 0;
        if (word == 0 || word == UINT64_MAX) {
            if (rest > end - i)
                rest = end - i;
            length = word == 0 ? length + rest : 0;
            i += rest;
        } else {
            length = is_cold(i++) ? 0 : length + 1;
        }
    }
    return length >= pages ? i - (page_index)length : 0;
}

/* Warm pages inside a run that is cold elsewhere: memory that was returned in part goes on in use there. */
static struct place find_warm_inside(size_t pages) {
    size_t words = LOOK_WORDS;
    for (unsigned bin = bin_of(pages); bin < BINS; bin++)
        for (page_index i = runs.bins[true][bin]; i != 0; i = heap_page(i)->next) {
            if (words == 0)
                return (struct place){0, 0};
            words--;
            if (heap_page(i)->run.pages - heap_page(i)->run.cold < pages)
                continue;
            page_index at = warm_stretch(i, pages, &words);
            if (at != 0)
                return (struct place){i, at};
        }
    return (struct place){0, 0};
}

static struct place find_place(size_t pages) {
    page_index run = runs.next;
    if (pages != runs.next_pages || run == 0 || heap_page(run)->run.cold != 0 ||
        heap_page(run)->run.pages < pages)
        run = find(false, pages);
    if (run == 0) {
        struct place inside = find_warm_inside(pages);
        if (inside.run != 0)
            return inside;
        run = find(true, pages);
    }
    return (struct place){run, run};
}

/* Whether the 2 MiB that begin with page `first` get huge pages. Told to the kernel once. */
static void advise_piece(page_index first, bool huge) {
    size_t piece = (first - 1) / CHUNK_PAGES;
    uint64_t bit = UINT64_C(1) << piece % 64;
    if (((runs.small[piece / 64] & bit) != 0) != huge)
        return;
    os_mem_advise_huge(heap_address(first), OS_HUGE_PAGE, huge);
    runs.small[piece / 64] ^= bit;
}

/*
 * The first touch of a piece of 2 MiB of which nothing is resident may bring all of it, with huge pages. So
 * the cold pages from `after` to the end of the piece that the cut ends in come along, into the books too;
 * or, where they have no room, the piece gets small pages. How many come. `at` is where the cut begins.
 */
static size_t rest_of_piece(page_index at, page_index after, size_t free, struct pagerun_growth growth,
                            size_t cold_here) {
    size_t rest = (CHUNK_PAGES - (after - 1) % CHUNK_PAGES) % CHUNK_PAGES;
    page_index piece = after - 1 - (after - 2) % CHUNK_PAGES;
    if (rest > free)
        rest = free;
    if (rest == 0 || count_cold(after, rest) != rest)
        return 0; /* something of it is resident: a huge page does not fit any more */
    uint64_t bytes = (uint64_t)(rest + cold_here) << PAGE_SHIFT;
    if (growth.step >= OS_HUGE_PAGE && bytes <= growth.room) {
        if (at <= piece && count_cold(piece, CHUNK_PAGES) == CHUNK_PAGES)
            advise_piece(piece, true);
        if (os_mem_populate(heap_address(after), rest << PAGE_SHIFT) == 0)
            return rest;
    }
    advise_piece(piece, false);
    return 0;
}

static uint64_t release_both(uint64_t bytes, bool small_too);

/* Returns free memory for `bytes` that are to come from the kernel. false: there is not enough, and the limit
 * is a hard one. */
static bool make_room(uint64_t bytes, struct pagerun_growth *growth) {
    if (bytes > growth->room)
        growth->room += release_both(bytes - growth->room, true);
    return bytes <= growth->room || !growth->hard;
}

/* Lists pages again that could not be populated. What came of it goes back, or else nobody knew of it. */
static void give_up(page_index first, size_t pages, size_t cold) {
    if (os_mem_release(heap_address(first), pages << PAGE_SHIFT) == 0) {
        atomic_fetch_sub_explicit(&runs.free_warm, pages - cold, memory_order_relaxed);
        atomic_fetch_add_explicit(&runs.returned, (uint64_t)(pages - cold) << PAGE_SHIFT,
                                  memory_order_relaxed);
        set_cold(first, pages, true);
        cold = pages;
    }
    insert_merged(first, pages, cold);
}

/*
 * Cuts `pages` from a listed run. What of them is cold becomes resident here when it is little, and free
 * memory elsewhere is returned for it when it has no room.
 */
static struct pagerun cut(struct place place, size_t pages, struct pagerun_growth growth) {
    const struct page *head = heap_page(place.run);
    size_t whole = head->run.pages, cold = head->run.cold, before = place.at - place.run;
    page_index first = place.at, after = first + (page_index)pages;
    size_t rest = whole - before - pages;
    size_t cold_here = cold == 0 ? 0 : cold == whole ? pages : count_cold(first, pages);
    size_t cold_before = cold == 0 ? 0 : cold == whole ? before : count_cold(place.run, before);
    unlink_run(place.run);
    if (pages >= ROW_PAGES || place.run == runs.next)
        runs.next = rest > 0 ? after : 0;
    if (pages >= ROW_PAGES)
        runs.next_pages = pages;
    if (before > 0)
        insert(place.run, before, cold_before);
    if (rest > 0)
        insert(after, rest, cold - cold_here - cold_before);
    if (!make_room((uint64_t)cold_here << PAGE_SHIFT, &growth)) {
        insert_merged(first, pages, cold_here);
        return (struct pagerun){0};
    }
    if (cold_here != 0 && runs.huge_pages) {
        size_t along = rest_of_piece(first, after, rest, growth, cold_here);
        if (along > 0) {
            size_t cold_now = heap_page(after)->run.cold; /* some may just have been returned */
            unlink_run(after);
            set_cold(after, along, false);
            atomic_fetch_add_explicit(&runs.free_warm, along, memory_order_relaxed);
            insert(after, rest, cold_now - along);
        }
    }
    struct pagerun out = {first, cold_here == 0, cold_here == pages};
    if (cold_here != 0 && pages <= PAGERUN_POPULATE_PAGES) {
        if (os_mem_populate(heap_address(first), pages << PAGE_SHIFT) != 0) {
            give_up(first, pages, cold_here);
            return (struct pagerun){0};
        }
        set_cold(first, pages, false);
        out.populated = true;
    }
    atomic_fetch_add_explicit(&runs.used, pages, memory_order_relaxed);
    atomic_fetch_sub_explicit(&runs.free_warm, pages - cold_here, memory_order_relaxed);
    return out;
}

/* Adds pages at the end of the heap: resident ones, or cold ones when a long run is wanted. */
static bool grow(size_t wanted, struct pagerun_growth growth) {
    size_t used_chunk = (runs.end - 1) % CHUNK_PAGES;
    size_t chunk_rest = CHUNK_PAGES - used_chunk;
    size_t step = wanted <= chunk_rest ? chunk_rest : chunk_rest + align_up(wanted - chunk_rest, CHUNK_PAGES);
    bool populate = wanted <= CHUNK_PAGES;
    bool pressed = (step << PAGE_SHIFT) > growth.room;
    if (populate && (pressed || growth.step < OS_HUGE_PAGE)) {
        size_t least = pressed ? SMALL_STEP_PAGES : (size_t)(growth.step >> PAGE_SHIFT);
        step = align_up(wanted > least ? wanted : least, SMALL_STEP_PAGES);
        if (step > chunk_rest && wanted <= chunk_rest)
            step = chunk_rest;
        /* A huge page would make all 2 MiB resident at the first touch. */
        if (runs.huge_pages) {
            advise_piece(runs.end - (page_index)used_chunk, false);
            if (step > chunk_rest)
                advise_piece(runs.end + (page_index)chunk_rest, false);
        }
    } else if (runs.huge_pages && used_chunk == 0) {
        os_mem_advise_huge(heap_address(runs.end), step << PAGE_SHIFT, true);
    }
    size_t bytes = step << PAGE_SHIFT;
    size_t at = (size_t)runs.end << PAGE_SHIFT;
    if (at + bytes > heap.reserved)
        return false;
    if (os_mem_commit(heap_address(runs.end), bytes) != 0 || heap_grow_records(at + bytes) != 0)
        return false;
    page_index first = runs.end;
    if (populate && os_mem_populate(heap_address(first), bytes) != 0) {
        populate = false;
        os_mem_release(heap_address(first), bytes); /* what came of it is not in the books */
    }
    runs.end += (page_index)step;
    if (!populate)
        set_cold(first, step, true);
    else
        atomic_fetch_add_explicit(&runs.free_warm, step, memory_order_relaxed);
    insert_merged(first, step, populate ? 0 : step);
    return true;
}

/* Returns the resident pages of one piece of a listed run; the run is listed anew. */
static uint64_t release_piece(page_index run, page_index first, size_t pages) {
    size_t cold = count_cold(first, pages);
    if (cold == pages || os_mem_release(heap_address(first), pages << PAGE_SHIFT) != 0)
        return 0;
    size_t whole = heap_page(run)->run.pages, cold_before = heap_page(run)->run.cold;
    unlink_run(run);
    set_cold(first, pages, true);
    insert(run, whole, cold_before + pages - cold);
    atomic_fetch_sub_explicit(&runs.free_warm, pages - cold, memory_order_relaxed);
    uint64_t bytes = (uint64_t)(pages - cold) << PAGE_SHIFT;
    atomic_fetch_add_explicit(&runs.returned, bytes, memory_order_relaxed);
    return bytes;
}

/* Returns about `bytes` of the run's resident pages, in small steps and no more than is needed: what stays is
 * warm.
 */
static uint64_t release_some(page_index run, uint64_t bytes) {
    size_t pages = heap_page(run)->run.pages, warm = pages - heap_page(run)->run.cold;
    size_t need = align_up((size_t)(bytes >> PAGE_SHIFT) + (bytes % PAGE_BYTES != 0), SMALL_STEP_PAGES);
    page_index from = run, end = run + (page_index)pages;
    if (need >= warm)
        return release_piece(run, run, pages);
    while (is_cold(from))
        from++;
    page_index to = from;
    for (size_t found = 0; found < need && to < end; to++)
        found += !is_cold(to);
    return release_piece(run, from, to - from);
}

/* Longest runs first. A released run moves to a cold list of its bin, so each list is walked by remembering
 * next. */
static uint64_t release(uint64_t bytes, bool whole_chunks) {
    uint64_t done = 0;
    for (int cold = 0; cold < 2; cold++)
        for (int bin = BINS - 1; bin >= 0 && done < bytes; bin--) {
            page_index next;
            for (page_index i = runs.bins[cold][bin]; i != 0 && done < bytes; i = next) {
                next = heap_page(i)->next;
                size_t pages = heap_page(i)->run.pages;
                page_index from = (page_index)align_up(i - 1, CHUNK_PAGES) + 1;
                page_index to = (page_index)align_down(i + (page_index)pages - 1, CHUNK_PAGES) + 1;
                if (heap_page(i)->run.cold == pages)
                    continue;
                if (!whole_chunks)
                    done += release_some(i, bytes - done);
                for (; whole_chunks && from < to && done < bytes; from += CHUNK_PAGES)
                    done += release_piece(i, from, CHUNK_PAGES);
            }
        }
    return done;
}

static uint64_t release_both(uint64_t bytes, bool small_too) {
    uint64_t done = release(bytes, true);
    if (done < bytes && small_too)
        done += release(bytes - done, false);
    return done;
}

struct pagerun pagerun_take(size_t pages, struct pagerun_growth growth) {
    struct pagerun out = {0};
    os_lock_acquire(&runs.lock);
    struct place place = find_place(pages);
    if (place.run == 0 && make_room((uint64_t)pages << PAGE_SHIFT, &growth) && grow(pages, growth))
        place = find_place(pages);
    if (place.run != 0)
        out = cut(place, pages, growth);
    os_lock_release(&runs.lock);
    if (out.first == 0)
        errno = ENOMEM;
    return out;
}

bool pagerun_has_resident(size_t pages) {
    os_lock_acquire(&runs.lock);
    bool has = find(false, pages) != 0 || find_warm_inside(pages).run != 0;
    os_lock_release(&runs.lock);
    return has;
}

/* The records of a run that comes back, as those of free pages. */
static void clear_records(page_index first, size_t pages) {
    for (page_index i = first; i < first + pages; i++) {
        struct page *page = heap_page(i);
        atomic_store_explicit(&page->slot_count, 0, memory_order_relaxed);
        set_use(i, PAGE_NONE);
    }
}

static void take_back(page_index first, size_t pages, size_t cold) {
    atomic_fetch_sub_explicit(&runs.used, pages, memory_order_relaxed);
    atomic_fetch_add_explicit(&runs.free_warm, pages - cold, memory_order_relaxed);
    insert_merged(first, pages, cold);
}

void pagerun_give(page_index first, size_t pages) {
    os_lock_acquire(&runs.lock);
    /* A large object was populated by whoever made it; any other pages are as the map says. */
    if (atomic_load_explicit(&heap_page(first)->use, memory_order_relaxed) == PAGE_LARGE)
        set_cold(first, pages, false);
    clear_records(first, pages);
    take_back(first, pages, count_cold(first, pages));
    os_lock_release(&runs.lock);
}

void pagerun_give_unpopulated(page_index first, size_t pages) {
    os_lock_acquire(&runs.lock);
    clear_records(first, pages);
    size_t cold = count_cold(first, pages);
    if (os_mem_release(heap_address(first), pages << PAGE_SHIFT) == 0) {
        atomic_fetch_add_explicit(&runs.returned, (uint64_t)(pages - cold) << PAGE_SHIFT,
                                  memory_order_relaxed);
        set_cold(first, pages, true);
        cold = pages;
    }
    take_back(first, pages, cold);
    os_lock_release(&runs.lock);
}

uint64_t pagerun_release(uint64_t bytes, bool small_too) {
    os_lock_acquire(&runs.lock);
    uint64_t done = release_both(bytes, small_too);
    os_lock_release(&runs.lock);
    return done;
}

uint64_t pagerun_used_bytes(void) {
    return (uint64_t)atomic_load_explicit(&runs.used, memory_order_relaxed) << PAGE_SHIFT;
}

uint64_t pagerun_free_bytes(void) {
    return (uint64_t)atomic_load_explicit(&runs.free_warm, memory_order_relaxed) << PAGE_SHIFT;
}

uint64_t pagerun_returned_bytes(void) {
    return atomic_load_explicit(&runs.returned, memory_order_relaxed);
}

static bool is_listed(page_index first) {
    page_index i = runs.bins[heap_page(first)->run.cold != 0][bin_of(heap_page(first)->run.pages)];
    while (i != 0 && i != first)
        i = heap_page(i)->next;
    return i == first;
}

void pagerun_check(void) {
    os_lock_acquire(&runs.lock);
    size_t warm = 0, used = 0;
    bool free_before = false;
    for (page_index i = 1; i < runs.end;) {
        struct page *page = heap_page(i);
        size_t pages;
        bool free = false;
        switch (atomic_load_explicit(&page->use, memory_order_relaxed)) {
        case PAGE_FREE:
            pages = page->run.pages;
            gc_check(heap_page(i + (page_index)pages - 1)->run.pages == pages, "a free run's ends differ");
            gc_check(!free_before, "two free runs were not merged");
            gc_check(count_cold(i, pages) == page->run.cold, "a free run's cold pages are miscounted");
            warm += pages - page->run.cold;
            free = true;
            break;
        case PAGE_SMALL:
            pages = sizeclass_table[page->size_class].pages;
            used += pages;
            break;
        case PAGE_LARGE:
            pages = page->large.pages;
            used += pages;
            break;
        default:
            pages = 1; /* taken, not made into anything yet */
            used += 1;
        }
        free_before = free;
        i += (page_index)pages;
    }
    gc_check(runs.next == 0 || is_listed(runs.next), "the row goes on where no free run begins");
    gc_check(warm == atomic_load_explicit(&runs.free_warm, memory_order_relaxed),
             "free pages are miscounted");
    gc_check(used == atomic_load_explicit(&runs.used, memory_order_relaxed), "used pages are miscounted");
    os_lock_release(&runs.lock);
}
