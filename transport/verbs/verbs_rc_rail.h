/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* An RC transport as a whole: its parts, each of which is written by the file of that name only. */

#ifndef BTL_IB_VERBS_RC_RAIL_H
#define BTL_IB_VERBS_RC_RAIL_H

#include "verbs_open.h"
#include "verbs_rc_conn.h"
#include "verbs_rc_peers.h"
#include "verbs_rc_port.h"

/* The connection manager's: verbs_rc_cm.c. */
typedef struct btl_ib_rc_cm {
    struct rdma_event_channel *events;
    struct rdma_cm_id *listener;
    uint32_t polls;     /* since its events were read */
    uint64_t last_tick; /* of a coarse clock, ns: they were read in it */
} btl_ib_rc_cm_t;

/* Owned by verbs_rc_poll.c. */
typedef struct btl_ib_rc_polling {
    uint32_t full; /* polls with events since the connection manager was polled */
    /* Completions in hand. They are not on the stack, of which threads may have 16 KiB. */
    struct ibv_wc wc[BTL_IB_RC_BATCH];
} btl_ib_rc_polling_t;

/* Datagrams of a batch that go by eager RDMA, at most: it saves completions, which longer batches
 * share anyway. */
enum { BTL_IB_RC_EAGER_BATCH = 4 };

/* Owned by verbs_rc.c: what such datagrams write, until they are posted. */
typedef struct btl_ib_rc_sending {
    uint64_t staged[BTL_IB_RC_EAGER_BATCH][BTL_IB_RC_EAGER_SLOT / sizeof(uint64_t)];
} btl_ib_rc_sending_t;

typedef struct btl_ib_rc {
    btl_ib_rc_port_t port;
    btl_ib_rc_address_t self;
    btl_ib_verbs_state_t state;
    struct btl_ib_rc *next_rail; /* verbs_rc_async_events.c: of the process */
    btl_ib_rc_cm_t cm;
    btl_ib_rc_rxqs_t rxqs;
    btl_ib_rc_cqs_t cqs;
    btl_ib_rc_eagers_t eagers;
    btl_ib_rc_conns_t conns;
    btl_ib_rc_peers_t peers;
    btl_ib_rc_polling_t polling;
    btl_ib_rc_sending_t sending;
} btl_ib_rc_t;

static inline btl_ib_rc_t *btl_ib_rc_of(btl_ib_transport_t *t)
{
    return (btl_ib_rc_t *) t;
}

#endif
