/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define SIM_FAULT_NAME(name, text) #name,
#define SIM_FAULT_TEXT(name, text) text,
const char *const fault_names[F_COUNT] = {SIM_FAULTS(SIM_FAULT_NAME)};
const char *const fault_texts[F_COUNT] = {SIM_FAULTS(SIM_FAULT_TEXT)};

/* As one drop takes with segmentation offload on: a 64 KiB send cut up for an MTU of 1500. */
#define BURST_LENGTH 44u

fault_t *fault_add(sim_t *sim, fault_kind_t kind, uint64_t from, uint64_t to, uint32_t ppm,
                   uint64_t value)
{
    if (sim->nfaults == SIM_FAULTS_MAX) {
        sim_fail(sim, "the scenario has too many faults");
    }
    fault_t *fault = &sim->faults[sim->nfaults++];
    *fault = (fault_t){
        .kind = kind,
        .from = from,
        .to = to,
        .src = -1,
        .dst = -1,
        .ppm = ppm,
        .value = value,
    };
    return fault;
}

void fault_applied(sim_t *sim, fault_kind_t kind)
{
    sim->applied[kind]++;
}

static bool on_way(int wanted, uint32_t is)
{
    return wanted < 0 || (uint32_t) wanted == is;
}

static bool active(const sim_t *sim, const fault_t *fault, uint32_t src, uint32_t dst)
{
    if (sim->now < fault->from || sim->now >= fault->to) {
        return false;
    }
    return (on_way(fault->src, src) && on_way(fault->dst, dst))
           || (fault->both && on_way(fault->src, dst) && on_way(fault->dst, src));
}

fault_t *fault_active(sim_t *sim, fault_kind_t kind, uint32_t src, uint32_t dst)
{
    for (uint32_t i = 0; i < sim->nfaults; i++) {
        if (sim->faults[i].kind == kind && active(sim, &sim->faults[i], src, dst)) {
            return &sim->faults[i];
        }
    }
    return NULL;
}

static uint8_t type_of(const datagram_t *d)
{
    return d->data[0] & 0xf;
}

static bool is_control(const datagram_t *d)
{
    return type_of(d) > BTL_IB_TYPE_CHUNK || (d->data[1] & BTL_IB_FLAG_CONNECT);
}

static bool burst_hits(sim_t *sim, fault_t *fault)
{
    if (fault->left == 0 && rng_chance(&sim->rng, fault->ppm)) {
        fault->left = BURST_LENGTH;
    }
    if (fault->left == 0) {
        return false;
    }
    fault->left--;
    return true;
}

/* Does this fault lose the datagram? */
static bool loses(sim_t *sim, fault_t *fault, const datagram_t *d)
{
    switch (fault->kind) {
    case F_LOSS:
    case F_LOSS_ONE_WAY:
        return rng_chance(&sim->rng, fault->ppm);
    case F_LOSS_BURST:
        return burst_hits(sim, fault);
    case F_LOSS_GSO:
        return mix64(sim->seed ^ mix64(d->burst)) % 1000000 < fault->ppm;
    case F_GSO_HOLE:
        return d->burst_bytes > fault->value;
    case F_LOSS_ACK:
        return type_of(d) == BTL_IB_TYPE_ACK && rng_chance(&sim->rng, fault->ppm);
    case F_LOSS_CONTROL:
        return is_control(d) && rng_chance(&sim->rng, fault->ppm);
    case F_PARTITION:
    case F_PARTITION_ONE_WAY:
        return true;
    case F_HOLE:
        return d->size > fault->value;
    case F_FLOW:
        return d->flow == fault->value;
    case F_PAIR:
        return d->pair == fault->value;
    case F_RAIL:
        return d->src % sim->nrails == fault->value; /* which it really goes by, see rail_open() */
    case F_ECT_DROPPED:
        return d->codepoint == BTL_IB_CODEPOINT_ECT0;
    default:
        return false;
    }
}

static void trace_drop(sim_t *sim, const datagram_t *d, uint64_t why)
{
    const size_t at = offsetof(btl_ib_wire_header_t, seq);
    uint32_t head = 0, seq = 0;

    memcpy(&head, d->data, d->size < sizeof(head) ? d->size : sizeof(head));
    if (d->size >= at + sizeof(seq)) { /* it may be garbage */
        memcpy(&seq, d->data + at, sizeof(seq));
    }
    sim_trace(sim, T_DROP, d->from, d->to, why, BTL_IB_LE32(seq), d->size,
              __builtin_bswap32(BTL_IB_LE32(head)));
}

static bool lost(sim_t *sim, const datagram_t *d)
{
    if (sim->drop != NULL && sim->drop(sim, d)) {
        fault_applied(sim, F_LOSS);
        trace_drop(sim, d, F_LOSS);
        return true;
    }
    if (sim->hole != 0 && d->size > sim->hole) {
        fault_applied(sim, F_HOLE);
        trace_drop(sim, d, F_HOLE);
        return true;
    }
    for (uint32_t i = 0; i < sim->nfaults; i++) {
        fault_t *fault = &sim->faults[i];
        if (active(sim, fault, d->from, d->to) && loses(sim, fault, d)) {
            fault_applied(sim, fault->kind);
            trace_drop(sim, d, fault->kind);
            return true;
        }
    }
    return false;
}

/* Is it larger than what the path carries? Then no copy of it arrives either. */
static bool swallowed(sim_t *sim, const datagram_t *d)
{
    const fault_t *hole = fault_active(sim, F_HOLE, d->from, d->to);

    return (sim->hole != 0 && d->size > sim->hole) || (hole != NULL && d->size > hole->value);
}

datagram_t *datagram_copy(const datagram_t *d, uint32_t size)
{
    datagram_t *copy = malloc(sizeof(*copy) + size);

    memcpy(copy, d, sizeof(*copy) + (size < d->size ? size : d->size));
    if (size > d->size) {
        memset(copy->data + d->size, 0, size - d->size);
    }
    copy->size = size;
    copy->next = NULL;
    copy->held_by = NULL;
    return copy;
}

static void put32(datagram_t *d, size_t at, uint32_t value)
{
    value = BTL_IB_LE32(value);
    memcpy(d->data + at, &value, sizeof(value));
}

static uint32_t get32(const datagram_t *d, size_t at)
{
    uint32_t value;

    memcpy(&value, d->data + at, sizeof(value));
    return BTL_IB_LE32(value);
}

/*
 * Damage a header in a way that a receiver can see. What it cannot see (another tag, an ACK that is
 * off by one) is the business of the network's checksum, or of ours when there is one.
 */
static void corrupt_field(sim_t *sim, datagram_t *d, uint32_t which)
{
    uint64_t bits = rng_next(&sim->rng);

    switch (which) {
    case 0:
        d->data[offsetof(btl_ib_wire_header_t, token) + bits % 8] ^=
            (uint8_t) (1u << (bits >> 8) % 8);
        break;
    case 1: /* another version */
        d->data[0] ^= (uint8_t) (1u << (4 + bits % 4));
        break;
    case 2: /* a type that does not exist, or one that proves itself by another token */
        d->data[0] = (uint8_t) ((d->data[0] & 0xf0u) | (bits % 2 ? 0 : BTL_IB_TYPE_PATH_RESPONSE));
        break;
    case 3: /* flags that do not exist */
        d->data[1] |= (uint8_t) (bits % 2 ? 0x40 : 0x80);
        break;
    case 4:
        put32(d, offsetof(btl_ib_wire_header_t, connection), (uint32_t) bits | 0x40000000u);
        break;
    case 5: /* a sequence far outside any window */
        put32(d, offsetof(btl_ib_wire_header_t, seq),
              get32(d, offsetof(btl_ib_wire_header_t, seq)) + (1u << (17 + bits % 14)));
        break;
    case 6: /* an acknowledgement of what was never sent */
        put32(d, offsetof(btl_ib_wire_header_t, ack),
              get32(d, offsetof(btl_ib_wire_header_t, ack)) + (1u << (17 + bits % 14)));
        break;
    case 7: /* more credit than there are buffers */
        d->data[offsetof(btl_ib_wire_header_t, credits) + 1] ^= 0xff;
        break;
    case 8:
        d->data[offsetof(btl_ib_wire_header_t, length) + bits % 2] ^=
            (uint8_t) (1u << (bits >> 8) % 8);
        break;
    case 9: /* a channel that does not exist */
        d->data[offsetof(btl_ib_wire_header_t, channels)] |= (uint8_t) (bits % 2 ? 0x0f : 0xf0);
        break;
    default:                                    /* a time away of what is not echoed */
        if (!(d->data[1] & BTL_IB_FLAG_ECHO)) { /* encrypted it may be anything already */
            d->data[offsetof(btl_ib_wire_header_t, poll_gap) + bits % 2] ^= 1;
            break;
        }
        d->data[1] &= (uint8_t) ~BTL_IB_FLAG_ECHO;
        d->data[offsetof(btl_ib_wire_header_t, poll_gap) + bits % 2] |=
            (uint8_t) (1u << (bits >> 8) % 8);
        break;
    }
}

/* The first block of an ACK: acknowledges what was never sent, or grants what there is not. */
static bool corrupt_block(sim_t *sim, datagram_t *d, bool limit)
{
    size_t at = sizeof(btl_ib_wire_header_t)
                + (d->data[1] & BTL_IB_FLAG_CONNECT ? sizeof(btl_ib_wire_connect_t) : 0)
                + (limit ? offsetof(btl_ib_wire_ack_t, limit) : offsetof(btl_ib_wire_ack_t, ack));

    if (type_of(d) != BTL_IB_TYPE_ACK || d->size < at + sizeof(uint32_t)) {
        return false;
    }
    put32(d, at, get32(d, at) + (1u << rng_range(&sim->rng, 16, 30)));
    return true;
}

/* `which` of the ways to damage a datagram, SIM_CORRUPTIONS of them. */
static datagram_t *corrupt(sim_t *sim, datagram_t *d, uint32_t which)
{
    uint32_t size = d->size;

    fault_applied(sim, F_CORRUPT);
    d->genuine = false;
    if (which == 11) {
        size = (uint32_t) rng_range(&sim->rng, 1, d->size);
    } else if (which == 12) {
        size = d->size + (uint32_t) rng_range(&sim->rng, 1, 16);
    } else if (which > 12 && corrupt_block(sim, d, which == 14)) {
        return d;
    }
    if (size == d->size) {
        corrupt_field(sim, d, which <= 10 ? which : 0);
        return d;
    }
    datagram_t *other = datagram_copy(d, size);
    free(d);
    return other;
}

/* Bits that change after every checksum below ours was made: a few anywhere, or a row of them. */
static void flip(sim_t *sim, datagram_t *d)
{
    uint64_t bits = d->size * 8ull;
    uint64_t count = rng_range(&sim->rng, 1, 8);
    bool row = rng_chance(&sim->rng, 300000);
    uint64_t first = rng_range(&sim->rng, 0, bits - 1);

    fault_applied(sim, F_FLIP);
    d->genuine = false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bit = i == 0 ? first : row ? first + i : rng_range(&sim->rng, first, bits - 1);
        if (bit < bits && (i == 0 || bit != first)) {
            d->data[bit / 8] ^= (uint8_t) (1u << bit % 8);
        }
    }
}

/* What a router that does not know ECN, or misuses its bits, makes of them. */
static void change_codepoint(sim_t *sim, datagram_t *d)
{
    static const struct {
        fault_kind_t kind;
        btl_ib_codepoint_t to;
    } changes[] = {
        {F_MARK_ALL, BTL_IB_CODEPOINT_CE},
        {F_ECT_CHANGED, BTL_IB_CODEPOINT_ECT1},
        {F_ECT_CLEARED, BTL_IB_CODEPOINT_NOT_ECT},
    };

    for (size_t i = 0; i < 3 && d->codepoint != BTL_IB_CODEPOINT_NOT_ECT; i++) {
        if (fault_active(sim, changes[i].kind, d->from, d->to) != NULL) {
            fault_applied(sim, changes[i].kind);
            d->codepoint = changes[i].to;
        }
    }
}

static void arrive(sim_t *sim, void *arg, uint64_t value)
{
    datagram_t *d = arg;
    const bool rejected = sim->reject != NULL && sim->reject(sim, d);
    rail_t *rail = d->dst < sim->addresses && !rejected ? sim->bound[d->dst] : NULL;

    change_codepoint(sim, d);
    sim->in_flight--;
    if (sim->out != NULL && lost(sim, d)) { /* behind the links, whose time it took */
        free(d);
        return;
    }
    if (rail != NULL) {
        rail_deliver(rail, d);
        return;
    }
    rail_t *back = d->src < sim->addresses ? sim->bound[d->src] : NULL;
    fault_applied(sim, F_RX_STARVED);
    if ((sim->refuses || rejected) && back != NULL) {
        fault_applied(sim, F_REFUSED);
        rail_refused(back, d->dst, quote_of(d->data, d->size));
    }
    free(d);
}

static void schedule(sim_t *sim, datagram_t *d, uint64_t delay)
{
    sim->in_flight++;
    if (sim->out != NULL && d->from < sim->nprocs) {
        links_send(sim, d, delay, arrive);
    } else {
        sim_at(sim, sim->now + delay, arrive, d, 0);
    }
}

enum { MARK_ABOVE = SIM_US(100) }; /* of queue of a bottleneck */

/* Queue before the receiver's link: value is its rate in Mbit/s; a tenth of a second at most. */
static bool bottleneck(sim_t *sim, const fault_t *fault, datagram_t *d, uint64_t *delay)
{
    uint64_t *free_at = &sim->link_free[d->to];
    uint64_t start = *free_at > sim->now ? *free_at : sim->now;

    if (start - sim->now > SIM_MS(2)) {
        return false;
    }
    if (start - sim->now > MARK_ABOVE && d->codepoint == BTL_IB_CODEPOINT_ECT0) {
        fault_applied(sim, F_MARK);
        d->codepoint = BTL_IB_CODEPOINT_CE;
    }
    *free_at = start + (d->size + 60u) * 8000u / fault->value;
    *delay += *free_at - sim->now;
    return true;
}

/* The way there: false if the datagram is lost, else how long it takes. */
static bool way(sim_t *sim, datagram_t *d, uint64_t *delay)
{
    fault_t *fault;

    *delay = sim->delay;
    fault = fault_active(sim, F_BOTTLENECK, d->from, d->to);
    if (fault != NULL) {
        fault_applied(sim, F_BOTTLENECK);
        if (!bottleneck(sim, fault, d, delay)) {
            trace_drop(sim, d, F_BOTTLENECK);
            return false;
        }
    }
    fault = fault_active(sim, F_JITTER, d->from, d->to);
    if (fault != NULL && rng_chance(&sim->rng, fault->ppm)) {
        fault_applied(sim, F_JITTER);
        *delay += rng_range(&sim->rng, 0, fault->value);
    }
    fault = fault_active(sim, F_REORDER, d->from, d->to);
    if (fault != NULL && rng_chance(&sim->rng, fault->ppm)) {
        fault_applied(sim, F_REORDER);
        *delay += rng_range(&sim->rng, 1, fault->value);
    }
    return true;
}

static void remember(sim_t *sim, const datagram_t *d)
{
    if (fault_active(sim, F_REPLAY, d->from, d->to) && rng_chance(&sim->rng, 200000)) {
        datagram_t **slot = &sim->replays[rng_range(&sim->rng, 0, SIM_REPLAYS - 1)];
        free(*slot);
        *slot = datagram_copy(d, d->size);
    }
}

/* Sends a datagram of a scenario that decides about each. */
static void send_by_fate(sim_t *sim, datagram_t *d)
{
    uint64_t copy;
    const uint64_t delay = small_fate(sim, d, &copy);

    if (copy != SIM_NEVER) {
        fault_applied(sim, F_DUPLICATE);
        schedule(sim, datagram_copy(d, d->size), copy);
    }
    if (delay == SIM_NEVER) {
        fault_applied(sim, F_LOSS);
        trace_drop(sim, d, F_LOSS);
        free(d);
        return;
    }
    if (delay != sim->delay) {
        fault_applied(sim, F_REORDER);
    }
    schedule(sim, d, delay);
}

void net_send(sim_t *sim, datagram_t *d)
{
    uint64_t delay;

    if (sim->by_fate) {
        send_by_fate(sim, d);
        return;
    }
    if (sim->tells_share && (d->data[0] & 0xf) == BTL_IB_TYPE_ACK) {
        d->data[offsetof(btl_ib_wire_header_t, tag)] = sim->share;
    }
    remember(sim, d);
    fault_t *fault = fault_active(sim, F_DUPLICATE, d->from, d->to);
    if (fault != NULL && rng_chance(&sim->rng, fault->ppm) && !swallowed(sim, d)) {
        fault_applied(sim, F_DUPLICATE);
        schedule(sim, datagram_copy(d, d->size), sim->delay + rng_log(&sim->rng, 1, fault->value));
    }
    if ((sim->out == NULL && lost(sim, d)) || !way(sim, d, &delay)) {
        free(d);
        return;
    }
    fault = fault_active(sim, F_CORRUPT, d->from, d->to);
    if (fault != NULL && rng_chance(&sim->rng, fault->ppm)) {
        uint64_t which =
            fault->value > 0 ? fault->value - 1 : rng_range(&sim->rng, 0, SIM_CORRUPTIONS - 1);
        d = corrupt(sim, d, (uint32_t) which);
    }
    fault = fault_active(sim, F_FLIP, d->from, d->to);
    if (fault != NULL && rng_chance(&sim->rng, fault->ppm)) {
        flip(sim, d);
    }
    schedule(sim, d, delay);
}

/* A datagram of random bytes, half of them with a header that looks right up to the token. */
void net_garbage(sim_t *sim, uint32_t to)
{
    proc_t *proc = &sim->procs[to];

    if (!proc->up) {
        return;
    }
    uint32_t size = (uint32_t) rng_log(&sim->rng, 1, proc->attr.max_datagram);
    datagram_t *d = calloc(1, sizeof(*d) + size);
    d->src = UINT32_MAX;
    d->dst = rail_address(proc->rails[0]);
    d->from = UINT32_MAX;
    d->to = to;
    d->sent_at = sim->now;
    d->size = size;
    for (uint32_t i = 0; i < size; i++) {
        d->data[i] = (uint8_t) rng_next(&sim->rng);
    }
    if (size >= sizeof(btl_ib_wire_header_t) && rng_chance(&sim->rng, 500000)) {
        uint16_t length = BTL_IB_LE16(size - sizeof(btl_ib_wire_header_t));
        d->data[0] = (uint8_t) (BTL_IB_WIRE_VERSION << 4 | rng_range(&sim->rng, 1, 5));
        d->data[1] &= BTL_IB_FLAGS_ALL;
        put32(d, offsetof(btl_ib_wire_header_t, connection), (uint32_t) rng_range(&sim->rng, 0, 3));
        memcpy(d->data + offsetof(btl_ib_wire_header_t, length), &length, sizeof(length));
        memset(d->data + offsetof(btl_ib_wire_header_t, poll_gap), 0, 2);
    }
    fault_applied(sim, F_GARBAGE);
    schedule(sim, d, sim->delay);
}

/* Something that another process sent. */
static quote_t quote_of_another(sim_t *sim, const proc_t *proc)
{
    quote_t quote = {0};

    for (uint32_t i = 0; i < sim->nprocs && quote.size == 0; i++) {
        for (uint32_t address = 0; address < sim->addresses && quote.size == 0; address++) {
            if (&sim->procs[i] != proc && sim->procs[i].rails[0] != NULL) {
                quote = rail_quote(sim->procs[i].rails[0], address);
            }
        }
    }
    return quote;
}

static quote_t forge(sim_t *sim, const proc_t *proc, quote_t right, forgery_t how)
{
    const size_t token = offsetof(btl_ib_wire_header_t, token);
    uint8_t flipped;
    quote_t quote = how == FORGERY_OTHER ? quote_of_another(sim, proc) : right;

    switch (how) {
    case FORGERY_OTHER:
        break;
    case FORGERY_TOKEN:
        flipped = (uint8_t) rng_range(&sim->rng, 1, 255);
        quote.bytes[token + rng_range(&sim->rng, 0, 7)] ^= flipped;
        break;
    case FORGERY_SHORT:
        quote.size = (uint32_t) rng_range(&sim->rng, 0, sizeof(quote.bytes) - 1);
        break;
    default:
        quote.size = sizeof(quote.bytes);
        for (uint32_t i = 0; i < quote.size; i++) {
            quote.bytes[i] = (uint8_t) rng_next(&sim->rng);
        }
    }
    return quote;
}

void net_forge(sim_t *sim, rail_t *rail, uint32_t address, forgery_t how)
{
    const proc_t *proc = rail_proc(rail);
    const quote_t right = rail_quote(rail, address);

    for (uint32_t size = 0; size <= 600; size += 600) {
        fault_applied(sim, F_FORGED);
        rail_told(rail, address, size, forge(sim, proc, right, how), true);
    }
}

datagram_t *net_copy(const datagram_t *d)
{
    return datagram_copy(d, d->size);
}

void net_again(sim_t *sim, const datagram_t *d)
{
    datagram_t *copy = net_copy(d);

    copy->genuine = false;
    fault_applied(sim, F_REPLAY);
    schedule(sim, copy, sim->delay + rng_log(&sim->rng, 1000, SIM_MS(1)));
}

void net_replay(sim_t *sim)
{
    datagram_t *old = sim->replays[rng_range(&sim->rng, 0, SIM_REPLAYS - 1)];

    if (old != NULL) {
        net_again(sim, old);
    }
}

void net_release(sim_t *sim)
{
    for (uint32_t i = 0; i < sim->heap_len; i++) {
        if (sim->heap[i].fn == arrive || links_is_event(sim->heap[i].fn)) {
            free(sim->heap[i].arg);
        }
    }
    for (uint32_t i = 0; i < SIM_REPLAYS; i++) {
        free(sim->replays[i]);
    }
}
