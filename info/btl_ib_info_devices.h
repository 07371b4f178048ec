/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What ib_info tells of devices and of memory, and how it prints. */

#ifndef BTL_IB_INFO_DEVICES_H
#define BTL_IB_INFO_DEVICES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "btl_ib_device_plan.h"

/* ---- output ---- */

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

#define BTL_IB_INFO_DEPTH 6 /* objects and lists within each other */

typedef struct btl_ib_info_out {
    FILE *to;
    btl_ib_info_form_t form;
    bool after_facts; /* tables: what was printed last are facts of a block */
    uint32_t depth;
    bool any[BTL_IB_INFO_DEPTH];      /* is something in it already? */
    size_t before[BTL_IB_INFO_DEPTH]; /* length of the prefix around it */
    char prefix[256];                 /* of a line of text */
} btl_ib_info_out_t;

/* Begin and end all of it. */
void btl_ib_info_begin(btl_ib_info_out_t *out, FILE *to, btl_ib_info_form_t form);
void btl_ib_info_end(btl_ib_info_out_t *out);

/* A list in an object. */
void btl_ib_info_list(btl_ib_info_out_t *out, const char *name);
void btl_ib_info_list_end(btl_ib_info_out_t *out);

/* An object in a list (`name` NULL), or in another. `prefix` is what lines of text say of it; "":
 * nothing. */
void btl_ib_info_object(btl_ib_info_out_t *out, const char *name, const char *prefix);
void btl_ib_info_object_end(btl_ib_info_out_t *out);

/* A fact. `name` is a word; in JSON its blanks become '_'. */
void btl_ib_info_text(btl_ib_info_out_t *out, const char *name, const char *value);

/* The same with a number, and its unit in text ("": none). JSON has the number alone. */
void btl_ib_info_number(btl_ib_info_out_t *out, const char *name, uint64_t value, const char *unit);

/* A text in a list; only JSON has it. */
void btl_ib_info_item(btl_ib_info_out_t *out, const char *value);

/* A line that only tables have, of a block of facts the first; an empty line is around blocks. */
void btl_ib_info_heading(btl_ib_info_out_t *out, const char *text, bool has_facts);

/* What only JSON has, as it is in the prefix of text. */
void btl_ib_info_json_text(btl_ib_info_out_t *out, const char *name, const char *value);

/*
 * Print them. First devices are opened, and closed again, as a process of a job of `processes` (0:
 * any number) would do that names ib; help texts go to stderr. Returns how many it would use.
 */
uint32_t btl_ib_info_devices(btl_ib_info_out_t *out, const btl_ib_process_sizes_t *sizes,
                             uint32_t processes);

/* ---- memory ---- */

/* What receive queues cost, by transport, before any job runs; and which fit a budget. */

/* The command line of ib_info. What it means is in ib_info.txt, which --help prints. */

#define BTL_IB_INFO_QUEUES_MAX 8

typedef enum btl_ib_info_action {
    BTL_IB_INFO_SHOW,   /* devices */
    BTL_IB_INFO_MEMORY, /* what queues cost */
    BTL_IB_INFO_HELP,
    BTL_IB_INFO_VERSION,
} btl_ib_info_action_t;

typedef struct btl_ib_info_args {
    btl_ib_info_action_t action;
    btl_ib_info_form_t form;
    uint32_t processes; /* of a job; 0: not said */
    uint32_t per_node;  /* of them on one host */
    const char *queues[BTL_IB_INFO_QUEUES_MAX];
    uint32_t queue_count;
    const char *transport; /* udp, ud, rc, ofi or verbs; NULL: all */
    uint64_t budget;       /* bytes of a process; 0: none was said */
} btl_ib_info_args_t;

/* Print it. Returns the exit status: 1 if queues are wrong or nothing fits the budget, which is
 * said on stderr. */
int btl_ib_info_memory(btl_ib_info_out_t *out, const btl_ib_process_sizes_t *sizes,
                       const btl_ib_info_args_t *args);

#endif
