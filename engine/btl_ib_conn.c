/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_conn.h"

#include "btl_ib_completion.h"
#include "btl_ib_conn_info.h"
#include "btl_ib_admission.h"
#include "btl_ib_accept.h"
#include "btl_ib_ack_read.h"
#include "btl_ib_ack_write.h"
#include "btl_ib_pacing.h"
#include "btl_ib_rma_replies.h"
#include "btl_ib_rma_requests.h"
#include "btl_ib_identity.h"
#include "btl_ib_input.h"
#include "btl_ib_deferred_free.h"
#include "btl_ib_list.h"
#include "btl_ib_loss.h"
#include "btl_ib_rma_offload.h"
#include "btl_ib_packet.h"
#include "btl_ib_out_message.h"
#include "btl_ib_packetize.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_predict.h"
#include "btl_ib_rnr_receiver.h"
#include "btl_ib_route.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "btl_ib_submit.h"
#include "btl_ib_trace.h"
#include "btl_ib_transmit.h"
#include "btl_ib_validation.h"

#include <errno.h>
#include <string.h>

enum {
    CLOSES = 3,            /* how often a CLOSE is sent: it is not acknowledged */
    CLOSE_INTERVAL = 1000, /* us */
    CHUNKS_MAX = 65536,    /* the index has 16 bits */
};

/* ---- making ---- */

/* Returns the peer's queue table, shared by all peers that have the same one. */
static const btl_ib_queue_table_t *intern_queues(btl_ib_engine_t *engine,
                                                 const btl_ib_queue_table_t *table)
{
    size_t used = table->count * sizeof(table->q[0]);

    BTL_IB_LIST_FOREACH (const btl_ib_table_entry_t, known, &engine->tables, link) {
        if (known->table.count == table->count && memcmp(known->table.q, table->q, used) == 0) {
            return &known->table;
        }
    }
    btl_ib_table_entry_t *entry = btl_ib_zalloc(&engine->mem, sizeof(*entry));
    if (entry == NULL) {
        return NULL;
    }
    btl_ib_list_init(&entry->link);
    btl_ib_list_push_tail(&engine->tables, &entry->link);
    entry->table.count = table->count;
    memcpy(entry->table.q, table->q, used);
    return &entry->table;
}

static void begin_rx(btl_ib_conn_t *conn)
{
    btl_ib_accept_begin(conn);
    btl_ib_ack_tx_begin(conn);
    btl_ib_ecn_begin_peer(conn);
    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        conn->tx[i].loss.duplicates = 0; /* the peer counts anew */
    }
}

void btl_ib_conn_begin_route(btl_ib_conn_t *conn)
{
    btl_ib_paths_end(conn);
    conn->gso = (btl_ib_gso_t){0};
    btl_ib_cc_init(&conn->cc, conn->route.via->cc, conn->engine->config.depth_peer,
                   btl_ib_gso_segments(conn));
    conn->pacer.at = 0;
    btl_ib_incast_begin(&conn->incast);
    btl_ib_loss_begin_route(&conn->loss);
    btl_ib_flow_begin_route(&conn->flow);
    btl_ib_ecn_begin_route(conn);
}

static void begin_incarnation(btl_ib_conn_t *conn)
{
    const btl_ib_engine_config_t *config = &conn->engine->config;

    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        const btl_ib_queue_t *queue = &conn->peer_queues->q[i];
        btl_ib_tx_window_init(&conn->tx[i].sentmap.window, config->first_seq);
        conn->tx[i].limit = config->first_seq + btl_ib_credit_initial(queue, queue->init);
    }
    begin_rx(conn);
    btl_ib_conn_begin_route(conn);
    conn->coalesce.at_once_max = BTL_IB_AT_ONCE_FIRST;
    conn->message.next_fragment = 0;
    btl_ib_pmtud_begin(conn);
    conn->validation.asked_at = 0; /* what is known of its rails stays */
    conn->validation.route_refused = 0;
    btl_ib_identity_begin(conn);
}

static void end_rx(btl_ib_conn_t *conn)
{
    btl_ib_accept_end(conn);
    btl_ib_incast_end(conn);
    btl_ib_input_end(conn);
    btl_ib_replies_drop(conn);
    btl_ib_rnr_forget(conn);
    btl_ib_list_remove(&conn->ack.link);
    btl_ib_ack_tx_init(&conn->ack);
    btl_ib_loss_end_peer(&conn->loss);
    btl_ib_coalesce_forget(&conn->coalesce);
    btl_ib_identity_unbind(&conn->identity);
}

/* Ends an incarnation: memory and credits go back. Nothing is in flight any more. */
static void end_incarnation(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;

    btl_ib_paths_end(conn);
    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        btl_ib_tx_window_drop(&conn->tx[i].sentmap.window, &engine->mem);
    }
    end_rx(conn);
    btl_ib_op_shrink(conn);
    btl_ib_replies_shrink(conn);
    btl_ib_conn_unschedule(conn);
    btl_ib_loss_end(&conn->loss);
}

/* Returns what one datagram to and from a peer can carry, as far as both rails and the path are
 * known. */
static uint32_t largest_datagram(const btl_ib_conn_t *conn, const btl_ib_peer_info_t *info)
{
    const btl_ib_transport_t *transport = conn->rail->transport;
    uint32_t size = btl_ib_min_u32(transport->attr.max_datagram, info->max_datagram);

    if (transport->ops->path_datagram != NULL && conn->route.address != BTL_IB_ADDR_UNKNOWN) {
        size = btl_ib_min_u32(size, transport->ops->path_datagram(transport, conn->route.address));
    }
    return btl_ib_min_u32(size, BTL_IB_DATAGRAM_MAX);
}

/* True if the limits of the peer allow our longest message. Sets what may be sent. */
static bool take_limits(btl_ib_conn_t *conn, const btl_ib_peer_info_t *info)
{
    const btl_ib_engine_t *engine = conn->engine;
    const uint32_t overhead =
        (uint32_t) (sizeof(btl_ib_wire_header_t) + sizeof(btl_ib_wire_connect_t)
                    + sizeof(btl_ib_wire_chunk_t))
        + engine->protection.ops->trailer;

    const uint32_t size = largest_datagram(conn, info);
    btl_ib_pmtud_init(conn, size,
                      btl_ib_min_u32(size, info->queues.q[info->queues.count - 1].size));
    return conn->pmtud.datagram_max >= btl_ib_protection_datagram_min(engine->protection.kind)
           && (uint64_t) (conn->pmtud.datagram_max - overhead) * CHUNKS_MAX
                  >= engine->config.eager_max;
}

static btl_ib_conn_t *allocate_conn(btl_ib_rail_t *rail, const btl_ib_peer_info_t *info,
                                    const btl_ib_queue_table_t *peer_queues)
{
    size_t tx = peer_queues->count * sizeof(btl_ib_tx_channel_t);
    size_t rx = rail->queues.count * sizeof(btl_ib_rx_channel_t);
    size_t keys = rail->engine->protection.ops->keyed ? sizeof(btl_ib_protection_keys_t) : 0;
    btl_ib_conn_t *conn = btl_ib_zalloc(&rail->engine->mem, sizeof(*conn) + tx + rx + keys);

    if (conn != NULL) {
        conn->engine = rail->engine;
        conn->rail = rail;
        conn->peer_queues = peer_queues;
        conn->tx = (btl_ib_tx_channel_t *) (void *) (conn + 1);
        conn->rx = (btl_ib_rx_channel_t *) (void *) (conn->tx + peer_queues->count);
        btl_ib_identity_init(conn, info,
                             keys == 0 ? NULL : (void *) (conn->rx + rail->queues.count));
        conn->validation.promised = info->answers;
        conn->ecn.agreed = info->ecn && rail->transport->attr.ecn;
        btl_ib_list_init(&conn->all);
        btl_ib_list_init(&conn->incast.link);
        btl_ib_sched_init(conn);
        btl_ib_ack_tx_init(&conn->ack);
        btl_ib_list_init(&conn->rnr.link);
        btl_ib_input_init(conn);
        btl_ib_sentmap_init(&conn->sentmap);
        btl_ib_list_init(&conn->ops.waiting);
        btl_ib_list_init(&conn->ops.turn);
        btl_ib_list_init(&conn->offload.waiting);
        btl_ib_list_init(&conn->offload.running);
        btl_ib_replies_init(conn);
        btl_ib_loss_init(conn);
        btl_ib_timer_init(&conn->pacer.timer, BTL_IB_TIMER_PACE, conn);
        btl_ib_submit_init(conn);
    }
    return conn;
}

/* Registers it where it is looked up: among the transport's addresses, and by name. */
static int enter_tables(btl_ib_conn_t *conn, const btl_ib_peer_info_t *info)
{
    btl_ib_engine_t *engine = conn->engine;
    int rc = btl_ib_tombstones_prepare(&engine->tombstones) != 0 ? -ENOMEM
                                                                 : btl_ib_route_init(conn, info);

    if (rc != 0) {
        return rc;
    }
    rc = !take_limits(conn, info) ? -EINVAL : btl_ib_identity_register(conn);
    if (rc != 0) {
        btl_ib_route_fini(conn);
    }
    return rc;
}

int btl_ib_conn_make(btl_ib_engine_t *engine, btl_ib_rail_t *rail, const btl_ib_peer_info_t *info,
                     btl_ib_conn_t **out)
{
    const bool valid = info->rail < BTL_IB_RAILS_MAX && info->protection == engine->protection.kind
                       && btl_ib_versions_common(engine->config.wire, info->wire) != 0
                       && btl_ib_queues_check(&info->queues) == 0;

    const btl_ib_queue_table_t *queues = valid ? intern_queues(engine, &info->queues) : NULL;
    btl_ib_conn_t *conn = queues == NULL ? NULL : allocate_conn(rail, info, queues);
    int rc = !valid ? -EINVAL : conn == NULL ? -ENOMEM : enter_tables(conn, info);
    if (rc == -EINVAL) {
        BTL_IB_LOG(engine, 1, "peer %u.%u: its address, queues or limits do not work with ours",
                   BTL_IB_NAME_ARGS(info->name));
    }
    if (rc != 0) {
        btl_ib_free(&engine->mem, conn);
        return rc;
    }
    conn->made_in = engine->turn.batch;
    btl_ib_list_push_tail(&engine->conns, &conn->all);
    btl_ib_conn_allocated(engine);
    begin_incarnation(conn);
    engine->count.connections++;
    btl_ib_trace(conn, BTL_IB_TRACE_made, BTL_IB_CAUSE_none, NULL, 1);
    if (engine->config.log.detailed) {
        char address[80] = "an address without a text";
        (void) btl_ib_conn_address_text(conn, address, sizeof(address));
        BTL_IB_LOG(engine, BTL_IB_LOG_DETAILED,
                   "peer %u.%u: made: from %s to its rail %u at %s, epoch %u, datagrams of at most "
                   "%u bytes",
                   BTL_IB_NAME_ARGS(conn->identity.name), conn->rail->transport->name,
                   conn->identity.remote_rail, address, conn->identity.epoch,
                   conn->pmtud.datagram_max);
    }
    *out = conn;
    return 0;
}

/* Makes a connection that nobody has adopted, and that no peer asked for. */
static int make_new(btl_ib_engine_t *engine, uint32_t rail, const btl_ib_peer_info_t *info,
                    btl_ib_conn_t **conn)
{
    btl_ib_account(engine);
    if (rail >= engine->rail_count) {
        return -EINVAL;
    }
    if (engine->rails[rail]->health.failed) {
        return -ENETDOWN;
    }
    if (btl_ib_conn_find(engine, rail, info->name, info->rail) != NULL) {
        return -EEXIST;
    }
    return btl_ib_conn_make(engine, engine->rails[rail], info, conn);
}

int btl_ib_conn_create(btl_ib_engine_t *engine, uint32_t rail, const btl_ib_peer_info_t *info,
                       void *user, btl_ib_conn_t **conn)
{
    const int rc = make_new(engine, rail, info, conn);

    if (rc == 0) {
        (*conn)->user = user;
        (*conn)->adopted = true;
        btl_ib_route_used(*conn);
    }
    return rc;
}

int btl_ib_conn_try(btl_ib_engine_t *engine, uint32_t rail, const btl_ib_peer_info_t *info)
{
    btl_ib_conn_t *conn;
    const int rc = make_new(engine, rail, info, &conn);

    if (rc == 0) {
        btl_ib_admission_passive(&engine->admission, 1);
    }
    return rc;
}

/* ---- asking ---- */

btl_ib_conn_t *btl_ib_conn_find(btl_ib_engine_t *engine, uint32_t rail, uint64_t name,
                                uint32_t remote_rail)
{
    return btl_ib_table_by_name(&engine->table, name, rail, remote_rail);
}

void btl_ib_conn_adopt(btl_ib_conn_t *conn, void *user)
{
    if (!conn->adopted) {
        conn->adopted = true;
        btl_ib_admission_passive(&conn->engine->admission, -1);
        BTL_IB_LOG_DETAIL(conn->engine, "peer %u.%u: added, no longer passive",
                          BTL_IB_NAME_ARGS(conn->identity.name));
    }
    conn->user = user;
    btl_ib_route_used(conn);
}

void *btl_ib_conn_user(const btl_ib_conn_t *conn)
{
    return conn->user;
}

uint64_t btl_ib_conn_name(const btl_ib_conn_t *conn)
{
    return conn->identity.name;
}

uint32_t btl_ib_conn_rail(const btl_ib_conn_t *conn)
{
    return conn->rail->index;
}

bool btl_ib_conn_is_dead(const btl_ib_conn_t *conn)
{
    return conn->state == BTL_IB_CONN_DEAD;
}

bool btl_ib_conn_address_text(const btl_ib_conn_t *conn, char *out, size_t len)
{
    const btl_ib_transport_t *t = conn->rail->transport;

    return t->ops->address_text != NULL
           && t->ops->address_text(conn->route.published, conn->route.published_len, out, len);
}

const char *btl_ib_death_string(btl_ib_death_t reason)
{
    static const char *const texts[] = {
        [BTL_IB_DEATH_SILENCE] = "nothing was heard from it for the silence limit",
        [BTL_IB_DEATH_NO_PROGRESS] =
            "it answers, but some data were never acknowledged (are large datagrams lost?)",
        [BTL_IB_DEATH_NO_TAG] = "it answers, but has no receiver for the tag of some message",
        [BTL_IB_DEATH_REFUSED] = "its host says that nobody is there any more",
        [BTL_IB_DEATH_RESTARTED] = "a new process has taken its place",
        [BTL_IB_DEATH_DEVICE] = "the local device failed",
        [BTL_IB_DEATH_UNANSWERED] =
            "it never answered, although its process would even while it computes",
        [BTL_IB_DEATH_ENDED] = "the runtime (mpirun, PMIx) says that it failed",
        [BTL_IB_DEATH_HOST_LOST] = "it does not answer, and its host cannot be reached any more",
    };

    return (size_t) reason < sizeof(texts) / sizeof(texts[0]) ? texts[reason] : "unknown reason";
}

/* ---- changing ---- */

bool btl_ib_conn_shrink(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;

    if (!btl_ib_conn_rest(conn, btl_ib_conn_drained(conn))) {
        return false;
    }
    btl_ib_op_shrink(conn);
    btl_ib_replies_shrink(conn);
    btl_ib_rnr_shrink(conn);
    btl_ib_input_shrink(conn);
    btl_ib_accept_rest(conn);
    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        btl_ib_tx_window_shrink(&conn->tx[i].sentmap.window, &engine->mem);
        if (conn->identity.bound
            && conn->tx[i].sentmap.window.first == conn->tx[i].sentmap.window.next
            && conn->peer_queues->q[i].type == BTL_IB_QUEUE_PER_PEER) {
            btl_ib_send_skip(conn, i);
        }
    }
    return true;
}

void btl_ib_conn_reset(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;

    btl_ib_identity_add_tombstone(conn);
    btl_ib_send_give_back(conn, 0, -EPIPE);
    end_incarnation(conn);
    btl_ib_table_remove(&engine->table, conn->identity.id);
    (void) btl_ib_identity_register(conn);
    begin_incarnation(conn);
    BTL_IB_LOG_DETAIL(engine, "peer %u.%u: reset, begins anew with epoch %u",
                      BTL_IB_NAME_ARGS(conn->identity.name), conn->identity.epoch);
    btl_ib_trace(conn, BTL_IB_TRACE_reset, BTL_IB_CAUSE_none, NULL, 1);
}

void btl_ib_conn_lose_peer(btl_ib_conn_t *conn)
{
    btl_ib_identity_add_tombstone(conn);
    btl_ib_sentmap_void(conn, NULL);
    end_rx(conn);
    begin_rx(conn);
}

void btl_ib_conn_drain(btl_ib_conn_t *conn)
{
    btl_ib_account(conn->engine);
    if (!conn->draining) {
        BTL_IB_LOG_DETAIL(conn->engine, "peer %u.%u: drains",
                          BTL_IB_NAME_ARGS(conn->identity.name));
    }
    conn->draining = true;
}

bool btl_ib_conn_drained(const btl_ib_conn_t *conn)
{
    return !btl_ib_conn_alive(conn)
           || (btl_ib_conn_only_skips(conn) && conn->ops.count == 0 && !btl_ib_pending_any(conn));
}

bool btl_ib_conn_is_quiet(const btl_ib_conn_t *conn)
{
    return btl_ib_conn_drained(conn) && conn->loss.blocked_since == 0 && conn->replies.streams == 0
           && btl_ib_list_empty(&conn->replies.out.link)
           && btl_ib_list_empty(&conn->input.fragments.fragments)
           && btl_ib_list_empty(&conn->input.parts);
}

/* ---- the end ---- */

/* Closes a connection, whoever ends it: what it still had to send completes with `status`, what
 * came from the peer and was not delivered is dropped, and it leaves all lists and counts but the
 * table of ids. Callbacks are due after it. */
static void close_conn(btl_ib_conn_t *conn, btl_ib_conn_state_t state, int status)
{
    conn->state = state;
    btl_ib_identity_add_tombstone(conn);
    btl_ib_send_give_back(conn, status, status);
    end_incarnation(conn);
    btl_ib_input_drop(conn);
    btl_ib_table_unname(&conn->engine->table, conn->identity.id);
    if (!conn->adopted) {
        conn->adopted = true;
        btl_ib_admission_passive(&conn->engine->admission, -1);
    }
}

void btl_ib_conn_kill(btl_ib_conn_t *conn, btl_ib_death_t reason)
{
    btl_ib_engine_t *engine = conn->engine;

    btl_ib_account(engine);
    btl_ib_engine_enter(engine);
    btl_ib_input_stored(engine); /* what had come from it before, and was acknowledged */
    if (!btl_ib_conn_alive(conn)) {
        btl_ib_engine_leave(engine);
        return;
    }
    engine->count.connections_dead++;
    BTL_IB_LOG(engine, 1, "peer %u.%u: given up: %s", BTL_IB_NAME_ARGS(conn->identity.name),
               btl_ib_death_string(reason));
    btl_ib_trace(conn, BTL_IB_TRACE_dead, BTL_IB_CAUSE_silence + reason, NULL, 1);
    close_conn(conn, BTL_IB_CONN_DEAD, -EPIPE);
    btl_ib_completion_callbacks(engine);
    if (conn->state == BTL_IB_CONN_DEAD) {
        engine->ops->dead(engine->ops_context, conn, reason);
    }
    btl_ib_engine_leave(engine);
}

/* Frees a connection that ended as soon as no caller up the stack uses it. Its rail keeps what it
 * counted. */
static void free_later(btl_ib_conn_t *conn)
{
    btl_ib_conn_add_counters(&conn->rail->count, conn);
    for (uint32_t i = 0; i < BTL_IB_QUEUES_MAX; i++) {
        btl_ib_conn_add_channel(&conn->rail->channels[i], conn, i);
    }
    conn->state = BTL_IB_CONN_GONE;
    btl_ib_list_remove(&conn->all);
    btl_ib_list_push_tail(&conn->engine->deferred_free.gone, &conn->all);
    btl_ib_work_note(&conn->engine->work);
}

void btl_ib_conn_linger(btl_ib_conn_t *conn)
{
    btl_ib_segment_t *segment = btl_ib_packet_make(conn, BTL_IB_TYPE_CLOSE, 0);

    if (segment != NULL) {
        (void) btl_ib_transmit_segments(conn, &segment, 1);
        btl_ib_pool_put(segment);
    }
    if (++conn->closes < CLOSES) {
        btl_ib_hotel_checkin(&conn->engine->hotel, &conn->loss.timer.guest,
                             conn->engine->clock.now + CLOSE_INTERVAL);
    } else {
        free_later(conn);
    }
}

/* Logs what a connection that ends had in use on its path: what fell back silently shows here. */
static void log_in_use(const btl_ib_conn_t *conn)
{
    const btl_ib_transport_t *t = conn->route.via->transport;
    char text[160] = "nothing special";

    if (t->ops->in_use_text != NULL && conn->route.to != BTL_IB_ADDR_UNKNOWN) {
        t->ops->in_use_text(t, conn->route.to, text, sizeof(text));
    }
    BTL_IB_LOG_DETAIL(conn->engine, "peer %u.%u: went by %s: %s, long messages %s",
                      BTL_IB_NAME_ARGS(conn->identity.name), t->name, text,
                      btl_ib_packetize_can_refer(conn, conn->pmtud.datagram_max) ? "in place"
                                                                                 : "copied");
}

void btl_ib_conn_destroy(btl_ib_conn_t *conn, uint64_t now)
{
    btl_ib_engine_t *engine = conn->engine;

    btl_ib_account(engine);
    bool tell = btl_ib_conn_alive(conn) && (conn->identity.bound || conn->identity.contacted)
                && !conn->route.via->health.failed;

    btl_ib_clock_set(&engine->clock, now);
    btl_ib_engine_enter(engine);
    if (btl_ib_conn_alive(conn)) {
        BTL_IB_LOG_DETAIL(engine, "peer %u.%u: closed here, %s%s",
                          BTL_IB_NAME_ARGS(conn->identity.name),
                          btl_ib_conn_drained(conn) ? "drained" : "not all was acknowledged",
                          tell ? ", it is told" : "");
        log_in_use(conn);
        btl_ib_trace(conn, BTL_IB_TRACE_closed, BTL_IB_CAUSE_none, NULL, 1);
        close_conn(conn, BTL_IB_CONN_CLOSING, -ECANCELED);
    }
    btl_ib_completion_callbacks(engine);
    if (tell) {
        btl_ib_list_remove(&conn->all);
        btl_ib_list_push_tail(&engine->closing, &conn->all);
        btl_ib_conn_linger(conn);
    } else {
        free_later(conn);
    }
    btl_ib_engine_leave(engine);
}

void btl_ib_conn_strip(btl_ib_conn_t *conn)
{
    if (btl_ib_conn_alive(conn)) {
        close_conn(conn, conn->state, -ECANCELED);
    }
}

bool btl_ib_conn_is_busy(const btl_ib_conn_t *conn)
{
    return conn->ops.count > 0 || conn->sentmap.unacked > 0 || btl_ib_pending_any(conn);
}
