/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "ud_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef stop /* cmocka 2.0 has a macro of that name */

#include "said.h"
#include "unit.h"

const btl_ib_transport_type_t *type;
uint8_t memory[SLOTS][SIZE];

const btl_ib_log_t log_all = {.print = listen_to, .diagnostic = note_diagnostic};

int set_up(void **state)
{
    fake_reset();
    forget_said();
    for (size_t i = 0; btl_ib_transport_types[i] != NULL; i++) {
        if (btl_ib_transport_types[i]->wire != NULL
            && strcmp(btl_ib_transport_types[i]->wire, "ud") == 0) {
            type = btl_ib_transport_types[i];
        }
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        memset(memory[i], (int) i, SIZE);
    }
    return 0;
}

int tear_down(void **state)
{
    assert_int_equal(fake_objects, 0);
    assert_int_equal(fake.pulled, 0);
    return 0;
}

const btl_ib_open_params_t usual = {
    .queue_count = CHANNELS,
    .queue = {{.size = 128,
               .num = NUM_SMALL,
               .init = NUM_SMALL,
               .per_peer = 4,
               .low = NUM_SMALL - BATCH_SMALL},
              {.size = 1024, .num = NUM_LARGE, .init = NUM_LARGE, .low = NUM_LARGE - BATCH_LARGE}},
    .log = {.print = listen_to, .diagnostic = note_diagnostic},
};

int try_open(btl_ib_open_params_t params, int gid_index, btl_ib_transport_t **t)
{
    btl_ib_search_t search = {.gid_index = gid_index, .log = log_all};
    btl_ib_device_t *list;
    const int count = type->devices(&search, &list);

    assert_in_range(count, 1, 8);
    const int rc = type->open(&list[0], &params, t);
    type->devices_free(list, count);
    return rc;
}

btl_ib_transport_t *open_one(btl_ib_open_params_t params)
{
    btl_ib_transport_t *t = NULL;

    assert_int_equal(try_open(params, -1, &t), 0);
    assert_non_null(t);
    return t;
}

void close_one(btl_ib_transport_t *t)
{
    t->ops->stop(t);
    t->ops->close(t);
}

btl_ib_addr_t add(btl_ib_transport_t *t, const btl_ib_transport_t *peer)
{
    btl_ib_addr_t addr;

    assert_int_equal(t->ops->addr_add(t, peer->address, peer->address_len, &addr), 0);
    return addr;
}

uint32_t qpn_of(const btl_ib_transport_t *t, uint32_t queue)
{
    return ud_address(t).qpn[queue];
}

pair_t open_pair(btl_ib_open_params_t params)
{
    pair_t pair = {.a = open_one(params), .b = open_one(params)};

    pair.to_b = add(pair.a, pair.b);
    assert_int_equal(pair.a->ops->mem_register(pair.a, memory, sizeof(memory), &pair.mem), 0);
    return pair;
}

void close_pair(pair_t *pair)
{
    pair->a->ops->stop(pair->a);
    pair->a->ops->mem_deregister(pair->a, pair->mem);
    pair->a->ops->close(pair->a);
    close_one(pair->b);
}

int send_some(const pair_t *pair, uint32_t first, int count, uint32_t size, uint8_t channel,
              int *error)
{
    btl_ib_tx_t batch[SLOTS];

    for (int i = 0; i < count; i++) {
        uint8_t *slot = memory[(first + (uint32_t) i) % SLOTS];
        batch[i] = (btl_ib_tx_t){.to = pair->to_b,
                                 .niov = 1,
                                 .size = size,
                                 .iov[0] = {.iov_base = slot, .iov_len = size},
                                 .mem = pair->mem,
                                 .context = slot,
                                 .channel = channel};
    }
    *error = 0;
    return pair->a->ops->send(pair->a, batch, count, error);
}

void send_all(const pair_t *pair, uint32_t first, int count, uint32_t size, uint8_t channel)
{
    int error;

    assert_int_equal(send_some(pair, first, count, size, channel, &error), count);
}

int poll_for(btl_ib_transport_t *t, btl_ib_event_type_t expected, btl_ib_event_t *events, int max)
{
    const int n = t->ops->poll(t, 0, events, max);

    for (int i = 0; i < n; i++) {
        assert_int_equal(events[i].type, expected);
    }
    return n;
}

int poll_all(btl_ib_transport_t *t, btl_ib_event_type_t expected)
{
    btl_ib_event_t events[16];
    int sum = 0;
    int n;

    while ((n = poll_for(t, expected, events, 16)) > 0) {
        for (int i = 0; i < n && expected == BTL_IB_EVENT_RECV; i++) {
            t->ops->repost(t, &events[i].buffer, 1);
        }
        sum += n;
    }
    return sum;
}

void assert_failed(btl_ib_transport_t *t, int error)
{
    btl_ib_event_t events[4];

    assert_int_equal(poll_for(t, BTL_IB_EVENT_FAILED, events, 4), 1);
    assert_int_equal(events[0].error, error);
    assert_int_equal(t->ops->poll(t, 0, events, 4), 0); /* once */
}
