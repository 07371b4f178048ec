/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Small messages beside long ones: a ping-pong of small ones between ranks 0 and 1 alone, and then
 * while rank 0 keeps long ones on their way to rank 1, or to another. Reports one-way microseconds
 * of both, the rate of the long ones, and the longest time in which none of those was complete.
 * bytes=N[,N...] (8), bulk=N (4194304), depth=N (2 long messages at once), to=RANK (1) of the long
 * ones, both=1: long ones both ways, seconds=S (2) for each of the two, idle=S for the first
 */

#include "figures.h"

#define TAG_SMALL   1
#define TAG_BULK    2
#define SAMPLES_MAX 1000000

typedef struct bulk {
    int bytes, depth;
    int other;           /* rank */
    int sends, receives; /* which of the two we do */
    int stopping;        /* nothing more is sent */
    int ended;           /* receives that an empty message took */
    long messages;       /* sent or received, but for empty ones */
    double at, gap;      /* s: when the last one was complete, and the longest time between two */
    unsigned char *out, *in;
    MPI_Request *requests; /* `depth` sends, then `depth` receives */
    int *indices;
    MPI_Status *statuses;
} bulk_t;

static unsigned char *part_of(const bulk_t *b, unsigned char *memory, int i)
{
    return memory + (size_t) b->bytes * (size_t) i;
}

static void bulk_send(bulk_t *b, int i)
{
    MPI_Isend(part_of(b, b->out, i), b->bytes, MPI_BYTE, b->other, TAG_BULK, MPI_COMM_WORLD,
              &b->requests[i]);
    b->messages++;
}

static void bulk_receive(bulk_t *b, int i)
{
    MPI_Irecv(part_of(b, b->in, i), b->bytes, MPI_BYTE, b->other, TAG_BULK, MPI_COMM_WORLD,
              &b->requests[b->depth + i]);
}

static void bulk_begin(bulk_t *b)
{
    b->stopping = b->ended = 0;
    b->messages = 0;
    for (int i = 0; i < b->depth; i++) {
        b->requests[i] = b->requests[b->depth + i] = MPI_REQUEST_NULL;
        if (b->receives) {
            bulk_receive(b, i);
        }
    }
    for (int i = 0; b->sends && i < b->depth; i++) {
        bulk_send(b, i);
    }
    b->at = seconds_now();
}

/* One of the requests is complete: the next message takes its place. */
static void bulk_next(bulk_t *b, int index, MPI_Status *status)
{
    int count;

    if (index < b->depth) {
        if (!b->stopping) {
            bulk_send(b, index);
        }
        return;
    }
    MPI_Get_count(status, MPI_BYTE, &count);
    if (count == 0) {
        b->ended++;
        return;
    }
    if (count != b->bytes) {
        fail("a long message has %d bytes", count);
    }
    b->messages++;
    bulk_receive(b, index - b->depth);
}

/* Returns 0 when nothing is left to be done. */
static int bulk_look(bulk_t *b, int wait)
{
    int count;

    (wait ? MPI_Waitsome : MPI_Testsome)(2 * b->depth, b->requests, &count, b->indices,
                                         b->statuses);
    if (count != MPI_UNDEFINED && count > 0) {
        const double now = seconds_now();
        b->gap = now - b->at > b->gap ? now - b->at : b->gap;
        b->at = now;
    }
    for (int i = 0; count != MPI_UNDEFINED && i < count; i++) {
        bulk_next(b, b->indices[i], &b->statuses[i]);
    }
    return count != MPI_UNDEFINED;
}

/* Lets all come to an end: an empty message for each receive that the other one has posted. */
static void bulk_end(bulk_t *b)
{
    b->stopping = 1;
    MPI_Request *empty = get_memory(sizeof(MPI_Request) * (size_t) b->depth);

    for (int i = 0; b->sends && i < b->depth; i++) {
        MPI_Isend(NULL, 0, MPI_BYTE, b->other, TAG_BULK, MPI_COMM_WORLD, &empty[i]);
    }
    while (bulk_look(b, 1)) {
    }
    if (b->sends) {
        MPI_Waitall(b->depth, empty, MPI_STATUSES_IGNORE);
    }
    free(empty);
    if (b->receives && b->ended != b->depth) {
        fail("%d receives ended, expected were %d", b->ended, b->depth);
    }
    for (int i = 0; b->receives && i < b->depth && b->messages >= b->depth; i++) {
        pattern_check(part_of(b, b->in, i), (size_t) b->bytes, 7, "long message");
    }
}

static void bulk_make(bulk_t *b)
{
    const size_t depth = (size_t) b->depth;

    b->out = get_memory((size_t) b->bytes * depth);
    b->in = get_memory((size_t) b->bytes * depth);
    b->requests = get_memory(sizeof(*b->requests) * 2 * depth);
    b->indices = get_memory(sizeof(*b->indices) * 2 * depth);
    b->statuses = get_memory(sizeof(*b->statuses) * 2 * depth);
    memset(b->in, 0, (size_t) b->bytes * depth);
    for (int i = 0; i < b->depth; i++) {
        pattern_fill(part_of(b, b->out, i), (size_t) b->bytes, 7);
    }
}

static void bulk_free(bulk_t *b)
{
    free(b->out);
    free(b->in);
    free(b->requests);
    free(b->indices);
    free(b->statuses);
}

/* ---- small messages ---- */

/* A message and its answer. The first byte says whether it is the last, which rank 0 decides. */
static int ping(unsigned char *buffer, int bytes, int last, long number)
{
    if (rank == 0) {
        pattern_fill(buffer + 1, (size_t) bytes - 1, (uint64_t) number);
        buffer[0] = (unsigned char) last;
    }
    there_and_back(0, 1, buffer, bytes, TAG_SMALL);
    pattern_check(buffer + 1, (size_t) bytes - 1, (uint64_t) number, "small message");
    return buffer[0] != 0;
}

/* For so many seconds. Returns how many; one-way microseconds of each are in `us` of rank 0. */
static long ping_for(double seconds, int bytes, bulk_t *bulk, double *us)
{
    unsigned char *buffer = get_memory((size_t) bytes);
    const double begun = seconds_now();
    long n = 0;
    int last = 0;

    while (!last) {
        const double t = seconds_now();
        last = ping(buffer, bytes, t > begun + seconds || n + 1 == SAMPLES_MAX, n);
        us[n++] = 0.5e6 * (seconds_now() - t);
        if (bulk != NULL) {
            bulk_look(bulk, 0);
        }
    }
    free(buffer);
    return n;
}

typedef struct figures {
    double p50, p99, max;
} figures_t;

static figures_t figures_of(double *us, long n)
{
    qsort(us, (size_t) n, sizeof(*us), by_value);
    return (figures_t){us[n / 2], us[(long) (0.99 * (double) n)], us[n - 1]};
}

/* Ranks 0 and 1: the ping-pong alone, then beside the long messages. */
static void one_size(int bytes, double alone, double seconds, bulk_t *bulk, double *us)
{
    bulk_t *own = bulk->sends || bulk->receives ? bulk : NULL;

    ping_for(0.1, bytes, NULL, us);
    const figures_t idle = figures_of(us, ping_for(alone, bytes, NULL, us));
    if (own != NULL) {
        bulk_begin(own);
    }
    const double begun = seconds_now();
    const long n = ping_for(seconds, bytes, own, us);
    if (own != NULL) {
        bulk_end(own);
    }
    const double took = seconds_now() - begun;
    const figures_t beside = figures_of(us, n);
    if (rank == 0) {
        printf("mixed bytes=%d bulk=%d to=%d idle_p50=%.2f idle_p99=%.2f p50=%.2f p99=%.2f "
               "max=%.2f us, samples=%ld p99/idle_p50=%.1f p99/idle_p99=%.1f bulk GB/s=%.3f "
               "gap=%.1f ms\n",
               bytes, bulk->bytes, bulk->other, idle.p50, idle.p99, beside.p50, beside.p99,
               beside.max, n, beside.p99 / idle.p50, beside.p99 / idle.p99,
               (double) bulk->messages * (double) bulk->bytes / took / 1e9, 1e3 * bulk->gap);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "mixed");
    need_ranks(2);
    const sizes_t sizes = arg_sizes(argc, argv, "8");
    const int both = arg(argc, argv, "both", 0) != 0, to = (int) arg(argc, argv, "to", 1);
    const double seconds = arg(argc, argv, "seconds", 2);
    const double alone = arg(argc, argv, "idle", (long) seconds);
    bulk_t bulk = {.bytes = (int) arg(argc, argv, "bulk", 4194304),
                   .depth = (int) arg(argc, argv, "depth", 2),
                   .other = rank == 0 ? to : 0,
                   .sends = rank == 0 || (both && rank == 1),
                   .receives = to == rank || (both && rank == 0)};
    double *us = get_memory(sizeof(*us) * SAMPLES_MAX);

    if (bulk.bytes < 1 || bulk.depth < 1) {
        fail("bulk and depth are at least 1");
    }
    if (to < 1 || to >= size || (both && to != 1)) {
        fail("to=%d: a rank, not 0; with both=1 it is 1", to);
    }
    bulk_make(&bulk);
    for (int i = 0; i < sizes.count; i++) {
        if (rank < 2) {
            one_size(sizes.bytes[i], alone, seconds, &bulk, us);
        } else if (to == rank) {
            bulk_begin(&bulk);
            bulk_end(&bulk);
        }
    }
    bulk_free(&bulk);
    free(us);
    finish();
    return 0;
}
