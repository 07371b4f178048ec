/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: devices, memory, sending, polling, and operations on memory as the
 * engine starts them. */

#include "transport.h"
#include "device_filter.h"
#include "net_interfaces.h"
#include "verbs_library.h"
#include "verbs_device.h"
#include "verbs_rc_cm.h"
#include "verbs_rc_forecast.h"
#include "verbs_rc_idle.h"
#include "verbs_rc_watch.h"

#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- devices ---- */

/*
 * RDMA devices are found by asking rdma_cm about each address of this host. Only rdma_cm knows
 * which device an IP address belongs to: IPoIB, RoCE and iWARP each find out in their own way.
 */

static void device_turn_down(const btl_ib_search_t *search, const char *name, const char *why)
{
    char reason[128];

    snprintf(reason, sizeof(reason), "for RC: %s", why);
    btl_ib_devices_turn_down(&search->log, "verbs", name, reason);
}

static bool gids_are_addresses(const struct rdma_cm_id *id, const struct ibv_port_attr *port)
{
    return port->link_layer == IBV_LINK_LAYER_ETHERNET
           && id->verbs->device->transport_type != IBV_TRANSPORT_IWARP;
}

/* Returns whether the user wants the GID that is this address (btl_ib_gid_index). On Ethernet the
 * GIDs of a port are the addresses of its interface. */
static bool device_gid_wanted(const btl_ib_search_t *search, const struct ifaddrs *i,
                              const struct rdma_cm_id *id, const struct ibv_port_attr *port)
{
    btl_ib_verbs_gid_t *gid;

    if (search->gid_index < 0 || !gids_are_addresses(id, port)) {
        return true;
    }
    const bool wanted =
        btl_ib_verbs_gids(id->verbs, id->port_num, search->gid_index, &gid, NULL) == 1
        && btl_ib_ip_same((const struct sockaddr *) &gid->ip, i->ifa_addr);
    free(gid);
    return wanted;
}

/* Lists the device that an address belongs to, if any. Returns 0 or -ENOMEM. */
static int device_add(btl_ib_verbs_list_t *list, const btl_ib_search_t *search,
                      const struct ifaddrs *i, const struct rdma_cm_id *id)
{
    struct ibv_device_attr attr;
    struct ibv_port_attr port;
    size_t len;

    if (id->verbs == NULL) {
        return 0;
    }
    const char *name = ibv_get_device_name(id->verbs->device);
    int error = ibv_query_device(id->verbs, &attr);
    if (error != 0) {
        btl_ib_verbs_turn_down(search, name, "ibv_query_device", error);
        return 0;
    }
    error = ibv_query_port(id->verbs, id->port_num, &port);
    if (error != 0) {
        btl_ib_verbs_turn_down(search, name, "ibv_query_port", error);
        return 0;
    }
    if (port.state != IBV_PORT_ACTIVE) {
        device_turn_down(search, name, ibv_port_state_str(port.state));
        return 0;
    }
    if (!device_gid_wanted(search, i, id, &port)) {
        device_turn_down(search, i->ifa_name, "its address is not the GID at btl_ib_gid_index");
        return 0;
    }
    if (search->gid_index >= 0 && !gids_are_addresses(id, &port) && search->log.print != NULL) {
        search->log.print(
            search->log.context, 1,
            "%s: btl_ib_gid_index %d means nothing over rc: the address is that of an "
            "interface (btl_ib_if_include chooses; btl_ib_wire ud heeds it)",
            name, search->gid_index);
    }
    btl_ib_device_t *device =
        btl_ib_verbs_list_append(list, "rc", id->verbs, id->port_num, &attr, &port, NULL);
    if (device == NULL) {
        return -ENOMEM;
    }
    btl_ib_device_set_interface(device, i->ifa_name);
    memcpy(&device->ip, i->ifa_addr,
           i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                             : sizeof(struct sockaddr_in6));
    device->prefix_bits = i->ifa_netmask != NULL ? btl_ib_ip_prefix(i->ifa_netmask) : 0;
    if (device->prefix_bits == 0) { /* the host alone */
        (void) btl_ib_ip_bytes(i->ifa_addr, &len);
        device->prefix_bits = (uint8_t) (8 * len);
    }
    return 0;
}

/* Asks rdma_cm about one address. Returns 0 or -ENOMEM. */
static int device_ask(btl_ib_verbs_list_t *list, const btl_ib_search_t *search,
                      struct rdma_event_channel *events, const struct ifaddrs *i)
{
    struct rdma_cm_id *id;
    int rc = 0;

    if (rdma_create_id(events, &id, NULL, RDMA_PS_TCP) != 0) {
        btl_ib_verbs_turn_down(search, i->ifa_name, "rdma_create_id", errno);
        return 0;
    }
    if (rdma_bind_addr(id, i->ifa_addr) == 0) {
        rc = device_add(list, search, i, id);
    } else if (errno != ENODEV && errno != EADDRNOTAVAIL) { /* these two: no RDMA device has it */
        btl_ib_verbs_turn_down(search, i->ifa_name, "rdma_bind_addr", errno);
    }
    (void) rdma_destroy_id(id);
    return rc;
}

/* Asks rdma_cm about all usable addresses of a family. Returns 0 or -ENOMEM. */
static int devices_ask_family(btl_ib_verbs_list_t *list, const btl_ib_search_t *search,
                              struct rdma_event_channel *events, const struct ifaddrs *all,
                              sa_family_t family)
{
    int rc = 0;

    for (const struct ifaddrs *i = all; i != NULL && rc == 0; i = i->ifa_next) {
        if (i->ifa_addr != NULL && i->ifa_addr->sa_family == family && (i->ifa_flags & IFF_UP) != 0
            && (i->ifa_flags & IFF_LOOPBACK) == 0 && !btl_ib_ip_link_local(i->ifa_addr)) {
            rc = device_ask(list, search, events, i);
        }
    }
    return rc;
}

/* devices() of btl_ib_transport_type_t. */
static int rc_devices(const btl_ib_search_t *search, btl_ib_device_t **list)
{
    btl_ib_verbs_list_t found = {.count = 0};
    struct ifaddrs *all = NULL;
    int rc = 0;

    *list = NULL;
    if (!btl_ib_verbs_prepare(search, true)) {
        return 0;
    }
    btl_ib_verbs_prepare_fork(search);
    struct rdma_event_channel *events = rdma_create_event_channel();
    if (events == NULL) {
        rc = errno != 0 ? -errno : -EIO;
        btl_ib_verbs_turn_down(search, "", "rdma_create_event_channel", -rc);
        btl_ib_verbs_diag_open(&search->log, "all", "rdma_cm", -rc);
        return rc;
    }
    rc = btl_ib_net_addresses_get(&all, &search->log);
    rc = rc != 0 ? rc : devices_ask_family(&found, search, events, all, AF_INET);
    rc = rc != 0 ? rc : devices_ask_family(&found, search, events, all, AF_INET6);
    free(all);
    rdma_destroy_event_channel(events);
    if (rc != 0) {
        btl_ib_verbs_devices_free(found.device, found.count);
        return rc;
    }
    if (found.count == 0) {
        device_turn_down(search, "",
                         "no interface that is up and has an IP address belongs to an RDMA device");
    }
    *list = found.device;
    return found.count;
}

/* ---- sending ---- */

/* Does what send_post() does for a short batch: datagrams that fit the peer's eager ring go there,
 * the others are sent. */
static int send_post_eager(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const btl_ib_tx_t *batch, int n,
                           int *error)
{
    bool by_eager[BTL_IB_RC_EAGER_BATCH];
    uint32_t eager = 0;

    for (int i = 0; i < n; i++) {
        struct ibv_send_wr *wr = btl_ib_rc_sq_fill(&conn->sq, i, &batch[i]);
        by_eager[i] = btl_ib_rc_eager_fits(&conn->eager_tx, &conn->credit, batch[i].size, eager);
        if (by_eager[i]) {
            rc->traffic.pieces[i][0] = *wr->sg_list;
            wr->sg_list = rc->traffic.pieces[i];
            btl_ib_rc_eager_fill(&conn->eager_tx, &batch[i], conn->eager_tx.used + eager,
                                 conn->credit.used + (uint32_t) i - eager, rc->traffic.staged[i],
                                 conn->sq.ring.depth, wr);
            eager++;
        }
    }
    const int taken = btl_ib_rc_sq_post_batch(&conn->sq, batch, n, error);
    for (int i = taken; i < n; i++) {
        eager -= by_eager[i];
    }
    conn->eager_tx.used += eager;
    conn->credit.used += (uint32_t) taken - eager;
    return taken;
}

/* Posts datagrams by one call; there is room for them. Returns how many the device took; *error is
 * 0 or an errno. */
static int send_post(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const btl_ib_tx_t *batch, int n,
                     int *error)
{
    if (conn->eager_tx.slots > 0 && n <= BTL_IB_RC_EAGER_BATCH) {
        return send_post_eager(rc, conn, batch, n, error);
    }
    for (int i = 0; i < n; i++) {
        (void) btl_ib_rc_sq_fill(&conn->sq, i, &batch[i]);
    }
    const int taken = btl_ib_rc_sq_post_batch(&conn->sq, batch, n, error);
    conn->credit.used += (uint32_t) taken;
    return taken;
}

/* Sends datagrams that go to one queue of one peer and have the same `spare` (all data, or all
 * control traffic). Returns how many were taken; *error says what stopped the next one. */
static int send_run(btl_ib_rc_t *rc, const btl_ib_tx_t *batch, int n, int *error)
{
    btl_ib_rc_conn_t *conn = btl_ib_rc_cm_conn(rc, batch->to, batch->channel, error);

    if (conn == NULL) {
        return 0;
    }
    const uint32_t spare = batch->channel == 0 ? batch->spare : 0;
    const uint32_t most = btl_ib_rc_credit_available(&conn->credit, spare);
    int failed = 0;
    const int taken =
        most > 0 ? send_post(rc, conn, batch, (int) btl_ib_verbs_min(most, (uint32_t) n), &failed)
                 : 0;
    if (btl_ib_verbs_is_shortage(failed)) {
        *error = ENOBUFS;
    } else if (failed != 0) {
        btl_ib_rc_cm_refused(rc, conn, "ibv_post_send", failed);
    }
    return taken;
}

/* send() of btl_ib_transport_ops_t. */
static int rc_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);
    int done = 0;

    if (rc->state.error != 0 || rc->state.down) {
        *error = ENETDOWN;
        return 0;
    }
    while (done < n) {
        const btl_ib_tx_t *first = &batch[done];
        int run = 1;
        while (done + run < n && run < BTL_IB_RC_BATCH && first[run].to == first->to
               && first[run].channel == first->channel && first[run].spare == first->spare) {
            run++;
        }
        const int taken = send_run(rc, first, run, error);
        done += taken;
        if (taken < run) {
            break;
        }
    }
    return done;
}

/* ---- polling ---- */

enum { FULL_POLLS = 64 }; /* polls with events between two polls of the connection manager */

/* Logs that the device is of no use any more, as it refused a call (a literal), and sets the
 * state. */
static void rc_fail(btl_ib_rc_t *rc, const char *call, int error)
{
    if (rc->state.error == 0) {
        (void) btl_ib_verbs_failed(&rc->port.verbs, call, error);
        rc->port.verbs.base.refused = call;
        btl_ib_verbs_state_fail(&rc->state, error);
    }
}

/* Posts idle buffers of a shared queue. If that fails the rail fails, as all peers would be short
 * of buffers for good. */
static void post_shared(btl_ib_rc_t *rc, const btl_ib_verbs_rx_pool_t *pool)
{
    const int posted = btl_ib_rc_rxqs_post_shared(&rc->rxqs, pool);

    if (posted < 0) {
        rc_fail(rc, "ibv_post_srq_recv", -posted);
    }
}

/* Posts idle buffers of all shared queues before messages are handed up: handlers may take long,
 * and senders would meet RNR meanwhile. */
static void replace_shared(btl_ib_rc_t *rc)
{
    for (uint32_t i = 0; i < rc->rxqs.count; i++) {
        if (rc->rxqs.queue[i].shared) {
            post_shared(rc, &rc->rxqs.queue[i].rx.pool);
        }
    }
}

/* Posts again what the device had no room for in shared queues: without a posted buffer nothing
 * would come. A device that takes none for long has failed: senders would meet RNR for ever. */
__attribute__((noinline)) static void post_unposted(btl_ib_rc_t *rc, uint64_t now)
{
    rc->rxqs.unposted = false;
    replace_shared(rc);
    if (rc->rxqs.unposted && btl_ib_rc_rxqs_note_refused(&rc->rxqs, now)) {
        rc_fail(rc, "ibv_post_srq_recv", ENOMEM);
    }
}

/* Posts a connection's own idle buffers if few are posted, and tells the peer. There is no hurry
 * until then, as the peer sends only what there are buffers for. */
static void post_own(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn)
{
    const int posted = btl_ib_rc_rxqs_post_own(&rc->rxqs, conn->channel, &conn->rx);

    if (posted < 0) {
        btl_ib_rc_cm_refused(rc, conn, "ibv_post_recv", -posted);
        return;
    }
    conn->credit.reposted += (uint32_t) posted;
    btl_ib_rc_credit_update(&conn->credit);
}

/* Leaves a connection's own idle buffers to the next poll, so that an answer to the message goes
 * first; or posts them at once if the peer waits for them. Only one connection can be left to the
 * poll. */
static void post_own_soon(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn)
{
    if (btl_ib_rc_credit_peer_is_out(&conn->credit)) {
        post_own(rc, conn);
    } else if (btl_ib_rc_rx_is_low(&conn->rx) && rc->conns.owing != conn) {
        btl_ib_rc_conn_t *before = rc->conns.owing;
        rc->conns.owing = conn;
        if (before != NULL) {
            post_own(rc, before);
        }
    }
}

/* Gives back buffers of one pool. */
static void repost_run(btl_ib_rc_t *rc, void *const *buffers, int n)
{
    btl_ib_verbs_rx_pool_t *pool = ((btl_ib_verbs_rx_buffer_t *) buffers[0])->pool;
    btl_ib_rc_conn_t *conn = pool->owner;
    const bool eager = conn != NULL && pool != &conn->rx.pool;

    if (eager) {
        btl_ib_rc_eager_release_copies(&rc->eagers, conn->eager, buffers, n);
    }
    if (conn != NULL && !btl_ib_rc_conn_unhold(conn, n)) {
        return;
    }
    if (eager) {
        btl_ib_rc_eager_repost(conn->eager, buffers, n);
        return;
    }
    for (int i = 0; i < n; i++) {
        btl_ib_verbs_rx_pool_put(buffers[i]);
    }
    if (conn != NULL) {
        post_own_soon(rc, conn);
    } else {
        post_shared(rc, pool);
    }
}

/* repost() of btl_ib_transport_ops_t. */
static void rc_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    for (int first = 0, next; first < n; first = next) {
        const btl_ib_verbs_rx_pool_t *pool = ((btl_ib_verbs_rx_buffer_t *) buffers[first])->pool;
        next = first + 1;
        while (next < n && next - first < BTL_IB_RC_BATCH
               && ((btl_ib_verbs_rx_buffer_t *) buffers[next])->pool == pool) {
            next++;
        }
        repost_run(btl_ib_rc_of(t), buffers + first, next - first);
    }
}

/* Returns the buffer that a completion is about; `conn` is not used if the buffer is shared. */
static btl_ib_verbs_rx_buffer_t *rc_buffer_of(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, uint64_t id)
{
    const uint32_t number = (uint32_t) id & ~BTL_IB_RC_RECV;

    if (!btl_ib_rc_wr_id_is_shared(id)) {
        return &conn->rx.buffer[number];
    }
    return &rc->rxqs.queue[number >> BTL_IB_RC_INDEX_BITS]
                .rx.buffer[number & ((1u << BTL_IB_RC_INDEX_BITS) - 1)];
}

/* Takes one of the transport's own messages: a control message (verbs_rc_idle.h), or the empty one
 * that opens a connection. */
static void received_control(btl_ib_rc_t *rc, const struct ibv_wc *wc,
                             btl_ib_verbs_rx_buffer_t *buffer)
{
    uint8_t bytes[BTL_IB_RC_CONTROL_BYTES];
    void *unused = buffer;

    memcpy(bytes, btl_ib_verbs_rx_data(buffer), sizeof(bytes));
    repost_run(rc, &unused, 1);
    btl_ib_rc_conn_t *conn = btl_ib_rc_conns_of(&rc->conns, wc);
    if (conn != NULL && conn == rc->conns.owing && conn->rdma != NULL) { /* it has few buffers */
        rc->conns.owing = NULL;
        post_own(rc, conn);
        conn = btl_ib_rc_conns_of(&rc->conns, wc);
    }
    if (wc->byte_len > 0 && conn != NULL) { /* NULL: it broke when buffers were to be posted */
        btl_ib_rc_idle_received(rc, conn, bytes);
    }
}

/* Takes the completion of a message that came. Returns how many events it made: 1, or 0 if the
 * message is the transport's own. */
static int rc_received(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const struct ibv_wc *wc,
                       btl_ib_event_t *event)
{
    btl_ib_verbs_rx_buffer_t *buffer = rc_buffer_of(rc, conn, wc->wr_id);

    if (conn->stage == BTL_IB_RC_ACCEPTED) {
        btl_ib_rc_cm_opened(rc, conn, "connected by the peer");
    }
    btl_ib_verbs_rx_pool_taken(buffer->pool);
    if (!btl_ib_rc_wr_id_is_shared(wc->wr_id)) {
        conn->credit.filled++;
        conn->held++;
    }
    const bool datagram = wc->byte_len > 0 && wc->byte_len != BTL_IB_RC_CONTROL_BYTES;
    if (conn->eager != NULL) {
        btl_ib_rc_eager_received(&rc->eagers, conn->eager, datagram ? wc->byte_len : 0);
    }
    if (!datagram) {
        received_control(rc, wc, buffer);
        return 0;
    }
    conn->received++;
    if (conn->stage == BTL_IB_RC_AGREED) {
        btl_ib_rc_cm_resume(conn);
    }
    *event = (btl_ib_event_t){
        .type = BTL_IB_EVENT_RECV,
        .size = wc->byte_len,
        .from = btl_ib_rc_peer_handle(conn->peer),
        .data = btl_ib_verbs_rx_data(buffer),
        .buffer = buffer,
    };
    return 1;
}

/* Takes the completion of a send request, which ends all requests before it as well. */
static void rc_sent(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const struct ibv_wc *wc)
{
    btl_ib_rc_conn_sent(conn, btl_ib_rc_sq_number(&conn->sq, wc->wr_id) + 1, 0);
    if (conn->rdma == NULL) {
        btl_ib_rc_credit_update(&conn->credit);
        return;
    }
    const int error = btl_ib_rc_rdma_flush(conn->rdma);
    if (error != 0) {
        btl_ib_rc_cm_broke(rc, conn, strerror(error));
    }
}

/* Takes the completion of a request that failed, or whose connection is closed (`conn` NULL). The
 * first failure ends the connection: all later requests fail. */
static void rc_failed(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const struct ibv_wc *wc)
{
    const bool recv = btl_ib_rc_wr_id_is_recv(wc->wr_id);

    if (recv && btl_ib_rc_wr_id_is_shared(wc->wr_id)) {
        btl_ib_verbs_rx_buffer_t *buffer = rc_buffer_of(rc, NULL, wc->wr_id);
        void *unused = buffer;
        btl_ib_verbs_rx_pool_taken(buffer->pool);
        repost_run(rc, &unused, 1);
    }
    /* While a connection is being made, the connection manager decides, as it knows more. */
    if (conn == NULL || conn->stage < BTL_IB_RC_ACCEPTED) {
        return;
    }
    if (conn->rdma != NULL && !recv) {
        btl_ib_rc_rdma_failed(conn->rdma, btl_ib_rc_sq_number(&conn->sq, wc->wr_id), wc->status);
    }
    /* Soft-RoCE's sends fail with this status just before the port is known to be down. */
    if (wc->status == IBV_WC_LOC_QP_OP_ERR || conn->suspect_until != 0) {
        btl_ib_rc_conn_suspect(conn);
    } else {
        if (wc->status == IBV_WC_RETRY_EXC_ERR && conn->stage != BTL_IB_RC_AGREED) {
            btl_ib_rc_cm_unanswered(rc, conn);
        }
        btl_ib_rc_cm_broke(rc, conn, ibv_wc_status_str(wc->status));
    }
}

static int rc_take_eager(btl_ib_rc_t *rc, btl_ib_rc_eager_t *eager, btl_ib_event_t *events, int max)
{
    const btl_ib_addr_t from = btl_ib_rc_peer_handle(eager->conn->peer);
    const int count = btl_ib_rc_eager_take(&rc->eagers, eager, from, events, max);

    eager->conn->held += (uint32_t) count;
    if (count > 0 && eager->conn->stage == BTL_IB_RC_AGREED) {
        btl_ib_rc_cm_resume(eager->conn);
    }
    return count;
}

/* Makes at most `max` (1 or more) events of the completions that were read. Returns how many. Some
 * completions are left if datagrams in eager rings, which were sent before them, took all of `max`,
 * or wait in the rings because the engine holds too many. */
static int rc_take(btl_ib_rc_t *rc, btl_ib_event_t *events, int max)
{
    btl_ib_rc_cqs_t *cqs = &rc->cqs;
    int count = 0;

    for (; cqs->wc_count > 0 && count < max; cqs->wc_first++, cqs->wc_count--) {
        const struct ibv_wc *wc = &cqs->wc[cqs->wc_first];
        btl_ib_rc_conn_t *conn = btl_ib_rc_conns_of(&rc->conns, wc);
        const bool recv = btl_ib_rc_wr_id_is_recv(wc->wr_id);
        if (recv && conn != NULL && conn->eager != NULL) {
            count += rc_take_eager(rc, conn->eager, events + count, max - count);
            if (count == max || btl_ib_rc_eagers_full(&rc->eagers)) {
                break;
            }
        }
        if (conn == NULL || wc->status != IBV_WC_SUCCESS) {
            rc_failed(rc, conn, wc);
        } else if (recv) {
            count += rc_received(rc, conn, wc, &events[count]);
        } else {
            rc_sent(rc, conn, wc);
        }
    }
    return count;
}

/* Gives back what closed connections had of a queue that was read until empty. */
static void rc_was_empty(btl_ib_rc_t *rc, btl_ib_rc_cq_t *cq)
{
    cq->free += cq->leaving;
    cq->leaving = 0;
    if (rc->conns.draining > 0) {
        btl_ib_rc_conns_drained(&rc->conns, cq);
    }
}

/* Takes completions that were read already, then all that the completion queues have, up to `max`
 * events; others that were read are left. Returns how many events it made. While the port is down,
 * which a failed send may show, no completion is taken: connections that ended could not be
 * disconnected. */
static int rc_take_all(btl_ib_rc_t *rc, btl_ib_event_t *events, int max)
{
    uint32_t next = 0;
    int count = 0;

    while (count < max && !rc->state.down) {
        int n = BTL_IB_RC_BATCH;
        if (rc->cqs.wc_count == 0) {
            if (next == rc->cqs.count) {
                break;
            }
            n = btl_ib_rc_cqs_read(&rc->cqs, &rc->cqs.cq[next]);
            if (n < 0) {
                rc_fail(rc, "ibv_poll_cq", EIO);
                break;
            }
        }
        count += rc_take(rc, events + count, max - count);
        if (rc->cqs.wc_count > 0) {
            break;
        }
        if (n < BTL_IB_RC_BATCH) {
            rc_was_empty(rc, &rc->cqs.cq[next++]);
        }
    }
    return count;
}

/* Polls the rings that are FADING or OFF AGAIN (verbs_rc_eager.h). Returns how many events it
 * made. */
static int poll_eager_off(btl_ib_rc_t *rc, btl_ib_event_t *events, int max)
{
    const uint64_t now = rc->eagers.fading > 0 ? btl_ib_rc_now_us() : 0;
    int count = 0;

    for (btl_ib_rc_eager_t *eager = rc->eagers.off; eager != NULL; eager = eager->next_off) {
        count += rc_take_eager(rc, eager, events + count, max - count);
        if (eager->fading) {
            btl_ib_rc_eager_fade(&rc->eagers, eager, now);
        }
    }
    return count;
}

/* Polls the rings that are ON; and those that are FADING, if there are any. Returns how many events
 * it made. */
static int poll_eager(btl_ib_rc_t *rc, btl_ib_event_t *events, int max)
{
    int count = 0;

    for (uint32_t i = 0; i < rc->eagers.count; i++) {
        count += rc_take_eager(rc, rc->eagers.on[i], events + count, max - count);
    }
    if (rc->eagers.fading > 0) {
        count += poll_eager_off(rc, events + count, max - count);
    }
    return count;
}

/* poll() of btl_ib_transport_ops_t. */
static int rc_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);

    btl_ib_rc_conn_t *owing = rc->conns.owing;
    if (owing != NULL) {
        rc->conns.owing = NULL;
        post_own(rc, owing);
    }
    int count = rc_take_all(rc, events, max);
    if (count > 0 && rc->rxqs.any_shared) {
        replace_shared(rc);
    }
    if (rc->eagers.count + rc->eagers.fading > 0 && !rc->state.down) {
        count += poll_eager(rc, events + count, max - count);
    }
    /* The connection manager has its turn when nothing more arrives, so that what arrived before a
     * connection ended is handed up before its end. If more arrives always, it has its turn all the
     * same, as peers may wait for an answer. */
    if (count == 0 || ++rc->traffic.full_polls >= FULL_POLLS) {
        rc->traffic.full_polls = 0;
        if (btl_ib_rc_cm_progress(rc) && rc->eagers.off != NULL) {
            count += poll_eager_off(rc, events + count, max - count);
        }
        if (now - rc->watch.looked_at >= BTL_IB_RC_LOOK_US) {
            btl_ib_rc_watch_look(rc, now);
            if (rc->rxqs.unposted) {
                post_unposted(rc, now);
            }
        }
    }
    const bool changed = btl_ib_verbs_state_changed(&rc->state);
    if (changed && rc->state.error != 0) { /* the last poll */
        btl_ib_rc_peers_close_all(&rc->peers, true);
    }
    if (rc->conns.reporting != NULL) {
        count += btl_ib_rc_conns_report(&rc->conns, events + count, max - count);
    }
    if (rc->peers.pending != NULL) {
        count += btl_ib_rc_peers_report(&rc->peers, events + count, max - count);
    }
    if (changed) {
        count += btl_ib_verbs_state_report(&rc->state, events + count, max - count);
    }
    return count;
}

/* wait_fd() of btl_ib_transport_ops_t. */
static int rc_wait_fd(btl_ib_transport_t *t)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);

    /* Completions of a port that is down are not taken, and a write to a ring wakes nobody. */
    if (rc->state.down || rc->rxqs.unposted || !btl_ib_rc_eagers_turn_off(&rc->eagers)) {
        return -1;
    }
    return btl_ib_rc_cqs_arm(&rc->cqs);
}

/* ---- operations on memory ---- */

enum {
    ATOMIC = 8,      /* bytes */
    SHORT_READ = 64, /* Linux's soft-iWARP copies 32 bytes at most into a packet's header */
    PAGE = 4096,     /* the smallest */
};

static int rdma_expose(btl_ib_transport_t *t, void *base, size_t size, unsigned access,
                       void **handle, uint32_t *key)
{
    const btl_ib_rc_port_t *port = &btl_ib_rc_of(t)->port;
    /* Memory that this process may only read can be exposed to be read. If the device or a peer is
     * to change it, the right to write it locally is needed as well (ibv_reg_mr(3)). */
    const unsigned changes = BTL_IB_RDMA_READ_INTO | BTL_IB_RDMA_MAY_WRITE | BTL_IB_RDMA_MAY_ATOMIC;
    unsigned flags = access == 0 || (access & changes) != 0 ? IBV_ACCESS_LOCAL_WRITE : 0;

    if ((access & BTL_IB_RDMA_MAY_ATOMIC) != 0
        && t->attr.rdma_atomics == BTL_IB_RDMA_ATOMICS_NONE) {
        return -EOPNOTSUPP;
    }
    /* The peer's answer to a read over iWARP needs the right to write (RFC 5040, 3.2). */
    const bool sink = port->iwarp && (access == 0 || (access & BTL_IB_RDMA_READ_INTO) != 0);
    if ((access & BTL_IB_RDMA_MAY_WRITE) != 0 || sink) {
        flags |= IBV_ACCESS_REMOTE_WRITE;
    }
    if ((access & BTL_IB_RDMA_MAY_READ) != 0) {
        flags |= IBV_ACCESS_REMOTE_READ;
    }
    if ((access & BTL_IB_RDMA_MAY_ATOMIC) != 0) {
        flags |= IBV_ACCESS_REMOTE_ATOMIC;
    } else if (port->relaxed) {
        flags |= IBV_ACCESS_RELAXED_ORDERING;
    }
    struct ibv_mr *mr = ibv_reg_mr(port->verbs.pd, base, size, flags);
    if (mr == NULL) { /* no help text, as the engine has another way to move these bytes */
        const int error = errno;
        BTL_IB_VERBS_LOG(&port->verbs, 10, "%s: %zu bytes cannot be registered: %s", t->name, size,
                         strerror(error));
        return -error;
    }
    *handle = mr;
    *key = mr->rkey;
    return 0;
}

static void rdma_cancel(btl_ib_transport_t *t, btl_ib_addr_t to)
{
    btl_ib_rc_peers_t *peers = &btl_ib_rc_of(t)->peers;

    btl_ib_rc_peer_cancel_rdma(peers, peers->peer[to]);
}

/* True if soft-iWARP would answer a read with wrong bytes: a short read of memory that lies on two
 * pages. Its siw_try_1seg() confuses the lengths of the two parts (Linux 6.1). Such reads are rare,
 * so they are avoided with every iWARP device. */
static bool rdma_is_corrupted(const btl_ib_rc_port_t *port, const btl_ib_rdma_work_t *work)
{
    return port->iwarp && work->kind == BTL_IB_RDMA_READ && work->size <= SHORT_READ
           && work->remote % PAGE + work->size > PAGE;
}

/* Checks an operation against what the device does. Returns 0 or a negative errno. */
static int rdma_check(const btl_ib_rc_port_t *port, const btl_ib_rdma_work_t *work)
{
    const btl_ib_transport_attr_t *attr = &port->verbs.base.attr;

    if (work->kind == BTL_IB_RDMA_ADD || work->kind == BTL_IB_RDMA_CSWAP) {
        if (attr->rdma_atomics == BTL_IB_RDMA_ATOMICS_NONE) {
            return -EOPNOTSUPP;
        }
        return work->size == ATOMIC && work->remote % ATOMIC == 0 ? 0 : -EINVAL;
    }
    const uint64_t most = work->mem != NULL ? attr->rdma_max : attr->rdma_copied;
    return work->size > 0 && work->size <= most ? 0 : -EINVAL;
}

static int rdma_start(btl_ib_transport_t *t, const btl_ib_rdma_work_t *work)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);
    int error = rdma_check(&rc->port, work);
    int broken;

    if (error != 0) {
        return error;
    }
    if (rc->state.error != 0 || rc->state.down) {
        return -ENETDOWN;
    }
    if (rdma_is_corrupted(&rc->port, work)) {
        return -EOPNOTSUPP;
    }
    btl_ib_rc_conn_t *conn = btl_ib_rc_cm_conn(rc, work->to, BTL_IB_RC_RDMA_CHANNEL, &error);
    if (conn == NULL) {
        return -error;
    }
    error = btl_ib_rc_rdma_post(conn->rdma, work, &broken);
    if (error == 0) {
        btl_ib_rc_rdma_count(&rc->traffic.moved, work);
    }
    if (broken != 0) {
        btl_ib_rc_cm_broke(rc, conn, strerror(broken));
    }
    return error;
}

static const btl_ib_rdma_ops_t rdma_ops = {
    .expose = rdma_expose,
    .withdraw = btl_ib_verbs_mem_deregister,
    .start = rdma_start,
    .cancel = rdma_cancel,
};

/* ---- peers ---- */

static int rc_addr_add(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);
    const btl_ib_verbs_t *verbs = &rc->port.verbs;
    btl_ib_rc_address_t theirs;
    char text[BTL_IB_RC_ADDRESS_TEXT];
    const int error = btl_ib_rc_address_unpack(bytes, len, &theirs);

    if (error != 0) {
        return error;
    }
    if (theirs.cookie == rc->self.cookie && rc->port.iwarp) { /* need not reach itself */
        return -EHOSTUNREACH;
    }
    (void) btl_ib_rc_address_format(&theirs, text, sizeof(text));
    if (theirs.any.sa_family != rc->self.any.sa_family) {
        btl_ib_verbs_diag(&verbs->log, BTL_IB_DIAG_SUBNET, verbs->base.name, text);
        return -EHOSTUNREACH;
    }
    const btl_ib_rc_peer_t *peer = btl_ib_rc_peer_add(&rc->peers, &theirs);
    if (peer == NULL) {
        return -ENOMEM;
    }
    if (!rc->port.iwarp) { /* iWARP has TCP's segments, whatever the MTU */
        btl_ib_verbs_check_mtu(verbs, theirs.mtu, text);
    }
    *addr = peer->index;
    return 0;
}

static void rc_addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    btl_ib_rc_peers_t *peers = &btl_ib_rc_of(t)->peers;

    btl_ib_rc_peer_remove(peers, peers->peer[addr]);
}

static uint32_t rc_rx_depth(const btl_ib_transport_t *t, uint32_t size)
{
    return btl_ib_rc_rxqs_depth(&((const btl_ib_rc_t *) t)->rxqs, size);
}

/* ---- stopping and closing ---- */

static void rc_stop(btl_ib_transport_t *t)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);

    btl_ib_verbs_state_fail(&rc->state, ENODEV);
    btl_ib_rc_peers_close_all(&rc->peers, false);
    btl_ib_rc_conns_release(&rc->conns);
    btl_ib_rc_rxqs_stop(&rc->rxqs, &rc->port.verbs);
    btl_ib_rc_rdma_log(&rc->traffic.moved, &rc->port.verbs);
    btl_ib_rc_eagers_stop(&rc->eagers);
}

/* address_text() of btl_ib_transport_ops_t. */
static bool rc_address_text(const void *bytes, size_t len, char *out, size_t out_len)
{
    btl_ib_rc_address_t addr;

    if (btl_ib_rc_address_unpack(bytes, len, &addr) != 0) {
        return false;
    }
    (void) btl_ib_rc_address_format(&addr, out, out_len);
    return true;
}

static void close_rc(btl_ib_transport_t *t)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);

    rc_stop(t);
    btl_ib_rc_rxqs_free(&rc->rxqs);
    btl_ib_rc_conns_free(&rc->conns);
    free(rc->eagers.copies);
    btl_ib_rc_peers_free(&rc->peers);
    btl_ib_rc_cqs_close(&rc->cqs);
    btl_ib_verbs_close(&rc->port.verbs);
    btl_ib_rc_events_leave(rc);
    btl_ib_rc_cm_close(rc);
    free(rc);
}

static const btl_ib_transport_ops_t rc_ops = {
    .send = rc_send,
    .poll = rc_poll,
    .repost = rc_repost,
    .addr_add = rc_addr_add,
    .addr_remove = rc_addr_remove,
    .address_text = rc_address_text,
    .mem_register = btl_ib_verbs_mem_register,
    .mem_deregister = btl_ib_verbs_mem_deregister,
    .rx_depth = rc_rx_depth,
    .wait_fd = rc_wait_fd,
    .stop = rc_stop,
    .close = close_rc,
    .rdma = &rdma_ops,
};

/* ---- opening ---- */

enum {
    DATAGRAM_MAX = 1 << 20, /* queues may be as large; a message of RC may be of 2^31 bytes */
    RNR_TIMER = 8,          /* 0.16 ms */
    UNKNOWN_MAX = 1024,     /* peers */
    DEFAULT_PKEY = 0xffff,  /* the partition that all ports are in */
    PKEY_NUMBER = 0x7fff,   /* the bits of a key that name a partition */
    READS = 64,             /* reads and atomics of each peer that are served at once, by default */
    RDMA_MAX = 1 << 30,     /* bytes; devices have 2^31 or less */
};

static int rc_query(const btl_ib_device_t *device, uint32_t mtu, btl_ib_transport_attr_t *attr)
{
    const btl_ib_verbs_device_t *handle = device->handle;

    (void) mtu; /* the device makes packets of its messages */
    *attr = (btl_ib_transport_attr_t){
        .max_datagram = DATAGRAM_MAX,
        .max_iov = 1, /* all of it is in the engine's registered memory */
        .max_batch = BTL_IB_RC_BATCH,
        .tx_depth = BTL_IB_RC_TX_DEPTH,
        .bandwidth = device->bandwidth,
        .registered_page = btl_ib_verbs_page(),
        .reliable = true,
        .send_queues = true, /* a connection each, which may be there or not */
        .knows_source = true,
        .rdma = true,
        .connections_max = handle->max_qp,
        .shared_max = handle->max_srq_wr,
        .queue_max = handle->max_qp_wr,
    };
    return 0;
}

/* Returns how many bytes of inline data a send can have, up to `wanted`; finds out by making a
 * queue pair. */
static uint32_t find_inline_size(const btl_ib_rc_t *rc, struct ibv_cq *cq, uint32_t wanted)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = rc->port.tx_depth,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = wanted},
    };
    struct ibv_qp *qp = wanted > 0 ? btl_ib_verbs_create_qp(&rc->port.verbs, &attr) : NULL;

    if (qp == NULL) {
        return 0;
    }
    (void) ibv_destroy_qp(qp);
    return btl_ib_verbs_min(attr.cap.max_inline_data, wanted);
}

static int open_queues(btl_ib_rc_t *rc, const btl_ib_open_params_t *params)
{
    btl_ib_transport_attr_t *attr = &rc->port.verbs.base.attr;
    const int error = btl_ib_rc_rxqs_open(&rc->rxqs, &rc->port, params);

    if (error != 0) {
        return error;
    }
    rc->cqs.shared_entries = btl_ib_rc_rxqs_shared(&rc->rxqs);
    const btl_ib_rc_cq_t *cq = btl_ib_rc_cq_reserve(&rc->cqs, 0);
    if (cq == NULL) {
        return -errno;
    }
    attr->inline_size = find_inline_size(rc, cq->cq, btl_ib_verbs_inline_wanted(params));
    attr->max_datagram = rc->rxqs.queue[rc->rxqs.count - 1].size;
    attr->rx_depth = btl_ib_rc_rxqs_depth(&rc->rxqs, attr->max_datagram);
    return 0;
}

/* Plans whether the user's memory may be registered; logs if not. With kernels before 5.12 children
 * of fork() do not get registered pages, whatever else lies on them, and would crash. */
static bool plan_rdma_of_user_memory(const btl_ib_rc_t *rc)
{
    if (ibv_is_fork_initialized() != IBV_FORK_ENABLED) {
        return true;
    }
    BTL_IB_VERBS_LOG(&rc->port.verbs, 1,
                     "%s: processors move memory: for the sake of fork() this kernel takes "
                     "registered pages from children (btl_ib_fork_safe)",
                     rc->port.verbs.base.name);
    return false;
}

/* Plans which operations on memory the device does. `wanted`: at most this many reads and atomics
 * of each peer are served at once. Atomics are not used over iWARP, where devices differ in
 * them. */
static void plan_rdma(btl_ib_rc_t *rc, int wanted)
{
    const struct ibv_device_attr *device = &rc->port.verbs.device;
    btl_ib_transport_attr_t *attr = &rc->port.verbs.base.attr;
    const int reads = device->max_qp_rd_atom < device->max_qp_init_rd_atom
                          ? device->max_qp_rd_atom
                          : device->max_qp_init_rd_atom;

    attr->rdma = plan_rdma_of_user_memory(rc);
    rc->port.reads = (uint8_t) (reads < 0 ? 0 : reads > wanted ? wanted : reads);
    attr->rdma_max = btl_ib_verbs_min(rc->port.verbs.port_attr.max_msg_sz, RDMA_MAX);
    attr->rdma_copied = rc->port.bounce_size;
    attr->rdma_region_max = device->max_mr_size;
    if (!rc->port.iwarp && device->atomic_cap == IBV_ATOMIC_GLOB) {
        attr->rdma_atomics = BTL_IB_RDMA_ATOMICS_GLOBAL;
    } else if (!rc->port.iwarp && device->atomic_cap == IBV_ATOMIC_HCA) {
        attr->rdma_atomics = BTL_IB_RDMA_ATOMICS_DEVICE;
    }
}

/* Checks that the interface whose address is used is in the partition that the user wants (0: any).
 * Ethernet has only the default partition, iWARP none. Returns 0, or -ENOENT after telling the
 * user. */
static int check_partition(const btl_ib_rc_t *rc, uint16_t wanted)
{
    const btl_ib_verbs_t *verbs = &rc->port.verbs;
    const uint16_t pkey = btl_ib_verbs_ethernet(verbs)
                              ? DEFAULT_PKEY
                              : be16toh(rc->cm.listener->route.addr.addr.ibaddr.pkey);
    char text[16];

    if (wanted == 0 || rc->port.iwarp || ((pkey ^ wanted) & PKEY_NUMBER) == 0) {
        return 0;
    }
    BTL_IB_VERBS_LOG(verbs, 1,
                     "%s: its interface is in partition 0x%04x, not in 0x%04x (btl_ib_pkey)",
                     verbs->base.name, pkey, wanted);
    snprintf(text, sizeof(text), "0x%04x", wanted);
    btl_ib_verbs_diag(&verbs->log, BTL_IB_DIAG_PARTITION, verbs->base.name, text);
    return -ENOENT;
}

/* Logs parameters that mean nothing over iWARP: a user who sets them may rely on them, for example
 * to keep jobs apart. */
static void log_ignored(const btl_ib_rc_t *rc, const btl_ib_open_params_t *params)
{
    if (rc->port.iwarp && (params->pkey != 0 || params->service_level != 0 || params->mtu != 0)) {
        BTL_IB_VERBS_LOG(&rc->port.verbs, 1,
                         "%s: btl_ib_pkey, btl_ib_service_level and btl_ib_mtu mean nothing over "
                         "iWARP",
                         rc->port.verbs.base.name);
    }
}

static int open_port(btl_ib_rc_t *rc, const btl_ib_device_t *device,
                     const btl_ib_open_params_t *params)
{
    const btl_ib_verbs_device_t *handle = device->handle;
    btl_ib_verbs_t *verbs = &rc->port.verbs;
    int error;

    if (device->ip.ss_family != AF_INET && device->ip.ss_family != AF_INET6) {
        return btl_ib_verbs_failed(verbs, "it has no IP address, which rdma_cm needs",
                                   EADDRNOTAVAIL);
    }
    memcpy(&rc->self, &device->ip,
           device->ip.ss_family == AF_INET ? sizeof(rc->self.v4) : sizeof(rc->self.v6));
    if (getrandom(&rc->self.cookie, sizeof(rc->self.cookie), 0) != sizeof(rc->self.cookie)) {
        return btl_ib_verbs_failed(verbs, "getrandom", errno);
    }
    error = btl_ib_rc_cm_open(rc, handle->name, params);
    if (error != 0) {
        return error;
    }
    struct ibv_context *context = rc->cm.listener->verbs;
    rc->port.iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
    error = btl_ib_verbs_open(verbs, context, rc->cm.listener->port_num, params->mtu);
    if (error != 0) {
        return error;
    }
    btl_ib_rc_plan_send_depths(&rc->port, params, (uint32_t) verbs->device.max_qp_wr);
    verbs->base.attr.tx_depth = rc->port.tx_depth;
    error = check_partition(rc, params->pkey);
    if (error != 0) {
        return error;
    }
    btl_ib_rc_events_join(rc);
    rc->cqs.port = &rc->port;
    return btl_ib_verbs_comp_open(&rc->cqs.comp, verbs, rc->cm.events->fd);
}

/* Sets what cannot fail to be set. */
static void rc_init(btl_ib_rc_t *rc, const btl_ib_device_t *device,
                    const btl_ib_open_params_t *params)
{
    btl_ib_rc_port_t *port = &rc->port;

    btl_ib_verbs_init(&port->verbs, &rc_ops, params, "rc", device->name);
    port->unknown_max = UNKNOWN_MAX;
    port->cq_num = params->cq_num != 0 ? params->cq_num : (uint32_t) BTL_IB_RC_CQ_DEPTH;
    port->ack_timeout = params->rc.timeout;
    port->retry = params->rc.retry;
    port->rnr_retry = params->rc.rnr_retry;
    port->rnr_timer = params->rc.rnr_timer != 0 ? params->rc.rnr_timer : RNR_TIMER;
    port->tos = params->traffic_class;
    port->level = params->service_level;
    port->relaxed = params->rc.relaxed;
    port->idle = params->rc.idle;
    port->idle_first = params->rc.idle_first;
    btl_ib_rc_plan_bounces(port, &params->rc);
    rc->conns.port = port;
    rc->conns.state = &rc->state;
    rc->conns.self = &rc->self;
    rc->conns.rxqs = &rc->rxqs;
    rc->conns.cqs = &rc->cqs;
    rc->conns.eagers = &rc->eagers;
    rc->peers.conns = &rc->conns;
}

static int open_rc(const btl_ib_device_t *device, const btl_ib_open_params_t *params,
                   btl_ib_transport_t **out)
{
    btl_ib_rc_t *rc = calloc(1, sizeof(*rc));

    if (rc == NULL) {
        return -ENOMEM;
    }
    btl_ib_verbs_t *verbs = &rc->port.verbs;
    rc_init(rc, device, params);
    int error = rc_query(device, params->mtu, &verbs->base.attr);
    error = error == 0 ? open_port(rc, device, params) : error;
    error = error == 0 ? open_queues(rc, params) : error;
    if (error != 0) {
        close_rc(&verbs->base);
        return error;
    }
    plan_rdma(rc, params->rc.reads != 0 ? params->rc.reads : READS);
    btl_ib_rc_eagers_plan(&rc->eagers, &rc->port, &rc->rxqs, &params->rc);
    log_ignored(rc, params);
    rc->self.mtu = verbs->mtu;
    btl_ib_rc_address_pack(&rc->self, verbs->base.address);
    verbs->base.address_len = BTL_IB_RC_ADDRESS_BYTES;
    btl_ib_verbs_opened(verbs);
    *out = &verbs->base;
    return 0;
}

const btl_ib_transport_type_t btl_ib_verbs_rc_type = {
    .name = "verbs",
    .wire = "rc",
    /* Of the longest queue, credits come back in batches of 8, with the buffers. */
    .default_queues = "P,256,128:P,8192,64:P,65536,16,8,8",
    /* As much may be in flight to each peer as with the default queues. Twenty busy peers fill the
     * shared queues; further ones wait (RNR). */
    .shared_queues = "P,256,128:S,8192,1024,512,64:S,65536,256,128,16",
    .devices = rc_devices,
    .devices_free = btl_ib_verbs_devices_free,
    .query = rc_query,
    .open = open_rc,
    .memory_estimate = btl_ib_rc_memory_estimate,
    .facts = btl_ib_verbs_facts,
    .library = btl_ib_verbs_library,
};
