/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_params_check.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "btl_ib_file_name.h"
#include "btl_ib_help.h"
#include "btl_ib_param_values.h"
#include "transport.h"

/* What a text that is no string stands for. */
typedef union meant {
    uint64_t number;
    bool truth;
    uint32_t flags;
} meant_t;

/* Those of BTL_IB_FLAGS, as Open MPI calls them. */
static const btl_ib_value_flag_t flag_names[] = {
    {"send", MCA_BTL_FLAGS_SEND},
    {"inplace", MCA_BTL_FLAGS_SEND_INPLACE},
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

/* The text that the user gave for a parameter, or NULL; and where. */
static const char *given(const btl_ib_params_t *params, const char *name, char *where, size_t size)
{
    return btl_ib_compat_param_text(params->component, name, btl_ib_param_synonym(name), where,
                                    size);
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

/* The one of the words that `text` is; NULL: none. */
static const char *word_of(const char *const *words, const char *text)
{
    size_t i = 0;

    while (NULL != words[i] && 0 != strcmp(words[i], text)) {
        ++i;
    }
    return words[i];
}

/* An empty name of a transport is auto, too. */
static bool is_left_open(const btl_ib_param_choice_t *choice, const char *text)
{
    return NULL == choice->words && '\0' == text[0];
}

static void read_choices(btl_ib_params_t *params)
{
    const char *words[BTL_IB_WORDS_MAX];
    char where[256];

    for (size_t i = 0; i < BTL_IB_CHOICES; ++i) {
        const btl_ib_param_choice_t *choice = &btl_ib_param_table.choices[i];
        const char *text = given(params, choice->name, where, sizeof(where));
        const char *word = NULL;

        btl_ib_param_words(choice, words);
        word = NULL != text ? word_of(words, text) : NULL;
        if (NULL != word) {
            *(const char **) (void *) ((char *) params + choice->offset) = word;
        }
    }
}

void btl_ib_params_read(btl_ib_params_t *params, mca_btl_base_module_t *limits)
{
    btl_ib_rule_t rule;
    meant_t meant;
    char where[256];

    for (size_t i = 0; btl_ib_param_rule(i, &rule); ++i) {
        const char *text = given(params, rule.name, where, sizeof(where));
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
    read_choices(params);
    btl_ib_params_verify(params, limits);
}

/* ---- telling ---- */

/* Always false, for the caller to return. */
static bool refuse(const btl_ib_params_t *params, const char *name, const char *problem,
                   const char *expected, const char *standard)
{
    char shown[128];
    char where[256];

    btl_ib_value_show(text_of(given(params, name, where, sizeof(where))), shown, sizeof(shown));
    BTL_IB_SHOW_HELP("bad value", name, opal_process_info.nodename, shown, where, problem, expected,
                     standard);
    return false;
}

/* The same by a rule. */
static bool refuse_by_rule(const btl_ib_params_t *params, const btl_ib_rule_t *rule,
                           const char *problem)
{
    char expected[256] = "0, f, false, n, no, disabled, 1, t, true, y, yes or enabled";
    char number[32];
    size_t len;

    if (BTL_IB_RULE_FLAGS == rule->type) {
        len = (size_t) snprintf(expected, sizeof(expected), "send, and some of ");
        for (size_t i = 1; NULL != flag_names[i].name && len < sizeof(expected); ++i) {
            len += (size_t) snprintf(expected + len, sizeof(expected) - len, "%s%s",
                                     i > 1 ? ", " : "", flag_names[i].name);
        }
    } else if (BTL_IB_RULE_BOOL != rule->type) {
        snprintf(expected, sizeof(expected), "%" PRId64 " to %" PRIu64 " (%s%s)", rule->low,
                 rule->high, rule->unit, btl_ib_value_unit_help(btl_ib_value_unit(rule->unit)));
    }
    snprintf(number, sizeof(number), "%" PRId64, rule->standard_number);
    return refuse(params, rule->name, problem, expected,
                  NULL != rule->standard ? rule->standard : number);
}

/* All that are wrong are told, so that one attempt is enough to mend them. */
static bool check_rules(const btl_ib_params_t *params)
{
    btl_ib_rule_t rule;
    meant_t meant;
    char where[256];
    bool ok = true;

    for (size_t i = 0; btl_ib_param_rule(i, &rule); ++i) {
        const char *text = given(params, rule.name, where, sizeof(where));
        const char *problem = NULL != text ? understand(&rule, text, &meant) : NULL;

        if (NULL != problem) {
            ok = refuse_by_rule(params, &rule, problem);
        }
    }
    return ok;
}

/* The rule of a parameter. */
static btl_ib_rule_t rule_of(const char *name)
{
    btl_ib_rule_t rule;
    size_t i = 0;

    while (btl_ib_param_rule(i, &rule) && 0 != strcmp(rule.name, name)) {
        ++i;
    }
    return rule;
}

/* ---- what texts may be ---- */

static bool check_choice(const btl_ib_params_t *params, const btl_ib_param_choice_t *choice)
{
    const char *words[BTL_IB_WORDS_MAX];
    char expected[160] = "one of ";
    char where[256];
    const char *text = given(params, choice->name, where, sizeof(where));

    btl_ib_param_words(choice, words);
    if (NULL == text || NULL != word_of(words, text) || is_left_open(choice, text)) {
        return true;
    }
    for (size_t i = 0; NULL != words[i]; ++i) {
        const size_t len = strlen(expected);

        snprintf(expected + len, sizeof(expected) - len, "%s%s", i > 0 ? ", " : "", words[i]);
    }
    return refuse(params, choice->name, '\0' == text[0] ? "it is empty" : "it is none of these",
                  expected, words[0]);
}

static bool check_memory(const btl_ib_params_t *params, const char *name, const char *text,
                         const char *standard)
{
    uint64_t value;
    bool is_share;
    const char *problem = btl_ib_value_bytes_or_share(text_of(text), &value, &is_share);

    return NULL == problem
           || refuse(params, name, problem,
                     "0 to 18446744073709551615 (bytes, or with k, M, G or KiB, MiB, GiB after "
                     "it), or 0% to 100%, or 0.0 to 1.0",
                     standard);
}

static bool check_choices(const btl_ib_params_t *params)
{
    const bool pinned = check_memory(params, "max_pinned", params->max_pinned, "50%");
    bool ok = check_memory(params, "memory_max", params->memory_max, "0") && pinned;

    for (size_t i = 0; i < BTL_IB_CHOICES; ++i) {
        ok = check_choice(params, &btl_ib_param_table.choices[i]) && ok;
    }
    return ok;
}

/* Is it empty, or a name that each process can make its own of? */
static bool check_file(const btl_ib_params_t *params, const char *name, const char *file)
{
    const char *problem = '\0' != file[0] ? btl_ib_file_name_problem(file) : NULL;

    return NULL == problem
           || refuse(params, name, problem,
                     "a name in which %h, %r, %j, %p and %% may stand, or a directory with / at "
                     "its end",
                     "empty, none");
}

static bool check_stats(const btl_ib_params_t *params)
{
    const bool file = check_file(params, "stats_file", text_of(params->stats_file));
    const bool map = check_file(params, "connectivity_map", text_of(params->connectivity_map));
    bool ok = check_file(params, "trace", text_of(params->trace)) && file && map;
    const char *problem;
    uint64_t seconds;
    bool truth;

    problem = btl_ib_value_truth_or_seconds(text_of(params->stats), &truth, &seconds);
    if (NULL != problem) {
        ok = refuse(params, "stats", problem,
                    "0, f, false, n, no, disabled, 1, t, true, y, yes or enabled, or 2 to 86400 "
                    "(seconds, or with ms, s or min after it from 1s on)",
                    "0");
    }
    return ok;
}

/* ---- what fits together ---- */

static bool check_together(const btl_ib_params_t *params)
{
    char why[160];

    if ('\0' != text_of(params->if_include)[0] && '\0' != text_of(params->if_exclude)[0]) {
        BTL_IB_SHOW_HELP("include and exclude", opal_process_info.nodename, params->if_include,
                         params->if_exclude);
        return false;
    }
    if (btl_ib_guard_ops(btl_ib_params_guard(params))->keyed
        && !btl_ib_aead_available(why, sizeof(why))) {
        BTL_IB_SHOW_HELP("no cryptography", opal_process_info.nodename, params->protection, why);
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

/* Is it 0, or no less than `least`? No range says that. */
static bool check_least_but_0(const btl_ib_params_t *params, const char *name, uint64_t value,
                              uint64_t least)
{
    const btl_ib_rule_t rule = rule_of(name);
    char expected[128];

    if (0 == value || value >= least) {
        return true;
    }
    snprintf(expected, sizeof(expected), "0, or %" PRIu64 " to %" PRIu64 " (%s%s)", least,
             rule.high, rule.unit, btl_ib_value_unit_help(btl_ib_value_unit(rule.unit)));
    return refuse(params, name, "it is too small", expected,
                  NULL != rule.standard ? rule.standard : "0");
}

/* What no range says of single values. */
static bool check_limits(const btl_ib_params_t *params, const mca_btl_base_module_t *limits)
{
    const btl_ib_rule_t flags = rule_of("flags");

    if (0 == (limits->btl_flags & MCA_BTL_FLAGS_SEND)) {
        return refuse_by_rule(params, &flags, "send is missing");
    }
    return check_least_but_0(params, "mtu", (uint64_t) params->mtu, BTL_IB_MTU_LEAST)
           && check_least_but_0(params, "rdma_pipeline_frag_size",
                                limits->btl_rdma_pipeline_frag_size, 4096);
}

bool btl_ib_params_check(const btl_ib_params_t *params, const mca_btl_base_module_t *limits)
{
    const bool ruled = check_rules(params);
    const bool chosen = check_choices(params);

    if (!check_stats(params) || !chosen || !ruled) {
        return false;
    }
    if (!params->registered) {
        btl_ib_help_cannot_start("Open MPI refused to register the component's MCA parameters", 0,
                                 "Was it built for this Open MPI (ompi_info)? What Open MPI says\n"
                                 "above may name the parameter.");
        return false;
    }
    return check_together(params) && check_limits(params, limits)
           && check_order("rto_min", params->rto_min, "rto_max", params->rto_max)
           && check_order("rto_initial", params->rto_initial, "rto_max", params->rto_max)
           && check_order("rto_min", params->rto_min, "rto_initial", params->rto_initial);
}
