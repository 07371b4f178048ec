/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "transport.h"

#include "device_filter.h"
#include "net_interfaces.h"
#include "udp_path_mtu.h"
#include "udp_peers.h"
#include "udp.h"
#include "udp_sockets.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- devices ---- */

static uint32_t at_most(uint32_t size, uint32_t most)
{
    return size < most ? size : most;
}

/* Sets *most to the bytes of the largest datagram that the device's interface carries without
 * fragments; 0: unknown. Returns NULL, or the system call that failed, with errno. */
static const char *udp_ask_datagram(const btl_ib_device_t *device, uint32_t *most)
{
    struct ifreq request = {.ifr_mtu = 0};
    const char *failed = btl_ib_interface_ask(device->interface, SIOCGIFMTU, &request);

    *most = failed == NULL && request.ifr_mtu > 0
                ? at_most(btl_ib_udp_mtu_datagram(device->ip.ss_family, (uint32_t) request.ifr_mtu),
                          BTL_IB_UDP_DATAGRAM_MOST)
                : 0;
    return failed;
}

/* ---- states of IPv6 addresses ---- */

typedef struct states {
    btl_ib_inet6_t *of;
    size_t count;
} states_t;

/* Returns the flags of an address; 0 if it is not in the list, as for a usable address. */
static uint32_t states_flags(const states_t *states, const struct sockaddr *address)
{
    size_t len;
    const uint8_t *bytes = btl_ib_ip_bytes(address, &len);

    for (size_t i = 0; len == sizeof(struct in6_addr) && i < states->count; i++) {
        if (memcmp(&states->of[i].ip, bytes, len) == 0) {
            return states->of[i].flags;
        }
    }
    return 0;
}

/* True if an interface has an IP address. `local`: link-local ones of IPv6, which every interface
 * has, count, too. */
static bool interface_has_ip(const struct ifaddrs *all, const char *name, bool local)
{
    size_t len;
    const struct ifaddrs *i = all;

    while (i != NULL
           && (i->ifa_addr == NULL || btl_ib_ip_bytes(i->ifa_addr, &len) == NULL
               || (!local && btl_ib_ip_link_local(i->ifa_addr))
               || !btl_ib_interface_same(i->ifa_name, name))) {
        i = i->ifa_next;
    }
    return i != NULL;
}

/* Returns why an address is not used, a literal; NULL: it is used. */
static const char *address_why_not(const struct ifaddrs *all, const struct ifaddrs *i,
                                   uint32_t flags)
{
    if (btl_ib_interface_why_not(i->ifa_flags) != NULL) {
        return btl_ib_interface_why_not(i->ifa_flags);
    }
    if (i->ifa_netmask == NULL) {
        return "its address is in no network";
    }
    if (btl_ib_ip_link_local(i->ifa_addr) && interface_has_ip(all, i->ifa_name, false)) {
        return "its address is link-local, and it has others";
    }
    if (flags & IFA_F_DADFAILED) {
        return "another host has its IPv6 address, too (dadfailed)";
    }
    if ((flags & (IFA_F_TENTATIVE | IFA_F_OPTIMISTIC)) == IFA_F_TENTATIVE) {
        return "its IPv6 address is not known to be its own yet (tentative)";
    }
    return NULL;
}

static void device_describe(const struct ifaddrs *i, btl_ib_device_t *device)
{
    const bool v4 = i->ifa_addr->sa_family == AF_INET;

    memset(device, 0, sizeof(*device));
    snprintf(device->transport, sizeof(device->transport), "udp");
    snprintf(device->name, sizeof(device->name), "%s", i->ifa_name);
    btl_ib_device_set_interface(device, i->ifa_name);
    memcpy(&device->ip, i->ifa_addr, v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    device->plain = true;
    device->prefix_bits = btl_ib_ip_prefix(i->ifa_netmask);
    /* The address is that of a VPN, whose traffic usually goes over another interface of this host;
     * or it is on "lo", and routers reach it over any of the host's links. */
    if (i->ifa_flags & (IFF_POINTOPOINT | IFF_LOOPBACK)) {
        device->rank = BTL_IB_RANK_LAST;
    }
    device->loopback = btl_ib_ip_loopback(i->ifa_addr);
    device->bandwidth = i->ifa_flags & IFF_LOOPBACK ? 0 : btl_ib_interface_speed(device->interface);
}

/* Adds the addresses of one family, in the system's order. Returns the new count. */
static int devices_collect(const struct ifaddrs *all, sa_family_t family, const states_t *states,
                           const btl_ib_log_t *log, btl_ib_device_t *list, int count)
{
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != family) {
            continue;
        }
        const uint32_t flags = states_flags(states, i->ifa_addr);
        const char *why = address_why_not(all, i, flags);
        if (why == NULL) {
            device_describe(i, &list[count]);
            /* The system will remove both kinds of addresses some time (RFC 4862, 5.5.4; RFC
             * 8981). */
            if (flags & (IFA_F_DEPRECATED | IFA_F_TEMPORARY)) {
                list[count].rank = BTL_IB_RANK_LAST;
            }
            count++;
        } else {
            btl_ib_devices_turn_down(log, "udp", i->ifa_name, why);
        }
    }
    return count;
}

/* Turns down interfaces without an IP address. (The list has them with their hardware address, or
 * with none.) */
static void turn_down_without_ip(const struct ifaddrs *all, const btl_ib_log_t *log)
{
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        if (!interface_has_ip(all, i->ifa_name, true)) {
            btl_ib_devices_turn_down(log, "udp", i->ifa_name,
                                     i->ifa_flags & IFF_UP ? "it has no IP address"
                                                           : "it is down and has no IP address");
        }
    }
}

static void udp_facts(const btl_ib_device_t *device, btl_ib_facts_t *facts)
{
    btl_ib_facts_interface(device->interface, facts);
}

static int udp_devices(const btl_ib_search_t *search, btl_ib_device_t **list)
{
    struct ifaddrs *all = NULL;
    int count = 0;

    *list = NULL;
    if (search->provider != NULL && search->provider[0] != '\0') { /* only libfabric is wanted */
        return 0;
    }
    const int rc = btl_ib_net_addresses_get(&all, &search->log);
    if (rc != 0) {
        return rc;
    }
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        count++;
    }
    *list = calloc((size_t) count + 1, sizeof(**list));
    if (*list == NULL) {
        free(all);
        return -ENOMEM;
    }
    states_t states;
    (void) btl_ib_net_inet6_get(&states.of, &states.count);
    count = devices_collect(all, AF_INET, &states, &search->log, *list, 0);
    count = devices_collect(all, AF_INET6, &states, &search->log, *list, count);
    free(states.of);
    turn_down_without_ip(all, &search->log);
    free(all);
    return count;
}

static void udp_devices_free(btl_ib_device_t *list, int count)
{
    (void) count;
    free(list);
}

/* ---- changes of an interface's address: by DHCP, or an administrator ---- */

static const struct sockaddr *ip_of(const btl_ib_device_t *device)
{
    return (const struct sockaddr *) (const void *) &device->ip;
}

/* True if the device's address is gone. Tries bind(2), which works for both families, and also
 * where netlink is denied. (Errors of sends do not show it, as IPv6 goes on sending from such an
 * address. With net.ipv4.ip_nonlocal_bind bind() does not show it, either.) */
static bool address_check_gone(const btl_ib_device_t *device)
{
    btl_ib_udp_name_t name;
    const int fd = socket(device->ip.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return false;
    }
    memcpy(&name, &device->ip, sizeof(name));
    btl_ib_udp_name_set_port(&name, 0);
    const bool gone =
        bind(fd, &name.any, btl_ib_udp_name_len(&name)) != 0 && errno == EADDRNOTAVAIL;
    (void) close(fd);
    return gone;
}

static bool address_in_subnet(const btl_ib_device_t *device, const btl_ib_device_t *before)
{
    size_t len;

    return btl_ib_ip_same_bits(btl_ib_ip_bytes(ip_of(device), &len),
                               btl_ib_ip_bytes(ip_of(before), &len), before->prefix_bits);
}

/* Finds a new address for `device` if this host no longer has the device's: another one of the
 * interface, of the same family, and preferably in the same subnet. Returns whether `device` has
 * changed. Makes three system calls while the address is there, else some dozens. */
__attribute__((noinline)) static bool udp_address_changed(btl_ib_device_t *device)
{
    const btl_ib_search_t search = {.provider = NULL};
    btl_ib_device_t *list = NULL;
    const btl_ib_device_t *found = NULL;

    if (!address_check_gone(device)) {
        return false;
    }
    const int count = udp_devices(&search, &list);
    for (int i = 0; i < count; i++) {
        if (list[i].ip.ss_family == device->ip.ss_family
            && strcmp(list[i].interface, device->interface) == 0
            && !btl_ib_ip_same(ip_of(&list[i]), ip_of(device))
            && (found == NULL
                || (!address_in_subnet(found, device) && address_in_subnet(&list[i], device)))) {
            found = &list[i];
        }
    }
    if (found != NULL) {
        const struct sockaddr_storage published = device->published;

        *device = *found;
        device->published = published;
    }
    udp_devices_free(list, count);
    return found != NULL;
}

/* ---- memory forecast ---- */

/* Returns the bytes of a socket's buffer for which `wanted` bytes are asked: as the kernel counts,
 * twice as many, but at most twice the limit in the file `limit`. */
static uint64_t buffer_granted(const char *limit, uint32_t wanted)
{
    uint64_t most;

    return 2 * (btl_ib_file_number(limit, &most) && most > 0 && most < wanted ? most : wanted);
}

static void udp_memory_estimate(const btl_ib_open_params_t *open,
                                const btl_ib_transport_attr_t *attr, uint32_t peers,
                                btl_ib_memory_estimate_t *estimate)
{
    const uint32_t wanted = btl_ib_udp_socket_wanted(open->socket_buffer);
    const uint64_t socket = buffer_granted("/proc/sys/net/core/rmem_max", wanted)
                            + buffer_granted("/proc/sys/net/core/wmem_max", wanted);
    const uint64_t shared = btl_ib_udp_wants_lane(open) ? 2 : 1;
    const uint64_t table =
        btl_ib_addr_table_places(peers) * (sizeof(btl_ib_udp_peer_t) + sizeof(uint32_t));
    uint64_t connected = open->connected_max;

    (void) attr;
    connected = connected < BTL_IB_UDP_CONNECTED_MAX ? connected : BTL_IB_UDP_CONNECTED_MAX;
    connected = connected < peers ? connected : peers;
    btl_ib_estimate_queues(estimate, shared, 0);
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, sizeof(btl_ib_udp_t), 0, "transport");
    /* Buffers for what calls read; what waits to be read is in the sockets' buffers, below. */
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS,
                        peers > 0 ? sizeof(btl_ib_udp_buffer_t) : 0,
                        (uint64_t) BTL_IB_UDP_BUFFERS_MAX * sizeof(btl_ib_udp_buffer_t),
                        "receive buffers of 64 KiB");
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, table, 0, "addresses of peers");
    const uint64_t spare = 1;
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_KERNEL, shared * socket,
                        (shared + connected + spare) * socket, "buffers of sockets");
}

/* ---- sending and receiving ---- */

static int udp_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);
    const int sent = btl_ib_udp_send(&udp->tx, batch, n, error);

    if (!udp->tx.gso) {
        t->attr.gso_bytes = 0; /* the device failed to split a message */
    }
    return sent;
}

/* Makes events of errors, if there are any, and then of datagrams that are pending. Returns how
 * many; 0 if there are no errors. Not inlined, as errors are rare. */
__attribute__((noinline)) static int udp_take_errors(btl_ib_udp_t *udp, btl_ib_event_t *events,
                                                     int max)
{
    const int errors = btl_ib_udp_errors_take(&udp->errors, events, max);

    udp->base.refused = udp->errors.refused;
    return errors == 0
               ? 0
               : errors
                     + btl_ib_udp_recv_events(&udp->rx, &udp->peers, events + errors, max - errors);
}

static int udp_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);

    if (btl_ib_udp_errors_any(&udp->errors)) {
        const int taken = udp_take_errors(udp, events, max);
        if (taken > 0) {
            return taken;
        }
    }
    if (udp->rx.pending_count == 0) {
        if (!btl_ib_udp_poll_sockets(&udp->poll, now)) {
            return 0;
        }
    }
    return btl_ib_udp_recv_events(&udp->rx, &udp->peers, events, max);
}

static void udp_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    btl_ib_udp_recv_repost(&btl_ib_udp_of(t)->rx, buffers, n);
}

static uint32_t udp_source(const btl_ib_transport_t *t, const btl_ib_event_t *event,
                           uint8_t address[BTL_IB_ADDR_BYTES])
{
    const btl_ib_udp_buffer_t *buffer = event->buffer;

    (void) t;
    return btl_ib_udp_name_pack(&buffer->name, BTL_IB_UDP_INTERFACE_UNKNOWN, false, address);
}

static uint32_t udp_rewritten(const btl_ib_transport_t *t, const btl_ib_event_t *event,
                              const void *published, size_t len, uint8_t address[BTL_IB_ADDR_BYTES],
                              uint8_t *flow)
{
    const btl_ib_udp_buffer_t *buffer = event->buffer;
    btl_ib_udp_name_t name;
    uint32_t interface;
    bool latency_lane;

    *flow = t->attr.flows == 1 ? BTL_IB_FLOW_USUAL
            : buffer->latency  ? BTL_IB_FLOW_LATENCY
                               : BTL_IB_FLOW_BULK;
    return btl_ib_udp_name_unpack(published, len, &name, &interface, &latency_lane) == 0
               ? btl_ib_udp_name_pack(&buffer->name, interface, latency_lane, address)
               : 0;
}

static bool udp_source_text(const btl_ib_transport_t *t, const btl_ib_event_t *event, char *out,
                            size_t len)
{
    const btl_ib_udp_buffer_t *buffer = event->buffer;
    const btl_ib_udp_name_t name = btl_ib_udp_name_shift(&buffer->name, buffer->latency ? 1 : 0);

    (void) t;
    (void) btl_ib_ip_port_text(&name.any, out, len);
    return true;
}

static bool udp_from_host(const btl_ib_transport_t *t, const btl_ib_event_t *event,
                          btl_ib_addr_t addr)
{
    const btl_ib_udp_buffer_t *buffer = event->buffer;

    return btl_ib_udp_name_same_host(&buffer->name,
                                     &((const btl_ib_udp_t *) t)->peers.peer[addr].name);
}

static void udp_flow_renew(btl_ib_transport_t *t, uint32_t flow, uint64_t now)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);

    btl_ib_udp_sockets_renew_sender(&udp->sockets, flow - udp->tx.spare_flow, now);
}

static int udp_wait_fd(btl_ib_transport_t *t)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);

    /* A socket would be readable as long as messages are kept in its buffer. */
    btl_ib_udp_recv_release(&udp->rx, &udp->sockets, &udp->errors);
    if (udp->sockets.count == 1 && udp->connected.vacant == 0) {
        return udp->sockets.socket[0].fd;
    }
    return btl_ib_udp_sockets_epoll(&udp->sockets);
}

static uint32_t udp_rx_depth(const btl_ib_transport_t *t, uint32_t size)
{
    const btl_ib_udp_t *udp = (const btl_ib_udp_t *) t;
    uint32_t counted = BTL_IB_UDP_COUNTED_LEAST;

    if (size + BTL_IB_UDP_COUNTED_MORE > BTL_IB_UDP_COUNTED_LEAST) {
        for (counted = 1024; counted < size + BTL_IB_UDP_COUNTED_MORE; counted *= 2) {
        }
    }
    return (udp->sockets.buffer_bytes - udp->sockets.keep_most * BTL_IB_UDP_COUNTED_JOINED)
           / (counted + BTL_IB_UDP_COUNTED_DESCRIPTOR);
}

/* ---- addresses and memory ---- */

/* Returns the name by which we reach a peer. A peer that publishes the same address as we, and a
 * port of our range, is on this host. The router that has the published address may not lead back
 * here, so the host's own address is used. */
static btl_ib_udp_name_t from_inside(const btl_ib_udp_t *udp, const btl_ib_udp_name_t *name)
{
    btl_ib_udp_name_t published;
    btl_ib_udp_name_t inside = udp->sockets.own;
    int port = ntohs(name->v4.sin_port);

    memcpy(&published, &udp->device.published, sizeof(published));
    if (!btl_ib_udp_name_same_host(&published, name)) {
        return *name;
    }
    if (published.v4.sin_port != 0) {
        port += udp->params.port_min - ntohs(published.v4.sin_port);
    }
    if (udp->params.port_min != 0
        && (port < udp->params.port_min
            || port - udp->params.port_min >= (int) udp->params.port_count)) {
        return *name;
    }
    btl_ib_udp_name_set_port(&inside, (uint16_t) port);
    return inside;
}

static int udp_addr_add(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);
    const btl_ib_udp_name_t *own = &udp->sockets.own;
    btl_ib_udp_name_t name;
    uint32_t interface;
    bool latency_lane;
    const int rc = btl_ib_udp_name_unpack(bytes, len, &name, &interface, &latency_lane);

    if (rc != 0 || name.any.sa_family != own->any.sa_family
        || btl_ib_ip_link_local(&name.any) != btl_ib_ip_link_local(&own->any)) {
        return rc != 0 ? rc : -EHOSTUNREACH;
    }
    name = from_inside(udp, &name);
    if (btl_ib_ip_link_local(&name.any)) {
        name.v6.sin6_scope_id = own->v6.sin6_scope_id; /* each host has its own numbers */
    }
    return btl_ib_udp_peer_add(&udp->peers, &name, latency_lane && udp->sockets.shared > 1,
                               interface, addr);
}

static void udp_addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);

    if (btl_ib_udp_peer_remove(&udp->peers, addr)) {
        btl_ib_udp_errors_forget(&udp->errors, addr);
        btl_ib_udp_connected_forget(&udp->connected, addr);
    }
}

static bool udp_address_text(const void *bytes, size_t len, char *out, size_t out_len)
{
    btl_ib_udp_name_t name;
    uint32_t interface;
    bool latency_lane;

    if (btl_ib_udp_name_unpack(bytes, len, &name, &interface, &latency_lane) != 0) {
        return false;
    }
    (void) btl_ib_ip_port_text(&name.any, out, out_len);
    return true;
}

static void udp_in_use_text(const btl_ib_transport_t *t, btl_ib_addr_t addr, char *out, size_t len)
{
    const btl_ib_udp_t *udp = (const btl_ib_udp_t *) t;
    const btl_ib_udp_peer_t *peer = &udp->peers.peer[addr];
    char lane[64] = "none";

    if (peer->latency.any.sa_family != AF_UNSPEC) {
        (void) btl_ib_ip_port_text(&peer->latency.any, lane, sizeof(lane));
    }
    snprintf(out, len, "latency lane %s, %sconnected, %s sends", lane,
             peer->socket != 0 ? "" : "not ", udp->tx.gso ? "joined" : "single");
}

static bool udp_flow_text(const btl_ib_transport_t *t, btl_ib_addr_t addr, uint32_t flow, char *out,
                          size_t len)
{
    const btl_ib_udp_t *udp = (const btl_ib_udp_t *) t;
    const btl_ib_udp_peer_t *peer = &udp->peers.peer[addr];
    const bool other = flow >= udp->tx.spare_flow;
    const btl_ib_udp_sender_t *sender = &udp->sockets.sender[other ? flow - udp->tx.spare_flow : 0];
    const bool latency =
        peer->latency.any.sa_family != AF_UNSPEC && flow != BTL_IB_FLOW_BULK && !other;
    const btl_ib_udp_name_t own = other && sender->socket.fd >= 0
                                      ? sender->name
                                      : btl_ib_udp_name_shift(&udp->sockets.own, latency ? 1 : 0);
    char ours[64];
    char theirs[64];

    snprintf(out, len, "%s to %s", btl_ib_ip_port_text(&own.any, ours, sizeof(ours)),
             btl_ib_ip_port_text(latency ? &peer->latency.any : &peer->name.any, theirs,
                                 sizeof(theirs)));
    return true;
}

static bool udp_offender_text(const btl_ib_transport_t *t, btl_ib_addr_t addr, char *out,
                              size_t len)
{
    return btl_ib_udp_errors_offender(&((const btl_ib_udp_t *) t)->errors, addr, out, len);
}

/* Makes eight system calls. Called once for each connection, not to answer an unknown sender. */
static uint32_t udp_path_datagram(const btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    const btl_ib_udp_t *udp = (const btl_ib_udp_t *) t;
    const btl_ib_udp_peer_t *peer = &udp->peers.peer[addr];

    return at_most(btl_ib_udp_path_datagram(&udp->sockets.own, &peer->name, peer->interface),
                   t->attr.max_datagram);
}

static int udp_mem_register(btl_ib_transport_t *t, void *base, size_t size, void **handle)
{
    (void) t;
    (void) base;
    (void) size;
    *handle = NULL;
    return 0;
}

static void udp_mem_deregister(btl_ib_transport_t *t, void *handle)
{
    (void) t;
    (void) handle;
}

/* ---- opening and closing ---- */

/* The depth is large, as sends are not counted: the socket refuses datagrams that do not fit its
 * buffer. */
enum { TX_DEPTH = 1024 };

static void udp_stop(btl_ib_transport_t *t)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);

    if (udp->errors.failed != 0 && udp->errors.refused == NULL) {
        btl_ib_udp_sockets_forget(&udp->sockets);
    }
    btl_ib_udp_sockets_close(&udp->sockets);
}

static void udp_close(btl_ib_transport_t *t)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);

    udp_stop(t);
    btl_ib_udp_rx_free(&udp->rx);
    btl_ib_udp_peers_free(&udp->peers);
    free(udp);
}

/* Returns the name of our first socket that is published: with the address and port that a router
 * has for it, if the user said so (btl_ib_udp_address). */
static btl_ib_udp_name_t public_name(const btl_ib_udp_t *udp)
{
    const btl_ib_udp_name_t *own = &udp->sockets.own;
    btl_ib_udp_name_t name;

    if (udp->device.published.ss_family != own->any.sa_family) {
        return *own;
    }
    memcpy(&name, &udp->device.published, sizeof(name));
    const int first = ntohs(name.v4.sin_port);
    const int port = ntohs(own->v4.sin_port);
    btl_ib_udp_name_set_port(&name,
                             (uint16_t) (first == 0 ? port : port - udp->params.port_min + first));
    return name;
}

/* Fills in t->address, which is published. */
static void udp_publish(btl_ib_udp_t *udp)
{
    const btl_ib_udp_name_t name = public_name(udp);
    uint32_t interface;
    char text[64];

    (void) udp_ask_datagram(&udp->device, &interface); /* if it fails 0 is published: unknown */
    memset(udp->base.address, 0, sizeof(udp->base.address));
    udp->base.address_len =
        btl_ib_udp_name_pack(&name, at_most(interface, udp->base.attr.max_datagram),
                             udp->sockets.shared > 1, udp->base.address);
    BTL_IB_UDP_LOG(&udp->log, 10, "bound to %s",
                   btl_ib_ip_port_text(&udp->sockets.own.any, text, sizeof(text)));
}

/* Opens sockets at another address. Returns false, and no socket is open, unless there are as many
 * shared ones as before: peers know whether we have two lanes. */
static bool sockets_open_as_many(const btl_ib_udp_t *udp, const btl_ib_device_t *device,
                                 const btl_ib_open_params_t *params, btl_ib_udp_sockets_t *sockets)
{
    btl_ib_udp_sockets_init(sockets, &udp->log);
    if (btl_ib_udp_sockets_open(sockets, device, params) == 0
        && sockets->shared == udp->sockets.shared) {
        return true;
    }
    btl_ib_udp_sockets_close(sockets);
    return false;
}

/* Opens sockets at another address; with the old ports if they are free, as other processes of this
 * host, whose address changes at the same moment, expect them there. Not inlined, to keep its
 * caller's stack small. */
__attribute__((noinline)) static bool sockets_open_changed(const btl_ib_udp_t *udp,
                                                           const btl_ib_device_t *device,
                                                           btl_ib_udp_sockets_t *sockets)
{
    btl_ib_open_params_t same = udp->params;

    same.port_min = ntohs(udp->sockets.own.v4.sin_port);
    same.port_count = udp->sockets.shared;
    return sockets_open_as_many(udp, device, &same, sockets)
           || sockets_open_as_many(udp, device, &udp->params, sockets);
}

/* Replaces all sockets if the device's address changed. Unread datagrams in the old sockets are
 * lost, and will be sent again; those that were read are still handed up. */
static bool udp_rebind(btl_ib_transport_t *t)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);
    const btl_ib_udp_name_t before = udp->sockets.own;
    btl_ib_device_t device = udp->device;

    if (!udp_address_changed(&device)) {
        return false;
    }
    btl_ib_udp_sockets_t *sockets = malloc(sizeof(*sockets)); /* large for the stack */
    const bool opened = sockets != NULL && sockets_open_changed(udp, &device, sockets);
    if (opened) {
        btl_ib_udp_sockets_replace(&udp->sockets, sockets);
    }
    free(sockets);
    if (!opened) { /* the next call tries again */
        return false;
    }
    udp->device = device;
    btl_ib_udp_poll_init(&udp->poll, &udp->sockets, &udp->rx, &udp->errors);
    btl_ib_udp_rx_rebound(&udp->rx);
    btl_ib_udp_peers_rebound(&udp->peers, &before, &udp->sockets.own);
    btl_ib_udp_connected_init(&udp->connected, &udp->sockets, &udp->peers,
                              udp->params.connected_max);
    udp_publish(udp);
    return true;
}

static const btl_ib_transport_ops_t udp_ops = {
    .send = udp_send,
    .poll = udp_poll,
    .source = udp_source,
    .rewritten = udp_rewritten,
    .source_text = udp_source_text,
    .from_host = udp_from_host,
    .flow_renew = udp_flow_renew,
    .repost = udp_repost,
    .addr_add = udp_addr_add,
    .addr_remove = udp_addr_remove,
    .rebind = udp_rebind,
    .address_text = udp_address_text,
    .in_use_text = udp_in_use_text,
    .flow_text = udp_flow_text,
    .offender_text = udp_offender_text,
    .mem_register = udp_mem_register,
    .mem_deregister = udp_mem_deregister,
    .rx_depth = udp_rx_depth,
    .path_datagram = udp_path_datagram,
    .wait_fd = udp_wait_fd,
    .stop = udp_stop,
    .close = udp_close,
};

static int udp_query(const btl_ib_device_t *device, uint32_t mtu, btl_ib_transport_attr_t *attr)
{
    const sa_family_t family = device->ip.ss_family;
    const uint32_t most = mtu != 0 ? btl_ib_udp_mtu_datagram(family, mtu) : UINT32_MAX;
    uint32_t interface;
    btl_ib_udp_name_t own;
    const char *failed = udp_ask_datagram(device, &interface);

    if (failed != NULL) {
        *attr = (btl_ib_transport_attr_t){.refused = failed};
        return -errno;
    }
    interface = at_most(interface, most);
    if (interface == 0) {
        return -ENODEV;
    }
    memcpy(&own, &device->ip, sizeof(own));
    const uint32_t within_host = at_most(btl_ib_udp_path_datagram(&own, &own, interface), most);
    const uint32_t largest = device->loopback || within_host > interface ? within_host : interface;
    *attr = (btl_ib_transport_attr_t){
        .max_datagram = largest,
        .max_off_host = !device->loopback && interface < largest ? interface : 0,
        .inline_size = largest,
        .max_iov = BTL_IB_UDP_SEND_IOV,
        .max_batch = BTL_IB_UDP_SEND_BATCH,
        .tx_depth = TX_DEPTH,
        .bandwidth = device->bandwidth,
        .partial_poll = true,
        .knows_source = true,
    };
    return 0;
}

/* Initializes the parts of a rail whose sockets are open. */
static void udp_init_parts(btl_ib_udp_t *udp)
{
    const btl_ib_open_params_t *params = &udp->params;
    const uint32_t largest = udp->base.attr.max_datagram;

    btl_ib_udp_errors_init(&udp->errors, &udp->log, &udp->peers, largest);
    btl_ib_udp_connected_init(&udp->connected, &udp->sockets, &udp->peers, params->connected_max);
    btl_ib_udp_tx_init(&udp->tx, &udp->log, &udp->connected, &udp->errors, largest);
    btl_ib_udp_rx_init(&udp->rx, &udp->base, &udp->log,
                       params->rx_size != 0 && params->rx_size < largest ? params->rx_size
                                                                         : largest);
    btl_ib_udp_poll_init(&udp->poll, &udp->sockets, &udp->rx, &udp->errors);
    udp->base.attr.bulk_lane = udp->sockets.shared > 1;
    udp->base.attr.bulk_apart = udp->base.attr.bulk_lane && params->channels == BTL_IB_CHANNELS_OWN;
    udp->base.attr.flows = udp->tx.spare_flow; /* numbered behind the flows of the lanes */
    udp->base.attr.spare_flow = true;
    udp->base.attr.paths = (uint8_t) (params->udp_flows > 1 ? params->udp_flows - 1 : 0);
    udp->base.attr.ecn = udp->sockets.ecn;
    udp->base.attr.gso_bytes = udp->tx.gso ? BTL_IB_UDP_GSO_BYTES : 0;
    udp->base.attr.rx_depth = udp_rx_depth(&udp->base, udp->rx.max_datagram);
    udp->base.limit = udp->sockets.limit;
    udp_publish(udp);
}

static int udp_open(const btl_ib_device_t *device, const btl_ib_open_params_t *params,
                    btl_ib_transport_t **out)
{
    btl_ib_udp_t *udp = calloc(1, sizeof(*udp));

    if (udp == NULL) {
        return -ENOMEM;
    }
    udp->base.ops = &udp_ops;
    snprintf(udp->base.name, sizeof(udp->base.name), "udp/%.58s", device->name);
    udp->log = (btl_ib_udp_log_t){.to = params->log, .name = udp->base.name};
    udp->device = *device;
    memcpy(&udp->params, params, sizeof(udp->params));
    btl_ib_udp_sockets_init(&udp->sockets, &udp->log);
    udp->params.refused = NULL; /* points into the caller */
    int rc = udp_query(device, params->mtu, &udp->base.attr);
    const char *refused = udp->base.attr.refused;
    if (rc == 0) {
        rc = btl_ib_udp_sockets_open(&udp->sockets, device, params);
        refused = udp->sockets.refused;
    }
    if (rc != 0) {
        if (params->refused != NULL) {
            *params->refused = refused;
        }
        udp_close(&udp->base);
        return rc;
    }
    udp_init_parts(udp);
    *out = &udp->base;
    return 0;
}

const btl_ib_transport_type_t btl_ib_udp_type = {
    .name = "udp",
    /* Windows hold more than the 3/2 GSO bursts after which an ACK comes, which has the credits. */
    .default_queues = "P,256,512:P,65536,4096",
    .shared_unused = BTL_IB_SHARED_NUM | BTL_IB_SHARED_LOW | BTL_IB_SHARED_GROWTH, /* a socket */
    .devices = udp_devices,
    .devices_free = udp_devices_free,
    .query = udp_query,
    .open = udp_open,
    .memory_estimate = udp_memory_estimate,
    .facts = udp_facts,
};
