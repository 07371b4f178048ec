/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which socket is looked at. Where there are several a poll looks at one, at that of bulk last, and every few us at all if
 * there is nothing.
 *
 * A look in vain is a system call of 0.3 to 0.4 us. One that says which of all have something (udp_watch.c) is 0.15 if none
 * has, but 0.6 if one has, which is then still to be read. So it is asked where most looks would be in vain: while polls are so
 * rare that each would look at all (another BTL polls, or the application computes), and where more than two sockets are
 * busy. Who waits for one peer looks at one socket, as ever.
 */

#include "udp_state.h"

#include <time.h>

enum {
    ROUND = 16,         /* looks, one of which goes round all sockets */
    LATELY = 256,       /* looks */
    QUIET = 64,         /* looks */
    PASSES = 8,         /* looks that found something else before bulk has its turn */
    SWEEP = 2000,       /* ns between two sweeps, at least, */
    SWEEP_MOST = 16000, /* at most, */
    SWEEP_SHARE = 8,    /* and so many times what one takes */
    FEW = 2,            /* sockets: each is asked */
    SPARSE = 4,         /* looks between two sweeps, at most, */
    IN_VAIN = 4,        /* of which so many in a row found nothing */
};

static uint32_t after(const btl_ib_udp_t *udp, uint32_t socket)
{
    return socket + 1 < udp->sockets ? socket + 1 : 0;
}

static bool is_lately(const btl_ib_udp_t *udp, const btl_ib_udp_socket_t *socket)
{
    return udp->looks - socket->seen < LATELY;
}

/* How many were busy lately; counted now and then. */
static void count_busy(btl_ib_udp_t *udp)
{
    udp->busy = 0;
    for (uint32_t i = 0; i < udp->sockets; i++) {
        udp->busy += is_lately(udp, &udp->socket[i]);
    }
}

/* One look more. Returns whether it is the one that goes round. */
static bool is_round(btl_ib_udp_t *udp)
{
    if (++udp->looks % ROUND != 0) {
        return false;
    }
    count_busy(udp);
    return true;
}

/* In turn those that something came to lately, but for bulk's own; now and then any, so that one that always has
 * something does not keep us from the others. */
static btl_ib_udp_socket_t *whose_turn(btl_ib_udp_t *udp)
{
    const uint32_t first = udp->shared - 1;

    if (udp->sockets == 1) {
        return &udp->socket[0];
    }
    if (is_round(udp)) {
        udp->round = after(udp, udp->round);
        return &udp->socket[udp->round];
    }
    for (uint32_t i = first; i < udp->sockets; i++) {
        udp->turn = udp->turn + 1 < udp->sockets ? udp->turn + 1 : first;
        if (is_lately(udp, &udp->socket[udp->turn])) {
            break;
        }
    }
    return &udp->socket[udp->turn];
}

static uint64_t now_ns(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* There was nothing in any: how long until all are asked again? What comes to the one that is waited for comes no later
 * for it than by an eighth of a look at them all. */
static uint64_t pause_after(uint64_t took)
{
    const uint64_t pause = SWEEP_SHARE * took;

    return pause < SWEEP ? SWEEP : pause < SWEEP_MOST ? pause : SWEEP_MOST;
}

/* ---- where something is ---- */

/* Is it worth asking which of them have something, and can that be asked? */
static bool asks(btl_ib_udp_t *udp)
{
    if (udp->sockets <= FEW || (udp->in_vain < IN_VAIN && udp->busy <= FEW) || udp->unwatchable) {
        return false;
    }
    udp->unwatchable = !btl_ib_udp_watch(udp);
    return !udp->unwatchable;
}

/* Bulk's own comes last: each has its turn before that is asked again. */
static btl_ib_udp_socket_t *next_ready(btl_ib_udp_t *udp)
{
    const uint32_t bulk = udp->shared > 1;
    const uint32_t others = udp->ready & ~bulk;
    const uint32_t index = (uint32_t) __builtin_ctz(others != 0 ? others : udp->ready);

    udp->ready &= ~(UINT32_C(1) << index);
    return &udp->socket[index];
}

/* Look at those that had something when that was asked; if there are no more ask, once. */
static void look_at_ready(btl_ib_udp_t *udp)
{
    bool asked = false;

    while (udp->rest_count == 0 && (udp->ready != 0 || !asked)) {
        if (udp->ready == 0) {
            udp->ready = btl_ib_udp_watch_ask(udp);
            asked = true;
        } else {
            btl_ib_udp_look(udp, next_ready(udp));
        }
    }
    if (udp->rest_count > 0) {
        udp->in_vain = 0;
    }
}

/* ---- one after the other ---- */

/* But not at the one that is known to be empty, until something is found; the next time goes on from there. */
static void look_at_each(btl_ib_udp_t *udp, const btl_ib_udp_socket_t *empty)
{
    for (uint32_t i = 0; i < udp->sockets && udp->rest_count == 0; i++) {
        udp->round = after(udp, udp->round);
        if (&udp->socket[udp->round] != empty) {
            btl_ib_udp_look(udp, &udp->socket[udp->round]);
        }
    }
}

/* There was nothing in a socket: look into all others, unless that was done a moment ago. Who polls seldom
 * finds all that is there, as with one socket. */
static void sweep(btl_ib_udp_t *udp, const btl_ib_udp_socket_t *empty)
{
    const uint64_t now = now_ns();

    if (now < udp->swept + udp->sweep) {
        return;
    }
    if (udp->epoll_fd >= 0 && udp->sockets > FEW) {
        look_at_ready(udp);
    } else {
        look_at_each(udp, empty);
    }
    if (udp->rest_count > 0) {
        udp->in_vain = 0;
        return;
    }
    udp->in_vain = udp->looks - udp->swept_at <= SPARSE ? udp->in_vain + 1 : 0;
    udp->swept_at = udp->looks;
    udp->swept = now;
    udp->sweep = pause_after(now_ns() - now);
}

/* Something of bulk was just found and nothing else for long: then every second look only is for what is quick. */
static bool goes_straight(btl_ib_udp_t *udp, const btl_ib_udp_socket_t *bulk)
{
    udp->straight =
        !udp->straight && bulk->seen == udp->looks && udp->looks - udp->seen_quick > QUIET;
    return udp->straight;
}

/* Where bulk has a socket for itself it is looked into when there is nothing else, but not only then. */
static void look_in_turn(btl_ib_udp_t *udp)
{
    btl_ib_udp_socket_t *bulk = &udp->socket[0];
    const bool both = udp->shared > 1 && is_lately(udp, bulk);
    const bool first = both && (udp->passed >= PASSES || goes_straight(udp, bulk));
    btl_ib_udp_socket_t *socket = first ? bulk : whose_turn(udp);

    btl_ib_udp_look(udp, socket);
    udp->passed++;
    if (both && (socket == bulk || udp->rest_count == 0)) {
        udp->passed = 0;
        if (socket != bulk) {
            btl_ib_udp_look(udp, bulk);
        }
    }
    if (udp->rest_count == 0 && udp->sockets > 1) {
        sweep(udp, socket);
    }
}

void btl_ib_udp_look_around(btl_ib_udp_t *udp)
{
    if (udp->ready != 0 || asks(udp)) {
        (void) is_round(udp);
        look_at_ready(udp);
    } else {
        look_in_turn(udp);
    }
}
