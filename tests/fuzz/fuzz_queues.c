/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * libFuzzer target: any bytes as a receive_queues string. What is refused is explained within
 * bounds; what is accepted is a valid table, means the same when written out and read again, and
 * stays valid when it is fitted to any transport.
 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_receive_queues.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const char *spec, const btl_ib_queues_error_t *error)
{
    REQUIRE(error->field != NULL && error->field[0] != '\0');
    REQUIRE(error->queue <= BTL_IB_QUEUES_MAX + 1);
    REQUIRE(error->column >= 1 && error->column <= strlen(spec) + 1);
    REQUIRE(memchr(error->value, '\0', sizeof error->value) != NULL);
    REQUIRE(memchr(error->expected, '\0', sizeof error->expected - 1) != NULL);
    REQUIRE(error->expected[0] != '\0');
    for (size_t i = 0; error->value[i] != '\0'; i++) {
        REQUIRE(error->value[i] == '?' || error->value[i] == spec[error->column - 1 + i]);
    }
}

static void check_round_trip(const btl_ib_queue_table_t *table)
{
    btl_ib_queue_table_t again;
    btl_ib_queues_error_t error;
    char text[1024];
    int needed = btl_ib_queues_format(table, text, sizeof text);

    REQUIRE(needed > 0 && (size_t) needed < sizeof text);
    REQUIRE(strlen(text) == (size_t) needed);
    REQUIRE(btl_ib_queues_parse(text, &again, &error) == 0);
    REQUIRE(table->count == again.count);
    /* Only what is in use: a table from elsewhere may have anything behind it. */
    REQUIRE(memcmp(table->q, again.q, table->count * sizeof table->q[0]) == 0);
}

static void check_clamp(btl_ib_queue_table_t table, uint32_t max_datagram)
{
    uint32_t before = table.count;
    uint32_t cut = btl_ib_queues_clamp(&table, max_datagram);

    REQUIRE(cut <= before && table.count <= before && table.count >= 1);
    REQUIRE(btl_ib_queues_check(&table) == 0);
    REQUIRE(max_datagram < BTL_IB_QUEUE_SIZE_MIN || table.q[table.count - 1].size <= max_datagram);
    REQUIRE(btl_ib_queues_clamp(&table, max_datagram) == 0);
    check_round_trip(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t datagrams[] = {0, 104, 128, 548, 1472, 4096, 8972, 65507, UINT32_MAX};
    btl_ib_queue_table_t table;
    btl_ib_queues_error_t error;
    char *spec = malloc(size + 1);
    int rc;

    if (spec == NULL) {
        return 0;
    }
    if (size > 0) {
        memcpy(spec, data, size);
    }
    spec[size] = '\0';
    rc = btl_ib_queues_parse(spec, &table, &error);
    REQUIRE(rc == 0 || -EINVAL == rc);
    if (rc != 0) {
        check_error(spec, &error);
    } else {
        REQUIRE(btl_ib_queues_check(&table) == 0);
        check_round_trip(&table);
        for (size_t i = 0; i < sizeof datagrams / sizeof datagrams[0]; i++) {
            check_clamp(table, datagrams[i]);
        }
        check_clamp(table, table.q[0].size - 1);
    }
    /* The same bytes as a table from another process. */
    memset(&table, 0, sizeof table);
    if (size > 0) {
        memcpy(&table, data, size < sizeof table ? size : sizeof table);
    }
    if (btl_ib_queues_check(&table) == 0) {
        for (uint32_t i = 0; i < table.count; i++) {
            /* The one number that the grammar does not know. */
            if (table.q[i].type == BTL_IB_QUEUE_PER_PEER) {
                table.q[i].init = 0;
            }
        }
        check_clamp(table, 100);
    }
    free(spec);
    return 0;
}
