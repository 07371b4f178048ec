/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Measures what rank 0 can do with all the others, as their number grows.
 * what=turns: a ping-pong with each in turn, each timed by itself, one way
 * what=rate: windows of messages to all of them, an answer of each; messages a second
 * bytes=N[,N...] (8), window=N (64), seconds=S for each size (1)
 */

#include "figures.h"

enum { SAMPLES_MAX = 1000000, TAG = 1 };

/* Answers rank 0, one for each `count` messages, until a message says that it was the last. */
static void answer(unsigned char *buffer, int bytes, int count)
{
    do {
        for (int i = 0; i < count; i++) {
            MPI_Recv(buffer, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Send(buffer, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    } while (buffer[0] == 0);
}

/* One-way microseconds of each ping-pong. Returns how many there were. */
static int take_turns(unsigned char *buffer, int bytes, double limit, double *us)
{
    const double end = seconds_now() + limit;
    int n = 0;

    for (int last = 0; !last;) {
        last = seconds_now() > end || n + size > SAMPLES_MAX;
        for (int peer = 1; peer < size; peer++) {
            buffer[0] = (unsigned char) last;
            const double t = seconds_now();
            MPI_Send(buffer, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            us[n++] = 0.5e6 * (seconds_now() - t);
        }
    }
    return n;
}

/* Messages a second to all. */
static double send_windows(unsigned char *buffer, int bytes, int window, double limit)
{
    MPI_Request *requests = get_memory(sizeof(*requests) * (size_t) (window * (size - 1)));
    const double begun = seconds_now();
    long messages = 0;

    for (int last = 0; !last;) {
        int n = 0;
        last = seconds_now() > begun + limit;
        buffer[0] = (unsigned char) last;
        for (int peer = 1; peer < size; peer++) {
            for (int i = 0; i < window; i++) {
                MPI_Isend(buffer, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[n++]);
            }
        }
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        for (int peer = 1; peer < size; peer++) {
            MPI_Recv(buffer, bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        messages += n;
    }
    free(requests);
    return (double) messages / (seconds_now() - begun);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "peers");
    const sizes_t sizes = arg_sizes(argc, argv, "8");
    const int by_turns = strcmp(arg_text(argc, argv, "what", "turns"), "turns") == 0;
    const int window = (int) arg(argc, argv, "window", 64);
    const double limit = arg(argc, argv, "seconds", 1);
    if (size < 2 || window < 1) {
        fail("needs two ranks or more, and a window of at least 1");
    }
    double *us = get_memory(sizeof(*us) * SAMPLES_MAX);
    unsigned char *buffer = get_memory((size_t) sizes.longest);

    for (int i = 0; i < sizes.count; i++) {
        const int bytes = sizes.bytes[i];
        memset(buffer, 0, (size_t) bytes);
        if (rank > 0) {
            answer(buffer, bytes, by_turns ? 1 : window);
        } else if (by_turns) {
            print_latency(bytes, us, take_turns(buffer, bytes, limit, us));
        } else {
            printf("peers bytes=%d window=%d messages/s=%.0f\n", bytes, window,
                   send_windows(buffer, bytes, window, limit));
        }
    }
    free(us);
    free(buffer);
    finish();
    return 0;
}
