/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Measures what bare UDP sockets can do between ranks 0 and 1: the floor under any transport that is
 * made of them. MPI only exchanges addresses and keeps the two in step. What is lost is not sent
 * again: after a silence the sender goes on behind it.
 * what=latency     the first size that fits in one datagram: send() and polling recv(), nothing else;
 *                  longer ones in segments, as by streaming
 * what=rate        windows of 64 messages, answered by one datagram: the first message leaves at once,
 *                  what queues behind it goes together in as few datagrams and calls as can be
 * what=streaming   UDP_SEGMENT and UDP_GRO (one datagram a call without them), a header of 32 bytes in
 *                  each segment, one copy out of the receive buffer, a window of 256 KiB
 * what=both-ways   streaming in both directions, the sum
 * bytes=N[,N...] (8; for streaming the memory that is gone through, as by stream), seconds=S for each
 * size (1), net=NAME, ADDRESS or NETWORK (10.1.0.0/16): which interface (the first that is up)
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "figures.h"

enum {
    BURST_MAX = 65507,    /* bytes of one call, UDP's largest datagram */
    SEGMENTS_MAX = 64,    /* of one call: UDP_MAX_SEGMENTS of Linux */
    WINDOW = 256 << 10,   /* bytes on their way */
    ACK_EVERY = 64 << 10, /* bytes */
    RATE_WINDOW = 64,     /* messages */
    SILENCE_US = 20000,   /* then something was lost */
    SAMPLES_MAX = 200000,
};

/* In front of each segment of a stream. */
typedef struct header {
    uint32_t message, length;
    uint64_t offset; /* of its payload in the stream */
    uint64_t ack;    /* end of what its sender received */
    uint64_t unused;
} header_t;
_Static_assert(32 == sizeof(header_t), "the floor pays for 32 bytes a segment");

typedef struct flow {
    int fd, datagram, burst; /* bytes of a datagram, segments of a call */
    unsigned char *out, *in; /* user memory, `span` bytes each */
    size_t span;
    uint64_t sent, acked;           /* ends, in the stream we send */
    uint64_t received, told, taken; /* end, its last acknowledgement; bytes that came */
    uint32_t message, seen;         /* our number, the newest of the peer */
    double stalled;                 /* since when the window is closed, or 0 */
    unsigned char hot[65536];
} flow_t;

static double now_us(void)
{
    return 1e6 * seconds_now();
}

/* Is this address of that interface what `net` asks for? */
static int wanted(const char *net, const char *name, struct in_addr address)
{
    char text[64];
    int bits = 32;
    struct in_addr net_address;

    if ('\0' == net[0] || 0 == strcmp(net, name)) {
        return 1;
    }
    snprintf(text, sizeof(text), "%s", net);
    char *slash = strchr(text, '/');
    if (NULL != slash) {
        bits = atoi(slash + 1);
        *slash = '\0';
    }
    if (1 != inet_pton(AF_INET, text, &net_address) || bits < 0 || bits > 32) {
        return 0;
    }
    uint32_t mask = 0 == bits ? 0 : UINT32_MAX << (32 - bits);
    return 0 == ((ntohl(address.s_addr) ^ ntohl(net_address.s_addr)) & mask);
}

/* Of the interfaces that are up and wanted the first, loopback only if there is no other. */
static struct sockaddr_in own_address(const char *net)
{
    struct ifaddrs *all, *one;
    struct sockaddr_in address, found = {.sin_family = AF_UNSPEC};
    int found_loopback = 1;

    if (0 != getifaddrs(&all)) {
        fail("getifaddrs: %s", strerror(errno));
    }
    for (one = all; NULL != one && found_loopback; one = one->ifa_next) {
        if (NULL == one->ifa_addr || AF_INET != one->ifa_addr->sa_family
            || !(one->ifa_flags & IFF_UP)) {
            continue;
        }
        memcpy(&address, one->ifa_addr, sizeof(address));
        if (wanted(net, one->ifa_name, address.sin_addr)) {
            found = address;
            found_loopback = 0 != (one->ifa_flags & IFF_LOOPBACK);
        }
    }
    freeifaddrs(all);
    if (AF_UNSPEC == found.sin_family) {
        fail("no interface that is up has an IPv4 address%s%s", net[0] ? " and is net=" : "", net);
    }
    found.sin_port = 0;
    return found;
}

/* A socket connected to the other rank's. */
static void connect_them(flow_t *flow, const char *net)
{
    struct sockaddr_in own = own_address(net), peer;
    socklen_t length = sizeof(own);
    int mtu, on = 1, discover = IP_PMTUDISC_DO;

    flow->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (flow->fd < 0 || 0 != bind(flow->fd, (struct sockaddr *) &own, sizeof(own))
        || 0 != getsockname(flow->fd, (struct sockaddr *) &own, &length)) {
        fail("a socket at %s: %s", inet_ntoa(own.sin_addr), strerror(errno));
    }
    MPI_Sendrecv(&own, sizeof(own), MPI_BYTE, 1 - rank, 1, &peer, sizeof(peer), MPI_BYTE, 1 - rank,
                 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    length = sizeof(mtu);
    if (0 != connect(flow->fd, (struct sockaddr *) &peer, sizeof(peer))
        || 0 != getsockopt(flow->fd, IPPROTO_IP, IP_MTU, &mtu, &length)) {
        fail("to %s: %s", inet_ntoa(peer.sin_addr), strerror(errno));
    }
    setsockopt(flow->fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
    setsockopt(flow->fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
    flow->datagram = mtu - 28 < BURST_MAX ? mtu - 28 : BURST_MAX;
}

/* Datagrams of so many bytes each will leave by calls for up to flow->burst of them. */
static void segment_by(flow_t *flow, int bytes)
{
    flow->burst = BURST_MAX / bytes < SEGMENTS_MAX ? BURST_MAX / bytes : SEGMENTS_MAX;
    if (0 != setsockopt(flow->fd, IPPROTO_UDP, UDP_SEGMENT, &bytes, sizeof(bytes))) {
        flow->burst = 1;
    }
}

/* Sends it as a whole, in segments; what the kernel has no room for is tried again. */
static void send_all(flow_t *flow, const struct iovec *parts, size_t count)
{
    struct msghdr message = {.msg_iov = (struct iovec *) parts, .msg_iovlen = count};

    while (sendmsg(flow->fd, &message, 0) < 0) {
        if (EAGAIN != errno && ENOBUFS != errno && EINTR != errno) {
            fail("sendmsg: %s", strerror(errno));
        }
    }
}

/* What came, or 0 if nothing did. */
static int receive(flow_t *flow)
{
    ssize_t n = recv(flow->fd, flow->hot, sizeof(flow->hot), 0);
    if (n < 0 && EAGAIN != errno && EINTR != errno && ECONNREFUSED != errno) {
        fail("recv: %s", strerror(errno));
    }
    return n < 0 ? 0 : (int) n;
}

static void send_ack(flow_t *flow)
{
    header_t header = {.message = flow->message, .ack = flow->received, .offset = flow->sent};
    struct iovec part = {&header, sizeof(header)};

    flow->told = flow->received;
    send_all(flow, &part, 1);
}

/* Sends a burst of the next bytes of the stream, `left` at most, if the window is open. */
static size_t send_burst(flow_t *flow, size_t left)
{
    header_t headers[SEGMENTS_MAX];
    struct iovec parts[2 * SEGMENTS_MAX];
    size_t payload = (size_t) flow->datagram - sizeof(header_t), total = 0;
    int n = 0;

    for (; n < flow->burst && left > 0 && flow->sent - flow->acked < WINDOW; n++) {
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
        send_all(flow, parts, 2 * (size_t) n);
    }
    return total;
}

/* After a silence what is on its way counts as lost. */
static void look_at_window(flow_t *flow)
{
    if (flow->sent - flow->acked < WINDOW) {
        flow->stalled = 0;
    } else if (0 == flow->stalled) {
        flow->stalled = now_us();
    } else if (now_us() - flow->stalled > SILENCE_US) {
        flow->acked = flow->sent;
        flow->stalled = 0;
    }
}

static void take_segment(flow_t *flow, const header_t *header, const unsigned char *payload)
{
    if (header->ack > flow->acked && header->ack <= flow->sent) {
        flow->acked = header->ack;
    }
    if (header->message != flow->seen) {
        if ((int32_t) (header->message - flow->seen) < 0) {
            return; /* late, of a message that was given up */
        }
        flow->seen = header->message;
        flow->taken = 0;
    }
    if (header->length > 0) {
        memcpy(flow->in + header->offset % flow->span, payload, header->length);
        flow->taken += header->length;
        uint64_t end = header->offset + header->length;
        flow->received = end > flow->received ? end : flow->received;
    }
}

/* One look at the socket: all segments of what came, and an acknowledgement if one is due. */
static int take_in(flow_t *flow)
{
    int n = receive(flow);

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
    if (flow->received - flow->told >= ACK_EVERY) {
        send_ack(flow);
    }
    return n > 0;
}

/* Rank 1 answers until rank 0 tells it by MPI that it is enough; it only looks when all is silent. */
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
    } else if (now_us() - end->heard > SILENCE_US) {
        MPI_Test(&end->request, &done, MPI_STATUS_IGNORE);
    }
    return done;
}

static void end_tell(void)
{
    MPI_Send(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
}

/* ---- latency of what fits in one datagram: nothing but send() and recv() ---- */

static void echo_datagrams(flow_t *flow, int bytes)
{
    end_t end;
    int n;

    end_await(&end);
    do {
        n = receive(flow);
        if (n == bytes) {
            struct iovec part = {flow->hot, (size_t) n};
            send_all(flow, &part, 1);
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
    send_all(flow, &part, 1);
    for (;;) {
        int n = receive(flow);
        if (n == bytes && 0 == memcmp(flow->hot, &number, named)) {
            return 0.5 * (now_us() - begun);
        }
        if (0 == n && now_us() - begun > SILENCE_US) {
            return 0;
        }
    }
}

/* ---- latency of longer messages ---- */

/* The next message, all of it; 0 if its sender stalled. */
static int send_message(flow_t *flow, size_t bytes)
{
    while (bytes > 0) {
        bytes -= send_burst(flow, bytes);
        if (bytes > 0 && flow->sent - flow->acked >= WINDOW) {
            take_in(flow);
            double stalled = flow->stalled;
            look_at_window(flow);
            if (stalled > 0 && 0 == flow->stalled && flow->acked == flow->sent) {
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
        if (!take_in(flow) && now_us() - begun > SILENCE_US + 0.01 * (double) bytes) {
            return 0;
        }
    }
    return 0.5 * (now_us() - begun);
}

static void latency(flow_t *flow, int bytes, double seconds)
{
    int whole = bytes <= flow->datagram;

    segment_by(flow, flow->datagram);
    if (1 == rank) {
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
    static unsigned char stage[65536];

    while (first < RATE_WINDOW) {
        size_t length = 0;
        for (int n = 0; n < flow->burst && first < RATE_WINDOW; n++) {
            int count = RATE_WINDOW - first < each ? RATE_WINDOW - first : each;
            length += pack(flow, stage + length, window, first, count, bytes);
            first += count;
        }
        struct iovec part = {stage, length};
        send_all(flow, &part, 1);
    }
}

/* Returns 0 if no answer came. */
static int one_window(flow_t *flow, uint32_t window, int each, int bytes)
{
    unsigned char first[65536];
    struct iovec part = {first, pack(flow, first, window, 0, 1, bytes)};

    send_all(flow, &part, 1);
    send_packed(flow, window, 1, each, bytes);
    for (double begun = now_us(); now_us() - begun < SILENCE_US;) {
        if (receive(flow) == 8 && 0 == memcmp(flow->hot, &window, sizeof(window))) {
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
        if (n > 0 && RATE_WINDOW == flow->taken) {
            answer = flow->seen;
            struct iovec part = {&answer, sizeof(answer)};
            send_all(flow, &part, 1);
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
    if (1 == rank) {
        answer_windows(flow, bytes);
        return;
    }
    double begun = seconds_now(), now = begun, from = 0;
    long windows = 0;
    for (uint32_t i = 1; (now = seconds_now()) - begun < 1.1 * seconds; i++) {
        if (0 == from && now - begun > 0.1 * seconds) {
            from = now;
            windows = 0;
        }
        windows += one_window(flow, i, each, bytes);
    }
    end_tell();
    printf("floor bytes=%d messages/s=%.0f\n", bytes,
           (double) windows * RATE_WINDOW / (now - from));
    fflush(stdout);
}

/* ---- streams ---- */

/* Counts what it receives itself between a tenth of `seconds` and its end. */
static void stream(flow_t *flow, int bytes, double seconds, int both)
{
    double begun = seconds_now(), now = begun, from = 0, mine, sum;
    uint64_t before = 0;
    int sends = 0 == rank || both;

    if (bytes < flow->datagram / 2) {
        return; /* that is a question of how small messages are packed, see rate */
    }
    segment_by(flow, flow->datagram);
    while ((now = seconds_now()) - begun < 1.1 * seconds) {
        if (0 == from && now - begun > 0.1 * seconds) {
            from = now;
            before = flow->taken;
        }
        if (sends) {
            send_burst(flow, SIZE_MAX);
            look_at_window(flow);
        }
        take_in(flow);
    }
    mine = (double) (flow->taken - before) / (now - from) / 1e9;
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (0 == rank) {
        printf("floor bytes=%d both=%d GB/s=%.6f\n", bytes, both, sum);
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
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == strcmp(what, "latency")) {
        latency(flow, bytes, seconds);
    } else if (0 == strcmp(what, "rate")) {
        rate(flow, bytes, seconds);
    } else {
        stream(flow, bytes, seconds, 0 == strcmp(what, "both-ways"));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    while (receive(flow) > 0) {
        /* nothing of this size may reach the next one */
    }
    free(flow->out);
    free(flow->in);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "floor");
    if (2 != size) {
        fail("needs 2 ranks");
    }
    const char *what = arg_text(argc, argv, "what", "latency");
    sizes_t sizes = arg_sizes(argc, argv, "8");
    double seconds = arg(argc, argv, "seconds", 1);
    if (0 != strcmp(what, "latency") && 0 != strcmp(what, "rate") && 0 != strcmp(what, "streaming")
        && 0 != strcmp(what, "both-ways")) {
        fail("what=%s: latency, rate, streaming or both-ways", what);
    }
    flow_t *flow = get_memory(sizeof(*flow));

    memset(flow, 0, sizeof(*flow));
    connect_them(flow, arg_text(argc, argv, "net", ""));
    for (int i = 0; i < sizes.count; i++) {
        one_size(flow, what, sizes.bytes[i], seconds);
    }
    close(flow->fd);
    free(flow);
    finish();
    return 0;
}
