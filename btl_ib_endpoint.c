/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Processes come and go: add_procs and del_procs.
 */

#include "btl_ib_endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "btl_ib_modex.h"
#include "btl_ib_loopback.h"

/* Pause between two looks while a drain waits for the network, us. */
#define DRAIN_PAUSE 50

static void endpoint_constructor(btl_ib_endpoint_t *endpoint)
{
    endpoint->module = NULL;
    endpoint->proc = NULL;
    endpoint->conn = NULL;
    endpoint->remote_rail = 0;
    endpoint->first_rail = 0;
    endpoint->first_remote = 0;
    endpoint->answers = false;
    endpoint->dead = false;
    endpoint->told_refused = false;
    endpoint->told_lost = false;
    endpoint->closing = false;
    btl_ib_list_init(&endpoint->failed);
    btl_ib_list_init(&endpoint->failed_rdmas);
    btl_ib_list_init(&endpoint->departed_link);
}

OBJ_CLASS_INSTANCE(btl_ib_endpoint_t, opal_list_item_t, endpoint_constructor, NULL);

/* Make the connection of a new endpoint, or take over the one that the peer made. */
static int connect_endpoint(btl_ib_endpoint_t *endpoint, const btl_ib_modex_t *peer)
{
    btl_ib_engine_t *engine = mca_btl_ib_component.engine;
    const uint32_t rail = endpoint->module->rail;
    btl_ib_peer_info_t info;

    btl_ib_modex_peer_info(peer, &endpoint->proc->proc_name, endpoint->remote_rail, &info);
    endpoint->conn = btl_ib_conn_find(engine, rail, info.name, info.rail);
    if (NULL != endpoint->conn) {
        btl_ib_conn_adopt(endpoint->conn, endpoint);
        return 0;
    }
    return btl_ib_conn_create(engine, rail, &info, endpoint, &endpoint->conn);
}

/* Do limits and protection agree? Says once of each if they do not. */
static bool agrees(const struct opal_proc_t *proc, const btl_ib_modex_t *peer)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const btl_ib_modex_t *self = component->self;

    if (peer->message_max != self->message_max) {
        if (!component->told_limits) {
            component->told_limits = true;
            btl_ib_report_limits(proc, peer);
        }
        return false;
    }
    if (peer->guard != self->guard) {
        if (!component->told_guard) {
            component->told_guard = true;
            btl_ib_report_protection(proc, peer);
        }
        return false;
    }
    return true;
}

/* Without a rail in common another BTL, if there is one, will do, and nobody would know why. */
static void tell_no_network(const struct opal_proc_t *proc, const btl_ib_modex_t *peer,
                            const int choice[BTL_IB_RAILS_MAX])
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    for (uint32_t i = 0; i < component->self->rail_count; ++i) {
        if (choice[i] >= 0) {
            return;
        }
    }
    if (!component->told_network) {
        component->told_network = true;
        btl_ib_report_no_network(proc, peer);
    }
}

/* Do both ends leave the changing of words to the same? */
static bool agree_on_atomics(uint32_t rail, const btl_ib_modex_t *peer, int remote_rail)
{
    return mca_btl_ib_component.self->rails[rail].atomics == peer->rails[remote_rail].atomics;
}

/* The same; says so once if they do not. */
static bool same_atomics(const btl_ib_module_t *module, const struct opal_proc_t *proc,
                         const btl_ib_modex_t *peer, int remote_rail)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    if (agree_on_atomics(module->rail, peer, remote_rail)) {
        return true;
    }
    if (!component->told_atomics) {
        component->told_atomics = true;
        btl_ib_report_atomics(module, proc, peer, remote_rail);
    }
    return false;
}

/* The rail of the peer that this module shall talk to, or -1, and why not; `choice`: that of each module. */
static int choose_rail(const btl_ib_module_t *module, const struct opal_proc_t *proc,
                       const btl_ib_modex_t *peer, int choice[BTL_IB_RAILS_MAX])
{
    const btl_ib_modex_t *self = mca_btl_ib_component.self;
    const bool same_host = OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags);

    if (!agrees(proc, peer)) {
        return -1;
    }
    btl_ib_modex_match(self, peer, same_host, choice);
    if (choice[module->rail] < 0) {
        BTL_IB_VERBOSE(10, "%s on %s is not reachable by rail %u (%s): none of its %u rails fits",
                       opal_process_name_print(proc->proc_name), peer->host, module->rail,
                       module->name, peer->rail_count);
        tell_no_network(proc, peer, choice);
    } else if (!same_atomics(module, proc, peer, choice[module->rail])) {
        return -1;
    }
    return choice[module->rail];
}

/* The first rail that reaches the peer; there is one. */
static uint32_t first_rail(const btl_ib_modex_t *peer, const int choice[BTL_IB_RAILS_MAX])
{
    uint32_t i = 0;

    while (choice[i] < 0 || !agree_on_atomics(i, peer, choice[i])) {
        ++i;
    }
    return i;
}

/* Does a BTL for shared memory take what is for processes of this host? */
static bool shared_memory_selected(const btl_ib_module_t *module)
{
    mca_btl_base_selected_module_t *each;

    OPAL_LIST_FOREACH(each, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        if (0 == strcmp(each->btl_component->btl_version.mca_component_name, BTL_IB_SHARED_MEMORY)
            && each->btl_module->btl_exclusivity >= module->super.btl_exclusivity) {
            return true;
        }
    }
    return false;
}

/* Whoever has several processes on a host wants shared memory there, and may not know that it has
 * to be named. */
static void tell_local(const btl_ib_module_t *module, const struct opal_proc_t *proc)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    if (component->told_local || !OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags)
        || shared_memory_selected(module)) {
        return;
    }
    component->told_local = true;
    BTL_IB_VERBOSE(1,
                   "messages to processes of this host (as %s) go by ib, as no BTL for shared "
                   "memory is selected: --mca btl ib," BTL_IB_SHARED_MEMORY ",self is faster there",
                   opal_process_name_print(proc->proc_name));
}

/* An endpoint for `proc`, or NULL if this module cannot reach it. */
static btl_ib_endpoint_t *add_proc(btl_ib_module_t *module, struct opal_proc_t *proc,
                                   const btl_ib_modex_t *peer)
{
    int choice[BTL_IB_RAILS_MAX];
    const int remote_rail = choose_rail(module, proc, peer, choice);
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_endpoint_t *endpoint;
    btl_ib_conn_t *conn;
    int rc;

    if (remote_rail < 0) {
        return NULL;
    }
    conn = btl_ib_conn_find(component->engine, module->rail, btl_ib_name_pack(proc->proc_name),
                            (uint32_t) remote_rail);
    if (NULL != conn && NULL != btl_ib_conn_user(conn)) {
        return btl_ib_conn_user(conn);
    }
    endpoint = OBJ_NEW(btl_ib_endpoint_t);
    if (NULL == endpoint) {
        return NULL;
    }
    endpoint->module = module;
    endpoint->proc = proc;
    endpoint->remote_rail = (uint32_t) remote_rail;
    endpoint->first_rail = first_rail(peer, choice);
    endpoint->first_remote = (uint32_t) choice[endpoint->first_rail];
    snprintf(endpoint->host, sizeof(endpoint->host), "%s", peer->host);
    snprintf(component->adding, sizeof(component->adding), "rank %u on host %s",
             proc->proc_name.vpid, peer->host);
    rc = connect_endpoint(endpoint, peer);
    component->adding[0] = '\0';
    if (0 != rc) {
        BTL_IB_VERBOSE(1, "%s on %s is not reachable by rail %u (%s): %s",
                       opal_process_name_print(proc->proc_name), peer->host, module->rail,
                       module->name, strerror(-rc));
        OBJ_RELEASE(endpoint);
        return NULL;
    }
    endpoint->answers = peer->answers;
    if (!btl_ib_conn_address_text(endpoint->conn, endpoint->address, sizeof(endpoint->address))) {
        btl_ib_modex_ip_text(&peer->rails[remote_rail], endpoint->address,
                             sizeof(endpoint->address));
    }
    opal_list_append(&module->endpoints, &endpoint->super);
    ++component->endpoint_count;
    btl_ib_ended_added(&component->ended, btl_ib_name_pack(proc->proc_name));
    BTL_IB_VERBOSE(1, "peer %s on %s: rail %u (%s) talks to its rail %d (%s)%s",
                   opal_process_name_print(proc->proc_name), peer->host, module->rail, module->name,
                   remote_rail, endpoint->address,
                   NULL != conn ? ", it had connected already" : "");
    tell_local(module, proc);
    return endpoint;
}

/* The same, of a process whose data must be fetched first. */
static btl_ib_endpoint_t *add_peer(btl_ib_module_t *module, struct opal_proc_t *proc)
{
    /* May wait for the runtime, so without the lock. */
    btl_ib_modex_t *peer = btl_ib_modex_get(&proc->proc_name, true);
    btl_ib_endpoint_t *endpoint;

    if (NULL == peer) {
        return NULL;
    }
    btl_ib_lock();
    endpoint = add_proc(module, proc, peer);
    btl_ib_unlock();
    free(peer);
    return endpoint;
}

/* Does another BTL poll in the same loop as we, and want its share of it? */
static bool others_poll(void)
{
    const mca_btl_base_component_t *own = &mca_btl_ib_component.super;
    mca_btl_base_selected_module_t *each;

    OPAL_LIST_FOREACH(each, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        if (own != each->btl_component && NULL != each->btl_component->btl_progress) {
            return true;
        }
    }
    return false;
}

btl_ib_endpoint_t *btl_ib_endpoint_of_pieces(btl_ib_endpoint_t *endpoint)
{
    btl_ib_conn_t *conn;
    btl_ib_endpoint_t *first;

    if (OPAL_LIKELY(endpoint->first_rail == endpoint->module->rail)) {
        return endpoint;
    }
    conn = btl_ib_conn_find(mca_btl_ib_component.engine, endpoint->first_rail,
                            btl_ib_conn_name(endpoint->conn), endpoint->first_remote);
    first = NULL != conn ? btl_ib_conn_user(conn) : NULL;
    return NULL != first && !first->closing && !first->dead ? first : endpoint;
}

int btl_ib_add_procs(mca_btl_base_module_t *btl, size_t nprocs, struct opal_proc_t **procs,
                     struct mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    btl_ib_lock();
    mca_btl_ib_component.pace.alone = !others_poll();
    btl_ib_unlock();
    for (size_t i = 0; i < nprocs; ++i) {
        if (procs[i] == opal_proc_local_get()) {
            btl_ib_lock();
            endpoints[i] = btl_ib_self_endpoint((btl_ib_module_t *) btl, procs[i]);
            btl_ib_unlock();
        } else {
            endpoints[i] = add_peer((btl_ib_module_t *) btl, procs[i]);
        }
        if (NULL != endpoints[i] && NULL != reachable) {
            opal_bitmap_set_bit(reachable, (int) i);
        }
    }
    return OPAL_SUCCESS;
}

/*
 * Drains that follow each other closely are one farewell and share one bound: bml r2 deletes
 * processes one by one.
 */
static uint64_t drain_begin(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const uint64_t bound = (uint64_t) component->params.drain_ms * 1000;
    const uint64_t now = btl_ib_now();

    ++component->draining;
    if (now - component->drain_ended > BTL_IB_DRAIN_GAP) {
        component->drain_started = now;
    }
    return component->drain_started + bound;
}

static void drain_end(void)
{
    --mca_btl_ib_component.draining;
    mca_btl_ib_component.drain_ended = btl_ib_now();
}

/* Let the engine work once, and the processor rest if there was nothing to do. Returns whether
 * there is time left. */
static bool drain_poll(uint64_t deadline)
{
    const uint64_t now = btl_ib_now();

    if (now >= deadline) {
        return false;
    }
    (void) btl_ib_pace_due(&mca_btl_ib_component.pace, btl_ib_now);
    if (0 == btl_ib_turn(now)) {
        btl_ib_unlock();
        usleep(DRAIN_PAUSE);
        btl_ib_lock();
    }
    return true;
}

void btl_ib_linger(void)
{
    const uint64_t deadline = drain_begin();

    while (btl_ib_engine_lingering(mca_btl_ib_component.engine) && drain_poll(deadline)) {
        continue;
    }
    drain_end();
}

static bool all_drained(struct mca_btl_base_endpoint_t **endpoints, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (NULL != endpoints[i] && NULL != endpoints[i]->conn
            && !btl_ib_conn_drained(endpoints[i]->conn)) {
            return false;
        }
    }
    return true;
}

int btl_ib_del_procs(mca_btl_base_module_t *btl, size_t nprocs, struct opal_proc_t **procs,
                     struct mca_btl_base_endpoint_t **endpoints)
{
    btl_ib_module_t *module = (btl_ib_module_t *) btl;
    uint64_t deadline;

    (void) procs;
    btl_ib_lock();
    deadline = drain_begin();
    for (size_t i = 0; i < nprocs; ++i) {
        if (NULL != endpoints[i]) {
            endpoints[i]->closing = true;
            if (NULL != endpoints[i]->conn) {
                btl_ib_conn_drain(endpoints[i]->conn);
            }
        }
    }
    while (!all_drained(endpoints, nprocs) && drain_poll(deadline)) {
        continue;
    }
    for (size_t i = 0; i < nprocs; ++i) {
        if (NULL != endpoints[i]) {
            btl_ib_endpoint_remove(module, endpoints[i]);
        }
    }
    drain_end();
    if (0 == mca_btl_ib_component.endpoint_count) {
        btl_ib_linger();
    }
    btl_ib_unlock();
    return OPAL_SUCCESS;
}

void btl_ib_endpoint_remove(btl_ib_module_t *module, btl_ib_endpoint_t *endpoint)
{
    endpoint->closing = true;
    if (NULL != endpoint->conn) {
        btl_ib_conn_destroy(endpoint->conn, btl_ib_now());
    } else {
        btl_ib_self_leave(module);
    }
    btl_ib_list_remove(&endpoint->departed_link);
    btl_ib_endpoint_fail(endpoint, true);
    opal_list_remove_item(&module->endpoints, &endpoint->super);
    --mca_btl_ib_component.endpoint_count;
    OBJ_RELEASE(endpoint);
}
