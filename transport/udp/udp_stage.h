/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Staging memory: a long GSO burst may be copied into pages of ours, which the kernel then sends
 * from where they are (vmsplice(2), splice(2); it takes them along since Linux 6.5), instead of
 * copying it into pages of its own.
 *
 * Between hosts of one machine (containers, namespaces, processes of a host) the kernel's pages are
 * those that the receiver's processor has read just now: so its copy of 62 KB takes 8 us, and 30 us
 * where the two processors share no cache, not 1.4. Of ours, which are used in turn, most have left
 * that cache. But they take room in the sender's. So whether it pays is tried now and then.
 *
 * A slot holds one burst. The network, or the peer's socket, refers to it until it was read. So it
 * is used again when the peer acknowledged all datagrams in it, each of which was sent but once.
 * Else what the peer acknowledged may be another copy, and this one still be under way: then the
 * slot's pages are given up, and it gets others. Should the network have made a late copy of its
 * own, that is read as a datagram that the peer has, or as a whole new one: a header is overwritten
 * after the bytes behind it, its sequence last.
 */

#ifndef BTL_IB_UDP_STAGE_H
#define BTL_IB_UDP_STAGE_H

#include "udp_log.h"

enum {
    BTL_IB_UDP_STAGE_SLOTS = 32,
    BTL_IB_UDP_STAGE_SLOT = 64 << 10, /* bytes: whole pages, 16, of which a datagram may have 17 */
    BTL_IB_UDP_STAGE_BYTES = BTL_IB_UDP_STAGE_SLOTS * BTL_IB_UDP_STAGE_SLOT,
    BTL_IB_UDP_STAGE_LEAST = 16 << 10, /* of a burst that is worth the calls */
    BTL_IB_UDP_STAGE_EVEN = 4096,
};

typedef struct btl_ib_udp_stage {
    const btl_ib_udp_log_t *log;
    btl_ib_staging_t wanted;
    bool opened;
    uint8_t *memory; /* of all slots; NULL: none, as before it is opened */
    int pipe[2];
    uint32_t first, count;                /* of the slots in `free` */
    uint8_t free[BTL_IB_UDP_STAGE_SLOTS]; /* a ring: the one that was free for longest goes first */
    struct {
        uint8_t datagrams; /* that the slot is kept for */
        bool spoiled;      /* one of them went again, or was given up */
    } slot[BTL_IB_UDP_STAGE_SLOTS];
    bool refused;      /* the last one that was tried, and none went since */
    uint32_t refusals; /* one after the other that say that the kernel cannot */
    uint32_t turn;     /* long bursts; wraps */
    uint32_t tried[2]; /* ns for 1 KiB in this trial: without staging, with it; 0: not known */
    uint32_t ratio;    /* of late, with staging : without it, of BTL_IB_UDP_STAGE_EVEN */
    bool pays;
} btl_ib_udp_stage_t;

static inline void btl_ib_udp_stage_init(btl_ib_udp_stage_t *stage, const btl_ib_udp_log_t *log,
                                         btl_ib_staging_t wanted)
{
    *stage = (btl_ib_udp_stage_t){
        .log = log,
        .wanted = wanted,
        .pipe = {-1, -1},
        .ratio = BTL_IB_UDP_STAGE_EVEN,
    };
}

void btl_ib_udp_stage_close(btl_ib_udp_stage_t *stage);

/* Is the next long burst to be staged? Not after one that the kernel refused, and never again after
 * a few. The memory is got with the first; a line of the log says if there can be none. */
bool btl_ib_udp_stage_turn(btl_ib_udp_stage_t *stage);

/* A long burst took so many ns to send. */
void btl_ib_udp_stage_cost(btl_ib_udp_stage_t *stage, bool staged, uint64_t bytes, uint64_t ns);

/* Send the first `run` datagrams as one burst by a socket that is connected to their receiver,
 * after btl_ib_udp_stage_turn() said so. Sets *staged of each. False: they have to be sent
 * otherwise; some of them may have gone, which the receiver takes for repeated ones. */
bool btl_ib_udp_stage_send(btl_ib_udp_stage_t *stage, int fd, const btl_ib_tx_t *first, int run);

/* See btl_ib_transport_ops_t.unstage. */
void btl_ib_udp_stage_done(btl_ib_udp_stage_t *stage, uint32_t staged, bool clean);

#endif
