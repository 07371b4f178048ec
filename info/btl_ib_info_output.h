/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Output of ib_info: one fact a line. */

#ifndef BTL_IB_INFO_OUTPUT_H
#define BTL_IB_INFO_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One line has one fact: for people, below the heading of its block, without facts that are not
 * known; or for grep and scripts, where each line begins with what it is about.
 *
 *   parsable: device udp eth0 mtu: 1500 bytes else: udp eth0: rail 0
 *               mtu        1500 bytes
 */
typedef struct btl_ib_info_out {
    bool parsable;
    bool after_facts;  /* for people: the last line was a fact of a block */
    uint32_t width;    /* of names, for people */
    char subject[640]; /* of the block; "": there is none */
} btl_ib_info_out_t;

/* Begins a block of facts, whose names take `width` columns (0: it has no facts). */
void btl_ib_info_begin(btl_ib_info_out_t *out, const char *subject, const char *heading,
                       uint32_t width);

void btl_ib_info_end(btl_ib_info_out_t *out);

/* Prints a fact. A text of "" is printed as unknown. A number has its unit ("": none). */
void btl_ib_info_text(const btl_ib_info_out_t *out, const char *name, const char *value);
void btl_ib_info_number(const btl_ib_info_out_t *out, const char *name, uint64_t value,
                        const char *unit);

/* Returns `bytes` as people read them, "1.5 MiB". */
const char *btl_ib_info_size(uint64_t bytes, char *out, size_t size);

#endif
