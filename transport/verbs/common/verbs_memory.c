/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs_diagnostics.h"

void btl_ib_verbs_prepare_fork(const btl_ib_search_t *search)
{
    int rc;

    if (search->fork_safe && ibv_is_fork_initialized() == IBV_FORK_DISABLED
        && (rc = ibv_fork_init()) != 0 && search->log.print != NULL) {
        search->log.print(search->log.context, 1,
                          "verbs: a child of fork() may spoil what devices send: ibv_fork_init: %s",
                          strerror(rc));
    }
}

uint32_t btl_ib_verbs_page(void)
{
    return (uint32_t) sysconf(_SC_PAGESIZE);
}

int btl_ib_verbs_mem_register(btl_ib_transport_t *t, void *base, size_t size, void **handle)
{
    const btl_ib_verbs_t *verbs = (const btl_ib_verbs_t *) t;

    *handle = ibv_reg_mr(verbs->pd, base, size, IBV_ACCESS_LOCAL_WRITE);
    return *handle != NULL ? 0 : btl_ib_verbs_failed(verbs, "ibv_reg_mr", errno);
}

void btl_ib_verbs_mem_deregister(btl_ib_transport_t *t, void *handle)
{
    (void) t;
    if (handle != NULL) {
        (void) ibv_dereg_mr(handle);
    }
}

void *btl_ib_verbs_slab_alloc(const btl_ib_verbs_t *verbs, size_t size, int access,
                              struct ibv_mr **mr)
{
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED) {
        (void) btl_ib_verbs_failed(verbs, "mmap", errno);
        return NULL;
    }
    *mr = ibv_reg_mr(verbs->pd, base, size, IBV_ACCESS_LOCAL_WRITE | access);
    if (*mr == NULL) {
        (void) btl_ib_verbs_failed(verbs, "ibv_reg_mr", errno);
        (void) munmap(base, size);
        return NULL;
    }
    return base;
}

void btl_ib_verbs_slab_free(void *base, struct ibv_mr *mr)
{
    const size_t size = mr->length;

    (void) ibv_dereg_mr(mr);
    (void) munmap(base, size);
}
