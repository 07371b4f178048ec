/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Many senders to one receiver, rank 0: each sends messages as fast as it may. Every byte is
 * checked. Reports the goodput of all, and of each the share that it had of what one of them should
 * have (1 is fair), while all of them were sending.
 * bytes=N[,N...] (65536), window=N (4 messages of each sender on their way), seconds=S (3) measured
 * after warmup=S (0.5); pairs=1: each even rank sends to the next one instead, so that on two hosts
 * several pairs share one link; slow=US (0): the receiver computes for so long each time it got
 * something; pings=1: the last rank sends nothing but 8 bytes, again each time that rank 0 has sent
 * them back. What these round trips took is reported: alone, for a second before, and beside the
 * others (us)
 */

#include "figures.h"

#define TAG_DATA 1
#define TAG_STOP 2
#define TAG_PING 3

enum { PING_BYTES = 8, PINGS_MAX = 1000000 };

/* Message n of a sender is `bytes` of its pattern from 8 * (n % STARTS) on: nobody has to make it,
 * and it differs in every word from those before. */
#define STARTS 8191

typedef struct incast {
    int bytes, window, slow_us, pairs, pings;
    double seconds, warmup;
    size_t pattern_bytes;
} incast_t;

/* What a receiver knows of one of its senders. */
typedef struct source {
    int rank;
    unsigned char *pattern;
    long posted, messages, counted; /* receives, messages that came, those of the measured time */
    int ended;                      /* receives that an empty message took */
} source_t;

/* One receive of one source. */
typedef struct slot {
    source_t *source;
    long number; /* which message will be in it */
    unsigned char *buffer;
} slot_t;

static unsigned char *pattern_of(const incast_t *in, int from)
{
    unsigned char *pattern = get_memory(in->pattern_bytes);

    pattern_fill(pattern, in->pattern_bytes, (uint64_t) from + 1);
    return pattern;
}

static size_t start_of(long number)
{
    return 8 * (size_t) (number % STARTS);
}

/* ---- senders ---- */

/* Synchronous sends, so that what the receiver has not asked for does not pile up there. */
static void send_one(const incast_t *in, const unsigned char *pattern, int to, long number,
                     MPI_Request *request)
{
    MPI_Issend(pattern + start_of(number), in->bytes, MPI_BYTE, to, TAG_DATA, MPI_COMM_WORLD,
               request);
}

/* Until the receiver has enough; then one empty message for each receive that it has posted. */
static void send_all(const incast_t *in, int to)
{
    unsigned char *pattern = pattern_of(in, rank);
    MPI_Request *requests = get_memory(sizeof(MPI_Request) * (size_t) (in->window + 1));
    MPI_Request *stop = &requests[in->window];
    long number = 0;
    int index;

    MPI_Irecv(NULL, 0, MPI_BYTE, to, TAG_STOP, MPI_COMM_WORLD, stop);
    for (int i = 0; i < in->window; i++) {
        send_one(in, pattern, to, number++, &requests[i]);
    }
    for (;;) {
        MPI_Waitany(in->window + 1, requests, &index, MPI_STATUS_IGNORE);
        if (index == in->window) {
            break;
        }
        send_one(in, pattern, to, number++, &requests[index]);
    }
    MPI_Waitall(in->window, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < in->window; i++) {
        MPI_Send(NULL, 0, MPI_BYTE, to, TAG_DATA, MPI_COMM_WORLD);
    }
    free(requests);
    free(pattern);
}

/* ---- pings ---- */

typedef struct pings {
    double p50, p99;
} pings_t;

/* The last rank: for so many seconds, or until rank 0 says so. Then an empty message. */
static pings_t ping_for(double seconds)
{
    const double begun = seconds_now();
    double *us = get_memory(sizeof(*us) * PINGS_MAX);
    unsigned char buffer[PING_BYTES];
    MPI_Request stop = MPI_REQUEST_NULL;
    int n = 0, stopped = 0;

    if (seconds <= 0) {
        MPI_Irecv(NULL, 0, MPI_BYTE, 0, TAG_STOP, MPI_COMM_WORLD, &stop);
    }
    while (!stopped && n < PINGS_MAX) {
        const double t = seconds_now();
        pattern_fill(buffer, sizeof(buffer), (uint64_t) n);
        there_and_back(rank, 0, buffer, PING_BYTES, TAG_PING);
        pattern_check(buffer, sizeof(buffer), (uint64_t) n, "ping");
        us[n++] = 1e6 * (seconds_now() - t);
        if (seconds > 0) {
            stopped = t > begun + seconds;
        } else {
            MPI_Test(&stop, &stopped, MPI_STATUS_IGNORE);
        }
    }
    if (stop != MPI_REQUEST_NULL) {
        MPI_Wait(&stop, MPI_STATUS_IGNORE);
    }
    MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_PING, MPI_COMM_WORLD);
    qsort(us, (size_t) n, sizeof(*us), by_value);
    const pings_t pings = {us[n / 2], us[(int) (0.99 * n)]};
    free(us);
    return pings;
}

static void await_ping(unsigned char *buffer, MPI_Request *request)
{
    MPI_Irecv(buffer, PING_BYTES, MPI_BYTE, size - 1, TAG_PING, MPI_COMM_WORLD, request);
}

/* Rank 0: sends a ping back, and awaits the next; the last one is empty. */
static void answer_ping(unsigned char *buffer, const MPI_Status *status, MPI_Request *request)
{
    int count;

    MPI_Get_count(status, MPI_BYTE, &count);
    if (count > 0) {
        MPI_Send(buffer, count, MPI_BYTE, size - 1, TAG_PING, MPI_COMM_WORLD);
        await_ping(buffer, request);
    }
}

static void answer_pings(void)
{
    unsigned char buffer[PING_BYTES];
    MPI_Request request;
    MPI_Status status;

    for (await_ping(buffer, &request); request != MPI_REQUEST_NULL;) {
        MPI_Wait(&request, &status);
        answer_ping(buffer, &status, &request);
    }
}

/* ---- receivers ---- */

static void post(const incast_t *in, slot_t *slot, MPI_Request *request)
{
    slot->number = slot->source->posted++;
    MPI_Irecv(slot->buffer, in->bytes, MPI_BYTE, slot->source->rank, TAG_DATA, MPI_COMM_WORLD,
              request);
}

/* A message came. Returns whether the receive is to be posted again. */
static int take(const incast_t *in, const slot_t *slot, MPI_Status *status)
{
    source_t *s = slot->source;
    int count;

    MPI_Get_count(status, MPI_BYTE, &count);
    if (count == 0) {
        s->ended++;
        return 0;
    }
    if (count != in->bytes
        || memcmp(slot->buffer, s->pattern + start_of(slot->number), (size_t) in->bytes) != 0) {
        fail("message %ld of rank %d (%d bytes) is wrong", slot->number, s->rank, count);
    }
    s->messages++;
    return 1;
}

/* At the begin of the measured time, and again at its end. */
static void note_counts(source_t *sources, int n)
{
    for (int i = 0; i < n; i++) {
        sources[i].counted = sources[i].messages - sources[i].counted;
    }
}

static void tell_to_stop(const source_t *sources, int n)
{
    for (int i = 0; i < n; i++) {
        MPI_Send(NULL, 0, MPI_BYTE, sources[i].rank, TAG_STOP, MPI_COMM_WORLD);
    }
}

/* Receive until all have ended. The last of the requests is for pings. Returns for how many seconds
 * messages were counted. */
static double receive(const incast_t *in, source_t *sources, int n, slot_t *slots,
                      MPI_Request *requests)
{
    const int total = n * in->window + 1;
    unsigned char ping[PING_BYTES];
    int *indices = get_memory(sizeof(int) * (size_t) total);
    MPI_Status *statuses = get_memory(sizeof(MPI_Status) * (size_t) total);
    const double begun = seconds_now();
    double from = 0, until = 0;
    int count;

    requests[total - 1] = MPI_REQUEST_NULL;
    if (in->pings) {
        await_ping(ping, &requests[total - 1]);
    }
    for (;;) {
        MPI_Waitsome(total, requests, &count, indices, statuses);
        if (count == MPI_UNDEFINED) {
            break;
        }
        for (int i = 0; i < count; i++) {
            if (indices[i] == total - 1) {
                answer_ping(ping, &statuses[i], &requests[total - 1]);
            } else if (take(in, &slots[indices[i]], &statuses[i])) {
                post(in, &slots[indices[i]], &requests[indices[i]]);
            }
        }
        if (in->slow_us > 0) {
            compute_for(1e-6 * in->slow_us);
        }
        const double now = seconds_now();
        if (from == 0 && now > begun + in->warmup) {
            note_counts(sources, n);
            from = now;
        } else if (until == 0 && from != 0 && now > from + in->seconds) {
            note_counts(sources, n);
            until = now;
            tell_to_stop(sources, n);
            if (in->pings) {
                MPI_Send(NULL, 0, MPI_BYTE, size - 1, TAG_STOP, MPI_COMM_WORLD);
            }
        }
    }
    free(indices);
    free(statuses);
    return until - from;
}

/* Returns the bytes in a second of each of `n` sources in `rates`. */
static void receive_all(const incast_t *in, const int *ranks, int n, double *rates)
{
    source_t *sources = get_memory(sizeof(source_t) * (size_t) n);
    slot_t *slots = get_memory(sizeof(slot_t) * (size_t) (n * in->window));
    MPI_Request *requests = get_memory(sizeof(MPI_Request) * (size_t) (n * in->window + 1));

    for (int i = 0; i < n * in->window; i++) {
        source_t *s = &sources[i / in->window];
        if (i % in->window == 0) {
            *s = (source_t){.rank = ranks[i / in->window]};
            s->pattern = pattern_of(in, s->rank);
        }
        slots[i] = (slot_t){.source = s, .buffer = get_memory((size_t) in->bytes)};
        post(in, &slots[i], &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double took = receive(in, sources, n, slots, requests);
    for (int i = 0; i < n; i++) {
        if (sources[i].ended != in->window) {
            fail("%d empty messages of rank %d", sources[i].ended, sources[i].rank);
        }
        rates[i] = (double) sources[i].counted * (double) in->bytes / took;
        free(sources[i].pattern);
    }
    for (int i = 0; i < n * in->window; i++) {
        free(slots[i].buffer);
    }
    free(sources);
    free(slots);
    free(requests);
}

/* ---- the frame ---- */

/* Where a rank sends to, or -1. */
static int target_of(const incast_t *in, int of)
{
    if (!in->pairs) {
        return of > 0 && of < size - in->pings ? 0 : -1;
    }
    return of % 2 == 0 && of + 1 < size ? of + 1 : -1;
}

/* `rates` has those of all ranks, 0 of those that do not send. */
static void report(const incast_t *in, const double *rates, const pings_t *pings)
{
    double sum = 0, least = 0, most = 0;
    int n = 0;

    for (int r = 0; r < size; r++) {
        if (target_of(in, r) >= 0) {
            sum += rates[r];
            least = n == 0 || rates[r] < least ? rates[r] : least;
            most = rates[r] > most ? rates[r] : most;
            n++;
        }
    }
    printf("incast bytes=%d senders=%d pairs=%d window=%d slow=%d MB/s=%.1f least=%.3f most=%.3f",
           in->bytes, n, in->pairs, in->window, in->slow_us, sum / 1e6, least * n / sum,
           most * n / sum);
    if (in->pings) {
        printf(" idle_p50=%.1f idle_p99=%.1f p50=%.1f p99=%.1f us", pings[0].p50, pings[0].p99,
               pings[1].p50, pings[1].p99);
    }
    printf("\n");
    fflush(stdout);
    if (least <= 0) {
        fail("a sender got nothing through");
    }
}

static void one_size(const incast_t *in)
{
    int *mine = get_memory(sizeof(int) * (size_t) size), n = 0;
    double *rates = get_memory(sizeof(double) * (size_t) size);
    double *own = get_memory(sizeof(double) * (size_t) size);
    pings_t pings[2]; /* alone, and beside the others */
    const int pings_here = in->pings && rank == size - 1;

    if (in->pings && rank == 0) {
        answer_pings();
    } else if (pings_here) {
        pings[0] = ping_for(1);
    }
    for (int r = 0; r < size; r++) {
        own[r] = 0;
        if (target_of(in, r) == rank) {
            mine[n++] = r;
        }
    }
    if (n > 0) {
        double *theirs = get_memory(sizeof(double) * (size_t) n);
        receive_all(in, mine, n, theirs);
        for (int i = 0; i < n; i++) {
            own[mine[i]] = theirs[i];
        }
        free(theirs);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        if (pings_here) {
            pings[1] = ping_for(0);
        } else if (target_of(in, rank) >= 0) {
            send_all(in, target_of(in, rank));
        }
    }
    if (in->pings) {
        MPI_Bcast(pings, sizeof(pings), MPI_BYTE, size - 1, MPI_COMM_WORLD);
    }
    MPI_Reduce(own, rates, size, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        report(in, rates, pings);
    }
    free(mine);
    free(rates);
    free(own);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "incast");
    need_ranks(2);
    const sizes_t sizes = arg_sizes(argc, argv, "65536");
    incast_t in = {
        .window = (int) arg(argc, argv, "window", 4),
        .slow_us = (int) arg(argc, argv, "slow", 0),
        .pairs = arg(argc, argv, "pairs", 0) != 0,
        .pings = arg(argc, argv, "pings", 0) != 0,
        .seconds = arg(argc, argv, "seconds", 3),
        .warmup = arg(argc, argv, "warmup", 0.5),
    };
    if (in.window < 1) {
        fail("window is at least 1");
    }
    if (in.pings && (in.pairs || size < 3)) {
        fail("pings=1 is for at least 3 ranks, and not for pairs");
    }
    for (int i = 0; i < sizes.count; i++) {
        in.bytes = sizes.bytes[i];
        in.pattern_bytes = (size_t) in.bytes + 8 * STARTS;
        one_size(&in);
    }
    finish();
    return 0;
}
