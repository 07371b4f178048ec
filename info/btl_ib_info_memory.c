/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_info_memory.h"

#include "btl_ib_receive_queues.h"
#include "device_filter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A typical device of each transport, as none need be there. */
static const struct {
    const char *name; /* of its wire, or of the transport if that has only one */
    btl_ib_transport_attr_t attr;
} kinds[] = {
    /* Ethernet with its usual MTU of 1500 */
    {"udp", {.max_datagram = 1472}},
    {"ofi", {.max_datagram = 1472, .rx_depth = UINT32_MAX, .tx_depth = UINT32_MAX}},
    {"ud", {.max_datagram = 4096, .registered_page = 4096}},
    {"rc",
     {.max_datagram = 1 << 20,
      .registered_page = 4096,
      .reliable = true,
      .rdma = true,
      .shared_max = UINT32_MAX}},
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* The memory that a process takes with some queues, over one transport. */
typedef struct cost {
    btl_ib_device_plan_t plan; /* without what only a device tells */
    btl_ib_memory_estimate_t estimate;
} cost_t;

/* The question, and what is found. */
typedef struct memory {
    const btl_ib_process_sizes_t *sizes;
    const btl_ib_info_args_t *args;
    uint32_t peers;
    btl_ib_info_out_t out;
    btl_ib_queue_table_t queues[BTL_IB_INFO_QUEUES_MAX];
    cost_t cost; /* of one of them */
} memory_t;

/* Returns a transport; NULL: it was not built in, or is not asked for. */
static const btl_ib_transport_type_t *type_of(const btl_ib_info_args_t *args, int kind)
{
    const btl_ib_transport_type_t *const *type = btl_ib_transport_types;

    while (*type != NULL
           && strcmp((*type)->wire != NULL ? (*type)->wire : (*type)->name, kinds[kind].name)
                  != 0) {
        ++type;
    }
    return *type != NULL
                   && (args->transport == NULL || strcmp(args->transport, kinds[kind].name) == 0
                       || strcmp(args->transport, (*type)->name) == 0)
               ? *type
               : NULL;
}

/* Parses queues of the user's. Returns false after an error. */
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

/* ---- costs ---- */

enum { NAME_WIDTH = 60, SUGGESTION_WIDTH = 11, SPEC_MAX = 400 };

/* Prints how many bytes are taken, once messages went over each queue, and at most: for people in
 * one row, `name`; else in lines, `held` and `most`. */
static void print_bytes(const btl_ib_info_out_t *out, const char *name, const char *held,
                        const char *most, const btl_ib_estimate_bytes_t *bytes)
{
    char text[64], now[32], then[32];

    if (out->parsable) {
        btl_ib_info_number(out, held, bytes->held, "bytes");
        btl_ib_info_number(out, most, bytes->most, "bytes");
        return;
    }
    snprintf(text, sizeof(text), "%11s %11s", btl_ib_info_size(bytes->held, now, sizeof(now)),
             btl_ib_info_size(bytes->most, then, sizeof(then)));
    btl_ib_info_text(out, name, text);
}

/* Prints what `queues` take over one transport. */
static void print_cost(memory_t *memory, const btl_ib_transport_type_t *type, int kind,
                       const btl_ib_queue_table_t *queues, const char *spec)
{
    const uint64_t per_node = memory->args->per_node;
    const uint32_t busy = (uint32_t) memory->args->busy;
    btl_ib_memory_estimate_t *estimate = &memory->cost.estimate;
    btl_ib_info_out_t *out = &memory->out;
    btl_ib_estimate_bytes_t node;
    char subject[512], text[512], most[512];

    memset(&memory->cost, 0, sizeof(memory->cost));
    btl_ib_device_plan_for(memory->sizes->params, &kinds[kind].attr, queues, busy,
                           &memory->cost.plan);
    btl_ib_device_memory_estimate(memory->sizes, type, &memory->cost.plan, memory->peers, estimate);
    snprintf(subject, sizeof(subject), "memory %s %s", kinds[kind].name, spec);
    snprintf(text, sizeof(text), "%-*.*s%13s %11s", NAME_WIDTH, SPEC_MAX,
             subject + strlen("memory "), "now", "at most");
    btl_ib_info_begin(out, subject, text, NAME_WIDTH);
    btl_ib_queues_format(&memory->cost.plan.queues, text, sizeof(text));
    btl_ib_info_text(out, "queues", text);
    if (btl_ib_queues_without_effect(spec, queues, type, memory->sizes->params, text, sizeof(text))
        > 0) {
        btl_ib_info_text(out, "no effect", text);
    }
    btl_ib_info_number(out, "peers", memory->peers, "");
    if (busy > 0) {
        btl_ib_info_number(out, "busy", busy, "");
    }
    btl_ib_info_number(out, "endpoints", estimate->endpoints, "");
    if (estimate->completion_queues > 0) {
        btl_ib_info_number(out, "completion queues", estimate->completion_queues, "");
    }
    for (int i = 0; i < BTL_IB_ESTIMATE_OWNERS; ++i) {
        const char *owner = btl_ib_estimate_owners[i];

        snprintf(most, sizeof(most), "%s at most", owner);
        print_bytes(out, owner, owner, most, &estimate->all[i]);
    }
    node = estimate->all[BTL_IB_ESTIMATE_PROCESS];
    node.held *= per_node;
    node.most *= per_node;
    print_bytes(out, "node", "node", "node at most", &node);
    for (uint32_t i = 0; i < estimate->count; ++i) {
        const btl_ib_estimate_part_t *part = &estimate->part[i];
        char name[256], held[300];

        snprintf(name, sizeof(name), "part %s, %s", btl_ib_estimate_owners[part->owner],
                 part->what);
        snprintf(held, sizeof(held), "%s: held", name);
        snprintf(most, sizeof(most), "%s: most", name);
        print_bytes(out, name, held, most, &part->bytes);
    }
    btl_ib_info_end(out);
}

/* ---- a budget ---- */

/* Prints queues of one transport that fit. Returns false after an error. */
static bool suggest(memory_t *memory, const btl_ib_transport_type_t *type, int kind)
{
    const uint64_t budget = memory->args->budget;
    btl_ib_device_plan_t *plan = &memory->cost.plan;
    btl_ib_info_out_t *out = &memory->out;
    btl_ib_queue_table_t table;
    btl_ib_memory_max_info_t best;
    char subject[32], heading[128], text[32];

    if (!parse(type->default_queues, &table)) {
        return false;
    }
    btl_ib_device_plan_for(memory->sizes->params, &kinds[kind].attr, &table,
                           (uint32_t) memory->args->busy, plan);
    plan->queues.count = 0; /* nobody asked for them: the first that fit */
    best = btl_ib_memory_max_fit(memory->sizes, type, memory->peers, budget, plan);
    if (best.taken > budget) {
        fprintf(stderr,
                "ib_info: %s: with %u peers no queues fit into %" PRIu64 " bytes of a process; "
                "the least takes %" PRIu64 "\n",
                kinds[kind].name, memory->peers, budget, best.taken);
        return false;
    }
    snprintf(subject, sizeof(subject), "suggestion %s", kinds[kind].name);
    snprintf(heading, sizeof(heading), "%s: a process with %u peer%s takes %s", kinds[kind].name,
             memory->peers, memory->peers == 1 ? "" : "s",
             btl_ib_info_size(best.taken, text, sizeof(text)));
    btl_ib_info_begin(out, subject, heading, SUGGESTION_WIDTH);
    btl_ib_info_text(out, "queues", best.spec);
    btl_ib_info_number(out, "process", best.taken, "bytes");
    btl_ib_info_end(out);
    return true;
}

int btl_ib_info_memory(const btl_ib_process_sizes_t *sizes, const btl_ib_info_args_t *args)
{
    memory_t *memory = calloc(1, sizeof(*memory));
    bool ok = true;
    bool parsed;

    if (memory == NULL) {
        return EXIT_FAILURE;
    }
    memory->sizes = sizes;
    memory->args = args;
    memory->peers = args->processes > 0 ? (uint32_t) args->processes - 1 : 1;
    memory->out.parsable = args->parsable;
    for (uint32_t i = 0; i < args->queue_count && ok; ++i) {
        ok = parse(args->queues[i], &memory->queues[i]);
    }
    parsed = ok;
    for (int kind = 0; kind < KINDS && parsed; ++kind) {
        const btl_ib_transport_type_t *type = type_of(args, kind);

        for (uint32_t i = 0; i < args->queue_count && type != NULL; ++i) {
            print_cost(memory, type, kind, &memory->queues[i], args->queues[i]);
        }
    }
    for (int kind = 0; kind < KINDS && parsed && args->budget > 0; ++kind) {
        const btl_ib_transport_type_t *type = type_of(args, kind);

        ok = (type == NULL || suggest(memory, type, kind)) && ok;
    }
    free(memory);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
