/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "fake_verbs.h"

#include <arpa/inet.h>
#include <endian.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "refusals.h"
#include "fake_device.h"

/* Found as functions of a preloaded library are (btl_ib_library.h). */
#pragma GCC visibility push(default)

/* They are also macros or inline functions, which call these. */
#undef ibv_query_port
#undef ibv_reg_mr

enum { QPS_MAX = 512, FIRST_QPN = 17, RING = 8192, GRH = 40, HELD_MAX = 4096 };

typedef struct fake_qp {
    struct ibv_qp qp;
    uint32_t qkey;
    uint32_t send_room, recv_room;
    uint32_t sent, freed; /* requests posted, and those whose places are free again */
    struct ibv_sge buffer[RING];
    uint64_t id[RING];
    uint32_t first, posted;
    const struct ibv_ah *ah[RING]; /* of requests, by their place */
} fake_qp_t;

typedef struct fake_ah {
    struct ibv_ah ah;
    struct ibv_ah_attr attr;
} fake_ah_t;

/* A completion of a send: with it places become free. */
typedef struct held {
    fake_qp_t *qp;
    struct ibv_wc wc;
    uint32_t place;
} held_t;

fake_t fake;
struct ifaddrs *fake_interfaces;
static struct ibv_device devices[2];
static fake_qp_t *qps[QPS_MAX];
static uint32_t next_qpn;
static held_t held[HELD_MAX];
static int held_count;

/* ---- the machine ---- */

static union ibv_gid gid_of(const char *ip)
{
    union ibv_gid gid = {{0}};
    struct in_addr v4;

    if (inet_pton(AF_INET, ip, &v4) == 1) {
        gid.raw[10] = gid.raw[11] = 0xff;
        memcpy(gid.raw + 12, &v4, sizeof(v4));
    } else {
        (void) inet_pton(AF_INET6, ip, gid.raw);
    }
    return gid;
}

void fake_gid(fake_port_t *port, const char *ip, uint32_t type)
{
    port->gid[port->gids] = (struct ibv_gid_entry){
        .gid = gid_of(ip), .gid_index = (uint32_t) port->gids, .port_num = 1, .gid_type = type};
    port->gids++;
}

void fake_reset(void)
{
    fake_device_reset();
    memset(&fake, 0, sizeof(fake));
    fake.devices = 1;
    fake.max_qp_wr = 16384;
    fake.inline_max = 256;
    fake.take = -1;
    fake.recv_take = -1;
    for (int i = 0; i < 2; i++) {
        fake.device[i] = (fake_device_t){
            .name = i == 0 ? "rxe0" : "mlx5_1", .transport = IBV_TRANSPORT_IB, .ports = 1};
        for (int p = 0; p < 2; p++) {
            fake_port_t *port = &fake.device[i].port[p];
            port->attr = (struct ibv_port_attr){
                .state = IBV_PORT_ACTIVE,
                .active_mtu = IBV_MTU_1024,
                .gid_tbl_len = 4,
                .pkey_tbl_len = 4,
                .lid = (uint16_t) (7 + p),
                .active_width = 2,
                .active_speed = 32,
                .link_layer = IBV_LINK_LAYER_ETHERNET,
            };
            port->pkey[0] = 0xffff;
            if (i == 0 && p == 0) {
                fake_gid(port, "fe80::1", IBV_GID_TYPE_ROCE_V2);
                fake_gid(port, "10.0.0.1", IBV_GID_TYPE_ROCE_V2);
            }
        }
    }
    next_qpn = FIRST_QPN;
    held_count = 0;
}

static fake_device_t *device_of(const struct ibv_context *context)
{
    return &fake.device[context->device - devices];
}

static int failing(int error)
{
    errno = error;
    return error;
}

struct ibv_device **ibv_get_device_list(int *count)
{
    if (refusal_of("ibv_get_device_list") != 0) {
        return NULL;
    }
    fake.lists++;
    if (failing(fake.list_error) != 0) {
        return NULL;
    }
    struct ibv_device **list = calloc((size_t) fake.devices + 1, sizeof(*list));
    for (int i = 0; i < fake.devices; i++) {
        strcpy(devices[i].name, fake.device[i].name);
        snprintf(devices[i].dev_name, sizeof(devices[i].dev_name), "uverbs%d", i);
        devices[i].transport_type = fake.device[i].transport;
        list[i] = &devices[i];
    }
    *count = fake.devices;
    fake_objects++;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    fake_objects--;
    free(list);
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    if (refusal_of("ibv_query_device") != 0) {
        return errno;
    }
    *attr = (struct ibv_device_attr){.max_qp_wr = fake.max_qp_wr,
                                     .max_cqe = RING,
                                     .phys_port_cnt = (uint8_t) device_of(context)->ports,
                                     .fw_ver = "16.35.2000"};
    return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    if (refusal_of("ibv_query_port") != 0) {
        return errno;
    }
    memcpy(attr, &device_of(context)->port[port - 1].attr, sizeof(struct ibv_port_attr));
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                             uint32_t flags, size_t size)
{
    if (refusal_of("ibv_query_gid_table") != 0) {
        return -errno;
    }
    const fake_device_t *device = device_of(context);
    size_t count = 0;

    (void) flags;
    (void) size;
    for (int p = 0; p < device->ports; p++) {
        for (int i = 0; i < device->port[p].gids && count < max; i++) {
            entries[count] = device->port[p].gid[i];
            entries[count++].port_num = (uint32_t) p + 1;
        }
    }
    return (ssize_t) count;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    if (refusal_of("ibv_query_gid") != 0) {
        return -1;
    }
    *gid = device_of(context)->port[port - 1].gid[index].gid;
    return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    if (refusal_of("ibv_query_pkey") != 0) {
        return -1;
    }
    *pkey = htobe16(device_of(context)->port[port - 1].pkey[index]);
    return 0;
}

/* ---- events ---- */

void fake_event(enum ibv_event_type type, int port)
{
    fake_say(&(struct ibv_async_event){.event_type = type, .element.port_num = port});
}

/* ---- queue pairs ---- */

static fake_qp_t *qp_of(uint32_t qpn)
{
    return qpn >= FIRST_QPN && qpn < next_qpn ? qps[qpn - FIRST_QPN] : NULL;
}

uint32_t fake_posted(uint32_t qpn)
{
    return qp_of(qpn)->posted;
}

static void flush(fake_qp_t *qp)
{
    while (qp->posted > 0) {
        struct ibv_wc wc = {.wr_id = qp->id[qp->first], .status = IBV_WC_WR_FLUSH_ERR};
        qp->first = (qp->first + 1) % RING;
        qp->posted--;
        fake_complete(qp->qp.recv_cq, &wc, NULL, 0);
    }
}

void fake_break(uint32_t qpn)
{
    qp_of(qpn)->qp.state = IBV_QPS_ERR;
    flush(qp_of(qpn));
}

/* The device writes into the first buffer. */
static void arrive(fake_qp_t *qp, uint32_t from, const union ibv_gid *gid, uint16_t lid,
                   const void *data, uint32_t size, uint32_t told, enum ibv_wc_status status)
{
    if (qp->posted == 0 || fake.lose) {
        fake.dropped++;
        return;
    }
    const struct ibv_sge *sge = &qp->buffer[qp->first];
    uint8_t *to = (uint8_t *) (uintptr_t) sge->addr;
    struct ibv_wc wc = {.wr_id = qp->id[qp->first],
                        .status = status,
                        .opcode = IBV_WC_RECV,
                        .byte_len = told,
                        .src_qp = from,
                        .slid = lid,
                        .wc_flags = gid != NULL ? IBV_WC_GRH : 0};

    if (GRH + size > sge->length) {
        wc.status = IBV_WC_LOC_LEN_ERR;
        size = sge->length - GRH;
    }
    memset(to, 0xa5, GRH);
    if (gid != NULL && gid->raw[10] == 0xff) {
        memcpy(to + 32, gid->raw + 12, 4);
    } else if (gid != NULL) {
        memcpy(to + 8, gid->raw, 16);
    }
    memcpy(to + GRH, data, size);
    qp->first = (qp->first + 1) % RING;
    qp->posted--;
    fake_complete(qp->qp.recv_cq, &wc, NULL, 0);
}

void fake_arrive(uint32_t qpn, uint32_t from, const char *ip, const void *data, uint32_t size,
                 uint32_t told, enum ibv_wc_status status)
{
    const union ibv_gid gid = gid_of(ip);

    arrive(qp_of(qpn), from, &gid, 0, data, size, told, status);
}

static void deliver(const fake_qp_t *qp, const struct ibv_send_wr *wr)
{
    const fake_ah_t *ah = (const fake_ah_t *) wr->wr.ud.ah;
    const fake_port_t *port = &device_of(qp->qp.context)->port[ah->attr.port_num - 1];
    fake_qp_t *to = qp_of(wr->wr.ud.remote_qpn);
    const struct ibv_sge *sge = wr->sg_list;

    if (to == NULL || to->qkey != wr->wr.ud.remote_qkey) {
        fake.dropped++;
        return;
    }
    arrive(to, qp->qp.qp_num, ah->attr.is_global ? &port->gid[ah->attr.grh.sgid_index].gid : NULL,
           port->attr.lid, (const void *) (uintptr_t) sge->addr, sge->length, GRH + sge->length,
           IBV_WC_SUCCESS);
}

static void release(const held_t *h)
{
    fake_complete(h->qp->qp.send_cq, &h->wc, &h->qp->freed, h->place);
}

void fake_release(void)
{
    for (int i = 0; i < held_count; i++) {
        release(&held[i]);
    }
    held_count = 0;
}

/* One request that was taken. */
static void request(fake_qp_t *qp, const struct ibv_send_wr *wr)
{
    const bool flushed = qp->qp.state == IBV_QPS_SQE || qp->qp.state == IBV_QPS_ERR;
    const bool bad = flushed || (fake.fail_at > 0 && --fake.fail_at == 0);
    held_t h = {.qp = qp, .place = ++qp->sent};

    qp->ah[h.place % RING] = wr->wr.ud.ah;
    fake.requests++;
    fake.inlined += (wr->send_flags & IBV_SEND_INLINE) != 0;
    fake.signaled += (wr->send_flags & IBV_SEND_SIGNALED) != 0;
    h.wc = (struct ibv_wc){.wr_id = wr->wr_id,
                           .status = !bad      ? IBV_WC_SUCCESS
                                     : flushed ? IBV_WC_WR_FLUSH_ERR
                                               : IBV_WC_LOC_PROT_ERR};
    if (bad) {
        qp->qp.state = flushed ? qp->qp.state : IBV_QPS_SQE;
    } else {
        deliver(qp, wr);
    }
    if (!bad && !(wr->send_flags & IBV_SEND_SIGNALED)) {
        return;
    }
    if (fake.hold) {
        held[held_count++] = h;
    } else {
        release(&h);
    }
}

static int post_send(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    fake_qp_t *qp = (fake_qp_t *) to;

    fake.posts++;
    for (; wr != NULL; wr = wr->next) {
        if (fake.take == 0 || qp->sent - qp->freed == qp->send_room) {
            *bad = wr;
            return fake.post_error != 0 ? fake.post_error : ENOMEM;
        }
        fake.take -= fake.take > 0;
        request(qp, wr);
    }
    return 0;
}

static int post_recv(struct ibv_qp *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    fake_qp_t *qp = (fake_qp_t *) to;

    if (refusal_of("ibv_post_recv") != 0) {
        *bad = wr;
        return errno;
    }
    fake.recv_posts++;
    for (; wr != NULL; wr = wr->next) {
        if (qp->posted == qp->recv_room || fake.recv_take == 0) {
            *bad = wr;
            return fake.recv_error != 0 ? fake.recv_error : ENOMEM;
        }
        fake.recv_take -= fake.recv_take > 0;
        const uint32_t at = (qp->first + qp->posted++) % RING;
        qp->buffer[at] = *wr->sg_list;
        qp->id[at] = wr->wr_id;
        fake.recv_requests++;
    }
    if (qp->qp.state == IBV_QPS_ERR) {
        flush(qp);
    }
    return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    if (refusal_of("ibv_create_qp") != 0) {
        return NULL;
    }
    fake_qp_t *qp;

    if (init->cap.max_inline_data > fake.inline_max) {
        errno = EINVAL;
        return NULL;
    }
    fake.cap = init->cap;
    fake.inline_max = fake.inline_next != 0 ? fake.inline_next : fake.inline_max;
    qp = calloc(1, sizeof(*qp));
    qp->qp = (struct ibv_qp){.context = pd->context,
                             .pd = pd,
                             .send_cq = init->send_cq,
                             .recv_cq = init->recv_cq,
                             .qp_num = next_qpn,
                             .state = IBV_QPS_RESET};
    qp->send_room = init->cap.max_send_wr;
    qp->recv_room = init->cap.max_recv_wr;
    qps[next_qpn++ - FIRST_QPN] = qp;
    fake_objects++;
    return &qp->qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    if (refusal_of("ibv_modify_qp") != 0) {
        return errno;
    }
    if (mask & IBV_QP_CUR_STATE && fake.mend_error != 0) {
        return fake.mend_error;
    }
    if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != qp->state) {
        return EINVAL;
    }
    if (mask & IBV_QP_PKEY_INDEX) {
        fake.pkey_index = attr->pkey_index;
    }
    if (mask & IBV_QP_QKEY) {
        ((fake_qp_t *) qp)->qkey = attr->qkey;
    }
    if (attr->qp_state == IBV_QPS_RESET) {
        assert(((fake_qp_t *) qp)->posted == 0);
        ((fake_qp_t *) qp)->freed = ((fake_qp_t *) qp)->sent;
    }
    qp->state = attr->qp_state;
    return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    qps[qp->qp_num - FIRST_QPN] = NULL;
    free(qp);
    fake_objects--;
    return 0;
}

/* ---- contexts, memory, handles ---- */

enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return fake.fork_inits > 0 ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

int ibv_fork_init(void)
{
    fake.fork_inits++;
    return fake.regs > 0 ? EINVAL : 0; /* too late */
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    if (refusal_of("ibv_open_device") != 0) {
        return NULL;
    }
    struct ibv_context *context;

    if (failing(fake.open_error) != 0) {
        return NULL;
    }
    context = calloc(1, sizeof(*context));
    context->device = device;
    context->async_fd = eventfd(0, 0);
    fake_device_prepare(context);
    context->ops.post_send = post_send;
    context->ops.post_recv = post_recv;
    fake_objects++;
    return context;
}

int ibv_close_device(struct ibv_context *context)
{
    (void) close(context->async_fd);
    free(context);
    fake_objects--;
    return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    if (refusal_of("ibv_reg_mr") != 0) {
        return NULL;
    }
    struct ibv_mr *mr;

    (void) access;
    if (failing(fake.reg_error) != 0) {
        return NULL;
    }
    mr = calloc(1, sizeof(*mr));
    *mr = (struct ibv_mr){
        .context = pd->context, .pd = pd, .addr = addr, .length = length, .lkey = 5};
    fake_objects++;
    fake.regs++;
    return mr;
}

/* What ibv_reg_mr() calls where rights are no constant. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access)
{
    (void) iova;
    return ibv_reg_mr(pd, addr, length, (int) access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    free(mr);
    fake_objects--;
    return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    if (refusal_of("ibv_create_ah") != 0) {
        return NULL;
    }
    fake_ah_t *ah;

    if (failing(fake.ah_error) != 0) {
        return NULL;
    }
    ah = calloc(1, sizeof(*ah));
    ah->ah.pd = pd;
    ah->attr = fake.ah = *attr;
    fake_objects++;
    fake.handles++;
    return &ah->ah;
}

/* Some devices look at the handle when a request's turn comes. */
int ibv_destroy_ah(struct ibv_ah *ah)
{
    for (uint32_t i = 0; i < next_qpn - FIRST_QPN; i++) {
        for (uint32_t place = qps[i] != NULL ? qps[i]->freed : 0;
             qps[i] != NULL && place++ != qps[i]->sent;) {
            fake.pulled += qps[i]->ah[place % RING] == ah;
        }
    }
    free(ah);
    fake_objects--;
    return 0;
}

int getifaddrs(struct ifaddrs **all)
{
    *all = fake_interfaces;
    return 0;
}

void freeifaddrs(struct ifaddrs *all)
{
    (void) all;
}
