/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Calls of libibverbs and librdmacm, each loaded when it is needed. Functions that send and receive
 * are inline in libibverbs, through tables of its devices. */

#ifndef BTL_IB_VERBS_LIBRARY_H
#define BTL_IB_VERBS_LIBRARY_H

#include "btl_ib_library.h"

#define BTL_IB_VERBS_CALLS(X)                                                                      \
    X(ssize_t, _ibv_query_gid_table,                                                               \
      (struct ibv_context * context, struct ibv_gid_entry * entries, size_t max_entries,           \
       uint32_t flags, size_t entry_size),                                                         \
      (context, entries, max_entries, flags, entry_size))                                          \
    X(void, ibv_ack_async_event, (struct ibv_async_event * event), (event))                        \
    X(void, ibv_ack_cq_events, (struct ibv_cq * cq, unsigned int nevents), (cq, nevents))          \
    X(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * context), (context))                    \
    X(int, ibv_close_device, (struct ibv_context * context), (context))                            \
    X(struct ibv_ah *, ibv_create_ah, (struct ibv_pd * pd, struct ibv_ah_attr * attr), (pd, attr)) \
    X(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * context),          \
      (context))                                                                                   \
    X(struct ibv_cq *, ibv_create_cq,                                                              \
      (struct ibv_context * context, int cqe, void *cq_context, struct ibv_comp_channel *channel,  \
       int comp_vector),                                                                           \
      (context, cqe, cq_context, channel, comp_vector))                                            \
    X(struct ibv_qp *, ibv_create_qp,                                                              \
      (struct ibv_pd * pd, struct ibv_qp_init_attr * qp_init_attr), (pd, qp_init_attr))            \
    X(struct ibv_srq *, ibv_create_srq,                                                            \
      (struct ibv_pd * pd, struct ibv_srq_init_attr * srq_init_attr), (pd, srq_init_attr))         \
    X(int, ibv_dealloc_pd, (struct ibv_pd * pd), (pd))                                             \
    X(int, ibv_dereg_mr, (struct ibv_mr * mr), (mr))                                               \
    X(int, ibv_destroy_ah, (struct ibv_ah * ah), (ah))                                             \
    X(int, ibv_destroy_comp_channel, (struct ibv_comp_channel * channel), (channel))               \
    X(int, ibv_destroy_cq, (struct ibv_cq * cq), (cq))                                             \
    X(int, ibv_destroy_qp, (struct ibv_qp * qp), (qp))                                             \
    X(int, ibv_destroy_srq, (struct ibv_srq * srq), (srq))                                         \
    X(const char *, ibv_event_type_str, (enum ibv_event_type event), (event))                      \
    X(int, ibv_fork_init, (void), ())                                                              \
    X(void, ibv_free_device_list, (struct ibv_device * *list), (list))                             \
    X(int, ibv_get_async_event, (struct ibv_context * context, struct ibv_async_event * event),    \
      (context, event))                                                                            \
    X(int, ibv_get_cq_event,                                                                       \
      (struct ibv_comp_channel * channel, struct ibv_cq * *cq, void **cq_context),                 \
      (channel, cq, cq_context))                                                                   \
    X(struct ibv_device **, ibv_get_device_list, (int *num_devices), (num_devices))                \
    X(const char *, ibv_get_device_name, (struct ibv_device * device), (device))                   \
    X(enum ibv_fork_status, ibv_is_fork_initialized, (void), ())                                   \
    X(int, ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr * attr, int attr_mask),          \
      (qp, attr, attr_mask))                                                                       \
    X(int, ibv_modify_srq,                                                                         \
      (struct ibv_srq * srq, struct ibv_srq_attr * srq_attr, int srq_attr_mask),                   \
      (srq, srq_attr, srq_attr_mask))                                                              \
    X(struct ibv_context *, ibv_open_device, (struct ibv_device * device), (device))               \
    X(const char *, ibv_port_state_str, (enum ibv_port_state port_state), (port_state))            \
    X(int, ibv_query_device, (struct ibv_context * context, struct ibv_device_attr * device_attr), \
      (context, device_attr))                                                                      \
    X(int, ibv_query_gid,                                                                          \
      (struct ibv_context * context, uint8_t port_num, int index, union ibv_gid *gid),             \
      (context, port_num, index, gid))                                                             \
    X(int, ibv_query_pkey,                                                                         \
      (struct ibv_context * context, uint8_t port_num, int index, __be16 *pkey),                   \
      (context, port_num, index, pkey))                                                            \
    X(int, ibv_query_port,                                                                         \
      (struct ibv_context * context, uint8_t port_num, struct _compat_ibv_port_attr * port_attr),  \
      (context, port_num, port_attr))                                                              \
    X(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * pd, void *addr, size_t length, int access),    \
      (pd, addr, length, access))                                                                  \
    X(struct ibv_mr *, ibv_reg_mr_iova2,                                                           \
      (struct ibv_pd * pd, void *addr, size_t length, uint64_t iova, unsigned int access),         \
      (pd, addr, length, iova, access))                                                            \
    X(const char *, ibv_wc_status_str, (enum ibv_wc_status status), (status))

BTL_IB_VERBS_CALLS(BTL_IB_LIBRARY_RENAME)

#include <infiniband/verbs.h>

/* library() of btl_ib_transport_type_t. */
void btl_ib_verbs_library(bool load, char *out, size_t len);

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

/* Loads libibverbs, and with `cm` librdmacm, as btl_ib_library_load() does. */
bool btl_ib_verbs_load(bool cm, char *why, size_t len);

#endif
