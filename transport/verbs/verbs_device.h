/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What UD and RC transports have in common. RDMA devices: the list of them, and the addresses
 * (GIDs) of their ports. An open port: its memory, asynchronous events, completion channel, send
 * rings and receive buffers. Diagnostics.
 */

#ifndef BTL_IB_VERBS_DEVICE_H
#define BTL_IB_VERBS_DEVICE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport.h"
#include "verbs_library.h"

/* ---- an open port ---- */

enum {
    BTL_IB_VERBS_LINE = 64, /* bytes of a cache line */
    BTL_IB_VERBS_MTU_MAX = IBV_MTU_4096,
    BTL_IB_VERBS_INLINE = 256, /* bytes that a request is to carry itself, by default */
};

/* Messages that found no receive buffer, as the port counts them, for all processes that use it.
 * (A receiver of RC answers such a message with an RNR NAK, one of UD drops it.) */
typedef struct btl_ib_verbs_out_of_buffer {
    bool known;        /* the port counts them */
    uint64_t received; /* by this port */
    uint64_t sent;     /* by this port */
} btl_ib_verbs_out_of_buffer_t;

/* The transports' own structures start with this. */
typedef struct btl_ib_verbs {
    btl_ib_transport_t base;
    btl_ib_log_t log;
    const char **refused;  /* gets the name of a call that fails: of who opens the transport, or
                            * NULL; once it is open &last_call */
    const char *last_call; /* a literal: the call that failed last; NULL: none */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_device_attr device;
    struct ibv_port_attr port_attr;
    uint8_t port;
    uint8_t mtu; /* enum ibv_mtu: the port's, or less if the user wants that */
    btl_ib_verbs_out_of_buffer_t out_of_buffer; /* when the port was opened */
} btl_ib_verbs_t;

#define BTL_IB_VERBS_LOG(verbs, level, ...)                                                        \
    do {                                                                                           \
        if ((verbs)->log.print != NULL) {                                                          \
            (verbs)->log.print((verbs)->log.context, (level), __VA_ARGS__);                        \
        }                                                                                          \
    } while (0)

static inline bool btl_ib_verbs_ethernet(const btl_ib_verbs_t *verbs)
{
    return verbs->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
}

static inline uint32_t btl_ib_verbs_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Returns the largest power of two that is not above x. */
static inline uint32_t btl_ib_verbs_power_below(uint32_t x)
{
    uint32_t power = 1;

    while (power <= x / 2) {
        power *= 2;
    }
    return power;
}

/* Returns the bytes of an enum ibv_mtu (IBV_MTU_256 is 1). */
static inline uint32_t btl_ib_verbs_mtu_bytes(uint8_t mtu)
{
    return 128u << mtu;
}

/* Returns the MTU to use (enum ibv_mtu): the port's `active` one, or a smaller one if the user
 * wants at most `wanted` bytes (0: any). No MTU is below 256 bytes. */
static inline uint8_t btl_ib_verbs_mtu(enum ibv_mtu active, uint32_t wanted)
{
    uint8_t mtu = (uint8_t) active;

    while (wanted != 0 && mtu > IBV_MTU_256 && btl_ib_verbs_mtu_bytes(mtu) > wanted) {
        mtu--;
    }
    return mtu;
}

/* Returns how many bytes of data a request is to carry itself, if the device can do that. */
static inline uint32_t btl_ib_verbs_inline_wanted(const btl_ib_open_params_t *params)
{
    return params->inline_max == 0  ? BTL_IB_VERBS_INLINE
           : params->inline_max > 0 ? (uint32_t) params->inline_max
                                    : 0;
}

/* ---- GIDs ---- */

enum {
    BTL_IB_VERBS_GIDS_MAX = 64, /* addresses of a port that are listed */
    BTL_IB_VERBS_GID_IPV4 = 12, /* offset of the IPv4 address in a mapped GID */
};

/* An address of a port. */
typedef struct btl_ib_verbs_gid {
    union ibv_gid gid;
    uint32_t index; /* in the port's table */
    uint32_t type;  /* enum ibv_gid_type */
    char interface[32];
    struct sockaddr_storage ip; /* the GID as an IP address */
    uint8_t prefix_bits;        /* of its subnet */
} btl_ib_verbs_gid_t;

/* True for an IPv4 address (::ffff:a.b.c.d). */
bool btl_ib_verbs_gid_is_v4(const union ibv_gid *gid);

/*
 * Lists the addresses of a port, the best first; on InfiniBand, where all lead to the same place,
 * only the best. With `index` >= 0 only the address with that index in the port's table is listed.
 * An index above 255 cannot be used and is left out. Returns how many, at most
 * BTL_IB_VERBS_GIDS_MAX, or a negative errno; then *refused (may be NULL) names the call that
 * failed. The caller frees *list in any case.
 */
int btl_ib_verbs_gids(struct ibv_context *context, uint8_t port, int index,
                      btl_ib_verbs_gid_t **list, const char **refused);

/* True if packets from `own` can get to `gid`, as far as addresses tell. */
bool btl_ib_verbs_gid_reaches(const btl_ib_verbs_gid_t *own, const union ibv_gid *gid);

/* Writes an address as text; `len` is at least INET6_ADDRSTRLEN. Returns `out`. */
const char *btl_ib_verbs_gid_format(const union ibv_gid *gid, char *out, size_t len);

/* ---- list of devices ---- */

/* The handle of a btl_ib_device_t of this transport: the port to open. */
typedef struct btl_ib_verbs_device {
    char name[64]; /* "mlx5_0", without the port */
    uint8_t port;
    btl_ib_verbs_gid_t gid; /* UD only */
    enum ibv_mtu mtu;       /* of the port */
    uint32_t max_qp_wr;     /* requests of a queue pair */
    uint32_t max_qp;        /* queue pairs; RC only */
    uint32_t max_srq_wr;    /* buffers of a shared receive queue, 0: none can be used; RC only */
    char firmware[64];
} btl_ib_verbs_device_t;

/* A list under construction. */
typedef struct btl_ib_verbs_list {
    btl_ib_device_t *device;
    int count;
} btl_ib_verbs_list_t;

/* Appends a port of a device. `gid` is the address that it is listed with, NULL: the caller fills
 * in interface and IP address. Returns NULL if memory is short. */
btl_ib_device_t *btl_ib_verbs_list_append(btl_ib_verbs_list_t *list, const char *provider,
                                          struct ibv_context *context, uint8_t port,
                                          const struct ibv_device_attr *device_attr,
                                          const struct ibv_port_attr *port_attr,
                                          const btl_ib_verbs_gid_t *gid);

/* Writes the name that users see: with the port if the device has several. */
void btl_ib_verbs_device_text(const char *name, unsigned ports, unsigned port, char *out,
                              size_t len);

/* Prepares to look for devices: loads libibverbs, and for RC (`cm`) librdmacm. Returns false if the
 * user asked for a provider of libfabric, or, after logging it, if there is no RDMA device or a
 * library is missing. libibverbs is not called without a device, as it warns on stderr if little
 * locked memory is allowed. */
bool btl_ib_verbs_prepare(const btl_ib_search_t *search, bool cm);

/* Turns down a device (""; all devices) because a call failed with that errno (0: the call did not
 * say why). */
void btl_ib_verbs_turn_down(const btl_ib_search_t *search, const char *name, const char *call,
                            int error);

/* devices_free() and facts() of btl_ib_transport_type_t. */
void btl_ib_verbs_devices_free(btl_ib_device_t *list, int count);
void btl_ib_verbs_facts(const btl_ib_device_t *device, struct btl_ib_facts *facts);

/* ---- memory ---- */

/*
 * Makes fork() safe, if the user wants it and the kernel needs it (before 5.12): children of fork()
 * get no registered pages. Otherwise the first process to write to such a page would get a copy of
 * it, while the device goes on with the original. So only whole pages may be registered, with
 * nothing else on them. To be called before any memory is registered.
 */
void btl_ib_verbs_prepare_fork(const btl_ib_search_t *search);

/* Returns the bytes of a page. */
static inline uint32_t btl_ib_verbs_page(void)
{
    return (uint32_t) sysconf(_SC_PAGESIZE);
}

/* mem_register() and mem_deregister() of btl_ib_transport_ops_t. The handle is a struct ibv_mr. */
int btl_ib_verbs_mem_register(btl_ib_transport_t *t, void *base, size_t size, void **handle);
void btl_ib_verbs_mem_deregister(btl_ib_transport_t *t, void *handle);

/* Maps whole pages for receive buffers, and registers them so that the device may write them;
 * `access` adds further IBV_ACCESS_ rights. btl_ib_verbs_slab_free() undoes both. Returns NULL,
 * with errno, after logging why. */
struct ibv_mr *btl_ib_verbs_slab_alloc(const btl_ib_verbs_t *verbs, size_t size, unsigned access);
void btl_ib_verbs_slab_free(struct ibv_mr *mr);

/* ---- diagnostics ---- */

/* Logs which call (a literal) failed, and why, and sets *verbs->refused. Sets errno to `error` (EIO
 * if that is 0), and returns it negated. */
int btl_ib_verbs_failed(const btl_ib_verbs_t *verbs, const char *call, int error);

/* Returns which call failed since btl_ib_verbs_forget_call(); if none did it was an allocation. */
static inline const char *btl_ib_verbs_failed_call(const btl_ib_verbs_t *verbs)
{
    return verbs->last_call != NULL ? verbs->last_call : "malloc";
}

/* Forgets which call failed, before a step of which the caller will ask that. */
static inline void btl_ib_verbs_forget_call(btl_ib_verbs_t *verbs)
{
    verbs->last_call = NULL;
}

/* Shows the help text of `what`. */
static inline void btl_ib_verbs_diag(const btl_ib_log_t *log, btl_ib_diagnostic_t what,
                                     const char *device, const char *detail)
{
    if (log->diagnostic != NULL) {
        log->diagnostic(log->context, what, device, detail);
    }
}

/* Shows the help text for a device whose file in /dev/infiniband ("uverbs0") could not be
 * opened. */
void btl_ib_verbs_diag_open(const btl_ib_log_t *log, const char *device, const char *file,
                            int error);

/* Tells the user if the MTU of a peer's port differs from ours. `theirs` is an enum ibv_mtu, 0 if
 * it published none; `peer` is its address as text. */
void btl_ib_verbs_check_mtu(const btl_ib_verbs_t *verbs, uint8_t theirs, const char *peer);

/* ---- opening ---- */

/* Sets what cannot fail to be set. The transport's name, for people, becomes "verbs/WIRE:NAME".
 * *params->refused may be written until btl_ib_verbs_opened(). */
void btl_ib_verbs_init(btl_ib_verbs_t *verbs, const btl_ib_transport_ops_t *ops,
                       const btl_ib_open_params_t *params, const char *wire, const char *name);

/* Queries the port, makes its events non-blocking, and allocates a protection domain. `mtu` is that
 * of the open parameters. Returns 0 or a negative errno after logging why; verbs->context is
 * `context` in either case. */
int btl_ib_verbs_open(btl_ib_verbs_t *verbs, struct ibv_context *context, uint8_t port,
                      uint32_t mtu);

/* Notes that the transport is open: a call that fails from now on is logged, and is last_call. */
void btl_ib_verbs_opened(btl_ib_verbs_t *verbs);

/* Frees the protection domain. Logs how many messages found no buffer since the port was opened. */
void btl_ib_verbs_close(btl_ib_verbs_t *verbs);

/* Makes a queue pair with those attributes. If the device does not take so much inline data, it is
 * asked for less; attr->cap says what it took. Returns NULL, with errno, if it refuses even without
 * any. */
struct ibv_qp *btl_ib_verbs_create_qp(const btl_ib_verbs_t *verbs, struct ibv_qp_init_attr *attr);

/* ---- asynchronous events ---- */

/*
 * The state of a port, as the device's asynchronous events tell it (ibv_get_async_event(3)). poll()
 * reports each change once, by an event of that type:
 *
 *      error == 0, down == 0      UP
 *      error == 0, down != 0      DOWN: the port may come back
 *      error != 0                 FAILED: for good
 */

typedef struct btl_ib_verbs_state {
    int error; /* errno; not 0: the device has failed for good */
    bool error_reported;
    int down; /* errno; not 0: the port, its address or partition is gone, and may come back */
    bool down_reported;
} btl_ib_verbs_state_t;

/* Notes that the device has failed with that errno. The first errno counts. */
static inline void btl_ib_verbs_state_fail(btl_ib_verbs_state_t *state, int error)
{
    state->error = state->error != 0 ? state->error : error;
}

/* Notes that the port cannot be used because of that errno, but may come back. The first errno
 * counts. */
static inline void btl_ib_verbs_state_down(btl_ib_verbs_state_t *state, int error)
{
    state->down = state->down != 0 ? state->down : error;
}

static inline void btl_ib_verbs_state_up(btl_ib_verbs_state_t *state)
{
    state->down = 0;
}

/* True if there is a change to report. */
static inline bool btl_ib_verbs_state_changed(const btl_ib_verbs_state_t *state)
{
    return state->error != 0 ? !state->error_reported : (state->down != 0) != state->down_reported;
}

/* Makes an event of the state, if `max` is not 0. Returns how many it made. */
int btl_ib_verbs_state_report(btl_ib_verbs_state_t *state, btl_ib_event_t *events, int max);

/* True if an event may be about our port: only port events name one. */
bool btl_ib_verbs_event_is_ours(const btl_ib_verbs_t *verbs, const struct ibv_async_event *event);

/* Logs an event. `error` is the errno that it means for this port, and selects the help text that
 * is shown; 0: the port goes on. */
void btl_ib_verbs_event_log(const btl_ib_verbs_t *verbs, const struct ibv_async_event *event,
                            int error);

/* Asks the device whether the port is active. */
static inline bool btl_ib_verbs_port_up(const btl_ib_verbs_t *verbs)
{
    struct ibv_port_attr attr;

    return ibv_query_port(verbs->context, verbs->port, &attr) == 0 && attr.state == IBV_PORT_ACTIVE;
}

/* ---- completion channel ---- */

/*
 * A completion channel, and one descriptor (of epoll) to sleep on, which becomes readable when the
 * channel does, or another descriptor of the transport.
 */

typedef struct btl_ib_verbs_comp {
    struct ibv_comp_channel *channel; /* of all completion queues */
    int fd;                           /* to sleep on */
} btl_ib_verbs_comp_t;

/* Makes a descriptor non-blocking. Returns 0 or a negative errno after logging why. */
int btl_ib_verbs_nonblocking(const btl_ib_verbs_t *verbs, int fd);

/* Makes the channel and the descriptor, which `other_fd` makes readable as well. Returns 0 or a
 * negative errno after logging why; close follows in either case. */
int btl_ib_verbs_comp_open(btl_ib_verbs_comp_t *comp, const btl_ib_verbs_t *verbs, int other_fd);
void btl_ib_verbs_comp_close(btl_ib_verbs_comp_t *comp);

/* Reads and acknowledges the events of the channel, so that it becomes readable again. Returns
 * whether any was there. */
bool btl_ib_verbs_comp_read(const btl_ib_verbs_comp_t *comp);

/* ---- send ring ---- */

/* True if the errno of a post says that the send queue has no room. If the ring has room, the
 * device itself is short of some resource: for now, or, for a long request, for good. */
static inline bool btl_ib_verbs_is_shortage(int error)
{
    return error == ENOMEM || error == EAGAIN;
}

/*
 * A ring of the work requests of a send queue, in the order of posting. Requests are numbered; the
 * numbers only grow (modulo 2^32):
 *
 *      reported <= completed <= posted <= reported + depth
 *
 *      posted       grows when a request is posted
 *      completed    grows by a completion, which ends all requests before it as well; so few
 *                   requests need to ask for one (selective signaling)
 *      reported     grows when the event of a request is made; requests without one are skipped
 */

typedef struct btl_ib_verbs_send_ring {
    void **context;     /* of each request, for its event; NULL: it makes none */
    uint32_t depth;     /* a power of two */
    uint32_t posted;    /* the number of the next request */
    uint32_t completed; /* requests with lower numbers are over */
    uint32_t reported;  /* requests with lower numbers have made their events */
} btl_ib_verbs_send_ring_t;

/* Makes a ring of `depth` places, a power of two. Returns false if memory is short. */
static inline bool btl_ib_verbs_send_ring_init(btl_ib_verbs_send_ring_t *ring, uint32_t depth)
{
    *ring = (btl_ib_verbs_send_ring_t){.depth = depth,
                                       .context = calloc(depth, sizeof(*ring->context))};
    return ring->context != NULL;
}

static inline void btl_ib_verbs_send_ring_free(btl_ib_verbs_send_ring_t *ring)
{
    free(ring->context);
}

/* Returns how many requests can be posted. */
static inline uint32_t btl_ib_verbs_send_ring_room(const btl_ib_verbs_send_ring_t *ring)
{
    return ring->depth - (ring->posted - ring->reported);
}

/* Notes that a request was posted. Its event will have `context`; NULL: it makes none. */
static inline void btl_ib_verbs_send_ring_post(btl_ib_verbs_send_ring_t *ring, void *context)
{
    ring->context[ring->posted++ & (ring->depth - 1)] = context;
}

/* Skips requests that make no event. Returns whether one that makes an event is next. */
static inline bool btl_ib_verbs_send_ring_skip(btl_ib_verbs_send_ring_t *ring)
{
    while (ring->reported != ring->completed
           && ring->context[ring->reported & (ring->depth - 1)] == NULL) {
        ring->reported++;
    }
    return ring->reported != ring->completed;
}

/* Notes that all requests before number `completed` are over. Returns whether there are events to
 * make. */
static inline bool btl_ib_verbs_send_ring_complete(btl_ib_verbs_send_ring_t *ring,
                                                   uint32_t completed)
{
    ring->completed = completed;
    return btl_ib_verbs_send_ring_skip(ring);
}

/* Returns the context of the next event to make, and counts it as made; NULL: there is none. */
static inline void *btl_ib_verbs_send_ring_next(btl_ib_verbs_send_ring_t *ring)
{
    if (!btl_ib_verbs_send_ring_skip(ring)) {
        return NULL;
    }
    return ring->context[ring->reported++ & (ring->depth - 1)];
}

/* Drops the events of all requests. */
static inline void btl_ib_verbs_send_ring_forget(btl_ib_verbs_send_ring_t *ring)
{
    for (uint32_t i = ring->reported; i != ring->posted; i++) {
        ring->context[i & (ring->depth - 1)] = NULL;
    }
    (void) btl_ib_verbs_send_ring_skip(ring);
}

/* ---- receive buffers ---- */

/*
 * Receive buffers of a queue pair or a shared receive queue, each with its work request:
 *
 *      idle --post--> posted --taken--> with its user --put--> idle
 *
 * Idle buffers are collected until it is worth a call to post them.
 */

enum { BTL_IB_VERBS_SHORTAGE_MAX = 1000000 }; /* us for which a device may take no buffer at all */

typedef struct btl_ib_verbs_rx_pool {
    void *owner;         /* what the pool belongs to; the pool does not use it */
    struct ibv_qp *qp;   /* buffers are posted to this, if `srq` is NULL */
    struct ibv_srq *srq; /* else to this */
    uint32_t posted;
    uint32_t idle_count;
    struct ibv_recv_wr *idle;       /* a list */
    struct ibv_recv_wr **idle_last; /* where the next one is linked; post() ends the list */
} btl_ib_verbs_rx_pool_t;

typedef struct btl_ib_verbs_rx_buffer {
    struct ibv_recv_wr wr;
    struct ibv_sge sge;
    btl_ib_verbs_rx_pool_t *pool;
} btl_ib_verbs_rx_buffer_t;

static inline void btl_ib_verbs_rx_pool_init(btl_ib_verbs_rx_pool_t *pool, void *owner)
{
    *pool = (btl_ib_verbs_rx_pool_t){.owner = owner, .idle_last = &pool->idle};
}

/* Sets where buffers are posted to: `srq` unless it is NULL. */
static inline void btl_ib_verbs_rx_pool_attach(btl_ib_verbs_rx_pool_t *pool, struct ibv_qp *qp,
                                               struct ibv_srq *srq)
{
    pool->qp = qp;
    pool->srq = srq;
}

/* Adds an idle buffer: `size` bytes at `data`, registered with `key`. `id` is that of its work
 * request. */
void btl_ib_verbs_rx_pool_add(btl_ib_verbs_rx_pool_t *pool, btl_ib_verbs_rx_buffer_t *buffer,
                              uint64_t id, void *data, uint32_t size, uint32_t key);

/* Posts all idle buffers by one call. Returns 0 or an errno; buffers that were not taken stay
 * idle. */
int btl_ib_verbs_rx_pool_post(btl_ib_verbs_rx_pool_t *pool);

/* Notes that the device is done with a posted buffer, which it filled or not. */
static inline void btl_ib_verbs_rx_pool_taken(btl_ib_verbs_rx_pool_t *pool)
{
    pool->posted--;
}

/* Makes a buffer idle. */
static inline void btl_ib_verbs_rx_pool_put(btl_ib_verbs_rx_buffer_t *buffer)
{
    btl_ib_verbs_rx_pool_t *pool = buffer->pool;

    *pool->idle_last = &buffer->wr;
    pool->idle_last = &buffer->wr.next;
    pool->idle_count++;
}

static inline uint8_t *btl_ib_verbs_rx_data(const btl_ib_verbs_rx_buffer_t *buffer)
{
    return (uint8_t *) (uintptr_t) buffer->sge.addr;
}

#endif
