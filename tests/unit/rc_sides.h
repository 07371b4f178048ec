/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the tests of transport "verbs" over RC have in common: processes that send to each other,
 * all of them in this one, on a device that is none (fake_rdma.h). Whatever can go wrong in these
 * functions fails the test.
 */

#ifndef BTL_IB_TEST_RC_SIDES_H
#define BTL_IB_TEST_RC_SIDES_H

#include "fake_device.h"
#include "fake_rdma.h"
#include "rc_inside.h"

enum {
    SIDES = 3,
    MEMORY = 64 * 4096,
    HELD_MAX = 256,
    SMALL = 64, /* bytes: inline */
    LONG = 1000,
    SIZE_0 = 256, /* of queues */
    SIZE_1 = 4096,
    NUM = 16,
    RESERVE = 4,
};

/* What became of an operation on memory: the context of its event. */
typedef struct op {
    int events;
    int error;
} op_t;

/* One process. */
typedef struct side {
    btl_ib_transport_t *t;
    uint8_t *memory;
    void *mem;
    btl_ib_addr_t to[SIDES];
    uint32_t next;  /* number of the next datagram, */
    uint32_t spare; /* which leaves so many buffers to control traffic */
    bool keeps;     /* buffers are not given back */
    void *held[HELD_MAX];
    const uint8_t *held_data;
    int held_count;
    int received, sent, broken, refused, failed, down, up;
    int error;          /* with which it failed */
    btl_ib_addr_t from; /* of the last datagram */
    uint32_t last;      /* its number */
    uint32_t disorder;
} side_t;

extern side_t sides[SIDES];
extern int look_at_most;            /* events of one look, up to 32 */
extern btl_ib_open_params_t params; /* of the next one to be opened */

/* The connection of `i` with `j`; the queue pair of one that there is. */
rc_conn_t conn_of(int i, int j, uint8_t channel);
uint32_t qp_of(int i, int j, uint8_t channel);

/* What open() of a side returns; a side that is open has its memory registered. */
int try_open(int i);
void open_side(int i);
void close_side(int i);

/* `i` knows `j`, and no more. */
void add(int i, int j);
void forget(int i, int j);

/* Sides 0 and 1 are open and know each other. At the end nothing is left of anything. */
int set_up(void **state);
int tear_down(void **state);

/* One look of a process. Returns how many events there were. */
int look(int i);

/* All look until nothing comes for longer than the connection manager is left alone. */
void settle(void);

/* Where datagram `number` is sent from. */
uint8_t *slot(const side_t *side, uint32_t number);

/* Send `n` datagrams with one call. Returns how many were taken. */
int send_row(int i, int j, uint32_t size, uint8_t channel, int n, int *error);

/* Send one. Returns 0 or why it was not taken. */
int send_one(int i, int j, uint32_t size, uint8_t channel);

/* Connected by `i`; one datagram got through. */
void connect_sides(int i, int j, uint8_t channel);

#define RC_TEST(name) TEST_WITH(name, set_up, tear_down)

#endif
