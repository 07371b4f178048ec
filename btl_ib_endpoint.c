/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_modex.h"
#include "btl_ib_rail_match.h"

#define ONE_SIDED (MCA_BTL_FLAGS_RDMA | MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS)

static void endpoint_constructor(btl_ib_endpoint_t *endpoint)
{
    memset((char *) endpoint + sizeof(endpoint->super), 0,
           sizeof(*endpoint) - sizeof(endpoint->super));
    btl_ib_list_init(&endpoint->failed_frags);
    btl_ib_list_init(&endpoint->failed_ops);
    btl_ib_list_init(&endpoint->gone_link);
    btl_ib_list_init(&endpoint->host_link);
}

OBJ_CLASS_INSTANCE(btl_ib_endpoint_t, opal_list_item_t, endpoint_constructor, NULL);

/* ---- which rails ---- */

/* True if the same executes atomics at both ends: processors or devices. */
static bool agree_on_atomics(uint32_t rail, const btl_ib_modex_t *peer, int remote_rail)
{
    return mca_btl_ib_component.self->rails[rail].atomics == peer->rails[remote_rail].atomics;
}

/* Returns the rail of the peer that this module is to talk to; -1: none, and the user was told why.
 * Fills in `choice`, the same for each of our rails. */
static int choose_rail(const btl_ib_module_t *module, const struct opal_proc_t *proc,
                       const btl_ib_modex_t *peer, int choice[BTL_IB_RAILS_MAX])
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const btl_ib_modex_t *self = component->self;
    const uint32_t rank = proc->proc_name.vpid;
    bool any = false;
    int remote_rail;

    if (!btl_ib_modex_versions_fit(self, peer)) {
        btl_ib_report_versions_differ(&component->reports, peer, rank);
        return -1;
    }
    if (peer->message_max != self->message_max) {
        btl_ib_report_limits_differ(&component->reports, peer, rank);
        return -1;
    }
    if (peer->protection != self->protection) {
        btl_ib_report_protection_differs(&component->reports, peer, rank);
        return -1;
    }
    btl_ib_rails_match(self, peer, OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags), choice);
    remote_rail = choice[module->rail];
    if (remote_rail < 0) {
        BTL_IB_VERBOSE(10, "%s on %s is not reachable by rail %u (%s): none of its %u rails fits",
                       opal_process_name_print(proc->proc_name), peer->host, module->rail,
                       module->name, peer->rail_count);
        for (uint32_t i = 0; i < BTL_IB_RAILS_MAX; ++i) {
            any |= choice[i] >= 0;
        }
        if (!any) { /* another BTL may serve the peer silently: say why ib does not */
            btl_ib_report_no_network(&component->reports, peer, rank);
        }
    } else if (!agree_on_atomics(module->rail, peer, remote_rail)) {
        btl_ib_report_atomics_differ(&component->reports, peer, rank, module->rail, module->name,
                                     (uint32_t) remote_rail);
        return -1;
    }
    return remote_rail;
}

/* Notes how many of our rails reach the peer, and the first pair of rails. */
static void note_rails(btl_ib_endpoint_t *endpoint, const btl_ib_modex_t *peer,
                       const int choice[BTL_IB_RAILS_MAX])
{
    for (uint32_t i = BTL_IB_RAILS_MAX; i-- > 0;) {
        if (choice[i] >= 0 && agree_on_atomics(i, peer, choice[i])) {
            ++endpoint->rails;
            endpoint->first_rail = i;
            endpoint->first_remote = (uint32_t) choice[i];
        }
    }
}

/* ---- hosts ---- */

/* A host of which at least one process was added; in the component's table `hosts`. */
typedef struct host {
    btl_ib_list_t endpoints;
} host_t;

static bool is_known(const btl_ib_host_t *where)
{
    return where->machine != 0 && where->network != 0;
}

static bool is_same_host(const btl_ib_host_t *a, const btl_ib_host_t *b)
{
    return is_known(a) && a->machine == b->machine && a->network == b->network;
}

/* Returns a host; NULL: no process of it is added. */
static host_t *find_host(const btl_ib_host_t *where)
{
    void *host = NULL;

    (void) opal_hash_table_get_value_ptr(&mca_btl_ib_component.hosts, where, sizeof(*where), &host);
    return host;
}

/* Enters the endpoint with its host, if that is known. Returns false if memory is short. */
static bool enter_host(btl_ib_endpoint_t *endpoint, const btl_ib_host_t *where)
{
    host_t *host = find_host(where);

    endpoint->where = *where;
    if (!is_known(where)) {
        return true;
    }
    if (host == NULL) {
        host = malloc(sizeof(*host));
        if (host == NULL) {
            return false;
        }
        btl_ib_list_init(&host->endpoints);
        if (opal_hash_table_set_value_ptr(&mca_btl_ib_component.hosts, where, sizeof(*where), host)
            != OPAL_SUCCESS) {
            free(host);
            return false;
        }
    }
    btl_ib_list_push_tail(&host->endpoints, &endpoint->host_link);
    return true;
}

static void leave_host(btl_ib_endpoint_t *endpoint)
{
    const btl_ib_host_t *where = &endpoint->where;
    host_t *host = find_host(where);

    btl_ib_list_remove(&endpoint->host_link);
    if (host != NULL && btl_ib_list_empty(&host->endpoints)) {
        opal_hash_table_remove_value_ptr(&mca_btl_ib_component.hosts, where, sizeof(*where));
        free(host);
    }
}

/* Asks for an answer of another process, as a datagram that was received proves too little: a
 * firewall may drop one direction only. */
bool btl_ib_endpoint_is_reachable(const btl_ib_endpoint_t *endpoint, uint64_t within)
{
    const btl_ib_diagnosis_t diagnosis = btl_ib_conn_diagnosis(endpoint->conn);
    const host_t *host = find_host(&endpoint->where);

    if (diagnosis.said != 0 || diagnosis.unsent != 0) {
        return false;
    }
    if (is_same_host(&endpoint->where, &mca_btl_ib_component.self->where)) {
        return true;
    }
    if (host == NULL) {
        return false;
    }
    BTL_IB_LIST_FOREACH (const btl_ib_endpoint_t, other, &host->endpoints, host_link) {
        if (other->proc != endpoint->proc && other->conn != NULL
            && !btl_ib_conn_is_dead(other->conn) && btl_ib_conn_diagnosis(other->conn).answered
            && (within == UINT64_MAX || btl_ib_conn_answered_ago(other->conn) < within)) {
            return true;
        }
    }
    return false;
}

/* ---- adding ---- */

static btl_ib_endpoint_t *make_endpoint(btl_ib_module_t *module, struct opal_proc_t *proc,
                                        const char *host)
{
    btl_ib_endpoint_t *endpoint = OBJ_NEW(btl_ib_endpoint_t);

    if (endpoint != NULL) {
        endpoint->module = module;
        endpoint->proc = proc;
        snprintf(endpoint->host, sizeof(endpoint->host), "%s", host);
    }
    return endpoint;
}

/* Gives a new endpoint its connection: `conn`, which the peer opened, or a new one if that is NULL.
 * Returns 0 or a negative errno. */
static int connect_endpoint(btl_ib_endpoint_t *endpoint, const btl_ib_modex_t *peer,
                            btl_ib_conn_t *conn)
{
    const uint32_t rank = endpoint->proc->proc_name.vpid;
    btl_ib_peer_info_t info;
    char adding[96];
    int rc;

    if (conn != NULL) {
        endpoint->conn = conn;
        btl_ib_conn_adopt(conn, endpoint);
        return 0;
    }
    btl_ib_modex_peer_info(peer, &endpoint->proc->proc_name, endpoint->remote_rail, &info);
    rc = btl_ib_conn_create(mca_btl_ib_component.engine, endpoint->module->rail, &info, endpoint,
                            &endpoint->conn);
    snprintf(adding, sizeof(adding), "rank %u on host %s", rank, peer->host);
    btl_ib_endpoint_show_diagnostics(adding);
    return rc;
}

/* Keeps what a process published until it is removed, if there are several pairs of rails: others
 * may have to be tried in mid-job. With one rail at each end there is no other pair. */
static void keep_known(uint64_t name, const btl_ib_modex_t *peer)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    if (component->self->rail_count > 1 || peer->rail_count > 1) {
        btl_ib_modex_keep(&component->known, name, peer);
    } else {
        btl_ib_modex_forget(&component->known, name); /* kept while the process was unknown */
    }
}

/* Adds an endpoint. Not inlined: its caller asks the runtime for `peer`, which needs 6 KiB of stack
 * by itself. */
__attribute__((noinline)) btl_ib_endpoint_t *btl_ib_endpoint_add(btl_ib_module_t *module,
                                                                 struct opal_proc_t *proc,
                                                                 const btl_ib_modex_t *peer,
                                                                 btl_ib_endpoint_t **leaving)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const uint64_t name = btl_ib_name_pack(proc->proc_name);
    int choice[BTL_IB_RAILS_MAX];
    const int remote_rail = choose_rail(module, proc, peer, choice);
    btl_ib_endpoint_t *endpoint;
    btl_ib_conn_t *conn;
    int rc;

    *leaving = NULL;
    if (remote_rail < 0) {
        return NULL;
    }
    conn = btl_ib_conn_find(component->engine, module->rail, name, (uint32_t) remote_rail);
    endpoint = conn != NULL ? btl_ib_conn_user(conn) : NULL;
    if (endpoint != NULL && endpoint->closing) {
        *leaving = endpoint;
        return NULL;
    }
    if (endpoint != NULL) {
        return endpoint;
    }
    endpoint = make_endpoint(module, proc, peer->host);
    if (endpoint == NULL) {
        return NULL;
    }
    endpoint->remote_rail = (uint32_t) remote_rail;
    note_rails(endpoint, peer, choice);
    endpoint->answers = peer->answers;
    rc = enter_host(endpoint, &peer->where) ? connect_endpoint(endpoint, peer, conn) : -ENOMEM;
    if (rc != 0) {
        leave_host(endpoint);
        BTL_IB_VERBOSE(1, "%s on %s is not reachable by rail %u (%s): %s",
                       opal_process_name_print(proc->proc_name), peer->host, module->rail,
                       module->name, strerror(-rc));
        OBJ_RELEASE(endpoint);
        return NULL;
    }
    if (!btl_ib_conn_address_text(endpoint->conn, endpoint->address, sizeof(endpoint->address))) {
        btl_ib_modex_ip_text(&peer->rails[remote_rail], endpoint->address,
                             sizeof(endpoint->address));
    }
    opal_list_append(&module->endpoints.all, &endpoint->super);
    keep_known(name, peer);
    btl_ib_ompi_failures_added(name);
    BTL_IB_VERBOSE(1, "peer %s on %s: rail %u (%s) talks to its rail %d (%s)%s",
                   opal_process_name_print(proc->proc_name), peer->host, module->rail, module->name,
                   remote_rail, endpoint->address,
                   conn != NULL ? ", by the connection that there was" : "");
    return endpoint;
}

/* ---- expecting ---- */

void btl_ib_endpoint_expect(const opal_process_name_t *name, const btl_ib_modex_t *peer)
{
    const btl_ib_component_t *component = &mca_btl_ib_component;
    const btl_ib_modex_t *self = component->self;
    const uint64_t packed = btl_ib_name_pack(*name);
    int choice[BTL_IB_RAILS_MAX];

    if (!btl_ib_modex_versions_fit(self, peer) || !btl_ib_modex_params_fit(self, peer)) {
        return; /* add_procs will say why */
    }
    keep_known(packed, peer);
    btl_ib_rails_match(self, peer, false, choice);
    for (uint32_t i = 0; i < component->module_count; ++i) {
        btl_ib_peer_info_t info;
        btl_ib_conn_t *conn;
        int rc;

        if (choice[i] < 0 || component->modules[i] == NULL || !agree_on_atomics(i, peer, choice[i])
            || btl_ib_conn_find(component->engine, i, packed, (uint32_t) choice[i]) != NULL) {
            continue;
        }
        btl_ib_modex_peer_info(peer, name, (uint32_t) choice[i], &info);
        rc = btl_ib_conn_create(component->engine, i, &info, NULL, &conn);
        if (rc != 0) {
            BTL_IB_VERBOSE(1, "%s is not expected at rail %u: %s", opal_process_name_print(*name),
                           i, strerror(-rc));
        }
    }
}

/* ---- the own process ---- */

btl_ib_endpoint_t *btl_ib_endpoint_self(btl_ib_module_t *module, struct opal_proc_t *proc)
{
    btl_ib_endpoint_t *endpoint = module->endpoints.self;

    if (endpoint == NULL && (module->super.btl_flags & ONE_SIDED) != 0) {
        endpoint = make_endpoint(module, proc, opal_process_info.nodename);
        if (endpoint != NULL) {
            snprintf(endpoint->address, sizeof(endpoint->address), "this process");
            opal_list_append(&module->endpoints.all, &endpoint->super);
            module->endpoints.self = endpoint;
        }
    }
    return endpoint;
}

btl_ib_conn_t *btl_ib_endpoint_loopback(btl_ib_module_t *module)
{
    btl_ib_engine_t *engine = mca_btl_ib_component.engine;
    btl_ib_endpoints_t *endpoints = &module->endpoints;
    btl_ib_peer_info_t info;
    int rc;

    if (endpoints->loopback == NULL) {
        btl_ib_engine_rail_info(engine, module->rail, &info);
        rc = btl_ib_conn_create(engine, module->rail, &info, NULL, &endpoints->loopback);
        if (rc != 0) {
            BTL_IB_VERBOSE(1, "rail %u (%s) does not lead to this process itself: %s", module->rail,
                           module->name, strerror(-rc));
            endpoints->loopback = NULL;
        }
    }
    return endpoints->loopback;
}

void btl_ib_endpoint_forget_loopback(const btl_ib_conn_t *conn)
{
    btl_ib_module_t *module = mca_btl_ib_component.modules[btl_ib_conn_rail(conn)];

    if (module != NULL && conn == module->endpoints.loopback) {
        module->endpoints.loopback = NULL;
    }
}

/* ---- closing ---- */

void btl_ib_endpoint_close(btl_ib_endpoint_t *endpoint)
{
    btl_ib_endpoints_t *endpoints = &endpoint->module->endpoints;
    btl_ib_conn_t *conn = endpoint->conn;

    if (endpoint->closed) {
        return;
    }
    endpoint->closing = true;
    endpoint->closed = true;
    if (conn == NULL) {
        conn = endpoints->loopback;
        endpoints->loopback = NULL;
        endpoints->self = NULL;
    }
    if (conn != NULL) {
        btl_ib_connectivity_note(&mca_btl_ib_component.connectivity, conn);
        btl_ib_stats_end_peer(&mca_btl_ib_component.stats, conn, endpoint->host, endpoint->address);
        btl_ib_conn_destroy(conn, btl_ib_now());
    }
    /* Others walk this list, and read connections, while the lock is free for a callback. */
    opal_list_remove_item(&endpoint->module->endpoints.all, &endpoint->super);
    btl_ib_list_remove(&endpoint->gone_link);
    leave_host(endpoint);
}

void btl_ib_endpoint_remove(btl_ib_endpoint_t *endpoint)
{
    const uint64_t name = btl_ib_name_pack(endpoint->proc->proc_name);
    btl_ib_module_t *module = endpoint->module;

    OBJ_RELEASE(endpoint);
    /* Open MPI deletes a process from all modules, so its other endpoints follow at once; unless
     * the process was added again meanwhile. */
    if (btl_ib_endpoint_find(module, name) == NULL) {
        btl_ib_modex_forget(&mca_btl_ib_component.known, name);
    }
}

/* ---- finding ---- */

btl_ib_endpoint_t *btl_ib_endpoint_next(btl_ib_endpoint_t *last)
{
    const btl_ib_component_t *component = &mca_btl_ib_component;
    uint32_t rail = 0;

    if (last != NULL) {
        opal_list_item_t *next = opal_list_get_next(&last->super);

        if (next != opal_list_get_end(&last->module->endpoints.all)) {
            return (btl_ib_endpoint_t *) next;
        }
        rail = last->module->rail + 1;
    }
    for (; rail < component->module_count; ++rail) {
        btl_ib_module_t *module = component->modules[rail];

        if (module != NULL && !opal_list_is_empty(&module->endpoints.all)) {
            return (btl_ib_endpoint_t *) opal_list_get_first(&module->endpoints.all);
        }
    }
    return NULL;
}

/* Returns the endpoint of the connection between a rail of ours and one of a process; NULL: there
 * is none. */
static btl_ib_endpoint_t *endpoint_between(uint32_t rail, uint64_t name, uint32_t remote_rail)
{
    const btl_ib_conn_t *conn =
        btl_ib_conn_find(mca_btl_ib_component.engine, rail, name, remote_rail);

    return conn != NULL ? btl_ib_conn_user(conn) : NULL;
}

btl_ib_endpoint_t *btl_ib_endpoint_find(btl_ib_module_t *module, uint64_t name)
{
    for (uint32_t remote = 0; remote < BTL_IB_RAILS_MAX; ++remote) {
        btl_ib_endpoint_t *endpoint = endpoint_between(module->rail, name, remote);

        if (endpoint != NULL && !endpoint->closing && !btl_ib_conn_is_dead(endpoint->conn)) {
            return endpoint;
        }
    }
    return NULL;
}

btl_ib_endpoint_t *btl_ib_endpoint_for_fragments(btl_ib_endpoint_t *endpoint)
{
    btl_ib_endpoint_t *first;

    if (OPAL_LIKELY(endpoint->first_rail == endpoint->module->rail)) {
        return endpoint;
    }
    first = endpoint_between(endpoint->first_rail, btl_ib_conn_name(endpoint->conn),
                             endpoint->first_remote);
    return first != NULL && !first->closing && !first->dead ? first : endpoint;
}

/* ---- describing ---- */

void btl_ib_endpoint_describe_rail(uint32_t rail, btl_ib_ends_t *ends)
{
    const btl_ib_component_t *component = &mca_btl_ib_component;

    snprintf(ends->our_rank, sizeof(ends->our_rank), "%u", component->name.vpid);
    snprintf(ends->device, sizeof(ends->device), "%s",
             btl_ib_engine_rail_name(component->engine, rail));
    if (!btl_ib_engine_address_text(component->engine, rail, ends->our_address,
                                    sizeof(ends->our_address))) {
        btl_ib_modex_ip_text(&component->self->rails[rail], ends->our_address,
                             sizeof(ends->our_address));
    }
}

void btl_ib_endpoint_describe(const btl_ib_endpoint_t *endpoint, btl_ib_ends_t *ends)
{
    char now[64];

    btl_ib_endpoint_describe_rail(endpoint->module->rail, ends);
    snprintf(ends->rank, sizeof(ends->rank), "%u", endpoint->proc->proc_name.vpid);
    snprintf(ends->host, sizeof(ends->host), "%s", endpoint->host);
    if (endpoint->conn != NULL && btl_ib_conn_address_text(endpoint->conn, now, sizeof(now))
        && strcmp(now, endpoint->address) != 0) {
        snprintf(ends->address, sizeof(ends->address), "%s (before: %s)", now, endpoint->address);
    } else {
        snprintf(ends->address, sizeof(ends->address), "%s", endpoint->address);
    }
}

/* Returns the endpoint whose peer has this address, or had it at first; or NULL. */
static const btl_ib_endpoint_t *find_address(const char *address)
{
    char now[64];
    btl_ib_endpoint_t *each = NULL;

    while ((each = btl_ib_endpoint_next(each)) != NULL && strcmp(each->address, address) != 0
           && (each->conn == NULL || !btl_ib_conn_address_text(each->conn, now, sizeof(now))
               || strcmp(now, address) != 0)) {
        continue;
    }
    return each;
}

void btl_ib_endpoint_show_diagnostics(const char *adding)
{
    btl_ib_pending_diagnostic_t diagnostic;

    while (btl_ib_log_next(&mca_btl_ib_component.log, &diagnostic)) {
        const btl_ib_endpoint_t *endpoint = find_address(diagnostic.detail);
        char peer[96];

        snprintf(peer, sizeof(peer), "%s",
                 adding != NULL ? adding : "not known: it was not added yet");
        if (endpoint != NULL) {
            snprintf(peer, sizeof(peer), "rank %u on host %s", endpoint->proc->proc_name.vpid,
                     endpoint->host);
        }
        btl_ib_log_show(&diagnostic, peer);
    }
}

void btl_ib_endpoint_tell_lost(const btl_ib_endpoint_t *endpoint, const char *what)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_module_t *module = endpoint->module;
    mca_btl_base_module_error_cb_fn_t error_cb = module->error_cb;
    const bool watched = !component->exit.abort_waits;

    if (error_cb == NULL) {
        return;
    }
    if (watched) {
        btl_ib_exit_stage("the abort of the job by Open MPI, as a process is lost", 0);
    }
    btl_ib_unlock();
    error_cb(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, endpoint->proc, (char *) what);
    btl_ib_lock();
    if (watched) { /* the job goes on */
        btl_ib_exit_timeout_end(&component->exit_timeout);
    }
}
