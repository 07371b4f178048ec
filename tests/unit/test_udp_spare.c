/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The transport `udp`: the spare flow leaves from a port that the peer does not know. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "transports.h"
#include "udp_calls.h"
#include "udp_inside.h"
#include "unit.h"

static sa_family_t family;
static uint32_t lanes;

static int ipv4(void **state)
{
    family = AF_INET;
    lanes = 2;
    return 0;
}

static int ipv6_one_lane(void **state)
{
    family = AF_INET6;
    lanes = 1;
    return 0;
}

static uint32_t port_of(const btl_ib_transport_t *t)
{
    return ntohs(udp_name(t).v4.sin_port);
}

static btl_ib_open_params_t params_of_lanes(void)
{
    need_udp(family);
    return lanes == 2 ? two_lanes(4) : heard_params();
}

/* Datagrams of a batch, of which the first leave by the spare flow. */
static void send_some(const pair_t *pair, uint32_t n, uint32_t spare)
{
    btl_ib_tx_t batch[BATCH_MAX];

    for (uint32_t i = 0; i < n; i++) {
        batch[i] = make_tx(pair->a, &pair->slots, i, pair->b_at_a, 600, 1);
        batch[i].flow = i < spare ? pair->a->attr.flows : 0;
    }
    assert_int_equal(send_all(pair->a, batch, (int) n), 0);
}

/* Takes one in. Returns the port that it came from. */
static uint32_t take(const pair_t *pair, bool spare)
{
    const btl_ib_event_t event = wait_recv(pair->b);
    char text[64];

    (void) assert_intact(&event);
    assert_true(event.from == (spare ? BTL_IB_ADDR_UNKNOWN : pair->a_at_b));
    assert_true(pair->b->ops->from_host(pair->b, &event, pair->a_at_b));
    assert_true(pair->b->ops->source_text(pair->b, &event, text, sizeof(text)));
    repost(pair->b, &event);
    return (uint32_t) strtoul(strrchr(text, ':') + 1, NULL, 10);
}

static uint32_t take_spare(const pair_t *pair)
{
    send_some(pair, 1, 1);
    return take(pair, true);
}

/* It is opened when it is needed, and again for another port, once a second at most. */
static void test_ports(void **state)
{
    pair_t pair = open_pair(params_of_lanes());

    assert_int_equal(pair.a->attr.flows, lanes == 2 ? BTL_IB_FLOWS_OF_LANES : 1);
    assert_true(pair.a->attr.spare_flow);
    calls.named = 0;
    const uint32_t first = take_spare(&pair);
    assert_int_equal(calls.named, 1);
    assert_true(first != port_of(pair.a) && first != port_of(pair.a) + lanes - 1);
    assert_int_equal(take_spare(&pair), first);
    pair.a->ops->flow_renew(pair.a, pair.a->attr.flows, 5000000);
    const uint32_t second = take_spare(&pair);
    assert_int_not_equal(second, first);
    pair.a->ops->flow_renew(pair.a, pair.a->attr.flows, 5999999);
    assert_int_equal(take_spare(&pair), second);
    pair.a->ops->flow_renew(pair.a, pair.a->attr.flows, 6000000);
    assert_int_not_equal(take_spare(&pair), second);
    send_some(&pair, 1, 0);
    (void) take(&pair, false);
    assert_int_equal(udp_inside(pair.a).sockets, lanes);
    assert_int_equal(calls.worst, 10);
    close_pair(&pair);
}

/* Of a batch each leaves by its own flow, joined with others of it; not by a connected socket. */
static void test_batch(void **state)
{
    pair_t pair = open_pair(params_of_lanes());
    uint32_t spare = 0;

    if (lanes == 2) {
        make_connected(pair.a, pair.b_at_a, pair.b);
    }
    calls.sends = calls.messages = 0;
    send_some(&pair, 20, 10);
    assert_int_equal(calls.sends, 2);
    assert_true(calls.messages == 2 || pair.a->attr.gso_bytes == 0);
    for (int i = 0; i < 20; i++) {
        const btl_ib_event_t event = wait_recv(pair.b);
        spare += event.from == BTL_IB_ADDR_UNKNOWN;
        repost(pair.b, &event);
    }
    assert_int_equal(spare, 10);
    assert_idle(pair.b);
    close_pair(&pair);
}

/* What comes to its port is dropped, and fills no buffer. */
static void test_deaf(void **state)
{
    pair_t pair = open_pair(params_of_lanes());
    btl_ib_udp_name_t name = udp_name(pair.a);

    btl_ib_udp_name_set_port(&name, (uint16_t) take_spare(&pair));
    for (int i = 0; i < 3; i++) {
        assert_true(sendto(udp_fd(pair.b, 0), "hello", 5, 0, &name.any, btl_ib_udp_name_len(&name))
                    == 5);
    }
    assert_idle(pair.a);
    assert_int_equal(take_spare(&pair), ntohs(name.v4.sin_port));
    assert_idle(pair.a);
    close_pair(&pair);
}

/* A port that nobody has any more refuses it: the next datagram by this flow hears that. */
static void test_refused(void **state)
{
    pair_t pair = open_pair(params_of_lanes());
    btl_ib_event_t event;

    (void) take_spare(&pair);
    pair.b->ops->stop(pair.b);
    send_some(&pair, 1, 1);
    send_some(&pair, 1, 1);
    assert_int_equal(poll_now(pair.a, &event, 1), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_REFUSED);
    assert_true(event.from == pair.b_at_a);
    close_pair(&pair);
}

/* Only ports of the range are taken, from its end; without one it goes by the usual port, and that
 * is told once. */
static void test_range(void **state)
{
    btl_ib_open_params_t params = params_of_lanes();

    for (uint32_t room = 0; room < 3; room++) {
        btl_ib_transport_t *any = open_with(params);
        params.port_min = (uint16_t) port_of(any);
        close_transport(any);
        params.port_count = 2 * lanes + room;
        forget_calls();
        pair_t pair = open_pair(params);
        const uint32_t last = params.port_min + params.port_count - 1;
        send_some(&pair, 1, 1);
        assert_int_equal(take(&pair, room > 0), room > 0 ? last : port_of(pair.a));
        pair.a->ops->flow_renew(pair.a, pair.a->attr.flows, 5000000);
        send_some(&pair, 1, 1);
        assert_int_equal(take(&pair, room > 0), room == 2   ? last - 1
                                                : room == 1 ? last
                                                            : port_of(pair.a));
        const char *told = strstr(calls.heard, "no further port to send by");
        assert_true((told != NULL) == (room < 2));
        assert_true(told == NULL || calls.worst == 1);
        close_pair(&pair);
        params.port_min = 0;
    }
}

static void test_text(void **state)
{
    pair_t pair = open_pair(params_of_lanes());
    char text[128], ports[64];
    const uint32_t port = take_spare(&pair);

    assert_true(
        pair.a->ops->flow_text(pair.a, pair.b_at_a, pair.a->attr.flows, text, sizeof(text)));
    snprintf(ports, sizeof(ports), ":%u to ", port);
    assert_non_null(strstr(text, ports));
    snprintf(ports, sizeof(ports), ":%u", port_of(pair.b));
    assert_string_equal(strrchr(text, ':'), ports);
    close_pair(&pair);
}

int main(void)
{
#define TESTS                                                                                      \
    cmocka_unit_test(test_ports), cmocka_unit_test(test_batch), cmocka_unit_test(test_deaf),       \
        cmocka_unit_test(test_refused), cmocka_unit_test(test_range), cmocka_unit_test(test_text)
    const struct CMUnitTest with_ipv4[] = {TESTS};
    const struct CMUnitTest with_ipv6[] = {TESTS};

    return cmocka_run_group_tests(with_ipv4, ipv4, free_devices)
           + cmocka_run_group_tests(with_ipv6, ipv6_one_lane, free_devices);
}
