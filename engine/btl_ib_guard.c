/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_guard.h"

#include "btl_ib_crc32c.h"
#include "btl_ib_wire.h"

#include <string.h>

/* ---- guard ---- */

/* ---- a checksum ---- */

static bool seal_crc32c(const btl_ib_guard_t *guard, const btl_ib_aead_key_t *key, uint64_t number,
                        const uint8_t *data, uint8_t *out, uint32_t size)
{
    uint32_t wire = BTL_IB_LE32(btl_ib_crc32c(guard->crc_instruction, 0, data, size));

    (void) key;
    (void) number;
    memcpy(out + size, &wire, sizeof(wire));
    return true;
}

static bool open_crc32c(const btl_ib_guard_t *guard, const btl_ib_aead_key_t *key, uint64_t number,
                        uint8_t *data, uint32_t size)
{
    uint32_t wire;

    (void) key;
    (void) number;
    memcpy(&wire, data + size, sizeof(wire));
    return BTL_IB_LE32(wire) == btl_ib_crc32c(guard->crc_instruction, 0, data, size);
}

/* ---- authentication, by GMAC: nothing is encrypted ---- */

static bool seal_integrity(const btl_ib_guard_t *guard, const btl_ib_aead_key_t *key,
                           uint64_t number, const uint8_t *data, uint8_t *out, uint32_t size)
{
    return guard->aead->ops->seal(guard->aead, key, number, data, size, NULL, NULL, 0,
                                  out + size + sizeof(number));
}

static bool open_integrity(const btl_ib_guard_t *guard, const btl_ib_aead_key_t *key,
                           uint64_t number, uint8_t *data, uint32_t size)
{
    return guard->aead->ops->open(guard->aead, key, number, data, size, NULL, 0,
                                  data + size + sizeof(number));
}

/* ---- authentication with encryption (GCM) ---- */

/* Bytes at the beginning that stay in the clear: what finds the sender's key. */
static uint32_t clear_bytes(const uint8_t *data, uint32_t size)
{
    uint8_t flags = data[offsetof(btl_ib_wire_header_t, flags)];
    uint32_t clear = flags & BTL_IB_FLAG_CONNECT
                         ? sizeof(btl_ib_wire_header_t) + sizeof(btl_ib_wire_connect_t)
                         : offsetof(btl_ib_wire_header_t, seq);

    return clear < size ? clear : size;
}

static bool seal_encrypt(const btl_ib_guard_t *guard, const btl_ib_aead_key_t *key, uint64_t number,
                         const uint8_t *data, uint8_t *out, uint32_t size)
{
    uint32_t clear = clear_bytes(data, size);

    memcpy(out, data, clear);
    return guard->aead->ops->seal(guard->aead, key, number, data, clear, data + clear, out + clear,
                                  size - clear, out + size + sizeof(number));
}

static bool open_encrypt(const btl_ib_guard_t *guard, const btl_ib_aead_key_t *key, uint64_t number,
                         uint8_t *data, uint32_t size)
{
    uint32_t clear = clear_bytes(data, size);

    return guard->aead->ops->open(guard->aead, key, number, data, clear, data + clear, size - clear,
                                  data + size + sizeof(number));
}

static const btl_ib_guard_ops_t kinds[BTL_IB_GUARD_KINDS] = {
    [BTL_IB_GUARD_NONE] = {.name = "none"},
    [BTL_IB_GUARD_CRC32C] =
        {
            .name = "crc32c",
            .trailer = sizeof(uint32_t),
            .seal = seal_crc32c,
            .open = open_crc32c,
        },
    [BTL_IB_GUARD_INTEGRITY] =
        {
            .name = "integrity",
            .trailer = sizeof(uint64_t) + BTL_IB_AEAD_TAG_BYTES,
            .keyed = true,
            .seal = seal_integrity,
            .open = open_integrity,
        },
    [BTL_IB_GUARD_ENCRYPT] =
        {
            .name = "encrypt",
            .trailer = sizeof(uint64_t) + BTL_IB_AEAD_TAG_BYTES,
            .keyed = true,
            .apart = true,
            .seal = seal_encrypt,
            .open = open_encrypt,
        },
};

const btl_ib_guard_ops_t *btl_ib_guard_ops(uint32_t kind)
{
    return kind < BTL_IB_GUARD_KINDS ? &kinds[kind] : NULL;
}

void btl_ib_guard_init(btl_ib_guard_t *guard, btl_ib_guard_kind_t kind, btl_ib_aead_t *aead,
                       btl_ib_counters_t *count)
{
    *guard = (btl_ib_guard_t){
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

/* Key number `generation` of the series. */
static bool make_key(const btl_ib_guard_t *guard, const btl_ib_guard_way_t *way,
                     uint64_t generation, btl_ib_aead_key_t *key)
{
    uint8_t bytes[BTL_IB_AEAD_KEY_BYTES + BTL_IB_AEAD_IV_BYTES];
    info_t info = {.size = 0};

    add_text(&info, "btl_ib 1 key");
    add_number(&info, generation, 8);
    if (!guard->aead->ops->derive(guard->aead, way->secret, sizeof(way->secret), info.bytes,
                                  info.size, bytes, sizeof(bytes))) {
        return false;
    }
    memcpy(key->key, bytes, sizeof(key->key));
    memcpy(key->iv, bytes + sizeof(key->key), sizeof(key->iv));
    key->id = ++guard->aead->last_id;
    return true;
}

bool btl_ib_guard_begin(const btl_ib_guard_t *guard, btl_ib_guard_way_t *way,
                        const btl_ib_guard_path_t *path)
{
    btl_ib_auth_key_t both[2] = {*path->sender_key, *path->receiver_key};
    info_t info = {.size = 0};

    add_text(&info, "btl_ib 1 way ");
    add_text(&info, guard->ops->name);
    add_number(&info, path->sender, 8);
    add_number(&info, path->receiver, 8);
    add_number(&info, path->epoch, 4);
    add_number(&info, path->from_rail, 1);
    add_number(&info, path->to_rail, 1);
    way->generation = 0;
    way->begun = guard->aead->ops->derive(guard->aead, both, sizeof(both), info.bytes, info.size,
                                          way->secret, sizeof(way->secret))
                 && make_key(guard, way, 0, &way->key);
    return way->begun;
}

/* ---- datagrams ---- */

bool btl_ib_guard_seal(const btl_ib_guard_t *guard, btl_ib_guard_keys_t *keys, const uint8_t *data,
                       uint8_t *out, uint32_t size)
{
    if (!guard->ops->keyed) {
        return guard->ops->trailer == 0 || guard->ops->seal(guard, NULL, 0, data, out, size);
    }
    btl_ib_guard_way_t *way = &keys->tx;
    uint64_t number = ++keys->number;
    uint64_t wire = BTL_IB_LE64(number);
    if (number >> BTL_IB_GUARD_KEY_SHIFT != way->generation) {
        if (!make_key(guard, way, number >> BTL_IB_GUARD_KEY_SHIFT, &way->key)) {
            return false;
        }
        way->generation = number >> BTL_IB_GUARD_KEY_SHIFT;
        guard->count->rekeys++;
    }
    memcpy(out + size, &wire, sizeof(wire));
    return guard->ops->seal(guard, &way->key, number, data, out, size);
}

void btl_ib_guard_accept(btl_ib_guard_keys_t *keys, const btl_ib_guard_way_t *way, uint64_t number)
{
    keys->rx = *way;
    btl_ib_replay_init(&keys->replay);
    btl_ib_replay_mark(&keys->replay, number);
}

uint64_t btl_ib_guard_number(const uint8_t *data, uint32_t size)
{
    uint64_t wire;

    memcpy(&wire, data + size, sizeof(wire));
    return BTL_IB_LE64(wire);
}

/* Open with the key that the number belongs to. If that is newer than the present key, it
 * replaces it. */
static bool open_keyed(const btl_ib_guard_t *guard, btl_ib_guard_way_t *way, uint64_t number,
                       uint8_t *data, uint32_t size)
{
    uint64_t generation = number >> BTL_IB_GUARD_KEY_SHIFT;
    btl_ib_aead_key_t other;

    if (generation == way->generation) {
        return guard->ops->open(guard, &way->key, number, data, size);
    }
    if (!make_key(guard, way, generation, &other)
        || !guard->ops->open(guard, &other, number, data, size)) {
        return false;
    }
    if (generation > way->generation) {
        way->key = other;
        way->generation = generation;
    }
    return true;
}

bool btl_ib_guard_open(const btl_ib_guard_t *guard, btl_ib_guard_way_t *way,
                       btl_ib_replay_t *replay, uint8_t *data, uint32_t size)
{
    if (!guard->ops->keyed) {
        bool fits = guard->ops->trailer == 0 || guard->ops->open(guard, NULL, 0, data, size);
        guard->count->dropped_checksum += !fits;
        return fits;
    }
    uint64_t number = btl_ib_guard_number(data, size);
    if (number == 0 || (replay != NULL && !btl_ib_replay_fresh(replay, number))) {
        guard->count->dropped_replay++;
        return false;
    }
    if (!open_keyed(guard, way, number, data, size)) {
        guard->count->dropped_forged++;
        return false;
    }
    if (replay != NULL) {
        btl_ib_replay_mark(replay, number);
    }
    return true;
}

uint32_t btl_ib_guard_datagram_min(btl_ib_guard_kind_t guard)
{
    return BTL_IB_DATAGRAM_MIN + btl_ib_guard_ops(guard)->trailer;
}
