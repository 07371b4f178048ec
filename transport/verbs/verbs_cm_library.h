/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* librdmacm, loaded when it is needed. */

#ifndef BTL_IB_VERBS_CM_LIBRARY_H
#define BTL_IB_VERBS_CM_LIBRARY_H

#include "btl_ib_library.h"
#include "verbs_library.h"

#define BTL_IB_VERBS_CM_CALLS(X)                                                                   \
    X(int, rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param * conn_param),             \
      (id, conn_param))                                                                            \
    X(int, rdma_ack_cm_event, (struct rdma_cm_event * event), (event))                             \
    X(int, rdma_bind_addr, (struct rdma_cm_id * id, struct sockaddr * addr), (id, addr))           \
    X(int, rdma_connect, (struct rdma_cm_id * id, struct rdma_conn_param * conn_param),            \
      (id, conn_param))                                                                            \
    X(struct rdma_event_channel *, rdma_create_event_channel, (void), ())                          \
    X(int, rdma_create_id,                                                                         \
      (struct rdma_event_channel * channel, struct rdma_cm_id * *id, void *context,                \
       enum rdma_port_space ps),                                                                   \
      (channel, id, context, ps))                                                                  \
    X(int, rdma_create_qp,                                                                         \
      (struct rdma_cm_id * id, struct ibv_pd * pd, struct ibv_qp_init_attr * qp_init_attr),        \
      (id, pd, qp_init_attr))                                                                      \
    X(void, rdma_destroy_event_channel, (struct rdma_event_channel * channel), (channel))          \
    X(int, rdma_destroy_id, (struct rdma_cm_id * id), (id))                                        \
    X(void, rdma_destroy_qp, (struct rdma_cm_id * id), (id))                                       \
    X(int, rdma_disconnect, (struct rdma_cm_id * id), (id))                                        \
    X(int, rdma_establish, (struct rdma_cm_id * id), (id))                                         \
    X(const char *, rdma_event_str, (enum rdma_cm_event_type event), (event))                      \
    X(int, rdma_get_cm_event,                                                                      \
      (struct rdma_event_channel * channel, struct rdma_cm_event * *event), (channel, event))      \
    X(__be16, rdma_get_src_port, (struct rdma_cm_id * id), (id))                                   \
    X(int, rdma_init_qp_attr,                                                                      \
      (struct rdma_cm_id * id, struct ibv_qp_attr * qp_attr, int *qp_attr_mask),                   \
      (id, qp_attr, qp_attr_mask))                                                                 \
    X(int, rdma_listen, (struct rdma_cm_id * id, int backlog), (id, backlog))                      \
    X(int, rdma_reject,                                                                            \
      (struct rdma_cm_id * id, const void *private_data, uint8_t private_data_len),                \
      (id, private_data, private_data_len))                                                        \
    X(int, rdma_resolve_addr,                                                                      \
      (struct rdma_cm_id * id, struct sockaddr * src_addr, struct sockaddr * dst_addr,             \
       int timeout_ms),                                                                            \
      (id, src_addr, dst_addr, timeout_ms))                                                        \
    X(int, rdma_resolve_route, (struct rdma_cm_id * id, int timeout_ms), (id, timeout_ms))         \
    X(int, rdma_set_option,                                                                        \
      (struct rdma_cm_id * id, int level, int optname, void *optval, size_t optlen),               \
      (id, level, optname, optval, optlen))

BTL_IB_VERBS_CM_CALLS(BTL_IB_LIBRARY_RENAME)

#include <rdma/rdma_cma.h>

/* See btl_ib_library_load(). Of its own accord it loads libibverbs. */
bool btl_ib_verbs_cm_load(char *why, size_t len);

#endif
