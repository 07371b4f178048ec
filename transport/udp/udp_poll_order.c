/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_poll_order.h"

#include <time.h>

enum {
    ROUND = 16,               /* each 16th look takes the next of all sockets */
    LATELY = 256,             /* a socket is busy if it had something within this many looks */
    LATENCY_QUIET = 64,       /* the latency lane is quiet if it had nothing for this many looks */
    BULK_WAITS = 8,           /* the bulk lane has its turn after this many looks elsewhere */
    SWEEP_WAIT = 2,           /* us between two sweeps, at least */
    SWEEP_WAIT_MAX = 16,      /* us between two sweeps, at most */
    SWEEP_SHARE = 8,          /* the next sweep waits this many times as long as one took */
    EMPTY_SWEEPS = 4,         /* epoll is asked after this many empty sweeps in a row */
    LOOKS_BETWEEN_SWEEPS = 4, /* sweeps are in a row if at most this many looks are between them */
    FEW = 2,                  /* epoll is not worth asking for this many sockets or fewer */
};

/* Looks at a socket: reads it by one call. Returns whether it had something. */
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

/* Counts a look. Returns true if it is to take the next of all sockets; then it also counts busy
 * sockets. */
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

/* Returns the socket whose turn it is: the next busy one, the bulk lane not among them; or, each
 * 16th time, the next of all, so that a socket that always has something does not keep others
 * waiting. */
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
    /* Read errors here: a look does not always read them, and epoll would name the socket for
     * ever. */
    for (; errors != 0; errors &= errors - 1) {
        const uint32_t index = (uint32_t) __builtin_ctz(errors);
        (void) btl_ib_udp_errors_read(poll->errors, &poll->sockets->socket[index],
                                      BTL_IB_ADDR_UNKNOWN);
    }
}

/* Looks at sockets that epoll named, the bulk lane last, until one has something. When no named one
 * is left, asks epoll, once. Returns whether there was something. */
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

/* Looks at all sockets, except `empty`, until one has something. The next call goes on behind that
 * one. Returns whether there was something. */
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

/* Sweeps: looks at all sockets, except `empty`, which was found empty at `now` (us). An empty sweep
 * is not repeated for eight times as long as it took (but SWEEP_WAIT to SWEEP_WAIT_MAX), so that
 * sweeps take about an eighth of the time. Returns whether there was something. */
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

/* Chooses whether a poll begins with the bulk lane: each second poll does, while the last look
 * found something there and the latency lane is quiet. */
static bool poll_choose_bulk_first(btl_ib_udp_poll_t *poll)
{
    poll->bulk_first = !poll->bulk_first && poll->seen[0] == poll->looks
                       && poll->looks - poll->latency_seen > LATENCY_QUIET;
    return poll->bulk_first;
}

/*
 * Polls without epoll. Returns whether there was something. Looks, until it finds something, at
 *
 *      1. the socket whose turn it is; the bulk lane instead, if that is busy, and has waited for
 *         BULK_WAITS looks or poll_choose_bulk_first() says so
 *      2. the bulk lane, if it is busy and was not the first
 *      3. all sockets, if a sweep is due
 */
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

/* Polls one of many rails by the epoll set of all rails, and sets *found. Returns false if that
 * does not say enough, and the rail is to be polled like a single one. Not inlined, so that an
 * empty poll of a single rail needs fewer instructions. */
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
