/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Receiving: the functions that the engine calls. All of them run with the lock held; calls into
 * the PML and questions to the runtime release it (btl_ib.h says why).
 */

#include "btl_ib.h"

#include <stdlib.h>

#include "btl_ib_endpoint.h"
#include "btl_ib_frag.h"
#include "btl_ib_modex.h"
#include "btl_ib_rail_match.h"

/* Fills in *info with rail `remote_rail` of what a process published. Returns whether that rail can
 * be connected with rail `rail` of ours. */
static bool describe_rail(const btl_ib_component_t *component, const btl_ib_modex_t *peer,
                          uint64_t name, uint32_t rail, uint32_t remote_rail,
                          btl_ib_peer_info_t *info)
{
    const opal_process_name_t process = btl_ib_name_unpack(name);
    const btl_ib_modex_t *self = component->self;

    if (remote_rail >= peer->rail_count) {
        return false;
    }
    btl_ib_modex_peer_info(peer, &process, remote_rail, info);
    return btl_ib_modex_params_fit(self, peer)
           && self->rails[rail].atomics == peer->rails[remote_rail].atomics
           && btl_ib_rails_fit(self, rail, peer, remote_rail);
}

/* Looks up an unknown process, and what it published, in the runtime. */
static bool lookup_peer(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                        btl_ib_peer_info_t *info)
{
    btl_ib_component_t *component = context;
    const opal_process_name_t peer = btl_ib_name_unpack(name);
    btl_ib_modex_t *modex;
    bool fits;

    if (name == btl_ib_name_pack(component->name)) {
        return false;
    }
    btl_ib_unlock(); /* the runtime may take its time */
    modex = btl_ib_modex_get(&peer, false);
    btl_ib_lock();
    if (modex == NULL) {
        return false;
    }
    btl_ib_modex_forget(&component->known, name); /* the process may have restarted */
    fits = describe_rail(component, modex, name, rail, remote_rail, info);
    if (fits) {
        btl_ib_modex_keep(&component->known, name, modex); /* until it is added, at least */
    }
    free(modex);
    return fits;
}

/* Looks up a process in what is kept here, without asking the runtime. */
static bool recall_peer(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                        btl_ib_peer_info_t *info)
{
    btl_ib_component_t *component = context;
    btl_ib_modex_t *modex = btl_ib_modex_recall(&component->known, name);
    const bool fits =
        modex != NULL && describe_rail(component, modex, name, rail, remote_rail, info);

    free(modex);
    return fits;
}

/* At most this many pairs of rails with one process are tried at once. */
#define TRIES_MAX 64

/* What try_alternatives() needs: malloced, as stacks may be short. */
typedef struct tries {
    btl_ib_rail_pair_t pairs[TRIES_MAX];
    btl_ib_peer_info_t info;
} tries_t;

/* Connects all other pairs of rails with the peer, as nothing arrives over the chosen pair. */
static void try_alternatives(void *context, btl_ib_conn_t *conn)
{
    btl_ib_component_t *component = context;
    const opal_process_name_t name = btl_ib_name_unpack(btl_ib_conn_name(conn));
    btl_ib_modex_t *peer = btl_ib_modex_recall(&component->known, btl_ib_conn_name(conn));
    tries_t *tries = peer != NULL ? malloc(sizeof(*tries)) : NULL;
    uint32_t count = 0;
    uint32_t tried = 0;

    if (tries != NULL) {
        count = btl_ib_rails_rank(component->self, peer, tries->pairs, TRIES_MAX);
    }
    for (uint32_t i = 0; i < count; ++i) {
        btl_ib_modex_peer_info(peer, &name, tries->pairs[i].theirs, &tries->info);
        tried += btl_ib_conn_try(component->engine, tries->pairs[i].ours, &tries->info) == 0;
    }
    BTL_IB_VERBOSE(1, "%s does not answer by rail %u: %u other pairs of addresses are tried",
                   opal_process_name_print(name), btl_ib_conn_rail(conn), tried);
    free(tries);
    free(peer);
}

static void log_passive(void *context, btl_ib_conn_t *conn)
{
    (void) context;
    BTL_IB_VERBOSE(1, "%s connected to rail %u before it was added",
                   opal_process_name_print(btl_ib_name_unpack(btl_ib_conn_name(conn))),
                   btl_ib_conn_rail(conn));
}

static bool is_deliverable(void *context, const btl_ib_conn_t *conn, uint8_t tag)
{
    const btl_ib_component_t *component = context;

    return component->modules[btl_ib_conn_rail(conn)] != NULL && tag < MCA_BTL_TAG_MAX
           && mca_btl_base_active_message_trigger[tag].cbfunc != NULL;
}

/* Delivers a message to the callback of its tag. The message may have waited since
 * is_deliverable() was asked; if its module was finalized meanwhile, or its tag unregistered, it is
 * dropped. */
static void deliver_message(void *context, btl_ib_conn_t *conn, uint8_t tag, void *data,
                            uint32_t size)
{
    const btl_ib_component_t *component = context;
    mca_btl_base_segment_t segment = {.seg_addr = {.pval = data}, .seg_len = size};
    btl_ib_module_t *module = component->modules[btl_ib_conn_rail(conn)];
    btl_ib_endpoint_t *endpoint = btl_ib_conn_user(conn);

    const bool threads = opal_using_threads();
    /* Another thread may delete the process while the callback uses the endpoint. */
    const bool keep = endpoint != NULL && threads;

    if (OPAL_UNLIKELY(module == NULL || mca_btl_base_active_message_trigger[tag].cbfunc == NULL)) {
        return;
    }
    if (keep) {
        OBJ_RETAIN(endpoint);
    }
    if (threads) { /* another thread may enter the engine before this callback returns */
        btl_ib_engine_account(component->engine);
    }
    btl_ib_unlock();
    btl_ib_ompi_deliver(&module->super, endpoint, tag, &segment, 1);
    btl_ib_lock();
    if (keep) {
        OBJ_RELEASE(endpoint);
    }
}

static void on_sent(void *context, btl_ib_msg_t *msg)
{
    (void) context;
    btl_ib_frag_sent(btl_ib_frag_of(msg));
}

static void on_done(void *context, btl_ib_msg_t *msg, int status)
{
    (void) context;
    btl_ib_frag_done(btl_ib_frag_of(msg), status);
}

static void op_done(void *context, btl_ib_op_t *op, int status)
{
    (void) context;
    btl_ib_rdma_done(op, status);
}

static bool is_reachable(void *context, const btl_ib_conn_t *conn)
{
    const btl_ib_endpoint_t *endpoint = btl_ib_conn_user(conn);

    (void) context;
    return endpoint != NULL && btl_ib_endpoint_is_reachable(endpoint, UINT64_MAX);
}

/* ---- the trace ---- */

static void trace_event(void *context, const btl_ib_trace_event_t *event)
{
    const btl_ib_component_t *component = context;

    btl_ib_trace_file_add(component->trace, event, btl_ib_now_ns());
}

/* ---- memory ---- */

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
    .lookup = lookup_peer,
    .recall = recall_peer,
    .passive = log_passive,
    .deliverable = is_deliverable,
    .deliver = deliver_message,
    .on_sent = on_sent,
    .on_done = on_done,
    .op_done = op_done,
    .dead = btl_ib_failures_dead,
    .alternatives = try_alternatives,
    .unanswered = btl_ib_failures_unanswered,
    .is_reachable = is_reachable,
    .unsent = btl_ib_failures_unsent,
    .silent = btl_ib_failures_silent,
    .moved_unanswered = btl_ib_failures_moved_unanswered,
    .slow_rail = btl_ib_failures_slow_rail,
    .black_hole = btl_ib_failures_black_hole,
    .gso_lost = btl_ib_failures_gso_lost,
    .rail_failed = btl_ib_failures_rail_failed,
    .trace = trace_event,
    .zalloc = zalloc,
    .free = release,
};
