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
    char address[160]; /* with the published one, if the peer told of another one since */
} btl_ib_ends_t;

/* Large datagrams to a peer get lost, and smaller ones do not. Sizes are bytes of datagrams. */
typedef struct btl_ib_black_hole {
    btl_ib_ends_t ends;
    uint32_t lost;    /* the size that gets lost */
    uint32_t most;    /* the largest sent from now on */
    uint32_t carries; /* the largest that the rail carries */
} btl_ib_black_hole_t;

/* GSO bursts to a peer get lost, or this host refuses them, and single datagrams pass. */
typedef struct btl_ib_gso_loss {
    btl_ib_ends_t ends;
    uint32_t lost; /* bytes of these bursts */
    bool refused;
} btl_ib_gso_loss_t;

/* Peers' hosts that are reported for not answering, at most; further ones are counted. */
#define BTL_IB_REPORT_HOSTS 10u

/* Errors of this host in sending that are reported, at most. */
#define BTL_IB_REPORT_ERRORS 4u

struct mca_btl_base_module_t;

/* Facts about this process that texts need, and what was reported. */
typedef struct btl_ib_peer_reports {
    uint32_t rank; /* ours */
    const btl_ib_params_t *params;
    const struct mca_btl_base_module_t *limits;
    const btl_ib_modex_t *self;           /* what we published */
    uint32_t mismatches;                  /* bits: kinds that were reported */
    char silent[BTL_IB_REPORT_HOSTS][64]; /* hosts that do not answer */
    uint32_t silent_count;
    uint32_t silent_more;             /* processes of further hosts */
    uint32_t stopped_count;           /* peers reported that answered before, and do not any more */
    int unsent[BTL_IB_REPORT_ERRORS]; /* errnos that are reported */
    uint32_t unsent_count;
    uint32_t left_aside; /* addresses of this host that are not used, as there is no place */
    bool slow_found;
    bool hole_found;
    bool hole_pending; /* to be shown by progress */
    btl_ib_black_hole_t hole;
    bool gso_found;
    bool gso_pending; /* to be shown by progress */
    btl_ib_gso_loss_t gso;
} btl_ib_peer_reports_t;

/* Initializes: nothing was reported yet. All that the pointers name outlives the reports. */
void btl_ib_peer_reports_init(btl_ib_peer_reports_t *reports, uint32_t rank,
                              const btl_ib_params_t *params,
                              const struct mca_btl_base_module_t *limits,
                              const btl_ib_modex_t *self);

/* Notes how many addresses of this host are not used, as there is no place. */
static inline void btl_ib_peer_reports_note_left_aside(btl_ib_peer_reports_t *reports,
                                                       uint32_t count)
{
    reports->left_aside = count;
}

/* Reports that a connection failed. To be called once for a peer. */
void btl_ib_report_peer_lost(const btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends,
                             btl_ib_death_t reason, const btl_ib_diagnosis_t *diagnosis);

/* Reports that this host has refused for long all that is sent by `device` to a peer, which has
 * `answered` before or not. Once for each errno. */
void btl_ib_report_unsent(btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends, int error,
                          bool answered, const btl_ib_device_t *device);

/* Reports that the address of our device changed, and a peer has not answered at the new one for
 * long. */
void btl_ib_report_moved_unanswered(const btl_ib_ends_t *ends, const btl_ib_diagnosis_t *diagnosis);

/* Reports that far less got through between `ends`, whose device states `claimed` Mbit/s, than by
 * the device `better`. Once, by one process of a host. */
void btl_ib_report_slow_rail(btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends,
                             uint32_t claimed, const char *better, const btl_ib_slow_rail_t *found);

/*
 * Reports that nothing shows that what we send to a peer arrives; `heard`: what it sends arrives
 * here. `answers`: its process answers also while it computes; `reachable`: other processes show
 * that its host can be reached. Once for a host.
 */
void btl_ib_report_unanswered(btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends, bool heard,
                              bool answers, bool reachable, const btl_ib_diagnosis_t *diagnosis);

/*
 * Reports that a peer which answered before does not any more; `ports`: from where to where it is
 * asked; `answers` as for btl_ib_report_unanswered(); `reachable`: its host could be reached since
 * it was asked. Nothing tells a peer that computes from one that is not reached unless it
 * `answers`: then it is reported, once for a host; else it is logged only.
 */
void btl_ib_report_silent(btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends,
                          const char *ports, const btl_ib_silence_t *silence, bool answers,
                          bool reachable, const btl_ib_diagnosis_t *diagnosis);

/* Tells at the end how many peers of further hosts did not answer. */
void btl_ib_report_unanswered_rest(const btl_ib_peer_reports_t *reports);

/* Keeps, for btl_ib_report_pending(), that the engine found a black hole, or bursts that get lost
 * (btl_ib_engine_ops_t), perhaps in the progress thread: one of each for a process. */
void btl_ib_report_black_hole(btl_ib_peer_reports_t *reports, const btl_ib_black_hole_t *hole);
void btl_ib_report_gso_lost(btl_ib_peer_reports_t *reports, const btl_ib_gso_loss_t *loss);
void btl_ib_report_pending(btl_ib_peer_reports_t *reports);

/* True if btl_ib_report_pending() has something to show. */
static inline bool btl_ib_report_is_pending(const btl_ib_peer_reports_t *reports)
{
    return reports->hole_pending || reports->gso_pending;
}

/* Reports that all addresses were tried that may lead to a peer which does not answer: `pairs`, a
 * line each. */
void btl_ib_report_tried(btl_ib_peer_reports_t *reports, uint32_t rank, const char *host,
                         const char *pairs);

/* Reports, once for each kind, that `peer`, rank `rank`, understands no version of what we speak,
 * has other limits of messages, protects datagrams in another way, or shares no network with us; or
 * that words of its memory, where our rail `rail` on `device` reaches its `remote_rail`, are
 * changed by processors and ours by devices, or the other way round. */
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

/* Reports that the target rejected an operation of `size` bytes; `kind` is its name. osc/rdma may
 * have asked the wrong rank (`osc_may`). */
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
