/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_crc32c.h"

#include "btl_ib_wire.h"

#include <string.h>

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

bool btl_ib_crc32c_has_instruction(void)
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

bool btl_ib_crc32c_has_instruction(void)
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
