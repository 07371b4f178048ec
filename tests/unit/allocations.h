/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the code under test has allocated. The linker hands its calls to the functions here
 * (--wrap); the tests' own, and those of stand-ins, are compiled to go past them.
 */

#ifndef BTL_IB_TEST_ALLOCATIONS_H
#define BTL_IB_TEST_ALLOCATIONS_H

#include <stdint.h>

#include "unit.h"

/* Bytes that are allocated and mapped now. */
uint64_t allocated(void);

/* Fails unless `is` is within 5 percent of `told`. */
void assert_told(uint64_t is, uint64_t told);

#endif
