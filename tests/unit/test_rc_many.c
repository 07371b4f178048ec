/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: one process, the hub, and thousands of peers. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#undef stop /* cmocka 2.0 has a macro of that name */

#include "allocations.h"
#include "transport.h"
#include "rc_sides.h"
#include "said.h"
#include "unit.h"

enum {
    MANY = 4000,
    LEAST = 1500,    /* more than there may be unknown peers */
    DESCRIPTORS = 4, /* of a process */
    DESCRIPTORS_REST = 64,
    SPOKE_CQE = 512,     /* entries of a completion queue; the hub's device has more */
    CHAIN_MAX = 16,      /* peers that one bucket of a table may hold by bad luck */
    PEER_BYTES = 4096,   /* of a peer and his connection, beside buffers */
    LOOKS_OF_A_PEER = 8, /* of the hub, at most, until all are connected */
};

/* What a datagram says: its sender. */
typedef struct mark {
    uint32_t from;
} mark_t;

typedef struct spoke {
    btl_ib_transport_t *t;
    btl_ib_addr_t hub;
    btl_ib_addr_t handle; /* of the hub for it */
    bool known;           /* the hub added it */
    mark_t mark;
    bool sent, hub_sent, heard, hub_heard;
} spoke_t;

static spoke_t *spokes;
static uint32_t most, count; /* peers that there can be, and are */
static btl_ib_transport_t *hub;
static mark_t hub_mark = {.from = UINT32_MAX};
static bool adds_unknown; /* the hub does, as soon as it hears of them */
static uint32_t hub_looks, unknown_most;

static btl_ib_transport_t *open_one(void)
{
    btl_ib_transport_t *t = sides[0].t;

    assert_int_equal(try_open(0), 0);
    btl_ib_transport_t *opened = sides[0].t;
    sides[0].t = t;
    return opened;
}

/* As many as the descriptors that a process may have allow. */
static uint32_t how_many(void)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const uint64_t fit = (limit.rlim_max - DESCRIPTORS_REST) / DESCRIPTORS;
    return fit < MANY ? (uint32_t) fit : MANY;
}

static void begin(uint32_t peers)
{
    count = peers;
    fake_rdma_reset();
    forget_said();
    params = (btl_ib_open_params_t){
        .queue_count = 2,
        .queue = {{.size = SIZE_0, .num = NUM, .reserve = RESERVE},
                  {.size = SIZE_1, .num = NUM, .reserve = RESERVE}},
        .rc = {.timeout = 14, .retry = 7, .rnr_retry = 7, .bounce_size = RC_BOUNCE_SIZE},
    };
    spokes = calloc(count, sizeof(*spokes));
    hub = open_one();
    hub_looks = unknown_most = 0;
    fake.cqe_max = SPOKE_CQE;
    for (uint32_t i = 0; i < count; i++) {
        spokes[i].t = open_one();
        spokes[i].mark.from = i;
        assert_int_equal(
            spokes[i].t->ops->addr_add(spokes[i].t, hub->address, hub->address_len, &spokes[i].hub),
            0);
    }
}

static void hub_adds(spoke_t *spoke)
{
    assert_int_equal(
        hub->ops->addr_add(hub, spoke->t->address, spoke->t->address_len, &spoke->handle), 0);
    spoke->known = true;
}

static void close_spokes(void)
{
    for (uint32_t i = 0; i < count; i++) {
        spokes[i].t->ops->stop(spokes[i].t);
        spokes[i].t->ops->close(spokes[i].t);
    }
    free(spokes);
    assert_int_equal(fake_objects, 0);
}

static void finish(void)
{
    hub->ops->stop(hub);
    hub->ops->close(hub);
    close_spokes();
}

/* Returns whether it was taken. */
static bool send_mark(btl_ib_transport_t *t, btl_ib_addr_t to, mark_t *mark)
{
    const btl_ib_tx_t tx = {
        .to = to, .niov = 1, .size = sizeof(*mark), .iov = {{mark, sizeof(*mark)}}};
    int error = 0;

    return t->ops->send(t, &tx, 1, &error) == 1;
}

static void all_send(void)
{
    for (uint32_t i = 0; i < count; i++) {
        spoke_t *spoke = &spokes[i];
        spoke->sent = spoke->sent || send_mark(spoke->t, spoke->hub, &spoke->mark);
        if (spoke->known && !spoke->hub_sent) {
            spoke->hub_sent = send_mark(hub, spoke->handle, &hub_mark);
        }
    }
}

static void hub_received(const btl_ib_event_t *event)
{
    void *buffer = event->buffer;
    mark_t mark;

    assert_int_equal(event->size, sizeof(mark));
    memcpy(&mark, event->data, sizeof(mark));
    spoke_t *spoke = &spokes[mark.from];
    assert_int_equal(event->from, spoke->known ? spoke->handle : BTL_IB_ADDR_UNKNOWN);
    assert_false(spoke->hub_heard);
    spoke->hub_heard = true;
    if (!spoke->known && adds_unknown) {
        hub_adds(spoke);
    }
    hub->ops->repost(hub, &buffer, 1);
}

static void look_hub(void)
{
    btl_ib_event_t events[RC_BATCH];
    const int n = hub->ops->poll(hub, 0, events, RC_BATCH);

    for (int k = 0; k < n; k++) {
        if (events[k].type == BTL_IB_EVENT_RECV) {
            hub_received(&events[k]);
        } else {
            assert_int_equal(events[k].type, BTL_IB_EVENT_BROKEN); /* what was sent for nothing */
        }
    }
    hub_looks++;
    const uint32_t unknown = rc_inside(hub).unknown;
    unknown_most = unknown > unknown_most ? unknown : unknown_most;
}

static void look_spoke(spoke_t *spoke)
{
    btl_ib_event_t events[4];
    const int n = spoke->t->ops->poll(spoke->t, 0, events, 4);

    for (int k = 0; k < n; k++) {
        if (events[k].type == BTL_IB_EVENT_RECV) {
            assert_int_equal(events[k].from, spoke->hub);
            assert_false(spoke->heard);
            spoke->heard = true;
            spoke->t->ops->repost(spoke->t, &events[k].buffer, 1);
        } else {
            assert_int_equal(events[k].type, BTL_IB_EVENT_BROKEN);
        }
    }
}

static bool all_done(void)
{
    uint32_t i = 0;

    while (i < count && spokes[i].heard && spokes[i].hub_heard) {
        i++;
    }
    return i == count;
}

/* Everybody sends and looks until everybody heard of everybody. The hub looks more often, as it has
 * more to see. */
static void run(uint32_t rounds)
{
    for (uint32_t round = 0; round < rounds && !all_done(); round++) {
        all_send();
        for (uint32_t i = 0; i < count; i++) {
            look_spoke(&spokes[i]);
            if (i % 4 == 0) {
                look_hub();
            }
        }
        fake.now += 1000;
    }
    assert_true(all_done());
}

/* What docs/transports.md says of memory: buffers of the queues that were used, and little
 * beside. */
static void check_memory(size_t registered_before)
{
    const rc_inside_t inside = rc_inside(hub);
    const size_t buffers = (NUM + RESERVE + 1) * SIZE_0;
    const size_t word = RC_LINE + RC_WORD;

    assert_int_equal(fake.mr_bytes - registered_before, 2 * count * (buffers + word));
    assert_true(rc_peer_bytes(hub, NUM + RESERVE + 1) <= PEER_BYTES);
    assert_true(inside.slots < 2 * count);
    assert_true(inside.peer_room < 2 * count);
    assert_true(inside.longest_chain <= CHAIN_MAX);
}

/* The hub knows nobody before he speaks: it takes in some at a time, the others come again. */
TEST(unknown_peers_all_at_once)
{
    adds_unknown = true;
    begin(LEAST);
    const size_t before = fake.mr_bytes;
    run(3000);
    assert_int_equal(unknown_most, rc_inside(hub).unknown_max);
    assert_int_equal(rc_inside(hub).unknown, 0);
    assert_int_equal(fake.qps, 2 * count);
    check_memory(before);
    finish();
}

/* A peer that goes leaves nothing behind, and its place is another's. */
TEST(all_go_and_come_again)
{
    adds_unknown = false;
    begin(LEAST);
    const size_t before = fake.mr_bytes;
    for (int time = 0; time < 2; time++) {
        for (uint32_t i = 0; i < count; i++) {
            hub_adds(&spokes[i]);
            spokes[i].sent = spokes[i].hub_sent = spokes[i].heard = spokes[i].hub_heard = false;
        }
        fake.now += 3000000;
        run(400);
        check_memory(before);
        for (uint32_t i = 0; i < count; i++) {
            hub->ops->addr_remove(hub, spokes[i].handle);
            spokes[i].known = false;
        }
        assert_int_equal(rc_inside(hub).peers, 0);
        assert_false(rc_inside(hub).closed);
        for (uint32_t i = 0; i < 64 * count; i++) {
            look_spoke(&spokes[i % count]);
        }
        assert_int_equal(fake.qps, 0);
        assert_int_equal(fake.mr_bytes, before);
    }
    finish();
}

int main(void)
{
    most = how_many();
    if (most < LEAST) {
        print_message("only %u descriptors a process\n", most * DESCRIPTORS);
        return 77;
    }
    return unit_run(NULL, NULL);
}
