/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the user gave for the parameters: values made of it, and whether they can be used.
 */

#include "btl_ib.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "btl_ib_params_rules.h"
#include "btl_ib_registration_limit.h"
#include "btl_ib_param_values.h"

/* What a text that is no string stands for. */
typedef union meant {
    uint64_t number;
    bool truth;
    uint32_t flags;
} meant_t;

/* Those of BTL_IB_FLAGS, as Open MPI calls them. */
static const btl_ib_value_flag_t flag_names[] = {
    {"send", MCA_BTL_FLAGS_SEND},
    {"put", MCA_BTL_FLAGS_PUT},
    {"get", MCA_BTL_FLAGS_GET},
    {"atomics", MCA_BTL_FLAGS_ATOMIC_OPS},
    {"fetching-atomics", MCA_BTL_FLAGS_ATOMIC_FOPS},
    {"rdma-flush", MCA_BTL_FLAGS_RDMA_FLUSH},
    {NULL, 0},
};

static const char *text_of(const char *value)
{
    return NULL != value ? value : "";
}

static const char *given(const char *name, char *where, size_t size)
{
    return btl_ib_compat_param_text(&mca_btl_ib_component.super.btl_version, name, where, size);
}

/* ---- reading ---- */

static const char *understand(const btl_ib_rule_t *rule, const char *text, meant_t *meant)
{
    const btl_ib_value_range_t range = {btl_ib_value_unit(rule->unit), rule->low, rule->high};

    switch (rule->type) {
    case BTL_IB_RULE_BOOL:
        return btl_ib_value_bool(text, &meant->truth);
    case BTL_IB_RULE_FLAGS:
        return btl_ib_value_flags(text, flag_names, &meant->flags);
    default:
        return btl_ib_value_number(text, &range, &meant->number);
    }
}

static void store(const btl_ib_rule_t *rule, const meant_t *meant, void *field)
{
    switch (rule->type) {
    case BTL_IB_RULE_INT:
        *(int *) field = (int) (int64_t) meant->number;
        break;
    case BTL_IB_RULE_UNSIGNED:
        *(uint32_t *) field = (uint32_t) meant->number;
        break;
    case BTL_IB_RULE_SIZE:
        *(size_t *) field = (size_t) meant->number;
        break;
    case BTL_IB_RULE_BOOL:
        *(bool *) field = meant->truth;
        break;
    case BTL_IB_RULE_FLAGS:
        *(uint32_t *) field = meant->flags;
        break;
    }
}

void btl_ib_params_read(btl_ib_params_t *params, mca_btl_base_module_t *limits)
{
    btl_ib_rule_t rule;
    meant_t meant;
    char where[256];

    for (size_t i = 0; btl_ib_params_rule(i, &rule); ++i) {
        const char *text = given(rule.name, where, sizeof(where));
        char *base = rule.of_limits ? (char *) limits : (char *) params;

        if (NULL == text) {
            continue;
        }
        if (NULL == understand(&rule, text, &meant)) {
            store(&rule, &meant, base + rule.offset);
        } else if (NULL == rule.standard) {
            meant.number = (uint64_t) rule.standard_number;
            store(&rule, &meant, base + rule.offset);
        }
    }
}

/* ---- telling ---- */

/* Always false, for the caller to return. */
static bool refuse(const char *name, const char *text, const char *problem, const char *expected,
                   const char *standard)
{
    char shown[128];
    char where[256];

    (void) given(name, where, sizeof(where));
    btl_ib_value_show(text, shown, sizeof(shown));
    BTL_IB_SHOW_HELP("bad value", name, opal_process_info.nodename, shown, where, problem, expected,
                     standard);
    return false;
}

static void list_flags(char *out, size_t size)
{
    size_t len = (size_t) snprintf(out, size, "send, and some of ");

    for (size_t i = 1; NULL != flag_names[i].name && len < size; ++i) {
        len +=
            (size_t) snprintf(out + len, size - len, "%s%s", i > 1 ? ", " : "", flag_names[i].name);
    }
}

static void expectation(const btl_ib_rule_t *rule, char *out, size_t size)
{
    switch (rule->type) {
    case BTL_IB_RULE_BOOL:
        snprintf(out, size, "0, f, false, n, no, disabled, 1, t, true, y, yes or enabled");
        break;
    case BTL_IB_RULE_FLAGS:
        list_flags(out, size);
        break;
    default:
        snprintf(out, size, "%" PRId64 " to %" PRIu64 " (%s%s)", rule->low, rule->high, rule->unit,
                 btl_ib_value_unit_help(btl_ib_value_unit(rule->unit)));
        break;
    }
}

static bool refuse_by_rule(const btl_ib_rule_t *rule, const char *text, const char *problem)
{
    char expected[256];
    char number[32];

    expectation(rule, expected, sizeof(expected));
    snprintf(number, sizeof(number), "%" PRId64, rule->standard_number);
    return refuse(rule->name, text, problem, expected,
                  NULL != rule->standard ? rule->standard : number);
}

/* All that are wrong are told, so that one attempt is enough to mend them. */
static bool check_rules(void)
{
    btl_ib_rule_t rule;
    meant_t meant;
    char where[256];
    bool ok = true;

    for (size_t i = 0; btl_ib_params_rule(i, &rule); ++i) {
        const char *text = given(rule.name, where, sizeof(where));
        const char *problem = NULL != text ? understand(&rule, text, &meant) : NULL;

        if (NULL != problem) {
            ok = refuse_by_rule(&rule, text, problem);
        }
    }
    return ok;
}

/* The rule of a parameter. */
static btl_ib_rule_t rule_of(const char *name)
{
    btl_ib_rule_t rule;
    size_t i = 0;

    while (btl_ib_params_rule(i, &rule) && 0 != strcmp(rule.name, name)) {
        ++i;
    }
    return rule;
}

/* ---- what texts may be ---- */

static bool check_choice(const char *name, const char *value, const char *const *choices)
{
    char expected[160] = "one of ";

    for (size_t i = 0; NULL != choices[i]; ++i) {
        const size_t len = strlen(expected);

        if (0 == strcmp(text_of(value), choices[i])) {
            return true;
        }
        snprintf(expected + len, sizeof(expected) - len, "%s%s", i > 0 ? ", " : "", choices[i]);
    }
    return refuse(name, text_of(value),
                  '\0' == text_of(value)[0] ? "it is empty" : "it is none of these", expected,
                  choices[0]);
}

/* Those that were built in, which name several wires alike; empty is auto. */
static bool check_transport(const char *value)
{
    const char *names[16] = {"auto"};
    size_t count = 1;

    for (size_t i = 0; NULL != btl_ib_transport_types[i] && count + 1 < 16; ++i) {
        if (0 != strcmp(names[count - 1], btl_ib_transport_types[i]->name)) {
            names[count++] = btl_ib_transport_types[i]->name;
        }
    }
    return '\0' == text_of(value)[0] || check_choice("transport", value, names);
}

static bool check_choices(const btl_ib_params_t *params)
{
    static const char *const checksums[] = {"none", "crc32c", NULL};
    static const char *const wires[] = {"auto", "ud", "rc", NULL};
    static const char *const orderings[] = {"strict", "relaxed", NULL};
    static const char *const auths[] = {"none", "integrity", "encrypt", NULL};
    static const char *const atomics[] = {"auto", "device", "host", NULL};
    static const char *const ccs[] = {"auto", "none", "swift", "cubic", NULL};
    const btl_ib_pin_host_t host = btl_ib_pin_host(1);
    uint64_t bytes;
    const char *problem = btl_ib_pin_limit(text_of(params->max_pinned), &host, &bytes);
    bool ok = check_transport(params->transport);

    ok = check_choice("wire", params->wire, wires) && ok;
    ok = check_choice("memory_ordering", params->ordering, orderings) && ok;
    ok = check_choice("checksum", params->checksum, checksums) && ok;
    ok = check_choice("auth", params->auth, auths) && ok;
    ok = check_choice("atomics", params->atomics, atomics) && ok;
    ok = check_choice("cc", params->cc, ccs) && ok;
    if (NULL != problem) {
        ok = refuse("max_pinned", text_of(params->max_pinned), problem,
                    "0 to 18446744073709551615 (bytes, or with k, M, G or KiB, MiB, GiB after it), "
                    "or 0% to 100%",
                    "50%");
    }
    return ok;
}

/* ---- what fits together ---- */

static bool check_together(const btl_ib_params_t *params)
{
    if ('\0' != text_of(params->if_include)[0] && '\0' != text_of(params->if_exclude)[0]) {
        BTL_IB_SHOW_HELP("include and exclude", opal_process_info.nodename, params->if_include,
                         params->if_exclude);
        return false;
    }
    if (btl_ib_guard_ops(btl_ib_params_guard(params))->keyed && !btl_ib_aead_available()) {
        BTL_IB_SHOW_HELP("no cryptography", opal_process_info.nodename, params->auth);
        return false;
    }
    return true;
}

static bool check_order(const char *smaller, int64_t small_value, const char *larger,
                        int64_t large_value)
{
    const btl_ib_rule_t small_rule = rule_of(smaller);
    const btl_ib_rule_t large_rule = rule_of(larger);
    char small_text[64];
    char large_text[64];

    if (small_value <= large_value) {
        return true;
    }
    snprintf(small_text, sizeof(small_text), "%" PRId64 " %s (default: %" PRId64 ")", small_value,
             small_rule.unit, small_rule.standard_number);
    snprintf(large_text, sizeof(large_text), "%" PRId64 " %s (default: %" PRId64 ")", large_value,
             large_rule.unit, large_rule.standard_number);
    BTL_IB_SHOW_HELP("values contradict", opal_process_info.nodename, smaller, small_text, larger,
                     large_text, smaller, larger);
    return false;
}

btl_ib_guard_kind_t btl_ib_params_guard(const btl_ib_params_t *params)
{
    if (0 == strcmp(params->auth, "integrity")) {
        return BTL_IB_GUARD_INTEGRITY;
    }
    if (0 == strcmp(params->auth, "encrypt")) {
        return BTL_IB_GUARD_ENCRYPT;
    }
    return 0 == strcmp(params->checksum, "crc32c") ? BTL_IB_GUARD_CRC32C : BTL_IB_GUARD_NONE;
}

/* What no range says of single values. */
static bool check_limits(const mca_btl_base_module_t *limits)
{
    const size_t piece = limits->btl_rdma_pipeline_frag_size;
    char where[256];
    btl_ib_rule_t rule;

    if (0 == (limits->btl_flags & MCA_BTL_FLAGS_SEND)) {
        rule = rule_of("flags");
        return refuse_by_rule(&rule, text_of(given("flags", where, sizeof(where))),
                              "send is missing");
    }
    if (piece > 0 && piece < 4096) {
        return refuse("rdma_pipeline_frag_size",
                      text_of(given("rdma_pipeline_frag_size", where, sizeof(where))),
                      "it is too small",
                      "0, or 4096 to 1073741824 (bytes, or with k, M, G or KiB, MiB, GiB after it)",
                      "4194304");
    }
    return true;
}

bool btl_ib_params_check(const btl_ib_params_t *params, const mca_btl_base_module_t *limits)
{
    const bool ruled = check_rules();

    if (!check_choices(params) || !ruled) {
        return false;
    }
    if (!params->registered) {
        btl_ib_report_cannot_start(
            "Open MPI refused to register the component's MCA parameters", 0,
            "Was it built for this Open MPI (ompi_info)? What Open MPI says\n"
            "above may name the parameter.");
        return false;
    }
    return check_together(params) && check_limits(limits)
           && check_order("rto_min", params->rto_min, "rto_max", params->rto_max)
           && check_order("rto_initial", params->rto_initial, "rto_max", params->rto_max)
           && check_order("rto_min", params->rto_min, "rto_initial", params->rto_initial);
}
