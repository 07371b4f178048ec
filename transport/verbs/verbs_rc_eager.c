/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_eager.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRAIN = 8,       /* bytes to which datagrams are padded */
    QUIET_US = 2000, /* a write that is not lost is on its way for less */
};

/* What stands at the end of a slot, big-endian. */
typedef struct trailer {
    uint32_t sends;
    uint16_t size;
    uint16_t turn;
    uint64_t check;
} trailer_t;

static_assert(sizeof(trailer_t) == BTL_IB_RC_EAGER_TRAILER, "as drawn");

static uint32_t padded(uint32_t size)
{
    return (size + GRAIN - 1) / GRAIN * GRAIN;
}

/* Hash a datagram that is padded with zeros, and its trailer. `at` is aligned to 8. */
static uint64_t check_of(const uint8_t *at, uint32_t size, const trailer_t *trailer)
{
    uint64_t sum = (uint64_t) trailer->sends << 32 | (uint64_t) trailer->size << 16 | trailer->turn;
    uint64_t word;

    for (uint32_t i = 0; i < padded(size); i += GRAIN) {
        memcpy(&word, at + i, sizeof(word));
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    return sum | 1; /* never that of fresh memory */
}

static uint16_t turn_of(uint32_t number, uint32_t slots)
{
    return htobe16((uint16_t) (number / slots + 1));
}

/* ---- sizes ---- */

/* A slot holds what the first queue does, as far as it goes inline. */
void btl_ib_rc_eagers_plan(btl_ib_rc_eagers_t *eagers, const btl_ib_rc_port_t *port,
                           const btl_ib_rc_rxq_t *first, const btl_ib_open_rc_t *wanted)
{
    uint32_t bytes = btl_ib_verbs_min(first->size + BTL_IB_RC_EAGER_TRAILER, BTL_IB_RC_EAGER_SLOT);
    uint32_t slots = BTL_IB_RC_EAGER_SLOTS;

    if (wanted->eager_size != 0) {
        bytes = btl_ib_verbs_min(
            bytes, btl_ib_rc_rx_stride(wanted->eager_size + BTL_IB_RC_EAGER_TRAILER));
    }
    bytes = btl_ib_verbs_min(bytes, port->verbs.base.attr.inline_size);
    while (slots > wanted->eager_slots) {
        slots /= 2;
    }
    *eagers = (btl_ib_rc_eagers_t){
        .port = port,
        .peers = btl_ib_verbs_min(wanted->eager_peers, BTL_IB_RC_EAGER_PEERS),
        .slots = slots,
        .slot = bytes / BTL_IB_VERBS_LINE * BTL_IB_VERBS_LINE,
    };
    if (port->iwarp || first->shared || eagers->slot == 0) {
        eagers->peers = 0;
    }
}

/* ---- a ring's life ---- */

/* Returns 0 or an errno. */
static int make(btl_ib_rc_eager_t *eager, const btl_ib_rc_eagers_t *eagers, uint8_t *memory)
{
    eager->returned = calloc(eagers->slots, sizeof(*eager->returned));
    eager->mr = ibv_reg_mr(eagers->port->verbs.pd, memory, btl_ib_rc_eager_bytes(eagers, 0),
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (eager->mr == NULL) {
        return errno;
    }
    if (eager->returned == NULL) {
        return ENOMEM;
    }
    return -btl_ib_rc_rx_make(&eager->rx, eager->conn, eagers->slots,
                              eagers->slot - BTL_IB_RC_EAGER_TRAILER, 0, memory, eager->mr->lkey,
                              0);
}

btl_ib_rc_eager_t *btl_ib_rc_eager_new(const btl_ib_rc_eagers_t *eagers,
                                       struct btl_ib_rc_conn *conn, btl_ib_rc_credit_t *credit,
                                       const btl_ib_rc_address_t *peer, uint8_t *memory)
{
    const btl_ib_verbs_t *verbs = &eagers->port->verbs;
    btl_ib_rc_eager_t *eager = calloc(1, sizeof(*eager));
    int error = ENOMEM;

    if (eager != NULL) {
        eager->conn = conn;
        eager->credit = credit;
        eager->peer = peer;
        error = make(eager, eagers, memory);
    }
    if (error == 0) {
        btl_ib_rc_credit_set_eager(credit, eagers->slots, 0, false);
        return eager;
    }
    BTL_IB_VERBS_LOG(verbs, 10, "%s: no ring for eager RDMA of %zu bytes: %s", verbs->base.name,
                     btl_ib_rc_eager_bytes(eagers, 0), strerror(error));
    btl_ib_rc_eager_release(eager);
    btl_ib_rc_eager_free(eager);
    return NULL;
}

void btl_ib_rc_eager_free(btl_ib_rc_eager_t *eager)
{
    if (eager != NULL) {
        free(eager->rx.buffer);
        free(eager->returned);
        free(eager);
    }
}

/* Tell the peer what has changed. */
static void update(btl_ib_rc_eager_t *eager)
{
    btl_ib_rc_credit_set_eager(eager->credit, eager->rx.count, eager->freed, eager->on);
    btl_ib_rc_credit_update(eager->credit);
}

/* ---- sending ---- */

bool btl_ib_rc_eager_fits(const btl_ib_rc_eager_tx_t *tx, const btl_ib_rc_credit_t *credit,
                          uint32_t size, uint32_t more)
{
    const btl_ib_rc_credit_word_t *word = &credit->line->in;
    const uint32_t bytes = padded(size) + BTL_IB_RC_EAGER_TRAILER;

    if (tx->slots == 0 || btl_ib_rc_credit_told(&word->eager_on) == 0) {
        return false;
    }
    const uint32_t used = tx->used + more - btl_ib_rc_credit_told(&word->eager_freed);
    return used < tx->slots && bytes <= tx->slot && bytes <= credit->sq->inline_size;
}

void btl_ib_rc_eager_fill(const btl_ib_rc_eager_tx_t *tx, const btl_ib_tx_t *datagram,
                          uint32_t number, uint32_t sends, uint64_t *staged, struct ibv_send_wr *wr)
{
    const uint32_t size = datagram->size;
    const uint32_t slot = number % tx->slots;
    uint8_t *end = (uint8_t *) staged + padded(size);
    trailer_t trailer = {.sends = htobe32(sends),
                         .size = htobe16((uint16_t) size),
                         .turn = turn_of(number, tx->slots)};

    memset(end - (size > 0 ? GRAIN : 0), 0, GRAIN);
    memcpy(staged, datagram->iov[0].iov_base, size);
    trailer.check = check_of((uint8_t *) staged, size, &trailer);
    memcpy(end, &trailer, sizeof(trailer));
    wr->sg_list->addr = (uintptr_t) staged;
    wr->sg_list->length = padded(size) + BTL_IB_RC_EAGER_TRAILER;
    wr->opcode = IBV_WR_RDMA_WRITE;
    wr->send_flags |= IBV_SEND_INLINE;
    wr->wr.rdma.remote_addr = tx->remote + (uint64_t) (slot + 1) * tx->slot - wr->sg_list->length;
    wr->wr.rdma.rkey = tx->key;
}

/* ---- receiving ---- */

/* The next datagram in a ring if all of it is there and nothing goes before it, and its size. */
static uint8_t *next_in(const btl_ib_rc_eager_t *eager, uint32_t *size)
{
    const uint32_t slots = eager->rx.count;
    uint8_t *end = btl_ib_verbs_rx_data(&eager->rx.buffer[eager->taken % slots]) + eager->rx.size;
    const volatile trailer_t *live = (const volatile trailer_t *) (const void *) end;

    if (eager->taken - eager->freed == slots || live->turn != turn_of(eager->taken, slots)) {
        return NULL;
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    trailer_t trailer;
    memcpy(&trailer, end, sizeof(trailer));
    *size = be16toh(trailer.size);
    uint8_t *data = end - padded(*size);
    if (*size == 0 || *size > eager->rx.size || be32toh(trailer.sends) != eager->sends
        || trailer.check != check_of(data, *size, &trailer)) {
        return NULL;
    }
    return data;
}

int btl_ib_rc_eager_take(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, btl_ib_addr_t from,
                         btl_ib_event_t *events, int max)
{
    int count = 0;
    uint32_t size;
    uint8_t *data;

    while (count < max && (data = next_in(eager, &size)) != NULL) {
        events[count++] = (btl_ib_event_t){
            .type = BTL_IB_EVENT_RECV,
            .size = size,
            .from = from,
            .data = data,
            .buffer = &eager->rx.buffer[eager->taken % eager->rx.count],
        };
        eager->taken++;
        eager->recent++;
    }
    eagers->taken += (uint32_t) count;
    return count;
}

void btl_ib_rc_eager_repost(btl_ib_rc_eager_t *eager, void *const *buffers, int n)
{
    const uint32_t slots = eager->rx.count;

    for (int i = 0; i < n; i++) {
        eager->returned[(btl_ib_verbs_rx_buffer_t *) buffers[i] - eager->rx.buffer] = true;
    }
    while (eager->freed != eager->taken && eager->returned[eager->freed % slots]) {
        eager->returned[eager->freed++ % slots] = false;
    }
    update(eager);
}

/* ---- which peers may write ---- */

static void log_change(const btl_ib_rc_eagers_t *eagers, const btl_ib_rc_eager_t *eager,
                       const char *what)
{
    const btl_ib_verbs_t *verbs = &eagers->port->verbs;
    char text[BTL_IB_RC_ADDRESS_TEXT];

    BTL_IB_VERBS_LOG(verbs, 10, "%s: peer %s: eager RDMA %s", verbs->base.name,
                     btl_ib_rc_address_format(eager->peer, text, sizeof(text)), what);
}

static void leave_on(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager)
{
    uint32_t i = 0;

    while (eagers->on[i] != eager) {
        i++;
    }
    eagers->on[i] = eagers->on[--eagers->count];
    eager->on = false;
    eager->recent = 0;
}

/* Take it from the list of those that were on, if it is there. */
static void leave_off(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager)
{
    btl_ib_rc_eager_t **at = &eagers->off;

    while (*at != NULL && *at != eager) {
        at = &(*at)->next_off;
    }
    if (*at != NULL) {
        *at = eager->next_off;
        eagers->fading -= eager->fading;
    }
}

void btl_ib_rc_eager_close(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager)
{
    if (eager != NULL && eager->on) {
        leave_on(eagers, eager);
    } else if (eager != NULL) {
        leave_off(eagers, eager);
    }
}

void btl_ib_rc_eager_received(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, bool counts)
{
    eager->sends++;
    if (!counts || eager->on || !eager->credit->open || ++eager->recent < BTL_IB_RC_EAGER_THRESHOLD
        || eager->fading) {
        return;
    }
    if (eagers->count == eagers->peers) {
        eagers->rival = eager->recent > eagers->rival ? eager->recent : eagers->rival;
        return;
    }
    leave_off(eagers, eager);
    eager->on = true;
    eagers->on[eagers->count++] = eager;
    eagers->begun++;
    log_change(eagers, eager, "begins");
    update(eager);
}

static void turn_off(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager)
{
    leave_on(eagers, eager);
    eager->next_off = eagers->off;
    eagers->off = eager;
    eager->fading = true;
    eager->quiet_at = 0;
    eagers->fading++;
    eagers->ended++;
    log_change(eagers, eager, "ends");
    update(eager);
}

/* Switch off those by which fewer than so many came. */
static void turn_off_below(btl_ib_rc_eagers_t *eagers, uint32_t threshold)
{
    for (uint32_t i = eagers->count; i-- > 0;) {
        if (eagers->on[i]->recent < threshold) {
            turn_off(eagers, eagers->on[i]);
        }
    }
}

/* A peer without a place sent more than twice as much as the least busy of those that have one: let
 * it have that. It takes it with its next messages, as the other's ring has to fade. */
static void make_room(btl_ib_rc_eagers_t *eagers)
{
    btl_ib_rc_eager_t *least = eagers->on[0];

    for (uint32_t i = 1; i < eagers->count; i++) {
        least = eagers->on[i]->recent < least->recent ? eagers->on[i] : least;
    }
    if (least != NULL && eagers->rival / 2 > least->recent) {
        turn_off(eagers, least);
    }
}

void btl_ib_rc_eager_fade(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, uint64_t now)
{
    uint32_t size;

    btl_ib_rc_credit_update(eager->credit); /* if there was no room for it before */
    if (!btl_ib_rc_credit_eager_off_known(eager->credit)) {
        return;
    }
    eager->quiet_at = eager->quiet_at != 0 ? eager->quiet_at : now + QUIET_US;
    if (now >= eager->quiet_at && next_in(eager, &size) == NULL) {
        eager->fading = false;
        eagers->fading--;
    }
}

bool btl_ib_rc_eagers_turn_off(btl_ib_rc_eagers_t *eagers)
{
    turn_off_below(eagers, UINT32_MAX);
    return eagers->fading == 0;
}

bool btl_ib_rc_eagers_review(btl_ib_rc_eagers_t *eagers, uint64_t now)
{
    if (now < eagers->review_at) {
        return false;
    }
    eagers->review_at = now + BTL_IB_RC_EAGER_PERIOD;
    turn_off_below(eagers, BTL_IB_RC_EAGER_THRESHOLD);
    if (eagers->count == eagers->peers) {
        make_room(eagers);
    }
    eagers->rival = 0;
    return true;
}

void btl_ib_rc_eagers_stop(const btl_ib_rc_eagers_t *eagers)
{
    if (eagers->begun > 0) { /* then the rail was opened: there is a port */
        const btl_ib_verbs_t *verbs = &eagers->port->verbs;

        BTL_IB_VERBS_LOG(verbs, 10,
                         "%s: eager RDMA: %" PRIu64 " messages, begun %u times, ended %u times",
                         verbs->base.name, eagers->taken, eagers->begun, eagers->ended);
    }
}
