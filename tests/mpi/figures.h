/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the programs share that measure: lists of sizes, and a line of figures for each size, which
 * tools/bench reads: "<program> bytes=<size> <figure>=<value> ...". The line is out at once: what
 * was measured before a time limit counts.
 */

#ifndef BTL_IB_TESTS_FIGURES_H
#define BTL_IB_TESTS_FIGURES_H

#include "common.h"

enum {
    SIZES_MAX = 64,
    WINDOW_BYTES = 32 << 20 /* memory of a window of long messages */
};

typedef struct sizes {
    int count, longest;
    int bytes[SIZES_MAX];
} sizes_t;

/* Argument bytes=N[,N...], each at least 1. */
__attribute__((unused)) static sizes_t arg_sizes(int argc, char **argv, const char *otherwise)
{
    sizes_t sizes = {.count = 0};
    const char *text = arg_text(argc, argv, "bytes", otherwise), *at = text;
    char *end;

    for (;;) {
        long n = strtol(at, &end, 10);
        if (end == at || n < 1 || n > 1 << 30 || (*end != ',' && *end != '\0')
            || sizes.count == SIZES_MAX) {
            fail("bytes=%s: up to %d numbers of 1 to %d, with commas", text, SIZES_MAX, 1 << 30);
        }
        sizes.bytes[sizes.count++] = (int) n;
        sizes.longest = n > sizes.longest ? (int) n : sizes.longest;
        if (*end == '\0') {
            return sizes;
        }
        at = end + 1;
    }
}

/* Messages of a window: what was asked for, or as many as WINDOW_BYTES hold, at least 2, at most
 * 64. */
__attribute__((unused)) static int window_of(int asked, int bytes)
{
    int fit = WINDOW_BYTES / bytes;
    if (asked > 0) {
        return asked;
    }
    return fit > 64 ? 64 : fit < 2 ? 2 : fit;
}

__attribute__((unused)) static int by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* Sorts n > 0 samples in microseconds, and prints their line. */
__attribute__((unused)) static void print_latency(int bytes, double *us, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += us[i];
    }
    qsort(us, (size_t) n, sizeof(*us), by_value);
    printf("%s bytes=%d iterations=%d mean=%.2f p50=%.2f p99=%.2f p99.9=%.2f max=%.2f us\n",
           program, bytes, n, sum / n, us[n / 2], us[(int) (0.99 * n)], us[(int) (0.999 * n)],
           us[n - 1]);
    fflush(stdout);
}

#endif
