/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_path_response.h"

#include "btl_ib_trace.h"

#include <string.h>

/* The response to a datagram, and its size. NULL: memory is short. */
static btl_ib_segment_t *make_response(btl_ib_rail_t *rail, const btl_ib_view_t *view,
                                       uint32_t *whole)
{
    const btl_ib_engine_t *engine = rail->engine;
    const uint32_t size = (uint32_t) sizeof(btl_ib_wire_header_t);
    const uint32_t id = view->connect.connection;
    const btl_ib_wire_header_t header = {
        .version_type = BTL_IB_WIRE_VERSION << 4 | BTL_IB_TYPE_PATH_RESPONSE,
        .connection = BTL_IB_LE32(id),
        .token = BTL_IB_LE64(btl_ib_token_of_response(&engine->config.secret, view->token, id)),
    };

    *whole = size + engine->guard.ops->trailer;
    btl_ib_segment_t *segment = btl_ib_pool_get(&rail->pool, *whole);
    if (segment == NULL) {
        return NULL;
    }
    memcpy(segment->wire, &header, size);
    if (engine->guard.ops->keyed) { /* an unknown sender has no key */
        memset(segment->wire + size, 0, engine->guard.ops->trailer);
    } else {
        (void) btl_ib_guard_seal(&engine->guard, NULL, segment->wire, segment->wire, size);
    }
    return segment;
}

void btl_ib_path_response_send(btl_ib_rail_t *rail, const btl_ib_arrival_t *arrival)
{
    btl_ib_transport_t *transport = rail->transport;
    uint8_t source[BTL_IB_ADDR_BYTES];
    btl_ib_addr_t to = arrival->from;

    if (to == BTL_IB_ADDR_UNKNOWN) {
        const bool tells = transport->ops->source != NULL && arrival->event->buffer != NULL;
        const uint32_t len = tells ? transport->ops->source(transport, arrival->event, source) : 0;
        if (len == 0 || transport->ops->addr_add(transport, source, len, &to) != 0) {
            return;
        }
    }
    uint32_t size;
    btl_ib_segment_t *segment = make_response(rail, &arrival->view, &size);
    if (segment != NULL) {
        const btl_ib_tx_t tx = {
            .to = to,
            .niov = 1,
            .size = size,
            .iov = {{.iov_base = segment->wire, .iov_len = size}},
            .mem = segment->mem,
            .context = segment,
        };
        int error;
        if (transport->ops->send(transport, &tx, 1, &error) == 1) {
            btl_ib_pool_given(segment, size > transport->attr.inline_size);
            rail->engine->count.sent_datagrams++;
            rail->count.sent_datagrams++;
            rail->engine->count.sent_responses++;
            btl_ib_trace_response(rail, arrival->view.connect.name, size);
        }
        btl_ib_pool_put(segment);
    }
    if (arrival->from == BTL_IB_ADDR_UNKNOWN) {
        transport->ops->addr_remove(transport, to);
    }
}

bool btl_ib_path_response_is_genuine(const btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    return view->token
           == btl_ib_token_of_response(&conn->identity.secret, conn->identity.tx_token,
                                       conn->identity.id);
}
