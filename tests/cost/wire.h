/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What joins the two engines of engine_cost: one file for each program. */

#ifndef WIRE_H
#define WIRE_H

#include "transport.h"

/* The receive queues of both. */
extern const char wire_queues[];

/* The transport of the first engine, then that of the second. Ends the program if there is none. */
btl_ib_transport_t *wire_open(void);

/* A call of the system, or what stands for it, brought something. budget counts from here. */
void wire_received(void);

#endif
