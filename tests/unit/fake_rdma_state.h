/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What fake_rdma.c, the device, and fake_rdma_cm.c, its connection manager, share. */

#ifndef BTL_IB_TEST_FAKE_RDMA_STATE_H
#define BTL_IB_TEST_FAKE_RDMA_STATE_H

#include "fake_device.h"
#include "fake_rdma.h"

typedef struct recv {
    struct recv *next;
    uint64_t wr_id;
    struct ibv_sge sge;
} recv_t;

typedef struct recv_queue {
    recv_t *first;
    uint32_t count;
} recv_queue_t;

/* An operation on memory that is not done yet, or was done but for its bytes. */
typedef struct fake_op {
    struct fake_op *next;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    uint32_t number;
    uint8_t *bytes; /* to be written */
} fake_op_t;

typedef struct fake_mr {
    struct ibv_mr mr; /* first */
    struct fake_mr *next;
    int access;
} fake_mr_t;

typedef struct fake_qp {
    struct ibv_qp qp; /* first */
    struct fake_qp *next;
    struct fake_qp **at; /* what points to it */
    struct fake_qp *peer;
    recv_queue_t posted;
    uint32_t room;   /* of the send queue */
    uint32_t pieces; /* of a send request */
    uint32_t sent;   /* in all, */
    uint32_t over;   /* of them, as far as a completion said so */
    uint64_t last_id;
    fake_op_t *held;     /* in order */
    fake_op_t *unplaced; /* writes whose bytes are still on their way */
    int reads;           /* held */
    int reads_max;
    bool broken;
} fake_qp_t;

extern struct ibv_device fake_device;
extern struct ibv_context fake_context;

/* The queue pair of that number. */
fake_qp_t *fake_rdma_qp(uint32_t qp_num);

/* The memory of that key, NULL: there is none. */
fake_mr_t *fake_rdma_mr(uint32_t key);

/* Our own memory must be as good as that. */
void fake_rdma_check_memory(uint32_t key, uint64_t at, uint32_t len, int access);

/* Do what was posted: `number` of all of that queue pair. */
void fake_rdma_execute(fake_qp_t *qp, const struct ibv_send_wr *wr, uint32_t number);

/* ---- fake_rdma_ops.c ---- */

/* Is that one to be done later? Then it is kept. */
bool fake_rdma_hold(fake_qp_t *qp, const struct ibv_send_wr *wr, uint32_t number);

/* Write, read, atomic: done, or what is wrong with it. */
enum ibv_wc_status fake_rdma_operate(fake_qp_t *qp, const struct ibv_send_wr *wr);

/* Do the oldest one that is kept. Returns whether there was any. */
bool fake_rdma_next_op(fake_qp_t *qp);

/* What is held or unplaced comes to nothing. */
void fake_rdma_drop_ops(fake_qp_t *qp);

/* A queue pair ends: what is posted comes back with `status`, if that is an error of its own, and
 * else as flushed. */
void fake_rdma_flush(fake_qp_t *qp, enum ibv_wc_status status);

#endif
