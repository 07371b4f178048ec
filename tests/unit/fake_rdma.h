/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * An RDMA device with its connection manager, all of it within one process and without a kernel:
 * the calls of libibverbs and librdmacm that transport "verbs" makes for RC stand in fake_rdma.c,
 * before the libraries' own. What one side posts is at the other at once; events wait until their
 * channel is asked. It is strict: a message without a buffer, an overflow of a completion queue,
 * memory out of bounds, or something left over fail the test.
 */

#ifndef BTL_IB_TEST_FAKE_RDMA_H
#define BTL_IB_TEST_FAKE_RDMA_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct fake_rdma {
    /* What it is to do. */
    bool iwarp;
    uint32_t inline_max; /* more is refused */
    uint32_t cqe_max;    /* largest completion queue */
    int wr_max;          /* requests of a queue pair */
    int srq_max;         /* shared receive queues */
    int post_left;       /* sends until one post fails with post_error; -1: none does */
    int post_error;
    bool post_silent;       /* that post does not say how far it came */
    int recv_error;         /* with which receive buffers are refused; 0: they are not */
    int qps_left;           /* queue pairs until making one fails; -1: never */
    int mrs_left;           /* the same of registrations */
    size_t mr_max;          /* bytes of a registration; more is refused. 0: any number */
    size_t mr_total;        /* bytes registered in all; the same */
    uint64_t mr_told;       /* mr_max, as it says */
    bool lose_requests;     /* they are never answered */
    bool lose_goodbyes;     /* the end of a connection is not heard by the other side */
    int way_error;          /* there is no way to any address */
    int spoil_reply;        /* a byte of it arrives as another; -1: none */
    int connect_error;      /* connecting ends with it */
    int establish_error;    /* the same of the last step */
    bool arrives_elsewhere; /* requests come by another device */
    bool other_device;      /* the way begins at another */
    bool hold_requests;     /* they do not arrive before fake_rdma_release() */
    bool no_limit;          /* it does not say when a shared queue runs low */
    bool never_last;        /* it does not say when a queue pair took its last shared buffer */
    bool port_down;
    bool ethernet; /* the port, whose table then has the address of the host */
    bool gid_gone; /* another stands there */
    uint16_t pkey; /* of the interface */
    int reads; /* and atomics that a queue pair takes at once, and asks for; more fail the test */
    enum ibv_atomic_cap atomics;
    /* The first so many requests of a queue pair lie at the other end unseen until one more comes,
     * as with soft-iWARP. */
    uint32_t unseen;
    bool hold_ops; /* operations on memory are done by fake_rdma_work() only */
    uint64_t now;  /* us: what clock_gettime() says, */
    uint64_t tick; /* later by so much each time */
    /* What there is. */
    int qps, mrs, ids;
    size_t mr_bytes; /* registered */
    /* What happened. */
    uint32_t regs, deregs, reg_failures; /* of memory */
    uint32_t requests, rejects, accepts, disconnects;
    uint32_t posts;       /* calls of ibv_post_send() */
    uint32_t writes;      /* of RDMA */
    uint32_t read;        /* the same */
    uint32_t completions; /* of sends */
    uint32_t waited;      /* calls that a real device would have made wait */
    /* What it was told last. */
    struct ibv_qp_cap cap; /* of a queue pair */
    uint8_t rnr_timer;     /* of one */
    uint8_t level;         /* service level of one, */
    int levels;            /* and of how many it was told */
    uint8_t port_mtu;      /* of ports that are opened: enum ibv_mtu; 0: IBV_MTU_4096 */
    uint8_t mtu[4];        /* path MTUs that the last queue pairs were told, enum ibv_mtu */
    uint8_t tos, asked_timeout, accepted_timeout;
    struct rdma_conn_param asked, accepted; /* without private data */
} fake_rdma_t;

extern fake_rdma_t fake;

/* As if nothing had been. */
void fake_rdma_reset(void);

/* The queue pair of one end fails: all that is posted comes back with this status, and the other
 * end with it. */
void fake_rdma_break(uint32_t qp_num, enum ibv_wc_status status);

/* The same of one end, of which the other hears nothing. */
void fake_rdma_fail(uint32_t qp_num, enum ibv_wc_status status);

/* The number of the queue pair made last. */
uint32_t fake_rdma_last_qp(void);

void fake_rdma_release(void);

/* The rights to the memory of that key. */
int fake_rdma_access(uint32_t key);

/* Do up to `n` operations that are held. Returns how many there were. */
int fake_rdma_work(int n);

/* Buffers posted to what queue pairs share, and to one of them. */
uint32_t fake_rdma_posted(const struct ibv_srq *srq);
uint32_t fake_rdma_posted_own(const struct ibv_qp *qp);

/* A process that is none of ours asks to connect to that port with these bytes. Returns its id. */
struct rdma_cm_id *fake_rdma_intrude(struct rdma_event_channel *channel, uint16_t port,
                                     const void *bytes, uint8_t len);

/* The device of a listener is taken away. */
void fake_rdma_remove(struct rdma_cm_id *listener);

#endif
