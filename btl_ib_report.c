/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_report.h"

#include <stdio.h>
#include <string.h>

#include "btl_ib_endpoint.h"
#include "btl_ib_modex.h"

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

/* Our own rail's address, with the port where it has one. */
static const char *own_address(const btl_ib_endpoint_t *endpoint, char *out, size_t size)
{
    const btl_ib_component_t *component = &mca_btl_ib_component;
    const uint32_t rail = endpoint->module->rail;

    if (!btl_ib_engine_address_text(component->engine, rail, out, size)) {
        btl_ib_modex_ip_text(&component->self->rails[rail], out, size);
    }
    return out;
}

void btl_ib_report_lost(const btl_ib_endpoint_t *endpoint, btl_ib_death_t reason)
{
    char rank[16];
    char our_rank[16];

    snprintf(rank, sizeof(rank), "%u", endpoint->proc->proc_name.vpid);
    snprintf(our_rank, sizeof(our_rank), "%u", mca_btl_ib_component.name.vpid);
    if (!btl_ib_compat_show_help(BTL_IB_HELP_FILE, "peer lost", our_rank,
                                 opal_process_info.nodename, rank, endpoint->host,
                                 endpoint->module->name, endpoint->address,
                                 btl_ib_death_string(reason), advice(reason))) {
        opal_output(0, "btl:ib: rank %s on host %s lost rank %s on host %s (%s, %s): %s", our_rank,
                    opal_process_info.nodename, rank, endpoint->host, endpoint->module->name,
                    endpoint->address, btl_ib_death_string(reason));
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
    char rank[16];
    char our_rank[16];
    char address[64];
    char ports[96];
    char end[160];

    if (is_told(&mca_btl_ib_component.unanswered, endpoint->host)) {
        return;
    }
    snprintf(rank, sizeof(rank), "%u", endpoint->proc->proc_name.vpid);
    snprintf(our_rank, sizeof(our_rank), "%u", mca_btl_ib_component.name.vpid);
    btl_ib_compat_show_help(BTL_IB_HELP_FILE, "never answered", our_rank,
                            opal_process_info.nodename, endpoint->module->name,
                            own_address(endpoint, address, sizeof(address)), rank, endpoint->host,
                            endpoint->address, known, describe_ports(ports, sizeof(ports)),
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
