/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_rdma_ops.h"

#include <errno.h>
#include <string.h>

#include "verbs_memory.h"
#include "verbs_rc_cm_connect.h"
#include "verbs_rc_cm_lifecycle.h"
#include "verbs_rc_rail.h"

enum {
    ATOMIC = 8, /* bytes */
    /* Bytes that Linux's soft-iWARP may copy into the packet's header, at most (32), and some more;
     * its smallest page. */
    SHORT_READ = 64,
    PAGE = 4096,
};

static int expose(btl_ib_transport_t *t, void *base, size_t size, unsigned access, void **handle,
                  uint32_t *key)
{
    const btl_ib_rc_port_t *port = &btl_ib_rc_of(t)->port;
    /* Memory that the process itself may only read can be a source, and be read by peers. Rights of
     * peers to change it demand that of the device (ibv_reg_mr(3)). */
    const unsigned changes = BTL_IB_RDMA_READ_INTO | BTL_IB_RDMA_MAY_WRITE | BTL_IB_RDMA_MAY_ATOMIC;
    unsigned flags = access == 0 || (access & changes) != 0 ? IBV_ACCESS_LOCAL_WRITE : 0;

    if ((access & BTL_IB_RDMA_MAY_ATOMIC) != 0
        && t->attr.rdma_atomics == BTL_IB_RDMA_ATOMICS_NONE) {
        return -EOPNOTSUPP;
    }
    /* What iWARP reads is written by the other side, as far as rights go (RFC 5040, 3.2). */
    const bool sink = port->iwarp && (access == 0 || (access & BTL_IB_RDMA_READ_INTO) != 0);
    if ((access & BTL_IB_RDMA_MAY_WRITE) != 0 || sink) {
        flags |= IBV_ACCESS_REMOTE_WRITE;
    }
    if ((access & BTL_IB_RDMA_MAY_READ) != 0) {
        flags |= IBV_ACCESS_REMOTE_READ;
    }
    if ((access & BTL_IB_RDMA_MAY_ATOMIC) != 0) {
        flags |= IBV_ACCESS_REMOTE_ATOMIC;
    } else if (port->relaxed) {
        flags |= IBV_ACCESS_RELAXED_ORDERING;
    }
    struct ibv_mr *mr = ibv_reg_mr(port->verbs.pd, base, size, flags);
    if (mr == NULL) { /* the engine has another way, so there is no help text for it */
        const int error = errno;
        BTL_IB_VERBS_LOG(&port->verbs, 10, "%s: %zu bytes cannot be registered: %s", t->name, size,
                         strerror(error));
        return -error;
    }
    *handle = mr;
    *key = mr->rkey;
    return 0;
}

static void cancel(btl_ib_transport_t *t, btl_ib_addr_t to)
{
    btl_ib_rc_peers_t *peers = &btl_ib_rc_of(t)->peers;

    btl_ib_rc_peer_cancel_rdma(peers, peers->peer[to]);
}

/* Soft-iWARP answers a short read of what lies on two pages with wrong bytes: its siw_try_1seg()
 * takes what lies on the second for the length of what lies on the first (Linux 6.1). Few reads are
 * such, so no other iWARP device is told from it. */
static bool is_corrupted(const btl_ib_rc_port_t *port, const btl_ib_rdma_work_t *work)
{
    return port->iwarp && work->kind == BTL_IB_RDMA_READ && work->size <= SHORT_READ
           && work->remote % PAGE + work->size > PAGE;
}

static int check(const btl_ib_rc_port_t *port, const btl_ib_rdma_work_t *work)
{
    const btl_ib_transport_attr_t *attr = &port->verbs.base.attr;

    if (work->kind == BTL_IB_RDMA_ADD || work->kind == BTL_IB_RDMA_CSWAP) {
        if (attr->rdma_atomics == BTL_IB_RDMA_ATOMICS_NONE) {
            return -EOPNOTSUPP;
        }
        return work->size == ATOMIC && work->remote % ATOMIC == 0 ? 0 : -EINVAL;
    }
    const uint64_t most = work->mem != NULL ? attr->rdma_max : attr->rdma_copied;
    return work->size > 0 && work->size <= most ? 0 : -EINVAL;
}

static int start(btl_ib_transport_t *t, const btl_ib_rdma_work_t *work)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);
    int error = check(&rc->port, work);
    int broken;

    if (error != 0) {
        return error;
    }
    if (rc->state.error != 0 || rc->state.down) {
        return -ENETDOWN;
    }
    if (is_corrupted(&rc->port, work)) {
        return -EOPNOTSUPP;
    }
    btl_ib_rc_conn_t *conn = btl_ib_rc_cm_conn(rc, work->to, BTL_IB_RC_RDMA_CHANNEL, &error);
    if (conn == NULL) {
        return -error;
    }
    error = btl_ib_rc_rdma_post(conn->rdma, work, &broken);
    if (broken != 0) {
        btl_ib_rc_cm_broke(rc, conn, strerror(broken));
    }
    return error;
}

const btl_ib_rdma_ops_t btl_ib_rc_rdma_ops = {
    .expose = expose,
    .withdraw = btl_ib_verbs_mem_deregister,
    .start = start,
    .cancel = cancel,
};
