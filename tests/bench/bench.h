/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A bench for whole engines: a few processes in one thread, a network whose every datagram is in
 * the test's hands, and a clock that stands still unless the test moves it. The simulator tries
 * what networks do by chance; the bench is for what somebody does on purpose.
 *
 * Datagrams lie on the `wire` until bench_flow() or the test itself hands them over. Messages carry
 * their number, so that the bench knows of each what became of it. */

#ifndef BTL_IB_BENCH_H
#define BTL_IB_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "btl_ib_engine.h"
#include "btl_ib_wire.h"

/* Callbacks are called with more than most of them use. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum {
    BENCH_HOSTS = 4,
    BENCH_RAILS = 2,
    BENCH_STATE_BYTES = 16384,
    BENCH_OPS = 512,
    BENCH_MEMORY = 128 * 1024, /* bytes that each host registers */
    BENCH_DELAY = 10,          /* us that a datagram is on its way, unless changed */
    BENCH_BURST = 64,          /* datagrams that a turn takes in, unless changed */
    BENCH_MESSAGE_MIN = 8,     /* bytes: its number, and something that depends on it */
};

/* As a source: an address that nobody published. */
#define BENCH_UNKNOWN UINT32_MAX

typedef struct bench bench_t;
typedef struct bench_host bench_host_t;

typedef struct bench_datagram {
    struct bench_datagram *next;
    uint32_t source; /* address of the sender */
    uint32_t to;     /* and of the receiver: host * BENCH_RAILS + rail */
    uint32_t size;
    uint8_t data[] __attribute__((aligned(8)));
} bench_datagram_t;

typedef struct bench_queue {
    bench_datagram_t *first;
    bench_datagram_t **last;
    uint32_t count;
} bench_queue_t;

typedef struct bench_message {
    btl_ib_msg_t msg;
    bench_t *bench;
    uint32_t id;
    uint32_t from, to, size;
    uint32_t life; /* of the receiver */
    bool accepted;
    bool kept; /* the engine has it */
    bool sent;
    bool done;
    int status;
    uint32_t delivered;
    uint8_t *bytes;
} bench_message_t;

typedef struct bench_op {
    btl_ib_op_t op;
    uint32_t id;
    uint32_t from, to;
    uint32_t life; /* of the target */
    bool kept;     /* the engine has it */
    bool done;
    int status;
    uint8_t *local;
} bench_op_t;

/* A send whose memory the device still reads. */
typedef struct bench_reading {
    struct bench_reading *next;
    void *context;
} bench_reading_t;

typedef struct bench_rail {
    btl_ib_transport_t base;
    bench_host_t *host;
    uint32_t index;
    uint32_t refs[BENCH_HOSTS * BENCH_RAILS]; /* addresses that were added */
    bench_queue_t arrived;
    bench_reading_t *reading;
    uint32_t held;       /* receive buffers not reposted */
    uint32_t busy;       /* refuse this many sends */
    uint32_t full;       /* a bit for each channel whose send queue is full */
    uint32_t no_buffers; /* for larger datagrams there are none; 0: there are */
    uint32_t dead_flows; /* a bit for each flow that leads nowhere */
    bool refusal;        /* a REFUSED event waits */
    uint32_t refused;    /* of this address */
    bool by_icmp;        /* REFUSED and `news` are of the network, and quote: */
    uint8_t quoted[BTL_IB_QUOTED_MAX];
    uint32_t quoted_size;
    bool broken;  /* a BROKEN event waits, of the same */
    bool failure; /* a FAILED event waits */
    bool news;    /* an event waits: */
    btl_ib_event_type_t what;
    uint32_t about; /* of this address, which was added */
    uint32_t size;
    int error;
    bool stopped;
} bench_rail_t;

struct bench_host {
    bench_t *bench;
    uint32_t index;
    uint32_t life;
    btl_ib_engine_t *engine; /* NULL: not started */
    btl_ib_engine_config_t config;
    btl_ib_transport_attr_t attr;
    uint32_t
        path[BENCH_HOSTS]; /* bytes that a datagram carries to and from another; 0: the largest */
    uint32_t
        rx_bytes; /* that wait for it, each datagram with 256 more; 0: attr.rx_depth datagrams */
    char queues[160];
    bench_rail_t rails[BENCH_RAILS];
    bool deaf[BTL_IB_TAG_MAX + 1]; /* tags without a receiver */

    size_t bytes, bytes_peak; /* that the engine holds */
    uint64_t allocations;
    uint32_t fail_in; /* the allocation that fails, counted down; 0: none */

    uint8_t *memory; /* registered under `key` */
    btl_ib_region_key_t key;
    uint32_t cells; /* bytes of it that puts have taken */

    uint64_t lookups;
    uint64_t strange; /* messages delivered that nobody sent, or not like that */
    uint64_t deaths[BTL_IB_DEATH_HOST_LOST + 1];
    uint64_t datagrams; /* sent */
    uint64_t apart;     /* of these, bulk that others may overtake */
    uint64_t calls;     /* of the transport, for that */
    uint64_t bytes_sent;
};

struct bench {
    uint64_t now;   /* us, of all hosts */
    uint32_t delay; /* us that a datagram is on its way */
    int burst;      /* datagrams that a turn takes in */
    uint32_t rails;
    uint32_t carries[BENCH_RAILS]; /* bytes of the largest datagram; 0: what the host's attr says */
    uint32_t first_seq;
    /* Hosts, a bit each, behind a router: what they send to a published address comes from the
     * address of their rail 1, and what is sent there gets to their only rail. */
    uint32_t routed;
    bool rewrites; /* transports tell how a router has an address */
    bench_host_t hosts[BENCH_HOSTS];
    bench_queue_t wire;
    bench_queue_t tape; /* copies of all that was sent, if `taping` */
    bool taping;
    btl_ib_aead_t *aead;                                             /* NULL: nobody asked for it */
    bool (*loses)(bench_t *bench, const bench_datagram_t *datagram); /* NULL: nothing is lost */
    void (*on_deliver)(bench_t *bench, uint32_t message); /* in the callback; NULL: nothing */
    /* of a host whose config.trace is set; NULL: nothing */
    void (*on_event)(bench_host_t *host, const btl_ib_trace_event_t *event);
    uint64_t scratch[4]; /* for these three */
    void (*called)(
        bench_host_t *host); /* at the end of each callback of an engine; NULL: nothing */
    bench_message_t *messages;
    uint32_t message_count, messages_max;
    bench_op_t *ops;
    uint32_t op_count;
};

/* Not assert(): it must hold in every build, and ends the process so that fuzzers see it. */
#define BENCH_REQUIRE(condition)                                                                   \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            bench_broken(__FILE__, __LINE__, #condition);                                          \
        }                                                                                          \
    } while (0)

void bench_broken(const char *file, int line, const char *what) __attribute__((noreturn));

/* ---- bench.c ---- */

/* All hosts with their defaults, none started; room for so many messages. */
void bench_init(bench_t *bench, uint32_t messages_max);
/* All datagrams are protected like that. False: not possible here. Before hosts are started. */
bool bench_protection(bench_t *bench, btl_ib_protection_kind_t kind);
/* Stop what runs, and demand that every engine gave all its memory back. */
void bench_fini(bench_t *bench);

/* Give host `i` an engine, with a secret of its own for each life. */
void bench_start(bench_t *bench, uint32_t i);
/* The process ends without a word. */
void bench_stop(bench_t *bench, uint32_t i);

/* What host `i` publishes of `rail`. */
btl_ib_peer_info_t bench_info(bench_t *bench, uint32_t i, uint32_t rail);
/* The connection of host `i` with `peer` (rail 0 of both), or NULL. */
btl_ib_conn_t *bench_conn(bench_t *bench, uint32_t i, uint32_t peer);
/* The same; made, or adopted, if need be. NULL: there is no memory for it. */
btl_ib_conn_t *bench_connect(bench_t *bench, uint32_t i, uint32_t peer);

/* What host `i`, which runs, has counted. */
static inline const btl_ib_counters_t *bench_counters(const bench_t *bench, uint32_t i)
{
    return btl_ib_engine_counters(bench->hosts[i].engine);
}

/* Send a message. It may be looked up by the number that comes back; UINT32_MAX: refused. */
uint32_t bench_send(bench_t *bench, uint32_t from, uint32_t to, uint32_t size, uint8_t tag);

/* One progress call. */
void bench_turn(bench_t *bench, uint32_t i);
/* Hand over what is on the wire, and what comes of it, until nothing moves. */
void bench_flow(bench_t *bench);
/* The same for `us` of time. */
void bench_run(bench_t *bench, uint64_t us);
/* Until every message was delivered and is done, at most `us`. */
bool bench_settle(bench_t *bench, uint64_t us);

/* ---- ops.c ---- */

/* Register a host's memory; bench_start() does it. */
void bench_register(bench_host_t *host);
/* Start an operation of `size` bytes (at most 16 KiB) where it is in no other's way. Its number, or
 * UINT32_MAX. */
uint32_t bench_op(bench_t *bench, uint32_t from, uint32_t to, btl_ib_op_kind_t kind, uint32_t size);
/* The engine is done with it. */
void bench_op_over(bench_op_t *op, int status);
/* Everybody's memory is as those operations leave it that were done. */
void bench_check_ops(bench_t *bench);

/* ---- net.c ---- */

/* Make the transport of one rail of a host, which begins anew. */
void bench_open_rail(bench_host_t *host, uint32_t index);

bench_datagram_t *bench_pop(bench_queue_t *queue);
void bench_push(bench_queue_t *queue, bench_datagram_t *datagram);
bench_datagram_t *bench_copy(const bench_datagram_t *datagram);
void bench_clear(bench_queue_t *queue);
/* Hand over this one. */
void bench_deliver(bench_t *bench, bench_datagram_t *datagram);
/* Hand a datagram to host `to`'s rail 0 as if it came from address `source`, and let it look. */
void bench_throw(bench_t *bench, uint32_t to, uint32_t source, const void *data, uint32_t size);

/* ---- state.c: the only file that sees what is private in an engine ---- */

/* A channel of a connection, as its host has it. Sequences but where it says else. */
typedef struct bench_channel {
    uint32_t first, next; /* sent: the oldest not acknowledged, and the next new one */
    uint32_t limit;       /* the first that the peer gave no credit for */
    uint32_t in_flight;   /* segments */
    uint32_t expected;    /* received: the first that is missing */
    uint32_t granted;     /* the first that the peer has no credit for */
    uint32_t grant, used; /* credits that the peer holds, and those of them that were used */
    uint64_t pool_granted, pool_depth; /* what all peers' credits take, and what there is */
} bench_channel_t;

/* A connection, as its host has it. */
typedef struct bench_peer {
    uint32_t id;                 /* that its peer names in datagrams */
    uint64_t token;              /* that is expected in them */
    uint32_t epoch, peer_epoch;  /* of its incarnation: of ours, of the peer's */
    uint32_t rail;               /* of ours that it goes by */
    uint32_t in_flight, unacked; /* segments; the latter with all that have to be sent again */
    uint32_t deferred;           /* of these, the ones that the peer refused */
    uint32_t refused;            /* runs of segments that we refused */
    uint32_t fragment;           /* number of the oldest message in chunks that is not finished */
    uint32_t replies;            /* that we owe for one-sided operations... */
    uint32_t datagram_max;       /* bytes on its path */
    uint32_t gso_segments;       /* datagrams that are joined for one call, at most */
    uint32_t srtt;               /* us */
    uint32_t reo_wnd_mult;       /* of the reordering window */
    uint32_t poll_gap;           /* us that the newest datagram may have waited here */
    bool answers;                /* ...and there is room for replies */
    bool no_tag;                 /* the peer lately had no receiver for a tag */
    bool disconnected;           /* the transport said that it is broken */
    bool doubted;                /* its route was refused, and nothing has answered there since */
    bool shrunk;                 /* it was idle, and gave memory back */
} bench_peer_t;

/* Zeros for a channel that is not. */
bench_channel_t bench_channel(bench_t *bench, uint32_t i, uint32_t peer, uint32_t channel);
bench_peer_t bench_peer(bench_t *bench, uint32_t i, uint32_t peer);
/* Bytes of the largest datagram on the path to that peer. */
uint32_t bench_datagram_max(bench_t *bench, uint32_t i, uint32_t peer);

/* Of all connections of a host: segments not acknowledged and their bytes, reassembly buffers that
 * they share, and the newest epoch. */
typedef struct bench_totals {
    uint32_t unacked;
    uint64_t bytes_unacked;
    uint32_t reassemblies;
    uint32_t epoch;
} bench_totals_t;

bench_totals_t bench_totals(const bench_host_t *host);

/* Are bytes of that region of the host on their way? */
bool bench_region_lent(const bench_host_t *host, const btl_ib_region_key_t *key);

/* Has the engine given that rail up? */
bool bench_rail_failed(const bench_host_t *host, uint32_t rail);

/* What would take long, or much luck, to come about by datagrams alone: a window of congestion
 * control, a smoothed and a shortest round trip (us), that it is time to search for a larger path
 * MTU, that days pass, and that hundreds of peers go. */
void bench_set_window(bench_t *bench, uint32_t i, uint32_t peer, uint32_t segments);
void bench_set_srtt(bench_t *bench, uint32_t i, uint32_t peer, uint32_t us);
void bench_search_mtu(bench_t *bench, uint32_t i, uint32_t peer);
void bench_search_mtu_beside(bench_t *bench, uint32_t i, uint32_t peer, uint32_t rail);
/* A host listens for so many us, and nothing happens. */
void bench_listen(bench_host_t *host, uint64_t us);
/* Connections with so many others end that it has no tombstone of anybody else. */
void bench_forget_ended(bench_host_t *host);
/* Count from now on how often congestion control of that connection, the only one so counted, takes
 * a loss back that was none. */
const uint32_t *bench_count_undo(bench_t *bench, uint32_t i, uint32_t peer);

/* Write down all that can be seen of an engine, a line for each connection and channel. Without
 * `clocks` what any datagram of the peer's changes is left out: when it was heard, its newest
 * stamp, the acknowledgement owed. */
void bench_state(const bench_host_t *host, bool clocks, char out[BENCH_STATE_BYTES]);

/* Every datagram that came was counted once, by what became of it; and what rails counted is what
 * the engine counted. */
void bench_check_counters(const bench_host_t *host);
/* Sums agree with their parts, windows are in order, credits within their queues. */
void bench_check_accounts(const bench_host_t *host);

/* ---- attack.c ---- */

/*
 * A datagram as an insider would make it, one who knows token, connection and sequences: for `to`,
 * from `from`. The fields may be changed afterwards; lengths are those of `size`.
 */
typedef struct bench_forgery {
    btl_ib_wire_header_t header;
    uint8_t body[2048];
    uint32_t size; /* header and body */
} bench_forgery_t;

bench_forgery_t bench_forge(bench_t *bench, uint32_t to, uint32_t from, btl_ib_type_t type);
/* Append to the body. */
void bench_append(bench_forgery_t *forgery, const void *data, uint32_t size);
/* Throw it at `to`, from where `from` is, with the checksum that `to` wants. Keys nobody has but
 * their owners: if one is wanted the trailer is wrong. */
void bench_throw_forgery(bench_t *bench, uint32_t to, uint32_t from,
                         const bench_forgery_t *forgery);

/* Host `i` takes in what that ACK of `peer`, which nobody checked, acknowledges. */
void bench_process_ack(bench_t *bench, uint32_t i, uint32_t peer, bench_forgery_t *forgery);

/* A sender that changed its own datagram has the checksum right, if there is one. */
void bench_reseal(const bench_t *bench, bench_datagram_t *datagram);

/* The state of an engine before something is thrown at it. */
typedef struct bench_watch {
    const bench_host_t *host;
    bool clocks;
    btl_ib_counters_t count;
    char state[BENCH_STATE_BYTES];
} bench_watch_t;

/* `clocks`: as for bench_state(); without them an answer is allowed as well. */
void bench_watch(const bench_host_t *host, bool clocks, bench_watch_t *watch);
/* Demand that nothing changed since then, but that `cause` was counted `times` more: the name of a
 * counter, or the beginning of several up to an underscore. */
void bench_unchanged(const bench_watch_t *watch, const char *cause, uint64_t times);

static inline uint32_t bench_address(uint32_t host, uint32_t rail)
{
    return host * BENCH_RAILS + rail;
}

#endif
