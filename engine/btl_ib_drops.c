/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_drops.h"

#include "btl_ib_state.h"
#include "btl_ib_route.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    LINES_MAX = 20,       /* in a second */
    SHOWN_BYTES = 16,     /* of the datagram */
    SECOND = 1000 * 1000, /* us */
};

struct btl_ib_drops {
    btl_ib_counters_t seen; /* the engine's counters after the last datagram */
    uint64_t second_at;     /* us: when the present second began */
    uint32_t lines;         /* lines in it */
    uint64_t hidden;        /* datagrams without a line */
};

btl_ib_drops_t *btl_ib_drops_new(const btl_ib_engine_t *engine)
{
    const bool wanted = engine->config.log.detailed && engine->config.log.print != NULL;

    return wanted ? btl_ib_zalloc(&engine->mem, sizeof(btl_ib_drops_t)) : NULL;
}

static void print_hidden(btl_ib_engine_t *engine)
{
    btl_ib_drops_t *drops = engine->drops;

    if (drops->hidden > 0) {
        BTL_IB_LOG(engine, BTL_IB_LOG_DETAILED,
                   "%" PRIu64 " more datagrams were dropped than are shown (%u a second)",
                   drops->hidden, (unsigned) LINES_MAX);
    }
    drops->hidden = 0;
}

void btl_ib_drops_end(btl_ib_engine_t *engine)
{
    print_hidden(engine);
    btl_ib_free(&engine->mem, engine->drops);
}

void btl_ib_drops_turn(btl_ib_engine_t *engine)
{
    if (engine->clock.now - engine->drops->second_at >= SECOND) {
        print_hidden(engine);
    }
}

/* Finds the source of a datagram where the transport cannot tell: the peer with that address. */
static void source_by_peer(const btl_ib_rail_t *rail, btl_ib_addr_t from, char *out, size_t size)
{
    const btl_ib_conn_t *conn = NULL;

    if (from != BTL_IB_ADDR_UNKNOWN) {
        conn = btl_ib_route_to(rail, from, NULL);
        conn = conn != NULL ? conn : btl_ib_route_of(rail, from, NULL);
    }
    if (conn != NULL) {
        snprintf(out, size, "peer %u.%u", BTL_IB_NAME_ARGS(conn->identity.name));
    } else {
        snprintf(out, size, "unknown");
    }
}

static void print_drop(btl_ib_rail_t *rail, const btl_ib_event_t *event, const char *counter)
{
    btl_ib_drops_t *drops = rail->engine->drops;
    const uint32_t shown = event->size < SHOWN_BYTES ? event->size : SHOWN_BYTES;
    char bytes[3 * SHOWN_BYTES + 1] = "";
    char source[80];

    if (drops->lines == LINES_MAX) {
        drops->hidden++;
        return;
    }
    const btl_ib_transport_t *t = rail->transport;
    /* The transport has the buffer back of what the progress thread kept, and cannot tell then. */
    if (t->ops->source_text == NULL || event->buffer == NULL
        || !t->ops->source_text(t, event, source, sizeof(source))) {
        source_by_peer(rail, event->from, source, sizeof(source));
    }
    for (uint32_t i = 0; i < shown; i++) {
        snprintf(bytes + 3 * i, sizeof(bytes) - 3 * i, " %02x", event->data[i]);
    }
    drops->lines++;
    BTL_IB_LOG(rail->engine, BTL_IB_LOG_DETAILED, "%s: %s: %u bytes from %s:%s%s", counter, t->name,
               event->size, source, bytes, event->size > SHOWN_BYTES ? " ..." : "");
}

void btl_ib_drops_note(btl_ib_rail_t *rail, const btl_ib_event_t *event)
{
    btl_ib_engine_t *engine = rail->engine;
    btl_ib_drops_t *drops = engine->drops;
    const btl_ib_counter_info_t *info = NULL;

    if (engine->clock.now - drops->second_at >= SECOND) {
        print_hidden(engine);
        drops->second_at = engine->clock.now;
        drops->lines = 0;
    }
    while ((info = btl_ib_counter_next_drop(info, &drops->seen, &engine->count)) != NULL) {
        print_drop(rail, event, info->name);
    }
    drops->seen = engine->count;
}
