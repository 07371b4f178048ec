/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_token.h"

#include <string.h>

typedef struct sip_state {
    uint64_t v0, v1, v2, v3;
} sip_state_t;

static uint64_t rotl(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

/* Section 2.1 of the paper, figure 2. */
static void sip_rounds(sip_state_t *s, unsigned rounds)
{
    while (rounds-- > 0) {
        s->v0 += s->v1;
        s->v2 += s->v3;
        s->v1 = rotl(s->v1, 13) ^ s->v0;
        s->v3 = rotl(s->v3, 16) ^ s->v2;
        s->v0 = rotl(s->v0, 32);
        s->v2 += s->v1;
        s->v0 += s->v3;
        s->v1 = rotl(s->v1, 17) ^ s->v2;
        s->v3 = rotl(s->v3, 21) ^ s->v0;
        s->v2 = rotl(s->v2, 32);
    }
}

static void sip_compress(sip_state_t *s, uint64_t word)
{
    s->v3 ^= word;
    sip_rounds(s, 2);
    s->v0 ^= word;
}

/* Little-endian word of the first `len` <= 8 bytes. */
static uint64_t load(const uint8_t *bytes, size_t len)
{
    uint64_t word = 0;

    for (size_t i = 0; i < len; i++) {
        word |= (uint64_t) bytes[i] << (8 * i);
    }
    return word;
}

static void store(uint8_t *bytes, uint64_t word, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t) (word >> (8 * i));
    }
}

uint64_t btl_ib_siphash(const btl_ib_secret_t *key, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    size_t whole = len / 8 * 8;
    /* The constants spell "somepseudorandomlygeneratedbytes". */
    sip_state_t s = {
        .v0 = key->k[0] ^ UINT64_C(0x736f6d6570736575),
        .v1 = key->k[1] ^ UINT64_C(0x646f72616e646f6d),
        .v2 = key->k[0] ^ UINT64_C(0x6c7967656e657261),
        .v3 = key->k[1] ^ UINT64_C(0x7465646279746573),
    };
    uint64_t last = (uint64_t) len << 56;

    for (size_t i = 0; i < whole; i += 8) {
        sip_compress(&s, load(bytes + i, 8));
    }
    if (len > whole) {
        last |= load(bytes + whole, len - whole);
    }
    sip_compress(&s, last);
    s.v2 ^= 0xff;
    sip_rounds(&s, 4);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

uint64_t btl_ib_token(const btl_ib_secret_t *of_receiver, uint64_t sender_name,
                      const btl_ib_secret_t *of_sender, uint32_t epoch, uint32_t rails)
{
    uint8_t bytes[32];

    store(bytes, sender_name, 8);
    store(bytes + 8, of_sender->k[0], 8);
    store(bytes + 16, of_sender->k[1], 8);
    store(bytes + 24, epoch, 4);
    store(bytes + 28, rails, 4);
    const uint64_t token = btl_ib_siphash(of_receiver, bytes, sizeof bytes);
    /* 0 marks "no token yet" at both ends. */
    return token != 0 ? token : 1;
}

/* Its input has another length than that of btl_ib_token(): the two cannot be confused. */
uint64_t btl_ib_token_of_response(const btl_ib_secret_t *of_sender, uint64_t token, uint32_t id)
{
    uint8_t bytes[12];

    store(bytes, token, 8);
    store(bytes + 8, id, 4);
    const uint64_t proof = btl_ib_siphash(of_sender, bytes, sizeof bytes);
    return proof != 0 ? proof : 1;
}

/* Of another length, too. */
uint64_t btl_ib_token_of_address(const btl_ib_secret_t *of_receiver, uint64_t token,
                                 uint32_t generation, const void *address, uint32_t len)
{
    uint8_t bytes[16 + BTL_IB_TOKEN_ADDRESS_MAX] = {0};

    store(bytes, token, 8);
    store(bytes + 8, generation, 4);
    store(bytes + 12, len, 4);
    memcpy(bytes + 16, address, len);
    return btl_ib_siphash(of_receiver, bytes, sizeof bytes);
}
