/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What devices and libraries say of themselves. */

#ifndef BTL_IB_DEVICE_INFO_H
#define BTL_IB_DEVICE_INFO_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

/* ---- RDMA devices ---- */

/* Has this host any RDMA device (InfiniBand, RoCE, iWARP, usNIC, EFA), and one with a port that is
 * active? Both ask the kernel (/sys/class/infiniband), before a library is loaded for it: libfabric
 * takes 0.2 s, and finds no datagrams on hardware but those of such devices. */
bool btl_ib_rdma_present(void);
bool btl_ib_rdma_active(void);

/* ---- as text for diagnosis ---- */

/* What is known of a device. Texts may be empty, numbers 0: unknown. */
typedef struct btl_ib_facts {
    char driver[64];
    char firmware[64];
    uint32_t speed; /* Mbit/s */
    uint32_t mtu;   /* bytes */
} btl_ib_facts_t;

/* What the kernel knows of a network interface. */
void btl_ib_facts_interface(const char *interface, btl_ib_facts_t *facts);

/* The driver that the file system of devices names: of `name` in /sys/class/`class`. "" if
 * none does: it is no device of a bus (rxe, siw, veth). */
void btl_ib_facts_driver(const char *class, const char *name, char *out, size_t len);

/* "driver mlx5_core, firmware 16.35.2000, link 100000 Mbit/s, MTU 4096" */
void btl_ib_facts_format(const btl_ib_facts_t *facts, char *out, size_t len);

#endif
