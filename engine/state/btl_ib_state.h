/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The state of an engine and of its connections: shared by the files of this directory, nobody else's business.
 * Each structure names the file that alone writes it.
 */

#ifndef BTL_IB_STATE_H
#define BTL_IB_STATE_H

#include "btl_ib_cc.h"
#include "btl_ib_clock.h"
#include "btl_ib_coalesce.h"
#include "btl_ib_credit.h"
#include "btl_ib_engine.h"
#include "btl_ib_tombstones.h"
#include "btl_ib_hotel.h"
#include "btl_ib_refragment.h"
#include "btl_ib_pacer.h"
#include "btl_ib_pool.h"
#include "btl_ib_reasm.h"
#include "btl_ib_rnr_runs.h"
#include "btl_ib_region.h"
#include "btl_ib_rtt.h"
#include "btl_ib_backlog.h"
#include "btl_ib_table.h"
#include "btl_ib_timer.h"
#include "btl_ib_window.h"
#include "btl_ib_wire.h"

/* us: stamps this far apart are not compared, because they wrap. */
#define BTL_IB_STAMP_AGE (UINT64_C(1) << 30)

/* us: refusals that follow each other so soon are one row, and so long they count after the last. */
#define BTL_IB_REFUSED_GAP 10000000u

/* us of nothing but refusals: believe them. A port may be late. */
#define BTL_IB_REFUSED_LONG 100000u

/* Nobody knows how long a datagram has lain there: its stamp is not echoed. */
#define BTL_IB_AWAY_UNKNOWN UINT32_MAX

/* Datagrams handed to or taken from a transport in one call, at most: as many as the kernel's segmentation
 * offload takes in one (UDP_MAX_SEGMENTS). attr.max_batch says how many are of use. */
#define BTL_IB_BATCH 64

/* Segments that were taken in from a copy sent again: if the first copy comes yet, that was for
 * nothing. */
#define BTL_IB_REPAIRED_KEPT 8

/* The newest segments that filled a gap: their ranges go in every ACK that has not room for all. */
#define BTL_IB_NEWEST_KEPT 16

/* The sending side of one channel of one connection. */
typedef struct btl_ib_tx_space {
    struct { /* btl_ib_sentmap.c */
        btl_ib_tx_window_t window;
        uint32_t in_flight; /* sent, not acknowledged, not known to be lost */
    } sentmap;
    struct {                 /* btl_ib_recovery.c */
        uint64_t arrived;    /* order of the newest copy known to have arrived */
        uint16_t duplicates; /* copies that the peer says it had already */
    } recovery;
    struct {                   /* btl_ib_submit.c */
        btl_ib_list_t pending; /* messages (or the rest of one) that wait, in order */
    } submit;
    uint32_t limit; /* P: sequences below it may be used */
} btl_ib_tx_space_t;

/* The receiving side of one. */
typedef struct btl_ib_rx_space {
    btl_ib_rx_window_t window;
    btl_ib_credit_t credit;       /* P */
    struct {                      /* btl_ib_ack_tx.c */
        uint32_t run;             /* what opened the last gap: all from there to the top arrived */
        uint32_t next_range;      /* where ranges take turns in the next ACK, if not all fit */
        uint32_t untold;          /* segments in ranges still to be told; UINT32_MAX: all */
        uint16_t duplicates;      /* segments that were sent again and had come before */
        uint16_t duplicates_told; /* of them, those that the peer was told of */
    } ack;
} btl_ib_rx_space_t;

typedef struct btl_ib_op_slot {
    btl_ib_op_t *op;    /* NULL: free */
    uint32_t next_free; /* of a free one */
} btl_ib_op_slot_t;

/* Our one-sided operations with one peer. Written by btl_ib_op_slots.c. */
typedef struct btl_ib_ops {
    btl_ib_list_t waiting;   /* for a place among those that run */
    btl_ib_op_slot_t *slots; /* config.ops_max of them; NULL: not needed now */
    uint32_t free;           /* slot */
    uint32_t count;          /* all that are not done */
    uint32_t running;        /* of them, those that have a slot */
    uint32_t answers;        /* of those, the ones that wait for an answer */
    uint64_t answer_since;   /* awake: the last answer, or the first to wait for one */
} btl_ib_ops_t;

/* Of them, those that the device does. Written by btl_ib_offload.c. */
typedef struct btl_ib_offload {
    btl_ib_list_t waiting; /* until the transport takes them, in order */
    btl_ib_list_t running; /* in the device */
    uint32_t count;        /* of these */
    uint64_t moved_at;     /* awake: the last went in or came out, or the first began to wait */
} btl_ib_offload_t;

/* What we owe one peer for its one-sided operations. Written by btl_ib_answers.c. */
typedef struct btl_ib_answers {
    btl_ib_out_t out;             /* replies: size and offset count since the beginning */
    btl_ib_wire_reply_t *replies; /* a ring of BTL_IB_OPS_MAX; NULL: not needed now */
    uint32_t streams;
} btl_ib_answers_t;

/* What we do for one peer. Written by btl_ib_target.c. */
typedef struct btl_ib_target {
    uint32_t refused;    /* the last PUT that was refused */
    uint32_t refused_in; /* and in which batch of events */
} btl_ib_target_t;

/* What a GET of a peer asked for. */
typedef struct btl_ib_stream {
    btl_ib_out_t out;
    btl_ib_region_key_t key;
    uint64_t offset; /* in the region */
    uint8_t *memory; /* where that is, as last checked */
    uint32_t id;     /* the peer's */
} btl_ib_stream_t;

/* Why a segment that is right cannot be taken in now. */
typedef enum btl_ib_refusal_cause {
    BTL_IB_REFUSAL_TAG,     /* nobody listens to its tag yet */
    BTL_IB_REFUSAL_BUFFER,  /* its fragment has no buffer */
    BTL_IB_REFUSAL_BACKLOG, /* the owner is away, and no more can be kept for him */
    BTL_IB_REFUSAL_CAUSES,
} btl_ib_refusal_cause_t;

/* One that was refused, of those with the same cause the one with the lowest sequence. */
typedef struct btl_ib_refusal {
    uint32_t seq;
    uint32_t fragment; /* CHUNK */
    uint8_t space;
    uint8_t tag;
    bool kept; /* there is one */
    bool told; /* the peer was told that it may come again */
} btl_ib_refusal_t;

typedef enum btl_ib_conn_state {
    BTL_IB_CONN_OPEN,    /* from the first: data go with the first datagram */
    BTL_IB_CONN_CLOSING, /* destroyed by its owner; CLOSEs are still to be sent */
    BTL_IB_CONN_DEAD,    /* given up; waits for its owner to destroy it */
    BTL_IB_CONN_GONE,    /* to be freed as soon as nobody is on the stack with it */
} btl_ib_conn_state_t;

/* What is known to have arrived, to find by time what was lost (btl_ib_recovery.c). */
typedef struct btl_ib_rack {
    uint64_t sent;       /* us: when the newest of it was sent */
    uint64_t order;      /* its place among all that was sent */
    uint64_t at;         /* us: when we learned it */
    uint64_t mark_order; /* what was the newest to have arrived at mark_at */
    uint64_t mark_at;    /* us */
} btl_ib_rack_t;

enum {
    BTL_IB_RACK_ALL,
    BTL_IB_RACK_BULK,
    BTL_IB_RACKS,
};

/* Whether a connection's own two rails lead to the peer (RFC 9000, 8.2: path validation), and what the network says of
 * them. Written by btl_ib_validation.c. */
typedef struct btl_ib_validation {
    bool valid;           /* something of the peer's came by them, under its token */
    bool answered;        /* something of ours got there, by whatever way */
    bool promised;        /* the peer answers a first contact also while its owner computes */
    bool told;            /* that it does not */
    uint32_t questions;   /* probes by them, with no answer yet, since another pair is validated */
    uint64_t refused_at;  /* us: when refusals by them were last believed; 0: not since */
    uint64_t asked_at;    /* awake: the first probe, if nothing had got there; 0: none */
    uint64_t question_at; /* us: the last question that was no probe; 0: none */
    uint64_t refused_row; /* us: the first refusal by the present way since something got there */
} btl_ib_validation_t;

/* Who the two processes are, and what a datagram of this connection must carry. Written by btl_ib_identity.c. */
typedef struct btl_ib_identity {
    uint64_t name;             /* the peer's process */
    btl_ib_secret_t secret;    /* the peer's */
    btl_ib_guard_keys_t *keys; /* NULL if the guard is not keyed */
    uint64_t tx_token;
    uint64_t rx_token;
    uint32_t id;      /* what the peer writes into its headers */
    uint32_t epoch;   /* of this incarnation of the connection */
    uint32_t peer_id; /* its connection; 0: not known yet */
    uint32_t peer_epoch;
    uint32_t peer_floor; /* its epochs below this ended here; 0: none did */
    uint32_t remote_rail;
    uint32_t peer_ack_delay; /* us */
    bool bound;              /* we have its id and token */
    bool peer_knows;         /* it has our id: CONNECT blocks are no longer needed */
    bool contacted;          /* something was sent to it in this incarnation */
    bool introduce;          /* in what is made now they are all the same */
} btl_ib_identity_t;

/* By which rail and to which address datagrams go. Written by btl_ib_route.c. */
typedef struct btl_ib_route {
    struct btl_ib_rail *via; /* what carries its datagrams: conn->rail, unless that failed */
    btl_ib_addr_t to;        /* the peer, there */
    const btl_ib_queue_table_t *queues; /* the peer's, by `via` */
    uint64_t moved_at;                  /* us: when it last took another way; 0: never */
    btl_ib_addr_t
        address; /* the peer's on conn->rail; BTL_IB_ADDR_UNKNOWN if that had failed before */
    uint32_t published_len;
    uint8_t published[BTL_IB_ADDR_BYTES]; /* the same, as it was published */
} btl_ib_route_t;

/* Segments in flight, lost or deferred. Written by btl_ib_sentmap.c. */
typedef struct btl_ib_sentmap {
    uint32_t in_flight; /* of all spaces */
    uint32_t unacked;   /* segments in flight, lost or deferred */
    uint32_t skips;     /* of them SKIPs */
    uint32_t deferred_count;
    uint32_t unasked; /* segments sent since one asked for its ACK, or nothing was in flight */
    uint64_t order;   /* of the newest segment sent */
    btl_ib_list_t
        sent[BTL_IB_RACKS]; /* in flight, by the time they were last sent: bulk, and all else */
    btl_ib_list_t lost;     /* to be sent again, in order of discovery */
    btl_ib_list_t deferred; /* those that the peer has refused, by the time it said so */
    uint64_t deferred_at; /* us: when all of them were last sent again, or the first was deferred */
} btl_ib_sentmap_t;

/* What was lost, when to probe. Written by btl_ib_recovery.c. */
typedef struct btl_ib_recovery {
    btl_ib_timer_t timer;
    btl_ib_rtt_t rtt;
    btl_ib_rack_t rack[BTL_IB_RACKS];
    uint64_t probe_base;    /* us: when something that asks for an answer was last sent */
    uint64_t blocked_since; /* awake: stopped by credit or window, nothing in flight; 0: not */
    uint64_t heard_at;      /* awake: anything valid from the peer; 0: never */
    uint64_t refused_at;    /* us: the last refusal */
    uint64_t refused_since; /* us: first of a row of refusals; 0: none since it was heard */
    uint64_t
        no_tag_at; /* awake: it said that it has no receiver for a tag; 0: not since the last news */
    uint64_t silent_since; /* awake: the first of the probes that are unheard */
    uint64_t asked_at;     /* us: the same */
    uint64_t sample_at;    /* us: when the last sample was taken */
    uint32_t sample_echo;  /* the echo that gave it */
    uint32_t sample;       /* us: round trip told by the datagram being taken in; 0: none */
    uint32_t sample_hosts; /* us: of it, time that it may have lain at a host that did not look */
    uint32_t
        network_rtt;  /* us: the shortest round trip, without what hosts may have caused of it */
    uint32_t probes;  /* since the last progress */
    uint32_t unheard; /* of them, the last ones that nothing answered */
    uint32_t probed;  /* segments sent again as probes in this row of them or the last */
    uint32_t reorder_scale; /* the time that reordering is given, in quarters of the shortest RTT */
    uint32_t reorder_calm;  /* losses in a row that were real */
    uint64_t reorder_at;    /* us: when the time given to reordering last grew */
    bool rack_partly;       /* the peer may know more that was sent before those than it has told */
    bool half_probed;       /* the next one goes on with what the last one began */
    bool doubtful;          /* the transport's connection ended, and the peer was not heard since */
} btl_ib_recovery_t;

/* Acknowledgements that are due to the peer. Written by btl_ib_ack_tx.c. */
typedef struct btl_ib_ack_tx {
    btl_ib_list_t link;     /* on the engine's list: an acknowledgement is due */
    uint64_t at;            /* us: when it is due */
    uint64_t delivered_at;  /* us: when a message was handed up */
    uint64_t echo_at;       /* us: when that came */
    uint32_t echo;          /* the peer's newest stamp */
    uint32_t echo_away;     /* us: how long it may have lain there before */
    uint32_t due;           /* a bit for each space with something to acknowledge */
    uint32_t count;         /* segments received since the last acknowledgement */
    uint32_t space;         /* the space to acknowledge by piggyback */
    uint32_t repaired_next; /* how many were kept; wraps */
    uint32_t repaired_seq[BTL_IB_REPAIRED_KEPT];
    uint32_t newest_next; /* as repaired_next */
    uint32_t newest_seq[BTL_IB_NEWEST_KEPT];
    uint8_t repaired_space[BTL_IB_REPAIRED_KEPT];
    uint8_t newest_space[BTL_IB_NEWEST_KEPT];
    bool now;
    bool unanswered; /* nothing was sent to it within the ACK delay after a message was handed up */
    bool echo_valid;
    bool no_tag; /* we are to tell it that we have no receiver for a tag */
} btl_ib_ack_tx_t;

/* What of the peer's was refused, and is to be told when it may come. Written by btl_ib_rnr.c. */
typedef struct btl_ib_rnr {
    btl_ib_list_t link;      /* on the engine's list: a cause of theirs may be gone */
    btl_ib_rnr_runs_t *runs; /* NULL: none lately */
    bool any;                /* something in `refusals` or `runs` is kept */
    btl_ib_refusal_t refusals[BTL_IB_REFUSAL_CAUSES];
} btl_ib_rnr_t;

/* What came in pieces. Written by btl_ib_input.c. */
typedef struct btl_ib_input {
    btl_ib_reasm_peer_t fragments; /* being reassembled */
    btl_ib_list_t parts;           /* segments that are there in part */
    btl_ib_list_t whole;           /* on the engine's list: some may be handed up */
} btl_ib_input_t;

/* Shrinks what nobody uses. Written by btl_ib_idle.c. */
typedef struct btl_ib_idle {
    btl_ib_timer_t timer;
    uint64_t active_at; /* us: when something sequenced last came or went */
    bool shrunk;        /* to its idle size */
} btl_ib_idle_t;

/* The path MTU and the search for it (RFC 8899). Written by btl_ib_pmtud.c. All sizes are bytes of datagrams, with header and trailer. */
typedef struct btl_ib_pmtud {
    uint32_t datagram_max; /* what is sent is no larger: as far as known, the path carries it */
    uint32_t carries; /* both ways, in one datagram, as was known when the connection was made */
    uint32_t home;    /* what the rails carry that the connection joins */
    uint32_t most;    /* what those carry that it goes by: the same, or less */
    bool parts;       /* segments were cut that are larger than what the path carries */

    /* A row of losses of `suspect` to `largest` bytes, while what is smaller got through. */
    uint32_t losses;    /* at different times */
    uint32_t shown;     /* of them, that answers to questions showed */
    uint32_t suspect;   /* larger than `carried` */
    uint32_t largest;   /* if one as large as that gets through the row is over */
    uint32_t carried;   /* the largest that got through since the row began */
    uint64_t since;     /* us: the first loss */
    uint64_t struck_at; /* us: the last one; what was sent before tells nothing new */

    /* A probe of the timer went with a question that is smaller: who answers that, and has not got the
     * probe, shows a loss. */
    bool asked;
    uint8_t asked_space;
    /* The search; here is room for these two. */
    bool probing; /* one is on its way, sent since the sizes were last set back: */
    uint8_t probe_space;
    uint32_t asked_seq;
    uint64_t asked_at; /* us */
    uint32_t probe_seq;
    uint32_t too_large; /* the smallest known not to get through, or one above `most` */
    uint32_t next;      /* to be tried next; 0: in the middle */
    uint32_t failures;  /* of that size in a row */
    uint64_t search_at; /* us: not before; UINT64_MAX: there is nothing to be found */
} btl_ib_pmtud_t;

struct btl_ib_conn {
    btl_ib_engine_t *engine;
    struct btl_ib_rail *rail;                /* its own: queues, credits, names */
    const btl_ib_queue_table_t *peer_queues; /* owned by the engine's table cache */
    btl_ib_tx_space_t *tx;                   /* peer_queues->count of them */
    btl_ib_rx_space_t *rx;                   /* rail->queues.count of them */
    void *user;

    btl_ib_list_t ready; /* on the engine's list: something may be sendable */
    btl_ib_list_t all;   /* on the engine's list of those open, closing, or gone */
    btl_ib_conn_state_t state;
    bool draining;
    bool adopted;
    bool bulk_lane;   /* what follows of bulk goes by itself, until all of it has arrived */
    uint32_t closes;  /* CLOSEs sent */
    uint32_t made_in; /* the batch of events that it was made in */
    uint32_t next_fragment;

    btl_ib_identity_t identity;
    btl_ib_route_t route;
    btl_ib_sentmap_t sentmap;
    btl_ib_recovery_t recovery;
    btl_ib_cc_t cc;
    btl_ib_pacer_t pacer;
    btl_ib_pmtud_t pmtud;
    btl_ib_validation_t validation;
    btl_ib_ack_tx_t ack;
    btl_ib_coalesce_t coalesce;
    btl_ib_input_t input;
    btl_ib_rnr_t rnr;
    btl_ib_ops_t ops;
    btl_ib_offload_t offload;
    btl_ib_answers_t answers;
    btl_ib_target_t target;
    btl_ib_idle_t idle;
};

/* What is known of a device that failed or whose port is down. Written by btl_ib_rail.c. */
typedef struct btl_ib_rail_health {
    uint64_t down_since; /* us of the clock that moves in turns */
    int error;           /* what it failed with, or why it is down */
    uint32_t moved;      /* connections that went on by other rails */
    uint32_t left;       /* and those that could not */
    bool failed;
    bool reported; /* whoever had to be told of that was */
    bool down;     /* its port is, or was when it failed; it may come back */
} btl_ib_rail_health_t;

typedef struct btl_ib_rail {
    btl_ib_engine_t *engine;
    btl_ib_transport_t *transport;
    uint32_t index;
    btl_ib_queue_table_t queues; /* ours */
    btl_ib_credit_pool_t credit[BTL_IB_QUEUES_MAX];
    btl_ib_pool_t pool;
    const btl_ib_cc_ops_t *cc;
    uint64_t empty_at; /* us: the last turn that found nothing there */
    btl_ib_rail_health_t health;
} btl_ib_rail_t;

static inline bool btl_ib_rail_usable(const btl_ib_rail_t *rail)
{
    return !rail->health.failed && !rail->health.down;
}

/* A datagram that came in. */
typedef struct btl_ib_arrival {
    uint8_t *data;
    uint32_t size; /* without the guard's trailer, which follows */
    btl_ib_addr_t from;
    const btl_ib_event_t *event;
    btl_ib_view_t view;
    btl_ib_guard_way_t way; /* the keys that opened it, if it was a first contact */
} btl_ib_arrival_t;

/* Dropped datagrams that are to be shown: btl_ib_drops.c. */
typedef struct btl_ib_drops btl_ib_drops_t;

/* Queue tables of peers; most peers share one. */
typedef struct btl_ib_table_entry {
    btl_ib_list_t link;
    btl_ib_queue_table_t table;
} btl_ib_table_entry_t;

/* Who is on the stack, and what waits for that. Written by btl_ib_lifetime.c. */
typedef struct btl_ib_lifetime {
    uint32_t depth;     /* calls on the stack that may run callbacks */
    btl_ib_list_t gone; /* connections to be freed when there is none */
} btl_ib_lifetime_t;

/* What a turn does and did. Written by btl_ib_engine.c. */
typedef struct btl_ib_turn {
    bool async; /* in btl_ib_engine_async_progress(): nothing is called up but what needs no user */
    bool sending;         /* what waits is being sent */
    bool more;            /* it took in as much as it was to: perhaps there is more */
    bool failure_pending; /* a device failed in a kick: its connections are to be told */
    uint32_t batches;     /* of events taken from transports; wraps */
    uint32_t batch;       /* the number of the one in hand, or of the last */
    uint32_t idle_calls;  /* progress calls in a row that received nothing */
    uint32_t
        away; /* us: what is in the batch in hand may have lain there for so long; or _UNKNOWN */
    uint32_t first_rail; /* polled first in this turn; wraps */
} btl_ib_turn_t;

/* Short messages that bulk waits for. Written by btl_ib_engine.c. */
typedef struct btl_ib_latency {
    bool hold_bulk; /* in this turn bulk waits, because a short message came */
    uint32_t
        row; /* of turns for short messages, each soon after the one before it, those that count */
    uint64_t at;      /* us: the last turn for short messages */
    uint64_t before;  /* and the one before */
    uint64_t ops;     /* operations on memory that short messages went with */
    uint64_t excused; /* of these messages, those that may come yet */
} btl_ib_latency_t;

/* Limits on all connections together. Written by btl_ib_sentmap.c. */
typedef struct btl_ib_budget {
    uint32_t unacked; /* segments in flight or lost, without SKIPs */
    uint64_t bytes_unacked;
} btl_ib_budget_t;

/* Incarnations of all connections of this process. Written by btl_ib_identity.c. */
typedef struct btl_ib_incarnations {
    uint32_t newest; /* the epoch of the last that began */
} btl_ib_incarnations_t;

/* Connections that peers ask for. Written by btl_ib_admission.c. */
typedef struct btl_ib_admission {
    uint32_t passive;   /* connections that nobody has adopted */
    uint32_t lookups;   /* of unknown senders, in the second that began at lookups_at */
    uint32_t responses; /* to them, in the same second */
    uint64_t lookups_at;
    bool closed;       /* nobody unknown gets a connection any more */
    bool told_passive; /* that there are passive_max */
} btl_ib_admission_t;

/* Ids of operations, of all connections: an answer to a connection that was destroyed must not fit an
 * operation of the next one with the same peer. Written by btl_ib_op_slots.c. */
typedef struct btl_ib_op_ids {
    uint32_t generation; /* of the newest */
} btl_ib_op_ids_t;

struct btl_ib_engine {
    btl_ib_engine_config_t config;
    const btl_ib_engine_ops_t *ops;
    void *ops_context;
    btl_ib_mem_t mem;
    btl_ib_guard_t guard;
    btl_ib_clock_t clock;
    btl_ib_lifetime_t lifetime;
    btl_ib_turn_t turn;
    btl_ib_latency_t latency;
    btl_ib_budget_t budget;
    btl_ib_incarnations_t incarnations;
    btl_ib_admission_t admission;
    btl_ib_op_ids_t op_ids;
    uint32_t lively;            /* connections that are not idle: each has a timer to become so */
    uint32_t finished;          /* messages finished in this turn */
    btl_ib_segment_t *reserved; /* between sendi_begin and sendi_commit */
    btl_ib_hotel_t hotel;
    btl_ib_table_t table;
    btl_ib_tombstones_t tombstones;
    btl_ib_reasm_pool_t reasm;
    btl_ib_regions_t regions;
    btl_ib_backlog_t backlog; /* what came in kicks */
    btl_ib_backlog_t
        unidentified; /* the same, of senders nobody could look up; `tag` is the rail */
    btl_ib_list_t conns;
    btl_ib_list_t ready;   /* connections with something that may be sendable */
    btl_ib_list_t starved; /* those that wait for the limits on all connections */
    btl_ib_list_t acks;    /* those that owe an acknowledgement, the most urgent first */
    btl_ib_list_t whole;   /* those with fragments for the next progress call to hand up */
    btl_ib_list_t
        refused; /* those that refused something, and have not told that it may come again */
    btl_ib_list_t closing;
    btl_ib_list_t events; /* messages and operations whose callbacks are to be called */
    btl_ib_list_t tables; /* btl_ib_table_entry_t */
    uint32_t rail_count;
    btl_ib_rail_t *rails[BTL_IB_RAILS_MAX];
    btl_ib_counters_t count;
    btl_ib_drops_t *drops; /* NULL: nobody listens, or no memory */
};

#define BTL_IB_LOG(engine, level, ...)                                                             \
    do {                                                                                           \
        if ((engine)->config.log.print != NULL) {                                                  \
            (engine)->config.log.print((engine)->config.log.context, (level), __VA_ARGS__);        \
        }                                                                                          \
    } while (0)

/* At level BTL_IB_LOG_DETAILED. Nothing is computed if nobody listens to that. */
#define BTL_IB_LOG_DETAIL(engine, ...)                                                             \
    do {                                                                                           \
        if ((engine)->config.log.detailed) {                                                       \
            BTL_IB_LOG(engine, BTL_IB_LOG_DETAILED, __VA_ARGS__);                                  \
        }                                                                                          \
    } while (0)

/* "job.rank" of a process name, for logs: two arguments for "%u.%u". */
#define BTL_IB_NAME_ARGS(name) (unsigned) ((name) >> 32), (unsigned) ((name) &0xffffffffu)

/* Nothing waits for an answer but the news of credits given back, which can wait itself. */
static inline bool btl_ib_conn_only_skips(const btl_ib_conn_t *conn)
{
    return conn->sentmap.unacked == conn->sentmap.skips;
}

static inline bool btl_ib_conn_alive(const btl_ib_conn_t *conn)
{
    return conn->state == BTL_IB_CONN_OPEN;
}

#endif
