/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_handshake.h"

#include "btl_ib_ack_send.h"
#include "btl_ib_challenge.h"
#include "btl_ib_failover.h"
#include "btl_ib_route.h"
#include "btl_ib_conn.h"
#include "btl_ib_flow.h"
#include "btl_ib_identity.h"
#include "btl_ib_input.h"
#include "btl_ib_loss.h"
#include "btl_ib_protection.h"
#include "btl_ib_state.h"
#include "btl_ib_trace.h"
#include "btl_ib_validation.h"

#include <string.h>

/*
 * Finds the connection of a datagram: first contact, reopened connections, restarted processes.
 *
 * Every segment carries a CONNECT block until its sender knows that the peer has its id. So the
 * first datagram can carry data, and the loss of any one of them loses nothing else. Both sides may
 * begin at once: each finds the other's name in its table and takes the id from the block.
 */

/* Checks that it is of the version that is spoken with a process; else it is counted. */
static inline bool check_version(btl_ib_engine_t *engine, const btl_ib_view_t *view,
                                 uint8_t version)
{
    engine->count.dropped_version += view->version != version;
    return view->version == version;
}

/* Checks that it comes from the peer's published address, as far as the transport can tell, or by
 * its spare flow, whose port is not taken for the peer's; else it is counted. Datagrams polled in
 * one batch with a first contact came before its address was known. */
static bool check_source(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                         btl_ib_arrival_t *arrival)
{
    const bool knows = rail->transport->attr.knows_source;
    const btl_ib_addr_t from = arrival->from;

    if (rail == conn->route.via && (from == conn->route.to || !knows)) {
        return true;
    }
    if (rail == conn->rail && from == BTL_IB_ADDR_UNKNOWN
        && conn->made_in == conn->engine->turn.batch) {
        return true;
    }
    if (knows && from == BTL_IB_ADDR_UNKNOWN) {
        arrival->from = btl_ib_route_at_host(conn, rail, arrival->event);
        conn->engine->count.dropped_source += arrival->from == BTL_IB_ADDR_UNKNOWN;
        return arrival->from != BTL_IB_ADDR_UNKNOWN;
    }
    if (!btl_ib_route_is_source(conn, rail, from)) {
        conn->engine->count.dropped_source++;
        return false;
    }
    return true;
}

/* Opens it with this key, which shows that it is genuine. Only then can all of the datagram be
 * parsed. True if no key is needed. */
static bool open_with(btl_ib_engine_t *engine, btl_ib_arrival_t *arrival,
                      btl_ib_protection_way_t *way, btl_ib_replay_t *replay)
{
    return btl_ib_protection_open(&engine->protection, way, replay, arrival->data, arrival->size)
           && btl_ib_input_parse(engine, arrival);
}

/* Opens a datagram that has a good token. False: it is not from the peer, or a replay. */
static bool open_continuation(btl_ib_conn_t *conn, btl_ib_arrival_t *arrival)
{
    btl_ib_protection_keys_t *keys = conn->identity.keys;

    return keys == NULL || open_with(conn->engine, arrival, &keys->rx, &keys->replay);
}

/* Opens it with the key of an incarnation that is new to us, of a sender that published `key`. That
 * key is the arrival's: bind_peer() keeps it. */
static bool open_connect(btl_ib_engine_t *engine, btl_ib_arrival_t *arrival,
                         const btl_ib_auth_key_t *key)
{
    const btl_ib_view_t *view = &arrival->view;
    btl_ib_protection_path_t path = {
        .sender_key = key,
        .receiver_key = &engine->config.key,
        .sender = view->connect.name,
        .receiver = engine->config.name,
        .epoch = view->connect.epoch,
        .from_rail = view->connect.from_rail,
        .to_rail = view->connect.to_rail,
    };

    if (!engine->protection.ops->keyed) {
        return true;
    }
    if (!btl_ib_protection_begin(&engine->protection, &arrival->way, &path)) {
        engine->count.rnr_memory++;
        return false;
    }
    return open_with(engine, arrival, &arrival->way, NULL);
}

/* Opens a protected first contact of a peer that this process has a connection with. */
static bool open_connect_of_peer(btl_ib_conn_t *conn, btl_ib_arrival_t *arrival)
{
    return conn->identity.keys == NULL
           || open_connect(conn->engine, arrival, &conn->identity.keys->peer);
}

/* Binds the peer, which is known by its id and token from now on. If an earlier incarnation of the
 * peer saw something of our present one, ours ends as well. */
static btl_ib_conn_t *bind_peer(btl_ib_conn_t *conn, const btl_ib_arrival_t *arrival)
{
    const btl_ib_view_t *view = &arrival->view;

    if (view->connect.floor != 0 && btl_ib_seq_before(conn->identity.epoch, view->connect.floor)) {
        btl_ib_conn_reset(conn);
    }
    btl_ib_identity_bind(conn, arrival);
    /* It may have had no room for data of an unknown sender: they go again without a long pause. */
    btl_ib_loss_restart_pto(&conn->loss);
    BTL_IB_LOG(conn->engine, 10, "peer %u.%u: connected, epoch %u here, %u there, version %u",
               BTL_IB_NAME_ARGS(conn->identity.name), conn->identity.epoch,
               conn->identity.peer_epoch, (unsigned) conn->identity.version);
    btl_ib_trace(conn, BTL_IB_TRACE_bound, BTL_IB_CAUSE_none, NULL, 1);
    return conn;
}

typedef bool look_up_op_t(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                          btl_ib_peer_info_t *info);

/* Asks `op` what process `name` published of its rail `remote`, for our rail `rail`. False: it
 * knows of none. */
static bool look_up_rail(const btl_ib_engine_t *engine, look_up_op_t *op, uint64_t name,
                         uint32_t rail, uint32_t remote, btl_ib_peer_info_t *info)
{
    memset(info, 0, sizeof(*info));
    return op(engine->ops_context, name, rail, remote, info) && info->name == name
           && info->rail == remote;
}

void btl_ib_handshake_look_up(btl_ib_engine_t *engine, const btl_ib_first_contact_t *contact,
                              btl_ib_sender_t *sender)
{
    sender->asked =
        btl_ib_table_by_name(&engine->table, contact->name, contact->to_rail, contact->from_rail)
        == NULL;
    sender->allowed = sender->asked && btl_ib_admission_take_lookup(engine, false);
    sender->found = sender->allowed
                    && look_up_rail(engine, engine->ops->lookup, contact->name, contact->to_rail,
                                    contact->from_rail, &sender->info);
}

/* Returns what was found out of the sender before this datagram was handled again. NULL: it just
 * came. */
static const btl_ib_sender_t *sender_of(const btl_ib_arrival_t *arrival)
{
    return arrival->event->buffer == NULL ? arrival->event->context : NULL;
}

/* True if the sender of a first contact, whose secret is `secret`, proves that it knows ours. */
static bool proves(const btl_ib_engine_t *engine, const btl_ib_view_t *view,
                   const btl_ib_secret_t *secret)
{
    return view->token
           == btl_ib_token(&engine->config.secret, view->connect.name, secret, view->connect.epoch,
                           btl_ib_rails_of(view->connect.from_rail, view->connect.to_rail));
}

/* True if the incarnation that a datagram says it belongs to ended here. It may be another
 * process's. */
static bool has_ended(const btl_ib_engine_t *engine, const btl_ib_view_t *view)
{
    const btl_ib_tombstone_t peer = {
        .name = view->connect.name,
        .rail = view->connect.to_rail,
        .remote_rail = view->connect.from_rail,
        .epoch = view->connect.epoch,
    };

    return btl_ib_tombstones_ended(&engine->tombstones, &peer);
}

/* Returns the lowest epoch that is valid for a sender with that secret, to which there is no
 * connection; 0: any. */
static uint32_t floor_of(const btl_ib_engine_t *engine, const btl_ib_view_t *view,
                         const btl_ib_secret_t *secret)
{
    const btl_ib_tombstone_t peer = {
        .name = view->connect.name,
        .secret = secret->k[0],
        .rail = view->connect.to_rail,
        .remote_rail = view->connect.from_rail,
    };

    return btl_ib_tombstones_floor(&engine->tombstones, &peer);
}

/* True if a datagram belongs to an incarnation that has already ended here. */
static bool is_late(const btl_ib_view_t *view, uint32_t floor)
{
    return floor != 0 && btl_ib_seq_before(view->connect.epoch, floor);
}

/* True if a datagram claims the end of incarnations of ours that never began. Believing that would
 * begin one incarnation after the other. */
static bool is_impossible(const btl_ib_engine_t *engine, const btl_ib_view_t *view)
{
    return view->connect.floor != 0
           && btl_ib_seq_before(engine->incarnations.newest + 1, view->connect.floor);
}

/* True if this process knows the sender already. A process that is known comes over another rail,
 * and need not be asked for in mid-job. */
static bool recall_sender(const btl_ib_engine_t *engine, const btl_ib_view_t *view,
                          btl_ib_peer_info_t *info)
{
    return engine->ops->recall != NULL
           && look_up_rail(engine, engine->ops->recall, view->connect.name, view->connect.to_rail,
                           view->connect.from_rail, info)
           && proves(engine, view, &info->secret);
}

/* Finds out what the sender published. `info` has it already if the datagram just came: it was
 * recalled then, or the datagram kept. */
static bool find_sender(const btl_ib_engine_t *engine, const btl_ib_arrival_t *arrival,
                        btl_ib_peer_info_t *info)
{
    const btl_ib_sender_t *sender = sender_of(arrival);
    const btl_ib_view_t *view = &arrival->view;

    if (sender == NULL) {
        return true;
    }
    if (sender->asked) {
        *info = sender->info;
        return sender->found;
    }
    return recall_sender(engine, view, info)
           /* a process that has restarted: its last connection has its name */
           || look_up_rail(engine, engine->ops->lookup, view->connect.name, view->connect.to_rail,
                           view->connect.from_rail, info);
}

/* Finds out which process the sender is. True if token and key prove it, and this begins an
 * incarnation; else it is counted. */
static bool check_newcomer(btl_ib_engine_t *engine, btl_ib_arrival_t *arrival,
                           btl_ib_peer_info_t *info)
{
    const btl_ib_view_t *view = &arrival->view;

    if (!find_sender(engine, arrival, info)) {
        engine->count.dropped_unknown++;
        return false;
    }
    if (!proves(engine, view, &info->secret)) {
        engine->count.dropped_token++;
        return false;
    }
    if (is_late(view, floor_of(engine, view, &info->secret)) || is_impossible(engine, view)) {
        engine->count.dropped_stale++;
        return false;
    }
    return check_version(engine, view, btl_ib_versions_common(engine->config.wire, info->wire))
           && open_connect(engine, arrival, &info->key);
}

/* Checks that it may come over this rail; else it is counted. If it names another one, only a
 * sender that has a connection with us over this rail may. */
static bool check_rail(const btl_ib_rail_t *rail, const btl_ib_arrival_t *arrival)
{
    if (arrival->view.connect.to_rail == rail->index
        || btl_ib_route_by_rail(rail, arrival->view.connect.name, arrival->from) != NULL) {
        return true;
    }
    rail->engine->count.dropped_unknown++;
    return false;
}

/*
 * PATH_RESPONSE: tells the sender of a first contact that its datagram got here, while the sender
 * cannot be looked up. (Named after QUIC's frame: RFC 9000, 8.2.)
 */

/* Sends one to the sender of a datagram. It goes to where the datagram came from, because the
 * sender's address is not known before the lookup. A forged datagram makes us send no more bytes
 * than it had itself. */
static void send_response(btl_ib_rail_t *rail, const btl_ib_arrival_t *arrival)
{
    btl_ib_engine_t *engine = rail->engine;
    btl_ib_transport_t *transport = rail->transport;
    const btl_ib_view_t *view = &arrival->view;
    const uint32_t id = view->connect.connection;
    const btl_ib_wire_header_t header = {
        .version_type = (uint8_t) (view->version << 4 | BTL_IB_TYPE_PATH_RESPONSE),
        .connection = BTL_IB_LE32(id),
        .token = BTL_IB_LE64(btl_ib_token_of_response(&engine->config.secret, view->token, id)),
    };
    uint8_t source[BTL_IB_ADDR_BYTES];
    btl_ib_addr_t to = arrival->from;

    if (to == BTL_IB_ADDR_UNKNOWN) {
        const bool tells = transport->ops->source != NULL && arrival->event->buffer != NULL;
        const uint32_t len = tells ? transport->ops->source(transport, arrival->event, source) : 0;
        if (len == 0 || transport->ops->addr_add(transport, source, len, &to) != 0) {
            return;
        }
    }
    engine->count.sent_responses += btl_ib_header_send(rail, to, &header, 0, view->connect.name);
    if (arrival->from == BTL_IB_ADDR_UNKNOWN) {
        transport->ops->addr_remove(transport, to);
    }
}

/* True if a datagram comes from the peer, and is of this incarnation of the connection. */
static bool is_genuine(const btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    return view->token
           == btl_ib_token_of_response(&conn->identity.secret, conn->identity.tx_token,
                                       conn->identity.id);
}

/* Says that it arrived, so that its sender waits and does not give us up: unless that incarnation
 * ended here, which only our silence tells. */
static void let_wait(btl_ib_rail_t *rail, const btl_ib_arrival_t *arrival)
{
    if (!has_ended(rail->engine, &arrival->view)) {
        send_response(rail, arrival);
    }
}

/* True if a copy of a first contact is kept. Copies that are encrypted differ, so more than one of
 * them is kept. */
static bool is_kept(const btl_ib_backlog_t *unidentified, const btl_ib_arrival_t *arrival)
{
    const btl_ib_wire_header_t *header = (const btl_ib_wire_header_t *) (void *) arrival->data;

    BTL_IB_LIST_FOREACH (const btl_ib_backlog_entry_t, stored, &unidentified->messages, link) {
        const btl_ib_first_contact_t *contact = (const void *) stored->data;
        const btl_ib_wire_header_t *kept = (const void *) contact->datagram;
        if (kept->token == header->token && kept->seq == header->seq
            && kept->version_type == header->version_type && kept->channels == header->channels) {
            return true;
        }
    }
    return false;
}

/* True if a first contact of the process of that name is kept. */
static bool keeps_contact_of(const btl_ib_engine_t *engine, uint64_t name)
{
    BTL_IB_LIST_FOREACH (const btl_ib_backlog_entry_t, stored, &engine->unidentified.messages,
                         link) {
        if (((const btl_ib_first_contact_t *) (const void *) stored->data)->name == name) {
            return true;
        }
    }
    return false;
}

/* Keeps a first contact until its sender is looked up, which needs much of the stack: at the end of
 * a turn of the application's own. False: there is no room, or it is kept already; counted. */
static bool keep_contact(btl_ib_rail_t *rail, btl_ib_arrival_t *arrival)
{
    btl_ib_engine_t *engine = rail->engine;
    btl_ib_backlog_t *unidentified = &engine->unidentified;
    const btl_ib_transport_t *transport = rail->transport;
    const uint32_t size = arrival->size + engine->protection.ops->trailer;
    btl_ib_backlog_entry_t *stored =
        btl_ib_backlog_get(unidentified, NULL, (uint8_t) rail->index,
                           (uint32_t) sizeof(btl_ib_first_contact_t) + size);

    if (stored != NULL && is_kept(unidentified, arrival)) { /* all are compared: only for that */
        btl_ib_backlog_put(unidentified, stored);
        stored = NULL;
    }
    if (stored == NULL) {
        engine->count.dropped_lookup++;
        return false;
    }
    btl_ib_first_contact_t *contact = (void *) stored->data;
    contact->name = arrival->view.connect.name;
    contact->to_rail = arrival->view.connect.to_rail;
    contact->from_rail = arrival->view.connect.from_rail;
    contact->batch = engine->turn.async ? 0 : engine->turn.batch;
    contact->poll_gap = engine->turn.async ? BTL_IB_POLL_GAP_UNKNOWN : engine->turn.poll_gap;
    contact->source_len = transport->ops->source != NULL && arrival->event->buffer != NULL
                              ? transport->ops->source(transport, arrival->event, contact->source)
                              : 0;
    memcpy(contact->datagram, arrival->data, size);
    btl_ib_backlog_add(unidentified, stored);
    btl_ib_work_note(&engine->work);
    engine->count.received_unidentified++;
    arrival->kept = true;
    return true;
}

/* Has the sender looked up when this turn ends; or if the progress thread makes it, which cannot
 * ask the runtime, in the application's next one, and until then the sender is to wait. */
static void look_up_later(btl_ib_rail_t *rail, btl_ib_arrival_t *arrival)
{
    if (keep_contact(rail, arrival) ? rail->engine->turn.async
                                    : btl_ib_admission_take_response(rail->engine)) {
        let_wait(rail, arrival);
    }
}

/* Makes a connection that nobody here asked for, with the process of `info`. Returns NULL if that
 * is impossible. */
static btl_ib_conn_t *make_passive(btl_ib_rail_t *home, const btl_ib_peer_info_t *info)
{
    btl_ib_engine_t *engine = home->engine;
    btl_ib_conn_t *conn;

    if (btl_ib_conn_make(engine, home, info, &conn) != 0) {
        return NULL;
    }
    btl_ib_admission_passive(&engine->admission, 1);
    engine->count.connections_passive++;
    BTL_IB_LOG_DETAIL(engine, "peer %u.%u: passive: it came by itself, nobody has added it",
                      BTL_IB_NAME_ARGS(conn->identity.name));
    return conn;
}

/* Makes connections over the rails by which a datagram with a peer's token came, and by which there
 * is none with that process: perhaps it was given up here, which the peer does not know. All
 * addresses that a process published are sources, and the answer must go over these rails as well.
 * The datagram is dropped, as its source was not known yet; it comes again. */
static void make_path(const btl_ib_conn_t *conn, btl_ib_rail_t *rail)
{
    btl_ib_engine_t *engine = rail->engine;
    const uint64_t name = conn->identity.name;
    const btl_ib_secret_t secret = conn->identity.secret;
    look_up_op_t *const op =
        engine->ops->recall != NULL ? engine->ops->recall : engine->ops->lookup;
    btl_ib_peer_info_t info;

    /* the progress thread makes no connections */
    if (engine->turn.async || !btl_ib_rail_usable(rail)) {
        return;
    }
    for (uint32_t remote = 0; remote < engine->routes.remote; remote++) {
        if (btl_ib_table_by_name(&engine->table, name, rail->index, remote) != NULL
            || !btl_ib_admission_take_path_lookup(engine)) {
            continue;
        }
        if (!look_up_rail(engine, op, name, rail->index, remote, &info)
            || memcmp(&info.secret, &secret, sizeof(secret)) != 0) {
            continue;
        }
        btl_ib_conn_t *made = make_passive(rail, &info);
        if (made != NULL) {
            engine->ops->passive(engine->ops_context, made);
        }
    }
}

/* Checks that this datagram, which has a good token, may come from there. If not it is counted,
 * that address is challenged, and another path to the peer is made. What seems to be the peer's
 * spare flow may be a router's new port for it, if nothing is answered that goes to the old one. */
static bool check_origin(btl_ib_conn_t *conn, btl_ib_rail_t *rail, btl_ib_arrival_t *arrival)
{
    const bool unknown = arrival->from == BTL_IB_ADDR_UNKNOWN;

    if (check_source(conn, rail, arrival)) {
        if (unknown && arrival->from != BTL_IB_ADDR_UNKNOWN
            && btl_ib_flow_unanswered(conn, &arrival->view)) {
            btl_ib_challenge_send(conn, rail, arrival);
        }
        return true;
    }
    btl_ib_validation_foreign(conn, rail, arrival->event);
    btl_ib_challenge_send(conn, rail, arrival);
    make_path(conn, rail);
    return false;
}

/* Looks a sender up, and makes the connection if it proves its name. It replaces `old`, whose
 * process has ended then; NULL: none. */
static btl_ib_conn_t *look_up(btl_ib_rail_t *rail, btl_ib_arrival_t *arrival, btl_ib_conn_t *old)
{
    btl_ib_engine_t *engine = rail->engine;
    btl_ib_rail_t *home = engine->rails[arrival->view.connect.to_rail];
    const btl_ib_sender_t *sender = sender_of(arrival);
    btl_ib_peer_info_t info;

    if (sender == NULL && !engine->admission.closed
        && (engine->turn.async || !recall_sender(engine, &arrival->view, &info))) {
        look_up_later(rail, arrival);
        return NULL;
    }
    if (sender != NULL && sender->asked ? !sender->allowed
                                        : !btl_ib_admission_take_lookup(engine, old != NULL)) {
        engine->count.dropped_lookup++;
        if (old == NULL && !engine->admission.closed && btl_ib_admission_take_response(engine)) {
            let_wait(rail, arrival);
        }
        return NULL;
    }
    if (!check_rail(rail, arrival) || !check_newcomer(engine, arrival, &info)) {
        return NULL;
    }
    if (btl_ib_table_by_name(&engine->table, info.name, home->index, info.rail) != old
        || (old != NULL && proves(engine, &arrival->view, &old->identity.secret))) {
        /* another thread was as quick, while we asked; the datagram will come again */
        engine->count.dropped_stale++;
        return NULL;
    }
    if (old != NULL) {
        btl_ib_conn_kill(old, BTL_IB_DEATH_RESTARTED);
        if (btl_ib_table_by_name(&engine->table, info.name, home->index, info.rail) != NULL) {
            /* made by the callback; the datagram will come again */
            engine->count.dropped_stale++;
            return NULL;
        }
    }
    btl_ib_conn_t *conn = make_passive(home, &info);
    if (conn == NULL) {
        engine->count.dropped_lookup++;
        return NULL;
    }
    bind_peer(conn, arrival);
    btl_ib_failover_made(conn, rail, arrival->from);
    engine->ops->passive(engine->ops_context, conn);
    return conn;
}

/* Begins anew with a peer that is heard for the first time, or whose incarnation ended without our
 * being told, and that begins a new one. */
static btl_ib_conn_t *begin_anew(btl_ib_conn_t *conn, const btl_ib_arrival_t *arrival)
{
    if (conn->identity.bound) {
        BTL_IB_LOG(conn->engine, 10, "peer %u.%u: reopened", BTL_IB_NAME_ARGS(conn->identity.name));
        if (conn->identity.peer_knows) { /* then it had data of this incarnation of ours */
            btl_ib_conn_reset(conn);
        } else {
            btl_ib_conn_lose_peer(conn);
        }
    }
    return bind_peer(conn, arrival);
}

/* Removes from a datagram whose sender has not heard of this incarnation of ours what it
 * acknowledges, and the stamp that it echoes: these are of an earlier one, if any. Returns the
 * connection if the datagram has more in it. */
static btl_ib_conn_t *without_answers(btl_ib_conn_t *conn, btl_ib_rail_t *rail,
                                      btl_ib_arrival_t *arrival)
{
    btl_ib_view_t *view = &arrival->view;

    view->flags &= (uint8_t) ~(BTL_IB_FLAG_ACK | BTL_IB_FLAG_ECHO);
    if (view->type != BTL_IB_TYPE_ACK) {
        return conn;
    }
    conn->engine->count.dropped_stale++; /* its CONNECT was used, though */
    btl_ib_loss_datagram_received(conn, view->flags, view->stamp, view->echo, view->hold,
                                  view->poll_gap);
    if (view->flags & BTL_IB_FLAG_ACK_NOW) { /* it asks whether we are there */
        btl_ib_flow_asked(conn, view);
        btl_ib_failover_follow(conn, rail, arrival->from, view->stamp);
        btl_ib_ack_send(conn, 0);
    }
    return NULL;
}

/* Takes in a PATH_RESPONSE: a datagram of this connection got to the peer, which cannot find out
 * now which process sent it. */
static void response(btl_ib_conn_t *conn, btl_ib_rail_t *rail, btl_ib_arrival_t *arrival)
{
    btl_ib_counters_t *count = &rail->engine->count;

    if (conn == NULL || !btl_ib_conn_alive(conn) || arrival->size != sizeof(btl_ib_wire_header_t)) {
        count->dropped_unknown++;
    } else if (!is_genuine(conn, &arrival->view)) {
        count->dropped_token++;
    } else if (!check_version(rail->engine, &arrival->view, conn->identity.version)) {
        return;
    } else if (conn->identity.peer_knows) { /* a late or repeated copy: the peer knows us by now */
        count->dropped_stale++;
    } else if (check_origin(conn, rail, arrival)) {
        count->received_responses++;
        btl_ib_validation_answered(&conn->validation, conn->engine->clock.now);
        btl_ib_loss_responded(&conn->loss, conn->engine->clock.awake);
        if (btl_ib_route_owns(conn, rail, arrival->from)
            && btl_ib_validation_heard(&conn->validation)) {
            btl_ib_failover_validated(conn);
        }
    }
}

/* ---- whose datagram is it? ---- */

/* What a datagram is to the connections that there are. */
typedef enum contact {
    CHALLENGE,      /* or the answer to one (btl_ib_challenge.h) */
    RESPONSE,       /* to a first contact of ours */
    OF_NOBODY,      /* names no connection, or has not its token, and does not tell its sender */
    OF_NO_RAIL,     /* tells rails that there are not */
    OF_NEWCOMER,    /* of a process without a connection here */
    CLOSES_NOTHING, /* the same, but it closes what has not begun here */
    OF_RESTARTED,   /* of a process with another secret than the connection of its name has */
    /* of the peer of a connection: */
    OF_CONNECTION,     /* names it, and has its token: all but the first of an incarnation */
    OF_NO_INCARNATION, /* claims the end of incarnations of ours that never began */
    OF_ENDED,          /* of an incarnation that ended here; ours is a new one */
    OF_EARLIER,        /* of an incarnation before the present one */
    OF_PRESENT,        /* of the present incarnation, by a first contact that came late */
    BEGINS,            /* the first that is heard of the peer, or of its new incarnation */
} contact_t;

/* Returns what it is; in *found the connection that it names or whose peer it is of, or NULL. */
static contact_t classify(const btl_ib_engine_t *engine, const btl_ib_arrival_t *arrival,
                          btl_ib_conn_t **found)
{
    const btl_ib_view_t *view = &arrival->view;
    btl_ib_conn_t *conn =
        view->connection == 0 ? NULL : btl_ib_table_by_id(&engine->table, view->connection);

    *found = conn;
    if (view->type == BTL_IB_TYPE_PATH_RESPONSE) {
        return view->flags & BTL_IB_FLAG_PATH ? CHALLENGE : RESPONSE;
    }
    if (conn != NULL && btl_ib_conn_alive(conn) && conn->identity.bound
        && view->token == conn->identity.rx_token) {
        return OF_CONNECTION;
    }
    if (!(view->flags & BTL_IB_FLAG_CONNECT)) {
        return OF_NOBODY;
    }
    if (view->connect.to_rail >= engine->rail_count
        || view->connect.from_rail >= BTL_IB_RAILS_MAX) {
        return OF_NO_RAIL;
    }
    conn = btl_ib_table_by_name(&engine->table, view->connect.name, view->connect.to_rail,
                                view->connect.from_rail);
    *found = conn;
    if (conn == NULL) {
        return view->type == BTL_IB_TYPE_CLOSE ? CLOSES_NOTHING : OF_NEWCOMER;
    }
    if (!proves(engine, view, &conn->identity.secret)) {
        return OF_RESTARTED;
    }
    if (is_impossible(engine, view)) {
        return OF_NO_INCARNATION;
    }
    if (!conn->identity.bound) {
        return is_late(view, conn->identity.peer_floor) ? OF_ENDED : BEGINS;
    }
    return view->connect.epoch == conn->identity.peer_epoch                    ? OF_PRESENT
           : btl_ib_seq_before(view->connect.epoch, conn->identity.peer_epoch) ? OF_EARLIER
                                                                               : BEGINS;
}

btl_ib_conn_t *btl_ib_handshake_accept(btl_ib_rail_t *rail, btl_ib_arrival_t *arrival)
{
    btl_ib_engine_t *engine = rail->engine;
    const btl_ib_view_t *view = &arrival->view;
    btl_ib_conn_t *conn;
    const contact_t contact = classify(engine, arrival, &conn);

    if (contact >= OF_CONNECTION
        && (!check_version(engine, view, conn->identity.version)
            || !check_origin(conn, rail, arrival))) {
        return NULL;
    }
    switch (contact) {
    case OF_CONNECTION:
    case OF_PRESENT:
        conn = open_continuation(conn, arrival) ? conn : NULL;
        break;
    case BEGINS:
        conn = open_connect_of_peer(conn, arrival) ? begin_anew(conn, arrival) : NULL;
        break;
    case OF_NEWCOMER:
    case OF_RESTARTED:
        conn = look_up(rail, arrival, conn);
        break;
    case OF_ENDED: /* our CONNECT says that */
        if (open_connect_of_peer(conn, arrival)) {
            engine->count.dropped_stale++;
            if (view->type != BTL_IB_TYPE_CLOSE) {
                btl_ib_ack_send(conn, 0);
            }
        }
        return NULL;
    case OF_EARLIER:
    case OF_NO_INCARNATION:
        engine->count.dropped_stale++;
        return NULL;
    case CLOSES_NOTHING: /* what it closes is looked up first, if that is kept, but only once */
        if (sender_of(arrival) == NULL && keeps_contact_of(engine, view->connect.name)) {
            keep_contact(rail, arrival);
        } else {
            engine->count.dropped_unknown++;
        }
        return NULL;
    case OF_NOBODY:
        engine->count.dropped_token += conn != NULL;
        engine->count.dropped_unknown += conn == NULL;
        return NULL;
    case OF_NO_RAIL:
        engine->count.dropped_unknown++;
        return NULL;
    case RESPONSE:
        response(conn, rail, arrival);
        return NULL;
    case CHALLENGE:
        btl_ib_challenge_received(conn, rail, arrival);
        return NULL;
    }
    if (conn == NULL) {
        return NULL;
    }
    if (view->connection != conn->identity.id) {
        return without_answers(conn, rail, arrival);
    }
    if (!conn->identity.peer_knows) {
        btl_ib_identity_known(&conn->identity);
        btl_ib_validation_answered(&conn->validation, conn->engine->clock.now);
        btl_ib_trace(conn, BTL_IB_TRACE_known, BTL_IB_CAUSE_none, NULL, 1);
    }
    return conn;
}
