/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Datagrams -> system calls. The kernel's price is for each call and for each trip through its stack, so
 * neighbours of one size to one peer are joined (UDP_SEGMENT, udp(7)): they go down the stack as one,
 * and are cut where the device is. What cannot be joined goes into the same call (sendmmsg(2)).
 */

#include "udp_state.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

enum {
    MESSAGES_MAX = 16, /* in one call; more groups than that are rare */
    PIECES_MAX = 3,    /* of one datagram */
    TRIES_MAX = 8,     /* of a call that fails with what earlier datagrams met */
};

/* One call in the making: messages, each of one or more datagrams. */
typedef struct call {
    const btl_ib_udp_socket_t *socket;
    unsigned count;
    int datagrams[MESSAGES_MAX];
    struct mmsghdr msg[MESSAGES_MAX];
    struct iovec iov[BTL_IB_UDP_BATCH * PIECES_MAX];
    _Alignas(struct cmsghdr) uint8_t control[MESSAGES_MAX][CMSG_SPACE(sizeof(uint16_t))];
} call_t;

/* Does it go beside bulk, where there are two ways? */
static bool is_quick(const btl_ib_udp_t *udp, const btl_ib_tx_t *tx)
{
    return !tx->bulk && udp->peers.peer[tx->to].quick.any.sa_family != AF_UNSPEC;
}

/* How many datagrams from the first on go the same of the two. */
static int one_way(const btl_ib_udp_t *udp, const btl_ib_tx_t *tx, int n)
{
    int same = 1;

    while (same < n && is_quick(udp, &tx[same]) == is_quick(udp, &tx[0])) {
        same++;
    }
    return same;
}

/* How many datagrams from the first on go to the same peer and have the same size, the last perhaps less. */
static int alike(const btl_ib_tx_t *tx, int n)
{
    int run = 1;

    while (run < n && tx[run].to == tx[0].to && tx[run - 1].size == tx[0].size
           && tx[run].size <= tx[0].size) {
        run++;
    }
    return run;
}

/* How many of them are to be joined now. */
static int run_of(const btl_ib_tx_t *tx, int n)
{
    const int run = alike(tx, n);

    if (run == 1) {
        return 1;
    }
    const int fit = (int) (BTL_IB_UDP_BYTES_MAX / tx[0].size);
    const int most = fit < BTL_IB_UDP_BATCH ? (fit > 0 ? fit : 1) : BTL_IB_UDP_BATCH;

    return run < most ? run : most;
}

static void set_segment(struct msghdr *msg, uint8_t *control, uint32_t size)
{
    const uint16_t value = (uint16_t) size;

    memset(control, 0, CMSG_SPACE(sizeof(value))); /* the padding goes to the kernel, too */
    msg->msg_control = control;
    msg->msg_controllen = CMSG_SPACE(sizeof(value));
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);
    c->cmsg_level = SOL_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof(value));
    memcpy(CMSG_DATA(c), &value, sizeof(value));
}

static bool to_one_peer(const btl_ib_tx_t *tx, int n)
{
    int same = 1;

    while (same < n && tx[same].to == tx[0].to) {
        same++;
    }
    return same == n;
}

/* A call to one peer goes by the socket that it may have: where no name is, no route is looked up. Several peers share
 * a call of the socket that serves all. */
static void choose_socket(const btl_ib_udp_t *udp, const btl_ib_tx_t *tx, int n, call_t *call)
{
    const bool quick = is_quick(udp, &tx[0]);
    const btl_ib_udp_socket_t *own = &udp->socket[udp->peers.peer[tx[0].to].socket];

    call->socket = &udp->socket[quick];
    if (own->peer == tx[0].to && own->quick == quick && to_one_peer(tx, n)) {
        call->socket = own;
        for (unsigned i = 0; i < call->count; i++) {
            call->msg[i].msg_hdr.msg_name = NULL;
            call->msg[i].msg_hdr.msg_namelen = 0;
        }
    }
}

/* Make messages of the first datagrams of a batch. */
static void fill(btl_ib_udp_t *udp, const btl_ib_tx_t *tx, int n, bool join, call_t *call)
{
    int done = 0;
    size_t pieces = 0;

    call->count = 0;
    n = one_way(udp, tx, n < BTL_IB_UDP_BATCH ? n : BTL_IB_UDP_BATCH);
    const bool quick = is_quick(udp, tx);
    while (done < n && call->count < MESSAGES_MAX) {
        const int run = join ? run_of(tx + done, n - done) : 1;
        btl_ib_udp_peer_t *peer = &udp->peers.peer[tx[done].to];
        btl_ib_udp_name_t *to = quick ? &peer->quick : &peer->name;
        struct msghdr *msg = &call->msg[call->count].msg_hdr;
        *msg = (struct msghdr){
            .msg_name = to,
            .msg_namelen = btl_ib_udp_name_len(to),
            .msg_iov = &call->iov[pieces],
        };
        if (run > 1) {
            set_segment(msg, call->control[call->count], tx[done].size);
        }
        for (int i = 0; i < run; i++) {
            for (uint32_t j = 0; j < tx[done + i].niov; j++) {
                call->iov[pieces++] = tx[done + i].iov[j];
            }
        }
        msg->msg_iovlen = (size_t) (&call->iov[pieces] - msg->msg_iov);
        call->datagrams[call->count++] = run;
        if (quick || udp->shared == 1) {
            btl_ib_udp_hot(udp, tx[done].to);
        }
        done += run;
    }
    choose_socket(udp, tx, done, call);
}

/* The same of a batch of one, as most short messages are. */
static void fill_single(btl_ib_udp_t *udp, const btl_ib_tx_t *tx, call_t *call)
{
    btl_ib_udp_peer_t *peer = &udp->peers.peer[tx->to];
    const bool quick = is_quick(udp, tx);

    if (quick || udp->shared == 1) {
        btl_ib_udp_hot(udp, tx->to);
    }
    const btl_ib_udp_socket_t *own = &udp->socket[peer->socket];
    const bool named = own->peer != tx->to || own->quick != quick;
    btl_ib_udp_name_t *to = quick ? &peer->quick : &peer->name;
    call->socket = named ? &udp->socket[quick] : own;
    call->count = 1;
    call->datagrams[0] = 1;
    call->msg[0].msg_hdr = (struct msghdr){
        .msg_name = named ? to : NULL,
        .msg_namelen = named ? btl_ib_udp_name_len(to) : 0,
        .msg_iov = (struct iovec *) (uintptr_t) tx->iov,
        .msg_iovlen = tx->niov,
    };
}

/* Returns how many messages went, or -1 with errno. */
static int submit(call_t *call)
{
    int rc;

    do {
        if (call->count == 1) {
            rc = sendmsg(call->socket->fd, &call->msg[0].msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
        } else {
            rc = sendmmsg(call->socket->fd, call->msg, call->count, MSG_DONTWAIT);
        }
    } while (rc < 0 && errno == EINTR);
    return rc;
}

static bool is_full(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM;
}

/* What ends a call although another would go: the error is of datagrams sent before. */
static bool is_old(btl_ib_udp_t *udp, const btl_ib_udp_socket_t *socket, int error)
{
    return !is_full(error) && error != EMSGSIZE
           && btl_ib_udp_errors(udp, socket, BTL_IB_ADDR_UNKNOWN);
}

/* Joined datagrams were refused. A device that makes no checksums cannot cut them (EIO), and older
 * kernels say EINVAL where the path carries less than they thought: go one by one. */
static void refused_joined(btl_ib_udp_t *udp, int error)
{
    if (error == EIO) {
        udp->gso = false;
        udp->base.attr.gso_bytes = 0;
        BTL_IB_UDP_LOG(udp, 1,
                       "%s: the device cannot cut joined datagrams: they are sent one by one",
                       udp->base.name);
    }
}

static void tell_once(btl_ib_udp_t *udp, const btl_ib_tx_t *tx, int error)
{
    char text[64];

    if (!udp->told_error) {
        udp->told_error = true;
        BTL_IB_UDP_LOG(udp, 1, "%s: cannot send %u bytes to %s: %s", udp->base.name, tx->size,
                       btl_ib_udp_name_format(&udp->peers.peer[tx->to].name, text, sizeof(text)),
                       strerror(error));
    }
}

/* The first message of a call was not sent. Returns 0 if it is worth another try: with `*join`
 * changed, or because the error was an old one; -1 if it has gone since; else what to tell. */
static int why_refused(btl_ib_udp_t *udp, const call_t *call, const btl_ib_tx_t *tx, bool *join,
                       int error)
{
    if (is_old(udp, call->socket, error)) {
        return 0;
    }
    if (call->datagrams[0] > 1 && !is_full(error)) {
        if (error == EMSGSIZE) { /* of one before, perhaps: no later call would tell it */
            (void) btl_ib_udp_errors(udp, call->socket, tx->to);
        }
        refused_joined(udp, error);
        *join = false;
        return 0;
    }
    if (error == EMSGSIZE && tx->size <= udp->base.attr.max_datagram) {
        error = btl_ib_udp_send_one(udp, call->socket, tx);
        if (error == 0) {
            return -1;
        }
    }
    if (!is_full(error)) {
        tell_once(udp, tx, error);
    }
    return error;
}

int btl_ib_udp_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);
    bool join = udp->gso;
    int done = 0;
    int tries = 0;

    while (done < n) {
        call_t call;
        if (n - done == 1) {
            fill_single(udp, batch + done, &call);
        } else {
            fill(udp, batch + done, n - done, join, &call);
        }
        const int messages = submit(&call);
        for (int i = 0; i < messages; i++) {
            done += call.datagrams[i];
        }
        if (messages > 0) {
            if (messages < (int) call.count) { /* the call took the error of the next one with it */
                (void) btl_ib_udp_errors(udp, call.socket, batch[done].to);
            }
            continue;
        }
        const int why = why_refused(udp, &call, &batch[done], &join, errno);
        if (why < 0) {
            done++;
        } else if (why > 0 || ++tries == TRIES_MAX) {
            *error = why > 0 ? why : EAGAIN;
            break;
        }
    }
    return done;
}
