/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* How ib_info prints facts. */

#ifndef BTL_IB_INFO_OUTPUT_H
#define BTL_IB_INFO_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What ib_info prints: facts, in tables for people, with one a line for grep, or as JSON.
 *
 *   lines:  device udp eth0 mtu: 1500         JSON:  {"devices": [{"name": "eth0", "mtu": 1500}]}
 *   tables: udp eth0: rail 0
 *             mtu       1500 bytes
 *
 * A line begins with the names of the objects around its fact. Lists and objects without text in
 * front of their facts have none. In tables that is a heading, and what is unknown is left out.
 */
typedef enum btl_ib_info_form {
    BTL_IB_INFO_TABLES,
    BTL_IB_INFO_LINES,
    BTL_IB_INFO_JSON,
} btl_ib_info_form_t;

enum { BTL_IB_INFO_DEPTH = 6 }; /* objects and lists within each other */

typedef struct btl_ib_info_out {
    btl_ib_info_form_t form;
    bool after_facts; /* tables: what was printed last are facts of a block */
    bool empty;       /* JSON: nothing is in the innermost object or list yet */
    uint32_t depth;
    char closing[BTL_IB_INFO_DEPTH];  /* bracket */
    size_t before[BTL_IB_INFO_DEPTH]; /* length of the prefix around it */
    char prefix[640];                 /* of a line of text */
} btl_ib_info_out_t;

/* Begin all output, which is one object. */
void btl_ib_info_begin(btl_ib_info_out_t *out, btl_ib_info_form_t form);

/* Begin a list ('[') or an object ('{'), in a list (`name` NULL) or in an object, and end the
 * innermost of them. `prefix` is what lines of text say of it; "": nothing. */
void btl_ib_info_open(btl_ib_info_out_t *out, const char *name, char opening, const char *prefix);
void btl_ib_info_close(btl_ib_info_out_t *out);

/* What only JSON has, as it is in the prefix of text; in a list `name` is NULL. */
void btl_ib_info_json_text(btl_ib_info_out_t *out, const char *name, const char *value);

/* Facts. `name` is a word; in JSON its blanks become '_'. A text of "" is "unknown", null in JSON;
 * a number has its unit ("": none) in text alone. */
void btl_ib_info_text(btl_ib_info_out_t *out, const char *name, const char *value);
void btl_ib_info_bool(btl_ib_info_out_t *out, const char *name, bool value);
void btl_ib_info_number(btl_ib_info_out_t *out, const char *name, uint64_t value, const char *unit);

/* A line that only tables have, of a block of facts the first; an empty line is around blocks. */
void btl_ib_info_heading(btl_ib_info_out_t *out, const char *text, bool has_facts);

#endif
