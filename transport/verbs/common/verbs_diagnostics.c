/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_diagnostics.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void btl_ib_verbs_diag(const btl_ib_log_t *log, btl_ib_diagnostic_t what, const char *device,
                       const char *detail)
{
    if (log->diagnostic != NULL) {
        log->diagnostic(log->context, what, device, detail);
    }
}

/* Queues are locked memory as well, so any call may fail for the limit. */
static void check_memory_limit(const btl_ib_verbs_t *verbs, int error)
{
    struct rlimit limit;
    char text[32];

    if ((error == ENOMEM || error == EAGAIN) && getrlimit(RLIMIT_MEMLOCK, &limit) == 0
        && limit.rlim_cur != RLIM_INFINITY) {
        snprintf(text, sizeof(text), "%llu KiB", (unsigned long long) limit.rlim_cur / 1024);
        btl_ib_verbs_diag(&verbs->log, BTL_IB_DIAG_LOCKED_MEMORY, verbs->base.name, text);
    }
}

int btl_ib_verbs_failed(const btl_ib_verbs_t *verbs, const char *call, int error)
{
    error = error != 0 ? error : EIO;
    BTL_IB_VERBS_LOG(verbs, 1, "%s: %s: %s", verbs->base.name, call, strerror(error));
    check_memory_limit(verbs, error);
    return -error;
}

void btl_ib_verbs_diag_open(const btl_ib_log_t *log, const char *device, const char *file,
                            int error)
{
    char path[64];

    snprintf(path, sizeof(path), "/dev/infiniband/%.40s", file);
    const bool missing = error == ENOENT || error == ENXIO || error == ENODEV;
    /* If libibverbs may not open the file it looks elsewhere, and returns the error of that. */
    if (missing && access(path, F_OK) != 0) {
        btl_ib_verbs_diag(log, BTL_IB_DIAG_NO_FILES, device, path);
    } else if (missing || error == EACCES || error == EPERM) {
        btl_ib_verbs_diag(log, BTL_IB_DIAG_NO_PERMISSION, device, path);
    }
}

void btl_ib_verbs_diag_gid(const btl_ib_verbs_t *verbs, btl_ib_diagnostic_t what,
                           const union ibv_gid *gid)
{
    char text[INET6_ADDRSTRLEN];

    btl_ib_verbs_diag(&verbs->log, what, verbs->base.name,
                      btl_ib_verbs_gid_format(gid, text, sizeof(text)));
}

void btl_ib_verbs_check_mtu(const btl_ib_verbs_t *verbs, uint8_t theirs, const char *peer)
{
    const uint8_t ours = verbs->mtu;
    char text[96];

    if (theirs == 0 || theirs == ours) {
        return;
    }
    snprintf(text, sizeof(text), "%s: %u bytes, here %u", peer, btl_ib_verbs_mtu_bytes(theirs),
             btl_ib_verbs_mtu_bytes(ours));
    BTL_IB_VERBS_LOG(verbs, 1, "%s: the MTU of a peer is another: %s", verbs->base.name, text);
    btl_ib_verbs_diag(&verbs->log, BTL_IB_DIAG_MTU, verbs->base.name, text);
}
