/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_params.h"

#include "btl_ib_compat.h"
#include "btl_ib_param_values.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- their descriptions ---- */

void btl_ib_param_number_help(const btl_ib_param_number_t *number, char help[BTL_IB_PARAM_HELP_MAX])
{
    const btl_ib_value_unit_t unit = btl_ib_value_unit(number->unit);
    const char *units = BTL_IB_VALUE_COUNT == unit   ? ""
                        : BTL_IB_VALUE_BYTES == unit ? " or with k, M, G"
                                                     : " or with us, ms, s, min";

    snprintf(help, BTL_IB_PARAM_HELP_MAX,
             "%s (%s%s, %" PRId64 " to %" PRId64 ", default: %" PRId64 "). %s", number->help,
             number->unit, units, number->low, number->high, number->standard, number->when);
}

void btl_ib_param_toggle_help(const btl_ib_param_toggle_t *toggle, char help[BTL_IB_PARAM_HELP_MAX])
{
    snprintf(help, BTL_IB_PARAM_HELP_MAX, "%s (0 or 1, default: %d%s%s). %s", toggle->help,
             toggle->standard, NULL != toggle->note ? ", " : "",
             NULL != toggle->note ? toggle->note : "", toggle->when);
}

/* ---- values ---- */

/* What Open MPI may use, and what a user may choose from by btl_ib_flags. */
#define FLAGS                                                                                      \
    (MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_SEND_INPLACE | MCA_BTL_FLAGS_RDMA                          \
     | MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS | MCA_BTL_FLAGS_RDMA_FLUSH)

/* Executed by the processor at the target, so that it and local processes may work on a word at
 * the same time: GLOB. */
#define ATOMIC_FLAGS                                                                               \
    (MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND | MCA_BTL_ATOMIC_SUPPORTS_OR        \
     | MCA_BTL_ATOMIC_SUPPORTS_XOR | MCA_BTL_ATOMIC_SUPPORTS_LAND | MCA_BTL_ATOMIC_SUPPORTS_LOR    \
     | MCA_BTL_ATOMIC_SUPPORTS_LXOR | MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_32BIT \
     | MCA_BTL_ATOMIC_SUPPORTS_CSWAP | MCA_BTL_ATOMIC_SUPPORTS_GLOB)

/*
 * Only with btl_ib_atomics_all. The interface has no word for unsigned integers, and osc/rdma (4.1,
 * 5.0) asks for MIN and MAX of both kinds alike; it calls a complex number of two floats a
 * double. Without these flags it computes such results itself, under a lock.
 */
#define ATOMIC_FLAGS_ALL                                                                           \
    (MCA_BTL_ATOMIC_SUPPORTS_MIN | MCA_BTL_ATOMIC_SUPPORTS_MAX | MCA_BTL_ATOMIC_SUPPORTS_FLOAT)

btl_ib_guard_kind_t btl_ib_params_guard(const btl_ib_params_t *params)
{
    btl_ib_guard_kind_t kind = BTL_IB_GUARD_NONE;

    while (kind + 1 < BTL_IB_GUARD_KINDS
           && 0 != strcmp(params->protection, btl_ib_guard_ops(kind)->name)) {
        ++kind;
    }
    return kind;
}

/* A variable to register. */
typedef struct variable {
    const mca_base_component_t *component;
    const char *name;
    const char *help;
    mca_base_var_type_t type;
    mca_base_var_enum_t *enumerator; /* or NULL */
    mca_base_var_info_lvl_t level;
    void *storage;
} variable_t;

/* Register it and its synonym. Returns whether Open MPI took both: a value that it refuses itself
 * leaves the default, which is reported later. */
static bool register_variable(const variable_t *v)
{
    const char *synonym = btl_ib_param_synonym(v->name);
    const int index =
        mca_base_component_var_register(v->component, v->name, v->help, v->type, v->enumerator, 0,
                                        0, v->level, MCA_BASE_VAR_SCOPE_READONLY, v->storage);
    int rc = index;

    if (0 <= index && NULL != synonym) {
        rc = mca_base_var_register_synonym(
            index, v->component->mca_project_name, v->component->mca_type_name,
            v->component->mca_component_name, synonym, MCA_BASE_VAR_SYN_FLAG_DEPRECATED);
    }
    return 0 <= rc || OPAL_ERR_VALUE_OUT_OF_BOUNDS == rc || OPAL_ERR_BAD_PARAM == rc;
}

static bool register_number(btl_ib_params_t *params, const btl_ib_param_number_t *number)
{
    void *storage = (char *) params + number->offset;
    const btl_ib_value_unit_t unit = btl_ib_value_unit(number->unit);
    const bool is_time = BTL_IB_VALUE_COUNT != unit && BTL_IB_VALUE_BYTES != unit;
    mca_base_var_enum_t *enumerator =
        is_time && !number->is_size ? btl_ib_compat_time_enum() : NULL;
    char help[BTL_IB_PARAM_HELP_MAX];
    bool ok;

    btl_ib_param_number_help(number, help);
    if (number->is_size) {
        *(size_t *) storage = (size_t) number->standard;
    } else {
        *(int *) storage = (int) number->standard;
    }
    ok = register_variable(&(variable_t){
        .component = params->component,
        .name = number->name,
        .help = help,
        .type = number->is_size ? MCA_BASE_VAR_TYPE_SIZE_T : MCA_BASE_VAR_TYPE_INT,
        .enumerator = enumerator,
        .level = number->level,
        .storage = storage,
    });
    if (NULL != enumerator) {
        OBJ_RELEASE(enumerator);
    }
    return ok;
}

static bool register_toggle(btl_ib_params_t *params, const btl_ib_param_toggle_t *toggle)
{
    bool *storage = (bool *) ((char *) params + toggle->offset);
    char help[BTL_IB_PARAM_HELP_MAX];

    *storage = toggle->standard;
    btl_ib_param_toggle_help(toggle, help);
    return register_variable(&(variable_t){
        .component = params->component,
        .name = toggle->name,
        .help = help,
        .type = MCA_BASE_VAR_TYPE_BOOL,
        .level = toggle->level,
        .storage = storage,
    });
}

static bool register_text(btl_ib_params_t *params, const btl_ib_param_text_t *text)
{
    char **storage = (char **) ((char *) params + text->offset);

    *storage = (char *) text->standard;
    return register_variable(&(variable_t){
        .component = params->component,
        .name = text->name,
        .help = text->help,
        .type = MCA_BASE_VAR_TYPE_STRING,
        .level = text->level,
        .storage = storage,
    });
}

static bool register_choice(btl_ib_params_t *params, size_t i)
{
    const btl_ib_param_choice_t *choice = &btl_ib_param_table.choices[i];
    const char **storage = (const char **) (void *) ((char *) params + choice->offset);
    const char *words[BTL_IB_WORDS_MAX];
    mca_base_var_enum_t *enumerator;
    bool ok;

    btl_ib_param_words(choice, words);
    enumerator = btl_ib_compat_choice_enum(choice->name, words);
    *storage = words[0];
    ok = register_variable(&(variable_t){
        .component = params->component,
        .name = choice->name,
        .help = choice->help,
        .type = MCA_BASE_VAR_TYPE_INT,
        .enumerator = enumerator,
        .level = choice->level,
        .storage = &params->chosen[i],
    });
    if (NULL != enumerator) {
        OBJ_RELEASE(enumerator);
    }
    return ok;
}

static bool register_limit(mca_btl_base_module_t *limits, const mca_base_component_t *component,
                           const btl_ib_param_limit_t *limit)
{
    const bool is_size = BTL_IB_RULE_SIZE == limit->rule.type;
    const bool is_flags = BTL_IB_RULE_FLAGS == limit->rule.type;

    return register_variable(&(variable_t){
        .component = component,
        .name = limit->rule.name,
        .help = limit->help,
        .type = is_size ? MCA_BASE_VAR_TYPE_SIZE_T : MCA_BASE_VAR_TYPE_UNSIGNED_INT,
        .enumerator = is_flags ? &mca_btl_base_flag_enum->super : NULL,
        .level = limit->level,
        .storage = (char *) limits + limit->rule.offset,
    });
}

/* Sizes count the PML's header and data; they have nothing to do with the size of a datagram. */
static void default_limits(mca_btl_base_module_t *limits)
{
    limits->btl_exclusivity = MCA_BTL_EXCLUSIVITY_DEFAULT;
    limits->btl_eager_limit = BTL_IB_EAGER_BY_BURSTS;
    limits->btl_rndv_eager_limit = 12 * 1024;
    limits->btl_max_send_size = 64 * 1024;
    limits->btl_rdma_pipeline_frag_size = 4 * 1024 * 1024;
    limits->btl_latency = 10;
    limits->btl_flags = FLAGS;
    limits->btl_get_limit = SIZE_MAX;
    limits->btl_put_limit = SIZE_MAX;
    limits->btl_get_local_registration_threshold = SIZE_MAX;
    limits->btl_put_local_registration_threshold = SIZE_MAX;
}

bool btl_ib_params_by_user(const btl_ib_params_t *params, const char *name)
{
    const mca_base_component_t *component = params->component;
    const int index = mca_base_var_find(component->mca_project_name, component->mca_type_name,
                                        component->mca_component_name, name);
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;

    return 0 <= index && OPAL_SUCCESS == mca_base_var_get_value(index, NULL, &source, NULL)
           && MCA_BASE_VAR_SOURCE_DEFAULT != source;
}

void btl_ib_params_register(btl_ib_params_t *params, mca_btl_base_module_t *limits,
                            mca_base_component_t *component)
{
    bool ok = true;

    memset(params, 0, sizeof(*params));
    params->component = component;
    default_limits(limits);
    for (size_t i = 0; i < btl_ib_param_table.toggle_count; ++i) {
        ok = register_toggle(params, &btl_ib_param_table.toggles[i]) && ok;
    }
    for (size_t i = 0; i < btl_ib_param_table.text_count; ++i) {
        ok = register_text(params, &btl_ib_param_table.texts[i]) && ok;
    }
    for (size_t i = 0; i < BTL_IB_CHOICES; ++i) {
        ok = register_choice(params, i) && ok;
    }
    for (size_t i = 0; i < btl_ib_param_table.number_count; ++i) {
        ok = register_number(params, &btl_ib_param_table.numbers[i]) && ok;
    }
    for (size_t i = 0; i < btl_ib_param_table.limit_count; ++i) {
        ok = register_limit(limits, component, &btl_ib_param_table.limits[i]) && ok;
    }
    limits->btl_atomic_flags = ATOMIC_FLAGS | (params->atomics_all ? ATOMIC_FLAGS_ALL : 0);
    params->queues_by_user = btl_ib_params_by_user(params, "receive_queues");
    params->eager_by_user = btl_ib_params_by_user(params, "eager_limit");
    params->registered = OPAL_SUCCESS == mca_btl_base_param_register(component, limits) && ok;
    /* Open MPI registers these as well, but any address will do. */
    limits->btl_get_alignment = 0;
    limits->btl_put_alignment = 0;
}

/* Open MPI looked at its own values when it registered them. */
void btl_ib_params_verify(btl_ib_params_t *params, mca_btl_base_module_t *limits)
{
    params->registered = OPAL_SUCCESS == mca_btl_base_param_verify(limits) && params->registered;
}

/* ---- what the engine is told of them ---- */

uint32_t btl_ib_params_message_max(const mca_btl_base_module_t *limits)
{
    const size_t max = limits->btl_eager_limit > limits->btl_max_send_size
                           ? limits->btl_eager_limit
                           : limits->btl_max_send_size;

    return (uint32_t) max + BTL_IB_HEADER_ROOM;
}

size_t btl_ib_params_eager_limit(const btl_ib_params_t *params, const mca_btl_base_module_t *limits,
                                 const btl_ib_transport_attr_t *attr, bool by_device)
{
    const size_t most = by_device             ? BTL_IB_EAGER_BY_DEVICE
                        : attr->gso_bytes > 0 ? BTL_IB_EAGER_BY_BURSTS
                                              : BTL_IB_EAGER_BY_DATAGRAMS;

    return params->eager_by_user ? limits->btl_eager_limit : most;
}

void btl_ib_params_engine(const btl_ib_params_t *params, const mca_btl_base_module_t *limits,
                          btl_ib_engine_config_t *config)
{
    btl_ib_engine_config_default(config);
    config->guard = btl_ib_params_guard(params);
    config->eager_max = btl_ib_params_message_max(limits);
    config->ack_delay = (uint32_t) params->ack_delay;
    config->rto_min = (uint32_t) params->rto_min;
    config->rto_max = (uint32_t) params->rto_max;
    config->rto_initial = (uint32_t) params->rto_initial;
    config->silence_limit = (uint64_t) params->silence_limit * 1000000u;
    config->connect_timeout = (uint64_t) params->connect_timeout * 1000000u;
    config->down_limit = (uint64_t) params->down_limit * 1000000u;
    config->depth_peer = (uint32_t) params->depth_peer;
    config->depth_total = (uint32_t) params->depth_total;
    config->depth_bytes = params->depth_bytes;
    config->credit_init = (uint32_t) params->credit_init;
    config->credit_pool = (uint32_t) params->credit_pool;
    (void) btl_ib_cc_parse(params->cc, &config->cc); /* it was checked */
}
