/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The transport `udp`: what opening one comes to: ports, buffers, and an address that changes. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "own_network.h"
#include "transports.h"
#include "udp_calls.h"
#include "udp_inside.h"
#include "unit.h"

/* ---- ports ---- */

static uint32_t port_of(const btl_ib_transport_t *t)
{
    return (uint32_t) t->address[2] << 8 | t->address[3];
}

/* The first of `n` ports in a row that are free, or the test is skipped. */
static uint16_t free_ports(uint32_t n)
{
    for (uint32_t first = 20000; first < 60000; first += 97) {
        uint32_t free = 0;
        btl_ib_transport_t *t[8];

        for (; free < n; free++) {
            const btl_ib_open_params_t params = {
                .port_min = (uint16_t) (first + free),
                .port_count = 1,
            };

            if (bed.type->open(bed.device, &params, &t[free]) != 0) {
                break;
            }
        }
        for (uint32_t i = 0; i < free; i++) {
            close_transport(t[i]);
        }
        if (free == n) {
            return (uint16_t) first;
        }
    }
    print_message("skipped: no %u free ports in a row\n", n);
    skip();
    return 0;
}

static void test_ports(void **state)
{
    enum { PORTS = 4 };
    btl_ib_open_params_t params = heard_params();
    btl_ib_transport_t *t[PORTS];
    btl_ib_transport_t *none = NULL;
    char said[64];

    need_udp(AF_INET);
    params.port_min = free_ports(PORTS);
    params.port_count = PORTS;
    for (uint32_t i = 0; i < PORTS; i++) {
        t[i] = open_with(params);
        assert_int_equal(port_of(t[i]), params.port_min + i);
    }
    assert_int_equal(calls.worst, 10);
    assert_int_equal(bed.type->open(bed.device, &params, &none), -EADDRINUSE);
    assert_null(none);
    assert_int_equal(calls.worst, 1);
    snprintf(said, sizeof(said), "127.0.0.1, ports %u to %u: ", params.port_min,
             params.port_min + PORTS - 1u);
    assert_non_null(strstr(calls.heard, said));
    /* One that is free again is taken again, though it is not behind the others. */
    close_transport(t[1]);
    t[1] = open_with(params);
    assert_int_equal(port_of(t[1]), params.port_min + 1u);
    for (uint32_t i = 0; i < PORTS; i++) {
        close_transport(t[i]);
    }
}

/* There are no ports behind the last. */
static void test_last_port(void **state)
{
    btl_ib_open_params_t params = heard_params();
    btl_ib_transport_t *last = NULL;
    btl_ib_transport_t *none = NULL;

    need_udp(AF_INET);
    params.port_min = 65535;
    params.port_count = 1000;
    const int rc = bed.type->open(bed.device, &params, &last);
    assert_true(rc == 0 || -EADDRINUSE == rc); /* somebody else's */
    assert_true(rc != 0 || port_of(last) == 65535);
    assert_int_equal(bed.type->open(bed.device, &params, &none), -EADDRINUSE);
    assert_non_null(strstr(calls.heard, "127.0.0.1, ports 65535 to 65535: "));
    if (rc == 0) {
        close_transport(last);
    }
}

static void test_any_port(void **state)
{
    need_udp(AF_INET);
    pair_t pair = open_pair(heard_params());
    assert_int_not_equal(port_of(pair.a), port_of(pair.b));
    assert_int_not_equal(port_of(pair.a), 0);
    close_pair(&pair);
}

/* ---- what cannot be opened ---- */

/* Without a port of its own bind() takes one of a range of the system's; errno alone would say that
 * an address is in use which nobody asked for. */
static void test_no_port_left(void **state)
{
    const char *refused = NULL;
    btl_ib_transport_t *none = NULL;

    need_udp(AF_INET);
    btl_ib_open_params_t params = heard_params();
    params.refused = &refused;
    calls.bind_error = EADDRINUSE;
    assert_int_equal(bed.type->open(bed.device, &params, &none), -EADDRINUSE);
    assert_string_equal(refused, "bind to a port of net.ipv4.ip_local_port_range");
    params.port_min = 5000;
    params.port_count = 2;
    assert_int_equal(bed.type->open(bed.device, &params, &none), -EADDRINUSE);
    assert_string_equal(refused, "bind");
    params.port_min = 0;
    calls.bind_error = EPERM;
    assert_int_equal(bed.type->open(bed.device, &params, &none), -EPERM);
    assert_string_equal(refused, "bind");
    calls.bind_error = 0;
}

static void test_no_device(void **state)
{
    const btl_ib_open_params_t params = heard_params();
    btl_ib_transport_attr_t attr;
    btl_ib_transport_t *t = NULL;

    need_udp(AF_INET);
    btl_ib_device_t device = *bed.device;
    strcpy(device.interface, "gone0");
    assert_int_equal(bed.type->query(&device, 0, &attr), -ENODEV);
    assert_int_equal(bed.type->open(&device, &params, &t), -ENODEV);
    /* An address that it has no longer (RFC 5737: nobody's). */
    device = *bed.device;
    ((struct sockaddr_in *) (void *) &device.ip)->sin_addr.s_addr = htonl(UINT32_C(0xc6336409));
    calls.worst = INT32_MAX;
    assert_int_equal(bed.type->open(&device, &params, &t), -EADDRNOTAVAIL);
    assert_int_equal(calls.worst, 1);
    assert_non_null(strstr(calls.heard, "udp/lo: bind to 198.51.100.9, any port: "));
    device = *bed.device;
    device.ip.ss_family = AF_UNIX;
    assert_true(bed.type->open(&device, &params, &t) < 0);
    assert_null(t);
}

/* ---- buffers ---- */

static uint32_t system_limit(const char *path)
{
    FILE *file = fopen(path, "r");
    uint32_t limit = 0;

    if (file != NULL) {
        if (fscanf(file, "%u", &limit) != 1) {
            limit = 0;
        }
        (void) fclose(file);
    }
    if (limit < 65536 || limit > 1u << 29) {
        print_message("skipped: %s is %u\n", path, limit);
        skip();
    }
    return limit;
}

static void test_socket_buffer(void **state)
{
    btl_ib_open_params_t params = heard_params();

    need_udp(AF_INET);
    const uint32_t rx = system_limit("/proc/sys/net/core/rmem_max");
    const uint32_t tx = system_limit("/proc/sys/net/core/wmem_max");
    const uint32_t both = rx < tx ? rx : tx;
    /* What is asked for, and there. */
    params.socket_buffer = both / 2;
    btl_ib_transport_t *t = open_with(params);
    const uint32_t half = t->attr.rx_depth;
    assert_null(t->limit.sysctl[0]);
    assert_int_equal(udp_inside(t).buffer_bytes, both / 2 * 2);
    close_transport(t);
    params.socket_buffer = both;
    t = open_with(params);
    assert_null(t->limit.sysctl[0]);
    /* some of a large one is for messages that were read */
    assert_in_range(t->attr.rx_depth, 2 * half * 7 / 8 - 1, 2 * half + 1);
    close_transport(t);
    /* More than there is: both limits are told at once. */
    const uint32_t more = (rx > tx ? rx : tx) + 1000;
    params.socket_buffer = more;
    t = open_with(params);
    assert_string_equal(t->limit.sysctl[0], "net.core.rmem_max");
    assert_int_equal(t->limit.is[0], rx);
    assert_string_equal(t->limit.sysctl[1], "net.core.wmem_max");
    assert_int_equal(t->limit.is[1], tx);
    assert_int_equal(t->limit.needed, more);
    close_transport(t);
    /* Nobody asks: as much as there is, and no complaint where that is what any system grants. */
    params.socket_buffer = 0;
    t = open_with(params);
    assert_true((t->limit.sysctl[0] == NULL) == (both >= 212992));
    close_transport(t);
}

static void tell_traffic_class(int fd, bool v4)
{
    const int on = 1;

    assert_int_equal(
        setsockopt(fd, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_RECVTOS : IPV6_RECVTCLASS, &on, sizeof(on)),
        0);
}

/* The traffic class with which the next datagram came to a socket; -1: there was none. */
static int traffic_class_of_next(int fd, bool v4)
{
    uint8_t data[2048], control[64];
    struct iovec iov = {.iov_base = data, .iov_len = sizeof(data)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int value = -1;

    assert_int_equal(poll(&one, 1, 5000), 1);
    assert_true(syscall(SYS_recvmsg, fd, &msg, 0) > 0);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
        if (v4 && c->cmsg_level == SOL_IP && c->cmsg_type == IP_TOS) {
            value = *CMSG_DATA(c);
        } else if (!v4 && c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_TCLASS) {
            memcpy(&value, CMSG_DATA(c), sizeof(value));
        }
    }
    return value;
}

/* What the other side's kernel saw, and what ours keeps. */
static void marked(sa_family_t family)
{
    const bool v4 = family == AF_INET;
    btl_ib_open_params_t params = heard_params();

    need_udp(family);
    params.bulk_lane = true;
    params.traffic_class = 0x2e; /* DSCP 11, and what would be ECN */
    params.service_level = 5;
    const pair_t pair = open_pair(params);
    assert_int_equal(udp_inside(pair.a).sockets, 2);
    const btl_ib_tx_t tx = make_tx(pair.a, &pair.slots, 0, pair.b_at_a, 100, 1);
    for (uint32_t i = 0; i < 2; i++) {
        int priority = -1;
        socklen_t len = sizeof(priority);
        assert_int_equal(getsockopt(udp_fd(pair.a, i), SOL_SOCKET, SO_PRIORITY, &priority, &len),
                         0);
        assert_int_equal(priority, 5);
    }
    tell_traffic_class(udp_fd(pair.b, 1), v4);
    assert_int_equal(send_all(pair.a, &tx, 1), 0);
    assert_int_equal(traffic_class_of_next(udp_fd(pair.b, 1), v4), 0x2c);
    close_pair((pair_t *) &pair);
    /* With ECT(0), which a priority of one's own would get lost by. */
    params.ecn = true;
    const pair_t without = open_pair(params);
    assert_false(without.a->attr.ecn);
    close_pair((pair_t *) &without);
    params.service_level = 0;
    const pair_t ecn = open_pair(params);
    assert_true(ecn.a->attr.ecn);
    btl_ib_tx_t ect = make_tx(ecn.a, &ecn.slots, 0, ecn.b_at_a, 100, 1);
    tell_traffic_class(udp_fd(ecn.b, 1), v4);
    for (int i = 0; i < 20; i++) {
        ect.ect = i / 8 % 2 == 0; /* the socket changes after four of a kind */
        assert_int_equal(send_all(ecn.a, &ect, 1), 0);
        assert_int_equal(traffic_class_of_next(udp_fd(ecn.b, 1), v4), ect.ect ? 0x2e : 0x2c);
    }
    close_pair((pair_t *) &ecn);
}

static void test_marks(void **state)
{
    marked(AF_INET);
}

static void test_marks_v6(void **state)
{
    marked(AF_INET6);
}

/* A process that may not is told so once, and goes on. */
static void test_busy_poll(void **state)
{
    need_udp(AF_INET);
    btl_ib_open_params_t params = heard_params();
    params.bulk_lane = true;
    close_transport(open_with(params));
    assert_int_equal(calls.busy_poll, 0);
    params.busy_poll = 30;
    close_transport(open_with(params));
    assert_int_equal(calls.busy_poll, 30);
    assert_int_equal(calls.worst, 10);
    calls.no_busy_poll = true;
    close_transport(open_with(params));
    assert_int_equal(calls.worst, 1);
    assert_non_null(strstr(calls.heard, "sysctl -w net.core.busy_read=30"));
}

/* A kernel that joins wrongly what is received is not asked to join it, and datagrams arrive as
 * single datagrams. */
static void test_no_gro(void **state)
{
    for (int no_gro = 0; no_gro < 2; no_gro++) {
        btl_ib_open_params_t params = heard_params();
        uint32_t got = 0;

        need_udp(AF_INET);
        params.no_gro = no_gro != 0;
        calls.joins = false;
        pair_t pair = open_pair(params);
        const btl_ib_tx_t tx = make_tx(pair.a, &pair.slots, 0, pair.b_at_a, 1000, 1);

        assert_int_equal(calls.joins, no_gro == 0);
        assert_true((strstr(calls.heard, "is not asked to join") != NULL) == (no_gro != 0));
        for (; got < 8; got++) {
            assert_int_equal(send_all(pair.a, &tx, 1), 0);
        }
        for (; got > 0; got--) {
            const btl_ib_event_t event = wait_recv(pair.b);

            assert_int_equal(event.size, 1000);
            repost(pair.b, &event);
        }
        close_pair(&pair);
    }
}

/* How many datagrams of a size the buffer holds is what the kernel takes. */
static void test_rx_depth(void **state)
{
    static const uint32_t sizes[] = {1,    64,   128,  129,  576,  577,
                                     1472, 1600, 1601, 4000, 7744, 15936};
    const uint32_t buffer = 65536;
    btl_ib_open_params_t params = heard_params();

    need_udp(AF_INET);
    params.socket_buffer = buffer;
    calls.no_gso = calls.no_gro = true;
    pair_t pair = open_pair(params);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i] > pair.b->attr.max_datagram) {
            break;
        }
        const btl_ib_tx_t tx = make_tx(pair.a, &pair.slots, 0, pair.b_at_a, sizes[i], 1);
        const uint32_t depth = pair.b->ops->rx_depth(pair.b, sizes[i]);
        uint32_t got = 0;

        for (uint32_t n = 0; n < depth; n++) {
            assert_int_equal(send_all(pair.a, &tx, 1), 0);
        }
        for (uint32_t n = 0; n < depth; n++) { /* none was dropped */
            const btl_ib_event_t event = wait_recv(pair.b);

            assert_int_equal(event.size, sizes[i]);
            repost(pair.b, &event);
        }
        for (uint32_t n = 0; n < 3 * depth; n++) {
            assert_int_equal(send_all(pair.a, &tx, 1), 0);
        }
        for (uint32_t look = 0; look < 10 * depth; look++) {
            btl_ib_event_t event;

            if (poll_now(pair.b, &event, 1) > 0) {
                got++;
                repost(pair.b, &event);
            }
        }
        assert_in_range(got, depth, 2 * depth + 2); /* and it is not far too careful */
    }
    assert_in_range(pair.b->ops->rx_depth(pair.b, 128), 2 * buffer / 1000, 2 * buffer / 576);
    close_pair(&pair);
}

/* Datagrams that the system dropped at a port, by its own account: the last column of its line. */
static uint64_t drops_at(uint32_t port)
{
    FILE *file = fopen("/proc/self/net/udp", "r");
    char line[512];
    uint64_t drops = UINT64_MAX;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned of = 0;
        if (sscanf(line, " %*u: %*8x:%4x", &of) == 1 && of == port) {
            for (size_t end = strlen(line); strchr(" \n", line[end - 1]) != NULL;
                 line[--end] = '\0') {
            }
            drops = strtoull(strrchr(line, ' '), NULL, 10);
        }
    }
    (void) fclose(file);
    return drops;
}

/* What a full receive buffer costs is counted as the system counts it, and told once. */
static void test_overflows(void **state)
{
    btl_ib_open_params_t params = heard_params();
    btl_ib_event_t event;

    need_udp(AF_INET);
    params.socket_buffer = 65536;
    pair_t pair = open_pair(params);
    const btl_ib_tx_t tx = make_tx(pair.a, &pair.slots, 0, pair.b_at_a, 1000, 1);
    const uint32_t depth = pair.b->ops->rx_depth(pair.b, 1000);
    for (uint32_t round = 0; round < 2; round++) {
        assert_int_equal(pair.b->overflows, drops_at(port_of(pair.b)));
        for (uint32_t n = 0; n < 4 * depth; n++) {
            assert_int_equal(send_all(pair.a, &tx, 1), 0);
        }
        for (uint32_t look = 0; look < 40 * depth; look++) {
            if (poll_now(pair.b, &event, 1) > 0) {
                repost(pair.b, &event);
            }
        }
        assert_int_equal(send_all(pair.a, &tx, 1), 0); /* this one tells of those before */
        event = wait_recv(pair.b);
        repost(pair.b, &event);
        assert_true(pair.b->overflows > 0);
        assert_int_equal(pair.b->overflows, drops_at(port_of(pair.b)));
        const char *told = strstr(calls.heard, "a receive buffer of 65536 bytes was full");
        assert_non_null(told);
        assert_null(strstr(told + 1, "a receive buffer"));
    }
    close_pair(&pair);
}

/* ---- an address that changes: in a network of its own, whose only device is lo ---- */

static int setup(void **state)
{
    need_own_network();
    find_device("udp", "", AF_INET);
    return 0;
}

static const struct {
    const char *ips[2]; /* that lo has afterwards */
    const char *found;  /* NULL: it stays */
} changes[] = {
    {{"10.9.0.2", NULL}, "10.9.0.2"},
    {{"10.8.0.2", "10.7.0.3"}, "10.8.0.2"},
    {{"10.8.0.2", "10.9.0.3"}, "10.9.0.3"}, /* of the network as before */
    {{"10.9.0.2", "10.9.0.3"}, "10.9.0.2"},
    {{"10.9.0.2", "10.9.0.1"}, NULL}, /* it has the old one, too */
    {{NULL, NULL}, NULL},             /* only IPv6 */
};

/* Where the address is gone another one of the same interface and family takes its place. */
static void test_address_changes(void **state)
{
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        char text[64];

        set_lo_address("lo", "10.9.0.1");
        btl_ib_transport_t *t = open_at("10.9.0.1", heard_params());
        assert_false(t->ops->rebind(t));
        set_lo_address("lo", changes[i].ips[0]);
        set_lo_address("lo:1", changes[i].ips[1]);
        assert_int_equal(t->ops->rebind(t), changes[i].found != NULL);
        const btl_ib_udp_name_t name = udp_name(t);
        (void) inet_ntop(AF_INET, &name.v4.sin_addr, text, sizeof(text));
        assert_string_equal(text, changes[i].found != NULL ? changes[i].found : "10.9.0.1");
        close_transport(t);
        set_lo_address("lo:1", NULL);
    }
}

/* Two processes of one host change their address at once, so neither can tell the other one: each
 * goes on at its ports, and looks for the other one at the new address. The spare flow has a port
 * that is none of these. */
static void test_both_change(void **state)
{
    set_lo_address("lo", "10.9.0.1");
    btl_ib_transport_t *one = open_at("10.9.0.1", heard_params());
    btl_ib_transport_t *other = open_at("10.9.0.1", heard_params());
    const btl_ib_addr_t other_at_one = add(one, other);
    const btl_ib_addr_t one_at_other = add(other, one);

    set_lo_address("lo", "10.9.0.2");
    assert_true(one->ops->rebind(one));
    assert_true(other->ops->rebind(other));
    assert_int_equal(assert_reaches(one, other_at_one, other, 100), one_at_other);
    assert_int_equal(assert_reaches(other, one_at_other, one, 100), other_at_one);
    const slots_t slots = make_slots(one);
    btl_ib_tx_t tx = make_tx(one, &slots, 0, other_at_one, 100, 1);
    tx.flow = one->attr.flows;
    assert_int_equal(send_all(one, &tx, 1), 0);
    const btl_ib_event_t event = wait_recv(other);
    assert_int_equal(event.from, BTL_IB_ADDR_UNKNOWN);
    repost(other, &event);
    free_slots(one, &slots);
    close_transport(one);
    close_transport(other);
}

/* What had come to the old address and was read is not lost; peers that know the new one reach
 * it. */
static void test_traffic_of_changed_address(void **state)
{
    btl_ib_tx_t batch[3];

    set_lo_address("lo", "10.9.0.1");
    set_lo_address("lo:1", "10.9.0.2");
    btl_ib_transport_t *mover = open_at("10.9.0.1", heard_params());
    btl_ib_transport_t *peer = open_at("10.9.0.2", heard_params());
    if (peer->attr.gso_bytes == 0) { /* all of it is to come by one call */
        print_message("skipped: this kernel joins no datagrams\n");
        close_transport(mover);
        close_transport(peer);
        skip();
    }
    const btl_ib_addr_t before = add(peer, mover);
    const slots_t slots = make_slots(peer);
    for (uint32_t i = 0; i < 3; i++) {
        batch[i] = make_tx(peer, &slots, i, before, 100, 1);
    }
    (void) send_all(peer, batch, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const btl_ib_event_t event = wait_recv(mover); /* one at a time */
        assert_int_equal(assert_intact(&event), i);
        repost(mover, &event);
        if (i == 0) {
            set_lo_address("lo", "10.9.0.3");
            assert_true(mover->ops->rebind(mover));
        }
    }
    (void) assert_reaches(peer, add(peer, mover), mover, 100);
    free_slots(peer, &slots);
    close_transport(mover);
    close_transport(peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks),     cmocka_unit_test(test_marks_v6),
        cmocka_unit_test(test_busy_poll), cmocka_unit_test(test_ports),
        cmocka_unit_test(test_last_port), cmocka_unit_test(test_any_port),
        cmocka_unit_test(test_no_device), cmocka_unit_test(test_no_port_left),
        cmocka_unit_test(test_no_gro),    cmocka_unit_test(test_socket_buffer),
        cmocka_unit_test(test_rx_depth),  cmocka_unit_test(test_overflows),
    };

    const struct CMUnitTest changing[] = {
        cmocka_unit_test(test_address_changes),
        cmocka_unit_test(test_both_change),
        cmocka_unit_test(test_traffic_of_changed_address),
    };

    return cmocka_run_group_tests(tests, NULL, free_devices)
           + cmocka_run_group_tests(changing, setup, free_devices);
}
