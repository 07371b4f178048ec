/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Peers and devices that fail: what becomes of endpoints, and which texts users get
 * (mca/btl_ib_peer_report.c has the texts). The engine calls these functions, and do_rare_work() of
 * the component; all of them with the lock held, which is released around calls up.
 */

#include "btl_ib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "btl_ib_endpoint.h"
#include "btl_ib_frag.h"
#include "btl_ib_modex.h"

/* us between the news that a process is gone and our report. When a job ends, by a signal to mpirun
 * or because one process failed, the runtime ends processes host by host; mpirun 4.1 rests for a
 * second between two hosts. Processes that end last see the others die, and must not report that:
 * mpirun reports the first death. */
#define REPORT_AFTER 3000000

/* Returns what a connection's transport said last of what it does not send, with that errno. */
static btl_ib_refused_send_t refused_send(const btl_ib_conn_t *conn, int error)
{
    const btl_ib_transport_t *transport =
        mca_btl_ib_component.opened[btl_ib_conn_rail(conn)].transport;

    return (btl_ib_refused_send_t){
        .error = error, .call = transport->unsent_call, .call_error = transport->unsent_error};
}

/* Reports that an added peer is dead, then fails all that was on the way to it. */
static void give_peer_up(btl_ib_endpoint_t *endpoint, btl_ib_death_t reason)
{
    const btl_ib_diagnosis_t diagnosis = btl_ib_conn_diagnosis(endpoint->conn);
    const btl_ib_refused_send_t refused = refused_send(endpoint->conn, diagnosis.unsent);
    btl_ib_ends_t ends;

    endpoint->dead = true;
    btl_ib_endpoint_describe(endpoint, &ends);
    btl_ib_report_peer_lost(&mca_btl_ib_component.reports, &ends, reason, &diagnosis, &refused);
    OBJ_RETAIN(endpoint); /* another thread may delete the process meanwhile */
    btl_ib_endpoint_tell_lost(endpoint, "btl ib lost a peer");
    btl_ib_frag_fail_all(endpoint, false);
    btl_ib_rdma_fail_all(endpoint, false);
    OBJ_RELEASE(endpoint);
}

void btl_ib_failures_dead(void *context, btl_ib_conn_t *conn, btl_ib_death_t reason)
{
    btl_ib_component_t *component = context;
    btl_ib_endpoint_t *endpoint = btl_ib_conn_user(conn);

    if (endpoint != NULL && !endpoint->dead && !endpoint->closing) {
        if (reason == BTL_IB_DEATH_REFUSED) {
            /* Wait: this process may be about to end, too. If it is leaving itself, the peer has
             * most likely left before, which is no failure unless MPI goes on afterwards. */
            endpoint->gone_at = btl_ib_now();
            btl_ib_list_push_tail(&component->gone, &endpoint->gone_link);
        } else {
            give_peer_up(endpoint, reason);
        }
        return;
    }
    BTL_IB_VERBOSE(1, "connection with %s on rail %u ends: %s",
                   opal_process_name_print(btl_ib_name_unpack(btl_ib_conn_name(conn))),
                   btl_ib_conn_rail(conn), btl_ib_death_string(reason));
    if (endpoint == NULL) { /* never added, so del_procs will not destroy the connection */
        btl_ib_connectivity_note(&component->connectivity, conn);
        btl_ib_endpoint_forget_loopback(conn);
        btl_ib_modex_forget(&component->known, btl_ib_conn_name(conn));
        btl_ib_conn_destroy(conn, btl_ib_now());
    } else {
        OBJ_RETAIN(endpoint); /* callbacks release the lock: another thread may delete it */
        btl_ib_frag_fail_all(endpoint, true);
        btl_ib_rdma_fail_all(endpoint, true);
        OBJ_RELEASE(endpoint);
    }
}

void btl_ib_failures_look(uint64_t now)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_endpoint_t *gone;
    uint64_t name;

    /* While processes leave, and shortly after, a death may be part of that. */
    if (component->drain.active > 0 || now - component->drain.ended <= BTL_IB_DRAIN_GAP) {
        return;
    }
    while (component->drain.active == 0
           && (gone = BTL_IB_LIST_FIRST(btl_ib_endpoint_t, &component->gone, gone_link)) != NULL
           && now >= gone->gone_at + REPORT_AFTER) {
        btl_ib_list_remove(&gone->gone_link);
        give_peer_up(gone, BTL_IB_DEATH_REFUSED);
    }
    while (btl_ib_ompi_failures_next(component->name.jobid, &name)) {
        BTL_IB_VERBOSE(1, "the runtime says that %s failed",
                       opal_process_name_print(btl_ib_name_unpack(name)));
        for (uint32_t i = 0; i < component->module_count; ++i) {
            btl_ib_module_t *module = component->modules[i]; /* a callback may finalize it */
            btl_ib_endpoint_t *endpoint =
                module != NULL ? btl_ib_endpoint_find(module, name) : NULL;

            if (endpoint != NULL) {
                btl_ib_conn_kill(endpoint->conn, BTL_IB_DEATH_ENDED);
            }
        }
    }
}

/* Reports all pairs of rails that were tried with a process, if there are several. The list is
 * malloced, as stacks may be short. */
static void report_tried(btl_ib_component_t *component, uint64_t name, const char *host)
{
    const uint32_t most = component->self->rail_count * BTL_IB_RAILS_MAX;
    const size_t size = 8192;
    char *pairs = calloc(1, size);
    size_t len = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < most && pairs != NULL && len < size; ++i) {
        const btl_ib_conn_t *conn =
            btl_ib_conn_find(component->engine, i / BTL_IB_RAILS_MAX, name, i % BTL_IB_RAILS_MAX);
        btl_ib_ends_t ends;

        if (conn == NULL || !btl_ib_conn_address_text(conn, ends.address, sizeof(ends.address))) {
            continue;
        }
        btl_ib_endpoint_describe_rail(btl_ib_conn_rail(conn), &ends);
        len += (size_t) snprintf(pairs + len, size - len, "  %s %s -> %s\n", ends.device,
                                 ends.our_address, ends.address);
        ++count;
    }
    if (pairs != NULL && len < size && component->reports.left_aside > 0) {
        snprintf(pairs + len, size - len,
                 "  no others: %u addresses of this host are not used, as %d are the most;\n"
                 "  btl_ib_if_include chooses which\n",
                 component->reports.left_aside, BTL_IB_RAILS_MAX);
    }
    if (count > 1) {
        btl_ib_report_tried(&component->reports, btl_ib_name_unpack(name).vpid, host, pairs);
    }
    free(pairs);
}

void btl_ib_failures_unanswered(void *context, btl_ib_conn_t *conn, bool heard)
{
    btl_ib_component_t *component = context;
    const btl_ib_endpoint_t *endpoint = btl_ib_conn_user(conn);
    const btl_ib_diagnosis_t diagnosis = btl_ib_conn_diagnosis(conn);
    btl_ib_ends_t ends;

    if (endpoint != NULL && !endpoint->closing && diagnosis.unsent == 0) {
        btl_ib_endpoint_describe(endpoint, &ends);
        btl_ib_report_unanswered(&component->reports, &ends, heard, endpoint->answers,
                                 btl_ib_endpoint_is_reachable(endpoint, UINT64_MAX), &diagnosis);
        report_tried(component, btl_ib_conn_name(conn), endpoint->host);
    }
}

void btl_ib_failures_silent(void *context, btl_ib_conn_t *conn, const btl_ib_silence_t *silence)
{
    btl_ib_component_t *component = context;
    const btl_ib_endpoint_t *endpoint = btl_ib_conn_user(conn);
    const btl_ib_diagnosis_t diagnosis = btl_ib_conn_diagnosis(conn);
    char ports[256];
    btl_ib_ends_t ends;

    if (endpoint == NULL || endpoint->closing || diagnosis.unsent != 0) {
        return;
    }
    btl_ib_endpoint_describe(endpoint, &ends);
    if (!btl_ib_conn_flow_text(conn, true, ports, sizeof(ports))) {
        snprintf(ports, sizeof(ports), "%s to %s", ends.our_address, ends.address);
    }
    btl_ib_report_silent(&component->reports, &ends, ports, silence, endpoint->answers,
                         btl_ib_endpoint_is_reachable(endpoint, silence->asked_for), &diagnosis);
}

void btl_ib_failures_unsent(void *context, btl_ib_conn_t *conn, int error)
{
    btl_ib_component_t *component = context;
    const btl_ib_endpoint_t *endpoint = btl_ib_conn_user(conn);
    btl_ib_ends_t ends;

    if (endpoint != NULL && !endpoint->closing) {
        const btl_ib_opened_device_t *opened = &component->opened[btl_ib_conn_rail(conn)];
        const btl_ib_refused_send_t refused = refused_send(conn, error);

        btl_ib_endpoint_describe(endpoint, &ends);
        btl_ib_report_unsent(&component->reports, &ends, &refused,
                             btl_ib_conn_diagnosis(conn).answered, &opened->device);
    }
}

void btl_ib_failures_moved_unanswered(void *context, btl_ib_conn_t *conn)
{
    const btl_ib_endpoint_t *endpoint = btl_ib_conn_user(conn);
    const btl_ib_diagnosis_t diagnosis = btl_ib_conn_diagnosis(conn);
    btl_ib_ends_t ends;

    (void) context;
    if (endpoint != NULL && !endpoint->closing) {
        btl_ib_endpoint_describe(endpoint, &ends);
        btl_ib_report_moved_unanswered(&ends, &diagnosis);
    }
}

/* Reports a slow rail, if it carries less than half of the bandwidth that it claims. A rail that is
 * slower than others, and says so, is no fault: ob1 sends short messages over all rails in turn. */
void btl_ib_failures_slow_rail(void *context, const btl_ib_conn_t *conn,
                               const btl_ib_conn_t *better, const btl_ib_slow_rail_t *found)
{
    btl_ib_component_t *component = context;
    const btl_ib_endpoint_t *endpoint = btl_ib_conn_user(conn);
    btl_ib_ends_t ends, others;

    if (endpoint == NULL || endpoint->closing) {
        return;
    }
    const uint32_t claimed = endpoint->module->super.btl_bandwidth;
    if (found->bytes * 8 / found->time < claimed / 2) {
        btl_ib_endpoint_describe(endpoint, &ends);
        btl_ib_endpoint_describe_rail(btl_ib_conn_rail(better), &others);
        btl_ib_report_slow_rail(&component->reports, &ends, claimed, others.device, found);
    }
}

/* Fills in both ends of a path for a text. The peer may have no endpoint yet. */
static void describe_path(btl_ib_component_t *component, btl_ib_conn_t *conn, btl_ib_ends_t *ends)
{
    const btl_ib_endpoint_t *endpoint = btl_ib_conn_user(conn);
    const char *host = endpoint != NULL ? endpoint->host
                                        : btl_ib_connectivity_host(&component->connectivity,
                                                                   btl_ib_conn_name(conn));

    btl_ib_endpoint_describe_rail(btl_ib_conn_rail(conn), ends);
    snprintf(ends->rank, sizeof(ends->rank), "%u", btl_ib_name_unpack(btl_ib_conn_name(conn)).vpid);
    snprintf(ends->host, sizeof(ends->host), "%s", host != NULL ? host : "(not known yet)");
    if (!btl_ib_conn_address_text(conn, ends->address, sizeof(ends->address))) {
        snprintf(ends->address, sizeof(ends->address), "%s",
                 endpoint != NULL ? endpoint->address : "(not known yet)");
    }
}

/* Keeps the fact for a progress call to report: this may be the progress thread, which must not
 * show texts. */
void btl_ib_failures_black_hole(void *context, btl_ib_conn_t *conn, uint32_t lost, uint32_t most,
                                uint32_t carries)
{
    btl_ib_component_t *component = context;
    btl_ib_black_hole_t hole = {.lost = lost, .most = most, .carries = carries};

    describe_path(component, conn, &hole.ends);
    btl_ib_report_black_hole(&component->reports, &hole);
}

/* Keeps the fact for a progress call to report, as btl_ib_failures_black_hole(). */
void btl_ib_failures_gso_lost(void *context, btl_ib_conn_t *conn, uint32_t lost, bool refused)
{
    btl_ib_component_t *component = context;
    btl_ib_gso_loss_t loss = {.lost = lost, .refused = refused};

    describe_path(component, conn, &loss.ends);
    btl_ib_report_gso_lost(&component->reports, &loss);
}

/* Reports that the device of a rail failed, whether or not any peer is lost by that. The rail may
 * have no module any more, in MPI_Finalize. */
void btl_ib_failures_rail_failed(void *context, uint32_t rail, const char *refused, int error,
                                 uint32_t moved, uint32_t left)
{
    btl_ib_ends_t ends;

    (void) context;
    if (error == EBADF || error == ENOTSOCK) {
        /* Somebody closed our descriptor, and most likely the runtime's: MPI_Abort would hang. */
        btl_ib_endpoint_describe_rail(rail, &ends);
        btl_ib_report_descriptors_closed(&ends, error);
        _exit(EXIT_FAILURE);
    }
    btl_ib_endpoint_describe_rail(rail, &ends);
    if (refused != NULL) {
        btl_ib_report_call_refused(&ends, refused, error, moved, left);
    } else {
        btl_ib_report_device_failed(&ends, error, moved, left);
    }
}
