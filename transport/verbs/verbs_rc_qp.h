/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* RC connections, and their queue pairs. */

#ifndef BTL_IB_VERBS_RC_QP_H
#define BTL_IB_VERBS_RC_QP_H

#include <stdint.h>

#include "verbs_device.h"
#include "verbs_library.h"
#include "verbs_formats.h"
#include "verbs_rc_credit.h"
#include "verbs_rc_work_queues.h"
#include "verbs_rc_eager.h"
#include "verbs_rc_rdma.h"

/* ---- queue pairs ---- */

/*
 * Sends a request (connect), accepts a peer's (accept), and completes ours when an event says that
 * the peer has accepted it (establish). `theirs` is the peer's MTU (enum ibv_mtu; 0: not known).
 * Each returns 0 or an errno.
 *
 * rdma_cm can set no service level, and no other MTU than the route's. If the user asks for either,
 * or the peer's MTU is not the port's, the queue pair is hidden from librdmacm until it is
 * connected, and moved through its states here. (The peer's answer is
 * RDMA_CM_EVENT_CONNECT_RESPONSE then.) Both ends choose the same MTU, the smaller one.
 */
int btl_ib_rc_qp_connect(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, uint8_t theirs,
                         struct rdma_conn_param *param);
int btl_ib_rc_qp_accept(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, uint8_t theirs,
                        struct rdma_conn_param *param);
int btl_ib_rc_qp_establish(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, uint8_t theirs,
                           struct ibv_qp *qp);

/* ---- connections ---- */

/*
 * RC connections. A connection is a queue pair with its buffers and rings. It is made when there is
 * something to send, or when the peer asks, and is gone when it breaks. The next connection of the
 * channel takes nothing over from it.
 *
 *      peer --- channel[0] --- connection  QP  <----------------------------->  QP
 *           |                  send queue, receive buffers, credit word; perhaps
 *           |                  an eager ring
 *           +-- channel[1]     (not connected)
 *           +-- channel[BTL_IB_RC_RDMA_CHANNEL]   operations on memory, in both directions
 *
 *      memory of a connection:  credit line | eager ring | tails | receive buffers | bounce buffers
 *
 * Stages, and what moves a connection from one to the next: verbs_rc_cm.h.
 */

enum { BTL_IB_RC_QP_BUCKETS = 1024 };

struct btl_ib_rc_peer;

typedef enum btl_ib_rc_stage {
    BTL_IB_RC_RESOLVING, /* finding the peer's address */
    BTL_IB_RC_ROUTING,   /* finding the route to it */
    BTL_IB_RC_ASKING,    /* our request is on its way */
    BTL_IB_RC_ACCEPTED, /* we accepted the peer's request; its first message opens the connection */
    BTL_IB_RC_OPEN,
    BTL_IB_RC_AGREED, /* as OPEN, but no data is sent: the peer may close it (verbs_rc_idle.h) */
    BTL_IB_RC_CLOSED, /* the queue pair is gone or going; what it held is being given back */
} btl_ib_rc_stage_t;

/* The silence of a connection (verbs_rc_idle.h). */
typedef struct btl_ib_rc_idle {
    uint32_t from;      /* what had been sent and received in all, at the last look */
    uint32_t looks;     /* looks in a row that found nothing new */
    uint32_t asked_at;  /* `looks` when the peer was last asked; 0: not in this silence */
    uint32_t questions; /* asked so far */
    uint32_t asked;     /* number of the question that is not answered yet; 0: none */
    bool spoilt;   /* the connection was used since the question: it stays, whatever the answer */
    uint32_t owed; /* number of the peer's question that is still to be answered; 0: none */
    uint32_t unwanted; /* number of an AGREE that is still to be answered by RESUME; 0: none */
} btl_ib_rc_idle_t;

typedef struct btl_ib_rc_conn {
    struct btl_ib_rc_conns *all;
    struct btl_ib_rc_peer *peer; /* NULL once it is closed */
    uint64_t peer_cookie;
    uint8_t channel;
    bool initiator; /* we asked, not the peer */
    btl_ib_rc_stage_t stage;
    uint64_t begun_at;      /* us */
    uint64_t opened_at;     /* us; 0: it was never open */
    uint64_t suspect_until; /* us; a send failed, perhaps because the port goes down: the connection
                             * counts as broken then; 0: no send failed */

    btl_ib_rc_idle_t idle; /* owned by verbs_rc_idle.c */

    /* Owned by verbs_rc_watch.c: */
    uint32_t waits;      /* looks in a row that found it waiting, and nothing completed */
    uint32_t waits_from; /* sq.ring.completed at the last look */
    bool roused;         /* it was roused at least once */

    struct rdma_cm_id *id;
    bool answer_due; /* iWARP: the peer has not answered; destroying the id would wait for that */
    struct ibv_qp *qp;
    btl_ib_rc_cq_t *cq;
    uint32_t cq_entries; /* entries of `cq` that are reserved for this connection */
    uint8_t *memory;     /* of memory_size bytes */
    size_t memory_size;
    struct ibv_mr *mr;

    btl_ib_rc_sq_t sq;
    btl_ib_rc_credit_t credit;
    btl_ib_rc_rx_t rx; /* count 0: shared buffers */
    btl_ib_rc_eager_tx_t eager_tx;
    btl_ib_rc_eager_t *eager; /* NULL: there is no ring */
    btl_ib_rc_rdma_t *rdma;   /* NULL: it carries messages */
    uint32_t received;        /* total of datagrams that came by sends */
    uint32_t held;            /* buffers handed up and not given back */
    bool reporting;           /* it is in all->reporting */

    bool draining; /* closed; the queue pair stays until its shared buffers have come back, */
    uint64_t drain_until; /* us; but not longer than until then */
    bool last_wqe;        /* the device takes no more shared buffers for it */

    uint32_t slot;                  /* index in all->slot */
    uint32_t number;                /* of the queue pair, while it is in a bucket */
    struct btl_ib_rc_conn *next_qp; /* in a bucket */
    struct btl_ib_rc_conn *next_closed;
    struct btl_ib_rc_conn *next_reporting;
} btl_ib_rc_conn_t;

typedef struct btl_ib_rc_slot {
    btl_ib_rc_conn_t *conn;
    uint32_t epoch;     /* counts the connections that had the slot */
    uint32_t next_free; /* index + 1; 0: none */
} btl_ib_rc_slot_t;

/* All connections of a transport. */
typedef struct btl_ib_rc_conns {
    const btl_ib_rc_port_t *port;
    const btl_ib_verbs_state_t *state;
    const btl_ib_rc_address_t *self;
    const btl_ib_rc_rxqs_t *rxqs;
    btl_ib_rc_cqs_t *cqs;
    btl_ib_rc_eagers_t *eagers;
    btl_ib_rc_sqs_t sqs;
    btl_ib_rc_slot_t *slot;
    uint32_t slots;
    uint32_t free_slot;                                /* index + 1, 0: none */
    btl_ib_rc_conn_t *qp_bucket[BTL_IB_RC_QP_BUCKETS]; /* connections with shared buffers */
    btl_ib_rc_conn_t *reporting; /* a list: sends are over whose events are still to be made */
    btl_ib_rc_conn_t *owing;     /* one connection, whose idle buffers the next poll posts */
    btl_ib_rc_conn_t *closed;    /* a list: buffers are held, or events are still to be made */
    uint64_t bounce_bytes;       /* of the bounce buffers of all connections */
    uint32_t attempts;           /* total of our attempts to connect */
    uint32_t pending;            /* number of connections that are neither open nor closed */
    uint32_t draining;           /* number of those that are draining */
    uint32_t suspected;          /* number of those with suspect_until */
} btl_ib_rc_conns_t;

/* ---- life ---- */

/* Returns a new connection, without a queue pair yet; NULL: memory is short. `id` is that of the
 * peer's request; NULL: we ask. */
btl_ib_rc_conn_t *btl_ib_rc_conn_new(btl_ib_rc_conns_t *conns, struct btl_ib_rc_peer *peer,
                                     uint64_t peer_cookie, uint8_t channel, struct rdma_cm_id *id);

/* Makes a connection's queue pair and buffers, all of them posted. conn->id has a device. `peer` is
 * for the log, and must live until the connection is closed. Returns 0 or a negative errno. */
int btl_ib_rc_conn_equip(btl_ib_rc_conn_t *conn, const btl_ib_rc_address_t *peer);

/* Returns the parameters of a request or reply to the peer with cookie `to`; `bytes`, which has
 * BTL_IB_RC_PRIVATE_MAX, gets the private data, and must live as long. Packets are to be no larger
 * than `mtu_most` (enum ibv_mtu; 0: than the port's). */
struct rdma_conn_param btl_ib_rc_conn_offer(const btl_ib_rc_conn_t *conn, uint64_t to,
                                            uint8_t mtu_most, uint8_t *bytes);

/* Notes what the peer's request or reply says of its side: buffers, credit word, eager ring,
 * reads. */
void btl_ib_rc_conn_join(btl_ib_rc_conn_t *conn, const btl_ib_rc_params_t *params);

/* Makes a connection OPEN, so that it can be sent on. */
void btl_ib_rc_conn_open(btl_ib_rc_conn_t *conn);

/*
 * Closes a connection. The queue pair is destroyed at once, or when the shared buffers that it took
 * have come back; with that, all sends are over. The memory stays while the engine holds a part of
 * it. Only verbs_rc_cm.c calls this, after it has taken the connection out of the peer's channel.
 */
void btl_ib_rc_conn_close(btl_ib_rc_conn_t *conn);

/* Notes that the peer answered our request. If the connection was closed meanwhile, it is released
 * now, and may be gone after the call. */
void btl_ib_rc_conn_answered(btl_ib_rc_conn_t *conn);

/* Notes that the device could not send for a connection, perhaps because its port goes down. If no
 * event says so within 0.2 s the connection counts as broken. */
void btl_ib_rc_conn_suspect(btl_ib_rc_conn_t *conn);

/* Notes that the device takes no more shared buffers for a queue pair, which may be one of ours. */
void btl_ib_rc_conns_last_wqe(btl_ib_rc_conns_t *conns, const struct ibv_qp *qp);

/* Destroys queue pairs of draining connections that wait no longer. `cq` was read until empty. */
void btl_ib_rc_conns_drained(btl_ib_rc_conns_t *conns, const btl_ib_rc_cq_t *cq);

/* Destroys the queue pairs of all connections, which are closed: the device touches none of their
 * memory any more. */
void btl_ib_rc_conns_release(btl_ib_rc_conns_t *conns);

/* Frees all connections and their memory, also what the engine holds; after release. */
void btl_ib_rc_conns_free(btl_ib_rc_conns_t *conns);

/* ---- traffic ---- */

/* Returns the connection that a completion belongs to; NULL: it is closed. */
btl_ib_rc_conn_t *btl_ib_rc_conns_of(btl_ib_rc_conns_t *conns, const struct ibv_wc *wc);

/* Completes send requests with numbers below `completed`; operations on memory end with `error`. */
void btl_ib_rc_conn_sent(btl_ib_rc_conn_t *conn, uint32_t completed, int error);

/* Makes events of sends and operations that are over. Returns how many. */
int btl_ib_rc_conns_report(btl_ib_rc_conns_t *conns, btl_ib_event_t *events, int max);

/* Takes back buffers that were handed up. Returns true if the connection is still there to post
 * them. */
bool btl_ib_rc_conn_unhold(btl_ib_rc_conn_t *conn, int buffers);

/* ---- memory ---- */

/* Returns the bytes that are mapped for a connection, its buffers among them. */
static inline size_t btl_ib_rc_conn_mapped(const btl_ib_rc_eagers_t *eagers, uint8_t channel,
                                           uint32_t count, uint32_t size)
{
    return BTL_IB_VERBS_LINE + btl_ib_rc_eager_bytes(eagers, channel)
           + btl_ib_rc_eager_tails(eagers, channel) + (size_t) count * btl_ib_rc_rx_stride(size);
}

/* Returns the bytes of the heap that a connection takes. */
static inline uint64_t btl_ib_rc_conn_heap(uint32_t depth, uint32_t count)
{
    return sizeof(btl_ib_rc_conn_t) + depth * sizeof(void *)
           + count * sizeof(btl_ib_verbs_rx_buffer_t);
}

/* Returns all bytes that so many connections for operations on memory take. */
uint64_t btl_ib_rc_conns_rdma_bytes(const btl_ib_rc_port_t *port, uint64_t connections);

/* Returns how many of `peers` have a connection of that channel at once, for a forecast: the
 * connections of the others are closed as idle (verbs_rc_idle.h). */
uint32_t btl_ib_rc_conns_at_once(const btl_ib_open_rc_t *open, uint32_t channel, uint32_t peers);

/* Returns the bytes of the table of slots for that many connections. */
uint64_t btl_ib_rc_conns_slots(uint64_t connections);

#endif
