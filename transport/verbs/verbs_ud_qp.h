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

/*
 * Receive buffers of a queue pair. The engine grants peers `depth` buffers; the spare ones exist so
 * that this many are posted even while others lie idle, or are with handlers of events:
 *
 *      |<--------------- depth --------------->|<------------- spare ------------->|
 *      | first: made at once | made when needed | reserve | batch of P | handed_up |
 *
 * A buffer is posted, idle (waits for the next post), or with a handler. So
 *
 *      rx.posted + rx.idle_count <= made <= made_max
 *
 * Who changes what:
 *
 *      open           chooses all of them, from btl_ib_receive_queues; made = first + spare
 *      a new peer     depth += per_peer; if made < depth + spare, made grows by a quarter
 *      a peer leaves  depth -= per_peer; the buffers stay
 *      poll()         each completion takes one from rx.posted. If rx.posted < limit, made is
 *                     doubled. If rx.posted <= urgent, idle buffers are posted at once; else they
 *                     wait for repost(), as handlers soon give back what they are about to get
 *      repost()       if rx.posted <= watermark, all idle buffers are posted by one call
 *      made grows     watermark and urgent follow; if it cannot grow any more, limit becomes 0
 *
 * Where the device takes fewer than depth + spare buffers, depth is what is left after a small
 * reserve, and nothing lies idle (qp_plan_depth()).
 */
typedef struct btl_ib_ud_qp {
    struct ibv_qp *qp;
    struct ibv_cq *cq; /* for both sends and receives */

    /* Receive buffers. Chosen when the queue pair is opened: */
    uint32_t size;         /* bytes that a buffer holds besides the GRH */
    uint32_t first;        /* buffers of `depth` that are made at once */
    uint32_t per_peer;     /* buffers that each peer adds to `depth` */
    uint32_t spare;        /* buffers beyond `depth` */
    uint32_t handed_up;    /* of `spare`: those that handlers have at once, as a rule */
    uint32_t batch;        /* buffers that may lie idle: num less the low watermark */
    uint32_t batch_shared; /* of `batch`: those of queues of kind S, which are no spare ones */
    uint32_t made_max;     /* buffers that the device takes, spare ones included */

    /* Changing: */
    uint32_t depth;     /* buffers wanted for datagrams that arrive before anyone polls */
    uint32_t made;      /* buffers that there are */
    uint32_t limit;     /* `made` is doubled if fewer than this are posted; 0: no longer */
    uint32_t watermark; /* repost() posts if at most this many are posted */
    uint32_t urgent;    /* poll() posts if at most this many are posted */
    bool empty; /* the device was found without a buffer, which was counted, and has none yet */
    btl_ib_verbs_rx_pool_t rx;
    struct btl_ib_ud_slab *slabs; /* memory of all buffers */
    uint64_t refused_since;       /* us: since when the device, which has none, takes none; 0: it
                                   * was not seen to, since it was found without */

    /* Sends. */
    uint32_t tx_depth; /* a power of two */
    btl_ib_verbs_send_ring_t ring;
    uint32_t unsignaled; /* requests since the last one that makes a completion */
    bool broken;         /* a send failed: nothing is posted until the queue pair is repaired */
    bool flushed;        /* the whole queue pair failed: receive buffers come back unused */
    uint32_t restarts;   /* how often the queue pair was reset after that */
} btl_ib_ud_qp_t;

typedef struct btl_ib_ud_qps {
    const btl_ib_ud_port_t *port;
    const btl_ib_verbs_t *verbs; /* the port's */
    const btl_ib_verbs_state_t *state;
    struct ibv_cq *cq[BTL_IB_UD_QPS_MAX]; /* one for each queue pair, or one for all */
    uint32_t cq_count;
    uint32_t qkey;
    uint32_t inline_size; /* bytes that a request of any queue pair can carry itself */
    uint32_t count;       /* of queue pairs */
    bool error_logged;    /* the first failed send was logged */
    bool empty_logged;    /* that more buffers would help was logged */
    bool broken;          /* a queue pair is */
    bool completed;       /* sends are over whose events are still to be made */
    bool unposted;        /* the device did not take all buffers that were to be posted */
    uint64_t emptied; /* how often a queue pair was found without a buffer: it drops what comes */
    btl_ib_ud_qp_t qp[BTL_IB_UD_QPS_MAX];
} btl_ib_ud_qps_t;

/* Makes all queue pairs, able to send and receive, with their buffers posted. Completions make
 * events of `channel`. Returns 0 or a negative errno after logging why; stop and free follow in
 * either case. */
int btl_ib_ud_qps_open(btl_ib_ud_qps_t *qps, const btl_ib_ud_port_t *port,
                       const btl_ib_verbs_state_t *state, const btl_ib_open_params_t *params,
                       uint32_t qkey, struct ibv_comp_channel *channel);

/* Adds the memory that the queue pairs take for so many peers, if they are opened with these
 * parameters. */
void btl_ib_ud_qps_memory_estimate(const btl_ib_open_params_t *params,
                                   const btl_ib_transport_attr_t *attr, uint32_t peers,
                                   btl_ib_memory_estimate_t *estimate);

/* Destroys the queue pairs: the device touches no memory any more. */
void btl_ib_ud_qps_stop(btl_ib_ud_qps_t *qps);

/* Frees buffers, send rings and completion queues, after stop. */
void btl_ib_ud_qps_free(btl_ib_ud_qps_t *qps);

/* Returns the queue pair, of `count`, that serves a channel. */
static inline uint32_t btl_ib_ud_qp_of(uint32_t channel, uint32_t count)
{
    return channel < count ? channel : count - 1;
}

/* ---- receiving ---- */

/* Returns how many datagrams can arrive before anyone polls: `depth`, or what the device takes,
 * less the share of it that may lie idle (batch_shared). */
static inline uint32_t btl_ib_ud_qp_rx_depth(const btl_ib_ud_qp_t *qp)
{
    const uint32_t buffers = qp->limit > 0 ? qp->made_max : qp->made;
    const uint32_t most = btl_ib_verbs_min(qp->depth, buffers - qp->spare);

    return qp->batch_shared == 0
               ? most
               : most - (uint32_t) ((uint64_t) qp->batch_shared * most / qp->depth);
}

/* Makes buffers for a new peer, which may send some datagrams before it is granted more. If memory
 * is short, the peer shares those that there are. */
void btl_ib_ud_qps_add_peer(btl_ib_ud_qps_t *qps);

/* Ends what add_peer began. The buffers stay, for the next peer. */
void btl_ib_ud_qps_remove_peer(btl_ib_ud_qps_t *qps);

/* Doubles the buffers of queue pairs that began with few and have fewer than `limit` posted. */
void btl_ib_ud_qps_grow_low(btl_ib_ud_qps_t *qps);

/* Posts idle buffers of queue pairs that have at most `watermark` posted; if `polling`, at most
 * `urgent`, as handlers are about to get some and give them back. Returns 0, or an errno: the
 * device has failed. If the device has no room for all of them now, `unposted` is set: call
 * again. */
int btl_ib_ud_qps_post_idle(btl_ib_ud_qps_t *qps, bool polling);

/* Notes which queue pairs have idle buffers and none posted after post_idle(), which left
 * `unposted` set. Returns true if one had none for so long that what refuses them will not pass:
 * the device has failed. */
bool btl_ib_ud_qps_note_refused(btl_ib_ud_qps_t *qps, uint64_t now);

/* Takes a buffer back that the device returned unused because the queue pair failed, and notes that
 * the queue pair is to be restarted. */
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

/* Takes the completion of a send, which ends all sends before it, too. Returns false if the send
 * failed. */
bool btl_ib_ud_qps_sent(btl_ib_ud_qps_t *qps, const struct ibv_wc *wc);

/* Makes at most `max` SENT events of sends that are over. Returns how many. */
int btl_ib_ud_qps_report(btl_ib_ud_qps_t *qps, btl_ib_event_t *events, int max);

/* Makes queue pairs that failed usable again, each as soon as the device has returned all its
 * requests. Returns 0, or a negative errno if one cannot be repaired. */
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
