/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the floors share: programs that measure what bare sockets (floor.c) or bare queue pairs
 * (floor_verbs.c) can do between ranks 0 and 1, the floor under any transport that is made of them.
 * MPI only exchanges addresses and keeps the two in step. What is lost is not sent again: after a
 * silence the sender goes on behind it. Arguments:
 *
 *   what=latency     the first size that fits in one datagram: a send and a polling receive; longer
 *                    ones in segments, as by streaming
 *   what=rate        windows of 64 messages, answered by one datagram: the first leaves at once,
 *                    what queues behind it goes in as few datagrams and calls as can be
 *   what=streaming   bursts of segments with a header of 32 bytes each, one copy out of the receive
 *                    buffer, a window
 *   what=both-ways   streaming in both directions, the sum
 *   bytes=N[,N...]   (8) for streaming the memory that is gone through, as by stream
 *   seconds=S        (1) for each size
 *
 * A program that includes this says by the functions below what carries datagrams.
 */

#ifndef BTL_IB_TESTS_FLOOR_H
#define BTL_IB_TESTS_FLOOR_H

#include <sys/uio.h>

#include "figures.h"

enum {
    CALL_MAX = 65536,    /* bytes of one call */
    SEGMENTS_MAX = 64,   /* of one call */
    RATE_WINDOW = 64,    /* messages */
    END_SILENCE = 20000, /* us, then rank 1 asks whether it is enough */
    SAMPLES_MAX = 200000,
};

/* In front of each segment of a stream. */
typedef struct header {
    uint32_t message, length;
    uint64_t offset; /* of its payload in the stream */
    uint64_t ack;    /* end of what its sender received */
    uint64_t unused;
} header_t;
_Static_assert(sizeof(header_t) == 32, "the floor pays for 32 bytes a segment");

typedef struct flow {
    struct carrier *carrier;
    int datagram, burst;        /* bytes of a datagram, segments of a call */
    uint64_t window, ack_every; /* bytes on their way; between two acknowledgements */
    double silence;             /* us, then something was lost */
    unsigned char *out, *in;    /* user memory, `span` bytes each */
    unsigned char *hot;         /* what came last */
    size_t span;
    uint64_t sent, acked;           /* ends, in the stream we send */
    uint64_t received, told, taken; /* end, its last acknowledgement; bytes that came */
    uint32_t message, seen;         /* our number, the newest of the peer */
    double stalled;                 /* since when the window is closed, or 0 */
    uint32_t placed, placed_of;     /* bytes that came without a copy, their message */
} flow_t;

/* ---- the carrier ---- */

/* Opens what arguments ask for, connects it to the other rank, and fills in the first fields of a
 * flow. */
static void carrier_open(flow_t *flow, int argc, char **argv);
static void carrier_close(flow_t *flow);

/* There is user memory; it will be gone: what was sent has left, and nothing of this size reaches
 * the next one. */
static void carrier_use(flow_t *flow);
static void carrier_forget(flow_t *flow);

/* Bursts will be of datagrams of so many bytes, the last may be shorter: sets flow->burst. */
static void segment_by(flow_t *flow, int bytes);

/* Sends a burst of at most flow->burst datagrams, each of so many of the parts. */
static void send_burst(flow_t *flow, const struct iovec *parts, size_t count, size_t of_each);

/* Sends some of the next bytes of the stream, `left` at most, if the window is open. Returns how
 * many. */
static size_t send_next(flow_t *flow, size_t left);

/* Looks once. Returns how many bytes there are at flow->hot until the next look, or 0. What the
 * device put into user memory by itself is not there: flow->placed says how much, and of which
 * message. */
static int receive(flow_t *flow);

/* ---- segments ---- */

static double now_us(void)
{
    return 1e6 * seconds_now();
}

static void send_ack(flow_t *flow)
{
    header_t header = {.message = flow->message, .ack = flow->received, .offset = flow->sent};
    struct iovec part = {&header, sizeof(header)};

    flow->told = flow->received;
    send_burst(flow, &part, 1, 1);
}

/* send_next() of who has nothing better: a burst of segments, each behind a header. */
static size_t send_segments(flow_t *flow, size_t left)
{
    header_t headers[SEGMENTS_MAX];
    struct iovec parts[2 * SEGMENTS_MAX];
    size_t payload = (size_t) flow->datagram - sizeof(header_t), total = 0;
    int n = 0;

    for (; n < flow->burst && left > 0 && flow->sent - flow->acked < flow->window; n++) {
        size_t at = flow->sent % flow->span;
        size_t length = left < payload ? left : payload;
        length = flow->span - at < length ? flow->span - at : length;
        headers[n] = (header_t){.message = flow->message,
                                .length = (uint32_t) length,
                                .offset = flow->sent,
                                .ack = flow->received};
        parts[2 * n] = (struct iovec){&headers[n], sizeof(header_t)};
        parts[2 * n + 1] = (struct iovec){flow->out + at, length};
        flow->sent += length;
        total += length;
        left -= length;
        if (length < payload) {
            n++; /* only the last of a call may be short */
            break;
        }
    }
    if (n > 0) {
        flow->told = flow->received;
        send_burst(flow, parts, 2 * (size_t) n, 2);
    }
    return total;
}

/* After a silence what is on its way counts as lost. */
static void look_at_window(flow_t *flow)
{
    if (flow->sent - flow->acked < flow->window) {
        flow->stalled = 0;
    } else if (flow->stalled == 0) {
        flow->stalled = now_us();
    } else if (now_us() - flow->stalled > flow->silence) {
        flow->acked = flow->sent;
        flow->stalled = 0;
    }
}

/* Something of that message came; returns 0 if it is late, of one that was given up. */
static int of_message(flow_t *flow, uint32_t message)
{
    if (message != flow->seen) {
        if ((int32_t) (message - flow->seen) < 0) {
            return 0;
        }
        flow->seen = message;
        flow->taken = 0;
    }
    return 1;
}

static void count_in(flow_t *flow, uint64_t end, uint32_t length)
{
    flow->taken += length;
    flow->received = end > flow->received ? end : flow->received;
}

static void take_segment(flow_t *flow, const header_t *header, const unsigned char *payload)
{
    if (header->ack > flow->acked && header->ack <= flow->sent) {
        flow->acked = header->ack;
    }
    if (of_message(flow, header->message) && header->length > 0) {
        memcpy(flow->in + header->offset % flow->span, payload, header->length);
        count_in(flow, header->offset + header->length, header->length);
    }
}

/* One look: all segments of what came, and an acknowledgement if one is due. Returns whether
 * something came. */
static int take_in(flow_t *flow)
{
    int n = receive(flow);
    uint32_t placed = flow->placed;

    if (placed > 0) {
        flow->placed = 0;
        if (of_message(flow, flow->placed_of)) {
            count_in(flow, flow->received + placed, placed);
        }
    }
    for (int at = 0; at + (int) sizeof(header_t) <= n;) {
        header_t header;
        memcpy(&header, flow->hot + at, sizeof(header));
        at += (int) sizeof(header);
        if (header.length > (uint32_t) (n - at)
            || header.offset % flow->span + header.length > flow->span) {
            break; /* not ours */
        }
        take_segment(flow, &header, flow->hot + at);
        at += (int) header.length;
    }
    if (flow->received - flow->told >= flow->ack_every) {
        send_ack(flow);
    }
    return n > 0 || placed > 0;
}

/* ---- the end of a size ---- */

/* Rank 1 answers until rank 0 tells it by MPI that it is enough; it only looks when all is
 * silent. */
typedef struct end {
    MPI_Request request;
    double heard;
} end_t;

static void end_await(end_t *end)
{
    MPI_Irecv(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &end->request);
    end->heard = now_us();
}

static int ended(end_t *end, int something)
{
    int done = 0;

    if (something) {
        end->heard = now_us();
    } else if (now_us() - end->heard > END_SILENCE) {
        MPI_Test(&end->request, &done, MPI_STATUS_IGNORE);
    }
    return done;
}

static void end_tell(void)
{
    MPI_Send(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
}

/* ---- latency of what fits in one datagram: nothing but sending and receiving ---- */

static void echo_datagrams(flow_t *flow, int bytes)
{
    struct iovec part = {flow->out, (size_t) bytes};
    end_t end;
    int n;

    end_await(&end);
    do {
        n = receive(flow);
        if (n == bytes) {
            memcpy(flow->out, flow->hot, bytes < 8 ? (size_t) bytes : 8);
            send_burst(flow, &part, 1, 1);
        }
    } while (!ended(&end, n > 0));
}

/* One-way microseconds, or 0 if it was lost. */
static double ping_datagram(flow_t *flow, int bytes, uint64_t number)
{
    size_t named = bytes < 8 ? (size_t) bytes : 8;
    struct iovec part = {flow->out, (size_t) bytes};
    double begun = now_us();

    memcpy(flow->out, &number, named);
    send_burst(flow, &part, 1, 1);
    for (;;) {
        int n = receive(flow);
        if (n == bytes && memcmp(flow->hot, &number, named) == 0) {
            return 0.5 * (now_us() - begun);
        }
        if (n == 0 && now_us() - begun > flow->silence) {
            return 0;
        }
    }
}

/* ---- latency of longer messages ---- */

/* The next message, all of it; 0 if its sender stalled. */
static int send_message(flow_t *flow, size_t bytes)
{
    while (bytes > 0) {
        bytes -= send_next(flow, bytes);
        if (bytes > 0 && flow->sent - flow->acked >= flow->window) {
            take_in(flow);
            double stalled = flow->stalled;
            look_at_window(flow);
            if (stalled > 0 && flow->stalled == 0 && flow->acked == flow->sent) {
                return 0;
            }
        }
    }
    return 1;
}

static void echo_messages(flow_t *flow, uint64_t bytes)
{
    end_t end;
    int something;

    end_await(&end);
    do {
        something = take_in(flow);
        if (flow->seen != flow->message && flow->taken >= bytes) {
            flow->message = flow->seen;
            flow->acked = flow->sent; /* whatever became of the answer before */
            send_message(flow, bytes);
        }
    } while (!ended(&end, something));
}

static double ping_message(flow_t *flow, uint64_t bytes)
{
    double begun = now_us();

    flow->message++;
    flow->acked = flow->sent; /* whatever became of the one before */
    if (!send_message(flow, bytes)) {
        return 0;
    }
    while (flow->seen != flow->message || flow->taken < bytes) {
        if (!take_in(flow) && now_us() - begun > flow->silence + 0.01 * (double) bytes) {
            return 0;
        }
    }
    return 0.5 * (now_us() - begun);
}

static void latency(flow_t *flow, int bytes, double seconds)
{
    int whole = bytes <= flow->datagram;

    segment_by(flow, flow->datagram);
    if (rank == 1) {
        if (whole) {
            echo_datagrams(flow, bytes);
        } else {
            echo_messages(flow, (uint64_t) bytes);
        }
        return;
    }
    double *us = get_memory(sizeof(*us) * SAMPLES_MAX), begun = seconds_now(), now = begun;
    int n = 0;
    for (uint64_t i = 1; n < SAMPLES_MAX && (now = seconds_now()) - begun < 1.25 * seconds; i++) {
        double took = whole ? ping_datagram(flow, bytes, i) : ping_message(flow, (uint64_t) bytes);
        if (took > 0 && now - begun > 0.25 * seconds) {
            us[n++] = took;
        }
    }
    end_tell();
    if (n > 0) {
        print_latency(bytes, us, n);
    }
    free(us);
}

/* ---- small messages ---- */

/* A datagram of the rate test: a header, then messages, each behind 8 bytes of its own. */
static size_t pack(flow_t *flow, unsigned char *at, uint32_t window, int first, int count,
                   int bytes)
{
    header_t header = {.message = window, .length = (uint32_t) count, .offset = (uint64_t) first};
    unsigned char *to = at + sizeof(header);

    memcpy(at, &header, sizeof(header));
    for (int i = first; i < first + count; i++, to += 8 + bytes) {
        memcpy(to, &bytes, sizeof(bytes));
        memcpy(to + 8, flow->out + (size_t) i * (size_t) bytes, (size_t) bytes);
    }
    return (size_t) (to - at);
}

/* The messages of a window from `first` on, as few calls as can be; `each` fit in a datagram. */
static void send_packed(flow_t *flow, uint32_t window, int first, int each, int bytes)
{
    static unsigned char stage[CALL_MAX];
    struct iovec parts[SEGMENTS_MAX];

    while (first < RATE_WINDOW) {
        size_t length = 0, n = 0;
        for (; n < (size_t) flow->burst && first < RATE_WINDOW; n++) {
            int count = RATE_WINDOW - first < each ? RATE_WINDOW - first : each;
            parts[n].iov_base = stage + length;
            parts[n].iov_len = pack(flow, stage + length, window, first, count, bytes);
            length += parts[n].iov_len;
            first += count;
        }
        send_burst(flow, parts, n, 1);
    }
}

/* Returns 0 if no answer came. */
static int one_window(flow_t *flow, uint32_t window, int each, int bytes)
{
    unsigned char first[CALL_MAX];
    struct iovec part = {first, pack(flow, first, window, 0, 1, bytes)};

    send_burst(flow, &part, 1, 1);
    send_packed(flow, window, 1, each, bytes);
    for (double begun = now_us(); now_us() - begun < flow->silence;) {
        if (receive(flow) == 8 && memcmp(flow->hot, &window, sizeof(window)) == 0) {
            return 1;
        }
    }
    return 0;
}

static void unpack(flow_t *flow, int length, int bytes)
{
    header_t header;
    int at = 0;

    while (at + (int) sizeof(header) <= length) {
        memcpy(&header, flow->hot + at, sizeof(header));
        at += (int) sizeof(header);
        if (header.message != flow->seen) {
            flow->seen = header.message;
            flow->taken = 0;
        }
        for (uint32_t i = 0; i < header.length && at + 8 + bytes <= length; i++, at += 8 + bytes) {
            memcpy(flow->in + flow->taken % RATE_WINDOW * (size_t) bytes, flow->hot + at + 8,
                   (size_t) bytes);
            flow->taken++;
        }
    }
}

static void answer_windows(flow_t *flow, int bytes)
{
    uint64_t answer;
    end_t end;
    int n;

    end_await(&end);
    do {
        n = receive(flow);
        unpack(flow, n, bytes);
        if (n > 0 && flow->taken == RATE_WINDOW) {
            answer = flow->seen;
            struct iovec part = {&answer, sizeof(answer)};
            send_burst(flow, &part, 1, 1);
        }
    } while (!ended(&end, n > 0));
}

static void rate(flow_t *flow, int bytes, double seconds)
{
    int each = (flow->datagram - (int) sizeof(header_t)) / (8 + bytes);

    if (each < 1) {
        return; /* no small messages, see streaming */
    }
    each = each < RATE_WINDOW - 1 ? each : RATE_WINDOW - 1;
    segment_by(flow, (int) sizeof(header_t) + each * (8 + bytes));
    if (rank == 1) {
        answer_windows(flow, bytes);
        return;
    }
    double begun = seconds_now(), now = begun, from = 0;
    long windows = 0;
    for (uint32_t i = 1; (now = seconds_now()) - begun < 1.1 * seconds; i++) {
        if (from == 0 && now - begun > 0.1 * seconds) {
            from = now;
            windows = 0;
        }
        windows += one_window(flow, i, each, bytes);
    }
    end_tell();
    printf("%s bytes=%d messages/s=%.0f\n", program, bytes,
           (double) windows * RATE_WINDOW / (now - from));
    fflush(stdout);
}

/* ---- streams ---- */

/* Counts what it receives itself between a tenth of `seconds` and its end. */
static void stream(flow_t *flow, int bytes, double seconds, int both)
{
    double begun = seconds_now(), now = begun, from = 0, mine, sum;
    uint64_t before = 0;
    int sends = rank == 0 || both;

    if (bytes < flow->datagram / 2) {
        return; /* that is a question of how small messages are packed, see rate */
    }
    segment_by(flow, flow->datagram);
    while ((now = seconds_now()) - begun < 1.1 * seconds) {
        if (from == 0 && now - begun > 0.1 * seconds) {
            from = now;
            before = flow->taken;
        }
        if (sends) {
            send_next(flow, SIZE_MAX);
            look_at_window(flow);
        }
        take_in(flow);
    }
    mine = (double) (flow->taken - before) / (now - from) / 1e9;
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s bytes=%d both=%d GB/s=%.6f\n", program, bytes, both, sum);
        fflush(stdout);
    }
}

static void one_size(flow_t *flow, const char *what, int bytes, double seconds)
{
    flow->sent = flow->acked = flow->received = flow->told = flow->taken = 0;
    flow->message = flow->seen = 0;
    flow->stalled = 0;
    flow->span = (size_t) bytes * (size_t) window_of(0, bytes);
    flow->out = get_memory(flow->span);
    flow->in = get_memory(flow->span);
    memset(flow->out, 1, flow->span);
    memset(flow->in, 2, flow->span);
    carrier_use(flow);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(what, "latency") == 0) {
        latency(flow, bytes, seconds);
    } else if (strcmp(what, "rate") == 0) {
        rate(flow, bytes, seconds);
    } else {
        stream(flow, bytes, seconds, strcmp(what, "both-ways") == 0);
    }
    carrier_forget(flow);
    free(flow->out);
    free(flow->in);
}

/* The program: rank 0 prints a line of figures for each size. */
static void measure(int argc, char **argv, const char *name)
{
    begin(&argc, &argv, name);
    if (size != 2) {
        fail("needs 2 ranks");
    }
    const char *what = arg_text(argc, argv, "what", "latency");
    sizes_t sizes = arg_sizes(argc, argv, "8");
    double seconds = arg(argc, argv, "seconds", 1);
    if (strcmp(what, "latency") != 0 && strcmp(what, "rate") != 0 && strcmp(what, "streaming") != 0
        && strcmp(what, "both-ways") != 0) {
        fail("what=%s: latency, rate, streaming or both-ways", what);
    }
    flow_t flow;

    memset(&flow, 0, sizeof(flow));
    carrier_open(&flow, argc, argv);
    for (int i = 0; i < sizes.count; i++) {
        one_size(&flow, what, sizes.bytes[i], seconds);
    }
    carrier_close(&flow);
    finish();
}

#endif
