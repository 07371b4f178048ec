/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_stats_records.h"

#include <stdio.h>
#include <stdlib.h>

/* Samples are thinned out when there are so many: a job of any length takes at most 0.8 MB. */
#define SAMPLES_MAX 1000u

void btl_ib_stats_records_free(btl_ib_stats_records_t *records)
{
    free(records->peers);
    free(records->samples);
    *records = (btl_ib_stats_records_t){0};
}

/* Room for one more. Returns whether there is. */
static bool make_room(btl_ib_stats_records_t *records)
{
    const uint32_t room = 0 == records->peer_room ? 16 : 2 * records->peer_room;
    btl_ib_peer_record_info_t *peers;

    if (records->peer_count < records->peer_room) {
        return true;
    }
    peers = realloc(records->peers, room * sizeof(*peers));
    if (NULL == peers) {
        records->incomplete = true;
        return false;
    }
    records->peers = peers;
    records->peer_room = room;
    return true;
}

void btl_ib_stats_record_peer(btl_ib_stats_records_t *records, const btl_ib_conn_t *conn,
                              const char *host, const char *address)
{
    const btl_ib_conn_counters_t counters = btl_ib_conn_counters(conn);
    btl_ib_peer_record_info_t *peer;

    if ((0 == counters.sent_segments && 0 == counters.received_segments) || !make_room(records)) {
        return;
    }
    peer = &records->peers[records->peer_count++];
    *peer = (btl_ib_peer_record_info_t){
        .name = btl_ib_conn_name(conn),
        .rail = btl_ib_conn_rail(conn),
        .dead = btl_ib_conn_is_dead(conn),
        .counters = counters,
        .levels = btl_ib_conn_levels(conn),
    };
    snprintf(peer->host, sizeof(peer->host), "%s", host);
    snprintf(peer->address, sizeof(peer->address), "%s", address);
}

/* Every second sample goes. */
static void thin_out(btl_ib_stats_records_t *records)
{
    for (uint32_t i = 0; 2 * i + 1 < records->sample_count; ++i) {
        records->samples[i] = records->samples[2 * i + 1];
    }
    records->sample_count /= 2;
    records->every *= 2;
}

void btl_ib_stats_record_sample(btl_ib_stats_records_t *records, uint64_t at,
                                const btl_ib_process_counters_t *counters)
{
    if (NULL == records->samples) {
        records->samples = calloc(SAMPLES_MAX, sizeof(*records->samples));
        records->every = 1;
    }
    if (NULL == records->samples) {
        records->incomplete = true;
        return;
    }
    if (++records->skipped < records->every) {
        return;
    }
    records->skipped = 0;
    records->samples[records->sample_count++] = (btl_ib_sample_info_t){at, *counters};
    if (SAMPLES_MAX == records->sample_count) {
        thin_out(records);
    }
}
