/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_cq.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "verbs_diagnostics.h"

enum { FIRST_ENTRIES = 4096 };

int btl_ib_rc_cqs_open(btl_ib_rc_cqs_t *cqs, const btl_ib_rc_port_t *port, uint32_t first,
                       int other_fd)
{
    cqs->port = port;
    cqs->first = first != 0 ? first : FIRST_ENTRIES;
    cqs->saved_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (cqs->saved_fd < 0) {
        return btl_ib_verbs_failed(&port->verbs, "eventfd", errno);
    }
    const int others[] = {cqs->saved_fd, other_fd};
    return btl_ib_verbs_comp_open(&cqs->comp, &port->verbs, others, 2);
}

void btl_ib_rc_cqs_close(btl_ib_rc_cqs_t *cqs)
{
    while (cqs->count > 0) {
        (void) ibv_destroy_cq(cqs->cq[--cqs->count].cq);
    }
    btl_ib_verbs_comp_close(&cqs->comp);
    if (cqs->port != NULL && cqs->saved_fd >= 0) {
        (void) close(cqs->saved_fd);
    }
}

static btl_ib_rc_cq_t *create(btl_ib_rc_cqs_t *cqs, uint32_t entries)
{
    const btl_ib_verbs_t *verbs = &cqs->port->verbs;
    const uint64_t most = (uint64_t) verbs->device.max_cqe;
    uint64_t size = (uint64_t) cqs->first << cqs->count;
    btl_ib_rc_cq_t *cq = &cqs->cq[cqs->count];

    entries += cqs->shared_entries;
    size = size > most ? most : size;
    size = size < entries ? entries : size;
    if (cqs->count == BTL_IB_RC_CQ_MAX || size > most) {
        (void) btl_ib_verbs_failed(verbs, "completion queues", ENOSPC);
        return NULL;
    }
    cq->cq = ibv_create_cq(verbs->context, (int) size, NULL, cqs->comp.channel, 0);
    if (cq->cq == NULL) {
        (void) btl_ib_verbs_failed(verbs, "ibv_create_cq", errno);
        return NULL;
    }
    cq->free = (uint32_t) size - cqs->shared_entries;
    cq->leaving = 0;
    cqs->count++;
    return cq;
}

btl_ib_rc_cq_t *btl_ib_rc_cq_reserve(btl_ib_rc_cqs_t *cqs, uint32_t entries)
{
    uint32_t i = 0;

    while (i < cqs->count && cqs->cq[i].free < entries) {
        i++;
    }
    btl_ib_rc_cq_t *cq = i < cqs->count ? &cqs->cq[i] : create(cqs, entries);
    if (cq != NULL) {
        cq->free -= entries;
    }
    return cq;
}

void btl_ib_rc_cqs_save(btl_ib_rc_cqs_t *cqs, const struct ibv_wc *wc, int count)
{
    assert(cqs->saved_count == 0);
    memcpy(cqs->saved, wc, (size_t) count * sizeof(*wc));
    cqs->saved_first = 0;
    cqs->saved_count = (uint32_t) count;
}

void btl_ib_rc_cqs_saved_done(btl_ib_rc_cqs_t *cqs, int count)
{
    uint64_t value;

    cqs->saved_first += (uint32_t) count;
    cqs->saved_count -= (uint32_t) count;
    if (cqs->saved_count == 0) {
        (void) !read(cqs->saved_fd, &value, sizeof(value));
    }
}

int btl_ib_rc_cqs_arm(btl_ib_rc_cqs_t *cqs)
{
    const uint64_t one = 1;

    (void) btl_ib_verbs_comp_read(&cqs->comp);
    for (uint32_t i = 0; i < cqs->count; i++) {
        if (ibv_req_notify_cq(cqs->cq[i].cq, 0) != 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < cqs->count && cqs->saved_count == 0; i++) {
        const int n = ibv_poll_cq(cqs->cq[i].cq, BTL_IB_RC_BATCH, cqs->saved);
        cqs->saved_first = 0;
        cqs->saved_count = n > 0 ? (uint32_t) n : 0;
    }
    if (cqs->saved_count > 0) {
        (void) !write(cqs->saved_fd, &one, sizeof(one));
    }
    return cqs->comp.fd;
}

bool btl_ib_rc_cqs_has(const btl_ib_rc_cqs_t *cqs, const struct ibv_cq *cq)
{
    uint32_t i = 0;

    while (i < cqs->count && cqs->cq[i].cq != cq) {
        i++;
    }
    return i < cqs->count;
}
