/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The transport `udp`: what goes wrong. Nobody at an address, calls that fail, and a path that
 * carries less than it did, for which the test takes a network of its own, if it may.
 */

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "own_network.h"
#include "transports.h"
#include "udp_calls.h"
#include "udp_errors.h"
#include "udp_inside.h"
#include "unit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static pair_t open_udp(sa_family_t family)
{
    need_udp(family);
    return open_pair(heard_params());
}

static void make_row(const pair_t *pair, btl_ib_tx_t *batch, int n, uint32_t size)
{
    for (int i = 0; i < n; i++) {
        batch[i] = make_tx(pair->a, &pair->slots, (uint32_t) i, pair->b_at_a, size, 1);
    }
}

/* ---- nobody there ---- */

/* A transport that `t` knows, and that is gone. */
static btl_ib_addr_t add_gone(btl_ib_transport_t *t)
{
    btl_ib_transport_t *gone = open_with(heard_params());
    const btl_ib_addr_t addr = add(t, gone);

    close_transport(gone);
    return addr;
}

/* How the datagrams of the last send_to() begin. */
static struct {
    uint8_t bytes[BTL_IB_QUOTED_MAX];
} sent[BATCH_MAX];
static int sent_count;

static void assert_quotes(const btl_ib_event_t *event)
{
    bool found = false;

    assert_int_equal(event->origin, BTL_IB_ORIGIN_NETWORK); /* also of this host: by its loopback */
    assert_int_equal(event->quoted_size, BTL_IB_QUOTED_MAX);
    for (int i = 0; i < sent_count; i++) {
        found |= memcmp(event->quoted, sent[i].bytes, BTL_IB_QUOTED_MAX) == 0;
    }
    assert_true(found);
}

static void assert_refused(btl_ib_transport_t *t, btl_ib_addr_t from)
{
    const btl_ib_event_t event = wait_event(t);

    assert_int_equal(event.type, BTL_IB_EVENT_REFUSED);
    assert_int_equal(event.error, ECONNREFUSED);
    assert_int_equal(event.from, from);
    assert_quotes(&event);
}

static void remember(const btl_ib_tx_t *batch, int n)
{
    sent_count = n;
    for (int i = 0; i < n; i++) {
        memcpy(sent[i].bytes, batch[i].iov[0].iov_base, BTL_IB_QUOTED_MAX);
    }
}

static void send_to(const pair_t *pair, btl_ib_addr_t to, int n)
{
    btl_ib_tx_t batch[BATCH_MAX];

    make_row(pair, batch, n, 200);
    for (int i = 0; i < n; i++) {
        batch[i].to = to;
    }
    remember(batch, n);
    assert_int_equal(send_all(pair->a, batch, n), 0);
}

static void refused_by(sa_family_t family)
{
    pair_t pair = open_udp(family);
    const btl_ib_addr_t gone = add_gone(pair.a);

    /* Found by the next look. */
    send_to(&pair, gone, 1);
    assert_refused(pair.a, gone);
    assert_idle(pair.a);
    send_to(&pair, gone, 64);
    assert_refused(pair.a, gone); /* once, however many came back */
    /* Found by the next send, which has nothing to do with it. */
    send_to(&pair, gone, 1);
    exchange(&pair, (btl_ib_tx_t[]){make_tx(pair.a, &pair.slots, 0, pair.b_at_a, 99, 1)}, 1, 1);
    assert_refused(pair.a, gone);
    assert_idle(pair.a);
    assert_non_null(strstr(calls.heard, family == AF_INET ? "127.0.0.1:" : "[::1]:"));
    assert_int_equal(calls.worst, 10);
    close_pair(&pair);
}

TEST(test_refused)
{
    refused_by(AF_INET);
}

TEST(test_refused_ipv6)
{
    refused_by(AF_INET6);
}

/* In one batch: what comes behind goes out, and the error is not lost with the call that met it. */
TEST(test_refused_between)
{
    btl_ib_tx_t batch[6];

    pair_t pair = open_udp(AF_INET);
    const btl_ib_addr_t gone = add_gone(pair.a);
    make_row(&pair, batch, 6, 300);
    batch[1].to = gone;
    batch[3].to = gone;
    remember(batch, 6);
    assert_int_equal(send_all(pair.a, batch, 6), 0);
    for (uint32_t i = 0; i < 6; i++) {
        if (i != 1 && i != 3) {
            const btl_ib_event_t event = wait_recv(pair.b);

            assert_int_equal(assert_intact(&event), i);
            repost(pair.b, &event);
        }
    }
    assert_refused(pair.a, gone);
    assert_idle(pair.a);
    close_pair(&pair);
}

/* More peers than news are kept of: the others are told of when they are tried again. */
TEST(test_many_refuse)
{
    enum { PEERS = 2 * BTL_IB_UDP_ERRORS_MAX };
    btl_ib_addr_t gone[PEERS];
    btl_ib_event_t events[PEERS];
    int told = 0;

    pair_t pair = open_udp(AF_INET);
    for (int i = 0; i < PEERS; i++) {
        gone[i] = add_gone(pair.a);
    }
    for (int i = 0; i < PEERS; i++) {
        send_to(&pair, gone[i], 1);
    }
    for (int i = 0; i < 100; i++) {
        told += poll_now(pair.a, events + told, i % 3 < PEERS - told ? i % 3 : 0);
    }
    assert_in_range(told, BTL_IB_UDP_ERRORS_MAX, PEERS);
    for (int i = 0; i < told; i++) {
        assert_int_equal(events[i].type, BTL_IB_EVENT_REFUSED);
        for (int j = 0; j < i; j++) {
            assert_int_not_equal(events[i].from, events[j].from);
        }
    }
    send_to(&pair, gone[PEERS - 1], 1);
    assert_refused(pair.a, gone[PEERS - 1]);
    close_pair(&pair);
}

/* Nobody is told what was meant for the one before with its handle, or for nobody. */
TEST(test_refused_and_removed)
{
    pair_t pair = open_udp(AF_INET);
    const btl_ib_addr_t first = add_gone(pair.a);
    const btl_ib_addr_t second = add_gone(pair.a);
    send_to(&pair, first, 1);
    send_to(&pair, second, 1);
    exchange(&pair, (btl_ib_tx_t[]){make_tx(pair.a, &pair.slots, 0, pair.b_at_a, 99, 1)}, 1, 1);
    assert_int_equal(udp_inside(pair.a).errors, 2);
    pair.a->ops->addr_remove(pair.a, first);
    btl_ib_transport_t *c = open_with(heard_params());
    assert_int_equal(add(pair.a, c), first); /* the handle has a new owner */
    assert_refused(pair.a, second);
    send_to(&pair, second, 1);
    pair.a->ops->addr_remove(pair.a, second);
    assert_idle(pair.a);
    close_transport(c);
    close_pair(&pair);
}

/* ---- calls that fail ---- */

/* A device that cannot cut what was joined: all of it goes out one by one, and nothing is
 * joined again. */
TEST(test_no_checksums)
{
    btl_ib_tx_t batch[BATCH_MAX];

    pair_t pair = open_udp(AF_INET);
    if (pair.a->attr.gso_bytes == 0) {
        print_message("skipped: the kernel joins nothing\n");
        close_pair(&pair);
        skip();
    }
    calls.send_error = EIO;
    calls.send_failures = 1;
    calls.joined_only = true;
    make_row(&pair, batch, BATCH_MAX, 500);
    exchange(&pair, batch, BATCH_MAX, BATCH_MAX);
    assert_non_null(strstr(calls.heard, "udp/lo: the device cannot cut joined datagrams"));
    assert_int_equal(calls.messages, BATCH_MAX);
    exchange(&pair, batch, BATCH_MAX, BATCH_MAX);
    assert_int_equal(calls.joined, 0);
    close_pair(&pair);
}

/* Other reasons are of the moment. */
TEST(test_joined_refused)
{
    btl_ib_tx_t batch[BATCH_MAX];

    pair_t pair = open_udp(AF_INET);
    const bool joins = pair.a->attr.gso_bytes != 0;
    calls.send_error = EINVAL;
    calls.send_failures = joins;
    calls.joined_only = true;
    make_row(&pair, batch, BATCH_MAX, 500);
    exchange(&pair, batch, BATCH_MAX, BATCH_MAX);
    assert_int_equal(calls.messages, BATCH_MAX);
    assert_int_equal(calls.worst, 10);
    exchange(&pair, batch, BATCH_MAX, BATCH_MAX);
    assert_int_equal(calls.joined, joins);
    close_pair(&pair);
}

/* What send() tells of a call that ends with an error, and how often it tries. */
TEST(test_send_errors)
{
    static const struct {
        int error, told, worst;
    } cases[] = {
        {EAGAIN, EAGAIN, 10},    {ENOBUFS, ENOBUFS, 10},
        {ENOMEM, ENOMEM, 10},    {EHOSTUNREACH, EHOSTUNREACH, 1},
        {ENETDOWN, ENETDOWN, 1}, {EPERM, EPERM, 1},
    };
    btl_ib_tx_t batch[3];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pair_t pair = open_udp(AF_INET);
        int error = 0;

        make_row(&pair, batch, 3, 500);
        for (int again = 0; again < 2; again++) {
            calls.send_error = cases[i].error;
            calls.send_failures = 2; /* what is joined is tried again, one by one */
            assert_int_equal(pair.a->ops->send(pair.a, batch, 1, &error), 0);
            assert_int_equal(error, cases[i].told);
            assert_int_equal(calls.worst, cases[i].worst);
            calls.send_failures = 0;
        }
        const char *said = strstr(calls.heard, "cannot send 500 bytes to 127.0.0.1:");
        assert_true((said != NULL) == (cases[i].worst == 1));
        assert_true(said == NULL || strstr(said + 1, "cannot send") == NULL); /* once */
        exchange(&pair, batch, 3, 3);
        close_pair(&pair);
    }
}

/* A call that a signal ended is made again; what is larger than the device carries goes nowhere. */
TEST(test_interrupted_and_oversize)
{
    btl_ib_tx_t batch[3];
    btl_ib_event_t event;
    int error = 0;

    pair_t pair = open_udp(AF_INET);
    make_row(&pair, batch, 3, 500);
    calls.send_error = EINTR;
    calls.send_failures = 3;
    exchange(&pair, batch, 3, 3);
    assert_int_equal(calls.send_failures, 0);
    calls.recv_error = EINTR;
    assert_idle(pair.b);
    batch[1] = make_tx(pair.a, &pair.slots, 1, pair.b_at_a, pair.a->attr.max_datagram + 1, 1);
    calls.send_error = EMSGSIZE;
    assert_int_equal(pair.a->ops->send(pair.a, batch, 1, &error), 1);
    calls.send_failures = 2; /* joined, and alone */
    assert_int_equal(pair.a->ops->send(pair.a, batch + 1, 2, &error), 0);
    assert_int_equal(error, EMSGSIZE);
    event = wait_recv(pair.b);
    assert_int_equal(assert_intact(&event), 0);
    repost(pair.b, &event);
    assert_idle(pair.b);
    close_pair(&pair);
}

/* A system that refuses to receive at all fails the rail, once, and names the call. One refusal may
 * be chance, and what networks say of datagrams is no refusal however often it comes. */
TEST(test_receive_refused)
{
    static const struct {
        int error;
        bool fails;
    } cases[] = {
        {EPERM, true},     {ENOSYS, true},        {EINVAL, true},        {EACCES, false},
        {ENOMEM, false},   {ECONNREFUSED, false}, {EHOSTUNREACH, false}, {ENETUNREACH, false},
        {EMSGSIZE, false}, {ENOPROTOOPT, false},  {EPROTO, false},       {EOPNOTSUPP, false},
    };
    btl_ib_tx_t batch[1];

    for (size_t i = 0; i < COUNT(cases); i++) {
        pair_t pair = open_udp(AF_INET);
        btl_ib_event_t event;
        int failures = 0;

        make_row(&pair, batch, 1, 500);
        assert_int_equal(send_all(pair.a, batch, 1), 0);
        for (int again = 0; again < 3; again++) {
            calls.recv_error = cases[i].error;
            event = wait_recv(pair.b);
            repost(pair.b, &event);
            assert_int_equal(send_all(pair.a, batch, 1), 0);
        }
        calls.recv_refused = cases[i].error;
        for (int poll = 0; poll < 4000; poll++) {
            if (poll_now(pair.b, &event, 1) > 0) {
                assert_int_equal(event.type, BTL_IB_EVENT_FAILED);
                assert_int_equal(event.error, cases[i].error);
                assert_string_equal(pair.b->refused, "recvmsg");
                failures++;
            }
        }
        assert_int_equal(failures, cases[i].fails);
        calls.recv_refused = 0;
        event = wait_recv(pair.b); /* nothing was closed */
        repost(pair.b, &event);
        close_pair(&pair);
    }
}

/* Without calls of several messages all goes one by one. */
TEST(test_single_messages)
{
    static const int errors[] = {ENOSYS, EPERM, EINVAL};
    btl_ib_tx_t batch[40];

    for (size_t i = 0; i < COUNT(errors); i++) {
        pair_t pair = open_udp(AF_INET);

        calls.mmsg_refused = errors[i];
        for (int round = 0; round < 4; round++) { /* as one in a call they would come faster */
            for (uint32_t j = 0; j < 40; j++) {
                batch[j] = make_tx(pair.a, &pair.slots, j, pair.b_at_a, 100 + 2 * j, 1);
            }
            exchange(&pair, batch, 40, 40);
        }
        assert_idle(pair.b);
        close_pair(&pair);
    }
}

/* Old errors without an end: it gives up for now. */
TEST(test_errors_without_end)
{
    int error = 0;

    pair_t pair = open_udp(AF_INET);
    const btl_ib_addr_t gone = add_gone(pair.a);
    btl_ib_tx_t batch[40];
    make_row(&pair, batch, 40, 100);
    for (int i = 0; i < 40; i++) {
        batch[i].to = gone;
        batch[i].size = 100 - (uint32_t) i % 2; /* none is joined with its neighbour's neighbour */
        batch[i].iov[0].iov_len = batch[i].size;
    }
    remember(batch, 40);
    const int took = pair.a->ops->send(pair.a, batch, 40, &error);
    assert_in_range(took, 1, 40);
    assert_true(took == 40 || error == EAGAIN);
    assert_refused(pair.a, gone);
    close_pair(&pair);
}

TEST(test_no_memory)
{
    btl_ib_event_t event;

    pair_t pair = open_udp(AF_INET);
    calls.no_memory = true;
    send_to(&pair, pair.b_at_a, 3);
    assert_idle(pair.b);
    calls.no_memory = false;
    for (uint32_t i = 0; i < 3; i++) {
        event = wait_recv(pair.b);
        assert_int_equal(assert_intact(&event), i);
        repost(pair.b, &event);
    }
    close_pair(&pair);
}

/* More datagrams in one buffer than any kernel joins now: no more than the buffer has room for
 * when they are moved apart. */
TEST(test_joined_beyond)
{
    static const struct {
        int of;
        uint32_t datagrams, size, events;
    } cases[] = {
        {16001, 2, 8000, 0}, /* above max_datagram */
        {1, 2, 4484, 0},     {2, 2, 4484, 4484}, {9, 2, 4484, 997},  {24, 2, 4484, 374},
        {36, 2, 4484, 250},  {9001, 2, 4484, 1}, {9001, 1, 4484, 1}, {-5, 1, 4484, 1},
    };
    uint64_t bursts = 0;
    uint64_t broken = 0;
    btl_ib_tx_t batch[2];
    btl_ib_event_t event;

    pair_t pair = open_udp(AF_INET);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int n = (int) cases[i].datagrams;
        uint32_t got = 0;

        if (pair.a->attr.max_datagram < cases[i].size || pair.a->attr.gso_bytes == 0) {
            print_message("skipped: two datagrams of %u bytes do not travel as one\n",
                          cases[i].size);
            break;
        }
        make_row(&pair, batch, n, cases[i].size);
        assert_int_equal(send_all(pair.a, batch, n), 0);
        calls.joined_as = cases[i].of;
        for (int look = 0; look < 10000; look++) {
            if (poll_now(pair.b, &event, 1) > 0) {
                got++;
                assert_int_equal((uintptr_t) event.data % 8, 0);
                repost(pair.b, &event);
            }
        }
        assert_int_equal(calls.joined_as, 0);
        assert_int_equal(got, cases[i].events);
        /* Too large is not the same as joined wrongly. */
        bursts += cases[i].of > 0 && (uint32_t) cases[i].of < cases[i].datagrams * cases[i].size;
        broken += cases[i].of == 1;
        assert_int_equal(pair.b->received_bursts, bursts);
        assert_int_equal(pair.b->broken_bursts, broken);
        assert_true((strstr(calls.heard, "cannot be taken apart") != NULL) == (broken > 0));
    }
    assert_non_null(strstr(calls.heard, "joined from datagrams of 1 bytes"));
    close_pair(&pair);
}

/* ---- a path that shrinks ---- */

/* None of them goes: they are too large. */
static void none_goes(pair_t *pair, const btl_ib_tx_t *batch, int n)
{
    for (int i = 0; i < n; i++) {
        int error = 0;
        assert_int_equal(pair->a->ops->send(pair->a, batch + i, n - i, &error), 0);
        assert_int_equal(error, EMSGSIZE);
    }
    assert_idle(pair->b);
}

/* The path carries less than it did: the engine is told how much, and nothing is sent in
 * fragments. */
static void shrink(sa_family_t family, bool joined, bool connected)
{
    const uint32_t carries = family == AF_INET ? 1432 : 1416; /* of 1466, multiples of 8 */
    btl_ib_tx_t batch[8];
    btl_ib_event_t event;

    need_own_network();
    need_udp(family);
    btl_ib_open_params_t params = heard_params();
    params.connected_max = connected;
    pair_t pair = open_pair(params);
    if (connected) {
        make_connected(pair.a, pair.b_at_a, pair.b);
    }
    const int n = joined ? 7 : 1;
    const uint32_t before = pair.a->attr.max_datagram;
    make_row(&pair, batch, n, before);
    exchange(&pair, batch, n, n);
    set_lo_mtu(1466);
    for (int i = 0; i < 2; i++) { /* it may have shrunk again */
        none_goes(&pair, batch, n);
        event = wait_event(pair.a);
        assert_int_equal(event.type, BTL_IB_EVENT_PATH_MTU);
        assert_int_equal(event.from, pair.b_at_a);
        assert_int_equal(event.origin, BTL_IB_ORIGIN_LOCAL);
        assert_int_equal(event.size, carries);
        assert_idle(pair.a);
    }
    /* What is cut smaller goes whole again, and joined. */
    make_row(&pair, batch, n, carries);
    calls.sends = 0;
    exchange(&pair, batch, n, n);
    assert_int_equal(calls.sends, 1);
    assert_idle(pair.a);
    set_lo_mtu(65536);
    close_pair(&pair);
}

TEST(test_path)
{
    shrink(AF_INET, false, false);
}

TEST(test_path_joined)
{
    shrink(AF_INET, true, false);
}

TEST(test_path_ipv6)
{
    shrink(AF_INET6, true, false);
}

TEST(test_path_connected)
{
    shrink(AF_INET, false, true);
}

TEST(test_path_connected_ipv6)
{
    shrink(AF_INET6, true, true);
}

/* ---- messages that somebody made up ---- */

/* As the kernel takes them: an ICMP message with the headers of a datagram from `a` to `b`, and
 * `size` bytes of it. */
typedef struct forgery {
    struct icmphdr icmp;
    struct iphdr ip;
    struct udphdr udp;
    uint8_t quoted[BTL_IB_QUOTED_MAX + 4];
} forgery_t;

static uint16_t internet_checksum(const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint32_t sum = 0;

    for (size_t i = 0; i + 1 < size; i += 2) {
        sum += (uint32_t) at[i] << 8 | at[i + 1];
    }
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return htons((uint16_t) ~sum);
}

/* Throw one that quotes so many bytes, each its own index. */
static void forge(const pair_t *pair, uint8_t code, uint32_t size)
{
    const btl_ib_udp_name_t from = udp_name(pair->a);
    const btl_ib_udp_name_t to = udp_name(pair->b);
    const size_t whole = offsetof(forgery_t, quoted) + size;
    const int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
    forgery_t forgery = {
        .icmp = {.type = ICMP_DEST_UNREACH, .code = code},
        .ip = {.version = 4,
               .ihl = 5,
               .tot_len = htons(1000),
               .ttl = 64,
               .protocol = IPPROTO_UDP,
               .saddr = from.v4.sin_addr.s_addr,
               .daddr = to.v4.sin_addr.s_addr},
        .udp = {.source = from.v4.sin_port, .dest = to.v4.sin_port, .len = htons(980)},
    };

    assert_in_range(fd, 0, INT32_MAX);
    forgery.icmp.un.frag.mtu = htons(code == ICMP_FRAG_NEEDED ? 600 : 0);
    for (uint32_t i = 0; i < size; i++) {
        forgery.quoted[i] = (uint8_t) i;
    }
    forgery.icmp.checksum = internet_checksum(&forgery, whole);
    assert_int_equal(sendto(fd, &forgery, whole, 0, &from.any, sizeof(from.v4)), whole);
    close(fd);
}

static void assert_forged(const pair_t *pair, btl_ib_event_type_t type, uint32_t size)
{
    const btl_ib_event_t event = wait_event(pair->a);

    assert_int_equal(event.type, type);
    assert_int_equal(event.from, pair->b_at_a);
    assert_int_equal(event.origin, BTL_IB_ORIGIN_NETWORK);
    assert_int_equal(event.quoted_size, size < BTL_IB_QUOTED_MAX ? size : BTL_IB_QUOTED_MAX);
    for (uint32_t i = 0; i < event.quoted_size; i++) {
        assert_int_equal(event.quoted[i], i);
    }
}

/* The engine gets what they quote, and no errno of a call stands for them. What they say of the
 * path does not keep the kernel from sending what is larger. What may be over soon is no news at
 * all. */
static void forged(bool connected)
{
    static const struct {
        uint8_t code;
        int error; /* as told */
    } passing[] = {
        {ICMP_NET_UNREACH, ENETUNREACH}, {ICMP_HOST_UNREACH, EHOSTUNREACH}, {ICMP_NET_ANO, EACCES},
        {ICMP_HOST_ANO, EACCES},         {ICMP_PKT_FILTERED, EACCES},
    };
    static const uint32_t sizes[] = {0, 2, 8, 14, BTL_IB_QUOTED_MAX, BTL_IB_QUOTED_MAX + 4};
    btl_ib_tx_t batch[7];

    need_own_network();
    need_udp(AF_INET);
    btl_ib_open_params_t params = heard_params();
    params.connected_max = connected;
    pair_t pair = open_pair(params);
    if (connected) {
        make_connected(pair.a, pair.b_at_a, pair.b);
    }
    const uint32_t before = pair.a->attr.max_datagram;
    make_row(&pair, batch, 7, before);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        forge(&pair, ICMP_PORT_UNREACH, sizes[i]);
        exchange(&pair, batch, 7, 7);
        assert_forged(&pair, BTL_IB_EVENT_REFUSED, sizes[i]);
        forge(&pair, ICMP_FRAG_NEEDED, sizes[i]);
        exchange(&pair, batch, 7, 7);
        assert_forged(&pair, BTL_IB_EVENT_PATH_MTU, sizes[i]);
    }
    for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
        char text[64] = "";

        forge(&pair, passing[i].code, BTL_IB_QUOTED_MAX);
        exchange(&pair, batch, 7, 7);
        const btl_ib_event_t event = wait_event(pair.a);
        assert_int_equal(event.type, BTL_IB_EVENT_UNREACHABLE);
        assert_int_equal(event.error, passing[i].error);
        assert_int_equal(event.origin, BTL_IB_ORIGIN_NETWORK);
        assert_int_equal(event.quoted_size, BTL_IB_QUOTED_MAX);
        assert_true(pair.a->ops->offender_text(pair.a, pair.b_at_a, text, sizeof(text)));
        assert_string_equal(text, "127.0.0.1");
        assert_false(pair.a->ops->offender_text(pair.a, pair.b_at_a + 1, text, sizeof(text)));
    }
    /* Of several the one that can be checked best. */
    forge(&pair, ICMP_PORT_UNREACH, BTL_IB_QUOTED_MAX);
    forge(&pair, ICMP_PORT_UNREACH, 0);
    exchange(&pair, batch, 7, 7);
    assert_forged(&pair, BTL_IB_EVENT_REFUSED, BTL_IB_QUOTED_MAX);
    assert_idle(pair.a);
    /* Nor does what the kernel learned from it count for peers that are added later. */
    const btl_ib_addr_t again = add(pair.a, pair.a);
    assert_int_equal(pair.a->ops->path_datagram(pair.a, again), before);
    pair.a->ops->addr_remove(pair.a, again);
    close_pair(&pair);
}

TEST(test_forged)
{
    forged(false);
}

TEST(test_forged_connected)
{
    forged(true);
}

/* The error was of one before: this one goes whole, and nothing is said of its path. A socket
 * that is full is no path that is narrow. */
TEST(test_not_the_path)
{
    btl_ib_tx_t batch[1];
    int error = 0;

    pair_t pair = open_udp(AF_INET);
    make_row(&pair, batch, 1, 800);
    calls.send_error = EMSGSIZE;
    calls.send_failures = 1;
    exchange(&pair, batch, 1, 1);
    calls.send_failures = 2; /* the call, the second try */
    assert_int_equal(pair.a->ops->send(pair.a, batch, 1, &error), 0);
    assert_int_equal(error, EMSGSIZE);
    assert_non_null(strstr(calls.heard, "cannot send 800 bytes"));
    close_pair(&pair);
}

UNIT_MAIN(NULL, free_devices)
