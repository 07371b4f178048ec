/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_info_cli.h"

#include "btl_ib_compat.h"
#include "btl_ib_param_values.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- output ---- */

static void quoted(const btl_ib_info_out_t *out, const char *text)
{
    fputc('"', out->to);
    for (; '\0' != *text; ++text) {
        const unsigned char c = (unsigned char) *text;

        if ('"' == c || '\\' == c) {
            fprintf(out->to, "\\%c", c);
        } else if (c < ' ' || c > '~') { /* bytes beyond ASCII may be no UTF-8 */
            fprintf(out->to, "\\u%04x", c);
        } else {
            fputc(c, out->to);
        }
    }
    fputc('"', out->to);
}

/* What stands before a value in JSON. */
static void next(btl_ib_info_out_t *out, const char *name)
{
    if (out->any[out->depth]) {
        fputc(',', out->to);
    }
    fprintf(out->to, "\n%*s", (int) (2 * out->depth + 2), "");
    out->any[out->depth] = true;
    if (NULL != name) {
        char word[64];

        snprintf(word, sizeof(word), "%s", name);
        for (char *c = word; '\0' != *c; ++c) {
            *c = ' ' == *c ? '_' : *c;
        }
        quoted(out, word);
        fputs(": ", out->to);
    }
}

static void open_level(btl_ib_info_out_t *out, const char *name, char bracket, const char *prefix)
{
    const size_t len = strlen(out->prefix);

    if (out->json) {
        next(out, name);
        fputc(bracket, out->to);
    }
    ++out->depth;
    out->any[out->depth] = false;
    out->before[out->depth] = len;
    if ('\0' != prefix[0]) {
        snprintf(out->prefix + len, sizeof(out->prefix) - len, "%s ", prefix);
    }
}

static void close_level(btl_ib_info_out_t *out, char bracket)
{
    const bool any = out->any[out->depth];

    out->prefix[out->before[out->depth]] = '\0';
    --out->depth;
    if (out->json) {
        if (any) {
            fprintf(out->to, "\n%*s", (int) (2 * out->depth + 2), "");
        }
        fputc(bracket, out->to);
    }
}

void btl_ib_info_begin(btl_ib_info_out_t *out, FILE *to, bool json)
{
    memset(out, 0, sizeof(*out));
    out->to = to;
    out->json = json;
    if (json) {
        fputc('{', to);
    }
}

void btl_ib_info_end(btl_ib_info_out_t *out)
{
    if (out->json) {
        fputs("\n}\n", out->to);
    }
}

void btl_ib_info_list(btl_ib_info_out_t *out, const char *name)
{
    open_level(out, name, '[', "");
}

void btl_ib_info_list_end(btl_ib_info_out_t *out)
{
    close_level(out, ']');
}

void btl_ib_info_object(btl_ib_info_out_t *out, const char *name, const char *prefix)
{
    open_level(out, name, '{', prefix);
}

void btl_ib_info_object_end(btl_ib_info_out_t *out)
{
    close_level(out, '}');
}

void btl_ib_info_text(btl_ib_info_out_t *out, const char *name, const char *value)
{
    if (out->json) {
        btl_ib_info_json_text(out, name, value);
    } else {
        fprintf(out->to, "%s%s: %s\n", out->prefix, name, value);
    }
}

void btl_ib_info_bool(btl_ib_info_out_t *out, const char *name, bool value)
{
    if (out->json) {
        next(out, name);
        fputs(value ? "true" : "false", out->to);
    } else {
        fprintf(out->to, "%s%s: %s\n", out->prefix, name, value ? "yes" : "no");
    }
}

void btl_ib_info_number(btl_ib_info_out_t *out, const char *name, uint64_t value, const char *unit)
{
    if (out->json) {
        next(out, name);
        fprintf(out->to, "%" PRIu64, value);
    } else {
        fprintf(out->to, "%s%s: %" PRIu64 "%s%s\n", out->prefix, name, value,
                '\0' != unit[0] ? " " : "", unit);
    }
}

void btl_ib_info_unknown(btl_ib_info_out_t *out, const char *name)
{
    if (out->json) {
        next(out, name);
        fputs("null", out->to);
    } else {
        fprintf(out->to, "%s%s: unknown\n", out->prefix, name);
    }
}

void btl_ib_info_item(btl_ib_info_out_t *out, const char *value)
{
    btl_ib_info_json_text(out, NULL, value);
}

void btl_ib_info_json_text(btl_ib_info_out_t *out, const char *name, const char *value)
{
    if (out->json) {
        next(out, name);
        quoted(out, value);
    }
}

/* ---- arguments ---- */

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

/* ---- Open MPI ---- */

int btl_ib_info_opal_begin(void)
{
    char host[256] = "";
    mca_base_framework_t *framework = &opal_btl_base_framework;
    int rc;

    /* Those that the user names would be looked for. */
    if (0 != setenv("OMPI_MCA_btl", "^ib", 1)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rc = opal_init_util(NULL, NULL);
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    if (NULL == opal_process_info.nodename) { /* 4.1: the runtime would set it */
        (void) gethostname(host, sizeof(host) - 1);
        opal_process_info.nodename = strdup(host);
    }
    return mca_base_framework_register(framework, MCA_BASE_REGISTER_STATIC_ONLY);
}

void btl_ib_info_opal_end(void)
{
    (void) mca_base_framework_close(&opal_btl_base_framework);
    (void) opal_finalize_util();
}
