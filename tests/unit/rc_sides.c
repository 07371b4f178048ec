/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "rc_sides.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#undef stop /* cmocka 2.0 has a macro of that name */

#include "said.h"
#include "unit.h"

side_t sides[SIDES];
btl_ib_open_params_t params;
int look_at_most = 32;

rc_conn_t conn_of(int i, int j, uint8_t channel)
{
    return rc_conn(sides[i].t, sides[i].to[j], channel);
}

uint32_t qp_of(int i, int j, uint8_t channel)
{
    const rc_conn_t conn = conn_of(i, j, channel);

    assert_non_null(conn.qp);
    return conn.qp->qp_num;
}

int try_open(int i)
{
    return rc_open(&params, &sides[i].t);
}

void open_side(int i)
{
    side_t *side = &sides[i];

    memset(side, 0, sizeof(*side));
    assert_int_equal(try_open(i), 0);
    side->memory = aligned_alloc(4096, MEMORY);
    assert_int_equal(side->t->ops->mem_register(side->t, side->memory, MEMORY, &side->mem), 0);
}

void close_side(int i)
{
    side_t *side = &sides[i];

    side->t->ops->stop(side->t);
    side->t->ops->mem_deregister(side->t, side->mem);
    side->t->ops->close(side->t);
    free(side->memory);
    side->t = NULL;
}

void add(int i, int j)
{
    assert_int_equal(sides[i].t->ops->addr_add(sides[i].t, sides[j].t->address,
                                               sides[j].t->address_len, &sides[i].to[j]),
                     0);
}

void forget(int i, int j)
{
    sides[i].t->ops->addr_remove(sides[i].t, sides[i].to[j]);
}

int set_up(void **state)
{
    fake_rdma_reset();
    forget_said();
    look_at_most = 32;
    params = (btl_ib_open_params_t){
        .queue_count = 2,
        .queue = {{.size = SIZE_0, .num = NUM, .reserve = RESERVE},
                  {.size = SIZE_1, .num = NUM, .reserve = RESERVE}},
        .rc = {.timeout = 14, .retry = 7, .rnr_retry = 7, .bounce_size = RC_BOUNCE_SIZE},
    };
    open_side(0);
    open_side(1);
    add(0, 1);
    add(1, 0);
    return 0;
}

int tear_down(void **state)
{
    for (int i = 0; i < SIDES; i++) {
        if (sides[i].t != NULL) {
            close_side(i);
        }
    }
    assert_int_equal(fake_objects, 0);
    assert_int_equal(fake.waited, 0);
    return 0;
}

static void received(side_t *side, const btl_ib_event_t *event)
{
    uint32_t number;
    void *buffer = event->buffer;

    memcpy(&number, event->data, sizeof(number));
    for (uint32_t i = sizeof(number); i < event->size; i++) {
        assert_int_equal(event->data[i], (uint8_t) (number + i));
    }
    side->disorder += side->received > 0 && number != side->last + 1;
    side->last = number;
    side->from = event->from;
    side->received++;
    if (side->keeps) {
        assert_true(side->held_count < HELD_MAX);
        side->held_data = event->data;
        side->held[side->held_count++] = buffer;
    } else {
        side->t->ops->repost(side->t, &buffer, 1);
    }
}

static void ended(op_t *op, int error)
{
    op->events++;
    op->error = error;
}

int look(int i)
{
    side_t *side = &sides[i];
    btl_ib_event_t events[32];
    int count = side->t->ops->poll(side->t, fake.now, events, look_at_most);

    for (int k = 0; k < count; k++) {
        switch (events[k].type) {
        case BTL_IB_EVENT_RECV:
            received(side, &events[k]);
            break;
        case BTL_IB_EVENT_SENT:
            side->sent++;
            break;
        case BTL_IB_EVENT_BROKEN:
            side->broken++;
            break;
        case BTL_IB_EVENT_REFUSED:
            assert_int_equal(events[k].error, ECONNREFUSED);
            assert_int_equal(events[k].origin, BTL_IB_ORIGIN_LOCAL); /* no ICMP message */
            side->refused++;
            break;
        case BTL_IB_EVENT_RDMA:
            ended(events[k].context, events[k].error);
            break;
        case BTL_IB_EVENT_DOWN:
            side->down++;
            side->error = events[k].error;
            break;
        case BTL_IB_EVENT_UP:
            side->up++;
            break;
        default:
            side->failed++;
            side->error = events[k].error;
        }
    }
    fake.now += 10;
    return count;
}

void settle(void)
{
    for (int calm = 0; calm < 80; calm++) {
        for (int i = 0; i < SIDES; i++) {
            if (sides[i].t != NULL && look(i) > 0) {
                calm = 0;
            }
        }
    }
}

uint8_t *slot(const side_t *side, uint32_t number)
{
    return side->memory + (number % 64) * 4096;
}

int send_row(int i, int j, uint32_t size, uint8_t channel, int n, int *error)
{
    side_t *side = &sides[i];
    btl_ib_tx_t tx[RC_BATCH];

    for (int k = 0; k < n; k++) {
        const uint32_t number = side->next + (uint32_t) k;
        uint8_t *at = slot(side, number);
        memcpy(at, &number, sizeof(number));
        for (uint32_t b = sizeof(number); b < size; b++) {
            at[b] = (uint8_t) (number + b);
        }
        tx[k] = (btl_ib_tx_t){.to = side->to[j],
                              .niov = 1,
                              .size = size,
                              .iov = {{at, size}},
                              .mem = side->mem,
                              .context = at,
                              .channel = channel,
                              .spare = side->spare};
    }
    *error = 0;
    const int taken = side->t->ops->send(side->t, tx, n, error);
    side->next += (uint32_t) taken;
    return taken;
}

int send_one(int i, int j, uint32_t size, uint8_t channel)
{
    int error;
    const int taken = send_row(i, j, size, channel, 1, &error);

    return taken == 1 ? 0 : error;
}

void connect_sides(int i, int j, uint8_t channel)
{
    assert_int_equal(send_one(i, j, SMALL, channel), EAGAIN);
    settle();
    assert_int_equal(send_one(i, j, SMALL, channel), 0);
    settle();
    assert_int_equal(sides[j].received, 1);
}
