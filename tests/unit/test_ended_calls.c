/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The component without a runtime: the engine is told when calls ended that sent much, as the time
 * which they took would look like a pause of the process. */

#include <stdlib.h>
#include <string.h>

#include "btl_ib_memory_handle.h"
#include "lone_peer.h"

enum { BYTES = 64, MANY = 1000 };

static btl_ib_endpoint_t *endpoint;
static uint8_t memory[BYTES];

static int set_up(void **state)
{
    begin_lone_component();
    mca_btl_ib_component.params.drain_ms = 0;
    mca_btl_ib_component.params.free_list_max = -1;
    module->super.btl_eager_limit = module->super.btl_max_send_size = 4096;
    module->super.btl_put_limit = BYTES;
    assert_int_equal(btl_ib_frag_lists_init(module), OPAL_SUCCESS);
    assert_int_equal(btl_ib_rdma_init(module), OPAL_SUCCESS);
    return 0;
}

static int set_up_each(void **state)
{
    endpoint = add_peer();
    return 0;
}

static int tear_down_each(void **state)
{
    delete_peer(endpoint);
    return 0;
}

/* The engine sends so much that the call in which it does may take long. Returns when it was last
 * told the time. */
static uint64_t send_much(void)
{
    btl_ib_engine_t *engine = mca_btl_ib_component.engine;

    engine->count.sent_datagrams += MANY;
    assert_true(btl_ib_engine_has_sent_much(engine));
    return engine->clock.now;
}

static void assert_told(uint64_t since)
{
    const btl_ib_engine_t *engine = mca_btl_ib_component.engine;

    assert_false(btl_ib_engine_has_sent_much(engine));
    assert_true(engine->clock.now > since);
}

static void note_sent(mca_btl_base_module_t *btl, btl_ib_endpoint_t *to,
                      mca_btl_base_descriptor_t *des, int status)
{
}

static void note_put(mca_btl_base_module_t *btl, btl_ib_endpoint_t *to, void *local_address,
                     btl_ib_memory_handle_t *local_handle, void *context, void *data, int status)
{
}

TEST_WITH(of_a_send, set_up_each, tear_down_each)
{
    const uint64_t before = send_much();
    mca_btl_base_descriptor_t *des =
        module->super.btl_alloc(&module->super, endpoint, MCA_BTL_NO_ORDER, BYTES,
                                MCA_BTL_DES_FLAGS_BTL_OWNERSHIP | MCA_BTL_DES_SEND_ALWAYS_CALLBACK);

    assert_non_null(des);
    des->des_cbfunc = note_sent;
    assert_true(module->super.btl_send(&module->super, endpoint, des, TAG) >= 0);
    assert_told(before);
}

TEST_WITH(of_a_put, set_up_each, tear_down_each)
{
    const uint64_t before = send_much();
    btl_ib_memory_handle_t handle = {.base = 4096, .key = {.id = 1}, .size = BYTES};

    btl_ib_memory_handle_seal(&handle);
    assert_int_equal(module->super.btl_put(&module->super, endpoint, memory, 4096, NULL, &handle,
                                           BYTES, 0, MCA_BTL_NO_ORDER, note_put, NULL, NULL),
                     OPAL_SUCCESS);
    assert_told(before);
}

TEST_WITH(of_a_progress_call, set_up_each, tear_down_each)
{
    const uint64_t before = send_much();

    (void) btl_ib_run_engine(btl_ib_now());
    assert_told(before);
}

UNIT_MAIN(set_up, NULL)
