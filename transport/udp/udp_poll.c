/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_poll.h"

#include <time.h>

enum {
    ROUND = 16,               /* looks, one of which goes round all sockets */
    LATELY = 256,             /* looks: a socket is busy so long */
    LATENCY_QUIET = 64,       /* looks without anything in the latency lane */
    BULK_WAITS = 8,           /* looks that found something else, then the bulk lane has its turn */
    SWEEP_WAIT = 2000,        /* ns between two sweeps, at least, */
    SWEEP_WAIT_MAX = 16000,   /* at most, */
    SWEEP_SHARE = 8,          /* and so many times what one takes */
    SWEEPS_IN_VAIN = 4,       /* in a row: epoll instead, */
    LOOKS_BETWEEN_SWEEPS = 4, /* if there are no more looks between two of them */
    FEW = 2,                  /* sockets: never worth asking epoll */
};

/* What all looks need. */
typedef struct looker {
    btl_ib_udp_poll_t *poll;
    btl_ib_udp_sockets_t *sockets;
    btl_ib_udp_rx_t *rx;
    btl_ib_udp_errors_t *errors;
} looker_t;

static bool look(const looker_t *l, uint32_t index)
{
    btl_ib_udp_poll_t *poll = l->poll;
    const bool found = btl_ib_udp_recv(l->rx, l->sockets, index, l->errors);

    if (found) {
        poll->seen[index] = poll->looks;
        poll->latency_seen = l->sockets->socket[index].latency ? poll->looks : poll->latency_seen;
    }
    return found;
}

static bool is_busy(const btl_ib_udp_poll_t *poll, uint32_t index)
{
    return poll->looks - poll->seen[index] < LATELY;
}

/* Count one look. Returns whether it is the one that goes round. */
static bool is_round(btl_ib_udp_poll_t *poll, uint32_t sockets)
{
    if (++poll->looks % ROUND != 0) {
        return false;
    }
    poll->busy = 0;
    for (uint32_t i = 0; i < sockets; i++) {
        poll->busy += is_busy(poll, i);
    }
    return true;
}

/* The busy ones in turn, but for the bulk lane; now and then any, so that one that always has
 * something does not keep others from being looked at. */
static uint32_t whose_turn(btl_ib_udp_poll_t *poll, const btl_ib_udp_sockets_t *sockets)
{
    const uint32_t first = sockets->shared - 1;

    if (is_round(poll, sockets->count)) {
        poll->round = poll->round + 1 < sockets->count ? poll->round + 1 : 0;
        return poll->round;
    }
    for (uint32_t i = first; i < sockets->count; i++) {
        poll->turn = poll->turn + 1 < sockets->count ? poll->turn + 1 : first;
        if (is_busy(poll, poll->turn)) {
            break;
        }
    }
    return poll->turn;
}

/* ---- epoll ---- */

/* Is it worth asking which sockets have something, and can that be asked? */
static bool uses_epoll(btl_ib_udp_poll_t *poll, btl_ib_udp_sockets_t *sockets)
{
    if (sockets->count <= FEW || (poll->in_vain < SWEEPS_IN_VAIN && poll->busy <= FEW)
        || poll->no_epoll) {
        return false;
    }
    poll->no_epoll = btl_ib_udp_sockets_epoll(sockets) < 0;
    return !poll->no_epoll;
}

static void ask_epoll(const looker_t *l)
{
    uint32_t errors;

    l->poll->ready = btl_ib_udp_sockets_ready(l->sockets, &errors);
    for (; errors != 0; errors &= errors - 1) { /* a look does not always take them away */
        const uint32_t index = (uint32_t) __builtin_ctz(errors);
        (void) btl_ib_udp_errors_read(l->errors, &l->sockets->socket[index], BTL_IB_ADDR_UNKNOWN);
    }
}

/* Look at those that epoll named; if none is left ask again, once. Each has its turn before that,
 * the bulk lane is the last. */
static bool look_at_ready(const looker_t *l)
{
    btl_ib_udp_poll_t *poll = l->poll;
    const uint32_t bulk = l->sockets->shared > 1;
    bool found = false;
    bool asked = false;

    while (!found && (poll->ready != 0 || !asked)) {
        if (poll->ready == 0) {
            ask_epoll(l);
            asked = true;
            continue;
        }
        const uint32_t others = poll->ready & ~bulk;
        const uint32_t index = (uint32_t) __builtin_ctz(others != 0 ? others : poll->ready);
        poll->ready &= ~(UINT32_C(1) << index);
        found = look(l, index);
    }
    poll->in_vain = found ? 0 : poll->in_vain;
    return found;
}

/* ---- one after the other ---- */

/* All but one that is known to be empty, until something is found; the next time goes on there. */
static bool look_at_each(const looker_t *l, uint32_t empty)
{
    bool found = false;

    for (uint32_t i = 0; i < l->sockets->count && !found; i++) {
        l->poll->round = l->poll->round + 1 < l->sockets->count ? l->poll->round + 1 : 0;
        found = l->poll->round != empty && look(l, l->poll->round);
    }
    return found;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* There was nothing in `empty`: look at all others, unless that was done a moment ago. The wait
 * follows from what a sweep takes: what comes to the socket that is waited for is late by an eighth
 * of a sweep at most. */
static void sweep(const looker_t *l, uint32_t empty)
{
    btl_ib_udp_poll_t *poll = l->poll;
    const uint64_t now = now_ns();

    if (now < poll->swept_at + poll->sweep_wait) {
        return;
    }
    const bool epoll = l->sockets->epoll_fd >= 0 && l->sockets->count > FEW;
    if (epoll ? look_at_ready(l) : look_at_each(l, empty)) {
        poll->in_vain = 0;
        return;
    }
    const uint64_t wait = SWEEP_SHARE * (now_ns() - now);
    poll->in_vain = poll->looks - poll->swept_look <= LOOKS_BETWEEN_SWEEPS ? poll->in_vain + 1 : 0;
    poll->swept_look = poll->looks;
    poll->swept_at = now;
    poll->sweep_wait = wait < SWEEP_WAIT       ? SWEEP_WAIT
                       : wait < SWEEP_WAIT_MAX ? wait
                                               : SWEEP_WAIT_MAX;
}

/* Something of bulk was just found, and nothing else for long: then each second look only is at
 * the latency lane. */
static bool is_bulk_first(btl_ib_udp_poll_t *poll)
{
    poll->bulk_first = !poll->bulk_first && poll->seen[0] == poll->looks
                       && poll->looks - poll->latency_seen > LATENCY_QUIET;
    return poll->bulk_first;
}

/* Look at the one whose turn it is, and at a busy bulk lane if there is nothing. */
static void look_in_turn(const looker_t *l)
{
    btl_ib_udp_poll_t *poll = l->poll;
    const bool bulk = l->sockets->shared > 1 && is_busy(poll, 0);
    const bool bulk_first = bulk && (poll->bulk_waits >= BULK_WAITS || is_bulk_first(poll));
    const uint32_t index = bulk_first ? 0 : whose_turn(poll, l->sockets);
    bool found = look(l, index);

    poll->bulk_waits++;
    if (bulk && (index == 0 || !found)) {
        poll->bulk_waits = 0;
        found = found || (index != 0 && look(l, 0));
    }
    if (!found) {
        sweep(l, index);
    }
}

void btl_ib_udp_poll_sockets(btl_ib_udp_poll_t *poll, btl_ib_udp_sockets_t *sockets,
                             btl_ib_udp_rx_t *rx, btl_ib_udp_errors_t *errors)
{
    const looker_t l = {.poll = poll, .sockets = sockets, .rx = rx, .errors = errors};

    if (sockets->count <= 1) {
        (void) (sockets->count == 1 && look(&l, 0));
    } else if (poll->ready != 0 || uses_epoll(poll, sockets)) {
        (void) is_round(poll, sockets->count);
        (void) look_at_ready(&l);
    } else {
        look_in_turn(&l);
    }
}
