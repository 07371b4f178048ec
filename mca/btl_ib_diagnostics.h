/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What a user is told of peers: that cannot be reached, or not any more, or by small datagrams
 * only, that do not agree with this process, or refuse something. Both ends by rank, host, device,
 * address and port, what is known, and what to look at for this reason. All but
 * btl_ib_report_cannot_start() is called with the lock held.
 */

#ifndef BTL_IB_REPORT_H
#define BTL_IB_REPORT_H

#include "btl_ib_engine.h"

struct btl_ib_modex;
struct btl_ib_module;
struct mca_btl_base_endpoint_t;
struct opal_proc_t;

/* Peers' hosts of which it was told that they do not answer, at most; the others are counted. */
#define BTL_IB_REPORT_HOSTS 10u

typedef struct btl_ib_reported {
    char host[BTL_IB_REPORT_HOSTS][64];
    uint32_t count; /* of them */
    uint32_t more;  /* peers of other hosts that were not told */
} btl_ib_reported_t;

/* Somebody whose large datagrams vanish, as text until a turn can show it. */
typedef struct btl_ib_report_hole {
    bool told;    /* one is enough */
    bool pending; /* found in a kick, to be shown */
    char rank[16];
    char host[64];
    char device[64];
    char own[64];
    char address[64];
    uint32_t lost; /* bytes of datagrams */
    uint32_t most;
    uint32_t carries;
} btl_ib_report_hole_t;

/* A connection is dead: say so, once for each peer. */
void btl_ib_report_lost(const struct mca_btl_base_endpoint_t *endpoint, btl_ib_death_t reason);

/* Nothing has shown that what we send to that peer gets there; `heard`: what it sends gets here. Said once for
 * each host. */
void btl_ib_report_unanswered(const struct mca_btl_base_endpoint_t *endpoint, bool heard);

/* The engine found that large datagrams do not get through to a peer (black_hole of
 * btl_ib_engine_ops_t); in a kick as well. Said once for each process, by btl_ib_report_late()
 * if not now. */
void btl_ib_report_hole(const btl_ib_conn_t *conn, uint32_t lost, uint32_t most, uint32_t carries);
void btl_ib_report_late(void);

/* `proc` published something that does not fit what we are. Said each time. */
void btl_ib_report_limits(const struct opal_proc_t *proc, const struct btl_ib_modex *peer);
void btl_ib_report_protection(const struct opal_proc_t *proc, const struct btl_ib_modex *peer);
void btl_ib_report_atomics(const struct btl_ib_module *module, const struct opal_proc_t *proc,
                           const struct btl_ib_modex *peer, int remote_rail);
void btl_ib_report_no_network(const struct opal_proc_t *proc, const struct btl_ib_modex *peer);

/* The target refused an operation of `size` bytes; `kind` is its name. */
void btl_ib_report_refused(const struct mca_btl_base_endpoint_t *endpoint, const char *kind,
                           size_t size, int64_t offset);

/* An atomic that a device was to execute is lost, with that errno; `region` and offset say which
 * word. */
void btl_ib_report_atomic_lost(const struct mca_btl_base_endpoint_t *endpoint, uint64_t region,
                               int64_t offset, int error);

/* Who has the address that a transport printed: "rank N on host H", or that it is not known.
 * Returns `out`. */
const char *btl_ib_report_peer_at(const char *address, char *out, size_t size);

/* The address of our rail `rail`, with the port where it has one: into `out`, cut to fit. */
void btl_ib_report_own_address(uint32_t rail, char *out, size_t size);

/* The component cannot start at all: why, with that errno (0: none), and what to do about it, in
 * lines of a help text. Said by one process of a host. */
void btl_ib_report_cannot_start(const char *cause, int error, const char *step);

/* The end: of how many further hosts nothing was said. */
void btl_ib_report_rest(void);

#endif
