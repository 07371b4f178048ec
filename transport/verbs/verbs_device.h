/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* RDMA devices: the list of them, the addresses (GIDs) of their ports, registration of memory,
 * what went wrong, and what ports refused. */

#ifndef BTL_IB_VERBS_DEVICE_H
#define BTL_IB_VERBS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "verbs_library.h"
#include "verbs_port.h"

/* ---- GIDs ---- */

/* The addresses (GIDs) of a port: which there are, which is the best, whom they reach. */

enum {
    BTL_IB_VERBS_GIDS_MAX = 64, /* of one port that are looked at */
    BTL_IB_VERBS_GID_IPV4 = 12, /* offset of the IPv4 address in a mapped GID */
};

/* One address of a port. */
typedef struct btl_ib_verbs_gid {
    union ibv_gid gid;
    uint32_t index; /* in the port's table */
    uint32_t type;  /* enum ibv_gid_type */
    char interface[32];
    struct sockaddr_storage ip; /* the same as an IP address */
    uint8_t prefix_bits;        /* of its subnet */
} btl_ib_verbs_gid_t;

/*
 * How good an address is; 0 is the best. On Ethernet RoCE v2 comes before v1, then routable before
 * link-local, then IPv4 before IPv6. On InfiniBand all are equal.
 */
unsigned btl_ib_verbs_gid_rank(const struct ibv_gid_entry *entry);

/* Is it an IPv4 address (::ffff:a.b.c.d)? */
bool btl_ib_verbs_gid_is_v4(const union ibv_gid *gid);

/*
 * List the addresses of a port, the best first; on InfiniBand, where all lead to the same place,
 * only the best. With `index` >= 0 only the one at that place of the port's table. Places beyond
 * 255 cannot be used and are left out. Returns how many, at most BTL_IB_VERBS_GIDS_MAX, or a
 * negative errno; *list is to be freed in any case.
 */
int btl_ib_verbs_gids(struct ibv_context *context, uint8_t port, int index,
                      btl_ib_verbs_gid_t **list);

/* Can packets from `own` get to `gid`, as far as addresses tell? */
bool btl_ib_verbs_gid_reaches(const btl_ib_verbs_gid_t *own, const union ibv_gid *gid);

/* An address as text; `len` is at least INET6_ADDRSTRLEN. Returns `out`. */
const char *btl_ib_verbs_gid_format(const union ibv_gid *gid, char *out, size_t len);

/* ---- the list ---- */

/* The list of devices that a verbs transport can open, and what is printed about them. */

/* The handle of a btl_ib_device_t of ours: what to open. */
typedef struct btl_ib_verbs_device {
    char name[64]; /* "mlx5_0", without the port */
    uint8_t port;
    btl_ib_verbs_gid_t gid; /* UD only */
    enum ibv_mtu mtu;       /* of the port */
    uint32_t max_qp_wr;     /* requests of a queue pair */
    uint32_t max_qp;        /* queue pairs; RC only */
    uint32_t max_srq_wr;    /* buffers of a shared receive queue, 0: it has none of use; RC only */
    char firmware[64];
} btl_ib_verbs_device_t;

/* A list under construction. */
typedef struct btl_ib_verbs_list {
    btl_ib_device_t *device;
    int count;
} btl_ib_verbs_list_t;

/* Append a port of a device. `gid` is the address that it is listed with, NULL: the caller fills in
 * interface and IP address. Returns NULL if memory is short. */
btl_ib_device_t *btl_ib_verbs_list_append(btl_ib_verbs_list_t *list, const char *provider,
                                          struct ibv_context *context, uint8_t port,
                                          const struct ibv_device_attr *device_attr,
                                          const struct ibv_port_attr *port_attr,
                                          const btl_ib_verbs_gid_t *gid);

/* The name that users see: with the port if the device has several. */
void btl_ib_verbs_device_text(const char *name, unsigned ports, unsigned port, char *out,
                              size_t len);

/* Prepare to look for devices. Loads libibverbs, and for RC (`cm`) librdmacm. If not (a provider of
 * libfabric was asked for, there is no RDMA device, a library is missing) the log says why.
 * Without a device libibverbs is not to be called: with little locked memory allowed it warns on
 * stderr. */
bool btl_ib_verbs_prepare(const btl_ib_search_t *search, bool cm);

/* devices_free(), facts() and describe() of btl_ib_transport_type_t. */
void btl_ib_verbs_devices_free(btl_ib_device_t *list, int count);
void btl_ib_verbs_facts(const btl_ib_device_t *device, struct btl_ib_facts *facts);
void btl_ib_verbs_describe(const btl_ib_device_t *device, char *out, size_t len);

/* Mbit/s of a port, 0 if unknown. */
uint32_t btl_ib_verbs_bandwidth(const struct ibv_port_attr *attr);

/* ---- memory ---- */

/* Registration of memory, and what fork() does to it. */

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

/* ---- diagnostics ---- */

/* What went wrong, for the log and for the help texts of who can change it. */

/* Log which call failed, and why. Returns -error, or -EIO if that is 0. */
int btl_ib_verbs_failed(const btl_ib_verbs_t *verbs, const char *call, int error);

/* Show the help text of `what`. */
void btl_ib_verbs_diag(const btl_ib_log_t *log, btl_ib_diagnostic_t what, const char *device,
                       const char *detail);

/* A device could not be opened by its file in /dev/infiniband ("uverbs0"). */
void btl_ib_verbs_diag_open(const btl_ib_log_t *log, const char *device, const char *file,
                            int error);

/* A GID cannot be reached: `what` says why. */
void btl_ib_verbs_diag_gid(const btl_ib_verbs_t *verbs, btl_ib_diagnostic_t what,
                           const union ibv_gid *gid);

/* Tell the user if the MTU of a peer's port differs from ours. `theirs` is an enum ibv_mtu, 0 if it
 * published none; `peer` is its address as text. */
void btl_ib_verbs_check_mtu(const btl_ib_verbs_t *verbs, uint8_t theirs, const char *peer);

/* ---- messages without a receive buffer ---- */

/*
 * What a port counts of messages that found no receive buffer, in files of the system. A sender
 * whose requests are repeated without end (btl_ib_rnr_retry 7) sees nothing of that, and a receiver
 * only that its buffers are used up. Ports count for all processes that use them, and not all count
 * the same: of some it is RNR NAKs only, or nothing.
 */

/* The counts of now. */
btl_ib_verbs_refusals_t btl_ib_verbs_refusals_read(const btl_ib_verbs_t *verbs);

/* Log what was added since the port was opened: at level 1 if anything was. */
void btl_ib_verbs_refusals_tell(const btl_ib_verbs_t *verbs);

#endif
