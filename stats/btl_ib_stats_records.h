/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What is kept for the file of btl_ib_stats_file: what connections counted, which are no more when
 * it is written, and what the process had counted at intervals.
 */

#ifndef BTL_IB_STATS_RECORDS_H
#define BTL_IB_STATS_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_engine.h"
#include "btl_ib_stats_values.h"

/* A connection that has ended, with a peer that something was exchanged with. */
typedef struct btl_ib_peer_record_info {
    uint64_t name; /* of the peer, as the engine knows it */
    uint32_t rail; /* of ours */
    bool dead;     /* it was given up */
    char host[64];
    char address[64];
    btl_ib_conn_counters_t counters;
    btl_ib_conn_levels_info_t levels;
} btl_ib_peer_record_info_t;

/* What was counted until `at`. */
typedef struct btl_ib_sample_info {
    uint64_t at; /* us since the start */
    btl_ib_process_counters_t counters;
} btl_ib_sample_info_t;

typedef struct btl_ib_stats_records {
    btl_ib_peer_record_info_t *peers;
    uint32_t peer_count, peer_room;
    btl_ib_sample_info_t *samples;
    uint32_t sample_count;
    uint32_t every;   /* of so many intervals one is kept; doubled when there is no room left */
    uint32_t skipped; /* since the last that was kept */
    bool incomplete;  /* memory was short */
} btl_ib_stats_records_t;

void btl_ib_stats_records_free(btl_ib_stats_records_t *records);

/* The connection is about to end. */
void btl_ib_stats_record_peer(btl_ib_stats_records_t *records, const btl_ib_conn_t *conn,
                              const char *host, const char *address);

/* An interval has ended. */
void btl_ib_stats_record_sample(btl_ib_stats_records_t *records, uint64_t at,
                                const btl_ib_process_counters_t *counters);

#endif
