/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Random sizes between random pairs, non-blocking, several tags; part of the receives is posted
 * before the sends and part after them, so that messages are expected and unexpected. seed=N (1),
 * rounds=N (12), seconds=S (0): instead of rounds, messages=N (32) a round, max=BYTES (4 MiB)
 */

#include "common.h"

typedef struct message {
    int from, to, tag;
    size_t bytes;
    uint64_t seed;
    unsigned char *buffer; /* only if this rank receives it, or sends it */
} message_t;

static void post(message_t *m, int receive, MPI_Request *request)
{
    m->buffer = get_memory(m->bytes);
    if (receive) {
        memset(m->buffer, 0, m->bytes);
        MPI_Irecv(m->buffer, (int) m->bytes, MPI_BYTE, m->from, m->tag, MPI_COMM_WORLD, request);
    } else {
        pattern_fill(m->buffer, m->bytes, m->seed);
        MPI_Isend(m->buffer, (int) m->bytes, MPI_BYTE, m->to, m->tag, MPI_COMM_WORLD, request);
    }
}

static void wait_and_check(message_t **pending, MPI_Request *requests, int count)
{
    for (int left = count; left > 0; left--) {
        int index, bytes;
        MPI_Status status;
        MPI_Waitany(count, requests, &index, &status);
        message_t *m = pending[index];
        if (m->to == rank) {
            MPI_Get_count(&status, MPI_BYTE, &bytes);
            if ((size_t) bytes != m->bytes || status.MPI_SOURCE != m->from
                || status.MPI_TAG != m->tag) {
                fail("got %d bytes from %d with tag %d, expected %zu from %d with tag %d", bytes,
                     status.MPI_SOURCE, status.MPI_TAG, m->bytes, m->from, m->tag);
            }
            pattern_check(m->buffer, m->bytes, m->seed, "randsize");
        }
        free(m->buffer);
    }
}

/* All ranks draw the same list. One order of posting for both sides, so that messages with the
 * same source and tag match in order. */
static void one_round(uint64_t *state, int messages, size_t max)
{
    message_t *list = get_memory(sizeof(*list) * (size_t) messages);
    message_t **pending = get_memory(sizeof(*pending) * (size_t) messages);
    MPI_Request *requests = get_memory(sizeof(*requests) * (size_t) messages);
    int count = 0;

    for (int i = 0; i < messages; i++) {
        message_t *m = &list[i];
        m->from = (int) random_below(state, (uint64_t) size);
        m->to = (m->from + 1 + (int) random_below(state, (uint64_t) size - 1)) % size;
        m->tag = (int) random_below(state, 5);
        m->bytes = random_size(state, max);
        m->seed = random_next(state);
    }
    for (int pass = 0; pass < 3; pass++) {
        for (int i = 0; i < messages; i++) {
            message_t *m = &list[i];
            int receive = m->to == rank;
            int wanted = pass == 1 ? m->from == rank : receive && (m->tag < 3) == (pass == 0);
            if (wanted) {
                pending[count] = m;
                post(m, receive, &requests[count++]);
            }
        }
    }
    wait_and_check(pending, requests, count);
    free(list);
    free(pending);
    free(requests);
}

/* Is there another round? All ranks agree. */
static int goes_on(int round, int rounds, double until)
{
    int on = round < rounds;

    if (until > 0) {
        on = seconds_now() < until;
        MPI_Bcast(&on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return on;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "randsize");
    need_ranks(2);
    uint64_t state = (uint64_t) arg(argc, argv, "seed", 1);
    int rounds = (int) arg(argc, argv, "rounds", 12);
    int messages = (int) arg(argc, argv, "messages", 32);
    size_t max = (size_t) arg(argc, argv, "max", 4194304);
    const double seconds = arg(argc, argv, "seconds", 0);
    const double until = seconds > 0 ? seconds_now() + seconds : 0;

    for (int round = 0; goes_on(round, rounds, until); round++) {
        one_round(&state, messages, max);
    }
    finish();
    return 0;
}
