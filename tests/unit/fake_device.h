/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the RDMA devices that are not there (fake_verbs.h for UD, fake_rdma.h for RC) have in
 * common: protection domains, completion queues and what they ring, and what a device says of
 * itself.
 */

#ifndef BTL_IB_TEST_FAKE_DEVICE_H
#define BTL_IB_TEST_FAKE_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* Of all kinds, made and not destroyed; events that were read and not acknowledged count, too. */
extern int fake_objects;

extern int fake_cqe; /* entries of the completion queue made last */

extern bool fake_poll_fails; /* completion queues cannot be read */
extern bool fake_no_rdma;    /* the kernel has no RDMA device */

/* Nothing was made, nothing said. The completion queues of `context` are those here. */
void fake_device_reset(void);
void fake_device_prepare(struct ibv_context *context);

/* A completion for the queue. When it is read *freed, if there is one, becomes `place`. One that
 * overflows fails the test: it ends all that use the queue. */
void fake_complete(struct ibv_cq *cq, const struct ibv_wc *wc, uint32_t *freed, uint32_t place);

/* The completions of a queue pair that were not read yet go with it, as with devices that clean
 * up. */
void fake_forget_completions(struct ibv_cq *cq, uint32_t qp_num);

/* The device has something to say of itself; what it had to say of that is no more; how much it has
 * to say. */
void fake_say(const struct ibv_async_event *event);
void fake_unsay(const void *element);
int fake_unheard(void);

#endif
