/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_qp.h"

#include "transport.h"
#include "verbs_device.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* ---- queue pairs ---- */

/* Attributes that old kernels name in the mask even on InfiniBand, which has none of them. */
enum { ROCE_BITS = 0xe00000 };

/* Returns the largest MTU that both ends want (enum ibv_mtu). */
static uint8_t qp_mtu_limit(const btl_ib_rc_port_t *port, uint8_t theirs)
{
    const uint8_t ours = port->verbs.mtu;

    return theirs != 0 && theirs < ours ? theirs : ours;
}

/* True if the queue pair needs what rdma_cm cannot set: a service level, or another MTU than that
 * of the asking side's route. */
static bool qp_is_hidden(const btl_ib_rc_port_t *port, uint8_t theirs)
{
    const uint8_t active = (uint8_t) port->verbs.port_attr.active_mtu;

    return !port->iwarp
           && (port->level != 0 || port->verbs.mtu != active || (theirs != 0 && theirs != active));
}

/* Hides id->qp from librdmacm, which then tells the peer what `param` says of the queue pair.
 * Returns the queue pair. */
static struct ibv_qp *qp_hide(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    struct ibv_qp *qp = id->qp;

    param->qp_num = qp->qp_num;
    param->srq = qp->srq != NULL;
    id->qp = NULL;
    return qp;
}

/* Moves a queue pair to a state as librdmacm would, but with our service level and MTU. `param`
 * says how many reads the queue pair serves and asks, on the side that accepts; NULL: on the other
 * side, where the kernel knows. Returns 0 or an errno after logging why. */
static int qp_enter_state(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, struct ibv_qp *qp,
                          enum ibv_qp_state state, uint8_t theirs,
                          const struct rdma_conn_param *param)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask;

    if (rdma_init_qp_attr(id, &attr, &mask) != 0) {
        return -btl_ib_verbs_failed(&port->verbs, "rdma_init_qp_attr", errno);
    }
    if (state == IBV_QPS_RTR) {
        const uint8_t most = qp_mtu_limit(port, theirs);
        attr.ah_attr.sl = port->level != 0 ? port->level : attr.ah_attr.sl;
        attr.path_mtu = attr.path_mtu < most ? attr.path_mtu : (enum ibv_mtu) most;
        mask &= ~(btl_ib_verbs_ethernet(&port->verbs) ? 0 : ROCE_BITS);
    }
    if (param != NULL) {
        attr.max_dest_rd_atomic = param->responder_resources;
        attr.max_rd_atomic = param->initiator_depth;
    }
    const int error = ibv_modify_qp(qp, &attr, mask);
    return error == 0 ? 0 : -btl_ib_verbs_failed(&port->verbs, "ibv_modify_qp", error);
}

/* Moves a queue pair through all states up to the one that sends. Returns 0 or an errno. */
static int qp_make_ready(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, struct ibv_qp *qp,
                         uint8_t theirs, const struct rdma_conn_param *param)
{
    /* It is in INIT already, but perhaps with other rights. */
    int error = qp_enter_state(port, id, qp, IBV_QPS_INIT, theirs, NULL);

    error = error == 0 ? qp_enter_state(port, id, qp, IBV_QPS_RTR, theirs, param) : error;
    return error == 0 ? qp_enter_state(port, id, qp, IBV_QPS_RTS, theirs, param) : error;
}

int btl_ib_rc_qp_connect(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, uint8_t theirs,
                         struct rdma_conn_param *param)
{
    if (qp_is_hidden(port, theirs)) {
        (void) qp_hide(id, param);
    }
    return rdma_connect(id, param) == 0 ? 0 : errno;
}

int btl_ib_rc_qp_accept(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, uint8_t theirs,
                        struct rdma_conn_param *param)
{
    const bool hidden = qp_is_hidden(port, theirs);
    struct ibv_qp *qp = hidden ? qp_hide(id, param) : id->qp;
    int error = hidden ? qp_make_ready(port, id, qp, theirs, param) : 0;

    if (error == 0 && rdma_accept(id, param) != 0) {
        error = -btl_ib_verbs_failed(&port->verbs, "rdma_accept", errno);
    }
    id->qp = qp;
    return error;
}

int btl_ib_rc_qp_establish(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, uint8_t theirs,
                           struct ibv_qp *qp)
{
    int error = qp_make_ready(port, id, qp, theirs, NULL);

    if (error == 0 && rdma_establish(id) != 0) {
        error = -btl_ib_verbs_failed(&port->verbs, "rdma_establish", errno);
    }
    id->qp = qp;
    return error;
}

/* ---- connections ---- */

enum {
    FIRST_SLOTS = 16,
    SLOTS_MAX = 1 << BTL_IB_RC_SLOT_BITS,
    DRAIN_US = 200 * 1000,   /* some devices never report that they take no more buffers */
    SUSPECT_US = 200 * 1000, /* from a failed send to the event that the port is down, at most */
    /* Buffers of a connection without datagrams: for the three messages of verbs_rc_idle.h that may
     * be unread at once, and one that is being read. */
    CONTROL_BUFFERS = 4,
};

/* ---- connections by slot, and by queue pair ---- */

static int slots_grow(btl_ib_rc_conns_t *conns)
{
    const uint32_t slots = conns->slots == 0 ? FIRST_SLOTS : 2 * conns->slots;
    btl_ib_rc_slot_t *slot = slots > SLOTS_MAX ? NULL : realloc(conns->slot, slots * sizeof(*slot));

    if (slot == NULL) {
        return -ENOMEM;
    }
    conns->slot = slot;
    for (uint32_t i = slots; i-- > conns->slots;) {
        slot[i] = (btl_ib_rc_slot_t){.next_free = conns->free_slot};
        conns->free_slot = i + 1;
    }
    conns->slots = slots;
    return 0;
}

static void slot_free(btl_ib_rc_conn_t *conn)
{
    btl_ib_rc_slot_t *slot = &conn->all->slot[conn->slot];

    slot->conn = NULL;
    slot->epoch = (slot->epoch + 1) % BTL_IB_RC_SHARED_EPOCH;
    slot->next_free = conn->all->free_slot;
    conn->all->free_slot = conn->slot + 1;
}

/* Returns the list that has the connection of a queue pair with that number. Completions of shared
 * buffers name only the queue pair. */
static btl_ib_rc_conn_t **qp_bucket(btl_ib_rc_conns_t *conns, uint32_t number)
{
    return &conns->qp_bucket[number % BTL_IB_RC_QP_BUCKETS];
}

static void conn_enter_bucket(btl_ib_rc_conn_t *conn)
{
    btl_ib_rc_conn_t **first = qp_bucket(conn->all, conn->qp->qp_num);

    conn->number = conn->qp->qp_num;
    conn->next_qp = *first;
    *first = conn;
}

static void conn_leave_bucket(btl_ib_rc_conn_t *conn)
{
    btl_ib_rc_conn_t **at = qp_bucket(conn->all, conn->number);

    while (*at != conn) {
        at = &(*at)->next_qp;
    }
    *at = conn->next_qp;
}

btl_ib_rc_conn_t *btl_ib_rc_conns_of(btl_ib_rc_conns_t *conns, const struct ibv_wc *wc)
{
    const uint32_t slot = wc->wr_id >> 32 & ((1u << BTL_IB_RC_SLOT_BITS) - 1);

    if (!btl_ib_rc_wr_id_is_shared(wc->wr_id)) {
        return slot < conns->slots && conns->slot[slot].epoch == btl_ib_rc_wr_id_epoch(wc->wr_id)
                   ? conns->slot[slot].conn
                   : NULL;
    }
    btl_ib_rc_conn_t *conn = *qp_bucket(conns, wc->qp_num);
    while (conn != NULL && conn->number != wc->qp_num) {
        conn = conn->next_qp;
    }
    return conn;
}

/* ---- making connections ---- */

static void conn_free(btl_ib_rc_conn_t *conn)
{
    if (conn->rdma != NULL && conn->rdma->bounce_bytes > 0) {
        conn->all->bounce_bytes -= conn->rdma->bounce_bytes;
    }
    btl_ib_rc_rdma_free(conn->rdma);
    btl_ib_rc_eager_free(conn->eager);
    free(conn->rx.buffer);
    btl_ib_verbs_send_ring_free(&conn->sq.ring);
    if (conn->memory != NULL) {
        (void) munmap(conn->memory, conn->memory_size);
    }
    free(conn);
}

btl_ib_rc_conn_t *btl_ib_rc_conn_new(btl_ib_rc_conns_t *conns, struct btl_ib_rc_peer *peer,
                                     uint64_t peer_cookie, uint8_t channel, struct rdma_cm_id *id)
{
    const uint32_t depth = channel < BTL_IB_RC_QUEUES_MAX ? conns->port->channel_tx_depth[channel]
                                                          : conns->port->tx_depth;
    btl_ib_rc_conn_t *conn = calloc(1, sizeof(*conn));

    if (conn == NULL || (conns->free_slot == 0 && slots_grow(conns) != 0)) {
        free(conn);
        return NULL;
    }
    const uint32_t slot = conns->free_slot - 1;
    conn->sq.all = &conns->sqs;
    conn->sq.id = btl_ib_rc_wr_id_base(conns->slot[slot].epoch, slot);
    if (!btl_ib_verbs_send_ring_init(&conn->sq.ring, depth)
        || (channel == BTL_IB_RC_RDMA_CHANNEL
            && (conn->rdma = btl_ib_rc_rdma_new(&conn->sq, &conn->credit, depth)) == NULL)) {
        conn_free(conn);
        return NULL;
    }
    conn->all = conns;
    conn->peer = peer;
    conn->peer_cookie = peer_cookie;
    conn->channel = channel;
    conn->initiator = id == NULL;
    conn->stage = id == NULL ? BTL_IB_RC_RESOLVING : BTL_IB_RC_ACCEPTED;
    conn->begun_at = btl_ib_rc_now_us();
    conn->slot = slot;
    conns->free_slot = conns->slot[slot].next_free;
    conns->slot[slot].conn = conn;
    conns->pending++;
    conns->attempts += conn->initiator;
    if (id != NULL) {
        conn->id = id;
        id->context = conn;
    }
    return conn;
}

/* ---- memory forecasts ---- */

uint64_t btl_ib_rc_conns_rdma_bytes(const btl_ib_rc_port_t *port, uint64_t connections)
{
    const uint32_t depth = port->tx_depth;
    const uint64_t least = btl_ib_rc_rdma_bounce_bytes(port->bounce_size, port->bounce_num, 0);
    const uint64_t ring =
        btl_ib_rc_rdma_bounce_bytes(port->bounce_size, port->bounce_num, UINT64_MAX);
    const bool bounded = port->bounce_total > 0 && port->bounce_total < connections * ring;
    const size_t mapped = BTL_IB_VERBS_LINE
                          + CONTROL_BUFFERS * btl_ib_rc_rx_stride(BTL_IB_RC_CONTROL_BYTES)
                          + (bounded ? least : ring);

    return connections
               * (btl_ib_estimate_pages(mapped, btl_ib_verbs_page())
                  + btl_ib_rc_conn_heap(depth, CONTROL_BUFFERS) + sizeof(btl_ib_rc_rdma_t)
                  + depth * sizeof(btl_ib_rc_op_t))
           + (bounded ? port->bounce_total : 0);
}

uint32_t btl_ib_rc_conns_at_once(const btl_ib_open_rc_t *open, uint32_t channel, uint32_t peers)
{
    const bool stays = open->idle == 0 || (channel == 0 && !open->idle_first);

    return stays || open->busy == 0 ? peers : btl_ib_verbs_min(open->busy, peers);
}

uint64_t btl_ib_rc_conns_slots(uint64_t connections)
{
    return btl_ib_estimate_doubled(FIRST_SLOTS, connections) * sizeof(btl_ib_rc_slot_t);
}

/* ---- memory and queue pair of a connection ---- */

/* Returns the bytes of a new connection's bounce buffers, within the bound on all together. */
static uint32_t bounce_share(const btl_ib_rc_conns_t *conns)
{
    const btl_ib_rc_port_t *port = conns->port;
    uint64_t left = UINT64_MAX;

    if (port->bounce_total > 0) {
        left =
            port->bounce_total > conns->bounce_bytes ? port->bounce_total - conns->bounce_bytes : 0;
    }
    return btl_ib_rc_rdma_bounce_bytes(port->bounce_size, port->bounce_num, left);
}

/* Maps and registers the memory of a connection, and makes its buffers. Returns 0 or a negative
 * errno. */
static int conn_make_memory(btl_ib_rc_conn_t *conn, const btl_ib_rc_address_t *peer)
{
    btl_ib_rc_conns_t *conns = conn->all;
    const btl_ib_verbs_t *verbs = &conns->port->verbs;
    const bool rdma = conn->rdma != NULL;
    uint32_t count = CONTROL_BUFFERS;
    uint32_t size = BTL_IB_RC_CONTROL_BYTES;
    uint32_t low = CONTROL_BUFFERS - 1;
    uint32_t window = 1;
    uint32_t reserve = 0;

    if (conn->channel
        < conns->rxqs->count) { /* else it is for memory, or a queue of the peer's only */
        const btl_ib_rc_rxq_t *queue = &conns->rxqs->queue[conn->channel];
        count = queue->shared ? 0 : queue->num;
        size = queue->shared ? 0 : queue->size;
        low = queue->low;
        window = queue->window;
        reserve = queue->reserve;
    }
    const size_t ring = btl_ib_rc_eager_bytes(conns->eagers, conn->channel);
    const size_t before =
        BTL_IB_VERBS_LINE + ring + btl_ib_rc_eager_tails(conns->eagers, conn->channel);
    const size_t buffers = btl_ib_rc_conn_mapped(conns->eagers, conn->channel, count, size);
    /* The peer's answer to a read over iWARP needs the right to write (RFC 5040, 3.2). */
    const unsigned access = rdma && conns->port->iwarp ? IBV_ACCESS_REMOTE_WRITE : 0;
    const uint32_t bounce = rdma ? bounce_share(conns) : 0;
    conn->memory_size = buffers + bounce;
    conn->mr = btl_ib_verbs_slab_alloc(verbs, conn->memory_size, access);
    if (conn->mr == NULL) {
        return -errno;
    }
    conn->memory = conn->mr->addr;
    const uint32_t key = conn->mr->lkey;
    if (rdma) {
        conn->rdma->bounce = conn->memory + buffers;
        conn->rdma->bounce_bytes = bounce;
        conns->bounce_bytes += bounce;
        conn->rdma->lkey = key;
    }
    const int error = btl_ib_rc_credit_init(&conn->credit, &conn->sq, verbs, conn->memory, key,
                                            count - reserve, window, rdma);
    if (error != 0) {
        return error;
    }
    if (ring > 0) {
        conn->eager = btl_ib_rc_eager_new(conns->eagers, conn, conn->channel, &conn->credit, peer,
                                          conn->memory + BTL_IB_VERBS_LINE);
    }
    return count == 0 ? 0
                      : btl_ib_rc_rx_make(&conn->rx, conn, count, size, low, conn->memory + before,
                                          key, btl_ib_rc_sq_id(&conn->sq, 0) | BTL_IB_RC_RECV);
}

/* Makes a connection's queue pair, with receive buffers of its own or with shared ones. Returns 0
 * or a negative errno after logging why. */
static int conn_make_qp(btl_ib_rc_conn_t *conn)
{
    const btl_ib_verbs_t *verbs = &conn->all->port->verbs;
    const bool shared = conn->rx.count == 0;
    struct ibv_qp_init_attr attr = {
        .send_cq = conn->cq->cq,
        .recv_cq = conn->cq->cq,
        .srq = shared ? conn->all->rxqs->queue[conn->channel].rx.pool.srq : NULL,
        .qp_type = IBV_QPT_RC,
        .cap =
            {
                .max_send_wr = conn->sq.ring.depth,
                .max_recv_wr = conn->rx.count,
                .max_send_sge = btl_ib_rc_eager_tails(conn->all->eagers, conn->channel) > 0 ? 2 : 1,
                .max_recv_sge = !shared,
                .max_inline_data = verbs->base.attr.inline_size,
            },
    };

    if (rdma_create_qp(conn->id, verbs->pd, &attr) != 0) {
        return btl_ib_verbs_failed(verbs, "rdma_create_qp", errno);
    }
    conn->qp = conn->id->qp;
    conn->sq.qp = conn->qp;
    conn->sq.inline_size = verbs->base.attr.inline_size;
    if (shared) {
        conn_enter_bucket(conn);
        return 0;
    }
    btl_ib_verbs_rx_pool_attach(&conn->rx.pool, conn->qp, NULL);
    const int error = btl_ib_verbs_rx_pool_post(&conn->rx.pool);
    return error == 0 ? 0 : btl_ib_verbs_failed(verbs, "ibv_post_recv", error);
}

int btl_ib_rc_conn_equip(btl_ib_rc_conn_t *conn, const btl_ib_rc_address_t *peer)
{
    const int error = conn_make_memory(conn, peer);

    if (error != 0) {
        return error;
    }
    conn->cq_entries = conn->sq.ring.depth + conn->rx.count;
    conn->cq = btl_ib_rc_cq_reserve(conn->all->cqs, conn->cq_entries);
    return conn->cq != NULL ? conn_make_qp(conn) : -errno;
}

struct rdma_conn_param btl_ib_rc_conn_offer(const btl_ib_rc_conn_t *conn, uint64_t to,
                                            uint8_t mtu_most, uint8_t *bytes)
{
    const btl_ib_rc_port_t *port = conn->all->port;
    const uint8_t reads = conn->rdma != NULL ? port->reads : 0;
    /* The side that accepts knows how many reads the other side serves. */
    const bool known = conn->rdma != NULL && !conn->initiator;
    btl_ib_rc_params_t params = {
        .channel = conn->channel,
        .to = to,
        .from = conn->all->self->cookie,
        .attempt = conn->all->attempts,
        .depth = conn->rx.count,
        .word = (uintptr_t) conn->memory,
        .word_key = conn->credit.mr->rkey,
        .reads = port->reads,
        .relaxed = port->relaxed,
        .mtu = qp_mtu_limit(port, mtu_most),
    };

    if (conn->eager != NULL) {
        params.eager_key = conn->eager->mr->rkey;
        params.eager_slots = (uint16_t) conn->all->eagers->slots;
        params.eager_slot = (uint16_t) conn->all->eagers->slot[conn->channel];
    }
    btl_ib_rc_params_pack(&params, bytes);
    return (struct rdma_conn_param){
        .private_data = bytes,
        .private_data_len = BTL_IB_RC_PRIVATE_MAX,
        .initiator_depth = known ? (uint8_t) conn->rdma->reads_max : reads,
        .responder_resources = reads,
        .retry_count = port->retry,
        .rnr_retry_count = port->rnr_retry,
    };
}

void btl_ib_rc_conn_join(btl_ib_rc_conn_t *conn, const btl_ib_rc_params_t *params)
{
    const btl_ib_rc_port_t *port = conn->all->port;

    conn->credit.peer_depth = params->depth;
    conn->credit.remote = params->word;
    conn->credit.remote_key = params->word_key;
    conn->eager_tx = (btl_ib_rc_eager_tx_t){.remote = params->word + BTL_IB_VERBS_LINE,
                                            .key = params->eager_key,
                                            .slots = params->eager_slots,
                                            .slot = params->eager_slot};
    if (btl_ib_rc_eager_tails(conn->all->eagers, conn->channel) > 0) {
        conn->eager_tx.tails = conn->memory + BTL_IB_VERBS_LINE
                               + btl_ib_rc_eager_bytes(conn->all->eagers, conn->channel);
        conn->eager_tx.tail_key = conn->mr->lkey;
    }
    if (conn->rdma != NULL) {
        conn->rdma->reads_max = btl_ib_verbs_min(params->reads, port->reads);
        conn->rdma->flushes = port->iwarp || params->relaxed;
    }
}

void btl_ib_rc_conn_open(btl_ib_rc_conn_t *conn)
{
    const btl_ib_rc_port_t *port = conn->all->port;
    struct ibv_qp_attr attr = {.min_rnr_timer = port->rnr_timer};
    int error = 0;

    /* rdma_cm sets the RNR timer to 655 ms, and has no parameter for it. It matters only for shared
     * buffers, as only these run out. */
    if (conn->rx.count == 0 && !port->iwarp) {
        error = ibv_modify_qp(conn->qp, &attr, IBV_QP_MIN_RNR_TIMER);
    }
    if (error != 0) {
        (void) btl_ib_verbs_failed(&port->verbs, "ibv_modify_qp", error);
    }
    conn->stage = BTL_IB_RC_OPEN;
    conn->waits = 0;
    conn->opened_at = btl_ib_rc_now_us();
    conn->all->pending--;
    conn->credit.open = conn->rdma == NULL;
}

/* ---- closing connections ---- */

/* Frees a connection if it is closed and nothing of it is in use any more. */
static void conn_free_unused(btl_ib_rc_conn_t *conn)
{
    btl_ib_rc_conn_t **at = &conn->all->closed;

    if (conn->stage != BTL_IB_RC_CLOSED || conn->id != NULL || conn->held > 0 || conn->reporting) {
        return;
    }
    while (*at != conn) {
        at = &(*at)->next_closed;
    }
    *at = conn->next_closed;
    conn_free(conn);
}

static void deregister(struct ibv_mr **mr)
{
    btl_ib_verbs_mem_deregister(NULL, *mr);
    *mr = NULL;
}

/* Destroys the queue pair of a closed connection and deregisters its memory: all sends are over. */
static void conn_release(btl_ib_rc_conn_t *conn)
{
    conn->all->draining -= conn->draining;
    conn->draining = false;
    if (conn->qp != NULL) {
        conn->id->qp = conn->qp;
        rdma_destroy_qp(conn->id);
        conn->qp = NULL;
    }
    if (conn->id != NULL) {
        (void) rdma_destroy_id(conn->id);
        conn->id = NULL;
    }
    if (conn->cq != NULL) {
        conn->cq->leaving += conn->cq_entries;
        conn->cq = NULL;
    }
    if (conn->eager != NULL) {
        deregister(&conn->eager->mr);
    }
    deregister(&conn->credit.mr);
    deregister(&conn->mr);
    btl_ib_rc_conn_sent(conn, conn->sq.ring.posted, EPIPE);
}

/*
 * Makes a queue pair that takes shared buffers fail, so that it returns them. Returns true if the
 * queue pair has to stay until it has (IBTA 10.3.1, "Last WQE Reached"): buffers whose completions
 * are not read before it is destroyed would be lost for all peers.
 */
static bool conn_drain(btl_ib_rc_conn_t *conn)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (conn->qp == NULL || conn->qp->srq == NULL || conn->all->state->error != 0
        || conn->stage < BTL_IB_RC_ACCEPTED
        || (rdma_disconnect(conn->id) != 0 && ibv_modify_qp(conn->qp, &attr, IBV_QP_STATE) != 0)) {
        return false;
    }
    conn->drain_until = btl_ib_rc_now_us() + DRAIN_US;
    conn->all->draining++;
    return true;
}

void btl_ib_rc_conn_close(btl_ib_rc_conn_t *conn)
{
    btl_ib_rc_conns_t *conns = conn->all;

    conn->draining = conn_drain(conn);
    if (conn->qp != NULL && conn->rx.count == 0) {
        conn_leave_bucket(conn);
    }
    conns->owing = conns->owing != conn ? conns->owing : NULL;
    btl_ib_rc_eager_close(conns->eagers, conn->eager);
    conn->credit.open = false;
    btl_ib_rc_sq_close(&conn->sq);
    conns->pending -= conn->stage < BTL_IB_RC_OPEN;
    conns->suspected -= conn->suspect_until != 0;
    slot_free(conn);
    conn->stage = BTL_IB_RC_CLOSED;
    conn->peer = NULL;
    conn->next_closed = conns->closed;
    conns->closed = conn;
    if (!conn->answer_due) {
        btl_ib_rc_conn_answered(conn);
    }
}

void btl_ib_rc_conn_answered(btl_ib_rc_conn_t *conn)
{
    conn->answer_due = false;
    if (conn->stage == BTL_IB_RC_CLOSED && !conn->draining) {
        conn_release(conn);
        conn_free_unused(conn);
    }
}

void btl_ib_rc_conn_suspect(btl_ib_rc_conn_t *conn)
{
    if (conn->suspect_until == 0) {
        conn->suspect_until = btl_ib_rc_now_us() + SUSPECT_US;
        conn->all->suspected++;
    }
}

void btl_ib_rc_conns_last_wqe(btl_ib_rc_conns_t *conns, const struct ibv_qp *qp)
{
    btl_ib_rc_conn_t *conn = *qp_bucket(conns, qp->qp_num);

    for (; conn != NULL; conn = conn->next_qp) {
        conn->last_wqe = conn->last_wqe || conn->qp == qp;
    }
    for (conn = conns->closed; conn != NULL; conn = conn->next_closed) {
        conn->last_wqe = conn->last_wqe || conn->qp == qp;
    }
}

void btl_ib_rc_conns_drained(btl_ib_rc_conns_t *conns, const btl_ib_rc_cq_t *cq)
{
    const uint64_t now = btl_ib_rc_now_us();

    for (btl_ib_rc_conn_t *conn = conns->closed, *next; conn != NULL; conn = next) {
        next = conn->next_closed;
        if (conn->draining && conn->cq == cq && (conn->last_wqe || now >= conn->drain_until)) {
            conn_release(conn);
            conn_free_unused(conn);
        }
    }
}

void btl_ib_rc_conns_release(btl_ib_rc_conns_t *conns)
{
    for (btl_ib_rc_conn_t *conn = conns->closed; conn != NULL; conn = conn->next_closed) {
        conn_release(conn);
    }
}

void btl_ib_rc_conns_free(btl_ib_rc_conns_t *conns)
{
    while (conns->closed != NULL) {
        btl_ib_rc_conn_t *conn = conns->closed;
        conns->closed = conn->next_closed;
        conn_free(conn);
    }
    free(conns->slot);
}

/* ---- traffic ---- */

static void conn_report(btl_ib_rc_conn_t *conn)
{
    if (!conn->reporting) {
        conn->reporting = true;
        conn->next_reporting = conn->all->reporting;
        conn->all->reporting = conn;
    }
}

void btl_ib_rc_conn_sent(btl_ib_rc_conn_t *conn, uint32_t completed, int error)
{
    if (conn->rdma != NULL) {
        btl_ib_rc_rdma_complete(conn->rdma, completed, error);
    }
    if (btl_ib_verbs_send_ring_complete(&conn->sq.ring, completed)) {
        conn_report(conn);
    }
}

static btl_ib_event_t conn_event(const btl_ib_rc_conn_t *conn, void *context)
{
    const btl_ib_rc_op_t *op = context;

    if (conn->rdma == NULL) {
        return (btl_ib_event_t){.type = BTL_IB_EVENT_SENT, .context = context};
    }
    return (btl_ib_event_t){.type = BTL_IB_EVENT_RDMA,
                            .error = op->error,
                            .from = BTL_IB_ADDR_UNKNOWN,
                            .context = op->context};
}

int btl_ib_rc_conns_report(btl_ib_rc_conns_t *conns, btl_ib_event_t *events, int max)
{
    int count = 0;

    while (conns->reporting != NULL && count < max) {
        btl_ib_rc_conn_t *conn = conns->reporting;
        void *context = btl_ib_verbs_send_ring_next(&conn->sq.ring);
        if (context != NULL) {
            events[count++] = conn_event(conn, context);
            continue;
        }
        conns->reporting = conn->next_reporting;
        conn->reporting = false;
        btl_ib_rc_credit_update(&conn->credit); /* the send queue may have room now */
        conn_free_unused(conn);
    }
    return count;
}

bool btl_ib_rc_conn_unhold(btl_ib_rc_conn_t *conn, int buffers)
{
    conn->held -= (uint32_t) buffers;
    if (conn->stage == BTL_IB_RC_CLOSED) {
        conn_free_unused(conn);
        return false;
    }
    return true;
}
