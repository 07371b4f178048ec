/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "fake_rdma_state.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "refusals.h"
#include "unit.h"

enum {
    WR_MAX = 65536, /* of a queue pair */
    MR_BUCKETS = 4096,
    GATHERED = 8192, /* bytes of a request of several pieces */
};

typedef struct fake_srq {
    struct ibv_srq srq; /* first */
    recv_queue_t posted;
    uint32_t room;
    uint32_t limit; /* it says when fewer are posted, once; 0: it does not */
} fake_srq_t;

fake_rdma_t fake;
struct ibv_device fake_device = {.name = "fake0"};
struct ibv_context fake_context;
static fake_qp_t *qps;
static fake_mr_t *mrs[MR_BUCKETS]; /* by key */
static uint32_t keys, numbers;

/* ---- the clock ---- */

/* Hidden from libraries: UCX waits before main() until time has passed. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    fake.now += fake.tick;
    now->tv_sec = (time_t) (fake.now / 1000000);
    now->tv_nsec = (long) (fake.now % 1000000) * 1000;
    return 0;
}

/* ---- the host: an interface of 10.0.0.1/24 ---- */

int getifaddrs(struct ifaddrs **all)
{
    static char name[] = "eth7";
    static struct sockaddr_in address = {.sin_family = AF_INET};
    static struct sockaddr_in mask = {.sin_family = AF_INET};
    static struct ifaddrs only = {.ifa_name = name,
                                  .ifa_flags = IFF_UP,
                                  .ifa_addr = (struct sockaddr *) (void *) &address,
                                  .ifa_netmask = (struct sockaddr *) (void *) &mask};

    address.sin_addr.s_addr = htonl(0x0a000001);
    mask.sin_addr.s_addr = htonl(0xffffff00);
    *all = &only;
    return 0;
}

void freeifaddrs(struct ifaddrs *all)
{
}

/* Found as functions of a preloaded library are (btl_ib_library.h). */
#pragma GCC visibility push(default)

/* ---- memory ---- */

fake_mr_t *fake_rdma_mr(uint32_t key)
{
    fake_mr_t *mr = mrs[key % MR_BUCKETS];

    while (mr != NULL && mr->mr.lkey != key) {
        mr = mr->next;
    }
    return mr;
}

int fake_rdma_access(uint32_t key)
{
    return fake_rdma_mr(key)->access;
}

void fake_rdma_check_memory(uint32_t key, uint64_t at, uint32_t len, int access)
{
    const fake_mr_t *mr = fake_rdma_mr(key);

    assert_non_null(mr);
    assert_true(at >= (uintptr_t) mr->mr.addr
                && at + len <= (uintptr_t) mr->mr.addr + mr->mr.length);
    assert_int_equal(mr->access & access, access);
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    if (refusal_of("ibv_reg_mr") != 0) {
        return NULL;
    }
    const bool full = fake.mr_total != 0 && fake.mr_bytes + length > fake.mr_total;
    if (fake.mrs_left == 0 || full || (fake.mr_max != 0 && length > fake.mr_max)) {
        fake.reg_failures++;
        errno = fake.mrs_left == 0 || full ? ENOMEM : EINVAL;
        return NULL;
    }
    fake.mrs_left -= fake.mrs_left > 0;
    fake_mr_t *mr = calloc(1, sizeof(*mr));
    mr->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
    mr->mr.lkey = mr->mr.rkey = ++keys;
    mr->access = access;
    mr->next = mrs[keys % MR_BUCKETS];
    mrs[keys % MR_BUCKETS] = mr;
    fake_objects++;
    fake.regs++;
    fake.mrs++;
    fake.mr_bytes += length;
    return &mr->mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access)
{
    (void) iova;
    return ibv_reg_mr(pd, addr, length, (int) access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    fake_mr_t **at = &mrs[mr->lkey % MR_BUCKETS];

    while (&(*at)->mr != mr) {
        at = &(*at)->next;
    }
    *at = (*at)->next;
    fake.mr_bytes -= mr->length;
    free(mr);
    fake_objects--;
    fake.deregs++;
    fake.mrs--;
    return 0;
}

/* ---- buffers ---- */

static int post_to(recv_queue_t *queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    *bad = NULL;
    for (; wr != NULL; wr = wr->next) {
        recv_t *recv = calloc(1, sizeof(*recv));
        recv_t **at = &queue->first;
        assert_int_equal(wr->num_sge, 1);
        fake_rdma_check_memory(wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length,
                               IBV_ACCESS_LOCAL_WRITE);
        recv->wr_id = wr->wr_id;
        recv->sge = *wr->sg_list;
        while (*at != NULL) {
            at = &(*at)->next;
        }
        *at = recv;
        queue->count++;
    }
    return 0;
}

static recv_t *take(recv_queue_t *queue)
{
    recv_t *recv = queue->first;

    if (recv != NULL) {
        queue->first = recv->next;
        queue->count--;
    }
    return recv;
}

static void empty(recv_queue_t *queue)
{
    recv_t *recv;

    while ((recv = take(queue)) != NULL) {
        free(recv);
    }
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    if (fake.recv_error != 0 || refusal_of("ibv_post_recv") != 0) {
        *bad = wr;
        return fake.recv_error != 0 ? fake.recv_error : errno;
    }
    return post_to(&((fake_qp_t *) qp)->posted, wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    if (refusal_of("ibv_post_srq_recv") != 0) {
        *bad = wr;
        return errno;
    }
    const int error = post_to(&((fake_srq_t *) srq)->posted, wr, bad);

    assert_true(((fake_srq_t *) srq)->posted.count <= ((fake_srq_t *) srq)->room);
    return error;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    if (refusal_of("ibv_create_srq") != 0) {
        return NULL;
    }
    fake_srq_t *srq = calloc(1, sizeof(*srq));

    srq->room = attr->attr.max_wr;
    srq->srq.context = pd->context;
    srq->srq.pd = pd;
    fake_objects++;
    return &srq->srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    if (refusal_of("ibv_modify_srq") != 0) {
        return errno;
    }
    assert_int_equal(mask, IBV_SRQ_LIMIT);
    if (fake.no_limit) {
        return EOPNOTSUPP;
    }
    assert_true(attr->srq_limit <= ((fake_srq_t *) srq)->posted.count);
    ((fake_srq_t *) srq)->limit = attr->srq_limit;
    return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    fake_unsay(srq);
    empty(&((fake_srq_t *) srq)->posted);
    free(srq);
    fake_objects--;
    return 0;
}

/* ---- queue pairs ---- */

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    if (refusal_of("ibv_create_qp") != 0) {
        return NULL;
    }
    if (attr->cap.max_inline_data > fake.inline_max || fake.qps_left == 0) {
        errno = attr->cap.max_inline_data > fake.inline_max ? EINVAL : ENOMEM;
        return NULL;
    }
    fake.qps_left -= fake.qps_left > 0;
    fake.cap = attr->cap;
    fake_qp_t *qp = calloc(1, sizeof(*qp));
    qp->qp = (struct ibv_qp){.context = pd->context,
                             .pd = pd,
                             .send_cq = attr->send_cq,
                             .recv_cq = attr->recv_cq,
                             .srq = attr->srq,
                             .qp_num = ++numbers};
    qp->room = attr->cap.max_send_wr;
    qp->pieces = attr->cap.max_send_sge;
    qp->next = qps;
    qp->at = &qps;
    if (qps != NULL) {
        qps->at = &qp->next;
    }
    qps = qp;
    fake_objects++;
    fake.qps++;
    return &qp->qp;
}

int ibv_destroy_qp(struct ibv_qp *gone)
{
    fake_qp_t *qp = (fake_qp_t *) gone;

    *qp->at = qp->next;
    if (qp->next != NULL) {
        qp->next->at = qp->at;
    }
    if (qp->peer != NULL) {
        qp->peer->peer = NULL;
    }
    if (gone->srq != NULL) {
        fake_forget_completions(gone->recv_cq, gone->qp_num);
    }
    fake_unsay(qp);
    empty(&qp->posted);
    fake_rdma_drop_ops(qp);
    free(qp);
    fake_objects--;
    fake.qps--;
    return 0;
}

uint32_t fake_rdma_posted(const struct ibv_srq *srq)
{
    return ((const fake_srq_t *) srq)->posted.count;
}

uint32_t fake_rdma_posted_own(const struct ibv_qp *qp)
{
    return ((const fake_qp_t *) qp)->posted.count;
}

uint32_t fake_rdma_last_qp(void)
{
    return numbers;
}

void fake_rdma_flush(fake_qp_t *qp, enum ibv_wc_status status)
{
    recv_t *recv;
    struct ibv_wc wc = {.status = status, .qp_num = qp->qp.qp_num};

    qp->broken = true;
    if (qp->sent != qp->over && status != IBV_WC_WR_FLUSH_ERR) {
        wc.wr_id = qp->held != NULL ? qp->held->wr.wr_id : qp->last_id;
        fake_complete(qp->qp.send_cq, &wc, NULL, 0);
    }
    while ((recv = take(&qp->posted)) != NULL) {
        wc.wr_id = recv->wr_id;
        wc.status = IBV_WC_WR_FLUSH_ERR;
        fake_complete(qp->qp.recv_cq, &wc, NULL, 0);
        free(recv);
    }
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    if (refusal_of("ibv_modify_qp") != 0) {
        return errno;
    }
    if (mask == IBV_QP_MIN_RNR_TIMER) {
        fake.rnr_timer = attr->min_rnr_timer;
        return 0;
    }
    if (mask & IBV_QP_AV) {
        fake.level = attr->ah_attr.sl;
        fake.mtu[fake.levels % 4] = (uint8_t) attr->path_mtu;
        fake.levels++;
    }
    if (attr->qp_state != IBV_QPS_ERR) {
        qp->state = attr->qp_state;
        return 0;
    }
    assert_int_equal(mask, IBV_QP_STATE);
    fake_rdma_flush((fake_qp_t *) qp, IBV_WC_WR_FLUSH_ERR);
    if (qp->srq != NULL && !fake.never_last) {
        fake_say(&(struct ibv_async_event){.event_type = IBV_EVENT_QP_LAST_WQE_REACHED,
                                           .element.qp = qp});
    }
    return 0;
}

int fake_rdma_work(int n)
{
    int done = 0;

    for (fake_qp_t *qp = qps; qp != NULL; qp = qp->next) {
        for (; done < n && fake_rdma_next_op(qp); done++) {
        }
    }
    return done;
}

fake_qp_t *fake_rdma_qp(uint32_t qp_num)
{
    fake_qp_t *qp = qps;

    while (qp != NULL && qp->qp.qp_num != qp_num) {
        qp = qp->next;
    }
    assert_non_null(qp);
    return qp;
}

void fake_rdma_break(uint32_t qp_num, enum ibv_wc_status status)
{
    const fake_qp_t *qp = fake_rdma_qp(qp_num);

    if (qp->peer != NULL) {
        fake_rdma_flush(qp->peer, IBV_WC_WR_FLUSH_ERR);
    }
    fake_rdma_fail(qp_num, status);
}

void fake_rdma_fail(uint32_t qp_num, enum ibv_wc_status status)
{
    fake_rdma_flush(fake_rdma_qp(qp_num), status);
}

static void deliver(fake_qp_t *to, const struct ibv_send_wr *wr)
{
    fake_srq_t *srq = (fake_srq_t *) to->qp.srq;
    recv_t *recv = take(srq != NULL ? &srq->posted : &to->posted);
    struct ibv_wc wc = {.qp_num = to->qp.qp_num, .opcode = IBV_WC_RECV};

    assert_non_null(recv); /* iWARP would end the connection */
    for (int i = 0; i < wr->num_sge; i++) {
        assert_true(wr->sg_list[i].length <= recv->sge.length);
        memcpy((void *) (uintptr_t) recv->sge.addr, (void *) (uintptr_t) wr->sg_list[i].addr,
               wr->sg_list[i].length);
        wc.byte_len = wr->sg_list[i].length;
    }
    wc.wr_id = recv->wr_id;
    fake_complete(to->qp.recv_cq, &wc, NULL, 0);
    free(recv);
    if (srq != NULL && srq->posted.count < srq->limit) {
        srq->limit = 0;
        fake_say(&(struct ibv_async_event){.event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
                                           .element.srq = &srq->srq});
    }
}

void fake_rdma_execute(fake_qp_t *qp, const struct ibv_send_wr *wr, uint32_t number)
{
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    fake_qp_t *peer = qp->peer;

    if (qp->broken || peer == NULL || peer->broken) {
        return;
    }
    if (wr->opcode == IBV_WR_SEND) {
        deliver(peer, wr);
    } else {
        status = fake_rdma_operate(qp, wr);
    }
    if (status != IBV_WC_SUCCESS) {
        qp->last_id = wr->wr_id;
        fake_rdma_drop_ops(qp);
        fake_rdma_flush(peer, IBV_WC_WR_FLUSH_ERR);
        fake_rdma_flush(qp, status);
    } else if (wr->send_flags & IBV_SEND_SIGNALED) {
        struct ibv_wc wc = {.wr_id = wr->wr_id, .qp_num = qp->qp.qp_num};
        fake_complete(qp->qp.send_cq, &wc, NULL, 0);
        fake.completions++;
        qp->over = number + 1;
    }
}

/* The pieces of a request as one. */
static void send_gathered(fake_qp_t *qp, const struct ibv_send_wr *wr)
{
    uint8_t bytes[GATHERED];
    struct ibv_sge sge = {.addr = (uintptr_t) bytes};
    struct ibv_send_wr one = *wr;

    assert_int_equal(wr->send_flags & IBV_SEND_INLINE, 0);
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *piece = &wr->sg_list[i];
        assert_true(sge.length + piece->length <= GATHERED);
        fake_rdma_check_memory(piece->lkey, piece->addr, piece->length, 0);
        memcpy(bytes + sge.length, (void *) (uintptr_t) piece->addr, piece->length);
        sge.length += piece->length;
    }
    one.sg_list = &sge;
    one.num_sge = 1;
    qp->last_id = wr->wr_id;
    assert_true(qp->sent - qp->over < qp->room);
    if (!fake_rdma_hold(qp, &one, qp->sent++)) {
        fake_rdma_execute(qp, &one, qp->sent - 1);
    }
}

static void send_one(fake_qp_t *qp, const struct ibv_send_wr *wr)
{
    assert_true(wr->num_sge <= (int) qp->pieces);
    if (wr->num_sge > 1) {
        send_gathered(qp, wr);
        return;
    }
    const bool writes = wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_RDMA_WRITE;
    const int sink =
        writes ? 0 : IBV_ACCESS_LOCAL_WRITE | (fake.iwarp ? IBV_ACCESS_REMOTE_WRITE : 0);

    assert_true(qp->sent - qp->over < qp->room);
    qp->last_id = wr->wr_id;
    if (wr->num_sge > 0 && !(wr->send_flags & IBV_SEND_INLINE)) {
        fake_rdma_check_memory(wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length, sink);
    }
    assert_true(!(wr->send_flags & IBV_SEND_INLINE) || wr->sg_list->length <= fake.inline_max);
    if (!fake_rdma_hold(qp, wr, qp->sent++)) {
        fake_rdma_execute(qp, wr, qp->sent - 1);
    }
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    fake.posts++;
    if (refusal_of("ibv_post_send") != 0) {
        *bad = wr;
        return errno;
    }
    for (; wr != NULL; wr = wr->next) {
        if (fake.post_left == 0) {
            fake.post_left = -1;
            *bad = fake.post_silent ? *bad : wr;
            return fake.post_error;
        }
        fake.post_left -= fake.post_left > 0;
        send_one((fake_qp_t *) qp, wr);
    }
    return 0;
}

/* ---- the device ---- */

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
    if (refusal_of("ibv_query_device") != 0) {
        return errno;
    }
    *attr = (struct ibv_device_attr){.max_qp = 5000,
                                     .max_qp_wr = fake.wr_max,
                                     .max_srq = fake.srq_max,
                                     .max_srq_wr = WR_MAX,
                                     .max_cqe = (int) fake.cqe_max,
                                     .max_qp_rd_atom = fake.reads,
                                     .max_qp_init_rd_atom = fake.reads,
                                     .max_mr_size = fake.mr_told,
                                     .atomic_cap = fake.atomics,
                                     .phys_port_cnt = 1};
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    if (refusal_of("ibv_query_port") != 0) {
        return errno;
    }
    const struct ibv_port_attr active = {
        .state = fake.port_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
        .max_msg_sz = 1 << 20,
        .gid_tbl_len = 2,
        .link_layer = fake.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND,
        .active_mtu = fake.port_mtu != 0 ? fake.port_mtu : IBV_MTU_4096};

    memcpy(attr, &active, sizeof(active));
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                             uint32_t flags, size_t size)
{
    if (refusal_of("ibv_query_gid_table") != 0) {
        return -errno;
    }
    static const uint8_t ip[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1};

    (void) context;
    (void) flags;
    assert_true(max >= 1 && size == sizeof(*entries));
    entries[0] = (struct ibv_gid_entry){.port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
    memcpy(entries[0].gid.raw, ip, sizeof(ip));
    entries[0].gid.raw[15] = fake.gid_gone ? 2 : 1;
    return 1;
}

const char *ibv_get_device_name(struct ibv_device *d)
{
    return d->name;
}

void fake_rdma_reset(void)
{
    fake_device_reset();
    fake = (fake_rdma_t){.inline_max = 256,
                         .cqe_max = 1 << 20,
                         .wr_max = WR_MAX,
                         .srq_max = 100,
                         .post_left = -1,
                         .qps_left = -1,
                         .mrs_left = -1,
                         .spoil_reply = -1,
                         .pkey = 0xffff,
                         .reads = 4,
                         .atomics = IBV_ATOMIC_HCA,
                         .now = 1000000};
    fake_device.transport_type = IBV_TRANSPORT_IB;
    fake_context.device = &fake_device;
    fake_context.async_fd = 0; /* any that is there */
    fake_device_prepare(&fake_context);
    fake_context.ops.post_send = post_send;
    fake_context.ops.post_recv = post_recv;
    fake_context.ops.post_srq_recv = post_srq_recv;
}
