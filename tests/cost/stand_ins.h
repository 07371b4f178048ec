/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What programs of tests/cost that run engines on memory need not tell apart: of their transport,
 * and of the owner of an engine. */

#ifndef STAND_INS_H
#define STAND_INS_H

#include <string.h>

#include "btl_ib_engine.h"

/* Peers are numbered, and the number is all of their addresses. */
static inline int wire_add_index(btl_ib_transport_t *t, const void *address, size_t len,
                                 btl_ib_addr_t *addr)
{
    uint32_t index;

    (void) t;
    (void) len;
    memcpy(&index, address, sizeof(index));
    *addr = index;
    return 0;
}

static inline void wire_addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    (void) t;
    (void) addr;
}

static inline void wire_nothing(btl_ib_transport_t *t)
{
    (void) t;
}

static inline bool on_deliverable(void *context, const btl_ib_conn_t *conn, uint8_t tag)
{
    (void) context;
    (void) conn;
    (void) tag;
    return true;
}

static inline void on_sent(void *context, btl_ib_msg_t *msg)
{
    (void) context;
    (void) msg;
}

#endif
