/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Several short messages that wait in a channel -> one segment. */

#include "btl_ib_cut.h"

static const btl_ib_msg_t *bundleable(const btl_ib_list_t *item)
{
    const btl_ib_out_t *out = BTL_IB_CONTAINER(item, btl_ib_out_t, link);

    if (out->kind != BTL_IB_OUT_MESSAGE) {
        return NULL;
    }
    const btl_ib_msg_t *msg = BTL_IB_CONTAINER(out, btl_ib_msg_t, out);
    return msg->ordered || msg->unit != 0 ? NULL : msg;
}

uint32_t btl_ib_cut_count(const btl_ib_list_t *pending, uint32_t room, uint32_t *size)
{
    const btl_ib_list_t *item = btl_ib_list_first(pending);
    const btl_ib_msg_t *msg;
    uint32_t count = 0;

    *size = 0;
    for (; item != NULL && (msg = bundleable(item)) != NULL;
         item = btl_ib_list_next(pending, item)) {
        uint64_t more = btl_ib_wire_bundled_size(msg->out.size);
        if (more > room - *size) {
            break;
        }
        *size += (uint32_t) more;
        count++;
    }
    return count;
}

btl_ib_segment_t *btl_ib_cut_bundle(btl_ib_conn_t *conn, btl_ib_list_t *pending, uint32_t count,
                                    uint32_t size, uint32_t space, btl_ib_list_t *bundled)
{
    if (btl_ib_tx_window_reserve(&conn->tx[space].sentmap.window, 1, &conn->engine->mem) != 0) {
        return NULL;
    }
    btl_ib_segment_t *segment = btl_ib_send_prepare(conn, BTL_IB_TYPE_BUNDLE, size);
    if (segment == NULL) {
        return NULL;
    }
    uint8_t *to = btl_ib_send_body(segment);
    segment->bundled = count;
    for (; count > 0; count--) {
        btl_ib_list_t *item = btl_ib_list_pop(pending);
        btl_ib_msg_t *msg = btl_ib_msg_of(BTL_IB_CONTAINER(item, btl_ib_out_t, link));
        uint32_t bytes = (uint32_t) msg->out.size;
        btl_ib_cut_copy_all(msg, btl_ib_wire_put_entry(to, bytes, msg->tag));
        to += btl_ib_wire_bundled_size(bytes);
        msg->out.offset = bytes;
        segment->payload += bytes;
        btl_ib_list_push_tail(bundled, item);
    }
    return segment;
}
