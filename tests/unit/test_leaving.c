/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The component without a runtime leaves a job of 1,000 processes: datagrams go to those that it
 * has a connection with, and to nobody else. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lone_component.h"
#include "unit.h"

enum { SELF = 0, PEERS = 1000, CONNECTED = 10, CLOSES = 3, TAG = 77 };

static btl_ib_transport_t transport;
static btl_ib_transport_ops_t ops;
static btl_ib_module_t *module;
static opal_proc_t *procs[PEERS];
static btl_ib_endpoint_t *endpoints[PEERS];
static uint32_t sent[PEERS + 1]; /* datagrams to each address, which is the process's number */

static int count_sent(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    for (int i = 0; i < n; i++) {
        assert_in_range(batch[i].to, 1, PEERS);
        sent[batch[i].to]++;
    }
    return n;
}

static int set_up(void **state)
{
    mca_btl_base_module_t *btl;
    btl_ib_engine_config_t config;
    btl_ib_queue_table_t queues;
    btl_ib_queues_error_t error;

    btl_ib_engine_config_default(&config);
    config.rto_initial = 10 * 1000 * 1000; /* nobody answers here, and nothing is to be repeated */
    assert_true(begin_component(SELF, &config));
    assert_int_equal(btl_ib_queues_parse("P,256,256,128,32:S,1472,1024,512,64", &queues, &error),
                     0);
    module = begin_rail(&transport, &queues);
    assert_non_null(module);
    ops = *transport.ops;
    ops.send = count_sent;
    transport.ops = &ops;
    btl = &module->super;
    mca_btl_ib_component.self = new_process(SELF, &queues);
    for (uint32_t i = 0; i < PEERS; i++) {
        btl_ib_modex_t *published = new_process(1 + i, &queues);
        assert_non_null(published);
        btl_ib_modex_keep(&mca_btl_ib_component.known, btl_ib_name_pack(name_of(1 + i)), published);
        free(published);
        procs[i] = OBJ_NEW(opal_proc_t);
        procs[i]->proc_name = name_of(1 + i);
        assert_int_equal(btl->btl_add_procs(btl, 1, &procs[i], &endpoints[i], NULL), OPAL_SUCCESS);
        assert_non_null(endpoints[i]);
    }
    return 0;
}

/* One process after the other is deleted, as bml r2 does, and then what is said several times is
 * said. */
TEST(datagrams_to_connected_peers_only)
{
    mca_btl_base_module_t *btl = &module->super;
    uint32_t header = 0;

    for (uint32_t i = 0; i < CONNECTED; i++) {
        assert_int_equal(
            btl->btl_sendi(btl, endpoints[i], NULL, &header, sizeof(header), 0, 0, 0, TAG, NULL),
            OPAL_SUCCESS);
        assert_int_equal(sent[1 + i], 1);
    }
    memset(sent, 0, sizeof(sent));
    mca_btl_ib_component.params.drain_ms = 0; /* nobody acknowledges what was sent */
    for (uint32_t i = 0; i < PEERS; i++) {
        btl->btl_del_procs(btl, 1, &procs[i], &endpoints[i]);
    }
    mca_btl_ib_component.params.drain_ms = 1000;
    btl_ib_lock();
    mca_btl_ib_component.drain.ended = 0;
    btl_ib_module_linger();
    btl_ib_unlock();
    for (uint32_t i = 0; i < PEERS; i++) {
        assert_int_equal(sent[1 + i], i < CONNECTED ? CLOSES : 0);
    }
    assert_null(btl_ib_endpoint_next(NULL));
}

UNIT_MAIN(set_up, NULL)
