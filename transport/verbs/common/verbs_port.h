/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the files of transport "verbs" share, nobody else's business. Parts that UD and RC have in common:
 *
 *   verbs_devices.c  which ports of RDMA devices there are, and what they carry
 *   verbs_gid.c      which of a port's addresses (GIDs) to use
 *   verbs_port.c     opening a port: context, protection domain, partition, address
 *   verbs_memory.c   registration of memory
 *   verbs_limits.c   what keeps a device from being used, for help texts
 *   verbs_wake.c     descriptors to sleep on
 *   verbs_async.c    what a device says of itself: its port is down, its address changed, it is gone
 *
 * UD: verbs_ud_state.h. RC: verbs_rc_state.h.
 */

#ifndef BTL_IB_VERBS_STATE_H
#define BTL_IB_VERBS_STATE_H

#include <infiniband/verbs.h>

#include "transport.h"

enum {
    BTL_IB_VERBS_GRH = 40, /* bytes that stand before the payload of each datagram received (UD) */
    BTL_IB_VERBS_GIDS_MAX = 64, /* of one port that are looked at */
    BTL_IB_VERBS_MTU_MAX = IBV_MTU_4096,
    BTL_IB_VERBS_PKEY_NUMBER = 0x7fff, /* of a partition */
    BTL_IB_VERBS_PKEY_FULL = 0x8000,   /* a member that may talk to all others */
};

/* Why there is nothing to list. */
#define BTL_IB_VERBS_NO_DEVICE "no RDMA device is in /sys/class/infiniband"

/* One address of a port. */
typedef struct btl_ib_verbs_gid {
    union ibv_gid gid;
    uint32_t index; /* in the port's table */
    uint32_t type;  /* enum ibv_gid_type */
    char interface[32];
    struct sockaddr_storage ip; /* the same as an IP address */
    uint8_t prefix_bits;        /* of its subnet */
} btl_ib_verbs_gid_t;

/* The handle of a btl_ib_device_t of ours: what to open. */
typedef struct btl_ib_verbs_device {
    char name[64]; /* "mlx5_0", without the port */
    uint8_t port;
    btl_ib_verbs_gid_t gid;
    uint32_t mtu;    /* bytes */
    uint32_t max_qp; /* queue pairs; known of devices for RC */
    char firmware[64];
} btl_ib_verbs_device_t;

/* An open port. The transports' own structs start with this. */
typedef struct btl_ib_verbs {
    btl_ib_transport_t base;
    btl_ib_log_t log;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_device_attr device;
    struct ibv_port_attr port_attr;
    uint8_t port;
    uint16_t pkey; /* the partition, and in the first bit whether as a full member */
    uint16_t pkey_index;
    uint8_t service_level;
    uint8_t traffic_class;
    btl_ib_verbs_gid_t gid;
} btl_ib_verbs_t;

#define BTL_IB_VERBS_LOG(verbs, level, ...)                                                        \
    do {                                                                                           \
        if ((verbs)->log.print != NULL) {                                                          \
            (verbs)->log.print((verbs)->log.context, (level), __VA_ARGS__);                        \
        }                                                                                          \
    } while (0)

static inline bool btl_ib_verbs_ethernet(const btl_ib_verbs_t *verbs)
{
    return verbs->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
}

/* ---- verbs_devices.c ---- */

/* One for each active port and address, the best address of each port first; those of iWARP devices are left out.
 * As devices() of btl_ib_transport_type_t. */
int btl_ib_verbs_devices(const btl_ib_search_t *search, btl_ib_device_t **list);
void btl_ib_verbs_devices_free(btl_ib_device_t *list, int count);

/* As describe() and library() of btl_ib_transport_type_t. */
void btl_ib_verbs_describe(const btl_ib_device_t *device, char *out, size_t len);
void btl_ib_verbs_library(char *out, size_t len);

/* Mbit/s of a port, 0: unknown. */
uint32_t btl_ib_verbs_bandwidth(const struct ibv_port_attr *attr);

/* ---- verbs_gid.c ---- */

/* How good an address is: 0 is the best. On Ethernet RoCE v2 before v1, then what can be routed before what is
 * link-local, then IPv4 before IPv6. */
unsigned btl_ib_verbs_gid_rank(const struct ibv_gid_entry *entry);

/* Does it carry an IPv4 address (::ffff:a.b.c.d)? */
bool btl_ib_verbs_gid_is_v4(const union ibv_gid *gid);

/* Is it of no use beyond its link or subnet (fe80::)? */
bool btl_ib_verbs_gid_is_local(const union ibv_gid *gid);

/* The addresses of a port, the best first; of those of InfiniBand, which all lead to the same place, only that. With an
 * `index` from 0 on only the one that has that place in the port's table. Those beyond place 255 cannot be used, and
 * are left out. Returns how many, at most `max`, or a negative errno. */
int btl_ib_verbs_gids(struct ibv_context *context, uint8_t port, int index,
                      btl_ib_verbs_gid_t *list, int max);

/* ---- verbs_port.c ---- */

/* Fill in all of `verbs` but ops and attr. Returns 0 or a negative errno after saying why; what was opened until then
 * is closed by btl_ib_verbs_port_close(). */
int btl_ib_verbs_port_open(btl_ib_verbs_t *verbs, const btl_ib_device_t *device,
                           const btl_ib_open_params_t *params);
void btl_ib_verbs_port_close(btl_ib_verbs_t *verbs);

/* Say which call failed, and why. Returns -error, or -EIO if that is 0. */
int btl_ib_verbs_failed(const btl_ib_verbs_t *verbs, const char *call, int error);

/* ---- verbs_limits.c ---- */

void btl_ib_verbs_trouble(const btl_ib_log_t *log, btl_ib_diagnostic_t what, const char *device,
                          const char *detail);

/* A device could not be opened, by its file ("uverbs0") in /dev/infiniband. */
void btl_ib_verbs_trouble_open(const btl_ib_log_t *log, const char *device, const char *file,
                               int error);

/* A call failed: for the limit of locked memory? */
void btl_ib_verbs_trouble_memory(const btl_ib_log_t *log, const char *device, int error);

/* Do packets from the port get to that address, as far as addresses tell? */
bool btl_ib_verbs_reaches(const btl_ib_verbs_t *verbs, const union ibv_gid *gid);

/* Has a peer's port the same MTU as ours? `theirs` is an enum ibv_mtu as the peer published it; 0: it did not, so who knows. */
bool btl_ib_verbs_same_mtu(const btl_ib_verbs_t *verbs, uint8_t theirs);

/* Tell that it has another. `peer` is its address for people. */
void btl_ib_verbs_trouble_mtu(const btl_ib_verbs_t *verbs, uint8_t theirs, const char *peer);

/* An address for people; at least INET6_ADDRSTRLEN bytes. Returns `out`. */
const char *btl_ib_verbs_gid_format(const union ibv_gid *gid, char *out, size_t len);

/* There is no way to that address: `what` says why. */
void btl_ib_verbs_trouble_gid(const btl_ib_log_t *log, btl_ib_diagnostic_t what, const char *device,
                              const union ibv_gid *gid);

/* ---- verbs_wake.c ---- */

/* Make reading a descriptor never wait. Returns 0 or a negative errno after saying why. */
int btl_ib_verbs_never_wait(const btl_ib_verbs_t *verbs, int fd);

/* What completion queues ring, to be read without waiting. Returns 0 or a negative errno after saying why; *bell is the
 * caller's to destroy in either case, if it is not NULL. */
int btl_ib_verbs_bell_open(const btl_ib_verbs_t *verbs, struct ibv_comp_channel **bell);

/* A new descriptor, readable when one of `fds` is. Or a negative errno after saying why. */
int btl_ib_verbs_watch(const btl_ib_verbs_t *verbs, const int *fds, int count);

/* ---- verbs_async.c ---- */

/* Read what the device has to say, and put it into the log. Returns 0, or the errno with which it failed: ENETDOWN (the
 * port went down), EADDRNOTAVAIL (the address that peers know is no more), EPERM (no longer in the partition), ENODEV, EIO. */
int btl_ib_verbs_async(const btl_ib_verbs_t *verbs);

/* What an event was that the rail's `error` came of, 0: it goes on. Into the log; what a user is to know he is told. */
void btl_ib_verbs_event_told(const btl_ib_verbs_t *verbs, const struct ibv_async_event *event,
                             int error);

/* Is it about our port? Only port events name one. */
bool btl_ib_verbs_event_is_ours(const btl_ib_verbs_t *verbs, const struct ibv_async_event *event);

/* Is the port active? And is it as peers know it, with its address and in its partition? */
bool btl_ib_verbs_port_up(const btl_ib_verbs_t *verbs);
bool btl_ib_verbs_is_back(const btl_ib_verbs_t *verbs);

/* ---- verbs_memory.c ---- */

/* Before any memory is registered, if that is wanted and the kernel needs it (before 5.12): when a process with
 * memory that a device uses has a child, the first to write to a page gets a copy of it, and the device does not see that.
 * Then children do not get those pages at all, so what is registered must be whole pages, with nothing else on them. */
void btl_ib_verbs_prepare_fork(const btl_ib_search_t *search);

/* Bytes of a page. */
uint32_t btl_ib_verbs_page(void);

/* mem_register() and mem_deregister() of btl_ib_transport_ops_t: the handle is a struct ibv_mr. */
int btl_ib_verbs_mem_register(btl_ib_transport_t *t, void *base, size_t size, void **handle);
void btl_ib_verbs_mem_deregister(btl_ib_transport_t *t, void *handle);

/* Memory for receive buffers, whole pages of its own, registered to be written by the device. NULL and a word in
 * the log if there is none. */
void *btl_ib_verbs_slab_alloc(btl_ib_verbs_t *verbs, size_t size, struct ibv_mr **mr);
void btl_ib_verbs_slab_free(void *base, struct ibv_mr *mr);

#endif
