/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Measures how fast one core reads what another has just written, which tells whether they share a
 * cache. The host of a virtual machine moves its processors, so that they do for some seconds and
 * then do not, and all that two processes exchange depends on it. cores=A,B (0,1). Without MPI.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    BYTES = 256 << 10, /* at a time: less than a core's own cache */
    TIMES = 150,       /* 10 to 30 ms */
    LINE = 64,
};

static _Alignas(4096) unsigned char memory[BYTES];
static _Atomic int turn; /* 0: the writer's, 1: the reader's */
static int cores[2] = {0, 1};
static volatile unsigned sum;

static int pin(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t) core, &set);
    return pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

static void wait_for(int mine)
{
    while (atomic_load_explicit(&turn, memory_order_acquire) != mine) {
    }
}

static void *reader(void *unused)
{
    (void) unused;
    if (pin(cores[1]) != 0) {
        fprintf(stderr, "FAIL handover: no core %d\n", cores[1]);
        exit(1);
    }
    for (int i = 0; i < TIMES; i++) {
        unsigned read = 0;
        wait_for(1);
        for (int at = 0; at < BYTES; at += LINE) {
            read += memory[at];
        }
        sum = read;
        atomic_store_explicit(&turn, 0, memory_order_release);
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double took[TIMES];
    pthread_t thread;

    if (argc > 2 || (argc == 2 && sscanf(argv[1], "cores=%d,%d", &cores[0], &cores[1]) != 2)
        || cores[0] < 0 || cores[0] >= CPU_SETSIZE || cores[1] < 0 || cores[1] >= CPU_SETSIZE
        || cores[0] == cores[1]) {
        fprintf(stderr, "FAIL handover: cores=A,B, two of 0 to %d\n", CPU_SETSIZE - 1);
        return 1;
    }
    if (pin(cores[0]) != 0 || pthread_create(&thread, NULL, reader, NULL) != 0) {
        fprintf(stderr, "FAIL handover: no core %d, or no thread\n", cores[0]);
        return 1;
    }
    for (int i = 0; i < TIMES; i++) {
        wait_for(0);
        const double begun = seconds_now();
        memset(memory, i, BYTES);
        atomic_store_explicit(&turn, 1, memory_order_release);
        wait_for(0);
        took[i] = seconds_now() - begun;
    }
    pthread_join(thread, NULL);
    qsort(took, TIMES, sizeof(took[0]), by_value);
    printf("handover bytes=%d GB/s=%.2f\nOK handover\n", BYTES, BYTES / took[TIMES / 2] / 1e9);
    return 0;
}
