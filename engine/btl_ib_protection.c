/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_protection.h"

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

/* Of another length, too. */
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

/* Bytes at the beginning that stay in the clear: what finds the sender's key. */
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

/* Key number `generation` of the series. */
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

/* Open with the key that the number belongs to. If that is newer than the present key, it
 * replaces it. */
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

/*
 * A CRC is linear: what a byte does to it is the sum (XOR) of what its bits do. So each table of
 * 256 entries follows from 8 numbers, and the compiler works it out: ENTRY(n, what bits 0..7 do).
 */
#define BIT(n, b, x) ((n) >> (b) &1 ? (x) : 0u)
#define ENTRY(n, x0, x1, x2, x3, x4, x5, x6, x7)                                                   \
    (BIT(n, 0, x0) ^ BIT(n, 1, x1) ^ BIT(n, 2, x2) ^ BIT(n, 3, x3) ^ BIT(n, 4, x4) ^ BIT(n, 5, x5) \
     ^ BIT(n, 6, x6) ^ BIT(n, 7, x7))
#define ENTRIES_4(n, ...)                                                                          \
    ENTRY(n, __VA_ARGS__), ENTRY((n) + 1, __VA_ARGS__), ENTRY((n) + 2, __VA_ARGS__),               \
        ENTRY((n) + 3, __VA_ARGS__)
#define ENTRIES_16(n, ...)                                                                         \
    ENTRIES_4(n, __VA_ARGS__), ENTRIES_4((n) + 4, __VA_ARGS__), ENTRIES_4((n) + 8, __VA_ARGS__),   \
        ENTRIES_4((n) + 12, __VA_ARGS__)
#define ENTRIES_64(n, ...)                                                                         \
    ENTRIES_16(n, __VA_ARGS__), ENTRIES_16((n) + 16, __VA_ARGS__),                                 \
        ENTRIES_16((n) + 32, __VA_ARGS__), ENTRIES_16((n) + 48, __VA_ARGS__)
#define TABLE(...)                                                                                 \
    {                                                                                              \
        ENTRIES_64(0u, __VA_ARGS__), ENTRIES_64(64u, __VA_ARGS__), ENTRIES_64(128u, __VA_ARGS__),  \
            ENTRIES_64(192u, __VA_ARGS__)                                                          \
    }

/* slices[k][n]: what byte n does when k bytes follow it within the eight (M. Kounavis and F. Berry,
 * "Novel table lookup-based algorithms for high-performance CRC generation", 2008). slices[0] is
 * the classic table of the polynomial 0x1EDC6F41, bits reversed. */
static const uint32_t slices[8][256] = {
    TABLE(0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu, 0x105ec76fu, 0x20bd8edeu, 0x417b1dbcu,
          0x82f63b78u),
    TABLE(0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u, 0x3fc5f181u, 0x7f8be302u, 0xff17c604u,
          0xfbc3faf9u),
    TABLE(0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u, 0x70a27d8au, 0xe144fb14u, 0xc76580d9u,
          0x8b277743u),
    TABLE(0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u, 0xe964b13du, 0xd725148bu, 0xaba65fe7u,
          0x52a0c93fu),
    TABLE(0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u, 0x8f2261d3u, 0x1ba8b557u, 0x37516aaeu,
          0x6ea2d55cu),
    TABLE(0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu, 0xc00c303eu, 0x85f4168du, 0x0e045bebu,
          0x1c08b7d6u),
    TABLE(0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u, 0x9c5bfaa6u, 0x3d5b83bdu, 0x7ab7077au,
          0xf56e0ef4u),
    TABLE(0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau, 0x847609b4u, 0x0d006599u, 0x1a00cb32u,
          0x34019664u),
};

static uint64_t load64(const uint8_t *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return BTL_IB_LE64(word);
}

static uint32_t by_tables(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *at = data;

    crc = ~crc;
    for (; len >= 8; at += 8, len -= 8) {
        uint64_t word = load64(at) ^ crc;
        crc = slices[7][word & 0xff] ^ slices[6][word >> 8 & 0xff] ^ slices[5][word >> 16 & 0xff]
              ^ slices[4][word >> 24 & 0xff] ^ slices[3][word >> 32 & 0xff]
              ^ slices[2][word >> 40 & 0xff] ^ slices[1][word >> 48 & 0xff] ^ slices[0][word >> 56];
    }
    for (; len > 0; at++, len--) {
        crc = crc >> 8 ^ slices[0][(crc ^ *at) & 0xff];
    }
    return ~crc;
}

#if defined(__x86_64__)

#define HARDWARE __attribute__((target("sse4.2")))

static bool has_instruction(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}

HARDWARE static inline uint32_t step64(uint32_t crc, uint64_t word)
{
    return (uint32_t) __builtin_ia32_crc32di(crc, word);
}

HARDWARE static inline uint32_t step8(uint32_t crc, uint8_t byte)
{
    return __builtin_ia32_crc32qi(crc, byte);
}

#elif defined(__aarch64__)

#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#define HARDWARE __attribute__((target("+crc")))

static bool has_instruction(void)
{
    return getauxval(AT_HWCAP) & HWCAP_CRC32; /* read from memory: no system call */
}

HARDWARE static inline uint32_t step64(uint32_t crc, uint64_t word)
{
    return __crc32cd(crc, word);
}

HARDWARE static inline uint32_t step8(uint32_t crc, uint8_t byte)
{
    return __crc32cb(crc, byte);
}

#endif

#ifdef HARDWARE

/*
 * The instruction has a latency of three cycles, but one can start in each. So three lanes are
 * computed at once and joined by beyond_lane(). Three lanes are a little less than a datagram on
 * Ethernet.
 */
enum { LANE = 480 };

/* lanes[j][n]: byte j of a CRC with the value n, after LANE bytes of zero. */
static const uint32_t lanes[4][256] = {
    TABLE(0x88f25a3au, 0x1408c285u, 0x2811850au, 0x50230a14u, 0xa0461428u, 0x45605ea1u, 0x8ac0bd42u,
          0x106d0c75u),
    TABLE(0x20da18eau, 0x41b431d4u, 0x836863a8u, 0x033cb1a1u, 0x06796342u, 0x0cf2c684u, 0x19e58d08u,
          0x33cb1a10u),
    TABLE(0x67963420u, 0xcf2c6840u, 0x9bb4a671u, 0x32853a13u, 0x650a7426u, 0xca14e84cu, 0x91c5a669u,
          0x26673a23u),
    TABLE(0x4cce7446u, 0x999ce88cu, 0x36d5a7e9u, 0x6dab4fd2u, 0xdb569fa4u, 0xb34149b9u, 0x636ee583u,
          0xc6ddcb06u),
};

static uint32_t beyond_lane(uint32_t crc)
{
    return lanes[0][crc & 0xff] ^ lanes[1][crc >> 8 & 0xff] ^ lanes[2][crc >> 16 & 0xff]
           ^ lanes[3][crc >> 24];
}

HARDWARE static uint32_t three_lanes(uint32_t crc, const uint8_t *at)
{
    uint32_t second = 0, third = 0;

    for (int i = 0; i < LANE; i += 8) {
        crc = step64(crc, load64(at + i));
        second = step64(second, load64(at + LANE + i));
        third = step64(third, load64(at + 2 * LANE + i));
    }
    return beyond_lane(beyond_lane(crc) ^ second) ^ third;
}

HARDWARE static uint32_t by_instruction(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *at = data;

    crc = ~crc;
    for (; len >= 3 * LANE; at += 3 * LANE, len -= 3 * LANE) {
        crc = three_lanes(crc, at);
    }
    for (; len >= 8; at += 8, len -= 8) {
        crc = step64(crc, load64(at));
    }
    for (; len > 0; at++, len--) {
        crc = step8(crc, *at);
    }
    return ~crc;
}

bool btl_ib_crc32c_has_instruction(void)
{
    return has_instruction();
}

uint32_t btl_ib_crc32c(bool instruction, uint32_t crc, const void *data, size_t len)
{
    return instruction ? by_instruction(crc, data, len) : by_tables(crc, data, len);
}

#else

bool btl_ib_crc32c_has_instruction(void)
{
    return false;
}

uint32_t btl_ib_crc32c(bool instruction, uint32_t crc, const void *data, size_t len)
{
    (void) instruction;
    return by_tables(crc, data, len);
}

#endif
