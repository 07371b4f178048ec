/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the files of transport "verbs", wire RC, share, nobody else's business:
 *
 *   verbs_rc_devices.c  which devices rdma_cm finds behind the addresses of this host
 *   verbs_rc_name.c   addresses as published; what travels in the private data of rdma_cm
 *   verbs_rc_peers.c  peers: by handle, by cookie; what there is to tell of them
 *   verbs_rc_pipe.c   queue pairs with their buffers and rings: made, given back
 *   verbs_rc_cq.c     completion queues: one after the other, as pipes become more
 *   verbs_rc_events.c what devices say of themselves, for all rails on them
 *   verbs_rc_cm*.c    the connection manager: who connects, who accepts, when again (verbs_rc_cm.h says which file does what)
 *   verbs_rc_send.c   datagrams -> work requests
 *   verbs_rc_recv.c   completions -> events
 *   verbs_rc_rdma.c   operations on memory: writes, reads, atomics
 *   verbs_rc_eager.c  short datagrams that peers write into rings
 *   verbs_rc.c        the transport made of them
 *
 * A *link* is one channel of one peer, for as long as we know him. A *pipe* is one connection of a link:
 * a queue pair, made when there is something to send or when the peer asks, and gone when it breaks. The
 * next one begins anew, with nothing of the last.
 *
 *      peer --- link[0] --- pipe   QP  <----------------------------->  QP
 *           |                      ring of sends, receive buffers, and a word that the peer writes by RDMA:
 *           |                      how many of the buffers that we filled there he has posted again; on the first
 *           |                      link perhaps a ring that he writes short datagrams to (eager RDMA)
 *           +-- link[1]     (not connected)
 *           +-- link[BTL_IB_RC_RDMA]   operations on memory, in both directions
 */

#ifndef BTL_IB_VERBS_RC_STATE_H
#define BTL_IB_VERBS_RC_STATE_H

#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "verbs_port.h"

enum {
    BTL_IB_RC_CHANNELS = 16,             /* as many as the engine has */
    BTL_IB_RC_RDMA = BTL_IB_RC_CHANNELS, /* the link of operations on memory */
    BTL_IB_RC_LINKS = BTL_IB_RC_CHANNELS + 1,
    BTL_IB_RC_LINE = 64,    /* a cache line; the word has one to itself, before rings and buffers */
    BTL_IB_RC_TRAILER = 16, /* bytes at the end of a slot of a ring */
    BTL_IB_RC_EAGER_PEERS = 64,
    BTL_IB_RC_EAGER_SLOT = 512,      /* bytes, at most */
    BTL_IB_RC_EAGER_SLOTS = 1 << 15, /* of a ring, at most: what 16 bits can tell */
    BTL_IB_RC_PIECES = 128 << 10,    /* bytes of a pipe for operations without registered memory */
    BTL_IB_RC_PIECE_MAX = 8 << 10,   /* bytes of one of them */
    BTL_IB_RC_BATCH = 64,            /* work requests that one call posts */
    BTL_IB_RC_CQ_MAX = 24,      /* completion queues; each is twice as large as the one before */
    BTL_IB_RC_PRIVATE_MAX = 56, /* bytes of private data that every fabric lets through */
    BTL_IB_RC_HELLO_BYTES = 56, /* of them in use */
    BTL_IB_RC_QP_BUCKETS = 1024,
    BTL_IB_RC_CONTROL = 4, /* places of a send queue kept for what the transport itself sends */
};

/* An address as published, 32 bytes:
 *
 *     0       1      2        3     4      6     8               24       32
 *     | version kind | family | MTU | port | 0   | IP address     | cookie |
 */
typedef struct btl_ib_rc_name {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    uint64_t cookie; /* random, new with every open(): says who it is, and that he read the modex */
    uint8_t mtu;     /* of his port: enum ibv_mtu; 0: not told */
} btl_ib_rc_name_t;

/* What one side tells the other about a pipe, in the private data of request and reply. */
typedef struct btl_ib_rc_hello {
    uint8_t channel;
    uint64_t to;      /* cookie of who is meant */
    uint64_t from;    /* cookie of who speaks */
    uint32_t attempt; /* how often the speaker has asked anybody: older requests of his are void */
    uint32_t depth;   /* buffers that he posted for it; 0: a pool that all share */
    uint64_t word;    /* where he wants to be told how many of the other's he filled are posted */
    uint32_t word_key;
    uint8_t reads;        /* reads and atomics of the other's that he serves at once */
    bool relaxed;         /* what he exposes is filled in any order */
    uint32_t eager_key;   /* of a ring behind the word */
    uint16_t eager_slots; /* a power of two; 0: there is none */
    uint16_t eager_slot;  /* bytes */
} btl_ib_rc_hello_t;

/* The word: what the peer tells us by RDMA, big-endian. */
typedef struct btl_ib_rc_word {
    uint32_t reposted;    /* buffers of his that are posted again, in all */
    uint32_t eager_freed; /* slots of his ring that are free again, in all */
    uint32_t eager_on;    /* not 0: we may write to it */
} btl_ib_rc_word_t;

/* Why a request was refused. */
typedef enum btl_ib_rc_reason {
    BTL_IB_RC_CROSSING = 1, /* my own request is on its way to you, and goes before yours */
    BTL_IB_RC_STALE,        /* a newer request of yours came before it */
    BTL_IB_RC_STRANGER,     /* not meant for me, or not understood */
    BTL_IB_RC_SHORTAGE,     /* no memory, or too many strangers */
} btl_ib_rc_reason_t;

struct btl_ib_rc;
struct btl_ib_rc_pipe;

/* Receive buffers in one piece of memory: of a pipe, or of a channel that all peers share. */
typedef struct btl_ib_rc_buffer {
    struct btl_ib_rc_store *store;
    struct ibv_sge sge;
    struct ibv_recv_wr wr; /* posted, or a link of the store's `idle` */
} btl_ib_rc_buffer_t;

typedef struct btl_ib_rc_store {
    struct btl_ib_rc_pipe *pipe; /* NULL: shared */
    uint8_t channel;
    uint32_t count;
    uint32_t size;   /* bytes that each holds */
    uint32_t stride; /* from one to the next */
    uint8_t *base;
    uint32_t key; /* of the registration */
    btl_ib_rc_buffer_t *buffer;
    struct ibv_recv_wr *idle; /* those that came back and were not posted yet: */
    uint32_t idle_count;
    uint32_t lazy; /* so many are posted by one call */
} btl_ib_rc_store_t;

typedef enum btl_ib_rc_stage {
    BTL_IB_RC_RESOLVING, /* the peer's address, */
    BTL_IB_RC_ROUTING,   /* the way to it */
    BTL_IB_RC_ASKING,    /* our request is on its way */
    BTL_IB_RC_ACCEPTED, /* his is; his first message opens the pipe (iWARP: he has to be the first) */
    BTL_IB_RC_OPEN,
    BTL_IB_RC_CLOSED, /* the queue pair is gone; what it held is being given back */
} btl_ib_rc_stage_t;

/* An operation on memory; or a read that confirms writes. */
typedef struct btl_ib_rc_op {
    void *context;
    bool told;  /* of its end there is an event to make; else it is our own */
    bool reads; /* counts against what the peer serves at once */
    int error;
    uint32_t piece;      /* of the ring of bytes: where it begins, */
    uint32_t piece_size; /* 0: none, */
    uint32_t taken;      /* up to where the ring is free once it is over, */
    void *sink;          /* where the bytes belong then, NULL: nowhere */
} btl_ib_rc_op_t;

/* What the pipe of operations has more than others. */
typedef struct btl_ib_rc_rdma {
    btl_ib_rc_op_t *op; /* beside the ring of sends */
    uint8_t *pieces;    /* a ring of BTL_IB_RC_PIECES bytes */
    uint32_t taken;     /* of it, in all */
    uint32_t freed;
    uint32_t reads;     /* under way */
    uint32_t reads_max; /* 0: the peer serves none */
    bool confirms;      /* a write is done when a read after it is */
    bool unconfirmed;   /* there are some that no read follows */
    uint64_t cookie;    /* the peer's, also when he is gone */
} btl_ib_rc_rdma_t;

/* A ring that the peer writes to. */
typedef struct btl_ib_rc_eager {
    btl_ib_rc_store_t store; /* its slots */
    struct ibv_mr *mr;
    bool *back;      /* of each slot: given back before an earlier one */
    uint32_t taken;  /* in all */
    uint32_t freed;  /* in all, in order */
    uint32_t told;   /* of them, written to the peer's word */
    uint32_t recent; /* short datagrams of the peer since the last review */
    bool on;         /* he may write, */
    bool told_on;    /* and knows */
    /* He may no longer, */
    struct btl_ib_rc_pipe *next_off;
    bool fading;       /* but what he wrote before he knew may still come, until... */
    uint32_t off_sent; /* ...this many of our own sends are over, the word among them, */
    uint64_t quiet_at; /* and then this time has come (us; 0: they are not over) */
} btl_ib_rc_eager_t;

typedef struct btl_ib_rc_pipe {
    struct btl_ib_rc *rc;
    struct btl_ib_rc_peer *peer; /* NULL once it is closed */
    uint8_t channel;
    btl_ib_rc_stage_t stage;
    struct rdma_cm_id *id;
    struct ibv_qp *qp;
    struct btl_ib_rc_cq *cq;
    uint32_t cq_entries; /* of it, that are ours */
    bool asked;          /* we did, not he */
    bool answer_due;     /* iWARP: until then its end would wait for the answer */
    /* us; it failed, perhaps because the port goes down: not over before then. 0: it did not */
    uint64_t doubt_until;
    bool last_words;   /* the device takes no more shared buffers for it */
    bool draining;     /* closed; the queue pair goes when those that it took have come back, */
    uint64_t begun_at; /* us */
    uint64_t opened_at;
    uint64_t drain_until; /* us; or then */
    uint32_t slot;        /* in rc->slot */
    uint32_t number;      /* of the queue pair, while it is in a bucket */
    struct btl_ib_rc_pipe *next_qp;
    struct btl_ib_rc_pipe *next_closed;

    /* The ring of sends: [emitted, completed) wait to be told of, [completed, posted) are under way. */
    void **ring;        /* contexts; NULL: nothing to tell of */
    uint32_t ring_size; /* a power of two */
    uint32_t posted;
    uint32_t completed;
    uint32_t emitted;
    uint32_t unsignalled; /* in a row, the latest ones */
    uint32_t unheard;     /* of them, that hold memory which is not ours */
    bool emitting;        /* in rc->emitting */
    struct btl_ib_rc_pipe *next_emitting;

    /* The peer's buffers: we may have filled `peer_depth` + what the word says. */
    uint8_t *memory; /* the word, then buffers */
    size_t memory_size;
    struct ibv_mr *mr;      /* of all of it */
    struct ibv_mr *word_mr; /* of the word, which the peer may write */
    uint32_t peer_depth;    /* 0: not counted */
    uint32_t filled;        /* by us, in all */

    /* Ours: */
    btl_ib_rc_store_t store; /* count 0: shared, or none */
    uint32_t reposted;       /* in all */
    uint32_t told;           /* of them, written to the peer's word */
    uint64_t peer_word;
    uint32_t peer_word_key;
    uint32_t held; /* handed up, not given back */

    uint32_t heard;           /* messages that came by sends */
    btl_ib_rc_eager_t *eager; /* NULL: there is no ring */
    uint32_t peer_eager_key;  /* the peer's ring */
    uint32_t peer_slots;      /* 0: he has none */
    uint32_t peer_slot;       /* bytes */
    uint32_t eager_filled;    /* of his, by us, in all */

    btl_ib_rc_rdma_t *rdma; /* NULL: it carries messages */
} btl_ib_rc_pipe_t;

typedef struct btl_ib_rc_link {
    btl_ib_rc_pipe_t *pipe; /* NULL: not connected */
    uint32_t peer_attempt;  /* his requests up to this one are void */
    uint32_t failures;      /* of ours in a row */
    bool hopeless;          /* the last of them was one that does not just pass */
    uint64_t wanted_at;     /* us; since when there is something to send, 0: the last pipe opened */
    uint32_t short_lives;   /* of pipes that broke right after they had been opened, in a row */
    uint64_t retry_at;      /* us; not before then */
    bool gave_up;           /* sends since the last pipe were told that nobody can be reached */
} btl_ib_rc_link_t;

typedef struct btl_ib_rc_peer {
    btl_ib_rc_name_t name; /* without address (family 0) of who came by himself and was not added */
    uint32_t index;        /* the handle */
    uint32_t users;        /* addr_add() less addr_remove() */
    uint32_t pipes;        /* not closed */
    struct btl_ib_rc_peer *next; /* of the same bucket */
    struct btl_ib_rc_peer *next_news;
    bool has_news;
    bool mirror; /* the other end of our connection to ourselves */
    bool broken; /* a pipe was lost that had been open */
    int refused; /* errno, 0: not */
    btl_ib_rc_link_t link[BTL_IB_RC_LINKS];
} btl_ib_rc_peer_t;

typedef struct btl_ib_rc_peers {
    btl_ib_rc_peer_t **peer; /* by handle, NULL: free */
    uint32_t room;           /* a power of two; that many buckets */
    uint32_t count;          /* in use */
    uint32_t free;           /* none is free below it */
    btl_ib_rc_peer_t **bucket;
    uint32_t strangers; /* with no users */
    btl_ib_rc_peer_t *news;
} btl_ib_rc_peers_t;

typedef struct btl_ib_rc_cq {
    struct ibv_cq *cq;
    uint32_t room;    /* entries that no pipe can fill */
    uint32_t leaving; /* of closed pipes: free once all that is in it was read */
} btl_ib_rc_cq_t;

typedef struct btl_ib_rc_channel {
    uint32_t size;
    uint32_t num;
    bool shared;
    struct ibv_srq *srq;     /* NULL: each pipe has its own buffers */
    btl_ib_rc_store_t store; /* of the srq */
    void *memory;
    struct ibv_mr *mr;
} btl_ib_rc_channel_t;

typedef struct btl_ib_rc_slot {
    btl_ib_rc_pipe_t *pipe;
    uint32_t life;      /* of its pipes, in turn */
    uint32_t next_free; /* index + 1 */
} btl_ib_rc_slot_t;

typedef struct btl_ib_rc {
    btl_ib_verbs_t verbs; /* its context is rdma_cm's */
    struct btl_ib_rc *next_rail;
    btl_ib_rc_name_t self;
    struct rdma_event_channel *events;
    struct rdma_cm_id *listener;
    struct ibv_comp_channel *bell; /* of all completion queues */
    int set;                       /* epoll: bell, events, stirred */
    int stirred;                   /* eventfd: readable while `early` is not empty */
    bool iwarp;
    bool stopped;
    int failed;       /* errno: the device is gone, or as good as that; 0: not */
    bool told_failed; /* and poll() said so */
    bool down;        /* the port is, and may come back: all stays as it is till then */
    bool told_down;   /* and poll() said so */
    uint32_t channels;
    btl_ib_rc_channel_t channel[BTL_IB_RC_CHANNELS];
    uint32_t tx_depth;    /* of each pipe */
    uint32_t srq_entries; /* that any completion queue may get, beside what its pipes post */
    uint32_t strangers_max;
    uint8_t ack_timeout;  /* 4.096 us x 2^n; 0: what the connection manager takes */
    uint8_t retry;        /* 0..7 */
    uint8_t rnr_retry;    /* 0..7, 7: without end */
    uint8_t tos;          /* traffic class; 0: the default */
    uint8_t reads;        /* of each peer served at once, and asked of him at once at most */
    bool relaxed;         /* memory that is exposed may be filled in any order */
    uint32_t eager_peers; /* at most so many write to rings; 0: none */
    uint32_t eager_slots; /* of each ring, a power of two, or 0: no rings */
    uint32_t eager_slot;  /* bytes; 0: what goes inline is too little */
    uint32_t eager_threshold;
    uint64_t eager_period_us;

    btl_ib_rc_peers_t peers;
    btl_ib_rc_cq_t cq[BTL_IB_RC_CQ_MAX];
    uint32_t cqs;
    btl_ib_rc_slot_t *slot;
    uint32_t slots;
    uint32_t free_slot;                                  /* index + 1, 0: none */
    btl_ib_rc_pipe_t *qp_bucket[BTL_IB_RC_QP_BUCKETS];   /* of pipes with shared buffers */
    btl_ib_rc_pipe_t *eager_pipe[BTL_IB_RC_EAGER_PEERS]; /* those whose peers may write */
    uint32_t eager_count;
    btl_ib_rc_pipe_t *eager_off; /* those whose peers might, and may no longer */
    uint32_t eager_fading;       /* of them */
    uint64_t eager_review_at;    /* us */
    btl_ib_rc_pipe_t *emitting;
    btl_ib_rc_pipe_t
        *closed;       /* whose memory somebody still holds, or that have something to tell */
    uint32_t unheard;  /* sends of memory not ours whose completion nobody asked for yet */
    uint32_t attempts; /* to connect */
    uint32_t pending;  /* pipes neither open nor closed */
    uint32_t draining; /* pipes that are */
    uint32_t doubted;  /* the same */
    uint32_t polls;    /* since the connection manager was asked */
    uint64_t asked_at;
    uint32_t full_polls;
    /* Of the row that is being posted; most of each never changes. */
    struct ibv_send_wr wr[BTL_IB_RC_BATCH];
    struct ibv_sge sge[BTL_IB_RC_BATCH];
    struct ibv_wc early[BTL_IB_RC_BATCH]; /* found when nobody polled */
    uint32_t early_first;
    uint32_t early_count;
} btl_ib_rc_t;

static inline btl_ib_rc_t *btl_ib_rc_of(btl_ib_transport_t *t)
{
    return (btl_ib_rc_t *) t;
}

/* ---- verbs_rc_devices.c ---- */

/* As devices() of btl_ib_transport_type_t. */
int btl_ib_rc_devices(const btl_ib_search_t *search, btl_ib_device_t **list);

/* ---- verbs_rc_name.c ---- */

enum {
    BTL_IB_RC_NAME_BYTES = 32,
    BTL_IB_RC_NAME_TEXT = 64,
};

/* `port`: in the order of the network. */
void btl_ib_rc_name_set_port(btl_ib_rc_name_t *name, uint16_t port);

/* Printed as "10.1.2.3:4567" or "[fd00::1]:4567"; "a stranger" where the address is not known. */
const char *btl_ib_rc_name_format(const btl_ib_rc_name_t *name, char *out, size_t len);
void btl_ib_rc_name_pack(const btl_ib_rc_name_t *name, uint8_t *out);

/* Returns 0 or -EINVAL. */
int btl_ib_rc_name_unpack(const void *bytes, size_t len, btl_ib_rc_name_t *name);

/* Both write and read BTL_IB_RC_PRIVATE_MAX bytes; what is read may be longer, as some fabrics fill up. */
void btl_ib_rc_hello_pack(const btl_ib_rc_hello_t *hello, uint8_t *out);
int btl_ib_rc_hello_unpack(const void *bytes, size_t len, btl_ib_rc_hello_t *hello);

/* What is said with a refusal. Unpack returns 0 if it is none of ours. */
uint8_t btl_ib_rc_refusal_pack(btl_ib_rc_reason_t reason, uint8_t *out);
btl_ib_rc_reason_t btl_ib_rc_refusal_unpack(const void *bytes, size_t len);

/* ---- verbs_rc_peers.c ---- */

/* The peer with that cookie, or NULL. */
btl_ib_rc_peer_t *btl_ib_rc_peer_find(const btl_ib_rc_peers_t *peers, uint64_t cookie);

/* The same, made if there is none: a stranger, until somebody adds a user. NULL: no memory. */
btl_ib_rc_peer_t *btl_ib_rc_peer_get(btl_ib_rc_peers_t *peers, uint64_t cookie);

/* Free a peer whom nobody uses any more, unless it has pipes. */
void btl_ib_rc_peer_let_go(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer);

/* There is something to tell of him: in `broken` and `refused`. */
void btl_ib_rc_peer_news(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer);

/* Turn news into events. Returns how many. */
int btl_ib_rc_peers_emit(btl_ib_rc_peers_t *peers, btl_ib_event_t *events, int max);
void btl_ib_rc_peers_free(btl_ib_rc_peers_t *peers);

/* The handle that received datagrams name. */
static inline btl_ib_addr_t btl_ib_rc_peer_handle(const btl_ib_rc_peer_t *peer)
{
    return peer->users > 0 ? peer->index : BTL_IB_ADDR_UNKNOWN;
}

/* ---- verbs_rc_cq.c ---- */

/* A completion queue that can take so many entries more, or NULL. */
btl_ib_rc_cq_t *btl_ib_rc_cq_take(btl_ib_rc_t *rc, uint32_t entries);
void btl_ib_rc_cqs_free(btl_ib_rc_t *rc);

/* ---- verbs_rc_pipe.c ---- */

/* Bytes from one buffer to the next. */
uint32_t btl_ib_rc_stride(uint32_t size);

/* Make buffers of registered memory: count, size and channel of `store` are set. Returns 0 or -ENOMEM. */
int btl_ib_rc_store_make(btl_ib_rc_store_t *store, uint8_t *memory, uint32_t key);

/* A pipe of a link that has none. NULL: no memory. */
btl_ib_rc_pipe_t *btl_ib_rc_pipe_new(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t channel);

/* Give it its queue pair and buffers, all of them posted, once pipe->id has a device. Returns 0 or a
 * negative errno. */
int btl_ib_rc_pipe_equip(btl_ib_rc_pipe_t *pipe);

/* What our end is; what the other side says of his. */
void btl_ib_rc_pipe_describe(const btl_ib_rc_pipe_t *pipe, btl_ib_rc_hello_t *hello);
void btl_ib_rc_pipe_join(btl_ib_rc_pipe_t *pipe, const btl_ib_rc_hello_t *hello);

/* From now on it can be sent on. */
void btl_ib_rc_pipe_open(btl_ib_rc_pipe_t *pipe);

/* The link's connection ends, and its queue pair: at once, or when the shared buffers that it took have come back.
 * Then all sends are over; the memory stays while somebody holds a part of it. The peer stays, even if nobody
 * uses him. */
void btl_ib_rc_pipe_close(btl_ib_rc_pipe_t *pipe);

/* The peer answered a request of ours. If the pipe was closed before, its queue pair goes now: iWARP's connection
 * manager in the kernel would have waited for the answer. */
void btl_ib_rc_pipe_answered(btl_ib_rc_pipe_t *pipe);

/* The device takes no more shared buffers for a queue pair, which may be one of ours: those that it took are in the
 * completion queue. */
void btl_ib_rc_pipe_last_words(btl_ib_rc_t *rc, const struct ibv_qp *qp);

/* A completion queue was read until nothing was in it: queue pairs that waited for that go. */
void btl_ib_rc_pipes_drained(btl_ib_rc_t *rc, const btl_ib_rc_cq_t *cq);

/* Free a pipe if it is closed and nothing of it is in use any more. */
void btl_ib_rc_pipe_let_go(btl_ib_rc_pipe_t *pipe);

/* The device failed: those of operations on memory end, so that the end of each operation is told. */
void btl_ib_rc_pipes_fail(btl_ib_rc_t *rc);

/* All of them: close; and free, whoever holds a part. */
void btl_ib_rc_pipes_close(btl_ib_rc_t *rc);
void btl_ib_rc_pipes_free(btl_ib_rc_t *rc);

/* The pipe that a completion of a shared buffer is about, NULL if it is closed. */
btl_ib_rc_pipe_t *btl_ib_rc_pipe_of_shared(btl_ib_rc_t *rc, const struct ibv_wc *wc);

/* ---- verbs_rc_events.c ---- */

/* A rail hears of its device from here on; until it leaves, which it may do without having joined. */
void btl_ib_rc_events_join(btl_ib_rc_t *rc);
void btl_ib_rc_events_leave(btl_ib_rc_t *rc);

/* Read what the device has to say, for all rails on it: sets `failed` of those that it ends. */
void btl_ib_rc_events_read(btl_ib_rc_t *rc);

/* Is the port down? What fails because of that may be known before the device's event is: so it is asked, and `down` set. */
bool btl_ib_rc_events_port_down(btl_ib_rc_t *rc);

/* ---- the connection manager: verbs_rc_cm.h ---- */

/* Microseconds of a clock that never goes back. */
uint64_t btl_ib_rc_now_us(void);

/* Listen at rc->self, whose port is set, by the device of that name, and find its context. Returns 0 or a
 * negative errno after saying why. */
int btl_ib_rc_cm_open(btl_ib_rc_t *rc, const char *device, const btl_ib_open_params_t *params);
void btl_ib_rc_cm_close(btl_ib_rc_t *rc);

/* There is no open pipe of a link: one is asked for, unless it is too soon. Returns EAGAIN, or EHOSTUNREACH if the last
 * attempt failed. */
int btl_ib_rc_cm_ask(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t channel);

/* The open pipe of a link, or NULL after asking for one: *error is the answer. */
static inline btl_ib_rc_pipe_t *btl_ib_rc_cm_pipe(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer,
                                                  uint8_t channel, int *error)
{
    btl_ib_rc_pipe_t *pipe = peer->link[channel].pipe;

    if (pipe != NULL && pipe->stage == BTL_IB_RC_OPEN) {
        *error = EAGAIN;
        return pipe->doubt_until == 0 ? pipe : NULL;
    }
    *error = btl_ib_rc_cm_ask(rc, peer, channel);
    return NULL;
}

/* Take in what the connection manager has to say, if it is time to ask; returns whether it was. */
bool btl_ib_rc_cm_progress(btl_ib_rc_t *rc);

/* The first message on an accepted pipe came. */
void btl_ib_rc_cm_heard(btl_ib_rc_pipe_t *pipe);

/* A pipe broke: tell the peer's owner, and close it. If that is because the port is down all that comes when it is up again: soft-RoCE's
 * connection manager never sends again after it had to take leave while its interface was down. */
void btl_ib_rc_cm_broke(btl_ib_rc_pipe_t *pipe, const char *why);

/* The device could not send for a pipe. That is how soft-RoCE's fail just before their port is known to be down: it is
 * broken when some time has passed without that. */
void btl_ib_rc_cm_doubt(btl_ib_rc_pipe_t *pipe);

/* ---- verbs_rc_send.c ---- */

int btl_ib_rc_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error);

/* The first message of who connected: empty, and nobody else's business. Returns 0 or a negative errno. */
int btl_ib_rc_send_first(btl_ib_rc_pipe_t *pipe);

/* Tell the peer which buffers are posted again, if there are enough of them and there is room. */
void btl_ib_rc_send_word(btl_ib_rc_pipe_t *pipe);

/* Turn sends that are over into events. Returns how many. */
int btl_ib_rc_emit(btl_ib_rc_t *rc, btl_ib_event_t *events, int max);

/* Sends up to this one are over. */
void btl_ib_rc_sent(btl_ib_rc_pipe_t *pipe, uint32_t completed);

/* ---- verbs_rc_recv.c ---- */

/* Post all buffers of a store for the first time. Returns 0 or a negative errno. */
int btl_ib_rc_post_all(btl_ib_rc_t *rc, btl_ib_rc_store_t *store);
int btl_ib_rc_poll(btl_ib_transport_t *t, btl_ib_event_t *events, int max);
void btl_ib_rc_repost(btl_ib_transport_t *t, void *const *buffers, int n);

/* The descriptors to sleep on. Returns 0 or a negative errno after saying why. */
int btl_ib_rc_wait_open(btl_ib_rc_t *rc);
void btl_ib_rc_wait_close(btl_ib_rc_t *rc);
int btl_ib_rc_wait_fd(btl_ib_transport_t *t);

/* ---- verbs_rc_rdma.c ---- */

extern const btl_ib_rdma_ops_t btl_ib_rc_rdma_ops;

/* Operations up to that one are over, those that had not failed yet with `error` (0: done). */
void btl_ib_rc_rdma_over(btl_ib_rc_pipe_t *pipe, uint32_t completed, int error);

/* That one failed by itself; the pipe is about to be closed. */
void btl_ib_rc_rdma_failed(btl_ib_rc_pipe_t *pipe, uint32_t number, enum ibv_wc_status status);

/* All operations with a peer are over, and nobody is told. */
void btl_ib_rc_rdma_cancel(btl_ib_rc_t *rc, const btl_ib_rc_peer_t *peer);

/* Post the read that confirms writes, if there are such and another read is over. May close the pipe. */
void btl_ib_rc_rdma_confirm(btl_ib_rc_pipe_t *pipe);

/* ---- verbs_rc_eager.c ---- */

static inline const btl_ib_rc_word_t *btl_ib_rc_word(const btl_ib_rc_pipe_t *pipe)
{
    return (const btl_ib_rc_word_t *) (const void *) pipe->memory;
}

/* Bytes of a pipe's ring, a multiple of a line; 0: it has none. */
size_t btl_ib_rc_eager_bytes(const btl_ib_rc_pipe_t *pipe);

/* Make it, of memory behind the word; if that fails the pipe has none. release() gives back what the device has of it. */
void btl_ib_rc_eager_make(btl_ib_rc_pipe_t *pipe, uint8_t *memory);
void btl_ib_rc_eager_release(btl_ib_rc_pipe_t *pipe);
void btl_ib_rc_eager_free(btl_ib_rc_pipe_t *pipe);

/* Has the peer's ring room for a datagram of that size, after `more` others? */
bool btl_ib_rc_eager_fits(const btl_ib_rc_pipe_t *pipe, uint32_t size, uint32_t more);

/* Make a write of a request: datagram `number` of all, after that many sends. `staged` has room for a slot, aligned to 8. */
void btl_ib_rc_eager_fill(const btl_ib_rc_pipe_t *pipe, const btl_ib_tx_t *tx, uint32_t number,
                          uint32_t sends, uint8_t *staged, struct ibv_send_wr *wr);

/* What has come into one ring and is next; into those of peers who may write; into others'. Return how many events. */
int btl_ib_rc_eager_take(btl_ib_rc_pipe_t *pipe, btl_ib_event_t *events, int max);
int btl_ib_rc_eager_poll(btl_ib_rc_t *rc, btl_ib_event_t *events, int max);
int btl_ib_rc_eager_late(btl_ib_rc_t *rc, btl_ib_event_t *events, int max);

/* Slots are free again. */
void btl_ib_rc_eager_repost(btl_ib_rc_pipe_t *pipe, void *const *buffers, int n);

/* A message came over a pipe with a ring, by a send: its peer may be one of the busiest. */
void btl_ib_rc_eager_heard(btl_ib_rc_pipe_t *pipe);

/* The pipe is about to be closed. */
void btl_ib_rc_eager_end(btl_ib_rc_pipe_t *pipe);

/* Who wrote too little may no longer, if it is time to look. */
void btl_ib_rc_eager_review(btl_ib_rc_t *rc);

/* Nobody may write any more. Returns whether all are known to have stopped; if not, ask again after a poll. */
bool btl_ib_rc_eager_quiet(btl_ib_rc_t *rc);

/* ---- work request ids ---- */

/*      63    52 51      32 31     30       0
 *     | life    | slot    | recv | number   |    number: of the send in its ring; or of the buffer in its store,
 *                                                with the channel above it where all share the store
 */
enum {
    BTL_IB_RC_SLOT_BITS = 20,
    BTL_IB_RC_LIFE_BITS = 12,
    BTL_IB_RC_INDEX_BITS = 24,
};

#define BTL_IB_RC_RECV        (1u << 31)
#define BTL_IB_RC_SHARED_LIFE ((1u << BTL_IB_RC_LIFE_BITS) - 1)

static inline uint64_t btl_ib_rc_id(uint32_t life, uint32_t slot, uint32_t number)
{
    return (uint64_t) life << 52 | (uint64_t) slot << 32 | number;
}

/* The id of a work request. */
static inline uint64_t btl_ib_rc_pipe_id(const btl_ib_rc_pipe_t *pipe, uint32_t number)
{
    return btl_ib_rc_id(pipe->rc->slot[pipe->slot].life, pipe->slot, number);
}

/* The pipe that a completion is about, NULL if it is closed. */
static inline btl_ib_rc_pipe_t *btl_ib_rc_pipe_of(btl_ib_rc_t *rc, const struct ibv_wc *wc)
{
    const uint32_t slot = wc->wr_id >> 32 & ((1u << BTL_IB_RC_SLOT_BITS) - 1);
    const uint32_t life = (uint32_t) (wc->wr_id >> 52);

    if (life == BTL_IB_RC_SHARED_LIFE) {
        return btl_ib_rc_pipe_of_shared(rc, wc);
    }
    return slot < rc->slots && rc->slot[slot].life == life ? rc->slot[slot].pipe : NULL;
}

#endif
