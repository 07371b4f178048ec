/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * RDMA devices that are not there: the calls of libibverbs that transport verbs makes, by a program
 * that has queue pairs, completions and buffers in memory. What is sent arrives at once, at the
 * queue pair of that number. Everything can be made to fail, and is counted.
 */

#ifndef BTL_IB_TEST_FAKE_VERBS_H
#define BTL_IB_TEST_FAKE_VERBS_H

#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct fake_port {
    struct ibv_port_attr attr;
    struct ibv_gid_entry gid[4];
    int gids;
    uint16_t pkey[4];
} fake_port_t;

typedef struct fake_device {
    const char *name;
    enum ibv_transport_type transport;
    int ports;
    fake_port_t port[2];
} fake_device_t;

typedef struct fake {
    fake_device_t device[2];
    int devices;
    int max_qp_wr;
    uint32_t inline_max;

    /* What is to go wrong. */
    int take;       /* requests that post_send takes until told otherwise; -1: all */
    int fail_at;    /* the request that fails, counted from 1; 0: none */
    bool hold;      /* sends complete only when fake_release() says so */
    bool lose;      /* nothing arrives */
    int list_error; /* errnos of calls */
    int open_error;
    int reg_error;
    int ah_error;
    int post_error;       /* with which post_send refuses what it does not take */
    int mend_error;       /* of a queue pair that failed */
    int recv_take;        /* buffers that post_recv takes until told otherwise; -1: all */
    int recv_error;       /* with which it refuses others */
    uint32_t inline_next; /* inline_max of queue pairs after the next; 0: the same */

    /* What was done. */
    int posts, requests, signaled, inlined;
    int recv_posts, recv_requests;
    int dropped; /* for want of a buffer, or a wrong Q_Key */
    int handles; /* address handles made */
    int pulled;  /* requests that were not over when their handle was destroyed */
    int regs;
    int fork_inits;
    int lists;             /* of devices, asked for */
    uint16_t pkey_index;   /* of the last queue pair */
    struct ibv_ah_attr ah; /* of the last one */
    struct ibv_qp_cap cap; /* of the last queue pair, as it was asked for */
} fake_t;

extern fake_t fake;

/* The interfaces of the host: a list that the test made, NULL: none. */
extern struct ifaddrs *fake_interfaces;

/* One device "rxe0" with one active port on Ethernet, addresses fe80::1 and ::ffff:10.0.0.1. */
void fake_reset(void);
void fake_gid(fake_port_t *port, const char *ip, uint32_t type);

/* Sends that were held complete. */
void fake_release(void);

/* A queue pair fails: its receive buffers come back unused. */
void fake_break(uint32_t qpn);

/* The device has something to say. */
void fake_event(enum ibv_event_type type, int port);

/* Somebody else's datagram for queue pair `qpn`, from queue pair `from` of the host `ip`; of `size`
 * bytes, of which the device says that they are `told` with the GRH. */
void fake_arrive(uint32_t qpn, uint32_t from, const char *ip, const void *data, uint32_t size,
                 uint32_t told, enum ibv_wc_status status);

/* Buffers posted at queue pair `qpn`. */
uint32_t fake_posted(uint32_t qpn);

#endif
