/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A UD transport as a whole. Each part is written only by the file of that name. */

#ifndef BTL_IB_VERBS_UD_H
#define BTL_IB_VERBS_UD_H

#include "verbs_device.h"
#include "verbs_ud_peers.h"
#include "verbs_ud_qp.h"

enum {
    BTL_IB_UD_BATCH = 64,          /* datagrams in one send() */
    BTL_IB_UD_POLL = 32,           /* completions that are read at once */
    BTL_IB_UD_EVENTS_EVERY = 1024, /* polls between two readings of the device's events */
};

/* Owned by verbs_ud.c. */
typedef struct btl_ib_ud_polling {
    struct ibv_wc wc[BTL_IB_UD_POLL]; /* completions read and not yet taken */
    uint32_t wc_first;
    uint32_t wc_count;
    uint32_t cq_next;    /* the completion queue that is read first */
    uint64_t rx_dropped; /* datagrams that failed to arrive, or were empty */
    uint32_t polls;      /* since the events of the device were read */
    bool armed;          /* the next completion makes comp.fd readable */
} btl_ib_ud_polling_t;

/* Owned by verbs_ud.c: the list that is being posted. It is not on the stack, as a thread may have
 * no more than 16 KiB of that. */
typedef struct btl_ib_ud_sending {
    struct ibv_send_wr wr[BTL_IB_UD_BATCH];
    struct ibv_sge sge[BTL_IB_UD_BATCH];
} btl_ib_ud_sending_t;

typedef struct btl_ib_ud {
    btl_ib_ud_port_t port;
    btl_ib_verbs_state_t state;
    btl_ib_verbs_comp_t comp;
    btl_ib_ud_qps_t qps;
    btl_ib_ud_peers_t peers;
    btl_ib_ud_polling_t polling;
    btl_ib_ud_sending_t sending;
} btl_ib_ud_t;

static inline btl_ib_ud_t *btl_ib_ud_of(btl_ib_transport_t *t)
{
    return (btl_ib_ud_t *) t;
}

#endif
