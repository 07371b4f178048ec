/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The state of an engine, of its rails and of its connections: it embeds the structures that
 * subjects own, which are in their headers. Private to the engine. A structure, or a part of one,
 * that names a file is written by that file alone; all others read it or call its functions. First
 * values come from what makes an engine (btl_ib_setup.c) and begins a connection (btl_ib_conn.c).
 *
 * Times are microseconds of engine->clock: `now` unless a comment says "awake" (the time in which
 * this process listened, see btl_ib_clock.h). Unless noted, 0 means "never" or "not now".
 */

#ifndef BTL_IB_STATE_H
#define BTL_IB_STATE_H

#include "btl_ib_ack_write.h"
#include "btl_ib_admission.h"
#include "btl_ib_backlog.h"
#include "btl_ib_cc.h"
#include "btl_ib_clock.h"
#include "btl_ib_coalesce.h"
#include "btl_ib_credit.h"
#include "btl_ib_drops.h"
#include "btl_ib_ecn.h"
#include "btl_ib_engine.h"
#include "btl_ib_flow.h"
#include "btl_ib_goodput.h"
#include "btl_ib_gso.h"
#include "btl_ib_hotel.h"
#include "btl_ib_identity.h"
#include "btl_ib_incast.h"
#include "btl_ib_input.h"
#include "btl_ib_keepalive.h"
#include "btl_ib_latency.h"
#include "btl_ib_loss.h"
#include "btl_ib_pacing.h"
#include "btl_ib_paths.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_pool.h"
#include "btl_ib_rack.h"
#include "btl_ib_rail.h"
#include "btl_ib_reasm.h"
#include "btl_ib_rma_offload.h"
#include "btl_ib_rma_region.h"
#include "btl_ib_rma_replies.h"
#include "btl_ib_rma_requests.h"
#include "btl_ib_rma_target.h"
#include "btl_ib_rnr_receiver.h"
#include "btl_ib_route.h"
#include "btl_ib_rtt.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_seq_window.h"
#include "btl_ib_table.h"
#include "btl_ib_tombstones.h"
#include "btl_ib_transmit.h"
#include "btl_ib_validation.h"
#include "btl_ib_wire.h"

/* So many unacknowledged segments each connection may have beside what the limits on all
 * connections count: peers that are silent for long and hold all that these allow hold no other
 * up. */
#define BTL_IB_DEPTH_APART 1

/* The sending side of one channel of one connection. Invariant: window.first <= window.next, and on
 * a P channel window.next <= `limit`; in_flight counts its segments in
 * conn->sentmap.sent. */
struct btl_ib_tx_channel {
    struct {                   /* btl_ib_submit.c */
        btl_ib_list_t pending; /* messages, operations and answers not sent completely, in order */
    } submit;
    struct { /* btl_ib_sentmap.c */
        btl_ib_tx_window_t window;
        uint32_t in_flight; /* sent, not acknowledged, not known to be lost */
        uint64_t sent;      /* segments, since the connection was made */
    } sentmap;
    struct {                 /* btl_ib_loss.c */
        uint64_t arrived;    /* segment->order of the newest copy known to have arrived */
        uint16_t duplicates; /* retransmissions that the peer reported as duplicates; wraps */
    } loss;
    /* P queues: sequences below it may be sent. btl_ib_ack_read.c. */
    uint32_t limit;
};

/* The receiving side of one channel of one connection. Invariant: all below window.next arrived;
 * `above` of those up to window.top did, and on a P channel none of credit.limit or later. */
typedef struct btl_ib_rx_channel {
    btl_ib_rx_window_t window;
    btl_ib_credit_t credit; /* P queues */
    struct {                /* btl_ib_accept.c */
        uint64_t received;  /* segments, since the connection was made */
    } accept;
    struct {                 /* btl_ib_ack_write.c */
        uint32_t run;        /* where there are gaps: the first sequence of the highest range */
        uint32_t next_range; /* where the next ACK continues, if it has no room for all ranges */
        uint32_t unreported; /* segments in ranges not reported yet; UINT32_MAX: all */
        /* The same two once the ACK that was filled last has left. */
        uint32_t filled_range;
        uint32_t filled_unreported;
        uint16_t duplicates;          /* retransmissions that arrived here in duplicate; wraps */
        uint16_t duplicates_reported; /* value of `duplicates` that was last reported */
    } ack;
} btl_ib_rx_channel_t;

typedef enum btl_ib_conn_state {
    BTL_IB_CONN_OPEN,    /* from the first: data go with the first datagram */
    BTL_IB_CONN_CLOSING, /* destroyed by the user; CLOSEs are still to be sent */
    BTL_IB_CONN_DEAD,    /* given up; waits for btl_ib_conn_destroy() */
    BTL_IB_CONN_GONE,    /* to be freed as soon as no call on the stack uses it */
} btl_ib_conn_state_t;

/* A connection with a peer process over one pair of rails, in the order of its life. */
struct btl_ib_conn {
    btl_ib_engine_t *engine;
    struct btl_ib_rail *rail;                /* its own: queues, credits, names */
    const btl_ib_queue_table_t *peer_queues; /* owned by the engine's table cache */
    btl_ib_tx_channel_t *tx;                 /* peer_queues->count of them */
    btl_ib_rx_channel_t *rx;                 /* rail->queues.count of them */
    void *user;
    btl_ib_list_t all; /* on engine->conns, ->closing or ->deferred_free.gone */
    btl_ib_conn_state_t state;
    bool draining;
    bool adopted;
    uint32_t closes;  /* CLOSEs sent */
    uint32_t made_in; /* turn.batch in which it was made */

    /* Who the two processes are, and what proves it. Invariant: peer_id and rx_token are used only
     * while `bound`; an incarnation of the peer never comes back (peer_floor, tombstones). */
    btl_ib_identity_t identity;

    /* Over which rails its datagrams go. Invariant: `via` and `to` are its own rail and address, or
     * those of another connection with the same process; what has an address is in its chain. */
    btl_ib_route_t route;
    btl_ib_route_chains_t chains;
    btl_ib_validation_t validation; /* do its own two rails reach the peer? */
    btl_ib_flow_t flow;             /* by which of the transport's flows */
    btl_ib_capped_t capped;         /* by which ones bulk leaves at once */
    btl_ib_goodput_t goodput;       /* what they carry, beside others */
    btl_ib_keepalive_t keepalive;   /* asks a peer that is silent for long */

    /* What the user gave, until it is in segments. Invariant: whoever has something that may leave
     * is on engine->ready, or on ->starved while the limits on all connections stop it; messages
     * held to be coalesced are never held beyond the next turn. */
    btl_ib_list_t ready; /* on engine->ready or ->starved */
    struct {             /* btl_ib_sched.c */
        bool starved;    /* on engine->starved, or it was in this turn */
    } sched;
    struct {                    /* btl_ib_out_message.c */
        uint32_t next_fragment; /* number of the next message that is split; wraps */
    } message;
    btl_ib_coalesce_t coalesce;
    btl_ib_pmtud_t pmtud; /* how large a datagram may be */
    btl_ib_gso_t gso;     /* how many may leave joined */

    /* Segments from their sequence until their acknowledgement. Invariant: each is in one of the
     * lists `sent` (in flight), `lost` and `deferred`, and in its place of tx[].sentmap.window; a
     * segment that is lost or deferred is not in flight. */
    btl_ib_sentmap_t sentmap;
    struct {                        /* btl_ib_transmit.c */
        bool bulk_lane;             /* bulk leaves by its own lane, until all of it has arrived */
        bool ect;                   /* first copies of bulk in this batch leave with ECT(0) */
        uint8_t no_buffers_channel; /* the segment that this host did not take (ENOBUFS), */
        uint32_t no_buffers_seq;
        uint64_t no_buffers_since; /* us: and when that began */
    } transmit;
    struct {         /* btl_ib_rnr_sender.c */
        uint64_t at; /* us: all deferred ones were last retransmitted, or the first was deferred */
    } deferred;

    /* What becomes of them. Invariant: while anything waits for an answer (btl_ib_loss_waits()),
     * loss.timer is a guest of the hotel. */
    btl_ib_loss_t loss;
    btl_ib_cc_t cc;
    btl_ib_pacer_t pacer;
    btl_ib_incast_share_t incast; /* of what many may send to one */
    btl_ib_ecn_t ecn;

    /* What the peer sent. Invariant: `ack` is on engine->acks or ->acks_answered exactly while
     * ack.due names a channel; what was accepted is acknowledged, and was delivered or is kept in
     * `input`, in the engine's backlog, or in the memory that it was meant for. */
    btl_ib_ack_tx_t ack;
    btl_ib_input_t input;
    btl_ib_rnr_t rnr;

    /* One-sided operations: ours by messages, ours by the device, answers to the peer's. */
    btl_ib_ops_t ops;
    btl_ib_offload_t offload;
    btl_ib_replies_t replies;
    btl_ib_target_t target;

    btl_ib_idle_t idle;           /* memory that is freed while it is not used */
    btl_ib_conn_counters_t count; /* since it was made; segments are counted by `tx` and `rx` */
};

/* Returns how many lists there are of segments in flight, and one of them: those of sentmap.sent,
 * and of each path but the usual one. */
static inline int btl_ib_sent_lists(const btl_ib_conn_t *conn)
{
    return BTL_IB_SENT_LISTS
           + (conn->capped.paths == NULL ? 0 : (int) conn->capped.paths->count - 1);
}

static inline btl_ib_list_t *btl_ib_sent_list(const btl_ib_conn_t *conn, int i)
{
    return i < BTL_IB_SENT_LISTS ? (btl_ib_list_t *) (uintptr_t) &conn->sentmap.sent[i]
                                 : &conn->capped.paths->path[i + 1 - BTL_IB_SENT_LISTS].sent;
}

static inline bool btl_ib_bulk_in_flight(const btl_ib_conn_t *conn)
{
    bool found = false;

    for (int i = BTL_IB_SENT_BULK; i < btl_ib_sent_lists(conn) && !found; i++) {
        found = !btl_ib_list_empty(btl_ib_sent_list(conn, i));
    }
    return found;
}

/* One of this process's devices. Invariant: the credits granted on a P channel to all connections
 * of a rail are no more than the buffers that it has. */
struct btl_ib_rail {
    btl_ib_engine_t *engine;
    btl_ib_transport_t *transport;
    uint32_t index;
    struct {            /* btl_ib_route.c */
        bool stands_by; /* no connection goes by it */
    } use;
    btl_ib_queue_table_t queues; /* ours */
    btl_ib_credit_pool_t credit[BTL_IB_QUEUES_MAX];
    btl_ib_pool_t pool;
    const btl_ib_cc_ops_t *cc;
    struct {               /* btl_ib_receive.c */
        uint64_t empty_at; /* us: the last turn that found nothing to receive */
        /* us: the longest time without a call of late, what came in which may still be there */
        uint32_t pause;
        uint64_t pause_until; /* us: by then it is all received */
    } polled;
    btl_ib_incast_t incast; /* what all peers may have in flight */
    btl_ib_rail_health_t health;
    btl_ib_rail_moves_t moves;
    /* Of datagrams all, of connections those that are no more: btl_ib_conn.c. */
    btl_ib_rail_counters_t count;
    /* Sent ones by the peer's channels, received ones by ours; segments of connections that are no
     * more. */
    btl_ib_channel_counters_t channels[BTL_IB_QUEUES_MAX];
};

static inline bool btl_ib_rail_usable(const btl_ib_rail_t *rail)
{
    return !rail->health.failed && !rail->health.down;
}

/* A received datagram. */
struct btl_ib_arrival {
    uint8_t *data;
    uint32_t size; /* without the protection's trailer, which follows */
    btl_ib_addr_t from;
    const btl_ib_event_t *event;
    btl_ib_view_t view;
    btl_ib_protection_way_t way; /* the keys that opened it, if it was a first contact */
    bool kept;                   /* until its sender is looked up: btl_ib_first_contact_t */
};

/* Queue tables of peers; most peers share one. */
typedef struct btl_ib_table_entry {
    btl_ib_list_t link;
    btl_ib_queue_table_t table;
} btl_ib_table_entry_t;

/* Calls on the stack, and connections that are freed after them. Written by
 * btl_ib_deferred_free.c. */
typedef struct btl_ib_deferred_free {
    uint32_t conns;     /* connections that are not freed */
    uint32_t depth;     /* calls on the stack that may run callbacks */
    btl_ib_list_t gone; /* connections to be freed when depth is 0 */
} btl_ib_deferred_free_t;

/* The present turn of progress, and those before. Written by btl_ib_turn.c. */
typedef struct btl_ib_turn {
    bool async;   /* no callback that needs the application's thread */
    bool sending; /* what waits is being sent */
    bool more;    /* it received as much as it may: there may be more */
    /* A device failed in asynchronous progress: its connections are still to be told. */
    bool failure_pending;
    uint32_t batches;    /* of events taken from transports; wraps */
    uint32_t batch;      /* number of the batch in hand, or of the last one */
    uint32_t idle_calls; /* consecutive progress calls that received nothing */
    /* us: longest that the batch in hand may have waited here; BTL_IB_POLL_GAP_UNKNOWN */
    uint32_t poll_gap;
    uint32_t pause;      /* us: of it what a pause of this process explains; 0: none */
    uint32_t first_rail; /* polled first in this turn */
    uint64_t sent_told;  /* datagrams sent when the end of a call was last told */
    uint64_t tick_at;    /* us: when the next of the three is due: */
    uint64_t standby_at; /* rails that stand by are polled, */
    uint64_t sample_at;  /* what rails carry is sampled, */
    uint64_t ask_at;     /* silent peers are asked */
    /* us: turns are catching up on what came during a pause of ours, until then at most; 0: they
     * are not */
    uint64_t behind_until;
} btl_ib_turn_t;

/* Events taken from a transport. A callback, or another thread meanwhile, may poll as well: that
 * has an array of its own. Written by btl_ib_receive.c. */
typedef struct btl_ib_polled {
    bool in_hand; /* a call handles `events` */
    btl_ib_event_t events[BTL_IB_BATCH];
    void *buffers[BTL_IB_BATCH]; /* of some events, while they are given back */
} btl_ib_polled_t;

/* What a predicted header acknowledges, and the credit that it gives. */
typedef struct btl_ib_predicted_ack {
    uint32_t channel;
    uint32_t limit;
    bool more;                 /* the limit gives more credit */
    btl_ib_segment_t *segment; /* the only one that is acknowledged; NULL: none */
} btl_ib_predicted_ack_t;

/* A predicted message that is being delivered, while nothing else was done of it: what its header
 * says. Written by btl_ib_predict.c. Invariant: there is one only while its callback runs, and
 * nothing was changed since it was predicted. */
typedef struct btl_ib_predicted {
    btl_ib_conn_t *conn; /* NULL: there is none */
    btl_ib_predicted_ack_t ack;
    uint32_t channel;
    uint32_t size;
    uint32_t stamp, echo;
    uint16_t hold, poll_gap;
} btl_ib_predicted_t;

struct btl_ib_engine {
    btl_ib_engine_config_t config;
    const btl_ib_engine_ops_t *ops;
    void *ops_context;
    btl_ib_mem_t mem;
    btl_ib_protection_t protection;
    btl_ib_clock_t clock;
    btl_ib_deferred_free_t deferred_free;
    btl_ib_turn_t turn;
    btl_ib_latency_t latency;
    btl_ib_budget_t budget;
    btl_ib_retry_budget_t retries;
    btl_ib_incarnations_t incarnations;
    btl_ib_admission_t admission;
    btl_ib_op_ids_t op_ids;
    struct {             /* btl_ib_sched.c */
        uint32_t active; /* connections that are not idle: their idle timers run */
    } sched;
    struct {               /* btl_ib_completion.c */
        uint32_t finished; /* messages and operations whose callbacks were called; wraps */
    } completion;
    struct {                /* btl_ib_zcopy.c */
        btl_ib_list_t sent; /* messages that left from their sender's memory, in that order */
        uint32_t count;     /* messages with spare memory that hold their sender's */
    } zcopy;
    struct {                       /* btl_ib_submit.c */
        btl_ib_segment_t *segment; /* between sendi_begin and sendi_commit */
    } reserved;
    btl_ib_hotel_t hotel;
    btl_ib_table_t table;
    btl_ib_tombstones_t tombstones;
    btl_ib_reasm_pool_t reasm;
    btl_ib_regions_t regions;
    btl_ib_backlog_t backlog; /* messages received in asynchronous progress */
    /* First contacts received there: their senders cannot be looked up yet. `tag` is the rail. */
    btl_ib_backlog_t unidentified;
    /* Connections by the link `all`, those that are freed soon apart: deferred_free.gone. */
    btl_ib_list_t conns;
    btl_ib_list_t closing;
    /* What connections want of a turn, a list for each thing that they may have to wait for: a turn
     * asks the lists, not the connections (docs/kept.md). In the order in which they are served: */
    btl_ib_list_t whole; /* fragments are to be delivered: by the application's own turn */
    /* retries.waiting: a probe is due, and waits for the budget of copies */
    btl_ib_list_t starved; /* something to send waits for the limits in `budget` */
    btl_ib_list_t ready;   /* there may be something to send: btl_ib_flush() says what */
    btl_ib_list_t rnr;     /* the peer waits to hear that a cause of RNR is gone */
    /* An acknowledgement is pending, the most urgent first; apart those whose messages are
     * answered, so that it may wait for longer. */
    btl_ib_list_t acks;
    btl_ib_list_t acks_answered;

    btl_ib_list_t events; /* messages and operations whose callbacks are due */
    btl_ib_list_t tables; /* btl_ib_table_entry_t */
    btl_ib_routes_t routes;
    struct {           /* btl_ib_validation.c */
        uint64_t name; /* the peer whose datagrams came last from where it is not, */
        uint64_t at;   /* awake: when, */
        char from[64]; /* and from where; "": it cannot be told, or none did */
    } foreign;
    struct {           /* btl_ib_goodput.c */
        uint32_t next; /* slot of `table` to be sampled next */
    } goodput;
    struct {            /* btl_ib_keepalive.c: slots of `table` to be looked at next */
        uint32_t first; /* for peers that were not asked */
        uint32_t again; /* for those that did not answer */
    } asking;
    uint32_t rail_count;
    btl_ib_rail_t *rails[BTL_IB_RAILS_MAX];
    btl_ib_counters_t count;
    bool inspected; /* `drops` or `trace` is there: one question at each datagram */
    /* Messages as most are go a short way (header prediction): config.predict, nothing inspects
     * datagrams, and they have no trailer. */
    bool predicts;
    btl_ib_work_t work;
    btl_ib_drops_t *drops;    /* NULL: not logged, or no memory */
    btl_ib_counters_t *trace; /* `count` after the last datagram that was traced; NULL: no trace */
    /* Arrays of whole batches are not on the stack: threads may have 16 KiB of it. */
    btl_ib_datagrams_t datagrams;
    btl_ib_polled_t polled;
    btl_ib_predicted_t predicted;
};

#define BTL_IB_LOG(engine, level, ...)                                                             \
    do {                                                                                           \
        if ((engine)->config.log.print != NULL) {                                                  \
            (engine)->config.log.print((engine)->config.log.context, (level), __VA_ARGS__);        \
        }                                                                                          \
    } while (0)

/* Logs at level BTL_IB_LOG_DETAILED. The arguments are not evaluated unless that is logged. */
#define BTL_IB_LOG_DETAIL(engine, ...)                                                             \
    do {                                                                                           \
        if ((engine)->config.log.detailed) {                                                       \
            BTL_IB_LOG(engine, BTL_IB_LOG_DETAILED, __VA_ARGS__);                                  \
        }                                                                                          \
    } while (0)

/* "job.rank" of a process name, for logs: two arguments for "%u.%u". */
#define BTL_IB_NAME_ARGS(name) (unsigned) ((name) >> 32), (unsigned) ((name) &0xffffffffu)

/* True if turns still catch up on what came during a pause of ours. */
static inline bool btl_ib_is_behind(const btl_ib_engine_t *engine)
{
    return engine->turn.behind_until != 0;
}

/* True if nothing is unacknowledged but SKIPs (credits given back). Those need no answer soon. */
static inline bool btl_ib_conn_only_skips(const btl_ib_conn_t *conn)
{
    return conn->sentmap.unacked == conn->sentmap.skips;
}

/* Returns how many of a connection's unacknowledged segments the limits on all connections do not
 * count. */
static inline uint32_t btl_ib_conn_depth_apart(const btl_ib_conn_t *conn)
{
    const uint32_t count = conn->sentmap.unacked - conn->sentmap.skips;

    return count < BTL_IB_DEPTH_APART ? count : BTL_IB_DEPTH_APART;
}

static inline bool btl_ib_conn_alive(const btl_ib_conn_t *conn)
{
    return conn->state == BTL_IB_CONN_OPEN;
}

/* True if datagrams can be handed to the transport of a connection's present route. Not if the
 * device failed, or the transport did not take the peer's address. A port that is down takes and
 * loses them. */
static inline bool btl_ib_route_leads(const btl_ib_conn_t *conn)
{
    return !conn->route.via->health.failed && conn->route.to != BTL_IB_ADDR_UNKNOWN;
}

/* True if a connection's datagrams go over its own two rails. */
static inline bool btl_ib_route_is_own(const btl_ib_conn_t *conn)
{
    return conn->route.own;
}

/* True if `from` is the peer's address on our rail before a router's took its place. */
static inline bool btl_ib_route_is_inside(const btl_ib_conn_t *conn, btl_ib_addr_t from)
{
    return conn->route.inside != NULL && from == conn->route.inside->address;
}

/* True if `rail` and `from` (BTL_IB_ADDR_UNKNOWN: any address) are a connection's own two rails. */
static inline bool btl_ib_route_owns(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                                     btl_ib_addr_t from)
{
    return rail == conn->rail
           && (from == BTL_IB_ADDR_UNKNOWN || from == conn->route.address
               || btl_ib_route_is_inside(conn, from));
}

/* True if a connection's own two rails were left lately because others carry far more. */
static inline bool btl_ib_conn_is_slow(const btl_ib_conn_t *conn)
{
    return conn->goodput.slow_until > conn->engine->clock.now;
}

/* Returns the segments of each kind that a rail may have, with so many connections: those not
 * acknowledged; ACKs and CLOSEs, which are not counted in flight; sealed copies that the transport
 * still reads. */
static inline uint32_t btl_ib_rail_segments(const btl_ib_engine_config_t *config,
                                            const btl_ib_transport_attr_t *attr, uint32_t conns)
{
    const uint32_t extra = 64;

    return config->depth_total + conns * BTL_IB_DEPTH_APART + extra
           + (btl_ib_protection_ops(config->protection)->apart ? attr->tx_depth + BTL_IB_BATCH : 0);
}

#endif
