/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_poll.h"

enum {
    FEW = 3,        /* sockets that are looked at without epoll */
    STREAK_MAX = 8, /* looks that found something at one socket, before others have their turn */
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

    if (index < l->sockets->shared - 1) {
        poll->bulk_busy = found;
    } else if (found) {
        poll->streak = index == poll->current ? poll->streak + 1 : 0;
        poll->current = index;
    }
    return found;
}

/* Each that epoll named has its turn before that is asked again; the bulk lane is the last. */
static bool look_at_ready(const looker_t *l)
{
    const uint32_t bulk = l->sockets->shared - 1;
    bool found = false;

    while (!found && l->poll->ready != 0) {
        const uint32_t others = l->poll->ready & ~bulk;
        const uint32_t index = (uint32_t) __builtin_ctz(others != 0 ? others : l->poll->ready);
        l->poll->ready &= ~(UINT32_C(1) << index);
        found = look(l, index);
    }
    return found;
}

static bool ask_epoll(const looker_t *l)
{
    uint32_t errors;

    l->poll->ready = btl_ib_udp_sockets_ready(l->sockets, &errors);
    for (; errors != 0; errors &= errors - 1) { /* a look does not always take them away */
        const uint32_t index = (uint32_t) __builtin_ctz(errors);
        (void) btl_ib_udp_errors_read(l->errors, &l->sockets->socket[index], BTL_IB_ADDR_UNKNOWN);
    }
    return look_at_ready(l);
}

/* The next one; and the bulk lane if it is in use. */
static bool take_turns(const looker_t *l)
{
    btl_ib_udp_poll_t *poll = l->poll;

    do {
        poll->next = poll->next + 1 < l->sockets->count ? poll->next + 1 : 0;
    } while (poll->next == poll->current);
    return look(l, poll->next) || (poll->bulk_busy && poll->next != 0 && look(l, 0));
}

/* Is there an epoll set? It is made when there are many sockets, and tried once. */
static bool has_epoll(btl_ib_udp_poll_t *poll, btl_ib_udp_sockets_t *sockets)
{
    if (sockets->epoll_fd < 0 && sockets->count > FEW && !poll->no_epoll) {
        poll->no_epoll = btl_ib_udp_sockets_epoll(sockets) < 0;
    }
    return sockets->epoll_fd >= 0;
}

void btl_ib_udp_poll_sockets(btl_ib_udp_poll_t *poll, btl_ib_udp_sockets_t *sockets,
                             btl_ib_udp_rx_t *rx, btl_ib_udp_errors_t *errors)
{
    const looker_t l = {.poll = poll, .sockets = sockets, .rx = rx, .errors = errors};

    if (sockets->count <= 1) {
        (void) (sockets->count == 1 && look(&l, 0));
        return;
    }
    if (look_at_ready(&l)) {
        return;
    }
    const bool epoll = has_epoll(poll, sockets);
    const bool streak = poll->streak >= STREAK_MAX;
    if (!streak && (epoll || !poll->others)) {
        poll->others = !look(&l, poll->current);
        if (!epoll || !poll->others) {
            return;
        }
    }
    poll->others = false;
    poll->streak = 0;
    if (!(epoll ? ask_epoll(&l) : take_turns(&l)) && streak) {
        (void) look(&l, poll->current);
    }
}
