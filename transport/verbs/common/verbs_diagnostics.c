/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What keeps a device from being used, as somebody who can change it would call it. */

#include "verbs_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    V4_AT = 12, /* of an IPv4 address in a GID */
    GID_BITS = 128,
};

void btl_ib_verbs_trouble(const btl_ib_log_t *log, btl_ib_diagnostic_t what, const char *device,
                          const char *detail)
{
    if (log->diagnostic != NULL) {
        log->diagnostic(log->context, what, device, detail);
    }
}

void btl_ib_verbs_trouble_open(const btl_ib_log_t *log, const char *device, const char *file,
                               int error)
{
    char path[64];

    snprintf(path, sizeof(path), "/dev/infiniband/%.40s", file);
    const bool missing = error == ENOENT || error == ENXIO || error == ENODEV;
    /* libibverbs looks elsewhere when it may not open the file, and says what became of that. */
    const bool exists = access(path, F_OK) == 0;
    if (missing && !exists) {
        btl_ib_verbs_trouble(log, BTL_IB_DIAG_NO_FILES, device, path);
    } else if (missing || error == EACCES || error == EPERM) {
        btl_ib_verbs_trouble(log, BTL_IB_DIAG_NO_PERMISSION, device, path);
    }
}

/* Queues are locked memory, too, so that any call may fail for this. */
void btl_ib_verbs_trouble_memory(const btl_ib_log_t *log, const char *device, int error)
{
    struct rlimit limit;
    char text[32];

    if ((error == ENOMEM || error == EAGAIN) && getrlimit(RLIMIT_MEMLOCK, &limit) == 0
        && limit.rlim_cur != RLIM_INFINITY) {
        snprintf(text, sizeof(text), "%llu KiB", (unsigned long long) limit.rlim_cur / 1024);
        btl_ib_verbs_trouble(log, BTL_IB_DIAG_LOCKED_MEMORY, device, text);
    }
}

/* Do they begin with the same bits? */
static bool same_prefix(const union ibv_gid *a, const union ibv_gid *b, unsigned bits)
{
    const unsigned whole = bits / 8;
    const unsigned rest = bits % 8;

    return memcmp(a->raw, b->raw, whole) == 0
           && (rest == 0 || (a->raw[whole] ^ b->raw[whole]) >> (8 - rest) == 0);
}

/*
 * No packet has an IPv4 address on one end and IPv6 on the other. RoCE v2 goes wherever IP goes, which ibv_create_ah(3)
 * finds out; RoCE v1 stays on its link (IBA annex 16). On InfiniBand routers join subnets, but none that has the
 * prefix all subnets begin with (IBA 4.1.1, fe80::). A subnet of one host only: its mask was not to be had.
 */
bool btl_ib_verbs_reaches(const btl_ib_verbs_t *verbs, const union ibv_gid *gid)
{
    const btl_ib_verbs_gid_t *own = &verbs->gid;
    const bool v4 = btl_ib_verbs_gid_is_v4(gid);
    const unsigned bits = own->prefix_bits + (v4 ? V4_AT * 8u : 0u);

    if (v4 != btl_ib_verbs_gid_is_v4(&own->gid)) {
        return false;
    }
    if (own->type == IBV_GID_TYPE_ROCE_V2 || bits >= GID_BITS
        || same_prefix(gid, &own->gid, bits)) {
        return true;
    }
    return own->type == IBV_GID_TYPE_IB && !btl_ib_verbs_gid_is_local(gid)
           && !btl_ib_verbs_gid_is_local(&own->gid);
}

const char *btl_ib_verbs_gid_format(const union ibv_gid *gid, char *out, size_t len)
{
    const bool v4 = btl_ib_verbs_gid_is_v4(gid);

    snprintf(out, len, "?");
    (void) inet_ntop(v4 ? AF_INET : AF_INET6, gid->raw + (v4 ? V4_AT : 0), out, (socklen_t) len);
    return out;
}

void btl_ib_verbs_trouble_gid(const btl_ib_log_t *log, btl_ib_diagnostic_t what, const char *device,
                              const union ibv_gid *gid)
{
    char text[INET6_ADDRSTRLEN];

    btl_ib_verbs_trouble(log, what, device, btl_ib_verbs_gid_format(gid, text, sizeof(text)));
}

bool btl_ib_verbs_same_mtu(const btl_ib_verbs_t *verbs, uint8_t theirs)
{
    return theirs == 0 || theirs == verbs->port_attr.active_mtu;
}

void btl_ib_verbs_trouble_mtu(const btl_ib_verbs_t *verbs, uint8_t theirs, const char *peer)
{
    char text[96];

    snprintf(text, sizeof(text), "%s: %u bytes, here %u", peer, 128u << theirs,
             128u << verbs->port_attr.active_mtu);
    BTL_IB_VERBS_LOG(verbs, 1, "%s: the MTU of a peer is another: %s", verbs->base.name, text);
    btl_ib_verbs_trouble(&verbs->log, BTL_IB_DIAG_MTU, verbs->base.name, text);
}
