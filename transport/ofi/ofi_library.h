/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Calls of libfabric, which is loaded when it is needed. (Its other functions are inline, and call
 * through tables of its objects.) */

#ifndef BTL_IB_OFI_LIBRARY_H
#define BTL_IB_OFI_LIBRARY_H

#include "btl_ib_library.h"

#define BTL_IB_OFI_CALLS(X)                                                                        \
    X(struct fi_info *, fi_dupinfo, (const struct fi_info *info), (info))                          \
    X(int, fi_fabric, (struct fi_fabric_attr * attr, struct fid_fabric * *fabric, void *context),  \
      (attr, fabric, context))                                                                     \
    X(void, fi_freeinfo, (struct fi_info * info), (info))                                          \
    X(int, fi_getinfo,                                                                             \
      (uint32_t version, const char *node, const char *service, uint64_t flags,                    \
       const struct fi_info *hints, struct fi_info **info),                                        \
      (version, node, service, flags, hints, info))                                                \
    X(const char *, fi_strerror, (int error), (error))                                             \
    X(uint32_t, fi_version, (void), ())

BTL_IB_OFI_CALLS(BTL_IB_LIBRARY_RENAME)

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

/* Loads libfabric, as btl_ib_library_load() does. */
bool btl_ib_ofi_load(char *why, size_t len);

/* library() of btl_ib_transport_type_t. */
void btl_ib_ofi_library(bool load, char *out, size_t len);

#endif
