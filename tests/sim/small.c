/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * All of the small: two processes, something short that they do, and every way in which the network
 * can treat the first N datagrams of it, without chance. Each datagram meets one of the fates
 * below; what is late arrives after timers fired, in any order with what they sent. In each run at
 * most one process restarts. A run is known by its fates: "fragment:PLTO" is replayed as such.
 *
 * A run in which fewer datagrams were sent than it has fates stands for all that differ in the
 * others only, so these are left out. Two runs are alike if the same was sent, received and
 * delivered at the same times; the table counts those that differ.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "named.h"

enum {
    FATES_MAX = 10,
    SILENCE = 2000000, /* us: then a peer is given up, which must happen after restarts only */
    OVERTAKEN = SIM_US(30),
    LATE = SIM_MS(3),     /* several timeouts of a new connection */
    SETTLED = SIM_MS(100) /* until all is delivered and done, unless a process restarts */
};

/* What becomes of a datagram. The letters are those of replays. */
typedef enum fate {
    PASSES,
    LOST,
    TWICE, /* a copy comes after what is sent next */
    OVERTAKEN_BY_NEXT,
    COMES_LATE,
    SENDER_RESTARTS,   /* it passes, and then the process that sent it, or... */
    RECEIVER_RESTARTS, /* ...the one that it is for restarts */
    FATES,
} fate_t;

static const char letters[FATES + 1] = "PLTOSRr";

/* The run at hand. */
static struct {
    fate_t fates[FATES_MAX];
    uint32_t count; /* fates */
    uint32_t met;   /* datagrams that met one, or passed after all had */
} now;

/* The run without a restart that took longest until all was delivered and done. */
static struct {
    uint64_t took; /* ns */
    char fates[FATES_MAX + 1];
} slowest_run;

/* ---- situations ---- */

static void begin(sim_t *sim, uint32_t rails)
{
    sim_procs(sim, 2, rails);
    run_defaults(sim);
    sim->survives = true;
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].config.silence_limit = SILENCE;
    }
}

static void begin_new(sim_t *sim)
{
    begin(sim, 1);
    run_start(sim);
}

static void begin_acquainted(sim_t *sim)
{
    begin(sim, 1);
    start_warm(sim);
}

/* Two buffers for each peer: credits run out at once. */
static void begin_with_two_credits(sim_t *sim)
{
    begin(sim, 1);
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "P,1472,2,1,1");
    }
    start_warm(sim);
}

static void begin_two_rails(sim_t *sim)
{
    begin(sim, 2);
    start_warm(sim);
}

static void one_message(sim_t *sim)
{
    say(sim, 0, 1, 40, 1000);
}

static void both_contact(sim_t *sim)
{
    say(sim, 0, 1, 40, 1000);
    say(sim, 1, 0, 50, 1000);
}

static void answer(sim_t *sim)
{
    say(sim, 0, 1, 40, 1000)->replies = 1;
}

static void burst(sim_t *sim)
{
    for (uint32_t i = 0; i < 4; i++) {
        say(sim, 0, 1, 300 + i, 1000);
    }
}

static void fragment(sim_t *sim)
{
    say(sim, 0, 1, 4000, 1000);
}

static void put(sim_t *sim)
{
    op_plan(sim, 0, 1, BTL_IB_OP_PUT, 3000, sim->now + 1000);
}

static void get(sim_t *sim)
{
    op_plan(sim, 0, 1, BTL_IB_OP_GET, 3000, sim->now + 1000);
}

static void atomic(sim_t *sim)
{
    op_plan(sim, 0, 1, BTL_IB_OP_ATOMIC, 8, sim->now + 1000)->area = AREA_SHARED;
}

/* The receiver has nobody for a message for a while: it gets RNR. */
static void rnr(sim_t *sim)
{
    run_tag_from(sim, sim->now + SIM_MS(1));
    say(sim, 0, 1, 40, 1000)->tag = 200;
    say(sim, 0, 1, 50, 2000);
}

static void credits(sim_t *sim)
{
    for (uint32_t i = 0; i < 5; i++) {
        say(sim, 0, 1, 1200 + i, 1000);
    }
}

/* A connection is closed while the peer sends, and made again. */
static void close_and_again(sim_t *sim)
{
    say(sim, 0, 1, 40, 1000);
    end_connection(sim, 0, 2000, DRAINED);
    say(sim, 1, 0, 50, SIM_US(15));
    say(sim, 0, 1, 60, SIM_MS(1));
}

static void fail_device(sim_t *sim, void *arg, uint64_t value)
{
    rail_t *rail = sim->procs[0].up ? sim->procs[0].rails[0] : NULL;

    if (rail != NULL && !rail_failed(rail)) {
        rail_fail_device(rail);
    }
}

static void failover(sim_t *sim)
{
    say(sim, 0, 1, 2500, 1000)->rail = 0;
    say(sim, 1, 0, 40, 1000)->rail = 0;
    sim_at(sim, sim->now + SIM_US(5), fail_device, NULL, 0);
}

static const struct situation {
    const char *name;
    const char *text;
    void (*begin)(sim_t *sim);
    void (*traffic)(sim_t *sim);
} situations[] = {
    {"contact", "a first contact with a message", begin_new, one_message},
    {"contact_both", "two first contacts at the same time", begin_new, both_contact},
    {"contact_long", "a first contact with three chunks", begin_new, fragment},
    {"answer", "a message and its answer", begin_acquainted, answer},
    {"burst", "four messages", begin_acquainted, burst},
    {"fragment", "three chunks", begin_acquainted, fragment},
    {"put", "a PUT of three segments", begin_acquainted, put},
    {"get", "a GET of three segments", begin_acquainted, get},
    {"atomic", "an atomic", begin_acquainted, atomic},
    {"rnr", "a message without a receiver for 1 ms", begin_acquainted, rnr},
    {"credits", "five messages with two credits", begin_with_two_credits, credits},
    {"close", "a connection is closed, and made again", begin_acquainted, close_and_again},
    {"failover", "a device fails", begin_two_rails, failover},
};

enum { SITUATIONS = sizeof(situations) / sizeof(situations[0]) };

/* ---- one run ---- */

static void restart_event(sim_t *sim, void *arg, uint64_t value)
{
    proc_restart(arg, false);
}

/* Gives a datagram its fate: returns how long it takes, SIM_NEVER if it is lost, and in *copy the
 * same of a copy. */
uint64_t small_fate(sim_t *sim, const datagram_t *d, uint64_t *copy)
{
    const fate_t fate = now.met < now.count ? now.fates[now.met] : PASSES;

    now.met++;
    *copy = fate == TWICE ? sim->delay + 2 * OVERTAKEN : SIM_NEVER;
    if (fate == SENDER_RESTARTS || fate == RECEIVER_RESTARTS) {
        const uint32_t who = fate == SENDER_RESTARTS ? d->from : d->to;
        sim_at(sim, sim->now + 1, restart_event, &sim->procs[who], 0);
    }
    return fate == LOST                ? SIM_NEVER
           : fate == OVERTAKEN_BY_NEXT ? sim->delay + OVERTAKEN
           : fate == COMES_LATE        ? sim->delay + LATE
                                       : sim->delay;
}

static bool has_restart(void)
{
    for (uint32_t i = 0; i < now.count; i++) {
        if (now.fates[i] >= SENDER_RESTARTS) {
            return true;
        }
    }
    return false;
}

/* Runs a situation with the fates at hand. Returns a hash of what happened. */
static uint64_t run_once(const struct situation *situation, bool verbose)
{
    char name[64];
    char text[FATES_MAX + 1] = "";
    sim_t *sim = malloc(sizeof(*sim));

    for (uint32_t i = 0; i < now.count; i++) {
        text[i] = letters[now.fates[i]];
    }
    snprintf(name, sizeof(name), "small %s:%s", situation->name, text);
    sim_init(sim, 1, name);
    sim->verbose = verbose;
    now.met = 0;
    situation->begin(sim);
    sim->by_fate = true;
    const uint64_t begun = sim->now;
    situation->traffic(sim);
    run_settle(sim, has_restart() ? SIM_S(10) : SETTLED);
    if (!has_restart() && sim->now - begun > slowest_run.took) {
        slowest_run.took = sim->now - begun;
        memcpy(slowest_run.fates, text, sizeof(text));
    }
    sim_run_until(sim, sim->now + SIM_S(1)); /* acknowledgements and credits */
    sim->by_fate = false;
    if (has_restart()) { /* nothing else tells a peer whose connection was idle */
        for (uint32_t i = 0; i < 2 * sim->nrails; i++) {
            say(sim, i % 2, 1 - i % 2, 8, 1000)->rail = i / 2;
        }
        run_settle(sim, SIM_S(10));
    }
    run_quiet(sim, SIM_S(60));
    if (sim->applied[F_DEATH] != 0 && !has_restart()) {
        sim_fail(sim, "a connection died though no process did");
    }
    run_rest_burst(sim);
    run_farewell(sim);
    const uint64_t hash = sim->hash;
    sim_free(sim);
    free(sim);
    return hash;
}

/* ---- all runs ---- */

/* Goes on to the next fates: those of datagrams that were not sent do not matter. Returns false
 * after the last. */
static bool next_fates(void)
{
    uint32_t i = now.met < now.count ? now.met : now.count;

    for (uint32_t k = i; k < now.count; k++) {
        now.fates[k] = PASSES;
    }
    while (i-- > 0) {
        const bool restarted = now.fates[i] >= SENDER_RESTARTS;
        now.fates[i] = restarted || now.fates[i] != COMES_LATE || !has_restart()
                           ? (fate_t) (now.fates[i] + 1)
                           : FATES;
        if (now.fates[i] < FATES) {
            return true;
        }
        now.fates[i] = PASSES;
    }
    return false;
}

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

static uint64_t count_different(uint64_t *hashes, uint64_t count)
{
    uint64_t different = 0;

    qsort(hashes, count, sizeof(*hashes), ascending);
    for (uint64_t i = 0; i < count; i++) {
        different += i == 0 || hashes[i] != hashes[i - 1];
    }
    return different;
}

static void run_all(const struct situation *situation, uint32_t datagrams)
{
    uint64_t *hashes = NULL;
    uint64_t runs = 0, room = 0;

    memset(&now, 0, sizeof(now));
    memset(&slowest_run, 0, sizeof(slowest_run));
    now.count = datagrams;
    do {
        if (runs == room) {
            room = room == 0 ? 1024 : 2 * room;
            hashes = realloc(hashes, room * sizeof(*hashes));
        }
        hashes[runs++] = run_once(situation, false);
    } while (next_fates());
    printf("%-12s %7llu runs, %7llu different, the slowest %s %.3f ms  %s\n", situation->name,
           (unsigned long long) runs, (unsigned long long) count_different(hashes, runs),
           slowest_run.fates, (double) slowest_run.took / 1e6, situation->text);
    fflush(stdout);
    free(hashes);
}

/* Reads the fates behind the colon of "name:letters". Returns false if there is another letter. */
static bool read_fates(const char *text)
{
    memset(&now, 0, sizeof(now));
    for (; *text != '\0'; text++) {
        const char *letter = strchr(letters, *text);
        if (letter == NULL || now.count == FATES_MAX) {
            return false;
        }
        now.fates[now.count++] = (fate_t) (letter - letters);
    }
    return true;
}

int small_run(const char *what, uint32_t datagrams, bool verbose)
{
    const size_t len = what == NULL ? 0 : strcspn(what, ":");
    bool found = what == NULL;

    for (uint32_t i = 0; i < SITUATIONS; i++) {
        if (what != NULL
            && (strlen(situations[i].name) != len || strncmp(what, situations[i].name, len) != 0)) {
            continue;
        }
        found = true;
        if (what != NULL && what[len] == ':') {
            if (!read_fates(what + len + 1)) {
                fprintf(stderr, "%s: fates are at most %d letters of %s\n", what, FATES_MAX,
                        letters);
                return 2;
            }
            const uint64_t hash = run_once(&situations[i], verbose);
            printf("%s passed, hash %016llx, %u datagrams\n", what, (unsigned long long) hash,
                   now.met);
        } else {
            run_all(&situations[i], datagrams < FATES_MAX ? datagrams : FATES_MAX);
        }
    }
    if (!found) {
        fprintf(stderr, "no small situation %s\n", what);
    }
    return found ? 0 : 2;
}
