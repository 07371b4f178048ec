/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_device.h"

#include "device_filter.h"
#include "net_interfaces.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- GIDs ---- */

enum {
    IB_PREFIX = 64, /* bits of a GID that name the subnet, on InfiniBand */
    IPOIB_GID = 4,  /* offset of the GID in a hardware address of IPoIB (RFC 4391, 9.1.1) */
    IPOIB_BYTES = 20,
    INDEX_MAX = 255, /* the index in struct ibv_global_route is a byte */
};

static const struct in6_addr *as_ip(const union ibv_gid *gid)
{
    return (const struct in6_addr *) (const void *) gid->raw;
}

bool btl_ib_verbs_gid_is_v4(const union ibv_gid *gid)
{
    return IN6_IS_ADDR_V4MAPPED(as_ip(gid));
}

static bool gid_is_link_local(const union ibv_gid *gid)
{
    return IN6_IS_ADDR_LINKLOCAL(as_ip(gid));
}

/*
 * Returns how good an address is; 0 is the best. On Ethernet RoCE v2 comes before v1, then routable
 * before link-local, then IPv4 before IPv6. On InfiniBand all are equal.
 */
static unsigned gid_rank(const struct ibv_gid_entry *entry)
{
    const unsigned local = gid_is_link_local(&entry->gid);
    const unsigned v6 = !btl_ib_verbs_gid_is_v4(&entry->gid);

    if (entry->gid_type == IBV_GID_TYPE_IB) {
        return 0;
    }
    return (entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? 0u : 4u) + 2 * local + v6;
}

static void gid_set_ip(btl_ib_verbs_gid_t *gid)
{
    if (btl_ib_verbs_gid_is_v4(&gid->gid)) {
        struct sockaddr_in *in4 = (struct sockaddr_in *) &gid->ip;
        in4->sin_family = AF_INET;
        memcpy(&in4->sin_addr, gid->gid.raw + BTL_IB_VERBS_GID_IPV4, sizeof(in4->sin_addr));
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *) &gid->ip;
        in6->sin6_family = AF_INET6;
        memcpy(&in6->sin6_addr, gid->gid.raw, sizeof(in6->sin6_addr));
    }
}

/* Returns the prefix length of an interface's address; if no interface has the address, the length
 * that stands for one host. */
static uint8_t gid_prefix(const struct ifaddrs *all, const struct sockaddr *ip)
{
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        if (i->ifa_addr != NULL && i->ifa_netmask != NULL && btl_ib_ip_same(i->ifa_addr, ip)) {
            return btl_ib_ip_prefix(i->ifa_netmask);
        }
    }
    return ip->sa_family == AF_INET ? 32 : 128;
}

/* Finds the interface of a GID on InfiniBand, where the port's table names none: the interface of
 * IPoIB has the GID in its hardware address. getifaddrs() writes all 20 bytes of that address,
 * although struct sockaddr_ll has room for 8. */
static void gid_set_ipoib(const struct ifaddrs *all, btl_ib_verbs_gid_t *gid)
{
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        const struct sockaddr_ll *hardware = (const void *) i->ifa_addr;
        const size_t at = offsetof(struct sockaddr_ll, sll_addr) + IPOIB_GID;

        if (hardware != NULL && hardware->sll_family == AF_PACKET
            && hardware->sll_hatype == ARPHRD_INFINIBAND && hardware->sll_halen == IPOIB_BYTES
            && memcmp((const uint8_t *) hardware + at, gid->gid.raw, sizeof(gid->gid.raw)) == 0) {
            strncpy(gid->interface, i->ifa_name, sizeof(gid->interface) - 1);
            return;
        }
    }
}

static void gid_describe(const struct ibv_gid_entry *entry, const struct ifaddrs *all,
                         btl_ib_verbs_gid_t *gid)
{
    char name[IF_NAMESIZE] = "";

    memset(gid, 0, sizeof(*gid));
    gid->gid = entry->gid;
    gid->index = entry->gid_index;
    gid->type = entry->gid_type;
    if (entry->ndev_ifindex != 0 && if_indextoname(entry->ndev_ifindex, name) != NULL) {
        memcpy(gid->interface, name, sizeof(name));
    }
    if (entry->gid_type == IBV_GID_TYPE_IB) {
        gid_set_ipoib(all, gid);
    }
    gid_set_ip(gid);
    gid->prefix_bits = entry->gid_type == IBV_GID_TYPE_IB
                           ? IB_PREFIX
                           : gid_prefix(all, (const struct sockaddr *) &gid->ip);
}

static int gid_by_rank(const void *a, const void *b)
{
    const struct ibv_gid_entry *x = a;
    const struct ibv_gid_entry *y = b;
    const unsigned rank_x = gid_rank(x);
    const unsigned rank_y = gid_rank(y);

    if (rank_x != rank_y) {
        return rank_x < rank_y ? -1 : 1;
    }
    return x->gid_index < y->gid_index ? -1 : 1;
}

/* Reads all addresses of a port. Returns how many, or a negative errno; *call names the last call
 * that was made. The caller frees *entries in either case. */
static int gids_read(struct ibv_context *context, uint8_t port, struct ibv_gid_entry **entries,
                     const char **call)
{
    struct ibv_device_attr device;
    struct ibv_port_attr attr;
    size_t room = 0;
    int error = ibv_query_device(context, &device);

    *entries = NULL;
    *call = "ibv_query_device";
    if (error != 0) {
        return -error;
    }
    *call = "ibv_query_port";
    for (unsigned p = 1; p <= device.phys_port_cnt; p++) {
        error = ibv_query_port(context, (uint8_t) p, &attr);
        if (error != 0) {
            return -error;
        }
        room += attr.gid_tbl_len > 0 ? (size_t) attr.gid_tbl_len : 0;
    }
    *entries = calloc(room + 1, sizeof(**entries));
    if (*entries == NULL) {
        return -ENOMEM;
    }
    *call = "ibv_query_gid_table";
    const ssize_t found = ibv_query_gid_table(context, *entries, room, 0);
    int count = 0;
    for (ssize_t i = 0; i < found; i++) {
        if ((*entries)[i].port_num == port) {
            (*entries)[count++] = (*entries)[i];
        }
    }
    return found < 0 ? (int) found : count;
}

/* Keeps addresses that are wanted and can be used, the best first. Returns how many. */
static int gids_choose(struct ibv_gid_entry *entries, int count, int index)
{
    int wanted = 0;

    for (int i = 0; i < count; i++) {
        if (entries[i].gid_index <= INDEX_MAX
            && (index < 0 || entries[i].gid_index == (uint32_t) index)) {
            entries[wanted++] = entries[i];
        }
    }
    qsort(entries, (size_t) wanted, sizeof(*entries), gid_by_rank);
    return wanted > 0 && entries[0].gid_type == IBV_GID_TYPE_IB ? 1 : wanted;
}

int btl_ib_verbs_gids(struct ibv_context *context, uint8_t port, int index,
                      btl_ib_verbs_gid_t **list, const char **refused)
{
    struct ibv_gid_entry *entries;
    struct ifaddrs *all = NULL;
    const char *call;
    int count = gids_read(context, port, &entries, &call);

    *list = NULL;
    if (refused != NULL) {
        *refused = call;
    }
    if (count > 0) {
        (void) btl_ib_net_addresses_get(&all, NULL); /* if it fails prefixes are those of hosts */
        count = gids_choose(entries, count, index);
        count = count < BTL_IB_VERBS_GIDS_MAX ? count : BTL_IB_VERBS_GIDS_MAX;
        *list = calloc(count > 0 ? (size_t) count : 1, sizeof(**list));
        count = *list != NULL ? count : -ENOMEM;
        for (int i = 0; i < count; i++) {
            gid_describe(&entries[i], all, &(*list)[i]);
        }
        free(all);
    }
    free(entries);
    return count;
}

/*
 * Applies these rules. No packet has an IPv4 address at one end and IPv6 at the other. RoCE v2 gets
 * wherever IP gets, which ibv_create_ah(3) finds out. RoCE v1 stays on its link (IBA annex 16).
 * InfiniBand's routers join subnets, except those with the default prefix (IBA 4.1.1, fe80::). A
 * prefix of all bits means that the netmask is not known.
 */
bool btl_ib_verbs_gid_reaches(const btl_ib_verbs_gid_t *own, const union ibv_gid *gid)
{
    const bool v4 = btl_ib_verbs_gid_is_v4(gid);
    const unsigned bits = own->prefix_bits + (v4 ? BTL_IB_VERBS_GID_IPV4 * 8u : 0u);

    if (v4 != btl_ib_verbs_gid_is_v4(&own->gid)) {
        return false;
    }
    if (own->type == IBV_GID_TYPE_ROCE_V2 || bits >= 8 * sizeof(gid->raw)
        || btl_ib_ip_same_bits(gid->raw, own->gid.raw, bits)) {
        return true;
    }
    return own->type == IBV_GID_TYPE_IB && !gid_is_link_local(gid) && !gid_is_link_local(&own->gid);
}

const char *btl_ib_verbs_gid_format(const union ibv_gid *gid, char *out, size_t len)
{
    const bool v4 = btl_ib_verbs_gid_is_v4(gid);

    snprintf(out, len, "?");
    (void) inet_ntop(v4 ? AF_INET : AF_INET6, gid->raw + (v4 ? BTL_IB_VERBS_GID_IPV4 : 0), out,
                     (socklen_t) len);
    return out;
}

/* ---- diagnostics ---- */

/* Shows the help text about locked memory if the limit of that may be why a call failed. Any call
 * may be it, as queues are locked memory, too. */
static void diag_memory_limit(const btl_ib_verbs_t *verbs, int error)
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
    if (verbs->refused != NULL) {
        *verbs->refused = call;
    }
    diag_memory_limit(verbs, error);
    errno = error;
    return -error;
}

void btl_ib_verbs_diag_open(const btl_ib_log_t *log, const char *device, const char *file,
                            int error)
{
    char path[64];

    snprintf(path, sizeof(path), "/dev/infiniband/%.40s", file);
    const bool missing = error == ENOENT || error == ENXIO || error == ENODEV;
    /* If libibverbs may not open the file, it tries another path, and returns that one's error. */
    if (missing && access(path, F_OK) != 0) {
        btl_ib_verbs_diag(log, BTL_IB_DIAG_NO_FILES, device, path);
    } else if (missing || error == EACCES || error == EPERM) {
        btl_ib_verbs_diag(log, BTL_IB_DIAG_NO_PERMISSION, device, path);
    }
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

/* ---- list of devices ---- */

/* Returns the entry of a table for a code with one bit set, 0 for others. */
static uint32_t code_value(uint8_t code, const uint32_t *table, int count)
{
    const int bit = __builtin_ctz(code | 0x100u);

    return bit < count && code == 1u << bit ? table[bit] : 0;
}

/* Returns the Mbps of a port. The codes are those of InfiniBand's PortInfo (IBA volume 1,
 * 14.2.5.6). */
static uint32_t port_bandwidth(const struct ibv_port_attr *attr)
{
    /* Mbps of a lane, for SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR. */
    static const uint32_t speed[] = {2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000};
    static const uint32_t lanes[] = {1, 4, 8, 12, 2};

    return code_value(attr->active_speed, speed, 8) * code_value(attr->active_width, lanes, 5);
}

void btl_ib_verbs_device_text(const char *name, unsigned ports, unsigned port, char *out,
                              size_t len)
{
    if (ports == 1) {
        snprintf(out, len, "%s", name);
    } else {
        snprintf(out, len, "%.58s:%u", name, port);
    }
}

btl_ib_device_t *btl_ib_verbs_list_append(btl_ib_verbs_list_t *list, const char *provider,
                                          struct ibv_context *context, uint8_t port,
                                          const struct ibv_device_attr *device_attr,
                                          const struct ibv_port_attr *port_attr,
                                          const btl_ib_verbs_gid_t *gid)
{
    const char *name = ibv_get_device_name(context->device);
    btl_ib_device_t *all = realloc(list->device, (size_t) (list->count + 1) * sizeof(*all));

    if (all == NULL) {
        return NULL;
    }
    list->device = all;
    btl_ib_verbs_device_t *handle = calloc(1, sizeof(*handle));
    if (handle == NULL) {
        return NULL;
    }
    snprintf(handle->name, sizeof(handle->name), "%s", name);
    handle->port = port;
    handle->mtu = port_attr->active_mtu;
    handle->max_qp = (uint32_t) device_attr->max_qp;
    handle->max_qp_wr = (uint32_t) device_attr->max_qp_wr;
    /* An iWARP connection ends when no buffer is left, so it uses no shared queue. */
    handle->max_srq_wr =
        context->device->transport_type == IBV_TRANSPORT_IWARP || device_attr->max_srq <= 0
            ? 0
            : (uint32_t) device_attr->max_srq_wr;
    snprintf(handle->firmware, sizeof(handle->firmware), "%s", device_attr->fw_ver);
    btl_ib_device_t *device = &all[list->count++];
    *device = (btl_ib_device_t){.port = port,
                                .bandwidth = port_bandwidth(port_attr),
                                .vendor_id = device_attr->vendor_id,
                                .part_id = device_attr->vendor_part_id,
                                .handle = handle};
    snprintf(device->transport, sizeof(device->transport), "verbs");
    snprintf(device->provider, sizeof(device->provider), "%s", provider);
    btl_ib_verbs_device_text(name, device_attr->phys_port_cnt, port, device->name,
                             sizeof(device->name));
    if (gid != NULL) {
        handle->gid = *gid;
        memcpy(device->interface, gid->interface, sizeof(device->interface));
        device->ip = gid->ip;
        device->prefix_bits = gid->prefix_bits;
    }
    return device;
}

bool btl_ib_verbs_prepare(const btl_ib_search_t *search, bool cm)
{
    char why[BTL_IB_LIBRARY_WHY];

    if (search->provider != NULL && search->provider[0] != '\0') {
        return false; /* libfabric's devices were asked for */
    }
    if (!btl_ib_rdma_present()) {
        btl_ib_devices_turn_down(&search->log, "verbs", "",
                                 "no RDMA device is in /sys/class/infiniband");
        return false;
    }
    if (!btl_ib_verbs_load(cm, why, sizeof(why))) {
        btl_ib_devices_turn_down(&search->log, "verbs", "", why);
        btl_ib_verbs_diag(&search->log, BTL_IB_DIAG_NO_LIBRARY, cm ? "verbs/rc" : "verbs/ud", why);
        return false;
    }
    return true;
}

void btl_ib_verbs_turn_down(const btl_ib_search_t *search, const char *name, const char *call,
                            int error)
{
    char why[128];

    snprintf(why, sizeof(why), "%s: %s", call, strerror(error != 0 ? error : EIO));
    btl_ib_devices_turn_down(&search->log, "verbs", name, why);
}

void btl_ib_verbs_facts(const btl_ib_device_t *device, btl_ib_facts_t *facts)
{
    const btl_ib_verbs_device_t *handle = device->handle;

    *facts = (btl_ib_facts_t){
        .speed = device->bandwidth,
        .mtu = btl_ib_verbs_mtu_bytes((uint8_t) handle->mtu),
    };
    btl_ib_facts_driver("infiniband", handle->name, facts->driver, sizeof(facts->driver));
    snprintf(facts->firmware, sizeof(facts->firmware), "%s", handle->firmware);
}

void btl_ib_verbs_devices_free(btl_ib_device_t *list, int count)
{
    for (int i = 0; i < count; i++) {
        free(list[i].handle);
    }
    free(list);
}

/* ---- memory ---- */

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

struct ibv_mr *btl_ib_verbs_slab_alloc(const btl_ib_verbs_t *verbs, size_t size, unsigned access)
{
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED) {
        (void) btl_ib_verbs_failed(verbs, "mmap", errno);
        return NULL;
    }
    struct ibv_mr *mr = ibv_reg_mr(verbs->pd, base, size, IBV_ACCESS_LOCAL_WRITE | access);
    if (mr == NULL) {
        const int error = errno;
        (void) munmap(base, size);
        (void) btl_ib_verbs_failed(verbs, "ibv_reg_mr", error);
    }
    return mr;
}

void btl_ib_verbs_slab_free(struct ibv_mr *mr)
{
    void *base = mr->addr;
    const size_t size = mr->length;

    (void) ibv_dereg_mr(mr);
    (void) munmap(base, size);
}

/* ---- messages without a receive buffer ---- */

/*
 * Ports count messages that found no receive buffer, in files of the system. Nothing else shows
 * them: a sender whose requests are repeated without end (btl_ib_rnr_retry 7) notices nothing, and
 * a receiver only that its buffers are used up. Some ports count RNR NAKs only, or nothing.
 */

/* The counters' names in Linux, by driver: mlx5, mlx4, bnxt_re, soft-RoCE. */
static const char *const names_received[] = {
    "out_of_buffer",
    "rq_num_rnr",
    "rx_out_of_buffer",
    "send_rnr_err",
};
static const char *const names_sent[] = {
    "rnr_nak_retry_err",
    "sq_num_rnr",
    "rnr_naks_rcvd",
    "rcvd_rnr_err",
};

enum { NAMES = sizeof(names_received) / sizeof(names_received[0]) };

static bool out_of_buffer_read_one(const btl_ib_verbs_t *verbs, const char *name, uint64_t *count)
{
    char path[sizeof(verbs->context->device->ibdev_path) + 64];

    snprintf(path, sizeof(path), "%s/ports/%u/hw_counters/%s", verbs->context->device->ibdev_path,
             verbs->port, name);
    return btl_ib_file_number(path, count);
}

/* Reads both counts. A port has the names of one driver. */
static btl_ib_verbs_out_of_buffer_t out_of_buffer_read(const btl_ib_verbs_t *verbs)
{
    btl_ib_verbs_out_of_buffer_t counts = {.known = false};

    for (int i = 0; i < NAMES && !counts.known; i++) {
        counts.known = out_of_buffer_read_one(verbs, names_received[i], &counts.received)
                       && out_of_buffer_read_one(verbs, names_sent[i], &counts.sent);
    }
    return counts;
}

/* Logs how many messages found no buffer since the port was opened: at level 1 if any did. */
static void out_of_buffer_log(const btl_ib_verbs_t *verbs)
{
    if (!verbs->out_of_buffer.known) {
        return;
    }
    const btl_ib_verbs_out_of_buffer_t now = out_of_buffer_read(verbs);
    const uint64_t received = now.received - verbs->out_of_buffer.received;
    const uint64_t sent = now.sent - verbs->out_of_buffer.sent;
    if (now.known) {
        const char *help =
            received > 0 ? ": more buffers (num in btl_ib_receive_queues) would help" : "";
        BTL_IB_VERBS_LOG(verbs, received + sent > 0 ? 1 : 10,
                         "%s: its port refused %" PRIu64 " messages for want of a receive buffer, "
                         "and %" PRIu64 " that it sent were, of all processes%s",
                         verbs->base.name, received, sent, help);
    }
}

/* ---- completion channel ---- */

int btl_ib_verbs_nonblocking(const btl_ib_verbs_t *verbs, int fd)
{
    const int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0
               ? 0
               : btl_ib_verbs_failed(verbs, "fcntl", errno);
}

static bool epoll_watch(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0;
}

int btl_ib_verbs_comp_open(btl_ib_verbs_comp_t *comp, const btl_ib_verbs_t *verbs, int other_fd)
{
    comp->fd = -1;
    comp->channel = ibv_create_comp_channel(verbs->context);
    if (comp->channel == NULL) {
        return btl_ib_verbs_failed(verbs, "ibv_create_comp_channel", errno);
    }
    const int error = btl_ib_verbs_nonblocking(verbs, comp->channel->fd);
    if (error != 0) {
        return error;
    }
    comp->fd = epoll_create1(EPOLL_CLOEXEC);
    return comp->fd >= 0 && epoll_watch(comp->fd, comp->channel->fd)
                   && epoll_watch(comp->fd, other_fd)
               ? 0
               : btl_ib_verbs_failed(verbs, "epoll", errno);
}

void btl_ib_verbs_comp_close(btl_ib_verbs_comp_t *comp)
{
    if (comp->channel == NULL) {
        return;
    }
    if (comp->fd >= 0) {
        (void) close(comp->fd);
    }
    (void) ibv_destroy_comp_channel(comp->channel);
}

bool btl_ib_verbs_comp_read(const btl_ib_verbs_comp_t *comp)
{
    struct ibv_cq *cq;
    void *context;
    bool any = false;

    while (ibv_get_cq_event(comp->channel, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        any = true;
    }
    return any;
}

/* ---- opening ---- */

void btl_ib_verbs_init(btl_ib_verbs_t *verbs, const btl_ib_transport_ops_t *ops,
                       const btl_ib_open_params_t *params, const char *wire, const char *name)
{
    verbs->base.ops = ops;
    verbs->log = params->log;
    verbs->refused = params->refused;
    snprintf(verbs->base.name, sizeof(verbs->base.name), "verbs/%s:%.54s", wire, name);
}

int btl_ib_verbs_open(btl_ib_verbs_t *verbs, struct ibv_context *context, uint8_t port,
                      uint32_t mtu)
{
    int error;

    verbs->context = context;
    verbs->port = port;
    if ((error = btl_ib_verbs_nonblocking(verbs, context->async_fd)) != 0) {
        return error;
    }
    if ((error = ibv_query_device(context, &verbs->device)) != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_query_device", error);
    }
    if ((error = ibv_query_port(context, port, &verbs->port_attr)) != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_query_port", error);
    }
    verbs->out_of_buffer = out_of_buffer_read(verbs);
    verbs->mtu = btl_ib_verbs_mtu(verbs->port_attr.active_mtu, mtu);
    verbs->pd = ibv_alloc_pd(context);
    return verbs->pd != NULL ? 0 : btl_ib_verbs_failed(verbs, "ibv_alloc_pd", errno);
}

void btl_ib_verbs_opened(btl_ib_verbs_t *verbs)
{
    verbs->refused = &verbs->last_call;
}

void btl_ib_verbs_close(btl_ib_verbs_t *verbs)
{
    if (verbs->pd != NULL) {
        out_of_buffer_log(verbs);
        (void) ibv_dealloc_pd(verbs->pd);
    }
}

/*
 * Returns how many bytes of inline data to ask for next, if a device does not take `size`: 256,
 * 192, 128, 96, 64 and so on to 0. Powers of two alone would waste much, as some devices have odd
 * limits: 96 for bnxt_re, 101 for irdma (rdma-core, providers).
 */
static uint32_t inline_less(uint32_t size)
{
    return (size & (size - 1)) == 0 ? size - (size + 3) / 4 : size - (size + 2) / 3;
}

struct ibv_qp *btl_ib_verbs_create_qp(const btl_ib_verbs_t *verbs, struct ibv_qp_init_attr *attr)
{
    const struct ibv_qp_cap wanted = attr->cap;
    uint32_t size = wanted.max_inline_data;
    struct ibv_qp *qp = ibv_create_qp(verbs->pd, attr);

    while (qp == NULL && size > 0) {
        size = inline_less(size);
        attr->cap = wanted;
        attr->cap.max_inline_data = size;
        qp = ibv_create_qp(verbs->pd, attr);
    }
    return qp;
}

/* ---- asynchronous events ---- */

int btl_ib_verbs_state_report(btl_ib_verbs_state_t *state, btl_ib_event_t *events, int max)
{
    if (max == 0) {
        return 0;
    }
    *events = (btl_ib_event_t){.type = state->error != 0  ? BTL_IB_EVENT_FAILED
                                       : state->down != 0 ? BTL_IB_EVENT_DOWN
                                                          : BTL_IB_EVENT_UP,
                               .error = state->error != 0 ? state->error : state->down,
                               .from = BTL_IB_ADDR_UNKNOWN};
    state->error_reported = state->error != 0;
    state->down_reported = state->down != 0;
    return 1;
}

bool btl_ib_verbs_event_is_ours(const btl_ib_verbs_t *verbs, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
        return event->element.port_num == verbs->port;
    default:
        return true;
    }
}

/* Returns the help text to show for an event; BTL_IB_DIAGS: none. */
static btl_ib_diagnostic_t event_diag(const struct ibv_async_event *event, int error)
{
    if (event->event_type == IBV_EVENT_PATH_MIG || event->event_type == IBV_EVENT_PATH_MIG_ERR) {
        return BTL_IB_DIAG_MIGRATED;
    }
    switch (error) {
    case 0:
        return BTL_IB_DIAGS;
    case ENETDOWN:
        return BTL_IB_DIAG_PORT_ERROR;
    case EADDRNOTAVAIL:
    case EPERM:
        return BTL_IB_DIAG_IDENTITY;
    default:
        return BTL_IB_DIAG_FATAL;
    }
}

void btl_ib_verbs_event_log(const btl_ib_verbs_t *verbs, const struct ibv_async_event *event,
                            int error)
{
    const char *text = ibv_event_type_str(event->event_type);
    const btl_ib_diagnostic_t diag = event_diag(event, error);

    BTL_IB_VERBS_LOG(verbs, diag != BTL_IB_DIAGS ? 1 : 10, "%s: the device says: %s",
                     verbs->base.name, text);
    if (diag != BTL_IB_DIAGS) {
        btl_ib_verbs_diag(&verbs->log, diag, verbs->base.name, text);
    }
}

/* ---- receive buffers ---- */

void btl_ib_verbs_rx_pool_add(btl_ib_verbs_rx_pool_t *pool, btl_ib_verbs_rx_buffer_t *buffer,
                              uint64_t id, void *data, uint32_t size, uint32_t key)
{
    buffer->pool = pool;
    buffer->sge = (struct ibv_sge){.addr = (uintptr_t) data, .length = size, .lkey = key};
    buffer->wr = (struct ibv_recv_wr){.wr_id = id, .sg_list = &buffer->sge, .num_sge = 1};
    btl_ib_verbs_rx_pool_put(buffer);
}

int btl_ib_verbs_rx_pool_post(btl_ib_verbs_rx_pool_t *pool)
{
    struct ibv_recv_wr *bad = NULL;

    if (pool->idle_count == 0) {
        return 0;
    }
    *pool->idle_last = NULL;
    const int error = pool->srq != NULL ? ibv_post_srq_recv(pool->srq, pool->idle, &bad)
                                        : ibv_post_recv(pool->qp, pool->idle, &bad);
    if (error == 0) {
        pool->posted += pool->idle_count;
        pool->idle = NULL;
        pool->idle_last = &pool->idle;
        pool->idle_count = 0;
        return 0;
    }
    while (bad != NULL && pool->idle != bad) {
        pool->idle = pool->idle->next;
        pool->idle_count--;
        pool->posted++;
    }
    return error;
}
