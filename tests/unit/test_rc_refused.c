/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC where calls of libibverbs and librdmacm are refused: no device, or none
 * that opens, with the call and the cause named and nothing left; or it goes on. A connection that
 * one end cannot make is made later. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rc_sides.h"
#include "refusals.h"
#include "unit.h"

/* Looks for devices while calls are refused, the first time, the second ... until all are made. */
static void look_for_devices(const char *call, int error)
{
    const int before = fake_objects;
    int after = 0;

    for (int refused = 1; refused > 0; after++) {
        refuse(call, error, after);
        const int count = refusals_devices(&btl_ib_verbs_rc_type);
        refused = refusals();
        assert_true(refused > 0 ? count < 1 : count == 1);
        assert_true(refused == 0 || refusals_named(call, error));
        assert_int_equal(fake_objects, before);
    }
    refuse(NULL, 0, 0);
    assert_true(after > 1); /* it is made */
}

RC_TEST(devices_are_turned_down)
{
    static const char *const calls[] = {"rdma_create_event_channel", "rdma_create_id",
                                        "rdma_bind_addr", "ibv_query_device", "ibv_query_port"};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (const int *error = refusals_errors; *error != 0; error++) {
            look_for_devices(calls[i], *error);
        }
    }
}

/* Opens a device in the same way. `needed`: it does not open without the call. */
static void open_device(const char *call, bool needed, int error)
{
    const int before = fake_objects;
    int after = 0;

    for (int refused = 1; refused > 0; after++) {
        const char *name = NULL;

        params.log = refusals_log;
        params.refused = &name;
        refuse(call, error, after);
        const int rc = try_open(2);
        refused = refusals();
        params.refused = NULL;
        if (rc == 0) {
            sides[2].t->ops->stop(sides[2].t);
            sides[2].t->ops->close(sides[2].t);
            assert_true(refused == 0 || !needed);
        } else {
            assert_int_equal(rc, -error);
            assert_string_equal(name, call);
            assert_true(refusals_named(call, error));
        }
        sides[2].t = NULL;
        assert_int_equal(fake_objects, before);
    }
    refuse(NULL, 0, 0);
    assert_true(after > 1);
}

RC_TEST(devices_do_not_open)
{
    static const struct {
        const char *call;
        bool needed;
    } calls[] = {
        {"rdma_create_event_channel", true},
        {"rdma_create_id", true},
        {"rdma_bind_addr", true},
        {"rdma_listen", true},
        {"ibv_query_device", true},
        {"ibv_query_port", true},
        {"ibv_alloc_pd", true},
        {"ibv_create_comp_channel", true},
        {"ibv_create_cq", true},
        {"ibv_create_qp", false}, /* tells what goes inline */
        {"ibv_create_srq", true},
        {"ibv_reg_mr", true},
        {"ibv_post_srq_recv", true},
        {"ibv_modify_srq", false},
    };

    params.queue[1].shared = true;
    params.queue[1].low = NUM / 2;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (const int *error = refusals_errors; *error != 0; error++) {
            open_device(calls[i].call, calls[i].needed, *error);
        }
    }
}

static char diagnostic[128];

static void note_diagnostic(void *context, btl_ib_diagnostic_t what, const char *device,
                            const char *detail)
{
    if (what == BTL_IB_DIAG_REFUSED) {
        snprintf(diagnostic, sizeof(diagnostic), "%s", detail);
    }
}

/* Two sides with nothing between them. */
static void begin_again(uint8_t level)
{
    assert_int_equal(tear_down(NULL), 0);
    fake_rdma_reset();
    params.service_level = level;
    params.log = refusals_log;
    params.log.diagnostic = note_diagnostic;
    for (int i = 0; i < 2; i++) {
        open_side(i);
    }
    add(0, 1);
    add(1, 0);
}

/* Connects while a call is refused, the first time, the second ... until all are made, and then
 * once more while none is. */
static void connect_later(const char *call, uint8_t level, int error)
{
    int after = 0;

    for (int refused = 1; refused > 0; after++) {
        begin_again(level);
        refuse(call, error, after);
        (void) send_one(0, 1, SMALL, 0);
        settle();
        const int rc = send_one(0, 1, SMALL, 0);
        settle();
        refused = refusals();
        assert_true(refused == 0 || rc == 0 || refusals_named(call, error));
        assert_int_equal(sides[0].failed + sides[1].failed, 0);
        refuse(NULL, 0, 0);
        fake.now += 10000000;
        if (sides[1].received == 0) {
            (void) send_one(0, 1, SMALL, 0);
            settle();
            assert_int_equal(send_one(0, 1, SMALL, 0), 0);
            settle();
        }
        assert_in_range(sides[1].received, 1, 4);
    }
    refuse(NULL, 0, 0);
    assert_true(after > 1);
}

RC_TEST(connections_are_made_later)
{
    static const struct {
        const char *call;
        uint8_t level; /* librdmacm does not know it: then we make more of the calls ourselves */
    } calls[] = {
        {"rdma_create_id", 0},    {"rdma_resolve_addr", 0}, {"rdma_resolve_route", 0},
        {"rdma_set_option", 0},   {"rdma_connect", 0},      {"rdma_accept", 0},
        {"rdma_create_qp", 0},    {"ibv_reg_mr", 0},        {"ibv_post_recv", 0},
        {"rdma_init_qp_attr", 5}, {"ibv_modify_qp", 5},     {"rdma_establish", 5},
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (const int *error = refusals_errors; *error != 0; error++) {
            connect_later(calls[i].call, calls[i].level, *error);
        }
    }
}

/* Sends of a process whose system refuses a call from now on say which call it was, and why. */
static void told(const char *call, int error)
{
    int rc = EAGAIN;

    begin_again(0);
    refuse(call, error, 0);
    for (int i = 0; i < 40 && rc != EHOSTUNREACH; i++) {
        rc = send_one(0, 1, SMALL, 0);
        settle();
        fake.now += i % 2 == 0 ? 0 : 2000000; /* also while it pauses */
    }
    assert_int_equal(rc, EHOSTUNREACH);
    assert_string_equal(sides[0].t->unsent_call, call);
    assert_int_equal(sides[0].t->unsent_error, error);
    refuse(NULL, 0, 0);
}

RC_TEST(senders_are_told)
{
    static const char *const calls[] = {"rdma_create_id", "rdma_resolve_addr", "rdma_resolve_route",
                                        "rdma_connect",   "rdma_create_qp",    "ibv_reg_mr",
                                        "ibv_post_send"};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        told(calls[i], EPERM);
        told(calls[i], EINVAL);
    }
}

/* A process that cannot accept what others ask for says so itself, and they say that it rejects. */
RC_TEST(rejections_are_told)
{
    begin_again(5); /* librdmacm does not know the level: then that side makes more calls itself */
    diagnostic[0] = '\0';
    for (int i = 0; i < 3; i++) {
        assert_string_equal(diagnostic, "");
        refuse("rdma_init_qp_attr", EPERM, 0);
        (void) send_one(0, 1, SMALL, 0);
        settle();
        assert_int_equal(send_one(0, 1, SMALL, 0), EHOSTUNREACH);
        fake.now += 2000000;
    }
    assert_string_equal(diagnostic, "rdma_init_qp_attr: Operation not permitted");
    assert_non_null(strstr(sides[0].t->unsent_call, "it rejects connections"));
    assert_int_equal(sides[0].t->unsent_error, 0);
    refuse(NULL, 0, 0);
    connect_sides(0, 1, 0);
}

/* Two connected sides with a shared queue for channel 1. */
static void share_queue(uint32_t num, uint32_t init)
{
    params.queue[1] = (btl_ib_open_queue_t){
        .size = SIZE_1, .num = num, .shared = true, .low = num - 1, .init = init, .limit = 2};
    begin_again(0);
    connect_sides(0, 1, 1);
    fake.now = fake.now / 1000000 * 1000000;
    settle();
}

static uint32_t posted_shared(void)
{
    return fake_rdma_posted(rc_srq(sides[1].t, 1));
}

/* Sends as many messages as there are shared buffers while the device refuses to take them back. */
static void empty_shared(void)
{
    refuse("ibv_post_srq_recv", ENOMEM, 0);
    for (uint32_t left = posted_shared(); left > 0; left--) {
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
    }
    (void) look(1); /* before the device's report is read, which both sides do */
    settle();
    assert_int_equal(posted_shared(), 0);
    assert_int_equal(sides[1].t->ops->wait_fd(sides[1].t), -1);
}

/* Looks for `us`, each 10 ms. Returns after how long the device had failed; 0: it has not. */
static uint64_t look_for(uint64_t us)
{
    for (const uint64_t begin = fake.now; fake.now - begin < us; fake.now += 10000) {
        (void) look(1);
        if (sides[1].failed > 0) {
            return fake.now - begin;
        }
    }
    return 0;
}

/* A device that takes no shared buffers any more has failed after a second, also if it was to have
 * more of them. */
RC_TEST(shortage_of_shared_buffers_that_lasts)
{
    for (uint32_t init = 4; init <= NUM; init += NUM - 4) {
        share_queue(NUM, init);
        empty_shared();
        assert_int_equal(sides[1].failed, 0);
        assert_in_range(look_for(5000000), 1000000, 1600000);
        assert_int_equal(sides[1].error, ENOMEM);
        assert_string_equal(sides[1].t->refused, "ibv_post_srq_recv");
        assert_true(refusals_named("ibv_post_srq_recv", ENOMEM));
        refuse(NULL, 0, 0);
    }
}

/* One that passes does no harm, however often there is one. */
RC_TEST(shortage_of_shared_buffers_that_passes)
{
    for (uint32_t init = 4; init <= NUM; init += NUM - 4) {
        share_queue(NUM, init);
        for (int i = 0; i < 5; i++) {
            empty_shared();
            assert_int_equal(look_for(500000), 0);
            refuse(NULL, 0, 0);
            assert_int_equal(look_for(300000), 0);
            assert_in_range(posted_shared(), init, NUM);
        }
        const int before = sides[1].received;
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
        settle();
        assert_int_equal(sides[1].received, before + 1);
        assert_int_equal(sides[0].broken + sides[1].broken + sides[1].failed, 0);
        assert_null(sides[1].t->refused);
    }
}

/* The same while the engine keeps all buffers that there are, and the queue grows. */
RC_TEST(shortage_while_shared_buffers_are_kept)
{
    share_queue(NUM, 4);
    sides[1].keeps = true;
    empty_shared();
    refuse(NULL, 0, 0);
    assert_int_equal(look_for(300000), 0);
    assert_in_range(posted_shared(), 1, NUM - 4);
    sides[1].keeps = false;
}

/* An errno that says nothing of memory ends the device at once, also where it was to have more. */
RC_TEST(shared_buffers_are_refused)
{
    for (uint32_t init = 4; init <= NUM; init += NUM - 4) {
        share_queue(NUM, init);
        refuse("ibv_post_srq_recv", EINVAL, 0);
        for (uint32_t left = posted_shared(); left > 0 && sides[1].failed == 0; left--) {
            (void) send_one(0, 1, LONG, 1);
            (void) look(1);
        }
        assert_int_equal(sides[1].failed, 1);
        assert_int_equal(sides[1].error, EINVAL);
        assert_string_equal(sides[1].t->refused, "ibv_post_srq_recv");
        refuse(NULL, 0, 0);
    }
}

/* A device whose completions cannot be read has failed. */
RC_TEST(failed_device_names_the_call)
{
    fake_poll_fails = true;
    look(0);
    assert_string_equal(sides[0].t->refused, "ibv_poll_cq");
    fake_poll_fails = false;
    assert_int_equal(sides[0].failed, 1);
}

UNIT_MAIN(NULL, NULL)
