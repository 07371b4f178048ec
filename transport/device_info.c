/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "device_info.h"

#include "net_interfaces.h"

#include <limits.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <dirent.h>
#include <stddef.h>

/* ---- RDMA devices ---- */

#define CLASS "/sys/class/infiniband"

/* The next entry of a directory that is not hidden; NULL: there is none. */
static const char *next_of(DIR *dir)
{
    const struct dirent *entry = NULL;

    while (dir != NULL && (entry = readdir(dir)) != NULL && entry->d_name[0] == '.') {
    }
    return entry != NULL ? entry->d_name : NULL;
}

static void close_dir(DIR *dir)
{
    if (dir != NULL) {
        (void) closedir(dir);
    }
}

bool btl_ib_rdma_present(void)
{
    DIR *dir = opendir(CLASS);
    const bool present = next_of(dir) != NULL;

    close_dir(dir);
    return present;
}

/* Does its file say "4: ACTIVE"? The numbers are those of enum ibv_port_state. */
static bool port_active(const char *device, const char *port)
{
    char path[600];
    int state = 0;

    snprintf(path, sizeof(path), CLASS "/%.255s/ports/%.255s/state", device, port);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%d", &state) != 1) {
            state = 0;
        }
        (void) fclose(file);
    }
    return state == 4;
}

static bool device_active(const char *device)
{
    char path[300];
    const char *port;
    bool active = false;

    snprintf(path, sizeof(path), CLASS "/%.255s/ports", device);
    DIR *dir = opendir(path);
    while (!active && (port = next_of(dir)) != NULL) {
        active = port_active(device, port);
    }
    close_dir(dir);
    return active;
}

bool btl_ib_rdma_active(void)
{
    DIR *dir = opendir(CLASS);
    const char *device;
    bool active = false;

    while (!active && (device = next_of(dir)) != NULL) {
        active = device_active(device);
    }
    close_dir(dir);
    return active;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

void btl_ib_facts_driver(const char *class, const char *name, char *out, size_t len)
{
    char link[128];
    char target[512];

    out[0] = '\0';
    snprintf(link, sizeof(link), "/sys/class/%s/%s/device/driver", class, name);
    const ssize_t size = readlink(link, target, sizeof(target) - 1);
    if (size > 0) {
        target[size] = '\0';
        snprintf(out, len, "%.*s", (int) len - 1, base_name(target));
    }
}

void btl_ib_facts_interface(const char *interface, btl_ib_facts_t *facts)
{
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (char *) &driver};

    memset(facts, 0, sizeof(*facts));
    if (btl_ib_interface_ask(interface, SIOCETHTOOL, &request) == 0) {
        snprintf(facts->driver, sizeof(facts->driver), "%.*s", (int) sizeof(driver.driver),
                 driver.driver);
        snprintf(facts->firmware, sizeof(facts->firmware), "%.*s", (int) sizeof(driver.fw_version),
                 driver.fw_version);
    } else {
        btl_ib_facts_driver("net", interface, facts->driver, sizeof(facts->driver));
    }
    facts->speed = btl_ib_interface_speed(interface);
    request = (struct ifreq){.ifr_mtu = 0};
    if (btl_ib_interface_ask(interface, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0) {
        facts->mtu = (uint32_t) request.ifr_mtu;
    }
}

static const char *shown(const char *text)
{
    return text[0] != '\0' && strcmp(text, "N/A") != 0 ? text : "unknown";
}

void btl_ib_facts_format(const btl_ib_facts_t *facts, char *out, size_t len)
{
    char speed[32] = "of unknown speed";
    char mtu[16] = "unknown";

    if (facts->speed > 0) {
        snprintf(speed, sizeof(speed), "%u Mbit/s", facts->speed);
    }
    if (facts->mtu > 0) {
        snprintf(mtu, sizeof(mtu), "%u", facts->mtu);
    }
    snprintf(out, len, "driver %s, firmware %s, link %s, MTU %s", shown(facts->driver),
             shown(facts->firmware), speed, mtu);
}
