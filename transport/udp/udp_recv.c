/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_recv.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Bytes. If messages are shorter than this on average, one call that fills several buffers is
 * cheaper than several calls, even if the buffers are in no cache. */
enum { SHORT = 8192 };

/* ---- buffers ---- */

static btl_ib_udp_buffer_t *buffer_get(btl_ib_udp_rx_t *rx)
{
    btl_ib_udp_buffer_t *buffer = rx->free;

    if (buffer != NULL) {
        rx->free = buffer->next;
        return buffer;
    }
    if (rx->buffers == BTL_IB_UDP_BUFFERS_MAX) {
        return NULL;
    }
    buffer = aligned_alloc(_Alignof(btl_ib_udp_buffer_t), sizeof(*buffer));
    if (buffer != NULL) {
        buffer->next_made = rx->made;
        rx->made = buffer;
        rx->buffers++;
    }
    return buffer;
}

/* Frees a buffer. The one freed last is used next: it is in the cache. */
static void buffer_put(btl_ib_udp_rx_t *rx, btl_ib_udp_buffer_t *buffer)
{
    buffer->next = rx->free;
    rx->free = buffer;
}

void btl_ib_udp_recv_repost(btl_ib_udp_rx_t *rx, void *const *buffers, int n)
{
    for (int i = 0; i < n; i++) {
        btl_ib_udp_buffer_t *buffer = buffers[i];
        if (--buffer->users == 0) {
            buffer_put(rx, buffer);
        }
    }
}

void btl_ib_udp_rx_free(btl_ib_udp_rx_t *rx)
{
    while (rx->made != NULL) {
        btl_ib_udp_buffer_t *buffer = rx->made;
        rx->made = buffer->next_made;
        free(buffer);
    }
}

/* ---- messages that arrived ---- */

/* Moves the datagrams of a joined message apart, so that each starts at a multiple of 8. They have
 * `size` bytes each and lie one after the other up to `end`. Returns the distance from one to the
 * next. */
static uint32_t burst_align(uint8_t *data, uint32_t size, uint32_t end)
{
    const uint32_t stride = (size + 7) & ~7u;
    const uint32_t count = (end + size - 1) / size;

    if (stride != size) {
        for (uint32_t i = count - 1; i > 0; i--) { /* from the last one, to overwrite none */
            const uint32_t at = i * size;
            memmove(data + i * stride, data + at, end - at < size ? end - at : size);
        }
    }
    return stride;
}

/* True if the datagrams of a joined message fit the buffer when they are moved apart. They do if
 * the kernel joined them: it joins at most 64, newer kernels 128. But a guest or a tunnel may claim
 * anything. */
static bool burst_fits_apart(uint32_t size, uint32_t len)
{
    const uint64_t stride = ((uint64_t) size + 7) & ~UINT64_C(7);

    return ((uint64_t) len + size - 1) / size * stride <= BTL_IB_UDP_BUFFER;
}

/* Counts datagrams for which the receive buffer had no room; `count` is the kernel's counter. Logs
 * the first time only, as what was lost is sent again. */
static void recv_note_overflows(btl_ib_udp_rx_t *rx, const btl_ib_udp_sockets_t *sockets,
                                uint32_t index, uint32_t count)
{
    const uint32_t more = count - rx->overflows_of[index];

    if (more > 0 && rx->base->overflows == 0) {
        BTL_IB_UDP_LOG(rx->log, 1,
                       "the system dropped %u datagrams, because a receive buffer of %u bytes was "
                       "full: they come again. btl_ib_socket_buffer asks for a larger one, up to "
                       "net.core.rmem_max",
                       more, sockets->buffer_bytes / 2);
    }
    rx->base->overflows += more;
    rx->overflows_of[index] = count;
}

/* Counts a dropped burst of `len` bytes. Logs the first one at level 1, later ones at level 10. */
__attribute__((noinline)) static void burst_drop(btl_ib_udp_rx_t *rx, uint32_t size, uint32_t len)
{
    rx->base->broken_bursts++;
    BTL_IB_UDP_LOG(rx->log, rx->base->broken_bursts == 1 ? 1 : 10,
                   "a message of %u bytes that the system joined from datagrams of %u bytes "
                   "(UDP_GRO) cannot be taken apart, and is dropped (%llu so far): a driver, a "
                   "tunnel or a virtual machine joins wrongly. Do: ethtool -K <interface> gro off",
                   len, size, (unsigned long long) rx->base->broken_bursts);
}

/* What the kernel's control messages say about a message. */
typedef struct notes {
    uint32_t size; /* of each of the datagrams that were joined; 0: there is only one */
    uint32_t overflows;
    bool overflowed; /* `overflows` is set */
    uint8_t
        codepoint; /* of ECN, of the first datagram: Linux before 5babae777c61 may join datagrams
                        * with different ones */
} notes_t;

static notes_t notes_read(struct msghdr *msg)
{
    notes_t notes = {0};

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
            int size;
            memcpy(&size, CMSG_DATA(c), sizeof(size));
            notes.size = size > 0 ? (uint32_t) size : 0;
        } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
            memcpy(&notes.overflows, CMSG_DATA(c), sizeof(notes.overflows));
            notes.overflowed = true;
        } else if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_TOS)
                   || (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_TCLASS)) {
            /* IPv4 passes a byte, IPv6 an int. */
            int value = *CMSG_DATA(c);
            if (c->cmsg_len >= CMSG_LEN(sizeof(value))) {
                memcpy(&value, CMSG_DATA(c), sizeof(value));
            }
            notes.codepoint = value & BTL_IB_CODEPOINT_CE;
        }
    }
    return notes;
}

/* Makes a message that arrived in `buffer` pending, or drops it. */
static void recv_arrived(btl_ib_udp_rx_t *rx, btl_ib_udp_sockets_t *sockets, uint32_t index,
                         btl_ib_udp_buffer_t *buffer, struct mmsghdr *msg)
{
    const btl_ib_udp_socket_t *socket = &sockets->socket[index];
    const uint32_t len = msg->msg_len;
    const notes_t notes = notes_read(&msg->msg_hdr);
    const uint32_t size = notes.size == 0 || notes.size > len ? len : notes.size;

    if (notes.overflowed) {
        recv_note_overflows(rx, sockets, index, notes.overflows);
    }
    if (len >= BTL_IB_ECT_LEAST && sockets->tells_codepoints != sockets->ecn) {
        btl_ib_udp_sockets_tell_codepoints(sockets);
    }
    rx->base->received_bursts += size < len;
    if (size < len && !burst_fits_apart(size, len)) {
        burst_drop(rx, size, len);
        buffer_put(rx, buffer);
        return;
    }
    if (len == 0 || size > rx->max_datagram || msg->msg_hdr.msg_flags & MSG_TRUNC) {
        rx->dropped++;
        BTL_IB_UDP_LOG(rx->log, 10,
                       "datagrams of %u bytes dropped: empty or too large (%llu so far)", size,
                       (unsigned long long) rx->dropped);
        buffer_put(rx, buffer);
        return;
    }
    btl_ib_udp_pending_t *pending =
        &rx->pending[(rx->pending_first + rx->pending_count++) % BTL_IB_UDP_RECV_BATCH];
    buffer->users = 1;
    buffer->name = btl_ib_udp_name_known(socket, msg->msg_hdr.msg_name);
    buffer->latency = socket->latency;
    buffer->codepoint = notes.codepoint;
    *pending = (btl_ib_udp_pending_t){.buffer = buffer, .end = len, .size = size, .stride = size};
    if (size < len) {
        const uint32_t count = (len + size - 1) / size;
        pending->stride = burst_align(buffer->data, size, len);
        pending->end = len + (count - 1) * (pending->stride - size);
    }
}

/* ---- receiving ---- */

/* Gives place `i` of the call a buffer. If none is left, place 0 takes one that an earlier, larger
 * call left in a later place. Returns whether the place has a buffer. */
static bool call_furnish(btl_ib_udp_rx_t *rx, uint32_t i)
{
    btl_ib_udp_recv_call_t *call = &rx->call;
    btl_ib_udp_buffer_t *buffer = buffer_get(rx);

    for (uint32_t j = 1; i == 0 && j < BTL_IB_UDP_RECV_BATCH && buffer == NULL; j++) {
        buffer = call->buffer[j];
        call->buffer[j] = NULL;
    }
    call->buffer[i] = buffer;
    if (buffer == NULL) {
        return false;
    }
    call->iov[i] = (struct iovec){.iov_base = buffer->data, .iov_len = BTL_IB_UDP_RECV_BYTES};
    call->msg[i].msg_hdr = (struct msghdr){
        .msg_name = &call->name[i],
        .msg_namelen = sizeof(call->name[i]),
        .msg_iov = &call->iov[i],
        .msg_iovlen = 1,
        .msg_control = call->control[i],
        .msg_controllen = sizeof(call->control[i]),
    };
    return true;
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    (void) clock_gettime(clock, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* ---- messages that stay in the buffer ---- */

enum {
    KEPT_LONG = 32768, /* bytes; shorter messages share memory with others, and are not kept */
    KEPT_SHORT = 8,    /* calls without a long message after which nothing is kept any more */
    KEPT_STEP = 4,     /* messages that one call takes out */
    EMPTY_LOOKS = 128, /* empty looks, some 40 us, after which nothing is kept any more */
    CROWD_EACH = 16,   /* long messages between two readings of the clock */
};

/* ns between two measurements: several time slices of the scheduler */
#define CROWD_NS UINT64_C(10000000)

/* Counts a long message, and now and then finds out whether this thread has a processor alone:
 * whether it got at least 31/32 of the time that passed. */
static void crowd_count(btl_ib_udp_crowd_t *crowd)
{
    if (crowd->messages++ % CROWD_EACH != 0) {
        return;
    }
    const uint64_t now = clock_ns(CLOCK_MONOTONIC);
    const uint64_t passed = now - crowd->at;
    if (crowd->at == 0 || passed >= CROWD_NS) {
        const uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        const bool same = crowd->at != 0 && pthread_equal(crowd->thread, pthread_self());
        crowd->alone = same && cpu >= crowd->cpu && cpu - crowd->cpu >= passed - passed / 32;
        crowd->thread = pthread_self();
        crowd->at = now;
        crowd->cpu = cpu;
    }
}

/* Handles a call that failed, but not because the socket is empty. */
__attribute__((noinline)) static void recv_failed(const btl_ib_udp_socket_t *socket, int error,
                                                  btl_ib_udp_errors_t *errors)
{
    if (error != EINTR) {
        btl_ib_udp_errors_called(errors, error);
        (void) btl_ib_udp_errors_read(errors, socket, BTL_IB_ADDR_UNKNOWN);
    }
}

/* Takes at most `most` messages out of a socket's buffer; or one, if the system refuses recvmmsg().
 * Returns how many, or -1 with errno. */
static int kept_take_out(const btl_ib_udp_socket_t *socket, uint32_t most)
{
    struct mmsghdr none[KEPT_STEP] = {{.msg_len = 0}};
    const int flags = MSG_DONTWAIT | MSG_TRUNC;
    const int got = recvmmsg(socket->fd, none, most, flags, NULL);

    if (got < 0 && btl_ib_udp_is_refusal(errno)) {
        return recvmsg(socket->fd, &none[0].msg_hdr, flags) < 0 ? -1 : 1;
    }
    return got;
}

/* Takes the oldest `n` messages out of a socket's buffer; fewer if a call fails. */
static void kept_release(btl_ib_udp_kept_t *kept, const btl_ib_udp_socket_t *socket, uint32_t n,
                         btl_ib_udp_errors_t *errors)
{
    int got = 1;

    for (uint32_t left = n; left > 0 && got > 0; left -= (uint32_t) got) {
        got = kept_take_out(socket, left < KEPT_STEP ? left : KEPT_STEP);
        if (got < 0) {
            recv_failed(socket, errno, errors);
            break;
        }
        kept->count -= (uint32_t) got;
    }
}

void btl_ib_udp_recv_release(btl_ib_udp_rx_t *rx, const btl_ib_udp_sockets_t *sockets,
                             btl_ib_udp_errors_t *errors)
{
    for (uint32_t i = 0; i < sockets->count; i++) {
        kept_release(&rx->kept[i], &sockets->socket[i], rx->kept[i].count, errors);
    }
}

/* Counts a look that found nothing at a socket with kept messages. After EMPTY_LOOKS takes these
 * out. */
__attribute__((noinline)) static void kept_count_empty(btl_ib_udp_kept_t *kept,
                                                       const btl_ib_udp_socket_t *socket,
                                                       btl_ib_udp_errors_t *errors)
{
    if (++kept->empty_looks >= EMPTY_LOOKS) {
        kept_release(kept, socket, kept->count, errors);
    }
}

/*
 * Counts the `got` messages of a call, which stay in the socket's buffer if kept->on, takes the
 * oldest ones out if there are too many, and sets kept->on for the next call:
 *
 *      on    if keeping is wanted: long messages arrived lately, from this host, and this thread
 *            has a processor alone
 *      on    also while older messages are kept: the next call has to read behind them
 *      off   else
 */
__attribute__((noinline)) static void kept_next(btl_ib_udp_rx_t *rx,
                                                const btl_ib_udp_sockets_t *sockets, uint32_t index,
                                                uint32_t got, btl_ib_udp_errors_t *errors)
{
    btl_ib_udp_kept_t *kept = &rx->kept[index];
    const uint32_t len = rx->call.msg[got - 1].msg_len;

    if (len >= KEPT_LONG) {
        crowd_count(&rx->crowd);
    }
    kept->count += kept->on ? got : 0;
    kept->empty_looks = 0;
    kept->short_calls = len >= KEPT_LONG ? 0 : kept->short_calls + 1;
    const bool wanted =
        sockets->keep_most > 0 && kept->short_calls < KEPT_SHORT && rx->crowd.alone
        && (sockets->within || btl_ib_udp_name_same_host(&rx->call.name[got - 1], &sockets->own));
    const uint32_t most = wanted ? sockets->keep_most : 0;
    if (kept->count > most) {
        const uint32_t over = kept->count - most;
        kept_release(kept, &sockets->socket[index],
                     over > KEPT_STEP || most == 0 ? over : KEPT_STEP, errors);
    }
    kept->on = wanted || kept->count > 0;
}

/* ---- a call ---- */

/* Gives the call buffers, until it has `wanted` or none is left. Returns how many it has. */
__attribute__((noinline)) static uint32_t call_furnish_all(btl_ib_udp_rx_t *rx, uint32_t wanted)
{
    uint32_t batch = 0;

    while (batch < wanted && (rx->call.buffer[batch] != NULL || call_furnish(rx, batch))) {
        batch++;
    }
    return batch;
}

/* Makes the `got` messages of a call with `batch` buffers pending, and chooses the batch of the
 * next call. Not inlined, as most calls find nothing. */
__attribute__((noinline)) static void recv_take(btl_ib_udp_rx_t *rx, btl_ib_udp_sockets_t *sockets,
                                                uint32_t index, uint32_t batch, uint32_t got)
{
    uint32_t bytes = 0;

    for (uint32_t i = 0; i < got; i++) {
        btl_ib_udp_buffer_t *buffer = rx->call.buffer[i];
        rx->call.buffer[i] = NULL;
        bytes += rx->call.msg[i].msg_len;
        recv_arrived(rx, sockets, index, buffer, &rx->call.msg[i]);
    }
    /* Short messages that filled all buffers come faster than calls: ask for more next time. */
    if (got < batch || bytes > batch * SHORT) {
        rx->batch[index] = 1;
    } else if (batch < BTL_IB_UDP_RECV_BATCH) {
        rx->batch[index] = 2 * batch;
    }
}

/* Receives by one call. Most calls find nothing, and leave the buffer ready for the next one. */
bool btl_ib_udp_recv(btl_ib_udp_rx_t *rx, btl_ib_udp_sockets_t *sockets, uint32_t index,
                     btl_ib_udp_errors_t *errors)
{
    const btl_ib_udp_socket_t *socket = &sockets->socket[index];
    const uint32_t wanted = rx->batch[index] > 1 ? rx->batch[index] : 1;
    const uint32_t batch =
        wanted == 1 && rx->call.buffer[0] != NULL ? 1 : call_furnish_all(rx, wanted);
    btl_ib_udp_kept_t *kept = &rx->kept[index];
    const int flags = MSG_DONTWAIT | (kept->on ? MSG_PEEK : 0);
    int got = 0;

    if (batch > 1) {
        got = recvmmsg(socket->fd, rx->call.msg, batch, flags, NULL);
    } else if (batch == 1) { /* cheaper than recvmmsg() */
        const ssize_t len = recvmsg(socket->fd, &rx->call.msg[0].msg_hdr, flags);
        got = len < 0 ? -1 : 1;
        if (len >= 0) {
            rx->call.msg[0].msg_len = (unsigned) len;
        }
    }
    if (got <= 0) {
        rx->batch[index] = 1;
        if (got < 0 && errno != EAGAIN) {
            const int error = errno;
            recv_failed(socket, error, errors);
            /* After a refused recvmmsg() the next call is recvmsg(). If that is refused, too, there
             * is no other way to receive. */
            if (batch == 1 && btl_ib_udp_is_refusal(error)) {
                btl_ib_udp_errors_count_refusal(errors, "recvmsg", error);
            }
        }
        if (kept->count > 0) {
            kept_count_empty(kept, socket, errors);
        }
        return false;
    }
    if (kept->on || rx->call.msg[got - 1].msg_len >= KEPT_LONG) {
        kept_next(rx, sockets, index, (uint32_t) got, errors);
    }
    recv_take(rx, sockets, index, batch, (uint32_t) got);
    return true;
}

/* ---- events ---- */

int btl_ib_udp_recv_events(btl_ib_udp_rx_t *rx, btl_ib_udp_peers_t *peers, btl_ib_event_t *events,
                           int max)
{
    int n = 0;

    while (n < max && rx->pending_count > 0) {
        btl_ib_udp_pending_t *pending = &rx->pending[rx->pending_first];
        btl_ib_udp_buffer_t *buffer = pending->buffer;
        /* Look the sender up now, not earlier: the engine may have added it for the datagram
         * before. */
        const btl_ib_addr_t from = btl_ib_udp_peer_find(peers, &buffer->name);

        while (n < max && pending->at < pending->end) {
            const uint32_t left = pending->end - pending->at;
            events[n++] = (btl_ib_event_t){
                .type = BTL_IB_EVENT_RECV,
                .size = left < pending->size ? left : pending->size,
                .codepoint = buffer->codepoint,
                .from = from,
                .data = buffer->data + pending->at,
                .buffer = buffer,
            };
            pending->at += pending->stride;
            buffer->users += pending->at < pending->end;
        }
        if (pending->at >= pending->end) {
            rx->pending_first = (rx->pending_first + 1) % BTL_IB_UDP_RECV_BATCH;
            rx->pending_count--;
        }
    }
    return n;
}
