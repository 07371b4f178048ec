/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Eager RDMA: short datagrams of a few peers come by a write into a ring that poll() looks at,
 * which costs the receiver neither a completion nor a receive request. That is done on the first
 * channel, and if the user wants longer ones (`eager_size`) on each that carries datagrams of such
 * sizes; not over iWARP, where a write may be placed in any order and nobody is told when it is.
 * What goes inline is staged with its trailer; of a longer one the device fetches the datagram from
 * where the engine has it, and the trailer from memory of the connection ("tail").
 *
 *      A slot is `slot` bytes long. What is written is its end, from where the datagram begins:
 *
 *                       0      sends         size        turn       check
 *      | nothing | datagram, 0 | sends (4)   | size (2)  | turn (2) | check (8) |      big-endian
 *                  to 8 bytes
 *
 * No order of the bytes of a write is relied on: a slot is taken when the check fits. `turn` counts
 * the rounds of the ring, so that nobody needs to wipe it. Datagrams are numbered modulo 2^32; a
 * ring is a power of two of slots, 2^15 at most, so that slots and turns go on as before when the
 * number wraps. `sends` says how many messages went before by sends over the same queue pair: the
 * two ways are one stream, in which nothing passes anything else.
 *
 * The receiver decides which peers may write, and says so in the credit word, with how many slots
 * are free again. They are the first that sent some short datagrams (`threshold`). They keep that
 * until their connection ends or the receiver sleeps; or until a review, each `period`, finds that
 * they sent fewer since the last one, while others wait for a place. A sender that reads the word
 * late may still write. So a ring that was switched off is polled as before until the word is known
 * to have been written, and QUIET_US longer ("fading"): so long nobody sleeps. After that it is
 * polled seldom: what the network lost, and the device sends again later than that, is found there.
 */

#ifndef BTL_IB_VERBS_RC_EAGER_H
#define BTL_IB_VERBS_RC_EAGER_H

#include "verbs_formats.h"
#include "verbs_rc_credit.h"
#include "verbs_rc_work_queues.h"

enum {
    BTL_IB_RC_EAGER_PEERS = 64,
    BTL_IB_RC_EAGER_RINGS = 4 * BTL_IB_RC_EAGER_PEERS, /* that peers may write to at once */
    BTL_IB_RC_EAGER_THRESHOLD = 16, /* short datagrams after which a peer may write, by default */
    BTL_IB_RC_EAGER_TAIL = 32,      /* bytes from one tail to the next: padding and trailer */
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
    uint32_t taken;    /* in all */
    uint32_t freed;    /* in all, in order */
    uint32_t reviewed; /* taken, at the last review */
    uint32_t sends;    /* messages that came by sends */
    uint32_t shorts;   /* short datagrams that came by sends since it was on last */
    bool on;           /* the peer may write */
    struct btl_ib_rc_eager *next_off;
    bool fading;       /* the peer may no longer, but may not know */
    uint64_t quiet_at; /* us; fading ends then; 0: not known yet */
} btl_ib_rc_eager_t;

/* All rings of a transport. */
typedef struct btl_ib_rc_eagers {
    const btl_ib_rc_port_t *port;
    uint32_t peers; /* that may write by each channel, at most; 0: none */
    uint32_t slots; /* of each ring: a power of two */
    /* By channel: bytes of a slot, the trailer included, 0: it has no rings; and peers that may
     * write. */
    uint32_t slot[BTL_IB_RC_QUEUES_MAX];
    uint32_t writers[BTL_IB_RC_QUEUES_MAX];
    bool waited[BTL_IB_RC_QUEUES_MAX]; /* somebody sent enough, and found no place */
    uint32_t longest;                  /* slot */
    uint32_t threshold;
    uint64_t period; /* us between two reviews; 0: there are none */
    uint64_t reviewed_at;
    btl_ib_rc_eager_t *on[BTL_IB_RC_EAGER_RINGS];
    uint32_t count;         /* in on[] */
    btl_ib_rc_eager_t *off; /* a list of rings that were on */
    uint32_t fading;        /* rings of that list that are */
    /* Room for a datagram each, as peers may write to rings meanwhile; NULL: no ring was made. */
    uint8_t *copies;
    uint8_t copy[BTL_IB_RC_EAGER_COPIES]; /* numbers of copies: those in use first */
    uint32_t copies_used;
    /* In all: */
    uint64_t taken; /* datagrams from rings */
    uint32_t begun; /* peers that were allowed to write */
    uint32_t ended;
} btl_ib_rc_eagers_t;

/* The peer's ring, which we write to. */
typedef struct btl_ib_rc_eager_tx {
    uint64_t remote;
    uint32_t key;
    uint32_t slots; /* 0: it has none */
    uint32_t slot;  /* bytes */
    uint32_t used;  /* in all */
    uint8_t
        *tails; /* one for each place of the send queue; NULL: only what goes inline is written */
    uint32_t tail_key;
} btl_ib_rc_eager_tx_t;

/* Chooses how many peers may write, and the slots of their rings: a slot holds what a buffer of the
 * channel's queue does, as far as it goes inline, or as the user wants. */
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

/* Returns the bytes of a connection's tails; 0: its datagrams of the ring's sizes all go inline. */
static inline size_t btl_ib_rc_eager_tails(const btl_ib_rc_eagers_t *eagers, uint8_t channel)
{
    return channel < BTL_IB_RC_QUEUES_MAX
                   && eagers->slot[channel] > eagers->port->verbs.base.attr.inline_size
               ? (size_t) eagers->port->tx_depth * BTL_IB_RC_EAGER_TAIL
               : 0;
}

/* Makes a ring of that memory. Returns NULL if that fails, which is logged only: sends do as
 * well. */
btl_ib_rc_eager_t *btl_ib_rc_eager_new(btl_ib_rc_eagers_t *eagers, struct btl_ib_rc_conn *conn,
                                       uint8_t channel, btl_ib_rc_credit_t *credit,
                                       const btl_ib_rc_address_t *peer, uint8_t *memory);

/* Closes a ring, which is polled no more. Free, when nobody holds a slot and the queue pair is
 * gone: its memory goes. */
void btl_ib_rc_eager_close(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager);
void btl_ib_rc_eager_free(btl_ib_rc_eager_t *eager);

/* ---- sending ---- */

/* True if the peer's ring has room for a datagram of that size, after `more` others. */
bool btl_ib_rc_eager_fits(const btl_ib_rc_eager_tx_t *tx, const btl_ib_rc_credit_t *credit,
                          uint32_t size, uint32_t more);

/* Turns a request into a write to the peer's ring: datagram `number` of all that went by it, after
 * `sends` messages that went by sends. `staged` has room for what goes inline, the request for two
 * pieces; `depth`, of its send queue. */
void btl_ib_rc_eager_fill(const btl_ib_rc_eager_tx_t *tx, const btl_ib_tx_t *datagram,
                          uint32_t number, uint32_t sends, uint64_t *staged, uint32_t depth,
                          struct ibv_send_wr *wr);

/* ---- receiving ---- */

/* Makes events of datagrams that have come and are next in the stream. Returns how many. */
int btl_ib_rc_eager_take(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, btl_ib_addr_t from,
                         btl_ib_event_t *events, int max);

/* Takes back buffers that the engine had of a ring: their copies are free again; then, if the
 * connection is still there, their slots. */
void btl_ib_rc_eager_release_copies(btl_ib_rc_eagers_t *eagers, const btl_ib_rc_eager_t *eager,
                                    void *const *buffers, int n);
void btl_ib_rc_eager_repost(btl_ib_rc_eager_t *eager, void *const *buffers, int n);

/* Notes that a message came by a send. After some datagrams (`size` is not 0) that a slot holds the
 * peer may write. */
void btl_ib_rc_eager_received(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, uint32_t size);

/* Takes the places of peers that sent little since the last review, where others wait. `now`,
 * us. */
void btl_ib_rc_eagers_review(btl_ib_rc_eagers_t *eagers, uint64_t now);

/* Ends the fading of a ring, which was polled just now, if its peer is known to have stopped
 * writing. `now`, us. */
void btl_ib_rc_eager_fade(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, uint64_t now);

/* Logs how much went by eager RDMA. */
void btl_ib_rc_eagers_stop(const btl_ib_rc_eagers_t *eagers);

/* Switches all rings off. Returns true if all peers are known to have stopped; if not, ask again
 * after a poll. */
bool btl_ib_rc_eagers_turn_off(btl_ib_rc_eagers_t *eagers);

#endif
