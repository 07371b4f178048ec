/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_info_devices.h"

#include "aead.h"
#include "btl_ib.h"
#include "btl_ib_device_plan.h"
#include "btl_ib_ompi_compat.h"
#include "btl_ib_open_devices.h"
#include "btl_ib_engine.h"
#include "btl_ib_help.h"
#include "btl_ib_modex_codec.h"
#include "btl_ib_receive_queues.h"
#include "net_interfaces.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The devices that a job would open, and what is looked at by the way. */
typedef struct survey {
    btl_ib_info_out_t out;
    const btl_ib_params_t *params;
    btl_ib_opened_device_t opened[BTL_IB_RAILS_MAX]; /* without their transports */
    uint32_t count;                                  /* of them */
    btl_ib_turned_down_devices_t turned_down;        /* by the job */
    /* Results for one type of transport: what it could not list, and what was listed, but not
     * selected. */
    btl_ib_turned_down_devices_t unlisted;
    btl_ib_turned_down_devices_t unselected;
    btl_ib_log_state_t log;
    btl_ib_device_wishes_t wishes;
    btl_ib_near_devices_t near;
} survey_t;

/* ---- what a job would open ---- */

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

/* Nobody connects, so nothing else is called. */
static const btl_ib_engine_ops_t memory_only = {.zalloc = zalloc, .free = release};

/* Opens the devices that a job would, and closes them. */
static void open_as_a_job(survey_t *survey, const btl_ib_process_sizes_t *sizes, uint32_t processes)
{
    btl_ib_engine_config_t config;
    btl_ib_open_request_t request = {
        .params = survey->params,
        .named = true,
        .processes = processes,
        .peers = processes > 0 ? processes - 1 : 0,
        .sizes = sizes,
        .log = &survey->log,
        .turned_down = &survey->turned_down,
    };

    btl_ib_engine_config_default(&config);
    config.log = btl_ib_log_table(&survey->log);
    request.engine = btl_ib_engine_create(&config, &memory_only, NULL);
    if (request.engine == NULL) {
        return;
    }
    survey->count = btl_ib_open_devices(&request, survey->opened);
    btl_ib_engine_destroy(request.engine);
}

/* Returns the rail that a device would be; `count` of them if it would be none. */
static uint32_t rail_of(const survey_t *survey, const btl_ib_device_t *device)
{
    uint32_t i = 0;

    while (i < survey->count
           && (strcmp(survey->opened[i].device.transport, device->transport) != 0
               || strcmp(survey->opened[i].device.provider, device->provider) != 0
               || strcmp(survey->opened[i].device.name, device->name) != 0
               || memcmp(&survey->opened[i].device.ip, &device->ip, sizeof(device->ip)) != 0)) {
        ++i;
    }
    return i;
}

/* ---- why not ---- */

/* Returns the reason for a device, of which the last one counts: other addresses of a device are
 * turned down when they are listed, before one that may be used is not chosen. */
static const char *reason_in(const btl_ib_turned_down_devices_t *turned_down,
                             const btl_ib_device_t *device, const char *wire)
{
    char name[sizeof(turned_down->device[0].name)];
    const char *found = NULL;
    char of_wire[16];
    char opened_wire[16];

    btl_ib_turned_down_devices_name(device->transport, device->name, name, sizeof(name));
    snprintf(of_wire, sizeof(of_wire), "for %s ", wire != NULL ? wire : "");
    snprintf(opened_wire, sizeof(opened_wire), ": %s: ", wire != NULL ? wire : "");
    for (uint32_t i = 0; i < turned_down->count; ++i) {
        const char *reason = turned_down->device[i].reason;

        /* The wires of a transport have devices of the same names. */
        if (strcmp(turned_down->device[i].name, name) == 0
            && (wire == NULL || strstr(reason, opened_wire) != NULL
                || strncmp(reason, of_wire, strlen(of_wire)) == 0)) {
            found = reason;
        }
    }
    return found;
}

/* Tells why a job would not use a device that may be opened. */
static void not_chosen(const survey_t *survey, const btl_ib_transport_type_t *type,
                       const btl_ib_device_t *device, char *out, size_t size)
{
    const btl_ib_params_t *params = survey->params;
    const char *reason = reason_in(&survey->turned_down, device, type->wire);

    if (reason != NULL) {
        snprintf(out, size, "%s", reason);
    } else if (!btl_ib_any_transport(params) && strcmp(params->transport, type->name) != 0) {
        snprintf(out, size, "btl_ib_transport is %s", params->transport);
    } else if (type->wire != NULL && strcmp(params->wire, "auto") != 0
               && strcmp(params->wire, type->wire) != 0) {
        snprintf(out, size, "btl_ib_wire is %s", params->wire);
    } else if (survey->count > 0) {
        const btl_ib_device_t *first = &survey->opened[0].device;

        snprintf(out, size, "%s%s%s is taken, which comes first (btl_ib_transport, btl_ib_wire)",
                 first->transport, strcmp(first->transport, "verbs") == 0 ? "/" : "",
                 strcmp(first->transport, "verbs") == 0 ? first->provider : "");
    } else {
        snprintf(out, size, "no device is used: see the messages above");
    }
}

/* ---- facts ---- */

enum { NAME_WIDTH = 11 };

static void print_number(const btl_ib_info_out_t *out, const char *name, bool known, uint64_t value,
                         const char *unit)
{
    if (known) {
        btl_ib_info_number(out, name, value, unit);
    } else {
        btl_ib_info_text(out, name, "");
    }
}

static void print_facts(survey_t *survey, const btl_ib_transport_type_t *type,
                        const btl_ib_device_t *device)
{
    const int node = btl_ib_near_devices_node(&survey->near, device);
    const btl_ib_info_out_t *out = &survey->out;
    btl_ib_facts_t facts;
    char text[INET6_ADDRSTRLEN + 8];

    type->facts(device, &facts);
    (void) btl_ib_ip_text((const struct sockaddr *) (const void *) &device->ip, text, sizeof(text));
    if (device->ip.ss_family != AF_UNSPEC) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "/%u", device->prefix_bits);
    }
    btl_ib_info_text(out, "address", text);
    btl_ib_info_text(out, "interface", device->interface[0] != '\0' ? device->interface : "none");
    if (device->provider[0] != '\0' && type->wire == NULL) {
        btl_ib_info_text(out, "provider", device->provider);
    }
    btl_ib_info_text(out, "driver", facts.driver);
    btl_ib_info_text(out, "firmware", facts.firmware);
    print_number(out, "mtu", facts.mtu != 0, facts.mtu, "bytes");
    facts.speed = facts.speed != 0 ? facts.speed : device->bandwidth;
    print_number(out, "speed", facts.speed != 0, facts.speed, "Mbit/s");
    print_number(out, "numa", node >= 0, (uint64_t) node, "");
    if (device->vendor_id != 0) {
        snprintf(text, sizeof(text), "0x%x", device->vendor_id);
        btl_ib_info_text(out, "vendor", text);
        snprintf(text, sizeof(text), "0x%x", device->part_id);
        btl_ib_info_text(out, "part", text);
    }
}

/* Prints what is known to be bad of the kernel and the firmware that a device is used with, and
 * whether ib sends joined datagrams by it. */
static void print_faults(survey_t *survey, const btl_ib_transport_type_t *type,
                         const btl_ib_device_t *device, const btl_ib_open_params_t *open)
{
    const btl_ib_known_fault_t *fault = NULL;
    btl_ib_fault_query_t query;
    btl_ib_facts_t facts;
    char found[1024] = "";
    char remedy[512] = "";

    type->facts(device, &facts);
    btl_ib_device_fault_query(&survey->wishes, device, &facts, &query);
    while ((fault = btl_ib_known_fault_next(&query, fault)) != NULL) {
        const size_t len = strlen(found);
        const size_t remedy_len = strlen(remedy);
        char version[160];

        btl_ib_known_fault_version(fault, &query, version, sizeof(version));
        snprintf(found + len, sizeof(found) - len, "%s%s: known to be bad: %s: %s (%s)",
                 len > 0 ? "; " : "", version, fault->bad, fault->effect, fault->source);
        snprintf(remedy + remedy_len, sizeof(remedy) - remedy_len, "%s%s",
                 remedy_len > 0 ? "; " : "", fault->remedy);
    }
    if (open->no_gso && strcmp(type->name, "udp") == 0) {
        btl_ib_info_text(&survey->out, "gso", "no");
    }
    if (found[0] != '\0') {
        btl_ib_info_text(&survey->out, "fault", found);
        btl_ib_info_text(&survey->out, "remedy", remedy);
    }
}

/* Begins the block of a device, or of a transport (`name` ""). `why_not`: "" if it is used, as rail
 * `rail`. */
static void begin_device(btl_ib_info_out_t *out, const btl_ib_transport_type_t *type,
                         const char *name, uint32_t width, const char *why_not, uint32_t rail)
{
    const bool named = name[0] != '\0';
    char full[112];
    char subject[128];
    char heading[352];

    snprintf(full, sizeof(full), "%s%s%s%s%s", type->name, type->wire != NULL ? "/" : "",
             type->wire != NULL ? type->wire : "", named ? " " : "", name);
    snprintf(subject, sizeof(subject), "%s %s", named ? "device" : "transport", full);
    if (why_not[0] == '\0') {
        snprintf(heading, sizeof(heading), "%s: rail %u", full, rail);
    } else {
        snprintf(heading, sizeof(heading), "%s: not used: %s", full, why_not);
    }
    btl_ib_info_begin(out, subject, heading, width);
}

/* Ends it. People see in its heading whether it is used. */
static void end_device(btl_ib_info_out_t *out, const char *why_not, uint32_t rail)
{
    if (out->parsable) {
        btl_ib_info_text(out, "used", why_not[0] == '\0' ? "yes" : "no");
        if (why_not[0] == '\0') {
            btl_ib_info_number(out, "rail", rail, "");
        } else {
            btl_ib_info_text(out, "reason", why_not);
        }
    }
    btl_ib_info_end(out);
}

/* ---- devices ---- */

/* Prints a device that the type listed. `reason`: why it was not selected; NULL: it was. */
static void print_device(survey_t *survey, const btl_ib_transport_type_t *type,
                         const btl_ib_device_t *device, const char *reason)
{
    const uint32_t rail = rail_of(survey, device);
    btl_ib_info_out_t *out = &survey->out;
    btl_ib_device_plan_t plan;
    const bool planned = btl_ib_device_plan(&survey->wishes, type, device, 0, &plan);
    char why_not[192] = "";
    char queues[512];

    if (reason != NULL) {
        snprintf(why_not, sizeof(why_not), "%s", reason);
    } else if (!planned) {
        snprintf(why_not, sizeof(why_not), "%s", plan.why_not);
    } else if (rail == survey->count) {
        not_chosen(survey, type, device, why_not, sizeof(why_not));
    }
    begin_device(out, type, device->name, NAME_WIDTH, why_not, rail);
    print_facts(survey, type, device);
    if (planned) {
        btl_ib_queues_format(&plan.queues, queues, sizeof(queues));
        btl_ib_info_number(out, "datagram", plan.attr.max_datagram, "bytes");
        btl_ib_info_text(out, "queues", queues);
        btl_ib_device_plan_avoid_faults(&survey->wishes, type, &plan);
        print_faults(survey, type, device, &plan.open);
    }
    end_device(out, why_not, rail);
}

/* Prints devices that a type of transport saw, but cannot use at all. */
static void print_unlisted(survey_t *survey, const btl_ib_transport_type_t *type)
{
    const size_t len = strlen(type->name);

    for (uint32_t i = 0; i < survey->unlisted.count; ++i) {
        const btl_ib_turned_down_device_t *turned_down = &survey->unlisted.device[i];
        const char *name = turned_down->name[len] == '/' ? turned_down->name + len + 1 : "";

        begin_device(&survey->out, type, name, 0, turned_down->reason, 0);
        end_device(&survey->out, turned_down->reason, 0);
    }
}

static void survey_type(survey_t *survey, const btl_ib_transport_type_t *type)
{
    const btl_ib_params_t *params = survey->params;
    const btl_ib_search_t wanted = {
        .provider = params->ofi_provider,
        .fork_safe = params->fork_safe,
        .gid_index = params->gid_index,
        .log = btl_ib_log_table(&survey->log),
    };
    btl_ib_device_filter_t filter = survey->wishes.filter; /* in which matches are noted */
    btl_ib_device_t *list = NULL;
    int selected;
    int count;

    btl_ib_turned_down_devices_clear(&survey->unlisted);
    btl_ib_turned_down_devices_clear(&survey->unselected);
    btl_ib_log_collect(&survey->log, &survey->unlisted);
    count = type->devices(&wanted, &list);
    if (count < 0) {
        btl_ib_turned_down_devices_add(&survey->unlisted, type->name, NULL, strerror(-count));
        count = 0;
    }
    btl_ib_log_collect(&survey->log, &survey->unselected);
    btl_ib_links_mark_host_only(list, count, &wanted.log);
    selected = btl_ib_devices_select(list, count, &filter, &wanted.log);
    btl_ib_log_collect(&survey->log, NULL);
    for (int i = 0; i < count; ++i) {
        const char *reason = reason_in(&survey->unselected, &list[i], NULL);

        if (i < selected) {
            reason = NULL;
        } else if (reason == NULL) {
            reason = "another address of it comes first";
        }
        print_device(survey, type, &list[i], reason);
    }
    print_unlisted(survey, type);
    type->devices_free(list, count);
}

/* ---- what was built ---- */

static void print_build(const btl_ib_info_out_t *out)
{
    char text[256];

    const btl_ib_versions_t wire = btl_ib_versions_here();

    btl_ib_info_text(out, "version", BTL_IB_VERSION);
    snprintf(text, sizeof(text), "%u to %u", wire.oldest, wire.newest);
    btl_ib_info_text(out, "wire versions", text);
    snprintf(text, sizeof(text), "%u to %u", BTL_IB_MODEX_OLDEST, BTL_IB_MODEX_VERSION);
    btl_ib_info_text(out, "modex versions", text);
    btl_ib_info_text(out, "openmpi built for", BTL_IB_BUILT_FOR_VERSION);
    btl_ib_info_text(out, "openmpi running", opal_version_string);
    btl_ib_transports_text(text, sizeof(text));
    btl_ib_info_text(out, "transports", text);
    for (size_t i = 0; btl_ib_transport_types[i] != NULL; ++i) {
        if (btl_ib_library_text(i, true, text, sizeof(text))) {
            char name[64];

            snprintf(name, sizeof(name), "library %.*s", (int) strcspn(text, ":"), text);
            btl_ib_info_text(out, name, text + strcspn(text, " ") + 1);
        }
    }
    snprintf(text, sizeof(text), "none: ");
    btl_ib_info_text(out, "library cryptography",
                     btl_ib_aead_available(text + strlen(text), sizeof(text) - strlen(text))
                         ? "libcrypto"
                         : text);
}

uint32_t btl_ib_info_devices(bool parsable, const btl_ib_process_sizes_t *sizes, uint32_t processes)
{
    const bool never = false;
    survey_t *survey = calloc(1, sizeof(*survey));
    uint32_t count;

    if (survey == NULL) {
        return 0;
    }
    survey->out.parsable = parsable;
    print_build(&survey->out);
    survey->params = sizes->params;
    btl_ib_log_init(&survey->log, &never, true);
    btl_ib_near_devices_init(&survey->near, survey->params, &survey->turned_down);
    open_as_a_job(survey, sizes, processes);
    /* Wrong parameters were told when devices were opened, or before. */
    if (btl_ib_device_wishes_read(&survey->wishes, survey->params, processes, UINT32_MAX)) {
        for (size_t i = 0; btl_ib_transport_types[i] != NULL; ++i) {
            survey_type(survey, btl_ib_transport_types[i]);
        }
    }
    btl_ib_near_devices_fini(&survey->near);
    count = survey->count;
    if (!parsable) {
        putchar('\n');
    }
    btl_ib_info_number(&survey->out, "used devices", count, "");
    free(survey);
    return count;
}
