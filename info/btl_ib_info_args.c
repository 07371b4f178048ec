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

/* One option. Returns false after an error. */
static bool take(btl_ib_info_args_t *args, int option)
{
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
    default:
        return false; /* getopt_long() has said why */
    }
}

bool btl_ib_info_args_parse(btl_ib_info_args_t *args, int argc, char *argv[])
{
    static const struct option options[] = {
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {"json", no_argument, NULL, 'j'},
        {"np", required_argument, NULL, 'n'},
        {NULL, 0, NULL, 0},
    };
    bool ok = true;
    int option;

    memset(args, 0, sizeof(*args));
    while (ok && -1 != (option = getopt_long(argc, argv, "hV", options, NULL))) {
        ok = take(args, option);
    }
    if (ok && optind < argc) {
        char shown[64];

        btl_ib_value_show(argv[optind], shown, sizeof(shown));
        fprintf(stderr, "ib_info: %s: this is no option\n", shown);
        ok = false;
    }
    if (!ok) {
        fputs("ib_info: --help tells what there is\n", stderr);
    }
    return ok;
}
