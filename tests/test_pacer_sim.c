/* The pacer and the assists over hundreds of cycles of simulated programs (tests/pacer_sim.h): what they are
 * to achieve, as statements. ctest: timeout=120
 *
 * Each claim was seen to fail, with one of these put into gc/pacer.c or gc/assist.c (in brackets the claims):
 * - the runway is always 0, or lacks (1 - u) / u (assists few, presuming a quarter, in time, not sooner,
 *   trigger has come down, as early as they may); is doubled or endless (wasted room, nor later, nothing is
 *   known, taken by surprise); assists' time, idle time or the told share is left out of cons/mark (assists
 *   few, help from idle workers, told so)
 * - the window holds only the last cycle (not sooner), or never forgets (nor later); cons/mark flutters by
 *   parity (the trigger stays)
 * - bounds of 50 % or 99 % (70 % and 95 %); the trigger a fifth past the goal (at most the goal, 99 % of the
 *   cycles); one_stop ignored (one stop starts at its goal)
 * - the goal ignores the limit, live, the least goal or the ratio (hard goal and overshoot, at least live,
 *   the least, the new one); always by the ratio (the limit set the goal)
 * - assists cost nothing (holds its goal, the limit holds, 99 % of these, assists do the rest), half (the
 *   hard goal), twice (assists few); growth does not move the goal (it is what holds, assists few), or
 *   without a hard goal, or past the limit's (hard goal and overshoot); overshoot of 50 % (the same)
 * - workers rounded always, never, or one more (marking takes a quarter)
 * The claims that a marking is or is not done in one stop are about the simulated program itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "pacer_sim.h"

#define SEED UINT64_C(20240607)
/* Cycles until a simulated program has its base live bytes and PACER_WINDOW cycles of them behind it. */
#define SETTLED 24
#define CYCLES  300

static struct sim_cycle run[CYCLES];

/* A middling program: 8 busy processors, 256 MiB live, most of it with pointers, 40 MB/s a processor against
 * marking at 1 GB/s; at a ratio of 100 its runway is some 8 % of the way. */
static const struct sim_program middling = {
    .procs = 8,
    .mutators = 8,
    .gc_percent = 100,
    .limit_goal = UINT64_MAX,
    .live = 256.0 * 1048576,
    .scan_share = 0.7,
    .stack = 1e6,
    .globals = 1e6,
    .alloc_rate = 0.04,
    .mark_rate = 1,
    .noise = 0.05,
};

static void simulate(const struct sim_program *program, int cycles) {
    struct sim s;
    sim_init(&s, program, SEED);
    for (int i = 0; i < cycles; i++) {
        run[i] = sim_run_cycle(&s);
    }
}

/* Fails the test with the program and cycle at hand, unless holds. */
static void claim(bool holds, const char *what, const struct sim_program *p, int i) {
    if (!holds) {
        const struct sim_cycle *c = &run[i];
        print_error("%s: seed %llu, %d processors, ratio %d, limit goal %llu, live %.0f, rate %g\n", what,
                    (unsigned long long)SEED, p->procs, p->gc_percent, (unsigned long long)p->limit_goal,
                    p->live, p->alloc_rate);
        print_error("cycle %d: live %llu, goal %llu, trigger %llu (%.3f of the way), start %llu, peak %llu "
                    "(%.3f of the goal), marking took %.3f of the CPU, assists %.3f of it\n",
                    i, (unsigned long long)c->live, (unsigned long long)c->goal,
                    (unsigned long long)c->trigger, c->place, (unsigned long long)c->start,
                    (unsigned long long)c->peak, (double)c->peak / (double)c->goal, c->utilisation,
                    c->assist);
        fail();
    }
}

static double peak_of_goal(int i) {
    return (double)run[i].peak / (double)run[i].goal;
}

/* What holds for every cycle of every program. */
static void claim_bounds(const struct sim_program *p, int from, int to) {
    for (int i = from; i < to; i++) {
        const struct sim_cycle *c = &run[i];
        claim(c->trigger <= c->goal, "the trigger is at most the goal", p, i);
        claim(c->goal >= c->live, "the goal is at least what is live", p, i);
        if (c->one_stop) {
            claim(c->trigger == c->goal, "a cycle of one stop starts at its goal", p, i);
        } else if (c->goal > c->live + KIB) { /* else the way is too short for percents */
            claim(c->place > 0.6999 && c->place < 0.9501, "cycles start between 70 % and 95 % of the way", p,
                  i);
        }
        /* Past the hard goal only for what had been allocated when it became the goal, and for the step of
         * the simulated clock: far less than the overshoot that is allowed for. */
        claim((double)c->peak <= 1.105 * (double)c->hard + (double)ASSIST_RUNWAY_LEAST_BYTES,
              "the hard goal and its overshoot hold", p, i);
        if (p->limit_goal == UINT64_MAX) {
            claim((double)c->peak <= 1.005 * (double)c->hard + (double)ASSIST_RUNWAY_LEAST_BYTES,
                  "the hard goal holds", p, i);
        }
    }
}

/* What holds once nothing changes any more and there is room for the runway. */
static void claim_steady(const struct sim_program *p, int from, int to) {
    int over = 0;
    double least = 1, most = 0, utilisation = 0, assist = 0, peak = 0, n = to - from;
    for (int i = from; i < to; i++) {
        over += peak_of_goal(i) > 1.1;
        least = sim_min(least, run[i].place);
        most = run[i].place > most ? run[i].place : most;
        utilisation += run[i].utilisation / n;
        assist += run[i].assist / n;
        peak += peak_of_goal(i) / n;
    }
    claim(over <= (to - from) / 100, "99 % of the cycles end at 1.1 of the goal or before", p, to - 1);
    claim(peak > 0.96 && peak < 1.01, "cycles end about the goal: neither wasted room nor overshoot", p,
          to - 1);
    claim(most - least < 0.05, "the trigger stays within 5 % of the way", p, to - 1);
    claim(assist < 0.01, "assists take less than 1 % of the CPU in marking", p, to - 1);
    /* Of 5 and 7 processors, whole workers come near enough to a quarter. */
    double quarter = p->procs == 5 ? 1.0 / 5 : p->procs == 7 ? 2.0 / 7 : 0.25;
    claim(utilisation > quarter - 0.001 && utilisation < quarter + 0.02,
          "marking takes a quarter of the processors", p, to - 1);
}

/* The allocation rate that makes the runway this share of the way, or nearly. */
static void set_runway(struct sim_program *p, double share) {
    double scan = p->live * p->scan_share + p->stack + p->globals;
    double limit = (double)p->limit_goal - p->live;
    double way =
        p->gc_percent < 0 ? limit : sim_min(limit, (p->live + p->stack + p->globals) * p->gc_percent / 100);
    double u = PACER_UTILISATION;
    p->alloc_rate = share * way / scan * u / (1 - u) * p->mark_rate;
}

static const int ratios[] = {400, 100, 50};
static const int processors[] = {1, 2, 3, 4, 5, 6, 7, 8, 16, 64};
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static void a_steady_program_ends_its_cycles_at_the_goal_without_assists(void **state) {
    (void)state;
    static const double lives[] = {64.0 * 1048576, 256.0 * 1048576, 4096.0 * 1048576};
    static const double runways[] = {0.22, 0.15, 0.08};
    for (int i = 0; i < COUNT(ratios) * COUNT(processors) * COUNT(lives) * COUNT(runways); i++) {
        struct sim_program p = middling;
        int k = i;
        p.gc_percent = ratios[k % COUNT(ratios)];
        k /= COUNT(ratios);
        p.procs = p.mutators = processors[k % COUNT(processors)];
        k /= COUNT(processors);
        p.live = lives[k % COUNT(lives)];
        set_runway(&p, runways[k / COUNT(lives)]);
        simulate(&p, SETTLED + 100);
        claim_steady(&p, SETTLED, SETTLED + 100);
        claim_bounds(&p, 0, SETTLED + 100);
    }
}

static void so_does_one_that_a_limit_holds(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(ratios) * COUNT(processors); i++) {
        struct sim_program p = middling;
        p.gc_percent = i % 2 ? ratios[i % COUNT(ratios)] : -1;
        p.procs = p.mutators = processors[i / COUNT(ratios)];
        p.limit_goal = (uint64_t)(1.4 * p.live);
        set_runway(&p, 0.15);
        simulate(&p, SETTLED + 100);
        for (int c = SETTLED; c < SETTLED + 100; c++) {
            claim(run[c].by == PACER_BY_LIMIT, "the limit set the goal", &p, c);
            /* The limit's goal keeps 3 % of headroom (gc/limit.h). */
            claim(peak_of_goal(c) < 1.03, "the limit holds", &p, c);
        }
        claim_steady(&p, SETTLED, SETTLED + 100);
        claim_bounds(&p, 0, SETTLED + 100);
    }
}

/* Traces. Turns 40 and 60 are where things change; both are well after SETTLED cycles at a ratio of 100. */

static void four_times_the_rate(double turns, struct sim_now *now) {
    now->alloc_rate *= turns < 40 ? 1 : 4;
}
static void a_quarter_of_the_rate(double turns, struct sim_now *now) {
    now->alloc_rate *= turns < 40 ? 1 : 0.25;
}
static void a_spike_of_the_rate(double turns, struct sim_now *now) {
    now->alloc_rate *= turns >= 40 && turns < 43 ? 8 : 1;
}
/* From the base to ten times the rate in 80 turns. */
static void a_ramp_of_the_rate(double turns, struct sim_now *now) {
    now->alloc_rate *= turns < 40 ? 1 : turns < 120 ? 1 + 9 * (turns - 40) / 80 : 10;
}
/* Live bytes rise to four times the base in 20 turns, and fall at once. */
static void a_sawtooth_of_live(double turns, struct sim_now *now) {
    now->live *= 1 + 3 * (turns / 20 - (double)(int64_t)(turns / 20));
}
/* A wobble by a fifth, out of step with the cycles. */
static void a_wobble_of_live(double turns, struct sim_now *now) {
    double phase = turns * 0.73 - (double)(int64_t)(turns * 0.73);
    now->live *= phase < 0.5 ? 1 : 1.2;
}
/* Nothing that is allocated dies, up to a TiB. */
static void all_live(double turns, struct sim_now *now) {
    (void)turns;
    now->live = 1024 * (double)GIB;
}
/* A heap of strings, which then becomes one of pointers. */
static void leaves_then_pointers(double turns, struct sim_now *now) {
    now->scan_share = turns < 40 ? 0.004 : 1;
}
static void a_smaller_ratio(double turns, struct sim_now *now) {
    now->gc_percent = turns < 40 ? 100 : 50;
}
static void idle_workers_until_40(double turns, struct sim_now *now) {
    now->idle_workers = turns < 40;
}

/* The first cycle that starts at or after so many turns. */
static int cycle_at(double turns) {
    int i = 0;
    while (run[i].turns < turns) {
        i++;
    }
    return i;
}

static void more_allocation_is_learnt_in_one_cycle(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(processors); i++) {
        struct sim_program p = middling;
        p.procs = p.mutators = processors[i];
        p.trace = four_times_the_rate;
        set_runway(&p, 0.05);
        simulate(&p, CYCLES);
        int first = cycle_at(40);
        claim(peak_of_goal(first) < 1.01, "the first cycle holds its goal", &p, first);
        /* (The change may also fall into the marking before it.) */
        claim(run[first - 1].assist + run[first].assist > 0.03, "with assists, as it is taken by surprise",
              &p, first);
        claim_steady(&p, first + 2, CYCLES);
        claim_bounds(&p, 0, CYCLES);
    }
}

static void less_allocation_is_believed_after_a_window_of_cycles(void **state) {
    (void)state;
    struct sim_program p = middling;
    p.trace = a_quarter_of_the_rate;
    set_runway(&p, 0.2);
    simulate(&p, CYCLES);
    int first = cycle_at(40);
    claim(run[first + PACER_WINDOW].place < 0.85, "not sooner", &p, first + PACER_WINDOW);
    claim(run[first + PACER_WINDOW + 2].place > 0.93, "nor later", &p, first + PACER_WINDOW + 2);
    claim_steady(&p, first + PACER_WINDOW + 2, CYCLES);
    claim_bounds(&p, 0, CYCLES);
}

static void a_spike_does_not_pass_the_goal_and_is_forgotten(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(processors); i++) {
        struct sim_program p = middling;
        p.procs = p.mutators = processors[i];
        p.trace = a_spike_of_the_rate;
        simulate(&p, CYCLES);
        int first = cycle_at(40), after = cycle_at(43);
        for (int c = first; c < after; c++) {
            claim(peak_of_goal(c) < 1.01, "assists hold the goal", &p, c);
        }
        claim_steady(&p, after + PACER_WINDOW + 2, CYCLES);
        claim_bounds(&p, 0, CYCLES);
    }
}

static void a_ramp_needs_few_assists_as_long_as_there_is_room(void **state) {
    (void)state;
    struct sim_program p = middling;
    p.trace = a_ramp_of_the_rate;
    set_runway(&p, 0.02);
    simulate(&p, CYCLES);
    claim(run[CYCLES - 1].place < 0.85, "the trigger has come down", &p, CYCLES - 1);
    for (int i = cycle_at(40); i < CYCLES; i++) {
        claim(run[i].assist < 0.05, "assists are few", &p, i);
        claim(peak_of_goal(i) < 1.01, "the goal holds", &p, i);
    }
    claim_steady(&p, cycle_at(125), CYCLES);
    claim_bounds(&p, 0, CYCLES);
}

static void a_live_set_that_comes_and_goes_stays_within_a_tenth_of_the_goal(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(ratios) * 2; i++) {
        struct sim_program p = middling;
        p.gc_percent = ratios[i / 2];
        p.trace = i % 2 ? a_sawtooth_of_live : a_wobble_of_live;
        set_runway(&p, 0.1);
        simulate(&p, CYCLES);
        double assist = 0;
        for (int c = SETTLED; c < CYCLES; c++) {
            claim(peak_of_goal(c) < 1.1, "the goal holds", &p, c);
            assist += run[c].assist / (CYCLES - SETTLED);
        }
        claim(assist < 0.02, "assists are few", &p, CYCLES - 1);
        claim_bounds(&p, 0, CYCLES);
    }
}

/* Everything survives, so each marking finds about twice what was expected. The goal then moves out with it,
 * and the pace of assists stays that of a steady heap. */
static void growth_moves_the_goal_and_does_not_stall_the_program(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(ratios) * COUNT(processors); i++) {
        struct sim_program p = middling;
        p.gc_percent = ratios[i % COUNT(ratios)];
        p.procs = p.mutators = processors[i / COUNT(ratios)];
        p.trace = all_live;
        set_runway(&p, 0.1);
        simulate(&p, 200);
        for (int c = 4; c < 200 && run[c].live < 512 * GIB; c++) {
            claim(run[c].assist < 0.1, "assists are few", &p, c);
            /* As many times as the heap has grown, and half as much again for what was not expected. */
            double runway = (double)(run[c].goal - run[c].trigger), grown = 1 + p.gc_percent / 100.0;
            claim((double)run[c].peak < (double)run[c].trigger + 1.5 * grown * runway,
                  "the goal moves by the runway of what was found", &p, c);
        }
        claim_steady(&p, 150, 200);
        claim_bounds(&p, 0, 200);
    }
}

static void the_hard_goal_holds_when_a_heap_of_leaves_becomes_one_of_pointers(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(ratios); i++) {
        struct sim_program p = middling;
        p.gc_percent = ratios[i];
        p.procs = p.mutators = 64;
        p.alloc_rate = 4;
        p.trace = leaves_then_pointers;
        simulate(&p, CYCLES);
        /* At the higher ratios the room suffices. */
        int first = cycle_at(40);
        double most = 0;
        for (int c = first; c < first + 3; c++) {
            double share = (double)run[c].peak / (double)run[c].hard;
            most = share > most ? share : most;
        }
        if (ratios[i] <= 100) {
            claim(most > 0.9, "it is what holds", &p, first);
        }
        claim_bounds(&p, 0, CYCLES);
    }
}

static void a_limits_goal_is_not_moved_by_growth(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct sim_program p = middling;
        p.gc_percent = i ? 100 : -1;
        p.procs = p.mutators = 64;
        p.alloc_rate = 4;
        p.limit_goal = 500 * MIB;
        p.trace = leaves_then_pointers;
        simulate(&p, CYCLES);
        for (int c = 0; c < CYCLES; c++) {
            claim((double)run[c].peak <= 1.1 * (double)p.limit_goal + (double)SIM_PIECE,
                  "the limit's goal holds to a tenth", &p, c);
        }
        claim_bounds(&p, 0, CYCLES);
    }
}

/* 64 threads that allocate half as fast as marking scans: 70 % of the way is not early enough. */
static void a_program_that_outruns_marking_assists_and_holds_its_goal(void **state) {
    (void)state;
    struct sim_program p = middling;
    p.procs = p.mutators = 64;
    p.live = 2048.0 * 1048576;
    p.alloc_rate = 0.5;
    simulate(&p, CYCLES);
    int over = 0;
    for (int i = SETTLED; i < CYCLES; i++) {
        over += peak_of_goal(i) > 1.1;
    }
    claim(over <= (CYCLES - SETTLED) / 100, "99 % of these, too, end at 1.1 of the goal or before", &p,
          CYCLES - 1);
    for (int i = SETTLED; i < CYCLES; i++) {
        claim(run[i].place < 0.701, "cycles start as early as they may", &p, i);
        claim(run[i].assist > 0.1 && run[i].utilisation < 0.6, "assists do the rest", &p, i);
    }
    claim_bounds(&p, 0, CYCLES);
}

static void a_smaller_ratio_holds_from_the_cycle_in_which_it_is_set(void **state) {
    (void)state;
    struct sim_program p = middling;
    p.trace = a_smaller_ratio;
    simulate(&p, CYCLES);
    claim_steady(&p, SETTLED, cycle_at(40));
    for (int i = cycle_at(40); i < CYCLES; i++) {
        claim((double)run[i].goal < 1.6 * (double)run[i].live, "the goal is the new one", &p, i);
    }
    claim_steady(&p, cycle_at(40) + 3, CYCLES);
    claim_bounds(&p, 0, CYCLES);
}

static void a_tiny_heap_is_marked_in_one_stop_at_its_goal(void **state) {
    (void)state;
    struct sim_program p = middling;
    p.live = 200e3;
    p.stack = p.globals = 20e3;
    p.one_stop_ns = 50e3;
    simulate(&p, CYCLES);
    for (int i = 0; i < CYCLES; i++) {
        claim(run[i].one_stop, "there is so little to mark", &p, i);
        claim(run[i].goal == PACER_MIN_HEAP_BYTES, "the goal is the least", &p, i);
    }
    claim_bounds(&p, 0, CYCLES);
    /* The same without that: the bounds hold, and the least goal. */
    p.one_stop_ns = 0;
    simulate(&p, CYCLES);
    for (int i = 0; i < CYCLES; i++) {
        claim(!run[i].one_stop, "marking is concurrent", &p, i);
        claim(run[i].peak < PACER_MIN_HEAP_BYTES, "no room is taken beyond the least", &p, i);
    }
    claim_bounds(&p, 0, CYCLES);
}

static void a_heap_that_outgrows_one_stop_knows_its_runway_two_cycles_later(void **state) {
    (void)state;
    struct sim_program p = middling;
    p.one_stop_ns = 2e6;
    p.trace = all_live;
    set_runway(&p, 0.2);
    simulate(&p, 60);
    int i = 0;
    while (run[i].one_stop) {
        i++;
    }
    claim(i > 1, "it begins with cycles of one stop", &p, 0);
    claim(run[i].place > 0.9499, "of the first concurrent one nothing is known: it starts late", &p, i);
    claim(run[i + 1].place < 0.9, "the next one starts in time", &p, i + 1);
    for (int c = i + 2; c < 60; c++) {
        claim(!run[c].one_stop && run[c].assist < 0.1, "and assists are few", &p, c);
    }
    claim_bounds(&p, 0, 60);
}

/* Two threads on eight processors; idle workers do most of the marking, until something else runs there. */
static void help_from_idle_workers_is_not_counted_on(void **state) {
    (void)state;
    struct sim_program p = middling;
    p.mutators = 2;
    p.idle_workers = true;
    p.trace = idle_workers_until_40;
    set_runway(&p, 0.3);
    simulate(&p, CYCLES);
    for (int i = SETTLED; i < CYCLES; i++) {
        claim(run[i].assist < 0.03, "next to nobody assists, with that help or without", &p, i);
        claim(peak_of_goal(i) < 1.01, "the goal holds", &p, i);
    }
    claim_bounds(&p, 0, CYCLES);
}

/* Four processors with so many busy threads that the one worker gets 6 % of them. */
static void workers_that_do_not_get_their_share_are_made_up_for(void **state) {
    (void)state;
    struct sim_program p = middling;
    p.procs = p.mutators = 4;
    p.background_really = 0.06;
    simulate(&p, CYCLES);
    for (int i = SETTLED; i < CYCLES; i++) {
        claim(peak_of_goal(i) < 1.01, "the goal holds", &p, i);
        claim(run[i].assist < 0.02, "presuming a quarter, cycles start early and few assist", &p, i);
    }
    claim_bounds(&p, 0, CYCLES);
    p.tell_background = true;
    simulate(&p, CYCLES);
    double utilisation = 0;
    for (int i = SETTLED; i < CYCLES; i++) {
        claim(peak_of_goal(i) < 1.01, "the goal holds", &p, i);
        utilisation += run[i].utilisation / (CYCLES - SETTLED);
    }
    claim(utilisation > 0.22 && utilisation < 0.26, "told so, marking takes a quarter with assists", &p,
          CYCLES - 1);
    claim_bounds(&p, 0, CYCLES);
}

/* Every trace, ratio and number of processors, at rates from idle to faster than marking; with and without a
 * limit, which some of the traces outgrow. */
static void the_bounds_hold_for_every_program(void **state) {
    (void)state;
    static void (*const traces[])(double, struct sim_now *) = {
        NULL,
        four_times_the_rate,
        a_quarter_of_the_rate,
        a_spike_of_the_rate,
        a_ramp_of_the_rate,
        a_sawtooth_of_live,
        a_wobble_of_live,
        all_live,
        leaves_then_pointers,
        a_smaller_ratio,
        idle_workers_until_40,
    };
    static const double rates[] = {0, 0.01, 0.1, 1, 10};
    for (int i = 0; i < COUNT(traces) * COUNT(rates) * COUNT(ratios) * COUNT(processors) * 2; i++) {
        struct sim_program p = middling;
        int k = i;
        p.limit_goal = k % 2 ? (uint64_t)(1.5 * p.live) : UINT64_MAX;
        k /= 2;
        p.gc_percent = ratios[k % COUNT(ratios)];
        k /= COUNT(ratios);
        p.procs = p.mutators = processors[k % COUNT(processors)];
        k /= COUNT(processors);
        /* Not quite 0: the program's progress is what it allocates. */
        p.alloc_rate = rates[k % COUNT(rates)] + 1e-9;
        p.trace = traces[k / COUNT(rates)];
        p.noise = 0.3;
        simulate(&p, 80);
        claim_bounds(&p, 0, 80);
    }
}

int main(void) {
    print_message("seed %llu\n", (unsigned long long)SEED);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_program_ends_its_cycles_at_the_goal_without_assists),
        cmocka_unit_test(so_does_one_that_a_limit_holds),
        cmocka_unit_test(more_allocation_is_learnt_in_one_cycle),
        cmocka_unit_test(less_allocation_is_believed_after_a_window_of_cycles),
        cmocka_unit_test(a_spike_does_not_pass_the_goal_and_is_forgotten),
        cmocka_unit_test(a_ramp_needs_few_assists_as_long_as_there_is_room),
        cmocka_unit_test(a_live_set_that_comes_and_goes_stays_within_a_tenth_of_the_goal),
        cmocka_unit_test(growth_moves_the_goal_and_does_not_stall_the_program),
        cmocka_unit_test(the_hard_goal_holds_when_a_heap_of_leaves_becomes_one_of_pointers),
        cmocka_unit_test(a_limits_goal_is_not_moved_by_growth),
        cmocka_unit_test(a_program_that_outruns_marking_assists_and_holds_its_goal),
        cmocka_unit_test(a_smaller_ratio_holds_from_the_cycle_in_which_it_is_set),
        cmocka_unit_test(a_tiny_heap_is_marked_in_one_stop_at_its_goal),
        cmocka_unit_test(a_heap_that_outgrows_one_stop_knows_its_runway_two_cycles_later),
        cmocka_unit_test(help_from_idle_workers_is_not_counted_on),
        cmocka_unit_test(workers_that_do_not_get_their_share_are_made_up_for),
        cmocka_unit_test(the_bounds_hold_for_every_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
