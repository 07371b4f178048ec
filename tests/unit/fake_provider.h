/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A libfabric provider that nobody has. fi_getinfo() and fi_fabric() of fake_provider.c stand
 * before those of libfabric, and getifaddrs() before that of libc. After cmocka.h.
 */

#ifndef BTL_IB_TEST_FAKE_PROVIDER_H
#define BTL_IB_TEST_FAKE_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#include "unit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    LARGEST = 200, /* bytes of a datagram */
    INJECT = 64,
    QUEUE = 32, /* of everything; a power of two */
    ENDPOINTS = 10,
};

/* What the provider is like, and what it is to do next. */
typedef struct fake {
    bool tx_prefix, rx_prefix, local, context, source;
    size_t prefix;
    bool cuts;        /* reports a datagram that was cut as whole, as udp does */
    int no_room;      /* so many receives are not taken */
    int recv_error;   /* of the next receive */
    int send_error;   /* of the next send's completion */
    int refuse_error; /* of the next send itself */
    int no_endpoint;  /* endpoints that are made before one fails; 0: none fails */
    bool unlike;      /* names of endpoints differ in all their bytes */
    size_t cq_size;   /* of the completion queue that was made last */
    int reads;        /* of completion queues */
} fake_t;

extern fake_t fake;

extern int live; /* objects that were not closed */

/* What it finds. */
typedef struct offer {
    const char *provider, *domain, *nic, *ip;
} offer_t;

extern const offer_t *offers;
extern size_t offer_count;

typedef struct item {
    uint8_t *data;
    size_t size;
    void *context;
    uint64_t flags;
    fi_addr_t from;
    int error;
    uint8_t copy[LARGEST * 2];
} item_t;

typedef struct queue {
    item_t item[QUEUE];
    unsigned head, tail;
} queue_t;

static inline bool is_empty(const queue_t *q)
{
    return q->head == q->tail;
}

static inline item_t *push(queue_t *q)
{
    item_t *item = &q->item[q->tail++ % QUEUE];

    assert_in_range(q->tail - q->head, 1, QUEUE);
    memset(item, 0, sizeof(*item));
    return item;
}

static inline item_t *pop(queue_t *q)
{
    assert_false(is_empty(q));
    return &q->item[q->head++ % QUEUE];
}

/* By index. A datagram lies on the wire until the receiver reads its completion queue. */
struct endpoint {
    struct fid_ep fid;
    bool open;
    fi_addr_t index;
    const struct fid_cq *cq;
    queue_t posted, wire, done;
};

extern struct endpoint endpoints[ENDPOINTS];

#endif
