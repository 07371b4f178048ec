/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_connectivity_file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "btl_ib_file_name.h"

/* To be raised when a column changes its meaning or goes. */
#define FORMAT_VERSION 1

const char *btl_ib_connectivity_verdict(const btl_ib_pair_info_t *pair)
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

/* Smallest and largest datagram of one direction. */
static const char *sizes(char *out, size_t len, bool any, uint32_t smallest, uint32_t largest)
{
    snprintf(out, len, "-");
    if (any) {
        snprintf(out, len, "%" PRIu32 "-%" PRIu32, smallest,
                 largest > smallest ? largest : smallest);
    }
    return out;
}

static const char *note_of(const btl_ib_pair_info_t *pair)
{
    if (pair->why[0] != '\0') {
        return pair->why;
    }
    return pair->path.own ? "" : "messages go by other rails";
}

static void put_pair(FILE *out, const btl_ib_pair_info_t *pair)
{
    const btl_ib_path_info_t *path = &pair->path;
    const char *note = note_of(pair);
    char sent[32];
    char came[32];
    char most[16] = "-";
    char rtt[16] = "-";

    sizes(sent, sizeof(sent), path->answered && path->own, path->contact, path->sent);
    sizes(came, sizeof(came), path->heard, path->contact, path->came);
    if (path->most > 0) {
        snprintf(most, sizeof(most), "%" PRIu32, path->most);
    }
    if (path->rtt > 0 && path->own) {
        snprintf(rtt, sizeof(rtt), "%" PRIu32, path->rtt);
    }
    fprintf(out, "%6" PRIu32 "  %-16s  %-16s  %-22s  %-22s  %-10s  %-10s  %-10s  %5s  %6s%s%s\n",
            (uint32_t) pair->name, pair->host, pair->device, pair->address, pair->remote,
            btl_ib_connectivity_verdict(pair), sent, came, most, rtt, note[0] != '\0' ? "  " : "",
            note);
}

static void put_all(FILE *out, const btl_ib_map_info_t *info, const btl_ib_pair_info_t *pairs,
                    uint32_t count)
{
    fprintf(out,
            "# btl_ib connectivity map, version %d: job %08" PRIx32 ", rank %" PRIu32 " of %" PRIu32
            ", host %s, after %" PRIu64 ".%03" PRIu64 " s, %s\n",
            FORMAT_VERSION, info->job, info->rank, info->processes, info->host,
            info->took / 1000000, info->took / 1000 % 1000,
            info->complete ? "complete" : "time was up");
    fprintf(out, "# sent, came: smallest-largest datagram in bytes that got there, or came here; "
                 "most: what the rails carry; rtt: us\n");
    fprintf(out, "#%5s  %-16s  %-16s  %-22s  %-22s  %-10s  %-10s  %-10s  %5s  %6s\n", "rank",
            "host", "device", "address", "peer-address", "verdict", "sent", "came", "most", "rtt");
    for (uint32_t i = 0; i < count; ++i) {
        put_pair(out, &pairs[i]);
    }
}

int btl_ib_connectivity_file_write(const char *name, const btl_ib_map_info_t *info,
                                   const btl_ib_pair_info_t *pairs, uint32_t count)
{
    int error;
    FILE *out = btl_ib_file_open(name, &error);

    if (out == NULL) {
        return error;
    }
    put_all(out, info, pairs, count);
    return btl_ib_file_close(out);
}
