/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Queue pairs of a UD transport, and the port that they are on. */

#ifndef BTL_IB_VERBS_UD_QP_H
#define BTL_IB_VERBS_UD_QP_H

#include "transport.h"
#include "verbs_device.h"
#include "verbs_formats.h"

/* ---- the port ---- */

enum {
    BTL_IB_UD_PKEY_NUMBER = 0x7fff, /* the bits of a P_Key that name the partition */
    BTL_IB_UD_PKEY_FULL = 0x8000,   /* a full member, which may talk to all others */
};

typedef struct btl_ib_ud_port {
    btl_ib_verbs_t verbs;
    uint16_t pkey; /* of the partition, BTL_IB_UD_PKEY_FULL included */
    uint16_t pkey_index;
    uint8_t service_level;
    uint8_t traffic_class;
    btl_ib_verbs_gid_t gid; /* what peers know the port by */
} btl_ib_ud_port_t;

/* ---- queue pairs ---- */

/*
 * The queue pairs of a UD transport, with their receive buffers and send rings.
 *
 * Each receive queue has a queue pair of its own with buffers of its size, so that a burst of long
 * datagrams leaves room for acknowledgements. A datagram for one of the peer's queues leaves by our
 * queue pair of that number: the device serves queue pairs in turns, so an acknowledgement does not
 * wait for long datagrams that were posted before it. Where channels are to share one queue pair
 * there is one, with buffers that fit the largest queue. All queue pairs have one completion queue,
 * or each its own.
 */

enum { BTL_IB_VERBS_GRH = 40 }; /* bytes before the payload of each received datagram */

typedef struct btl_ib_ud_qp {
    struct ibv_qp *qp;
    struct ibv_cq *cq; /* for both sends and receives */

    /* Receive buffers. */
    btl_ib_verbs_rx_pool_t rx;
    uint32_t size;      /* bytes that a buffer holds besides the GRH */
    uint32_t depth;     /* buffers wanted for datagrams that arrive before anyone polls */
    uint32_t depth_max; /* buffers that the queue pair takes, spare ones included */
    uint32_t batch;     /* buffers that may lie idle: num less the low watermark */
    uint32_t unspared;  /* of these, those that are no spare ones: of S */
    uint32_t handed_up; /* spare buffers because handlers have some */
    uint32_t watermark; /* idle buffers are posted if at most this many are, */
    uint32_t urgent;    /* or before handlers give back what they get if at most this many are */
    uint32_t spare;     /* buffers beyond `depth`, as some lie idle or are with handlers */
    uint32_t first;     /* buffers of `depth` that are made at first */
    uint32_t per_peer;  /* buffers that each peer adds to `depth` */
    uint32_t low;       /* if fewer are posted the queue pair grows; 0: it does not any more */
    uint32_t made;      /* buffers that there are */
    bool empty;         /* it was found without a posted one, and counted, and has none yet */
    struct btl_ib_ud_slab *slabs;

    uint32_t tx_depth; /* a power of two */
    btl_ib_verbs_send_ring_t ring;
    bool broken;       /* a send failed: nothing is posted until the queue pair is repaired */
    bool flushed;      /* the whole queue pair failed: receive buffers come back unused */
    uint32_t restarts; /* how often the queue pair was reset after that */
} btl_ib_ud_qp_t;

typedef struct btl_ib_ud_qps {
    const btl_ib_ud_port_t *port;
    const btl_ib_verbs_t *verbs; /* the port's */
    const btl_ib_verbs_state_t *state;
    struct ibv_cq *cq[BTL_IB_UD_QPS_MAX]; /* by queue pair, or one of all */
    uint32_t cq_count;
    uint32_t qkey;
    uint32_t inline_size; /* that all queue pairs take */
    uint32_t count;
    bool error_logged; /* that a send failed: the first time only */
    bool broken;       /* some queue pair is */
    bool completed;    /* sends are over that may make events */
    bool unposted;     /* the device did not take all buffers that were to be posted */
    uint64_t emptied;  /* how often a queue pair was found without a buffer: it drops what comes */
    btl_ib_ud_qp_t qp[BTL_IB_UD_QPS_MAX];
} btl_ib_ud_qps_t;

/* Makes all queue pairs, able to send and receive, with their buffers posted; `channel` is that of
 * completions. Returns 0 or a negative errno after logging why; free follows in either case. */
int btl_ib_ud_qps_open(btl_ib_ud_qps_t *qps, const btl_ib_ud_port_t *port,
                       const btl_ib_verbs_state_t *state, const btl_ib_open_params_t *params,
                       uint32_t qkey, struct ibv_comp_channel *channel);

/* Adds what the queue pairs of an open with these parameters take. */
void btl_ib_ud_qps_memory_estimate(const btl_ib_open_params_t *params,
                                   const btl_ib_transport_attr_t *attr, uint32_t peers,
                                   btl_ib_memory_estimate_t *estimate);

/* Stops the device from touching memory. Free: the memory goes. */
void btl_ib_ud_qps_stop(btl_ib_ud_qps_t *qps);
void btl_ib_ud_qps_free(btl_ib_ud_qps_t *qps);

/* Returns the queue pair, of `count`, that serves a channel. */
static inline uint32_t btl_ib_ud_qp_of(uint32_t channel, uint32_t count)
{
    return channel < count ? channel : count - 1;
}

/* ---- receiving ---- */

/* Returns how many datagrams can arrive before anyone polls: qp->depth, unless there will never be
 * so many buffers, less those that may lie idle then. */
static inline uint32_t btl_ib_ud_qp_rx_depth(const btl_ib_ud_qp_t *qp)
{
    const uint32_t buffers = qp->low > 0 ? qp->depth_max : qp->made;
    const uint32_t most = btl_ib_verbs_min(qp->depth, buffers - qp->spare);

    return qp->unspared == 0 ? most
                             : most - (uint32_t) ((uint64_t) qp->unspared * most / qp->depth);
}

/* Makes buffers for a new peer, which may send some datagrams before it is granted more. */
void btl_ib_ud_qps_add_peer(btl_ib_ud_qps_t *qps);

/* Doubles the buffers of queue pairs that began small and ran low. */
void btl_ib_ud_qps_grow_low(btl_ib_ud_qps_t *qps);

/* Posts idle buffers where no more are posted than the low watermark; if `handlers` are about to
 * get some, only where these are more than spare ones. Returns 0 or an errno. If a device does not
 * take all now `unposted` is set. */
int btl_ib_ud_qps_post_idle(btl_ib_ud_qps_t *qps, bool handlers);

/* Takes a buffer back that was not used because the queue pair failed. */
void btl_ib_ud_qp_flushed(btl_ib_ud_qps_t *qps, btl_ib_verbs_rx_buffer_t *buffer);

/* ---- sending ---- */

/* Returns the id of a send request of queue pair `qp`; ids of receives are pointers, hence even. */
static inline uint64_t btl_ib_ud_qp_send_id(uint32_t qp, uint32_t number)
{
    return (uint64_t) number << 32 | (uint64_t) qp << 1 | 1;
}

static inline bool btl_ib_ud_is_send(const struct ibv_wc *wc)
{
    return wc->wr_id & 1;
}

/* Takes the completion of a send, and of all before it. Returns false if the send failed. */
bool btl_ib_ud_qps_sent(btl_ib_ud_qps_t *qps, const struct ibv_wc *wc);

/* Makes SENT events. Returns how many. */
int btl_ib_ud_qps_report(btl_ib_ud_qps_t *qps, btl_ib_event_t *events, int max);

/* Makes queue pairs that failed usable again once the device is done with them. Returns 0, or a
 * negative errno if one cannot be repaired. */
int btl_ib_ud_qps_repair(btl_ib_ud_qps_t *qps);

/* Logs that a send failed, the first time. */
static inline void btl_ib_ud_qps_log_error(btl_ib_ud_qps_t *qps, const char *text)
{
    if (!qps->error_logged) {
        qps->error_logged = true;
        BTL_IB_VERBS_LOG(qps->verbs, 1, "%s: a send failed: %s", qps->verbs->base.name, text);
    }
}

#endif
