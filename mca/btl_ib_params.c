/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_params.h"

#include "btl_ib_ompi_compat.h"
#include "btl_ib_file_name.h"
#include "btl_ib_help.h"
#include "btl_ib_old_values.h"
#include "btl_ib_param_parse.h"
#include "published_address.h"
#include "transport.h"

#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- values ---- */

/* Flags that Open MPI may use, and from which a user may choose by btl_ib_flags. */
#define FLAGS                                                                                      \
    (MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_SEND_INPLACE | MCA_BTL_FLAGS_RDMA                          \
     | MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS | MCA_BTL_FLAGS_RDMA_FLUSH)

/* Atomics that the processor of the target executes. They are atomic towards local processes, too:
 * GLOB. */
#define ATOMIC_FLAGS                                                                               \
    (MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND | MCA_BTL_ATOMIC_SUPPORTS_OR        \
     | MCA_BTL_ATOMIC_SUPPORTS_XOR | MCA_BTL_ATOMIC_SUPPORTS_LAND | MCA_BTL_ATOMIC_SUPPORTS_LOR    \
     | MCA_BTL_ATOMIC_SUPPORTS_LXOR | MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_32BIT \
     | MCA_BTL_ATOMIC_SUPPORTS_CSWAP | MCA_BTL_ATOMIC_SUPPORTS_GLOB)

/*
 * Atomics that are offered with btl_ib_atomics_all only, since osc/rdma (4.1, 5.0) misuses them:
 * the interface does not tell unsigned from signed integers, and osc/rdma asks for MIN and MAX of
 * both; it takes a complex number of two floats for a double. Without these flags osc/rdma computes
 * such results itself, under a lock.
 */
#define ATOMIC_FLAGS_ALL                                                                           \
    (MCA_BTL_ATOMIC_SUPPORTS_MIN | MCA_BTL_ATOMIC_SUPPORTS_MAX | MCA_BTL_ATOMIC_SUPPORTS_FLOAT)

btl_ib_protection_kind_t btl_ib_params_protection(const btl_ib_params_t *params)
{
    btl_ib_protection_kind_t kind = BTL_IB_PROTECTION_NONE;

    while (kind + 1 < BTL_IB_PROTECTION_KINDS
           && strcmp(params->protection, btl_ib_protection_ops(kind)->name) != 0) {
        ++kind;
    }
    return kind;
}

/* The value of a parameter that is no string. */
typedef union meant {
    uint64_t number;
    bool truth;
    uint32_t flags;
} meant_t;

/* Stores the value of a parameter that is no string. */
static void store_value(const btl_ib_param_t *param, const meant_t *meant, void *field)
{
    switch (param->kind) {
    case BTL_IB_PARAM_INT:
        *(int *) field = (int) (int64_t) meant->number;
        break;
    case BTL_IB_PARAM_UNSIGNED:
        *(uint32_t *) field = (uint32_t) meant->number;
        break;
    case BTL_IB_PARAM_SIZE:
        *(size_t *) field = (size_t) meant->number;
        break;
    case BTL_IB_PARAM_BOOL:
        *(bool *) field = meant->truth;
        break;
    case BTL_IB_PARAM_FLAGS:
        *(uint32_t *) field = meant->flags & FLAGS;
        break;
    default:
        break;
    }
}

/* Stores the default of a parameter of btl_ib_params_t (default_limits() sets those of limits). The
 * field of a choice is the word itself; Open MPI registers its index, params->chosen. */
static void store_default(const btl_ib_param_t *param, void *field, const char *first_word)
{
    meant_t standard = {.number = (uint64_t) param->standard};

    if (param->kind == BTL_IB_PARAM_WORD || param->kind == BTL_IB_PARAM_TEXT) {
        *(const char **) field = param->kind == BTL_IB_PARAM_WORD ? first_word : param->text;
        return;
    }
    if (param->kind == BTL_IB_PARAM_BOOL) {
        standard.truth = param->standard != 0;
    }
    store_value(param, &standard, field);
}

/* Returns the enumeration by which Open MPI reads and shows a parameter; NULL: none. The caller
 * releases it, except that of flags. */
static mca_base_var_enum_t *enum_of(const btl_ib_param_t *param, const char *const *words)
{
    const btl_ib_value_unit_t unit = btl_ib_value_unit(param->unit);

    switch (param->kind) {
    case BTL_IB_PARAM_WORD:
        return btl_ib_ompi_choice_enum(param->name, words);
    case BTL_IB_PARAM_FLAGS:
        return &mca_btl_base_flag_enum->super;
    case BTL_IB_PARAM_INT:
        return unit != BTL_IB_VALUE_COUNT && unit != BTL_IB_VALUE_BYTES ? btl_ib_ompi_time_enum()
                                                                        : NULL;
    default:
        return NULL;
    }
}

/* Registers a parameter, whose value Open MPI keeps in `storage`. Returns false if Open MPI does
 * not take the parameter. One whose value Open MPI refuses is registered with its default, and
 * reported later. */
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

    return rc >= 0 || rc == OPAL_ERR_VALUE_OUT_OF_BOUNDS || rc == OPAL_ERR_BAD_PARAM;
}

static bool register_all(btl_ib_params_t *params, mca_btl_base_module_t *limits)
{
    int *chosen = params->chosen;
    bool ok = true;

    for (const btl_ib_param_t *param = btl_ib_param_table; param->name != NULL; ++param) {
        void *field = (param->of_limits ? (char *) limits : (char *) params) + param->offset;
        const char *words[BTL_IB_WORDS_MAX] = {NULL};
        mca_base_var_enum_t *enumerator;

        if (param->kind == BTL_IB_PARAM_WORD) {
            btl_ib_param_words(param, words);
        }
        enumerator = enum_of(param, words);
        if (!param->of_limits) {
            store_default(param, field, words[0]);
        }
        assert(param->kind != BTL_IB_PARAM_WORD || chosen < params->chosen + BTL_IB_CHOICES);
        ok = register_at(params->component, param, enumerator,
                         param->kind == BTL_IB_PARAM_WORD ? (void *) chosen++ : field)
             && ok;
        if (enumerator != NULL && param->kind != BTL_IB_PARAM_FLAGS) {
            OBJ_RELEASE(enumerator);
        }
    }
    return ok;
}

/* Sets the defaults of a module's fields. Sizes count the PML's header and data, and are
 * independent of the size of a datagram. */
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

    return index >= 0 && mca_base_var_get_value(index, NULL, &source, NULL) == OPAL_SUCCESS
           && source != MCA_BASE_VAR_SOURCE_DEFAULT;
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
    params->queues_by_user = params->receive_queues != NULL && params->receive_queues[0] != '\0';
    params->eager_by_user =
        btl_ib_params_by_user(params, "eager_limit") && limits->btl_eager_limit != 0;
    params->registered = mca_btl_base_param_register(component, limits) == OPAL_SUCCESS && ok;
    /* Undo what Open MPI registers for these: any alignment will do. */
    limits->btl_get_alignment = 0;
    limits->btl_put_alignment = 0;
}

/* ---- configuring the engine ---- */

enum { ACK_DELAY_YIELDING = 1000 }; /* us, where processes share processors */

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

/* Returns how long to delay ACKs, us. A process that leaves its processor to others sends its next
 * message to a peer after they had their turns: an ACK that does not wait for it costs each of the
 * two a datagram. */
static uint32_t ack_delay(const btl_ib_params_t *params)
{
    if (btl_ib_ompi_yields_when_idle() && !btl_ib_params_by_user(params, "ack_delay")) {
        return ACK_DELAY_YIELDING;
    }
    return (uint32_t) params->ack_delay;
}

void btl_ib_params_engine(const btl_ib_params_t *params, const mca_btl_base_module_t *limits,
                          btl_ib_engine_config_t *config)
{
    btl_ib_engine_config_default(config);
    config->protection = btl_ib_params_protection(params);
    config->eager_max = btl_ib_params_message_max(limits);
    config->ack_delay = ack_delay(params);
    config->rto_min = (uint32_t) params->rto_min;
    config->rto_max = (uint32_t) params->rto_max;
    config->rto_initial = (uint32_t) params->rto_initial;
    config->silence_limit = (uint64_t) params->silence_limit * 1000000u;
    config->connect_timeout = (uint64_t) params->connect_timeout * 1000000u;
    config->keepalive = (uint64_t) params->keepalive * 1000000u;
    config->down_limit = (uint64_t) params->down_limit * 1000000u;
    config->depth_peer = (uint32_t) params->depth_peer;
    config->depth_total = (uint32_t) params->depth_total;
    config->depth_bytes = params->depth_bytes;
    config->ops_max = (uint32_t) params->long_depth;
    config->ops_total = (uint32_t) params->long_depth_total;
    config->reassembly_max = (uint32_t) params->reassembly_buffers;
    config->reassembly_peer = (uint32_t) params->reassembly_buffers_peer;
    config->credit_init = (uint32_t) params->credit_init;
    config->credit_pool = (uint32_t) params->credit_pool;
    (void) btl_ib_cc_parse(params->cc, &config->cc); /* cannot fail: the word was checked */
}

/* ---- what the user gave ---- */

/* Open MPI's names of FLAGS, which are the first FLAG_NAMES, and the names of flags of openib, for
 * PMLs other than ob1, which are accepted and change nothing. */
static const btl_ib_value_flag_t flag_names[] = {
    {"send", MCA_BTL_FLAGS_SEND},
    {"inplace", MCA_BTL_FLAGS_SEND_INPLACE},
    {"put", MCA_BTL_FLAGS_PUT},
    {"get", MCA_BTL_FLAGS_GET},
    {"atomics", MCA_BTL_FLAGS_ATOMIC_OPS},
    {"fetching-atomics", MCA_BTL_FLAGS_ATOMIC_FOPS},
    {"rdma-flush", MCA_BTL_FLAGS_RDMA_FLUSH},
    {"need-ack", MCA_BTL_FLAGS_NEED_ACK},
    {"need-csum", MCA_BTL_FLAGS_NEED_CSUM},
    {"hetero-rdma", MCA_BTL_FLAGS_HETEROGENEOUS_RDMA},
    {"failover", MCA_BTL_FLAGS_FAILOVER_SUPPORT},
    {NULL, 0},
};

#define FLAG_NAMES 7
static_assert(FLAG_NAMES <= BTL_IB_WORDS_MAX, "describe_values() has room for all of them");

static const char *text_of(const char *value)
{
    return value != NULL ? value : "";
}

/* ---- reading ---- */

/* Reads the value of a number, a bool or flags. Returns NULL or what is wrong; NULL for a word or a
 * text, which it does not read. */
static const char *read_value(const btl_ib_param_t *param, const char *text, meant_t *meant)
{
    const btl_ib_value_range_t range = {btl_ib_value_unit(param->unit), param->low, param->high};

    switch (param->kind) {
    case BTL_IB_PARAM_BOOL:
        return btl_ib_value_bool(text, &meant->truth);
    case BTL_IB_PARAM_FLAGS:
        return btl_ib_value_flags(text, flag_names, &meant->flags);
    case BTL_IB_PARAM_WORD:
    case BTL_IB_PARAM_TEXT:
        return NULL;
    default:
        return btl_ib_value_number(text, &range, &meant->number);
    }
}

/* Returns the text that the user gave for a parameter, with old values translated
 * (btl_ib_old_values.h); NULL: none. */
static const char *text_given(const btl_ib_params_t *params, const btl_ib_param_t *param)
{
    char where[256];
    const char *text = btl_ib_ompi_param_text(params->component, param->name, where, sizeof(where));

    return text != NULL ? btl_ib_old_value(param->name, text) : NULL;
}

/* Returns the word of a choice that equals `text`; NULL: none does. */
static const char *find_word(const btl_ib_param_t *param, const char *text)
{
    const char *words[BTL_IB_WORDS_MAX];
    size_t i = 0;

    btl_ib_param_words(param, words);
    while (words[i] != NULL && strcmp(words[i], text) != 0) {
        ++i;
    }
    return words[i];
}

void btl_ib_params_read(btl_ib_params_t *params, mca_btl_base_module_t *limits)
{
    for (const btl_ib_param_t *param = btl_ib_param_table; param->name != NULL; ++param) {
        const char *text = text_given(params, param);
        void *field = (param->of_limits ? (char *) limits : (char *) params) + param->offset;
        meant_t meant;

        if (text == NULL || param->kind == BTL_IB_PARAM_TEXT) {
            continue;
        }
        if (param->kind == BTL_IB_PARAM_WORD) {
            const char *word = find_word(param, text);

            *(const char **) field = word != NULL ? word : *(const char **) field;
        } else if (read_value(param, text, &meant) == NULL) {
            store_value(param, &meant, field);
        } else if (!param->of_limits && param->kind != BTL_IB_PARAM_BOOL) {
            store_default(param, field, NULL);
        }
    }
    params->registered = mca_btl_base_param_verify(limits) == OPAL_SUCCESS && params->registered;
}

/* ---- reporting wrong values ---- */

/* Shows what is wrong with a value, and returns false; or, if `problem` is NULL, returns true. */
static bool check_value(const btl_ib_params_t *params, const char *name, const char *problem,
                        const char *expected, const char *standard)
{
    char shown[128];
    char where[256];

    if (problem == NULL) {
        return true;
    }
    btl_ib_value_show(
        text_of(btl_ib_ompi_param_text(params->component, name, where, sizeof(where))), shown,
        sizeof(shown));
    BTL_IB_SHOW_HELP("bad value", name, opal_process_info.nodename, shown, where, problem, expected,
                     standard);
    return false;
}

/* Writes which values a parameter may have, as "1 to 5 (bytes...)" or "one of ...". */
static void describe_values(const btl_ib_param_t *param, char *out, size_t size)
{
    const char *words[BTL_IB_WORDS_MAX + 1] = {NULL};
    const char *between = "one of ";

    if (param->kind == BTL_IB_PARAM_BOOL) {
        snprintf(out, size, "0, f, false, n, no, disabled, 1, t, true, y, yes or enabled");
        return;
    }
    if (param->kind == BTL_IB_PARAM_FLAGS) {
        between = "send, and some of ";
        for (size_t i = 1; i < FLAG_NAMES; ++i) {
            words[i - 1] = flag_names[i].name;
        }
    } else if (param->kind == BTL_IB_PARAM_WORD) {
        btl_ib_param_words(param, words);
    } else {
        snprintf(out, size, "%" PRId64 " to %" PRIu64 " (%s%s)", param->low, param->high,
                 param->unit, btl_ib_value_unit_help(btl_ib_value_unit(param->unit)));
        return;
    }
    out[0] = '\0';
    for (size_t i = 0; words[i] != NULL; ++i) {
        const size_t len = strlen(out);

        snprintf(out + len, size - len, "%s%s", between, words[i]);
        between = ", ";
    }
}

/* Shows what is wrong with a value, and which values the table allows. */
static void refuse_by_table(const btl_ib_params_t *params, const btl_ib_param_t *param,
                            const char *problem)
{
    const char *words[BTL_IB_WORDS_MAX];
    char expected[256];
    char number[32];
    const char *standard = number;

    snprintf(number, sizeof(number), "%" PRId64, param->standard);
    if (param->kind == BTL_IB_PARAM_WORD) {
        btl_ib_param_words(param, words);
        standard = words[0];
    } else if (param->of_limits) {
        standard = param->text;
    }
    describe_values(param, expected, sizeof(expected));
    (void) check_value(params, param->name, problem, expected, standard);
}

/* Returns what is wrong with a word; NULL: nothing. An empty name of a transport means auto. */
static const char *word_problem(const btl_ib_param_t *param, const char *text)
{
    if (find_word(param, text) != NULL || (param->words == NULL && text[0] == '\0')) {
        return NULL;
    }
    return text[0] == '\0' ? "it is empty" : "it is none of these";
}

/* Checks all parameters by the table. Shows each that is wrong, so that the user can mend all at
 * once. */
static bool check_table(const btl_ib_params_t *params)
{
    bool ok = true;

    for (const btl_ib_param_t *param = btl_ib_param_table; param->name != NULL; ++param) {
        const char *text = text_given(params, param);
        const char *problem = NULL;
        meant_t meant;

        if (text != NULL) {
            problem = param->kind == BTL_IB_PARAM_WORD ? word_problem(param, text)
                                                       : read_value(param, text, &meant);
        }
        if (problem != NULL) {
            refuse_by_table(params, param, problem);
            ok = false;
        }
    }
    return ok;
}

/* ---- checking texts ---- */

static bool check_memory(const btl_ib_params_t *params, const char *name, const char *text,
                         const char *standard)
{
    uint64_t value;
    bool is_share;

    return check_value(params, name, btl_ib_value_bytes_or_share(text_of(text), &value, &is_share),
                       "0 to 18446744073709551615 (bytes, or with k, M, G or KiB, MiB, GiB after "
                       "it), or 0% to 100%, or 0.0 to 1.0, or a fraction as 2/3",
                       standard);
}

const char *btl_ib_params_send_depth(const btl_ib_params_t *params,
                                     uint32_t depths[BTL_IB_QUEUES_MAX])
{
    static const btl_ib_value_range_t range = {BTL_IB_VALUE_COUNT, 0, 16384};
    uint64_t values[BTL_IB_QUEUES_MAX] = {0};
    size_t count = 1;
    const char *text = params->send_depth != NULL ? params->send_depth : "";
    const char *problem = btl_ib_value_list(text, &range, BTL_IB_QUEUES_MAX, values, &count);

    for (size_t i = 0; i < BTL_IB_QUEUES_MAX; ++i) {
        depths[i] = (uint32_t) values[i < count ? i : count - 1];
    }
    return problem;
}

/* Checks a pattern of file names; empty is valid. */
static bool check_file(const btl_ib_params_t *params, const char *name, const char *file)
{
    return check_value(params, name,
                       text_of(file)[0] != '\0' ? btl_ib_file_name_problem(file) : NULL,
                       "a name in which %h, %r, %j, %p and %% may stand, or a directory with / at "
                       "its end",
                       "empty, none");
}

/* Checks all texts. Shows each that is wrong, so that the user can mend all at once. */
static bool check_texts(const btl_ib_params_t *params)
{
    btl_ib_device_t any = {.transport = ""};
    uint32_t depths[BTL_IB_QUEUES_MAX];
    uint64_t seconds;
    bool truth;
    bool ok = check_value(params, "stats",
                          btl_ib_value_truth_or_seconds(text_of(params->stats), &truth, &seconds),
                          "0, f, false, n, no, disabled, 1, t, true, y, yes or enabled, or 2 to "
                          "86400 (seconds, or with ms, s or min after it from 1s on)",
                          "0");

    ok = check_value(params, "send_depth", btl_ib_params_send_depth(params, depths),
                     "0 to 16384 (sends), or up to 16 of these, separated by commas", "0")
         && ok;
    ok = check_memory(params, "max_pinned", params->max_pinned, "50%") && ok;
    ok = check_memory(params, "memory_max", params->memory_max, "0") && ok;
    ok = check_value(
             params, "udp_address",
             btl_ib_published_address(text_of(params->udp_address), params->port_min != 0, &any),
             "PUBLIC[:PORT], or a list of IFACE=PUBLIC[:PORT]; PORT only with "
             "btl_ib_port_min",
             "empty")
         && ok;
    ok = check_file(params, "stats_file", params->stats_file) && ok;
    ok = check_file(params, "connectivity_map", params->connectivity_map) && ok;
    return check_file(params, "trace", params->trace) && ok;
}

/* ---- checking what has to fit together ---- */

static bool check_together(const btl_ib_params_t *params)
{
    char why[160];

    if (text_of(params->if_include)[0] != '\0' && text_of(params->if_exclude)[0] != '\0') {
        BTL_IB_SHOW_HELP("include and exclude", opal_process_info.nodename, params->if_include,
                         params->if_exclude);
        return false;
    }
    if (btl_ib_protection_ops(btl_ib_params_protection(params))->keyed
        && !btl_ib_aead_available(why, sizeof(why))) {
        BTL_IB_SHOW_HELP("no cryptography", opal_process_info.nodename, params->protection, why);
        return false;
    }
    return true;
}

static bool check_order(const char *smaller, int64_t small_value, const char *larger,
                        int64_t large_value)
{
    char small_text[64];
    char large_text[64];

    if (small_value <= large_value) {
        return true;
    }
    snprintf(small_text, sizeof(small_text), "%" PRId64 " %s (default: %" PRId64 ")", small_value,
             btl_ib_param(smaller)->unit, btl_ib_param(smaller)->standard);
    snprintf(large_text, sizeof(large_text), "%" PRId64 " %s (default: %" PRId64 ")", large_value,
             btl_ib_param(larger)->unit, btl_ib_param(larger)->standard);
    BTL_IB_SHOW_HELP("values contradict", opal_process_info.nodename, smaller, small_text, larger,
                     large_text, smaller, larger);
    return false;
}

/* Checks that a value is 0, or at least `least`, which no range of the table can say. */
static bool check_least_but_0(const btl_ib_params_t *params, const char *name, uint64_t value,
                              uint64_t least)
{
    const btl_ib_param_t *param = btl_ib_param(name);
    char expected[128];

    if (value == 0 || value >= least) {
        return true;
    }
    snprintf(expected, sizeof(expected), "0, or %" PRIu64 " to %" PRIu64 " (%s%s)", least,
             param->high, param->unit, btl_ib_value_unit_help(btl_ib_value_unit(param->unit)));
    return check_value(params, name, "it is too small", expected,
                       param->of_limits ? param->text : "0");
}

/* Checks limits of single values that no range of the table can say. */
static bool check_limits(const btl_ib_params_t *params, const mca_btl_base_module_t *limits)
{
    if ((limits->btl_flags & MCA_BTL_FLAGS_SEND) == 0) {
        refuse_by_table(params, btl_ib_param("flags"), "send is missing");
        return false;
    }
    return check_least_but_0(params, "mtu", (uint64_t) params->mtu, BTL_IB_MTU_LEAST)
           && check_least_but_0(params, "rdma_pipeline_frag_size",
                                limits->btl_rdma_pipeline_frag_size, 4096);
}

bool btl_ib_params_check(const btl_ib_params_t *params, const mca_btl_base_module_t *limits)
{
    const bool table_ok = check_table(params);
    const bool texts_ok = check_texts(params); /* also if the table is not: all are shown */

    if (!table_ok || !texts_ok) {
        return false;
    }
    if (!params->registered) {
        btl_ib_help_cannot_start("Open MPI refused to register the component's MCA parameters", 0,
                                 "Do: build it for this Open MPI (ompi_info). What Open MPI says\n"
                                 "above may name the parameter.");
        return false;
    }
    return check_together(params) && check_limits(params, limits)
           && check_order("rto_min", params->rto_min, "rto_max", params->rto_max)
           && check_order("rto_initial", params->rto_initial, "rto_max", params->rto_max)
           && check_order("rto_min", params->rto_min, "rto_initial", params->rto_initial);
}
