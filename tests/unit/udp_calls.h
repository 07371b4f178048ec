/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The system calls of transport "udp", seen and spoilt: those of udp_calls.c stand before libc's.
 * And what it says in the log.
 */

#ifndef BTL_IB_TEST_UDP_CALLS_H
#define BTL_IB_TEST_UDP_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "transport.h"

/* ns: a time of the clock that no test reaches. */
#define LATER (UINT64_C(1) << 60)

typedef struct udp_calls {
    /* What they are to do. */
    bool no_gso, no_gro; /* the kernel knows no such option */
    bool no_busy_poll;   /* the process may not */
    int busy_poll;       /* us that a socket was given last */
    int send_error;      /* the next `send_failures` calls end with it */
    int send_failures;
    bool joined_only; /* only those with joined datagrams do */
    int recv_error;   /* the next call ends with it */
    int recv_refused; /* each call that receives a message ends with it */
    int mmsg_refused; /* sendmmsg() and recvmmsg() end with it */
    int joined_as;    /* the next call's datagrams came joined from such; 0: as they did */
    bool no_memory;   /* there is none for another buffer */
    int socket_error, option_error, reuse_error, bind_error, connect_error,
        epoll_error;          /* they end with it */
    uint32_t small_buffers;   /* bytes that sockets get, whatever they ask for; 0: that */
    void (*at_connect)(void); /* called before one */
    uint64_t now;             /* ns: what the clock says; 0: the time */
    uint64_t cpu;             /* ns: that this thread has had of a processor, unless that is 0 */
    /* What they did. */
    bool joins;        /* a socket has asked for UDP_GRO */
    uint32_t sends;    /* calls that sent something */
    uint32_t messages; /* in them */
    uint32_t named;    /* of those, the ones with a destination address */
    uint32_t largest;  /* bytes of one of them */
    uint32_t joined;   /* of those, the ones that were several datagrams */
    uint32_t pieces;   /* in how many pieces of memory those were */
    uint32_t receives; /* calls that received, or looked */
    uint32_t asks;     /* that asked which sockets have something */
    uint32_t connects;
    /* The log. */
    char heard[4096];
    int worst; /* the lowest level */
} udp_calls_t;

extern udp_calls_t calls;

/* All of it as if nothing had been. */
void forget_calls(void);

/* An open() whose log is heard. */
btl_ib_open_params_t heard_params(void);

/* The same, with a socket for bulk, and so many more for peers at most. */
btl_ib_open_params_t two_lanes(uint32_t connected_max);

/* Open a rail at the loopback device's IPv4 address `ip`, in a network of 16 bits. */
btl_ib_transport_t *open_at(const char *ip, btl_ib_open_params_t params);

/* Send to a peer, which takes it all in, until it must have a socket of its own if it may. */
void make_connected(btl_ib_transport_t *t, btl_ib_addr_t to, btl_ib_transport_t *peer);

/* The loopback device of an address family, whatever else it takes for a test, or the test is
 * skipped. */
void need_udp(sa_family_t family);

#endif
