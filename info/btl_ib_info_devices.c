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

/* ---- output ---- */

enum { DEPTH = 6 }; /* objects and lists within each other */

typedef struct out {
    btl_ib_info_form_t form;
    bool after_facts; /* tables: what was printed last are facts of a block */
    uint32_t depth;
    bool any[DEPTH];      /* is something in it already? */
    char closing[DEPTH];  /* bracket */
    size_t before[DEPTH]; /* length of the prefix around it */
    char prefix[640];     /* of a line of text */
} out_t;

static void quoted(const char *text)
{
    putchar('"');
    for (; *text != '\0'; ++text) {
        const unsigned char c = (unsigned char) *text;

        if (c == '"' || c == '\\') {
            printf("\\%c", c);
        } else if (c < ' ' || c > '~') { /* bytes beyond ASCII may be no UTF-8 */
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

/* What stands before a value in JSON. */
static void next(out_t *out, const char *name)
{
    if (out->any[out->depth]) {
        putchar(',');
    }
    printf("\n%*s", (int) (2 * out->depth + 2), "");
    out->any[out->depth] = true;
    if (name != NULL) {
        char word[64];

        snprintf(word, sizeof(word), "%s", name);
        for (char *c = word; *c != '\0'; ++c) {
            *c = *c == ' ' ? '_' : *c;
        }
        quoted(word);
        fputs(": ", stdout);
    }
}

/* Begin an object or a list, in a list (`name` NULL) or in an object. `prefix` is what lines of
 * text say of it; "": nothing. */
static void begin_level(out_t *out, const char *name, char opening, char closing,
                        const char *prefix)
{
    const size_t len = strlen(out->prefix);

    if (out->form == BTL_IB_INFO_JSON) {
        next(out, name);
        putchar(opening);
    }
    ++out->depth;
    out->any[out->depth] = false;
    out->closing[out->depth] = closing;
    out->before[out->depth] = len;
    if (prefix[0] != '\0') {
        snprintf(out->prefix + len, sizeof(out->prefix) - len, "%s ", prefix);
    }
}

static void out_list(out_t *out, const char *name)
{
    begin_level(out, name, '[', ']', "");
}

static void out_object(out_t *out, const char *name, const char *prefix)
{
    begin_level(out, name, '{', '}', prefix);
}

/* End the innermost of them. */
static void out_end(out_t *out)
{
    const bool any = out->any[out->depth];
    const char closing = out->closing[out->depth];

    out->prefix[out->before[out->depth]] = '\0';
    --out->depth;
    if (out->form == BTL_IB_INFO_JSON) {
        if (any) {
            printf("\n%*s", (int) (2 * out->depth + 2), "");
        }
        putchar(closing);
    }
}

static void begin_output(out_t *out, btl_ib_info_form_t form)
{
    *out = (out_t){.form = form};
    if (form == BTL_IB_INFO_JSON) {
        putchar('{');
    }
}

static void end_output(const out_t *out)
{
    if (out->form == BTL_IB_INFO_JSON) {
        fputs("\n}\n", stdout);
    }
}

/* A fact of lines and tables. Those within two levels belong to a block, whose heading has the
 * names of what is around them. */
static void line(const out_t *out, const char *name, const char *value)
{
    if (out->form == BTL_IB_INFO_LINES) {
        printf("%s%s: %s\n", out->prefix, name, value);
    } else if (out->depth < 2) {
        const int width = 22 - (int) strlen(out->prefix);

        printf("%s%-*s%s\n", out->prefix, width > 0 ? width : 0, name, value);
    } else {
        printf("  %-11s%s\n", name, value);
    }
}

/* What only JSON has, as it is in the prefix of text; in a list `name` is NULL. */
static void out_json_text(out_t *out, const char *name, const char *value)
{
    if (out->form == BTL_IB_INFO_JSON) {
        next(out, name);
        quoted(value);
    }
}

/* A fact. `name` is a word; in JSON its blanks become '_'. */
static void out_text(out_t *out, const char *name, const char *value)
{
    if (out->form == BTL_IB_INFO_JSON) {
        out_json_text(out, name, value);
    } else {
        line(out, name, value);
    }
}

static void info_bool(out_t *out, const char *name, bool value)
{
    if (out->form == BTL_IB_INFO_JSON) {
        next(out, name);
        fputs(value ? "true" : "false", stdout);
    } else {
        line(out, name, value ? "yes" : "no");
    }
}

/* The same with a number, and its unit in text ("": none). JSON has the number alone. */
static void out_number(out_t *out, const char *name, uint64_t value, const char *unit)
{
    if (out->form == BTL_IB_INFO_JSON) {
        next(out, name);
        printf("%" PRIu64, value);
    } else {
        char text[64];

        snprintf(text, sizeof(text), "%" PRIu64 "%s%s", value, unit[0] != '\0' ? " " : "", unit);
        line(out, name, text);
    }
}

/* Something that is not known: "unknown", null in JSON. */
static void info_unknown(out_t *out, const char *name)
{
    if (out->form == BTL_IB_INFO_JSON) {
        next(out, name);
        fputs("null", stdout);
    } else if (out->form == BTL_IB_INFO_LINES) {
        line(out, name, "unknown");
    }
}

/* A line that only tables have, of a block of facts the first; an empty line is around blocks. */
static void out_heading(out_t *out, const char *text, bool has_facts)
{
    if (out->form == BTL_IB_INFO_TABLES) {
        printf("%s%s\n", has_facts || out->after_facts ? "\n" : "", text);
        out->after_facts = has_facts;
    }
}

/* What a job would do, and what is looked at by the way. */
typedef struct survey {
    out_t out;
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

static void print_address(out_t *out, const btl_ib_device_t *device)
{
    char text[INET6_ADDRSTRLEN + 8];

    (void) btl_ib_ip_text((const struct sockaddr *) (const void *) &device->ip, text, sizeof(text));
    if (device->ip.ss_family != AF_UNSPEC) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "/%u", device->prefix_bits);
    }
    out_text(out, "address", text);
}

static void print_number(out_t *out, const char *name, uint64_t value, const char *unit)
{
    if (value != 0) {
        out_number(out, name, value, unit);
    } else {
        info_unknown(out, name);
    }
}

static void print_word(out_t *out, const char *name, const char *value)
{
    if (value[0] != '\0') {
        out_text(out, name, value);
    } else {
        info_unknown(out, name);
    }
}

static void print_facts(survey_t *survey, const btl_ib_transport_type_t *type,
                        const btl_ib_device_t *device)
{
    const int node = btl_ib_near_devices_node(&survey->near, device);
    out_t *out = &survey->out;
    btl_ib_facts_t facts;
    char text[32];

    type->facts(device, &facts);
    print_address(out, device);
    out_text(out, "interface", device->interface[0] != '\0' ? device->interface : "none");
    if (device->provider[0] != '\0' && type->wire == NULL) {
        out_text(out, "provider", device->provider);
    }
    print_word(out, "driver", facts.driver);
    print_word(out, "firmware", facts.firmware);
    print_number(out, "mtu", facts.mtu, "bytes");
    print_number(out, "speed", facts.speed != 0 ? facts.speed : device->bandwidth, "Mbit/s");
    if (node >= 0) {
        out_number(out, "numa", (uint64_t) node, "");
    } else {
        info_unknown(out, "numa");
    }
    if (device->vendor_id != 0) {
        snprintf(text, sizeof(text), "0x%x", device->vendor_id);
        out_text(out, "vendor", text);
        snprintf(text, sizeof(text), "0x%x", device->part_id);
        out_text(out, "part", text);
    }
}

static void print_plan(out_t *out, const btl_ib_device_plan_t *plan)
{
    char text[512];

    out_number(out, "datagram", plan->attr.max_datagram, "bytes");
    btl_ib_queues_format(&plan->queues, text, sizeof(text));
    out_text(out, "queues", text);
}

/* Tables have it in the heading. */
static void print_use(out_t *out, const char *why_not, uint32_t rail)
{
    if (out->form == BTL_IB_INFO_TABLES) {
        return;
    }
    info_bool(out, "used", why_not[0] == '\0');
    if (why_not[0] == '\0') {
        out_number(out, "rail", rail, "");
    } else {
        out_text(out, "reason", why_not);
    }
}

/* `why_not`: "" if it is used, as rail `rail`. */
static void begin_device(out_t *out, const btl_ib_transport_type_t *type, const char *name,
                         bool has_facts, const char *why_not, uint32_t rail)
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
    out_heading(out, heading, has_facts);
    out_object(out, NULL, prefix);
    out_json_text(out, "transport", type->name);
    out_json_text(out, "wire", wire);
    out_json_text(out, "name", name);
}

/* ---- devices ---- */

/* A device that the type listed. `reason`: why it was not selected; NULL: it was. */
static void print_device(survey_t *survey, const btl_ib_transport_type_t *type,
                         const btl_ib_device_t *device, const char *reason)
{
    const uint32_t rail = rail_of(survey, device);
    out_t *out = &survey->out;
    btl_ib_device_plan_t plan;
    char why_not[192] = "";
    bool planned;

    planned = btl_ib_device_plan(&survey->wishes, type, device, 0, &plan);
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
        print_plan(out, &plan);
    }
    print_use(out, why_not, rail);
    out_end(out);
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
        out_end(&survey->out);
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

static void print_transports(out_t *out)
{
    char text[160] = "";

    out_list(out, "transports");
    for (size_t i = 0; btl_ib_transport_types[i] != NULL; ++i) {
        const btl_ib_transport_type_t *type = btl_ib_transport_types[i];
        const size_t len = strlen(text);
        char name[32];

        snprintf(name, sizeof(name), "%s%s%s", type->name, type->wire != NULL ? "/" : "",
                 type->wire != NULL ? type->wire : "");
        out_json_text(out, NULL, name);
        snprintf(text + len, sizeof(text) - len, "%s%s", i > 0 ? ", " : "", name);
    }
    out_end(out);
    if (out->form != BTL_IB_INFO_JSON) {
        out_text(out, "transports", text);
    }
}

/* "libfabric: built with 1.17, running 1.17" of each library. */
static void print_libraries(out_t *out)
{
    void (*last)(bool load, char *text, size_t len) = NULL; /* of neighbours of one library */
    char text[256];

    out_object(out, "libraries", "library");
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
            out_text(out, text, colon + 2);
        }
    }
    snprintf(text, sizeof(text), "none: ");
    out_text(out, "cryptography",
             btl_ib_aead_available(text + strlen(text), sizeof(text) - strlen(text)) ? "libcrypto"
                                                                                     : text);
    out_end(out);
}

static void print_build(out_t *out)
{
    out_text(out, "version", BTL_IB_VERSION);
    out_object(out, "openmpi", "openmpi");
    out_text(out, "built for", BTL_IB_BUILT_FOR_VERSION);
    out_text(out, "running", opal_version_string);
    out_end(out);
    print_transports(out);
    print_libraries(out);
}

uint32_t btl_ib_info_devices(btl_ib_info_form_t form, const btl_ib_process_sizes_t *sizes,
                             uint32_t processes)
{
    const btl_ib_params_t *params = sizes->params;
    const bool never = false;
    survey_t *survey = calloc(1, sizeof(*survey));
    out_t *out;
    uint32_t count = 0;

    if (survey == NULL) {
        return 0;
    }
    out = &survey->out;
    begin_output(out, form);
    print_build(out);
    survey->params = params;
    btl_ib_log_init(&survey->log, &never, true);
    btl_ib_near_devices_init(&survey->near, params, &survey->rejected);
    open_as_a_job(survey, sizes, processes);
    out_list(out, "devices");
    /* What is wrong with parameters was told when devices were opened, or before. */
    if (btl_ib_device_wishes_read(&survey->wishes, params, processes, UINT32_MAX)) {
        for (size_t i = 0; btl_ib_transport_types[i] != NULL; ++i) {
            survey_type(survey, btl_ib_transport_types[i]);
        }
    }
    btl_ib_near_devices_fini(&survey->near);
    out_end(out);
    count = survey->count;
    out_heading(out, "", false);
    out_number(out, "used devices", count, "");
    end_output(out);
    free(survey);
    return count;
}

/* ---- memory ---- */

/* What a device of each transport is taken to be, as none need be there. */
static const struct {
    const char *name; /* for people */
    const char *transport;
    const char *wire; /* NULL: it has no other */
    btl_ib_transport_attr_t attr;
} kinds[] = {
    /* Ethernet with its usual MTU of 1500 */
    {"udp", "udp", NULL, {.max_datagram = 1472}},
    {"ofi", "ofi", NULL, {.max_datagram = 1472, .rx_depth = UINT32_MAX, .tx_depth = 256}},
    {"ud", "verbs", "ud", {.max_datagram = 4096, .registered_page = 4096}},
    {"rc",
     "verbs",
     "rc",
     {.max_datagram = 1 << 20,
      .registered_page = 4096,
      .reliable = true,
      .rdma = true,
      .shared_max = UINT32_MAX}},
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static const char *const owners[BTL_IB_ESTIMATE_OWNERS] = {"process", "kernel", "device"};

/* Something that was computed. */
typedef struct cost {
    btl_ib_device_plan_t plan; /* without what only a device tells */
    btl_ib_memory_estimate_t estimate;
} cost_t;

static const btl_ib_transport_type_t *type_of(int kind)
{
    const btl_ib_transport_type_t *const *type = btl_ib_transport_types;

    while (*type != NULL
           && (strcmp((*type)->name, kinds[kind].transport) != 0
               || (kinds[kind].wire != NULL && strcmp((*type)->wire, kinds[kind].wire) != 0))) {
        ++type;
    }
    return *type;
}

static bool wanted(const btl_ib_info_args_t *args, int kind)
{
    return type_of(kind) != NULL
           && (args->transport == NULL || strcmp(args->transport, kinds[kind].name) == 0
               || strcmp(args->transport, kinds[kind].transport) == 0);
}

static uint32_t peers_of(const btl_ib_info_args_t *args)
{
    return args->processes > 0 ? args->processes - 1 : 1;
}

/* ---- computing ---- */

/* Parse queues of the user's. Returns false after an error. */
static bool parse(const char *spec, btl_ib_queue_table_t *table)
{
    btl_ib_queues_error_t error;

    if (btl_ib_queues_parse(spec, table, &error) == 0) {
        return true;
    }
    fprintf(stderr, "ib_info: --queues %s: queue %u, %s \"%s\": %s\n", spec, error.queue,
            error.field, error.value, error.expected);
    return false;
}

/* What a process takes with these queues, in a job with so many peers. */
static void compute(const btl_ib_process_sizes_t *sizes, int kind,
                    const btl_ib_queue_table_t *table, uint32_t peers, cost_t *cost)
{
    memset(cost, 0, sizeof(*cost));
    btl_ib_device_plan_for(sizes->params, &kinds[kind].attr, table, &cost->plan);
    btl_ib_device_memory_estimate(sizes, type_of(kind), &cost->plan, peers, &cost->estimate);
}

/* ---- printing ---- */

static void print_cost(out_t *out, const btl_ib_info_args_t *args, int kind, const char *spec,
                       const cost_t *cost)
{
    const uint64_t held = btl_ib_estimate_held(&cost->estimate, BTL_IB_ESTIMATE_PROCESS);
    char text[512];

    snprintf(text, sizeof(text), "memory %s %s", kinds[kind].name, spec);
    out_object(out, NULL, text);
    out_json_text(out, "transport", kinds[kind].name);
    out_json_text(out, "string", spec);
    btl_ib_queues_format(&cost->plan.queues, text, sizeof(text));
    out_text(out, "queues", text);
    out_number(out, "peers", peers_of(args), "");
    for (int i = 0; i < BTL_IB_ESTIMATE_OWNERS; ++i) {
        const btl_ib_estimate_owner_t owner = (btl_ib_estimate_owner_t) i;

        out_number(out, owners[i], btl_ib_estimate_held(&cost->estimate, owner), "bytes");
        snprintf(text, sizeof(text), "%s at most", owners[i]);
        out_number(out, text, btl_ib_estimate_most(&cost->estimate, owner), "bytes");
    }
    out_number(out, "node", held * args->per_node, "bytes");
    out_list(out, "parts");
    for (uint32_t i = 0; i < cost->estimate.count; ++i) {
        const btl_ib_estimate_part_t *part = &cost->estimate.part[i];

        snprintf(text, sizeof(text), "part %s, %s:", owners[part->owner], part->what);
        out_object(out, NULL, text);
        out_json_text(out, "owner", owners[part->owner]);
        out_json_text(out, "what", part->what);
        out_number(out, "held", part->held, "bytes");
        out_number(out, "most", part->most, "bytes");
        out_end(out);
    }
    out_end(out);
    out_end(out);
}

static void print_costs(out_t *out, const btl_ib_info_args_t *args,
                        const btl_ib_process_sizes_t *sizes, const btl_ib_queue_table_t *tables,
                        cost_t *cost)
{
    out_list(out, "memory");
    for (int kind = 0; kind < KINDS; ++kind) {
        for (uint32_t i = 0; i < args->queue_count && wanted(args, kind); ++i) {
            compute(sizes, kind, &tables[i], peers_of(args), cost);
            print_cost(out, args, kind, args->queues[i], cost);
        }
    }
    out_end(out);
}

/* ---- tables ---- */

enum { PARTS_MAX = BTL_IB_INFO_QUEUES_MAX * BTL_IB_ESTIMATE_PARTS };

/* What the strings take of one transport: a column for each, a row for each part that any has. */
typedef struct table {
    cost_t costs[BTL_IB_INFO_QUEUES_MAX];
    const btl_ib_estimate_part_t *rows[PARTS_MAX]; /* the first of that name */
    uint32_t row_count;
} table_t;

/* "1.5 MiB" */
static void show_bytes(uint64_t bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double) bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        ++unit;
    }
    snprintf(out, size, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

static void print_bytes(uint64_t bytes)
{
    char text[32];

    show_bytes(bytes, text, sizeof(text));
    printf(" %11s", text);
}

static const btl_ib_estimate_part_t *part_like(const btl_ib_memory_estimate_t *estimate,
                                               const btl_ib_estimate_part_t *wanted)
{
    for (uint32_t i = 0; i < estimate->count; ++i) {
        const btl_ib_estimate_part_t *part = &estimate->part[i];

        if (part->owner == wanted->owner && strcmp(part->what, wanted->what) == 0) {
            return part;
        }
    }
    return NULL;
}

/* A row for each part, in the order of the strings. */
static void find_rows(table_t *table, uint32_t strings)
{
    table->row_count = 0;
    for (uint32_t i = 0; i < strings; ++i) {
        const btl_ib_memory_estimate_t *estimate = &table->costs[i].estimate;

        for (uint32_t p = 0; p < estimate->count; ++p) {
            bool is_new = true;

            for (uint32_t j = 0; j < i && is_new; ++j) {
                is_new = part_like(&table->costs[j].estimate, &estimate->part[p]) == NULL;
            }
            if (is_new) {
                table->rows[table->row_count++] = &estimate->part[p];
            }
        }
    }
}

static void print_owner(const table_t *table, uint32_t strings, btl_ib_estimate_owner_t owner)
{
    printf("%-52s", owners[owner]);
    for (uint32_t i = 0; i < strings; ++i) {
        print_bytes(btl_ib_estimate_held(&table->costs[i].estimate, owner));
        print_bytes(btl_ib_estimate_most(&table->costs[i].estimate, owner));
    }
    putchar('\n');
    for (uint32_t row = 0; row < table->row_count; ++row) {
        if (table->rows[row]->owner != owner) {
            continue;
        }
        printf("  %-50s", table->rows[row]->what);
        for (uint32_t i = 0; i < strings; ++i) {
            const btl_ib_estimate_part_t *part =
                part_like(&table->costs[i].estimate, table->rows[row]);

            if (part == NULL) {
                printf(" %11s %11s", "-", "-");
            } else {
                print_bytes(part->held);
                print_bytes(part->most);
            }
        }
        putchar('\n');
    }
}

/* Of one transport: all strings side by side. */
static void print_table(const btl_ib_info_args_t *args, int kind, const table_t *table)
{
    const uint32_t strings = args->queue_count;
    char text[512];

    printf("\n%s\n", kinds[kind].name);
    for (uint32_t i = 0; i < strings; ++i) {
        btl_ib_queues_format(&table->costs[i].plan.queues, text, sizeof(text));
        printf("  %c: %s, that is %s\n", 'A' + (char) i, args->queues[i], text);
    }
    printf("%-52s", "");
    for (uint32_t i = 0; i < strings; ++i) {
        snprintf(text, sizeof(text), "%c now", 'A' + (char) i);
        printf(" %11s %11s", text, "at most");
    }
    putchar('\n');
    for (int i = 0; i < BTL_IB_ESTIMATE_OWNERS; ++i) {
        print_owner(table, strings, (btl_ib_estimate_owner_t) i);
    }
    snprintf(text, sizeof(text), "node, %u process%s", args->per_node,
             args->per_node == 1 ? "" : "es");
    printf("%-52s", text);
    for (uint32_t i = 0; i < strings; ++i) {
        const btl_ib_memory_estimate_t *estimate = &table->costs[i].estimate;

        print_bytes(args->per_node * btl_ib_estimate_held(estimate, BTL_IB_ESTIMATE_PROCESS));
        print_bytes(args->per_node * btl_ib_estimate_most(estimate, BTL_IB_ESTIMATE_PROCESS));
    }
    putchar('\n');
}

static int print_tables(const btl_ib_info_args_t *args, const btl_ib_process_sizes_t *sizes,
                        const btl_ib_queue_table_t *queues)
{
    table_t *table = malloc(sizeof(*table));

    if (table == NULL) {
        return EXIT_FAILURE;
    }
    printf("What a process takes with %u peer%s: now, once messages went over each queue, and at"
           " most\n",
           peers_of(args), peers_of(args) == 1 ? "" : "s");
    for (int kind = 0; kind < KINDS; ++kind) {
        if (!wanted(args, kind)) {
            continue;
        }
        for (uint32_t i = 0; i < args->queue_count; ++i) {
            compute(sizes, kind, &queues[i], peers_of(args), &table->costs[i]);
        }
        find_rows(table, args->queue_count);
        print_table(args, kind, table);
    }
    free(table);
    return EXIT_SUCCESS;
}

/* ---- a budget ---- */

static int print_suggestions(out_t *out, const btl_ib_process_sizes_t *sizes,
                             const btl_ib_info_args_t *args, cost_t *cost)
{
    int status = EXIT_SUCCESS;

    if (args->form == BTL_IB_INFO_TABLES) {
        char text[32];

        show_bytes(args->budget, text, sizeof(text));
        printf("%sQueues with which a process with %u peer%s takes no more than %s\n",
               args->queue_count > 0 ? "\n" : "", peers_of(args), peers_of(args) == 1 ? "" : "s",
               text);
    }
    out_list(out, "suggestions");
    for (int kind = 0; kind < KINDS; ++kind) {
        btl_ib_memory_max_info_t best;
        btl_ib_queues_error_t error;
        btl_ib_queue_table_t table;
        char prefix[32];

        if (!wanted(args, kind)
            || btl_ib_queues_parse(type_of(kind)->default_queues, &table, &error) != 0) {
            continue;
        }
        btl_ib_device_plan_for(sizes->params, &kinds[kind].attr, &table, &cost->plan);
        cost->plan.queues.count = 0; /* nobody asked for them: the first that fit */
        best =
            btl_ib_memory_max_fit(sizes, type_of(kind), peers_of(args), args->budget, &cost->plan);
        if (best.taken > args->budget) {
            fprintf(stderr,
                    "ib_info: %s: with %u peers no queues fit into %" PRIu64 " bytes of a process; "
                    "the least takes %" PRIu64 "\n",
                    kinds[kind].name, peers_of(args), args->budget, best.taken);
            status = EXIT_FAILURE;
            continue;
        }
        if (args->form == BTL_IB_INFO_TABLES) {
            show_bytes(best.taken, prefix, sizeof(prefix));
            printf("%-4s %11s  %s\n", kinds[kind].name, prefix, best.spec);
            continue;
        }
        snprintf(prefix, sizeof(prefix), "suggestion %s", kinds[kind].name);
        out_object(out, NULL, prefix);
        out_json_text(out, "transport", kinds[kind].name);
        out_text(out, "queues", best.spec);
        out_number(out, "process", best.taken, "bytes");
        out_end(out);
    }
    out_end(out);
    return status;
}

int btl_ib_info_memory(const btl_ib_process_sizes_t *sizes, const btl_ib_info_args_t *args)
{
    cost_t *cost = malloc(sizeof(*cost));
    out_t out;
    btl_ib_queue_table_t tables[BTL_IB_INFO_QUEUES_MAX];
    int status = cost != NULL ? EXIT_SUCCESS : EXIT_FAILURE;

    begin_output(&out, args->form);
    for (uint32_t i = 0; i < args->queue_count && status == EXIT_SUCCESS; ++i) {
        status = parse(args->queues[i], &tables[i]) ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    if (status == EXIT_SUCCESS && args->queue_count > 0) {
        if (args->form == BTL_IB_INFO_TABLES) {
            status = print_tables(args, sizes, tables);
        } else {
            print_costs(&out, args, sizes, tables, cost);
        }
    }
    if (status == EXIT_SUCCESS && args->budget > 0) {
        status = print_suggestions(&out, sizes, args, cost);
    }
    end_output(&out);
    free(cost);
    return status;
}
