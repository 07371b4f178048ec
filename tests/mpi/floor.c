/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Measures what bare UDP sockets can do between ranks 0 and 1: the floor (floor.h, with all other
 * arguments) under any transport that is made of them. Bursts go by UDP_SEGMENT and UDP_GRO, one
 * datagram a call without them. net=NAME, ADDRESS or NETWORK (10.1.0.0/16): which interface (the
 * first that is up)
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "floor.h"

enum {
    BURST_MAX = 65507,    /* bytes of one call, UDP's largest datagram */
    WINDOW = 256 << 10,   /* bytes on their way */
    ACK_EVERY = 64 << 10, /* bytes */
    SILENCE_US = 20000,
};

struct carrier {
    int fd;
    unsigned char hot[65536];
};

/* Is this address of that interface what `net` asks for? */
static int wanted(const char *net, const char *name, struct in_addr address)
{
    char text[64];
    int bits = 32;
    struct in_addr net_address;

    if (net[0] == '\0' || strcmp(net, name) == 0) {
        return 1;
    }
    snprintf(text, sizeof(text), "%s", net);
    char *slash = strchr(text, '/');
    if (slash != NULL) {
        bits = atoi(slash + 1);
        *slash = '\0';
    }
    if (inet_pton(AF_INET, text, &net_address) != 1 || bits < 0 || bits > 32) {
        return 0;
    }
    uint32_t mask = bits == 0 ? 0 : UINT32_MAX << (32 - bits);
    return ((ntohl(address.s_addr) ^ ntohl(net_address.s_addr)) & mask) == 0;
}

/* Of the interfaces that are up and wanted the first, loopback only if there is no other. */
static struct sockaddr_in own_address(const char *net)
{
    struct ifaddrs *all, *one;
    struct sockaddr_in address, found = {.sin_family = AF_UNSPEC};
    int found_loopback = 1;

    if (getifaddrs(&all) != 0) {
        fail("getifaddrs: %s", strerror(errno));
    }
    for (one = all; one != NULL && found_loopback; one = one->ifa_next) {
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET
            || !(one->ifa_flags & IFF_UP)) {
            continue;
        }
        memcpy(&address, one->ifa_addr, sizeof(address));
        if (wanted(net, one->ifa_name, address.sin_addr)) {
            found = address;
            found_loopback = (one->ifa_flags & IFF_LOOPBACK) != 0;
        }
    }
    freeifaddrs(all);
    if (found.sin_family == AF_UNSPEC) {
        fail("no interface that is up has an IPv4 address%s%s", net[0] ? " and is net=" : "", net);
    }
    found.sin_port = 0;
    return found;
}

/* A socket connected to the other rank's. Returns how long a datagram may be. */
static int connect_them(struct carrier *carrier, const char *net)
{
    struct sockaddr_in own = own_address(net), peer;
    socklen_t length = sizeof(own);
    int mtu, on = 1, discover = IP_PMTUDISC_DO;

    carrier->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (carrier->fd < 0 || bind(carrier->fd, (struct sockaddr *) &own, sizeof(own)) != 0
        || getsockname(carrier->fd, (struct sockaddr *) &own, &length) != 0) {
        fail("a socket at %s: %s", inet_ntoa(own.sin_addr), strerror(errno));
    }
    MPI_Sendrecv(&own, sizeof(own), MPI_BYTE, 1 - rank, 1, &peer, sizeof(peer), MPI_BYTE, 1 - rank,
                 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    length = sizeof(mtu);
    if (connect(carrier->fd, (struct sockaddr *) &peer, sizeof(peer)) != 0
        || getsockopt(carrier->fd, IPPROTO_IP, IP_MTU, &mtu, &length) != 0) {
        fail("to %s: %s", inet_ntoa(peer.sin_addr), strerror(errno));
    }
    setsockopt(carrier->fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
    setsockopt(carrier->fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
    return mtu - 28 < BURST_MAX ? mtu - 28 : BURST_MAX;
}

static void carrier_open(flow_t *flow, int argc, char **argv)
{
    flow->carrier = get_memory(sizeof(*flow->carrier));
    flow->datagram = connect_them(flow->carrier, arg_text(argc, argv, "net", ""));
    flow->window = WINDOW;
    flow->ack_every = ACK_EVERY;
    flow->silence = SILENCE_US;
    flow->hot = flow->carrier->hot;
}

static void carrier_close(flow_t *flow)
{
    close(flow->carrier->fd);
    free(flow->carrier);
}

/* Any memory will do. */
static void carrier_use(flow_t *flow)
{
    (void) flow;
}

static void carrier_forget(flow_t *flow)
{
    MPI_Barrier(MPI_COMM_WORLD);
    while (receive(flow) > 0) {
        /* late */
    }
}

static void segment_by(flow_t *flow, int bytes)
{
    flow->burst = BURST_MAX / bytes < SEGMENTS_MAX ? BURST_MAX / bytes : SEGMENTS_MAX;
    if (setsockopt(flow->carrier->fd, IPPROTO_UDP, UDP_SEGMENT, &bytes, sizeof(bytes)) != 0) {
        flow->burst = 1;
    }
}

/* What the kernel has no room for is tried again. */
static void send_burst(flow_t *flow, const struct iovec *parts, size_t count, size_t of_each)
{
    struct msghdr message = {.msg_iov = (struct iovec *) parts, .msg_iovlen = count};

    (void) of_each; /* the kernel cuts by segment_by() */
    while (sendmsg(flow->carrier->fd, &message, 0) < 0) {
        if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR) {
            fail("sendmsg: %s", strerror(errno));
        }
    }
}

static size_t send_next(flow_t *flow, size_t left)
{
    return send_segments(flow, left);
}

static int receive(flow_t *flow)
{
    ssize_t n = recv(flow->carrier->fd, flow->hot, sizeof(flow->carrier->hot), 0);
    if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED) {
        fail("recv: %s", strerror(errno));
    }
    return n < 0 ? 0 : (int) n;
}

int main(int argc, char **argv)
{
    measure(argc, argv, "floor");
    return 0;
}
