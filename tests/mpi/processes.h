/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What programs share in which processes come and go: dynamic and soak. */

#ifndef BTL_IB_TESTS_PROCESSES_H
#define BTL_IB_TESTS_PROCESSES_H

#include "common.h"

#include <dirent.h>
#include <unistd.h>

/* Descriptors that this process has. */
static long count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    long count = 0;

    while (folder != NULL && readdir(folder) != NULL) {
        count++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return count;
}

/* Memory that this process has. */
static long resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0, resident = 0;

    if (file == NULL || fscanf(file, "%ld %ld", &pages, &resident) != 2) {
        fail("no /proc/self/statm");
    }
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* `half` is the half of MPI_COMM_WORLD that this process is in, by ranks. The first accepts, the
 * second connects. `exchange` is called with the communicator of both. */
static void connect_halves(MPI_Comm half, void (*exchange)(MPI_Comm with, int round), int round)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm others;

    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
    }
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank < size / 2) {
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &others);
    } else {
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &others);
    }
    exchange(others, round);
    MPI_Comm_disconnect(&others);
    if (rank == 0) {
        MPI_Close_port(port);
    }
}

#endif
