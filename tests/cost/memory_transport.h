/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What transports of memory have in common: the program that includes this says what becomes of
 * datagrams. */

#ifndef MEMORY_TRANSPORT_H
#define MEMORY_TRANSPORT_H

#include <string.h>

#include "transport.h"

/* Callbacks are called with more than most of them use. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { DATAGRAM = 1472 };

static int wire_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error);
static int wire_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max);
static void wire_repost(btl_ib_transport_t *t, void *const *buffers, int n);

/* Peers are numbered, and the number is all of their addresses. */
static int wire_addr_add(btl_ib_transport_t *t, const void *address, size_t len,
                         btl_ib_addr_t *addr)
{
    uint32_t index;

    memcpy(&index, address, sizeof(index));
    *addr = index;
    return 0;
}

static void wire_addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr)
{
}

static void wire_nothing(btl_ib_transport_t *t)
{
}

/* That of the process of this number, for so many datagrams on their way. */
static btl_ib_transport_t wire_transport(uint32_t index, uint32_t tx_depth)
{
    static const btl_ib_transport_ops_t ops = {
        .send = wire_send,
        .poll = wire_poll,
        .repost = wire_repost,
        .addr_add = wire_addr_add,
        .addr_remove = wire_addr_remove,
        .stop = wire_nothing,
        .close = wire_nothing,
    };
    btl_ib_transport_t transport = {
        .ops = &ops,
        .attr = {.max_datagram = DATAGRAM,
                 .inline_size = DATAGRAM,
                 .max_iov = 3,
                 .max_batch = 64,
                 .tx_depth = tx_depth,
                 .rx_depth = 4096,
                 .knows_source = true},
        .address_len = sizeof(index),
        .name = "memory",
    };

    memcpy(transport.address, &index, sizeof(index));
    return transport;
}

#endif
