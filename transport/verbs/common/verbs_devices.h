/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The list of devices that a verbs transport can open, and what is printed about them. */

#ifndef BTL_IB_VERBS_DEVICES_H
#define BTL_IB_VERBS_DEVICES_H

#include "verbs_gid.h"
#include "verbs_port.h"

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

/* Why there is nothing to list. */
#define BTL_IB_VERBS_NO_DEVICE "no RDMA device is in /sys/class/infiniband"

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

/* May devices be looked for? Loads libibverbs, and for RC (`cm`) librdmacm. If not (a provider of
 * libfabric was asked for, there is no RDMA device, a library is missing) the log says why.
 * Without a device libibverbs is not to be called: with little locked memory allowed it warns on
 * stderr. */
bool btl_ib_verbs_ready(const btl_ib_search_t *search, bool cm);

/* devices_free(), facts() and describe() of btl_ib_transport_type_t. */
void btl_ib_verbs_devices_free(btl_ib_device_t *list, int count);
void btl_ib_verbs_facts(const btl_ib_device_t *device, struct btl_ib_facts *facts);
void btl_ib_verbs_describe(const btl_ib_device_t *device, char *out, size_t len);

/* Mbit/s of a port, 0 if unknown. */
uint32_t btl_ib_verbs_bandwidth(const struct ibv_port_attr *attr);

#endif
