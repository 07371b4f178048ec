/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_address.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "net_interfaces.h"
#include "udp.h"

static const struct sockaddr *ip_of(const btl_ib_device_t *device)
{
    return (const struct sockaddr *) (const void *) &device->ip;
}

/* bind(2) knows, of any family, and netlink need not be allowed. Errors to send do not tell: IPv6
 * goes out from an address that is gone. Where net.ipv4.ip_nonlocal_bind is set nothing does. */
static bool is_gone(const btl_ib_device_t *device)
{
    btl_ib_udp_name_t name;
    const int fd = socket(device->ip.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return false;
    }
    memcpy(&name, &device->ip, sizeof(name));
    btl_ib_udp_name_set_port(&name, 0);
    const bool gone =
        bind(fd, &name.any, btl_ib_udp_name_len(&name)) != 0 && errno == EADDRNOTAVAIL;
    (void) close(fd);
    return gone;
}

static bool is_in_subnet(const btl_ib_device_t *device, const btl_ib_device_t *before)
{
    size_t len;

    return btl_ib_ip_same_bits(btl_ib_ip_bytes(ip_of(device), &len),
                               btl_ib_ip_bytes(ip_of(before), &len), before->prefix_bits);
}

bool btl_ib_udp_address_changed(btl_ib_device_t *device)
{
    const btl_ib_search_t search = {.provider = NULL};
    btl_ib_device_t *list = NULL;
    const btl_ib_device_t *found = NULL;

    if (!is_gone(device)) {
        return false;
    }
    const int count = btl_ib_udp_devices(&search, &list);
    for (int i = 0; i < count; i++) {
        if (list[i].ip.ss_family == device->ip.ss_family
            && strcmp(list[i].interface, device->interface) == 0
            && !btl_ib_ip_same(ip_of(&list[i]), ip_of(device))
            && (found == NULL
                || (!is_in_subnet(found, device) && is_in_subnet(&list[i], device)))) {
            found = &list[i];
        }
    }
    if (found != NULL) {
        *device = *found;
    }
    btl_ib_udp_devices_free(list, count);
    return found != NULL;
}
