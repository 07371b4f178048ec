/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rma_target.h"

#include "btl_ib_accept.h"
#include "btl_ib_burst.h"
#include "btl_ib_rma_replies.h"
#include "btl_ib_packet.h"
#include "btl_ib_rma.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "btl_ib_transmit.h"

#include <string.h>

/* ---- PUT ---- */

/* Tells the sender, once for each batch of datagrams. */
static void reject_put(btl_ib_conn_t *conn, uint32_t id)
{
    btl_ib_target_t *target = &conn->target;
    uint32_t wire = BTL_IB_LE32(id);

    conn->engine->count.unplaced_puts++;
    if (target->rejected == id && target->rejected_in == conn->engine->turn.batch) {
        return;
    }
    btl_ib_segment_t *segment = btl_ib_packet_make(conn, BTL_IB_TYPE_REJECTED, sizeof(wire));
    if (segment == NULL) {
        return;
    }
    memcpy(btl_ib_packet_body(segment), &wire, sizeof(wire));
    if (btl_ib_transmit_segments(conn, &segment, 1) == 1) {
        target->rejected = id;
        target->rejected_in = conn->engine->turn.batch;
        conn->engine->count.sent_rejections++;
    }
    btl_ib_pool_put(segment);
}

bool btl_ib_target_put(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;
    uint8_t *memory = NULL;
    btl_ib_region_result_t result =
        btl_ib_regions_check(&engine->regions, &view->op.key, view->op.offset,
                             view->op.end - view->op.offset, BTL_IB_ACCESS_WRITE, &memory);

    if (!btl_ib_region_judge(&engine->count, result)) {
        reject_put(conn, view->op.id);
        return false;
    }
    if (view->size > 0) {
        engine->count.copied_in += btl_ib_burst_place(view, memory);
    }
    engine->count.placed_puts += btl_ib_burst_count(view);
    btl_ib_accept(conn, view);
    return true;
}

/* ---- GET ---- */

bool btl_ib_target_get(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;
    const uint64_t size = view->op.end - view->op.offset;
    /* The stream reads from the region that the bytes are really in: that one is lent, and may
     * be removed. */
    btl_ib_region_key_t key = view->op.key;
    uint64_t offset = view->op.offset;
    btl_ib_stream_t *stream = NULL;
    uint8_t *memory;

    if (!btl_ib_replies_reserve(conn)) {
        return false;
    }
    const btl_ib_region_result_t result =
        btl_ib_regions_resolve(&engine->regions, &key, &offset, size, BTL_IB_ACCESS_READ, &memory);
    if (btl_ib_region_allows(result) && size > 0) {
        stream = btl_ib_replies_stream(conn, view, &key, offset);
        if (stream == NULL) {
            return false;
        }
    }
    btl_ib_accept(conn, view);
    if (!btl_ib_region_judge(&engine->count, result)) {
        btl_ib_replies_add(conn, view->op.id, BTL_IB_REPLY_REJECTED, 0);
        return true;
    }
    engine->count.served_gets++;
    if (stream == NULL) {
        btl_ib_replies_add(conn, view->op.id, BTL_IB_REPLY_DONE, 0);
    } else {
        btl_ib_replies_begin(stream);
    }
    return true;
}

/* ---- ATOMIC ---- */

bool btl_ib_target_atomic(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;
    uint32_t status = BTL_IB_REPLY_REJECTED;
    uint64_t before = 0;
    uint8_t *word;

    if (!btl_ib_replies_reserve(conn)) {
        return false;
    }
    btl_ib_accept(conn, view);
    if (btl_ib_region_judge(&engine->count,
                            btl_ib_regions_check(&engine->regions, &view->op.key, view->op.offset,
                                                 btl_ib_atomic_size(view->op.type),
                                                 BTL_IB_ACCESS_ATOMIC, &word))) {
        if (btl_ib_atomic_execute(word, view->op.code, view->op.type, view->op.operand,
                                  view->op.compare, &before)
            == 0) {
            status = BTL_IB_REPLY_DONE;
            engine->count.served_atomics++;
        } else {
            engine->count.rejected_aligned++;
        }
    }
    btl_ib_replies_add(conn, view->op.id, status, before);
    return true;
}

/* ---- regions ---- */

int btl_ib_region_add(btl_ib_engine_t *engine, void *base, uint64_t size, uint32_t access,
                      btl_ib_region_key_t *key)
{
    return btl_ib_regions_add(&engine->regions, base, size, access, key);
}

void btl_ib_region_remove(btl_ib_engine_t *engine, const btl_ib_region_key_t *key)
{
    if (btl_ib_regions_lent(&engine->regions, key)) {
        btl_ib_sentmap_own(engine, key->id);
    }
    btl_ib_regions_remove(&engine->regions, key);
}

void *btl_ib_region_find(btl_ib_engine_t *engine, const btl_ib_region_key_t *key, uint64_t offset,
                         uint64_t size, uint32_t access)
{
    uint8_t *memory;

    return btl_ib_region_allows(
               btl_ib_regions_check(&engine->regions, key, offset, size, access, &memory))
               ? memory
               : NULL;
}
