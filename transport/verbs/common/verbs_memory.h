/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Registration of memory, and what fork() does to it. */

#ifndef BTL_IB_VERBS_MEMORY_H
#define BTL_IB_VERBS_MEMORY_H

#include "verbs_port.h"

/*
 * Call this before any memory is registered. If it is wanted and the kernel needs it (before 5.12),
 * children of fork() no longer get registered pages: without that the first process to write to
 * such a page gets a copy, and the device keeps using the other one. So only whole pages may be
 * registered, with nothing else on them.
 */
void btl_ib_verbs_prepare_fork(const btl_ib_search_t *search);

/* Bytes of a page. */
uint32_t btl_ib_verbs_page(void);

/* mem_register() and mem_deregister() of btl_ib_transport_ops_t. The handle is a struct ibv_mr. */
int btl_ib_verbs_mem_register(btl_ib_transport_t *t, void *base, size_t size, void **handle);
void btl_ib_verbs_mem_deregister(btl_ib_transport_t *t, void *handle);

/* Map whole pages for receive buffers and register them to be written by the device, with further
 * IBV_ACCESS_ rights. Returns NULL after logging why; btl_ib_verbs_slab_free() frees both. */
void *btl_ib_verbs_slab_alloc(const btl_ib_verbs_t *verbs, size_t size, int access,
                              struct ibv_mr **mr);
void btl_ib_verbs_slab_free(void *base, struct ibv_mr *mr);

#endif
