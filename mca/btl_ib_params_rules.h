/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What each parameter may be: made by btl_ib_params.c from its tables, kept to by
 * btl_ib_params_check.c. Parameters that are text for Open MPI, too, have no rule.
 */

#ifndef BTL_IB_PARAMS_RULES_H
#define BTL_IB_PARAMS_RULES_H

#include "btl_ib_params.h"

typedef enum btl_ib_rule_type {
    BTL_IB_RULE_INT,
    BTL_IB_RULE_UNSIGNED,
    BTL_IB_RULE_SIZE,
    BTL_IB_RULE_BOOL,
    BTL_IB_RULE_FLAGS,
} btl_ib_rule_type_t;

typedef struct btl_ib_rule {
    const char *name;
    btl_ib_rule_type_t type;
    bool of_limits;   /* a field of mca_btl_base_module_t, else of btl_ib_params_t */
    size_t offset;    /* of the field */
    const char *unit; /* of numbers, and what they may be, in that unit */
    int64_t low;
    uint64_t high;
    const char *standard; /* the default, in words; NULL: the number below */
    int64_t standard_number;
} btl_ib_rule_t;

/* The rule number `i`, from 0. Returns whether there is one. */
bool btl_ib_params_rule(size_t i, btl_ib_rule_t *rule);

/*
 * Make values of the texts that the user gave, in the place of those that Open MPI made of them;
 * what is wrong leaves the default of our own numbers, and btl_ib_params_check() will tell. To be
 * called when all are registered.
 */
void btl_ib_params_read(btl_ib_params_t *params, struct mca_btl_base_module_t *limits);

#endif
