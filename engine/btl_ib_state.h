/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The state of an engine, of its rails and of its connections. Private to the engine. Each
 * structure names the module that alone writes it; all others read it or call that module.
 *
 * Times are microseconds of engine->clock: `now` unless a comment says "awake" (the time in which
 * this process listened, see btl_ib_clock.h). Unless noted, 0 means "never" or "not now".
 */

#ifndef BTL_IB_STATE_H
#define BTL_IB_STATE_H

#include "btl_ib_cc.h"
#include "btl_ib_clock.h"
#include "btl_ib_credit.h"
#include "btl_ib_engine.h"
#include "btl_ib_tombstones.h"
#include "btl_ib_hotel.h"
#include "btl_ib_refragment.h"
#include "btl_ib_sched.h"
#include "btl_ib_rtt.h"
#include "btl_ib_pool.h"
#include "btl_ib_reasm.h"
#include "btl_ib_window.h"
#include "btl_ib_region.h"
#include "btl_ib_table.h"
#include "btl_ib_wire.h"

/* us: stamps this far apart are not compared, because 32-bit stamps wrap. */
#define BTL_IB_STAMP_AGE (UINT64_C(1) << 30)

/* us: the longest gap between two refusals (ICMP, ECONNREFUSED) of one series, and how long
 * refusals count after the last one. */
#define BTL_IB_REFUSED_GAP 10000000u

/* us: how long a series of refusals must last before it is believed. Until then the peer's port may
 * still be about to open. */
#define BTL_IB_REFUSED_LONG 100000u

/* turn.away: it is unknown how long a datagram waited at this host. Its stamp is not echoed. */
#define BTL_IB_AWAY_UNKNOWN UINT32_MAX

/* The largest number of datagrams handed to or taken from a transport in one call: as many as
 * one GSO send may have (UDP_MAX_SEGMENTS in Linux). attr.max_batch says how many are of use. */
#define BTL_IB_BATCH 64

/* So many unacknowledged segments each connection may have beside what the limits on all
 * connections count: peers that are silent for long and hold all that these allow hold nobody else
 * up. */
#define BTL_IB_DEPTH_APART 1

/* How many segments are remembered that were accepted from a retransmission. If the first copy
 * comes after all, the retransmission was spurious. */
#define BTL_IB_REPAIRED_KEPT 8

/* How many of the newest segments that filled a gap are remembered. An ACK without room for all
 * ranges carries at least theirs. */
#define BTL_IB_NEWEST_KEPT 16

/* The sending side of one channel of one connection. */
typedef struct btl_ib_tx_space {
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
    } recovery;
    /* P queues: sequences below it may be sent. btl_ib_ack.c; its first value: btl_ib_conn.c. */
    uint32_t limit;
} btl_ib_tx_space_t;

/* The receiving side of one channel of one connection. */
typedef struct btl_ib_rx_space {
    btl_ib_rx_window_t window;
    btl_ib_credit_t credit; /* P queues */
    struct {                /* btl_ib_ack.c */
        uint64_t received;  /* segments, since the connection was made */
    } accept;
    struct {                 /* btl_ib_ack.c */
        uint32_t run;        /* first sequence after the last gap: all from here on arrived */
        uint32_t next_range; /* where the next ACK continues, if it has no room for all ranges */
        uint32_t untold;     /* segments in ranges not reported yet; UINT32_MAX: all */
        /* The same two once the ACK that was filled last has left. */
        uint32_t filled_range;
        uint32_t filled_untold;
        uint16_t duplicates;      /* retransmissions that arrived here in duplicate; wraps */
        uint16_t duplicates_told; /* value of `duplicates` that was last reported */
    } ack;
} btl_ib_rx_space_t;

typedef struct btl_ib_op_slot {
    btl_ib_op_t *op;    /* NULL: free */
    uint32_t next_free; /* if free: the next free slot */
} btl_ib_op_slot_t;

/* Our one-sided operations with one peer. Written by btl_ib_op_slots.c. */
typedef struct btl_ib_ops {
    btl_ib_list_t waiting;   /* operations that wait for a slot */
    btl_ib_op_slot_t *slots; /* config.ops_max of them; NULL: not allocated */
    uint32_t free;           /* first free slot */
    uint32_t count;          /* operations that are not over */
    uint32_t running;        /* of them, those that have a slot */
    uint32_t answers;        /* operations that wait for an answer of the peer or its device */
    uint64_t answer_since;   /* awake: the last answer, or when the first began to wait for one */
} btl_ib_ops_t;

/* Those of them that the device executes. Written by btl_ib_offload.c. */
typedef struct btl_ib_offload {
    btl_ib_list_t waiting; /* not taken by the transport yet, in order */
    btl_ib_list_t running; /* in the device */
    uint32_t count;        /* length of `running` */
    uint64_t moved_at;     /* awake: last start or end of one, or when the first began to wait */
    bool disabled;         /* a device was lost, and its keys with it: processors do it all */
} btl_ib_offload_t;

/* Answers to the peer's one-sided operations. Written by btl_ib_answers.c. */
typedef struct btl_ib_answers {
    btl_ib_out_t out;             /* the replies: size and offset count since the beginning */
    btl_ib_wire_reply_t *replies; /* a ring of BTL_IB_OPS_MAX; NULL: not allocated */
    uint32_t streams;             /* streams (answers to GETs) that are not over */
} btl_ib_answers_t;

/* The peer's one-sided operations on our memory. Written by btl_ib_target.c. */
typedef struct btl_ib_target {
    uint32_t refused;    /* id of the last PUT that was rejected */
    uint32_t refused_in; /* turn.batch in which it was */
} btl_ib_target_t;

/* The bytes that answer a GET of a peer. */
typedef struct btl_ib_stream {
    btl_ib_out_t out;
    btl_ib_region_key_t key;
    uint64_t offset; /* in the region */
    uint8_t *memory; /* address of that, as last checked */
    uint32_t id;     /* of the operation, chosen by the peer */
} btl_ib_stream_t;

/* Why a valid segment cannot be accepted now (receiver not ready). */
typedef enum btl_ib_refusal_cause {
    BTL_IB_REFUSAL_TAG,     /* no receiver is registered for its tag yet */
    BTL_IB_REFUSAL_BUFFER,  /* no reassembly buffer for its fragment */
    BTL_IB_REFUSAL_BACKLOG, /* the application does not call progress, and the backlog is full */
    BTL_IB_REFUSAL_CAUSES,
} btl_ib_refusal_cause_t;

/* A refused segment: of those with the same cause, the one with the lowest sequence. */
typedef struct btl_ib_refusal {
    uint32_t seq;
    uint32_t fragment; /* CHUNK */
    uint8_t space;
    uint8_t tag;
    bool kept; /* this entry is in use */
    bool told; /* the peer was told that it may send it again */
} btl_ib_refusal_t;

typedef enum btl_ib_conn_state {
    BTL_IB_CONN_OPEN,    /* from the first: data go with the first datagram */
    BTL_IB_CONN_CLOSING, /* destroyed by the user; CLOSEs are still to be sent */
    BTL_IB_CONN_DEAD,    /* given up; waits for btl_ib_conn_destroy() */
    BTL_IB_CONN_GONE,    /* to be freed as soon as no call on the stack uses it */
} btl_ib_conn_state_t;

/* The newest data known to have arrived, by which losses are found (RFC 8985, RACK).
 * Written by btl_ib_loss.c. */
typedef struct btl_ib_rack {
    uint64_t sent;       /* us: when it was sent */
    uint64_t order;      /* its place among all segments sent */
    uint64_t at;         /* us: when its acknowledgement came */
    uint64_t mark_order; /* `order` at mark_at */
    uint64_t mark_at;    /* us */
} btl_ib_rack_t;

/* Bulk may travel by a lane of its own, so its order is tracked apart. */
enum {
    BTL_IB_RACK_ALL,
    BTL_IB_RACK_BULK,
    BTL_IB_RACKS,
};

/* Do the connection's own two rails reach the peer (path validation, RFC 9000, 8.2), and what does
 * the network report about them? Written by btl_ib_path.c. */
typedef struct btl_ib_validation {
    bool valid;            /* a datagram of the peer with its token came by them */
    bool answered;         /* something of ours reached the peer, by any route */
    bool promised;         /* the peer answers a first contact even if its application computes */
    bool told;             /* it was reported that the peer does not answer */
    bool unsent_told;      /* `unsent_error` was reported, since the transport took something */
    bool tried;            /* other pairs of rails that may lead there were asked for */
    uint8_t unsent_error;  /* errno that the transport answers; valid with unsent_since */
    uint8_t net_error;     /* errno: what the network said last of datagrams to it; 0: nothing */
    uint32_t net_error_ms; /* when */
    uint32_t questions;   /* unanswered probes by them, since another pair of rails was validated */
    uint64_t refused_at;  /* us: when refusals by them were last believed */
    uint64_t asked_at;    /* awake: the first probe, if nothing had reached the peer */
    uint64_t question_at; /* us: the last question that was no probe */
    uint64_t refused_row; /* us: first refusal by the present route since something got through */
    uint64_t unsent_since; /* awake: since then the transport took nothing for it; 0: it does */
} btl_ib_validation_t;

/* Who the two processes are, and what a datagram of this connection must carry.
 * Written by btl_ib_identity.c. */
typedef struct btl_ib_identity {
    uint64_t name;             /* the peer process */
    btl_ib_secret_t secret;    /* the peer's */
    btl_ib_guard_keys_t *keys; /* NULL if the guard is not keyed */
    uint64_t tx_token;
    uint64_t rx_token;
    uint32_t id;      /* ours: what the peer writes into its headers */
    uint32_t epoch;   /* of this incarnation of the connection */
    uint32_t peer_id; /* the peer's id for the connection; 0: not known yet */
    uint32_t peer_epoch;
    uint32_t peer_floor; /* incarnations of the peer with epochs below this have ended; 0: none */
    uint32_t remote_rail;
    uint32_t peer_ack_delay; /* us */
    bool bound;              /* peer_id and rx_token are valid */
    bool peer_knows;         /* the peer has our id: CONNECT blocks are not needed */
    bool contacted;          /* something was sent to it in this incarnation */
    bool introduce;          /* write CONNECT blocks although peer_knows */
} btl_ib_identity_t;

/* By which rail and to which address datagrams go. Written by btl_ib_path.c. */
typedef struct btl_ib_route {
    struct btl_ib_rail *via;            /* sends its datagrams: conn->rail, unless that failed */
    btl_ib_addr_t to;                   /* the peer's address on `via` */
    const btl_ib_queue_table_t *queues; /* the peer's, by `via` */
    uint64_t moved_at;                  /* us: last change of route */
    /* The peer's address on conn->rail; BTL_IB_ADDR_UNKNOWN if the rail did not take it. */
    btl_ib_addr_t address;
    uint32_t generation; /* of that address, if the peer told of a new one; 0: it published it */
    uint32_t published_len;
    uint8_t published[BTL_IB_ADDR_BYTES]; /* `address` as the peer published it or told it last */
} btl_ib_route_t;

/* Sent segments: in flight, lost or deferred. Written by btl_ib_sentmap.c. */
typedef struct btl_ib_sentmap {
    uint32_t in_flight; /* of all spaces */
    uint32_t unacked;   /* segments in flight, lost or deferred */
    uint32_t skips;     /* of them, SKIPs */
    uint32_t deferred_count;
    uint32_t unasked; /* segments sent since one asked for its ACK, or nothing was in flight */
    uint64_t order;   /* of the newest segment sent */
    btl_ib_list_t sent[BTL_IB_RACKS]; /* in flight, by time of last sending */
    btl_ib_list_t lost;               /* to be retransmitted, in order of discovery */
    btl_ib_list_t deferred;           /* refused by the peer, by the time it said so */
} btl_ib_sentmap_t;

/* Loss recovery: round trip times, losses, probes, silence. Written by btl_ib_loss.c. */
typedef struct btl_ib_recovery {
    btl_ib_timer_t timer;
    btl_ib_rtt_t rtt;
    btl_ib_pauses_t pauses;
    btl_ib_rack_t rack[BTL_IB_RACKS];
    uint64_t probe_base;    /* us: when something that asks for an answer was last sent */
    uint64_t blocked_since; /* awake: stopped by credit or window with nothing in flight */
    uint64_t heard_at;      /* awake: the last valid datagram of the peer */
    uint64_t refused_at;    /* us: the last refusal (ICMP, ECONNREFUSED) */
    uint64_t refused_since; /* us: first refusal of this series; 0: none since the peer was heard */
    uint64_t no_tag_at; /* awake: a tag has no receiver at the peer; 0: none since the last ACK */
    uint64_t silent_since;  /* awake: the first probe of those that are unanswered */
    uint64_t asked_at;      /* us: the same */
    uint64_t sample_at;     /* us: when the last RTT sample was taken */
    uint32_t sample_echo;   /* the echoed stamp that gave it */
    uint32_t sample;        /* us: RTT sample of the datagram being processed; 0: none */
    uint32_t sample_hosts;  /* us: part of it that may be waiting at a host that did not poll */
    uint32_t sample_pauses; /* us: the same, of hosts that did not poll for long */
    uint32_t probes;        /* since the last progress */
    uint32_t unheard;       /* of them, the last ones that nothing answered */
    uint32_t probed;        /* segments sent as probes in this series of probes or the last */
    uint32_t reorder_scale; /* the reordering window, in quarters of the shortest RTT */
    uint32_t reorder_calm;  /* consecutive losses that were real */
    uint64_t reorder_at;    /* us: when the reordering window last grew */
    bool rack_partly;       /* the peer may have received more than it has reported */
    bool half_probed;       /* the next probe continues what the last one began */
    bool doubtful;          /* the transport's connection ended; the peer was not heard since */
} btl_ib_recovery_t;

/* Acknowledgements that are due to the peer. Written by btl_ib_ack.c. */
typedef struct btl_ib_ack_tx {
    btl_ib_list_t link;     /* on engine->acks or acks_answered: an acknowledgement is due */
    uint64_t at;            /* us: when it is due */
    uint64_t delivered_at;  /* us: when a message was last delivered */
    uint64_t echo_at;       /* us: when `echo` arrived */
    uint32_t echo;          /* the peer's newest stamp */
    uint32_t echo_away;     /* us: how long it may have waited at this host before it was read */
    uint32_t due;           /* one bit for each space with something to acknowledge */
    uint32_t count;         /* segments received since the last acknowledgement */
    uint32_t space;         /* the space to acknowledge by piggyback */
    uint32_t repaired_next; /* entries written to the repaired_* rings; wraps */
    uint32_t repaired_seq[BTL_IB_REPAIRED_KEPT];
    uint32_t newest_next; /* the same for newest_* */
    uint32_t newest_seq[BTL_IB_NEWEST_KEPT];
    uint8_t repaired_space[BTL_IB_REPAIRED_KEPT];
    uint8_t newest_space[BTL_IB_NEWEST_KEPT];
    bool now; /* send one at once */
    /* A message was delivered, and nothing was sent within the ACK delay after that. */
    bool unanswered;
    bool echo_valid; /* `echo` is set */
    bool no_tag;     /* tell the peer that there is no receiver for a tag */
} btl_ib_ack_tx_t;

/* Segments of the peer that were refused (receiver not ready). It is told when they may come again.
 * Written by btl_ib_rnr.c. */
typedef struct btl_ib_rnr {
    btl_ib_list_t link;      /* on engine->refused: a cause may be gone */
    btl_ib_rnr_runs_t *runs; /* NULL: none lately */
    bool any;                /* `refusals` or `runs` has an entry */
    btl_ib_refusal_t refusals[BTL_IB_REFUSAL_CAUSES];
} btl_ib_rnr_t;

/* Reassembly. Written by btl_ib_input.c. */
typedef struct btl_ib_input {
    btl_ib_reasm_peer_t fragments; /* fragments being reassembled from chunks */
    btl_ib_list_t parts;           /* segments being reassembled from parts */
    btl_ib_list_t whole;           /* on engine->whole: fragments may be ready for delivery */
} btl_ib_input_t;

/* Frees memory of connections that are not used. Written by btl_ib_sched.c. */
typedef struct btl_ib_idle {
    btl_ib_timer_t timer;
    uint64_t active_at; /* us: when the last sequenced segment was sent or received */
    bool shrunk;        /* idle; no timer runs */
} btl_ib_idle_t;

enum {
    BTL_IB_LOSS_ROWS = 2,
};

/* Losses of `suspect` to `largest` bytes in a row, while smaller datagrams get through. */
typedef struct btl_ib_loss_row {
    uint32_t losses;    /* at different times */
    uint32_t shown;     /* of them, losses shown by answers to questions */
    uint32_t suspect;   /* larger than `carried` */
    uint32_t largest;   /* the row is over if a datagram as large as this gets through */
    uint32_t carried;   /* the largest that got through since the row began */
    uint64_t since;     /* us: the first loss */
    uint64_t struck_at; /* us: the last loss; what was sent before it proves nothing further */
} btl_ib_loss_row_t;

/* The path MTU and the search for it (RFC 8899). All sizes are bytes of datagrams, with header and
 * trailer. Written by btl_ib_pmtud.c. */
typedef struct btl_ib_pmtud {
    /* largest datagram to be sent: the path carries it, as far as is known */
    uint32_t datagram_max;
    uint32_t carries; /* what both directions carried when the connection was made */
    uint32_t home;    /* what the connection's own two rails carry */
    uint32_t most;    /* what the rails of the present route carry: at most `home` */
    bool parts;       /* segments exist that are larger than datagram_max */

    /* Black hole detection. Losses of a size that got through in the first row count in the second:
     * mostly they are chance, but the path may carry less since. */
    btl_ib_loss_row_t rows[BTL_IB_LOSS_ROWS];

    /* A timer's probe was sent together with a smaller question (asked_*). A peer that answers the
     * question, but does not have the probe, shows a loss. */
    bool asked;
    uint8_t asked_space;
    /* The search (two members are here to save space). */
    bool probing; /* a probe, sent since the sizes were last set back, is in flight */
    uint8_t probe_space;
    uint32_t asked_seq;
    uint64_t asked_at; /* us */
    uint32_t probe_seq;
    uint32_t too_large; /* smallest size known not to get through, or most + 1 */
    uint32_t next;      /* size to try next; 0: halfway */
    uint32_t failures;  /* consecutive ones of that size */
    uint64_t search_at; /* us: not earlier; UINT64_MAX: nothing to find */

    /* The check of the path (btl_ib_pmtud_check()), and what it found. */
    bool checking;
    uint32_t proven;   /* the largest probe that got there since the check began */
    uint32_t received; /* the largest probe that came from the peer */
} btl_ib_pmtud_t;

/* Messages and operations that wait for others to travel with. Written by btl_ib_submit.c. */
typedef struct btl_ib_coalesce {
    uint32_t turn;      /* the turn to which `left` belongs */
    uint32_t left;      /* messages and operations that left at once in it */
    uint32_t alone_max; /* how many may leave at once */
    uint32_t held;      /* messages and operations held */
    uint64_t held_bytes;
    uint64_t left_at; /* us: when the last left at once */
} btl_ib_coalesce_t;

struct btl_ib_conn {
    btl_ib_engine_t *engine;
    struct btl_ib_rail *rail;                /* its own: queues, credits, names */
    const btl_ib_queue_table_t *peer_queues; /* owned by the engine's table cache */
    btl_ib_tx_space_t *tx;                   /* peer_queues->count of them */
    btl_ib_rx_space_t *rx;                   /* rail->queues.count of them */
    void *user;

    btl_ib_list_t ready; /* on engine->ready: there may be something to send; or ->starved */
    btl_ib_list_t all;   /* on engine->conns, ->closing or ->lifetime.gone */
    btl_ib_conn_state_t state;
    bool draining;
    bool adopted;
    uint32_t closes;  /* CLOSEs sent */
    uint32_t made_in; /* turn.batch in which it was made */

    struct {          /* btl_ib_sched.c */
        bool starved; /* on engine->starved, or it was in this turn */
    } sched;
    struct {                    /* btl_ib_packetize.c */
        uint32_t next_fragment; /* number of the next message that is split; wraps */
    } packetize;
    struct {                      /* btl_ib_transmit.c */
        bool bulk_lane;           /* bulk leaves by its own lane, until all of it has arrived */
        uint8_t no_buffers_space; /* the segment that was refused for want of buffers, */
        uint32_t no_buffers_seq;
        uint64_t no_buffers_since; /* us: and when that began */
    } transmit;

    btl_ib_identity_t identity;
    btl_ib_route_t route;
    btl_ib_sentmap_t sentmap;
    struct {         /* btl_ib_loss.c */
        uint64_t at; /* us: all deferred ones were last retransmitted, or the first was deferred */
    } deferred;
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
    btl_ib_conn_counters_t count; /* since it was made; segments are counted by `tx` and `rx` */
};

/* A device that failed or whose port is down. Written by btl_ib_failover.c. */
typedef struct btl_ib_rail_health {
    uint64_t down_since; /* awake */
    int error;           /* errno of the failure, or of the port's going down */
    uint32_t moved;      /* connections that went on by other rails */
    uint32_t left;       /* connections that could not */
    bool failed;         /* nobody waits for it any more */
    bool reported;       /* the user was told */
    bool down;           /* it may come back, failed or not: its transport says so */
} btl_ib_rail_health_t;

/* A transport whose device failed, and in whose place there is another. It is stopped, and memory
 * is still withdrawn from it. */
typedef struct btl_ib_retired {
    btl_ib_list_t link;
    btl_ib_transport_t *transport;
} btl_ib_retired_t;

typedef struct btl_ib_rail {
    btl_ib_engine_t *engine;
    btl_ib_transport_t *transport;
    uint32_t index;
    struct {            /* btl_ib_path.c */
        bool stands_by; /* no connection goes by it */
    } use;
    uint32_t generation;         /* times that another transport took the place of a failed one */
    uint64_t overflows;          /* of those */
    btl_ib_list_t retired;       /* those of them that are not closed yet */
    btl_ib_queue_table_t queues; /* ours */
    btl_ib_credit_pool_t credit[BTL_IB_QUEUES_MAX];
    btl_ib_pool_t pool;
    const btl_ib_cc_ops_t *cc;
    struct {               /* btl_ib_progress.c */
        uint64_t empty_at; /* us: the last turn that found nothing to receive */
        /* us: the longest time without a turn of late, what came in which may still be there */
        uint32_t pause;
        uint64_t pause_until; /* us: by then it is all received */
    } polled;
    btl_ib_rail_health_t health;
    /* Of datagrams all, of connections those that are no more: btl_ib_observe.c. */
    btl_ib_rail_counters_t count;
    /* Sent ones by the peer's channels, received ones by ours; segments of connections that are no
     * more. */
    btl_ib_channel_counters_t channels[BTL_IB_QUEUES_MAX];
} btl_ib_rail_t;

static inline bool btl_ib_rail_usable(const btl_ib_rail_t *rail)
{
    return !rail->health.failed && !rail->health.down;
}

/* A received datagram. */
typedef struct btl_ib_arrival {
    uint8_t *data;
    uint32_t size; /* without the guard's trailer, which follows */
    btl_ib_addr_t from;
    const btl_ib_event_t *event;
    btl_ib_view_t view;
    btl_ib_guard_way_t way; /* the keys that opened it, if it was a first contact */
} btl_ib_arrival_t;

/* Log of dropped datagrams: btl_ib_conn.c. */
typedef struct btl_ib_drops btl_ib_drops_t;

/* Events for a trace: btl_ib_trace.c. */
typedef struct btl_ib_trace btl_ib_trace_t;

/* Queue tables of peers; most peers share one. */
typedef struct btl_ib_table_entry {
    btl_ib_list_t link;
    btl_ib_queue_table_t table;
} btl_ib_table_entry_t;

/* Calls on the stack, and connections that are freed after them. Written by btl_ib_lifetime.c. */
typedef struct btl_ib_lifetime {
    uint32_t conns;     /* connections that are not freed */
    uint32_t depth;     /* calls on the stack that may run callbacks */
    btl_ib_list_t gone; /* connections to be freed when depth is 0 */
} btl_ib_lifetime_t;

/* The present turn of progress, and those before. Written by btl_ib_progress.c. */
typedef struct btl_ib_turn {
    bool async;   /* no callback that needs the application's thread */
    bool sending; /* what waits is being sent */
    bool more;    /* it received as much as it may: there may be more */
    /* A device failed in asynchronous progress: its connections are still to be told. */
    bool failure_pending;
    uint32_t batches;    /* of events taken from transports; wraps */
    uint32_t batch;      /* number of the batch in hand, or of the last one */
    uint32_t idle_calls; /* consecutive progress calls that received nothing */
    /* us: longest that the batch in hand may have waited here; BTL_IB_AWAY_UNKNOWN */
    uint32_t away;
    uint32_t first_rail; /* polled first in this turn; wraps */
    uint64_t standby_at; /* us: when rails that stand by are polled next */
    /* us: turns are catching up on what came during a pause of ours, until then at most; 0: they
     * are not */
    uint64_t behind_until;
} btl_ib_turn_t;

/* Latency mode: bulk waits for short messages. Written by btl_ib_limits.c. */
typedef struct btl_ib_latency {
    bool hold_bulk;   /* in this turn bulk waits, because a short message came */
    uint32_t row;     /* consecutive turns with short messages, each soon after the one before */
    uint64_t at;      /* us: the last turn with short messages */
    uint64_t before;  /* us: the one before */
    uint64_t ops;     /* one-sided operations that short messages belonged to */
    uint64_t excused; /* of these messages, those that may still come */
} btl_ib_latency_t;

/* Limits on all connections together. Written by btl_ib_sentmap.c. */
typedef struct btl_ib_budget {
    uint32_t unacked; /* segments in flight or lost, without SKIPs */
    uint32_t apart;   /* of them, those that the limits do not count: BTL_IB_DEPTH_APART */
    uint64_t bytes_unacked;
} btl_ib_budget_t;

/* Incarnations of all connections of this process. Written by btl_ib_identity.c. */
typedef struct btl_ib_incarnations {
    uint32_t newest; /* the epoch of the last that began */
} btl_ib_incarnations_t;

/* Connections that peers ask for. Written by btl_ib_conn.c. */
typedef struct btl_ib_admission {
    uint32_t passive;   /* connections not adopted by the user */
    uint32_t lookups;   /* of unknown senders, in the second that began at lookups_at */
    uint32_t responses; /* PATH_RESPONSEs sent to them, in the same second */
    uint32_t paths;     /* lookups of other paths to known peers, in the same second */
    uint64_t lookups_at;
    bool closed;       /* unknown senders get no connection any more */
    bool told_passive; /* it was logged that there are passive_max */
} btl_ib_admission_t;

/* Ids of the operations of all connections. An answer to a connection that was destroyed must
 * not fit an operation of the next one with the same peer. Written by btl_ib_op_slots.c. */
typedef struct btl_ib_op_ids {
    uint32_t generation; /* of the newest */
} btl_ib_op_ids_t;

/* Datagrams about to be sent. Written by btl_ib_transmit.c. */
typedef struct btl_ib_datagrams {
    const btl_ib_wire_header_t *common; /* what their headers have in common */
    int count;
    btl_ib_tx_t tx[BTL_IB_BATCH];
    /* what is sent: the segment itself, or its copy or sealed copy */
    btl_ib_segment_t *wire[BTL_IB_BATCH];
} btl_ib_datagrams_t;

/* Events taken from a transport. A callback, or another thread meanwhile, may poll as well: that
 * has an array of its own. Written by btl_ib_progress.c. */
typedef struct btl_ib_polled {
    bool in_hand; /* a call handles `events` */
    btl_ib_event_t events[BTL_IB_BATCH];
    void *buffers[BTL_IB_BATCH]; /* of some events, while they are given back */
} btl_ib_polled_t;

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
    struct {             /* btl_ib_sched.c */
        uint32_t lively; /* connections that are not idle: their idle timers run */
    } sched;
    struct {               /* btl_ib_sentmap.c */
        uint32_t finished; /* messages and operations whose callbacks were called; wraps */
    } completion;
    struct {                /* btl_ib_sentmap.c */
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
    btl_ib_list_t conns;
    btl_ib_list_t ready;   /* connections that may have something to send */
    btl_ib_list_t starved; /* connections that wait for the limits in `budget` */
    /* Connections that owe an acknowledgement, the most urgent first; apart those whose messages
     * are answered, so that it may wait for longer. */
    btl_ib_list_t acks;
    btl_ib_list_t acks_answered;
    btl_ib_list_t whole;   /* connections with fragments for the next progress call to deliver */
    btl_ib_list_t refused; /* connections that refused segments and have not allowed them yet */
    btl_ib_list_t closing;
    btl_ib_list_t events; /* messages and operations whose callbacks are due */
    btl_ib_list_t tables; /* btl_ib_table_entry_t */
    struct {              /* btl_ib_path.c */
        uint32_t remote;  /* no connection is with a peer's rail of this number, or a higher one */
    } routes;
    uint32_t rail_count;
    btl_ib_rail_t *rails[BTL_IB_RAILS_MAX];
    btl_ib_counters_t count;
    bool inspected;        /* `drops` or `trace` is there: one question at each datagram */
    btl_ib_drops_t *drops; /* NULL: not logged, or no memory */
    btl_ib_trace_t *trace; /* NULL: not wanted, or no memory */
    /* Arrays of whole batches are not on the stack: threads may have 16 KiB of it. */
    btl_ib_datagrams_t datagrams;
    btl_ib_polled_t polled;
};

#define BTL_IB_LOG(engine, level, ...)                                                             \
    do {                                                                                           \
        if ((engine)->config.log.print != NULL) {                                                  \
            (engine)->config.log.print((engine)->config.log.context, (level), __VA_ARGS__);        \
        }                                                                                          \
    } while (0)

/* At level BTL_IB_LOG_DETAILED. The arguments are not evaluated unless that is logged. */
#define BTL_IB_LOG_DETAIL(engine, ...)                                                             \
    do {                                                                                           \
        if ((engine)->config.log.detailed) {                                                       \
            BTL_IB_LOG(engine, BTL_IB_LOG_DETAILED, __VA_ARGS__);                                  \
        }                                                                                          \
    } while (0)

/* "job.rank" of a process name, for logs: two arguments for "%u.%u". */
#define BTL_IB_NAME_ARGS(name) (unsigned) ((name) >> 32), (unsigned) ((name) &0xffffffffu)

/* Do turns still catch up on what came during a pause of ours? */
static inline bool btl_ib_is_behind(const btl_ib_engine_t *engine)
{
    return engine->turn.behind_until != 0;
}

/* Is nothing unacknowledged but SKIPs (credits given back)? Those need no answer soon. */
static inline bool btl_ib_conn_only_skips(const btl_ib_conn_t *conn)
{
    return conn->sentmap.unacked == conn->sentmap.skips;
}

/* Of its unacknowledged segments, those that the limits on all connections do not count. */
static inline uint32_t btl_ib_conn_depth_apart(const btl_ib_conn_t *conn)
{
    const uint32_t count = conn->sentmap.unacked - conn->sentmap.skips;

    return count < BTL_IB_DEPTH_APART ? count : BTL_IB_DEPTH_APART;
}

static inline bool btl_ib_conn_alive(const btl_ib_conn_t *conn)
{
    return conn->state == BTL_IB_CONN_OPEN;
}

/* Segments of each kind that a rail may have, with so many connections: those not acknowledged;
 * ACKs and CLOSEs, which are not counted in flight; sealed copies that the transport still reads.
 */
static inline uint32_t btl_ib_rail_segments(const btl_ib_engine_config_t *config,
                                            const btl_ib_transport_attr_t *attr, uint32_t conns)
{
    const uint32_t extra = 64;

    return config->depth_total + conns * BTL_IB_DEPTH_APART + extra
           + (btl_ib_guard_ops(config->guard)->apart ? attr->tx_depth + BTL_IB_BATCH : 0);
}

#endif
