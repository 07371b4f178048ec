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

/* What a device of each transport is taken to be, as none need be there. */
static const struct {
    const char *name; /* of its wire, or of the transport if that has only one */
    btl_ib_transport_attr_t attr;
} kinds[] = {
    /* Ethernet with its usual MTU of 1500 */
    {"udp", {.max_datagram = 1472}},
    {"ofi", {.max_datagram = 1472, .rx_depth = UINT32_MAX, .tx_depth = 256}},
    {"ud", {.max_datagram = 4096, .registered_page = 4096}},
    {"rc",
     {.max_datagram = 1 << 20,
      .registered_page = 4096,
      .reliable = true,
      .rdma = true,
      .shared_max = UINT32_MAX}},
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* What a process takes with one of the strings, over one transport. */
typedef struct cost {
    btl_ib_device_plan_t plan; /* without what only a device tells */
    btl_ib_memory_estimate_t estimate;
} cost_t;

/* What is asked, and what is found. */
typedef struct memory {
    const btl_ib_process_sizes_t *sizes;
    const btl_ib_info_args_t *args;
    uint32_t peers;
    btl_ib_info_out_t out;
    btl_ib_queue_table_t queues[BTL_IB_INFO_QUEUES_MAX];
    cost_t costs[BTL_IB_INFO_QUEUES_MAX]; /* of one transport: a column of its table each */
} memory_t;

/* NULL: it was not built in, or is not asked for. */
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

/* ---- facts ---- */

static void print_cost(memory_t *memory, int kind, const char *spec, const cost_t *cost)
{
    const btl_ib_memory_estimate_t *estimate = &cost->estimate;
    btl_ib_info_out_t *out = &memory->out;
    char text[512];

    snprintf(text, sizeof(text), "memory %s %s", kinds[kind].name, spec);
    btl_ib_info_open(out, NULL, '{', text);
    btl_ib_info_json_text(out, "transport", kinds[kind].name);
    btl_ib_info_json_text(out, "string", spec);
    btl_ib_queues_format(&cost->plan.queues, text, sizeof(text));
    btl_ib_info_text(out, "queues", text);
    btl_ib_info_number(out, "peers", memory->peers, "");
    for (int i = 0; i < BTL_IB_ESTIMATE_OWNERS; ++i) {
        btl_ib_info_number(out, btl_ib_estimate_owners[i], estimate->all[i].held, "bytes");
        snprintf(text, sizeof(text), "%s at most", btl_ib_estimate_owners[i]);
        btl_ib_info_number(out, text, estimate->all[i].most, "bytes");
    }
    btl_ib_info_number(
        out, "node", estimate->all[BTL_IB_ESTIMATE_PROCESS].held * memory->args->per_node, "bytes");
    btl_ib_info_open(out, "parts", '[', "");
    for (uint32_t i = 0; i < estimate->count; ++i) {
        const btl_ib_estimate_part_t *part = &estimate->part[i];
        const char *owner = btl_ib_estimate_owners[part->owner];

        snprintf(text, sizeof(text), "part %s, %s:", owner, part->what);
        btl_ib_info_open(out, NULL, '{', text);
        btl_ib_info_json_text(out, "owner", owner);
        btl_ib_info_json_text(out, "what", part->what);
        btl_ib_info_number(out, "held", part->bytes.held, "bytes");
        btl_ib_info_number(out, "most", part->bytes.most, "bytes");
        btl_ib_info_close(out);
    }
    btl_ib_info_close(out);
    btl_ib_info_close(out);
}

/* ---- tables: a column for each string, a row for each part that any of them has ---- */

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

/* The first of these strings that has such a part; NULL: none has. */
static const btl_ib_estimate_part_t *find_part(const cost_t *costs, uint32_t strings,
                                               const btl_ib_estimate_part_t *like)
{
    for (uint32_t i = 0; i < strings; ++i) {
        for (uint32_t p = 0; p < costs[i].estimate.count; ++p) {
            const btl_ib_estimate_part_t *part = &costs[i].estimate.part[p];

            if (part->owner == like->owner && strcmp(part->what, like->what) == 0) {
                return part;
            }
        }
    }
    return NULL;
}

/* What each string takes `times` over: of such a part, or with `part` NULL of all of `owner`. */
static void print_row(const memory_t *memory, const char *name, btl_ib_estimate_owner_t owner,
                      const btl_ib_estimate_part_t *part, uint64_t times)
{
    printf("%-52s", name);
    for (uint32_t i = 0; i < memory->args->queue_count; ++i) {
        const cost_t *cost = &memory->costs[i];
        const btl_ib_estimate_part_t *own = part != NULL ? find_part(cost, 1, part) : NULL;
        const btl_ib_estimate_bytes_t *bytes =
            own != NULL ? &own->bytes : &cost->estimate.all[owner];
        char held[32] = "-";
        char most[32] = "-";

        if (part == NULL || own != NULL) {
            show_bytes(times * bytes->held, held, sizeof(held));
            show_bytes(times * bytes->most, most, sizeof(most));
        }
        printf(" %11s %11s", held, most);
    }
    putchar('\n');
}

/* Of one transport. */
static void print_table(const memory_t *memory, int kind)
{
    const btl_ib_info_args_t *args = memory->args;
    char text[512];

    printf("\n%s\n", kinds[kind].name);
    for (uint32_t i = 0; i < args->queue_count; ++i) {
        btl_ib_queues_format(&memory->costs[i].plan.queues, text, sizeof(text));
        printf("  %c: %s, that is %s\n", 'A' + (char) i, args->queues[i], text);
    }
    printf("%-52s", "");
    for (uint32_t i = 0; i < args->queue_count; ++i) {
        printf("       %c now     at most", 'A' + (char) i);
    }
    putchar('\n');
    for (int owner = 0; owner < BTL_IB_ESTIMATE_OWNERS; ++owner) {
        print_row(memory, btl_ib_estimate_owners[owner], (btl_ib_estimate_owner_t) owner, NULL, 1);
        for (uint32_t i = 0; i < args->queue_count; ++i) {
            for (uint32_t p = 0; p < memory->costs[i].estimate.count; ++p) {
                const btl_ib_estimate_part_t *part = &memory->costs[i].estimate.part[p];

                if ((int) part->owner == owner && find_part(memory->costs, i, part) == NULL) {
                    snprintf(text, sizeof(text), "  %s", part->what);
                    print_row(memory, text, part->owner, part, 1);
                }
            }
        }
    }
    snprintf(text, sizeof(text), "node, %" PRIu64 " process%s", args->per_node,
             args->per_node == 1 ? "" : "es");
    print_row(memory, text, BTL_IB_ESTIMATE_PROCESS, NULL, args->per_node);
}

static void print_costs(memory_t *memory)
{
    const btl_ib_info_args_t *args = memory->args;

    if (args->form == BTL_IB_INFO_TABLES) {
        printf("What a process takes with %u peer%s: now, once messages went over each queue, and"
               " at most\n",
               memory->peers, memory->peers == 1 ? "" : "s");
    }
    btl_ib_info_open(&memory->out, "memory", '[', "");
    for (int kind = 0; kind < KINDS; ++kind) {
        const btl_ib_transport_type_t *type = type_of(args, kind);

        for (uint32_t i = 0; i < args->queue_count && type != NULL; ++i) {
            cost_t *cost = &memory->costs[i];

            memset(cost, 0, sizeof(*cost));
            btl_ib_device_plan_for(memory->sizes->params, &kinds[kind].attr, &memory->queues[i],
                                   &cost->plan);
            btl_ib_device_memory_estimate(memory->sizes, type, &cost->plan, memory->peers,
                                          &cost->estimate);
            if (args->form != BTL_IB_INFO_TABLES) {
                print_cost(memory, kind, args->queues[i], cost);
            }
        }
        if (args->form == BTL_IB_INFO_TABLES && type != NULL) {
            print_table(memory, kind);
        }
    }
    btl_ib_info_close(&memory->out);
}

/* ---- a budget ---- */

static int print_suggestions(memory_t *memory)
{
    const btl_ib_info_args_t *args = memory->args;
    btl_ib_device_plan_t *plan = &memory->costs[0].plan;
    btl_ib_info_out_t *out = &memory->out;
    int status = EXIT_SUCCESS;

    if (args->form == BTL_IB_INFO_TABLES) {
        char text[32];

        show_bytes(args->budget, text, sizeof(text));
        printf("%sQueues with which a process with %u peer%s takes no more than %s\n",
               args->queue_count > 0 ? "\n" : "", memory->peers, memory->peers == 1 ? "" : "s",
               text);
    }
    btl_ib_info_open(out, "suggestions", '[', "");
    for (int kind = 0; kind < KINDS; ++kind) {
        const btl_ib_transport_type_t *type = type_of(args, kind);
        btl_ib_memory_max_info_t best;
        btl_ib_queues_error_t error;
        btl_ib_queue_table_t table;
        char prefix[32];

        if (type == NULL || btl_ib_queues_parse(type->default_queues, &table, &error) != 0) {
            continue;
        }
        btl_ib_device_plan_for(memory->sizes->params, &kinds[kind].attr, &table, plan);
        plan->queues.count = 0; /* nobody asked for them: the first that fit */
        best = btl_ib_memory_max_fit(memory->sizes, type, memory->peers, args->budget, plan);
        if (best.taken > args->budget) {
            fprintf(stderr,
                    "ib_info: %s: with %u peers no queues fit into %" PRIu64 " bytes of a process; "
                    "the least takes %" PRIu64 "\n",
                    kinds[kind].name, memory->peers, args->budget, best.taken);
            status = EXIT_FAILURE;
            continue;
        }
        if (args->form == BTL_IB_INFO_TABLES) {
            show_bytes(best.taken, prefix, sizeof(prefix));
            printf("%-4s %11s  %s\n", kinds[kind].name, prefix, best.spec);
            continue;
        }
        snprintf(prefix, sizeof(prefix), "suggestion %s", kinds[kind].name);
        btl_ib_info_open(out, NULL, '{', prefix);
        btl_ib_info_json_text(out, "transport", kinds[kind].name);
        btl_ib_info_text(out, "queues", best.spec);
        btl_ib_info_number(out, "process", best.taken, "bytes");
        btl_ib_info_close(out);
    }
    btl_ib_info_close(out);
    return status;
}

int btl_ib_info_memory(const btl_ib_process_sizes_t *sizes, const btl_ib_info_args_t *args)
{
    memory_t *memory = calloc(1, sizeof(*memory));
    bool ok = true;

    if (memory == NULL) {
        return EXIT_FAILURE;
    }
    memory->sizes = sizes;
    memory->args = args;
    memory->peers = args->processes > 0 ? (uint32_t) args->processes - 1 : 1;
    btl_ib_info_begin(&memory->out, args->form);
    for (uint32_t i = 0; i < args->queue_count && ok; ++i) {
        ok = parse(args->queues[i], &memory->queues[i]);
    }
    if (ok && args->queue_count > 0) {
        print_costs(memory);
    }
    if (ok && args->budget > 0) {
        ok = print_suggestions(memory) == EXIT_SUCCESS;
    }
    btl_ib_info_close(&memory->out);
    free(memory);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
