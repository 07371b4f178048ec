/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_diagnostics.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "btl_ib_endpoint.h"
#include "btl_ib_modex.h"
#include "btl_ib_params_rules.h"

/* What to look at, in lines of a help text. */
static const char *advice(btl_ib_death_t reason)
{
    switch (reason) {
    case BTL_IB_DEATH_REFUSED:
        return "The process has ended: look at that rank's own output and exit status, and at\n"
               "the kernel's log of its host (out of memory?). If it still runs, a firewall\n"
               "between the hosts rejects UDP.";
    case BTL_IB_DEATH_SILENCE:
        return "Is the host up, and can it be reached (ping)? Is the process stopped? If it only\n"
               "computed for long without calling MPI, raise btl_ib_silence_limit (seconds; 0\n"
               "means for ever).";
    case BTL_IB_DEATH_UNANSWERED:
        return "Is UDP blocked by a firewall of either host, or the address not routed from\n"
               "here? btl_ib_if_include chooses the network, btl_ib_port_min and\n"
               "btl_ib_port_range the ports that have to be open. btl_ib_connect_timeout says\n"
               "how long is waited (seconds; 0 means for ever).";
    case BTL_IB_DEATH_NO_PROGRESS:
        return "Do large datagrams get lost on the way (the MTU of a switch: ping -M do -s\n"
               "1472)? If the process only computed for long without calling MPI, raise\n"
               "btl_ib_silence_limit (seconds; 0 means for ever).";
    case BTL_IB_DEATH_NO_TAG:
        return "It does not use what this process sends to: do both run the same Open MPI, and\n"
               "with the same --mca pml, btl and osc?";
    case BTL_IB_DEATH_ENDED:
        return "Look at that rank's own output and exit status, and at the kernel's log of its\n"
               "host (out of memory?); with ULFM (mpirun --with-ft ulfm) also at what the other\n"
               "processes of this host say: if one gives a process up, all do.";
    case BTL_IB_DEATH_RESTARTED:
        return "Look why the earlier process ended: at that rank's own output, and the kernel's\n"
               "log of its host.";
    case BTL_IB_DEATH_DEVICE:
        return "Look at the device, its cable and its port (the kernel's log, ip link,\n"
               "ibv_devinfo).";
    default:
        return "";
    }
}

/* ---- both ends ---- */

/* Both ends of a connection, as text. */
typedef struct ends {
    char our_rank[16];
    char own[64]; /* address */
    char rank[16];
    char address[64]; /* of the other one */
} ends_t;

static void rank_text(uint32_t vpid, char *out, size_t size)
{
    snprintf(out, size, "%u", vpid);
}

void btl_ib_report_own_address(uint32_t rail, char *out, size_t size)
{
    const btl_ib_component_t *component = &mca_btl_ib_component;

    if (!btl_ib_engine_address_text(component->engine, rail, out, size)) {
        btl_ib_modex_ip_text(&component->self->rails[rail], out, size);
    }
}

static void ends_of(const btl_ib_endpoint_t *endpoint, ends_t *ends)
{
    rank_text(mca_btl_ib_component.name.vpid, ends->our_rank, sizeof(ends->our_rank));
    rank_text(endpoint->proc->proc_name.vpid, ends->rank, sizeof(ends->rank));
    btl_ib_report_own_address(endpoint->module->rail, ends->own, sizeof(ends->own));
    snprintf(ends->address, sizeof(ends->address), "%s", endpoint->address);
}

const char *btl_ib_report_peer_at(const char *address, char *out, size_t size)
{
    const btl_ib_component_t *component = &mca_btl_ib_component;
    const btl_ib_endpoint_t *each;

    for (uint32_t i = 0; i < component->module_count; ++i) {
        if (NULL == component->modules[i]) {
            continue;
        }
        OPAL_LIST_FOREACH(each, &component->modules[i]->endpoints, btl_ib_endpoint_t)
        {
            if (0 == strcmp(each->address, address)) {
                snprintf(out, size, "rank %u on host %s", each->proc->proc_name.vpid, each->host);
                return out;
            }
        }
    }
    snprintf(out, size, "%s",
             '\0' != component->adding[0] ? component->adding : "not known: it was not added yet");
    return out;
}

/* ---- lost, and never answered ---- */

void btl_ib_report_lost(const btl_ib_endpoint_t *endpoint, btl_ib_death_t reason)
{
    ends_t ends;

    ends_of(endpoint, &ends);
    if (!btl_ib_show_help("peer lost", ends.our_rank, opal_process_info.nodename,
                          endpoint->module->name, ends.own, ends.rank, endpoint->host, ends.address,
                          btl_ib_death_string(reason), advice(reason))) {
        opal_output(0, "btl:ib: rank %s on host %s lost rank %s on host %s (%s, %s): %s",
                    ends.our_rank, opal_process_info.nodename, ends.rank, endpoint->host,
                    endpoint->module->name, ends.address, btl_ib_death_string(reason));
    }
}

/* Was it told of that host, or of as many as are told? Notes it. */
static bool is_told(btl_ib_reported_t *reported, const char *host)
{
    for (uint32_t i = 0; i < reported->count; ++i) {
        if (0 == strcmp(reported->host[i], host)) {
            return true;
        }
    }
    if (BTL_IB_REPORT_HOSTS == reported->count) {
        ++reported->more;
        return true;
    }
    snprintf(reported->host[reported->count++], sizeof(reported->host[0]), "%s", host);
    return false;
}

static const char *describe_ports(char *out, size_t size)
{
    const btl_ib_params_t *params = &mca_btl_ib_component.params;

    if (0 == params->port_min) {
        snprintf(out, size, "any that is free (btl_ib_port_min is not set)");
    } else {
        snprintf(out, size, "%d to %d (btl_ib_port_min, btl_ib_port_range)", params->port_min,
                 params->port_min + params->port_range - 1);
    }
    return out;
}

static const char *describe_end(const btl_ib_endpoint_t *endpoint, char *out, size_t size)
{
    const int timeout = mca_btl_ib_component.params.connect_timeout;

    if (!endpoint->answers) {
        snprintf(out, size, "It may only compute, so this process goes on waiting for it.");
    } else if (0 == timeout) {
        snprintf(out, size, "This process goes on waiting (btl_ib_connect_timeout is 0).");
    } else {
        snprintf(out, size,
                 "The job ends if that does not change within %d s of the first attempt\n"
                 "(btl_ib_connect_timeout).",
                 timeout);
    }
    return out;
}

void btl_ib_report_unanswered(const btl_ib_endpoint_t *endpoint, bool heard)
{
    const char *known = heard ? "what it sends arrives here, but not what is sent from here"
                              : "nothing that it sends has arrived here, either";
    char ports[96];
    char end[160];
    ends_t ends;

    if (is_told(&mca_btl_ib_component.unanswered, endpoint->host)) {
        return;
    }
    ends_of(endpoint, &ends);
    btl_ib_show_help("never answered", ends.our_rank, opal_process_info.nodename,
                     endpoint->module->name, ends.own, ends.rank, endpoint->host, ends.address,
                     known, describe_ports(ports, sizeof(ports)),
                     describe_end(endpoint, end, sizeof(end)));
}

void btl_ib_report_rest(void)
{
    const btl_ib_reported_t *reported = &mca_btl_ib_component.unanswered;

    if (reported->more > 0) {
        opal_output(0, "btl:ib: rank %u on host %s: %u processes of further hosts did not answer",
                    mca_btl_ib_component.name.vpid, opal_process_info.nodename, reported->more);
    }
}

/* ---- large datagrams ---- */

static void show_hole(const btl_ib_report_hole_t *hole)
{
    char our_rank[16];

    rank_text(mca_btl_ib_component.name.vpid, our_rank, sizeof(our_rank));
    btl_ib_show_help("large datagrams lost", our_rank, opal_process_info.nodename, hole->device,
                     hole->own, hole->rank, hole->host, hole->address, hole->lost, hole->most,
                     hole->carries, hole->most, hole->lost);
}

void btl_ib_report_hole(const btl_ib_conn_t *conn, uint32_t lost, uint32_t most, uint32_t carries)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const btl_ib_endpoint_t *endpoint = btl_ib_conn_user(conn);
    const uint32_t rail = btl_ib_conn_rail(conn);
    btl_ib_report_hole_t *hole = &component->hole;

    if (hole->told) {
        return;
    }
    *hole = (btl_ib_report_hole_t){.told = true, .lost = lost, .most = most, .carries = carries};
    rank_text(btl_ib_name_unpack(btl_ib_conn_name(conn)).vpid, hole->rank, sizeof(hole->rank));
    snprintf(hole->host, sizeof(hole->host), "%s",
             NULL != endpoint ? endpoint->host : "(not known yet)");
    snprintf(hole->device, sizeof(hole->device), "%s",
             btl_ib_engine_rail_name(component->engine, rail));
    btl_ib_report_own_address(rail, hole->own, sizeof(hole->own));
    if (!btl_ib_conn_address_text(conn, hole->address, sizeof(hole->address))) {
        snprintf(hole->address, sizeof(hole->address), "%s",
                 NULL != endpoint ? endpoint->address : "(not known yet)");
    }
    hole->pending = true;
    if (!component->kicker.kicking) {
        btl_ib_report_late();
    }
}

void btl_ib_report_late(void)
{
    btl_ib_report_hole_t *hole = &mca_btl_ib_component.hole;

    if (hole->pending) {
        hole->pending = false;
        show_hole(hole);
    }
}

/* ---- peers that do not agree ---- */

/* Of a limit, in words. */
static const char *default_of(const char *name)
{
    btl_ib_rule_t rule = {0};

    for (size_t i = 0; btl_ib_params_rule(i, &rule) && 0 != strcmp(rule.name, name); ++i) {
        continue;
    }
    return rule.standard;
}

void btl_ib_report_limits(const struct opal_proc_t *proc, const btl_ib_modex_t *peer)
{
    const mca_btl_base_module_t *limits = &mca_btl_ib_component.limits;
    const bool eager = limits->btl_eager_limit >= limits->btl_max_send_size;
    const uint32_t theirs =
        peer->message_max > BTL_IB_HEADER_ROOM ? peer->message_max - BTL_IB_HEADER_ROOM : 0;
    char our_rank[16];
    char rank[16];

    rank_text(mca_btl_ib_component.name.vpid, our_rank, sizeof(our_rank));
    rank_text(proc->proc_name.vpid, rank, sizeof(rank));
    btl_ib_show_help("limits differ", our_rank, opal_process_info.nodename, limits->btl_eager_limit,
                     limits->btl_max_send_size,
                     eager ? "btl_ib_eager_limit" : "btl_ib_max_send_size", rank, peer->host,
                     theirs, default_of("max_send_size"), default_of("eager_limit"));
}

/* What one would have to set for it. */
static const char *guard_text(btl_ib_guard_kind_t guard)
{
    switch (guard) {
    case BTL_IB_GUARD_CRC32C:
        return "(btl_ib_checksum crc32c, btl_ib_auth none)";
    case BTL_IB_GUARD_INTEGRITY:
        return "(btl_ib_auth integrity)";
    case BTL_IB_GUARD_ENCRYPT:
        return "(btl_ib_auth encrypt)";
    default:
        return "(btl_ib_checksum none, btl_ib_auth none)";
    }
}

void btl_ib_report_protection(const struct opal_proc_t *proc, const btl_ib_modex_t *peer)
{
    const btl_ib_guard_kind_t ours = mca_btl_ib_component.self->guard;
    char our_rank[16];
    char rank[16];

    rank_text(mca_btl_ib_component.name.vpid, our_rank, sizeof(our_rank));
    rank_text(proc->proc_name.vpid, rank, sizeof(rank));
    btl_ib_show_help("protection differs", our_rank, opal_process_info.nodename,
                     btl_ib_guard_ops(ours)->name, guard_text(ours), rank, peer->host,
                     btl_ib_guard_ops(peer->guard)->name, guard_text(peer->guard));
}

/* A rail of a process, by transport and address. */
static void describe_rail(const btl_ib_modex_rail_t *rail, char *out, size_t size)
{
    char address[INET6_ADDRSTRLEN];

    snprintf(out, size, "%s%s%s (%s)", rail->transport, '\0' != rail->provider[0] ? "/" : "",
             rail->provider, btl_ib_modex_ip_text(rail, address, sizeof(address)));
}

void btl_ib_report_atomics(const btl_ib_module_t *module, const struct opal_proc_t *proc,
                           const btl_ib_modex_t *peer, int remote_rail)
{
    const btl_ib_component_t *component = &mca_btl_ib_component;
    const btl_ib_modex_rail_t *theirs = &peer->rails[remote_rail];
    char their_device[128];
    char our_rank[16];
    char rank[16];

    rank_text(component->name.vpid, our_rank, sizeof(our_rank));
    rank_text(proc->proc_name.vpid, rank, sizeof(rank));
    describe_rail(theirs, their_device, sizeof(their_device));
    btl_ib_show_help("atomics differ", our_rank, opal_process_info.nodename, module->name,
                     btl_ib_atomics_string(component->self->rails[module->rail].atomics),
                     component->params.atomics, rank, peer->host, their_device,
                     btl_ib_atomics_string(theirs->atomics));
}

/* What a process has. */
static void describe_rails(const btl_ib_modex_t *modex, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < modex->rail_count && len < size; ++i) {
        char rail[128];

        describe_rail(&modex->rails[i], rail, sizeof(rail));
        len += (size_t) snprintf(out + len, size - len, "%s%s", i > 0 ? ", " : "", rail);
    }
}

void btl_ib_report_no_network(const struct opal_proc_t *proc, const btl_ib_modex_t *peer)
{
    char our_rank[16];
    char rank[16];
    char ours[512];
    char theirs[512];

    rank_text(mca_btl_ib_component.name.vpid, our_rank, sizeof(our_rank));
    rank_text(proc->proc_name.vpid, rank, sizeof(rank));
    describe_rails(mca_btl_ib_component.self, ours, sizeof(ours));
    describe_rails(peer, theirs, sizeof(theirs));
    btl_ib_show_help("no common network", our_rank, opal_process_info.nodename, ours, rank,
                     peer->host, theirs);
}

/* ---- the start ---- */

void btl_ib_report_cannot_start(const char *cause, int error, const char *step)
{
    const char *what = 0 != error ? strerror(error) : "";
    const char *colon = 0 != error ? ": " : "";

    BTL_IB_VERBOSE(1, "cannot start: %s%s%s", cause, colon, what);
    BTL_IB_SHOW_HELP("cannot start", opal_process_info.nodename, cause, colon, what, step);
}

/* ---- one-sided operations ---- */

void btl_ib_report_refused(const btl_ib_endpoint_t *endpoint, const char *kind, size_t size,
                           int64_t offset)
{
    char where[24];
    ends_t ends;

    ends_of(endpoint, &ends);
    snprintf(where, sizeof(where), "%" PRId64, offset);
    btl_ib_show_help("operation refused", ends.our_rank, opal_process_info.nodename,
                     endpoint->module->name, ends.own, ends.rank, endpoint->host, ends.address,
                     kind, size, where);
}

void btl_ib_report_atomic_lost(const btl_ib_endpoint_t *endpoint, uint64_t region, int64_t offset,
                               int error)
{
    char where[64];
    ends_t ends;

    ends_of(endpoint, &ends);
    snprintf(where, sizeof(where), "%" PRIx64 ", offset %" PRId64, region, offset);
    btl_ib_show_help("atomic lost", ends.our_rank, opal_process_info.nodename,
                     endpoint->module->name, ends.own, ends.rank, endpoint->host, ends.address,
                     where, strerror(error));
}
