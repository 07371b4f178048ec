/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * libFuzzer target: any bytes as a table of defaults by device. What is refused is explained within
 * bounds; whether it is does not depend on the device that is looked for; what a section sets is in
 * range.
 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_device_table.h"
#include "btl_ib_queues.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, size_t size)
{
    REQUIRE(NULL != memchr(text, '\0', size));
    for (; '\0' != *text; ++text) {
        REQUIRE((unsigned char) *text >= ' ' && '\177' != *text);
    }
}

static void check_error(const char *table, const btl_ib_device_table_error_t *error)
{
    uint32_t lines = 1;

    for (; '\0' != *table; ++table) {
        lines += '\n' == *table;
    }
    REQUIRE(error->line >= 1 && error->line <= lines);
    REQUIRE(NULL != error->problem && '\0' != error->problem[0] && '\0' != error->expected[0]);
    check_text(error->key, sizeof(error->key));
    check_text(error->value, sizeof(error->value));
    REQUIRE(NULL != memchr(error->expected, '\0', sizeof(error->expected)));
}

static void check_config(const btl_ib_device_config_t *config)
{
    btl_ib_queue_table_t queues;
    btl_ib_queues_error_t error;
    char text[512];

    check_text(config->section, sizeof(config->section));
    REQUIRE('\0' != config->section[0]);
    REQUIRE('\0' == config->transport[0] || 0 == strcmp(config->transport, "verbs")
            || 0 == strcmp(config->transport, "ofi"));
    REQUIRE('\0' == config->wire[0] || 0 == strcmp(config->wire, "ud")
            || 0 == strcmp(config->wire, "rc"));
    REQUIRE('\0' == config->receive_queues[0]
            || 0 == btl_ib_queues_parse(config->receive_queues, &queues, &error));
    REQUIRE(config->max_inline_data >= -1 && config->max_inline_data <= 1024);
    REQUIRE(config->mtu == -1 || config->mtu == 0 || (config->mtu >= 256 && config->mtu <= 65535));
    REQUIRE(config->max_eager_rdma >= -1 && config->max_eager_rdma <= 64);
    REQUIRE(config->rc_reads == -1 || (config->rc_reads >= 1 && config->rc_reads <= 128));
    btl_ib_device_config_format(config, text, sizeof(text));
    REQUIRE('\0' != text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t ids[] = {0, 1, 7, 4119, 0xffffff, UINT32_MAX};
    char *table = malloc(size + 1);
    int first = 0;

    if (NULL == table) {
        return 0;
    }
    if (size > 0) {
        memcpy(table, data, size);
    }
    table[size] = '\0';
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); ++i) {
        btl_ib_device_config_t config;
        btl_ib_device_table_error_t error;
        const int rc = btl_ib_device_table_find(table, ids[i], ids[i], &config, &error);

        REQUIRE(1 == rc || 0 == rc || -EINVAL == rc);
        first = 0 == i ? rc : first;
        REQUIRE((0 > first) == (0 > rc));
        if (0 > rc) {
            check_error(table, &error);
        } else if (0 < rc) {
            check_config(&config);
        }
    }
    free(table);
    return 0;
}
