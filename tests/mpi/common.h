/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the MPI test programs share. Each takes arguments of the form name=value, prints "OK
 * <program>" on rank 0 of MPI_COMM_WORLD when all is well, and else says what was wrong and ends
 * the whole job with status 1.
 */

#ifndef BTL_IB_TESTS_COMMON_H
#define BTL_IB_TESTS_COMMON_H

#include <mpi.h>

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, size;
static const char *program = "?";
static double started;

__attribute__((noreturn, format(printf, 1, 2), unused)) static void fail(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "FAIL %s: rank %d: %s\n", program, rank, text);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* Seconds of the clock that all processes of one machine share, whatever their namespaces.
 * MPI_Wtime() counts from each process's own MPI_Init(). */
__attribute__((unused)) static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* Uses the processor for so long, without a call of MPI. */
__attribute__((unused)) static void compute_for(double seconds)
{
    double end = seconds_now() + seconds;
    volatile double x = 1.0;
    while (seconds_now() < end) {
        for (int i = 0; i < 10000; i++) {
            x = x * 1.0000001 + 1e-9;
        }
    }
}

/* The value of argument name=value, or what to take if it is not there. */
__attribute__((unused)) static const char *arg_text(int argc, char **argv, const char *name,
                                                    const char *otherwise)
{
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=') {
            return argv[i] + length + 1;
        }
    }
    return otherwise;
}

__attribute__((unused)) static double arg(int argc, char **argv, const char *name, double otherwise)
{
    const char *text = arg_text(argc, argv, name, NULL);
    return text != NULL ? strtod(text, NULL) : otherwise;
}

/* Random numbers that are the same everywhere for the same seed (splitmix64). */
__attribute__((unused)) static uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

__attribute__((unused)) static uint64_t random_below(uint64_t *state, uint64_t bound)
{
    return random_next(state) % bound;
}

/* Sizes as programs use them: as many of a few bytes as of many kilobytes. */
__attribute__((unused)) static size_t random_size(uint64_t *state, size_t max)
{
    if (random_below(state, 16) == 0) {
        return 0;
    }
    unsigned bits = 1;
    while (bits < 40 && ((size_t) 1 << bits) <= max) {
        bits++;
    }
    size_t bound = (size_t) 1 << random_below(state, bits);
    return (size_t) random_below(state, bound < max ? bound + 1 : max + 1);
}

/* Every word depends on the seed and its place, so that no two pieces can be taken for another. */
__attribute__((unused)) static uint64_t pattern_word(uint64_t seed, size_t place)
{
    uint64_t state = seed ^ ((uint64_t) place * UINT64_C(0xd1342543de82ef95));
    return random_next(&state);
}

__attribute__((unused)) static void pattern_fill(void *buffer, size_t bytes, uint64_t seed)
{
    unsigned char *to = buffer;
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word = pattern_word(seed, at);
        memcpy(to + at, &word, bytes - at < 8 ? bytes - at : 8);
    }
}

__attribute__((unused)) static void pattern_check(const void *buffer, size_t bytes, uint64_t seed,
                                                  const char *what)
{
    const unsigned char *from = buffer;
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word = pattern_word(seed, at);
        size_t length = bytes - at < 8 ? bytes - at : 8;
        if (memcmp(from + at, &word, length) != 0) {
            fail("%s: wrong data at byte %zu of %zu", what, at, bytes);
        }
    }
}

__attribute__((unused)) static void *get_memory(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        fail("no memory for %zu bytes", bytes);
    }
    return memory;
}

__attribute__((unused)) static void begin(int *argc, char ***argv, const char *name)
{
    program = name;
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    started = seconds_now();
}

__attribute__((unused)) static void need_ranks(int least)
{
    if (size < least) {
        fail("needs at least %d ranks", least);
    }
}

/* Rank `first` sends that to rank `second`, which sends it back. The others do not call it. */
__attribute__((unused)) static void there_and_back(int first, int second, void *buffer, int bytes,
                                                   int tag)
{
    if (rank == first) {
        MPI_Send(buffer, bytes, MPI_BYTE, second, tag, MPI_COMM_WORLD);
        MPI_Recv(buffer, bytes, MPI_BYTE, second, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(buffer, bytes, MPI_BYTE, first, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, bytes, MPI_BYTE, first, tag, MPI_COMM_WORLD);
    }
}

/* So many times, with one byte, between ranks 0 and 1. */
__attribute__((unused)) static void ping_pong(int times)
{
    char byte = 0;

    for (int i = 0; i < times; i++) {
        there_and_back(0, 1, &byte, 1, 0);
    }
}

/* Says that all went well; only after a barrier, so that no rank can still fail. */
__attribute__((unused)) static void finish(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("OK %s (%d ranks, %.2f s)\n", program, size, seconds_now() - started);
        fflush(stdout);
    }
    MPI_Finalize();
}

#endif
