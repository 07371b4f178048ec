/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The bench's transport: what is sent lies on the wire, what is handed over waits for a poll. */

#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Addresses as the engine knows them, so that they are not taken for indices. */
#define HANDLE(address) (UINT64_C(0x1000) + (address))
#define ADDRESS(handle) ((uint32_t) ((handle) -UINT64_C(0x1000)))

/* ---- queues of datagrams ---- */

void bench_push(bench_queue_t *queue, bench_datagram_t *datagram)
{
    if (queue->first == NULL) {
        queue->last = &queue->first;
    }
    datagram->next = NULL;
    *queue->last = datagram;
    queue->last = &datagram->next;
    queue->count++;
}

bench_datagram_t *bench_pop(bench_queue_t *queue)
{
    bench_datagram_t *datagram = queue->first;

    if (datagram != NULL) {
        queue->first = datagram->next;
        queue->count--;
    }
    return datagram;
}

void bench_clear(bench_queue_t *queue)
{
    while (queue->first != NULL) {
        free(bench_pop(queue));
    }
}

/* Of exactly its size, so that the address sanitizer sees a read beyond it. */
static bench_datagram_t *make(uint32_t source, uint32_t to, uint32_t size)
{
    bench_datagram_t *datagram = malloc(sizeof(*datagram) + size);

    BENCH_REQUIRE(datagram != NULL);
    datagram->next = NULL;
    datagram->source = source;
    datagram->to = to;
    datagram->size = size;
    return datagram;
}

bench_datagram_t *bench_copy(const bench_datagram_t *datagram)
{
    bench_datagram_t *copy = make(datagram->source, datagram->to, datagram->size);

    memcpy(copy->data, datagram->data, datagram->size);
    return copy;
}

/* ---- the transport ---- */

static uint32_t own_address(const bench_rail_t *rail)
{
    return bench_address(rail->host->index, rail->index);
}

static uint32_t rail_path(const btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    const uint32_t carries = ((const bench_rail_t *) t)->host->path[ADDRESS(addr) / BENCH_RAILS];

    return carries != 0 ? carries : t->attr.max_datagram;
}

static uint32_t rail_rx_depth(const btl_ib_transport_t *t, uint32_t size)
{
    const uint32_t bytes = ((const bench_rail_t *) t)->host->rx_bytes;

    return bytes != 0 ? bytes / (size + 256) : t->attr.rx_depth;
}

static void send_one(bench_rail_t *rail, const btl_ib_tx_t *tx)
{
    bench_t *bench = rail->host->bench;
    const bool rewritten =
        (bench->routed >> rail->host->index & 1) != 0 && ADDRESS(tx->to) % BENCH_RAILS == 0;
    bench_datagram_t *datagram = make(own_address(rail) + rewritten, ADDRESS(tx->to), tx->size);
    uint32_t at = 0;

    BENCH_REQUIRE(datagram->to < BENCH_HOSTS * BENCH_RAILS && rail->refs[datagram->to] > 0);
    BENCH_REQUIRE(tx->niov >= 1 && tx->niov <= rail->base.attr.max_iov);
    for (uint32_t i = 0; i < tx->niov; i++) {
        BENCH_REQUIRE(at + tx->iov[i].iov_len <= tx->size);
        memcpy(datagram->data + at, tx->iov[i].iov_base, tx->iov[i].iov_len);
        at += (uint32_t) tx->iov[i].iov_len;
    }
    BENCH_REQUIRE(at == tx->size && at <= rail_path(&rail->base, tx->to));
    if (tx->size > rail->base.attr.inline_size) {
        bench_reading_t *reading = malloc(sizeof(*reading));
        BENCH_REQUIRE(reading != NULL);
        *reading = (bench_reading_t){.next = rail->reading, .context = tx->context};
        rail->reading = reading;
    }
    rail->host->datagrams++;
    rail->host->bytes_sent += tx->size;
    if (bench->taping) {
        bench_push(&bench->tape, bench_copy(datagram));
    }
    if (rail->dead_flows >> tx->flow & 1) {
        free(datagram);
    } else {
        bench_push(&bench->wire, datagram);
    }
}

static int rail_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    bench_rail_t *rail = (bench_rail_t *) t;

    BENCH_REQUIRE(!rail->stopped && n >= 1);
    rail->host->calls++;
    for (int i = 0; i < n; i++) {
        const bool full = (rail->full >> batch[i].channel & 1) != 0;
        if (rail->busy > 0 || full) {
            rail->busy -= !full;
            *error = EAGAIN;
            return i;
        }
        if (rail->no_buffers > 0 && batch[i].size > rail->no_buffers) {
            *error = ENOBUFS;
            return i;
        }
        rail->host->apart += batch[i].bulk;
        send_one(rail, &batch[i]);
    }
    return n;
}

static void give_datagram(bench_rail_t *rail, btl_ib_event_t *event)
{
    bench_datagram_t *datagram = bench_pop(&rail->arrived);
    bool known = datagram->source < BENCH_HOSTS * BENCH_RAILS && rail->refs[datagram->source] > 0;

    *event = (btl_ib_event_t){
        .type = BTL_IB_EVENT_RECV,
        .size = datagram->size,
        .from =
            known && rail->base.attr.knows_source ? HANDLE(datagram->source) : BTL_IB_ADDR_UNKNOWN,
        .data = datagram->data,
        .buffer = datagram,
    };
    rail->held++;
}

/* An event of the device, or what it quotes. */
static btl_ib_event_t say(const bench_rail_t *rail, btl_ib_event_t event)
{
    event.origin = rail->by_icmp ? BTL_IB_ORIGIN_NETWORK : BTL_IB_ORIGIN_LOCAL;
    if (rail->by_icmp) {
        event.quoted_size = (uint8_t) rail->quoted_size;
        memcpy(event.quoted, rail->quoted, rail->quoted_size);
    }
    return event;
}

static bool give_event(bench_rail_t *rail, btl_ib_event_t *event)
{
    if (rail->failure) {
        rail->failure = false;
        *event = (btl_ib_event_t){.type = BTL_IB_EVENT_FAILED, .error = EIO};
    } else if (rail->broken) {
        rail->broken = false;
        *event = (btl_ib_event_t){.type = BTL_IB_EVENT_BROKEN, .from = HANDLE(rail->refused)};
    } else if (rail->refusal) {
        bool known = rail->refused < BENCH_HOSTS * BENCH_RAILS && rail->refs[rail->refused] > 0;
        rail->refusal = false;
        *event = say(rail, (btl_ib_event_t){
                               .type = BTL_IB_EVENT_REFUSED,
                               .error = ECONNREFUSED,
                               .from = known ? HANDLE(rail->refused) : BTL_IB_ADDR_UNKNOWN,
                           });
    } else if (rail->news) {
        rail->news = false;
        *event = say(rail, (btl_ib_event_t){
                               .type = rail->what,
                               .error = rail->error,
                               .from = HANDLE(rail->about),
                               .size = rail->size,
                           });
    } else if (rail->reading != NULL) {
        bench_reading_t *reading = rail->reading;
        rail->reading = reading->next;
        *event = (btl_ib_event_t){.type = BTL_IB_EVENT_SENT, .context = reading->context};
        free(reading);
    } else if (rail->arrived.first != NULL) {
        give_datagram(rail, event);
    } else {
        return false;
    }
    return true;
}

static int rail_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    int n = 0;

    while (n < max && give_event((bench_rail_t *) t, &events[n])) {
        n++;
    }
    return n;
}

static uint32_t rail_rewritten(const btl_ib_transport_t *t, const btl_ib_event_t *event,
                               const void *published, size_t len,
                               uint8_t address[BTL_IB_ADDR_BYTES], uint8_t *flow)
{
    const bench_datagram_t *datagram = event->buffer;

    BENCH_REQUIRE(len == sizeof(datagram->source));
    *flow = 0;
    memcpy(address, &datagram->source, sizeof(datagram->source));
    return ((const bench_rail_t *) t)->host->bench->rewrites ? sizeof(datagram->source) : 0;
}

static void rail_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    bench_rail_t *rail = (bench_rail_t *) t;

    BENCH_REQUIRE(rail->held >= (uint32_t) n);
    for (int i = 0; i < n; i++) {
        free(buffers[i]);
    }
    rail->held -= (uint32_t) n;
}

static int rail_addr_add(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr)
{
    bench_rail_t *rail = (bench_rail_t *) t;
    uint32_t address;

    if (len != sizeof(address)) {
        return -EINVAL;
    }
    memcpy(&address, bytes, sizeof(address));
    if (address >= BENCH_HOSTS * BENCH_RAILS) {
        return -EINVAL;
    }
    rail->refs[address]++;
    *addr = HANDLE(address);
    return 0;
}

static void rail_addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    bench_rail_t *rail = (bench_rail_t *) t;

    BENCH_REQUIRE(ADDRESS(addr) < BENCH_HOSTS * BENCH_RAILS && rail->refs[ADDRESS(addr)] > 0);
    rail->refs[ADDRESS(addr)]--;
}

static int rail_mem_register(btl_ib_transport_t *t, void *base, size_t size, void **handle)
{
    *handle = NULL;
    return 0;
}

static void rail_mem_deregister(btl_ib_transport_t *t, void *handle)
{
}

static int rail_wait_fd(btl_ib_transport_t *t)
{
    return -1;
}

static void rail_stop(btl_ib_transport_t *t)
{
    bench_rail_t *rail = (bench_rail_t *) t;

    bench_clear(&rail->arrived);
    while (rail->reading != NULL) {
        bench_reading_t *reading = rail->reading;
        rail->reading = reading->next;
        free(reading);
    }
    rail->stopped = true;
}

static void rail_close(btl_ib_transport_t *t)
{
    bench_rail_t *rail = (bench_rail_t *) t;

    BENCH_REQUIRE(rail->stopped && rail->held == 0);
    for (uint32_t i = 0; i < BENCH_HOSTS * BENCH_RAILS; i++) {
        BENCH_REQUIRE(rail->refs[i] == 0);
    }
}

static const btl_ib_transport_ops_t rail_ops = {
    .send = rail_send,
    .poll = rail_poll,
    .rewritten = rail_rewritten,
    .repost = rail_repost,
    .addr_add = rail_addr_add,
    .addr_remove = rail_addr_remove,
    .mem_register = rail_mem_register,
    .mem_deregister = rail_mem_deregister,
    .rx_depth = rail_rx_depth,
    .path_datagram = rail_path,
    .wait_fd = rail_wait_fd,
    .stop = rail_stop,
    .close = rail_close,
};

void bench_open_rail(bench_host_t *host, uint32_t index)
{
    bench_rail_t *rail = &host->rails[index];
    uint32_t address = bench_address(host->index, index);
    const uint32_t carries = host->bench->carries[index];

    memset(rail, 0, sizeof(*rail));
    rail->base.ops = &rail_ops;
    rail->base.attr = host->attr;
    rail->base.attr.max_datagram = carries != 0 ? carries : host->attr.max_datagram;
    rail->base.address_len = sizeof(address);
    memcpy(rail->base.address, &address, sizeof(address));
    memcpy(rail->base.name, "bench", sizeof("bench"));
    rail->host = host;
    rail->index = index;
}

void bench_deliver(bench_t *bench, bench_datagram_t *datagram)
{
    bench_host_t *host = &bench->hosts[datagram->to / BENCH_RAILS];
    const bool behind = (bench->routed >> host->index & 1) != 0;
    bench_rail_t *rail = &host->rails[behind ? 0 : datagram->to % BENCH_RAILS];

    if (host->engine == NULL || rail->base.ops == NULL || rail->stopped
        || datagram->size > rail->base.attr.max_datagram) {
        free(datagram);
        return;
    }
    bench_push(&rail->arrived, datagram);
}

void bench_throw(bench_t *bench, uint32_t to, uint32_t source, const void *data, uint32_t size)
{
    bench_datagram_t *datagram = make(source, bench_address(to, 0), size);

    if (size > 0) {
        memcpy(datagram->data, data, size);
    }
    bench_deliver(bench, datagram);
    bench_turn(bench, to);
}
