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

static void print_cost(btl_ib_info_out_t *out, const btl_ib_info_args_t *args, int kind,
                       const char *spec, const cost_t *cost)
{
    const uint64_t held = btl_ib_estimate_held(&cost->estimate, BTL_IB_ESTIMATE_PROCESS);
    char text[512];

    snprintf(text, sizeof(text), "memory %s %s", kinds[kind].name, spec);
    btl_ib_info_object(out, NULL, text);
    btl_ib_info_json_text(out, "transport", kinds[kind].name);
    btl_ib_info_json_text(out, "string", spec);
    btl_ib_queues_format(&cost->plan.queues, text, sizeof(text));
    btl_ib_info_text(out, "queues", text);
    btl_ib_info_number(out, "peers", peers_of(args), "");
    for (int i = 0; i < BTL_IB_ESTIMATE_OWNERS; ++i) {
        const btl_ib_estimate_owner_t owner = (btl_ib_estimate_owner_t) i;

        btl_ib_info_number(out, owners[i], btl_ib_estimate_held(&cost->estimate, owner), "bytes");
        snprintf(text, sizeof(text), "%s at most", owners[i]);
        btl_ib_info_number(out, text, btl_ib_estimate_most(&cost->estimate, owner), "bytes");
    }
    btl_ib_info_number(out, "node", held * args->per_node, "bytes");
    btl_ib_info_list(out, "parts");
    for (uint32_t i = 0; i < cost->estimate.count; ++i) {
        const btl_ib_estimate_part_t *part = &cost->estimate.part[i];

        snprintf(text, sizeof(text), "part %s, %s:", owners[part->owner], part->what);
        btl_ib_info_object(out, NULL, text);
        btl_ib_info_json_text(out, "owner", owners[part->owner]);
        btl_ib_info_json_text(out, "what", part->what);
        btl_ib_info_number(out, "held", part->held, "bytes");
        btl_ib_info_number(out, "most", part->most, "bytes");
        btl_ib_info_close(out);
    }
    btl_ib_info_close(out);
    btl_ib_info_close(out);
}

static void print_costs(btl_ib_info_out_t *out, const btl_ib_info_args_t *args,
                        const btl_ib_process_sizes_t *sizes, const btl_ib_queue_table_t *tables,
                        cost_t *cost)
{
    btl_ib_info_list(out, "memory");
    for (int kind = 0; kind < KINDS; ++kind) {
        for (uint32_t i = 0; i < args->queue_count && wanted(args, kind); ++i) {
            compute(sizes, kind, &tables[i], peers_of(args), cost);
            print_cost(out, args, kind, args->queues[i], cost);
        }
    }
    btl_ib_info_close(out);
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

static int print_suggestions(btl_ib_info_out_t *out, const btl_ib_process_sizes_t *sizes,
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
    btl_ib_info_list(out, "suggestions");
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
        btl_ib_info_object(out, NULL, prefix);
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
    cost_t *cost = malloc(sizeof(*cost));
    btl_ib_info_out_t out;
    btl_ib_queue_table_t tables[BTL_IB_INFO_QUEUES_MAX];
    int status = cost != NULL ? EXIT_SUCCESS : EXIT_FAILURE;

    btl_ib_info_begin(&out, args->form);
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
    btl_ib_info_end(&out);
    free(cost);
    return status;
}
