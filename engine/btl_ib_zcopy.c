/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_zcopy.h"

#include "btl_ib_packet.h"
#include "btl_ib_rtt.h"

#include <assert.h>

enum {
    /* A process that has sent several messages is taken for one that waits for their memory once so
     * many calls in a row received nothing. While it receives it has other work, and their
     * acknowledgements may be among what it receives; but not for more than so many batches. */
    IDLE_CALLS = 4,
    BATCHES = 32,
};

void btl_ib_zcopy_let_go(btl_ib_engine_t *engine, btl_ib_msg_t *msg)
{
    btl_ib_list_remove(&msg->zcopy.link);
    msg->zcopy.held = false;
    engine->zcopy.count--;
}

bool btl_ib_zcopy_left(btl_ib_conn_t *conn, btl_ib_msg_t *msg)
{
    btl_ib_engine_t *engine = conn->engine;

    if (!msg->zcopy.held) {
        return false;
    }
    if (!msg->refers) { /* all segments are copies */
        btl_ib_zcopy_let_go(engine, msg);
        return false;
    }
    msg->zcopy.until = engine->clock.now + conn->identity.peer_ack_delay
                       + btl_ib_rtt_timeout(&conn->loss.rtt, engine->config.rto_initial);
    msg->zcopy.batch = engine->turn.batches;
    btl_ib_list_push_tail(&engine->zcopy.sent, &msg->zcopy.link);
    btl_ib_work_note(&engine->work);
    return true;
}

/* Copies the bytes of those of its segments that are on this list. `missing` of its segments are
 * still to be found, on this list or another; returns how many after this. They follow each other,
 * mostly at one of the two ends of the list: so these are gone through by turns. */
static uint32_t copy_segments(const btl_ib_list_t *segments, const btl_ib_msg_t *msg,
                              uint32_t missing)
{
    btl_ib_engine_t *engine = msg->out.conn->engine;
    btl_ib_list_t *front = segments->next;
    btl_ib_list_t *back = segments->prev;
    bool forward = true;
    bool last = front == segments;

    while (!last && missing > 0) {
        btl_ib_list_t *item = forward ? front : back;
        btl_ib_segment_t *segment = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);

        last = front == back;
        if (forward) {
            front = front->next;
        } else {
            back = back->prev;
        }
        if (segment->out == &msg->out) {
            engine->count.copied_out += btl_ib_packet_move_bytes(segment, &msg->iov[1], msg->spare);
            missing--; /* its neighbour is on the same side */
        } else {
            forward = !forward;
        }
    }
    return missing;
}

btl_ib_msg_t *btl_ib_zcopy_release(btl_ib_engine_t *engine)
{
    btl_ib_list_t *first = btl_ib_list_first(&engine->zcopy.sent);

    if (first == NULL || btl_ib_zcopy_due(engine) > engine->clock.now) {
        return NULL;
    }
    btl_ib_msg_t *msg = BTL_IB_CONTAINER(first, btl_ib_msg_t, zcopy.link);
    if (engine->zcopy.count > 1 && engine->turn.idle_calls < IDLE_CALLS
        && engine->turn.batches - msg->zcopy.batch < BATCHES
        && engine->clock.now < msg->zcopy.until) {
        return NULL;
    }
    const btl_ib_sentmap_t *sentmap = &msg->out.conn->sentmap;
    uint32_t missing = msg->out.pending;
    for (int i = BTL_IB_SENT_BULK; i < btl_ib_sent_lists(msg->out.conn); i++) {
        missing = copy_segments(btl_ib_sent_list(msg->out.conn, i), msg, missing);
    }
    missing = copy_segments(&sentmap->lost, msg, missing);
    missing = copy_segments(&sentmap->deferred, msg, missing);
    assert(missing == 0);
    btl_ib_zcopy_let_go(engine, msg);
    engine->count.zcopy_kept++;
    return msg;
}

/* True if so little is in flight that the peer may wait before it acknowledges that. */
static bool is_tail(const btl_ib_conn_t *conn)
{
    return conn->sentmap.in_flight
           < btl_ib_max_u32(BTL_IB_ACK_EVERY_ANSWERED, btl_ib_cc_ack_every(&conn->cc));
}

uint64_t btl_ib_zcopy_due(const btl_ib_engine_t *engine)
{
    const btl_ib_list_t *first = btl_ib_list_first(&engine->zcopy.sent);

    if (first == NULL) {
        return UINT64_MAX;
    }
    const btl_ib_msg_t *msg = BTL_IB_CONTAINER(first, btl_ib_msg_t, zcopy.link);
    return engine->zcopy.count == 1 || is_tail(msg->out.conn) ? engine->clock.now
                                                              : msg->zcopy.until;
}
