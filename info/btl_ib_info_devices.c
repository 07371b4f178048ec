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
#include "btl_ib_receive_queues.h"
#include "net_interfaces.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <inttypes.h>

/* What a job would do, and what is looked at by the way. */
typedef struct survey {
    btl_ib_info_out_t out;
    const btl_ib_params_t *params;
    btl_ib_opened_device_t opened[BTL_IB_RAILS_MAX]; /* without their transports */
    uint32_t count;                                  /* of them */
    btl_ib_rejected_devices_t rejected;              /* by the job */
    /* Of one type of transport: what it could not list, and what was listed, but not selected. */
    btl_ib_rejected_devices_t unlisted;
    btl_ib_rejected_devices_t unselected;
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

/* Open what a job would, and close it. */
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
        .rejected = &survey->rejected,
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

/* The rail that a device would be; `count` of them if it would be none. */
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

/* The last one counts: other addresses of a device are turned down when they are listed, before one
 * that may be used is not chosen. */
static const char *reason_in(const btl_ib_rejected_devices_t *rejected,
                             const btl_ib_device_t *device, const char *wire)
{
    char name[sizeof(rejected->device[0].name)];
    const char *found = NULL;
    char of_wire[16];
    char opened_wire[16];

    btl_ib_rejected_devices_name(device->transport, device->name, name, sizeof(name));
    snprintf(of_wire, sizeof(of_wire), "for %s ", wire != NULL ? wire : "");
    snprintf(opened_wire, sizeof(opened_wire), ": %s: ", wire != NULL ? wire : "");
    for (uint32_t i = 0; i < rejected->count; ++i) {
        const char *reason = rejected->device[i].reason;

        /* The wires of a transport have devices of the same names. */
        if (strcmp(rejected->device[i].name, name) == 0
            && (wire == NULL || strstr(reason, opened_wire) != NULL
                || strncmp(reason, of_wire, strlen(of_wire)) == 0)) {
            found = reason;
        }
    }
    return found;
}

/* Why a job would not use a device that may be opened. */
static void not_chosen(const survey_t *survey, const btl_ib_transport_type_t *type,
                       const btl_ib_device_t *device, char *out, size_t size)
{
    const btl_ib_params_t *params = survey->params;
    const char *reason = reason_in(&survey->rejected, device, type->wire);

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

static void print_address(btl_ib_info_out_t *out, const btl_ib_device_t *device)
{
    char text[INET6_ADDRSTRLEN + 8];

    (void) btl_ib_ip_text((const struct sockaddr *) (const void *) &device->ip, text, sizeof(text));
    if (device->ip.ss_family != AF_UNSPEC) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "/%u", device->prefix_bits);
    }
    btl_ib_info_text(out, "address", text);
}

static void print_number(btl_ib_info_out_t *out, const char *name, uint64_t value, const char *unit)
{
    if (value != 0) {
        btl_ib_info_number(out, name, value, unit);
    } else {
        btl_ib_info_text(out, name, "");
    }
}

static void print_facts(survey_t *survey, const btl_ib_transport_type_t *type,
                        const btl_ib_device_t *device)
{
    const int node = btl_ib_near_devices_node(&survey->near, device);
    btl_ib_info_out_t *out = &survey->out;
    btl_ib_facts_t facts;
    char text[32];

    type->facts(device, &facts);
    print_address(out, device);
    btl_ib_info_text(out, "interface", device->interface[0] != '\0' ? device->interface : "none");
    if (device->provider[0] != '\0' && type->wire == NULL) {
        btl_ib_info_text(out, "provider", device->provider);
    }
    btl_ib_info_text(out, "driver", facts.driver);
    btl_ib_info_text(out, "firmware", facts.firmware);
    print_number(out, "mtu", facts.mtu, "bytes");
    print_number(out, "speed", facts.speed != 0 ? facts.speed : device->bandwidth, "Mbit/s");
    if (node >= 0) {
        btl_ib_info_number(out, "numa", (uint64_t) node, "");
    } else {
        btl_ib_info_text(out, "numa", "");
    }
    if (device->vendor_id != 0) {
        snprintf(text, sizeof(text), "0x%x", device->vendor_id);
        btl_ib_info_text(out, "vendor", text);
        snprintf(text, sizeof(text), "0x%x", device->part_id);
        btl_ib_info_text(out, "part", text);
    }
}

/* Tables have it in the heading. */
static void print_use(btl_ib_info_out_t *out, const char *why_not, uint32_t rail)
{
    if (out->form == BTL_IB_INFO_TABLES) {
        return;
    }
    btl_ib_info_bool(out, "used", why_not[0] == '\0');
    if (why_not[0] == '\0') {
        btl_ib_info_number(out, "rail", rail, "");
    } else {
        btl_ib_info_text(out, "reason", why_not);
    }
}

/* `why_not`: "" if it is used, as rail `rail`. */
static void begin_device(btl_ib_info_out_t *out, const btl_ib_transport_type_t *type,
                         const char *name, bool has_facts, const char *why_not, uint32_t rail)
{
    const char *slash = type->wire != NULL ? "/" : "";
    const char *wire = type->wire != NULL ? type->wire : "";
    const bool named = name[0] != '\0';
    char full[112];
    char prefix[128];
    char heading[352];

    snprintf(full, sizeof(full), "%s%s%s%s%s", type->name, slash, wire, named ? " " : "", name);
    snprintf(prefix, sizeof(prefix), "%s %s", named ? "device" : "transport", full);
    if (why_not[0] == '\0') {
        snprintf(heading, sizeof(heading), "%s: rail %u", full, rail);
    } else {
        snprintf(heading, sizeof(heading), "%s: not used: %s", full, why_not);
    }
    btl_ib_info_heading(out, heading, has_facts);
    btl_ib_info_open(out, NULL, '{', prefix);
    btl_ib_info_json_text(out, "transport", type->name);
    btl_ib_info_json_text(out, "wire", wire);
    btl_ib_info_json_text(out, "name", name);
}

/* ---- devices ---- */

/* A device that the type listed. `reason`: why it was not selected; NULL: it was. */
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
    begin_device(out, type, device->name, true, why_not, rail);
    print_facts(survey, type, device);
    if (planned) {
        btl_ib_queues_format(&plan.queues, queues, sizeof(queues));
        btl_ib_info_number(out, "datagram", plan.attr.max_datagram, "bytes");
        btl_ib_info_text(out, "queues", queues);
    }
    print_use(out, why_not, rail);
    btl_ib_info_close(out);
}

/* Devices that a type of transport saw, but cannot use at all. */
static void print_unlisted(survey_t *survey, const btl_ib_transport_type_t *type)
{
    const size_t len = strlen(type->name);

    for (uint32_t i = 0; i < survey->unlisted.count; ++i) {
        const btl_ib_rejected_device_t *rejected = &survey->unlisted.device[i];
        const char *name = rejected->name[len] == '/' ? rejected->name + len + 1 : "";

        begin_device(&survey->out, type, name, false, rejected->reason, 0);
        print_use(&survey->out, rejected->reason, 0);
        btl_ib_info_close(&survey->out);
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

    btl_ib_rejected_devices_clear(&survey->unlisted);
    btl_ib_rejected_devices_clear(&survey->unselected);
    btl_ib_log_collect(&survey->log, &survey->unlisted);
    count = type->devices(&wanted, &list);
    if (count < 0) {
        btl_ib_rejected_devices_add(&survey->unlisted, type->name, NULL, strerror(-count));
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

static void print_transports(btl_ib_info_out_t *out)
{
    char text[160] = "";

    btl_ib_info_open(out, "transports", '[', "");
    for (size_t i = 0; btl_ib_transport_types[i] != NULL; ++i) {
        const btl_ib_transport_type_t *type = btl_ib_transport_types[i];
        const size_t len = strlen(text);
        char name[32];

        snprintf(name, sizeof(name), "%s%s%s", type->name, type->wire != NULL ? "/" : "",
                 type->wire != NULL ? type->wire : "");
        btl_ib_info_json_text(out, NULL, name);
        snprintf(text + len, sizeof(text) - len, "%s%s", i > 0 ? ", " : "", name);
    }
    btl_ib_info_close(out);
    if (out->form != BTL_IB_INFO_JSON) {
        btl_ib_info_text(out, "transports", text);
    }
}

/* "libfabric: built with 1.17, running 1.17" of each library. */
static void print_libraries(btl_ib_info_out_t *out)
{
    void (*last)(bool load, char *text, size_t len) = NULL; /* of neighbours of one library */
    char text[256];

    btl_ib_info_open(out, "libraries", '{', "library");
    for (size_t i = 0; btl_ib_transport_types[i] != NULL; ++i) {
        const btl_ib_transport_type_t *type = btl_ib_transport_types[i];
        char *colon;

        if (type->library == NULL || last == type->library) {
            continue;
        }
        last = type->library;
        type->library(true, text, sizeof(text));
        colon = strchr(text, ':');
        if (colon != NULL) {
            *colon = '\0';
            btl_ib_info_text(out, text, colon + 2);
        }
    }
    snprintf(text, sizeof(text), "none: ");
    btl_ib_info_text(out, "cryptography",
                     btl_ib_aead_available(text + strlen(text), sizeof(text) - strlen(text))
                         ? "libcrypto"
                         : text);
    btl_ib_info_close(out);
}

static void print_build(btl_ib_info_out_t *out)
{
    btl_ib_info_text(out, "version", BTL_IB_VERSION);
    btl_ib_info_open(out, "openmpi", '{', "openmpi");
    btl_ib_info_text(out, "built for", BTL_IB_BUILT_FOR_VERSION);
    btl_ib_info_text(out, "running", opal_version_string);
    btl_ib_info_close(out);
    print_transports(out);
    print_libraries(out);
}

uint32_t btl_ib_info_devices(btl_ib_info_form_t form, const btl_ib_process_sizes_t *sizes,
                             uint32_t processes)
{
    const btl_ib_params_t *params = sizes->params;
    const bool never = false;
    survey_t *survey = calloc(1, sizeof(*survey));
    btl_ib_info_out_t *out;
    uint32_t count = 0;

    if (survey == NULL) {
        return 0;
    }
    out = &survey->out;
    btl_ib_info_begin(out, form);
    print_build(out);
    survey->params = params;
    btl_ib_log_init(&survey->log, &never, true);
    btl_ib_near_devices_init(&survey->near, params, &survey->rejected);
    open_as_a_job(survey, sizes, processes);
    btl_ib_info_open(out, "devices", '[', "");
    /* What is wrong with parameters was told when devices were opened, or before. */
    if (btl_ib_device_wishes_read(&survey->wishes, params, processes, UINT32_MAX)) {
        for (size_t i = 0; btl_ib_transport_types[i] != NULL; ++i) {
            survey_type(survey, btl_ib_transport_types[i]);
        }
    }
    btl_ib_near_devices_fini(&survey->near);
    btl_ib_info_close(out);
    count = survey->count;
    btl_ib_info_heading(out, "", false);
    btl_ib_info_number(out, "used devices", count, "");
    btl_ib_info_close(out);
    free(survey);
    return count;
}
