/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What the files with named scenarios share. */

#ifndef BTL_IB_SIM_NAMED_H
#define BTL_IB_SIM_NAMED_H

#include "sim.h"

/* Two processes with one rail each. */
void two(sim_t *sim);

/* The same, started, with `limit` us of silence to wait. */
void two_with_limit(sim_t *sim, uint64_t limit);

/* A fresh simulation in place of the old one; what was counted stays. */
void again(sim_t *sim, uint64_t seed);

/* A message that is sent `after` ns from now, as soon as its sender does not compute. */
message_t *say(sim_t *sim, uint32_t from, uint32_t to, uint32_t size, uint64_t after);

static inline uint8_t type_of(const datagram_t *d)
{
    return d->data[0] & 0xf;
}

/* For sim->drop: the datagram number scratch[1], counted in scratch[0]. */
bool drop_nth(sim_t *sim, const datagram_t *d);

/* Let both get to know each other and the round-trip time. */
void warm_up(sim_t *sim, uint32_t a, uint32_t b);
/* Start all processes, and do that with the first two. */
void start_warm(sim_t *sim);

typedef enum ending {
    DESTROYED, /* the connection, at once, */
    DRAINED,   /* or once all is done */
    RESTARTED, /* the process */
} ending_t;

/* How, `after` ns from now, one of two processes ends its connection with the other. */
void end_connection(sim_t *sim, uint32_t proc, uint64_t after, ending_t how);

/* Settle, rest, farewell. */
void finish(sim_t *sim);

/* Datagrams of all processes that were sent again. */
uint64_t again_sum(const sim_t *sim);

/* ns from acceptance to delivery, the longest of the messages from number `from` on. */
uint64_t slowest(const sim_t *sim, uint32_t from);

void must_be_within(sim_t *sim, const char *what, uint64_t value, uint64_t bound);
void must_be_at_least(sim_t *sim, const char *what, uint64_t value, uint64_t bound);

/* named_failover.c. Everybody knows everybody over each rail. */
void rails_acquainted(sim_t *sim, uint32_t procs, uint32_t rails);
/* Messages of all sizes both ways, over each rail, for some milliseconds; and: we are in the middle
 * of it. */
void rails_traffic(sim_t *sim);
void rails_in_traffic(sim_t *sim);
/* All arrived within `time`, by the connections there were. */
void rails_survive(sim_t *sim, uint64_t time);
/* Do processes 0 and 1 use (or, if `uses` is false, leave) their rail 0? */
void rails_must_use_first(sim_t *sim, bool uses, const char *when);

/* The scenarios themselves, each in the file of its subject. */
#define SCENARIO(name, text) void name(sim_t *sim);
#include "named_list.h"
#undef SCENARIO

#endif
