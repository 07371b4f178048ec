/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_poll_order.h"

#include <time.h>

enum {
    ROUND = 16,               /* each 16th look is in the turn of all sockets */
    LATELY = 256,             /* a socket is busy if it had something in the last looks */
    LATENCY_QUIET = 64,       /* the latency lane is quiet if it had nothing for this many looks */
    BULK_WAITS = 8,           /* the bulk lane's turn comes after this many looks elsewhere */
    SWEEP_WAIT = 2,           /* us between two sweeps, at least */
    SWEEP_WAIT_MAX = 16,      /* us between two sweeps, at most */
    SWEEP_SHARE = 8,          /* the next sweep waits this many times as long as one took */
    EMPTY_SWEEPS = 4,         /* epoll is asked after this many empty sweeps in a row */
    LOOKS_BETWEEN_SWEEPS = 4, /* sweeps are in a row with at most this many looks between them */
    FEW = 2,                  /* for so few sockets epoll is never worth asking */
};

static inline bool poll_look(btl_ib_udp_poll_t *poll, uint32_t index)
{
    const bool found = btl_ib_udp_recv(poll->rx, poll->sockets, index, poll->errors);

    if (found) {
        poll->seen[index] = poll->looks;
        poll->latency_seen =
            poll->sockets->socket[index].latency ? poll->looks : poll->latency_seen;
    }
    return found;
}

static bool socket_is_busy(const btl_ib_udp_poll_t *poll, uint32_t index)
{
    return poll->looks - poll->seen[index] < LATELY;
}

/* Counts a look. Returns true if it is to be in the turn of all sockets; then also counts busy
 * ones. */
static bool poll_count_look(btl_ib_udp_poll_t *poll, uint32_t sockets)
{
    if (++poll->looks % ROUND != 0) {
        return false;
    }
    poll->busy = 0;
    for (uint32_t i = 0; i < sockets; i++) {
        poll->busy += socket_is_busy(poll, i);
    }
    return true;
}

/* Returns the socket whose turn it is, mostly among the busy ones except the bulk lane. Each 16th
 * time it is one of all, so that a socket that always has something does not keep others waiting.
 * */
static uint32_t poll_whose_turn(btl_ib_udp_poll_t *poll, const btl_ib_udp_sockets_t *sockets)
{
    const uint32_t first = sockets->shared - 1;
    const uint32_t count = sockets->count;
    uint32_t turn = poll->turn;

    if (poll_count_look(poll, count)) {
        poll->round = poll->round + 1 < count ? poll->round + 1 : 0;
        return poll->round;
    }
    for (uint32_t left = count - first; left > 0; left--) {
        turn = turn + 1 < count ? turn + 1 : first;
        if (socket_is_busy(poll, turn)) {
            break;
        }
    }
    poll->turn = turn;
    return turn;
}

/* ---- epoll ---- */

static void poll_ask_epoll(btl_ib_udp_poll_t *poll)
{
    uint32_t errors;

    poll->ready = btl_ib_udp_sockets_ready(poll->sockets, &errors);
    /* Read errors here, as a look does not always do so, and epoll would name the socket for
     * ever. */
    for (; errors != 0; errors &= errors - 1) {
        const uint32_t index = (uint32_t) __builtin_ctz(errors);
        (void) btl_ib_udp_errors_read(poll->errors, &poll->sockets->socket[index],
                                      BTL_IB_ADDR_UNKNOWN);
    }
}

/* Looks at sockets that epoll named, the bulk lane last, until one has something. If none is left,
 * asks again, once. Returns whether there was something. */
static bool poll_named(btl_ib_udp_poll_t *poll)
{
    const uint32_t bulk = poll->sockets->shared > 1;
    bool found = false;
    bool asked = false;

    while (!found && (poll->ready != 0 || !asked)) {
        if (poll->ready == 0) {
            poll_ask_epoll(poll);
            asked = true;
            continue;
        }
        const uint32_t others = poll->ready & ~bulk;
        const uint32_t index = (uint32_t) __builtin_ctz(others != 0 ? others : poll->ready);
        poll->ready &= ~(UINT32_C(1) << index);
        found = poll_look(poll, index);
    }
    poll->empty_sweeps = found ? 0 : poll->empty_sweeps;
    return found;
}

/* ---- without epoll ---- */

/* Looks at all sockets, except one that is known to be empty, until one has something; the next
 * call goes on behind that one. */
static bool poll_each(btl_ib_udp_poll_t *poll, uint32_t empty)
{
    const uint32_t count = poll->sockets->count;
    bool found = false;

    for (uint32_t i = 0; i < count && !found; i++) {
        poll->round = poll->round + 1 < count ? poll->round + 1 : 0;
        found = poll->round != empty && poll_look(poll, poll->round);
    }
    return found;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* Looks at all sockets, except `empty`, which was empty at `now`. The next sweep waits for eight
 * times as long as this one took (between SWEEP_WAIT and SWEEP_WAIT_MAX), so that sweeps take about
 * an eighth of the time from the socket that is waited for. Returns whether there was something. */
__attribute__((noinline)) static bool poll_sweep(btl_ib_udp_poll_t *poll, uint32_t empty,
                                                 uint64_t now)
{
    const bool epoll = poll->sockets->epoll_fd >= 0 && poll->sockets->count > FEW;
    const uint64_t begun = now_ns();
    if (epoll ? poll_named(poll) : poll_each(poll, empty)) {
        poll->empty_sweeps = 0;
        return true;
    }
    const uint64_t wait = SWEEP_SHARE * (now_ns() - begun) / 1000;
    poll->empty_sweeps =
        poll->looks - poll->swept_look <= LOOKS_BETWEEN_SWEEPS ? poll->empty_sweeps + 1 : 0;
    poll->swept_look = poll->looks;
    poll->sweep_due = now
                      + (wait < SWEEP_WAIT       ? SWEEP_WAIT
                         : wait < SWEEP_WAIT_MAX ? wait
                                                 : SWEEP_WAIT_MAX);
    return false;
}

/* Chooses whether a poll begins with the bulk lane: each second one does, if the last look found
 * something there, and the latency lane is quiet. */
static bool poll_choose_bulk_first(btl_ib_udp_poll_t *poll)
{
    poll->bulk_first = !poll->bulk_first && poll->seen[0] == poll->looks
                       && poll->looks - poll->latency_seen > LATENCY_QUIET;
    return poll->bulk_first;
}

/* Looks at the socket whose turn it is; if it is empty, at the bulk lane, if that is busy; then
 * sweeps if that is due. */
static bool poll_in_turn(btl_ib_udp_poll_t *poll, uint64_t now)
{
    const bool bulk = poll->sockets->shared > 1 && socket_is_busy(poll, 0);
    const bool bulk_first =
        bulk && (poll->bulk_waits >= BULK_WAITS || poll_choose_bulk_first(poll));
    const uint32_t index = bulk_first ? 0 : poll_whose_turn(poll, poll->sockets);
    bool found = poll_look(poll, index);

    poll->bulk_waits++;
    if (bulk && (index == 0 || !found)) {
        poll->bulk_waits = 0;
        found = found || (index != 0 && poll_look(poll, 0));
    }
    return found || (now >= poll->sweep_due && poll_sweep(poll, index, now));
}

/* Polls one of many rails by the epoll set of all rails. Returns false, and leaves *found alone, if
 * the rail is to be polled as a single one. Not inlined, so that an empty poll of a single rail
 * needs fewer instructions. */
__attribute__((noinline)) static bool poll_among_many(btl_ib_udp_poll_t *poll, uint64_t now,
                                                      bool *found)
{
    const btl_ib_udp_rail_state_t state = btl_ib_udp_rails_ask(poll->sockets, now);

    if (state == BTL_IB_UDP_RAIL_EMPTY) {
        *found = false;
        return true;
    }
    if (state == BTL_IB_UDP_RAIL_READY && poll->sockets->count > FEW) {
        (void) poll_count_look(poll, poll->sockets->count);
        *found = poll_named(poll);
        return true;
    }
    return false;
}

bool btl_ib_udp_poll_sockets(btl_ib_udp_poll_t *poll, uint64_t now)
{
    btl_ib_udp_sockets_t *sockets = poll->sockets;
    bool found;

    if (btl_ib_udp_rails_many && poll_among_many(poll, now, &found)) {
        return found;
    }
    if (sockets->count <= 1) {
        return sockets->count == 1 && poll_look(poll, 0);
    }
    if (sockets->count > FEW) {
        bool named = poll->ready != 0;
        if (!named && !poll->no_epoll && (poll->empty_sweeps >= EMPTY_SWEEPS || poll->busy > FEW)) {
            poll->no_epoll = btl_ib_udp_sockets_epoll(sockets) < 0;
            named = !poll->no_epoll;
        }
        if (named) {
            (void) poll_count_look(poll, sockets->count);
            return poll_named(poll);
        }
    }
    return poll_in_turn(poll, now);
}
