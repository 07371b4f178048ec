/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* ib_info: what btl ib would do on this host, without an MPI program. */

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "btl_ib_ompi_compat.h"
#include "btl_ib_frag.h"
#include "btl_ib_info_devices.h"
#include "btl_ib_info_memory.h"
#include "btl_ib_param_parse.h"
#include "btl_ib_params.h"
#include "transport.h"

/* As ib_info.txt says. */
enum { EXIT_NO_DEVICE = 1, EXIT_BAD_ARGUMENTS = 2 };

static const char help[] =
#include "btl_ib_info_help.h" /* made of ib_info.txt */
    ;

/* ---- arguments ---- */

enum { PROCESSES_MAX = 1 << 24 };

/* Reads a number of an option. Returns false after an error. */
static bool read_number(const char *option, const char *text, const btl_ib_value_range_t *range,
                        uint64_t *value)
{
    const char *problem = btl_ib_value_number(text, range, value);
    char shown[64];

    if (problem == NULL) {
        return true;
    }
    btl_ib_value_show(text, shown, sizeof(shown));
    fprintf(stderr, "ib_info: --%s %s: %s; %lld to %llu were right%s\n", option, shown, problem,
            (long long) range->low, (unsigned long long) range->high,
            btl_ib_value_unit_help(range->unit));
    return false;
}

static bool add_queues(btl_ib_info_args_t *args, const char *text)
{
    if (args->queue_count == BTL_IB_INFO_QUEUES_MAX) {
        fprintf(stderr, "ib_info: --queues %s: these are more than %d\n", text,
                BTL_IB_INFO_QUEUES_MAX);
        return false;
    }
    args->queues[args->queue_count++] = text;
    return true;
}

static bool read_transport(btl_ib_info_args_t *args, const char *text)
{
    static const char *const names[] = {"udp", "ofi", "ud", "rc", "verbs"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if (strcmp(text, names[i]) == 0) {
            args->transport = names[i];
            return true;
        }
    }
    fprintf(stderr, "ib_info: --transport %.64s: udp, ofi, ud, rc or verbs were right\n", text);
    return false;
}

/* Takes one option. Returns false after an error. */
static bool take_option(btl_ib_info_args_t *args, int option)
{
    static const btl_ib_value_range_t bytes = {BTL_IB_VALUE_BYTES, 1, INT64_MAX};
    static const btl_ib_value_range_t processes = {BTL_IB_VALUE_COUNT, 1, PROCESSES_MAX};

    switch (option) {
    case 'h':
        fputs(help, stdout);
        exit(EXIT_SUCCESS);
    case 'V':
        puts("ib_info " BTL_IB_VERSION);
        exit(EXIT_SUCCESS);
    case 'l':
        args->parsable = true;
        return true;
    case 'n':
        return read_number("np", optarg, &processes, &args->processes);
    case 'p':
        return read_number("ppn", optarg, &processes, &args->per_node);
    case 'B':
        return read_number("busy", optarg, &processes, &args->busy);
    case 'q':
        return add_queues(args, optarg);
    case 't':
        return read_transport(args, optarg);
    case 'c': /* as the first word it never comes here */
        fputs("ib_info: --check is to be the first word\n", stderr);
        return false;
    case 'b':
        return read_number("budget", optarg, &bytes, &args->budget);
    default:
        return false; /* getopt_long() has said why */
    }
}

/* Parses all. Returns false after an error on stderr. */
static bool args_parse(btl_ib_info_args_t *args, int argc, char *argv[])
{
    static const struct option options[] = {
        {"check", no_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {"np", required_argument, NULL, 'n'},
        {"ppn", required_argument, NULL, 'p'},
        {"busy", required_argument, NULL, 'B'},
        {"queues", required_argument, NULL, 'q'},
        {"transport", required_argument, NULL, 't'},
        {"budget", required_argument, NULL, 'b'},
        {"parsable", no_argument, NULL, 'l'},
        {NULL, 0, NULL, 0},
    };
    bool ok = true;
    int option;

    memset(args, 0, sizeof(*args));
    args->per_node = 1;
    while (ok && (option = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
        ok = take_option(args, option);
    }
    if (ok && optind < argc) {
        char shown[64];

        btl_ib_value_show(argv[optind], shown, sizeof(shown));
        fprintf(stderr, "ib_info: %s: this is no option\n", shown);
        ok = false;
    }
    if (ok && !btl_ib_info_of_memory(args)
        && (args->transport != NULL || args->per_node != 1 || args->busy != 0)) {
        fputs("ib_info: --transport, --ppn and --busy go with --queues or --budget; of devices"
              " btl_ib_transport chooses\n",
              stderr);
        ok = false;
    }
    if (!ok) {
        fputs("ib_info: --help tells what there is\n", stderr);
    }
    return ok;
}

/* ---- Open MPI ---- */

/*
 * For a program that is no MPI process: the part of Open MPI that knows parameters, and the
 * framework of BTLs, without any component and without a runtime. What asks the runtime must not be
 * called then.
 */

/* Opens what ib_info needs of Open MPI. Returns an OPAL status. */
static int opal_begin(void)
{
    char host[256] = "";
    mca_base_framework_t *framework = &opal_btl_base_framework;
    int rc;

    /* Those that the user names would be looked for. */
    if (setenv("OMPI_MCA_btl", "^ib", 1) != 0) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rc = opal_init_util(NULL, NULL);
    if (rc != OPAL_SUCCESS) {
        return rc;
    }
    if (opal_process_info.nodename == NULL) { /* 4.1: the runtime would set it */
        (void) gethostname(host, sizeof(host) - 1);
        opal_process_info.nodename = strdup(host);
    }
    return mca_base_framework_register(framework, MCA_BASE_REGISTER_STATIC_ONLY);
}

/* ---- parameters ---- */

/* Shows all. `params` and `limits` outlive the framework: its variables refer to them until it is
 * closed. */
static int show_all(const btl_ib_info_args_t *args, btl_ib_params_t *params,
                    mca_btl_base_module_t *limits)
{
    mca_btl_base_component_t component = {.btl_version = {MCA_BTL_DEFAULT_VERSION("ib")}};
    const btl_ib_process_sizes_t sizes = {
        .params = params,
        .limits = limits,
        .fragment = BTL_IB_FRAG_BYTES,
    };

    btl_ib_params_register(params, limits, &component.btl_version);
    btl_ib_params_read(params, limits);
    if (!btl_ib_params_check(params, limits)) {
        return EXIT_NO_DEVICE;
    }
    if (btl_ib_info_of_memory(args)) {
        return btl_ib_info_memory(&sizes, args);
    }
    const uint32_t count = btl_ib_info_devices(args->parsable, &sizes, (uint32_t) args->processes);
    return fflush(stdout) == 0 && count > 0 ? EXIT_SUCCESS : EXIT_NO_DEVICE;
}

/* --check: the checks between hosts are a program of their own, ib_doctor, beside this one. Returns
 * only if it cannot be started. */
static int run_doctor(char *argv[])
{
    char path[PATH_MAX];
    const ssize_t len = readlink("/proc/self/exe", path, sizeof(path));
    char *slash = NULL;

    if (len > 0 && (size_t) len < sizeof(path)) {
        path[len] = '\0';
        slash = strrchr(path, '/');
    }
    if (slash != NULL) {
        snprintf(slash + 1, sizeof(path) - (size_t) (slash + 1 - path), "ib_doctor");
        argv[0] = path;
        execv(path, argv);
        perror(path);
    }
    return EXIT_BAD_ARGUMENTS;
}

int main(int argc, char *argv[])
{
    btl_ib_info_args_t args;
    btl_ib_params_t params;
    mca_btl_base_module_t limits = {.btl_flags = 0};
    char why[256];
    int status;

    if (argc > 1 && strcmp(argv[1], "--check") == 0) {
        return run_doctor(argv + 1);
    }
    if (!args_parse(&args, argc, argv)) {
        return EXIT_BAD_ARGUMENTS;
    }
    if (!btl_ib_ompi_check(why, sizeof(why))) {
        fprintf(stderr, "ib_info: %s: please rebuild it\n", why);
        return EXIT_NO_DEVICE;
    }
    if (opal_begin() != OPAL_SUCCESS) {
        fprintf(stderr, "ib_info: libopen-pal of Open MPI %s cannot start\n", opal_version_string);
        return EXIT_NO_DEVICE;
    }
    status = show_all(&args, &params, &limits);
    (void) mca_base_framework_close(&opal_btl_base_framework);
    (void) opal_finalize_util();
    return status;
}
