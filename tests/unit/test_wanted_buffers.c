/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The receive buffers that a transport is asked for: what btl_ib_receive_queues says of each queue,
 * and what each peer adds. */

#include "btl_ib_device_plan.h"
#include "unit.h"

static btl_ib_open_params_t wanted(const char *string, uint32_t rx_depth, uint32_t credit_init)
{
    btl_ib_queue_table_t table;
    btl_ib_queues_error_t error;
    btl_ib_open_params_t open = {.queue_count = 0};

    assert_int_equal(btl_ib_queues_parse(string, &table, &error), 0);
    btl_ib_want_buffers(&table, rx_depth, credit_init, &open);
    return open;
}

/* Each number of the string arrives where the transport looks for it. */
TEST(as_the_string_says)
{
    const btl_ib_open_params_t all = wanted("P,256,24,10,7,3:S,4096,64,16,4,8,2", 0, 0);
    const btl_ib_open_queue_t *p = &all.queue[0], *s = &all.queue[1];

    assert_int_equal(all.rx_depth, 88 + 3); /* where all queues share one pool */
    assert_int_equal(p->size, 256);
    assert_int_equal(p->num, 24);
    assert_int_equal(p->low, 10);
    assert_int_equal(p->window, 7);
    assert_int_equal(p->reserve, 3);
    assert_int_equal(p->init, 24); /* all of them */
    assert_int_equal(p->limit, 0);
    assert_false(p->shared);
    assert_int_equal(s->size, 4096);
    assert_int_equal(s->num, 64);
    assert_int_equal(s->low, 16);
    assert_int_equal(s->window, 0);
    assert_int_equal(s->init, 8);
    assert_int_equal(s->limit, 2);
    assert_int_equal(s->per_peer, 0); /* it is for all */
    assert_true(s->shared);
}

/* Control traffic goes by the first queue: others keep nothing for it. */
TEST(reserve_of_the_first)
{
    const btl_ib_open_params_t all = wanted("P,256,24,10,7,5:P,1024,24,10,7,9", 0, 0);

    assert_int_equal(all.rx_depth, 48 + 5);
    assert_int_equal(all.queue[0].reserve, 5);
    assert_int_equal(all.queue[1].reserve, 0);
    assert_int_equal(wanted("S,256,24:P,1024,24,10,7,9", 0, 0).rx_depth, 48);
}

/* What each peer adds to a queue of type P, where all share one pool: what a new peer may send
 * before it is granted more. That is what the engine grants at least (credits_of_a_new_peer of
 * test_engine), and never more than num. */
TEST(each_peer_adds)
{
    static const struct {
        const char *string;
        uint32_t credit_init, adds;
    } cases[] = {
        {"P,256,64", 0, 16}, {"P,256,16", 0, 16}, {"P,256,8", 0, 8},
        {"P,256,2", 0, 2},   {"P,256,64", 4, 4},  {"P,256,64", 300, 64},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const btl_ib_open_params_t all = wanted(cases[i].string, 0, cases[i].credit_init);
        assert_int_equal(all.queue[0].per_peer, cases[i].adds);
    }
}

/* btl_ib_rx_depth is divided in proportion, and low with it; nobody goes without, and low stays
 * below num. */
TEST(shares_of_a_depth)
{
    const btl_ib_open_params_t all = wanted("P,256,300,200:P,1024,100:P,4096,2", 40, 0);

    assert_int_equal(all.rx_depth, 40);
    assert_int_equal(all.queue[0].num, 29);
    assert_int_equal(all.queue[0].low, 19);
    assert_int_equal(all.queue[1].num, 9);
    assert_int_equal(all.queue[2].num, 1);
    assert_int_equal(all.queue[2].low, 0);
}

/* Which numbers are told to govern nothing: those that were written, and that a transport has no use
 * for. */
TEST(told_without_effect)
{
    const btl_ib_transport_type_t all = {.name = "all"};
    const btl_ib_transport_type_t ofi = {.shared_unused = BTL_IB_SHARED_GROWTH};
    const btl_ib_transport_type_t udp = {.shared_unused = BTL_IB_SHARED_NUM | BTL_IB_SHARED_LOW
                                                          | BTL_IB_SHARED_GROWTH};
    const struct {
        const char *spec;
        const btl_ib_transport_type_t *type;
        uint32_t count;
        const char *text;
    } cases[] = {
        {"P,256,24,10,7,3:S,4096,64", &udp, 0, ""}, /* by the default of max_pending_sends */
        {"P,256,24,10,7,3:S,4096,64,16", &udp, 0, ""},
        {"P,256,24:S,4096,64,16,4", &udp, 2, "queue 2: num, low_watermark"},
        {"P,256,24:S,4096,64,,4,,", &udp, 1, "queue 2: num"},
        {"P,256,24:S,4096,64,,,8,2", &udp, 2, "queue 2: init, limit"},
        {"P,256,24:S,4096,64,16,4,8,2", &ofi, 2, "queue 2: init, limit"},
        {"P,256,24:S,4096,64,16,4,8,2", &all, 0, ""},
        {"P,256,24,10,7,3:P,1024,24,10,7,3:S,4096,64,,,8", &ofi, 2,
         "queue 2: reserve; queue 3: init"},
        {"S,256,24:P,1024,24,10,7,3", &all, 1, "queue 2: reserve"},
        {"S,256,24:P,1024,24,10,7,", &all, 0, ""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        btl_ib_queue_table_t table;
        btl_ib_queues_error_t error;
        const btl_ib_params_t params = {.am_credits_slack = -1};
        char text[128];

        assert_int_equal(btl_ib_queues_parse(cases[i].spec, &table, &error), 0);
        assert_int_equal(btl_ib_queues_without_effect(cases[i].spec, &table, cases[i].type, &params,
                                                      text, sizeof(text)),
                         cases[i].count);
        assert_string_equal(text, cases[i].text);
    }
}

/* A window governs nothing beside btl_ib_am_credits_slack. */
TEST(told_of_windows)
{
    static const char spec[] = "P,256,24,10,7,3:P,1024,24,10:P,4096,24,10,,3:P,8192,24,,5";
    const btl_ib_transport_type_t type = {.name = "all"};
    btl_ib_params_t params = {.am_credits_slack = -1};
    btl_ib_queue_table_t table;
    btl_ib_queues_error_t error;
    char text[128];

    assert_int_equal(btl_ib_queues_parse(spec, &table, &error), 0);
    assert_int_equal(btl_ib_queues_without_effect(spec, &table, &type, &params, text, sizeof(text)),
                     1);
    assert_string_equal(text, "queue 3: reserve");
    params.am_credits_slack = 0;
    assert_int_equal(btl_ib_queues_without_effect(spec, &table, &type, &params, text, sizeof(text)),
                     3);
    assert_string_equal(text, "queue 1: window; queue 3: reserve; queue 4: window");
}

/* btl_ib_am_credits_slack: engine and transport are told that windows are one more than that, as
 * far as the grammar allows. S has no window. */
TEST(slack_in_place_of_windows)
{
    static const struct {
        int slack;
        uint32_t few, many; /* windows of the two queues */
    } cases[] = {{-1, 7, 100}, {0, 1, 1}, {7, 8, 8}, {13, 14, 14}, {14, 14, 15}, {5000, 14, 200}};
    const btl_ib_transport_attr_t attr = {.max_datagram = 9000};
    btl_ib_queue_table_t table;
    btl_ib_queues_error_t error;

    assert_int_equal(
        btl_ib_queues_parse("P,256,24,10,7:P,1024,200,100,100:S,4096,64", &table, &error), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const btl_ib_params_t params = {.am_credits_slack = cases[i].slack,
                                        .udp_gso = "auto",
                                        .ordering = "strict",
                                        .channels = "auto",
                                        .cq = "shared"};
        btl_ib_device_plan_t plan;

        btl_ib_device_plan_for(&params, &attr, &table, 0, &plan);
        assert_int_equal(plan.queues.q[0].window, cases[i].few);
        assert_int_equal(plan.queues.q[1].window, cases[i].many);
        assert_int_equal(plan.queues.q[2].window, 0);
        assert_int_equal(plan.open.queue[0].window, cases[i].few);
        assert_int_equal(plan.open.queue[1].window, cases[i].many);
        assert_int_equal(btl_ib_queues_check(&plan.queues), 0);
    }
}

UNIT_MAIN(NULL, NULL)
