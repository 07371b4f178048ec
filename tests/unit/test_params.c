/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Parameters as users give them: what each text makes of its field, which are refused, and what is
 * told then. Open MPI's own table of variables is there, but no runtime. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib.h"
#include "btl_ib_old_values.h"
#include "btl_ib_params.h"
#include "told.h"

static btl_ib_params_t params;
static mca_btl_base_module_t limits;

/* ---- a user ---- */

static const char *variable(const char *name)
{
    static char text[128];

    snprintf(text, sizeof(text), "OMPI_MCA_btl_ib_%s", name);
    return text;
}

static void give(const char *name, const char *text)
{
    assert_int_equal(setenv(variable(name), text, 1), 0);
}

static void give_signed(const char *name, int64_t number)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, number);
    give(name, text);
}

static void give_unsigned(const char *name, uint64_t number)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    give(name, text);
}

static void forget_all(void)
{
    for (const btl_ib_param_t *param = btl_ib_param_table; param->name != NULL; ++param) {
        unsetenv(variable(param->name));
    }
}

/* Registers, reads and checks parameters as a process does, with what was given; the next one is
 * given nothing. Returns whether ib would be used. */
static bool taken(void)
{
    static mca_btl_base_component_t component = {.btl_version = {MCA_BTL_DEFAULT_VERSION("ib")}};
    const mca_base_component_t *const version = &component.btl_version;
    const int group = mca_base_var_group_find(version->mca_project_name, "btl", "ib");
    bool ok;

    if (group >= 0) {
        assert_int_equal(mca_base_var_group_deregister(group), OPAL_SUCCESS);
    }
    memset(&limits, 0, sizeof(limits));
    btl_ib_module_functions(&limits);
    begin_told();
    btl_ib_params_register(&params, &limits, &component.btl_version);
    btl_ib_params_read(&params, &limits);
    ok = btl_ib_params_check(&params, &limits);
    end_told();
    return ok;
}

static bool taken_with(const char *name, const char *text)
{
    bool ok;

    give(name, text);
    ok = taken();
    forget_all();
    return ok;
}

/* The help text about a parameter has this line. */
static void expect_told_of(const char *name, const char *line)
{
    char begin[128];
    const char *text, *end;

    snprintf(begin, sizeof(begin), "The MCA parameter btl_ib_%s has a value that cannot", name);
    text = strstr(told, begin);
    if (text == NULL) {
        fail_msg("nothing is told of %s", name);
    }
    end = strstr(text, "The ib BTL will not be used");
    assert_non_null(end);
    if (strstr(text, line) == NULL || strstr(text, line) > end) {
        fail_msg("of %s is told: %.*s; expected: %s", name, (int) (end - text), text, line);
    }
}

static void *field_of(const btl_ib_param_t *param)
{
    return (param->of_limits ? (char *) &limits : (char *) &params) + param->offset;
}

static bool is_number(const btl_ib_param_t *param)
{
    return param->kind == BTL_IB_PARAM_INT || param->kind == BTL_IB_PARAM_UNSIGNED
           || param->kind == BTL_IB_PARAM_SIZE;
}

static uint64_t number_in(const btl_ib_param_t *param)
{
    const void *field = field_of(param);

    return param->kind == BTL_IB_PARAM_SIZE  ? *(const size_t *) field
           : param->kind == BTL_IB_PARAM_INT ? (uint64_t) (int64_t) * (const int *) field
                                             : *(const uint32_t *) field;
}

static void expect_number(const btl_ib_param_t *param, uint64_t expected)
{
    if (number_in(param) != expected) {
        fail_msg("%s is %" PRIu64 ", expected: %" PRIu64, param->name, number_in(param), expected);
    }
}

static bool is_by_user(const char *name)
{
    return btl_ib_params_by_user(&params, name);
}

/* ---- the table ---- */

#define EACH_PARAM(param)                                                                          \
    const btl_ib_param_t *param = btl_ib_param_table;                                              \
    param->name != NULL;                                                                           \
    ++param

TEST(defaults)
{
    assert_true(taken());
    assert_string_equal(told, "");
    for (EACH_PARAM(param)) {
        const char *words[BTL_IB_WORDS_MAX];

        assert_false(is_by_user(param->name));
        if (param->of_limits) {
            continue;
        }
        if (is_number(param)) {
            expect_number(param, (uint64_t) param->standard);
        } else if (param->kind == BTL_IB_PARAM_BOOL) {
            assert_int_equal(*(bool *) field_of(param), param->standard);
        } else if (param->kind == BTL_IB_PARAM_WORD) {
            btl_ib_param_words(param, words);
            assert_string_equal(*(const char **) field_of(param), words[0]);
        } else if (param->text != NULL) {
            assert_string_equal(*(const char **) field_of(param), param->text);
        }
    }
    assert_false(params.queues_by_user);
    assert_false(params.eager_by_user);
}

/* Both ends of a range, and what is one beyond them: all are told at once. */
TEST(ends_of_ranges)
{
    for (int end = 0; end < 2; ++end) {
        for (EACH_PARAM(param)) {
            if (is_number(param) && end == 0) {
                give_signed(param->name, param->low);
            } else if (is_number(param)) {
                give_unsigned(param->name, param->high);
            }
        }
        (void) taken();
        expect_untold("has a value that cannot be used");
        for (EACH_PARAM(param)) {
            const uint64_t given = end == 0 ? (uint64_t) param->low : param->high;

            /* Open MPI takes a limit of 0 for its own, and raises this one to what others say. */
            if (is_number(param) && !(param->of_limits && given == 0)
                && strcmp(param->name, "min_rdma_pipeline_size") != 0) {
                expect_number(param, given);
                assert_true(is_by_user(param->name));
            }
        }
        forget_all();
    }
}

TEST(one_beyond_ranges)
{
    for (int end = 0; end < 2; ++end) {
        for (EACH_PARAM(param)) {
            if (is_number(param) && end == 0) {
                give_signed(param->name, param->low - 1);
            } else if (is_number(param) && param->high < UINT64_MAX) {
                give_unsigned(param->name, param->high + 1);
            }
        }
        assert_false(taken());
        for (EACH_PARAM(param)) {
            const char *text = getenv(variable(param->name));

            if (text == NULL || btl_ib_old_value(param->name, text) != text) {
                continue;
            }
            expect_told_of(param->name, end == 0 ? "Problem:  it is too small\n"
                                                 : "Problem:  it is too large\n");
            if (!param->of_limits) {
                expect_number(param, (uint64_t) param->standard);
            }
        }
        forget_all();
    }
}

/* All words of all choices; Open MPI is told their places. */
TEST(words)
{
    for (size_t place = 0; place < BTL_IB_WORDS_MAX; ++place) {
        const int *chosen = params.chosen;
        const char *words[BTL_IB_WORDS_MAX];

        for (EACH_PARAM(param)) {
            if (param->kind == BTL_IB_PARAM_WORD) {
                size_t count = 0;

                btl_ib_param_words(param, words);
                for (; words[count] != NULL && count < place; ++count) {
                    continue;
                }
                give(param->name, words[count] != NULL ? words[count] : words[0]);
            }
        }
        (void) taken();
        expect_untold("has a value that cannot be used");
        for (EACH_PARAM(param)) {
            if (param->kind == BTL_IB_PARAM_WORD) {
                const char *given = getenv(variable(param->name));

                btl_ib_param_words(param, words);
                assert_string_equal(*(const char **) field_of(param), given);
                assert_string_equal(words[*chosen++], given);
            }
        }
        forget_all();
    }
}

TEST(wrong_words)
{
    static const char *const wrong[][2] = {{"nonsense", "Problem:  it is none of these\n"},
                                           {"", "Problem:  it is empty\n"}};

    for (size_t i = 0; i < 2; ++i) {
        for (EACH_PARAM(param)) {
            if (param->kind == BTL_IB_PARAM_WORD) {
                give(param->name, wrong[i][0]);
            }
        }
        assert_false(taken());
        for (EACH_PARAM(param)) {
            const char *words[BTL_IB_WORDS_MAX];
            char expected[128];

            if (param->kind != BTL_IB_PARAM_WORD) {
                continue;
            }
            btl_ib_param_words(param, words);
            assert_string_equal(*(const char **) field_of(param), words[0]);
            if (param->words == NULL && wrong[i][0][0] == '\0') {
                continue; /* an empty name of a transport is auto */
            }
            expect_told_of(param->name, wrong[i][1]);
            snprintf(expected, sizeof(expected), "Expected: one of %s, %s", words[0], words[1]);
            expect_told_of(param->name, expected);
            snprintf(expected, sizeof(expected), "Default:  %s\n", words[0]);
            expect_told_of(param->name, expected);
        }
        forget_all();
    }
    assert_true(taken_with("transport", ""));
}

TEST(switches)
{
    static const char *const texts[] = {"0", "1", "no", "yes", "2", ""};

    for (size_t i = 0; i < 6; ++i) {
        for (EACH_PARAM(param)) {
            if (param->kind == BTL_IB_PARAM_BOOL) {
                give(param->name, texts[i]);
            }
        }
        assert_int_equal(taken(), i < 4);
        for (EACH_PARAM(param)) {
            if (param->kind == BTL_IB_PARAM_BOOL && i < 4) {
                assert_int_equal(*(bool *) field_of(param), i % 2);
            } else if (param->kind == BTL_IB_PARAM_BOOL) {
                expect_told_of(param->name, "Expected: 0, f, false, n, no, disabled, 1, t, true");
            }
        }
        forget_all();
    }
}

/* ---- what single ones may be ---- */

TEST(numbers_have_units)
{
    assert_true(taken_with("rto_max", "3000ms"));
    assert_int_equal(params.rto_max, 3000000);
    expect_untold("nvalid"); /* to Open MPI it is 3000 MiB */
    assert_true(taken_with("silence_limit", "5min"));
    assert_int_equal(params.silence_limit, 300);
    assert_true(taken_with("copy_limit", "64KiB"));
    assert_int_equal(params.copy_limit, 65536);
    assert_true(taken_with("gid_index", "-1"));
    assert_int_equal(params.gid_index, -1);
    assert_false(taken_with("ack_delay", "1000000h"));
    expect_told_of("ack_delay", "Value:    \"1000000h\"\n");
    expect_told_of("ack_delay",
                   "Set in:   the environment or by --mca (OMPI_MCA_btl_ib_ack_delay)\n");
    expect_told_of("ack_delay",
                   "Expected: 0 to 10000 (microseconds, or with us, ms, s or min after");
    expect_told_of("ack_delay", "Default:  150\n");
}

/* Values of openib mean here what they meant there. */
TEST(old_values)
{
    assert_true(taken_with("mtu", "3"));
    assert_int_equal(params.mtu, 1024);
    assert_true(taken_with("max_btls", "-1"));
    assert_int_equal(params.max_btls, 0);
}

TEST(flags)
{
    const uint32_t all = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_SEND_INPLACE | MCA_BTL_FLAGS_PUT
                         | MCA_BTL_FLAGS_GET | MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS
                         | MCA_BTL_FLAGS_RDMA_FLUSH;

    assert_true(taken());
    assert_int_equal(limits.btl_flags, all);
    assert_true(taken_with("flags", "send,get"));
    assert_int_equal(limits.btl_flags, MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_GET);
    assert_true(taken_with("flags", "send,put,need-csum")); /* which changes nothing */
    assert_int_equal(limits.btl_flags, MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_PUT);
    assert_false(taken_with("flags", "put,get"));
    expect_told_of("flags", "Problem:  send is missing\n");
    expect_told_of("flags", "Expected: send, and some of inplace, put, get, atomics, "
                            "fetching-atomics, rdma-flush\n");
    expect_told_of("flags", "Default:  all of these\n");
    assert_false(taken_with("flags", "send,nosuch"));
    expect_told_of("flags", "Problem:  an entry is none of these\n");
}

/* Minima and maxima are for one sign, and osc/rdma asks for both. */
TEST(atomics)
{
    assert_true(taken());
    assert_int_equal(limits.btl_atomic_flags & MCA_BTL_ATOMIC_SUPPORTS_MIN, 0);
    assert_int_not_equal(limits.btl_atomic_flags & MCA_BTL_ATOMIC_SUPPORTS_CSWAP, 0);
    assert_true(taken_with("atomics_all", "1"));
    assert_int_not_equal(limits.btl_atomic_flags & MCA_BTL_ATOMIC_SUPPORTS_MIN, 0);
    assert_int_not_equal(limits.btl_atomic_flags & MCA_BTL_ATOMIC_SUPPORTS_CSWAP, 0);
}

TEST(texts)
{
    static const struct {
        const char *name, *right, *wrong;
    } rows[] = {
        {"stats", "10", "maybe"},
        {"send_depth", "64,128", "64,16385"},
        {"max_pinned", "2/3", "101%"},
        {"memory_max", "1G", "-1"},
        {"udp_address", "10.0.0.1", "nowhere"},
        {"stats_file", "/tmp/%h", "a%d"},
        {"connectivity_map", "/tmp/", "x%"},
        {"trace", "a%r", "a%"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        assert_true(taken_with(rows[i].name, rows[i].right));
        give(rows[i].name, rows[i].wrong); /* each alone, and below all at once */
        assert_false(taken());
        expect_told_of(rows[i].name, rows[i].wrong);
        forget_all();
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        give(rows[i].name, rows[i].wrong);
    }
    give("ack_delay", "x");
    assert_false(taken());
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        expect_told_of(rows[i].name, rows[i].wrong);
    }
    expect_told_of("ack_delay", "\"x\"");
    forget_all();
}

/* A port of a router needs one of ours. */
TEST(ports_of_routers)
{
    assert_false(taken_with("udp_address", "10.0.0.1:5000"));
    expect_told_of("udp_address", "PORT only with btl_ib_port_min\n");
    give("port_min", "4000");
    assert_true(taken_with("udp_address", "10.0.0.1:5000"));
}

/* The last depth is that of all channels behind it. */
TEST(send_depths)
{
    uint32_t depths[BTL_IB_QUEUES_MAX];

    assert_true(taken_with("send_depth", "64,128"));
    assert_null(btl_ib_params_send_depth(&params, depths));
    assert_int_equal(depths[0], 64);
    for (size_t i = 1; i < BTL_IB_QUEUES_MAX; ++i) {
        assert_int_equal(depths[i], 128);
    }
    char *const given = params.send_depth; /* Open MPI's */
    params.send_depth = NULL;
    (void) btl_ib_params_send_depth(&params, depths);
    params.send_depth = given;
    assert_int_equal(depths[0], 0);
    assert_int_equal(depths[BTL_IB_QUEUES_MAX - 1], 0);
}

TEST(queues_by_user)
{
    assert_true(taken_with("receive_queues", "P,256,256"));
    assert_true(params.queues_by_user);
    assert_true(taken_with("receive_queues", ""));
    assert_false(params.queues_by_user);
}

/* ---- what fits together ---- */

TEST(either_included_or_excluded)
{
    assert_true(taken_with("if_exclude", "eth1"));
    assert_true(taken_with("if_include", "eth1"));
    give("if_exclude", "");
    assert_true(taken_with("if_include", "eth0"));
    give("if_exclude", "eth1");
    assert_false(taken_with("if_include", "eth0"));
    expect_told("btl_ib_if_include: eth0\n  btl_ib_if_exclude: eth1\n");
}

/* The first is not to be greater than the second, and may be equal. */
TEST(order)
{
    static const char *const pairs[][2] = {
        {"rto_min", "rto_max"}, {"rto_initial", "rto_max"}, {"rto_min", "rto_initial"}};
    char expected[128];

    for (size_t i = 0; i < 3; ++i) {
        for (int above = 0; above < 2; ++above) {
            give("rto_min", "3000");
            give("rto_initial", "3000");
            give("rto_max", "3000");
            give(pairs[i][0], above ? "3001" : "3000");
            if (i == 2) {
                give("rto_max", "4000");
            }
            assert_int_equal(taken(), !above);
            forget_all();
            if (above) {
                snprintf(expected, sizeof(expected), "  btl_ib_%s: 3001 microseconds (default: %d)",
                         pairs[i][0], (int) btl_ib_param(pairs[i][0])->standard);
                expect_told(expected);
                snprintf(expected, sizeof(expected), "make btl_ib_%s not greater than btl_ib_%s",
                         pairs[i][0], pairs[i][1]);
                expect_told(expected);
            } else {
                assert_string_equal(told, "");
            }
        }
    }
}

TEST(least_but_0)
{
    assert_true(taken_with("mtu", "0"));
    assert_true(taken_with("mtu", "256"));
    assert_false(taken_with("mtu", "255"));
    expect_told_of("mtu", "Problem:  it is too small\n  Expected: 0, or 256 to 65535 (bytes");
    expect_told_of("mtu", "Default:  0\n");
    assert_true(taken_with("rdma_pipeline_frag_size", "4096"));
    assert_false(taken_with("rdma_pipeline_frag_size", "4095"));
    expect_told_of("rdma_pipeline_frag_size", "Expected: 0, or 4096 to");
}

/* ---- what is made of them ---- */

TEST(eager_limit)
{
    const btl_ib_transport_attr_t single = {.gso_bytes = 0}, bursts = {.gso_bytes = 65000};

    assert_true(taken());
    assert_int_equal(btl_ib_params_eager_limit(&params, &limits, &bursts, false), 257 << 10);
    assert_int_equal(btl_ib_params_eager_limit(&params, &limits, &single, false), 65 << 10);
    assert_int_equal(btl_ib_params_eager_limit(&params, &limits, &bursts, true), 12 << 10);
    assert_true(taken_with("eager_limit", "20000"));
    assert_int_equal(btl_ib_params_eager_limit(&params, &limits, &bursts, false), 20000);
    assert_int_equal(btl_ib_params_eager_limit(&params, &limits, &single, true), 20000);
}

/* The longest message is what any limit lets through. */
TEST(message_max)
{
    give("max_send_size", "30000");
    assert_true(taken_with("eager_limit", "20000"));
    assert_int_equal(btl_ib_params_message_max(&limits), 30000 + BTL_IB_HEADER_ROOM);
    give("max_send_size", "30000");
    assert_true(taken_with("eager_limit", "40000"));
    assert_int_equal(btl_ib_params_message_max(&limits), 40000 + BTL_IB_HEADER_ROOM);
}

/* Each value reaches the field of the engine that it is for; seconds become microseconds. */
TEST(engine)
{
    btl_ib_engine_config_t config;
    static const char *const given[][2] = {
        {"ack_delay", "11"},        {"rto_min", "52"},
        {"rto_max", "5003"},        {"rto_initial", "504"},
        {"silence_limit", "15"},    {"connect_timeout", "16"},
        {"keepalive", "17"},        {"down_limit", "18"},
        {"depth_peer", "19"},       {"depth_total", "20"},
        {"depth_bytes", "70001"},   {"long_depth", "22"},
        {"long_depth_total", "23"}, {"reassembly_buffers", "24"},
        {"credit_init", "26"},      {"reassembly_buffers_peer", "25"},
        {"credit_pool", "27"},      {"cc", "cubic"},
        {"protection", "crc32c"},   {"max_send_size", "300000"},
    };

    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); ++i) {
        give(given[i][0], given[i][1]);
    }
    assert_true(taken());
    forget_all();
    btl_ib_params_engine(&params, &limits, &config);
    assert_int_equal(config.ack_delay, 11);
    assert_int_equal(config.rto_min, 52);
    assert_int_equal(config.rto_max, 5003);
    assert_int_equal(config.rto_initial, 504);
    assert_int_equal(config.silence_limit, 15000000);
    assert_int_equal(config.connect_timeout, 16000000);
    assert_int_equal(config.keepalive, 17000000);
    assert_int_equal(config.down_limit, 18000000);
    assert_int_equal(config.depth_peer, 19);
    assert_int_equal(config.depth_total, 20);
    assert_int_equal(config.depth_bytes, 70001);
    assert_int_equal(config.ops_max, 22);
    assert_int_equal(config.ops_total, 23);
    assert_int_equal(config.reassembly_max, 24);
    assert_int_equal(config.reassembly_peer, 25);
    assert_int_equal(config.credit_init, 26);
    assert_int_equal(config.credit_pool, 27);
    assert_int_equal(config.protection, BTL_IB_PROTECTION_CRC32C);
    assert_int_equal(config.eager_max, 300000 + BTL_IB_HEADER_ROOM);
    assert_int_equal(config.cc, BTL_IB_CC_CUBIC);
}

/* ACKs wait for the next message where processes leave their processors to each other, unless the
 * user said how long. */
TEST(ack_delay_where_processors_are_shared)
{
    static bool yields; /* Open MPI's parameter keeps its address */
    btl_ib_engine_config_t config;

    assert_true(taken());
    btl_ib_params_engine(&params, &limits, &config);
    assert_int_equal(config.ack_delay, 150); /* no such parameter: no MPI process */
    assert_true(mca_base_var_register("ompi", "mpi", NULL, "yield_when_idle", "",
                                      MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_9,
                                      MCA_BASE_VAR_SCOPE_READONLY, &yields)
                >= 0);
    btl_ib_params_engine(&params, &limits, &config);
    assert_int_equal(config.ack_delay, 150);
    yields = true;
    btl_ib_params_engine(&params, &limits, &config);
    assert_int_equal(config.ack_delay, 1000);
    assert_true(taken_with("ack_delay", "150"));
    btl_ib_params_engine(&params, &limits, &config);
    assert_int_equal(config.ack_delay, 150);
    yields = false;
}

int main(void)
{
    int failed;

    /* As a program that is no MPI process begins: info/ib_info.c. */
    if (setenv("OMPI_MCA_btl", "^ib", 1) != 0 || opal_init_util(NULL, NULL) != OPAL_SUCCESS) {
        return 1;
    }
    if (opal_process_info.nodename == NULL) {
        opal_process_info.nodename = strdup("here");
    }
    if (mca_base_framework_register(&opal_btl_base_framework, MCA_BASE_REGISTER_STATIC_ONLY)
        != OPAL_SUCCESS) {
        return 1;
    }
    failed = unit_run(NULL, NULL);
    (void) mca_base_framework_close(&opal_btl_base_framework);
    (void) opal_finalize_util();
    return failed;
}
