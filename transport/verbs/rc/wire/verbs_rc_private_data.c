/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_private_data.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

enum { VERSION = 2 };

static const uint8_t magic[4] = {'b', 't', 'l', 'i'};

/* The beginning of both kinds. */
typedef struct head {
    uint8_t magic[4];
    uint8_t version;
    uint8_t value; /* channel, or reason */
} head_t;

typedef struct wire {
    head_t head;
    uint16_t zero;
    uint64_t to;
    uint64_t from;
    uint32_t attempt;
    uint32_t depth;
    uint64_t word;
    uint32_t word_key;
    uint8_t reads;
    uint8_t relaxed;
    uint8_t mtu;
    uint8_t zero_too;
    uint32_t eager_key;
    uint16_t eager_slots;
    uint16_t eager_slot;
} wire_t;

static_assert(sizeof(wire_t) == BTL_IB_RC_PARAMS_BYTES && offsetof(wire_t, to) == 8
                  && offsetof(wire_t, word_key) == 40 && offsetof(wire_t, eager_key) == 48,
              "as drawn");
static_assert((int) BTL_IB_RC_PARAMS_BYTES <= (int) BTL_IB_RC_PRIVATE_MAX,
              "fits the private data of a request");

static head_t head_of(uint8_t value)
{
    head_t head = {.version = VERSION, .value = value};

    memcpy(head.magic, magic, sizeof(magic));
    return head;
}

static bool is_head(const head_t *head)
{
    return memcmp(head->magic, magic, sizeof(magic)) == 0 && head->version == VERSION;
}

void btl_ib_rc_params_pack(const btl_ib_rc_params_t *params, uint8_t *out)
{
    const wire_t wire = {
        .head = head_of(params->channel),
        .to = htobe64(params->to),
        .from = htobe64(params->from),
        .attempt = htobe32(params->attempt),
        .depth = htobe32(params->depth),
        .word = htobe64(params->word),
        .word_key = htobe32(params->word_key),
        .reads = params->reads,
        .relaxed = params->relaxed,
        .mtu = params->mtu,
        .eager_key = htobe32(params->eager_key),
        .eager_slots = htobe16(params->eager_slots),
        .eager_slot = htobe16(params->eager_slot),
    };

    memcpy(out, &wire, sizeof(wire));
}

int btl_ib_rc_params_unpack(const void *bytes, size_t len, btl_ib_rc_params_t *params)
{
    wire_t wire;

    if (bytes == NULL || len < sizeof(wire)) {
        return -EINVAL;
    }
    memcpy(&wire, bytes, sizeof(wire));
    *params = (btl_ib_rc_params_t){
        .channel = wire.head.value,
        .to = be64toh(wire.to),
        .from = be64toh(wire.from),
        .attempt = be32toh(wire.attempt),
        .depth = be32toh(wire.depth),
        .word = be64toh(wire.word),
        .word_key = be32toh(wire.word_key),
        .reads = wire.reads,
        .relaxed = wire.relaxed != 0,
        .mtu = wire.mtu,
        .eager_key = be32toh(wire.eager_key),
        .eager_slots = be16toh(wire.eager_slots),
        .eager_slot = be16toh(wire.eager_slot),
    };
    const uint16_t slots = params->eager_slots;
    const uint16_t slot = params->eager_slot;
    const bool ring = (slots & (slots - 1)) == 0 && slot > BTL_IB_RC_EAGER_TRAILER
                      && slot <= BTL_IB_RC_EAGER_SLOT && slot % 8 == 0;
    return is_head(&wire.head) && params->channel < BTL_IB_RC_CHANNELS && wire.relaxed <= 1
                   && (wire.zero | wire.zero_too) == 0 && (slots == 0 || ring)
               ? 0
               : -EINVAL;
}

uint8_t btl_ib_rc_reject_pack(btl_ib_rc_reject_t reason, uint8_t *out)
{
    const head_t head = head_of((uint8_t) reason);

    memcpy(out, &head, sizeof(head));
    return sizeof(head);
}

btl_ib_rc_reject_t btl_ib_rc_reject_unpack(const void *bytes, size_t len)
{
    head_t head;

    if (bytes == NULL || len < sizeof(head)) {
        return 0;
    }
    memcpy(&head, bytes, sizeof(head));
    return is_head(&head) && head.value >= BTL_IB_RC_CROSSING && head.value <= BTL_IB_RC_SHORTAGE
               ? (btl_ib_rc_reject_t) head.value
               : 0;
}
