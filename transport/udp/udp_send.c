/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_send.h"

#include "net_interfaces.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

enum { TRIES_MAX = 8 }; /* refused calls of one batch: some fail with errors of earlier datagrams */

/* ---- making a call ---- */

/* Lanes, each of which has a socket that serves all peers. LANE_OTHER + i goes from the port of
 * sender i, of the spare flow or a path, to the port of the bulk lane. */
typedef enum {
    LANE_BULK,
    LANE_LATENCY,
    LANE_OTHER,
} lane_t;

/* Returns the lane of a datagram. In the usual flow bulk takes the bulk lane, everything else the
 * latency lane; in each other flow everything takes one lane. */
static lane_t lane_of(const btl_ib_udp_tx_t *tx, const btl_ib_tx_t *datagram)
{
    const bool usual = datagram->flow == BTL_IB_FLOW_USUAL;

    if (datagram->flow >= tx->spare_flow) {
        return LANE_OTHER + (datagram->flow - tx->spare_flow);
    }
    return tx->peers->peer[datagram->to].latency.any.sa_family != AF_UNSPEC
                   && (usual ? !datagram->bulk : datagram->flow == BTL_IB_FLOW_LATENCY)
               ? LANE_LATENCY
               : LANE_BULK;
}

static btl_ib_udp_socket_t *lane_socket(const btl_ib_udp_tx_t *tx, lane_t lane)
{
    return lane >= LANE_OTHER ? btl_ib_udp_sockets_sender(tx->connected->sockets, lane - LANE_OTHER)
                              : &tx->sockets->socket[lane == LANE_LATENCY];
}

/* Returns the socket of this lane that is connected to a peer; NULL: there is none. */
static btl_ib_udp_socket_t *connected_socket(const btl_ib_udp_tx_t *tx, lane_t lane,
                                             const btl_ib_udp_peer_t *peer)
{
    btl_ib_udp_socket_t *own = &tx->sockets->socket[peer->socket];

    return peer->socket != 0 && lane < LANE_OTHER && own->latency == (lane == LANE_LATENCY) ? own
                                                                                            : NULL;
}

static const btl_ib_udp_name_t *lane_name(const btl_ib_udp_peer_t *peer, lane_t lane)
{
    return lane == LANE_LATENCY ? &peer->latency : &peer->name;
}

/* Returns how many datagrams, from the first on, can be one message. A shorter last datagram counts
 * like a full one, as the receiver needs room to move datagrams apart (udp_recv.c). */
static int gso_run(const btl_ib_tx_t *first, int n)
{
    const int run = btl_ib_gso_run(first, n, BTL_IB_UDP_GSO_BYTES);
    const int fit = run == 1 ? 1 : (int) (BTL_IB_UDP_GSO_BYTES / first[0].size);

    return run < fit ? run : fit > 0 ? fit : 1;
}

/* Adds a control message behind those that a message has. */
static void message_add_control(struct msghdr *msg, int level, int type, const void *value,
                                size_t size)
{
    struct cmsghdr *c = (void *) ((uint8_t *) msg->msg_control + msg->msg_controllen);

    memset(c, 0, CMSG_SPACE(size)); /* the padding goes to the kernel, too */
    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(c), value, size);
    msg->msg_controllen += CMSG_SPACE(size);
}

/* Has the kernel split a message into datagrams of `size` bytes. */
static void message_set_segment(struct msghdr *msg, uint8_t *control, uint32_t size)
{
    const uint16_t value = (uint16_t) size;

    msg->msg_control = control;
    message_add_control(msg, SOL_UDP, UDP_SEGMENT, &value, sizeof(value));
}

/* Adds a control message, so that the message leaves with ECT(0) (`ect`) or without. It has to
 * repeat the socket's traffic class, too. */
__attribute__((noinline)) static void message_set_ect(const btl_ib_udp_tx_t *tx, struct msghdr *msg,
                                                      uint8_t *control, bool ect)
{
    const bool v4 = tx->sockets->own.any.sa_family == AF_INET;
    const int value = (tx->sockets->traffic_class & ~BTL_IB_CODEPOINT_CE)
                      | (ect ? BTL_IB_CODEPOINT_ECT0 : BTL_IB_CODEPOINT_NOT_ECT);

    msg->msg_control = control;
    message_add_control(msg, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_TOS : IPV6_TCLASS, &value,
                        sizeof(value));
}

/* Copies all pieces of `run` datagrams into one piece, which it returns. */
static struct iovec call_gather(btl_ib_udp_call_t *call, const btl_ib_tx_t *first, int run)
{
    struct iovec all = {.iov_base = call->gathered};

    for (int i = 0; i < run; i++) {
        for (uint32_t j = 0; j < first[i].niov; j++) {
            memcpy(call->gathered, first[i].iov[j].iov_base, first[i].iov[j].iov_len);
            call->gathered += first[i].iov[j].iov_len;
        }
        all.iov_len += first[i].size;
    }
    return all;
}

/* Adds a message of `run` datagrams to a call. `to`: its receiver; NULL: the peer that the socket
 * is connected to. Writes its pieces from `iov` on, and returns the place behind them. */
static struct iovec *call_add_message(const btl_ib_udp_tx_t *tx, btl_ib_udp_call_t *call,
                                      const btl_ib_tx_t *first, int run,
                                      const btl_ib_udp_name_t *to, struct iovec *iov)
{
    struct msghdr *msg = &call->msg[call->count].msg_hdr;

    *msg = (struct msghdr){
        .msg_name = (void *) (uintptr_t) to,
        .msg_namelen = to == NULL ? 0 : btl_ib_udp_name_len(to),
        .msg_iov = iov,
    };
    if (run > 1) {
        message_set_segment(msg, call->control[call->count], first[0].size);
    }
    if (first->ect != call->socket->ect) {
        message_set_ect(tx, msg, call->control[call->count], first->ect);
    }
    if (run > 1 && first->size <= BTL_IB_UDP_GATHER_MAX) {
        *iov++ = call_gather(call, first, run);
    } else {
        for (int i = 0; i < run; i++) {
            for (uint32_t j = 0; j < first[i].niov; j++) {
                *iov++ = first[i].iov[j];
            }
        }
    }
    msg->msg_iovlen = (size_t) (iov - msg->msg_iov);
    call->datagrams[call->count++] = run;
    return iov;
}

/* Sets the socket of a call whose first datagram leaves with ECT(0) (`ect`) or without. */
static void call_choose_socket(const btl_ib_udp_tx_t *tx, btl_ib_udp_socket_t *socket, bool ect,
                               btl_ib_udp_call_t *call)
{
    call->socket = socket;
    if (ect != socket->ect || socket->unlike > 0) {
        btl_ib_udp_sockets_count_ect(tx->sockets, socket, ect);
    }
}

/* The way in which calls of a batch are made. It changes after the system has refused one. */
typedef struct attempt {
    bool gso;    /* datagrams are joined */
    bool single; /* each call has one message */
    int tries;   /* refusals so far */
} attempt_t;

/* Fills in a call with the first datagrams of a batch that go by one lane. Its socket is the one
 * that is connected to the peer, if all go to one peer that has such a socket; else the lane's
 * shared one. */
static void call_make(btl_ib_udp_tx_t *tx, const btl_ib_tx_t *first, int n,
                      const attempt_t *attempt, btl_ib_udp_call_t *call)
{
    const uint32_t most = attempt->single ? 1 : BTL_IB_UDP_SEND_MESSAGES;
    const lane_t lane = lane_of(tx, first);
    const btl_ib_udp_peer_t *peer = &tx->peers->peer[first->to];
    btl_ib_udp_socket_t *connected = connected_socket(tx, lane, peer);
    struct iovec *iov = call->iov;
    int usable = 1;

    n = n < BTL_IB_UDP_SEND_BATCH ? n : BTL_IB_UDP_SEND_BATCH;
    while (usable < n && lane_of(tx, &first[usable]) == lane) {
        connected = first[usable].to == first->to ? connected : NULL;
        usable++;
    }
    call_choose_socket(tx, connected != NULL ? connected : lane_socket(tx, lane), first->ect, call);
    call->count = 0;
    call->gathered = tx->gathered;
    for (int done = 0; done < usable && call->count < most;) {
        const int run = attempt->gso ? gso_run(first + done, usable - done) : 1;
        peer = &tx->peers->peer[first[done].to];
        iov = call_add_message(tx, call, first + done, run,
                               connected != NULL ? NULL : lane_name(peer, lane), iov);
        done += run;
    }
}

/* Fills in a call with one datagram, the usual case of short messages. The datagram's `iov` is used
 * in place. */
static void call_make_single(const btl_ib_udp_tx_t *tx, const btl_ib_tx_t *datagram,
                             btl_ib_udp_call_t *call)
{
    const lane_t lane = lane_of(tx, datagram);
    const btl_ib_udp_peer_t *peer = &tx->peers->peer[datagram->to];

    if (lane == LANE_LATENCY || tx->sockets->shared == 1) {
        btl_ib_udp_connected_count(tx->connected, datagram->to);
    }
    btl_ib_udp_socket_t *connected = connected_socket(tx, lane, peer);
    const btl_ib_udp_name_t *to = lane_name(peer, lane);
    call_choose_socket(tx, connected != NULL ? connected : lane_socket(tx, lane), datagram->ect,
                       call);
    call->count = 1;
    call->datagrams[0] = 1;
    call->msg[0].msg_hdr = (struct msghdr){
        .msg_name = connected != NULL ? NULL : (void *) (uintptr_t) to,
        .msg_namelen = connected != NULL ? 0 : btl_ib_udp_name_len(to),
        .msg_iov = (struct iovec *) (uintptr_t) datagram->iov,
        .msg_iovlen = datagram->niov,
    };
    if (datagram->ect != call->socket->ect) {
        message_set_ect(tx, &call->msg[0].msg_hdr, call->control[0], datagram->ect);
    }
}

/* ---- sending ---- */

/* Makes the system call. Returns how many messages were sent, or -1 with errno. */
static int call_submit(btl_ib_udp_call_t *call)
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

static bool error_is_full(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM;
}

/* Sends a datagram again, alone, after EMSGSIZE, which may have been the error of an earlier
 * datagram. Returns 0 or an errno; EMSGSIZE if this one is too large: then an event is kept for
 * poll(). */
static int call_again(const btl_ib_udp_tx_t *tx, const btl_ib_udp_call_t *call,
                      const btl_ib_tx_t *datagram)
{
    struct msghdr msg = call->msg[0].msg_hdr;

    (void) btl_ib_udp_errors_read(tx->errors, call->socket, datagram->to);
    msg.msg_iov = (struct iovec *) (uintptr_t) datagram->iov;
    msg.msg_iovlen = datagram->niov;
    const int error = sendmsg(call->socket->fd, &msg, MSG_DONTWAIT) < 0 ? errno : 0;
    if (error == EMSGSIZE) {
        (void) btl_ib_udp_errors_read(tx->errors, call->socket, datagram->to);
    }
    return error;
}

/*
 * Handles the refusal of the first message of a call. Returns
 *
 *      0       try again: `attempt` was changed, or the error was that of an earlier datagram
 *      -1      the datagram was sent here
 *      errno   it cannot be sent
 */
static int call_refused(btl_ib_udp_tx_t *tx, const btl_ib_udp_call_t *call,
                        const btl_ib_tx_t *first, attempt_t *attempt, int error)
{
    char text[64];

    if (error_is_full(error)) {
        return error;
    }
    btl_ib_udp_errors_called(tx->errors, error);
    if (error != EMSGSIZE
        && btl_ib_udp_errors_read(tx->errors, call->socket, BTL_IB_ADDR_UNKNOWN)) {
        return 0;
    }
    if (call->count > 1 && btl_ib_udp_is_refusal(error)) { /* sendmsg() may be allowed */
        attempt->single = true;
        return 0;
    }
    if (call->datagrams[0] > 1) {
        /* Send them one by one. A device that makes no checksums cannot split (EIO), and older
         * kernels give EINVAL if the path carries less than they thought. */
        attempt->gso = false;
        if (error == EMSGSIZE) {
            (void) btl_ib_udp_errors_read(tx->errors, call->socket, first->to);
        } else if (error == EIO) {
            tx->gso = false;
            BTL_IB_UDP_LOG(tx->log, 1, "the device cannot cut joined datagrams: they are sent %s",
                           "one by one");
        }
        return 0;
    }
    if (error == EMSGSIZE && first->size <= tx->max_datagram) {
        error = call_again(tx, call, first);
    }
    if (error != 0 && !error_is_full(error) && !tx->error_reported) {
        tx->error_reported = true;
        BTL_IB_UDP_LOG(
            tx->log, 1, "cannot send %u bytes to %s: %s", first->size,
            btl_ib_ip_port_text(&tx->peers->peer[first->to].name.any, text, sizeof(text)),
            strerror(error));
    }
    return error == 0 ? -1 : error;
}

/* ---- sending a batch ---- */

/* Makes calls until all datagrams are sent, or one is refused for good. The kernel may take only
 * some messages of a call. A message that it refuses is tried again if that can help. */
int btl_ib_udp_send(btl_ib_udp_tx_t *tx, const btl_ib_tx_t *batch, int n, int *error)
{
    btl_ib_udp_call_t *call = &tx->call;
    attempt_t attempt = {.gso = tx->gso};
    int done = 0;

    while (done < n) {
        if (n - done == 1) {
            call_make_single(tx, batch + done, call);
        } else {
            call_make(tx, batch + done, n - done, &attempt, call);
        }
        const int messages = call_submit(call);
        for (int i = 0; i < messages; i++) {
            done += call->datagrams[i];
        }
        if (messages > 0) {
            /* The call did not return the error of the next message: read it from the queue. */
            if (messages < (int) call->count) {
                (void) btl_ib_udp_errors_read(tx->errors, call->socket, batch[done].to);
            }
            continue;
        }
        const int refusal = call_refused(tx, call, &batch[done], &attempt, errno);
        if (refusal < 0) {
            done++;
        } else if (refusal > 0 || ++attempt.tries == TRIES_MAX) {
            *error = refusal > 0 ? refusal : EAGAIN;
            break;
        }
    }
    return done;
}
