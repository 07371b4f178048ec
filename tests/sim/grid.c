/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Goodput of one stream over loss, round trip and rate, beside the most that any protocol could
 * have: rate * (1 - loss).
 *
 * Goodput is payload of messages, counted when the receiver takes it in for the first time. Rate is
 * that of whole datagrams as they are handed to the transport: headers of ours and retransmissions
 * count against us, those of UDP, IP and Ethernet do not. Of a full datagram of 1472 bytes 1420 are
 * payload, so that 0.965 is the most without any loss. Both directions lose alike.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "named.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const uint32_t losses[] = {0, 1000, 10000, 50000, 200000}; /* ppm */
static const uint32_t rtts[] = {10, 100, 1000, 10000};            /* us */
static const uint32_t rates[] = {100, 1000, 10000};               /* Mbit/s */

#define GOAL          0.9
#define GOAL_LOSS_MAX 50000 /* ppm: the goal is for losses up to this */
#define MESSAGE       65536u

typedef double table_t[COUNT(rates)][COUNT(rtts)][COUNT(losses)];

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Two hosts as the `ofi` transport has them. */
static void make_hosts(sim_t *sim, uint32_t rate, uint32_t rtt)
{
    uint64_t bdp = (uint64_t) rate * rtt / 8; /* bytes */

    two(sim);
    for (int i = 0; i < 2; i++) {
        proc_t *proc = &sim->procs[i];
        snprintf(proc->queues, sizeof(proc->queues), "P,256,256,128,32:S,65536,32768,16384,16384");
    }
    sim->delay = SIM_US(rtt) / 2;
    sim->events_max = UINT64_MAX;
    links_make(sim, rate, rate, bdp + (256u << 10));
}

/* Enough messages one after the other that the engine always has some to send. */
static void begin_stream(sim_t *sim, uint32_t rate, uint32_t rtt)
{
    uint64_t bdp = (uint64_t) rate * rtt / 8;
    uint64_t at_once = 8 + 4 * bdp / MESSAGE;

    for (uint64_t i = 0; i < at_once; i++) {
        say(sim, 0, 1, MESSAGE, SIM_US(1))->chain = 1u << 20;
    }
}

/* Share of rate * (1 - loss) that was goodput. */
static double run_cell(uint32_t rate, uint32_t rtt, uint32_t loss)
{
    sim_t *sim = malloc(sizeof(*sim));
    uint64_t segment = 1472u * 8000ull / rate; /* ns */
    uint64_t settle = SIM_MS(5) + 30 * SIM_US(rtt) + 300 * segment;
    uint64_t measure = max_u64(max_u64(SIM_MS(10), 30 * SIM_US(rtt)), 2000 * segment);

    sim_init(sim, 1, "grid");
    make_hosts(sim, rate, rtt);
    run_start(sim);
    if (loss > 0) {
        fault_add(sim, F_LOSS, 0, SIM_NEVER, loss, 0);
    }
    begin_stream(sim, rate, rtt);
    sim_run_until(sim, sim->now + settle);
    const btl_ib_counters_t *counters = sim_counters(sim, 1);
    uint64_t before = counters->received_bytes;
    sim_run_until(sim, sim->now + measure);
    double bits = (double) (counters->received_bytes - before) * 8;
    double goodput = bits / ((double) measure / 1000); /* Mbit/s */
    sim->stopping = true;
    for (uint32_t i = 0; i < 2; i++) {
        proc_stop(&sim->procs[i]);
    }
    sim_free(sim);
    free(sim);
    return goodput / (rate * (1 - loss / 1e6));
}

/* ---- text ---- */

static void print_head(void)
{
    printf("Goodput / (rate * (1 - loss)); 0.965 is the most that headers leave.\n\n");
    printf("%10s %8s", "Mbit/s", "RTT us");
    for (size_t k = 0; k < COUNT(losses); k++) {
        printf("  loss %4.1f%%", losses[k] / 1e4);
    }
    printf("\n");
}

static bool is_bad(double share, uint32_t loss)
{
    return loss <= GOAL_LOSS_MAX && share < GOAL;
}

/* For tests/sim/plot_grid. */
static bool write_csv(const char *path, table_t table)
{
    FILE *file = fopen(path, "w");

    if (file == NULL) {
        perror(path);
        return false;
    }
    fprintf(file, "rate_mbits,rtt_us,loss,goodput_mbits,share\n");
    for (size_t r = 0; r < COUNT(rates); r++) {
        for (size_t t = 0; t < COUNT(rtts); t++) {
            for (size_t k = 0; k < COUNT(losses); k++) {
                double share = table[r][t][k];
                fprintf(file, "%u,%u,%g,%.2f,%.4f\n", rates[r], rtts[t], losses[k] / 1e6,
                        share * rates[r] * (1 - losses[k] / 1e6), share);
            }
        }
    }
    return fclose(file) == 0;
}

/* The cells that every check runs: the corners of the goal, but for those with the most events. */
static bool is_quick(size_t r, size_t t, size_t k)
{
    bool loss = losses[k] == 0 || losses[k] == GOAL_LOSS_MAX;

    return loss && (t == 0 || t + 1 == COUNT(rtts)) && !(r == 2 && t + 1 == COUNT(rtts));
}

int grid_run(bool quick, const char *path)
{
    table_t table = {0};
    uint32_t bad = 0;

    print_head();
    for (size_t r = 0; r < COUNT(rates); r++) {
        for (size_t t = 0; t < COUNT(rtts); t++) {
            printf("%10u %8u", rates[r], rtts[t]);
            for (size_t k = 0; k < COUNT(losses); k++) {
                if (quick && !is_quick(r, t, k)) {
                    printf("  %10s", "-");
                    continue;
                }
                double share = run_cell(rates[r], rtts[t], losses[k]);
                table[r][t][k] = share;
                bad += is_bad(share, losses[k]);
                printf("  %9.3f%c", share, is_bad(share, losses[k]) ? '*' : ' ');
                fflush(stdout);
            }
            printf("\n");
        }
    }
    printf("\n%u below %.1f up to %.0f %% loss%s\n", bad, GOAL, GOAL_LOSS_MAX / 1e4,
           bad > 0 ? " (*)" : "");
    if (path != NULL && !quick && !write_csv(path, table)) {
        return 2;
    }
    return bad > 0;
}
