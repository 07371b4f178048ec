/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The simulator: real engines in one thread, joined by a virtual network and driven by a virtual
 * clock, every choice of which follows from one seed. Nothing here reads a clock or an address of
 * the machine, so a seed replays to the same events, in the same order.
 *
 *   main.c      command line, workers, totals
 *   random.c    the scenario that a seed stands for
 *   rare.c      what few random seeds have
 *   self_test.c does the simulator notice errors?
 *   small.c     all of the small: every treatment of the first datagrams of short situations
 *   named.c     the list of scenarios for exact situations, which are in named_*.c by subject
 *   run.c       what all scenarios go through: faults, settling, rest, farewell
 *   proc.c      a process: one engine, its callbacks, its clock, when it is polled
 *   app.c       what the application above an engine does: messages, connections
 *   grid.c      goodput over loss, round trip and rate: table, CSV and picture
 *   onesided.c  the same: one-sided operations, and a model of the memory that they work on
 *   net.c       the network: which datagram gets there, when, and in what state
 *   links.c     links with a rate and a queue
 *   rail.c      the transport: one rail's end of the network
 *   device.c    what its device does with memory by itself
 *   wiretap.c   what is demanded of the datagrams themselves
 *   protection.c     what protects them, as seen from outside
 *   check.c     the ledger of messages, the trace, failures
 *   core.c      the queue of events
 */

#ifndef BTL_IB_SIM_H
#define BTL_IB_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "btl_ib_engine.h"
#include "btl_ib_burst.h"
#include "btl_ib_refragment.h"
#include "btl_ib_wire.h"

/* Callbacks are called with more than most of them use. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { REGISTERED_PAGE = 4096 }; /* of rails where memory is registered */

/* ---- time: nanoseconds of virtual time ---- */

#define SIM_US(x) ((uint64_t) (x) *1000u)
#define SIM_MS(x) ((uint64_t) (x) *1000000u)
#define SIM_S(x)  ((uint64_t) (x) *1000000000u)
#define SIM_NEVER UINT64_MAX

/* ---- random numbers: xoshiro256** seeded by splitmix64 (D. Blackman and S. Vigna, 2018) ---- */

typedef struct rng {
    uint64_t s[4];
} rng_t;

void rng_seed(rng_t *rng, uint64_t seed);
uint64_t rng_next(rng_t *rng);
/* lo..hi, both included. */
uint64_t rng_range(rng_t *rng, uint64_t lo, uint64_t hi);
/* True in `ppm` of a million cases. */
bool rng_chance(rng_t *rng, uint32_t ppm);
/* lo..hi, as many values in each octave as in any other. */
uint64_t rng_log(rng_t *rng, uint64_t lo, uint64_t hi);
uint64_t mix64(uint64_t x);

/* ---- faults ---- */

#define SIM_FAULTS(X)                                                                              \
    X(LOSS, "datagrams lost")                                                                      \
    X(LOSS_ONE_WAY, "datagrams lost in one direction only")                                        \
    X(LOSS_BURST, "datagrams lost in bursts of 44")                                                \
    X(LOSS_GSO, "datagrams lost together with all of their GSO burst")                             \
    X(LOSS_ACK, "acknowledgements lost")                                                           \
    X(LOSS_CONTROL, "control segments lost")                                                       \
    X(DUPLICATE, "datagrams duplicated")                                                           \
    X(REORDER, "datagrams overtaken")                                                              \
    X(JITTER, "datagrams delayed")                                                                 \
    X(CORRUPT, "headers corrupted")                                                                \
    X(FLIP, "bits flipped anywhere")                                                               \
    X(GARBAGE, "random datagrams")                                                                 \
    X(REPLAY, "old datagrams replayed")                                                            \
    X(PARTITION_ONE_WAY, "datagrams lost to a one-way partition")                                  \
    X(PARTITION, "datagrams lost to a partition")                                                  \
    X(HOLE, "large datagrams lost")                                                                \
    X(BOTTLENECK, "datagrams queued or dropped at a bottleneck")                                   \
    X(RX_OVERFLOW, "datagrams lost to a full receive buffer")                                      \
    X(RX_STARVED, "datagrams lost: a process got a new life")                                      \
    X(REFUSED, "refusals reported")                                                                \
    X(FORGED, "messages of the network forged")                                                    \
    X(TX_PARTIAL, "sends taken in part")                                                           \
    X(TX_EAGAIN, "sends refused, EAGAIN")                                                          \
    X(TX_ENOBUFS, "sends refused, ENOBUFS")                                                        \
    X(TX_EMSGSIZE, "sends refused, EMSGSIZE")                                                      \
    X(TX_DEPTH, "sends refused, send queue full")                                                  \
    X(TX_LATE, "sends that needed their memory for a while")                                       \
    X(NO_MEMORY, "allocations failed")                                                             \
    X(COMPUTE, "processes that stopped polling")                                                   \
    X(ASYNC, "asynchronous turns while processes did not poll")                                    \
    X(CLOCK_COARSE, "processes with a coarse clock")                                               \
    X(CLOCK_FORWARD, "leaps of a clock")                                                           \
    X(CLOCK_BACK, "steps back of a clock")                                                         \
    X(SEQUENCE_WRAP, "scenarios that start near the wrap of sequences")                            \
    X(STAMP_WRAP, "processes that start near the wrap of time stamps")                             \
    X(SOURCE_KNOWN, "processes whose transport names sources")                                     \
    X(RESTART, "processes restarted")                                                              \
    X(RESTART_MOVED, "processes restarted under another address")                                  \
    X(CLOSE, "connections closed after a drain")                                                   \
    X(CLOSE_ABRUPT, "connections closed without one")                                              \
    X(RECREATE, "connections made again")                                                          \
    X(ADD_DESTROY, "connections made and destroyed at once")                                       \
    X(PASSIVE, "connections made by a peer")                                                       \
    X(LOOKUP_FAILED, "lookups that failed")                                                        \
    X(NO_TAG, "messages without a receiver for their tag yet")                                     \
    X(SEND_IN_DELIVER, "sends from the receive callback")                                          \
    X(ORDERED, "messages to be delivered in the order of sending")                                 \
    X(SEND_IN_DONE, "sends from the completion callback")                                          \
    X(KEPT_LATE, "messages copied behind their sending, so that their sender has its memory")      \
    X(BUNDLE, "segments with several messages")                                                    \
    X(PUT, "PUTs started")                                                                         \
    X(GET, "GETs started")                                                                         \
    X(ATOMIC, "ATOMICs started")                                                                   \
    X(OP_REFUSED, "one-sided operations refused")                                                  \
    X(OP_CUT_OFF, "one-sided operations ended by the end of their connection")                     \
    X(RDMA, "one-sided operations done by devices")                                                \
    X(RDMA_EAGAIN, "operations not taken by a device yet")                                         \
    X(RDMA_UNREACH, "operations that a device could not begin")                                    \
    X(RDMA_BROKEN, "connections of devices broken")                                                \
    X(RDMA_REFUSED, "operations refused by a device")                                              \
    X(REGION_REMOVED, "regions removed")                                                           \
    X(DEVICE, "devices failed")                                                                    \
    X(DEATH, "connections reported dead")                                                          \
    X(GSO_HOLE, "datagrams lost in long GSO bursts")                                               \
    X(GSO_ENOBUFS, "long GSO bursts refused, ENOBUFS")                                             \
    X(FLOW, "datagrams lost to a flow that leads nowhere")                                         \
    X(PAIR, "datagrams lost to a pair of ports that leads nowhere")                                \
    X(RAIL, "datagrams lost to a rail that leads nowhere")                                         \
    X(MARK, "datagrams marked (CE) by a queue")                                                    \
    X(MARK_ALL, "datagrams with ECT(0) marked, whatever the queue")                                \
    X(ECT_CLEARED, "codepoints of ECN cleared")                                                    \
    X(ECT_CHANGED, "codepoints of ECN changed to ECT(1)")                                          \
    X(ECT_DROPPED, "datagrams lost because they had ECT(0)")                                       \
    X(CAPPED, "datagrams lost to a policer of their flow")

typedef enum fault_kind {
#define SIM_FAULT_ENUM(name, text) F_##name,
    SIM_FAULTS(SIM_FAULT_ENUM)
#undef SIM_FAULT_ENUM
        F_COUNT
} fault_kind_t;

extern const char *const fault_names[F_COUNT];
extern const char *const fault_texts[F_COUNT];

/* A fault that is on for a while, on the way from one process to another or in one process. */
typedef struct fault {
    fault_kind_t kind;
    uint64_t from; /* ns */
    uint64_t to;   /* ns */
    int src;       /* process, -1: any */
    int dst;       /* process, -1: any */
    bool both;     /* the other direction as well */
    bool lasts;    /* when all others end: until all is settled */
    uint32_t ppm;
    uint64_t value; /* bytes, ns or Mbit/s, by kind */
    uint32_t left;  /* state of a burst */
} fault_t;

#define SIM_PATHS       7 /* further ones of a rail, at most */
#define SIM_FAULTS_MAX  32
#define SIM_CORRUPTIONS 15 /* value of F_CORRUPT: 1 to this for one of them, 0 for any */

/* ---- trace ---- */

typedef enum trace_kind {
    T_TX,
    T_RX,
    T_DROP,
    T_POLL,
    T_SEND,
    T_DELIVER,
    T_SENT,
    T_DONE,
    T_OP,
    T_OP_DONE,
    T_DEAD,
    T_CREATE,
    T_DESTROY,
    T_DRAIN,
    T_PASSIVE,
    T_LOOKUP,
    T_FAULT,
    T_PROC,
    T_PHASE,
    T_COUNT
} trace_kind_t;

typedef struct trace_line {
    uint64_t at;
    trace_kind_t kind;
    uint64_t v[6];
} trace_line_t;

#define SIM_TRACE_LINES 256

/* ---- messages ---- */

typedef struct sim sim_t;
typedef struct proc proc_t;
typedef struct rail rail_t;
typedef struct device device_t;
typedef struct link link_t;

typedef enum send_mode {
    SEND_NORMAL,
    SEND_INLINE, /* sendi, and if it declines the normal way */
    SEND_ANY,    /* either, by chance */
} send_mode_t;

/* What the ledger knows of one message. */
typedef struct message {
    uint32_t id;
    uint32_t src, dst, rail;
    uint32_t src_life, dst_life; /* incarnations it is sent from and to */
    uint32_t size;
    uint8_t tag;
    uint32_t chain;  /* how many follow it from on_done */
    uint8_t replies; /* how often it is to go back and forth */
    send_mode_t mode;
    bool accepted;
    bool kept;
    bool ordered; /* to be delivered in the order of sending, among such */
    bool chunked; /* seen in chunks */
    bool spare;   /* its second half has spare memory; else of each third message it may */
    bool sent;
    bool done;
    int status;
    uint32_t delivered;
    uint32_t attempts;
    uint64_t order; /* of sending, if it is ordered */
    uint64_t accepted_at;
    uint64_t delivered_at;
    uint64_t link_made_at;
    uint64_t handed; /* bytes handed to the transport */
    uint32_t parts;  /* datagrams they were in */
} message_t;

/* A message with its memory, as the application holds it while the engine does. */
typedef struct app_message {
    btl_ib_msg_t msg;
    struct app_message *next, *prev; /* of those that the process holds */
    proc_t *proc;
    link_t *link;
    uint32_t id;
    uint32_t gap; /* unused bytes between the two pieces */
    uint8_t bytes[] __attribute__((aligned(8)));
} app_message_t;

/* ---- one-sided operations ---- */

typedef struct arena arena_t;

/* What part of the target's memory. */
typedef enum area {
    AREA_FIXED,  /* may only be read */
    AREA_SLICES, /* bytes that no other operation uses meanwhile */
    AREA_COMING, /* a region that comes and goes */
    AREA_WORDS,  /* a word that no other operation uses meanwhile */
    AREA_SHARED, /* a word that others may use as well */
} area_t;

/* What is wrong with an operation. */
typedef enum flaw {
    FLAW_NONE,
    FLAW_BOUNDS,
    FLAW_RIGHT, /* PUT and ATOMIC only */
    FLAW_SECRET,
    FLAW_STALE,
    FLAW_ALIGNED, /* ATOMIC only */
    FLAWS
} flaw_t;

/* One operation, from the plan to the end of the simulation. */
typedef struct onesided {
    btl_ib_op_t op;
    btl_ib_transport_t *device;   /* whose handle op.mem is */
    struct onesided *next, *prev; /* of those that run */
    link_t *link;
    uint32_t id;
    uint32_t src, dst, rail;
    uint32_t src_life, dst_life, peer_life; /* peer_life: of the connection that it went by */
    area_t area;
    flaw_t flaw;
    uint64_t at, bytes; /* in the target's arena */
    uint32_t word;      /* ATOMIC */
    uint32_t generation;
    bool was_there; /* the region that comes and goes, when it was started */
    bool started;
    bool done;
    bool explained;
    bool broken; /* a device could not bring it to an end */
    int status;
    uint32_t attempts;
    uint32_t follow; /* how many follow it from op_done */
    uint64_t started_at, done_at, link_made_at;
    uint64_t content; /* what a PUT writes follows from it */
    uint8_t *local;   /* local memory, with a margin */
} onesided_t;

/* ---- connections, as the application sees them ---- */

/* Which message a fragment on the wire belongs to. */
typedef struct fragment_of {
    bool used;
    uint32_t life, fragment, id;
} fragment_of_t;

#define SIM_FRAGMENTS 256

struct link {
    btl_ib_conn_t *conn;         /* ours, or NULL */
    btl_ib_conn_t *passive;      /* the engine's, or NULL */
    btl_ib_conn_t *passive_dead; /* died before it was adopted; to be destroyed */
    uint32_t peer, rail;
    uint32_t peer_life;
    bool dead;
    bool draining;
    bool ever; /* there was one before */
    uint64_t drain_until;
    uint64_t made_at;
    uint64_t closed_at;       /* last time that it was drained, destroyed or died, else 0 */
    uint64_t aborted_at;      /* the same, but not after all was acknowledged */
    uint64_t heard_at;        /* last time that a genuine datagram of the peer was handed up */
    uint64_t heard_busy;      /* busy_total at that time */
    bool answered;            /* one of these answers what we sent */
    uint64_t closings;        /* how often closed_at was set */
    uint32_t closed_epoch;    /* the last one that a CLOSE named */
    uint64_t closings_heard;  /* the peer's, by a CLOSE */
    uint64_t close_heard_at;  /* when the first CLOSE of the last of them was handed up */
    uint64_t ordered;         /* the order of the last one delivered of those that have one */
    uint32_t kept;            /* messages that the engine holds */
    fragment_of_t *fragments; /* SIM_FRAGMENTS, made when needed */
};

/* ---- processes ---- */

typedef struct allocation allocation_t;

/* What a rail is like, where those of a process differ. */
typedef struct shape {
    btl_ib_transport_attr_t attr;
    char queues[160];
} shape_t;

struct proc {
    sim_t *sim;
    uint32_t index;
    uint64_t name;
    btl_ib_secret_t secret;
    btl_ib_auth_key_t key;
    uint32_t life;
    bool up;
    btl_ib_engine_t *engine;
    btl_ib_engine_config_t config;
    struct btl_ib_trace_file *trace; /* NULL: none */
    char queues[160];
    uint32_t
        signals; /* the transport asks for the completion of every so manieth send; 0: of each */
    btl_ib_transport_attr_t attr;
    shape_t *shapes; /* of each rail, beside `queues` and `attr`; NULL: all rails have these */
    rail_t *rails[BTL_IB_RAILS_MAX];
    btl_ib_peer_info_t published[BTL_IB_RAILS_MAX]; /* when it started */
    link_t *links;                                  /* peer * sim->nrails + rail */

    /* clock */
    uint64_t clock_base;  /* us */
    uint64_t clock_grain; /* us, at least 1 */
    int64_t clock_shift;  /* us */
    uint64_t clock_max;   /* us: the latest that the engine was told */

    /* polling */
    uint64_t poll_at;
    uint64_t poll_generation;
    uint64_t busy_from;    /* of the last time spent computing */
    uint64_t refused_then; /* for want of room, until then */
    uint64_t busy_until;
    uint64_t busy_total; /* ns spent computing until now, unheard of by the engine */
    uint64_t
        thread_after; /* ns: the thread makes progress after so long without a poll; 0: never */
    uint64_t seldom;  /* ns that it computes between two calls; 0: it waits in progress */
    uint64_t calls;   /* of progress, while it computes between them */
    uint64_t turns;   /* of either kind; after one in INVARIANTS_EACH invariants are checked */
    bool traced;      /* the engine traces, and tells of what it drops; into no file */
    bool checks_path; /* the application had a path checked: first contacts may have no data */
    bool answers;     /* and when something comes: a first contact is answered */
    uint64_t async_generation;
    bool in_async;
    bool async_received; /* something came in an asynchronous turn since the last poll */
    uint32_t idle_polls; /* after each event, without one */
    uint32_t idle_left;
    uint32_t stuck;
    uint32_t unanswered;  /* peers of which it was told that they do not answer */
    uint32_t gso_told;    /* times that it was told of GSO bursts that do not get through... */
    uint32_t gso_refused; /* ...as this host refuses them */
    uint32_t holes_told;  /* times that it was told of large datagrams that vanish */
    uint32_t hole_lost; /* the last time: bytes of these, of those that are sent from then on... */
    uint32_t hole_most;
    uint32_t hole_carries;     /* ...and what the rail carries */
    uint32_t unanswered_heard; /* of these, those whose datagrams come here */
    uint32_t silent;           /* peers reported that had answered before, */
    btl_ib_silence_t silence;  /* and what was said of the last one */
    int burst;
    int received_in_progress;
    uint64_t forged; /* messages of the network that its engine was told in this life */
    bool in_progress;
    uint64_t idle_poll; /* ns, 0: only when due */
    uint64_t step;      /* ns between two polls with something to do */

    /* memory */
    allocation_t *allocations;
    size_t bytes, bytes_peak;
    uint64_t allocated;
    app_message_t *held; /* what the engine was given */
    arena_t *arena;      /* what peers may use */
    uint32_t draining;   /* connections */
    uint64_t leaped;     /* us: all leaps of the clock */
    uint32_t fail_at;    /* fail this allocation, counted down; 0: none */
    bool spared;         /* fail none now */

    /* traffic, by what the transport saw */
    uint64_t datagrams, again, acks, tiny_parts;
    bool no_buffers; /* its transport refused a datagram for want of them */
};

/* ---- the whole ---- */

typedef void (*event_fn_t)(sim_t *sim, void *arg, uint64_t value);

typedef struct event {
    uint64_t at;
    uint64_t order;
    event_fn_t fn;
    void *arg;
    uint64_t value;
} event_t;

typedef struct datagram {
    uint32_t src, dst; /* addresses */
    uint32_t from, to; /* processes; from: UINT32_MAX for garbage */
    uint32_t rail;     /* of its connection, which may go by another */
    uint8_t flow;
    uint8_t codepoint; /* btl_ib_codepoint_t */
    uint8_t pair; /* of ports, where there are two lanes: 1: that of bulk; 2: of the spare flow */
    uint32_t src_life, dst_life;
    uint64_t closings; /* of the sender's link, when it was sent */
    bool genuine;      /* neither corrupted, replayed nor made up */
    uint64_t sent_at;
    uint64_t burst; /* that it travels in: see rail.c */
    uint32_t burst_bytes;
    uint64_t delay;    /* ns: while it is on its way over links */
    event_fn_t arrive; /* the same */
    struct datagram *next;
    rail_t *held_by;
    uint32_t size;
    uint8_t data[] __attribute__((aligned(8)));
} datagram_t;

/* What a message of the network quotes of a datagram. */
typedef struct quote {
    uint32_t size;
    uint8_t bytes[BTL_IB_QUOTED_MAX];
} quote_t;

#define SIM_REPLAYS      32
#define SIM_DATAGRAM_MAX 66000

/* A policer: each flow (addresses, and ports) passes at a rate, and what finds its bucket empty is
 * dropped. */
typedef struct cap {
    uint64_t rate;  /* Mbit/s, 0: there is none */
    uint64_t bytes; /* of a bucket */
    uint64_t dropped;
    struct {
        uint64_t flow;   /* see links.c */
        uint64_t tokens; /* bits */
        uint64_t at;     /* ns: when it had so many */
    } bucket[64];
    uint32_t buckets;
} cap_t;

/* A link that datagrams leave one after the other; what finds the queue before it full is
 * dropped. */
typedef struct wire {
    uint64_t rate;  /* Mbit/s, of whole datagrams without what UDP, IP and Ethernet add; 0: none */
    uint64_t queue; /* bytes, 0: no limit */
    uint64_t mark;  /* bytes of queue above which it marks what has ECT(0); 0: never */
    uint64_t free_at; /* ns */
    uint64_t carried, dropped;
    uint64_t marked;
    uint64_t waited_most; /* the most bytes that something carried found in the queue */
} wire_t;

/* What was promised and used on one direction of a connection, seen on the wire. */
typedef struct promise {
    bool known;
    uint32_t limit[BTL_IB_QUEUES_MAX];
    uint32_t arrived[BTL_IB_QUEUES_MAX]; /* sequences, at the granter */
    uint32_t acked[BTL_IB_QUEUES_MAX];   /* below it all are acknowledged, as the sender knows */
    btl_ib_list_t parts;                 /* segments that were sent in part */
    uint64_t parts_token;                /* of the life that they are of */
} promise_t;

struct sim {
    uint64_t seed;
    const char *scenario;
    rng_t rng;
    uint64_t now;
    uint64_t hash;
    uint64_t counted; /* hash of the counters of all engines, at their ends */
    bool ecn;         /* a random scenario: its transports have ECN, its network marks */
    bool general;     /* engines predict no headers: all messages go the general way */
    bool verbose;
    bool terse;              /* a failure is one line */
    bool self_test;          /* self_test.c makes an error */
    const char *trace_files; /* of the processes begin with this; NULL: none */

    event_t *heap;
    uint32_t heap_len, heap_cap;
    uint64_t event_order, events, events_max;
    uint32_t in_flight;   /* datagrams on their way */
    uint64_t bursts;      /* that were sent */
    uint32_t burst_bytes; /* of the last one; 0: a single datagram, or nothing is joined */

    trace_line_t trace[SIM_TRACE_LINES];
    uint64_t trace_len;

    proc_t *procs;
    uint32_t nprocs, nrails;
    rail_t **bound; /* by address */
    uint32_t addresses, bound_cap;
    promise_t **promises;

    fault_t faults[SIM_FAULTS_MAX];
    uint32_t nfaults;
    uint64_t applied[F_COUNT];
    bool (*drop)(sim_t *sim, const datagram_t *d); /* a named scenario's own */
    bool (*reject)(sim_t *sim,
                   const datagram_t *d); /* a firewall that says so: its sender is told */
    bool by_fate;                        /* small.c decides what becomes of each datagram */
    bool unreachable;                    /* what is told then is that the host cannot be reached */
    void (*on_deliver)(sim_t *sim, const message_t *m);
    uint64_t scratch[8]; /* the same */
    datagram_t *replays[SIM_REPLAYS];

    btl_ib_protection_t protection; /* of all processes */
    btl_ib_aead_t *aead;            /* theirs, NULL: not needed yet */
    uint64_t first_number;          /* of their datagrams */
    btl_ib_counters_t protection_count;
    uint8_t plain[SIM_DATAGRAM_MAX] __attribute__((aligned(8))); /* one looked into */
    uint64_t delay;                                              /* ns, one way */
    uint64_t rx_bytes_max; /* of a receive buffer, 0: no limit */
    uint32_t
        beyond;    /* bytes of a datagram between hosts, of two processes each; 0: as within one */
    bool survives; /* the failure of a device is the death of no connection */
    uint32_t hole; /* larger datagrams vanish on all links, for ever; 0: none do */
    bool refuses;
    bool clean;         /* no fault at all: the strict rules apply */
    bool resting;       /* the burst at rest: the same */
    uint64_t tag_from;  /* ns: tag 200 has a receiver from then on */
    uint64_t down_time; /* ns between two lives */
    uint64_t
        slice; /* ns that a process has the one processor for in its turn; 0: each has its own */
    uint64_t shared_at; /* ns: since then */
    uint32_t stride;    /* between two processes that have it one after the other */
    uint64_t healed_at; /* ns: no fault any more since; 0: not yet */
    wire_t *out, *in;   /* of each rail of each process, or NULL: no such links */
    wire_t core;        /* between all of them, if it has a rate */
    wire_t spine[2];    /* instead of it, if they have a rate: each flow takes one of them (ECMP) */
    int spine_dead;     /* that loses everything; -1: none */
    cap_t cap;          /* before these */
    uint64_t *link_free; /* of the bottleneck in front of each process */
    bool death_ok;       /* a death without progress is to be expected */
    bool stopping;       /* no new message is to be begun */
    bool one_host;       /* what routers have for a process differs in the port only */
    bool no_addresses;   /* transports take no more addresses */
    bool tells_share;    /* ACKs tell `share` of many to one instead of their sender's own */
    uint8_t share;

    message_t *messages;
    uint32_t nmessages, messages_cap;
    uint32_t undelivered, undone, unaccepted;
    uint64_t segments; /* that the messages need at least */
    uint32_t ordered_ppm;
    bool joins;      /* messages may join others without a clock reading, as in a burst */
    bool aborts;     /* some sends at once end before they are committed */
    uint64_t orders; /* how many ordered ones were sent */

    onesided_t **ops;
    uint32_t nops, ops_cap;
    uint32_t ops_waiting; /* not started yet */
    uint32_t known_ppm;   /* of PUTs and GETs: the device could do them, if there is one that can */
    uint32_t pinned_ppm;  /* of them: their local memory is exposed */
    bool device_atomics;  /* words are changed by devices only */
    onesided_t *open;     /* those that run */
};

/* core.c */
void sim_at(sim_t *sim, uint64_t at, event_fn_t fn, void *arg, uint64_t value);
/* Run the next event, unless it is later than `until`. False if there was none. */
bool sim_step(sim_t *sim, uint64_t until);
void sim_run_until(sim_t *sim, uint64_t until);
void sim_init(sim_t *sim, uint64_t seed, const char *scenario);
/* Make the processes, still without engines. */
void sim_procs(sim_t *sim, uint32_t nprocs, uint32_t nrails);
void sim_free(sim_t *sim);

/* check.c */
void sim_trace(sim_t *sim, trace_kind_t kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
               uint64_t e, uint64_t f);
void sim_trace_dump(const sim_t *sim, uint32_t lines);
/* What the engine of a process that is up has counted. */
static inline const btl_ib_counters_t *sim_counters(const sim_t *sim, uint32_t proc)
{
    return btl_ib_engine_counters(sim->procs[proc].engine);
}

/* Say what is wrong, with seed, time and trace, and end the process with status 1. */
void sim_fail(sim_t *sim, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
message_t *ledger_new(sim_t *sim);
void content_fill(const sim_t *sim, const message_t *m, uint8_t *out);
bool content_right(const sim_t *sim, const message_t *m, const uint8_t *data);
/* Which message is it? NULL if none that is due. */
message_t *ledger_match(sim_t *sim, uint32_t src, uint32_t dst, uint32_t rail, uint8_t tag,
                        const uint8_t *data, uint32_t size);
bool ledger_excused(const sim_t *sim, const message_t *m);
bool ledger_settled(const sim_t *sim);
const message_t *ledger_open(const sim_t *sim);

/* net.c */
fault_t *fault_add(sim_t *sim, fault_kind_t kind, uint64_t from, uint64_t to, uint32_t ppm,
                   uint64_t value);
fault_t *fault_active(sim_t *sim, fault_kind_t kind, uint32_t src, uint32_t dst);
void fault_applied(sim_t *sim, fault_kind_t kind);
datagram_t *datagram_copy(const datagram_t *d, uint32_t size);
void net_send(sim_t *sim, datagram_t *d);
void net_garbage(sim_t *sim, uint32_t to);

typedef enum forgery {
    FORGERY_RANDOM, /* any bytes */
    FORGERY_TOKEN,  /* of a datagram that was sent there, but for the token */
    FORGERY_OTHER,  /* of a datagram of another process */
    FORGERY_SHORT,  /* the beginning of one that was sent there, without all of its token */
    FORGERIES,
} forgery_t;

/* Messages of the network that somebody made up without knowing the tokens: nobody is at that
 * address, and the path there carries little. */
void net_forge(sim_t *sim, rail_t *rail, uint32_t address, forgery_t how);
void net_replay(sim_t *sim);
/* The same bytes, to be freed by the caller; and once more on its way as they are. */
datagram_t *net_copy(const datagram_t *d);
void net_again(sim_t *sim, const datagram_t *d);
void net_release(sim_t *sim);

/* links.c */
/* Give each rail of each process a link out, with an endless queue, and a link in: Mbit/s and bytes
 * of queue. */
void links_make(sim_t *sim, uint64_t out, uint64_t in, uint64_t queue);
/* Another rate for one of the rails. */
/* Of the two links of the spine, the one that the flow of a datagram takes. */
uint32_t links_spine(const sim_t *sim, const datagram_t *d);
void links_rail(sim_t *sim, uint32_t rail, uint64_t rate);
/* Of the two links of the spine, the one that the flow of a datagram takes. */
uint32_t links_spine(const sim_t *sim, const datagram_t *d);
/* `d` takes `delay` and its way over the links, and is then given to `arrive`. */
void links_send(sim_t *sim, datagram_t *d, uint64_t delay, event_fn_t arrive);
bool links_is_event(event_fn_t fn);

/* Has its address changed since it was published, for peers at least? */
bool rail_unpublished(const rail_t *rail);

/* rail.c */
rail_t *rail_open(proc_t *proc, uint32_t index, uint32_t address);
btl_ib_transport_t *rail_transport(rail_t *rail);
/* What it is like, in a line. */
void rail_print(FILE *out, const rail_t *rail);
void rail_deliver(rail_t *rail, datagram_t *d);
quote_t quote_of(const uint8_t *data, uint32_t size);
/* Of the latest datagram that it sent there; none: size 0. */
quote_t rail_quote(const rail_t *rail, uint32_t address);
/* Nobody is there, says the network of that datagram. */
void rail_refused(rail_t *rail, uint32_t address, quote_t quote);
/* The path there carries datagrams of `size` bytes only, says the network of the latest that was
 * sent there. */
void rail_narrowed(rail_t *rail, uint32_t address, uint32_t size);
/* One of both (size 0: the first), with whatever quotation; `forged`: the engine must reject it. */
void rail_told(rail_t *rail, uint32_t address, uint32_t size, quote_t quote, bool forged);
void rail_fail_device(rail_t *rail);
/* Its address is gone; when it is asked, it has another one. */
void rail_lose_address(rail_t *rail);
/* A router has another address for a rail from now on: what it sends comes from there, and what is
 * sent there gets to it. And: there is no router any more. */
void rail_route(rail_t *rail);
void rail_unroute(rail_t *rail);
/* Its port goes down, or comes back. */
void rail_set_port(rail_t *rail, bool up);
bool rail_pending(const rail_t *rail);
const proc_t *rail_proc(const rail_t *rail);
bool rail_failed(const rail_t *rail);
/* Was its port down for longer than down_limit? */
bool rail_given_up(const rail_t *rail);
uint32_t rail_held(const rail_t *rail);
/* Sends whose end it has not told: their memory is not free. */
uint32_t rail_sending(const rail_t *rail);
uint32_t rail_address(const rail_t *rail);
/* The process freed this memory: does the device still read it? */
void rail_check_free(rail_t *rail, const uint8_t *base, size_t size);

/* The rail's own, and which address a handle of its addr_add() stands for. */
device_t *rail_device(rail_t *rail);
uint32_t rail_address_of(rail_t *rail, btl_ib_addr_t to);

/* device.c */
extern const btl_ib_rdma_ops_t device_ops;
device_t *device_open(proc_t *proc, rail_t *rail, uint32_t address, uint32_t id);
void device_stop(device_t *device);
void device_close(device_t *device);
/* Is there an event, and the next one. */
bool device_pending(const device_t *device);
void device_give(device_t *device, btl_ib_event_t *event);
/* Has it an operation with that context, or with that peer? */
bool device_uses(const device_t *device, const void *context, uint32_t address);

/* protection.c */
void protection_choose(sim_t *sim, btl_ib_protection_kind_t kind);
void protection_release(sim_t *sim);
/* Kinds below this one can be had in this build. */
uint32_t protection_kinds(void);
/* What the sender wrote before it protected the datagram, in `plain`, which has room for `size`.
 * Returns its size, 0 if the trailer does not fit the rest. */
uint32_t protection_open(sim_t *sim, const uint8_t *data, uint32_t size, uint8_t *plain);

/* wiretap.c */
/* Returns the rail of the connection that it is of; `rail` is the one that it goes by. */
uint32_t wiretap(proc_t *proc, uint32_t rail, uint32_t peer, uint8_t channel, uint8_t *data,
                 uint32_t size);

void wiretap_release(sim_t *sim);
void wiretap_arrived(proc_t *proc, uint32_t rail, uint32_t from, uint8_t *data, uint32_t size);

/* trace_files.c */
/* Files of what the engine traces, if they are wanted: trace_event() is its callback. */
void trace_open(proc_t *proc);
void trace_close(proc_t *proc);
void trace_event(void *context, const btl_ib_trace_event_t *event);

/* proc.c */
void proc_start(proc_t *proc, bool new_address);
void proc_stop(proc_t *proc);
void proc_restart(proc_t *proc, bool new_address);
void proc_wake(proc_t *proc, uint64_t at);
/* Something came to a process that may compute. */
void proc_stir(proc_t *proc);
/* A process that waits has looked until just now and found nothing. */
void proc_look(proc_t *proc);
void proc_compute(proc_t *proc, uint64_t until);
/* All processes share one processor from now on: each has it for `slice` ns in its turn, in an
 * order of the seed's, whether it waits or not. Their threads, if they have some, are not held up
 * by that. */
void proc_share(sim_t *sim, uint64_t slice);
/* A call up was made: fails if that is in an asynchronous turn. */
void proc_called(const proc_t *proc, const char *what);
uint64_t proc_busy(const proc_t *proc);
/* What it refused for want of room, in all. */
uint64_t proc_refused(const proc_t *proc);
uint64_t proc_clock(proc_t *proc);
bool proc_quiet(const proc_t *proc);
link_t *proc_link(proc_t *proc, uint32_t peer, uint32_t rail);
/* What a rail of it is like. */
const btl_ib_transport_attr_t *proc_attr(const proc_t *proc, uint32_t rail);
/* Before it starts: each rail has a shape of its own from now on, which is the common one until it
 * is changed. */
void proc_vary(proc_t *proc);
proc_t *proc_by_name(sim_t *sim, uint64_t name);
extern const btl_ib_engine_ops_t proc_ops;

/* app.c */
message_t *app_plan(proc_t *proc, uint32_t peer, uint32_t size, uint64_t at);
void app_try(proc_t *proc, uint32_t id);
bool app_connect(proc_t *proc, uint32_t peer, uint32_t rail);
void app_close(proc_t *proc, uint32_t peer, uint32_t rail, bool drain);
void app_poll(proc_t *proc);
void app_forget_links(proc_t *proc);
void app_destroy(proc_t *proc, link_t *link);
bool app_deliverable(void *context, const btl_ib_conn_t *conn, uint8_t tag);
void app_deliver(void *context, btl_ib_conn_t *conn, uint8_t tag, void *data, uint32_t size);
void app_on_sent(void *context, btl_ib_msg_t *msg);
void app_on_done(void *context, btl_ib_msg_t *msg, int status);
void app_dead(void *context, btl_ib_conn_t *conn, btl_ib_death_t reason);
void app_passive(void *context, btl_ib_conn_t *conn);
void app_unanswered(void *context, btl_ib_conn_t *conn, bool heard);
void app_gso_lost(void *context, btl_ib_conn_t *conn, uint32_t lost, bool refused);
void app_silent(void *context, btl_ib_conn_t *conn, const btl_ib_silence_t *silence);
void app_black_hole(void *context, btl_ib_conn_t *conn, uint32_t lost, uint32_t most,
                    uint32_t carries);
bool app_lookup(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                btl_ib_peer_info_t *info);

/* arena.c */
/* Give a process an arena in its present life, if it has none. */
void arena_begin(proc_t *proc);
/* Remove the region that comes and goes, or register it again. */
void arena_swap(proc_t *proc);
/* Is the memory what it must be? */
void arena_check(proc_t *proc);
void arena_end(proc_t *proc);

/* onesided.c */
/* An operation that starts at a time, or as soon as it can; `bytes` of an ATOMIC do not matter.
 * What it is exactly may be changed until then. */
onesided_t *op_plan(sim_t *sim, uint32_t src, uint32_t dst, btl_ib_op_kind_t kind, uint64_t bytes,
                    uint64_t at);
void app_op_done(void *context, btl_ib_op_t *op, int status);
/* The process is gone, and its operations with it. */
void ops_forget(proc_t *proc);
void ops_free(sim_t *sim);

/* run.c */
/* Tag 200 has a receiver from `at` on; an application that waits sees it at once. */
void run_tag_from(sim_t *sim, uint64_t at);
void run_defaults(sim_t *sim); /* one attr, queue table and configuration for all processes */
void run_start(sim_t *sim);
/* Until all messages are settled, at most `limit` ns longer. */
void run_settle(sim_t *sim, uint64_t limit);
void run_quiet(sim_t *sim, uint64_t limit);
uint64_t run_longest_silence(const sim_t *sim);
/* Are both sides connected as they were from the first? */
bool run_steady(sim_t *sim, proc_t *a, proc_t *b, uint32_t rail);
void run_rest_burst(sim_t *sim);
void run_farewell(sim_t *sim);
/* All faults end but those that last; and these, too. */
void run_heal(sim_t *sim);
void run_heal_rest(sim_t *sim);

/* inside.c: what is private in an engine. By which of our rails does a connection go, is it the
 * connection's own, and is that known to work? */
uint32_t inside_rail(const btl_ib_conn_t *conn);
bool inside_by_its_own(const btl_ib_conn_t *conn);
bool inside_own_is_valid(const btl_ib_conn_t *conn);
/* Go over another rail now. False: there is none. */
bool inside_fail_over(btl_ib_conn_t *conn);
/* Bytes of the largest datagram on its path; us of its shortest round trip, UINT32_MAX: not known;
 * the token of what it sends. */
uint32_t inside_datagram_max(const btl_ib_conn_t *conn);
uint64_t inside_token(const btl_ib_conn_t *conn);
/* The first invariant of btl_ib_state.h that does not hold between two calls of an engine, as text;
 * NULL: all hold. It walks all connections and segments. */
const char *inside_broken(const btl_ib_engine_t *engine);
/* What of an engine that is at rest is still under way, owed or kept, as text; NULL: nothing. */
const char *inside_unfinished(const btl_ib_engine_t *engine);
/* What of a connection's two ends at rest is still under way, or what they know of windows and
 * credits that is not the same; NULL: nothing. Unless `lossless` the last that was told of
 * credits may have been lost. */
const char *inside_ends_differ(const btl_ib_conn_t *sender, const btl_ib_conn_t *receiver,
                               bool lossless);

/* Has an engine ask silent peers no more. */
void inside_ask_no_more(btl_ib_engine_t *engine);

/* Makes an error in an engine, by its name in self_test.c. */
void inside_spoil(btl_ib_conn_t *conn, const char *error);

/* self_test.c: what an engine calls, and what sees its datagrams before anybody else does, if an
 * error is to be made. Runs all: returns an exit status. */
const btl_ib_engine_ops_t *self_test_ops(void);
void self_test_wire(uint8_t *data, uint32_t size);
int self_test_run(void);

/* grid.c */
/* All cells, or those that are quick enough for every check. Writes *.csv and *.svg beside `path`
 * (NULL: none). Returns an exit status. */
int grid_run(bool quick, const char *path);

/* small.c: what the network does with a datagram, and all runs of a situation or, if `what` is
 * NULL, of all, with every treatment of their first `datagrams` datagrams; or the one run
 * "name:fates". Returns an exit status. */
uint64_t small_fate(sim_t *sim, const datagram_t *d, uint64_t *copy);
int small_run(const char *what, uint32_t datagrams, bool verbose);

/* rare.c: before processes start; then (`active` ns: messages begin in this time); and when all
 * faults end. */
void rare_options(sim_t *sim);
void rare_events(sim_t *sim, uint64_t active, bool ends_lives);
void rare_end(sim_t *sim);

/* random.c, named.c */
void scenario_random(sim_t *sim);
typedef struct named_scenario {
    const char *name;
    const char *text;
    void (*run)(sim_t *sim);
} named_scenario_t;
extern const named_scenario_t named_scenarios[];

#endif
