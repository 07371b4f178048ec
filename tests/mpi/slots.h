/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Time slots, in which jobs on one machine take turns (tools/bench --slots). A virtual machine has
 * phases of seconds in which everything takes twice as long, so only jobs that alternate within a
 * fraction of a second can be compared. Outside of its slots all ranks of a job sleep, so there
 * is nothing in flight that would need them.
 *
 * Argument slots=MINE/COUNT/LENGTH/START: slots of LENGTH seconds from START on, by seconds_now();
 * those of this job are MINE, MINE + COUNT, ... Without it all time is this job's.
 */

#ifndef BTL_IB_TESTS_SLOTS_H
#define BTL_IB_TESTS_SLOTS_H

#include <errno.h>
#include <math.h>

#include "common.h"

/* What comes after a round of messages, as rank 0 decides and tells the others. */
enum { GO_ON, REST, ENOUGH };

static struct slots {
    int mine, count; /* 0: no slots */
    double length, start;
} slots;

/* A measurement of so many seconds, without those in which the job rested. Rank 0 decides by its
 * own. */
typedef struct measurement {
    double begun, limit, rested;
    double round; /* when this round began */
} measurement_t;

/* When the next slot of this job begins that has not begun before `now`. */
static double slot_next(double now)
{
    double cycle = slots.count * slots.length, first = slots.start + slots.mine * slots.length;
    double cycles = ceil((now - first) / cycle);

    return first + (cycles > 0 ? cycles : 0) * cycle;
}

/* Would a round as long as the last one end behind the slot of this job that `now` is in? */
static int slot_is_over(double now, double round)
{
    double cycle = slots.count * slots.length;

    return slots.count != 0 && now + round > slot_next(now) - cycle + slots.length;
}

/* All ranks: sleeps until the next slot of this job. Before and after a measurement, so that what
 * it needs besides is done in a slot of its own. */
static void slots_next(void)
{
    if (slots.count == 0) {
        return;
    }
    double until = slot_next(seconds_now());
    struct timespec at = {.tv_sec = (time_t) until,
                          .tv_nsec = (long) (1e9 * (until - floor(until)))};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
        /* a signal */
    }
}

/* All ranks, before the first measurement. */
static void slots_begin(int argc, char **argv)
{
    const char *text = arg_text(argc, argv, "slots", NULL);

    if (text == NULL) {
        return;
    }
    if (sscanf(text, "%d/%d/%lf/%lf", &slots.mine, &slots.count, &slots.length, &slots.start) != 4
        || slots.mine < 0 || slots.mine >= slots.count || slots.length <= 0) {
        fail("slots=%s: MINE/COUNT/LENGTH/START", text);
    }
}

static measurement_t measurement_begin(double limit)
{
    double now = seconds_now();

    return (measurement_t){.begun = now, .limit = limit, .round = now};
}

/* Rank 0, between two rounds. */
static int measurement_next(measurement_t *m)
{
    double now = seconds_now(), round = now - m->round;

    m->round = now;
    if (now - m->begun - m->rested > m->limit) {
        return ENOUGH;
    }
    return slot_is_over(now, round) ? REST : GO_ON;
}

/* All ranks, when rank 0 said REST: sleeps until the next slot. */
static void measurement_rest(measurement_t *m)
{
    double from = seconds_now();

    slots_next();
    m->round = seconds_now();
    m->rested += m->round - from;
}

__attribute__((unused)) static double measurement_took(const measurement_t *m)
{
    return seconds_now() - m->begun - m->rested;
}

#endif
