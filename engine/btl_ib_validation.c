/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Does a pair of rails lead to the peer? (RFC 9000, 8.2: path validation.) An address that a peer published may be
 * another host's, too, or behind a bridge or a firewall that lets nothing through. So what came under the peer's token
 * validates a pair, and nothing else does. Until then, if another pair of the same two processes is validated, no
 * data go by it, only the question; a refusal, or a few questions without an answer, close it, and it alone.
 */

#include "btl_ib_calls.h"

void btl_ib_validation_passed(btl_ib_conn_t *conn)
{
    const bool first = !conn->validation.valid;

    conn->validation.valid = true;
    conn->validation.refused_at = 0;
    if (first) { /* perhaps data waited for this */
        btl_ib_conn_ready(conn);
    }
}

void btl_ib_validation_refused(btl_ib_conn_t *conn)
{
    conn->validation.refused_at = conn->engine->now;
}

bool btl_ib_validation_refuses(const btl_ib_conn_t *conn)
{
    const btl_ib_validation_t *validation = &conn->validation;

    return validation->refused_at != 0
           && conn->engine->now - validation->refused_at <= BTL_IB_REFUSED_ROW;
}

bool btl_ib_validation_waits(const btl_ib_conn_t *conn)
{
    return !conn->validation.valid && conn->via == conn->rail
           && !conn->rail->transport->attr.reliable && btl_ib_failover_has_valid(conn);
}
