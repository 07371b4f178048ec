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
 * buffer may hold many datagrams of one size from one peer, the last of which may be shorter
 * (UDP_GRO, udp(7)). Each event is one datagram. A buffer is free when all its datagrams were
 * reposted.
 */

enum {
    BTL_IB_UDP_RECV_BATCH = 16,    /* buffers that one call fills at most */
    BTL_IB_UDP_BUFFERS_MAX = 1024, /* buffers, free ones and those with received datagrams */
    BTL_IB_UDP_RECV_BYTES = 65536, /* bytes that one call reads into a buffer at most */
    BTL_IB_UDP_BUFFER = BTL_IB_UDP_RECV_BYTES + 1024, /* room to move datagrams apart, to 8 */
};

/* A buffer that one message of a receiving call fills. */
typedef struct btl_ib_udp_buffer {
    struct btl_ib_udp_buffer *next;      /* in the list of free buffers */
    struct btl_ib_udp_buffer *next_made; /* in the list of all */
    uint32_t users; /* events not reposted yet, and one more while it has datagrams pending */
    btl_ib_udp_name_t name; /* the sender, as peers know it */
    uint8_t codepoint;      /* btl_ib_codepoint_t of all datagrams in it */
    bool latency; /* received by the latency lane: the sender's true port is one further */
    _Alignas(64) uint8_t data[BTL_IB_UDP_BUFFER];
} btl_ib_udp_buffer_t;

/* Datagrams in a buffer of which no event was made yet. */
typedef struct btl_ib_udp_pending {
    btl_ib_udp_buffer_t *buffer;
    uint32_t at;     /* offset of the next datagram */
    uint32_t end;    /* offset behind the last */
    uint32_t size;   /* bytes of each but the last */
    uint32_t stride; /* bytes from one to the next */
} btl_ib_udp_pending_t;

/*
 * Long messages from senders of this host stay in the socket's buffer after they were read
 * (MSG_PEEK and SO_PEEK_OFF, socket(7)). The oldest are taken out when more than
 * sockets->keep_most are kept; all of them when no long ones arrive any more.
 *
 * Why: the kernel copies what is sent into the memory that was freed last. If the receiver has just
 * read that memory, its lines are in the cache of the receiver's processor, and the sender's has to
 * fetch them from there: the copy takes three times as long. 1 MiB by bare sockets over lo takes
 * 204 us; with 2, 4, 8, 12 messages of 64 KiB kept 179, 154, 124, 119 (tcp, which keeps what it
 * sent until it is acknowledged: 186).
 */
typedef struct btl_ib_udp_kept {
    bool on;              /* the next call leaves its messages in the socket's buffer */
    uint32_t count;       /* kept messages */
    uint32_t empty_looks; /* looks that found nothing since the last message arrived */
    uint32_t short_calls; /* calls in a row that got short messages only */
} btl_ib_udp_kept_t;

/*
 * Finds out whether this thread has a processor of its own. If several threads take turns on one,
 * sender and receiver share its cache, and kept messages only make that overflow (alltoall of 256
 * KiB, four ranks on two cores: 1.1 to 1.25 of the time). A thread that polls gets processor time
 * all the time if it is alone.
 */
typedef struct btl_ib_udp_crowd {
    uint32_t messages; /* long messages that arrived */
    uint64_t at;       /* ns: when `cpu` was read */
    uint64_t cpu;      /* ns: processor time of the thread at that moment */
    pthread_t thread;  /* that read `cpu`: times of different threads cannot be compared */
    bool alone;        /* the answer; false at first */
} btl_ib_udp_crowd_t;

/* The arguments of a receiving call. What a call did not fill stays ready for the next one. */
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
    uint32_t overflows_of[BTL_IB_UDP_SOCKETS_MAX]; /* the kernel's count for each socket; wraps */
    btl_ib_udp_buffer_t *free;
    btl_ib_udp_buffer_t *made;              /* all buffers, free or not */
    uint32_t buffers;                       /* number of buffers in `made` */
    uint32_t batch[BTL_IB_UDP_SOCKETS_MAX]; /* buffers for the next call, by socket; 0 is 1 */
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

/* Forgets the state of sockets, which were replaced by new ones. */
static inline void btl_ib_udp_rx_rebound(btl_ib_udp_rx_t *rx)
{
    memset(rx->overflows_of, 0, sizeof(rx->overflows_of));
    memset(rx->kept, 0, sizeof(rx->kept));
}

/* Receives from socket `index` by one call, while nothing is pending. Returns whether anything
 * arrived; a failure of the call is noted in `errors`. */
bool btl_ib_udp_recv(btl_ib_udp_rx_t *rx, btl_ib_udp_sockets_t *sockets, uint32_t index,
                     btl_ib_udp_errors_t *errors);

/* Makes events of what is pending, at most `max`. Returns how many. */
int btl_ib_udp_recv_events(btl_ib_udp_rx_t *rx, btl_ib_udp_peers_t *peers, btl_ib_event_t *events,
                           int max);

/* Takes the buffers of `n` events back. */
void btl_ib_udp_recv_repost(btl_ib_udp_rx_t *rx, void *const *buffers, int n);
void btl_ib_udp_rx_free(btl_ib_udp_rx_t *rx);

/* Takes kept messages out of the sockets' buffers. Called before a process sleeps until a socket is
 * readable, which it is while it keeps messages. */
void btl_ib_udp_recv_release(btl_ib_udp_rx_t *rx, const btl_ib_udp_sockets_t *sockets,
                             btl_ib_udp_errors_t *errors);

#endif
