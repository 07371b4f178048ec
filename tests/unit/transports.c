/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#undef stop /* cmocka 2.0 has a macro of that name */

#include "transports.h"
#include "unit.h"

test_bed_t bed;

void find_device(const char *type, const char *provider, sa_family_t family)
{
    const btl_ib_log_t log = {.print = NULL};

    memset(&bed, 0, sizeof(bed));
    for (size_t i = 0; btl_ib_transport_types[i] != NULL; i++) {
        if (strcmp(btl_ib_transport_types[i]->name, type) == 0) {
            bed.type = btl_ib_transport_types[i];
        }
    }
    bed.device_count =
        bed.type != NULL
            ? bed.type->devices(&(btl_ib_search_t){.provider = provider, .log = log}, &bed.devices)
            : 0;
    for (int i = 0; i < bed.device_count; i++) {
        const btl_ib_device_t *device = &bed.devices[i];

        if (device->loopback && bed.device == NULL
            && (family == AF_UNSPEC || device->ip.ss_family == family)) {
            bed.device = device;
        }
    }
}

int free_devices(void **state)
{
    if (bed.device_count >= 0 && bed.type != NULL) {
        bed.type->devices_free(bed.devices, bed.device_count);
    }
    memset(&bed, 0, sizeof(bed));
    return 0;
}

uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000u + (uint64_t) now.tv_nsec / 1000000u;
}

int poll_now(btl_ib_transport_t *t, btl_ib_event_t *events, int max)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return t->ops->poll(t, (uint64_t) now.tv_sec * 1000000u + (uint64_t) now.tv_nsec / 1000u,
                        events, max);
}

btl_ib_transport_t *open_with(btl_ib_open_params_t params)
{
    btl_ib_transport_t *t = NULL;

    assert_int_equal(bed.type->open(bed.device, &params, &t), 0);
    assert_non_null(t);
    return t;
}

void close_transport(btl_ib_transport_t *t)
{
    t->ops->stop(t);
    t->ops->close(t);
}

btl_ib_addr_t add(btl_ib_transport_t *t, const btl_ib_transport_t *peer)
{
    btl_ib_addr_t addr = BTL_IB_ADDR_UNKNOWN;

    assert_int_equal(t->ops->addr_add(t, peer->address, peer->address_len, &addr), 0);
    assert_int_not_equal(addr, BTL_IB_ADDR_UNKNOWN);
    return addr;
}

static slots_t make_few_slots(btl_ib_transport_t *t, uint32_t count)
{
    slots_t slots = {.stride = t->attr.headroom + t->attr.max_datagram + 64u};

    slots.base = malloc(slots.stride * count);
    assert_non_null(slots.base);
    assert_int_equal(t->ops->mem_register(t, slots.base, slots.stride * count, &slots.mem), 0);
    return slots;
}

slots_t make_slots(btl_ib_transport_t *t)
{
    return make_few_slots(t, BATCH_MAX);
}

void free_slots(btl_ib_transport_t *t, const slots_t *slots)
{
    t->ops->mem_deregister(t, slots->mem);
    free(slots->base);
}

/* The first byte is the slot, the others follow from it, the size and the place. */
static uint8_t pattern(uint32_t size, uint32_t slot, uint32_t at)
{
    const uint32_t mixed = size * UINT32_C(2654435761) + slot * UINT32_C(1540483477);

    return (uint8_t) (at == 0 ? slot : (mixed + at * UINT32_C(40503)) >> 11);
}

btl_ib_tx_t make_tx(const btl_ib_transport_t *t, const slots_t *slots, uint32_t slot,
                    btl_ib_addr_t to, uint32_t size, uint32_t niov)
{
    uint8_t *next = slots->base + slot * slots->stride + t->attr.headroom;
    btl_ib_tx_t tx = {.to = to, .niov = niov, .size = size, .mem = slots->mem};
    uint32_t done = 0;

    tx.context = next;
    for (uint32_t i = 0; i < niov; i++) {
        const uint32_t piece = i + 1 < niov ? size / niov : size - done;

        tx.iov[i].iov_base = next;
        tx.iov[i].iov_len = piece;
        for (uint32_t j = 0; j < piece; j++) {
            next[j] = pattern(size, slot, done + j);
        }
        next += piece + 7;
        done += piece;
    }
    return tx;
}

uint32_t assert_intact(const btl_ib_event_t *event)
{
    assert_int_equal((uintptr_t) event->data % 8, 0);
    assert_in_range(event->size, 1, UINT32_MAX);
    for (uint32_t i = 0; i < event->size; i++) {
        if (event->data[i] != pattern(event->size, event->data[0], i)) {
            fail_msg("byte %u of %u, slot %u", i, event->size, event->data[0]);
        }
    }
    return event->data[0];
}

/* Up to `max` events. */
static int wait_events(btl_ib_transport_t *t, btl_ib_event_t *events, int max)
{
    const uint64_t end = now_ms() + PATIENCE_MS;
    int n;

    while ((n = poll_now(t, events, max)) == 0) {
        if (now_ms() > end) {
            fail_msg("nothing came");
        }
    }
    assert_in_range(n, 1, max);
    return n;
}

btl_ib_event_t wait_event(btl_ib_transport_t *t)
{
    btl_ib_event_t event;

    (void) wait_events(t, &event, 1);
    return event;
}

btl_ib_event_t wait_recv(btl_ib_transport_t *t)
{
    btl_ib_event_t event;

    do {
        event = wait_event(t);
        assert_true(event.type == BTL_IB_EVENT_RECV || event.type == BTL_IB_EVENT_SENT);
    } while (event.type != BTL_IB_EVENT_RECV);
    return event;
}

void repost(btl_ib_transport_t *t, const btl_ib_event_t *event)
{
    t->ops->repost(t, &event->buffer, 1);
}

int send_all(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n)
{
    const uint64_t end = now_ms() + PATIENCE_MS;
    int sent = 0;

    for (int done = 0; done < n;) {
        btl_ib_event_t event;
        int error = 0;
        const int took = t->ops->send(t, batch + done, n - done, &error);

        assert_in_range(took, 0, n - done);
        done += took;
        if (done < n) {
            assert_true(error == EAGAIN || error == ENOBUFS);
            assert_true(now_ms() < end);
            if (poll_now(t, &event, 1) > 0) {
                assert_int_equal(event.type, BTL_IB_EVENT_SENT);
                sent++;
            }
        }
    }
    return sent;
}

btl_ib_addr_t assert_reaches(btl_ib_transport_t *a, btl_ib_addr_t to, btl_ib_transport_t *b,
                             uint32_t size)
{
    /* A megabyte each time would be a hundred times as much for address sanitizer to mark. */
    const slots_t slots = make_few_slots(a, 1);
    const btl_ib_tx_t tx = make_tx(a, &slots, 0, to, size, 1);
    btl_ib_event_t event;

    if (send_all(a, &tx, 1) == 0 && size > a->attr.inline_size) {
        event = wait_event(a);
        assert_int_equal(event.type, BTL_IB_EVENT_SENT);
        assert_ptr_equal(event.context, tx.context);
    }
    event = wait_recv(b);
    assert_int_equal(event.size, size);
    assert_intact(&event);
    repost(b, &event);
    free_slots(a, &slots);
    return event.from;
}

void assert_idle(btl_ib_transport_t *t)
{
    btl_ib_event_t event;

    for (int i = 0; i < 100; i++) {
        assert_int_equal(poll_now(t, &event, 1), 0);
    }
}

pair_t open_pair(btl_ib_open_params_t params)
{
    pair_t pair = {.a = open_with(params), .b = open_with(params)};

    pair.b_at_a = add(pair.a, pair.b);
    pair.a_at_b = add(pair.b, pair.a);
    pair.slots = make_slots(pair.a);
    return pair;
}

void close_pair(pair_t *pair)
{
    pair->a->ops->stop(pair->a);
    free_slots(pair->a, &pair->slots);
    pair->a->ops->close(pair->a);
    close_transport(pair->b);
}

/* All sends whose memory is not free yet; `sent` of the batch are. */
static void collect_sent(const pair_t *pair, const btl_ib_tx_t *batch, int n, int sent)
{
    for (int i = 0; i < n; i++) {
        sent -= batch[i].size > pair->a->attr.inline_size;
    }
    for (; sent < 0; sent++) {
        const btl_ib_event_t event = wait_event(pair->a);

        assert_int_equal(event.type, BTL_IB_EVENT_SENT);
        assert_true((uint8_t *) event.context >= pair->slots.base);
        assert_true((uint8_t *) event.context < pair->slots.base + n * pair->slots.stride);
    }
    assert_int_equal(sent, 0);
}

void exchange(const pair_t *pair, const btl_ib_tx_t *batch, int n, int max)
{
    btl_ib_event_t events[BATCH_MAX];
    void *buffers[BATCH_MAX];
    bool seen[BATCH_MAX] = {false};
    const int sent = send_all(pair->a, batch, n);

    for (int got = 0; got < n;) {
        got += wait_events(pair->b, events + got, max < n - got ? max : n - got);
    }
    for (int i = 0; i < n; i++) { /* now only, so that none was overwritten by a later one */
        assert_int_equal(events[i].type, BTL_IB_EVENT_RECV);
        const uint32_t which = assert_intact(&events[i]);

        assert_in_range(which, 0, n - 1);
        assert_false(seen[which]);
        seen[which] = true;
        assert_int_equal(events[i].size, batch[which].size);
        assert_int_equal(events[i].from,
                         pair->b->attr.knows_source ? pair->a_at_b : BTL_IB_ADDR_UNKNOWN);
        buffers[i] = events[i].buffer;
    }
    pair->b->ops->repost(pair->b, buffers, n);
    collect_sent(pair, batch, n, sent);
}
