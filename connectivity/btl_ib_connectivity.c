/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_connectivity.h"

#include "btl_ib_help.h"
#include "btl_ib_modex.h"
#include "btl_ib_rail_match.h"
#include "btl_ib_file_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <inttypes.h>

/* ---- file ---- */

/*
 * The file of btl_ib_connectivity_map has a line for each pair of rails, as
 * docs/guide/connectivity.md says. ib_connectivity reads it.
 */

/* Raise it when a column changes its meaning or is removed. */
#define FORMAT_VERSION 1

/* Returns one word, a literal:
 *   ok          both sides reach each other, and the largest datagrams arrive
 *   mtu         only smaller datagrams arrive
 *   one-way     what the peer sends arrives here, but what is sent from here does not arrive there
 *   no-answer   nothing that the peer sends arrives here
 *   refused     the peer's host, or a firewall, says that nobody is there
 *   unfinished  the peer answers, but the largest size was not found in time
 *   no-path     there is no connection; the reason is at the end of the line
 */
static const char *verdict_of(const btl_ib_pair_info_t *pair)
{
    const btl_ib_path_info_t *path = &pair->path;

    if (pair->why[0] != '\0') {
        return "no-path";
    }
    if (!path->answered || !path->own) {
        return path->heard ? "one-way" : path->refused ? "refused" : "no-answer";
    }
    if (path->checking) {
        return "unfinished";
    }
    return path->sent < path->most ? "mtu" : "ok";
}

/* Writes the smallest and the largest datagram of one direction. */
static const char *format_sizes(char *out, size_t len, bool any, uint32_t smallest,
                                uint32_t largest)
{
    snprintf(out, len, "-");
    if (any) {
        snprintf(out, len, "%" PRIu32 "-%" PRIu32, smallest,
                 largest > smallest ? largest : smallest);
    }
    return out;
}

static void put_pair(FILE *out, const btl_ib_pair_info_t *pair)
{
    const btl_ib_path_info_t *path = &pair->path;
    const char *note = pair->why[0] != '\0' ? pair->why
                       : path->own          ? ""
                                            : "messages go over other rails";
    char sent[32];
    char came[32];
    char most[16] = "-";
    char rtt[16] = "-";

    format_sizes(sent, sizeof(sent), path->answered && path->own, path->contact, path->sent);
    format_sizes(came, sizeof(came), path->heard, path->contact, path->came);
    if (path->most > 0) {
        snprintf(most, sizeof(most), "%" PRIu32, path->most);
    }
    if (path->rtt > 0 && path->own) {
        snprintf(rtt, sizeof(rtt), "%" PRIu32, path->rtt);
    }
    fprintf(out, "%6" PRIu32 "  %-16s  %-16s  %-22s  %-22s  %-10s  %-10s  %-10s  %5s  %6s%s%s\n",
            (uint32_t) pair->name, pair->host, pair->device, pair->address, pair->remote,
            verdict_of(pair), sent, came, most, rtt, note[0] != '\0' ? "  " : "", note);
}

/* Writes the map. `complete`: all was found in time. */
static void put_all(FILE *out, const btl_ib_connectivity_t *map, bool complete)
{
    const btl_ib_connectivity_config_t *config = &map->config;
    const uint64_t took = btl_ib_now() - map->started;

    fprintf(out,
            "# btl_ib connectivity map, version %d: job %08" PRIx32 ", rank %" PRIu32 " of %" PRIu32
            ", host %s, after %" PRIu64 ".%03" PRIu64 " s, %s\n",
            FORMAT_VERSION, config->name.jobid, config->name.vpid, config->processes,
            config->self->host, took / 1000000, took / 1000 % 1000,
            complete ? "complete" : "time was up");
    fprintf(out, "# sent, came: smallest-largest datagram in bytes that got there, or came here; "
                 "most: what the rails carry; rtt: us\n");
    fprintf(out, "#%5s  %-16s  %-16s  %-22s  %-22s  %-10s  %-10s  %-10s  %5s  %6s\n", "rank",
            "host", "device", "address", "peer-address", "verdict", "sent", "came", "most", "rtt");
    for (uint32_t i = 0; i < map->count; ++i) {
        put_pair(out, &map->pairs[i]);
    }
}

/* Replaces the file by a new one. Returns 0 or an errno. */
static int file_write(const btl_ib_connectivity_t *map, bool complete)
{
    int error;
    FILE *out = btl_ib_file_open(map->config.file, &error);

    if (out == NULL) {
        return error;
    }
    put_all(out, map, complete);
    return btl_ib_file_close(out);
}

enum {
    PAUSE = 50,           /* us between two turns that received nothing */
    CHECK_EACH = 1000,    /* us between two checks of all pairs */
    PEERS_TIME = 1000000, /* us to wait for the peers' probes after ours were all answered */
};

/* ---- pairs ---- */

/* Adds a pair without rails. Returns NULL if memory is short. */
static btl_ib_pair_info_t *add_pair(btl_ib_connectivity_t *map, uint64_t name, const char *host)
{
    const uint32_t room = map->room == 0 ? 64 : 2 * map->room;
    btl_ib_pair_info_t *pair;

    if (map->count == map->room) {
        btl_ib_pair_info_t *pairs = realloc(map->pairs, room * sizeof(*pairs));

        if (pairs == NULL) {
            return NULL;
        }
        map->pairs = pairs;
        map->room = room;
    }
    pair = &map->pairs[map->count++];
    *pair = (btl_ib_pair_info_t){
        .name = name,
        .rail = UINT32_MAX,
        .device = "-",
        .address = "-",
        .remote = "-",
        .path = {.own = true},
    };
    snprintf(pair->host, sizeof(pair->host), "%s", host[0] != '\0' ? host : "-");
    return pair;
}

static btl_ib_conn_t *conn_of(const btl_ib_connectivity_t *map, const btl_ib_pair_info_t *pair)
{
    return pair->rail == UINT32_MAX
               ? NULL
               : btl_ib_conn_find(map->config.engine, pair->rail, pair->name, pair->remote_rail);
}

/* Updates a pair by what its connection knows. */
static void update_pair(btl_ib_connectivity_t *map, btl_ib_pair_info_t *pair,
                        const btl_ib_conn_t *conn)
{
    const btl_ib_pair_info_t before = *pair;

    pair->path = btl_ib_conn_path(conn);
    map->changed |= before.path.sent != pair->path.sent || before.path.came != pair->path.came
                    || verdict_of(&before) != verdict_of(pair);
}

static void update_all(btl_ib_connectivity_t *map)
{
    for (uint32_t i = 0; i < map->count; ++i) {
        const btl_ib_conn_t *conn = conn_of(map, &map->pairs[i]);

        if (conn != NULL) {
            update_pair(map, &map->pairs[i], conn);
        }
    }
}

/* ---- contact ---- */

static void describe_pair(const btl_ib_connectivity_t *map, btl_ib_pair_info_t *pair,
                          const btl_ib_conn_t *conn, const btl_ib_modex_t *peer)
{
    const btl_ib_connectivity_config_t *config = &map->config;

    snprintf(pair->device, sizeof(pair->device), "%s",
             btl_ib_engine_rail_name(config->engine, pair->rail));
    if (!btl_ib_engine_address_text(config->engine, pair->rail, pair->address,
                                    sizeof(pair->address))) {
        btl_ib_modex_ip_text(&config->self->rails[pair->rail], pair->address,
                             sizeof(pair->address));
    }
    if (conn == NULL || !btl_ib_conn_address_text(conn, pair->remote, sizeof(pair->remote))) {
        btl_ib_modex_ip_text(&peer->rails[pair->remote_rail], pair->remote, sizeof(pair->remote));
    }
    for (char *c = pair->address; *c != '\0'; ++c) { /* columns have no blanks */
        *c = *c == ' ' ? '-' : *c;
    }
    for (char *c = pair->remote; *c != '\0'; ++c) {
        *c = *c == ' ' ? '-' : *c;
    }
}

/* Makes a pair's connection if there is none, and has the engine check its path. */
static void contact_pair(btl_ib_connectivity_t *map, btl_ib_pair_info_t *pair,
                         const btl_ib_modex_t *peer)
{
    const opal_process_name_t name = btl_ib_name_unpack(pair->name);
    btl_ib_conn_t *conn = conn_of(map, pair);
    btl_ib_peer_info_t info;
    int rc = 0;

    if (conn == NULL) {
        btl_ib_modex_peer_info(peer, &name, pair->remote_rail, &info);
        rc = btl_ib_conn_create(map->config.engine, pair->rail, &info, NULL, &conn);
    }
    describe_pair(map, pair, rc == 0 ? conn : NULL, peer);
    if (rc == 0) {
        btl_ib_conn_check_path(conn, btl_ib_now());
        update_pair(map, pair, conn);
    } else {
        snprintf(pair->why, sizeof(pair->why), "%s", strerror(-rc));
    }
}

/* Contacts a process over all pairs of rails. Returns false if memory is short. */
static bool contact_peer(btl_ib_connectivity_t *map, uint32_t rank)
{
    const btl_ib_connectivity_config_t *config = &map->config;
    const opal_process_name_t process = {.jobid = config->name.jobid, .vpid = rank};
    const uint64_t name = btl_ib_name_pack(process);
    /* may wait for the runtime, so without the lock */
    btl_ib_modex_t *peer = btl_ib_modex_get(&process, true);
    const char *why = NULL;
    int choice[BTL_IB_RAILS_MAX];
    btl_ib_pair_info_t *pair = NULL;

    if (peer == NULL) {
        why = "it does not use ib";
    } else if (!btl_ib_modex_versions_fit(config->self, peer)) {
        why = "its version of ib understands none of ours";
    } else if (!btl_ib_modex_params_fit(config->self, peer)) {
        why = "its parameters differ (eager_limit, max_send_size, protection)";
    }
    btl_ib_biased_lock_acquire(config->lock);
    if (why == NULL) {
        btl_ib_rails_match(config->self, peer, strcmp(peer->host, config->self->host) == 0, choice);
        for (uint32_t i = 0; i < config->self->rail_count; ++i) {
            if (choice[i] >= 0 && (pair = add_pair(map, name, peer->host)) != NULL) {
                pair->rail = i;
                pair->remote_rail = (uint32_t) choice[i];
                contact_pair(map, pair, peer);
            }
        }
        why = "no two devices are in one network";
    }
    if (pair == NULL && (pair = add_pair(map, name, peer != NULL ? peer->host : "")) != NULL) {
        snprintf(pair->why, sizeof(pair->why), "%s", why);
    }
    btl_ib_biased_lock_release(config->lock);
    free(peer);
    return pair != NULL;
}

/* ---- waiting ---- */

/* True while there is something to wait for: answers for any pair; or, for PEERS_TIME after the
 * last answer (until *peers_until, which is set here), a peer's probes. */
static bool find_open(const btl_ib_connectivity_t *map, uint64_t now, uint64_t *peers_until)
{
    bool peers = false;

    for (uint32_t i = 0; i < map->count; ++i) {
        const btl_ib_path_info_t *path = &map->pairs[i].path;

        if (path->checking) {
            *peers_until = now + PEERS_TIME;
            return true;
        }
        peers |= path->heard && path->own && path->came == 0;
    }
    return peers && now < *peers_until;
}

/* Waits for answers, in turns without callbacks, as the caller holds locks of Open MPI. Returns
 * whether all was found in time. */
static bool wait_for_answers(btl_ib_connectivity_t *map)
{
    const btl_ib_connectivity_config_t *config = &map->config;
    uint64_t now = btl_ib_now();
    uint64_t peers_until = now + PEERS_TIME;
    uint64_t check_at = now;
    bool open = true;

    while (open && now - map->started < config->timeout) {
        btl_ib_biased_lock_acquire(config->lock);
        const int received = btl_ib_engine_async_progress(config->engine, now, config->burst);
        if (now >= check_at) {
            update_all(map);
            open = find_open(map, now, &peers_until);
            check_at = now + CHECK_EACH;
        }
        btl_ib_biased_lock_release(config->lock);
        if (received == 0) {
            usleep(PAUSE);
        }
        now = btl_ib_now();
    }
    return !open;
}

/* Closes connections that add_procs has not adopted: those that do not work; or `all`. */
static void close_own(const btl_ib_connectivity_t *map, bool all)
{
    for (uint32_t i = 0; i < map->count; ++i) {
        btl_ib_conn_t *conn = conn_of(map, &map->pairs[i]);

        if (conn != NULL && btl_ib_conn_user(conn) == NULL
            && (all || !map->pairs[i].path.answered)) {
            btl_ib_conn_destroy(conn, btl_ib_now());
        }
    }
}

/* ---- the file ---- */

static void write_file(btl_ib_connectivity_t *map, bool complete)
{
    const btl_ib_connectivity_config_t *config = &map->config;
    const int error = file_write(map, complete);

    map->changed = false;
    if (error != 0 && !map->failed) {
        map->failed = true;
        btl_ib_show_help("cannot write", "connectivity map", "connectivity_map", config->name.vpid,
                         config->self->host, config->file, strerror(error));
    }
}

void btl_ib_connectivity_run(btl_ib_connectivity_t *map)
{
    const btl_ib_connectivity_config_t *config = &map->config;
    bool complete = true;

    map->begun = true;
    map->started = btl_ib_now();
    for (uint32_t rank = 0; rank < config->processes; ++rank) {
        if (rank != config->name.vpid && !contact_peer(map, rank)) {
            complete = false;
        }
    }
    complete = wait_for_answers(map) && complete;
    btl_ib_biased_lock_acquire(config->lock);
    update_all(map);
    write_file(map, complete);
    close_own(map, false);
    btl_ib_biased_lock_release(config->lock);
}

const char *btl_ib_connectivity_host(const btl_ib_connectivity_t *map, uint64_t name)
{
    for (uint32_t i = 0; i < map->count; ++i) {
        if (name == map->pairs[i].name) {
            return map->pairs[i].host;
        }
    }
    return NULL;
}

void btl_ib_connectivity_note(btl_ib_connectivity_t *map, const btl_ib_conn_t *conn)
{
    for (uint32_t i = 0; i < map->count; ++i) {
        btl_ib_pair_info_t *pair = &map->pairs[i];

        if (pair->name == btl_ib_conn_name(conn) && pair->rail == btl_ib_conn_rail(conn)) {
            update_pair(map, pair, conn);
        }
    }
}

void btl_ib_connectivity_end(btl_ib_connectivity_t *map)
{
    if (map->begun) {
        update_all(map);
        if (map->changed) {
            write_file(map, true);
        }
        close_own(map, true);
    }
    free(map->pairs);
    free(map->config.file);
    *map = (btl_ib_connectivity_t){0};
}
