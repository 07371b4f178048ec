/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_ecn.h"

#include "btl_ib_ack_write.h"
#include "btl_ib_state.h"

enum {
    /* Datagrams of a test: some more than in RFC 9000, A.4, as others get lost, too. */
    TEST = 16,
    /* Tests in a row: the first datagrams may come to a receiver that does not read codepoints yet
     * (BTL_IB_ECT_LEAST), and acknowledgements may overtake each other, and their counts with
     * them; */
    UNMARKED_MOST = 3,
    /* by then the window is at its least; */
    ALL_CE_MOST = 16,
    /* if all of that time a queue delays, it is more likely that it belongs to others. */
    ALL_CE_QUEUED_MOST = 128,
    /* us: then marks are tried again, as what marked everything may have been a queue of others. */
    RETRY_AFTER = 30000000,
};

static uint32_t told(const btl_ib_ecn_t *ecn)
{
    return ecn->told_ect + ecn->told_ce;
}

static void test_begin(btl_ib_ecn_t *ecn)
{
    ecn->test_order = 0;
    ecn->sent = 0;
    ecn->tested = told(ecn);
    ecn->tested_ce = ecn->told_ce;
    ecn->marking = ecn->state != BTL_IB_ECN_OFF;
}

void btl_ib_ecn_begin_peer(btl_ib_conn_t *conn)
{
    btl_ib_ecn_t *ecn = &conn->ecn;

    ecn->ect = ecn->ce = 0;
    ecn->told_ect = ecn->told_ce = 0;
    test_begin(ecn);
}

void btl_ib_ecn_begin_route(btl_ib_conn_t *conn)
{
    btl_ib_ecn_t *ecn = &conn->ecn;
    const bool can = ecn->agreed && conn->route.via->transport->attr.ecn;

    ecn->state = can ? BTL_IB_ECN_TESTING : BTL_IB_ECN_OFF;
    ecn->unmarked_tests = 0;
    ecn->all_ce = 0;
    ecn->retry_at = 0;
    test_begin(ecn);
}

void btl_ib_ecn_left(btl_ib_conn_t *conn, const btl_ib_tx_t *tx, int count)
{
    btl_ib_ecn_t *ecn = &conn->ecn;
    uint32_t marked = 0;

    for (int i = 0; i < count; i++) {
        marked += tx[i].ect;
    }
    conn->engine->count.ecn_sent += marked;
    ecn->sent += marked;
    if (ecn->test_order == 0 && ecn->sent >= TEST) {
        ecn->test_order = conn->sentmap.order + (uint32_t) count;
        ecn->marking = ecn->state == BTL_IB_ECN_CAPABLE;
    }
}

void btl_ib_ecn_arrived(btl_ib_conn_t *conn, uint32_t channel, btl_ib_codepoint_t codepoint,
                        uint32_t count)
{
    btl_ib_ecn_t *ecn = &conn->ecn;

    if (!ecn->agreed) {
        return;
    }
    if (codepoint == BTL_IB_CODEPOINT_CE) {
        ecn->ce += count;
        conn->engine->count.ecn_ce_received += count;
        btl_ib_ack_tx_set_pending(conn, channel, true); /* the queue is there now */
    } else if (codepoint == BTL_IB_CODEPOINT_ECT0) {    /* nobody here sends ECT(1) */
        ecn->ect += count;
    }
}

static void turn_off(btl_ib_conn_t *conn, const char *why)
{
    conn->ecn.state = BTL_IB_ECN_OFF;
    conn->ecn.marking = false;
    conn->engine->count.ecn_paths_off++;
    /* Of many peers the first is told. */
    BTL_IB_LOG(conn->engine, conn->engine->count.ecn_paths_off == 1 ? 1 : 10,
               "peer %u.%u: no ECN by %s: %s", BTL_IB_NAME_ARGS(conn->identity.name),
               conn->route.via->transport->name, why);
}

/* Judges the test, of which `grown` datagrams came with ECT(0) or CE, as something that was sent no
 * earlier than its end has arrived. */
static void test_end(btl_ib_conn_t *conn, uint32_t grown, bool all_ce)
{
    btl_ib_ecn_t *ecn = &conn->ecn;

    const uint32_t rtt = btl_ib_rtt_smoothed(&conn->loss.rtt, 0);
    const bool queued = rtt > conn->loss.rtt.min + conn->loss.rtt.min / 2;

    ecn->unmarked_tests = grown == 0 ? ecn->unmarked_tests + 1 : 0;
    ecn->all_ce = all_ce ? ecn->all_ce + 1 : 0;
    if (ecn->unmarked_tests >= UNMARKED_MOST) {
        turn_off(conn, "the network clears the codepoint ECT(0), or drops what has it");
        return;
    }
    if (ecn->all_ce >= (queued ? ALL_CE_QUEUED_MOST : ALL_CE_MOST)) {
        turn_off(conn, "all that has the codepoint ECT(0) arrives with CE, whatever is sent");
        ecn->retry_at = conn->engine->clock.now + RETRY_AFTER;
        return;
    }
    if (grown == 0) {
        ecn->state = BTL_IB_ECN_TESTING;
    } else if (ecn->state == BTL_IB_ECN_TESTING) {
        ecn->state = BTL_IB_ECN_CAPABLE;
        conn->engine->count.ecn_paths++;
        BTL_IB_LOG(conn->engine, 10, "peer %u.%u: ECN by %s", BTL_IB_NAME_ARGS(conn->identity.name),
                   conn->route.via->transport->name);
    }
    test_begin(ecn);
}

void btl_ib_ecn_told(btl_ib_conn_t *conn, uint32_t ect, uint32_t ce)
{
    btl_ib_ecn_t *ecn = &conn->ecn;
    const uint32_t more = ect + ce - told(ecn);
    const uint32_t more_ce = ce - ecn->told_ce;
    const btl_ib_rack_t *rack = &conn->loss.rack[BTL_IB_RACK_ALL];

    if (ecn->state == BTL_IB_ECN_OFF) {
        if (ecn->retry_at != 0 && conn->engine->clock.now >= ecn->retry_at) {
            ecn->told_ect = ect;
            ecn->told_ce = ce;
            btl_ib_ecn_begin_route(conn);
        }
        return;
    }
    if (more != 0 && more <= UINT32_MAX / 2 && more_ce <= more) { /* else it is late, or wrong */
        ecn->told_ect = ect;
        ecn->told_ce = ce;
        conn->engine->count.ecn_ce_told += more_ce;
        const btl_ib_cc_marks_t marks = {
            .now = conn->engine->clock.now,
            .sent_at = rack->xmit_ts,
            .count = more,
            .ce = more_ce,
        };
        conn->engine->count.ecn_cuts += conn->cc.ops->marked(&conn->cc, &marks);
    }
    if (ecn->test_order != 0 && rack->order >= ecn->test_order) {
        const uint32_t grown = told(ecn) - ecn->tested;
        test_end(conn, grown, grown > 0 && ecn->told_ce - ecn->tested_ce == grown);
    }
}
