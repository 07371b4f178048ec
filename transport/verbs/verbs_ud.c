/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_ud.h"

#include "device_filter.h"
#include "transport.h"
#include "verbs_device.h"
#include "verbs_ud_qp.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- the port ---- */

/* Opens the device of that name. Returns NULL, and errno, if that fails. */
static struct ibv_context *port_open_device(const char *name)
{
    int count = 0;
    struct ibv_device **all = ibv_get_device_list(&count);
    struct ibv_context *context = NULL;

    errno = ENODEV;
    for (int i = 0; i < count; i++) {
        if (strcmp(ibv_get_device_name(all[i]), name) == 0) {
            context = ibv_open_device(all[i]);
            break;
        }
    }
    const int error = errno;
    if (all != NULL) {
        ibv_free_device_list(all);
    }
    errno = error;
    return context;
}

/* Finds the index of a partition in the port's table (`wanted` 0: the first partition). Prefers a
 * full membership, as limited members reach full ones only. Returns 0, -ENOENT after telling the
 * user, or another negative errno if the table cannot be read. */
static int port_find_pkey(btl_ib_ud_port_t *port, uint16_t wanted)
{
    const btl_ib_verbs_t *verbs = &port->verbs;
    __be16 entry;
    bool found = false;
    char text[16];
    int error = 0;

    for (int i = 0; i < verbs->port_attr.pkey_tbl_len; i++) {
        if (ibv_query_pkey(verbs->context, verbs->port, i, &entry) != 0) {
            error = errno;
            continue;
        }
        const uint16_t pkey = be16toh(entry);
        const uint16_t number = pkey & BTL_IB_UD_PKEY_NUMBER;
        const bool better = /* than the one found */
            wanted != 0 && (pkey & ~port->pkey & BTL_IB_UD_PKEY_FULL) != 0;
        if (number != 0 && (wanted == 0 || number == (wanted & BTL_IB_UD_PKEY_NUMBER))
            && (!found || better)) {
            port->pkey_index = (uint16_t) i;
            port->pkey = pkey;
            found = true;
        }
    }
    if (!found && error != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_query_pkey", error);
    }
    if (!found) {
        BTL_IB_VERBS_LOG(verbs, 1, "%s: port %u is in no partition 0x%x (btl_ib_pkey)",
                         verbs->base.name, verbs->port, wanted);
        snprintf(text, sizeof(text), "0x%04x", wanted);
        btl_ib_verbs_diag(&verbs->log, BTL_IB_DIAG_PARTITION, verbs->base.name, text);
    }
    return found ? 0 : -ENOENT;
}

/* Opens the port of a device; port->verbs is initialized. Returns 0 or a negative errno after
 * logging why; close follows in either case. */
static int port_open(btl_ib_ud_port_t *port, const btl_ib_device_t *device,
                     const btl_ib_open_params_t *params)
{
    const btl_ib_verbs_device_t *handle = device->handle;
    struct ibv_context *context = port_open_device(handle->name);

    if (context == NULL) {
        return btl_ib_verbs_failed(&port->verbs, "ibv_open_device", errno);
    }
    const int error = btl_ib_verbs_open(&port->verbs, context, handle->port, params->mtu);
    if (error != 0) {
        return error;
    }
    port->gid = handle->gid;
    port->service_level = params->service_level;
    port->traffic_class = params->traffic_class;
    return port_find_pkey(port, params->pkey);
}

/* ---- events of the port ---- */

/* Checks that the address that peers know is still the port's. Returns 0 or an errno. */
static int port_check_address(const btl_ib_ud_port_t *port)
{
    const btl_ib_verbs_t *verbs = &port->verbs;
    struct ibv_port_attr attr;
    union ibv_gid gid;

    if (ibv_query_gid(verbs->context, verbs->port, (int) port->gid.index, &gid) != 0
        || memcmp(&gid, &port->gid.gid, sizeof(gid)) != 0) {
        return EADDRNOTAVAIL;
    }
    const bool same_lid = btl_ib_verbs_ethernet(verbs)
                          || (ibv_query_port(verbs->context, verbs->port, &attr) == 0
                              && attr.lid == verbs->port_attr.lid);
    return same_lid ? 0 : EADDRNOTAVAIL;
}

/* Checks that the port is still in its partition. Returns 0 or an errno. */
static int port_check_partition(const btl_ib_ud_port_t *port)
{
    __be16 pkey;

    return ibv_query_pkey(port->verbs.context, port->verbs.port, port->pkey_index, &pkey) == 0
                   && be16toh(pkey) == port->pkey
               ? 0
               : EPERM;
}

/* Returns the errno that an event means for the port; 0: the port goes on. (A failure of a queue
 * pair that a peer causes is no event: completions show it.) */
static int port_error_of(const btl_ib_ud_port_t *port, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR:
        return ENETDOWN;
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_GID_CHANGE:
        return btl_ib_verbs_port_up(&port->verbs) ? port_check_address(port) : ENETDOWN;
    case IBV_EVENT_PKEY_CHANGE:
        return btl_ib_verbs_port_up(&port->verbs) ? port_check_partition(port) : ENETDOWN;
    case IBV_EVENT_DEVICE_FATAL:
        return ENODEV;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_SRQ_ERR:
        return EIO;
    default:
        return 0;
    }
}

/* Reads and logs events up to the first that has an errno. Returns that errno, or 0. */
static int port_read_events(const btl_ib_ud_port_t *port)
{
    struct ibv_async_event event;
    int error = 0;

    while (error == 0 && ibv_get_async_event(port->verbs.context, &event) == 0) {
        if (btl_ib_verbs_event_is_ours(&port->verbs, &event)) {
            error = port_error_of(port, &event);
            btl_ib_verbs_event_log(&port->verbs, &event, error);
        }
        ibv_ack_async_event(&event);
    }
    return error;
}

/* Logs that the device is of no use any more, and sets the state. `call` (a literal) failed; NULL:
 * none. */
static void ud_fail(btl_ib_ud_t *ud, const char *call, const char *what, int error)
{
    btl_ib_verbs_t *verbs = &ud->port.verbs;

    error = error != 0 ? error : EIO;
    if (ud->state.error == 0) {
        BTL_IB_VERBS_LOG(verbs, 1, "%s: %s: %s", verbs->base.name, what, strerror(error));
        verbs->base.refused = call;
        btl_ib_verbs_state_fail(&ud->state, error);
    }
}

/* Finds the port's address in the table. An address that was lost comes back with another index
 * while something still uses the old one. */
static void port_find_address(btl_ib_ud_port_t *port)
{
    const btl_ib_verbs_t *verbs = &port->verbs;
    btl_ib_verbs_gid_t *list;
    const int count = btl_ib_verbs_gids(verbs->context, verbs->port, -1, &list, NULL);

    for (int i = 0; i < count; i++) {
        if (list[i].type == port->gid.type
            && memcmp(&list[i].gid, &port->gid.gid, sizeof(list[i].gid)) == 0) {
            port->gid.index = list[i].index;
            break;
        }
    }
    free(list);
}

/* Finds the address of a port that was down, which may have another index now. Returns true if the
 * port again has the address and the partition that peers know. */
static bool port_bring_back(btl_ib_ud_port_t *port)
{
    if (!btl_ib_verbs_port_up(&port->verbs) || port_check_partition(port) != 0) {
        return false;
    }
    if (port_check_address(port) != 0) {
        port_find_address(port);
    }
    return port_check_address(port) == 0;
}

/* Reads and logs the events of the device, and updates the state. A port that was down is used
 * again as soon as it has its address and partition back. */
static void ud_read_events(btl_ib_ud_t *ud)
{
    ud->polling.polls = 0;
    if (ud->state.error != 0) {
        return;
    }
    const int error = port_read_events(&ud->port);
    if (error == ENODEV || error == EIO) {
        ud_fail(ud, NULL, "the device failed", error);
    } else if (error != 0) {
        btl_ib_verbs_state_down(&ud->state, error);
    } else if (ud->state.down != 0 && port_bring_back(&ud->port)
               && btl_ib_ud_peers_renew(&ud->peers)) {
        btl_ib_verbs_state_up(&ud->state);
    }
}

/* ---- devices ---- */

static void device_turn_down(const btl_ib_search_t *search, const char *name, const char *why)
{
    btl_ib_devices_turn_down(&search->log, "verbs", name, why);
}

/* Lists a port once for each of its addresses. Returns 0 or -ENOMEM. */
static int device_add_port(btl_ib_verbs_list_t *list, const btl_ib_search_t *search,
                           struct ibv_context *context, const struct ibv_device_attr *attr,
                           uint8_t port)
{
    btl_ib_verbs_gid_t *gids;
    char text[sizeof(((btl_ib_device_t *) NULL)->name)];
    struct ibv_port_attr port_attr;
    int rc = 0;

    btl_ib_verbs_device_text(ibv_get_device_name(context->device), attr->phys_port_cnt, port, text,
                             sizeof(text));
    const int error = ibv_query_port(context, port, &port_attr);
    if (error != 0) {
        btl_ib_verbs_turn_down(search, text, "ibv_query_port", error);
        return 0;
    }
    if (port_attr.state != IBV_PORT_ACTIVE) {
        device_turn_down(search, text, ibv_port_state_str(port_attr.state));
        btl_ib_verbs_diag(&search->log, BTL_IB_DIAG_PORT_DOWN, text,
                          ibv_port_state_str(port_attr.state));
        return 0;
    }
    const char *refused;
    const int count = btl_ib_verbs_gids(context, port, search->gid_index, &gids, &refused);
    if (count < 0) {
        btl_ib_verbs_turn_down(search, text, refused, -count);
    } else if (count == 0) {
        device_turn_down(search, text,
                         search->gid_index >= 0
                             ? "it has no GID at the place that btl_ib_gid_index says"
                             : "it has no GID");
    }
    for (int i = 0; i < count && rc == 0; i++) {
        rc = btl_ib_verbs_list_append(list, "ud", context, port, attr, &port_attr, &gids[i]) != NULL
                 ? 0
                 : -ENOMEM;
    }
    free(gids);
    return rc;
}

/* Lists the ports of a device. Returns 0 or -ENOMEM. */
static int device_add(btl_ib_verbs_list_t *list, const btl_ib_search_t *search,
                      struct ibv_device *device)
{
    const char *name = ibv_get_device_name(device);
    struct ibv_device_attr attr;
    int rc = 0;

    if (device->transport_type != IBV_TRANSPORT_IB) {
        device_turn_down(search, name, "it has no UD");
        return 0;
    }
    struct ibv_context *context = ibv_open_device(device);
    if (context == NULL) {
        const int error = errno;
        btl_ib_verbs_turn_down(search, name, "ibv_open_device", error);
        btl_ib_verbs_diag_open(&search->log, name, device->dev_name, error);
        return 0;
    }
    const int error = ibv_query_device(context, &attr);
    if (error != 0) {
        btl_ib_verbs_turn_down(search, name, "ibv_query_device", error);
        attr.phys_port_cnt = 0;
    }
    for (unsigned port = 1; port <= attr.phys_port_cnt && rc == 0; port++) {
        rc = device_add_port(list, search, context, &attr, (uint8_t) port);
    }
    (void) ibv_close_device(context);
    return rc;
}

/* devices() of btl_ib_transport_type_t: lists each active port once for each of its addresses, the
 * best address first. iWARP devices, which have no UD, are left out. */
static int ud_devices(const btl_ib_search_t *search, btl_ib_device_t **list)
{
    btl_ib_verbs_list_t found = {.count = 0};
    int count = 0;
    int rc = 0;

    *list = NULL;
    if (!btl_ib_verbs_prepare(search, false)) {
        return 0;
    }
    struct ibv_device **all = ibv_get_device_list(&count);
    const int error = errno;
    if (all == NULL && error != ENOSYS) { /* ENOSYS: the kernel knows nothing of RDMA */
        btl_ib_verbs_turn_down(search, "", "ibv_get_device_list", error);
        return error != 0 ? -error : -EIO;
    }
    if (count == 0) { /* libibverbs lists no device without its file in /dev/infiniband */
        btl_ib_verbs_diag_open(&search->log, "all", "", ENOENT);
        device_turn_down(search, "", "/dev/infiniband lacks what is in /sys/class/infiniband");
    } else {
        btl_ib_verbs_prepare_fork(search);
    }
    if (all == NULL) {
        return 0;
    }
    for (int i = 0; i < count && rc == 0; i++) {
        rc = device_add(&found, search, all[i]);
    }
    ibv_free_device_list(all);
    if (rc != 0) {
        btl_ib_verbs_devices_free(found.device, found.count);
        return rc;
    }
    *list = found.device;
    return found.count;
}

/* ---- sending ---- */

/*
 * Datagrams of a batch that leave by one queue pair are posted as one list: one doorbell. A
 * completion ends all requests before it as well, so few requests ask for one: each SIGNAL-th, and
 * the last of a list if more than half of SIGNAL precede it without one.
 */
enum { SIGNAL = 32 };

static_assert((uint32_t) SIGNAL * 4 <= 128, "at most a fourth of the smallest send queue");

/* True if the device takes a datagram out of its work request. */
static bool send_is_inline(const btl_ib_ud_t *ud, const btl_ib_tx_t *tx)
{
    return tx->size <= ud->port.verbs.base.attr.inline_size;
}

/* Sets what is the same in each batch: the work requests are a list. */
static void send_init(btl_ib_ud_sending_t *sending)
{
    for (int i = 0; i < BTL_IB_UD_BATCH; i++) {
        sending->sge[i] = (struct ibv_sge){0};
        sending->wr[i] = (struct ibv_send_wr){
            .next = &sending->wr[i + 1],
            .sg_list = &sending->sge[i],
            .num_sge = 1,
            .opcode = IBV_WR_SEND,
        };
    }
    sending->wr[BTL_IB_UD_BATCH - 1].next = NULL;
}

/* Fills in the work request of a datagram, which has `number` in the ring of queue pair `index`. */
static inline void send_fill(btl_ib_ud_t *ud, uint32_t index, const btl_ib_tx_t *tx,
                             uint32_t number, unsigned flags, struct ibv_send_wr *wr)
{
    const btl_ib_ud_peer_t *peer = &ud->peers.peer[tx->to];
    const struct ibv_mr *mr = tx->mem;

    wr->sg_list->addr = (uintptr_t) tx->iov[0].iov_base;
    wr->sg_list->length = tx->size;
    wr->sg_list->lkey = mr != NULL ? mr->lkey : 0;
    wr->wr_id = btl_ib_ud_qp_send_id(index, number);
    wr->send_flags = flags | (send_is_inline(ud, tx) ? IBV_SEND_INLINE : 0u);
    wr->wr.ud.ah = ud->peers.host[peer->host].ah;
    wr->wr.ud.remote_qpn = peer->qpn[btl_ib_ud_qp_of(tx->channel, peer->count)];
    wr->wr.ud.remote_qkey = peer->qkey;
}

/* Posts datagrams to queue pair `index`. Returns how many it took, and sets *error to what stopped
 * the next one. */
static int send_post(btl_ib_ud_t *ud, uint32_t index, const btl_ib_tx_t *batch, int n, int *error)
{
    btl_ib_ud_qp_t *qp = &ud->qps.qp[index];
    const uint32_t room = btl_ib_verbs_send_ring_room(&qp->ring);
    const int count = (uint32_t) n < room ? n : (int) room;
    uint32_t unsignaled = qp->unsignaled;
    struct ibv_send_wr *wr = ud->sending.wr;
    struct ibv_send_wr *bad = NULL;

    *error = EAGAIN;
    if (count == 0 || qp->broken) {
        return 0;
    }
    for (int i = 0; i < count; i++) {
        const bool last = i + 1 == count;
        unsignaled++;
        const bool signaled = unsignaled >= SIGNAL || (last && unsignaled > SIGNAL / 2);
        unsignaled = signaled ? 0 : unsignaled;
        send_fill(ud, index, &batch[i], qp->ring.posted + (uint32_t) i,
                  signaled ? IBV_SEND_SIGNALED : 0u, &wr[i]);
    }
    struct ibv_send_wr *const next = wr[count - 1].next;
    wr[count - 1].next = NULL;
    const int rc = ibv_post_send(qp->qp, wr, &bad);
    wr[count - 1].next = next;
    const int taken = rc == 0 ? count : bad != NULL ? (int) (bad - wr) : 0;
    for (int i = 0; i < taken; i++) {
        const btl_ib_ud_peer_t *peer = &ud->peers.peer[batch[i].to];
        ud->peers.host[peer->host].last[index] = qp->ring.posted;
        btl_ib_verbs_send_ring_post(&qp->ring,
                                    send_is_inline(ud, &batch[i]) ? NULL : batch[i].context);
        qp->unsignaled = wr[i].send_flags & IBV_SEND_SIGNALED ? 0 : qp->unsignaled + 1;
    }
    *error = rc == 0 ? EAGAIN : btl_ib_verbs_is_shortage(rc) ? ENOBUFS : rc;
    return taken;
}

/* send() of btl_ib_transport_ops_t. */
static int ud_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);
    int done = 0;

    while (done < n) {
        const uint32_t index = btl_ib_ud_qp_of(batch[done].channel, ud->qps.count);
        int count = 0;
        while (done + count < n && count < BTL_IB_UD_BATCH
               && btl_ib_ud_qp_of(batch[done + count].channel, ud->qps.count) == index
               && batch[done + count].size <= t->attr.max_datagram) {
            count++;
        }
        if (count == 0) {
            *error = EMSGSIZE;
            return done;
        }
        if (ud->state.error != 0 || ud->state.down) {
            *error = ENETDOWN;
            return done;
        }
        const int taken = send_post(ud, index, batch + done, count, error);
        done += taken;
        if (taken < count) {
            if (*error != EAGAIN && *error != ENOBUFS) {
                btl_ib_ud_qps_log_error(&ud->qps, strerror(*error));
                t->unsent_call = "ibv_post_send";
                t->unsent_error = *error;
            }
            return done;
        }
    }
    return done;
}

/* ---- polling ---- */

/* Posts idle buffers of queue pairs that have few posted; fewer if `polling`
 * (btl_ib_ud_qps_post_idle()). */
static void post_idle(btl_ib_ud_t *ud, bool polling)
{
    const int error = btl_ib_ud_qps_post_idle(&ud->qps, polling);

    if (error != 0) {
        ud_fail(ud, "ibv_post_recv", "receive buffers cannot be posted", error);
    }
    ud->port.verbs.base.overflows = ud->qps.emptied;
}

/* Posts again what the device had no room for: without a posted buffer no completion would come.
 * A device that takes none for long has failed: peers would report that datagrams get lost. */
__attribute__((noinline)) static void post_unposted(btl_ib_ud_t *ud, uint64_t now)
{
    post_idle(ud, false);
    if (ud->qps.unposted && btl_ib_ud_qps_note_refused(&ud->qps, now)) {
        ud_fail(ud, "ibv_post_recv", "receive buffers cannot be posted", ENOMEM);
    }
}

/* repost() of btl_ib_transport_ops_t. */
static void ud_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    for (int i = 0; i < n; i++) {
        btl_ib_verbs_rx_pool_put(buffers[i]);
    }
    post_idle(btl_ib_ud_of(t), false);
}

/* Takes the completion of a receive. Returns how many events it made: 1, or 0 if nothing came. */
static int ud_received(btl_ib_ud_t *ud, const struct ibv_wc *wc, btl_ib_event_t *event)
{
    btl_ib_verbs_rx_buffer_t *buffer = (btl_ib_verbs_rx_buffer_t *) (uintptr_t) wc->wr_id;

    btl_ib_verbs_rx_pool_taken(buffer->pool);
    if (wc->status == IBV_WC_WR_FLUSH_ERR) {
        btl_ib_ud_qp_flushed(&ud->qps, buffer);
        ud->polling.polls = BTL_IB_UD_EVENTS_EVERY; /* the device may know more about it */
        return 0;
    }
    if (wc->status != IBV_WC_SUCCESS || wc->byte_len <= BTL_IB_VERBS_GRH) {
        ud->polling.rx_dropped++;
        BTL_IB_VERBS_LOG(
            &ud->port.verbs, 10, "%s: datagram dropped: %s (%llu so far)", ud->port.verbs.base.name,
            wc->status != IBV_WC_SUCCESS ? ibv_wc_status_str(wc->status) : "nothing in it",
            (unsigned long long) ud->polling.rx_dropped);
        btl_ib_verbs_rx_pool_put(buffer);
        return 0;
    }
    uint8_t *payload = btl_ib_verbs_rx_data(buffer) + BTL_IB_VERBS_GRH;
    *event = (btl_ib_event_t){
        .type = BTL_IB_EVENT_RECV,
        .size = wc->byte_len - BTL_IB_VERBS_GRH,
        .from = btl_ib_ud_peers_source(&ud->peers, wc, payload),
        .data = payload,
        .buffer = buffer,
    };
    return 1;
}

/* Reads completions of one queue. Returns whether there were some. */
static inline bool read_completions(btl_ib_ud_t *ud, uint32_t queue)
{
    btl_ib_ud_polling_t *polling = &ud->polling;
    const int n = ibv_poll_cq(ud->qps.cq[queue], BTL_IB_UD_POLL, polling->wc);

    polling->wc_first = 0;
    polling->wc_count = n > 0 ? (uint32_t) n : 0;
    if (n < 0) {
        ud_fail(ud, "ibv_poll_cq", "completions cannot be read", EIO);
    }
    return n > 0;
}

/* Reads completions of the first of several queues that has some. Begins with the queue of
 * commands; but behind the queue that had some in the call before, so that no queue keeps others
 * waiting. Returns whether there were some. */
__attribute__((noinline)) static bool read_queues(btl_ib_ud_t *ud)
{
    btl_ib_ud_polling_t *polling = &ud->polling;

    for (uint32_t i = 0; i < ud->qps.cq_count; i++) {
        const uint32_t queue = polling->cq_next;
        polling->cq_next = queue + 1 < ud->qps.cq_count ? queue + 1 : 0;
        if (read_completions(ud, queue)) {
            return true;
        }
    }
    polling->cq_next = 0;
    return false;
}

/* Reads completions, unless earlier ones are not taken yet. Returns whether there are some to
 * take. */
static inline bool poll_completions(btl_ib_ud_t *ud)
{
    if (ud->polling.wc_count > 0) {
        return true;
    }
    return ud->qps.cq_count == 1 ? read_completions(ud, 0) : read_queues(ud);
}

/* Has the next completion of each queue make comp.fd readable. Returns false if that fails. */
static bool arm_completions(btl_ib_ud_t *ud)
{
    for (uint32_t i = 0; i < ud->qps.cq_count; i++) {
        if (ibv_req_notify_cq(ud->qps.cq[i], 0) != 0) {
            return false;
        }
    }
    return true;
}

/* Makes at most `max` events of the completions that were read. Returns how many. */
static int take_completions(btl_ib_ud_t *ud, btl_ib_event_t *events, int max)
{
    btl_ib_ud_polling_t *polling = &ud->polling;
    int n = 0;

    while (n < max && polling->wc_count > 0) {
        const struct ibv_wc *wc = &polling->wc[polling->wc_first++];
        polling->wc_count--;
        if (!btl_ib_ud_is_send(wc)) {
            n += ud_received(ud, wc, &events[n]);
        } else if (!btl_ib_ud_qps_sent(&ud->qps, wc)) {
            ud->polling.polls = BTL_IB_UD_EVENTS_EVERY;
        }
    }
    return n;
}

/* Reads the completion channel. Else its descriptor would stay readable for completions that were
 * polled meanwhile. */
static void ud_disarm(btl_ib_ud_t *ud)
{
    if (btl_ib_verbs_comp_read(&ud->comp)) {
        ud->polling.armed = false;
    }
}

/* poll() of btl_ib_transport_ops_t. */
static int ud_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);
    int n = 0;

    if (++ud->polling.polls >= BTL_IB_UD_EVENTS_EVERY) {
        ud_read_events(ud);
    }
    if (poll_completions(ud)) {
        if (ud->polling.armed) {
            ud_disarm(ud);
        }
        n = take_completions(ud, events, max);
        post_idle(ud, true);
        btl_ib_ud_qps_grow_low(&ud->qps);
        if (ud->peers.leaving != 0) {
            btl_ib_ud_peers_clean(&ud->peers);
        }
    } else if (ud->qps.unposted) {
        post_unposted(ud, now);
    }
    if (ud->qps.completed) {
        n += btl_ib_ud_qps_report(&ud->qps, events + n, max - n);
    }
    if (ud->qps.broken && ud->state.error == 0) {
        const int rc = btl_ib_ud_qps_repair(&ud->qps);
        if (rc != 0) {
            ud_fail(ud, NULL, "a queue pair that failed cannot be used again", -rc);
        }
    }
    if (btl_ib_verbs_state_changed(&ud->state)) {
        n += btl_ib_verbs_state_report(&ud->state, events + n, max - n);
    }
    return n;
}

/* wait_fd() of btl_ib_transport_ops_t. */
static int ud_wait_fd(btl_ib_transport_t *t)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);

    ud_disarm(ud);
    ud_read_events(ud);
    if (!ud->polling.armed && !arm_completions(ud)) {
        return -1;
    }
    ud->polling.armed = true;
    /* Completions that came before the queue was armed make no event of the channel. */
    return ud->state.error != 0 || ud->qps.unposted || poll_completions(ud) ? -1 : ud->comp.fd;
}

/* ---- opening and closing ---- */

/* If the first bit of the Q_Key in a send request is set, the device sends the queue pair's Q_Key
 * instead (IBA 10.2.5). */
enum { QKEY_MASK = 0x7fffffff };

static uint32_t ud_rx_depth(const btl_ib_transport_t *t, uint32_t size)
{
    const btl_ib_ud_t *ud = (const btl_ib_ud_t *) t;
    uint32_t i = 0;

    while (i + 1 < ud->qps.count && ud->qps.qp[i].size < size) {
        i++;
    }
    return btl_ib_ud_qp_rx_depth(&ud->qps.qp[i]);
}

static void ud_stop(btl_ib_transport_t *t)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);

    btl_ib_verbs_state_fail(&ud->state, ENODEV);
    btl_ib_ud_qps_stop(&ud->qps);
}

static void close_ud(btl_ib_transport_t *t)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);

    ud_stop(t);
    btl_ib_ud_qps_free(&ud->qps);
    btl_ib_verbs_comp_close(&ud->comp);
    btl_ib_ud_peers_free(&ud->peers);
    btl_ib_verbs_close(&ud->port.verbs);
    if (ud->port.verbs.context != NULL) {
        (void) ibv_close_device(ud->port.verbs.context);
    }
    free(ud);
}

static int ud_addr_add(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr)
{
    return btl_ib_ud_peers_add(&btl_ib_ud_of(t)->peers, bytes, len, addr);
}

static bool ud_address_text(const void *bytes, size_t len, char *out, size_t out_len)
{
    char gid[INET6_ADDRSTRLEN];
    btl_ib_ud_address_t address;

    if (btl_ib_ud_address_unpack(bytes, len, &address) != 0) {
        return false;
    }
    snprintf(out, out_len, "%s, QPN 0x%06x",
             btl_ib_verbs_gid_format(&address.gid, gid, sizeof(gid)), address.qpn[0]);
    return true;
}

static void ud_addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    btl_ib_ud_peers_remove(&btl_ib_ud_of(t)->peers, addr);
}

static const btl_ib_transport_ops_t ud_ops = {
    .send = ud_send,
    .poll = ud_poll,
    .repost = ud_repost,
    .addr_add = ud_addr_add,
    .addr_remove = ud_addr_remove,
    .address_text = ud_address_text,
    .mem_register = btl_ib_verbs_mem_register,
    .mem_deregister = btl_ib_verbs_mem_deregister,
    .rx_depth = ud_rx_depth,
    .wait_fd = ud_wait_fd,
    .stop = ud_stop,
    .close = close_ud,
};

static int ud_query(const btl_ib_device_t *device, uint32_t mtu, btl_ib_transport_attr_t *attr)
{
    const btl_ib_verbs_device_t *handle = device->handle;

    *attr = (btl_ib_transport_attr_t){
        .max_datagram = btl_ib_verbs_mtu_bytes(btl_ib_verbs_mtu(handle->mtu, mtu)),
        .max_iov = 1, /* all of it is in the engine's registered memory */
        .max_batch = BTL_IB_UD_BATCH,
        .bandwidth = device->bandwidth,
        .registered_page = btl_ib_verbs_page(),
        .knows_source = true,
        .queue_max = handle->max_qp_wr,
    };
    return 0;
}

/* Sets the published address, and the attributes that are known only now. */
static void ud_publish(btl_ib_ud_t *ud)
{
    btl_ib_transport_attr_t *attr = &ud->port.verbs.base.attr;
    btl_ib_ud_address_t address = {
        .gid = ud->port.gid.gid,
        .qkey = ud->qps.qkey,
        .pkey = ud->port.pkey,
        .lid = btl_ib_verbs_ethernet(&ud->port.verbs) ? 0 : ud->port.verbs.port_attr.lid,
        .mtu = ud->port.verbs.mtu,
        .count = (uint8_t) ud->qps.count,
    };

    attr->inline_size = ud->qps.inline_size;
    for (uint32_t i = 0; i < ud->qps.count; i++) {
        address.qpn[i] = ud->qps.qp[i].qp->qp_num;
        attr->tx_depth += ud->qps.qp[i].tx_depth;
        attr->rx_depth += btl_ib_ud_qp_rx_depth(&ud->qps.qp[i]);
    }
    ud->port.verbs.base.address_len = btl_ib_ud_address_pack(&address, ud->port.verbs.base.address);
}

static int open_parts(btl_ib_ud_t *ud, const btl_ib_device_t *device,
                      const btl_ib_open_params_t *params)
{
    btl_ib_verbs_t *verbs = &ud->port.verbs;
    uint32_t qkey;
    int rc = port_open(&ud->port, device, params);

    rc = rc != 0 ? rc : ud_query(device, params->mtu, &verbs->base.attr);
    if (rc != 0) {
        return rc;
    }
    if (getrandom(&qkey, sizeof(qkey), 0) != sizeof(qkey)) {
        return btl_ib_verbs_failed(verbs, "getrandom", errno);
    }
    rc = btl_ib_verbs_comp_open(&ud->comp, verbs, verbs->context->async_fd);
    if (rc != 0) {
        return rc;
    }
    return btl_ib_ud_qps_open(&ud->qps, &ud->port, &ud->state, params, qkey & QKEY_MASK,
                              ud->comp.channel);
}

static void ud_memory_estimate(const btl_ib_open_params_t *open,
                               const btl_ib_transport_attr_t *attr, uint32_t peers,
                               btl_ib_memory_estimate_t *estimate)
{
    /* Each peer is on a host of its own. */
    const uint64_t peer = sizeof(btl_ib_ud_peer_t) + BTL_IB_UD_QPS_MAX * sizeof(uint32_t)
                          + sizeof(btl_ib_ud_host_t) + sizeof(uint32_t);

    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, sizeof(btl_ib_ud_t), 0, "transport");
    btl_ib_ud_qps_memory_estimate(open, attr, peers, estimate);
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, btl_ib_addr_table_places(peers) * peer,
                        0, "addresses of peers");
}

static int open_ud(const btl_ib_device_t *device, const btl_ib_open_params_t *params,
                   btl_ib_transport_t **out)
{
    btl_ib_ud_t *ud = calloc(1, sizeof(*ud));

    if (ud == NULL) {
        return -ENOMEM;
    }
    btl_ib_verbs_init(&ud->port.verbs, &ud_ops, params, device->provider, device->name);
    ud->peers.port = &ud->port;
    ud->peers.qps = &ud->qps;
    send_init(&ud->sending);
    const int rc = open_parts(ud, device, params);
    if (rc != 0) {
        close_ud(&ud->port.verbs.base);
        return rc;
    }
    ud->port.verbs.base.attr.queue_buffers = params->queue_count <= ud->qps.count;
    ud->port.verbs.base.attr.send_queues = params->queue_count <= ud->qps.count;
    ud_publish(ud);
    btl_ib_verbs_opened(&ud->port.verbs);
    *out = &ud->port.verbs.base;
    return 0;
}

const btl_ib_transport_type_t btl_ib_verbs_ud_type = {
    .name = "verbs",
    .wire = "ud",
    .default_queues = "P,256,256,128,32:S,65536,1024,992,64",
    .devices = ud_devices,
    .devices_free = btl_ib_verbs_devices_free,
    .query = ud_query,
    .open = open_ud,
    .memory_estimate = ud_memory_estimate,
    .facts = btl_ib_verbs_facts,
    .library = btl_ib_verbs_library,
};
