/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_pmtud.h"

#include "btl_ib_gso.h"
#include "btl_ib_list.h"
#include "btl_ib_packet.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "btl_ib_trace.h"

#include <assert.h>

/* What size of datagrams the path carries: see btl_ib_pmtud.h. */

enum {
    LOSSES = 5, /* in a row, at different times: by chance once in 3 million at 5 % loss */
    LOSSES_LEAST_TIME =
        20 * 1000, /* us: a queue that overflows briefly has room for small datagrams only */
    BASE = 1200,   /* bytes: what every path carries that anybody uses (RFC 9000, 14) */
    LEAST = 512,   /* bytes, nearly what RFC 791 asks for (576); smaller ones are never suspected */
    ASK_SILENT = 4,           /* one probe in so many asks a peer again that did not answer */
    SEARCH_SOON = 1000,       /* us: after a black hole was found */
    SEARCH_STEP = 32,         /* bytes: a smaller interval is not worth a probe */
    SEARCH_FAILURES = 3,      /* probes of a size that were lost: it is too large */
    SEARCH_LATER = 600000000, /* us: paths change (RFC 8899, 5.1.1: PMTU_RAISE_TIMER) */
};

/* Returns the bytes of the largest datagram that a segment travels in. */
static uint32_t on_wire(const btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    return btl_ib_min_u32(btl_ib_packet_datagram_size(conn, segment), conn->pmtud.datagram_max);
}

/* True if a segment is the probe that the search waits for. Others were sent over another route, or
 * before the sizes were reset: what becomes of them says nothing. */
static bool is_awaited(const btl_ib_pmtud_t *sizes, const btl_ib_segment_t *segment)
{
    return sizes->probing && segment->channel == sizes->probe_channel
           && segment->seq == sizes->probe_seq;
}

static void end_rows(btl_ib_pmtud_t *sizes)
{
    for (int i = 0; i < BTL_IB_SIZE_LOSSES; i++) {
        sizes->streaks[i].losses = 0;
    }
}

/* Sets the size of datagrams: they are no larger than `size` from now on. */
static void resize(btl_ib_conn_t *conn, uint32_t size)
{
    if (size != conn->pmtud.datagram_max) {
        BTL_IB_LOG_DETAIL(conn->engine, "peer %u.%u: datagrams of at most %u bytes, before of %u",
                          BTL_IB_NAME_ARGS(conn->identity.name), size, conn->pmtud.datagram_max);
    }
    const bool changes = size != conn->pmtud.datagram_max;
    conn->pmtud.datagram_max = size;
    btl_ib_gso_resized(conn);
    if (changes) {
        btl_ib_trace(conn, BTL_IB_TRACE_path_mtu, BTL_IB_CAUSE_none, NULL, 1);
    }
}

void btl_ib_pmtud_init(btl_ib_conn_t *conn, uint32_t carries, uint32_t most)
{
    conn->pmtud = (btl_ib_pmtud_t){.datagram_max = most,
                                   .carries = carries,
                                   .home = most,
                                   .most = most,
                                   .too_large = most + 1,
                                   .search_at = UINT64_MAX};
}

void btl_ib_pmtud_begin(btl_ib_conn_t *conn)
{
    conn->pmtud.parts = false;
    end_rows(&conn->pmtud);
    conn->pmtud.asked = false;
    conn->pmtud.probing = false;
}

/* ---- smaller ---- */

/* Sends segments in flight that are too large again, in parts, before they are found lost. */
static void lose_large(btl_ib_conn_t *conn)
{
    for (int kind = 0; kind < btl_ib_sent_lists(conn); kind++) {
        const btl_ib_list_t *sent = btl_ib_sent_list(conn, kind);
        btl_ib_list_t *item = btl_ib_list_first(sent);
        while (item != NULL) {
            btl_ib_segment_t *segment = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
            item = btl_ib_list_next(sent, item);
            if (btl_ib_packet_datagram_size(conn, segment) > conn->pmtud.datagram_max
                && !btl_ib_segment_is_mtu_probe(segment)) {
                btl_ib_sentmap_to_lost(conn, segment);
            }
        }
    }
    btl_ib_conn_ready(conn);
}

/* Packetizes for datagrams of `size` bytes from now on, and begins to search at `search_at`. */
static void shrink(btl_ib_conn_t *conn, uint32_t size, uint64_t search_at)
{
    btl_ib_pmtud_t *sizes = &conn->pmtud;

    resize(conn,
           btl_ib_max_u32(size, btl_ib_protection_datagram_min(conn->engine->protection.kind)));
    sizes->parts = true;
    end_rows(sizes);
    sizes->asked = false;
    sizes->probing = false;
    sizes->proven = btl_ib_min_u32(sizes->proven, sizes->datagram_max);
    sizes->failures = 0;
    sizes->next = sizes->most;
    sizes->too_large = sizes->most + 1;
    sizes->search_at = search_at;
    btl_ib_pending_shrunk(conn);
    lose_large(conn);
}

void btl_ib_pmtud_moved(btl_ib_conn_t *conn, const btl_ib_conn_t *other)
{
    btl_ib_pmtud_t *sizes = &conn->pmtud;
    const bool own = other == conn;
    uint32_t carries = own ? sizes->home : other->pmtud.datagram_max;

    sizes->most = own ? sizes->home : btl_ib_min_u32(sizes->home, other->pmtud.most);
    sizes->checking = false; /* it was about the connection's own rails */
    /* not later than `other` would: it may have been in the middle of a search */
    shrink(conn, btl_ib_min_u32(sizes->home, carries), other->pmtud.search_at);
    if (conn->pmtud.datagram_max == sizes->most) {
        sizes->search_at = UINT64_MAX;
    }
}

void btl_ib_pmtud_narrowed(btl_ib_conn_t *conn, uint32_t size)
{
    if (size >= conn->pmtud.datagram_max) {
        return;
    }
    shrink(conn, size, conn->engine->clock.now + (conn->pmtud.checking ? 0 : SEARCH_LATER));
    if (conn->pmtud.checking) { /* what the network says is to be proven, but nothing larger */
        conn->pmtud.next = 0;
        conn->pmtud.too_large = conn->pmtud.datagram_max + 1;
    }
    BTL_IB_LOG(conn->engine, 1, "peer %u.%u: the path carries datagrams of %u bytes, not of %u",
               BTL_IB_NAME_ARGS(conn->identity.name), conn->pmtud.datagram_max, conn->pmtud.most);
}

/* ---- black holes ---- */

static void found_hole(btl_ib_conn_t *conn, uint32_t suspect, uint32_t carried)
{
    const btl_ib_pmtud_t *sizes = &conn->pmtud;
    uint32_t size = suspect > BASE ? BASE : LEAST;

    size = btl_ib_max_u32(size, carried & ~7u);
    conn->engine->count.black_holes++;
    BTL_IB_LOG(conn->engine, 1,
               "peer %u.%u: datagrams of %u bytes do not get through to it, smaller ones do, and "
               "nobody says so (%s carries %u): sent are at most %u now. Is the MTU of a switch on "
               "the path smaller, or does a firewall drop ICMP messages?",
               BTL_IB_NAME_ARGS(conn->identity.name), suspect, conn->route.via->transport->name,
               sizes->most, size);
    if (conn->engine->ops->black_hole != NULL) {
        conn->engine->ops->black_hole(conn->engine->ops_context, conn, suspect, size, sizes->most);
    }
    shrink(conn, size, conn->engine->clock.now + SEARCH_SOON);
}

static_assert(LEAST > BTL_IB_DATAGRAM_MIN + BTL_IB_TRAILER_MAX, "what is suspected can be divided");

/* True if the path MTU could be the reason that a datagram of that size was lost. */
static bool is_suspect(const btl_ib_conn_t *conn, uint32_t size)
{
    return size > LEAST && !conn->route.via->transport->attr.reliable;
}

/* Returns the streak in which a loss of that size counts: the first one in which nothing as large
 * got through, or else the last one, which begins anew. */
static btl_ib_size_losses_t *losses_of_size(btl_ib_pmtud_t *sizes, uint32_t size)
{
    btl_ib_size_losses_t *streak = sizes->streaks;

    while (streak < &sizes->streaks[BTL_IB_SIZE_LOSSES - 1] && streak->losses > 0
           && size <= streak->carried) {
        streak++;
    }
    return streak;
}

bool btl_ib_pmtud_lost(btl_ib_conn_t *conn, const btl_ib_segment_t *segment, bool shown)
{
    const uint64_t now = conn->engine->clock.now;
    const uint32_t size = on_wire(conn, segment);

    if (!is_suspect(conn, size) || btl_ib_segment_is_mtu_probe(segment)
        || btl_ib_segment_got_rnr(segment)) {
        return false;
    }
    btl_ib_size_losses_t *streak = losses_of_size(&conn->pmtud, size);
    if (streak->losses > 0 && segment->last_sent < streak->struck_at) {
        return false;
    }
    if (streak->losses == 0 || size <= streak->carried) {
        *streak = (btl_ib_size_losses_t){.suspect = size, .since = now};
    }
    streak->suspect = btl_ib_min_u32(streak->suspect, size);
    streak->largest = btl_ib_max_u32(streak->largest, size);
    streak->losses++;
    streak->shown += shown;
    streak->struck_at = now;
    if (streak->losses < LOSSES || now - streak->since < LOSSES_LEAST_TIME) {
        return false;
    }
    found_hole(conn, streak->suspect, streak->carried);
    return true;
}

/* Losses that answers to questions showed stay valid, and what this answer shows stays valid: the
 * peer names its last RNR. Otherwise a peer whose RNRs wait for what the black hole
 * drops would hide it for ever. */
void btl_ib_pmtud_unknown(btl_ib_conn_t *conn)
{
    for (int i = 0; i < BTL_IB_SIZE_LOSSES; i++) {
        btl_ib_size_losses_t *streak = &conn->pmtud.streaks[i];
        streak->losses = btl_ib_min_u32(streak->losses, streak->shown);
    }
}

/* Asks whether the path drops large datagrams. A copy that got RNR got through, so the next one
 * asks nothing; those behind it do: the path may carry less since. */
bool btl_ib_pmtud_ask(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    btl_ib_pmtud_t *sizes = &conn->pmtud;
    bool silent =
        sizes->asked && conn->loss.probes % ASK_SILENT != 1; /* it did not answer the last */
    bool came = segment->rnr_copy > 0 && segment->copies == segment->rnr_copy + 1;

    if (silent || came || !is_suspect(conn, on_wire(conn, segment))
        || btl_ib_segment_is_mtu_probe(segment)) {
        return false;
    }
    sizes->asked = true;
    sizes->asked_channel = segment->channel;
    sizes->asked_seq = segment->seq;
    sizes->asked_at = conn->engine->clock.now;
    return true;
}

bool btl_ib_pmtud_answered(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_pmtud_t *sizes = &conn->pmtud;

    if (!sizes->asked || !(view->flags & BTL_IB_FLAG_ECHO)
        || btl_ib_clock_stamped_at(&conn->engine->clock, view->echo) < sizes->asked_at) {
        return false;
    }
    const btl_ib_segment_t *segment =
        btl_ib_tx_window_at(&conn->tx[sizes->asked_channel].sentmap.window, sizes->asked_seq);
    sizes->asked = false;
    if (segment == NULL || segment->deferred || segment->last_sent != sizes->asked_at) {
        return false;
    }
    return btl_ib_pmtud_lost(conn, segment, true);
}

/* ---- larger again ---- */

/* Ends the search, as there is nothing more to find for now. */
static void end_search(btl_ib_pmtud_t *sizes, uint64_t next_at)
{
    sizes->checking = false;
    sizes->search_at = next_at;
}

/* Returns the size of the next probe of a check that is to prove the present size; 0: none now. */
static uint32_t next_to_prove(btl_ib_conn_t *conn)
{
    btl_ib_pmtud_t *sizes = &conn->pmtud;

    if (sizes->too_large > sizes->datagram_max) {
        sizes->next = sizes->datagram_max;
        return sizes->next;
    }
    if (is_suspect(conn, sizes->datagram_max)) {
        found_hole(conn, sizes->datagram_max, 0);
        sizes->search_at = conn->engine->clock.now; /* no traffic would wake it later */
    } else {                                        /* smaller ones are not searched for */
        sizes->too_large = sizes->most + 1;
        end_search(sizes, conn->engine->clock.now + SEARCH_LATER);
    }
    return 0;
}

void btl_ib_pmtud_check(btl_ib_conn_t *conn)
{
    btl_ib_pmtud_t *sizes = &conn->pmtud;

    sizes->checking = true;
    sizes->proven = 0;
    sizes->search_at = conn->engine->clock.now;
    btl_ib_conn_ready(conn);
}

void btl_ib_pmtud_received(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    const uint32_t connect = sizeof(btl_ib_wire_connect_t);
    const uint32_t size = view->bytes + (uint32_t) sizeof(btl_ib_wire_header_t)
                          + (view->flags & BTL_IB_FLAG_CONNECT ? connect : 0)
                          + conn->engine->protection.ops->trailer;

    if (view->bytes > 0) {
        conn->pmtud.received = btl_ib_max_u32(conn->pmtud.received, size);
    }
}

uint32_t btl_ib_pmtud_contact_size(const btl_ib_conn_t *conn)
{
    return (uint32_t) (sizeof(btl_ib_wire_header_t) + sizeof(btl_ib_wire_connect_t))
           + conn->engine->protection.ops->trailer;
}

uint32_t btl_ib_pmtud_next_probe(btl_ib_conn_t *conn)
{
    btl_ib_pmtud_t *sizes = &conn->pmtud;

    if (sizes->probing || conn->draining) {
        return 0;
    }
    if (!conn->identity.peer_knows) {
        const bool first = sizes->checking && conn->sentmap.unacked == 0;
        return first ? btl_ib_pmtud_contact_size(conn) : 0;
    }
    if (sizes->checking && sizes->proven < sizes->datagram_max) {
        return next_to_prove(conn);
    }
    if (sizes->next > conn->pmtud.datagram_max) {
        return sizes->next;
    }
    if (sizes->too_large - conn->pmtud.datagram_max > SEARCH_STEP) {
        sizes->next = ((conn->pmtud.datagram_max + sizes->too_large) / 2) & ~7u;
        return sizes->next;
    }
    BTL_IB_LOG(conn->engine, 10, "peer %u.%u: the path carries datagrams of %u bytes",
               BTL_IB_NAME_ARGS(conn->identity.name), conn->pmtud.datagram_max);
    end_search(sizes, conn->engine->clock.now + SEARCH_LATER);
    sizes->next = sizes->most;
    sizes->too_large = sizes->most + 1;
    return 0;
}

void btl_ib_pmtud_probe_left(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    conn->pmtud.probing = true;
    conn->pmtud.probe_channel = segment->channel;
    conn->pmtud.probe_seq = segment->seq;
}

void btl_ib_pmtud_retransmitting(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    btl_ib_pmtud_t *sizes = &conn->pmtud;

    if (!btl_ib_segment_is_mtu_probe(segment)) {
        return;
    }
    const uint32_t size = btl_ib_packet_datagram_size(conn, segment);
    const bool awaited = is_awaited(sizes, segment);
    btl_ib_flow_retransmitting(conn, segment);
    btl_ib_sentmap_cut_off(conn, segment);
    if (!awaited) {
        return;
    }
    sizes->probing = false;
    if (size == sizes->next && ++sizes->failures == SEARCH_FAILURES) {
        sizes->failures = 0;
        sizes->next = 0;
        sizes->too_large = size;
    }
}

/* Grows datagrams to the size of the probe that the search waits for, which arrived. */
static void grow_datagram(btl_ib_conn_t *conn, uint32_t size)
{
    btl_ib_pmtud_t *sizes = &conn->pmtud;
    const bool smaller = conn->pmtud.datagram_max < sizes->most;

    assert(size <= sizes->most);
    sizes->probing = false;
    sizes->failures = 0;
    sizes->next = 0;
    sizes->proven = btl_ib_max_u32(sizes->proven, size);
    resize(conn, btl_ib_max_u32(conn->pmtud.datagram_max, size));
    if (conn->pmtud.datagram_max == sizes->most) {
        end_search(sizes, UINT64_MAX);
    }
    if (smaller && conn->pmtud.datagram_max == sizes->most) {
        BTL_IB_LOG(conn->engine, 1, "peer %u.%u: the path carries datagrams of %u bytes again",
                   BTL_IB_NAME_ARGS(conn->identity.name), sizes->most);
    }
    btl_ib_conn_ready(conn);
}

static void got_through(btl_ib_size_losses_t *streak, uint32_t size)
{
    streak->losses = size >= streak->largest ? 0 : streak->losses;
    streak->carried = btl_ib_max_u32(streak->carried, size);
    streak->suspect = btl_ib_max_u32(streak->suspect, streak->carried + 1);
}

void btl_ib_pmtud_arrived(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    btl_ib_pmtud_t *sizes = &conn->pmtud;

    if (btl_ib_segment_is_mtu_probe(segment)) {
        if (is_awaited(sizes, segment)) {
            grow_datagram(conn, btl_ib_packet_datagram_size(conn, segment));
        } else {
            btl_ib_flow_arrived(conn, segment);
        }
        return;
    }
    for (int i = 0; i < BTL_IB_SIZE_LOSSES; i++) {
        if (sizes->streaks[i].losses > 0) {
            got_through(&sizes->streaks[i], on_wire(conn, segment));
        }
    }
}
