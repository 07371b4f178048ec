/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The transport `ofi` over a provider that nobody has (fake_provider.h): it wants what usnic, efa
 * and verbs want, runs out of room, and fails on demand.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#undef stop /* cmocka 2.0 has a macro of that name */

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "fake_provider.h"
#include "transport.h"
#include "unit.h"

static const offer_t only_fake[] = {{"verbs", "fake0-dgram", "fake0", NULL}};

/* ---- helpers ---- */

static const btl_ib_log_t silent = {.print = NULL};

static int list_devices(btl_ib_device_t **list)
{
    return btl_ib_ofi_type.devices(&(btl_ib_search_t){.provider = "", .log = silent}, list);
}

static btl_ib_transport_t *open_with(uint32_t rx_depth, uint32_t rx_size)
{
    const btl_ib_open_params_t params = {.rx_depth = rx_depth, .rx_size = rx_size};
    btl_ib_device_t *list = NULL;
    btl_ib_transport_t *t = NULL;

    offers = only_fake;
    offer_count = COUNT(only_fake);
    assert_int_equal(list_devices(&list), 1);
    assert_int_equal(btl_ib_ofi_type.open(&list[0], &params, &t), 0);
    btl_ib_ofi_type.devices_free(list, 1);
    return t;
}

/* Two transports, and memory to send from. */
typedef struct pair {
    btl_ib_transport_t *a, *b;
    btl_ib_addr_t b_at_a, a_at_b;
    uint8_t *memory;
    void *mem;
} pair_t;

enum { SLOT = 512, SLOTS = 16 };

static void open_pair(pair_t *pair, uint32_t rx_depth, uint32_t rx_size)
{
    pair->a = open_with(rx_depth, rx_size);
    pair->b = open_with(rx_depth, rx_size);
    assert_int_equal(
        pair->a->ops->addr_add(pair->a, pair->b->address, pair->b->address_len, &pair->b_at_a), 0);
    assert_int_equal(
        pair->b->ops->addr_add(pair->b, pair->a->address, pair->a->address_len, &pair->a_at_b), 0);
    pair->memory = malloc(SLOT * SLOTS);
    assert_non_null(pair->memory);
    assert_int_equal(pair->a->ops->mem_register(pair->a, pair->memory, SLOT * SLOTS, &pair->mem),
                     0);
    assert_int_equal(pair->mem != NULL, fake.local);
}

static void close_pair(pair_t *pair)
{
    pair->a->ops->stop(pair->a);
    pair->b->ops->stop(pair->b);
    pair->a->ops->mem_deregister(pair->a, pair->mem);
    free(pair->memory);
    pair->a->ops->close(pair->a);
    pair->b->ops->close(pair->b);
    assert_int_equal(live, 0);
}

static uint8_t pattern(uint32_t size, uint32_t at)
{
    return (uint8_t) (size * 7 + at * 13 + 1);
}

static int send_one(pair_t *pair, uint32_t slot, uint32_t size, int *error)
{
    uint8_t *data = pair->memory + slot * SLOT + pair->a->attr.headroom;
    const btl_ib_tx_t tx = {
        .to = pair->b_at_a,
        .niov = 1,
        .size = size,
        .iov = {{.iov_base = data, .iov_len = size}},
        .mem = pair->mem,
        .context = data,
    };

    for (uint32_t i = 0; i < size; i++) {
        data[i] = pattern(size, i);
    }
    return pair->a->ops->send(pair->a, &tx, 1, error);
}

static void must_send(pair_t *pair, uint32_t slot, uint32_t size)
{
    int error = 0;

    assert_int_equal(send_one(pair, slot, size, &error), 1);
}

static void assert_datagram(const pair_t *pair, const btl_ib_event_t *event, uint32_t size)
{
    assert_int_equal(event->type, BTL_IB_EVENT_RECV);
    assert_int_equal(event->size, size);
    assert_int_equal((uintptr_t) event->data % 8, 0);
    assert_int_equal(event->from, fake.source ? pair->a_at_b : BTL_IB_ADDR_UNKNOWN);
    for (uint32_t i = 0; i < size; i++) {
        assert_int_equal(event->data[i], pattern(size, i));
    }
}

static void must_receive(pair_t *pair, uint32_t size)
{
    btl_ib_event_t event;

    assert_int_equal(pair->b->ops->poll(pair->b, 0, &event, 1), 1);
    assert_datagram(pair, &event, size);
    pair->b->ops->repost(pair->b, &event.buffer, 1);
}

static int forget(void **state)
{
    memset(&fake, 0, sizeof(fake));
    return 0;
}

/* ---- tests ---- */

static void exchange_all(void)
{
    btl_ib_event_t event;
    pair_t pair;

    open_pair(&pair, 4, 0);
    assert_int_equal(pair.a->attr.headroom, fake.tx_prefix ? fake.prefix : 0);
    assert_int_equal(pair.a->attr.registered_page > 0, fake.local);
    assert_int_equal(pair.a->attr.knows_source, fake.source);
    assert_int_equal(pair.a->attr.max_datagram,
                     LARGEST - (fake.tx_prefix || fake.rx_prefix ? fake.prefix : 0));
    for (uint32_t size = 1; size <= pair.a->attr.max_datagram; size++) {
        must_send(&pair, size % SLOTS, size);
        if (size > pair.a->attr.inline_size) {
            assert_int_equal(pair.a->ops->poll(pair.a, 0, &event, 1), 1);
            assert_int_equal(event.type, BTL_IB_EVENT_SENT);
            assert_ptr_equal(event.context,
                             pair.memory + size % SLOTS * SLOT + pair.a->attr.headroom);
        }
        must_receive(&pair, size);
        assert_int_equal(pair.a->ops->poll(pair.a, 0, &event, 1), 0);
    }
    close_pair(&pair);
}

TEST_WITH(test_modes, forget, NULL)
{
    static const size_t prefixes[] = {8, 40, 64};

    for (unsigned bits = 0; bits < 32; bits++) {
        for (size_t i = 0; i < COUNT(prefixes); i++) {
            fake.tx_prefix = bits & 1;
            fake.rx_prefix = bits & 2;
            fake.local = bits & 4;
            fake.context = bits & 8;
            fake.source = bits & 16;
            fake.prefix = prefixes[i];
            exchange_all();
        }
    }
}

/* All memory that may be registered at once has keys of its own. */
TEST_WITH(test_keys, forget, NULL)
{
    static uint8_t memory[64];
    void *more[3];
    pair_t pair;

    fake.local = true;
    open_pair(&pair, 4, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pair.a->ops->mem_register(pair.a, memory, sizeof(memory), &more[i]), 0);
        assert_non_null(more[i]);
    }
    for (int i = 0; i < 3; i++) {
        pair.a->ops->mem_deregister(pair.a, more[i]);
    }
    close_pair(&pair);
}

/* The first after a silence at once, then all that there is, though it comes one a call. */
TEST_WITH(test_batches, forget, NULL)
{
    btl_ib_event_t events[16];
    pair_t pair;

    open_pair(&pair, 16, 0);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 12; i++) {
            must_send(&pair, i, i + 1);
        }
        assert_int_equal(pair.b->ops->poll(pair.b, 0, events, 16), 1);
        assert_int_equal(pair.b->ops->poll(pair.b, 0, events + 1, 5), 5);
        assert_int_equal(pair.b->ops->poll(pair.b, 0, events + 6, 10), 6);
        assert_int_equal(pair.b->ops->poll(pair.b, 0, events + 12, 4), 0);
        for (uint32_t i = 0; i < 12; i++) {
            assert_datagram(&pair, &events[i], i + 1);
            pair.b->ops->repost(pair.b, &events[i].buffer, 1);
        }
    }
    close_pair(&pair);
}

/* Buffers that could not be posted are posted later, by whichever call comes first. */
TEST_WITH(test_no_room, forget, NULL)
{
    pair_t pair;
    btl_ib_event_t events[4];
    void *buffers[4];

    open_pair(&pair, 4, 0);
    for (int round = 0; round < 20; round++) {
        int got = 0;

        for (uint32_t i = 0; i < 4; i++) {
            must_send(&pair, i, i + 1);
        }
        while (got < 4) {
            assert_int_equal(pair.b->ops->poll(pair.b, 0, &events[got], 1), 1);
            assert_datagram(&pair, &events[got], (uint32_t) got + 1);
            buffers[got] = events[got].buffer;
            got++;
        }
        fake.no_room = round % 6;
        pair.b->ops->repost(pair.b, buffers, 4);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(pair.b->ops->poll(pair.b, 0, events, 1), 0);
        }
        assert_int_equal(endpoints[1].posted.tail - endpoints[1].posted.head, 4);
    }
    close_pair(&pair);
}

/* A datagram that is too long costs nothing but itself, whether the provider says so or cuts it. */
TEST_WITH(test_too_long, forget, NULL)
{
    btl_ib_event_t event;
    pair_t pair;

    for (int cuts = 0; cuts < 2; cuts++) {
        fake.cuts = cuts;
        open_pair(&pair, 2, 100);
        for (uint32_t size = 98; size < 110; size++) {
            must_send(&pair, 0, size);
            (void) pair.a->ops->poll(pair.a, 0, &event, 1);
            if (size <= 100) {
                must_receive(&pair, size);
            } else {
                assert_int_equal(pair.b->ops->poll(pair.b, 0, &event, 1), 0);
            }
        }
        assert_int_equal(endpoints[1].posted.tail - endpoints[1].posted.head, 2);
        must_send(&pair, 0, 100);
        must_receive(&pair, 100);
        close_pair(&pair);
    }
}

TEST_WITH(test_errors, forget, NULL)
{
    btl_ib_event_t event;
    pair_t pair;
    int error = 0;

    open_pair(&pair, 4, 0);
    /* A send that failed later: lost, and its memory is free. */
    fake.send_error = FI_EHOSTUNREACH;
    must_send(&pair, 3, INJECT + 1);
    assert_int_equal(pair.a->ops->poll(pair.a, 0, &event, 1), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_SENT);
    assert_ptr_equal(event.context, pair.memory + 3 * SLOT);
    assert_int_equal(pair.b->ops->poll(pair.b, 0, &event, 1), 0);
    /* An injected one, which has no context: lost, too, and no reason to give the device up. */
    push(&endpoints[0].done)->error = FI_EHOSTUNREACH;
    assert_int_equal(pair.a->ops->poll(pair.a, 0, &event, 1), 0);
    /* What the network damaged, as usnic tells it. */
    must_send(&pair, 0, 10);
    fake.recv_error = FI_ECRC;
    assert_int_equal(pair.b->ops->poll(pair.b, 0, &event, 1), 0);
    must_send(&pair, 0, 10);
    must_receive(&pair, 10);
    /* A send that was not taken, of either kind. */
    const int shortages[] = {FI_EAGAIN, FI_ENOMEM};
    for (int i = 0; i < 4; i++) {
        fake.refuse_error = shortages[i / 2];
        assert_int_equal(send_one(&pair, 0, i % 2 == 0 ? 10 : INJECT + 1, &error), 0);
        assert_int_equal(error, ENOBUFS); /* nothing of ours has to be over first */
    }
    must_send(&pair, 0, INJECT + 1);
    must_receive(&pair, INJECT + 1);
    fake.refuse_error = FI_EAGAIN;
    assert_int_equal(send_one(&pair, 0, 10, &error), 0);
    assert_int_equal(error, EAGAIN);
    assert_int_equal(pair.a->ops->poll(pair.a, 0, &event, 1), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_SENT);
    fake.refuse_error = FI_EHOSTUNREACH;
    assert_int_equal(send_one(&pair, 0, INJECT + 1, &error), 0);
    assert_int_equal(error, EHOSTUNREACH);
    fake.refuse_error = FI_EOTHER; /* none of errno's */
    assert_int_equal(send_one(&pair, 0, 10, &error), 0);
    assert_int_equal(error, EIO);
    /* As many sends as fit at once: those that were not taken kept no place. */
    for (uint32_t i = 0; i < pair.a->attr.tx_depth; i++) {
        must_send(&pair, i % SLOTS, INJECT + 1);
        pop(&endpoints[1].wire);
    }
    assert_int_equal(send_one(&pair, 0, INJECT + 1, &error), 0);
    assert_int_equal(error, EAGAIN);
    /* The device is gone. */
    must_send(&pair, 0, 10);
    fake.recv_error = FI_EIO;
    assert_int_equal(pair.b->ops->poll(pair.b, 0, &event, 1), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_FAILED);
    assert_int_equal(event.error, EIO);
    close_pair(&pair);
}

/* ---- which devices are offered ---- */

#define LAYER "udp;ofi_rxd"

static const struct {
    offer_t offers[6];
    const char *chosen[3];
    const char *interface;
} choices[] = {
    {{{"udp", "up0", NULL, "198.51.100.1"}}, {"up0"}, "up0"},
    {{{LAYER, "up0", NULL, "198.51.100.1"}, {"udp", "up0", NULL, "198.51.100.1"}}, {"up0"}, "up0"},
    {{{LAYER, "up0", NULL, "198.51.100.1"}}, {NULL}, NULL},
    {{{"udp", "idle0", NULL, "203.0.113.1"}}, {NULL}, NULL},
    {{{"udp", "idle0", NULL, "203.0.113.1"}, {"udp", "up0", NULL, "198.51.100.1"}}, {"up0"}, "up0"},
    {{{"udp", "x", NULL, "fe80::1"}}, {NULL}, NULL},
    {{{"udp", "up0", NULL, "fe80::1"}, {"udp", "up0", NULL, "198.51.100.1"}}, {"up0"}, "up0"},
    {{{"udp", "up0", NULL, "fd00::1"}, {"udp", "up0", NULL, "198.51.100.1"}}, {"up0"}, "up0"},
    {{{"udp", "up0", NULL, "198.51.100.1"}, {"udp", "up0", NULL, "fd00::1"}}, {"up0"}, "up0"},
    {{{"udp", "up0", NULL, "198.51.100.1"}, {"udp", "up0", NULL, "192.0.2.1"}}, {"up0"}, "up0"},
    {{{"udp", "x", NULL, "192.0.2.1"}, {"udp", "y", NULL, "fd00::1"}}, {"x", "y"}, ""},
    {{{"udp", "up0", NULL, "198.51.100.1"}, {"verbs", "m0-dgram", "m0", NULL}}, {"m0"}, ""},
    {{{"verbs", "m0-dgram", "m0", NULL}, {"efa", "e0-dgrm", "e0", NULL}}, {"e0"}, ""},
    {{{"efa", "e0-dgrm", "e0", NULL}, {"usnic", "usnic_0", NULL, "198.51.100.1"}},
     {"usnic_0"},
     "up0"},
    {{{"new", "n0", NULL, NULL}, {"udp", "up0", NULL, "198.51.100.1"}}, {"up0"}, "up0"},
    {{{"new", "n0", NULL, NULL}, {"other", "o0", NULL, NULL}}, {"n0", "o0"}, ""},
    /* What can't be used is no better provider. */
    {{{"usnic", "usnic_0", NULL, "203.0.113.1"}, {"udp", "up0", NULL, "198.51.100.1"}},
     {"up0"},
     "up0"},
};

/* It goes through the kernel's network stack, as what nobody knows may. */
static bool is_plain(const char *provider)
{
    static const char *const hardware[] = {"usnic", "efa", "verbs"};
    bool known = false;

    for (size_t i = 0; i < COUNT(hardware); i++) {
        known = known || strcmp(provider, hardware[i]) == 0;
    }
    return !known;
}

static void assert_choice(size_t which)
{
    btl_ib_device_t *list = NULL;
    int wanted = 0;
    int count;

    offers = choices[which].offers;
    offer_count = 0;
    while (offer_count < 6 && offers[offer_count].provider != NULL) {
        offer_count++;
    }
    while (choices[which].chosen[wanted] != NULL) {
        wanted++;
    }
    count = list_devices(&list);
    if (count != wanted) {
        fail_msg("choice %zu: %d devices, not %d", which, count, wanted);
    }
    for (int i = 0; i < count; i++) {
        assert_string_equal(list[i].name, choices[which].chosen[i]);
        assert_int_equal(list[i].plain, is_plain(list[i].provider));
    }
    if (count > 0) {
        assert_string_equal(list[0].interface, choices[which].interface);
        assert_int_equal(list[0].prefix_bits, list[0].interface[0] != '\0' ? 24 : 0);
    }
    btl_ib_ofi_type.devices_free(list, count);
}

TEST_WITH(test_choices, forget, NULL)
{
    for (size_t i = 0; i < COUNT(choices); i++) {
        assert_choice(i);
    }
}

/* A device is as fast as its NIC says, whatever the interface with its address is. Of one that is
 * offered more than once nothing is kept of the other offers. */
TEST_WITH(test_nic, forget, NULL)
{
    static const offer_t usnic[] = {{"usnic", "usnic_0", "usnic_0", "fd00::1"},
                                    {"usnic", "usnic_0", "usnic_0", "198.51.100.1"},
                                    {"usnic", "usnic_0", "usnic_0", "192.0.2.1"}};
    btl_ib_device_t *list;

    offers = usnic;
    offer_count = 3;
    assert_int_equal(list_devices(&list), 1);
    assert_string_equal(list[0].interface, "up0");
    assert_int_equal(list[0].bandwidth, 25000);
    btl_ib_ofi_type.devices_free(list, 1);
    assert_int_equal(live, 0);
}

UNIT_MAIN(NULL, NULL)
