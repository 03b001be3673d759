/* The trace line: gc/trace_format.h says what it does, owns and never does. Calls nobody. */
#include "gc/trace_format.h"

/* Writes into a buffer that may be too small: it counts on past the end, so that the caller can tell. */
struct writer {
    char *buf;
    size_t cap;
    size_t len;
};

static void put_char(struct writer *w, char c) {
    if (w->len < w->cap) {
        w->buf[w->len] = c;
    }
    w->len++;
}

static void put_text(struct writer *w, const char *text) {
    for (; *text != '\0'; text++) {
        put_char(w, *text);
    }
}

/* value / 10^decimals, with exactly that many digits behind the point and at least one before it. Go's
 * itoaDiv. */
static void put_scaled(struct writer *w, uint64_t value, unsigned decimals) {
    char digits[24]; /* 20 for the largest value, the point, and room for leading zeros */
    unsigned count = 0;
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
        if (count == decimals) {
            digits[count++] = '.';
        }
    } while (value != 0 || (decimals != 0 && count <= decimals + 1));
    while (count > 0) {
        put_char(w, digits[--count]);
    }
}

static void put_number(struct writer *w, uint64_t value) {
    put_scaled(w, value, 0);
}

static uint64_t not_negative(int64_t value) {
    return value < 0 ? 0 : (uint64_t)value;
}

/* Nanoseconds as milliseconds: whole ones from 10 ms on, else two significant digits and at most three
 * decimals; below a microsecond a bare 0. All cut off, none rounded. Go's fmtNSAsMS. */
static void put_ms(struct writer *w, int64_t signed_ns) {
    uint64_t ns = not_negative(signed_ns);
    if (ns >= 10 * 1000 * 1000) {
        put_number(w, ns / (1000 * 1000));
        return;
    }
    uint64_t value = ns / 1000;
    if (value == 0) {
        put_char(w, '0');
        return;
    }
    unsigned decimals = 3;
    while (value >= 100) {
        value /= 10;
        decimals--;
    }
    put_scaled(w, value, decimals);
}

/* Whole MiB, which Go calls MB. */
static void put_mb(struct writer *w, uint64_t bytes) {
    put_number(w, bytes >> 20);
}

size_t trace_format_gc(char *buf, size_t cap, const struct trace_cycle *c) {
    struct writer w = {.buf = buf, .cap = cap};
    put_text(&w, "gc ");
    put_number(&w, c->number);
    put_text(&w, " @");
    put_scaled(&w, not_negative(c->start_ns) / (1000 * 1000), 3);
    put_text(&w, "s ");
    put_number(&w, not_negative(c->gc_percent_cpu));
    put_text(&w, "%: ");

    put_ms(&w, c->sweep_term_clock_ns);
    put_char(&w, '+');
    put_ms(&w, c->mark_clock_ns);
    put_char(&w, '+');
    put_ms(&w, c->mark_term_clock_ns);
    put_text(&w, " ms clock, ");

    put_ms(&w, c->sweep_term_cpu_ns);
    put_char(&w, '+');
    put_ms(&w, c->assist_cpu_ns);
    put_char(&w, '/');
    put_ms(&w, c->dedicated_cpu_ns);
    put_char(&w, '/');
    put_ms(&w, c->idle_cpu_ns);
    put_char(&w, '+');
    put_ms(&w, c->mark_term_cpu_ns);
    put_text(&w, " ms cpu, ");

    put_mb(&w, c->heap_start_bytes);
    put_text(&w, "->");
    put_mb(&w, c->heap_end_bytes);
    put_text(&w, "->");
    put_mb(&w, c->heap_live_bytes);
    put_text(&w, " MB, ");
    put_mb(&w, c->goal_bytes);
    put_text(&w, " MB goal, ");
    put_mb(&w, c->stack_bytes);
    put_text(&w, " MB stacks, ");
    put_mb(&w, c->global_bytes);
    put_text(&w, " MB globals, ");
    put_number(&w, not_negative(c->procs));
    put_text(&w, " P");
    if (c->forced) {
        put_text(&w, " (forced)");
    }
    put_char(&w, '\n');

    if (w.len >= cap) {
        if (cap > 0) {
            buf[0] = '\0';
        }
        return 0;
    }
    buf[w.len] = '\0';
    return w.len;
}
