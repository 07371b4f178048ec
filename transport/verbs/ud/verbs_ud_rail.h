/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the files of transport "verbs" over UD queue pairs share, nobody else's business:
 *
 *   verbs_ud_peers.c  addresses of peers: as published, as handles, as found in what arrives
 *   verbs_ud_queue.c  making the queue pairs and their buffers
 *   verbs_ud_send.c   datagrams -> work requests, completions -> SENT events
 *   verbs_ud_recv.c   completions -> events, buffers -> work requests
 *   verbs_ud_wake.c   sleeping until there is something to poll
 *   verbs_ud.c        the transport made of them
 *
 * Each receive queue of ours has a queue pair to itself, with buffers of its size, so that a burst of long
 * datagrams leaves room for acknowledgements. What is meant for one of the peer's queues is sent from our queue
 * pair of that number: the device serves them in turns, so an acknowledgement does not wait for the long
 * datagrams that were posted before it. All queue pairs share one completion queue: one look finds everything.
 */

#ifndef BTL_IB_VERBS_UD_STATE_H
#define BTL_IB_VERBS_UD_STATE_H

#include "verbs_port.h"

enum {
    BTL_IB_UD_QPS_MAX = 4, /* queue pairs of one port; queues beyond that share the last one */
    BTL_IB_UD_BATCH = 64,  /* datagrams in one send() */
    BTL_IB_UD_POLL = 32,   /* completions that are read at once */
    BTL_IB_UD_ASK = 1024,  /* polls between two questions what the device has to say */
};

/* What a peer publishes, and what tells who sent something. */
typedef struct btl_ib_ud_address {
    union ibv_gid gid;
    uint32_t qkey;
    uint16_t lid;
    uint16_t pkey;
    uint8_t mtu;   /* of its port: enum ibv_mtu, 0: not told */
    uint8_t count; /* of its queue pairs, 1..BTL_IB_UD_QPS_MAX */
    uint32_t qpn[BTL_IB_UD_QPS_MAX];
} btl_ib_ud_address_t;

/* A port that peers are behind: what an address handle stands for. */
typedef struct btl_ib_ud_host {
    union ibv_gid gid;
    uint16_t lid; /* 0: datagrams for it, and from it, carry a GRH */
    uint32_t users;
    uint32_t
        next; /* of the same hash, of those that leave, or of the free ones; index + 1, 0: none */
    struct ibv_ah *ah;
    uint32_t last[BTL_IB_UD_QPS_MAX]; /* number of the last send there by each queue pair of ours */
} btl_ib_ud_host_t;

typedef struct btl_ib_ud_peer {
    uint32_t host;  /* index */
    uint32_t users; /* addr_add() less addr_remove(); 0: free */
    uint32_t qkey;
    uint32_t count;                  /* of its queue pairs */
    uint32_t qpn[BTL_IB_UD_QPS_MAX]; /* sorted by the queue that they serve */
    uint32_t
        next[BTL_IB_UD_QPS_MAX]; /* of the same hash, as in `bucket`; [0] of free ones: index + 1 */
} btl_ib_ud_peer_t;

typedef struct btl_ib_ud_peers {
    btl_ib_ud_host_t *host;
    uint32_t *host_bucket; /* a power of two of them; index + 1 of the first, 0: none */
    uint32_t hosts;        /* of `host` that were ever used */
    uint32_t host_room;
    uint32_t host_free; /* index + 1 of the first free one, 0: none */
    uint32_t leaving;   /* the same of those that nobody uses, but sends that are not over */
    btl_ib_ud_peer_t *peer;
    uint32_t *bucket; /* by host and queue pair: index * BTL_IB_UD_QPS_MAX + which + 1, 0: none */
    uint32_t count;   /* of `peer` that were ever used */
    uint32_t room;    /* of `peer`; BTL_IB_UD_QPS_MAX times as many buckets */
    uint32_t free;    /* index + 1 of the first free one, 0: none */
} btl_ib_ud_peers_t;

typedef struct btl_ib_ud_queue btl_ib_ud_queue_t;

/* A receive buffer. What posts it is made once. */
typedef struct btl_ib_ud_buffer {
    struct ibv_recv_wr wr;
    struct ibv_sge sge;
    btl_ib_ud_queue_t *queue;
    uint8_t *data; /* behind the GRH */
} btl_ib_ud_buffer_t;

/* Buffers that were made together. */
typedef struct btl_ib_ud_slab {
    struct btl_ib_ud_slab *next;
    void *memory;
    struct ibv_mr *mr;
    btl_ib_ud_buffer_t buffer[];
} btl_ib_ud_slab_t;

/* A queue pair. */
struct btl_ib_ud_queue {
    struct ibv_qp *qp;

    /* Receiving. There are `lazy` buffers more than can be counted on, which wait until they are posted by one
     * call. */
    uint32_t size; /* bytes of ours that a buffer holds */
    uint32_t
        depth; /* datagrams that are to arrive before anyone polls, once it has grown to that */
    uint32_t depth_max; /* more than that the queue pair does not take, `lazy` included */
    uint32_t first;     /* of `depth`, with which it begins */
    uint32_t per_peer;  /* buffers that each peer adds to `depth` */
    uint32_t low;       /* with fewer than this posted it grows; 0: it has grown */
    uint32_t lazy;
    uint32_t made; /* buffers */
    uint32_t posted_buffers;
    btl_ib_ud_slab_t *slabs;
    struct ibv_recv_wr *idle; /* to be posted */
    struct ibv_recv_wr **idle_last;
    uint32_t idle_count;

    /* Sending: a ring of the contexts of what was posted. Numbers only grow; the place is their rest. */
    void **sent;         /* NULL: nothing of it is in use, so it makes no event */
    uint32_t tx_depth;   /* a power of two */
    uint32_t posted;     /* number of the next */
    uint32_t completed;  /* those before are done with */
    uint32_t reported;   /* those before made their events */
    uint32_t unsignaled; /* since the last that will complete by itself */
    bool broken;         /* a send failed: the device takes no others until it was set right */
    bool flushed;        /* all failed: receive buffers come back unused */
    uint32_t revivals;   /* how often it was made anew after that */
};

typedef struct btl_ib_ud {
    btl_ib_verbs_t verbs;
    struct ibv_cq *cq;
    struct ibv_comp_channel *channel;
    uint32_t qkey;
    uint32_t queue_count;
    btl_ib_ud_queue_t queue[BTL_IB_UD_QPS_MAX];
    btl_ib_ud_peers_t peers;

    struct ibv_wc wc[BTL_IB_UD_POLL]; /* completions read and not looked at */
    uint32_t wc_first;
    uint32_t wc_count;
    uint64_t rx_dropped;
    uint32_t unasked; /* polls since the device was last asked what it has to say */
    int wake_fd;
    bool armed;      /* the next completion makes wake_fd readable */
    int failed;      /* errno of the device's failure, not told yet */
    bool dead;       /* the device failed: nothing is posted any more */
    bool down;       /* the port is down, and may come back */
    bool told_down;  /* poll() said so */
    bool told_error; /* a send failed for a reason that was logged */

    struct ibv_send_wr wr[BTL_IB_UD_BATCH];
    struct ibv_sge sge[BTL_IB_UD_BATCH];
} btl_ib_ud_t;

static inline btl_ib_ud_t *btl_ib_ud_of(btl_ib_transport_t *t)
{
    return (btl_ib_ud_t *) t;
}

/* ---- verbs_ud_peers.c ---- */

/* Write what is published. Returns its length. */
uint32_t btl_ib_ud_address_pack(const btl_ib_ud_address_t *address, uint8_t *out);

/* Returns 0, or -EINVAL if it is no address that btl_ib_ud_address_pack() could have written. */
int btl_ib_ud_address_unpack(const void *bytes, size_t len, btl_ib_ud_address_t *address);

int btl_ib_ud_addr_add(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr);
void btl_ib_ud_addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr);

/* Who sent what a completion is about; its GRH stands before `data`. */
btl_ib_addr_t btl_ib_ud_source(const btl_ib_ud_t *ud, const struct ibv_wc *wc, const uint8_t *data);

/* Hosts that have left, and that no send is on its way to any more, go. */
void btl_ib_ud_peers_clean(btl_ib_ud_t *ud);
void btl_ib_ud_peers_free(btl_ib_ud_peers_t *peers);

/* ---- verbs_ud_queue.c ---- */

/* Make `more` buffers and post them, or as many as the queue pair takes. Short of memory it stays as it is. */
void btl_ib_ud_queue_grow(btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue, uint32_t more);

/* Datagrams that can arrive before anyone polls: `depth`, unless there never will be so many buffers. */
uint32_t btl_ib_ud_queue_promise(const btl_ib_ud_queue_t *queue);

/* Make all queue pairs, able to send and receive, with their buffers posted. Returns 0 or a negative errno after
 * saying why. */
int btl_ib_ud_queues_open(btl_ib_ud_t *ud, const btl_ib_open_params_t *params);

/* No memory is touched by the device after this. */
void btl_ib_ud_queues_stop(btl_ib_ud_t *ud);
void btl_ib_ud_queues_free(btl_ib_ud_t *ud);

/* Sends failed and all are back: make a queue pair able to send again. Returns 0 or a negative errno. */
int btl_ib_ud_queue_mend(btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue);

/* All of it failed, and all its buffers are back: make it as new, with its buffers posted. Returns 0 or a negative errno,
 * -ELOOP if it was done too often. */
int btl_ib_ud_queue_revive(btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue);

/* ---- verbs_ud_send.c ---- */

int btl_ib_ud_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error);

/* A completion of a send: it and all before it of its queue pair are done with. */
void btl_ib_ud_send_completed(btl_ib_ud_t *ud, const struct ibv_wc *wc);

/* Make SENT events of what is done with. Returns how many. */
int btl_ib_ud_sent(btl_ib_ud_t *ud, btl_ib_event_t *events, int max);

/* Does a completion belong to a send? */
static inline bool btl_ib_ud_is_send(const struct ibv_wc *wc)
{
    return wc->wr_id & 1;
}

/* ---- verbs_ud_recv.c ---- */

int btl_ib_ud_poll(btl_ib_transport_t *t, btl_ib_event_t *events, int max);
void btl_ib_ud_repost(btl_ib_transport_t *t, void *const *buffers, int n);

/* Post what waits for it. Returns 0 or an errno. */
int btl_ib_ud_post_idle(btl_ib_ud_queue_t *queue);

/* A buffer is to be posted, with others. */
void btl_ib_ud_give_back(btl_ib_ud_buffer_t *buffer);

/* The device is gone, or as good as that: say so once. */
void btl_ib_ud_fail(btl_ib_ud_t *ud, const char *what, int error);

/* Has the device anything to say? */
void btl_ib_ud_ask_device(btl_ib_ud_t *ud);

/* Are completions at hand? They stay. */
bool btl_ib_ud_look(btl_ib_ud_t *ud);

/* ---- verbs_ud_wake.c ---- */

/* Returns 0 or a negative errno after saying why. */
int btl_ib_ud_wake_open(btl_ib_ud_t *ud);
void btl_ib_ud_wake_close(btl_ib_ud_t *ud);
int btl_ib_ud_wait_fd(btl_ib_transport_t *t);

/* The descriptor is not to stay readable for what was polled meanwhile. */
void btl_ib_ud_wake_heard(btl_ib_ud_t *ud);

#endif
