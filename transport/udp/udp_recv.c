/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * System calls -> events. One call may fill several buffers (recvmmsg(2)), and one buffer may hold many
 * datagrams of one size from one peer, the last perhaps shorter, which the kernel did not cut, or joined
 * (UDP_GRO, udp(7)). Each event is one datagram; its buffer is free again when all of them were reposted.
 */

#include "udp_state.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHORT =
        8192, /* bytes in a buffer on average: with less another call costs more than cold memory */
};

/* ---- buffers ---- */

static btl_ib_udp_buffer_t *get_buffer(btl_ib_udp_t *udp)
{
    btl_ib_udp_buffer_t *buffer = udp->free;

    if (buffer != NULL) {
        udp->free = buffer->next;
        return buffer;
    }
    if (udp->buffers == BTL_IB_UDP_BUFFERS_MAX) {
        return NULL;
    }
    buffer = aligned_alloc(_Alignof(btl_ib_udp_buffer_t), sizeof(*buffer));
    if (buffer != NULL) {
        buffer->older = udp->made;
        udp->made = buffer;
        udp->buffers++;
    }
    return buffer;
}

/* The one used last is used next: it is in the cache. */
static void put_buffer(btl_ib_udp_t *udp, btl_ib_udp_buffer_t *buffer)
{
    buffer->next = udp->free;
    udp->free = buffer;
}

static void leave_buffer(btl_ib_udp_t *udp, btl_ib_udp_buffer_t *buffer)
{
    if (--buffer->users == 0) {
        put_buffer(udp, buffer);
    }
}

void btl_ib_udp_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    for (int i = 0; i < n; i++) {
        leave_buffer(btl_ib_udp_of(t), buffers[i]);
    }
}

void btl_ib_udp_buffers_free(btl_ib_udp_t *udp)
{
    while (udp->made != NULL) {
        btl_ib_udp_buffer_t *buffer = udp->made;
        udp->made = buffer->older;
        free(buffer);
    }
}

/* ---- what arrived ---- */

/* Move datagrams that follow each other apart, so that each starts at a multiple of 8. */
static uint32_t align(uint8_t *data, uint32_t size, uint32_t end)
{
    const uint32_t stride = (size + 7) & ~7u;
    const uint32_t count = (end + size - 1) / size;

    if (stride != size) {
        for (uint32_t i = count - 1; i > 0; i--) { /* the last first: nothing is overwritten */
            const uint32_t at = i * size;
            memmove(data + i * stride, data + at, end - at < size ? end - at : size);
        }
    }
    return stride;
}

/* Is there room for that? What the kernel joins is at most 64 datagrams, 128 in newer ones, but what a guest or a
 * tunnel claims to have joined may be anything. */
static bool fits_apart(uint32_t size, uint32_t len)
{
    const uint64_t stride = ((uint64_t) size + 7) & ~UINT64_C(7);

    return ((uint64_t) len + size - 1) / (size > 0 ? size : 1) * stride <= BTL_IB_UDP_BUFFER;
}

/* The size of each of the datagrams that were joined; 0: it is a single one. */
static uint32_t joined_size(struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
            int size;
            memcpy(&size, CMSG_DATA(c), sizeof(size));
            return size > 0 ? (uint32_t) size : 0;
        }
    }
    return 0;
}

static void drop(btl_ib_udp_t *udp, btl_ib_udp_buffer_t *buffer, uint32_t size)
{
    udp->rx_dropped++;
    BTL_IB_UDP_LOG(udp, 10, "%s: datagrams of %u bytes dropped: empty or too large (%llu so far)",
                   udp->base.name, size, (unsigned long long) udp->rx_dropped);
    put_buffer(udp, buffer);
}

static void arrived(btl_ib_udp_t *udp, const btl_ib_udp_socket_t *socket,
                    btl_ib_udp_buffer_t *buffer, struct mmsghdr *msg)
{
    const uint32_t len = msg->msg_len;
    uint32_t size = joined_size(&msg->msg_hdr);

    size = size == 0 || size > len ? len : size;
    if (len == 0 || size > udp->rx_size || msg->msg_hdr.msg_flags & MSG_TRUNC
        || !fits_apart(size, len)) {
        drop(udp, buffer, size);
        return;
    }
    btl_ib_udp_rest_t *rest =
        &udp->rest[(udp->rest_first + udp->rest_count++) % BTL_IB_UDP_CALL_MAX];
    buffer->users = 1;
    buffer->name = btl_ib_udp_name_known(socket, msg->msg_hdr.msg_name);
    buffer->quick = socket->quick;
    *rest = (btl_ib_udp_rest_t){
        .buffer = buffer,
        .end = len,
        .size = size,
        .stride = size,
    };
    if (size < len) {
        const uint32_t count = (len + size - 1) / size;
        rest->stride = align(buffer->data, size, len);
        rest->end = len + (count - 1) * (rest->stride - size);
    }
}

/* ---- events ---- */

/* Make events of datagrams of one buffer. Who sent them is looked up now, not when they came: those before
 * may have made him known. Returns how many. */
static int hand_up_some(btl_ib_udp_t *udp, btl_ib_udp_rest_t *rest, btl_ib_event_t *events, int max)
{
    const btl_ib_addr_t from = btl_ib_udp_peer_find(&udp->peers, &rest->buffer->name);
    int n = 0;

    while (n < max && rest->at < rest->end) {
        const uint32_t left = rest->end - rest->at;
        events[n++] = (btl_ib_event_t){
            .type = BTL_IB_EVENT_RECV,
            .size = left < rest->size ? left : rest->size,
            .from = from,
            .data = rest->buffer->data + rest->at,
            .buffer = rest->buffer,
        };
        rest->at += rest->stride;
        rest->buffer->users += rest->at < rest->end; /* whoever waits for the rest keeps it, too */
    }
    return n;
}

static int hand_up(btl_ib_udp_t *udp, btl_ib_event_t *events, int max)
{
    int n = 0;

    while (n < max && udp->rest_count > 0) {
        btl_ib_udp_rest_t *rest = &udp->rest[udp->rest_first];
        n += hand_up_some(udp, rest, events + n, max - n);
        if (rest->at >= rest->end) {
            udp->rest_first = (udp->rest_first + 1) % BTL_IB_UDP_CALL_MAX;
            udp->rest_count--;
        }
    }
    return n;
}

static int hand_up_news(btl_ib_udp_t *udp, btl_ib_event_t *events, int max)
{
    int n = 0;

    while (n < max && udp->news_count > 0) {
        events[n++] = udp->news[--udp->news_count];
    }
    return n;
}

/* One that an earlier call, which asked for more, left at a place behind the first. */
static btl_ib_udp_buffer_t *left_over(btl_ib_udp_call_t *call)
{
    btl_ib_udp_buffer_t *buffer = NULL;

    for (uint32_t i = 1; i < BTL_IB_UDP_CALL_MAX && buffer == NULL; i++) {
        buffer = call->buffer[i];
        call->buffer[i] = NULL;
    }
    return buffer;
}

/* A place in the call gets a buffer. Returns whether there was one: at least for the first. */
static bool furnish(btl_ib_udp_t *udp, uint32_t i)
{
    btl_ib_udp_call_t *call = &udp->call;

    call->buffer[i] = get_buffer(udp);
    if (call->buffer[i] == NULL && i == 0) {
        call->buffer[i] = left_over(call);
    }
    if (call->buffer[i] == NULL) {
        return false;
    }
    call->iov[i] =
        (struct iovec){.iov_base = call->buffer[i]->data, .iov_len = BTL_IB_UDP_BYTES_LONGEST};
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

/* Make room for `wide` messages, or as many as memory allows. */
static uint32_t prepare(btl_ib_udp_t *udp, uint32_t wide)
{
    uint32_t n = 0;

    while (n < wide && (udp->call.buffer[n] != NULL || furnish(udp, n))) {
        n++;
    }
    return n;
}

/* Returns how many messages there were, or -1 with errno. */
static int receive(int fd, uint32_t wide, btl_ib_udp_call_t *call)
{
    if (wide > 1) {
        return recvmmsg(fd, call->msg, wide, MSG_DONTWAIT, NULL);
    }
    const ssize_t len = recvmsg(fd, &call->msg[0].msg_hdr, MSG_DONTWAIT);
    call->msg[0].msg_len = len < 0 ? 0 : (unsigned) len;
    return len < 0 ? -1 : 1;
}

/* Short messages that come faster than one a call: ask for more of them at a time. */
static void adapt(btl_ib_udp_socket_t *from, uint32_t asked, int got, uint32_t bytes)
{
    if (got < (int) asked || bytes > asked * SHORT) {
        from->wide = 1;
    } else if (from->wide < BTL_IB_UDP_CALL_MAX) {
        from->wide *= 2;
    }
}

void btl_ib_udp_look(btl_ib_udp_t *udp, btl_ib_udp_socket_t *from)
{
    const uint32_t wide = prepare(udp, from->wide);
    uint32_t bytes = 0;
    int got = wide == 0 ? 0 : receive(from->fd, wide, &udp->call);

    if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        (void) btl_ib_udp_errors(udp, from, BTL_IB_ADDR_UNKNOWN);
    }
    got = got < 0 ? 0 : got;
    for (int i = 0; i < got; i++) {
        btl_ib_udp_buffer_t *buffer = udp->call.buffer[i];
        udp->call.buffer[i] = NULL;
        bytes += udp->call.msg[i].msg_len;
        arrived(udp, from, buffer, &udp->call.msg[i]);
    }
    if (got > 0) {
        from->seen = udp->looks;
        udp->seen_quick = from->quick ? udp->looks : udp->seen_quick;
    }
    adapt(from, wide, got, bytes);
}

uint32_t btl_ib_udp_source(const btl_ib_transport_t *t, const btl_ib_event_t *event,
                           uint8_t address[BTL_IB_ADDR_BYTES])
{
    const btl_ib_udp_buffer_t *buffer = event->buffer;

    (void) t;
    return btl_ib_udp_name_pack(&buffer->name, UINT16_MAX, false, address);
}

bool btl_ib_udp_source_text(const btl_ib_transport_t *t, const btl_ib_event_t *event, char *out,
                            size_t len)
{
    const btl_ib_udp_buffer_t *buffer = event->buffer;
    btl_ib_udp_name_t name = buffer->name;

    (void) t;
    if (buffer->quick) {
        btl_ib_udp_name_set_port(&name, (uint16_t) (btl_ib_udp_name_port(&name) + 1));
    }
    (void) btl_ib_udp_name_format(&name, out, len);
    return true;
}

int btl_ib_udp_poll(btl_ib_transport_t *t, btl_ib_event_t *events, int max)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);

    const int news = hand_up_news(udp, events, max);

    if (udp->rest_count == 0 && news == 0) {
        btl_ib_udp_look_around(udp);
    }
    return news + hand_up(udp, events + news, max - news);
}
