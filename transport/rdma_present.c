/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "rdma_present.h"

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>

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
