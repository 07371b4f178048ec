/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_loss.h"

#include "btl_ib_flow.h"
#include "btl_ib_gso.h"
#include "btl_ib_list.h"
#include "btl_ib_pacing.h"
#include "btl_ib_packet.h"
#include "btl_ib_paths.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "btl_ib_trace.h"

#include <assert.h>

/* ---- RACK and PTO ---- */

/*
 * Loss detection, probes and timeouts.
 *
 * Loss is found by time, not by counting: once a segment is known to have arrived, those that were
 * sent clearly earlier should have arrived too (RACK, RFC 8985). If nothing comes back a probe is
 * sent: the first one soon (a tail loss probe), the next ones after a timeout that doubles each
 * time. Each probe is one segment only, because a peer that computes without a progress thread is
 * silent without having lost anything. A probe finds nothing lost: what it is a copy of stays in
 * flight. This file says when to probe; btl_ib_probe.c probes. Where short segments may overtake
 * bulk, bulk is judged only by bulk that arrived, and not by probes. A retransmission is a segment
 * like any other: what is sent after it shows whether it was lost.
 *
 * A retransmission whose acknowledgement echoes a stamp from before it was sent was spurious
 * (Eifel, RFC 3522): the reaction of the congestion control is undone at once. Not all are seen
 * that way, because one acknowledgement echoes one stamp only. So the receiver counts duplicates
 * (as DSACK does, RFC 2883): that count goes into the statistics, and adapts the time allowed for
 * reordering.
 */

enum {
    PROBE_MIN = 200,       /* us: sooner mostly finds peers that are busy */
    REST_AFTER = 200,      /* us: between what the transport takes at a time of a probe in parts */
    REO_WND_MIN = 20,      /* us: allowed as long as no reordering was seen */
    REO_WND_MOST = 500,    /* us, or one round trip if that is longer */
    REO_WND_MULT_MAX = 64, /* quarters of the shortest round trip */
    REO_WND_PERSIST = 16,  /* losses found in a row after which no reordering is expected */
    SKIP_PROBES = 5,
    DISCONNECTED_PROBES = 12, /* after a connection of the transport ended: 0.6 s by default */
    RELIABLE_DOUBLINGS = 4,   /* of rto_max, on a reliable transport */
    FLOW_PROBE_MOST = 16000,  /* us between two probes while there are flows to be tried */
    DOUBLINGS_MAX = 20,       /* of a timeout elsewhere: more exceed rto_max anyway */
};

/* Returns for how long of the `poll_gap` us before it read what it echoes the peer was away: not
 * while it sent, as a process does that hands over one message after the other. `stamp` is that of
 * its datagram, which left `hold` us after it read. */
static inline uint32_t pause_of_peer(const btl_ib_conn_t *conn, uint32_t stamp, uint32_t hold,
                                     uint32_t poll_gap)
{
    const int32_t silent = (int32_t) (stamp - hold - conn->ack.echo); /* since it last sent */

    if (btl_ib_pause_of(poll_gap) == 0 || !conn->ack.echo_valid) {
        return btl_ib_pause_of(poll_gap);
    }
    return silent <= 0 ? 0 : btl_ib_pause_of(btl_ib_min_u32((uint32_t) silent, poll_gap));
}

static inline void take_sample(btl_ib_conn_t *conn, uint32_t flags, uint32_t stamp, uint32_t echo,
                               uint32_t hold, uint32_t poll_gap)
{
    const uint32_t elapsed = (uint32_t) conn->engine->clock.now - echo;

    if (!(flags & BTL_IB_FLAG_ECHO) || hold == BTL_IB_HOLD_UNKNOWN
        || (conn->loss.rtt.srtt8 != 0 && !btl_ib_seq_before(conn->loss.sample_echo, echo)
            && conn->engine->clock.now - conn->loss.sample_at <= BTL_IB_STAMP_AGE)
        || elapsed < hold || elapsed > INT32_MAX) {
        conn->loss.sample = 0;
        conn->loss.sample_hosts = 0;
        conn->loss.sample_pauses = 0;
        return;
    }
    /* One answer that is very late says that the peer's process was away, not that the network is
     * slow. If all answers are late the bound grows along. */
    uint32_t bound = btl_ib_rtt_timeout(&conn->loss.rtt, conn->engine->config.rto_initial);
    bound = conn->loss.rtt.srtt8 == 0 ? bound : 2 * bound;
    uint32_t sample = elapsed - hold;
    conn->loss.sample_echo = echo;
    conn->loss.sample_at = conn->engine->clock.now;
    btl_ib_rtt_sample(&conn->loss.rtt, sample, bound);
    conn->loss.sample = sample == 0 ? 1 : sample;
    /* How long a datagram waited at a host before it was polled is not known, but it was at most
     * the time since the poll before. */
    uint64_t hosts = (uint64_t) conn->engine->turn.poll_gap + poll_gap;
    conn->loss.sample_hosts = btl_ib_clip_u32(hosts, sample);
    /* What waited for a host that was away is no standing queue, which a smaller window would make
     * shorter. */
    const uint64_t pauses =
        (uint64_t) conn->engine->turn.pause + pause_of_peer(conn, stamp, hold, poll_gap);
    conn->loss.sample_pauses = btl_ib_clip_u32(pauses, sample);
    btl_ib_pauses_note(&conn->loss.pauses, poll_gap, conn->engine->clock.now);
}

void btl_ib_loss_datagram_received(btl_ib_conn_t *conn, uint32_t flags, uint32_t stamp,
                                   uint32_t echo, uint32_t hold, uint32_t poll_gap)
{
    btl_ib_loss_t *loss = &conn->loss;

    loss->heard_at = conn->engine->clock.awake;
    loss->refused_since = 0;
    loss->disconnected = false;
    if (flags & BTL_IB_FLAG_NO_TAG) {
        loss->no_tag_at = conn->engine->clock.awake;
    }
    if (loss->unanswered_probes > 0 && (flags & BTL_IB_FLAG_ECHO)
        && btl_ib_clock_stamped_at(&conn->engine->clock, echo) >= loss->asked_at) {
        loss->unanswered_probes = 0;
        btl_ib_flow_answered(&conn->flow);
    }
    take_sample(conn, flags, stamp, echo, hold, poll_gap);
    if (conn->flow.on_trial && (flags & BTL_IB_FLAG_ECHO)) {
        btl_ib_flow_heard(conn, echo);
    }
}

/* Allows more time for reordering, or a late acknowledgement, that looked like a loss. That time
 * grows only once in a round trip, because all segments of one may have been late for one reason
 * (RFC 8985, 6.2). */
static void allow_more_time(btl_ib_conn_t *conn)
{
    uint64_t now = conn->engine->clock.now;

    conn->loss.reo_wnd_persist = 0;
    if (now >= conn->loss.reorder_at + btl_ib_rtt_smoothed(&conn->loss.rtt, 0)
        && conn->loss.reo_wnd_mult < REO_WND_MULT_MAX) {
        conn->loss.reo_wnd_mult = conn->loss.reo_wnd_mult == 0 ? 1 : 2 * conn->loss.reo_wnd_mult;
        conn->loss.reorder_at = now;
    }
}

void btl_ib_loss_duplicates(btl_ib_conn_t *conn, uint32_t channel, uint16_t duplicates)
{
    btl_ib_counters_t *count = &conn->engine->count;
    uint32_t more = (uint16_t) (duplicates - conn->tx[channel].loss.duplicates);

    if (more == 0 || more > INT16_MAX) { /* an old acknowledgement that was overtaken */
        return;
    }
    conn->tx[channel].loss.duplicates = duplicates;
    if (more > count->retransmits - count->retransmits_spurious) {
        more = (uint32_t) (count->retransmits - count->retransmits_spurious);
    }
    count->retransmits_spurious += more;
    conn->count.retransmits_spurious += more;
    btl_ib_trace(conn, BTL_IB_TRACE_spurious, BTL_IB_CAUSE_none, NULL, more);
    /* An unnecessary probe does not say that anything was late. */
    uint32_t asked = more < conn->loss.probed ? more : conn->loss.probed;
    conn->loss.probed -= asked;
    if (more > asked) {
        allow_more_time(conn);
    }
}

/* True if an earlier copy of an acknowledged segment that was sent again, or is about to be,
 * arrived: the echo shows it, or the last copy had no time to get there and be acknowledged (RFC
 * 8985, 6.2, step 2). If the segment was wrongly found lost that is undone. Others wait for
 * retransmission or were sent again, too: they got RNR, became void, or were probes. */
static bool earlier_arrived(btl_ib_conn_t *conn, const btl_ib_segment_t *segment, bool echo_valid,
                            uint32_t echo)
{
    const bool earlier =
        segment->copies > 1
        && (conn->engine->clock.now - segment->last_sent < conn->loss.rtt.min
            || (echo_valid
                && btl_ib_clock_stamped_at(&conn->engine->clock, echo) < segment->last_sent));
    const bool found_lost = segment->lost && segment->cc_lost_copy == segment->copies;
    const bool sent_for_loss = segment->cc_lost_copy != 0 && !segment->probe
                               && segment->cc_lost_copy + 1 == segment->copies;

    if (found_lost) { /* and about to be sent again */
        allow_more_time(conn);
    }
    if (found_lost || (earlier && sent_for_loss)) {
        conn->cc.ops->undo(&conn->cc);
    }
    return earlier;
}

/* True if other segments may overtake this one. */
static inline bool may_be_overtaken(const btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    return conn->route.via->transport->attr.bulk_lane && btl_ib_segment_is_bulk(segment);
}

/* Notes that bulk which others may overtake arrived, and was probed with. The echo may be that of
 * what overtook it, so that the probe may still be on its way: the copy before is taken for the one
 * that arrived. */
static void note_unprobed(btl_ib_loss_t *loss, const btl_ib_segment_t *segment,
                          const btl_ib_clock_t *clock)
{
    const uint64_t sent_at = btl_ib_clock_stamped_at(clock, segment->unprobed_stamp);

    for (int i = 0; i < BTL_IB_RACKS; i++) {
        btl_ib_rack_note(&loss->rack[i], segment->unprobed_order, sent_at, clock->now);
    }
}

void btl_ib_loss_update_rack(btl_ib_conn_t *conn, const btl_ib_segment_t *segment, bool echo_valid,
                             uint32_t echo)
{
    btl_ib_loss_t *loss = &conn->loss;
    const uint64_t now = conn->engine->clock.now;

    if ((segment->copies > 1 || segment->lost)
        && earlier_arrived(conn, segment, echo_valid, echo)) {
        return; /* which of the earlier copies it was is not known */
    }
    if (segment->path != 0) {
        btl_ib_paths_arrived(conn, segment);
        return;
    }
    if (segment->probe && may_be_overtaken(conn, segment)) {
        note_unprobed(loss, segment, &conn->engine->clock);
        return;
    }
    btl_ib_loss_arrived(loss, &conn->tx[segment->channel].loss.arrived, segment, now);
    if (btl_ib_segment_is_bulk(segment)) {
        btl_ib_rack_note(&loss->rack[BTL_IB_RACK_BULK], segment->order, segment->last_sent, now);
    }
}

/* ---- what was acknowledged ---- */

/* Counts what made a round trip longer. */
static void count_round(btl_ib_conn_t *conn, btl_ib_cc_round_t was)
{
    btl_ib_counters_t *count = &conn->engine->count;

    if (was == BTL_IB_CC_ROUND_QUEUED) {
        count->queued_rounds++;
        conn->count.queued_rounds++;
    } else {
        count->host_rounds++;
        conn->count.host_rounds++;
    }
}

static inline void inform_cc(btl_ib_conn_t *conn, uint32_t count, bool limited)
{
    const uint32_t sample = conn->loss.sample;
    const uint32_t pauses = conn->loss.sample_pauses;
    const btl_ib_cc_ack_t ack = {
        .now = conn->engine->clock.now,
        .sent_at = conn->loss.rack[BTL_IB_RACK_ALL].xmit_ts,
        .count = count,
        .rtt = sample,
        .delay = sample - conn->loss.sample_hosts,
        .awake = sample - pauses,
        .limited = limited,
        .paused = pauses > BTL_IB_QUEUE_BORNE || btl_ib_is_behind(conn->engine),
    };

    const btl_ib_cc_round_t was = conn->cc.ops->acked(&conn->cc, &ack);
    if (was != BTL_IB_CC_ROUND_NONE) {
        count_round(conn, was);
    }
}

void btl_ib_loss_acked(btl_ib_conn_t *conn, uint32_t count, bool limited)
{
    conn->loss.no_tag_at = 0;
    if (conn->cc.ops != &btl_ib_cc_none) { /* which learns nothing */
        inform_cc(conn, count, limited);
    }
    btl_ib_retry_budget_add(&conn->engine->retries, count, BTL_IB_RETRIES_SAVED);
    btl_ib_pacer_forgive(&conn->pacer, &conn->cc, &conn->engine->hotel, conn->engine->clock.now);
}

static bool is_reliable(const btl_ib_conn_t *conn)
{
    return conn->route.via->transport->attr.reliable;
}

static uint64_t reorder_window(const btl_ib_conn_t *conn)
{
    if (is_reliable(conn)) {
        return 0;
    }
    uint64_t window = (uint64_t) conn->loss.rtt.min * conn->loss.reo_wnd_mult / 4;
    uint64_t most = btl_ib_rtt_smoothed(&conn->loss.rtt, 0);
    most = most > REO_WND_MOST ? most : REO_WND_MOST;
    window = window < most ? window : most;
    return window < REO_WND_MIN ? REO_WND_MIN : window;
}

/*
 * Returns how long a peer that has acknowledged only a part may take to acknowledge the rest of
 * what was overtaken. Its ACK is on its way, or its process waits for a processor: that shows in
 * the variance.
 */
static uint64_t wait_for_rest(const btl_ib_conn_t *conn)
{
    return reorder_window(conn) + conn->identity.peer_ack_delay + conn->loss.rtt.rttvar4;
}

/* Returns what arrived that a segment in flight is compared with: where others overtake bulk, bulk
 * is compared with bulk only; what left by a path of its own with what did, too. */
static const btl_ib_rack_t *rack_for(const btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    if (segment->path != 0) {
        return &conn->capped.paths->path[segment->path].rack;
    }
    return &conn->loss.rack[may_be_overtaken(conn, segment) ? BTL_IB_RACK_BULK : BTL_IB_RACK_ALL];
}

/* Returns the oldest segment in flight of a kind (BTL_IB_SENT_) that has any, if something overtook
 * it, else NULL. Each kind has its own list, so bulk that waits in a queue does not hide a lost
 * short segment. On a reliable transport what later segments of the same channel passed got RNR;
 * channels may overtake each other. */
static const btl_ib_segment_t *oldest_overtaken(const btl_ib_conn_t *conn, int kind)
{
    const btl_ib_segment_t *segment =
        BTL_IB_LIST_FIRST(btl_ib_segment_t, btl_ib_sent_list(conn, kind), link);

    assert(segment != NULL);
    const uint64_t newest = is_reliable(conn) ? conn->tx[segment->channel].loss.arrived
                                              : rack_for(conn, segment)->order;
    return segment->order < newest ? segment : NULL;
}

/* Returns when the oldest segment of a kind in flight is to be taken for lost (us), given what
 * arrived; UINT64_MAX: never for this reason. */
static uint64_t lost_at(const btl_ib_conn_t *conn, int kind)
{
    const btl_ib_segment_t *segment = oldest_overtaken(conn, kind);

    if (segment == NULL) {
        return UINT64_MAX;
    }
    const btl_ib_rack_t *rack = rack_for(conn, segment);
    if (conn->loss.acked_by_header) {
        return segment->order < rack->mark_order ? rack->mark_at + wait_for_rest(conn) : UINT64_MAX;
    }
    /* It was sent `ahead` us before a segment that was known to have arrived at rack->at. */
    uint64_t ahead = rack->xmit_ts - segment->last_sent;
    uint64_t window = reorder_window(conn);
    return rack->at + (window > ahead ? window - ahead : 0);
}

uint64_t btl_ib_loss_check_at(const btl_ib_conn_t *conn)
{
    uint64_t soonest = UINT64_MAX;

    for (int kind = 0; kind < btl_ib_sent_lists(conn); kind++) {
        const btl_ib_segment_t *segment =
            btl_ib_list_empty(btl_ib_sent_list(conn, kind)) ? NULL : oldest_overtaken(conn, kind);
        if (segment == NULL) {
            continue;
        }
        const uint64_t at = conn->loss.acked_by_header
                                ? rack_for(conn, segment)->mark_at + wait_for_rest(conn)
                                : lost_at(conn, kind);
        soonest = at < soonest ? at : soonest;
    }
    return soonest;
}

/* Asks by a probe what became of the segments in flight: if the peer lives its acknowledgements say
 * it; if it does not, the probe gets RNR. */
void btl_ib_loss_disconnected(btl_ib_conn_t *conn)
{
    const uint32_t lost = btl_ib_sentmap_lose_all(conn);

    conn->engine->count.losses += lost;
    conn->count.losses += lost;
    if (lost > 0) {
        btl_ib_trace(conn, BTL_IB_TRACE_lost, BTL_IB_CAUSE_none, NULL, lost);
    }
    if (!btl_ib_list_empty(&conn->sentmap.lost)) {
        btl_ib_conn_ready(conn);
    }
    conn->loss.disconnected = conn->identity.bound;
    btl_ib_loss_restart_pto(&conn->loss);
    btl_ib_loss_set_timer(conn);
}

/* Takes a segment in flight for lost. If its last copy got RNR and could not be deferred, it
 * arrived: then it is only sent again, and says nothing of the network. */
static void mark_lost(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    btl_ib_engine_t *engine = conn->engine;

    if (btl_ib_segment_got_rnr(segment)) {
        btl_ib_sentmap_to_lost(conn, segment);
        return;
    }
    if (!btl_ib_segment_is_mtu_probe(segment)) { /* no sign of congestion */
        conn->cc.ops->lost(&conn->cc, segment->last_sent, engine->clock.now);
        btl_ib_paths_lost(conn, segment);
        segment->cc_lost_copy = segment->copies;
    }
    btl_ib_sentmap_to_lost(conn, segment);
    engine->count.losses++;
    conn->count.losses++;
    btl_ib_trace(conn, BTL_IB_TRACE_lost, BTL_IB_CAUSE_none, segment, 1);
    if (++conn->loss.reo_wnd_persist >= REO_WND_PERSIST) {
        conn->loss.reo_wnd_persist = 0;
        conn->loss.reo_wnd_mult = 0;
    }
    btl_ib_flow_lost(conn, segment);
    if (!btl_ib_gso_lost(conn, segment) && btl_ib_pmtud_lost(conn, segment, false)) {
        btl_ib_loss_restart_pto(&conn->loss); /* smaller datagrams may well be answered */
    }
}

void btl_ib_loss_detect(btl_ib_conn_t *conn)
{
    /* If nothing is in flight nothing can be lost that is not known to be. */
    if (btl_ib_list_empty(&conn->sentmap.sent[BTL_IB_SENT_OTHERS])
        && btl_ib_list_empty(&conn->sentmap.sent[BTL_IB_SENT_BULK])
        && btl_ib_list_empty(&conn->sentmap.lost) && conn->capped.paths == NULL) {
        btl_ib_loss_set_timer(conn);
        return;
    }
    for (int kind = 0; kind < btl_ib_sent_lists(conn); kind++) {
        while (!btl_ib_list_empty(btl_ib_sent_list(conn, kind))
               && lost_at(conn, kind) <= conn->engine->clock.now) {
            mark_lost(conn,
                      BTL_IB_LIST_FIRST(btl_ib_segment_t, btl_ib_sent_list(conn, kind), link));
        }
    }
    const uint64_t rest = conn->loss.acked_by_header ? wait_for_rest(conn) : 0;
    for (int i = 0; conn->loss.acked_by_header && i < BTL_IB_RACKS; i++) {
        btl_ib_rack_mark(&conn->loss.rack[i], conn->engine->clock.now, rest);
    }
    for (uint32_t i = 1;
         conn->capped.paths != NULL && conn->loss.acked_by_header && i < conn->capped.paths->count;
         i++) {
        btl_ib_rack_mark(&conn->capped.paths->path[i].rack, conn->engine->clock.now, rest);
    }
    if (!btl_ib_list_empty(&conn->sentmap.lost)) {
        btl_ib_conn_ready(conn);
    }
    btl_ib_loss_set_timer(conn);
}

bool btl_ib_loss_only_answers(const btl_ib_conn_t *conn)
{
    return btl_ib_conn_only_skips(conn) && conn->loss.blocked_since == 0 && conn->ops.answers > 0;
}

/* Returns the probe timeout on a reliable transport. A peer that does not answer there computes or
 * waits for a processor, maybe for long, and each probe is a copy that it polls for nothing. A peer
 * that does not know us yet may have had no room for an unknown sender, and have said nothing: it
 * is asked at a fixed interval. */
static uint64_t reliable_probe_timeout(const btl_ib_conn_t *conn, uint64_t timeout)
{
    const uint64_t least = conn->engine->config.rto_max;
    const uint64_t most = least << RELIABLE_DOUBLINGS;

    if (!conn->identity.bound) {
        return least;
    }
    uint64_t wait = timeout > least ? timeout : least;
    wait <<= conn->loss.probes < RELIABLE_DOUBLINGS ? conn->loss.probes : RELIABLE_DOUBLINGS;
    return wait < most ? wait : most;
}

/* Returns the probe timeout on a lossy transport: a tail loss probe after two round trips, then
 * timeouts that double, and are no shorter than the peer's own pauses. */
static uint64_t lossy_probe_timeout(const btl_ib_conn_t *conn, uint64_t timeout)
{
    const btl_ib_engine_config_t *config = &conn->engine->config;

    timeout = timeout < config->rto_min ? config->rto_min : timeout;
    timeout = timeout > config->rto_max ? config->rto_max : timeout;
    if (conn->loss.probes == 0) {
        uint64_t soon = 2 * (uint64_t) btl_ib_rtt_smoothed(&conn->loss.rtt, config->rto_initial)
                        + conn->identity.peer_ack_delay;
        soon = soon < PROBE_MIN ? PROBE_MIN : soon;
        return soon < timeout ? soon : timeout;
    }
    const uint32_t pause = btl_ib_pauses_expected(&conn->loss.pauses, conn->engine->clock.now);
    timeout = timeout > pause ? timeout : pause;
    const uint64_t most = conn->identity.peer_knows && btl_ib_flow_any_untried(conn)
                              ? btl_ib_max_u64(FLOW_PROBE_MOST, timeout)
                              : config->rto_max;
    const uint32_t doublings = conn->loss.probes - 1;
    timeout <<= doublings < DOUBLINGS_MAX ? doublings : DOUBLINGS_MAX;
    timeout = timeout < most ? timeout : most;
    return timeout < config->rto_max ? timeout : config->rto_max;
}

uint64_t btl_ib_loss_probe_timeout(const btl_ib_conn_t *conn)
{
    const btl_ib_engine_config_t *config = &conn->engine->config;

    if (conn->loss.half_probed) {
        return REST_AFTER;
    }
    if (conn->loss.path_response && !conn->identity.peer_knows) {
        const uint32_t probes = conn->loss.probes;
        return (uint64_t) config->rto_max
               << (probes < RELIABLE_DOUBLINGS ? probes : RELIABLE_DOUBLINGS);
    }
    const uint64_t timeout = (uint64_t) btl_ib_rtt_timeout(&conn->loss.rtt, config->rto_initial)
                             + conn->identity.peer_ack_delay;
    if (conn->loss.disconnected) {
        return lossy_probe_timeout(conn, timeout);
    }
    if (btl_ib_loss_only_answers(conn)) {
        return config->rto_max; /* the peer repeats them itself; probes only ask whether it lives */
    }
    if (btl_ib_conn_only_skips(conn) && conn->loss.blocked_since == 0) {
        return config->idle_after << conn->loss.probes;
    }
    return is_reliable(conn) ? reliable_probe_timeout(conn, timeout)
                             : lossy_probe_timeout(conn, timeout);
}

bool btl_ib_loss_waits(const btl_ib_conn_t *conn)
{
    if (conn->loss.disconnected && conn->loss.probes < DISCONNECTED_PROBES) {
        return true;
    }
    if (btl_ib_conn_only_skips(conn) && conn->loss.probes >= SKIP_PROBES) {
        return conn->loss.blocked_since != 0 || conn->ops.answers > 0;
    }
    return conn->sentmap.unacked > 0 || conn->loss.blocked_since != 0 || conn->ops.answers > 0;
}

void btl_ib_loss_set_timer(btl_ib_conn_t *conn)
{
    btl_ib_hotel_guest_t *guest = &conn->loss.timer.guest;

    if (!btl_ib_loss_waits(conn)) { /* a timer that is set may expire */
        return;
    }
    /* A probe that is due waits for the retry budget, not for the timer, which is set for later. */
    if (!btl_ib_list_empty(&conn->loss.in_line) && !conn->identity.peer_knows
        && btl_ib_hotel_guest_is_in(guest)) {
        return;
    }
    uint64_t check = btl_ib_loss_check_at(conn);
    uint64_t soonest = conn->loss.probe_base + conn->loss.least;
    if (btl_ib_hotel_guest_is_in(guest) && guest->due <= (check < soonest ? check : soonest)) {
        return; /* mostly: it was set for something that was sent earlier */
    }
    uint64_t due = conn->loss.probe_base + btl_ib_loss_probe_timeout(conn);
    due = check < due ? check : due;
    if (!btl_ib_hotel_guest_is_in(guest) || due < guest->due) {
        btl_ib_hotel_checkin(&conn->engine->hotel, guest, due);
    }
}

void btl_ib_loss_timer_by_sample(btl_ib_conn_t *conn)
{
    if (conn->loss.sample != 0 && conn->sentmap.unacked > 0) {
        btl_ib_loss_set_timer(conn);
    }
}

static uint64_t loss_oldest_sent(const btl_ib_list_t *segments, uint64_t since)
{
    BTL_IB_LIST_FOREACH (const btl_ib_segment_t, segment, segments, link) {
        /* A peer is not given up because a credit limit that it does not need while idle was not
         * acknowledged. */
        if (segment->type != BTL_IB_TYPE_SKIP && segment->first_sent < since) {
            since = segment->first_sent;
        }
    }
    return since;
}

uint64_t btl_ib_loss_waiting_since(const btl_ib_conn_t *conn)
{
    uint64_t since = conn->loss.blocked_since != 0 ? conn->loss.blocked_since : UINT64_MAX;

    if (conn->ops.answers > 0) {
        /* A peer that accepted the request and lives will answer, when its other peers let it. */
        uint64_t answer = conn->ops.answer_since > conn->loss.heard_at ? conn->ops.answer_since
                                                                       : conn->loss.heard_at;
        since = answer < since ? answer : since;
    }
    for (int kind = 0; kind < btl_ib_sent_lists(conn); kind++) {
        since = loss_oldest_sent(btl_ib_sent_list(conn, kind), since);
    }
    since = loss_oldest_sent(&conn->sentmap.deferred, since);
    return loss_oldest_sent(&conn->sentmap.lost, since);
}

void btl_ib_loss_sending(btl_ib_conn_t *conn, const btl_ib_segment_t *first)
{
    if (first->type != BTL_IB_TYPE_SKIP && btl_ib_conn_only_skips(conn)) {
        btl_ib_loss_restart_pto(&conn->loss);
    }
}

void btl_ib_loss_answered(btl_ib_conn_t *conn)
{
    btl_ib_op_answered(conn);
    if (btl_ib_conn_only_skips(conn)) {
        btl_ib_loss_restart_pto(&conn->loss);
        btl_ib_loss_retransmitted(&conn->loss, conn->engine->clock.now);
    }
}

void btl_ib_loss_init(btl_ib_conn_t *conn)
{
    const btl_ib_engine_config_t *config = &conn->engine->config;
    /* btl_ib_loss_probe_timeout() is at least the shortest of these three. */
    const uint32_t least = btl_ib_min_u32(config->rto_min, PROBE_MIN);

    conn->loss.least = btl_ib_clip_u32(config->idle_after, least);
    btl_ib_timer_init(&conn->loss.timer, BTL_IB_TIMER_LOSS, conn);
    btl_ib_list_init(&conn->loss.in_line);
}
