/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The way up: what the engine calls. All of it runs with the lock held; it is released around
 * calls into the PML (btl_ib.h says why).
 */

#include "btl_ib_endpoint.h"

#include <stdio.h>
#include <stdlib.h>

#include "btl_ib_frag.h"
#include "btl_ib_modex.h"
#include "btl_ib_diagnostics.h"
#include "btl_ib_loopback.h"

static btl_ib_module_t *module_of(const btl_ib_conn_t *conn)
{
    return mca_btl_ib_component.modules[btl_ib_conn_rail(conn)];
}

static bool lookup(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                   btl_ib_peer_info_t *info)
{
    const btl_ib_component_t *component = context;
    const opal_process_name_t peer = btl_ib_name_unpack(name);
    const btl_ib_modex_rail_t *ours = &component->self->rails[rail];
    btl_ib_modex_t *modex;
    bool fits = false;

    if (name == btl_ib_name_pack(component->name)) {
        return false;
    }
    modex = btl_ib_modex_get(&peer, false);
    if (NULL == modex) {
        return false;
    }
    if (remote_rail < modex->rail_count) {
        const btl_ib_modex_rail_t *theirs = &modex->rails[remote_rail];

        fits = modex->message_max == component->self->message_max
               && modex->guard == component->self->guard && ours->atomics == theirs->atomics
               && btl_ib_modex_fits(component->self, rail, modex, remote_rail, true);
        btl_ib_modex_peer_info(modex, &peer, remote_rail, info);
    }
    free(modex);
    return fits;
}

static void passive(void *context, btl_ib_conn_t *conn)
{
    (void) context;
    BTL_IB_VERBOSE(1, "%s connected to rail %u before it was added",
                   opal_process_name_print(btl_ib_name_unpack(btl_ib_conn_name(conn))),
                   btl_ib_conn_rail(conn));
}

static bool deliverable(void *context, btl_ib_conn_t *conn, uint8_t tag)
{
    (void) context;
    return NULL != module_of(conn) && tag < MCA_BTL_TAG_MAX
           && NULL != mca_btl_base_active_message_trigger[tag].cbfunc;
}

static void deliver(void *context, btl_ib_conn_t *conn, uint8_t tag, void *data, uint32_t size)
{
    mca_btl_base_segment_t segment = {.seg_addr = {.pval = data}, .seg_len = size};
    btl_ib_module_t *module = module_of(conn);
    btl_ib_endpoint_t *endpoint = btl_ib_conn_user(conn);

    /* Without threads nobody can delete the process meanwhile but the callback itself. */
    const bool keep = NULL != endpoint && opal_using_threads();

    (void) context;
    if (keep) {
        OBJ_RETAIN(endpoint);
    }
    btl_ib_unlock();
    btl_ib_compat_deliver(&module->super, endpoint, tag, &segment, 1);
    btl_ib_lock();
    if (keep) {
        OBJ_RELEASE(endpoint);
    }
}

/*
 * The engine is finished with a fragment, and so are we. The endpoint is the one it was sent to:
 * what is not the BTL's may be gone by now, or be on its way to another peer.
 */
static void give_back(btl_ib_frag_t *frag, btl_ib_endpoint_t *endpoint, bool owned)
{
    if (owned) {
        btl_ib_frag_return(frag);
    }
    OBJ_RELEASE(endpoint); /* retained by btl_ib_send() */
}

static void on_sent(void *context, btl_ib_msg_t *msg)
{
    btl_ib_frag_t *frag = btl_ib_frag_of(msg);

    (void) context;
    if (!frag->in_place && 0 != (frag->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP)
        && !frag->endpoint->closing) {
        frag->in_callback = true;
        btl_ib_frag_complete(frag, OPAL_SUCCESS);
        frag->in_callback = false;
        if (frag->done) {
            give_back(frag, frag->endpoint, true);
        }
    }
}

static void on_done(void *context, btl_ib_msg_t *msg, int status)
{
    btl_ib_frag_t *frag = btl_ib_frag_of(msg);
    const bool owned = 0 != (frag->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    btl_ib_endpoint_t *endpoint = frag->endpoint;

    (void) context;
    if (frag->in_callback) {
        /* Further down the stack, or in another thread: the callback still reads the fragment. */
        frag->done = true;
        return;
    }
    if (endpoint->closing) {
        frag->told = true;
    } else if (0 != status && !frag->told && btl_ib_conn_is_dead(endpoint->conn)) {
        /* ob1 aborts at once when a fragment fails: dead() first says what happened. */
        btl_ib_list_push_tail(&endpoint->failed, &frag->failed_link);
        return;
    } else {
        btl_ib_frag_complete(frag, 0 == status ? OPAL_SUCCESS : OPAL_ERR_UNREACH);
    }
    give_back(frag, endpoint, owned);
}

static void op_done(void *context, btl_ib_op_t *op, int status)
{
    (void) context;
    btl_ib_rdma_done(op, status);
}

void btl_ib_endpoint_fail(btl_ib_endpoint_t *endpoint, bool quiet)
{
    btl_ib_list_t *link;

    while (NULL != (link = btl_ib_list_pop(&endpoint->failed))) {
        btl_ib_frag_t *frag = BTL_IB_CONTAINER(link, btl_ib_frag_t, failed_link);
        const bool owned = 0 != (frag->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);

        frag->told = quiet || endpoint->closing;
        btl_ib_frag_complete(frag, OPAL_ERR_UNREACH);
        give_back(frag, endpoint, owned);
    }
    btl_ib_rdma_fail(endpoint, quiet);
}

/* A peer that was added is dead: say so, then give back what was on the way to it. */
static void mourn(btl_ib_endpoint_t *endpoint, btl_ib_death_t reason)
{
    mca_btl_base_module_error_cb_fn_t error_cb = endpoint->module->error_cb;

    endpoint->dead = true;
    btl_ib_report_lost(endpoint, reason);
    OBJ_RETAIN(endpoint); /* another thread may delete the process meanwhile */
    if (NULL != error_cb) {
        btl_ib_unlock();
        error_cb(&endpoint->module->super, MCA_BTL_ERROR_FLAGS_FATAL, endpoint->proc,
                 (char *) "btl ib lost a peer");
        btl_ib_lock();
    }
    btl_ib_endpoint_fail(endpoint, false);
    OBJ_RELEASE(endpoint);
}

/*
 * While we take leave, somebody whose host says that he is gone has left before us, most likely: that is
 * no news unless MPI goes on afterwards.
 */
static void put_off(btl_ib_endpoint_t *endpoint)
{
    btl_ib_list_push_tail(&mca_btl_ib_component.departed, &endpoint->departed_link);
}

void btl_ib_endpoint_mourn_departed(uint64_t now)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_list_t *link;

    while (0 == component->draining && now - component->drain_ended > BTL_IB_DRAIN_GAP
           && NULL != (link = btl_ib_list_pop(&component->departed))) {
        mourn(BTL_IB_CONTAINER(link, btl_ib_endpoint_t, departed_link), BTL_IB_DEATH_REFUSED);
    }
}

static void dead(void *context, btl_ib_conn_t *conn, btl_ib_death_t reason)
{
    const btl_ib_component_t *component = context;
    btl_ib_endpoint_t *endpoint = btl_ib_conn_user(conn);

    if (NULL != endpoint && !endpoint->dead && !endpoint->closing) {
        if (component->draining > 0 && BTL_IB_DEATH_REFUSED == reason) {
            put_off(endpoint);
        } else {
            mourn(endpoint, reason);
        }
        return;
    }
    BTL_IB_VERBOSE(1, "connection with %s on rail %u ends: %s",
                   opal_process_name_print(btl_ib_name_unpack(btl_ib_conn_name(conn))),
                   btl_ib_conn_rail(conn), btl_ib_death_string(reason));
    if (NULL == endpoint) { /* never added: nobody else will */
        btl_ib_self_forget(conn);
        btl_ib_conn_destroy(conn, btl_ib_now());
    } else {
        btl_ib_endpoint_fail(endpoint, true);
    }
}

static void unanswered(void *context, btl_ib_conn_t *conn, bool heard)
{
    const btl_ib_endpoint_t *endpoint = btl_ib_conn_user(conn);

    (void) context;
    if (NULL != endpoint && !endpoint->closing) {
        btl_ib_report_unanswered(endpoint, heard);
    }
}

static void black_hole(void *context, btl_ib_conn_t *conn, uint32_t lost, uint32_t most,
                       uint32_t carries)
{
    (void) context;
    btl_ib_report_hole(conn, lost, most, carries);
}

/* The device of a rail is gone: say so, whether or not anybody is lost with it. While MPI_Finalize
 * takes leave the rail has no module any more. */
static void rail_failed(void *context, uint32_t rail, int error, uint32_t moved, uint32_t left)
{
    const btl_ib_component_t *component = context;
    const char *name = btl_ib_engine_rail_name(component->engine, rail);
    char our_rank[16];
    char went_on[16];
    char ended[16];
    char address[64];

    snprintf(our_rank, sizeof(our_rank), "%u", component->name.vpid);
    snprintf(went_on, sizeof(went_on), "%u", moved);
    snprintf(ended, sizeof(ended), "%u", left);
    btl_ib_report_own_address(rail, address, sizeof(address));
    if (!btl_ib_show_help("device failed", our_rank, opal_process_info.nodename, name, address,
                          strerror(error), went_on, ended)) {
        opal_output(0,
                    "btl:ib: rank %s on host %s: device %s failed: %s; %s connections go on by "
                    "others, %s are lost",
                    our_rank, opal_process_info.nodename, name, strerror(error), went_on, ended);
    }
}

static void *zalloc(void *context, size_t size)
{
    (void) context;
    return calloc(1, size);
}

static void release(void *context, void *memory)
{
    (void) context;
    free(memory);
}

const btl_ib_engine_ops_t btl_ib_engine_ops = {
    .lookup = lookup,
    .passive = passive,
    .deliverable = deliverable,
    .deliver = deliver,
    .on_sent = on_sent,
    .on_done = on_done,
    .op_done = op_done,
    .dead = dead,
    .unanswered = unanswered,
    .black_hole = black_hole,
    .rail_failed = rail_failed,
    .zalloc = zalloc,
    .free = release,
};
