/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* ib_info: what btl ib would do on this host, without an MPI program. */

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aead.h"
#include "btl_ib_frag.h"
#include "btl_ib_info_cli.h"
#include "btl_ib_info_devices.h"
#include "btl_ib_info_memory.h"
#include "btl_ib_params_check.h"
#include "transport.h"

/* As ib_info.txt says. */
enum { EXIT_NO_DEVICE = 1, EXIT_BAD_ARGUMENTS = 2 };

static const char help[] =
#include "btl_ib_info_help.h" /* made of ib_info.txt */
    ;

/* ---- what was built ---- */

static void print_transports(btl_ib_info_out_t *out)
{
    char text[160] = "";

    btl_ib_info_list(out, "transports");
    for (size_t i = 0; NULL != btl_ib_transport_types[i]; ++i) {
        const btl_ib_transport_type_t *type = btl_ib_transport_types[i];
        const size_t len = strlen(text);
        char name[32];

        snprintf(name, sizeof(name), "%s%s%s", type->name, NULL != type->wire ? "/" : "",
                 NULL != type->wire ? type->wire : "");
        btl_ib_info_item(out, name);
        snprintf(text + len, sizeof(text) - len, "%s%s", i > 0 ? ", " : "", name);
    }
    btl_ib_info_list_end(out);
    if (!out->json) {
        btl_ib_info_text(out, "transports", text);
    }
}

/* "libfabric: built with 1.17, running 1.17" of each library. */
static void print_libraries(btl_ib_info_out_t *out)
{
    void (*last)(bool load, char *text, size_t len) = NULL; /* of neighbours of one library */
    char text[256];

    btl_ib_info_object(out, "libraries", "library");
    for (size_t i = 0; NULL != btl_ib_transport_types[i]; ++i) {
        const btl_ib_transport_type_t *type = btl_ib_transport_types[i];
        char *colon;

        if (NULL == type->library || last == type->library) {
            continue;
        }
        last = type->library;
        type->library(true, text, sizeof(text));
        colon = strchr(text, ':');
        if (NULL != colon) {
            *colon = '\0';
            btl_ib_info_text(out, text, colon + 2);
        }
    }
    snprintf(text, sizeof(text), "none: ");
    btl_ib_info_text(out, "cryptography",
                     btl_ib_aead_available(text + strlen(text), sizeof(text) - strlen(text))
                         ? "libcrypto"
                         : text);
    btl_ib_info_object_end(out);
}

static void print_build(btl_ib_info_out_t *out)
{
    btl_ib_info_text(out, "version", BTL_IB_VERSION);
    btl_ib_info_object(out, "openmpi", "openmpi");
    btl_ib_info_text(out, "built for", BTL_IB_BUILT_FOR_VERSION);
    btl_ib_info_text(out, "running", opal_version_string);
    btl_ib_info_object_end(out);
    print_transports(out);
    print_libraries(out);
}

/* ---- parameters ---- */

/* Register and check them, as the component does. Returns whether they can be used. */
static bool read_params(btl_ib_params_t *params, mca_btl_base_module_t *limits,
                        mca_base_component_t *component)
{
    btl_ib_params_register(params, limits, component);
    btl_ib_params_read(params, limits);
    return btl_ib_params_check(params, limits);
}

/* `params` and `limits` outlive the framework: its variables refer to them until it is closed. */
static int show(const btl_ib_info_args_t *args, btl_ib_params_t *params,
                mca_btl_base_module_t *limits)
{
    mca_btl_base_component_t component = {.btl_version = {MCA_BTL_DEFAULT_VERSION("ib")}};
    btl_ib_info_out_t out;
    const btl_ib_process_sizes_t sizes = {
        .params = params,
        .limits = limits,
        .fragment = BTL_IB_FRAG_BYTES,
    };
    uint32_t count = 0;
    int status;

    if (!read_params(params, limits, &component.btl_version)) {
        return EXIT_NO_DEVICE;
    }
    if (BTL_IB_INFO_MEMORY == args->action) {
        btl_ib_info_begin(&out, stdout, args->json);
        status = btl_ib_info_memory(&out, &sizes, args);
        btl_ib_info_end(&out);
        return status;
    }
    btl_ib_info_begin(&out, stdout, args->json);
    print_build(&out);
    count = btl_ib_info_devices(&out, &sizes, args->processes);
    btl_ib_info_number(&out, "used devices", count, "");
    btl_ib_info_end(&out);
    return 0 == fflush(stdout) && count > 0 ? EXIT_SUCCESS : EXIT_NO_DEVICE;
}

/* --check: the checks between hosts are a program of their own, ib_doctor, beside this one. Returns
 * only if it cannot be started. */
static int check(char *argv[])
{
    char path[PATH_MAX];
    const ssize_t len = readlink("/proc/self/exe", path, sizeof(path));
    char *slash = NULL;

    if (len > 0 && (size_t) len < sizeof(path)) {
        path[len] = '\0';
        slash = strrchr(path, '/');
    }
    if (NULL != slash) {
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

    if (argc > 1 && 0 == strcmp(argv[1], "--check")) {
        return check(argv + 1);
    }
    if (!btl_ib_info_args_parse(&args, argc, argv)) {
        return EXIT_BAD_ARGUMENTS;
    }
    if (BTL_IB_INFO_HELP == args.action) {
        fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    if (BTL_IB_INFO_VERSION == args.action) {
        puts("ib_info " BTL_IB_VERSION);
        return EXIT_SUCCESS;
    }
    if (!btl_ib_compat_check(why, sizeof(why))) {
        fprintf(stderr, "ib_info: %s: please rebuild it\n", why);
        return EXIT_NO_DEVICE;
    }
    if (OPAL_SUCCESS != btl_ib_info_opal_begin()) {
        fprintf(stderr, "ib_info: libopen-pal of Open MPI %s cannot start\n", opal_version_string);
        return EXIT_NO_DEVICE;
    }
    status = show(&args, &params, &limits);
    btl_ib_info_opal_end();
    return status;
}
