/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_qp.h"

#include <errno.h>

#include "verbs_diagnostics.h"

/* Of the masks of old kernels: attributes of RoCE, which are none of InfiniBand's. */
enum { ROCE_BITS = 0xe00000 };

/* 0: the default. */
static int set_option(struct rdma_cm_id *id, int option, uint8_t value)
{
    const int level = RDMA_OPTION_ID;

    return value == 0 || rdma_set_option(id, level, option, &value, sizeof(value)) == 0 ? 0 : errno;
}

int btl_ib_rc_qp_set_traffic_class(const btl_ib_rc_port_t *port, struct rdma_cm_id *id)
{
    return set_option(id, RDMA_OPTION_ID_TOS, port->tos);
}

int btl_ib_rc_qp_set_ack_timeout(const btl_ib_rc_port_t *port, struct rdma_cm_id *id)
{
    return port->iwarp ? 0 : set_option(id, RDMA_OPTION_ID_ACK_TIMEOUT, port->ack_timeout);
}

int btl_ib_rc_qp_create(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, struct ibv_cq *cq,
                        struct ibv_srq *srq, uint32_t tx_depth, uint32_t rx_depth)
{
    const btl_ib_verbs_t *verbs = &port->verbs;
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .srq = srq,
        .qp_type = IBV_QPT_RC,
        .cap =
            {
                .max_send_wr = tx_depth,
                .max_recv_wr = rx_depth,
                .max_send_sge = 1,
                .max_recv_sge = rx_depth > 0,
                .max_inline_data = verbs->base.attr.inline_size,
            },
    };

    if (rdma_create_qp(id, verbs->pd, &attr) != 0) {
        return btl_ib_verbs_failed(verbs, "rdma_create_qp", errno);
    }
    return 0;
}

struct rdma_conn_param btl_ib_rc_qp_conn_param(const btl_ib_rc_port_t *port, uint8_t asked,
                                               uint8_t served)
{
    return (struct rdma_conn_param){
        .initiator_depth = asked,
        .responder_resources = served,
        .retry_count = port->retry,
        .rnr_retry_count = port->rnr_retry,
    };
}

/* ---- connecting ---- */

/* The largest MTU that both ends want. */
static uint8_t mtu_limit(const btl_ib_rc_port_t *port, uint8_t theirs)
{
    const uint8_t ours = port->verbs.mtu;

    return theirs != 0 && theirs < ours ? theirs : ours;
}

static bool is_hidden(const btl_ib_rc_port_t *port, uint8_t theirs)
{
    return !port->iwarp
           && (port->level != 0 || mtu_limit(port, theirs) < port->verbs.port_attr.active_mtu);
}

/* Hide id->qp from librdmacm, which then takes from `param` what it tells the peer of it. */
static struct ibv_qp *hide(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    struct ibv_qp *qp = id->qp;

    param->qp_num = qp->qp_num;
    param->srq = qp->srq != NULL;
    id->qp = NULL;
    return qp;
}

/* What librdmacm would do, but for the service level and the MTU. Who accepts says in `param` how
 * many reads there are, of who asked the kernel knows (NULL). Returns 0 or an errno. */
static int enter_state(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, struct ibv_qp *qp,
                       enum ibv_qp_state state, uint8_t theirs, const struct rdma_conn_param *param)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask;

    if (rdma_init_qp_attr(id, &attr, &mask) != 0) {
        return errno;
    }
    if (state == IBV_QPS_RTR) {
        const uint8_t most = mtu_limit(port, theirs);
        attr.ah_attr.sl = port->level != 0 ? port->level : attr.ah_attr.sl;
        attr.path_mtu = attr.path_mtu < most ? attr.path_mtu : (enum ibv_mtu) most;
        mask &= ~(btl_ib_verbs_ethernet(&port->verbs) ? 0 : ROCE_BITS);
    }
    if (param != NULL) {
        attr.max_dest_rd_atomic = param->responder_resources;
        attr.max_rd_atomic = param->initiator_depth;
    }
    return ibv_modify_qp(qp, &attr, mask);
}

static int make_ready(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, struct ibv_qp *qp,
                      uint8_t theirs, const struct rdma_conn_param *param)
{
    /* Again: rights may have changed. */
    int error = enter_state(port, id, qp, IBV_QPS_INIT, theirs, NULL);

    error = error == 0 ? enter_state(port, id, qp, IBV_QPS_RTR, theirs, param) : error;
    return error == 0 ? enter_state(port, id, qp, IBV_QPS_RTS, theirs, param) : error;
}

int btl_ib_rc_qp_connect(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, uint8_t theirs,
                         struct rdma_conn_param *param)
{
    if (is_hidden(port, theirs)) {
        (void) hide(id, param);
    }
    return rdma_connect(id, param) == 0 ? 0 : errno;
}

int btl_ib_rc_qp_accept(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, uint8_t theirs,
                        struct rdma_conn_param *param)
{
    if (!is_hidden(port, theirs)) {
        return rdma_accept(id, param) == 0 ? 0 : errno;
    }
    struct ibv_qp *qp = hide(id, param);
    int error = make_ready(port, id, qp, theirs, param);
    error = error == 0 && rdma_accept(id, param) != 0 ? errno : error;
    id->qp = qp;
    return error;
}

int btl_ib_rc_qp_establish(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, uint8_t theirs,
                           struct ibv_qp *qp)
{
    int error = make_ready(port, id, qp, theirs, NULL);

    error = error == 0 && rdma_establish(id) != 0 ? errno : error;
    id->qp = qp;
    return error;
}

void btl_ib_rc_qp_destroy(struct rdma_cm_id *id, struct ibv_qp *qp)
{
    id->qp = qp;
    rdma_destroy_qp(id);
}

void btl_ib_rc_qp_set_rnr_timer(const btl_ib_rc_port_t *port, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.min_rnr_timer = port->rnr_timer};

    if (!port->iwarp && ibv_modify_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER) != 0) {
        (void) btl_ib_verbs_failed(&port->verbs, "ibv_modify_qp", errno);
    }
}
