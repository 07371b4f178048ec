/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Measures what bare queue pairs can do between ranks 0 and 1, by libibverbs alone: the floor
 * (floor.h, with all other arguments) under any transport over RDMA devices. wire=ud  datagrams of
 * the MTU; bursts are chained and leave by one doorbell, from user memory wire=rc  datagrams of
 * RC_DATAGRAM bytes; longer messages and streams are written straight into the other
 *          rank's memory, each piece with a number that tells of it
 * device=NAME[:PORT]  which (the first that is active)
 * Sends are inline as far as the device allows, and only each SIGNAL_EVERYth is signalled.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>

#include "floor.h"
#include "floor_port.h"

enum {
    RC_DATAGRAM = 8192,
    BURST_MAX = 16, /* datagrams of a burst */
    SEND_DEPTH = 256,
    SIGNAL_EVERY = 64,
    RING = 512,       /* receive buffers */
    POST_EVERY = 16,  /* of them */
    LOOK = 16,        /* completions of a look */
    LINE = 64,        /* bytes of a cache line, where a datagram begins behind its GRH */
    PIECE = 64 << 10, /* bytes that one operation writes */
    UD_WINDOW = 256 << 10,
    RC_WINDOW = 1 << 20, /* bytes on their way */
    SILENCE_US = 500000, /* nothing is lost on most days */
};

struct carrier {
    port_t port;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_qp *qp;
    struct ibv_ah *ah; /* UD */
    card_t peer;
    size_t stride; /* of receive buffers */
    uint32_t grh;  /* bytes that the device puts in front of what came */
    unsigned char *slots, *ring;
    struct ibv_mr *slots_mr, *ring_mr, *out_mr, *in_mr;
    uint32_t inline_max;
    uint64_t posted, left; /* sends, and how many of them the device is done with */
    struct ibv_wc wc[LOOK];
    int came, looked_at;  /* of wc[] */
    int idle[POST_EVERY]; /* receive buffers to be posted again */
    int idle_count;
    uint64_t their_memory;
    uint32_t their_key;
};

/* ---- receive buffers ---- */

static unsigned char *buffer_at(const struct carrier *carrier, int i)
{
    return carrier->ring + (size_t) i * carrier->stride + LINE;
}

static void post_idle(struct carrier *carrier)
{
    struct ibv_recv_wr wrs[POST_EVERY], *bad;
    struct ibv_sge sges[POST_EVERY];

    for (int i = 0; i < carrier->idle_count; i++) {
        sges[i] = (struct ibv_sge){
            .addr = (uintptr_t) buffer_at(carrier, carrier->idle[i]) - carrier->grh,
            .length = (uint32_t) carrier->stride - LINE + carrier->grh,
            .lkey = carrier->ring_mr->lkey,
        };
        wrs[i] = (struct ibv_recv_wr){
            .wr_id = (uint64_t) carrier->idle[i],
            .next = i + 1 < carrier->idle_count ? &wrs[i + 1] : NULL,
            .sg_list = &sges[i],
            .num_sge = 1,
        };
    }
    must_be_0("ibv_post_recv", ibv_post_recv(carrier->qp, wrs, &bad));
    carrier->idle_count = 0;
}

static void give_back(struct carrier *carrier, int i)
{
    carrier->idle[carrier->idle_count++] = i;
    if (carrier->idle_count == POST_EVERY) {
        post_idle(carrier);
    }
}

/* ---- opening ---- */

static void make_qp(struct carrier *carrier, int is_rc)
{
    struct ibv_qp_init_attr init;

    carrier->send_cq = ibv_create_cq(carrier->port.context, SEND_DEPTH, NULL, NULL, 0);
    carrier->recv_cq = ibv_create_cq(carrier->port.context, RING, NULL, NULL, 0);
    if (carrier->send_cq == NULL || carrier->recv_cq == NULL) {
        fail_at("ibv_create_cq", errno);
    }
    /* Devices differ in how much they send inline: less until one agrees. */
    for (uint32_t bytes = 256; carrier->qp == NULL; bytes /= 2) {
        init = (struct ibv_qp_init_attr){
            .send_cq = carrier->send_cq,
            .recv_cq = carrier->recv_cq,
            .cap = {.max_send_wr = SEND_DEPTH,
                    .max_recv_wr = RING,
                    .max_send_sge = 2,
                    .max_recv_sge = 1,
                    .max_inline_data = bytes},
            .qp_type = is_rc ? IBV_QPT_RC : IBV_QPT_UD,
        };
        carrier->qp = ibv_create_qp(carrier->port.pd, &init);
        if (carrier->qp == NULL && bytes == 0) {
            fail_at("ibv_create_qp", errno);
        }
    }
    carrier->inline_max = init.cap.max_inline_data;
}

static void make_buffers(flow_t *flow)
{
    struct carrier *carrier = flow->carrier;
    size_t datagram = (size_t) flow->datagram;

    carrier->stride = LINE + (datagram + LINE - 1) / LINE * LINE;
    carrier->slots = get_memory(SEND_DEPTH * datagram);
    carrier->slots_mr = expose(&carrier->port, carrier->slots, SEND_DEPTH * datagram);
    carrier->ring = get_memory(RING * carrier->stride);
    carrier->ring_mr = expose(&carrier->port, carrier->ring, RING * carrier->stride);
    for (int i = 0; i < RING; i++) {
        give_back(carrier, i);
    }
}

/* The path's MTU is what both ports have. */
static int meet(struct carrier *carrier, int is_rc)
{
    card_t own = card_of(&carrier->port, carrier->qp, is_rc);

    MPI_Sendrecv(&own, sizeof(own), MPI_BYTE, 1 - rank, 1, &carrier->peer, sizeof(own), MPI_BYTE,
                 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (carrier->peer.is_rc != own.is_rc || carrier->peer.is_ethernet != own.is_ethernet) {
        fail("the other rank's device or wire is of another kind");
    }
    return own.mtu < carrier->peer.mtu ? own.mtu : carrier->peer.mtu;
}

static uint64_t least(int a, int b)
{
    return (uint64_t) (a < b ? a : b);
}

static void carrier_open(flow_t *flow, int argc, char **argv)
{
    const char *wire = arg_text(argc, argv, "wire", "ud");
    int is_rc = strcmp(wire, "rc") == 0, mtu;
    struct carrier *carrier = get_memory(sizeof(*carrier));

    if (!is_rc && strcmp(wire, "ud") != 0) {
        fail("wire=%s: ud or rc", wire);
    }
    memset(carrier, 0, sizeof(*carrier));
    carrier->grh = is_rc ? 0 : GRH;
    port_open(&carrier->port, arg_text(argc, argv, "device", ""));
    make_qp(carrier, is_rc);
    to_init(&carrier->port, carrier->qp, is_rc);
    mtu = meet(carrier, is_rc);
    flow->carrier = carrier;
    flow->datagram = is_rc ? RC_DATAGRAM : bytes_of(mtu);
    flow->window = is_rc ? RC_WINDOW : least(UD_WINDOW, RING / 4 * flow->datagram);
    flow->ack_every = flow->window / 4;
    flow->silence = SILENCE_US;
    make_buffers(flow);
    if (is_rc) {
        connect_rc(&carrier->port, carrier->qp, &carrier->peer, mtu);
    } else {
        carrier->ah = ready_ud(&carrier->port, carrier->qp, &carrier->peer);
    }
}

static void carrier_close(flow_t *flow)
{
    struct carrier *carrier = flow->carrier;

    must_be_0("ibv_destroy_qp", ibv_destroy_qp(carrier->qp));
    ibv_destroy_cq(carrier->send_cq);
    ibv_destroy_cq(carrier->recv_cq);
    if (carrier->ah != NULL) {
        ibv_destroy_ah(carrier->ah);
    }
    ibv_dereg_mr(carrier->slots_mr);
    ibv_dereg_mr(carrier->ring_mr);
    port_close(&carrier->port);
    free(carrier->slots);
    free(carrier->ring);
    free(carrier);
}

/* ---- sending ---- */

static void look_at_sends(struct carrier *carrier)
{
    struct ibv_wc wc;
    int n = ibv_poll_cq(carrier->send_cq, 1, &wc);

    if (n < 0 || (n > 0 && wc.status != IBV_WC_SUCCESS)) {
        fail("a send: %s", n < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status));
    }
    if (n > 0) {
        carrier->left = wc.wr_id;
    }
}

/* Posts them in one call; each knows what it sends, the rest is here. */
static void post(struct carrier *carrier, struct ibv_send_wr *wrs, int count, int signal_last)
{
    struct ibv_send_wr *bad;

    while (carrier->posted + (uint64_t) count - carrier->left > SEND_DEPTH) {
        look_at_sends(carrier);
    }
    for (int i = 0; i < count; i++) {
        struct ibv_send_wr *wr = &wrs[i];
        wr->wr_id = ++carrier->posted;
        wr->next = i + 1 < count ? wr + 1 : NULL;
        if (wr->wr_id % SIGNAL_EVERY == 0 || (signal_last && i + 1 == count)) {
            wr->send_flags |= IBV_SEND_SIGNALED;
        }
        if (carrier->ah != NULL) {
            wr->wr.ud.ah = carrier->ah;
            wr->wr.ud.remote_qpn = carrier->peer.qpn;
            wr->wr.ud.remote_qkey = QKEY;
        }
    }
    must_be_0("ibv_post_send", ibv_post_send(carrier->qp, wrs, &bad));
}

/* All that was posted so far is done with by the device. */
static void settle(struct carrier *carrier)
{
    struct ibv_send_wr nothing = {.opcode = IBV_WR_SEND};

    post(carrier, &nothing, 1, 1);
    while (carrier->left < carrier->posted) {
        look_at_sends(carrier);
    }
}

/* The pieces of a datagram: user memory as it is, all else by way of a slot. */
static void gather(flow_t *flow, struct ibv_sge *sge, const struct iovec *parts, size_t count,
                   uint64_t number)
{
    struct carrier *carrier = flow->carrier;
    unsigned char *slot =
        carrier->slots + number % SEND_DEPTH * (uint64_t) (unsigned) flow->datagram;

    for (size_t i = 0; i < count; i++) {
        unsigned char *at = parts[i].iov_base;
        uint32_t key = carrier->out_mr->lkey;
        if (at < flow->out || at >= flow->out + flow->span) {
            memcpy(slot, at, parts[i].iov_len);
            at = slot;
            slot += parts[i].iov_len;
            key = carrier->slots_mr->lkey;
        }
        sge[i] = (struct ibv_sge){
            .addr = (uintptr_t) at, .length = (uint32_t) parts[i].iov_len, .lkey = key};
    }
}

static void gather_inline(struct ibv_sge *sge, const struct iovec *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sge[i] = (struct ibv_sge){.addr = (uintptr_t) parts[i].iov_base,
                                  .length = (uint32_t) parts[i].iov_len};
    }
}

static void segment_by(flow_t *flow, int bytes)
{
    flow->burst = CALL_MAX / bytes < BURST_MAX ? CALL_MAX / bytes : BURST_MAX;
}

static void send_burst(flow_t *flow, const struct iovec *parts, size_t count, size_t of_each)
{
    struct carrier *carrier = flow->carrier;
    struct ibv_send_wr wrs[BURST_MAX];
    struct ibv_sge sges[BURST_MAX][2];
    int n = 0;

    /* Before slots are written to again. */
    while (carrier->posted + BURST_MAX - carrier->left > SEND_DEPTH) {
        look_at_sends(carrier);
    }
    for (; count > 0; n++, parts += of_each, count -= of_each) {
        size_t length = 0;
        for (size_t i = 0; i < of_each; i++) {
            length += parts[i].iov_len;
        }
        wrs[n] = (struct ibv_send_wr){
            .opcode = IBV_WR_SEND, .sg_list = sges[n], .num_sge = (int) of_each};
        if (length <= carrier->inline_max) {
            gather_inline(sges[n], parts, of_each);
            wrs[n].send_flags = IBV_SEND_INLINE;
        } else {
            gather(flow, sges[n], parts, of_each, carrier->posted + (uint64_t) n);
        }
    }
    post(carrier, wrs, n, 0);
}

/* RC: a piece to where it belongs. */
static size_t write_next(flow_t *flow, size_t left)
{
    struct carrier *carrier = flow->carrier;
    size_t at = flow->sent % flow->span, length = left < PIECE ? left : PIECE;

    if (left == 0 || flow->sent - flow->acked >= flow->window) {
        return 0;
    }
    length = flow->span - at < length ? flow->span - at : length;
    struct ibv_sge sge = {.addr = (uintptr_t) (flow->out + at),
                          .length = (uint32_t) length,
                          .lkey = carrier->out_mr->lkey};
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
        .sg_list = &sge,
        .num_sge = 1,
        .imm_data = htonl(flow->message),
        .wr.rdma = {.remote_addr = carrier->their_memory + at, .rkey = carrier->their_key}};
    post(carrier, &wr, 1, 0);
    flow->sent += length;
    return length;
}

static size_t send_next(flow_t *flow, size_t left)
{
    return flow->carrier->ah == NULL ? write_next(flow, left) : send_segments(flow, left);
}

/* ---- receiving ---- */

static int receive(flow_t *flow)
{
    struct carrier *carrier = flow->carrier;

    if (carrier->looked_at == carrier->came) {
        carrier->looked_at = 0;
        carrier->came = ibv_poll_cq(carrier->recv_cq, LOOK, carrier->wc);
        if (carrier->came < 0) {
            fail("ibv_poll_cq");
        }
        if (carrier->came == 0) {
            return 0;
        }
    }
    const struct ibv_wc *wc = &carrier->wc[carrier->looked_at++];
    if (wc->status != IBV_WC_SUCCESS) {
        fail("a receive: %s", ibv_wc_status_str(wc->status));
    }
    /* What is read before the next look stays: the device fills other buffers first. */
    give_back(carrier, (int) wc->wr_id);
    if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        flow->placed = wc->byte_len;
        flow->placed_of = ntohl(wc->imm_data);
        return 0;
    }
    flow->hot = buffer_at(carrier, (int) wc->wr_id);
    return (int) (wc->byte_len - carrier->grh);
}

/* ---- user memory ---- */

static void carrier_use(flow_t *flow)
{
    struct carrier *carrier = flow->carrier;
    uint64_t own[2], their[2];

    carrier->out_mr = expose(&carrier->port, flow->out, flow->span);
    carrier->in_mr = expose(&carrier->port, flow->in, flow->span);
    own[0] = (uintptr_t) flow->in;
    own[1] = carrier->in_mr->rkey;
    MPI_Sendrecv(own, 2, MPI_UINT64_T, 1 - rank, 3, their, 2, MPI_UINT64_T, 1 - rank, 3,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    carrier->their_memory = their[0];
    carrier->their_key = (uint32_t) their[1];
}

static void carrier_forget(flow_t *flow)
{
    struct carrier *carrier = flow->carrier;

    settle(carrier);
    MPI_Barrier(MPI_COMM_WORLD);
    do {
        flow->placed = 0;
    } while (receive(flow) > 0 || carrier->came > 0);
    ibv_dereg_mr(carrier->out_mr);
    ibv_dereg_mr(carrier->in_mr);
}

int main(int argc, char **argv)
{
    measure(argc, argv, "floor_verbs");
    return 0;
}
