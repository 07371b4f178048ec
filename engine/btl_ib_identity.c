/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_identity.h"

#include "btl_ib_state.h"

#include <string.h>
#include <stddef.h>

void btl_ib_identity_init(btl_ib_conn_t *conn, const btl_ib_peer_info_t *info,
                          btl_ib_protection_keys_t *keys)
{
    conn->identity.name = info->name;
    conn->identity.secret = info->secret;
    conn->identity.version = btl_ib_versions_common(conn->engine->config.wire, info->wire);
    conn->identity.keys = keys;
    if (keys != NULL) {
        btl_ib_protection_keys_init(keys, &info->key);
    }
    conn->identity.remote_rail = (uint8_t) info->rail;
    conn->identity.peer_ack_delay = info->ack_delay;
}

int btl_ib_identity_register(btl_ib_conn_t *conn)
{
    return btl_ib_table_add(&conn->engine->table, conn, conn->identity.name, conn->rail->index,
                            conn->identity.remote_rail, &conn->identity.id);
}

void btl_ib_identity_fini(btl_ib_conn_t *conn)
{
    btl_ib_table_remove(&conn->engine->table, conn->identity.id);
    if (conn->identity.keys != NULL) {
        explicit_bzero(conn->identity.keys, sizeof(*conn->identity.keys));
    }
}

static btl_ib_tombstone_t tombstone_of(const btl_ib_conn_t *conn)
{
    return (btl_ib_tombstone_t){
        .name = conn->identity.name,
        .secret = conn->identity.secret.k[0],
        .rail = conn->rail->index,
        .remote_rail = conn->identity.remote_rail,
        .epoch = conn->identity.peer_epoch,
    };
}

void btl_ib_identity_begin(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;
    const btl_ib_engine_config_t *config = &engine->config;
    btl_ib_identity_t *identity = &conn->identity;
    const btl_ib_tombstone_t tombstone = tombstone_of(conn);
    const uint32_t floor = btl_ib_tombstones_floor(&engine->tombstones, &tombstone);

    identity->contacted = false;
    if (floor != 0) { /* else it may have had a tombstone, whose place another one took */
        identity->peer_floor = floor;
    }
    identity->epoch = ++engine->incarnations.newest;
    identity->tx_token =
        btl_ib_token(&identity->secret, config->name, &config->secret, identity->epoch,
                     btl_ib_rails_of(conn->rail->index, identity->remote_rail));
    if (identity->keys != NULL) {
        btl_ib_protection_renew(identity->keys, config->first_number);
    }
}

void btl_ib_identity_bind(btl_ib_conn_t *conn, const btl_ib_arrival_t *arrival)
{
    btl_ib_identity_t *identity = &conn->identity;
    const btl_ib_view_t *view = &arrival->view;

    identity->peer_id = view->connect.connection;
    identity->peer_epoch = view->connect.epoch;
    identity->rx_token = view->token;
    identity->bound = true;
    if (identity->keys != NULL) {
        btl_ib_protection_accept(identity->keys, &arrival->way,
                                 btl_ib_protection_number(arrival->data, arrival->size));
    }
}

void btl_ib_identity_add_tombstone(const btl_ib_conn_t *conn)
{
    const btl_ib_tombstone_t tombstone = tombstone_of(conn);

    if (conn->identity.bound) {
        btl_ib_tombstones_add(&conn->engine->tombstones, &tombstone);
    }
}
