/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * CRC-32C (Castagnoli): the checksum of iSCSI (RFC 3720, 12.1 and B.4) and SCTP. Finds every error
 * of up to 32 bits in a row, and all but one in 2^32 of the others.
 */

#ifndef BTL_IB_CRC32C_H
#define BTL_IB_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does the processor have an instruction for it (SSE 4.2, ARMv8 CRC)? */
bool btl_ib_crc32c_has_instruction(void);

/* Computes the checksum of `len` bytes that follow others with checksum `crc` (0: none). `data` may
 * have any alignment, and be NULL if `len` is 0. `instruction`: use the processor's instruction,
 * which must exist; else tables, eight bytes at a time. */
uint32_t btl_ib_crc32c(bool instruction, uint32_t crc, const void *data, size_t len);

#endif
