/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Eager RDMA: a few peers write short datagrams into rings that poll() looks at. That costs the
 * receiver neither a completion nor a receive request. The first channel has rings; if the user
 * wants longer datagrams to go that way (`eager_size`), so has each channel that carries datagrams
 * of such sizes. There are none over iWARP, where a write may be placed in any order, and nobody is
 * told when it is. A datagram that goes inline is staged with its trailer. For a longer one the
 * device fetches the datagram from the engine's memory, and the trailer from memory of the
 * connection (its "tail").
 *
 *      A slot is `slot` bytes long. A write ends where the slot ends, and begins with the datagram:
 *
 *                       0      sends         size        turn       check
 *      | nothing | datagram, 0 | sends (4)   | size (2)  | turn (2) | check (8) |      big-endian
 *                  to 8 bytes
 *
 * No order of the bytes of a write is relied on: a slot is taken when the check fits. `turn` counts
 * the rounds of the ring, so that slots need not be wiped. Datagrams are numbered modulo 2^32. A
 * ring has a power of two of slots, at most 2^15, so that slots and turns go on when the number
 * wraps. `sends` is how many messages went before by sends on the same queue pair: both ways
 * together are one stream, in which no datagram passes another.
 *
 * The receiver decides which peers may write. It says so in the credit word, together with how many
 * slots are free again. The life of a ring:
 *
 *      OFF         the peer sends. After `threshold` short datagrams it may write, if fewer than
 *                  `peers` others do.
 *      ON          the peer may write. Ends with the connection; when this process is about to
 *                  sleep; or at a review, once in `period`, if the peer sent fewer than `threshold`
 *                  since the last one and others wait for a place.
 *      FADING      the peer may not write any more, but may not know yet: the ring is polled as
 *                  before, and this process does not sleep. Ends QUIET_US after the credit word was
 *                  certainly written.
 *      OFF AGAIN   the ring is polled seldom, for a write that the network had lost and the device
 *                  repeats late.
 */

#ifndef BTL_IB_VERBS_RC_EAGER_H
#define BTL_IB_VERBS_RC_EAGER_H

#include "verbs_formats.h"
#include "verbs_rc_credit.h"
#include "verbs_rc_work_queues.h"

enum {
    BTL_IB_RC_EAGER_PEERS = 64,
    BTL_IB_RC_EAGER_RINGS = 4 * BTL_IB_RC_EAGER_PEERS, /* that peers may write to at once */
    BTL_IB_RC_EAGER_THRESHOLD = 16,                    /* `threshold`, by default */
    BTL_IB_RC_EAGER_TAIL = 32, /* bytes from one tail to the next: padding and trailer */
    /* Datagrams of all rings that the engine may hold at once: a batch of events, and a few for
     * each call within a callback. */
    BTL_IB_RC_EAGER_COPIES = 128,
};

struct btl_ib_rc_conn;

/* A slot whose datagram the engine holds. */
typedef struct btl_ib_rc_eager_slot {
    uint8_t copy;  /* number of the datagram's copy */
    bool returned; /* given back before an earlier slot was */
} btl_ib_rc_eager_slot_t;

/* A ring that the peer of a connection writes to. */
typedef struct btl_ib_rc_eager {
    struct btl_ib_rc_conn *conn;
    btl_ib_rc_credit_t *credit;
    const btl_ib_rc_address_t *peer; /* for the log */
    uint8_t channel;
    btl_ib_rc_rx_t rx; /* its slots */
    struct ibv_mr *mr;
    btl_ib_rc_eager_slot_t *slot;
    uint32_t taken;    /* total of datagrams handed up; the number of the next one */
    uint32_t freed;    /* total of slots freed, in order; taken - freed slots are handed up */
    uint32_t reviewed; /* `taken` at the last review */
    uint32_t sends;    /* total of messages that came by sends */
    uint32_t shorts;   /* short datagrams that came by sends since the ring was last on */
    bool on;           /* ON: it is in eagers->on */
    bool fading;       /* FADING: it is in eagers->off */
    uint64_t quiet_at; /* us; FADING ends then; 0: the peer may not know yet */
    struct btl_ib_rc_eager *next_off;
} btl_ib_rc_eager_t;

/* All rings of a transport. */
typedef struct btl_ib_rc_eagers {
    const btl_ib_rc_port_t *port;
    /* Chosen when the transport is opened: */
    uint32_t peers;     /* peers that may write at once in each channel, at most; 0: none */
    uint32_t slots;     /* slots of each ring: a power of two */
    uint32_t threshold; /* short datagrams after which a peer may write, or keeps its place */
    uint64_t period;    /* us between two reviews; 0: there are none */
    /* By channel: bytes of a slot, the trailer included; 0: the channel has no rings. */
    uint32_t slot[BTL_IB_RC_QUEUES_MAX];
    uint32_t longest; /* the largest of these */
    /* By channel: */
    uint32_t writers[BTL_IB_RC_QUEUES_MAX]; /* peers that may write now */
    bool waited[BTL_IB_RC_QUEUES_MAX];      /* since the last review a peer found no place */
    uint64_t reviewed_at;                   /* us */
    /* Rings: */
    btl_ib_rc_eager_t *on[BTL_IB_RC_EAGER_RINGS]; /* those that are ON */
    uint32_t count;                               /* of `on` */
    btl_ib_rc_eager_t *off;                       /* a list: those that are FADING or OFF AGAIN */
    uint32_t fading;                              /* number of those that are FADING */
    /* Datagrams that the engine holds are copies, as peers may write to rings at any time. */
    uint8_t *copies;                      /* room for all; NULL: no ring was made */
    uint8_t copy[BTL_IB_RC_EAGER_COPIES]; /* numbers of copies: those in use first */
    uint32_t copies_used;
    /* Totals, for the log: */
    uint64_t taken; /* datagrams from rings */
    uint32_t begun; /* rings switched on */
    uint32_t ended; /* rings switched off */
} btl_ib_rc_eagers_t;

/* The peer's ring, which we write to. */
typedef struct btl_ib_rc_eager_tx {
    uint64_t remote; /* address of the first slot in the peer's memory */
    uint32_t key;    /* of that memory */
    uint32_t slots;  /* 0: the peer has no ring */
    uint32_t slot;   /* bytes of a slot, the trailer included */
    uint32_t used;   /* total of datagrams written; the number of the next one */
    /* One for each place of the send queue; NULL: all that is written goes inline. */
    uint8_t *tails;
    uint32_t tail_key;
} btl_ib_rc_eager_tx_t;

/* Chooses how many peers may write, and the slots of their rings. A slot holds what a buffer of the
 * channel's queue holds, but at most what goes inline, or `eager_size` if the user set that. */
void btl_ib_rc_eagers_plan(btl_ib_rc_eagers_t *eagers, const btl_ib_rc_port_t *port,
                           const btl_ib_rc_rxqs_t *rxqs, const btl_ib_open_rc_t *wanted);

/* Returns the bytes of all copies. */
static inline size_t btl_ib_rc_eagers_copied(const btl_ib_rc_eagers_t *eagers)
{
    return (size_t) BTL_IB_RC_EAGER_COPIES * eagers->longest;
}

/* True if all copies are in use. */
static inline bool btl_ib_rc_eagers_full(const btl_ib_rc_eagers_t *eagers)
{
    return eagers->copies_used == BTL_IB_RC_EAGER_COPIES;
}

/* ---- a ring's life ---- */

/* Returns the bytes of a connection's ring, a multiple of a cache line; 0: it has none. */
static inline size_t btl_ib_rc_eager_bytes(const btl_ib_rc_eagers_t *eagers, uint8_t channel)
{
    return channel < BTL_IB_RC_QUEUES_MAX ? (size_t) eagers->slots * eagers->slot[channel] : 0;
}

/* Returns the bytes of a connection's tails; 0: all datagrams that fit a slot go inline. */
static inline size_t btl_ib_rc_eager_tails(const btl_ib_rc_eagers_t *eagers, uint8_t channel)
{
    return channel < BTL_IB_RC_QUEUES_MAX
                   && eagers->slot[channel] > eagers->port->verbs.base.attr.inline_size
               ? (size_t) eagers->port->tx_depth * BTL_IB_RC_EAGER_TAIL
               : 0;
}

/* Makes a ring in `memory`, of btl_ib_rc_eager_bytes(). Returns NULL after logging why: datagrams
 * can do without it. */
btl_ib_rc_eager_t *btl_ib_rc_eager_new(btl_ib_rc_eagers_t *eagers, struct btl_ib_rc_conn *conn,
                                       uint8_t channel, btl_ib_rc_credit_t *credit,
                                       const btl_ib_rc_address_t *peer, uint8_t *memory);

/* Takes a ring out of the lists: it is polled no more. */
void btl_ib_rc_eager_close(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager);

/* Frees a closed ring, when nobody holds a slot and the queue pair is gone. */
void btl_ib_rc_eager_free(btl_ib_rc_eager_t *eager);

/* ---- sending ---- */

/* True if the peer's ring has room for a datagram of `size` bytes behind `more` others that are to
 * be written before it. */
bool btl_ib_rc_eager_fits(const btl_ib_rc_eager_tx_t *tx, const btl_ib_rc_credit_t *credit,
                          uint32_t size, uint32_t more);

/* Turns a request into a write to the peer's ring of datagram `number` (as tx->used counts), which
 * follows `sends` messages that went by sends. `staged` has room for a slot that goes inline,
 * wr->sg_list for two pieces. `depth` is that of the send queue. */
void btl_ib_rc_eager_fill(const btl_ib_rc_eager_tx_t *tx, const btl_ib_tx_t *datagram,
                          uint32_t number, uint32_t sends, uint64_t *staged, uint32_t depth,
                          struct ibv_send_wr *wr);

/* ---- receiving ---- */

/* Makes at most `max` events of datagrams that are in the ring and next in the stream; as many as
 * there are copies free. Returns how many. */
int btl_ib_rc_eager_take(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, btl_ib_addr_t from,
                         btl_ib_event_t *events, int max);

/* Frees the copies of buffers that the engine gives back. */
void btl_ib_rc_eager_release_copies(btl_ib_rc_eagers_t *eagers, const btl_ib_rc_eager_t *eager,
                                    void *const *buffers, int n);

/* Frees the slots of buffers that the engine gives back, if the connection is still there; after
 * release_copies. */
void btl_ib_rc_eager_repost(btl_ib_rc_eager_t *eager, void *const *buffers, int n);

/* Notes that a message came by a send; `size`: bytes of a datagram, 0: it was none. After
 * `threshold` datagrams that fit a slot the peer may write. */
void btl_ib_rc_eager_received(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, uint32_t size);

/* Switches off the rings of peers that sent little since the last review, in channels where others
 * wait for a place. Does nothing before `period` has passed. `now`, us. */
void btl_ib_rc_eagers_review(btl_ib_rc_eagers_t *eagers, uint64_t now);

/* Ends the FADING of a ring that was polled just now, if its peer is known to have stopped writing.
 * `now`, us. */
void btl_ib_rc_eager_fade(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, uint64_t now);

/* Logs the totals, if there are any. */
void btl_ib_rc_eagers_stop(const btl_ib_rc_eagers_t *eagers);

/* Switches all rings off. Returns true if no ring is FADING; if not, call again after a poll. */
bool btl_ib_rc_eagers_turn_off(btl_ib_rc_eagers_t *eagers);

#endif
