/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef BTL_IB_UDP_RECV_H
#define BTL_IB_UDP_RECV_H

#include <string.h>

#include <pthread.h>

#include "udp_errors.h"
#include "udp_sockets.h"
#include "udp_peers.h"

/*
 * Receiving: system calls become events. One call may fill several buffers (recvmmsg(2)), and one
 * buffer may hold many datagrams of one size from one peer, the last perhaps shorter (UDP_GRO,
 * udp(7)). Each event is one datagram; its buffer is free again when all of them were reposted.
 */

enum {
    BTL_IB_UDP_RECV_BATCH = 16,    /* buffers that one call fills at most */
    BTL_IB_UDP_BUFFERS_MAX = 1024, /* that hold what was received and is not given back */
    BTL_IB_UDP_RECV_BYTES = 65536, /* that one buffer is filled with at most */
    BTL_IB_UDP_BUFFER = BTL_IB_UDP_RECV_BYTES + 1024, /* datagrams are moved to multiples of 8 */
};

/* A buffer that one message of a receiving call fills. */
typedef struct btl_ib_udp_buffer {
    struct btl_ib_udp_buffer *next;      /* in the list of free buffers */
    struct btl_ib_udp_buffer *next_made; /* in the list of all */
    uint32_t users; /* events handed up and not reposted, and one if there are more to come */
    btl_ib_udp_name_t name; /* the sender, as peers know it */
    uint8_t codepoint;      /* btl_ib_codepoint_t of all datagrams in it */
    bool latency;           /* received by the latency lane: the sender's port is the next one */
    _Alignas(64) uint8_t data[BTL_IB_UDP_BUFFER];
} btl_ib_udp_buffer_t;

/* Datagrams in a buffer that no event was made of yet. */
typedef struct btl_ib_udp_pending {
    btl_ib_udp_buffer_t *buffer;
    uint32_t at;     /* offset of the next datagram */
    uint32_t end;    /* offset behind the last */
    uint32_t size;   /* bytes of each but the last */
    uint32_t stride; /* bytes from one to the next */
} btl_ib_udp_pending_t;

/*
 * Long messages are kept in a socket's buffer after they were read, where their sender is on this
 * host (MSG_PEEK and SO_PEEK_OFF, socket(7)); the oldest are taken out once there are more than
 * sockets->keep_most, all of them when no long ones come any more.
 *
 * The kernel copies what is sent into the memory that was freed last. If that was read by this
 * processor just now, each line of it is still in this processor's cache and has to be fetched from
 * there: the copy takes three times as long. 1 MiB by bare sockets over lo, us: 204; with 2, 4, 8,
 * 12 messages of 64 KiB kept 179, 154, 124, 119 (tcp, which keeps what it sent until it is
 * acknowledged: 186).
 */
typedef struct btl_ib_udp_kept {
    bool on;              /* messages that come next are to be kept */
    uint32_t count;       /* kept messages */
    uint32_t empty_looks; /* looks that found nothing since the last message came */
    uint32_t short_calls; /* calls in a row that got short messages only */
} btl_ib_udp_kept_t;

/*
 * Finds out whether this thread has a processor of its own. If several take turns, one reads what
 * another wrote out of the same cache, and kept messages only make that overflow (alltoall of 256
 * KiB, four ranks on two cores: 1.1 to 1.25 of the time). A thread that polls and is alone has its
 * processor all the time.
 */
typedef struct btl_ib_udp_crowd {
    uint32_t messages; /* long messages that came */
    uint64_t at;       /* ns: when `cpu` was read */
    uint64_t cpu;      /* ns of a processor that the thread had had by then */
    pthread_t thread;  /* that read it: times of different threads say nothing */
    bool alone;        /* the answer; false at first */
} btl_ib_udp_crowd_t;

/* The arguments of a receiving call, which stay ready for the next. */
typedef struct btl_ib_udp_recv_call {
    struct mmsghdr msg[BTL_IB_UDP_RECV_BATCH];
    struct iovec iov[BTL_IB_UDP_RECV_BATCH];
    btl_ib_udp_name_t name[BTL_IB_UDP_RECV_BATCH];
    btl_ib_udp_buffer_t *buffer[BTL_IB_UDP_RECV_BATCH]; /* NULL: the last call filled it */
    /* The size of joined datagrams, a count of overflows, and a traffic class. */
    _Alignas(struct cmsghdr) uint8_t control[BTL_IB_UDP_RECV_BATCH][3 * CMSG_SPACE(sizeof(int))];
} btl_ib_udp_recv_call_t;

typedef struct btl_ib_udp_rx {
    const btl_ib_udp_log_t *log;
    uint32_t max_datagram;                         /* larger datagrams are dropped */
    uint64_t dropped;                              /* datagrams that were larger, or empty */
    btl_ib_transport_t *base;                      /* counts overflows and bursts of all sockets */
    uint32_t overflows_of[BTL_IB_UDP_SOCKETS_MAX]; /* as the kernel counts; wraps */
    btl_ib_udp_buffer_t *free;
    btl_ib_udp_buffer_t *made;              /* all buffers, free or handed up */
    uint32_t buffers;                       /* in `made` */
    uint32_t batch[BTL_IB_UDP_SOCKETS_MAX]; /* buffers of the next call, by socket; 0 is 1 */
    btl_ib_udp_kept_t kept[BTL_IB_UDP_SOCKETS_MAX];
    btl_ib_udp_crowd_t crowd;
    btl_ib_udp_recv_call_t call;
    btl_ib_udp_pending_t pending[BTL_IB_UDP_RECV_BATCH];
    uint32_t pending_first;
    uint32_t pending_count;
} btl_ib_udp_rx_t;

/* Initializes `rx`, which is all zero. */
static inline void btl_ib_udp_rx_init(btl_ib_udp_rx_t *rx, btl_ib_transport_t *base,
                                      const btl_ib_udp_log_t *log, uint32_t max_datagram)
{
    rx->base = base;
    rx->log = log;
    rx->max_datagram = max_datagram;
}

/* Forgets the sockets, as others took their place: the kernel counts overflows of those anew. */
static inline void btl_ib_udp_rx_rebound(btl_ib_udp_rx_t *rx)
{
    memset(rx->overflows_of, 0, sizeof(rx->overflows_of));
    memset(rx->kept, 0, sizeof(rx->kept));
}

/* Receives once from socket `index`, while nothing is pending. Returns whether anything came. */
bool btl_ib_udp_recv(btl_ib_udp_rx_t *rx, btl_ib_udp_sockets_t *sockets, uint32_t index,
                     btl_ib_udp_errors_t *errors);

/* Makes events of what was received. Returns how many. */
int btl_ib_udp_recv_events(btl_ib_udp_rx_t *rx, btl_ib_udp_peers_t *peers, btl_ib_event_t *events,
                           int max);

/* Takes buffers of events back. */
void btl_ib_udp_recv_repost(btl_ib_udp_rx_t *rx, void *const *buffers, int n);
void btl_ib_udp_rx_free(btl_ib_udp_rx_t *rx);

/* Takes kept messages out of the sockets' buffers: a process is about to sleep until there is
 * something in them. */
void btl_ib_udp_recv_release(btl_ib_udp_rx_t *rx, const btl_ib_udp_sockets_t *sockets,
                             btl_ib_udp_errors_t *errors);

#endif
