/* A program and its heap as a fluid, with a clock of its own, for test_pacer_sim.c: bytes are allocated at a
 * rate, some stay live, marking scans at another rate, and the pacer's and the assists' functions say when
 * and how much. No thread, no real clock: the same seed gives the same run on every machine.
 *
 * Processors are shared as in the collector: background workers take what their plan says, mutators run on
 * the rest, idle workers on what is left. What workers scan is credit; an allocation takes from it what the
 * assist ratio asks, and a mutator without credit scans itself.
 *
 * The program's progress is counted in turns: bytes it has allocated, over its base live bytes. A trace is a
 * function of that, so that a slow collector does not change what the program does.
 */
#ifndef TERN_TESTS_PACER_SIM_H
#define TERN_TESTS_PACER_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "gc/assist.h"
#include "gc/pacer.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* What a trace may change as the program goes on. */
struct sim_now {
    double live;       /* bytes the program wants to hold on to */
    double alloc_rate; /* bytes per mutator CPU-ns */
    double scan_share; /* of what it allocates, that may hold pointers */
    int gc_percent;
    bool idle_workers; /* on processors that mutators leave */
};

struct sim_program {
    int procs, mutators; /* fewer mutators than processors leave some idle */
    int gc_percent;
    uint64_t limit_goal; /* UINT64_MAX: no limit */
    double live;         /* base */
    double scan_share;   /* base */
    double stack, globals;
    double alloc_rate; /* base, bytes per mutator CPU-ns */
    double mark_rate;  /* bytes scanned per CPU-ns */
    double noise;      /* both rates vary by up to this share, from cycle to cycle and within one */
    bool idle_workers; /* base */
    /* Share of the processors that workers really get, 0: what the plan says. */
    double background_really;
    bool tell_background; /* pacer_end_cycle is told that share, else it presumes PACER_UTILISATION */
    double one_stop_ns;   /* a marking that is expected to take so little is done in one stop */
    void (*trace)(double turns, struct sim_now *now); /* NULL: all stays at the base */
};

/* What one cycle was. */
struct sim_cycle {
    uint64_t live, goal, trigger, start, peak;
    uint64_t hard; /* the hard goal: what no growth moves the goal beyond */
    enum pacer_by by;
    bool one_stop;
    double turns;       /* at its start */
    double place;       /* of the trigger, on the way from live (0) to goal (1) */
    double utilisation; /* of workers and assists, in marking; without idle workers */
    double assist;      /* the assists' part of it */
};

struct sim {
    const struct sim_program *program;
    struct pacer pacer;
    struct sim_now now;
    double heap, live, allocated;
    double heap_scan, live_scan; /* the parts of heap and live that may hold pointers */
    uint64_t heap_live;          /* marked by the last cycle */
    uint64_t stack_bytes, global_bytes;
    uint64_t seed;
};

/* 0 .. 1; xorshift64* (Vigna), good enough for noise. */
static inline double sim_random(struct sim *s) {
    s->seed ^= s->seed >> 12;
    s->seed ^= s->seed << 25;
    s->seed ^= s->seed >> 27;
    return (double)(s->seed * UINT64_C(0x2545F4914F6CDD1D) >> 11) * 0x1p-53;
}
static inline double sim_noise(struct sim *s) {
    return 1 + s->program->noise * (2 * sim_random(s) - 1);
}
static inline double sim_min(double a, double b) {
    return a < b ? a : b;
}

static inline void sim_init(struct sim *s, const struct sim_program *program, uint64_t seed) {
    *s = (struct sim){.program = program, .seed = seed};
}

/* The program allocates so many bytes: its trace goes on, and its live bytes follow as fast as allocation
 * lets them. */
static inline void sim_allocate(struct sim *s, double bytes) {
    const struct sim_program *program = s->program;
    s->heap += bytes;
    s->allocated += bytes;
    s->now = (struct sim_now){program->live, program->alloc_rate, program->scan_share, program->gc_percent,
                              program->idle_workers};
    if (program->trace) {
        program->trace(s->allocated / program->live, &s->now);
    }
    s->heap_scan += bytes * s->now.scan_share;
    s->live = sim_min(s->now.live, s->live + bytes);
    s->live_scan = sim_min(s->live * s->now.scan_share, s->live_scan + bytes * s->now.scan_share);
}

static inline struct pacer_out sim_decide(const struct sim *s, bool *one_stop) {
    uint64_t expected = pacer_scan_expected(&s->pacer);
    struct pacer_in in = {
        .live_bytes = s->heap_live,
        .stack_bytes = s->stack_bytes,
        .global_bytes = s->global_bytes,
        .gc_percent = s->now.gc_percent,
        .memory_limit_goal = s->program->limit_goal,
        .runway_bytes = pacer_runway(&s->pacer, expected),
        .one_stop = (double)expected / s->program->mark_rate / s->program->procs < s->program->one_stop_ns,
    };
    *one_stop = in.one_stop;
    return pacer_decide(&in);
}

/* A marking takes at least so many steps of the clock; at a quarter of the processors, four times as many. */
#define SIM_STEPS 64

/* The size of the pieces in which threads take memory: a cycle starts up to so much late. */
#define SIM_PIECE (32 * KIB)

/* Marking, from heap bytes at the start to the end; fills in what c knows of it. */
static inline void sim_mark(struct sim *s, struct sim_cycle *c, uint64_t expected, double work) {
    const struct sim_program *program = s->program;
    struct worker_plan plan = pacer_workers(program->procs);
    double background = plan.dedicated + plan.fractional * program->procs; /* processors */
    background = program->background_really > 0 ? program->background_really * program->procs : background;
    double mark_rate = program->mark_rate * sim_noise(s), cycle_noise = sim_noise(s);
    double scan_max = s->heap_scan + program->stack + program->globals;
    double step = work / (program->mark_rate * program->procs) / SIM_STEPS; /* ns */
    double done = 0, credit = 0, time = 0, background_ns = 0, assist_ns = 0, idle_ns = 0;
    /* Bounded, so that a pacer under which marking never ends fails a test instead of hanging it. */
    for (int i = 0; done < work && i < 1000 * SIM_STEPS; i++) {
        struct assist_in in = {
            .heap_bytes = (uint64_t)s->heap,
            .trigger_bytes = c->start,
            .goal = c->goal,
            .limit_goal = program->limit_goal,
            .gc_percent = s->now.gc_percent,
            .scan_expected = expected,
            .scan_done = (uint64_t)done,
            .scan_max = (uint64_t)scan_max,
        };
        struct assist_ratio ratio = assist_ratio(&in);
        double rate = s->now.alloc_rate * cycle_noise * sim_noise(s);
        double worker_cpu = background * step;
        double mutator_cpu = sim_min(program->mutators, program->procs - background) * step;
        double idle_cpu = s->now.idle_workers ? program->procs * step - worker_cpu - mutator_cpu : 0;
        double scanned = (worker_cpu + idle_cpu) * mark_rate;
        credit += scanned;
        /* All of it to allocation if credit pays for that; else allocation and its own scanning share it. */
        double bytes = mutator_cpu * rate, assist_cpu = 0;
        if (bytes * ratio.work_per_byte > credit) {
            bytes = (mutator_cpu + credit / mark_rate) / (1 / rate + ratio.work_per_byte / mark_rate);
            assist_cpu = mutator_cpu - bytes / rate;
            scanned += assist_cpu * mark_rate;
            credit = 0;
        } else {
            credit -= bytes * ratio.work_per_byte;
        }
        /* The last step ends when the work does. */
        double part = scanned > work - done ? (work - done) / scanned : 1;
        done = part < 1 ? work : done + scanned;
        time += step * part;
        background_ns += worker_cpu * part;
        assist_ns += assist_cpu * part;
        idle_ns += idle_cpu * part;
        sim_allocate(s, bytes * part);
    }
    c->peak = (uint64_t)s->heap;
    double all = program->procs * time;
    c->utilisation = (background_ns + assist_ns) / all;
    c->assist = assist_ns / all;
    struct pacer_cycle cycle = {
        .trigger_bytes = c->start,
        .end_bytes = c->peak,
        .heap_scan_bytes = (uint64_t)(work - program->stack - program->globals),
        .stack_scan_bytes = (uint64_t)program->stack,
        .global_scan_bytes = (uint64_t)program->globals,
        .mark_ns = (int64_t)time,
        .procs = program->procs,
        .background_utilisation = program->tell_background ? background_ns / all : 0,
        .assist_ns = (int64_t)assist_ns,
        .idle_ns = (int64_t)idle_ns,
    };
    pacer_end_cycle(&s->pacer, &cycle);
}

/* Runs until the next cycle is over, and says what it was. */
static inline struct sim_cycle sim_run_cycle(struct sim *s) {
    const struct sim_program *program = s->program;
    struct sim_cycle c = {0};
    sim_allocate(s, 0);
    struct pacer_out out = sim_decide(s, &c.one_stop);
    /* In a hundred steps, as the trace may change the ratio on the way. */
    while (s->heap < (double)out.trigger) {
        sim_allocate(s, sim_min((double)out.trigger - s->heap, (double)out.trigger / 100 + 1));
        out = sim_decide(s, &c.one_stop);
    }
    sim_allocate(s, sim_random(s) * (double)SIM_PIECE);
    c.live = s->heap_live;
    c.goal = out.goal;
    c.trigger = out.trigger;
    c.by = out.by;
    c.start = (uint64_t)s->heap;
    c.turns = s->allocated / program->live;
    c.place = c.goal > c.live ? (double)(c.trigger - c.live) / (double)(c.goal - c.live) : 1;
    int percent = s->now.gc_percent < 0 ? ASSIST_PERCENT_OFF : s->now.gc_percent;
    c.hard = pacer_to_bytes((double)c.goal * (1 + percent / 100.0));
    if (c.hard > program->limit_goal) {
        c.hard = c.goal > program->limit_goal ? c.goal : program->limit_goal;
    }
    /* What is live now, and what is allocated until the end, stays; scanned is only the former. */
    uint64_t expected = pacer_scan_expected(&s->pacer);
    double live = s->live, live_scan = s->live_scan, heap_scan = s->heap_scan;
    double work = live_scan + program->stack + program->globals;
    if (c.one_stop) {
        struct pacer_cycle cycle = {
            .trigger_bytes = c.start,
            .end_bytes = c.start,
            .heap_scan_bytes = (uint64_t)live_scan,
            .stack_scan_bytes = (uint64_t)program->stack,
            .global_scan_bytes = (uint64_t)program->globals,
            .procs = program->procs,
        };
        c.peak = c.start;
        pacer_end_cycle(&s->pacer, &cycle);
    } else {
        sim_mark(s, &c, expected, work);
    }
    s->heap = live + (double)(c.peak - c.start);
    s->heap_scan = live_scan + s->heap_scan - heap_scan;
    s->live = sim_min(s->live, s->heap);
    s->live_scan = sim_min(s->live_scan, s->heap_scan);
    s->heap_live = (uint64_t)s->heap;
    s->stack_bytes = (uint64_t)program->stack;
    s->global_bytes = (uint64_t)program->globals;
    return c;
}

#endif
