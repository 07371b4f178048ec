/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What programs need not tell apart: of the owner of an engine. */

#ifndef STAND_INS_H
#define STAND_INS_H

#include <stdlib.h>

#include "btl_ib_engine.h"

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

static inline void *on_zalloc(void *context, size_t size)
{
    (void) context;
    return calloc(1, size);
}

static inline void on_free(void *context, void *memory)
{
    (void) context;
    free(memory);
}

#endif
