/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Eager RDMA: short datagrams of a few peers come by a write into a ring that poll() looks at,
 * which costs the receiver neither a completion nor a receive request. Only on the first channel,
 * only what goes inline, not over iWARP, where a write may be placed in any order and nobody is
 * told when it is.
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
 * are free again. They are the first that sent some short datagrams, and keep that until their
 * connection ends or the receiver sleeps. A sender that reads the word late may still write. So a
 * ring that was switched off is polled as before until the word is known to have been written, and
 * QUIET_US longer ("fading"): so long nobody sleeps. After that it is polled seldom: what the
 * network lost, and the device sends again later than that, is found there.
 */

#ifndef BTL_IB_VERBS_RC_EAGER_H
#define BTL_IB_VERBS_RC_EAGER_H

#include "verbs_wire.h"
#include "verbs_rc_credit.h"
#include "verbs_rc_work_queues.h"

enum {
    BTL_IB_RC_EAGER_PEERS = 64,
    BTL_IB_RC_EAGER_THRESHOLD = 16, /* short datagrams after which a peer may write */
    /* Datagrams of all rings that may be in the engine's hands: a batch of events, and a few for
     * each call within a callback. */
    BTL_IB_RC_EAGER_COPIES = 128,
};

struct btl_ib_rc_conn;

/* A slot whose datagram the engine has. */
typedef struct btl_ib_rc_eager_slot {
    uint8_t copy;  /* number of the datagram's copy */
    bool returned; /* it was given back before an earlier one */
} btl_ib_rc_eager_slot_t;

/* A ring that the peer of a connection writes to. */
typedef struct btl_ib_rc_eager {
    struct btl_ib_rc_conn *conn;
    btl_ib_rc_credit_t *credit;
    const btl_ib_rc_address_t *peer; /* for the log */
    btl_ib_rc_rx_t rx;               /* its slots */
    struct ibv_mr *mr;
    btl_ib_rc_eager_slot_t *slot;
    uint32_t taken;  /* in all */
    uint32_t freed;  /* in all, in order */
    uint32_t sends;  /* messages that came by sends */
    uint32_t shorts; /* short datagrams that came by sends since it was on last */
    bool on;         /* the peer may write */
    struct btl_ib_rc_eager *next_off;
    bool fading;       /* it may no longer, but may not know */
    uint64_t quiet_at; /* us; fading ends then; 0: it is not known when */
} btl_ib_rc_eager_t;

/* All rings of a transport. */
typedef struct btl_ib_rc_eagers {
    const btl_ib_rc_port_t *port;
    uint32_t peers; /* at most so many may write; 0: none */
    uint32_t slots; /* of each ring: a power of two */
    uint32_t slot;  /* bytes of each, the trailer included */
    btl_ib_rc_eager_t *on[BTL_IB_RC_EAGER_PEERS];
    uint32_t count;         /* of them */
    btl_ib_rc_eager_t *off; /* a list of those that were on */
    uint32_t fading;        /* of them */
    /* Room for a datagram each, as peers may write to rings meanwhile; NULL: no ring was made. */
    uint8_t *copies;
    uint8_t copy[BTL_IB_RC_EAGER_COPIES]; /* their numbers: first those in use, */
    uint32_t copies_used;                 /* so many, and then the free ones */
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
} btl_ib_rc_eager_tx_t;

/* Chooses sizes; `first` is the queue of the first channel. */
void btl_ib_rc_eagers_plan(btl_ib_rc_eagers_t *eagers, const btl_ib_rc_port_t *port,
                           const btl_ib_rc_rxq_t *first, const btl_ib_open_rc_t *wanted);

/* Bytes of copies, and are all in use? */
static inline size_t btl_ib_rc_eagers_copied(const btl_ib_rc_eagers_t *eagers)
{
    return (size_t) BTL_IB_RC_EAGER_COPIES * eagers->slot;
}

static inline bool btl_ib_rc_eagers_full(const btl_ib_rc_eagers_t *eagers)
{
    return eagers->copies_used == BTL_IB_RC_EAGER_COPIES;
}

/* ---- a ring's life ---- */

/* Bytes of a connection's ring, a multiple of a cache line; 0: it has none. */
static inline size_t btl_ib_rc_eager_bytes(const btl_ib_rc_eagers_t *eagers, uint8_t channel)
{
    return channel == 0 && eagers->peers > 0 ? (size_t) eagers->slots * eagers->slot : 0;
}

/* Makes a ring of that memory. NULL if that fails, which is logged only: sends do as well. */
btl_ib_rc_eager_t *btl_ib_rc_eager_new(btl_ib_rc_eagers_t *eagers, struct btl_ib_rc_conn *conn,
                                       btl_ib_rc_credit_t *credit, const btl_ib_rc_address_t *peer,
                                       uint8_t *memory);

/* The connection closes; then, nobody holds a slot and no queue pair is there. */
void btl_ib_rc_eager_close(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager);
void btl_ib_rc_eager_free(btl_ib_rc_eager_t *eager);

/* ---- sending ---- */

/* Has the peer's ring room for a datagram of that size, after `more` others? */
bool btl_ib_rc_eager_fits(const btl_ib_rc_eager_tx_t *tx, const btl_ib_rc_credit_t *credit,
                          uint32_t size, uint32_t more);

/* Turn a request into a write: datagram `number` of all, after that many sends. `staged` has room
 * for a slot. */
void btl_ib_rc_eager_fill(const btl_ib_rc_eager_tx_t *tx, const btl_ib_tx_t *datagram,
                          uint32_t number, uint32_t sends, uint64_t *staged,
                          struct ibv_send_wr *wr);

/* ---- receiving ---- */

/* Makes events of what has come and is next in the stream. Returns how many. */
int btl_ib_rc_eager_take(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, btl_ib_addr_t from,
                         btl_ib_event_t *events, int max);

/* The engine gave buffers of such events back: first their copies are free again; if the connection
 * is still there, then its slots. */
void btl_ib_rc_eager_release_copies(btl_ib_rc_eagers_t *eagers, const btl_ib_rc_eager_t *eager,
                                    void *const *buffers, int n);
void btl_ib_rc_eager_repost(btl_ib_rc_eager_t *eager, void *const *buffers, int n);

/* A message came by a send; `counts`: after some of them its peer may write. */
void btl_ib_rc_eager_received(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, bool counts);

/* A ring that is off was polled: has its peer stopped writing? */
void btl_ib_rc_eager_fade(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, uint64_t now);

/* Logs what became of them. */
void btl_ib_rc_eagers_stop(const btl_ib_rc_eagers_t *eagers);

/* Switches all off. Returns whether all are known to have stopped; if not, ask again after a
 * poll. */
bool btl_ib_rc_eagers_turn_off(btl_ib_rc_eagers_t *eagers);

#endif
