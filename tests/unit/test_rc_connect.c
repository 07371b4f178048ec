/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: who connects to whom, and how that ends. */

#include <errno.h>
#include <string.h>

#include "rc_sides.h"
#include "said.h"
#include "unit.h"

/* ---- connecting ---- */

/* The acceptor sends nothing before the first message of the initiator is there, as iWARP wants
 * it. */
RC_TEST(accepted_waits_for_first_message)
{
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    for (int i = 0; i < 100 && fake.accepts == 0; i++) {
        look(0);
        look(1);
    }
    assert_int_equal(fake.accepts, 1);
    for (int i = 0; i < 100; i++) {
        look(1);
        assert_int_equal(send_one(1, 0, SMALL, 0), EAGAIN);
    }
    settle();
    assert_int_equal(send_one(1, 0, SMALL, 0), 0);
}

/* Both begin before either hears of the other, and `asked` already, or not. */
static void cross(bool asked)
{
    fake.accepts = 0;
    fake.requests = 0;
    fake.hold_requests = asked;
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    assert_int_equal(send_one(1, 0, SMALL, 0), EAGAIN);
    if (asked) {
        settle();
        assert_int_equal(fake.requests, 2);
        fake_rdma_release();
    }
    settle();
    assert_int_equal(fake.accepts, 1);
    assert_int_equal(fake.qps, 2);
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    assert_int_equal(send_one(1, 0, SMALL, 0), 0);
    settle();
    assert_int_equal(sides[0].received, 1);
    assert_int_equal(sides[1].received, 1);
    assert_int_equal(sides[0].broken + sides[1].broken, 0);
    assert_int_equal(sides[0].refused + sides[1].refused, 0);
    forget(0, 1);
    forget(1, 0);
    settle();
    assert_int_equal(fake.qps, 0);
}

static void cross_both_ways(void)
{
    cross(false);
    add(0, 1);
    add(1, 0);
    sides[0].received = 0;
    sides[1].received = 0;
    cross(true);
}

RC_TEST(both_at_once)
{
    rc_set_cookie(sides[0].t, 1); /* published already: told again below */
    forget(1, 0);
    add(1, 0);
    cross_both_ways();
}

/* iWARP's connection manager makes a process that gives up wait for the answer; none here may. */
RC_TEST(both_at_once_on_iwarp)
{
    (void) tear_down(state);
    fake_rdma_reset();
    fake.iwarp = true;
    open_side(0);
    open_side(1);
    add(0, 1);
    add(1, 0);
    cross_both_ways();
}

/* A request that was given up comes late, when its sender's next one was accepted. */
RC_TEST(late_request_is_stale)
{
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    btl_ib_rc_params_t theirs = {
        .to = rc_address(sides[1].t).cookie, .from = rc_address(sides[0].t).cookie, .attempt = 1};

    connect_sides(0, 1, 0);
    btl_ib_rc_params_pack(&theirs, bytes);
    struct rdma_cm_id *late = fake_rdma_intrude(
        rc_cm_events(sides[0].t), ntohs(rc_address(sides[1].t).v4.sin_port), bytes, sizeof(bytes));
    for (int i = 0; i < 100; i++) {
        look(1);
    }
    assert_int_equal(fake.rejects, 1);
    (void) rdma_destroy_id(late);
    assert_int_equal(sides[1].broken, 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    settle();
    assert_int_equal(sides[1].received, 2);
}

/* A peer without our cookie, or with another protocol, is refused. */
RC_TEST(intruders_are_refused)
{
    const uint16_t port = ntohs(rc_address(sides[1].t).v4.sin_port);
    btl_ib_rc_params_t theirs = {
        .to = rc_address(sides[1].t).cookie + 1, .from = 4711, .attempt = 1};
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];

    for (int i = 0; i < 4; i++) {
        btl_ib_rc_params_pack(&theirs, bytes);
        if (i == 1) { /* ourselves */
            theirs.to = rc_address(sides[1].t).cookie;
            theirs.from = theirs.to;
            btl_ib_rc_params_pack(&theirs, bytes);
        }
        if (i == 2) { /* no such channel */
            bytes[5] = BTL_IB_RC_CHANNELS;
        }
        struct rdma_cm_id *id =
            fake_rdma_intrude(rc_cm_events(sides[0].t), port, bytes, i == 3 ? 0 : sizeof(bytes));
        for (int k = 0; k < 100; k++) {
            look(1);
        }
        (void) rdma_destroy_id(id);
    }
    assert_int_equal(fake.rejects, 4);
    assert_int_equal(fake.qps, 0);
}

/* Nor does one that is refused because it asks again for what it gave up stay among the unknown
 * peers, of which there may be a limited number. */
RC_TEST(stale_intruders_leave_nothing)
{
    const uint16_t port = ntohs(rc_address(sides[1].t).v4.sin_port);
    btl_ib_rc_params_t theirs = {.to = rc_address(sides[1].t).cookie, .attempt = 0};
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];

    for (uint64_t i = 0; i < 3; i++) {
        theirs.from = 4711 + i;
        btl_ib_rc_params_pack(&theirs, bytes);
        struct rdma_cm_id *id =
            fake_rdma_intrude(rc_cm_events(sides[0].t), port, bytes, sizeof(bytes));
        for (int k = 0; k < 100; k++) {
            look(1);
        }
        (void) rdma_destroy_id(id);
    }
    assert_int_equal(fake.rejects, 3);
    assert_int_equal(rc_inside(sides[1].t).unknown, 0);
}

/* A process that we did not add may connect; its datagrams are nobody's until it is added. */
RC_TEST(unknown_until_added)
{
    forget(1, 0);
    connect_sides(0, 1, 0);
    assert_int_equal(sides[1].from, BTL_IB_ADDR_UNKNOWN);
    add(1, 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    settle();
    assert_int_equal(sides[1].from, sides[1].to[0]);
    assert_int_equal(fake.requests, 1);
}

RC_TEST(unknown_peers_are_limited)
{
    forget(1, 0);
    rc_set_unknown_max(sides[1].t, 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(send_one(0, 1, SMALL, 0), EHOSTUNREACH);
    assert_int_equal(sides[0].refused, 0);
    assert_int_equal(fake.qps, 0);
}

/* A peer that was forgotten ended the connection; one whose goodbye is lost connects again although
 * it seems to be there. Either way what was on its way may be lost, and the peer's owner is told,
 * once. */
static void connect_anew(bool heard)
{
    connect_sides(0, 1, 0);
    fake.lose_goodbyes = !heard;
    forget(0, 1);
    settle();
    fake.lose_goodbyes = false;
    assert_int_equal(sides[1].broken, heard);
    add(0, 1);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(sides[1].broken, 1);
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    settle();
    assert_int_equal(sides[1].received, 2);
    assert_int_equal(fake.qps, 2);
}

RC_TEST(connects_anew)
{
    connect_anew(true);
}

RC_TEST(connects_anew_unheard)
{
    connect_anew(false);
}

/* ---- nobody there ---- */

RC_TEST(refused_while_nobody_listens)
{
    int attempts = 0;

    connect_sides(0, 1, 0);
    close_side(1);
    settle();
    assert_int_equal(sides[0].broken, 1);
    for (int i = 0; i < 20000; i++) { /* 200 ms */
        const int error = send_one(0, 1, SMALL, 0);
        assert_true(error == EAGAIN || error == EHOSTUNREACH);
        look(0);
    }
    attempts = (int) fake.requests - 1;
    assert_int_equal(sides[0].refused, attempts);
    assert_in_range(attempts, 3, 10); /* 10, 20, 40 ms... */
}

RC_TEST(another_process_at_that_port)
{
    const uint16_t port = ntohs(rc_address(sides[1].t).v4.sin_port);
    close_side(1);
    params.port_min = port;
    params.port_count = 1;
    open_side(1);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(sides[0].refused, 1);
    assert_int_equal(send_one(0, 1, SMALL, 0), EHOSTUNREACH);
}

/* A range of ports ends with the last one there is; what is above is no wish for any port. */
RC_TEST(last_ports)
{
    close_side(0);
    close_side(1);
    params.port_min = 65534;
    params.port_count = 8;
    open_side(0);
    open_side(1);
    assert_int_equal(ntohs(rc_address(sides[0].t).v4.sin_port), 65534);
    assert_int_equal(ntohs(rc_address(sides[1].t).v4.sin_port), 65535);
    assert_int_equal(try_open(2), -EADDRINUSE);
}

/* Silence is no evidence; what asked is given up without waiting. */
/* The request that goes first is on its way: nobody asks meanwhile. If it is lost, then. */
RC_TEST(crossing_request_is_lost)
{
    const int winner = rc_address(sides[0].t).cookie < rc_address(sides[1].t).cookie ? 0 : 1;

    fake.lose_requests = true;
    assert_int_equal(send_one(winner, 1 - winner, SMALL, 0), EAGAIN);
    settle();
    fake.lose_requests = false;
    assert_int_equal(send_one(1 - winner, winner, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(fake.requests, 2);
    assert_int_equal(fake.rejects, 1);
    for (int i = 0; i < 10; i++) {
        fake.now += 5000;
        assert_int_equal(send_one(1 - winner, winner, SMALL, 0), EAGAIN);
        settle();
    }
    assert_int_equal(fake.requests, 2);
    fake.now += 50000;
    assert_int_equal(send_one(1 - winner, winner, SMALL, 0), EAGAIN);
    assert_int_equal(rc_inside(sides[1 - winner].t).attempts, 2);
    settle();
}

/* A request that came by another device than the rail's cannot be accepted. */
RC_TEST(arrives_by_another_device)
{
    fake.arrives_elsewhere = true;
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(fake.accepts, 0);
    assert_int_equal(fake.qps, 0);
    fake.arrives_elsewhere = false;
    fake.now += 2000000;
    connect_sides(0, 1, 0);
}

/* A process that always gets as much as it asks for hears of requests all the same. */
RC_TEST(connects_under_load)
{
    btl_ib_event_t event;
    int polls = 0;
    int sent = 0;

    (void) tear_down(state);
    fake_rdma_reset();
    params.queue[0].num = 600;
    for (int i = 0; i < SIDES; i++) {
        open_side(i);
    }
    add(0, 1);
    add(1, 0);
    add(2, 1);
    connect_sides(0, 1, 0);
    while (send_one(0, 1, SMALL, 0) == 0) { /* a send queue full */
        sent++;
    }
    assert_true(sent > 100);
    assert_int_equal(send_one(2, 1, SMALL, 0), EAGAIN);
    while (fake.requests < 2) {
        look(2);
    }
    while (fake.accepts < 2) {
        assert_int_equal(sides[1].t->ops->poll(sides[1].t, 0, &event, 1), 1);
        sides[1].t->ops->repost(sides[1].t, &event.buffer, 1);
        fake.now += 10;
        assert_true(++polls < sent);
    }
}

/* Soft iWARP tells so that nobody listens. */
RC_TEST(connection_refused)
{
    fake.connect_error = ECONNREFUSED;
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(sides[0].refused, 1);
    fake.now += 2000000;
    fake.connect_error = ETIMEDOUT;
    (void) send_one(0, 1, SMALL, 0);
    settle();
    assert_int_equal(sides[0].refused, 1);
    assert_int_equal(fake.requests, 2);
}

/* However often it was asked for nothing, it is asked again after 1.28 s; and once it was there,
 * after 10 ms. */
RC_TEST(patience_has_an_end)
{
    fake.way_error = EHOSTUNREACH;
    for (uint32_t i = 1; i < 80; i++) {
        assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
        settle();
        assert_int_equal(rc_inside(sides[0].t).attempts, i);
        assert_int_equal(rc_inside(sides[0].t).pending, 0);
        fake.now += 1280000;
    }
    fake.way_error = 0;
    connect_sides(0, 1, 0);
    fake.now += 2000000;
    fake_rdma_break(fake_rdma_last_qp(), IBV_WC_RETRY_EXC_ERR);
    settle();
    fake.way_error = EHOSTUNREACH;
    const uint32_t before = rc_inside(sides[0].t).attempts;
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
        settle();
        assert_int_equal(rc_inside(sides[0].t).attempts, before + i);
        fake.now += 10000;
    }
}

/* What a reply must say: that it is one of ours, on that channel, from the peer that we asked, for
 * us. */
RC_TEST(replies_are_checked)
{
    static const int places[] = {0, 4, 5, 6, 8, 15, 16, 23};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        fake.spoil_reply = places[i];
        assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
        settle();
        assert_int_not_equal(send_one(0, 1, SMALL, 0), 0);
        fake.now += 2000000;
    }
    assert_int_equal(sides[0].sent + sides[0].broken + sides[1].received, 0);
    fake.spoil_reply = -1;
    connect_sides(0, 1, 0);
}

/* Asked for nothing for the third time: then it is told, as it may have been the other host's
 * start. */
static void no_way_is_told(bool other_device)
{
    params.log = (btl_ib_log_t){.print = listen_to, .diagnostic = note_diagnostic};
    open_side(2);
    add(2, 1);
    fake.way_error = other_device ? 0 : EHOSTUNREACH;
    fake.other_device = other_device;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(diagnostics, 0);
        assert_int_equal(send_one(2, 1, SMALL, 0), EAGAIN);
        settle();
        fake.now += 1000000;
    }
    assert_int_equal(diagnostics, 1u << BTL_IB_DIAG_UNREACHABLE);
    assert_memory_equal(diagnostic_detail, "10.0.0.1:", 9);
    fake.way_error = 0;
    fake.other_device = false;
    connect_sides(2, 1, 0);
}

RC_TEST(no_way)
{
    no_way_is_told(false);
}

RC_TEST(way_of_another_device)
{
    no_way_is_told(true);
}

RC_TEST(silence_is_no_refusal)
{
    fake.lose_requests = true;
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(sides[0].refused, 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    assert_int_equal(fake.requests, 1);
    forget(0, 1);
    assert_int_equal(fake.qps, 0);
}

/* An answer may take longer than a minute. Meanwhile what is to be sent counts as lost, so that
 * another rail may carry it; when the conn opens at last the engine is told that it was. */
RC_TEST(long_wait_is_a_loss)
{
    fake.hold_requests = true;
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    fake.now += 9 * 1000 * 1000;
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    fake.now += 2 * 1000 * 1000;
    assert_int_equal(send_one(0, 1, SMALL, 0), EHOSTUNREACH);
    assert_int_equal(fake.requests, 1);
    settle();
    assert_int_equal(sides[0].broken, 0);
    fake.hold_requests = false;
    fake_rdma_release();
    settle();
    assert_int_equal(sides[0].broken, 1);
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    settle();
    assert_int_equal(sides[1].received, 1);
    assert_int_equal(sides[0].broken, 1);
}

/* Beginning to connect takes time, too. */
RC_TEST(first_attempt_is_waited_for)
{
    fake.tick = 7;
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(sides[0].broken, 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
}

/* Attempts that come to nothing for want of an answer say nothing of the next one: what waits goes
 * on waiting for as long as for a single one, and is not sent again when the connection opens at
 * last. */
RC_TEST(timeouts_are_waited_for)
{
    fake.way_error = ETIMEDOUT;
    for (int i = 0; i < 9; i++) {
        assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
        settle();
        assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
        fake.now += 1000 * 1000;
    }
    fake.way_error = 0;
    (void) send_one(0, 1, SMALL, 0);
    fake.now += 1280 * 1000;
    connect_sides(0, 1, 0);
    assert_int_equal(sides[0].broken, 0);
}

RC_TEST(timeouts_in_a_row_are_a_loss)
{
    fake.way_error = ETIMEDOUT;
    (void) send_one(0, 1, SMALL, 0);
    settle();
    fake.now += 11 * 1000 * 1000;
    (void) send_one(0, 1, SMALL, 0);
    settle();
    assert_int_equal(send_one(0, 1, SMALL, 0), EHOSTUNREACH);
    fake.way_error = 0;
    fake.now += 1280 * 1000;
    connect_sides(0, 1, 0);
    assert_int_equal(sides[0].broken, 1);
}

/* ---- ends ---- */

RC_TEST(broken_by_an_error)
{
    int error;

    connect_sides(0, 1, 1);
    const uint32_t qp = qp_of(0, 1, 1);
    assert_int_equal(send_row(0, 1, LONG, 1, 5, &error), 5);
    fake_rdma_break(qp, IBV_WC_RETRY_EXC_ERR);
    settle();
    assert_int_equal(sides[0].broken, 1);
    assert_int_equal(sides[1].broken, 1);
    assert_int_equal(sides[0].sent, 5);
    assert_int_equal(sides[0].refused, 0);
    assert_int_equal(fake.qps, 0);
    assert_int_equal(send_one(0, 1, SMALL, 1), EAGAIN);
    settle();
    assert_int_equal(send_one(0, 1, SMALL, 1), 0);
    settle();
    assert_int_equal(fake.qps, 2);
}

/* A connection that breaks whenever it was made is not made anew in a tight loop; one that lasted
 * is at once. */
RC_TEST(pause_after_short_lives)
{
    uint32_t before;

    connect_sides(0, 1, 1);
    before = fake.requests;
    for (int i = 0; i < 20000; i++) { /* 200 ms */
        if (conn_of(0, 1, 1).open) {
            fake_rdma_break(qp_of(0, 1, 1), IBV_WC_RETRY_EXC_ERR);
        }
        look(0);
        look(1);
        (void) send_one(0, 1, SMALL, 1);
    }
    assert_in_range(fake.requests - before, 3, 10);
    fake.now += 2000000;
    (void) send_one(0, 1, SMALL, 1);
    settle();
    fake.now += 2000000;
    before = fake.requests;
    fake_rdma_break(qp_of(0, 1, 1), IBV_WC_RETRY_EXC_ERR);
    settle();
    (void) send_one(0, 1, SMALL, 1);
    settle();
    assert_int_equal(fake.requests, before + 1);
}

/* What came before the end goes up before it is told of. */
RC_TEST(last_words_are_heard)
{
    connect_sides(0, 1, 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    close_side(0);
    settle();
    assert_int_equal(sides[1].received, 2);
    assert_int_equal(sides[1].broken, 1);
}

/* Buffers that the engine holds stay what they are after the conn and its peer are gone. */
RC_TEST(buffers_held_over_the_end)
{
    side_t *side = &sides[1];

    connect_sides(0, 1, 1);
    side->keeps = true;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
    }
    settle();
    assert_int_equal(side->held_count, 5);
    forget(1, 0);
    assert_int_equal(fake.mrs, 2 + 2); /* memory of both sides; the conn of the other */
    assert_int_equal(side->held_data[4], (uint8_t) (5 + 4));
    side->t->ops->repost(side->t, side->held, 3);
    side->t->ops->repost(side->t, side->held + 3, 2);
    assert_false(rc_inside(sides[1].t).closed);
    settle();
    assert_int_equal(sides[0].broken, 1);
    assert_int_equal(fake.qps, 0);
}

/* Completions of a queue pair that is gone are nobody's. */
RC_TEST(late_completions)
{
    connect_sides(0, 1, 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), 0); /* in the other's completion queue */
    forget(1, 0);
    settle();
    assert_int_equal(sides[1].received, 1);
}

/* They are nobody's, although his place is taken by then. */
RC_TEST(late_completions_of_another_life)
{
    connect_sides(0, 1, 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    forget(1, 0);
    add(1, 0);
    assert_int_equal(send_one(1, 0, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(sides[1].received, 1);
}

/* ---- addresses ---- */

RC_TEST(addresses)
{
    uint8_t bytes[BTL_IB_ADDR_BYTES];
    btl_ib_addr_t addr;
    char text[64];
    btl_ib_transport_t *t = sides[0].t;
    const uint32_t len = sides[1].t->address_len;

    static const uint8_t places[] = {0, 1, 2, 3, 6, 7, 12, 23}; /* version, kind, family; zero */
    for (uint32_t i = 0; i < sizeof(places); i++) {
        memcpy(bytes, sides[1].t->address, len);
        bytes[places[i]] ^= 0x40;
        assert_int_equal(t->ops->addr_add(t, bytes, len, &addr), -EINVAL);
    }
    assert_int_equal(t->ops->addr_add(t, sides[1].t->address, len - 1, &addr), -EINVAL);
    assert_false(t->ops->address_text(sides[1].t->address, len - 1, text, sizeof(text)));
    memcpy(bytes, sides[1].t->address, len);
    memcpy(bytes + 4, (const uint8_t[]){0x13, 0x88}, 2);
    memcpy(bytes + 8, (const uint8_t[]){10, 0, 0, 1}, 4);
    assert_true(t->ops->address_text(bytes, len, text, sizeof(text)));
    assert_string_equal(text, "10.0.0.1:5000");
    memcpy(bytes, sides[1].t->address, len);
    memset(bytes + 4, 0, 2); /* port */
    assert_int_equal(t->ops->addr_add(t, bytes, len, &addr), -EINVAL);
    open_side(2);
    rc_set_log(sides[2].t, (btl_ib_log_t){.print = listen_to, .diagnostic = note_diagnostic});
    memcpy(bytes, sides[1].t->address, len);
    bytes[2] = 6; /* of IPv6, to an address of IPv4 */
    bytes[8] = 0xfd;
    assert_int_equal(sides[2].t->ops->addr_add(sides[2].t, bytes, len, &addr), -EHOSTUNREACH);
    assert_int_equal(diagnostics, 1u << BTL_IB_DIAG_SUBNET);
    assert_memory_equal(diagnostic_detail, "[fd00:", 6);
    assert_int_equal(t->ops->addr_add(t, sides[1].t->address, len, &addr), 0);
    assert_int_equal(addr, sides[0].to[1]);
    t->ops->addr_remove(t, addr);
}

UNIT_MAIN(NULL, NULL)
