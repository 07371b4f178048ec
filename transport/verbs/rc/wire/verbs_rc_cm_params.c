/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_cm_params.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

enum {
    VERSION = 1,
    REJECT_BYTES = 6,
};

static const uint8_t magic[4] = {'b', 't', 'l', 'i'};

static_assert((int) BTL_IB_RC_PARAMS_BYTES <= (int) BTL_IB_RC_PRIVATE_MAX,
              "fits the private data of a request");

static void put32(uint8_t *out, uint32_t value)
{
    value = htobe32(value);
    memcpy(out, &value, sizeof(value));
}

static void put64(uint8_t *out, uint64_t value)
{
    value = htobe64(value);
    memcpy(out, &value, sizeof(value));
}

static uint32_t get32(const uint8_t *in)
{
    uint32_t value;

    memcpy(&value, in, sizeof(value));
    return be32toh(value);
}

static uint64_t get64(const uint8_t *in)
{
    uint64_t value;

    memcpy(&value, in, sizeof(value));
    return be64toh(value);
}

void btl_ib_rc_params_pack(const btl_ib_rc_params_t *params, uint8_t *out)
{
    memset(out, 0, BTL_IB_RC_PRIVATE_MAX);
    memcpy(out, magic, sizeof(magic));
    out[4] = VERSION;
    out[5] = params->channel;
    put64(out + 8, params->to);
    put64(out + 16, params->from);
    put32(out + 24, params->attempt);
    put32(out + 28, params->depth);
    put64(out + 32, params->word);
    put32(out + 40, params->word_key);
    out[44] = params->reads;
    out[45] = params->relaxed;
    put32(out + 48, params->eager_key);
    put32(out + 52, (uint32_t) params->eager_slots << 16 | params->eager_slot);
}

int btl_ib_rc_params_unpack(const void *bytes, size_t len, btl_ib_rc_params_t *params)
{
    const uint8_t *in = bytes;

    if (in == NULL || len < BTL_IB_RC_PARAMS_BYTES || memcmp(in, magic, sizeof(magic)) != 0
        || in[4] != VERSION || in[5] >= BTL_IB_RC_CHANNELS || in[6] != 0 || in[7] != 0 || in[45] > 1
        || in[46] != 0 || in[47] != 0) {
        return -EINVAL;
    }
    *params = (btl_ib_rc_params_t){
        .channel = in[5],
        .to = get64(in + 8),
        .from = get64(in + 16),
        .attempt = get32(in + 24),
        .depth = get32(in + 28),
        .word = get64(in + 32),
        .word_key = get32(in + 40),
        .reads = in[44],
        .relaxed = in[45] != 0,
        .eager_key = get32(in + 48),
        .eager_slots = (uint16_t) (get32(in + 52) >> 16),
        .eager_slot = (uint16_t) get32(in + 52),
    };
    if (params->eager_slots > 0
        && ((params->eager_slots & (params->eager_slots - 1)) != 0
            || params->eager_slot <= BTL_IB_RC_EAGER_TRAILER
            || params->eager_slot > BTL_IB_RC_EAGER_SLOT || params->eager_slot % 8 != 0)) {
        return -EINVAL;
    }
    return 0;
}

uint8_t btl_ib_rc_reject_pack(btl_ib_rc_reject_t reason, uint8_t *out)
{
    memcpy(out, magic, sizeof(magic));
    out[4] = VERSION;
    out[5] = (uint8_t) reason;
    return REJECT_BYTES;
}

btl_ib_rc_reject_t btl_ib_rc_reject_unpack(const void *bytes, size_t len)
{
    const uint8_t *in = bytes;

    if (in == NULL || len < REJECT_BYTES || memcmp(in, magic, sizeof(magic)) != 0
        || in[4] != VERSION || in[5] < BTL_IB_RC_CROSSING || in[5] > BTL_IB_RC_SHORTAGE) {
        return 0;
    }
    return (btl_ib_rc_reject_t) in[5];
}
