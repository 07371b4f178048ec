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
    QUIET_US = 2000, /* a write that is not lost arrives sooner */
};

/* The end of a slot, big-endian. */
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

/* ---- check ---- */

/*
 * The check is a hash of the datagram, padded with zeros, and of its trailer. In slots of up to
 * BTL_IB_RC_EAGER_SLOT bytes it goes word by word. In long ones it has two sums, of the even and
 * the odd words, so that a processor multiplies two words at once; each step has fewer
 * instructions. A product spreads bits upwards only, so a rotation brings the upper bits down for
 * the next product.
 */

static uint64_t check_begin(const trailer_t *trailer)
{
    return (uint64_t) trailer->sends << 32 | (uint64_t) trailer->size << 16 | trailer->turn;
}

static uint64_t check_add(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 29;
}

static uint64_t rotated_product(uint64_t word)
{
    const uint64_t product = word * UINT64_C(0x9e3779b97f4a7c15);

    return product >> 29 | product << 35;
}

static uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof(word));
    return word;
}

/* Returns the hash of a datagram in a long slot. */
static uint64_t check_long(uint64_t begun, const uint8_t *bytes, uint32_t size)
{
    const uint8_t *pairs_end = bytes + size / (2 * GRAIN) * (2 * GRAIN);
    uint64_t even = begun, odd = ~begun, last = 0;
    uint32_t left = size % (2 * GRAIN);

    for (; bytes != pairs_end; bytes += 2 * GRAIN) {
        even = rotated_product(even ^ word_at(bytes));
        odd = rotated_product(odd ^ word_at(bytes + GRAIN));
    }
    if (left >= GRAIN) {
        even = rotated_product(even ^ word_at(bytes));
        bytes += GRAIN;
        left -= GRAIN;
    }
    memcpy(&last, bytes, left);
    return rotated_product(rotated_product(even ^ last) + odd);
}

static uint64_t check_end(uint64_t sum)
{
    return sum | 1; /* fresh memory is zero */
}

static uint16_t turn_of(uint32_t number, uint32_t slots)
{
    return htobe16((uint16_t) (number / slots + 1));
}

/* ---- sizes ---- */

/* Returns the bytes of a slot for a queue: `inlined`, as many as are written inline, or more if the
 * user wants datagrams of `size` bytes (0: the user does not say). A slot holds no more than the
 * queue's buffers. */
static uint32_t slot_bytes(const btl_ib_rc_rxq_t *queue, uint32_t size, uint32_t inlined)
{
    const uint32_t most =
        size == 0 ? inlined
                  : btl_ib_verbs_min(btl_ib_rc_rx_stride(size + BTL_IB_RC_EAGER_TRAILER),
                                     BTL_IB_RC_EAGER_LONG);

    return btl_ib_verbs_min(queue->size + BTL_IB_RC_EAGER_TRAILER, most) / BTL_IB_VERBS_LINE
           * BTL_IB_VERBS_LINE;
}

void btl_ib_rc_eagers_plan(btl_ib_rc_eagers_t *eagers, const btl_ib_rc_port_t *port,
                           const btl_ib_rc_rxqs_t *rxqs, const btl_ib_open_rc_t *wanted)
{
    const uint32_t inlined =
        btl_ib_verbs_min(port->verbs.base.attr.inline_size, BTL_IB_RC_EAGER_SLOT);
    uint32_t slots = BTL_IB_RC_EAGER_SLOTS;

    while (slots > wanted->eager_slots) {
        slots /= 2;
    }
    *eagers = (btl_ib_rc_eagers_t){
        .port = port,
        .peers = btl_ib_verbs_min(wanted->eager_peers, BTL_IB_RC_EAGER_PEERS),
        .slots = slots,
        .threshold =
            wanted->eager_threshold != 0 ? wanted->eager_threshold : BTL_IB_RC_EAGER_THRESHOLD,
        .period = (uint64_t) wanted->eager_period * 1000 * 1000,
    };
    if (port->iwarp || inlined == 0) {
        eagers->peers = 0;
    }
    for (uint32_t i = 0; i < rxqs->count && eagers->peers > 0; i++) {
        const btl_ib_rc_rxq_t *queue = &rxqs->queue[i];
        const bool used = i == 0 || rxqs->queue[i - 1].size < wanted->eager_size;
        eagers->slot[i] =
            used && !queue->shared ? slot_bytes(queue, wanted->eager_size, inlined) : 0;
        eagers->longest = eagers->slot[i] > eagers->longest ? eagers->slot[i] : eagers->longest;
    }
}

/* ---- a ring's life ---- */

/* Makes a ring in `memory`; with the first ring, the copies, too. Returns 0 or an errno. */
static int ring_make(btl_ib_rc_eager_t *eager, btl_ib_rc_eagers_t *eagers, uint8_t *memory)
{
    if (eagers->copies == NULL) {
        eagers->copies = aligned_alloc(BTL_IB_VERBS_LINE, btl_ib_rc_eagers_copied(eagers));
        for (uint32_t i = 0; i < BTL_IB_RC_EAGER_COPIES; i++) {
            eagers->copy[i] = (uint8_t) i;
        }
    }
    eager->slot = calloc(eagers->slots, sizeof(*eager->slot));
    eager->mr =
        ibv_reg_mr(eagers->port->verbs.pd, memory, btl_ib_rc_eager_bytes(eagers, eager->channel),
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (eager->mr == NULL) {
        return errno;
    }
    if (eager->slot == NULL || eagers->copies == NULL) {
        return ENOMEM;
    }
    return -btl_ib_rc_rx_make(&eager->rx, eager->conn, eagers->slots,
                              eagers->slot[eager->channel] - BTL_IB_RC_EAGER_TRAILER, 0, memory,
                              eager->mr->lkey, 0);
}

btl_ib_rc_eager_t *btl_ib_rc_eager_new(btl_ib_rc_eagers_t *eagers, struct btl_ib_rc_conn *conn,
                                       uint8_t channel, btl_ib_rc_credit_t *credit,
                                       const btl_ib_rc_address_t *peer, uint8_t *memory)
{
    const btl_ib_verbs_t *verbs = &eagers->port->verbs;
    btl_ib_rc_eager_t *eager = calloc(1, sizeof(*eager));
    int error = ENOMEM;

    if (eager != NULL) {
        eager->conn = conn;
        eager->channel = channel;
        eager->credit = credit;
        eager->peer = peer;
        error = ring_make(eager, eagers, memory);
    }
    if (error == 0) {
        btl_ib_rc_credit_set_eager(credit, eagers->slots, 0, false);
        return eager;
    }
    BTL_IB_VERBS_LOG(verbs, 10, "%s: no ring for eager RDMA of %zu bytes: %s", verbs->base.name,
                     btl_ib_rc_eager_bytes(eagers, channel), strerror(error));
    if (eager != NULL) {
        btl_ib_verbs_mem_deregister(NULL, eager->mr);
    }
    btl_ib_rc_eager_free(eager);
    return NULL;
}

void btl_ib_rc_eager_free(btl_ib_rc_eager_t *eager)
{
    if (eager != NULL) {
        free(eager->rx.buffer);
        free(eager->slot);
        free(eager);
    }
}

/* Puts a ring's state into the credit word, and writes the word if it is due. */
static void ring_update(btl_ib_rc_eager_t *eager)
{
    btl_ib_rc_credit_set_eager(eager->credit, eager->rx.count, eager->freed, eager->on);
    btl_ib_rc_credit_update(eager->credit);
}

/* ---- sending ---- */

/* Returns the hash of a datagram, which is in a slot of `slot` bytes. */
static uint64_t check_slot(uint32_t slot, const trailer_t *trailer, const uint8_t *bytes,
                           uint32_t size)
{
    uint64_t sum = check_begin(trailer);
    uint64_t last = 0;
    uint32_t at = 0;

    if (slot > BTL_IB_RC_EAGER_SLOT) {
        return check_long(sum, bytes, size);
    }
    for (; at + GRAIN <= size; at += GRAIN) {
        sum = check_add(sum, word_at(bytes + at));
    }
    memcpy(&last, bytes + at, size - at);
    return at < size ? check_add(sum, last) : sum;
}

/* True if a write of so many bytes goes inline. */
static bool is_inline(const btl_ib_rc_credit_t *credit, uint32_t bytes)
{
    return bytes <= btl_ib_verbs_min(credit->sq->inline_size, BTL_IB_RC_EAGER_SLOT);
}

bool btl_ib_rc_eager_fits(const btl_ib_rc_eager_tx_t *tx, const btl_ib_rc_credit_t *credit,
                          uint32_t size, uint32_t more)
{
    const btl_ib_rc_credit_word_t *word = &credit->line->in;
    const uint32_t bytes = padded(size) + BTL_IB_RC_EAGER_TRAILER;

    if (tx->slots == 0 || btl_ib_rc_credit_told(&word->eager_on) == 0) {
        return false;
    }
    const uint32_t used = tx->used + more - btl_ib_rc_credit_told(&word->eager_freed);
    return used < tx->slots && bytes <= tx->slot
           && (is_inline(credit, bytes)
               /* The memory of a datagram of up to inline_size bytes is free when send() returns,
                * so the device must not fetch it later. */
               || (tx->tails != NULL && size > credit->sq->inline_size));
}

/* Fills in the trailer of a datagram, at its end. */
static void fill_trailer(uint8_t *at, const trailer_t *begun, uint64_t sum)
{
    trailer_t trailer = *begun;

    trailer.check = check_end(sum);
    memcpy(at, &trailer, sizeof(trailer));
}

/* Makes a write of two pieces that the device fetches: the datagram, and its tail. */
static void fill_long(const btl_ib_rc_eager_tx_t *tx, const btl_ib_tx_t *datagram,
                      const trailer_t *trailer, uint32_t depth, struct ibv_send_wr *wr)
{
    const uint32_t size = datagram->size;
    uint8_t *tail = tx->tails + (size_t) ((uint32_t) wr->wr_id % depth) * BTL_IB_RC_EAGER_TAIL;

    memset(tail, 0, GRAIN);
    fill_trailer(tail + padded(size) - size, trailer,
                 check_slot(tx->slot, trailer, datagram->iov[0].iov_base, size));
    wr->sg_list[1] = (struct ibv_sge){.addr = (uintptr_t) tail,
                                      .length = padded(size) - size + BTL_IB_RC_EAGER_TRAILER,
                                      .lkey = tx->tail_key};
    wr->num_sge = 2;
}

void btl_ib_rc_eager_fill(const btl_ib_rc_eager_tx_t *tx, const btl_ib_tx_t *datagram,
                          uint32_t number, uint32_t sends, uint64_t *staged, uint32_t depth,
                          struct ibv_send_wr *wr)
{
    const uint32_t size = datagram->size;
    const uint32_t bytes = padded(size) + BTL_IB_RC_EAGER_TRAILER;
    const uint32_t slot = number % tx->slots;
    uint8_t *end = (uint8_t *) staged + padded(size);
    const trailer_t trailer = {.sends = htobe32(sends),
                               .size = htobe16((uint16_t) size),
                               .turn = turn_of(number, tx->slots)};

    wr->opcode = IBV_WR_RDMA_WRITE;
    wr->wr.rdma.remote_addr = tx->remote + (uint64_t) (slot + 1) * tx->slot - bytes;
    wr->wr.rdma.rkey = tx->key;
    if ((wr->send_flags & IBV_SEND_INLINE) == 0) {
        fill_long(tx, datagram, &trailer, depth, wr);
        return;
    }
    memset(end - (size > 0 ? GRAIN : 0), 0, GRAIN);
    memcpy(staged, datagram->iov[0].iov_base, size);
    fill_trailer(end, &trailer, check_slot(tx->slot, &trailer, (uint8_t *) staged, size));
    wr->sg_list->addr = (uintptr_t) staged;
    wr->sg_list->length = bytes;
}

/* ---- receiving ---- */

/*
 * The peer may write to a ring at any time, even to slots that it should leave alone. So a datagram
 * is copied once, and only the copy is checked and parsed: what was checked is what is parsed. The
 * padding, which is zero, is not read.
 */

static uint64_t *copy_at(const btl_ib_rc_eagers_t *eagers, uint32_t number)
{
    return (uint64_t *) (void *) (eagers->copies + (size_t) number * eagers->longest);
}

/* Copies the next datagram in a ring to `to`, if all of it is there and no message that was sent
 * before it is missing. Returns its size; 0: nothing was copied that counts. */
static uint32_t copy_next(const btl_ib_rc_eager_t *eager, uint64_t *to)
{
    const uint32_t slots = eager->rx.count;
    const uint8_t *slot = btl_ib_verbs_rx_data(&eager->rx.buffer[eager->taken % slots]);
    const volatile uint64_t *end = (const void *) (slot + eager->rx.size);
    const uint64_t head = end[0];
    trailer_t trailer;

    memcpy(&trailer, &head, sizeof(head));
    if (eager->taken - eager->freed == slots || trailer.turn != turn_of(eager->taken, slots)) {
        return 0;
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    const uint32_t size = be16toh(trailer.size);
    if (size == 0 || size > eager->rx.size || be32toh(trailer.sends) != eager->sends) {
        return 0;
    }
    memcpy(to, slot + eager->rx.size - padded(size), size);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* no compiler reads it from the slot again */
    const uint64_t sum =
        check_slot(eager->rx.size + BTL_IB_RC_EAGER_TRAILER, &trailer, (const uint8_t *) to, size);
    return end[1] == check_end(sum) ? size : 0;
}

int btl_ib_rc_eager_take(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, btl_ib_addr_t from,
                         btl_ib_event_t *events, int max)
{
    int count = 0;

    while (count < max && !btl_ib_rc_eagers_full(eagers)) {
        const uint8_t number = eagers->copy[eagers->copies_used];
        const uint32_t slot = eager->taken % eager->rx.count;
        const uint32_t size = copy_next(eager, copy_at(eagers, number));
        if (size == 0) {
            break;
        }
        events[count++] = (btl_ib_event_t){
            .type = BTL_IB_EVENT_RECV,
            .size = size,
            .from = from,
            .data = (uint8_t *) copy_at(eagers, number),
            .buffer = &eager->rx.buffer[slot],
        };
        eager->slot[slot].copy = number;
        eagers->copies_used++;
        eager->taken++;
    }
    eagers->taken += (uint32_t) count;
    return count;
}

void btl_ib_rc_eager_release_copies(btl_ib_rc_eagers_t *eagers, const btl_ib_rc_eager_t *eager,
                                    void *const *buffers, int n)
{
    for (int i = 0; i < n; i++) {
        const btl_ib_verbs_rx_buffer_t *buffer = buffers[i];
        eagers->copy[--eagers->copies_used] = eager->slot[buffer - eager->rx.buffer].copy;
    }
}

void btl_ib_rc_eager_repost(btl_ib_rc_eager_t *eager, void *const *buffers, int n)
{
    const uint32_t slots = eager->rx.count;

    for (int i = 0; i < n; i++) {
        eager->slot[(btl_ib_verbs_rx_buffer_t *) buffers[i] - eager->rx.buffer].returned = true;
    }
    while (eager->freed != eager->taken && eager->slot[eager->freed % slots].returned) {
        eager->slot[eager->freed++ % slots].returned = false;
    }
    ring_update(eager);
}

/* ---- which peers may write ---- */

static void ring_log(const btl_ib_rc_eagers_t *eagers, const btl_ib_rc_eager_t *eager,
                     const char *what)
{
    const btl_ib_verbs_t *verbs = &eagers->port->verbs;
    char text[BTL_IB_RC_ADDRESS_TEXT];

    BTL_IB_VERBS_LOG(verbs, 10, "%s: peer %s: eager RDMA %s", verbs->base.name,
                     btl_ib_rc_address_format(eager->peer, text, sizeof(text)), what);
}

static void ring_leave_on(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager)
{
    uint32_t i = 0;

    while (eagers->on[i] != eager) {
        i++;
    }
    eagers->on[i] = eagers->on[--eagers->count];
    eagers->writers[eager->channel]--;
    eager->on = false;
    eager->shorts = 0;
}

/* Takes a ring out of eagers->off, if it is there. */
static void ring_leave_off(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager)
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
        ring_leave_on(eagers, eager);
    } else if (eager != NULL) {
        ring_leave_off(eagers, eager);
    }
}

void btl_ib_rc_eager_received(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, uint32_t size)
{
    const bool counts = size > 0 && size <= eager->rx.size;

    eager->sends++;
    if (!counts || eager->on || !eager->credit->open || ++eager->shorts < eagers->threshold
        || eager->fading) {
        return;
    }
    if (eagers->writers[eager->channel] == eagers->peers
        || eagers->count == BTL_IB_RC_EAGER_RINGS) {
        eagers->waited[eager->channel] = true;
        return;
    }
    eager->reviewed = eager->taken;
    ring_leave_off(eagers, eager);
    eager->on = true;
    eagers->on[eagers->count++] = eager;
    eagers->writers[eager->channel]++;
    eagers->begun++;
    ring_log(eagers, eager, "begins");
    ring_update(eager);
}

static void ring_turn_off(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager)
{
    ring_leave_on(eagers, eager);
    eager->next_off = eagers->off;
    eagers->off = eager;
    eager->fading = true;
    eager->quiet_at = 0;
    eagers->fading++;
    eagers->ended++;
    ring_log(eagers, eager, "ends");
    ring_update(eager);
}

void btl_ib_rc_eagers_review(btl_ib_rc_eagers_t *eagers, uint64_t now)
{
    if (eagers->period == 0 || eagers->count == 0 || now - eagers->reviewed_at < eagers->period) {
        return;
    }
    eagers->reviewed_at = now;
    for (uint32_t i = eagers->count; i-- > 0;) { /* downwards: the last ring fills a gap */
        btl_ib_rc_eager_t *eager = eagers->on[i];
        const uint32_t sent = eager->taken - eager->reviewed;
        eager->reviewed = eager->taken;
        if (sent < eagers->threshold && eagers->waited[eager->channel]) {
            ring_turn_off(eagers, eager);
        }
    }
    memset(eagers->waited, 0, sizeof(eagers->waited));
}

void btl_ib_rc_eager_fade(btl_ib_rc_eagers_t *eagers, btl_ib_rc_eager_t *eager, uint64_t now)
{
    btl_ib_rc_credit_update(eager->credit); /* the send queue may have been full before */
    if (!btl_ib_rc_credit_eager_off_known(eager->credit)) {
        return;
    }
    eager->quiet_at = eager->quiet_at != 0 ? eager->quiet_at : now + QUIET_US;
    if (now < eager->quiet_at || btl_ib_rc_eagers_full(eagers)) {
        return;
    }
    /* The copy is not used: a datagram that is there is left for the next poll. */
    if (copy_next(eager, copy_at(eagers, eagers->copy[eagers->copies_used])) == 0) {
        eager->fading = false;
        eagers->fading--;
    }
}

bool btl_ib_rc_eagers_turn_off(btl_ib_rc_eagers_t *eagers)
{
    while (eagers->count > 0) {
        ring_turn_off(eagers, eagers->on[0]);
    }
    return eagers->fading == 0;
}

void btl_ib_rc_eagers_stop(const btl_ib_rc_eagers_t *eagers)
{
    if (eagers->begun > 0) { /* so the transport was opened, and `port` is set */
        const btl_ib_verbs_t *verbs = &eagers->port->verbs;

        BTL_IB_VERBS_LOG(verbs, 10,
                         "%s: eager RDMA: %" PRIu64 " messages, begun %u times, ended %u times",
                         verbs->base.name, eagers->taken, eagers->begun, eagers->ended);
    }
}
