/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "ofi": see fi_endpoint(3), fi_cq(3), fi_av(3). */

#include "transport.h"
#include "device_filter.h"
#include "net_interfaces.h"
#include "btl_ib_library.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Calls of libfabric, which is loaded when it is needed. Its other functions are inline, through
 * tables of its objects. */

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

static struct {
    BTL_IB_OFI_CALLS(BTL_IB_LIBRARY_POINTER)
} calls;

static const char *const names[] = {BTL_IB_OFI_CALLS(BTL_IB_LIBRARY_NAME)};

static btl_ib_library_t library = {
    .file = BTL_IB_OFI_FILE,
    .package = "Debian: libfabric1, Fedora: libfabric",
    .names = names,
    .count = sizeof(names) / sizeof(names[0]),
    .calls = &calls,
    .preload = true,
};

BTL_IB_OFI_CALLS(BTL_IB_LIBRARY_CALL)

static void ofi_library(bool load, char *out, size_t len)
{
    char running[192];

    if (btl_ib_library_check(&library, load, running, sizeof(running))) {
        const uint32_t version = fi_version();
        snprintf(running, sizeof(running), "running %u.%u", FI_MAJOR(version), FI_MINOR(version));
    }
    snprintf(out, len, "libfabric: built with %u.%u, %s", FI_MAJOR_VERSION, FI_MINOR_VERSION,
             running);
}

/* ---- devices ---- */

/* The version of libfabric's interface that this file uses. */
#define BTL_IB_OFI_VERSION FI_VERSION(1, 9)

/* Providers by preference, hardware first. Only devices of the best are offered: the others would
 * use the same wires. */
static const char *const preferred[] = {"usnic", "efa", "verbs", "udp"};
enum {
    PREFERRED = sizeof(preferred) / sizeof(preferred[0]),
    PLAIN = 3, /* from here on they use the kernel's network stack */
};

static int provider_rank(const char *provider)
{
    int rank = 0;

    while (rank < PREFERRED && strcmp(provider, preferred[rank]) != 0) {
        rank++;
    }
    return rank;
}

/* Returns the rank of an address: IPv4 comes before IPv6. */
static int address_rank(const struct sockaddr *address)
{
    return address == NULL || address->sa_family == AF_INET ? 0 : 1;
}

static const struct sockaddr *info_sockaddr(const struct fi_info *info)
{
    bool is_ip = info->addr_format == FI_SOCKADDR || info->addr_format == FI_SOCKADDR_IN
                 || info->addr_format == FI_SOCKADDR_IN6;
    return is_ip ? info->src_addr : NULL;
}

/* Returns the interface that has an address; NULL if none does. */
static const struct ifaddrs *interface_of(const struct ifaddrs *interfaces,
                                          const struct sockaddr *ip)
{
    const struct ifaddrs *i = interfaces;

    while (i != NULL
           && (i->ifa_addr == NULL || i->ifa_netmask == NULL || !btl_ib_ip_same(i->ifa_addr, ip))) {
        i = i->ifa_next;
    }
    return i;
}

/* Fills in name, subnet and speed of the interface that has the device's address. */
static void device_describe_interface(btl_ib_device_t *device, const struct ifaddrs *interfaces)
{
    const struct ifaddrs *i = interface_of(interfaces, (const struct sockaddr *) &device->ip);

    if (i == NULL) {
        return;
    }
    btl_ib_device_set_interface(device, i->ifa_name);
    device->prefix_bits = btl_ib_ip_prefix(i->ifa_netmask);
    device->loopback = device->loopback || (i->ifa_flags & IFF_LOOPBACK) != 0;
    if (device->bandwidth == 0) {
        device->bandwidth = btl_ib_interface_speed(device->interface);
    }
}

/* Returns the name that users know: mlx5_0, where libfabric's domain may have another (as
 * mlx5_0-dgram). */
static const char *device_name(const struct fi_info *info)
{
    const struct fid_nic *nic = info->nic;

    if (nic != NULL && nic->device_attr != NULL && nic->device_attr->name != NULL) {
        return nic->device_attr->name;
    }
    return info->domain_attr->name;
}

/* Returns the number of a text as "0x1d0f"; 0 if there is none. */
static uint32_t number_of(const char *text)
{
    return text != NULL ? (uint32_t) strtoul(text, NULL, 0) : 0;
}

static void device_describe(btl_ib_device_t *device, const struct fi_info *info,
                            const struct ifaddrs *interfaces)
{
    const struct sockaddr *address = info_sockaddr(info);

    memset(device, 0, sizeof(*device));
    snprintf(device->transport, sizeof(device->transport), "ofi");
    snprintf(device->provider, sizeof(device->provider), "%s", info->fabric_attr->prov_name);
    device->plain = provider_rank(device->provider) >= PLAIN;
    snprintf(device->name, sizeof(device->name), "%s", device_name(info));
    device->ip.ss_family = AF_UNSPEC;
    if (info->nic != NULL && info->nic->device_attr != NULL) {
        device->vendor_id = number_of(info->nic->device_attr->vendor_id);
        device->part_id = number_of(info->nic->device_attr->device_id);
    }
    if (info->nic != NULL && info->nic->link_attr != NULL) {
        device->bandwidth = (uint32_t) (info->nic->link_attr->speed / 1000000);
    }
    if (address != NULL && info->src_addrlen <= sizeof(device->ip)) {
        memcpy(&device->ip, address, info->src_addrlen);
        device->loopback = btl_ib_ip_loopback(address);
        device_describe_interface(device, interfaces);
    }
}

/* Returns what we can work with, for fi_getinfo(); the caller frees it. NULL if memory is short. */
static struct fi_info *ofi_hints(const char *provider)
{
    struct fi_info *hints = fi_allocinfo();

    if (hints == NULL) {
        return NULL;
    }
    hints->ep_attr->type = FI_EP_DGRAM;
    hints->caps = FI_MSG;
    /* RX_CQ_DATA says what remote completion data cost, which we never send. */
    hints->mode = FI_MSG_PREFIX | FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
    /* All but LOCAL are about memory that peers reach, or keep to what we do anyway: verbs wants
     * them. */
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN; /* the engine's owner serialises */
    if (provider != NULL && provider[0] != '\0') {
        hints->fabric_attr->prov_name = strdup(provider);
    }
    return hints;
}

/*
 * Returns why a device is not listed, NULL if it is. Layers over another provider are reliable
 * already, at a price. A link-local address means another interface on each host. An interface
 * without a carrier (a bridge without members) leads nowhere, and often has one address on all
 * hosts.
 */
static const char *info_why_not(const struct fi_info *info, const struct ifaddrs *interfaces)
{
    const struct sockaddr *address = info_sockaddr(info);

    if (strchr(info->fabric_attr->prov_name, ';') != NULL) {
        return "a layer over another provider";
    }
    if (address == NULL) {
        return NULL;
    }
    if (btl_ib_ip_link_local(address)) {
        return "a link-local address";
    }
    const struct ifaddrs *interface = interface_of(interfaces, address);
    return interface != NULL ? btl_ib_interface_why_not(interface->ifa_flags) : NULL;
}

/* Returns the place of a device that was found before with another address, or the next free
 * place. */
static int devices_place(const btl_ib_device_t *list, int count, const struct fi_info *info)
{
    int i = 0;

    while (i < count
           && (strcmp(list[i].name, device_name(info)) != 0
               || strcmp(list[i].provider, info->fabric_attr->prov_name) != 0)) {
        i++;
    }
    return i;
}

/* Returns the rank of the best provider that has something to offer. */
static int provider_best_rank(const struct fi_info *all, const struct ifaddrs *interfaces)
{
    int best = PREFERRED;

    for (const struct fi_info *info = all; info != NULL; info = info->next) {
        int rank = provider_rank(info->fabric_attr->prov_name);
        best = rank < best && info_why_not(info, interfaces) == NULL ? rank : best;
    }
    return best;
}

/* Puts a device on the list unless it is there with an address as good. Returns the new count. */
static int devices_enter(struct fi_info *info, btl_ib_device_t *list, int count,
                         const struct ifaddrs *interfaces)
{
    int i = devices_place(list, count, info);

    if (i < count
        && address_rank(info_sockaddr(list[i].handle)) <= address_rank(info_sockaddr(info))) {
        fi_freeinfo(info);
        return count;
    }
    if (i < count) {
        fi_freeinfo(list[i].handle);
    }
    device_describe(&list[i], info, interfaces);
    list[i].handle = info;
    return i < count ? count : count + 1;
}

static int devices_collect(struct fi_info *all, btl_ib_device_t *list,
                           const struct ifaddrs *interfaces, const btl_ib_log_t *log)
{
    int best = provider_best_rank(all, interfaces);
    int count = 0;
    char name[160];

    for (struct fi_info *info = all; info != NULL; info = info->next) {
        const char *why = info_why_not(info, interfaces);
        if (why == NULL && provider_rank(info->fabric_attr->prov_name) != best) {
            why = "there is a better provider";
        }
        if (why != NULL) {
            snprintf(name, sizeof(name), "%s:%s on %s", info->fabric_attr->prov_name,
                     device_name(info), info->fabric_attr->name);
            btl_ib_devices_turn_down(log, "ofi", name, why);
            continue;
        }
        struct fi_info *copy = fi_dupinfo(info);
        if (copy == NULL) {
            return count;
        }
        count = devices_enter(copy, list, count, interfaces);
    }
    return count;
}

/* facts() of btl_ib_transport_type_t. The provider knows hardware; about other devices their
 * network interface is asked. */
static void ofi_facts(const btl_ib_device_t *device, btl_ib_facts_t *facts)
{
    const struct fi_info *info = device->handle;
    const struct fid_nic *nic = info->nic;

    *facts = (btl_ib_facts_t){.speed = device->bandwidth};
    if (device->interface[0] != '\0') {
        btl_ib_facts_interface(device->interface, facts);
    }
    if (nic != NULL && nic->device_attr != NULL && nic->device_attr->driver != NULL) {
        snprintf(facts->driver, sizeof(facts->driver), "%s", nic->device_attr->driver);
    }
    if (nic != NULL && nic->device_attr != NULL && nic->device_attr->firmware != NULL) {
        snprintf(facts->firmware, sizeof(facts->firmware), "%s", nic->device_attr->firmware);
    }
    if (nic != NULL && nic->link_attr != NULL && nic->link_attr->mtu > 0) {
        facts->mtu = (uint32_t) nic->link_attr->mtu;
    }
}

/* devices() of btl_ib_transport_type_t. A device's handle is its struct fi_info. */
static int ofi_devices(const btl_ib_search_t *search, btl_ib_device_t **out)
{
    const char *provider = search->provider;
    const btl_ib_log_t *log = &search->log;
    struct ifaddrs *interfaces = NULL;
    struct fi_info *all = NULL;
    char reason[192];
    int total = 0;

    *out = NULL;
    if (!btl_ib_library_load(&library, reason, sizeof(reason))) {
        btl_ib_devices_turn_down(log, "ofi", "", reason);
        return 0;
    }
    struct fi_info *hints = ofi_hints(provider);
    if (hints == NULL) {
        return -ENOMEM;
    }
    int rc = fi_getinfo(BTL_IB_OFI_VERSION, NULL, NULL, 0, hints, &all);
    fi_freeinfo(hints);
    if (rc != 0) {
        snprintf(reason, sizeof(reason), "no datagram provider%s%.64s: fi_getinfo: %s",
                 provider != NULL && provider[0] != '\0' ? " named " : "",
                 provider != NULL ? provider : "", fi_strerror(-rc));
        btl_ib_devices_turn_down(log, "ofi", "", reason);
        return rc == -FI_ENODATA ? 0 : -EIO;
    }
    for (struct fi_info *info = all; info != NULL; info = info->next) {
        total++;
    }
    *out = calloc((size_t) total, sizeof(**out));
    if (*out == NULL) {
        fi_freeinfo(all);
        return -ENOMEM;
    }
    (void) btl_ib_net_addresses_get(&interfaces, log); /* if it fails they stay nameless */
    int count = devices_collect(all, *out, interfaces, log);
    free(interfaces);
    fi_freeinfo(all);
    return count;
}

static void ofi_devices_free(btl_ib_device_t *list, int count)
{
    for (int i = 0; i < count; i++) {
        fi_freeinfo(list[i].handle);
    }
    free(list);
}

/* ---- the transport ---- */

enum {
    ADDRESS_VERSION = 1,
    ADDRESS_HEAD = 2, /* version and libfabric's address format, before the address itself */
    BATCH = 16,
    TX_DEPTH = 256,
    CQ_SPARE = 16,
    LARGEST = 65536, /* nobody asks for more in one datagram, and buffers have this size */
    ALIGN = 64,
};

/* The operation that libfabric hands back with a completion. A provider may want `context` for
 * itself (FI_CONTEXT, FI_CONTEXT2), so that comes first. */
typedef struct ofi_op {
    struct fi_context2 context;
    bool is_recv;
    union {
        uint8_t *data; /* of a receive: where its datagram is */
        void *caller;  /* of a send: its caller's context */
    };
    struct ofi_op *next; /* of sends: free ones; of receives: those that could not be posted */
} ofi_op_t;

typedef struct ofi {
    btl_ib_transport_t base;
    btl_ib_log_t log;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fid_mr *rx_mr;
    size_t tx_prefix; /* bytes that the provider wants before each datagram sent */
    size_t rx_prefix; /* bytes that the provider wants before each datagram received */
    size_t rx_size;   /* bytes of ours that a receive buffer holds */
    uint64_t rx_dropped;
    uint64_t next_key; /* of registrations: some providers want them to differ */
    int tx_error;      /* the last error that was logged */
    bool rx_busy;      /* the last poll() found something */
    uint8_t *rx_memory;
    ofi_op_t *rx_ops;
    ofi_op_t *rx_waiting;
    ofi_op_t *tx_ops;
    ofi_op_t *tx_free;
    uint32_t tx_out; /* tx_ops that the provider has */
} ofi_t;

static ofi_t *ofi_of(btl_ib_transport_t *t)
{
    return (ofi_t *) t;
}

/* Logs what went wrong. Returns a negative errno: libfabric's codes are errnos up to 255. */
static int ofi_failed(const ofi_t *ofi, const char *call, int rc)
{
    if (ofi->log.print != NULL) {
        ofi->log.print(ofi->log.context, 1, "%s: %s: %s", ofi->base.name, call, fi_strerror(-rc));
    }
    return -rc < 256 ? rc : -EIO;
}

/* Returns 0 for a call that succeeded; else as ofi_failed(). */
static int ofi_check(const ofi_t *ofi, const char *call, int rc)
{
    return rc == 0 ? 0 : ofi_failed(ofi, call, rc);
}

/* ---- sending ---- */

/* Sends a datagram. Returns libfabric's errno, 0 if it is on its way. */
static int ofi_send_one(ofi_t *ofi, const btl_ib_tx_t *tx)
{
    uint8_t *data = (uint8_t *) tx->iov[0].iov_base - ofi->tx_prefix;
    size_t size = tx->size + ofi->tx_prefix;
    ssize_t rc;

    if (tx->size > ofi->base.attr.max_datagram) {
        return EMSGSIZE;
    }
    if (tx->size <= ofi->base.attr.inline_size) {
        rc = fi_inject(ofi->ep, data, size, tx->to);
        return (int) -rc;
    }
    ofi_op_t *op = ofi->tx_free;
    if (op == NULL) {
        return EAGAIN;
    }
    op->caller = tx->context;
    rc = fi_send(ofi->ep, data, size, tx->mem != NULL ? fi_mr_desc(tx->mem) : NULL, tx->to,
                 &op->context);
    if (rc == 0) {
        ofi->tx_free = op->next;
        ofi->tx_out++;
    }
    return (int) -rc;
}

/* Logs the error of a send; not full queues, which are normal, nor an error that is repeated. */
static void ofi_log_send_error(ofi_t *ofi, const char *call, int error)
{
    if (error == EAGAIN || error == ENOBUFS || error == ofi->tx_error || ofi->log.print == NULL) {
        return;
    }
    ofi->tx_error = error;
    ofi->log.print(ofi->log.context, 10, "%s: a send failed: %s: %s", ofi->base.name, call,
                   fi_strerror(error));
}

static int ofi_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    for (int i = 0; i < n; i++) {
        int rc = ofi_send_one(ofi_of(t), &batch[i]);
        if (rc != 0) {
            ofi_log_send_error(ofi_of(t),
                               batch[i].size <= t->attr.inline_size ? "fi_inject" : "fi_send", rc);
            /* With no send on its way it is not the queue that is full: it may never be taken. */
            const bool refused = (rc == EAGAIN || rc == ENOMEM) && ofi_of(t)->tx_out == 0;
            *error = refused ? ENOBUFS : rc < 256 ? rc : EIO;
            return i;
        }
    }
    return n;
}

/* ---- receiving ---- */

/* Returns the bytes of a posted buffer: one more than we take, as the udp provider says nothing of
 * a datagram that it had to cut. */
static size_t rx_posted_size(const ofi_t *ofi)
{
    return ofi->rx_prefix + ofi->rx_size + 1;
}

static int ofi_post(ofi_t *ofi, ofi_op_t *op, uint64_t flags)
{
    struct iovec iov = {
        .iov_base = op->data - ofi->rx_prefix,
        .iov_len = rx_posted_size(ofi),
    };
    void *desc = ofi->rx_mr != NULL ? fi_mr_desc(ofi->rx_mr) : NULL;
    struct fi_msg msg = {
        .msg_iov = &iov,
        .desc = &desc,
        .iov_count = 1,
        .addr = FI_ADDR_UNSPEC,
        .context = &op->context,
    };
    return (int) fi_recvmsg(ofi->ep, &msg, flags);
}

/* Posts buffers that an earlier call could not post. */
static void ofi_post_waiting(ofi_t *ofi)
{
    while (ofi->rx_waiting != NULL && ofi_post(ofi, ofi->rx_waiting, 0) == 0) {
        ofi->rx_waiting = ofi->rx_waiting->next;
    }
}

static void ofi_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    ofi_t *ofi = ofi_of(t);

    ofi_post_waiting(ofi);
    for (int i = 0; i < n; i++) {
        ofi_op_t *op = buffers[i];
        int rc = ofi_post(ofi, op, i + 1 < n ? FI_MORE : 0);
        if (rc != 0) { /* the next call tries again */
            op->next = ofi->rx_waiting;
            ofi->rx_waiting = op;
            if (rc != -FI_EAGAIN) {
                ofi_failed(ofi, "fi_recvmsg", rc);
            }
        }
    }
}

static void ofi_drop(ofi_t *ofi, ofi_op_t *op, const char *why)
{
    void *buffer = op;

    ofi->rx_dropped++;
    if (ofi->log.print != NULL) {
        ofi->log.print(ofi->log.context, 10, "%s: datagram dropped: %s (%llu so far)",
                       ofi->base.name, why, (unsigned long long) ofi->rx_dropped);
    }
    ofi_repost(&ofi->base, &buffer, 1);
}

static void ofi_sent(ofi_t *ofi, ofi_op_t *op, btl_ib_event_t *event)
{
    event->type = BTL_IB_EVENT_SENT;
    event->context = op->caller;
    op->next = ofi->tx_free;
    ofi->tx_free = op;
    ofi->tx_out--;
}

/* Handles a completion with an error: of a datagram, which is lost but its memory is not, or of the
 * device. One without a context is that of fi_inject(): all others have one, and usnic leaves the
 * flags out. Returns how many events that makes. */
static int ofi_read_error(ofi_t *ofi, btl_ib_event_t *event)
{
    struct fi_cq_err_entry entry = {0};

    if (fi_cq_readerr(ofi->cq, &entry, 0) != 1) {
        return 0;
    }
    ofi_op_t *op = entry.op_context;
    if (op != NULL && op->is_recv
        && (entry.err == FI_ETRUNC || entry.err == FI_EMSGSIZE || entry.err == FI_ECRC
            || entry.err == FI_EADDRNOTAVAIL)) {
        ofi_drop(ofi, op, fi_strerror(entry.err));
        return 0;
    }
    if (op == NULL || !op->is_recv) {
        ofi_log_send_error(ofi, "fi_cq_readerr", entry.err);
        if (op != NULL) {
            ofi_sent(ofi, op, event);
        }
        return op != NULL;
    }
    ofi_failed(ofi, "fi_cq_readerr", -entry.err);
    event->type = BTL_IB_EVENT_FAILED;
    event->error = entry.err < 256 ? entry.err : EIO;
    return 1;
}

/* Makes an event of a completion. Returns how many that are. */
static int ofi_take(ofi_t *ofi, const struct fi_cq_msg_entry *entry, fi_addr_t from,
                    btl_ib_event_t *event)
{
    ofi_op_t *op = entry->op_context;

    if (!op->is_recv) {
        ofi_sent(ofi, op, event);
        return 1;
    }
    if (entry->len > ofi->rx_prefix + ofi->rx_size) {
        ofi_drop(ofi, op, "too long");
        return 0;
    }
    event->type = BTL_IB_EVENT_RECV;
    event->data = op->data;
    event->size = entry->len > ofi->rx_prefix ? (uint32_t) (entry->len - ofi->rx_prefix) : 0;
    event->from = from == FI_ADDR_NOTAVAIL ? BTL_IB_ADDR_UNKNOWN : from;
    event->buffer = op;
    return 1;
}

/* Reads completions once. Returns how many events they made; *more says whether to ask again. */
static int ofi_read(ofi_t *ofi, btl_ib_event_t *events, int max, bool *more)
{
    struct fi_cq_msg_entry entries[BATCH];
    fi_addr_t from[BATCH];
    size_t want = max < BATCH ? (size_t) max : BATCH;
    bool knows = ofi->base.attr.knows_source;
    int count = 0;
    ssize_t n =
        knows ? fi_cq_readfrom(ofi->cq, entries, want, from) : fi_cq_read(ofi->cq, entries, want);

    *more = n > 0 || n == -FI_EAVAIL;
    if (n == -FI_EAGAIN) {
        return 0;
    }
    if (n == -FI_EAVAIL) {
        return ofi_read_error(ofi, events);
    }
    if (n < 0) {
        ofi_failed(ofi, "fi_cq_read", (int) n);
        events[0].type = BTL_IB_EVENT_FAILED;
        events[0].error = -n < 256 ? (int) -n : EIO;
        return 1;
    }
    for (ssize_t i = 0; i < n; i++) {
        count += ofi_take(ofi, &entries[i], knows ? from[i] : FI_ADDR_NOTAVAIL, &events[count]);
    }
    return count;
}

/*
 * A provider may make one completion a call (udp: one system call, one datagram), so a batch takes
 * several calls. But the first datagram after a silence is handed up at once: a process that waits
 * for an answer gains nothing by another call.
 */
static int ofi_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    ofi_t *ofi = ofi_of(t);
    bool more = true;
    int count = 0;

    (void) now;
    if (ofi->rx_waiting != NULL) {
        ofi_post_waiting(ofi);
    }
    for (int reads = 0; more && count < max && reads < max; reads++) {
        count += ofi_read(ofi, events + count, max - count, &more);
        more = more && ofi->rx_busy;
    }
    ofi->rx_busy = count > 0;
    return count;
}

/* ---- addresses and memory ---- */

static int ofi_addr_add(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr)
{
    ofi_t *ofi = ofi_of(t);
    const uint8_t *head = bytes;
    fi_addr_t found = FI_ADDR_NOTAVAIL;

    /* Our own address is of the same kind, so what differs in kind or length is no address. */
    if (len != ofi->base.address_len || head[0] != ADDRESS_VERSION
        || memcmp(head, ofi->base.address, ADDRESS_HEAD) != 0) {
        return -EINVAL;
    }
    if (ofi->info->addr_format == FI_SOCKADDR_IN || ofi->info->addr_format == FI_SOCKADDR_IN6) {
        struct sockaddr ours, theirs; /* unaligned in the blob */
        memcpy(&ours, ofi->base.address + ADDRESS_HEAD, sizeof(ours));
        memcpy(&theirs, head + ADDRESS_HEAD, sizeof(theirs));
        if (ours.sa_family != theirs.sa_family) {
            return -EINVAL;
        }
    }
    uint64_t copy[BTL_IB_ADDR_BYTES / sizeof(uint64_t)];
    memcpy(copy, head + ADDRESS_HEAD, len - ADDRESS_HEAD);
    int rc = fi_av_insert(ofi->av, copy, 1, &found, 0, NULL);
    if (rc != 1 || found == FI_ADDR_NOTAVAIL) {
        return rc < 0 ? ofi_failed(ofi, "fi_av_insert", rc) : -EHOSTUNREACH;
    }
    *addr = found;
    return 0;
}

/* address_text() of btl_ib_transport_ops_t. Only the provider knows what other formats than IP
 * mean. */
static bool ofi_address_text(const void *bytes, size_t len, char *out, size_t out_len)
{
    const uint8_t *head = bytes;
    struct sockaddr_in v4; /* unaligned in the blob */
    struct sockaddr_in6 v6;

    if (len == ADDRESS_HEAD + sizeof(v4) && head[1] == FI_SOCKADDR_IN) {
        memcpy(&v4, head + ADDRESS_HEAD, sizeof(v4));
        (void) btl_ib_ip_port_text((const struct sockaddr *) &v4, out, out_len);
        return true;
    }
    if (len == ADDRESS_HEAD + sizeof(v6) && head[1] == FI_SOCKADDR_IN6) {
        memcpy(&v6, head + ADDRESS_HEAD, sizeof(v6));
        (void) btl_ib_ip_port_text((const struct sockaddr *) &v6, out, out_len);
        return true;
    }
    return false;
}

static void ofi_addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    fi_addr_t gone = addr;
    (void) fi_av_remove(ofi_of(t)->av, &gone, 1, 0);
}

static int ofi_mem_register(btl_ib_transport_t *t, void *base, size_t size, void **handle)
{
    ofi_t *ofi = ofi_of(t);
    struct fid_mr *mr;

    *handle = NULL;
    if (ofi->base.attr.registered_page == 0) {
        return 0;
    }
    int rc = fi_mr_reg(ofi->domain, base, size, FI_SEND, 0, ofi->next_key++, 0, &mr, NULL);
    if (rc != 0) {
        return ofi_failed(ofi, "fi_mr_reg", rc);
    }
    *handle = mr;
    return 0;
}

static void ofi_mem_deregister(btl_ib_transport_t *t, void *handle)
{
    (void) t;
    if (handle != NULL) {
        fi_close(&((struct fid_mr *) handle)->fid);
    }
}

static int ofi_wait_fd(btl_ib_transport_t *t)
{
    (void) t;
    return -1; /* a completion queue that can be waited for costs a system call a datagram */
}

/* ---- opening and closing ---- */

static void close_fid(void *object)
{
    struct fid *fid = object;
    if (fid != NULL) {
        (void) fi_close(fid);
    }
}

static void ofi_stop(btl_ib_transport_t *t)
{
    ofi_t *ofi = ofi_of(t);

    close_fid(ofi->ep);
    ofi->ep = NULL;
}

static void ofi_close(btl_ib_transport_t *t)
{
    ofi_t *ofi = ofi_of(t);

    ofi_stop(t);
    close_fid(ofi->rx_mr);
    close_fid(ofi->cq);
    close_fid(ofi->av);
    close_fid(ofi->domain);
    close_fid(ofi->fabric);
    fi_freeinfo(ofi->info);
    free(ofi->rx_memory);
    free(ofi->rx_ops);
    free(ofi->tx_ops);
    free(ofi);
}

static const btl_ib_transport_ops_t ofi_ops = {
    .send = ofi_send,
    .poll = ofi_poll,
    .repost = ofi_repost,
    .addr_add = ofi_addr_add,
    .addr_remove = ofi_addr_remove,
    .address_text = ofi_address_text,
    .mem_register = ofi_mem_register,
    .mem_deregister = ofi_mem_deregister,
    .wait_fd = ofi_wait_fd,
    .stop = ofi_stop,
    .close = ofi_close,
};

/* Returns the bytes that the provider wants before a datagram. `mode` is that of the direction:
 * verbs wants room before received ones only. */
static size_t info_prefix(const struct fi_info *info, uint64_t mode)
{
    return mode & FI_MSG_PREFIX ? info->ep_attr->msg_prefix_size : 0;
}

static int info_query(const struct fi_info *info, uint32_t mtu, btl_ib_transport_attr_t *attr)
{
    size_t prefix = info_prefix(info, info->tx_attr->mode);
    size_t counted = info->ep_attr->msg_prefix_size; /* some providers count it in max_msg_size */

    if (info->ep_attr->max_msg_size <= counted) {
        return -EINVAL;
    }
    size_t largest = info->ep_attr->max_msg_size - counted;
    size_t most = mtu != 0 && mtu < LARGEST ? mtu : LARGEST;
    bool local = info->domain_attr->mr_mode & FI_MR_LOCAL;
    size_t inject = info->tx_attr->inject_size;
    *attr = (btl_ib_transport_attr_t){
        .max_datagram = (uint32_t) (largest < most ? largest : most),
        .inline_size = inject > prefix ? (uint32_t) (inject - prefix) : 0,
        .max_iov = 1, /* fi_inject() of one piece is the cheapest way out; gathering needs more */
        .max_batch = BATCH,
        .tx_depth = TX_DEPTH < info->tx_attr->size ? TX_DEPTH : (uint32_t) info->tx_attr->size,
        .rx_depth = (uint32_t) info->rx_attr->size,
        .headroom = (uint32_t) prefix,
        .registered_page = local ? (uint32_t) sysconf(_SC_PAGESIZE) : 0,
        .knows_source = info->caps & FI_SOURCE,
    };
    return 0;
}

static int ofi_query(const btl_ib_device_t *device, uint32_t mtu, btl_ib_transport_attr_t *attr)
{
    int rc = info_query(device->handle, mtu, attr);
    attr->bandwidth = rc == 0 ? device->bandwidth : 0;
    return rc;
}

/* Opens libfabric's objects, in the order in which they depend on each other. */
static int ofi_open_objects(ofi_t *ofi)
{
    struct fi_av_attr av = {.type = ofi->info->domain_attr->av_type};
    struct fi_cq_attr cq = {
        .size = ofi->base.attr.rx_depth + ofi->base.attr.tx_depth + CQ_SPARE,
        .format = FI_CQ_FORMAT_MSG,
        .wait_obj = FI_WAIT_NONE,
    };

    int rc = ofi_check(ofi, "fi_fabric", fi_fabric(ofi->info->fabric_attr, &ofi->fabric, NULL));
    if (rc == 0) {
        rc = ofi_check(ofi, "fi_domain", fi_domain(ofi->fabric, ofi->info, &ofi->domain, NULL));
    }
    if (rc == 0) {
        rc = ofi_check(ofi, "fi_av_open", fi_av_open(ofi->domain, &av, &ofi->av, NULL));
    }
    if (rc == 0) {
        rc = ofi_check(ofi, "fi_cq_open", fi_cq_open(ofi->domain, &cq, &ofi->cq, NULL));
    }
    if (rc == 0) {
        rc = ofi_check(ofi, "fi_endpoint", fi_endpoint(ofi->domain, ofi->info, &ofi->ep, NULL));
    }
    if (rc == 0) {
        rc = ofi_check(ofi, "fi_ep_bind", fi_ep_bind(ofi->ep, &ofi->av->fid, 0));
    }
    if (rc == 0) {
        rc =
            ofi_check(ofi, "fi_ep_bind", fi_ep_bind(ofi->ep, &ofi->cq->fid, FI_TRANSMIT | FI_RECV));
    }
    return rc != 0 ? rc : ofi_check(ofi, "fi_enable", fi_enable(ofi->ep));
}

/* Returns the bytes from one receive buffer to the next. */
static size_t rx_stride(const ofi_t *ofi, size_t lead)
{
    return (lead - ofi->rx_prefix + rx_posted_size(ofi) + ALIGN - 1) / ALIGN * ALIGN;
}

static uint32_t at_most(uint32_t wanted, uint32_t most)
{
    return wanted != 0 && wanted < most ? wanted : most;
}

static void ofi_memory_estimate(const btl_ib_open_params_t *open,
                                const btl_ib_transport_attr_t *attr, uint32_t peers,
                                btl_ib_memory_estimate_t *estimate)
{
    const ofi_t ofi = {.rx_size = at_most(open->rx_size, attr->max_datagram)};
    const uint64_t rx_depth = at_most(open->rx_depth, attr->rx_depth);
    const uint64_t tx_depth = at_most(open->tx_depth, attr->tx_depth);

    (void) peers; /* the provider has their addresses */
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, sizeof(ofi), 0, "transport");
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS,
                        rx_depth * (rx_stride(&ofi, 0) + sizeof(ofi_op_t)), 0,
                        "%u receive buffers of %zu bytes", (unsigned) rx_depth, ofi.rx_size);
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, tx_depth * sizeof(ofi_op_t), 0, "sends");
}

static int ofi_make_buffers(ofi_t *ofi)
{
    uint32_t tx_depth = ofi->base.attr.tx_depth;
    uint32_t rx_depth = ofi->base.attr.rx_depth;
    size_t lead = (ofi->rx_prefix + 7) / 8 * 8; /* so that datagrams are aligned behind it */
    size_t stride = rx_stride(ofi, lead);
    size_t unit = ofi->base.attr.registered_page > 0 ? ofi->base.attr.registered_page : ALIGN;
    size_t total = (stride * rx_depth + unit - 1) / unit * unit;
    int rc;

    ofi->rx_memory = aligned_alloc(unit, total);
    ofi->rx_ops = calloc(rx_depth, sizeof(*ofi->rx_ops));
    ofi->tx_ops = calloc(tx_depth, sizeof(*ofi->tx_ops));
    if (ofi->rx_memory == NULL || ofi->rx_ops == NULL || ofi->tx_ops == NULL) {
        return -ENOMEM;
    }
    if (ofi->base.attr.registered_page > 0
        && (rc = fi_mr_reg(ofi->domain, ofi->rx_memory, total, FI_RECV, 0, ofi->next_key++, 0,
                           &ofi->rx_mr, NULL))
               != 0) {
        return ofi_failed(ofi, "fi_mr_reg", rc);
    }
    for (uint32_t i = 0; i < tx_depth; i++) {
        ofi->tx_ops[i].next = ofi->tx_free;
        ofi->tx_free = &ofi->tx_ops[i];
    }
    for (uint32_t i = 0; i < rx_depth; i++) {
        ofi->rx_ops[i].is_recv = true;
        ofi->rx_ops[i].data = ofi->rx_memory + i * stride + lead;
        if ((rc = ofi_post(ofi, &ofi->rx_ops[i], i + 1 < rx_depth ? FI_MORE : 0)) != 0) {
            return ofi_failed(ofi, "fi_recvmsg", rc);
        }
    }
    return 0;
}

static int ofi_publish(ofi_t *ofi)
{
    uint64_t name[BTL_IB_ADDR_BYTES / sizeof(uint64_t)];
    size_t len = sizeof(name) - ADDRESS_HEAD;
    int rc = fi_getname(&ofi->ep->fid, name, &len);

    if (rc != 0) {
        return ofi_failed(ofi, "fi_getname", rc);
    }
    ofi->base.address[0] = ADDRESS_VERSION;
    ofi->base.address[1] = (uint8_t) ofi->info->addr_format;
    memcpy(ofi->base.address + ADDRESS_HEAD, name, len);
    ofi->base.address_len = (uint32_t) len + ADDRESS_HEAD;
    return 0;
}

/* Asks for the device once more, with sources of datagrams if the provider tells them. */
static struct fi_info *info_choose(const struct fi_info *device)
{
    struct fi_info *hints = fi_dupinfo(device);
    struct fi_info *info = NULL;

    if (hints == NULL) {
        return NULL;
    }
    hints->caps = FI_MSG | FI_SOURCE;
    hints->tx_attr->caps = 0;
    hints->rx_attr->caps = 0;
    if (fi_getinfo(BTL_IB_OFI_VERSION, NULL, NULL, 0, hints, &info) != 0) {
        fi_freeinfo(hints);
        return fi_dupinfo(device);
    }
    fi_freeinfo(hints);
    return info;
}

static int ofi_open(const btl_ib_device_t *device, const btl_ib_open_params_t *params,
                    btl_ib_transport_t **out)
{
    ofi_t *ofi = calloc(1, sizeof(*ofi));
    int rc;

    if (ofi == NULL) {
        return -ENOMEM;
    }
    ofi->base.ops = &ofi_ops;
    ofi->log = params->log;
    snprintf(ofi->base.name, sizeof(ofi->base.name), "ofi/%.20s:%.38s", device->provider,
             device->name);
    ofi->info = info_choose(device->handle);
    rc = ofi->info == NULL ? -ENOMEM : info_query(ofi->info, params->mtu, &ofi->base.attr);
    if (rc == 0) {
        btl_ib_transport_attr_t *attr = &ofi->base.attr;
        ofi->base.attr.bandwidth = device->bandwidth;
        ofi->tx_prefix = info_prefix(ofi->info, ofi->info->tx_attr->mode);
        ofi->rx_prefix = info_prefix(ofi->info, ofi->info->rx_attr->mode);
        ofi->rx_size = at_most(params->rx_size, attr->max_datagram);
        attr->rx_depth = at_most(params->rx_depth, attr->rx_depth);
        attr->tx_depth = at_most(params->tx_depth, attr->tx_depth);
        rc = ofi_open_objects(ofi);
    }
    if (rc == 0) {
        rc = ofi_make_buffers(ofi);
    }
    if (rc == 0) {
        rc = ofi_publish(ofi);
    }
    if (rc != 0) {
        ofi_close(&ofi->base);
        return rc;
    }
    *out = &ofi->base;
    return 0;
}

const btl_ib_transport_type_t btl_ib_ofi_type = {
    .name = "ofi",
    .default_queues = "P,256,256,128,32:S,65536,1024,512,64",
    .shared_unused = BTL_IB_SHARED_LOW | BTL_IB_SHARED_GROWTH, /* all are posted, each at once */
    .devices = ofi_devices,
    .devices_free = ofi_devices_free,
    .query = ofi_query,
    .open = ofi_open,
    .memory_estimate = ofi_memory_estimate,
    .facts = ofi_facts,
    .library = ofi_library,
};
