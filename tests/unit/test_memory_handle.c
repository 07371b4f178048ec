/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Registration handles: of memory in one piece or in several, damaged ones, and what no owner
 * made. */

#include "opal_config.h"

#include <string.h>

#include "btl_ib_memory_handle.h"
#include "unit.h"

enum { PIECE = 1 << 20, SHIFT = 20 };

static uint64_t now;

uint64_t btl_ib_now(void) /* instead of the component's */
{
    return now += 100 * 1000;
}

/* Three pieces from within one to within another. */
static btl_ib_memory_handle_t make(uint8_t shift)
{
    btl_ib_memory_handle_t handle = {
        .base = 8 * PIECE + 4096,
        .size = 2 * PIECE,
        .device_key = 100,
        .piece_shift = shift,
        .pinned = BTL_IB_ACCESS_READ | BTL_IB_ACCESS_WRITE,
        .more_keys = {101, 102},
    };

    btl_ib_memory_handle_seal(&handle);
    return handle;
}

static btl_ib_op_t put(uint64_t offset, uint64_t size)
{
    return (btl_ib_op_t){.kind = BTL_IB_OP_PUT, .offset = offset, .size = size};
}

static bool allows(const btl_ib_memory_handle_t *handle, uint64_t offset, uint64_t size)
{
    const btl_ib_op_t op = put(offset, size);

    return btl_ib_memory_handle_allows(handle, &op);
}

static uint32_t key(const btl_ib_memory_handle_t *handle, uint64_t offset)
{
    const btl_ib_op_t op = put(offset, 1);

    assert_true(btl_ib_memory_handle_allows(handle, &op));
    return btl_ib_memory_handle_key(handle, &op);
}

TEST(test_one_piece)
{
    const btl_ib_memory_handle_t handle = make(0);

    assert_true(allows(&handle, 0, 2 * PIECE));
    assert_false(allows(&handle, 1, 2 * PIECE));
    assert_false(allows(&handle, 0, UINT64_MAX));
    assert_int_equal(key(&handle, 0), 100);
    assert_int_equal(key(&handle, 2 * PIECE - 1), 100);
}

TEST(test_pieces)
{
    const btl_ib_memory_handle_t handle = make(SHIFT);
    const uint64_t second = PIECE - 4096, third = second + PIECE;

    assert_int_equal(key(&handle, 0), 100);
    assert_int_equal(key(&handle, second - 1), 100);
    assert_int_equal(key(&handle, second), 101);
    assert_int_equal(key(&handle, third - 1), 101);
    assert_int_equal(key(&handle, third), 102);
    assert_int_equal(key(&handle, 2 * PIECE - 1), 102);
    assert_true(allows(&handle, second, PIECE));
    assert_false(allows(&handle, second - 1, 2)); /* on two */
    assert_false(allows(&handle, second, PIECE + 1));
    assert_false(allows(&handle, third, 4097)); /* beyond the end */
}

/* Every bit that counts is covered. */
TEST(test_damage)
{
    for (int several = 0; several < 2; ++several) {
        const btl_ib_memory_handle_t handle = make(several ? SHIFT : 0);
        const size_t counts =
            several ? sizeof(handle) : offsetof(btl_ib_memory_handle_t, more_keys);

        for (size_t i = 0; i < 8 * counts; ++i) {
            btl_ib_memory_handle_t bad = handle, copy;
            const btl_ib_memory_handle_t *given = &bad;

            ((uint8_t *) &bad)[i / 8] ^= (uint8_t) (1 << i % 8);
            assert_int_equal(btl_ib_memory_handle_read(&given, &copy), OPAL_ERR_BAD_PARAM);
        }
        const btl_ib_memory_handle_t *given = &handle;
        btl_ib_memory_handle_t copy;
        assert_int_equal(btl_ib_memory_handle_read(&given, &copy), OPAL_SUCCESS);
        assert_ptr_equal(given, &copy);
        assert_memory_equal(&copy, &handle, sizeof(handle));
    }
}

/* bml r2 offers no RDMA between processes of different byte orders. Were it otherwise, a handle of
 * the other order would name no memory. */
TEST(test_other_byte_order)
{
    btl_ib_memory_handle_t handle = make(SHIFT), copy;
    const btl_ib_memory_handle_t *given = &handle;

    handle.base = __builtin_bswap64(handle.base);
    handle.key.id = __builtin_bswap64(handle.key.id);
    handle.key.secret = __builtin_bswap64(handle.key.secret);
    handle.size = __builtin_bswap64(handle.size);
    handle.device_key = __builtin_bswap32(handle.device_key);
    handle.check = __builtin_bswap64(handle.check);
    for (size_t i = 0; i < BTL_IB_PIECES_MAX - 1; i++) {
        handle.more_keys[i] = __builtin_bswap32(handle.more_keys[i]);
    }
    assert_int_equal(btl_ib_memory_handle_read(&given, &copy), OPAL_ERR_BAD_PARAM);
}

/* Pieces for which there is no key: only a hostile peer sends this. */
TEST(test_no_such_piece)
{
    btl_ib_memory_handle_t handle = make(SHIFT);

    handle.size = 100 * PIECE;
    assert_true(allows(&handle, (BTL_IB_PIECES_MAX - 1) * PIECE, 1));
    assert_false(allows(&handle, BTL_IB_PIECES_MAX * PIECE, 1));
    assert_false(allows(&handle, 50 * PIECE, 1));
    for (int shift = 1; shift < 256; ++shift) {
        handle.piece_shift = (uint8_t) shift;
        for (uint64_t offset = 0; offset < handle.size; offset += PIECE / 2) {
            const btl_ib_op_t op = put(offset, 1);
            if (btl_ib_memory_handle_allows(&handle, &op)) {
                (void) btl_ib_memory_handle_key(&handle, &op); /* the sanitizer would tell */
                assert_true(((handle.base + offset) >> shift) - (handle.base >> shift)
                            < BTL_IB_PIECES_MAX);
            }
        }
    }
}

UNIT_MAIN(NULL, NULL)
