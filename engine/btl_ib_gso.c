/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_gso.h"

#include "btl_ib_state.h"
#include "btl_ib_packet.h"

#include <errno.h>

/* Which GSO bursts the path carries: see btl_ib_gso.h. */

enum {
    LOSSES = 5,              /* in a row before the first verdict, over at least */
    LOSSES_TIME = 20 * 1000, /* us: a queue that overflows is empty again by then */
    LOSSES_MORE = 3,         /* in a row where longer bursts were found to be lost before */
    STEP = 4,                /* bursts become so many times shorter, and longer again */
    RETRY_FIRST = 1000000,   /* us until longer ones are tried again; doubled each time, */
    RETRY_MOST = 512000000,  /* us: up to this */
};

static uint32_t gso_transport_bytes(const btl_ib_conn_t *conn)
{
    return conn->route.via->transport->attr.gso_bytes;
}

uint32_t btl_ib_gso_segments(const btl_ib_conn_t *conn)
{
    const btl_ib_transport_attr_t *attr = &conn->route.via->transport->attr;
    const uint32_t most = conn->gso.most != 0 ? conn->gso.most : UINT32_MAX;

    return btl_ib_max_u32(
        btl_ib_min_u32(btl_ib_min_u32(attr->gso_bytes, most) / conn->pmtud.datagram_max,
                       attr->max_batch),
        1);
}

static void gso_forget_losses(btl_ib_gso_t *gso)
{
    gso->losses = 0;
    gso->watched = gso->most != 0 || gso->raised;
}

/* Returns the bytes of a burst: all of its datagrams but the last are as large as the first. */
static uint32_t gso_run_bytes(const btl_ib_tx_t *first, int run)
{
    return (uint32_t) (run - 1) * first[0].size + first[run - 1].size;
}

void btl_ib_gso_resized(btl_ib_conn_t *conn)
{
    gso_forget_losses(&conn->gso);
    btl_ib_cc_set_gso(&conn->cc, btl_ib_gso_segments(conn));
}

/* Limits bursts to `most` bytes from now on. */
static void gso_limit(btl_ib_conn_t *conn, uint32_t most, bool raised)
{
    btl_ib_gso_t *gso = &conn->gso;

    gso->proven = gso->most;
    gso->raised = raised;
    gso->most = most;
    btl_ib_gso_resized(conn);
    BTL_IB_LOG(conn->engine, 10, "peer %u.%u: %s joins datagrams to bursts of %u bytes at most",
               BTL_IB_NAME_ARGS(conn->identity.name), conn->route.via->transport->name,
               most != 0 ? most : gso_transport_bytes(conn));
}

/* ---- shorter ---- */

static void gso_shorten(btl_ib_conn_t *conn)
{
    btl_ib_gso_t *gso = &conn->gso;
    const bool known = gso->raised;
    const bool refused = gso->refused;
    const uint32_t lost = gso->suspect;
    uint32_t most = known ? gso->proven : btl_ib_max_u32(lost / STEP, gso->carried);

    most = most < 2 * conn->pmtud.datagram_max ? 1 : most;
    if (known || gso->most == 0) { /* not one of the further steps down */
        gso->retry_wait =
            gso->retry_wait == 0 ? RETRY_FIRST : btl_ib_min_u32(2 * gso->retry_wait, RETRY_MOST);
    }
    gso->retry_at = conn->engine->clock.now + gso->retry_wait;
    gso_limit(conn, most, false);
    conn->engine->count.short_bursts++;
    if (!known && conn->engine->ops->gso_lost != NULL) {
        conn->engine->ops->gso_lost(conn->engine->ops_context, conn, lost, refused);
    }
}

/* Concludes that long bursts do not get through, if the row is long enough, and single datagrams
 * got through meanwhile. */
static void gso_judge(btl_ib_conn_t *conn)
{
    const btl_ib_gso_t *gso = &conn->gso;
    const bool first = gso->most == 0 && !gso->raised;

    if (gso->alone && gso->losses >= (first ? LOSSES : LOSSES_MORE)
        && (!first || conn->engine->clock.now - gso->since >= LOSSES_TIME)) {
        gso_shorten(conn);
    }
}

/* Counts a burst of `bytes` with datagrams of `size` bytes that was lost, or refused. */
static void gso_count_loss(btl_ib_conn_t *conn, uint32_t bytes, uint32_t size, bool refused)
{
    btl_ib_gso_t *gso = &conn->gso;

    if (gso->losses == 0 || bytes <= gso->carried) {
        gso->losses = 0;
        gso->suspect = bytes;
        gso->datagram = 0;
        gso->carried = 0;
        gso->alone = false;
        gso->since = conn->engine->clock.now;
    }
    gso->suspect = btl_ib_min_u32(gso->suspect, bytes);
    gso->datagram = btl_ib_max_u32(gso->datagram, size);
    gso->losses++;
    gso->refused = refused;
    gso->watched = true;
    gso->struck_at = conn->engine->clock.now;
    gso_judge(conn);
}

bool btl_ib_gso_lost(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    const btl_ib_gso_t *gso = &conn->gso;

    if (segment->burst == 0) {
        return false;
    }
    /* Longer ones than are sent now are known not to get through. */
    if ((gso->most == 0 || segment->burst <= gso->most)
        && (gso->losses == 0 || segment->last_sent >= gso->struck_at)) {
        gso_count_loss(conn, segment->burst, btl_ib_packet_datagram_size(conn, segment), false);
    }
    return true;
}

int btl_ib_gso_joined(const btl_ib_conn_t *conn, const btl_ib_tx_t *tx, int count)
{
    return btl_ib_gso_run(tx, count, gso_transport_bytes(conn));
}

void btl_ib_gso_refused(btl_ib_conn_t *conn, const btl_ib_tx_t *tx, int count)
{
    if (conn->gso.losses == 0 || conn->engine->clock.now > conn->gso.struck_at) {
        gso_count_loss(conn, gso_run_bytes(tx, count), tx[0].size, true);
    }
}

/* ---- longer again ---- */

static void gso_lengthen(btl_ib_conn_t *conn)
{
    const uint32_t present = btl_ib_max_u32(conn->gso.most, conn->pmtud.datagram_max);
    const uint32_t most = present * STEP;

    gso_limit(conn, most < gso_transport_bytes(conn) ? most : 0, true);
}

void btl_ib_gso_watched_arrived(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    btl_ib_gso_t *gso = &conn->gso;
    const uint32_t size = btl_ib_packet_datagram_size(conn, segment);

    if (gso->losses > 0 && segment->burst >= gso->suspect) {
        gso_forget_losses(gso);
    } else if (gso->losses > 0 && segment->burst > 0) {
        gso->carried = btl_ib_max_u32(gso->carried, segment->burst);
    } else if (gso->losses > 0 && size >= gso->datagram && segment->last_sent >= gso->since) {
        gso->alone = true;
        gso_judge(conn);
    }
    if (gso->losses > 0) {
        return;
    }
    const bool proven =
        gso->raised && segment->burst > gso->proven && segment->burst >= gso->most / 2;
    if (proven && gso->most == 0) {
        gso->raised = false;
        gso_forget_losses(gso);
    } else if (proven
               || (gso->most != 0 && !gso->raised && conn->engine->clock.now >= gso->retry_at)) {
        gso_lengthen(conn);
    }
}

/* ---- what left ---- */

void btl_ib_gso_left(const btl_ib_conn_t *conn, const btl_ib_tx_t *tx,
                     btl_ib_segment_t *const *segments, int count)
{
    for (int i = 0, run; i < count; i += run) {
        run = btl_ib_gso_joined(conn, tx + i, count - i);
        const uint32_t bytes = gso_run_bytes(tx + i, run);
        for (int j = i; j < i + run && run > 1; j++) {
            segments[j]->burst = bytes;
        }
    }
}
