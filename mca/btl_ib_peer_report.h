/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Reports to users about peers: failures, peers that never answer, large datagrams that get lost,
 * peers whose configuration differs, rejected operations. Each text names both ends by rank, host,
 * device, address and port, says what is known, and what to look at. Called with the lock held.
 */

#ifndef BTL_IB_PEER_REPORT_H
#define BTL_IB_PEER_REPORT_H

#include "btl_ib_engine.h"
#include "btl_ib_modex_codec.h"
#include "btl_ib_params.h"
#include "btl_ib_ompi_compat.h"

/* ---- reports ---- */

/* Both ends of a connection, as text. */
typedef struct btl_ib_ends {
    char our_rank[16];
    char device[64];
    char our_address[64];
    char rank[16];
    char host[64];
    char address[160]; /* now; and the published one, if the peer's address changed since */
} btl_ib_ends_t;

/* Large datagrams to a peer get lost, and smaller ones do not. Sizes are bytes of datagrams. */
typedef struct btl_ib_black_hole {
    btl_ib_ends_t ends;
    uint32_t lost;    /* size that gets lost */
    uint32_t most;    /* largest size sent from now on */
    uint32_t carries; /* largest size that the rail itself can send */
} btl_ib_black_hole_t;

/* GSO bursts to a peer get lost, or this host refuses them, and single datagrams pass. */
typedef struct btl_ib_gso_loss {
    btl_ib_ends_t ends;
    uint32_t lost; /* bytes of these bursts */
    bool refused;
} btl_ib_gso_loss_t;

/* At most this many hosts are reported for not answering; processes of others are counted. */
#define BTL_IB_REPORT_HOSTS 10u

/* At most this many different errors of this host in sending are reported. */
#define BTL_IB_REPORT_ERRORS 4u

struct mca_btl_base_module_t;

/* Facts about this process that texts need, and what was reported. */
typedef struct btl_ib_peer_reports {
    uint32_t rank; /* ours */
    const btl_ib_params_t *params;
    const struct mca_btl_base_module_t *limits;
    const btl_ib_modex_t *self;           /* what we published */
    uint32_t mismatches;                  /* bits by kind of report: it was shown */
    char silent[BTL_IB_REPORT_HOSTS][64]; /* hosts reported that never answered */
    uint32_t silent_count;
    uint32_t silent_more;             /* processes of further hosts that never answered */
    uint32_t stopped_count;           /* peers reported that answered before, and do not any more */
    int unsent[BTL_IB_REPORT_ERRORS]; /* errnos that were reported */
    uint32_t unsent_count;
    uint32_t left_aside; /* unused addresses of this host, as BTL_IB_RAILS_MAX others are used */
    char not_used[1024]; /* devices of this host that are not used, and why: lines; "": not known */
    bool slow_found;     /* a slow rail was reported */
    bool hole_found;     /* `hole` is filled in */
    bool hole_pending;   /* `hole` is to be shown by progress */
    btl_ib_black_hole_t hole;
    bool gso_found;   /* `gso` is filled in */
    bool gso_pending; /* `gso` is to be shown by progress */
    btl_ib_gso_loss_t gso;
} btl_ib_peer_reports_t;

/* Initializes: nothing was reported yet. What the pointers name must outlive the reports. */
void btl_ib_peer_reports_init(btl_ib_peer_reports_t *reports, uint32_t rank,
                              const btl_ib_params_t *params,
                              const struct mca_btl_base_module_t *limits,
                              const btl_ib_modex_t *self);

/* Notes how many addresses of this host are unused, as BTL_IB_RAILS_MAX are in use. */
static inline void btl_ib_peer_reports_note_left_aside(btl_ib_peer_reports_t *reports,
                                                       uint32_t count)
{
    reports->left_aside = count;
}

/* What a transport says of datagrams that it does not send. */
typedef struct btl_ib_refused_send {
    int error;        /* errno of send() */
    const char *call; /* that failed; NULL: send() has its errno */
    int call_error;   /* errno of `call`; 0: `call` says all */
} btl_ib_refused_send_t;

/* Reports that a connection failed. To be called once for a peer. `refused` counts if
 * diagnosis->unsent is not 0. */
void btl_ib_report_peer_lost(const btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends,
                             btl_ib_death_t reason, const btl_ib_diagnosis_t *diagnosis,
                             const btl_ib_refused_send_t *refused);

/* Reports, once for each errno, that this host has refused for long to send anything to a peer over
 * `device`. `answered`: the peer has answered before. */
void btl_ib_report_unsent(btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends,
                          const btl_ib_refused_send_t *refused, bool answered,
                          const btl_ib_device_t *device);

/* Reports that our device has a new address, and that a peer has not answered there for long. */
void btl_ib_report_moved_unanswered(const btl_ib_ends_t *ends, const btl_ib_diagnosis_t *diagnosis);

/* Reports, once, in one process of each host, that far less gets through between `ends`, whose
 * device claims `claimed` Mbit/s, than over the device `better`. */
void btl_ib_report_slow_rail(btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends,
                             uint32_t claimed, const char *better, const btl_ib_slow_rail_t *found);

/*
 * Reports, once for each host, that a peer has never answered. `heard`: what the peer sends arrives
 * here. `answers`: it answers also while it computes. `reachable`: other processes show that its
 * host can be reached.
 */
void btl_ib_report_unanswered(btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends, bool heard,
                              bool answers, bool reachable, const btl_ib_diagnosis_t *diagnosis);

/*
 * Reports that a peer which answered before does not any more. `ports`: from where to where it is
 * asked. `reachable`: its host was reached since the first question. `answers`: as for
 * btl_ib_report_unanswered(); if it is false the peer may just compute, so this is only logged.
 * Shows at most BTL_IB_REPORT_HOSTS help texts.
 */
void btl_ib_report_silent(btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends,
                          const char *ports, const btl_ib_silence_t *silence, bool answers,
                          bool reachable, const btl_ib_diagnosis_t *diagnosis);

/* Prints, at the end, how many peers of hosts that were not reported did not answer. */
void btl_ib_report_unanswered_rest(const btl_ib_peer_reports_t *reports);

/* Reports that the engine found a black hole, or bursts that get lost (btl_ib_engine_ops_t), once
 * each. May run in the progress thread, so btl_ib_report_pending() shows the text later. */
void btl_ib_report_black_hole(btl_ib_peer_reports_t *reports, const btl_ib_black_hole_t *hole);
void btl_ib_report_gso_lost(btl_ib_peer_reports_t *reports, const btl_ib_gso_loss_t *loss);
void btl_ib_report_pending(btl_ib_peer_reports_t *reports);

/* True if btl_ib_report_pending() has something to show. */
static inline bool btl_ib_report_is_pending(const btl_ib_peer_reports_t *reports)
{
    return reports->hole_pending || reports->gso_pending;
}

/* Reports, once, which pairs of addresses were tried to reach a peer that does not answer: `pairs`
 * has a line for each. */
void btl_ib_report_tried(btl_ib_peer_reports_t *reports, uint32_t rank, const char *host,
                         const char *pairs);

/* Reports, once each, that `peer`, rank `rank`, understands none of our versions; has other limits
 * of messages; protects datagrams in another way; shares no network with us; or that, of our rail
 * `rail` on `device` and its rail `remote_rail`, one has atomics executed by processors and the
 * other by devices. */
void btl_ib_report_versions_differ(btl_ib_peer_reports_t *reports, const btl_ib_modex_t *peer,
                                   uint32_t rank);
void btl_ib_report_limits_differ(btl_ib_peer_reports_t *reports, const btl_ib_modex_t *peer,
                                 uint32_t rank);
void btl_ib_report_protection_differs(btl_ib_peer_reports_t *reports, const btl_ib_modex_t *peer,
                                      uint32_t rank);
void btl_ib_report_no_network(btl_ib_peer_reports_t *reports, const btl_ib_modex_t *peer,
                              uint32_t rank);
void btl_ib_report_atomics_differ(btl_ib_peer_reports_t *reports, const btl_ib_modex_t *peer,
                                  uint32_t rank, uint32_t rail, const char *device,
                                  uint32_t remote_rail);

/* Reports that the target rejected an operation of `size` bytes; `kind` is its name. `osc_may`: the
 * cause may be that osc/rdma asked the wrong rank (btl_ib_osc.h). */
void btl_ib_report_rejected(const btl_ib_ends_t *ends, const char *kind, size_t size,
                            int64_t offset, bool osc_may);

/* Reports that an atomic which a device was to execute is lost, with that errno; `region` and
 * `offset` name the word. */
void btl_ib_report_atomic_lost(const btl_ib_ends_t *ends, uint64_t region, int64_t offset,
                               int error);

/* Reports that the application closed descriptors of ours, so that a call failed with that
 * errno. */
void btl_ib_report_descriptors_closed(const btl_ib_ends_t *ends, int error);

/* Reports that the device of a rail failed with that errno. `moved` connections go on over other
 * rails, `left` end. */
void btl_ib_report_device_failed(const btl_ib_ends_t *ends, int error, uint32_t moved,
                                 uint32_t left);

/* Reports that the system refuses a call with that errno, without which a rail is of no use. */
void btl_ib_report_call_refused(const btl_ib_ends_t *ends, const char *call, int error,
                                uint32_t moved, uint32_t left);

#endif
