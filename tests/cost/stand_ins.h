/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What programs need not tell apart: of the owner of an engine. */

#ifndef STAND_INS_H
#define STAND_INS_H

#include <stdlib.h>

#include "btl_ib_engine.h"

/* Callbacks are called with more than most of them use. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static inline bool on_deliverable(void *context, const btl_ib_conn_t *conn, uint8_t tag)
{
    return true;
}

static inline void on_sent(void *context, btl_ib_msg_t *msg)
{
}

static inline void *on_zalloc(void *context, size_t size)
{
    return calloc(1, size);
}

static inline void on_free(void *context, void *memory)
{
    free(memory);
}

#endif
