/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_params.h"

#include "btl_ib_compat.h"
#include "btl_ib_param_values.h"

#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- their descriptions ---- */

const char *btl_ib_param_help(const btl_ib_param_t *param, char room[BTL_IB_PARAM_HELP_MAX])
{
    const btl_ib_value_unit_t unit = btl_ib_value_unit(param->unit);
    const char *units = BTL_IB_VALUE_COUNT == unit   ? ""
                        : BTL_IB_VALUE_BYTES == unit ? " or with k, M, G"
                                                     : " or with us, ms, s, min";

    if (NULL == param->when) {
        return param->help;
    }
    if (BTL_IB_PARAM_BOOL == param->kind) {
        snprintf(room, BTL_IB_PARAM_HELP_MAX, "%s (0 or 1, default: %d%s%s). %s", param->help,
                 (int) param->standard, NULL != param->text ? ", " : "",
                 NULL != param->text ? param->text : "", param->when);
    } else {
        snprintf(room, BTL_IB_PARAM_HELP_MAX,
                 "%s (%s%s, %" PRId64 " to %" PRIu64 ", default: %" PRId64 "). %s", param->help,
                 param->unit, units, param->low, param->high, param->standard, param->when);
    }
    return room;
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

/* The default into the field of a parameter; Open MPI's limits have theirs. Of words the field is
 * a string, for Open MPI the place of it. */
static void set_default(const btl_ib_param_t *param, void *field, const char *first_word)
{
    switch (param->kind) {
    case BTL_IB_PARAM_INT:
        *(int *) field = (int) param->standard;
        break;
    case BTL_IB_PARAM_SIZE:
        *(size_t *) field = (size_t) param->standard;
        break;
    case BTL_IB_PARAM_BOOL:
        *(bool *) field = 0 != param->standard;
        break;
    case BTL_IB_PARAM_WORD:
        *(const char **) field = first_word;
        break;
    case BTL_IB_PARAM_TEXT:
        *(const char **) field = param->text;
        break;
    default: /* only of limits */
        break;
    }
}

/* What Open MPI is to know of the values beyond their type; to be released, but for flags. */
static mca_base_var_enum_t *enum_of(const btl_ib_param_t *param, const char *const *words)
{
    const btl_ib_value_unit_t unit = btl_ib_value_unit(param->unit);

    switch (param->kind) {
    case BTL_IB_PARAM_WORD:
        return btl_ib_compat_choice_enum(param->name, words);
    case BTL_IB_PARAM_FLAGS:
        return &mca_btl_base_flag_enum->super;
    case BTL_IB_PARAM_INT:
        return BTL_IB_VALUE_COUNT != unit && BTL_IB_VALUE_BYTES != unit ? btl_ib_compat_time_enum()
                                                                        : NULL;
    default:
        return NULL;
    }
}

/* Register it in `storage`. Returns whether Open MPI took it: a value that it refuses itself leaves
 * the default, which is reported later. */
static bool register_at(const mca_base_component_t *component, const btl_ib_param_t *param,
                        mca_base_var_enum_t *enumerator, void *storage)
{
    static const mca_base_var_type_t types[] = {
        [BTL_IB_PARAM_INT] = MCA_BASE_VAR_TYPE_INT,
        [BTL_IB_PARAM_UNSIGNED] = MCA_BASE_VAR_TYPE_UNSIGNED_INT,
        [BTL_IB_PARAM_SIZE] = MCA_BASE_VAR_TYPE_SIZE_T,
        [BTL_IB_PARAM_BOOL] = MCA_BASE_VAR_TYPE_BOOL,
        [BTL_IB_PARAM_FLAGS] = MCA_BASE_VAR_TYPE_UNSIGNED_INT,
        [BTL_IB_PARAM_WORD] = MCA_BASE_VAR_TYPE_INT,
        [BTL_IB_PARAM_TEXT] = MCA_BASE_VAR_TYPE_STRING,
    };
    char room[BTL_IB_PARAM_HELP_MAX];
    const int rc = mca_base_component_var_register(
        component, param->name, btl_ib_param_help(param, room), types[param->kind], enumerator, 0,
        0, param->level, MCA_BASE_VAR_SCOPE_READONLY, storage);

    return 0 <= rc || OPAL_ERR_VALUE_OUT_OF_BOUNDS == rc || OPAL_ERR_BAD_PARAM == rc;
}

static bool register_all(btl_ib_params_t *params, mca_btl_base_module_t *limits)
{
    int *chosen = params->chosen;
    bool ok = true;

    for (const btl_ib_param_t *param = btl_ib_param_table; NULL != param->name; ++param) {
        void *field = (param->of_limits ? (char *) limits : (char *) params) + param->offset;
        const char *words[BTL_IB_WORDS_MAX] = {NULL};
        mca_base_var_enum_t *enumerator;

        if (BTL_IB_PARAM_WORD == param->kind) {
            btl_ib_param_words(param, words);
        }
        enumerator = enum_of(param, words);
        if (!param->of_limits) {
            set_default(param, field, words[0]);
        }
        assert(BTL_IB_PARAM_WORD != param->kind || chosen < params->chosen + BTL_IB_CHOICES);
        ok = register_at(params->component, param, enumerator,
                         BTL_IB_PARAM_WORD == param->kind ? (void *) chosen++ : field)
             && ok;
        if (NULL != enumerator && BTL_IB_PARAM_FLAGS != param->kind) {
            OBJ_RELEASE(enumerator);
        }
    }
    return ok;
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
    bool ok;

    memset(params, 0, sizeof(*params));
    params->component = component;
    default_limits(limits);
    ok = register_all(params, limits);
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
