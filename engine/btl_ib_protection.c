/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_protection.h"

#include "btl_ib_crc32c.h"
#include "btl_ib_wire.h"

#include <string.h>
#include <stdbool.h>

/* ---- tokens: what proves that a sender knows the secrets of both ends ---- */

typedef struct sip_state {
    uint64_t v0, v1, v2, v3;
} sip_state_t;

static uint64_t rotl(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

/* Does the rounds of section 2.1 of the paper, figure 2. */
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

/* Returns the little-endian word of the first `len` <= 8 bytes. */
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

/* Computes the proof in a PATH_RESPONSE. Its input has another length than that of btl_ib_token():
 * the two cannot be confused. */
uint64_t btl_ib_token_of_response(const btl_ib_secret_t *of_sender, uint64_t token, uint32_t id)
{
    uint8_t bytes[12];

    store(bytes, token, 8);
    store(bytes + 8, id, 4);
    const uint64_t proof = btl_ib_siphash(of_sender, bytes, sizeof bytes);
    return proof != 0 ? proof : 1;
}

/* Makes a token of its own kind, as the bytes it is made of have another length. */
uint64_t btl_ib_token_of_challenge(const btl_ib_secret_t *of_receiver, uint64_t sender_name,
                                   const btl_ib_secret_t *of_sender, uint64_t challenge,
                                   uint32_t id, uint8_t flags)
{
    uint8_t bytes[40];

    store(bytes, sender_name, 8);
    store(bytes + 8, of_sender->k[0], 8);
    store(bytes + 16, of_sender->k[1], 8);
    store(bytes + 24, challenge, 8);
    store(bytes + 32, id, 4);
    store(bytes + 36, flags, 4);
    const uint64_t token = btl_ib_siphash(of_receiver, bytes, sizeof bytes);
    return token != 0 ? token : 1;
}

/* ---- a checksum ---- */

static bool seal_crc32c(const btl_ib_protection_t *protection, const btl_ib_aead_key_t *key,
                        uint64_t number, const uint8_t *data, uint8_t *out, uint32_t size)
{
    uint32_t wire = BTL_IB_LE32(btl_ib_crc32c(protection->crc_instruction, 0, data, size));

    (void) key;
    (void) number;
    memcpy(out + size, &wire, sizeof(wire));
    return true;
}

static bool open_crc32c(const btl_ib_protection_t *protection, const btl_ib_aead_key_t *key,
                        uint64_t number, uint8_t *data, uint32_t size)
{
    uint32_t wire;

    (void) key;
    (void) number;
    memcpy(&wire, data + size, sizeof(wire));
    return BTL_IB_LE32(wire) == btl_ib_crc32c(protection->crc_instruction, 0, data, size);
}

/* ---- authentication, by GMAC: nothing is encrypted ---- */

static bool seal_integrity(const btl_ib_protection_t *protection, const btl_ib_aead_key_t *key,
                           uint64_t number, const uint8_t *data, uint8_t *out, uint32_t size)
{
    return protection->aead->ops->seal(protection->aead, key, number, data, size, NULL, NULL, 0,
                                       out + size + sizeof(number));
}

static bool open_integrity(const btl_ib_protection_t *protection, const btl_ib_aead_key_t *key,
                           uint64_t number, uint8_t *data, uint32_t size)
{
    return protection->aead->ops->open(protection->aead, key, number, data, size, NULL, 0,
                                       data + size + sizeof(number));
}

/* ---- authentication with encryption (GCM) ---- */

/* Returns the bytes at the beginning that stay in the clear: what finds the sender's key. */
static uint32_t clear_bytes(const uint8_t *data, uint32_t size)
{
    uint8_t flags = data[offsetof(btl_ib_wire_header_t, flags)];
    uint32_t clear = flags & BTL_IB_FLAG_CONNECT
                         ? sizeof(btl_ib_wire_header_t) + sizeof(btl_ib_wire_connect_t)
                         : offsetof(btl_ib_wire_header_t, seq);

    return clear < size ? clear : size;
}

static bool seal_encrypt(const btl_ib_protection_t *protection, const btl_ib_aead_key_t *key,
                         uint64_t number, const uint8_t *data, uint8_t *out, uint32_t size)
{
    uint32_t clear = clear_bytes(data, size);

    memcpy(out, data, clear);
    return protection->aead->ops->seal(protection->aead, key, number, data, clear, data + clear,
                                       out + clear, size - clear, out + size + sizeof(number));
}

static bool open_encrypt(const btl_ib_protection_t *protection, const btl_ib_aead_key_t *key,
                         uint64_t number, uint8_t *data, uint32_t size)
{
    uint32_t clear = clear_bytes(data, size);

    return protection->aead->ops->open(protection->aead, key, number, data, clear, data + clear,
                                       size - clear, data + size + sizeof(number));
}

static const btl_ib_protection_ops_t kinds[BTL_IB_PROTECTION_KINDS] = {
    [BTL_IB_PROTECTION_NONE] = {.name = "none"},
    [BTL_IB_PROTECTION_CRC32C] =
        {
            .name = "crc32c",
            .trailer = sizeof(uint32_t),
            .seal = seal_crc32c,
            .open = open_crc32c,
        },
    [BTL_IB_PROTECTION_INTEGRITY] =
        {
            .name = "integrity",
            .trailer = sizeof(uint64_t) + BTL_IB_AEAD_TAG_BYTES,
            .keyed = true,
            .seal = seal_integrity,
            .open = open_integrity,
        },
    [BTL_IB_PROTECTION_ENCRYPT] =
        {
            .name = "encrypt",
            .trailer = sizeof(uint64_t) + BTL_IB_AEAD_TAG_BYTES,
            .keyed = true,
            .apart = true,
            .seal = seal_encrypt,
            .open = open_encrypt,
        },
};

const btl_ib_protection_ops_t *btl_ib_protection_ops(uint32_t kind)
{
    return kind < BTL_IB_PROTECTION_KINDS ? &kinds[kind] : NULL;
}

void btl_ib_protection_init(btl_ib_protection_t *protection, btl_ib_protection_kind_t kind,
                            btl_ib_aead_t *aead, btl_ib_counters_t *count)
{
    *protection = (btl_ib_protection_t){
        .ops = &kinds[kind],
        .kind = kind,
        .crc_instruction = btl_ib_crc32c_has_instruction(),
        .aead = aead,
        .count = count,
    };
}

/* ---- keys ---- */

/* The info input of key derivation (HKDF, RFC 5869): it makes the results for different purposes
 * differ. */
typedef struct info {
    uint8_t bytes[64];
    size_t size;
} info_t;

static void add_text(info_t *info, const char *text)
{
    size_t len = strlen(text);

    memcpy(info->bytes + info->size, text, len);
    info->size += len;
}

static void add_number(info_t *info, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        info->bytes[info->size++] = (uint8_t) (value >> (8 * i));
    }
}

/* Makes key number `generation` of the series. */
static bool make_key(const btl_ib_protection_t *protection, const btl_ib_protection_way_t *way,
                     uint64_t generation, btl_ib_aead_key_t *key)
{
    uint8_t bytes[BTL_IB_AEAD_KEY_BYTES + BTL_IB_AEAD_IV_BYTES];
    info_t info = {.size = 0};

    add_text(&info, "btl_ib 1 key");
    add_number(&info, generation, 8);
    if (!protection->aead->ops->derive(protection->aead, way->secret, sizeof(way->secret),
                                       info.bytes, info.size, bytes, sizeof(bytes))) {
        return false;
    }
    memcpy(key->key, bytes, sizeof(key->key));
    memcpy(key->iv, bytes + sizeof(key->key), sizeof(key->iv));
    key->id = ++protection->aead->last_id;
    return true;
}

bool btl_ib_protection_begin(const btl_ib_protection_t *protection, btl_ib_protection_way_t *way,
                             const btl_ib_protection_path_t *path)
{
    btl_ib_auth_key_t both[2] = {*path->sender_key, *path->receiver_key};
    info_t info = {.size = 0};

    add_text(&info, "btl_ib 1 way ");
    add_text(&info, protection->ops->name);
    add_number(&info, path->sender, 8);
    add_number(&info, path->receiver, 8);
    add_number(&info, path->epoch, 4);
    add_number(&info, path->from_rail, 1);
    add_number(&info, path->to_rail, 1);
    way->generation = 0;
    way->begun = protection->aead->ops->derive(protection->aead, both, sizeof(both), info.bytes,
                                               info.size, way->secret, sizeof(way->secret))
                 && make_key(protection, way, 0, &way->key);
    return way->begun;
}

/* ---- datagrams ---- */

bool btl_ib_protection_seal(const btl_ib_protection_t *protection, btl_ib_protection_keys_t *keys,
                            const uint8_t *data, uint8_t *out, uint32_t size)
{
    if (!protection->ops->keyed) {
        return protection->ops->trailer == 0
               || protection->ops->seal(protection, NULL, 0, data, out, size);
    }
    btl_ib_protection_way_t *way = &keys->tx;
    uint64_t number = ++keys->number;
    uint64_t wire = BTL_IB_LE64(number);
    if (number >> BTL_IB_PROTECTION_KEY_SHIFT != way->generation) {
        if (!make_key(protection, way, number >> BTL_IB_PROTECTION_KEY_SHIFT, &way->key)) {
            return false;
        }
        way->generation = number >> BTL_IB_PROTECTION_KEY_SHIFT;
        protection->count->rekeys++;
    }
    memcpy(out + size, &wire, sizeof(wire));
    return protection->ops->seal(protection, &way->key, number, data, out, size);
}

uint64_t btl_ib_protection_number(const uint8_t *data, uint32_t size)
{
    uint64_t wire;

    memcpy(&wire, data + size, sizeof(wire));
    return BTL_IB_LE64(wire);
}

/* Opens with the key that the number belongs to. If that is newer than the present key, it replaces
 * it. */
static bool open_keyed(const btl_ib_protection_t *protection, btl_ib_protection_way_t *way,
                       uint64_t number, uint8_t *data, uint32_t size)
{
    uint64_t generation = number >> BTL_IB_PROTECTION_KEY_SHIFT;
    btl_ib_aead_key_t other;

    if (generation == way->generation) {
        return protection->ops->open(protection, &way->key, number, data, size);
    }
    if (!make_key(protection, way, generation, &other)
        || !protection->ops->open(protection, &other, number, data, size)) {
        return false;
    }
    if (generation > way->generation) {
        way->key = other;
        way->generation = generation;
    }
    return true;
}

bool btl_ib_protection_open(const btl_ib_protection_t *protection, btl_ib_protection_way_t *way,
                            btl_ib_replay_t *replay, uint8_t *data, uint32_t size)
{
    if (!protection->ops->keyed) {
        bool fits =
            protection->ops->trailer == 0 || protection->ops->open(protection, NULL, 0, data, size);
        protection->count->dropped_checksum += !fits;
        return fits;
    }
    uint64_t number = btl_ib_protection_number(data, size);
    if (number == 0 || (replay != NULL && !btl_ib_replay_fresh(replay, number))) {
        protection->count->dropped_replay++;
        return false;
    }
    if (!open_keyed(protection, way, number, data, size)) {
        protection->count->dropped_forged++;
        return false;
    }
    if (replay != NULL) {
        btl_ib_replay_mark(replay, number);
    }
    return true;
}

uint32_t btl_ib_protection_datagram_min(btl_ib_protection_kind_t protection)
{
    return BTL_IB_DATAGRAM_MIN + btl_ib_protection_ops(protection)->trailer;
}
