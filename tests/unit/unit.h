/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What each unit test begins with. */

#ifndef BTL_IB_TEST_UNIT_H
#define BTL_IB_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* cmocka hands each test a state, which few use; what tests hand to code under test is called with
 * more than it uses, too. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#endif
