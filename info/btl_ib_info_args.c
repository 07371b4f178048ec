/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_info_args.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "btl_ib_param_values.h"

enum { PROCESSES_MAX = 1 << 24 };

/* A number of an option. Returns false after an error. */
static bool number(const char *option, const char *text, const btl_ib_value_range_t *range,
                   uint64_t *value)
{
    const char *problem = btl_ib_value_number(text, range, value);
    char shown[64];

    if (NULL == problem) {
        return true;
    }
    btl_ib_value_show(text, shown, sizeof(shown));
    fprintf(stderr, "ib_info: --%s %s: %s; %lld to %llu were right%s\n", option, shown, problem,
            (long long) range->low, (unsigned long long) range->high,
            btl_ib_value_unit_help(range->unit));
    return false;
}

static bool processes(const char *option, const char *text, uint32_t *count)
{
    static const btl_ib_value_range_t range = {BTL_IB_VALUE_COUNT, 1, PROCESSES_MAX};
    uint64_t value = 0;
    const bool ok = number(option, text, &range, &value);

    *count = (uint32_t) value;
    return ok;
}

static bool add_queues(btl_ib_info_args_t *args, const char *text)
{
    if (BTL_IB_INFO_QUEUES_MAX == args->queue_count) {
        fprintf(stderr, "ib_info: --queues %s: these are more than %d\n", text,
                BTL_IB_INFO_QUEUES_MAX);
        return false;
    }
    args->queues[args->queue_count++] = text;
    args->action = BTL_IB_INFO_MEMORY;
    return true;
}

static bool transport(btl_ib_info_args_t *args, const char *text)
{
    static const char *const names[] = {"udp", "ofi", "ud", "rc", "verbs"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if (0 == strcmp(text, names[i])) {
            args->transport = names[i];
            return true;
        }
    }
    fprintf(stderr, "ib_info: --transport %.64s: udp, ofi, ud, rc or verbs were right\n", text);
    return false;
}

/* One option. Returns false after an error. */
static bool take(btl_ib_info_args_t *args, int option)
{
    static const btl_ib_value_range_t bytes = {BTL_IB_VALUE_BYTES, 1, INT64_MAX};

    switch (option) {
    case 'h':
        args->action = BTL_IB_INFO_HELP;
        return true;
    case 'V':
        args->action = BTL_IB_INFO_VERSION;
        return true;
    case 'j':
        args->json = true;
        return true;
    case 'n':
        return processes("np", optarg, &args->processes);
    case 'p':
        return processes("ppn", optarg, &args->per_node);
    case 'q':
        return add_queues(args, optarg);
    case 't':
        return transport(args, optarg);
    case 'c': /* as the first word it never comes here */
        fputs("ib_info: --check is to be the first word\n", stderr);
        return false;
    case 'b':
        args->action = BTL_IB_INFO_MEMORY;
        return number("budget", optarg, &bytes, &args->budget);
    default:
        return false; /* getopt_long() has said why */
    }
}

bool btl_ib_info_args_parse(btl_ib_info_args_t *args, int argc, char *argv[])
{
    static const struct option options[] = {
        {"check", no_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {"json", no_argument, NULL, 'j'},
        {"np", required_argument, NULL, 'n'},
        {"ppn", required_argument, NULL, 'p'},
        {"queues", required_argument, NULL, 'q'},
        {"transport", required_argument, NULL, 't'},
        {"budget", required_argument, NULL, 'b'},
        {NULL, 0, NULL, 0},
    };
    bool ok = true;
    int option;

    memset(args, 0, sizeof(*args));
    args->per_node = 1;
    while (ok && -1 != (option = getopt_long(argc, argv, "hV", options, NULL))) {
        ok = take(args, option);
    }
    if (ok && optind < argc) {
        char shown[64];

        btl_ib_value_show(argv[optind], shown, sizeof(shown));
        fprintf(stderr, "ib_info: %s: this is no option\n", shown);
        ok = false;
    }
    if (ok && BTL_IB_INFO_SHOW == args->action
        && (NULL != args->transport || 1 != args->per_node)) {
        fputs("ib_info: --transport and --ppn go with --queues or --budget; of devices"
              " btl_ib_transport chooses\n",
              stderr);
        ok = false;
    }
    if (!ok) {
        fputs("ib_info: --help tells what there is\n", stderr);
    }
    return ok;
}
