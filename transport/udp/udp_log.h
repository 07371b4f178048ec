/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The log of one rail of transport "udp": each line begins with the rail's name. */

#ifndef BTL_IB_UDP_LOG_H
#define BTL_IB_UDP_LOG_H

#include "transport.h"

typedef struct btl_ib_udp_log {
    btl_ib_log_t to;
    const char *name;
} btl_ib_udp_log_t;

#define BTL_IB_UDP_LOG(log, level, format, ...)                                                    \
    do {                                                                                           \
        if ((log)->to.print != NULL) {                                                             \
            (log)->to.print((log)->to.context, (level), "%s: " format, (log)->name, __VA_ARGS__);  \
        }                                                                                          \
    } while (0)

#endif
