/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The queue pair of an RC connection and its attributes: depths, inline size, retries, timers,
 * traffic class, service level, MTU. */

#ifndef BTL_IB_VERBS_RC_QP_H
#define BTL_IB_VERBS_RC_QP_H

#include <stdint.h>

#include "verbs_cm_library.h"
#include "verbs_rc_port.h"

/* Set what is chosen before the peer's address is resolved (traffic class; who accepts takes over
 * that of the request), and before the route to it is or its request accepted (ACK timeout; iWARP
 * has TCP's). Returns 0 or an errno: then the defaults remain. */
int btl_ib_rc_qp_set_traffic_class(const btl_ib_rc_port_t *port, struct rdma_cm_id *id);
int btl_ib_rc_qp_set_ack_timeout(const btl_ib_rc_port_t *port, struct rdma_cm_id *id);

/* Create id->qp with `tx_depth` send requests and `rx_depth` receive buffers of its own, or those
 * of `srq` (then rx_depth is 0). Returns 0 or a negative errno after logging why. */
int btl_ib_rc_qp_create(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, struct ibv_cq *cq,
                        struct ibv_srq *srq, uint32_t tx_depth, uint32_t rx_depth);

/* What a request or reply says of the queue pair: retries, and how many reads and atomics are
 * outstanding, `asked` by this side and `served` for the other. No private data. */
struct rdma_conn_param btl_ib_rc_qp_conn_param(const btl_ib_rc_port_t *port, uint8_t asked,
                                               uint8_t served);

/*
 * rdma_connect() and rdma_accept(), and what is left to do when an event says that the peer has
 * accepted. rdma_cm knows no service level, and no MTU but the route's: where one is asked for, or
 * the peer's MTU (`theirs`, enum ibv_mtu, 0: not known) is less than the port's, the queue pair is
 * taken through its states here, and is hidden from librdmacm until it is connected (then that
 * event is RDMA_CM_EVENT_CONNECT_RESPONSE). Both ends come to one MTU. Return 0 or an errno.
 */
int btl_ib_rc_qp_connect(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, uint8_t theirs,
                         struct rdma_conn_param *param);
int btl_ib_rc_qp_accept(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, uint8_t theirs,
                        struct rdma_conn_param *param);
int btl_ib_rc_qp_establish(const btl_ib_rc_port_t *port, struct rdma_cm_id *id, uint8_t theirs,
                           struct ibv_qp *qp);

void btl_ib_rc_qp_destroy(struct rdma_cm_id *id, struct ibv_qp *qp);

/* It is connected: set the RNR timer, for which rdma_cm has no parameter and leaves 655 ms. Only a
 * queue pair with shared buffers can run out of them. */
void btl_ib_rc_qp_set_rnr_timer(const btl_ib_rc_port_t *port, struct ibv_qp *qp);

#endif
