/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over UD where calls of libibverbs are refused: no device, or none that opens,
 * with the call and the cause named and nothing left; or it goes on. */

#include <errno.h>
#include <string.h>

#include "refusals.h"
#include "ud_pair.h"

/* Looks for devices while calls are refused, the first time, the second ... until all are made. */
static void look_for_devices(const char *call, int error)
{
    int after = 0;

    for (int refused = 1; refused > 0; after++) {
        refuse(call, error, after);
        const int count = refusals_devices(type);
        refused = refusals();
        assert_true(refused > 0 ? count < 1 : count == 2);
        assert_true(refused == 0 || refusals_named(call, error) || error == ENOSYS);
        assert_int_equal(fake_objects, 0);
    }
    refuse(NULL, 0, 0);
    assert_true(after > 1); /* it is made */
}

UD_TEST(devices_are_turned_down)
{
    static const char *const calls[] = {"ibv_get_device_list", "ibv_open_device",
                                        "ibv_query_device", "ibv_query_port",
                                        "ibv_query_gid_table"};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (const int *error = refusals_errors; *error != 0; error++) {
            look_for_devices(calls[i], *error);
        }
    }
}

/* Opens a device in the same way. */
static void open_device(const char *call, int error)
{
    const btl_ib_search_t search = {.gid_index = -1, .log = refusals_log};
    btl_ib_open_params_t params = usual;
    int after = 0;

    for (int refused = 1; refused > 0; after++) {
        const char *name = NULL;
        btl_ib_transport_t *t = NULL;
        btl_ib_device_t *list;

        refuse(NULL, 0, 0);
        assert_int_equal(type->devices(&search, &list), 2);
        params.log = refusals_log;
        params.refused = &name;
        refuse(call, error, after);
        const int rc = type->open(&list[0], &params, &t);
        refused = refusals();
        type->devices_free(list, 2);
        if (rc == 0) {
            close_one(t);
            assert_true(after > 0);
        } else {
            assert_int_equal(rc, -error);
            assert_string_equal(name, call);
            assert_true(refusals_named(call, error));
        }
        assert_int_equal(fake_objects, 0);
    }
    refuse(NULL, 0, 0);
    assert_true(after > 1);
}

UD_TEST(devices_do_not_open)
{
    static const char *const calls[] = {
        "ibv_open_device", "ibv_query_device", "ibv_query_port",          "ibv_query_pkey",
        "ibv_alloc_pd",    "ibv_create_cq",    "ibv_create_qp",           "ibv_modify_qp",
        "ibv_reg_mr",      "ibv_post_recv",    "ibv_create_comp_channel",
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (const int *error = refusals_errors; *error != 0; error++) {
            open_device(calls[i], *error);
        }
    }
}

/* A peer that no address handle can be made for is not reached; others are. */
UD_TEST(peers_are_not_reached)
{
    btl_ib_open_params_t params = usual;

    params.log = refusals_log;
    for (const int *error = refusals_errors; *error != 0; error++) {
        btl_ib_transport_t *a = open_one(params), *b = open_one(params);
        btl_ib_addr_t addr;

        refuse("ibv_create_ah", *error, 0);
        const int rc = a->ops->addr_add(a, b->address, b->address_len, &addr);
        assert_int_equal(rc, *error == ENOMEM ? -ENOMEM : -EHOSTUNREACH);
        assert_true(refusals_named("ibv_create_ah", *error));
        refuse(NULL, 0, 0);
        assert_int_equal(a->ops->addr_add(a, b->address, b->address_len, &addr), 0);
        close_one(a);
        close_one(b);
    }
}

/* Memory that cannot be registered is copied by the caller. */
UD_TEST(memory_is_not_registered)
{
    btl_ib_open_params_t params = usual;
    void *mem;

    params.log = refusals_log;
    for (const int *error = refusals_errors; *error != 0; error++) {
        btl_ib_transport_t *t = open_one(params);

        refuse("ibv_reg_mr", *error, 0);
        assert_int_equal(t->ops->mem_register(t, memory, sizeof(memory), &mem), -*error);
        assert_true(refusals_named("ibv_reg_mr", *error));
        refuse(NULL, 0, 0);
        close_one(t);
    }
}

/* A device that refuses all sends, or whose completions cannot be read, says which call that is. */
UD_TEST(call_is_named)
{
    btl_ib_event_t events[4];
    int error;

    pair_t pair = open_pair(usual);
    fake.take = 0;
    fake.post_error = EINVAL;
    assert_int_equal(send_some(&pair, 0, 1, SIZE, LARGE, &error), 0);
    assert_int_equal(error, EINVAL);
    assert_string_equal(pair.a->unsent_call, "ibv_post_send");
    assert_int_equal(pair.a->unsent_error, EINVAL);
    assert_null(pair.a->refused);
    fake_poll_fails = true;
    assert_int_equal(poll_for(pair.a, BTL_IB_EVENT_FAILED, events, 4), 1);
    fake_poll_fails = false;
    assert_string_equal(pair.a->refused, "ibv_poll_cq");
    close_pair(&pair);
}

/* Takes all that comes to `b` until `until`, by a poll each 10 ms, and gives buffers back. Returns
 * the number of datagrams; *failed is when the device failed, 0: it did not. */
static int poll_until(const pair_t *pair, uint64_t *now, uint64_t until, uint64_t *failed)
{
    btl_ib_event_t events[SLOTS];
    int sum = 0;

    for (*failed = 0; *now <= until && *failed == 0; *now += 10000) {
        int n;
        while ((n = pair->b->ops->poll(pair->b, *now, events, SLOTS)) > 0 && *failed == 0) {
            if (events[n - 1].type == BTL_IB_EVENT_FAILED) {
                assert_int_equal(events[n - 1].error, ENOMEM);
                *failed = *now;
                n--;
            }
            for (int i = 0; i < n; i++) {
                assert_int_equal(events[i].type, BTL_IB_EVENT_RECV);
                pair->b->ops->repost(pair->b, &events[i].buffer, 1);
            }
            sum += n;
        }
        (void) poll_all(pair->a, BTL_IB_EVENT_SENT);
    }
    return sum;
}

/* Uses up the receive buffers of one queue of `b` while the device refuses to take some. */
static void use_up(const pair_t *pair, uint8_t channel, uint64_t *now)
{
    const int made = (int) fake_posted(qpn_of(pair->b, channel));
    uint64_t failed;

    refuse("ibv_post_recv", ENOMEM, 0);
    send_all(pair, 0, made, channel == SMALL ? 100 : SIZE, channel);
    assert_int_equal(poll_until(pair, now, *now, &failed), made);
    assert_int_equal(failed, 0);
    assert_int_equal(fake_posted(qpn_of(pair->b, channel)), 0);
}

/* A device that takes no receive buffers any more has failed after a second: its peers would only
 * see that what they send gets lost. The advice to have more of them is of no use then. */
UD_TEST(shortage_of_buffers_that_lasts)
{
    btl_ib_open_params_t params = usual;

    params.log = refusals_log;
    for (uint8_t channel = 0; channel < CHANNELS; channel++) {
        pair_t pair = open_pair(params);
        const uint64_t since = 5000000;
        uint64_t now = since, failed;

        use_up(&pair, channel, &now);
        assert_int_equal(poll_until(&pair, &now, since + 5000000, &failed), 0);
        assert_in_range(failed, since + 1000000, since + 1020000);
        assert_string_equal(pair.b->refused, "ibv_post_recv");
        assert_true(refusals_named("receive buffers cannot be posted", ENOMEM));
        assert_null(strstr(refusals_said, "had none of its"));
        refuse(NULL, 0, 0);
        close_pair(&pair);
    }
}

/* One that passes does no harm, however often there is one; nor does one beside which some buffers
 * are posted. */
UD_TEST(shortage_of_buffers_that_passes)
{
    btl_ib_open_params_t params = usual;
    uint64_t now = 5000000, failed;

    params.log = refusals_log;
    pair_t pair = open_pair(params);
    const uint32_t qpn = qpn_of(pair.b, LARGE);
    const uint32_t made = fake_posted(qpn);
    for (int i = 0; i < 5; i++) {
        use_up(&pair, LARGE, &now);
        assert_int_equal(poll_until(&pair, &now, now + 500000, &failed), 0);
        assert_int_equal(failed, 0);
        refuse(NULL, 0, 0);
        assert_int_equal(poll_until(&pair, &now, now + 10000, &failed), 0);
        assert_int_equal(fake_posted(qpn), made);
        send_all(&pair, 0, (int) made, SIZE, LARGE);
        assert_int_equal(poll_until(&pair, &now, now + 300000, &failed), made);
        assert_int_equal(failed, 0);
    }
    const int all_but_one = (int) fake_posted(qpn) - 1;
    refuse("ibv_post_recv", ENOMEM, 0);
    send_all(&pair, 0, all_but_one, SIZE, LARGE);
    assert_int_equal(poll_until(&pair, &now, now + 5000000, &failed), all_but_one);
    assert_int_equal(failed, 0);
    assert_int_equal(fake_posted(qpn), 1);
    refuse(NULL, 0, 0);
    assert_int_equal(fake.dropped, 0);
    assert_null(pair.b->refused);
    close_pair(&pair);
}

/* The same of a queue pair that failed, and is made as new meanwhile. */
UD_TEST(shortage_of_buffers_at_a_restart)
{
    for (int passes = 0; passes < 2; passes++) {
        pair_t pair = open_pair(usual);
        const uint32_t qpn = qpn_of(pair.b, LARGE);
        const uint32_t made = fake_posted(qpn);
        uint64_t now = 5000000, failed;

        refuse("ibv_post_recv", ENOMEM, 0);
        fake_break(qpn);
        assert_int_equal(poll_until(&pair, &now, now + 500000, &failed), 0);
        assert_int_equal(failed, 0);
        if (passes) {
            refuse(NULL, 0, 0);
        }
        assert_int_equal(poll_until(&pair, &now, now + 1000000, &failed), 0);
        assert_true(passes ? failed == 0 : failed > 0);
        refuse(NULL, 0, 0);
        assert_int_equal(fake_posted(qpn), passes ? made : 0);
        close_pair(&pair);
    }
}

UNIT_MAIN(NULL, NULL)
