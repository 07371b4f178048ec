/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Receive queues: those that all peers share (SRQ), and buffers of single connections. */

#ifndef BTL_IB_VERBS_RC_RX_H
#define BTL_IB_VERBS_RC_RX_H

#include "verbs_rc_private_data.h"
#include "verbs_rc_port.h"
#include "verbs_rx_pool.h"

/* Buffers in one piece of registered memory. */
typedef struct btl_ib_rc_rx {
    btl_ib_verbs_rx_pool_t pool; /* its owner is the connection; NULL: shared */
    btl_ib_verbs_rx_buffer_t *buffer;
    uint32_t count;
    uint32_t size; /* bytes that each holds */
} btl_ib_rc_rx_t;

/* A receive queue as it was asked for. */
typedef struct btl_ib_rc_rxq {
    uint32_t size;
    uint32_t num;
    bool shared;
    btl_ib_rc_rx_t rx; /* of a shared one */
    void *memory;
    struct ibv_mr *mr;
} btl_ib_rc_rxq_t;

typedef struct btl_ib_rc_rxqs {
    uint32_t count;
    btl_ib_rc_rxq_t queue[BTL_IB_RC_QUEUES_MAX];
} btl_ib_rc_rxqs_t;

/* Bytes from one buffer to the next: whole cache lines. */
static inline uint32_t btl_ib_rc_rx_stride(uint32_t size)
{
    return (size + BTL_IB_VERBS_LINE - 1) / BTL_IB_VERBS_LINE * BTL_IB_VERBS_LINE;
}

/* Make `count` buffers of `size` bytes in `memory`, all idle; up to `lazy` of them may stay so.
 * `id` is that of the first one's work request. Returns 0 or -ENOMEM. */
int btl_ib_rc_rx_make(btl_ib_rc_rx_t *rx, void *owner, uint32_t count, uint32_t size, uint32_t lazy,
                      uint8_t *memory, uint32_t key, uint64_t id);

/* Open the queues that were asked for, if the device can have them. Returns 0 or a negative errno
 * after logging why; free follows in either case. */
int btl_ib_rc_rxqs_open(btl_ib_rc_rxqs_t *rxqs, const btl_ib_rc_port_t *port,
                        const btl_ib_open_params_t *params);

/* The device touches no buffer of a shared queue after stop. */
void btl_ib_rc_rxqs_stop(btl_ib_rc_rxqs_t *rxqs);
void btl_ib_rc_rxqs_free(btl_ib_rc_rxqs_t *rxqs);

/* Buffers of all shared queues. */
uint32_t btl_ib_rc_rxqs_shared(const btl_ib_rc_rxqs_t *rxqs);

/* rx_depth() of btl_ib_transport_ops_t. */
uint32_t btl_ib_rc_rxqs_depth(const btl_ib_rc_rxqs_t *rxqs, uint32_t size);

bool btl_ib_rc_rxqs_has(const btl_ib_rc_rxqs_t *rxqs, const struct ibv_srq *srq);

#endif
