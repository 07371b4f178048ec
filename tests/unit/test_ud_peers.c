/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport verbs over UD: addresses of peers, and room for what they send. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "said.h"
#include "ud_pair.h"
#include "unit.h"

UD_TEST(test_address)
{
    const btl_ib_ud_address_t good = {.gid.raw = {0xfe, 0x80, [15] = 9},
                                      .qkey = 0x12345678,
                                      .lid = 300,
                                      .pkey = 0xffff,
                                      .mtu = IBV_MTU_2048,
                                      .count = 2,
                                      .qpn = {17, 0xfffffe}};
    btl_ib_ud_address_t back;
    uint8_t bytes[BTL_IB_ADDR_BYTES];
    const uint32_t len = btl_ib_ud_address_pack(&good, bytes);
    static const struct {
        uint8_t at, value;
    } wrong[] = {
        {0, 2},    {1, 2},     {2, 0},  {2, 3},  {2, 5},  {3, 6},
        {4, 0xc0}, {12, 0xff}, {31, 0}, {31, 1}, {28, 1}, {32, 1},
    };

    assert_int_equal(len, 36);
    assert_int_equal(btl_ib_ud_address_unpack(bytes, len, &back), 0);
    assert_memory_equal(&back.gid, &good.gid, 16);
    assert_int_equal(back.qkey, good.qkey);
    assert_int_equal(back.lid, good.lid);
    assert_int_equal(back.mtu, good.mtu);
    assert_int_equal(back.pkey, good.pkey);
    assert_memory_equal(back.qpn, good.qpn, sizeof(back.qpn));
    for (uint32_t cut = 0; cut < len; cut++) {
        assert_int_equal(btl_ib_ud_address_unpack(bytes, cut, &back), -EINVAL);
    }
    assert_int_equal(btl_ib_ud_address_unpack(bytes, len + 4, &back), -EINVAL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const uint8_t right = bytes[wrong[i].at];
        bytes[wrong[i].at] = wrong[i].value;
        assert_int_equal(btl_ib_ud_address_unpack(bytes, len, &back), -EINVAL);
        bytes[wrong[i].at] = right;
    }
    memset(bytes + 12, 0, 16);
    assert_int_equal(btl_ib_ud_address_unpack(bytes, len, &back), -EINVAL);
}

/* One handle for each host, however many peers are there. */
UD_TEST(test_handles_are_shared)
{
    btl_ib_open_params_t params = usual;
    uint8_t other[BTL_IB_ADDR_BYTES];
    btl_ib_addr_t addr;

    params.service_level = 3;
    params.traffic_class = 106;
    btl_ib_transport_t *t = open_one(params);
    btl_ib_transport_t *peers[20];
    btl_ib_addr_t addrs[20];
    for (int i = 0; i < 20; i++) {
        peers[i] = open_one(usual);
        addrs[i] = add(t, peers[i]);
    }
    assert_int_equal(fake.handles, 1);
    assert_int_equal(fake.ah.sl, 3);
    assert_int_equal(fake.ah.grh.traffic_class, 106);
    assert_int_equal(fake.ah.is_global, 1);
    assert_int_equal(fake.ah.grh.sgid_index, 1);
    assert_int_equal(add(t, peers[4]), addrs[4]);
    memcpy(other, peers[0]->address, peers[0]->address_len);
    other[27] = 99; /* 10.0.0.99 */
    fake.ah_error = ETIMEDOUT;
    assert_int_equal(t->ops->addr_add(t, other, peers[0]->address_len, &addr), -EHOSTUNREACH);
    fake.ah_error = ENOMEM;
    assert_int_equal(t->ops->addr_add(t, other, peers[0]->address_len, &addr), -ENOMEM);
    fake.ah_error = 0;
    assert_int_equal(t->ops->addr_add(t, other, peers[0]->address_len, &addr), 0);
    assert_int_equal(fake.handles, 2);
    t->ops->addr_remove(t, addr);
    assert_int_equal(t->ops->addr_add(t, other, peers[0]->address_len, &addr), 0);
    assert_int_equal(fake.handles, 3); /* it had gone with its last peer */
    other[22] = 0;                     /* no IPv4 address any more */
    assert_int_equal(t->ops->addr_add(t, other, peers[0]->address_len, &addr), -EHOSTUNREACH);
    t->ops->addr_remove(t, addrs[4]);
    for (int i = 0; i < 20; i++) {
        t->ops->addr_remove(t, addrs[i]);
        close_one(peers[i]);
    }
    close_one(t);
}

/* An address that is added twice is one peer, until it was removed twice; another process at its
 * place is another. */
UD_TEST(test_same_peer)
{
    uint8_t other[BTL_IB_ADDR_BYTES];
    btl_ib_addr_t addr;

    btl_ib_transport_t *t = open_one(usual);
    btl_ib_transport_t *peer = open_one(usual);
    const btl_ib_addr_t first = add(t, peer);
    assert_int_equal(add(t, peer), first);
    memcpy(other, peer->address, peer->address_len);
    other[11] ^= 1; /* its Q_Key */
    assert_int_equal(t->ops->addr_add(t, other, peer->address_len, &addr), 0);
    assert_int_not_equal(addr, first);
    t->ops->addr_remove(t, addr);
    t->ops->addr_remove(t, first);
    assert_int_equal(add(t, peer), first);
    assert_int_equal(fake.handles, 1);
    t->ops->addr_remove(t, first);
    t->ops->addr_remove(t, first);
    (void) add(t, peer);
    assert_int_equal(fake.handles, 2); /* it had gone with the last of them */
    close_one(peer);
    close_one(t);
}

/* A peer leaves right after the last datagrams to it: its handle stays until they have gone. */
UD_TEST(test_handles_outlive_sends)
{
    pair_t pair = open_pair(usual);
    btl_ib_transport_t *t = pair.a;
    send_all(&pair, 0, 32, 64, SMALL); /* the 32nd asks for a completion */
    (void) poll_all(t, BTL_IB_EVENT_SENT);
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 32);
    const int before = fake_objects;
    for (uint32_t i = 0; i < 40; i++) { /* other hosts, which come and go: the list of them grows */
        uint8_t other[BTL_IB_ADDR_BYTES];
        memcpy(other, pair.b->address, pair.b->address_len);
        other[27] = (uint8_t) (100 + i);
        pair_t to_other = pair;
        assert_int_equal(t->ops->addr_add(t, other, pair.b->address_len, &to_other.to_b), 0);
        send_all(&to_other, i, 1, 64, SMALL);
        t->ops->addr_remove(t, to_other.to_b);
    }
    assert_int_equal(fake_objects, before + 40);
    send_all(&pair, 0, 32, 64, SMALL); /* the 64th asks for a completion */
    send_all(&pair, 0, 32, 64, SMALL);
    (void) poll_all(t, BTL_IB_EVENT_SENT);
    assert_int_equal(fake_objects, before);
    fake.hold = true; /* those that are left when it closes go then */
    send_all(&pair, 0, 1, SIZE, LARGE);
    t->ops->addr_remove(t, pair.to_b);
    close_pair(&pair);
}

/* A peer with another MTU is named, and can be reached: the engine sends no more than that. */
UD_TEST(test_other_mtu)
{
    btl_ib_addr_t addr;
    uint8_t other[BTL_IB_ADDR_BYTES];

    btl_ib_transport_t *t = open_one(usual);
    memcpy(other, t->address, t->address_len);
    other[27] = 9; /* 10.0.0.9 */
    for (uint8_t mtu = 0; mtu <= IBV_MTU_4096; mtu++) {
        const bool differs = mtu != 0 && mtu != fake.device[0].port[0].attr.active_mtu;
        char detail[64];
        forget_said();
        other[3] = mtu;
        assert_int_equal(t->ops->addr_add(t, other, t->address_len, &addr), 0);
        t->ops->addr_remove(t, addr);
        assert_int_equal(diagnostics, differs ? 1u << BTL_IB_DIAG_MTU : 0);
        snprintf(detail, sizeof(detail), "10.0.0.9: %u bytes, here %u", 128u << mtu,
                 128u << fake.device[0].port[0].attr.active_mtu);
        assert_string_equal(diagnostic_detail, differs ? detail : "");
    }
    close_one(t);
}

/* Less than the port carries, as the user wants it: down to a size that InfiniBand has. */
UD_TEST(test_wanted_mtu)
{
    btl_ib_open_params_t params = usual;

    params.mtu = 511;
    btl_ib_transport_t *t = open_one(params);
    assert_int_equal(t->attr.max_datagram, 256);
    assert_int_equal(t->address[3], IBV_MTU_256);
    close_one(t);
    params.mtu = 65535;
    t = open_one(params);
    assert_int_equal(t->attr.max_datagram, 1024);
    assert_int_equal(t->address[3], fake.device[0].port[0].attr.active_mtu);
    close_one(t);
}

/* For people: what the port and the queue pair are known by. */
UD_TEST(test_address_text)
{
    uint8_t other[BTL_IB_ADDR_BYTES];
    char text[64];
    char expected[64];

    btl_ib_transport_t *t = open_one(usual);
    memcpy(other, t->address, t->address_len);
    other[27] = 9; /* 10.0.0.9 */
    snprintf(expected, sizeof(expected), "10.0.0.9, QPN 0x%06x", qpn_of(t, 0));
    assert_true(t->ops->address_text(other, t->address_len, text, sizeof(text)));
    assert_string_equal(text, expected);
    assert_false(t->ops->address_text(other, t->address_len - 1, text, sizeof(text)));
    close_one(t);
}

/* A peer that cannot be reached is refused, and named. */
UD_TEST(test_other_subnet)
{
    btl_ib_addr_t addr;
    uint8_t other[BTL_IB_ADDR_BYTES];

    btl_ib_transport_t *t = open_one(usual);
    ud_set_gid_type(t, IBV_GID_TYPE_ROCE_V1, 24);
    memcpy(other, t->address, t->address_len);
    other[26] = 7; /* 10.0.7.1 */
    assert_int_equal(t->ops->addr_add(t, other, t->address_len, &addr), -EHOSTUNREACH);
    assert_int_equal(diagnostics, 1u << BTL_IB_DIAG_SUBNET);
    assert_string_equal(diagnostic_detail, "10.0.7.1");
    assert_int_equal(fake.handles, 0);
    close_one(t);
}

/* On InfiniBand a LID is enough within the subnet. */
UD_TEST(test_infiniband)
{
    fake_port_t *port = &fake.device[0].port[0];
    btl_ib_event_t event;

    port->attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
    port->gids = 0;
    fake_gid(port, "fe80::1", IBV_GID_TYPE_IB);
    pair_t pair = open_pair(usual);
    btl_ib_addr_t to_a = add(pair.b, pair.a);
    assert_int_equal(fake.ah.is_global, 0);
    assert_int_equal(fake.ah.dlid, 7);
    send_all(&pair, 1, 1, 100, SMALL);
    assert_int_equal(poll_for(pair.b, BTL_IB_EVENT_RECV, &event, 1), 1);
    assert_int_equal(event.from, to_a);
    uint8_t other[BTL_IB_ADDR_BYTES];
    memcpy(other, pair.b->address, pair.b->address_len);
    ud_set_gid_byte(pair.a, 1, 0xc0); /* fec0::1, and routers to: */
    other[13] = 0xc0;
    other[19] = 7; /* fec0:0:0:7::1 */
    assert_int_equal(pair.a->ops->addr_add(pair.a, other, pair.b->address_len, &to_a), 0);
    assert_int_equal(fake.ah.is_global, 1);
    close_pair(&pair);
    port->attr.flags = IBV_QPF_GRH_REQUIRED;
    pair = open_pair(usual);
    assert_int_equal(fake.ah.is_global, 1);
    close_pair(&pair);
}

/* Each peer adds to the buffers of a queue with credits. */
UD_TEST(test_grows_with_peers)
{
    btl_ib_transport_t *peers[30];

    btl_ib_transport_t *t = open_one(usual);
    for (int i = 0; i < 30; i++) {
        peers[i] = open_one(usual);
        (void) add(t, peers[i]);
        assert_true(fake_posted(qpn_of(t, SMALL)) >= NUM_SMALL + 4 * ((uint32_t) i + 1));
    }
    assert_in_range(fake_posted(qpn_of(t, LARGE)), NUM_LARGE, NUM_LARGE + 32);
    for (int i = 0; i < 30; i++) {
        close_one(peers[i]);
    }
    close_one(t);
}

/* What is kept for control traffic is posted, and not promised to anybody: by the transport where
 * each queue has its queue pair, else by the engine, which is told of it then (test_reserve of
 * test_credit). */
UD_TEST(test_reserve)
{
    btl_ib_open_params_t params = usual;

    btl_ib_transport_t *t = open_one(params);
    const uint32_t posted = fake_posted(qpn_of(t, SMALL));
    close_one(t);
    params.queue[SMALL].reserve = 11;
    t = open_one(params);
    assert_int_equal(fake_posted(qpn_of(t, SMALL)), posted + 11);
    assert_int_equal(t->ops->rx_depth(t, 128), NUM_SMALL);
    close_one(t);
    params.channels = BTL_IB_CHANNELS_SHARED;
    t = open_one(params);
    assert_false(t->attr.queue_buffers);
    assert_int_equal(t->ops->rx_depth(t, 128), NUM_SMALL + NUM_LARGE + 11);
    assert_in_range(fake_posted(qpn_of(t, SMALL)), NUM_SMALL + NUM_LARGE + 11, UINT32_MAX);
    close_one(t);
    /* What waits to be posted of a queue that all peers share is not promised, either. */
    params.queue[LARGE].shared = true;
    t = open_one(params);
    assert_int_equal(t->ops->rx_depth(t, 128), NUM_SMALL + NUM_LARGE - BATCH_LARGE + 11);
    close_one(t);
    /* Of the few buffers that a device takes a quarter at most is kept. */
    params.channels = BTL_IB_CHANNELS_OWN;
    fake.max_qp_wr = NUM_SMALL;
    t = open_one(params);
    assert_int_equal(fake_posted(qpn_of(t, SMALL)), NUM_SMALL);
    assert_int_equal(t->ops->rx_depth(t, 128), NUM_SMALL - NUM_SMALL / 4 - 1);
    close_one(t);
}

/* More is never promised than there are buffers, however many peers come. */
UD_TEST(test_promises)
{
    uint8_t other[BTL_IB_ADDR_BYTES];
    btl_ib_addr_t addr;

    fake.max_qp_wr = 256;
    btl_ib_transport_t *t = open_one(usual);
    btl_ib_transport_t *peer = open_one(usual);
    const uint32_t qpn = qpn_of(t, SMALL);
    memcpy(other, peer->address, peer->address_len);
    for (int i = 0; i < 100; i++) {
        other[24] = (uint8_t) i; /* i.0.0.1 */
        assert_int_equal(t->ops->addr_add(t, other, peer->address_len, &addr), 0);
        assert_in_range(t->ops->rx_depth(t, 128), NUM_SMALL, fake_posted(qpn));
    }
    /* 5 may wait to be posted again, 5 be with handlers */
    assert_int_equal(t->ops->rx_depth(t, 128), 256 - 10);
    for (int i = 0; i < 100; i++) {
        t->ops->addr_remove(t, (btl_ib_addr_t) i);
    }
    assert_int_equal(t->ops->rx_depth(t, 128), NUM_SMALL);
    fake.reg_error = ENOMEM; /* no memory for more */
    const uint32_t posted = fake_posted(qpn);
    for (int i = 0; i < 100; i++) {
        other[24] = (uint8_t) i;
        assert_int_equal(t->ops->addr_add(t, other, peer->address_len, &addr), 0);
        assert_in_range(t->ops->rx_depth(t, 128), NUM_SMALL, posted);
    }
    close_one(peer);
    close_one(t);
}

UNIT_MAIN(NULL, NULL)
