/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The protocol engine: makes messages between processes out of datagrams that may be lost,
 * repeated, reordered or forged. One engine serves one process. A rail is one transport that it
 * uses. A connection joins one of our rails to one rail of a peer, and goes on by others if those
 * fail.
 *
 * Rules for callers:
 *
 * Time: `now` is microseconds of any monotonic clock. The engine has no clock, makes no system call
 * and never waits. A `now` below an earlier one is taken as that earlier one.
 *
 * Threads: the engine has none, and no lock. One caller at a time; callbacks may call the engine. A
 * caller with a lock may release it during deliver, on_sent, on_done and dead, so that other
 * threads may call meanwhile: the engine's state is consistent whenever it runs one of these, but
 * for a message that is delivered before its accounts: each call does these first (btl_ib_account()
 * of btl_ib_predict.h). Where other threads may be in callbacks, too, `deliver` does them before it
 * releases the lock (btl_ib_engine_account()), as a call of theirs goes on without asking.
 *
 * Progress: nothing moves without btl_ib_engine_progress() or btl_ib_engine_async_progress(),
 * called "progress by the thread" below.
 */

#ifndef BTL_IB_ENGINE_H
#define BTL_IB_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "btl_ib_cc.h"
#include "btl_ib_counters.h"
#include "btl_ib_protection.h"
#include "btl_ib_list.h"
#include "btl_ib_rma.h"
#include "btl_ib_receive_queues.h"
#include "btl_ib_trace_event.h"
#include "btl_ib_wire.h"
#include "transport.h"

#define BTL_IB_RAILS_MAX 32
#define BTL_IB_TAG_MAX   254u /* Open MPI's table of tags ends there */

typedef struct btl_ib_msg btl_ib_msg_t;

/* Known to the engine only (btl_ib_state.h). */
typedef struct btl_ib_rail btl_ib_rail_t;
typedef struct btl_ib_tx_channel btl_ib_tx_channel_t;
typedef struct btl_ib_arrival btl_ib_arrival_t;

/* The largest number of datagrams handed to or taken from a transport in one call: as many as
 * one GSO send may have (UDP_MAX_SEGMENTS in Linux). attr.max_batch says how many are of use. */
#define BTL_IB_BATCH 64

/* What one process publishes of one of its rails, and what a peer must know to talk to it. */
typedef struct btl_ib_peer_info {
    uint64_t name;                       /* the process, unique within everything that can meet */
    btl_ib_secret_t secret;              /* its secret: a new one with every start of the process */
    btl_ib_versions_t wire;              /* which datagrams it understands: one must be ours */
    btl_ib_protection_kind_t protection; /* what protects its datagrams: must be the same as ours */
    btl_ib_auth_key_t key;               /* only if the protection is keyed */
    uint32_t rail;                       /* which of its rails, < BTL_IB_RAILS_MAX */
    uint32_t ack_delay;                  /* us: how long it may delay an acknowledgement */
    bool answers;          /* it answers first contacts also while its application computes */
    bool ecn;              /* it counts what comes over that rail with ECT(0) and CE, and tells */
    uint32_t max_datagram; /* the largest that the rail's transport takes */
    uint32_t address_len;
    uint32_t address_base;              /* of our own: as in btl_ib_transport_t */
    uint8_t address[BTL_IB_ADDR_BYTES]; /* for the transport's addr_add() */
    btl_ib_queue_table_t queues;        /* its receive queues: senders obey them */
} btl_ib_peer_info_t;

/* Why a connection died, and where that is decided. */
typedef enum btl_ib_death {
    /* nothing heard for the silence limit while data were unacknowledged (btl_ib_probe.c) */
    BTL_IB_DEATH_SILENCE,
    BTL_IB_DEATH_NO_PROGRESS, /* heard, but one segment was never acknowledged (btl_ib_probe.c) */
    BTL_IB_DEATH_NO_TAG,      /* the same, and the peer said that it has no receiver for its tag */
    BTL_IB_DEATH_REFUSED,     /* its host says that nobody is there: btl_ib_failover.c, _probe.c */
    BTL_IB_DEATH_RESTARTED,   /* a new incarnation took its place (btl_ib_handshake.c) */
    BTL_IB_DEATH_DEVICE,      /* our device failed (btl_ib_rail.c) */
    /* it never answered, although it promised to, nor did its host: btl_ib_validation.c finds it,
     * and btl_ib_on_timeout() gives it up */
    BTL_IB_DEATH_UNANSWERED,
    BTL_IB_DEATH_ENDED, /* the runtime says that it failed (btl_ib_failures.c) */
    /* asked for nothing, and the network says that its host is unreachable (btl_ib_keepalive.c) */
    BTL_IB_DEATH_HOST_LOST,
} btl_ib_death_t;

/* Returns one line that says what `reason` means, without a newline. */
const char *btl_ib_death_string(btl_ib_death_t reason);

/* A peer that does not answer any more. Times in us. */
typedef struct btl_ib_silence {
    uint64_t asked_for;    /* since it was asked first */
    uint64_t answered_ago; /* since it last answered something, as it once did */
    uint64_t heard_ago;    /* since anything of its came here */
    uint32_t questions;    /* sent since then */
    bool others_tried;     /* some of them by other flows than the usual one */
} btl_ib_silence_t;

/* A connection was found slow: what it carried while something waited for the network, and how long
 * that was; the same of a better one, within the same time. Bytes of payload, us (rounded up). */
typedef struct btl_ib_slow_rail {
    uint64_t bytes, time;
    uint64_t better_bytes, better_time;
    uint64_t left_for; /* us: then it is tried again */
} btl_ib_slow_rail_t;

/*
 * A message to be sent. The caller owns it and the memory that it points to, and fills in the first
 * part; the engine uses both from btl_ib_engine_send() until on_done.
 */
struct btl_ib_msg {
    struct iovec iov[2]; /* the bytes, in order; iov[1] may be empty */
    uint8_t tag;         /* 0..BTL_IB_TAG_MAX */
    bool ordered;        /* delivered in the order of sending, among others that are ordered */
    bool want_ack_now;   /* the memory is needed soon: ask for an immediate acknowledgement */
    /* NULL, or as many bytes as iov[1] has. Then on_sent says that the memory of iov[1] is the
     * caller's again: all was acknowledged, or what was not was copied to `spare`. */
    void *spare;

    /* The engine's. */
    btl_ib_out_t out;
    uint32_t id;            /* number of the fragment, for the receiver's reassembly */
    uint32_t unit;          /* bytes of each chunk but the last; 0: not split yet */
    bool refers;            /* some of its segments are sent from the caller's memory */
    struct {                /* btl_ib_zcopy.c */
        btl_ib_list_t link; /* it left, from the caller's memory */
        uint64_t until;     /* us: then what was not acknowledged is copied */
        uint32_t batch;     /* turn.batches when it left */
        bool held;          /* `spare` is set, and on_sent not due yet */
    } zcopy;
};

/* The engine's callbacks. All may call the engine, and other threads may meanwhile. Connections may
 * be ended, and regions removed, in lookup, deliver, on_sent, on_done, op_done, dead, unanswered,
 * unsent and rail_failed; not in the others, whose callers go on with what they have. `context` is
 * ops_context. */
typedef struct btl_ib_engine_ops {
    /*
     * An unknown process sent a CONNECT to our rail: which is it? Fill *info with what it published
     * for its rail `remote_rail`, or return false. Called again when a token does not fit, because
     * the process may have restarted. Others may call the engine meanwhile.
     */
    bool (*lookup)(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                   btl_ib_peer_info_t *info);

    /*
     * The same of a process with which there is a connection: what was found then, or false if that
     * is not kept. Asks nobody, so that it may be called wherever something is received. May be
     * NULL: then lookup() is asked each time.
     */
    bool (*recall)(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                   btl_ib_peer_info_t *info);

    /* There is a new connection that btl_ib_conn_create() did not make. It is the engine's until
     * adopted (btl_ib_conn_adopt), which is the only thing the callee may do. */
    void (*passive)(void *context, btl_ib_conn_t *conn);

    /* True if a message with this tag can be delivered now. If not, it is not acknowledged and
     * comes again. */
    bool (*deliverable)(void *context, const btl_ib_conn_t *conn, uint8_t tag);

    /* A whole message arrived. `data` is 4-byte aligned, writable, and valid during the call. */
    void (*deliver)(void *context, btl_ib_conn_t *conn, uint8_t tag, void *data, uint32_t size);

    /* Every byte of a queued message was handed to the transport; with `spare`: and its memory is
     * the caller's. */
    void (*on_sent)(void *context, btl_ib_msg_t *msg);

    /* The engine no longer needs the message nor its memory: status 0 (after on_sent; what was sent
     * in chunks is acknowledged, what fits one segment was copied) or a negative errno (the
     * connection died or was closed; on_sent may be missing). */
    void (*on_done)(void *context, btl_ib_msg_t *msg, int status);

    /* A one-sided operation is complete: btl_ib_rma.h says with which status. The engine no longer
     * needs it nor its memory. May be NULL if none is ever started. */
    void (*op_done)(void *context, btl_ib_op_t *op, int status);

    /* The connection is dead: all its messages completed before, nothing can be sent. It stays
     * valid until btl_ib_conn_destroy(), which the callee must call also if it was passive. */
    void (*dead)(void *context, btl_ib_conn_t *conn, btl_ib_death_t reason);

    /* That peer does not answer, or is refused, over the rails that are tried: what other pairs of
     * rails may lead to it? The callee makes connections of them (btl_ib_conn_try()), which are
     * asked then. Called when that may help, seldom; not in progress by the thread. May be NULL. */
    void (*alternatives)(void *context, btl_ib_conn_t *conn);

    /* Something was sent to that peer, over any rail, and nothing has shown for
     * config.unanswered_after that it got there. Probes go on. `heard`: what the peer sends does
     * get here. Called once for each connection. May be NULL. */
    void (*unanswered)(void *context, btl_ib_conn_t *conn, bool heard);

    /* A peer that promised to answer has not for config.connect_timeout: do others show that its
     * host can be reached? Then the process itself does not run, and only the silence limit counts.
     * Asked at each probe from then on; changes nothing. May be NULL: never. */
    bool (*is_reachable)(void *context, const btl_ib_conn_t *conn);

    /* Our rail's transport has refused everything for that peer with errno `error` for
     * config.unanswered_after, which nobody but this host can change. Probes go on. Called once
     * each time that this begins. May be NULL. */
    void (*unsent)(void *context, btl_ib_conn_t *conn, int error);

    /* A peer that something waits for, and that has answered before, has not for
     * config.unanswered_after, by any flow. Probes go on. Called once each time that this begins.
     * May be NULL. */
    void (*silent)(void *context, btl_ib_conn_t *conn, const btl_ib_silence_t *silence);

    /* The address of our rail changed, and a peer that something waits for has not answered at the
     * new one for config.unanswered_after. Once for each change. NULL: nobody cares. */
    void (*moved_unanswered)(void *context, btl_ib_conn_t *conn);

    /* Over the two rails of `conn` came far less than by those of `better`, to the same process, so
     * what is sent by it takes those for a while. Called each time that is found. May be NULL. */
    void (*slow_rail)(void *context, const btl_ib_conn_t *conn, const btl_ib_conn_t *better,
                      const btl_ib_slow_rail_t *found);

    /* Datagrams of `lost` bytes do not get through to that peer over its rail, smaller ones do, and
     * nobody on the path says so (RFC 8899). Those sent from now on have at most `most` bytes,
     * where the rail carries `carries`. Called each time that is found, in progress by the thread
     * as well. May be NULL. */
    void (*black_hole)(void *context, btl_ib_conn_t *conn, uint32_t lost, uint32_t most,
                       uint32_t carries);

    /* Datagrams that were joined to bursts of `lost` bytes do not get to that peer over its rail,
     * or are `refused` by this host, while single ones pass: from now on bursts are shorter. Called
     * each time that is found, in progress by the thread as well. May be NULL. */
    void (*gso_lost)(void *context, btl_ib_conn_t *conn, uint32_t lost, bool refused);

    /* Our rail's device failed with errno `error`, that of the system call `refused` if that is not
     * NULL: `moved` connections go on over other rails, `left` are about to be reported dead. If
     * progress by the thread found it, the next progress call reports it. May be NULL. */
    void (*rail_failed)(void *context, uint32_t rail, const char *refused, int error,
                        uint32_t moved, uint32_t left);

    /* An event for a trace (config.trace), in turns of either kind and in calls of the caller;
     * `time` is left open. No call of the engine in it. May be NULL. */
    void (*trace)(void *context, const btl_ib_trace_event_t *event);

    /* Memory for all that grows. NULL is handled. `zalloc` clears it. */
    void *(*zalloc)(void *context, size_t size);
    void (*free)(void *context, void *memory);
} btl_ib_engine_ops_t;

/* Defaults in btl_ib_engine_config_default(); the limits are checked by btl_ib_engine_create(). */
typedef struct btl_ib_engine_config {
    uint64_t name;                       /* our own process */
    btl_ib_secret_t secret;              /* our own secret, which peers know */
    btl_ib_secret_t region_secret;       /* another, known to no other process: keys of regions,
                                          * challenges */
    btl_ib_versions_t wire;              /* of datagrams that we speak (btl_ib_versions_here()) */
    btl_ib_protection_kind_t protection; /* of datagrams; the same in all processes (NONE) */
    btl_ib_aead_t *aead;    /* the cipher, if the protection is keyed; outlives the engine */
    btl_ib_auth_key_t key;  /* our own key, if the protection is keyed */
    uint64_t first_number;  /* datagrams on a new connection are numbered from the next on (0) */
    uint32_t eager_max;     /* bytes: longest message ever sent or accepted (the reassembly size) */
    uint32_t ack_delay;     /* us: longest delay of an acknowledgement (150) */
    uint32_t rto_min;       /* us: floor of the retransmission timeout (250) */
    uint32_t rto_max;       /* us: cap of its backoff (200000) */
    uint32_t rto_initial;   /* us: before the first sample (2000) */
    uint64_t silence_limit; /* us: 0 = never give a silent peer up (900 s) */
    uint64_t unanswered_after; /* us: then a peer that never answered is reported (5 s) */
    /* us: a peer that promised to answer, and never did, is given up unless its host is known to be
     * reachable; 0: never (60 s) */
    uint64_t connect_timeout;
    /* us: a connected peer that was silent for so long is asked whether it is there, and again;
     * after four times the network is believed that its host is unreachable; 0: never (0) */
    uint64_t keepalive;
    /* us: a port that is down for longer counts as failed; 0: never (180 s) */
    uint64_t down_limit;
    uint32_t depth_peer; /* segments in flight to one peer (16384) */
    /* Segments, and bytes, not acknowledged in all (24576; 32 MiB). Each connection may have one
     * segment beside them. */
    uint32_t depth_total;
    uint64_t depth_bytes;
    uint32_t window_max;  /* sequences between the oldest unacknowledged and the newest (49152) */
    uint32_t passive_max; /* connections from peers that were never added (4096) */
    uint32_t lookups_max; /* lookups of unknown senders in a second (2000) */
    /* our one-sided operations that run with one peer, up to BTL_IB_OPS_MAX (128) */
    uint32_t ops_max;
    /* the same with all peers together, beside one for each peer; 0: any number (0) */
    uint32_t ops_total;
    uint32_t reassembly_max;  /* reassembly buffers in all beyond one for each peer (512), */
    uint32_t reassembly_peer; /* and of them for one peer at most; 0: all (0) */
    /* bytes: messages of one segment that progress by the thread keeps (4 MiB) */
    uint64_t backlog_max;
    /* P: credits that a new or idle peer holds; 0: a quarter of an equal share of the receive
     * buffers for each of `peers`, at least 16 */
    uint32_t credit_init;
    uint32_t peers; /* that there may be; 0: unknown */
    /* P: credits of one queue to all peers, within what the transport holds; 0: only that limits
     * them (4096) */
    uint32_t credit_pool;
    /* sequence that every channel starts with; the same in all processes (1) */
    uint32_t first_seq;
    btl_ib_cc_kind_t cc; /* congestion control of all rails (by the transport) */
    uint64_t idle_after; /* us without traffic after which a peer shrinks to its idle size (2 s) */
    bool trace;          /* hand all events to ops->trace (false) */
    /* Header prediction: messages as most are go a short way, where they do the same (true). False
     * where tests compare both. */
    bool predict;
    btl_ib_log_t log;
} btl_ib_engine_config_t;

void btl_ib_engine_config_default(btl_ib_engine_config_t *config);

/* True if an engine can be made of that. If not, `problem` says what is wrong: name, value and what
 * is allowed. */
bool btl_ib_engine_config_check(const btl_ib_engine_config_t *config, char *problem, size_t size);

/*
 * Makes an engine. `ops` must outlive it. Returns NULL if memory is short or the configuration is
 * impossible (said in the log).
 */
btl_ib_engine_t *btl_ib_engine_create(const btl_ib_engine_config_t *config,
                                      const btl_ib_engine_ops_t *ops, void *ops_context);

/* Frees everything at once, connections included, without a callback and without sending. The
 * transports are closed. */
void btl_ib_engine_destroy(btl_ib_engine_t *engine);

/*
 * Takes over a transport as a rail: `queues` are our receive queues on it (already clamped to its
 * max_datagram). Returns the rail's number or a negative errno (-ENOSPC, -ENOMEM, -EINVAL: the
 * transport has too little room for the protocol); on error the transport stays the caller's.
 */
int btl_ib_engine_add_rail(btl_ib_engine_t *engine, btl_ib_transport_t *transport,
                           const btl_ib_queue_table_t *queues);

/* Has a rail stand by: until a connection goes by it, it is polled every 50 ms only. */
void btl_ib_engine_rail_stands_by(btl_ib_engine_t *engine, uint32_t rail);

/* Writes the address and port of our rail, as text. Returns false if the transport has no text for
 * it. */
bool btl_ib_engine_address_text(const btl_ib_engine_t *engine, uint32_t rail, char *out,
                                size_t len);

/* Returns the name of the transport of a rail, as long as there is the engine. */
const char *btl_ib_engine_rail_name(const btl_ib_engine_t *engine, uint32_t rail);

/* Returns what to publish of our rail. */
void btl_ib_engine_rail_info(const btl_ib_engine_t *engine, uint32_t rail,
                             btl_ib_peer_info_t *info);

/*
 * Makes one turn: delivers what progress by the thread received, receives at most `burst`
 * datagrams, then runs timers that are due, sends what is queued and acknowledgements that are due.
 * Returns the number of datagrams received plus messages completed or delivered late (0: idle).
 */
int btl_ib_engine_progress(btl_ib_engine_t *engine, uint64_t now, int burst);

/* Returns for how long the caller made no call before the last turn of either kind, us. */
uint64_t btl_ib_engine_away(const btl_ib_engine_t *engine);

/* Returns how many datagrams were sent and received until now. */
uint64_t btl_ib_engine_datagrams(const btl_ib_engine_t *engine);

/*
 * True if the last turn, of either kind, followed a pause of the caller (more than BTL_IB_PAUSE_MIN
 * us without a call), and there is more to be done than one turn does. Then another one should
 * follow at once, with a new `now`, until this is false: at most for as long as the pause, and 20
 * ms. A process that calls seldom would else receive one GSO burst, and send one window, in each
 * call.
 */
bool btl_ib_engine_behind(const btl_ib_engine_t *engine);

/*
 * True if calls have sent so much, since btl_ib_engine_call_ended(), that one may have taken longer
 * than a pause. Then the caller reads the clock again. Else the next turn would take the time of
 * the call for a pause of the application: windows double after pauses, and the next call would
 * take twice as long.
 */
bool btl_ib_engine_has_sent_much(const btl_ib_engine_t *engine);

/* Notes that a call ended at `now`. */
void btl_ib_engine_call_ended(btl_ib_engine_t *engine, uint64_t now);

/*
 * Makes one turn of the progress thread, while the application does something else. It receives,
 * acknowledges, sends again and sends what waits, but runs no callback except deliverable,
 * black_hole, zalloc and free. Messages that arrive are kept for the next progress call: those of
 * one segment in at most backlog_max bytes, those in chunks in their reassembly buffers; more than
 * that is deferred. Completions wait as well, no connection dies, and of unknown senders the first
 * datagrams are kept, 1 MiB of them. Returns the number of datagrams received.
 */
int btl_ib_engine_async_progress(btl_ib_engine_t *engine, uint64_t now, int burst);

/* Does what waits until the message is delivered that is being delivered: its acknowledgement, its
 * credit, its counters. */
void btl_ib_engine_account(btl_ib_engine_t *engine);

/* Returns when the last turn of either kind was; 0: never. */
uint64_t btl_ib_engine_turned_at(const btl_ib_engine_t *engine);

/* Returns when progress must be called again if nothing arrives before: a time on the `now` clock,
 * UINT64_MAX if nothing is due. Never too late; may be too early. */
uint64_t btl_ib_engine_next_due(const btl_ib_engine_t *engine);

/* Returns when the thread's progress has something to do. It does not count what only waits for
 * callbacks, nor connections that become idle (UINT64_MAX if only that is due). */
uint64_t btl_ib_engine_async_due(const btl_ib_engine_t *engine);

/* True if anything is in progress that turns have to carry on, besides connections becoming idle:
 * data not acknowledged, answers or acknowledgements due, messages that wait. */
bool btl_ib_engine_busy(const btl_ib_engine_t *engine);

/* True if puts, gets or atomics are under way, or memory is registered for those of peers. */
bool btl_ib_engine_has_rma(const btl_ib_engine_t *engine);

/* True if what peers send would carry something on: that, or the sending of segments that are not
 * acknowledged. */
bool btl_ib_engine_awaits(const btl_ib_engine_t *engine);

/* True if first contacts are answered in progress by the thread, on every rail. */
bool btl_ib_engine_answers(const btl_ib_engine_t *engine);

/* True if peers may access memory here, because some is registered for them. Then progress by the
 * thread is useful even when none is due. */
bool btl_ib_engine_serves(const btl_ib_engine_t *engine);

/* Descriptors, one of which becomes readable when there is something to receive: into `fds`, which
 * has room for BTL_IB_RAILS_MAX. Returns how many, 0 if some rail has none. */
uint32_t btl_ib_engine_wait_fds(const btl_ib_engine_t *engine, int *fds);

/* Refuses unknown peers from now on, as we are about to leave, and destroys the connections that
 * have no user. */
void btl_ib_engine_refuse_new(btl_ib_engine_t *engine, uint64_t now);

/*
 * Adds what memory an engine takes that has one rail with such attributes and queues, and so many
 * peers with a connection each; see btl_ib_memory_estimate_t.
 */
void btl_ib_engine_memory_estimate(const btl_ib_engine_config_t *config,
                                   const btl_ib_transport_attr_t *attr,
                                   const btl_ib_queue_table_t *queues, uint32_t peers,
                                   btl_ib_memory_estimate_t *estimate);

const btl_ib_counters_t *btl_ib_engine_counters(const btl_ib_engine_t *engine);

/* Returns how many rails it has. */
uint32_t btl_ib_engine_rails(const btl_ib_engine_t *engine);

/* Adds up what the connections of a rail counted, those that are no more included, and its
 * datagrams. */
void btl_ib_engine_rail_counters(const btl_ib_engine_t *engine, uint32_t rail,
                                 btl_ib_rail_counters_t *out);

/* Adds up what was counted on a channel (< BTL_IB_QUEUES_MAX) of a rail: sent ones by the peer's
 * channel, received ones by ours. */
btl_ib_channel_counters_t btl_ib_engine_channel_counters(const btl_ib_engine_t *engine,
                                                         uint32_t rail, uint32_t channel);

/* Returns the rail's transport, which counts, too. */
const btl_ib_transport_t *btl_ib_engine_rail_transport(const btl_ib_engine_t *engine,
                                                       uint32_t rail);

/* Returns the connection after `conn`, or the first after NULL; NULL: there is none. Those that
 * were destroyed are left out. */
const btl_ib_conn_t *btl_ib_engine_next_conn(const btl_ib_engine_t *engine,
                                             const btl_ib_conn_t *conn);

/* Returns what it counted since it was made, and what it is at now. */
btl_ib_conn_counters_t btl_ib_conn_counters(const btl_ib_conn_t *conn);
btl_ib_conn_levels_info_t btl_ib_conn_levels(const btl_ib_conn_t *conn);

/* ---- connections ---- */

/*
 * Makes a connection from our `rail` to the peer's rail in `info`. Sends nothing. Returns 0 and
 * *conn, or a negative errno: -ENOMEM, -EINVAL (the peer's table or limits make no sense), -EEXIST
 * (there is one: see btl_ib_conn_find), or what the transport said of the address.
 */
int btl_ib_conn_create(btl_ib_engine_t *engine, uint32_t rail, const btl_ib_peer_info_t *info,
                       void *user, btl_ib_conn_t **conn);

/* Makes a connection over a pair of rails that may or may not lead to the peer, for another
 * connection with it to go by. It is passive: the engine's until adopted. */
int btl_ib_conn_try(btl_ib_engine_t *engine, uint32_t rail, const btl_ib_peer_info_t *info);

/* Returns the connection of our rail with a rail of the named process, or NULL. */
btl_ib_conn_t *btl_ib_conn_find(btl_ib_engine_t *engine, uint32_t rail, uint64_t name,
                                uint32_t remote_rail);

/* Makes a passive connection the caller's. */
void btl_ib_conn_adopt(btl_ib_conn_t *conn, void *user);

void *btl_ib_conn_user(const btl_ib_conn_t *conn);
uint64_t btl_ib_conn_name(const btl_ib_conn_t *conn);
uint32_t btl_ib_conn_rail(const btl_ib_conn_t *conn);
bool btl_ib_conn_is_dead(const btl_ib_conn_t *conn);

/*
 * Finds out whether the peer is reached by the connection's own two rails, and what size of
 * datagrams the path carries, without any message: a first contact without data, then what a search
 * of the path MTU does (RFC 8899). Later turns do it, those of the progress thread as well.
 */
void btl_ib_conn_check_path(btl_ib_conn_t *conn, uint64_t now);

/* What such a check found so far. Sizes are bytes of datagrams; 0: none got through. */
typedef struct btl_ib_path_info {
    bool checking; /* it goes on */
    bool own;      /* datagrams go over its own two rails, not by others that were found to work */
    bool heard;    /* something of the peer came by them */
    bool answered; /* what is sent gets there, over any rails */
    bool refused;  /* its host says that nobody is there; nothing was heard since */
    uint32_t contact; /* the smallest: that of a first contact */
    uint32_t sent;    /* the largest probe that got there */
    uint32_t came;    /* the largest probe of the peer that came here */
    uint32_t most;    /* what the rails at both ends carry */
    uint32_t rtt;     /* us, the shortest; 0: not known */
} btl_ib_path_info_t;

btl_ib_path_info_t btl_ib_conn_path(const btl_ib_conn_t *conn);

/*
 * Begins to close: from now on data are acknowledged but not delivered. Call
 * btl_ib_engine_progress() until btl_ib_conn_drained(), or a time limit, then destroy.
 */
void btl_ib_conn_drain(btl_ib_conn_t *conn);

/* True if all that we sent was acknowledged and nothing is queued (or the connection is dead). */
bool btl_ib_conn_drained(const btl_ib_conn_t *conn);

/*
 * Closes the connection. Its messages complete by on_done with -ECANCELED. If the peer ever heard
 * of us it is told (CLOSE, three times 1 ms apart, by later progress calls). `conn` is no longer
 * the caller's when this returns.
 */
void btl_ib_conn_destroy(btl_ib_conn_t *conn, uint64_t now);

/* True if CLOSEs are still to be sent. */
bool btl_ib_engine_lingering(const btl_ib_engine_t *engine);

/* Ends a connection whose peer counts as dead, for that reason; calls `dead`. Does nothing if it
 * has ended. */
void btl_ib_conn_kill(btl_ib_conn_t *conn, btl_ib_death_t reason);

/* Writes the peer's address and port on the connection's rail, as text. Returns false if the
 * transport has no text for it. */
bool btl_ib_conn_address_text(const btl_ib_conn_t *conn, char *out, size_t len);

/* Writes from where to where short datagrams to a peer go now (`usual` false), or go as a rule:
 * addresses and ports, "10.0.0.1:4001 to 10.0.0.2:5001". Returns false if the transport has no text
 * for it. */
bool btl_ib_conn_flow_text(const btl_ib_conn_t *conn, bool usual, char *out, size_t len);

/* What is known of why datagrams may not get to a peer, for people; also of a dead connection. */
typedef struct btl_ib_diagnosis {
    bool answered;    /* something once did */
    uint32_t foreign; /* datagrams with its token that came from addresses that it did not publish,
                    * unless others were accepted since; */
    char from[64];    /* and such an address; "": it is not known */
    int unsent;  /* errno with which our transport refuses all that is sent to it; 0: it does not */
    int said;    /* errno: what the network says: ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EACCES
                    * (administratively prohibited); 0: nothing, or the peer was heard since */
    char by[64]; /* the address of the host that says so, "" if it is not known */
} btl_ib_diagnosis_t;

btl_ib_diagnosis_t btl_ib_conn_diagnosis(const btl_ib_conn_t *conn);

/* Returns how long ago the peer last answered something by this connection, in us; UINT64_MAX: it
 * never did. */
uint64_t btl_ib_conn_answered_ago(const btl_ib_conn_t *conn);

/* True if a connection has anything to do: something unacknowledged, queued, or an operation that
 * is not over. */
bool btl_ib_conn_is_busy(const btl_ib_conn_t *conn);

/* Writes one line about the state of a connection and what it waits for, for dumps. */
int btl_ib_conn_format(const btl_ib_conn_t *conn, uint64_t now, char *out, size_t len);

/* ---- sending ---- */

/* Returns the longest message that travels as one segment, now. */
uint32_t btl_ib_conn_segment_max(const btl_ib_conn_t *conn);

/*
 * Sends. Returns
 *   1          copied and handed to the transport: the message and its memory are the caller's
 *              again, and no callback comes;
 *   0          kept: on_sent and then on_done are called, each once. It may wait for the next turn,
 *              to be coalesced with others. Within a callback none of them is called before this
 *              returns, but by a turn, or after that callback;
 *   -EPIPE     the connection is dead or closed: the message is the caller's;
 *   -EMSGSIZE  longer than eager_max: the same.
 * Messages of one channel leave in the order of calls.
 */
int btl_ib_engine_send(btl_ib_conn_t *conn, btl_ib_msg_t *msg, uint64_t now);

/*
 * Sends a message of a burst, without a clock reading: true if the message is kept and leaves with
 * others in the next turn. False: nothing was done, call btl_ib_engine_send().
 */
bool btl_ib_engine_join(btl_ib_conn_t *conn, btl_ib_msg_t *msg);

/*
 * Sends at once or not at all, without a message. begin returns where to write `size` bytes
 * (aligned to 4). It returns NULL if they cannot leave now (window, credit, queued messages, no
 * buffer, too long for one segment), or had better be coalesced with others: one or two have left
 * in this turn (btl_ib_coalesce.c learns how many). commit hands the segment to the transport: 0,
 * or -EAGAIN if the transport did not take it, and then nothing was sent. No other call of the
 * engine in between.
 */
void *btl_ib_sendi_begin(btl_ib_conn_t *conn, uint8_t tag, uint32_t size);
int btl_ib_sendi_commit(btl_ib_conn_t *conn, uint64_t now);
/* Sends nothing: called instead of commit. */
void btl_ib_sendi_abort(btl_ib_conn_t *conn);

#endif
