/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The simulator's transport: as harsh as the interface allows. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* A send whose memory is in use until its event was polled. */
typedef struct pending_tx {
    struct pending_tx *next;
    uint64_t number;
    void *context;
    uint32_t niov;
    uint32_t size;
    struct iovec iov[3];
    bool completed;
    uint8_t snapshot[];
} pending_tx_t;

typedef struct region {
    struct region *next;
    const uint8_t *base;
    size_t size;
} region_t;

/* What the network says of an address. */
typedef struct refusal {
    struct refusal *next;
    uint32_t address;
    uint32_t size; /* the path carries no more; 0: nobody is there */
    bool forged;
    quote_t quote;
} refusal_t;

struct rail {
    btl_ib_transport_t base;
    btl_ib_transport_ops_t ops;
    device_t *device;
    sim_t *sim;
    proc_t *proc;
    uint32_t index;
    uint32_t address;
    uint32_t id;    /* so that late events find out that this rail is gone */
    uint32_t *refs; /* by address: how often it was added */
    quote_t *sent;  /* by address: of the latest datagram that was sent there */
    uint32_t refs_cap;
    datagram_t *rx_first, **rx_last;
    uint32_t rx_count, held;
    uint64_t rx_bytes;
    pending_tx_t *tx;
    uint64_t tx_numbers;
    uint32_t tx_count, tx_completed;
    uint32_t unsignalled; /* sends in a row whose completion nobody asked for */
    region_t *regions;
    refusal_t *refusals;
    bool failed, failure_told, stopped;
    bool tells_codepoints; /* a datagram came that might have had ECT(0) (BTL_IB_ECT_LEAST) */
    bool down, down_told;  /* the port */
    uint64_t down_at;      /* ns: since when, or since when it was last */
    bool given_up;         /* it was down for longer than anybody waits */
    bool moves;            /* it is to get another address */
    bool unpublished;      /* its address is not the published one any more, or not for peers */
    bool routed;           /* what it sends comes from another address: */
    uint32_t outside;      /* that a router has for it, and leads to it */
    /* By which its spare flow leaves, and the paths behind it, and nothing gets in; 0: none yet. */
    uint32_t ports[1 + SIM_PATHS];
    uint64_t renewed_at[1 + SIM_PATHS]; /* us */
};

#define HANDLE(address) (((btl_ib_addr_t) (address) << 8) + 0x5a)
#define ADDRESS(handle) ((uint32_t) ((handle) >> 8))

static bool in_region(const rail_t *rail, const uint8_t *base, size_t size, const void *handle)
{
    for (const region_t *region = rail->regions; region != NULL; region = region->next) {
        if ((handle == NULL || handle == region) && base >= region->base
            && base + size <= region->base + region->size) {
            return true;
        }
    }
    return false;
}

/* What the way to an address carries: less if that is a process of another host. */
static uint32_t rail_path(const btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    const rail_t *rail = (const rail_t *) t;
    const sim_t *sim = rail->sim;
    const uint32_t peer = ADDRESS(addr) / sim->nrails % sim->nprocs;
    const bool within = peer / 2 == rail->proc->index / 2;

    return within || sim->beyond == 0 || sim->beyond > t->attr.max_datagram ? t->attr.max_datagram
                                                                            : sim->beyond;
}

uint32_t rail_sending(const rail_t *rail)
{
    return rail->tx_count;
}

uint32_t rail_address_of(rail_t *rail, btl_ib_addr_t to)
{
    const uint32_t address = ADDRESS(to);

    if (to != HANDLE(address) || address >= rail->refs_cap || rail->refs[address] == 0) {
        sim_fail(rail->sim, "p%u names an address that it has not added", rail->proc->index);
    }
    return address;
}

/* Bulk, and no copy of it: the rest must get through wherever ECT(0) does not. */
static bool may_have_ect(const btl_ib_tx_t *tx)
{
    const uint8_t *header = tx->iov[0].iov_base;
    const uint8_t type = header[0] & 0xf;

    return !(header[1] & BTL_IB_FLAG_RETRANSMISSION)
           && (type == BTL_IB_TYPE_CHUNK || type == BTL_IB_TYPE_PUT || type == BTL_IB_TYPE_GOT
               || type == BTL_IB_TYPE_PART);
}

/* What data leave to control traffic: the reserve of the first queue of whoever is there. */
static void check_spare(const rail_t *rail, const btl_ib_tx_t *tx)
{
    const rail_t *to = rail->sim->bound[ADDRESS(tx->to)];
    const uint8_t type = *(const uint8_t *) tx->iov[0].iov_base & 0xf;
    const uint32_t reserve = to != NULL ? to->proc->published[to->index].queues.q[0].reserve : 0;

    if (to != NULL && tx->spare != (btl_ib_type_is_sequenced(type) ? reserve : 0)) {
        sim_fail(rail->sim, "p%u sends type %u and leaves %u buffers to others, the reserve is %u",
                 rail->proc->index, type, tx->spare, reserve);
    }
}

static void check_tx(rail_t *rail, const btl_ib_tx_t *tx)
{
    const btl_ib_transport_attr_t *attr = &rail->base.attr;
    uint64_t size = 0;

    if (tx->niov < 1 || tx->niov > attr->max_iov) {
        sim_fail(rail->sim, "p%u sends %u pieces, at most %u are allowed", rail->proc->index,
                 tx->niov, attr->max_iov);
    }
    for (uint32_t i = 0; i < tx->niov; i++) {
        const uint8_t *base = tx->iov[i].iov_base;
        size_t before = i == 0 ? attr->headroom : 0;
        size += tx->iov[i].iov_len;
        if (attr->registered_page > 0
            && !in_region(rail, base - before, tx->iov[i].iov_len + before,
                          i == 0 ? tx->mem : NULL)) {
            sim_fail(rail->sim, "p%u sends from memory that is not registered (piece %u)",
                     rail->proc->index, i);
        }
        memset((uint8_t *) tx->iov[i].iov_base - before, 0xee, before);
    }
    const uint32_t largest = rail_path(&rail->base, tx->to);
    if (size != tx->size || size < 1 || size > largest) {
        sim_fail(rail->sim, "p%u sends %llu bytes but says %u, largest datagram %u",
                 rail->proc->index, (unsigned long long) size, tx->size, largest);
    }
    (void) rail_address_of(rail, tx->to);
    check_spare(rail, tx);
    if (tx->ect && (!attr->ecn || !may_have_ect(tx))) {
        sim_fail(rail->sim, "p%u sends type %u with ECT(0)", rail->proc->index,
                 *(const uint8_t *) tx->iov[0].iov_base & 0xf);
    }
}

/* What goes to where a router leads back is an answer: its source is not rewritten. */
static uint32_t rail_source_to(const rail_t *rail, uint32_t dst)
{
    const rail_t *to = rail->sim->bound[dst];

    return rail->routed && (to == NULL || !to->routed || to->outside != dst) ? rail->outside
                                                                             : rail->address;
}

static void rail_bind(rail_t *rail, uint32_t address);

static void rail_flow_renew(btl_ib_transport_t *t, uint32_t flow, uint64_t now)
{
    rail_t *rail = (rail_t *) t;
    uint32_t *port = &rail->ports[flow - t->attr.flows];
    uint64_t *renewed_at = &rail->renewed_at[flow - t->attr.flows];
    sim_t *sim = rail->sim;
    const uint32_t own = rail->address;

    if (*port != 0 && now - *renewed_at < 1000000) { /* as the udp transport does */
        return;
    }
    *renewed_at = now;
    rail_bind(rail, sim->addresses + rail->proc->index * sim->nrails + rail->index);
    *port = rail->address;
    sim->bound[*port] = NULL;
    rail->address = own;
    memcpy(rail->base.address, &own, sizeof(own));
}

/* By a port that peers do not know. */
static bool is_spare(const rail_t *rail, const btl_ib_tx_t *tx)
{
    const btl_ib_transport_attr_t *attr = &rail->base.attr;

    return (attr->spare_flow && tx->flow == attr->flows)
           || (tx->flow > attr->flows && tx->flow <= attr->flows + attr->paths);
}

static datagram_t *gather(rail_t *rail, const btl_ib_tx_t *tx)
{
    datagram_t *d = malloc(sizeof(*d) + tx->size);
    uint32_t at = 0;

    memset(d, 0, sizeof(*d));
    d->dst = ADDRESS(tx->to);
    d->src = rail_source_to(rail, d->dst);
    if (is_spare(rail, tx)) {
        const uint32_t port = tx->flow - rail->base.attr.flows;
        if (rail->ports[port] == 0) {
            rail_flow_renew(&rail->base, tx->flow, 0);
        }
        d->src = rail->ports[port];
    }
    d->from = rail->proc->index;
    d->src_life = rail->proc->life;
    d->flow = tx->flow;
    d->pair = is_spare(rail, tx) ? 2 + tx->flow - rail->base.attr.flows
              : tx->flow == 0    ? tx->bulk
                                 : tx->flow == 1; /* as udp's */
    d->codepoint = tx->ect ? BTL_IB_CODEPOINT_ECT0 : BTL_IB_CODEPOINT_NOT_ECT;
    d->genuine = true;
    d->sent_at = rail->sim->now;
    d->burst = rail->sim->bursts;
    d->burst_bytes = rail->sim->burst_bytes;
    d->size = tx->size;
    for (uint32_t i = 0; i < tx->niov; i++) {
        memcpy(d->data + at, tx->iov[i].iov_base, tx->iov[i].iov_len);
        at += (uint32_t) tx->iov[i].iov_len;
    }
    return d;
}

static pending_tx_t *find_completing(rail_t *rail, uint64_t number)
{
    pending_tx_t *tx = rail->tx;

    while (tx != NULL && tx->number != number) {
        tx = tx->next;
    }
    return tx;
}

/* `value` holds an address of the rail, which tells whose it is, and its id, `arg` a number: the
 * memory may be another's by now. */
static void completed(sim_t *sim, void *arg, uint64_t value)
{
    const uint32_t place = (uint32_t) (value >> 32) % (sim->nprocs * sim->nrails);
    rail_t *rail = sim->procs[place / sim->nrails].rails[place % sim->nrails];

    if (rail == NULL || rail->id != (uint32_t) value) {
        return;
    }
    pending_tx_t *tx = find_completing(rail, (uint64_t) (uintptr_t) arg);
    if (tx == NULL || tx->completed) {
        return;
    }
    do { /* one completion tells of all sends before it */
        rail->tx_completed += !tx->completed;
        tx->completed = true;
        tx = tx->next;
    } while (tx != NULL && rail->proc->signals > 1);
    proc_wake(rail->proc, sim->now + 200);
}

static void keep_until_sent(rail_t *rail, const btl_ib_tx_t *tx, const datagram_t *d)
{
    sim_t *sim = rail->sim;
    pending_tx_t *pending = malloc(sizeof(*pending) + tx->size);
    const fault_t *late = fault_active(sim, F_TX_LATE, rail->proc->index, rail->proc->index);
    uint64_t delay = rng_range(&sim->rng, 300, 2000);

    pending->number = ++rail->tx_numbers;
    pending->context = tx->context;
    pending->niov = tx->niov;
    pending->size = tx->size;
    memcpy(pending->iov, tx->iov, sizeof(pending->iov));
    memcpy(pending->snapshot, d->data, tx->size);
    pending->completed = false;
    pending->next = rail->tx;
    rail->tx = pending;
    rail->tx_count++;
    if (++rail->unsignalled < rail->proc->signals) {
        return;
    }
    rail->unsignalled = 0;
    if (late != NULL && rng_chance(&sim->rng, late->ppm)) {
        fault_applied(sim, F_TX_LATE);
        delay = rng_log(&sim->rng, 1000, late->value);
    }
    sim_at(sim, sim->now + delay, completed, (void *) (uintptr_t) pending->number,
           (uint64_t) rail->address << 32 | rail->id);
}

enum { BURST_COUNT = 64, BURST_BYTES = 65507 };

/* Begins a burst: with segmentation offload the kernel takes datagrams to one peer as one piece, no
 * longer than a datagram of IP can be. Returns how many of `count` there are in it. */
static int begin_burst(const rail_t *rail, const btl_ib_tx_t *tx, int count)
{
    sim_t *sim = rail->sim;
    const int run = btl_ib_gso_run(tx, count < BURST_COUNT ? count : BURST_COUNT, BURST_BYTES);

    sim->bursts++;
    sim->burst_bytes = 0;
    for (int i = 0; i < run && run > 1 && rail->base.attr.gso_bytes > 0; i++) {
        sim->burst_bytes += tx[i].size;
    }
    return run;
}

/* Why the transport would not take the next datagram, or 0. */
static int obstacle(rail_t *rail, const btl_ib_tx_t *tx)
{
    static const struct {
        fault_kind_t kind;
        int error;
    } faults[] = {{F_TX_EAGAIN, EAGAIN}, {F_TX_ENOBUFS, ENOBUFS}};
    sim_t *sim = rail->sim;
    uint32_t self = rail->proc->index;

    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        const fault_t *fault = fault_active(sim, faults[i].kind, self, self);
        bool ours = fault != NULL && (fault->value == 0 || fault->value == rail->index + 1);
        if (ours && rng_chance(&sim->rng, fault->ppm)) {
            fault_applied(sim, faults[i].kind);
            rail->proc->no_buffers |= faults[i].error == ENOBUFS;
            return faults[i].error;
        }
    }
    const fault_t *fault = fault_active(sim, F_GSO_ENOBUFS, self, self);
    if (fault != NULL && sim->burst_bytes > fault->value) {
        fault_applied(sim, F_GSO_ENOBUFS);
        return ENOBUFS;
    }
    fault = fault_active(sim, F_TX_EMSGSIZE, self, self);
    if (fault != NULL && tx->size > fault->value) {
        fault_applied(sim, F_TX_EMSGSIZE);
        return EMSGSIZE;
    }
    if (tx->size > rail->base.attr.inline_size && rail->tx_count >= rail->base.attr.tx_depth) {
        fault_applied(sim, F_TX_DEPTH);
        return EAGAIN;
    }
    return rail->failed || rail->down ? ENETDOWN : 0;
}

/* A copy of a CLOSE may leave when its connection was made again, and closed again: it says nothing
 * of that. Connections that the peer does not know, as after both, say in a CONNECT which one it
 * is. */
static bool closes_an_earlier(link_t *link, const datagram_t *d)
{
    btl_ib_wire_connect_t connect;

    if ((d->data[0] & 0xf) != BTL_IB_TYPE_CLOSE || !(d->data[1] & BTL_IB_FLAG_CONNECT)) {
        return false;
    }
    memcpy(&connect, d->data + sizeof(btl_ib_wire_header_t), sizeof(connect));
    const uint32_t epoch = BTL_IB_LE32(connect.epoch);
    if ((int32_t) (epoch - link->closed_epoch) < 0) {
        return true;
    }
    link->closed_epoch = epoch;
    return false;
}

/* `error`: the path does not let it through, which is for the engine as if it had been lost. */
static void send_one(rail_t *rail, const btl_ib_tx_t *tx, int error)
{
    sim_t *sim = rail->sim;
    datagram_t *d = gather(rail, tx);

    d->to = d->dst / sim->nrails % sim->nprocs; /* see rail_open() */
    if (sim->self_test) {
        self_test_wire(d->data, d->size);
    }
    d->rail = wiretap(rail->proc, rail->index, d->to, tx->channel, d->data, d->size);
    d->dst_life = proc_link(rail->proc, d->to, d->rail)->peer_life;
    link_t *link = proc_link(rail->proc, d->to, d->rail);
    d->closings = closes_an_earlier(link, d) ? 0 : link->closings;
    rail->sent[d->dst] = quote_of(d->data, d->size);
    if (error != 0) {
        free(d);
        return;
    }
    if (tx->size > rail->base.attr.inline_size) {
        keep_until_sent(rail, tx, d);
    }
    net_send(sim, d);
}

static int rail_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    rail_t *rail = (rail_t *) t;
    sim_t *sim = rail->sim;
    uint32_t self = rail->proc->index;
    int take = n;
    int joined = 0;

    if (n < 1 || rail->stopped) {
        sim_fail(sim, "p%u sends a batch of %d%s", self, n, rail->stopped ? " after stop()" : "");
    }
    const fault_t *fault = fault_active(sim, F_TX_PARTIAL, self, self);
    if (fault != NULL && rng_chance(&sim->rng, fault->ppm)) {
        take = (int) rng_range(&sim->rng, 0, (uint64_t) n - 1);
        fault_applied(sim, F_TX_PARTIAL);
    }
    if (take > (int) t->attr.max_batch) {
        take = (int) t->attr.max_batch;
    }
    for (int i = 0; i < take; i++) {
        check_tx(rail, &batch[i]);
        joined = joined > 0 ? joined : begin_burst(rail, &batch[i], take - i);
        joined--;
        *error = obstacle(rail, &batch[i]);
        if (*error == EMSGSIZE || *error == ENETDOWN) {
            send_one(rail, &batch[i], *error);
        }
        if (*error != 0) {
            return i;
        }
        send_one(rail, &batch[i], 0);
    }
    if (take < n) {
        *error = EAGAIN;
    }
    return take;
}

static void give_sent(rail_t *rail, btl_ib_event_t *event)
{
    pending_tx_t **at = &rail->tx;

    while (!(*at)->completed) {
        at = &(*at)->next;
    }
    pending_tx_t *tx = *at;
    uint32_t offset = 0;
    for (uint32_t i = 0; i < tx->niov; i++) {
        if (memcmp(tx->iov[i].iov_base, tx->snapshot + offset, tx->iov[i].iov_len) != 0) {
            sim_fail(rail->sim, "p%u changed memory of a send before its SENT event",
                     rail->proc->index);
        }
        offset += (uint32_t) tx->iov[i].iov_len;
    }
    *event = (btl_ib_event_t){.type = BTL_IB_EVENT_SENT, .context = tx->context};
    *at = tx->next;
    free(tx);
    rail->tx_count--;
    rail->tx_completed--;
}

/* Does it show that its sender knows whom it answers? A first datagram names no connection. */
static bool is_answer(const datagram_t *d)
{
    uint32_t connection;

    if (d->size < sizeof(btl_ib_wire_header_t)) {
        return false;
    }
    memcpy(&connection, d->data + offsetof(btl_ib_wire_header_t, connection), sizeof(connection));
    return connection != 0 || (d->data[0] & 0xf) == BTL_IB_TYPE_PATH_RESPONSE;
}

static void heard(rail_t *rail, const datagram_t *d)
{
    proc_t *proc = rail->proc;

    if (!d->genuine || d->from >= rail->sim->nprocs) {
        return;
    }
    link_t *link = proc_link(proc, d->from, d->rail);
    if (d->src_life != link->peer_life || d->dst_life != proc->life) {
        return;
    }
    if (d->sent_at >= link->made_at || link->made_at == 0) {
        link->heard_at = rail->sim->now;
        link->heard_busy = proc_busy(proc);
        link->answered = link->answered || is_answer(d);
    }
    if ((d->data[0] & 0xf) == BTL_IB_TYPE_CLOSE && d->closings > link->closings_heard) {
        link->closings_heard = d->closings;
        link->close_heard_at = rail->sim->now;
        link->made_at = rail->sim->now; /* what is sent from now on has no excuse in that CLOSE */
    }
}

static void give_datagram(rail_t *rail, btl_ib_event_t *event)
{
    datagram_t *d = rail->rx_first;
    btl_ib_addr_t from = BTL_IB_ADDR_UNKNOWN;
    uint32_t head = 0;
    uint64_t pair = 0;

    rail->rx_first = d->next;
    if (rail->rx_first == NULL) {
        rail->rx_last = &rail->rx_first;
    }
    rail->rx_count--;
    rail->held++;
    if (rail->base.attr.knows_source && d->src < rail->refs_cap && rail->refs[d->src] > 0) {
        from = HANDLE(d->src);
    }
    d->held_by = rail;
    memcpy(&head, d->data, d->size < 4 ? d->size : 4);
    if (d->size >= sizeof(btl_ib_wire_header_t)) {
        memcpy(&pair, d->data + offsetof(btl_ib_wire_header_t, seq), sizeof(pair));
    }
    pair = BTL_IB_LE64(pair);
    sim_trace(rail->sim, T_RX, rail->proc->index, d->from, __builtin_bswap32(BTL_IB_LE32(head)),
              pair << 32 | pair >> 32, d->size, rail->sim->now - d->sent_at);
    heard(rail, d);
    if (d->from < rail->sim->nprocs) {
        wiretap_arrived(rail->proc, d->rail, d->from, d->data, d->size);
    }
    *event = (btl_ib_event_t){
        .type = BTL_IB_EVENT_RECV,
        .size = d->size,
        .from = from,
        .codepoint = rail->tells_codepoints ? d->codepoint : BTL_IB_CODEPOINT_NOT_ECT,
        .data = d->data,
        .buffer = d,
    };
    rail->tells_codepoints =
        rail->tells_codepoints || (rail->base.attr.ecn && d->size >= BTL_IB_ECT_LEAST);
    rail->proc->received_in_progress++;
}

static void give_refusal(rail_t *rail, btl_ib_event_t *event)
{
    refusal_t *refusal = rail->refusals;

    rail->refusals = refusal->next;
    *event = (btl_ib_event_t){
        .type = BTL_IB_EVENT_REFUSED,
        .error = ECONNREFUSED,
        .from = BTL_IB_ADDR_UNKNOWN,
    };
    if (rail->sim->unreachable) {
        event->type = BTL_IB_EVENT_UNREACHABLE;
        event->error = EHOSTUNREACH;
    }
    if (refusal->size > 0) {
        event->type = BTL_IB_EVENT_PATH_MTU;
        event->error = 0;
        event->size = refusal->size;
    }
    if (refusal->address < rail->refs_cap && rail->refs[refusal->address] > 0) {
        event->from = HANDLE(refusal->address);
    }
    rail->proc->forged += refusal->forged;
    event->quoted_size = (uint8_t) refusal->quote.size;
    memcpy(event->quoted, refusal->quote.bytes, refusal->quote.size);
    free(refusal);
}

static int rail_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    rail_t *rail = (rail_t *) t;
    int n = 0;

    while (n < max) {
        if (rail->failed && !rail->failure_told) {
            rail->failure_told = true;
            events[n++] = (btl_ib_event_t){.type = BTL_IB_EVENT_FAILED, .error = EIO};
        } else if (rail->down != rail->down_told) {
            rail->down_told = rail->down;
            events[n++] = (btl_ib_event_t){.type = rail->down ? BTL_IB_EVENT_DOWN : BTL_IB_EVENT_UP,
                                           .error = rail->down ? ENETDOWN : 0};
        } else if (device_pending(rail->device) && rng_chance(&rail->sim->rng, 500000)) {
            device_give(rail->device, &events[n++]);
        } else if (rail->tx_completed > 0) {
            give_sent(rail, &events[n++]);
        } else if (rail->refusals != NULL) {
            give_refusal(rail, &events[n++]);
        } else if (rail->rx_first != NULL) {
            give_datagram(rail, &events[n++]);
        } else if (device_pending(rail->device)) {
            device_give(rail->device, &events[n++]);
        } else {
            break;
        }
    }
    return n;
}

static void rail_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    rail_t *rail = (rail_t *) t;

    for (int i = 0; i < n; i++) {
        datagram_t *d = buffers[i];
        if (d->held_by != rail) {
            sim_fail(rail->sim, "p%u reposts a buffer that it does not hold", rail->proc->index);
        }
        d->held_by = NULL;
        rail->held--;
        rail->rx_bytes -= d->size + 256u;
        memset(d->data, 0xdd, d->size);
        free(d);
    }
}

static int rail_addr_add(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr)
{
    rail_t *rail = (rail_t *) t;
    uint32_t address;

    if (len != rail->base.address_len) {
        return -EINVAL;
    }
    memcpy(&address, bytes, sizeof(address));
    if (address >= rail->sim->addresses) {
        return -EINVAL;
    }
    if (rail->sim->no_addresses) {
        fault_applied(rail->sim, F_NO_MEMORY);
        return -ENOMEM;
    }
    if (address >= rail->refs_cap) {
        uint32_t cap = rail->sim->addresses + 64;
        rail->refs = realloc(rail->refs, cap * sizeof(*rail->refs));
        rail->sent = realloc(rail->sent, cap * sizeof(*rail->sent));
        memset(rail->refs + rail->refs_cap, 0, (cap - rail->refs_cap) * sizeof(*rail->refs));
        memset(rail->sent + rail->refs_cap, 0, (cap - rail->refs_cap) * sizeof(*rail->sent));
        rail->refs_cap = cap;
    }
    rail->refs[address]++;
    *addr = HANDLE(address);
    return 0;
}

static void rail_addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    rail_t *rail = (rail_t *) t;
    const uint32_t address = rail_address_of(rail, addr);

    if (--rail->refs[address] == 0 && device_uses(rail->device, NULL, address)) {
        sim_fail(rail->sim, "p%u removes an address with operations under way", rail->proc->index);
    }
}

static int rail_mem_register(btl_ib_transport_t *t, void *base, size_t size, void **handle)
{
    rail_t *rail = (rail_t *) t;

    *handle = NULL;
    if (t->attr.registered_page == 0) {
        return 0;
    }
    if ((uintptr_t) base % t->attr.registered_page != 0 || size % t->attr.registered_page != 0) {
        sim_fail(rail->sim, "p%u registers %zu bytes that are not whole pages", rail->proc->index,
                 size);
    }
    const fault_t *fault =
        fault_active(rail->sim, F_NO_MEMORY, rail->proc->index, rail->proc->index);
    if (fault != NULL && rng_chance(&rail->sim->rng, fault->ppm)) {
        fault_applied(rail->sim, F_NO_MEMORY);
        return -ENOMEM;
    }
    region_t *region = malloc(sizeof(*region));
    *region = (region_t){.next = rail->regions, .base = base, .size = size};
    rail->regions = region;
    *handle = region;
    return 0;
}

static void rail_mem_deregister(btl_ib_transport_t *t, void *handle)
{
    rail_t *rail = (rail_t *) t;
    region_t **at = &rail->regions;

    if (t->attr.registered_page == 0 && handle == NULL) {
        return;
    }
    while (*at != NULL && *at != handle) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        sim_fail(rail->sim, "p%u deregisters what is not registered", rail->proc->index);
    }
    region_t *region = *at;
    rail_check_free(rail, region->base, region->size);
    *at = region->next;
    free(region);
}

static uint32_t rail_source(const btl_ib_transport_t *t, const btl_ib_event_t *event,
                            uint8_t address[BTL_IB_ADDR_BYTES])
{
    const datagram_t *d = event->buffer;

    if (d->src >= ((const rail_t *) t)->sim->addresses) {
        return 0;
    }
    memset(address, 0, t->address_len);
    memcpy(address, &d->src, sizeof(d->src));
    return t->address_len;
}

static uint32_t rail_rewritten(const btl_ib_transport_t *t, const btl_ib_event_t *event,
                               const void *published, size_t len,
                               uint8_t address[BTL_IB_ADDR_BYTES], uint8_t *flow)
{
    const datagram_t *d = event->buffer;

    *flow = t->attr.flows < 3 ? 0 : d->pair ? 1 : 2; /* as the udp transport does */
    return len == t->address_len ? rail_source(t, event, address) : 0;
}

static bool rail_from_host(const btl_ib_transport_t *t, const btl_ib_event_t *event,
                           btl_ib_addr_t addr)
{
    const sim_t *sim = ((const rail_t *) t)->sim;
    const rail_t *peer = sim->bound[ADDRESS(addr)];
    const uint32_t src = ((const datagram_t *) event->buffer)->src;

    bool sends = false;

    for (uint32_t i = 0; peer != NULL && i <= SIM_PATHS; i++) {
        sends = sends || (peer->ports[i] != 0 && src == peer->ports[i]);
    }
    return peer != NULL && (sends || (sim->one_host && peer->routed && src == peer->outside));
}

static void rail_bind(rail_t *rail, uint32_t address)
{
    sim_t *sim = rail->sim;
    const uint32_t row = sim->nprocs * sim->nrails;

    if (address >= sim->bound_cap) {
        uint32_t cap = (address / row + 4) * row;
        sim->bound = realloc(sim->bound, cap * sizeof(rail_t *));
        memset(sim->bound + sim->bound_cap, 0, (cap - sim->bound_cap) * sizeof(rail_t *));
        sim->bound_cap = cap;
    }
    if (address / row >= sim->addresses / row) {
        sim->addresses = (address / row + 1) * row;
    }
    memcpy(rail->base.address, &address, sizeof(address));
    rail->address = address;
    sim->bound[address] = rail;
}

void rail_route(rail_t *rail)
{
    const uint32_t inside = rail->address;

    rail_bind(rail, rail->sim->addresses + rail->proc->index * rail->sim->nrails + rail->index);
    rail->routed = true;
    rail->unpublished = true;
    rail->outside = rail->address;
    rail->address = inside;
    memcpy(rail->base.address, &inside, sizeof(inside));
}

void rail_unroute(rail_t *rail)
{
    rail->routed = false;
    rail->sim->bound[rail->outside] = NULL;
}

static bool rail_rebind(btl_ib_transport_t *t)
{
    rail_t *rail = (rail_t *) t;
    const bool moves = rail->moves;

    if (moves) {
        rail_bind(rail, rail->sim->addresses + rail->proc->index * rail->sim->nrails + rail->index);
    }
    rail->moves = false;
    return moves;
}

void rail_lose_address(rail_t *rail)
{
    rail->sim->bound[rail->address] = NULL;
    rail->moves = true;
    rail->unpublished = true;
    fault_applied(rail->sim, F_DEVICE);
}

static int rail_wait_fd(btl_ib_transport_t *t)
{
    return -1;
}

static void release_traffic(rail_t *rail)
{
    while (rail->rx_first != NULL) {
        datagram_t *d = rail->rx_first;
        rail->rx_first = d->next;
        free(d);
    }
    while (rail->tx != NULL) {
        pending_tx_t *tx = rail->tx;
        rail->tx = tx->next;
        free(tx);
    }
    while (rail->refusals != NULL) {
        refusal_t *refusal = rail->refusals;
        rail->refusals = refusal->next;
        free(refusal);
    }
}

static void rail_stop(btl_ib_transport_t *t)
{
    rail_t *rail = (rail_t *) t;

    release_traffic(rail);
    device_stop(rail->device);
    rail->stopped = true;
    rail->sim->bound[rail->address] = NULL;
    if (rail->routed) {
        rail->sim->bound[rail->outside] = NULL;
    }
}

static void rail_close(btl_ib_transport_t *t)
{
    rail_t *rail = (rail_t *) t;

    if (!rail->stopped || rail->held != 0) {
        sim_fail(rail->sim,
                 "p%u closes a transport that was not stopped, or holds %u of its buffers",
                 rail->proc->index, rail->held);
    }
    if (rail->regions != NULL) {
        sim_fail(rail->sim, "p%u closes a transport with memory still registered",
                 rail->proc->index);
    }
    for (uint32_t i = 0; i < rail->refs_cap; i++) {
        if (rail->refs[i] != 0) {
            sim_fail(rail->sim, "p%u closes a transport and has not removed address %u",
                     rail->proc->index, i);
        }
    }
    if (rail->proc->rails[rail->index] == rail) { /* no other took its place */
        rail->proc->rails[rail->index] = NULL;
    }
    device_close(rail->device);
    free(rail->refs);
    free(rail->sent);
    free(rail);
}

static bool rail_address_text(const void *bytes, size_t len, char *out, size_t out_len)
{
    uint32_t address;

    memcpy(&address, bytes, sizeof(address));
    snprintf(out, out_len, "address %u", address);
    return true;
}

static const btl_ib_transport_ops_t rail_ops = {
    .send = rail_send,
    .from_host = rail_from_host,
    .flow_renew = rail_flow_renew,
    .poll = rail_poll,
    .repost = rail_repost,
    .addr_add = rail_addr_add,
    .addr_remove = rail_addr_remove,
    .rebind = rail_rebind,
    .address_text = rail_address_text,
    .mem_register = rail_mem_register,
    .mem_deregister = rail_mem_deregister,
    .path_datagram = rail_path,
    .wait_fd = rail_wait_fd,
    .source = rail_source,
    .rewritten = rail_rewritten,
    .stop = rail_stop,
    .close = rail_close,
};

/*
 * `address` may be one that an earlier life of the process had; UINT32_MAX: a new one. Addresses
 * are given out in rows of one for each rail of each process, so that one tells whose it is.
 */
rail_t *rail_open(proc_t *proc, uint32_t index, uint32_t address)
{
    sim_t *sim = proc->sim;
    uint32_t row = sim->nprocs * sim->nrails;
    uint32_t place = proc->index * sim->nrails + index;

    if (address == UINT32_MAX) {
        address = place;
        for (uint32_t life = 1; life < proc->life; life++) {
            address += row;
        }
    }
    rail_t *rail = calloc(1, sizeof(*rail));
    rail->ops = rail_ops;
    rail->base.attr = *proc_attr(proc, index);
    rail->ops.rdma = rail->base.attr.rdma ? &device_ops : NULL;
    rail->base.ops = &rail->ops;
    rail->base.address_len = 12;
    memcpy(rail->base.name, "sim", 4);
    rail->sim = sim;
    rail->proc = proc;
    rail->index = index;
    rail->id = (uint32_t) rng_next(&sim->rng);
    rail->rx_last = &rail->rx_first;
    rail->device = device_open(proc, rail, address, rail->id);
    rail_bind(rail, address);
    proc->rails[index] = rail;
    return rail;
}

void rail_print(FILE *out, const rail_t *rail)
{
    const btl_ib_transport_attr_t *attr = &rail->base.attr;
    char queues[512];

    (void) btl_ib_queues_format(&rail->proc->published[rail->index].queues, queues, sizeof(queues));
    fprintf(out,
            "  rail    p%u rail %u: datagrams of %u, inline %u, pieces %u, batch %u, gso %u, "
            "depth %u, headroom %u, page %u%s%s%s%s, queues %s\n",
            rail->proc->index, rail->index, attr->max_datagram, attr->inline_size, attr->max_iov,
            attr->max_batch, attr->gso_bytes, attr->tx_depth, attr->headroom, attr->registered_page,
            attr->bulk_lane ? ", bulk lane" : "", attr->knows_source ? ", sources" : "",
            attr->rdma ? ", rdma" : "", attr->ecn ? ", ecn" : "", queues);
}

btl_ib_transport_t *rail_transport(rail_t *rail)
{
    return &rail->base;
}

void rail_deliver(rail_t *rail, datagram_t *d)
{
    sim_t *sim = rail->sim;
    bool full = rail->failed || rail->down
                || rail->rx_count + rail->held >= rail->base.attr.rx_depth
                || (sim->rx_bytes_max != 0 && !sim->resting
                    && rail->rx_bytes + d->size + 256u > sim->rx_bytes_max);

    if (full || d->size > rail->base.attr.max_datagram) {
        fault_applied(sim, F_RX_OVERFLOW);
        sim_trace(sim, T_DROP, d->from, d->to, F_RX_OVERFLOW, 0, d->size, 0);
        free(d);
        return;
    }
    proc_look(rail->proc);
    d->next = NULL;
    *rail->rx_last = d;
    rail->rx_last = &d->next;
    rail->rx_count++;
    rail->rx_bytes += d->size + 256u;
    proc_wake(rail->proc, sim->now + 100);
    proc_stir(rail->proc);
}

quote_t quote_of(const uint8_t *data, uint32_t size)
{
    quote_t quote = {.size = size < sizeof(quote.bytes) ? size : sizeof(quote.bytes)};

    memcpy(quote.bytes, data, quote.size);
    return quote;
}

void rail_told(rail_t *rail, uint32_t address, uint32_t size, quote_t quote, bool forged)
{
    refusal_t *refusal = malloc(sizeof(*refusal));

    *refusal = (refusal_t){
        .next = rail->refusals,
        .address = address,
        .size = size,
        .forged = forged,
        .quote = quote,
    };
    rail->refusals = refusal;
    proc_wake(rail->proc, rail->sim->now + 100);
}

void rail_refused(rail_t *rail, uint32_t address, quote_t quote)
{
    rail_told(rail, address, 0, quote, false);
}

void rail_narrowed(rail_t *rail, uint32_t address, uint32_t size)
{
    rail_told(rail, address, size, rail_quote(rail, address), false);
}

quote_t rail_quote(const rail_t *rail, uint32_t address)
{
    const quote_t none = {0};

    return address < rail->refs_cap ? rail->sent[address] : none;
}

void rail_fail_device(rail_t *rail)
{
    rail->failed = true;
    fault_applied(rail->sim, F_DEVICE);
    proc_wake(rail->proc, rail->sim->now + 100);
}

bool rail_given_up(const rail_t *rail)
{
    const proc_t *proc = rail->proc;
    const uint64_t time = (rail->sim->now - rail->down_at) / 1000 + proc->leaped
                          + 2 * proc->clock_grain; /* as much of it as the engine may see */

    return rail->given_up || (rail->down && time >= proc->config.down_limit);
}

void rail_set_port(rail_t *rail, bool up)
{
    rail->given_up = rail_given_up(rail);
    rail->down_at = rail->down ? rail->down_at : rail->sim->now;
    rail->down = !up;
    fault_applied(rail->sim, F_DEVICE);
    proc_wake(rail->proc, rail->sim->now + 100);
}

const proc_t *rail_proc(const rail_t *rail)
{
    return rail->proc;
}

bool rail_failed(const rail_t *rail)
{
    return rail->failed;
}

bool rail_pending(const rail_t *rail)
{
    if (rail->failure_told) {
        return false;
    }
    return rail->down != rail->down_told || rail->rx_first != NULL || rail->tx_completed > 0
           || rail->refusals != NULL || device_pending(rail->device) || rail->failed;
}

uint32_t rail_held(const rail_t *rail)
{
    return rail->held;
}

bool rail_unpublished(const rail_t *rail)
{
    return rail->unpublished;
}

uint32_t rail_address(const rail_t *rail)
{
    return rail->address;
}

device_t *rail_device(rail_t *rail)
{
    return rail->device;
}

void rail_check_free(rail_t *rail, const uint8_t *base, size_t size)
{
    for (const pending_tx_t *tx = rail->tx; tx != NULL; tx = tx->next) {
        for (uint32_t i = 0; i < tx->niov; i++) {
            const uint8_t *at = tx->iov[i].iov_base;
            if (at < base + size && at + tx->iov[i].iov_len > base) {
                sim_fail(rail->sim, "p%u gives memory back that a send still uses",
                         rail->proc->index);
            }
        }
    }
}
