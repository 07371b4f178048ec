/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Datagrams made by hand, byte by byte: the structs of the code under test are not used. After
 * cmocka.h. */

#ifndef BTL_IB_TEST_WIRE_BYTES_H
#define BTL_IB_TEST_WIRE_BYTES_H

#include <stdlib.h>
#include <string.h>

#include "btl_ib_wire.h"
#include "unit.h"

enum { HEADER = 40, CONNECT = 24, CHUNK = 12, BLOCK = 12 };

static uint8_t bytes[HEADER + 0x10000];
static uint32_t used;
static btl_ib_view_t view;
static uint8_t *datagram; /* of the exact size, so that the address sanitizer sees a read beyond */

static inline int teardown(void **state)
{
    free(datagram);
    datagram = NULL;
    return 0;
}

static inline void put(uint64_t value, int count)
{
    for (int i = 0; i < count; i++) {
        bytes[used++] = (uint8_t) (value >> (8 * i));
    }
}

static inline void poke16(uint32_t at, uint32_t value)
{
    bytes[at] = (uint8_t) value;
    bytes[at + 1] = (uint8_t) (value >> 8);
}

/* A header with nothing wrong in it. */
static inline void begin(uint8_t type, uint8_t flags)
{
    static const uint8_t header[HEADER] = {
        0x10, 0x00, 0xa5, 0x77,
        0x04, 0x03, 0x02, 0x01, /* version, flags, channels, tag, connection */
        0x18, 0x17, 0x16, 0x15,
        0x14, 0x13, 0x12, 0x11, /* token */
        0x24, 0x23, 0x22, 0x21,
        0xf4, 0xff, 0xff, 0xff, /* seq, ack */
        0x34, 0x12, 0x00, 0x00,
        0x44, 0x43, 0x42, 0x41, /* credits, length, stamp */
        0x54, 0x53, 0x52, 0x51,
        0x62, 0x61, 0x00, 0x00, /* echo, hold, reserved */
    };

    memcpy(bytes, header, HEADER);
    bytes[0] |= type;
    bytes[1] = flags;
    used = HEADER;
}

static inline void put_connect(void)
{
    put(0x0102030405060708, 8);
    put(0x0a0b0c0d, 4);
    put(0xdeadbeef, 4);
    put(0x21, 1);
    put(0x43, 1);
    put(0, 2);
    put(0x73727170, 4);
}

static inline void put_chunk(uint32_t total, uint32_t index, uint32_t unit)
{
    put(0x99887766, 4);
    put(total, 4);
    put(index, 2);
    put(unit, 2);
}

static inline void put_block(uint8_t channel, uint8_t ranges, uint32_t ack, uint32_t limit)
{
    put(channel, 1);
    put(ranges, 1);
    put(0, 2);
    put(ack, 4);
    put(limit, 4);
}

static inline void put_range(uint32_t offset, uint32_t count)
{
    put(offset, 2);
    put(count, 2);
}

/* The first `size` bytes as a datagram, whatever its length field says. */
static inline btl_ib_wire_error_t parse_raw(uint32_t size)
{
    free(datagram);
    datagram = malloc(size > 0 ? size : 1);
    assert_non_null(datagram);
    memcpy(datagram, bytes, size);
    memset(&view, 0, sizeof(view));
    btl_ib_wire_error_t error = btl_ib_wire_parse(datagram, size, &view);
    assert_memory_equal(datagram, bytes, size);
    return error;
}

/* The same with the right length. */
static inline btl_ib_wire_error_t parse_cut(uint32_t size)
{
    poke16(26, size - HEADER);
    return parse_raw(size);
}

static inline btl_ib_wire_error_t parse(void)
{
    return parse_cut(used);
}

#endif
