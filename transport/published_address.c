/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "published_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRY_MAX = 128 };

typedef union published {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} published_t;

/* Parses "1234". Returns false if it is no port. */
static bool parse_port(const char *text, uint16_t *port)
{
    char *end = NULL;
    const unsigned long value = strtoul(text, &end, 10);

    *port = (uint16_t) value;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && value > 0 && value <= UINT16_MAX;
}

/* Parses "10.1.2.3", "10.1.2.3:4", "fd00::1" or "[fd00::1]:4". Writes zeros into `text`. Returns
 * NULL or what is wrong. */
static const char *parse_address(char *text, published_t *name)
{
    char *colon = strchr(text, ':');
    char *bracket = text[0] == '[' ? strchr(text, ']') : NULL;
    const bool v6 = bracket != NULL || (colon != NULL && strchr(colon + 1, ':') != NULL);
    char *ip = text + (bracket != NULL);
    uint16_t port = 0;

    memset(name, 0, sizeof(*name));
    if (bracket != NULL) {
        *bracket = '\0';
        colon = bracket[1] == ':' ? bracket + 1 : NULL;
        if (colon == NULL && bracket[1] != '\0') {
            return "after the bracket only a port may follow";
        }
    } else if (v6) {
        colon = NULL;
    }
    if (colon != NULL) {
        *colon = '\0';
        if (!parse_port(colon + 1, &port)) {
            return "the port is no number from 1 to 65535";
        }
    }
    name->any.sa_family = v6 ? AF_INET6 : AF_INET;
    if (inet_pton(name->any.sa_family, ip, v6 ? (void *) &name->v6.sin6_addr : &name->v4.sin_addr)
        != 1) {
        return "it has no IP address in numbers";
    }
    name->v4.sin_port = htons(port); /* both kinds have it at the same place */
    return NULL;
}

/* Parses an entry of `len` bytes into interface ("": any) and name. Returns NULL or what is
 * wrong. */
static const char *parse_entry(const char *text, size_t len, char interface[ENTRY_MAX],
                               published_t *name)
{
    char entry[ENTRY_MAX];

    if (len == 0 || len >= sizeof(entry)) {
        return len == 0 ? "an entry is empty" : "an entry is too long";
    }
    memcpy(entry, text, len);
    entry[len] = '\0';
    char *equals = strchr(entry, '=');
    interface[0] = '\0';
    if (equals != NULL) {
        *equals = '\0';
        if (entry[0] == '\0') {
            return "an interface has no name";
        }
        memcpy(interface, entry, strlen(entry) + 1);
    }
    return parse_address(equals != NULL ? equals + 1 : entry, name);
}

const char *btl_ib_published_address(const char *text, bool ports, btl_ib_device_t *device)
{
    published_t found = {.any.sa_family = AF_UNSPEC};

    while (text != NULL && text[0] != '\0') {
        const size_t len = strcspn(text, ",");
        char interface[ENTRY_MAX];
        published_t name;
        const char *problem = parse_entry(text, len, interface, &name);

        if (problem != NULL) {
            return problem;
        }
        if (name.v4.sin_port != 0 && !ports) {
            return "it has a port, and btl_ib_port_min is not set";
        }
        if (name.any.sa_family == device->ip.ss_family && !device->loopback
            && strcmp(device->transport, "udp") == 0
            && (interface[0] == '\0' || strcmp(interface, device->interface) == 0)) {
            found = name;
        }
        if (text[len] == ',' && text[len + 1] == '\0') {
            return "an entry is empty";
        }
        text += len + (text[len] == ',');
    }
    memcpy(&device->published, &found, sizeof(found));
    return NULL;
}
