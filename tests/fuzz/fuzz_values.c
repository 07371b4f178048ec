/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * libFuzzer target: any bytes as the text of a parameter. What is taken lies in its range and means
 * the same when it is written out and read again; what is refused changes nothing; what is shown
 * has no controls.
 */

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_param_parse.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_number(const char *text, const btl_ib_value_range_t *range)
{
    uint64_t value = 77;
    uint64_t again;
    char written[32];

    if (btl_ib_value_number(text, range, &value) != NULL) {
        REQUIRE(value == 77);
        return;
    }
    if (text[0] == '-' && value != 0) {
        REQUIRE((int64_t) value < 0 && (int64_t) value >= range->low);
        snprintf(written, sizeof(written), "%" PRId64, (int64_t) value);
    } else {
        REQUIRE(value <= range->high && (range->low <= 0 || value >= (uint64_t) range->low));
        snprintf(written, sizeof(written), "%" PRIu64, value);
    }
    REQUIRE(btl_ib_value_number(written, range, &again) == NULL);
    REQUIRE(again == value);
}

static void check_shown(const char *text)
{
    char out[12];

    btl_ib_value_show(text, out, sizeof(out));
    REQUIRE(strlen(out) == (strlen(text) < sizeof(out) ? strlen(text) : sizeof(out) - 1));
    for (const char *c = out; *c != '\0'; ++c) {
        REQUIRE((unsigned char) *c >= ' ' && *c != '\177');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const btl_ib_value_range_t ranges[] = {
        {BTL_IB_VALUE_COUNT, INT64_MIN, UINT64_MAX},
        {BTL_IB_VALUE_COUNT, -1, 255},
        {BTL_IB_VALUE_BYTES, 0, UINT64_MAX},
        {BTL_IB_VALUE_BYTES, 256, 1 << 20},
        {BTL_IB_VALUE_MICROSECONDS, 50, 1000000},
        {BTL_IB_VALUE_MILLISECONDS, 1, 3600000},
        {BTL_IB_VALUE_SECONDS, 0, 86400},
    };
    static const btl_ib_value_flag_t flags[] = {{"send", 1}, {"rdma-flush", 8}, {NULL, 0}};
    char *text = malloc(size + 1);
    uint32_t bits = 77;
    bool truth;

    if (text == NULL) {
        return 0;
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); ++i) {
        check_number(text, &ranges[i]);
    }
    (void) btl_ib_value_bool(text, &truth);
    if (btl_ib_value_flags(text, flags, &bits) == NULL) {
        REQUIRE((bits & ~9u) == 0);
    } else {
        REQUIRE(bits == 77);
    }
    check_shown(text);
    free(text);
    return 0;
}
