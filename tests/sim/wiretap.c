/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What is demanded of each datagram at the moment that an engine hands it to the transport: that it
 * is well-formed, fits the receiver's queues, uses no credit that the receiver has not granted, and
 * which message it carries (a send that was reported done must have been seen here).
 */

#include <stdlib.h>
#include <string.h>

#include "btl_ib_pool.h"
#include "sim.h"

static promise_t *promise_of(sim_t *sim, const proc_t *sender, uint32_t receiver, uint32_t rail)
{
    size_t at = ((size_t) sender->index * sim->nprocs + receiver) * sim->nrails + rail;

    if (sim->promises[at] == NULL) {
        sim->promises[at] = calloc(1, sizeof(promise_t));
        btl_ib_list_init(&sim->promises[at]->parts);
    }
    return sim->promises[at];
}

/* What it published; no queues: it was never started. */
static const btl_ib_queue_table_t *table_of(const proc_t *proc, uint32_t rail)
{
    return &proc->published[rail].queues;
}

/*
 * The highest limits that `receiver` told `sender` since both have their present connection. After
 * a restart or a close only the present connections count, and which of the two is ahead cannot be
 * seen from here: then nothing is known.
 */
static promise_t *current_promise(sim_t *sim, proc_t *sender, proc_t *receiver, uint32_t rail)
{
    promise_t *promise = promise_of(sim, sender, receiver->index, rail);

    if (!promise->known) {
        promise->known = true;
        for (uint32_t i = 0; i < BTL_IB_QUEUES_MAX; i++) {
            const btl_ib_queue_table_t *table = table_of(receiver, rail);
            uint32_t num = i < table->count ? table->q[i].num : 0;
            uint32_t init = table->q[i].init;
            promise->limit[i] = receiver->config.first_seq + (num < init ? num : init);
            promise->acked[i] = receiver->config.first_seq;
        }
    }
    bool first = sender->life == 1 && receiver->life == 1
                 && proc_link(sender, receiver->index, rail)->closings == 0
                 && proc_link(receiver, sender->index, rail)->closings == 0;
    return first ? promise : NULL;
}

static void note_limit(proc_t *granter, uint32_t rail, promise_t *promise, uint32_t channel,
                       uint32_t ack, uint32_t limit)
{
    const btl_ib_queue_table_t *table = table_of(granter, rail);

    if (channel >= table->count) {
        sim_fail(granter->sim, "p%u acknowledges channel %u, but has %u queues", granter->index,
                 channel, table->count);
    }
    if (table->q[channel].type != BTL_IB_QUEUE_PER_PEER) {
        return;
    }
    uint32_t open = limit - granter->config.first_seq - promise->arrived[channel];
    if (limit - ack > UINT16_MAX || (int32_t) open > (int32_t) table->q[channel].num) {
        sim_fail(granter->sim, "p%u has %u credits open on queue %u, but only %u buffers",
                 granter->index, open, channel, table->q[channel].num);
    }
    if ((int32_t) (limit - promise->limit[channel]) > 0) {
        promise->limit[channel] = limit;
    }
}

/* Only who published that it counts understands an ECN block. */
static void check_ecn(const proc_t *proc, const proc_t *peer, uint32_t rail)
{
    if (!proc->published[rail].ecn || !peer->published[rail].ecn) {
        sim_fail(proc->sim, "p%u sends p%u an ECN block", proc->index, peer->index);
    }
}

static void note_grants(proc_t *proc, proc_t *peer, uint32_t rail, const btl_ib_view_t *view)
{
    promise_t *promise = current_promise(proc->sim, peer, proc, rail);

    if (promise == NULL) {
        return;
    }
    if (view->flags & BTL_IB_FLAG_ACK) {
        note_limit(proc, rail, promise, view->ack_channel, view->ack, view->limit);
    }
    if (view->type == BTL_IB_TYPE_ACK) {
        btl_ib_ack_block_t block;
        uint32_t offset = 0;
        while (btl_ib_wire_next_block(view, &offset, &block)) {
            if (block.channel == BTL_IB_CHANNEL_ECN) {
                check_ecn(proc, peer, rail);
            } else if (!block.rnr) {
                note_limit(proc, rail, promise, block.channel, block.ack, block.limit);
            }
        }
    }
}

static void check_credit(proc_t *proc, proc_t *peer, uint32_t rail, const btl_ib_view_t *view)
{
    const btl_ib_queue_table_t *table = table_of(peer, rail);

    if (view->channel >= table->count) {
        sim_fail(proc->sim, "p%u sends on channel %u, but p%u has %u", proc->index, view->channel,
                 peer->index, table->count);
    }
    const promise_t *promise = current_promise(proc->sim, proc, peer, rail);
    if (promise != NULL && table->q[view->channel].type == BTL_IB_QUEUE_PER_PEER
        && (int32_t) (view->seq - promise->limit[view->channel]) >= 0) {
        sim_fail(proc->sim, "p%u sends sequence %u of channel %u, but p%u granted up to %u",
                 proc->index, view->seq, view->channel, peer->index, promise->limit[view->channel]);
    }
    /* Nothing is lost, nor known by SACK. Over another rail than its own a connection may meet a
     * peer that does not know it there yet. */
    bool strict = proc->sim->clean
                  || (proc->sim->resting && proc->sim->hole == 0
                      && btl_ib_engine_counters(proc->engine)->failovers == 0);
    if (promise != NULL && strict && table->q[view->channel].type == BTL_IB_QUEUE_SHARED
        && (int32_t) (view->seq + 1 - promise->acked[view->channel])
               > (int32_t) table->q[view->channel].max_pending) {
        sim_fail(proc->sim, "p%u has %u segments on the way on queue %u, at most %u are allowed",
                 proc->index, view->seq + 1 - promise->acked[view->channel], view->channel,
                 table->q[view->channel].max_pending);
    }
}

/* Which message is this a first transmission of a chunk of? UINT32_MAX if it cannot be told. */
static uint32_t chunk_of(proc_t *proc, uint32_t peer, uint32_t rail, const btl_ib_view_t *view)
{
    fragment_of_t *f;
    uint32_t id = UINT32_MAX;
    link_t *link = proc_link(proc, peer, rail);
    if (link->fragments == NULL) {
        link->fragments = calloc(SIM_FRAGMENTS, sizeof(*link->fragments));
    }
    f = &link->fragments[view->chunk.fragment % SIM_FRAGMENTS];
    if (view->chunk.offset == 0 && view->size >= sizeof(id)) {
        memcpy(&id, view->payload, sizeof(id));
        *f = (fragment_of_t){true, proc->life, view->chunk.fragment, id};
        return id;
    }
    bool same = f->used && f->life == proc->life && f->fragment == view->chunk.fragment;
    return same ? f->id : UINT32_MAX;
}

static bool is_of(const sim_t *sim, uint32_t id, const proc_t *from, uint32_t to)
{
    return id < sim->nmessages && sim->messages[id].src == from->index
           && sim->messages[id].dst == to;
}

static void note_chunk(proc_t *proc, uint32_t peer, uint32_t rail, const btl_ib_view_t *view)
{
    sim_t *sim = proc->sim;
    uint32_t id = chunk_of(proc, peer, rail, view);

    if (view->chunk.total < sizeof(id)) {
        proc->tiny_parts++;
    } else if (is_of(sim, id, proc, peer)) {
        sim->messages[id].handed += view->size;
        sim->messages[id].parts++;
        sim->messages[id].chunked = true;
    }
}

/* A whole message. */
static void note_message(proc_t *proc, uint32_t peer, const uint8_t *data, uint32_t size)
{
    sim_t *sim = proc->sim;
    uint32_t id;

    if (size < sizeof(id)) {
        proc->tiny_parts++;
        return;
    }
    memcpy(&id, data, sizeof(id));
    if (!is_of(sim, id, proc, peer)) {
        sim_fail(sim, "p%u sends p%u a segment that is no message of its", proc->index, peer);
    }
    sim->messages[id].handed += size;
    sim->messages[id].parts++;
    sim->messages[id].chunked = false;
}

/* One message alone is no BUNDLE. */
static void note_bundle(proc_t *proc, uint32_t peer, const btl_ib_view_t *view)
{
    btl_ib_bundled_t message;
    uint32_t offset = 0, count = 0;

    while (btl_ib_wire_next_message(view, &offset, &message)) {
        note_message(proc, peer, message.data, message.size);
        count++;
    }
    if (count < 2) {
        sim_fail(proc->sim, "p%u sends p%u a bundle of one", proc->index, peer);
    }
    fault_applied(proc->sim, F_BUNDLE);
}

static void note_messages(proc_t *proc, uint32_t peer, uint32_t rail, const btl_ib_view_t *view)
{
    if (view->type == BTL_IB_TYPE_DATA) {
        note_message(proc, peer, view->payload, view->size);
    } else if (view->type == BTL_IB_TYPE_CHUNK) {
        note_chunk(proc, peer, rail, view);
    } else if (view->type == BTL_IB_TYPE_BUNDLE) {
        note_bundle(proc, peer, view);
    }
}

static void *get_memory(void *context, size_t size)
{
    return calloc(1, size);
}

static void put_memory(void *context, void *memory)
{
    free(memory);
}

static const btl_ib_mem_t parts_memory = {get_memory, put_memory, NULL};

/* When all parts of a segment have been sent it is as if it had been sent as a whole. False:
 * others are missing. */
static bool put_together(proc_t *proc, uint32_t peer, uint32_t rail, btl_ib_view_t *view,
                         btl_ib_refragment_t **whole)
{
    promise_t *promise = promise_of(proc->sim, proc, peer, rail);

    if (promise->parts_token != view->token) {
        promise->parts_token = view->token;
        btl_ib_refragment_drop(&promise->parts, &parts_memory);
    }
    if (btl_ib_refragment_add(&promise->parts, &parts_memory, view, whole)
        != BTL_IB_PARTS_COMPLETE) {
        return false;
    }
    view->type = (*whole)->type;
    view->tag = (*whole)->tag;
    view->payload = (*whole)->data;
    view->size = (*whole)->total;
    if (btl_ib_wire_parse_whole(view) != BTL_IB_WIRE_OK) {
        sim_fail(proc->sim, "p%u sends parts of what is no segment", proc->index);
    }
    return true;
}

void wiretap_release(sim_t *sim)
{
    for (size_t i = 0; i < (size_t) sim->nprocs * sim->nprocs * sim->nrails; i++) {
        if (sim->promises[i] != NULL) {
            btl_ib_refragment_drop(&sim->promises[i]->parts, &parts_memory);
        }
    }
}

/* The running operation of `from` on `to` that a segment names, or NULL. */
static const onesided_t *operation_of(const sim_t *sim, const proc_t *from, const proc_t *to,
                                      uint32_t rail, const btl_ib_view_t *view)
{
    for (const onesided_t *op = sim->open; op != NULL; op = op->next) {
        if (op->src == from->index && op->dst == to->index && op->rail == rail
            && op->src_life == from->life && op->op.id == view->op.id && view->op.id != 0) {
            return op;
        }
    }
    return NULL;
}

/* Requests are what their operation says, and nothing of one that is over is sent. */
static void check_request(proc_t *proc, const proc_t *to, uint32_t rail, const btl_ib_view_t *view)
{
    const onesided_t *op = operation_of(proc->sim, proc, to, rail, view);
    bool put = view->type == BTL_IB_TYPE_PUT;

    if (op == NULL && !put) {
        return; /* a copy: its answer came before its acknowledgement */
    }
    if (op == NULL || view->op.key.id != op->op.key.id || view->op.key.secret != op->op.key.secret
        || view->op.offset < op->op.offset
        || (view->type != BTL_IB_TYPE_ATOMIC && view->op.end != op->op.offset + op->op.size)) {
        sim_fail(proc->sim, "p%u sends a request of type %u that none of its operations is",
                 proc->index, view->type);
    }
    uint64_t at = view->op.offset - op->op.offset;
    if (put && memcmp((uint8_t *) op->op.local + at, view->payload, view->size) != 0) {
        sim_fail(proc->sim, "p%u sends other bytes for PUT %u than it was given", proc->index,
                 op->id);
    }
}

/* A process that restarted numbers its operations anew: what still answers those of the life
 * before, to its old token, may name one of the new. */
static void check_answer(proc_t *proc, const proc_t *to, uint32_t rail, const btl_ib_view_t *view)
{
    const onesided_t *op = operation_of(proc->sim, to, proc, rail, view);
    bool present = proc_link(proc, to->index, rail)->peer_life == to->life;

    if (op != NULL && present
        && (op->op.kind != BTL_IB_OP_GET || view->op.offset > op->op.size
            || view->size > op->op.size - view->op.offset)) {
        sim_fail(proc->sim, "p%u sends p%u more than GET %u asks for", proc->index, to->index,
                 op->id);
    }
}

static void check_one_sided(proc_t *proc, const proc_t *to, uint32_t rail,
                            const btl_ib_view_t *view)
{
    switch (view->type) {
    case BTL_IB_TYPE_PUT:
    case BTL_IB_TYPE_GET:
    case BTL_IB_TYPE_ATOMIC:
        check_request(proc, to, rail, view);
        break;
    case BTL_IB_TYPE_GOT:
        check_answer(proc, to, rail, view);
        break;
    case BTL_IB_TYPE_VOID:
        if (!(view->flags & BTL_IB_FLAG_RETRANSMISSION) && view->bytes == 0
            && !(proc->checks_path && view->flags & BTL_IB_FLAG_CONNECT)) {
            sim_fail(proc->sim, "p%u sends a VOID that was nothing before", proc->index);
        }
        break;
    default:
        break;
    }
}

static void note_acked(promise_t *promise, uint32_t channel, uint32_t ack)
{
    if (channel < BTL_IB_QUEUES_MAX && (int32_t) (ack - promise->acked[channel]) > 0) {
        promise->acked[channel] = ack;
    }
}

static void note_acks(promise_t *promise, const btl_ib_view_t *view)
{
    btl_ib_ack_block_t block;
    uint32_t offset = 0;

    if (view->type == BTL_IB_TYPE_ACK) {
        while (btl_ib_wire_next_block(view, &offset, &block)) {
            note_acked(promise, block.channel, block.ack);
        }
    } else if (view->flags & BTL_IB_FLAG_ACK) {
        note_acked(promise, view->ack_channel, view->ack);
    }
}

/* A datagram of `from` was handed to the engine of `proc`: which credits were used up, and what is
 * acknowledged? (Copies are counted as well, which errs on the engine's side.) */
void wiretap_arrived(proc_t *proc, uint32_t rail, uint32_t from, uint8_t *data, uint32_t size)
{
    proc_t *peer = &proc->sim->procs[from];
    btl_ib_view_t view;

    uint8_t *plain = proc->sim->plain;

    size = protection_open(proc->sim, data, size, plain);
    if (size == 0 || btl_ib_wire_parse(plain, size, &view) != BTL_IB_WIRE_OK) {
        return;
    }
    if (btl_ib_type_is_sequenced(view.type)) {
        promise_t *promise = promise_of(proc->sim, peer, proc->index, rail);
        promise->arrived[view.channel] += view.type == BTL_IB_TYPE_SKIP ? view.skip : 1;
    }
    if (view.type != BTL_IB_TYPE_CLOSE) {
        promise_t *promise = current_promise(proc->sim, proc, peer, rail);
        if (promise != NULL) {
            note_acks(promise, &view);
        }
    }
}

/* If datagrams are to be encrypted nothing of the payload can be read. */
static void check_hidden(sim_t *sim, const uint8_t *data, uint32_t size, const btl_ib_view_t *view)
{
    const uint8_t *hidden = data + (size - view->size);

    for (uint32_t i = 0; sim->protection.ops->apart && i + 8 <= view->size; i += 8) {
        if (memcmp(hidden + i, view->payload + i, 8) == 0) {
            sim_fail(sim, "payload is sent in the clear");
        }
    }
}

/* What no flag or type calls for is 0. */
static void check_unused(const proc_t *proc, const uint8_t *plain, const btl_ib_view_t *view)
{
    btl_ib_wire_header_t header;
    bool numbered = btl_ib_type_is_sequenced(view->type) || view->flags & BTL_IB_FLAG_READY;
    bool acks = view->flags & BTL_IB_FLAG_ACK, echoes = view->flags & BTL_IB_FLAG_ECHO;

    memcpy(&header, plain, sizeof(header));
    if ((!numbered && (header.seq != 0 || (header.channels & 0xf) != 0))
        || (!acks && (header.ack != 0 || header.credits != 0 || header.channels >> 4 != 0))
        || (!echoes && (header.echo != 0 || header.hold != 0 || header.poll_gap != 0))) {
        sim_fail(proc->sim, "p%u sends type %u, flags %02x with fields that it has not",
                 proc->index, view->type, view->flags);
    }
}

/* Does an ACK of `peer` to `proc` hold a block for each channel? If not, the second half of it may
 * come too late to prevent that a segment is taken for lost. */
static bool one_ack_tells_all(const proc_t *proc, const proc_t *peer, uint32_t rail)
{
    uint32_t room = table_of(proc, rail)->q[0].size;

    room = room < BTL_IB_SEGMENT_SMALL ? room : BTL_IB_SEGMENT_SMALL;
    uint32_t needed = sizeof(btl_ib_wire_header_t) + sizeof(btl_ib_wire_connect_t)
                      + proc->sim->protection.ops->trailer + (uint32_t) sizeof(btl_ib_wire_ecn_t)
                      + table_of(peer, rail)->count * (uint32_t) sizeof(btl_ib_wire_ack_t);

    return needed <= room;
}

/* A connection whose rail failed goes by another: its token tells. */
static uint32_t rail_of(proc_t *proc, uint32_t peer, uint32_t rail, const btl_ib_view_t *view)
{
    for (uint32_t i = 0; i < proc->sim->nrails; i++) {
        const link_t *link = proc_link(proc, peer, i);
        if ((link->conn != NULL && inside_token(link->conn) == view->token)
            || (link->passive != NULL && inside_token(link->passive) == view->token)) {
            return i;
        }
    }
    return rail;
}

uint32_t wiretap(proc_t *proc, uint32_t rail, uint32_t peer, uint8_t channel, uint8_t *data,
                 uint32_t size)
{
    sim_t *sim = proc->sim;
    proc_t *to = &sim->procs[peer];
    if ((data[0] & 0xf) == BTL_IB_TYPE_PATH_RESPONSE) { /* of no connection, under no key */
        proc->datagrams++;
        return rail;
    }
    btl_ib_view_t view = {0};
    uint32_t opened = protection_open(sim, data, size, sim->plain);
    btl_ib_wire_error_t error = btl_ib_wire_parse(sim->plain, opened, &view);
    uint64_t pair;
    uint32_t head, conn;

    memcpy(&pair, data + offsetof(btl_ib_wire_header_t, seq), sizeof(pair));
    memcpy(&head, data, sizeof(head));
    memcpy(&conn, data + offsetof(btl_ib_wire_header_t, connection), sizeof(conn));
    pair = BTL_IB_LE64(pair);
    sim_trace(sim, T_TX, proc->index, peer, proc->life, __builtin_bswap32(BTL_IB_LE32(head)),
              pair << 32 | pair >> 32, (uint64_t) BTL_IB_LE32(conn) << 32 | size);
    if (error != BTL_IB_WIRE_OK) {
        sim_fail(sim, "p%u sends a malformed datagram (error %d)", proc->index, error);
    }
    const btl_ib_queue_table_t *table = table_of(to, rail);
    if (table->count > 0
        && (channel >= table->count || size > table->q[channel].size
            || size > proc_attr(to, rail)->max_datagram)) {
        sim_fail(sim, "p%u sends %u bytes on channel %u, too long for p%u", proc->index, size,
                 channel, peer);
    }
    rail = rail_of(proc, peer, rail, &view);
    check_hidden(sim, data, opened, &view);
    check_unused(proc, sim->plain, &view);
    proc->datagrams++;
    if (view.type == BTL_IB_TYPE_ACK) {
        proc->acks++;
    }
    if (view.flags & BTL_IB_FLAG_RETRANSMISSION) {
        proc->again++;
        /* A SKIP may have waited for a sign of life of the peer; a sender that changes its path
         * sends all again. What comes first from an address that is not the published one waits
         * until that has answered a challenge. */
        bool rest = sim->resting && !rail_unpublished(proc->rails[rail])
                    && (to->rails[rail] == NULL || !rail_unpublished(to->rails[rail]))
                    && sim->hole == 0 && view.type != BTL_IB_TYPE_SKIP
                    && one_ack_tells_all(proc, to, rail) && run_steady(sim, proc, to, rail)
                    && btl_ib_engine_counters(proc->engine)->failovers == 0;
        if (sim->clean || rest) {
            sim_fail(sim, "p%u sends p%u sequence %u of channel %u again, on a clean network",
                     proc->index, peer, view.seq, view.channel);
        }
    }
    note_grants(proc, to, rail, &view);
    if (btl_ib_type_is_sequenced(view.type)) {
        check_credit(proc, to, rail, &view);
    }
    btl_ib_refragment_t *whole = NULL;
    if (view.type == BTL_IB_TYPE_PART && !put_together(proc, peer, rail, &view, &whole)) {
        return rail;
    }
    check_one_sided(proc, to, rail, &view);
    if (whole != NULL || !(view.flags & BTL_IB_FLAG_RETRANSMISSION)) {
        note_messages(proc, peer, rail, &view);
    }
    free(whole);
    return rail;
}
