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
    uint32_t depth;
    bool any[BTL_IB_INFO_DEPTH];      /* is something in it already? */
    char closing[BTL_IB_INFO_DEPTH];  /* bracket */
    size_t before[BTL_IB_INFO_DEPTH]; /* length of the prefix around it */
    char prefix[640];                 /* of a line of text */
} btl_ib_info_out_t;

/* Begin a list or an object: in a list (`name` NULL) or in an object. `prefix` is what lines of
 * text say of it; "": nothing. */
void btl_ib_info_list(btl_ib_info_out_t *out, const char *name);
void btl_ib_info_object(btl_ib_info_out_t *out, const char *name, const char *prefix);

/* End the innermost of them. */
void btl_ib_info_close(btl_ib_info_out_t *out);

/* All output is between these two. */
void btl_ib_info_begin(btl_ib_info_out_t *out, btl_ib_info_form_t form);
void btl_ib_info_end(const btl_ib_info_out_t *out);

/* What only JSON has, as it is in the prefix of text; in a list `name` is NULL. */
void btl_ib_info_json_text(btl_ib_info_out_t *out, const char *name, const char *value);

/* A fact. `name` is a word; in JSON its blanks become '_'. */
void btl_ib_info_text(btl_ib_info_out_t *out, const char *name, const char *value);

/* The same with yes or no. */
void btl_ib_info_bool(btl_ib_info_out_t *out, const char *name, bool value);

/* The same with a number and its unit in text ("": none). JSON has the number alone. */
void btl_ib_info_number(btl_ib_info_out_t *out, const char *name, uint64_t value, const char *unit);

/* Something that is not known: "unknown", null in JSON. */
void btl_ib_info_unknown(btl_ib_info_out_t *out, const char *name);

/* A line that only tables have, of a block of facts the first; an empty line is around blocks. */
void btl_ib_info_heading(btl_ib_info_out_t *out, const char *text, bool has_facts);

#endif
