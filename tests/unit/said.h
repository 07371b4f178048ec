/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What a log was told, for tests that look for a word in it. */

#ifndef BTL_IB_TEST_SAID_H
#define BTL_IB_TEST_SAID_H

#include "transport.h"

extern char said[1024];         /* all lines of level 1, one after the other */
extern uint32_t diagnostics;    /* bits: those that were told */
extern char diagnostic_detail[64]; /* of the last */

/* A btl_ib_log_fn_t. */
void listen_to(void *context, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A btl_ib_diagnostic_fn_t. */
void note_diagnostic(void *context, btl_ib_diagnostic_t what, const char *device,
                     const char *detail);

/* As if nothing had been said. */
void forget_said(void);

#endif
