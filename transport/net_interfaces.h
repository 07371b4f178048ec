/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What all transports over network interfaces ask of those and of their addresses. */

#ifndef BTL_IB_INTERFACES_H
#define BTL_IB_INTERFACES_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* The bytes of an IP address, in network order, and how many there are; NULL and 0 if it is
 * none. */
const uint8_t *btl_ib_ip_bytes(const struct sockaddr *address, size_t *len);

/* Are they the same IP address, whatever their ports? */
bool btl_ib_ip_same(const struct sockaddr *a, const struct sockaddr *b);

/* Are the first `bits` of two addresses the same? */
bool btl_ib_ip_same_bits(const uint8_t *a, const uint8_t *b, unsigned bits);

/* Bits of a network mask; 0 if it is none. */
uint8_t btl_ib_ip_prefix(const struct sockaddr *mask);

/* An IPv6 address that means another interface on each host. */
bool btl_ib_ip_link_local(const struct sockaddr *address);

/* The same of IPv4 (169.254.0.0/16): what management processors often have, equal on all hosts. */
bool btl_ib_ip_link_local4(const struct sockaddr *address);

/* One that reaches this host only, whatever interface has it: 127.0.0.0/8, ::1 (RFC 1122, 3.2.1.3;
 * RFC 4291, 2.5.3). */
bool btl_ib_ip_loopback(const struct sockaddr *address);

/* Ask an interface's driver (netdevice(7)); `request` but for the name is the caller's.
 * Returns 0 or -1, as ioctl(2) does. */
int btl_ib_interface_ask(const char *interface, unsigned long question, struct ifreq *request);

/* Mbit/s, 0 if the driver does not know. */
uint32_t btl_ib_interface_speed(const char *interface);

#endif
