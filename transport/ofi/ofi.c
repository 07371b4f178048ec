/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "ofi": datagram endpoints of libfabric (fi_endpoint(3), fi_cq(3), fi_av(3)). */

#include "transport.h"
#include "net_interfaces.h"
#include "ofi_devices.h"
#include "ofi_library.h"
#include "ofi_peers.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BATCH = 16,
    TX_DEPTH = 256,
    CQ_SPARE = 16,
    RESERVE_PART = 4, /* at most a quarter of an endpoint's buffers is its reserve */
    LARGEST = 65536,  /* bytes of the largest datagram, and so of a buffer */
    ALIGN = 64,
};

typedef struct ofi_endpoint ofi_endpoint_t;

/* A send or receive. libfabric hands it back with its completion. `context` comes first, as a
 * provider may use that memory itself (FI_CONTEXT, FI_CONTEXT2). */
typedef struct ofi_op {
    struct fi_context2 context;
    bool is_recv;
    ofi_endpoint_t *endpoint;
    union {
        uint8_t *data; /* of a receive: its datagram */
        void *caller;  /* of a send: the caller's context */
    };
    struct ofi_op *next; /* in a list of free sends, or of receives that wait to be posted */
} ofi_op_t;

/* The endpoint of a channel, or of all. */
struct ofi_endpoint {
    struct fid_ep *ep;
    struct fid_mr *rx_mr;
    size_t rx_size; /* bytes of the largest datagram that a receive buffer holds */
    uint32_t rx_depth, tx_depth;
    uint32_t rx_reserve; /* part of rx_depth for what needs no credit; 0 if all queues share it */
    uint32_t rx_posted;
    uint32_t rx_watermark; /* waiting buffers are posted if at most this many are posted */
    uint8_t *rx_memory;
    ofi_op_t *rx_ops;
    ofi_op_t *rx_waiting;
    ofi_op_t *tx_ops;
    ofi_op_t *tx_free;
    uint32_t tx_out; /* tx_ops that the provider has */
};

typedef struct ofi {
    btl_ib_transport_t base;
    btl_ib_log_t log;
    const char **refused; /* that of btl_ib_open_params_t, while it is being opened; else NULL */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    btl_ib_ofi_peers_t peers;
    ofi_endpoint_t endpoint[BTL_IB_OFI_ENDPOINTS_MAX]; /* by channel */
    uint32_t count;                                    /* of endpoints */
    struct fid_cq *cq[BTL_IB_OFI_ENDPOINTS_MAX];       /* by endpoint, or one for all */
    uint32_t cq_count;
    uint32_t cq_first;   /* index of the queue to read first: where the last poll() had to stop */
    uint32_t cq_entries; /* of each queue; 0: as many operations as can be under way */
    size_t tx_prefix;    /* bytes that the provider wants before each datagram sent */
    size_t rx_prefix;    /* bytes that the provider wants before each datagram received */
    uint64_t rx_dropped;
    uint64_t next_key; /* of registrations: some providers want them to differ */
    int tx_error;      /* the last error that was logged */
    bool rx_busy;      /* the last poll() found something */
} ofi_t;

static ofi_t *ofi_of(btl_ib_transport_t *t)
{
    return (ofi_t *) t;
}

/* Logs a call that failed; during an open, also tells its caller. Returns a negative errno:
 * libfabric's codes up to 255 are errnos, others become -EIO. */
static int ofi_failed(const ofi_t *ofi, const char *call, int rc)
{
    if (ofi->refused != NULL) {
        *ofi->refused = call;
    }
    if (ofi->log.print != NULL) {
        ofi->log.print(ofi->log.context, 1, "%s: %s: %s", ofi->base.name, call, fi_strerror(-rc));
    }
    return -rc < 256 ? rc : -EIO;
}

/* Returns 0 for a call that succeeded; else as ofi_failed(). */
static int ofi_check(const ofi_t *ofi, const char *call, int rc)
{
    return rc == 0 ? 0 : ofi_failed(ofi, call, rc);
}

/* ---- sending ---- */

/* Returns our endpoint by which a datagram leaves. Datagrams to a peer with one endpoint leave by
 * the last one: the peer may be of a release that knows no other source of ours. */
static ofi_endpoint_t *ofi_source_endpoint(ofi_t *ofi, const btl_ib_ofi_peer_t *peer,
                                           uint32_t channel)
{
    return &ofi->endpoint[peer->count > 1 ? btl_ib_ofi_endpoint_of(channel, ofi->count)
                                          : ofi->count - 1];
}

/* Sends a datagram. Returns libfabric's errno, 0 if it is on its way. */
static int ofi_send_one(ofi_t *ofi, const btl_ib_tx_t *tx)
{
    const btl_ib_ofi_peer_t *peer = &ofi->peers.peer[tx->to];
    const fi_addr_t to = peer->to[btl_ib_ofi_endpoint_of(tx->channel, peer->count)];
    ofi_endpoint_t *endpoint = ofi_source_endpoint(ofi, peer, tx->channel);
    uint8_t *data = (uint8_t *) tx->iov[0].iov_base - ofi->tx_prefix;
    size_t size = tx->size + ofi->tx_prefix;
    ssize_t rc;

    if (tx->size > ofi->base.attr.max_datagram) {
        return EMSGSIZE;
    }
    if (tx->size <= ofi->base.attr.inline_size) {
        rc = fi_inject(endpoint->ep, data, size, to);
        return (int) -rc;
    }
    ofi_op_t *op = endpoint->tx_free;
    if (op == NULL) {
        return EAGAIN;
    }
    op->caller = tx->context;
    rc = fi_send(endpoint->ep, data, size, tx->mem != NULL ? fi_mr_desc(tx->mem) : NULL, to,
                 &op->context);
    if (rc == 0) {
        endpoint->tx_free = op->next;
        endpoint->tx_out++;
    }
    return (int) -rc;
}

/* Logs the error of a send, except full queues, which are normal, and an error that repeats. */
static void ofi_log_send_error(ofi_t *ofi, const char *call, int error)
{
    if (error == EAGAIN || error == ENOBUFS || error == ofi->tx_error || ofi->log.print == NULL) {
        return;
    }
    ofi->tx_error = error;
    ofi->log.print(ofi->log.context, 10, "%s: a send failed: %s: %s", ofi->base.name, call,
                   fi_strerror(error));
}

static int ofi_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    ofi_t *ofi = ofi_of(t);

    for (int i = 0; i < n; i++) {
        int rc = ofi_send_one(ofi, &batch[i]);
        if (rc != 0) {
            const ofi_endpoint_t *endpoint =
                ofi_source_endpoint(ofi, &ofi->peers.peer[batch[i].to], batch[i].channel);
            ofi_log_send_error(ofi, batch[i].size <= t->attr.inline_size ? "fi_inject" : "fi_send",
                               rc);
            /* If no send is under way the queue is not full: the provider may never take this
             * one. */
            const bool refused = (rc == EAGAIN || rc == ENOMEM) && endpoint->tx_out == 0;
            *error = refused ? ENOBUFS : rc < 256 ? rc : EIO;
            return i;
        }
    }
    return n;
}

/* ---- receiving ---- */

/* Returns the bytes of a posted buffer: one more than the largest datagram, as the udp provider
 * cuts longer ones without reporting it. */
static size_t rx_posted_size(const ofi_t *ofi, const ofi_endpoint_t *endpoint)
{
    return ofi->rx_prefix + endpoint->rx_size + 1;
}

static int ofi_post(const ofi_t *ofi, ofi_op_t *op, uint64_t flags)
{
    const ofi_endpoint_t *endpoint = op->endpoint;
    struct iovec iov = {
        .iov_base = op->data - ofi->rx_prefix,
        .iov_len = rx_posted_size(ofi, endpoint),
    };
    void *desc = endpoint->rx_mr != NULL ? fi_mr_desc(endpoint->rx_mr) : NULL;
    struct fi_msg msg = {
        .msg_iov = &iov,
        .desc = &desc,
        .iov_count = 1,
        .addr = FI_ADDR_UNSPEC,
        .context = &op->context,
    };
    return (int) fi_recvmsg(endpoint->ep, &msg, flags);
}

/* Posts the waiting buffers of an endpoint. Returns 0; or libfabric's error, and the rest waits for
 * the next call. */
static int endpoint_post_waiting(const ofi_t *ofi, ofi_endpoint_t *endpoint)
{
    int rc = 0;

    while (endpoint->rx_waiting != NULL) {
        ofi_op_t *op = endpoint->rx_waiting;
        rc = ofi_post(ofi, op, op->next != NULL ? FI_MORE : 0);
        if (rc != 0) {
            break;
        }
        endpoint->rx_waiting = op->next;
        endpoint->rx_posted++;
    }
    return rc;
}

/* Posts the waiting buffers of endpoints at or below their watermark. Returns 0 or an error of
 * libfabric. */
static int ofi_post_waiting(ofi_t *ofi)
{
    int rc = 0;

    for (uint32_t i = 0; i < ofi->count; i++) {
        ofi_endpoint_t *endpoint = &ofi->endpoint[i];
        if (endpoint->rx_waiting != NULL && endpoint->rx_posted <= endpoint->rx_watermark) {
            const int error = endpoint_post_waiting(ofi, endpoint);
            rc = error != 0 ? error : rc;
        }
    }
    return rc;
}

static void ofi_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    ofi_t *ofi = ofi_of(t);

    for (int i = 0; i < n; i++) {
        ofi_op_t *op = buffers[i];
        op->next = op->endpoint->rx_waiting;
        op->endpoint->rx_waiting = op;
    }
    const int rc = ofi_post_waiting(ofi);
    if (rc != 0 && rc != -FI_EAGAIN) {
        ofi_failed(ofi, "fi_recvmsg", rc);
    }
}

static void ofi_drop(ofi_t *ofi, ofi_op_t *op, const char *why)
{
    void *buffer = op;

    ofi->rx_dropped++;
    if (ofi->log.print != NULL) {
        ofi->log.print(ofi->log.context, 10, "%s: datagram dropped: %s (%llu so far)",
                       ofi->base.name, why, (unsigned long long) ofi->rx_dropped);
    }
    ofi_repost(&ofi->base, &buffer, 1);
}

static void ofi_sent(ofi_op_t *op, btl_ib_event_t *event)
{
    ofi_endpoint_t *endpoint = op->endpoint;

    event->type = BTL_IB_EVENT_SENT;
    event->context = op->caller;
    op->next = endpoint->tx_free;
    endpoint->tx_free = op;
    endpoint->tx_out--;
}

/* Handles a completion with an error: of a datagram, which is lost, though its buffer is not; or of
 * the device. A completion without a context is that of fi_inject(), as all other operations have
 * one. (Flags would not tell, as usnic leaves them out.) Returns how many events it makes. */
static int ofi_read_error(ofi_t *ofi, struct fid_cq *cq, btl_ib_event_t *event)
{
    struct fi_cq_err_entry entry = {0};

    if (fi_cq_readerr(cq, &entry, 0) != 1) {
        return 0;
    }
    ofi_op_t *op = entry.op_context;
    if (op != NULL && op->is_recv) {
        op->endpoint->rx_posted--;
    }
    if (op != NULL && op->is_recv
        && (entry.err == FI_ETRUNC || entry.err == FI_EMSGSIZE || entry.err == FI_ECRC
            || entry.err == FI_EADDRNOTAVAIL)) {
        ofi_drop(ofi, op, fi_strerror(entry.err));
        return 0;
    }
    if (op == NULL || !op->is_recv) {
        ofi_log_send_error(ofi, "fi_cq_readerr", entry.err);
        if (op != NULL) {
            ofi_sent(op, event);
        }
        return op != NULL;
    }
    ofi_failed(ofi, "fi_cq_readerr", -entry.err);
    event->type = BTL_IB_EVENT_FAILED;
    event->error = entry.err < 256 ? entry.err : EIO;
    return 1;
}

/* Makes an event of a completion. Returns 1, or 0 if a datagram was dropped. */
static int ofi_take(ofi_t *ofi, const struct fi_cq_msg_entry *entry, fi_addr_t from,
                    btl_ib_event_t *event)
{
    ofi_op_t *op = entry->op_context;

    if (!op->is_recv) {
        ofi_sent(op, event);
        return 1;
    }
    op->endpoint->rx_posted--;
    if (entry->len > ofi->rx_prefix + op->endpoint->rx_size) {
        ofi_drop(ofi, op, "too long");
        return 0;
    }
    event->type = BTL_IB_EVENT_RECV;
    event->data = op->data;
    event->size = entry->len > ofi->rx_prefix ? (uint32_t) (entry->len - ofi->rx_prefix) : 0;
    event->from = btl_ib_ofi_peers_source(&ofi->peers, from);
    event->buffer = op;
    return 1;
}

/* Reads a completion queue once. Returns how many events that made; *more: the queue may have
 * more. */
static int ofi_read(ofi_t *ofi, struct fid_cq *cq, btl_ib_event_t *events, int max, bool *more)
{
    struct fi_cq_msg_entry entries[BATCH];
    fi_addr_t from[BATCH];
    size_t want = max < BATCH ? (size_t) max : BATCH;
    bool knows = ofi->base.attr.knows_source;
    int count = 0;
    ssize_t n = knows ? fi_cq_readfrom(cq, entries, want, from) : fi_cq_read(cq, entries, want);

    *more = n > 0 || n == -FI_EAVAIL;
    if (n == -FI_EAGAIN) {
        return 0;
    }
    if (n == -FI_EAVAIL) {
        return ofi_read_error(ofi, cq, events);
    }
    if (n < 0) {
        ofi_failed(ofi, "fi_cq_read", (int) n);
        events[0].type = BTL_IB_EVENT_FAILED;
        events[0].error = -n < 256 ? (int) -n : EIO;
        return 1;
    }
    for (ssize_t i = 0; i < n; i++) {
        count += ofi_take(ofi, &entries[i], knows ? from[i] : FI_ADDR_NOTAVAIL, &events[count]);
    }
    return count;
}

/*
 * Polls the endpoints. A provider may return one completion for each call (udp: one system call,
 * one datagram), so a batch takes several calls. But the first datagram after a silence is handed
 * up at once, as a process that waits for an answer gains nothing by another call. Completion
 * queues are read in the order of channels, that of commands first; after a full batch the next
 * poll() begins where this one ended.
 */
static int ofi_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    ofi_t *ofi = ofi_of(t);
    const uint32_t first = ofi->cq_first;
    int count = 0;

    (void) now;
    (void) ofi_post_waiting(ofi);
    ofi->cq_first = 0;
    for (uint32_t i = 0; i < ofi->cq_count && (count == 0 || ofi->rx_busy); i++) {
        const uint32_t queue = (first + i) % ofi->cq_count;
        bool more = true;
        if (count == max) {
            ofi->cq_first = queue;
            break;
        }
        for (int reads = 0; more && count < max && reads < max; reads++) {
            count += ofi_read(ofi, ofi->cq[queue], events + count, max - count, &more);
            more = more && ofi->rx_busy;
        }
    }
    ofi->rx_busy = count > 0;
    return count;
}

/* ---- addresses and memory ---- */

static int ofi_addr_add(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr)
{
    ofi_t *ofi = ofi_of(t);
    btl_ib_ofi_address_t address;
    int refused;

    /* Peers' addresses are of the same format and length as ours; anything else is no address. */
    int rc = btl_ib_ofi_address_unpack(bytes, len, t->address, t->address_base, &address);
    if (rc != 0) {
        return rc;
    }
    rc = btl_ib_ofi_peers_add(&ofi->peers, &address, addr, &refused);
    return refused != 0 ? ofi_failed(ofi, "fi_av_insert", refused) : rc;
}

/* address_text() of btl_ib_transport_ops_t. Formats other than IP only the provider understands. */
static bool ofi_address_text(const void *bytes, size_t len, char *out, size_t out_len)
{
    const uint8_t *head = bytes;
    const uint8_t format = len >= BTL_IB_OFI_ADDRESS_HEAD ? head[1] : 0;
    const size_t size = format == FI_SOCKADDR_IN    ? sizeof(struct sockaddr_in)
                        : format == FI_SOCKADDR_IN6 ? sizeof(struct sockaddr_in6)
                                                    : 0;
    btl_ib_ofi_address_t address;

    if (size == 0
        || btl_ib_ofi_address_unpack(bytes, len, bytes, BTL_IB_OFI_ADDRESS_HEAD + (uint32_t) size,
                                     &address)
               != 0) {
        return false;
    }
    (void) btl_ib_ip_port_text((const struct sockaddr *) (void *) address.name[address.count - 1],
                               out, out_len);
    return true;
}

static void ofi_addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    btl_ib_ofi_peers_remove(&ofi_of(t)->peers, addr);
}

static int ofi_mem_register(btl_ib_transport_t *t, void *base, size_t size, void **handle)
{
    ofi_t *ofi = ofi_of(t);
    struct fid_mr *mr;

    *handle = NULL;
    if (ofi->base.attr.registered_page == 0) {
        return 0;
    }
    int rc = fi_mr_reg(ofi->domain, base, size, FI_SEND, 0, ofi->next_key++, 0, &mr, NULL);
    if (rc != 0) {
        return ofi_failed(ofi, "fi_mr_reg", rc);
    }
    *handle = mr;
    return 0;
}

static void ofi_mem_deregister(btl_ib_transport_t *t, void *handle)
{
    (void) t;
    if (handle != NULL) {
        fi_close(&((struct fid_mr *) handle)->fid);
    }
}

/* Returns how many buffers of an endpoint credits may promise: those up to the watermark, as others
 * may be waiting to be posted, less the reserve. */
static uint32_t rx_promised(const ofi_endpoint_t *endpoint)
{
    return endpoint->rx_watermark - endpoint->rx_reserve;
}

/* rx_depth() of btl_ib_transport_ops_t. */
static uint32_t ofi_rx_depth(const btl_ib_transport_t *t, uint32_t size)
{
    const ofi_t *ofi = (const ofi_t *) t;
    uint32_t i = 0;

    while (i + 1 < ofi->count && ofi->endpoint[i].rx_size < size) {
        i++;
    }
    return rx_promised(&ofi->endpoint[i]);
}

static int ofi_wait_fd(btl_ib_transport_t *t)
{
    (void) t;
    return -1; /* a completion queue with a descriptor costs a system call for each datagram */
}

/* ---- opening and closing ---- */

static void close_fid(void *object)
{
    struct fid *fid = object;
    if (fid != NULL) {
        (void) fi_close(fid);
    }
}

static void ofi_stop(btl_ib_transport_t *t)
{
    ofi_t *ofi = ofi_of(t);

    for (uint32_t i = 0; i < BTL_IB_OFI_ENDPOINTS_MAX; i++) {
        close_fid(ofi->endpoint[i].ep);
        ofi->endpoint[i].ep = NULL;
    }
}

/* Closes what ofi_open_channels() opened. */
static void ofi_close_channels(ofi_t *ofi)
{
    ofi_stop(&ofi->base);
    for (uint32_t i = 0; i < BTL_IB_OFI_ENDPOINTS_MAX; i++) {
        ofi_endpoint_t *endpoint = &ofi->endpoint[i];
        close_fid(endpoint->rx_mr);
        free(endpoint->rx_memory);
        free(endpoint->rx_ops);
        free(endpoint->tx_ops);
        *endpoint = (ofi_endpoint_t){.ep = NULL};
        close_fid(ofi->cq[i]);
        ofi->cq[i] = NULL;
    }
}

static void ofi_close(btl_ib_transport_t *t)
{
    ofi_t *ofi = ofi_of(t);

    ofi_close_channels(ofi);
    close_fid(ofi->peers.av);
    close_fid(ofi->domain);
    close_fid(ofi->fabric);
    fi_freeinfo(ofi->info);
    btl_ib_ofi_peers_free(&ofi->peers);
    free(ofi);
}

static const btl_ib_transport_ops_t ofi_ops = {
    .send = ofi_send,
    .poll = ofi_poll,
    .repost = ofi_repost,
    .addr_add = ofi_addr_add,
    .addr_remove = ofi_addr_remove,
    .address_text = ofi_address_text,
    .mem_register = ofi_mem_register,
    .mem_deregister = ofi_mem_deregister,
    .rx_depth = ofi_rx_depth,
    .wait_fd = ofi_wait_fd,
    .stop = ofi_stop,
    .close = ofi_close,
};

/* Returns the bytes that the provider wants before each datagram of one direction, whose mode is
 * `mode`: verbs wants them before received ones only. */
static size_t info_prefix(const struct fi_info *info, uint64_t mode)
{
    return mode & FI_MSG_PREFIX ? info->ep_attr->msg_prefix_size : 0;
}

static int info_query(const struct fi_info *info, uint32_t mtu, btl_ib_transport_attr_t *attr)
{
    size_t prefix = info_prefix(info, info->tx_attr->mode);
    size_t counted = info->ep_attr->msg_prefix_size; /* some providers count it in max_msg_size */

    if (info->ep_attr->max_msg_size <= counted) {
        return -EINVAL;
    }
    size_t largest = info->ep_attr->max_msg_size - counted;
    size_t most = mtu != 0 && mtu < LARGEST ? mtu : LARGEST;
    bool local = info->domain_attr->mr_mode & FI_MR_LOCAL;
    size_t inject = info->tx_attr->inject_size;
    *attr = (btl_ib_transport_attr_t){
        .max_datagram = (uint32_t) (largest < most ? largest : most),
        .inline_size = inject > prefix ? (uint32_t) (inject - prefix) : 0,
        .max_iov = 1, /* fi_inject() of one piece is the cheapest way out; gathering needs more */
        .max_batch = BATCH,
        .tx_depth = (uint32_t) info->tx_attr->size,
        .rx_depth = (uint32_t) info->rx_attr->size,
        .headroom = (uint32_t) prefix,
        .registered_page = local ? (uint32_t) sysconf(_SC_PAGESIZE) : 0,
        .knows_source = info->caps & FI_SOURCE,
    };
    return 0;
}

static int ofi_query(const btl_ib_device_t *device, uint32_t mtu, btl_ib_transport_attr_t *attr)
{
    int rc = info_query(device->handle, mtu, attr);
    attr->bandwidth = rc == 0 ? device->bandwidth : 0;
    return rc;
}

/* ---- channels ---- */

static uint32_t at_most(uint32_t wanted, uint32_t most)
{
    return wanted != 0 && wanted < most ? wanted : most;
}

/* Returns the entries that completion queue `queue` needs: as many as operations of its endpoints
 * can be under way. */
static uint64_t cq_needs(const ofi_t *ofi, uint32_t queue)
{
    uint64_t sum = CQ_SPARE;

    for (uint32_t i = 0; i < ofi->count; i++) {
        if (ofi->cq_count == 1 || i == queue) {
            sum += ofi->endpoint[i].rx_depth + ofi->endpoint[i].tx_depth;
        }
    }
    return sum;
}

/* Lowers the depths of a completion queue's endpoints, in proportion, if the queue was asked to be
 * smaller than they need. */
static void cq_fit(ofi_t *ofi, uint32_t queue)
{
    const uint64_t needs = cq_needs(ofi, queue) - CQ_SPARE;
    const uint64_t has = ofi->cq_entries;

    for (uint32_t i = 0; i < ofi->count && has != 0 && has < needs; i++) {
        ofi_endpoint_t *endpoint = &ofi->endpoint[i];
        if (ofi->cq_count == 1 || i == queue) {
            endpoint->rx_depth = (uint32_t) (endpoint->rx_depth * has / needs) + 1;
            endpoint->tx_depth = (uint32_t) (endpoint->tx_depth * has / needs) + 1;
        }
    }
}

/* True if each receive queue has an endpoint, and so buffers, of its own. */
static bool queues_apart(const ofi_t *ofi, const btl_ib_open_params_t *params)
{
    return ofi->count > 1 && ofi->count == params->queue_count;
}

/* Sets the reserve of each endpoint, which credits may not promise, if queues are apart. (Where
 * they share buffers the engine keeps the reserve.) */
static void reserve_plan(ofi_t *ofi, const btl_ib_open_params_t *params)
{
    for (uint32_t i = 0; i < ofi->count && queues_apart(ofi, params); i++) {
        ofi_endpoint_t *endpoint = &ofi->endpoint[i];
        const uint32_t most = endpoint->rx_depth / RESERVE_PART;
        const uint32_t wanted = params->queue[i].reserve;
        endpoint->rx_reserve = wanted < most ? wanted : most;
    }
}

/* Sets the watermark of an endpoint: `waiting` of `all` planned buffers may wait to be posted
 * again; if the endpoint has fewer buffers, fewer in proportion. */
static void watermark_plan(ofi_endpoint_t *endpoint, uint32_t waiting, uint32_t all)
{
    const uint64_t part = all > 0 ? (uint64_t) waiting * endpoint->rx_depth / all : 0;

    endpoint->rx_watermark = part < endpoint->rx_depth ? endpoint->rx_depth - (uint32_t) part : 1;
}

/* Chooses how many endpoints there are, and their sizes. A device of the kernel's network stack has
 * one unless the user wants more, as each costs a system call for each poll. */
static void channels_plan(ofi_t *ofi, const btl_ib_open_params_t *params,
                          const btl_ib_transport_attr_t *attr, bool own)
{
    ofi->count = own ? at_most(params->queue_count, BTL_IB_OFI_ENDPOINTS_MAX) : 1;
    ofi->cq_count = params->cq_own ? ofi->count : 1;
    ofi->cq_entries = params->cq_num;
    memset(ofi->endpoint, 0, sizeof(ofi->endpoint));
    uint32_t waiting[BTL_IB_OFI_ENDPOINTS_MAX] = {0};
    uint32_t all[BTL_IB_OFI_ENDPOINTS_MAX];
    for (uint32_t i = 0; i == 0 || i < params->queue_count; i++) {
        const btl_ib_open_queue_t *queue = &params->queue[i];
        const uint32_t index = btl_ib_ofi_endpoint_of(i, ofi->count);
        ofi_endpoint_t *endpoint = &ofi->endpoint[index];
        const uint32_t sends = btl_ib_open_tx_depth(params, i, TX_DEPTH);
        endpoint->rx_size = at_most(queue->size, attr->max_datagram);
        endpoint->rx_depth += queue->num + queue->reserve;
        waiting[index] += queue->shared ? btl_ib_open_batch(queue) : 0;
        endpoint->tx_depth = sends > endpoint->tx_depth ? sends : endpoint->tx_depth;
    }
    if (ofi->count == 1) {
        ofi->endpoint[0].rx_size = at_most(params->rx_size, attr->max_datagram);
        ofi->endpoint[0].rx_depth = params->rx_depth;
    }
    for (uint32_t i = 0; i < ofi->count; i++) {
        ofi_endpoint_t *endpoint = &ofi->endpoint[i];
        all[i] = endpoint->rx_depth;
        endpoint->rx_depth = at_most(endpoint->rx_depth, attr->rx_depth);
        endpoint->tx_depth = at_most(endpoint->tx_depth, attr->tx_depth);
    }
    for (uint32_t i = 0; i < ofi->cq_count; i++) {
        cq_fit(ofi, i);
    }
    for (uint32_t i = 0; i < ofi->count; i++) {
        watermark_plan(&ofi->endpoint[i], waiting[i], all[i]);
    }
    reserve_plan(ofi, params);
}

/* Returns the bytes from one receive buffer to the next. */
static size_t rx_stride(const ofi_t *ofi, const ofi_endpoint_t *endpoint, size_t lead)
{
    return (lead - ofi->rx_prefix + rx_posted_size(ofi, endpoint) + ALIGN - 1) / ALIGN * ALIGN;
}

/* Opens libfabric's objects that all channels share, in the order in which they depend on each
 * other. */
static int ofi_open_shared(ofi_t *ofi)
{
    struct fi_av_attr av = {.type = ofi->info->domain_attr->av_type};

    int rc = ofi_check(ofi, "fi_fabric", fi_fabric(ofi->info->fabric_attr, &ofi->fabric, NULL));
    if (rc == 0) {
        rc = ofi_check(ofi, "fi_domain", fi_domain(ofi->fabric, ofi->info, &ofi->domain, NULL));
    }
    if (rc == 0) {
        rc = ofi_check(ofi, "fi_av_open", fi_av_open(ofi->domain, &av, &ofi->peers.av, NULL));
    }
    return rc;
}

static int cq_open(ofi_t *ofi, uint32_t queue)
{
    const uint64_t needs = cq_needs(ofi, queue);
    struct fi_cq_attr attr = {
        .size = ofi->cq_entries > needs ? ofi->cq_entries : needs,
        .format = FI_CQ_FORMAT_MSG,
        .wait_obj = FI_WAIT_NONE,
    };

    return ofi_check(ofi, "fi_cq_open", fi_cq_open(ofi->domain, &attr, &ofi->cq[queue], NULL));
}

static int endpoint_open(ofi_t *ofi, ofi_endpoint_t *endpoint, struct fid_cq *cq)
{
    int rc =
        ofi_check(ofi, "fi_endpoint", fi_endpoint(ofi->domain, ofi->info, &endpoint->ep, NULL));

    if (rc == 0) {
        rc = ofi_check(ofi, "fi_ep_bind", fi_ep_bind(endpoint->ep, &ofi->peers.av->fid, 0));
    }
    if (rc == 0) {
        rc =
            ofi_check(ofi, "fi_ep_bind", fi_ep_bind(endpoint->ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    }
    return rc != 0 ? rc : ofi_check(ofi, "fi_enable", fi_enable(endpoint->ep));
}

static int endpoint_make_buffers(ofi_t *ofi, ofi_endpoint_t *endpoint)
{
    const uint32_t tx_depth = endpoint->tx_depth;
    const uint32_t rx_depth = endpoint->rx_depth;
    size_t lead = (ofi->rx_prefix + 7) / 8 * 8; /* so that datagrams are aligned behind it */
    size_t stride = rx_stride(ofi, endpoint, lead);
    size_t unit = ofi->base.attr.registered_page > 0 ? ofi->base.attr.registered_page : ALIGN;
    size_t total = (stride * rx_depth + unit - 1) / unit * unit;
    int rc;

    endpoint->rx_memory = aligned_alloc(unit, total);
    endpoint->rx_ops = calloc(rx_depth, sizeof(*endpoint->rx_ops));
    endpoint->tx_ops = calloc(tx_depth, sizeof(*endpoint->tx_ops));
    if (endpoint->rx_memory == NULL || endpoint->rx_ops == NULL || endpoint->tx_ops == NULL) {
        return -ENOMEM;
    }
    if (ofi->base.attr.registered_page > 0
        && (rc = fi_mr_reg(ofi->domain, endpoint->rx_memory, total, FI_RECV, 0, ofi->next_key++, 0,
                           &endpoint->rx_mr, NULL))
               != 0) {
        return ofi_failed(ofi, "fi_mr_reg", rc);
    }
    for (uint32_t i = 0; i < tx_depth; i++) {
        endpoint->tx_ops[i].endpoint = endpoint;
        endpoint->tx_ops[i].next = endpoint->tx_free;
        endpoint->tx_free = &endpoint->tx_ops[i];
    }
    for (uint32_t i = 0; i < rx_depth; i++) {
        ofi_op_t *op = &endpoint->rx_ops[i];
        op->is_recv = true;
        op->endpoint = endpoint;
        op->data = endpoint->rx_memory + i * stride + lead;
        if ((rc = ofi_post(ofi, op, i + 1 < rx_depth ? FI_MORE : 0)) != 0) {
            return ofi_failed(ofi, "fi_recvmsg", rc);
        }
        endpoint->rx_posted++;
    }
    return 0;
}

/* Fills in the published address. Returns 0; or a negative errno, -EMSGSIZE if the addresses of the
 * endpoints differ too much to be published. */
static int ofi_publish(ofi_t *ofi)
{
    btl_ib_ofi_address_t address = {
        .format = (uint8_t) ofi->info->addr_format,
        .count = ofi->count,
    };

    for (uint32_t i = 0; i < ofi->count; i++) {
        size_t len = BTL_IB_OFI_NAME_MAX;
        const int rc = fi_getname(&ofi->endpoint[i].ep->fid, address.name[i], &len);
        if (rc != 0) {
            return ofi_failed(ofi, "fi_getname", rc);
        }
        address.size = (uint32_t) len;
    }
    ofi->base.address_len =
        btl_ib_ofi_address_pack(&address, ofi->base.address, &ofi->base.address_base);
    return ofi->base.address_len > 0 ? 0 : -EMSGSIZE;
}

/* Opens the endpoints, and posts their buffers. Returns 0; or a negative errno after closing what
 * was opened. */
static int ofi_open_channels(ofi_t *ofi, const btl_ib_open_params_t *params,
                             const btl_ib_transport_attr_t *attr, bool own)
{
    int rc = 0;

    channels_plan(ofi, params, attr, own);
    for (uint32_t i = 0; i < ofi->cq_count && rc == 0; i++) {
        rc = cq_open(ofi, i);
    }
    for (uint32_t i = 0; i < ofi->count && rc == 0; i++) {
        rc = endpoint_open(ofi, &ofi->endpoint[i], ofi->cq[i < ofi->cq_count ? i : 0]);
    }
    rc = rc != 0 ? rc : ofi_publish(ofi);
    ofi->base.attr.rx_depth = 0;
    ofi->base.attr.tx_depth = 0;
    ofi->base.attr.queue_buffers = queues_apart(ofi, params);
    ofi->base.attr.send_queues = queues_apart(ofi, params);
    for (uint32_t i = 0; i < ofi->count && rc == 0; i++) {
        rc = endpoint_make_buffers(ofi, &ofi->endpoint[i]);
        ofi->base.attr.rx_depth += rx_promised(&ofi->endpoint[i]);
        ofi->base.attr.tx_depth += ofi->endpoint[i].tx_depth;
    }
    if (rc != 0) {
        ofi_close_channels(ofi);
    }
    return rc;
}

static void ofi_memory_estimate(const btl_ib_open_params_t *open,
                                const btl_ib_transport_attr_t *attr, uint32_t peers,
                                btl_ib_memory_estimate_t *estimate)
{
    ofi_t ofi = {.rx_prefix = 0};

    channels_plan(&ofi, open, attr, open->channels == BTL_IB_CHANNELS_OWN);
    btl_ib_estimate_queues(estimate, ofi.count, ofi.cq_count);
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, sizeof(ofi), 0, "transport");
    for (uint32_t i = 0; i < ofi.count; i++) {
        const ofi_endpoint_t *endpoint = &ofi.endpoint[i];
        const uint64_t rx_depth = endpoint->rx_depth;
        btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS,
                            rx_depth * (rx_stride(&ofi, endpoint, 0) + sizeof(ofi_op_t)), 0,
                            "endpoint %u: %u buffers of %zu bytes", i + 1, (unsigned) rx_depth,
                            endpoint->rx_size);
        btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS,
                            endpoint->tx_depth * (uint64_t) sizeof(ofi_op_t), 0,
                            "endpoint %u: %u sends", i + 1, endpoint->tx_depth);
    }
    btl_ib_estimate_add(
        estimate, BTL_IB_ESTIMATE_PROCESS,
        btl_ib_addr_table_places(peers)
            * (sizeof(btl_ib_ofi_peer_t) + BTL_IB_OFI_ENDPOINTS_MAX * sizeof(uint32_t)),
        0, "addresses of peers");
}

/* Asks the provider for the device once more, now with the sources of datagrams (FI_SOURCE).
 * Returns the device as it is if the provider cannot tell sources; NULL if memory is short. */
static struct fi_info *info_choose(const struct fi_info *device)
{
    struct fi_info *hints = fi_dupinfo(device);
    struct fi_info *info = NULL;

    if (hints == NULL) {
        return NULL;
    }
    hints->caps = FI_MSG | FI_SOURCE;
    hints->tx_attr->caps = 0;
    hints->rx_attr->caps = 0;
    if (fi_getinfo(BTL_IB_OFI_VERSION, NULL, NULL, 0, hints, &info) != 0) {
        fi_freeinfo(hints);
        return fi_dupinfo(device);
    }
    fi_freeinfo(hints);
    return info;
}

/* Logs that all channels share one endpoint though they were to have their own. */
static void ofi_log_shared(const ofi_t *ofi, int rc)
{
    if (ofi->log.print != NULL) {
        ofi->log.print(
            ofi->log.context, 1, "%s: all channels share one endpoint: %s", ofi->base.name,
            rc == -EMSGSIZE ? "their addresses are too unlike to be published" : strerror(-rc));
    }
}

static int ofi_open(const btl_ib_device_t *device, const btl_ib_open_params_t *params,
                    btl_ib_transport_t **out)
{
    ofi_t *ofi = calloc(1, sizeof(*ofi));
    int rc;

    if (ofi == NULL) {
        return -ENOMEM;
    }
    ofi->base.ops = &ofi_ops;
    ofi->log = params->log;
    ofi->refused = params->refused;
    snprintf(ofi->base.name, sizeof(ofi->base.name), "ofi/%.20s:%.38s", device->provider,
             device->name);
    ofi->info = info_choose(device->handle);
    rc = ofi->info == NULL ? -ENOMEM : info_query(ofi->info, params->mtu, &ofi->base.attr);
    if (rc == 0) {
        ofi->base.attr.bandwidth = device->bandwidth;
        ofi->tx_prefix = info_prefix(ofi->info, ofi->info->tx_attr->mode);
        ofi->rx_prefix = info_prefix(ofi->info, ofi->info->rx_attr->mode);
        rc = ofi_open_shared(ofi);
    }
    if (rc == 0) {
        const btl_ib_transport_attr_t attr = ofi->base.attr;
        const bool own = params->channels == BTL_IB_CHANNELS_OWN && params->queue_count > 1;
        rc = ofi_open_channels(ofi, params, &attr, own);
        if (rc != 0 && own) {
            ofi_log_shared(ofi, rc);
            rc = ofi_open_channels(ofi, params, &attr, false);
        }
    }
    if (rc != 0) {
        ofi_close(&ofi->base);
        return rc;
    }
    ofi->refused = NULL;
    *out = &ofi->base;
    return 0;
}

const btl_ib_transport_type_t btl_ib_ofi_type = {
    .name = "ofi",
    .default_queues = "P,256,256,128,32:S,65536,1024,992,64",
    .shared_unused = BTL_IB_SHARED_GROWTH, /* all buffers are made at once */
    .devices = btl_ib_ofi_devices,
    .devices_free = btl_ib_ofi_devices_free,
    .query = ofi_query,
    .open = ofi_open,
    .memory_estimate = ofi_memory_estimate,
    .facts = btl_ib_ofi_facts,
    .library = btl_ib_ofi_library,
};
